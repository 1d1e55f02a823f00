"""What is known not to fit: earliest starts found before, as lower bounds of those to be found.

A queue is planned job after job, and jobs only take. A request that had no start before a moment has none before it now, and no
request for more, or for longer, has one either. So the search for a start begins where the best bound leaves off, and the hours
in which a machine is full are walked through once for a shape of request and not once for each job. What is given back
ends that for the windows it lies in; the planner says which these are (`Levels.freed_within`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.planner.planner import Planner

BOUNDS_MAX: Final = 512
"""Bounds kept for one sort of request; the oldest go first."""

AMOUNT_MAX: Final = 2**62
"""Larger amounts are no machine's; bounds are kept in int64."""


class Failures:
    """Lower bounds of starts for requests that differ by numbers only (amounts, duration).

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
        #: One row a bound: after, duration, amounts …; and the mark of the planner beside the start found.
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
                # Windows of that length that ended before what was given back fail as they did.
                start = min(start, freed[0] - length + 1)
            best = max(best, start)
        return best

    def learn(self, amounts: tuple[int, ...], duration: int, after: int, start: int) -> None:
        """There was no start in [after, start)."""
        if start <= after or max(amounts) > AMOUNT_MAX:
            return
        row = np.array([(after, duration, *amounts)], np.int64)
        made = np.array([(self._planner.levels.freed, start)], np.int64)
        if self._rows is None:
            self._rows, self._starts = row, made
            return
        # Bounds that say less than this one, and the oldest when there are many.
        told = (self._rows >= row).all(axis=1) & (self._starts[:, 1] <= start)
        kept = np.flatnonzero(~told)[-BOUNDS_MAX + 1 :]
        self._rows = np.concatenate([self._rows[kept], row])
        self._starts = np.concatenate([self._starts[kept], made])
