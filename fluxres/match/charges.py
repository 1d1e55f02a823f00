"""Charge the supply paths of a distribution graph during a search.

There is nothing to choose: the pools that a match takes determine where their supply enters, and every pool on the path must
contribute.  So charges are made when the pools are found, and either succeed or fail.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from fluxres.match.accumulator import Accumulator
from fluxres.match.demand import Demand
from fluxres.match.paths import Charges, Givers
from fluxres.match.situation import Situation

Shares = dict[int, Fraction]
"""By pool that something is charged for, its part of the requested amount."""
Due = dict[Givers, Shares]
"""What each supplier must give, and for which pools."""


class Charger:
    """Charges of one search."""

    def __init__(self, situation: Situation, taken: Accumulator, *, node_exclusive: bool) -> None:
        self._situation = situation
        self._node_exclusive = node_exclusive
        self._taken = taken
        self._paths = situation.typology.paths

    def starts(self, first: int) -> list[int]:
        """Where the supply paths of the picks from pick number `first` on begin: at their nodes, or at picks in no node."""
        node_at = self._situation.typology.node_at
        picks = dict.fromkeys(pick.v for pick in self._taken.picks[first:] if not pick.charge)
        nodes = dict.fromkeys(node_at[v] for v in picks if node_at[v] >= 0)
        return list(nodes or picks)

    def due(self, demand: Demand, starts: list[int], number: Fraction | int) -> Due | None:
        """What each supplier must give of a number, divided evenly over all starts; None if nothing supplies one of them."""
        found: Due = {}
        for v in starts:
            charges = self._paths.charged(v, demand.channel)
            if charges is None:
                return None
            for givers, part in charges:
                found.setdefault(givers, {})[v] = part * Fraction(number) / len(starts)
        return found

    def take_by_itself(self, demand: Demand, v: int, slot: int) -> bool:
        """Draw what a pool and everything in it draw on their own, or nothing."""
        due: Due = {}
        for pool, _, parts in self._situation.typology.charged_by_itself(v, demand.kind):
            if parts is None:
                return False
            for givers, units in parts:
                due.setdefault(givers, {})[pool] = Fraction(units)
        return self.take(demand, due, slot)

    def take(self, demand: Demand, due: Due, slot: int) -> bool:
        """Draw from all suppliers that must give, or from none."""
        mark = self._taken.mark
        for givers, shares in sorted(due.items()):
            drawn, number = Fraction(0), sum(shares.values(), Fraction(0))
            for v in givers:
                drawn += self._draw(demand, v, drawn, number, shares, slot)
                if drawn >= number:
                    break
            else:
                self._taken.undo(mark)
                return False
        return True

    def _draw(self, demand: Demand, v: int, drawn: Fraction, number: Fraction, shares: Shares, slot: int) -> Fraction:
        """Draw as much as possible of the rest of a requested number; returns what was drawn."""
        situation, taken = self._situation, self._taken
        factor = demand.per_unit(situation.accounts.unit(v))
        room = self.room(demand, v)
        if not room or factor is None:
            return Fraction(0)
        if self.is_only_looked_at(demand, v):
            taken.look(v, slot)
            return factor
        units = min(room, ceil((number - drawn) / factor))
        amount = units
        if taken.spare.get(v):
            amount = 0
        elif self._only_whole(demand, v):
            amount = situation.size[v] - taken.used.get(v, 0)
        taken.draw(v, amount, units, slot, taken.implied_by(v))
        if taken.used[v] == situation.size[v] and situation.stop[v] > v + 1:
            taken.close(v)
        self._share_out(v, shares, drawn, min(drawn + units * factor, number), amount, is_kept=amount != units)
        return units * factor

    def _share_out(self, v: int, shares: Shares, first: Fraction, last: Fraction, amount: int, *, is_kept: bool) -> None:
        """Record the pools for which the units of one account were drawn.

        Args:
            shares: the part of the total that each pool needs, one after the other.
            first, last: the part of the total that comes from this account.
            amount: its units; if it is kept for the first to draw, all of them or none.
        """
        reach, given = Fraction(0), 0
        for pool, number in shares.items():
            low, high = max(reach, first), min(reach + number, last)
            reach += number
            if low < high:
                upto = amount if is_kept else ceil(amount * (high - first) / (last - first))
                if upto > given or is_kept:
                    self._taken.attribute(pool, v, upto - given)
                given = upto

    def is_only_looked_at(self, demand: Demand, v: int) -> bool:
        """Whether any number of jobs may use a pool at once; flow along an edge uses it up."""
        return demand.shared and self._situation.size[v] == 1 and not self._situation.accounts.is_edge(v)

    def _only_whole(self, demand: Demand, v: int) -> bool:
        return demand.whole or self._situation.only_whole(v)

    def room(self, demand: Demand, v: int) -> int:
        """Units that can be drawn from a pool; 1 if it is only looked at."""
        situation, taken = self._situation, self._taken
        if demand.per_unit(situation.accounts.unit(v)) is None or (v in taken.bound and v not in taken.looked):
            return 0
        used, drawn, size = taken.used.get(v, 0), taken.drawn.get(v, 0), situation.size[v]
        if self.is_only_looked_at(demand, v):
            return int(situation.free(v) > 0 and not used)
        if v in taken.bound:
            return 0
        if taken.spare.get(v):
            return taken.spare[v]
        node = situation.typology.node_at[v]
        if self._node_exclusive and node >= 0 and not situation.is_clear(node):
            return 0
        if self._only_whole(demand, v):
            return size - drawn if used == drawn and situation.is_clear(v) else 0
        room = situation.free(v) - used
        # All units would be the pool itself, exclusively.
        return room - 1 if room > 0 and used + room == size and not situation.is_clear(v) else max(room, 0)

    # -- picks of a distributed type ---------------------------------------------------------------------------------

    def most(self, demand: Demand, v: int, factor: Fraction, most: int) -> int:
        """How many of a number of units to pick from a pool its suppliers can give."""
        for givers, part in self._upstream(demand, v):
            unit = self._situation.accounts.unit
            there = sum(self.room(demand, u) * (demand.per_unit(unit(u)) or Fraction(0)) for u in givers)
            most = min(most, floor(there / (factor * part)))
        return most

    def take_upstream(self, demand: Demand, v: int, number: Fraction, slot: int) -> bool:
        """Charge units picked from a pool along the supply path above it."""
        upstream = self._upstream(demand, v)
        return not upstream or self.take(demand, {givers: {v: part * number} for givers, part in upstream}, slot)

    def _upstream(self, demand: Demand, v: int) -> Charges:
        return self._paths.upstream(v, demand.kind) if demand.upstream else ()
