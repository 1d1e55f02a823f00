"""Which demands of a request can interfere with each other.

Types alone decide that.  A choice that cannot interfere with any later one is never undone by the traverser
(`Demand.settled`), so ordinary requests cost no more than the pools looked at.  The vector path chooses by numbers and
needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fluxres.match.demand import Demand, Plan, in_turn
from fluxres.match.typology import Typology

Footprint = frozenset[tuple[int, bool]]
"""(type, whether a pool of it may be taken exclusively) of everything that a demand may take or pass through."""


def settle(plan: Plan, typology: Typology) -> None:
    """Find out for each demand whether its choices may be undone, once for each plan."""
    if plan.all and plan.all[0].settled is None:
        _Relations(typology).settle(plan.demands, frozenset())


class _Relations:
    """Cost: in the number of demands times the types they name."""

    def __init__(self, typology: Typology) -> None:
        self.typology = typology
        self._footprints: dict[int, Footprint] = {}
        self._fungible: dict[int, bool] = {}

    def settle(self, demands: Sequence[Demand], later: Footprint, *, matters: bool = False) -> None:
        """Determine for each demand whether its choices can interfere with later ones (`later`, from the levels above).

        Args:
            matters: something is charged for the choices made here, so that every choice may interfere.
        """
        matters = matters or any(demand.charged == "siblings" for demand in demands)
        for demand in reversed(in_turn(demands)):
            own = self._footprint(demand)
            loose = matters and not demand.charged
            demand.settled = self._is_fungible(demand) and not loose and not self._meet(own, later)
            # Other instances come later too and may draw on the same pools, unless they cannot interfere.
            self.settle(demand.children, later if self._is_fungible(demand) else later | own, matters=loose)
            later |= own

    def _is_fungible(self, demand: Demand) -> bool:
        """Whether an instance may take anything available without leaving too little for the next one of the same demand."""
        found = self._fungible.get(demand.number)
        if found is None:
            found = self._fungible[demand.number] = self._find_fungible(demand)
        return found

    def _find_fungible(self, demand: Demand) -> bool:
        if demand.children and not self._is_supplied_alike(demand):
            return False
        if demand.is_slot:
            return all(map(self._is_fungible, demand.children)) and not self._compete(demand.children)
        if demand.draws or self.typology.nests(demand.kind):
            return False
        if demand.children:
            return True
        if demand.upstream:
            return self.typology.paths.is_forest
        facts = self.typology.facts(demand.kind)
        alike = len(facts.units) == 1
        if alike and facts.least == facts.most:
            return True
        return alike and not demand.whole and not facts.is_flagged

    def _is_supplied_alike(self, demand: Demand) -> bool:
        """Whether taking the first instance that can be supplied leaves the most to others.

        All instances must draw the same, and of any two suppliers, one must supply everything that the other one does, or nothing
        of it: then the sets of nodes that can be supplied together are a matroid.
        """
        kinds = frozenset(_distributed(demand))
        if not kinds:
            return True
        if self.typology.node < 0:
            loose = any(child.charged == "siblings" for child in demand.children)
            # Supply paths and routes across the same tree overlap partly.
            return self.typology.paths.is_forest and not loose and not any(each.to for each in _below(demand))
        if any(each.upstream and self._is_supplied_inside(each.kind) for each in _below(demand)):
            return False  # a pool in a node is charged differently from the node
        supply = self.typology.supply(kinds, -1 if demand.is_slot or demand.kind == self.typology.node else demand.kind)
        every = [demand, *_below(demand)]
        return supply.is_laminar and all(map(_draws_evenly, every)) and all(each.even for each in every)

    def _is_supplied_inside(self, kind: int) -> bool:
        """Whether pools of a distributed type are in nodes in which pools supply others or have suppliers of their own."""
        typology = self.typology
        if kind not in typology.in_node:
            return False
        ends = np.concatenate([np.concatenate([feeds.above, feeds.below]) for feeds in typology.paths.feeds])
        nodes = typology.node_of[ends]
        return bool(((nodes >= 0) & (nodes != ends)).any())

    def _compete(self, demands: Sequence[Demand]) -> bool:
        """Whether any two of them can interfere; charges interfere where the pools they are for do."""
        before: Footprint = frozenset()
        for demand in demands:
            if demand.charged:
                continue
            own = self._footprint(demand)
            if self._meet(own, before):
                return True
            before |= own
        return False

    def _meet(self, one: Footprint, other: Footprint) -> bool:
        below = self.typology.below
        return any(
            a == b or (b in below[a] and whole_a) or (a in below[b] and whole_b) for a, whole_a in one for b, whole_b in other
        )

    def _footprint(self, demand: Demand) -> Footprint:
        found = self._footprints.get(demand.number)
        if found is None:
            own = set() if demand.is_slot else {(demand.kind, not demand.shared and (demand.whole or not demand.children))}
            if demand.charged or demand.upstream:
                # What flows along the same edges.
                own |= {(feeds.kind, False) for feeds in self.typology.paths.feeds if demand.kind in feeds.counted}
            found = self._footprints[demand.number] = frozenset(own).union(
                *map(self._footprint, (*demand.children, *demand.draws))
            )
        return found


def _below(demand: Demand) -> Iterator[Demand]:
    for child in (*demand.children, *demand.draws):
        yield child
        yield from _below(child)


def _distributed(demand: Demand) -> Iterator[int]:
    """The channels through which a demand is charged."""
    return (each.channel for each in (demand, *_below(demand)) if each.charged or each.upstream)


def _draws_evenly(demand: Demand) -> bool:
    """Whether what is charged for the children of a demand is the same for each node among them."""
    charges = [child for child in demand.children if child.charged == "siblings"]
    if not charges:
        return True
    others = [child for child in demand.children if not child.charged]
    if len(others) != 1 or others[0].is_slot or (others[0].children and not others[0].whole):
        return False
    number = others[0].count.fixed
    return number is not None and all(number == 1 or (each.count.fixed or 1) % number == 0 for each in charges)
