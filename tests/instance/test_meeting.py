"""Some courses of the campaign over nesting, auxiliary graphs, time and states, and whether its oracle sees what is wrong."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from fluxres.instance import Instance, audit
from fluxres.instance.inventory import Hold
from fluxres.instance.named import NamedInventory
from fluxres.instance.upstream import ParentSupply
from tests.instance import meeting


def test_rule_n1_nothing_is_given_twice_in_random_trees_of_instances() -> None:
    wrong, counts = meeting.run(1, 20)
    assert wrong == []
    assert counts["depth 2"] > 10
    assert min(counts[name] for name in meeting.Course.WEIGHTS) > 2


def test_the_oracle_knows_every_cable_that_carries_so_much() -> None:
    machines = [meeting.Machine(Random(seed)) for seed in range(20)]
    accounts = [machine.graph.structure.accounts for machine in machines]
    limited = [{known.where(v) for v in range(known.structure.n, known.n)} for known in accounts]
    assert any(limited)
    for names, machine in zip(limited, machines, strict=True):
        assert names == {name for name in machine.cables if machine.size[name] < math.inf}
        assert set(machine.cables) <= set(machine.suppliers)
        edges = machine.graph.structure.subsystems["network"]
        assert len(edges) == sum(graph == "network" for graph, *_ in machine.cables.values()) + len(machine.pairs)


def _only_run(inventory: NamedInventory, hold: Hold) -> None:
    inventory.running.add(hold)


MISTAKES: dict[str, tuple[type, str, Any]] = {
    "pools that a job has stay free": (NamedInventory, "_mark_held", _only_run),
    "a parent is not charged": (ParentSupply, "take", lambda *_: None),
    "a parent gets nothing back": (ParentSupply, "give", lambda *_: None),
    "what is out of service is given out": (Instance, "set_state", lambda *_: None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_oracle_sees_mistakes(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "check", lambda _: [])  # without what the instances say of themselves
    owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    found, _ = meeting.run(1, 60, stop_at=1)
    assert found
