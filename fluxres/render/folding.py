"""Fold the paths of pools that look the same: `/demo/rack[0-1]/node[0-3]`.

Folding goes from the leaves up. Pools with one parent and the same look become one item; then items whose parents have one
parent, and whose names below are the same, become one, up to the root. Each level takes a handful of vector steps over the
remaining items; a text is made once for each different set of names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike, NDArray

from fluxres.arrays import Int32, Int64, Mask, UInt64
from fluxres.graph.accounts import ARROW
from fluxres.graph.kinds import IDENTIFYING, Kind, KindTable, PropertyValue, around_id
from fluxres.graph.structure import Structure
from fluxres.syntax import folded as folded_text

_BASE: Final = 0x9E3779B97F4A7C15
_INVERSE: Final = pow(_BASE, -1, 2**64)


def mixed(*values: ArrayLike) -> UInt64:
    """One well-distributed number for each row of these columns of equal length.

    >>> a = mixed([1, 2, 1], [5, 5, 5])
    >>> bool(a[0] == a[2]), bool(a[0] == a[1])
    (True, False)
    """
    state = np.full(len(np.asarray(values[0])), _BASE, np.uint64)
    with np.errstate(over="ignore"):
        for value in values:
            column = np.asarray(value)
            state ^= column.view(np.uint64) if column.dtype.itemsize == 8 else column.astype(np.uint64)
            state *= np.uint64(0xBF58476D1CE4E5B9)
            state ^= state >> np.uint64(29)
        state *= np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(32)
    return state


def of_text(text: object) -> np.uint64:
    """A number for a hashable value; equal values have equal numbers within this process."""
    return np.uint64(hash(text) & 0xFFFFFFFFFFFFFFFF)


def looks(structure: Structure, lo: int, hi: int, notes: Iterable[tuple[int, str]]) -> UInt64:
    """A number for the look of each pool of ``[lo, hi)`` by itself: kind, size, state, flags, and its `notes`.

    Cores and devices that differ only in what identifies them look the same.

    Args:
        notes: (vertex, text), vertices in any order; a vertex may occur twice.
    """
    s = structure
    kind = _alike(s.kinds)[s.kind[lo:hi]] if s.kinds.may_identify else s.kind[lo:hi]
    marks = (
        kind.astype(np.uint64)
        | s.state[lo:hi].astype(np.uint64) << np.uint64(32)
        | (s.flags[lo:hi].astype(np.uint64) << np.uint64(40))
    )
    own = mixed(marks, s.size[lo:hi])
    with np.errstate(over="ignore"):
        for v, text in notes:
            if lo <= v < hi:
                own[v - lo] = own[v - lo] * np.uint64(_BASE) + of_text(text)
    return own


def described(kind: Kind) -> tuple[tuple[str, PropertyValue], ...]:
    """The properties that pools have in common with others like them."""
    return tuple(pair for pair in kind.properties if pair[0] not in IDENTIFYING)


def _alike(kinds: KindTable) -> Int64:
    """For each kind the first one that differs only in what identifies a pool."""
    first: dict[tuple[object, ...], int] = {}
    found = np.empty(len(kinds), np.int64)
    for at, kind in enumerate(kinds):
        said = described(kind)
        # 1 and True are equal in Python, but not to a user.
        found[at] = first.setdefault((structs.replace(kind, properties=said), *(type(value) for _, value in said)), at)
    return found


class Subtrees:
    """Signatures of the subtrees within one subtree.

    Args:
        structure: the columns.
        lo, hi: the slice.
        own: a number for each pool of the slice.

    Cost: a few vector steps over the slice.
    """

    def __init__(self, structure: Structure, lo: int, hi: int, own: UInt64) -> None:
        self._structure = structure
        self._lo = lo
        with np.errstate(over="ignore"):
            weights = mixed(own, structure.depth[lo:hi])
            self._inverse = _powers(_INVERSE, hi - lo)
            self._sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights * _powers(_BASE, hi - lo), dtype=np.uint64)])

    def of(self, vertices: Int32) -> UInt64:
        """Signatures of the subtrees of these pools; equal ones are drawn once."""
        at, stop = vertices - self._lo, self._structure.end[vertices] - self._lo
        with np.errstate(over="ignore"):
            return mixed((self._sums[stop] - self._sums[at]) * self._inverse[at], stop - at)


def _powers(base: int, count: int) -> UInt64:
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def groups(signatures: UInt64) -> list[Int64]:
    """Index arrays of equal signatures, in the order of their first occurrence.

    >>> [group.tolist() for group in groups(np.array([7, 3, 7], np.uint64))]
    [[0, 2], [1]]
    """
    if not len(signatures):
        return []
    order = np.argsort(signatures, kind="stable")
    cuts = np.flatnonzero(np.diff(signatures[order])) + 1
    return sorted(np.split(order, cuts), key=itemgetter(0))


_SPELLED_MAX: Final = 65_536
"""Maximal number of names written out in one text: this takes a tenth of a second."""


def runs(numbers: Int64) -> list[tuple[int, int]]:
    """Index ranges (first, last) of consecutive ascending numbers.

    >>> runs(np.array([0, 1, 2, 7]))
    [(0, 2), (3, 3)]
    """
    cuts = (np.flatnonzero(np.diff(numbers) != 1) + 1).tolist()
    return [(a, b - 1) for a, b in pairwise([0, *cuts, len(numbers)])]


def folded(structure: Structure, vertices: Int32) -> str:
    """Names of pools, folded as a hostlist; in the order of kinds and ids, or in pool order if some are explicitly named.

    Args:
        vertices: at least one; pools with the same name count once.
    """
    explicit = structure.names
    plain = vertices
    texts: list[str] = []
    if explicit:
        named = np.fromiter((v in explicit for v in vertices.tolist()), np.bool_, len(vertices))
        plain = vertices[~named]
        if named.any():
            texts.append(_spelled([explicit[v] for v in vertices[named][:_SPELLED_MAX].tolist()], int(named.sum())))
        # `n09` is explicitly named and `n10` is not; in pool order they are one run.
        if len(plain) and len(vertices) <= _SPELLED_MAX:
            return _spelled([structure.name(v) for v in vertices.tolist()], len(vertices))
    kinds = structure.kind[plain]
    alike: dict[tuple[str, int, str] | int, list[int]] = {}
    for number in dict.fromkeys(kinds.tolist() if len(kinds) < 64 else np.unique(kinds).tolist()):
        alike.setdefault(around_id(structure.kinds[number]) or number, []).append(number)
    texts += [_affixed(structure, plain[np.isin(kinds, numbers)], affixes) for affixes, numbers in alike.items()]
    return ",".join(dict.fromkeys(texts))


def hosts(structure: Structure, vertices: Int32, every: Int32) -> str:
    """Nodes folded by name, or by path where another node has the same name.

    Args:
        every: the nodes whose names must differ.
    """
    if len(np.unique(structure.id[every])) == len(every) or len({structure.name(v) for v in every.tolist()}) == len(every):
        return folded(structure, vertices)
    return fold_all(structure, vertices.tolist())


def _spelled(names: list[str], count: int) -> str:
    text = folded_text.fold(dict.fromkeys(names))
    return text if count <= len(names) else f"{text},… {count - len(names)} more"


def _affixed(structure: Structure, vertices: Int32, affixes: tuple[str, int, str] | int) -> str:
    """Names of pools that have the same text around their ids.

    Args:
        affixes: as of `around_id`; the number of the kind for names that depend on more than the id.
    """
    if isinstance(affixes, int) or not folded_text.is_plain(f"{affixes[0]}0{affixes[2]}"):
        return _spelled([structure.name(v) for v in vertices[:_SPELLED_MAX].tolist()], len(vertices))
    prefix, width, suffix = affixes
    ids = np.unique(structure.id[vertices])
    alone = [structure.name(int(vertices[structure.id[vertices] < 0][0]))] if ids[0] < 0 else []
    ids = ids[ids >= 0]
    if len(ids) < 2:
        return folded_text.fold(alone + [f"{prefix}{number:0{width}}{suffix}" for number in ids.tolist()])
    inside = ",".join([f"{ids[a]:0{width}}" if a == b else f"{ids[a]:0{width}}-{ids[b]:0{width}}" for a, b in runs(ids)])
    return ",".join([folded_text.fold([name]) for name in alone] + [f"{prefix}[{inside}]{suffix}"])


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
    return inside if split == len(vertices) else inside + _outside(structure, vertices[split:], looks[split:], typeable)


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

    def members(self, segment: int) -> Int64:
        """Rows of one segment, in any order."""
        runs = self.order[self.starts[segment] : self._stops[segment]].tolist()
        return np.concatenate([np.arange(self.runs[r], self._run_stops[r]) for r in runs])


def _starts(keys: UInt64) -> Int64:
    return np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])


def _inside(structure: Structure, vertices: Int32, looks: UInt64) -> list[Fold]:
    top, look, suffix = vertices, looks, np.zeros(len(vertices), np.int64)
    count, first = np.ones(len(vertices), np.int64), vertices
    suffixes, done, names = [""], [], dict[int, str]()
    by_id = np.array([kind.name is None or around_id(kind) is not None for kind in structure.kinds], np.bool_)
    while len(top):
        parent = structure.parent[top]
        segments = _Segments(mixed((suffix << 32) + parent, look))
        sets = segments.add(_named(structure, top, by_id))
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


def _named(structure: Structure, vertices: Int32, by_id: Mask) -> UInt64:
    """A number for the name of each pool; equal for equal names of one kind.

    Args:
        by_id: by kind, whether names differ by the id alone.
    """
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
            where = structure.where(v)
            split = max(where.rfind("/"), where.find(":")) + 1
            if typeable and not split:
                found.append(Fold(where, 1, v))
            else:
                by_place.setdefault(where[:split], []).append((where[split:] if split else structure.name(v), v))
        found += [
            Fold(_quoted(place) + folded_text.fold(name for name, _ in members), len(members), members[0][1])
            for place, members in by_place.items()
        ]
    return sorted(found, key=lambda item: item.vertex)


def _quoted(place: str) -> str:
    """The start of a URI, with names in quotes that a hostlist cannot have."""
    graph, colon, path = place.partition(":")
    return graph + colon + "/".join(name and folded_text.fold([name]) for name in path.split("/"))
