"""Many paths as few: `/demo/rack[0-1]/node[0-3]`, for pools that look the same.

From the leaves up: pools with one parent and one look become one item, then items whose parents have one
parent and whose names below are the same, until the root.  Each level is a handful of vector steps over the items that are left;
a text is made once for each different set of names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        count: how many they are.
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
        typeable: what no path or URI leads to is named by uuid, and not, as a reader wants it, by name.
    """
    split = int(np.searchsorted(vertices, structure.tree_end))
    inside = _inside(structure, vertices[:split], looks[:split]) if split else []
    return inside + _outside(structure, vertices[split:], looks[split:], typeable)


def fold_all(structure: Structure, vertices: Iterable[int]) -> str:
    """Paths of pools in one text, whatever they look like."""
    chosen = np.unique(np.fromiter(vertices, np.int32))
    return ",".join(item.text for item in fold(structure, chosen, np.zeros(len(chosen), np.uint64)))


def _inside(structure: Structure, vertices: Int32, looks: UInt64) -> list[Fold]:
    top, look, suffix = vertices, looks, np.zeros(len(vertices), np.int64)
    count, first = np.ones(len(vertices), np.int64), vertices
    suffixes, done = [""], []
    while len(top):
        parent = structure.parent[top]
        order, starts = _segments(mixed(parent, suffix, look))
        sets = np.add.reduceat(_named(structure, top)[order], starts)
        suffix, suffixes = _texts(structure, top[order], starts, sets, suffix[order][starts], suffixes)
        count, first = np.add.reduceat(count[order], starts), np.minimum.reduceat(first[order], starts)
        top, look = parent[order][starts], look[order][starts]
        ended = top < 0
        done += [
            Fold(suffixes[s], int(c), int(v))
            for s, c, v in zip(suffix[ended].tolist(), count[ended].tolist(), first[ended].tolist(), strict=True)
        ]
        going = ~ended
        top, look, suffix, count, first = top[going], look[going], suffix[going], count[going], first[going]
    return sorted(done, key=lambda item: item.vertex)


def _segments(keys: UInt64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order that puts equal keys together, and where each run of them begins in it."""
    order = np.argsort(keys, kind="stable")
    return order, np.concatenate([[0], np.flatnonzero(np.diff(keys[order])) + 1])


def _named(structure: Structure, vertices: Int32) -> UInt64:
    """A number for the name of each pool: equal for equal names of one kind."""
    by_id = np.array([kind.name is None or template.is_invertible(kind.name) for kind in structure.kinds], np.bool_)
    own = ~by_id[structure.kind[vertices]]
    if structure.names:
        own |= np.isin(vertices, np.fromiter(structure.names, np.int32))
    return mixed(structure.kind[vertices], np.where(own, vertices, structure.id[vertices]), own)


def _texts(
    structure: Structure, top: Int32, starts: NDArray[np.int64], sets: UInt64, suffix: NDArray[np.int64], suffixes: list[str]
) -> tuple[NDArray[np.int64], list[str]]:
    """The text of each segment: its names, and what was below them."""
    stops = np.append(starts[1:], len(top))
    number, texts = np.zeros(len(starts), np.int64), []
    for i, group in enumerate(groups(mixed(sets, suffix))):
        segment = int(group[0])
        number[group] = i
        texts.append(f"/{folded(structure, np.sort(top[starts[segment] : stops[segment]]))}{suffixes[int(suffix[segment])]}")
    return number, texts


def _outside(structure: Structure, vertices: Int32, looks: UInt64, typeable: bool) -> list[Fold]:
    """Pools that stand only in auxiliary graphs, few as a rule: by URI, and those without one by uuid or name."""
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
