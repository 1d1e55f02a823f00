"""The first start at which a request matches.

Only a release can make room, and a window that fails keeps failing while it moves right, as long as it still contains whatever
blocked it.  So after a failure we look for the shortest tail of the window that still fails: every start before the end of that
tail's first row fails too and is never tried.  The vector path finds that tail from its rows (`WindowSkipper`); elsewhere it is
found by bisecting the breakpoints of the window.

A queue is planned job after job, and jobs only add use.  A request that had no start before some moment has none before it now,
and neither has a request for more or for longer (`Failures`).  So the search begins at the best known bound, and the hours in
which the machine is full are searched once per shape of request, not once per job.  A release invalidates this for the windows
that overlap it; the planner reports these (`Levels.freed_within`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np

from fluxres.arrays import Int64
from fluxres.clock import FOREVER
from fluxres.match.query import Query
from fluxres.match.result import Placement
from fluxres.match.vector import Search
from fluxres.planner.marks import Bits, Marks, bits_of
from fluxres.planner.planner import Planner

BOUNDS_MAX: Final = 512
"""Bounds kept for one kind of request; the oldest are dropped first."""

AMOUNT_MAX: Final = 2**62
"""No machine has larger amounts; bounds are stored as int64."""


class Failures:
    """Lower bounds of starts for requests that differ only in numbers (amounts, duration).

    >>> planner = Planner([-1], [1], [0], [1])
    >>> failures = Failures(planner)
    >>> failures.learn((2, 8), 100, 0, 500)
    >>> failures.bound((3, 8), 100, 10), failures.bound((1, 8), 100, 10)
    (500, 10)
    >>> planner.hold(0, 1, 300, 400); planner.release(0, 1, 300, 400)
    >>> failures.bound((3, 8), 100, 10), failures.bound((3, 8), 100, 400)
    (201, 500)
    """

    __slots__ = ("_planner", "_rows", "_starts")

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        #: One row per bound: after, duration, amounts …; then the mark of the planner and the start found.
        self._rows: Int64 | None = None
        self._starts = np.zeros((0, 2), np.int64)

    def bound(self, amounts: tuple[int, ...], duration: int, after: int) -> int:
        """A start before which there is none from `after` on."""
        if self._rows is None:
            return after
        amounts = tuple(min(amount, AMOUNT_MAX) for amount in amounts)
        smaller = (self._rows <= np.array((after, duration, *amounts), np.int64)).all(axis=1)
        best = after
        known = zip(self._starts[smaller].tolist(), self._rows[smaller, 1].tolist(), strict=True)
        for (mark, start), length in known:
            if start <= best:
                continue
            freed = self._planner.levels.freed_within(mark)
            if freed is not None and freed[1] > after:
                # Windows of that length that end before the released one still fail.
                start = min(start, freed[0] - length + 1)
            best = max(best, start)
        return best

    def learn(self, amounts: tuple[int, ...], duration: int, after: int, start: int) -> None:
        """Record that there was no start in [after, start)."""
        if start <= after or max(amounts) > AMOUNT_MAX:
            return
        row = np.array([(after, duration, *amounts)], np.int64)
        made = np.array([(self._planner.levels.freed, start)], np.int64)
        if self._rows is None:
            self._rows, self._starts = row, made
            return
        # Bounds that are weaker than this one, and the oldest if there are many.
        weaker = (self._rows >= row).all(axis=1) & (self._starts[:, 1] <= start)
        kept = np.flatnonzero(~weaker)[-BOUNDS_MAX + 1 :]
        self._rows = np.concatenate([self._rows[kept], row])
        self._starts = np.concatenate([self._starts[kept], made])


FailuresOf = Callable[[object], Failures]
"""Finds the known failures of the requests of one kind."""


class WindowSkipper:
    """Skips the windows in which a request of a known form cannot start, without searching them.

    Three things are known before a search: what failed before, how many nodes are marked at each moment, and which nodes are
    marked throughout a window.  Only a window that passes all three is searched.

    Args:
        failures: finds the known failures of requests of one kind.
    """

    def __init__(self, query: Query, failures: FailuresOf) -> None:
        assert query.form is not None
        self._query, self._form, self._node_table = query, query.form, query.node_table
        self._counts = query.plan.lowest
        self._level = self._node_table.level
        amounts = self._form.amounts(self._counts)
        self._number, self._needs = amounts.number, amounts.needs
        kinds = tuple(sorted(self._needs))
        drawn = tuple(sorted(self._form.draws, key=lambda draw: draw.demand.channel))
        self._amounts = (
            self._number,
            *(self._needs[kind] for kind in kinds),
            *(self._counts[draw.demand.number] for draw in drawn),
        )
        self._failures = failures((self._form.sort, self._clear, kinds, *(draw.key(self._counts) for draw in drawn)))

    def first_start(self, duration: int, after: int) -> int | None:
        """A start from `after` on before which no match can start; None if there can never be one.

        Considers only which nodes are marked, not what is in them.
        """
        needed = self._number if self._form.sort == "nodes" else 1
        after = self._failures.bound(self._amounts, duration, after)
        if after >= FOREVER:
            return None
        start = self._marks.roomy_start(self._level.length - needed, duration, after)
        while start is not None:
            end = min(start + duration, FOREVER)
            if (self._wanted & ~self._marks.folded(start, end)).bit_count() >= needed:
                return start
            start = self._marks.blocked_until(self._wanted, needed, start, end)
            start = None if start >= FOREVER else self._marks.roomy_start(self._level.length - needed, duration, start)
        return None

    def learn(self, duration: int, after: int, start: int) -> None:
        """Record that no match starts in [after, start)."""
        self._failures.learn(self._amounts, duration, after, start)

    @cached_property
    def _clear(self) -> bool:
        return Search(self._query, 0, 1).clear

    @cached_property
    def _marks(self) -> Marks:
        return self._level.touched if self._clear else self._level.roof

    @cached_property
    def _drawn_kinds(self) -> list[int]:
        """Types whose use may block what is charged: those of the suppliers, and of the pools above and below them."""
        if not self._form.draws:
            return []
        typology = self._node_table.typology
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
    def _wanted(self) -> Bits:
        """The nodes that would be suitable if nothing were held."""
        found = self._node_table.open(self._query.eligible, whole=self._clear)
        for kind, units in self._needs.items():
            capacity, least = self._node_table.capacity(kind)
            if units > least:
                found &= bits_of(capacity >= units)
        return found

    def next_start(self, start: int, end: int) -> int | None:
        """A later start before which no match of that duration can start, given that this window fails."""
        if self._clear and self._form.sort == "nodes" and not self._form.draws:
            later = self._marks.blocked_until(self._wanted, self._number, start, end)
            return None if later >= FOREVER else later
        return self._halve(start, end)

    def _halve(self, start: int, end: int) -> int | None:
        kinds = [*([] if self._clear else self._form.kinds), *self._drawn_kinds]
        moments = self._node_table.planner.levels.moments(self._level, kinds, start + 1, end)
        low, high = 0, len(moments)
        while low < high:
            middle = (low + high) // 2
            if Search(self._query, moments[middle], end).fits(self._counts):
                high = middle
            else:
                low = middle + 1
        if low < len(moments):
            return moments[low]
        return self._node_table.planner.levels.next_moment(self._level, kinds, end)


Attempt = Callable[[int, int], Placement | None]


def earliest(attempt: Attempt, planner: Planner, skipper: WindowSkipper | None, duration: int, after: int) -> Placement | None:
    """The match with the first start from `after` on, or None.

    Args:
        attempt: a match for a window, or None.
        skipper: of a request whose form is known.

    Cost: one attempt for every window that cannot be skipped.
    """
    found = _search(attempt, planner, skipper, duration, after)
    if skipper is not None:
        skipper.learn(duration, after, FOREVER if found is None else found.start)
    return found


def _search(attempt: Attempt, planner: Planner, skipper: WindowSkipper | None, duration: int, after: int) -> Placement | None:
    start: int | None = after
    moments: list[int] | None = None
    while start is not None:
        if skipper is not None:
            start = skipper.first_start(duration, start)
            if start is None:
                return None
        end = min(start + duration, FOREVER)
        found = attempt(start, end)
        if found is not None:
            return found
        if skipper is not None:
            start = skipper.next_start(start, end)
            continue
        if moments is None:
            moments = planner.moments(after + 1, FOREVER)
        start = _next_start(attempt, moments, start, end)
    return None


def _next_start(attempt: Attempt, moments: list[int], start: int, end: int) -> int | None:
    """The first breakpoint from which on the rest of this failing window matches, else the first one after the window."""
    first, stop = bisect_right(moments, start), bisect_left(moments, end)
    low, high = first, stop
    while low < high:
        middle = (low + high) // 2
        if attempt(moments[middle], end) is None:
            low = middle + 1
        else:
            high = middle
    return moments[low] if low < len(moments) else None
