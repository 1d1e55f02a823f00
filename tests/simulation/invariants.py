"""Invariants of every schedule, whatever produced it.

This only looks at the records: whether anything was held twice, whether a job started
before it was submitted or could start, whether a job exceeded its limit.  To check promises of policies it needs the reservations
made along the way, which a `Watched` policy records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fluxres.clock import seconds, ticks
from fluxres.instance.job import AFTER, BEGIN, NOT_OK, OK, SINGLETON
from fluxres.instance.queue import QueuePolicy
from fluxres.simulation.schedule import RESULTS, Schedule
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import idset

if TYPE_CHECKING:
    from fluxres.instance.job import Job
    from fluxres.instance.queue import Queue


def violations(schedule: Schedule, size: int, workload: Iterable[Submission] = ()) -> list[str]:
    """What is wrong with a schedule; empty if nothing is.

    Args:
        size: units of the machine.
        workload: what was run, for dependencies and run times.

    Cost: O(units held + jobs log jobs).
    """
    given = {job.id: job for job in workload}
    return [*_times(schedule, given), *_numbers(schedule, size), *_names(schedule, size), *_dependencies(schedule, given)]


def _times(schedule: Schedule, given: dict[int | str, Submission]) -> Iterator[str]:
    for at, (job, submit, start, end, _) in enumerate(schedule):
        if start < 0:
            continue
        if start < submit:
            yield f"job {job} starts at {seconds(start)}, before it was submitted at {seconds(submit)}"
        if end - start > schedule.limit[at]:
            yield f"job {job} runs {seconds(end - start)} s, its limit is {seconds(schedule.limit[at])} s"
        known = given.get(job)
        if known is not None and schedule.result[at] == 0 and end - start != min(known.run, known.limit):
            yield f"job {job} ran {seconds(end - start)} s of {seconds(known.run)} s"


def _numbers(schedule: Schedule, size: int) -> Iterator[str]:
    changes: dict[int, int] = defaultdict(int)
    for _, _, start, end, count in schedule:
        if start >= 0:
            changes[start] += count
            changes[end] -= count
    used = 0
    for moment in sorted(changes):
        used += changes[moment]
        if used > size:
            yield f"{used} of {size} units are held at {seconds(moment)}"


def _names(schedule: Schedule, size: int) -> Iterator[str]:
    """Each numbered unit by time: a job must not take it before the previous one released it."""
    order = sorted(range(len(schedule)), key=lambda at: (schedule.start[at], schedule.end[at]))
    allocated = schedule.allocated
    held_by: dict[int, tuple[int, int | str]] = {}
    for at in order:
        start, end, job = schedule.start[at], schedule.end[at], schedule.ids[at]
        if start < 0 or start == end:
            continue
        units = idset.parse(allocated[at])
        if units and units[-1] >= size:
            yield f"job {job} holds unit {units[-1]} of a machine of {size}"
        for unit in units:
            until, other = held_by.get(unit, (-1, ""))
            if until > start:
                yield f"jobs {other} and {job} hold unit {unit} at {seconds(start)}"
            held_by[unit] = (end, job)


def _dependencies(schedule: Schedule, given: dict[int | str, Submission]) -> Iterator[str]:
    at = {str(job): place for place, job in enumerate(schedule.ids)}
    started = [job for job in given if str(job) in at and schedule.start[at[str(job)]] >= 0]
    for job in started:
        start = schedule.start[at[str(job)]]
        for dependency in given[job].dependencies:
            scheme, _, value = dependency.partition(":")
            if scheme == BEGIN and start < ticks(float(value), BEGIN):
                yield f"job {job} starts before {dependency}"
            other = at.get(value) if scheme != BEGIN else None
            if other is None:
                continue
            if start < (schedule.start[other] if scheme in (AFTER, "afterstart") else schedule.end[other]):
                yield f"job {job} starts before {dependency}"
            if scheme in (OK, NOT_OK) and (RESULTS[schedule.result[other]] == "completed") != (scheme == OK):
                yield f"job {job} starts in spite of {dependency}"
    yield from _singletons(schedule, [given[job] for job in started], at)


def _singletons(schedule: Schedule, started: Iterable[Submission], at: dict[str, int]) -> Iterator[str]:
    """A singleton starts only after all earlier jobs of its user and name have ended."""
    ended: dict[tuple[str | None, str | None], int] = {}
    for job in started:
        place, family = at[str(job.id)], (job.user, job.name)
        if SINGLETON in job.dependencies and schedule.start[place] < ended.get(family, 0):
            yield f"job {job.id} starts before another {job.name} has ended"
        ended[family] = max(ended.get(family, 0), schedule.end[place])


class Watched(QueuePolicy):
    """A policy that records every promise it makes.

    Args:
        policy: whose passes are watched.
        head_only: only promises to the head of the queue count (EASY); otherwise every reservation (conservative).
    """

    def __init__(self, policy: QueuePolicy, *, head_only: bool) -> None:
        self.policy = policy
        self.name = policy.name
        self.keeps_reservations = policy.keeps_reservations
        self.recalculate_s = policy.recalculate_s
        self.head_only = head_only
        self.promised: dict[Job, int] = {}
        self.broken: list[str] = []

    def schedule(self, queue: Queue) -> None:
        self.policy.schedule(queue)
        for job in queue:
            if job.reserved >= 0:
                self._note(job)
            if self.head_only:
                break

    def _note(self, job: Job) -> None:
        before = self.promised.get(job)
        if before is not None and job.reserved > before:
            self.broken.append(f"job {job.id}: promised {seconds(before)}, now {seconds(job.reserved)}")
        self.promised[job] = job.reserved

    def finished(self, job: Job, now_s: float) -> None:
        """Check whether the job started as promised."""
        before = self.promised.pop(job, None)
        if before is not None and job.started > before:
            self.broken.append(f"job {job.id}: promised {seconds(before)}, started at {seconds(job.started)}")
        self.policy.finished(job, now_s)

    def priority(self, job: Job, now_s: float) -> int:
        return self.policy.priority(job, now_s)
