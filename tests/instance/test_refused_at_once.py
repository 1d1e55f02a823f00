"""Invalid arguments are refused immediately, with a hint."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

import fluxres
from fluxres import UsageError
from fluxres.errors import FluxresError
from fluxres.instance import Instance
from fluxres.instance.job import Job
from fluxres.instance.policy import EasyByScore


def machine() -> fluxres.ResourceGraph:
    return fluxres.build(fluxres.Resource("node", 4, children=[fluxres.Resource("core", 2)]), name="m")


@pytest.mark.parametrize(("policy", "hint"), [("fcfs:dept=4", "it has none"), ("hybrid:dept=4", "did you mean depth?")])
def test_an_unknown_parameter_of_a_queue_policy(policy: str, hint: str) -> None:
    with pytest.raises(UsageError, match="no parameter 'dept'") as refusal:
        Instance(machine(), queue_policy=policy)
    assert refusal.value.hint == hint
    assert refusal.value.where == f"queue policy {policy.partition(':')[0]}"


@pytest.mark.parametrize("policy", ["lo", "", ["low"]])
def test_an_unknown_match_policy(policy: str) -> None:
    with pytest.raises(UsageError, match="no match policy"):
        Instance(machine(), match_policy=policy)


def test_an_instance_cannot_be_pickled() -> None:
    with pytest.raises(UsageError, match="cannot be pickled") as refusal:
        pickle.dumps(Instance(machine()))
    assert "pickle its graph" in refusal.value.hint


def test_a_child_cannot_return_a_request() -> None:
    top = Instance(machine())
    child = top.spawn(top.submit("slot=2/node").id)
    with pytest.raises(UsageError, match="expected pools to return, got a request: 'slot/node'"):
        child.shrink("slot/node")
    assert child.shrink("/m/node1") == ["/m/node1"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda top, job: top.finish(job, -4), "status: expected a wait status from 0 to 65535, got -4 (0 is success"),
        (lambda top, job: top.close("x"), "status: expected a whole number, got 'x'"),
        (lambda top, job: top.close(-1), "status: expected a wait status from 0 to 65535, got -1"),
        (lambda top, job: top.schedule(-1), "limit: expected a whole number of at least 0, got -1 (leave it out for no limit)"),
        (lambda top, job: top.exception(job, ""), "kind: expected the type of an exception, got '' (such as cancel"),
    ],
    ids=["finish", "close", "close of a number", "schedule", "exception"],
)
def test_a_wrong_argument_changes_nothing(call: Callable[[Instance, Job], object], said: str) -> None:
    top = Instance(machine())
    job = top.submit("slot=2/node", duration_s=60)
    with pytest.raises(UsageError) as refusal:
        call(top, job)
    assert str(refusal.value).startswith(said)
    assert (job.state.name, job.exceptions, job.status) == ("RUN", (), 0)
    assert not top.is_closed


def test_a_score_of_a_queue_policy_that_is_nan() -> None:
    class Mine(EasyByScore):
        name = "mine"

        def score(self, job: Job, now_s: float) -> float:
            return float("nan")

    top = Instance(machine(), queue_policy=Mine())
    with pytest.raises(FluxresError, match=r"the score of job ƒ\w+ is nan"):
        top.submit("slot=2/node", duration_s=60)


@pytest.mark.parametrize("inventory", ["graph", "named", "auto"])
def test_can_hold_answers_for_every_request(inventory: str) -> None:
    top = Instance(machine(), inventory=inventory)
    found = {text: top.can_hold(text) for text in ("slot=2/node", "slot=9/node", "node=2", "slot/gpu")}
    assert found == {"slot=2/node": True, "slot=9/node": False, "node=2": False, "slot/gpu": False}
