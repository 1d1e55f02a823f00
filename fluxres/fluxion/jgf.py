"""JGF documents as resource-query accepts them, including fragments of a graph, without consistency checks.

A machine is read by :mod:`fluxres.formats.flux.jgf`, which refuses contradictions. The commands that update, attach or cancel get
a few nodes of another graph. Nothing is derived here that depends on that graph: missing names and ids stay missing, because
their defaults need the number of the vertex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fluxres import limits
from fluxres.documents.document import Document, Place
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import idset


@dataclass(frozen=True)
class Node:
    """A vertex as written; None for missing values."""

    key: str
    type: str
    paths: Mapping[str, str]
    basename: str | None = None
    name: str | None = None
    id: int | None = None
    uniq_id: int | None = None
    rank: int = -1
    size: int = 1
    unit: str = ""
    exclusive: bool = False
    is_down: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    """An edge between two keys of nodes."""

    source: str
    target: str
    subsystem: str = "containment"


@dataclass(frozen=True)
class Graph:
    """A JGF document, in the order written.

    Args:
        writer: the program that wrote it, if given.
        free_ranks: ranks that have been released since.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    writer: str | None = None
    free_ranks: tuple[int, ...] = ()


def read(document: Document) -> Graph:
    """The graph of a document, or of the `scheduling` key of an R in it.

    Cost O(length). Errors: InputError with the place.

    >>> from fluxres.documents import yaml_document
    >>> text = b'{"graph": {"nodes": [{"id": "0", "metadata": {"type": "node", "paths": {"containment": "/node0"}}}]}}'
    >>> read(yaml_document.load(text)).nodes[0].type
    'node'
    """
    place = Place(document=document)
    given = place.mapping(document.values)
    if "graph" not in given and isinstance(given.get("scheduling"), Mapping):
        given, place = given["scheduling"], place.at("scheduling")
    place.mapping(given, (), ("graph",))
    at = place.at("graph")
    graph = at.mapping(given["graph"], (), ("nodes",))
    nodes = tuple(_node(value, at.at("nodes", number)) for number, value in enumerate(_list(graph["nodes"], at.at("nodes"))))
    keys = {node.key for node in nodes}
    if len(keys) < len(nodes):
        raise at.at("nodes").error("expected distinct ids, got one twice")
    values = _list(graph.get("edges", []), at.at("edges"))
    edges = tuple(_edge(value, at.at("edges", number), keys) for number, value in enumerate(values))
    free = given.get("free_ranks", "")
    try:
        ranks = tuple(idset.parse(place.at("free_ranks").text(free, empty=True)))
    except InputError as error:
        raise place.at("free_ranks").refine(error) from None
    writer = given.get("writer")
    return Graph(nodes, edges, None if writer is None else place.at("writer").text(writer), ranks)


def _list(value: Any, place: Place) -> Sequence[Any]:
    return place.sequence(value, empty=True)


def _node(value: Any, place: Place) -> Node:
    given = place.mapping(value, (), ("id", "metadata"))
    key = place.at("id").text(given["id"])
    at = place.at("metadata")
    data = at.mapping(given["metadata"], (), ("type", "paths"))
    return Node(
        key,
        _name(data, "type", at) or "",
        _paths(data["paths"], at.at("paths")),
        _name(data, "basename", at),
        _name(data, "name", at),
        _integer(data, "id", at),
        _integer(data, "uniq_id", at, 0),
        _default(_integer(data, "rank", at), -1),
        _default(_integer(data, "size", at, 0), 1),
        at.at("unit").text(data.get("unit", ""), empty=True),
        at.at("exclusive").boolean(data.get("exclusive", False)),
        _default(_integer(data, "status", at, 0), 0) != 0,
        _properties(data.get("properties", {}), at.at("properties")),
    )


def _default(value: int | None, default: int) -> int:
    return default if value is None else value


def _name(data: Mapping[str, Any], key: str, place: Place) -> str | None:
    if key not in data:
        return None
    return place.at(key).text(data[key], length=limits.NAME_LENGTH_MAX)


def _integer(data: Mapping[str, Any], key: str, place: Place, least: int = -1) -> int | None:
    if key not in data:
        return None
    value = data[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise place.at(key).expected(f"a whole number of at least {least}", value)
    if value > limits.SIZE_MAX:
        raise LimitExceeded(f"expected a whole number of at most {limits.SIZE_MAX}", where=str(place.at(key)))
    return value


def _paths(value: Any, place: Place) -> Mapping[str, str]:
    given = place.mapping(value)
    for subsystem, path in given.items():
        text = place.at(subsystem).text(path)
        if not text.startswith("/") or text == "/":
            raise place.at(subsystem).expected("a path like /cluster0/node3", text)
    return given


def _properties(value: Any, place: Place) -> Mapping[str, str]:
    given = place.mapping(value)
    for key, text in given.items():
        place.at(key).text(text, empty=True)
    return given


def _edge(value: Any, place: Place, keys: set[str]) -> Edge:
    given = place.mapping(value, (), ("source", "target"))
    ends = []
    for end in ("source", "target"):
        key = place.at(end).text(given[end])
        if key not in keys:
            raise place.at(end).error(f"no node has the id {key!r}")
        ends.append(key)
    metadata = given.get("metadata", {})
    data = place.at("metadata").mapping(metadata) if metadata is not None else {}
    subsystem = place.at("metadata", "subsystem").text(data.get("subsystem", "containment"), length=limits.NAME_LENGTH_MAX)
    return Edge(ends[0], ends[1], subsystem)
