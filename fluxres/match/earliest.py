"""The first start at which a request matches.

Only a release can make room, and a window that fails keeps failing while it moves right, as long as it still contains whatever
blocked it.  So after a failure we look for the shortest tail of the window that still fails: every start before the end of that
tail's first row fails too and is never tried.  The vector path finds that tail from its rows (`guide`); elsewhere it is found by
bisecting the breakpoints of the window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Protocol

from fluxres.clock import FOREVER
from fluxres.match.result import Match
from fluxres.planner.planner import Planner

Attempt = Callable[[int, int], Match | None]


class Guide(Protocol):
    """Knows, without a full search, which starts cannot work."""

    def first_start(self, duration: int, after: int) -> int | None:
        """A start from `after` on before which no match can start; None if there can never be one."""

    def learn(self, duration: int, after: int, start: int) -> None:
        """Record that no match starts in [after, start)."""

    def next_start(self, start: int, end: int) -> int | None:
        """A later start before which no match of that duration can start, given that this window fails."""


def earliest(attempt: Attempt, planner: Planner, guide: Guide | None, duration: int, after: int) -> Match | None:
    """The match with the first start from `after` on, or None.

    Args:
        attempt: a match for a window, or None.
        guide: skips windows; may be None.

    Cost: one attempt for every window that cannot be skipped.
    """
    found = _search(attempt, planner, guide, duration, after)
    if guide is not None:
        guide.learn(duration, after, FOREVER if found is None else found.start)
    return found


def _search(attempt: Attempt, planner: Planner, guide: Guide | None, duration: int, after: int) -> Match | None:
    start: int | None = after
    moments: list[int] | None = None
    while start is not None:
        if guide is not None:
            start = guide.first_start(duration, start)
            if start is None:
                return None
        end = min(start + duration, FOREVER)
        found = attempt(start, end)
        if found is not None:
            return found
        if guide is not None:
            start = guide.next_start(start, end)
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
