"""The interface between an instance and what it schedules on.

Scheduling a workload that counts nodes takes a thousandth of the work of a jobspec with sockets and watts.  Therefore an instance
uses this protocol, which has three implementations: numbers, bit sets of named pools, and the resource graph.  All three give
equal answers.  Times are ticks.  Each implementation has its own types for `Ask`, `Claim` and `ReservedPlace`; an instance
only stores them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from fluxres.allocation.plans import units
from fluxres.arrays import Int32, Int64
from fluxres.clock import FOREVER, seconds
from fluxres.errors import InsufficientResources
from fluxres.graph.kinds import WAY
from fluxres.syntax import fluid, idset
from fluxres.syntax.jobspec import Request
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph
    from fluxres.syntax.jobspec import Request
    from fluxres.syntax.vertex import Vertex


Ask = Any
"""A request in the form that the inventory uses."""

Claim = Any
"""What is allocated to a job."""

ReservedPlace = Any
"""The pools or units reserved for a job, without the window."""


class NotUniform(Exception):
    """The inventory does not support a request, but the resource graph does.  Instances handle this; callers never see it."""


class Inventory(Protocol):
    """The resources of an instance: which job holds what, until when, and what is reserved."""

    kind: str
    graph: ResourceGraph
    revision: int
    """The last known revision of the graph; if the graph has another one, others have changed it."""
    running: Running
    """What is held, sorted by end; without reservations."""
    ahead: dict[int, Hold]
    """Advance reservations that have not begun, by key; they stay when the reservations of a policy are dropped."""

    def ask(self, request: Request) -> Ask:
        """Prepare a request.

        Errors: InfeasibleRequest if it can never be satisfied; NotUniform if this inventory does not support it.
        """

    def start(self, key: int, ask: Ask, now: int, end: int) -> Claim | None:
        """Allocate a request over [now, end) beside everything held and reserved; None if there is not enough."""

    def has_room(self, ask: Ask, now: int) -> bool:
        """Whether there is room for a request at this moment, regardless of reservations for later."""

    def reserve(self, key: int, ask: Ask, duration: int, now: int) -> int | None:
        """Reserve the earliest possible window; returns its start, or None if there is none.

        Called again for the same key it replaces the reservation, by one that is not later.
        """

    def begin(self, key: int, ask: Ask, now: int, end: int) -> Claim | None:
        """Turn a reservation whose time has come into a claim; None if it is late and no longer fits beside the others."""

    def places(self) -> Mapping[int, ReservedPlace]:
        """By key, the pools or units that are reserved."""

    def restore(self, key: int, place: ReservedPlace, duration: int, start: int, now: int) -> bool:
        """Reserve again, from `start` on, a place returned by `places` before reservations were dropped, if it is free then.

        States and structure of the graph must not have changed since.
        """

    def unreserve(self, key: int) -> None:
        """Drop the reservation of a job, if it has one."""

    def clear(self) -> None:
        """Drop all reservations."""

    def suspend(self, now: int) -> None:
        """As `clear`, if most are about to be made again: the graph may show them until then, or until `drop_suspended`."""

    def drop_suspended(self) -> None:
        """Drop those that were not made again since `suspend`."""

    def reserved_starts(self) -> dict[int, int]:
        """By key, the starts of reservations."""

    def reserve_ahead(self, key: int, ask: Ask, start: int, end: int, now: int) -> None:
        """Reserve a request over [start, end), which no other job gets; drops all reservations of the policy.

        Errors: InsufficientResources if there is no room beside what is held and reserved ahead.
        """

    def reserve_pools_ahead(self, key: int, vertices: list[int], start: int, end: int, now: int) -> None:
        """As `reserve_ahead`, for these pools with everything below them, in service or not.

        Errors: InsufficientResources; NotUniform if this inventory does not allocate such pools.
        """

    def begin_ahead(self, key: int) -> Claim | None:
        """Turn an advance reservation into a claim; None while a job holds some of it that has not ended in time."""

    def drop_ahead(self, key: int) -> None:
        """Drop an advance reservation, if there is one."""

    def finish(self, key: int, claim: Claim, now: int) -> None:
        """Free a claim from now on."""

    def resize(self, key: int, claim: Claim, now: int, end: int) -> None:
        """Change the end of a claim; drops all reservations.

        Errors: InsufficientResources if others hold some of it before the new end; the claim is unchanged then.
        """

    def extend(self, key: int, claim: Claim, now: int, end: int) -> list[str]:
        """Extend a claim that was not freed in time until `end`, except for what others hold; drops all reservations.

        What other claims hold that end at this moment, or have ended, is theirs until `advance`.

        Returns: the paths of pools that others hold. When these are freed, the instance calls this again.
        """

    def shrink(self, key: int, claim: Claim, part: Ask, now: int) -> bool:
        """Free a part of a claim, the units that a match would choose last; drops all reservations of the policy.

        Returns: False, with nothing changed, for a claim of which others hold some.
        """

    def grow(self, key: int, claim: Claim, part: Ask, now: int) -> bool:
        """Add a request to a claim until its end; drops all reservations of the policy.

        Returns: False, with nothing changed, if there is not enough beside what is held and reserved ahead.
        """

    def advance(self, now: int) -> list[int]:
        """Free the claims that have ended by now; returns their keys."""

    def refresh(self) -> None:
        """Update after a change of states or structure of the graph; drops all reservations."""

    @property
    def is_stale(self) -> bool:
        """Whether states or structure of the graph have changed since the last `refresh`."""

    def set_held_by_others(self, held: dict[int, int]) -> bool:
        """Set what others hold, now or later, which is not allocated until they free it; for inventories that do not use records.

        Args:
            held: units by vertex.

        Returns: whether anything has changed; then all reservations were dropped.
        """

    def idle(self, number: int, now: int) -> list[tuple[str, int]]:
        """The paths and units of what nobody holds now, at most that many units of `measure`."""

    def forget_failures(self) -> None:
        """Try requests again that found nothing before, since something may have been freed."""

    @property
    def is_full(self) -> bool:
        """Whether nothing at all is free now; False if unsure."""

    @property
    def free_units(self) -> int:
        """The units of `measure` that are in service and that nobody holds now."""

    def pools(self, claim: Claim) -> list[tuple[str, int]]:
        """The paths of the pools of a claim, with their units."""

    def vertices(self, claim: Claim) -> list[int]:
        """The vertex numbers of the pools of a claim."""

    def ids(self, claim: Claim) -> str:
        """The units of a claim as an idset; empty if units have no numbers."""

    def count(self, claim: Claim) -> int:
        """The size of a claim, in units of `measure`."""

    def requested(self, request: Request) -> int:
        """The least size of a request, in units of `measure`."""

    def measure_in(self, type_name: str | None) -> None:
        """Measure sizes in units of another type; None for the default."""

    def check(self) -> list[tuple[str, str]]:
        """Places and messages where the free units are not what claims and others leave (rule J1); empty if consistent."""

    @property
    def measure(self) -> str:
        """The type in whose units sizes are measured."""

    @property
    def size(self) -> int:
        """All units of that type, in service or not."""


class Hold:
    """A claim on units over [start, end): their number, and a bit set of them (0 if they have no names).

    For a late job, these are only the units that others do not hold; the inventory has the rest.
    """

    __slots__ = ("count", "end", "is_live", "key", "start", "units")

    def __init__(self, key: int, start: int, end: int, count: int, units: int = 0) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.count = count
        self.units = units
        self.is_live = True
        """Whether it is listed as running: neither finished nor past its end."""


class Running:
    """The claims that are held, sorted by their end."""

    __slots__ = ("ends", "holds", "lapsed")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.holds: list[Hold] = []
        self.lapsed: dict[int, Hold] = {}
        """By key, claims past their end that were not finished: their units count as free, but may be held again."""

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def has_end(self) -> bool:
        """Whether a claim ends at a known moment."""
        return bool(self.ends) and self.ends[0] < FOREVER

    def add(self, hold: Hold) -> None:
        at = bisect_right(self.ends, hold.end)
        self.ends.insert(at, hold.end)
        self.holds.insert(at, hold)

    def remove(self, hold: Hold) -> None:
        at = bisect_left(self.ends, hold.end)
        holds = self.holds
        while holds[at] is not hold:
            at += 1
        del self.ends[at], holds[at]

    def release(self, hold: Hold) -> bool:
        """Remove a claim; returns whether its units were held until now."""
        if not hold.is_live:
            self.lapsed.pop(hold.key, None)
            return False
        hold.is_live = False
        self.remove(hold)
        return True

    def move(self, hold: Hold, end: int) -> None:
        """Give a claim another end, also if it is past its end."""
        self.release(hold)
        hold.end, hold.is_live = end, True
        self.add(hold)

    def ending_by(self, moment: int) -> list[int]:
        """The keys of claims that end by a moment."""
        return [hold.key for hold in self.holds[: bisect_right(self.ends, moment)]]

    def take_ended(self, now: int) -> list[Hold]:
        """Move the claims that have ended by now to `lapsed`, and return them."""
        gone = bisect_right(self.ends, min(now, FOREVER - 1))
        found = self.holds[:gone]
        del self.ends[:gone], self.holds[:gone]
        for hold in found:
            hold.is_live = False
            self.lapsed[hold.key] = hold
        return found


def refusal(where: str, wanted: int, free: int, size: int, holders: list[Hold], earliest: int) -> InsufficientResources:
    """The error for a claim that cannot be extended because others hold some of its units then.

    Args:
        earliest: when that number of units is free again, in ticks; FOREVER for never.
    """
    names = ", ".join(sorted(fluid.encode(hold.key) for hold in holders))
    return InsufficientResources(
        f"requested {units(wanted)}, {free} of {size} free (held by {names})",
        where=where,
        hint="" if earliest >= FOREVER else f"free from {in_message(seconds(earliest))} on",
        earliest=None if earliest >= FOREVER else seconds(earliest),
        reasons={where: names},
    )


_DEFAULT_TYPES: Final = ("core", "node")

Inside = Mapping[str, int]
_NOTHING_INSIDE: Final[Inside] = {}


def requested_units(request: Request, type_name: str, inside: Inside = _NOTHING_INSIDE) -> int:
    """The least size of a request in units of a type; of the type with the most units, if it takes none of that type.

    Args:
        inside: by type, the least units of `type_name` in a pool of that type, which exclusive pools take with them.

    >>> from fluxres.syntax.jobspec import as_request
    >>> wanted = as_request("slot=3/node/[core=2;gpu=1]")
    >>> requested_units(wanted, "core"), requested_units(wanted, "node"), requested_units(wanted, "rack")
    (6, 3, 6)
    >>> requested_units(wanted, "core", {"node": 16})
    48
    """
    resources = request.resources
    known = _SIZES.get(id(resources))
    if known is not None and known[0] is resources and known[1] == type_name and known[2] is inside:
        return known[3]
    if len(_SIZES) >= _SIZES_KEPT:
        _SIZES.clear()
    size = sum(_units_of(vertex, type_name, inside) for vertex in resources) or _most_units(resources)
    _SIZES[id(resources)] = resources, type_name, inside, size
    return size


_SIZES: Final[dict[int, tuple[tuple[Vertex, ...], str, Inside, int]]] = {}
"""By identity, the sizes of resources that many jobs request."""
_SIZES_KEPT: Final = 4096


def _units_of(vertex: Vertex, type_name: str, inside: Inside) -> int:
    if vertex.type == type_name:
        return vertex.count.min
    units = sum(_units_of(child, type_name, inside) for child in vertex.children)
    if vertex.is_exclusive and not vertex.is_slot:
        units = max(units, inside.get(vertex.type, 0))
    return vertex.count.min * units


def _most_units(resources: tuple[Vertex, ...]) -> int:
    found: Counter[str] = Counter()
    todo = [(vertex, 1) for vertex in resources]
    while todo:
        vertex, times = todo.pop()
        number = times * vertex.count.min
        if not vertex.is_slot:
            found[vertex.type] += number
        todo += [(child, number) for child in vertex.children]
    return max(found.values(), default=0)


def default_measure(types: Sequence[str]) -> str:
    """The type in whose units sizes are measured by default: core, else node, else the last type of the machine."""
    return next((name for name in _DEFAULT_TYPES if name in types), types[-1])


class Measure:
    """Measures allocations in units of one type, and numbers these units.

    One job may hold nodes exclusively, and another some cores of a node.  To add up or to plot their sizes, both are measured in
    units of one type.

    Args:
        type_name: None for core, else node, else the last type of the machine.

    Cost: O(pools), once.
    """

    __slots__ = ("_before", "_ends", "_sizes", "_units_before", "has_numbers", "inside", "size", "type")

    def __init__(self, structure: Structure, type_name: str | None) -> None:
        types = structure.types
        self.type = type_name or default_measure(types)
        found = structure.of_type(self.type)
        vertices: Int32 = found[(structure.flags[found] & WAY) == 0]
        sizes = structure.size[vertices]
        self._ends = structure.end
        self._sizes = structure.size
        self.size = int(sizes.sum())
        self.has_numbers = bool((sizes == 1).all())
        #: By vertex, and for the end of all: the pools of the type before it, and their units.
        self._before = np.zeros(structure.n + 1, np.int32)
        self._before[vertices + 1] = 1
        np.cumsum(self._before, out=self._before)
        self._units_before: Int32 | Int64 = self._before
        if not self.has_numbers:
            self._units_before = np.zeros(structure.n + 1, np.int64)
            self._units_before[vertices + 1] = sizes
            np.cumsum(self._units_before, out=self._units_before)
        #: By type of pools, the least units in one of them.
        self.inside = {name: self._least(structure.of_type(name)) for name in types}

    def requested(self, request: Request) -> int:
        """The least units that a request takes, with those in pools that it takes exclusively."""
        return requested_units(request, self.type, self.inside)

    def _least(self, vertices: Int32) -> int:
        return int((self._units_before[self._ends[vertices]] - self._units_before[vertices]).min(initial=self.size))

    def units(self, vertices: Int32, amounts: Int64) -> int:
        """The units of the type in an allocation, including those held implicitly below exclusive pools."""
        if len(vertices) == 1 and amounts.item(0) == self._sizes.item(v := vertices.item(0)):
            return self._units_before.item(self._ends.item(v)) - self._units_before.item(v)
        whole = amounts == self._sizes[vertices]
        if whole.all():
            return self.units_inside(vertices)
        part = ~whole & (self._before[vertices + 1] > self._before[vertices])
        return self.units_inside(vertices[whole]) + int(amounts[part].sum())

    def units_inside(self, vertices: Int32) -> int:
        """The units of the type in these pools, themselves included."""
        return int((self._units_before[self._ends[vertices]] - self._units_before[vertices]).sum())

    def ids(self, vertices: Int32) -> str:
        """The idset of the pools of the type in these pools, numbered through the machine; empty unless all have size 1."""
        if not self.has_numbers or not len(vertices):
            return ""
        first, stop = self._before[vertices], self._before[self._ends[vertices]]
        return idset.format(at for low, high in zip(first.tolist(), stop.tolist(), strict=True) for at in range(low, high))


class CurrentMeasure:
    """The `Measure` of the present structure of a graph, made when it is needed for the first time.

    Args:
        type_name: as of `Measure`.
    """

    __slots__ = ("_made", "_structure", "_type_name")

    def __init__(self, type_name: str | None) -> None:
        self._type_name = type_name
        self._structure: Structure | None = None
        self._made: Measure | None = None

    def of(self, structure: Structure) -> Measure:
        if self._made is None or self._structure is not structure:
            self._structure, self._made = structure, Measure(structure, self._type_name)
        return self._made

    def drop(self) -> None:
        """Make it again when it is needed: the structure has changed, perhaps only in its sizes."""
        self._structure = self._made = None
