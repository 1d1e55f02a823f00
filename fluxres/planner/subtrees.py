"""Sets of subtrees as sorted, disjoint runs of vertices.

In pre-order a subtree is the slice [v, end[v]).  So the subtrees of any set of pools, nested or not, are a few runs: adjacent
racks merge into one, and a sum over a run is two look-ups, however many pools it has.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Vertices = npt.NDArray[np.int32]

RUNS_SLICED_MAX: Final = 64
"""Up to this number, runs are cleared slice by slice; above it, by one cumulative sum."""


class Runs(NamedTuple):
    """Disjoint runs that do not touch, as strictly ascending edges: start, stop, start, stop, …

    A vertex is in a run if an odd number of edges is at or before it.
    """

    edges: Vertices

    @classmethod
    def of(cls, starts: npt.NDArray[Any], stops: npt.NDArray[Any]) -> Runs:
        """The union of subtrees (nested or disjoint, none empty), in any order.

        >>> Runs.of(np.array([7, 1, 2, 4]), np.array([9, 4, 3, 6]))
        Runs(edges=array([1, 6, 7, 9], dtype=int32))
        """
        if len(starts) > 1:
            order = np.argsort(starts, kind="stable")
            starts, stops = starts[order], np.maximum.accumulate(stops[order])
            apart = starts[1:] > stops[:-1]
            starts, stops = starts[np.concatenate([[True], apart])], stops[np.concatenate([apart, [True]])]
        edges = np.empty(2 * len(starts), np.int32)
        edges[::2], edges[1::2] = starts, stops
        return cls(edges)

    @property
    def starts(self) -> Vertices:
        return self.edges[::2]

    @property
    def stops(self) -> Vertices:
        return self.edges[1::2]

    def outside(self, vertices: Vertices) -> npt.NDArray[np.int64]:
        """1 for each vertex that is in no run, else 0.

        >>> Runs.of(np.array([1, 7]), np.array([6, 9])).outside(np.array([0, 1, 5, 6, 8], np.int32))
        array([1, 0, 0, 1, 0])
        """
        return ~self.edges.searchsorted(vertices, "right") & 1

    def clear(self, values: npt.NDArray[Any], base: int) -> None:
        """Set to 0 all values within a run; values[0] belongs to vertex `base`.

        >>> units = np.full(5, 3)
        >>> Runs.of(np.array([1, 7]), np.array([6, 9])).clear(units, 4); units
        array([0, 0, 3, 0, 0])
        """
        if len(self.edges) <= 2 * RUNS_SLICED_MAX:
            edges = np.clip(self.edges - base, 0, len(values)).tolist()
            for start, stop in zip(edges[::2], edges[1::2], strict=True):
                values[start:stop] = 0
            return
        # A cumulative sum of the edges in bytes: only its parity matters, which survives overflow.
        before = int(self.edges.searchsorted(np.int32(base), "right"))
        turns = np.zeros(len(values), np.int8)
        turns[self.edges[before : int(self.edges.searchsorted(np.int32(base + len(values))))] - base] = 1
        turns[:1] += before & 1
        values[np.cumsum(turns, dtype=np.int8) & 1 == 1] = 0


NO_RUNS: Final = Runs(np.zeros(0, np.int32))
