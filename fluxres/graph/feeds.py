"""Which edges of an auxiliary graph mean "supplies", and what a supplier can give.

Graphs come in several styles.  A power graph has edges from the feed to the node.  A network link carries both ways, so its edges
point both ways; then the end that is farther from the nodes is the supplier.  A graph all of whose edges lead out of the
containment tree (from nodes to the file system they mount) is drawn from the consumer's side, so it is read in reverse.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.graph.accounts import Accounts, Pools
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.forest import are_in

SUPPLY: Final = "supply"
ANY: Final = "any"
"""Value of the edge attribute `supply`: one of several suppliers is enough."""


class Feeds:
    """One auxiliary graph, read as supplier and consumer.  Cost: vectorised over its edges, once."""

    def __init__(self, accounts: Accounts, graph: Subsystem) -> None:
        self._accounts = accounts
        self._pools = pools = accounts.pools
        self._nodes = nodes = pools.of_type("node")
        self.graph = graph
        #: The type number of the graph's edges.
        self.kind = accounts.kind(graph)
        above, below = _followed(pools, graph, nodes)
        order = np.lexsort((above, below))
        #: Consumer and supplier of each edge, ordered by consumer.
        self.below, self.above = np.ascontiguousarray(below[order]), np.ascontiguousarray(above[order])
        self._below, self._above = self.below.data, self.above.data
        #: By edge, the accounts that its flow is charged to, one for each direction the graph has; -1 for none.
        self._limits = [accounts.between(graph, *ends) for ends in ((self.above, self.below), (self.below, self.above))]
        self.is_limited = any(bool((limits >= 0).any()) for limits in self._limits)

    @cached_property
    def alternative(self) -> Mask | None:
        """Edges of which only one per consumer is used at a time; None if there are none."""
        column, n = self.graph.attributes.get(SUPPLY), self._pools.n
        rows = [] if column is None else [row for row, value in enumerate(column.tolist()) if value == ANY]
        if not rows:
            return None
        src, dst = self.graph.src[rows].astype(np.int64), self.graph.dst[rows].astype(np.int64)
        found: Mask = np.isin(self.above.astype(np.int64) * n + self.below, np.concatenate([src * n + dst, dst * n + src]))
        return found

    # -- distributed resources ---------------------------------------------------------------------------------------

    @cached_property
    def distributors(self) -> Int32:
        """Pools that supply others, ascending: those with an edge down, and their ancestors outside the containment tree."""
        pools = self._pools
        found = np.unique(self.above)
        up = found
        while (up := np.unique(pools.parent[up[up >= pools.tree_end]])).size and (up := up[up >= 0]).size:
            found = np.union1d(found, up)
        return found.astype(np.int32)

    @cached_property
    def attached(self) -> tuple[Int32, Int32]:
        """(supplier, pool) of pools outside the containment tree that an edge attaches to a supplier and that supply nothing
        themselves.
        """
        pools = self._pools
        last = (self.below >= pools.tree_end) & (pools.end[self.below] == self.below + 1)
        last &= ~np.isin(self.below, self.distributors)
        above, below = self.above[last], self.below[last]
        order = np.lexsort((below, above))
        return above[order], below[order]

    def hung_on(self, v: int) -> list[int]:
        """The pools attached to a supplier."""
        above, below = self.attached
        found: list[int] = below[bisect_left(above.data, v) : bisect_right(above.data, v)].tolist()
        return found

    @cached_property
    def given(self) -> Int32:
        """Pools that may have something to give: the distributors, and the pools attached to them."""
        pools = self._pools
        members = np.union1d(self.above, self.below)
        leaves = np.flatnonzero(pools.end == np.arange(1, pools.n + 1))
        leaves = leaves[np.isin(pools.parent[leaves], self.distributors)]
        leaves = leaves[(leaves >= pools.tree_end) | np.isin(leaves, members)]
        return np.unique(np.concatenate([self.distributors, leaves, self.attached[1]])).astype(np.int32)

    @cached_property
    def types(self) -> frozenset[int]:
        """The types that are distributed: those of the distributors, and of attached pools in an auxiliary graph.

        Nodes and their ancestors are excluded, though a rack may pass on what supplies it.
        """
        pools = self._pools
        found = set(np.unique(pools.type[self.given]).tolist())
        up = np.unique(self._nodes)
        while up.size:
            found -= set(np.unique(pools.type[up]).tolist())
            up = np.unique(pools.parent[up])
            up = up[up >= 0]
        return frozenset(found)

    @cached_property
    def counted(self) -> frozenset[int]:
        """The distributed types of which some pool has more than one unit or a unit name.

        In a part of a machine, the types that count in the machine count too, even if each pool has a single unit here.
        """
        pools = self._pools
        given = self.given[(pools.full_size[self.given] > 1) | self._has_unit(self.given)]
        named = {kind for graph, kind in pools.counts if graph == self.graph.name}
        by_parent = {number for number, kind in enumerate(pools.types) if kind in named}
        return self.types & (by_parent | frozenset(np.unique(pools.type[given]).tolist()))

    def _has_unit(self, vertices: Int32) -> Mask:
        of_kind = np.array([kind.unit is not None for kind in self._pools.kinds], np.bool_)
        found: Mask = of_kind[self._pools.kind[vertices]]
        return found

    @cached_property
    def unit(self) -> str | None:
        """The unit of edges without one of their own: that of the first pool of a counted type."""
        pools = self._pools
        given = self.given[np.isin(pools.type[self.given], list(self.counted))]
        return pools.kind_of(int(given[0])).unit if len(given) else None

    def units_of(self, types: frozenset[int]) -> set[str | None]:
        """The units of the pools of these distributed types; those of the edges too if any of the types is counted."""
        pools, accounts = self._pools, self._accounts
        given = self.given[np.isin(pools.type[self.given], list(types))]
        found = {pools.kinds[number].unit for number in np.unique(pools.kind[given]).tolist()}
        if types & self.counted or not types:
            found |= {accounts.unit(v) for v in accounts.of_type(self.kind).tolist()}
        return found

    @cached_property
    def is_vital(self) -> bool:
        """Whether a pool that this graph does not reach can do no work: the graph is a hierarchy, or it distributes something."""
        return self.graph.hierarchy or bool(self.types) or self.is_limited

    # -- suppliers ---------------------------------------------------------------------------------------------------

    def rows_into(self, v: int) -> range:
        first = bisect_left(self._below, v)
        return range(first, bisect_right(self._below, v, first))

    def suppliers(self, v: int) -> tuple[int, ...]:
        """The sources of the edges into a pool."""
        rows = self.rows_into(v)
        return tuple(self._above[rows.start : rows.stop].tolist()) if rows else ()

    @cached_property
    def supplied(self) -> Int32:
        """Pools with an edge into them, ascending."""
        return np.unique(self.below)

    @cached_property
    def groups(self) -> Int64:
        """For each edge, the index in `supplied` of the pool it leads to."""
        return self.supplied.searchsorted(self.below)

    @cached_property
    def places(self) -> Int64:
        """For each edge, the index in `supplied` of the pool where its supplier is itself supplied; -1 for a source."""
        at = self.above.astype(np.int64)
        while True:
            place = np.minimum(self.supplied.searchsorted(at), len(self.supplied) - 1)
            found = (at >= 0) & (self.supplied[place] == at)
            if (found | (at < 0)).all():
                return np.where(found, place, -1)
            at = np.where(found | (at < 0), at, self._pools.parent[at])

    def cards(self) -> Iterator[tuple[int, list[int]]]:
        """Nodes without suppliers of their own, each with the pools in it that are supplied from outside (its cards)."""
        first, last = self.supplied.searchsorted(self._nodes + 1), self.supplied.searchsorted(self._pools.end[self._nodes])
        for node in self._nodes[last > first].tolist():
            if not self.rows_into(node) and (entries := self._inside(node)):
                yield node, entries

    def limits(self, row: int) -> list[int]:
        """The accounts that flow along an edge is charged to."""
        return [v for limits in self._limits if (v := limits.item(row)) >= 0]

    def entries(self, v: int) -> list[int]:
        """The pools through which a pool is supplied; empty if nothing supplies it.

        That is the pool itself or its nearest ancestor with suppliers.  Pools inside it (the cards of a node) come before its
        ancestors; for a pool in a node, so do the pools in that node.
        """
        u = v
        while u >= 0:
            if self.rows_into(u):
                return [u]
            inside = self._inside(u) if u == v or self.is_in_node(u) else []
            if inside:
                return inside
            u = self._pools.parent.item(u)
        return []

    def arrivals(self, v: int) -> list[int]:
        """The pools whose suppliers decide whether a pool takes new work (rule F3); empty if nothing supplies it.

        That is the pool itself or its nearest ancestor with suppliers, or the cards of a node without any, whichever is nearer.
        Unlike :meth:`entries`, it does not include the pools through which a charge of this pool goes.
        """
        u = v
        while u >= 0:
            if self.rows_into(u):
                return [u]
            at = bisect_left(self._nodes.data, u)
            if at < len(self._nodes) and self._nodes.item(at) == u and (cards := self._inside(u)):
                return cards
            u = self._pools.parent.item(u)
        return []

    def _inside(self, v: int) -> list[int]:
        """Pools strictly below `v` that are supplied from outside it."""
        stop = self._pools.end.item(v)
        a = bisect_left(self._below, v + 1)
        b = bisect_left(self._below, stop, a)
        if a == b:
            return []
        above = self.above[a:b]
        found: list[int] = np.unique(self.below[a:b][(above < v) | (above >= stop)]).tolist()
        return found

    def is_in_node(self, v: int) -> bool:
        at = bisect_right(self._nodes.data, v) - 1
        return at >= 0 and v < self._ends.item(at)

    @cached_property
    def _ends(self) -> Int32:
        """By node, the farthest end of the nodes up to it: nodes may be nested."""
        found: Int32 = np.maximum.accumulate(self._pools.end[self._nodes])
        return found

    def onward(self, u: int) -> tuple[int, int]:
        """One step up from a supplier: the pool where its own supply arrives, and the pool that is charged with it, or -1."""
        pools = self._pools
        above = pools.parent.item(u)
        if u >= pools.tree_end:
            return u, above
        # In the containment tree, charging a PDU does not charge its rack; but what supplies the rack supplies the PDU.
        while not self.rows_into(u) and above >= 0:
            u, above = above, pools.parent.item(above)
        return u, -1


def _followed(pools: Pools, graph: Subsystem, nodes: Int32) -> tuple[Int32, Int32]:
    """(supplier, consumer) of the edges that mean "supplies"."""
    if graph.hierarchy:
        return graph.src, graph.dst
    codes = graph.src.astype(np.int64) * pools.n + graph.dst
    back = graph.dst.astype(np.int64) * pools.n + graph.src
    mutual = np.isin(codes, back)
    src, dst = graph.src[~mutual], graph.dst[~mutual]
    if not (dst < pools.tree_end).any() and (src < pools.tree_end).any():
        src, dst = dst, src
    far, near = _outward(pools, graph.src[mutual], graph.dst[mutual], nodes)
    return np.concatenate([src, far]), np.concatenate([dst, near])


def _outward(pools: Pools, src: Int32, dst: Int32, nodes: Int32) -> tuple[Int32, Int32]:
    """Of edges in both directions, those from the end farther from the nodes to the nearer one."""
    if not src.size:
        return src, dst
    ends = np.unique(src)
    start = ends[are_in(pools.end, nodes, ends)]
    if not start.size:
        start = ends[ends < pools.tree_end]
    distance = np.full(pools.n, pools.n, np.int64)
    distance[start] = 0
    hops, reached = 0, start
    while reached.size:
        hops += 1
        there = dst[np.isin(src, reached)]
        reached = np.unique(there[distance[there] == pools.n])
        distance[reached] = hops
    down = distance[src] > distance[dst]
    return src[down], dst[down]
