"""What a search charges on the ways up a distribution graph.

There is nothing to choose: the pools that a match takes say where their supply comes in, and every pool on the way has to
give. So what is charged for others is done when they are found, and fails or does not.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from fluxres.match.accumulator import Accumulator
from fluxres.match.demand import Demand
from fluxres.match.paths import Charges
from fluxres.match.situation import Situation


class Draw(NamedTuple):
    """`units` drawn from a pool, for which `amount` are taken: more where it is given whole, none where it is taken already."""

    v: int
    units: int
    amount: int


class Charger:
    """Charges of one search."""

    def __init__(self, situation: Situation, taken: Accumulator, *, node_exclusive: bool) -> None:
        self._situation = situation
        self._node_exclusive = node_exclusive
        self._taken = taken
        self._paths = situation.typology.paths

    def starts(self, first: int) -> list[int]:
        """Where the ways begin for what was picked from pick number `first` on: nodes, or the picks where they stand in none."""
        node_at = self._situation.typology.node_at
        picks = dict.fromkeys(pick.v for pick in self._taken.picks[first:] if not pick.charge)
        nodes = dict.fromkeys(node_at[v] for v in picks if node_at[v] >= 0)
        return list(nodes or picks)

    def due(self, demand: Demand, starts: list[int], number: Fraction | int) -> dict[int, Fraction] | None:
        """By pool, what it has to give of so many asked for, evenly from all starts; None when nothing supplies one of them."""
        found: dict[int, Fraction] = {}
        for v in starts:
            charges = self._paths.charged(v, demand.kind)
            if not charges:
                return None
            for u, part in charges:
                found[u] = found.get(u, Fraction(0)) + part * Fraction(number) / len(starts)
        return found or None

    def take(self, demand: Demand, due: dict[int, Fraction], slot: int) -> bool:
        """Draw from every pool, or from none."""
        draws = []
        for v, number in due.items():
            draw = self._draw(demand, v, number)
            if draw is None:
                return False
            draws.append(draw)
        for draw in draws:
            if not draw.units:
                self._taken.look(draw.v, slot)
                continue
            self._taken.draw(draw.v, draw.amount, draw.units, slot, self._taken.implied_by(draw.v))
            if self._taken.used.get(draw.v) == self._situation.size[draw.v] and self._situation.stop[draw.v] > draw.v + 1:
                self._taken.close(draw.v)
        return True

    def _draw(self, demand: Demand, v: int, number: Fraction) -> Draw | None:
        """What drawing from one pool would take; None when it has too little."""
        situation, taken = self._situation, self._taken
        factor = demand.per_unit(situation.structure.kind_of(v).unit)
        if factor is None or (v in taken.bound and v not in taken.looked):
            return None
        used, drawn, size = taken.used.get(v, 0), taken.drawn.get(v, 0), situation.size[v]
        units = ceil(number / factor)
        if demand.shared and size == 1:
            return Draw(v, 0, 0) if situation.free(v) and not used and units <= 1 else None
        if v in taken.bound or drawn + units > size:
            return None
        if taken.spare.get(v):
            return Draw(v, units, 0)
        node = situation.typology.node_at[v]
        if self._node_exclusive and node >= 0 and not situation.is_clear(node):
            return None
        if demand.whole or situation.only_whole(v):
            return Draw(v, units, size - used) if used == drawn and situation.is_clear(v) else None
        if used + units > situation.free(v) or (used + units == size and not situation.is_clear(v)):
            return None
        return Draw(v, units, units)

    # -- what is picked of a distributed type ------------------------------------------------------------------------

    def most(self, demand: Demand, v: int, factor: Fraction, most: int) -> int:
        """Of so many units to be picked of a pool, as many as what supplies it can give."""
        for u, part in self._upstream(demand, v):
            own = demand.per_unit(self._situation.structure.kind_of(u).unit)
            if own is None:
                return 0
            left = self._taken.spare.get(u, 0) or self._situation.free(u) - self._taken.used.get(u, 0)
            # One unit may have to stay, where all of them would be the whole pool.
            tries = (max(min(most, floor(units * own / (factor * part))), 0) for units in (left, left - 1))
            most = next((number for number in tries if number and self._draw(demand, u, number * factor * part) is not None), 0)
        return most

    def take_upstream(self, demand: Demand, v: int, number: Fraction, slot: int) -> bool:
        """Charge what was picked of a pool on the way up from it."""
        upstream = self._upstream(demand, v)
        return not upstream or self.take(demand, {u: part * number for u, part in upstream}, slot)

    def _upstream(self, demand: Demand, v: int) -> Charges:
        return self._paths.upstream(v, demand.kind) if demand.upstream else ()
