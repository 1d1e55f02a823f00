"""Copies, merges and unlinks with jobs on the machine: nothing is lost, nothing invented, a refusal changes nothing."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import clock
from fluxres.errors import (
    InfeasibleRequest,
    InsufficientResources,
    MergeConflict,
    StaleHandle,
    StillHeld,
    UnknownJob,
    UnknownPool,
    UsageError,
)
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph
from tests import sites
from tests.allocation.test_records import BUNDLE, CORE, LICENSE, MEMORY, NODE, machine, trace

POWERED: dict[str, Any] = {
    "fluxres": 1,
    "name": "demo",
    "resources": [{"type": "rack", "with": [{"type": "node", "count": 2, "with": [{"type": "core", "count": 2}]}]}],
    "graphs": {
        "power": {
            "hierarchy": True,
            "pools": [{"type": "pdu", "id": 0, "size": 1, "with": [{"type": "outlet", "id": 0}]}],
            "edges": [{"from": "power:/pdu0", "to": "/demo/rack/node*", "relation": "supplies", "capacity": 500}],
        }
    },
}


def powered() -> ResourceGraph:
    import orjson

    from tests.formats.structures import read_cluster

    read: Any = read_cluster(orjson.dumps(POWERED), file="powered.json")
    return ResourceGraph(read[0] if isinstance(read, tuple) else read.structure)


def test_copy_has_available_pools_and_no_allocations() -> None:
    g = machine()
    g.allocate([(MEMORY, 3), "/demo/rack/node1/core0"], job="a")
    g.pool("/demo/rack/node1/core1").state = "drain"
    child = g.copy("/demo/rack")
    assert [p.path for p in child.walk()] == [
        "/demo",
        "/demo/rack",
        "/demo/rack/node0",
        "/demo/rack/node0/core0",
        "/demo/rack/node0/core1",
        "/demo/rack/node0/memory",
        "/demo/rack/node1",
        "/demo/rack/node1/memory",
    ]
    assert child.pool(MEMORY).size == 5
    assert child.jobs() == []
    assert child.pool(CORE).uuid == g.pool(CORE).uuid
    child.allocate(NODE, job="inner")
    assert g.pool(NODE).available() == 1
    assert g.check() == child.check() == []


def test_rule_c1_pass_through_pool_shows_the_units_that_were_free() -> None:
    g = sites.graph("""
fluxres: 1
name: site
resources:
  - {type: rack, size: 4, with: [{type: node}]}
  - {type: pdu, size: 5}
graphs:
  power: {edges: [{from: /site/pdu, to: /site/rack/node}]}
""")
    g.allocate({"/site/pdu": 2, "/site/rack": 1}, job="a")
    child = g.copy("/site/rack/node")
    assert {pool.path: pool.size for pool in child.walk()} == {"/site": 1, "/site/rack": 3, "/site/rack/node": 1, "/site/pdu": 3}
    assert child.pool("/site/pdu").available() == 0


def test_copy_of_a_jobs_pools() -> None:
    g = machine()
    g.allocate([(MEMORY, 3), "/demo/rack/node1"], job="a", start=0, end=10)
    child = g.copy(job="a")
    assert [(p.path, p.size) for p in child.walk()] == [
        ("/demo", 1),
        ("/demo/rack", 1),
        ("/demo/rack/node0", 1),
        (MEMORY, 3),
        ("/demo/rack/node1", 1),
        ("/demo/rack/node1/core0", 1),
        ("/demo/rack/node1/core1", 1),
        ("/demo/rack/node1/memory", 8),
    ]
    assert child.check() == []
    with pytest.raises(InsufficientResources, match="nothing at this moment"):
        g.copy(job="a", at=10)
    with pytest.raises(UnknownJob):
        g.copy(job="b")


@pytest.mark.parametrize("how", ["copy", "duplicate"])
def test_copy_starts_in_the_containment_tree(how: str) -> None:
    pdu = fluxres.AuxiliaryGraph(pools=[fluxres.Resource("pdu", 1)], edges=[fluxres.Edge("power:/pdu0", "/lab/node0")])
    g = fluxres.build(fluxres.Resource("node", 1), name="lab", graphs={"power": pdu})
    with pytest.raises(UnknownPool, match=r"^power:pdu0: is not in the containment tree \(name a pool"):
        getattr(g, how)("power:/pdu0")


@pytest.mark.parametrize("where", [NODE, CORE])
def test_copy_of_unavailable_pools_is_refused(where: str) -> None:
    g = machine()
    g.allocate(NODE, job="a")
    with pytest.raises(InsufficientResources, match="nothing to copy"):
        g.copy(where)


def test_totals_of_a_copy_that_lacks_a_type() -> None:
    g = machine()
    child = g.copy("/demo/rack")
    assert child.aggregate() == {"rack": 1, "node": 2, "core": 4, "memory": 16}
    assert "license" not in child.aggregate(all=True)


def test_duplicated_pool_has_its_subtree_and_records() -> None:
    g = machine()
    g.allocate("slot=2/core", job="a", end=10)
    g.allocate([(MEMORY, 3), (LICENSE, 1)], job="b", start=5, end=20)
    stage = g.stage("/demo/rack/node1/core0", job="c")
    g.tag(CORE, "k", "v")
    g.pool("/demo/rack").state = "drain"
    part = g.duplicate("/demo/rack")
    assert (part.name, part.root.path, part.root.state, part.check()) == ("rack", "/rack", "drain", [])
    for pool in part.walk():
        same = g.pool(pool.uuid)
        assert (pool.name, pool.size, pool.state, pool.tags, pool.properties, pool.rank) == (
            same.name,
            same.size,
            same.state,
            same.tags,
            same.properties,
            same.rank,
        )
        spans = [(span.job, span.amount, span.start, span.end) for span in pool.allocations() + pool.reservations()]
        assert spans == [(s.job, s.amount, s.start, s.end) for s in same.allocations() + same.reservations()]
    assert (part.jobs(), part.pool("/rack/node1/core0").staged) == (["a", "b"], True)
    assert [part.allocation(job).R()["execution"].get("nslots") for job in ("a", "b")] == [2, None]
    part.commit(stage.stage)
    assert (part.jobs(), g.jobs()) == (["a", "b", "c"], ["a", "b"])


def test_implied_pool_is_held_in_its_duplicate() -> None:
    g = machine()
    g.allocate(CORE, job="a", end=20)
    g.allocate("/demo/rack", job="a", start=5, end=10)
    g.stage("/demo", job="b", start=30, end=40)
    g.clock = clock.fixed(1.0)
    g.set_state("/demo", "drain")
    part = g.duplicate(NODE)
    assert [(span.pool, span.start, span.end) for span in part.allocation("a").spans] == [
        ("/node0", 5, 10),
        ("/node0/core0", 0, 5),
        ("/node0/core0", 10, 20),
    ]
    assert [part.root.available(at=t) for t in (0, 7, 25, 35)] == [1, 0, 1, 0]
    assert part.check() == []
    part.free("a", "/node0")
    assert part.pool("/node0/core0").allocated(at=7) == 1


def test_duplicated_pool_has_pass_through_suppliers() -> None:
    g = powered()
    g.allocate({"/demo/rack/node0/core0": 1, "power:/pdu0": 1}, job="a")
    part = g.duplicate("/demo/rack/node0")
    assert part.root.uris == ["node0:/", "power:/pdu0/node0"]
    assert part.pool("power:/pdu0").available() == 0
    assert (part.allocated("a").paths(), part.check()) == (["/node0/core0"], [])
    with pytest.raises(UnknownPool, match=r"power:/pdu0: is not in the containment tree \(name a pool"):
        g.duplicate("power:/pdu0")


def test_duplicate_is_equal_and_independent() -> None:
    g = machine()
    g.allocate(NODE, job="a", start=0, end=10)
    g.stage("/demo/rack/node1", job="b")
    g.tag(CORE, "k", "v")
    twin = g.duplicate()
    assert trace(twin) == trace(g)
    twin.free("a")
    twin.tag(CORE, "k", "other")
    twin.set_state(NODE, "down")
    assert g.pool(CORE).tags == {"k": "v"}
    assert g.pool(NODE).state == "up"
    assert g.jobs() == ["a"]


def test_copy_grows_by_free_pools_of_the_parent() -> None:
    g = machine()
    g.allocate([(MEMORY, 3)], job="a")
    child = g.copy(job="a")
    g.allocate([(MEMORY, 4), "/demo/rack/node1"], job="more")
    child.merge(g.copy(job="more"))
    assert child.pool(MEMORY).size == 7
    assert child.pool("/demo/rack/node1/core0").available() == 1
    with pytest.raises(MergeConflict):
        child.merge(g.copy(job="more"))
    assert child.pool(MEMORY).size == 7
    child.unlink("/demo/rack/node1")
    assert [p.path for p in child.walk()] == ["/demo", "/demo/rack", NODE, MEMORY]
    assert child.check() == []


def test_merge_adds_records_and_makes_old_handles_stale() -> None:
    g = machine()
    g.allocate(NODE, job="a")
    rack = ResourceGraph(expand(Recipe("rack", children=(Recipe("node", count=2),)), origin=uuids.new_origin()))
    rack.allocate("/rack/node1", job="b")
    node = g.pool(NODE)
    g.merge(rack, at="/demo/rack9")
    with pytest.raises(StaleHandle):
        _ = node.type
    assert g.pool("/demo/rack9/node1").holder == "b"
    assert g.pool(NODE).holder == "a"
    assert g.check() == []


def test_merge_with_conflicting_records_is_refused() -> None:
    def two(size: int, job: str) -> ResourceGraph:
        node = Recipe("node", ids=0, size=size, children=(Recipe("core", count=2, ids=10 * size),))
        made = ResourceGraph(expand(Recipe("cluster", ids=None, children=(node,)), origin=uuids.new_origin()))
        made.allocate([("/cluster/node0", size)], job=job)
        return made

    a, b = two(2, "j0"), two(3, "j1")
    a.free("j0")
    before = trace(a)
    with pytest.raises(MergeConflict, match="3 units of it together"):
        a.merge(b)
    assert trace(a) == before


def test_a_pool_held_exclusively_over_another_one_of_the_job_cannot_grow() -> None:
    """As many units of its parts as it has itself do not make it a supplier that draws from them."""

    def two(size: int, *cores: int) -> ResourceGraph:
        nodes = tuple(Recipe("node", ids=number, children=(Recipe("core"),)) for number in cores)
        rack = Recipe("rack", ids=0, size=size, children=nodes)
        return ResourceGraph(expand(Recipe("cluster", ids=None, children=(rack,)), origin=uuids.new_origin()))

    a, b = two(4, 0), two(1, 1, 2)
    b.allocate("/cluster/rack0/node1", job="j", start=3, end=9)
    b.allocate("/cluster/rack0", job="j", start=5, end=9)
    before = trace(a)
    with pytest.raises(MergeConflict, match=r"held exclusively by j, and would grow from 1 to 4 units"):
        a.merge(b)
    assert trace(a) == before


def test_merge_never_leaves_a_part_of_an_exclusive_pool() -> None:
    origin = uuids.new_origin()

    def license_server(size: int) -> ResourceGraph:
        pool = Recipe("license", ids=None, size=size, capacity=4, exclusive=True)
        return ResourceGraph(expand(Recipe("cluster", ids=None, children=(pool,)), origin=origin))

    g = license_server(1)
    g.allocate("/cluster/license", job="a")
    with pytest.raises(MergeConflict, match="only allocated exclusively"):
        g.merge(license_server(3))
    g.free("a")
    g.merge(license_server(3))
    assert g.pool("/cluster/license").size == 4


def test_two_loads_of_one_description_conflict() -> None:
    a, b = fluxres.load(POWERED), fluxres.load(POWERED)
    before = trace(a)
    core, other = a.pool("/demo/rack/node0/core0").uuid, b.pool("/demo/rack/node0/core0").uuid
    for part in (b, b.copy("/demo/rack/node0")):
        with pytest.raises(MergeConflict, match=rf"^/demo/rack/node0/core0: uuid: {core} here and {other} in the other graph"):
            a.merge(part)
    assert trace(a) == before
    saved = fluxres.dumps(a)
    part = fluxres.loads(saved).copy("/demo/rack/node1")
    a.unlink("/demo/rack/node1")
    a.merge(part)  # a save has the uuids
    assert a.check() == []


@pytest.mark.parametrize("held", ["/demo/rack", NODE, CORE])
def test_held_pools_are_not_unlinked(held: str) -> None:
    g = machine()
    g.allocate(held, job="a", start=50, end=60)
    before = trace(g)
    for where in (NODE, CORE):
        if where == CORE or held != CORE:
            with pytest.raises(StillHeld):
                g.unlink(where)
    assert trace(g) == before
    g.free("a")
    g.unlink(NODE)
    assert g.check() == []


def test_ended_records_do_not_prevent_unlink() -> None:
    g = machine()
    g.allocate(CORE, job="a", start=0, end=5)
    stage = g.stage("/demo/rack/node0/core1", job="b", start=0, end=1, ttl_s=60)
    g.clock = lambda: 6.0
    g.unlink(NODE)
    assert g.jobs() == []
    with pytest.raises(StaleHandle):
        stage.release()
    assert g.check() == []


def test_ended_records_do_not_prevent_unlink_to_pass_through() -> None:
    g = powered()
    edge = "power: power:/pdu0 -> /demo/rack/node0"
    g.allocate({"/demo/rack/node0": 1, edge: 100}, job="a", start=0, end=5)
    g.allocate({edge: 50}, job="b")
    g.clock = lambda: 6.0
    events: list[dict[str, Any]] = []
    g.sink = events.append
    g.unlink("/demo/rack/node0")
    assert g.structure.is_way(g.vertex("power:/pdu0/node0"))
    assert [(span.pool, span.amount) for span in g.allocation("b").spans] == [("power: power:/pdu0 -> power:/pdu0/node0", 50)]
    assert [event["event"] for event in events] == ["expire", "unlink"]
    with pytest.raises(UnknownJob):
        g.allocation("a")
    assert g.check() == []


def test_implied_pool_is_not_unlinked_from_its_hierarchy() -> None:
    g = powered()
    g.allocate("power:/pdu0", job="a")
    with pytest.raises(StillHeld):
        g.unlink("power:/pdu0/outlet0")
    g.free("a")
    g.allocate("/demo/rack/node0", job="a")
    with pytest.raises(StillHeld):
        g.unlink("/demo/rack")
    g.free("a")
    g.unlink("/demo/rack")
    assert g.pool("power:/pdu0/node0").uris == ["power:/pdu0/node0"]
    assert g.check() == []


def test_pool_with_an_ambiguous_uri_is_named_by_graph_and_number() -> None:
    racks = Recipe("rack", count=2, children=(Recipe("node"),))
    s = expand(Recipe("cluster", name="demo", children=(racks,)), more=[Recipe("pdu")], origin=uuids.new_origin())
    nodes = s.of_type("node")
    s.subsystems["power"] = Subsystem("power", True, np.full(2, s.tree_end, np.int32), nodes)
    g = ResourceGraph(s)
    uuid = g.pool("/demo/rack1/node0").uuid
    g.unlink("/demo/rack1/node0")
    with pytest.raises(fluxres.UnknownPool, match="2 pools are named 'node0' there"):
        g.pool("power:/pdu0/node0")
    name = g.pool(uuid).where
    assert (name, g.pool(name).uuid) == ("power:node0#4", uuid)
    told: list[Any] = []
    g.sink = told.append
    g.tag(uuid, "a")
    assert told[0]["pools"] == [name]
    with pytest.raises(fluxres.InfeasibleRequest, match=name):
        g.allocate(uuid, job="a")
    assert g.pool("/demo/rack0/node0").available() == 1


def test_auxiliary_edge_survives_if_both_ends_do() -> None:
    g = powered()
    child = g.copy("/demo/rack/node0")
    assert [p.name for p in child.find("subsystem=power")] == ["node0"]
    assert child.subsystem("power").number_of_edges() == 2  # and what hangs on the PDU
    assert child.pool("/demo/rack/node0").uris == ["demo:/rack/node0", "power:/pdu0/node0"]
    g.unlink("power:/pdu0/node1")
    assert g.pool("/demo/rack/node1").uris == ["demo:/rack/node1"]


def _lab() -> ResourceGraph:
    nodes = fluxres.Resource("node", 2, children=[fluxres.Resource("core", 2)])
    return fluxres.build(fluxres.Resource("rack", 1, children=[nodes]), name="lab")


@pytest.mark.parametrize("place", ["/lab/rack0/node1", "/lab/rack0/node0/core2"])
def test_pools_merged_into_a_node_get_its_rank(place: str) -> None:
    lab = _lab()
    part = lab.duplicate("/lab/rack0/node1/core0")
    lab.unlink("/lab/rack0/node1/core0")
    lab.merge(part, at=place)
    node = place[:16]
    assert {pool.rank for pool in lab.find("type=core") if pool.path.startswith(node)} == {lab.pool(node).rank}
    lab.allocate(node, job="j")
    written = lab.allocation("j").R(scheduling=True)
    assert [entry["rank"] for entry in written["execution"]["R_lite"]] == [str(lab.pool(node).rank)]
    assert fluxres.load(written).aggregate()["core"] == sum(pool.path.startswith(node) for pool in lab.find("type=core"))


def test_pool_merged_back_from_an_auxiliary_hierarchy_gets_the_nodes_rank() -> None:
    nodes = fluxres.Resource("node", 2, children=[fluxres.Resource("core", 2)])
    power = fluxres.AuxiliaryGraph(
        hierarchy=True, pools=[fluxres.Resource("pdu", id=[0])], edges=[fluxres.Edge("power:/pdu0", "/lab/node1/core0")]
    )
    lab = fluxres.build(nodes, name="lab", graphs={"power": power})
    part = lab.duplicate("/lab/node1/core0")
    lab.unlink("/lab/node1/core0")
    lab.merge(part, at="/lab/node0/core7")
    assert lab.pool("/lab/node0/core7").rank == 0
    assert lab.check() == []


def test_invalid_merges_and_unlinks_are_explained() -> None:
    g = machine()
    for change, error in (
        (lambda: g.merge(g), UsageError),
        (lambda: g.merge("demo"), UsageError),
        (lambda: g.merge(ResourceGraph(expand(Recipe("cluster", name="other"), origin=uuids.new_origin()))), MergeConflict),
        (lambda: g.unlink("/demo"), UsageError),
        (lambda: g.unlink(NODE, hierarchy="power"), fluxres.UnknownGraph),
    ):
        with pytest.raises(error):
            change()
    other = machine()
    other.stage(NODE, job="a")
    with pytest.raises(MergeConflict, match="staged"):
        g.merge(other)


def test_destroyed_graph_raises_stale_handle() -> None:
    g = machine()
    pool, found = g.pool(LICENSE), g.find("type=core")
    text = repr(found)
    g.destroy()
    for use in (
        lambda: len(found),
        lambda: bool(found),
        lambda: found.vertices,
        lambda: list(found),
        lambda: found & found,
        lambda: pool.size,
        lambda: g.pool(BUNDLE),
        lambda: g.find("all"),
        lambda: g.allocate(CORE, job="a"),
        lambda: g.match("slot=1/core"),
        lambda: g.why_not("slot=1/core"),
        g.copy,
        g.jobs,
        lambda: len(g),
    ):
        with pytest.raises(StaleHandle, match="was destroyed"):
            use()
    number = len(machine().find("type=core"))
    assert text.startswith(f"<Selection of {number} pools: ")
    assert repr(found) == f"<Selection of {number} pools of an earlier generation>"
    assert repr(g) == "<ResourceGraph demo: destroyed>"
    g.destroy()


def test_destroyed_graph_frees_derived_data() -> None:
    def used() -> ResourceGraph:
        node = Recipe("node", 5000, children=(Recipe("core", 8),))
        g = ResourceGraph(expand(Recipe("cluster", children=(node,)), origin=origin))
        for policy in ("low", "high", "locality"):
            g.allocate("slot=9/[core=4]", job=policy, policy=policy).R(scheduling=True)
        assert g.why_not("slot=5001/node") is not None
        assert len(g.find("type=core and available>=1 and job~l*")) == 0
        g.shrink("low", "slot=1/core")
        return g

    origin = uuids.new_origin()
    used().destroy()  # warms up imports and caches shared by all graphs
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        g = used()
        assert tracemalloc.get_traced_memory()[0] - before > 2_000_000
        g.destroy()
        assert tracemalloc.get_traced_memory()[0] - before < 200_000
    finally:
        tracemalloc.stop()


def powered_site() -> ResourceGraph:
    outlets = {"type": "pdu", "name": "pdu0", "size": 100, "unit": "W", "with": [{"type": "outlet", "count": 2}]}
    power = {"hierarchy": True, "pools": [outlets], "edges": [{"from": "power:/pdu0", "to": "/c/node*"}]}
    nodes = {"type": "node", "count": 2, "with": [{"type": "core"}]}
    return fluxres.load({"fluxres": 1, "name": "c", "resources": [nodes], "graphs": {"power": power}})


def test_graph_is_merged_below_a_pool_of_an_auxiliary_hierarchy() -> None:
    g = powered_site()
    g.allocate("slot=1/[node;pdu=30]", job="j", start=0, end=9)
    before = g.allocation("j").spans
    strip = fluxres.build(root=fluxres.Resource("strip", id=[7], children=[fluxres.Resource("outlet", 3)]))
    strip.allocate("/strip7/outlet1", job="k", start=0, end=5)
    g.merge(strip, at="power:/pdu0")
    g.merge(fluxres.build(root=fluxres.Resource("strip", id=[7])), at="power:/pdu0/strip9")
    found = [pool.where for pool in g.walk("power:/pdu0") if pool.type == "strip" or pool.type == "outlet"]
    below = [f"power:/pdu0/strip7/outlet{i}" for i in range(3)]
    assert found == ["power:/pdu0/outlet0", "power:/pdu0/outlet1", "power:/pdu0/strip7", *below, "power:/pdu0/strip9"]
    assert g.check() == []
    assert g.allocation("j").spans == before
    assert [span.pool for span in g.allocation("k").spans] == [below[1]]
    assert g.find("under=power:/pdu0 and type=outlet")[2].parent_in("power").where == "power:/pdu0/strip7"
    back = fluxres.loads(fluxres.dumps(g))
    assert [pool.where for pool in back.walk("power:/pdu0")] == [pool.where for pool in g.walk("power:/pdu0")]
    g.unlink("power:/pdu0/strip9")
    assert len(g) == len(back) - 1
    assert g.check() == []


@pytest.mark.parametrize(
    ("at", "kind", "message"),
    [
        ("power:/pdu0/node0", UsageError, "merge at /c/node0, and add an edge"),
        ("power:/pdu1/x/y", UnknownPool, "no pool 'pdu1'"),
        ("power:/", UsageError, "name a pool of 'power'"),
        ("nope:/a", UsageError, "not in 'nope'"),
    ],
)
def test_merge_refuses_invalid_places_in_auxiliary_hierarchies(at: str, kind: type[Exception], message: str) -> None:
    g = powered_site()
    with pytest.raises(kind, match=message):
        g.merge(fluxres.build(root=fluxres.Resource("strip", id=[7])), at=at)
    assert len(g) == len(powered_site())


def test_pass_through_pool_left_by_unlink_is_not_called_a_copy() -> None:
    power = {"hierarchy": True, "pools": [{"type": "pdu"}], "edges": [{"from": "power:/pdu", "to": "/m/rack"}]}
    power["edges"] += [{"from": "/m/rack", "to": "/m/desk"}]  # type: ignore[operator]  # a list of them
    machine = {"fluxres": 1, "name": "m", "resources": [{"type": "rack"}, {"type": "desk"}], "graphs": {"power": power}}
    graph = fluxres.load(machine)
    graph.unlink("/m/rack")
    with pytest.raises(InfeasibleRequest) as refused:
        graph.allocate("power:/pdu/rack", job="j")
    assert "left this one with unlink" in refused.value.hint


def spans(graph: ResourceGraph, job: str) -> list[tuple[str, float, float]]:
    return [(span.pool, span.start, span.end) for span in graph.allocation(job).spans]


def test_duplicate_of_a_pool_held_before_its_parent_holds_it_once() -> None:
    rack = fluxres.Resource("rack", 2, children=[fluxres.Resource("node", 2, children=[fluxres.Resource("core", 2)])])
    g = fluxres.build(rack, name="lab")
    g.allocate("/lab/rack0/node0/core1", job="c", start=0, end=3)
    g.allocate("/lab/rack0/node0", job="c", start=2, end=5)
    g.allocate("/lab/rack0", job="c", start=3, end=8)
    part = g.duplicate("/lab/rack0/node0")
    assert spans(part, "c") == [
        ("/node0", 2, 8),
        ("/node0/core1", 0, 2),
    ]
    assert part.check() == []
    part.shrink("c", "/node0", start=2, end=4)
    assert spans(part, "c") == [
        ("/node0", 4, 8),
        ("/node0/core1", 0, 3),
    ]
    assert part.check() == []
