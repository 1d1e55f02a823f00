"""JGF: repeated data must agree, and data that Fluxion leaves out has its default."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fluxres.documents import yaml_document
from fluxres.errors import InputError, LimitExceeded
from fluxres.fluxion import jgf as query_jgf
from fluxres.formats import registry
from fluxres.formats.flux import jgf_schema
from fluxres.formats.format import Loaded
from fluxres.graph.audit import check_structure
from fluxres.graph.compare import equal
from fluxres.graph.kinds import Kind
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.formats.fluxion_reader import Fluxion
from tests.formats.round_trip import differences
from tests.graph.builders import ORIGIN, demo
from tests.traceability import ROOT as ROOT_FOLDER

Node = dict[str, Any]


def node(key: int, type_: str, path: str | dict[str, str], **metadata: Any) -> Node:
    paths = {"containment": path} if isinstance(path, str) else path
    return {"id": str(key), "metadata": {"type": type_, "paths": paths, **metadata}}


def edge(source: int, target: int, **metadata: Any) -> dict[str, Any]:
    return {"source": str(source), "target": str(target), **({"metadata": metadata} if metadata else {})}


def read(nodes: list[Node], edges: list[Any] = [], **more: Any) -> Structure:  # noqa: B006 - never changed
    text = json.dumps({"graph": {"nodes": nodes, "edges": edges}, **more})
    structure = registry.read(text.encode(), file="g.json", origin=ORIGIN).structure
    assert [problem for problem in check_structure(structure) if problem.severity == "error"] == []
    return structure


ROOT = node(0, "cluster", "/c0", basename="c", id=0)
N1, N2 = node(1, "n", "/c0/n1"), node(2, "n", "/c0/n2")


# -- what is left out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "number", "name"),
    [
        ({"type": "core"}, 7, "core7"),  # the number in the path
        ({"type": "core", "basename": "k"}, 7, "k7"),
        ({"type": "node", "name": "brook12"}, 12, "brook12"),  # the number at the end of a node's name
        ({"type": "node", "name": "login"}, 1, "login"),  # a node without: the key
        ({"type": "rack", "name": "r9"}, 1, "r9"),  # others: the key
        ({"type": "rack", "name": "r9", "uniq_id": 44}, 44, "r9"),
        ({"type": "core", "id": -1, "name": "core"}, -1, "core"),
        ({"type": "core", "id": 3, "name": "brain"}, 3, "brain"),
    ],
)
def test_default_id(given: Node, number: int, name: str) -> None:
    made = read([ROOT, {"id": "1", "metadata": {**given, "paths": {"containment": f"/c0/{name}"}}}], [edge(0, 1)])
    assert (made.id[1], made.name(1)) == (number, name)


def test_other_defaults() -> None:
    made = read([ROOT, node(1, "node", "/c0/node1", rank=4), node(2, "core", "/c0/node1/core0")], [edge(0, 1), edge(1, 2)])
    assert (made.size.tolist(), made.rank.tolist()) == ([1, 1, 1], [-1, 4, 4])
    assert (made.state.tolist(), made.flags.tolist()) == ([0, 0, 0], [0, 0, 0])


def test_all_keys_of_a_node() -> None:
    data = {
        "size": 64, "unit": "GiB", "exclusive": True, "status": 1, "rank": 2, "properties": {"ssd": "", "class": "a", "n": 3},
        "ephemeral": {"job": "7"}, "uuid": "01234567-89ab-8def-8000-000000000009", "agfilter": {"core": 3}, "uniq_id": 1,
    }  # fmt: skip
    made = read([ROOT, node(1, "memory", "/c0/memory0", id=0, **data)], [edge(0, 1)])
    assert made.kind_of(1) == Kind("memory", "memory", "GiB", None, (("class", "a"), ("n", 3), ("ssd", None)))
    assert (made.size[1], made.state_name(1), made.flags[1], made.rank[1]) == (64, "down", 1, 2)
    assert (made.uuid(1), made.tags[1]) == (data["uuid"], {"job": "7"})


def test_nodes_may_be_in_any_order_and_children_keep_it() -> None:
    nodes = [node(5, "core", "/c0/n1/core1", id=1), node(4, "core", "/c0/n1/core0", id=0), node(3, "n", "/c0/n1", id=1), ROOT]
    made = read(nodes, [edge(3, 4), edge(3, 5), edge(0, 3)])
    assert [made.path(v) for v in range(4)] == ["/c0", "/c0/n1", "/c0/n1/core1", "/c0/n1/core0"]


def test_upward_edges_are_ignored() -> None:
    nodes = [ROOT, node(1, "n", "/c0/n1")]
    assert read(nodes, [edge(0, 1), edge(1, 0, subsystem="containment", relationship="in")]).n == 2
    with pytest.raises(InputError, match=r"graph.edges\[2\]: an edge from /c0/n1/k2 to /c0, which is not its child"):
        read([*nodes, node(2, "k", "/c0/n1/k2")], [edge(0, 1), edge(1, 2), edge(2, 0)])


def test_names_that_follow_a_rule_become_a_template() -> None:
    names = [node(i, "node", f"/c0/brook{i:03}", id=i, name=f"brook{i:03}") for i in range(8, 12)]
    made = read([ROOT, *names, node(20, "node", "/c0/login", id=20, name="login")], [edge(0, i) for i in (8, 9, 10, 11, 20)])
    assert {made.kinds[k].name for k in made.kind[1:5]} == {"brook${id:03}"}
    assert made.names == {5: "login"}


# -- auxiliary graphs ------------------------------------------------------------------------------------------------------


def test_a_subsystem_with_paths_is_a_hierarchy_with_pools_outside_containment() -> None:
    nodes = [
        node(9, "feed", {"power": "/feed0"}, id=0),
        ROOT,
        node(1, "n", {"containment": "/c0/n1", "power": "/feed0/n1"}),
    ]
    edges = [edge(0, 1), edge(9, 1, subsystem="power", relationship="feeds", attributes={"capacity": 2.5, "phase": "a"})]
    made = read(nodes, edges)
    power = made.subsystems["power"]
    assert (made.tree_end, made.n, power.hierarchy, made.where(2)) == (2, 3, True, "power:/feed0")
    assert list(power.rows()) == [(2, 1, {"subsystem": "power", "type": "feeds", "capacity": 2.5, "phase": "a"})]


def test_a_subsystem_without_paths_is_a_graph() -> None:
    nodes = [ROOT, node(1, "n", "/c0/n1"), node(2, "n", "/c0/n2")]
    link = read(nodes, [edge(0, 1), edge(0, 2), edge(1, 2, subsystem="net"), edge(2, 1, subsystem="net")]).subsystems["net"]
    assert (link.hierarchy, link.src.tolist(), link.dst.tolist(), link.relations) == (False, [1, 2], [2, 1], ["link"])


def test_two_parents_in_a_subsystem_make_it_a_graph() -> None:
    feeds = [node(2, "a", {"p": "/a0"}, id=0), node(3, "b", {"p": "/b0"}, id=0)]
    nodes = [ROOT, node(1, "n", {"containment": "/c0/n1", "p": "/b0/n1"}), *feeds]
    made = read(nodes, [edge(0, 1), edge(2, 1, subsystem="p"), edge(3, 1, subsystem="p")])
    assert not made.subsystems["p"].hierarchy


def test_path_may_lead_through_missing_pools() -> None:
    rack = node(1, "rack", {"containment": "/c0/rack1", "power": "/pdu0/rack1"})
    below = node(2, "n", {"containment": "/c0/rack1/n2", "power": "/pdu0/rack1/n2"})
    made = read([ROOT, rack, below], [edge(0, 1), edge(1, 2), edge(1, 2, subsystem="power")])
    assert (made.subsystems["power"].hierarchy, made.uris(2)[1]) == (True, "power:/rack1/n2")
    pdu = node(3, "pdu", {"power": "/pdu0"}, id=0)
    with pytest.raises(InputError, match="/pdu0/rack1 contradicts the edges of 'power'"):
        read([ROOT, rack, below, pdu], [edge(0, 1), edge(1, 2), edge(1, 2, subsystem="power")])


def test_graphs_that_fluxion_would_refuse_are_read_from_metadata() -> None:
    machine = registry.read(ROOT_FOLDER / "data" / "clusters" / "demo.yaml").structure
    written = registry.write(machine, format="jgf")
    assert written.note == "Fluxion does not see power: 2 roots; network: 3 pools outside containment"
    assert [line.partition(":")[0] for line in written.left_out] == ["properties"]
    document = json.loads(written.data)
    assert set(Fluxion.load(document).roots) == {"containment"}
    auxiliary = document["graph"]["metadata"]["auxiliary"]
    assert [n["metadata"].get("name") for n in auxiliary["nodes"]] == [None, None, "spine", None, None]
    again = registry.read(written.data).structure
    assert differences(machine, again, {"properties"}) == []
    assert registry.write(again, format="jgf").data == written.data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"edges": [edge(0, 7, subsystem="p")]},
            r"1:\d+: graph.metadata.auxiliary.edges\[0\].target: no node has the id '7'",
        ),
        ({"nodes": [node(2, "a", {}, size="x")]}, r"graph.metadata.auxiliary.nodes\[0\].metadata.size: expected a whole number"),
        ({"nodes": [node(1, "a", {})]}, r"graph.metadata.auxiliary.nodes\[0\].id: a second node with the id '1'"),
        ({"nodes": [node(2, "a", {}, within="9")]}, r"auxiliary.nodes\[0\].metadata.within: expected the id"),
        ({"edges": [edge(0, 1, subsystem="p"), edge(1, 0, subsystem="p")]}, r"metadata.graphs.p: hierarchy 'p' has a cycle"),
    ],
)
def test_faults_in_metadata_are_refused(change: dict[str, Any], words: str) -> None:
    graph = {"nodes": [ROOT, N1], "edges": [edge(0, 1)], "metadata": {"graphs": {"p": True}, "auxiliary": change}}
    with pytest.raises(InputError, match=words):
        registry.read(json.dumps({"graph": graph}).encode(), file="g.json")


# -- JSON Graph Format, and other forms ------------------------------------------------------------------------------------


def loaded(graph: dict[str, Any], **more: Any) -> Loaded:
    values = {"nodes": [ROOT, N1, N2], "edges": [edge(0, 1), edge(0, 2)], **graph}
    found = registry.read(json.dumps({"graph": values, **more}).encode(), file="g.json", origin=ORIGIN)
    # Fluxion's commands accept the same.
    assert len(query_jgf.read(yaml_document.load(json.dumps({"graph": values, **more}).encode())).nodes) == found.structure.n
    return found


def test_json_graph_format_data_is_kept_if_possible() -> None:
    found = loaded(
        {
            "id": "brook", "type": "cluster graph", "label": "Brook", "directed": True,
            "nodes": [ROOT, {**N1, "label": "first"}, {**N2, "label": "n2"}],
            "edges": [
                {**edge(0, 1), "directed": True, "relation": "contains"},
                {**edge(0, 2), "relation": None, "metadata": None},
                {**edge(1, 2, subsystem="net"), "relation": "links", "label": "blue", "id": 7},
                {**edge(2, 1, subsystem="net", relationship="ties", attributes={"id": "x"}), "relation": "links", "id": "e"},
            ],
        }
    )  # fmt: skip
    assert (found.name, found.notes) == ("Brook", ())
    assert found.structure.tags == {0: {"jgf.id": "brook", "jgf.type": "cluster graph"}, 1: {"label": "first"}}
    assert [row[2] for row in found.structure.subsystems["net"].rows()] == [
        {"subsystem": "net", "type": "links", "label": "blue", "id": 7},
        {"subsystem": "net", "type": "ties", "id": "x"},
    ]


@pytest.mark.parametrize(
    ("graph", "more", "named"),
    [
        ({}, {"version": 1}, "version"),
        ({"metadata": {"site": "here"}}, {}, "graph.metadata.site"),
        ({"label": "", "metadata": None, "color": {"a": [{"b": 1}]}}, {}, "graph.color"),
        ({"nodes": [ROOT, {**N1, "x": 1}, {**N2, "x": 2}]}, {}, "graph.nodes.x"),
        ({"nodes": [ROOT, node(1, "n", "/c0/n1", color=3), N2]}, {}, "graph.nodes.metadata.color"),
        ({"edges": [edge(0, 1, weight=3), edge(0, 2, weight=4)]}, {}, "graph.edges.metadata.weight"),
        ({"edges": [{**edge(0, 1), "label": "x", "id": "y"}, edge(0, 2)]}, {}, "graph.edges.label, graph.edges.id"),
        ({"edges": [edge(0, 1, attributes={"x": 1}), edge(0, 2)]}, {}, "graph.edges.metadata.attributes"),
        ({"edges": [edge(0, 1, name="x"), edge(0, 2)]}, {}, "graph.edges.metadata.name"),
        (
            {"nodes": [ROOT, node(1, "n", {"containment": "/c0/n1", "power": "/p0/n1"}), N2]},
            {},
            "graph.nodes.metadata.paths.power",
        ),
    ],
)
def test_unsupported_data_is_ignored_and_reported(graph: dict[str, Any], more: dict[str, Any], named: str) -> None:
    found = loaded(graph, **more)
    assert found.notes == (f"g.json: ignored, since a machine has no place for it: {named}",)
    assert equal(found.structure, loaded({}).structure) == []


def test_older_form_names_the_relationship_by_subsystem() -> None:
    both = edge(1, 2, name={"net": "links", "power": "feeds"})
    made = loaded({"edges": [edge(0, 1, name={"containment": "contains"}), edge(0, 2, name={"containment": "contains"}),
                             edge(2, 0, name={"containment": "in"}), both]}).structure  # fmt: skip
    assert {name: list(graph.rows()) for name, graph in made.subsystems.items()} == {
        "net": [(1, 2, {"subsystem": "net", "type": "links"})],
        "power": [(1, 2, {"subsystem": "power", "type": "feeds"})],
    }


def test_undirected_edges_follow_paths_or_lead_both_ways() -> None:
    fed = node(1, "n", {"containment": "/c0/n1", "power": "/c0/n1"})
    nodes = [node(0, "cluster", {"containment": "/c0", "power": "/c0"}, basename="c", id=0), fed, N2]
    edges = [edge(1, 0), edge(0, 2), edge(1, 2, subsystem="net"), edge(1, 0, subsystem="power")]
    made = loaded({"nodes": nodes, "directed": False, "edges": edges}).structure
    assert {name: [row[:2] for row in graph.rows()] for name, graph in made.subsystems.items()} == {
        "net": [(1, 2), (2, 1)], "power": [(0, 1)],
    }  # fmt: skip
    assert made.parent.tolist() == [-1, 0, 0]
    # Data of an edge overrides that of the graph.
    one_way = [{**row, "directed": True} for row in edges[2:3]]
    assert len(loaded({"directed": False, "edges": [edge(0, 1), edge(2, 0), *one_way]}).structure.subsystems["net"]) == 1
    undirected = [{**edge(1, 2, subsystem="net"), "directed": False}, {**edge(2, 1, subsystem="net"), "directed": False}]
    assert len(loaded({"edges": [edge(0, 1), edge(0, 2), *undirected]}).structure.subsystems["net"]) == 2
    with pytest.raises(InputError, match="an edge from /c0/n1 to /c0, which is not its child"):
        loaded({"edges": [edge(1, 0), edge(0, 2)]})
    with pytest.raises(InputError, match="/c0/n2 does not continue the path of its parent"):
        loaded({"directed": False, "edges": [edge(0, 1), edge(1, 2)]})


# -- what is wrong ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ([ROOT], [edge(0, 7)], r"g.json:1:\d+: graph.edges\[0\].target: no node has the id '7'"),
        ([ROOT, node(0, "n", "/c0/n0")], [], r"nodes\[1\].id: a second node with the id '0'"),
        ([ROOT, N1, N2, node(3, "k", "/c0/n1/k3")], [edge(0, 1), edge(0, 2), edge(1, 3), edge(2, 3)], "k3 is already in /c0/n1"),
        ([ROOT, N1], [edge(0, 1), edge(0, 1)], r"edges\[1\]: the edge to /c0/n1 is listed twice"),
        ([ROOT, N1], [], r"nodes\[1\]: no containment edge leads to /c0/n1"),
        ([ROOT, node(1, "n", "/c0/n2/n1"), node(2, "n", "/c0/n1/n2")], [edge(1, 2), edge(2, 1)], "does not continue"),
        ([ROOT, node(1, "n", "/c0/x/n1")], [edge(0, 1)], r"nodes\[1\].metadata.paths.containment: /c0/x/n1 does not continue"),
        ([ROOT, node(1, "n", "/c0/n1", name="b1")], [edge(0, 1)], "the name is 'b1', and the path ends in 'n1'"),
        ([ROOT, node(1, "n", "/c0/n1", id=7)], [edge(0, 1)], r"nodes\[1\].metadata.id: the id makes the name 'n7'"),
        ([ROOT, node(1, "n", "/c0/n1"), node(2, "n", "/c0/n1")], [edge(0, 1), edge(0, 2)], "a second node of the path"),
        ([ROOT, node(1, "c", "/c1")], [], "would be a second root of containment"),
        ([node(1, "n", "/c0/n1")], [], "no node is the root"),
        ([], [], "expected at least one node"),
        ([ROOT, node(1, "n", {})], [edge(0, 1)], "which has no containment path"),
        ([node(0, "a/b", "/a0")], [], "'a/b' has a character that is not allowed in paths"),
        ([node(0, "a", "/a0", size=0)], [], r"size: expected a whole number of at least 1, got 0"),
        ([node(0, "a", "/a0", size=2**64)], [], r"size: expected a whole number"),
        ([node(0, "a", "/a0", rank=2**31)], [], r"rank: expected a whole number"),
        ([node(0, "a", "/a0", status=2)], [], r"status: expected one of 0, 1"),
        ([node(0, "a", "/a0", state="off")], [], r"state: expected one of"),
        ([node(0, "a", "/a0"), node(1, "b", {"p": "/x0/b1"})], [], r"no edge of 'p' leads there"),
        ([ROOT, node(1, "n", "/c0/n1", uuid="u"), node(2, "n", "/c0/n2", uuid="u")], [edge(0, 1), edge(0, 2)], "uuid u is also"),
        ([ROOT, node(1, "n", {"containment": "/c0/n1", "p": "/f0/z"}), node(2, "f", {"p": "/f0"}, id=0)],
         [edge(0, 1), edge(2, 1, subsystem="p")], r"paths.p: /f0/z contradicts the edges"),
        ([node(0, "a", "/a0", size=4, capacity=3)], [], "capacity: expected the full size, at least 4, got 3"),
        ([ROOT, N1], [edge(0, 1), edge(0, 1, subsystem="p", attributes={"type": 1})], "attributes.type: every edge already has"),
        ([ROOT, node(1, "n", "/c0/n1", within="0")], [edge(0, 1)], r"within: expected the id of a node outside"),
    ],
)  # fmt: skip
def test_contradictory_graphs_are_refused(nodes: list[Node], edges: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(nodes, edges)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b'{"graph":{"nodes":' + b"[" * 100_000, "g.json:1:1042: is not JSON: .*depth (limit )?exceeded"),
        (b'{"graph":{"nodes":[{"id":"0"', r"g.json:1:29: is not JSON: unexpected end of data"),
        (b'{"graph":{"nodes":[{"id":"0","metadata":{"type":"\xff","paths":{}}}]}}', "g.json:1:50: byte 0xff is not UTF-8"),
        (b'{"graph":{"nodes":[{"id":"0","metadata":{"type":"a","size":NaN,"paths":{}}}]}}', "g.json:1:60: is not JSON"),
        (b'{"graph":{"nodes":3}}', r"g.json:1:19: graph.nodes: expected a list, got 3"),
        (b'{"graph":{"nodes":[]},"writer":"other:x"}', "unknown writer 'other:x'"),
    ],
)
def test_texts_that_are_not_graphs_are_refused(text: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        registry.read(text, file="g.json", format="jgf")


def test_levels_are_bounded() -> None:
    paths = ["/a0"]
    for i in range(1, 70):
        paths.append(f"{paths[-1]}/a{i}")
    with pytest.raises(LimitExceeded, match=r"graph.nodes\[64\]: more than 64 levels"):
        read([node(i, "a", path) for i, path in enumerate(paths)], [edge(i, i + 1) for i in range(69)])


# -- in and out ------------------------------------------------------------------------------------------------------------


def test_machine_with_graphs_is_written_identically_again() -> None:
    machine = demo()
    first = registry.write(machine, name="other", format="jgf")
    loaded = registry.read(first.data, origin=ORIGIN)
    assert (first.left_out, equal(machine, loaded.structure), loaded.name) == ([], [], "other")
    assert registry.write(loaded.structure, name="other", format="jgf").data == first.data


def test_files_contain_what_fluxion_reads() -> None:
    node_of = Recipe("node", children=(Recipe("core"), Recipe("memory", size=4, unit="GB")))
    machine = expand(Recipe("cluster", children=(node_of,)), origin=0)
    graph = json.loads(registry.write(machine, format="jgf").data)["graph"]
    assert graph["nodes"][2:] == [
        {"id": "2", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/cluster/node0/core0"}}},
        {
            "id": "3",
            "metadata": {
                "type": "memory", "id": 0, "rank": 0, "unit": "GB", "size": 4, "paths": {"containment": "/cluster/node0/memory0"},
            },
        },
    ]  # fmt: skip
    assert graph["edges"] == [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}, {"source": "1", "target": "3"}]


def test_many_unordered_uuids_are_written_in_the_nodes() -> None:
    machine = expand(Recipe("cluster", children=(Recipe("core", 600),)), origin=ORIGIN)
    machine.serial[:] = np.random.default_rng(1).permutation(machine.n)
    machine.uuid_texts[5] = "mine"
    text = registry.write(machine, format="jgf").data
    assert equal(machine, registry.read(text).structure) == []


def test_shorthand_leaves_out_pools_below_exclusive_ones_and_is_marked() -> None:
    nodes = Recipe("node", 2, exclusive=True, children=(Recipe("core", 3),))
    login = Recipe("node", basename="login", children=(Recipe("core", 2),))
    machine = expand(Recipe("cluster", children=(nodes, login)), origin=ORIGIN)
    for written in (registry.write(machine, format="jgf", shorthand=True), registry.write(machine, format="jgf_shorthand")):
        assert written.left_out == ["pools: what is below exclusive ones; 6 pools, such as /cluster/node0/core0"]
        assert json.loads(written.data)["writer"] == "fluxion:jgf_shorthand"
        again = registry.read(written.data).structure
        assert [again.path(v) for v in range(1, again.n)] == [
            "/cluster/node0", "/cluster/node1", "/cluster/login0", "/cluster/login0/core0", "/cluster/login0/core1",
        ]  # fmt: skip


def test_released_ranks_are_a_tag() -> None:
    assert read([ROOT], free_ranks="0-3").tags == {0: {"free_ranks": "0-3"}}
    with pytest.raises(InputError, match="free_ranks: expected an id"):
        read([ROOT], free_ranks="x")


def test_schema_matches_the_types() -> None:
    written = json.loads((ROOT_FOLDER / "specs" / "schemas" / "jgf.schema.json").read_text())
    assert written == jgf_schema.json_schema()
