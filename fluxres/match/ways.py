"""Paths through one auxiliary graph: supply paths up to the suppliers, and routes across it.

A supply path leads from the pool where a supply enters up through all suppliers that pass it on.  A route leads to a pool that a
request names, such as a storage server or a switch, along links that carry traffic in both directions.  In a tree there is
exactly one route: up to where the supply paths of both pools meet, and down again; nothing beyond is on it.  If there are
several, the shortest is taken, and among equally short ones the lowest vertex number at each step.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.feeds import Feeds
from fluxres.graph.outage import reach
from fluxres.graph.structure import Structure


class Way(NamedTuple):
    """What is on a supply path.

    Args:
        pools: suppliers, ascending.
        edges: accounts of the edges with a capacity, ascending.
    """

    pools: tuple[int, ...]
    edges: tuple[int, ...]


class Ways:
    """The supply paths of one graph.  Cost: each is walked once for all pools with the same suppliers.

    Args:
        dead: by edge, whether it comes from a supplier that gives nothing; such edges are ignored if there are others.
        only_ways: whether suppliers are pass-through pools without units; called where one of several suppliers is enough.
    """

    def __init__(self, feeds: Feeds, dead: NDArray[np.bool_] | None, only_ways: Callable[[Feeds], NDArray[np.bool_]]) -> None:
        self.feeds = feeds
        self._dead = dead
        self._only_ways = only_ways
        self._farther: dict[tuple[int, ...], Way] = {}

    def of(self, entry: int) -> Way:
        """The supply path of a pool that has suppliers."""
        feeds = self.feeds
        rows = self._live(entry)
        found = self.beyond(tuple(feeds.above.item(row) for row in rows))
        if not feeds.is_limited:
            return found
        own = {v for row in rows for v in feeds.limits(row)}
        return Way(found.pools, tuple(sorted(own.union(found.edges))))

    def entries(self, v: int) -> list[int]:
        """The pools through which a pool is supplied: of the cards of a node, those that receive anything, if there are any."""
        entries = self.feeds.entries(v)
        if self._dead is None or len(entries) < 2:
            return entries
        return [u for u in entries if not all(self._dead[row] for row in self.feeds.rows_into(u))] or entries

    def _live(self, place: int) -> Sequence[int]:
        """The edges into a pool through which anything comes; all of them if nothing does."""
        every = self.feeds.rows_into(place)
        rows = every if self._dead is None else [row for row in every if not self._dead[row]] or every
        alternative = self.feeds.alternative
        if alternative is None or len(rows) < 2:
            return rows
        # Of alternative suppliers, the first one with units of its own gives; the others stand by.
        several = [row for row in rows if alternative[row]]
        if len(several) > 1 and (spent := self._spent) is not None:
            several = [row for row in several if not spent[row]] or several
        return [row for row in rows if row in several[:1] or not alternative[row]]

    def standing_by(self, u: int) -> list[int]:
        """Suppliers in service from which the pools supplied by this one would draw if it gave nothing.

        Cost: the edges from and to these pools.
        """
        feeds, alternative = self.feeds, self.feeds.alternative
        if alternative is None:
            return []
        found: set[int] = set()
        for place in feeds.below[(feeds.above == u) & alternative].tolist():
            live = self._live(place)
            others = [row for row in feeds.rows_into(place) if alternative[row] and row not in live]
            found.update(feeds.above.item(row) for row in others if self._dead is None or not self._dead[row])
        return sorted(found - {u})

    @cached_property
    def _spent(self) -> NDArray[np.bool_] | None:
        """By edge, whether its supplier, or all suppliers farther up, are pass-through pools; None if none are."""
        nothing = self._only_ways(self.feeds)
        if not nothing.any():
            return None
        return reach(self.feeds, nothing if self._dead is None else nothing | self._dead)[0]

    def beyond(self, suppliers: tuple[int, ...]) -> Way:
        """The supply path from these suppliers on, including them."""
        found = self._farther.get(suppliers)
        if found is None:
            found = self._farther[suppliers] = self._walk(suppliers)
        return found

    def _walk(self, suppliers: tuple[int, ...]) -> Way:
        feeds = self.feeds
        met: set[int] = set()
        edges: set[int] = set()
        todo = list(suppliers)
        while todo:
            u = todo.pop()
            if u in met:
                continue
            met.add(u)
            place, beside = feeds.onward(u)
            rows = self._live(place)
            todo += [feeds.above.item(row) for row in rows]
            todo += [beside] * (beside >= 0)
            if feeds.is_limited:
                edges.update(v for row in rows for v in feeds.limits(row))
        return Way(tuple(sorted(met)), tuple(sorted(edges)))


class Links:
    """Links between pools in service.  Cost: vectorised over the edges, and one step per supplier, once.

    Args:
        stated: topmost pools whose state forbids new work; no traffic passes through them.
    """

    def __init__(self, structure: Structure, feeds: Feeds, stated: Int32) -> None:
        self.structure = structure
        self.feeds = feeds
        graph = feeds.graph
        hops = np.array(list(self._unwired()), np.int32).reshape(-1, 2)
        ends = np.concatenate([np.stack([graph.src, graph.dst], 1).astype(np.int32), hops])
        ends = ends[~(_are_in(structure, stated, ends[:, 0]) | _are_in(structure, stated, ends[:, 1]))]
        ends = np.concatenate([ends, ends[:, ::-1]])
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        #: Both ends of each link, once in each direction, ascending.
        self._one, self._other = (np.ascontiguousarray(column).data for column in ends.T)
        #: By pool, whether it forwards traffic of others: nodes and the pools in them do not.
        self.passes = ~_are_in(structure, structure.of_type("node"), np.arange(structure.n, dtype=np.int32))

    def _unwired(self) -> Iterable[tuple[int, int]]:
        """Steps without an edge: from a supplier to the pool that contains it."""
        for u in self.feeds.distributors.tolist():
            place, beside = self.feeds.onward(u)
            if place != u and self.feeds.rows_into(place):
                yield u, place
            if beside >= 0:
                yield u, beside

    def is_member(self, v: int) -> bool:
        """Whether a link in service begins at a pool."""
        at = bisect_left(self._one, v)
        return at < len(self._one) and self._one[at] == v

    def beside(self, v: int) -> list[int]:
        """The pools one hop away, ascending."""
        first = bisect_left(self._one, v)
        found: list[int] = self._other[first : bisect_right(self._one, v, first)].tolist()
        return found

    def ends(self, v: int) -> list[int]:
        """Where the links of a pool begin: at the pool, at the cards in it, or at its nearest ancestor with links."""
        return [v] if self.is_member(v) else [u for u in self.feeds.entries(v) if self.is_member(u)]


def _are_in(structure: Structure, tops: Int32, vertices: Int32) -> NDArray[np.bool_]:
    """Whether each pool is one of these or below one."""
    if not len(tops):
        return np.zeros(len(vertices), np.bool_)
    at = tops.searchsorted(vertices, "right") - 1
    reach = np.maximum.accumulate(structure.end[tops])  # nodes may be nested
    found: NDArray[np.bool_] = (at >= 0) & (vertices < reach[at])
    return found


class Routes:
    """Routes to one pool, by hops.  Cost, in time and memory: one step for each link close enough.

    Args:
        to: a pool at which links begin.
        begin: the only pools from which routes are needed; all by default. Nothing farther away is looked at.
    """

    def __init__(self, links: Links, to: int, begin: Iterable[int] | None = None) -> None:
        #: By pool, the number of hops to the named one.
        self._far = {to: 0}
        #: By pool, the next one on the route.
        self._following: dict[int, int] = {}
        left = None if begin is None else set(begin) - {to}
        reached, hops = [to], 0
        while reached and (left is None or left):
            nearer, reached, hops = reached, [], hops + 1
            for u in nearer:
                for v in links.beside(u) if u == to or links.passes[u] else ():
                    if v not in self._far:
                        self._far[v], self._following[v] = hops, u
                        reached.append(v)
            reached.sort()
            if left is not None:
                left.difference_update(reached)
        ends = np.array(list(self._following.items()), np.int32).reshape(-1, 2).T
        between = links.structure.accounts.between
        limits = [between(links.feeds.graph, *of).tolist() for of in (ends, ends[::-1])]
        #: By pool, the accounts of the link to the next one, if it has any.
        self._limits = {
            v: tuple(account for account in of if account >= 0)
            for v, *of in zip(ends[0].tolist(), *limits, strict=True)
            if max(of) >= 0
        }

    def __len__(self) -> int:
        return len(self._far)

    def hops(self, v: int) -> int:
        """The length of the route from a pool; -1 if there is none."""
        return self._far.get(v, -1)

    def of(self, v: int) -> Way | None:
        """The pools and edges on the route from a pool at which links begin, without that pool; None if there is no route."""
        if v not in self._far:
            return None
        met = [v]
        while self._far[met[-1]]:
            met.append(self._following[met[-1]])
        edges = {account for u, _ in pairwise(met) for account in self._limits.get(u, ())}
        return Way(tuple(sorted(met[1:])), tuple(sorted(edges)))
