"""Inventory of exclusive pools of one type, as bit sets in Python integers.

A node is free or not, so a job is a set of nodes and the machine is the set of free ones.  FCFS and EASY need only what is free
now and a list of running jobs by their end: starting a job costs one `&`, whether the machine has ten nodes or ten thousand.
Availability over time is computed for the second reservation, and dropped with the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fluxres.arrays import Int32, Mask
from fluxres.clock import FOREVER
from fluxres.documents.document import plural
from fluxres.errors import InfeasibleRequest
from fluxres.graph.kinds import WAY
from fluxres.instance.availability import AvailableSets, highest, lowest
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import CurrentMeasure, Hold, NotUniform, refusal
from fluxres.instance.uniform import UniformRequest, interchangeable
from fluxres.syntax import fluid, idset
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph

ASCENDING: Final = ("first", "low", "lonode")
DESCENDING: Final = ("high", "hinode")
"""The match policies that choose by vertex number alone."""


class NamedInventory(InterchangeableInventory):
    """An `Inventory` of interchangeable pools, each of which one job holds exclusively.

    Args:
        type_name: the type of the pools.
        match_policy: one that chooses by vertex number.
        measure: the type in whose units sizes are measured; default: `type_name`.

    Errors: NotUniform if the pools are not interchangeable under the match policy.
    """

    kind: str = "named"

    def __init__(self, graph: ResourceGraph, type_name: str, match_policy: str = "first", measure: str | None = None) -> None:
        super().__init__(graph)
        structure = self.structure
        self.type = type_name
        self._measure: CurrentMeasure | None = None
        """None if a size is a number of pools."""
        self.measure_in(measure)
        self._choose = highest if match_policy in DESCENDING else lowest
        found = interchangeable(structure, UniformRequest(type_name, 1, 1, False, True))
        if found is None or match_policy not in (*ASCENDING, *DESCENDING):
            raise NotUniform(f"pools of {type_name} are not interchangeable under {match_policy}")
        self.vertex_numbers: Int32 = found[(structure.flags[found] & WAY) == 0]
        self.size = len(self.vertex_numbers)
        self._all = (1 << self.size) - 1
        self._held_by_others = 0
        """Pools that others hold now or later."""
        self._usable = self._find_usable()
        self.free = self._all
        self.free_count = self._usable.bit_count()
        self._uniform: dict[UniformRequest, bool] = {}
        self._rows: AvailableSets | None = None
        self._shadow: tuple[int, int, int] | None = None
        """Of a reservation by number: its start, the number of pools that it leaves free then, and its key."""

    def _find_usable(self) -> int:
        structure, vertices = self.structure, self.vertex_numbers
        up = np.ones(self.size, bool)
        for root in structure.unavailable_roots().tolist():
            first, stop = np.searchsorted(vertices, (root, structure.end.item(root)))
            up[first:stop] = False
        return _to_set(up) & ~self._held_by_others

    def _usable_count(self, units: int) -> int:
        return (units & self._usable).bit_count()

    # -- requests ----------------------------------------------------------------------------------------------------

    def _number(self, wanted: UniformRequest | None) -> int:
        if wanted is None or wanted.type != self.type or not self._is_uniform(wanted._replace(number=1)):
            raise NotUniform(f"this inventory only allocates pools of {self.type} exclusively")
        if wanted.number > self.size:
            raise InfeasibleRequest(
                f"requested {plural(wanted.number, self.type)}, the instance has {self.size}", hint="request fewer"
            )
        return wanted.number

    def _is_uniform(self, wanted: UniformRequest) -> bool:
        known = self._uniform.get(wanted)
        if known is None:
            known = self._uniform[wanted] = interchangeable(self.structure, wanted) is not None
        return known

    def measure_in(self, type_name: str | None) -> None:
        self.measure = type_name or self.type
        self._measure = None if self.measure == self.type else CurrentMeasure(self.measure)
        self._of_requests = self._measure or CurrentMeasure(self.type)

    @property
    def is_full(self) -> bool:
        return self.free_count == 0

    @property
    def free_units(self) -> int:
        return self.free_count if self._measure is None else self._measured(self._measure, self.free & self._usable)

    def start(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        if ask > self.free_count:
            return None
        shadow = self._shadow
        if shadow is not None and shadow[0] < end and ask > shadow[1]:
            return None
        free = self.free & self._usable
        if self._reserved:
            for reserved in self._reserved.values():
                if reserved.start < end:
                    free &= ~reserved.units
        if self.ahead:
            free &= ~self._ahead_before(end)
        if free.bit_count() < ask:
            return None
        hold = Hold(key, now, end, ask, self._choose(free, ask))
        if shadow is not None and shadow[0] < end:
            self._shadow = (shadow[0], shadow[1] - ask, shadow[2])
        if self._rows is not None:
            self._rows.take(now, end, hold.units)
        self._mark_held(hold)
        return hold

    def _mark_held(self, hold: Hold) -> None:
        self.free &= ~hold.units
        self.free_count -= hold.count
        self.running.add(hold)

    def has_room(self, ask: int, now: int) -> bool:
        return ask <= self.free_count

    # -- reserving ---------------------------------------------------------------------------------------------------

    def reserve(self, key: int, ask: int, duration: int, now: int) -> int | None:
        kept = self._reserved.get(key)
        if kept is None:
            self.unreserve(key)  # by number, perhaps
        elif self._is_still_earliest(kept, ask, duration, now):
            return kept.start
        else:
            self._take_out(kept)
        found = (
            self._earliest_alone(ask, now)
            if not self._reserved and not self.ahead
            else self._all_rows(now).earliest(ask, duration, self._usable, self._choose)
        )
        rows = self._rows
        if rows is not None and kept is not None and found != (kept.start, kept.units):
            rows.note_freed(kept.end)
        if found is None:
            self._drop_rows()
            return None
        start, units = found
        hold = self._reserved[key] = Hold(key, start, min(start + duration, FOREVER), ask, units)
        if rows is not None:
            rows.take(start, hold.end, units)
            rows.note_fitted(key)
        return start

    def _is_still_earliest(self, kept: Hold, ask: int, duration: int, now: int) -> bool:
        """Whether a search would surely find the same pools at the same start again.

        What was freed since the last one is over before that start, and leaves too little for an earlier one.
        """
        rows = self._rows
        if rows is None or kept.start < now or kept.end != min(kept.start + duration, FOREVER) or kept.count != ask:
            return False
        freed = rows.freed_since(kept.key)
        if freed > now and (freed > kept.start or rows.may_begin(ask, duration, freed, kept.start)):
            return False
        rows.note_fitted(kept.key)
        return True

    def restore(self, key: int, place: Hold, duration: int, start: int, now: int) -> bool:
        end = min(start + duration, FOREVER)
        rows = self._all_rows(now)
        if place.units & ~self._usable or not rows.fits(place.units, start, end):
            self._drop_rows()
            return False
        rows.take(start, end, place.units)
        self._reserved[key] = Hold(key, start, end, place.count, place.units)
        return True

    def _earliest_alone(self, ask: int, now: int) -> tuple[int, int] | None:
        """The earliest start without reservations: free pools only increase, so count first, and then determine the set."""
        usable = self._usable
        free = self.free & usable
        if self.free_count >= ask:
            return now, self._choose(free, ask)
        found = self._earliest_number(ask)
        if found is None:
            return None
        start, stop, _ = found
        for hold in self.running.holds[:stop]:
            free |= hold.units
        return start, self._choose(free & usable, ask)

    def _earliest_number(self, ask: int) -> tuple[int, int, int] | None:
        """The first moment at which that number is free, the number of claims that have ended by then, and of free pools then."""
        ends, holds = self.running.ends, self.running.holds
        count, is_whole = self.free_count, self._usable == self._all
        for at, hold in enumerate(holds):
            if ends[at] >= FOREVER:  # the rest have no end
                return None
            count += hold.count if is_whole else self._usable_count(hold.units)
            if count >= ask:
                start, stop = ends[at], at + 1
                while stop < len(ends) and ends[stop] == start:
                    count += self._usable_count(holds[stop].units)
                    stop += 1
                return start, stop, count
        return None

    def reserve_count(self, key: int, ask: int, now: int) -> int | None:
        self.clear()
        if self.free_count >= ask:
            self._shadow = (now, self.free_count - ask, key)
            return now
        found = self._earliest_number(ask)
        if found is None:
            return None
        self._shadow = (found[0], found[2] - ask, key)
        return found[0]

    def _all_rows(self, now: int) -> AvailableSets:
        if self._rows is None:
            rows = self._rows = AvailableSets(now, self._all)
            for hold in (*self.running.holds, *self._reserved.values(), *self.ahead.values()):
                rows.take(hold.start, hold.end, hold.units)
        return self._rows

    def begin(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        reserved = self._reserved.get(key)  # none if it was reserved by number
        if reserved is None or reserved.start != now or reserved.end != end:
            self.unreserve(key)
            return self.start(key, ask, now, end)
        if reserved.units & ~(self.free & self._usable):
            return None
        del self._reserved[key]
        if self._rows is not None:
            self._rows.forget(key)
        self._drop_rows()
        self._mark_held(reserved)
        return reserved

    def unreserve(self, key: int) -> None:
        if self._shadow is not None and self._shadow[2] == key:
            self._shadow = None
        reserved = self._reserved.get(key)
        if reserved is not None:
            self._take_out(reserved)
            if self._rows is not None:
                self._rows.note_freed(reserved.end)
                self._rows.forget(key)

    def _take_out(self, reserved: Hold) -> None:
        del self._reserved[reserved.key]
        if self._rows is not None:
            self._rows.give(reserved.start, reserved.end, reserved.units)
        self._drop_rows()

    def reserved_starts(self) -> dict[int, int]:
        found = super().reserved_starts()
        if self._shadow is not None:
            found[self._shadow[2]] = self._shadow[0]
        return found

    def clear(self) -> None:
        super().clear()
        self._shadow = None

    # -- advance reservations ----------------------------------------------------------------------------------------

    def _ahead_before(self, end: int) -> int:
        """The pools of advance reservations that begin before a moment."""
        found = 0
        for hold in self.ahead.values():
            if hold.start < end:
                found |= hold.units
        return found

    @property
    def unit_pools(self) -> Int32:
        return self.vertex_numbers

    def reserve_ahead(self, key: int, ask: int, start: int, end: int, now: int) -> None:
        self.clear()
        rows = self._all_rows(now)
        free = rows.free_in(start, end) & self._usable
        self._rows = None
        if free.bit_count() < ask:
            raise self.no_room(start, end)
        self.ahead[key] = Hold(key, start, end, ask, self._choose(free, ask))

    def reserve_pools_ahead(self, key: int, vertices: list[int], start: int, end: int, now: int) -> None:
        self.clear()
        units, stops = 0, self.structure.end
        for v in vertices:
            first, stop = np.searchsorted(self.vertex_numbers, (v, stops.item(v))).tolist()
            if first == stop:
                raise NotUniform(f"this inventory only allocates pools of {self.type}")
            units |= (1 << stop) - (1 << first)
        is_free = self._all_rows(now).fits(units, start, end)
        self._rows = None
        if not is_free:
            raise self.no_room(start, end)
        self.ahead[key] = Hold(key, start, end, units.bit_count(), units)

    def begin_ahead(self, key: int) -> Hold | None:
        hold = self.ahead[key]
        if hold.units & ~self.free:
            return None
        del self.ahead[key]
        self.clear()
        self.free &= ~hold.units
        self.free_count = self._usable_count(self.free)
        self.running.add(hold)
        return hold

    # -- the end of claims -------------------------------------------------------------------------------------------

    def finish(self, key: int, claim: Hold, now: int) -> None:
        if self.running.release(claim):
            self._give_back(claim.units, now, claim.end)
        if key in self._disputed:
            claim.units = self._disputed.pop(key)
            claim.count = claim.units.bit_count()

    def _give_back(self, units: int, now: int, end: int) -> None:
        """Let pools be free that a running job would have held until `end`; reservations stay."""
        self.free |= units
        count = self._usable_count(units)
        self.free_count += count
        if self._rows is not None:
            self._rows.give(now, end, units)
            self._rows.note_freed(end)
        shadow = self._shadow
        if shadow is not None and shadow[0] < end:
            self._shadow = (shadow[0], shadow[1] + count, shadow[2])

    def resize(self, key: int, claim: Hold, now: int, end: int) -> None:
        self.clear()
        if end <= claim.end:
            self.running.move(claim, end)
            return
        missing = self._given_to(claim) & (~self._free_for(claim) | self._ahead_before(end))
        if missing:
            at = lowest(missing, 1)
            holders = [hold for hold in (*self.running.holds, *self.ahead.values()) if hold.units & at]
            raise refusal(self._paths(at)[0], 1, 0, 1, holders, max((hold.end for hold in holders), default=FOREVER))
        self.extend(key, claim, now, end)

    def extend(self, key: int, claim: Hold, now: int, end: int) -> list[str]:
        self.clear()
        wanted, free = self._given_to(claim), self._free_for(claim)
        claim.units = wanted & free
        claim.count = claim.units.bit_count()
        self.free = free & ~claim.units
        self.free_count = self._usable_count(self.free)
        self.running.move(claim, end)
        missing = wanted & ~claim.units
        if missing:
            self._disputed[key] = wanted  # to be held again when the others have freed it
        else:
            self._disputed.pop(key, None)
        return self._paths(missing)

    def idle(self, number: int, now: int) -> list[tuple[str, int]]:
        """At most that many pools that are free now, the last ones."""
        free = members(self.free & self._usable) if self._measure is None else []
        chosen = self.vertex_numbers[free[max(len(free) - number, 0) :]].tolist()
        return [(self.structure.path(v), 1) for v in chosen]

    def part_of(self, claim: Hold, pools: list[tuple[str, int]]) -> int | None:
        found = 0
        for path, _ in pools:
            v = self.structure.vertex(path)
            at = int(np.searchsorted(self.vertex_numbers, v))
            if at == self.size or self.vertex_numbers.item(at) != v:
                return None
            found |= 1 << at
        return found if found and not found & ~claim.units else None

    def reduce(self, claim: Hold, part: int, now: int) -> None:
        claim.units &= ~part
        claim.count = claim.units.bit_count()
        self._give_back(part, now, claim.end)

    def _last_part(self, claim: Hold, number: int) -> int:
        return claim.units & ~self._choose(claim.units, claim.count - number)

    def _given_to(self, claim: Hold) -> int:
        """All pools allocated to a job, including those that others hold by now."""
        return self._disputed.get(claim.key, claim.units)

    def _free_for(self, claim: Hold) -> int:
        """The pools that no other job of the instance holds."""
        return self.free | claim.units if claim.is_live else self.free

    def _paths(self, units: int) -> list[str]:
        return [self.structure.path(self.vertex_numbers.item(at)) for at in members(units)]

    def _free_ended(self, over: list[Hold]) -> None:
        for hold in over:
            self.free |= hold.units
        self.free_count = self._usable_count(self.free)

    def refresh(self) -> None:
        self.clear()
        if self.graph.structure is not self.structure:
            self._renumber()
        self._usable = self._find_usable()
        self.free_count = self._usable_count(self.free)

    def has_parts_of(self, above: Structure) -> bool:
        """Whether a pool here may be one unit of a larger one in the graph of the parent."""
        return self.type in above.types and bool((above.size[above.of_type(self.type)] > 1).any())

    @property
    def is_stale(self) -> bool:
        return self.graph.structure is not self.structure or self._find_usable() != self._usable

    def set_held_by_others(self, held: dict[int, int]) -> bool:
        """Leave out pools that others hold, pools in what they hold exclusively, and pools of which they hold a part."""
        structure, vertices = self.structure, self.vertex_numbers
        taken = np.zeros(self.size, bool)
        for v, amount in held.items():
            if v >= structure.tree_end:
                continue
            first, stop = np.searchsorted(vertices, (v, structure.end.item(v)))
            if amount >= structure.size.item(v):
                taken[first:stop] = True
            above = int(np.searchsorted(vertices, v, side="right")) - 1
            if above >= 0 and v < structure.end.item(vertices.item(above)):
                taken[above] = True
        others = _to_set(taken)
        if others == self._held_by_others:
            return False
        self.clear()
        self._held_by_others = others
        self._usable = self._find_usable()
        self.free_count = self._usable_count(self.free)
        return True

    def _renumber(self) -> None:
        """Renumber the pools of all claims, including those past their end, after a change of the structure."""
        before, structure = self.structure, self.graph.structure
        known = {before.uuid(v): at for at, v in enumerate(self.vertex_numbers.tolist())}
        found = structure.of_type(self.type)
        self.structure, self.vertex_numbers = structure, found[(structure.flags[found] & WAY) == 0]
        self.size = len(self.vertex_numbers)
        self._all = (1 << self.size) - 1
        number = {known[uuid]: at for at, v in enumerate(self.vertex_numbers.tolist()) if (uuid := structure.uuid(v)) in known}

        def renumbered(units: int) -> int:
            return sum(1 << number[at] for at in members(units) if at in number)

        for hold in (*self.running.holds, *self.running.lapsed.values(), *self.ahead.values()):
            hold.units = renumbered(hold.units)
            hold.count = hold.units.bit_count()
        self._disputed = {key: renumbered(units) for key, units in self._disputed.items()}
        self.free = self._all
        for hold in self.running.holds:
            self.free &= ~hold.units
        self._held_by_others = renumbered(self._held_by_others)
        self._asks.clear()
        self._uniform.clear()

    def check(self) -> list[tuple[str, str]]:
        """Check that each pool is either free or held by exactly one running job."""
        found: list[tuple[str, str]] = []
        taken = 0
        for hold in self.running.holds:
            found += [(path, f"{fluid.encode(hold.key)} and another job hold it") for path in self._paths(hold.units & taken)]
            taken |= hold.units & self._all
        found += [(path, "it counts as free, but a job holds it") for path in self._paths(self.free & taken)]
        found += [
            (path, "it does not count as free, but no job holds it") for path in self._paths(self._all & ~self.free & ~taken)
        ]
        if self.free & ~self._all:
            found.append((self.type, "more pools count as free than exist"))
        if self.free_count != self._usable_count(self.free):
            found.append((self.type, f"{self.free_count} are counted as free, but {self._usable_count(self.free)} are free"))
        return found

    # -- queries -----------------------------------------------------------------------------------------------------

    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        return [(path, 1) for path in self._paths(self._given_to(claim))]

    def held(self, claim: Hold) -> list[tuple[str, int]]:
        return [(path, 1) for path in self._paths(claim.units)]

    def vertices(self, claim: Hold) -> list[int]:
        found: list[int] = self.vertex_numbers[members(self._given_to(claim))].tolist()
        return found

    def ids(self, claim: Hold) -> str:
        given = members(self._given_to(claim))
        return idset.format(given) if self._measure is None else self._measure.of(self.structure).ids(self.vertex_numbers[given])

    def count(self, claim: Hold) -> int:
        given = self._given_to(claim)
        return given.bit_count() if self._measure is None else self._measured(self._measure, given)

    def _measured(self, measure: CurrentMeasure, units: int) -> int:
        return measure.of(self.structure).units_inside(self.vertex_numbers[members(units)])

    def requested(self, request: Request) -> int:
        return self._of_requests.of(self.structure).requested(request)


def _to_set(chosen: Mask) -> int:
    return int.from_bytes(np.packbits(chosen, bitorder="little").tobytes(), "little")


def members(units: int) -> list[int]:
    """The numbers in a set, ascending.

    >>> members(0b10110)
    [1, 2, 4]
    """
    data = np.frombuffer(units.to_bytes((units.bit_length() + 7) // 8, "little"), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist()
    return found
