"""A machine and who holds what of it: the object a scheduler developer works with.

Every change goes the same way: names become vertex numbers and ticks, the records check it as a whole, the
sink (a journal, where there is one) is told, and only then it is applied.  What is longer than a screen
(search, copying and joining, replaying) stands in modules of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

from fluxres import limits
from fluxres.allocation.records import Records
from fluxres.clock import FOREVER, Length, Time, seconds, ticks
from fluxres.errors import UsageError
from fluxres.graph.edges import Value
from fluxres.graph.structure import Structure
from fluxres.model import changes, edges, events, joining, targets
from fluxres.model.locking import all_of, locked
from fluxres.model.requests import Requests
from fluxres.model.selection import Selection
from fluxres.model.stage import Stage
from fluxres.model.targets import Targets, Where
from fluxres.model.values import Allocation

if TYPE_CHECKING:
    from fluxres.match import Match, Policy
    from fluxres.syntax.jobspec import Wanted


def _one_start(start: Time | None, at: Time | None) -> tuple[Time | None, str]:
    """The start, and what the caller calls it."""
    if at is None:
        return start, "start"
    if start is not None:
        raise UsageError(f"both a start ({start}) and at ({at}) were given", hint="they mean the same: give one of them")
    return at, "at"


class ResourceGraph(Requests):
    """A resource graph: pools, the containment tree, auxiliary graphs, and the records over them.

    Args:
        structure: columns of the machine.
        name: of the graph; that of the root by default.
        clock: called for "now" in seconds; stands still at 0 by default, `fluxres.clock.system` is the wall clock.

    Threads may share a graph: each call is made as a whole, one after the other. Several calls are, too, within
    ``with graph.lock:``; then `commit_match` finds what `match` found it on.

    Cost: O(1); what is derived is made when first asked for.
    """

    # -- who holds what ----------------------------------------------------------------------------------------------

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
    ) -> Allocation:
        """Give pools to a job, all or nothing; what it has already grows (RFC 4 Allocate, RFC 16 Allocate).

        Args:
            wanted: a pool, a selection, ``[(pool, amount), …]`` or ``{pool: amount}``, without an amount the whole pool; or a
                request: a shape such as ``slot=4/[core=2;gpu=1]``, short options such as ``-N4 -c8``, a jobspec, a Request.
            job: id.
            start: seconds, or a datetime with a time zone; now by default; `at` is the same. end or duration_s: until when; by
                default as long as the request says, else without end. What begins later than now needs an end (RFC 16).
            policy: for a request, which pools to prefer.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest, UnknownPool, UsageError; nothing changes then.
        """
        with self.lock:
            changes.expire_stages(self)
            begin, name = _one_start(start, at)
            if targets.is_request(self, wanted):
                from fluxres.model import matching  # the first request pays for the matcher's import; commands on pools do not

                length = self._duration(begin, end, duration_s, name)
                return matching.allocate(self, cast("Wanted", wanted), job, begin, length, policy, name)
            window = self._given_window(begin, end, duration_s, name)
            changes.require_end(self, window)
            return changes.allocate(self, job, cast("Targets", wanted), window, with_draws=True)

    def _duration(self, start: Time | None, end: Time | None, duration_s: Length | None, name: str = "start") -> Length | None:
        if end is None:
            return duration_s
        lo, hi = self._given_window(start, end, duration_s, name)
        return seconds(hi - lo) if hi < FOREVER else math.inf

    def commit_match(self, found: Match, *, job: str) -> Allocation:
        """Give what `match` found to a job.

        Errors: StaleHandle when the graph changed since; nothing changes then.
        """
        with self.lock:
            from fluxres.model import matching

            return matching.give(self, found, job)

    def allocate_orelse_reserve(
        self,
        wanted: Wanted,
        *,
        job: str,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> Allocation:
        """Give pools for a request to a job now (or at `after`), or else at the earliest time.

        Errors: InsufficientResources where no time will do, InfeasibleRequest; nothing changes then.
        """
        with self.lock:
            from fluxres.model import matching

            changes.expire_stages(self)
            return matching.reserve(self, wanted, job, after, duration_s, policy)

    # -- several at once ---------------------------------------------------------------------------------------------

    @locked
    def allocate_all(
        self,
        wanted: Iterable[tuple[Targets | Wanted, str]],
        *,
        start: Time | None = None,
        end: Time | None = None,
        duration_s: Length | None = None,
        at: Time | None = None,
        policy: str | Policy = "first",
    ) -> list[Allocation]:
        """Give pools to several jobs, or several times to one, at one start: all of it or none.

        Args:
            wanted: pairs of what allocate takes (a request, or pools by name) and a job; no two get the same units.
            start, end, duration_s, at, policy: as for allocate, of all of them; a request may say its own duration.

        Requests are matched in the order `match_all` tells. What is given is one event: a journal has all of it or nothing.

        Errors: as allocate, with the number and the job of the request that has no pools; nothing changes then.
        """
        from fluxres.model import several

        changes.expire_stages(self)
        begin, name = _one_start(start, at)
        first = self.open_window(begin, None, name)[0]
        parts = several.parts_of(self, wanted, self._duration(begin, end, duration_s, name), first)
        return several.give(self, parts, first, policy)

    @locked
    def allocate_all_orelse_reserve(
        self,
        wanted: Iterable[tuple[Wanted, str]],
        *,
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> list[Allocation]:
        """Give pools for several requests to their jobs now (or at `after`), or else at the earliest time at which all can start.

        Args:
            wanted: pairs of a request and a job.

        Errors: as allocate_all, where no time will do; nothing changes then.
        """
        from fluxres.model import several

        changes.expire_stages(self)
        begin = self.open_window(after, None, "after")[0]
        parts = several.parts_of(self, wanted, duration_s, begin, sought_only=True)
        start = several.start_of_all(self, parts, begin, policy)
        return several.give(self, parts, begin if start is None else start, policy)

    @locked
    def commit_all(self, found: Iterable[tuple[Match, str]]) -> list[Allocation]:
        """Give several matches to their jobs, all or none.

        Args:
            found: pairs of a match and a job; of `match_all`, or any that have nothing in common.

        Errors: StaleHandle when the graph changed since one was found; InsufficientResources when two take the same units;
        nothing changes then.
        """
        from fluxres.model import several

        return several.commit(self, found)

    # -- giving back -------------------------------------------------------------------------------------------------

    def free(self, job: str, wanted: Targets | None = None, start: Time | None = None, end: Time | None = None) -> None:
        """Take back what a job holds: everything, or pools, or units of them (RFC 4 Free, RFC 16 Release).

        Args:
            job: id.
            wanted: as for allocate; without an amount all the job has of the pool.
            start, end: only this window; the whole time by default, what is past of it too.

        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        with self.lock:
            changes.expire_stages(self)
            changes.free(self, job, wanted, start, end)

    def grow(
        self,
        job: str,
        wanted: Targets | Wanted,
        *,
        start: Time | None = None,
        end: Time | None = None,
        policy: str | Policy = "first",
    ) -> Allocation:
        """Give more, pools or what a request asks for, to a job that holds something; by default until it ends (RFC 16 grow).

        Errors: UnknownJob, and those of allocate; nothing changes then.
        """
        with self.lock:
            changes.expire_stages(self)
            return changes.grow(self, job, wanted, start, end, policy)

    @locked
    def shrink(
        self,
        job: str,
        wanted: Targets | Wanted,
        *,
        start: Time | None = None,
        end: Time | None = None,
        policy: str | Policy = "high",
    ) -> Allocation:
        """Take part of what a job holds back (RFC 16 shrink).

        Args:
            wanted: pools, or units of them; or a request, such as ``slot=2/node``, which is matched in what the job holds. What
                was drawn for a pool goes with the last of it that the job has (rule F2); what is named beside it is part of that.
            start, end: only this window; the whole time by default, what is past of it too.
            policy: for a request, which of the job's pools go first: the last ones by default, so that the first node stays.

        Returns: what was taken back.
        Errors: UnknownJob, NotHeld; nothing changes then.
        """
        changes.expire_stages(self)
        return changes.shrink(self, job, wanted, start, end, policy)

    @locked
    def set_end(self, job: str, end: Time | None = None, *, duration_s: Length | None = None) -> Allocation:
        """Extend or shorten what a job holds: all of it ends at another time, or nothing changes.

        Each pool keeps the units that the job holds of it last; what begins after the new end is given back.

        Args:
            job: id.
            end: seconds or a datetime; `math.inf` for no end, which only a job that has begun can have.
            duration_s: instead, how long from the beginning of what the job holds.

        Returns: what the job holds now.
        Errors: InsufficientResources where something is in the way, with the latest end for which nothing is; UnknownJob;
            NotHeld for a job that has ended; UsageError for an end that is over, or before the job begins.
        """
        changes.expire_stages(self)
        return changes.set_end(self, job, end, duration_s)

    @locked
    def expire(self, before: Time | None = None) -> list[str]:
        """Drop the records that ended by now, or by `before`, and the stages whose time is over; the jobs concerned.

        RFC 16: an allocation that expires is removed from the resources.  Records that ended stay until then, or until a merge,
        an unlink, a move or a change of an edge that they are in the way of: it lets them expire first (rule T2).
        """
        changes.expire_stages(self)
        return changes.expire(self, self.now() if before is None else ticks(before, "before"))

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
            ttl_s: seconds after which the lock falls by itself.

        Errors: as for allocate.
        """
        with self.lock:
            changes.expire_stages(self)
            if targets.is_request(self, wanted):
                from fluxres.model import matching

                length = self._duration(start, end, duration_s)
                found = matching.match(self, cast("Wanted", wanted), start, length, policy, "start")
                matching.require_picks(found)
                window = found.start, found.end
                return changes.stage(self, job, found.targets, window, ttl_s, found.nslots, found.drawn, implies=True)
            window = self._given_window(start, end, duration_s)
            return changes.stage_by_window(self, job, targets.with_amounts(self, cast("Targets", wanted)), window, ttl_s)

    def new_stage_id(self) -> str:
        """The id of the next stage: none has it, and none had it, in this process or one before."""
        return f"s{self.records.stages_made}"

    def commit(self, stage: str) -> Allocation:
        """Make a stage an allocation of its job.

        Errors: StaleHandle when it was committed, released or has expired.
        """
        with self.lock:
            changes.expire_stages(self)
            return changes.commit(self, stage)

    def release(self, stage: str) -> None:
        """Give back what a stage locks.

        Errors: StaleHandle when it was committed, released or has expired.
        """
        with self.lock:
            changes.expire_stages(self)
            changes.release(self, stage)

    # -- states and tags ---------------------------------------------------------------------------------------------

    @locked
    def set_state(self, where: Where | Selection | Sequence[Where], state: str) -> None:
        """Give pools a state (RFC 4 State).

        Errors: UsageError for an unknown state, UnknownPool.
        """
        changes.mark(self, "state", where, lambda vertices: self.structure.set_state(vertices, state), events.check_state(state))
        if self.matcher is not None:
            self.matcher.forget()

    @locked
    def tag(self, where: Where | Selection | Sequence[Where], key: str, value: str | None = None) -> None:
        """Tag pools (RFC 4 Tag(K, [V])).

        Errors: UsageError for an empty or overlong key or value, UnknownPool.
        """
        fields = events.check_tag(key, value)
        changes.mark(self, "tag", where, lambda vertices: self.structure.set_tag(vertices, key, value), fields)

    @locked
    def untag(self, where: Where | Selection | Sequence[Where], key: str) -> None:
        """Take a tag from pools, where they have it."""
        changes.mark(self, "untag", where, lambda vertices: self.structure.drop_tag(vertices, key), {"key": key})

    # -- copying and joining -----------------------------------------------------------------------------------------

    @locked
    def copy(self, where: Where = "/", *, job: str | None = None, at: Time | None = None) -> ResourceGraph:
        """What is available of a subtree, with the way up to the root, as a graph of its own (RFC 4 Copy, rule C1).

        What supplies it in auxiliary graphs comes along as a way and gives nothing, so no pool that draws from it (`draw`) can be
        allocated in the copy; :meth:`check` warns of these. The copy of a job has the units that the job holds.

        Args:
            where: top of the subtree.
            job: instead of what is available, what this job holds at the moment: what a nested instance starts from.
            at: moment in seconds; now by default.

        Errors: InsufficientResources when nothing of it is available; UnknownJob; UnknownPool, also for a pool that does not
        stand in the containment tree.
        """
        if job is not None:
            return joining.copy_job(self, job, self.window(at, None)[0])
        return joining.copy(self, targets.vertex(self, where), self.window(at, None)[0])

    @locked
    def duplicate(self, where: Where = "/") -> ResourceGraph:
        """Everything, unchanged, sharing nothing with this graph (RFC 4 Duplicate): all of it, or a pool and what is below it.

        Args:
            where: top of the subtree. It is the root of the new graph, and keeps its name, its uuid and what is held in it; what
                supplies it in auxiliary graphs comes along as the way to it, and has no units there: as with :meth:`copy`, what
                draws from it cannot be allocated.

        Errors: UnknownPool, also for a pool that does not stand in the containment tree.
        """
        return joining.duplicate(self, targets.vertex(self, where))

    def merge(self, other: ResourceGraph, at: str | None = None) -> None:
        """Take another graph in (RFC 4 Merge, rule M1).

        Args:
            other: left as it is.
            at: path or URI where its root goes; by default its own path, from the common ancestor on. A URI of an auxiliary
                hierarchy, such as ``power:/pdu0``, puts it below a pool outside the containment tree.

        Errors: MergeConflict, UnknownPool, UsageError; nothing changes then.
        """
        joining.require_other(self, other)
        with all_of(self, other):
            joining.merge(self, other, at)

    @locked
    def unlink(self, where: Where, hierarchy: str | None = None) -> None:
        """Take a pool and all below it out of a hierarchy (RFC 4 Unlink).

        Args:
            where: the pool; a URI of an auxiliary hierarchy takes it out of that one.
            hierarchy: names the hierarchy instead.

        Errors: StillHeld when a job holds something there; UsageError for the root.
        """
        joining.unlink(self, where, hierarchy)

    @locked
    def move(self, where: Where, to: Where) -> None:
        """Put a pool with all below it at another place (RFC 4 Merge: from its place to a path or URI); handles are stale then.

        In the containment tree it keeps its uuid, name, state, tags, and the edges of auxiliary graphs. A job may not hold
        anything of it, now or later, nor all of what it is put in. In an auxiliary hierarchy it stays where it is in the tree,
        and comes to stand below another pool: the edge that leads to it begins there.

        Args:
            where: the pool.
            to: the pool it is put in; or its whole new path, which may give it another name. A URI such as ``power:/pdu1`` says
                below which pool of that hierarchy.

        Errors: StillHeld; MergeConflict for a name that is taken there; UsageError for the root, and for a place in itself;
        UnknownPool; nothing changes then.
        """
        joining.move(self, where, to)

    # -- edges of auxiliary graphs -----------------------------------------------------------------------------------

    @locked
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
        """Tie two pools in an auxiliary graph (RFC 4, "Resource Graph Data"); handles are stale from here on.

        Args:
            source, target: pools; the edge points from one to the other.
            subsystem: name of the auxiliary graph.
            relation: what the edge says, such as ``supplies``.
            capacity: units that it carries at once; no limit by default.
            unit: of the capacity; that of the pools which the graph distributes by default.
            supply: of a pool with several suppliers: ``all`` give all that it draws, or ``any`` does; ``all`` by default.
            attributes: further ones, by name.
            hierarchy: makes the graph where there is none of this name: a hierarchy, or a graph that is none.

        Errors: UnknownPool; UnknownGraph; UsageError for an edge that is there already, and for a second parent or a cycle in a
        hierarchy; nothing changes then.
        """
        values = edges.values_of(capacity, unit, attributes, supply=supply)
        edges.add(self, edges.ends_of(self, source, target, subsystem), relation, values, hierarchy)

    @locked
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
        """Change what an edge says of itself; handles are stale from here on.

        Args:
            source, target, subsystem: the edge.
            relation: which one, where there are several between the two pools.
            capacity: units that it carries at once; `math.inf` for no limit. As it is by default.
            unit, supply, attributes: those to be set; an attribute that is None is taken away.

        Errors: UsageError where there is no such edge; StillHeld when jobs draw more through it, now or later, and where it had
        no capacity and jobs may draw through it; nothing changes then.
        """
        values = edges.values_of(capacity, unit, attributes, supply=supply, removable=True)
        edges.change(self, edges.ends_of(self, source, target, subsystem), relation, values)

    @locked
    def remove_edge(self, source: Where, target: Where, subsystem: str, *, relation: str | None = None) -> None:
        """Remove an edge; handles are stale from here on.  The pools stay, and so does the graph, were it without edges.

        Args:
            source, target, subsystem: the edge.
            relation: which one, where there are several between the two pools.

        Errors: UsageError where there is no such edge; StillHeld when jobs draw through it, now or later; nothing changes then.
        """
        edges.remove(self, edges.ends_of(self, source, target, subsystem), relation)

    @locked
    def destroy(self) -> None:
        """Release the memory of this graph, at once (RFC 16 Destroy).

        Every later use of the graph, its pools, selections and stages raises StaleHandle.  What outlives it keeps the columns
        it needs: an Allocation, and a view of networkx.  Cost: a run of the garbage collector.
        """
        joining.destroy(self)

    def restructure(self, structure: Structure, records: Records) -> None:
        """Take the next generation, with records over it; handles of the last one are stale from here on."""
        self.withdraw_views()
        records.upstream = self.records.upstream
        # First: a handle that another thread asks reads the structure before it compares generations.
        self.generation += 1
        self.structure, self.records, self.planner = structure, records, records.planner
        self.matcher = None
        self.revision += 1

    # -- keeping -----------------------------------------------------------------------------------------------------

    @locked
    def apply(self, event: events.Event) -> None:
        """Replay one event of a journal.

        What is out of service may be given by it: its writer has checked that, and jobs hold on to what was drained.

        Errors: InputError for an event it does not know; otherwise those of the operation.
        """
        events.apply(self, event)
