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

from fluxres.arrays import Floats, Int64
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

    It keeps 32 bytes per span, and less if many of them begin or end at the same moments, or if they come in the order of their
    ends: then of the past only what may still be the peak.

    Args:
        is_ordered: whether no span ends before another one that was added earlier.

    >>> peak = Peak()
    >>> for start, end, units in ((0, 5, 3), (5, 9, 4), (4, 7, 1)):
    ...     peak.add(start, end, units)
    >>> peak.most()
    5
    """

    __slots__ = ("_changes", "_is_ordered", "_moments", "_size_max")

    def __init__(self, *, is_ordered: bool = False) -> None:
        self._is_ordered = is_ordered
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
        if self._is_ordered:
            moments, changes = _still_possible(moments, changes)
        self._moments, self._changes = array("q", moments.tobytes()), array("q", changes.tobytes())
        self._size_max = max(_MERGED, 2 * len(moments))


def _still_possible(moments: Int64, changes: Int64) -> tuple[Int64, Int64]:
    """A step function with fewer steps, and with the same peak once spans are added that do not end before its end.

    Such a span covers everything from its start on, so of each moment only the largest height from there on counts.
    """
    height = np.cumsum(changes)
    largest = np.maximum.accumulate(height[::-1])[::-1]
    steps = np.diff(largest, prepend=0)
    kept = steps != 0
    return moments[kept], steps[kept]


class RunningMetrics:
    """A sink that accumulates sums.

    Args:
        size: units of the machine, for the utilisation.
        is_ordered: whether jobs come in the order of their ends, and none was interrupted or has changed its size.
    """

    def __init__(self, size: int, *, is_ordered: bool = False) -> None:
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
        self._peak = Peak(is_ordered=is_ordered)

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
    used: Floats
    waiting: Floats
    starts: Floats


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
        self._attempts, self._resizes = array("q"), array("q")
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
                self._attempts += array("q", (each.start, each.end, each.size))
            for (_, before), (moment, units) in pairwise(each.sizes):
                self._resizes += array("q", (moment, each.end, units - before))

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def owners(self) -> tuple[list[JobOwner], Int64]:
        """All owners, and by job the index of its own."""
        return list(self._owners), np.array(self._owner, np.int64)

    def columns(self) -> tuple[Int64, Int64, Int64, Int64]:
        """submit, start, end (ticks; start -1 for a job that never ran) and size, in the order of the ends."""
        submit, start, end, size = (
            np.frombuffer(own, np.int64) if len(own) else np.zeros(0, np.int64)
            for own in (self._submit, self._start, self._end, self._size)
        )
        return submit, start, end, size

    def changes(self) -> Int64:
        """Start, end and units of what was held beside the columns: rows for interrupted attempts and for changes of a size."""
        return np.array(self._attempts + self._resizes, np.int64).reshape(-1, 3)

    def over_time(self, parts: int = PARTS) -> OverTime:
        """The curves, from the first submission to the last end. Cost O(n log n) in the jobs."""
        submit, start, end, size = self.columns()
        last = int(end[start >= 0].max(initial=0)) if len(end) else 0
        if not len(submit) or last <= submit.min():
            return OverTime(0.0, 0.0, np.zeros(0), np.zeros(0), np.zeros(0))
        begin = int(submit.min())
        edges = np.linspace(begin, last, parts + 1)
        used, waiting, started = Averages(edges), Averages(edges), np.zeros(parts, np.int64)
        for at in range(0, len(submit), _AT_ONCE):
            now = slice(at, at + _AT_ONCE)
            ran = start[now] >= 0
            used.add(start[now][ran], size[now][ran])
            used.add(end[now][ran], -size[now][ran])
            one = np.ones(len(ran), np.int64)
            waiting.add(submit[now], one)
            waiting.add(np.where(ran, start[now], end[now]), -one)
            started += np.histogram(start[now][ran], edges)[0]
        beside = self.changes()
        used.add(beside[:, 0], beside[:, 2])
        used.add(beside[:, 1], -beside[:, 2])
        attempts = np.array(self._attempts, np.int64).reshape(-1, 3)
        one = np.ones(len(attempts), np.int64)
        waiting.add(attempts[:, 0], -one)
        waiting.add(attempts[:, 1], one)
        part_s = (last - begin) / parts / TICKS_PER_S
        return OverTime(begin / TICKS_PER_S, part_s, used.averages(), waiting.averages(), started / part_s)


_AT_ONCE: Final = 1 << 16
"""Jobs whose changes are added at once: copies of the columns of a million jobs would take more memory than the run."""


class Averages:
    """Mean heights between edges of a step function whose changes are added in any order.

    >>> height = Averages(np.array([0.0, 2.0, 8.0]))
    >>> height.add(np.array([4, 0]), np.array([-2, 2]))
    >>> height.averages()
    array([2.        , 0.66666667])
    """

    def __init__(self, edges: Floats) -> None:
        self._edges = edges
        self._changes = np.zeros(len(edges) + 1)
        """Before the first edge, in each part, and from the last edge on."""
        self._areas = np.zeros(len(edges) + 1)
        """What these changes add to the area of the part in which they are."""

    def add(self, moments: Int64, changes: Int64 | Floats) -> None:
        edges = self._edges
        part = np.searchsorted(edges, moments, side="right")
        # Relative to an edge, so that areas of timestamps since 1970 keep their precision.
        rest = edges[np.minimum(part, len(edges) - 1)] - moments
        self._changes += np.bincount(part, changes, len(edges) + 1)
        self._areas += np.bincount(part, changes * rest, len(edges) + 1)

    def averages(self) -> Floats:
        height = np.cumsum(self._changes)[:-2]
        averages: Floats = np.maximum(height + self._areas[1:-1] / np.diff(self._edges), 0.0)
        return averages
