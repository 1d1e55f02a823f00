"""What the suppliers of a request lack: power on a PDU, bandwidth of an uplink."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from fluxres import limits
from fluxres.graph.draws import ONLY_A_WAY
from fluxres.match.demand import Demand, Plan
from fluxres.match.paths import Givers
from fluxres.match.refusal import listed
from fluxres.match.situation import Situation
from fluxres.syntax import unit


class SupplyShortage(NamedTuple):
    """What is available of a charged demand.

    Args:
        asked: units requested; if pools draw differently, by those that draw least.
        each: what the first and the last of these pools draw.
        room: requested units that can be supplied.
        suppliers: the number of suppliers.
        short: those that could not give, each as the pools that give together; those that limit the number first, then by what
            they have free.
        astray: pools that nothing supplies, or that have no route to the named pool.
    """

    asked: int
    each: tuple[int, int]
    room: int
    suppliers: int
    short: tuple[Givers, ...]
    astray: tuple[int, ...] = ()


class PoolDraw(NamedTuple):
    """What one pool draws from each supplier each time, and how often at most."""

    needs: dict[Givers, Fraction]
    most: int
    units: Fraction


class Supplies:
    """Which suppliers have too little in one situation: produces texts such as "power on pdu3: 400 of 500 W free".

    Instances are supplied one after the other, as a match would do, ignoring what other parts of the same match take.  A supplier
    that cannot supply one of them is short; the number of instances supplied is what is available.
    """

    def __init__(self, situation: Situation, plan: Plan) -> None:
        self._situation = situation
        self._plan = plan
        self._paths = situation.typology.paths
        self._around: dict[int, tuple[Demand, ...]] = {}
        self._names: dict[tuple[int, bool], Counter[str]] = {}
        for demand in plan.all:
            for child in demand.children:
                self._around[child.number] = (demand, *self._around.get(demand.number, ()))

    def of(self, demand: Demand, times: int, candidates: Callable[[Demand], Sequence[int]]) -> SupplyShortage:
        """The shortage for a demand that is charged, or picked and charged upstream, and requested `times` times.

        Args:
            candidates: the pools that could satisfy a demand if supplies did not matter.

        Cost: walks over the pools that may be supplied, one for each level of limiting suppliers.
        """
        if demand.upstream:
            return self._picked(demand, times * demand.count.min)
        if demand.own:
            return self._drawn(demand, times, candidates)
        amount = Fraction(demand.count.min)
        pools, most, shared_by = self._consumers(demand, times)
        loads: list[PoolDraw] = []
        astray: list[int] = []
        for v in pools:
            charges = self._paths.charged(v, demand.channel)
            if charges is None:
                astray.append(v)
                continue
            needs = {givers: self._rounded(demand, givers, amount / shared_by * part) for givers, part in charges}
            loads.append(PoolDraw(needs, most, amount / shared_by))
        supplied, short = self._in_the_way(demand, loads, times * shared_by)
        asked = times * demand.count.min
        room = asked if supplied is None and not astray else int(supplied or 0)
        return SupplyShortage(asked, (demand.count.min,) * 2, room, len(_suppliers(loads)), short, tuple(astray))

    def _drawn(self, demand: Demand, times: int, candidates: Callable[[Demand], Sequence[int]]) -> SupplyShortage:
        """The shortage for what pools draw on their own: pools that draw least are supplied first."""
        above = self._around[demand.number][0]
        every = self._situation.eligible.candidates(above.kind).tolist()
        draws = self._situation.typology.draws.total(demand.type)
        pools = sorted(candidates(above) or every, key=draws.item)
        loads: list[PoolDraw] = []
        astray: list[int] = []
        for v in pools:
            needs = self.needs_by_itself(demand, v)
            if needs is None:
                astray.append(v)
            else:
                loads.append(PoolDraw(needs, 1, Fraction(draws.item(v))))
        supplied, short = self._in_the_way(demand, loads, times)
        first = [draws.item(v) for v in pools[:times]]
        asked = sum(first) + (times - len(first)) * first[-1]
        room = asked if supplied is None and not astray else int(supplied or 0)
        return SupplyShortage(asked, (first[0], first[-1]), room, len(_suppliers(loads)), short, tuple(astray))

    def needs_by_itself(self, demand: Demand, v: int) -> dict[Givers, Fraction] | None:
        """What a pool draws on its own from each supplier; None if nothing supplies it."""
        found: dict[Givers, Fraction] = {}
        for _, _, parts in self._situation.typology.charged_by_itself(v, demand.kind):
            if parts is None:
                return None
            for givers, units in parts:
                found[givers] = found.get(givers, Fraction(0)) + units
        return found

    def _in_the_way(self, demand: Demand, loads: list[PoolDraw], wanted: int) -> tuple[Fraction | None, tuple[Givers, ...]]:
        """The units that can be supplied (None if unlimited), and the suppliers that prevent more.

        Of the suppliers that have nothing left for a pool, only those that supply the most pools count, since what is attached to
        them could have any amount.  If these alone do not explain the shortage, the next ones count as well.
        """
        number = Counter(givers for load in loads for givers in load.needs)
        short: list[Givers] = []
        units: Fraction | None = None
        while True:
            known = set(short)
            times, left = self._walk(demand, loads, wanted, known)
            units = (
                sum((load.units * often for load, often in zip(loads, times, strict=True)), Fraction(0))
                if units is None
                else units
            )
            if sum(times) >= wanted:
                break
            found: set[Givers] = set()
            for load, often in zip(loads, times, strict=True):
                if often < load.most:
                    found |= self._outermost(demand, load, left, known, number)
            if not found:
                break
            short += sorted(found, key=self._tightest)
        return units if short else None, tuple(short)

    def _outermost(
        self, demand: Demand, load: PoolDraw, left: dict[int, int], known: set[Givers], number: Counter[Givers]
    ) -> set[Givers]:
        """Of the suppliers with too little left for a pool, those that supply the most pools, except those already known."""
        lacking = [
            givers for givers, need in load.needs.items() if givers not in known and need > self._there(demand, givers, left)
        ]
        most = max((number[givers] for givers in lacking), default=0)
        return {givers for givers in lacking if number[givers] == most}

    def _walk(
        self, demand: Demand, loads: list[PoolDraw], wanted: int, unlimited: set[Givers]
    ) -> tuple[list[int], dict[int, int]]:
        """Supply one pool after the other: how often each was supplied, and what is left by account."""
        left: dict[int, int] = {}
        found: list[int] = []
        for load in loads:
            needs = {givers: need for givers, need in load.needs.items() if givers not in unlimited}
            times, _ = self._supply(demand, needs, min(load.most, wanted), left)
            wanted -= times
            found.append(times)
        return found, left

    def _supply(self, demand: Demand, needs: dict[Givers, Fraction], most: int, left: dict[int, int]) -> tuple[int, list[Givers]]:
        """Take what is needed as often as possible; returns that number, and the suppliers that could not give more."""
        room = {givers: self._there(demand, givers, left) // need for givers, need in needs.items() if need}
        times = min([most, *room.values()])
        for givers, need in needs.items():
            rest = times * need
            for u in givers:
                worth = self._worth(demand, u)
                units = min(left.get(u, self.most(u)), ceil(rest / worth)) if worth else 0
                left[u] = left.get(u, self.most(u)) - units
                rest -= units * worth
        return times, [givers for givers in room if room[givers] == times < most]

    def lacking(self, demand: Demand, v: int) -> list[Givers] | None:
        """Suppliers that have too little for one instance requested at a pool; None if nothing supplies it."""
        needs = self.needs_by_itself(demand, v) if demand.own else self._needs(demand, v)
        return None if needs is None else [givers for givers, need in needs.items() if need > self._there(demand, givers, {})]

    def _needs(self, demand: Demand, v: int) -> dict[Givers, Fraction] | None:
        charges = self._paths.charged(v, demand.channel)
        return None if charges is None else {givers: demand.count.min * part for givers, part in charges}

    def _there(self, demand: Demand, givers: Givers, left: dict[int, int]) -> Fraction:
        """What a supplier has, in the unit of the request."""
        return sum((left.get(u, self.most(u)) * self._worth(demand, u) for u in givers), Fraction(0))

    def most(self, u: int) -> int:
        """Units that one match can take of a supplier; all of them would be the pool itself."""
        return self._situation.free(u) - self.is_in_use_below(u)

    def is_in_use_below(self, u: int) -> bool:
        """Whether all units of a pool are free but cannot be taken together, because something below it is held."""
        situation = self._situation
        return situation.free(u) == situation.size[u] > 1 and not situation.is_clear(u)

    def _rounded(self, demand: Demand, givers: Givers, number: Fraction) -> Fraction:
        """Rounded up to whole units of the supplier."""
        worth = self._worth(demand, givers[0])
        return ceil(number / worth) * worth if worth else Fraction(number)

    def _worth(self, demand: Demand, u: int) -> Fraction:
        return demand.per_unit(self._situation.accounts.unit(u)) or Fraction(0)

    def _picked(self, demand: Demand, asked: int) -> SupplyShortage:
        """The shortage for pools that are picked: what they have, as far as their suppliers have it too."""
        left: dict[int, int] = {}
        short: set[Givers] = set()
        room = 0
        pools = self._situation.typology.vertices(demand.kind).tolist()
        for v in pools:
            charges = (((v,), Fraction(1)), *self._paths.upstream(v, demand.kind))
            needs = {givers: self._rounded(demand, givers, part) for givers, part in charges}
            number, lacking = self._supply(demand, needs, asked - room, left)
            room += number
            short.update(lacking)
            if room >= asked:
                break
        return SupplyShortage(asked, (demand.count.min,) * 2, room, len(pools), tuple(sorted(short, key=self._tightest)))

    # -- consumers ---------------------------------------------------------------------------------------------------

    def _consumers(self, demand: Demand, times: int) -> tuple[Iterable[int], int, int]:
        """The pools to supply, how often each at most, and how many of them share the requested amount."""
        if demand.charged == "siblings":
            return self._nodes(), 1, self._beside(demand)
        often = 1
        for above in self._around.get(demand.number, ()):
            if above.confined:
                break
            if not above.is_slot:
                return self._of_type(above.kind), often, 1
            often *= above.count.min
        return self._nodes(), times, 1

    def _nodes(self) -> list[int]:
        typology = self._situation.typology
        return self._of_type(typology.node) if typology.node >= 0 else []

    def _of_type(self, kind: int) -> list[int]:
        """Pools to supply; if none is free, all of them, to show how much could be supplied."""
        pools: list[int] = self._situation.eligible.candidates(kind).tolist()
        return [v for v in pools if self._situation.free(v)] or pools

    def _beside(self, demand: Demand) -> int:
        """How many nodes share what is charged for them, if the request specifies it."""
        outer = self._around.get(demand.number, ())
        beside = [child for child in (outer[0].children if outer else self._plan.demands) if not child.charged]
        number = 1
        while len(beside) == 1:
            number *= beside[0].count.min
            if beside[0].kind == self._situation.typology.node:
                return number
            beside = [child for child in beside[0].children if not child.charged]
        return 1

    # -- words -------------------------------------------------------------------------------------------------------

    def in_words(self, givers: Givers) -> str:
        """A supplier and what it has, such as ``power on pdu3: 400 of 500 W free``, and the suppliers that stand by for it."""
        accounts, v = self._situation.accounts, givers[0]
        if not any(map(self._situation.is_up, givers)):
            return f"{self.name(givers)}: {self._why_out(v)}"
        if accounts.ways[list(givers)].all():
            return f"{self.name(givers)}, {ONLY_A_WAY}"
        free, size = (
            unit.exact(amount, accounts.unit(v)) for amount in (self.free(givers), sum(map(accounts.size.item, givers)))
        )
        idle = [self.name((u,)) for u in self._paths.standing_by(v)]
        others = f" while {listed(idle)} {'stands' if len(idle) == 1 else 'stand'} by" if idle else ""
        return f"{self.name(givers)}: {free} of {size} free{others}"

    def _why_out(self, v: int) -> str:
        """The state of a pool out of service; for one that is cut off, the missing suppliers and their states."""
        structure = self._situation.structure
        culprits = structure.unavailable_because(v)
        if not structure.outage.is_cut_off(np.array([v], np.int32)).any():
            return structure.state_name(culprits[0])
        lacking = [f"{self.name((u,))} ({structure.state_name(u)})" for u in culprits[: limits.WHY_NAMES_MAX]]
        return f"cut off from {listed(lacking)}"

    def free(self, givers: Givers) -> int:
        return sum(map(self._situation.free, givers))

    def _tightest(self, givers: Givers) -> tuple[int, Givers]:
        return self.free(givers), givers

    def name(self, givers: Givers) -> str:
        """A unique name of a supplier: short if possible, else its path or URI; an edge by its ends."""
        structure, v = self._situation.structure, givers[0]
        if self._situation.accounts.is_edge(v):
            return self._situation.accounts.said(v)
        alone = len(givers) == 1
        short = self._short_name(v, alone)
        return short if self._shared_by(structure.type.item(v), alone)[short] <= len(givers) else structure.where(v)

    def _shared_by(self, kind: int, alone: bool) -> Counter[str]:
        """The number of pools of a type with each short name."""
        if (kind, alone) not in self._names:
            pools = self._situation.typology.vertices(kind).tolist()
            self._names[kind, alone] = Counter(self._short_name(v, alone) for v in pools)
        return self._names[kind, alone]

    def _short_name(self, v: int, alone: bool) -> str:
        """The name of a pool; if it is attached to another and has no name of its own, its type and the name of that pool."""
        structure, kind = self._situation.structure, self._situation.structure.kind_of(v)
        on = [u for feeds in self._paths.feeds for u in feeds.suppliers(v) if v in feeds.hung_on(u)]
        above = structure.parent.item(v)
        if above >= structure.tree_end and structure.end.item(v) == v + 1:
            on.append(above)
        name = structure.name(v)
        if on and (not alone or kind.type in (name, kind.basename)):
            return f"{name if alone else kind.type} on {structure.name(on[0])}"
        return structure.path(v) if v < structure.tree_end else name


def _suppliers(loads: list[PoolDraw]) -> set[Givers]:
    return {givers for load in loads for givers in load.needs}
