"""Limits by models of users."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.simulator import simulate
from fluxres.simulation.workload import estimates
from fluxres.simulation.workload.estimates import RANKS, different_values, distribution, estimate
from fluxres.simulation.workload.workload import Submission, Workload
from tests.simulation.workload.estimated_run import differences

S = TICKS_PER_S
HOUR = 3600


def jobs(number: int = 400, seed: int = 1) -> Workload:
    random = Random(seed)
    runs = [min(1 + round(random.expovariate(1 / 2000)), 17 * HOUR) for _ in range(number)]
    return Workload("jobs", [Submission(n, n * 500 * S, run * S, FOREVER, 1 + n % 8) for n, run in enumerate(runs)])


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_limits_have_the_distribution_of_the_model_and_are_long_enough(seed: int) -> None:
    assert differences(seed) == []


def test_every_rank_by_popularity_occurs_once_in_each_trace() -> None:
    for trace in range(4):
        assert sorted(row[trace] for row in RANKS) == list(range(1, 21))


def test_few_values_make_most_jobs() -> None:
    found = distribution(10_000, 18 * HOUR, 0, Random(3))
    assert len(found) == different_values(10_000) == 90
    assert found.most_common(1)[0][0] == 18 * HOUR
    assert sum(number for _, number in found.most_common(20)) == pytest.approx(8900, abs=60)
    assert sum(value % 300 == 0 for value, _ in found.most_common(20)) == 20


@pytest.mark.parametrize("share", [0.1, 0.5, 0.85])
def test_the_share_of_the_largest_value_can_be_given(share: float) -> None:
    found = distribution(5000, 18 * HOUR, share, Random(3))
    assert found[18 * HOUR] == 5000 * share
    assert found.total() == 5000


def test_exact_and_factor() -> None:
    made = jobs()
    runs = [job.run for job in made]
    estimate(made, "exact", 0)
    assert [job.limit for job in made] == runs
    estimate(made, "factor:f=3", 0)
    ratios = [job.limit / job.run for job in made if job.run > 100 * S]
    assert min(ratios) >= 1
    assert max(ratios) < 4.02
    assert sum(ratios) / len(ratios) == pytest.approx(2.5, abs=0.15)
    assert all(job.limit % S == 0 for job in made)


def test_only_missing_limits() -> None:
    made = jobs(3)
    submissions = list(made.submissions)
    made.submissions = [submissions[0]._replace(limit=9 * S), *submissions[1:]]
    estimate(made, "exact", 0, missing=True)
    assert [job.limit for job in made] == [9 * S, *(job.run for job in submissions[1:])]


def test_the_same_seed_gives_the_same_limits() -> None:
    found = []
    for seed in (1, 1, 2):
        made = jobs()
        estimate(made, "tsafrir:max=18h", seed)
        found.append([job.limit for job in made])
    assert found[0] == found[1] != found[2]
    assert Counter(found[0]) != Counter()


def test_jobs_longer_than_the_largest_value_are_noted_and_stopped() -> None:
    made = jobs(200)
    estimate(made, "tsafrir:max=2h,share=0.6", 1)
    long = sum(job.run > 2 * HOUR * S for job in made)
    assert made.notes["jobs run longer than the limit that a model gives them"] == long > 0
    assert simulate(made, 8).metrics.results["timeout"] == long


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nobody", "no estimate model 'nobody'"),
        ("tsafrir:max=1h", "expected 2 hours or more"),
        ("tsafrir:max=soon", "expected a duration, got 'soon'"),
        ("tsafrir:share=0.9", "expected 0 to 0.89"),
        ("factor:f=-1", "expected 0 to 1e6"),
        ("factor:1", "expected name=value"),
    ],
)
def test_wrong_models(model: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        estimate(jobs(30), model, 0)


def test_too_many_long_jobs_are_refused_with_a_way_out() -> None:
    made = Workload("jobs", [Submission(n, 0, 10 * HOUR * S, FOREVER, 1) for n in range(100)])
    with pytest.raises(UsageError, match="too many jobs run longer") as caught:
        estimate(made, "tsafrir:max=12h", 0)
    assert "share" in caught.value.hint
    estimate(Workload("none", []), estimates.Modal(), 0)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([1], "expected a limit for each of 2 jobs, got 1"),
        (None, "TypeError: 'NoneType' object is not iterable"),
        (["a", "b"], "ValueError: invalid literal for int"),
    ],
)
def test_what_a_model_of_others_does_wrong_names_it(found: object, message: str) -> None:
    class Odd:
        def estimates(self, jobs: object, drawn: Random) -> object:
            return found

    jobs: list[Submission] = [Submission(n, 0, TICKS_PER_S, FOREVER, 1) for n in (1, 2)]
    with pytest.raises(UsageError, match=f"^estimate model Odd: {message}"):
        estimate(Workload("two", jobs), Odd(), 0)  # type: ignore[arg-type]  # what a model of others may do
