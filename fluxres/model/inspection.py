"""What can be asked of a graph: pools, views, searches, totals, who holds what, and the time all of it is asked at.

The face of fluxres is one class to its users and two to its readers: nothing here changes who holds what;
:class:`~fluxres.model.resource_graph.ResourceGraph` adds everything that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from fluxres.allocation.records import Records
from fluxres.clock import FOREVER, Clock, Length, Time, fixed, length_ticks, now_ticks, seconds, ticks
from fluxres.errors import UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Problem, Structure
from fluxres.model import audit, changes, events, joining, pickling, search, targets, totals, walking
from fluxres.model.locking import locked
from fluxres.model.pool import Pool
from fluxres.model.selection import Selection
from fluxres.model.targets import Where
from fluxres.model.values import Allocation, Span
from fluxres.planner.planner import Planner
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    import networkx

    from fluxres.graph.views import StructureRef
    from fluxres.match import Matcher
    from fluxres.model.resource_graph import ResourceGraph
    from fluxres.syntax.criteria import Criteria


_NUMBERS = count(1)
"""Of the graphs of this process: a match knows on which one it was found."""


class Inspection:
    """A structure with records over it, to be asked.

    Args: see :class:`~fluxres.model.resource_graph.ResourceGraph`.
    """

    def __init__(self, structure: Structure, *, name: str | None = None, clock: Clock | None = None) -> None:
        self._clock_given = clock
        self.number = next(_NUMBERS)
        self.lock = RLock()
        self.structure = structure
        self.name = name if name is not None else structure.hierarchy
        self.generation = 0
        self.revision = 0
        self.sink: Callable[[events.Event], None] | None = None
        #: Whatever has to know what jobs held before its records expire.
        self.keepers: WeakSet[changes.Keeper] = WeakSet()
        self.planner = self.plan(structure)
        self.records = Records(structure, self.planner)
        self.matcher: Matcher | None = None
        self._views: StructureRef | None = None

    def __reduce__(self) -> tuple[Callable[..., ResourceGraph], tuple[Any, ...]]:
        """A graph is pickled by value, with its clock and without its sink; handles are pickled with their graph."""
        with self.lock:
            return pickling.reduced(self._face)

    @locked
    def __copy__(self) -> ResourceGraph:
        return joining.duplicate(self._face)

    @locked
    def __deepcopy__(self, memo: object) -> ResourceGraph:
        made = joining.duplicate(self._face)
        made.generation = self.generation  # that of the handles that are copied with it
        return made

    @staticmethod
    def plan(structure: Structure) -> Planner:
        """An empty planner over a structure: its pools, and its edges with a capacity."""
        accounts = structure.accounts
        return Planner(accounts.parent, accounts.end, accounts.type, accounts.units, of_type=accounts.of_type)

    @property
    def _face(self) -> ResourceGraph:
        # There is one subclass, and handles offer what it adds.
        return cast("ResourceGraph", self)

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """What "now" is read from, in seconds."""
        return self._clock_given if self._clock_given is not None else fixed(0.0)

    @clock.setter
    def clock(self, given: Clock) -> None:
        self._clock_given = given

    def now(self) -> int:
        """Now, in ticks."""
        if self.records.upstream is not None:
            self.records.upstream.refresh()
        return 0 if self._clock_given is None else now_ticks(self._clock_given)

    def window(self, at: Time | None, duration_s: Length | None, name: str = "at") -> tuple[int, int]:
        """Start and duration in seconds as a window in ticks; a moment is one tick long.

        Args:
            name: what the caller calls the start.

        Errors: UsageError for a duration that is not positive.
        """
        now = self.now()
        start = now if at is None else ticks(at, name)
        if duration_s is None:
            return start, start + 1
        length = length_ticks(duration_s)
        if length < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {duration_s!r}")
        return start, min(start + length, FOREVER)

    def open_window(self, start: Time | None, end: Time | None, name: str = "start") -> tuple[int, int]:
        """Start (now by default) and end (none by default) in seconds as ticks.

        Args:
            name: what the caller calls the start.

        Errors: UsageError for a window that ends before it begins.
        """
        now = self.now()
        lo = now if start is None else ticks(start, name)
        hi = FOREVER if end is None else ticks(end, "end")
        if not lo < hi:
            raise UsageError(
                f"the window ends at {in_message(seconds(hi))}, not after its beginning at {in_message(seconds(lo))}"
            )
        return lo, hi

    def _given_window(
        self, start: Time | None, end: Time | None, duration_s: Length | None, name: str = "start"
    ) -> tuple[int, int]:
        if end is not None and duration_s is not None:
            raise UsageError("both an end and a duration were given", hint="give one of them")
        if duration_s is None:
            return self.open_window(start, end, name)
        return self.window(start, duration_s, name)

    # -- pools -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.structure.n

    @locked
    def __repr__(self) -> str:
        if isinstance(self.structure, joining.Destroyed):
            return f"<ResourceGraph {self.name}: destroyed>"
        jobs = self._lasting(now_ticks(self.clock))  # unlike now(), this asks no instance above
        return f"<ResourceGraph {self.name}: {len(self)} pools, {len(jobs)} jobs>"

    @property
    def root(self) -> Pool:
        """The root of the containment tree."""
        return Pool(self._face, 0)

    def vertex(self, where: Where) -> int:
        """Vertex number of a pool given by handle, path, URI, uuid or number.

        Errors: UnknownPool, StaleHandle.  Cost: O(1) for a path whose parent was asked for before.
        """
        return targets.vertex(self._face, where)

    def pool(self, where: Where) -> Pool:
        """The pool of this path, URI, uuid or vertex number.

        Errors: UnknownPool naming the part of the path that does not exist.
        """
        return Pool(self._face, targets.vertex(self._face, where))

    def select(self, vertices: Int32) -> Selection:
        """A selection of these vertex numbers (ascending)."""
        return Selection(self._face, vertices)

    # -- networkx ----------------------------------------------------------------------------------------------------

    @property
    def containment(self) -> networkx.DiGraph[int]:
        """The containment tree as a read-only networkx.DiGraph over the columns; building it costs nothing.

        It is of this generation: after a change of structure every look at it is a StaleHandle.
        """
        from fluxres.graph.views import ContainmentGraph  # networkx takes 0.1 s to import

        return ContainmentGraph(self.structure, self._columns())

    def subsystem(self, name: str) -> networkx.DiGraph[int]:
        """An auxiliary graph as a read-only networkx.DiGraph, of this generation as `containment`; edges with a capacity say
        how much of it is `free` now.

        Errors: UnknownGraph with the names there are.
        """
        from fluxres.graph.views import SubsystemGraph  # networkx takes 0.1 s to import

        planner = self.planner  # of this generation, as the view is

        def free(edge: int) -> int:
            with self.lock:
                now = self.now()
                return planner.free(edge, now, now + 1)

        return SubsystemGraph(self.structure, self.structure.subsystem(name), self._columns(), free)

    def _columns(self) -> StructureRef:
        from fluxres.graph.views import StructureRef

        if self._views is None:
            self._views = StructureRef(self.structure)
        return self._views

    def withdraw_views(self) -> None:
        """The structure is another one from here on: no view over this one answers any more."""
        if self._views is not None:
            self._views.withdraw()
            self._views = None

    @property
    def subsystems(self) -> list[str]:
        """Names of the auxiliary graphs."""
        return list(self.structure.subsystems)

    # -- asking ------------------------------------------------------------------------------------------------------

    @locked
    def find(
        self,
        criteria: str | Criteria | Callable[[Pool], object],
        at: Time | None = None,
        during: tuple[Time, Time] | None = None,
    ) -> Selection:
        """Pools that meet the criteria (RFC 4 Find and Match; the language is in specs/criteria.md).

        Args:
            criteria: text such as ``type=node and status=up and property=ssd and available>=8``; parsed criteria; or a function
                that is called with every pool and says whether it is meant.
            at: the moment that amounts and jobs are asked about, in seconds; now by default.
            during: a window instead: amounts free throughout it.

        Errors: InputError with the column; UsageError for what is no criteria.  Cost: a few vector scans; with a function one
        object and one call for each pool, a second for a million of them.
        """
        return search.find(self._face, criteria, at, during)

    def walk(
        self,
        where: Where = "/",
        order: str = "pre",
        prune: Callable[[Pool], bool] | None = None,
        sort: Callable[[list[Pool]], Iterable[Pool]] | None = None,
        hierarchy: str | None = None,
    ) -> Iterator[Pool]:
        """Visit a pool and what is below it (RFC 4 Traversal).

        Args:
            where: where to begin. A URI says in which hierarchy: ``power:/pdu0``; ``power:/`` is all of it. In a graph that is
                no hierarchy, ``network:/spine``, the walk follows its edges and visits each pool once.
            order: ``pre`` (a pool before what it has), ``post``, or ``bfs`` (level by level).
            prune: called with a pool; true leaves out it and all below it.
            sort: called with the pools next below one; gives them, or some of them, in the order to visit.
            hierarchy: name of the hierarchy or graph, for a pool that is named otherwise; containment by default.

        Errors: UsageError for another order, and for a pool that does not stand there; UnknownGraph; StaleHandle when the graph
        changes its structure during the walk.
        """
        return walking.walk(self._face, targets.place(self._face, where, hierarchy), order, prune, sort)

    @locked
    def aggregate(
        self,
        where: Where = "/",
        at: Time | None = None,
        duration_s: Length | None = None,
        all: bool = False,
        hierarchy: str | None = None,
    ) -> dict[str, int]:
        """Available units by type in a subtree, its top included (RFC 4 Aggregation).

        Units are added up once: 800 W of a PDU are 800 W of the feed that supplies it, so of suppliers of one type only the
        topmost in the subtree count. What a copy has only as the way from its root counts nothing. Units of one type are
        converted to the one in `units`; what makes no whole unit is an entry such as ``memory[MiB]``, and units that do not
        convert are entries such as ``memory[GiB]``.

        Args:
            where: top of the subtree; a URI says in which hierarchy: ``power:/pdu0``; ``power:/`` is all of it.
            at, duration_s: a moment (now by default) or a window throughout which they are free.
            all: keep the types of which nothing is available.
            hierarchy: name of the hierarchy, for a pool that is named otherwise; containment by default.

        Errors: UnknownPool, UnknownGraph; UsageError for a graph that is no hierarchy.
        """
        place = targets.place(self._face, where, hierarchy)
        return totals.aggregate(self._face, place, *self.window(at, duration_s), all)

    @property
    def units(self) -> dict[str, str | None]:
        """The unit of each sum that `aggregate` can have; None for a plain number."""
        return dict(self.structure.sums.units)

    @locked
    def available(self, at: Time | None = None, duration_s: Length | None = None) -> Selection:
        """Pools with units free at a moment or throughout a window (RFC 16 Available)."""
        return search.available(self._face, *self.window(at, duration_s))

    @locked
    def jobs(self) -> list[str]:
        """Jobs that hold anything now or later, in the order they first did; what ended is not listed, dropped or not."""
        return self._lasting(self.now())

    def _lasting(self, now: int) -> list[str]:
        records = self.records
        over = {job for job, _ in records.ended(now)} if now else set()
        return [
            job
            for job in records.jobs()
            if job not in over or any(records.steps_of(v, job)[-1][1] > now for v in records.require_job(job))
        ]

    @locked
    def allocated(self, job: str | None = None, at: Time | None = None) -> Selection:
        """Pools with a record of a job, or of any job (RFC 16 Allocated).

        Args:
            job: id; every job by default.
            at: only what is held at this moment; by default everything that has not ended, reservations included.

        Errors: UnknownJob.
        """
        return search.allocated(self._face, job, at)

    @locked
    def allocation(self, job: str, at: Time | None = None) -> Allocation:
        """The records of one job: all of them, or those of one moment.

        Errors: UnknownJob.
        """
        lo, hi = (0, FOREVER) if at is None else self.window(at, None)
        steps_of = self.records.steps_of
        pools = sorted(self.records.require_job(job))
        held = [(v, s, e, amount) for v in pools for s, e, amount in steps_of(v, job) if s < hi and lo < e]
        implied = [
            (v, max(amounts))
            for v, spans in self.records.implied.get(job, {}).items()
            if (amounts := [amount for s, e, amount in spans if s < hi and lo < e])
        ]
        return changes.of_spans(self._face, job, held, self.records.slots_of.get(job) if at is None else None, implied)

    def span(self, job: str, amount: int, start: int, end: int, where: str) -> Span:
        """A record in seconds."""
        return Span(job, amount, seconds(start), seconds(end), where)

    # -- auditing ----------------------------------------------------------------------------------------------------

    @locked
    def check(self) -> list[Problem]:
        """Audit the rules on live data; empty when all hold (specs/rules.md)."""
        return audit.check(self._face)
