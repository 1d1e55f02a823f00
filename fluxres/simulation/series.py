"""Utilisation and queue over time, from four numbers per job: exact averages over equal intervals."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.clock import TICKS_PER_S
from fluxres.simulation.schedule import Finished

PARTS: Final = 400
"""Number of intervals, more than a chart shows."""

Numbers = NDArray[np.int64]


class OverTime(NamedTuple):
    """Averages over equal intervals.

    Args:
        begin_s: of the first interval.
        part_s: length of each.
        used: units in use, per interval.
        waiting: jobs that waited.
    """

    begin_s: float
    part_s: float
    used: NDArray[np.float64]
    waiting: NDArray[np.float64]


class Series:
    """A sink that stores the data for curves: 32 bytes per job."""

    def __init__(self) -> None:
        self._submit, self._start, self._end, self._size = array("q"), array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._submit)

    def add(self, job: Finished) -> None:
        self._submit.append(job.submit)
        self._start.append(job.start)
        self._end.append(job.end)
        self._size.append(job.size)

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def columns(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """submit, start, end (ticks; start -1 for a job that never ran) and size, in the order of the ends."""
        submit, start, end, size = (
            np.frombuffer(own, np.int64) if len(own) else np.zeros(0, np.int64)
            for own in (self._submit, self._start, self._end, self._size)
        )
        return submit, start, end, size

    def over_time(self, parts: int = PARTS) -> OverTime:
        """The curves, from the first submission to the last end. Cost O(n log n) in the jobs."""
        submit, start, end, size = self.columns()
        ran = start >= 0
        if not ran.any() or end[ran].max() <= submit.min():
            return OverTime(0.0, 0.0, np.zeros(0), np.zeros(0))
        begin, last = int(submit.min()), int(end[ran].max())
        edges = np.linspace(begin, last, parts + 1)
        used = _averages(np.concatenate((start[ran], end[ran])), np.concatenate((size[ran], -size[ran])), edges)
        left = np.where(ran, start, end)
        one = np.ones(len(submit), np.int64)
        waiting = _averages(np.concatenate((submit, left)), np.concatenate((one, -one)), edges)
        return OverTime(begin / TICKS_PER_S, (last - begin) / parts / TICKS_PER_S, used, waiting)


def _averages(moments: Numbers, changes: Numbers, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean height of a step function between edges.

    >>> _averages(np.array([0, 4]), np.array([2, -2]), np.array([0.0, 2.0, 8.0]))
    array([2.        , 0.66666667])
    """
    order = np.argsort(moments, kind="stable")
    # Relative to the first edge, so that areas of timestamps since 1970 keep their precision.
    moments, changes = moments[order] - edges[0], changes[order].astype(np.float64)
    height = np.concatenate(([0.0], np.cumsum(changes)))
    moment = np.concatenate(([0.0], np.cumsum(changes * moments)))
    at = np.searchsorted(moments, edges - edges[0], side="right")
    area = (edges - edges[0]) * height[at] - moment[at]
    averages: NDArray[np.float64] = np.maximum(np.diff(area) / np.diff(edges), 0.0)
    return averages
