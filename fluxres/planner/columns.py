"""The shape that a planner works on: vertices by type, and tables derived from it on first use.

A planner is made for every graph that is loaded, and most receive few queries.  So nothing here costs anything per pool until a
type is used, and arrays of a Structure are shared, not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fluxres import limits
from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner.subtrees import Vertices
from fluxres.planner.timeline import narrowest

OfType = Callable[[int], Vertices]


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
        self._vertices: list[Vertices | None] = [None] * self.types
        self._sums: list[npt.NDArray[np.int64] | None] = [None] * self.types
        self._dtypes: dict[int, np.dtype[Any] | None] = {}
        self._plain: set[int] = set()
        """Types all of whose pools have one unit."""
        self._ordinals: npt.NDArray[np.int32] | None = None

    def vertices(self, kind: int) -> Vertices:
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
                self._plain.add(kind)
        return self._dtypes[kind]

    def sums(self, kind: int) -> npt.NDArray[np.int64] | None:
        """Prefix sums of the sizes of a type's pools; None if they equal the ordinals.

        Errors: LimitExceeded if all pools of the type together have more units than an int64 can count.
        """
        self.dtype(kind)
        if kind in self._plain:
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
    found = _without_adjacent_duplicates(values)
    return found if (found[1:] > found[:-1]).all() else _without_adjacent_duplicates(np.sort(found))


def _without_adjacent_duplicates(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) > 1 else values
