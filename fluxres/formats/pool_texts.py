"""Names, paths and uuids of all pools as texts of a file format, escaped for it.

A format with a line per pool needs these texts a million times. Repeated parts are escaped once per kind, and since every escape
works character by character, a path of escaped names is an escaped path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from fluxres.graph import uuids
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import EXCLUSIVE, STATES, WAY, Kind, around_id
from fluxres.graph.structure import Structure

T = TypeVar("T")
_BLOCK: Final = 65_536


class PoolTexts:
    """The texts of one structure.

    Args:
        escape: escapes a text for the file, each character separately.

    Cost: about 0.2 µs per pool for each column, at its first use.
    """

    def __init__(self, structure: Structure, escape: Callable[[str], str] = str) -> None:
        self._s = structure
        self._escape = escape

    @cached_property
    def names(self) -> list[str]:
        s = self._s
        found = np.empty(s.n, object)
        order = np.argsort(s.kind, kind="stable")
        starts = np.flatnonzero(np.diff(s.kind[order], prepend=-1))
        for rows in np.split(order, starts[1:]):
            kind = s.kinds[s.kind[rows[0]]]
            ids = s.id[rows].tolist()
            around = around_id(kind)
            if around is not None:
                prefix, width, suffix = self._escape(around[0]), around[1], self._escape(around[2])
                plain = self._escape(kind.basename)
                texts = [f"{prefix}{i:0{width}}{suffix}" if i >= 0 or kind.name else plain for i in ids]
            else:
                texts = [self._escape(s.name(v)) for v in rows.tolist()]
            found[rows] = texts
        for v, name in s.names.items():
            found[v] = self._escape(name)
        names: list[str] = found.tolist()
        return names

    @cached_property
    def paths(self) -> list[str]:
        """The path of each pool from the root of its tree."""
        slash, found = self._escape("/"), list[str]()
        for name, up in zip(self.names, self._s.parent.tolist(), strict=True):
            found.append(f"{found[up]}{slash}{name}" if up >= 0 else slash + name)
        return found

    @cached_property
    def uuids(self) -> list[str]:
        """The uuid of each pool; one that is not in the standard form is escaped."""
        s = self._s
        bases = [uuids.text(base, 0)[:-12] for base in s.origins]
        pairs = zip(s.origin.tolist(), s.serial.tolist(), strict=True)
        found = [f"{bases[origin]}{serial:012x}" for origin, serial in pairs]
        for v, text in s.uuid_texts.items():
            found[v] = self._escape(text)
        return found


def by_kind(structure: Structure, make: Callable[[Kind], T], unused: T) -> list[T]:
    """The result of `make` for each kind that a pool has, by number of the kind; the table may have many more."""
    used = np.zeros(len(structure.kinds), np.bool_)
    used[structure.kind] = True
    return [make(kind) if use else unused for kind, use in zip(structure.kinds, used.tolist(), strict=True)]


def blocks(count: int) -> Iterator[slice]:
    """Slices of rows whose texts are assembled together.

    >>> [(part.start, part.stop) for part in blocks(3)]
    [(0, 3)]
    """
    return (slice(low, min(low + _BLOCK, count)) for low in range(0, count, _BLOCK))


def node_rows(structure: Structure, part: slice) -> Iterator[tuple[int, int, int, int, int]]:
    """(vertex, kind, id, rank, size) of the pools in a slice."""
    columns = (structure.kind, structure.id, structure.rank, structure.size)
    return zip(range(part.start, part.stop), *(column[part].tolist() for column in columns), strict=True)


def kind_values(kind: Kind) -> dict[str, Any]:
    """The attributes that all pools of a kind share."""
    values: dict[str, Any] = {"type": kind.type}
    if kind.basename != kind.type:
        values["basename"] = kind.basename
    if kind.unit is not None:
        values["unit"] = kind.unit
    if kind.properties:
        values["properties"] = dict(kind.properties)
    return values


def odd_values(structure: Structure) -> dict[int, dict[str, Any]]:
    """The attributes that few pools have, by vertex: states, flags, tags, full sizes."""
    odd: dict[int, dict[str, Any]] = {}
    for v in np.flatnonzero(structure.state).tolist():
        odd.setdefault(v, {})["state"] = STATES[structure.state[v]]
    for flag, key in ((EXCLUSIVE, "exclusive"), (WAY, "way")):
        for v in np.flatnonzero(structure.flags & flag).tolist():
            odd.setdefault(v, {})[key] = True
    for v, tags in structure.tags.items():
        odd.setdefault(v, {})["tags"] = dict(sorted(tags.items()))
    for v, full in structure.capacity.items():
        odd.setdefault(v, {})["capacity"] = full
    return odd


def tree_edges(structure: Structure) -> Iterator[Iterator[tuple[int, int]]]:
    """(parent, child) of every pool that has a parent, in blocks."""
    below = np.flatnonzero(structure.parent >= 0)
    for part in blocks(len(below)):
        vertices = below[part]
        yield zip(structure.parent[vertices].tolist(), vertices.tolist(), strict=True)


def edge_rows(graph: Subsystem) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """(row, (source, target, number of the relation)) of an auxiliary graph."""
    return enumerate(zip(graph.src.tolist(), graph.dst.tolist(), graph.relation.tolist(), strict=True))
