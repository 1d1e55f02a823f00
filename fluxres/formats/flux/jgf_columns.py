"""The nodes and edges of a JGF document by column, decoded one at a time so that their objects never exist together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fluxres import limits
from fluxres.documents import json_typed
from fluxres.documents.json_typed import Buffer
from fluxres.documents.source import Source
from fluxres.formats.flux.jgf_schema import (
    Edge,
    EdgeMetadata,
    Metadata,
    Node,
    PlainEdge,
    PlainEdgeMetadata,
    PlainMetadata,
    PlainNode,
)
from fluxres.graph.jgf_subsystems import CONTAINMENT

_OPTIONAL: Final = tuple(name for name in Metadata.__struct_fields__ if name not in ("type", "paths"))


class NodeColumns:
    """The nodes of a graph, in the order of the document.

    Args:
        parts: the lists of nodes in the document, that of the graph first.

    Attributes:
        n: number of nodes.
        shown: number of nodes in the first list.
        key, type: of each node.
        path: in containment, None for a node outside containment.
        auxiliary: paths in other subsystems, by node, for nodes that have any.
        labels: by node, for nodes that have one.
        has_unknown_keys: whether a node has keys that are ignored.
    """

    def __init__(self, source: Source, parts: Sequence[Buffer], whole: type[Any]) -> None:
        nodes: Sequence[PlainNode | Node]
        self.auxiliary: dict[int, dict[str, str]] = {}
        self.labels: dict[int, str] = {}
        try:
            with json_typed.collector_paused():
                plain = [_PLAIN.decode(part) for part in parts]
            self.shown = len(plain[0])
            nodes = plain[0] if len(plain) == 1 else list(chain(*plain))
            data: list[Any] = [node.metadata for node in nodes]
            self.path: list[str | None] = [metadata.paths.containment for metadata in data]
            self.has_unknown_keys = False
            names = _PLAIN_OPTIONAL
        except (msgspec.MsgspecError, UnicodeDecodeError):
            decoded = [json_typed.decode_leniently(source, list[Node], part=part, whole=whole) for part in parts]
            self.has_unknown_keys = any(has_unknown for _, has_unknown in decoded)
            self.shown, found = len(decoded[0][0]), list(chain(*(some for some, _ in decoded)))
            nodes, data = found, [node.metadata for node in found]
            self.path = [metadata.paths.get(CONTAINMENT) for metadata in data]
            for i, metadata in enumerate(data):
                if len(metadata.paths) != (CONTAINMENT in metadata.paths):
                    self.auxiliary[i] = {name: path for name, path in metadata.paths.items() if name != CONTAINMENT}
            self.labels = {i: node.label for i, node in enumerate(found) if isinstance(node.label, str)}
            names = _OPTIONAL
        self.n = len(data)
        self.key = [node.id for node in nodes]
        self.type: list[str] = [metadata.type for metadata in data]
        self._optional: dict[str, list[Any]] = {}
        for name in names:
            column = list(map(attrgetter(name), data))
            if column.count(UNSET) < self.n:
                self._optional[name] = column

    def column(self, name: str) -> list[Any] | None:
        """The values of an optional key, UNSET for nodes without it; None if no node has it."""
        return self._optional.get(name)

    def given(self, name: str) -> dict[int, Any]:
        """The values of an optional key, by node that has it."""
        column = self._optional.get(name)
        return {} if column is None else {i: value for i, value in enumerate(column) if value is not UNSET}


_PLAIN: Final = msgspec.json.Decoder(list[PlainNode])
_PLAIN_OPTIONAL: Final = tuple(name for name in PlainMetadata.__struct_fields__ if name not in ("type", "paths"))
_PLAIN_EDGES: Final = msgspec.json.Decoder(list[PlainEdge])


class EdgeColumns:
    """The edges of a graph, in the order of the document; an edge of several subsystems appears once in each.

    Args:
        parts: the lists of edges in the document, that of the graph first.
        directed: whether an edge is directed if it does not say so itself.

    Attributes:
        source, target: keys of nodes.
        metadata: by edge, for edges that have some.
        undirected: edges without direction.
        place: by edge, its index in the concatenated lists.
        shown: number of edges in the first list.
        has_unknown_keys: whether an edge has keys that are ignored.
        passed_over: data of edges that is ignored.
    """

    def __init__(self, source: Source, parts: Sequence[Buffer], whole: type[Any], *, directed: bool) -> None:
        self.metadata: dict[int, PlainEdgeMetadata | EdgeMetadata] = {}
        self.undirected: list[int] = []
        self.place: Sequence[int]
        self.passed_over: list[str] = []
        self.has_unknown_keys = False
        try:
            with json_typed.collector_paused():
                plain = [_PLAIN_EDGES.decode(part) for part in parts]
            self.shown = len(plain[0]) if plain else 0
            self._read_plain(list(chain(*plain)), directed=directed)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            full = [json_typed.decode_leniently(source, list[Edge], part=part, whole=whole) for part in parts]
            self.has_unknown_keys = any(has_unknown for _, has_unknown in full)
            self.shown = len(full[0][0]) if full else 0
            self._read(list(chain(*(some for some, _ in full))), directed=directed)

    def _read_plain(self, edges: list[PlainEdge], *, directed: bool) -> None:
        self.source = [edge.source for edge in edges]
        self.target = [edge.target for edge in edges]
        column = [edge.metadata for edge in edges]
        if column.count(UNSET) < len(column):
            self.metadata = {i: data for i, data in enumerate(column) if isinstance(data, PlainEdgeMetadata)}
        if any(_is_contained(data) and data.attributes is not UNSET for data in self.metadata.values()):
            self._pass_over("edges.metadata.attributes")
        self.place = range(len(edges))
        self.undirected = [] if directed else list(self.place)

    def _read(self, edges: list[Edge], *, directed: bool) -> None:
        self.source, self.target, self.place = [], [], []
        for i, edge in enumerate(edges):
            data = edge.metadata if isinstance(edge.metadata, EdgeMetadata) else EdgeMetadata()
            for each in self._by_subsystem(edge, data):
                row = len(self.source)
                if each.subsystem is not UNSET:
                    self.metadata[row] = each
                if not (directed if edge.directed is UNSET else edge.directed):
                    self.undirected.append(row)
                self.source.append(edge.source)
                self.target.append(edge.target)
                self.place.append(i)

    def _by_subsystem(self, edge: Edge, data: EdgeMetadata) -> list[EdgeMetadata]:
        """The data of an edge, once for each of its subsystems."""
        relation = data.relationship if data.relationship is not UNSET else edge.relation or UNSET
        of = {UNSET if _is_contained(data) else data.subsystem: relation}
        if data.subsystem is UNSET and data.name is not UNSET:
            if _is_older_form(data.name):
                of = {UNSET if name == CONTAINMENT else name: word for name, word in data.name.items()}
            else:
                self._pass_over("edges.metadata.name")
        beside = {key: value for key, value in (("label", edge.label), ("id", edge.id)) if isinstance(value, str | int)}
        own = data.attributes if data.attributes is not UNSET else {}
        if UNSET in of:
            for key in beside:
                self._pass_over(f"edges.{key}")
            if own:
                self._pass_over("edges.metadata.attributes")
        return [EdgeMetadata(name, word, {**beside, **own} or UNSET) for name, word in of.items()]

    def _pass_over(self, what: str) -> None:
        if what not in self.passed_over:
            self.passed_over.append(what)


def _is_contained(data: PlainEdgeMetadata | EdgeMetadata) -> bool:
    return data.subsystem is UNSET or data.subsystem == CONTAINMENT


def _is_older_form(name: Any) -> bool:
    """Whether this is a mapping from subsystem to relation."""
    if not isinstance(name, dict) or not name:
        return False
    words = [*name, *name.values()]
    return all(isinstance(word, str) and 0 < len(word) <= limits.NAME_LENGTH_MAX for word in words)
