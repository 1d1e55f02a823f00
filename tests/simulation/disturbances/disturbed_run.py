"""Random simulations with external events, compared with an oracle.

``python -m tests.simulation.disturbances.disturbed_run --count 5000``.
"""

from __future__ import annotations

import sys
from random import Random

from fluxres.clock import TICKS_PER_S
from fluxres.simulation.disturbances.attempts import NOTHING_SAVED, Checkpoint
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, ExternalEvent
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.schedule import Finished
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import idset
from tests.simulation.campaigns import campaign
from tests.simulation.disturbances.disturbed import NEVER, Disturbed, Job, Saving

STATES = {"completed": "completed", "failed": "failed", "canceled": "canceled", "timeout": "timeout"}


class Kept:
    """A sink that keeps the records."""

    def __init__(self) -> None:
        self.jobs: dict[object, Finished] = {}

    def add(self, job: Finished) -> None:
        self.jobs[job.id] = job

    def close(self) -> None:
        """Nothing to do."""


def random_events(random: Random, size: int, jobs: int, last: int, *, has_names: bool) -> list[tuple[int, str, object]]:
    found: list[tuple[int, str, object]] = []
    for _ in range(random.randrange(8)):
        at = random.randrange(last)
        kind = random.choice(("fail", "drain", "remove", "cancel", "hold", "reserve", "reserve"))
        node = random.randrange(size)
        if kind in ("fail", "drain", "remove"):
            if has_names:
                off = {"fail": "down"}.get(kind, kind)
                found += [(at, off, node), (at + random.randrange(1, 15), "add" if kind == "remove" else "up", node)]
        elif kind == "cancel":
            found.append((at, "cancel", random.randrange(jobs)))
        elif kind == "hold":
            job = random.randrange(jobs)
            found += [(at, "hold", job), (at + random.randrange(1, 12), "release", job)]
        else:
            start = at + random.randrange(1, 20)
            wanted: object = random.randrange(1, size + 1)
            if has_names and random.random() < 0.4:
                wanted = frozenset(random.sample(range(size), random.randrange(1, size)))
            found.append((at, "reserve", (wanted, start, random.randrange(1, 20))))
    return sorted(found, key=lambda event: event[0])


def external(event: tuple[int, str, object]) -> ExternalEvent:
    at, action, target = event
    if action == "reserve":
        wanted, start, length = target
        named = wanted if isinstance(wanted, int) else ",".join(f"node{u}" for u in sorted(wanted))
        return ExternalEvent(at * TICKS_PER_S, action, AdvanceReservation(named, start * TICKS_PER_S, length * TICKS_PER_S))
    return ExternalEvent(
        at * TICKS_PER_S, action, f"node{target}" if action in ("down", "up", "drain", "remove", "add") else target
    )


def differences(seed: int) -> list[str]:
    """What differs between a simulation and the oracle."""
    random = Random(seed)
    kind = random.choice(("named", "graph", "counted", "auto"))
    policy = random.choice(("fcfs", "easy")) if kind != "counted" else "fcfs"
    size, count, last = random.randrange(2, 9), random.randrange(3, 20), random.randrange(5, 60)
    requeues = random.random() < 0.6
    saving, checkpoint = Saving(), NOTHING_SAVED
    if requeues and random.random() < 0.5:
        saving = Saving(random.randrange(1, 8), random.randrange(3), random.randrange(3))
        checkpoint = Checkpoint(float(saving.interval), float(saving.save), float(saving.restart))
    jobs = []
    for number, submit in enumerate(sorted(random.randrange(last) for _ in range(count))):
        run = random.randrange(1, 20)
        limit = max(1, run + random.choice((0, 0, 0, 5, 10, -3)))
        jobs.append(Job(number, submit, run, limit, random.randrange(1, size + 1), random.choice((16, 16, 16, 20, 8))))
    events = random_events(random, size, count, last, has_names=kind != "counted")
    given = [
        Submission(
            job.id, job.submit * TICKS_PER_S, job.run * TICKS_PER_S, job.limit * TICKS_PER_S, job.count, urgency=job.urgency
        )
        for job in jobs
    ]
    for job in jobs:
        if saving.interval < NEVER:
            job.limit = len(saving.life(job.limit, True))
    oracle = Disturbed(size, jobs, events, policy, kind != "counted", requeues, saving)
    oracle.run()
    machine = Machine(of_number(size) if kind == "counted" else of_shape(f"node={size}"))
    kept = Kept()
    simulator = Simulator(
        machine,
        queue_policy=policy,
        inventory="auto" if kind == "counted" else kind,
        event_order="batched",
        disturbances=Disturbances([external(event) for event in events], "requeue" if requeues else "fail", checkpoint),
        sinks=[kept],
    )
    result = simulator.run(given)
    found = [f"{kind} {policy}: {problem}" for problem in simulator.instance.check()]
    if len(result.refusals):
        found.append(f"refused {result.refusals}")
    for job in jobs:
        record = kept.jobs.get(job.id)
        expected: tuple[object, ...] = (
            job.status,
            job.start,
            job.end,
            sorted(job.units) if kind != "counted" else None,
            job.lost,
        )
        got: tuple[object, ...]
        if record is None:
            got = ("wait", -1, -1, [], 0)
            expected = (*expected[:3], [], 0)
        else:
            units = sorted(idset.parse(record.allocated())) if record.allocated() else []
            lost = sum(each.size * (each.end - each.start) for each in record.earlier) // TICKS_PER_S
            start = record.start // TICKS_PER_S if record.start >= 0 else -1
            got = (record.result, start, record.end // TICKS_PER_S, units if kind != "counted" else None, lost)
            if record.start < 0:
                expected = (*expected[:3], [] if kind != "counted" else None, job.lost)
        if got != expected:
            found.append(f"{kind} {policy} requeue={requeues} {saving}: job {job.id} expected {expected}, got {got}")
    refused = sum(number for reason, number in result.notes.items() if reason.startswith("reservation"))
    if refused != oracle.refused:
        found.append(f"{kind}: {refused} reservations refused, expected {oracle.refused}: {dict(result.notes)}")
    return found


if __name__ == "__main__":
    sys.exit(campaign(__doc__, differences, count="--count"))
