"""Requests that are impossible by numbers alone: RFC 4's Pruning Filter over a whole machine.

There are two bounds.  Every pool satisfies one part of a request, so a request cannot ask for more of a type than is free.  And
a part that takes nodes exclusively leaves the other parts less: at least what the emptiest nodes contain is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from fluxres.match.demand import Demand, Plan
from fluxres.match.situation import Situation

Int64 = NDArray[np.int64]
NEVER = 2**62
"""More units than any machine has."""


class Bounds:
    """Bounds for one request with fixed counts in one situation.

    Args:
        node_exclusive: every node that is touched is taken exclusively.
    """

    def __init__(self, situation: Situation, plan: Plan, counts: tuple[int, ...], *, node_exclusive: bool) -> None:
        self._situation = situation
        self._plan = plan
        self._counts = counts
        self._node_exclusive = node_exclusive
        self._free = situation.totals()
        self._needed = self._add_up(plan.demands, 1)

    def is_conceivable(self) -> bool:
        """Whether enough is free of every type for all parts together.  Cost: the totals of the machine."""
        return all(units <= self._free[kind] for kind, units in self._needed.items()) and self._can_be_looked_at()

    def _can_be_looked_at(self) -> bool:
        """Whether there are enough pools for the demands that only look at pools on a supply path; these pools can be shared."""
        worth = self._situation.typology.most_worth
        looked = [demand for demand in self._plan.all if demand.charged and demand.shared]
        return all(self._counts[d.number] <= int(self._free[d.kind]) * worth(d) for d in looked)

    def _add_up(self, demands: tuple[Demand, ...], times: int) -> dict[int, int]:
        """Units by type that must at least be free."""
        needed: dict[int, int] = {}
        for demand in demands:
            number = times * self._counts[demand.number]
            if not demand.is_slot and not demand.flow and not demand.own and not (demand.charged and demand.shared):
                worth = 1 if demand.children else self._situation.typology.most_worth(demand)
                needed[demand.kind] = needed.get(demand.kind, 0) + (ceil(number / worth) if worth else NEVER)
            for kind, units in self._add_up(demand.children, number).items():
                needed[kind] = needed.get(kind, 0) + units
        return needed

    def lacking_in(self, groups: Sequence[Int64]) -> NDArray[np.bool_]:
        """Which groups of nodes (given by their indexes) have too little for all parts, whatever else is in the way.

        Types with pools outside nodes are skipped.  Cost: the pools in nodes of each requested type.
        """
        situation, typology = self._situation, self._situation.typology
        nodes = typology.vertices(typology.node)
        found = np.zeros(len(groups), np.bool_)
        if not len(groups) or typology.nests(typology.node):
            return found
        free = situation.free_everywhere
        free = np.where(situation.structure.ways, situation.structure.size, free)
        lengths = np.array([len(group) for group in groups])
        of, members = np.repeat(np.arange(len(groups)), lengths), np.concatenate(groups)
        for kind, units in self._needed.items():
            pools = typology.vertices(kind)
            around = typology.node_of[pools]
            if len(around) and (around >= 0).all():
                inside = np.bincount(nodes.searchsorted(around), free[pools], len(nodes))
                found |= np.bincount(of, inside[members], len(groups)) < units
        return found

    def leaves_enough(self) -> bool:
        """Whether taking pools exclusively leaves enough of each type for the other parts.

        Cost: vector operations over the machine.
        """
        return all(self._leaves_enough(demand, times) for demand, times in self._whole(self._plan.demands, 1))

    def _whole(self, demands: tuple[Demand, ...], times: int) -> list[tuple[Demand, int]]:
        """The outermost demands that take pools exclusively, and the number of pools."""
        found: list[tuple[Demand, int]] = []
        for demand in demands:
            number = times * self._counts[demand.number]
            node = self._node_exclusive and demand.kind == self._situation.typology.node
            takes_whole = demand.whole or node or not (demand.children or demand.shared or demand.charged)
            if takes_whole and not (demand.is_slot or demand.flow):
                found.append((demand, number))
            else:
                found += self._whole(demand.children, number)
        return found

    def _leaves_enough(self, demand: Demand, number: int) -> bool:
        typology = self._situation.typology
        if not demand.children and typology.least_and_most(demand.kind)[1] > 1:
            return True
        own = self._add_up((demand,), number // max(self._counts[demand.number], 1))
        pools = typology.vertices(demand.kind)
        for kind in typology.below[demand.kind]:
            others = self._needed.get(kind, 0) - own.get(kind, 0)
            if others <= 0:
                continue
            inside = self._units_in(pools, kind)
            if others > int(self._free[kind]) - int(np.sort(inside)[:number].sum()):
                return False
        return True

    def _units_in(self, pools: NDArray[np.int32], kind: int) -> NDArray[np.int64]:
        """Free units of a type in each pool that may be taken exclusively; 0 in pools that are not free themselves."""
        situation, typology = self._situation, self._situation.typology
        structure = situation.structure
        inner = typology.vertices(kind)
        free = situation.free_everywhere
        sums = np.concatenate([[0], np.cumsum(free[inner])])
        found = sums[inner.searchsorted(structure.end[pools])] - sums[inner.searchsorted(pools)]
        there: NDArray[np.int64] = found[free[pools] > 0]
        return there
