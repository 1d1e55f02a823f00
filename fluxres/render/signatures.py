"""Numbers that are equal for pools, or complete subtrees, that look the same: they let a million pools be drawn in ten lines.

A subtree is a slice of the columns, so its signature is a rolling hash over the slice, computed from one cumulative sum: the sum
of ``w[u] * B**u`` over the slice, divided by ``B**v`` (B is odd, so it has an inverse modulo 2**64). Depth is part of ``w``, and
pre-order with depths determines a tree, so equal sequences are equal trees. Signatures are only valid within one drawing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Structure

UInt64 = NDArray[np.uint64]

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

    Args:
        notes: (vertex, text), vertices in any order; a vertex may occur twice.
    """
    s = structure
    marks = (
        s.kind[lo:hi].astype(np.uint64)
        | s.state[lo:hi].astype(np.uint64) << np.uint64(32)
        | (s.flags[lo:hi].astype(np.uint64) << np.uint64(40))
    )
    own = mixed(marks, s.size[lo:hi])
    with np.errstate(over="ignore"):
        for v, text in notes:
            if lo <= v < hi:
                own[v - lo] = own[v - lo] * np.uint64(_BASE) + of_text(text)
    return own


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


def groups(signatures: UInt64) -> list[NDArray[np.int64]]:
    """Index arrays of equal signatures, in the order of their first occurrence.

    >>> [group.tolist() for group in groups(np.array([7, 3, 7], np.uint64))]
    [[0, 2], [1]]
    """
    if not len(signatures):
        return []
    order = np.argsort(signatures, kind="stable")
    cuts = np.flatnonzero(np.diff(signatures[order])) + 1
    return sorted(np.split(order, cuts), key=lambda group: int(group[0]))
