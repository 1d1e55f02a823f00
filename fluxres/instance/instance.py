"""A scheduler instance: the public face of its jobs, its children (rule N1), its time (rule T1) and its machine.

A call validates its arguments, handles the events that were due before it (`enter`), has one of the parts of the instance do its
work, and then has the passes of the queue policy made that follow, in this instance and in others of its tree.  The parts are in
other modules: `lifecycle` moves jobs from state to state, `queue` makes the passes, in which jobs start, `holding` maintains what
jobs hold, until and beyond their limits, `others` what others hold in the graph, `choice` the inventory, `due` has the events of
this instance and `timekeeper` the time of its tree, `lifetime` the end of the instance, `parts` grows and shrinks it, and
`upstream` is what a child draws from its parent.

A child begins with a copy of what one job of its parent holds (RFC 4 Copy) and is a scheduler like any other.  It may request
more from its parent (merge) and return what is free in it (unlink).  When it ends, for whatever reason, its jobs end with it and
the resources of its job return to the parent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar
from weakref import WeakMethod

from fluxres import limits
from fluxres.clock import FOREVER, Clock, Length, Time, length_ticks, seconds, ticks
from fluxres.documents import arguments
from fluxres.documents.document import listed, plural
from fluxres.documents.suggestion import choose_from
from fluxres.errors import (
    FluxresError,
    InfeasibleRequest,
    InputError,
    InsufficientResources,
    LimitExceeded,
    StillHeld,
    UnknownJob,
    UnknownType,
    UsageError,
)
from fluxres.graph.structure import Problem
from fluxres.instance import audit, parts, pool_states, states
from fluxres.instance import dependencies as deps
from fluxres.instance.admission import Admission
from fluxres.instance.charged import Charged
from fluxres.instance.choice import InventoryChoice, make_inventory
from fluxres.instance.dependencies import AnyDependency, Dependencies
from fluxres.instance.due import DueEvents
from fluxres.instance.holding import Holdings
from fluxres.instance.inventory import Inventory, default_measure
from fluxres.instance.job import (
    URGENCY_DEFAULT,
    AnyJob,
    Dependency,
    Job,
    JobEvent,
    JobIds,
    Limiter,
    require_urgency,
)
from fluxres.instance.ledger import Ledger
from fluxres.instance.lifecycle import Lifecycle, Resumed
from fluxres.instance.lifetime import Lifetime
from fluxres.instance.options import AnyQueuePolicy, InstanceOptions, Listener, Sink
from fluxres.instance.others import Others
from fluxres.instance.policy import policy as require_queue_policy
from fluxres.instance.queue import Queue, QueuePolicy
from fluxres.instance.runner import Runner, Unattended, wait_status
from fluxres.instance.sizes import SUCH_SIZES, SizePolicy, Sizes, of_limits
from fluxres.instance.sizes import parse as require_size_policy
from fluxres.instance.states import State
from fluxres.instance.timekeeper import Timekeeper
from fluxres.instance.tree import Branch, require_name
from fluxres.instance.upstream import ParentSupply
from fluxres.match.policy import policy as require_match_policy
from fluxres.model import joining, matching, targets
from fluxres.model.events import check_state
from fluxres.model.locking import locked
from fluxres.model.resource_graph import ResourceGraph, require_graph
from fluxres.model.targets import Targets
from fluxres.shown import Tabular
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request, Wanted, as_request, parse_shape
from fluxres.syntax.moment import to_the_second

if TYPE_CHECKING:
    from fluxres.instance.accounting import Accounting


Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def call(method: Callable[Concatenate[Instance, Given], Answer]) -> Callable[Concatenate[Instance, Given], Answer]:
    """Let a method hold the lock for changes; when the outermost one ends, it raises what listeners and sinks have raised.

    If it has an error of its own, theirs is added to that as a note, so that no later call raises it; an exit goes before errors.
    """

    @wraps(method)
    def within(self: Instance, /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self.write_lock:
            time = self.time
            time.calls += 1
            try:
                found = method(self, *args, **kwargs)
            except BaseException as error:
                if time.deferred.first is not None and time.calls == 1:
                    time.deferred.join(error, "before that")
                raise
            finally:
                time.calls -= 1
            if time.deferred.first is not None and not time.calls:
                raise time.deferred.take()
            return found

    return within


class Instance(Tabular):
    """A scheduler over one resource graph.

    Args:
        graph: a machine or part of one. With inventory "graph", every job is an allocation in it, under the id of the job.
        queue_policy: fcfs, easy, easy-count, easy-sjbf, hybrid, conservative, priority, fairshare, hyperqueue, jqm-poller,
            jqm-tours, canary, with parameters as in ``hybrid:depth=8``; the name of one of another package; a file and a class,
            ``policies.py:Class``; a QueuePolicy, or its class.
        match_policy: which pools to prefer.
        size_policy: which size a job gets that may have several: requested, greedy, earliest-finish, efficiency:0.5.
        clock: returns now in seconds; default: that of the graph, which does not advance unless the graph was given one.
        name: letters, digits and any of ``. _ -``, for its address; default: that of the graph.
        inventory: "graph" supports all requests; "auto" is much faster while requests are for interchangeable exclusive pools,
            and records jobs in `graph` only when that is used. specs/instances.md describes the others.
        runner: starts and stops jobs; default: none, and the caller reports their end with `finish`.
        sink: called with each finished job, which is then forgotten; default: the latest ones are kept.
        events: called with each job and event; default: events are kept with their job. False: no events, and the graph does
                not know the users and names of jobs, which is faster.
        passes: "event": a pass of the policy follows every change; "manual": only `schedule` makes one.
        accounting: partitions, QOS, accounts and users with limits: an `accounting.Accounting`, or a mapping as a file has it.

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

    parent: Instance | None = None
    job_in_parent: Job | None = None

    def __init__(  # noqa: PLR0913 - one option each
        self,
        graph: ResourceGraph,
        *,
        queue_policy: AnyQueuePolicy = "fcfs",
        match_policy: str = "first",
        size_policy: str | SizePolicy = "requested",
        clock: Clock | None = None,
        name: str | None = None,
        inventory: str = "graph",
        runner: Runner | None = None,
        sink: Sink | None = None,
        events: Listener | bool = True,
        passes: str = "event",
        accounting: Accounting | Mapping[str, Any] | None = None,
    ) -> None:
        require_graph(graph)
        if name is not None:
            require_name(name)
        if arguments.text(passes, "passes") not in ("event", "manual"):
            raise UsageError(f"passes: expected event or manual, got {passes!r:.80}")
        self._options = InstanceOptions(queue_policy, match_policy, size_policy, inventory, runner, sink, events, passes)
        self._options.require_calls()
        self._graph = graph
        self.name = name if name is not None else graph.name
        self.lock = graph.lock
        """The lock of the graph, and of all instances of the tree."""
        self.write_lock = graph.write_lock
        """The same, and that of the store that the graph at the top is attached to: even a question may let time pass."""
        if clock is not None:
            graph.clock = clock
        self.clock = graph.clock
        self.due = DueEvents(self)
        self.time = Timekeeper(self.clock, self.due)
        self.due.now = self.time.now
        policy = require_queue_policy(queue_policy)
        require_match_policy(match_policy)
        self.match_policy = match_policy
        self.size_policy = require_size_policy(size_policy)
        self.choice = InventoryChoice(self, is_adaptive=inventory == "auto")
        self.inventory: Inventory = make_inventory(inventory, graph, match_policy)
        self.runner: Runner = runner if runner is not None else Unattended()
        self.keeps_limits: bool = getattr(self.runner, "keeps_limits", False)
        self.passes = passes
        self.ledger = None if accounting is None else Ledger(accounting)
        """Counts for the limits of the accounting; None without."""
        self.choice.measure_in(self._unit(None))
        self.limiter: Limiter | None = self.ledger
        """The limits that may keep a waiting job from starting."""
        self.preemption = None if self.ledger is None else self.ledger.preempt_for(self)
        """Which jobs make room for the head of the queue; None without."""
        self.queue = Queue(self, policy)
        self.dependencies = Dependencies()
        self.admission = Admission(self)
        log = events if callable(events) else _keep_event if events else None
        self.lifecycle = Lifecycle(self, log, sink)
        self._children: dict[int, Instance] = {}
        """By number of the job that holds the child's resources."""
        self.holdings = Holdings(self, self.lifecycle.jobs, self._children)
        self.lifetime = Lifetime(self)
        self.others = Others(self)
        self.ids = JobIds(graph, self.due.now)
        if graph.records.jobs() or graph.records.stages:
            self.others.refresh()
        if log is not None:
            graph.facts_of_instance = WeakMethod(self.others.facts_of)

    def __repr__(self) -> str:
        return f"<Instance {self.address}: {self.policy.name}, {self.pending} pending, {self.running} running>"

    def __reduce__(self) -> NoReturn:
        hint = "pickle its graph, and make an instance of that where it is needed"
        raise UsageError("an instance cannot be pickled: its jobs run here", where=self.address, hint=hint)

    @property
    def policy(self) -> QueuePolicy:
        """The queue policy."""
        return self.queue.policy

    @property
    def queue_policy(self) -> str:
        """The queue policy as it was given by name."""
        given = self._options.queue_policy
        return given if isinstance(given, str) else self.policy.name

    @property
    def now(self) -> int:
        """In ticks; it does not change while due events are handled, nor during a pass."""
        return self.due.now

    # -- jobs by id --------------------------------------------------------------------------------------------------

    @call
    def job(self, job: AnyJob) -> Job:
        """A job by its id, in any form of RFC 19.

        Errors: UnknownJob if there is none, or if it ended too long ago.
        """
        if isinstance(job, Job):
            if job.instance is not self:
                raise UnknownJob(f"job {job.id} belongs to {job.instance.address}", where=self.address)
            return job
        number = _number(job)
        found = self.lifecycle.jobs.get(number) or self.lifecycle.finished.get(number)
        if found is None:
            raise UnknownJob(f"no job {job!s:.80}", where=self.address, hint=_IDS)
        return found

    def _active(self, job: AnyJob) -> Job:
        found = self.job(job)
        if found.state is State.INACTIVE:
            raise UsageError(f"job {found.id} has ended: {found.result}", where=self.address)
        return found

    def _pending(self, job: AnyJob) -> Job:
        found = self._active(job)
        if found.state not in states.PENDING:
            hint = "this can be changed only while it waits; the limit can be, and `cancel` ends the job"
            raise UsageError(f"job {found.id} is not pending, it is {found.state.name}", where=self.address, hint=hint)
        return found

    def _running(self, job: AnyJob) -> Job:
        found = self._active(job)
        if found.state not in states.RUNNING:
            raise UsageError(f"job {found.id} is not running, it is {found.state.name}", hint="cancel it")
        if (child := self._children.get(found.number)) is not None and child.lifetime.job_has_finished:
            raise UsageError(f"job {found.id} has finished", hint="jobs in its child have not ended yet")
        return found

    @call
    def jobs(self, *in_states: State | str | None) -> list[Job]:
        """The active jobs and the finished ones that are kept, in order of submission; optionally only those in some states.

        Args:
            in_states: states, or their names, also of virtual ones: pending, running, active; None for all.

        Errors: UsageError for an unknown state.
        """
        given = [one for one in in_states if one is not None]
        chosen = frozenset[State]().union(*({one} if isinstance(one, State) else states.named(one) for one in given))
        found = sorted((*self.lifecycle.finished.jobs, *self.lifecycle.jobs.values()), key=lambda job: job.number)
        return [job for job in found if job.state in chosen] if given else found

    @property
    @call
    def pending(self) -> int:
        """The number of jobs that have no resources yet."""
        return sum(job.state in states.PENDING for job in self.lifecycle.jobs.values())

    @property
    @call
    def running(self) -> int:
        """The number of jobs that hold resources."""
        return len(self.lifecycle.jobs) - self.pending

    @property
    def jobs_kept(self) -> int:
        """The number of jobs that `jobs` lists."""
        return len(self.lifecycle.jobs) + len(self.lifecycle.finished)

    @property
    def is_active(self) -> bool:
        """Whether there are jobs that have not ended."""
        return bool(self.lifecycle.jobs)

    # -- submission --------------------------------------------------------------------------------------------------

    @call
    def submit(  # noqa: PLR0913 - one option each
        self,
        wanted: Wanted,
        *,
        duration_s: Length | None = None,
        urgency: int = URGENCY_DEFAULT,
        name: str | None = None,
        user: str | None = None,
        dependencies: AnyDependency | Iterable[AnyDependency] = (),
        payload: Any = None,
        account: str | None = None,
        qos: str | None = None,
        partition: str | None = None,
        sizes: Mapping[int, Length | None] | None = None,
        is_malleable: bool = False,
    ) -> Job:
        """Submit a job; it may have started when this returns.

        Args:
            wanted: a shape, short options, a jobspec or a Request.
            duration_s: the limit of the job; default: that of the request, else that of its partition, else none.
            urgency: 0 (held) to 31 (expedited).
            name, user: printable characters; a name is needed by `singleton`.
            dependencies: ``afterok:ƒA`` and the like, besides those of the jobspec.
            payload: for the runner.
            account, qos: of the accounting, if the instance has one; it has defaults for them. Without accounting, they are
                only recorded.
            partition: the same as in the request; without accounting only a name. On a machine without partitions, those of the
                accounting only limit, in the request as well.
            sizes: of a moldable job: the counts that the outermost resource of the request may have, each with the limit of the
                job then. The request has the preferred one, or names the largest; the size policy chooses one of them when the
                job starts, `job.sizes.chosen`.
            is_malleable: whether `resize` may change its size while it runs.

        Errors: InfeasibleRequest if the machine can never satisfy the request, or its partition or the accounting never allows
        it; InsufficientResources while its partition accepts no jobs, or its user has submitted too many; UsageError, also for a
        dependency that can never be satisfied; InputError; no job is made then.
        """
        now = self.enter()
        _require_labels(name=name, user=user, account=account, qos=qos, partition=partition)
        arguments.flag(is_malleable, "is_malleable")
        request = wanted if isinstance(wanted, Request) else as_request(wanted)
        length = matching.length(self._graph, request) if duration_s is None else _duration(duration_s)
        charged = Charged(user, account, qos, partition if partition is not None else request.queue)
        if account is not None and self.ledger is not None:
            self.ledger.require_account(account)
        chosen = None
        if sizes is not None:
            limits_of = arguments.mapping(sizes, "sizes", "limits by size", SUCH_SIZES)
            chosen = of_limits(request, {size: _duration(each) for size, each in limits_of.items()}, is_malleable=is_malleable)
        waits_for = deps.listed(dependencies)
        if waits_for or request.attributes:
            self.admission.require_possible(request, waits_for)
        return self.submit_request(request, length, now, urgency, name, user, waits_for, payload, charged, sizes=chosen)

    def submit_request(  # noqa: PLR0913, PLR0917 - one value each, for callers with millions of jobs
        self,
        request: Request,
        duration: int,
        now: int,
        urgency: int,
        name: str | None,
        user: str | None,
        dependencies: Iterable[AnyDependency],
        payload: Any,
        charged: Charged | None = None,
        planned: int = FOREVER,
        sizes: Sizes | None = None,
    ) -> Job:
        """`submit` after `enter`, for callers that have a Request and a duration in ticks.

        Everything that may be refused is checked before there is a job.

        Args:
            charged: None for the user alone.
            sizes: those of a moldable job, with their requests and durations, which are then the only ones.
            planned: the length that policies plan with, in ticks; at most the duration. Only with a runner that keeps limits:
                another one is asked to stop the job when it is over.
        """
        if self.lifetime.is_ending:
            self.lifetime.require_not_ending()  # called only to refuse
        if self.queue.is_running:
            self.queue.count_submission()
        if charged is None and self.ledger is not None:
            charged = Charged(user)
        if sizes is not None:
            charged = self.admission.of_sizes(charged, sizes)
            request, duration, ask = sizes.chosen.request, sizes.chosen.duration, sizes.chosen.ask
        elif self.ledger is None and not self._graph.structure.partitions:
            ask = self.choice.ask(request)
        else:
            charged, request, duration, ask = self.admission.of_request(charged, request, duration)
        waits_for = self.admission.of_dependencies(request, dependencies, name) if dependencies or request.attributes else ()
        job = Job(self, self._new_id(now), request, duration, now, require_urgency(urgency), name, user, payload, charged)
        job.ask, job.sizes, job.planned = ask, sizes, min(planned, duration)
        job.dependencies = waits_for
        if self.queue.hooks:
            waiting = self.queue.take_in(job)
            if waiting is not job:
                return self._active(waiting)
        self.lifecycle.submit(job)
        self.due.follow_up()
        return job

    def _new_id(self, now: int) -> int:
        try:
            return self.ids.new(now, self.others.names)
        except UsageError as error:
            raise UsageError(error.message, where=self.address, hint=error.hint) from None

    # -- advance reservations ----------------------------------------------------------------------------------------

    @call
    def reserve(
        self,
        wanted: Wanted | None = None,
        *,
        start_s: Time,
        duration_s: Length,
        pools: Targets | None = None,
        name: str | None = None,
        user: str | None = None,
        payload: Any = None,
    ) -> Job:
        """Reserve resources ahead: a job that starts at a given time, on what no other job gets until its end.

        Other jobs use these resources before only if they end by their limit.  The job is in DEPEND until its start; then it runs
        like any other, and the runner starts it.  `cancel` gives the reservation up.

        Args:
            wanted: a request; or else
            pools: these pools with everything below them, in service or not.

        Errors: InsufficientResources if jobs hold too much at that time, or their limits allow them to, or if this instance ends
        before; UsageError for a start in the past; those of `submit`.
        """
        now = self.enter()
        _require_labels(name=name, user=user)
        start, length = ticks(start_s, "start_s", now), _duration(duration_s)
        if not now < start < FOREVER:
            message = f"expected a start after now, got {to_the_second(seconds(start))}"
            raise UsageError(message, where=self.address, hint=f"now is {to_the_second(seconds(now))}")
        self.lifetime.require_not_ending()
        if (wanted is None) == (pools is None):
            got = "neither" if wanted is None else "both"
            raise UsageError(f"expected a request or pools, got {got}", where=self.address)
        one = Request(parse_shape(f"slot=1/{self.choice.measure or 'node'}")) if wanted is None else as_request(wanted)
        one = self.admission.on_machine(one)
        if pools is None:
            ask = self.choice.ask(one)
        elif self.choice.is_adaptive and not self.lifecycle.jobs and self.choice.measure is not None:
            self.choice.adapt(one)
        job = Job(self, self._new_id(now), one, length, now, URGENCY_DEFAULT, name, user, payload)
        job.is_booking = True
        end = min(start + length, FOREVER)
        self.lifetime.require_open_until(end)
        vertices = [] if pools is None else targets.pools(self._graph, pools, "no tags")
        self.queue.unreserve()
        self.others.coming = job
        try:
            if pools is None:
                job.ask = ask
                self.inventory.reserve_ahead(job.number, ask, start, end, now)
            else:
                self.choice.reserve_pools(job.number, vertices, start, end)
        except FluxresError:
            self.queue.reservations_dropped()
            self.due.follow_up()
            raise
        finally:
            self.others.coming = None
        self.queue.reservations_dropped()
        self.lifecycle.submit_ahead(job, start)
        self.due.follow_up()
        return job

    @call
    def can_hold(self, wanted: Wanted) -> bool:
        """Whether the machine of this instance can ever satisfy a request; False if that stays undecided.

        Errors: InputError, UsageError for what is no request.
        """
        request = as_request(wanted)
        try:
            self.choice.ask(self.admission.on_machine(request))
        except (InfeasibleRequest, LimitExceeded):
            return False
        except UsageError:
            if self.choice.is_adaptive:
                raise
            return False  # its inventory has no such pools, and it has no other
        return True

    @call
    def has_room(self, wanted: Wanted) -> bool:
        """Whether there is room for a request now, regardless of jobs that wait and of reservations for later.

        Errors: InputError, UsageError for what is no request.
        """
        self.enter()
        request = as_request(wanted)
        if not self.can_hold(request):
            return False
        return self.inventory.has_room(self.choice.ask(self.admission.on_machine(request)), self.due.now)

    # -- running jobs ------------------------------------------------------------------------------------------------

    @call
    def finish(self, job: AnyJob, status: int = 0) -> None:
        """Report the end of a job: its resources are free from now on, or when the jobs in its child have ended too.

        Args:
            status: wait status; 0 is success.

        Errors: UnknownJob; UsageError for a job that is not running, or has finished, and for what is no wait status.
        """
        self.lifetime.require_open()
        wait_status(status)
        try:
            found = self._running(job)
        except FluxresError:
            self.enter()
            found = self._running(job)
        self.finish_running(found, status)

    def finish_running(self, found: Job, status: int) -> None:
        """`finish`, for callers with millions of jobs that know that this one runs here and has no child."""
        # Before other due events: a job that has ended must not be asked to stop, even if its limit has passed.
        now = self.due.now = self.time.read_clock()
        self.lifecycle.finish(found, status)
        self.due.advance_to(now)
        self.due.follow_up()

    @call
    def requeue(self, job: AnyJob, note: str = "", *, kind: str = "requeue") -> None:
        """Stop a running job, and let it wait again in its place of the queue, as the same job.

        It waits as soon as its runner has reported its end, whatever the status; dependencies on it stay open.

        Args:
            kind: for the runner: why it is stopped.

        Errors: UnknownJob; UsageError for a job that is not running, has a child, or was reserved ahead.
        """
        self.enter()
        found = self._running(job)
        if found.state is not State.RUN:
            raise UsageError(f"job {found.id} is ending", where=self.address)
        if found.is_booking:
            hint = "cancel it: it has no place in the queue"
            raise UsageError(f"job {found.id} was reserved ahead", where=self.address, hint=hint)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child", where=self.address, hint="close the child first")
        self.lifecycle.requeue(found, kind, note)
        self.due.follow_up()

    # -- exceptions and changes of jobs ------------------------------------------------------------------------------

    @call
    def cancel(self, job: AnyJob, note: str = "") -> None:
        """Cancel a pending or running job, and all jobs in its child.

        Errors: UnknownJob; UsageError for a job that has ended.
        """
        self.exception(job, "cancel", note=note)

    @call
    def exception(self, job: AnyJob, kind: str, severity: int = 0, note: str = "") -> None:
        """Raise an exception on a job (RFC 21); severity 0 ends it.

        Errors: UnknownJob; UsageError for a job that has ended, and for a severity outside 0 to 7.
        """
        self.enter()
        found = self._active(job)
        if not arguments.text(kind, "kind").strip():
            hint = "such as cancel, timeout or one of yours"
            raise UsageError(f"kind: expected the type of an exception, got {kind!r:.80}", hint=hint)
        arguments.text(note, "note")
        if not 0 <= arguments.whole(severity, "severity") <= 7:
            raise UsageError(f"severity: expected 0 (fatal) to 7, got {severity!r:.80}")
        self.lifecycle.raise_exception(found, kind, severity, note)
        self.due.follow_up()

    @call
    def set_urgency(self, job: AnyJob, urgency: int) -> None:
        """Change the urgency of a pending job, and so its place in the queue.

        Errors: UnknownJob; UsageError for a job that is running or has ended.
        """
        self.enter()
        found = self._pending(job)
        self.lifecycle.set_urgency(found, require_urgency(urgency))
        self.due.follow_up()

    @call
    def set_duration(self, job: AnyJob, duration_s: Length | None, urgency: int | None = None) -> None:
        """Change the limit of a job; None for none. The limit of a running job counts from its start, and moves its end.

        Reservations of the queue policy are made again, the instance on what the job holds ends by the new limit, and a job that
        waits may start earlier.

        Args:
            urgency: as for :meth:`set_urgency`, in the same change, since a pending job may start with its new limit.

        Errors: UnknownJob; UsageError for a job that has ended, would have ended by now, or is reserved ahead, and for text with
        a sign; InsufficientResources if others hold some of its resources before the new limit; InfeasibleRequest if that is
        longer than its partition or the accounting allows.
        """
        self.enter()
        found = self._active(job) if urgency is None else self._pending(job)
        if urgency is not None:
            require_urgency(urgency)
        if isinstance(duration_s, str) and duration_s.lstrip().startswith("+"):
            hint = "add to job.duration_s; `fluxres instance update JOB --duration +1h` does"
            raise UsageError(f"duration_s: expected the new limit, got {duration_s!r:.80}, a change of it", hint=hint)
        duration = _duration(duration_s)
        if found.state is not State.RUN:
            if found.sizes is not None:
                raise UsageError(f"job {found.id} has a limit for each of its sizes", hint="submit it again")
            if found.state is State.CLEANUP:
                raise UsageError(f"job {found.id} is ending")
            if found.number in self.inventory.ahead:
                hint = "cancel it, and reserve again; its limit can be changed once it runs"
                raise UsageError(f"job {found.id} was reserved ahead, for a fixed time", where=self.address, hint=hint)
        self.admission.of_limit(found, duration)
        self.lifecycle.set_duration(found, duration)
        if urgency is not None:
            self.lifecycle.set_urgency(found, urgency)
        self.due.follow_up()

    @call
    def resize(self, job: AnyJob, size: int) -> bool:
        """Give a running malleable job another of its sizes; its remaining time changes as its limits at both sizes.

        It keeps what it can. More units are free ones, before all reservations of the queue policy, which are made again. The
        runner is not asked: the caller tells the program, before it shrinks and after it has grown.

        Returns: whether it has that size now; False, with nothing changed, if there is not enough, or a limit does not allow it.
        Errors: UnknownJob; UsageError for a job that is not running, has a child or cannot have that size.
        """
        now = self.enter()
        found = self._running(job)
        arguments.whole(size, "size")
        sizes = found.sizes
        option = None if sizes is None else next((one for one in sizes.options if one.size == size), None)
        if sizes is None or option is None or not sizes.is_malleable:
            has = "it has one" if sizes is None else f"it has {', '.join(str(one.size) for one in sizes.options)}"
            hint = has if sizes is None or sizes.is_malleable else "it is moldable: its size is chosen when it starts"
            raise UsageError(f"job {found.id} cannot change to size {size}", where=self.address, hint=hint)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child", where=self.address, hint="grow or shrink the child")
        before, end = sizes.chosen, found.limit
        if end < FOREVER:
            end = now + -(-(end - now) * option.duration // before.duration)
        is_changed = self.lifecycle.resize(found, option, end)
        self.due.follow_up()
        return is_changed

    def replan(self, job: Job, length: int) -> bool:
        """Plan another length for a job that runs and reaches the end of what was planned; its limit remains.

        Reservations that still fit are kept; no pass follows.

        Args:
            length: from its start, in ticks; more than it has run.

        Returns: False if others hold some of its resources before the new end; nothing changes then.
        """
        self.enter()
        try:
            self.holdings.move_limit(job, min(job.started + length, FOREVER))
        except InsufficientResources:
            return False
        job.planned = length
        return True

    @call
    def add_dependency(self, job: AnyJob, dependency: Dependency | str | Mapping[str, Any]) -> None:
        """Add a dependency to a pending job.

        Errors: UnknownJob; UsageError for a cycle, for what can never be satisfied, for a job that is running or has ended, and
        for an advance reservation, which begins at its time.
        """
        self.enter()
        found = self._pending(job)
        if found.is_booking:
            hint = "submit a job with the dependency instead"
            raise UsageError("an advance reservation begins at its time, whatever others do", where=f"job {found.id}", hint=hint)
        given = deps.parse(dependency, self.due.now)
        self.dependencies.require_possible(given)
        self.lifecycle.add_dependency(found, given)
        self.due.follow_up()

    # -- time --------------------------------------------------------------------------------------------------------

    @call
    def advance(self) -> None:
        """Handle all events due by now, here and in the children (limits, begin times, reservations, expiry); then make a pass.

        With a real clock, call this at `next_due`, or every second.
        """
        self.lifetime.require_open()
        now = self.time.read_clock()
        if not self.time.still:
            self.due.catch_up(now + 1)
        for one in reversed(list(self.walk())):
            if not one.lifetime.is_closed:
                one.due.advance_to(now)
                one.due.request_pass()  # a round, if its policy calls this
        self.due.make_owed_passes()

    @call
    def next_due(self) -> float | None:
        """When `advance` has to be called next, in seconds; None for never."""
        if self.lifetime.is_closed:
            return None
        near = (*self._instances_above(), *self.walk())
        if self.time.owes_passes or any(one.others.have_changed for one in near):
            return seconds(self.time.read_clock())  # others have changed something, or a policy has failed
        moment = min(one.due.next_wakeup() for one in self.walk())
        return None if moment >= FOREVER else seconds(moment)

    @call
    def schedule(self, limit: int | None = None) -> int:
        """Make one pass of the policy.

        Args:
            limit: start at most this number of jobs.

        Returns: the number of jobs started. Errors: UsageError for a negative limit.
        """
        self.enter()
        if limit is not None and arguments.whole(limit, "limit") < 0:
            raise UsageError(f"limit: expected a whole number of at least 0, got {limit}", hint="leave it out for no limit")
        self.due.make_owed_passes()
        started = self.queue.run(-1 if limit is None else limit)
        self.due.make_owed_passes()
        return started

    def enter(self) -> int:
        """Handle the events of the complete tree that were due before now; every call begins with this.

        Returns: now, in ticks. Errors: StaleHandle if the instance is closed, or was closed by one of these events.
        """
        due, lifetime = self.due, self.lifetime
        if not lifetime.is_closed:
            due.advance_to(self.time.read_clock())
        if lifetime.is_closed:
            lifetime.require_open()  # called only to refuse: simulations enter millions of times
        return due.now

    # -- the machine -------------------------------------------------------------------------------------------------

    @property
    @call
    def graph(self) -> ResourceGraph:
        """The resource graph with everything that running jobs hold, and what is reserved ahead, after handling what is due."""
        if not self.lifetime.is_closed:
            self.due.advance_to(self.time.read_clock())
            if self.inventory.ahead and not self.time.still:
                self.choice.show_ahead()
        self.holdings.record_jobs()
        return self._graph

    @call
    def set_state(self, where: Targets, state: str, *, requeue: bool = False) -> None:
        """Set the state of pools (RFC 4), here and in the children that have them.

        Jobs on these pools continue, unless the state is down: then they fail. A job with a child continues, and the jobs of the
        child fail.

        Args:
            requeue: let the jobs wait again, instead of failing.

        Errors: as `ResourceGraph.set_state`; UsageError for pools that are out of service in the parent and would be put in
            service; nothing changes then.
        """
        self.enter()
        check_state(state)
        if self.parent is not None:
            pool_states.require_in_service_above(self, where, state)
        for one in self.walk():
            one.due.advance_to(one.time.now)
        vertices = targets.pools(self._graph, where, "state and no tags")
        with self.time.one_event():  # one pass follows, however many jobs are stopped
            pool_states.set_state(self, vertices, state, requeue=requeue)
        self.due.follow_up()

    def drain(self, where: Targets) -> None:
        """Start no new jobs on pools; running jobs continue."""
        self.set_state(where, "drain")

    def down(self, where: Targets, *, requeue: bool = False) -> None:
        """Mark pools as failed; jobs that run on them fail, or wait again."""
        self.set_state(where, "down", requeue=requeue)

    def up(self, where: Targets) -> None:
        """Put pools back in service."""
        self.set_state(where, "up")

    @call
    def measure_in(self, type_name: str | None) -> None:
        """Measure the size of jobs in units of a type; default: in cores, or in what the inventory allocates.

        Errors: UnknownType for one that the machine does not have.
        """
        arguments.texts_or_none(type_name=type_name)
        if type_name is not None and type_name not in (types := self._graph.structure.types):
            raise UnknownType(f"no pool of type '{type_name:.80}'", where=self.address, hint=choose_from(types))
        self.choice.measure_in(self._unit(type_name))

    def _unit(self, type_name: str | None) -> str | None:
        """The type to measure in: the limits of an accounting have one unit, whatever jobs ask for."""
        return default_measure(self._graph.structure.types) if type_name is None and self.ledger is not None else type_name

    @call
    def check(self) -> list[Problem]:
        """Audit this instance, its children and their graphs; returns an empty list if all rules hold."""
        now = self.time.read_clock()
        for one in list(self.walk()):
            if not one.lifetime.is_closed:
                one.due.advance_to(now)
        return audit.check(self)

    # -- the tree ----------------------------------------------------------------------------------------------------

    @property
    @call
    def children(self) -> list[Instance]:
        return list(self._children.values())

    @property
    def depth(self) -> int:
        """The number of instances above this one."""
        return 0 if self.parent is None else self.parent.depth + 1

    @property
    def outermost(self) -> Instance:
        """The instance of the tree that has no parent."""
        return self if self.parent is None else self.parent.outermost

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

    @call
    def tree(self) -> list[Branch]:
        """The values of this instance and all below it, depth first."""
        top = self.depth
        return [
            Branch(
                one.address,
                one.depth - top,
                one.name,
                one.policy.name,
                one.match_policy,
                len(one.holdings.graph),
                one.pending,
                one.running,
            )
            for one in self.walk()
        ]

    @call
    def find(self, address: str) -> Instance:
        """An instance by its address, which may be complete or relative to this instance; a name stands for its job.

        Errors: UnknownJob for the first part of the address that does not exist; UsageError for an empty part.
        """
        found = self
        words, own = arguments.text(address, "address").split("/"), self.address.split("/")
        if "" in words:
            hint = f"write it without empty parts, such as {self.name} or {self.name}/JOB"
            raise UsageError(f"an empty part in the address {address!r:.80}", hint=hint)
        if words[: len(own)] == own:
            words = words[len(own) :]
        for word in words:
            found = found._child(word)
        return found

    def _child(self, word: str) -> Instance:
        """The child on a job, or of a name that no other child has. Errors: UnknownJob."""
        try:
            job = self.job(word)
        except UnknownJob:
            named = [child for child in self._children.values() if child.name == word]
            if len(named) == 1:
                return named[0]
            known = [child.address for child in named or self._children.values()]
            names = [] if named else [f"{self.address}/{child.name}" for child in self._children.values() if child.name]
            hint = choose_from((*names, *known), otherwise="it has none below it")
            message = f"{len(named)} instances have the name '{word:.80}'" if named else f"no job or instance '{word:.80}'"
            raise UnknownJob(message, where=self.address, hint=hint) from None
        if not isinstance(job.child, Instance):
            raise UnknownJob(f"job {job.id} has no instance", where=self.address, hint=_why_childless(job))
        return job.child

    # -- children ----------------------------------------------------------------------------------------------------

    @call
    def spawn(
        self,
        job: AnyJob,
        *,
        queue_policy: AnyQueuePolicy | None = None,
        match_policy: str | None = None,
        name: str | None = None,
        inventory: str | None = None,
        runner: Runner | None = None,
        sink: Sink | None = None,
        events: Listener | bool | None = None,
        passes: str | None = None,
    ) -> Instance:
        """Make a child instance on what a running job holds (RFC 4 Copy); it ends with the job, and the job with it.

        Args: as for Instance; the defaults are those of this instance. The child uses its clock.

        Cost: a copy of that part of the graph. Errors: UnknownJob; UsageError for a job that is not running or has a child, and
        for a name that is no part of an address, or that of a job or child of this instance.
        """
        now = self.enter()
        found = self._active(job)
        if found.state is not State.RUN:
            hint = _ON_A_RUNNING_JOB if found.state in states.PENDING else "it is ending"
            raise UsageError(f"job {found.id} is not running, it is {found.state.name}", where=self.address, hint=hint)
        if found.is_requeued:
            raise UsageError(f"job {found.id} is being stopped, to wait again", where=self.address)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child already", where=self.address, hint=f"it is {found.child.address}")
        if self.depth + 1 >= limits.INSTANCE_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.INSTANCE_DEPTH_MAX} levels of instances", where=self.address)
        if name is not None and name != str(found.id):
            self._require_free_name(name, found)
        given = InstanceOptions(queue_policy, match_policy, None, inventory, runner, sink, events, passes)
        given.require_calls()
        return self.make_child(found, now, given, name)

    def _require_free_name(self, name: str, of: Job) -> None:
        """Refuse a name for the child of a job that would be no address, or that of something else. Errors: UsageError."""
        require_name(name)
        taken = next((f"an instance, {child.address}" for child in self._children.values() if child.name == name), "")
        with suppress(UnknownJob):
            taken = taken or f"a job, {self.job(name).id}"
        named = (job for job in self.lifecycle.jobs.values() if job.name == name and job is not of)
        taken = taken or next((f"a job, {job.id}" for job in named), "")
        if taken:
            hint = "choose another name, or give none: then the id of its job is the name"
            raise UsageError(f"'{name}' names {taken}", where=self.address, hint=hint)

    def make_child(
        self, found: Job, now: int, given: InstanceOptions, name: str | None = None, *, is_again: bool = False
    ) -> Instance:
        """`spawn` after `enter`, for a running job without a child.

        Args:
            is_again: its child was there before, and may have returned everything.
        """
        self.holdings.record_job(found)
        graph = joining.copy_job(self._graph, fluid.encode(found.number), now, linked=True, may_be_empty=is_again)
        graph.lock = self.lock  # a change in one instance may affect all above it
        upstream = graph.records.upstream = ParentSupply(found, graph)
        upstream.refresh()
        options = self._options.for_child(given, self.inventory, self.runner)
        child = type(self)(graph, clock=self.clock, **options._asdict())
        child.name = str(found.id) if name is None else name
        child.write_lock = self.write_lock
        child.choice.measure_in(self.choice.measure)
        upstream.on_change = child.others.note_drawn_elsewhere
        is_first = not self._children
        found.child = self._children[found.number] = child
        self.holdings.suppliers[found.number] = upstream
        child._join(self, found)
        child.holdings.note_suppliers()
        if is_first:
            pool_states.remember(self.holdings)
        return child

    def resume(self, jobs: Iterable[Resumed], expires: int = FOREVER) -> None:
        """Take over the jobs of an earlier instance on this graph, in their states, before anything else is done.

        Args:
            jobs: each with its claim and what it holds if it runs or is reserved ahead, and the dependencies that it waits for.
            expires: what `set_expiration` set, in ticks.
        """
        self.lifecycle.resume(jobs)
        self.due.now = self.time.now
        self.lifetime.set_expiration(expires)
        self.others.refresh()
        self.others.adopt_ends()
        self.due.announce(self.due.next_event())
        self.due.owe_pass()

    def _join(self, parent: Instance, job: Job) -> None:
        """Become the child of an instance, on what one of its jobs holds."""
        self.parent, self.job_in_parent = parent, job
        self.time = parent.time
        self.due.now = self.ids.epoch = self.time.now
        self.lifetime.take_end()

    @call
    def grow(self, wanted: Targets | Wanted) -> list[str]:
        """Get more resources from the parent (RFC 4 Merge).

        Args:
            wanted: a request, or pools of the parent by path.

        Returns: the paths of the added pools. Errors: UsageError without a parent; InsufficientResources; nothing changes then.
        """
        parent, upstream = self._require_parent()
        self.enter()
        self.lifetime.require_not_ending()
        targets.require_no_number(wanted)
        parent.due.advance_to(self.due.now)
        if targets.is_request(wanted, parent.holdings.graph):
            wanted = parent.admission.on_machine(as_request(wanted))
        parts.ask_of(parent, wanted)
        self.due.make_owed_passes()  # the parent renews its reservations before anything is taken
        self.lifetime.require_open()
        self.lifetime.require_not_ending()
        parts.prepare(self, upstream)
        try:
            return parts.grow(self, upstream, parent, wanted)
        finally:
            self.due.follow_up()

    @call
    def shrink(self, wanted: Targets) -> list[str]:
        """Return pools to the parent (RFC 4 Unlink), which may allocate them immediately.

        Args:
            wanted: pools without jobs, with all their units, by path or handle; or free units of one pool with nothing below it.

        Errors: UsageError without a parent, or for some units of other pools; NotHeld for pass-through pools; StillHeld; nothing
        changes then.
        """
        parent, upstream = self._require_parent()
        self.enter()
        targets.require_no_number(wanted)
        parent.due.advance_to(self.due.now)
        try:
            return parts.shrink(self, upstream, parent, wanted)
        finally:
            self.due.follow_up()  # renews the dropped reservations

    @call
    def shrink_idle(self, units: int) -> int:
        """Return at most that many units that are free now to the parent, of the type in which sizes are measured.

        Nothing is returned while a job is at its limit and its end is not reported yet: it still holds its units.

        Returns: their number. Errors: as `shrink`.
        """
        self.enter()
        self.queue.unreserve()
        running = self.inventory.running
        is_at_limit = bool(running.lapsed or running.ending_by(self.due.now))
        pools = self.inventory.idle(units, self.due.now) if units > 0 and not is_at_limit else []
        if pools:
            self.shrink(dict(pools))
        return sum(amount for _, amount in pools)

    def _require_parent(self) -> tuple[Instance, ParentSupply]:
        upstream = self.holdings.upstream
        if self.parent is None or upstream is None:
            hint = f"expected an instance on one of its jobs, such as {self.address}/JOB"
            raise UsageError("this instance has no parent", where=self.address, hint=hint)
        return self.parent, upstream

    # -- the end of an instance --------------------------------------------------------------------------------------

    @call
    def close(self, status: int = 0, *, if_idle: bool = False) -> None:
        """End this instance, and its job with `status`: cancel its jobs and close its children.

        It is closed when the last of its jobs has ended: immediately, unless their runner needs time to stop them.  Then its
        parent gets back everything that it had (rule T1).  Closing a closed instance does nothing.

        Args:
            if_idle: refuse if jobs run or wait, here or below.

        Errors: UsageError for what is no wait status; StillHeld.
        """
        wait_status(status)
        if not self.lifetime.is_closed:
            self.due.advance_to(self.time.read_clock())
        if arguments.flag(if_idle, "if_idle"):
            self._require_idle()
        self.lifetime.end_jobs("the instance is closed")
        parent, job = self.parent, self.job_in_parent
        if parent is not None and job is not None and job.state in states.RUNNING and not self.lifetime.job_has_finished:
            parent.due.advance_to(parent.time.now)
            parent.lifecycle.finish(job, status)
            parent.due.follow_up()

    def _require_idle(self) -> None:
        jobs = [job for one in self.walk() for job in one.lifecycle.jobs.values()]
        parts, ids = [], list[str]()
        for verb, among in (("run", states.RUNNING), ("wait", states.PENDING)):
            found = [str(job.id) for job in jobs if job.state in among]
            ids += found
            if found:
                parts.append(f"{plural(len(found), 'job')} that {verb}{'s' * (len(found) == 1)} ({listed(found)})")
        if ids:
            hint = f"`fluxres instance drop {self.address} --force` ends {'it' if len(ids) == 1 else 'them'} with it"
            raise StillHeld(f"it has {' and '.join(parts)}", where=self.address, hint=hint, jobs=ids)

    @call
    def fail(self, note: str = "") -> None:
        """End this instance and its job in the parent as failed."""
        self._require_parent()
        self.enter()
        self.lifetime.end_jobs(note or "the instance failed")
        self.lifetime.fail_job(states.EXEC, note)

    @property
    def is_ending(self) -> bool:
        """Whether it closes as soon as the jobs that were asked to stop have ended."""
        return self.lifetime.is_ending

    @property
    def is_closed(self) -> bool:
        return self.lifetime.is_closed

    @call
    def shut(self, why: str, kind: str = "cancel") -> None:
        """End all jobs here and below, but not the job in the parent.  The instance closes when the last of them has ended.

        Args:
            kind: of the exception that ends them.
        """
        self.lifetime.end_jobs(why, kind)

    def drop_child(self, job: Job) -> None:
        """Remove the child of a job, which is closed."""
        del self._children[job.number]

    @call
    def set_expiration(self, at_s: Time | None) -> None:
        """Set when this instance expires, with exception timelimit on its jobs; None for when its job or its parent ends.

        The instances below end with it. Errors: UsageError for a moment after the limit of its job, or after its parent ends.
        """
        moment = FOREVER if at_s is None else ticks(at_s, "expiration", self.time.now)
        self.enter()
        self.lifetime.require_not_ending()
        if at_s is not None:
            self.lifetime.require_allowed(moment)
        self.lifetime.set_expiration(moment)
        self.due.advance_to(self.time.read_clock())

    def freed_from(self, job: Job) -> int:
        return self.holdings.freed_from(job.number)

    @property
    @locked
    def expires_at(self) -> float | None:
        """When this instance expires, in seconds; None for never."""
        expires = self.lifetime.expires
        return None if expires >= FOREVER else seconds(expires)


_IDS: Final = "`fluxres instance queue -a`, or jobs() in Python, lists the ids of jobs, in which f may stand for ƒ"
_ON_A_RUNNING_JOB: Final = "an instance begins on what a running job holds"


def _why_childless(job: Job) -> str:
    """The way out for those who ask for the instance on a job."""
    if job.state is State.INACTIVE:
        return f"the job has ended: {job.result}"
    if job.state is State.RUN:
        return "`fluxres instance spawn`, or spawn() in Python, begins one"
    return f"the job is {job.state.name}; {_ON_A_RUNNING_JOB}"


def _require_labels(**given: str | None) -> None:
    """Check what people call a job and whose it is. Errors: UsageError."""
    arguments.texts_or_none(**given)
    for what, value in given.items():
        targets.label(value, what)


def _keep_event(job: Job, event: JobEvent) -> None:
    if job.events is None:
        job.events = []
    job.events.append(event)


def _duration(length_s: Length | None) -> int:
    """A limit in ticks; FOREVER for none."""
    found = FOREVER if length_s is None else length_ticks(length_s)
    if found < 1:
        raise UsageError(f"duration_s: expected a positive number of seconds, got {length_s!r:.80}")
    return found


def _number(job: object) -> int:
    if isinstance(job, str):
        try:
            return fluid.decode(job)
        except InputError as error:
            raise UnknownJob(error.message, hint=_IDS) from None
    if isinstance(job, int) and not isinstance(job, bool):
        return int(job)
    raise UsageError(f"a job is named by its id, not by {job!r:.80}")
