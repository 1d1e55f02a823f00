"""Small structures from nested tuples, and machines by hypothesis, for the tests of `graph`.

Deliberately independent of `graph/recipe.py`, which is tested with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES, Kind, KindTable, properties_tuple
from fluxres.graph.structure import Structure
from tests.choices import among, integers


@dataclass
class Node:
    """One pool of a machine to be built; `children` below it."""

    type: str
    id: int = -1
    children: list[Node] = field(default_factory=list)
    basename: str | None = None
    template: str | None = None
    name: str | None = None
    unit: str | None = None
    size: int = 1
    rank: int = -1
    state: str = "up"
    flags: int = 0
    uuid: str | None = None
    serial: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    tags: dict[str, str | None] = field(default_factory=dict)
    capacity: int | None = None

    def label(self) -> str:
        """Explicit name, default name, or what the one template of `nodes` gives."""
        if self.name is None and self.template == PADDED:
            return f"p{self.id:02}"
        return self.name or (self.basename or self.type) + (str(self.id) if self.id >= 0 else "")


PADDED = "p${id:02}"
ORIGIN = uuids.new_origin(bytes(range(16)))


def build(
    root: Node,
    *outside: Node,
    graphs: Mapping[str, Sequence[tuple[Any, ...]]] | None = None,
    hierarchies: Sequence[str] = (),
    origin: int = ORIGIN,
    kinds: KindTable | None = None,
) -> Structure:
    """Args: graphs: name -> [(source, target[, relation[, capacity]])]; an end is a path, or label/label for a pool outside."""
    kinds = kinds if kinds is not None else KindTable()
    columns: dict[str, list[int]] = {
        c: [] for c in ("parent", "end", "kind", "size", "id", "rank", "state", "flags", "origin", "serial")
    }
    sparse: dict[str, dict[int, Any]] = {"names": {}, "uuid_texts": {}, "tags": {}, "capacity": {}}
    labels: dict[str, int] = {}

    def add(node: Node, parent: int, path: str) -> None:
        v = len(columns["parent"])
        labels[path + node.label()] = v
        kind = Kind(node.type, node.basename or node.type, node.unit, node.template, properties_tuple(node.properties.items()))
        row = {
            "parent": parent, "end": 0, "kind": kinds.intern(kind), "size": node.size, "id": node.id, "rank": node.rank,
            "state": STATES.index(node.state), "flags": node.flags, "origin": 0,
            "serial": v if node.serial is None else node.serial,
        }  # fmt: skip
        for key, value in row.items():
            columns[key].append(value)
        for key, value in (
            ("names", node.name),
            ("uuid_texts", node.uuid),
            ("tags", dict(node.tags)),
            ("capacity", node.capacity),
        ):
            if value:
                sparse[key][v] = value
        for child in node.children:
            add(child, v, f"{path}{node.label()}/")
        columns["end"][v] = len(columns["parent"])

    add(root, -1, "/")
    tree_end = len(columns["parent"])
    for node in outside:
        add(node, -1, "")
    s = Structure(
        {key: np.array(values) for key, values in columns.items()},
        kinds,
        origins=[origin],
        tree_end=tree_end,
        **sparse,
    )
    for name, edges in (graphs or {}).items():
        rows = [(*edge, *("link", None)[len(edge) - 2 :]) for edge in edges]
        relations = list(dict.fromkeys(str(row[2]) for row in rows)) or ["link"]
        src, dst = (
            np.array([labels[row[i]] if row[i] in labels else s.vertex(row[i]) for row in rows], np.int32) for i in (0, 1)
        )
        attributes = {}
        if any(row[3] is not None for row in rows):
            attributes["capacity"] = np.array([np.nan if row[3] is None else row[3] for row in rows], np.float64)
        relation = np.array([relations.index(str(row[2])) for row in rows], np.uint16)
        s.subsystems[name] = Subsystem(name, name in hierarchies, src, dst, relation, relations, attributes)
    return s


def demo(racks: int = 2, nodes: int = 3, cores: int = 2, *, origin: int = ORIGIN) -> Structure:
    """A cluster with memory, power (a hierarchy with its own pools) and a network (a graph with capacities)."""
    rank = iter(range(racks * nodes))
    root = Node("cluster", basename="demo")
    for r in range(racks):
        rack = Node("rack", r)
        for n in range(nodes):
            k = next(rank)
            below = [Node("core", c, rank=k) for c in range(cores)] + [Node("memory", 0, size=32, unit="GiB", rank=k)]
            rack.children.append(Node("node", n, below, rank=k, template="node-${rack}-${id}"))
        root.children.append(rack)
    places = [(r, n, f"/demo/rack{r}/node-{r}-{n}") for r in range(racks) for n in range(nodes)]
    power = [(f"pdu{r}", path, "supplies") for r, _, path in places]
    network: list[tuple[Any, ...]] = [(f"switch{r}", path, "link", 100.0) for r, _, path in places]
    network += [(path, f"switch{r}", "link", 100.0) for r, _, path in places]
    network += [("spine0", f"switch{r}", "link", 150.0) for r in range(racks)]
    network += [(f"switch{r}", "spine0", "link", 150.0) for r in range(racks)]
    pdus = [Node("pdu", r, size=5000, unit="W") for r in range(racks)]
    switches = [Node("switch", r) for r in range(racks)] + [Node("spine", 0)]
    return build(root, *pdus, *switches, graphs={"power": power, "network": network}, hierarchies=["power"], origin=origin)


TYPES = ("rack", "node", "core", "gpu")


@st.composite
def nodes(draw: st.DrawFn, depth: int = 3) -> Node:
    """A tree of pools whose siblings differ in name; some named explicitly, some without an id."""
    node = Node(draw(among(*TYPES)), size=draw(integers(1, 4)), rank=-1, state=draw(among(*STATES)))
    count = draw(integers(0, 4)) if depth else 0
    for _ in range(count):
        child = draw(nodes(depth - 1))
        child.id = draw(integers(-1, 3))
        if draw(integers(0, 4)) == 0:
            child.name = draw(among("a", "b", "node1", "core"))
        elif child.id >= 0 and draw(integers(0, 3)) == 0:
            child.template = PADDED
        if child.label() not in {other.label() for other in node.children}:
            node.children.append(child)
    return node


def trees() -> st.SearchStrategy[Node]:
    """Random trees under one root named 'm'."""

    def rooted(node: Node) -> Node:
        node.type, node.id, node.name, node.template = "cluster", -1, "m", None
        return node

    return nodes().map(rooted)


def machines() -> st.SearchStrategy[Structure]:
    """Structures of random trees."""
    return trees().map(build)


def rows(s: Structure) -> dict[str, tuple[Any, ...]]:
    """All pools as plain values by place, for comparing two structures."""
    found = {}
    for v in range(s.n):
        kind = s.kind_of(v)
        above = s.parent.item(v)
        found[s.where(v)] = (
            kind.type, s.name(v), kind.unit, kind.properties, s.size.item(v), s.id.item(v), s.rank.item(v), STATES[s.state[v]],
            s.flags.item(v), s.uuid(v), s.tags.get(v), s.capacity.get(v), s.where(above) if above >= 0 else None,
        )  # fmt: skip
    return found


def edges(s: Structure) -> dict[str, set[tuple[Any, ...]]]:
    """All auxiliary edges by graph, with their ends as places."""
    return {
        name: {(s.where(a), s.where(b), *sorted(data.items())) for a, b, data in graph.rows()}
        for name, graph in s.subsystems.items()
    }


def snapshot(s: Structure) -> Any:
    """The complete content of a structure, to check that an operation did not change it."""
    return rows(s), edges(s), [c.tolist() for c in s.columns().values()], list(s.origins), s.tree_end


@st.composite
def machines_with_graphs(draw: st.DrawFn) -> Structure:
    """Random trees, pools outside them, a hierarchy `power` over both and a graph `network` with doubled and looping edges."""
    outside = [Node("pdu", k, size=draw(integers(1, 3))) for k in range(draw(integers(0, 3)))]
    if draw(st.booleans()):
        outside.append(Node("plant", children=[Node("panel", k) for k in range(draw(integers(0, 2)))]))
    s = build(draw(trees()), *outside)
    # Parents are drawn from earlier pools in an order that starts outside the tree, so that there are no cycles.
    order = [*range(s.tree_end, s.n), *range(s.tree_end)]
    forest = [(order[draw(integers(0, at - 1))], order[at]) for at in range(1, len(order)) if draw(integers(0, 2)) == 0]
    pairs = draw(st.lists(st.tuples(st.integers(0, s.n - 1), st.integers(0, s.n - 1)), max_size=8))
    for name, found in (("power", forest), ("network", pairs)):
        src, dst = (np.array([pair[i] for pair in found], np.int32) for i in (0, 1))
        relation = np.array([i % 2 for i in range(len(found))], np.uint16)
        capacity = np.array([float(i) if i % 3 else np.nan for i in range(len(found))])
        s.subsystems[name] = Subsystem(name, name == "power", src, dst, relation, ["link", "backup"], {"capacity": capacity})
    return s
