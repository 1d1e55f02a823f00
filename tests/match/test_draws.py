"""What pools draw by themselves, by request as by name: a pool taken whole draws once for all that is in it."""

from __future__ import annotations

import random
from typing import Any

import pytest

import fluxres
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.model import ResourceGraph, matching
from tests import sites

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


def state(graph: ResourceGraph, job: str = "j") -> tuple[Any, ...]:
    """What a job holds, by account; what of it is implied; and for which pools it was drawn."""
    assert [problem for problem in graph.check() if problem.severity != "warning"] == []
    records = graph.records
    held = {v: records.steps_of(v, job) for v in sorted(records.pools_of[job])}
    return held, records.implied.get(job, {}), sorted(records.drawn.rows())


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
        # What stands in no pool taken whole draws for itself.
        ("slot=1/core=2", 100),
        ("node/slot=1/core=2", 100),
        ("rack/slot=1/node", 200),
        ("slot=1/[node;core=1]", 250),
    ],
)
@pytest.mark.parametrize("policy", ["first", "high", "pack"])
@pytest.mark.parametrize("reference", [False, True])
def test_a_pool_taken_whole_draws_for_the_parts_that_are_named(wanted: str, watts: int, policy: str, reference: bool) -> None:
    graph = made(watts)
    found = matching.matcher(graph).match(fluxres.Request.parse(wanted), 0, 10_000_000, policy, reference=reference)
    assert found is not None
    matching.give(graph, matching.stamped(graph, found), "j")
    assert sum(span.amount for span in graph.allocation("j").spans if span.pool == "power:/pdu0") == watts
    assert [problem for problem in graph.check() if problem.severity != "warning"] == []
    for graph in (made(watts), made(watts - 1)):
        assert matching.matcher(graph).satisfiable(fluxres.Request.parse(wanted), reference=reference) == (
            graph.pool("power:/pdu0").size == watts
        )


@pytest.mark.parametrize(("wanted", "watts"), [("slot=1/node/core=2", 200), ("node/slot=1/core=2", 100), ("slot=1/core", 50)])
def test_what_a_policy_takes_whole_beside_what_is_asked_for_draws_nothing(wanted: str, watts: int) -> None:
    graph = made()
    graph.allocate(wanted, job="j", duration_s=10, policy="lonodex")
    assert [(span.pool, span.amount) for span in graph.allocation("j").spans] == [("/m/rack0/node0", 1), ("power:/pdu0", watts)]


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
def test_rule_a5_a_match_records_no_supplier_in_a_node_taken_whole(
    wanted: str, reference: bool, policy: str, supply: str
) -> None:
    graph = sites.graph(PSUS.format(supply=supply))
    found = matching.matcher(graph).match(fluxres.Request.parse(wanted), 0, 10_000_000, policy, reference=reference)
    assert found is not None
    matching.give(graph, matching.stamped(graph, found), "j")
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


# -- any small machine -----------------------------------------------------------------------------------------------


def random_machine(source: random.Random, of_watts: tuple[int, ...] = (0, 0, 7, 40, 101)) -> str:
    """Racks of nodes of cores and gpus, which draw what they may, supplied in one of several ways."""

    def draw() -> str:
        watts = source.choice(of_watts)
        return f", draw: {{power: {watts}}}" if watts else ""

    def node(number: int) -> str:
        parts = [f"{{type: core, count: {source.randint(1, 2)}{cores}}}", f"{{type: gpu, count: 1{draw() or gpus}}}"]
        cards = (
            ["{type: psu, count: 2}"]
            if way == "cards"
            else ["{type: psu, count: 2, size: 900, unit: W}"]
            if way == "psus"
            else []
        )
        return f"{{type: node, id: {number}{draw() or nodes}, with: [{', '.join(parts + cards)}]}}"

    way = source.choice(("one", "two", "cards", "psus", "rack"))
    cores, gpus, nodes, alike = draw(), draw(), draw(), source.random() < 0.5
    racks = []
    for number in range(2):
        of_nodes = [node(2 * number + at) for at in range(2)]
        if alike:
            of_nodes = [of_nodes[0], of_nodes[0].replace(f"id: {2 * number}", f"id: {2 * number + 1}")]
        racks.append(f"  - {{type: rack, id: {number}{draw()}, with: [{', '.join(of_nodes)}]}}")
    each = [(n, f"/m/rack{n // 2}/node{n}") for n in range(4)]
    edges = {
        "one": [f'{{from: "power:/pdu{n % 2}", to: {path}}}' for n, path in each],
        "two": [f'{{from: "power:/pdu[0-1]", to: {path}, supply: {source.choice(("any", "all"))}}}' for _, path in each],
        "cards": [f'{{from: "power:/pdu{at}", to: {path}/psu{at}}}' for _, path in each for at in (0, 1)],
        "psus": [
            edge
            for _, path in each
            for edge in (
                f'{{from: "power:/pdu0", to: {path}/psu0}}',
                f'{{from: "power:/pdu1", to: {path}/psu1}}',
                f'{{from: "{path}/psu*", to: {path}}}',
            )
        ],
        "rack": [f'{{from: "power:/pdu{n}", to: /m/rack{n}, capacity: 900}}' for n in (0, 1)],
    }[way]
    pdus = f"{{type: pdu, count: 2, size: {source.choice((150, 400, 2000))}, unit: W}}"
    lines = "\n".join(f"      - {edge}" for edge in edges)
    every = "\n".join(racks)
    return f"fluxres: 1\nname: m\nresources:\n{every}\ngraphs:\n  power:\n    pools: [{pdus}]\n    edges:\n{lines}\n"


REQUESTS = (
    "slot=1/rack", "slot=2/rack", "slot=1/rack/node=2", "slot=1/rack/node=1", "slot=1/rack/node=1/gpu=1", "rack{x}/slot=1/node",
    "rack/slot=1/node", "rack{x}/node/slot=1/[core=1;gpu=1]", "slot=1/node", "slot=3/node", "slot=1/node=2", "slot=1/node/core=1",
    "slot=2/node/[core=1;gpu=1]", "node{x}/slot=1/core=1", "node/slot=1/core=1", "-N1 -x", "-N2 -n2 -x", "slot=1/[node;core=1]",
    "slot=1/[node;gpu=1]", "slot=1/core=1", "slot=2/[core=1;gpu=1]", "slot=1/gpu", "slot=3/gpu", "rack/slot=1/[node;gpu=1]",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_a_request_draws_what_its_pools_draw_by_name(seed: int) -> None:
    source = random.Random(f"draws/{seed}")
    graph = sites.graph(random_machine(source))
    for wanted in source.sample(REQUESTS, 10):
        request, policy = fluxres.Request.parse(wanted), source.choice(("first", "high", "pack", "spread"))
        answers = [matching.matcher(graph).match(request, 0, 10_000_000, policy, reference=how) for how in (False, True)]
        assert (answers[0] is None) == (answers[1] is None)
        for found in answers:
            if found is None:
                assert wanted not in ("slot=1/rack", "slot=1/node", "slot=1/gpu") or not any_by_name(graph, wanted)
                continue
            asked = graph.duplicate()
            again = matching.matcher(asked).match(request, 0, 10_000_000, policy, reference=found is answers[1])
            assert again is not None
            matching.give(asked, matching.stamped(asked, again), "j")
            assert state(asked) == state(by_name(graph, found)), wanted


def any_by_name(graph: ResourceGraph, wanted: str) -> bool:
    """Whether some pool of the type that a request asks for one of can be allocated by name."""
    kind = wanted.rpartition("/")[2]
    for v in range(graph.structure.n):
        if graph.structure.types[graph.structure.type.item(v)] == kind:
            try:
                graph.duplicate().allocate(graph.structure.where(v), job="j", start=0, end=10)
            except (InfeasibleRequest, InsufficientResources):
                continue
            return True
    return False


# -- what goes when a pool goes and parts of it stay -----------------------------------------------------------------


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
def test_rule_f2_a_node_that_goes_takes_of_each_supplier_what_it_drew_there(give_back: str) -> None:
    graph = sites.graph(CARDS)
    graph.allocate("slot=1/[core=1;power=250]", job="j", duration_s=10)
    before = state(graph)
    graph.grow("j", "/m/node0")
    assert watts(graph) == [125 + 65, 125 + 65]  # the node and its other core
    getattr(graph, give_back)("j", "/m/node0", start=4, end=6)
    assert [watts(graph, at) for at in (3, 4, 6)] == [[190, 190], [125, 125], [190, 190]]
    getattr(graph, give_back)("j", "/m/node0")
    assert state(graph) == before


def test_rule_f2_what_stays_of_a_node_that_goes_draws_on() -> None:
    graph = sites.graph(CARDS)
    graph.allocate("/m/node0/core0", job="j", start=0, end=10)
    graph.allocate("slot=1/[core=1;power=250]", job="j", start=0, end=10)  # the other core, which draws no more than that
    before = state(graph)
    for _ in range(3):
        graph.allocate("/m/node0", job="j", start=0, end=5)
        assert [watts(graph, at) for at in (0, 5)] == [[190, 190], [140, 140]]
        graph.shrink("j", "/m/node0")
        assert state(graph) == before


@pytest.mark.parametrize("down", ["while it is drawn", "when it goes"])
def test_rule_f2_a_supplier_that_is_down_for_a_time_changes_nothing_of_what_goes(down: str) -> None:
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


@pytest.mark.parametrize("seed", range(60))
def test_rule_a6_growing_and_shrinking_leaves_what_was_drawn(seed: int) -> None:
    source = random.Random(f"grown/{seed}")
    graph = sites.graph(random_machine(source, (0, 0, 8, 40, 100)))  # of even parts, which are never rounded
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
        if graph.records.whole_above(graph.structure.vertex(name) + 1, "j", 0, 10_000_000):
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
