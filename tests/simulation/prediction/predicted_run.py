"""Random simulations with predicted run times beside an oracle.

``python -m tests.simulation.prediction.predicted_run --cases 5000``.
"""

from __future__ import annotations

import sys
from random import Random

from fluxres.clock import TICKS_PER_S
from fluxres.simulation.machine import Machine, of_number, of_shape
from fluxres.simulation.prediction.prediction import Prediction
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import idset
from tests.simulation.campaigns import campaign
from tests.simulation.disturbances.disturbed_run import Kept
from tests.simulation.prediction import predicted
from tests.simulation.prediction.predicted import BY_COUNT, CORRECTORS, PASSES, PREDICTORS, Job, Scheduler


def _jobs(random: Random, size: int) -> list[Job]:
    count, last, scale = random.randrange(3, 40), random.randrange(5, 100), random.choice((1, 1, 7, 60))
    found = []
    for number, submit in enumerate(sorted(random.randrange(last) for _ in range(count))):
        run = random.randrange(1, 20) * scale
        limit = max(1, run + scale * random.choice((0, 0, 5, 10, 40, 100, -3)))
        found.append(Job(number, submit * scale, run, limit, random.randrange(1, size + 1), random.choice("abc")))
    return found


def _submission(job: Job) -> Submission:
    return Submission(job.id, job.submit * TICKS_PER_S, job.run * TICKS_PER_S, job.limit * TICKS_PER_S, job.count, job.user)


def differences(seed: int) -> list[str]:
    """What differs between a simulation and the oracle."""
    random = Random(seed)
    size, predictor, corrector = random.randrange(2, 9), random.choice([*PREDICTORS]), random.choice([*CORRECTORS])
    by_count, order = random.random() < 0.5, random.choice(("sequential", "batched"))
    policy = random.choice([*BY_COUNT] if by_count else [*PASSES])
    if not by_count:
        order = "batched"
    # Units of one pool are counted; on named nodes the policies by count choose nodes too.
    kind = "counted" if by_count else random.choice(("named", "graph", "auto"))
    jobs = _jobs(random, size)
    kept = Kept()
    simulator = Simulator(
        Machine(of_number(size) if kind == "counted" else of_shape(f"node={size}")),
        queue_policy=policy,
        inventory="auto" if kind == "counted" else kind,
        event_order=order,
        prediction=Prediction(predictor, corrector),
        sinks=[kept],
    )
    simulator.run([_submission(job) for job in jobs])
    scheduler = Scheduler(size, predictor, corrector)
    if order == "sequential":
        predicted.sequential(jobs, scheduler, shortest_first=policy == "easy-sjbf")
    else:
        predicted.batched(jobs, scheduler, BY_COUNT[policy] if by_count else PASSES[policy])
    what = f"{order} {kind} {policy} {predictor} {corrector}"
    found = [f"{what}: {problem}" for problem in simulator.instance.check()]
    for job in jobs:
        units = () if by_count else tuple(sorted(job.units))
        result = "completed" if job.run <= job.limit else "timeout"
        expected = (job.start, job.end, result, job.predicted, job.corrections, units)
        record = kept.jobs[job.id]
        at = tuple(time // TICKS_PER_S for time in (record.start, record.end, record.predicted))
        got = (at[0], at[1], record.result, at[2], record.corrections, () if by_count else tuple(idset.parse(record.allocated())))
        if got != expected:
            found.append(f"{what}: job {job.id} expected {expected}, got {got}")
    return found


if __name__ == "__main__":
    sys.exit(campaign(__doc__, differences))
