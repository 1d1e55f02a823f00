"""Reading ``cluster.yaml``; every mistake in it gives one message with place and hint."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.formats import registry
from fluxres.formats.cluster.entries import DefaultIds
from fluxres.formats.cluster.schema import json_schema
from fluxres.formats.format import Hold
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from tests.formats.structures import read_cluster, write_cluster

ROOT = Path(__file__).parents[2]
CLUSTERS = sorted((ROOT / "data" / "clusters").glob("*.yaml"))


def read(text: str) -> Structure:
    return read_cluster(f"fluxres: 1\n{text}\n".encode()).structure


def paths(structure: Structure) -> list[str]:
    return [structure.path(v) for v in range(structure.n)]


def inside(text: str) -> list[str]:
    """Names below a root with these entries."""
    return [path.removeprefix("/cluster/") for path in paths(read(f"resources: {text}"))[1:]]


def refusal(text: str, file: str = "c.yaml") -> FluxresError:
    with pytest.raises(InputError) as caught:
        read_cluster(text.encode(), file=file)
    return caught.value


# -- the containment tree -----------------------------------------------------------------------------------------------------


def test_names_ids_and_counts_have_their_defaults() -> None:
    assert inside("[{type: node, with: [{type: core, count: 2}, {type: memory, size: 4}]}]") == [
        "node",
        "node/core0",
        "node/core1",
        "node/memory",
    ]


def test_entries_of_one_type_continue_the_ids() -> None:
    assert inside("[{type: core, count: 2}, {type: gpu}, {type: core, properties: [fast]}]") == ["core0", "core1", "gpu", "core2"]


def test_explicitly_named_pool_does_not_change_other_numbers() -> None:
    assert inside("[{type: node, name: login}, {type: node, count: 2}, {type: node}]") == ["login", "node0", "node1", "node2"]


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("{type: node, id: 7}", ["node7"]),
        ("{type: node, count: 3, id: 7}", ["node7", "node8", "node9"]),
        ("{type: node, id: '1-2,5'}", ["node1", "node2", "node5"]),
        ("{type: node, id: [5, 1-2]}", ["node5", "node1", "node2"]),
        ("{type: node, id: null}", ["node"]),
        ("{type: node, count: 2, id: {start: 4}}", ["node4", "node5"]),
        ("{type: node, count: 1}", ["node0"]),
        ("{type: node, basename: n, count: 2}", ["n0", "n1"]),
        ("{type: node, count: 2, name: 'x${id:02}'}", ["x00", "x01"]),
        ("{type: node, name: 'x${id}'}", ["x0"]),
        ("{type: node, hosts: 'tioga[09-11]'}", ["tioga09", "tioga10", "tioga11"]),
        ("{type: node, hosts: 'a,b[1-2]'}", ["a", "b1", "b2"]),
        ("{type: node, hosts: login}", ["login"]),
        ("{type: node, names: 'n[1-2]'}", ["n1", "n2"]),
        ("{type: node, names: ['x y', z]}", ["x y", "z"]),
        ("{type: node, hosts: 'n[5-6]-ib', id: 0-1}", ["n5-ib", "n6-ib"]),
    ],
)
def test_forms_of_ids_and_names(entry: str, names: list[str]) -> None:
    assert inside(f"[{entry}]") == names


def test_host_ids_are_their_numbers_unless_ids_are_given() -> None:
    assert read("resources: [{type: node, hosts: 'n[05-06]'}]").id.tolist() == [-1, 5, 6]
    assert read("resources: [{type: node, hosts: 'n[05-06]', id: 0-1}]").id.tolist() == [-1, 0, 1]
    assert read("resources: [{type: node, names: 'n[05-06]'}]").id.tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    ("entry", "size", "unit"),
    [
        ("size: 192GiB", 192, "GiB"),
        ("size: 20 kW", 20, "kW"),
        ("size: 1.5TiB", 1536, "GiB"),
        ("size: 192GiB, unit: MiB", 196608, "MiB"),
        ("size: 1536MiB, unit: kB", None, "kB"),
        ("use: half, size: 2GB", 2000, "MB"),
        ("use: half, unit: kB", 500_000, "kB"),
    ],
)
def test_a_size_with_a_unit(entry: str, size: int | None, unit: str) -> None:
    text = f"fluxres: 1\nparts: {{half: {{size: 0.5GB, unit: MB}}}}\nresources:\n- {{type: m, {entry}}}"
    if size is None:
        assert "the nearest are 1610612 and 1610613 kB" in str(refusal(text))
        return
    structure = read(text.removeprefix("fluxres: 1\n"))
    assert (structure.size.item(1), structure.kind_of(1).unit) == (size, unit)


def test_a_capacity_with_a_unit() -> None:
    text = (
        "fluxres: 1\nresources: [{type: node}]\ngraphs:\n  power:\n    pools: [{type: feed, size: 1kW}]\n"
        "    edges: [{from: 'power:/feed', to: '/*/node', capacity: CAPACITY}]"
    )
    for capacity, number, unit in (("2.5kW", 2500.0, "W"), ("2kW, unit: W", 2000.0, "W"), ("3 kW", 3.0, "kW")):
        attributes = read(text.replace("CAPACITY", capacity).removeprefix("fluxres: 1\n")).subsystems["power"].attributes
        assert (attributes["capacity"].tolist(), list(attributes["unit"])) == ([number], [unit])
    assert "expected a known unit, got 'kX'" in str(refusal(text.replace("CAPACITY", "2kX")))


DRAWING = """fluxres: 1
parts: {drawing: {draw: {power: DRAW}}}
resources: [{type: node, use: drawing}]
graphs:
  power:
    hierarchy: true
    pools: [{type: feed, size: 60000W, with: [{type: pdu, count: 2, size: 20000W}]}, {type: meter}]
    edges: [{from: 'power:/feed/pdu0', to: '/*/node'}]
"""


@pytest.mark.parametrize(("drawn", "units"), [("800", 800), ("800W", 800), ("2.5 kW", 2500)])
def test_a_draw_with_a_unit_is_counted_in_that_of_the_suppliers(drawn: str, units: int) -> None:
    for named in ("power", "pdu"):
        text = DRAWING.replace("power: DRAW", f"{named}: {drawn}")
        assert dict(read(text.removeprefix("fluxres: 1\n")).kind_of(1).properties) == {f"draw.{named}": units}


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        ("0.5W", "expected a whole number of W, got '0.5W' (the nearest are 0 and 1 W; or write"),
        ("8GiB", "expected units of one dimension, got GiB (bytes) and W (power)"),
        ("800 watts", "expected a known unit, got 'watts'"),
        ("0W", "expected 1 to "),
        ("9999999999999 EW", "expected 1 to "),
    ],
)
def test_a_draw_that_is_no_number_of_the_units_of_the_suppliers(drawn: str, told: str) -> None:
    error = refusal(DRAWING.replace("DRAW", drawn))
    assert "2:33: parts.drawing.draw.power" in error.where
    assert told in str(error)


def test_a_draw_with_a_unit_needs_suppliers_that_count_in_one() -> None:
    assert "'power' is counted in W and kW, got '1kW'" in str(refusal(DRAWING.replace("20000W", "20kW").replace("DRAW", "1kW")))
    alone = "fluxres: 1\nresources: [{type: node, draw: {power: 1kW}}]"
    assert "'power' is counted in no unit by any graph of this file, got '1kW'" in str(refusal(alone))


@pytest.mark.parametrize(
    ("pools", "capacity", "expected"),
    [
        ("{type: feed, size: 2000, unit: W}", "1 kW", (1000.0, "W")),
        ("{type: feed, size: 2, unit: kW}", "1 kW", (1.0, "kW")),
        ("{type: feed, size: 2, unit: kW}", "1000 W", (1.0, "kW")),
        ("{type: feed, size: 2, unit: kW}", "1500 W", (1500.0, "W")),  # no whole number of kW
        ("{type: feed, size: 2000, unit: W}", "1 kW, unit: kW", (1.0, "kW")),
        ("{type: feed, size: 2000, unit: W, with: [{type: pdu, size: 1, unit: kW}]}", "1 kW", (1.0, "kW")),
        ("{type: feed, size: 2000}", "1 kW", (1.0, "kW")),
        ("{type: feed, size: 2000, unit: W}", "8 GiB", (8.0, "GiB")),
    ],
)
def test_a_capacity_counts_in_the_unit_of_the_pools_of_its_graph(pools: str, capacity: str, expected: tuple[float, str]) -> None:
    text = (
        f"resources: [{{type: node, count: 2}}]\ngraphs:\n  power:\n    hierarchy: true\n    pools: [{pools}]\n"
        f"    edges: [{{from: 'power:/feed', to: '/*/node0'}}, {{from: /*/node0, to: /*/node1, capacity: {capacity}}}]"
    )
    attributes = read(text).subsystems["power"].attributes
    assert (attributes["capacity"][-1], attributes["unit"][-1]) == expected


@pytest.mark.parametrize("key", ["names", "hosts"])
def test_template_like_text_in_a_list_of_names_needs_no_id(key: str) -> None:
    structure = read(f"resources: [{{type: node, {key}: '${{id}}'}}]")
    assert (paths(structure), structure.id.tolist()) == (["/cluster", "/cluster/${id}"], [-1, -1])


def test_lists_run_on_over_parents() -> None:
    two = "[{type: rack, count: 2, with: [{type: node, count: 2, KEY}]}]"
    assert inside(two.replace("KEY", "id: 0-3"))[3:] == ["rack1", "rack1/node2", "rack1/node3"]
    assert inside(two.replace("KEY", "id: {start: 1, within: cluster}"))[3:] == ["rack1", "rack1/node3", "rack1/node4"]
    assert inside(two.replace("KEY", "id: {within: rack}"))[3:] == ["rack1", "rack1/node0", "rack1/node1"]
    assert inside(two.replace("KEY", "hosts: 'n[1-4]'"))[3:] == ["rack1", "rack1/n3", "rack1/n4"]


def test_roots() -> None:
    assert paths(read("resources: [{type: center, with: [{type: cluster, count: 2}]}]")) == [
        "/center",
        "/center/cluster0",
        "/center/cluster1",
    ]
    assert paths(read("name: demo\nresources: [{type: cluster, with: [{type: node}]}]")) == ["/demo", "/demo/node"]
    assert paths(read("name: $a\nresources: []")) == ["/$a"]
    assert paths(read("root: {type: node, id: 0, with: [{type: core}]}")) == ["/node0", "/node0/core"]
    assert read_cluster(b"fluxres: 1\nname: graph\nroot: {type: node, name: n1}\n").name == "graph"


def test_data_of_every_pool() -> None:
    structure = read(
        "resources: [{type: node, size: 3, unit: GiB, properties: {ssd: , class: 3}, "
        "tags: [x], state: drain, exclusive: true, uuid: u-1}]"
    )
    kind = structure.kind_of(1)
    assert (kind.unit, kind.properties) == ("GiB", (("class", 3), ("ssd", None)))
    assert (structure.size[1], structure.state[1], structure.flags[1], structure.tags[1]) == (3, 2, 1, {"x": None})
    assert structure.vertex("u-1") == 1


@pytest.mark.parametrize("written", ["null", "'null'", "~"])
def test_the_state_null_can_be_written_with_and_without_quotes(written: str) -> None:
    if written == "'null'":
        assert read(f"resources: [{{type: node, state: {written}}}]").state.tolist() == [0, 6]
    else:
        assert read(f"resources: [{{type: node, state: {written}}}]").state.tolist() == [0, 6]


def test_ranks() -> None:
    four = "resources: [{type: rack, count: 2, with: [{type: node, count: 2, KEY}]}]"
    assert read(four.replace("KEY", "rank: 5-8")).rank.tolist() == [-1, -1, 5, 6, -1, 7, 8]
    assert read(four.replace("KEY", "rank: [1, 0]")).rank.tolist() == [-1, -1, 1, 0, -1, 1, 0]
    assert read(four.replace("KEY", "rank: null")).rank.tolist() == [-1] * 7
    assert read(four.replace("KEY", "size: 1")).rank.tolist() == [-1, -1, 0, 1, -1, 2, 3]


def test_default_ids() -> None:
    ids = DefaultIds([("core", "core", None), ("core", "core", "x${id}"), ("core", "c", None)])
    assert ids.start("core", "core", None, counted=False) is None
    assert ids.start("core", "core", "x${id}", counted=False) == 0
    ids.took("core", "core", 4)
    assert ids.start("core", "core", None, counted=True) == 5
    assert ids.start("core", "c", None, counted=True) == 0


# -- parts and includes -------------------------------------------------------------------------------------------------


def test_parts_may_use_parts_and_entries_replace_their_keys() -> None:
    text = """
parts:
  small: {type: socket, count: 2, with: [{type: core, count: 2}]}
  large: {use: small, with: [{type: core, count: 3}]}
resources: [{use: small}, {use: large, count: 1, basename: big}]
"""
    assert [path for path in paths(read(text)) if path.count("/") == 2] == [
        "/cluster/socket0",
        "/cluster/socket1",
        "/cluster/big0",
    ]
    assert len(read(text).of_type("core")) == 7


def test_includes_provide_parts_in_turn(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "cpu.yaml").write_text("fluxres: 1\nparts: {cpu: {type: socket, with: [{type: core, count: 4}]}}\n")
    (tmp_path / "parts" / "node.yaml").write_text(
        "fluxres: 1\ninclude: [cpu.yaml]\nparts: {n: {type: node, with: [{use: cpu}]}}\n"
    )
    (tmp_path / "c.yaml").write_text("fluxres: 1\ninclude: [parts/node.yaml, parts/cpu.yaml]\nresources: [{use: n, count: 2}]\n")
    assert len(read_cluster(tmp_path / "c.yaml").structure.of_type("core")) == 8


def included(tmp_path: Path, inner: str, outer: str = "include: [p.yaml]\nresources: [{use: n}]") -> FluxresError:
    (tmp_path / "p.yaml").write_text(f"fluxres: 1\n{inner}\n")
    (tmp_path / "c.yaml").write_text(f"fluxres: 1\n{outer}\n")
    with pytest.raises(InputError) as caught:
        read_cluster(tmp_path / "c.yaml")
    return caught.value


def test_mistakes_in_includes_refer_to_the_included_file(tmp_path: Path) -> None:
    error = included(tmp_path, "parts:\n  n: {type: node, cuont: 2}")
    assert error.where == f"{tmp_path / 'p.yaml'}:3:19: parts.n.cuont"
    error = included(tmp_path, "parts:\n  n: {type: node, id: x}")
    assert error.where == f"{tmp_path / 'p.yaml'}:3:23: parts.n.id"
    assert "includes itself" in included(tmp_path, "include: [c.yaml]").message
    assert "no file" in included(tmp_path, "include: [q.yaml]").message
    assert "is a directory" in included(tmp_path, "include: [.]").message
    assert "may only have parts" in included(tmp_path, "resources: []").message
    again = included(tmp_path, "parts: {n: {type: node}}", "include: [p.yaml]\nparts: {n: {type: core}}\nresources: []")
    assert "also defined in" in again.message
    assert again.where.startswith(f"{tmp_path / 'c.yaml'}:3:9")


def test_includes_are_bounded(tmp_path: Path) -> None:
    for i in range(limits.INCLUDE_DEPTH_MAX + 2):
        (tmp_path / f"{i}.yaml").write_text(
            f"fluxres: 1\ninclude: [{i + 1}.yaml]\nresources: []\n".replace("resources: []\n", "" if i else "resources: []\n")
        )
    with pytest.raises(LimitExceeded, match="files deep"):
        read_cluster(tmp_path / "0.yaml")


def test_text_without_a_file_includes_nothing() -> None:
    assert "only a document loaded from a file can include" in refusal("fluxres: 1\ninclude: [a.yaml]\nresources: []\n").message


def test_parts_that_double_at_every_level_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RECIPES_MAX", 1000)
    parts = ["  p0: {type: core}"]
    # Different counts give different chains, so that the uses cannot share anything.
    parts += [
        f"  p{i}: {{type: t{i}, with: [{{use: p{i - 1}, count: 1}}, {{use: p{i - 1}, basename: b, count: 2}}]}}"
        for i in range(1, 30)
    ]
    error = refusal("fluxres: 1\nparts:\n" + "\n".join(parts) + "\nresources: [{use: p29}]\n")
    assert isinstance(error, LimitExceeded)
    assert "entries after parts are expanded" in error.message


# -- auxiliary graphs ---------------------------------------------------------------------------------------------------

MACHINE = """
name: m
resources: [{type: rack, count: 2, with: [{type: node, count: 2}]}]
graphs:
  power:
    HEAD
    pools: [{type: pdu, count: 2, with: [{type: outlet, count: 2}]}]
    edges:
      - EDGE
"""


def rows(edge: str, head: str = "hierarchy: false") -> list[tuple[str, str]]:
    structure = read(MACHINE.replace("EDGE", edge).replace("HEAD", head))
    return [(structure.path(a), structure.path(b)) for a, b, _ in structure.subsystems["power"].rows()]


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        ("{from: 'power:/pdu0', to: '/m/rack*'}", ["pdu0-rack0", "pdu0-rack1"]),
        ("{from: 'power:/pdu[0-1]', to: '/m/rack1'}", ["pdu0-rack1", "pdu1-rack1"]),
        ("{from: 'power:/pdu[0-1]', to: '/m/rack[1,0]'}", ["pdu0-rack1", "pdu1-rack0"]),
        ("{from: 'power:/pdu*', to: '/m/*/node0', direction: in}", ["node0-pdu0", "node0-pdu1"]),
        ("{from: 'power:/pdu0', to: 'm:/rack0', direction: both}", ["pdu0-rack0", "rack0-pdu0"]),
        ("{from: 'power:/pdu*', to: '/m/rack*/node*', pairing: share}", ["pdu0-node0", "pdu0-node1", "pdu1-node0", "pdu1-node1"]),
        ("{from: '/m/rack0/*', to: 'power:/pdu*', pairing: cross}", ["node0-pdu0", "node0-pdu1", "node1-pdu0", "node1-pdu1"]),
        ("{from: ['power:/pdu1', 'power:/pdu0/outlet1'], to: /m/rack0}", ["pdu1-rack0", "outlet1-rack0"]),
        ("{from: '/', to: '/m/rack0'}", ["m-rack0"]),
        ("{from: '/m', to: 'm:/rack1/node[0-1]'}", ["m-node0", "m-node1"]),
    ],
)
def test_edges_between_selections(edge: str, expected: list[str]) -> None:
    assert [f"{a.rpartition('/')[2]}-{b.rpartition('/')[2]}" for a, b in rows(edge)] == expected


def test_hierarchy_has_its_own_pools_and_uris() -> None:
    structure = read(
        MACHINE.replace("HEAD", "hierarchy: true").replace("EDGE", "{from: 'power:/pdu1/outlet0', to: '/m/rack0', capacity: 5}")
    )
    rack = structure.vertex("/m/rack0")
    assert structure.uris(rack) == ["m:/rack0", "power:/pdu1/outlet0/rack0"]
    assert structure.vertex("power:/pdu1/outlet0/rack0") == rack


def test_edges_have_relation_capacity_and_attributes() -> None:
    structure = read(
        MACHINE.replace("HEAD", "hierarchy: false").replace(
            "EDGE",
            "{from: 'power:/pdu0', to: /m/rack0, relation: feeds, capacity: 5, unit: kW, attributes: {phase: L1, m: 2}}\n"
            "      - {from: /m, to: /m/rack0}",
        )
    )
    data = [data for _, _, data in structure.subsystems["power"].rows()]
    assert data == [
        {"subsystem": "power", "type": "feeds", "capacity": 5.0, "unit": "kW", "phase": "L1", "m": 2.0},
        {"subsystem": "power", "type": "link"},
    ]


def test_a_unit_attribute_is_written_next_to_the_capacity() -> None:
    structure = read(
        MACHINE.replace("HEAD", "hierarchy: false").replace("EDGE", "{from: /m, to: /m/rack0, attributes: {unit: W}}")
    )
    (edge,) = [data for _, _, data in structure.subsystems["power"].rows()]
    assert edge["unit"] == "W"
    assert "unit: W}" in write_cluster(structure)
    with pytest.raises(InputError, match="'unit' is not a valid attribute name"):
        read(
            MACHINE.replace("HEAD", "hierarchy: false").replace(
                "EDGE", "{from: /m, to: /m/rack0, unit: W, attributes: {unit: V}}"
            )
        )


@pytest.mark.parametrize(
    ("edge", "where", "message"),
    [
        ("{from: 'power:/pdu2', to: /m/rack0}", "from", "no pool 'pdu2'"),
        ("{from: /m/rack0, to: '/m/rack0/node[1-2]'}", "to", "no pool 'node2'"),
        ("{from: /m/rack0, to: '/m/rack0/gpu*'}", "to", "no pool 'gpu*'"),
        ("{from: /m/rack0, to: '/m/rack0/node0/*'}", "to", "selects nothing"),
        ("{from: /x/rack0, to: /m}", "from", "no pool 'x'"),
        ("{from: rack0, to: /m}", "from", "no pool 'rack0'"),
        ("{from: 'net:/pdu0', to: /m}", "from", "no graph 'net'"),
        ("{from: /m/rack0, to: ['/m', '/m/rack9']}", "to[1]", "no pool 'rack9'"),
        ("{from: '/m/rack*', to: 'power:/pdu*/outlet*'}", "", "2 pools on one side and 4 on the other"),
        ("{from: '/m/rack*', to: /m, pairing: each}", "", "2 pools on one side and 1 on the other"),
        ("{from: /m, to: /m}", "", "to itself"),
        ("{from: /m, to: /m/rack0, capacity: -1}", "capacity", "expected a number of at least 0"),
        ("{from: /m, to: /m/rack0, attributes: {type: x}}", "attributes.type", "not a valid attribute name"),
        (
            "{from: /m, to: /m/rack0, attributes: {x: null}}",
            "attributes.x",
            "expected text or a number or true or false, got null",
        ),
        ("{from: /m, to: '/m/rack[0'}", "to", "matching brackets"),
        ("{from: /m}", "", "the key 'to' is missing"),
        ("{from: [], to: /m}", "from", "expected at least one entry"),
    ],
)
def test_invalid_edges_are_refused(edge: str, where: str, message: str) -> None:
    error = refusal("fluxres: 1\n" + MACHINE.replace("HEAD", "hierarchy: false").replace("EDGE", edge))
    path = f"graphs.power.edges[0].{where}".rstrip(".")
    assert error.where.split(": ", 1)[1] == path
    assert message in error.message


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("{from: /m/rack0, to: /m/rack0/node0}\n      - {from: /m, to: /m/rack0/node0}", "would have two parents"),
        ("{from: /m/rack0, to: /m/rack0/node0}\n      - {from: /m/rack0/node0, to: /m/rack0}", "would be below itself"),
    ],
)
def test_hierarchies_are_forests(edges: str, message: str) -> None:
    error = refusal("fluxres: 1\n" + MACHINE.replace("HEAD", "hierarchy: true").replace("EDGE", edges))
    assert message in error.message
    assert "graphs.power" in error.where


def test_siblings_in_a_hierarchy_may_share_a_name() -> None:
    edges = "{from: /m, to: /m/rack0/node0}\n      - {from: /m, to: /m/rack1/node0}"
    text = "fluxres: 1\n" + MACHINE.replace("HEAD", "hierarchy: true").replace("EDGE", edges)
    made = read_cluster(text.encode()).structure
    power = made.subsystem("power")
    assert [made.path(v) for v in power.successors(0).tolist()] == ["/m/rack0/node0", "/m/rack1/node0"]


def test_selectors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "fluxres: 1\nname: m\nresources: [{type: node, count: 9}]\ngraphs: {g: {edges: [{from: /m, to: 'TO'}]}}\n"
    assert isinstance(refusal(text.replace("TO", "/m/n*[0-99]")), LimitExceeded)
    assert isinstance(refusal(text.replace("TO", "/m/n[0-999999,0-999999]")), LimitExceeded)
    monkeypatch.setattr(limits, "SELECTED_MAX", 8)
    assert isinstance(refusal(text.replace("TO", "/m/node[0-8]")), LimitExceeded)


def test_brackets_with_far_too_many_names_are_quick() -> None:
    # Testing a hundred thousand names for each of ten thousand parents one by one would take minutes.
    text = "fluxres: 1\nname: m\nresources: [{type: r, count: 9999, with: [{type: n}]}]\n"
    error = refusal(text + "graphs: {g: {edges: [{from: /m, to: '/m/r*/n[0-99999]'}]}}\n")
    assert "no pool 'n0'" in error.message


@pytest.mark.parametrize("name", ["m", "pools", "a/b", "a:b"])
def test_ambiguous_graph_names_are_refused(name: str) -> None:
    error = refusal(f"fluxres: 1\nname: m\nresources: []\ngraphs: {{'{name}': {{}}}}\n")
    assert error.where.startswith("c.yaml:4:10")


def test_too_many_edges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EDGES_MAX", 3)
    error = refusal(
        "fluxres: 1\nname: m\nresources: [{type: a, count: 2}, {type: b, count: 2}]\n"
        "graphs: {g: {edges: [{from: '/m/a*', to: '/m/b*', pairing: cross}]}}\n"
    )
    assert isinstance(error, LimitExceeded)
    assert "4 edges" in error.message


def test_too_many_graphs_are_refused() -> None:
    graphs = ", ".join(f"g{i}: {{}}" for i in range(limits.SUBSYSTEMS_MAX + 1))
    assert isinstance(refusal(f"fluxres: 1\nresources: []\ngraphs: {{{graphs}}}\n"), LimitExceeded)


# -- allocations and uuids ----------------------------------------------------------------------------------------------


def test_allocations_name_pools_like_edges() -> None:
    loaded = read_cluster(
        b"fluxres: 1\nname: m\nresources: [{type: node, count: 3, size: 4}]\n"
        b"allocations:\n  - {job: a, start: 1.5, end: 3, pools: {'/m/node[0-1]': 2, 'm:/node2': 4}}\n  - {job: b, pools: {}}\n"
    )
    assert loaded.allocations == [Hold("a", 1.5, 3.0, {1: 2, 2: 2, 3: 4}), Hold("b", 0.0, None, {})]


@pytest.mark.parametrize(
    ("held", "path", "message"),
    [
        ("{job: a, pools: {/m/node9: 1}}", "pools./m/node9", "no pool 'node9'"),
        ("{job: a, pools: {/m/node0: 5}}", "pools./m/node0", "5 units of /m/node0, which has 4"),
        ("{job: a, pools: {/m/node0: 0}}", "pools./m/node0", "expected a whole number of at least 1, got 0"),
        ("{job: a, pools: {/m/node0: 1, '/m/node*': 1}}", "pools./m/node*", "/m/node0 is listed twice"),
        ("{job: a, start: 5, end: 5, pools: {}}", "end", "before it begins"),
        ("{job: a, start: -1, pools: {}}", "start", "expected a number of at least 0, got -1"),
        ("{job: '', pools: {}}", "job", "expected text"),
        ("{job: 5, pools: {}}", "job", "expected text, got 5"),
    ],
)
def test_invalid_allocations_are_refused(held: str, path: str, message: str) -> None:
    error = refusal(f"fluxres: 1\nname: m\nresources: [{{type: node, count: 3, size: 4}}]\nallocations: [{held}]\n")
    assert error.where.split(": ", 1)[1] == f"allocations[0].{path}"
    assert message in error.message


U = "00000000-0000-8000-8000-{:012x}".format


@pytest.mark.parametrize(
    ("uuids", "expected"),
    [
        (U(0), [U(0), U(1), U(2)]),
        (f"[[{U(5)}, 2], {U(9)}]", [U(5), U(6), U(9)]),
        (f"['plain text', [{U(0)}, 2]]", ["plain text", U(0), U(1)]),
    ],
)
def test_explicit_uuids(uuids: str, expected: list[str]) -> None:
    structure = read(f"uuids: {uuids}\nresources: [{{type: node, count: 2}}]")
    assert [structure.uuid(v) for v in range(3)] == expected
    assert [structure.vertex(text) for text in expected] == [0, 1, 2]


@pytest.mark.parametrize(
    ("uuids", "message"),
    [
        (f"[[{U(0)}, 2]]", "2 uuids for 3 pools"),
        (f"[[{U(0)}, 4]]", "more uuids than there are pools (3)"),
        (f"[[{U(0)}, 2], {U(1)}]", "two pools have the uuid"),
        (f"[x, x, {U(1)}]", "is given twice"),
        ("nonsense", "expected a UUID, got 'nonsense'"),
        (f"[[{U(0)}]]", "expected a UUID, or [UUID, count]"),
        (f"[[{U(0)}, 0]]", "expected a UUID, or [UUID, count]"),
        (f"[[{U(2**48 - 1)}, 3]]", "overflows its last 48 bits"),
    ],
)
def test_invalid_uuids_are_refused(uuids: str, message: str) -> None:
    error = refusal(f"fluxres: 1\nresources: [{{type: node, count: 2}}]\nuuids: {uuids}\n")
    assert message in error.message
    assert "uuids" in error.where


def test_uuids_use_the_given_base() -> None:
    loaded = read_cluster(b"{fluxres: 1, resources: []}", origin=8 << 76 | 2 << 62)
    assert loaded.structure.uuid(0) == U(0)


# -- mistakes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "where", "message"),
    [
        ("fluxres: 2", "1:10: fluxres", "expected 1, got 2"),
        ("fluxres: 1\nresource: []", "2:1: resource", "unknown key 'resource' (did you mean 'resources'?)"),
        ("fluxres: 1\nname: x", "1:1", "the key 'resources' is missing"),
        ("fluxres: 1\nname: 3\nresources: []", "2:7: name", "expected text, got 3"),
        ("fluxres: 1\nname: a/b\nresources: []", "2:7: name", "not allowed in a path"),
        ("fluxres: 1\nresources: {}", "2:12: resources", "expected a list, got a mapping"),
        ("fluxres: 1\nresources:\n- count: 2", "3:3: resources[0]", "the key 'type' is missing"),
        (
            "fluxres: 1\nresources:\n- {type: node, count: four}",
            "3:23: resources[0].count",
            "expected a whole number of at least 1, got 'four'",
        ),
        (
            "fluxres: 1\nresources:\n- {type: node, count: -1}",
            "3:23: resources[0].count",
            "expected a whole number of at least 1, got -1",
        ),
        (
            "fluxres: 1\nresources:\n- {type: node, size: 0}",
            "3:22: resources[0].size",
            "expected a whole number of at least 1, got 0",
        ),
        (
            "fluxres: 1\nresources:\n- {type: node, size: 1.5}",
            "3:22: resources[0].size",
            "expected a whole number of at least 1 or text such as '192GiB', got 1.5",
        ),
        (
            "fluxres: 1\nresources:\n- {type: m, size: 256.5GiB, unit: GiB}",
            "3:19: resources[0].size",
            "expected a whole number of GiB, got '256.5GiB' (the nearest are 256 and 257 GiB)",
        ),
        ("fluxres: 1\nresources:\n- {type: m, size: 256G}", "3:19: resources[0].size", "(did you mean GiB or GB?)"),
        (
            "fluxres: 1\nresources:\n- {type: m, size: 1GiB, unit: W}",
            "3:19: resources[0].size",
            "expected units of one dimension",
        ),
        (
            "fluxres: 1\nresources:\n- {type: m, size: 256}\n- {type: m, size: 9999999EiB, unit: B}",
            "4:19: resources[1].size",
            "a larger",
        ),
        ("fluxres: 1\nresources:\n- {type: node, state: dwon}", "3:23: resources[0].state", "(did you mean 'down'?)"),
        ("fluxres: 1\nresources:\n- {type: node, id: 1-}", "3:20: resources[0].id", "expected an id or a range"),
        ("fluxres: 1\nresources:\n- {type: node, id: []}", "3:20: resources[0].id", "expected at least one entry"),
        ("fluxres: 1\nresources:\n- {type: node, id: ''}", "3:20: resources[0].id", "expected at least one number"),
        (
            "fluxres: 1\nresources:\n- {type: node, id: -2}",
            "3:20: resources[0].id",
            "expected a whole number of at least 0, got -2",
        ),
        ("fluxres: 1\nresources:\n- {type: node, id: 0-99999999999}", "3:20: resources[0].id", "numbers"),
        ("fluxres: 1\nresources:\n- {type: node, count: 3, id: 0-1}", "3:30: resources[0].id", "expected 3 entries, got 2"),
        (
            "fluxres: 1\nresources:\n- {type: node, id: {within: rack}}",
            "3:29: resources[0].id.within",
            "this entry is in no 'rack'",
        ),
        (
            "fluxres: 1\nresources:\n- {type: node, rank: [-1]}",
            "3:22: resources[0].rank",
            "expected a whole number from 0 to",
        ),
        (
            "fluxres: 1\nresources:\n- {type: node, hosts: 'n[2-1]'}",
            "3:23: resources[0].hosts",
            "expected a range from a lower number to a higher one, got '2-1'",
        ),
        ("fluxres: 1\nresources:\n- {type: node, hosts: a, name: b}", "3:23: resources[0].hosts", "both 'name' and 'hosts'"),
        (
            "fluxres: 1\nresources:\n- {type: node, hosts: 'n[1-2]', count: 3}",
            "3:23: resources[0].hosts",
            "expected 3 entries, got 2",
        ),
        ("fluxres: 1\nresources:\n- {type: node, name: 'a/b'}", "3:22: resources[0].name", "not allowed in a path"),
        ("fluxres: 1\nresources:\n- {type: node, name: '${x'}", "3:22: resources[0].name", "expected ${KEY}"),
        ("fluxres: 1\nresources:\n- {type: node, properties: {a: [1]}}", "3:32: resources[0].properties.a", "got a list of 1"),
        ("fluxres: 1\nresources:\n- {type: node, properties: {a: .nan}}", "3:28: resources[0].properties", "is not a number"),
        ("fluxres: 1\nresources:\n- {type: node, tags: {a: 3}}", "3:26: resources[0].tags.a", "expected text, or nothing, got 3"),
        (
            "fluxres: 1\nresources:\n- {type: node, id: 1}\n- {type: node, id: 1}",
            "4:20: resources[1].id",
            "two node pools with id 1",
        ),
        (
            "fluxres: 1\nresources:\n- {type: node, name: a}\n- {type: gpu, name: a}",
            "4:3: resources[1]",
            "a second pool named 'a'",
        ),
        ("fluxres: 1\nresources:\n- {type: cluster}\n- {type: cluster}", "4:3: resources[1]", "two roots"),
        ("fluxres: 1\nresources:\n- {type: cluster}\n- {type: rack}", "3:3: resources[0]", "two roots"),
        ("fluxres: 1\nresources:\n- {type: cluster, count: 2}", "3:3: resources[0]", "expected one root"),
        ("fluxres: 1\nresources: []\nroot: {type: node}", "2:1: resources", "both 'root' and 'resources'"),
        ("fluxres: 1\nparts: {a: {use: b}, b: {use: a}}\nresources: [{use: a}]", "2:31: parts.b.use", "contains itself"),
        ("fluxres: 1\nparts: {abc: {type: x}}\nresources: [{use: abd}]", "3:19: resources[0].use", "(did you mean 'abc'?)"),
        ("fluxres: 1\nresources: [{type: a, count: 99999999999999}]", "2:13: resources[0]", "at most"),
        ("fluxres: 1\nresources: [{type: a, size: 99999999999999999999}]", "2:29: resources[0].size", "got 99999999999999999999"),
        ("name: x\nresources: []", "1:1", "the key 'fluxres' is missing"),
        ("[1]", "1:1", "expected a mapping"),
        ("text", "1:1", "expected a mapping"),
        ("fluxres: 1\nuuids: 3\nresources: []", "2:8: uuids", "expected text or a list, got 3"),
    ],
)
def test_errors_have_line_column_path_and_hint(line: str, where: str, message: str) -> None:
    error = refusal(line)
    assert error.where == f"c.yaml:{where}"
    assert message in str(error).removeprefix(error.where)


def test_too_deep_trees_are_refused() -> None:
    # JSON, because it consists of nested brackets only.
    entry: dict[str, object] = {"type": "core"}
    for _ in range(limits.DEPTH_MAX):
        entry = {"type": "box", "with": [entry]}
    error = refusal(json.dumps({"fluxres": 1, "resources": [entry]}))
    assert isinstance(error, LimitExceeded)
    assert f"{limits.DEPTH_MAX} levels" in error.message


WORDS = st.sampled_from(
    [
        "type",
        "count",
        "id",
        "with",
        "use",
        "name",
        "hosts",
        "names",
        "size",
        "rank",
        "uuid",
        "state",
        "tags",
        "properties",
        "way",
        "capacity",
        "x",
    ]
)
LEAVES = st.one_of(
    st.sampled_from(["node", "0-3", "n[0-3]", "p", "${id}", "cluster", "", "up", "/", "n*"]),
    st.integers(-1, 5),
    st.none(),
    st.booleans(),
    st.floats(),
)
ENTRIES = st.recursive(
    st.dictionaries(WORDS, LEAVES, max_size=4),
    lambda inner: st.dictionaries(
        WORDS, st.one_of(LEAVES, st.lists(inner, max_size=2), st.lists(LEAVES, max_size=2)), max_size=4
    ),
    max_leaves=6,
).map(lambda entry: {"type": "node", **entry})


@settings(deadline=None, max_examples=400)
@given(
    st.fixed_dictionaries(
        {"fluxres": st.just(1)},
        optional={
            "name": LEAVES,
            "resources": st.lists(ENTRIES, max_size=3),
            "root": ENTRIES,
            "parts": st.dictionaries(st.just("p"), ENTRIES),
            "pools": st.lists(ENTRIES, max_size=2),
            "graphs": st.dictionaries(
                st.sampled_from(["power", "pools"]),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "hierarchy": LEAVES,
                        "pools": st.lists(ENTRIES, max_size=2),
                        "edges": st.lists(
                            st.dictionaries(
                                st.sampled_from(["from", "to", "capacity", "pairing"]), st.one_of(LEAVES, st.just("/cluster/*"))
                            ),
                            max_size=2,
                        ),
                    },
                ),
            ),
            "uuids": st.one_of(LEAVES, st.lists(LEAVES)),
        },
    )
)
def test_any_document_is_a_machine_or_a_message(document: dict[str, object]) -> None:
    data = json.dumps(document).encode()
    try:
        loaded = read_cluster(data)
    except InputError as error:
        assert error.where.startswith("<text>")  # noqa: PT017  # many examples do not raise
        return
    assert loaded.structure.n >= 1


# -- schema, registry and the machines that come with it ----------------------------------------------------------------


def test_schema_in_specs_equals_that_of_the_code() -> None:
    written = json.loads((ROOT / "specs" / "cluster.schema.json").read_text())
    assert written == json_schema()


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_shipped_machines_satisfy_the_schema(path: Path) -> None:
    jsonschema.validate(yaml_document.load(path).values, json_schema())


def test_the_schema_shows_errors_in_editors() -> None:
    for wrong in ({"fluxres": 2}, {"fluxres": 1, "resources": [{"type": "node", "count": 0}]}, {"fluxres": 1, "resource": []}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, json_schema())


@pytest.mark.parametrize(
    ("name", "pools", "counts"),
    [
        ("demo", 200, {"rack": 2, "node": 8, "socket": 16, "core": 128, "gpu": 16, "pdu": 2, "switch": 3}),
        ("workstation", 56, {"node": 1, "core": 16, "pu": 32, "gpu": 1}),
        ("quartz", 123_739, {"node": 3018, "socket": 6036, "core": 108_648}),
        ("frontier", 1_020_843, {"rack": 74, "node": 9408, "core": 602_112, "gpu": 75_264, "nic": 37_632}),
        ("el-capitan", 1_392_088, {"rack": 87, "node": 11_136, "socket": 44_544, "core": 1_069_056, "gpu": 44_544}),
    ],
)
def test_shipped_machines_have_the_published_numbers(name: str, pools: int, counts: dict[str, int]) -> None:
    structure = read_cluster(ROOT / "data" / "clusters" / f"{name}.yaml").structure
    assert structure.n == pools
    assert {kind: len(structure.of_type(kind)) for kind in counts} == counts


def test_hosts_of_large_machines_have_the_names_of_their_sites() -> None:
    for name, first, last in [
        ("quartz", "quartz1", "quartz3018"),
        ("frontier", "frontier00001", "frontier09408"),
        ("el-capitan", "elcap1", "elcap11136"),
    ]:
        structure = read_cluster(ROOT / "data" / "clusters" / f"{name}.yaml").structure
        nodes = structure.of_type("node")
        assert (structure.name(int(nodes[0])), structure.name(int(nodes[-1]))) == (first, last)


def test_demo_has_power_and_network() -> None:
    structure = read_cluster(ROOT / "data" / "clusters" / "demo.yaml").structure
    node = structure.vertex("/demo/rack1/node6")
    assert structure.uris(node) == ["demo:/rack1/node6", "power:/pdu1/rack1/node6"]
    network = structure.subsystems["network"]
    leaf = network.src[network.in_rows(node)].tolist()
    assert [structure.name(v) for v in leaf] == ["leaf1"]
    assert network.edge_data(int(network.in_rows(node)[0]))["capacity"] == 100


def test_formats_are_found_by_content(tmp_path: Path) -> None:
    assert registry.formats()[0].name == "cluster"
    for data in (b"fluxres: 1", b"# x\n\nname: a\nfluxres: 1", b'{"name": "a", "fluxres": 1}', b'{\n "fluxres": 1}'):
        found = registry.detect(data)
        assert found is not None
        assert found.name == "cluster"
    assert registry.detect(b"notfluxres: 1") is None
    with pytest.raises(InputError, match="unrecognized format"):
        registry.read(b"a: 1\n")
    with pytest.raises(FluxresError, match="no format 'dot-matrix'"):
        registry.read(b"a: 1\n", format="dot-matrix")
    path = tmp_path / "x"
    path.write_text("{fluxres: 1, name: a, resources: []}")
    assert registry.read(path).name == "a"


# -- uuids that meet -----------------------------------------------------------------------------------------------------

ZERO = "00000000-0000-8000-8000-000000000000"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"resources: [{{type: node, count: 2}}, {{type: core, uuid: {ZERO[:-1]}1}}]", "two pools have the uuid"),
        (f"resources: [{{type: node, uuid: a}}]\nuuids: {ZERO}", "has the uuid a in its entry"),
        (f"resources: [{{type: node, count: 2}}]\nuuids: ['{ZERO}', x, x]", "'x' is given twice"),
        (f"resources: [{{type: node, count: 2}}]\nuuids: [['{ZERO}', 2], '{ZERO[:-1]}1']", "two pools have the uuid"),
    ],
)
def test_uuid_of_two_pools_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_cluster(f"fluxres: 1\n{text}\n".encode(), origin=8 << 76 | 2 << 62)
    assert caught.value.where.startswith("<text>:")


def test_the_uuid_of_an_entry_may_also_be_in_the_list() -> None:
    structure = read(f"resources: [{{type: node, uuid: {ZERO[:-1]}1}}, {{type: core, uuid: x}}]\nuuids: [['{ZERO}', 2], x]")
    assert [structure.vertex(structure.uuid(v)) for v in range(3)] == [0, 1, 2]


# -- partitions ----------------------------------------------------------------------------------------------------------

MEMBERS = """\
fluxres: 1
name: m
resources:
  - type: rack
    count: 2
    with:
      - {type: node, count: 2, id: {within: cluster}, properties: [ssd]}
      - {type: node, count: 1, basename: fat, id: {within: cluster}}
partitions:
  p: {NODES}
"""


def members(nodes: str) -> list[str]:
    found = read_cluster(MEMBERS.replace("NODES", nodes)).structure
    return [found.name(v) for v in found.partitions["p"].members.tolist()]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ('nodes: "node[0-1,3]"', ["node0", "node1", "node3"]),
        ("nodes: all", ["node0", "node1", "fat0", "node2", "node3", "fat1"]),
        ("nodes: /m/rack1", ["node2", "node3", "fat1"]),
        ("nodes: [/m/rack0/node*, fat1]", ["node0", "node1", "fat1"]),
        ("requires: ssd", ["node0", "node1", "node2", "node3"]),
        ("requires: [ssd]", ["node0", "node1", "node2", "node3"]),
        ("requires: -ssd", ["fat0", "fat1"]),
        ('nodes: "node[0-1],fat0", requires: ssd', ["node0", "node1"]),
        ("nodes: []", []),
    ],
)
def test_members_of_a_partition(nodes: str, expected: list[str]) -> None:
    assert members(nodes) == expected


@pytest.mark.parametrize("word", ["UNLIMITED", "INFINITE", "inf", ".inf"])
def test_an_unlimited_time_of_a_partition_is_no_limit(word: str) -> None:
    found = read_cluster(MEMBERS.replace("NODES", f"nodes: all, max_time: {word}, default_time: {word}")).structure.partitions
    assert (found["p"].max_time_s, found["p"].default_time_s) == (math.inf, None)


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        ("nodes: nod0", "10:14: partitions.p.nodes: there is no node 'nod0'", "did you mean 'node0'?"),
        ("nodes: /m/rack7", "partitions.p.nodes: no pool 'rack7'", "choose from rack[0-1]"),
        ("nodse: all", "10:7: partitions.p.nodse: unknown key", "did you mean 'nodes'?"),
        ("state: up", "partitions.p: neither 'nodes' nor 'requires'", "name its nodes"),
        ("nodes: all, state: donw", "partitions.p.state", "did you mean 'down'?"),
        ("nodes: all, max_time: soon", "partitions.p.max_time: expected a duration, got 'soon'", "24h"),
        ("nodes: all, max_time: 0", "partitions.p.max_time: expected a duration above 0", ""),
        ("nodes: all, default_time: 2h, max_time: 1h", "partitions.p.default_time: the default time '2h' is longer", ""),
        ("nodes: all, min_nodes: 3, max_nodes: 2", "partitions.p.min_nodes: at least 3 nodes, but at most 2", ""),
        ("nodes: all, max_nodes: 0", "partitions.p.max_nodes", ""),
        ("requires: gpu", "partitions.p.requires: no node meets 'gpu'", "find"),
        ("requires: '('", "partitions.p.requires", ""),
        (
            "nodes: all, properties: {max_time: 3}",
            "partitions.p.properties: 'max_time' is a key of the partition",
            "write it there",
        ),
        ("nodes: all, default: true}\n  q: {nodes: all, default: true", "partitions.q.default: a second default partition", ""),
        ("nodes: all}\n  'a/b': {nodes: all", "'a/b' is not a valid name of a partition", "no '/'"),
        ("nodes: all}\ngraphs: {partitions: {}", "both 'partitions' and a graph of this name", "makes this graph"),
    ],
)
def test_a_mistake_in_a_partition_is_shown_where_it_is(entry: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        members(entry)
    assert message in f"{error.value.where}: {error.value.message}"
    assert hint in error.value.hint


@pytest.mark.parametrize(
    "odd", ["size: 2", "exclusive: true", "basename: x", "state: degraded", "id: 3", "properties: {max_nodes: '4'}"]
)
def test_what_the_key_cannot_say_is_spelled_out(odd: str) -> None:
    text = MEMBERS.partition("partitions:")[0] + (
        f"graphs:\n  partitions:\n    pools: [{{type: partition, name: p, {odd}}}]\n"
        "    edges: [{from: partitions:/p, to: /m/rack0, relation: schedules}]\n"
    )
    first = read_cluster(text).structure
    made = write_cluster(first)
    assert "graphs:" in made
    assert equal(read_cluster(made).structure, first) == []
    assert len(first.partitions["p" if "id" not in odd else first.name(first.tree_end)].members) == 3


def test_the_number_of_partitions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PARTITIONS_MAX", 1)
    assert members("nodes: all")
    with pytest.raises(LimitExceeded, match="2 partitions, at most 1"):
        members("nodes: all}\n  q: {nodes: all")
