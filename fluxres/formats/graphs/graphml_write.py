"""Write GraphML, for graph tools such as networkx, Gephi and yEd.

Every attribute is declared with its type, as the format requires. Values of no GraphML type (properties and tags of a pool,
attributes of an edge other than its capacity) are JSON texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.sax import saxutils

import numpy as np

from fluxres.errors import InputError
from fluxres.formats import losses
from fluxres.formats.format import ALL, Hold, Output
from fluxres.formats.graphs.rows import CONTAINMENT
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind, node_rows
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY, Kind
from fluxres.graph.structure import Structure

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
            lost.append(f"graphs: {graph.name}, which is what the containment tree is called, with {len(graph)} edges")
    return Output(b"".join(chunks), lost)


def escape(text: str) -> str:
    """A text escaped for XML.

    Errors: InputError for characters that XML does not allow.
    """
    if _FORBIDDEN.search(text):
        raise InputError(f"{text!r} has characters that XML does not allow", hint="use another format or another name")
    return saxutils.escape(text, _ENTITIES)


def _key(side: str, element: str, name: str, kind: str) -> str:
    return f'<key id="{side}-{name}" for="{element}" attr.name="{"type" if name == "relation" else name}" attr.type="{kind}"/>\n'


def _data(key: str, text: str) -> str:
    return f'<data key="{key}">{text}</data>'


def _json(value: object) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _sort(kind: Kind) -> str:
    """The attributes that all pools of a kind share."""
    found = _data("n-type", escape(kind.type))
    if kind.basename != kind.type:
        found += _data("n-basename", escape(kind.basename))
    if kind.unit is not None:
        found += _data("n-unit", escape(kind.unit))
    if kind.properties:
        found += _data("n-properties", _json(dict(kind.properties)))
    return found


def _odd(structure: Structure) -> dict[int, str]:
    """The attributes that few pools have, by vertex: states, flags, tags, full sizes."""
    odd: dict[int, str] = {}

    def add(v: int, key: str, text: str) -> None:
        odd[v] = odd.get(v, "") + _data(f"n-{key}", text)

    for v in np.flatnonzero(structure.state).tolist():
        add(v, "state", STATES[structure.state[v]])
    for flag, key in ((EXCLUSIVE, "exclusive"), (WAY, "way")):
        for v in np.flatnonzero(structure.flags & flag).tolist():
            add(v, key, "true")
    for v, tags in structure.tags.items():
        if tags:
            add(v, "tags", _json(dict(sorted(tags.items()))))
    for v, full in structure.capacity.items():
        add(v, "capacity", str(full))
    return odd


def _nodes(structure: Structure) -> Iterator[bytes]:
    texts, sorts, odd = PoolTexts(structure, escape), by_kind(structure, _sort, ""), _odd(structure)
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
    below = np.flatnonzero(structure.parent >= 0)
    end = structure.tree_end
    for part in blocks(len(below)):
        vertices = below[part]
        pairs = zip(structure.parent[vertices].tolist(), vertices.tolist(), strict=True)
        rows = [f'<edge source="{u}" target="{v}">{tree if v < end else relation}</edge>\n' for u, v in pairs]
        yield "".join(rows).encode()
    for graph in structure.subsystems.values():
        if graph.name != CONTAINMENT:
            yield "".join(_of_graph(graph)).encode()


def _of_graph(graph: Subsystem) -> Iterator[str]:
    plain = [_data("e-subsystem", escape(graph.name)) + _data("e-relation", escape(word)) for word in graph.relations]
    capacity = graph.attributes.get("capacity")
    others = {key: column.tolist() for key, column in sorted(graph.attributes.items()) if key != "capacity"}
    rows = zip(graph.src.tolist(), graph.dst.tolist(), graph.relation.tolist(), strict=True)
    for row, (u, v, relation) in enumerate(rows):
        more = ""
        if capacity is not None and not np.isnan(capacity[row]):
            more = _data("e-capacity", _double(float(capacity[row])))
        values: dict[str, Any] = {key: column[row] for key, column in others.items() if _is_there(column[row])}
        if values:
            more += _data("e-attributes", _json(values))
        yield f'<edge source="{u}" target="{v}">{plain[relation]}{more}</edge>\n'


def _double(value: float) -> str:
    return "INF" if value == float("inf") else repr(value)


def _is_there(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and np.isnan(value))
