"""Random workloads of moldable jobs, run by the simulator and by an oracle that computes everything anew from lists.

The oracle shares nothing with the package but the names of policies: speed-ups are computed from their formulas, and what is
free at a moment is counted job by job.  `python -m tests.simulation.adaptive.molded --cases 1000` runs a campaign.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil
from random import Random
from typing import Any

from fluxres.simulation import Submission
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.adaptive.speedup import parse
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.simulator import Simulator
from fluxres.syntax import count
from tests.simulation.campaigns import campaign

S = 1_000_000
SUBMIT, BEGIN, END = range(3)


@dataclass(eq=False)
class Job:
    number: int
    submit: int
    run: int
    limit: int
    preferred: int
    sizes: list[int]
    model: tuple[str, Any]
    size: int = 0
    start: int = -1
    units: frozenset[int] = frozenset()
    planned: tuple[int, int, frozenset[int]] | None = None
    """Of a waiting job: its start, size and units."""

    def speedup(self, size: int) -> Fraction:
        kind, value = self.model
        if kind == "amdahl":
            return 1 / (value + (1 - value) / size)
        if kind == "table":
            return Fraction(value[size])
        return Fraction(size)

    def time(self, length: int, size: int) -> int:
        return ceil(length * self.speedup(self.preferred) / self.speedup(size))

    @property
    def until(self) -> int:
        """When it has to end."""
        return self.start + self.time(self.limit, self.size)

    @property
    def end(self) -> int:
        return self.start + min(self.time(self.run, self.size), self.time(self.limit, self.size))


@dataclass
class Oracle:
    total: int
    has_names: bool
    queue_policy: str
    size_policy: str
    jobs: list[Job]
    now: int = 0
    queue: list[Job] = field(default_factory=list)
    running: list[Job] = field(default_factory=list)
    starts: int = 0

    # -- what is free --------------------------------------------------------------------------------------------------

    def held(self) -> list[tuple[int, int, int, frozenset[int]]]:
        """Start, end, size and units of everything that is held or planned."""
        found = [(job.start, job.until, job.size, job.units) for job in self.running if job.until > self.now]
        for job in self.queue:
            if job.planned is not None:
                start, size, units = job.planned
                found.append((start, start + job.time(job.limit, size), size, units))
        return found

    def room(self, size: int, start: int, length: int) -> frozenset[int] | None:
        """The units for a job of this size throughout; None if there is not enough."""
        inside = [one for one in self.held() if one[0] < start + length and one[1] > start]
        if self.has_names:
            free = sorted(set(range(self.total)).difference(*(one[3] for one in inside)))
            return frozenset(free[:size]) if len(free) >= size else None
        moments = {start, *(one[0] for one in inside if one[0] > start)}
        most = max(sum(one[2] for one in inside if one[0] <= at < one[1]) for at in moments)
        return frozenset() if most + size <= self.total else None

    def earliest(self, job: Job, size: int) -> tuple[int, frozenset[int]]:
        length = job.time(job.limit, size)
        for start in sorted({self.now, *(end for _, end, _, _ in self.held() if end > self.now)}):
            units = self.room(size, start, length)
            if units is not None:
                return start, units
        raise AssertionError("there is always room behind all others")

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def fixed(self, job: Job) -> int | None:
        if self.size_policy == "requested":
            return job.preferred
        if self.size_policy.startswith("efficiency"):
            least = Fraction(self.size_policy.split(":")[1])
            good = [size for size in job.sizes if job.speedup(size) / size >= least]
            return max(good, default=min(job.sizes))
        return None

    def best(self, job: Job) -> tuple[int, int]:
        """The start and size that end first."""
        choices = []
        for size in job.sizes:
            start, _ = self.earliest(job, size)
            choices.append((start + job.time(job.limit, size), size, start))
        _, size, start = min(choices)
        return start, size

    def to_reserve(self, job: Job) -> int:
        fixed = self.fixed(job)
        if fixed is not None:
            return fixed
        return min(job.sizes) if self.size_policy == "greedy" else self.best(job)[1]

    # -- starting and planning -----------------------------------------------------------------------------------------

    def start_at(self, job: Job, size: int) -> bool:
        units = self.room(size, self.now, job.time(job.limit, size))
        if units is None:
            return False
        self.begin(job, size, units)
        return True

    def begin(self, job: Job, size: int, units: frozenset[int]) -> None:
        job.start, job.size, job.units, job.planned = self.now, size, units, None
        self.queue.remove(job)
        self.running.append(job)
        heappush(self.events, (job.end, END, self.starts, job))
        self.starts += 1

    def start(self, job: Job) -> bool:
        planned, job.planned = job.planned, None
        if planned is not None and (self.size_policy != "greedy" and planned[0] <= self.now):
            self.begin(job, planned[1], planned[2])
            return True
        fixed = self.fixed(job)
        if fixed is not None:
            sizes = [fixed]
        elif self.size_policy == "greedy":
            sizes = sorted(job.sizes, reverse=True)
        else:
            when, size = self.best(job)
            sizes = [size] if when == self.now else []
        if any(self.start_at(job, size) for size in sizes):
            return True
        if planned is not None:
            self.plan(job)
        return False

    def plan(self, job: Job) -> int:
        job.planned = None
        size = self.to_reserve(job)
        start, units = self.earliest(job, size)
        job.planned = start, size, units
        if self.queue_policy == "conservative" and start > self.now:
            heappush(self.events, (start, BEGIN, job.number, job))
        return start

    # -- passes --------------------------------------------------------------------------------------------------------

    def fcfs(self, _: list[Job]) -> None:
        for job in list(self.queue):
            if not self.start(job):
                return

    def easy(self, among: list[Job]) -> None:
        for job in among:
            if not self.start(job) and all(each.planned is None for each in self.queue):
                self.plan(job)

    def conservative(self, among: list[Job]) -> None:
        due = [job for job in self.queue if job.planned is not None and job.planned[0] <= self.now]
        for job in sorted(due, key=lambda each: (each.planned or (0,))[0]):
            self.start(job)
        for job in among:
            if job in self.queue and self.plan(job) == self.now:
                self.start(job)

    def make_pass(self, fresh: Job | None, *, has_ended: bool) -> None:
        among = list(self.queue) if has_ended else [fresh] if fresh is not None else []
        if self.queue_policy == "fcfs":
            self.fcfs(among)
        elif self.queue_policy == "conservative":
            self.conservative(among)
        else:
            if not has_ended and any(job.until <= self.now for job in self.running):
                self.drop()
                least = self.fixed(fresh) or min(fresh.sizes) if fresh is not None else 0
                if least > self.total - sum(job.size for job in self.running if job.until > self.now):
                    return
                among = list(self.queue)
            if has_ended:
                self.drop()
            self.easy(among)

    def is_due(self) -> bool:
        """Whether the reservation of a job begins now; it may have been made again for another moment."""
        return any(job.planned is not None and job.planned[0] <= self.now for job in self.queue)

    def drop(self) -> None:
        for job in self.queue:
            job.planned = None

    def run(self) -> dict[int, tuple[int, int, int, frozenset[int]]]:
        self.events: list[tuple[int, int, int, Job]] = []
        for job in self.jobs:
            heappush(self.events, (job.submit, SUBMIT, job.number, job))
        while self.events:
            self.now, kind, _, job = heappop(self.events)
            if kind == SUBMIT:
                self.queue.append(job)
                self.make_pass(job, has_ended=False)
            elif kind == BEGIN:
                if self.is_due():
                    self.make_pass(None, has_ended=False)
            else:
                self.running.remove(job)
                self.make_pass(None, has_ended=True)
        return {job.number: (job.start, job.end, job.size, job.units) for job in self.jobs}


# -- random cases ------------------------------------------------------------------------------------------------------

QUEUE_POLICIES = ("fcfs", "easy", "conservative")
SIZE_POLICIES = ("requested", "greedy", "earliest-finish", "efficiency:0.5", "efficiency:0.8")


@dataclass(frozen=True)
class Case:
    total: int
    inventory: str
    queue_policy: str
    size_policy: str
    jobs: tuple[tuple[Job, Submission], ...]


def made(seed: int) -> Case:
    random = Random(seed)
    total = random.randint(2, 16)
    jobs = []
    submit = 0
    for number in range(random.randint(2, 12)):
        submit += random.choice((0, 0, 1, 3, 10)) * S
        sizes, text = _sizes(random, total)
        preferred = random.choice(sizes)
        model, name = _model(random, sizes)
        run = random.randint(1, 40) * S
        limit = random.choice((run, run + random.randint(0, 30) * S, max(run - 5 * S, S)))
        job = Job(number, submit, run, limit, preferred, sizes, model)
        adaptive = Adaptive(count.parse(text), preferred, parse(name))
        jobs.append((job, Submission(number, submit, run, limit, preferred, adaptive=adaptive if len(sizes) > 1 else None)))
    inventory = random.choice(("counted", "named", "graph", "graph-counted"))
    return Case(total, inventory, random.choice(QUEUE_POLICIES), random.choice(SIZE_POLICIES), tuple(jobs))


def _sizes(random: Random, total: int) -> tuple[list[int], str]:
    kind = random.choice(("one", "range", "powers", "list", "steps"))
    low = random.randint(1, total)
    high = random.randint(low, total)
    if kind == "range":
        return list(range(low, high + 1)), f"{low}-{high}" if low < high else str(low)
    if kind == "powers":
        found = [low]
        while found[-1] * 2 <= high:
            found.append(found[-1] * 2)
        return found, f"{low}-{high}:2:*" if low < high else str(low)
    if kind == "steps":
        return list(range(low, high + 1, 3)), f"{low}-{high}:3:+" if low < high else str(low)
    if kind == "list":
        found = sorted(random.sample(range(1, total + 1), random.randint(1, total)))
        return found, ",".join(map(str, found))
    return [low], str(low)


def _model(random: Random, sizes: list[int]) -> tuple[tuple[str, Any], str]:
    kind = random.choice(("linear", "amdahl", "table"))
    if kind == "amdahl":
        percent = random.choice((0, 1, 5, 20, 50, 100))
        return (kind, Fraction(percent, 100)), f"amdahl:serial={percent / 100}"
    if kind == "table":
        values = {size: 1 if size == 1 else random.randint(4, 4 * size) / 4 for size in sizes}
        return (kind, values), "table:" + ",".join(f"{size}={value}" for size, value in values.items())
    return (kind, None), kind


class Kept:
    """A sink that keeps the records."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[int, int, int, str]] = {}

    def add(self, job: Any) -> None:
        self.jobs[job.id] = (job.start, job.end, job.size, job.allocated())

    def close(self) -> None:
        """Nothing to do."""


def difference(seed: int) -> str:
    """What differs between the simulator and the oracle; empty if nothing does."""
    case = made(seed)
    has_names = case.inventory in ("named", "graph")
    machine = of_shape(f"node={case.total}") if has_names else of_number(case.total)
    kept = Kept()
    simulator = Simulator(
        Machine(machine),
        queue_policy=case.queue_policy,
        size_policy=case.size_policy,
        inventory=case.inventory.removesuffix("-counted"),
        sinks=[kept],
        keep=False,
    )
    simulator.run([submission for _, submission in case.jobs])
    problems = simulator.instance.check()
    if problems:
        return f"{seed}: {problems[0]}"
    expected = Oracle(case.total, has_names, case.queue_policy, case.size_policy, [job for job, _ in case.jobs]).run()
    for number, (start, end, size, units) in expected.items():
        wanted = (start, end, size, ",".join(map(str, sorted(units))) if has_names else "")
        found = kept.jobs[number]
        if found[:3] != wanted[:3] or (has_names and members(found[3]) != units):
            where = f"{case.inventory} {case.queue_policy} {case.size_policy}, {case.total} units"
            return f"{seed} ({where}): job {number} is {found}, expected {wanted}"
    return ""


def members(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(",") if text else ():
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


if __name__ == "__main__":
    sys.exit(campaign(__doc__, lambda seed: [text] if (text := difference(seed)) else [], seed=0))
