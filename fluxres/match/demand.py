"""A request compiled for one machine: types as numbers, how each part is allocated, and which parts compete.

Everything here follows from the request and the types of a machine, so `plan.py` compiles a request only once. The rules are
those of `specs/matching.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import msgspec

from fluxres.errors import InputError
from fluxres.syntax import unit
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec import Request

Counts = tuple[int, ...]
"""How many of each demand of a plan, by number."""


class Demand(msgspec.Struct, eq=False):
    """One resource vertex of a request.

    Args:
        number: position among all demands, in the order written.
        place: such as ``resources[0].with[1]``.
        kind: type number; -1 for a slot.
        whole: pools are taken exclusively: exclusive pools with children, and explicitly exclusive ones without.
        shared: a pool of size 1 is looked at, but not taken.
        per_unit: by unit of a pool, how many requested units one of its units is; 1 if the request names no unit.
        charged: of a distributed type, and not picked: charged on the supply paths of the pool it is requested in (``below``), or
            of the pools taken for its sibling demands (``siblings``); empty if it is picked.
        upstream: of a distributed type, and picked: the units taken are also charged on the supply path above.
        channel: what it is charged as: the type, or for units towards a named pool the number of the routes to it.
        properties: that the pools must have, or with `^` in front must not have.
        to: the pool at the other end of these routes, as the request names it; for units between nodes, where the nodes meet.
        flow: it names an auxiliary graph: everything in it that carries or gives units is charged.
        own: the own draw of the pool that contains the demand, with everything in it; that is the count if `even`.
        even: for an `own` demand: whether all pools draw the same.
        draws: the own draw of pools, if only some of the candidates are taken exclusively.
        confined: a slot above nodes, each instance of which must be within one node.
        inside: children of a confined slot that are searched for in its node; the others are searched for where the slot is.
        settled: no choice for one instance can interfere with a later choice; None until the traverser needs to know.
        total: instances requested within the nearest pool above, over all slots between, as numbers of demands to multiply.
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
    properties: tuple[str, ...] = ()
    draws: tuple[Demand, ...] = ()
    children: tuple[Demand, ...] = ()
    confined: bool = False
    inside: tuple[Demand, ...] = ()
    beside: tuple[Demand, ...] = ()
    settled: bool | None = None
    total: tuple[int, ...] = ()
    _factors: dict[str | None, Fraction | None] = msgspec.field(default_factory=dict)

    @property
    def is_slot(self) -> bool:
        """Whether it only groups its children."""
        return self.kind < 0

    @property
    def is_picked(self) -> bool:
        """Whether a pool is taken or looked at for it, rather than charged, or found only through its children."""
        return not self.is_slot and not self.charged and (self.whole or not self.children)

    @property
    def named(self) -> bool:
        """Whether it selects pools by id, name or property."""
        return self.ids is not None or self.names is not None or bool(self.properties)

    def per_unit(self, pool_unit: str | None) -> Fraction | None:
        """How many requested units one unit of a pool is; None if the units do not convert.

        Without a unit in the request, it is the pool's own.
        """
        if self.wanted_unit is None or self.wanted_unit == pool_unit:
            return Fraction(1)
        if pool_unit not in self._factors:
            try:
                self._factors[pool_unit] = Fraction(unit.convert(1, pool_unit, self.wanted_unit))
            except InputError:
                self._factors[pool_unit] = None
        return self._factors[pool_unit]


class Plan(msgspec.Struct, frozen=True):
    """A request compiled for one machine.

    Args:
        demands: the top level.
        all: every demand, by number.
        slots: the slots, in the order written.
        measured: the type that measures how full a node is (`pack`, `spread`): the first one requested in nodes; -1 for none.
        named: whether any demand selects pools by id, name or property.
        charged: whether anything is charged along paths of an auxiliary graph.
        between: the number of the graph of which the request asks for units between its nodes; -1 for none.
        lowest: the minimum counts, by number.
        loose: the demands whose counts leave a choice.
        is_routed: whether units are requested along routes, to a named pool or between nodes.
    """

    request: Request
    demands: tuple[Demand, ...]
    all: tuple[Demand, ...]
    slots: tuple[Demand, ...]
    measured: int
    named: bool
    charged: bool
    between: int
    lowest: Counts
    loose: tuple[Demand, ...]
    is_routed: bool

    @property
    def is_of_one_type(self) -> bool:
        """Whether it asks for pools of one type only, apart from charges."""
        sought = [demand for demand in self.all if not demand.is_slot and not demand.charged]
        return len(sought) == 1


def in_turn(demands: Sequence[Demand]) -> list[Demand]:
    """Demands in search order: as written, but charges after the demands that they are for."""
    return sorted(demands, key=lambda demand: bool(demand.charged))
