"""Draws through edges, from allocation to store: shown, freed, replayed, copied, cut and joined."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres import limits
from fluxres.documents.source import Source
from fluxres.errors import InfeasibleRequest, InputError, InsufficientResources, NotHeld, StillHeld, UnknownPool, UsageError
from fluxres.formats import registry
from fluxres.formats.cluster import read as cluster
from fluxres.model import ResourceGraph
from fluxres.model.events import Event
from fluxres.store import encoding
from fluxres.store.records import capture, restore

DEMO = Path(__file__).parents[2] / "data/clusters/demo.yaml"
EDGE = "power: /demo/rack0 -> /demo/rack0/node0"
FEED = "power: power:/pdu0 -> /demo/rack0"


@pytest.fixture
def demo() -> ResourceGraph:
    return fluxres.load(DEMO)


def through(graph: ResourceGraph, job: str) -> dict[str, int]:
    """The job's draws through edges of the power graph."""
    return {span.pool: span.amount for span in graph.allocation(job).spans if " -> " in span.pool}


def test_demo_nodes_draw_through_their_edges(demo: ResourceGraph) -> None:
    given = demo.allocate("slot=2/[node;power=3000]", job="j1")
    assert [pool.where for pool in given.pools] == ["/demo/rack0/node0", "/demo/rack0/node1", "power:/pdu0"]
    assert [pool.where for pool in demo.match("slot=1/[node;power=100]").pools] == ["/demo/rack0/node2", "power:/pdu0"]
    assert through(demo, "j1") == {EDGE: 3000, EDGE.replace("node0", "node1"): 3000, FEED: 6000}
    assert {span.pool: span.amount for span in given.spans} == {span.pool: span.amount for span in demo.allocation("j1").spans}
    # No pool is an edge: neither in numbers, nor in searches, nor in R.
    assert len(demo) == 200
    assert [pool.where for pool in demo.allocated("j1")] == [pool.where for pool in given.pools]
    assert len(demo.find("job=j1")) == len(given.pools)
    assert given.R("jgf")["execution"]["R_lite"][0]["rank"] == "0-1"
    assert not demo.satisfiable("slot=1/[node;power=4001]")
    assert demo.check() == []


def test_rule_f1_random_jobs_never_exceed_an_edge(demo: ResourceGraph) -> None:
    source = random.Random(7)
    asked = ["slot=1/[node;power={}]", "node=2{{x}}/power={}", "slot=3/[core=2;power={}]", "slot=2/[node;power={};network={}]"]
    for job in range(60):
        text = source.choice(asked).format(source.choice([300, 900, 2100, 4000]), source.randint(1, 100))
        demo.allocate_orelse_reserve(text, job=f"j{job}", duration_s=source.randint(1, 20))
        if source.random() < 0.4:
            demo.free(source.choice(demo.jobs()))
        with suppress(InsufficientResources):
            demo.stage(text, job="s", start=source.randint(0, 300), duration_s=3, ttl_s=1).release()
    accounts, planner = demo.structure.accounts, demo.planner
    moments = planner.moments(0, 10**18)
    used = {v: [planner.used(v, t, t + 1) for t in moments] for v in range(len(demo), accounts.n)}
    assert any(max(spans) == accounts.size[v] for v, spans in used.items())
    for v, spans in used.items():
        assert max(spans) <= accounts.size[v]
    # Every watt through a cable to a node is one of its rack, and of its PDU.
    for rack, pdu in ((0, "power:/pdu0"), (1, "power:/pdu1")):
        feed = accounts.number(f"power: {pdu} -> /demo/rack{rack}")
        cables = [v for v in used if accounts.where(v).startswith(f"power: /demo/rack{rack} -> ")]
        for at, t in enumerate(moments):
            assert sum(used[v][at] for v in cables) == used[feed][at] == planner.used(demo.vertex(pdu), t, t + 1)
    assert demo.check() == []


def test_view_shows_free_units_of_edges(demo: ResourceGraph) -> None:
    demo.allocate("slot=1/[node;power=3000]", job="j1")
    view = demo.subsystem("power")
    node = demo.vertex("/demo/rack0/node0")
    rack = demo.vertex("/demo/rack0")
    assert (view.edges[rack, node]["capacity"], view.edges[rack, node]["free"]) == (4000.0, 1000)
    assert view.pred[node][rack]["free"] == 1000


def test_edges_are_allocated_and_freed_by_name(demo: ResourceGraph) -> None:
    demo.allocate([(EDGE, 3500)], job="j1", duration_s=10)
    with pytest.raises(InsufficientResources, match="held by j1") as refused:
        demo.allocate({EDGE: 501}, job="j2", duration_s=5)
    assert refused.value.where == EDGE
    assert refused.value.earliest == 10.0
    demo.shrink("j1", [(EDGE, 500)])
    demo.allocate({EDGE: 1000}, job="j2", duration_s=5)
    assert through(demo, "j1") == {EDGE: 3000}
    demo.free("j2", EDGE)
    with pytest.raises(NotHeld) as not_held:
        demo.free("j1", FEED)
    assert not_held.value.where == FEED
    with pytest.raises(UnknownPool, match="no edge with a capacity"):
        demo.allocate("power: a -> b", job="j3")
    with pytest.raises(UsageError, match="must be at least 1"):
        demo.allocate({EDGE: 0}, job="j3")
    with pytest.raises(UnknownPool):
        demo.pool(EDGE)


def test_freeing_pools_frees_their_edge_draws(demo: ResourceGraph) -> None:
    demo.allocate("slot=3/[node;power=1000]", job="j1")
    demo.grow("j1", "slot=1/[node;power=4000]")
    assert through(demo, "j1")[FEED] == 7000
    demo.shrink("j1", "slot=1/[node;power=4000]")
    assert through(demo, "j1")[FEED] == 3000
    demo.free("j1")
    assert demo.planner.moments(0, 10**18) == []


def test_stages_and_co_allocation_draw_through_edges(demo: ResourceGraph) -> None:
    with demo.stage("slot=1/[node;power=3000]", job="j1") as stage:
        assert demo.why_not("node=8{x}/power=2000") is not None
        stage.commit()
    assert through(demo, "j1") == {EDGE: 3000, FEED: 3000}
    demo.allocate_all([("slot=1/[node;power=2000]", "j2"), ("slot=1/[node;power=2000]", "j3")])
    assert len(through(demo, "j2").keys() & through(demo, "j3").keys()) == 1
    assert demo.check() == []


def test_events_name_edges_and_replay_them(demo: ResourceGraph) -> None:
    told: list[Event] = []
    again = demo.duplicate()
    demo.sink = told.append
    demo.allocate("slot=2/[node;power=1000]", job="j1", duration_s=100)
    demo.allocate_all([({EDGE: 10}, "j2"), ("slot=1/[node;network=5]", "j3")])
    demo.stage({FEED: 7}, job="j4").commit()
    demo.shrink("j1", [(EDGE, 400)])
    demo.free("j2")
    for event in told:
        again.apply(event)
    assert [again.allocation(job).spans for job in again.jobs()] == [demo.allocation(job).spans for job in demo.jobs()]
    assert through(again, "j1") == through(demo, "j1")
    assert again.check() == []


def test_snapshots_and_cluster_files_keep_edge_draws(demo: ResourceGraph) -> None:
    demo.allocate("slot=2/[node;power=1000;network=7]", job="j1", duration_s=100)
    before = through(demo, "j1")
    shape = encoding.encode_shape(demo.structure)
    structure, records = encoding.decode(shape, encoding.encode_marks(demo.structure, capture(demo.records), shape))
    assert through(restore(structure, records, name="demo", clock=None), "j1") == before
    written = registry.write(demo.structure, registry.holds(demo), name="demo", format="cluster")
    assert written.left_out == []
    loaded = cluster.read(Source(written.data, "demo.yaml"))
    (hold,) = loaded.allocations
    accounts = loaded.structure.accounts
    assert {accounts.where(v): amount for v, amount in hold.pools.items() if accounts.is_edge(v)} == before


def test_copied_edge_has_the_free_capacity(demo: ResourceGraph) -> None:
    demo.allocate({EDGE: 1500, FEED: 23000}, job="j1")
    copied = demo.copy("/")
    assert copied.why_not("slot=1/[node{id:'0'};power=1001]") is not None
    assert copied.why_not("slot=1/[node{id:'0'};power=1000]") is None
    assert demo.duplicate().check() == []
    assert through(demo.duplicate(), "j1") == {EDGE: 1500, FEED: 23000}


def test_copied_edge_keeps_its_fractional_capacity_if_unused(demo: ResourceGraph) -> None:
    graph = demo.structure.subsystems["power"]
    graph.attributes["capacity"] = graph.attributes["capacity"] + 0.5
    fresh = ResourceGraph(demo.structure)
    fresh.allocate({EDGE: 1500}, job="j1")
    found = {data["capacity"] for _, _, data in fresh.copy("/").structure.subsystems["power"].rows()}
    assert found == {2500.0, 4000.5, 24000.5}


def test_children_have_only_their_jobs_units_of_an_edge(demo: ResourceGraph) -> None:
    demo.allocate("slot=2/[node;power=1000]", job="j1")
    part = demo.copy(job="j1")
    assert part.satisfiable("slot=2/[node;power=1000]")
    assert not part.satisfiable("slot=1/[node;power=1001]")
    # Grown by another node, it has what is drawn through the same feed for both.
    demo.allocate("slot=1/[node;power=500]", job="j1+")
    part.merge(demo.copy(job="j1+"))
    feed = part.structure.accounts.number(FEED)
    assert part.structure.accounts.size[feed] == 2500
    assert part.check() == []


def test_edge_records_survive_changes_of_the_shape(demo: ResourceGraph) -> None:
    demo.allocate("slot=5/[node;power=1000]", job="j1", duration_s=100)
    held = through(demo, "j1")
    demo.unlink("/demo/rack1/node7")
    assert through(demo, "j1") == held
    with pytest.raises(StillHeld, match="j1 draws 1000 units through it"):
        demo.unlink("power:/pdu1/rack1/node4")
    demo.unlink("power:/pdu1/rack1/node5")
    assert through(demo, "j1") == held
    assert demo.check() == []


def test_pool_operations_are_refused_for_edges() -> None:
    graph = fluxres.load(DEMO)
    edge = EDGE
    graph.allocate("slot=1/[node{x};power=100]", job="a", duration_s=10)
    top = fluxres.Instance(graph.duplicate(), clock=lambda: 0.0)
    for refused in (lambda: graph.set_state(edge, "down"), lambda: graph.tag(edge, "k"), lambda: top.set_state(edge, "down")):
        with pytest.raises(UsageError, match="an edge has no state and no tags"):
            refused()
    child = top.spawn(top.submit("slot=1/[node{x};power=100]", duration_s=5))
    with pytest.raises(UsageError, match="an edge is returned with the pools that draw through it"):
        child.shrink(EDGE.replace("node0", "node1"))


def laden(*capacities: float) -> dict[str, Any]:
    """A PDU and a node, with edges of these capacities between them."""
    edges = [{"from": "power:/pdu0", "to": "/m/node", "relation": f"r{i}", "capacity": c} for i, c in enumerate(capacities)]
    pdu = {"type": "pdu", "id": [0], "size": 2**60, "unit": "W"}
    return {"fluxres": 1, "name": "m", "resources": [{"type": "node"}], "graphs": {"power": {"pools": [pdu], "edges": edges}}}


def test_rule_f1_uncountable_capacity_is_refused() -> None:
    assert float(limits.CAPACITY_MAX + 1) == limits.CAPACITY_MAX
    for units in (limits.CAPACITY_MAX + 3, float(limits.CAPACITY_MAX + 2)):
        with pytest.raises(InputError, match=r"edges\[0\].capacity: expected at most 9007199254740992, got 900719925474099\d"):
            fluxres.load(laden(units))


@pytest.mark.parametrize("format", ["cluster", "jgf", "node-link", "graphml"])
def test_rule_f1_no_format_reads_an_uncountable_capacity(format: str) -> None:
    text = fluxres.dumps(fluxres.load(laden(limits.CAPACITY_MAX)), format=format, strict=False)
    assert fluxres.loads(text).structure.accounts.size[-1] == limits.CAPACITY_MAX
    with pytest.raises(InputError, match="expected at most 9007199254740992, got"):
        fluxres.loads(text.replace(b"9007199254740992", b"9007199254740994"))


def test_rule_f1_parallel_edges_carry_the_sum_of_their_capacities() -> None:
    g = fluxres.load(laden(limits.CAPACITY_MAX, 3))
    with pytest.raises(InfeasibleRequest, match="carries 9007199254740995 W"):
        g.allocate([("power: power:/pdu0 -> /m/node", limits.CAPACITY_MAX + 4)], job="a")
    g.allocate([("power: power:/pdu0 -> /m/node", limits.CAPACITY_MAX + 3)], job="a")
