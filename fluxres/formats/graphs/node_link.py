"""Node-link JSON, as ``networkx.node_link_data`` makes it, so that a machine can be edited in networkx.

An edge may have any attributes, as edges in networkx do; ``subsystem`` names its graph, and edges without it are containment.

The keys are the attributes of fluxres' networkx views, with two exceptions. The numeric id is ``number``, because ``id`` is the
key of the node. ``exclusive``, as in all formats, is ``exclusive_only`` in a view, where ``exclusive`` would mean a pool that is
held exclusively; both keys are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits
from fluxres.arrays import Int32
from fluxres.documents import json_typed, typed
from fluxres.documents.document import Key, plural, shown
from fluxres.documents.source import Source
from fluxres.errors import InputError
from fluxres.formats import losses, windows
from fluxres.formats.format import ALL, Hold, Loaded, Output, Reserved
from fluxres.formats.graphs.rows import CONTAINMENT, GraphEdges, GraphRows
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind, edge_rows, kind_values, node_rows, odd_values, tree_edges
from fluxres.graph.accounts import LARGER_UNIT, is_countable
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import Kind
from fluxres.graph.structure import Structure

Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
NodeKey = Annotated[int, Meta(ge=-(2**62), le=2**62)] | Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]
Value = Text | int | float | bool | None
Units = Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)]


State = Literal["up", "down", "drain", "degraded", "failing", "unknown", "null", "inactive"]


class Node(Struct, gc=False, forbid_unknown_fields=True):
    """A pool."""

    id: NodeKey
    type: Word
    name: Word | UnsetType | None = UNSET
    basename: Word | UnsetType | None = UNSET
    number: Annotated[int, Meta(ge=0, le=limits.ID_MAX)] | UnsetType | None = UNSET
    size: Units | UnsetType | None = UNSET
    unit: Word | UnsetType | None = UNSET
    rank: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET
    state: State | UnsetType | None = UNSET
    exclusive: bool | UnsetType | None = UNSET
    exclusive_only: bool | UnsetType | None = UNSET
    uuid: Word | UnsetType | None = UNSET
    path: str | UnsetType | None = UNSET
    properties: dict[Word, Value] | UnsetType | None = UNSET
    tags: dict[Word, Text | None] | UnsetType | None = UNSET
    capacity: Units | UnsetType | None = UNSET
    way: bool | UnsetType | None = UNSET


class PlainEdge(Struct, gc=False, forbid_unknown_fields=True):
    """An edge with only the attributes that nearly all edges have: it takes a third of the memory of a dictionary."""

    source: NodeKey
    target: NodeKey
    subsystem: Word | UnsetType = UNSET
    type: Word | UnsetType = UNSET
    capacity: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    key: Any = UNSET


class Held(Struct, forbid_unknown_fields=True):
    """What a job holds: (key of a node or name of an edge, units); and what it draws for which node, starting with that node."""

    job: Annotated[str, Meta(min_length=1, max_length=limits.JOB_ID_LENGTH_MAX)]
    start: float
    end: float | None
    pools: list[tuple[NodeKey, Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)]]]
    slots: Annotated[int, Meta(ge=0, le=limits.COUNT_MAX)] = 0
    drawn: list[tuple[NodeKey, NodeKey, Annotated[int, Meta(ge=0, le=limits.SIZE_MAX)]]] = []


Second = Annotated[float, Meta(ge=0, le=limits.TIME_MAX_S)]


class Window(Struct, forbid_unknown_fields=True):
    """A window of time in seconds."""

    start: Second
    end: Second


class ReservedPart(Window, forbid_unknown_fields=True):
    """What a reservation holds in one window: (key of a node, units)."""

    pools: list[tuple[NodeKey, Annotated[int, Meta(ge=1, le=limits.SIZE_MAX)]]]


class Reservation(Struct, forbid_unknown_fields=True):
    """A maintenance reservation: keys of nodes, windows, what it holds, if jobs hold some of it, and what takes no work."""

    name: Annotated[str, Meta(min_length=1, max_length=limits.JOB_ID_LENGTH_MAX)]
    pools: Annotated[list[NodeKey], Meta(min_length=1)]
    windows: Annotated[list[Window], Meta(min_length=1)]
    ignores_jobs: bool = False
    user: Word | None = None
    submitted: Second | None = None
    held: list[ReservedPart] | None = None
    affected: list[NodeKey] | None = None


class About(Struct, forbid_unknown_fields=True):
    """The attributes of the graph: its name, its auxiliary graphs and whether they are hierarchies, who holds what."""

    name: Word | None = None
    subsystems: dict[Word, bool] | UnsetType = UNSET
    allocations: list[Held] = []
    reservations: list[Reservation] = []


class NodeLink(Struct, kw_only=True, forbid_unknown_fields=True):
    """A graph; networkx before 3.6 calls edges links."""

    nodes: Annotated[list[Node], Meta(min_length=1)]
    edges: list[dict[str, Any]] | UnsetType = UNSET
    links: list[dict[str, Any]] | UnsetType = UNSET
    directed: Literal[True] | UnsetType = UNSET
    multigraph: bool | UnsetType = UNSET
    graph: About | UnsetType = UNSET


class RawNodeLink(Struct, kw_only=True, forbid_unknown_fields=True):
    """A graph whose parts are decoded one at a time, each in the type that takes the least memory."""

    nodes: Annotated[list[Node], Meta(min_length=1)]
    edges: msgspec.Raw | UnsetType = UNSET
    links: msgspec.Raw | UnsetType = UNSET
    directed: Literal[True] | UnsetType = UNSET
    multigraph: bool | UnsetType = UNSET
    graph: msgspec.Raw | UnsetType = UNSET


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a graph, as in ``specs/node-link.schema.json``."""
    return typed.json_schema(NodeLink)


T = TypeVar("T")
_PLAIN: Final = msgspec.json.Decoder(list[PlainEdge])
_OF_AN_EDGE: Final = ("source", "target", "key", "subsystem", "type")


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a node-link graph.

    Errors: InputError ``FILE:line:column: path``; LimitExceeded.
    Cost: about 3 µs per pool; memory about six times the file.

    >>> nodes = '{"id": 0, "type": "cluster"}, {"id": 1, "type": "node", "number": 7}'
    >>> text = f'{{"directed": true, "nodes": [{nodes}], "edges": [{{"source": 0, "target": 1}}]}}'
    >>> read(Source(text.encode())).structure.path(1)
    '/cluster/node7'
    """
    with json_typed.collector_paused():
        return _NodeLinkReading(source, json_typed.decode(source, RawNodeLink, whole=NodeLink)).loaded(origin)


class _NodeLinkReading:
    def __init__(self, source: Source, document: RawNodeLink) -> None:
        self._source, self._nodes = source, document.nodes
        self._edges_key = "edges" if document.edges is not UNSET else "links"
        self._raw_edges = document.edges if document.edges is not UNSET else document.links
        self._about = self._part(document.graph, About) if document.graph is not UNSET else About()
        self._row: dict[int | str, int] = {}

    def _part(self, raw: msgspec.Raw, kind: type[T]) -> T:
        return json_typed.decode(self._source, kind, part=raw, whole=NodeLink)

    def fail(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn:
        if path and path[0] == "edges":
            path = [self._edges_key, *path[1:]]
        raise InputError(message, where=json_typed.where(self._source, path), hint=hint)

    def loaded(self, origin: int | None) -> Loaded:
        keys = [node.id for node in self._nodes]
        self._row = dict(zip(keys, range(len(keys)), strict=True))
        if len(self._row) < len(keys):
            met: dict[int | str, int] = {}
            row = next(row for row, key in enumerate(keys) if met.setdefault(key, row) != row)
            self.fail(["nodes", row, "id"], f"the id {shown(keys[row])} is also that of another node")
        column = self._column
        rows = GraphRows(
            types=column("type"),
            basenames=column("basename"),
            names=column("name"),
            numbers=column("number"),
            sizes=column("size"),
            units=column("unit"),
            ranks=column("rank"),
            states=column("state"),
            exclusive=[bool(a or b) for a, b in zip(column("exclusive"), column("exclusive_only"), strict=True)],
            uuids=column("uuid"),
            properties=column("properties"),
            tags=column("tags"),
            capacities=column("capacity"),
            ways=[bool(value) for value in column("way")],
            edges=self._edges(),
            own=None if self._about.subsystems is UNSET else self._about.subsystems,
        )
        self._nodes = []
        structure, vertex = rows.structure(self.fail, origin, self._source.file)
        holds, name = self._holds(structure, vertex), self._about.name or structure.name(0)
        return Loaded(structure, holds, name, reservations=self._reserved(vertex))

    def _column(self, name: str) -> list[Any]:
        values = [getattr(node, name) for node in self._nodes]
        return [None if value is UNSET else value for value in values] if UNSET in values else values

    def _edges(self) -> GraphEdges:
        """Edges of containment, and of the auxiliary graphs by name."""
        if self._raw_edges is UNSET:
            return GraphEdges()
        try:
            edges = _PLAIN.decode(self._raw_edges)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._any_edges(self._part(self._raw_edges, list[dict[str, Any]]))
        return self._plain_edges(edges)

    def _plain_edges(self, edges: list[PlainEdge]) -> GraphEdges:
        found, rows = GraphEdges(), self._row
        for number, edge in enumerate(edges):
            src, dst = rows.get(edge.source), rows.get(edge.target)
            if src is None or dst is None:
                side = "source" if src is None else "target"
                self.fail(["edges", number, side], f"no node has the id {shown(getattr(edge, side))}")
            if edge.subsystem is UNSET or edge.subsystem == CONTAINMENT:
                found.contain(src, dst, number)
            else:
                self._require_countable(edge.capacity, number)
                capacity = {} if edge.capacity is UNSET else {"capacity": edge.capacity}
                found.connect(edge.subsystem, src, dst, "link" if edge.type is UNSET else edge.type, capacity)
        return found

    def _any_edges(self, edges: list[dict[str, Any]]) -> GraphEdges:
        found = GraphEdges()
        for number, values in enumerate(edges):
            src, dst = self._end(values, "source", number), self._end(values, "target", number)
            subsystem = values.get("subsystem", CONTAINMENT)
            if subsystem == CONTAINMENT:
                found.contain(src, dst, number)
                continue
            self._word(subsystem, "subsystem", number)
            relation = values.get("type", "link")
            self._word(relation, "type", number)
            attributes = {key: value for key, value in values.items() if key not in _OF_AN_EDGE}
            for key, value in attributes.items():
                self._require_plain(key, value, number)
            found.connect(subsystem, src, dst, relation, attributes)
        return found

    def _end(self, values: dict[str, Any], side: str, number: int) -> int:
        key = values.get(side)
        row = self._row.get(key) if isinstance(key, int | str) and not isinstance(key, bool) else None
        if row is None:
            place: list[Key] = ["edges", number, side] if side in values else ["edges", number]
            self.fail(place, f"expected the id of a node as {side}, got {shown(key)}")
        return row

    def _word(self, value: object, key: str, number: int) -> None:
        if not isinstance(value, str) or not 0 < len(value) <= limits.NAME_LENGTH_MAX:
            self.fail(["edges", number, key], f"expected text, got {shown(value)}")

    def _require_plain(self, key: str, value: object, number: int) -> None:
        if isinstance(value, dict | list) or (isinstance(value, str) and len(value) > limits.VALUE_LENGTH_MAX):
            self.fail(["edges", number, key], f"expected text, a number, true, false or null, got {shown(value)}")
        if key == "capacity" and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
            self.fail(["edges", number, key], f"expected a number of at least 0, got {shown(value)}")
        if key == "capacity":
            self._require_countable(value, number)

    def _require_countable(self, capacity: object, number: int) -> None:
        if not is_countable(capacity):
            message = f"expected at most {limits.CAPACITY_MAX}, got {capacity}"
            self.fail(["edges", number, "capacity"], message, LARGER_UNIT)

    def _holds(self, structure: Structure, vertex: Int32) -> list[Hold]:
        found = []
        for i, held in enumerate(self._about.allocations):
            where: list[Key] = ["graph", "allocations", i]
            account = partial(self._account, structure, vertex)
            pools = {account(key, [*where, "pools", j]): amount for j, (key, amount) in enumerate(held.pools)}
            rows = ((place, row) for j, row in enumerate(held.drawn) if (place := [*where, "drawn", j]))
            drawn = tuple(sorted((account(pool, place), account(key, place), units) for place, (pool, key, units) in rows))
            found.append(Hold(held.job, held.start, held.end, dict(sorted(pools.items())), held.slots, drawn))
        return found

    def _reserved(self, vertex: Int32) -> list[Reserved]:
        found = []
        for i, one in enumerate(self._about.reservations):
            where: list[Key] = ["graph", "reservations", i]
            fail = self._failing(where)
            windows.require_text(one.name, "name", fail)
            windows.require_text(one.user, "user", fail)
            spans = tuple((window.start, window.end) for window in one.windows)
            windows.require_in_order(spans, fail)
            pools = self._chosen(vertex, one.pools, [*where, "pools"])
            affected = None if one.affected is None else self._chosen(vertex, one.affected, [*where, "affected"])
            held = None
            if one.held is not None:
                held = tuple(self._part_held(vertex, part, [*where, "held", j]) for j, part in enumerate(one.held))
            found.append(Reserved(one.name, pools, spans, one.ignores_jobs, one.user, one.submitted, held, affected))
        return found

    def _chosen(self, vertex: Int32, keys: Sequence[NodeKey], where: list[Key]) -> tuple[int, ...]:
        return tuple(sorted({self._pool(vertex, key, [*where, i]) for i, key in enumerate(keys)}))

    def _part_held(self, vertex: Int32, part: ReservedPart, where: list[Key]) -> tuple[float, float, dict[int, int]]:
        windows.require_window(part.start, part.end, self._failing(where))
        pools = {self._pool(vertex, key, [*where, "pools", j]): amount for j, (key, amount) in enumerate(part.pools)}
        return part.start, part.end, dict(sorted(pools.items()))

    def _failing(self, where: list[Key]) -> windows.Fail:
        return lambda inside, message, hint: self.fail([*where, *inside], message, hint)

    def _pool(self, vertex: Int32, key: int | str, place: list[Key]) -> int:
        row = self._row.get(key)
        if row is None:
            self.fail(place, f"no node has the id {shown(key)}")
        return int(vertex[row])

    def _account(self, structure: Structure, vertex: Int32, key: int | str, place: list[Key]) -> int:
        edge = -1 if key in self._row else structure.accounts.edge_named(str(key))
        return edge if edge >= 0 else self._pool(vertex, key, place)


def write(
    structure: Structure,
    allocations: Sequence[Hold] = (),
    *,
    name: str | None = None,
    reservations: Sequence[Reserved] = (),
) -> Output:
    """A machine as a node-link graph; a multigraph if it has auxiliary graphs with edges. Cost: about 2 µs per pool."""
    about: dict[str, Any] = {"name": name if name is not None else structure.name(0)}
    about["subsystems"] = {s.name: s.hierarchy for s in structure.subsystems.values() if s.name != CONTAINMENT}
    if allocations:
        about["allocations"] = [_held(structure, hold) for hold in allocations]
    if reservations:
        about["reservations"] = [_reserved(one) for one in reservations]
    is_multi = "true" if any(len(graph) for graph in structure.subsystems.values()) else "false"
    head = f'{{"directed":true,"multigraph":{is_multi},"graph":{_json(about)},"nodes":[\n'
    chunks = [head.encode(), *_nodes(structure), b'\n],"edges":[\n', *_edges(structure), b"\n]}\n"]
    return Output(b"".join(chunks), losses.lines(structure, allocations, ALL) + _lost(structure))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _held(structure: Structure, hold: Hold) -> dict[str, Any]:
    accounts = structure.accounts

    def key(v: int) -> int | str:
        return accounts.where(v) if accounts.is_edge(v) else v

    pools = [(key(v), amount) for v, amount in hold.pools.items()]
    held: dict[str, Any] = {"job": hold.job, "start": hold.start_s, "end": hold.end_s, "pools": pools}
    held |= {"slots": hold.slots} if hold.slots else {}
    return held | ({"drawn": [(pool, key(v), units) for pool, v, units in hold.drawn]} if hold.drawn else {})


def _reserved(one: Reserved) -> dict[str, Any]:
    made: dict[str, Any] = {"name": one.name, "pools": one.pools}
    made["windows"] = [{"start": start, "end": end} for start, end in one.windows]
    made |= {"ignores_jobs": True} if one.ignores_jobs else {}
    made |= {} if one.user is None else {"user": one.user}
    made |= {} if one.submitted_s is None else {"submitted": one.submitted_s}
    if one.held is not None:
        made["held"] = [{"start": start, "end": end, "pools": list(pools.items())} for start, end, pools in one.held]
    if one.affected is not None:
        made["affected"] = one.affected
    return made


def _nodes(structure: Structure) -> Iterator[bytes]:
    def of_kind(kind: Kind) -> str:
        values = kind_values(kind)
        if kind.properties:
            values["properties"] = {key: None if losses.is_endless(value) else value for key, value in kind.properties}
        return _json(values)[1:-1] + ","

    texts, sorts = PoolTexts(structure, lambda text: _json(text)[1:-1]), by_kind(structure, of_kind, "")
    odd = {v: _json(values)[1:-1] + "," for v, values in odd_values(structure).items()}
    names, paths, ids = texts.names, texts.paths, texts.uuids
    for part in blocks(structure.n):
        yield (",\n" if part.start else "").encode() + ",\n".join(
            [
                f'{{"id":{v},{sorts[kind]}"name":"{names[v]}",'
                + (f'"number":{number},' if number >= 0 else "")
                + f'"size":{size},'
                + (f'"rank":{rank},' if rank >= 0 else "")
                + odd.get(v, "")
                + f'"uuid":"{ids[v]}","path":"{paths[v]}"}}'
                for v, kind, number, rank, size in node_rows(structure, part)
            ]
        ).encode()


def _edges(structure: Structure) -> Iterator[bytes]:
    comma = b""
    tree, beside = '"subsystem":"containment","type":"contains"', '"type":"contains"'
    end = structure.tree_end
    for pairs in tree_edges(structure):
        text = ",\n".join([f'{{"source":{u},"target":{v},{tree if v < end else beside}}}' for u, v in pairs])
        yield comma + text.encode()
        comma = b",\n"
    for graph in structure.subsystems.values():
        if len(graph) and graph.name != CONTAINMENT:
            yield comma + ",\n".join(_of_graph(graph)).encode()
            comma = b",\n"


def _of_graph(graph: Subsystem) -> Iterator[str]:
    plain = [f'"subsystem":{_json(graph.name)},"type":{_json(relation)}' for relation in graph.relations]
    columns = [(_json(key), column.tolist()) for key, column in sorted(graph.attributes.items()) if key not in _OF_AN_EDGE]
    for row, (u, v, relation) in edge_rows(graph):
        values = [(key, column[row]) for key, column in columns]
        more = "".join(f",{key}:{_json(value)}" for key, value in values if value is not None and not losses.is_endless(value))
        yield f'{{"source":{u},"target":{v},{plain[relation]}{more}}}'


def _lost(structure: Structure) -> list[str]:
    """What JSON, or an edge in networkx, cannot express."""
    endless = by_kind(structure, lambda kind: any(losses.is_endless(value) for _, value in kind.properties), False)
    lost = losses.concern(structure, "properties", np.array(endless)[structure.kind], "infinite values")
    for graph in structure.subsystems.values():
        if graph.name == CONTAINMENT:
            lost.append(f"graphs: {graph.name}, which is what the containment tree is called, with {plural(len(graph), 'edge')}")
            continue
        taken = [key for key in graph.attributes if key in _OF_AN_EDGE]
        lost += [f"graphs: {key} of edges of {graph.name}, which have another meaning there" for key in taken]
        lost += losses.endless_attributes(graph)
    return lost
