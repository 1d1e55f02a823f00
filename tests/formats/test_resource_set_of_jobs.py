"""The R of a job, with its graph: read again, it equals the copy of what the job holds, and Fluxion accepts it."""

from __future__ import annotations

import json
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

import fluxres
from fluxres.errors import FluxresError, UsageError
from fluxres.formats import registry
from fluxres.formats.format import Loaded
from fluxres.graph.accounts import ARROW
from fluxres.graph.kinds import WAY, PropertyValue
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph, joining
from fluxres.syntax import hostlist, idset
from tests.choices import integers
from tests.formats.fluxion_reader import Fluxion, Refused
from tests.formats.round_trip import ORIGIN, differences, errors, facts_of
from tests.formats.structures import structures
from tests.graph.builders import machines_with_graphs
from tests.strategies import machines
from tests.traceability import ROOT

PHASES = [phase for phase in Phase if phase is not Phase.shrink]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
DEMO = ROOT / "data" / "clusters" / "demo.yaml"
HELD = {
    "nodes": ["/demo/rack0/node0", "/demo/rack0/node1"],
    "cores": "slot=3/core",
    "a rack": ["/demo/rack0"],
    "everything": ["/demo"],
    "power": [("power:/pdu0", 500), ("/demo/rack0/node0/socket0/memory", 64)],
    "only power": [("power:/pdu0", 500)],
    "of all sorts": [("/demo/rack0", 1), ("/demo/rack1/node4/socket0", 1), ("/demo/rack1/node4/socket1/core9", 1),
                     ("/demo/rack1/node5", 1), ("/demo/rack1/node6/socket1/memory", 7), ("power:/pdu1", 9)],
}  # fmt: skip


@pytest.fixture(scope="module")
def demo() -> ResourceGraph:
    return fluxres.load(DEMO)


def read(r: dict[str, Any]) -> Loaded:
    found = registry.read(json.dumps(r).encode(), file="R.json", format="R", origin=ORIGIN)
    assert errors(found.structure) == []
    for key in ("R.nslots", "R.starttime", "R.expiration"):
        found.structure.drop_tag([0], key)
    return found


def in_shorthand(s: Structure, amounts: dict[int, int]) -> set[tuple[str, str, int]]:
    """Path, type and rank of the shorthand's part of the tree: below exclusive pools only the nodes, cores and gpus."""
    ranks, tops = s.execution_targets
    top_of = dict(zip(ranks.tolist(), tops.tolist(), strict=True))
    found: set[tuple[str, str, int]] = set()
    for v in range(s.tree_end):
        above = s.ancestors(v)
        whole = [u for u in [v, *above] if amounts.get(u) == s.size[u]]
        rank, type_ = s.rank.item(v), s.kind_of(v).type
        if v and not whole and not any(v in [u, *s.ancestors(u)] for u in amounts):
            continue
        if not whole or whole[-1] == v:
            found.add((s.path(v), type_, rank))
            continue
        top = top_of.get(rank, -1)
        home = s.path(whole[-1])
        if v == top:
            found.add((f"{home}/{s.name(v)}", type_, rank))
        elif type_ in ("core", "gpu") and rank >= 0:
            number = [u for u in s.of_type(type_).tolist() if top < u < s.end[top]].index(v)
            node = f"{home}/{s.name(top)}" if whole[-1] in s.ancestors(top) else home
            found.add((f"{node}/{type_}{number}", type_, rank))
    return found


def compare(g: ResourceGraph, job: str) -> None:
    """R with the graph equals the copy, R in shorthand has the same pools, and Fluxion accepts both."""
    allocation = g.allocation(job)
    copy = g.copy(job=job, at=0).structure
    whole, short = (allocation.R(scheduling=form) for form in ("jgf", "jgf_shorthand"))
    assert differences(copy, read(whole).structure, {"properties"}) == []
    amounts = {g.structure.vertex(span.pool): span.amount for span in allocation.spans if ARROW not in span.pool}
    brief = read(short)
    s = brief.structure
    assert brief.notes == ()
    # The second of two nodes of one host is named HOST@RANK if R has no graph.
    shown = [v for v in range(s.tree_end) if v == 0 or not (s.flags[v : s.end[v]] & WAY).all()]
    found = {(s.path(v).replace(f"@{s.rank[v]}", ""), s.kind_of(v).type, s.rank.item(v)) for v in shown}
    assert found == in_shorthand(g.structure, amounts)
    for each in (whole, short):
        Fluxion.load(each["scheduling"])
    fluxion = Fluxion.load(json.loads(registry.write(g.structure, format="jgf").data))
    shown = {int(node["id"]) for node in whole["scheduling"]["graph"]["nodes"]}
    if any(v in shown and n < g.structure.size[v] for v, n in amounts.items()):  # Fluxion has no part of a pool
        with pytest.raises(Refused):
            fluxion.update(whole["scheduling"])
    else:
        taken = fluxion.update(whole["scheduling"])
        assert {v.key for v in taken} == {v.key for v in fluxion.update(short["scheduling"])}


@pytest.mark.parametrize("held", HELD)
def test_r_of_a_job_equals_the_copy_of_what_it_holds(demo: ResourceGraph, held: str) -> None:
    demo.allocate(HELD[held], job="j", start=0, end=10)
    try:
        compare(demo, "j")
    finally:
        demo.free("j")


def test_pools_below_an_exclusive_pool_may_be_shared_elsewhere(demo: ResourceGraph) -> None:
    r = demo.allocate("/demo/rack0/node0", job="j", start=0, end=10).R(scheduling=True)
    demo.free("j")
    below = ResourceGraph(read(r).structure)
    memory = "/demo/rack0/node0/socket0/memory"
    for job in ("a", "b"):
        below.allocate([(memory, 30)], job=job)
    with pytest.raises(FluxresError):
        below.allocate("/demo/rack0", job="c")  # only the way


def test_pass_through_pool_without_job_pools_is_hidden_from_fluxion(tmp_path: Path) -> None:
    machine = """
        fluxres: 1
        name: c
        resources:
          - type: node
            count: 2
            with: [{type: core, count: 2}, {type: power, size: 500, unit: W}]
        graphs:
          feeds:
            hierarchy: true
            pools: [{type: power, basename: feed, count: 1, size: 800, unit: W}]
            edges: [{from: "feeds:/feed0", to: "/c/node*/power", relation: supplies, capacity: 450}]
    """
    (tmp_path / "c.yaml").write_text(textwrap.dedent(machine))
    g = fluxres.load(tmp_path / "c.yaml")
    a = g.allocate([("/c/node0/core1", 1)], job="j", start=0, end=10)
    assert [pool.name for pool in g.copy(job="j", at=0).walk()] == ["c", "node0", "core1", "power"]
    for form in ("jgf", "jgf_shorthand"):
        r = a.R(scheduling=form)
        assert [v.name for v in Fluxion.load(r["scheduling"]).vertices.values()] == ["c", "node0", "core1", "feed0"]
        assert r["scheduling"]["graph"]["metadata"]["auxiliary"]["edges"] == [
            {"source": "1", "target": "4"},
            {"source": "9", "target": "4", "metadata": {
                "subsystem": "feeds", "relationship": "supplies", "attributes": {"capacity": 0.0, "full": 450.0}}},
        ]  # fmt: skip
    compare(g, "j")
    g.free("j")
    r = g.allocate("slot/node/power=300", job="j", start=0, end=10).R(scheduling=True)
    power = next(edge for edge in r["scheduling"]["graph"]["edges"] if "metadata" in edge)
    assert power["metadata"]["attributes"] == {"capacity": 300.0, "full": 450.0}
    compare(g, "j")


@pytest.mark.parametrize("racks", [["rack0"], ["rack0", "rack1"]])
def test_part_of_a_node_is_not_listed_as_a_hidden_host(tmp_path: Path, racks: list[str]) -> None:
    machine = """
        fluxres: 1
        name: c
        resources:
          - {type: rack, name: rack0, with: [{type: node, name: a, with: [{type: core, count: 3}]}]}
          - {type: rack, name: rack1, with: [{type: node, name: a, with: [{type: core, count: 2}]}]}
          - {type: rack, name: rack2, with: [{type: node, name: a, size: 4, with: [{type: socket}]}]}
    """
    (tmp_path / "c.yaml").write_text(textwrap.dedent(machine))
    g = fluxres.load(tmp_path / "c.yaml")
    g.allocate([*((f"/c/{rack}", 1) for rack in racks), ("/c/rack2/a", 1)], job="j", start=0, end=10)
    compare(g, "j")


def test_pass_through_pools_are_not_offered_in_r_of_a_copy(tmp_path: Path) -> None:
    machine = """
        fluxres: 1
        name: c
        resources:
          - {type: node, count: 3, with: [{type: core, count: 2}, {type: gpu, count: 1}]}
        graphs:
          feeds:
            hierarchy: true
            edges: [{from: "/c/node1", to: "/c/node0/gpu0", relation: supplies}, {from: "/c/node0", to: "/c/node0/core1"}]
    """
    (tmp_path / "c.yaml").write_text(textwrap.dedent(machine))
    g = fluxres.load(tmp_path / "c.yaml")
    held = g.allocate([("/c/node0/core0", 1)], job="j", start=0, end=10).R()["execution"]
    copy = g.copy(job="j", at=0)
    assert {"node1", "core1", "gpu0"} <= {pool.name for pool in copy.walk() if copy.structure.is_way(pool.vertex)}
    for scheduling in ("none", "jgf", "jgf_shorthand", "treepool"):
        r = json.loads(registry.write(copy.structure, format="R", scheduling=scheduling).data)
        assert [r["execution"][key] for key in ("R_lite", "nodelist")] == [held[key] for key in ("R_lite", "nodelist")]
        read(r)
    assert r["scheduling"]["children"] == [{"ranks": "0", "topo": {"cores": "0"}}]
    only_ways = copy.structure
    only_ways.flags |= WAY
    with pytest.raises(UsageError, match="no pool has a rank"):
        registry.write(only_ways, format="R")


def test_gpu_that_contains_cores_is_not_left_out_below_itself(tmp_path: Path) -> None:
    machine = """
        fluxres: 1
        name: c
        resources:
          - {type: node, count: 1, with: [{type: gpu, count: 3, with: [{type: core, count: 2}]}]}
    """
    (tmp_path / "c.yaml").write_text(textwrap.dedent(machine))
    g = fluxres.load(tmp_path / "c.yaml")
    r = g.allocate(["/c/node0/gpu0", "/c/node0/gpu2"], job="j", start=0, end=10).R(scheduling="jgf_shorthand")
    left_out = {node["id"]: node["metadata"].get("children") for node in r["scheduling"]["graph"]["nodes"]}
    assert left_out == {"0": None, "1": None, "2": {"core": "0-1"}, "8": {"core": "4-5"}}
    compare(g, "j")


def test_core_with_its_own_rank_contains_the_pools_of_that_rank(tmp_path: Path) -> None:
    machine = """
        fluxres: 1
        name: c
        resources:
          - {type: core, count: 2, rank: 0, exclusive: true, with: [{type: gpu, count: 3}]}
    """
    (tmp_path / "c.yaml").write_text(textwrap.dedent(machine))
    s = fluxres.load(tmp_path / "c.yaml").structure
    s.rank[s.of_type("core")[0] : s.n] = np.repeat([0, 1], 4)
    written = registry.write(s, format="R", scheduling="jgf_shorthand")
    assert [node["metadata"]["type"] for node in json.loads(written.data)["scheduling"]["graph"]["nodes"]] == [
        "cluster",
        "core",
        "core",
    ]
    found = registry.read(written.data, origin=ORIGIN).structure
    inside = [[found.path(u) for u in range(v + 1, found.end.item(v))] for v in found.of_type("core").tolist()]
    assert [len(gpus) for gpus in inside] == [3, 3]


def test_unlinked_pool_is_not_a_node_of_any_job() -> None:
    g = fluxres.load(DEMO)
    g.unlink("/demo/rack0/node1")
    assert g.structure.kind_of(g.structure.vertex("power:/pdu0/rack0/node1")).type == "node"
    for held in (["/demo"], ["/demo/rack0"], [("power:/pdu0", 500), ("/demo/rack0/node2", 1)]):
        r = g.allocate(held, job="j", start=0, end=10).R(scheduling=True)
        copy = g.copy(job="j", at=0).structure
        g.free("j")
        assert "node1" not in [name for text in r["execution"]["nodelist"] for name in hostlist.parse(text)]
        assert not {1} & {rank for entry in r["execution"]["R_lite"] for rank in idset.parse(entry["rank"])}
        assert "node1" not in [v.name for v in Fluxion.load(r["scheduling"]).vertices.values()]
        assert differences(copy, read(r).structure, {"properties"}) == []
    written = json.loads(registry.write(g.structure, format="jgf").data)
    assert "node1" not in [v.name for v in Fluxion.load(written).vertices.values()]
    for form in ("R", "treepool"):
        r = json.loads(registry.write(g.structure, format=form).data)
        assert r["execution"]["nodelist"] == ["node[0,2-7]"]


def with_properties(properties: dict[str, PropertyValue]) -> Structure:
    """Two nodes with these properties."""
    core = Recipe("core", count=2)
    return expand(Recipe("cluster", children=(Recipe("node", count=2, properties=properties, children=(core,)),)), origin=ORIGIN)


@pytest.mark.parametrize("form", ["jgf", "jgf_shorthand"])
@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
@example(structure=with_properties({"a=b": None}))
@example(structure=with_properties({"a=b": None, "a": "c"}))
@example(structure=with_properties({"x=1": 2}))
def test_rule_s1_r_with_the_graph_of_an_odd_machine(form: str, structure: Structure) -> None:
    assume(errors(structure) == [])
    try:
        written = registry.write(structure, format="R", scheduling=form)
    except UsageError:
        return
    Fluxion.load(json.loads(written.data)["scheduling"])
    found = registry.read(written.data, origin=ORIGIN).structure
    assert errors(found) == []
    facts = facts_of(written.left_out)
    if "pools" not in facts:
        assert differences(structure, found, facts) == []
    a, b = (json.loads(registry.write(s, format="R").data)["execution"] for s in (structure, found))
    assert (a["nodelist"], lite(a)) == (b["nodelist"], lite(b))


def lite(execution: dict[str, Any]) -> set[tuple[int, str, int]]:
    """How many pools of each type each rank has."""
    return {
        (rank, type_, len(idset.parse(ids)))
        for entry in execution["R_lite"]
        for rank in idset.parse(entry["rank"])
        for type_, ids in entry["children"].items()
    }


@settings(max_examples=100, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(st.one_of(machines().map(lambda machine: machine.structure()), machines_with_graphs()), st.data())
def test_rule_s1_r_of_any_job(structure: Structure, data: st.DataObject) -> None:
    assume(errors(structure) == [])
    g = ResourceGraph(structure)
    if give_some(g, "j", data):
        compare(g, "j")


@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(machines_with_graphs(), st.data())
def test_rule_s1_r_of_jobs_with_linked_suppliers(structure: Structure, data: st.DataObject) -> None:
    assume(errors(structure) == [])
    g = ResourceGraph(structure)
    assume(give_some(g, "j", data))
    child = joining.copy_job(g, "j", 0, linked=True)
    assume(give_some(child, "k", data))
    whole, short = (child.allocation("k").R(scheduling=form) for form in ("jgf", "jgf_shorthand"))
    assert differences(child.copy(job="k", at=0).structure, read(whole).structure, {"properties"}) == []
    read(short)
    for each in (whole, short):
        Fluxion.load(each["scheduling"])


def test_rule_s1_linked_supplier_is_pass_through_to_exclusive_pools() -> None:
    psu = {"type": "psu", "size": 10, "unit": "W", "with": [{"type": "core", "count": 2}]}
    rest = [{"type": "psu", "name": "other", "size": 10, "unit": "W"}, {"type": "core", "name": "far"}]
    g = fluxres.load(
        {
            "fluxres": 1,
            "name": "c",
            "resources": [{"type": "rack", "size": 3, "with": [psu]}, *rest],
            "graphs": {"power": {"hierarchy": True, "edges": [{"from": "/c/other", "to": "/c/far"}]}},
        }
    )
    g.allocate([("/c/rack", 2), ("/c/rack/psu/core0", 1)], job="j", start=0, end=10)
    child = joining.copy_job(g, "j", 0, linked=True)
    child.allocate([("/c/rack", 2)], job="k", start=0, end=10)
    whole, short = (child.allocation("k").R(scheduling=form) for form in ("jgf", "jgf_shorthand"))
    assert differences(child.copy(job="k", at=0).structure, read(whole).structure, {"properties"}) == []
    paths = [node["metadata"]["paths"]["containment"] for node in whole["scheduling"]["graph"]["nodes"]]
    assert paths == ["/c", "/c/rack", "/c/rack/psu", "/c/rack/psu/core0"]
    assert len(short["scheduling"]["graph"]["nodes"]) == 2
    for each in (whole, short):
        Fluxion.load(each["scheduling"])


def give_some(g: ResourceGraph, job: str, data: st.DataObject) -> bool:
    """Give a job units of some pools and edges; whether it holds any pool then."""
    accounts = g.structure.accounts
    for v in data.draw(st.lists(st.integers(0, accounts.n - 1), min_size=1, max_size=6, unique=True)):
        target = accounts.where(v) if accounts.is_edge(v) else v
        with suppress(FluxresError):
            g.allocate([(target, data.draw(integers(1, max(accounts.size.item(v), 1))))], job=job, start=0, end=10)
    return job in g.jobs() and len(g.allocation(job).pools) > 0
