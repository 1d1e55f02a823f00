"""Closed loop: jobs that are submitted after others have ended."""

from __future__ import annotations

from collections import Counter

import pytest

from fluxres.clock import TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.result import Result
from fluxres.simulation.simulator import Simulator, simulate
from fluxres.simulation.workload.feedback import Feedback
from fluxres.simulation.workload.workload import Submission
from tests.simulation.workload.followed_run import differences

S = TICKS_PER_S


def job(
    number: int, submit: int, run: int, size: int = 1, previous: int | None = None, think: int = 0, **more: object
) -> Submission:
    made = Submission(number, submit * S, run * S, run * S, size, "ann", previous=previous, think=think * S)
    return made._replace(**more)


def times(result: Result) -> dict[int | str, tuple[int, int]]:
    assert result.schedule is not None
    return {number: (submit // S, start // S) for number, submit, start, _, _ in result.schedule}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(60))
def test_random_closed_loops_are_as_the_oracle_says(seed: int) -> None:
    assert differences(seed) == []


@pytest.mark.parametrize("order", ["sequential", "batched"])
def test_a_job_is_submitted_a_think_time_after_the_one_before_it(order: str) -> None:
    jobs = [job(1, 0, 100, 4), job(2, 5, 10, 4), job(3, 30, 10, 4, previous=2, think=20)]
    assert times(simulate(jobs, 4, event_order=order)) == {1: (0, 0), 2: (5, 100), 3: (30, 110)}
    assert times(simulate(jobs, 4, event_order=order, feedback="think")) == {1: (0, 0), 2: (5, 100), 3: (130, 130)}


def test_a_faster_machine_gets_jobs_earlier_than_recorded() -> None:
    jobs = [job(1, 0, 10), job(2, 500, 10, previous=1, think=5)]
    result = simulate(jobs, 4, feedback="think")
    assert times(result) == {1: (0, 0), 2: (15, 15)}
    assert result.metrics.mean_wait_s == 0


def test_failed_stopped_canceled_and_refused_jobs_are_followed_too() -> None:
    jobs = [
        job(1, 0, 10, status=1),
        job(2, 0, 90, limit=20 * S),
        job(3, 0, 90),
        job(4, 7, 10, size=9),
        *(job(10 + number, 100, 5, previous=number, think=1) for number in (1, 2, 3, 4)),
    ]
    cancel = Disturbances([ExternalEvent(30 * S, "cancel", 3)])
    result = Simulator(_machine(), feedback="think", disturbances=cancel).run(jobs)
    found = times(result)
    assert {number: found[number] for number in (11, 12, 13, 14)} == {11: (11, 11), 12: (21, 21), 13: (31, 31), 14: (8, 8)}
    assert len(result.refusals) == 1


@pytest.mark.parametrize("order", ["sequential", "batched"])
def test_a_job_is_not_submitted_before_those_that_it_depends_on(order: str) -> None:
    jobs = [
        job(1, 0, 50),
        job(2, 5, 10, previous=1, think=5),
        job(3, 6, 10, dependencies=("afterok:2",)),
        job(4, 7, 10, dependencies=("afterok:5",)),
        job(5, 8, 10),
    ]
    found = times(simulate(jobs, 4, event_order=order, feedback="think"))
    assert found == {1: (0, 0), 2: (55, 55), 3: (55, 65), 5: (8, 8), 4: (8, 18)}


def test_jobs_that_wait_for_the_submission_of_each_other_are_left() -> None:
    jobs = [job(1, 0, 50, dependencies=("afterok:2",)), job(2, 5, 10, previous=1)]
    result = simulate(jobs, 4, feedback="think")
    assert (times(result), result.left) == ({}, 2)


def _machine() -> object:
    from fluxres.simulation.machine import Machine, of_number

    return Machine(of_number(8))


def test_a_job_after_one_that_never_starts_is_left_and_counted() -> None:
    jobs = [job(1, 0, 10, urgency=0), job(2, 0, 10, previous=1), job(3, 0, 10, previous=2), job(4, 0, 10)]
    result = simulate(jobs, 4, feedback="think")
    assert times(result) == {4: (0, 0)}
    assert result.left == 3


def test_a_preceding_job_that_is_not_there_is_noted() -> None:
    result = simulate([job(1, 0, 10, previous=7), job(2, 3, 10, previous=2)], 4, feedback="think")
    assert times(result) == {1: (0, 0), 2: (3, 3)}
    assert result.notes == {"preceding jobs that are not in the workload before": 2}


def test_sessions_and_batches() -> None:
    minute = 60
    jobs = [
        job(1, 0, 10 * minute, waited=0),  # ends at 10 min
        job(2, 5 * minute, 10 * minute, waited=0),  # the same batch, ends at 15 min
        job(3, 16 * minute, minute, waited=0),  # a minute after the batch has ended
        job(4, 16 * minute, minute, waited=0),  # the same batch as 3
        job(5, 37 * minute, minute, waited=0),  # another session
        job(6, 39 * minute, minute, waited=0)._replace(user="bob"),
        job(7, 39 * minute, minute, waited=0),  # a minute after 5 has ended
    ]
    made = Feedback(jobs, "sessions", Counter())
    assert [each.id for each in made.first] == [1, 2, 5, 6]
    assert made.ended(1, 100 * S) == []
    assert [(moment // S, each.id) for moment, each in made.ended(2, 1000 * S)] == [(1060, 3), (1060, 4)]
    assert [(moment // S, each.id) for moment, each in made.ended(5, 5000 * S)] == [(5060, 7)]
    one = Feedback(jobs, "sessions:gap=21m", Counter())
    assert [each.id for each in one.first] == [1, 2, 6]


def test_waits_that_a_trace_does_not_have_are_noted() -> None:
    result = simulate([job(1, 0, 10), job(2, 20, 10)], 4, feedback="sessions")
    assert times(result) == {1: (0, 0), 2: (20, 20)}
    assert result.notes == {"waits that the trace does not have count as 0": 2}


@pytest.mark.parametrize("text", ["yes", "think:gap=1m", "sessions:1m", "sessions:gap=soon", "sessions:gap", "sessions:gap="])
def test_wrong_words(text: str) -> None:
    with pytest.raises(UsageError, match=r"feedback: expected (think|name=value)|feedback sessions gap: expected a duration"):
        simulate([job(1, 0, 10)], 4, feedback=text)


def test_there_is_one_queue() -> None:
    with pytest.raises(UsageError, match="one queue"):
        Simulator(_machine(), hierarchy=Hierarchy((2,)), feedback="think")
