"""What Fluxion's JGF reader accepts and refuses, rule by rule, so that no test needs Fluxion itself.

    fluxion = Fluxion.load(document)      # the file of a machine, as `resource-query -f jgf` loads it
    fluxion.update(graph_of_a_job)        # an allocation made elsewhere, as in `update allocate jgf`

The rules are those of flux-sched's resource/readers/resource_reader_jgf.cpp and resource_reader_jgf_shorthand.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Self

CONTAINMENT = "containment"
INT64 = 2**63
_NUMBER = re.compile(r"[ \t]*[+-]?[0-9]+")


class Refused(Exception):
    """Fluxion refuses the document."""


def require(condition: object, message: str) -> None:
    if not condition:
        raise Refused(message)


@dataclass(frozen=True)
class Vertex:
    """A vertex, with defaults for what its node leaves out."""

    key: str
    uniq_id: int
    type: str
    basename: str
    name: str
    id: int
    rank: int
    size: int
    paths: dict[str, str] = field(hash=False)
    exclusive: bool = False

    def is_same(self, other: Vertex) -> bool:
        """Whether an update treats the two as one; it compares 32 bits of sizes."""
        mine, theirs = (
            (v.type, v.basename, v.name, v.id, v.rank, v.size % 2**32, v.paths) for v in (self, other)
        )  # fmt: skip
        return mine == theirs


def _text(value: Any, what: str) -> str:
    require(isinstance(value, str) and "\0" not in value, f"{what} is no text: {value!r}")
    return str(value)


def _integer(data: dict[str, Any], key: str, default: int) -> int:
    value = data.get(key, default)
    require(type(value) is int and -INT64 <= value < INT64, f"{key} is no integer: {value!r}")
    return int(value)


def _vertex(node: Any) -> Vertex:
    require(isinstance(node, dict) and "id" in node, "a node without id")
    key = _text(node["id"], "id")
    data = node.get("metadata")
    require(isinstance(data, dict) and {"type", "paths"} <= data.keys(), f"node {key}: metadata without type or paths")
    type_ = _text(data["type"], "type")
    for text in ("basename", "name", "unit"):
        if text in data:
            _text(data[text], text)
    require(type(data.get("exclusive", False)) is bool, "exclusive is no truth value")
    require(data.get("status", 0) in (0, 1), "status")
    properties, paths = data.get("properties", {}), data["paths"]
    for what, mapping in (("properties", properties), ("paths", paths)):
        require(isinstance(mapping, dict), f"{what} are no mapping")
        for name, value in mapping.items():
            _text(name, what), _text(value, what)
    uniq_id = _integer(data, "uniq_id", -1)
    if uniq_id == -1:
        found = _NUMBER.match(key)
        require(found and abs(int(found[0])) < INT64, f"the key {key} is no number")
        uniq_id = int(found[0]) if found else -1
    number = _integer(data, "id", -2)
    if number == -2:
        digits = re.search(r"[0-9]+$", data.get("name", "")) if type_ == "node" else None
        number = int(digits[0]) if digits else uniq_id
    basename = data.get("basename", type_)
    rank, size = _integer(data, "rank", -1), _integer(data, "size", 1)
    require(-(2**31) <= rank < 2**31, "rank")
    name = data.get("name", f"{basename}{number}")
    return Vertex(key, uniq_id, type_, basename, name, number, rank, size, paths, data.get("exclusive", False))


def _nodes_and_edges(document: Any) -> tuple[list[Any], list[Any]]:
    graph = document.get("graph") if isinstance(document, dict) else None
    require(isinstance(graph, dict), "no graph")
    for key in ("nodes", "edges"):
        require(isinstance(graph.get(key), list), f"no {key}")
    return graph["nodes"], graph["edges"]


def _ends(edge: Any) -> tuple[str, str, str]:
    require(isinstance(edge, dict) and {"source", "target"} <= edge.keys(), "an edge without ends")
    data = edge.get("metadata", {})
    require(isinstance(data, dict), "metadata of an edge that are no mapping")
    return (
        _text(edge["source"], "source"),
        _text(edge["target"], "target"),
        _text(data.get("subsystem", CONTAINMENT), "subsystem"),
    )


class Fluxion:
    """Fluxion's graph of a file."""

    def __init__(self) -> None:
        self.vertices: dict[str, Vertex] = {}
        self.by_path: dict[tuple[str, int], Vertex] = {}
        self.roots: dict[str, Vertex] = {}
        self.edges: dict[tuple[str, str], str] = {}

    @classmethod
    def load(cls, document: Any) -> Self:
        """Errors: Refused; also for two nodes that it would silently treat as one."""
        made = cls()
        nodes, edges = _nodes_and_edges(document)
        for node in nodes:
            made._add(_vertex(node))
        require(CONTAINMENT in made.roots, "no root of containment")
        numbers = [vertex.uniq_id for vertex in made.vertices.values()]
        require(len(set(numbers)) == len(numbers), "a uniq_id twice")
        for edge in edges:
            source, target, subsystem = _ends(edge)
            require({source, target} <= made.vertices.keys(), f"an edge of no vertex: {source} to {target}")
            require((source, target) not in made.edges, f"two edges from {source} to {target}")
            made.edges[source, target] = subsystem
        return made

    def _add(self, vertex: Vertex) -> None:
        require(vertex.key not in self.vertices, f"the key {vertex.key} twice")
        for subsystem, path in vertex.paths.items():
            other = self.by_path.get((path, vertex.rank), vertex)
            require(other is vertex, f"{path} of rank {vertex.rank} twice")
            if path.count("/") == 1:
                require(subsystem not in self.roots, f"{path} is a second root of {subsystem}")
                self.roots[subsystem] = vertex
        for path in vertex.paths.values():
            self.by_path[path, vertex.rank] = vertex
        self.vertices[vertex.key] = vertex

    def update(self, document: Any) -> list[Vertex]:
        """The vertices that an allocation takes, given as a graph; its `writer` says whether it is a shorthand.

        Errors: Refused.
        """
        nodes, edges = _nodes_and_edges(document)
        writer = document.get("writer", "")
        require(writer in ("", "fluxion", "fluxion:jgf", "fluxion:jgf_shorthand"), f"writer {writer}")
        taken: dict[str, Vertex] = {}
        found: list[Vertex] = []
        for node in nodes:
            vertex = _vertex(node)
            here = self._find(vertex)
            require(vertex.key not in taken, f"the key {vertex.key} twice")
            taken[vertex.key] = here
            found += [here] if vertex.exclusive else []
            for below in self._below(here) if vertex.exclusive and writer == "fluxion:jgf_shorthand" else []:
                require(str(below.uniq_id) not in taken, f"{below.name} twice")
                taken[str(below.uniq_id)] = below
                found.append(below)
        for edge in edges:
            source, target, _ = _ends(edge)
            require({source, target} <= taken.keys(), f"an edge of no vertex: {source} to {target}")
            require((taken[source].key, taken[target].key) in self.edges, f"no edge {source} to {target}")
        return found

    def _find(self, vertex: Vertex) -> Vertex:
        require(vertex.paths, f"{vertex.name} has no path")  # no path would find it
        found = {self.by_path.get((path, vertex.rank)) for path in vertex.paths.values()}
        require(len(found) == 1 and None not in found, f"paths of {vertex.name} lead to no vertex, or to several")
        here = found.pop()
        assert here is not None
        require(here.is_same(vertex), f"{vertex} is not {here}")
        return here

    def _below(self, vertex: Vertex) -> list[Vertex]:
        found = []
        for (source, target), subsystem in self.edges.items():
            if source == vertex.key and subsystem == CONTAINMENT:
                found += [self.vertices[target], *self._below(self.vertices[target])]
        return found
