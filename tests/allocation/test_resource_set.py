"""R version 1 (RFC 20): ranks, logical ids, hosts, properties, times and slots of an allocation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres.documents import yaml_document
from fluxres.errors import UsageError
from fluxres.fluxion import jgf
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph
from fluxres.store import encoding, records
from fluxres.syntax import hostlist, idset
from tests.choices import integers


def machine() -> ResourceGraph:
    """Two racks of three nodes with two sockets of two cores and a gpu; names and properties of nodes differ."""
    socket = Recipe("socket", count=2, children=(Recipe("core", count=2), Recipe("gpu"), Recipe("memory", size=8)))
    node = Recipe("node", count=3, ids=np.arange(6), name="n${id:03}", properties={"ssd": None, "class": 7}, children=(socket,))
    root = Recipe("cluster", children=(Recipe("rack", count=2, children=(node,)), Recipe("license", size=4, ids=None)))
    return ResourceGraph(expand(root, origin=uuids.new_origin()))


def execution(r: dict[str, Any]) -> dict[str, Any]:
    assert (set(r), r["version"]) == ({"version", "execution"}, 1)
    found: dict[str, Any] = r["execution"]
    return found


def test_complete_nodes_share_an_entry() -> None:
    r = execution(machine().allocate("slot=4/node", job="a", at=10, duration_s=60).R())
    assert r == {
        "R_lite": [{"rank": "0-3", "children": {"core": "0-3", "gpu": "0-1"}}],
        "nodelist": ["n[000-003]"],
        "properties": {"class=7": "0-3", "ssd": "0-3"},
        "starttime": 10.0,
        "expiration": 70.0,
        "nslots": 4,
    }


def test_parts_of_nodes_have_logical_ids_whatever_levels_are_between() -> None:
    g = machine()
    g.allocate("slot=3/core", job="a")
    second = execution(g.allocate("slot=2/[core;gpu]", job="b").R())
    assert second["R_lite"] == [
        {"rank": "0", "children": {"core": "3", "gpu": "0"}},
        {"rank": "1", "children": {"core": "0", "gpu": "0"}},
    ] or second["R_lite"] == [{"rank": "1", "children": {"core": "0-1", "gpu": "0-1"}}]
    assert second["expiration"] == 0.0
    named = execution(g.allocate("/cluster/rack1/n005/socket1", job="c").R())
    assert named["R_lite"] == [{"rank": "5", "children": {"core": "2-3", "gpu": "1"}}]
    assert named["nslots"] == 1, "each target is a slot where a request had none"


def test_pools_on_no_target_are_not_in_r() -> None:
    g = machine()
    r = execution(g.allocate([("/cluster/license", 2)], job="a").R())
    assert (r["R_lite"], r["nodelist"]) == ([], [])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_r_names_exactly_the_cores_and_gpus_that_are_held(data: st.DataObject) -> None:
    g = machine()
    for _ in range(data.draw(integers(1, 6))):
        pool = g.pool(data.draw(integers(1, len(g) - 1)))
        if pool.available() == pool.size and not pool.shared:
            g.allocate(pool, job="a")
    if "a" not in g.jobs():
        return
    r = execution(g.allocation("a").R())
    said = {
        (rank, child, number)
        for entry in r["R_lite"]
        for rank in idset.parse(entry["rank"])
        for child, numbers in entry["children"].items()
        for number in idset.parse(numbers)
    }
    nodes = list(g.find("type=node"))
    held = {
        (node.rank, child, number)
        for node in nodes
        for child in ("core", "gpu")
        for number, pool in enumerate(p for p in g.walk(node) if p.type == child)
        if pool.holder == "a"
    }
    assert said == held
    ranks = sorted({rank for rank, _, _ in said} | {p.rank for p in g.allocation("a") if p.rank is not None})
    assert [name for text in r["nodelist"] for name in hostlist.parse(text)] == [nodes[rank].name for rank in ranks]


def test_graph_is_included_on_request() -> None:
    g = machine()
    a = g.allocate("slot=1/node", job="a", duration_s=60)
    assert "scheduling" not in a.R()
    whole, short = a.R(scheduling=True), a.R(scheduling="jgf_shorthand")
    assert whole["execution"] == short["execution"] == a.R()["execution"]
    assert (whole["scheduling"]["writer"], short["scheduling"]["writer"]) == ("fluxion:jgf", "fluxion:jgf_shorthand")
    paths = [n["metadata"]["paths"]["containment"] for n in whole["scheduling"]["graph"]["nodes"]]
    node = g.pool("/cluster/rack0/n000")
    assert paths == ["/cluster", "/cluster/rack0", *(pool.path for pool in g.walk(node))]
    assert len(short["scheduling"]["graph"]["nodes"]) == 3
    with pytest.raises(UsageError, match="jgf, jgf_shorthand"):
        a.R(scheduling="xml")


def test_graph_of_a_job_that_grew_has_its_maximum() -> None:
    g = machine()
    memory = "/cluster/rack0/n000/socket0/memory0"
    g.allocate([(memory, 2)], job="a", start=0, end=100)
    g.grow("a", [(memory, 3)], start=50)
    nodes = g.allocation("a").R(scheduling=True)["scheduling"]["graph"]["nodes"]
    assert nodes[-1]["metadata"]["size"] == 5


@pytest.mark.parametrize("form", ["jgf", "jgf_shorthand"])
def test_nested_scheduler_can_read_the_graph(form: str) -> None:
    g = machine()
    r = g.allocate("slot=2/[core=2;memory=4]", job="a").R(scheduling=form)
    read = jgf.read(yaml_document.load(json.dumps(r).encode()))
    assert {node.paths["containment"] for node in read.nodes} == {
        n["metadata"]["paths"]["containment"] for n in r["scheduling"]["graph"]["nodes"]
    }
    assert len(read.edges) == len(read.nodes) - 1


def test_properties_hidden_from_jobs_are_left_out() -> None:
    node = Recipe("node", count=1, properties={"+batch": None, "a|b": None, "fast@gpu": None}, children=(Recipe("core"),))
    g = ResourceGraph(expand(Recipe("cluster", children=(node,)), origin=uuids.new_origin()))
    assert execution(g.allocate("slot/node", job="a").R())["properties"] == {"fast@gpu": "0"}


def test_target_without_cores_has_an_empty_core_set() -> None:
    g = machine()
    r = execution(g.allocate([("/cluster/rack0/n001/socket0/memory0", 2)], job="a").R())
    assert (r["R_lite"], r["nodelist"]) == ([{"rank": "1", "children": {"core": ""}}], ["n001"])


def slots(graph: ResourceGraph) -> dict[str, int | None]:
    return {job: execution(graph.allocation(job).R()).get("nslots") for job in graph.jobs()}


def test_slots_are_those_of_the_requests_while_known() -> None:
    g = machine()
    with g.stage("slot=3/core", job="a") as stage:
        assert execution(stage.commit().R())["nslots"] == 3
    assert execution(g.grow("a", "slot=2/gpu").R())["nslots"] == 2
    assert slots(g) == {"a": 5}
    assert execution(g.shrink("a", "slot/core").R())["nslots"] == 1
    assert slots(g) == {"a": 4}
    assert "nslots" not in execution(g.shrink("a", [("/cluster/rack0/n000/socket0/core0", 1)]).R())
    assert slots(g) == {"a": None}
    g.grow("a", "slot/core")
    assert slots(g) == {"a": None}, "nobody knows how many those are that it had before"
    g.free("a")
    g.allocate_all([("slot=2/core", "a"), ("slot=4/gpu", "b"), ("/cluster/rack1/n005", "c")])
    g.grow("b", "/cluster/rack1/n004")
    assert slots(g) == {"a": 2, "b": None, "c": None}


def test_refused_grow_leaves_the_slots_known() -> None:
    g = machine()
    g.allocate("slot=3/core", job="a")
    with pytest.raises(UsageError):
        g.grow("a", [("/cluster/rack1", 1), ("/cluster/rack1/n005", 1)])
    assert slots(g) == {"a": 3}


def test_slots_survive_journal_and_snapshot() -> None:
    g, again, seen = machine(), machine(), list[dict[str, Any]]()
    g.sink = seen.append
    g.allocate_all([("slot=2/core", "a"), ("slot=2/gpu", "b")])
    g.allocate("slot/node", job="c", start=0, end=10)
    g.commit_match(g.match("slot=3/core"), job="d")
    g.shrink("a", "slot/core")
    stage = g.stage("slot=2/core", job="e")
    for event in json.loads(json.dumps(seen)):
        again.apply(event)
    again.commit(stage.stage)
    stage.commit()
    assert slots(again) == slots(g) == {"a": 1, "b": 2, "c": 1, "d": 3, "e": 2}
    shape = encoding.encode_shape(g.structure)
    marks = encoding.encode_marks(g.structure, records.capture(g.records), shape)
    restored = records.restore(*encoding.decode(shape, marks), name="cluster", clock=None)
    assert slots(restored) == slots(g)
    restored.unlink("/cluster/rack1")
    assert slots(restored) == slots(g)


def test_r_contains_the_exclusive_pool_above_a_pool_held_earlier() -> None:
    node = fluxres.Resource("node", 2, children=[fluxres.Resource("core", 4)])
    graph = fluxres.build(fluxres.Resource("rack", 2, children=[node]), name="lab")
    graph.allocate(["/lab/rack1/node0/core1", "/lab/rack0/node1/core3"], job="j", start=0, end=5)
    graph.allocate("/lab/rack1", job="j", start=5, end=10)
    for form in (None, "jgf"):
        r = graph.allocation("j").R(form)
        assert r["execution"]["R_lite"] == [
            {"rank": "1", "children": {"core": "3"}},
            {"rank": "2-3", "children": {"core": "0-3"}},
        ]
        assert (r["execution"]["starttime"], r["execution"]["expiration"]) == (0, 10)
