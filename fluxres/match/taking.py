"""The pools that the vector path takes in the nodes it chose, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.match.drawing import Drawing
from fluxres.match.form import Part
from fluxres.match.policy import POLICIES
from fluxres.match.rows import MatchBuilder, Taker

if TYPE_CHECKING:
    from fluxres.match.vector import Search

Int64 = NDArray[np.int64]


FEW: Final = 4
"""Up to this number, nodes are handled one by one."""


class Taking:
    """What one search takes, after its nodes are chosen.

    Args:
        search: the request in its window.
        counts: how many of each demand.
        drawing: what is charged; None for nothing.
    """

    def __init__(self, search: Search, counts: tuple[int, ...], drawing: Drawing | None) -> None:
        self._search = search
        self._counts = counts
        self._drawing = drawing
        self.rows = MatchBuilder(search.floor.typology.accounts)

    def nodes(self, nodes: Int64) -> None:
        """Take nodes exclusively, or parts of nodes that the request counts."""
        form, number = self._search.form, len(nodes)
        rows, counts = self.rows, self._counts
        vertices = self._search.level.vertices[nodes]
        assert form.node is not None  # this form has one
        outer = np.arange(number) // counts[form.node.number]
        self._draw(nodes, np.ones(number, np.int64), outer)
        if self._search.whole:
            rows.add(vertices, np.ones(number, np.int64))
            if form.outer is not None:
                rows.slot(form.outer.number, outer, vertices)
            for slot in {part.slot.number: part.slot for part in form.parts if part.slot not in (None, form.outer)}.values():
                repeats = counts[slot.number]
                rows.slot(slot.number, np.arange(number * repeats), np.repeat(vertices, repeats))
            return
        if not form.node.children:
            rows.share(vertices)
            if form.outer is not None:
                rows.empty_slot(form.outer.number, counts[form.outer.number])
            return
        if form.outer is not None:
            rows.empty_slot(form.outer.number, counts[form.outer.number])
        groups = self._repeated()
        if self._evenly(nodes, groups, outer):
            return
        for at, node in enumerate(nodes.tolist()):
            taker = Taker(self._search.pools, self._search.floor, rows, node)
            for parts, repeats in groups:
                for again in range(repeats):
                    for part in parts:
                        instance = int(outer[at]) if part.slot is form.outer else at * repeats + again
                        taker.take(part, part.units(counts), instance)
        for parts, repeats in groups:
            if parts[0].slot is not None and parts[0].slot is not form.outer:
                rows.empty_slot(parts[0].slot.number, number * repeats)

    def _repeated(self) -> list[tuple[list[Part], int]]:
        """The parts by the slot they are in, in the order written, and the number of repetitions of each slot."""
        found: list[tuple[list[Part], int]] = []
        for part in self._search.form.parts:
            inner = part.slot is not None and part.slot is not self._search.form.outer
            if found and inner and found[-1][0][0].slot is part.slot:
                found[-1][0].append(part)
            else:
                found.append(([part], self._search.form.repeats(part, self._counts) if inner else 1))
        return found

    def _evenly(self, nodes: Int64, groups: list[tuple[list[Part], int]], outer: Int64) -> bool:
        """Take the same lowest (or highest) pools of each node at once, if every node has all of them free."""
        rows, counts, form = self.rows, self._counts, self._search.form
        kinds = [part.demand.kind for parts, _ in groups for part in parts]
        if not self._are_even(nodes, kinds).all() or len(nodes) < FEW:
            return False
        for parts, repeats in groups:
            for part in parts:
                units = part.units(counts)
                vertices = self._even_pools(nodes, part, repeats * units).reshape(-1)
                if part.shares:
                    rows.share(vertices)
                else:
                    rows.add(vertices, np.ones(len(vertices), np.int64))
                if part.slot is None:
                    continue
                instances = np.repeat(outer, units) if part.slot is form.outer else np.arange(len(vertices)) // units
                if part.shares:
                    rows.empty_slot(part.slot.number, int(instances[-1]) + 1)
                else:
                    rows.slot(part.slot.number, instances, vertices)
        return True

    def _are_even(self, nodes: Int64, kinds: list[int]) -> NDArray[np.bool_]:
        """In which nodes the pools that come first are simply the lowest (or highest) ones."""
        policy, floor = self._search.policy, self._search.floor
        plain = policy.score is None or policy.by_node or policy.score is POLICIES["variation"].score
        alike = (
            plain
            and len(nodes) >= FEW
            and len(set(kinds)) == len(kinds)
            and all(
                floor.planner.columns.dtype(kind) is None
                and floor.up_pools(kind) is None
                and (policy.score is None or policy.by_node or not floor.is_varied(kind))
                for kind in kinds
            )
        )
        return ~self._search.doubtful(nodes, kinds) if alike else np.zeros(len(nodes), np.bool_)

    def _even_pools(self, nodes: Int64, part: Part, number: int) -> NDArray[np.int32]:
        """The first `number` pools of each node, one row per node."""
        first, stop = self._search.level.edges(part.demand.kind)
        steps = np.arange(number)
        at = (stop[nodes] - 1)[:, None] - steps if self._search.policy.descending else first[nodes][:, None] + steps
        pools: NDArray[np.int32] = self._search.floor.typology.vertices(part.demand.kind)[at]
        return pools

    def bundles(self, nodes: Int64, amounts: Int64, turns: Int64 | None = None) -> None:
        """Take bundles, or units: `amounts` of them in the nodes.

        Args:
            turns: the number of each instance, node after node, if they are not numbered consecutively.
        """
        form, rows, counts = self._search.form, self.rows, self._counts
        if form.sort == "bundles":
            self._draw(nodes, amounts, np.arange(int(amounts.sum())))
        if self._search.policy.node_exclusive:
            vertices = self._search.level.vertices[nodes]
            rows.add(vertices, np.ones(len(nodes), np.int64))
            if form.outer is not None:
                rows.slot(form.outer.number, np.arange(int(amounts.sum())), np.repeat(vertices, amounts))
            return
        first = np.cumsum(amounts) - amounts
        even = self._are_even(nodes, [part.demand.kind for part in form.parts])
        self._even_bundles(nodes[even], amounts[even], first[even], turns)
        for node, amount, instance in zip(nodes[~even].tolist(), amounts[~even].tolist(), first[~even].tolist(), strict=True):
            taker = Taker(self._search.pools, self._search.floor, rows, node)
            if form.sort == "units":
                taker.take(form.parts[0], amount, 0)
                continue
            for number in range(instance, instance + amount):
                for part in form.parts:
                    taker.take(part, part.units(counts), number if turns is None else int(turns[number]))
        if form.outer is not None:
            rows.empty_slot(form.outer.number, int(amounts.sum()))

    def _even_bundles(self, nodes: Int64, amounts: Int64, first: Int64, turns: Int64 | None) -> None:
        """Take a number of bundles in each of these nodes, all of whose lowest (or highest) pools are free.

        Args:
            first: the number of the first bundle in each node.
        """
        if not len(nodes):
            return
        search, form = self._search, self._search.form
        for part in form.parts:
            units = 1 if form.sort == "units" else part.units(self._counts)
            lower, upper = search.level.edges(part.demand.kind)
            lengths = amounts * units
            at = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            down = search.policy.descending
            ordinals = np.repeat(upper[nodes] - 1, lengths) - at if down else np.repeat(lower[nodes], lengths) + at
            vertices = search.floor.typology.vertices(part.demand.kind)[ordinals]
            if part.shares:
                self.rows.share(vertices)
                continue
            self.rows.add(vertices, np.ones(len(vertices), np.int64))
            if part.slot is not None:
                instances = np.repeat(first, lengths) + at // units
                self.rows.slot(part.slot.number, instances if turns is None else turns[instances], vertices)

    def _draw(self, nodes: Int64, amounts: Int64, instances: Int64) -> None:
        """Charge the nodes; `instances` of the slot around each node, or bundles one after the other."""
        if self._drawing is None:
            return
        search, form = self._search, self._search.form
        are_firm = search.whole or search.policy.node_exclusive or any(not part.shares for part in form.parts)
        self._drawing.take(self.rows, nodes, amounts, are_firm=are_firm)
        for slot, numbers, pools in self._drawing.slots(np.repeat(nodes, amounts), instances):
            self.rows.slot(slot, numbers, pools)
        for draw in form.draws:
            if draw.slot is not None:  # the slot exists even if nothing is charged in it
                every = int(amounts.sum()) * draw.repeats(self._counts) if draw.inner else int(instances[-1]) + 1
                self.rows.empty_slot(draw.slot.number, every)
