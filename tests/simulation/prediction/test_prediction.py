"""Policies plan with predicted run times; limits end jobs."""

from __future__ import annotations

import pytest

from fluxres import limits
from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import LimitExceeded, UsageError
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, ExternalEvent
from fluxres.simulation.machine import read
from fluxres.simulation.prediction.correctors import INCREMENTS_S, Corrector, Increments
from fluxres.simulation.prediction.prediction import Prediction
from fluxres.simulation.prediction.predictors import Average, Categories, Predictor, Tsafrir, UsedFraction
from fluxres.simulation.result import Result
from fluxres.simulation.simulator import Simulator, simulate
from fluxres.simulation.workload.models import Lublin
from fluxres.simulation.workload.workload import Submission
from tests.simulation.prediction.predicted_run import differences

S = TICKS_PER_S


def job(number: int, submit: int, run: int, limit: int, size: int, user: str = "ann") -> Submission:
    return Submission(number, submit * S, run * S, limit * S, size, user)


def starts(result: Result) -> dict[int | str, int]:
    assert result.schedule is not None
    return {number: start // S for number, start in result.schedule.starts().items()}


HISTORY = [job(1, 0, 10, 100, 4), job(2, 0, 10, 100, 4)]
"""Two jobs of ann that use a tenth of their limits, on a machine of 8."""


@pytest.mark.parametrize("inventory", ["auto", "graph"])
def test_a_predicted_job_is_backfilled_that_would_not_be_by_its_limit(inventory: str) -> None:
    jobs = [*HISTORY, job(3, 20, 50, 50, 6, "bob"), job(4, 21, 30, 30, 8, "bob"), job(5, 22, 10, 100, 2)]
    by_limit = simulate(jobs, "node=8", queue_policy="easy", inventory=inventory)
    predicted = simulate(jobs, "node=8", queue_policy="easy", inventory=inventory, prediction=Prediction("tsafrir"))
    assert starts(by_limit) == {1: 0, 2: 0, 3: 20, 4: 70, 5: 100}
    assert starts(predicted) == {1: 0, 2: 0, 3: 20, 4: 70, 5: 22}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative"])
@pytest.mark.parametrize("order", ["sequential", "batched"])
@pytest.mark.parametrize("machine", ["8", "node=8"])
def test_a_job_that_outlives_its_prediction_keeps_what_it_holds_and_is_stopped_at_its_limit(
    policy: str, order: str, machine: str
) -> None:
    jobs = [*HISTORY, job(3, 20, 900, 500, 8), job(4, 21, 10, 20, 8, "bob")]
    result = simulate(jobs, machine, queue_policy=policy, event_order=order, prediction=Prediction("tsafrir"))
    assert starts(result) == {1: 0, 2: 0, 3: 20, 4: 520}
    assert result.metrics.results == {"completed": 3, "timeout": 1}
    found = result.predictions
    assert found is not None
    assert (found.jobs, found.underpredicted, found.corrections) == (4, 1, 3)  # at 10, 70 and 310 s of job 3
    assert found.mean_absolute_s == (90 + 90 + 490 + 10) / 4
    assert found.mean_s == (90 + 90 - 490 + 10) / 4


def test_jobs_that_outlive_their_prediction_at_the_moment_of_a_submission_lose_nothing() -> None:
    jobs = [*HISTORY, job(3, 20, 60, 100, 4), job(4, 20, 60, 100, 4), job(5, 30, 5, 5, 2, "bob"), job(6, 30, 5, 5, 2, "bob")]
    for order in ("sequential", "batched"):
        for policy in ("easy", "conservative"):
            result = simulate(jobs, 8, queue_policy=policy, event_order=order, prediction=Prediction("tsafrir"))
            assert starts(result) == {1: 0, 2: 0, 3: 20, 4: 20, 5: 80, 6: 80}


def test_the_planned_length_is_what_policies_see_and_the_limit_remains() -> None:
    seen = {}

    class Perfect(Predictor):
        def predict(self, job: Submission) -> int:
            return 3 * S

    simulator = Simulator(simulate_machine(), prediction=Prediction(Perfect()))

    def add(job: object) -> None:
        for each in simulator.instance.jobs():
            seen[each.payload.id] = each.planned_s, each.duration_s, each.ends_at

    simulator.sinks.append(type("Seen", (), {"add": staticmethod(add), "close": staticmethod(lambda: None)})())
    simulator.run([job(1, 0, 2, 50, 4), job(2, 0, 9, 50, 4)])
    assert seen[2] == (3.0, 50.0, 50.0)


def simulate_machine() -> object:
    from fluxres.simulation.machine import Machine, of_number

    return Machine(of_number(8))


def test_tsafrir_needs_two_run_times_of_the_user() -> None:
    predictor = Tsafrir()
    one = job(1, 0, 10, 100, 1)
    predictor.ended(one, 10 * S)
    assert predictor.predict(one) == 100 * S
    predictor.ended(one, 13 * S)
    assert predictor.predict(one) == 11 * S  # whole seconds
    predictor.ended(one, 21 * S)
    assert predictor.predict(one) == 17 * S
    assert predictor.predict(one._replace(user="bob")) == 100 * S


def test_the_predictors_of_alea() -> None:
    """Of the last five jobs of a user, limits of 1,000 s of which 100 to 600 s were used; the first no longer counts."""
    one = Submission(0, 0, S, 1000 * S, 1, user="a")
    largest, harmonic = UsedFraction(last=5, of="largest"), UsedFraction(last=5, of="harmonic")
    last, apart = Average(last=1), Average(by="user+parallel")
    for each in (largest, harmonic):
        assert each.predict(one) == one.limit
        for ran in (900, 100, 200, 300, 400, 600):
            each.ended(one, ran * S)
    assert largest.predict(one._replace(limit=500 * S)) == 300 * S
    # Alea: the limit divided by the mean of limit / run: 1,000 / ((10 + 5 + 10/3 + 2.5 + 5/3) / 5)
    assert harmonic.predict(one) == int(1000 / ((10 + 5 + 10 / 3 + 2.5 + 5 / 3) / 5)) * S
    for ran, size in ((10, 1), (30, 1), (500, 8)):
        last.ended(one._replace(ask=size), ran * S)
        apart.ended(one._replace(ask=size), ran * S)
    assert last.predict(one) == 500 * S
    assert (apart.predict(one), apart.predict(one._replace(ask=2))) == (20 * S, 500 * S)
    with pytest.raises(UsageError, match="of: expected mean, largest, harmonic"):
        UsedFraction(of="median")


def test_average_fraction_and_categories() -> None:
    one = job(1, 0, 10, 100, 1)
    average, fraction, categories = Average(), UsedFraction(last=2), Categories()
    for ran in (10, 20, 60):
        for each in (average, fraction, categories):
            each.ended(one, ran * S)
    assert average.predict(one) == 30 * S
    assert fraction.predict(one._replace(limit=1000 * S)) == 400 * S
    assert fraction.predict(one._replace(limit=FOREVER)) == FOREVER
    for ran in (500, 501):
        categories.ended(one._replace(user="bob", application="7", ask=64), ran * S)
    # One user with an application of no name has varied run times, the other nearly always the same.
    assert categories.predict(one) == 30 * S
    assert categories.predict(one._replace(user="bob", application="7", ask=64)) == 500 * S
    assert Categories().predict(one) == 100 * S


def test_increments_count_from_the_first_prediction() -> None:
    made, length = Increments(), 10 * S
    for number, increment_s in enumerate(INCREMENTS_S[1:]):
        length = made.correct(length, FOREVER, number)
        assert length == (10 + increment_s) * S
    assert made.correct(length, FOREVER, len(INCREMENTS_S) - 1) == FOREVER


def test_a_corrector_that_does_not_help_is_called_again_until_the_limit() -> None:
    class Useless(Corrector):
        def correct(self, planned: int, requested: int, number: int) -> int:
            return planned if number < 3 else 10**30

    result = simulate([*HISTORY, job(3, 20, 40, 50, 8)], 8, prediction=Prediction("tsafrir", Useless()))
    assert result.predictions is not None
    assert result.predictions.corrections == 4
    assert result.metrics.results == {"completed": 3}


def test_a_corrector_that_never_helps_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Useless(Corrector):
        def correct(self, planned: int, requested: int, number: int) -> int:
            return planned

    monkeypatch.setattr(limits, "CORRECTIONS_MAX", 5)
    with pytest.raises(LimitExceeded, match=r"corrector Useless: job 3 has outlived 5 plans, the last one of .* \(return more"):
        simulate([*HISTORY, job(3, 20, 40, 50, 8)], 8, prediction=Prediction("tsafrir", Useless()))


@pytest.mark.parametrize(
    ("predictor", "corrector", "message"),
    [
        ("nobody", "tsafrir", "no predictor 'nobody'"),
        ("tsafrir", "nobody", "no corrector 'nobody'"),
        ("average:last", "tsafrir", "expected name=value, got 'last'"),
        ("average:first=2", "tsafrir", "no parameter 'first'"),
        ("average:last=two", "tsafrir", "expected a whole number, got 'two'"),
        ("average:by=shoe", "tsafrir", "no feature 'shoe'"),
        ("average:last=1,least=2", "tsafrir", "expected 1 <= least <= last"),
        ("categories:last=1", "tsafrir", "expected at least 2, got 1"),
    ],
)
def test_wrong_names_and_parameters(predictor: str, corrector: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Prediction(predictor, corrector)


def test_what_a_predictor_raises_names_it() -> None:
    class Broken(Predictor):
        def predict(self, job: Submission) -> int:
            raise ValueError("no idea")

    with pytest.raises(UsageError, match="predictor Broken: ValueError: no idea"):
        simulate(HISTORY, 8, prediction=Prediction(Broken()))


@pytest.mark.parametrize("seed", [*range(60), 30332])  # the last one: a reservation dropped behind a kept one, on the graph
def test_random_courses_are_as_the_oracle_says(seed: int) -> None:
    assert differences(seed) == []


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-count", "easy-sjbf", "hybrid", "conservative"])
def test_perfect_predictions_give_the_schedule_of_exact_limits_and_requested_ones_that_of_limits(policy: str) -> None:
    jobs = list(Lublin(120, 16, seed=2, overestimate=9))
    exact = [each._replace(limit=each.run) for each in jobs]

    def made(given: list[Submission], prediction: str | None = None) -> dict[int | str, int]:
        how = None if prediction is None else Prediction(prediction)
        return starts(simulate(given, "node=16", queue_policy=policy, prediction=how))

    assert made(jobs, "perfect") == made(exact)
    assert made(jobs, "requested") == made(jobs)


@pytest.mark.parametrize(("machine", "inventory"), [("8", "auto"), ("node=8", "named"), ("node=8", "graph")])
def test_a_job_that_outlives_its_prediction_is_stopped_before_an_advance_reservation(machine: str, inventory: str) -> None:
    events = [ExternalEvent(0, "reserve", AdvanceReservation(8, 40 * S, 10 * S))]
    jobs = [job(1, 1, 5, 100, 1), job(2, 1, 5, 100, 1), job(3, 20, 60, 100, 4)]
    limits = [each._replace(limit=each.run) for each in jobs[:2]]
    how = Prediction("tsafrir", "requested")
    simulator = Simulator(read(machine), inventory=inventory, prediction=how, disturbances=Disturbances(events))
    result = simulator.run([*limits, jobs[2]])
    assert starts(result)[3] == 20
    assert result.metrics.results == {"completed": 2, "timeout": 1}
    assert result.notes == {"jobs that outlived their prediction and were stopped, as what they held was reserved": 1}
    assert simulator.instance.check() == []
