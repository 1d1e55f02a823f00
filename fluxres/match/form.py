"""The forms of request that the vector path accepts.

Nearly every job asks for one of three things: a number of nodes, or of parts of them (`nodes`), a number of equal bundles of
leaf pools, each within a node (`bundles`), or a number of units anywhere (`units`).  In each form, a request needs a number of
units per type in a node, so choosing nodes is arithmetic over one level.  Anything else goes to the traverser.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from math import ceil, prod
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.match.demand import Counts, Demand, Plan
from fluxres.match.node_supply import NodeSupply
from fluxres.match.result import SlotGroup
from fluxres.match.typology import Typology

UNITS_MAX: Final = 1024
"""Requests for more units take the general path, so that nothing is cached for counts that no machine has."""


@dataclass(frozen=True, slots=True)
class LeafDemand:
    """Units of one type requested in a node.

    Args:
        demand: the leaf; `kind` its type number.
        slot: the innermost slot around it below the node or bundle, or None.
        worth: how many requested units one unit of a pool is.
        shares: pools are looked at, not taken.
        is_single: each pool has one unit, so that free pools are bits.
        pools: of the type, ascending.
    """

    demand: Demand
    slot: Demand | None
    worth: Fraction
    shares: bool
    is_single: bool
    pools: Int32 = field(compare=False, repr=False)

    def units(self, counts: Counts) -> int:
        """Units of pools for one instance."""
        count = counts[self.demand.number]
        return count if self.worth == 1 else ceil(count / self.worth)


class Draw(msgspec.Struct, frozen=True):
    """Units of a distributed type that each node (or bundle) draws.

    Args:
        demand: what is charged.
        slot: the innermost slot around it; None for none.
        inner: whether that slot is in the node and repeated in it.
        shared_by: demands whose counts multiply to the number of nodes that share the amount.
    """

    demand: Demand
    slot: Demand | None
    inner: bool
    shared_by: tuple[Demand, ...]

    def number(self, counts: Counts) -> Fraction:
        """The amount requested at one node, per repetition."""
        nodes = 1
        for demand in self.shared_by:
            nodes *= counts[demand.number]
        return Fraction(counts[self.demand.number], nodes)

    def repeats(self, counts: Counts) -> int:
        """How often it is requested at one node."""
        return counts[self.slot.number] if self.inner and self.slot is not None else 1

    def key(self, counts: Counts) -> tuple[object, ...]:
        """Equal for draws that differ only in their amount."""
        return self.demand.channel, self.demand.wanted_unit, self.repeats(counts), self.number(counts).denominator


class NeedsTraverser(Exception):
    """Suppliers overlap so that only a search can decide: the reference traverser has to answer."""


class Load:
    """What the nodes or bundles of a request draw, independent of the window.

    Errors: NeedsTraverser if only a search can decide.
    """

    __slots__ = ("is_able", "supply", "weights")

    def __init__(self, typology: Typology, draws: tuple[Draw, ...], counts: Counts) -> None:
        self.supply: NodeSupply = typology.supply(frozenset(draw.demand.channel for draw in draws))
        if not (self.supply.is_whole and self.supply.is_single):
            raise NeedsTraverser
        #: By supplier, the units that one node or bundle draws (0 if the unit does not convert), and whether the unit converts.
        self.weights = np.zeros(len(self.supply.pools), np.int64)
        self.is_able = np.ones(len(self.supply.pools), np.bool_)
        for draw in draws:
            number = draw.number(counts)
            for at, unit in enumerate(self.supply.units):
                worth = draw.demand.per_unit(unit)
                of = self.supply.charged[draw.demand.channel] & (self.supply.unit_of == at)
                if worth is None:
                    self.is_able &= ~of
                    continue
                units = number / worth
                if draw.shared_by and units.denominator > 1:
                    raise NeedsTraverser  # only the sum of all draws is rounded to whole units
                self.weights[of] += min(draw.repeats(counts) * ceil(units), 2**62 - 1)


class Quantities(NamedTuple):
    """What a form asks for once its counts are fixed.

    Args:
        number: nodes, bundles or units in all.
        needs: units by type number that a node (or a bundle, or one unit) takes.
        units: by part, the units of pools for one instance.
        repeats: by part, how often it is requested in one node or bundle.
    """

    number: int
    needs: dict[int, int]
    units: tuple[int, ...]
    repeats: tuple[int, ...]


class Single(NamedTuple):
    """What a request takes of a single node, known in advance except for the numbers of the pools.

    Args:
        needs: units by type number that the node must have.
        takes_node: the node itself is taken, exclusively; else the first pools with these units.
        amounts, whole, slots: of the match, shared by all matches of the request.
    """

    needs: dict[int, int]
    takes_node: bool
    amounts: Int64
    whole: Mask
    slots: tuple[SlotGroup, ...]


@dataclass(frozen=True)
class Form:
    """A request as the vector path reads it.

    Args:
        sort: one of the three forms.
        node: the demand for nodes (`nodes`).
        outer: the slot around the nodes, or the slot of the bundle.
        parts: what is requested in each node or bundle, in the order written.
        draws: what is charged for each.
        single: what it takes of one node, if it needs just one and its counts leave no choice.
    """

    sort: Literal["nodes", "bundles", "units"]
    node: Demand | None
    outer: Demand | None
    parts: tuple[LeafDemand, ...]
    draws: tuple[Draw, ...] = ()
    single: Single | None = field(default=None, compare=False, repr=False)
    _amounts: dict[Counts, Quantities] = field(default_factory=dict, compare=False, repr=False)
    _loads: dict[Counts, Load] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def part_of(self) -> dict[int, LeafDemand]:
        """By type number, the first part of that type."""
        return {part.demand.kind: part for part in reversed(self.parts)}

    @cached_property
    def kinds(self) -> list[int]:
        """Type numbers of the parts."""
        return sorted(self.part_of)

    @cached_property
    def groups(self) -> list[tuple[int, ...]]:
        """The numbers of the parts by the slot that they are in, in the order written."""
        slots = groupby(enumerate(self.parts), lambda part: part if part[1].slot in (None, self.outer) else part[1].slot)
        return [tuple(number for number, _ in parts) for _, parts in slots]

    def amounts(self, counts: Counts) -> Quantities:
        """What it asks for with these counts; the last result is cached."""
        found = self._amounts.get(counts)
        if found is None:
            found = self._find_amounts(counts)
            self._amounts.clear()
            self._amounts[counts] = found
        return found

    def _find_amounts(self, counts: Counts) -> Quantities:
        units = tuple([part.units(counts) for part in self.parts])
        if self.sort == "units":
            return Quantities(units[0], {self.parts[0].demand.kind: 1}, units, (1,))
        number = (1 if self.outer is None else counts[self.outer.number]) * (1 if self.node is None else counts[self.node.number])
        inner = [part.slot if self.sort == "nodes" and part.slot is not self.outer else None for part in self.parts]
        repeats = tuple([1 if slot is None else counts[slot.number] for slot in inner])
        needs: dict[int, int] = {}
        for part, times, each in zip(self.parts, repeats, units, strict=True):
            needs[part.demand.kind] = needs.get(part.demand.kind, 0) + times * each
        return Quantities(number, needs, units, repeats)

    def load(self, typology: Typology, counts: Counts) -> Load:
        """What a node (or a bundle) draws; the last result is cached.

        Errors: NeedsTraverser if only a search can decide.
        """
        found = self._loads.get(counts)
        if found is None:
            found = Load(typology, self.draws, counts)
            self._loads.clear()
            self._loads[counts] = found
        return found


def form(plan: Plan, typology: Typology) -> Form | None:
    """The form of a request, or None if only the traverser can match it."""
    found = _form(plan, typology)
    return None if found is None else replace(found, single=_single(plan, found))


def _form(plan: Plan, typology: Typology) -> Form | None:
    if len(typology.structure.exclusive_composites):
        return None  # numbers of units do not say whether another job is in a pool
    sought, charged = split(plan.demands)
    if len(sought) != 1 or plan.named or typology.node < 0 or typology.nests(typology.node):
        return None
    if not all(is_simple(demand, typology) for demand in plan.all if demand.charged):
        return None
    top = sought[0]
    if top.is_slot:
        found = _slot(top, typology)
    elif top.kind == typology.node:
        found = _nodes(top, None, typology)
    else:
        parts = _parts((top,), None, typology)
        inside = parts and (typology.node_of[typology.vertices(top.kind)] >= 0).all()
        found = Form("units", None, None, parts) if inside else None
    if found is None or not charged:
        return found
    if found.node is None:
        return None
    nodes = tuple(demand for demand in (found.outer, found.node) if demand is not None)
    return replace(found, draws=(*found.draws, *(Draw(demand, None, inner=False, shared_by=nodes) for demand in charged)))


def _slot(top: Demand, typology: Typology) -> Form | None:
    sought, charged = split(top.children)
    if len(sought) == 1 and sought[0].kind == typology.node:
        found = _nodes(sought[0], top, typology)
        draws = tuple(Draw(demand, top, inner=False, shared_by=(sought[0],)) for demand in charged)
        return None if found is None else replace(found, draws=(*found.draws, *draws))
    parts = _parts(tuple(sought), top, typology)
    if not parts or not top.confined or top.beside:
        return None
    return Form("bundles", None, top, parts, tuple(Draw(demand, top, inner=False, shared_by=()) for demand in charged))


def _nodes(node: Demand, outer: Demand | None, typology: Typology) -> Form | None:
    if not node.children:
        takes_any = node.whole or not typology.facts(node.kind).is_flagged
        return Form("nodes", node, outer, ()) if node.wanted_unit is None and takes_any else None
    parts: list[LeafDemand] = []
    draws: list[Draw] = []
    for child in node.children:
        sought, charged = split(child.children if child.is_slot else (child,))
        slot = child if child.is_slot else outer
        found = _parts(tuple(sought), slot, typology)
        if sought and not found:
            return None
        parts += found
        draws += (Draw(demand, slot, inner=child.is_slot, shared_by=()) for demand in charged)
    return Form("nodes", node, outer, tuple(parts), tuple(draws))


def _parts(demands: tuple[Demand, ...], slot: Demand | None, typology: Typology) -> tuple[LeafDemand, ...]:
    """Leaf demands as parts; empty if one of them is not simple."""
    found = []
    for demand in demands:
        part = None if demand.is_slot or demand.children else _part(demand, slot, typology)
        if part is None:
            return ()
        found.append(part)
    return tuple(found)


def _part(demand: Demand, slot: Demand | None, typology: Typology) -> LeafDemand | None:
    kind = demand.kind
    facts = typology.facts(kind)
    if demand.upstream or kind not in typology.in_node or typology.below[kind] or facts.is_flagged:
        return None
    ones = facts.least == facts.most == 1
    if len(facts.units) != 1 or not (ones or (facts.least > 1 and not demand.whole)):
        return None
    worth = demand.per_unit(next(iter(facts.units)))
    return None if worth is None else LeafDemand(demand, slot, worth, demand.shared and ones, ones, typology.vertices(kind))


def _single(plan: Plan, form: Form) -> Single | None:
    """What a request takes of one node; None if it may take more than one node, or pools with several units."""
    counts = plan.lowest
    if plan.loose or (amounts := form.amounts(counts)).number != 1:
        return None
    if any(draw.inner or draw.slot is not form.outer for draw in form.draws):
        return None
    if form.node is not None:
        whole = form.node.whole if form.node.children else not form.node.shared
        fits = whole and not (form.draws and form.node.children)
        return _of_one_node(plan, amounts.needs, 1, takes_node=True) if fits else None
    is_plain = all(not part.shares and part.worth == 1 and part.is_single for part in form.parts)
    number = sum(amounts.needs.values())
    fits = number <= UNITS_MAX and len(amounts.needs) == len(form.parts)
    return _of_one_node(plan, amounts.needs, number, takes_node=False) if is_plain and fits else None


def _of_one_node(plan: Plan, needs: dict[int, int], number: int, *, takes_node: bool) -> Single:
    amounts, whole = np.ones(number, np.int64), np.ones(number, np.bool_)
    slots = []
    for slot in plan.slots:
        instances = prod(plan.lowest[each] for each in slot.total)
        starts, picks = np.arange(instances + 1) * number, np.zeros(instances, np.int64) if takes_node else np.arange(number)
        starts.flags.writeable = picks.flags.writeable = False
        slots.append(SlotGroup(slot.label, starts, picks))
    amounts.flags.writeable = whole.flags.writeable = False  # shared by all matches of this request
    return Single(needs, takes_node, amounts, whole, tuple(slots))


def is_simple(demand: Demand, typology: Typology) -> bool:
    """Whether a charge is just a number of units: not shared, not exclusive, and not of pools in nodes."""
    kind = demand.kind
    facts = typology.facts(kind)
    return (
        demand.even
        and not (demand.whole or demand.named or facts.is_flagged or typology.is_drawn_in_nodes(kind))
        and (not demand.shared or facts.least > 1)
    )


def split(demands: tuple[Demand, ...]) -> tuple[list[Demand], list[Demand]]:
    """Demands that are searched for, and demands that are charged."""
    return [demand for demand in demands if not demand.charged], [demand for demand in demands if demand.charged]
