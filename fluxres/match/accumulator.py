"""The Accumulator of RFC 4: what a search has taken and charged so far; every step can be undone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from fractions import Fraction
from math import ceil, floor

import msgspec
import numpy as np

from fluxres.arrays import Int64
from fluxres.match.demand import Counts, Demand, Plan
from fluxres.match.paths import Charges, Givers
from fluxres.match.result import Placement, SlotGroup
from fluxres.match.situation import Situation


class Pick(msgspec.Struct, frozen=True):
    """Units of one pool for one instance of a slot (-1: for none); `amount` 0 marks a pool that is only shared.

    `within` is the exclusively taken pool that implies this one, or -1; an implied pick makes no record.  A `charge` was not
    chosen but is on the supply path of something that was; its `amount` 0 means that the pool is taken already, or only looked
    at.
    """

    v: int
    amount: int
    slot: int
    within: int
    charge: bool = False


class Accumulator:
    """Units taken, pools passed through, pools taken exclusively, and instances of slots."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._parent = situation.parent
        self.used: dict[int, int] = {}
        self.bound: set[int] = set()
        #: By pool passed through, the slot instance that passed through it.
        self._bound_for: dict[int, int] = {}
        self.whole: set[int] = set()
        #: By pool charged: the units drawn from it, and those taken with them because it is allocated exclusively. Then the
        #: pools that were only looked at on a supply path.
        self.drawn: dict[int, int] = {}
        self.spare: dict[int, int] = {}
        self.looked: set[int] = set()
        #: By vertex: the number of pools strictly below it that are taken, shared or passed through.
        self.below: dict[int, int] = {}
        self.picks: list[Pick] = []
        #: (pool, account, units): the units drawn from an account on behalf of a pool.
        self.rows: list[tuple[int, int, int]] = []
        self.slots: list[tuple[int, int]] = []
        """(number of the demand, the exclusively taken pool it is in or -1) of each instance, in the order opened."""
        self._steps: list[tuple[str, int, int]] = []

    # -- steps -------------------------------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The position to undo to."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Undo every step after a mark."""
        while len(self._steps) > mark:
            step, v, amount = self._steps.pop()
            if step == "take":
                self._count_above(v, -1)
                self.used[v] -= amount
                if not self.used[v]:
                    del self.used[v]
                self.picks.pop()
            elif step == "share":
                self._count_above(v, -1)
                self.bound.discard(v)
                self.picks.pop()
            elif step == "bind":
                self._count_above(v, -1)
                self.bound.discard(v)
                del self._bound_for[v]
            elif step == "close":
                self.whole.discard(v)
            elif step == "draw":
                self.drawn[v] -= amount
            elif step == "spare":
                self.spare[v] -= amount
            elif step == "row":
                self.rows.pop()
            elif step == "look":
                self.picks.pop()
                if amount:
                    self.bound.discard(v)
                    self.looked.discard(v)
            else:
                self.slots.pop()

    def _count_above(self, v: int, by: int) -> None:
        u = self._parent[v]
        while u >= 0:
            self.below[u] = self.below.get(u, 0) + by
            u = self._parent[u]

    def take(self, v: int, amount: int, slot: int, within: int) -> None:
        self.used[v] = self.used.get(v, 0) + amount
        self._count_above(v, 1)
        self.picks.append(Pick(v, amount, slot, within))
        self._steps.append(("take", v, amount))

    def share(self, v: int, slot: int, within: int) -> None:
        """Use a pool without taking any units."""
        self.bound.add(v)
        self._count_above(v, 1)
        self.picks.append(Pick(v, 0, slot, within))
        self._steps.append(("share", v, 0))

    def draw(self, v: int, amount: int, units: int, slot: int, within: int) -> None:
        """Take `amount` units of a pool on a supply path, of which `units` are drawn."""
        self.used[v] = self.used.get(v, 0) + amount
        self._count_above(v, 1)
        self.picks.append(Pick(v, amount, slot, within, charge=True))
        self._steps.append(("take", v, amount))
        self.drawn[v] = self.drawn.get(v, 0) + units
        self._steps.append(("draw", v, units))
        if amount != units:
            self.spare[v] = self.spare.get(v, 0) + amount - units
            self._steps.append(("spare", v, amount - units))

    def attribute(self, pool: int, v: int, units: int) -> None:
        """Record the pool for which units were drawn; 0 units if another pool's draw covers it."""
        self.rows.append((pool, v, units))
        self._steps.append(("row", v, 0))

    def look(self, v: int, slot: int) -> None:
        """Look at a pool on a supply path; others may as well."""
        first = v not in self.looked
        self.bound.add(v)
        self.looked.add(v)
        self.picks.append(Pick(v, 0, slot, -1, charge=True))
        self._steps.append(("look", v, int(first)))

    def bind(self, v: int, slot: int) -> None:
        """Pass through a pool: its descendants may satisfy demands, but the pool itself satisfies no other one."""
        self.bound.add(v)
        self._bound_for[v] = slot
        self._count_above(v, 1)
        self._steps.append(("bind", v, 0))

    def close(self, v: int) -> None:
        """From now on, nothing below this pool is available."""
        self.whole.add(v)
        self._steps.append(("close", v, 0))

    def open_slot(self, demand: Demand, within: int) -> int:
        self.slots.append((demand.number, within))
        self._steps.append(("slot", 0, 0))
        return len(self.slots) - 1

    # -- queries -----------------------------------------------------------------------------------------------------

    def is_implied(self, v: int) -> bool:
        """Whether the pool is below one that this match took exclusively."""
        return self.implied_by(v) >= 0

    def implied_by(self, v: int) -> int:
        """The topmost ancestor that this match took exclusively, or -1."""
        found = -1
        if self.whole:
            u = self._parent[v]
            while u >= 0:
                found = u if u in self.whole else found
                u = self._parent[u]
        return found

    # -- the result --------------------------------------------------------------------------------------------------

    def match(self, plan: Plan, counts: Counts, policy: str, node_exclusive: bool) -> Placement:
        """The taken units as a match."""
        situation = self._situation
        amounts: dict[int, int] = {}
        shared: set[int] = set()
        record_of: list[int] = []
        charged: dict[int, int] = {}
        node_at = situation.typology.node_at
        for pick in self.picks:
            v = pick.v if pick.within < 0 else pick.within
            if self.drawn:
                # A later draw may have made an ancestor exclusive, perhaps one above the pool that implied this pick.
                above = self.implied_by(v)
                v = v if above < 0 else above
            if node_exclusive and node_at[v] >= 0:
                v = node_at[v]
            record_of.append(v)
            if pick.charge and pick.amount and v != pick.v:
                charged[pick.v] = charged.get(pick.v, 0) + pick.amount
            if pick.amount == 0 and v == pick.v and not (node_exclusive and node_at[v] == v):
                if v not in self.used:
                    shared.add(v)
                continue
            if not pick.amount and pick.charge and v == pick.v:
                continue
            units = pick.amount if v == pick.v and pick.amount else situation.size[v]
            amounts[v] = min(amounts.get(v, 0) + units, situation.size[v])
        firm = {v for pick, v in zip(self.picks, record_of, strict=True) if not pick.charge and v in amounts}
        if node_exclusive:
            # A node also counts as touched if passing through it led to no record (shared pools only, or no children).
            for v in self.bound:
                if node_at[v] >= 0 and not self.is_implied(node_at[v]) and node_at[v] not in self.whole:
                    amounts[node_at[v]] = situation.size[node_at[v]]
                    shared.discard(v)
                    firm.add(node_at[v])
        vertices = np.array(sorted(amounts), np.int32)
        at = {v: number for number, v in enumerate(vertices.tolist())}
        taken = np.array([amounts[v] for v in vertices.tolist()], np.int64)
        return Placement(
            vertices,
            taken,
            taken == situation.accounts.size[vertices],
            np.array(sorted(shared), np.int32),
            self._groups(plan, record_of, at, node_exclusive),
            counts,
            situation.start,
            situation.end,
            policy=policy,
            fallback=True,
            implied=tuple(sorted(charged.items())),
            drawn=self._drawn_for(firm, amounts),
            is_routed=plan.is_routed,
        )

    def _drawn_for(self, firm: set[int], amounts: dict[int, int]) -> Int64:
        """(pool, account, units) of what was drawn on behalf of pools of which this match takes something.

        Args:
            firm: vertices of records that were not drawn; their units are in `amounts`.
        """
        situation, there, units = self._situation, sorted(firm), Counter[tuple[int, int]]()
        kept: dict[int, bool] = {}
        for pool, v, number in self.rows:
            if pool not in kept:
                inside = bisect_left(there, pool) < bisect_left(there, situation.stop[pool])
                above = (u for u in situation.accounts.ancestors(pool) if u in firm)
                kept[pool] = inside or any(amounts[u] == situation.size[u] for u in above)
            if kept[pool]:
                units[pool, v] += number
        rows = sorted((pool, v, number) for (pool, v), number in units.items())
        return np.array(rows, np.int64).reshape(-1, 3)

    def _groups(self, plan: Plan, record_of: list[int], at: dict[int, int], node_exclusive: bool) -> tuple[SlotGroup, ...]:
        held: list[list[int]] = [[] for _ in self.slots]
        for pick, record in zip(self.picks, record_of, strict=True):
            if pick.slot >= 0 and record in at and at[record] not in held[pick.slot]:
                held[pick.slot].append(at[record])
        if node_exclusive:
            # A node taken because something in it was passed through belongs to the slot instance that did so.
            for v, slot in self._bound_for.items():
                record = at.get(self._situation.typology.node_at[v], -1)
                if slot >= 0 and record >= 0 and record not in held[slot]:
                    held[slot].append(record)
        groups = []
        for demand in plan.slots:
            instances = []
            for number, (of, within) in enumerate(self.slots):
                if of != demand.number:
                    continue
                node = self._situation.typology.node_at[within] if within >= 0 and node_exclusive else -1
                whole = node if node >= 0 else within
                # What is charged for it is not in the pool that contains it.
                instances.append(sorted({at[whole], *held[number]} if whole >= 0 else held[number]))
            starts = np.concatenate([[0], np.cumsum([len(picks) for picks in instances], dtype=np.int64)])
            groups.append(SlotGroup(demand.label, starts, np.array([p for picks in instances for p in picks], np.int64)))
        return tuple(groups)


Shares = dict[int, Fraction]
"""By pool that something is charged for, its part of the requested amount."""
Due = dict[Givers, Shares]
"""What each supplier must give, and for which pools."""


class Charger:
    """Charges the supply paths of a distribution graph during one search.

    There is nothing to choose: the pools that a match takes determine where their supply enters, and every pool on the path must
    contribute.  So charges are made when the pools are found, and either succeed or fail.
    """

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
