"""Graphs as lists of nodes and edges, independent of the file format: the common half of the readers of node-link JSON and
GraphML.

Containment is the edges of the subsystem ``containment``, or those without a subsystem. A pool without a parent is the root of
the machine if it comes first, and otherwise must be in an auxiliary graph: unconnected pools do not make a machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.format import Fail
from fluxres.formats.pool_uuids import give_uuids
from fluxres.graph.assemble import assemble
from fluxres.graph.audit import require_valid
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.identity import repeated
from fluxres.graph.kinds import STATES, WAY, Kind, KindTable, properties_tuple, require_draws
from fluxres.graph.structure import Structure

CONTAINMENT: Final = "containment"


class Edge(NamedTuple):
    """An edge of an auxiliary graph, between rows of nodes."""

    src: int
    dst: int
    relation: str
    attributes: Mapping[str, Any]


class GraphEdges:
    """The edges of a document as they are read: (parent row, child row, number of the edge) of containment, others by graph."""

    def __init__(self) -> None:
        self.parents: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.graphs: dict[str, list[Edge]] = {}

    def contain(self, parent: int, child: int, number: int) -> None:
        parents, children, numbers = self.parents
        parents.append(parent)
        children.append(child)
        numbers.append(number)

    def connect(self, graph: str, src: int, dst: int, relation: str, attributes: Mapping[str, Any]) -> None:
        self.graphs.setdefault(graph, []).append(Edge(src, dst, relation, attributes))


@dataclass(slots=True)
class GraphRows:
    """Nodes by column, edges by graph; absent values are None.

    Args:
        own: of a document that fluxres wrote, all auxiliary graphs and whether they are hierarchies; nothing is inferred then.
    """

    types: list[str]
    basenames: list[str | None]
    names: list[str | None]
    numbers: list[int | None]
    sizes: list[int | None]
    units: list[str | None]
    ranks: list[int | None]
    states: list[str | None]
    exclusive: list[bool]
    uuids: list[str | None]
    properties: list[Mapping[str, Any] | None]
    tags: list[Mapping[str, str | None] | None]
    capacities: list[int | None]
    ways: list[bool]
    edges: GraphEdges
    own: Mapping[str, bool] | None = None

    def structure(self, fail: Fail, origin: int | None, file: str) -> tuple[Structure, Int32]:
        """The machine, and the vertex of each row.

        Args:
            file: name for messages about the document as a whole.

        Errors: what `fail` raises; InputError for edges that are not a tree and for duplicate names; LimitExceeded.
        Cost: about 2 µs per node, half of it for the audit.
        """
        try:
            made = self._made(fail, origin)
            require_valid(made[0])
        except InputError as error:
            if error.where.startswith(file):
                raise
            where = f"{file}: {error.where}" if error.where else file
            raise type(error)(error.message, where=where, hint=error.hint) from None
        return made

    def _made(self, fail: Fail, origin: int | None) -> tuple[Structure, Int32]:
        parent = self._parent(fail)
        self._require_one_machine(parent, fail)
        kinds = KindTable()
        kind, names = self._kinds(kinds, fail)
        ranked = self.own is not None or any(rank is not None for rank in self.ranks)
        states = {state: number for number, state in enumerate(STATES)}
        made = assemble(
            parent,
            kind,
            kinds=kinds,
            size=_column(self.sizes, 1),
            id=_column(self.numbers, -1),
            rank=_column(self.ranks, -1) if ranked else None,
            state=np.array([states[state or "up"] for state in self.states], np.uint8),
            exclusive=np.array(self.exclusive, np.bool_),
            names=names,
            tags={row: dict(tags) for row, tags in enumerate(self.tags) if tags},
            capacity={row: full for row, full in enumerate(self.capacities) if full is not None},
            origin=origin,
            where=lambda row: f"nodes[{row}]",
        )
        structure, vertex = made
        structure.flags[vertex[np.array(self.ways, np.bool_)]] |= WAY
        if any(text is not None for text in self.uuids):
            given = [UNSET if text is None else text for text in self.uuids]
            give_uuids(structure, vertex, given, None, lambda path, message, hint="": fail(path, message, hint))
        self._connect(structure, vertex)
        return structure, vertex

    def _parent(self, fail: Fail) -> Int32:
        above, below, edges = (np.array(column, np.int32) for column in self.edges.parents)
        twice = repeated(below)
        if len(twice):
            fail(["edges", int(edges[twice[0]])], "leads to a pool that already has a parent", "containment is a tree")
        parent = np.full(len(self.types), -1, np.int32)
        parent[below] = above
        return parent

    def _require_one_machine(self, parent: Int32, fail: Fail) -> None:
        roots = np.flatnonzero(parent < 0)
        if len(roots) < 2:
            return
        within = {end for edges in self.edges.graphs.values() for edge in edges for end in (edge.src, edge.dst)}
        holds = np.zeros(len(parent), np.bool_)
        holds[list(within)] = True
        for _ in range(limits.DEPTH_MAX):
            inside = np.flatnonzero(holds & (parent >= 0))
            holds[parent[inside]] = True
        alone = roots[1:][~holds[roots[1:]]]
        if len(alone) and self.own is None:
            fail(["nodes", int(alone[0])], "has no parent and is in no auxiliary graph", "a machine has one root")

    def _kinds(self, kinds: KindTable, fail: Fail) -> tuple[list[int], dict[int, str]]:
        known: dict[tuple[Any, ...], int] = {}
        found: list[int] = []
        explicit: dict[int, str] = {}
        rows = zip(self.types, self.basenames, self.units, self.properties, self.names, self.numbers, strict=True)
        for row, (type_name, given, unit, properties, name, number) in enumerate(rows):
            basename = type_name if given is None else given
            values = () if not properties else tuple((key, type(value), value) for key, value in properties.items())
            key = (type_name, basename, unit, values)
            kind = known.get(key)
            if kind is None:
                pairs = () if not properties else properties_tuple(properties.items())
                try:
                    require_draws(pairs, str)
                except InputError as error:
                    fail(["nodes", row, "properties"], error.message, error.hint)
                kind = known[key] = kinds.intern(Kind(type_name, basename, unit, None, pairs))
            found.append(kind)
            if name is not None and name != (basename if number is None or number < 0 else f"{basename}{number}"):
                explicit[row] = name
        return found, explicit

    def _connect(self, structure: Structure, vertex: Int32) -> None:
        own = self.own or {}
        graphs = {**{name: list[Edge]() for name in own}, **self.edges.graphs}
        if len(graphs) > limits.SUBSYSTEMS_MAX:
            raise LimitExceeded(f"{len(graphs)} auxiliary graphs, at most {limits.SUBSYSTEMS_MAX}", where="edges")
        for name, edges in graphs.items():
            relations = {relation: i for i, relation in enumerate(dict.fromkeys(edge.relation for edge in edges))}
            if len(relations) > limits.RELATIONS_MAX:
                raise LimitExceeded(f"{len(relations)} relations in graph {name!r}", where="edges")
            graph = Subsystem(
                name,
                own.get(name, False),
                vertex[np.array([edge.src for edge in edges], np.int64)],
                vertex[np.array([edge.dst for edge in edges], np.int64)],
                np.array([relations[edge.relation] for edge in edges], np.uint16),
                list(relations) or ["link"],
                _attributes(edges),
            )
            if graph.hierarchy:
                graph.require_forest()
            structure.subsystems[name] = graph


def _column(values: Sequence[int | None], default: int) -> Int64:
    return np.array([default if value is None else value for value in values], np.int64)


def _attributes(edges: Sequence[Edge]) -> dict[str, Any]:
    """Edge attributes as columns: numbers where all values are numbers (capacity always is); else objects."""
    names = dict.fromkeys(key for edge in edges for key in edge.attributes)
    if len(names) > limits.EDGE_ATTRIBUTES_MAX:
        message = f"{len(names)} attributes of edges in one graph, at most {limits.EDGE_ATTRIBUTES_MAX}"
        raise LimitExceeded(message, where="edges")
    columns: dict[str, Any] = {}
    for name in names:
        values = [edge.attributes.get(name) for edge in edges]
        if name == "capacity" or all(value is None or isinstance(value, float) for value in values):
            columns[name] = np.array([np.nan if value is None else value for value in values], np.float64)
        else:
            cells = np.empty(len(values), object)
            cells[:] = values
            columns[name] = cells
    return columns
