"""Which edges of an auxiliary graph say who supplies whom, and what of a graph a supplier has to give.

Graphs are drawn in several ways.  Power is drawn from the feed to the node.  A link of a network carries both ways, so its
edges point both ways; then what lies farther from the nodes is the supplier.  A graph all of whose edges lead out of the has-a
tree (nodes to the file system they mount) is drawn from the consumer's side, and is read the other way round.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.structure import Structure

Int32 = NDArray[np.int32]


class Feeds:
    """One auxiliary graph, read as who supplies whom.  Cost: vectorised over its edges, once."""

    def __init__(self, structure: Structure, graph: Subsystem, nodes: Int32) -> None:
        self._structure = structure
        self._nodes = nodes
        above, below = _followed(structure, graph, nodes)
        order = np.lexsort((above, below))
        #: Edges, by who is supplied.
        self.below, self.above = np.ascontiguousarray(below[order]), np.ascontiguousarray(above[order])
        self._below, self._above = self.below.data, self.above.data
        self._closures: dict[int, tuple[int, ...]] = {}

    @cached_property
    def distributors(self) -> Int32:
        """Pools that supply others, ascending: those with an edge down, and what they stand in outside the has-a tree."""
        structure = self._structure
        found = np.unique(self.above)
        up = found
        while (up := np.unique(structure.parent[up[up >= structure.tree_end]])).size and (up := up[up >= 0]).size:
            found = np.union1d(found, up)
        return found.astype(np.int32)

    @cached_property
    def attached(self) -> tuple[Int32, Int32]:
        """(supplier, pool) of pools outside the has-a tree that an edge hangs on a supplier, and that supply nothing."""
        structure = self._structure
        last = (self.below >= structure.tree_end) & (structure.end[self.below] == self.below + 1)
        last &= ~np.isin(self.below, self.distributors)
        above, below = self.above[last], self.below[last]
        order = np.lexsort((below, above))
        return above[order], below[order]

    def hung_on(self, v: int) -> list[int]:
        """The pools attached to a supplier."""
        above, below = self.attached
        found: list[int] = below[bisect_left(above.data, v) : bisect_right(above.data, v)].tolist()
        return found

    def suppliers(self, v: int) -> tuple[int, ...]:
        """Where edges into a pool come from."""
        first = bisect_left(self._below, v)
        stop = bisect_right(self._below, v, first)
        return tuple(self._above[first:stop].tolist()) if first < stop else ()

    def entries(self, v: int) -> list[int]:
        """Where what supplies a pool comes in; empty where nothing supplies it.

        That is the pool itself or the nearest above it that has suppliers; before the pools above, those in it (the cards of a
        node), and for a pool in a node those in the node.
        """
        u = v
        while u >= 0:
            if self.suppliers(u):
                return [u]
            inside = self._inside(u) if u == v or self._is_in_node(u) else []
            if inside:
                return inside
            u = self._structure.parent.item(u)
        return []

    def _inside(self, v: int) -> list[int]:
        """Pools strictly below one that are supplied from outside it."""
        stop = self._structure.end.item(v)
        a = bisect_left(self._below, v + 1)
        b = bisect_left(self._below, stop, a)
        if a == b:
            return []
        above = self.above[a:b]
        found: list[int] = np.unique(self.below[a:b][(above < v) | (above >= stop)]).tolist()
        return found

    def _is_in_node(self, v: int) -> bool:
        at = bisect_right(self._nodes.data, v) - 1
        return at >= 0 and v < self._structure.end.item(int(self._nodes[at]))

    def closure(self, entry: int) -> tuple[int, ...]:
        """All pools on the way up from where a supply comes in, ascending."""
        found = self._closures.get(entry)
        if found is None:
            met: set[int] = set()
            todo = list(self.suppliers(entry))
            while todo:
                u = todo.pop()
                if u not in met:
                    met.add(u)
                    todo += self._next(u)
            found = self._closures[entry] = tuple(sorted(met))
        return found

    def _next(self, u: int) -> tuple[int, ...]:
        """The next pools on the way up from one that was met."""
        structure = self._structure
        above = structure.parent.item(u)
        if u >= structure.tree_end:
            return (*self.suppliers(u), *((above,) if above >= 0 else ()))
        # In the has-a tree, a rack is not met because its PDU is; but what supplies it supplies the PDU.
        found = self.suppliers(u)
        while not found and above >= 0:
            found, above = self.suppliers(above), structure.parent.item(above)
        return found


def _followed(structure: Structure, graph: Subsystem, nodes: Int32) -> tuple[Int32, Int32]:
    """(supplier, supplied) of the edges that say it."""
    if graph.hierarchy:
        return graph.src, graph.dst
    codes = graph.src.astype(np.int64) * structure.n + graph.dst
    back = graph.dst.astype(np.int64) * structure.n + graph.src
    mutual = np.isin(codes, back)
    src, dst = graph.src[~mutual], graph.dst[~mutual]
    if not (dst < structure.tree_end).any() and (src < structure.tree_end).any():
        src, dst = dst, src
    far, near = _outward(structure, graph.src[mutual], graph.dst[mutual], nodes)
    return np.concatenate([src, far]), np.concatenate([dst, near])


def _outward(structure: Structure, src: Int32, dst: Int32, nodes: Int32) -> tuple[Int32, Int32]:
    """Of edges that point both ways, those from the end that lies farther from the nodes to the nearer one."""
    if not src.size:
        return src, dst
    ends = np.unique(src)
    at = nodes.searchsorted(ends, "right") - 1
    start = ends[(at >= 0) & (ends < structure.end[nodes[at]])] if nodes.size else ends[:0]
    if not start.size:
        start = ends[ends < structure.tree_end]
    distance = np.full(structure.n, structure.n, np.int64)
    distance[start] = 0
    hops, reached = 0, start
    while reached.size:
        hops += 1
        there = dst[np.isin(src, reached)]
        reached = np.unique(there[distance[there] == structure.n])
        distance[reached] = hops
    down = distance[src] > distance[dst]
    return src[down], dst[down]
