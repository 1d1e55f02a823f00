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


def test_rule_n1_no_unit_is_allocated_twice_in_random_trees_of_instances() -> None:
    wrong, counts = meeting.run(1, 20)
    assert wrong == []
    assert counts["depth 2"] > 10
    assert min(counts[name] for name in meeting.Course.WEIGHTS) > 2


def test_the_oracle_knows_all_cables_with_a_capacity() -> None:
    machines = [meeting.Machine(Random(seed)) for seed in range(20)]
    accounts = [machine.graph.structure.accounts for machine in machines]
    limited = [{known.where(v) for v in range(known.pools.n, known.n)} for known in accounts]
    assert any(limited)
    for names, machine in zip(limited, machines, strict=True):
        assert names == {name for name in machine.cables if machine.size[name] < math.inf}
        assert set(machine.cables) <= set(machine.suppliers)
        edges = machine.graph.structure.subsystems["network"]
        assert len(edges) == sum(graph == "network" for graph, *_ in machine.cables.values()) + len(machine.pairs)


def _only_run(inventory: NamedInventory, hold: Hold) -> None:
    inventory.running.add(hold)


MISTAKES: dict[str, tuple[type, str, Any]] = {
    "pools of a job count as free": (NamedInventory, "_mark_held", _only_run),
    "a parent is not charged": (ParentSupply, "take", lambda *_: None),
    "units are not returned to the parent": (ParentSupply, "give", lambda *_: None),
    "pools out of service are allocated": (Instance, "set_state", lambda *_: None),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_oracle_detects_mistakes(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "check", lambda _: [])  # the oracle alone
    owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    found, _ = meeting.run(1, 60, stop_at=1)
    assert found
