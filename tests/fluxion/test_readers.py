"""Graphs from files: the vertices of each format, and refusals."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import safe_xml, yaml_document
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.fluxion import jgf, loading, rv1
from fluxres.fluxion.graph import Graph
from fluxres.formats.flux import grug
from fluxres.formats.hwloc import cluster as hwloc
from tests.fluxion import conftest

ROOT = '<node id="a"><data key="root">1</data><data key="type">x</data></node>'
HEADER = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'


def rows(graph: Graph) -> list[str]:
    return [f"{vertex.uniq_id} {vertex.path} {vertex.id} {vertex.rank}" for vertex in graph.vertices]


def built(text: str) -> Graph:
    return loading.from_recipe(grug.parse(text.encode()))


def test_recipes_make_vertices_rule_by_rule() -> None:
    graph = built(conftest.grug((("cluster", "rack", 2, 0), ("rack", "node", 2, 1), ("node", "core", 1, 2))))
    assert rows(graph) == [
        "0 /m0 0 -1", "1 /m0/rack0 0 -1", "2 /m0/rack1 1 -1", "3 /m0/rack0/node0 0 0", "4 /m0/rack0/node1 1 1",
        "5 /m0/rack1/node2 2 2", "6 /m0/rack1/node3 3 3", "7 /m0/rack0/node0/core0 0 -1", "8 /m0/rack0/node1/core1 1 -1",
        "9 /m0/rack1/node2/core2 2 -1", "10 /m0/rack1/node3/core3 3 -1",
    ]  # fmt: skip


def test_ids_follow_start_and_step_of_the_rule() -> None:
    text = conftest.grug((("cluster", "node", 3, 0),)).replace(
        "</edge>", '<data key="id_start">10</data><data key="id_stride">5</data></edge>'
    )
    assert [vertex.name for vertex in built(text).vertices] == ["m0", "node10", "node15", "node20"]


def test_defaults_of_the_file_apply() -> None:
    text = (
        f'{HEADER}<key id="s" for="node" attr.name="size"><default>7</default></key>'
        '<key id="r" for="node" attr.name="root"/><graph><node id="a"><data key="type">cluster</data>'
        '<data key="r">1</data></node></graph></graphml>'
    )
    assert grug.parse(text.encode()).kinds == (grug.Kind("a", "cluster", "cluster", size=7, is_root=True),)


def test_pools_are_linked_by_path() -> None:
    extra = (
        '<node id="pp"><data key="root">1</data><data key="type">panel</data><data key="subsystem">power</data></node>'
        '<node id="pr"><data key="type">rack</data></node><node id="pn"><data key="type">node</data></node>'
        '<edge source="pp" target="pr"><data key="e_subsystem">power</data><data key="gen_method">ASSOCIATE_IN</data></edge>'
        '<edge source="pr" target="pn"><data key="e_subsystem">power</data>'
        '<data key="gen_method">ASSOCIATE_BY_PATH_IN</data><data key="as_src_uplvl">0</data></edge></graph>'
    )
    graph = built(conftest.grug((("cluster", "rack", 2, 0), ("rack", "node", 2, 1))).replace("</graph>", extra))
    assert [vertex.paths.get("power") for vertex in graph.by_type["node"]] == [
        "/panel0/rack0/node0", "/panel0/rack0/node1", "/panel0/rack1/node2", "/panel0/rack1/node3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "one <graph>"),
        ("<graph/><graph/>", "one <graph>"),
        ("<graph/>", "root 1"),
        ('<graph><node id="a"/></graph>', "type"),
        ('<graph><node><data key="type">x</data></node></graph>', "'id'"),
        ('<graph><node id="a"><data key="type">x</data><data key="size">-1</data></node></graph>', "size"),
        ('<graph><node id="a"><data key="type">x</data><data key="size">many</data></node></graph>', "size"),
        ('<graph><node id="a"><data key="type">x</data></node><node id="a"><data key="type">x</data></node></graph>', "twice"),
        (f'<graph>{ROOT}<edge source="a" target="b"/></graph>', "'b'"),
        (f'<graph>{ROOT}<edge source="a" target="a"><data key="gen_method">GROW</data></edge></graph>', "gen_method"),
        ("<key/><graph/>", "without id"),
    ],
)
def test_invalid_recipes(body: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        grug.parse(f"{HEADER}{body}</graphml>".encode(), file="g.xml")
    assert "g.xml:1" in str(caught.value)
    assert message in str(caught.value)


def test_recipes_are_bounded() -> None:
    with pytest.raises(LimitExceeded):
        built(conftest.grug((("cluster", "rack", 10_000, 0), ("rack", "node", limits.POOLS_MAX // 1000, 0))))
    chain = [(f"l{number}", f"l{number + 1}", 1, 0) for number in range(limits.DEPTH_MAX + 1)]
    with pytest.raises(LimitExceeded):
        built(conftest.grug(chain))
    with pytest.raises(LimitExceeded):
        grug.parse(conftest.grug((("cluster", "node", limits.SIZE_MAX + 1, 0),)).encode())
    with pytest.raises(InputError):
        built(
            conftest.grug((("cluster", "node", 1, 0),))
            .replace("<edge ", '<edge x="" ')
            .replace("</edge>", '<data key="e_subsystem">power</data></edge>')
        )


def test_xml_declares_no_entities_and_fetches_nothing(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE a [<!ENTITY x "' + "y" * 100 + '">]><a>&x;</a>'
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    outside = f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]><a>&x;</a>'
    parameter = f'<!DOCTYPE a [<!ENTITY % x SYSTEM "file://{secret}"> %x;]><a/>'
    for text in (bomb, outside, parameter):
        with pytest.raises(InputError, match="entit"):
            safe_xml.load(text.encode())
    assert safe_xml.load(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd"><a/>').name == "a"


@pytest.mark.parametrize(
    "data", [b"", b"<a>", b"<a></b>", b"\xff\xfe", b"<a>&nbsp;</a>", b'<?xml version="1.0" encoding="none"?><a/>']
)
def test_text_that_is_not_xml(data: bytes) -> None:
    with pytest.raises(InputError):
        safe_xml.load(data)


def test_xml_is_bounded_in_depth() -> None:
    deep = limits.DOCUMENT_DEPTH_MAX + 1
    with pytest.raises(LimitExceeded):
        safe_xml.load(b"<a>" * deep + b"</a>" * deep)


@given(st.binary(max_size=60) | st.text(alphabet="<>/=\"' aeg&;!?-[]", max_size=60).map(str.encode))
@settings(max_examples=200)
def test_any_bytes_are_a_tree_or_an_error(data: bytes) -> None:
    for read in (safe_xml.load, grug.parse, hwloc.parse):
        with contextlib.suppress(FluxresError):
            read(data)


def document(values: Any) -> yaml_document.Document:
    return yaml_document.load(json.dumps(values).encode(), file="g.json")


def vertex(key: str, path: str, **more: Any) -> dict[str, Any]:
    return {"id": key, "metadata": {"type": "node", "paths": {"containment": path}, **more}}


def loaded(tmp_path: Path, *nodes: dict[str, Any], format_: str = "jgf") -> Graph:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"graph": {"nodes": nodes, "edges": []}}), encoding="utf-8")
    return loading.load(str(path), format_)


def test_jgf_defaults(tmp_path: Path) -> None:
    graph = loaded(
        tmp_path,
        {"id": "0", "metadata": {"type": "cluster", "paths": {"containment": "/c"}, "name": "c"}},
        vertex("3", "/c/tux12", name="tux12", rank=4, status=1, size=3, unit="x", properties={"a": ""}),
        vertex("4", "/c/node4"),
        {"id": "x", "metadata": {"type": "core", "basename": "cpu", "uniq_id": 9, "paths": {"containment": "/c/cpu9"}}},
    )
    assert [(one.uniq_id, one.name, one.id, one.rank, one.size, one.up) for one in graph.vertices] == [
        (0, "c", 0, -1, 1, True),
        (3, "tux12", 12, 4, 3, False),
        (4, "node4", 4, -1, 1, True),
        (9, "cpu9", 9, -1, 1, True),
    ]
    assert graph.vertices[1].properties == {"a": ""}


def test_jgf_in_a_resource_set() -> None:
    inner = {"graph": {"nodes": [vertex("0", "/n")], "edges": []}, "writer": "fluxion:jgf", "free_ranks": "1-2"}
    found = jgf.read(document({"version": 1, "execution": {}, "scheduling": inner}))
    assert (found.writer, found.free_ranks, len(found.nodes)) == ("fluxion:jgf", (1, 2), 1)


@pytest.mark.parametrize(
    "values",
    [
        [], {}, {"graph": []}, {"graph": {}}, {"graph": {"nodes": {}}}, {"graph": {"nodes": [3]}},
        {"graph": {"nodes": [{"id": 0, "metadata": {}}]}},
        {"graph": {"nodes": [{"id": "0", "metadata": {"type": "node"}}]}},
        {"graph": {"nodes": [vertex("0", "n")]}}, {"graph": {"nodes": [vertex("0", "/")]}},
        {"graph": {"nodes": [vertex("0", "/n", rank="0")]}}, {"graph": {"nodes": [vertex("0", "/n", size=-1)]}},
        {"graph": {"nodes": [vertex("0", "/n", size=2**63)]}}, {"graph": {"nodes": [vertex("0", "/n", exclusive=1)]}},
        {"graph": {"nodes": [vertex("0", "/n", properties={"a": 1})]}},
        {"graph": {"nodes": [vertex("0", "/n"), vertex("0", "/m")]}},
        {"graph": {"nodes": [vertex("0", "/n")], "edges": [{"source": "0"}]}},
        {"graph": {"nodes": [vertex("0", "/n")], "edges": [{"source": "0", "target": "1"}]}},
        {"graph": {"nodes": [vertex("0", "/n")], "edges": [{"source": "0", "target": "0", "metadata": 3}]}},
        {"graph": {"nodes": []}, "free_ranks": "x"}, {"graph": {"nodes": []}, "writer": 3},
    ],
)  # fmt: skip
def test_invalid_jgf(values: Any) -> None:
    with pytest.raises(InputError):
        jgf.read(document(values))


def test_jgf_without_one_root(tmp_path: Path) -> None:
    for nodes in ([vertex("0", "/a"), vertex("1", "/b")], [vertex("0", "/a/b")], [vertex("x", "/a")]):
        with pytest.raises(InputError):
            loaded(tmp_path, *nodes)


def resource_set(*entries: tuple[str, str], nodelist: list[str], **more: Any) -> dict[str, Any]:
    lite = [{"rank": ranks, "children": {"core": cores, "asic": "0"}} for ranks, cores in entries]
    return {"version": 1, "execution": {"R_lite": lite, "nodelist": nodelist, **more}}


def test_a_cluster_of_a_resource_set(tmp_path: Path) -> None:
    path = tmp_path / "R"
    values = resource_set(("1", "0-1"), ("0", "3"), nodelist=["tux[07,8]"], properties={"ssd@x": "1"})
    path.write_text(json.dumps(values), encoding="utf-8")
    graph = loading.load(str(path), "rv1exec")
    assert rows(graph) == [
        "0 /cluster0 0 -1", "1 /cluster0/tux8 8 1", "2 /cluster0/tux8/core0 0 1", "3 /cluster0/tux8/core1 1 1",
        "4 /cluster0/tux8/asic0 0 1", "5 /cluster0/tux07 7 0", "6 /cluster0/tux07/core3 3 0", "7 /cluster0/tux07/asic0 0 0",
    ]  # fmt: skip
    assert graph.vertices[1].properties == {"ssd@x": ""}


@pytest.mark.parametrize(
    "values",
    [
        {}, {"version": 2, "execution": {}}, {"version": 1, "execution": {"R_lite": []}},
        resource_set(nodelist=[]), resource_set(("0", "0"), nodelist=[]), resource_set(("0-1", "0"), nodelist=["a"]),
        resource_set(("0", "0"), ("0", "1"), nodelist=["a", "b"]), resource_set(("0", "x"), nodelist=["a"]),
        resource_set(("0", "0"), nodelist=["a["]), resource_set(("0", "0"), nodelist=["a"], properties={"p": "z"}),
        resource_set(("0", "0"), nodelist=["a"], starttime="now"), resource_set((0, "0"), nodelist=["a"]),
        resource_set(("0", 0), nodelist=["a"]), resource_set(("0", "0"), nodelist=[f"a{2**63}"]),
    ],
)  # fmt: skip
def test_invalid_resource_sets(values: Any) -> None:
    with pytest.raises(InputError):
        rv1.read(document(values))


def test_numbers_in_host_names_are_bounded(tmp_path: Path) -> None:
    assert rv1.read(document(resource_set(("0", "0"), nodelist=[f"a{2**63 - 1}"]))).hosts == (f"a{2**63 - 1}",)
    path = tmp_path / "R"
    path.write_text(json.dumps(resource_set(("0", "0"), ("1", "0"), nodelist=["007", f"b{2**60}"])), encoding="utf-8")
    nodes = loading.load(str(path), "rv1exec").by_type["node"]
    assert [(node.name, node.basename, node.id) for node in nodes] == [("007", "007", 7), (f"b{2**60}", "b", 2**60)]
    with pytest.raises(InputError, match="number in its name"):
        loaded(tmp_path, vertex("0", "/n", name=f"n{2**63}"))


V1 = b"""<!DOCTYPE topology SYSTEM "hwloc.dtd"><topology><object type="Machine"><info name="HostName" value="tux7"/>
<object type="NUMANode" cpuset="0xf"><object type="Socket" cpuset="0xf">
<object type="Cache" cache_size="2097152" depth="3">
<object type="Core" os_index="0"/><object type="Core" os_index="4"/></object></object>
<object type="Bridge"><object type="PCIDev"><object type="OSDev" name="sda" osdev_type="0"><info name="Size" value="5000000"/>
<info name="LinuxDeviceID" value="8:0"/></object></object>
<object type="OSDev" name="eth0" osdev_type="2"/><object type="OSDev" name="cuda1" osdev_type="5"/></object></object>
</object></topology>"""
V2 = b"""<topology version="2.0"><object type="Machine"><info name="HostName" value="login"/>
<object type="Package"><object type="NUMANode"/><object type="L3Cache" cache_size="1024" depth="3">
<object type="Core"><object type="PU"/></object><object type="Core"/></object></object></object></topology>"""


def placed(tmp_path: Path, data: bytes, *allowed: str) -> list[str]:
    path = tmp_path / "topology.xml"
    path.write_bytes(data)
    return [f"{one.path} {one.size}" for one in loading.load(str(path), "hwloc", frozenset(allowed)).vertices][1:]


def test_topologies_of_both_versions(tmp_path: Path) -> None:
    assert placed(tmp_path, V1, "node", "socket", "core", "gpu", "storage") == [
        "/cluster0/tux7 1", "/cluster0/tux7/socket0 1", "/cluster0/tux7/socket0/core0 1", "/cluster0/tux7/socket0/core1 1",
        "/cluster0/tux7/socket0/storage0 5", "/cluster0/tux7/socket0/gpu1 1",
    ]  # fmt: skip
    assert placed(tmp_path, V2) == [
        "/cluster0/login 1",
        "/cluster0/login/socket0 1",
        "/cluster0/login/socket0/L3cache0 1",
        "/cluster0/login/socket0/L3cache0/core0 1",
        "/cluster0/login/socket0/L3cache0/core0/pu0 1",
        "/cluster0/login/socket0/L3cache0/core1 1",
        "/cluster0/login/socket0/numanode0 1",
    ]
    assert placed(tmp_path, V2, "core") == ["/cluster0/core0 1", "/cluster0/core1 1"]


@pytest.mark.parametrize(
    "data", [b"<machine/>", b"<topology/>", b'<topology><object type="Machine"><object/></object></topology>']
)
def test_invalid_topologies(data: bytes) -> None:
    with pytest.raises(InputError):
        hwloc.parse(data)


def test_unknown_formats_and_allowlists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        loading.load("x", "toml")
    with pytest.raises(UsageError):
        loading.load("x", "grug", frozenset(("core",)))
    with pytest.raises(UsageError):
        placed(tmp_path, V2, "disk")
