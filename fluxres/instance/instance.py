"""A scheduler instance: its jobs and their states (Flux RFC 21), its children (rule N1), time (rule T1) and the machine.

A call first does what was due before it (`enter`), then what it is for, then what follows from that (`_follow_up`): passes of the
queue policy, in this instance and in others of its tree.  The other modules of this folder do what takes more than a screen:
`passes` starts jobs, `due` ends them at their limits, `holding` keeps what they hold, `foreign` and `down` see what others change
in the graph, `parts` and `upstream` are about parents and children, `shared` is what a tree of instances has in common.

A child begins with a copy of what one job of its parent holds (RFC 4 Copy) and is a scheduler like any other.  It may ask its
parent for more (merge) and give back what is free in it (unlink).  Whenever and for whatever reason it ends, its jobs end with it
and the resources of its job go back to the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappush
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.clock import FOREVER, Clock, seconds, ticks
from fluxres.errors import (
    FluxresError,
    InputError,
    InsufficientResources,
    LimitExceeded,
    PolicyError,
    StaleHandle,
    StoreError,
    UnknownJob,
    UsageError,
)
from fluxres.graph.structure import Problem
from fluxres.instance import audit, down, due, foreign, holding, parts, states
from fluxres.instance import dependencies as deps
from fluxres.instance.choice import fastest, make_inventory
from fluxres.instance.dependencies import Dependencies, Dependency, Verdict
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.ids import JobIds
from fluxres.instance.inventory import Ask, Inventory, NotUniform
from fluxres.instance.job import (
    URGENCY_DEFAULT,
    URGENCY_HELD,
    Event,
    Failure,
    Job,
    JobId,
    fixed_priority,
    require_urgency,
)
from fluxres.instance.passes import Guard, Passes
from fluxres.instance.policy import QueuePolicy
from fluxres.instance.policy import policy as require_queue_policy
from fluxres.instance.queue import Queue
from fluxres.instance.runner import NOT_STARTED, Runner, Unattended
from fluxres.instance.shared import Shared
from fluxres.instance.states import LEADS_TO, State
from fluxres.instance.timekeeper import Timekeeper
from fluxres.instance.tree import Branch, branches, lines
from fluxres.instance.upstream import ParentSupply
from fluxres.match.policy import policy as require_match_policy
from fluxres.model import joining
from fluxres.model.resource_graph import locked
from fluxres.model.targets import Targets
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request, Wanted, as_request

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph

AnyJob = Job | JobId | int | str
"""A job, or its id in any form of RFC 19."""


class Instance:
    """A scheduler over one resource graph.

    Args:
        graph: the machine, or a part of it. With inventory "graph" every job is an allocation in it under its id.
        queue_policy: fcfs, easy, easy-count, easy-sjbf, hybrid, conservative, priority, fairshare, with parameters as in
            ``hybrid:depth=8``; one of another package; or a QueuePolicy.
        match_policy: which pools to prefer.
        clock: called for now in seconds; by default that of the graph, which stands still unless it was given one.
        name: by default that of the graph.
        inventory: "graph" takes any request; "auto" is much faster while requests are for exclusive pools that are all equal,
            and then writes to `graph` when that is asked for. specs/instances.md has the others.
        runner: starts and stops jobs; by default nothing does, and the caller reports the end with `finish`.
        sink: gets each finished job, which is then forgotten; by default the latest are kept.
        events: gets each event; by default they are kept with their job. False: none are made, which is faster.
        passes: "event": a pass of the policy follows every change; "manual": only `schedule` makes one.

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

    is_closed = False
    is_ending = False
    """Whether it is to close as soon as the jobs that were asked to stop have ended."""
    expires = FOREVER
    """When the instance ends by itself, in ticks."""
    expires_given = FOREVER
    """The same as set by `set_expiration`; the limit of the job in the parent may come first."""
    parent: Instance | None = None
    job_in_parent: Job | None = None
    _is_left = False
    """Whether the job in the parent has finished and only waits for this instance to close."""
    states_given: tuple[Structure, NDArray[np.uint8]] | None = None
    """The states of the pools that the children know."""
    foreign: frozenset[str] = frozenset()
    """Jobs of others that hold something of the graph; none of this instance has such a name."""
    _measure: str | None = None
    _announced = FOREVER
    """When something is due next, as the Timekeeper knows it."""
    _lapsed_at = FOREVER

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
        if passes not in ("event", "manual"):
            raise UsageError(f"passes: expected event or manual, got {passes!r:.80}")
        self._graph = graph
        self.name = name if name is not None else graph.name
        self.lock = graph.lock
        """The lock of the graph, and of all instances of the tree."""
        if clock is not None:
            graph.clock = clock
        self.clock = graph.clock
        self._time = Timekeeper(self.clock)
        self.now = self._time.now
        self.policy = require_queue_policy(queue_policy)
        self._queue_policy = queue_policy
        require_match_policy(match_policy)
        self.match_policy = match_policy
        self.inventory_kind = inventory
        self.is_adaptive = inventory == "auto"
        self.inventory: Inventory = make_inventory(inventory, graph, match_policy)
        self.runner: Runner = runner if runner is not None else Unattended()
        self.keeps_limits: bool = getattr(self.runner, "keeps_limits", False)
        self.passes = passes
        self.queue = Queue(self)
        self.scheduling = Passes(self)
        self.dependencies = Dependencies()
        self._sink = sink
        self._events = events
        self._log: Callable[[Job, Event], None] | None = events if callable(events) else _keep_event if events else None

        self.shared = Shared(self)
        self._children: dict[int, Instance] = {}
        """By number of the job that holds the child's resources."""

        self._jobs: dict[int, Job] = {}
        """Active jobs."""
        self._finished: dict[int, Job] = {}
        self._ids = JobIds(graph, self.now)
        self._foreign_ends: list[int] = []
        """When others give something back, latest first."""
        self._timers: list[tuple[int, int]] = []
        """Begin times of jobs that wait for them, and the numbers of these jobs; a heap."""
        self._lapsed: list[int] = []
        """Jobs whose runner keeps limits and whose limit was at `_lapsed_at`: none of them may run after it."""
        self._at_limit: set[int] = set()
        """Jobs whose limit is now, and for which what they have is kept."""
        self._overtime: set[int] = set()
        """Jobs that have not ended by their limit."""
        self._disputed: set[int] = set()
        """Jobs that have something which others hold in the graph, or will hold before the job's limit."""
        self._recorded: set[int] = set()
        """Jobs that the graph shows although the inventory does not write there."""
        if graph.records.jobs() or graph.records.stages:
            foreign.look(self)

    def __repr__(self) -> str:
        return f"<Instance {self.address}: {self.policy.name}, {self.pending} pending, {self.running} running>"

    def __reduce__(self) -> NoReturn:
        hint = "pickle its graph, and make an instance of that where it is needed"
        raise UsageError("an instance cannot be pickled: its jobs run here", where=self.address, hint=hint)

    # -- jobs by id --------------------------------------------------------------------------------------------------

    @locked
    def job(self, job: AnyJob) -> Job:
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

    def _active(self, job: AnyJob) -> Job:
        found = self.job(job)
        if found.state is State.INACTIVE:
            raise UsageError(f"job {found.id} is over: {found.result}", where=self.address)
        return found

    def _pending(self, job: AnyJob) -> Job:
        found = self._active(job)
        if found.state not in states.PENDING:
            raise UsageError(f"job {found.id} is not pending, it is {found.state.name}", where=self.address)
        return found

    def _running(self, job: AnyJob) -> Job:
        found = self._active(job)
        if found.state not in states.RUNNING:
            raise UsageError(f"job {found.id} does not run, it is {found.state.name}", hint="cancel it")
        if found.child is not None and found.child._is_left:
            raise UsageError(f"job {found.id} has finished", hint="jobs in its child have not ended yet")
        return found

    @locked
    def jobs(self, *wanted: State) -> list[Job]:
        """Jobs in the order of submission: the active ones and the finished ones that are kept, or those in some states."""
        found = sorted((*self._finished.values(), *self._jobs.values()), key=lambda job: job.number)
        return [job for job in found if job.state in wanted] if wanted else found

    @property
    @locked
    def pending(self) -> int:
        """The number of jobs that have no resources yet."""
        return sum(job.state in states.PENDING for job in self._jobs.values())

    @property
    @locked
    def running(self) -> int:
        """The number of jobs that hold resources."""
        return len(self._jobs) - self.pending

    @property
    def is_active(self) -> bool:
        """Whether there are jobs that have not ended."""
        return bool(self._jobs)

    # -- submission --------------------------------------------------------------------------------------------------

    @locked
    def submit(
        self,
        wanted: Wanted,
        *,
        duration_s: float | None = None,
        urgency: int = URGENCY_DEFAULT,
        name: str | None = None,
        user: str | None = None,
        dependencies: Iterable[Dependency | str | Mapping[str, Any]] = (),
        payload: Any = None,
    ) -> Job:
        """Submit a job; it may have started when this returns.

        Args:
            wanted: a shape, short options, a jobspec or a Request.
            duration_s: its limit; by default that of the request, else none.
            urgency: 0 (held) to 31 (expedited).
            dependencies: ``afterok:ƒA`` and the like, besides those of the jobspec.
            payload: for the runner.

        Errors: InfeasibleRequest for what the machine can never satisfy, UsageError, InputError; there is no job then.
        """
        now = self.enter()
        request = wanted if isinstance(wanted, Request) else as_request(wanted)
        length = request.duration_s if duration_s is None else duration_s
        duration = FOREVER if length is None else ticks(length, "duration_s")
        if duration < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {length!r:.80}")
        return self.submit_request(request, duration, now, urgency, name, user, dependencies, payload)

    def submit_request(
        self,
        request: Request,
        duration: int,
        now: int,
        urgency: int,
        name: str | None,
        user: str | None,
        wanted: Iterable[Dependency | str | Mapping[str, Any]],
        payload: Any,
    ) -> Job:
        """`submit` after `enter`, for callers that have a Request and a duration in ticks."""
        if self.is_ending:
            raise StaleHandle("this instance is ending")
        ask = self._ask(request)
        given: Iterable[Dependency] = ()
        if wanted or request.attributes:
            given = [deps.parse(one) for one in (*wanted, *request.system.get("dependencies", ()))]
        job = Job(self, self._new_id(now), request, duration, now, require_urgency(urgency), name, user, payload)
        job.ask = ask
        job.dependencies = tuple(given)
        self._jobs[job.number] = job
        if name is not None:
            self.dependencies.enter(job)
        if self._log:
            self._log_event(job, "submit", urgency=urgency, userid=user, flags=0, version=1)
        self._post(job, "validate")
        if not given or self._add_dependencies(job, given, now):
            self._depend(job)
        self._follow_up()
        return job

    def _ask(self, request: Request) -> Ask:
        if self.is_adaptive and not self._jobs and self.inventory.kind == "graph":
            self._adapt(request)
        try:
            return self.inventory.ask(request)
        except NotUniform:
            if self.inventory.kind == "graph" or not self.is_adaptive:
                raise UsageError(
                    "this request is not for a number of equal pools",
                    where=f"inventory {self.inventory.kind}",
                    hint="use inventory='graph' or 'auto'",
                ) from None
        self._adapt(request)
        return self.inventory.ask(request)

    def _adapt(self, request: Request | None) -> None:
        """Change to an inventory that can answer this request (any request, where None), with everything that is held."""
        holding.record_jobs(self)
        before = self.inventory
        before.clear()
        self.queue.cleared()
        if not self._jobs and request is not None:
            self.inventory = fastest(self._graph, self.match_policy, request, self._measure)
            return
        made = GraphInventory(self._graph, self.match_policy, self._measure)
        for job in self._jobs.values():
            job.ask = job.request  # what this machine could satisfy when the job was submitted, it may again
            if job.claim is not None:
                is_disputed = job.number in self._disputed
                job.claim = made.adopt(job.number, job.claim, before.pools(job.claim), is_disputed=is_disputed)
        self.inventory = made
        self._recorded.clear()

    def _new_id(self, now: int) -> int:
        try:
            return self._ids.new(now, self.foreign)
        except UsageError as error:
            raise UsageError(error.message, where=self.address, hint=error.hint) from None

    def _add_dependencies(self, job: Job, given: Iterable[Dependency], now: int) -> bool:
        """Note what a new job waits for; whether that is nothing."""
        never = None
        try:
            for dependency in given:
                verdict = self.dependencies.add(job, dependency, self._jobs, now)
                if verdict is Verdict.NEVER:
                    never = dependency
                elif verdict is Verdict.OPEN and dependency.scheme == deps.BEGIN:
                    self._wake(dependency.value, job)
                if self._log:
                    self._log_event(job, "dependency-add", description=str(dependency))
        except FluxresError:
            self.dependencies.ended(job, False, False)
            del self._jobs[job.number]
            raise
        if never is not None:
            self._raise(job, "dependency", states.FATAL, f"{never} can never be")
            return False
        return not self.dependencies.open(job)

    def _wake(self, moment: int, job: Job) -> None:
        """Let a job wait for a moment."""
        heappush(self._timers, (moment, job.number))
        self._announce(due.first(self))

    # -- from state to state -----------------------------------------------------------------------------------------

    def _post(self, job: Job, event: str, **context: Any) -> None:
        """Move a job to the state that an event leads to (RFC 21), and log the event."""
        before = job.state
        job.state = LEADS_TO.get((before, event), before)
        if self._log:
            self._log(job, Event(seconds(self.now), event, context))

    def _log_event(self, job: Job, event: str, **context: Any) -> None:
        assert self._log is not None  # callers check first, because most runs have no listener
        self._log(job, Event(seconds(self.now), event, context))

    def _depend(self, job: Job) -> None:
        """The dependencies of a job are satisfied."""
        if job.state is State.DEPEND:  # a listener may have canceled it
            self._post(job, "depend")
            self._prioritize(job)

    def _prioritize(self, job: Job) -> None:
        if job.state is not State.PRIORITY:  # a listener may have canceled it
            return
        fixed = fixed_priority(job.urgency)
        job.priority = self.scheduling.priority(job) if fixed is None else fixed
        job.state = states.after(job.state, "priority")
        if job.urgency != URGENCY_HELD:
            self.queue.add(job)
            self.scheduling.request_round()
        if self._log:
            self._log_event(job, "priority", priority=job.priority)

    def _start(self, job: Job, claim: Any, limit: int) -> None:
        """Start a job that has got its resources."""
        job.claim = claim
        job.started = self.now
        job.limit = limit
        job.state = states.after(job.state, "alloc")
        self.queue.leave(job)
        if self._log:
            self._log_event(job, "alloc")
        if len(self.dependencies):
            for other in self.dependencies.started(job):
                self._depend(other)
        if limit < self._announced and not self.keeps_limits:
            self._announce(limit)
        if self._log:
            self._log_event(job, "start")
        try:
            self.runner.start(job)
        except (StoreError, PolicyError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever code of others raises
            # Neither the caller nor the policy is to blame: the job fails, as one that Flux cannot execute (RFC 21).
            note = f"the runner could not start it: {type(error).__name__}: {error}"
            if self._note_exception(job, states.EXEC, states.FATAL, note) is State.RUN:
                self._finish(job, NOT_STARTED)

    @locked
    def finish(self, job: AnyJob, status: int = 0) -> None:
        """A job has ended: its resources are free from now on, or when the jobs of its child have ended as well.

        Args:
            status: wait status; 0 is success.

        Errors: UnknownJob; UsageError for one that does not run, or has finished.
        """
        if self.is_closed:
            raise StaleHandle("this instance is closed")
        try:
            found = self._running(job)
        except FluxresError:
            self.enter()
            found = self._running(job)
        # Before all else that is due: a job that has ended need not be asked to stop, though its limit has passed.
        now = self.now = self._time.look()
        self._finish(found, status)
        self._advance_to(now)
        self._follow_up()

    def _finish(self, job: Job, status: int) -> None:
        job.status = status
        self._post(job, "finish", status=status)
        if job.child is None or self._end_child(job):
            self._clean(job)

    def _clean(self, job: Job) -> None:
        """Free what a job holds, and forget it once the sink has it."""
        now = self.now
        self.scheduling.request_round()
        if job.claim is not None:
            self.inventory.finish(job.number, job.claim, now)
            holding.unrecord(self, job)
            self.shared.has_returned = True
            self._at_limit.discard(job.number)
            self._overtime.discard(job.number)
            self._disputed.discard(job.number)
            self.queue.changed = True
            if self._log:
                self._log_event(job, "release", ranks="all", final=True)
                self._log_event(job, "free")
        job.ended = now
        self._post(job, "clean")
        del self._jobs[job.number]
        succeeded = job.status == 0 and not any(failure.severity == states.FATAL for failure in job.exceptions)
        ready, never = self.dependencies.ended(job, succeeded, job.started >= 0)
        self._put_away(job)
        for other in ready:
            self._depend(other)
        for other, dependency in never:
            if other.state is State.DEPEND:
                self._raise(other, "dependency", states.FATAL, f"{dependency} can never be")
        if self.is_ending and not self._jobs:
            self._end()
        with Guard(self.policy):
            self.policy.finished(job, seconds(now))
        self.shared.note_return()

    def _put_away(self, job: Job) -> None:
        if self._sink is not None:
            self._sink(job)
            return
        self._finished[job.number] = job
        if len(self._finished) > limits.FINISHED_KEPT:
            del self._finished[next(iter(self._finished))]

    # -- exceptions and changes of jobs ------------------------------------------------------------------------------

    @locked
    def cancel(self, job: AnyJob, note: str = "") -> None:
        """Cancel a job, pending or running, and everything that runs in its child.

        Errors: UnknownJob; UsageError for one that has ended.
        """
        self.exception(job, "cancel", note=note)

    @locked
    def exception(self, job: AnyJob, kind: str, severity: int = 0, note: str = "") -> None:
        """Raise an exception on a job (RFC 21); severity 0 ends it.

        Errors: UnknownJob; UsageError for one that has ended, and for a severity outside 0 to 7.
        """
        self.enter()
        found = self._active(job)
        if not 0 <= severity <= 7:
            raise UsageError(f"severity: expected 0 (fatal) to 7, got {severity!r:.80}")
        self._raise(found, kind, severity, note)
        self._follow_up()

    def _raise(self, job: Job, kind: str, severity: int, note: str) -> None:
        """Raise an exception on a job; a fatal one cancels it, or asks its runner to stop it."""
        before = self._note_exception(job, kind, severity, note)
        if severity != states.FATAL or before not in states.ACTIVE or before is State.CLEANUP:
            return
        if before is State.RUN:
            if job.child is not None:
                job.child.shut("the job that holds its resources shall end")
                if job.state is State.INACTIVE:  # that closed its child, and the job has ended with it
                    return
            try:
                self.runner.stop(job, kind)
            except (StoreError, PolicyError):
                raise
            except Exception as error:  # noqa: BLE001  # it may run on: it has its resources until `finish` (rule T1)
                self._raise(job, states.EXEC, states.WARNING, f"the runner could not stop it: {type(error).__name__}: {error}")
            return
        if before is State.SCHED and job.urgency != URGENCY_HELD:
            self.inventory.unreserve(job.number)
            self.queue.leave(job)
            self.queue.changed = True
        self._clean(job)

    def _note_exception(self, job: Job, kind: str, severity: int, note: str) -> State:
        """Log an exception; a fatal one moves the job.  Returns the state in which it found the job."""
        job.exceptions = (*job.exceptions, Failure(kind, severity, note))
        if self._log:
            self._log_event(job, "exception", type=kind, severity=severity, note=note)
        before = job.state
        if severity == states.FATAL:
            job.state = states.after(before, "exception")
        return before

    @locked
    def set_urgency(self, job: AnyJob, urgency: int) -> None:
        """Give a pending job another urgency, and so another place in the queue.

        Errors: UnknownJob; UsageError for one that runs or has ended.
        """
        self.enter()
        found = self._pending(job)
        was_held = found.urgency == URGENCY_HELD
        found.urgency = require_urgency(urgency)
        self._update(found, "urgency", was_held=was_held, urgency=urgency, userid=found.user)
        self._follow_up()

    @locked
    def set_duration(self, job: AnyJob, duration_s: float | None) -> None:
        """Give a job another limit; None for none. That of a running job counts from its start.

        Errors: UnknownJob; UsageError for one that has ended, has a child that needs longer, or would have ended already;
        InsufficientResources where others hold then what it has.
        """
        now = self.enter()
        found = self._active(job)
        duration = FOREVER if duration_s is None else ticks(duration_s, "duration_s")
        if duration < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {duration_s!r:.80}")
        if found.state is State.RUN:
            self._set_limit(found, min(found.started + duration, FOREVER), now)
        elif found.state is State.CLEANUP:
            raise UsageError(f"job {found.id} is about to end")
        found.duration = duration
        was_held = found.urgency == URGENCY_HELD
        self._update(found, "jobspec-update", was_held=was_held, **{"attributes.system.duration": duration_s})
        self._follow_up()

    def _set_limit(self, job: Job, end: int, now: int) -> None:
        if end <= now:
            raise UsageError(f"it would have ended at {seconds(end)}", where=f"job {job.id}", hint="cancel it, or give it longer")
        try:
            holding.move_limit(self, job, end)
        except InsufficientResources:
            self._follow_up()
            raise
        if job.child is not None and not job.child.is_ending:
            job.child._expire_at(min(end, job.child.expires_given))

    def _update(self, job: Job, event: str, *, was_held: bool, **context: Any) -> None:
        """Log a change of a job; one that is scheduled gets its priority and its place in the queue anew (RFC 21)."""
        is_scheduled = job.state is State.SCHED
        if is_scheduled:
            job.state = states.after(job.state, event)
            self.inventory.unreserve(job.number)
            self.queue.drop(job)
            if not was_held:
                self.queue.sort()
        if self._log:
            self._log_event(job, event, **context)
        if is_scheduled:
            self._prioritize(job)

    @locked
    def add_dependency(self, job: AnyJob, dependency: Dependency | str | Mapping[str, Any]) -> None:
        """Let a pending job wait for something more.

        Errors: UnknownJob; UsageError for a cycle, and for a job that runs or has ended.
        """
        now = self.enter()
        found = self._pending(job)
        wanted = deps.parse(dependency)
        verdict = self.dependencies.add(found, wanted, self._jobs, now)
        found.dependencies = (*found.dependencies, wanted)
        if self._log:
            self._log_event(found, "dependency-add", description=str(wanted))
        if verdict is Verdict.NEVER:
            self._raise(found, "dependency", states.FATAL, f"{wanted} can never be")
        elif verdict is Verdict.OPEN and found.state is State.SCHED:
            self.inventory.unreserve(found.number)
            found.state = State.DEPEND  # RFC 21 has dependencies before scheduling only
            self.queue.drop(found)
            self.queue.sort()
        if verdict is Verdict.OPEN and wanted.scheme == deps.BEGIN:
            self._wake(wanted.value, found)
        self._follow_up()

    # -- time --------------------------------------------------------------------------------------------------------

    @locked
    def advance(self) -> None:
        """Do everything that is due by now, here and in the children: limits, begin times, reservations, expiry; then a pass.

        With a clock that runs by itself, call this at `next_due`, or every second.
        """
        if self.is_closed:
            raise StaleHandle("this instance is closed")
        now = self._time.look()
        if not self._time.still:
            self._catch_up(now + 1)
        for one in reversed(list(self.walk())):
            if not one.is_closed:
                one._advance_to(now)
                if one.passes == "event":
                    self._time.owe(one)
        self._make_owed_passes()

    @locked
    def next_due(self) -> float | None:
        """When `advance` has something to do next, in seconds; None for never."""
        if self.is_closed:
            return None
        near = (*self._instances_above(), *self.walk())
        if self._time.is_behind or any(one.has_unseen_changes for one in near):
            return seconds(self._time.look())  # others have changed something, or a policy went wrong
        moment = self._next_tick()
        return None if moment >= FOREVER else seconds(moment)

    def _next_tick(self) -> int:
        """When something is due, here or below."""
        return min(due.wakes(self), *(child._next_tick() for child in self._children.values()), FOREVER)

    @locked
    def schedule(self, limit: int | None = None) -> int:
        """One pass of the policy.

        Args:
            limit: start at most this number of jobs.

        Returns: the number of jobs started.
        """
        self.enter()
        self._make_owed_passes()
        started = self.scheduling.run(-1 if limit is None else limit)
        self._make_owed_passes()
        return started

    def enter(self) -> int:
        """Do what was due before now in the whole tree; every call begins with it.

        Returns: now, in ticks. Errors: StaleHandle where the instance is closed, or closes by that.
        """
        if not self.is_closed:
            self._advance_to(self._time.look())
        if self.is_closed:
            raise StaleHandle("this instance is closed")
        return self.now

    @property
    def has_unseen_changes(self) -> bool:
        """Whether others have changed something in the graph since this instance last looked."""
        return self._graph.revision != self.inventory.revision

    def _advance_to(self, now: int) -> None:
        """Do what was due before now in the whole tree, and bring the inventory to now."""
        time = self._time
        if self.parent is not None and not time.still:
            self.parent._see_changes(now)
        self.shared.announce_late(now)
        self._advance_inventory(now)
        if time.is_moving:
            return
        self.shared.settle_moment()
        if not time.passes_open:
            self.shared.reclaim()

    def _see_changes(self, now: int) -> None:
        """See what others have changed in this graph and those above it, before a call of an instance below goes on."""
        if self.parent is not None:
            self.parent._see_changes(now)
        if self.has_unseen_changes and not self.is_closed:
            self._advance_to(now)

    def _advance_inventory(self, now: int) -> None:
        time, inventory = self._time, self.inventory
        ends = inventory.running.ends
        self.now = now
        if self._lapsed_at < now:
            due.require_ended(self)
        if time.next < now or self._graph.revision != inventory.revision or (ends and ends[0] < now):
            if not time.still:
                self._catch_up(now)
                self.now, inventory = now, self.inventory
                ends = inventory.running.ends
            elif time.is_moving or (ends and ends[0] < now):
                return  # limits have passed and are not handled yet: to the inventory they would be ends
        if ends and ends[0] <= now and (self._overtime or self._children or not self.keeps_limits):
            due.hold_through(self)
        lapsed = inventory.advance(now)
        if lapsed:
            self.queue.elapsed = True
            self.shared.has_returned = True
            self._lapsed = lapsed if self._lapsed_at != now else self._lapsed + lapsed
            self._lapsed_at = now

    def _catch_up(self, before: int) -> None:
        """Do all that was due before a moment, and see what others have changed."""
        time = self._time
        if self.has_unseen_changes:
            foreign.look(self)
            if self.passes == "event":
                time.owe(self)
        self._announce(due.first(self))
        if time.next < before:
            time.catch_up(before)

    def _announce(self, moment: int) -> None:
        """Something will be due at a moment."""
        if moment < self._announced:
            self._announced = moment
            self._time.announce(moment, self)

    def _follow_up(self) -> None:
        """Make the passes that follow a change, here and in other instances."""
        time, shared = self._time, self.shared
        if not time.still:
            shared.reclaim()
        is_shared = shared.has_suppliers or self.parent is not None
        if is_shared:
            shared.offer()
        if time.is_behind and not time.still and self.passes == "event":
            time.owe(self)
        else:
            self.scheduling.react()
        if is_shared or time.is_behind:
            self._make_owed_passes()

    def _make_owed_passes(self) -> None:
        """Make the passes that are owed, unless that is being done already."""
        time = self._time
        if not time.still and (self.shared.offer() or time.is_behind):
            time.catch_up(time.now)

    def make_owed_pass(self) -> None:
        """Make the pass that could not be made while what was due was done; called by the Timekeeper."""
        self.shared.reclaim()
        if not self.is_closed:
            self._advance_to(self._time.now)
            self.scheduling.run()

    # -- the machine -------------------------------------------------------------------------------------------------

    @property
    @locked
    def graph(self) -> ResourceGraph:
        """The resource graph, with what every running job holds; what is due is done first."""
        if not self.is_closed:
            self._advance_to(self._time.look())
        holding.record_jobs(self)
        return self._graph

    @locked
    def set_state(self, where: Targets, state: str) -> None:
        """Give pools a state (RFC 4), here and in the children that have them.

        Work that runs there goes on, except where they are down: those jobs have failed. A job with a child goes on, and
        the child's own jobs have failed.

        Errors: UsageError for a pool to be used again that is out of service in the parent; nothing has changed then.
        """
        self.enter()
        down.require_in_service_above(self, where, state)
        down.set_state(self, where, state)
        self._follow_up()

    def drain(self, where: Targets) -> None:
        """Start no more work on pools; what runs there goes on."""
        self.set_state(where, "drain")

    def down(self, where: Targets) -> None:
        """Pools have failed, and so has what runs on them."""
        self.set_state(where, "down")

    def up(self, where: Targets) -> None:
        """Pools can be used again."""
        self.set_state(where, "up")

    @locked
    def measure_in(self, type_name: str | None) -> None:
        """Measure the size of jobs in units of a type; by default in cores, or in what the inventory hands out."""
        self._measure = type_name
        self.inventory.measure_in(type_name)

    @locked
    def check(self) -> list[Problem]:
        """Audit this instance and its children; empty when the rules hold (rule N1, and those of their graphs)."""
        return audit.check(self)

    # -- the tree ----------------------------------------------------------------------------------------------------

    @property
    @locked
    def children(self) -> list[Instance]:
        """The instances that have a part of this one."""
        return list(self._children.values())

    @property
    def depth(self) -> int:
        """The number of instances above this one."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def outermost(self) -> Instance:
        """The instance of the tree that has no parent."""
        return self.shared.outermost

    def _instances_above(self) -> Iterator[Instance]:
        """The instances above this one, nearest first."""
        found = self.parent
        while found is not None:
            yield found
            found = found.parent

    @property
    def address(self) -> str:
        """The name of the outermost instance, and the jobs that lead here: ``tioga/ƒA/ƒB``."""
        if self.parent is None or self.job_in_parent is None:
            return self.name
        return f"{self.parent.address}/{self.job_in_parent.id}"

    def walk(self) -> Iterator[Instance]:
        """This instance and all below it, depth first."""
        todo = [self]
        while todo:
            found = todo.pop()
            yield found
            todo += reversed(found.children)

    @locked
    def tree(self) -> list[Branch]:
        """This instance and all below it as values, depth first; `show` draws them."""
        return branches(self)

    @locked
    def show(self) -> str:
        """The tree of instances as text."""
        return "\n".join(lines(self))

    @locked
    def find(self, address: str) -> Instance:
        """The instance of an address, which may be complete or relative to this instance.

        Errors: UnknownJob with the part that does not exist.
        """
        found = self
        words = [word for word in address.split("/") if word]
        own = self.address.split("/")
        if words[: len(own)] == own:
            words = words[len(own) :]
        for word in words:
            child = found.job(word).child
            if child is None:
                raise UnknownJob(f"job {word} has no instance", where=found.address)
            found = child
        return found

    # -- children ----------------------------------------------------------------------------------------------------

    @locked
    def spawn(
        self,
        job: AnyJob,
        *,
        queue_policy: str | QueuePolicy | None = None,
        match_policy: str | None = None,
        name: str | None = None,
        inventory: str | None = None,
        runner: Runner | None = None,
        sink: Callable[[Job], None] | None = None,
        events: Callable[[Job, Event], None] | bool | None = None,
        passes: str | None = None,
    ) -> Instance:
        """An instance on what a running job holds (RFC 4 Copy); it ends with the job, and the job with it.

        Args: as for Instance; by default as here. The child uses the clock of this instance.

        Cost: a copy of the part. Errors: UnknownJob; UsageError for a job that does not run or has a child already.
        """
        now = self.enter()
        found = self._active(job)
        if found.state is not State.RUN:
            raise UsageError(f"job {found.id} does not run, it is {found.state.name}", where=self.address)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child already", where=self.address, hint=f"find('{found.id}') gives it")
        if self.depth + 1 >= limits.INSTANCE_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.INSTANCE_DEPTH_MAX} levels of instances", where=self.address)
        holding.record_job(self, found)
        graph = joining.copy_job(self._graph, fluid.encode(found.number), now, linked=True)
        graph.lock = self.lock  # a change in one instance may be one in all above it
        upstream = graph.records.upstream = ParentSupply(self, found, graph)
        upstream.refresh()
        child = type(self)(
            graph,
            queue_policy=queue_policy if queue_policy is not None else self._own_policy(),
            match_policy=match_policy if match_policy is not None else self.match_policy,
            clock=self.clock,
            name=name if name is not None else str(found.id),
            inventory=inventory if inventory is not None else self.inventory_kind,
            runner=runner if runner is not None else self.runner,
            sink=sink if sink is not None else self._sink,
            events=events if events is not None else self._events,
            passes=passes if passes is not None else self.passes,
        )
        child.measure_in(self._measure)
        if (linked := graph.structure.accounts.linked) is not None and linked.any():
            self.shared.has_suppliers = True
        upstream.on_change = child._note_elsewhere
        is_first = not self._children
        found.child = self._children[found.number] = child
        child._join(self, found)
        if is_first:
            down.note(self)
        return child

    def _join(self, parent: Instance, job: Job) -> None:
        """Become the child of an instance, on what one of its jobs holds."""
        self.parent, self.job_in_parent = parent, job
        self._time, self.shared = parent._time, parent.shared
        self.now = self._ids.epoch = self._time.now
        self._expire_at(job.limit)

    def _own_policy(self) -> str | QueuePolicy:
        given = self._queue_policy
        if isinstance(given, str):
            return given
        made = type(given)
        try:
            return made()
        except TypeError:
            message = f"a child needs a policy of its own, and {given.name} cannot be made without arguments"
            raise UsageError(message, hint="give queue_policy") from None

    @property
    def upstream(self) -> ParentSupply | None:
        """What this instance draws from suppliers of its parent; None for an outermost one."""
        found = self._graph.records.upstream
        return found if isinstance(found, ParentSupply) else None

    @locked
    def grow(self, wanted: Targets | Wanted) -> list[str]:
        """Ask the parent for more; it becomes part of this instance (RFC 4 Merge).

        Args:
            wanted: a request, or pools of the parent by path.

        Returns: paths of what was added. Errors: UsageError without a parent; InsufficientResources; nothing changes then.
        """
        parent, job = self._require_parent()
        self.enter()
        self._require_going_on()
        parent._advance_to(self.now)
        parts.graph_of(parent)
        self._make_owed_passes()  # what is promised in the parent is reserved before anything is taken
        if self.is_closed:
            raise StaleHandle("this instance is closed")
        self._require_going_on()
        try:
            return parts.grow(parent, job, self, wanted)
        finally:
            self._follow_up()

    @locked
    def shrink(self, wanted: Targets) -> list[str]:
        """Give pools back to the parent (RFC 4 Unlink), which may allocate them at once.

        Args:
            wanted: pools without jobs, all units of each, by path or handle.

        Errors: UsageError without a parent or for units of a pool; NotHeld for pools that only lead to others; StillHeld;
        nothing changes then.
        """
        parent, job = self._require_parent()
        self.enter()
        parent._advance_to(self.now)
        try:
            given = parts.shrink(parent, job, self, wanted)
            parent.supplies_back()
            for one in (parent, self):
                if one.passes == "event":
                    self._time.owe(one)
            return given
        finally:
            self._follow_up()  # makes reservations again that were dropped

    def _require_parent(self) -> tuple[Instance, Job]:
        if self.parent is None or self.job_in_parent is None:
            raise UsageError("there is no parent to ask", where=self.address)
        return self.parent, self.job_in_parent

    def _require_going_on(self) -> None:
        if self.is_ending:
            raise StaleHandle("this instance is ending", where=self.address)

    def supply_changed(self) -> None:
        """More may be free than before: the next pass looks again."""
        if isinstance(self.inventory, GraphInventory):
            self.inventory.forget_failures()
        self.queue.changed = True

    def supplies_back(self) -> None:
        """Something may have been given back that other instances can use: all of them get a pass."""
        self.queue.changed = True
        self.shared.note_return()

    def _note_elsewhere(self) -> None:
        """The graph now shows what other instances draw; that is not a change by others that `foreign.look` would have to see."""
        if self.inventory.revision == self._graph.revision - 1:
            self.inventory.revision = self._graph.revision
        self.supply_changed()

    # -- the end of an instance --------------------------------------------------------------------------------------

    @locked
    def close(self, status: int = 0) -> None:
        """End this instance, and its job with `status`: its jobs are canceled, its children closed.

        It is closed when the last of its jobs has ended (at once, unless their runner needs time to stop them), and everything
        it had is back with its parent (rule T1).  Closing a closed instance does nothing.
        """
        if not self.is_closed:
            self._advance_to(self._time.look())
        self.shut("the instance is closed")
        parent, job = self.parent, self.job_in_parent
        if parent is not None and job is not None and job.state in states.RUNNING and not self._is_left:
            parent._advance_to(parent._time.now)
            parent._finish(job, status)
            parent._follow_up()

    @locked
    def fail(self, note: str = "") -> None:
        """End this instance as a failure, also of its job in the parent."""
        parent, job = self._require_parent()
        self.enter()
        self.shut(note or "the instance failed")
        parent._raise_from_child(job, states.EXEC, note)

    @locked
    def shut(self, why: str, kind: str = "cancel") -> None:
        """End all jobs here and below, but not the job in the parent.  The instance closes when the last of them has ended.

        Args:
            kind: of the exception that ends them.
        """
        if self.is_closed or self.is_ending:
            return
        self.now = self._time.now
        self.is_ending, self.policy, self.expires = True, _Ended(), FOREVER
        for job in list(self._jobs.values()):
            if job.number in self._jobs and job.state is not State.CLEANUP:
                self._raise(job, kind, states.FATAL, why)
        if not self._jobs:
            self._end()

    def _end(self) -> None:
        """Close the instance: no job runs here any more."""
        if self.is_closed:
            return
        self.is_closed = True
        self._ids.release()
        if (upstream := self.upstream) is not None:
            upstream.close()
        if self.parent is not None and self.job_in_parent is not None:
            self.parent._child_closed(self.job_in_parent, has_finished=self._is_left)

    def _child_closed(self, job: Job, *, has_finished: bool) -> None:
        del self._children[job.number]
        if has_finished:
            self.now = self._time.now
            self._clean(job)
            if self._time.still:
                self._follow_up()
            elif self.passes == "event":
                self._time.owe(self)  # what is due here may not have been done yet

    def _end_child(self, job: Job) -> bool:
        """End the child of a job that has finished; whether it was closed already, and the job is still to be cleaned up."""
        child = job.child
        if child is None or child.is_closed:
            return True
        child._is_left = True  # a runner that is asked to stop jobs there may close it, or finish this job once more
        child.shut("the job that held its resources has ended")
        return False  # the child calls `_child_closed`, and may have

    def _raise_from_child(self, job: Job, kind: str, note: str) -> None:
        """End a running job by an exception; the caller has advanced time."""
        if job.state is State.RUN:
            self._advance_to(self._time.now)
            self._raise(job, kind, states.FATAL, note)
            self._follow_up()

    @locked
    def set_expiration(self, at_s: float | None) -> None:
        """When this instance ends by itself, with exception timelimit on its jobs; None for when its job does.

        Errors: UsageError for a moment after the limit of its job.
        """
        moment = FOREVER if at_s is None else ticks(at_s, "expiration")
        self.enter()
        self._require_going_on()
        most = FOREVER if self.job_in_parent is None else self.job_in_parent.limit
        if at_s is not None and moment > most:
            raise UsageError(f"its job in the parent ends at {seconds(most)}", where=self.address, hint="give that longer first")
        self.expires_given = moment
        self._expire_at(min(moment, most))
        self._advance_to(self._time.look())

    @property
    @locked
    def expires_at(self) -> float | None:
        """When this instance ends by itself, in seconds; None for never."""
        return None if self.expires >= FOREVER else seconds(self.expires)

    def _expire_at(self, moment: int) -> None:
        if self.expires <= self.now < moment and self.passes == "event":
            self._time.owe(self)  # no job was started at the moment at which it was to expire
        self.expires = moment
        self._announce(moment)

    def expire(self) -> None:
        """The time of this instance is over: its jobs end, and its job in the parent with it."""
        self.shut("the instance expires", "timelimit")
        if self.parent is not None and self.job_in_parent is not None:
            self.parent._raise_from_child(self.job_in_parent, "timelimit", "the instance expires")


class _Ended(QueuePolicy):
    """The policy of an instance that ends: it is not asked any more."""

    name = "over"


def _keep_event(job: Job, event: Event) -> None:
    if job.events is None:
        job.events = []
    job.events.append(event)


def _number(job: object) -> int:
    if isinstance(job, str):
        try:
            return fluid.decode(job)
        except InputError as error:
            raise UnknownJob(error.message, hint=error.hint) from None
    if isinstance(job, int) and not isinstance(job, bool):
        return int(job)
    raise UsageError(f"a job is named by its id, not by {job!r:.80}")
