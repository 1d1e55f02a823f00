"""A request as one machine understands it: types as numbers, exclusivity as what is to be done, parts that compete.

Everything here follows from the request and the types of a machine, so it is found once for a request that is asked again
(`plan.py`). The rules are those of `specs/matching.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from fluxres.errors import InputError
from fluxres.syntax import unit
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec import Request


@dataclass(slots=True, eq=False)
class Demand:
    """One resource vertex of a request.

    Args:
        number: among all demands, in the order written.
        place: such as ``resources[0].with[1]``.
        kind: type number; -1 for a slot.
        whole: pools are taken whole: exclusive pools with children, and explicitly exclusive ones without.
        shared: a pool of size 1 is looked at, and not taken.
        per_unit: by unit of a pool, the units asked for that one of its units makes; without a wanted unit everything is 1.
        charged: of a distributed type, and not picked: charged on the ways up from the pool it is asked for in (``below``), or
            from what is taken for the demands beside it (``siblings``); empty for what is picked.
        upstream: of a distributed type, and picked: what is taken is charged on the way up from there as well.
        channel: by what it is charged: the type, or for units towards a named pool the number of the routes to it.
        to: the pool that those are asked for to, as the request names it; of units between nodes, where these meet.
        flow: of an auxiliary graph, by its name: charged on all that carries or gives anything in it.
        own: what the pool that it is sought below draws by itself, with all that is in it; the count is that where `even`.
        even: of an `own` demand: whether all pools draw the same.
        draws: what pools draw by themselves, where only some of those that may be picked are taken whole.
        confined: a slot whose instances each lie within one node, where they stand above nodes.
        inside: children of a confined slot that are sought in its node; the others are sought where the slot stands.
        settled: nothing chosen for one instance can be in the way of anything chosen later.
        total: instances asked for within the nearest pool above, over all slots between; by number of demands to multiply.
    """

    number: int
    place: str
    type: str
    kind: int
    count: Count
    label: str | None
    ids: tuple[tuple[int, int], ...] | None
    names: frozenset[str] | None
    wanted_unit: str | None
    whole: bool
    shared: bool
    charged: Literal["", "below", "siblings"] = ""
    upstream: bool = False
    channel: int = -1
    to: str | None = None
    flow: bool = False
    own: bool = False
    even: bool = True
    draws: tuple[Demand, ...] = ()
    children: tuple[Demand, ...] = ()
    confined: bool = False
    inside: tuple[Demand, ...] = ()
    beside: tuple[Demand, ...] = ()
    settled: bool = False
    total: tuple[int, ...] = ()
    _factors: dict[str | None, Fraction | None] = field(default_factory=dict)

    @property
    def is_slot(self) -> bool:
        """Whether it only groups what is below it."""
        return self.kind < 0

    @property
    def is_picked(self) -> bool:
        """Whether what answers it is a pool that is taken or looked at, not what is in one, nor what is charged for others."""
        return not self.is_slot and not self.charged and (self.whole or not self.children)

    @property
    def named(self) -> bool:
        """Whether it says which pools by id or name."""
        return self.ids is not None or self.names is not None

    def per_unit(self, pool_unit: str | None) -> Fraction | None:
        """How much of what is asked for one unit of a pool gives; None where the units do not measure the same.

        Without a unit in the request the pool's own is meant.
        """
        if self.wanted_unit is None or self.wanted_unit == pool_unit:
            return Fraction(1)
        if pool_unit not in self._factors:
            try:
                self._factors[pool_unit] = Fraction(unit.convert(1, pool_unit, self.wanted_unit))
            except InputError:
                self._factors[pool_unit] = None
        return self._factors[pool_unit]


@dataclass(frozen=True, slots=True)
class Plan:
    """A request made ready for one machine.

    Args:
        demands: the top level.
        all: every demand, by number.
        slots: the slots, in the order written.
        measured: the type that says how full a node is (`pack`, `spread`): the first one asked for in nodes; -1 for none.
        named: whether any demand names pools by id.
        charged: whether anything is charged along the ways of an auxiliary graph.
        between: the number of the graph of which units are asked for between the nodes of the request; -1 for none.
        lowest: the least counts, by number.
        is_routed: whether units are asked for along routes, to a named pool or between nodes.
    """

    request: Request
    demands: tuple[Demand, ...]
    all: tuple[Demand, ...]
    slots: tuple[Demand, ...]
    measured: int
    named: bool
    charged: bool
    between: int
    lowest: tuple[int, ...]
    is_routed: bool

    @property
    def is_of_one_type(self) -> bool:
        """Whether it asks for pools of one type only, with what is charged for them."""
        sought = [demand for demand in self.all if not demand.is_slot and not demand.charged]
        return len(sought) == 1


def in_turn(demands: Sequence[Demand]) -> list[Demand]:
    """Demands in the order in which they are sought: as written, but what is charged for the others after them."""
    return sorted(demands, key=lambda demand: bool(demand.charged))
