"""The vector path: nodes as bits, what is in them as numbers, and only the pools that are taken one by one.

A window is folded once over the level of nodes (one row of bits, and one row of numbers for each type that is partly used).
That leaves the nodes in which nothing is in the way by count; where a count could deceive, because different units were busy
at different moments, the units of that node are looked at.  Then nodes are taken in the order of the policy, and the
lowest (or highest) units in each.  It chooses what the traverser chooses; `tests/match` holds them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres.match import nearest, settle
from fluxres.match.demand import Plan
from fluxres.match.eligible import Eligible
from fluxres.match.floor import Floor
from fluxres.match.form import Form, Part
from fluxres.match.policy import POLICIES, Policy
from fluxres.match.result import Match
from fluxres.match.rows import Rows, Taker
from fluxres.match.situation import Situation
from fluxres.planner.bits import Words
from fluxres.planner.marks import ordinals_of

Int64 = NDArray[np.int64]
Pools = tuple[Int64, Int64]
"""Ordinals of pools of one type and the units free of each."""


class Search:
    """One request of a known form, one window."""

    def __init__(self, floor: Floor, plan: Plan, form: Form, eligible: Eligible, policy: Policy, start: int, end: int) -> None:
        self.floor = floor
        self.level = floor.refresh()
        self.plan = plan
        self.form = form
        self.eligible = eligible
        self.policy = policy
        self.start, self.end = start, end
        node = form.node
        #: Nodes are taken whole: by the request, or by the policy.
        self.whole = node is not None and (policy.node_exclusive or (node.whole if node.children else not node.shared))
        #: Only nodes nobody else touches will do.
        self.clear = self.whole or policy.node_exclusive
        self._covered = not self.clear and any(floor.planner.levels.covers_between(self.level, kind) for kind in form.kinds)
        self._peaks: dict[int, Int64 | None] = {}
        self._pools: dict[tuple[int, int], Pools] = {}

    @property
    def is_able(self) -> bool:
        """Whether this path can order the candidates as the policy wants them."""
        policy = self.policy
        return not (self.form.sort == "units" and policy.score is not None and not policy.by_node) or (
            policy.score is POLICIES["variation"].score and not self.floor.is_varied(self.form.kinds[0])
        )

    def settle(self) -> Match | None:
        """The match with the largest counts."""
        return settle.settle(self.plan, self.floor.typology, self.match)

    # -- nodes -------------------------------------------------------------------------------------------------------

    @cached_property
    def _open(self) -> Words:
        """Nodes in service and eligible through which, by what is held, the request may go."""
        marks = self.level.touched if self.clear else self.level.roof
        return self.floor.open(self.eligible, whole=self.clear) & ~marks.folded(self.start, self.end)

    def peaks(self, kind: int) -> Int64 | None:
        """Units of a type used in each node at the busiest moment; None when none are."""
        if kind not in self._peaks:
            if self.clear or self.floor.ideal:
                self._peaks[kind] = None
            else:
                level = self.floor.planner.levels.counted(self.level, kind)
                self._peaks[kind] = level.peaks(kind, self.start, self.end, self._open)
        return self._peaks[kind]

    def candidates(self, needs: dict[int, int]) -> Words:
        """Nodes with room by count."""
        found = self._open
        for kind, units in needs.items():
            if not found.any():
                break
            capacity, least = self.floor.capacity(kind)
            peaks = self.peaks(kind)
            if peaks is not None:
                # What is used may be out of service, so it is not taken from what is in service.
                found = found & self._words(self.floor.units(kind) - peaks >= units)
            if units > least:
                found = found & self._words(capacity >= units)
        return found

    def _words(self, flags: NDArray[np.bool_]) -> Words:
        packed = np.zeros(self.level.roof.width * 8, np.uint8)
        octets = np.packbits(flags, bitorder="little")
        packed[: len(octets)] = octets
        return packed.view("<u8")

    def _doubtful(self, nodes: Int64, kinds: list[int]) -> NDArray[np.bool_]:
        """Nodes of which a count may say too much."""
        if self._covered:
            return np.ones(len(nodes), np.bool_)
        found = np.zeros(len(nodes), np.bool_)
        for kind in kinds:
            peaks = self.peaks(kind)
            if peaks is not None:
                found |= peaks[nodes] > 0
        return found

    def _ordered(self, words: Words) -> Int64:
        """Nodes in the order of the policy."""
        nodes = ordinals_of(words, self.level.length)
        policy = self.policy
        if policy.score is None:
            return nodes[::-1] if policy.descending else nodes
        every = self._scores
        if every is None:
            return nodes
        scores = every[nodes]
        if len(nodes) < 2 or (scores[0] == scores).all():
            return nodes
        return nodes[np.argsort(scores, kind="stable")]

    @cached_property
    def _scores(self) -> NDArray[Any] | None:
        """Scores of all nodes; None where all are the same."""
        policy, kind = self.policy, self.plan.measured
        if policy.score is POLICIES["variation"].score:
            return self.floor.classes(self._situation)
        if not policy.by_node:
            return policy.scores(self._situation, self.level.vertices)
        if kind < 0:
            return None
        levels = self.floor.planner.levels
        peaks = None if self.floor.ideal else levels.counted(self.level, kind).peaks(kind, self.start, self.end)
        if peaks is None:
            room = self.floor.units(kind)
            if self.floor.is_even(kind):
                return None
        else:
            room = self.floor.units(kind) - peaks
        return room if policy.score is POLICIES["pack"].score else -room

    @cached_property
    def _situation(self) -> Situation:
        floor = self.floor
        return Situation(
            floor.typology, floor.planner, self.eligible, self.start, self.end, measured=self.plan.measured, ideal=floor.ideal
        )

    # -- what is in a node -------------------------------------------------------------------------------------------

    def pools(self, node: int, kind: int) -> Pools:
        """Pools of a type in one node with units free through the window, in the order of the policy."""
        found = self._pools.get((node, kind))
        if found is not None:
            return found
        floor, level = self.floor, self.level
        first, stop = level.edges(kind)
        a, b = int(first[node]), int(stop[node])
        up = floor.up_pools(kind)
        peaks = self.peaks(kind)
        is_idle = not self._covered and (peaks is None or not peaks[node])
        if is_idle and up is None and floor.planner.columns.dtype(kind) is None and self.policy.score is None:
            ordinals = np.arange(b - 1, a - 1, -1) if self.policy.descending else np.arange(a, b)
            found = self._pools[(node, kind)] = ordinals, np.ones(b - a, np.int64)
            return found
        table = floor.typology.vertices(kind)
        if self._covered:
            v = int(level.vertices[node])
            units = floor.planner.free_slice(v, int(level.ends[node]), self.start, self.end)[table[a:b] - v]
        else:
            units = floor.typology.structure.size[table[a:b]]
            if not is_idle:
                held = floor.planner.held_ordinals(kind, a, b, self.start, self.end)
                if held is not None:
                    units[held[0] - a] -= held[1].astype(np.int64)
        if up is not None:
            units = np.where(up[a:b], units, 0)
        ordinals = units.nonzero()[0]
        units = units[ordinals]
        ordinals = ordinals + a
        order = self._inner_order(table, ordinals, kind)
        if order is not None:
            ordinals, units = ordinals[order], units[order]
        self._pools[(node, kind)] = ordinals, units
        return ordinals, units

    def _inner_order(self, table: NDArray[np.int32], ordinals: Int64, kind: int) -> Int64 | None:
        policy = self.policy
        if policy.score is None:
            return np.arange(len(ordinals))[::-1] if policy.descending else None
        if policy.by_node or (policy.score is POLICIES["variation"].score and not self.floor.is_varied(kind)):
            return None
        return np.argsort(policy.scores(self._situation, table[ordinals]), kind="stable")

    def _fits_into(self, node: int, needs: dict[int, int]) -> int:
        """How many times what is needed is free in one node, unit by unit."""
        return min(int(self.pools(node, kind)[1].sum()) // units for kind, units in needs.items())

    def _room(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_]) -> Int64:
        """How many times what is needed fits into each node; nodes in doubt are looked into."""
        room = np.full(len(nodes), np.iinfo(np.int64).max)
        for kind, units in needs.items():
            room = np.minimum(room, self.floor.capacity(kind)[0][nodes] // units)
        for at in np.flatnonzero(doubtful).tolist():
            room[at] = self._fits_into(int(nodes[at]), needs)
        return room

    # -- choosing ----------------------------------------------------------------------------------------------------

    def choose(self, counts: tuple[int, ...]) -> tuple[Int64, Int64] | None:
        """Nodes to be used, in the order of the policy, and how much of the number asked for falls to each; None for too few."""
        number, needs = self.form.number(counts), self.form.needs(counts)
        one_each = self.form.sort == "nodes"
        words = self.candidates(needs)
        if not words.any():
            return None
        near = self.policy.near and self.form.sort != "units"
        if number == 1 and (near or self.policy.score is None or self._scores is None):
            return self._one(words, needs)
        nodes = self._ordered(words)
        if one_each and len(nodes) < number:
            return None
        doubtful = self._doubtful(nodes, list(needs))
        if near:
            return self._in_one_node(needs, number) or self._choose_near(nodes, needs, doubtful, number)
        if one_each:
            chosen = self._first(nodes, needs, doubtful, number)
            return None if chosen is None else (chosen, np.ones(number, np.int64))
        return self._fill(nodes, needs, doubtful, number)

    def _one(self, words: Words, needs: dict[int, int]) -> tuple[Int64, Int64] | None:
        """The first node that has what is needed, where it is enough; no other is looked at."""
        descending = self.policy.descending and not self.policy.near
        for at in words.nonzero()[0][:: -1 if descending else 1].tolist():
            word = words.item(at)
            while word:
                bit = (word if descending else word & -word).bit_length() - 1
                node = at << 6 | bit
                if not self._is_doubtful(node, needs) or self._fits_into(node, needs):
                    return np.array([node]), np.ones(1, np.int64)
                word ^= 1 << bit
        return None

    def _is_doubtful(self, node: int, kinds: Iterable[int]) -> bool:
        return self._covered or any((peaks := self.peaks(kind)) is not None and bool(peaks[node]) for kind in kinds)

    def _first(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> Int64 | None:
        """The first so many nodes that have what is needed."""
        refused: list[int] = []
        for at in np.flatnonzero(doubtful).tolist():
            if at - len(refused) >= number:
                break
            if not self._fits_into(int(nodes[at]), needs):
                refused.append(at)
        if refused:
            nodes = np.delete(nodes, refused)
        return nodes[:number] if len(nodes) >= number else None

    def _fill(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> tuple[Int64, Int64] | None:
        """One node after the other, as much as fits into each."""
        chosen: list[Int64] = []
        rooms: list[Int64] = []
        left, step = number, 8
        at = 0
        while left > 0 and at < len(nodes):
            part = slice(at, at + step)
            room = self._room(nodes[part], needs, doubtful[part])
            reach = np.cumsum(room)
            last = int(reach.searchsorted(left))
            if last < len(room):
                room = room[: last + 1].copy()
                room[last] -= int(reach[last]) - left
                left = 0
            else:
                left -= int(reach[-1])
            chosen.append(nodes[part][: len(room)])
            rooms.append(room)
            at, step = at + step, step * 4
        if left > 0:
            return None
        every, amounts = np.concatenate(chosen), np.concatenate(rooms)
        return every[amounts > 0], amounts[amounts > 0]

    def _in_one_node(self, needs: dict[int, int], number: int) -> tuple[Int64, Int64] | None:
        """The lowest node that has room for all: nothing lies closer together than that."""
        if self.form.sort == "nodes" and number > 1:
            return None
        together = {kind: units * number for kind, units in needs.items()}
        nodes = ordinals_of(self.candidates(together), self.level.length)
        found = self._first(nodes, together, self._doubtful(nodes, list(together)), 1)
        return None if found is None else (found, np.array([number]))

    def _choose_near(
        self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int
    ) -> tuple[Int64, Int64] | None:
        one_each = self.form.sort == "nodes"
        room = self._room(nodes, needs, doubtful) if needs else np.ones(len(nodes), np.int64)
        room = np.minimum(room, 1 if one_each else number)
        vertices = self.level.vertices[nodes]
        positions = nearest.choose(vertices, self.floor.typology.structure.parent[vertices], room, number)
        if not positions.size:
            return None
        amounts = room[positions]
        amounts[-1] -= int(amounts.sum()) - number
        return nodes[positions], amounts

    def fits(self, counts: tuple[int, ...]) -> bool:
        """Whether there is a match for these counts."""
        if self.form.sort == "nodes" and not self.form.parts:
            return int(np.bitwise_count(self._open).sum()) >= self.form.number(counts)
        return self.choose(counts) is not None

    # -- taking ------------------------------------------------------------------------------------------------------

    def match(self, counts: tuple[int, ...]) -> Match | None:
        """The match for fixed counts."""
        number = self.form.number(counts) if self.form.sort == "nodes" else 1
        if number > 1 and int(np.bitwise_count(self._open).sum()) < number:
            return None
        chosen = self.choose(counts)
        if chosen is None:
            return None
        rows = Rows(self.floor.typology.structure)
        if self.form.sort == "nodes":
            self._take_nodes(rows, chosen[0], counts)
        else:
            self._take_bundles(rows, *chosen, counts)
        return rows.match(self.plan, counts, self.start, self.end, self.policy)

    def _take_nodes(self, rows: Rows, nodes: Int64, counts: tuple[int, ...]) -> None:
        form, number = self.form, len(nodes)
        vertices = self.level.vertices[nodes]
        assert form.node is not None  # this form has one
        outer = np.arange(number) // counts[form.node.number]
        if self.whole:
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
        groups = self._repeated(counts)
        if self._take_evenly(rows, nodes, groups, counts, outer):
            return
        for at, node in enumerate(nodes.tolist()):
            taker = Taker(self.pools, self.floor, rows, node)
            for parts, repeats in groups:
                for again in range(repeats):
                    for part in parts:
                        instance = int(outer[at]) if part.slot is form.outer else at * repeats + again
                        taker.take(part, part.units(counts), instance)
        for parts, repeats in groups:
            if parts[0].slot is not None and parts[0].slot is not form.outer:
                rows.empty_slot(parts[0].slot.number, number * repeats)
        if form.outer is not None:
            rows.empty_slot(form.outer.number, counts[form.outer.number])

    def _repeated(self, counts: tuple[int, ...]) -> list[tuple[list[Part], int]]:
        """The parts by the slot they stand in, in the order written, and how often each slot is repeated."""
        found: list[tuple[list[Part], int]] = []
        for part in self.form.parts:
            inner = part.slot is not None and part.slot is not self.form.outer
            if found and inner and found[-1][0][0].slot is part.slot:
                found[-1][0].append(part)
            else:
                found.append(([part], self.form.repeats(part, counts) if inner else 1))
        return found

    def _take_evenly(
        self, rows: Rows, nodes: Int64, groups: list[tuple[list[Part], int]], counts: tuple[int, ...], outer: Int64
    ) -> bool:
        """Take the same lowest (or highest) pools of each node at once, where every node has all of them free."""
        kinds = [part.demand.kind for parts, _ in groups for part in parts]
        if len(nodes) < 4 or not self._is_even(nodes, kinds):
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
                instances = np.repeat(outer, units) if part.slot is self.form.outer else np.arange(len(vertices)) // units
                if part.shares:
                    rows.empty_slot(part.slot.number, int(instances[-1]) + 1)
                else:
                    rows.slot(part.slot.number, instances, vertices)
        return True

    def _is_even(self, nodes: Int64, kinds: list[int]) -> bool:
        policy, floor = self.policy, self.floor
        plain = policy.score is None or policy.by_node or policy.score is POLICIES["variation"].score
        return (
            plain
            and len(set(kinds)) == len(kinds)
            and not self._doubtful(nodes, kinds).any()
            and all(
                floor.planner.columns.dtype(kind) is None
                and floor.up_pools(kind) is None
                and (policy.score is None or policy.by_node or not floor.is_varied(kind))
                for kind in kinds
            )
        )

    def _even_pools(self, nodes: Int64, part: Part, number: int) -> NDArray[np.int32]:
        """The first so many pools of each node, one row a node."""
        first, stop = self.level.edges(part.demand.kind)
        steps = np.arange(number)
        at = (stop[nodes] - 1)[:, None] - steps if self.policy.descending else first[nodes][:, None] + steps
        pools: NDArray[np.int32] = self.floor.typology.vertices(part.demand.kind)[at]
        return pools

    def _take_bundles(self, rows: Rows, nodes: Int64, amounts: Int64, counts: tuple[int, ...]) -> None:
        form = self.form
        if self.policy.node_exclusive:
            vertices = self.level.vertices[nodes]
            rows.add(vertices, np.ones(len(nodes), np.int64))
            if form.outer is not None:
                rows.slot(form.outer.number, np.arange(int(amounts.sum())), np.repeat(vertices, amounts))
            return
        instance = 0
        for node, amount in zip(nodes.tolist(), amounts.tolist(), strict=True):
            taker = Taker(self.pools, self.floor, rows, node)
            if form.sort == "units":
                taker.take(form.parts[0], amount, 0)
                continue
            for _ in range(amount):
                for part in form.parts:
                    taker.take(part, part.units(counts), instance)
                instance += 1
        if form.outer is not None:
            rows.empty_slot(form.outer.number, instance)
