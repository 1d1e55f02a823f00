"""The shape that a planner works on: vertices by type, and tables derived from it on first use.

A planner is made for every graph that is loaded, and most receive few queries.  So nothing here costs anything per pool until a
type is used, and arrays of a Structure are shared, not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fluxres import limits
from fluxres.arrays import Int32, Int64
from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner.timeline import narrowest

RUNS_SLICED_MAX: Final = 64
"""Up to this number, runs are cleared slice by slice; above it, by one cumulative sum."""


class Runs(NamedTuple):
    """A set of subtrees as disjoint runs that do not touch, in strictly ascending edges: start, stop, start, stop, …

    In pre-order a subtree is the slice [v, end[v]).  So the subtrees of any set of pools, nested or not, are a few runs: adjacent
    racks merge into one, and a sum over a run is two look-ups, however many pools it has.

    A vertex is in a run if an odd number of edges is at or before it.
    """

    edges: Int32

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
    def starts(self) -> Int32:
        return self.edges[::2]

    @property
    def stops(self) -> Int32:
        return self.edges[1::2]

    def outside(self, vertices: Int32) -> Int64:
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


OfType = Callable[[int], Int32]


class Columns:
    """Parent, end, type and size of every vertex, and the vertices of each type.

    Scalars are read through memory views, which takes a third of the time of a NumPy scalar and returns Python ints.

    Args:
        parent, end: int32[n]; pre-order, -1 above a root, one past the last descendant.
        type_of: uint16[n], type numbers.
        size: int64[n], units.
        of_type: returns the ascending vertices (int32) of a type number, in order to share them; computed here by default.
    """

    def __init__(
        self,
        parent: npt.ArrayLike,
        end: npt.ArrayLike,
        type_of: npt.ArrayLike,
        size: npt.ArrayLike,
        of_type: OfType | None = None,
    ) -> None:
        self.parents = np.ascontiguousarray(parent, np.int32)
        self.ends = np.ascontiguousarray(end, np.int32)
        self.type_numbers = np.ascontiguousarray(type_of, np.uint16)
        self.sizes = np.ascontiguousarray(size, np.int64)
        self.n = len(self.parents)
        if not len(self.ends) == len(self.type_numbers) == len(self.sizes) == self.n:
            raise UsageError("parent, end, type_of and size must have one entry for every vertex")
        self.types = int(self.type_numbers.max()) + 1 if self.n else 0
        self.parent = self.parents.data
        self.end = self.ends.data
        self.type = self.type_numbers.data
        self.size = self.sizes.data
        self._of_type = of_type
        self._vertices: list[Int32 | None] = [None] * self.types
        self._sums: list[Int64 | None] = [None] * self.types
        self._dtypes: dict[int, np.dtype[Any] | None] = {}
        self.plain: set[int] = set()
        """Types all of whose pools have one unit, as far as `dtype` was asked."""
        self._ordinals: Int32 | None = None

    def vertices(self, kind: int) -> Int32:
        """The vertices of a type, ascending (int32)."""
        found = self._vertices[kind]
        if found is None:
            if self._of_type is None:
                found = np.flatnonzero(self.type_numbers == kind).astype(np.int32)
            else:
                found = np.asarray(self._of_type(kind), np.int32)
            self._vertices[kind] = found
        return found

    def by_kind(self, vertices: Any) -> Iterator[tuple[int, Any]]:
        """The type numbers of these vertices, each with an index that selects the vertices of that type."""
        kinds = self.type_numbers[vertices]
        first = kinds.item(0)
        if (kinds == first).all():
            yield first, slice(None)
            return
        for kind in distinct(kinds).tolist():
            yield kind, kinds == kind

    def dtype(self, kind: int) -> np.dtype[Any] | None:
        """The integer type that can count the units of a type's pools; None if no size is above 1, so that a bit is enough."""
        if kind not in self._dtypes:
            sizes = self.sizes[self.vertices(kind)]
            least, most = (int(sizes.min()), int(sizes.max())) if sizes.size else (1, 1)
            self._dtypes[kind] = None if most <= 1 else narrowest(most)
            if least == most == 1:
                self.plain.add(kind)
        return self._dtypes[kind]

    def sums(self, kind: int) -> Int64 | None:
        """Prefix sums of the sizes of a type's pools; None if they equal the ordinals.

        Errors: LimitExceeded if all pools of the type together have more units than an int64 can count.
        """
        self.dtype(kind)
        if kind in self.plain:
            return None
        found = self._sums[kind]
        if found is None:
            sizes = self.sizes[self.vertices(kind)]
            if float(sizes.sum(dtype=np.float64)) > float(limits.SIZE_MAX):
                raise LimitExceeded(
                    f"the pools of type number {kind} together have more than {limits.SIZE_MAX} units",
                    hint="use a larger unit, such as GiB instead of bytes",
                )
            found = np.zeros(len(sizes) + 1, np.int64)
            np.cumsum(sizes, out=found[1:])
            self._sums[kind] = found
        return found

    def number(self, kind: int) -> memoryview:
        """A view of the ordinals by vertex, filled in for the pools of this type."""
        if self._ordinals is None:
            self._ordinals = np.zeros(self.n, np.int32)
        vertices = self.vertices(kind)
        self._ordinals[vertices] = np.arange(len(vertices), dtype=np.int32)
        return self._ordinals.data

    def ordinals(self, kind: int, lo: int, hi: int) -> tuple[int, int]:
        """The ordinals [first, stop) of the vertices of a type in [lo, hi)."""
        vertices = self.vertices(kind)
        return int(vertices.searchsorted(np.int32(lo))), int(vertices.searchsorted(np.int32(hi)))

    @property
    def nbytes(self) -> int:
        """Bytes of the tables derived here; shared arrays are not counted."""
        own = [*self._sums, self._ordinals, *(self._vertices if self._of_type is None else ())]
        return sum(array.nbytes for array in own if array is not None)


Number = TypeVar("Number", bound=np.integer)


def distinct(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The distinct values, ascending.

    >>> distinct(np.array([3, 3, 1, 1, 3])).tolist()
    [1, 3]
    """
    if len(values) < 2:
        return values
    found = values[np.concatenate([[True], values[1:] != values[:-1]])]
    return found if (found[1:] > found[:-1]).all() else np.unique(found)
