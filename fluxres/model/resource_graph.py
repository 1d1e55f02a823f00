"""A machine and which job holds what of it: the object that a scheduler developer works with.

A method converts its arguments (names, seconds, requests) into vertices, ticks and matches, under the lock of the graph.
Longer work is done by the module that the method calls.  Every change takes the same steps: the records check it completely, the
sink (a journal, if there is one) gets the event, and only then is the change applied.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from threading import RLock
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, cast, overload
from weakref import WeakMethod, WeakSet

import numpy as np

from fluxres import limits
from fluxres.allocation import steps
from fluxres.allocation.facts import JobFacts, Launch, Reservation
from fluxres.allocation.planned import Batch, Window
from fluxres.allocation.records import Records, RecordsState, empty_planner
from fluxres.arrays import Int32
from fluxres.clock import FOREVER, Clock, Length, Time, fixed, now_ticks, positive_ticks, seconds, ticks
from fluxres.documents import arguments
from fluxres.documents.document import plural, shown
from fluxres.errors import StaleHandle, UsageError
from fluxres.graph import state_notes, surgery
from fluxres.graph.edges import Value
from fluxres.graph.partitions import Partition, require_state
from fluxres.graph.state_notes import StateNote
from fluxres.graph.structure import Problem, Structure
from fluxres.model import audit, changes, edges, events, extending, joining, matching, targets, totals, walking
from fluxres.model.attachment import Attachment
from fluxres.model.locking import locked, locks_of, writing
from fluxres.model.pool import Pool
from fluxres.model.selection import Selection
from fluxres.model.tables import Spans, Totals
from fluxres.model.targets import Targets, Where
from fluxres.model.values import Allocation, Stage
from fluxres.shown import ShownDeep, Tabular
from fluxres.syntax.jobspec import Request, as_request
from fluxres.syntax.moment import in_message

# The matcher, `fluxres.model.several` and `fluxres.model.applying` are imported by the first call that needs them, so that other
# commands do not pay for the import.
if TYPE_CHECKING:
    import networkx

    from fluxres.graph.views import StructureRef
    from fluxres.match import Matcher, Placement, Policy
    from fluxres.match.refusal import Refusal
    from fluxres.model.difference import Difference
    from fluxres.model.match import Match
    from fluxres.model.node_states import NodeStates
    from fluxres.model.several import Shortage
    from fluxres.syntax.criteria import Criteria
    from fluxres.syntax.jobspec import Wanted


_NUMBERS = count(1)
"""Numbers the graphs of this process, so that a match can be attributed to its graph."""
_NO_HISTORY: Final = "`fluxres.open(store)` attaches one, which keeps what changes"


def _one_start(start: Time | None, at: Time | None) -> tuple[Time | None, str]:
    """The start, and the name of the argument that gave it."""
    if at is None:
        return start, "start"
    if start is not None:
        raise UsageError(f"both a start ({start}) and at ({at}) were given", hint="they mean the same: give one of them")
    return at, "at"


class _Destroyed:
    """Replaces structure, records and planner of a destroyed graph: any use of it raises StaleHandle."""

    def __getattr__(self, name: str) -> Any:
        raise StaleHandle("this graph was destroyed", hint="load or copy it again")


class ResourceGraph(ShownDeep, Tabular):
    """A resource graph: pools, the containment tree, auxiliary graphs, and which job holds what of them.

    Args:
        structure: columns of the machine.
        name: of the graph; that of the root by default.
        clock: called for "now" in seconds. By default it is always 0; `fluxres.clock.system` is the wall clock.

    Threads may share a graph: each call holds its lock.  ``with graph.lock:`` makes several calls atomic, so that
    `commit_match` finds the graph as `match` left it.

    A graph from `fluxres.open` is attached to its store: each change is stored when it returns. It is closed at the end of a
    ``with`` block.

    Cost: O(1); derived data is computed when it is first needed.
    """

    def __init__(self, structure: Structure, *, name: str | None = None, clock: Clock | None = None) -> None:
        self.clock = clock
        self.number = next(_NUMBERS)
        self.lock = RLock()
        self.structure = structure
        self.name = name if name is not None else structure.hierarchy
        self.generation = 0
        self.revision = 0
        self.sink: Callable[[events.Event], None] | None = None
        self.attachment: Attachment | None = None
        #: Called with the records of jobs before they expire.
        self.keepers: WeakSet[changes.Keeper] = WeakSet()
        self.facts_of_instance: WeakMethod[Callable[[str], JobFacts | None]] | None = None
        """Tells the user and the name of a job by its id, if an instance allocates on this graph."""
        self.changed_instances: set[str] = set()
        """The names of kept instances that other processes have changed."""
        self.planner = empty_planner(structure)
        self.records = Records(structure, self.planner)
        self._matcher: Matcher | None = None
        self._views: StructureRef | None = None

    def __reduce__(self) -> tuple[Callable[..., ResourceGraph], tuple[Any, ...]]:
        """A graph is pickled by value, with its clock and without its sink; handles are pickled with their graph."""
        with self.lock:
            return _reduced(self)

    @locked
    def __copy__(self) -> ResourceGraph:
        return joining.duplicate(self)

    @locked
    def __deepcopy__(self, memo: object) -> ResourceGraph:
        made = joining.duplicate(self)
        made.generation = self.generation  # pickled handles refer to this generation
        return made

    def __len__(self) -> int:
        return self.structure.n

    @locked
    def __repr__(self) -> str:
        if isinstance(self.structure, _Destroyed):
            return f"<ResourceGraph {self.name}: destroyed>"
        jobs = self._lasting(now_ticks(self.clock))  # unlike now(), this does not ask the parent instance
        return f"<ResourceGraph {self.name}: {plural(len(self), 'pool')}, {plural(len(jobs), 'job')}>"

    # -- its store -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> ResourceGraph:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def write_lock(self) -> RLock | Attachment:
        """The lock for a change: that of the graph, and of the store that it is attached to."""
        return self.lock if self.attachment is None else self.attachment

    def batch(self, *, command: str | None = None, user: str | None = None) -> AbstractContextManager[None]:
        """Make the changes of a block one change of the store: one commit, all or none.

        An exception that leaves the block undoes its changes in memory, too; handles stay valid unless one of the changes was of
        the shape. Other threads wait until the block ends.

        Args:
            command: for the journal; that of the attached graph by default.
            user: for the journal; who runs this process by default.

        Errors: UsageError for a graph that is not attached to a store, and within another batch. At the end of the block,
        StoreError if the changes cannot be written; then none is made.
        Cost: of an exception, that of loading the graph.
        """
        hint = "`fluxres.open(store)` attaches one; `allocate_all` allocates all or none anywhere"
        return self._attached(hint).batch(command, user)

    def _attached(self, hint: str) -> Attachment:
        """Errors: UsageError for a graph that is not attached to a store."""
        if self.attachment is None:
            raise UsageError(f"graph '{self.name}' is not attached to a store", hint=hint)
        return self.attachment

    def refresh(self) -> None:
        """Take over what other processes have changed in the store that the graph is attached to; each change does so first.

        Errors: StoreConflict if the graph was dropped there; StoreError.
        Cost: 10 us where nothing has changed; else that of the changes, at most that of loading the graph.
        """
        if self.attachment is not None:
            self.attachment.refresh()

    def log(self, after: int = 0, *, job: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Events of the journal of the store that the graph is attached to, oldest first, as `fluxres log --json` prints them.

        Args:
            after: only those with a higher number.
            job: only those of this job.
            limit: at most this number, the latest ones.

        Errors: UsageError for a graph that is not attached to a store, and for a negative limit; StoreError.
        """
        return self._attached(_NO_HISTORY).log(after, job, limit)

    def undo(self) -> list[dict[str, Any]]:
        """Restore the state before the last change of any process, as a new change; returns the events that were undone.

        The store keeps one step: another undo is refused, and `redo` brings back what this one undid.

        Errors: UsageError for a graph that is not attached to a store, within a batch, and if the last change cannot be undone;
        StoreError.
        """
        return self._attached(_NO_HISTORY).undo(redo=False)

    def redo(self) -> list[dict[str, Any]]:
        """Bring back what the last change undid, if that was an undo; returns the events of the undo.

        Errors: as of `undo`.
        """
        return self._attached(_NO_HISTORY).undo(redo=True)

    def close(self) -> None:
        """Detach the graph from its store: it stays readable, and refuses changes.  Any other graph stays as it is."""
        if self.attachment is not None:
            self.attachment.close()

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """Called for "now", in seconds."""
        return self._clock_given if self._clock_given is not None else fixed(0.0)

    @clock.setter
    def clock(self, given: Clock | None) -> None:
        if given is not None:
            arguments.function(given, "clock", "returns seconds")
        self._clock_given = given

    def now(self) -> int:
        """Now, in ticks."""
        if self.records.upstream is not None:
            self.records.upstream.refresh()
        return 0 if self._clock_given is None else now_ticks(self._clock_given)

    def window(self, at: Time | None, duration_s: Length | None, name: str = "at") -> tuple[int, int]:
        """A start (now by default) and a duration in seconds as a window in ticks; one tick long without a duration.

        Args:
            name: the name of the start argument in messages.

        Errors: UsageError for a duration that is not positive.
        """
        now = self.now()
        start = now if at is None else ticks(at, name, now)
        if duration_s is None:
            return start, start + 1
        return start, min(start + positive_ticks(duration_s), FOREVER)

    def open_window(self, start: Time | None, end: Time | None, name: str = "start") -> tuple[int, int]:
        """A start (now by default) and an end (none by default) in seconds as a window in ticks.

        Args:
            name: the name of the start argument in messages.

        Errors: UsageError for a window that ends before it begins.
        """
        now = self.now()
        lo = now if start is None else ticks(start, name, now)
        hi = FOREVER if end is None else ticks(end, "end", now, lo)
        if not lo < hi:
            raise UsageError(
                f"the window ends at {in_message(seconds(hi))}, not after its beginning at {in_message(seconds(lo))}"
            )
        return lo, hi

    def _bounds(self, start: Time | None, end: Time | None) -> tuple[int | None, int | None]:
        """A start and an end in ticks, None for no bound."""
        if start is None and end is None:
            return None, None
        now = self.now()
        lo = None if start is None else ticks(start, "start", now)
        return lo, None if end is None else ticks(end, "end", now, lo)

    def _given_window(
        self, start: Time | None, end: Time | None, duration_s: Length | None, name: str = "start"
    ) -> tuple[int, int]:
        if end is not None and duration_s is not None:
            raise UsageError("both an end and a duration were given", hint="give one of them")
        if duration_s is None:
            return self.open_window(start, end, name)
        return self.window(start, duration_s, name)

    def _length(
        self, duration_s: Length | None, start: Time | None = None, end: Time | None = None, name: str = "start"
    ) -> int | None:
        """Ticks of the duration, or from start to end; None if neither is given, so that the request decides."""
        if end is None:
            return None if duration_s is None else positive_ticks(duration_s)
        lo, hi = self._given_window(start, end, duration_s, name)
        return hi - lo if hi < FOREVER else FOREVER

    def _request_window(
        self, request: Request, at: Time | None, duration_s: Length | None, end: Time | None = None, name: str = "at"
    ) -> Window:
        """The window of a request in ticks: until `end`, for `duration_s`, else that of the request, else without end."""
        if end is not None:
            return self._given_window(at, end, duration_s, name)
        length = matching.length(self, request) if duration_s is None else positive_ticks(duration_s)
        now = self.now()
        start = now if at is None else ticks(at, name, now)
        return start, min(start + length, FOREVER)

    # -- pools -------------------------------------------------------------------------------------------------------

    @property
    def root(self) -> Pool:
        """The root of the containment tree."""
        return Pool(self, 0)

    def vertex(self, where: Where) -> int:
        """Vertex number of a pool given by handle, path, URI, uuid or number.

        Errors: UnknownPool, StaleHandle.  Cost: O(1) for a path whose parent was looked up before.
        """
        return targets.vertex(self, where)

    def pool(self, where: Where) -> Pool:
        """The pool with this path, URI, uuid or vertex number.

        Errors: UnknownPool naming the part of the path that does not exist.
        """
        return Pool(self, targets.vertex(self, where))

    @locked
    def handles(self, vertices: Int32, generation: int) -> tuple[Pool, ...]:
        """The pools with these numbers in a generation."""
        return tuple([Pool(self, v, generation) for v in vertices.tolist()])

    def select(self, vertices: Int32) -> Selection:
        """A selection of these vertex numbers (ascending)."""
        return Selection(self, vertices)

    # -- networkx ----------------------------------------------------------------------------------------------------

    @property
    def containment(self) -> networkx.DiGraph[int]:
        """The containment tree as a read-only networkx.DiGraph over the columns; building it costs nothing.

        It is valid for one generation: after a change of structure any access raises StaleHandle.
        """
        from fluxres.graph.views import ContainmentGraph  # networkx takes 0.1 s to import

        return ContainmentGraph(self.structure, self._columns())

    def subsystem(self, name: str) -> networkx.DiGraph[int]:
        """An auxiliary graph as a read-only networkx.DiGraph, valid for one generation like `containment`.

        Edges with a capacity have the attribute `free`: the units that are free now.

        Errors: UnknownGraph, which lists the names.
        """
        from fluxres.graph.views import SubsystemGraph  # networkx takes 0.1 s to import

        planner = self.planner  # the view is for this generation

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
        """Make every networkx view of the present structure raise StaleHandle, because another structure replaces it."""
        if self._views is not None:
            self._views.withdraw()
            self._views = None

    @property
    def subsystems(self) -> list[str]:
        """Names of the auxiliary graphs."""
        return list(self.structure.subsystems)

    @property
    def partitions(self) -> Mapping[str, Partition]:
        """The partitions by name, each with its state, its limits and its members as vertex numbers (`select` takes them).

        >>> from fluxres import Resource, build
        >>> batch = {"nodes": "node[0-2]", "default": True, "max_time": "24h"}
        >>> graph = build(Resource("node", 4, children=[Resource("core", 8)]), name="demo", partitions={"batch": batch})
        >>> graph.partitions["batch"].max_time_s, graph.select(graph.partitions["batch"].members).paths()
        (86400.0, ['/demo/node0', '/demo/node1', '/demo/node2'])
        >>> graph.set_state("partitions:/batch", "down")
        >>> print(graph.why_not("-N1"))
        Partition 'batch' is down: no job starts in it.
        There is no start until the state of partition 'batch' changes.
        """
        return MappingProxyType(self.structure.partitions)

    # -- searching ---------------------------------------------------------------------------------------------------

    @locked
    def find(
        self,
        criteria: str | Criteria | Callable[[Pool], object],
        at: Time | None = None,
        during: tuple[Time, Time] | None = None,
    ) -> Selection:
        """Pools that meet the criteria (RFC 4 Find and Match; specs/criteria.md describes the language).

        Args:
            criteria: text such as ``type=node and status=up and property=ssd and available>=8``; parsed criteria; or a function
                that is called with every pool and returns true to select it.
            at: the time, in seconds, at which amounts and jobs are compared; now by default.
            during: a window instead; amounts are free throughout it.

        Errors: InputError with the column; UsageError for anything that is not criteria.  Cost: a few vector scans; with a
        function one object and one call per pool, about a second for a million pools.
        """
        from fluxres.model import search  # with the language of criteria, which most commands do not use
        from fluxres.syntax import criteria as language

        if at is not None and during is not None:
            raise UsageError("both a moment and a window were given", hint="give `at` or `during`")
        if during is not None and not (isinstance(during, tuple | list) and len(during) == 2):
            raise UsageError(f"during: expected a pair of start and end, got {during!r}")
        if callable(criteria) and not isinstance(criteria, type):
            if at is not None or during is not None:
                raise UsageError("a function was given with a time", hint="ask the pool for the time: available(at=…)")
            return Selection(self, search.accepted_by(self, criteria))
        if not isinstance(criteria, str | language.Criteria):
            raise UsageError(
                f"expected criteria, got {criteria!r:.80}",
                hint="give text such as type=node and state=up, parsed criteria, or a function of a pool",
            )
        parsed = language.parse(criteria) if isinstance(criteria, str) else criteria
        window = self.window(at, None) if during is None else self.open_window(*during)
        return Selection(self, search.matching(self, parsed, window))

    def walk(
        self,
        where: Where = "/",
        order: str = "pre",
        prune: Callable[[Pool], bool] | None = None,
        sort: Callable[[list[Pool]], Iterable[Pool]] | None = None,
        hierarchy: str | None = None,
    ) -> Iterator[Pool]:
        """Visit a pool and everything below it (RFC 4 Traversal).

        Args:
            where: where to start. A URI also names the hierarchy: ``power:/pdu0``; ``power:/`` is all of it. In an auxiliary
                graph that is not a hierarchy, ``network:/spine``, the walk follows the edges and visits each pool once.
            order: ``pre`` (a pool before its children), ``post``, or ``bfs`` (level by level).
            prune: called with a pool; true skips it and everything below it.
            sort: called with the children of a pool; returns those to visit, in order.
            hierarchy: name of the hierarchy or graph, where `where` does not name it; containment by default.

        Errors: UsageError for another order, and for a pool that is not in the hierarchy; UnknownGraph; StaleHandle when the
        structure of the graph changes during the walk.
        """
        return walking.walk(self, targets.place(self, where, hierarchy), order, prune, sort)

    @locked
    def aggregate(
        self,
        where: Where = "/",
        at: Time | None = None,
        duration_s: Length | None = None,
        all: bool = False,
        hierarchy: str | None = None,
    ) -> dict[str, int]:
        """Available units by type in a subtree, including its top (RFC 4 Aggregation).

        Units are counted once: 800 W of a PDU are 800 W of the feed that supplies it, so of suppliers of one type only the
        topmost in the subtree count. Pass-through pools of a copy are not counted. Units of one type are converted to the one in
        `units`; a remainder below a whole unit has an entry such as ``memory[MiB]``, and units that do not convert have entries
        such as ``memory[GiB]``.

        Args:
            where: top of the subtree; a URI also names the hierarchy: ``power:/pdu0``; ``power:/`` is all of it.
            at, duration_s: a moment (now by default), or a window throughout which the units are free.
            all: include types of which nothing is available.
            hierarchy: name of the hierarchy, where `where` does not name it; containment by default.

        Errors: UnknownPool, UnknownGraph; UsageError for a graph that is not a hierarchy.
        """
        place = targets.place(self, where, hierarchy)
        return totals.aggregate(self, place, *self.window(at, duration_s), arguments.flag(all, "all"))

    @property
    def units(self) -> dict[str, str | None]:
        """The unit of each sum that `aggregate` can return; None for a plain number."""
        return dict(self.structure.sums.units)

    @locked
    def available(self, at: Time | None = None, duration_s: Length | None = None) -> Selection:
        """Pools with units free at a moment or throughout a window (RFC 16 Available)."""
        free = totals.available_units(self, *self.window(at, duration_s))
        return Selection(self, np.flatnonzero(free).astype(np.int32))

    # -- allocations and reservations ---------------------------------------------------------------------------------

    @locked
    def jobs(self) -> list[str]:
        """Jobs that hold anything now or later, in the order of their first allocation.

        A job whose records have all ended is not listed, whether the records have been dropped or not.
        """
        return self._lasting(self.now())

    def _lasting(self, now: int) -> list[str]:
        records = self.records
        over = {job for job, _ in records.ended(now)} if now else set()
        return [
            job
            for job in records.jobs()
            if job not in records.reservations
            if job not in over or any(records.steps_of(v, job)[-1][1] > now for v in records.require_job(job))
        ]

    @locked
    def totals(self, at: Time | None = None, duration_s: Length | None = None) -> Totals:
        """Pools and units by type, of the entire graph, and how many are free at a moment or throughout a window."""
        return Totals(totals.by_type(self, *self.window(at, duration_s)))

    @locked
    def holdings(self, at: Time | None = None) -> Spans:
        """What every job holds: at a moment, or by default everything that has not ended, reservations included."""
        start, end = (self.now(), FOREVER) if at is None else self.window(at, None)
        records = self.records
        return Spans(
            self.structure,
            [
                (job, v, s, e, amount)
                for job in records.jobs()
                for v in sorted(records.require_job(job))
                for s, e, amount in records.steps_of(v, job)
                if s < end and start < e
            ],
        )

    @locked
    def allocated(self, job: str | None = None, at: Time | None = None) -> Selection:
        """Pools with a record of a job, or of any job (RFC 16 Allocated).

        Args:
            job: id; every job by default.
            at: only what is held at this moment; by default everything that has not ended, reservations included.

        Errors: UnknownJob.
        """
        records, n = self.records, self.structure.n
        start, end = (self.now(), FOREVER) if at is None else self.window(at, None)
        vertices = {
            v
            for name in (records.jobs() if job is None else [job])
            for v in (records.require_job(name))
            if v < n and any(steps.within(records.held[v][name], start, end))
        }
        return Selection(self, np.array(sorted(vertices), np.int32))

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
        slots = self.records.slots_of.get(job) if at is None else None
        return Allocation.of_records(self, job, held, slots, implied, self.records.chosen.get(job))

    # -- matching a request ------------------------------------------------------------------------------------------

    @property
    def matcher(self) -> Matcher:
        """The matcher of this generation, created when it is first needed."""
        if self._matcher is None:
            from fluxres.match import Matcher

            self._matcher = Matcher(self.structure, self.planner, returned=self.records.returns.by_parent)
        return self._matcher

    def match(
        self, wanted: Wanted, at: Time | None = None, duration_s: Length | None = None, policy: str | Policy = "first"
    ) -> Match:
        """Find pools for a request without allocating them (specs/matching.md); `commit_match` allocates them to a job.

        Args:
            wanted: a shape, options as in `flux run`, a jobspec or a Request.
            at: start in seconds; now by default.
            duration_s: length; by default the duration in the request, or no end.
            policy: which pools to prefer: first, low, high, lonode, hinode, their node-exclusive forms (lonodex …), locality,
                variation, pack, spread, or a Policy of your own.

        A query changes nothing: an expired stage keeps its lock until the next change, or `expire()`.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest with the reasons, InputError.
        """
        with self.lock:
            from fluxres.model.match import stamped

            request = as_request(wanted)
            found = matching.match(self, request, self._request_window(request, at, duration_s), policy)
            return stamped(self, found)

    @locked
    def satisfiable(self, wanted: Wanted) -> bool:
        """Whether a request could ever be matched, with everything up and nothing held.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        return self.matcher.satisfiable(as_request(wanted))

    @locked
    def why_not(
        self, wanted: Wanted, at: Time | None = None, duration_s: Length | None = None, policy: str | Policy = "first"
    ) -> Refusal | None:
        """Why a request has no match; None if it has one.  `.sentences()` explains it in words."""
        request = as_request(wanted)
        return matching.explained(self, request, self._request_window(request, at, duration_s), policy)

    @locked
    def earliest(
        self, wanted: Wanted, after: Time | None = None, duration_s: Length | None = None, policy: str | Policy = "first"
    ) -> float | None:
        """The first start, in seconds, at which a request has a match; None if there is none."""
        request = as_request(wanted)
        found = matching.first(self, request, self._request_window(request, after, duration_s, name="after"), policy)
        return None if found is None else seconds(found.start)

    # -- matching several requests at once ---------------------------------------------------------------------------

    @locked
    def match_all(
        self,
        wanted: Iterable[Wanted],
        at: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> list[Match]:
        """Find disjoint pools for several requests at one start; `commit_all` allocates them to jobs.

        Args:
            wanted: requests; each has its own duration, unless duration_s is given.
            at, policy: as for match, for all of them.

        Requests are matched in the given order; if one of them finds nothing, it is matched before the others in a second
        attempt. If that is not enough, the matcher weighs them against each other as parts of one request.

        Errors: as for match, with the number of the request that has no match.
        """
        from fluxres.model import several
        from fluxres.model.match import stamped

        parts = several.requests_of(self, wanted, self._length(duration_s))
        found = several.match(self, parts, self.window(at, None)[0], policy)
        return [stamped(self, match) for match in found if match is not None]

    @locked
    def why_not_all(
        self,
        wanted: Iterable[Wanted] | Iterable[tuple[Targets | Wanted, str]],
        at: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> Shortage | None:
        """Which of several requests has no match next to the others, and why; None if all have one.

        Args:
            wanted: as for match_all, or as for allocate_all.

        `.refusal` is that of `why_not`, with the earliest start of all together.
        """
        from fluxres.model import several

        start = self.window(at, None)[0]
        parts = several.parts_or_requests(self, wanted, self._length(duration_s), start)
        return several.why_not(self, parts, start, policy)

    @locked
    def earliest_all(
        self,
        wanted: Iterable[Wanted],
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> float | None:
        """The first start, in seconds, at which several requests have a match together; None if there is none."""
        from fluxres.model import several

        parts = several.requests_of(self, wanted, self._length(duration_s))
        start = several.start_of_all(self, parts, self.window(after, None, "after")[0], policy)
        return None if start is None else seconds(start)

    # -- allocating --------------------------------------------------------------------------------------------------

    def allocate(
        self,
        wanted: Targets | Wanted,
        *,
        job: str,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        at: Time | None = None,
        policy: str | Policy = "first",
        user: str | None = None,
        name: str | None = None,
        launch: Launch | None = None,
    ) -> Allocation:
        """Allocate pools to a job, all or none, in addition to those it holds (RFC 4 Allocate, RFC 16 Allocate).

        Args:
            wanted: a pool, a selection, ``[(pool, amount), …]`` or ``{pool: amount}``, all units unless an amount is given; or a
                request: a shape such as ``slot=4/[core=2;gpu=1]``, options such as ``-N4 -c8``, a jobspec, a Request.
            job: id.
            start: in any form of `fluxres.clock.Time`; now by default; `at` is a synonym.
            end, duration_s: the end, or the length; by default the duration in the request, or no end. An allocation that begins
                later than now needs an end (RFC 16).
            policy: for a request, which pools to prefer.
            user, name: the owner of a new job, and what it is called there; :meth:`facts` gives them.
            launch: the processes that a new job lives by, as `fluxres run` records them.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UnknownPool, UsageError; nothing changes then.
        """
        with self.write_lock:
            changes.expire_stages(self)
            begin, named = _one_start(start, at)
            facts = self._facts_of(user, name, launch)
            if targets.is_request(wanted, self):
                targets.job_id(job)
                request = as_request(wanted)
                span = self._request_window(request, begin, duration_s, end, named)
                if begin is not None:
                    changes.require_end(self, span)
                revision = self.revision
                placed = self.matcher.match(request, *span, policy)
                return self._give(request, job, span, policy, placed, revision, facts)
            window = self._given_window(begin, end, duration_s, named)
            changes.require_end(self, window)
            return changes.allocate(self, targets.job_id(job), targets.with_amounts(self, cast("Targets", wanted)), window, facts)

    def allocate_orelse_reserve(
        self,
        wanted: Wanted,
        *,
        job: str,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
        user: str | None = None,
        name: str | None = None,
    ) -> Allocation:
        """Allocate what a request asks for now (or at `after`), or reserve it at the earliest possible time.

        Errors: InsufficientResources if there is no such time, InfeasibleRequest, UsageError for pools by name; nothing changes
            then.
        """
        with self.write_lock:
            changes.expire_stages(self)
            targets.job_id(job)
            if not targets.is_request(wanted, self):
                raise UsageError(
                    "expected a request, got pools", hint="allocate them: they are held from the start that is given"
                )
            request = as_request(wanted)
            window = self._request_window(request, after, duration_s, name="after")
            revision = self.revision
            found = matching.first(self, request, window, policy)
            if found is not None and (after is not None or found.start > window[0]):
                changes.require_end(self, (found.start, found.end))
            return self._give(request, job, window, policy, found, revision, self._facts_of(user, name))

    def _give(
        self,
        request: Request,
        job: str,
        window: Window,
        policy: str | Policy,
        found: Placement | None,
        revision: int,
        facts: JobFacts | None = None,
    ) -> Allocation:
        """Allocate the match of a request, found on a revision, or explain why there is none."""
        if found is None:
            raise matching.error(self, request, window, policy)
        if self.revision != revision:  # a policy of the caller changed it: nothing else runs in between
            raise StaleHandle("the graph changed while the request was matched", hint="try again")
        changes.require_picks(found)
        return changes.commit_match(self, found, job, facts=facts)

    def _facts_of(self, user: str | None, name: str | None, launch: Launch | None = None) -> JobFacts | None:
        """What a new job is known by, if anything was given."""
        if user is None and name is None and launch is None:
            return None
        return JobFacts(targets.label(user, "user"), targets.label(name, "name"), self.now(), launch)

    @locked
    def facts(self, job: str) -> JobFacts:
        """The user and the name that a job was given, and the tick at which it got something for the first time.

        Errors: UnknownJob.
        """
        self.records.require_job(job)
        return self.records.facts.get(job, JobFacts())

    def commit_match(self, found: Match, *, job: str) -> Allocation:
        """Allocate the pools that `match` found to a job.

        Errors: StaleHandle if the graph has changed since; nothing changes then.
        """
        with self.write_lock:
            targets.job_id(job)
            matching.require_fresh(self, found)
            changes.require_picks(found)
            changes.require_end(self, (found.start, found.end))
            return changes.commit_match(self, found, job)

    @writing
    def grow(
        self,
        job: str,
        wanted: Targets | Wanted,
        *,
        start: Time | None = None,
        end: Time | None = None,
        policy: str | Policy = "first",
    ) -> Allocation:
        """Allocate more pools, by name or by request, to a job that holds something; by default until the job ends (RFC 16 grow).

        Errors: UnknownJob, and those of allocate; nothing changes then.
        """
        changes.expire_stages(self)
        have = self.allocation(job)
        begin = max(have.start, seconds(self.now())) if start is None else start
        window = self.open_window(begin, have.end if end is None else end)
        changes.require_end(self, window)
        if not targets.is_request(wanted, self):
            return changes.allocate(self, targets.job_id(job), targets.with_amounts(self, cast("Targets", wanted)), window)
        request, revision = as_request(wanted), self.revision
        return self._give(request, targets.job_id(job), window, policy, self.matcher.match(request, *window, policy), revision)

    # -- allocating to several jobs at once --------------------------------------------------------------------------

    @writing
    def allocate_all(
        self,
        wanted: Iterable[tuple[Targets | Wanted, str]],
        *,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        at: Time | None = None,
        policy: str | Policy = "first",
        user: str | None = None,
    ) -> list[Allocation]:
        """Allocate pools to several jobs, or several times to one, at one start: all of them or none.

        Args:
            wanted: pairs of (a request, or pools by name; as for allocate) and a job; no two get the same units.
            start, end, duration_s, at, policy, user: as for allocate, for all of them; a request may have its own duration.

        Requests are matched in the order that `match_all` describes. The allocations are one event: a journal has all of them or
        none.

        Errors: as for allocate, with the number and the job of the request that has no match; nothing changes then.
        """
        from fluxres.model import several

        changes.expire_stages(self)
        begin, name = _one_start(start, at)
        first = self.open_window(begin, None, name)[0]
        parts = several.parts_of(self, wanted, self._length(duration_s, begin, end, name), first)
        return several.give(self, parts, first, policy, self._facts_of(user, None))

    @writing
    def allocate_all_orelse_reserve(
        self,
        wanted: Iterable[tuple[Wanted, str]],
        *,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
        user: str | None = None,
    ) -> list[Allocation]:
        """Allocate what several requests ask for to their jobs now (or at `after`), or at the earliest time possible for all.

        Args:
            wanted: pairs of a request and a job.
            user: as for allocate.

        Errors: as for allocate_all, if there is no such time; nothing changes then.
        """
        from fluxres.model import several

        changes.expire_stages(self)
        begin = self.open_window(after, None, "after")[0]
        parts = several.parts_of(self, wanted, self._length(duration_s), begin, sought_only=True)
        start = several.start_of_all(self, parts, begin, policy)
        return several.give(self, parts, begin if start is None else start, policy, self._facts_of(user, None))

    @writing
    def commit_all(self, found: Iterable[tuple[Match, str]]) -> list[Allocation]:
        """Allocate several matches to their jobs, all of them or none.

        Args:
            found: pairs of a match and a job; matches from `match_all`, or any disjoint ones.

        Errors: StaleHandle if the graph has changed since one was found; InsufficientResources if two take the same units;
        nothing changes then.
        """
        from fluxres.model import several

        return several.commit(self, found)

    # -- freeing -----------------------------------------------------------------------------------------------------

    def free(self, job: str, wanted: Targets | None = None, start: Time | None = None, end: Time | None = None) -> None:
        """Free what a job holds: everything, or some pools, or units of them (RFC 4 Free, RFC 16 Release).

        Args:
            job: id.
            wanted: as for allocate; all units that the job holds of a pool unless an amount is given.
            start, end: only this window; by default all of the time, including the past.

        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        with self.write_lock:
            changes.expire_stages(self)
            named = None if wanted is None else targets.resolve(self, wanted)
            lo, hi = self._bounds(start, end)
            changes.free(self, job, named, lo, hi)

    @writing
    def shrink(
        self,
        job: str,
        wanted: Targets | Wanted,
        *,
        start: Time | None = None,
        end: Time | None = None,
        policy: str | Policy = "high",
    ) -> Allocation:
        """Free part of what a job holds (RFC 16 shrink).

        Args:
            wanted: pools, or units of them; or a request, such as ``slot=2/node``, which is matched in what the job holds. When
                the last units of a pool are freed, so is everything drawn for it (rule F2).
            start, end: only this window; by default all of the time, including the past.
            policy: for a request, which of the job's pools to free first: the last ones by default, so that the first node stays.

        Returns: what was freed.
        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        changes.expire_stages(self)
        lo, hi = self._bounds(start, end)
        slots = 0
        named: list[tuple[int, int | None]]
        if targets.is_request(wanted, self):
            from fluxres.model import shrinking

            request = as_request(wanted)
            picks, slots = shrinking.answer(self, job, request, lo, hi, policy)
            named = list(picks)
        else:
            named = targets.resolve(self, cast("Targets", wanted))
        freed = changes.free(self, job, named, lo, hi, slots)
        pieces = freed.pieces() if isinstance(freed, Batch) else freed
        return Allocation.of_records(self, job, [(v, s, e, n) for v, n, s, e in sorted(pieces)], slots or None)

    @writing
    def set_end(self, job: str, end: Time | None = None, *, duration_s: Length | None = None) -> Allocation:
        """Extend or shorten what a job holds: all of it gets the new end, or nothing changes.

        The units that the job holds of a pool last are extended; reservations after the new end are freed.

        Args:
            job: id.
            end: in any form of `fluxres.clock.Time`; `math.inf` for no end, which is only possible for a job that has begun. As
                everywhere, "+1h" is an hour from now; `allocation(job).end + 3600` is an hour after the present end, what
                `fluxres extend JOB +1h` sets.
            duration_s: instead of an end, the length from the job's first start.

        Returns: what the job holds now.
        Errors: InsufficientResources if other jobs are in the way, with the latest possible end; UnknownJob;
            NotHeld for a job that has ended; UsageError for an end in the past, or before the job begins.
        """
        changes.expire_stages(self)
        now = self.now()
        changes.set_end(self, job, extending.end_of(self, job, end, duration_s), now)
        return self.allocation(job)

    @locked
    def latest_end(self, job: str) -> float:
        """The latest end that :meth:`set_end` can give a job, in seconds; infinity if nothing is in the way.

        Errors: as for `set_end`; UsageError for a job that begins later and that nothing stops, because it needs an end.
        """
        return seconds(extending.latest_end(self, job, self.now()))

    @writing
    def expire(self, before: Time | None = None) -> list[str]:
        """Drop the records that ended by now, or by `before`, and expired stages; return the jobs concerned.

        RFC 16: an allocation that expires is removed from the resources.  Ended records stay until this call, or until they
        would prevent a merge, an unlink, a move or a change of an edge, which drops them first (rule T2).
        """
        changes.expire_stages(self)
        return changes.expire(self, self.now() if before is None else ticks(before, "before", self.now()))

    # -- staging -----------------------------------------------------------------------------------------------------

    def stage(
        self,
        wanted: Targets | Wanted,
        *,
        job: str,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        ttl_s: Length = limits.STAGE_SECONDS_DEFAULT,
        policy: str | Policy = "first",
    ) -> Stage:
        """Lock pools for a job that is being considered (RFC 4 Staged).

        Args:
            wanted, job, start, end, duration_s, policy: as for allocate.
            ttl_s: seconds after which the lock expires.

        Errors: as for allocate.
        """
        with self.write_lock:
            changes.expire_stages(self)
            if targets.is_request(wanted, self):
                request = as_request(wanted)
                span = self._request_window(request, start, duration_s, end, "start")
                found = matching.match(self, request, span, policy)
                changes.require_picks(found)
                window = found.start, found.end
                slots, drawn, variant = found.nslots, found.drawn, found.variant
                return changes.stage(self, job, found.targets, window, ttl_s, slots, drawn, implies=True, variant=variant)
            window = self._given_window(start, end, duration_s)
            return changes.stage_by_window(self, job, targets.with_amounts(self, cast("Targets", wanted)), window, ttl_s)

    def new_stage_id(self) -> str:
        """An id for the next stage that no other stage has ever had, in this process or an earlier one."""
        return f"s{self.records.stages_made}"

    def commit(self, stage: str | Stage) -> Allocation:
        """Turn a stage, or the one with this id, into an allocation of its job.

        Errors: StaleHandle if it has been committed or released, or has expired.
        """
        with self.write_lock:
            changes.expire_stages(self)
            return changes.commit(self, _stage_id(stage))

    def release(self, stage: str | Stage) -> None:
        """Release what a stage, or the one with this id, locks.

        Errors: StaleHandle if it has been committed or released, or has expired.
        """
        with self.write_lock:
            changes.expire_stages(self)
            changes.release(self, _stage_id(stage))

    # -- maintenance -------------------------------------------------------------------------------------------------

    @writing
    def reserve(
        self,
        where: Where | Selection | Sequence[Where],
        *,
        name: str,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        every_s: Length | None = None,
        until: Time | None = None,
        ignore_jobs: bool = False,
        user: str | None = None,
    ) -> Reservation:
        """Reserve pools for maintenance: no job gets any of them, anything below them, or what only they supply, in the window.

        Args:
            where: pools.
            name: of the reservation; no job may have the same id.
            start: now by default.
            end, duration_s: one of them.
            every_s, until: repeat the window at this interval, as long as it begins before `until`; whole days count in local
                time if the start is a date.
            ignore_jobs: leave jobs there what they hold, also within the window; what they release before its end goes to the
                reservation. By default a job that runs into a window is a reason to refuse.
            user: who reserves.

        Errors: InsufficientResources with the jobs in the way; UsageError; LimitExceeded; nothing changes then.
        Cost: the records in these pools, and the children of those that are held in part.
        """
        from fluxres.model import reserving

        changes.expire_stages(self)
        first, last = self._given_window(start, end, duration_s)
        if last >= FOREVER:
            raise UsageError("a reservation needs an end", hint="give an end or a duration")
        changes.require_end(self, (first, last))
        every = None if every_s is None else positive_ticks(every_s, "every_s")
        windows = reserving.repeated(first, last, every, None if until is None else ticks(until, "until", self.now()))
        vertices = reserving.topmost(self.structure.end, targets.pools(self, where, "reservation"))
        affected = reserving.affected(self.structure, vertices)
        reservation = Reservation(vertices, windows, arguments.flag(ignore_jobs, "ignore_jobs"), affected)
        reserving.reserve(self, targets.job_id(name), reservation, JobFacts(targets.label(user, "user"), None, self.now()))
        return reservation

    @writing
    def unreserve(self, name: str) -> None:
        """Give up a maintenance reservation with all of its windows.

        Errors: UnknownJob.
        """
        from fluxres.model import reserving

        changes.expire_stages(self)
        reserving.remove(self, name)

    @locked
    def reservations(self) -> dict[str, Reservation]:
        """The maintenance reservations that are not over, by name; their pools are vertex numbers, their windows ticks."""
        now = self.now()
        return {name: one for name, one in self.records.reservations.items() if one.windows[-1][1] > now}

    @locked
    def node_states(self, at: Time | None = None) -> NodeStates:
        """The nodes and what state each is in: idle, mixed, allocated, drained, down, …, as columns.

        Args:
            at: a moment in seconds; now by default.

        Cost: some vector scans over the pools.
        """
        from fluxres.model import node_states

        return node_states.of(self, *self.window(at, None))

    # -- states and tags ---------------------------------------------------------------------------------------------

    @writing
    def set_state(
        self,
        where: Where | Selection | Sequence[Where],
        state: str,
        *,
        reason: str | None = None,
        user: str | None = None,
        since: Time | None = None,
    ) -> None:
        """Set the state of pools (RFC 4 State).

        A partition, such as ``partitions:batch``, is up, down, drain or inactive (rule P2).

        Args:
            reason: why; :attr:`Pool.state_note` gives it until the state is set again.
            user: the user who sets it.
            since: now by default. It is noted with a reason or a user; the command and the server always give a user.

        Errors: UsageError for an unknown state, one that a partition cannot have, and no pools; UnknownPool.
        """
        fields, note = events.check_state(state), None
        begin = self.now() if since is None else ticks(since, "since", self.now())
        if begin >= FOREVER:
            raise UsageError(f"since: expected a moment, got {since!r:.80}")
        if reason is not None or user is not None:
            note = StateNote(targets.label(reason, "reason"), targets.label(user, "user"), seconds(begin))
            given = {"reason": note.reason, "user": note.user, "since": begin}
            fields |= {key: value for key, value in given.items() if value is not None}

        def apply(vertices: Int32) -> None:
            self.structure.set_state(vertices, state)
            state_notes.put(self.structure, vertices, note)

        allowed = partial(require_state, self.structure, self.structure.partitions.values(), state=state)
        self._mark("state", where, apply, fields, allowed)
        if self._matcher is not None:
            self._matcher.forget()

    @writing
    def tag(self, where: Where | Selection | Sequence[Where], key: str, value: str | None = None) -> None:
        """Tag pools (RFC 4 Tag(K, [V])).

        Errors: UsageError for an empty or overlong key or value, and for no pools; UnknownPool.
        """
        fields = events.check_tag(key, value)
        self._mark("tag", where, lambda vertices: self.structure.set_tag(vertices, key, value), fields)

    @writing
    def untag(self, where: Where | Selection | Sequence[Where], key: str) -> None:
        """Remove a tag from pools that have it."""
        self._mark("untag", where, lambda vertices: self.structure.drop_tag(vertices, key), {"key": key})

    def _mark(
        self,
        event: str,
        where: Any,
        apply: Callable[[Int32], None],
        fields: Mapping[str, Any],
        check: Callable[[Int32], None] | None = None,
    ) -> None:
        vertices = np.array(targets.pools(self, where, "state and no tags"), np.int32)
        if not len(vertices):
            raise UsageError("no pools named", hint="name at least one pool")
        if check is not None:
            check(vertices)
        name_of = self.structure.where
        changes.tell(self, lambda: {"event": event, "pools": [name_of(v) for v in vertices.tolist()], **fields}, len(vertices))
        apply(vertices)
        self.revision += 1

    # -- copying and joining -----------------------------------------------------------------------------------------

    @locked
    def copy(self, where: Where = "/", *, job: str | None = None, at: Time | None = None) -> ResourceGraph:
        """What is available of a subtree, with the path up to the root, as a new graph (RFC 4 Copy, rule C1).

        Its suppliers in auxiliary graphs are copied without units, so no pool that draws from them (`draw`) can be allocated in
        the copy; :meth:`check` warns about these. The copy of a job has the units that the job holds.

        Args:
            where: top of the subtree.
            job: copy what this job holds at the moment instead of what is available: what a nested instance starts from.
            at: moment in seconds; now by default.

        Errors: InsufficientResources if nothing of it is available; UnknownJob; UnknownPool, also for a pool outside the
        containment tree.
        """
        if job is not None:
            return joining.copy_job(self, job, self.window(at, None)[0])
        return joining.copy(self, targets.vertex(self, where), self.window(at, None)[0])

    @locked
    def duplicate(self, where: Where = "/") -> ResourceGraph:
        """An independent duplicate of the graph, or of a pool and everything below it, with its records (RFC 4 Duplicate).

        Args:
            where: top of the subtree. It becomes the root of the new graph, and keeps its name, its uuid and its records.
                Its suppliers in auxiliary graphs are copied without units: as with :meth:`copy`, no pool that draws from them
                can be allocated.

        Errors: UnknownPool, also for a pool outside the containment tree.
        """
        return joining.duplicate(self, targets.vertex(self, where))

    def merge(self, other: ResourceGraph, at: str | None = None) -> None:
        """Add another graph to this one (RFC 4 Merge, rule M1).

        Args:
            other: the graph to add; it is not changed.
            at: path or URI for its root; by default its own path, from the common ancestor on. A URI of an auxiliary hierarchy,
                such as ``power:/pdu0``, puts it below a pool outside the containment tree.

        Errors: MergeConflict, UnknownPool, UsageError; nothing changes then.
        """
        if not isinstance(other, type(self)) or other is self:
            raise UsageError(f"expected another ResourceGraph to merge, got {other!r}")
        with locks_of(self, other, changes=self):
            joining.merge(self, other, at)

    @writing
    def unlink(self, where: Where, hierarchy: str | None = None) -> None:
        """Remove a pool and everything below it from a hierarchy (RFC 4 Unlink).

        Args:
            where: the pool; a URI of an auxiliary hierarchy removes it from that hierarchy.
            hierarchy: the hierarchy, if `where` does not name it.

        Errors: StillHeld when a job holds something there; UsageError for the root.
        """
        joining.unlink(self, where, hierarchy)

    @writing
    def move(self, where: Where, to: Where) -> None:
        """Move a pool and everything below it to another place (RFC 4 Merge: from its place to a path or URI).

        In the containment tree it keeps its uuid, name, state, tags and edges in auxiliary graphs. No job may hold anything of
        it, now or later, or hold the new parent exclusively. A move in an auxiliary hierarchy replaces the edge from its parent
        there and leaves the containment tree unchanged. Handles are stale afterwards.

        Args:
            where: the pool.
            to: the new parent; or the new path, which may give it another name. A URI such as ``power:/pdu1`` names the new
                parent in that hierarchy.

        Errors: StillHeld; MergeConflict for a name that is taken there; UsageError for the root, and for a place inside itself;
        UnknownPool; nothing changes then.
        """
        joining.move(self, where, to)

    @locked
    def destroy(self) -> None:
        """Release the memory of this graph at once (RFC 16 Destroy).

        Any later use of the graph, its pools, selections and stages raises StaleHandle.  An Allocation and a networkx view keep
        the columns they need.  Cost: a run of the garbage collector.
        """
        if isinstance(self.structure, _Destroyed):
            return
        self.close()
        self.withdraw_views()
        gone: Any = _Destroyed()
        self.generation += 1
        self.structure = self.records = self.planner = gone
        self._matcher = None
        self.sink = None
        # A planner and its levels refer to each other, as do a structure and its lookup: reference counting frees neither.
        gc.collect()

    def restructure(self, structure: Structure, records: Records, old_to_new: Int32 | None = None) -> None:
        """Replace structure and records by those of the next generation; handles of the present one become stale.

        Args:
            old_to_new: the new numbers of the pools by old one, -1 for what has gone, if the caller knows them.
        """
        self.withdraw_views()
        records.upstream = self.records.upstream
        # This comes first: a handle used by another thread reads the structure before it compares generations.
        self.generation += 1
        before = self.structure
        self.structure, self.records, self.planner = structure, records, records.planner
        self._matcher = None
        self.revision += 1
        for keeper in list(self.keepers):
            keeper.renumber(before, old_to_new)

    def adopt(self, other: ResourceGraph, *, has_same_shape: bool) -> None:
        """Take over the state of another graph, which nobody uses afterwards.

        Args:
            has_same_shape: whether handles of the present generation stay valid.
        """
        if not has_same_shape:
            self.restructure(other.structure, other.records)
            return
        self.withdraw_views()
        other.records.upstream = self.records.upstream
        self.structure, self.records, self.planner = other.structure, other.records, other.planner
        self._matcher = None
        self.revision += 1

    # -- edges of auxiliary graphs -----------------------------------------------------------------------------------

    @writing
    def add_edge(
        self,
        source: Where,
        target: Where,
        subsystem: str,
        *,
        relation: str = "link",
        capacity: float | None = None,
        unit: str | None = None,
        supply: Literal["all", "any"] | None = None,
        attributes: Mapping[str, Value] | None = None,
        hierarchy: bool | None = None,
    ) -> None:
        """Add an edge between two pools to an auxiliary graph (RFC 4, "Resource Graph Data"); handles are stale afterwards.

        Args:
            source, target: pools; the edge points from one to the other.
            subsystem: name of the auxiliary graph.
            relation: type of the edge, such as ``supplies``.
            capacity: units that the edge can carry at a time; no limit by default.
            unit: of the capacity; by default that of the pools which the graph distributes.
            supply: for a pool with several suppliers: whether each of them supplies the full draw (``all``, the default), or
                any one of them does (``any``).
            attributes: further ones, by name.
            hierarchy: creates the graph if there is none of this name: a hierarchy (True) or not (False).

        Errors: UnknownPool; UnknownGraph; UsageError for an edge that exists already, and for a second parent or a cycle in a
        hierarchy; nothing changes then.
        """
        values = edges.values_of(capacity, unit, attributes, supply=supply)
        edges.add(self, edges.ends_of(self, source, target, subsystem), relation, values, hierarchy)

    @writing
    def set_edge(
        self,
        source: Where,
        target: Where,
        subsystem: str,
        *,
        relation: str | None = None,
        capacity: float | None = None,
        unit: str | None = None,
        supply: Literal["all", "any"] | None = None,
        attributes: Mapping[str, Value | None] | None = None,
    ) -> None:
        """Change the capacity, unit, supply or attributes of an edge; handles are stale afterwards.

        Args:
            source, target, subsystem: the edge.
            relation: selects one of several edges between the two pools.
            capacity: units that the edge can carry at a time; `math.inf` for no limit; unchanged by default.
            unit, supply, attributes: those to set; an attribute that is None is removed.

        Errors: UsageError if there is no such edge; StillHeld if jobs draw more through it, now or later, or if it had no
        capacity and jobs may draw through it; nothing changes then.
        """
        values = edges.values_of(capacity, unit, attributes, supply=supply, removable=True)
        edges.change(self, edges.ends_of(self, source, target, subsystem), relation, values)

    @writing
    def remove_edge(self, source: Where, target: Where, subsystem: str, *, relation: str | None = None) -> None:
        """Remove an edge; handles are stale afterwards.  The pools stay, and so does the graph, even without edges.

        Args:
            source, target, subsystem: the edge.
            relation: selects one of several edges between the two pools.

        Errors: UsageError where there is no such edge; StillHeld when jobs draw through it, now or later; nothing changes then.
        """
        edges.remove(self, edges.ends_of(self, source, target, subsystem), relation)

    # -- journal and audit -------------------------------------------------------------------------------------------

    @overload
    def apply(self, change: events.Event) -> None: ...
    @overload
    def apply(self, change: ResourceGraph, *, drain: bool = False) -> Difference: ...
    def apply(self, change: ResourceGraph | events.Event, *, drain: bool = False) -> Difference | None:
        """Change the machine into what another graph describes, or replay one event of a journal.

        Pools of the containment tree are the same if they have the same path, pools of auxiliary graphs if they have the same
        name there; else if they have the same uuid, or the same host name. These keep what they are allocated to, their uuids,
        ranks, tags, and states other than `up`; everything else is as described. Handles are stale afterwards, unless nothing
        differs.

        Args:
            change: the description, whose own allocations do not count; or an event, which may allocate pools that are out of
                service: its writer has checked that, and jobs keep drained pools.
            drain: set pools that are gone from the description and held by jobs to `drain`, instead of refusing; a later call
                removes them.

        Returns: the changes made, for a description.
        Errors: StillHeld with all `jobs` in the way; MergeConflict for the description of another machine; nothing changes then.
        For an event, InputError if it is unknown, otherwise those of the operation.
        """
        if not isinstance(change, ResourceGraph):
            with self.write_lock:
                events.apply(self, change)
            return None
        from fluxres.model import applying

        with locks_of(self, change, changes=self):
            return applying.apply(self, change, drain=drain)

    def diff(self, other: ResourceGraph) -> Difference:
        """What :meth:`apply` would change; false if nothing.

        Args:
            other: a description of this machine.

        Errors: MergeConflict for the description of another machine.
        """
        from fluxres.model import applying

        with locks_of(self, require_graph(other)):
            return applying.diff(self, other)

    @locked
    def check(self) -> list[Problem]:
        """Check all rules on the live data; empty if all hold (specs/rules.md)."""
        return audit.check(self)


def require_graph(value: object) -> ResourceGraph:
    """A graph. Errors: UsageError for any other value."""
    if not isinstance(value, ResourceGraph):
        raise UsageError(f"expected a ResourceGraph, got {shown(value)}", hint="such as fluxres.load('cluster.yaml')")
    return value


def _stage_id(stage: object) -> str:
    if isinstance(stage, Stage):
        return stage.stage
    if not isinstance(stage, str):
        raise UsageError(f"expected a stage or its id, got {shown(stage)}", hint="stage() returns one")
    return stage


def _reduced(graph: ResourceGraph) -> tuple[Callable[..., ResourceGraph], tuple[Any, ...]]:
    """The state of a graph for pickle: structure, records, and clock.

    The sink is not included, nor is the parent instance of a child's graph.

    Errors: UsageError for a clock that cannot be pickled; StaleHandle for a destroyed graph.
    """
    clock = graph._clock_given
    try:
        pickle.dumps(clock)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise UsageError(
            f"the clock of graph '{graph.name}' cannot be pickled: {error}",
            hint="use fluxres.clock.system or a function of a module, or set clock to None",
        ) from None
    counters = (graph.generation, graph.revision)
    structure = surgery.by_itself(graph.structure)
    return _revived, (type(graph), structure, graph.name, clock, graph.records.state(), counters)


def _revived(
    kind: type[ResourceGraph],
    structure: Structure,
    name: str,
    clock: Clock | None,
    state: RecordsState,
    counters: tuple[int, int],
) -> ResourceGraph:
    graph = kind(structure, name=name, clock=clock)
    graph.records.restore(state)
    graph.generation, graph.revision = counters
    return graph
