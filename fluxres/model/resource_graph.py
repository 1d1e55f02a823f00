"""A machine and who holds what of it: the object a scheduler developer works with.

Every change goes the same way: names become vertex numbers and ticks, the records check it as a whole, the
sink (a journal, where there is one) is told, and only then it is applied.  What is longer than a screen
(search, copying and joining, replaying) stands in modules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fluxres import limits
from fluxres.allocation.records import Records
from fluxres.clock import FOREVER, Clock, fixed, seconds, ticks
from fluxres.errors import UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.graph.structure import Problem, Structure
from fluxres.model import audit, changes, events, joining, search, targets
from fluxres.model.pool import Pool
from fluxres.model.selection import Selection
from fluxres.model.stage import Stage
from fluxres.model.targets import Targets, Where
from fluxres.model.values import Allocation, Span
from fluxres.planner.planner import Planner
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    import networkx

    from fluxres.syntax.criteria import Criteria


class ResourceGraph:
    """A resource graph: pools, the has-a tree, auxiliary graphs, and the records over them.

    Args:
        structure: columns of the machine.
        name: of the graph; that of the root by default.
        clock: called for "now" in seconds; stands still at 0 by default, `fluxres.clock.system` is the wall clock.

    Cost: O(1); what is derived is made when first asked for.
    """

    def __init__(self, structure: Structure, *, name: str | None = None, clock: Clock | None = None) -> None:
        self._clock_given = clock
        self.structure = structure
        self.name = name if name is not None else structure.hierarchy
        self.generation = 0
        self.revision = 0
        self.sink: Callable[[events.Event], None] | None = None
        self.planner = self.plan(structure)
        self.records = Records(structure, self.planner)
        self._stages_made = 0

    @staticmethod
    def plan(structure: Structure) -> Planner:
        """An empty planner over a structure."""

        def of_type(number: int) -> Int32:
            return structure.of_type(structure.types[number])

        return Planner(structure.parent, structure.end, structure.type, structure.size, of_type=of_type)

    # -- time --------------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        """What "now" is read from, in seconds."""
        return self._clock_given if self._clock_given is not None else fixed(0.0)

    @clock.setter
    def clock(self, given: Clock) -> None:
        self._clock_given = given

    def now(self) -> int:
        """Now, in ticks.  Stages whose time is over are dropped on the way, so that no question meets one."""
        now = 0 if self._clock_given is None else ticks(self._clock_given(), "clock")
        if self.records.stages:
            changes.expire_stages(self, now)
        return now

    def window(self, at: float | None, duration_s: float | None) -> tuple[int, int]:
        """Start and duration in seconds as a window in ticks; a moment is one tick long.

        Errors: UsageError for a duration that is not positive.
        """
        now = self.now()
        start = now if at is None else ticks(at, "at")
        if duration_s is None:
            return start, start + 1
        length = ticks(duration_s, "duration_s")
        if length < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {duration_s!r}")
        return start, min(start + length, FOREVER)

    def open_window(self, start: float | None, end: float | None) -> tuple[int, int]:
        """Start (now by default) and end (none by default) in seconds as ticks.

        Errors: UsageError for a window that ends before it begins.
        """
        now = self.now()
        lo = now if start is None else ticks(start, "start")
        hi = FOREVER if end is None else ticks(end, "end")
        if not lo < hi:
            raise UsageError(
                f"the window ends at {in_message(seconds(hi))}, not after its beginning at {in_message(seconds(lo))}"
            )
        return lo, hi

    def _given_window(self, start: float | None, end: float | None, duration_s: float | None) -> tuple[int, int]:
        if end is not None and duration_s is not None:
            raise UsageError("both an end and a duration were given", hint="give one of them")
        if duration_s is None:
            return self.open_window(start, end)
        return self.window(start, duration_s)

    # -- pools -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.structure.n

    def __repr__(self) -> str:
        return f"<ResourceGraph {self.name}: {len(self)} pools, {len(self.records.jobs())} jobs>"

    @property
    def root(self) -> Pool:
        """The root of the has-a tree."""
        return Pool(self, 0)

    def vertex(self, where: Where) -> int:
        """Vertex number of a pool given by handle, path, URI, uuid or number.

        Errors: UnknownPool, StaleHandle.  Cost: O(1) for a path whose parent was asked for before.
        """
        return targets.vertex(self, where)

    def pool(self, where: Where) -> Pool:
        """The pool of this path, URI, uuid or vertex number.

        Errors: UnknownPool naming the part of the path that does not exist.
        """
        return Pool(self, targets.vertex(self, where))

    def select(self, vertices: Int32) -> Selection:
        """A selection of these vertex numbers (ascending)."""
        return Selection(self, vertices)

    # -- networkx ----------------------------------------------------------------------------------------------------

    @property
    def containment(self) -> networkx.DiGraph[int]:
        """The has-a tree as a read-only networkx.DiGraph over the columns; building it costs nothing."""
        from fluxres.graph.views import ContainmentGraph  # networkx takes 0.1 s to import

        return ContainmentGraph(self.structure)

    def subsystem(self, name: str) -> networkx.DiGraph[int]:
        """An auxiliary graph as a read-only networkx.DiGraph.

        Errors: UnknownGraph with the names there are.
        """
        from fluxres.graph.views import SubsystemGraph  # networkx takes 0.1 s to import

        return SubsystemGraph(self.structure, self.structure.subsystem(name))

    @property
    def subsystems(self) -> list[str]:
        """Names of the auxiliary graphs."""
        return list(self.structure.subsystems)

    # -- asking ------------------------------------------------------------------------------------------------------

    def find(
        self,
        criteria: str | Criteria,
        at: float | None = None,
        during: tuple[float, float] | None = None,
    ) -> Selection:
        """Pools that meet the criteria (RFC 4 Find and Match; the language is in specs/criteria.md).

        Args:
            criteria: text such as ``type=node and status=up and property=ssd and available>=8``.
            at: the moment that amounts and jobs are asked about, in seconds; now by default.
            during: a window instead: amounts free throughout it.

        Errors: InputError with the column.  Cost: a few vector scans.
        """
        return search.find(self, criteria, at, during)

    def walk(
        self,
        where: Where = "/",
        order: str = "pre",
        prune: Callable[[Pool], bool] | None = None,
        sort: Callable[[list[Pool]], Iterable[Pool]] | None = None,
    ) -> Iterator[Pool]:
        """Visit a subtree depth first (RFC 4 Traversal).

        Args:
            where: where to begin.
            order: ``pre`` (a pool before what it has) or ``post``.
            prune: called with a pool; true leaves out it and all below it.
            sort: called with the children of a pool; gives them in the order to visit.

        Errors: UsageError for another order.
        """
        return search.walk(self, targets.vertex(self, where), order, prune, sort)

    def aggregate(
        self, where: Where = "/", at: float | None = None, duration_s: float | None = None, all: bool = False
    ) -> dict[str, int]:
        """Available units by type in a subtree, its top included (RFC 4 Aggregation).

        Args:
            where: top of the subtree.
            at, duration_s: a moment (now by default) or a window throughout which they are free.
            all: keep the types of which nothing is available.
        """
        return search.aggregate(self, targets.vertex(self, where), *self.window(at, duration_s), all)

    def available(self, at: float | None = None, duration_s: float | None = None) -> Selection:
        """Pools with units free at a moment or throughout a window (RFC 16 Available)."""
        return search.available(self, *self.window(at, duration_s))

    def jobs(self) -> list[str]:
        """Jobs that hold anything, in the order they first did."""
        return self.records.jobs()

    def allocated(self, job: str | None = None, at: float | None = None) -> Selection:
        """Pools with a record of a job, or of any job (RFC 16 Allocated).

        Args:
            job: id; every job by default.
            at: only what is held at this moment; by default everything that has not ended, reservations included.

        Errors: UnknownJob.
        """
        return search.allocated(self, job, at)

    def allocation(self, job: str) -> Allocation:
        """All records of one job.

        Errors: UnknownJob.
        """
        vertices = sorted(self.records.require_job(job))
        spans = tuple(
            self.span(job, amount, s, e, self.structure.where(v)) for v in vertices for s, e, amount in self.records.held[v][job]
        )
        return Allocation(job, tuple(Pool(self, v) for v in vertices), spans)

    def span(self, job: str, amount: int, start: int, end: int, where: str) -> Span:
        """A record in seconds."""
        return Span(job, amount, seconds(start), seconds(end), where)

    # -- who holds what ----------------------------------------------------------------------------------------------

    def allocate(
        self,
        wanted: Targets,
        *,
        job: str,
        start: float | None = None,
        end: float | None = None,
        duration_s: float | None = None,
    ) -> Allocation:
        """Give pools to a job, all or nothing; what it has already grows (RFC 4 Allocate, RFC 16 Allocate).

        Args:
            wanted: a pool, a selection, ``[(pool, amount), …]`` or ``{pool: amount}``; without an amount the whole pool.
            job: id.
            start: seconds, now by default; end or duration_s: until when, without end by default.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UnknownPool, UsageError; nothing changes then.
        """
        return changes.allocate(self, job, wanted, self._given_window(start, end, duration_s))

    def free(self, job: str, wanted: Targets | None = None, start: float | None = None, end: float | None = None) -> None:
        """Take back what a job holds: everything, or pools, or units of them (RFC 4 Free, RFC 16 Release).

        Args:
            job: id.
            wanted: as for allocate; without an amount all the job has of the pool.
            start, end: only this window; the whole time by default.

        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        self.now()
        changes.free(self, job, wanted, start, end)

    def grow(self, job: str, wanted: Targets, *, start: float | None = None, end: float | None = None) -> Allocation:
        """Give more to a job that holds something, by default until it ends (RFC 16 grow).

        Errors: UnknownJob, and those of allocate; nothing changes then.
        """
        return changes.grow(self, job, wanted, start, end)

    def shrink(self, job: str, wanted: Targets, *, start: float | None = None, end: float | None = None) -> None:
        """Take part of what a job holds back (RFC 16 shrink).

        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        self.free(job, wanted, start=start, end=end)

    def expire(self, before: float | None = None) -> list[str]:
        """Drop the records that ended by now, or by `before`; the jobs concerned.

        RFC 16: an allocation that expires is removed from the resources.
        """
        return changes.expire(self, self.now() if before is None else ticks(before, "before"))

    # -- staging -----------------------------------------------------------------------------------------------------

    def stage(
        self,
        wanted: Targets,
        *,
        job: str,
        start: float | None = None,
        end: float | None = None,
        duration_s: float | None = None,
        ttl_s: float = limits.STAGE_SECONDS_DEFAULT,
    ) -> Stage:
        """Lock pools for a job that is being considered (RFC 4 Staged).

        Args:
            wanted, job, start, end, duration_s: as for allocate.
            ttl_s: seconds after which the lock falls by itself.

        Errors: as for allocate.
        """
        return changes.stage(self, job, wanted, self._given_window(start, end, duration_s), ttl_s)

    def new_stage_id(self) -> str:
        """An id no stage has."""
        while (stage := f"s{self._stages_made}") in self.records.stages:
            self._stages_made += 1
        self._stages_made += 1
        return stage

    def commit(self, stage: str) -> Allocation:
        """Make a stage an allocation of its job.

        Errors: StaleHandle when it was committed, released or has expired.
        """
        self.now()
        return changes.commit(self, stage)

    def release(self, stage: str) -> None:
        """Give back what a stage locks.

        Errors: StaleHandle when it was committed, released or has expired.
        """
        self.now()
        changes.release(self, stage)

    # -- states and tags ---------------------------------------------------------------------------------------------

    def set_state(self, where: Where | Selection | Sequence[Where], state: str) -> None:
        """Give pools a state (RFC 4 State).

        Errors: UsageError for an unknown state, UnknownPool.
        """
        changes.mark(self, "state", where, lambda vertices: self.structure.set_state(vertices, state), events.check_state(state))

    def tag(self, where: Where | Selection | Sequence[Where], key: str, value: str | None = None) -> None:
        """Tag pools (RFC 4 Tag(K, [V])).

        Errors: UsageError for an empty or overlong key or value, UnknownPool.
        """
        fields = events.check_tag(key, value)
        changes.mark(self, "tag", where, lambda vertices: self.structure.set_tag(vertices, key, value), fields)

    def untag(self, where: Where | Selection | Sequence[Where], key: str) -> None:
        """Take a tag from pools, where they have it."""
        changes.mark(self, "untag", where, lambda vertices: self.structure.drop_tag(vertices, key), {"key": key})

    # -- copying and joining -----------------------------------------------------------------------------------------

    def copy(self, where: Where = "/", *, job: str | None = None, at: float | None = None) -> ResourceGraph:
        """What is available of a subtree, with the way up to the root, as a graph of its own (RFC 4 Copy, rule C1).

        Args:
            where: top of the subtree.
            job: instead of what is available, what this job holds at the moment: what a nested instance starts from.
            at: moment in seconds; now by default.

        Errors: InsufficientResources when nothing of it is available; UnknownJob.
        """
        if job is not None:
            return joining.copy_job(self, job, self.window(at, None)[0])
        return joining.copy(self, targets.vertex(self, where), self.window(at, None)[0])

    def duplicate(self) -> ResourceGraph:
        """Everything, unchanged, sharing nothing with this graph (RFC 4 Duplicate)."""
        return joining.duplicate(self)

    def merge(self, other: ResourceGraph, at: str | None = None) -> None:
        """Take another graph in (RFC 4 Merge, rule M1).

        Args:
            other: left as it is.
            at: path or URI where its root goes; by default its own path, from the common ancestor on.

        Errors: MergeConflict, UnknownPool; nothing changes then.
        """
        joining.require_other(self, other)
        joining.merge(self, other, at)

    def unlink(self, where: Where, hierarchy: str | None = None) -> None:
        """Take a pool and all below it out of a hierarchy (RFC 4 Unlink).

        Args:
            where: the pool; a URI of an auxiliary hierarchy takes it out of that one.
            hierarchy: names the hierarchy instead.

        Errors: StillHeld when a job holds something there; UsageError for the root.
        """
        joining.unlink(self, where, hierarchy)

    def destroy(self) -> None:
        """Release the memory of this graph (RFC 16 Destroy); it can no longer be used."""
        joining.destroy(self)

    def restructure(self, structure: Structure, records: Records) -> None:
        """Take the next generation, with records over it; handles of the last one are stale from here on."""
        self.structure, self.records, self.planner = structure, records, records.planner
        self.generation += 1
        self.revision += 1

    # -- keeping -----------------------------------------------------------------------------------------------------

    def apply(self, event: events.Event) -> None:
        """Replay one event of a journal.

        Errors: InputError for an event it does not know; otherwise those of the operation.
        """
        events.apply(self, event)

    def check(self) -> list[Problem]:
        """Audit the rules on live data; empty when all hold (specs/rules.md)."""
        return audit.check(self)
