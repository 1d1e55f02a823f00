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

    def due(self, demand: Demand, starts: list[int], number: Fraction | int) -> dict[Givers, Fraction] | None:
        """What has to come from whom of so many asked for, evenly from all starts; None when nothing supplies one of them."""
        found: dict[Givers, Fraction] = {}
        for v in starts:
            charges = self._paths.charged(v, demand.kind)
            if charges is None:
                return None
            for givers, part in charges:
                found[givers] = found.get(givers, Fraction(0)) + part * Fraction(number) / len(starts)
        return found

    def take(self, demand: Demand, due: dict[Givers, Fraction], slot: int) -> bool:
        """Draw from all who have to give, or from none."""
        mark = self._taken.mark
        for givers, number in sorted(due.items()):
            for v in givers:
                number -= self._draw(demand, v, number, slot)
                if number <= 0:
                    break
            else:
                self._taken.undo(mark)
                return False
        return True

    def _draw(self, demand: Demand, v: int, number: Fraction, slot: int) -> Fraction:
        """Draw as much as there is of so many asked for; how many that is."""
        situation, taken = self._situation, self._taken
        factor = demand.per_unit(situation.accounts.unit(v))
        room = self.room(demand, v)
        if not room or factor is None:
            return Fraction(0)
        if self._is_only_looked_at(demand, v):
            taken.look(v, slot)
            return factor
        units = min(room, ceil(number / factor))
        amount = units
        if taken.spare.get(v):
            amount = 0
        elif self._only_whole(demand, v):
            amount = situation.size[v] - taken.used.get(v, 0)
        taken.draw(v, amount, units, slot, taken.implied_by(v))
        if taken.used[v] == situation.size[v] and situation.stop[v] > v + 1:
            taken.close(v)
        return units * factor

    def _is_only_looked_at(self, demand: Demand, v: int) -> bool:
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
        if self._is_only_looked_at(demand, v):
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
        """Of so many units to be picked of a pool, as many as those who supply it can give."""
        for givers, part in self._upstream(demand, v):
            unit = self._situation.accounts.unit
            there = sum(self.room(demand, u) * (demand.per_unit(unit(u)) or Fraction(0)) for u in givers)
            most = min(most, floor(there / (factor * part)))
        return most

    def take_upstream(self, demand: Demand, v: int, number: Fraction, slot: int) -> bool:
        """Charge what was picked of a pool on the way up from it."""
        upstream = self._upstream(demand, v)
        return not upstream or self.take(demand, {givers: part * number for givers, part in upstream}, slot)

    def _upstream(self, demand: Demand, v: int) -> Charges:
        return self._paths.upstream(v, demand.kind) if demand.upstream else ()
