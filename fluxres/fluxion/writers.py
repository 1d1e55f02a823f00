"""Fluxion's match formats, in which a match is printed.

A writer gets vertices and edges in the order of the walk, children first, and returns one text at the end. JSON has the spacing
of jansson's default output, which is also Python's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, Protocol

from fluxres.fluxion.graph import Edge, Vertex
from fluxres.graph import jgf
from fluxres.graph.kinds import Kind
from fluxres.syntax import hostlist, idset

REDUCED: Final = ("core", "gpu")
"""Types whose ids are in `children` of R_lite."""
GATHERED: Final = ("node", "storage_node")
"""Types with an entry in R_lite."""


Filters = dict[str, str] | None
"""The used units of the types counted below a vertex, as text by type; None if not requested."""


class Writer(Protocol):
    """Receives the vertices and edges of a walk."""

    def vertex(
        self, vertex: Vertex, needs: int, exclusive: bool, level: int, filters: Filters = None, label: str | None = None
    ) -> None:
        """A vertex of the result, after all below it; `label` is that of the matching resource of the request."""

    def edge(self, edge: Edge) -> None:
        """An edge of the result, after its target."""

    def text(self, start: int, end: int, queue: str | None = None) -> str | None:
        """The output, with a line break; empty if there was nothing, None if the format cannot express the result."""


class Simple:
    """One line per vertex."""

    def __init__(self, *, pretty: bool = False) -> None:
        self.pretty = pretty
        self.lines: list[str] = []

    def vertex(
        self, vertex: Vertex, needs: int, exclusive: bool, level: int, filters: Filters = None, label: str | None = None
    ) -> None:
        mode = ("exclusive" if exclusive else "shared") if self.pretty else ("x" if exclusive else "s")
        self.lines.append(f"      {'---' * level}{vertex.name}[{needs}:{mode}]\n")

    def edge(self, edge: Edge) -> None:
        """Edges are not shown."""

    def text(self, start: int, end: int, queue: str | None = None) -> str:
        """The lines; the pretty ones from the root down."""
        return "".join(reversed(self.lines) if self.pretty else self.lines)


class Jgf:
    """A JSON Graph Format document (RFC 40).

    Args:
        shorthand: leave out everything below exclusively taken vertices.
    """

    def __init__(self, *, shorthand: bool = False) -> None:
        self.shorthand = shorthand
        self._nodes: list[tuple[Vertex, dict[str, Any]]] = []
        self._edges: list[Edge] = []
        self._whole: set[int] = set()

    def vertex(
        self, vertex: Vertex, needs: int, exclusive: bool, level: int, filters: Filters = None, label: str | None = None
    ) -> None:
        if exclusive:
            self._whole.add(id(vertex))
        self._nodes.append((vertex, node(vertex, needs, exclusive, filters, label)))

    def edge(self, edge: Edge) -> None:
        self._edges.append(edge)

    def document(self) -> dict[str, Any]:
        """The graph as values; empty if there was nothing."""
        if not self._nodes:
            return {}
        dropped = self._dropped() if self.shorthand else set()
        nodes = [values for vertex, values in self._nodes if id(vertex) not in dropped]
        edges = [_edge(edge) for edge in self._edges if id(edge.target) not in dropped]
        graph: dict[str, Any] = {"graph": {"nodes": nodes, "edges": edges}}
        if dropped:
            graph["writer"] = jgf.SHORTHAND
        return graph

    def _dropped(self) -> set[int]:
        dropped: set[int] = set()
        # Edges arrive children first, so going backwards parents are known before their children.
        for edge in reversed(self._edges):
            if id(edge.source) in self._whole or id(edge.source) in dropped:
                dropped.add(id(edge.target))
        return dropped

    def text(self, start: int, end: int, queue: str | None = None) -> str:
        """The document on one line."""
        document = self.document()
        return _json(document) if document else ""


def node(vertex: Vertex, needs: int, exclusive: bool, filters: Filters, label: str | None) -> dict[str, Any]:
    """A vertex as a node of JGF; keys that only concern this result come last."""
    kind = Kind(vertex.type, vertex.basename, vertex.unit, None, tuple(sorted(vertex.properties.items())))
    paths = dict(sorted(vertex.paths.items()))
    values = jgf.node(str(vertex.uniq_id), kind, vertex.name, vertex.id, vertex.rank, needs, exclusive, paths)
    if label is not None:
        values["metadata"]["ephemeral"] = {"label": label}
    if filters:
        values["metadata"]["agfilter"] = filters
    return values


def _edge(edge: Edge) -> dict[str, Any]:
    return jgf.edge(str(edge.source.uniq_id), str(edge.target.uniq_id), edge.subsystem)


class Rlite:
    """The R_lite of RFC 20: ids of cores and gpus by the rank of their node."""

    def __init__(self) -> None:
        self._ids: dict[int, dict[str, list[int]]] = {}
        self._nodes: list[Vertex] = []
        self._pending: dict[str, list[int]] = {}

    def vertex(
        self, vertex: Vertex, needs: int, exclusive: bool, level: int, filters: Filters = None, label: str | None = None
    ) -> None:
        """Collect ids for the node above them; a node without any has no entry."""
        if vertex.type in REDUCED:
            self._pending.setdefault(vertex.type, []).append(vertex.id)
        elif vertex.type in GATHERED and self._pending:
            self._nodes.append(vertex)
            children = self._ids.setdefault(vertex.rank, {})
            for type_, ids in self._pending.items():
                children.setdefault(type_, []).extend(ids)
            self._pending = {}

    def edge(self, edge: Edge) -> None:
        """Edges are not shown."""

    def entries(self) -> list[dict[str, Any]]:
        """R_lite: ranks with equal children grouped, in the order of the children's text."""
        ranks: dict[str, list[int]] = {}
        children: dict[str, dict[str, str]] = {}
        for rank in sorted(self._ids):
            held = {type_: idset.format(ids) for type_, ids in sorted(self._ids[rank].items())}
            key = json.dumps(held)
            ranks.setdefault(key, []).append(rank)
            children[key] = held
        return [{"rank": _ranks(ranks[key]), "children": children[key]} for key in sorted(ranks)]

    def nodelist(self) -> list[str]:
        """Host names in the order of ranks."""
        names = [vertex.name for vertex in sorted(self._nodes, key=lambda vertex: vertex.rank)]
        return [hostlist.format(names)] if names else []

    def properties(self) -> dict[str, str]:
        """Ranks by property of their nodes."""
        ranks: dict[str, list[int]] = {}
        for vertex in self._nodes:
            for key, value in vertex.properties.items():
                ranks.setdefault(f"{key}={value}" if value else key, []).append(vertex.rank)
        return {key: _ranks(ranks[key]) for key in sorted(ranks)}

    def text(self, start: int, end: int, queue: str | None = None) -> str | None:
        """R_lite alone, on one line; None without cores and gpus."""
        entries = self.entries()
        return _json(entries) if entries else None


def _ranks(ranks: list[int]) -> str:
    return "-1" if -1 in ranks else idset.format(ranks)


class Rv1:
    """A resource set of version 1 (RFC 20).

    Args:
        scheduling: writes the graph of its `scheduling` key; None leaves it out.
    """

    def __init__(self, scheduling: Jgf | None = None) -> None:
        self._lite = Rlite()
        self._graph = scheduling

    def vertex(
        self, vertex: Vertex, needs: int, exclusive: bool, level: int, filters: Filters = None, label: str | None = None
    ) -> None:
        self._lite.vertex(vertex, needs, exclusive, level)
        if self._graph is not None:
            self._graph.vertex(vertex, needs, exclusive, level, filters, label)

    def edge(self, edge: Edge) -> None:
        if self._graph is not None:
            self._graph.edge(edge)

    def text(self, start: int, end: int, queue: str | None = None) -> str:
        """R on one line."""
        entries = self._lite.entries()
        if not entries:
            return ""
        execution: dict[str, Any] = {"R_lite": entries, "nodelist": self._lite.nodelist()}
        properties = self._lite.properties()
        if properties:
            execution["properties"] = properties
        execution["starttime"] = start
        execution["expiration"] = end
        document: dict[str, Any] = {"version": 1, "execution": execution}
        if self._graph is not None:
            document["scheduling"] = self._graph.document()
        if queue is not None:
            document["attributes"] = {"system": {"scheduler": {"queue": queue}}}
        return _json(document)


def _json(values: Any) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


WRITERS: Final[dict[str, Callable[[], Writer]]] = {
    "simple": Simple,
    "pretty_simple": lambda: Simple(pretty=True),
    "jgf": Jgf,
    "jgf_shorthand": lambda: Jgf(shorthand=True),
    "rlite": Rlite,
    "rv1": lambda: Rv1(Jgf()),
    "rv1_nosched": Rv1,
    "rv1_shorthand": lambda: Rv1(Jgf(shorthand=True)),
}
"""Constructors of writers, by name of format."""
