"""Measured decisions without the time that other programs take from them.

A decision takes up to twice the processor time while other programs use the caches and the other half of the core, and that
goes on for longer than a simulation.  So the simulation is made several times, and a decision costs the least that any alike it
took in any pass: the time on an undisturbed machine, which is the same the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fluxres.simulation.costs.cost import Measured
from fluxres.simulation.costs.fit import KINDS_MAX

if TYPE_CHECKING:
    from fluxres.simulation.costs.cost import Cost
    from fluxres.simulation.costs.decision import Decision
    from fluxres.simulation.costs.overheads import LevelCost


class Least:
    """A cost model: what another one returns at least for decisions of a kind.

    Of one kind are those with the same numbers of tried and started jobs, of units of the machine, of units and pools of the
    started job, and about as many waiting jobs.

    Args:
        cost: the other one, usually `Measured`.

    >>> from fluxres.simulation.costs.decision import Decision
    >>> least = Least(Measured())
    >>> [least.decide(Decision(1, 1, 5, 16, took)) for took in (0.3, 0.2, 0.4)]
    [0.3, 0.2, 0.2]
    """

    def __init__(self, cost: Cost) -> None:
        self.cost = cost
        self._known: dict[tuple[int, ...], float] = {}

    @property
    def measures(self) -> bool:
        return self.cost.measures

    @property
    def sees_pools(self) -> bool:
        return self.cost.sees_pools

    @property
    def sees_load(self) -> bool:
        return self.cost.sees_load

    def decide(self, made: Decision) -> float:
        found = self.cost.decide(made)
        kind = (made.considered, made.started, made.queued.bit_length(), made.size, made.units, made.is_first, made.pools)
        least = min(self._known.get(kind, found), found)
        if kind in self._known or len(self._known) < KINDS_MAX:
            self._known[kind] = least
        return least


def measured(costs: Sequence[LevelCost], simulate: Callable[[list[LevelCost]], object]) -> list[LevelCost]:
    """Costs for the last pass of a simulation whose decisions are measured; as they are if none are.

    Args:
        simulate: makes a pass, whose results are not used.
    """
    models: dict[Cost | None, Cost] = {
        each.decision: Least(each.decision) for each in costs if isinstance(each.decision, Measured)
    }
    found = [replace(each, decision=models.get(each.decision, each.decision)) for each in costs]
    for _ in range(max((each.passes for each in models if isinstance(each, Measured)), default=1) - 1):
        simulate(found)
    return found
