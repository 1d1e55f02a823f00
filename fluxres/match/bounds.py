"""Requests that are impossible by numbers alone: RFC 4's Pruning Filter over a whole machine.

Every pool satisfies one part of a request, so a request cannot ask for more of a type than is free.  A part that takes nodes
exclusively leaves the other parts less, by at least what the emptiest nodes contain.  `Bounds` checks both.

`SupplyBound` is an upper bound on how many pools their suppliers can supply at once.  Each supplier limits what the pools that
draw from it draw together.  Assume that of any two suppliers, one supplies all the pools that the other one does, or none of
them.  Then take the pools in ascending order of what they draw, each if its suppliers have enough for it: the result is the
largest possible number.  Proof: suppose another choice contains a pool that this one leaves out.  Of the suppliers that had too
little for it, take the one that supplies the fewest pools: it supplies some chosen pool that draws no more.  Replacing one by the
other in that choice is possible, because the suppliers they share are not charged more than before.

Suppliers for which the assumption does not hold together (groups that overlap partly, pools that draw more from one and less from
another) are split into sets for which it holds.  Each set gives a bound of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import NamedTuple

import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.match.accumulator import Charger
from fluxres.match.demand import Counts, Demand, Plan
from fluxres.match.paths import Givers
from fluxres.match.situation import Situation, having

NEVER = 2**62
"""More units than any machine contains."""


class Bounds:
    """Bounds for one request with fixed counts in one situation.

    Args:
        node_exclusive: every node that is touched is taken exclusively.
    """

    def __init__(self, situation: Situation, plan: Plan, counts: Counts, *, node_exclusive: bool) -> None:
        self._situation = situation
        self._plan = plan
        self._counts = counts
        self._node_exclusive = node_exclusive
        self._free = situation.totals()
        self._needed = self._add_up(plan.demands, 1)

    def is_conceivable(self) -> bool:
        """Whether enough units of every type are free for all parts together.  Cost: the totals of the machine."""
        enough = all(units <= self._free[kind] for kind, units in self._needed.items()) and self._can_be_looked_at()
        return enough and all(map(self._are_there_with_properties, self._plan.all))

    def _are_there_with_properties(self, demand: Demand) -> bool:
        """Whether enough units are free in pools with the properties that a part requests, for one instance around it."""
        number = self._counts[demand.number]
        if not demand.properties or not number or demand.charged:
            return True
        typology, situation = self._situation.typology, self._situation
        pools = typology.vertices(demand.kind)
        worth = 1 if demand.children else typology.most_worth(demand)
        free = int(situation.free_everywhere[pools[having(situation.structure, pools, demand.properties)]].sum())
        return bool(worth) and ceil(number / worth) <= free

    def _can_be_looked_at(self) -> bool:
        """Whether there are enough pools for the demands that only look at pools on a supply path; these pools can be shared."""
        worth = self._situation.typology.most_worth
        looked = [demand for demand in self._plan.all if demand.charged and demand.shared]
        return all(self._counts[d.number] <= int(self._free[d.kind]) * worth(d) for d in looked)

    def _add_up(self, demands: tuple[Demand, ...], times: int) -> dict[int, int]:
        """The least number of free units of each type."""
        needed: dict[int, int] = {}
        for demand in demands:
            number = times * self._counts[demand.number]
            if not demand.is_slot and not demand.flow and not demand.own and not (demand.charged and demand.shared):
                worth = 1 if demand.children else self._situation.typology.most_worth(demand)
                needed[demand.kind] = needed.get(demand.kind, 0) + (ceil(number / worth) if worth else NEVER)
            for kind, units in self._add_up(demand.children, number).items():
                needed[kind] = needed.get(kind, 0) + units
        return needed

    def lacking_in(self, groups: Sequence[Int64]) -> Mask:
        """Which groups of nodes (given by their indexes) have too few units for all parts, even if nothing else prevents a match.

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
        if not demand.children and typology.facts(demand.kind).most > 1:
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

    def _units_in(self, pools: Int32, kind: int) -> Int64:
        """Free units of a type in each pool that may be taken exclusively; 0 in pools that are not free themselves."""
        situation, typology = self._situation, self._situation.typology
        structure = situation.structure
        inner = typology.vertices(kind)
        free = situation.free_everywhere
        sums = np.concatenate([[0], np.cumsum(free[inner])])
        found = sums[inner.searchsorted(structure.end[pools])] - sums[inner.searchsorted(pools)]
        there: Int64 = found[free[pools] > 0]
        return there


Needs = dict[Givers, Fraction | int]
"""By supplier, what one pool draws from it, in the unit of the request."""


class PoolCharge(NamedTuple):
    """Something that is charged for each pool that satisfies a demand.

    Args:
        demand: the pools.
        charge: what is charged.
        number: pools, over all instances around them.
        each: what each pool draws; None for what it draws on its own.
    """

    demand: Demand
    charge: Demand
    number: int
    each: Fraction | None


class SupplyBound:
    """The bound that suppliers set for one request with fixed counts.

    Args:
        situation: what is available.
        charger: of a search that has taken nothing.
    """

    def __init__(self, situation: Situation, plan: Plan, counts: Counts, charger: Charger) -> None:
        self._situation = situation
        self._plan = plan
        self._counts = counts
        self._charger = charger

    def is_below(self, candidates: Callable[[Demand], Sequence[int]]) -> bool:
        """Whether the suppliers of some part have enough for fewer pools than it requests.

        Args:
            candidates: the pools that may satisfy a demand; extra ones do no harm.

        Cost: the suppliers of each candidate, for everything that is charged.
        """
        together: dict[object, list[PoolCharge]] = {}
        for found in self._all_charged(self._plan.demands, 1):
            # What pools draw on their own is the same whichever part they satisfy, and each satisfies one.
            key = (found.demand.kind, found.charge.kind) if found.each is None else found.charge.number
            together.setdefault(key, []).append(found)
        for parts in together.values():
            number = sum(part.number for part in parts)
            pools = dict.fromkeys(v for part in parts for v in candidates(part.demand))
            if self._most(parts[0], pools) < number:
                return True
        return False

    def _all_charged(self, demands: tuple[Demand, ...], times: int) -> Iterator[PoolCharge]:
        sought = [demand for demand in demands if not demand.charged]
        for demand in demands:
            number = times * self._counts[demand.number]
            if demand.children and not demand.is_slot:
                below = [child for child in demand.children if child.charged == "below"]
                yield from (PoolCharge(demand, child, number, self._each(child, 1)) for child in below)
            if demand.charged == "siblings" and len(sought) == 1 and self._is_in_nodes(sought[0]):
                shared_by = self._counts[sought[0].number]
                yield PoolCharge(sought[0], demand, times * shared_by, self._each(demand, shared_by))
            yield from self._all_charged(demand.children, number)

    def _is_in_nodes(self, demand: Demand) -> bool:
        """Whether a demand asks for a number of nodes."""
        typology = self._situation.typology
        in_pools = bool(demand.children) or (demand.wanted_unit is None and typology.facts(demand.kind)[:2] == (1, 1))
        return demand.kind == typology.node >= 0 and in_pools

    def _each(self, charge: Demand, shared_by: int) -> Fraction | None:
        return None if charge.own else Fraction(self._counts[charge.number], shared_by)

    def _most(self, charged: PoolCharge, pools: Sequence[int] | dict[int, None]) -> int:
        """The largest number of these pools that can be supplied."""
        needs = [found for v in pools if (found := self._needs(charged, v)) is not None]
        left = {givers: self._there(charged.charge, givers) for givers in {givers for each in needs for givers in each}}
        return most(needs, left)

    def _needs(self, charged: PoolCharge, v: int) -> Needs | None:
        """What one pool draws; None if nothing supplies it."""
        typology, found = self._situation.typology, Needs()
        if charged.each is not None:
            charges = typology.paths.charged(v, charged.charge.channel)
            return None if charges is None else self._rounded(charged.charge, {g: part * charged.each for g, part in charges})
        for _, _, parts in typology.charged_by_itself(v, charged.charge.kind):
            if parts is None:
                return None
            for givers, units in parts:
                found[givers] = found.get(givers, 0) + units
        return found

    def _rounded(self, charge: Demand, needs: dict[Givers, Fraction]) -> Needs:
        """Rounded up to whole units of each supplier; nothing for what is only looked at."""
        found = Needs()
        for givers, number in needs.items():
            if any(self._charger.is_only_looked_at(charge, v) for v in givers):
                continue
            is_whole = len(givers) == 1 and charge.charged == "below"
            worth = charge.per_unit(self._situation.accounts.unit(givers[0])) if is_whole else None
            found[givers] = ceil(number / worth) * worth if worth else number
        return found

    def _there(self, charge: Demand, givers: Givers) -> Fraction:
        """What a supplier has, in the unit of the request."""
        unit = self._situation.accounts.unit
        return sum(((charge.per_unit(unit(v)) or 0) * Fraction(self._charger.room(charge, v)) for v in givers), Fraction(0))


def most(needs: Sequence[Needs], left: dict[Givers, Fraction]) -> int:
    """The largest number of pools that can be supplied, or an upper bound if the suppliers can only be judged in sets.

    Args:
        needs: of each pool.
        left: what each supplier has.

    >>> feed, pdu, other = (0,), (1,), (2,)
    >>> needs = [{feed: 6, pdu: 6}, {feed: 6, pdu: 6}, {feed: 9, pdu: 9}, {feed: 7, other: 7}]
    >>> most(needs, {feed: Fraction(20), pdu: Fraction(13), other: Fraction(9)})
    3
    """
    order = sorted(range(len(needs)), key=lambda at: max(needs[at].values(), default=0))
    members: dict[Givers, list[int]] = {}
    for at in order:
        for givers, units in needs[at].items():
            if units:
                members.setdefault(givers, []).append(at)
    found = len(needs)
    for family in _families(needs, members):
        if len(family) == 1:
            (givers,) = family
            among = sorted(members[givers], key=lambda at: needs[at][givers])
            number = len(needs) - len(among)
        else:
            among, number = order, 0
        rest = dict(left)
        for at in among:
            drawn = [(givers, needs[at].get(givers, 0)) for givers in needs[at] if givers in family]
            if all(units <= rest[givers] for givers, units in drawn):
                number += 1
                for givers, units in drawn:
                    rest[givers] -= units
        found = min(found, number)
    return found


def _families(needs: Sequence[Needs], members: dict[Givers, list[int]]) -> list[set[Givers]]:
    """Sets of suppliers such that within each, no two groups overlap partly and the draws have one common ascending order."""
    found: list[set[Givers]] = []
    around: list[list[Givers | None]] = []
    for givers, group in sorted(members.items(), key=lambda item: -len(item[1])):
        drawn = [needs[at][givers] for at in group]
        if any(b < a for a, b in pairwise(drawn)):
            found.append({givers})
            around.append([])
            continue
        fitting = (k for k, inner in enumerate(around) if inner and all(inner[at] == inner[group[0]] for at in group))
        place = next(fitting, len(found))
        if place == len(found):
            found.append(set())
            around.append([None] * len(needs))
        found[place].add(givers)
        for at in group:
            around[place][at] = givers
    return found
