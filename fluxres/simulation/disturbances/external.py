"""Events of a study that no job causes: pools that fail and are repaired, are taken out and put in, advance reservations, and
jobs that are canceled, held and released at a given time.

They come from a list, such as a file, or from a model (`failures`).  At one moment they follow the ends of jobs, so that a job
that ends when its node fails has completed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fluxres.clock import FOREVER, seconds, ticks
from fluxres.documents.document import Place
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, InfeasibleRequest, InputError, InsufficientResources, UsageError
from fluxres.instance.job import URGENCY_HELD
from fluxres.instance.states import PENDING, State
from fluxres.model import targets
from fluxres.simulation.disturbances.attempts import NOTHING_SAVED, Checkpoint
from fluxres.simulation.disturbances.blocked import BlockedUnits
from fluxres.syntax import duration as durations

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph
    from fluxres.simulation.simulation import Simulation

STATES: Final = {"down": "down", "up": "up", "drain": "drain", "remove": "inactive", "add": "up"}
"""By action, the state that its pools get.

remove: they are no part of the machine until `add`: no job starts there, jobs that run there continue, and the machine is
counted without them.
"""
ON_JOBS: Final = ("cancel", "hold", "release")
RESERVE: Final = "reserve"
ACTIONS: Final = (*STATES, *ON_JOBS, RESERVE)
ON_FAILURE: Final = ("fail", "requeue")


class AdvanceReservation(NamedTuple):
    """An advance reservation: of a number of units of the machine, or of pools; times in ticks."""

    wanted: int | str
    start: int
    duration: int
    name: str | None = None


class ExternalEvent(NamedTuple):
    """One event.

    Args:
        at: when, in ticks.
        action: one of `ACTIONS`.
        target: the names of pools, as one text; the id of a job of the workload; or a Booking.
    """

    at: int
    action: str
    target: str | int | AdvanceReservation


@dataclass(frozen=True)
class Disturbances:
    """What disturbs the jobs of a simulation.

    Args:
        events: ascending by time, or any list; an iterator may be endless.
        on_failure: what happens to the jobs on pools that go down: fail, or requeue.
        checkpoint: how jobs save their work; default: an interrupted job begins anew.
    """

    events: Iterable[ExternalEvent] = ()
    on_failure: str = "fail"
    checkpoint: Checkpoint = NOTHING_SAVED


class InService(NamedTuple):
    """Units of the machine from a moment on: those in service, and those that are part of it."""

    at: int
    up: int
    present: int


class External:
    """The external events of one simulation.

    Args:
        events: ascending by time, or any list.
        on_failure: what happens to the jobs on pools that go down.

    Errors: UsageError for an unknown name in it; UnknownPool for pools that a listed event names and the machine does not have.
    """

    def __init__(self, simulation: Simulation, events: Iterable[ExternalEvent], on_failure: str = "fail") -> None:
        if on_failure not in ON_FAILURE:
            raise UsageError(f"on_failure: expected {' or '.join(ON_FAILURE)}, got {on_failure!r:.80}")
        self.simulation = simulation
        self.on_failure = on_failure
        self.notes: Counter[str] = Counter()
        """Events without an effect, by reason."""
        self._urgencies: dict[int, int] = {}
        """By number of a held job, its urgency before."""
        self._unknown: dict[str, int | str] = {}
        """By action, the first id that no job had."""
        graph = simulation.machine.graph
        if isinstance(events, list | tuple):
            events = sorted(events, key=lambda event: event.at)
            for event in events:
                _check(graph, event)
        self._coming = iter(events)
        self.next = next(self._coming, None)
        self.steps = [InService(-FOREVER, *_units(graph.structure, simulation.machine.unit))]
        self.blocked = BlockedUnits(graph.structure, simulation.machine.unit)

    def take(self) -> None:
        """Make the next event happen."""
        event, self.next = self.next, next(self._coming, None)
        assert event is not None  # the caller has looked
        if self.next is not None and self.next.at < event.at:
            raise InputError(
                f"an event at {seconds(self.next.at)} s comes after one at {seconds(event.at)} s", where="external events"
            )
        if event.action in STATES:
            self._set_state(event)
        elif event.action == RESERVE:
            self._reserve(event)
        else:
            self._on_job(event)

    def _set_state(self, event: ExternalEvent) -> None:
        machine = self.simulation.machine
        vertices = targets.pools(machine.graph, str(event.target), "state")
        self.simulation.instance.set_state(vertices, STATES[event.action], requeue=self.on_failure == "requeue")
        self.blocked.note_states(event.at, machine.graph.structure)
        found = InService(event.at, *_units(machine.graph.structure, machine.unit))
        if found[1:] != self.steps[-1][1:]:
            self.steps.append(found)

    def _reserve(self, event: ExternalEvent) -> None:
        booking, instance = event.target, self.simulation.instance
        assert isinstance(booking, AdvanceReservation)
        units = isinstance(booking.wanted, int)
        try:
            instance.reserve(
                self.simulation.machine.asking(booking.wanted) if isinstance(booking.wanted, int) else None,
                pools=None if units else targets.pools(instance.inventory.graph, str(booking.wanted), "tags"),
                start_s=seconds(booking.start),
                duration_s=seconds(booking.duration),
                name=booking.name,
                payload=booking,
            )
        except (InfeasibleRequest, InsufficientResources, UsageError) as error:
            self.notes[f"reservation {booking.name or booking.wanted}: {error.message}"] += 1

    def _on_job(self, event: ExternalEvent) -> None:
        assert not isinstance(event.target, AdvanceReservation)
        if not self.simulation.has_submitted(event.target):
            first = self._unknown.setdefault(event.action, event.target)
            self.notes[f"{event.action}: no job with this id had been submitted (the first was {first})"] += 1
            return
        job = self.simulation.job_of(event.target)
        if job is None or (job.state not in PENDING and (event.action != "cancel" or job.state is not State.RUN)):
            self.notes[f"{event.action}: the job was not {'active' if event.action == 'cancel' else 'pending'}"] += 1
            return
        scheduler: Any = job.instance
        if event.action == "cancel":
            scheduler.cancel(job)
        elif event.action == "hold" and job.urgency != URGENCY_HELD:
            self._urgencies[job.number] = job.urgency
            scheduler.set_urgency(job, URGENCY_HELD)
        elif event.action == "release" and job.number in self._urgencies:
            scheduler.set_urgency(job, self._urgencies.pop(job.number))

    def areas(self, begin: int, end: int) -> tuple[int, int]:
        """Unit-ticks in service, and of the machine, in [begin, end)."""
        up = present = 0
        stops = [*(step.at for step in self.steps[1:]), FOREVER]
        for step, stop in zip(self.steps, stops, strict=True):
            length = max(min(stop, end) - max(step.at, begin), 0)
            up += length * step.up
            present += length * step.present
        return up, present


def _check(graph: ResourceGraph, event: ExternalEvent) -> None:
    if event.action not in ACTIONS:
        raise UsageError(f"expected {', '.join(ACTIONS)}, got {event.action!r:.80}", where="external events")
    booking = event.target if isinstance(event.target, AdvanceReservation) else None
    if booking is not None and booking.start <= event.at:
        raise UsageError(
            f"a reservation at {seconds(booking.start)} s is made at {seconds(event.at)} s",
            where="external events",
            hint="earlier",
        )
    named = booking.wanted if booking is not None else event.target if event.action in STATES else None
    if isinstance(named, str):
        for v in targets.pools(graph, named, "state"):
            if v >= graph.structure.tree_end:
                raise UsageError(f"{named} is not in the containment tree", where="external events")


def _units(structure: Structure, unit: str) -> tuple[int, int]:
    """The units in service, and those that are part of the machine."""
    pools = structure.of_type(unit)
    sizes = structure.size[pools]
    up, present = np.ones(len(pools), bool), np.ones(len(pools), bool)
    for root in structure.unavailable_roots().tolist():
        first, stop = np.searchsorted(pools, (root, structure.end.item(root)))
        up[first:stop] = False
        if structure.state_name(root) == STATES["remove"]:
            present[first:stop] = False
    return int(sizes[up].sum()), int(sizes[present].sum())


def merged(*lists: Iterable[ExternalEvent]) -> Iterator[ExternalEvent]:
    """Events of several sources, each ascending by time, in order of time."""
    return heapq.merge(*lists, key=lambda event: event.at)


# -- files -----------------------------------------------------------------------------------------------------------------

_RESERVATION: Final = ("start", "duration", "name")


def read(source: Source) -> list[ExternalEvent]:
    """External events of a YAML or JSON list, ascending by time.

        - {at: 1h, down: node3}             # a pool by name, or several: node[0-3]
        - {at: 5h, up: node3}
        - {at: 2d, reserve: 16, start: 3d, duration: 4h, name: class}   # a number of units, or pools: rack0
        - {at: 90, cancel: 17}              # a job by its id in the workload; also hold and release

    Errors: InputError with line and column.
    """
    document = source.document
    place = Place(document=document)
    values: Any = document.values
    found = [_event(entry, place.at(number)) for number, entry in enumerate(place.sequence(values, "a list of events"))]
    return sorted(found, key=lambda event: event.at)


def _event(entry: object, place: Place) -> ExternalEvent:
    given = place.mapping(entry, ("at", *ACTIONS, *_RESERVATION), ("at",))
    actions = [action for action in ACTIONS if action in given]
    if len(actions) != 1:
        raise place.error(f"expected one of {', '.join(ACTIONS)}")
    (action,) = actions
    at, target, spot = _time(given["at"], place.at("at")), given[action], place.at(action)
    if action == RESERVE:
        return ExternalEvent(at, action, _booking(given, place))
    for name in _RESERVATION:
        if name in given:
            raise place.at(name).error(f"{name} is for {RESERVE}")
    if action in ON_JOBS and isinstance(target, int) and not isinstance(target, bool):
        return ExternalEvent(at, action, target)
    return ExternalEvent(at, action, spot.text(target))


def _booking(given: Mapping[str, Any], place: Place) -> AdvanceReservation:
    wanted, spot = given[RESERVE], place.at(RESERVE)
    for name in ("start", "duration"):
        if name not in given:
            raise place.error(f"expected the key {name!r}, which is missing")
    is_number = isinstance(wanted, int) and not isinstance(wanted, bool)
    wanted = spot.integer(wanted, 1, 2**63 - 1) if is_number else spot.text(wanted)
    start, length = (_time(given[name], place.at(name)) for name in ("start", "duration"))
    if length < 1:
        raise place.at("duration").expected("a time above 0", given["duration"])
    return AdvanceReservation(wanted, start, length, place.at("name").text(given["name"]) if "name" in given else None)


def _time(given: object, place: Place) -> int:
    try:
        return ticks(durations.read(given) if isinstance(given, str) else place.seconds(given, "such as 90, or 30m"))
    except FluxresError as error:
        raise InputError(error.message, where=str(place), hint=error.hint) from None
