"""The face of a scheduler instance: jobs by id, the machine, time; what its children do stands in `nesting.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from fluxres.clock import FOREVER, Clock, seconds, ticks
from fluxres.errors import FluxresError, InputError, InsufficientResources, UnknownJob, UsageError
from fluxres.graph.structure import Problem
from fluxres.instance import audit, down, recording, states, urgency
from fluxres.instance import dependencies as deps
from fluxres.instance.choice import fastest
from fluxres.instance.dependencies import Dependency
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.job import Event, Job, JobId
from fluxres.instance.nesting import Nesting
from fluxres.instance.policy import QueuePolicy
from fluxres.instance.runner import Runner
from fluxres.instance.states import State
from fluxres.model.resource_graph import locked
from fluxres.model.targets import Targets
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


class Instance(Nesting):
    """A scheduler over one resource graph.

    Args:
        graph: the machine, or a part of it. With inventory "graph" every job is an allocation in it under its id.
        queue_policy: fcfs, easy, easy-count, easy-sjbf, hybrid, conservative, priority, fairshare, with parameters as in
            ``hybrid:depth=8``; one of another package; or a QueuePolicy.
        match_policy: which pools to prefer.
        clock: called for now in seconds; by default that of the graph, which stands still unless it was given one.
        name: by default that of the graph.
        inventory: "graph" takes any request; "auto" is much faster while requests are for whole pools that are all alike,
            and then writes to `graph` when that is asked for. specs/instances.md has the others.
        runner: starts and stops jobs; by default nothing does, and the caller reports the end with `finish`.
        sink: gets each finished job, which is then forgotten; by default the latest are kept.
        events: gets each event; by default they are kept with their job. False: none are made, which is faster.
        passes: "event": whatever happens is followed by a pass of the policy; "manual": only `schedule` makes one.

    >>> from fluxres.graph import uuids
    >>> from fluxres.graph.recipe import Recipe, expand
    >>> from fluxres.model import ResourceGraph
    >>> machine = Recipe("cluster", children=(Recipe("node", 4, children=(Recipe("core", 8),)),))
    >>> top = Instance(ResourceGraph(expand(machine, origin=uuids.new_origin())), queue_policy="easy", name="demo")
    >>> first, second = (top.submit("slot=3/node", duration_s=60) for _ in range(2))
    >>> first.state.name, second.state.name, second.reserved_at
    ('RUN', 'SCHED', 60.0)
    >>> part = top.spawn(first.id, queue_policy="fcfs")
    >>> part.submit("slot=20/core").state.name, part.address
    ('RUN', 'demo/ƒ1')
    >>> part.close()
    >>> first.result, second.state.name
    ('completed', 'RUN')
    """

    def __init__(
        self,
        graph: ResourceGraph,
        *,
        queue_policy: str | QueuePolicy = "fcfs",
        match_policy: str = "first",
        clock: Clock | None = None,
        name: str | None = None,
        inventory: str = "graph",
        runner: Runner | None = None,
        sink: Callable[[Job], None] | None = None,
        events: Callable[[Job, Event], None] | bool = True,
        passes: str = "event",
    ) -> None:
        super().__init__(
            graph,
            queue_policy=queue_policy,
            match_policy=match_policy,
            clock=clock,
            inventory=inventory,
            runner=runner,
            sink=sink,
            events=events,
            passes=passes,
        )
        self.name = name if name is not None else graph.name
        self.is_adaptive = inventory == "auto"

    def __repr__(self) -> str:
        return f"<Instance {self.address}: {self.policy.name}, {self.pending} pending, {self.running} running>"

    def __reduce__(self) -> NoReturn:
        hint = "pickle its graph, and make an instance of that where it is needed"
        raise UsageError("an instance cannot be pickled: its jobs run here", where=self.address, hint=hint)

    # -- jobs --------------------------------------------------------------------------------------------------------

    @locked
    def job(self, job: Job | JobId | int | str) -> Job:
        """A job by its id, in any form of RFC 19.

        Errors: UnknownJob for one that never was, or ended too long ago.
        """
        if isinstance(job, Job):
            if job.instance is not self:
                raise UnknownJob(f"job {job.id} belongs to {job.instance.address}", where=self.address)
            return job
        number = _number(job)
        found = self._jobs.get(number) or self._finished.get(number)
        if found is None:
            raise UnknownJob(f"no job {job!s:.80}", where=self.address, hint="jobs() lists them")
        return found

    def _active(self, job: Job | JobId | int | str) -> Job:
        found = self.job(job)
        if found.state is State.INACTIVE:
            raise UsageError(f"job {found.id} is over: {found.result}", where=self.address)
        return found

    @locked
    def jobs(self, *wanted: State) -> list[Job]:
        """Jobs in the order they came: the active ones, and those finished that are kept; or those in some states."""
        found = sorted((*self._finished.values(), *self._jobs.values()), key=lambda job: job.number)
        return [job for job in found if job.state in wanted] if wanted else found

    @property
    @locked
    def pending(self) -> int:
        """Jobs that have no resources yet."""
        return sum(job.state in states.PENDING for job in self._jobs.values())

    @property
    @locked
    def running(self) -> int:
        """Jobs that hold resources."""
        return len(self._jobs) - self.pending

    @locked
    def cancel(self, job: Job | JobId | int | str, note: str = "") -> None:
        """Cancel a job, pending or running; with a child, all that runs in it.

        Errors: UnknownJob; UsageError for one that is over.
        """
        self.exception(job, "cancel", note=note)

    @locked
    def exception(self, job: Job | JobId | int | str, kind: str, severity: int = 0, note: str = "") -> None:
        """Raise an exception on a job (RFC 21); severity 0 ends it.

        Errors: UnknownJob; UsageError for one that is over, and for a severity outside 0 to 7.
        """
        self._enter()
        found = self._active(job)
        if not 0 <= severity <= 7:
            raise UsageError(f"severity: expected 0 (fatal) to 7, got {severity!r:.80}")
        self._except(found, kind, severity, note)
        self._after()

    @locked
    def set_urgency(self, job: Job | JobId | int | str, urgent: int) -> None:
        """Give a pending job another urgency, and so another place in the queue.

        Errors: UnknownJob; UsageError for one that runs or is over.
        """
        self._enter()
        found = self._pending(job)
        is_scheduled, was_held = found.state is State.SCHED, found.urgency == urgency.URGENCY_HELD
        found.urgency = urgency.require_urgency(urgent)
        if is_scheduled:
            found.state = State.PRIORITY
            self.inventory.unreserve(found.number)
            self.queue.drop(found)
            if not was_held:
                self.queue.sort()
        if self._log:
            self._tell(found, "urgency", urgency=urgent, userid=found.user)
        if is_scheduled and found.state is State.PRIORITY:
            self._prioritise(found)
        self._after()

    @locked
    def set_duration(self, job: Job | JobId | int | str, duration_s: float | None) -> None:
        """Give a job another limit; None for none. That of a running job counts from its start.

        Errors: UnknownJob; UsageError for one that is over, has a child that needs longer, or would have ended already;
        InsufficientResources where others hold then what it has.
        """
        now = self._enter()
        found = self._active(job)
        duration = FOREVER if duration_s is None else ticks(duration_s, "duration_s")
        if duration < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {duration_s!r:.80}")
        if found.state is State.RUN:
            end = min(found.started + duration, FOREVER)
            if end <= now:
                raise UsageError(
                    f"it would have ended at {seconds(end)}", where=f"job {found.id}", hint="cancel it, or give it longer"
                )
            self._move_limit(found, end)
            if found.child is not None and not found.child.is_ending:
                found.child._expire_at(min(end, found.child.expires_given))
        elif found.state is State.CLEANUP:
            raise UsageError(f"job {found.id} is about to end")
        found.duration = duration
        if self._log:
            self._tell(found, "jobspec-update", **{"attributes.system.duration": duration_s})
        if found.state is State.SCHED:
            self.inventory.unreserve(found.number)
            self.queue.drop(found)
            self.queue.changed = True
        self._after()

    def _move_limit(self, job: Job, end: int) -> None:
        """Let a running job have another limit, with what its child draws; what is reserved stays where that leaves room for it.

        Errors: InsufficientResources where others hold then what it has; its limit is as it was.
        """
        places = self.queue.places()
        try:
            with self._in_service():
                self._move(job, end)
        except InsufficientResources:
            self.queue.restore(places)
            self._after()
            raise
        self.queue.restore(places)

    def _move(self, job: Job, end: int) -> None:
        upstream, before = None if job.child is None else job.child.upstream, job.limit
        if upstream is None:
            self._resize(job, end)
            return
        upstream.give_all(self.now)
        try:
            self._resize(job, end)
            upstream.take_all(end, self.now)
        except FluxresError:
            if job.limit != before:
                self._resize(job, before)
            upstream.take_all(before, self.now)
            raise

    def _resize(self, job: Job, end: int) -> None:
        self.queue.unreserve()
        self.queue.changed = True
        if self.foreign:
            self._record(job)
        start = job.limit + (job.number in self._at_limit)
        if end > job.limit and job.number in self._recorded:
            self._shown()  # with what began since, a refusal names all that hold something
            with recording.ours(self.inventory):
                name, pools = fluid.encode(job.number), self.inventory.pools(job.claim)
                recording.record(self._graph, name, pools, start, end, is_routed=False)
        try:
            self.inventory.resize(job.number, job.claim, self.now, end)
        except InsufficientResources:
            self._unrecord(job, start)
            raise
        self._at_limit.discard(job.number)
        if end < job.limit:
            self._unrecord(job, end)
            self.supplies_back()
        job.limit = end
        if not self.keeps_limits:
            self._announce(end)

    @locked
    def add_dependency(self, job: Job | JobId | int | str, dependency: Dependency | str | Mapping[str, Any]) -> None:
        """Let a pending job wait for something more.

        Errors: UnknownJob; UsageError for a cycle, and for a job that runs or is over.
        """
        now = self._enter()
        found = self._pending(job)
        wanted = deps.parse(dependency)
        verdict = self.dependencies.add(found, wanted, self._jobs, now)
        found.dependencies = (*found.dependencies, wanted)
        if self._log:
            self._tell(found, "dependency-add", description=str(wanted))
        if verdict is deps.Verdict.NEVER:
            self._except(found, "dependency", states.FATAL, f"{wanted} can never be")
        elif verdict is deps.Verdict.OPEN and found.state is State.SCHED:
            self.inventory.unreserve(found.number)
            found.state = State.DEPEND
            self.queue.drop(found)
            self.queue.sort()
        if verdict is deps.Verdict.OPEN and wanted.scheme == deps.BEGIN:
            self._wake(wanted.value, found)
        self._after()

    def _pending(self, job: Job | JobId | int | str) -> Job:
        found = self._active(job)
        if found.state not in states.PENDING:
            raise UsageError(f"job {found.id} is not pending, it is {found.state.name}", where=self.address)
        return found

    # -- time --------------------------------------------------------------------------------------------------------

    @locked
    def advance(self) -> None:
        """Do everything that is due by now, here and in the children: limits, begin times, reservations, expiry; then a pass.

        For a clock that runs by itself this is called at `next_due`, or every second.
        """
        self._require_open()
        now = self._time.look()
        if not self._time.still:
            self._catch_up(now + 1)
        for one in reversed(list(self.walk())):
            if not one.is_closed:
                one._go_on(now)
                if one.passes == "event":
                    self._time.owe(one)
        self._make_passes()

    @locked
    def next_due(self) -> float | None:
        """When `advance` has something to do next, in seconds; None for never."""
        if self.is_closed:
            return None
        near = (*self._instances_above(), *self.walk())
        if self._time.is_behind or any(one._graph.revision != one.inventory.revision for one in near):
            return seconds(self._time.look())  # others have changed something, or a policy went wrong
        moment = self._next_tick()
        return None if moment >= FOREVER else seconds(moment)

    @locked
    def schedule(self, limit: int | None = None) -> int:
        """One pass of the policy, with at most `limit` starts; how many jobs were started."""
        self._enter()
        self._make_passes()
        started = self._pass(-1 if limit is None else limit)
        self._make_passes()
        return started

    # -- the machine -------------------------------------------------------------------------------------------------

    @property
    @locked
    def graph(self) -> ResourceGraph:
        """The resource graph, with what every running job holds; what is due is done first."""
        if not self.is_closed:
            self._pass_time()
        return self._shown()

    def _shown(self) -> ResourceGraph:
        jobs = [job for job in self._jobs.values() if job.claim is not None]
        for job in sorted(jobs, key=lambda job: job.number in self._disputed):
            self._record(job)
        return self._graph

    @locked
    def set_state(self, where: Targets, state: str) -> None:
        """Give pools a state (RFC 4), here and in the children that have them.

        Work that runs there goes on, except where they are down: those jobs have failed. A job with a child goes on, and
        the child's own jobs have failed.

        Errors: UsageError for a pool to be used again that is out of service in the parent; nothing has changed then.
        """
        self._enter()
        down.require_in_service_above(self._face, where, state)
        down.set_state(self, where, state)
        self._after()

    def drain(self, where: Targets) -> None:
        """Give no more work to pools; what runs there goes on."""
        self.set_state(where, "drain")

    def down(self, where: Targets) -> None:
        """Pools have failed: what runs there has, too."""
        self.set_state(where, "down")

    def up(self, where: Targets) -> None:
        """Pools can be used again."""
        self.set_state(where, "up")

    def _adapt(self, request: Request | None) -> None:
        """Change to an inventory that can answer this request (any request, where None), with everything that is held."""
        self._shown()
        before = self.inventory
        before.clear()
        self.queue.cleared()
        if not self._jobs and request is not None:
            self.inventory = fastest(self._graph, self.match_policy, request, self._measure)
            return
        made = GraphInventory(self._graph, self.match_policy, self._measure)
        for job in self._jobs.values():
            job.ask = job.request  # what this machine could give when the job came, it may have again
            if job.claim is not None:
                is_disputed = job.number in self._disputed
                job.claim = made.adopt(job.number, job.claim, before.pools(job.claim), is_disputed=is_disputed)
        self.inventory = made
        self._recorded.clear()

    @locked
    def check(self) -> list[Problem]:
        """Audit this instance and its children; empty when the rules hold (rule N1, and those of their graphs)."""
        return audit.check(self)


def _number(job: object) -> int:
    if isinstance(job, str):
        try:
            return fluid.decode(job)
        except InputError as error:
            raise UnknownJob(error.message, hint=error.hint) from None
    if isinstance(job, int) and not isinstance(job, bool):
        return int(job)
    raise UsageError(f"a job is named by its id, not by {job!r:.80}")
