"""Random closed loops, compared with an oracle: ``python -m tests.simulation.workload.followed_run --cases 5000``."""

from __future__ import annotations

import sys
from random import Random

from fluxres.clock import TICKS_PER_S
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from tests.simulation.campaigns import campaign
from tests.simulation.disturbances.disturbed_run import Kept
from tests.simulation.workload import followed
from tests.simulation.workload.followed import Job


def _jobs(random: Random, size: int) -> list[Job]:
    count, last = random.randrange(2, 30), random.randrange(5, 120)
    found: list[Job] = []
    for number, submit in enumerate(sorted(random.randrange(last) for _ in range(count))):
        run = random.randrange(1, 15)
        limit = max(1, run + random.choice((0, 0, 5, 10, -3)))
        made = Job(number, submit, random.randrange(12), run, limit, random.randrange(1, size + 2), random.choice("abc"))
        if random.random() < 0.6:
            made.previous, made.think = random.randrange(-2, count), random.choice((0, 0, 1, 5, 20))
        found.append(made)
    return found


def _submission(job: Job) -> Submission:
    times = (job.submit, job.run, job.limit)
    return Submission(
        job.id,
        *(time * TICKS_PER_S for time in times),
        job.count,
        job.user,
        previous=job.previous,
        think=job.think * TICKS_PER_S,
        waited=job.waited * TICKS_PER_S,
    )


def differences(seed: int) -> list[str]:
    """What differs between a simulation and the oracle."""
    random = Random(seed)
    size, gap = random.randrange(2, 7), random.randrange(1, 30)
    kind, named = random.choice(("think", f"sessions:gap={gap}s")), random.random() < 0.5
    jobs = _jobs(random, size)
    given = [_submission(job) for job in jobs]
    cancels = {random.randrange(len(jobs)): random.randrange(60) for _ in range(random.choice((0, 0, 2)))}
    kept = Kept()
    simulator = Simulator(
        Machine(of_shape(f"node={size}") if named else of_number(size)),
        queue_policy="fcfs",
        inventory="auto",
        event_order="batched",
        feedback=kind,
        disturbances=Disturbances([ExternalEvent(at * TICKS_PER_S, "cancel", key) for key, at in sorted(cancels.items())]),
        sinks=[kept],
    )
    result = simulator.run(given)
    if kind == "think":
        followed.by_think(jobs)
    else:
        followed.by_sessions(jobs, gap)
    followed.run(jobs, size, cancels)
    found = [f"{kind}: {problem}" for problem in simulator.instance.check()]
    if result.left:
        found.append(f"{kind}: {result.left} jobs left")
    for job in jobs:
        record = kept.jobs.get(job.id)
        expected = (job.submitted, job.start, job.end)
        if record is None:
            got: tuple[int, int, int] = (job.submitted, -1, job.submitted)
            expected = expected if job.count > size else (-2, -2, -2)
        else:
            start = record.start // TICKS_PER_S if record.start >= 0 else -1
            got = (record.submit // TICKS_PER_S, start, record.end // TICKS_PER_S)
        if got != expected:
            found.append(f"{kind}: job {job.id} expected {expected}, got {got}")
    return found


if __name__ == "__main__":
    sys.exit(campaign(__doc__, differences))
