"""Exports are read by other programs: networkx, csv, pyarrow, and a DOT reader of a few lines."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from typing import Any

import jsonschema
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.format import Hold
from fluxres.formats.graphs import node_link
from fluxres.formats.pool_texts import PoolTexts
from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.compare import equal
from fluxres.graph.kinds import Kind
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.graph.views import node_data
from fluxres.model import ResourceGraph
from tests.formats.round_trip import facts_of
from tests.formats.structures import structures
from tests.formats.test_round_trip import PHASES, SLOW
from tests.traceability import ROOT

ORIGIN = 8 << 76 | 2 << 62


def demo() -> Structure:
    return registry.read(ROOT / "data" / "clusters" / "demo.yaml").structure


def written(structure: Structure, format: str, **options: Any) -> registry.Written:
    return registry.write(structure, [], name=structure.name(0), format=format, **options)


# -- texts of all pools --------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
def test_bulk_names_paths_and_uuids_equal_single_ones(structure: Structure) -> None:
    texts = PoolTexts(structure)
    every = range(structure.n)
    assert texts.names == [structure.name(v) for v in every]
    assert texts.paths == [structure.path(v) for v in every]
    assert texts.uuids == [structure.uuid(v) for v in every]
    assert PoolTexts(structure, lambda text: text.replace("a", "<a>")).paths == [p.replace("a", "<a>") for p in texts.paths]


# -- graphs for networkx -------------------------------------------------------------------------------------------------


def same_in_networkx(structure: Structure, graph: Any, key: Any) -> None:
    """Nodes with the attributes of the views, and all edges of all graphs."""
    assert graph.number_of_nodes() == structure.n
    for v in range(structure.n):
        expected, found = node_data(structure, v), graph.nodes[key(v)]
        for name in ("type", "name", "size", "uuid"):
            assert found[name] == expected[name]
        assert found.get("number") == expected["id"]
        assert found.get("unit") == expected["unit"]
        assert found.get("state", "up") == expected["state"]
    tree = {(key(int(up)), key(v)) for v, up in enumerate(structure.parent) if up >= 0}
    edges = [(u, v, data) for u, v, data in graph.edges(data=True)]
    assert {(u, v) for u, v, data in edges if data.get("subsystem", "containment") == "containment"} == tree
    for name, subsystem in structure.subsystems.items():
        expected_edges = sorted((key(u), key(v), data["type"], data.get("capacity")) for u, v, data in subsystem.rows())
        found_edges = [(u, v, d["type"], d.get("capacity")) for u, v, d in edges if d.get("subsystem") == name]
        assert sorted(found_edges) == expected_edges


def test_networkx_reads_node_link() -> None:
    structure = demo()
    graph = nx.node_link_graph(json.loads(written(structure, "node-link").data), edges="edges")
    same_in_networkx(structure, graph, int)
    assert graph.graph["name"] == "demo"


def test_networkx_reads_graphml() -> None:
    structure = demo()
    graph = nx.read_graphml(io.BytesIO(written(structure, "graphml").data))
    same_in_networkx(structure, graph, str)


def test_machine_survives_networkx() -> None:
    structure = demo()
    graph = nx.node_link_graph(json.loads(written(structure, "node-link").data), edges="edges")
    for edges in ("edges", "links"):
        again = registry.read(json.dumps(nx.node_link_data(graph, edges=edges)).encode())
        assert equal(structure, again.structure) == []
        assert again.name == "demo"
    buffer = io.BytesIO()
    nx.write_graphml(nx.read_graphml(io.BytesIO(written(structure, "graphml").data)), buffer)
    assert equal(structure, registry.read(buffer.getvalue()).structure) == []


def test_machine_built_in_networkx() -> None:
    graph = nx.DiGraph(name="lab")
    graph.add_node("c", type="cluster")
    for i in range(3):
        graph.add_node(("n", i)[0] + str(i), type="node", number=i)
        graph.add_edge("c", f"n{i}")
    loaded = registry.read(json.dumps(nx.node_link_data(graph, edges="edges")).encode())
    assert loaded.name == "lab"
    assert [loaded.structure.path(v) for v in range(4)] == ["/cluster", "/cluster/node0", "/cluster/node1", "/cluster/node2"]
    assert loaded.structure.rank.tolist() == [-1, 0, 1, 2]


def test_view_written_by_networkx_keeps_exclusive_flags() -> None:
    nodes = Recipe("node", 3, exclusive=True, children=(Recipe("core", 2),))
    g = ResourceGraph(expand(Recipe("cluster", children=(nodes,)), origin=uuids.new_origin()))
    loaded = registry.read(json.dumps(nx.node_link_data(g.containment, edges="edges")).encode())
    assert loaded.structure.flags.tolist() == g.structure.flags.tolist()


def test_node_link_keeps_allocations() -> None:
    structure = demo()
    holds = [Hold("j1", 0.5, None, {5: 1, 6: 1}), Hold("j2", 10.0, 20.0, {1: 1})]
    loaded = registry.read(registry.write(structure, holds, name="demo", format="node-link").data)
    assert loaded.allocations == holds


def test_schema_in_specs_equals_that_of_the_code() -> None:
    schema = json.loads((ROOT / "specs" / "node-link.schema.json").read_text())
    assert schema == node_link.json_schema()
    jsonschema.validate(json.loads(written(demo(), "node-link").data), schema)


def test_losses_in_json_and_xml() -> None:
    structure = expand(Recipe("cluster", children=(Recipe("node", 2, properties={"a": float("inf")}),)), origin=ORIGIN)
    ends = np.array([[1], [2]], np.int32)
    columns = {"capacity": np.array([np.inf]), "key": np.array(["x"], object)}
    structure.subsystems["net"] = Subsystem("net", False, ends[0], ends[1], attributes=columns)
    assert written(structure, "node-link").left_out == [
        "properties: infinite values; 2 pools, such as /cluster/node0",
        "graphs: key of edges of net, which have another meaning there",
        "graphs: infinite values of capacity, of 1 edge of net",
    ]
    assert written(structure, "graphml").left_out == []
    structure.names[1] = "a\x01b"
    with pytest.raises(UsageError, match="has characters that XML does not allow"):
        written(structure, "graphml")


NODES = [{"id": 0, "type": "cluster"}, {"id": 1, "type": "node", "number": 0}]


@pytest.mark.parametrize(
    ("document", "message", "where"),
    [
        ({"nodes": []}, "at least one|empty", "nodes"),
        ({"nodes": [{"id": 1}]}, "'type' is missing", "nodes[0]"),
        ({"nodes": [*NODES, {"id": 1, "type": "x"}]}, "the id 1 is also that of another node", "nodes[2].id"),
        ({"nodes": NODES}, "has no parent and is in no auxiliary graph", "nodes[1]"),
        ({"nodes": NODES, "edges": [{"source": 0, "target": 2}]}, "no node has the id 2", "edges[0].target"),
        ({"nodes": NODES, "edges": [{"source": 0, "target": 1}] * 2}, "leads to a pool that already has a parent", "edges[1]"),
        ({"nodes": NODES, "edges": [{"source": 0}]}, "expected the id of a node as target", "edges[0]"),
        ({"nodes": NODES, "edges": [{"source": 0, "target": 1, "x": []}, {"source": 0, "target": 1, "subsystem": "n", "y": []}]},
         "expected text, a number", "edges[1].y"),
        ({"nodes": NODES, "links": [{"source": 0, "target": 1, "subsystem": 7}]}, "expected text, got 7", "links[0].subsystem"),
        ({"nodes": NODES, "edges": [{"source": 0, "target": 1, "subsystem": "n", "capacity": -1}]},
         "expected a number of at least 0", "edges[0].capacity"),
        ({"nodes": [{"id": 0, "type": "node", "size": 2**63}]}, "expected", "nodes[0].size"),
        ({"nodes": [{"id": 0, "type": "node", "colour": 1}]}, "unknown key 'colour'", "nodes[0].colour"),
        ({"nodes": NODES, "directed": False, "edges": []}, "expected true|True", "directed"),
        ({"nodes": [{"id": 0, "type": "a"}], "graph": {"subsystems": {}, "allocations": [
            {"job": "j", "start": 0, "end": 1, "pools": [[9, 1]]}]}}, "no node has the id 9", "allocations[0].pools[0]"),
    ],
)  # fmt: skip
def test_errors_in_a_graph_have_a_place(document: dict[str, Any], message: str, where: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        registry.read(json.dumps(document).encode(), format="node-link", file="g.json")
    assert re.match(r"g\.json:\d+:\d+", caught.value.where)
    assert where in caught.value.where


GRAPHML = (
    '<graphml><key id="t" for="node" attr.name="type"/><key id="s" for="node" attr.name="{name}"/>\n'
    '<graph edgedefault="directed">\n<node id="0"><data key="t">cluster</data><data key="s">{value}</data></node>\n'
    "{more}</graph></graphml>"
)


@pytest.mark.parametrize(
    ("name", "value", "more", "message", "line"),
    [
        ("size", "x", "", "expected a whole number", 3),
        ("size", "99999999999999999999", "", "expected a whole number", 3),
        ("state", "off", "", "expected one of up", 3),
        ("exclusive", "perhaps", "", "expected true or false", 3),
        ("properties", "[1]", "", "expected a mapping in JSON", 3),
        ("properties", '{"a": [1]}', "", "cannot be", 3),
        ("tags", '{"a": 1}', "", "cannot be", 3),
        ("properties", "[" * 100_000, "", "expected a mapping in JSON", 3),
        ("unit", "x" * 300, "", "at most 255 characters", 3),
        ("rank", "4294967296", "", "expected at most", 3),
        ("x", "", '<node id="0"/>', "expected an id that no other node has", 4),
        ("x", "", '<node id="1"/>', "expected a type, got none", 4),
        ("x", "", '<edge source="0" target="7"/>', "no node has the id '7'", 4),
        ("x", "", '<node id="1"><data key="t">a</data></node>', "has no parent", 4),
    ],
)  # fmt: skip
def test_errors_in_graphml_have_a_line(name: str, value: str, more: str, message: str, line: int) -> None:
    with pytest.raises(InputError, match=message) as caught:
        registry.read(GRAPHML.format(name=name, value=value, more=more).encode(), format="graphml", file="g.xml")
    assert caught.value.where == f"g.xml:{line}"


def test_a_name_may_have_several_keys() -> None:
    # networkx has separate keys for integers and floats, and for nodes and edges, like size and capacity here.
    graph = nx.DiGraph(name="lab")
    graph.add_node("c", type="cluster", size=1)
    graph.add_node("n", type="node", size="7", number=3)
    graph.add_node("m", type="node", size=9)
    graph.add_edges_from([("c", "n"), ("c", "m")], type="has-a", subsystem="containment")
    graph.add_edge("n", "m", type="feeds", subsystem="power", capacity=2)
    graph.add_edge("m", "n", type="backs", subsystem="power", capacity=2.5)
    buffer = io.BytesIO()
    nx.write_graphml(graph, buffer)
    assert buffer.getvalue().count(b'attr.name="size"') == buffer.getvalue().count(b'attr.name="capacity"') == 2
    assert buffer.getvalue().count(b'attr.name="type"') == 2
    loaded = registry.read(buffer.getvalue())
    assert (loaded.name, loaded.structure.size.tolist()) == ("lab", [1, 7, 9])
    assert loaded.structure.path(1) == "/cluster/node3"
    power = loaded.structure.subsystems["power"]
    assert [(data["type"], data["capacity"]) for _, _, data in power.rows()] == [("feeds", 2.0), ("backs", 2.5)]


def test_nested_values_of_tools_are_ignored() -> None:
    text = """<graphml><key id="d0" for="node" yfiles.type="nodegraphics"/><key id="t" for="all" attr.name="type"/>
    <key id="n" for="node" attr.name="name"/><graph edgedefault="directed"><desc>drawn</desc>
    <node id="a"><data key="d0"><y:Node xmlns:y="y"><y:Label>x<data key="t">rack</data></y:Label></y:Node></data>
    <data key="t">cl<!-- c -->us<![CDATA[ter]]></data><port name="p"/></node>
    <node id="b"><data key="t">node</data><data key="n">x<b>not this</b>y</data><data key="n"/><data key="n">n1</data></node>
    <edge source="a" target="b"><data key="other">1</data></edge></graph></graphml>"""
    found = registry.read(text.encode()).structure
    assert [found.path(v) for v in range(found.n)] == ["/cluster", "/cluster/n1"]


def test_keys_have_defaults() -> None:
    text = """<graphml><key id="t" for="node" attr.name="type"><default>core</default></key>
    <key id="s" attr.name="size"><default>4</default></key>
    <key id="e" for="edge" attr.name="subsystem"><default>net</default></key>
    <key id="r" for="edge" attr.name="unit"><default>no unit of a pool</default></key>
    <graph edgedefault="directed"><node id="a"><data key="t">cluster</data><data key="s"></data></node><node id="b"/>
    <edge source="a" target="b"><data key="e"></data></edge><edge source="b" target="a"/></graph></graphml>"""
    found = registry.read(text.encode()).structure
    assert [(found.path(v), found.size.item(v), found.kind_of(v).unit) for v in range(found.n)] == [
        ("/cluster", 1, None),
        ("/cluster/core", 4, None),
    ]
    assert [(u, v) for u, v, _ in found.subsystems["net"].rows()] == [(1, 0)]


def test_keys_and_their_defaults_are_bounded() -> None:
    keys = '<key id="t" attr.name="type"/>\n' * 256
    nodes = '<graph><node id="a"><data key="t">cluster</data></node></graph></graphml>'
    assert registry.read(f"<graphml>{keys}{nodes}".encode(), format="graphml").structure.n == 1
    with pytest.raises(LimitExceeded, match="<text>:257: more than 256 keys"):
        registry.read(f"<graphml>{keys}<key/>{nodes}".encode(), format="graphml")
    long = f'<graphml>\n<key id="p" attr.name="unit"><default>{"x" * 4097}</default></key>{nodes}'
    with pytest.raises(LimitExceeded, match="<text>:2: a default of 4097 characters"):
        registry.read(long.encode(), format="graphml")


def test_graphs_that_are_not_machines_are_refused() -> None:
    for text, message in [
        (b"<graphml></graphml>", "with one <graph>, got 0"),
        (b"<graphml><graph edgedefault='directed'/></graphml>", "describes no pool"),
        (b"<graphml><graph edgedefault='undirected'/></graphml>", "is undirected"),
        (b"<svg/>", "expected <graphml>"),
        (b"<graphml><graph><node id='a'/>\n<hyperedge/></graph></graphml>", "<text>:2: is an edge of several nodes"),
        (b"<graphml><graph><node id='a'>\n<graph/></node></graph></graphml>", "<text>:2: is a graph within a node"),
        (b"<graphml><graph><node id='a'/>\n<edge directed='false'/></graph></graphml>", "<text>:2: is undirected"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><graphml/>", "entities are not supported"),
    ]:
        with pytest.raises(InputError, match=message):
            registry.read(text, format="graphml")


# -- drawings ------------------------------------------------------------------------------------------------------------

_DOT = re.compile(r"  (\d+)(?: -> (\d+))?(?: \[(.*)\])?;$")
_ATTRIBUTE = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\w+))')


@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
def test_dot_has_every_pool_and_every_edge(structure: Structure) -> None:
    lines = written(structure, "dot").text.split("\n")
    assert (lines[0][:9], lines[1], lines[-2:]) == ('digraph "', "  node [shape=box];", ["}", ""])
    nodes, edges = {}, []
    for line in lines[2:-2]:
        found = _DOT.match(line)
        assert found, line
        attributes = {m[1]: m[2] if m[2] is not None else m[3] for m in _ATTRIBUTE.finditer(found[3] or "")}
        if found[2] is None:
            nodes[int(found[1])] = attributes
        else:
            edges.append((int(found[1]), int(found[2]), attributes.get("subsystem")))
    assert len(nodes) == structure.n
    for v, attributes in nodes.items():
        label = attributes["label"].split("\\n")[0].replace('\\"', '"').replace("\\\\", "\\")
        assert label == structure.name(v) or "\\" in structure.name(v)
        assert attributes.get("state", "up") == structure.state_name(v)
    tree = [(int(up), v, None) for v, up in enumerate(structure.parent) if up >= 0]
    others = [(u, v, name) for name, graph in structure.subsystems.items() for u, v, _ in graph.rows()]
    assert sorted(edges, key=str) == sorted(tree + others, key=str)


# -- tables --------------------------------------------------------------------------------------------------------------


def rows_of(structure: Structure) -> list[dict[str, Any]]:
    """The expected table of pools, pool by pool."""
    found = []
    for v in range(structure.tree_end):
        data = node_data(structure, v)
        data = dict(data)
        data["exclusive"] = data.pop("exclusive_only")
        found.append(data)
    return found


@settings(max_examples=60, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
def test_csv_is_read_by_every_reader_of_csv(structure: Structure) -> None:
    result = written(structure, "csv")
    found = list(csv.DictReader(io.StringIO(result.text, newline="")))
    assert len(found) == structure.tree_end
    for row, expected in zip(found, rows_of(structure), strict=True):
        for key in ("path", "type", "basename", "name", "state", "uuid"):
            assert row[key] == expected[key]
        assert row["unit"] == (expected["unit"] or "")
        assert [row[key] for key in ("id", "rank", "size")] == [
            "" if expected[key] is None else str(expected[key]) for key in ("id", "rank", "size")
        ]
        assert row["exclusive"] == str(expected["exclusive"]).lower()
        assert json.loads(row["properties"] or "{}") == expected["properties"]
        assert json.loads(row["tags"] or "{}") == expected["tags"]
    assert facts_of(result.left_out) <= {"graphs", "capacities"}


@settings(max_examples=30, deadline=None, phases=PHASES, suppress_health_check=SLOW)
@given(structure=structures())
def test_parquet_is_read_by_pyarrow(structure: Structure) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(written(structure, "parquet").data))
    assert table.schema.metadata[b"fluxres.name"].decode() == structure.name(0)
    for row, expected in zip(table.to_pylist(), rows_of(structure), strict=True):
        assert json.loads(row.pop("properties") or "{}") == expected.pop("properties")
        assert json.loads(row.pop("tags") or "{}") == expected.pop("tags")
        assert row == expected


def test_parquet_without_pyarrow_gives_a_hint_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"needs pyarrow.*pip install pyarrow"):
        written(demo(), "parquet")


def test_tables_report_what_they_leave_out() -> None:
    structure = demo()
    lost = ["graphs: power, network, with 30 edges", "graphs: 5 pools outside the tree, such as power:/pdu0"]
    assert written(structure, "csv").left_out == lost
    assert registry.write(structure, [], name="other", format="csv").left_out[-1].startswith("names: of the machine, 'other'")
    structure.kind[1] = structure.kinds.intern(Kind("rack", "r,a\n"))
    assert '"/demo/r,a\n0",rack,"r,a\n","r,a\n0"' in written(structure, "csv").text
