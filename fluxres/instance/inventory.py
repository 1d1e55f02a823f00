"""What an instance schedules on: the one question every queue policy asks, and who may answer it.

A workload that counts nodes needs a thousandth of what a jobspec with sockets and watts needs.  So the instance knows this
protocol and not what is behind it: numbers, named units, or the whole resource graph.  All three must answer alike.  Times are
ticks.  What `ask` and `start` give is the inventory's own; the instance only carries it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from fluxres.allocation.plans import units
from fluxres.clock import FOREVER, seconds
from fluxres.errors import InsufficientResources
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

Ask = Any
"""A request as an inventory understands it."""

Claim = Any
"""What a job holds."""

Place = Any
"""What is reserved for a job, without its window."""


class NotUniform(Exception):
    """A request that a fast inventory cannot say; the resource graph can.  The instance never lets it out."""


class Inventory(Protocol):
    """Who holds what, and until when, of what an instance has."""

    kind: str
    graph: ResourceGraph
    revision: int
    """Of the graph, as far as it is known here; another one means that others have changed something."""
    running: Running
    """What is held, by when it ends; not what is reserved."""

    def ask(self, request: Request) -> Ask:
        """A request made ready.

        Errors: InfeasibleRequest for what can never be had; NotUniform where another inventory has to answer.
        """

    def start(self, key: int, ask: Ask, now: int, end: int) -> Claim | None:
        """Hold what is asked for over [now, end) beside all that is held or reserved; None where there is not as much."""

    def has_room(self, ask: Ask, now: int) -> bool:
        """Whether what is asked for is free at this moment, whatever is reserved for later."""

    def reserve(self, key: int, ask: Ask, duration: int, now: int) -> int | None:
        """Reserve the earliest window from now on; its start, or None where there never is one.

        Again for the same key it is fitted anew, and never comes later.
        """

    def begin(self, key: int, ask: Ask, now: int, end: int) -> Claim | None:
        """Make a reservation whose time has come a holding; None where it is late and no longer fits beside the others."""

    def places(self) -> Mapping[int, Place]:
        """Which pools are reserved by name or number, by key."""

    def restore(self, key: int, place: Place, duration: int, start: int, now: int) -> bool:
        """Reserve from `start` on the pools that `places` said before all reservations were dropped, if they are free then.

        States and structure of the graph must be as they were.
        """

    def unreserve(self, key: int) -> None:
        """Drop a reservation, if there is one."""

    def clear(self) -> None:
        """Drop all reservations."""

    def promises(self) -> dict[int, int]:
        """By key, the starts that are reserved."""

    def finish(self, key: int, claim: Claim, now: int) -> None:
        """What is held is free from now on."""

    def resize(self, key: int, claim: Claim, now: int, end: int) -> None:
        """What is held is held until another end; all reservations are dropped.

        Errors: InsufficientResources where others hold it then; it is held as before.
        """

    def extend(self, key: int, claim: Claim, now: int, end: int) -> list[str]:
        """What is held, and has not been given back in time, is held until `end`, as far as others do not have it by then; all
        reservations are dropped.

        What ends at this moment, or has ended, others have until `advance`.

        Returns: paths of pools that others have; when they have gone, this is called again.
        """

    def advance(self, now: int) -> list[int]:
        """Time moves, and what was held until now is free; its keys."""

    def refresh(self) -> None:
        """States or structure of the graph have changed; reservations are dropped."""

    @property
    def is_stale(self) -> bool:
        """Whether they have, and `refresh` was not called."""

    def leave_alone(self, held: dict[int, int]) -> bool:
        """Do not give out what others hold, now or later, until this is called again.

        Args:
            held: units by vertex.

        For inventories that do not look at the records. Returns whether anything changes; then all reservations are dropped.
        """

    def forget(self) -> None:
        """What others hold has changed: requests that found nothing may find something now."""

    @property
    def is_full(self) -> bool:
        """Whether nothing at all could start now; False when unsure."""

    def pools(self, claim: Claim) -> list[tuple[str, int]]:
        """Paths and units of what is held."""

    def vertices(self, claim: Claim) -> list[int]:
        """Vertex numbers of what is held."""

    def ids(self, claim: Claim) -> str:
        """What is held as an idset of unit numbers; empty where units have no numbers."""

    def count(self, claim: Claim) -> int:
        """How large what is held is, in units of `measure`."""

    def measure_in(self, type_name: str | None) -> None:
        """Measure in units of another type, from the next job on; None for the usual one."""

    def check(self) -> list[tuple[str, str]]:
        """Where what is counted as free is not what is left of the whole, and how (rule J1); empty when it is."""

    @property
    def measure(self) -> str:
        """The type that sizes are measured in."""

    @property
    def size(self) -> int:
        """Units of that type there are, in service or not."""


class Counting(Protocol):
    """What an inventory of equal units also can: hold a number free instead of names, and say what is left to a late job."""

    def held(self, claim: Claim) -> list[tuple[str, int]]:
        """As `pools`, without what others have of it."""

    def reserve_count(self, key: int, ask: Ask, now: int) -> int | None:
        """Hold that number of units free from the earliest moment on at which they are free; that moment."""


class Hold:
    """Units held over [start, end): how many, and which, as a bit set (0 where they have no names).

    Of a late job of which others hold some units, these are the units that are left; the inventory knows what the job lacks.
    """

    __slots__ = ("count", "end", "is_live", "key", "start", "units")

    def __init__(self, key: int, start: int, end: int, count: int, units: int = 0) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.count = count
        self.units = units
        self.is_live = True
        """Whether it still is among what runs: not when it was finished, or its end has come."""


class Running:
    """What runs, by when it ends."""

    __slots__ = ("ends", "holds", "lapsed")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.holds: list[Hold] = []
        self.lapsed: dict[int, Hold] = {}
        """By key, those whose end has come, and which were not given back: their units are free, and may be held again."""

    def __len__(self) -> int:
        return len(self.ends)

    def add(self, hold: Hold) -> None:
        """One more."""
        at = bisect_right(self.ends, hold.end)
        self.ends.insert(at, hold.end)
        self.holds.insert(at, hold)

    def remove(self, hold: Hold) -> None:
        """One less; it must be there."""
        at = bisect_left(self.ends, hold.end)
        holds = self.holds
        while holds[at] is not hold:
            at += 1
        del self.ends[at], holds[at]

    def release(self, hold: Hold) -> bool:
        """One is given back; whether its units were held until now."""
        if not hold.is_live:
            self.lapsed.pop(hold.key, None)
            return False
        hold.is_live = False
        self.remove(hold)
        return True

    def move(self, hold: Hold, end: int) -> None:
        """One has another end, also where its end had come."""
        self.release(hold)
        hold.end, hold.is_live = end, True
        self.add(hold)

    def until(self, moment: int) -> list[int]:
        """Keys of those that end at a moment, or before."""
        return [hold.key for hold in self.holds[: bisect_right(self.ends, moment)]]

    def over(self, now: int) -> list[Hold]:
        """Those whose end has come; they are not live any more."""
        gone = bisect_right(self.ends, min(now, FOREVER - 1))
        found = self.holds[:gone]
        del self.ends[:gone], self.holds[:gone]
        for hold in found:
            hold.is_live = False
            self.lapsed[hold.key] = hold
        return found


def refusal(where: str, wanted: int, free: int, size: int, holders: list[Hold], earliest: int) -> InsufficientResources:
    """Others hold what a job has, and had until now.

    Args:
        earliest: when as many units are free again, in ticks; FOREVER for never.
    """
    names = ", ".join(sorted(fluid.encode(hold.key) for hold in holders))
    return InsufficientResources(
        f"requested {units(wanted)}, {free} of {size} free (held by {names})",
        where=where,
        hint="" if earliest >= FOREVER else f"free from {in_message(seconds(earliest))} on",
        earliest=None if earliest >= FOREVER else seconds(earliest),
        reasons={where: names},
    )
