"""Which pools the auxiliary graphs do not distinguish: pools with equal descriptions have equal charges.

A pool is described by what is charged for it and for each pool in it, and by the pools outside that it supplies.  Suppliers
inside the pool are described by their position in it, so racks with PDUs of their own are equal; all others are described by
their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.feeds import Feeds
from fluxres.match.paths import Paths


class Interchange:
    """Descriptions of the pools of one structure.

    Cost: what is charged for each pool with suppliers of its own, computed once for each pool that contains it.
    """

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._structure = paths.structure
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[object, int] = {}
        self._edges: dict[int, tuple[int, ...]] = {}
        self._turned = {feeds: _by_supplier(feeds) for feeds in paths.feeds}
        self._feeds = {feeds.graph.name: feeds for feeds in paths.feeds}

    def of(self, v: int, channel: int) -> int:
        """A number that is equal for two pools with the same description."""
        found = self._known.get((v, channel))
        if found is None:
            described = self._describe(v, channel)
            found = self._known[v, channel] = self._numbers.setdefault(described, len(self._numbers))
        return found

    def edges_inside(self, v: int) -> tuple[int, ...]:
        """The accounts of limited edges from a pool in this one (itself included) to another in it, or into its own supply."""
        found = self._edges.get(v)
        if found is None:
            limited = [feeds for feeds in self._paths.feeds if feeds.is_limited]
            rows = [(feeds, row) for feeds in limited for row in self._rows_inside(feeds, v)]
            rows += [(feeds, row) for feeds in limited if self._is_end(feeds, v) for row in self._rows_into(feeds, v)]
            found = self._edges[v] = tuple(dict.fromkeys(edge for feeds, row in rows for edge in feeds.limits(row)))
        return found

    def _describe(self, v: int, channel: int) -> object:
        graphs, kinds = self._paths.concerned(channel)
        entries = dict.fromkeys(u for feeds in graphs for u in self._ends_below(feeds, v))
        ended = () if self._paths.is_route(channel) else tuple(feeds for feeds in graphs if self._is_end(feeds, v))
        charged = tuple((u - v, self._relative(v, self._paths.charged(u, channel), ended)) for u in (v, *entries))
        inside = [(at, row) for at, feeds in enumerate(graphs) for row in self._rows_inside(feeds, v)]
        links = tuple((at, graphs[at].below.item(row) - v, graphs[at].above.item(row) - v) for at, row in inside)
        served = self._paths.nodes_served(channel, v, self._structure.end.item(v))
        dead = tuple(self._dead_into(v, graphs))
        return charged, links, dead, served, self._outward(v, graphs, kinds)

    def _relative(self, v: int, charges: Iterable[tuple[tuple[int, ...], object]] | None, ended: tuple[Feeds, ...]) -> object:
        """Charges with positions in a pool instead of numbers, for what is in it and for edges of graphs that end there."""
        if charges is None:
            return None
        return tuple((tuple(self._place(v, u, ended) for u in givers), part) for givers, part in charges)

    def _place(self, v: int, account: int, ended: tuple[Feeds, ...]) -> object:
        stop, accounts = self._structure.end.item(v), self._structure.accounts
        if not accounts.is_edge(account):
            return ("in", account - v) if v <= account < stop else account
        graph, *ends = accounts.edge(account)
        inside = sum(v <= u < stop for u in ends)
        if inside == 2 or (inside == 1 and self._feeds[graph.name] in ended):
            places = (("in", u - v) if v <= u < stop else u for u in ends)
            return graph.name, *places, accounts.size.item(account), accounts.unit(account)
        return account

    def _is_end(self, feeds: Feeds, v: int) -> bool:
        """Whether a graph leads from a pool to nothing outside it, so that only pools in it and above it draw through edges into
        it.

        Pools above it draw through all such pools alike.  That does not hold for a pool in a node: a core draws through the card
        next to it.
        """
        structure = self._structure
        if structure.parent.item(v) >= 0 and feeds.is_in_node(structure.parent.item(v)):
            return False
        stop = structure.end.item(v)
        order, above = self._turned[feeds]
        a, b = _between(above, v, stop)
        below = feeds.below[order[a:b]]
        return not ((below < v) | (below >= stop)).any()

    def _rows_into(self, feeds: Feeds, v: int) -> list[int]:
        """Edges from a pool outside this one into it."""
        stop = self._structure.end.item(v)
        a, b = _between(feeds.below, v, stop)
        above = feeds.above[a:b]
        found: list[int] = (np.flatnonzero((above < v) | (above >= stop)) + a).tolist()
        return found

    def _ends_below(self, feeds: Feeds, v: int) -> list[int]:
        """Pools strictly below one at which an edge begins or ends."""
        _, above = self._turned[feeds]
        stop = self._structure.end.item(v)
        if stop == v + 1:
            return []
        a, b = _between(feeds.below, v + 1, stop)
        c, d = _between(above, v + 1, stop)
        found: list[int] = np.union1d(feeds.below[a:b], above[c:d]).tolist()
        return found

    def _rows_inside(self, feeds: Feeds, v: int) -> list[int]:
        """Edges from a pool in this one (itself included) to another in it."""
        stop = self._structure.end.item(v)
        a, b = _between(feeds.below, v, stop)
        above = feeds.above[a:b]
        found: list[int] = (np.flatnonzero((above >= v) & (above < stop)) + a).tolist()
        return found

    def _dead_into(self, v: int, graphs: list[Feeds]) -> Iterable[tuple[int, int]]:
        """Graph and position of each edge into a pool, or into one in it, whose supplier gives nothing at present."""
        stop = self._structure.end.item(v)
        for at, feeds in enumerate(graphs):
            dead = self._paths.dead_edges(feeds)
            if dead is not None:
                a, b = _between(feeds.below, v, stop)
                yield from ((at, place) for place in (feeds.below[a:b][dead[a:b]] - v).tolist())

    def _outward(self, v: int, graphs: list[Feeds], kinds: NDArray[np.int64]) -> object:
        """The pools from which others outside are charged for what is in a pool; the pool itself if it supplies some of them."""
        structure = self._structure
        stop = structure.end.item(v)
        if not np.isin(structure.type[v:stop], kinds).any():
            return ()
        found: list[int] = []
        for feeds in graphs:
            order, above = self._turned[feeds]
            c, d = _between(above, v, stop)
            below = feeds.below[order[c:d]]
            found += [v] if ((below < v) | (below >= stop)).any() else []
            on, attached = feeds.attached
            found += on[(attached >= v) & (attached < stop) & ((on < v) | (on >= stop))].tolist()
        # A leaf is given by the pool that contains it.
        return (*found, structure.parent.item(v) if stop == v + 1 else -1)


def _between(pools: NDArray[np.int32], first: int, stop: int) -> tuple[int, int]:
    """The index range of these pools in an ascending column."""
    a, b = pools.searchsorted(np.array([first, stop], np.int32)).tolist()
    return a, b


def _by_supplier(feeds: Feeds) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The edges sorted by supplier, and the suppliers."""
    order = np.argsort(feeds.above, kind="stable")
    return order, feeds.above[order]
