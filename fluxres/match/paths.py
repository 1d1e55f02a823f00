"""The supply path from a pool up a distribution graph, and what a demand is charged on along it (RFC 4, channeled pools).

Power reaches a node through an outlet, a PDU and a feed; a job that draws 500 W draws them from each of these, and through each
cable between them.  So a distributed resource cannot be picked from any pool that has some.  Instead, the supply paths lead up
from the pools that a job gets, along the edges of an auxiliary graph, and every pool of the type on them, and every edge with a
capacity, must have the units.

Each graph has its own paths: a node without an edge in the power graph may still be in a rack that has one.

Traffic of a job within one leaf switch does not cross the core.  So units between nodes are charged from each node to the pool
where they meet (`Meetings`): the lowest supplier above all of them.  There are few such pools; the nearest come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.graph.auxiliary import Int32
from fluxres.graph.feeds import Feeds
from fluxres.graph.kinds import WAY
from fluxres.graph.outage import NOTHING_DEAD, Dead
from fluxres.graph.structure import Structure
from fluxres.match.ways import Links, Routes, Way, Ways

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
        self._giving: dict[tuple[Ways, int, tuple[int, ...]], tuple[Givers, ...]] = {}
        self._ways = [Ways(feeds, dead.get(feeds.kind), self._only_ways) for feeds in structure.feeds]
        self._links: dict[int, Links] = {}
        self._last = len(structure.types) + len(structure.subsystems)
        #: By number of graph and named pool, the channel under which its routes are requested.
        self._channels: dict[tuple[int, int], int] = {}
        #: By channel: the supply paths of the graph, its links, and the routes to each end of the pool.
        self._routes: dict[int, tuple[Ways, Links, list[Routes]]] = {}
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
            ways, links = self.ways(kind), self.links(kind)
            found = self._channels[kind, to] = self._new_channel()
            self._routes[found] = ways, links, [Routes(links, end) for end in links.ends(to)]
        return found

    def meeting(self, kind: int, routes: Routes, nodes: frozenset[int]) -> int:
        """As :meth:`channel`, for nodes that meet at one pool and request units to it."""
        found = self._new_channel()
        self._routes[found] = self.ways(kind), self.links(kind), [routes]
        self._nodes[found] = nodes
        return found

    def alone(self, kind: int) -> int:
        """As :meth:`channel`, for a single node, which charges nothing."""
        if kind not in self._alone:
            self._alone[kind] = found = self._new_channel()
            self._routes[found] = self.ways(kind), self.links(kind), []
        return self._alone[kind]

    def ways(self, kind: int) -> Ways:
        """The supply paths of a graph, by the type number of its edges."""
        return next(ways for ways in self._ways if ways.feeds.kind == kind)

    def links(self, kind: int) -> Links:
        """The links of a graph, by the type number of its edges."""
        links = self._links.get(kind)
        if links is None:
            links = self._links[kind] = Links(self._structure, self.ways(kind).feeds, self._stated)
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
        for ways in self._ways:
            for givers, part in self._by(ways, v, (kind,)).items():
                parts[givers] = max(part, parts[givers]) if givers in parts else part
        return parts or None

    def _of_graph(self, v: int, kind: int) -> dict[Givers, Fraction] | None:
        ways = next(ways for ways in self._ways if ways.feeds.kind == kind)
        return self._by(ways, v, (*sorted(ways.feeds.counted), kind)) if ways.feeds.entries(v) else None

    def _on_route(self, v: int, channel: int) -> dict[Givers, Fraction] | None:
        """An equal part for every card of the pool, and of the named pool, between which there is a route."""
        ways, links, routes = self._routes[channel]
        if not routes and channel in self._alone.values():
            return {} if self._node_around(v) >= 0 else None
        feeds = ways.feeds
        every = (route.of(entry) for entry in links.ends(v) for route in routes)
        found = [way for way in every if way is not None]
        parts: dict[Givers, Fraction] = {}
        for way in found:
            givers: dict[Givers, None] = dict.fromkeys((edge,) for edge in way.edges)
            for kind in (*sorted(feeds.counted), feeds.kind):
                givers |= dict.fromkeys(self._givers(ways, way, kind))
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

    def concerned(self, channel: int) -> tuple[list[Feeds], NDArray[np.int64]]:
        """The graphs along which something is charged for this channel, and the types of pools that give it."""
        if channel < len(self._structure.types):
            return self.feeds, np.array([channel])
        feeds = self._routes[channel][0].feeds if channel in self._routes else self.ways(channel).feeds
        return [feeds], np.array(sorted(feeds.counted), np.int64)

    def dead_edges(self, feeds: Feeds) -> NDArray[np.bool_] | None:
        """By edge, whether its supplier gives nothing at present; None if all give."""
        return self._dead.get(feeds.kind)

    def nodes_served(self, channel: int, first: int, stop: int) -> tuple[int, ...]:
        """The only nodes of a slice in which anything is charged, as offsets from `first`, if they are restricted."""
        nodes = self._nodes.get(channel)
        return () if nodes is None else tuple(sorted(v - first for v in nodes if first <= v < stop))

    def standing_by(self, v: int) -> list[int]:
        """Suppliers in service that give nothing because another one, which gives units of this pool, is enough."""
        found: set[int] = set()
        for ways in self._ways if v < self._structure.n else ():
            on, attached = ways.feeds.attached
            for u in {v, self._structure.parent.item(v), *on[attached == v].tolist()}:
                found.update(ways.standing_by(u))
        return sorted(found)

    def along(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
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
            at = nodes.searchsorted(feeds.below, "right") - 1
            ends = np.maximum.accumulate(structure.end[nodes])  # nodes may be nested
            inside = (at >= 0) & (feeds.below < ends[at]) if nodes.size else np.zeros(len(at), np.bool_)
            taken[feeds.below[inside]] = True
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
    def drawn(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
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

    def _by(self, ways: Ways, v: int, kinds: tuple[int, ...]) -> dict[Givers, Fraction]:
        """What supplies a pool in one graph: pools of these types, and edges for counted types or for the graph itself."""
        feeds, entries = ways.feeds, ways.entries(v)
        parts: dict[Givers, Fraction] = {}
        for entry in entries:
            way = ways.of(entry)
            every = {kind: self._givers(ways, way, kind) for kind in kinds}
            givers = dict.fromkeys(each for of_kind in every.values() for each in of_kind)
            if any(kind == feeds.kind or (kind in feeds.counted and every[kind]) for kind in kinds):
                givers |= dict.fromkeys((edge,) for edge in way.edges)
            for each in givers:
                parts[each] = parts.get(each, Fraction(0)) + Fraction(1, len(entries))
        return parts

    def _givers(self, ways: Ways, way: Way, kind: int) -> tuple[Givers, ...]:
        """The pools on a path that give; the same for all pools with the same suppliers."""
        key = ways, kind, way.pools
        found = self._giving.get(key)
        if found is None:
            every = (self._given_by(ways.feeds, u, kind) for u in way.pools)
            found = self._giving[key] = tuple(dict.fromkeys(givers for givers in every if givers))
        return found

    def _given_by(self, feeds: Feeds, u: int, kind: int) -> Givers:
        """Pools of a type through which a supplier gives: itself if such pools are suppliers, else those attached to it."""
        if kind in self._supplying[feeds]:
            return (u,) if self._structure.type.item(u) == kind else ()
        return self._hung(u, kind)

    def _only_ways(self, feeds: Feeds) -> NDArray[np.bool_]:
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


def _with_ancestors(structure: Structure, pools: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """These pools and all their ancestors."""
    before = np.concatenate([[0], np.cumsum(pools)])
    found: NDArray[np.bool_] = before[structure.end] > before[: structure.n]
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
    nodes: NDArray[np.int64]
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
        ways, links = paths.ways(self._kind), paths.links(self._kind)
        nodes = structure.of_type("node").tolist()
        ends = [links.ends(node) for node in nodes]
        below: dict[int, list[int]] = {}
        for at, node in enumerate(nodes):
            met = [ways.of(entry).pools for entry in ways.entries(node)]
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
