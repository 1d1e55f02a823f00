"""Write node-link JSON, which ``networkx.node_link_graph`` reads, with the attributes of fluxres' own networkx views."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from fluxres.formats import losses
from fluxres.formats.format import ALL, Hold, Output
from fluxres.formats.graphs.rows import CONTAINMENT
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind, node_rows
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY, Kind
from fluxres.graph.structure import Structure

CARRIES: Final = ALL
_OF_AN_EDGE: Final = ("source", "target", "key", "subsystem", "type")


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a node-link graph; a multigraph if it has auxiliary graphs with edges.

    Cost: about 2 µs per pool.
    """
    about: dict[str, Any] = {"name": name if name is not None else structure.name(0)}
    about["subsystems"] = {s.name: s.hierarchy for s in structure.subsystems.values() if s.name != CONTAINMENT}
    if allocations:
        about["allocations"] = [_held(structure, hold) for hold in allocations]
    is_multi = "true" if any(len(graph) for graph in structure.subsystems.values()) else "false"
    head = f'{{"directed":true,"multigraph":{is_multi},"graph":{_json(about)},"nodes":[\n'
    chunks = [head.encode(), *_nodes(structure), b'\n],"edges":[\n', *_edges(structure), b"\n]}\n"]
    return Output(b"".join(chunks), losses.lines(structure, allocations, CARRIES) + _lost(structure))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _held(structure: Structure, hold: Hold) -> dict[str, Any]:
    accounts = structure.accounts

    def key(v: int) -> int | str:
        return accounts.where(v) if accounts.is_edge(v) else v

    pools = [(key(v), amount) for v, amount in hold.pools.items()]
    held: dict[str, Any] = {"job": hold.job, "start": hold.start_s, "end": hold.end_s, "pools": pools}
    held |= {"slots": hold.slots} if hold.slots else {}
    return held | ({"drawn": [(pool, key(v), units) for pool, v, units in hold.drawn]} if hold.drawn else {})


def _sort(kind: Kind) -> str:
    """The attributes that all pools of a kind share, with the trailing comma."""
    values: dict[str, Any] = {"type": kind.type}
    if kind.basename != kind.type:
        values["basename"] = kind.basename
    if kind.unit is not None:
        values["unit"] = kind.unit
    if kind.properties:
        values["properties"] = {key: None if losses.is_endless(value) else value for key, value in kind.properties}
    return _json(values)[1:-1] + ","


def _odd(structure: Structure) -> dict[int, str]:
    """The attributes that few pools have, by vertex: states, flags, tags, full sizes."""
    odd: dict[int, dict[str, Any]] = {}
    for v in np.flatnonzero(structure.state).tolist():
        odd.setdefault(v, {})["state"] = STATES[structure.state[v]]
    for flag, key in ((EXCLUSIVE, "exclusive"), (WAY, "way")):
        for v in np.flatnonzero(structure.flags & flag).tolist():
            odd.setdefault(v, {})[key] = True
    for key, sparse in (("tags", structure.tags), ("capacity", structure.capacity)):
        for v, value in sparse.items():
            odd.setdefault(v, {})[key] = dict(sorted(value.items())) if isinstance(value, dict) else value
    return {v: _json(values)[1:-1] + "," for v, values in odd.items()}


def _nodes(structure: Structure) -> Iterator[bytes]:
    texts, sorts, odd = PoolTexts(structure, _escape), by_kind(structure, _sort, ""), _odd(structure)
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
    below = np.flatnonzero(structure.parent >= 0)
    tree, beside = '"subsystem":"containment","type":"contains"', '"type":"contains"'
    for part in blocks(len(below)):
        vertices = below[part]
        pairs = zip(structure.parent[vertices].tolist(), vertices.tolist(), strict=True)
        end = structure.tree_end
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
    rows = zip(graph.src.tolist(), graph.dst.tolist(), graph.relation.tolist(), strict=True)
    for row, (u, v, relation) in enumerate(rows):
        values = [(key, column[row]) for key, column in columns]
        more = "".join(f",{key}:{_json(value)}" for key, value in values if losses.is_sayable(value))
        yield f'{{"source":{u},"target":{v},{plain[relation]}{more}}}'


def _lost(structure: Structure) -> list[str]:
    """What JSON, or an edge in networkx, cannot express."""
    endless = by_kind(structure, lambda kind: any(losses.is_endless(value) for _, value in kind.properties), False)
    lost = losses.concern(structure, "properties", np.array(endless)[structure.kind], "infinite values")
    for graph in structure.subsystems.values():
        if graph.name == CONTAINMENT:
            lost.append(f"graphs: {graph.name}, which is what the containment tree is called, with {len(graph)} edges")
            continue
        taken = [key for key in graph.attributes if key in _OF_AN_EDGE]
        lost += [f"graphs: {key} of edges of {graph.name}, which have another meaning there" for key in taken]
        lost += losses.endless_attributes(graph)
    return lost
