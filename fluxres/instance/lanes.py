"""The waiting jobs of an instance by lane, for policies with several queues: JQM's, partitions, projects.

A `Queue` has one order.  Where a policy names a lane for each job, the queue also keeps the jobs of each lane in the policy's
order, so a pass over fifty lanes looks at their heads, and not at the hundred thousand jobs behind them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fluxres.instance.job import Job
from fluxres.instance.states import State

Key = Callable[[Job], Any]


class Lane:
    """The waiting jobs of one lane in order; jobs may start while it is iterated.

    Jobs that start or leave stay in the list and are skipped until it is compacted.
    """

    __slots__ = ("_head", "_jobs", "_key")

    def __init__(self, key: Key) -> None:
        self._key = key
        self._jobs: list[Job] = []
        self._head = 0

    def __iter__(self) -> Iterator[Job]:
        jobs = self._jobs
        for at in range(self._head, len(jobs)):
            if jobs[at].state is State.SCHED:
                yield jobs[at]

    @property
    def first(self) -> Job | None:
        """The first waiting job."""
        jobs = self._jobs
        while self._head < len(jobs) and jobs[self._head].state is not State.SCHED:
            self._head += 1
        if self._head > 64 and 2 * self._head > len(jobs):
            del jobs[: self._head]
            self._head = 0
        return jobs[self._head] if self._head < len(jobs) else None

    def add(self, job: Job) -> None:
        jobs, key = self._jobs, self._key
        if not jobs or self._head == len(jobs) or key(jobs[-1]) <= key(job):
            jobs.append(job)
        else:
            insort(jobs, job, lo=self._head, key=key)

    def sort(self, jobs: Iterable[Job]) -> None:
        """Begin again with these jobs."""
        self._jobs, self._head = sorted(jobs, key=self._key), 0


class Lanes:
    """The lanes of a queue, in the order in which they were first used.

    Args:
        name: of the lane of a job.
        key: by which the jobs of a lane are sorted.
    """

    def __init__(self, name: Callable[[Job], str], key: Key) -> None:
        self._name, self._key = name, key
        self._lanes: dict[str, Lane] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._lanes)

    def __getitem__(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(self._key)
        return lane

    def __contains__(self, name: str) -> bool:
        return name in self._lanes

    def add(self, job: Job) -> None:
        self[self._name(job)].add(job)

    def sort(self, jobs: Iterable[Job]) -> None:
        """Begin again with these jobs; lanes stay in their order."""
        by_lane: dict[str, list[Job]] = {name: [] for name in self._lanes}
        for job in jobs:
            by_lane.setdefault(self._name(job), []).append(job)
        for name, some in by_lane.items():
            self[name].sort(some)
