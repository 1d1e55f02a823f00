"""The way from a pool up a distribution graph, and the pools along it that a demand is charged on (RFC 4, channeled pools).

Power reaches a node through an outlet, a PDU and a feed, and a job that draws 500 W of it draws them from each.  So a resource
that is distributed is not picked where there happens to be some: from the pools that a job is given the ways lead up, along
the edges of an auxiliary graph, and every pool of the type on them must have the units.

Every graph is a way of its own: a node that has a link of the network and no edge of the power graph still stands in a rack
that has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.structure import Structure
from fluxres.match.feeds import Feeds

Givers = tuple[int, ...]
"""Pools, ascending, that give together what one supplier has: one after the other."""
Charges = tuple[tuple[Givers, Fraction], ...]
"""Who gives, and the part of what is asked for that has to come from there."""

ALL = Fraction(1)


class Paths:
    """Ways up the auxiliary graphs of one structure.  Cost: each pool's way is found once.

    Args:
        nodes: the pools of type `node`, ascending.
    """

    def __init__(self, structure: Structure, nodes: NDArray[np.int32]) -> None:
        self._structure = structure
        self._nodes = nodes
        self._charged: dict[tuple[int, int], Charges] = {}
        #: By type: by pool, what of the type hangs on it.
        self._hung_on: dict[int, dict[int, Givers]] = {}
        self._giving: dict[tuple[int, int, tuple[int, ...]], dict[Givers, Fraction]] = {}

    @cached_property
    def feeds(self) -> list[Feeds]:
        """The graphs in which somebody supplies somebody."""
        graphs = (Feeds(self._structure, graph, self._nodes) for graph in self._structure.subsystems.values())
        return [feeds for feeds in graphs if len(feeds.below)]

    @cached_property
    def channels(self) -> frozenset[int]:
        """Types that are distributed: of those who supply others, and of what hangs on them and stands in an auxiliary graph.

        Nodes and what they stand in are none, though a rack may hand on what supplies it.
        """
        structure = self._structure
        found: set[int] = set()
        if not self.feeds:
            return frozenset()
        for feeds in self.feeds:
            members = np.union1d(feeds.above, feeds.below)
            leaves = np.flatnonzero(structure.end == np.arange(1, structure.n + 1))
            leaves = leaves[np.isin(structure.parent[leaves], feeds.distributors)]
            leaves = leaves[(leaves >= structure.tree_end) | np.isin(leaves, members)]
            for pools in (feeds.distributors, leaves, feeds.attached[1]):
                found.update(np.unique(structure.type[pools]).tolist())
        up = np.unique(self._nodes)
        while up.size:
            found -= set(np.unique(structure.type[up]).tolist())
            up = np.unique(structure.parent[up])
            up = up[up >= 0]
        return frozenset(found)

    def charged(self, v: int, kind: int) -> Charges:
        """What is charged for units of a type that are asked for at a pool; empty where nothing supplies it.

        On the way up a pool of the type gives by itself, or what hangs on a supplier does, together. Where a supply comes in at
        several places in the pool, each has its part to carry.
        """
        found = self._charged.get((v, kind))
        if found is None:
            parts: dict[Givers, Fraction] = dict.fromkeys(self._own(v, kind), ALL)
            for feeds in self.feeds:
                for givers, part in self._by(feeds, v, kind).items():
                    parts[givers] = max(part, parts[givers]) if givers in parts else part
            found = self._charged[(v, kind)] = tuple(sorted(parts.items()))
        return found

    def upstream(self, v: int, kind: int) -> Charges:
        """What else is charged when units of a pool of the type itself are taken: farther up than what it hangs on."""
        return tuple((givers, part) for givers, part in self.charged(v, kind) if v not in givers)

    def along(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What else a part of the machine needs so that charges for its pools lead the same ways as in the whole.

        That is every supplier on a way, what hangs on it, and the pools through which a supply comes into a node.

        Args:
            kept: bool over all pools.

        Cost: arrays as long as the machine, once a step of the longest way.
        """
        structure = self._structure
        taken = kept.copy()
        if not self.feeds:
            return taken & ~kept
        nodes = self._nodes[_with_ancestors(structure, kept)[self._nodes]]
        leaves = structure.end == np.arange(1, structure.n + 1)
        leaves &= np.isin(structure.type, list(self.channels)) & (structure.parent >= 0)
        for feeds in self.feeds:
            leaves[feeds.distributors] = False  # what supplies others comes along where it supplies something kept
            at = nodes.searchsorted(feeds.below, "right") - 1
            inside = (at >= 0) & (feeds.below < structure.end[nodes[at]]) if nodes.size else np.zeros(len(at), np.bool_)
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
        """(pool, supplier): units of the pool are units of the supplier too, which is of the same type and farther up.

        Only of types that have amounts: a switch that another one supplies is a switch more, 800 W of a PDU are no more watts.

        Cost: the way of each pool of a distributed type, found once.
        """
        structure = self._structure
        pairs: list[tuple[int, int]] = []
        for kind in self.channels:
            if structure.sums.in_amounts(structure.types[kind]):
                pools = structure.of_type(structure.types[kind]).tolist()
                pairs += [(v, u) for v in pools for givers, _ in self.upstream(v, kind) for u in givers]
        below, above = np.array(pairs, np.int32).reshape(-1, 2).T
        # In a cycle each supplies the others: the first of them stands for all.
        codes, back = (a.astype(np.int64) * structure.n + b for a, b in ((below, above), (above, below)))
        kept = ~np.isin(codes, back) | (above < below)
        return below[kept], above[kept]

    @cached_property
    def is_forest(self) -> bool:
        """Whether no pool is supplied from two sides: then whoever takes the first way that fits leaves the most to others."""
        every = np.concatenate([feeds.below for feeds in self.feeds]) if self.feeds else np.zeros(0, np.int32)
        return len(np.unique(every)) == len(every)

    def _by(self, feeds: Feeds, v: int, kind: int) -> dict[Givers, Fraction]:
        """Who gives to a pool by one graph."""
        entries = feeds.entries(v)
        if len(entries) == 1:
            return self._to(feeds, entries[0], kind)
        parts: dict[Givers, Fraction] = {}
        for entry in entries:
            for givers in self._to(feeds, entry, kind):
                parts[givers] = parts.get(givers, Fraction(0)) + Fraction(1, len(entries))
        return parts

    def _to(self, feeds: Feeds, entry: int, kind: int) -> dict[Givers, Fraction]:
        """Who gives where a supply comes in; the same for all that have the same suppliers."""
        key = id(feeds), kind, feeds.suppliers(entry)
        found = self._giving.get(key)
        if found is None:
            every = (self._given_by(feeds, u, kind) for u in feeds.closure(entry))
            found = self._giving[key] = {givers: ALL for givers in every if givers}
        return found

    def _given_by(self, feeds: Feeds, u: int, kind: int) -> Givers:
        """Pools of a type through which a supplier gives: itself, where such pools are suppliers, else what hangs on it."""
        if kind in self._supplying[id(feeds)]:
            return (u,) if self._structure.type.item(u) == kind else ()
        return self._hung(u, kind)

    @cached_property
    def _supplying(self) -> dict[int, frozenset[int]]:
        return {id(feeds): frozenset(np.unique(self._structure.type[feeds.distributors]).tolist()) for feeds in self.feeds}

    def _hung(self, u: int, kind: int) -> Givers:
        """Pools of a type that hang on a pool: children that have none, and what an edge attaches."""
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
        """What the pool and those it stands in have of the type themselves, unless such pools supply others."""
        if any(kind in types for types in self._supplying.values()):
            return
        while v >= 0:
            if hung := self._hung(v, kind):
                yield hung
            v = self._structure.parent.item(v)


def _with_ancestors(structure: Structure, pools: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """These pools and all that have one of them below."""
    before = np.concatenate([[0], np.cumsum(pools)])
    found: NDArray[np.bool_] = before[structure.end] > before[: structure.n]
    return found
