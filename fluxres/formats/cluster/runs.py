"""Find repetition in columns: which siblings are equal, without a Python loop over pools.

Two subtrees are equal when their rows are equal apart from ids, ranks and uuids, which lists can express. A polynomial hash over
the pre-order rows gives every subtree a number in one pass. Siblings with equal numbers make a run, and the run is then compared
row by row, so a collision costs compactness and never correctness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.kinds import Kind, KindTable
from fluxres.graph.structure import Structure

UInt64 = NDArray[np.uint64]

#: odd, so that it has an inverse modulo 2**64
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
#: contents of fewer pools than this are compared with those seen before: enough for a rack, not a copy of the machine
_INSIDE_MAX = 65_536
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(slots=True)
class Group:
    """A run of equal siblings, in each of the equal parents.

    Args:
        at: the first pool, in the first parent.
        count: pools in each parent.
        length: pools of one subtree.
        positions: all pools of the group, ascending.
        counts: `count`, the parents in each grandparent, and so on upwards.
    """

    at: int
    count: int
    length: int
    positions: NDArray[np.int64]
    counts: tuple[int, ...]


class Runs:
    """The groups of a structure."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        #: kinds; explicitly named pools have theirs without the template, which does not make their name
        self.kinds = KindTable(structure.kinds)
        self.rows = self._rows()
        self._hash = self._subtree_hashes()

    def groups(self) -> list[Group]:
        """The group of the containment tree, then those of the trees outside it, in order."""
        structure = self._structure
        tops = np.flatnonzero(structure.parent < 0)
        groups = []
        for at, count in [(0, 1), *((at, count) for at, count in self._brothers(tops[tops >= structure.tree_end]))]:
            length = structure.end.item(at) - at
            groups.append(Group(at, count, length, at + np.arange(count) * length, (count,)))
        return groups

    def _rows(self) -> dict[str, NDArray[Any]]:
        structure = self._structure
        kind = structure.kind
        extra = np.zeros(structure.n, np.int32)
        if structure.names:
            kind = kind.copy()
            for v in structure.names:
                kind[v] = self._unnamed(kind.item(v))
        numbers: dict[tuple[object, ...], int] = {}
        for v in sorted({*structure.names, *structure.tags, *structure.capacity}):
            tags = structure.tags.get(v, {})
            key = (v in structure.names, tuple(sorted(tags.items(), key=str)), structure.capacity.get(v))
            extra[v] = numbers.setdefault(key, len(numbers) + 1)
        marks = structure.flags.astype(np.int32) * 4 + (structure.id >= 0) * 2 + (structure.rank >= 0)
        length = structure.end - np.arange(structure.n, dtype=np.int32)
        return {"kind": kind, "size": structure.size, "state": structure.state, "marks": marks, "extra": extra, "length": length}

    def _unnamed(self, kind: int) -> int:
        found: Kind = self.kinds[kind]
        return self.kinds.intern(replace(found, name=None))

    def _subtree_hashes(self) -> UInt64:
        n = self._structure.n
        mixed = np.zeros(n, np.uint64)
        for values in self.rows.values():
            mixed *= np.uint64(_MIX[0])
            mixed += values.astype(np.uint64)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(_MIX[1])
            mixed ^= mixed >> np.uint64(32)
        mixed *= _powers(_BASE, n)
        sums = np.zeros(n + 1, np.uint64)
        np.cumsum(mixed, out=sums[1:])
        return (sums[self._structure.end] - sums[:-1]) * _powers(_INVERSE, n)

    def _brothers(self, vertices: NDArray[Any]) -> Iterator[tuple[int, int]]:
        """Runs of equal neighbours: the first vertex and the length."""
        if not len(vertices):
            return
        cuts = np.flatnonzero(self._hash[vertices[1:]] != self._hash[vertices[:-1]]) + 1
        starts = [0, *cuts.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(vertices)], strict=True):
            at, count = int(vertices[start]), stop - start
            if count == 1 or self._is_repeated(at, count):
                yield at, count
            else:
                yield from ((v, 1) for v in vertices[start:stop].tolist())

    def _is_repeated(self, at: int, count: int) -> bool:
        length = self._structure.end.item(at) - at
        stop = at + count * length
        if stop > self._structure.n:
            return False
        return all(
            bool((block[1:] == block[0]).all())
            for block in (values[at:stop].reshape(count, length) for values in self.rows.values())
        )

    def children(self, group: Group) -> list[Group]:
        """The groups below one."""
        found = []
        for at, count in self._brothers(self._structure.children(group.at)) if group.length > 1 else ():
            length = self._structure.end.item(at) - at
            first = group.positions + (at - group.at)
            positions = (first[:, None] + np.arange(count) * length).ravel()
            found.append(Group(at, count, length, positions, (count, *group.counts)))
        return found

    def inside(self, group: Group) -> bytes | None:
        """A key for everything below a run of siblings in one parent, ids included; None if lists run on across them."""
        if not 1 < group.length <= _INSIDE_MAX or len(group.positions) != group.count:
            return None
        stop = group.at + group.count * group.length
        ids = self._structure.id[group.at : stop].reshape(group.count, group.length)[:, 1:]
        if group.count > 1 and not bool((ids[1:] == ids[0]).all()):
            return None
        below = slice(group.at + 1, group.at + group.length)
        return b"".join([ids[0].tobytes(), *(values[below].tobytes() for values in self.rows.values())])


def _powers(base: int, n: int) -> UInt64:
    powers = np.full(n, base, np.uint64)
    powers[:1] = 1
    np.multiply.accumulate(powers, out=powers)
    return powers


def per_parent(values: NDArray[Any], counts: Iterable[int]) -> int:
    """The shortest period of a list that may repeat in every parent.

    Args:
        values: one for each instance, in order.
        counts: instances in a parent, parents in a grandparent, and so on.

    >>> per_parent(np.array([0, 1, 0, 1]), [2, 2]), per_parent(np.array([0, 1, 2, 3]), [2, 2])
    (2, 4)
    """
    for length in _products(counts):
        if len(values) % length == 0 and bool((values.reshape(-1, length) == values[:length]).all()):
            return length
    return len(values)


def _products(counts: Iterable[int]) -> Iterator[int]:
    product = 1
    for count in counts:
        product *= count
        yield product
