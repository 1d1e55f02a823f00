"""Metrics of a run, accumulated while jobs finish, and its utilisation and queue over time.

Definitions as in the literature: wait is start minus submission, turnaround end minus submission, stretch turnaround divided by
run time, and bounded slowdown max(1, turnaround / max(run time, 10 s)) (Feitelson 2001).  Utilisation is the area of the jobs
divided by the area of the machine from the first submission to the last end.  The peak is the largest number of units that jobs
held at one moment.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.clock import TICKS_PER_S, seconds
from fluxres.simulation.schedule import Finished

BOUND_S: Final = 10.0
"""Shorter run times count as this long in the bounded slowdown."""
_BOUND: Final = BOUND_S * TICKS_PER_S
_MERGED: Final = 1 << 16
"""Entries of `Peak` from which on it merges those of one moment."""


@dataclass(frozen=True)
class Metrics:
    """Metrics of a run; times in seconds, None if there was no job."""

    jobs: int
    results: dict[str, int]
    mean_wait_s: float | None = None
    max_wait_s: float | None = None
    mean_turnaround_s: float | None = None
    mean_stretch: float | None = None
    max_stretch: float | None = None
    mean_bounded_slowdown: float | None = None
    max_bounded_slowdown: float | None = None
    makespan_s: float | None = None
    utilisation: float | None = None
    throughput_per_s: float | None = None
    peak: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Peak:
    """The largest number of units held at one moment, of spans that come in any order; ends count before starts.

    It keeps 32 bytes per span, and less if many of them begin or end at the same moments.

    >>> peak = Peak()
    >>> for start, end, units in ((0, 5, 3), (5, 9, 4), (4, 7, 1)):
    ...     peak.add(start, end, units)
    >>> peak.most()
    5
    """

    __slots__ = ("_changes", "_moments", "_size_max")

    def __init__(self) -> None:
        self._moments = array("q")
        """Twice the tick, plus 1 for a start."""
        self._changes = array("q")
        self._size_max = _MERGED

    def add(self, start: int, end: int, units: int) -> None:
        """Hold units from a start, below 2**62, until a later end."""
        moments, changes = self._moments, self._changes
        moments.append(2 * start + 1)
        changes.append(units)
        moments.append(2 * end)
        changes.append(-units)
        if len(moments) >= self._size_max:
            self._merge()

    def most(self) -> int:
        """The peak until now."""
        self._merge()
        return max(int(np.cumsum(np.frombuffer(self._changes, np.int64)).max()), 0) if self._changes else 0

    def _merge(self) -> None:
        """Sort, and make what begins or ends at one moment one entry."""
        if not self._moments:
            return
        moments, at = np.unique(np.frombuffer(self._moments, np.int64), return_inverse=True)
        changes = np.zeros(len(moments), np.int64)
        np.add.at(changes, at, np.frombuffer(self._changes, np.int64))
        self._moments, self._changes = array("q", moments.tobytes()), array("q", changes.tobytes())
        self._size_max = max(_MERGED, 2 * len(moments))


class RunningMetrics:
    """A sink that accumulates sums.

    Args:
        size: units of the machine, for the utilisation.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.area_of: Callable[[int, int], int] | None = None
        """The unit-ticks of the machine in a time, if its size changes."""
        self.jobs = 0
        self.results: dict[str, int] = {}
        self._wait = self._turnaround = self._area = 0
        self._max_wait = 0
        self._stretch = self._slowdown = self._max_stretch = self._max_slowdown = 0.0
        self._first: int | None = None
        self._last = 0
        self._peak = Peak()

    def add(self, job: Finished) -> None:
        """Count a job; one that never ran counts only by its result."""
        self.results[job.result] = self.results.get(job.result, 0) + 1
        if self._first is None or job.submit < self._first:
            self._first = job.submit
        for each in job.earlier:
            for start, end, size in each.spans():
                self._hold(start, end, size)
        if job.start < 0:
            return
        run, wait = job.end - job.start, job.start - job.submit
        turnaround = wait + run
        self.jobs += 1
        self._wait += wait
        self._turnaround += turnaround
        if not job.sizes:
            self._hold(job.start, job.end, job.size)
        else:
            for start, end, size in job.spans():
                self._hold(start, end, size)
        self._max_wait = max(self._max_wait, wait)
        self._last = max(self._last, job.end)
        stretch = turnaround / run if run else 1.0
        slowdown = turnaround / (max(_BOUND, run))
        slowdown = max(slowdown, 1.0)
        self._stretch += stretch
        self._slowdown += slowdown
        self._max_stretch = max(self._max_stretch, stretch)
        self._max_slowdown = max(self._max_slowdown, slowdown)

    def _hold(self, start: int, end: int, size: int) -> None:
        self._area += size * (end - start)
        if end > start:
            self._peak.add(start, end, size)

    def close(self) -> None:
        """No-op: nothing is buffered."""

    @property
    def last_end(self) -> int:
        """Of a job that ran; 0 if there was none."""
        return self._last

    def metrics(self) -> Metrics:
        n = self.jobs
        if not n or self._first is None:
            return Metrics(0, dict(self.results))
        makespan = self._last - self._first
        whole = self.size * makespan if self.area_of is None else self.area_of(self._first, self._last)
        return Metrics(
            n,
            dict(self.results),
            self._wait / n / TICKS_PER_S,
            seconds(self._max_wait),
            self._turnaround / n / TICKS_PER_S,
            self._stretch / n,
            self._max_stretch,
            self._slowdown / n,
            self._max_slowdown,
            seconds(makespan),
            self._area / whole if whole else None,
            n / seconds(makespan) if makespan else None,
            self._peak.most(),
        )


# -- over time -----------------------------------------------------------------------------------------------------------

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
        starts: jobs started, per second.
    """

    begin_s: float
    part_s: float
    used: NDArray[np.float64]
    waiting: NDArray[np.float64]
    starts: NDArray[np.float64]


class JobOwner(NamedTuple):
    """To whom a job belongs, for classes of jobs."""

    user: str | None
    account: str | None
    qos: str | None
    partition: str | None
    queue: str | None


class Series:
    """A sink that stores what curves, percentiles and classes are computed from: 40 bytes per job."""

    def __init__(self) -> None:
        self._submit, self._start, self._end, self._size = array("q"), array("q"), array("q"), array("q")
        self._owner = array("l")
        self._owners: dict[JobOwner, int] = {}
        self._earlier = array("q")
        """Start, end and size of each interrupted attempt; of each change of a size, its moment, the end and the difference."""

    def __len__(self) -> int:
        return len(self._submit)

    def add(self, job: Finished) -> None:
        self._submit.append(job.submit)
        self._start.append(job.start)
        self._end.append(job.end)
        self._size.append(job.size)
        owner = JobOwner(job.user, job.account, job.qos, job.partition, job.queue)
        self._owner.append(self._owners.setdefault(owner, len(self._owners)))
        for each in (*job.earlier, job):
            if each is not job and each.start >= 0:
                self._earlier += array("q", (each.start, each.end, each.size))
            for (_, before), (moment, units) in pairwise(each.sizes):
                self._earlier += array("q", (moment, each.end, units - before))

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def users(self) -> tuple[list[str | None], Numbers]:
        """The names of users, and by job the index of its user."""
        return self.by("user")

    def by(self, field: str) -> tuple[list[str | None], Numbers]:
        """The names of users, accounts, QOS, partitions or queues, and by job the index of its own."""
        index: dict[str | None, int] = {}
        of_owner = [index.setdefault(getattr(owner, field), len(index)) for owner in self._owners]
        return list(index), np.array(of_owner, np.int64)[np.array(self._owner, np.int64)]

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
            return OverTime(0.0, 0.0, np.zeros(0), np.zeros(0), np.zeros(0))
        begin, last = int(submit.min()), int(end[ran].max())
        edges = np.linspace(begin, last, parts + 1)
        lost = np.array(self._earlier, np.int64).reshape(-1, 3)
        moments = np.concatenate((start[ran], end[ran], lost[:, 0], lost[:, 1]))
        used = averages(moments, np.concatenate((size[ran], -size[ran], lost[:, 2], -lost[:, 2])), edges)
        left = np.where(ran, start, end)
        one = np.ones(len(submit), np.int64)
        waiting = averages(np.concatenate((submit, left)), np.concatenate((one, -one)), edges)
        part_s = (last - begin) / parts / TICKS_PER_S
        starts = np.histogram(start[ran], edges)[0] / part_s
        return OverTime(begin / TICKS_PER_S, part_s, used, waiting, starts)


def averages(moments: Numbers, changes: Numbers | NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean height of a step function between edges.

    >>> averages(np.array([0, 4]), np.array([2, -2]), np.array([0.0, 2.0, 8.0]))
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
