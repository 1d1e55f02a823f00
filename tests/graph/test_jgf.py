"""A graph, and the held part of one, as JGF."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fluxres.graph import jgf
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from tests.graph.builders import Node, build, machines


def machine(hierarchies: Sequence[str] = (), **graphs: Sequence[tuple[Any, ...]]) -> Structure:
    """Two nodes of two cores and a memory of 8, one rack in a tree of power, a network that is not a tree; and further graphs."""

    def node(number: int) -> Node:
        cores = [Node("core", i, rank=number) for i in range(2)]
        memory = Node("memory", -1, unit="GiB", size=8, rank=number)
        properties = {"ssd": None, "class": 3, "fast": True}
        return Node("node", number, [*cores, memory], rank=number, basename="n", properties=properties)

    rack = Node("rack", 0, [node(0), node(1)])
    pdu = Node("pdu", 0, unit="W", size=100)
    switch = Node("switch", -1, name="spine")
    return build(
        Node("cluster", -1, [rack], name="c"),
        pdu,
        switch,
        graphs={
            "power": [("pdu0", "/c/rack0", "supplies"), ("pdu0", "/c/rack0/n0", "supplies")],
            "network": [("spine", "/c/rack0/n0"), ("/c/rack0/n0", "spine")],
            **graphs,
        },
        hierarchies=["power", *hierarchies],
    )


def part(s: Structure, held: dict[str, int], **options: bool) -> jgf.GraphPart:
    found = sorted((s.vertex(where), amount) for where, amount in held.items())
    return jgf.held(s, np.array([v for v, _ in found], np.int32), np.array([n for _, n in found], np.int64), **options)


def whole(s: Structure) -> jgf.GraphPart:
    """Every pool with all its units, held by no job."""
    return jgf.GraphPart(np.arange(s.n, dtype=np.int32), s.size, np.zeros(s.n, np.bool_), (s.flags & WAY) != 0)


def by_path(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {next(iter(n["metadata"]["paths"].values())): n["metadata"] for n in document["graph"]["nodes"]}


def test_node_contains_what_differs_from_the_defaults() -> None:
    s = machine()
    told = by_path(jgf.document(s, whole(s)))
    uuid = {path: metadata.pop("uuid") for path, metadata in told.items()}
    assert uuid["/c/rack0/n1"] == s.uuid(s.vertex("/c/rack0/n1"))
    assert told["/c/rack0/n0"] == {
        "type": "node",
        "basename": "n",
        "id": 0,
        "rank": 0,
        "properties": {"class": "3", "fast": "true", "ssd": ""},
        "paths": {"containment": "/c/rack0/n0", "power": "/pdu0/n0"},
    }
    assert told["/c/rack0/n1/memory"] == {
        "type": "memory",
        "name": "memory",
        "id": -1,
        "rank": 1,
        "unit": "GiB",
        "size": 8,
        "paths": {"containment": "/c/rack0/n1/memory"},
    }
    assert told["/pdu0"]["paths"] == {"power": "/pdu0"}
    assert told["/spine"]["paths"] == {"network": "/spine"}


def test_edges_are_those_of_the_tree_and_then_of_the_other_graphs() -> None:
    s = machine()
    told = jgf.document(s, whole(s))["graph"]["edges"]
    tree = [(int(e["source"]), int(e["target"])) for e in told if "metadata" not in e]
    assert tree == [(s.parent.item(v), v) for v in range(1, s.tree_end)]
    others = [(e["metadata"]["subsystem"], int(e["source"]), int(e["target"])) for e in told if "metadata" in e]
    assert others == [
        (name, u, v) for name, g in s.subsystems.items() for u, v in zip(g.src.tolist(), g.dst.tolist(), strict=True)
    ]
    assert [e["metadata"]["relationship"] for e in told if "metadata" in e] == ["supplies", "supplies", "link", "link"]


def test_held_part_includes_descendants_and_ancestors() -> None:
    s = machine()
    told = by_path(jgf.document(s, part(s, {"/c/rack0/n0": 1, "/c/rack0/n1/memory": 3})))
    assert list(told) == [
        "/c",
        "/c/rack0",
        "/c/rack0/n0",
        "/c/rack0/n0/core0",
        "/c/rack0/n0/core1",
        "/c/rack0/n0/memory",
        "/c/rack0/n1",
        "/c/rack0/n1/memory",
        "/pdu0",
        "/spine",
    ]
    assert [path for path, metadata in told.items() if metadata.get("exclusive")] == list(told)[2:6]
    ways = [path for path, metadata in told.items() if metadata.get("way")]
    assert ways == ["/c", "/c/rack0", "/c/rack0/n1", "/pdu0", "/spine"]
    assert (told["/c/rack0/n1/memory"]["size"], told["/c/rack0/n1/memory"]["capacity"]) == (3, 8)
    assert told["/c/rack0/n0/memory"]["size"] == 8


def test_shorthand_leaves_out_what_is_below_exclusive_pools() -> None:
    s = machine()
    told = by_path(jgf.document(s, part(s, {"/c/rack0/n0": 1, "/c/rack0/n1/core1": 1}, shorthand=True)))
    assert list(told) == ["/c", "/c/rack0", "/c/rack0/n0", "/c/rack0/n1", "/c/rack0/n1/core1", "/pdu0", "/spine"]


def test_exclusive_record_wins_over_a_partial_one_below_it() -> None:
    s = machine()
    told = by_path(jgf.document(s, part(s, {"/c/rack0/n0": 1, "/c/rack0/n0/memory": 2})))
    assert (told["/c/rack0/n0/memory"]["size"], told["/c/rack0/n0/memory"]["exclusive"]) == (8, True)


def test_units_of_another_graph_are_written_with_its_edges() -> None:
    s = machine()
    document = jgf.document(s, part(s, {"power:/pdu0": 40, "/c/rack0/n0/core0": 1}))
    told = by_path(document)
    assert (told["/pdu0"]["size"], "exclusive" in told["/pdu0"]) == (40, False)
    power = [e for e in document["graph"]["edges"] if e.get("metadata", {}).get("subsystem") == "power"]
    assert [(int(e["source"]), int(e["target"])) for e in power] == [
        (s.vertex("power:/pdu0"), s.vertex("/c/rack0")),
        (s.vertex("power:/pdu0"), s.vertex("/c/rack0/n0")),
    ]


@given(machines(), st.data())
def test_every_edge_has_its_ends_and_every_pool_its_path(s: Structure, data: st.DataObject) -> None:
    chosen = data.draw(st.dictionaries(st.integers(0, s.n - 1), st.integers(0, 3), min_size=1, max_size=6))
    amounts = {v: max(1, min(n, s.size.item(v))) if s.size.item(v) else 0 for v, n in chosen.items()}
    vertices = np.array(sorted(amounts), np.int32)
    found = jgf.held(s, vertices, np.array([amounts[v] for v in vertices.tolist()], np.int64))
    document = jgf.document(s, found)
    keys = [n["id"] for n in document["graph"]["nodes"]]
    assert keys == [str(v) for v in found.vertices.tolist()]
    assert {end for e in document["graph"]["edges"] for end in (e["source"], e["target"])} <= set(keys)
    for n in document["graph"]["nodes"]:
        v = int(n["id"])
        if v < s.tree_end:
            assert n["metadata"]["paths"]["containment"] == s.path(v)
        assert s.parent.item(v) < 0 or str(s.parent.item(v)) in keys
    # Brute force: a pool is held exclusively if it or one above it is named with all its units.
    for v, whole, size in zip(found.vertices.tolist(), found.exclusive.tolist(), found.sizes.tolist(), strict=True):
        above = [v, *s.ancestors(v)]
        is_whole = any(u in amounts and amounts[u] == s.size.item(u) for u in above)
        assert whole == is_whole
        assert size == (s.size.item(v) if is_whole else amounts.get(v, s.size.item(v)))
    json.dumps(document)
