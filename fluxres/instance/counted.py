"""Inventory of the units of one pool, which have no names: a number represents what is free.

Batch simulators model a machine this way, as a number of processors.  Running jobs free their units at known moments, so without
reservations the number of free units only grows with time.  A single reservation needs only its start and the number of units
that it leaves free; several reservations need availability over time.
"""

from __future__ import annotations

from itertools import accumulate, islice
from typing import TYPE_CHECKING

import numpy as np

from fluxres.arrays import Int32
from fluxres.clock import FOREVER
from fluxres.documents.document import plural
from fluxres.errors import InfeasibleRequest, UnknownPool
from fluxres.instance.availability import AvailableCounts
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Hold, NotUniform, refusal, requested_units
from fluxres.instance.uniform import UniformRequest
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph


class CountedInventory(InterchangeableInventory):
    """An `Inventory` of the units of one pool.

    Args:
        vertex: the pool.
    """

    kind: str = "counted"

    def __init__(self, graph: ResourceGraph, vertex: int) -> None:
        super().__init__(graph)
        structure = self._known_structure = self.structure
        self.vertex = vertex
        self.is_gone = False
        """Whether the pool was removed from the containment tree; `structure` and `vertex` are then the last ones that had it."""
        self.type = structure.types[structure.type.item(vertex)]
        self.size = structure.size.item(vertex)
        self.is_up = structure.unavailable_above(vertex) < 0
        self.free = self.size
        self._held_by_others = 0
        """Units that others hold now or later."""
        self._spare = 0
        """With a single reservation: the units that it leaves free at its start."""
        self._rows: AvailableCounts | None = None

    # -- requests ----------------------------------------------------------------------------------------------------

    def _number(self, wanted: UniformRequest | None) -> int:
        if wanted is None or wanted.type != self.type or wanted.is_whole or self.is_gone:
            raise NotUniform(f"this inventory only has units of {self.type}")
        if wanted.number > self.size:
            raise InfeasibleRequest(
                f"requested {plural(wanted.number, self.type)}, the instance has {self.size}", hint="request fewer"
            )
        return wanted.number

    def requested(self, request: Request) -> int:
        return requested_units(request, self.type)

    def measure_in(self, type_name: str | None) -> None:
        """Ignored: sizes are always in units of the pool."""

    @property
    def measure(self) -> str:
        """The type of the pool."""
        return self.type

    @property
    def is_full(self) -> bool:
        """Whether no unit is free."""
        return self.free <= 0 or not self.is_up

    @property
    def free_units(self) -> int:
        return max(self.free, 0) if self.is_up else 0

    def start(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        if ask > self.free or not self.is_up:
            return None
        reserved = self._reserved
        if reserved or self.ahead:
            if self.ahead:
                self._all_rows(now)
            if self._rows is not None:
                if not self._rows.fits(ask, now, end):
                    return None
            else:
                (only,) = reserved.values()
                if only.start < end:
                    if ask > self._spare:
                        return None
                    self._spare -= ask
        if self._rows is not None:
            self._rows.change(now, end, -ask)
        hold = Hold(key, now, end, ask)
        self.free -= ask
        self.running.add(hold)
        return hold

    def has_room(self, ask: int, now: int) -> bool:
        return self.is_up and ask <= self.free

    # -- reserving ---------------------------------------------------------------------------------------------------

    def reserve(self, key: int, ask: int, duration: int, now: int) -> int | None:
        if not self.is_up:
            return None
        kept, rows = self._reserved.get(key), self._rows
        if kept is not None and rows is not None and self._is_fitted(kept, ask, duration, now):
            return self._fit_again(kept, rows, duration, now)
        self.unreserve(key)
        if not self._reserved and not self.ahead:
            return self._reserve_first(key, ask, duration, now)
        rows = self._all_rows(now)
        start = rows.earliest(ask, duration)
        if start is None:
            return None
        self._put(Hold(key, start, min(start + duration, FOREVER), ask), rows)
        return start

    def _is_fitted(self, kept: Hold, ask: int, duration: int, now: int) -> bool:
        return kept.start >= now and kept.end == min(kept.start + duration, FOREVER) and kept.count == ask

    def _fit_again(self, kept: Hold, rows: AvailableCounts, duration: int, now: int) -> int:
        """Move a reservation to the earliest start, beside all others; it needs no room where it is already."""
        freed = rows.freed_since(kept.key)
        if freed > now:
            start = rows.earliest(kept.count, duration, min(freed, kept.start), kept.start)
            if start is not None:
                self.unreserve(kept.key)
                self._put(Hold(kept.key, start, min(start + duration, FOREVER), kept.count), rows)
                return start
        rows.note_fitted(kept.key)
        return kept.start

    def _put(self, hold: Hold, rows: AvailableCounts) -> None:
        self._rows = rows
        rows.change(hold.start, hold.end, -hold.count)
        rows.note_fitted(hold.key)
        self._reserved[hold.key] = hold

    def restore(self, key: int, place: Hold, duration: int, start: int, now: int) -> bool:
        end = min(start + duration, FOREVER)
        rows = self._all_rows(now)
        if not self.is_up or not rows.fits(place.count, start, end):
            self._drop_rows()
            return False
        rows.change(start, end, -place.count)
        self._reserved[key] = Hold(key, start, end, place.count)
        return True

    def reserve_count(self, key: int, ask: int, now: int) -> int | None:
        self.clear()
        return self._reserve_first(key, ask, 1, now) if self.is_up else None

    def _reserve_first(self, key: int, ask: int, duration: int, now: int) -> int | None:
        free, start = self.free, now
        ends, holds = self.running.ends, self.running.holds
        at = 0
        if free < ask:
            for at, hold in enumerate(holds):
                if ends[at] >= FOREVER:  # the rest have no end
                    return None
                free += hold.count
                if free >= ask:
                    start, at = ends[at], at + 1
                    break
            else:
                return None
            while at < len(ends) and ends[at] == start:
                free += holds[at].count
                at += 1
        self._spare = free - ask
        self._reserved[key] = Hold(key, start, min(start + duration, FOREVER), ask)
        return start

    def _all_rows(self, now: int) -> AvailableCounts:
        if self._rows is None:
            rows = self._rows = AvailableCounts(now, self.size - self._held_by_others)
            for hold in (*self.running.holds, *self._reserved.values(), *self.ahead.values()):
                rows.change(hold.start, hold.end, -hold.count)
        return self._rows

    def begin(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        reserved = self._reserved[key]
        if reserved.start != now or reserved.end != end:
            self.unreserve(key)
            return self.start(key, ask, now, end)
        if ask > self.free or not self.is_up:
            return None
        del self._reserved[key]
        if self._rows is not None:
            self._rows.forget(key)
        self._drop_rows()
        hold = Hold(key, now, end, ask)
        self.free -= ask
        self.running.add(hold)
        return hold

    def unreserve(self, key: int) -> None:
        reserved = self._reserved.pop(key, None)
        if reserved is not None:
            if self._rows is not None:
                self._rows.change(reserved.start, reserved.end, reserved.count)
                self._rows.note_freed(reserved.end)
                self._rows.forget(key)
            self._drop_rows()

    # -- advance reservations ----------------------------------------------------------------------------------------

    @property
    def unit_pools(self) -> Int32:
        return np.array([self.vertex], np.int32)

    def reserve_ahead(self, key: int, ask: int, start: int, end: int, now: int) -> None:
        if not self.is_up:
            raise self.no_room(start, end)
        self._reserve_ahead(key, ask, start, end, now)

    def _reserve_ahead(self, key: int, ask: int, start: int, end: int, now: int) -> None:
        self.clear()
        is_free = self._all_rows(now).fits(ask, start, end)
        self._rows = None
        if not is_free:
            raise self.no_room(start, end)
        self.ahead[key] = Hold(key, start, end, ask)

    def reserve_pools_ahead(self, key: int, vertices: list[int], start: int, end: int, now: int) -> None:
        if any(self.vertex not in range(v, self.structure.end.item(v)) for v in vertices):
            raise NotUniform(f"this inventory only has units of {self.type}")
        self._reserve_ahead(key, self.size, start, end, now)

    def begin_ahead(self, key: int) -> Hold | None:
        hold = self.ahead[key]
        if hold.count > self.free:
            return None
        del self.ahead[key]
        self.clear()
        self.free -= hold.count
        self.running.add(hold)
        return hold

    # -- the end of claims -------------------------------------------------------------------------------------------

    def finish(self, key: int, claim: Hold, now: int) -> None:
        if self.running.release(claim):
            self._give_back(claim.count, now, claim.end)
        claim.count = self._disputed.pop(key, claim.count)

    def _give_back(self, units: int, now: int, end: int) -> None:
        """Let units be free that a running job would have held until `end`; reservations stay."""
        self.free += units
        if self._rows is not None:
            self._rows.change(now, end, units)
            self._rows.note_freed(end)
        elif self._reserved:
            (only,) = self._reserved.values()
            if only.start < end:
                self._spare += units

    def resize(self, key: int, claim: Hold, now: int, end: int) -> None:
        self.clear()
        if end <= claim.end or self.is_gone:  # a job keeps what was removed from the graph
            self.running.move(claim, end)
            return
        wanted, free = self._given_to(claim), self._free_for(claim)
        if self.ahead:
            is_free = self._all_rows(now).fits(wanted, claim.end if claim.is_live else now, end)
            self._rows = None
            if not is_free:
                raise refusal(self.structure.path(self.vertex), wanted, 0, self.size, list(self.ahead.values()), FOREVER)
        if wanted > free:
            holders = [hold for hold in self.running.holds if hold is not claim and hold.count]
            left = accumulate((hold.count for hold in holders), initial=free)
            earliest = next(
                (hold.end for hold, units in zip(holders, islice(left, 1, None), strict=True) if units >= wanted), FOREVER
            )
            raise refusal(self.structure.path(self.vertex), wanted, free, self.size, holders, earliest)
        self.extend(key, claim, now, end)

    def extend(self, key: int, claim: Hold, now: int, end: int) -> list[str]:
        self.clear()
        wanted, free = self._given_to(claim), self._free_for(claim)
        claim.count = max(min(wanted, free), 0)
        self.free = free - self._held_by_others - claim.count
        self.running.move(claim, end)
        if claim.count == wanted:
            self._disputed.pop(key, None)
            return []
        self._disputed[key] = wanted  # to be held again when the others have freed it
        return [self.structure.path(self.vertex)]

    def idle(self, number: int, now: int) -> list[tuple[str, int]]:
        """At most that many units that are free now."""
        units = min(number, self.free_units)
        return [(self.structure.path(self.vertex), units)] if units > 0 else []

    def part_of(self, claim: Hold, pools: list[tuple[str, int]]) -> int | None:
        units = sum(amount for _, amount in pools)
        is_own = not self.is_gone and all(self.structure.vertex(path) == self.vertex for path, _ in pools)
        return units if is_own and 0 < units < claim.count else None

    def reduce(self, claim: Hold, part: int, now: int) -> None:
        claim.count -= part
        self._give_back(part, now, claim.end)

    def _last_part(self, claim: Hold, number: int) -> int:
        return number

    def _given_to(self, claim: Hold) -> int:
        """All units allocated to a job, including those that others hold by now."""
        return self._disputed.get(claim.key, claim.count)

    def _free_for(self, claim: Hold) -> int:
        """Units that no other job of the instance holds; what others hold in the graph is in its records."""
        return self.free + self._held_by_others + (claim.count if claim.is_live else 0)

    def _free_ended(self, over: list[Hold]) -> None:
        for hold in over:
            self.free += hold.count

    def refresh(self) -> None:
        self.clear()
        structure = self.graph.structure
        if structure is not self._known_structure:
            vertex = _in_tree(structure, self.structure.uuid(self.vertex))
            self.is_gone = vertex < 0
            size = 0 if self.is_gone else structure.size.item(vertex)
            self.free += size - self.size
            self.size = size
            if not self.is_gone:
                self.vertex, self.structure = vertex, structure
            self._known_structure = structure
            self._asks.clear()
        self.is_up = self._is_usable()

    def _is_usable(self) -> bool:
        return not self.is_gone and self.graph.structure.unavailable_above(self.vertex) < 0

    @property
    def is_stale(self) -> bool:
        return self.graph.structure is not self._known_structure or self.is_up != self._is_usable()

    def set_held_by_others(self, held: dict[int, int]) -> bool:
        if self.is_gone:
            return False
        structure = self.structure
        whole = any(held.get(v, 0) == structure.size.item(v) for v in structure.ancestors(self.vertex))
        others = self.size if whole else held.get(self.vertex, 0)
        if others == self._held_by_others:
            return False
        self.clear()
        self.free += self._held_by_others - others
        self._held_by_others = others
        return True

    def check(self) -> list[tuple[str, str]]:
        """Check that the free units are those that neither running jobs nor others hold."""
        left = self.size - self._held_by_others - sum(hold.count for hold in self.running.holds)
        if self.free == left:
            return []
        return [(self.structure.path(self.vertex), f"{self.free} units are counted as free, but {left} are free")]

    # -- queries -----------------------------------------------------------------------------------------------------

    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        return [(self.structure.path(self.vertex), self._given_to(claim))]

    def held(self, claim: Hold) -> list[tuple[str, int]]:
        return [(self.structure.path(self.vertex), claim.count)] if claim.count else []

    def vertices(self, claim: Hold) -> list[int]:
        """The pool; empty once it was removed from the graph."""
        return [] if self.is_gone else [self.vertex]

    def ids(self, claim: Hold) -> str:
        """Always empty: the units have no numbers."""
        return ""

    def count(self, claim: Hold) -> int:
        return self._given_to(claim)


def _in_tree(structure: Structure, uuid: str) -> int:
    """The pool with this uuid in the containment tree, -1 for none."""
    try:
        vertex = structure.vertex(uuid)
    except UnknownPool:
        return -1
    return vertex if vertex < structure.tree_end else -1
