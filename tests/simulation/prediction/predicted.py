"""Schedulers that plan with predicted run times, as simply as possible: no index, no bit set.

Times are seconds as integers.  A job is predicted at its submission, from the run times of the jobs that ended before.  If it
runs on at the end of that, it is corrected before anything else of that moment.  Jobs are stopped at their limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

Runs = dict[str, list[int]]
"""By user, the run times of the jobs that have ended."""
STEPS = [0, 60, 5 * 60, 15 * 60, 30 * 60, 3600, 2 * 3600, 5 * 3600, 10 * 3600, 20 * 3600, 50 * 3600, 100 * 3600]


@dataclass
class Job:
    """A job and its result; `units` are the numbers of its pools, if pools have names."""

    id: int
    submit: int
    run: int
    limit: int
    count: int
    user: str
    planned: int = 0
    predicted: int = 0
    corrections: int = 0
    start: int = -1
    units: frozenset[int] = frozenset()

    @property
    def end(self) -> int:
        return self.start + min(self.run, self.limit)

    @property
    def until(self) -> int:
        """When the scheduler expects its end."""
        return self.start + self.planned


def two_last(job: Job, runs: Runs) -> int:
    own = runs.get(job.user, [])
    return (own[-1] + own[-2]) // 2 if len(own) > 1 else job.limit


def mean_of(last: int) -> Callable[[Job, Runs], int]:
    def mean(job: Job, runs: Runs) -> int:
        own = runs.get(job.user, [])[-last:]
        return sum(own) // len(own) if own else job.limit

    return mean


PREDICTORS: dict[str, Callable[[Job, Runs], int]] = {
    "requested": lambda job, runs: job.limit,
    "perfect": lambda job, runs: job.run,
    "tsafrir": two_last,
    "average": mean_of(10**9),
    "average:last=3": mean_of(3),
}
CORRECTORS: dict[str, Callable[[Job], int]] = {
    "requested": lambda job: job.limit,
    "doubling": lambda job: 2 * job.planned,
    "tsafrir": lambda job: job.planned - STEPS[job.corrections] + STEPS[job.corrections + 1],
}


@dataclass
class Scheduler:
    """The state at one moment: the jobs that wait, in order, those that run, in order of start, and what is planned."""

    size: int
    predictor: str
    corrector: str
    now: int = 0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    planned: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """By id of a waiting job, its start and its pools."""
    lost: list[int] = field(default_factory=list)
    """Ids of the jobs whose plans corrections have made impossible at this moment, the earliest first."""
    runs: Runs = field(default_factory=dict)

    def arrive(self, job: Job) -> None:
        job.planned = job.predicted = max(1, min(PREDICTORS[self.predictor](job, self.runs), job.limit))
        self.queue.append(job)

    def finish(self, job: Job) -> None:
        self.running.remove(job)
        self.runs.setdefault(job.user, []).append(self.now - job.start)

    def correct(self, job: Job) -> None:
        job.planned = min(CORRECTORS[self.corrector](job), job.limit)
        job.corrections += 1

    def overdue(self) -> list[Job]:
        return [job for job in self.running if job.until == self.now < job.end]

    # -- by name

    def free(self, start: int, stop: int) -> frozenset[int]:
        """Pools that nobody holds and that are planned for nobody in a window."""
        lengths = {job.id: job.planned for job in self.queue}
        taken = [job.units for job in self.running if job.until > start]
        taken += [units for key, (at, units) in self.planned.items() if at < stop and at + lengths[key] > start]
        return frozenset(range(self.size)).difference(*taken)

    def begin(self, job: Job, units: frozenset[int] = frozenset()) -> None:
        job.start, job.units = self.now, frozenset(sorted(units)[: job.count])
        self.queue.remove(job)
        self.planned.pop(job.id, None)
        self.running.append(job)

    def begin_if_free(self, job: Job) -> bool:
        own = self.planned.pop(job.id, None)
        units = self.free(self.now, self.now + job.planned)
        if len(units) >= job.count:
            self.begin(job, units)
            return True
        if own is not None:
            self.planned[job.id] = own
        return False

    def plan(self, job: Job) -> int:
        """Plan the earliest start of a job, and return it."""
        self.planned.pop(job.id, None)
        lengths = {each.id: each.planned for each in self.queue}
        ends = {at + lengths[key] for key, (at, _) in self.planned.items()} | {each.until for each in self.running}
        for start in sorted({self.now, *(end for end in ends if end > self.now)}):
            units = self.free(start, start + job.planned)
            if len(units) >= job.count:
                self.planned[job.id] = start, frozenset(sorted(units)[: job.count])
                return start
        raise AssertionError("there is always room behind all others")

    # -- by count

    def left(self, at: int) -> int:
        return self.size - sum(job.count for job in self.running if job.until > at)

    def shadow(self, head: Job) -> int:
        return min(
            at for at in {self.now, *(job.until for job in self.running)} if at >= self.now and self.left(at) >= head.count
        )

    def look(self, *, shortest_first: bool) -> list[Job]:
        """EASY by count over the whole queue; returns what starts."""
        started = []
        while self.queue and self.queue[0].count <= self.left(self.now):
            started.append(self.queue[0])
            self.begin(self.queue[0])
        for job in sorted(self.queue[1:], key=lambda each: each.planned) if shortest_first else self.queue[1:]:
            head = self.queue[0]
            at = self.shadow(head)
            is_harmless = self.now + job.planned <= at or job.count <= self.left(at) - head.count
            if job.count <= self.left(self.now) and is_harmless:
                started.append(job)
                self.begin(job)
        return started


Pass = Callable[[Scheduler, list[Job], bool], None]
"""Called at each moment with the jobs that have arrived, which are in the queue, and whether a job has ended or was corrected."""


def batched(jobs: list[Job], scheduler: Scheduler, make_pass: Pass) -> None:
    """All events of a moment, corrections first, then ends, then one pass."""
    coming = list(jobs)
    while coming or scheduler.running:
        moments = [job.end for job in scheduler.running] + [job.until for job in scheduler.running]
        begins = [at for at, _ in scheduler.planned.values() if at > scheduler.now]
        moments = [at for at in moments if at > scheduler.now]
        scheduler.now = now = min([*moments, *begins, *(job.submit for job in coming[:1])])
        overdue = scheduler.overdue()
        for job in overdue:
            scheduler.correct(job)
        keep_plans(scheduler, overdue)
        ended = [job for job in scheduler.running if job.end == now]
        for job in ended:
            scheduler.finish(job)
        arrived = [job for job in coming if job.submit == now]
        coming = coming[len(arrived) :]
        for job in arrived:
            scheduler.arrive(job)
        make_pass(scheduler, arrived, bool(ended or overdue))


def keep_plans(scheduler: Scheduler, corrected: list[Job]) -> None:
    """Plans that would use what a corrected job holds longer are lost; `conservative` makes them again, the earliest first."""
    plans = scheduler.planned.items()
    lost = {key: at for key, (at, units) in plans if any(at < job.until and units & job.units for job in corrected)}
    for key in lost:
        del scheduler.planned[key]
    scheduler.lost = sorted(lost, key=lambda key: (lost[key], key))


def backfill(depth: int) -> Pass:
    """EASY in which certain pools are kept for the first jobs that cannot start."""

    def make(scheduler: Scheduler, arrived: list[Job], has_changed: bool) -> None:
        if has_changed:
            scheduler.planned.clear()
        for job in list(scheduler.queue) if has_changed else arrived:
            if not scheduler.begin_if_free(job) and len(scheduler.planned) < depth:
                scheduler.plan(job)

    return make


def count(*, shortest_first: bool) -> Pass:
    def make(scheduler: Scheduler, arrived: list[Job], has_changed: bool) -> None:
        scheduler.look(shortest_first=shortest_first)

    return make


def conservative(scheduler: Scheduler, arrived: list[Job], has_changed: bool) -> None:
    """A planned start for every job, each made again in order when a job has ended or was corrected."""
    for job in [job for job in scheduler.queue if scheduler.planned.get(job.id, (scheduler.now + 1,))[0] <= scheduler.now]:
        scheduler.begin(job, scheduler.planned[job.id][1])
    by_id = {job.id: job for job in scheduler.queue}
    for key in scheduler.lost:
        scheduler.plan(by_id[key])
    for job in list(scheduler.queue) if has_changed else arrived:
        if scheduler.plan(job) == scheduler.now:
            scheduler.begin(job, scheduler.planned[job.id][1])


PASSES: dict[str, Pass] = {
    "fcfs": lambda scheduler, arrived, has_changed: fcfs(scheduler),
    "easy": backfill(1),
    "hybrid:depth=3": backfill(3),
    "conservative": conservative,
}
BY_COUNT: dict[str, Pass] = {"easy-count": count(shortest_first=False), "easy-sjbf": count(shortest_first=True)}


def fcfs(scheduler: Scheduler) -> None:
    while scheduler.queue and scheduler.begin_if_free(scheduler.queue[0]):
        pass


def sequential(jobs: list[Job], scheduler: Scheduler, *, shortest_first: bool, always: bool = False) -> None:
    """EASY by count, one event at a time, as in PySS: corrections, which no pass follows, then submissions, then ends.

    Args:
        always: a job that does not fit makes a pass too, as in PySS with predictions; else only after a correction.
    """
    heap: list[tuple[int, int, int, Job]] = []
    number = 0

    def push(at: int, kind: int, job: Job) -> None:
        nonlocal number
        number += 1
        heappush(heap, (at, kind, number, job))

    for job in jobs:
        push(job.submit, 1, job)
    was_corrected = False
    while heap:
        scheduler.now, kind, _, job = heappop(heap)
        if kind == 0:
            scheduler.correct(job)
            was_corrected = True
            if job.until < job.end:
                push(job.until, 0, job)
            continue
        if kind == 1:
            scheduler.arrive(job)
            if job.count > scheduler.left(scheduler.now) and not was_corrected and not always:
                continue
        else:
            scheduler.finish(job)
        was_corrected = False
        for each in scheduler.look(shortest_first=shortest_first):
            push(each.end, 2, each)
            if each.until < each.end:
                push(each.until, 0, each)
