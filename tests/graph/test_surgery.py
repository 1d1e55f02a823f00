"""Duplicate, extract, unlink and merge, against rules C1 and M1 and brute-force models of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import LimitExceeded, MergeConflict, UnknownGraph, UnknownPool, UsageError
from fluxres.graph import surgery, uuids
from fluxres.graph.audit import check_structure
from fluxres.graph.kinds import EXCLUSIVE, WAY, KindTable
from fluxres.graph.structure import Structure
from tests.choices import among, integers
from tests.graph.builders import Node, build, demo, edges, machines, machines_with_graphs, rows, snapshot

OTHER_ORIGIN = uuids.new_origin(bytes(range(16, 32)))


def paths(s: Structure) -> list[str]:
    return [s.where(v) for v in range(s.n)]


def errors(s: Structure) -> list[Any]:
    return [problem for problem in check_structure(s) if problem.severity == "error"]


def scribble(s: Structure) -> None:
    """Change everything of a structure that can be changed in place."""
    for column in s.columns().values():
        column[:] = 7
    for sparse in (s.names, s.uuid_texts, s.capacity):
        sparse.clear()
    for tags in s.tags.values():
        tags["scribble"] = "x"
    s.tags[0] = {"scribble": None}
    s.origins.append(1)
    for graph in s.subsystems.values():
        graph.src[:] = 0
        graph.relation[:] = 0
        graph.relations.append("scribble")
        for column in graph.attributes.values():
            column[:] = 0
    s.subsystems.clear()


def tagged_demo() -> Structure:
    s = demo()
    s.set_tag([0, 1, 2], "owner", "ops")
    s.set_state([2], "drain")
    s.uuid_texts[3] = "explicit"
    s.flags[4] |= EXCLUSIVE
    return s


# -- duplicate -----------------------------------------------------------------------------------------------------------


def test_duplicate_is_equal_and_shares_nothing() -> None:
    s = tagged_demo()
    before = snapshot(s)
    copy = surgery.duplicate(s)
    assert snapshot(copy) == before
    scribble(copy)
    assert snapshot(s) == before


# -- extract -------------------------------------------------------------------------------------------------------------


def test_extract_takes_the_subtree_and_the_path_to_the_root() -> None:
    s = tagged_demo()
    before = snapshot(s)
    v = s.vertex("/demo/rack0")
    copy, vertices = surgery.extract(s, v)
    assert [s.where(u) for u in vertices.tolist()] == paths(copy)
    assert paths(copy)[: copy.tree_end] == ["/demo", *(s.path(u) for u in range(v, s.end.item(v)))]
    assert [copy.flags.item(u) & WAY for u in range(copy.tree_end)] == [WAY] + [0] * (copy.tree_end - 1)
    for u, old in enumerate(vertices.tolist()):
        assert (copy.uuid(u), copy.kind_of(u), copy.rank.item(u), copy.state.item(u), copy.tags.get(u)) == (
            s.uuid(old), s.kind_of(old), s.rank.item(old), s.state.item(old), s.tags.get(old),
        )  # fmt: skip
    assert not errors(copy)
    scribble(copy)
    assert snapshot(s) == before


def test_extract_drops_subtrees_and_records_full_sizes() -> None:
    s = demo(1, 3, 1)
    s.capacity[s.vertex("/demo/rack0/node-0-2/memory0")] = 64
    v = s.vertex("/demo/rack0")
    keep = np.ones(s.end.item(v) - v, np.bool_)
    keep[s.vertex("/demo/rack0/node-0-1") - v] = False
    size = s.size[v : s.end.item(v)].copy()
    size[s.vertex("/demo/rack0/node-0-0/memory0") - v] = 10
    size[s.vertex("/demo/rack0/node-0-0/core0") - v] = 0
    size[s.vertex("/demo/rack0/node-0-2/memory0") - v] = 20
    copy, _ = surgery.extract(s, v, keep, size)
    assert paths(copy)[: copy.tree_end] == [
        "/demo", "/demo/rack0", "/demo/rack0/node-0-0", "/demo/rack0/node-0-0/memory0",
        "/demo/rack0/node-0-2", "/demo/rack0/node-0-2/core0", "/demo/rack0/node-0-2/memory0",
    ]  # fmt: skip
    assert {copy.path(u): (copy.size.item(u), full) for u, full in copy.capacity.items()} == {
        "/demo/rack0/node-0-0/memory0": (10, 32),
        "/demo/rack0/node-0-2/memory0": (20, 64),
    }
    assert not errors(copy)


@given(machines(), st.data())
def test_extract_agrees_with_a_walk_over_the_tree(s: Structure, data: st.DataObject) -> None:
    v = data.draw(integers(0, s.n - 1))
    length = s.end.item(v) - v
    keep = np.array(data.draw(st.lists(st.sampled_from([True, True, False]), min_size=length, max_size=length)))
    size = np.array([data.draw(integers(0, s.size.item(u))) for u in range(v, v + length)])
    keep[0], size[0] = True, max(1, size[0])

    def walk(u: int) -> list[int]:
        if not keep[u - v] or not size[u - v]:
            return []
        return [u] + [w for child in s.children(u).tolist() for w in walk(child)]

    before = snapshot(s)
    copy, vertices = surgery.extract(s, v, keep, size)
    above = s.ancestors(v)[::-1]
    assert vertices.tolist() == above + walk(v)
    assert paths(copy) == [s.path(u) for u in vertices.tolist()]
    assert copy.size.tolist() == [s.size.item(u) for u in above] + [int(size[u - v]) for u in walk(v)]
    assert {vertices.item(u): full for u, full in copy.capacity.items()} == {
        u: s.size.item(u) for u in walk(v) if size[u - v] < s.size.item(u)
    }
    assert [copy.end.item(u) - u for u in range(copy.n)] == [
        1 + sum(u in copy.ancestors(w) for w in range(copy.n)) for u in range(copy.n)
    ]
    assert not errors(copy)
    assert snapshot(s) == before


def test_extract_includes_adjacent_pools_outside_the_tree() -> None:
    s = demo(2, 2, 1)
    copy, _ = surgery.extract(s, s.vertex("/demo/rack1/node-1-0"))
    outside = {copy.name(u): copy.flags.item(u) & WAY for u in range(copy.tree_end, copy.n)}
    assert outside == {"pdu1": WAY, "switch1": WAY}
    node = "/demo/rack1/node-1-0"
    assert {(a, b) for a, b, *_ in edges(copy)["power"]} == {("power:/pdu1", node)}
    assert {(a, b) for a, b, *_ in edges(copy)["network"]} == {("network:switch1", node), (node, "network:switch1")}
    assert copy.subsystems["network"].attributes["capacity"].tolist() == [100.0, 100.0]
    assert copy.vertex("power:/pdu1/node-1-0") == copy.vertex(node)


def test_extract_gives_pools_outside_the_tree_their_available_size() -> None:
    s = demo(2, 2, 1)
    available = s.size[s.tree_end :].copy()
    names = [s.name(u) for u in range(s.tree_end, s.n)]
    available[names.index("pdu1")] = 1200
    available[names.index("switch1")] = 0
    copy, _ = surgery.extract(s, s.vertex("/demo/rack1"), outside=available)
    assert {
        copy.name(u): (copy.size.item(u), copy.flags.item(u) & WAY, copy.capacity.get(u)) for u in range(copy.tree_end, copy.n)
    } == {"pdu1": (1200, WAY, 5000)}
    available[names.index("pdu1")] = 0
    copy, _ = surgery.extract(s, s.vertex("/demo/rack1"), outside=available)
    assert {copy.name(u): (copy.size.item(u), copy.flags.item(u) & WAY) for u in range(copy.tree_end, copy.n)} == {
        "pdu1": (5000, WAY)
    }


def test_extract_of_the_root_is_everything() -> None:
    s = tagged_demo()
    copy, vertices = surgery.extract(s, 0)
    assert vertices.tolist() == list(range(s.n))
    assert snapshot(copy) == snapshot(s)


def test_extract_climbs_a_hierarchy_of_several_levels_outside_the_tree() -> None:
    root = Node("cluster", basename="c", children=[Node("node", 0), Node("node", 1)])
    plant = Node("plant", children=[Node("panel", 0), Node("panel", 1)])
    graphs = {"power": [("plant", "plant/panel0"), ("plant/panel0", "pdu0"), ("pdu0", "/c/node0"), ("plant/panel1", "/c/node1")]}
    s = build(root, plant, Node("pdu", 0), graphs=graphs, hierarchies=["power"])
    copy, _ = surgery.extract(s, s.vertex("/c/node0"))
    assert sorted(copy.name(u) for u in range(copy.tree_end, copy.n)) == ["panel0", "pdu0", "plant"]
    assert copy.uris(copy.vertex("/c/node0")) == ["c:/node0", "power:/plant/panel0/pdu0/node0"]
    assert not errors(copy)


def test_extract_without_ancestors_keeps_names_that_used_them() -> None:
    s = demo(2, 1, 1)
    copy, _ = surgery.extract(s, s.vertex("/demo/rack1/node-1-0"), take_ancestors=False)
    assert paths(copy)[: copy.tree_end] == ["/node-1-0", "/node-1-0/core0", "/node-1-0/memory0"]
    assert copy.flags[: copy.tree_end].tolist() == [0, 0, 0]


def test_name_that_contains_the_size_stays_when_the_size_is_reduced() -> None:
    s = build(Node("cluster", basename="c", children=[Node("memory", 0, size=8, template="mem-${size}")]))
    copy, _ = surgery.extract(s, 0, size=np.array([1, 3]))
    assert paths(copy) == ["/c", "/c/mem-8"]


def test_extract_sets_the_sizes_of_ancestors() -> None:
    s = build(Node("cluster", basename="c", size=4, children=[Node("rack", 0, size=6, children=[Node("node", 0)])]))
    copy, _ = surgery.extract(s, 2, way_units=lambda vertices: np.array([0, 2]))
    assert copy.size.tolist() == [4, 2, 1]
    assert copy.capacity == {1: 6}


def test_extract_refuses_what_cannot_be_copied() -> None:
    s = demo()
    with pytest.raises(UnknownPool, match="is not in the containment tree"):
        surgery.extract(s, s.tree_end)
    with pytest.raises(UsageError, match="/demo/rack0: is not available"):
        surgery.extract(s, 1, size=np.zeros(s.end.item(1) - 1, np.int64))
    with pytest.raises(UsageError, match="keep has 3 values where 13 are needed"):
        surgery.extract(s, 1, keep=np.ones(3, np.bool_))


# -- extract_many --------------------------------------------------------------------------------------------------------


@given(machines(), st.data())
def test_extract_many_takes_the_kept_pools_and_their_ancestors(s: Structure, data: st.DataObject) -> None:
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=s.n, max_size=s.n)))
    size = np.array([data.draw(integers(0, s.size.item(u))) for u in range(s.n)])
    kept = {u for u in range(s.n) if keep[u] and size[u]}
    if not kept:
        with pytest.raises(UsageError, match="nothing to copy"):
            surgery.extract_many(s, keep, size)
        return
    copy, vertices = surgery.extract_many(s, keep, size)
    above = {w for u in kept for w in s.ancestors(u)}
    assert vertices.tolist() == sorted(kept | above)
    assert paths(copy) == [s.path(u) for u in vertices.tolist()]
    assert {vertices.item(u) for u in np.flatnonzero(copy.flags & WAY).tolist()} == above - kept
    assert copy.size.tolist() == [int(size[u]) if u in kept else s.size.item(u) for u in vertices.tolist()]
    assert not errors(copy)


def test_extract_many_includes_pass_through_pools_outside_the_tree() -> None:
    s = demo(2, 2, 2)
    keep = np.zeros(s.n, np.bool_)
    keep[s.vertex("/demo/rack0/node-0-1/core1")] = True
    keep[s.vertex("power:/pdu1")] = True
    copy, _ = surgery.extract_many(s, keep)
    # node-0-1 is on the path to its core and is in power: pdu0 is on a path, too. pdu1 is requested.
    assert paths(copy) == [
        "/demo",
        "/demo/rack0",
        "/demo/rack0/node-0-1",
        "/demo/rack0/node-0-1/core1",
        "power:/pdu0",
        "pools:pdu1",
    ]
    assert (copy.flags & WAY).tolist() == [WAY, WAY, WAY, 0, WAY, 0]


def test_extract_and_extract_many_agree_on_a_complete_subtree() -> None:
    s = tagged_demo()
    v = s.vertex("/demo/rack1")
    keep = np.zeros(s.n, np.bool_)
    keep[v : s.end.item(v)] = True
    assert snapshot(surgery.extract_many(s, keep)[0]) == snapshot(surgery.extract(s, v)[0])


# -- unlink --------------------------------------------------------------------------------------------------------------


def test_unlink_removes_a_subtree_from_the_tree_and_keeps_it_in_other_hierarchies() -> None:
    s = tagged_demo()
    before = snapshot(s)
    v = s.vertex("/demo/rack0")
    cut, old_to_new = surgery.unlink(s, v)
    assert snapshot(s) == before
    assert [old_to_new.item(u) for u in range(s.n) if s.kind_of(u).type == "core" and v <= u < s.end.item(v)] == [-1] * 6
    assert {
        s.where(u): cut.where(new) for u, new in enumerate(old_to_new.tolist()) if new >= 0 and s.where(u) != cut.where(new)
    } == {f"/demo/rack0/node-0-{n}": f"power:/pdu0/node-0-{n}" for n in range(3)}
    for u, new in enumerate(old_to_new.tolist()):
        if new >= 0:
            assert (s.uuid(u), s.name(u), s.tags.get(u), s.state.item(u)) == (
                cut.uuid(new),
                cut.name(new),
                cut.tags.get(new),
                cut.state.item(new),
            )
    assert not errors(cut)
    scribble(cut)
    assert snapshot(s) == before


@given(machines(), st.data())
def test_unlink_agrees_with_a_walk_over_the_tree(s: Structure, data: st.DataObject) -> None:
    if s.n == 1:
        return
    v = data.draw(integers(1, s.n - 1))
    cut, old_to_new = surgery.unlink(s, v)
    expected = {place: row for place, row in rows(s).items() if not (place + "/").startswith(s.path(v) + "/")}
    assert rows(cut) == expected
    assert [cut.path(new) for new in old_to_new.tolist() if new >= 0] == list(expected)
    assert not errors(cut)


def test_unlink_from_an_auxiliary_hierarchy_does_not_change_the_tree() -> None:
    s = demo(2, 2, 1)
    v = s.vertex("/demo/rack0/node-0-1")
    cut, old_to_new = surgery.unlink(s, v, "power")
    assert old_to_new.tolist() == list(range(s.n))
    assert rows(cut) == rows(s)
    assert cut.uris(v) == ["demo:/rack0/node-0-1"]
    assert edges(cut)["network"] == edges(s)["network"]
    assert len(edges(s)["power"] - edges(cut)["power"]) == 1


def test_unlink_removes_a_pool_in_no_other_hierarchy() -> None:
    s = demo(2, 2, 1)
    cut, old_to_new = surgery.unlink(s, s.vertex("power:/pdu0"), "power")
    assert [s.name(u) for u in np.flatnonzero(old_to_new < 0).tolist()] == ["pdu0"]
    assert paths(cut)[: cut.tree_end] == paths(s)[: s.tree_end]
    assert {(a, b) for a, b, *_ in edges(cut)["power"]} == {("power:/pdu1", f"/demo/rack1/node-1-{n}") for n in (0, 1)}
    assert not errors(cut)


def test_unlink_keeps_a_pool_in_another_auxiliary_hierarchy() -> None:
    root = Node("cluster", basename="c", children=[Node("node", 0)])
    graphs = {"power": [("pdu0", "fan0"), ("fan0", "/c/node0")], "cooling": [("loop0", "fan0")]}
    s = build(root, Node("pdu", 0), Node("fan", 0), Node("loop", 0), graphs=graphs, hierarchies=["power", "cooling"])
    cut, _ = surgery.unlink(s, s.vertex("power:/pdu0/fan0"), "power")
    assert sorted(cut.name(u) for u in range(cut.tree_end, cut.n)) == ["fan0", "loop0", "pdu0"]
    assert edges(cut)["power"] == set()
    assert cut.where(cut.vertex("cooling:/loop0/fan0")) == "cooling:/loop0/fan0"


def test_unlink_refuses_invalid_pools() -> None:
    s = demo()
    with pytest.raises(UsageError, match=r"/demo: the root cannot be unlinked \(`fluxres graphs drop` drops"):
        surgery.unlink(s, 0)
    with pytest.raises(UsageError, match="is not in the containment tree"):
        surgery.unlink(s, s.tree_end)
    with pytest.raises(UsageError, match="/demo/rack0: is not in hierarchy 'power'"):
        surgery.unlink(s, 1, "power")
    with pytest.raises(UsageError, match="is a graph but not a hierarchy"):
        surgery.unlink(s, 2, "network")
    with pytest.raises(UnknownGraph):
        surgery.unlink(s, 2, "cooling")
    with pytest.raises(UnknownPool):
        surgery.unlink(s, s.n)


# -- merge ---------------------------------------------------------------------------------------------------------------


def test_merge_attaches_at_the_common_ancestor() -> None:
    s = demo(1, 2, 1)
    whole = demo(2, 2, 1, origin=OTHER_ORIGIN)
    other, _ = surgery.extract(whole, whole.vertex("/demo/rack1"))
    before = snapshot(s), snapshot(other)
    made, from_s, from_other = surgery.merge(s, other)
    assert (snapshot(s), snapshot(other)) == before
    assert [made.where(u) for u in from_s.tolist()] == paths(s)
    assert {made.where(u) for u in from_other.tolist()} >= {"/demo/rack1", "/demo/rack1/node-1-0/core0", "power:/pdu1"}
    assert {place for place in rows(made) if place.startswith("/")} == {
        p for p in (*paths(s), *paths(other)) if p.startswith("/")
    }
    assert not made.flags.item(0)
    assert not errors(made)
    scribble(made)
    assert (snapshot(s), snapshot(other)) == before


@given(machines(), st.data())
def test_merge_is_the_inverse_of_unlink(s: Structure, data: st.DataObject) -> None:
    if s.n == 1:
        return
    v = data.draw(integers(1, s.n - 1))
    part, _ = surgery.extract(s, v)
    rest, _ = surgery.unlink(s, v)
    made, _, _ = surgery.merge(rest, part)
    assert rows(made) == rows(s)
    assert not errors(made)


def test_merge_is_the_inverse_of_unlink_with_auxiliary_graphs() -> None:
    s = tagged_demo()
    for place in ("/demo/rack0", "/demo/rack1/node-1-2", "/demo/rack0/node-0-0/memory0"):
        v = s.vertex(place)
        part, _ = surgery.extract(s, v)
        rest, _ = surgery.unlink(s, v)
        made, _, _ = surgery.merge(rest, part)
        assert rows(made) == rows(s)
        assert edges(made) == edges(s)
        assert made.names == s.names
        assert not errors(made)


def sizes_by_path(s: Structure) -> dict[str, tuple[str, int, bool]]:
    return {s.path(v): (s.kind_of(v).type, s.size.item(v), s.end.item(v) == v + 1) for v in range(s.tree_end)}


@given(machines(), machines())
def test_merge_of_unrelated_machines_agrees_with_merging_their_paths(a: Structure, b: Structure) -> None:
    b.origins[0] = OTHER_ORIGIN
    mine, theirs = sizes_by_path(a), sizes_by_path(b)
    before = snapshot(a), snapshot(b)
    met = {path: (mine[path], theirs[path]) for path in mine.keys() & theirs.keys()}
    if any(x[0] != y[0] or (x[2] and y[2] and path.count("/") > 1) for path, (x, y) in met.items()):
        with pytest.raises(MergeConflict, match="in the other graph"):
            surgery.merge(a, b)
        return
    made, from_a, from_b = surgery.merge(a, b)
    expected = {}
    for path in mine.keys() | theirs.keys():
        if path in mine and path in theirs:
            expected[path] = (*mine[path][:2], mine[path][2] and theirs[path][2])
        else:
            expected[path] = mine.get(path) or theirs[path]
    assert sizes_by_path(made) == expected
    assert [made.path(v) for v in from_a.tolist()] == [a.path(v) for v in range(a.n)]
    assert [made.path(v) for v in from_b.tolist()] == [b.path(v) for v in range(b.n)]
    assert {made.uuid(v) for v in from_a.tolist()} == {a.uuid(v) for v in range(a.n)}
    assert not errors(made)
    assert (snapshot(a), snapshot(b)) == before


@given(machines(), st.data())
def test_merge_of_two_parts_of_one_machine_adds_both(s: Structure, data: st.DataObject) -> None:
    """Copies of what two jobs hold, merged, equal a copy of what one job with both would hold."""
    shares = [data.draw(integers(0, s.size.item(v))) for v in range(s.n)]
    first = np.array(shares)
    rest = s.size - first
    inner = s.end > np.arange(s.n) + 1
    first[inner], rest[inner] = 0, 0
    if not first.any() or not rest.any():
        return
    everything = np.ones(s.n, np.bool_)
    a, b = surgery.extract_many(s, everything, first)[0], surgery.extract_many(s, everything, rest)[0]
    made, _, _ = surgery.merge(a, b)
    whole = surgery.extract_many(s, everything, first + rest)[0]
    assert rows(made) == rows(whole)


def test_merge_refuses_more_units_than_the_pool_has() -> None:
    s = demo(1, 1, 1)
    memory = s.vertex("/demo/rack0/node-0-0/memory0")
    keep = np.zeros(s.n, np.bool_)
    keep[memory] = True
    sizes = np.where(keep, 24, s.size)
    part = surgery.extract_many(s, keep, sizes)[0]
    with pytest.raises(MergeConflict, match="/demo/rack0/node-0-0/memory0: would make 48 of 32 GiB"):
        surgery.merge(part, part)
    with pytest.raises(MergeConflict, match="would make 2 of 1 units"):
        surgery.merge(s, s)


def test_merge_into_a_pass_through_pool_adds_its_units() -> None:
    s = demo(1, 2, 1)
    core = np.zeros(s.n, np.bool_)
    core[s.vertex("/demo/rack0/node-0-0/core0")] = True
    part = surgery.extract_many(s, core)[0]
    node, _ = surgery.extract(s, s.vertex("/demo/rack0/node-0-1"))
    made, _, _ = surgery.merge(part, node)
    ways = {made.path(v) for v in range(made.tree_end) if made.flags.item(v) & WAY}
    assert ways == {"/demo", "/demo/rack0", "/demo/rack0/node-0-0"}
    without_core = surgery.unlink(node, node.vertex("/demo/rack0/node-0-1/core0"))[0]
    other_core = np.zeros(s.n, np.bool_)
    other_core[s.vertex("/demo/rack0/node-0-1/core0")] = True
    made, _, _ = surgery.merge(surgery.extract_many(s, other_core)[0], without_core)
    assert not made.flags.item(made.vertex("/demo/rack0/node-0-1"))


def test_merge_at_a_new_path_names_the_root() -> None:
    s = demo(1, 1, 1)
    rack = build(Node("rack", 0, [Node("node", 0, [Node("core", 0)], template="node-${rack}-${id}")]), origin=OTHER_ORIGIN)
    for at in ("/demo/rack9", "demo:/rack9"):
        made, _, from_other = surgery.merge(s, rack, at)
        assert [made.path(v) for v in from_other.tolist()] == [
            "/demo/rack9",
            "/demo/rack9/node-9-0",
            "/demo/rack9/node-9-0/core0",
        ]
        assert made.id.item(made.vertex("/demo/rack9")) == 9
        assert not errors(made)
    made, _, from_other = surgery.merge(s, rack, "/demo/annex")
    assert [made.path(v) for v in from_other.tolist()] == ["/demo/annex", "/demo/annex/node-0-0", "/demo/annex/node-0-0/core0"]
    assert paths(rack)[0] == "/rack0"


def test_pool_outside_the_tree_gets_the_name_it_is_merged_at() -> None:
    s = build(Node("m", children=[Node("a"), Node("b")]), graphs={"power": [("/m/b", "/m/a")]}, hierarchies=["power"])
    part, _ = surgery.extract(s, 1, take_ancestors=False)
    rest, _ = surgery.unlink(s, 1)
    assert paths(rest) == ["/m", "/m/b", "power:/b/a"]
    before = snapshot(rest), snapshot(part)
    made, from_rest, from_part = surgery.merge(rest, part, "/m/new")
    assert paths(made) == ["/m", "/m/b", "/m/new"]
    assert from_rest.item(2) == from_part.item(0) == 2
    assert made.uuid(2) == s.uuid(1)
    assert edges(made) == {"power": {("/m/b", "/m/new", ("subsystem", "power"), ("type", "link"))}}
    assert (snapshot(rest), snapshot(part)) == before


def test_merge_at_an_existing_path() -> None:
    s = demo(1, 1, 1)
    rack = build(Node("rack", 0, [Node("switch", 5)]), origin=OTHER_ORIGIN)
    # The pool at the path has the root's name and type: it is the root.
    assert surgery.merge(s, rack, "/demo/rack0")[0].path(2 + 3) == "/demo/rack0/switch5"
    # Otherwise the root goes below it.
    made, _, from_other = surgery.merge(s, rack, "/demo/rack0/node-0-0")
    assert made.path(from_other.item(0)) == "/demo/rack0/node-0-0/rack0"
    # Below the root is one of that name already: the same pool.
    made, _, from_other = surgery.merge(s, rack, "demo:/")
    assert [made.path(v) for v in from_other.tolist()] == ["/demo/rack0", "/demo/rack0/switch5"]
    center = build(Node("center", basename="site", children=[Node("cluster", basename="demo")]), origin=OTHER_ORIGIN)
    made, _, _ = surgery.merge(center, s, "/site")
    assert made.path(2) == "/site/demo/rack0"


def test_merge_conflicts_name_their_place() -> None:
    s = demo(1, 1, 1)
    rack = build(Node("rack", 9), origin=OTHER_ORIGIN)
    with pytest.raises(MergeConflict, match=r"no common ancestor \(give the path"):
        surgery.merge(s, rack)
    with pytest.raises(UnknownPool, match="no pool 'rack7'"):
        surgery.merge(s, rack, "/demo/rack7/rack9")
    with pytest.raises(UnknownPool):
        surgery.merge(s, rack, "/elsewhere")
    with pytest.raises(UsageError, match="a path starts with"):
        surgery.merge(s, rack, "rack9")
    with pytest.raises(UsageError, match="not in 'network'"):
        surgery.merge(s, rack, "network:/spine/rack9")
    with pytest.raises(UnknownPool, match="no pool 'pdu9'"):
        surgery.merge(s, rack, "power:/pdu9/rack9")
    with pytest.raises(UsageError, match="a name has 1 to"):
        surgery.merge(s, rack, "/demo/" + "x" * (limits.NAME_LENGTH_MAX + 1))


def test_merge_refuses_another_type_at_the_same_path() -> None:
    a = build(Node("cluster", basename="c", children=[Node("node", 0, name="x")]))
    b = build(Node("cluster", basename="c", children=[Node("rack", 0, name="x")]), origin=OTHER_ORIGIN)
    with pytest.raises(MergeConflict, match="/c/x: is a node here and a rack in the other graph"):
        surgery.merge(a, b)


def test_merge_refuses_one_pool_in_two_places() -> None:
    s = demo(2, 1, 1)
    part, _ = surgery.extract(s, s.vertex("/demo/rack0"), take_ancestors=False)
    with pytest.raises(MergeConflict, match="would be both here and at '/demo/rack0'"):
        surgery.merge(s, part, "/demo/rack9")


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (Node("node", 12, basename="n"), Node("node", 2, basename="n1")),
        (Node("node", 12, basename="n"), Node("node", -1, basename="n12")),
        (Node("node", 12, template="n${id}"), Node("node", 12, basename="n")),
        (Node("node", 3, name="n12"), Node("node", 12, template="n${id}")),
        (Node("node", 3, template="n${size}2", size=1), Node("node", -1, name="n12")),
        (Node("node", 3, template="n${frame}", properties={"frame": 12}), Node("node", 4, name="n12")),
    ],
)
def test_merge_joins_by_name_however_it_is_produced(mine: Node, theirs: Node) -> None:
    others = [Node("node", k, basename="other") for k in range(3)]
    mine, theirs = (replace(node, children=[Node("core", k)]) for k, node in enumerate((mine, theirs)))
    a = build(Node("cluster", basename="c", children=[*others, mine]))
    b = build(Node("cluster", basename="c", children=[theirs, Node("gpu", 0)]), origin=OTHER_ORIGIN)
    for x, y in ((a, b), (b, a)):
        made, from_x, from_y = surgery.merge(x, y)
        assert made.n == 8
        assert made.name(from_x.item(x.vertex("/c/n12"))) == made.name(from_y.item(y.vertex("/c/n12"))) == "n12"
        assert made.size.item(made.vertex("/c/n12")) == 1
        assert not errors(made)


def test_merge_keeps_names_that_came_from_an_ancestor_with_another_id() -> None:
    node = {"template": "node-${rack}-${id}"}
    a = build(Node("cluster", basename="c", children=[Node("rack", 1, [Node("node", 0, **node)], name="r")]))
    b = build(Node("cluster", basename="c", children=[Node("rack", 2, [Node("node", 0, **node)], name="r")]), origin=OTHER_ORIGIN)
    made, _, _ = surgery.merge(a, b)
    assert paths(made) == ["/c", "/c/r", "/c/r/node-1-0", "/c/r/node-2-0"]


def test_merge_gives_attached_nodes_free_ranks_and_pools_the_rank_of_their_node() -> None:
    a = build(Node("cluster", basename="c", children=[Node("node", k, [Node("core", 0, rank=k)], rank=k) for k in range(2)]))
    b = build(
        Node("cluster", basename="c", children=[
            Node("node", 1, [Node("gpu", 0, rank=0)], rank=0), Node("node", 2, [Node("core", 0, rank=1)], rank=1),
            Node("node", 3, [Node("core", 0, rank=7)], rank=7), Node("gpu", 9),
        ]),
        origin=OTHER_ORIGIN,
    )  # fmt: skip
    made, _, _ = surgery.merge(a, b)
    ranks = {made.path(v): made.rank.item(v) for v in range(made.n)}
    assert ranks == {
        "/c": -1, "/c/node0": 0, "/c/node0/core0": 0, "/c/node1": 1, "/c/node1/core0": 1, "/c/node1/gpu0": 1,
        "/c/node2": 8, "/c/node2/core0": 8, "/c/node3": 7, "/c/node3/core0": 7, "/c/gpu9": -1,
    }  # fmt: skip


def test_merge_finds_free_ranks_below_the_largest_one() -> None:
    top = 2**31 - 1
    a = build(Node("cluster", basename="c", children=[Node("node", 0, rank=0), Node("node", 1, rank=top)]))
    b = build(Node("cluster", basename="c", children=[Node("node", 2, rank=0), Node("node", 3, rank=top)]), origin=OTHER_ORIGIN)
    made, _, _ = surgery.merge(a, b)
    assert made.rank.tolist() == [-1, 0, top, 1, 2]


def test_merge_prefers_the_first_graph_and_adds_missing_tags() -> None:
    cores = [Node("core", 0)], [Node("core", 1)]
    mine = Node("node", 0, cores[0], state="drain", tags={"k": "mine"}, properties={"p": 1})
    theirs = Node("node", 0, cores[1], tags={"k": "theirs", "more": None}, properties={"q": 1})
    a = build(Node("cluster", basename="c", children=[mine]))
    b = build(Node("cluster", basename="c", children=[theirs]), origin=OTHER_ORIGIN)
    made, _, _ = surgery.merge(a, b)
    assert made.tags[1] == {"k": "mine", "more": None}
    assert made.kind_of(1).properties == (("p", 1),)
    assert made.state_name(1) == "drain"
    assert made.uuid(1) == a.uuid(1)
    assert b.tags[1] == {"k": "theirs", "more": None}


def test_merge_joins_auxiliary_graphs_without_duplicate_edges() -> None:
    s = demo(1, 2, 1)
    other = demo(1, 3, 1, origin=OTHER_ORIGIN)
    other.flags[:] |= WAY  # leaves of unrelated machines are not the same pool
    other.subsystems["network"].relations[0] = "cable"
    other.subsystems["network"].attributes["length"] = np.arange(len(other.subsystems["network"]), dtype=np.float64)
    other.subsystems["network"].attributes["colour"] = np.array(["red"] * len(other.subsystems["network"]), object)
    made, _, _ = surgery.merge(s, other)
    power = {(a, b) for a, b, *_ in edges(made)["power"]}
    assert len(made.subsystems["power"]) == 3
    assert power == {("power:/pdu0", f"/demo/rack0/node-0-{n}") for n in range(3)}
    # pdu0 is the same by its path in power; the switches of unrelated machines are not the same.
    assert made.size.item(made.vertex("power:/pdu0")) == 5000
    assert sorted(made.name(v) for v in range(made.tree_end, made.n)) == ["pdu0", "spine0", "spine0", "switch0", "switch0"]
    network = made.subsystems["network"]
    assert len(network) == len(s.subsystems["network"]) + len(other.subsystems["network"])
    assert np.isnan(network.attributes["length"][: len(s.subsystems["network"])]).all()
    assert "length" not in network.edge_data(0)
    assert network.edge_data(len(network) - 1)["colour"] == "red"
    assert network.edge_data(len(network) - 1)["type"] == "cable"
    assert not errors(made)


def test_merge_refuses_a_second_parent_in_a_hierarchy() -> None:
    def machine(pdu: int, origin: int) -> Structure:
        root = Node("cluster", basename="c", children=[Node("node", 0)])
        return build(root, Node("pdu", pdu), graphs={"power": [(f"pdu{pdu}", "/c/node0")]}, hierarchies=["power"], origin=origin)

    a, b = machine(0, uuids.new_origin()), machine(1, OTHER_ORIGIN)
    b.flags[1] |= WAY
    with pytest.raises(MergeConflict, match="/c/node0: would have two parents in hierarchy 'power'"):
        surgery.merge(a, b)
    b.subsystems["power"].hierarchy = False
    with pytest.raises(MergeConflict, match="power: 'power' is a hierarchy here and a graph in the other"):
        surgery.merge(a, b)


def test_merge_joins_trees_outside_containment_by_uuid_and_adds_missing_pools() -> None:
    def machine(panels: int, switch: str, origin: int) -> Structure:
        plant = Node("plant", uuid="the-plant", children=[Node("panel", k, uuid=f"panel-{k}") for k in range(panels)])
        return build(Node("cluster", basename="c"), plant, Node("switch", name=switch), origin=origin)

    other = machine(3, "s2", OTHER_ORIGIN)
    other.flags[1:3] |= WAY
    made, _, from_other = surgery.merge(machine(1, "s1", uuids.new_origin()), other)
    assert [made.name(v) for v in range(made.n)] == ["c", "plant", "panel0", "panel1", "panel2", "s1", "s2"]
    assert made.end.tolist() == [1, 5, 3, 4, 5, 6, 7]
    assert made.tree_end == 1
    assert from_other.tolist() == [0, 1, 2, 3, 4, 6]


def test_merge_refuses_a_part_of_a_tree_outside_containment_without_its_parent() -> None:
    panel = Node("panel", 0, uuid="the-panel")
    s = build(Node("cluster", basename="c"), Node("plant", 0, [panel]))
    other = build(Node("cluster", basename="c"), Node("plant", 1, [panel]), origin=OTHER_ORIGIN)
    with pytest.raises(MergeConflict, match="the pool with uuid the-panel would be both here and at"):
        surgery.merge(s, other)


def test_merge_keeps_kind_tables_separate() -> None:
    a, b = demo(1, 1, 1), build(Node("cluster", basename="demo", children=[Node("gpu", 0), Node("core", 1)]), origin=OTHER_ORIGIN)
    kinds = list(a.kinds), list(b.kinds)
    made, _, _ = surgery.merge(a, b)
    assert (list(a.kinds), list(b.kinds)) == kinds
    assert made.kind_of(made.vertex("/demo/gpu0")).type == "gpu"
    table = KindTable()
    c, d = (
        build(Node("cluster", basename="x", children=[Node("gpu", 0)]), kinds=table),
        build(Node("node", 1), origin=OTHER_ORIGIN, kinds=table),
    )
    assert surgery.merge(c, d, "/x")[0].kinds is table


def test_merge_respects_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = Node("a", 0)
    for _ in range(limits.DEPTH_MAX - 2):
        deep = Node("a", 0, [deep])
    other = build(deep, origin=OTHER_ORIGIN)
    s = build(Node("cluster", basename="c", children=[Node("node", 0)]))
    assert surgery.merge(s, other, "/c")[0].depth.max() == limits.DEPTH_MAX - 1
    with pytest.raises(LimitExceeded, match="65 levels deep"):
        surgery.merge(s, other, "/c/node0")
    monkeypatch.setattr(limits, "POOLS_MAX", other.n + 1)
    with pytest.raises(LimitExceeded, match="pools together exceed"):
        surgery.merge(s, other, "/c")
    monkeypatch.undo()
    monkeypatch.setattr(limits, "ORIGINS_MAX", 1)
    with pytest.raises(LimitExceeded, match="uuid origins"):
        surgery.merge(s, other, "/c")
    monkeypatch.undo()
    mine, theirs = demo(1, 1, 1), demo(1, 2, 1, origin=OTHER_ORIGIN)
    theirs.subsystems["network"].relations[0] = "cable"
    theirs.flags[:] |= WAY
    bounds = {"EDGES_MAX": "edges, at most", "RELATIONS_MAX": "different relations", "SUBSYSTEMS_MAX": "auxiliary graphs"}
    for bound, message in bounds.items():
        monkeypatch.setattr(limits, bound, 1)
        with pytest.raises(LimitExceeded, match=message):
            surgery.merge(mine, theirs)
        monkeypatch.undo()


# -- random machines with auxiliary graphs -------------------------------------------------------------------------------


def kept_edges(s: Structure, numbers: dict[int, int]) -> dict[str, list[tuple[int, int, str]]]:
    """The edges whose two ends have a new number, by definition, in their order."""
    return {
        name: [(numbers[a], numbers[b], repr(data)) for a, b, data in graph.rows() if a in numbers and b in numbers]
        for name, graph in s.subsystems.items()
    }


def all_edges(s: Structure) -> dict[str, list[tuple[int, int, str]]]:
    return kept_edges(s, {v: v for v in range(s.n)})


def beside(s: Structure, taken: set[int], own: set[int], available: list[int] | None) -> set[int]:
    """Pools outside the tree that a copy includes: joined to one of its own, then up the hierarchy and up their own trees."""
    found = set()
    for a, b, _ in s.subsystems["network"].rows():
        found |= {u for u, v in ((a, b), (b, a)) if v in own and u >= s.tree_end}
    if available is not None:
        found = {u for u in found if available[u - s.tree_end]}
    parents = {b: a for a, b, _ in s.subsystems["power"].rows()}
    # One step leads from a pool of the tree to the outside; from there, the path continues as long as it stays outside.
    found |= {parents[v] for v in taken if parents.get(v, -1) >= s.tree_end}
    return climbed(s, found)


def climbed(s: Structure, found: set[int]) -> set[int]:
    """These pools outside the tree and those above them outside it, in `power` and in trees of their own."""
    parents = {b: a for a, b, _ in s.subsystems["power"].rows()}
    while more := {a for u in found for a in (parents.get(u, -1), s.parent.item(u)) if a >= s.tree_end} - found:
        found = found | more
    return found


@given(machines_with_graphs(), st.data())
def test_extract_keeps_edges_between_kept_pools(s: Structure, data: st.DataObject) -> None:
    v = data.draw(integers(0, s.tree_end - 1))
    length = s.end.item(v) - v
    keep = np.array([True] + [data.draw(integers(0, 3)) > 0 for _ in range(length - 1)])
    outside = data.draw(st.none() | st.just([data.draw(integers(0, s.size.item(u))) for u in range(s.tree_end, s.n)]))
    before = snapshot(s)
    made, vertices = surgery.extract(s, v, keep, outside=None if outside is None else np.array(outside, np.int64))
    inside = {u for u in range(v, v + length) if all(keep[w - v] for w in [u, *s.ancestors(u)] if w >= v)}
    above = set(s.ancestors(v))
    if v == 0:
        wanted = {u for u in range(s.tree_end, s.n) if outside is None or outside[u - s.tree_end]}
        wanted = climbed(s, wanted | beside(s, inside, set(), outside))
    else:
        wanted = beside(s, inside | above, inside, outside)
    assert vertices.tolist() == sorted(above | inside | wanted)
    sized = {u for u in wanted if outside is not None and outside[u - s.tree_end]}
    # Only a full copy owns the pools outside the tree; in a partial copy they are pass-through pools, like its rack.
    own = inside | ({u for u in wanted if outside is None or u in sized} if v == 0 else set())
    numbers = {old: new for new, old in enumerate(vertices.tolist())}
    assert {u for u in numbers if not made.flags.item(numbers[u]) & WAY} == own
    for u in wanted:
        assert made.size.item(numbers[u]) == (outside[u - s.tree_end] if outside is not None and u in sized else s.size.item(u))
    assert all_edges(made) == kept_edges(s, numbers)
    assert not errors(made)
    assert snapshot(s) == before


@given(machines_with_graphs(), st.data())
def test_extract_many_keeps_edges_between_kept_pools(s: Structure, data: st.DataObject) -> None:
    keep = np.array([data.draw(st.booleans()) for _ in range(s.n)])
    if not keep.any():
        return
    made, vertices = surgery.extract_many(s, keep)
    own = set(np.flatnonzero(keep).tolist())
    taken = own | {0} | {w for u in own for w in s.ancestors(u)}
    wanted = taken | beside(s, taken, {u for u in own if u < s.tree_end}, None)
    assert vertices.tolist() == sorted(wanted)
    assert {vertices.item(u) for u in np.flatnonzero(made.flags & WAY).tolist()} == wanted - own
    assert all_edges(made) == kept_edges(s, {old: new for new, old in enumerate(vertices.tolist())})
    assert not errors(made)


@given(machines_with_graphs(), st.data())
def test_unlink_keeps_pools_in_another_hierarchy(s: Structure, data: st.DataObject) -> None:
    if s.tree_end == 1:
        return
    v = data.draw(integers(1, s.tree_end - 1))
    before = snapshot(s)
    made, old_to_new = surgery.unlink(s, v)
    members = {u for a, b, _ in s.subsystems["power"].rows() for u in (a, b)}
    below = set(range(v, s.end.item(v)))
    numbers = {old: new for old, new in enumerate(old_to_new.tolist()) if new >= 0}
    assert numbers.keys() == set(range(s.n)) - (below - members)
    assert {u for u in numbers if numbers[u] < made.tree_end} == set(range(s.tree_end)) - below
    for u, new in numbers.items():
        above = -1 if u in below else s.parent.item(u)
        assert made.parent.item(new) == numbers.get(above, -1)
        assert (made.uuid(new), made.name(new), made.size.item(new)) == (s.uuid(u), s.name(u), s.size.item(u))
    assert all_edges(made) == kept_edges(s, numbers)
    assert not errors(made)
    assert snapshot(s) == before


@given(machines_with_graphs(), st.data())
def test_unlink_from_a_hierarchy_removes_pools_in_no_other_hierarchy(s: Structure, data: st.DataObject) -> None:
    pairs = [(a, b) for a, b, _ in s.subsystems["power"].rows()]
    members = sorted({u for pair in pairs for u in pair})
    if not members:
        return
    v = data.draw(st.sampled_from(members))
    below = {v}
    while more := {b for a, b in pairs if a in below} - below:
        below |= more
    made, old_to_new = surgery.unlink(s, v, "power")
    left = {u for a, b in pairs for u in (a, b) if b not in below}
    dead = {u for top in below if top >= s.tree_end for u in range(top, s.end.item(top))} - left
    assert set(np.flatnonzero(old_to_new < 0).tolist()) == dead
    numbers = {old: new for old, new in enumerate(old_to_new.tolist()) if new >= 0}
    expected = kept_edges(s, numbers)
    keep = [b not in below for a, b in pairs if a in numbers and b in numbers]
    expected["power"] = [edge for edge, kept in zip(expected["power"], keep, strict=True) if kept]
    assert all_edges(made) == expected
    assert [made.path(new) for new in range(made.tree_end)] == [s.path(u) for u in range(s.tree_end)]
    assert not errors(made)


def meeting(s: Structure) -> dict[str, tuple[Any, ...]]:
    """Pools by uuid, as far as unlinking and merging back must leave them."""
    return {s.uuid(v): (s.name(v), s.size.item(v), s.where(v) if v < s.tree_end else None, s.capacity.get(v)) for v in range(s.n)}


@given(machines_with_graphs(), st.data())
def test_merge_is_the_inverse_of_unlink_on_random_graphs(s: Structure, data: st.DataObject) -> None:
    if s.tree_end == 1:
        return
    s.subsystems["network"] = s.subsystems["network"].renumber(
        np.arange(s.n, dtype=np.int32), keep_rows=np.arange(len(s.subsystems["network"])) < 1
    )
    v = data.draw(integers(1, s.tree_end - 1))
    part, _ = surgery.extract(s, v)
    rest, _ = surgery.unlink(s, v)
    made, from_rest, from_part = surgery.merge(rest, part)
    assert meeting(made) == meeting(s)
    for structure, numbers in ((rest, from_rest), (part, from_part)):
        assert [made.uuid(new) for new in numbers.tolist()] == [structure.uuid(old) for old in range(structure.n)]

    def by_uuid(structure: Structure) -> dict[str, set[tuple[str, str, str]]]:
        rows_of = {name: graph.rows() for name, graph in structure.subsystems.items()}
        return {name: {(structure.uuid(a), structure.uuid(b), repr(d)) for a, b, d in found} for name, found in rows_of.items()}

    # An edge between the part and the rest is in neither; all others are restored.
    gone = {s.uuid(u) for u in range(v, s.end.item(v))}
    for name, found in by_uuid(s).items():
        assert by_uuid(made)[name] <= found
        assert {edge for edge in found - by_uuid(made)[name] if (edge[0] in gone) == (edge[1] in gone)} == set()
    assert not errors(made)


@st.composite
def relatives(draw: st.DrawFn) -> tuple[Structure, Structure]:
    """Two structures that share pools, names or nothing: parts of one machine, or an unrelated one."""
    s = draw(machines_with_graphs())

    def one() -> Structure:
        form = draw(among("whole", "part", "rest", "share", "stranger"))
        v = draw(integers(0, s.tree_end - 1))
        if form == "part":
            return surgery.extract(s, v, take_ancestors=draw(st.booleans()))[0]
        if form == "rest" and v:
            return surgery.unlink(s, v)[0]
        if form == "share":
            keep = np.array([draw(st.booleans()) for _ in range(s.n)])
            keep[v] = True
            return surgery.extract_many(s, keep)[0]
        if form == "stranger":
            stranger = draw(machines_with_graphs())
            stranger.origins[0] = OTHER_ORIGIN
            return stranger
        return surgery.duplicate(s)

    return one(), one()


@given(relatives(), st.data())
def test_any_merge_is_a_valid_structure_or_a_conflict_with_a_place(
    pair: tuple[Structure, Structure], data: st.DataObject
) -> None:
    s, other = pair
    place = s.path(data.draw(integers(0, s.tree_end - 1)))
    at = data.draw(st.sampled_from([None, None, place, f"{place}/new", f"{place}/rack7"]))
    before = snapshot(s), snapshot(other)
    try:
        made, from_s, from_other = surgery.merge(s, other, at)
    except MergeConflict as conflict:
        refused = conflict
    else:
        refused = None
        assert not errors(made)
        assert {*from_s.tolist(), *from_other.tolist()} == set(range(made.n))
        assert [made.uuid(new) for new in from_s.tolist()] == [s.uuid(v) for v in range(s.n)]
        there = at is None or at in [s.path(v) for v in range(s.tree_end)]
        root = from_other.item(0)
        assert there or made.path(root) == at
        names = [s.name(v) if there or new != root else made.name(root) for v, new in enumerate(from_s.tolist())]
        assert [made.name(new) for new in from_s.tolist()] == names
        for structure, numbers in ((s, from_s), (other, from_other)):
            assert len(set(numbers.tolist())) == structure.n
            above = structure.parent[1 : structure.tree_end]
            assert made.parent[numbers[1 : structure.tree_end]].tolist() == numbers[above].tolist()
            for name, found in kept_edges(structure, dict(enumerate(numbers.tolist()))).items():
                ends = {(a, b) for a, b, _ in all_edges(made)[name]}
                assert {(a, b) for a, b, _ in found} <= ends
    assert refused is None or (refused.where and refused.hint)
    assert (snapshot(s), snapshot(other)) == before
