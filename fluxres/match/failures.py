"""Earliest starts found before, as lower bounds of those still to be found.

A queue is planned job after job, and jobs only add use.  A request that had no start before some moment has none before it now,
and neither has a request for more or for longer.  So the search begins at the best known bound, and the hours in which the
machine is full are searched once per shape of request, not once per job.  A release invalidates this for the windows that overlap
it; the planner reports these (`Levels.freed_within`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

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
        #: One row per bound: after, duration, amounts …; beside it the mark of the planner and the start found.
        self._rows: NDArray[np.int64] | None = None
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
