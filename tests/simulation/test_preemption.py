"""Preemption by QOS (`instance/preemption.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.experiments import study
from fluxres.instance import Instance, Job
from fluxres.instance.accounting import Accounting, load
from fluxres.simulation import Submission, simulate
from fluxres.simulation.disturbances.attempts import Checkpoint
from fluxres.simulation.disturbances.external import Disturbances, ExternalEvent
from fluxres.simulation.machine import of_shape
from tests.instance.machines import ManualClock
from tests.simulation.preempted import Kept, Ran, course

S = 1_000_000
INVENTORIES = ("auto", "graph")
POLICIES = ("fcfs", "easy", "easy-count", "conservative", "hybrid", "priority")


def test_random_workloads_run_as_an_oracle_over_every_subset_says(deeper: float) -> None:
    """`python -m tests.simulation.preempted` makes thousands of them."""
    assert {course(seed) for seed in range(round(240 * deeper))} == {""}


def rules(*, low: dict[str, Any] | None = None, **site: Any) -> Accounting:
    qos = {"low": low or {}, "mid": {"priority": 5}, "high": {"priority": 9, "preempt": ["low", "mid"]}}
    return msgspec.convert({"preempt_type": "qos", "preempt_mode": "requeue", "qos": qos} | site, Accounting)


def ran(jobs: list[Submission], site: Accounting, **settings: Any) -> Ran:
    kept = Kept()
    simulate(jobs, settings.pop("machine", 10), accounting=site, sinks=[kept], **settings)
    return kept.ran()


def job(number: int, submit: int, run: int, size: int, qos: str) -> Submission:
    return Submission(number, submit * S, run * S, (run + 50) * S, size, qos=qos)


@pytest.mark.parametrize("inventory", INVENTORIES)
@pytest.mark.parametrize("queue_policy", POLICIES)
def test_lowest_qos_first_then_the_youngest_and_only_as_many_as_needed(queue_policy: str, inventory: str) -> None:
    jobs = [job(1, 0, 100, 3, "low"), job(2, 1, 100, 3, "low"), job(3, 2, 100, 4, "mid"), job(4, 10, 20, 2, "high")]
    found = ran(jobs, rules(), queue_policy=queue_policy, inventory=inventory)
    assert found == {
        1: ([(0, 100)], True),
        2: ([(1, 10), (30, 130)], True),
        3: ([(2, 102)], True),
        4: ([(10, 30)], True),
    }


@pytest.mark.parametrize("queue_policy", POLICIES)
def test_a_job_that_is_preempted_again_and_again_ends_the_run(queue_policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ATTEMPTS_MAX", 3)
    jobs = [job(1, 0, 100, 10, "low"), *(job(n, 20 * n, 5, 10, "high") for n in (2, 3, 4))]
    with pytest.raises(LimitExceeded, match=r"job 1: 3 attempts were interrupted .*; or preempt less"):
        ran(jobs, rules(), queue_policy=queue_policy)
    assert ran(jobs[:3], rules(), queue_policy=queue_policy)[1] == ([(0, 40), (45, 60), (65, 165)], True)


def test_a_job_that_is_too_small_to_help_is_spared() -> None:
    jobs = [job(1, 0, 100, 6, "low"), job(2, 1, 100, 2, "low"), job(3, 10, 20, 7, "high")]
    found = ran(jobs, rules(), queue_policy="fcfs")
    assert (found[1][0][0], found[2][0]) == ((0, 10), [(1, 101)])


@pytest.mark.parametrize("event_order", ["sequential", "batched"])
def test_grace_and_exempt_times_delay_the_end(event_order: str) -> None:
    jobs = [job(1, 0, 100, 10, "low"), job(2, 5, 20, 10, "high")]
    site = rules(low={"grace_time": 7, "preempt_exempt_time": "30s"}, preempt_mode="cancel")
    assert ran(jobs, site, event_order=event_order) == {1: ([(0, 37)], False), 2: ([(37, 57)], True)}


def test_saved_progress_is_kept() -> None:
    jobs = [job(1, 0, 100, 10, "low"), job(2, 45, 20, 10, "high")]
    checkpoint = Checkpoint(interval_s=10, save_s=1, restart_s=2)
    found = ran(jobs, rules(), disturbances=Disturbances(checkpoint=checkpoint))
    # 45 s are four saves of 11 s each; the other job saves once; the 60 s that are left take 5 saves and a restart
    assert found[2] == ([(45, 45 + 20 + 1)], True)
    assert found[1] == ([(0, 45), (66, 66 + 60 + 5 + 2)], True)


@pytest.mark.parametrize("inventory", INVENTORIES)
def test_nobody_is_preempted_in_vain_by_equals_or_with_mode_off(inventory: str) -> None:
    fixed = [job(1, 0, 100, 6, "high"), job(2, 1, 100, 4, "low")]
    for site, last in ((rules(), job(3, 10, 20, 5, "high")), (rules(), job(3, 10, 20, 4, "mid"))):
        found = ran([*fixed, last], site, inventory=inventory, queue_policy="fcfs")
        assert (found[2][0], found[3][0][0][0]) == ([(1, 101)], 100)
    found = ran([*fixed, job(3, 10, 20, 4, "high")], rules(low={"preempt_mode": "off"}), inventory=inventory)
    assert found[2][0] == [(1, 101)]


class SlowRunner:
    """Stops no job at once."""

    def start(self, job: Job) -> None:
        pass

    def stop(self, job: Job, why: str) -> None:
        pass


def slow_instance(clock: ManualClock) -> Instance:
    machine = of_shape("node=4")
    return Instance(machine, queue_policy="easy", clock=clock, accounting=rules(), runner=SlowRunner())


def test_an_instance_preempts_and_waits_until_its_runner_has_stopped_the_job() -> None:
    clock = ManualClock()
    instance = slow_instance(clock)
    low = instance.submit("slot=3/node", duration_s=100, qos="low")
    clock.now = 10.0
    high = instance.submit("slot=2/node", duration_s=100, qos="high")
    assert (low.state.name, low.is_requeued, high.state.name) == ("RUN", True, "SCHED")
    assert [(each.type, each.note) for each in low.exceptions] == [("preempt", f"preempted by job {high.id} of qos high")]
    assert instance.check() == []
    instance.finish(low, 15)
    assert (low.state.name, high.state.name) == ("SCHED", "RUN")
    other = instance.submit("slot=2/node", duration_s=10, qos="high")
    assert (other.state.name, low.limit_reached) == ("RUN", "")
    instance.finish(high)
    instance.finish(other)
    assert low.state.name == "RUN"
    assert instance.check() == []


def test_a_preempted_job_waits_until_its_place_is_taken() -> None:
    clock = ManualClock()
    instance = slow_instance(clock)
    first, second = (instance.submit("slot=2/node", duration_s=100, qos="low") for _ in range(2))
    high = instance.submit("slot=4/node", duration_s=100, qos="high")
    instance.finish(first, 15)
    assert first.limit_reached == f"preempted, until job {high.id} has started"
    instance.cancel(high)
    assert first.state.name == "RUN"
    assert second.is_requeued


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preempt_type: qos\nqos: {a: {preempt: [b]}}", "no qos 'b'"),
        ("preempt_type: qos\nqos: {a: {preempt: [a]}}", "a QOS cannot preempt itself"),
        ("qos: {a: {preempt: [b]}, b: {}}", "nothing is preempted with preempt_type none"),
        ("preempt_exempt_time: soon", "soon"),
        ("qos: {a: {grace_time: -1}}", "grace_time"),
    ],
)
def test_rules_that_cannot_hold_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(text.encode())


def test_preemption_is_refused_where_decisions_take_time() -> None:
    with pytest.raises(UsageError, match="cannot be preempted where decisions take time"):
        simulate([job(1, 0, 1, 1, "low")], 10, accounting=rules(), cost="fixed:0.01")


def test_a_study_has_rules_of_preemption_and_cases_that_change_them(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(
        "- {id: 1, submit: 0, request: slot=4/node, run: 100, duration: 150, qos: low}\n"
        "- {id: 2, submit: 10, request: slot=3/node, run: 20, duration: 150, qos: high}\n"
    )
    text = """
fluxres-experiment: 1
name: preempted
machine: node=4
workload: {file: jobs.yaml}
accounting: {preempt_type: qos, preempt_mode: requeue, qos: {low: {grace_time: 3}, high: {preempt: [low]}}}
cases: {requeue: {}, cancel: {accounting.preempt_mode: cancel}}
metrics: [makespan_s]
"""
    (tmp_path / "study.yaml").write_text(text)
    runs = study.load(tmp_path / "study.yaml").runs
    assert [run.page.accounting.preempt_mode for run in runs if isinstance(run.page.accounting, Accounting)] == [
        "requeue",
        "cancel",
    ]


@pytest.mark.parametrize("inventory", ["named", "graph"])
def test_a_job_that_waits_again_after_a_failure_preempts_at_that_moment(inventory: str) -> None:
    jobs = [job(1, 0, 10, 1, "high"), job(2, 0, 10, 1, "low")]
    failure = Disturbances([ExternalEvent(4 * S, "down", "node0"), ExternalEvent(6 * S, "up", "node0")], "requeue")
    settings = {"queue_policy": "fcfs", "inventory": inventory, "disturbances": failure}
    found = ran(jobs, rules(), machine=of_shape("node=2"), **settings)
    assert found == {1: ([(0, 4), (4, 14)], True), 2: ([(0, 4), (6, 16)], True)}


def test_a_job_that_was_interrupted_ends_in_the_place_of_its_last_start() -> None:
    assert course(210003) == ""  # its first attempt would have ended at the same moment, before another job
