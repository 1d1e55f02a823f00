"""The nodes and edges of a JGF document by column, made one after the other so that their objects never exist together."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fluxres.formats import json_typed
from fluxres.formats.jgf_schema import Edge, EdgeMetadata, Metadata, Node, PlainMetadata, PlainNode
from fluxres.formats.json_typed import Buffer
from fluxres.formats.source import Source

CONTAINMENT: Final = "containment"
_OPTIONAL: Final = tuple(name for name in Metadata.__struct_fields__ if name not in ("type", "paths"))
_MAPPINGS: Final = ("properties", "tags", "ephemeral", "agfilter")


class NodeColumns:
    """The nodes of a graph, in the order of the document.

    Attributes:
        n: how many there are.
        key, type: of each node.
        path: in containment, None for a node that is not in it.
        auxiliary: paths in other subsystems, by node, of those that have any.
        keys: how many keys of mappings the nodes have.
    """

    def __init__(self, source: Source, part: Buffer, whole: type[Any]) -> None:
        nodes: Sequence[PlainNode | Node]
        self.auxiliary: dict[int, dict[str, str]] = {}
        try:
            with json_typed.collector_paused():
                nodes = _PLAIN.decode(part)
            data: list[Any] = [node.metadata for node in nodes]
            self.path: list[str | None] = [metadata.paths.containment for metadata in data]
            self.keys = 5 * len(nodes)
            names = _PLAIN_OPTIONAL
        except (msgspec.MsgspecError, UnicodeDecodeError):
            nodes = json_typed.decode(source, list[Node], part=part, whole=whole)
            data = [node.metadata for node in nodes]
            self.path = [metadata.paths.get(CONTAINMENT) for metadata in data]
            for i, metadata in enumerate(data):
                if len(metadata.paths) != (CONTAINMENT in metadata.paths):
                    self.auxiliary[i] = {name: path for name, path in metadata.paths.items() if name != CONTAINMENT}
            self.keys = 4 * len(nodes) + sum([len(metadata.paths) for metadata in data])
            names = _OPTIONAL
        self.n = len(data)
        self.key = [node.id for node in nodes]
        self.type: list[str] = [metadata.type for metadata in data]
        self._optional: dict[str, list[Any]] = {}
        for name in names:
            column = list(map(attrgetter(name), data))
            given = self.n - column.count(UNSET)
            if given:
                self._optional[name] = column
                self.keys += given
        for name in _MAPPINGS:
            self.keys += sum(json_typed.keys_in(value, source.file) for value in self.given(name).values())

    def column(self, name: str) -> list[Any] | None:
        """The values of an optional key, UNSET where a node does not have it; None where no node has."""
        return self._optional.get(name)

    def given(self, name: str) -> dict[int, Any]:
        """The values of an optional key by node, of those that have it."""
        column = self._optional.get(name)
        return {} if column is None else {i: value for i, value in enumerate(column) if value is not UNSET}


_PLAIN: Final = msgspec.json.Decoder(list[PlainNode])
_PLAIN_OPTIONAL: Final = tuple(name for name in PlainMetadata.__struct_fields__ if name not in ("type", "paths"))


class EdgeColumns:
    """The edges of a graph, in the order of the document.

    Attributes:
        source, target: keys of nodes.
        metadata: by edge, of those that have some.
        keys: how many keys of mappings the edges have.
    """

    def __init__(self, source: Source, part: Buffer | None, whole: type[Any]) -> None:
        edges = [] if part is None else json_typed.decode(source, list[Edge], part=part, whole=whole)
        self.source = [edge.source for edge in edges]
        self.target = [edge.target for edge in edges]
        column = [edge.metadata for edge in edges]
        absent = column.count(UNSET)
        self.keys = 3 * len(edges) - absent
        self.metadata: dict[int, EdgeMetadata] = {}
        if absent < len(column):
            self.metadata = {i: data for i, data in enumerate(column) if isinstance(data, EdgeMetadata)}
        for data in self.metadata.values():
            self.keys += (data.subsystem is not UNSET) + (data.relationship is not UNSET)
            if data.attributes is not UNSET:
                self.keys += 1 + len(data.attributes)
