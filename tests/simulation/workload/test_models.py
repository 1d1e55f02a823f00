"""Generated workloads: equal for equal seeds, and similar to what they model."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from fluxres import UsageError
from fluxres.simulation.workload import models
from fluxres.simulation.workload.models import Bursts, Ensemble, Lublin
from fluxres.simulation.workload.workload import Submission, Workload, share

MAKERS: list[Callable[[int], Iterable[Submission]]] = [
    lambda seed: Lublin(300, 64, seed=seed),
    lambda seed: Ensemble(300, 2.0, "exponential", seed=seed),
    lambda seed: Ensemble(300, 2.0, "uniform", seed=seed),
    lambda seed: Bursts(300, size=8, seed=seed),
]


@pytest.mark.parametrize("make", MAKERS)
def test_equal_seeds_give_equal_workloads(make: Callable[[int], Iterable[Submission]]) -> None:
    made = list(make(1))
    assert list(make(1)) == made
    assert list(make(2)) != made
    assert [job.submit for job in made] == sorted(job.submit for job in made)
    assert all(job.run >= 1 and job.limit >= job.run for job in made)


def test_an_ensemble_is_dealt_without_being_generated() -> None:
    whole = Ensemble(10, 2.0, "exponential", seed=3)
    dealt = [list(share(whole, place, 3)) for place in range(3)]
    assert sorted((job for part in dealt for job in part), key=lambda job: job.id) == list(whole)
    workload = Workload("x", list(whole))
    assert [list(workload.share(place, 3)) for place in range(3)] == dealt
    with pytest.raises(UsageError, match="from an iterator"):
        share(iter(whole), 0, 2)


def test_lublin_resembles_the_logs() -> None:
    jobs = list(Lublin(20_000, 128, seed=5))
    sizes = [int(job.ask) for job in jobs]  # type: ignore[call-overload]  # the model asks for numbers
    assert max(sizes) <= 128
    assert sum(size == 1 for size in sizes) / len(jobs) == pytest.approx(0.244, abs=0.03)
    # 0.244 and 0.576 are shares of all jobs; of the remaining 0.18, few are a power of two by rounding
    assert 0.82 < sum(size & (size - 1) == 0 for size in sizes) / len(jobs) < 0.90
    hours = [job.submit // 3_600_000_000 % 24 for job in jobs]
    by_hour = [hours.count(hour) for hour in range(24)]
    assert max(by_hour) > 3 * min(by_hour)
    assert by_hour.index(max(by_hour)) in range(11, 17)  # rush hours
    assert by_hour.index(min(by_hour)) in range(4, 8)
    small = [job.run for job in jobs if job.ask == 1]
    large = [job.run for job in jobs if isinstance(job.ask, int) and job.ask >= 64]
    assert statistics.mean(large) > statistics.mean(small)
    assert max(job.run for job in jobs) <= 162_755_000_000
    gaps_s = [(later.submit - job.submit) / 1e6 for job, later in pairwise(jobs)]
    # 912 s is the mean of the gamma cut at 13; the largest gap, in the rush hours, is exp(13) s, and no quiet hours double it.
    assert statistics.mean(gaps_s) == pytest.approx(912, rel=0.15)
    assert max(gaps_s) < 2 * 442_413


def test_limits_may_be_longer_than_runs() -> None:
    jobs = list(Lublin(500, 16, seed=1, overestimate=4.0))
    ratios = [job.limit / job.run for job in jobs if job.run > 100_000_000]
    assert min(ratios) >= 1.0
    assert 3.0 < max(ratios) < 4.1


def test_bursts_come_in_bursts() -> None:
    gaps = [b.submit - a.submit for a, b in zip(*(list(Bursts(4000, seed=2))[at:] for at in (0, 1)), strict=False)]
    mean = statistics.mean(gaps)
    assert statistics.pstdev(gaps) > 2 * mean  # one exponential would have a deviation equal to the mean


def test_invalid_parameters_are_refused() -> None:
    for wrong in (
        lambda: Ensemble(-1),
        lambda: Ensemble(1, distribution="zipf"),
        lambda: Bursts(1, run_s=0.0),
        lambda: Lublin(1, 0),
        lambda: Lublin(1, 4, overestimate=0.5),
    ):
        with pytest.raises(UsageError):
            wrong()


def test_the_day_of_lublin_is_that_of_the_authors_program() -> None:
    """`arrive_init` of lublin99.c: half hour i has the gamma probability of i ± 0.5, for i from 11 on; here by brute force."""
    shape, scale, step = 8.1737, 3.9631, 1e-3
    density = [((n + 0.5) * step) ** (shape - 1) * math.exp(-(n + 0.5) * step / scale) for n in range(60_000)]
    weights = [0.0] * 48
    for i in range(11, 59):
        weights[(i - 1) % 48] = sum(density[round((i - 0.5) / step) : round((i + 0.5) / step)])
    mean = sum(weights) / 48
    assert models._weights() == pytest.approx([weight / mean for weight in weights], rel=1e-6)
