"""A request as one machine understands it: types as numbers, exclusivity as what is to be done, parts that compete.

Everything here follows from the request and the types of a machine, so it is found once for a request that is asked again.
The rules are those of `specs/matching.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from fluxres.errors import InfeasibleRequest, InputError
from fluxres.match.typology import NODE, Typology
from fluxres.syntax import hostlist, unit
from fluxres.syntax.count import Count
from fluxres.syntax.jobspec import Request, Vertex


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
        charged: stands only outside the has-a tree, so that it is charged along the way from the pool it is asked for in.
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
    charged: bool = False
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
        charged: whether any demand is charged along the ways of an auxiliary graph.
    """

    request: Request
    demands: tuple[Demand, ...]
    all: tuple[Demand, ...]
    slots: tuple[Demand, ...]
    measured: int
    named: bool
    charged: bool

    @property
    def lowest(self) -> tuple[int, ...]:
        """The least counts, by number."""
        return tuple(demand.count.min for demand in self.all)


def plan(request: Request, typology: Typology) -> Plan:
    """Make a request ready for a machine.

    Errors: InfeasibleRequest for a type that the machine does not have, with the types that it has.
    """
    reader = _Reader(typology)
    demands = reader.read(request.resources, "resources", in_node=False)
    for demand in reader.all:
        if demand.confined:
            demand.inside, demand.beside = reader.split(demand)
    relation = _Relations(typology)
    relation.settle(demands, frozenset())
    _set_totals(demands, ())
    leaves = [demand.kind for demand in reader.all if not demand.children and demand.kind in typology.in_node]
    return Plan(
        request,
        demands,
        tuple(reader.all),
        tuple(demand for demand in reader.all if demand.is_slot),
        leaves[0] if leaves else -1,
        any(demand.named for demand in reader.all),
        any(demand.charged for demand in reader.all),
    )


class _Reader:
    def __init__(self, typology: Typology) -> None:
        self.typology = typology
        self.all: list[Demand] = []

    def read(self, vertices: Iterable[Vertex], place: str, *, in_node: bool) -> tuple[Demand, ...]:
        return tuple(
            self.demand(vertex, f"{place}[{at}]", in_node)
            for at, vertex in enumerate(vertices)
            if vertex.count.max != 0  # the count 0, which RFC 25 knows for gpus
        )

    def demand(self, vertex: Vertex, place: str, in_node: bool) -> Demand:
        typology = self.typology
        kind = -1 if vertex.is_slot else typology.numbers.get(vertex.type, -1)
        if kind < 0 and not vertex.is_slot:
            known = ", ".join(sorted(typology.numbers)[:20])
            raise InfeasibleRequest(
                f"no pool of type '{vertex.type}' in this graph",
                where=place,
                hint=f"types are {known}",
                reasons={place: f"no pool of type '{vertex.type}'"},
            )
        ranges = vertex.id_ranges
        made = Demand(
            len(self.all),
            place,
            vertex.type,
            kind,
            vertex.count,
            vertex.label,
            None if ranges is None else tuple(ranges),
            _names(vertex.ids, place) if vertex.ids is not None and ranges is None else None,
            None if vertex.children else vertex.unit,
            whole=vertex.is_exclusive if vertex.children else bool(vertex.exclusive),
            shared=not vertex.is_exclusive and not vertex.children,
            charged=not vertex.is_slot and not vertex.children and typology.is_outside(kind),
        )
        self.all.append(made)
        made.children = self.read(vertex.children, f"{place}.with", in_node=in_node or vertex.type == NODE)
        made.confined = (
            vertex.is_slot
            and not in_node
            and not self._has_node(made.children)
            and any(self._is_in_node(child) for child in made.children)
        )
        return made

    def _has_node(self, demands: Sequence[Demand]) -> bool:
        return any(demand.kind == self.typology.node >= 0 or self._has_node(demand.children) for demand in demands)

    def _is_in_node(self, demand: Demand) -> bool:
        """Whether a child of a slot is to be sought in a node: its type occurs there; for a slot, those of all its parts do."""
        if demand.is_slot:
            return all(map(self._is_in_node, demand.children))
        return demand.kind in self.typology.in_node

    def split(self, slot: Demand) -> tuple[tuple[Demand, ...], tuple[Demand, ...]]:
        inside = [child.charged or self._is_in_node(child) for child in slot.children]
        paired = list(zip(slot.children, inside, strict=True))
        return tuple(child for child, within in paired if within), tuple(child for child, within in paired if not within)


def _names(text: str, place: str) -> frozenset[str]:
    try:
        return frozenset(hostlist.parse(text))
    except InputError as error:
        raise type(error)(f"id: {error.message}", where=place, hint="an idset such as 0-3, or names as in a hostlist") from None


def _set_totals(demands: Iterable[Demand], above: tuple[int, ...]) -> None:
    for demand in demands:
        demand.total = (*above, demand.number)
        _set_totals(demand.children, demand.total if demand.is_slot else ())


Footprint = frozenset[tuple[int, bool]]
"""(type, whether a pool of it may be taken whole) of everything that a demand may take or pass through."""


class _Relations:
    """Which demands can be in each other's way, by their types alone.  Cost: in the demands, times the types they name."""

    def __init__(self, typology: Typology) -> None:
        self.typology = typology
        self._footprints: dict[int, Footprint] = {}
        self._fungible: dict[int, bool] = {}

    def settle(self, demands: Sequence[Demand], later: Footprint) -> None:
        """Find out for each demand whether what is chosen for it can hinder what comes later (`later`, from the levels above)."""
        for demand in reversed(demands):
            own = self._footprint(demand)
            demand.settled = self._is_fungible(demand) and not self._meet(own, later)
            # Other instances come later too and may draw on the same pools, unless they cannot be in the way.
            self.settle(demand.children, later if self._is_fungible(demand) else later | own)
            later |= own

    def _is_fungible(self, demand: Demand) -> bool:
        """Whether an instance may take any of what there is without leaving too little for the next one of the same demand."""
        found = self._fungible.get(demand.number)
        if found is None:
            found = self._fungible[demand.number] = self._find_fungible(demand)
        return found

    def _find_fungible(self, demand: Demand) -> bool:
        if demand.children and self._is_charged(demand) and not self.typology.paths.is_forest:
            return False
        if demand.is_slot:
            return all(map(self._is_fungible, demand.children)) and not self._compete(demand.children)
        if self.typology.nests(demand.kind):
            return False
        if demand.children:
            return True
        least, most = self.typology.least_and_most(demand.kind)
        alike = len(self.typology.units(demand.kind)) == 1
        if alike and least == most:
            return True
        return alike and not demand.whole and not self.typology.is_flagged(demand.kind)

    def _is_charged(self, demand: Demand) -> bool:
        return demand.charged or any(map(self._is_charged, demand.children))

    def _compete(self, demands: Sequence[Demand]) -> bool:
        """Whether any two can be in each other's way."""
        before: Footprint = frozenset()
        for demand in demands:
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
            own = () if demand.is_slot else ((demand.kind, not demand.shared and (demand.whole or not demand.children)),)
            found = self._footprints[demand.number] = frozenset(own).union(*map(self._footprint, demand.children))
        return found
