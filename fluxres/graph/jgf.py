"""A graph, or the part of it that a job holds, as JSON Graph Format values: nodes and edges as in RFC 40 and Fluxion.

R, graph files and the output of `fluxres fluxion` all carry this form, so this one module decides what a node contains.  Like
Fluxion we leave out what its reader assumes, except the id, the rank and the paths, which Fluxion always writes.  A node has a
key for use by edges (the vertex number) and names that outlive it: paths and the uuid.  The values of a large machine take a
gigabyte when built all at once; writers of files use :mod:`fluxres.graph.jgf_text` instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from fluxres.graph import surgery
from fluxres.graph.auxiliary import Int32
from fluxres.graph.jgf_subsystems import CONTAINMENT
from fluxres.graph.jgf_text import chunks
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.graph.surgery import Along, Carried

SHORTHAND: Final = "fluxion:jgf_shorthand"
"""`writer` of a graph that leaves out what is below exclusively held pools."""


@dataclass(frozen=True, slots=True, eq=False)
class GraphPart:
    """The pools of a structure to write, and how many units of each.

    Args:
        vertices: int32, ascending; includes the ancestors of each pool in it.
        sizes: int64, units of each.
        exclusive: bool, whether the job of this graph holds the pool exclusively.
        ways: bool, whether it is a pass-through pool, present only as the path to others.
    """

    vertices: Int32
    sizes: NDArray[np.int64]
    exclusive: NDArray[np.bool_]
    ways: NDArray[np.bool_]

    @classmethod
    def whole(cls, structure: Structure) -> Self:
        """Every pool with all its units, held by no job."""
        ways = (structure.flags & WAY) != 0
        return cls(np.arange(structure.n, dtype=np.int32), structure.size, np.zeros(structure.n, np.bool_), ways)


def held(
    structure: Structure,
    vertices: Int32,
    amounts: NDArray[np.int64],
    *,
    shorthand: bool = False,
    along: Along | None = None,
) -> GraphPart:
    """The part of a structure that is held, as a copy for a nested instance contains it (rule C1).

    It consists of the given pools, everything below those held exclusively and, as pass-through pools, the ancestors of any of
    them and the pools outside the containment tree that supply and connect them.

    Args:
        structure: the machine.
        vertices: int32, ascending, each once.
        amounts: int64, units of each.
        shorthand: leave out what is below exclusively held pools in the containment tree.
        along: given a part of the machine (bool by vertex), the further pass-through pools that it needs.

    Cost: arrays over the pools found; with auxiliary graphs, over the vertex range they span and the edges there.
    """
    whole = amounts == structure.size[vertices]
    implied = below = _own_below(structure, vertices[whole], structure.end[vertices[whole]])
    if shorthand:  # which Fluxion expands along containment
        stop = np.where(vertices < structure.tree_end, vertices + 1, structure.end[vertices])[whole]
        implied = _own_below(structure, vertices[whole], stop)
    own = np.unique(np.concatenate([vertices, implied])).astype(np.int32)
    tops = own[~np.isin(structure.parent[own], own)]
    if along is not None:
        kept = np.zeros(structure.n, np.bool_)
        kept[own] = kept[below] = True
        tops = np.union1d(tops, np.flatnonzero(along(kept)).astype(np.int32))
    every = surgery.with_the_way(structure, own, tops)
    sizes, exclusive = structure.size[every], np.zeros(len(every), np.bool_)
    sizes[np.searchsorted(every, vertices)] = amounts
    # A job may hold a pool exclusively and, at another time, a part of something below it: the exclusive holding wins.
    at = np.searchsorted(every, implied)
    sizes[at] = structure.size[implied]
    exclusive[at] = True
    ways = np.ones(len(every), np.bool_)
    ways[np.searchsorted(every, own)] = False
    only = (structure.flags[every] & WAY) != 0
    if structure.linked is not None:  # what the parent granted of a pass-through pool is the job's own
        only &= ~structure.linked[every]
    return GraphPart(every, sizes, exclusive, ways | only)


def _own_below(structure: Structure, first: Int32, end: Int32) -> Int32:
    """What exclusively held pools imply: all pools below them except those the enclosing instance grants on request (N1)."""
    found = _below(first, end)
    return found if structure.linked is None else found[~structure.linked[found] | np.isin(found, first)]


def _below(first: Int32, end: Int32) -> Int32:
    lengths = (end - first).astype(np.int64)
    return np.asarray(np.repeat(end - np.cumsum(lengths), lengths) + np.arange(int(lengths.sum())), np.int32)


def document(
    structure: Structure, part: GraphPart, more: Mapping[int, str] = MappingProxyType({}), carried: Carried | None = None
) -> dict[str, Any]:
    """The graph of a part as plain values: `{"graph": {"nodes": […], "edges": […]}}`.

    Args:
        more, carried: as for :func:`~fluxres.graph.jgf_text.chunks`.

    Cost: about 3 µs per pool.
    Source: RFC 40.
    """
    values: dict[str, Any] = orjson.loads(b"".join(chunks(structure, part, more=more, carried=carried)) + b"}")
    return values


class Sort(NamedTuple):
    """What equal pools have in common."""

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
    """One pool as a node: the values that differ from the defaults, and always id, rank and paths.

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
    if sort.properties:
        metadata["properties"] = dict(sort.properties)
    if sort.unit:
        metadata["unit"] = sort.unit
    if exclusive:
        metadata["exclusive"] = True
    if size != 1:
        metadata["size"] = size
    metadata["paths"] = paths
    return {"id": key, "metadata": metadata}


def edge(source: str, target: str, subsystem: str = CONTAINMENT, relationship: str | None = None) -> dict[str, Any]:
    """One edge; those of the containment tree are the default and carry no metadata.

    >>> edge("0", "1"), edge("5", "9", "power", "supplies")["metadata"]
    ({'source': '0', 'target': '1'}, {'subsystem': 'power', 'relationship': 'supplies'})
    """
    values: dict[str, Any] = {"source": source, "target": target}
    if subsystem != CONTAINMENT:
        values["metadata"] = {"subsystem": subsystem}
        if relationship is not None:
            values["metadata"]["relationship"] = relationship
    return values
