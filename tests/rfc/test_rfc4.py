"""RFC 4, requirement by requirement; specs/rfc4.md lists the ids."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import networkx
import pytest

import fluxres
from fluxres import FluxresError, InsufficientResources, NotHeld, Pool, ResourceGraph, UnknownPool
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from tests.rfc.facts import facts, paths, records

# -- conceptual model, representation ------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-01", "RFC4-02")
def test_anything_can_be_a_composite_pool() -> None:
    licences = Recipe("licence", size=20, children=(Recipe("Größe-XL", count=2, size=3),))
    g = ResourceGraph(expand(Recipe("company", children=(licences,)), origin=uuids.new_origin()))
    pool = g.pool("/company/licence0")
    assert (pool.type, pool.size, [child.name for child in pool.children]) == ("licence", 20, ["Größe-XL0", "Größe-XL1"])


@pytest.mark.rfc("RFC4-C1")
def test_pools_form_one_tree_under_a_root(g: ResourceGraph) -> None:
    assert (g.root.type, g.root.parent) == ("cluster", None)
    assert networkx.is_arborescence(g.containment)
    assert len(g.containment) == 1 + 2 + 4 * (1 + 6) + 1


@pytest.mark.rfc("RFC4-C2")
def test_part_of_a_composite_pool_is_a_composite_pool(g: ResourceGraph) -> None:
    part = g.copy("/demo/rack1")
    assert part.aggregate() == {"rack": 1, "node": 2, "core": 8, "gpu": 2, "memory": 128}
    part.allocate([("/demo/rack1/node2/core0", 1)], job="j1")
    assert part.copy("/demo/rack1/node2").aggregate()["core"] == 3


@pytest.mark.rfc("RFC4-C3")
def test_resources_are_created_piece_by_piece() -> None:
    core = fluxres.Resource("core", 4)
    node = fluxres.Resource("node", 2, children=[core, fluxres.Resource("memory", size=64, unit="GiB")])
    g = fluxres.build(fluxres.Resource("rack", children=[node]), name="demo")
    g.merge(
        fluxres.load({"fluxres": 1, "root": {"type": "node", "id": 2, "with": [{"type": "core", "count": 8}]}}), at="/demo/rack"
    )
    assert g.aggregate() == {"cluster": 1, "rack": 1, "node": 3, "core": 16, "memory": 128}


@pytest.mark.rfc("RFC4-03")
def test_pools_keep_their_data_and_their_relations(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node1/memory")
    assert (memory.size, memory.unit) == (64, "GiB")
    assert memory.parent == g.pool("/demo/rack0/node1")
    assert memory in memory.parent.children


@pytest.mark.rfc("RFC4-04")
def test_sets_of_any_size_from_a_centre_to_a_part() -> None:
    clusters = Recipe("cluster", count=3, children=(Recipe("node", count=1000, children=(Recipe("core", count=8),)),))
    centre = ResourceGraph(expand(Recipe("center", children=(clusters,)), origin=uuids.new_origin()))
    assert centre.aggregate()["core"] == 24_000
    centre.allocate([("/center/cluster1/node7/core3", 1)], job="small")
    assert centre.copy(job="small").aggregate()["core"] == 1


@pytest.mark.rfc("RFC4-05", "RFC4-06")
def test_one_model_serves_coarse_and_fine_jobs(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0", 1)], job="coarse")
    g.allocate([("/demo/rack1/node2/core1", 1)], job="fine")
    assert g.pool("/demo/rack0/node0/core0").available() == 0
    assert g.pool("/demo/rack1/node2/core0").available() == 1
    assert g.check() == []


@pytest.mark.rfc("RFC4-07")
def test_a_high_instance_sees_racks_with_totals_of_their_nodes(g: ResourceGraph) -> None:
    racks = g.find("type=rack")
    assert [g.aggregate(rack)["core"] for rack in racks] == [8, 8]
    g.allocate({"/demo/rack0/node0": 1}, job="j1")
    assert [g.aggregate(rack)["core"] for rack in racks] == [4, 8]


@pytest.mark.rfc("RFC4-08")
def test_a_low_instance_works_on_nodes_and_cores(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0", 1)], job="child")
    low = g.copy(job="child")
    low.allocate(list(low.find("type=core and under=/demo/rack0/node1")), job="inner")
    assert low.aggregate("/demo/rack0")["core"] == 4


# -- pool data ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-09")
def test_names_are_composed_of_attributes_and_properties() -> None:
    frame = Recipe("node", count=2, name="node-${frameid}-${rack}-${id:03}", properties={"frameid": "f7"})
    g = ResourceGraph(
        expand(Recipe("cluster", children=(Recipe("rack", count=2, children=(frame,)),)), origin=uuids.new_origin())
    )
    assert [node.name for node in g.find("type=node")] == ["node-f7-0-000", "node-f7-0-001", "node-f7-1-000", "node-f7-1-001"]
    assert g.pool("/cluster/rack1/node-f7-1-000").id == 0


@pytest.mark.rfc("RFC4-09")
def test_names_may_contain_uuid_state_and_parent_name() -> None:
    core = Recipe("core", name="${parent}.${uuid}")
    g = ResourceGraph(
        expand(Recipe("cluster", children=(Recipe("node", name="${id}-${state}", children=(core,)),)), origin=uuids.new_origin())
    )
    found = g.find("type=core")[0]
    assert found.path == f"/cluster/0-up/0-up.{found.uuid}"


@pytest.mark.rfc("RFC4-10")
def test_several_properties_characterise_a_pool(g: ResourceGraph) -> None:
    assert dict(g.pool("/demo/rack0/node0").properties) == {"ssd": None, "class": 7, "vendor": "Acme"}
    assert len(g.find("property=ssd and property:class=7 and property:vendor=Acme")) == 4
    assert len(g.find("property=ssd and property:class=8")) == 0


@pytest.mark.rfc("RFC4-D1")
def test_every_pool_has_all_base_data(g: ResourceGraph) -> None:
    pools = list(g.find("all"))
    for pool in pools:
        assert pool.type
        assert pool.name.startswith(pool.basename) or pool == g.root
        assert pool.size >= 1
        assert pool.state in ("up", "null")
        assert g.pool(pool.uuid) == pool
    assert len({pool.uuid for pool in pools}) == len(pools) == len(g)


@pytest.mark.rfc("RFC4-D2")
def test_basename_defaults_to_type_and_name_to_basename_and_id() -> None:
    kinds = (Recipe("core", ids=5), Recipe("core", ids=None), Recipe("gpu", basename="acc", ids=2))
    g = ResourceGraph(expand(Recipe("cluster", children=kinds), origin=uuids.new_origin()))
    assert [(pool.basename, pool.id, pool.name) for pool in g.root.children] == [
        ("core", 5, "core5"),
        ("core", None, "core"),
        ("acc", 2, "acc2"),
    ]


@pytest.mark.rfc("RFC4-D3")
@pytest.mark.parametrize("state", ["up", "down", "degraded", "failing", "unknown", "null", "drain"])
def test_states_of_the_rfc_and_drain(g: ResourceGraph, state: str) -> None:
    g.pool("/demo/rack0/node0").state = state
    assert [pool.path for pool in g.find(f"state={state} and type=node")][:1] == ["/demo/rack0/node0"]


@pytest.mark.rfc("RFC4-D4")
def test_composite_data_has_uri_children_parent_and_path(g: ResourceGraph) -> None:
    rack = g.pool("demo:/rack1")
    assert rack.uri == "demo:/rack1"
    assert rack.parent == g.root
    assert [child.name for child in rack.children] == ["node2", "node3"]
    assert g.pool(rack.uuid) == g.pool(rack.uri) == g.pool(rack.path) == g.pool(rack.vertex) == rack


# -- graphs ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-11")
def test_pools_are_linked_to_pools_outside_their_hierarchy(g: ResourceGraph) -> None:
    supplier = g.pool("power:/pdu1")
    assert supplier.uri is None
    assert [pool.path for pool, _ in supplier.links("power")] == ["/demo/rack1/node2", "/demo/rack1/node3"]


@pytest.mark.rfc("RFC4-12")
def test_links_form_graphs(g: ResourceGraph) -> None:
    assert sorted(g.subsystems) == ["network", "power"]
    power = g.subsystem("power")
    assert isinstance(power, networkx.DiGraph)
    edge = power.edges[g.pool("power:/pdu0").vertex, g.pool("/demo/rack0/node1").vertex]
    assert dict(edge) == {"subsystem": "power", "type": "supplies", "capacity": 900.0, "free": 900}
    ends = g.pool("/demo/rack0/node0").vertex, g.pool("/demo/rack1/node3").vertex
    assert networkx.shortest_path_length(g.subsystem("network"), *ends) == 3


@pytest.mark.rfc("RFC4-12")
def test_links_are_created_changed_and_removed(g: ResourceGraph) -> None:
    ends = "/demo/rack0/node0", "/demo/rack1/node3"
    g.add_edge(*ends, "network", relation="cable", capacity=10)
    assert g.subsystem("network").edges[g.vertex(ends[0]), g.vertex(ends[1])]["capacity"] == 10.0
    assert networkx.shortest_path_length(g.subsystem("network"), *map(g.vertex, ends)) == 1
    g.set_edge(*ends, "network", capacity=20)
    assert g.subsystem("network").edges[g.vertex(ends[0]), g.vertex(ends[1])]["capacity"] == 20.0
    g.remove_edge(*ends, "network")
    assert networkx.shortest_path_length(g.subsystem("network"), *map(g.vertex, ends)) == 3
    assert g.check() == []


@pytest.mark.rfc("RFC4-13")
def test_graph_data_refers_to_vertices_of_other_graphs(g: ResourceGraph) -> None:
    node = g.pool("/demo/rack0/node1")
    assert node.uris == ["demo:/rack0/node1", "power:/pdu0/node1"]
    assert g.pool("power:/pdu0/node1") == node
    assert [pool.name for pool, _ in node.links("network")] == ["node2", "node0"]
    assert [g.pool(v).name for v in g.subsystem("power").predecessors(node.vertex)] == ["pdu0"]


@pytest.mark.rfc("RFC4-13")
def test_graph_data_has_both_directions_and_names_the_graphs(g: ResourceGraph) -> None:
    node, supplier = g.pool("/demo/rack0/node1"), g.pool("power:/pdu0")
    assert (node.graphs, supplier.graphs, g.pool("/demo/rack0").graphs) == (["power", "network"], ["power"], [])
    assert [(pool.name, edge["capacity"]) for pool, edge in node.links("power", "in")] == [("pdu0", 900.0)]
    assert node.links("power") == supplier.links(direction="in") == []
    assert sorted(pool.name for pool, _ in node.links("network", "both")) == ["node0", "node0", "node2", "node2"]
    assert node.links(direction="both") == node.links("power", "both") + node.links("network", "both")


@pytest.mark.rfc("RFC4-D4")
def test_every_hierarchy_has_uris_parents_and_children(g: ResourceGraph) -> None:
    node, supplier = g.pool("/demo/rack0/node1"), g.pool("power:/pdu0")
    assert (node.parent_in("power"), node.parent_in("demo")) == (supplier, g.pool("/demo/rack0"))
    assert [child.path for child in supplier.children_in("power")] == ["/demo/rack0/node0", "/demo/rack0/node1"]
    assert supplier.parent_in("power") is None
    assert list(node.ancestors_in("power")) == [supplier]


# -- allocation data ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-14")
def test_exclusive_pool_is_allocated_completely_or_not_at_all(g: ResourceGraph) -> None:
    whole = g.pool("/demo/burstbuffer")
    with pytest.raises(FluxresError):
        whole.allocate(3, job="j1")
    assert (whole.allocated(), g.jobs()) == (0, [])
    whole.allocate(8, job="j1")
    assert (whole.exclusive, whole.allocated()) == (True, 8)


@pytest.mark.rfc("RFC4-15")
def test_allocations_reservations_and_shared_are_arrays_over_time(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(10, job="now", start=0, end=100)
    memory.allocate(60, job="later", start=100, end=200)
    assert [memory.allocated(at=at) for at in (0, 99.5, 100, 199, 200)] == [10, 10, 60, 60, 0]
    assert [memory.available(at=at) for at in (0, 100, 200)] == [54, 4, 64]
    assert memory.available(at=0, duration_s=150) == 4
    node = g.pool("/demo/rack0/node0")
    assert [node.shared_by(at=at) for at in (0, 100, 200)] == [["now"], ["later"], []]


@pytest.mark.rfc("RFC4-D5")
def test_staged_is_a_temporary_lock(g: ResourceGraph) -> None:
    core = g.pool("/demo/rack0/node0/core0")
    with g.stage([(core, 1)], job="j1"):
        assert (core.staged, core.available()) == (True, 0)
        with pytest.raises(InsufficientResources):
            core.allocate(1, job="j2")
    assert (core.staged, core.available(), g.jobs()) == (False, 1, [])
    with g.stage([(core, 1)], job="j1") as stage:
        stage.commit()
    assert (core.staged, core.allocated(), g.jobs()) == (False, 1, ["j1"])


@pytest.mark.rfc("RFC4-D6")
def test_allocations_and_reservations_list_jobs_with_units_and_shared_without(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(10, job="a", start=0, end=100)
    memory.allocate(20, job="b", start=50, end=150)
    assert [(span.job, span.amount, span.start, span.end) for span in memory.allocations()] == [("a", 10, 0.0, 100.0)]
    assert [(span.job, span.amount, span.start, span.end) for span in memory.reservations()] == [("b", 20, 50.0, 150.0)]
    assert g.pool("/demo/rack0").shared == ["a"]


# -- methods ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-16")
def test_pool_is_an_object_that_methods_accept(g: ResourceGraph) -> None:
    node = g.pool("/demo/rack0/node0")
    assert next(iter(g.walk(node))) == node
    assert g.aggregate(node)["core"] == 4
    assert node.path in paths(g.copy(node))
    node.tag("seen")
    node.state = "degraded"
    node.allocate(1, job="j1")
    assert (node.size, node.allocated(), node.available()) == (1, 1, 0)
    node.free("j1")
    g.unlink(node)
    assert "/demo/rack0/node0" not in paths(g)


@pytest.mark.rfc("RFC4-17")
@pytest.mark.parametrize("place", ["{}/out.yaml", "sqlite:///{}/out.db"])
def test_pool_and_its_children_are_written_and_read_back(g: ResourceGraph, tmp_path: Path, place: str) -> None:
    part = g.copy("/demo/rack0")
    part.pool("/demo/rack0/node1").tag("maintenance", "2026-12-01")
    part.pool("/demo/rack0/node0/gpu0").state = "down"
    dest = place.format(tmp_path)
    fluxres.save(part, dest)
    assert facts(fluxres.load(dest)) == facts(part)


@pytest.mark.rfc("RFC4-17")
def test_pool_is_written_with_its_subtree_and_records(g: ResourceGraph, tmp_path: Path) -> None:
    g.allocate({"/demo/rack0/node1/memory": 9, "/demo/rack1/node2": 1}, job="j1")
    g.pool("/demo/rack0/node1").tag("maintenance", "2026-12-01")
    part = g.duplicate("/demo/rack0")
    stream = io.BytesIO()
    fluxres.save(g, stream, where="/demo/rack0")
    fluxres.save(g, tmp_path / "out.json", where="/demo/rack0", format="node-link")
    fluxres.save(g, f"sqlite:///{tmp_path}/out.db", where=g.pool("/demo/rack0"))
    read = [
        fluxres.loads(stream.getvalue()),
        fluxres.loads(fluxres.dumps(g, where="/demo/rack0")),
        fluxres.load(tmp_path / "out.json"),
        fluxres.load(f"sqlite:///{tmp_path}/out.db"),
        pickle.loads(pickle.dumps(part)),
    ]
    assert {pool.uuid for pool in part.walk()} == {pool.uuid for pool in g.walk("/demo/rack0")}
    for each in read:
        assert (facts(each), records(each)) == (facts(part), records(part))
    assert records(part) == [("j1", "/rack0/node1/memory", 9, 0.0, float("inf"))]


# -- copy, duplicate, merge, unlink --------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-18")
def test_auxiliary_edges_are_copied_if_both_ends_are(g: ResourceGraph) -> None:
    part = g.copy("/demo/rack0")
    network = part.subsystem("network")
    assert sorted((part.pool(a).name, part.pool(b).name) for a, b in network.edges) == [("node0", "node1"), ("node1", "node0")]


@pytest.mark.rfc("RFC4-19", "RFC4-21")
def test_copy_takes_the_subtree_and_the_path_to_the_root(g: ResourceGraph) -> None:
    g.pool("/demo/rack0/node1").state = "drain"
    part = g.copy("/demo/rack0")
    below = ["core0", "core1", "core2", "core3", "gpu0", "memory"]
    assert paths(part) == ["/demo", "/demo/rack0", "/demo/rack0/node0", *(f"/demo/rack0/node0/{name}" for name in below)]
    assert part.pool("/demo/rack0").uuid == g.pool("/demo/rack0").uuid


@pytest.mark.rfc("RFC4-20")
def test_a_copy_of_what_a_job_holds_starts_a_sub_instance(g: ResourceGraph) -> None:
    g.allocate({"/demo/rack0/node0": 1, "/demo/rack0/node1/core2": 1, "/demo/rack0/node1/memory": 16}, job="j1")
    child = g.copy(job="j1")
    assert {name: count for name, count in child.aggregate("/demo").items() if name in ("core", "gpu", "memory")} == {
        "core": 5,
        "gpu": 1,
        "memory": 80,
    }
    child.allocate([("/demo/rack0/node1/core2", 1)], job="inner")
    assert g.jobs() == ["j1"]


@pytest.mark.rfc("RFC4-22")
@pytest.mark.parametrize("state", ["down", "drain", "failing", "unknown"])
def test_only_available_pools_are_copied(g: ResourceGraph, state: str) -> None:
    g.pool("/demo/rack0/node0/core1").state = state
    g.allocate([("/demo/rack0/node0/gpu0", 1)], job="j1")
    names = [pool.name for pool in g.copy("/demo/rack0/node0").pool("/demo/rack0/node0").children]
    assert names == ["core0", "core2", "core3", "memory"]


@pytest.mark.rfc("RFC4-23")
def test_unavailable_pool_is_left_out_with_everything_below(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0", 1)], job="j1")
    g.pool("/demo/rack1/node3").state = "down"
    copied = paths(g.copy())
    assert [path for path in copied if "node0" in path or "node3" in path] == []
    assert len(copied) == 1 + 2 + 2 * 7 + 1


@pytest.mark.rfc("RFC4-24")
def test_copy_has_available_sizes_and_no_allocations(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0/memory", 16)], job="j1")
    part = g.copy("/demo/rack0")
    memory = part.pool("/demo/rack0/node0/memory")
    assert (memory.size, memory.allocated(), memory.available()) == (48, 0, 48)
    assert (part.jobs(), part.check()) == ([], [])
    assert g.pool("/demo/rack0/node0/memory").size == 64


@pytest.mark.rfc("RFC4-25", "RFC4-26")
def test_duplicate_is_complete_unchanged_and_independent(g: ResourceGraph) -> None:
    g.pool("/demo/rack0/node1").state = "down"
    g.pool("/demo/rack0").tag("row", "B")
    g.allocate([("/demo/rack0/node0/memory", 16)], job="j1", start=10, end=20)
    same = g.duplicate()
    assert (facts(same), records(same)) == (facts(g), records(g))
    assert sorted(same.subsystem("network").edges) == sorted(g.subsystem("network").edges)
    before = facts(g), records(g)
    same.pool("/demo/rack0").tag("row", "C")
    same.pool("/demo/rack1").state = "down"
    same.free("j1")
    assert (facts(g), records(g)) == before


def rack(number: int) -> ResourceGraph:
    nodes = Recipe("node", count=2, ids=2 * number, children=(Recipe("core", count=4),))
    return ResourceGraph(expand(Recipe("rack", name=f"rack{number}", ids=number, children=(nodes,)), origin=uuids.new_origin()))


@pytest.mark.rfc("RFC4-27", "RFC4-28")
@pytest.mark.parametrize("place", ["/demo/rack9", "demo:/rack9"])
def test_merge_attaches_a_graph_at_a_path_or_uri_of_another(g: ResourceGraph, place: str) -> None:
    before = g.aggregate()
    g.merge(rack(9), at=place)
    assert [pool.path for pool in g.walk("/demo/rack9")][:2] == ["/demo/rack9", "/demo/rack9/node18"]
    assert g.aggregate() == {**before, "rack": 3, "node": 6, "core": 24}
    assert g.check() == []


@pytest.mark.rfc("RFC4-28")
def test_a_pool_moves_from_its_place_to_a_path_or_uri(g: ResourceGraph) -> None:
    node, before = g.pool("/demo/rack0/node0").uuid, g.aggregate()
    g.move("/demo/rack0/node0", "demo:/rack1")
    assert g.pool(node).path == "/demo/rack1/node0"
    g.move("/demo/rack1/node0", "/demo/spare")
    assert g.pool(node).path == "/demo/spare"
    assert g.aggregate() == before
    g.move("/demo/spare", "power:/pdu1")
    assert "power:/pdu1/spare" in g.pool(node).uris
    assert g.pool(node).path == "/demo/spare"
    assert g.check() == []


@pytest.mark.rfc("RFC4-29")
def test_merge_attaches_at_the_common_ancestor(g: ResourceGraph) -> None:
    g.unlink("power:/pdu1")  # a pool outside the tree has no ancestor in it
    whole = facts(g)
    part = g.copy("/demo/rack1/node3")
    g.unlink("/demo/rack1/node3")
    assert "/demo/rack1/node3/core0" not in facts(g)
    g.merge(part)
    assert set(paths(g)) == {where for where in whole if where.startswith("/")}
    assert g.pool("/demo/rack1/node3").uuid == whole["/demo/rack1/node3"]["uuid"]


@pytest.mark.rfc("RFC4-30")
def test_merge_grows_a_jobs_graph(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0", 1)], job="j1")
    child = g.copy(job="j1")
    more = g.copy("/demo/rack1/node2")
    child.merge(more)
    g.grow("j1", [("/demo/rack1/node2", 1)])
    assert child.aggregate()["core"] == 8
    assert paths(g.copy(job="j1")) == paths(child)


@pytest.mark.rfc("RFC4-31", "RFC4-32")
def test_unlink_removes_a_pool_from_its_parent_and_from_one_hierarchy(g: ResourceGraph) -> None:
    uuid = g.pool("/demo/rack0/node0").uuid
    g.unlink("/demo/rack0/node0")
    assert [child.name for child in g.pool("/demo/rack0").children] == ["node1"]
    assert g.pool(uuid).uris == ["power:/pdu0/node0"]
    with pytest.raises(UnknownPool):
        g.pool("/demo/rack0/node0")


@pytest.mark.rfc("RFC4-31", "RFC4-32")
def test_unlink_from_an_auxiliary_hierarchy_leaves_containment(g: ResourceGraph) -> None:
    g.unlink("/demo/rack0/node0", hierarchy="power")
    assert g.pool("/demo/rack0/node0").uris == ["demo:/rack0/node0"]
    assert [pool.name for pool, _ in g.pool("power:/pdu0").links("power")] == ["node1"]


@pytest.mark.rfc("RFC4-33")
def test_pool_in_no_hierarchy_is_removed(g: ResourceGraph) -> None:
    uuid = g.pool("/demo/rack0/node0").uuid
    g.unlink("/demo/rack0/node0", hierarchy="power")
    pools = len(g)
    g.unlink("/demo/rack0/node0")
    with pytest.raises(UnknownPool):
        g.pool(uuid)
    assert len(g) == pools - 7


# -- data methods ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-34")
def test_pool_has_a_size(g: ResourceGraph) -> None:
    assert [g.pool(f"/demo/rack0/node0/{name}").size for name in ("core0", "memory")] == [1, 64]


@pytest.mark.rfc("RFC4-35", "RFC4-36")
def test_tags_have_any_key_and_a_value_or_none(g: ResourceGraph) -> None:
    node = g.pool("/demo/rack0/node0")
    node.tag("maintenance", "2026-12-01")
    node.tag("Ω/ß", "")
    node.tag("bare")
    assert dict(node.tags) == {"maintenance": "2026-12-01", "Ω/ß": "", "bare": None}
    node.tag("bare", "now with a value")
    node.untag("maintenance")
    assert dict(node.tags) == {"Ω/ß": "", "bare": "now with a value"}


@pytest.mark.rfc("RFC4-37")
def test_the_state_is_read_and_set(g: ResourceGraph) -> None:
    node = g.pool("/demo/rack0/node0")
    node.state = "down"
    assert (node.state, g.pool(node.path).state, g.pool("/demo/rack0/node1").state != "down") == ("down", "down", True)


@pytest.mark.rfc("RFC4-38", "RFC4-39")
def test_aggregate_sums_available_units_by_type(g: ResourceGraph) -> None:
    assert g.aggregate("/demo/rack0") == {"rack": 1, "node": 2, "core": 8, "gpu": 2, "memory": 128}
    g.allocate({"/demo/rack0/node0/memory": 24, "/demo/rack0/node0/core3": 1, "/demo/rack0/node1": 1}, job="j1")
    assert g.aggregate("/demo/rack0") == {"rack": 1, "node": 1, "core": 3, "gpu": 1, "memory": 40}


@pytest.mark.rfc("RFC4-40")
def test_aggregate_leaves_out_unavailable_types_unless_asked(g: ResourceGraph) -> None:
    g.pool("/demo/rack0/node0").state = "down"
    g.allocate([("/demo/rack0/node1/gpu0", 1)], job="j1")
    assert "gpu" not in g.aggregate("/demo/rack0")
    assert g.aggregate("/demo/rack0", all=True)["gpu"] == 0
    assert g.aggregate("/demo/rack0/node0") == {}


# -- find and traversal ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-41", "RFC4-42")
@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ("type=gpu", 4),
        ("tag=owner", 2),
        ("tag:owner=alice", 1),
        ("property=ssd", 4),
        ("property:vendor=Acme", 4),
        ("size=64", 4),
        ("size>64", 2),
        ("name=node[1-2]", 2),
        ("basename=node", 4),
        ("id=0-1 and type=node", 2),
        ("unit=GiB", 4),
        ("state=drain", 1),
        ("path=/demo/rack0/node1", 1),
        ("uri=power:/pdu0/node1", 1),
        ("subsystem=network", 4),
        ("(type=core or type=gpu) and not under=/demo/rack0", 10),
    ],
)
def test_pools_are_matched_on_all_their_data(g: ResourceGraph, criteria: str, found: int) -> None:
    g.pool("/demo/rack0/node0").tag("owner", "alice")
    g.pool("/demo/rack1").tag("owner", "bob")
    g.pool("/demo/rack1").state = "drain"
    assert len(g.find(criteria)) == found


@pytest.mark.rfc("RFC4-38", "RFC4-39")
def test_aggregate_sums_in_auxiliary_hierarchies(g: ResourceGraph) -> None:
    assert g.aggregate("power:/pdu0") == {"node": 2, "pdu": 5000}
    g.allocate({"power:/pdu0": 900, "/demo/rack0/node0": 1}, job="j1")
    assert g.aggregate("power:/pdu0") == {"node": 1, "pdu": 4100}
    assert g.aggregate("power:/") == {"node": 3, "pdu": 9100}


@pytest.mark.rfc("RFC4-43", "RFC4-44", "RFC4-45")
def test_traversal_of_every_hierarchy_depth_first_or_level_by_level(g: ResourceGraph) -> None:
    nodes = [f"/demo/rack{r}/node{2 * r + n}" for r in (0, 1) for n in (0, 1)]
    assert [pool.where for pool in g.walk("power:/pdu1")] == ["power:/pdu1", *nodes[2:]]
    assert [pool.where for pool in g.walk("power:/", order="bfs")] == ["power:/pdu0", "power:/pdu1", *nodes]
    levels = [pool.type for pool in g.walk("/demo/rack0", order="bfs")]
    assert levels == ["rack", "node", "node", *["core"] * 4, "gpu", "memory", *["core"] * 4, "gpu", "memory"]
    backwards = g.walk("power:/", order="bfs", sort=reversed, prune=lambda pool: pool.name == "node0")
    assert [pool.name for pool in backwards] == ["pdu1", "pdu0", "node3", "node2", "node1"]


@pytest.mark.rfc("RFC4-46")
def test_find_returns_children_and_ancestors_in_every_hierarchy(g: ResourceGraph) -> None:
    found = g.find("type=node and under=power:/pdu0")
    assert found.paths() == ["/demo/rack0/node0", "/demo/rack0/node1"]
    assert found.with_ancestors("power").paths() == [*found.paths(), "power:/pdu0"]
    assert g.find("type=pdu and id=1").with_children("power").paths() == ["/demo/rack1/node2", "/demo/rack1/node3", "power:/pdu1"]
    both = found.with_children() | found.with_ancestors()
    assert (len(both), both - found.with_children()) == (2 + 2 * 7, g.find("path=/demo,/demo/rack0"))


@pytest.mark.rfc("RFC4-43")
def test_traversal_visits_everything_below_a_pool_once(g: ResourceGraph) -> None:
    visited = [pool.path for pool in g.walk("/demo/rack1")]
    assert visited[:3] == ["/demo/rack1", "/demo/rack1/node2", "/demo/rack1/node2/core0"]
    assert len(visited) == len(set(visited)) == 15
    assert sorted(pool.path for pool in g.walk("/demo/rack1", order="post")) == sorted(visited)
    assert [pool.path for pool in g.walk("/demo/rack1", order="post")][-1] == "/demo/rack1"


@pytest.mark.rfc("RFC4-44", "RFC4-45")
def test_the_caller_prunes_subtrees_and_orders_children(g: ResourceGraph) -> None:
    def is_rack0(pool: Pool) -> bool:
        return pool.name == "rack0"

    def backwards(children: list[Pool]) -> list[Pool]:
        return sorted(children, key=lambda pool: pool.name, reverse=True)

    visited = [pool.name for pool in g.walk(prune=is_rack0, sort=backwards)]
    assert visited[:4] == ["demo", "rack1", "node3", "memory"]
    assert visited[-1] == "burstbuffer"
    assert "node0" not in visited
    assert "rack0" not in visited


@pytest.mark.rfc("RFC4-46")
def test_find_returns_matches_with_children_and_ancestors(g: ResourceGraph) -> None:
    found = g.find("name=node3")
    assert found.paths() == ["/demo/rack1/node3"]
    assert found.with_ancestors().paths() == ["/demo", "/demo/rack1", "/demo/rack1/node3"]
    assert len(found.with_children()) == 7
    assert len(found.with_children().with_ancestors()) == 9


@pytest.mark.rfc("RFC4-47")
def test_find_agrees_with_traversal_and_match(g: ResourceGraph) -> None:
    g.pool("/demo/rack0/node0").tag("owner", "alice")
    matched = [
        pool.path for pool in g.walk() if pool.type == "node" and "owner" not in pool.tags and pool.id is not None and pool.id < 3
    ]
    assert g.find("type=node and not tag=owner and id<3").paths() == matched


# -- allocations ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-48", "RFC4-49", "RFC4-50")
def test_available_is_size_minus_allocated(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    for job, amount, left in (("a", 10, 54), ("b", 20, 34), ("a", 4, 30)):
        memory.allocate(amount, job=job)
        assert (memory.available(), memory.size - memory.allocated()) == (left, left)


@pytest.mark.rfc("RFC4-51")
def test_allocations_are_found_by_job(g: ResourceGraph) -> None:
    g.allocate({"/demo/rack0/node0/memory": 4, "/demo/rack1/node3/core0": 1}, job="job-7")
    assert g.find("job=job-7").paths() == ["/demo/rack0/node0/memory", "/demo/rack1/node3/core0"]
    assert g.find("job=job-7 and type=core").paths() == ["/demo/rack1/node3/core0"]
    assert g.find("job=other").paths() == []


@pytest.mark.rfc("RFC4-52")
def test_allocating_again_grows(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(4, job="j1", start=0, end=100)
    memory.allocate(6, job="j1", start=0, end=100)
    assert [(span.amount, span.start, span.end) for span in memory.allocations()] == [(10, 0.0, 100.0)]


@pytest.mark.rfc("RFC4-53", "RFC4-M2")
def test_free_shrinks_by_an_amount_or_takes_all(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(10, job="j1")
    memory.free("j1", 4)
    assert memory.allocated() == 6
    with pytest.raises(NotHeld):
        memory.free("j1", 7)
    assert memory.allocated() == 6
    memory.free("j1")
    assert (memory.allocated(), g.jobs()) == (0, [])


@pytest.mark.rfc("RFC4-M1", "RFC4-56")
def test_no_more_than_size_minus_all_allocations_can_be_allocated(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(60, job="a", start=0, end=50)
    with pytest.raises(InsufficientResources) as refused:
        memory.allocate(5, job="b", start=0, end=100)
    assert refused.value.earliest == 50.0
    assert (memory.allocated(), g.jobs()) == (60, ["a"])
    memory.allocate(4, job="b", start=0, end=100)
    assert g.check() == []


# -- records ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC4-54")
def test_smallest_allocation_is_one_unit(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(1, job="j1")
    assert memory.available() == 63
    for amount in (0, -1, 0.5):
        with pytest.raises(FluxresError):
            memory.allocate(amount, job="j2")  # type: ignore[arg-type]  # half a unit is the point
    assert g.jobs() == ["j1"]


@pytest.mark.rfc("RFC4-55")
def test_no_unit_is_allocated_to_two_jobs(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0/core0", 1)], job="a", start=10, end=20)
    with pytest.raises(InsufficientResources):
        g.allocate([("/demo/rack0/node0/core0", 1)], job="b", start=0, end=11)
    with pytest.raises(InsufficientResources):
        g.allocate([("/demo/rack0/node0", 1)], job="b", start=19, end=30)
    g.allocate([("/demo/rack0/node0/core0", 1)], job="b", start=20, end=30)
    assert g.check() == []


@pytest.mark.rfc("RFC4-57")
def test_all_units_make_a_pool_exclusive_and_its_shared_list_empty(g: ResourceGraph) -> None:
    node = g.pool("/demo/rack0/node0")
    g.allocate([("/demo/rack0/node0/core0", 1)], job="j1")
    assert (node.exclusive, node.shared) == (False, ["j1"])
    node.allocate(1, job="j1")
    assert (node.exclusive, node.shared) == (True, [])
    node.free("j1")
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(63, job="j2")
    assert not memory.exclusive
    memory.allocate(1, job="j2")
    assert memory.exclusive


@pytest.mark.rfc("RFC4-58")
def test_an_exclusive_pool_implies_everything_below(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0", 1)], job="j1")
    below = list(g.walk("/demo/rack0/node1"))
    assert [(pool.allocated(), pool.available(), pool.exclusive) for pool in below] == [(pool.size, 0, True) for pool in below]
    with pytest.raises(InsufficientResources):
        g.allocate([("/demo/rack0/node1/core0", 1)], job="j2")


@pytest.mark.rfc("RFC4-59")
def test_below_an_exclusive_pool_there_are_no_records(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0/core0", 1)], job="j1")
    g.allocate([("/demo/rack0/node0", 1)], job="j1")
    assert g.allocated("j1").paths() == ["/demo/rack0/node0"]
    assert [span for pool in g.walk("/demo/rack0/node0") if pool.type != "node" for span in pool.allocations()] == []


@pytest.mark.rfc("RFC4-60")
def test_job_is_in_the_shared_list_of_every_pool_above(g: ResourceGraph) -> None:
    core = g.pool("/demo/rack0/node0/core0")
    core.allocate(1, job="j1")
    assert [pool.shared for pool in core.ancestors] == [["j1"], ["j1"], ["j1"]]
    assert g.find("shared=j1").paths() == ["/demo", "/demo/rack0", "/demo/rack0/node0"]
    with pytest.raises(InsufficientResources):
        g.allocate([("/demo/rack0", 1)], job="j2")
    core.free("j1")
    assert [pool.shared for pool in core.ancestors] == [[], [], []]
