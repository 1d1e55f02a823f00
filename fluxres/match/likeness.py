"""Interchangeable choices: if one led nowhere, an equal one need not be tried."""

from __future__ import annotations

from collections.abc import Iterator

from fluxres.match.accumulator import Accumulator
from fluxres.match.demand import Demand, Plan
from fluxres.match.situation import Situation


class Likeness:
    """What one search knows about equal choices."""

    def __init__(self, situation: Situation, plan: Plan, taken: Accumulator) -> None:
        self._situation = situation
        self._plan = plan
        self._taken = taken
        self._asked = {demand.kind for demand in plan.all}

    def refuse(self, demand: Demand, v: int, refused: set[object]) -> None:
        """Remember that a choice led nowhere."""
        if not demand.settled and not self._plan.named and self._is_untouched(v):
            refused.add(self._of(v))

    def is_like(self, v: int, refused: set[object]) -> bool:
        """Whether an equal choice led nowhere."""
        return bool(refused) and self._is_untouched(v) and self._of(v) in refused

    def _is_untouched(self, v: int) -> bool:
        """Whether this match has nothing at or below a pool.  Choices are undone before the next one is tried."""
        return v not in self._taken.used and v not in self._taken.bound and not self._taken.below.get(v)

    def _of(self, v: int) -> object:
        # Ancestors matter only if the request names them, or the node does; suppliers matter only if they are charged.
        structure = self._situation.structure
        above: list[int] = []
        u = structure.parent.item(v)
        while u >= 0:
            if structure.type.item(u) in self._asked or self._situation.typology.node == structure.type.item(u):
                above.append(u)
            u = structure.parent.item(u)
        return (self.ways(v), *above, *self._situation.signature(v))

    def ways(self, v: int) -> object:
        """How a pool and those in it are supplied with what is charged, and what they supply; equal for interchangeable pools."""
        if not self._plan.charged:
            return ()
        typology = self._situation.typology
        interchange = typology.paths.interchange
        supplies = [interchange.of(v, demand.channel) for demand in self._plan.all if demand.charged or demand.upstream]
        draws = (typology.draws_of(v, demand.kind) for demand in self._plan.all if demand.own and not demand.even)
        return (*supplies, *(tuple((u - v, units) for u, units in of_pool) for of_pool in draws), *self._left_inside(v))

    def _left_inside(self, v: int) -> Iterator[object]:
        """What is left of the edges in a pool, and which pools in it are looked at on supply paths of others."""
        taken = self._taken
        for edge in self._situation.typology.paths.interchange.edges_inside(v):
            left = self._situation.free(edge) - taken.used.get(edge, 0)
            yield left, taken.drawn.get(edge, 0), taken.spare.get(edge, 0)
        if taken.looked:
            stop = self._situation.stop[v]
            yield tuple(sorted(u - v for u in taken.looked if v <= u < stop))
