"""The audit finds every fault that it checks for, and nothing in a valid structure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.errors import InputError
from fluxres.graph.audit import check_structure, hosts_by_id, require_valid
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.identity import NameKeys, texts_needed
from fluxres.graph.structure import Problem, Structure
from tests.choices import among, integers
from tests.graph.builders import ORIGIN, Node, build, demo, machines


@given(machines())
def test_valid_structure_has_no_findings(s: Structure) -> None:
    assert check_structure(s) == []
    require_valid(s)


def test_valid_auxiliary_graphs_and_outside_trees_have_no_findings() -> None:
    assert check_structure(demo()) == []
    plant = Node("plant", children=[Node("panel", k, [Node("fuse", 0)]) for k in range(2)])
    assert check_structure(build(Node("cluster", basename="c"), plant, Node("pdu", 0))) == []


def is_preorder(parent: list[int], end: list[int], tree_end: int) -> bool:
    """By definition: pre-order of the trees that `parent` draws, each subtree a slice."""
    n = len(parent)
    if parent[0] != -1 or end[0] != tree_end or any(not -1 <= parent[v] < v for v in range(n)):
        return False
    if any(parent[v] < 0 for v in range(1, tree_end)) or any(0 <= parent[v] < tree_end for v in range(tree_end, n)):
        return False
    below: list[set[int]] = [{v} for v in range(n)]
    for v in range(n - 1, 0, -1):
        if parent[v] >= 0:
            below[parent[v]] |= below[v]
    return all(below[v] == set(range(v, end[v])) for v in range(n))


@given(machines(), st.data())
def test_shape_faults_are_found_exactly(s: Structure, data: st.DataObject) -> None:
    for _ in range(data.draw(integers(1, 2))):
        column = data.draw(st.sampled_from([s.parent, s.end]))
        v = data.draw(integers(0, s.n - 1))
        column[v] = data.draw(integers(-2, s.n + 1))
    s.id[:] = np.arange(s.n)
    s.names.clear()
    problems = [p for p in check_structure(s) if "two pools" not in p.message]
    assert (problems == []) == is_preorder(s.parent.tolist(), s.end.tolist(), s.tree_end)


def test_every_small_pair_of_columns_is_judged_correctly() -> None:
    """All parent and end columns of up to four pools."""
    judged = {True: 0, False: 0}
    for n, tree_end in ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 2), (4, 4)):
        for code in range((n + 1) ** (n - 1) * n ** (n - 1)):
            parent, end, rest = [-1], [tree_end], code
            for _ in range(n - 1):
                rest, p = divmod(rest, n + 1)
                rest, e = divmod(rest, n)
                parent.append(p - 1)
                end.append(e + 1)
            s = build(Node("x"))
            columns = {name: np.repeat(column, n) for name, column in s.columns().items()}
            columns |= {"parent": np.array(parent), "end": np.array(end), "id": np.arange(n), "serial": np.arange(n)}
            expected = is_preorder(parent, end, tree_end)
            problems = check_structure(Structure(columns, s.kinds, origins=s.origins, tree_end=tree_end))
            assert (problems == []) == expected, (parent, end, tree_end)
            judged[expected] += 1
    # The number of ordered trees and forests of these sizes (Catalan numbers): 1 + 1 + 1 + 2 + 1 + 2 + 2 + 5.
    assert judged[True] == 15


def set_at(column: str, v: int, value: Any) -> Callable[[Structure], None]:
    def fault(s: Structure) -> None:
        getattr(s, column)[v] = value

    return fault


def on_network(**changed: Any) -> Callable[[Structure], None]:
    def fault(s: Structure) -> None:
        for name, value in changed.items():
            setattr(s.subsystems["network"], name, value)

    return fault


def forest(pairs: list[tuple[int, int]]) -> Callable[[Structure], None]:
    def fault(s: Structure) -> None:
        src, dst = (np.array([pair[i] for pair in pairs], np.int32) for i in (0, 1))
        s.subsystems["power"] = Subsystem("power", True, src, dst)

    return fault


FAULTS: dict[str, tuple[Callable[[Structure], None], str, str]] = {
    "kind": (set_at("kind", 2, 99), "vertex 2", "kind 99 of 8"),
    "negative kind": (set_at("kind", 2, -1), "vertex 2", "kind -1 of 8"),
    "size 0": (set_at("size", 1, 0), "/demo/rack0", "size 0, expected 1 to"),
    "size beyond": (set_at("size", 1, limits.SIZE_MAX + 1), "/demo/rack0", "size 46116"),
    "id": (set_at("id", 1, -2), "/demo/rack", "id -2, expected -1 (none) to"),
    "id beyond": (set_at("id", 1, limits.ID_MAX + 1), "/demo/rack46", "expected -1 (none) to"),
    "rank": (set_at("rank", 1, -2), "/demo/rack0", "rank -2, expected -1 (none) or more"),
    "rank lost": (set_at("rank", 3, -1), "/demo/rack0/node-0-0/core0", "has no rank below a pool of rank 0"),
    "state": (set_at("state", 1, 8), "/demo/rack0", "state 8 of 8"),
    "flags": (set_at("flags", 1, 4), "/demo/rack0", "unknown flags 4"),
    "double id": (set_at("id", 4, 0), "/demo/rack0/node-0-0/core0", "another pool has the same path"),
    "double name": (lambda s: s.names.update({4: "memory0"}), "/demo/rack0/node-0-0/memory0", "another pool has the same path"),
    "double uuid": (set_at("serial", 4, 3), "/demo/rack0/node-0-0/core1", "another pool has the same uuid"),
    "double explicit uuid": (lambda s: s.uuid_texts.update({3: "x", 4: "x"}), "/demo/rack0/node-0-0/core1", "same uuid x"),
    "explicit uuid of another": (
        lambda s: s.uuid_texts.update({3: s.uuid(4).upper()}),
        "/demo/rack0/node-0-0/core1",
        "another pool has the same uuid",
    ),
    "origin": (set_at("origin", 1, 5), "/demo/rack0", "uuid: invalid origin 5 or serial 1"),
    "serial": (set_at("serial", 1, 1 << 48), "/demo/rack0", "uuid: invalid origin 0"),
    "name of none": (lambda s: s.names.update({99: "x"}), "vertex 99", "name of a pool that does not exist"),
    "tags of none": (lambda s: s.tags.update({-1: {}}), "vertex -1", "tags of a pool that does not exist"),
    "uuid of none": (lambda s: s.uuid_texts.update({99: "x"}), "vertex 99", "uuid of a pool that does not exist"),
    "capacity of none": (lambda s: s.capacity.update({99: 1}), "vertex 99", "capacity of a pool that does not exist"),
    "capacity": (lambda s: s.capacity.update({5: 31}), "/demo/rack0/node-0-0/memory0", "size 32 is more than its full size 31"),
    "empty name": (lambda s: s.names.update({1: ""}), "vertex 1", "'' is not a valid name"),
    "name with a slash": (lambda s: s.names.update({1: "a/b"}), "vertex 1", "'a/b' is not a valid name"),
    "long name": (lambda s: s.names.update({1: "x" * 256}), "vertex 1", "is not a valid name: expected 1 to 255 characters"),
    "template": (lambda s: s.kind.__setitem__(2, s.kinds.intern(BAD_TEMPLATE)), "/demo/rack0", "uses 'frame'"),
    "dangling edge": (
        on_network(dst=np.full(12, 99, np.int32)),
        "graphs.network",
        "an edge ends at vertex 99, which does not exist; 12",
    ),
    "edge columns": (on_network(relation=np.zeros(3, np.uint16)), "graphs.network", "columns of different lengths: [3, 12]"),
    "relation": (on_network(relation=np.full(12, 1, np.uint16)), "graphs.network", "relation 1 of 1"),
    "graph name": (on_network(name="net"), "graphs.network", "is named 'net'"),
    "two parents": (forest([(1, 2), (3, 2)]), "graphs.power", "vertex 2 has two parents"),
    "cycle": (forest([(1, 2), (2, 1)]), "graphs.power", "has a cycle"),
}
BAD_TEMPLATE = build(Node("node", 0, template="n-${frame}")).kind_of(0)


@pytest.mark.parametrize(("fault", "where", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_each_fault_is_found_with_its_place(fault: Callable[[Structure], None], where: str, message: str) -> None:
    s = demo(2, 2, 2)
    fault(s)
    problems = check_structure(s)
    assert any(p.where.startswith(where) and message in p.message for p in problems), problems
    if message.startswith("is flagged"):
        assert [p.severity for p in problems] == ["warning"]
        require_valid(s)
    else:
        with pytest.raises(InputError):
            require_valid(s)


def test_many_faults_yield_a_few_findings() -> None:
    s = demo(4, 4, 4)
    s.size[:] = 0
    assert len(check_structure(s)) == 4
    assert f"{s.n} pools in all" in check_structure(s)[-1].message
    with pytest.raises(InputError, match=r"/demo: size 0, .* \(and 3 more findings\)"):
        require_valid(s)


def test_bounds_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = Node("a", 0)
    for _ in range(limits.DEPTH_MAX - 1):
        deep = Node("a", 0, [deep])
    assert check_structure(build(deep)) == []
    assert "levels deep" in check_structure(build(Node("a", 0, [deep])))[0].message
    for bound, value, message in (
        ("POOLS_MAX", 3, "pools, at most 3 are allowed"),
        ("EDGES_MAX", 3, "edges, at most 3 are allowed"),
        ("SUBSYSTEMS_MAX", 1, "auxiliary"),
    ):
        monkeypatch.setattr(limits, bound, value)
        assert any(message in p.message for p in check_structure(demo(1, 2, 1))), bound
        monkeypatch.undo()


def test_columns_of_different_lengths_end_the_audit() -> None:
    s = demo(1, 1, 1)
    s.size = s.size[:-1]
    assert [p.message.partition(":")[0] for p in check_structure(s)] == ["columns of different lengths, or none"]


NAMES = st.sampled_from(["n1", "n12", "n", "a", "p01", "1-2", "x"])


@st.composite
def siblings(draw: st.DrawFn) -> Node:
    """Pools below one root that are named in every way, including duplicates."""
    children = [
        Node(
            draw(among("node", "gpu")),
            draw(integers(-1, 12)),
            basename=draw(among("n", "n1", "p", "a")),
            template=draw(among(None, "n${id}", "p${id:02}", "${size}-${id}", "${x}", "n${cluster}${id}")),
            name=draw(st.none() | NAMES),
            size=draw(integers(1, 2)),
            properties={"x": draw(among("n12", "a"))},
        )
        for _ in range(draw(integers(0, 6)))
    ]
    return Node("cluster", 1, children)


@given(siblings())
def test_duplicate_names_are_found_however_they_are_produced(root: Node) -> None:
    s = build(root)
    names = [s.name(v) for v in range(1, s.n)]
    doubles = [p for p in check_structure(s) if p.message.startswith("another pool has the same path")]
    assert bool(doubles) == (len(set(names)) < len(names))


@given(siblings())
def test_equal_keys_mean_equal_names(root: Node) -> None:
    s = build(root)
    vertices = np.arange(1, s.n, dtype=np.int32)
    keys = NameKeys()
    cls, number, odd = keys.of(s, vertices)
    texts = texts_needed(s.parent[vertices], cls, odd, keys.injective()) if s.n > 1 else []
    for i in range(len(vertices)):
        for j in range(i):
            same_key = (cls[i], number[i]) == (cls[j], number[j])
            same_name = s.name(i + 1) == s.name(j + 1)
            assert same_name or not same_key
            assert same_key == same_name or (texts[i] and texts[j])


def test_findings_are_in_pool_order() -> None:
    s = demo(2, 2, 1)
    s.size[[9, 3, 6]] = 0
    vertices = [s.vertex(p.where) for p in check_structure(s)]
    assert all(a < b for a, b in pairwise(vertices))
    assert isinstance(check_structure(s)[0], Problem)
    assert s.origins == [ORIGIN]


RACKS = "fluxres: 1\nname: m\nresources: [{type: rack, count: 3, with: [NODES]}]\n"


@pytest.mark.parametrize(
    ("nodes", "host", "number"),
    [
        ("{type: node, names: 'n[01-04,11-14]'}", "n01", 16),
        ("{type: node, names: 'n[01-04]'}", "n01", 8),
        ("{type: node, count: 1, names: 'n[7-9]', properties: [a]}, {type: node, count: 2, names: 'n[8-9],x[1-4]'}", "n8", 2),
        ("{type: node, count: 2, name: 'x${id}', id: {within: rack}}", "x0", 4),
        ("{type: node, count: 1, hosts: 'n[1-3]'}", "", 0),
        ("{type: node, count: 2, id: {within: rack}}", "", 0),
        ("{type: node, count: 2, name: 'x${rack}-${id}', id: {within: rack}}", "", 0),
        ("{type: node, with: [{type: socket, name: s0}]}", "", 0),
    ],
)
def test_duplicate_host_name_is_a_warning(nodes: str, host: str, number: int) -> None:
    found = fluxres.loads(RACKS.replace("NODES", nodes)).check()
    assert [problem.severity for problem in found] == ["warning"] * bool(host)
    for problem in found:
        assert problem.where.endswith(f"/{host}")
        assert problem.message.startswith(f"another node has the host name {host}, too")
        assert problem.message.endswith(f": {number}")


@pytest.mark.parametrize(
    ("nodes", "again"),
    [
        ("{type: node, id: 0}", ["/m/rack1/node0", "/m/rack2/node0"]),
        ("{type: node, count: 2, id: {within: rack}}", [f"/m/rack{rack}/node{i}" for rack in (1, 2) for i in (0, 1)]),
        ("{type: node, count: 2, id: {within: cluster}}", []),
        ("{type: node, name: n0}", []),
    ],
)
def test_nodes_named_by_type_and_id_that_share_a_host_name(nodes: str, again: list[str]) -> None:
    structure = fluxres.loads(RACKS.replace("NODES", nodes)).structure
    assert [structure.where(v) for v in hosts_by_id(structure)] == again
