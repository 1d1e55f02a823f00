"""How the types of a machine relate: which occur below which, which nest, which are in nodes.

A machine has a million pools and a dozen types.  Whether two parts of a request can interfere, whether to search for a type
inside nodes, and whether a pool can be allocated in units depends on types only, and is determined once per generation.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.draws import Draws
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.graph.outage import NOTHING_DEAD, Dead
from fluxres.graph.structure import Structure
from fluxres.match.interchange import Interchange
from fluxres.match.paths import Givers, Meetings, Paths
from fluxres.match.supply import Supply
from fluxres.planner.columns import distinct

if TYPE_CHECKING:
    from fluxres.match.demand import Demand

NODE: Final = "node"
SUPPLIED_KEPT: Final = 1 << 23
"""Bound on nodes whose suppliers are cached, over all sets of types and routes: some ten bytes each."""
NONE_STATED: Final = np.zeros(0, np.int32)


class Charge(NamedTuple):
    """Units that a pool draws, and how many of them come from each supplier; None if nothing supplies it."""

    pool: int
    units: int
    parts: list[tuple[Givers, int]] | None


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
        self.numbers = {name: number for number, name in enumerate(structure.types)}
        #: Units requested by the name of a graph are drawn from everything that carries or gives something in it.
        self.flows = {feeds.kind: feeds for feeds in structure.feeds}
        self.graphs = {feeds.graph.name: kind for kind, feeds in self.flows.items()}
        self.numbers = self.graphs | self.numbers
        self.node = self.numbers.get(NODE, -1)
        self._vertices: dict[int, NDArray[np.int32]] = {}
        self._units: dict[int, set[str | None]] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._flagged: dict[int, bool] = {}
        self._meetings: dict[int, Meetings] = {}
        self._supplies: dict[tuple[frozenset[int], int], Supply] = {}

    def vertices(self, kind: int) -> NDArray[np.int32]:
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
        flow = self.flows.get(kind)
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
        return {kind: name for name in names if (kind := self.numbers.get(name, -1)) in self.paths.channels}

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

    def supply(self, kinds: frozenset[int], over: int = -1) -> Supply:
        """Which pools of some types supply which nodes; `over` adds groups for the pools of one more type."""
        found = self._supplies.get((kinds, over))
        if found is None:
            if self._supplies and len(self._supplies) * len(self.vertices(self.node)) >= SUPPLIED_KEPT:
                del self._supplies[next(iter(self._supplies))]
            groups = [] if over < 0 else self.vertices(over).tolist()
            found = self._supplies[(kinds, over)] = Supply(self.paths, self.vertices(self.node), kinds, groups)
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
    def node_of(self) -> NDArray[np.int32]:
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

    def drawn_from(self, kind: int) -> NDArray[np.int32]:
        """What units of a type come from: its pools; for a graph, its edges with a capacity and its pools of counted types."""
        flow = self.flows.get(kind)
        if flow is None:
            return self.vertices(kind)
        return np.concatenate([*map(self.vertices, sorted(flow.counted)), self.vertices(kind)])

    def sizes(self, kind: int) -> NDArray[np.int64]:
        """Units of every pool of a type."""
        return self.accounts.size[self.drawn_from(kind)]

    def least_and_most(self, kind: int) -> tuple[int, int]:
        """The smallest and the largest size of a type's pools."""
        found = self._sizes.get(kind)
        if found is None:
            sizes = self.sizes(kind)
            found = self._sizes[kind] = int(sizes.min(initial=2**62)), int(sizes.max(initial=0))
        return found

    def is_flagged(self, kind: int) -> bool:
        """Whether some pool of the type can only be allocated exclusively, or not at all."""
        found, accounts = self._flagged.get(kind), self.accounts
        if found is None:
            flagged = ((accounts.flags & EXCLUSIVE) != 0) | accounts.ways
            found = self._flagged[kind] = bool(flagged[self.drawn_from(kind)].any())
        return found

    def most_worth(self, demand: Demand) -> Fraction:
        """The most that one unit of a pool gives in the unit of the request; 0 if no pool measures the same."""
        return max((demand.per_unit(unit) or Fraction(0) for unit in self.units(demand.kind)), default=Fraction(0))

    def units(self, kind: int) -> set[str | None]:
        """The units in which pools of a type are counted."""
        found = self._units.get(kind)
        if found is None:
            found = self._units[kind] = self._units_of(kind)
        return found

    def _units_of(self, kind: int) -> set[str | None]:
        every = self.drawn_from(kind)
        pools, edges = every[every < self.structure.n], every[every >= self.structure.n]
        kinds = distinct(self.structure.kind[pools]).tolist() if len(pools) else []
        return {self.structure.kinds[number].unit for number in kinds}.union(map(self.accounts.unit, edges.tolist()))
