"""GraphML, for graph tools such as networkx, Gephi and yEd, so that a machine can be drawn and edited in one.

Keys may have any ids, since tools renumber them; their names identify them. Attributes that a tool adds, such as colours and
positions, are ignored. A machine needs no more than types and edges.

Every attribute is declared with its type, as the format requires. Values of no GraphML type (properties and tags of a pool,
attributes of an edge other than its capacity) are JSON texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar
from xml.sax import saxutils

import numpy as np

from fluxres import limits
from fluxres.documents import json_typed, safe_xml
from fluxres.documents.document import Key, plural, shown
from fluxres.documents.safe_xml import Element
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import losses
from fluxres.formats.format import ALL, Hold, Loaded, Output
from fluxres.formats.graphs.rows import CONTAINMENT, GraphEdges, GraphRows
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind, edge_rows, kind_values, node_rows, odd_values, tree_edges
from fluxres.graph.accounts import LARGER_UNIT, is_countable
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import STATES
from fluxres.graph.structure import Structure

T = TypeVar("T")
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}
#: keys of one file: each is looked up in every node
_KEYS_MAX: Final = 256
_DIGITS_MAX: Final = len(str(limits.SIZE_MAX))


def read(source: Source, *, origin: int | None = None) -> Loaded:
    """The machine of a GraphML file.

    Errors: InputError ``FILE:line``; LimitExceeded.
    Cost: about 15 µs per pool.

    >>> key = '<key id="d0" for="node" attr.name="type"/>'
    >>> nodes = ''.join(f'<node id="{i}"><data key="d0">{t}</data></node>' for i, t in enumerate(["cluster", "node"]))
    >>> text = f'<graphml>{key}<graph edgedefault="directed">{nodes}<edge source="0" target="1"/></graph></graphml>'
    >>> read(Source(text.encode())).structure.path(1)
    '/cluster/node'
    """
    with json_typed.collector_paused():
        root = safe_xml.load(source.data, file=source.file, folded=("data", "key"))
        return _GraphmlReading(source, root).loaded(origin)


class _GraphmlReading:
    def __init__(self, source: Source, root: Element) -> None:
        self._source = source
        graphs = root.all("graph") if root.name == "graphml" else []
        if len(graphs) != 1:
            raise InputError(f"expected <graphml> with one <graph>, got {len(graphs)}", where=source.where(root.line))
        self._graph = graphs[0]
        if self._graph.attributes.get("edgedefault") == "undirected":
            raise InputError("is undirected, but edges of a machine have a direction", where=source.where(self._graph.line))
        #: ids of the keys by their name: nodes and edges have separate keys, and tools make one for each type of number
        self._keys: dict[str, list[str]] = {}
        #: default values by node, edge or graph and the name of a key
        self._defaults: dict[tuple[str, str], str] = {}
        for number, key in enumerate(root.all("key")):
            if number >= _KEYS_MAX:
                raise LimitExceeded(f"more than {_KEYS_MAX} keys", where=source.where(key.line))
            self._declare(key)
        self._nodes = self._graph.all("node")
        self._edges = self._graph.all("edge")
        if not self._nodes:
            raise InputError("describes no pool", where=source.where(self._graph.line), hint="a machine has at least a root")
        self._require_plain()

    def _declare(self, key: Element) -> None:
        name = key.attributes.get("attr.name", "")
        self._keys.setdefault(name, []).append(key.attributes.get("id", ""))
        for default in key.all("default"):
            if len(default.text) > limits.VALUE_LENGTH_MAX:  # it applies to every node
                message = f"a default of {len(default.text)} characters, at most {limits.VALUE_LENGTH_MAX}"
                raise LimitExceeded(message, where=self._source.where(default.line))
            whose = key.attributes.get("for", "all")
            for each in ("node", "edge", "graph") if whose == "all" else (whose,):
                self._defaults.setdefault((each, name), default.text)

    def _require_plain(self) -> None:
        """Refuse the parts of GraphML other than nodes and directed edges between two of them."""
        hint = "edges describe which pool contains which"
        for element in self._graph.all("hyperedge"):
            self._refuse(element, "is an edge of several nodes", hint)
        for element in self._nodes:
            for child in element.children:
                if child.name == "graph":
                    self._refuse(child, "is a graph within a node", hint)
        for element in self._edges:
            if element.attributes.get("directed") == "false":
                self._refuse(element, "is undirected, but edges of a machine have a direction")

    def fail(self, path: Sequence[Key], message: str, hint: str = "") -> NoReturn:
        """Raise for the document at the line of a node or an edge."""
        elements = self._nodes if path[0] == "nodes" else self._edges
        number = path[1] if len(path) > 1 and isinstance(path[1], int) else 0
        self._refuse(elements[number], message, hint)

    def _refuse(self, element: Element, message: str, hint: str = "") -> NoReturn:
        raise InputError(message, where=self._source.where(element.line), hint=hint)

    def _value(self, element: Element, name: str) -> str | None:
        """The value of an element by the name of its key; None if it is missing or empty."""
        given = [element.values[key] for key in self._keys.get(name, ()) if key in element.values]
        return next(filter(None, given), None) if given else self._defaults.get((element.name, name))

    def loaded(self, origin: int | None) -> Loaded:
        row: dict[str, int] = {}
        for number, element in enumerate(self._nodes):
            key = element.attributes.get("id")
            if key is None or row.setdefault(key, number) != number:
                self._refuse(element, "expected an id that no other node has, got " + ("none" if key is None else shown(key)))
        subsystems = self._value(self._graph, "subsystems")
        own = None if subsystems is None else self._json(self._graph, "subsystems", subsystems, bool)
        rows = self._rows(row, own)
        structure, _ = rows.structure(self.fail, origin, self._source.file)
        return Loaded(structure, [], self._value(self._graph, "name") or structure.name(0))

    def _rows(self, row: dict[str, int], own: Mapping[str, bool] | None) -> GraphRows:
        edges = self._connections(row)

        def column(name: str, read: Callable[[Element, str, str], T]) -> list[T | None]:
            keys, default = self._keys.get(name, ()), self._defaults.get(("node", name))
            found: list[T | None] = []
            pairs: Iterable[tuple[Element, str | None]]
            if len(keys) != 1:
                pairs = ((element, self._value(element, name)) for element in self._nodes)
            else:
                pairs = ((element, element.values.get(keys[0], default)) for element in self._nodes)
            known: dict[str, T] = {}
            for element, text in pairs:
                if text and text not in known:
                    known[text] = read(element, name, text)
                found.append(known[text] if text else None)
            return found

        types = column("type", self._word)
        if None in types:
            self._refuse(self._nodes[types.index(None)], "expected a type, got none", "each node has one, such as 'core'")
        return GraphRows(
            types=[type_name for type_name in types if type_name is not None],
            basenames=column("basename", self._word),
            names=column("name", self._word),
            numbers=column("number", self._whole),
            sizes=column("size", self._whole),
            units=column("unit", self._word),
            ranks=column("rank", self._rank),
            states=column("state", self._state),
            exclusive=[bool(value) for value in column("exclusive", self._truth)],
            uuids=column("uuid", self._word),
            properties=column("properties", partial(self._json, kind=str | int | float | bool | None)),
            tags=column("tags", partial(self._json, kind=str | None)),
            capacities=column("capacity", self._whole),
            ways=[bool(value) for value in column("way", self._truth)],
            edges=edges,
            own=own,
        )

    def _connections(self, row: dict[str, int]) -> GraphEdges:
        found = GraphEdges()
        for number, element in enumerate(self._edges):
            ends = [row.get(element.attributes.get(side, "")) for side in ("source", "target")]
            if ends[0] is None or ends[1] is None:
                side = "source" if ends[0] is None else "target"
                self._refuse(element, f"no node has the id {shown(element.attributes.get(side))}")
            subsystem = self._value(element, "subsystem") or CONTAINMENT
            if subsystem == CONTAINMENT:
                found.contain(ends[0], ends[1], number)
                continue
            self._word(element, "subsystem", subsystem)
            relation = self._word(element, "type", self._value(element, "type") or "link")
            attributes: dict[str, Any] = {}
            if text := self._value(element, "attributes"):
                attributes = self._json(element, "attributes", text, str | int | float | bool)
            if text := self._value(element, "capacity"):
                attributes = {"capacity": self._double(element, text), **attributes}
            found.connect(subsystem, ends[0], ends[1], relation, attributes)
        return found

    # -- values ------------------------------------------------------------------------------------------------------

    def _word(self, element: Element, name: str, text: str) -> str:
        if len(text) > limits.NAME_LENGTH_MAX:
            message = f"{name}: expected at most {limits.NAME_LENGTH_MAX} characters, got {shown(text)}"
            raise LimitExceeded(message, where=self._source.where(element.line))
        return text

    def _whole(self, element: Element, name: str, text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX or int(text) > limits.SIZE_MAX:
            self._refuse(element, f"{name}: expected a whole number of 0 to {limits.SIZE_MAX}, got {shown(text)}")
        return int(text)

    def _rank(self, element: Element, name: str, text: str) -> int:
        found = self._whole(element, name, text)
        if found >= 2**31:
            self._refuse(element, f"{name}: expected at most {2**31 - 1}, got {found}")
        return found

    def _state(self, element: Element, name: str, text: str) -> str:
        if text not in STATES:
            self._refuse(element, f"{name}: expected one of {', '.join(STATES)}, got {shown(text)}")
        return text

    def _truth(self, element: Element, name: str, text: str) -> bool:
        found = _TRUTH.get(text.lower())
        if found is None:
            self._refuse(element, f"{name}: expected true or false, got {shown(text)}")
        return found

    def _double(self, element: Element, text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = -1.0
        if not found >= 0:
            self._refuse(element, f"capacity: expected a number of at least 0, got {shown(text)}")
        if not is_countable(found):
            self._refuse(element, f"capacity: expected at most {limits.CAPACITY_MAX}, got {shown(text)}", LARGER_UNIT)
        return found

    def _json(self, element: Element, name: str, text: str, kind: Any) -> dict[str, Any]:
        """A mapping that is JSON in a text."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            self._refuse(element, f"{name}: expected a mapping in JSON: {shown(str(error))}")
        if not isinstance(found, dict):
            self._refuse(element, f"{name}: expected a mapping in JSON, got {shown(found)}")
        for key, value in found.items():
            self._word(element, name, key)
            long = isinstance(value, str) and len(value) > limits.VALUE_LENGTH_MAX
            if not key or not isinstance(value, kind) or long or (isinstance(value, int) and abs(value) >= limits.NUMBER_MAX):
                self._refuse(element, f"{name}: {shown(key)} cannot be {shown(value)}")
        return found


CARRIES: Final = ALL - {"allocations"}
NODE_KEYS: Final = {
    **dict.fromkeys(("type", "name", "basename", "unit", "state", "uuid", "path", "properties", "tags"), "string"),
    **dict.fromkeys(("number", "size", "rank", "capacity"), "long"),
    **dict.fromkeys(("exclusive", "way"), "boolean"),
}
EDGE_KEYS: Final = {"subsystem": "string", "relation": "string", "capacity": "double", "attributes": "string"}
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_ENTITIES: Final = {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as GraphML.

    Errors: InputError for texts with control characters, which XML does not allow.
    Cost: about 3 µs per pool.
    """
    about = {"name": name if name is not None else structure.name(0)}
    subsystems = {s.name: s.hierarchy for s in structure.subsystems.values() if s.name != CONTAINMENT}
    keys = [_key("n", "node", key, kind) for key, kind in NODE_KEYS.items()]
    keys += [_key("e", "edge", key, kind) for key, kind in EDGE_KEYS.items()]
    keys += [_key("g", "graph", key, "string") for key in ("name", "subsystems")]
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        + "".join(keys)
        + f'<graph edgedefault="directed">\n{_data("g-name", escape(about["name"]))}{_data("g-subsystems", _json(subsystems))}\n'
    )
    chunks = [head.encode(), *_nodes(structure), *_edges(structure), b"</graph>\n</graphml>\n"]
    lost = losses.lines(structure, allocations, CARRIES)
    for graph in structure.subsystems.values():
        if graph.name == CONTAINMENT:
            lost.append(f"graphs: {graph.name}, which is what the containment tree is called, with {plural(len(graph), 'edge')}")
    return Output(b"".join(chunks), lost)


def escape(text: str) -> str:
    """A text escaped for XML. Errors: InputError for characters that XML does not allow."""
    if _FORBIDDEN.search(text):
        raise InputError(f"{text!r} has characters that XML does not allow", hint="use another format or another name")
    return saxutils.escape(text, _ENTITIES)


def _key(side: str, element: str, name: str, kind: str) -> str:
    return f'<key id="{side}-{name}" for="{element}" attr.name="{"type" if name == "relation" else name}" attr.type="{kind}"/>\n'


def _data(key: str, text: str) -> str:
    return f'<data key="{key}">{text}</data>'


def _json(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _values(values: Mapping[str, Any]) -> str:
    """The attributes of a node that have a value: text as it is, any other value as JSON."""
    texts = {key: escape(value) if isinstance(value, str) else _json(value) for key, value in values.items() if value != {}}
    return "".join(_data(f"n-{key}", text) for key, text in texts.items())


def _nodes(structure: Structure) -> Iterator[bytes]:
    texts, sorts = PoolTexts(structure, escape), by_kind(structure, lambda kind: _values(kind_values(kind)), "")
    odd = {v: _values(values) for v, values in odd_values(structure).items()}
    names, paths, ids = texts.names, texts.paths, texts.uuids
    for part in blocks(structure.n):
        yield "".join(
            [
                f'<node id="{v}">{sorts[kind]}<data key="n-name">{names[v]}</data>'
                + (f'<data key="n-number">{number}</data>' if number >= 0 else "")
                + f'<data key="n-size">{size}</data>'
                + (f'<data key="n-rank">{rank}</data>' if rank >= 0 else "")
                + odd.get(v, "")
                + f'<data key="n-uuid">{ids[v]}</data><data key="n-path">{paths[v]}</data></node>\n'
                for v, kind, number, rank, size in node_rows(structure, part)
            ]
        ).encode()


def _edges(structure: Structure) -> Iterator[bytes]:
    relation = _data("e-relation", "contains")
    tree = _data("e-subsystem", CONTAINMENT) + relation
    end = structure.tree_end
    for pairs in tree_edges(structure):
        rows = [f'<edge source="{u}" target="{v}">{tree if v < end else relation}</edge>\n' for u, v in pairs]
        yield "".join(rows).encode()
    for graph in structure.subsystems.values():
        if graph.name != CONTAINMENT:
            yield "".join(_of_graph(graph)).encode()


def _of_graph(graph: Subsystem) -> Iterator[str]:
    plain = [_data("e-subsystem", escape(graph.name)) + _data("e-relation", escape(word)) for word in graph.relations]
    capacity = graph.attributes.get("capacity")
    others = {key: column.tolist() for key, column in sorted(graph.attributes.items()) if key != "capacity"}
    for row, (u, v, relation) in edge_rows(graph):
        more = ""
        if capacity is not None and not np.isnan(capacity[row]):
            more = _data("e-capacity", "INF" if np.isinf(capacity[row]) else repr(float(capacity[row])))
        values = {key: column[row] for key, column in others.items() if losses.is_set(column[row])}
        if values:
            more += _data("e-attributes", _json(values))
        yield f'<edge source="{u}" target="{v}">{plain[relation]}{more}</edge>\n'
