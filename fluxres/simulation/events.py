"""Simulated time: the clock, the events and their order at one moment, and the queue of those to come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Protocol

from fluxres.clock import seconds

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.simulation.nesting.balance import Balance
    from fluxres.simulation.nesting.elastic import Elastic
    from fluxres.simulation.nesting.launches import JobLaunch
    from fluxres.simulation.nesting.sites import Site
    from fluxres.simulation.workload.workload import Submission


class Sites(Protocol):
    """The instances of a simulation."""

    @property
    def outermost(self) -> Site: ...
    def site_of(self, job: Job) -> Site: ...


class Event(ABC):
    """What happens at a moment. Events of one class at one moment are handled in the order in which they were caused: ends in
    that of starts."""

    __slots__ = ()

    @abstractmethod
    def site_in(self, sites: Sites) -> Site:
        """The instance that it concerns, whose queue policy may act in it."""


@dataclass(slots=True)
class _SiteEvent(Event):
    site: Site

    def site_in(self, sites: Sites) -> Site:
        return self.site


@dataclass(slots=True)
class _JobEvent(Event):
    job: Job

    def site_in(self, sites: Sites) -> Site:
        return sites.site_of(self.job)


@dataclass(slots=True)
class _LaunchEvent(Event):
    launch: JobLaunch

    def site_in(self, sites: Sites) -> Site:
        return self.launch.site


class SubmitEvent(_SiteEvent):
    """The next job of an instance's share of the workload is submitted."""

    __slots__ = ()


class TimerEvent(_SiteEvent):
    """Something is due at an instance, such as a reservation."""

    __slots__ = ()


class PassEvent(_SiteEvent):
    """An instance makes a pass or a decision, or its processor begins its next task."""

    __slots__ = ()


@dataclass(slots=True)
class FollowEvent(Event):
    """A job is submitted that follows others."""

    job: Submission

    def site_in(self, sites: Sites) -> Site:
        return sites.outermost


@dataclass(slots=True)
class DisturbanceEvent(Event):
    """Something happens that no job causes."""

    def site_in(self, sites: Sites) -> Site:
        return sites.outermost


@dataclass(slots=True)
class BootEvent(_JobEvent):
    """The instance of a job begins.

    Args:
        started: when the job started; it may have been interrupted and have started again since.
    """

    started: int


@dataclass(slots=True)
class EndEvent(_JobEvent):
    """A job ends.

    Args:
        plan: distinguishes this end from those that were planned for other attempts and sizes, if there are any.
    """

    plan: object = None


class CorrectionEvent(_JobEvent):
    """A job outlives its prediction."""

    __slots__ = ()


class KeepEvent(_JobEvent):
    """A job that has not been launched is at its limit."""

    __slots__ = ()


class ReadyEvent(_LaunchEvent):
    """The nodes of a job are on."""

    __slots__ = ()


class LaunchedEvent(_LaunchEvent):
    """A job is on its nodes."""

    __slots__ = ()


@dataclass(slots=True)
class ServedEvent(_SiteEvent):
    """A processor has completed a task.

    Args:
        kind: of the task, such as `processor.INGEST`.
        what: the task was about.
    """

    kind: int
    what: Any


@dataclass(slots=True)
class PeriodEvent(Event):
    """A period ends after which jobs are moved between the instances below a parent, or those are resized."""

    parent: Site
    by: Balance | Elastic

    def site_in(self, sites: Sites) -> Site:
        return self.parent


EVENT_ORDERS: Final[dict[str, tuple[type[Event], ...]]] = {
    "sequential": (
        KeepEvent,
        ReadyEvent,
        CorrectionEvent,
        PassEvent,
        ServedEvent,
        SubmitEvent,
        FollowEvent,
        BootEvent,
        TimerEvent,
        EndEvent,
        LaunchedEvent,
        PeriodEvent,
        DisturbanceEvent,
    ),
    "batched": (
        KeepEvent,
        ReadyEvent,
        CorrectionEvent,
        EndEvent,
        ServedEvent,
        LaunchedEvent,
        BootEvent,
        TimerEvent,
        DisturbanceEvent,
        SubmitEvent,
        FollowEvent,
        PeriodEvent,
        PassEvent,
    ),
}
"""The order of the events of one moment. sequential, as in PySS: each event is followed by its pass. batched, as in Batsim: one
pass follows all events.  Jobs that outlive what was predicted come first, before others could get what they hold; in the
sequential order, as in PySS, no pass follows."""


class SimulatedClock:
    """The current time of the simulator.

    >>> clock = SimulatedClock(); clock.now = 1_500_000; clock()
    1.5
    """

    __slots__ = ("now",)

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> float:
        return seconds(self.now)

    def ticks(self) -> int:
        return self.now


class EventQueue:
    """Future events, sorted by moment, class and insertion order.

    Args:
        order: of the classes at one moment.
    """

    __slots__ = ("_heap", "_made", "_ranks")

    def __init__(self, order: tuple[type[Event], ...] = EVENT_ORDERS["sequential"]) -> None:
        self._ranks = {each: rank for rank, each in enumerate(order)}
        self._heap: list[tuple[int, int, int, Event]] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, moment: int, event: Event) -> None:
        self._made += 1
        heappush(self._heap, (moment, self._ranks[type(event)], self._made, event))

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        """Each next event and its moment, until there is none; more may be pushed meanwhile."""
        heap = self._heap
        while heap:
            moment, _, _, event = heappop(heap)
            yield moment, event
