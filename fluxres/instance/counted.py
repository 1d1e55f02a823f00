"""Units of one pool: they have no names, so a number says all.

This is what the simulators of the field have: a machine that is a number of processors.  What runs gives back at known moments,
so what is free only grows with time until the first reservation; one reservation needs its start and what is left over beside
it, and only several need rows.
"""

from __future__ import annotations

from itertools import accumulate, islice
from typing import TYPE_CHECKING

from fluxres.clock import FOREVER
from fluxres.errors import InfeasibleRequest, UnknownPool
from fluxres.instance.availability import AvailableCounts
from fluxres.instance.inventory import Hold, NotUniform, Running, refusal
from fluxres.instance.uniform import UniformRequest, uniform_request
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph


class CountedInventory:
    """Units of one pool of a machine.

    Args:
        graph: the machine.
        vertex: the pool.
    """

    kind: str = "counted"

    def __init__(self, graph: ResourceGraph, vertex: int) -> None:
        self.graph = graph
        self.revision = graph.revision
        structure = self.structure = self._seen = graph.structure
        self.vertex = vertex
        self.is_gone = False
        """Whether the pool has left the containment tree; `structure` and `vertex` are then those that it had there."""
        self.type = structure.types[structure.type.item(vertex)]
        self.size = structure.size.item(vertex)
        self.is_up = structure.unavailable_above(vertex) < 0
        self.free = self.size
        self._others = 0
        """Units that others hold now or later."""
        self._asks: dict[int, tuple[Request, int]] = {}
        self.running = Running()
        self._disputed: dict[int, int] = {}
        """How many units those are to have that lack some, since others hold them."""
        self._reserved: dict[int, Hold] = {}
        self._spare = 0
        """Beside a single reservation: units free at its start that it does not need."""
        self._rows: AvailableCounts | None = None

    # -- asking ------------------------------------------------------------------------------------------------------

    def ask(self, request: Request) -> int:
        """Units asked for."""
        known = self._asks.get(id(request))
        if known is None or known[0] is not request:
            if len(self._asks) > 4096:
                self._asks.clear()
            known = self._asks[id(request)] = (request, self._units(uniform_request(request)))
        return known[1]

    def _units(self, wanted: UniformRequest | None) -> int:
        if wanted is None or wanted.type != self.type or wanted.is_whole or self.is_gone:
            raise NotUniform(f"only units of {self.type} are counted here")
        if wanted.number > self.size:
            raise InfeasibleRequest(
                f"{wanted.number} units of {self.type} asked for, the machine has {self.size}", hint="ask for less"
            )
        return wanted.number

    def measure_in(self, type_name: str | None) -> None:
        """Nothing changes: there is one type here."""

    @property
    def measure(self) -> str:
        """The type of the pool, which is what the size of jobs is measured in."""
        return self.type

    @property
    def is_full(self) -> bool:
        """Whether no unit is free."""
        return self.free <= 0 or not self.is_up

    def start(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        """Units now; see Inventory."""
        if ask > self.free or not self.is_up:
            return None
        reserved = self._reserved
        if reserved:
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
        """Whether as many units are free; see Inventory."""
        return self.is_up and ask <= self.free

    # -- reserving ---------------------------------------------------------------------------------------------------

    def reserve(self, key: int, ask: int, duration: int, now: int) -> int | None:
        """The earliest window; see Inventory."""
        if not self.is_up:
            return None
        self.unreserve(key)
        if not self._reserved:
            return self._reserve_first(key, ask, duration, now)
        rows = self._all_rows(now)
        start = rows.earliest(ask, duration)
        if start is None:
            return None
        end = min(start + duration, FOREVER)
        rows.change(start, end, -ask)
        self._reserved[key] = Hold(key, start, end, ask)
        return start

    def places(self) -> dict[int, Hold]:
        """Units by key; see Inventory."""
        return dict(self._reserved)

    def restore(self, key: int, place: Hold, duration: int, start: int, now: int) -> bool:
        """As many units; see Inventory."""
        end = min(start + duration, FOREVER)
        rows = self._all_rows(now)
        if not self.is_up or not rows.fits(place.count, start, end):
            self._drop_rows()
            return False
        rows.change(start, end, -place.count)
        self._reserved[key] = Hold(key, start, end, place.count)
        return True

    def reserve_count(self, key: int, ask: int, now: int) -> int | None:
        """The same: units have no names here."""
        self.clear()
        return self._reserve_first(key, ask, 1, now) if self.is_up else None

    def _reserve_first(self, key: int, ask: int, duration: int, now: int) -> int | None:
        free, start = self.free, now
        ends, holds = self.running.ends, self.running.holds
        at = 0
        if free < ask:
            for at, hold in enumerate(holds):
                free += hold.count
                if free >= ask:
                    start, at = ends[at], at + 1
                    break
            else:
                return None
            if start >= FOREVER:
                return None
            while at < len(ends) and ends[at] == start:
                free += holds[at].count
                at += 1
        self._spare = free - ask
        self._reserved[key] = Hold(key, start, min(start + duration, FOREVER), ask)
        return start

    def _all_rows(self, now: int) -> AvailableCounts:
        if self._rows is None:
            rows = self._rows = AvailableCounts(now, self.size - self._others)
            for hold in (*self.running.holds, *self._reserved.values()):
                rows.change(hold.start, hold.end, -hold.count)
        return self._rows

    def begin(self, key: int, ask: int, now: int, end: int) -> Hold | None:
        """Units that were reserved; see Inventory."""
        reserved = self._reserved[key]
        if reserved.start != now or reserved.end != end:
            self.unreserve(key)
            return self.start(key, ask, now, end)
        if ask > self.free or not self.is_up:
            return None
        del self._reserved[key]
        self._drop_rows()
        hold = Hold(key, now, end, ask)
        self.free -= ask
        self.running.add(hold)
        return hold

    def unreserve(self, key: int) -> None:
        """Drop a reservation; see Inventory."""
        reserved = self._reserved.pop(key, None)
        if reserved is not None:
            if self._rows is not None:
                self._rows.change(reserved.start, reserved.end, reserved.count)
            self._drop_rows()

    def _drop_rows(self) -> None:
        if not self._reserved:
            self._rows = None

    def promises(self) -> dict[int, int]:
        """Starts that are reserved; see Inventory."""
        return {key: hold.start for key, hold in self._reserved.items()}

    def clear(self) -> None:
        """Drop all reservations."""
        self._reserved.clear()
        self._rows = None

    # -- giving back -------------------------------------------------------------------------------------------------

    def finish(self, key: int, claim: Hold, now: int) -> None:
        """Units are back; see Inventory."""
        if self.running.release(claim):
            self.free += claim.count
            if self._rows is not None:
                self._rows.change(now, claim.end, claim.count)
            elif self._reserved:
                (only,) = self._reserved.values()
                if only.start < claim.end:
                    self._spare += claim.count
        claim.count = self._disputed.pop(key, claim.count)

    def resize(self, key: int, claim: Hold, now: int, end: int) -> None:
        """Another end; see Inventory."""
        self.clear()
        if end <= claim.end or self.is_gone:  # a job keeps what has been taken out of the graph
            self.running.move(claim, end)
            return
        wanted, free = self._due_to(claim), self._free_beside(claim)
        if wanted > free:
            holders = [hold for hold in self.running.holds if hold is not claim and hold.count]
            left = accumulate((hold.count for hold in holders), initial=free)
            earliest = next(
                (hold.end for hold, units in zip(holders, islice(left, 1, None), strict=True) if units >= wanted), FOREVER
            )
            raise refusal(self.structure.path(self.vertex), wanted, free, self.size, holders, earliest)
        self.extend(key, claim, now, end)

    def extend(self, key: int, claim: Hold, now: int, end: int) -> list[str]:
        """A later end; see Inventory."""
        self.clear()
        wanted, free = self._due_to(claim), self._free_beside(claim)
        claim.count = max(min(wanted, free), 0)
        self.free = free - self._others - claim.count
        self.running.move(claim, end)
        if claim.count == wanted:
            self._disputed.pop(key, None)
            return []
        self._disputed[key] = wanted  # when the others have gone, it has all of them again
        return [self.structure.path(self.vertex)]

    def _due_to(self, claim: Hold) -> int:
        """Units that a job was given, and has not given back."""
        return self._disputed.get(claim.key, claim.count)

    def _free_beside(self, claim: Hold) -> int:
        """Units that no other job of the instance holds; what others hold in the graph, the records say."""
        return self.free + self._others + (claim.count if claim.is_live else 0)

    def advance(self, now: int) -> list[int]:
        """Time moves; see Inventory."""
        ends = self.running.ends
        over = self.running.over(now) if ends and ends[0] <= now else []
        for hold in over:
            self.free += hold.count
        if self._rows is not None:
            self._rows.advance(now)
        return [hold.key for hold in over]

    def refresh(self) -> None:
        """States or structure have changed."""
        self.clear()
        structure = self.graph.structure
        if structure is not self._seen:
            vertex = _in_tree(structure, self.structure.uuid(self.vertex))
            self.is_gone = vertex < 0
            size = 0 if self.is_gone else structure.size.item(vertex)
            self.free += size - self.size
            self.size = size
            if not self.is_gone:
                self.vertex, self.structure = vertex, structure
            self._seen = structure
            self._asks.clear()
        self.is_up = self._is_usable()

    def _is_usable(self) -> bool:
        return not self.is_gone and self.graph.structure.unavailable_above(self.vertex) < 0

    @property
    def is_stale(self) -> bool:
        """Whether states or structure have changed; see Inventory."""
        return self.graph.structure is not self._seen or self.is_up != self._is_usable()

    def leave_alone(self, held: dict[int, int]) -> bool:
        """Units of others; see Inventory."""
        if self.is_gone:
            return False
        structure = self.structure
        whole = any(held.get(v, 0) == structure.size.item(v) for v in structure.ancestors(self.vertex))
        others = self.size if whole else held.get(self.vertex, 0)
        if others == self._others:
            return False
        self.clear()
        self.free += self._others - others
        self._others = others
        return True

    def forget(self) -> None:
        """Nothing is remembered here."""

    def check(self) -> list[tuple[str, str]]:
        """What is free is all that nothing that runs holds, nor others; see Inventory."""
        left = self.size - self._others - sum(hold.count for hold in self.running.holds)
        if self.free == left:
            return []
        return [(self.structure.path(self.vertex), f"{self.free} units are counted as free, and {left} are")]

    # -- saying ------------------------------------------------------------------------------------------------------

    def pools(self, claim: Hold) -> list[tuple[str, int]]:
        """The pool and the units of it."""
        return [(self.structure.path(self.vertex), self._due_to(claim))]

    def held(self, claim: Hold) -> list[tuple[str, int]]:
        """As many as are left to it; see Counting."""
        return [(self.structure.path(self.vertex), claim.count)] if claim.count else []

    def vertices(self, claim: Hold) -> list[int]:
        """The pool, as long as it is in the graph."""
        return [] if self.is_gone else [self.vertex]

    def ids(self, claim: Hold) -> str:
        """Nothing: the units have no numbers."""
        return ""

    def count(self, claim: Hold) -> int:
        """Units."""
        return self._due_to(claim)


def _in_tree(structure: Structure, uuid: str) -> int:
    """The pool of the containment tree with this uuid, -1 for none."""
    try:
        vertex = structure.vertex(uuid)
    except UnknownPool:
        return -1
    return vertex if vertex < structure.tree_end else -1
