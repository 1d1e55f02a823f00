"""A pool's own draw is freed with it from each supplier, while parts of it stay (rules F2 and A6)."""

from __future__ import annotations

import random

import pytest

from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.model import ResourceGraph
from tests import sites
from tests.draws import random_machine, state

CARDS = """
fluxres: 1
name: m
resources: [{type: node, count: 2, draw: {power: 100}, with: [{type: psu, count: 2}, {type: core, count: 2, draw: {power: 30}}]}]
graphs:
  power:
    pools: [{type: pdu, count: 2, size: 1000, unit: W}]
    edges:
      - {from: "power:/pdu0", to: "/m/node*/psu0"}
      - {from: "power:/pdu1", to: "/m/node*/psu1"}
"""


def watts(graph: ResourceGraph, at: int = 0) -> list[int]:
    return [graph.pool(f"power:/pdu{number}").allocated(at=at) for number in (0, 1)]


@pytest.mark.parametrize("give_back", ["free", "shrink"])
def test_rule_f2_freed_node_frees_its_draw_from_each_supplier(give_back: str) -> None:
    graph = sites.graph(CARDS)
    graph.allocate("slot=1/[core=1;power=250]", job="j", duration_s=10)
    before = state(graph)
    graph.grow("j", "/m/node0")
    assert watts(graph) == [125 + 65, 125 + 65]  # the node and its other core
    getattr(graph, give_back)("j", "/m/node0", start=4, end=6)
    assert [watts(graph, at) for at in (3, 4, 6)] == [[190, 190], [125, 125], [190, 190]]
    getattr(graph, give_back)("j", "/m/node0")
    assert state(graph) == before


def test_rule_f2_remaining_parts_of_a_freed_node_keep_drawing() -> None:
    graph = sites.graph(CARDS)
    graph.allocate("/m/node0/core0", job="j", start=0, end=10)
    graph.allocate("slot=1/[core=1;power=250]", job="j", start=0, end=10)  # the other core draws no more than that
    before = state(graph)
    for _ in range(3):
        graph.allocate("/m/node0", job="j", start=0, end=5)
        assert [watts(graph, at) for at in (0, 5)] == [[190, 190], [140, 140]]
        graph.shrink("j", "/m/node0")
        assert state(graph) == before


@pytest.mark.parametrize("down", ["while it is drawn", "when it goes"])
def test_rule_f2_supplier_outage_does_not_change_what_is_freed(down: str) -> None:
    graph = sites.graph(CARDS)
    if down == "while it is drawn":
        graph.set_state("power:/pdu1", "down")
    graph.allocate("slot=1/[core=1;power=250]", job="j", duration_s=10)
    before = state(graph)
    graph.grow("j", "/m/node0")
    assert watts(graph) == ([190, 190] if down == "when it goes" else [380, 0])
    graph.set_state("power:/pdu1", "down")
    graph.shrink("j", "/m/node0")
    assert state(graph) == before


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(60))
def test_rule_a6_growing_and_shrinking_restores_the_draws(seed: int) -> None:
    source = random.Random(f"grown/{seed}")
    graph = sites.graph(random_machine(source, (0, 0, 8, 40, 100)))  # equal parts, which are never rounded
    asked = source.choice(("slot=1/[core=1;power=80]", "slot=1/[gpu=1;power=120]", "slot=1/core=1", "slot=2/gpu", "slot=1/node"))
    try:
        graph.allocate(asked, job="j", start=2, end=8)
        graph.allocate(source.choice(pools_of(graph, "core", "gpu")), job="j", start=2, end=8)
    except (InfeasibleRequest, InsufficientResources):
        pass
    if not graph.jobs():
        return
    for _ in range(4):
        before, name = state(graph), source.choice(pools_of(graph, "node", "rack"))
        start, end = source.choice(((2, 8), (2, 8), (4, 6), (0, 8), (4, 10)))
        if graph.records.exclusive_above(graph.structure.vertex(name) + 1, "j", 0, 10_000_000):
            continue
        try:
            graph.allocate(name, job="j", start=start, end=end)
        except (InfeasibleRequest, InsufficientResources):
            assert state(graph) == before
            continue
        getattr(graph, source.choice(("free", "shrink")))("j", name, start=start, end=end)
        assert state(graph) == before
    graph.free("j")
    assert graph.planner.moments(0, 10**18) == []


def pools_of(graph: ResourceGraph, *types: str) -> list[str]:
    structure = graph.structure
    return [structure.where(v) for v in range(structure.n) if structure.types[structure.type.item(v)] in types]
