"""Random workloads with preemption, run by the simulator under fcfs and by an oracle that looks at every second and every subset.

The oracle shares nothing with the package: it counts units, and chooses among all subsets of the jobs that may be preempted.
`python -m tests.simulation.preempted --courses 10000` runs a campaign.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import msgspec

from fluxres.instance.accounting import Accounting
from fluxres.simulation import Submission, simulate
from fluxres.simulation.disturbances.attempts import Checkpoint
from fluxres.simulation.disturbances.external import Disturbances
from fluxres.simulation.schedule import Finished

S = 1_000_000
Attempts = list[tuple[int, int]]
Ran = dict[int, tuple[Attempts, bool]]
"""By job: its attempts, and whether it completed."""


@dataclass
class OracleJob:
    number: int
    submit: int
    run: int
    size: int
    urgency: int
    qos: str
    saved: int = 0
    start: int = -1
    place: int = 0
    due: int = -1
    cause: OracleJob | None = None
    is_waiting: bool = False
    attempts: Attempts = field(default_factory=list)
    result: bool | None = None

    @property
    def end(self) -> int:
        return self.start + self.run - self.saved


class Oracle:
    def __init__(self, units: int, site: dict[str, Any], interval: int, jobs: list[OracleJob]) -> None:
        self.units, self.site, self.interval, self.jobs = units, site, interval, jobs
        self.now = self.starts = 0

    def running(self) -> list[OracleJob]:
        return [job for job in self.jobs if job.start >= 0]

    def free(self) -> int:
        return self.units - sum(job.size for job in self.running())

    def waiting(self) -> list[OracleJob]:
        found = [
            job for job in self.jobs if job.is_waiting and (job.cause is None or not job.cause.is_waiting or job.cause is job)
        ]
        return sorted(found, key=lambda job: (-job.urgency, job.number))

    def start(self, job: OracleJob) -> None:
        self.starts += 1
        job.start, job.place, job.is_waiting = self.now, self.starts, False
        for other in self.jobs:
            if other.cause is job:
                other.cause = None

    def finish(self, job: OracleJob, result: bool) -> None:
        job.attempts.append((job.start, self.now))
        job.start, job.result, job.due = -1, result, -1

    def stop(self, job: OracleJob) -> None:
        if self.mode(job) == "cancel":
            self.finish(job, False)
            return
        work, elapsed = job.run - job.saved, self.now - job.start
        if self.interval:
            job.saved += self.interval * min(elapsed // self.interval, -(-work // self.interval) - 1)
        job.attempts.append((job.start, self.now))
        job.start, job.due, job.is_waiting = -1, -1, True

    def mode(self, job: OracleJob) -> str:
        return str(self.site["qos"][job.qos].get("preempt_mode", self.site["preempt_mode"]))

    def exempt(self, job: OracleJob) -> int:
        return int(self.site["qos"][job.qos].get("preempt_exempt_time", self.site["preempt_exempt_time"]))

    def choose(self, head: OracleJob) -> list[OracleJob]:
        going = [job for job in self.running() if job.due >= 0]
        missing = head.size - self.free() - sum(job.size for job in going)
        if missing <= 0:
            return []
        qos = self.site["qos"]
        may = [
            job
            for job in self.running()
            if job.qos in qos[head.qos]["preempt"]
            and job.due < 0
            and self.mode(job) != "off"
            and self.now >= job.start + self.exempt(job)
        ]
        may.sort(key=lambda job: (-qos[job.qos]["priority"], job.start, job.number))  # the best protected first
        subsets = [
            each
            for each in product((0, 1), repeat=len(may))
            if sum(j.size * n for j, n in zip(may, each, strict=True)) >= missing
        ]
        return [job for job, taken in zip(may, min(subsets), strict=True) if taken] if subsets else []

    def step(self) -> bool:
        before = self.starts, sum(len(job.attempts) for job in self.jobs)
        for job in self.running():
            if 0 <= job.due <= self.now:
                self.stop(job)
        head = next(iter(self.waiting()), None)
        if head is not None:
            chosen = self.choose(head)
            for job in chosen:
                job.cause, job.due = head, self.now + self.site["qos"][job.qos]["grace_time"]
                if job.due == self.now:
                    self.stop(job)
            if chosen and head.size <= self.free():
                self.start(head)
        while waiting := self.waiting():
            if waiting[0].size > self.free():
                break
            self.start(waiting[0])
        return before != (self.starts, sum(len(job.attempts) for job in self.jobs))

    def make_pass(self) -> None:
        while self.step():
            pass

    def ran(self) -> Ran:
        while any(job.result is None for job in self.jobs):
            for job in self.jobs:
                if job.submit == self.now:
                    job.is_waiting = True
                    self.make_pass()
            self.make_pass()
            for job in sorted(self.running(), key=lambda job: job.place):
                if job.start >= 0 and job.end == self.now:
                    self.finish(job, True)
                    self.make_pass()
            self.now += 1
            assert self.now < 100_000
        return {job.number: (job.attempts, bool(job.result)) for job in self.jobs}


class Kept(list[Finished]):
    def add(self, record: Finished) -> None:
        self.append(record)

    def close(self) -> None:
        pass

    def ran(self) -> Ran:
        return {
            int(job.id): ([(each.start // S, each.end // S) for each in (*job.earlier, job)], job.result == "completed")
            for job in self
        }


def made(random: Random) -> tuple[int, dict[str, Any], int, list[OracleJob]]:
    units = random.randint(2, 12)
    names = ("low", "middle", "high", "top")
    qos: dict[str, dict[str, Any]] = {}
    for at, name in enumerate(names):
        qos[name] = {"priority": random.choice((0, 1, 2, 3)), "grace_time": random.choice((0, 0, 3, 11))}
        qos[name]["preempt"] = [other for other in names[:at] if random.random() < 0.7]
        if random.random() < 0.4:
            qos[name]["preempt_mode"] = random.choice(("cancel", "requeue", "off"))
        if random.random() < 0.3:
            qos[name]["preempt_exempt_time"] = random.choice((0, 1, 9))
    site = {
        "preempt_type": "qos",
        "preempt_mode": random.choice(("cancel", "requeue", "requeue", "off")),
        "preempt_exempt_time": random.choice((0, 0, 2, 15)),
        "qos": qos,
    }
    submits = sorted(random.randint(0, 60) for _ in range(random.randint(2, 14)))
    jobs = [
        OracleJob(n, at, random.randint(1, 40), random.randint(1, units), random.choice((16, 16, 16, 20)), random.choice(names))
        for n, at in enumerate(submits, 1)
    ]
    return units, site, random.choice((0, 0, 4, 7)), jobs


def course(seed: int) -> str:
    """What differs; empty if nothing does."""
    random = Random(seed)
    units, site, interval, jobs = made(random)
    given = [
        Submission(job.number, job.submit * S, job.run * S, (job.run + 50) * S, job.size, urgency=job.urgency, qos=job.qos)
        for job in jobs
    ]
    checkpoint = Checkpoint(interval_s=interval) if interval else Checkpoint()
    kept = Kept()
    simulate(
        given,
        units,
        queue_policy="fcfs",
        inventory=random.choice(("auto", "auto", "graph")),
        accounting=msgspec.convert(site, Accounting),
        disturbances=Disturbances(checkpoint=checkpoint),
        sinks=[kept],
    )
    found, expected = kept.ran(), Oracle(units, site, interval, jobs).ran()
    if found == expected:
        return ""
    return "; ".join(f"job {n}: {found.get(n)}, expected {expected[n]}" for n in expected if found.get(n) != expected[n])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--courses", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    differences = 0
    for seed in range(options.first, options.first + options.courses):
        if found := course(seed):
            differences += 1
            print(f"seed {seed}: {found}")
    print(f"{options.courses} courses, {differences} differences")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
