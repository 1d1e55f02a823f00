"""Match a request for units between its nodes: try each pool below which the nodes may meet, the nearest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np
from msgspec import structs

from fluxres.errors import LimitExceeded
from fluxres.match.bounds import Bounds
from fluxres.match.demand import Counts, Plan
from fluxres.match.form import NeedsTraverser, form
from fluxres.match.paths import Meeting
from fluxres.match.plan import plan as compile_plan
from fluxres.match.plan import settle
from fluxres.match.query import Query
from fluxres.match.result import Placement
from fluxres.match.situation import Eligible, Situation
from fluxres.match.traverser import Budget, Traverser
from fluxres.match.vector import Search

Below = dict[tuple[Eligible, int], Eligible]
"""By eligible nodes and place to meet: the eligible nodes below the place."""
BELOW_KEPT: Final = 1 << 24
"""Bound on the cached nodes over all places, a few bytes each."""


class Together:
    """One request, and every place where its nodes could meet.

    Args:
        query: the request as for a single node, between which nothing is charged.
        below: cache of the nodes below places to meet.
        budget: makes a new one for each query.
        reference: use the reference traverser only.
    """

    def __init__(self, query: Query, below: Below, budget: Callable[[Plan], Budget], *, reference: bool) -> None:
        self._query, self._plan, self._policy = query, query.plan, query.policy
        self._node_table, self._eligible = query.node_table, query.eligible
        self._below, self._budget, self._reference = below, budget, reference
        #: The query below each place to meet.
        self._of_place: dict[int, Query] = {}

    def match(self, start: int, end: int) -> Placement | None:
        """The match with the largest counts, and for these the nearest place to meet."""
        return settle(self._plan, self._node_table.typology, lambda counts: self.at(counts, start, end))

    def at(self, counts: Counts, start: int, end: int) -> Placement | None:
        """The match for fixed counts.

        Errors: LimitExceeded if nothing is found and some place stays undecided.
        """
        situation = self._query.situation(start, end)
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

    def _attempts(self, situation: Situation, counts: Counts) -> Iterator[Callable[[], Placement | None]]:
        """Try a single node first, then one place to meet after the other; those with too little are skipped."""
        typology = self._node_table.typology
        bounds = Bounds(situation, self._plan, counts, node_exclusive=self._policy.node_exclusive)
        if not bounds.is_conceivable():
            return
        nodes = typology.vertices(typology.node)
        places = np.arange(len(nodes))
        able = places[self._eligible.mask & ~bounds.lacking_in(list(places.reshape(-1, 1)))]
        for v in self._policy.order(situation, nodes[able]).tolist():
            alone = structs.replace(self._query, eligible=self._eligible.only(nodes.searchsorted(np.array([v]))))
            yield partial(self._traverse, alone, situation, counts)
        for level in typology.meetings(self._plan.between).levels:
            lacking = bounds.lacking_in([meeting.nodes for meeting in level])
            of = {meeting.v: meeting for meeting, is_short in zip(level, lacking.tolist(), strict=True) if not is_short}
            for v in self._policy.order(situation, np.array(sorted(of), np.int32)).tolist():
                yield partial(self._meet, of[v], situation, counts)

    def _meet(self, meeting: Meeting, situation: Situation, counts: Counts) -> Placement | None:
        """Match within the nodes below one place."""
        if meeting.v not in self._of_place:
            plan = compile_plan(self._plan.request, self._node_table.typology, meeting)
            able = not self._reference and self._node_table.is_flat
            shape = form(plan, self._node_table.typology) if able else None
            self._of_place[meeting.v] = Query.of(self._node_table, plan, shape, self._eligible, self._policy)
        query = structs.replace(self._of_place[meeting.v], eligible=self._eligible_below(meeting))
        if query.form is not None:
            with suppress(NeedsTraverser):
                return Search(query, situation.start, situation.end).match(counts)
        return self._traverse(query, situation, counts)

    def _eligible_below(self, meeting: Meeting) -> Eligible:
        key = self._eligible, meeting.v
        found = self._below.get(key)
        if found is None:
            if len(self._below) * len(self._eligible.targets) >= BELOW_KEPT:
                self._below.clear()
                self._node_table.forget()
            found = self._below[key] = self._eligible.only(meeting.nodes)
        return found

    def _traverse(self, query: Query, situation: Situation, counts: Counts) -> Placement | None:
        there = query.situation(situation.start, situation.end)
        return Traverser(there, query.plan, counts, self._policy, self._budget(query.plan)).match()
