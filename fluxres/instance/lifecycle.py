"""The life of the jobs of one instance (Flux RFC 21).

Everything that happens comes in as a call and is done when the call returns; what it makes possible, the next pass starts.
Who is inactive is handed to the sink and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappush
from typing import TYPE_CHECKING, Any, cast

from fluxres import limits
from fluxres.clock import FOREVER, Clock, seconds, ticks
from fluxres.errors import FluxresError, PolicyError, StaleHandle, StoreError, UsageError
from fluxres.instance import dependencies as deps
from fluxres.instance import due, foreign, generators, states, urgency
from fluxres.instance.choice import make_inventory
from fluxres.instance.dependencies import Dependencies, Dependency, Verdict
from fluxres.instance.inventory import Ask, Inventory, NotSimple
from fluxres.instance.job import Event, Failure, Job, JobId
from fluxres.instance.passes import Guard, Passes
from fluxres.instance.policy import QueuePolicy, policy
from fluxres.instance.queue import Queue
from fluxres.instance.runner import NOT_STARTED, Runner, Unattended
from fluxres.instance.states import State
from fluxres.instance.timekeeper import Timekeeper
from fluxres.match.policy import policy as require_match_policy
from fluxres.model.resource_graph import locked
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request, Wanted, as_request

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.model import ResourceGraph

_SEQUENCES = 1 << 10
_MOMENTS = 1 << 40
"""Milliseconds that an id of 64 bits has room for, beside its sequence number."""


class Lifecycle(Passes):
    """Jobs, their states and the passes; :class:`~fluxres.instance.instance.Instance` is the face, and the only subclass."""

    def __init__(
        self,
        graph: ResourceGraph,
        *,
        queue_policy: str | QueuePolicy,
        match_policy: str,
        clock: Clock | None,
        inventory: str,
        runner: Runner | None,
        sink: Callable[[Job], None] | None,
        events: Callable[[Job, Event], None] | bool,
        passes: str,
    ) -> None:
        if passes not in ("event", "manual"):
            raise UsageError(f"passes: expected event or manual, got {passes!r:.80}")
        self._graph = graph
        #: That of the graph, and of the whole tree of instances: threads may share them.
        self.lock = graph.lock
        if clock is not None:
            graph.clock = clock
        self.clock = graph.clock
        self._time = Timekeeper(self.clock)
        self.now = self.epoch = self._time.now
        self.policy = policy(queue_policy)
        self._policy_given = queue_policy
        require_match_policy(match_policy)
        self.match_policy = match_policy
        self.inventory: Inventory = make_inventory(inventory, graph, match_policy)
        self._measure: str | None = None
        self.runner: Runner = runner if runner is not None else Unattended()
        self.keeps_limits: bool = getattr(self.runner, "keeps_limits", False)
        self.queue = Queue(self)
        self.dependencies = Dependencies()
        self.passes = passes
        self.is_closed = self.is_ending = False
        """Whether it is over; whether it shall be, and only waits for jobs that have been asked to stop."""
        self._sink = sink
        self._events = events
        self._finished: dict[int, Job] = {}
        self._log: Callable[[Job, Event], None] | None = events if callable(events) else _keep if events else None
        self._jobs: dict[int, Job] = {}
        self.foreign: frozenset[str] = frozenset()
        """Jobs of others that hold something of the graph; none of ours is called so."""
        self._foreign_ends: list[int] = []
        """When others give something back, latest first."""
        self._timers: list[tuple[int, int]] = []
        """Moments that jobs wait for, by number."""
        self._announced = FOREVER
        self._lapsed: list[int] = []
        self._lapsed_at = FOREVER
        """Jobs whose runner keeps limits, and whose limit was at that moment: none of them runs after it."""
        self._at_limit: set[int] = set()
        """Jobs whose limit is now, and what they have is kept for them."""
        self._overtime: set[int] = set()
        """Jobs that have not ended by their limit."""
        self._disputed: set[int] = set()
        """Jobs that have something which others hold in the graph, or will before its limit."""
        self._recorded: set[int] = set()
        self._last_id = (-1, 0)
        self._generator = generators.take(self, graph)
        self._recalculated = self.now
        if graph.records.jobs() or graph.records.stages:
            foreign.look(self)

    @property
    def _face(self) -> Instance:
        return cast("Instance", self)

    @locked
    def measure_in(self, type_name: str | None) -> None:
        """Measure the size of jobs in units of a type; by default in cores, or in what the inventory hands out."""
        self._measure = type_name
        self.inventory.measure_in(type_name)

    @property
    def is_active(self) -> bool:
        """Whether there are jobs that are not over."""
        return bool(self._jobs)

    # -- time --------------------------------------------------------------------------------------------------------

    def _enter(self) -> int:
        """Now, with all that was due before it done; at the beginning of everything.

        Errors: StaleHandle where the instance is closed, or closes by that.
        """
        if not self.is_closed:
            self._go_on(self._time.look())
        if self.is_closed:
            raise StaleHandle("this instance is closed")
        return self.now

    def _require_open(self) -> None:
        if self.is_closed:
            raise StaleHandle("this instance is closed")

    def _pass_time(self) -> None:
        """Let time go on to now."""
        self._go_on(self._time.look())

    def _go_on(self, now: int) -> None:
        """Do all that was due before now in the whole tree, and bring the inventory to now."""
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
        if ends and ends[0] <= now and (self._overtime or self._face._children or not self.keeps_limits):
            due.hold_through(self)
        lapsed = inventory.advance(now)
        if lapsed:
            self.queue.elapsed = True
            self._time.has_returned = True
            self._lapsed = lapsed if self._lapsed_at != now else self._lapsed + lapsed
            self._lapsed_at = now

    def _catch_up(self, before: int) -> None:
        """Do all that was due before a moment, and see what others have changed."""
        time = self._time
        if self._graph.revision != self.inventory.revision:
            foreign.look(self)
            if self.passes == "event":
                time.owe(self._face)
        self._announce(due.first(self))
        if time.next < before:
            time.catch_up(before)

    def _make_up(self) -> None:
        """Make the pass that could not be made while what was due was done."""
        if not self.is_closed:
            self._go_on(self._time.now)
            self._pass(-1)

    def _announce(self, moment: int) -> None:
        """Something will be due."""
        if moment < self._announced:
            self._announced = moment
            self._time.announce(moment, self)

    def _hold_on(self, job: Job, end: int) -> list[str]:
        """A job keeps what it has until an end; paths of what others hold of it."""
        taken = self.inventory.extend(job.number, job.claim, self.now, end)
        if job.number in self._recorded:
            taken = sorted({*taken, *self._record_more(job, job.limit + (job.number in self._at_limit), end)})
        self.queue.cleared()
        return taken

    def _mark_disputed(self, number: int) -> None:
        self._disputed.add(number)
        self._time.disputing[self] = None

    def _dispute(self, job: Job, taken: list[str]) -> None:
        """Note what others hold of what a job has; the first time the job gets an exception."""
        if not taken:
            self._disputed.discard(job.number)
            return
        self._mark_disputed(job.number)
        if not any(failure.type == "overlap" for failure in job.exceptions):
            more = f" and {len(taken) - 1} more" * (len(taken) > 1)
            self._except(job, "overlap", states.WARNING, f"it has not ended, and others hold {taken[0]}{more}")

    # -- coming ------------------------------------------------------------------------------------------------------

    @locked
    def submit(
        self,
        wanted: Wanted,
        *,
        duration_s: float | None = None,
        urgency: int = urgency.URGENCY_DEFAULT,
        name: str | None = None,
        user: str | None = None,
        dependencies: Iterable[Dependency | str | Mapping[str, Any]] = (),
        payload: Any = None,
    ) -> Job:
        """Hand in a job; it may have started when this returns.

        Args:
            wanted: a shape, short options, a jobspec or a Request.
            duration_s: its limit; by default that of the request, else none.
            urgency: 0 (held) to 31 (expedited).
            dependencies: ``afterok:ƒA`` and the like, beside those of the jobspec.
            payload: for the runner.

        Errors: InfeasibleRequest for what can never be had, UsageError, InputError; there is no job then.
        """
        now = self._enter()
        request = wanted if isinstance(wanted, Request) else as_request(wanted)
        length = request.duration_s if duration_s is None else duration_s
        duration = FOREVER if length is None else ticks(length, "duration_s")
        if duration < 1:
            raise UsageError(f"duration_s: expected a positive number of seconds, got {length!r:.80}")
        return self.enter_job(request, duration, now, urgency, name, user, dependencies, payload)

    def enter_job(
        self,
        request: Request,
        duration: int,
        now: int,
        urgent: int,
        name: str | None,
        user: str | None,
        wanted: Iterable[Dependency | str | Mapping[str, Any]],
        payload: Any,
    ) -> Job:
        """As `submit`, with what it makes of its arguments: ticks, a request."""
        if self.is_ending:
            raise StaleHandle("this instance is ending")
        ask = self._ask(request)
        given: Iterable[Dependency] = ()
        if wanted or request.attributes:
            given = [deps.parse(one) for one in (*wanted, *request.system.get("dependencies", ()))]
        job = Job(self._face, self._new_id(now), request, duration, now, urgency.require_urgency(urgent), name, user, payload)
        job.ask = ask
        job.dependencies = tuple(given)
        self._jobs[job.number] = job
        if self._log:
            self._tell(job, "submit", urgency=urgent, userid=user, flags=0, version=1)
            self._tell(job, "validate")
        job.state = State.DEPEND
        if name is not None:
            self.dependencies.enter(job)
        if not given or self._await(job, given, now):
            self._depend(job)
        self._after()
        return job

    def _ask(self, request: Request) -> Ask:
        if self.is_adaptive and not self._jobs and self.inventory.kind == "graph":
            self._adapt(request)
        try:
            return self.inventory.ask(request)
        except NotSimple:
            if self.inventory.kind == "graph" or not self.is_adaptive:
                raise UsageError(
                    "this request is not for a number of equal pools",
                    where=f"inventory {self.inventory.kind}",
                    hint="use inventory='graph' or 'auto'",
                ) from None
        self._adapt(request)
        return self.inventory.ask(request)

    is_adaptive = False
    expires = FOREVER
    """When the instance ends by itself, in ticks."""

    def _adapt(self, request: Request | None) -> None:
        raise NotImplementedError

    def _await(self, job: Job, given: Iterable[Dependency], now: int) -> bool:
        """Note what a job waits for; whether that is nothing."""
        never = None
        try:
            for dependency in given:
                verdict = self.dependencies.add(job, dependency, self._jobs, now)
                if verdict is Verdict.NEVER:
                    never = dependency
                elif verdict is Verdict.OPEN and dependency.scheme == deps.BEGIN:
                    self._wake(dependency.value, job)
                if self._log:
                    self._tell(job, "dependency-add", description=str(dependency))
        except FluxresError:
            self.dependencies.ended(job, False, False)
            del self._jobs[job.number]
            raise
        if never is not None:
            self._except(job, "dependency", states.FATAL, f"{never} can never be")
            return False
        return not self.dependencies.open(job)

    def _wake(self, moment: int, job: Job) -> None:
        """A job waits for a moment."""
        heappush(self._timers, (moment, job.number))
        self._announce(due.first(self))

    def _new_id(self, now: int) -> int:
        moment, sequence = (now - self.epoch) // 1000, 0
        last, used = self._last_id
        if moment <= last:
            moment, sequence = (last, used + 1) if used + 1 < _SEQUENCES else (last + 1, 0)
        if moment >= _MOMENTS:
            years = "the instance began over 34 years before, and ids of jobs (RFC 19) have no room for the time since"
            raise UsageError(f"clock: {years}", where=self._face.address, hint="make a new instance, or set the clock right")
        self._last_id = (moment, sequence)
        made: int = moment << 24 | self._generator << 10 | sequence
        return self._new_id(now) if self.foreign and fluid.encode(made) in self.foreign else made

    def _is_issued(self, name: str) -> bool:
        """Whether this may be the id of a job that was here."""
        try:
            number = fluid.decode(name)
        except FluxresError:
            return False
        parts = fluid.split(number)
        is_ours = fluid.encode(number) == name and parts.generator == self._generator
        return is_ours and (parts.timestamp_ms, parts.sequence) <= self._last_id

    def _depend(self, job: Job) -> None:
        """It waits for nothing more."""
        if self._log:
            self._tell(job, "depend")
        job.state = State.PRIORITY
        self._prioritise(job)

    def _prioritise(self, job: Job) -> None:
        fixed = urgency.bypass(job.urgency)
        job.priority = self._priority(job) if fixed is None else fixed
        if self._log:
            self._tell(job, "priority", priority=job.priority)
        job.state = State.SCHED
        if job.urgency != urgency.URGENCY_HELD:
            self.queue.add(job)
            self._again = True

    # -- starting ----------------------------------------------------------------------------------------------------

    def _alloc(self, job: Job, claim: Any, now: int, end: int) -> None:
        job.claim = claim
        job.state = State.RUN
        job.started = now
        job.limit = end
        self.queue.leave(job)
        if self._log:
            self._tell(job, "alloc")
        if len(self.dependencies):
            for other in self.dependencies.started(job):
                self._depend(other)
        if end < self._announced and not self.keeps_limits:
            self._announce(end)
        if self._log:
            self._tell(job, "start")
        try:
            self.runner.start(job)
        except (StoreError, PolicyError):
            raise
        except Exception as error:  # noqa: BLE001  # whatever code of others raises
            # Whoever called is not to blame, and neither is the policy: the job fails, as one that Flux cannot execute (RFC 21).
            fails, note = job.state is State.RUN, f"the runner could not start it: {type(error).__name__}: {error}"
            if fails:
                job.state = State.CLEANUP
            self._except(job, states.EXEC, states.FATAL, note)
            if fails:
                self._finish(job, NOT_STARTED)

    # -- ending ------------------------------------------------------------------------------------------------------

    @locked
    def finish(self, job: Job | JobId | int | str, status: int = 0) -> None:
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
            self._enter()
            found = self._running(job)
        # Before all else that is due: a job that has ended need not be asked to stop, though its limit has passed.
        now = self.now = self._time.look()
        self._finish(found, status)
        self._go_on(now)
        self._after()

    def _running(self, job: Job | JobId | int | str) -> Job:
        found = self._active(job)
        if found.state not in states.RUNNING:
            raise UsageError(f"job {found.id} does not run, it is {found.state.name}", hint="cancel it")
        if found.child is not None and found.child._is_left:
            raise UsageError(f"job {found.id} has finished", hint="jobs in its child have not ended yet")
        return found

    def _finish(self, job: Job, status: int) -> None:
        if job.state is State.RUN:
            job.state = State.CLEANUP
        job.status = status
        if self._log:
            self._tell(job, "finish", status=status)
        if job.child is None or self._end_child(job):
            self._clean(job)

    def _clean(self, job: Job) -> None:
        """Nothing of a job is left but what the sink writes down."""
        now = self.now
        self._again = True
        if job.claim is not None:
            self.inventory.finish(job.number, job.claim, now)
            self._unrecord(job)
            self._time.has_returned = True
            self._at_limit.discard(job.number)
            self._overtime.discard(job.number)
            self._disputed.discard(job.number)
            self.queue.changed = True
            if self._log:
                self._tell(job, "release", ranks="all", final=True)
                self._tell(job, "free")
        job.ended = now
        job.state = State.INACTIVE
        if self._log:
            self._tell(job, "clean")
        del self._jobs[job.number]
        succeeded = job.status == 0 and not any(failure.severity == 0 for failure in job.exceptions)
        ready, never = self.dependencies.ended(job, succeeded, job.started >= 0)
        self._put_away(job)
        for other in ready:
            self._depend(other)
        for other, dependency in never:
            if other.state is State.DEPEND:
                self._except(other, "dependency", states.FATAL, f"{dependency} can never be")
        if self.is_ending and not self._jobs:
            self._over()
        with Guard(self.policy):
            self.policy.finished(job, seconds(now))

    def _put_away(self, job: Job) -> None:
        if self._sink is not None:
            self._sink(job)
            return
        self._finished[job.number] = job
        if len(self._finished) > limits.FINISHED_KEPT:
            del self._finished[next(iter(self._finished))]

    def _except(self, job: Job, kind: str, severity: int, note: str) -> None:
        job.exceptions = (*job.exceptions, Failure(kind, severity, note))
        if self._log:
            self._tell(job, "exception", type=kind, severity=severity, note=note)
        if severity != states.FATAL or job.state not in states.ACTIVE or job.state is State.CLEANUP:
            return
        before, job.state = job.state, State.CLEANUP
        if before is State.RUN:
            if job.child is not None:
                job.child.shut("the job that holds its resources shall end")
                if job.state is State.INACTIVE:  # its child was closed by that, and the job has ended with it
                    return
            try:
                self.runner.stop(job, kind)
            except (StoreError, PolicyError):
                raise
            except Exception as error:  # noqa: BLE001  # it may run on: it has its resources until `finish` (rule T1)
                self._except(job, states.EXEC, states.WARNING, f"the runner could not stop it: {type(error).__name__}: {error}")
            return
        if before is State.SCHED and job.urgency != urgency.URGENCY_HELD:
            self.inventory.unreserve(job.number)
            self.queue.leave(job)
            self.queue.changed = True
        self._clean(job)

    def _active(self, job: Job | JobId | int | str) -> Job:
        raise NotImplementedError

    def _end_child(self, job: Job) -> bool:
        raise NotImplementedError

    def _over(self) -> None:
        raise NotImplementedError

    def _expire(self) -> None:
        raise NotImplementedError

    def _record_more(self, job: Job, start: int, end: int) -> list[str]:
        raise NotImplementedError

    def _unrecord(self, job: Job, start: int | None = None) -> None:
        raise NotImplementedError

    def _tell(self, job: Job, event: str, **context: Any) -> None:
        assert self._log is not None  # callers ask first: most runs have no listener
        self._log(job, Event(seconds(self.now), event, context))


def _keep(job: Job, event: Event) -> None:
    if job.events is None:
        job.events = []
    job.events.append(event)
