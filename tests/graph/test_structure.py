"""Structure: names, lookup and the tree, compared with a walk over nested nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, UnknownGraph, UnknownPool, UsageError
from fluxres.graph import surgery, uuids
from fluxres.graph.audit import check_structure
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES, Kind, KindTable
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from tests.choices import among, integers
from tests.graph.builders import ORIGIN, Node, build, demo, machines, trees


@dataclass
class Seen:
    """A pool as a walk over the nested nodes sees it."""

    node: Node
    path: str
    above: list[int]
    children: list[int]


def walk(root: Node) -> list[Seen]:
    found: list[Seen] = []

    def visit(node: Node, path: str, above: list[int]) -> int:
        v = len(found)
        found.append(Seen(node, f"{path}/{node.label()}", above, []))
        found[v].children = [visit(child, found[v].path, [v, *above]) for child in node.children]
        return v

    visit(root, "", [])
    return found


@given(trees())
def test_structure_agrees_with_a_plain_walk_on_every_pool(root: Node) -> None:
    s, seen = build(root), walk(root)
    assert s.n == s.tree_end == len(seen)
    for v, pool in enumerate(seen):
        assert s.name(v) == pool.node.label()
        assert s.path(v) == s.where(v) == pool.path
        assert s.uri(v) == "m:/" + pool.path[3:]
        assert s.uris(v) == [s.uri(v)]
        assert s.ancestors(v) == pool.above
        assert s.children(v).tolist() == pool.children
        assert s.depth[v] == len(pool.above)
        assert s.kind_of(v).type == s.types[s.type[v]] == pool.node.type
        assert s.state_name(v) == pool.node.state


@given(trees())
def test_every_pool_is_found_by_path_uri_and_uuid(root: Node) -> None:
    s, seen = build(root), walk(root)
    for _ in range(2):  # the second time from the cache
        for v, pool in enumerate(seen):
            assert s.vertex(pool.path) == v
            assert s.vertex(pool.path + "/") == v
            assert s.vertex("m:/" + pool.path[3:]) == v
            assert s.vertex(s.uuid(v)) == v


@given(trees(), st.sampled_from(["core", "core0", "node1", "p01", "a", "zzz", "m", "gpu3"]))
def test_unknown_names_are_not_found(root: Node, name: str) -> None:
    s, seen = build(root), walk(root)
    paths = {pool.path: v for v, pool in enumerate(seen)}
    for pool in seen:
        path = f"{pool.path}/{name}"
        if path in paths:
            assert s.vertex(path) == paths[path]
        else:
            with pytest.raises(UnknownPool) as error:
                s.vertex(path)
            assert error.value.where == path


@given(trees(), st.sampled_from(["core", "core0", "node1", "p01", "a", "zzz", "m", "rack2"]))
def test_named_returns_all_pools_with_a_name(root: Node, name: str) -> None:
    assert build(root).named([name]) == [v for v, pool in enumerate(walk(root)) if pool.node.label() == name]


@given(trees())
def test_types_are_listed_in_order(root: Node) -> None:
    s, seen = build(root), walk(root)
    for type_name in {*s.types, "nothing"}:
        assert s.of_type(type_name).tolist() == [v for v, pool in enumerate(seen) if pool.node.type == type_name]
    order, starts = s.type_order
    assert sorted(order.tolist()) == list(range(s.n))
    assert np.diff(starts).tolist() == [len(s.of_type(name)) for name in s.types]


@given(machines(), st.data())
def test_pool_below_an_unavailable_one_is_unavailable(s: Structure, data: st.DataObject) -> None:
    """Rule A7, after any changes of state."""
    for _ in range(data.draw(integers(0, 3))):
        chosen = data.draw(st.lists(st.integers(0, s.n - 1), max_size=4))
        s.set_state(chosen, data.draw(among(*STATES)))
    roots = set()
    for v in range(s.n):
        chain = [u for u in [v, *s.ancestors(v)] if s.state_name(u) in UNAVAILABLE_STATES]
        assert s.unavailable_above(v) == (chain[-1] if chain else -1)
        roots |= {chain[-1]} if chain else set()
    assert s.unavailable_roots().tolist() == sorted(roots)
    states = s.state.tolist()
    with s.lifted(), s.lifted():
        assert s.unavailable_roots().tolist() == []
        assert {s.unavailable_above(v) for v in range(s.n)} == {-1}
        assert s.state.tolist() == states
    assert s.unavailable_roots().tolist() == sorted(roots)


def test_names_by_template() -> None:
    node = Node("node", 7, template="node-${frameid}-${rack}", properties={"frameid": "a"})
    padded = Node(
        "node",
        7,
        template="f${id:05}$$${basename}.${size}${unit}.${rank}.${ssd}",
        size=3,
        unit="x",
        rank=9,
        properties={"ssd": None},
    )
    s = build(Node("cluster", basename="c", children=[Node("rack", 12, [node, padded])]))
    assert [s.name(v) for v in (2, 3)] == ["node-a-12", "f00007$node.3x.9.ssd"]
    assert s.vertex("/c/rack12/node-a-12") == 2
    assert s.vertex("/c/rack12/f00007$node.3x.9.ssd") == 3
    assert s.named(["node-a-12", "rack12"]) == [1, 2]


def test_template_prefers_attributes_then_properties_then_the_nearest_ancestor() -> None:
    inner = Node("core", 3, template="${rack}.${id}", properties={"id": "no"})
    s = build(Node("cluster", basename="c", children=[Node("rack", 1, [Node("rack", 2, [inner])])]))
    assert s.name(3) == "2.3"
    inner.properties = {"rack": "own"}
    assert build(Node("cluster", basename="c", children=[Node("rack", 1, [inner])])).name(2) == "own.3"


def test_template_with_an_unknown_field_is_refused() -> None:
    s = build(Node("cluster", basename="c", children=[Node("node", 0, template="n-${frame}")]))
    with pytest.raises(UsageError, match="uses 'frame'"):
        s.name(1)


def test_explicit_name_overrides_the_template() -> None:
    s = build(
        Node(
            "cluster",
            basename="c",
            children=[Node("node", 0, template="n${id}", name="login"), Node("node", 1, template="n${id}")],
        )
    )
    assert s.path(1) == "/c/login"
    assert s.vertex("/c/login") == 1
    with pytest.raises(UnknownPool, match="no pool 'n0' in '/c'"):
        s.vertex("/c/n0")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("/demo/rack9", r"/demo/rack9: no pool 'rack9' in '/demo' \(it has 2 children, from 'rack0' to 'rack1'\)"),
        ("/demo/rack0/node-0-0/core0/x", "it has no children"),
        ("/other", "no pool '/other': the root is '/demo'"),
        ("/other/rack0", "the root is '/demo'"),
        ("demo:/rack9", "/demo/rack9: no pool 'rack9'"),
        ("power:/pdu9", "power:/pdu9: no pool 'pdu9'"),
        ("power:/pdu0/node-1-0", "no pool 'node-1-0' at this place in hierarchy 'power'"),
        ("power:/", "hierarchy 'power' has 2 roots"),
        ("network:/switch7", r"network:/switch7: no pool 'switch7' of graph 'network' \(choose from switch0, switch1, spine0\)"),
        ("network:/switch0/port0", r"no pool 'port0' in 'switch0' \(it has no children\)"),
        ("network:/", r"name a pool of it, such as network:/NAME"),
        ("cooling:/fan0", r"no graph 'cooling' \(choose from demo, power, network\)"),
        ("pools:/fan0", "no pool 'fan0' of graph 'pools'"),
        ("rack0", r"no pool 'rack0' \(a path starts with '/', a URI reads 'name:/path'\)"),
        ("00000000-0000-8000-8000-000000000005", "no pool '00000000"),
        ("", "no pool ''"),
    ],
)
def test_unknown_path_error_names_the_missing_part_and_a_hint(where: str, message: str) -> None:
    with pytest.raises(UnknownPool, match=message):
        demo().vertex(where)


@given(st.text(alphabet="/:demorack0 -é\x00${}", max_size=30))
def test_any_text_is_a_pool_or_a_typed_error(where: str) -> None:
    s = demo(1, 1, 1)
    try:
        v = s.vertex(where)
    except FluxresError:
        return
    assert 0 <= v < s.n


def test_root_is_found_by_its_short_forms() -> None:
    s = demo()
    assert {s.vertex(where) for where in ("/", "/demo", "/demo/", "demo:/", s.uuid(0))} == {0}


def test_path_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATH_CACHE_MAX", 2)
    s = demo(3, 3, 1)
    for _ in range(2):
        for v in range(s.tree_end):
            assert s.vertex(s.path(v)) == v
    assert len(s.lookup._paths) <= 3


def test_pool_has_a_uri_in_each_of_its_hierarchies() -> None:
    s = demo(1, 1, 1)
    v = s.vertex("/demo/rack0/node-0-0")
    assert s.uris(v) == ["demo:/rack0/node-0-0", "power:/pdu0/node-0-0"]
    assert [s.vertex(uri) for uri in s.uris(v)] == [v, v]
    pdu = s.vertex("power:/pdu0")
    assert (s.uri(pdu), s.uris(pdu), s.where(pdu)) == (None, ["power:/pdu0"], "power:/pdu0")
    switch = s.n - 1
    assert (s.uris(switch), s.where(switch)) == ([], "network:spine0")
    assert s.vertex("network:/spine0") == switch


def test_pools_outside_the_tree_are_named_by_their_graph_if_unambiguous() -> None:
    fabric = Node("fabric", children=[Node("switch", 0), Node("switch", 1)])
    s = build(
        Node("cluster", basename="c", children=[Node("node", 0)]),
        fabric,
        Node("leaf", 0),
        Node("leaf", 0),
        Node("pdu", 0),
        Node("licence"),
        graphs={"network": [("fabric/switch0", "/c/node0")], "power": [("pdu0", "/c/node0")]},
        hierarchies=["power"],
    )
    s.subsystems["network"] = Subsystem("network", False, np.array([3, 5, 6], np.int32), np.array([1, 1, 1], np.int32))
    twins = ["network:leaf0#5", "network:leaf0#6"]
    names = ["network:fabric", "network:fabric/switch0", "network:fabric/switch1", *twins, "power:/pdu0", "pools:licence"]
    assert [s.where(v) for v in range(2, s.n)] == names
    assert [s.vertex(name) for name in names] == list(range(2, s.n))
    # A pool that no edge touches is found under any graph that may have declared it.
    assert [s.vertex(name) for name in ("network:/licence", "power:/licence", "pools:/pdu0")] == [8, 8, 7]
    with pytest.raises(UnknownPool, match=f"2 pools are named 'leaf0' there .use {twins[0]} and {twins[1]}"):
        s.vertex("network:/leaf0")
    with pytest.raises(UnknownPool, match="no pool 'pdu0' of graph 'network'"):
        s.vertex("network:/pdu0")


def test_lookup_includes_graphs_added_later() -> None:
    s = demo(1, 1, 1)
    assert s.vertex("power:/pdu0") == s.vertex("pools:/pdu0")
    with pytest.raises(UnknownPool, match="no pool 'node-0-0'"):
        s.vertex("power:/node-0-0")
    rack = s.vertex("/demo/rack0")
    pdu = s.vertex("power:/pdu0")
    s.subsystems["power"] = Subsystem("power", True, np.array([pdu], np.int32), np.array([rack], np.int32))
    assert s.vertex("power:/pdu0/rack0") == rack


def test_single_root_named_like_its_hierarchy_is_not_repeated() -> None:
    s = build(
        Node("cluster", basename="c", children=[Node("node", 0)]),
        Node("power"),
        graphs={"power": [("power", "/c/node0")]},
        hierarchies=["power"],
    )
    assert s.uris(2) == ["power:/"]
    assert s.uris(1) == ["c:/node0", "power:/node0"]
    assert [s.vertex(w) for w in ("power:/", "power:/power", "power:/node0", "power:/power/node0")] == [2, 2, 1, 1]


def test_explicit_uuid_replaces_the_serial_one() -> None:
    s = build(Node("cluster", basename="c", children=[Node("node", 0, uuid="one-of-a-kind"), Node("node", 1, serial=77)]))
    assert s.vertex("one-of-a-kind") == 1
    assert s.vertex(uuids.text(ORIGIN, 77)) == 2
    with pytest.raises(UnknownPool):
        s.vertex(uuids.text(ORIGIN, 1))


def test_tags_are_set_replaced_and_dropped() -> None:
    s = demo(1, 1, 1)
    s.set_tag([0, 1], "owner", "ops")
    s.set_tag([1], "owner", None)
    s.set_tag(np.array([1], np.int32), "more", "x")
    assert s.tags == {0: {"owner": "ops"}, 1: {"owner": None, "more": "x"}}
    s.drop_tag([0, 1, 2], "owner")
    assert s.tags == {1: {"more": "x"}}


def test_unknown_state_is_refused_and_changes_nothing() -> None:
    s = demo(1, 1, 1)
    with pytest.raises(UsageError, match=r"no state 'dwon' \(did you mean down\?\)"):
        s.set_state([0], "dwon")
    with pytest.raises(UsageError, match=r"no state 'broken' \(states are up, down"):
        s.set_state([0], "broken")
    assert not s.state.any()


def test_unknown_auxiliary_graph_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownGraph, match=r"no auxiliary graph 'cooling' \(choose from power, network\)"):
        demo().subsystem("cooling")


def test_columns_are_converted_once_and_not_copied_again() -> None:
    s = demo(1, 1, 1)
    again = Structure(s.columns(), s.kinds, origins=s.origins)
    assert all(np.shares_memory(a, b) for a, b in zip(s.columns().values(), again.columns().values(), strict=True))
    assert sum(column.nbytes for column in s.columns().values()) == s.n * (4 * 4 + 3 * 8 + 2 + 2)


# -- kinds and edges -----------------------------------------------------------------------------------------------------


def test_kinds_that_only_look_equal_stay_separate() -> None:
    kinds = [Kind("n", "n", properties=(("p", value),)) for value in (1, 1.0, True, "1", None)]
    table = KindTable(kinds + kinds)
    assert list(table) == kinds
    assert [type(kind.properties[0][1]) for kind in table] == [int, float, bool, str, type(None)]


def test_kind_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KINDS_MAX", 1)
    table = KindTable([Kind("a", "a")])
    assert table.intern(Kind("a", "a")) == 0
    with pytest.raises(FluxresError, match="more than 1 different kinds"):
        table.intern(Kind("b", "b"))


def edges_of(pairs: list[tuple[int, int]], *, hierarchy: bool = False) -> Subsystem:
    src, dst = (np.array([pair[i] for pair in pairs], np.int32) for i in (0, 1))
    return Subsystem("g", hierarchy, src, dst)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.data())
def test_edges_agree_with_a_list_of_pairs(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    graph = edges_of(pairs)
    assert graph.members.tolist() == sorted({v for pair in pairs for v in pair})
    assert graph.roots().tolist() == sorted({a for a, _ in pairs} - {b for _, b in pairs})
    for v in range(10):
        assert graph.successors(v).tolist() == [b for a, b in pairs if a == v]
        assert graph.src[graph.in_rows(v)].tolist() == [a for a, b in pairs if b == v]
    some = data.draw(st.lists(st.integers(0, 9), unique=True))
    assert graph.all_successors(np.array(some, np.int32)).tolist() == [b for v in some for a, b in pairs if a == v]
    lo, hi = sorted(data.draw(st.tuples(st.integers(0, 10), st.integers(0, 10))))
    assert sorted(graph.rows_leaving(lo, hi).tolist()) == [i for i, (a, _) in enumerate(pairs) if lo <= a < hi]
    assert sorted(graph.rows_reaching(lo, hi).tolist()) == [i for i, (_, b) in enumerate(pairs) if lo <= b < hi]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8))
def test_forest_has_one_parent_each_and_no_cycle(pairs: list[tuple[int, int]]) -> None:
    parents: dict[int, int] = {}
    fine = True
    for a, b in pairs:
        fine &= b not in parents
        parents[b] = a
    for v in parents:
        at, steps = v, 0
        while at in parents and steps <= len(parents):
            at, steps = parents[at], steps + 1
        fine &= steps <= len(parents)
    if fine:
        edges_of(pairs, hierarchy=True).require_forest()
    else:
        with pytest.raises(InputError, match=r"two parents|a cycle"):
            edges_of(pairs, hierarchy=True).require_forest()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.sets(st.integers(0, 9)))
def test_edge_survives_if_both_its_ends_do(pairs: list[tuple[int, int]], kept: set[int]) -> None:
    numbers = {old: new for new, old in enumerate(sorted(kept))}
    old_to_new = np.array([numbers.get(v, -1) for v in range(10)], np.int32)
    graph = edges_of(pairs)
    graph.attributes["capacity"] = np.arange(len(pairs), dtype=np.float64)
    made = graph.renumber(old_to_new)
    assert list(zip(made.src.tolist(), made.dst.tolist(), made.attributes["capacity"].tolist(), strict=True)) == [
        (numbers[a], numbers[b], float(i)) for i, (a, b) in enumerate(pairs) if a in kept and b in kept
    ]


def test_explicit_uuid_does_not_hide_a_pool_with_its_serial() -> None:
    structure = expand(Recipe("c", children=(Recipe("node", 4),)), origin=uuids.new_origin(bytes(16)))
    structure.uuid_texts[1] = "mine"
    structure.serial[1], structure.serial[3] = 3, 1
    structure.serial[2] = 3
    assert [structure.vertex(structure.uuid(v)) for v in (0, 1, 2, 3, 4)] == [0, 1, 2, 3, 4]
    structure.serial[1] = 1
    assert [structure.vertex(structure.uuid(v)) for v in (0, 1, 2, 3, 4)] == [0, 1, 2, 3, 4]


def test_audit_finds_an_explicit_uuid_that_equals_a_serial_one() -> None:
    structure = expand(Recipe("c", children=(Recipe("node", 4),)), origin=uuids.new_origin(bytes(16)))
    for text in (structure.uuid(3), structure.uuid(3).upper()):
        structure.uuid_texts[1] = text
        assert [problem.message for problem in check_structure(structure)] == [
            f"another pool has the same uuid {structure.uuid(3)}"
        ]


def test_types_without_pools_are_not_listed() -> None:
    s = demo()
    assert "memory" in s.types
    only, _ = surgery.extract_many(s, s.type == s.types.index("core"))
    assert "memory" not in only.types
    assert len(only.of_type("memory")) == 0
    assert sorted(only.types) == sorted({only.kind_of(v).type for v in range(only.n)})
    assert [only.types[t] for t in only.type.tolist()] == [only.kind_of(v).type for v in range(only.n)]
