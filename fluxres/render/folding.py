"""Fold the paths of pools that look the same: `/demo/rack[0-1]/node[0-3]`.

Folding goes from the leaves up. Pools with one parent and the same look become one item; then items whose parents have one
parent, and whose names below are the same, become one, up to the root. Each level takes a handful of vector steps over the
remaining items; a text is made once for each different set of names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.accounts import ARROW
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure
from fluxres.render.names import folded
from fluxres.render.signatures import UInt64, groups, mixed
from fluxres.syntax import hostlist, template


@dataclass(frozen=True, slots=True)
class Fold:
    """Pools that look the same.

    Args:
        text: their paths, folded.
        count: number of pools.
        vertex: the first of them.
    """

    text: str
    count: int
    vertex: int


def fold(structure: Structure, vertices: Int32, looks: UInt64, *, typeable: bool = False) -> list[Fold]:
    """Pools folded where they look the same, in vertex order.

    Args:
        vertices: ascending.
        looks: a number for each of them; only pools with equal numbers share a line.
        typeable: refer to pools without a path or URI by uuid, so that the text can be typed back, instead of by name.
    """
    split = int(np.searchsorted(vertices, structure.tree_end))
    inside = _inside(structure, vertices[:split], looks[:split]) if split else []
    return inside + _outside(structure, vertices[split:], looks[split:], typeable)


def fold_edges(structure: Structure, edges: Int32) -> list[Fold]:
    """Accounts that are edges, folded at the end where they fan out, in order."""
    accounts = structure.accounts
    ends: dict[str, list[tuple[int, int, int]]] = {}
    for v in edges.tolist():
        graph, src, dst = accounts.edge(v)
        ends.setdefault(graph.name, []).append((v, src, dst))
    found: list[Fold] = []
    for name, rows in ends.items():
        fans_out = len({src for _, src, _ in rows}) <= len({dst for _, _, dst in rows})
        groups: dict[int, list[tuple[int, int]]] = {}
        for v, src, dst in rows:
            groups.setdefault(src if fans_out else dst, []).append((dst, v) if fans_out else (src, v))
        for one, others in groups.items():
            first = min(v for _, v in others)
            text, many = accounts.where(one), fold_all(structure, (u for u, _ in others), typeable=True)
            text = f"{name}: {text}{ARROW}{many}" if fans_out else f"{name}: {many}{ARROW}{text}"
            found.append(Fold(text, len(others), first))
    return found


def fold_all(structure: Structure, vertices: Iterable[int], *, typeable: bool = False) -> str:
    """Paths of pools in one text, regardless of their look; `typeable` as in :func:`fold`."""
    chosen = np.unique(np.fromiter(vertices, np.int32))
    return ",".join(item.text for item in fold(structure, chosen, np.zeros(len(chosen), np.uint64), typeable=typeable))


class _Segments:
    """Runs of equal keys. Pools of one parent are mostly adjacent, so the sort is short."""

    def __init__(self, keys: UInt64) -> None:
        self.runs = _starts(keys)
        self.order = np.argsort(keys[self.runs])
        self.starts = _starts(keys[self.runs][self.order])
        self.first = self.runs[self.order[self.starts]]
        self._run_stops = np.append(self.runs[1:], len(keys))
        self._stops = np.append(self.starts[1:], len(self.order))

    def add(self, column: NDArray[Any]) -> NDArray[Any]:
        """Sums by segment; unsigned numbers wrap around."""
        return np.add.reduceat(np.add.reduceat(column, self.runs)[self.order], self.starts)

    def least(self, column: NDArray[Any]) -> NDArray[Any]:
        return np.minimum.reduceat(np.minimum.reduceat(column, self.runs)[self.order], self.starts)

    def members(self, segment: int) -> NDArray[np.int64]:
        """Rows of one segment, in any order."""
        runs = self.order[self.starts[segment] : self._stops[segment]].tolist()
        return np.concatenate([np.arange(self.runs[r], self._run_stops[r]) for r in runs])


def _starts(keys: UInt64) -> NDArray[np.int64]:
    return np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])


def _inside(structure: Structure, vertices: Int32, looks: UInt64) -> list[Fold]:
    top, look, suffix = vertices, looks, np.zeros(len(vertices), np.int64)
    count, first = np.ones(len(vertices), np.int64), vertices
    suffixes, done, names = [""], [], dict[int, str]()
    while len(top):
        parent = structure.parent[top]
        segments = _Segments(mixed((suffix << 32) + parent, look))
        sets = segments.add(_named(structure, top))
        count, first = segments.add(count), segments.least(first)
        number = np.zeros(len(sets), np.int64)
        below, suffixes_below, suffixes = suffix[segments.first], suffixes, []
        for i, alike in enumerate(groups(mixed(sets, below))):
            segment = int(alike[0])
            number[alike] = i
            key = int(sets[segment])
            if key not in names:
                names[key] = folded(structure, np.sort(top[segments.members(segment)]))
            suffixes.append(f"/{names[key]}{suffixes_below[int(below[segment])]}")
        suffix, look, top = number, look[segments.first], parent[segments.first]
        going = top >= 0
        done += [Fold(suffixes[suffix[i]], int(count[i]), int(first[i])) for i in np.flatnonzero(~going).tolist()]
        top, look, suffix, count, first = top[going], look[going], suffix[going], count[going], first[going]
    return sorted(done, key=lambda item: item.vertex)


def _named(structure: Structure, vertices: Int32) -> UInt64:
    """A number for the name of each pool; equal for equal names of one kind."""
    by_id = np.array([kind.name is None or template.is_invertible(kind.name) for kind in structure.kinds], np.bool_)
    if by_id.all() and not structure.names:
        return mixed(structure.kind[vertices], structure.id[vertices])
    own = ~by_id[structure.kind[vertices]]
    if structure.names:
        own |= np.isin(vertices, np.fromiter(structure.names, np.int32))
    return mixed(structure.kind[vertices], np.where(own, vertices, structure.id[vertices]), own)


def _outside(structure: Structure, vertices: Int32, looks: UInt64, typeable: bool) -> list[Fold]:
    """Pools that are only in auxiliary graphs, usually few: by URI, and those without one by uuid or name."""
    found = []
    for group in groups(looks):
        by_place: dict[str, list[tuple[str, int]]] = {}
        for v in vertices[group].tolist():
            place, slash, name = structure.where(v).rpartition("/")
            if typeable and not slash:
                found.append(Fold(name, 1, v))
            else:
                by_place.setdefault(place + slash, []).append((name if slash else structure.name(v), v))
        found += [
            Fold(place + hostlist.fold(name for name, _ in members), len(members), members[0][1])
            for place, members in by_place.items()
        ]
    return sorted(found, key=lambda item: item.vertex)
