"""Sets of subtrees as sorted, disjoint runs of vertices.

In pre-order a subtree is the slice [v, end[v]).  The subtrees of any set of pools, nested or not, are then a few
runs: neighbouring racks melt into one, and sums over a run are two look-ups however many pools it has.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

Vertices = npt.NDArray[np.int32]

RUNS_SLICED_MAX: Final = 64
"""Up to so many runs are written slice by slice; more of them by one cumulative sum."""


class Runs(NamedTuple):
    """Disjoint, ascending runs [starts[k], stops[k])."""

    starts: Vertices
    stops: Vertices

    @classmethod
    def of(cls, starts: npt.NDArray[Any], stops: npt.NDArray[Any]) -> Runs:
        """The union of subtrees (nested or disjoint) that begin at `starts`, in any order.

        >>> Runs.of(np.array([7, 1, 2, 4]), np.array([9, 4, 3, 6]))
        Runs(starts=array([1, 7], dtype=int32), stops=array([6, 9], dtype=int32))
        """
        order = np.argsort(starts, kind="stable")
        starts, stops = starts[order].astype(np.int32), np.maximum.accumulate(stops[order].astype(np.int32))
        first = np.ones(len(starts), np.bool_)
        first[1:] = starts[1:] > stops[:-1]
        last = np.ones(len(starts), np.bool_)
        last[:-1] = first[1:]
        return cls(starts[first], stops[last])

    def contain(self, vertices: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Which of the vertices lie in a run.

        >>> Runs.of(np.array([1, 7]), np.array([6, 9])).contain(np.array([0, 1, 5, 6, 8], np.int32))
        array([False,  True,  True, False,  True])
        """
        if not len(self.starts):
            return np.zeros(len(vertices), np.bool_)
        k = self.starts.searchsorted(vertices, "right") - 1
        inside: npt.NDArray[np.bool_] = (k >= 0) & (vertices < self.stops[k])
        return inside

    def clear(self, values: npt.NDArray[Any], base: int) -> None:
        """Set to 0 what lies in a run; values[0] belongs to vertex `base`."""
        if len(self.starts) <= RUNS_SLICED_MAX:
            for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True):
                values[max(start - base, 0) : max(stop - base, 0)] = 0
            return
        values[self.flags(base, base + len(values))] = 0

    def flags(self, lo: int, hi: int) -> npt.NDArray[np.bool_]:
        """For every vertex in [lo, hi): does it lie in a run?

        >>> Runs.of(np.array([1, 7]), np.array([6, 9])).flags(4, 8)
        array([ True,  True, False,  True])
        """
        first, last = self.stops.searchsorted(np.int32(lo), "right"), self.starts.searchsorted(np.int32(hi))
        edges = np.zeros(hi - lo + 1, np.int8)
        # Runs do not touch, so within one assignment no place stands twice.
        edges[np.maximum(self.starts[first:last] - lo, 0)] = 1
        edges[np.minimum(self.stops[first:last] - lo, hi - lo)] = -1
        flags: npt.NDArray[np.bool_] = np.cumsum(edges[:-1], dtype=np.int8) > 0
        return flags


NO_RUNS: Final = Runs(np.zeros(0, np.int32), np.zeros(0, np.int32))
