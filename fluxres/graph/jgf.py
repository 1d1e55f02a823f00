"""A graph, or what a job holds of it, as values of JSON Graph Format: nodes and edges as RFC 40 and Fluxion have them.

R carries them, files do, and what `fluxres query` prints is of the same form; so this one place decides what stands in a node.
Fluxion leaves out what its reader assumes, and so do we, except for the id, the rank and the paths, which it always
writes.  A node has a key of its own for the edges (the vertex number), and names that outlive it: paths and the uuid.
Nodes are made one by one while somebody reads them, since those of a large machine all at once would take a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Int32, Subsystem
from fluxres.graph.kinds import PropertyValue
from fluxres.graph.structure import Structure

CONTAINMENT: Final = "containment"
SHORTHAND: Final = "fluxion:jgf_shorthand"
"""Writer of a graph that leaves out what is below pools taken whole."""
_COLUMNS: Final = ("parent", "end", "kind", "id", "rank", "origin", "serial")
_BLOCK: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Which pools of a structure are told of, and how much of each.

    Args:
        vertices: int32, ascending; with a pool stand those above it.
        sizes: int64, units of each.
        exclusive: bool, whether all of it is held by the job that is told of.
    """

    vertices: Int32
    sizes: NDArray[np.int64]
    exclusive: NDArray[np.bool_]

    @classmethod
    def whole(cls, structure: Structure) -> Self:
        """Every pool, with all its units, held by nobody."""
        return cls(np.arange(structure.n, dtype=np.int32), structure.size, np.zeros(structure.n, np.bool_))


def held(structure: Structure, vertices: Int32, amounts: NDArray[np.int64], *, shorthand: bool = False) -> Part:
    """The part of a structure that is held: the pools named, what is below those held whole, and what is above any of them.

    Args:
        structure: the machine.
        vertices: int32, ascending, each once.
        amounts: int64, units of each.
        shorthand: leave out what is below pools held whole.

    Cost: arrays over the pools found, nothing over the machine.
    """
    whole = amounts == structure.size[vertices]
    implied = vertices[whole]
    if not shorthand:
        implied = _below(implied, structure.end[implied])
    found = [vertices, implied]
    above = vertices
    while len(above := np.unique(structure.parent[above])) and above[-1] >= 0:
        above = above[above >= 0]
        found.append(above)
    every = np.unique(np.concatenate(found)).astype(np.int32)
    sizes, exclusive = structure.size[every], np.zeros(len(every), np.bool_)
    sizes[np.searchsorted(every, vertices)] = amounts
    # A job may have held a pool whole and, at another time, a part of something below it: what is whole says the most.
    at = np.searchsorted(every, implied)
    sizes[at] = structure.size[implied]
    exclusive[at] = True
    return Part(every, sizes, exclusive)


def _below(first: Int32, end: Int32) -> Int32:
    lengths = (end - first).astype(np.int64)
    return np.asarray(np.repeat(end - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum())), np.int32)


def document(structure: Structure, part: Part) -> dict[str, Any]:
    """The graph of a part as plain values: `{"graph": {"nodes": […], "edges": […]}}`.

    Cost: about 2 µs a pool.
    Source: RFC 40.
    """
    return {"graph": {"nodes": list(nodes(structure, part)), "edges": list(edges(structure, part))}}


class Sort(NamedTuple):
    """What equal pools share."""

    type: str
    basename: str
    unit: str = ""
    properties: Mapping[str, str] = MappingProxyType({})


def node(
    key: str,
    sort: Sort,
    name: str,
    number: int,
    rank: int,
    size: int,
    exclusive: bool,
    paths: Mapping[str, str],
    uuid: str | None = None,
) -> dict[str, Any]:
    """One pool as a node: what differs from the defaults, and always id, rank and paths.

    >>> node("7", Sort("core", "core"), "core3", 3, 0, 1, True, {"containment": "/c0/node0/core3"})["metadata"]
    {'type': 'core', 'id': 3, 'rank': 0, 'exclusive': True, 'paths': {'containment': '/c0/node0/core3'}}
    """
    metadata: dict[str, Any] = {"type": sort.type}
    if uuid is not None:
        metadata["uuid"] = uuid
    if sort.basename != sort.type:
        metadata["basename"] = sort.basename
    if name != f"{sort.basename}{number}":
        metadata["name"] = name
    metadata["id"] = number
    metadata["rank"] = rank
    if exclusive:
        metadata["exclusive"] = True
    if sort.unit:
        metadata["unit"] = sort.unit
    if size != 1:
        metadata["size"] = size
    if sort.properties:
        metadata["properties"] = dict(sort.properties)
    metadata["paths"] = paths
    return {"id": key, "metadata": metadata}


def edge(source: str, target: str, subsystem: str = CONTAINMENT, relationship: str | None = None) -> dict[str, Any]:
    """One edge; that of the has-a tree is the usual one and says nothing more.

    >>> edge("0", "1"), edge("5", "9", "power", "supplies")["metadata"]
    ({'source': '0', 'target': '1'}, {'subsystem': 'power', 'relationship': 'supplies'})
    """
    values: dict[str, Any] = {"source": source, "target": target}
    if subsystem != CONTAINMENT:
        values["metadata"] = {"subsystem": subsystem}
        if relationship is not None:
            values["metadata"]["relationship"] = relationship
    return values


def nodes(structure: Structure, part: Part) -> Iterator[dict[str, Any]]:
    """The nodes of a part, in the order of its vertices; keys are vertex numbers as text.

    Cost: about 1 µs each, made while they are read.
    """
    sorts = [Sort(k.type, k.basename, k.unit or "", property_texts(k.properties)) for k in structure.kinds]
    plain = [kind.name is None for kind in structure.kinds]
    bases = [uuids.text(base, 0)[:-12] for base in structure.origins]
    auxiliary = [_AuxiliaryPaths(structure, s) for s in _subsystems(structure, part)]
    own_names, own_uuids, tree_end = structure.names, structure.uuid_texts, structure.tree_end
    paths_above: dict[int, str] = {-1: ""}
    for lo in range(0, len(part.vertices), _BLOCK):
        rows = slice(lo, lo + _BLOCK)
        block = part.vertices[rows]
        columns = [block, *(getattr(structure, c)[block] for c in _COLUMNS), part.sizes[rows], part.exclusive[rows]]
        for v, up, end, kind, number, rank, origin, serial, size, whole in zip(*(c.tolist() for c in columns), strict=True):
            sort = sorts[kind]
            if not plain[kind] or v in own_names:
                name = structure.name(v)
            else:
                name = sort.basename if number < 0 else f"{sort.basename}{number}"
            above = paths_above.get(up)
            path = f"{structure.path(up) if above is None else above}/{name}"
            if end > v + 1:
                paths_above[v] = path
            paths = {CONTAINMENT: path} if v < tree_end else {}
            for other in auxiliary:
                other.add_to(paths, v)
            uuid = own_uuids.get(v) or f"{bases[origin]}{serial:012x}"
            yield node(str(v), sort, name, number, rank, size, whole, paths or {CONTAINMENT: path}, uuid)


def property_texts(properties: tuple[tuple[str, PropertyValue], ...]) -> dict[str, str]:
    """Properties as JGF has them, all text; one without a value has none.

    >>> property_texts((("class", 3), ("ssd", None)))
    {'class': '3', 'ssd': ''}
    """
    return {key: "" if value is None else _text(value) for key, value in properties}


def _text(value: PropertyValue) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def edges(structure: Structure, part: Part) -> Iterator[dict[str, Any]]:
    """The edges between the nodes of a part: the has-a tree by child, then the auxiliary graphs row by row."""
    for lo in range(0, len(part.vertices), _BLOCK):
        block = part.vertices[lo : lo + _BLOCK]
        for v, up in zip(block.tolist(), structure.parent[block].tolist(), strict=True):
            if up >= 0:
                yield edge(str(up), str(v))
    for subsystem in _subsystems(structure, part):
        rows = _rows_within(subsystem, part)
        source, target, relation = (c[rows].tolist() for c in (subsystem.src, subsystem.dst, subsystem.relation))
        for u, v, number in zip(source, target, relation, strict=True):
            yield edge(str(u), str(v), subsystem.name, subsystem.relations[number])


def _rows_within(subsystem: Subsystem, part: Part) -> NDArray[np.int64]:
    """Rows of the edges that have both ends in a part."""
    return np.flatnonzero(np.isin(subsystem.src, part.vertices) & np.isin(subsystem.dst, part.vertices))


def _subsystems(structure: Structure, part: Part) -> list[Subsystem]:
    """Auxiliary graphs with an edge within a part, or with the only place of one of its pools."""
    outside = part.vertices[np.searchsorted(part.vertices, structure.tree_end) :]
    return [
        s
        for s in structure.subsystems.values()
        if len(_rows_within(s, part)) or (len(outside) and bool(np.isin(outside, s.members).any()))
    ]


class _AuxiliaryPaths:
    """Paths of pools in one auxiliary graph; where it is no hierarchy, only pools that stand nowhere else have one."""

    def __init__(self, structure: Structure, subsystem: Subsystem) -> None:
        self._structure, self._name, self._is_tree = structure, subsystem.name, subsystem.hierarchy
        self._members = frozenset(subsystem.members.tolist())
        self._above = dict(zip(subsystem.dst.tolist(), subsystem.src.tolist(), strict=True)) if subsystem.hierarchy else {}
        self._known: dict[int, str] = {}

    def add_to(self, paths: dict[str, str], v: int) -> None:
        """Add the path of `v`, if it has one here."""
        if v in self._members and (self._is_tree or CONTAINMENT not in paths):
            paths[self._name] = self._path(v)

    def _path(self, v: int) -> str:
        chain = []
        u = v
        while u >= 0 and u not in self._known:
            chain.append(u)
            u = self._above.get(u, -1)
        path = self._known.get(u, "")
        for u in reversed(chain):
            path = f"{path}/{self._structure.name(u)}"
            if u != v:
                self._known[u] = path
        return path
