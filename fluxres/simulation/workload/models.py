"""Workloads made by a model, reproducible by seed.

A model can be arbitrarily long and takes no memory.  Each job of an ensemble is drawn with its own random numbers, by seed and
number, so that a share of it (every n-th job, for one of n instances) can be made without the rest.

The workload model of Lublin and Feitelson: U. Lublin and D. G. Feitelson, The workload on parallel supercomputers: modeling the
characteristics of rigid jobs, J. Parallel Distrib. Comput. 63(11), 2003.  Fitted to logs of the 1990s: a quarter of the jobs is
serial, most others use a power of two of processors, the logarithm of the run time is a mixture of two gamma distributions that
depends on the size, and submissions follow a daily cycle.  Its constants, and what they mean, are those of the authors' program
`lublin99.c` for all jobs together (in the Parallel Workloads Archive).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.workload.workload import Submission

DISTRIBUTIONS: Final = ("fixed", "uniform", "exponential")


def of_job(seed: int, number: int) -> random.Random:
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


# -- Lublin and Feitelson ------------------------------------------------------------------------------------------------

SERIAL, POWER_OF_TWO = 0.244, 0.576
"""Of all jobs: those of one processor, and those that are rounded to a power of two."""
LOWEST, MOSTLY = 0.8, 0.86
"""log2 of the smallest parallel size, and the fraction of jobs below the middle of the range."""
BELOW_LARGEST: Final = 2.5
"""How far that middle is below log2 of the machine size."""
SHORT, LONG = (4.2, 0.94), (312.0, 0.03)
"""Shape and scale of the two gamma distributions of the logarithm of the run time."""
SLOPE, SHORT_MOST = -0.0054, 0.78
"""Probability of the shorter one, which decreases with the size."""
LOG_RUN_MAX: Final = 12.0
ARRIVAL: Final = (10.2303, 0.4871)
"""Shape and scale of the gamma distribution of the logarithm of the gap between submissions."""
LOG_GAP_MAX: Final = 13.0
"""Longer gaps (above five days) are drawn again, because no log has the long tail of this distribution."""
DAY: Final = (8.1737, 3.9631)
RUSH: Final = 1.0225
DAY_BEGINS: Final = 11
"""The half hour from which on the gamma distribution of a day counts; the first ones of a day are its end."""
BUCKET_S: Final = 1800.0
BUCKETS: Final = 48


@dataclass(frozen=True)
class Lublin:
    """Jobs of the model.

    Args:
        jobs: number of jobs.
        size: processors of the machine.
        seed: for all random numbers.
        overestimate: limits are the run time times a uniformly distributed factor from 1 to this; 1 for exact limits.

    >>> [job.ask for job in Lublin(5, 128, seed=1)] == [job.ask for job in Lublin(5, 128, seed=1)]
    True
    """

    jobs: int
    size: int = 128
    seed: int = 0
    overestimate: float = 1.0

    def __post_init__(self) -> None:
        if self.jobs < 0 or self.size < 1 or not 1 <= self.overestimate < 1e6:
            raise UsageError("expected jobs of at least 0, a size and an overestimate of at least 1", where="lublin")

    def __len__(self) -> int:
        return self.jobs

    def __iter__(self) -> Iterator[Submission]:
        drawn = random.Random(self.seed)
        moments = _arrivals(drawn)
        for number in range(1, self.jobs + 1):
            size = _processors(drawn, self.size)
            run = _run_s(drawn, size)
            limit = run * drawn.uniform(1.0, self.overestimate) if self.overestimate > 1 else run
            yield Submission(
                number,
                round(next(moments) * TICKS_PER_S),
                max(1, round(run)) * TICKS_PER_S,
                max(1, round(limit)) * TICKS_PER_S,
                size,
            )


def _processors(drawn: random.Random, machine: int) -> int:
    kind = drawn.random()
    if kind <= SERIAL or machine == 1:
        return 1
    highest = math.log2(machine)
    lowest = min(LOWEST, highest)
    middle = max(lowest, highest - BELOW_LARGEST)
    log = drawn.uniform(lowest, middle) if drawn.random() < MOSTLY else drawn.uniform(middle, highest)
    if kind <= SERIAL + POWER_OF_TWO:
        log = math.floor(log + 0.5)
    rounded: int = math.floor(2.0**log + 0.5)
    return min(machine, max(1, rounded))


def _run_s(drawn: random.Random, size: int) -> float:
    likely = min(1.0, max(0.0, SLOPE * size + SHORT_MOST))
    while True:
        log = drawn.gammavariate(*(SHORT if drawn.random() <= likely else LONG))
        if log <= LOG_RUN_MAX:
            return math.exp(log)


def _arrivals(drawn: random.Random) -> Iterator[float]:
    """Submission times: gaps of the rush hours, stretched by how much busier these are than the current half hour."""
    weights = _weights()
    shape, scale = ARRIVAL[0] * RUSH, ARRIVAL[1]
    now = 0.0
    while True:
        log = drawn.gammavariate(shape, scale)
        if log > LOG_GAP_MAX:
            continue
        left = math.exp(log) / BUCKET_S
        while True:
            bucket = int(now / BUCKET_S)
            weight = weights[bucket % BUCKETS]
            until = (bucket + 1) * BUCKET_S
            room = (until - now) / BUCKET_S * weight
            if left <= room:
                now += left / weight * BUCKET_S
                break
            left -= room
            now = until
        yield now


def _weights() -> list[float]:
    """How busy each half hour of the day is, from midnight on, with mean 1."""
    found = [0.0] * BUCKETS
    for at in range(DAY_BEGINS, DAY_BEGINS + BUCKETS):
        found[(at - 1) % BUCKETS] = _between(at - 0.5, at + 0.5)
    mean = sum(found) / BUCKETS
    return [weight / mean for weight in found]


def _between(low: float, high: float) -> float:
    """The probability of a range of half hours by the gamma distribution of a day (Simpson's rule)."""
    parts = 16
    step = (high - low) / parts
    inner = sum((4 if at % 2 else 2) * _gamma(low + at * step) for at in range(1, parts))
    return (_gamma(low) + inner + _gamma(high)) * step / 3


def _gamma(x: float) -> float:
    shape, scale = DAY
    return math.exp((shape - 1) * math.log(x) - x / scale - math.lgamma(shape) - shape * math.log(scale))
