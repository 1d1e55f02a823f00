"""Invalid arguments are refused immediately, with a hint."""

from __future__ import annotations

import pickle

import pytest

import fluxres
from fluxres import UsageError
from fluxres.instance import Instance


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
