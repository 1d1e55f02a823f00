"""How the types of a machine relate: which occur below which, which nest, which are in nodes, which of their pools are alike.

A machine has a million pools and a dozen types.  Whether two parts of a request can interfere, whether to search for a type
inside nodes, and whether a pool can be allocated in units depends on types only, and is determined once per generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from fluxres.arrays import Int32, Int64
from fluxres.graph.accounts import Accounts
from fluxres.graph.draws import Draws
from fluxres.graph.feeds import Feeds
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.outage import NOTHING_DEAD, Dead
from fluxres.graph.structure import Structure
from fluxres.match.node_supply import NodeSupply
from fluxres.match.paths import Givers, Meetings, Paths
from fluxres.planner.columns import distinct

if TYPE_CHECKING:
    from fluxres.match.demand import Demand


class Interchange:
    """Which pools the auxiliary graphs do not distinguish: pools with equal descriptions have equal charges.

    A pool is described by what is charged for it and for each pool in it, and by the pools outside that it supplies.  Suppliers
    inside the pool are described by their position in it, so racks with PDUs of their own are equal; all others are described by
    their numbers.

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

    def _outward(self, v: int, graphs: list[Feeds], kinds: Int64) -> object:
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


def _between(pools: Int32, first: int, stop: int) -> tuple[int, int]:
    """The index range of these pools in an ascending column."""
    a, b = pools.searchsorted(np.array([first, stop], np.int32)).tolist()
    return a, b


def _by_supplier(feeds: Feeds) -> tuple[Int64, Int32]:
    """The edges sorted by supplier, and the suppliers."""
    order = np.argsort(feeds.above, kind="stable")
    return order, feeds.above[order]


NODE: Final = "node"
SUPPLIED_KEPT: Final = 1 << 23
"""Bound on nodes whose suppliers are cached, over all sets of types and routes: some ten bytes each."""
NONE_STATED: Final = np.zeros(0, np.int32)


class Charge(NamedTuple):
    """Units that a pool draws, and how many of them come from each supplier; None if nothing supplies it."""

    pool: int
    units: int
    parts: list[tuple[Givers, int]] | None


class TypeFacts(NamedTuple):
    """What is alike in the pools of a type, or in what units of a graph are drawn from.

    Args:
        least, most: the smallest and the largest size.
        units: in which they are counted.
        is_flagged: whether some of them can only be allocated exclusively, or not at all.
    """

    least: int
    most: int
    units: frozenset[str | None]
    is_flagged: bool


T = TypeVar("T")


def _read_only(value: T) -> T:
    """An object that shares everything with another one, but whose arrays can only be read."""
    made = copy(value)
    for name, found in vars(value).items():
        if isinstance(found, np.ndarray):
            found = found.view()
            found.flags.writeable = False
        vars(made)[name] = found
    return made


class Typology:
    """Facts about the types of a structure, by type number. Cost: each O(n) on first use.

    Args:
        with_draws: charge what pools draw on their own.
        dead: edges of auxiliary graphs from suppliers that give nothing at present.
        stated: topmost pools whose state forbids new work at present.
    """

    def __init__(
        self, structure: Structure, dead: Dead = NOTHING_DEAD, stated: Int32 = NONE_STATED, *, with_draws: bool = True
    ) -> None:
        self._with_draws = with_draws
        self.stated = stated
        self.structure = structure
        self.dead = dead
        self.accounts = structure.accounts
        self.types = {name: number for number, name in enumerate(structure.types)}
        self.node = self.types.get(NODE, -1)
        self._vertices: dict[int, Int32] = {}
        self._facts: dict[int, TypeFacts] = {}
        self._meetings: dict[int, Meetings] = {}
        self._supplies: dict[tuple[frozenset[int], int], NodeSupply] = {}
        self._to_read: tuple[Structure, Accounts] | None = None

    @property
    def to_read(self) -> tuple[Structure, Accounts]:
        """The structure and its accounts with columns that can only be read, for code of others.

        Cost: some views, once for each state of the machine.
        """
        if self._to_read is None or self._to_read[0]._outage is not self.structure._outage:
            self._to_read = _read_only(self.structure), _read_only(self.accounts)
            vars(self._to_read[0])["accounts"] = self._to_read[1]
        return self._to_read

    @cached_property
    def flows(self) -> dict[int, Feeds]:
        """The graphs by type number: units requested by the name of one are drawn from all that carries or gives some in it."""
        return {feeds.kind: feeds for feeds in self.structure.feeds}

    @cached_property
    def graphs(self) -> dict[str, int]:
        """The type numbers of the graphs by name."""
        return {feeds.graph.name: kind for kind, feeds in self.flows.items()}

    def number(self, name: str) -> int:
        """The number of a type, or else of the graph of this name; -1 for neither."""
        found = self.types.get(name)
        return self.graphs.get(name, -1) if found is None else found

    def is_flow(self, kind: int) -> bool:
        """Whether a number is that of a graph."""
        return kind >= len(self.types)

    def is_distributed(self, kind: int) -> bool:
        """Whether pools of a type supply others, or whether the number is that of a graph."""
        may_be = self.is_flow(kind) or (kind != self.node and kind in self.structure.linked_types)
        return may_be and kind in self.paths.channels

    def vertices(self, kind: int) -> Int32:
        """The pools of a type, ascending; edges with a capacity have type numbers of their own."""
        found = self._vertices.get(kind)
        if found is None:
            found = self._vertices[kind] = self.accounts.of_type(kind)
        return found

    @cached_property
    def below(self) -> list[frozenset[int]]:
        """For each type, the types that occur somewhere strictly below a pool of it."""
        structure = self.structure
        count = len(structure.types)
        found: list[set[int]] = [set() for _ in structure.types]
        types = structure.type.astype(np.int64)
        # Distinct pairs of parent and type: adjacent pools mostly have the same type and parent.
        pairs = structure.parent.astype(np.int64) * count + types
        pairs = distinct(pairs[structure.parent >= 0])
        while pairs.size:
            above, below = pairs // count, pairs % count
            for code in distinct(types[above] * count + below).tolist():
                found[code // count].add(code % count)
            higher = structure.parent[above].astype(np.int64)
            pairs = distinct((higher * count + below)[higher >= 0])
        return [*map(frozenset, found), *[frozenset[int]()] * len(structure.subsystems)]

    @cached_property
    def in_node(self) -> frozenset[int]:
        """Types that occur strictly below a node."""
        return self.below[self.node] if self.node >= 0 else frozenset()

    def is_drawn_in_nodes(self, kind: int) -> bool:
        """Whether units of a type, or of a graph requested by name, may be drawn from pools in nodes."""
        flow = self.flows.get(kind) if self.is_flow(kind) else None
        return kind in self.in_node if flow is None else not self.in_node.isdisjoint(flow.counted)

    @cached_property
    def roots(self) -> list[int]:
        """The root of the containment tree, and those of the small trees outside it."""
        found: list[int] = np.flatnonzero(self.structure.parent < 0).tolist()
        return found

    @cached_property
    def paths(self) -> Paths:
        """Supply paths in the auxiliary graphs."""
        return Paths(self.structure, self.dead, self.stated)

    @cached_property
    def interchange(self) -> Interchange:
        """Which pools the auxiliary graphs treat alike."""
        return Interchange(self.paths)

    @cached_property
    def draws(self) -> Draws:
        """What pools draw on their own."""
        return Draws(self.structure)

    @cached_property
    def drawn_by_itself(self) -> dict[int, str]:
        """Type numbers of which pools draw units on their own, as far as anything supplies them, with their names."""
        names = self.draws.types if self._with_draws else ()
        return {kind: name for name in names if (kind := self.number(name)) in self.paths.channels}

    def draws_of(self, v: int, kind: int, but: Callable[[int], bool] | None = None) -> list[tuple[int, int]]:
        """(pool, units) that a pool and everything in it draw of a type, grouped by the nodes in it.

        Args:
            but: pools that draw already.
        """
        name = self.drawn_by_itself[kind]
        inside = self.draws.own(name)[v : self.structure.end.item(v)]
        found: dict[int, int] = {}
        for u in (np.flatnonzero(inside) + v).tolist():
            if but is not None and but(u):
                continue
            start = max(self.node_at[u], v)
            found[start] = found.get(start, 0) + int(inside[u - v])
        return list(found.items())

    def charged_by_itself(self, v: int, kind: int, but: Callable[[int], bool] | None = None) -> list[Charge]:
        """What a pool and everything in it draw of a type on their own, and from which suppliers, however the pool is allocated.

        Args:
            but: pools that draw already.
        """
        found: list[Charge] = []
        for start, units in self.draws_of(v, kind, but):
            charges = self.paths.charged(start, kind)
            parts = None if charges is None else [(givers, ceil(part * units)) for givers, part in charges]
            found.append(Charge(start, units, parts))
        return found

    def said(self, kinds: set[int]) -> set[int]:
        """Types and graphs of which exactly the requested units are drawn, given the types or graphs that a request names.

        Naming a type fixes the graphs that count it; naming a graph fixes the types counted in it.
        """
        found = set(kinds)
        for feeds in self.paths.feeds:
            found |= feeds.counted if feeds.kind in kinds else set()
            found |= {feeds.kind} if feeds.counted & kinds else set()
        return found

    def supply(self, kinds: frozenset[int], over: int = -1) -> NodeSupply:
        """Which pools of some types supply which nodes; `over` adds groups for the pools of one more type."""
        found = self._supplies.get((kinds, over))
        if found is None:
            if self._supplies and len(self._supplies) * len(self.vertices(self.node)) >= SUPPLIED_KEPT:
                del self._supplies[next(iter(self._supplies))]
            groups = [] if over < 0 else self.vertices(over).tolist()
            found = self._supplies[(kinds, over)] = NodeSupply(self.paths, self.vertices(self.node), kinds, groups)
        return found

    def meetings(self, kind: int) -> Meetings:
        """Where nodes meet in a graph, by the type number of its edges."""
        found = self._meetings.get(kind)
        if found is None:
            found = self._meetings[kind] = Meetings(self.structure, self.paths, kind)
        return found

    def nests(self, kind: int) -> bool:
        """Whether a pool of the type may be below another."""
        return kind in self.below[kind]

    @cached_property
    def node_of(self) -> Int32:
        """By account, the nearest node it is or is in, or -1.  Cost O(n)."""
        structure = self.structure
        found = np.full(self.accounts.n, -1, np.int32)
        if self.node >= 0:
            nodes = self.vertices(self.node)
            if self.nests(self.node):
                for v in nodes.tolist():
                    found[v : structure.end.item(v)] = v
            else:
                lengths = structure.end[nodes] - nodes
                at = np.repeat(nodes - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
                found[at] = np.repeat(nodes, lengths)
        return found

    @cached_property
    def node_at(self) -> memoryview:
        """`node_of` as a memory view, for reading single pools."""
        return self.node_of.data

    def drawn_from(self, kind: int) -> Int32:
        """What units of a type come from: its pools; for a graph, its edges with a capacity and its pools of counted types."""
        flow = self.flows.get(kind) if self.is_flow(kind) else None
        if flow is None:
            return self.vertices(kind)
        return np.concatenate([*map(self.vertices, sorted(flow.counted)), self.vertices(kind)])

    def sizes(self, kind: int) -> Int64:
        """Units of every pool of a type."""
        return self.accounts.size[self.drawn_from(kind)]

    def facts(self, kind: int) -> TypeFacts:
        """What is known about a type, or about a graph."""
        found = self._facts.get(kind)
        if found is None:
            accounts, every = self.accounts, self.drawn_from(kind)
            sizes = accounts.size[every]
            is_flagged = ((accounts.flags[every] & EXCLUSIVE) != 0) | accounts.ways[every]
            least, most = int(sizes.min(initial=2**62)), int(sizes.max(initial=0))
            found = self._facts[kind] = TypeFacts(least, most, self.units_of(every), bool(is_flagged.any()))
        return found

    @cached_property
    def has_flags(self) -> bool:
        """Whether any pool may only be allocated exclusively."""
        return bool((self.structure.flags & EXCLUSIVE).any())

    def most_worth(self, demand: Demand) -> Fraction:
        """The most that one unit of a pool gives in the unit of the request; 0 if no pool measures the same."""
        return max((demand.per_unit(unit) or Fraction(0) for unit in self.facts(demand.kind).units), default=Fraction(0))

    def units_of(self, every: Int32) -> frozenset[str | None]:
        """The units in which some pools and edges are counted."""
        pools, edges = every[every < self.structure.n], every[every >= self.structure.n]
        kinds = distinct(self.structure.kind[pools]).tolist() if len(pools) else []
        return frozenset([self.structure.kinds[number].unit for number in kinds]).union(map(self.accounts.unit, edges.tolist()))
