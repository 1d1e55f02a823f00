"""Pools' own draw from their suppliers (`draw` in a cluster file), whatever name or request allocates them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.allocation import plans
from fluxres.cli import program as cli
from fluxres.errors import InfeasibleRequest, InputError, InsufficientResources, UsageError
from fluxres.instance import Instance
from fluxres.model import ResourceGraph
from fluxres.model.events import Event, apply
from tests import sites
from tests.instance.machines import ManualClock

SITE = sites.racks(of_a_node="draw: {power: 400}, ") + sites.power(2600, 1800)


def made(text: str = SITE) -> ResourceGraph:
    return sites.graph(text)


@pytest.fixture
def site() -> ResourceGraph:
    """Two racks of four nodes of 400 W; 2.6 kW in all, 1.8 kW a rack."""
    return made()


def node(number: int) -> str:
    return f"/site/rack{number // 4}/node{number}"


def drawn(graph: ResourceGraph, job: str = "j") -> dict[str, int]:
    spans = graph.allocation(job).spans if job in graph.jobs() else ()
    return {span.pool.removeprefix("power:").split("/")[-2]: span.amount for span in spans if span.pool.startswith("power:")}


JOBSPEC = {
    "version": 1,
    "resources": [{"type": "slot", "count": 2, "label": "x", "with": [{"type": "node", "count": 1}]}],
    "tasks": [{"command": ["a"], "slot": "x", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 10}},
}


@pytest.mark.parametrize(
    ("wanted", "watts"),
    [
        (node(0), 400),
        ([node(0), node(1)], 800),
        ("/site/rack0", 1600),
        ("slot=2/node", 800),
        (JOBSPEC, 800),
        ("node=2{x}", 800),
        ("node=1{x}/core=2", 400),
        ("slot=1/[node=2;core=4]", 800),
        ("rack=1{x}", 1600),
        ("rack=1/node=3{x}", 1200),
        # Parts of a node draw nothing by themselves.
        ("slot=2/core=2", 0),
        (f"{node(0)}/core0", 0),
        # A request that states its draw draws exactly that.
        ("slot=2/[node;power=700]", 1400),
        ({node(0): 1, "power:/feed/pdu0/power": 500, "power:/feed/power": 500}, 500),
    ],
)
def test_own_draw_is_charged_by_every_kind_of_allocation(site: ResourceGraph, wanted: Any, watts: int) -> None:
    site.allocate(wanted, job="j", duration_s=10)
    assert drawn(site) == ({"feed": watts, "pdu0": watts} if watts else {})
    assert site.check() == []
    site.free("j")
    with site.stage(wanted, job="j", duration_s=10) as stage:
        stage.commit()
    assert drawn(site).get("feed", 0) == watts
    site.free("j")
    site.allocate_all([(wanted, "j")], duration_s=10)
    assert drawn(site).get("feed", 0) == watts


BY_GRAPH = """
fluxres: 1
name: site
resources: [{type: rack, count: 1, id: 0, with: [{type: node, count: 2, draw: {power: 400}}]}]
graphs:
  power:
    hierarchy: true
    pools: [{type: feed, size: 2000, unit: W, with: [{type: pdu, size: 1500, unit: W}]}]
    edges:
      - {from: "power:/feed/pdu", to: /site/rack0}
      - {from: /site/rack0, to: "/site/rack0/node*", capacity: 900}
"""


@pytest.mark.parametrize(
    ("wanted", "of_feed", "of_pdu"),
    [
        ("slot/node", 400, 400),
        ("/site/rack0/node0", 400, 400),
        ("slot/[node;power=300]", 300, 300),
        ("slot/[node;feed=300]", 300, 0),
        ({"/site/rack0/node0": 1, "power:/feed": 300, "power:/feed/pdu": 300}, 300, 300),
        ({"/site/rack0/node0": 1, "power:/feed/pdu": 300}, 0, 300),
        ({"/site/rack0/node0": 1, "power: /site/rack0 -> /site/rack0/node0": 300}, 0, 0),
    ],
)
def test_requested_units_replace_the_own_draw(wanted: Any, of_feed: int, of_pdu: int) -> None:
    made = sites.graph(BY_GRAPH)
    made.allocate(wanted, job="j")
    pools = (made.pool("power:/feed"), made.pool("power:/feed/pdu"))
    assert [pool.size - pool.available() for pool in pools] == [of_feed, of_pdu]


def test_draws_need_a_supplier(site: ResourceGraph) -> None:
    site.allocate("slot=6/node", job="j", duration_s=10)
    assert drawn(site) == {"feed": 2400, "pdu0": 1600, "pdu1": 800}
    with pytest.raises(InsufficientResources):
        site.allocate(node(6), job="k", duration_s=10)
    refusal = site.why_not("slot=1/node")
    assert refusal is not None
    assert any("200 W of 2.6 kW free" in sentence for sentence in refusal.sentences())
    asked = site.why_not("slot=2/node")
    assert asked is not None
    assert asked.enough == {}  # watts were not requested, so requesting fewer does not help
    assert site.earliest("slot=1/node") == 10
    assert not site.satisfiable("slot=7/node")
    site.allocate("slot=1/core=4", job="k")
    assert site.jobs() == ["j", "k"]


def test_own_draw_is_freed_with_the_pool(site: ResourceGraph) -> None:
    site.allocate("slot=3/node", job="j", duration_s=10)
    site.shrink("j", "slot=1/node")
    assert drawn(site) == {"feed": 800, "pdu0": 800}
    site.grow("j", node(5))
    assert drawn(site) == {"feed": 1200, "pdu0": 800, "pdu1": 400}
    site.free("j", [node(0), node(5)])
    assert drawn(site) == {"feed": 400, "pdu0": 400}
    site.free("j", node(1))
    assert site.jobs() == []


def test_exclusive_rack_draws_for_each_of_its_nodes() -> None:
    top = Instance(made(), clock=ManualClock(), name="top")
    child = top.spawn(top.submit("rack=1{x}", duration_s=100))
    child.shrink([node(1), f"{node(2)}/core0"])
    assert drawn(top.graph, top.graph.jobs()[0]) == {"feed": 1200, "pdu0": 1200}
    assert top.check() == []


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_jobs_and_children_of_an_instance_draw(site: ResourceGraph, inventory: str) -> None:
    top = Instance(site, clock=ManualClock(), name="top", inventory=inventory)
    job = top.submit("slot=4/node", duration_s=100)
    child = top.spawn(job)
    assert child.submit("slot=3/node", duration_s=50).state.name == "RUN"
    assert drawn(child.graph, child.graph.jobs()[0]) == {"feed": 1200, "pdu0": 1200}
    assert top.submit("slot=3/node", duration_s=50).state.name == "SCHED"
    child.grow([node(4)])
    assert drawn(top.graph, top.graph.jobs()[0]) == {"feed": 2000, "pdu0": 1600, "pdu1": 400}
    assert top.check() == []


def test_files_stores_and_journals_keep_draws(site: ResourceGraph, tmp_path: Path) -> None:
    told: list[Event] = []
    again = site.duplicate()
    site.sink = told.append
    site.allocate(node(0), job="j", duration_s=100)
    site.grow("j", "slot=1/node")
    for event in told:
        again.apply(event)
    places = [str(tmp_path / "site.yaml"), str(tmp_path / "site.json"), f"sqlite:///{tmp_path}/store.db#site"]
    for place, form in zip(places, ["cluster", "node-link", None], strict=True):
        fluxres.save(site, place, **({"format": form} if form else {}))
    for graph in (again, site.duplicate(), *(fluxres.load(place, clock=lambda: 0) for place in places)):
        assert drawn(graph) == {"feed": 800, "pdu0": 800}
        graph.free("j", node(0))
        assert drawn(graph) == {"feed": 400, "pdu0": 400}
        graph.grow("j", "slot=1/node")
        assert drawn(graph) == {"feed": 800, "pdu0": 800}
    assert "draw: {power: 400}" in Path(places[0]).read_text()


def test_unsupplied_pools_are_not_allocated() -> None:
    graph = made(SITE.replace('"power:/feed/pdu[0-1]", to: "/site/rack[0-1]"', '"power:/feed/pdu0", to: "/site/rack0"'))
    with pytest.raises(InfeasibleRequest, match="nothing supplies it"):
        graph.allocate(node(4), job="j")
    assert graph.why_not("slot=5/node") is not None
    # On a machine without power, a draw is only a property.
    graph = made(SITE.split("graphs:", maxsplit=1)[0])
    graph.allocate("slot=8/node", job="j")


def test_only_pools_of_one_unit_draw_by_themselves() -> None:
    with pytest.raises(InputError, match=r"site\.yaml:5:82: .*draw: only a pool of one unit"):
        made(SITE.replace("draw: {power: 400}, with", "size: 2, draw: {power: 400}, with"))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(40))
def test_first_nodes_that_can_be_supplied_together_are_chosen(seed: int) -> None:
    """Nodes of different draws, against every choice of nodes in their order."""
    source = random.Random(seed)
    watts = [source.choice([100, 300, 400, 700]) if seed % 4 else 400 for _ in range(8)]
    feed, pdu, number = source.choice([900, 1500, 2600]), source.choice([500, 800, 1800]), source.randint(1, 5)
    racks = [
        "{type: rack, with: ["
        + ", ".join(
            f"{{type: node, id: {n}, draw: {{power: {watts[n]}}}, with: [{{type: core}}]}}" for n in range(rack, rack + 4)
        )
        + f"], id: {rack // 4}}}"
        for rack in (0, 4)
    ]
    head, tail = SITE.split("resources:", maxsplit=1)[0], SITE[SITE.index("graphs:") :]
    graph = made(f"{head}resources: [{', '.join(racks)}]\n{tail}".replace("2600", str(feed)).replace("1800", str(pdu)))
    expected = next(
        (
            nodes
            for nodes in combinations(range(8), number)
            if sum(watts[n] for n in nodes) <= feed and all(sum(watts[n] for n in nodes if n // 4 == r) <= pdu for r in (0, 1))
        ),
        None,
    )
    request = fluxres.Request.parse(f"slot={number}/node")
    matcher = graph.matcher
    for reference in (False, True):
        found = matcher.match(request, 0, 10, reference=reference)
        names = (
            None if found is None else tuple(graph.pool(v).id for v in found.vertices.tolist() if graph.pool(v).type == "node")
        )
        assert names == expected
        assert matcher.satisfiable(request, reference=reference) == (expected is not None)
    if expected is not None:
        graph.allocate(request, job="j")
        assert drawn(graph)["feed"] == sum(watts[n] for n in expected)
        for n in expected:
            graph.free("j", node(n))
        assert graph.jobs() == []


TWO_CABLES = """
fluxres: 1
name: m
resources:
  - {type: node, count: 2, draw: {power: 400}, with: [{type: core, count: 2}]}
graphs:
  power:
    hierarchy: false
    pools:
      - {type: pdu, count: 2, with: [{type: power, size: 1000, unit: W, id: null}]}
    edges:
      - {from: "power:/pdu[0-1]", to: "/m/node0", supply: any}
      - {from: "power:/pdu[0-1]", to: "/m/node1", supply: any}
"""


def test_node_in_adjacent_windows_draws_once(site: ResourceGraph) -> None:
    for start, end in ((0, 35), (35, 50)):
        site.allocate("slot=1/node{id:'0'}", job="j", start=start, end=end)
    assert site.check() == []
    assert drawn(site) == {"feed": 400, "pdu0": 400}
    site.set_end("j", 40)
    site.free("j", node(0), start=20, end=38)
    assert [(span.start, span.end) for span in site.allocation("j").spans if span.pool == node(0)] == [(0, 20), (38, 40)]
    assert site.check() == []
    site.free("j", node(0))
    assert site.jobs() == []
    assert site.planner.moments(0, 10**18) == []


def test_copy_of_a_job_draws_from_the_supplier_with_units() -> None:
    g = made(TWO_CABLES)
    g.set_state("power:/pdu0", "down")
    g.allocate("/m/node0", job="e")
    g.set_state("power:/pdu0", "up")
    copy = g.copy(job="e")
    assert copy.why_not("slot=1/node") is None
    copy.allocate("slot=1/node", job="x")
    assert drawn(copy, "x") == {"pdu1": 400}


def test_child_draws_its_own_units_before_those_of_its_parent() -> None:
    top = Instance(made(TWO_CABLES), clock=ManualClock(), name="top")
    top.graph.set_state("power:/pdu0", "down")
    job = top.submit("slot=1/node", duration_s=100)
    top.graph.set_state("power:/pdu0", "up")
    child = top.spawn(job)
    child.submit("slot=1/node", duration_s=50)
    assert drawn(top.graph, top.graph.jobs()[0]) == {"pdu1": 400}
    assert top.check() == []


def test_refusal_names_the_standby_supplier() -> None:
    g = made(TWO_CABLES)
    g.allocate({"power:/pdu0/power": 900}, job="big")
    refusal = g.why_not("slot=1/node")
    assert refusal is not None
    assert any("power on pdu0: 100 W of 1 kW free while pdu1 stands by" in sentence for sentence in refusal.sentences())
    g.set_state("power:/pdu1", "down")
    refusal = g.why_not("slot=1/node")
    assert refusal is not None
    assert not any("stands by" in sentence for sentence in refusal.sentences())


@pytest.mark.parametrize("way", ["allocate", "stage", "allocate_all", "grow"])
def test_refusal_of_drawn_units_names_the_pools_that_draw(site: ResourceGraph, way: str) -> None:
    site.allocate("slot/core", job="j", duration_s=10)

    def give(*wanted: str) -> None:
        if way == "allocate_all":
            site.allocate_all([(list(wanted), "k")], duration_s=10)
        elif way == "grow":
            site.grow("j", list(wanted))
        else:
            getattr(site, way)(list(wanted), job="k", duration_s=10)

    with pytest.raises(InfeasibleRequest) as never:
        give(*(node(number) for number in range(1, 8)))
    assert never.value.message == "requested 2800 units of a pool of 2600; /site/rack0/node1 and 6 more draw them"
    assert never.value.hint == "allocate fewer of these"
    site.allocate([("power:/feed/pdu1/power", 1500)], job="x", duration_s=10)
    with pytest.raises(
        InsufficientResources, match=r"pdu1/power: requested 400 units.*; /site/rack1/node4 draws them \(free from"
    ):
        give(node(4))
    assert site.jobs() == ["j", "x"]
    with pytest.raises(InfeasibleRequest, match=r"requested 9999 units of a pool of 1800 \(ask for at most 1800\)"):
        site.allocate([(node(1), 1), ("power:/feed/pdu1/power", 9999)], job="k", duration_s=10)


@pytest.mark.parametrize("way", ["allocate", "stage", "allocate_all"])
def test_impossible_draw_has_no_later_start(site: ResourceGraph, way: str) -> None:
    site.add_edge("power:/feed/pdu0", node(1), "power", capacity=300)
    site.allocate([node(0), f"{node(1)}/core0"], job="j", duration_s=10)
    both = [node(0), node(1)]
    asked: dict[str, Callable[[], object]] = {
        "allocate": lambda: site.allocate(both, job="k", duration_s=10),
        "stage": lambda: site.stage(both, job="k", duration_s=10),
        "allocate_all": lambda: site.allocate_all([(both, "k")], duration_s=10),
    }
    refused = []
    for _ in range(2):  # while a node is held, and when it is free
        with pytest.raises(InfeasibleRequest) as never:
            asked[way]()
        refused.append(str(never.value))
        if site.jobs():
            site.free("j")
    assert refused[0] == refused[1]
    assert "requested 400 W of an edge that carries 300" in refused[0]


def test_joint_draw_that_fits_later_is_refused_only_for_now() -> None:
    g = made("""
fluxres: 1
name: m
resources:
  - {type: node, id: 0, draw: {power: 400}}
  - {type: node, id: 1, draw: {power: 800}}
  - {type: node, id: 2, draw: {power: 1100}}
graphs:
  power:
    hierarchy: true
    pools: [{type: pdu, with: [{type: power, count: 2, size: 500, unit: W}]}]
    edges: [{from: "power:/pdu", to: "/m/node*"}]
""")
    g.allocate("/m/node0", job="j", start=0, end=100)
    with pytest.raises(InsufficientResources, match="100 of 500 free") as later:
        g.allocate("/m/node1", job="k", start=0, end=50)
    assert later.value.earliest == 100
    with pytest.raises(InfeasibleRequest, match="node2 draws them"):
        g.allocate("/m/node2", job="k", start=0, end=50)
    g.allocate("/m/node1", job="k", start=100, end=150)
    assert [span.amount for span in g.allocation("k", 120).spans if "power" in span.pool] == [500, 300]


def test_edge_commands_report_draws_that_became_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLUXRES_STORE", f"sqlite:///{tmp_path}/store.db")
    (tmp_path / "site.yaml").write_text(SITE)
    assert cli.run(["load", str(tmp_path / "site.yaml")]) == 0
    edge = ["power:/feed/pdu0", node(1), "--subsystem", "power"]
    noted = []
    for command in (
        ["add", *edge, "--capacity", "400"],
        ["set", *edge, "--relation", "link", "--capacity", "300"],
        ["set", *edge, "--relation", "link", "--attribute", "colour=red"],
        ["set", *edge, "--relation", "link", "--capacity", "500"],
    ):
        assert cli.run(["edge", *command]) == 0, capsys.readouterr().err
        noted.append(capsys.readouterr().err)
    assert [bool(text) for text in noted] == [False, True, False, False]
    assert f"{node(1)}: draws 400 W of" in noted[1]
    assert "which has 300 W: it can never be allocated" in noted[1]


def two_nodes(draw: str) -> ResourceGraph:
    return made(f"""
fluxres: 1
name: lab
resources: [{{type: node, count: 2{draw}, with: [{{type: core, count: 2}}, {{type: memory, size: 4, unit: GiB, id: 0}}]}}]
graphs:
  power:
    pools: [{{type: power, count: 1, id: 0, size: 1000, unit: W}}]
    edges: [{{from: "power:/power0", to: "/lab/node*"}}]
""")


GIVES: dict[str, Callable[[ResourceGraph, Any], object]] = {
    "allocate": lambda graph, named: graph.allocate(named, job="j", end=10),
    "stage": lambda graph, named: graph.stage(named, job="j", end=10, ttl_s=5),
    "allocate_all": lambda graph, named: graph.allocate_all([(named, "j")], duration_s=10),
}


@pytest.mark.parametrize("way", GIVES)
@pytest.mark.parametrize("inside", [("memory0", 4), ("memory0", 3), ("core1", 1)])
@pytest.mark.parametrize("draw", ["", ", draw: {power: 100}"])
def test_rule_a1_drawing_node_does_not_imply_a_named_pool(draw: str, inside: tuple[str, int], way: str) -> None:
    graph = two_nodes(draw)
    graph.allocate([("/lab/node0/memory0", 1)], job="j", end=10)
    name, units = inside
    before = graph.allocation("j").spans
    with pytest.raises((InsufficientResources, UsageError), match=r"requested 4 units, 3 of 4 free|named beside /lab/node0"):
        GIVES[way](graph, [("/lab/node0", 1), (f"/lab/node0/{name}", units)])
    assert graph.allocation("j").spans == before
    assert graph.check() == []


@pytest.mark.parametrize("beside", [[], ["/lab/node1"]])
@pytest.mark.parametrize("draw", ["", ", draw: {power: 100}"])
def test_implied_core_is_refused_whatever_else_draws(draw: str, beside: list[str]) -> None:
    graph = two_nodes(draw)
    graph.allocate("/lab/node0", job="j", end=10)
    with pytest.raises(InsufficientResources, match="held through /lab/node0 by j"):
        graph.allocate(["/lab/node0/core0", *beside], job="j", end=10)
    graph.shrink("j", "/lab/node0")
    assert graph.jobs() == []


def test_implied_units_do_not_exceed_the_size() -> None:
    graph = two_nodes("")
    memory, node = graph.structure.vertex("/lab/node0/memory0"), graph.structure.vertex("/lab/node0")
    graph.allocate([("/lab/node0/memory0", 1)], job="j", end=10)
    with pytest.raises(InsufficientResources, match="requested 4 units, 3 of 4 free"):
        plans.allocate(graph.records, [(node, 1), (memory, 4)], "j", 0, 10_000_000, implies=True)
    planned = plans.allocate(graph.records, [(node, 1), (memory, 3)], "j", 0, 10_000_000, implies=True)
    graph.records.allocate(planned, "j", 0, 10_000_000)
    assert graph.check() == []
    graph.shrink("j", "/lab/node0")
    assert graph.pool("/lab/node0/memory0").available() == 0


def lab(watts: int = 1000) -> ResourceGraph:
    """A rack of two nodes of 100 W, each with two cores and a GPU that draws 30 W more."""
    return made(f"""
fluxres: 1
name: lab
resources:
  - type: rack
    count: 1
    id: [0]
    with:
      - type: node
        count: 2
        draw: {{power: 100}}
        with: [{{type: core, count: 2}}, {{type: gpu, count: 1, draw: {{power: 30}}}}]
graphs:
  power:
    pools: [{{type: power, count: 1, id: 0, size: {watts}, unit: W}}]
    edges: [{{from: "power:/power0", to: "/lab/rack0/node*", capacity: 400}}]
""")


RACK = "/lab/rack0"


def state(graph: ResourceGraph) -> tuple[object, ...]:
    assert graph.check() == []
    records = graph.records
    spans = {(v, job): held for v, holders in records.held.items() for job, held in holders.items()}
    return spans, dict(records.implied), sorted(records.drawn.rows())


@pytest.mark.parametrize(
    ("parts", "grown", "watts"),
    [
        (["node0/core0"], "/node0", 130),
        (["node0/gpu0"], "/node0", 130),
        (["node0/core0", "node1"], "/node0", 260),
        (["node0/core0"], "", 260),
        (["node0/core0", "node1/gpu0"], "", 260),
        (["node1"], "", 260),
        (["node0/gpu0", "node1"], "", 260),
        (["node0", "node1"], "", 260),
    ],
)
def test_rule_a6_growing_and_shrinking_leaves_no_watts_behind(parts: list[str], grown: str, watts: int) -> None:
    graph = lab()
    graph.allocate([f"{RACK}/{part}" for part in parts], job="j", end=10)
    before = state(graph)
    for _ in range(3):
        graph.grow("j", RACK + grown)
        assert graph.check() == []
        assert graph.pool("power:/power0").allocated() == watts
        graph.shrink("j", RACK + grown)
        assert state(graph) == before
    graph.free("j")
    assert graph.planner.moments(0, 10**18) == []


def test_rule_f2_rack_draws_for_its_other_nodes() -> None:
    graph = lab(260)
    graph.allocate(f"{RACK}/node0", job="j", end=10)
    graph.grow("j", RACK)
    assert graph.pool("power:/power0").available() == 0
    graph.shrink("j", RACK)
    assert graph.pool("power:/power0").available() == 130
    assert [span.pool for span in graph.allocation("j").spans][:1] == [f"{RACK}/node0"]


def test_rule_f2_requested_watts_stay_with_the_contents_of_a_node() -> None:
    graph = lab()
    graph.allocate("slot=1/[core=1;power=90]", job="j", duration_s=10)
    graph.grow("j", f"{RACK}/node0")
    assert graph.pool("power:/power0").allocated() == 220
    graph.shrink("j", f"{RACK}/node0", start=4, end=6)
    power = graph.pool("power:/power0")
    assert [power.allocated(at=at) for at in (3, 4, 5, 6)] == [220, 90, 90, 220]
    graph.shrink("j", f"{RACK}/node0")
    assert [power.allocated(at=at) for at in (3, 4, 5, 6)] == [90, 90, 90, 90]
    assert graph.check() == []
    graph.free("j", f"{RACK}/node0/core0")
    assert power.allocated() == 0


def test_rule_f2_rack_and_node_with_different_ends_draw_once_at_any_moment() -> None:
    graph = lab()
    twin = graph.duplicate()
    events: list[Event] = []
    graph.sink = events.append
    graph.allocate(f"{RACK}/node0", job="j", start=2, end=5)
    before, power = state(graph), graph.pool("power:/power0")
    given = graph.allocate(RACK, job="j", start=0, end=10)
    assert {(span.pool, span.start, span.end) for span in given.spans if span.pool == RACK} == {(RACK, 0, 10)}
    assert [power.allocated(at=at) for at in (0, 2, 4, 5, 9)] == [260] * 5
    graph.shrink("j", RACK, start=3, end=10)
    assert [power.allocated(at=at) for at in (0, 2, 3, 4, 5, 9)] == [260, 260, 130, 130, 0, 0]
    graph.shrink("j", RACK)
    assert state(graph) == before
    for event in events:
        apply(twin, json.loads(json.dumps(event)))
    assert state(twin) == before
    graph.allocate("/lab/rack0/node1/gpu0", job="other", start=8, end=9)
    with pytest.raises(InsufficientResources, match="other holds"):
        graph.allocate(RACK, job="j", start=0, end=10)
    assert [power.allocated(at=at) for at in (0, 2, 4, 5, 8)] == [0, 130, 130, 0, 30]


# -- a part of a machine -------------------------------------------------------------------------------------------------

PDU_IN_THE_RACK = """
fluxres: 1
name: site
resources:
  - type: rack
    count: 1
    id: 0
    with: [{type: node, count: 2, draw: {pdu: 400}}, {type: pdu, size: 900, unit: W, id: null}]
graphs:
  power:
    edges: [{from: /site/rack0/pdu, to: "/site/rack0/node*"}]
"""
NO_HIERARCHY = SITE.replace("    hierarchy: true\n", "")


@pytest.mark.parametrize("text", [SITE, NO_HIERARCHY, BY_GRAPH, PDU_IN_THE_RACK])
@pytest.mark.parametrize(("way", "part"), [("copy", "rack0"), ("copy", "rack0/node0"), ("duplicate", "rack0")])
def test_partial_copy_without_watts_gives_no_node(text: str, way: str, part: str) -> None:
    """Other parts share its suppliers, so these are copied as pass-through pools without units."""
    whole = sites.graph(text)
    made = getattr(whole, way)(f"/site/{part}")
    node = made.find("type=node").paths()[0]
    if text == PDU_IN_THE_RACK and part == "rack0":  # the part has the PDU
        made.allocate(node, job="j")
        assert made.check() == []
        return
    assert not made.satisfiable("slot/node")
    refusal = made.why_not("slot/node")
    assert refusal is not None
    assert "only a pass-through" in refusal.sentences()[0]
    with pytest.raises(
        InfeasibleRequest, match=r"it draws 400 W of .*, which is only a pass-through in this part of the machine"
    ):
        made.allocate(node, job="j")
    assert {problem.severity for problem in made.check()} == {"warning"}
    first = made.check()[0]
    assert first.where == node
    assert "which is only a pass-through in this part of the machine: it can never be allocated" in first.message


def test_partial_copy_with_supplier_units_gives_nodes(site: ResourceGraph) -> None:
    site.allocate("slot/node", job="j")
    for part in (site.copy(job="j"), site.copy(), site.duplicate()):
        part.allocate("slot/node", job="k")
        assert part.check() == []


def test_child_with_linked_suppliers_causes_no_warning(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot/[node;power=300]", duration_s=100))
    assert child.graph.check() == []
    assert top.check() == []


def test_commands_that_copy_a_part_report_impossible_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLUXRES_STORE", f"sqlite:///{tmp_path}/store.db")
    Path("site.yaml").write_text(SITE)
    noted = []
    for command in (
        "load site.yaml",
        "copy / --to all",
        "copy /site/rack0 --to part",
        "save part.yaml --path /site/rack0",
        "load part.yaml",
    ):
        assert cli.run(command.split()) == 0
        noted.append("draws 400 W of power, which is only a pass-through in this part of the machine" in capsys.readouterr().err)
    assert noted == [False, False, True, True, True]
