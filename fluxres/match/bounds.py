"""What cannot be, by numbers alone: RFC 4's Pruning Filter over a whole machine.

Two bounds.  Every pool answers one part of a request, so of no type more can be asked for than is free of it.  And whoever takes
nodes whole takes what is in them from the others: at least what the emptiest nodes have.
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
"""Units that no machine has."""


class Bounds:
    """Bounds for one request with fixed counts in one situation.

    Args:
        node_exclusive: every node that is touched is taken whole.
    """

    def __init__(self, situation: Situation, plan: Plan, counts: tuple[int, ...], *, node_exclusive: bool) -> None:
        self._situation = situation
        self._plan = plan
        self._counts = counts
        self._node_exclusive = node_exclusive
        self._free = situation.totals()
        self._needed = self._add_up(plan.demands, 1)

    def is_conceivable(self) -> bool:
        """Whether as much is free of every type as all parts need.  Cost: the totals of the machine."""
        return all(units <= self._free[kind] for kind, units in self._needed.items()) and self._can_be_looked_at()

    def _can_be_looked_at(self) -> bool:
        """Whether there are as many pools as are only looked at on a way: others may look at them too."""
        worth = self._situation.typology.most_worth
        looked = [demand for demand in self._plan.all if demand.charged and demand.shared]
        return all(self._counts[d.number] <= int(self._free[d.kind]) * worth(d) for d in looked)

    def _add_up(self, demands: tuple[Demand, ...], times: int) -> dict[int, int]:
        """Units by type that must be free at least."""
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
        """Of groups of nodes (by their places), those that have too little for all parts, whatever else is in the way.

        Types of which some pools stand in no node are passed over.  Cost: the pools of each type asked for in nodes.
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
        """Whether what is in pools taken whole leaves enough of each type for the other parts.

        Cost: vector operations over the machine.
        """
        return all(self._leaves_enough(demand, times) for demand, times in self._whole(self._plan.demands, 1))

    def _whole(self, demands: tuple[Demand, ...], times: int) -> list[tuple[Demand, int]]:
        """The outermost demands that take pools whole, and how many pools."""
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
        """Free units of a type in each pool that may be taken whole; nothing in those that are not free themselves."""
        situation, typology = self._situation, self._situation.typology
        structure = situation.structure
        inner = typology.vertices(kind)
        free = situation.free_everywhere
        sums = np.concatenate([[0], np.cumsum(free[inner])])
        found = sums[inner.searchsorted(structure.end[pools])] - sums[inner.searchsorted(pools)]
        there: NDArray[np.int64] = found[free[pools] > 0]
        return there
