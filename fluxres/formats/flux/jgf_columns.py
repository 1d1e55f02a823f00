"""The nodes and edges of a JGF document by column, decoded one at a time so that their objects never exist together.

The name of a node is written several times: as name, as basename and id, and as the last step of a path; all of them must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.documents import json_typed
from fluxres.documents.document import Key
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
from fluxres.formats.format import Fail
from fluxres.graph.jgf import CONTAINMENT
from fluxres.syntax import template

_OPTIONAL: Final = tuple(name for name in Metadata.__struct_fields__ if name not in ("type", "paths"))


class NodeColumns:
    """The nodes of a graph, in the order of the document.

    Args:
        parts: the lists of nodes in the document, that of the graph first.

    Attributes:
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


_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18


class Names(NamedTuple):
    """Ids of all nodes; name templates by node if any has one; the names that no template gives, by node."""

    ids: Int64
    templates: list[str | None] | None
    explicit: dict[int, str]


def name_nodes(nodes: NodeColumns, parent: Int32, fail: Fail) -> Names:
    """Ids and names of all nodes.

    Errors: what `fail` raises for a path that does not continue the parent's path or does not end in the name, for two nodes of
    one path, and for invalid names. Cost: about 0.5 µs per node, more for those whose name is not basename and id.
    """
    basenames = nodes.type
    if (given := nodes.column("basename")) is not None:
        basenames = [own if word is UNSET else word for own, word in zip(nodes.type, given, strict=True)]
    ids = _ids(nodes, basenames, fail)
    above = ["" if path is None else path for path in nodes.path] if None in nodes.path else list(nodes.path)
    above.append("")
    up = [above[i] for i in parent.tolist()]
    usual = [f"{head}/{word}{number}" for head, word, number in zip(up, basenames, ids.tolist(), strict=True)]
    odd = [i for i, (expected, path) in enumerate(zip(usual, nodes.path, strict=True)) if expected != path]
    del usual
    # If a path is not the parent's path with basename and id, its last step must be the explicit name of the node.
    steps = {i: _step(nodes, i, up[i], fail) for i in odd}
    del up, above
    _distinct(nodes, fail)
    _compare(nodes, basenames, ids, steps, fail)
    explicit: dict[int, str] = {}
    names, numbers = nodes.column("name"), nodes.column("id")
    for i, name in steps.items():
        default = basenames[i] if ids[i] < 0 else f"{basenames[i]}{ids[i]}"
        if name == default:
            continue
        if (names is None or names[i] is UNSET) and numbers is not None and numbers[i] is not UNSET:
            fail(["nodes", i, "metadata", "id"], f"the id makes the name {default!r:.300}, and the path ends in {name!r:.300}")
        if len(name) > limits.NAME_LENGTH_MAX or not name.isprintable() or "/" in name:
            fail(["nodes", i], f"{name[:80]!r} is not a valid name: 1 to {limits.NAME_LENGTH_MAX} characters without '/'")
        explicit[i] = name
    return Names(ids, *_templates(nodes, basenames, ids, explicit))


def _step(nodes: NodeColumns, i: int, up: str, fail: Fail) -> str:
    """The last step of the path of a node, which is its name."""
    path = nodes.path[i]
    if path is None:
        return _outside_step(nodes, i, fail)
    head, slash, step = path.rpartition("/")
    place: list[Key] = ["nodes", i, "metadata", "paths", "containment"]
    if head != up or not slash:
        hint = f"according to the edges it is in {up:.300}" if up else "a path begins with '/'"
        fail(place, f"{path:.300} does not continue the path of its parent", hint)
    if not step:
        fail(place, f"{path:.300} does not end in a name")
    return step


def _distinct(nodes: NodeColumns, fail: Fail) -> None:
    if len(set(nodes.path)) < len(nodes.path) - max(nodes.path.count(None) - 1, 0):
        seen: set[str | None] = {None}
        for i, path in enumerate(nodes.path):
            if path is not None and path in seen:
                fail(["nodes", i, "metadata", "paths", "containment"], f"a second node of the path {path:.300}")
            seen.add(path)


def _outside_step(nodes: NodeColumns, i: int, fail: Fail) -> str:
    """The name of a node outside containment: the end of its paths, its name, or its basename and id."""
    steps = {path.rpartition("/")[2] for path in nodes.auxiliary.get(i, {}).values()}
    for path in nodes.auxiliary.get(i, {}).values():
        if not path.startswith("/"):
            fail(["nodes", i, "metadata", "paths"], f"expected a path such as /pdu0, got {path!r:.300}")
    if len(steps) > 1 or "" in steps:
        fail(["nodes", i, "metadata", "paths"], f"paths with different last steps: {', '.join(sorted(steps)):.300}")
    if steps:
        return steps.pop()
    columns = [nodes.column(key) for key in ("name", "basename", "id")]
    name, basename, number = (UNSET if column is None else column[i] for column in columns)
    if name is not UNSET:
        return str(name)
    base = nodes.type[i] if basename is UNSET else basename
    return f"{base}" if number is UNSET or number < 0 else f"{base}{number}"


def _ids(nodes: NodeColumns, basenames: list[str], fail: Fail) -> Int64:
    column = nodes.column("id")
    if column is not None and UNSET not in column:
        return np.array(column, np.int64)
    names, uniq_ids = nodes.column("name"), nodes.column("uniq_id")
    found = []
    for i, basename in enumerate(basenames):
        number = UNSET if column is None else column[i]
        if number is UNSET:
            path = nodes.path[i]
            step = _outside_step(nodes, i, fail) if path is None else path[path.rfind("/") + 1 :]
            number = template.default_id(basename, step)
            if number is None and nodes.type[i] == "node" and names is not None:
                digits = step[len(step.rstrip(_DIGITS)) :][-_DIGITS_MAX:]
                number = int(digits) if digits else None
            if number is None and uniq_ids is not None and uniq_ids[i] is not UNSET:
                number = uniq_ids[i]
            if number is None:
                key = nodes.key[i]
                number = int(key) if key.isascii() and key.isdecimal() and len(key) <= _DIGITS_MAX else -1
        found.append(number)
    return np.array(found, np.int64)


def _compare(nodes: NodeColumns, basenames: list[str], ids: Int64, steps: dict[int, str], fail: Fail) -> None:
    """Refuse a name that is not the last step of the path."""
    for i, name in nodes.given("name").items():
        step = steps[i] if i in steps else f"{basenames[i]}{ids[i]}"
        if name != step:
            fail(["nodes", i, "metadata", "name"], f"the name is {name!r:.300}, and the path ends in {step!r:.300}")


def _templates(
    nodes: NodeColumns, basenames: list[str], ids: Int64, explicit: dict[int, str]
) -> tuple[list[str | None] | None, dict[int, str]]:
    """Templates for the names that follow a rule, and the names that do not."""
    sorts: dict[tuple[str, str], list[int]] = {}
    for i in explicit:
        sorts.setdefault((nodes.type[i], basenames[i]), []).append(i)
    templates: list[str | None] | None = None
    left = dict(explicit)
    for rows in sorts.values():
        text = _template_of(explicit[rows[0]], [explicit[i] for i in rows])
        if text is None:
            continue
        form = _format_of(text)
        fitting = [i for i, number in zip(rows, ids[rows].tolist(), strict=True) if number >= 0 and form(number) == explicit[i]]
        if len(fitting) < max(2, len(rows) // 2):
            continue
        templates = templates if templates is not None else [None] * nodes.n
        for i in fitting:
            templates[i] = text
            del left[i]
    return templates, left


def _template_of(name: str, names: list[str]) -> str | None:
    """A template that gives this name from a number at its end, with leading zeros if one of the names has some."""
    stem = name.rstrip(_DIGITS)
    width = len(name) - len(stem)
    if not 0 < width <= _DIGITS_MAX or "$" in stem:
        return None
    padded = next((each for each in names if each.startswith(stem) and each[len(stem) : len(stem) + 1] == "0"), None)
    if padded is not None and len(padded) > len(stem) + 1:
        return f"{stem}${{id:0{len(padded) - len(stem)}}}"
    return f"{stem}${{id}}"


def _format_of(text: str) -> Callable[[int], str]:
    stem, _, rest = text.partition("${id")
    width = int(rest[1:-1]) if rest.startswith(":") else 0
    return lambda number: f"{stem}{number:0{width}}"
