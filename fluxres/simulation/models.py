"""Workloads made by a model, reproducible by seed.

Each job is drawn with its own random numbers, by seed and number, so that a share of a workload (every n-th job, for one of n
instances) can be made without the rest.  A model can be arbitrarily long and takes no memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.workload import Submission

DISTRIBUTIONS: Final = ("fixed", "uniform", "exponential")


def of_job(seed: int, number: int) -> random.Random:
    """The random numbers of one job."""
    return random.Random((seed << 40) ^ number)


@dataclass(frozen=True)
class Ensemble:
    """Many short jobs of one kind, as submitted by ensembles and parameter studies.

    Args:
        jobs: number of jobs.
        run_s: mean run time.
        distribution: of run times: fixed, uniform (from 0 to twice the mean) or exponential.
        size: units of each job.
        interval_s: between submissions; 0 submits all at the beginning.
        limit_s: of each job; none by default.
        seed: for run times.

    >>> [job.run for job in Ensemble(2, run_s=1.5)]
    [1500000, 1500000]
    """

    jobs: int
    run_s: float = 1.0
    distribution: str = "fixed"
    size: int = 1
    interval_s: float = 0.0
    limit_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.distribution not in DISTRIBUTIONS:
            raise UsageError(f"expected {', '.join(DISTRIBUTIONS)}, got {self.distribution!r:.80}", where="ensemble")
        if self.jobs < 0 or self.size < 1 or not 0 <= self.run_s < 1e12 or not 0 <= self.interval_s < 1e9:
            raise UsageError("expected jobs and times of at least 0 and a size of at least 1", where="ensemble")

    def __len__(self) -> int:
        return self.jobs

    def __iter__(self) -> Iterator[Submission]:
        return self.share(0, 1)

    def share(self, place: int, number: int) -> Iterator[Submission]:
        """Every `number`-th job from `place` on."""
        fixed, interval = round(self.run_s * TICKS_PER_S), round(self.interval_s * TICKS_PER_S)
        limit = FOREVER if self.limit_s is None else round(self.limit_s * TICKS_PER_S)
        for job in range(place, self.jobs, number):
            run = fixed if self.distribution == "fixed" else self._drawn(job)
            yield Submission(job, job * interval, max(run, 1), limit, self.size)

    def _drawn(self, job: int) -> int:
        drawn = of_job(self.seed, job)
        seconds = drawn.uniform(0.0, 2 * self.run_s) if self.distribution == "uniform" else drawn.expovariate(1 / self.run_s)
        return round(seconds * TICKS_PER_S)


@dataclass(frozen=True)
class Bursts:
    """On-off arrivals: Poisson during on periods, none during off periods; the lengths of both are exponential.

    Args:
        jobs: number of jobs.
        on_s, off_s: mean lengths of the periods.
        interval_s: mean time between submissions in an on period.
        run_s: mean run time, exponential.
        size: sizes are powers of two up to it, equally likely.
        seed: for all random numbers.
    """

    jobs: int
    on_s: float = 600.0
    off_s: float = 3000.0
    interval_s: float = 10.0
    run_s: float = 600.0
    size: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.jobs < 0 or self.size < 1 or not all(0 < t < 1e12 for t in (self.on_s, self.off_s, self.interval_s, self.run_s)):
            raise UsageError("expected times above 0 and a size of at least 1", where="bursts")

    def __len__(self) -> int:
        return self.jobs

    def __iter__(self) -> Iterator[Submission]:
        drawn = random.Random(self.seed)
        now, over = 0.0, drawn.expovariate(1 / self.on_s)
        for number in range(self.jobs):
            now += drawn.expovariate(1 / self.interval_s)
            while now > over:
                # The rest of the gap is drawn again in the next period, as the exponential distribution is memoryless.
                now = over + drawn.expovariate(1 / self.off_s)
                over = now + drawn.expovariate(1 / self.on_s)
                now += drawn.expovariate(1 / self.interval_s)
            run = max(1, round(drawn.expovariate(1 / self.run_s) * TICKS_PER_S))
            size: int = 1 << drawn.randint(0, self.size.bit_length() - 1)
            yield Submission(number, round(now * TICKS_PER_S), run, run, min(size, self.size))
