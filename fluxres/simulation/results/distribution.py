"""Figures of the jobs of a finished run that need all of them at once: percentiles, classes of jobs, and a run without its ends.

A simulation begins with an empty machine and ends with an emptying one; neither is the state that a study is about.  Trimming
leaves out jobs that were submitted in the beginning or at the end.  They run all the same; only the figures are of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from fluxres.arrays import Floats, Int64, Mask
from fluxres.clock import TICKS_PER_S
from fluxres.simulation.metrics import BOUND_S, JobOwner, Series

PERCENTILES: Final = {"median": 50.0, "p90": 90.0, "p99": 99.0}
USERS_MAX: Final = 50
"""The number of users, accounts and so on with a class of their own, those with the most jobs first."""
_LENGTHS: Final = ((60, "up to 1 min"), (600, "1 to 10 min"), (3600, "10 min to 1 h"), (18000, "1 to 5 h"), (86400, "5 to 24 h"))


class Trim(NamedTuple):
    """The fractions of the jobs, in order of submission, that are left out in the beginning and at the end.

    Jobs that were submitted at the same moment as the first or the last one that counts do count: which of them would be left out
    could only depend on the run, and runs that are compared would count different jobs.
    """

    warm_up: float = 0.0
    drain: float = 0.0


class JobColumns(NamedTuple):
    """The jobs of a run that count, as columns in ticks; those that never ran are left out.

    Args:
        owners, owner: all to whom jobs belong, and the index of that of each job.
        begin, last: the window of utilisation and throughput: all of the run, or the submissions of the first and last job.
        ends: of all jobs that ran, for the throughput.
        held: start, end and units of all that was held, for the utilisation; see `Series.changes`.
    """

    submit: Int64
    start: Int64
    end: Int64
    size: Int64
    owners: list[JobOwner]
    owner: Int64
    begin: int
    last: int
    ends: Int64
    held: tuple[Int64, Int64, Int64]

    def __len__(self) -> int:
        return len(self.submit)

    @property
    def wait_s(self) -> Floats:
        return (self.start - self.submit) / TICKS_PER_S

    @property
    def run_s(self) -> Floats:
        return (self.end - self.start) / TICKS_PER_S

    @property
    def slowdown(self) -> Floats:
        found: Floats = np.maximum(1.0, (self.wait_s + self.run_s) / np.maximum(self.run_s, BOUND_S))
        return found


def counted(series: Series, trim: Trim = Trim()) -> JobColumns:  # noqa: B008  # immutable
    """The jobs that count.  Cost O(n log n)."""
    submit, start, end, size = series.columns()
    order = np.argsort(submit, kind="stable")
    first, stop = round(len(order) * trim.warm_up), len(order) - round(len(order) * trim.drain)
    if trim != Trim() and first < stop:
        submitted = submit[order]
        first, stop = submitted.searchsorted(submitted[first]), submitted.searchsorted(submitted[stop - 1], "right")
    inside = order[first:stop]
    ran = start >= 0
    kept = inside[ran[inside]]
    owners, owner = series.owners()
    held = (start, end, size) if ran.all() else (start[ran], end[ran], size[ran])
    ends, changes = held[1], series.changes()
    if len(changes):
        held = (np.append(held[0], changes[:, 0]), np.append(held[1], changes[:, 1]), np.append(held[2], changes[:, 2]))
    if trim == Trim() or not len(inside):
        begin, last = int(submit.min(initial=0 if not len(submit) else submit[0])), int(end[ran].max(initial=0))
    else:
        begin, last = int(submit[inside[0]]), int(submit[inside[-1]])
    return JobColumns(submit[kept], start[kept], end[kept], size[kept], owners, owner[kept], begin, last, ends, held)


def percentiles(jobs: JobColumns) -> dict[str, float | None]:
    """Of waits and bounded slowdowns, by the name of the metric; None without jobs."""
    columns = {"wait_s": jobs.wait_s, "bounded_slowdown": jobs.slowdown}
    return {
        f"{word}_{name}": float(np.percentile(values, q)) if len(values) else None
        for name, values in columns.items()
        for word, q in PERCENTILES.items()
    }


AreaOf = Callable[[int, int], int]
"""The unit-ticks of the machine in a time."""

_OF_JOBS: Final = (
    *("mean_wait_s", "max_wait_s", "mean_turnaround_s", "mean_stretch", "max_stretch"),
    *("mean_bounded_slowdown", "max_bounded_slowdown", "utilisation", "throughput_per_s"),
)


def trimmed(jobs: JobColumns, units: int, area_of: AreaOf | None = None) -> dict[str, float | None]:
    """Means and maxima of the jobs that count, and the utilisation and throughput of their window; None without such jobs.

    Args:
        area_of: if the size of the machine changes.
    """
    if not len(jobs):
        return dict.fromkeys(_OF_JOBS)
    wait, run, slowdown = jobs.wait_s, jobs.run_s, jobs.slowdown
    stretch = np.divide(wait + run, run, out=np.ones(len(run)), where=run > 0)
    start, end, size = jobs.held
    length = jobs.last - jobs.begin
    area = int((np.clip(np.minimum(end, jobs.last) - np.maximum(start, jobs.begin), 0, None) * size).sum())
    whole = units * length if area_of is None else area_of(jobs.begin, jobs.last)
    ended = int(((jobs.ends > jobs.begin) & (jobs.ends <= jobs.last)).sum())
    return {
        "mean_wait_s": float(wait.mean()),
        "max_wait_s": float(wait.max()),
        "mean_turnaround_s": float((wait + run).mean()),
        "mean_stretch": float(stretch.mean()),
        "max_stretch": float(stretch.max()),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "max_bounded_slowdown": float(slowdown.max()),
        "utilisation": area / whole if whole else None,
        "throughput_per_s": ended * TICKS_PER_S / length if length else None,
    }


def offered_load(jobs: JobColumns, units: int) -> float | None:
    """Size times run time of the jobs, as a fraction of the machine from the first to the last submission.

    It counts the last attempt of each job, and the first size of a malleable one.
    """
    if len(jobs) < 2:
        return None
    length = int(jobs.submit.max() - jobs.submit.min())
    area = int(((jobs.end - jobs.start) * jobs.size).sum())
    return area / (units * length) if units and length else None


# -- classes -----------------------------------------------------------------------------------------------------------


def classes(jobs: JobColumns) -> Iterator[dict[str, Any]]:
    """Figures by class: of size (up to a power of two), of run time, of user, account, QOS, partition and queue."""
    powers = np.ceil(np.log2(np.maximum(jobs.size, 1))).astype(int)
    for power in np.unique(powers).tolist():
        low, high = (2 ** (power - 1) + 1 if power else 1), 2**power
        yield _of("size", f"{high}" if high - low < 1 else f"{low}-{high}", jobs, powers == power)
    edges = np.array([edge for edge, _ in _LENGTHS])
    lengths = np.searchsorted(edges, jobs.run_s)
    texts = [*(name for _, name in _LENGTHS), "over 24 h"]
    for at in np.unique(lengths).tolist():
        yield _of("run time", texts[at], jobs, lengths == at)
    for kind in JobOwner._fields:
        yield from _by_owner(kind, jobs)


def _by_owner(kind: str, jobs: JobColumns) -> Iterator[dict[str, Any]]:
    found: dict[str | None, int] = {}
    of_owner = [found.setdefault(getattr(owner, kind), len(found)) for owner in jobs.owners]
    if len(found) < 2:
        return
    names, index = list(found), np.array(of_owner, np.int64)[jobs.owner]
    number, count = np.unique(index, return_counts=True)
    most = number[np.argsort(-count, kind="stable")][:USERS_MAX].tolist()
    for at in most:
        yield _of(kind, names[at] or "none", jobs, index == at)
    if len(number) > USERS_MAX:
        yield _of(kind, "others", jobs, ~np.isin(index, most))


def _of(kind: str, name: str, jobs: JobColumns, chosen: Mask) -> dict[str, Any]:
    wait, slowdown = jobs.wait_s[chosen], jobs.slowdown[chosen]
    return {
        "kind": kind,
        "class": name,
        "jobs": int(chosen.sum()),
        "mean_wait_s": float(wait.mean()),
        "median_wait_s": float(np.median(wait)),
        "p90_wait_s": float(np.percentile(wait, 90)),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "p90_bounded_slowdown": float(np.percentile(slowdown, 90)),
    }
