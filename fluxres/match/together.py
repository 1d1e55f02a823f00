"""Match a request for units between its nodes: try each pool below which the nodes may meet, the nearest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np

from fluxres.errors import LimitExceeded
from fluxres.match.bounds import Bounds
from fluxres.match.demand import Plan
from fluxres.match.form import Form, NeedsTraverser, form
from fluxres.match.node_table import NodeTable
from fluxres.match.paths import Meeting
from fluxres.match.plan import plan as compile_plan
from fluxres.match.plan import settle
from fluxres.match.policy import Policy
from fluxres.match.result import Placement
from fluxres.match.situation import Eligible, Situation
from fluxres.match.traverser import Budget, Traverser
from fluxres.match.vector import search

Below = dict[tuple[Eligible, int], Eligible]
"""By eligible nodes and place to meet: the eligible nodes below the place."""
BELOW_KEPT: Final = 1 << 24
"""Bound on the cached nodes over all places, a few bytes each."""


class Together:
    """One request, and every place where its nodes could meet.

    Args:
        plan: the request as for a single node, between which nothing is charged.
        below: cache of the nodes below places to meet.
        budget: makes a new one for each query.
        reference: use the reference traverser only.
    """

    def __init__(
        self,
        node_table: NodeTable,
        plan: Plan,
        eligible: Eligible,
        policy: Policy,
        below: Below,
        budget: Callable[[Plan], Budget],
        *,
        reference: bool,
    ) -> None:
        self._node_table, self._plan, self._eligible, self._policy = node_table, plan, eligible, policy
        self._below, self._budget, self._reference = below, budget, reference
        self._ready: dict[int, tuple[Plan, Form | None]] = {}

    def match(self, start: int, end: int) -> Placement | None:
        """The match with the largest counts, and for these the nearest place to meet."""
        return settle(self._plan, self._node_table.typology, lambda counts: self.at(counts, start, end))

    def at(self, counts: tuple[int, ...], start: int, end: int) -> Placement | None:
        """The match for fixed counts.

        Errors: LimitExceeded if nothing is found and some place stays undecided.
        """
        situation = self._situation(self._eligible, start, end)
        undecided: LimitExceeded | None = None
        for attempt in self._attempts(situation, counts):
            try:
                found = attempt()
            except LimitExceeded as error:
                undecided = error
                continue
            if found is not None:
                return found
        if undecided is not None:
            raise undecided
        return None

    def _attempts(self, situation: Situation, counts: tuple[int, ...]) -> Iterator[Callable[[], Placement | None]]:
        """Try a single node first, then one place to meet after the other; those with too little are skipped."""
        typology = self._node_table.typology
        bounds = Bounds(situation, self._plan, counts, node_exclusive=self._policy.node_exclusive)
        if not bounds.is_conceivable():
            return
        nodes = typology.vertices(typology.node)
        places = np.arange(len(nodes))
        able = places[self._eligible.mask & ~bounds.lacking_in(list(places.reshape(-1, 1)))]
        for v in self._policy.order(situation, nodes[able]).tolist():
            alone = self._eligible.only(nodes.searchsorted(np.array([v])))
            yield partial(self._traverse, self._plan, alone, situation, counts)
        for level in typology.meetings(self._plan.between).levels:
            lacking = bounds.lacking_in([meeting.nodes for meeting in level])
            of = {meeting.v: meeting for meeting, is_short in zip(level, lacking.tolist(), strict=True) if not is_short}
            for v in self._policy.order(situation, np.array(sorted(of), np.int32)).tolist():
                yield partial(self._meet, of[v], situation, counts)

    def _meet(self, meeting: Meeting, situation: Situation, counts: tuple[int, ...]) -> Placement | None:
        """Match within the nodes below one place."""
        eligible = self._eligible_below(meeting)
        if meeting.v not in self._ready:
            made = compile_plan(self._plan.request, self._node_table.typology, meeting)
            able = not self._reference and self._node_table.level is not None
            self._ready[meeting.v] = made, form(made, self._node_table.typology) if able else None
        plan, shape = self._ready[meeting.v]
        fast = search(self._node_table, plan, shape, eligible, self._policy, situation.start, situation.end)
        if fast is not None:
            with suppress(NeedsTraverser):
                return fast.match(counts)
        return self._traverse(plan, eligible, situation, counts)

    def _eligible_below(self, meeting: Meeting) -> Eligible:
        key = self._eligible, meeting.v
        found = self._below.get(key)
        if found is None:
            if len(self._below) * len(self._eligible.targets) >= BELOW_KEPT:
                self._below.clear()
                self._node_table.forget()
            found = self._below[key] = self._eligible.only(meeting.nodes)
        return found

    def _traverse(self, plan: Plan, eligible: Eligible, situation: Situation, counts: tuple[int, ...]) -> Placement | None:
        there = self._situation(eligible, situation.start, situation.end)
        return Traverser(there, plan, counts, self._policy, self._budget(plan)).match()

    def _situation(self, eligible: Eligible, start: int, end: int) -> Situation:
        node_table = self._node_table
        return Situation(
            node_table.typology, node_table.planner, eligible, start, end, measured=self._plan.measured, ideal=node_table.ideal
        )
