"""What a search charges on the ways up a distribution graph.

There is nothing to choose: the pools that a match takes say where their supply comes in, and every pool on the way has to
give. So what is charged for others is done when they are found, and fails or does not.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from fluxres.match.accumulator import Accumulator
from fluxres.match.demand import Demand
from fluxres.match.paths import Charges, Givers
from fluxres.match.situation import Situation

Shares = dict[int, Fraction]
"""By pool that something is charged for, how much of what is asked for."""
Due = dict[Givers, Shares]
"""What has to come from whom, and for which pools."""


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

    def due(self, demand: Demand, starts: list[int], number: Fraction | int) -> Due | None:
        """By supplier, its part of a number asked for, evenly for all starts; None when nothing supplies one of them."""
        found: Due = {}
        for v in starts:
            charges = self._paths.charged(v, demand.channel)
            if charges is None:
                return None
            for givers, part in charges:
                found.setdefault(givers, {})[v] = part * Fraction(number) / len(starts)
        return found

    def take_by_itself(self, demand: Demand, v: int, slot: int) -> bool:
        """Draw what a pool with all that is in it draws by itself, or nothing."""
        due: Due = {}
        for pool, _, parts in self._situation.typology.charged_by_itself(v, demand.kind):
            if parts is None:
                return False
            for givers, units in parts:
                due.setdefault(givers, {})[pool] = Fraction(units)
        return self.take(demand, due, slot)

    def take(self, demand: Demand, due: Due, slot: int) -> bool:
        """Draw from all that have to give, or from none."""
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
        """Draw as much as there is of what is left of a number asked for; what was drawn."""
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
        """Say for whom units of one account were drawn.

        Args:
            shares: the part of all that is asked for that each pool needs, one after the other.
            first, last: what of all that comes from this account.
            amount: its units; where it is kept for the first to draw, all of them or none.
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
        """Whether a pool is there for everybody; what goes along an edge is used up."""
        return demand.shared and self._situation.size[v] == 1 and not self._situation.accounts.is_edge(v)

    def _only_whole(self, demand: Demand, v: int) -> bool:
        return demand.whole or self._situation.only_whole(v)

    def room(self, demand: Demand, v: int) -> int:
        """Units that can be drawn from a pool; for one that is only looked at, 1."""
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
        # All units would be the whole pool.
        return room - 1 if room > 0 and used + room == size and not situation.is_clear(v) else max(room, 0)

    # -- what is picked of a distributed type ------------------------------------------------------------------------

    def most(self, demand: Demand, v: int, factor: Fraction, most: int) -> int:
        """Of a number of units to be picked of a pool, as many as its suppliers can give."""
        for givers, part in self._upstream(demand, v):
            unit = self._situation.accounts.unit
            there = sum(self.room(demand, u) * (demand.per_unit(unit(u)) or Fraction(0)) for u in givers)
            most = min(most, floor(there / (factor * part)))
        return most

    def take_upstream(self, demand: Demand, v: int, number: Fraction, slot: int) -> bool:
        """Charge what was picked of a pool on the way up from it."""
        upstream = self._upstream(demand, v)
        return not upstream or self.take(demand, {givers: {v: part * number} for givers, part in upstream}, slot)

    def _upstream(self, demand: Demand, v: int) -> Charges:
        return self._paths.upstream(v, demand.kind) if demand.upstream else ()
