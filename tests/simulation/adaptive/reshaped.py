"""Random workloads of malleable jobs, run by the simulator and by an oracle that computes everything anew from lists.

What a job has done is the sum over all its sizes so far of the time at that size, without the time of reconfiguration,
multiplied by the speed-up; nothing is carried on from one change to the next.
`python -m tests.simulation.adaptive.reshaped --cases 1000` runs a campaign.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil
from random import Random
from typing import Any

from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.simulator import Simulator
from tests.simulation.adaptive import molded
from tests.simulation.adaptive.molded import BEGIN, END, SUBMIT, S, made, members
from tests.simulation.campaigns import campaign

POLICIES = ("none", "expand-idle", "shrink-to-start", "equipartition")


@dataclass(eq=False)
class Job(molded.Job):
    """A job whose size may change.

    `steps` are the moments of its sizes, the moments from which it works, and the sizes.
    """

    is_malleable: bool = False
    pause: int = 0
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    pinned: int | None = None
    first: int = 0
    """The size at which it started, before any change."""
    place: int = 0
    """Of its end among those of a moment: that of its last change."""

    def done(self, at: int) -> Fraction:
        stops = [*(moment for moment, _, _ in self.steps[1:]), at]
        return sum(
            (max(stop - works, 0) * self.speedup(size) for (_, works, size), stop in zip(self.steps, stops, strict=True)),
            Fraction(0),
        )

    def after(self, length: int) -> int:
        """When it has done what takes this long at its preferred size."""
        moment, works, size = self.steps[-1]
        left = length * self.speedup(self.preferred) - self.done(moment)
        return works + ceil(left / self.speedup(size))

    @property
    def until(self) -> int:
        if not self.steps:
            return super().until
        moment, works, size = self.steps[-1]
        left = self.time(self.limit, self.first) * self.speedup(self.first) - self.done(moment)
        return works + ceil(left / self.speedup(size))

    @property
    def end(self) -> int:
        return min(self.after(self.run), self.until) if self.steps else super().end


@dataclass
class Oracle(molded.Oracle):
    resize_policy: str = "none"
    lost: list[tuple[int, int, Any]] = field(default_factory=list)

    def begin(self, job: molded.Job, size: int, units: frozenset[int]) -> None:
        assert isinstance(job, Job)
        if job.is_malleable:
            job.steps, job.size, job.first = [(self.now, self.now, size)], size, size
        job.place = self.starts
        super().begin(job, size, units)

    def start(self, job: molded.Job) -> bool:
        assert isinstance(job, Job)
        if job.pinned is None:
            return super().start(job)
        planned, job.planned = job.planned, None
        if self.start_at(job, job.pinned):
            return True
        if planned is not None:
            self.plan(job)
        return False

    def to_reserve(self, job: molded.Job) -> int:
        assert isinstance(job, Job)
        return super().to_reserve(job) if job.pinned is None else job.pinned

    def conservative(self, among: list[molded.Job]) -> None:
        lost, self.lost = sorted(self.lost, key=lambda each: each[:2]), []
        for _, _, job in lost:
            if job in self.queue and job.planned is None:
                self.plan(job)
        super().conservative(among)

    def forget(self) -> None:
        """All reservations are dropped, since a size has changed."""
        for job in self.queue:
            if job.planned is not None:
                self.lost = [each for each in self.lost if each[2] is not job]
                self.lost.append((job.planned[0], job.number, job))
                job.planned = None

    def resize(self, job: Job, size: int) -> None:
        self.forget()
        if size - job.size > self.total - sum(other.size for other in self.running if other.until > self.now):
            return  # another job has started there
        is_new = self.now <= job.steps[0][0]
        if job.steps[-1][0] == self.now:
            job.steps.pop()
        job.steps.append((self.now, self.now + (0 if is_new else job.pause), size))
        if self.has_names:
            taken = {unit for other in self.running if other is not job and other.until > self.now for unit in other.units}
            free = sorted(set(range(self.total)) - taken - job.units)
            kept = sorted(job.units)
            job.units = frozenset(kept[:size] if size <= len(kept) else [*kept, *free[: size - len(kept)]])
        job.size = size
        job.place = self.starts
        heappush(self.events, (job.end, END, self.starts, job))
        self.starts += 1

    def full_pass(self) -> bool:
        """A pass over all jobs; returns whether one has started."""
        waiting = len(self.queue)
        if self.queue_policy == "easy":
            self.drop()
        {"fcfs": self.fcfs, "easy": self.easy, "conservative": self.conservative}[self.queue_policy](list(self.queue))
        return len(self.queue) < waiting

    def adjust(self) -> None:
        while True:
            running = [job for job in self.running if isinstance(job, Job) and job.is_malleable and job.end > self.now]
            running.sort(key=lambda job: (job.start, job.number))
            free = self.total - sum(job.size for job in self.running if job.until > self.now)
            sizes, starts = self.targets(running, free)
            changed = False
            for job in self.shrink_order(running):
                if sizes.get(job, job.size) < job.size:
                    self.resize(job, sizes[job])
                    changed = True
            started = False
            if starts:
                for waiting, size in starts:
                    waiting.pinned = size if len(waiting.sizes) > 1 else None
                started = self.full_pass()
                for waiting, _ in starts:
                    waiting.pinned = None
            for job in running:
                if sizes.get(job, job.size) > job.size:
                    self.resize(job, sizes[job])
                    changed = True
            if (changed or starts) and self.full_pass():
                started = True
            if not started:
                return

    def shrink_order(self, running: list[Job]) -> list[Job]:
        if self.resize_policy == "shrink-to-start":
            return sorted(running, key=lambda job: -(job.size - min(job.sizes)))
        return running

    def targets(self, running: list[Job], free: int) -> tuple[dict[Job, int], list[tuple[Job, int]]]:
        waiting = [job for job in self.queue if isinstance(job, Job)]
        if self.resize_policy == "equipartition":
            return self.equal(running, waiting, free)
        if self.resize_policy in ("expand-idle", "shrink-to-start") and not waiting:
            found = {}
            for job in running:
                found[job] = max(size for size in job.sizes if size <= job.size + free)
                free -= found[job] - job.size
            return found, []
        if self.resize_policy == "shrink-to-start":
            return self.room_for(waiting[0], running, free)
        return {}, []

    def room_for(self, head: Job, running: list[Job], free: int) -> tuple[dict[Job, int], list[tuple[Job, int]]]:
        least = min(head.sizes)
        if least <= free:
            return {}, [(head, max(size for size in head.sizes if size <= free))] if len(head.sizes) > 1 else []
        lacking, found = least - free, {}
        for job in self.shrink_order(running):
            if lacking > 0:
                good = [size for size in job.sizes if size <= job.size - lacking]
                found[job] = max(good, default=min(job.sizes))
                lacking -= job.size - found[job]
        return (found, [(head, least)]) if lacking <= 0 else ({}, [])

    def equal(self, running: list[Job], waiting: list[Job], free: int) -> tuple[dict[Job, int], list[tuple[Job, int]]]:
        left = free + sum(job.size - min(job.sizes) for job in running)
        sizes = {job: min(job.sizes) for job in running}
        starting = []
        for job in waiting:
            if min(job.sizes) > left:
                break
            left -= min(job.sizes)
            sizes[job] = min(job.sizes)
            starting.append(job)
        growing = [job for job in sizes if len(job.sizes) > 1]
        while growing:
            job = min(growing, key=lambda each: sizes[each])
            larger = [size for size in job.sizes if size > sizes[job]]
            if not larger or min(larger) - sizes[job] > left:
                growing.remove(job)
            else:
                left -= min(larger) - sizes[job]
                sizes[job] = min(larger)
        return sizes, [(job, sizes[job]) for job in starting]

    def run(self) -> dict[int, tuple[int, int, int, frozenset[int]]]:
        self.events = []
        for job in self.jobs:
            heappush(self.events, (job.submit, SUBMIT, job.number, job))
        ends = {}
        while self.events:
            self.now, kind, place, job = heappop(self.events)
            if kind == SUBMIT:
                self.queue.append(job)
                self.make_pass(job, has_ended=False)
            elif kind == BEGIN:
                if not self.is_due():
                    continue
                self.make_pass(None, has_ended=False)
            elif job not in self.running or place != job.place:
                continue
            else:
                ends[job.number] = (job.start, self.now, job.size, job.units)
                self.running.remove(job)
                self.make_pass(None, has_ended=True)
            self.adjust()
        return ends


# -- random cases ------------------------------------------------------------------------------------------------------


class Kept:
    """A sink that keeps the records."""

    def __init__(self) -> None:
        self.jobs: dict[int, Any] = {}

    def add(self, job: Any) -> None:
        self.jobs[job.id] = job

    def close(self) -> None:
        """Nothing to do."""


def difference(seed: int) -> str:
    """What differs between the simulator and the oracle; empty if nothing does."""
    random, case = Random(f"malleable {seed}"), made(seed)
    resize_policy = random.choice(POLICIES)
    jobs, submissions = [], []
    for each, submission in case.jobs:
        adaptive = submission.adaptive
        is_malleable = adaptive is not None and random.random() < 0.8
        pause = random.choice((0, 0, 1, 3)) * S
        fields = (each.number, each.submit, each.run, each.limit, each.preferred, each.sizes, each.model)
        jobs.append(Job(*fields, is_malleable=is_malleable, pause=pause))
        if adaptive is not None and is_malleable:
            submission = submission._replace(adaptive=replace(adaptive, is_malleable=True, reconfiguration=pause))
        submissions.append(submission)
    has_names = case.inventory in ("named", "graph")
    kept = Kept()
    simulator = Simulator(
        Machine(of_shape(f"node={case.total}") if has_names else of_number(case.total)),
        queue_policy=case.queue_policy,
        size_policy=case.size_policy,
        resize_policy=resize_policy,
        inventory=case.inventory.removesuffix("-counted"),
        sinks=[kept],
        keep=False,
    )
    simulator.run(submissions)
    problems = simulator.instance.check()
    if problems:
        return f"{seed}: {problems[0]}"
    found = Oracle(case.total, has_names, case.queue_policy, case.size_policy, list(jobs), resize_policy=resize_policy).run()
    for job in jobs:
        record = kept.jobs[job.number]
        start, end, size, units = found[job.number]
        sizes = [(moment, each) for moment, _, each in job.steps] or [(start, size)]
        wanted = (start, end, sizes, units if has_names else frozenset())
        got = (record.start, record.end, list(record.sizes) or [(record.start, record.size)], members(record.allocated()))
        if got != wanted:
            where = f"{case.inventory} {case.queue_policy} {case.size_policy} {resize_policy}, {case.total} units"
            return f"{seed} ({where}): job {job.number} is {got}, expected {wanted}"
    return ""


if __name__ == "__main__":
    sys.exit(campaign(__doc__, lambda seed: [text] if (text := difference(seed)) else [], seed=0))
