"""Pools' own draw, by request as by name: an exclusively taken pool draws once for everything in it."""

from __future__ import annotations

import random

import pytest

import fluxres
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.model import ResourceGraph
from fluxres.model.match import stamped
from tests import sites
from tests.draws import random_machine, state

MACHINE = """
fluxres: 1
name: m
resources:
  - type: rack
    count: 2
    with:
      - {{type: node, count: 2, id: 0-3, draw: {{power: 100}}, with: [{{type: core, count: 2, draw: {{power: 50}}}}]}}
graphs:
  power:
    pools: [{{type: pdu, count: 1, size: {watts}, unit: W}}]
    edges: [{{from: "power:/pdu0", to: "/m/rack*/node*"}}]
"""
PSUS = """
fluxres: 1
name: m
resources:
  - type: node
    count: 2
    draw: {{power: 100}}
    with: [{{type: core, count: 2}}, {{type: psu, count: 2, size: 300, unit: W}}]
graphs:
  power:
    pools: [{{type: pdu, count: 2, size: 1000, unit: W}}]
    edges:
      - {{from: "power:/pdu0", to: "/m/node*/psu0"}}
      - {{from: "power:/pdu1", to: "/m/node*/psu1"}}
      - {{from: "/m/node0/psu*", to: "/m/node0", supply: {supply}}}
      - {{from: "/m/node1/psu*", to: "/m/node1", supply: {supply}}}
"""


def made(watts: int = 2000) -> ResourceGraph:
    return sites.graph(MACHINE.format(watts=watts))


def by_name(graph: ResourceGraph, found: fluxres.Match) -> ResourceGraph:
    """A machine like this in which the pools of a match are allocated by name."""
    again = graph.duplicate()
    pools = [(v, n) for v, n in zip(found.vertices.tolist(), found.amounts.tolist(), strict=True) if v < graph.structure.n]
    tree = [(graph.structure.where(v), n) for v, n in pools if not graph.structure.where(v).startswith("power:")]
    again.allocate([(where, n) for where, n in tree if "/psu" not in where], job="j", start=0, end=10)
    return again


@pytest.mark.parametrize(
    ("wanted", "watts"),
    [
        ("slot=1/rack", 400),
        ("slot=1/rack/node=2", 400),
        ("slot=1/rack/node=1", 400),
        ("slot=1/rack/node=2/core=1", 400),
        ("rack{x}/slot=1/node", 400),
        ("rack{x}/node/slot=1/core", 400),
        ("slot=2/rack/node=2", 800),
        ("slot=1/node", 200),
        ("slot=1/node/core=2", 200),
        ("slot=2/node/core=1", 400),
        ("node{x}/slot=1/core=2", 200),
        ("-N1 -x", 200),
        # Pools that are in no exclusively taken pool draw for themselves.
        ("slot=1/core=2", 100),
        ("node/slot=1/core=2", 100),
        ("rack/slot=1/node", 200),
        ("slot=1/[node;core=1]", 250),
    ],
)
@pytest.mark.parametrize("policy", ["first", "high", "pack"])
@pytest.mark.parametrize("reference", [False, True])
def test_exclusive_pool_draws_for_the_requested_parts(wanted: str, watts: int, policy: str, reference: bool) -> None:
    graph = made(watts)
    found = graph.matcher.match(fluxres.Request.parse(wanted), 0, 10_000_000, policy, reference=reference)
    assert found is not None
    graph.commit_match(stamped(graph, found), job="j")
    assert sum(span.amount for span in graph.allocation("j").spans if span.pool == "power:pdu0") == watts
    assert [problem for problem in graph.check() if problem.severity != "warning"] == []
    for graph in (made(watts), made(watts - 1)):
        assert graph.matcher.satisfiable(fluxres.Request.parse(wanted), reference=reference) == (
            graph.pool("power:pdu0").size == watts
        )


@pytest.mark.parametrize(("wanted", "watts"), [("slot=1/node/core=2", 200), ("node/slot=1/core=2", 100), ("slot=1/core", 50)])
def test_pools_taken_exclusively_by_the_policy_alone_draw_nothing(wanted: str, watts: int) -> None:
    graph = made()
    graph.allocate(wanted, job="j", duration_s=10, policy="lonodex")
    assert [(span.pool, span.amount) for span in graph.allocation("j").spans] == [("/m/rack0/node0", 1), ("power:pdu0", watts)]


@pytest.mark.parametrize("supply", ["any", "all"])
@pytest.mark.parametrize("policy", ["first", "high", "lonodex"])
@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        "slot=1/node",
        "slot=1/node/core=1",
        "[node;power=100]",
        "slot=1/[node;power=100]",
        "slot=2/node",
        "-N1 -x",
        "slot/[core;power=9]",
    ],
)
def test_rule_a5_match_records_no_supplier_in_an_exclusive_node(wanted: str, reference: bool, policy: str, supply: str) -> None:
    graph = sites.graph(PSUS.format(supply=supply))
    found = graph.matcher.match(fluxres.Request.parse(wanted), 0, 10_000_000, policy, reference=reference)
    assert found is not None
    graph.commit_match(stamped(graph, found), job="j")
    held = state(graph)
    for again in (graph.duplicate(), fluxres.loads(fluxres.dumps(graph), clock=lambda: 0)):
        assert state(again)[0] == held[0]
    if "power" not in wanted:
        named = by_name(sites.graph(PSUS.format(supply=supply)), found)
        assert state(named) == held
    whole = [span.pool for span in graph.allocation("j").spans if span.pool in ("/m/node0", "/m/node1")]
    assert not [span.pool for span in graph.allocation("j").spans for node in whole if span.pool.startswith(f"{node}/")]
    graph.free("j")
    assert graph.planner.moments(0, 10**18) == []


@pytest.mark.parametrize(
    ("wanted", "watts"),
    [("slot=1/gpu=1", 30), ("slot=1/gpu=3", 30), ("slot=2/gpu=3", 60), ("slot=1/node/gpu=3", 30)],
)
def test_exclusive_pools_of_several_sizes_draw(wanted: str, watts: int) -> None:
    text = """
fluxres: 1
name: m
resources: [{type: node, count: 2, with: [{type: gpu, id: 0, draw: {power: 30}}, {type: gpu, id: 1, size: 2}]}]
graphs:
  power:
    pools: [{type: pdu, count: 1, size: SIZE, unit: W}]
    edges: [{from: "power:/pdu0", to: "/m/node*"}]
"""
    graph = sites.graph(text.replace("SIZE", str(watts)))
    graph.allocate(wanted, job="j", duration_s=10)
    assert graph.pool("power:/pdu0").allocated() == watts
    graph = sites.graph(text.replace("SIZE", str(watts - 1)))
    if wanted != "slot=1/gpu=1":
        assert not graph.satisfiable(wanted)
        return
    graph.allocate(wanted, job="j", duration_s=10)  # the other one draws nothing
    assert [span.pool for span in graph.allocation("j").spans] == ["/m/node0/gpu1"]


# -- any small machine -----------------------------------------------------------------------------------------------

REQUESTS = (
    "slot=1/rack", "slot=2/rack", "slot=1/rack/node=2", "slot=1/rack/node=1", "slot=1/rack/node=1/gpu=1", "rack{x}/slot=1/node",
    "rack/slot=1/node", "rack{x}/node/slot=1/[core=1;gpu=1]", "slot=1/node", "slot=3/node", "slot=1/node=2", "slot=1/node/core=1",
    "slot=2/node/[core=1;gpu=1]", "node{x}/slot=1/core=1", "node/slot=1/core=1", "-N1 -x", "-N2 -n2 -x", "slot=1/[node;core=1]",
    "slot=1/[node;gpu=1]", "slot=1/core=1", "slot=2/[core=1;gpu=1]", "slot=1/gpu", "slot=3/gpu", "rack/slot=1/[node;gpu=1]",
    "slot=1/gpu=2", "slot=1/[core=1;gpu=3]", "gpu=3{x}",
)  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(60))
def test_request_draws_the_same_as_its_pools_by_name(seed: int) -> None:
    source = random.Random(f"draws/{seed}")
    graph = sites.graph(random_machine(source))
    for wanted in source.sample(REQUESTS, 6):
        request, policy = fluxres.Request.parse(wanted), source.choice(("first", "high", "pack", "spread"))
        answers = [graph.matcher.match(request, 0, 10_000_000, policy, reference=how) for how in (False, True)]
        assert (answers[0] is None) == (answers[1] is None)
        for found in answers:
            if found is None:
                assert wanted not in ("slot=1/rack", "slot=1/node", "slot=1/gpu") or not any_by_name(graph, wanted)
                continue
            asked = graph.duplicate()
            again = asked.matcher.match(request, 0, 10_000_000, policy, reference=found is answers[1])
            assert again is not None
            asked.commit_match(stamped(asked, again), job="j")
            assert state(asked) == state(by_name(graph, found)), wanted


def any_by_name(graph: ResourceGraph, wanted: str) -> bool:
    """Whether some pool of the requested type can be allocated by name."""
    kind = wanted.rpartition("/")[2]
    for v in range(graph.structure.n):
        if graph.structure.types[graph.structure.type.item(v)] == kind:
            try:
                graph.duplicate().allocate(graph.structure.where(v), job="j", start=0, end=10)
            except (InfeasibleRequest, InsufficientResources):
                continue
            return True
    return False
