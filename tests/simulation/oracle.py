"""The rules behind recorded results of other simulators, implemented as simply as possible: no indexes, no bit sets, no
shortcuts.\n\nTimes are seconds as integers. Events are handled one after another; at one moment submissions come before ends,
and ends in the order in which their jobs started. Every function takes the jobs in order of submission.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass
class Asked:
    """A job and its result.

    `units` are the numbers of its pools, if pools have names.
    """

    id: int | str
    submit: int
    run: int
    limit: int
    count: int
    start: int | None = None
    units: frozenset[int] = frozenset()

    @property
    def lasts(self) -> int:
        """How long it really runs, at most its limit."""
        return min(self.run, self.limit)


@dataclass
class Events:
    """Future events: submissions first, then ends in the order in which they were added."""

    heap: list[tuple[int, int, int, Asked]] = field(default_factory=list)

    def submissions(self, jobs: Iterable[Asked]) -> None:
        for job in jobs:
            heappush(self.heap, (job.submit, 0, len(self.heap), job))

    def end(self, job: Asked, number: int) -> None:
        assert job.start is not None
        heappush(self.heap, (job.start + job.lasts, 1, number, job))


def _run(jobs: list[Asked], came: Callable[[Asked, int], list[Asked]], ended: Callable[[Asked, int], list[Asked]]) -> None:
    """`came` and `ended` return the jobs that start because of an event."""
    events = Events()
    events.submissions(jobs)
    number = 0
    while events.heap:
        now, kind, _, job = heappop(events.heap)
        for starting in (ended if kind else came)(job, now):
            starting.start = now
            events.end(starting, number)
            number += 1


# -- counting ------------------------------------------------------------------------------------------------------------


def fcfs(jobs: list[Asked], size: int) -> None:
    """Strictly in order."""
    queue: list[Asked] = []
    running: list[Asked] = []

    def look(now: int) -> list[Asked]:
        started = []
        while queue and queue[0].count <= size - sum(job.count for job in running if until(job) > now):
            job = queue.pop(0)
            job.start = now
            running.append(job)
            started.append(job)
        return started

    def came(job: Asked, now: int) -> list[Asked]:
        queue.append(job)
        return look(now)

    def ended(job: Asked, now: int) -> list[Asked]:
        running.remove(job)
        return look(now)

    _run(jobs, came, ended)


def until(job: Asked) -> int:
    """When the scheduler expects its end."""
    assert job.start is not None
    return job.start + job.limit


def easy_by_count(jobs: list[Asked], size: int, *, shortest_first: bool = False) -> None:
    """EASY as in counting simulators; backfilling in order, or shortest limit first.

    The head of the queue starts at the first moment at which the limits of the running jobs leave enough for it. Another job
    starts if it ends before then, or if the units that the head leaves at that moment suffice for it. If a job arrives that
    does not fit into the free units, no job is considered.
    """
    queue: list[Asked] = []
    running: list[Asked] = []

    def free(at: int) -> int:
        return size - sum(job.count for job in running if until(job) > at)

    def may_start(job: Asked, now: int) -> bool:
        if job.count > free(now):
            return False
        head = queue[0]
        shadow = min(at for at in {now, *map(until, running)} if at >= now and free(at) >= head.count)
        return now + job.limit <= shadow or job.count <= free(shadow) - head.count

    def look(now: int) -> list[Asked]:
        started = []

        def start(job: Asked) -> None:
            queue.remove(job)
            job.start = now
            running.append(job)
            started.append(job)

        while queue and queue[0].count <= free(now):
            start(queue[0])
        behind = queue[1:]
        for job in sorted(behind, key=lambda each: each.limit) if shortest_first else behind:
            if may_start(job, now):
                start(job)
        return started

    def came(job: Asked, now: int) -> list[Asked]:
        queue.append(job)
        return look(now) if job.count <= free(now) else []

    def ended(job: Asked, now: int) -> list[Asked]:
        running.remove(job)
        return look(now)

    _run(jobs, came, ended)


def conservative_by_count(jobs: list[Asked], size: int) -> None:
    """Every job has a start from its submission on. Whenever a job ends, each waiting job is removed and inserted again, in
    order of submission, with all others unchanged."""
    planned: list[tuple[Asked, int, int]] = []
    """Job, start, end: running and waiting ones."""
    waiting: list[Asked] = []

    def used(at: int) -> int:
        return sum(job.count for job, start, end in planned if start <= at < end)

    def put(job: Asked, now: int) -> int:
        """The earliest start: now, or when another job is to end."""
        for start in sorted({now, *(end for _, _, end in planned if end > now)}):
            inside = {start, *(begin for _, begin, _ in planned if start < begin < start + job.limit)}
            if all(used(at) + job.count <= size for at in inside):
                planned.append((job, start, start + job.limit))
                return start
        raise AssertionError("there is always room behind all others")

    _conservatively(jobs, planned, waiting, put)


def _conservatively(
    jobs: list[Asked], planned: list[tuple[Asked, int, int]], waiting: list[Asked], put: Callable[[Asked, int], int]
) -> None:
    """Reserve, start due jobs, fit again; `put` plans a job. A start in the future is an event as well, after the ends of its
    moment. A job that was due before an event counts as started before those that can start because of it."""
    heap: list[tuple[int, int, int, Asked]] = []
    for number, job in enumerate(jobs):
        heappush(heap, (job.submit, 0, number, job))
    number = 0

    def drop(job: Asked) -> None:
        planned[:] = [entry for entry in planned if entry[0] is not job]

    while heap:
        now, kind, _, job = heappop(heap)
        due = [each for each in waiting if any(other is each and start <= now for other, start, _ in planned)]
        if kind == 0:
            waiting.append(job)
            if (start := put(job, now)) > now:
                heappush(heap, (start, 2, jobs.index(job), job))
        elif kind == 1:
            drop(job)
            for other in list(waiting):
                before = next(start for each, start, _ in planned if each is other)
                if before > now:
                    drop(other)
                    after = put(other, now)
                    assert after <= before
                    if now < after < before:
                        heappush(heap, (after, 2, jobs.index(other), other))
        due += [each for each in waiting if each not in due and any(o is each and start <= now for o, start, _ in planned)]
        for other in due:
            waiting.remove(other)
            other.start = now
            heappush(heap, (now + other.lasts, 1, number, other))
            number += 1


# -- by name -------------------------------------------------------------------------------------------------------------


def easy_by_name(jobs: list[Asked], size: int) -> None:
    """EASY in which the head of the queue has pools by name, the lowest that are free from its start on; another job takes the
    lowest that are free until its end, and those of the head only if it ends before the head starts. If only a job arrives,
    only that job is considered; if limits have come as well and the job fits into the free pools, the complete queue is."""
    queue: list[Asked] = []
    running: list[Asked] = []
    held: list[tuple[Asked, int, frozenset[int]]] = []
    """The head of the queue, its start and its pools; empty or one."""

    def free(at: int) -> frozenset[int]:
        return frozenset(range(size)).difference(*(job.units for job in running if until(job) > at))

    def start(job: Asked, now: int) -> bool:
        units = free(now)
        for _, begin, theirs in held:
            if begin < now + job.limit:
                units -= theirs
        if len(units) < job.count:
            return False
        job.start, job.units = now, frozenset(sorted(units)[: job.count])
        queue.remove(job)
        running.append(job)
        return True

    def reserve(job: Asked, now: int) -> None:
        moment = min(at for at in {now, *map(until, running)} if at >= now and len(free(at)) >= job.count)
        held.append((job, moment, frozenset(sorted(free(moment))[: job.count])))

    def look(among: list[Asked], now: int) -> list[Asked]:
        started = []
        for job in among:
            if start(job, now):
                started.append(job)
            elif not held:
                reserve(job, now)
        return started

    def came(job: Asked, now: int) -> list[Asked]:
        queue.append(job)
        if not any(until(each) <= now for each in running):
            return look([job], now)
        if len(free(now)) < job.count:
            return []
        held.clear()
        return look(list(queue), now)

    def ended(job: Asked, now: int) -> list[Asked]:
        running.remove(job)
        held.clear()
        return look(list(queue), now)

    _run(jobs, came, ended)


def conservative_by_name(jobs: list[Asked], size: int) -> None:
    """The same as by count, with pools by name: the lowest that are free throughout its window."""
    planned: list[tuple[Asked, int, int]] = []
    waiting: list[Asked] = []

    def put(job: Asked, now: int) -> int:
        for start in sorted({now, *(end for _, _, end in planned if end > now)}):
            stop = start + job.limit
            taken = (other.units for other, begin, end in planned if begin < stop and end > start)
            units = frozenset(range(size)).difference(*taken)
            if len(units) >= job.count:
                job.units = frozenset(sorted(units)[: job.count])
                planned.append((job, start, stop))
                return start
        raise AssertionError("there is always room behind all others")

    _conservatively(jobs, planned, waiting, put)
