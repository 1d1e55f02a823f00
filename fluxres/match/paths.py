"""Paths through the auxiliary graphs, and what a demand is charged on along them (RFC 4, channeled pools).

Power reaches a node through an outlet, a PDU and a feed; a job that draws 500 W draws them from each of these, and through each
cable between them.  So a distributed resource cannot be picked from any pool that has some.  Instead, the supply paths lead up
from the pools that a job gets, along the edges of an auxiliary graph, and every pool of the type on them, and every edge with a
capacity, must have the units.

A supply path leads from the pool where a supply enters up through all suppliers that pass it on (`SupplyPaths`).  A route leads
to a pool that a request names, such as a storage server or a switch, along links that carry traffic in both directions
(`Routes`).  In a tree there is exactly one route: up to where the supply paths of both pools meet, and down again; nothing beyond
is on it.  If there are several, the shortest is taken, and among equally short ones the lowest vertex number at each step.

Each graph has its own paths: a node without an edge in the power graph may still be in a rack that has one.

Traffic of a job within one leaf switch does not cross the core.  So units between nodes are charged from each node to the pool
where they meet (`Meetings`): the lowest supplier above all of them.  There are few such pools; the nearest come first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np

from fluxres import limits
from fluxres.arrays import Int32, Int64, Mask
from fluxres.graph.feeds import Feeds
from fluxres.graph.forest import are_in
from fluxres.graph.kinds import WAY
from fluxres.graph.outage import NOTHING_DEAD, Dead, reach
from fluxres.graph.structure import Structure


class PathAccounts(NamedTuple):
    """What is on a supply path.

    Args:
        pools: suppliers, ascending.
        edges: accounts of the edges with a capacity, ascending.
    """

    pools: tuple[int, ...]
    edges: tuple[int, ...]


class SupplyPaths:
    """The supply paths of one graph.  Cost: each is walked once for all pools with the same suppliers.

    Args:
        dead: by edge, whether it comes from a supplier that gives nothing; such edges are ignored if there are others.
        passes_only: whether suppliers are pass-through pools without units; called where one of several suppliers is enough.
    """

    def __init__(self, feeds: Feeds, dead: Mask | None, passes_only: Callable[[Feeds], Mask]) -> None:
        self.feeds = feeds
        self._dead = dead
        self._passes_only = passes_only
        self._farther: dict[tuple[int, ...], PathAccounts] = {}

    def of(self, entry: int) -> PathAccounts:
        """The supply path of a pool that has suppliers."""
        feeds = self.feeds
        rows = self._live(entry)
        found = self.beyond(tuple(feeds.above.item(row) for row in rows))
        if not feeds.is_limited:
            return found
        own = {v for row in rows for v in feeds.limits(row)}
        return PathAccounts(found.pools, tuple(sorted(own.union(found.edges))))

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
    def _spent(self) -> Mask | None:
        """By edge, whether its supplier, or all suppliers farther up, are pass-through pools; None if none are."""
        nothing = self._passes_only(self.feeds)
        if not nothing.any():
            return None
        return reach(self.feeds, nothing if self._dead is None else nothing | self._dead)[0]

    def beyond(self, suppliers: tuple[int, ...]) -> PathAccounts:
        """The supply path from these suppliers on, including them."""
        found = self._farther.get(suppliers)
        if found is None:
            found = self._farther[suppliers] = self._walk(suppliers)
        return found

    def _walk(self, suppliers: tuple[int, ...]) -> PathAccounts:
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
        return PathAccounts(tuple(sorted(met)), tuple(sorted(edges)))


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
        ends = ends[~(are_in(structure.end, stated, ends[:, 0]) | are_in(structure.end, stated, ends[:, 1]))]
        ends = np.concatenate([ends, ends[:, ::-1]])
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        #: Both ends of each link, once in each direction, ascending.
        self._one, self._other = (np.ascontiguousarray(column).data for column in ends.T)
        #: By pool, whether it forwards traffic of others: nodes and the pools in them do not.
        self.passes = ~are_in(structure.end, structure.of_type("node"), np.arange(structure.n, dtype=np.int32))

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
        accounts = [between(links.feeds.graph, *of).tolist() for of in (ends, ends[::-1])]
        #: By pool, the accounts of the link to the next one, if it has any.
        self._limits = {
            v: tuple(account for account in of if account >= 0)
            for v, *of in zip(ends[0].tolist(), *accounts, strict=True)
            if max(of) >= 0
        }

    def __len__(self) -> int:
        return len(self._far)

    def hops(self, v: int) -> int:
        """The length of the route from a pool; -1 if there is none."""
        return self._far.get(v, -1)

    def of(self, v: int) -> PathAccounts | None:
        """The pools and edges on the route from a pool at which links begin, without that pool; None if there is no route."""
        if v not in self._far:
            return None
        met = [v]
        while self._far[met[-1]]:
            met.append(self._following[met[-1]])
        edges = {account for u, _ in pairwise(met) for account in self._limits.get(u, ())}
        return PathAccounts(tuple(sorted(met[1:])), tuple(sorted(edges)))


Givers = tuple[int, ...]
"""Ascending accounts that together give what one supplier has, one after the other.  An edge gives alone."""
Charges = tuple[tuple[Givers, Fraction], ...]
"""Suppliers, and the part of the requested amount that each must give."""

ALL = Fraction(1)
_NONE = np.zeros(0, np.int32)


class Paths:
    """Supply paths in the auxiliary graphs of one structure.  Cost: the path of each pool is found once.

    Args:
        dead: edges from suppliers that give nothing.
        stated: topmost pools whose state forbids new work: no route passes through them.
    """

    def __init__(self, structure: Structure, dead: Dead = NOTHING_DEAD, stated: Int32 = _NONE) -> None:
        self.structure = self._structure = structure
        self._dead = dead
        self._stated = stated
        self._charged: dict[tuple[int, int], Charges | None] = {}
        #: By type and pool, the pools of the type attached to it.
        self._hung_on: dict[int, dict[int, Givers]] = {}
        self._giving: dict[tuple[SupplyPaths, int, tuple[int, ...]], tuple[Givers, ...]] = {}
        self._supply_paths = [SupplyPaths(feeds, dead.get(feeds.kind), self._passes_only) for feeds in structure.feeds]
        self._links: dict[int, Links] = {}
        self._last = len(structure.types) + len(structure.subsystems)
        #: By number of graph and named pool, the channel under which its routes are requested.
        self._channels: dict[tuple[int, int], int] = {}
        #: By channel: the supply paths of the graph, its links, and the routes to each end of the pool.
        self._routes: dict[int, tuple[SupplyPaths, Links, list[Routes]]] = {}
        #: By channel, the only nodes in which anything is charged, if they are restricted.
        self._nodes: dict[int, frozenset[int]] = {}
        self._alone: dict[int, int] = {}

    @property
    def feeds(self) -> list[Feeds]:
        """The graphs in which some pool supplies another."""
        return self._structure.feeds

    @cached_property
    def channels(self) -> frozenset[int]:
        """Types that are distributed, and the numbers of graphs whose units a request may name."""
        return frozenset(feeds.kind for feeds in self.feeds).union(*(feeds.types for feeds in self.feeds))

    def channel(self, kind: int, to: int) -> int:
        """The number under which `charged` knows units of a graph (by the type number of its edges) towards one pool.

        Cost: vector operations over the graph, for each named pool.
        """
        found = self._channels.get((kind, to))
        if found is None:
            supply, links = self.supply(kind), self.links(kind)
            found = self._channels[kind, to] = self._new_channel()
            self._routes[found] = supply, links, [Routes(links, end) for end in links.ends(to)]
        return found

    def meeting(self, kind: int, routes: Routes, nodes: frozenset[int]) -> int:
        """As :meth:`channel`, for nodes that meet at one pool and request units to it."""
        found = self._new_channel()
        self._routes[found] = self.supply(kind), self.links(kind), [routes]
        self._nodes[found] = nodes
        return found

    def alone(self, kind: int) -> int:
        """As :meth:`channel`, for a single node, which charges nothing."""
        if kind not in self._alone:
            self._alone[kind] = found = self._new_channel()
            self._routes[found] = self.supply(kind), self.links(kind), []
        return self._alone[kind]

    def supply(self, kind: int) -> SupplyPaths:
        """The supply paths of a graph, by the type number of its edges."""
        return next(supply for supply in self._supply_paths if supply.feeds.kind == kind)

    def links(self, kind: int) -> Links:
        """The links of a graph, by the type number of its edges."""
        links = self._links.get(kind)
        if links is None:
            links = self._links[kind] = Links(self._structure, self.supply(kind).feeds, self._stated)
        return links

    def _new_channel(self) -> int:
        self._last += 1
        return self._last

    @property
    def is_crowded(self) -> bool:
        """Whether routes to more pools were requested than are worth keeping."""
        of_pools = (self._routes[channel][2] for channel in self._channels.values())
        return sum(len(routes) for every in of_pools for routes in every) > limits.ROUTE_HOPS_MAX

    @property
    def is_routed(self) -> bool:
        """Whether any routes were requested."""
        return bool(self._routes)

    def charged(self, v: int, kind: int) -> Charges | None:
        """What is charged for units of a type requested at a pool; None if nothing supplies it.

        Along the supply path, either the pools of the type give, or the pools attached to a supplier do so together.  If a supply
        enters the pool in several places, each carries its part.  If the request names a graph, every pool in the graph that has
        something gives.
        """
        nodes = self._nodes.get(kind)
        if nodes is not None and self._node_around(v) not in nodes:
            return None
        key = v, kind
        if key not in self._charged:
            if kind in self._routes:
                found = self._on_route(v, kind)
            else:
                found = self._of_type(v, kind) if kind < len(self._structure.types) else self._of_graph(v, kind)
            self._charged[key] = None if found is None else tuple(sorted(found.items()))
        return self._charged[key]

    def _of_type(self, v: int, kind: int) -> dict[Givers, Fraction] | None:
        parts: dict[Givers, Fraction] = dict.fromkeys(self._own(v, kind), ALL)
        for supply in self._supply_paths:
            for givers, part in self._by(supply, v, (kind,)).items():
                parts[givers] = max(part, parts[givers]) if givers in parts else part
        return parts or None

    def _of_graph(self, v: int, kind: int) -> dict[Givers, Fraction] | None:
        supply = self.supply(kind)
        return self._by(supply, v, (*sorted(supply.feeds.counted), kind)) if supply.feeds.entries(v) else None

    def _on_route(self, v: int, channel: int) -> dict[Givers, Fraction] | None:
        """An equal part for every card of the pool, and of the named pool, between which there is a route."""
        supply, links, routes = self._routes[channel]
        if not routes and channel in self._alone.values():
            return {} if self._node_around(v) >= 0 else None
        feeds = supply.feeds
        every = (route.of(entry) for entry in links.ends(v) for route in routes)
        found = [path for path in every if path is not None]
        parts: dict[Givers, Fraction] = {}
        for path in found:
            givers: dict[Givers, None] = dict.fromkeys((edge,) for edge in path.edges)
            for kind in (*sorted(feeds.counted), feeds.kind):
                givers |= dict.fromkeys(self._givers(supply, path, kind))
            for each in givers:
                parts[each] = parts.get(each, Fraction(0)) + Fraction(1, len(found))
        return parts if found else None

    def _node_around(self, v: int) -> int:
        """The innermost node that a pool is or is in; -1 for none."""
        structure = self._structure
        while v >= 0 and structure.type.item(v) != self._node:
            v = structure.parent.item(v)
        return v

    @cached_property
    def _node(self) -> int:
        return self._structure.types.index("node") if "node" in self._structure.types else -1

    def upstream(self, v: int, kind: int) -> Charges:
        """What else is charged when units of a pool of the type itself are taken: everything above what it is attached to."""
        return tuple((givers, part) for givers, part in self.charged(v, kind) or () if v not in givers)

    # -- facts about channels ------------------------------------------------------------------------------------------

    def is_route(self, channel: int) -> bool:
        """Whether units of this channel are requested along routes, which may lead through other nodes."""
        return channel in self._routes

    def concerned(self, channel: int) -> tuple[list[Feeds], Int64]:
        """The graphs along which something is charged for this channel, and the types of pools that give it."""
        if channel < len(self._structure.types):
            return self.feeds, np.array([channel])
        feeds = self._routes[channel][0].feeds if channel in self._routes else self.supply(channel).feeds
        return [feeds], np.array(sorted(feeds.counted), np.int64)

    def dead_edges(self, feeds: Feeds) -> Mask | None:
        """By edge, whether its supplier gives nothing at present; None if all give."""
        return self._dead.get(feeds.kind)

    def nodes_served(self, channel: int, first: int, stop: int) -> tuple[int, ...]:
        """The only nodes of a slice in which anything is charged, as offsets from `first`, if they are restricted."""
        nodes = self._nodes.get(channel)
        return () if nodes is None else tuple(sorted(v - first for v in nodes if first <= v < stop))

    def standing_by(self, v: int) -> list[int]:
        """Suppliers in service that give nothing because another one, which gives units of this pool, is enough."""
        found: set[int] = set()
        for supply in self._supply_paths if v < self._structure.n else ():
            on, attached = supply.feeds.attached
            for u in {v, self._structure.parent.item(v), *on[attached == v].tolist()}:
                found.update(supply.standing_by(u))
        return sorted(found)

    def along(self, kept: Mask) -> Mask:
        """What else a part of the machine needs so that charges for its pools follow the same paths as in the complete machine.

        That is every supplier on a path, the pools attached to it, and the pools through which a supply enters a node.

        Args:
            kept: bool over all pools.

        Cost: arrays as long as the machine, once per step of the longest path.
        """
        structure = self._structure
        taken = kept.copy()
        if not self.feeds:
            return taken & ~kept
        nodes = structure.of_type("node")
        nodes = nodes[_with_ancestors(structure, kept)[nodes]]
        leaves = structure.end == np.arange(1, structure.n + 1)
        leaves &= np.isin(structure.type, list(self.channels)) & (structure.parent >= 0)
        for feeds in self.feeds:
            leaves[feeds.distributors] = False  # a distributor is included only if it supplies something kept
            taken[feeds.below[are_in(structure.end, nodes, feeds.below)]] = True
        number = -1
        while number != (number := int(taken.sum())):
            taken = _with_ancestors(structure, taken)
            for feeds in self.feeds:
                taken[feeds.above[taken[feeds.below]]] = True
                on, attached = feeds.attached
                taken[attached[taken[on]]] = True
            taken |= leaves & taken[structure.parent]
        return taken & ~kept

    @cached_property
    def drawn(self) -> tuple[Int32, Int32]:
        """(pool, supplier): units of the pool are also units of the supplier, which is of the same type and farther up.

        Only for types with amounts: a switch supplied by another switch is one more switch, but 800 W of a PDU are not additional
        watts.

        Cost: the path of each pool of a distributed type, found once.
        """
        structure = self._structure
        pairs: list[tuple[int, int]] = []
        for kind in self.channels:
            if kind < len(structure.types) and structure.sums.in_amounts(structure.types[kind]):
                pools = structure.of_type(structure.types[kind]).tolist()
                pairs += [(v, u) for v in pools for givers, _ in self.upstream(v, kind) for u in givers if u < structure.n]
        below, above = np.array(pairs, np.int32).reshape(-1, 2).T
        # In a cycle each supplies the others: the first one represents them all.
        codes, back = (a.astype(np.int64) * structure.n + b for a, b in ((below, above), (above, below)))
        kept = ~np.isin(codes, back) | (above < below)
        return below[kept], above[kept]

    @cached_property
    def is_forest(self) -> bool:
        """Whether no pool has two suppliers, so that taking the first path that fits leaves the most to others."""
        every = np.concatenate([feeds.below for feeds in self.feeds]) if self.feeds else np.zeros(0, np.int32)
        return len(np.unique(every)) == len(every)

    def _by(self, supply: SupplyPaths, v: int, kinds: tuple[int, ...]) -> dict[Givers, Fraction]:
        """What supplies a pool in one graph: pools of these types, and edges for counted types or for the graph itself."""
        feeds, entries = supply.feeds, supply.entries(v)
        parts: dict[Givers, Fraction] = {}
        for entry in entries:
            path = supply.of(entry)
            every = {kind: self._givers(supply, path, kind) for kind in kinds}
            givers = dict.fromkeys(each for of_kind in every.values() for each in of_kind)
            if any(kind == feeds.kind or (kind in feeds.counted and every[kind]) for kind in kinds):
                givers |= dict.fromkeys((edge,) for edge in path.edges)
            for each in givers:
                parts[each] = parts.get(each, Fraction(0)) + Fraction(1, len(entries))
        return parts

    def _givers(self, supply: SupplyPaths, path: PathAccounts, kind: int) -> tuple[Givers, ...]:
        """The pools on a path that give; the same for all pools with the same suppliers."""
        key = supply, kind, path.pools
        found = self._giving.get(key)
        if found is None:
            every = (self._given_by(supply.feeds, u, kind) for u in path.pools)
            found = self._giving[key] = tuple(dict.fromkeys(givers for givers in every if givers))
        return found

    def _given_by(self, feeds: Feeds, u: int, kind: int) -> Givers:
        """Pools of a type through which a supplier gives: itself if such pools are suppliers, else those attached to it."""
        if kind in self._supplying[feeds]:
            return (u,) if self._structure.type.item(u) == kind else ()
        return self._hung(u, kind)

    def _passes_only(self, feeds: Feeds) -> Mask:
        """By edge, whether everything its supplier gives by is a pass-through pool.  Cost: one step per supplier."""
        is_way = (self._structure.flags & WAY) != 0
        if not is_way.any():
            return np.zeros(len(feeds.above), np.bool_)
        suppliers, at = np.unique(feeds.above, return_inverse=True)
        givers = [[v for kind in feeds.counted for v in self._given_by(feeds, u, kind)] for u in suppliers.tolist()]
        return np.array([bool(every) and bool(is_way[every].all()) for every in givers], np.bool_)[at]

    @cached_property
    def _supplying(self) -> dict[Feeds, frozenset[int]]:
        return {feeds: frozenset(np.unique(self._structure.type[feeds.distributors]).tolist()) for feeds in self.feeds}

    def _hung(self, u: int, kind: int) -> Givers:
        """Pools of a type attached to a pool: childless children, and those that an edge attaches."""
        by_pool = self._hung_on.get(kind)
        if by_pool is None:
            by_pool = self._hung_on[kind] = self._find_hung(kind)
        return by_pool.get(u, ())

    def _find_hung(self, kind: int) -> dict[int, Givers]:
        structure = self._structure
        pools = np.flatnonzero((structure.type == kind) & (structure.end == np.arange(1, structure.n + 1)))
        pairs = set(zip(structure.parent[pools].tolist(), pools.tolist(), strict=True))
        for feeds in self.feeds:
            on, attached = feeds.attached
            of_kind = structure.type[attached] == kind
            pairs.update(zip(on[of_kind].tolist(), attached[of_kind].tolist(), strict=True))
        found: dict[int, list[int]] = {}
        for u, v in sorted(pairs):
            found.setdefault(u, []).append(v)
        return {u: tuple(of_pool) for u, of_pool in found.items()}

    def _own(self, v: int, kind: int) -> Iterator[Givers]:
        """Pools of the type among the pool and its ancestors, unless pools of that type supply others."""
        if any(kind in types for types in self._supplying.values()):
            return
        while v >= 0:
            if hung := self._hung(v, kind):
                yield hung
            v = self._structure.parent.item(v)


def _with_ancestors(structure: Structure, pools: Mask) -> Mask:
    """These pools and all their ancestors."""
    before = np.concatenate([[0], np.cumsum(pools)])
    found: Mask = before[structure.end] > before[: structure.n]
    return found


class Meeting(NamedTuple):
    """One place to meet.

    Args:
        v: the supplier.
        height: the maximum number of hops from a node to it.
        nodes: indexes of the nodes below it, ascending.
        channel: the number under which a node is charged for units to it.
    """

    v: int
    height: int
    nodes: Int64
    channel: int


class Meetings:
    """The places to meet in one graph.  Cost: the supply path of each node, and the routes to each supplier, once."""

    def __init__(self, structure: Structure, paths: Paths, kind: int) -> None:
        self._structure = structure
        self._paths = paths
        self._kind = kind

    @cached_property
    def levels(self) -> list[list[Meeting]]:
        """Places to meet by height, each level ascending."""
        found = sorted(self._all(), key=lambda meeting: (meeting.height, meeting.v))
        return [list(level) for _, level in groupby(found, key=lambda meeting: meeting.height)]

    @property
    def widest(self) -> Meeting | None:
        """The place where most nodes meet; None if there is none."""
        every = [meeting for level in self.levels for meeting in level]
        return max(every, key=lambda meeting: len(meeting.nodes), default=None)

    def _all(self) -> list[Meeting]:
        structure, paths = self._structure, self._paths
        supply, links = paths.supply(self._kind), paths.links(self._kind)
        nodes = structure.of_type("node").tolist()
        ends = [links.ends(node) for node in nodes]
        below: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            met = [supply.of(entry).pools for entry in supply.entries(node)]
            for v in set(met[0]).intersection(*met[1:]) if met else ():
                below.setdefault(v, []).append(at)
        found = []
        for v, inside in sorted(below.items()):
            routes = Routes(links, v, [end for at in inside for end in ends[at]])
            hops = [max(map(routes.hops, ends[at]), default=-1) for at in inside]
            reached = [at for at, far in zip(inside, hops, strict=True) if far >= 0]
            if reached:
                channel = paths.meeting(self._kind, routes, frozenset(nodes[at] for at in reached))
                found.append(Meeting(v, max(hops), np.array(reached, np.int64), channel))
        return found
