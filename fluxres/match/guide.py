"""Skip the windows in which a request of a known form cannot start, without searching them.

Three things are known before a search: what failed before (`failures.py`), how many nodes are marked at each moment, and which
nodes are marked throughout a window.  Only a window that passes all three is searched.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fluxres.clock import FOREVER
from fluxres.match.demand import Plan
from fluxres.match.eligible import Eligible
from fluxres.match.floor import Floor
from fluxres.match.form import Form
from fluxres.match.policy import Policy
from fluxres.match.vector import Search
from fluxres.planner.bits import Words
from fluxres.planner.marks import Marks


class WindowSkipper:
    """Skips windows of a request of a known form (:mod:`fluxres.match.earliest`)."""

    def __init__(self, floor: Floor, plan: Plan, form: Form, eligible: Eligible, policy: Policy) -> None:
        self._floor, self._plan, self._form, self._eligible, self._policy = floor, plan, form, eligible, policy
        self._counts = plan.lowest
        self._level = floor.refresh()
        self._number = form.number(self._counts)
        needs = form.needs(self._counts)
        kinds = tuple(sorted(needs))
        drawn = tuple(sorted(form.draws, key=lambda draw: draw.demand.channel))
        self._amounts = (self._number, *(needs[kind] for kind in kinds), *(self._counts[draw.demand.number] for draw in drawn))
        self._failures = floor.failures(eligible, (form.sort, self._clear, kinds, *(draw.key(self._counts) for draw in drawn)))

    def _search(self, start: int, end: int) -> Search:
        return Search(self._floor, self._plan, self._form, self._eligible, self._policy, start, end)

    def first_start(self, duration: int, after: int) -> int | None:
        """See :class:`fluxres.match.earliest.Guide`; considers only which nodes are marked, not what is in them."""
        needed = self._number if self._form.sort == "nodes" else 1
        after = self._failures.bound(self._amounts, duration, after)
        if after >= FOREVER:
            return None
        start = self._marks.roomy_start(self._level.length - needed, duration, after)
        while start is not None:
            end = min(start + duration, FOREVER)
            if int(np.bitwise_count(self._wanted & ~self._marks.folded(start, end)).sum()) >= needed:
                return start
            start = self._marks.blocked_until(self._wanted, needed, start, end)
            start = None if start >= FOREVER else self._marks.roomy_start(self._level.length - needed, duration, start)
        return None

    def learn(self, duration: int, after: int, start: int) -> None:
        self._failures.learn(self._amounts, duration, after, start)

    @cached_property
    def _clear(self) -> bool:
        return self._search(0, 1).clear

    @cached_property
    def _marks(self) -> Marks:
        return self._level.touched if self._clear else self._level.roof

    @cached_property
    def _drawn_kinds(self) -> list[int]:
        """Types whose use may block what is charged: those of the suppliers, and of the pools above and below them."""
        if not self._form.draws:
            return []
        typology = self._floor.typology
        supply = typology.supply(frozenset(draw.demand.channel for draw in self._form.draws))
        accounts = typology.accounts
        found: set[int] = set()
        at = supply.pools
        while at.size:
            found.update(np.unique(accounts.type[at]).tolist())
            at = np.unique(accounts.parent[at])
            at = at[at >= 0]
        return sorted(found.union(*(typology.below[kind] for kind in np.unique(accounts.type[supply.pools]).tolist())))

    @cached_property
    def _wanted(self) -> Words:
        """The nodes that would be suitable if nothing were held."""
        found = self._floor.open(self._eligible, whole=self._clear)
        for kind, units in self._form.needs(self._counts).items():
            capacity, least = self._floor.capacity(kind)
            if units > least:
                found = found & self._level.roof.words(np.flatnonzero(capacity >= units))
        return found

    def next_start(self, start: int, end: int) -> int | None:
        """See :class:`fluxres.match.earliest.Guide`."""
        if self._clear and self._form.sort == "nodes" and not self._form.draws:
            later = self._marks.blocked_until(self._wanted, self._number, start, end)
            return None if later >= FOREVER else later
        return self._halve(start, end)

    def _halve(self, start: int, end: int) -> int | None:
        kinds = [*([] if self._clear else self._form.kinds), *self._drawn_kinds]
        moments = self._floor.planner.levels.moments(self._level, kinds, start + 1, end)
        low, high = 0, len(moments)
        while low < high:
            middle = (low + high) // 2
            if self._search(moments[middle], end).fits(self._counts):
                high = middle
            else:
                low = middle + 1
        if low < len(moments):
            return moments[low]
        return self._floor.planner.levels.next_moment(self._level, kinds, end)
