"""A hierarchy in pre-order: the subtree of a pool is a slice, both in containment and in an auxiliary hierarchy.

The columns of a structure are in the pre-order of containment.  An auxiliary hierarchy consists of edges, so its pre-order is
computed once, level by level: subtree sizes from the leaves up, positions from the roots down.  After that, every question about
either kind of hierarchy is the same array arithmetic.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64, Integers, Mask
from fluxres.graph.auxiliary import Subsystem

Number = TypeVar("Number", bound=np.integer[Any])


def in_slices(first: Integers, stop: Integers, count: int) -> Mask:
    """By number below `count`, whether it is in one of the slices from `first` up to `stop`.

    >>> in_slices(np.array([1, 2]), np.array([3, 4]), 5).tolist()
    [False, True, True, True, False]
    """
    depth = np.zeros(count + 1, np.int32)
    np.add.at(depth, first, 1)
    np.add.at(depth, stop, -1)
    found: Mask = np.cumsum(depth[:count]) > 0
    return found


def slice_of(first: Integers, stop: Integers, numbers: Integers) -> Int64:
    """For each number, the index of the slice in which it is; -1 for none.

    Args:
        first: ascending.
        stop: ascending, too: the slices are disjoint.

    >>> slice_of(np.array([1, 5]), np.array([3, 6]), np.array([0, 1, 2, 3, 5])).tolist()
    [-1, 0, 0, -1, 1]
    """
    if not len(first):
        return np.full(len(numbers), -1)
    at = first.searchsorted(numbers, "right") - 1
    found: Int64 = np.where((at >= 0) & (numbers < stop[at]), at, -1)
    return found


def are_in(end: Int32, tops: Integers, vertices: Integers) -> Mask:
    """Whether each pool is one of `tops` or below one.

    Args:
        end: one past the last descendant of every pool.
        tops: ascending; they may be nested.
    """
    return slice_of(tops, np.maximum.accumulate(end[tops]), vertices) >= 0


def topmost(end: Int32, vertices: NDArray[Number]) -> NDArray[Number]:
    """Pools in ascending order, without those below another one.

    Args:
        end: one past the last descendant of every pool.
    """
    reach = np.maximum.accumulate(end[vertices])
    return vertices[np.concatenate([[True], vertices[1:] >= reach[:-1]])] if len(vertices) else vertices


class Forest:
    """The pools of one hierarchy, by position in its pre-order.

    Args:
        name: of the hierarchy.
        n: number of pools in the structure.
        end: by position, one past the last position below.
        parent: by position, the vertex above, -1 for a root.
        order: vertices by position; None where a position is the vertex number.
    """

    def __init__(self, name: str, n: int, end: Int32, parent: Int32, order: Int32 | None = None) -> None:
        self.name = name
        self._n = n
        self._end, self._parent, self._order = end, parent, order
        if order is not None:
            self._place = np.argsort(order).astype(np.int32)
            self._members = order[self._place]

    @classmethod
    def auxiliary(cls, subsystem: Subsystem, n: int) -> Forest:
        """An auxiliary hierarchy; siblings are in the order of their edges.

        Errors: InputError for a graph that is not a forest.  Cost: vectorised over the edges, a dozen operations per level.
        """
        subsystem.require_forest()
        levels, owners = [subsystem.roots()], [np.zeros(0, np.int64)]
        while len(levels[-1]):
            owner, rows = subsystem.rows_from(levels[-1])
            levels.append(subsystem.dst[rows])
            owners.append(owner)
        sizes = [np.ones(len(level), np.int64) for level in levels]
        for depth in range(len(levels) - 1, 0, -1):
            np.add.at(sizes[depth - 1], owners[depth], sizes[depth])
        count = len(subsystem.members)
        order, end, parent = (np.empty(count, np.int32) for _ in range(3))
        above = np.full(len(levels[0]), -1, np.int32)
        at = np.cumsum(sizes[0]) - sizes[0]
        for depth, level in enumerate(levels):
            order[at], end[at], parent[at] = level, at + sizes[depth], above
            if depth + 1 < len(levels):
                owner, before = owners[depth + 1], np.cumsum(sizes[depth + 1]) - sizes[depth + 1]
                at = at[owner] + 1 + before - before[np.searchsorted(owner, owner)]
                above = level[owner]
        return cls(subsystem.name, n, end, parent, order)

    def _at(self, vertices: Integers) -> Int64:
        """Positions of these pools, -1 for those that are not in this hierarchy."""
        if self._order is None:
            return vertices.astype(np.int64)
        if not len(self._members):
            return np.full(len(vertices), -1, np.int64)
        near = np.minimum(self._members.searchsorted(vertices), len(self._members) - 1)
        return np.where(self._members[near] == vertices, self._place[near], -1).astype(np.int64)

    def _vertices(self, positions: Int64) -> Int32:
        return positions.astype(np.int32) if self._order is None else self._order[positions]

    def _position(self, v: int) -> int:
        if self._order is None:
            return v
        at = int(self._members.searchsorted(v))
        return int(self._place[at]) if at < len(self._members) and self._members[at] == v else -1

    def __contains__(self, v: int) -> bool:
        return self._position(v) >= 0

    def __len__(self) -> int:
        return len(self._end)

    @property
    def roots(self) -> Int32:
        """The pools without a parent, ascending."""
        return np.sort(self._vertices(np.flatnonzero(self._parent < 0)))

    def parent(self, v: int) -> int:
        """The pool above, -1 for a root and for a pool that is not in this hierarchy."""
        at = self._position(v)
        return int(self._parent[at]) if at >= 0 else -1

    def parents(self, vertices: Integers) -> Int32:
        """The pool above each, -1 where there is none."""
        at = self._at(vertices)
        return np.where(at >= 0, self._parent[at], np.int32(-1)) if len(self._parent) else np.full(len(at), -1, np.int32)

    def children(self, v: int) -> Int32:
        """The children, in order.  Cost: one vector scan of the subtree."""
        at = self._position(v)
        if at < 0:
            return np.zeros(0, np.int32)
        return self._vertices(np.flatnonzero(self._parent[at + 1 : self._end.item(at)] == v) + (at + 1))

    def ancestors(self, v: int) -> list[int]:
        """The pools above, parent first."""
        found = []
        while (v := self.parent(v)) >= 0:
            found.append(v)
        return found

    def below(self, tops: Integers) -> Mask:
        """By vertex, whether it is a proper descendant of one of these pools.  Cost: one vector scan."""
        return self._down(tops, 1)

    def with_below(self, tops: Integers) -> Mask:
        """By vertex, whether it is one of these pools or a descendant; pools that are not in this hierarchy are ignored."""
        return self._down(tops, 0)

    def _down(self, tops: Integers, skip: int) -> Mask:
        at = self._at(tops)
        at = at[at >= 0]
        reached = in_slices(at + skip, self._end[at], len(self._end))
        if self._order is None:
            return reached
        found = np.zeros(self._n, np.bool_)
        found[self._order[reached]] = True
        return found

    def with_above(self, vertices: Int32) -> Int32:
        """These pools and all their ancestors, ascending.  Cost O(levels) vector steps."""
        found, level = [vertices], vertices
        while len(level):
            level = np.unique(self.parents(level))
            level = level[level >= 0]
            found.append(level)
        return np.unique(np.concatenate(found)).astype(np.int32)
