"""The vector path: nodes as bits, their contents as numbers, and only the pools that are taken one by one.

A window is folded once over the level of nodes: one row of bits, and one row of numbers for each type that is partly used.  That
leaves the nodes that have enough by count.  If a count could be too optimistic, because different units were busy at different
moments, the units of that node are checked.  Then nodes are taken in the order of the policy (`choosing.py`), and the lowest (or
highest) units in each (`taking.py`).  It chooses what the traverser chooses; `tests/match` compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres.match import settle
from fluxres.match.choosing import NodeSelection
from fluxres.match.demand import Plan
from fluxres.match.drawing import Drawing
from fluxres.match.eligible import Eligible
from fluxres.match.floor import Floor
from fluxres.match.form import Form
from fluxres.match.policy import POLICIES, Policy
from fluxres.match.result import Match
from fluxres.match.situation import Situation
from fluxres.match.taking import Taking
from fluxres.planner.bits import Words
from fluxres.planner.marks import ordinals_of

Int64 = NDArray[np.int64]
Pools = tuple[Int64, Int64]
"""Ordinals of pools of one type, and the free units of each."""


class Search:
    """One request of a known form in one window."""

    def __init__(self, floor: Floor, plan: Plan, form: Form, eligible: Eligible, policy: Policy, start: int, end: int) -> None:
        self.floor = floor
        self.level = floor.refresh()
        self.plan = plan
        self.form = form
        self.eligible = eligible
        self.policy = policy
        self.start, self.end = start, end
        node = form.node
        #: Whether nodes are taken exclusively, by the request or by the policy.
        self.whole = node is not None and (policy.node_exclusive or (node.whole if node.children else not node.shared))
        #: Whether only nodes that no other job touches are suitable.
        self.clear = self.whole or policy.node_exclusive
        self._covered = not self.clear and any(floor.planner.levels.covers_between(self.level, kind) for kind in form.kinds)
        self._peaks: dict[int, Int64 | None] = {}
        self._pools: dict[tuple[int, int], Pools] = {}

    @property
    def is_able(self) -> bool:
        """Whether this path can sort the candidates as the policy requires."""
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
        """Nodes in service and eligible that holdings do not rule out."""
        marks = self.level.touched if self.clear else self.level.roof
        return self.floor.open(self.eligible, whole=self.clear) & ~marks.folded(self.start, self.end)

    def peaks(self, kind: int) -> Int64 | None:
        """Units of a type used in each node at the busiest moment; None if none are."""
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
                # Used units may be out of service, so they are not subtracted from those in service.
                found = found & self._words(self.floor.units(kind) - peaks >= units)
            if units > least:
                found = found & self._words(capacity >= units)
        return found

    def _words(self, flags: NDArray[np.bool_]) -> Words:
        packed = np.zeros(self.level.roof.width * 8, np.uint8)
        octets = np.packbits(flags, bitorder="little")
        packed[: len(octets)] = octets
        return packed.view("<u8")

    def doubtful(self, nodes: Int64, kinds: list[int]) -> NDArray[np.bool_]:
        """Nodes for which a count may be too optimistic."""
        if self._covered:
            return np.ones(len(nodes), np.bool_)
        found = np.zeros(len(nodes), np.bool_)
        for kind in kinds:
            peaks = self.peaks(kind)
            if peaks is not None:
                found |= peaks[nodes] > 0
        return found

    def ordered(self, words: Words) -> Int64:
        """Nodes in the order of the policy."""
        nodes = ordinals_of(words, self.level.length)
        policy = self.policy
        if policy.score is None:
            return nodes[::-1] if policy.descending else nodes
        every = self.scores
        if every is None:
            return nodes
        scores = every[nodes]
        if len(nodes) < 2 or (scores[0] == scores).all():
            return nodes
        return nodes[np.argsort(scores, kind="stable")]

    @cached_property
    def scores(self) -> NDArray[Any] | None:
        """Scores of all nodes; None if all are equal."""
        policy, kind = self.policy, self.plan.measured
        if policy.score is POLICIES["variation"].score:
            return self.floor.classes(lambda: self._situation)
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

    # -- contents of a node ------------------------------------------------------------------------------------------

    def pools(self, node: int, kind: int) -> Pools:
        """Pools of a type in one node with units free through the window, in the order of the policy."""
        found = self._pools.get((node, kind))
        if found is not None:
            return found
        floor, level = self.floor, self.level
        first, stop = level.edges(kind)
        a, b = int(first[node]), int(stop[node])
        up = floor.up_pools(kind)
        is_idle = not self.is_doubtful(node, (kind,))
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
        ordinals = np.flatnonzero(units)
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

    def fits_into(self, node: int, needs: dict[int, int]) -> int:
        """How many times what is needed is free in one node, counted unit by unit."""
        return min(int(self.pools(node, kind)[1].sum()) // units for kind, units in needs.items())

    def room_at_most(self, nodes: Int64, needs: dict[int, int]) -> Int64:
        """How many times what is needed fits into each node by count, which may be too optimistic."""
        room = np.full(len(nodes), np.iinfo(np.int64).max)
        for kind, units in needs.items():
            capacity, peaks = self.floor.capacity(kind)[0], self.peaks(kind)
            if peaks is not None:
                # Used units may be out of service, so they are not subtracted from those in service.
                capacity = np.minimum(capacity, self.floor.units(kind) - peaks)
            room = np.minimum(room, capacity[nodes] // units)
        return room

    def room(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_]) -> Int64:
        """How many times what is needed fits into each node; doubtful nodes are inspected."""
        room = np.full(len(nodes), np.iinfo(np.int64).max)
        for kind, units in needs.items():
            room = np.minimum(room, self.floor.capacity(kind)[0][nodes] // units)
        for at in np.flatnonzero(doubtful).tolist():
            room[at] = self.fits_into(int(nodes[at]), needs)
        return room

    def is_doubtful(self, node: int, kinds: Iterable[int]) -> bool:
        """Whether a count may be too optimistic for one node."""
        return self._covered or any((peaks := self.peaks(kind)) is not None and bool(peaks[node]) for kind in kinds)

    # -- results -----------------------------------------------------------------------------------------------------

    def drawing(self, counts: tuple[int, ...]) -> Drawing:
        """What is charged.

        Errors: Entangled if only a search can decide.
        """
        load = self.form.load(self.floor.typology, counts)
        return Drawing(self.floor, self.form.draws, counts, load, self.start, self.end)

    def fits(self, counts: tuple[int, ...]) -> bool:
        """Whether there is a match for these counts.

        Errors: Entangled if only a search can decide.
        """
        if self.form.sort == "nodes" and not self.form.parts and not self.form.draws:
            return int(np.bitwise_count(self._open).sum()) >= self.form.number(counts)
        return NodeSelection(self, counts, self.drawing(counts) if self.form.draws else None).nodes(any_will_do=True) is not None

    def match(self, counts: tuple[int, ...]) -> Match | None:
        """The match for fixed counts.

        Errors: Entangled if only a search can decide.
        """
        number = self.form.number(counts) if self.form.sort == "nodes" else 1
        if number > 1 and int(np.bitwise_count(self._open).sum()) < number:
            return None
        drawing = self.drawing(counts) if self.form.draws else None
        choice = NodeSelection(self, counts, drawing)
        chosen = choice.nodes()
        if chosen is None:
            return None
        taking = Taking(self, counts, drawing)
        if self.form.sort == "nodes":
            taking.nodes(chosen[0])
        else:
            taking.bundles(*chosen, choice.turns)
        return taking.rows.match(self.plan, counts, self.start, self.end, self.policy)
