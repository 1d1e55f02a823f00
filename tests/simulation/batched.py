"""Schedulers that handle all events of a moment at once, ends first, and then make one pass, as simply as possible.

A reservation stays as it is while jobs only arrive, and is made again at moments at which a job has ended.  Times are seconds as
integers, pools are numbers from 0 on, and the lowest free ones are taken.  By count, a pool is a number like any other that
nobody asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.oracle import Asked


@dataclass
class Machine:
    """The state at one moment: the jobs that wait, in order, those that run, and what is planned for waiting ones."""

    size: int
    now: int = 0
    queue: list[Asked] = field(default_factory=list)
    running: list[Asked] = field(default_factory=list)
    planned: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """By `id` of a waiting job, its start and its pools."""

    def free(self, start: int, stop: int) -> frozenset[int]:
        """Pools that nobody holds and that are planned for nobody in a window."""
        taken = [job.units for job in self.running if _until(job) > start]
        limits = {id(job): job.limit for job in self.queue}
        taken += [units for key, (begin, units) in self.planned.items() if begin < stop and begin + limits[key] > start]
        return frozenset(range(self.size)).difference(*taken)

    def start(self, job: Asked, units: frozenset[int]) -> None:
        job.start, job.units = self.now, frozenset(sorted(units)[: job.count])
        self.queue.remove(job)
        self.planned.pop(id(job), None)
        self.running.append(job)

    def start_if_free(self, job: Asked) -> bool:
        units = self.free(self.now, self.now + job.limit)
        if len(units) < job.count:
            return False
        self.start(job, units)
        return True

    def plan(self, job: Asked) -> int:
        """Plan the earliest start of a job, and return it."""
        self.planned.pop(id(job), None)
        limits = {id(each): each.limit for each in self.queue}
        ends = {begin + limits[key] for key, (begin, _) in self.planned.items()} | {_until(each) for each in self.running}
        for start in sorted({self.now, *(end for end in ends if end > self.now)}):
            units = self.free(start, start + job.limit)
            if len(units) >= job.count:
                self.planned[id(job)] = start, frozenset(sorted(units)[: job.count])
                return start
        raise AssertionError("there is always room behind all others")


Pass = Callable[[Machine, list[Asked], bool], None]
"""Called at each moment with the jobs that have arrived, which are in the queue, and whether a job has ended."""


def run(jobs: list[Asked], size: int, make_pass: Pass) -> None:
    """Set the start and the pools of every job."""
    machine, coming = Machine(size), list(jobs)
    while coming or machine.running:
        begins = [start for start, _ in machine.planned.values() if start > machine.now]
        ends = [job.start + job.lasts for job in machine.running if job.start is not None]
        machine.now = min([*ends, *begins, *(job.submit for job in coming[:1])])
        ended = [job for job in machine.running if job.start is not None and job.start + job.lasts == machine.now]
        arrived = [job for job in coming if job.submit == machine.now]
        machine.running = [job for job in machine.running if job not in ended]
        coming = coming[len(arrived) :]
        machine.queue += arrived
        make_pass(machine, arrived, bool(ended))


def _until(job: Asked) -> int:
    assert job.start is not None
    return job.start + job.limit


def fcfs(machine: Machine, arrived: list[Asked], has_ended: bool) -> None:
    while machine.queue and machine.start_if_free(machine.queue[0]):
        pass


def easy(machine: Machine, arrived: list[Asked], has_ended: bool) -> None:
    """EASY in which certain pools are kept for the head of the queue."""
    if has_ended:
        machine.planned.clear()
    for job in list(machine.queue) if has_ended else arrived:
        if not machine.start_if_free(job) and not machine.planned:
            machine.plan(job)


def easy_by_count(machine: Machine, arrived: list[Asked], has_ended: bool, *, shortest_first: bool = False) -> None:
    """EASY in which a number of pools is kept for the head of the queue."""

    def free(at: int) -> int:
        return machine.size - sum(job.count for job in machine.running if _until(job) > at)

    def begin(job: Asked) -> None:
        machine.queue.remove(job)
        job.start = machine.now
        machine.running.append(job)

    while machine.queue and machine.queue[0].count <= free(machine.now):
        begin(machine.queue[0])
    behind = machine.queue[1:]
    for job in sorted(behind, key=lambda each: each.limit) if shortest_first else behind:
        head = machine.queue[0]
        shadow = min(at for at in map(_until, machine.running) if at > machine.now and free(at) >= head.count)
        is_harmless = machine.now + job.limit <= shadow or job.count <= free(shadow) - head.count
        if job.count <= free(machine.now) and is_harmless:
            begin(job)


def conservative(machine: Machine, arrived: list[Asked], has_ended: bool) -> None:
    """A planned start for every job, each made again in order when a job has ended."""
    for job in [job for job in machine.queue if machine.planned.get(id(job), (machine.now + 1,))[0] <= machine.now]:
        machine.start(job, machine.planned[id(job)][1])
    for job in list(machine.queue) if has_ended else arrived:
        if machine.plan(job) == machine.now:
            machine.start(job, machine.planned[id(job)][1])
