"""A scheduler instance: its jobs and their states (Flux RFC 21), its children (rule N1), time (rule T1) and the machine.

A call first handles the events that were due before it (`enter`), then does its own work, and then makes the passes of the queue
policy that follow (`_follow_up`), in this instance and in others of its tree.  Its parts are in other modules: `queue` makes the
passes, in which jobs start, `holding` maintains what jobs hold, until and beyond their limits, `timekeeper` is the time of a tree
of instances, and `upstream` what a child draws from its parent.

A child begins with a copy of what one job of its parent holds (RFC 4 Copy) and is a scheduler like any other.  It may request
more from its parent (merge) and return what is free in it (unlink).  When it ends, for whatever reason, its jobs end with it and
the resources of its job return to the parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import WeakMethod

from fluxres import limits
from fluxres.allocation.facts import JobFacts
from fluxres.clock import FOREVER, Clock, Length, Time, length_ticks, seconds, ticks
from fluxres.documents import arguments
from fluxres.documents.document import shown
from fluxres.errors import (
    FluxresError,
    InfeasibleRequest,
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
from fluxres.instance import audit, parts, pool_states, recording, states
from fluxres.instance import dependencies as deps
from fluxres.instance.charged import NOBODY, Charged
from fluxres.instance.choice import fastest, make_inventory
from fluxres.instance.dependencies import AnyDependency, Dependencies, Verdict
from fluxres.instance.finished import FinishedJobs
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.holding import KEPT_TICKS, OVERTIME_S, Holdings
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Ask, Hold, Inventory, NotUniform
from fluxres.instance.job import (
    BEGIN,
    URGENCY_DEFAULT,
    URGENCY_HELD,
    AnyJob,
    Dependency,
    Failure,
    Job,
    JobEvent,
    JobIds,
    Limiter,
    require_urgency,
)
from fluxres.instance.ledger import Ledger
from fluxres.instance.named import NamedInventory
from fluxres.instance.options import AnyQueuePolicy, InstanceOptions, Listener, Sink
from fluxres.instance.policy import policy as require_queue_policy
from fluxres.instance.queue import Guard, Queue, QueuePolicy, hooks_of
from fluxres.instance.runner import NOT_STARTED, Runner, Unattended
from fluxres.instance.sizes import SUCH_SIZES, Option, SizePolicy, Sizes, of_limits
from fluxres.instance.sizes import parse as require_size_policy
from fluxres.instance.states import State
from fluxres.instance.timekeeper import Timekeeper
from fluxres.instance.tree import Branch
from fluxres.instance.upstream import ParentSupply
from fluxres.match.policy import policy as require_match_policy
from fluxres.model import changes, joining, matching, targets
from fluxres.model.resource_graph import ResourceGraph, writing
from fluxres.model.targets import Targets
from fluxres.shown import Tabular
from fluxres.syntax import fluid
from fluxres.syntax.jobspec import Request, Wanted, as_request, parse_shape
from fluxres.syntax.name import is_name

if TYPE_CHECKING:
    from fluxres.instance.accounting import Accounting


_NO_JOB: Final = -1
"""In place of the number of a job that waits for its begin time."""
_READY: Final = states.after(states.after(State.NEW, "validate"), "depend")
"""The state of a new job that waits for no other."""


def _label(text: str | None) -> str | None:
    """A user or the name of a job as a graph records it; None for what it would refuse, such as more than one line."""
    return str(text) if is_name(text) else None


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
        name: default: that of the graph.
        inventory: "graph" supports all requests; "auto" is much faster while requests are for interchangeable exclusive pools,
            and records jobs in `graph` only when that is used. specs/instances.md describes the others.
        runner: starts and stops jobs; default: none, and the caller reports their end with `finish`.
        sink: called with each finished job, which is then forgotten; default: the latest ones are kept.
        events: called with each job and event; default: events are kept with their job. False: no events, and the graph does
                not know the users and names of jobs, which is faster.
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
    """Whether it closes as soon as the jobs that were asked to stop have ended."""
    expires = FOREVER
    """When the instance expires, in ticks."""
    expires_given = FOREVER
    """The expiration set by `set_expiration`; the limit of the job in the parent may be earlier."""
    parent: Instance | None = None
    job_in_parent: Job | None = None
    _job_has_finished = False
    """Whether the job in the parent has finished, and only waits for this instance to close."""
    external_jobs: frozenset[str] = frozenset()
    """The names of jobs of others that hold something in the graph; this instance does not use them for its own jobs."""
    measure: str | None = None
    """The type in whose units sizes were asked for; None for the default of the inventory."""
    announced = FOREVER
    """When the next event is due, as announced to the Timekeeper."""

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
        accounting: Accounting | None = None,
    ) -> None:
        if not isinstance(graph, ResourceGraph):
            raise UsageError(f"expected a ResourceGraph, got {shown(graph)}", hint="such as fluxres.load('cluster.yaml')")
        arguments.texts_or_none(name=name)
        if arguments.text(passes, "passes") not in ("event", "manual"):
            raise UsageError(f"passes: expected event or manual, got {passes!r:.80}")
        self._options = InstanceOptions(queue_policy, match_policy, size_policy, inventory, runner, sink, events, passes)
        self._graph = graph
        self.name = name if name is not None else graph.name
        self.lock = graph.lock
        """The lock of the graph, and of all instances of the tree."""
        self.write_lock = graph.write_lock
        """The same, and that of the store that the graph at the top is attached to: even a question may let time pass."""
        if clock is not None:
            graph.clock = clock
        self.clock = graph.clock
        self.time = Timekeeper(self.clock, self)
        self.now = self.time.now
        self.policy = require_queue_policy(queue_policy)
        self.hooks = hooks_of(self.policy)
        """The methods of the policy that are called for each job."""
        require_match_policy(match_policy)
        self.match_policy = match_policy
        self.size_policy = require_size_policy(size_policy)
        self.is_adaptive = inventory == "auto"
        self.inventory: Inventory = make_inventory(inventory, graph, match_policy)
        self.runner: Runner = runner if runner is not None else Unattended()
        self.keeps_limits: bool = getattr(self.runner, "keeps_limits", False)
        self._raised = (StoreError, PolicyError, *getattr(self.runner, "defects", ()))
        """What a runner raises that is no refusal of a job."""
        self.passes = passes
        self.ledger = None if accounting is None else Ledger(accounting)
        """Counts for the limits of the accounting; None without."""
        self.limiter: Limiter | None = self.ledger
        """The limits that may keep a waiting job from starting."""
        self.preemption = None if self.ledger is None else self.ledger.preempt_for(self)
        """Which jobs make room for the head of the queue; None without."""
        self.queue = Queue(self)
        self.dependencies = Dependencies()
        self._log: Listener | None = events if callable(events) else _keep_event if events else None
        self._jobs: dict[int, Job] = {}
        """Active jobs."""
        self._children: dict[int, Instance] = {}
        """By number of the job that holds the child's resources."""
        self.holdings = Holdings(self, self._jobs, self._children)
        self._finished = FinishedJobs(sink)
        self.ids = JobIds(graph, self.now)
        self.external_ends: list[int] = []
        """The moments at which others free something, latest first."""
        self._timers: list[tuple[int, int]] = []
        """A heap of begin times and the numbers of the jobs that wait for them."""
        if graph.records.jobs() or graph.records.stages:
            self._refresh()
        if self._log is not None:
            graph.facts_of_instance = WeakMethod(self._facts_of)

    def __repr__(self) -> str:
        return f"<Instance {self.address}: {self.policy.name}, {self.pending} pending, {self.running} running>"

    def __reduce__(self) -> NoReturn:
        hint = "pickle its graph, and make an instance of that where it is needed"
        raise UsageError("an instance cannot be pickled: its jobs run here", where=self.address, hint=hint)

    # -- jobs by id --------------------------------------------------------------------------------------------------

    @writing
    def job(self, job: AnyJob) -> Job:
        """A job by its id, in any form of RFC 19.

        Errors: UnknownJob if there is none, or if it ended too long ago.
        """
        if isinstance(job, Job):
            if job.instance is not self:
                raise UnknownJob(f"job {job.id} belongs to {job.instance.address}", where=self.address)
            return job
        number = _number(job)
        found = self._jobs.get(number) or self._finished.get(number)
        if found is None:
            hint = "`fluxres instance queue -a`, or jobs() in Python, lists them"
            raise UnknownJob(f"no job {job!s:.80}", where=self.address, hint=hint)
        return found

    def _active(self, job: AnyJob) -> Job:
        found = self.job(job)
        if found.state is State.INACTIVE:
            raise UsageError(f"job {found.id} has ended: {found.result}", where=self.address)
        return found

    def _pending(self, job: AnyJob) -> Job:
        found = self._active(job)
        if found.state not in states.PENDING:
            raise UsageError(f"job {found.id} is not pending, it is {found.state.name}", where=self.address)
        return found

    def _running(self, job: AnyJob) -> Job:
        found = self._active(job)
        if found.state not in states.RUNNING:
            raise UsageError(f"job {found.id} is not running, it is {found.state.name}", hint="cancel it")
        if (child := self._children.get(found.number)) is not None and child._job_has_finished:
            raise UsageError(f"job {found.id} has finished", hint="jobs in its child have not ended yet")
        return found

    @writing
    def jobs(self, *wanted: State | str) -> list[Job]:
        """The active jobs and the finished ones that are kept, in order of submission; optionally only those in some states.

        Args:
            wanted: states, or their names, also of virtual ones: pending, running, active.

        Errors: UsageError for an unknown state.
        """
        chosen = frozenset[State]().union(*({one} if isinstance(one, State) else states.named(one) for one in wanted))
        found = sorted((*self._finished.jobs, *self._jobs.values()), key=lambda job: job.number)
        return [job for job in found if job.state in chosen] if wanted else found

    @property
    @writing
    def pending(self) -> int:
        """The number of jobs that have no resources yet."""
        return sum(job.state in states.PENDING for job in self._jobs.values())

    @property
    @writing
    def running(self) -> int:
        """The number of jobs that hold resources."""
        return len(self._jobs) - self.pending

    @property
    def jobs_kept(self) -> int:
        """The number of jobs that `jobs` lists."""
        return len(self._jobs) + len(self._finished)

    @property
    def running_jobs(self) -> Mapping[int, Job]:
        """The active jobs by number, for queue policies, which ask for those that hold resources."""
        return self._jobs

    @property
    def is_active(self) -> bool:
        """Whether there are jobs that have not ended."""
        return bool(self._jobs)

    # -- submission --------------------------------------------------------------------------------------------------

    @writing
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
            dependencies: ``afterok:ƒA`` and the like, besides those of the jobspec.
            payload: for the runner.
            account, qos: of the accounting, if the instance has one; it has defaults for them.
            partition: the same as in the request; without accounting only a name.
            sizes: of a moldable job: the counts that the outermost resource of the request may have, each with the limit of the
                job then. The request has the preferred one, or names the largest; the size policy chooses one of them when the
                job starts, `job.sizes.chosen`.
            is_malleable: whether `resize` may change its size while it runs.

        Errors: InfeasibleRequest if the machine can never satisfy the request, or its partition or the accounting never allows
        it; InsufficientResources while its partition accepts no jobs, or its user has submitted too many; UsageError, InputError;
        no job is made then.
        """
        now = self.enter()
        arguments.texts_or_none(name=name, user=user, account=account, qos=qos, partition=partition)
        arguments.flag(is_malleable, "is_malleable")
        request = wanted if isinstance(wanted, Request) else as_request(wanted)
        length = matching.length(self._graph, request) if duration_s is None else _duration(duration_s)
        charged = Charged(user, account, qos, partition if partition is not None else request.queue)
        chosen = None
        if sizes is not None:
            limits_of = arguments.mapping(sizes, "sizes", "limits by size", SUCH_SIZES)
            chosen = of_limits(request, {size: _duration(each) for size, each in limits_of.items()}, is_malleable=is_malleable)
        waits_for = deps.listed(dependencies)
        return self.submit_request(request, length, now, urgency, name, user, waits_for, payload, charged, sizes=chosen)

    def submit_request(  # noqa: PLR0913, PLR0917 - one value each, for callers with millions of jobs
        self,
        request: Request,
        duration: int,
        now: int,
        urgency: int,
        name: str | None,
        user: str | None,
        wanted: Iterable[Dependency | str | Mapping[str, Any]],
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
        if self.is_ending:
            raise StaleHandle("this instance is ending")
        if charged is None and self.ledger is not None:
            charged = Charged(user)
        if sizes is not None:
            charged = self._admit_sizes(charged, sizes)
            request, duration, ask = sizes.chosen.request, sizes.chosen.duration, sizes.chosen.ask
        elif self.ledger is None and not self._graph.structure.partitions:
            ask = self._ask(request)
        else:
            charged, request, duration, ask = self._admitted(charged, request, duration)
        given = self._waits_for(request, wanted, name) if wanted or request.attributes else ()
        job = Job(self, self._new_id(now), request, duration, now, require_urgency(urgency), name, user, payload, charged)
        job.ask, job.sizes, job.planned = ask, sizes, min(planned, duration)
        job.dependencies = given
        if "take_in" in self.hooks:
            with Guard(self.policy):
                waiting = self.policy.take_in(job)
            if waiting is not job:
                return self._active(waiting)
        self._add(job)
        if given or self._log:
            self._post(job, "validate")
            if not given or self._add_dependencies(job, given, now):
                self._depend(job)
        else:
            job.state = _READY
            self._prioritize(job)
        self._follow_up()
        return job

    def _add(self, job: Job) -> None:
        """Add a new job to the active ones."""
        self._jobs[job.number] = job
        if self.ledger is not None and not job.is_booking:
            self.ledger.submitted(job)
        if job.name is not None:
            self.dependencies.register(job)
        if self._log:
            self._log_event(job, "submit", urgency=job.urgency, userid=job.user, flags=0, version=1)

    def _admit_sizes(self, charged: Charged | None, sizes: Sizes) -> Charged | None:
        """As `_admitted`, for each of the sizes of a moldable job."""
        before = self.inventory
        charged = sizes.admit(partial(self._admitted, charged))
        if self.inventory is not before:
            sizes.use(self.inventory)
        return charged

    def _admitted(self, charged: Charged | None, request: Request, duration: int) -> tuple[Charged | None, Request, int, Ask]:
        """To whom a new job is charged, its request and limit by the rules of the accounting and its partition, and its ask."""
        if self.ledger is not None:
            size = self.inventory.requested(request)
            charged, duration = self.ledger.admit(charged or NOBODY, size, duration)
        if self._graph.structure.partitions:
            if charged is not None and charged.partition is not None:
                request = matching.in_partition(self._graph, request, charged.partition)
            if self.ledger is not None and duration >= FOREVER:
                found = matching.length(self._graph, request)
                duration = found if found >= FOREVER else found + self.ledger.lead
            matching.require_accepted(self._graph, request, duration)
        return charged, request, duration, self._ask(request)

    # -- advance reservations ----------------------------------------------------------------------------------------

    @writing
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

        Errors: InsufficientResources if jobs hold too much at that time, or their limits allow them to; UsageError for a start in
        the past; those of `submit`.
        """
        now = self.enter()
        arguments.texts_or_none(name=name, user=user)
        start, length = ticks(start_s, "start_s", now), _duration(duration_s)
        if start <= now:
            raise UsageError(f"start_s: expected a time after {seconds(now)}, got {seconds(start)}", where=self.address)
        if self.is_ending:
            raise StaleHandle("this instance is ending")
        if (wanted is None) == (pools is None):
            raise UsageError("expected a request or pools", where=self.address)
        one = Request(parse_shape(f"slot=1/{self.measure or 'node'}")) if wanted is None else as_request(wanted)
        if pools is None:
            ask = self._ask(one)
        elif self.is_adaptive and not self._jobs and self.measure is not None:
            self._adapt(one)
        job = Job(self, self._new_id(now), one, length, now, URGENCY_DEFAULT, name, user, payload)
        job.is_booking = True
        end = min(start + length, FOREVER)
        self.queue.unreserve()
        if pools is None:
            job.ask = ask
            is_reserved = self.inventory.reserve_ahead(job.number, ask, start, end, now)
        else:
            is_reserved = self._reserve_pools(job.number, targets.pools(self._graph, pools, "no tags"), start, end)
        self.queue.reservations_dropped()
        if not is_reserved:
            self._follow_up()
            what = "jobs hold some of it at that time, or their limits allow them to"
            raise InsufficientResources(f"cannot be reserved from {seconds(start)} s on: {what}", where=self.address)
        job.dependencies = (Dependency(BEGIN, start),)
        self._add(job)
        self._post(job, "validate")
        self._wait_until(start, job)
        self._follow_up()
        return job

    def _reserve_pools(self, number: int, vertices: list[int], start: int, end: int) -> bool:
        if not vertices:
            raise UsageError("no pools named", where=self.address, hint="name at least one pool")
        try:
            return self.inventory.reserve_pools_ahead(number, vertices, start, end, self.now)
        except NotUniform as error:
            if not self.is_adaptive:
                raise UsageError(str(error), where=self.address, hint="use inventory='graph' or 'auto'") from None
        self._adapt(None)
        return self.inventory.reserve_pools_ahead(number, vertices, start, end, self.now)

    def _begin_ahead(self, job: Job, moment: int) -> None:
        """Start the job of an advance reservation, or try again soon if a job that is late holds some of it.

        Args:
            moment: at which that was due; limits after it are still to be handled.
        """
        self._free_lapsed(moment)
        claim = self.inventory.begin_ahead(job.number)
        if claim is None:
            self._wait_until(self.now + ticks(OVERTIME_S), job)
            return
        self.queue.reservations_dropped()
        self._post(job, "depend")
        self._post(job, "priority")
        self.queue.admit()
        self.start_job(job, claim, claim.end)

    def _ask(self, request: Request) -> Ask:
        inventory = self.inventory
        if self.is_adaptive and not self._jobs and inventory.kind == "graph":
            self._adapt(request)
            inventory = self.inventory
        try:
            return inventory.ask(request)
        except NotUniform:
            if self.inventory.kind == "graph" or not self.is_adaptive:
                raise UsageError(
                    "this request is not for a number of interchangeable pools",
                    where=f"inventory {self.inventory.kind}",
                    hint="use inventory='graph' or 'auto'",
                ) from None
        self._adapt(request)
        return self.inventory.ask(request)

    @writing
    def can_hold(self, request: Request) -> bool:
        """Whether the machine of this instance can ever satisfy a request; False if that stays undecided."""
        try:
            self._ask(request)
        except (InfeasibleRequest, LimitExceeded):
            return False
        return True

    @writing
    def has_room(self, request: Request) -> bool:
        """Whether there is room for a request now, regardless of jobs that wait and of reservations for later."""
        self.enter()
        return self.can_hold(request) and self.inventory.has_room(self._ask(request), self.now)

    def _adapt(self, request: Request | None) -> None:
        """Change to an inventory that supports a request (all requests, if None), and transfer everything that is held."""
        self.holdings.record_jobs()
        before = self.inventory
        before.clear()
        self.queue.reservations_dropped()
        if not self._jobs and request is not None:
            self.inventory = fastest(self._graph, self.match_policy, request, self.measure)
            return
        made = GraphInventory(self._graph, self.match_policy, self.measure)
        for job in self._jobs.values():
            job.ask = job.request  # without a check: it was feasible when it was submitted
            if job.sizes is not None:
                job.sizes.use_requests()
            if job.claim is not None:
                is_disputed = job.number in self.holdings.disputed
                job.claim = made.adopt(job.number, job.claim, before.pools(job.claim), is_disputed=is_disputed)
        for number, hold in before.ahead.items():
            made.reserve_pools_ahead(number, before.vertices(hold), hold.start, hold.end, self.now)
        self.inventory = made
        self.holdings.recorded.clear()

    def _new_id(self, now: int) -> int:
        try:
            return self.ids.new(now, self.external_jobs)
        except UsageError as error:
            raise UsageError(error.message, where=self.address, hint=error.hint) from None

    def _waits_for(self, request: Request, wanted: Iterable[AnyDependency], name: str | None) -> tuple[Dependency, ...]:
        """The dependencies of a new job and of its request, checked."""
        given = tuple(deps.parse(one) for one in (*wanted, *deps.listed(request.system.get("dependencies"))))
        for dependency in given:
            self.dependencies.require(dependency, name, self._jobs)
        return given

    def _add_dependencies(self, job: Job, given: Iterable[Dependency], now: int) -> bool:
        """Add the dependencies of a new job, which were checked; returns whether it waits for none of them."""
        never = None
        for dependency in given:
            verdict = self.dependencies.add(job, dependency, self._jobs, now)
            if verdict is Verdict.NEVER:
                never = dependency
            elif verdict is Verdict.OPEN and dependency.scheme == BEGIN:
                self._wait_until(dependency.value, job)
            if self._log:
                self._log_event(job, "dependency-add", description=str(dependency))
        if never is not None:
            self.raise_exception(job, "dependency", states.FATAL, f"{never} can never be satisfied")
            return False
        return not self.dependencies.open(job)

    def _wait_until(self, moment: int, job: Job) -> None:
        heappush(self._timers, (moment, job.number))
        self.announce(self.next_event())

    def running_job(self, number: int) -> Job:
        """The job with a claim, by its number."""
        return self._jobs[number]

    def wake_at(self, moment: int) -> None:
        """Make a pass at a moment in ticks, even if nothing happens until then."""
        heappush(self._timers, (moment, _NO_JOB))
        self.announce(self.next_event())

    # -- from state to state -----------------------------------------------------------------------------------------

    def _post(self, job: Job, event: str, **context: Any) -> None:
        """Move a job to the state that an event leads to (RFC 21), and log the event."""
        job.state = states.after(job.state, event)
        if self._log:
            self._log(job, JobEvent(seconds(self.now), event, context))

    def _log_event(self, job: Job, event: str, **context: Any) -> None:
        assert self._log is not None  # callers check first, because most runs have no listener
        self._log(job, JobEvent(seconds(self.now), event, context))

    def _depend(self, job: Job) -> None:
        """Schedule a job whose dependencies are satisfied."""
        if job.state is State.DEPEND:  # a listener may have canceled it
            self._post(job, "depend")
            self._prioritize(job)

    def _prioritize(self, job: Job, *, again: bool = True) -> None:
        """Put a job in PRIORITY into the queue.

        Args:
            again: give it a new priority; otherwise it keeps its own, and with it its place.
        """
        if job.state is not State.PRIORITY:  # a listener may have canceled it
            return
        if again:
            self.queue.prioritize(job)
        job.state = states.after(job.state, "priority")
        if job.urgency != URGENCY_HELD:
            self.queue.add(job)
            self.queue.request_round()
            if "submitted" in self.hooks:
                with Guard(self.policy):
                    self.policy.submitted(job, seconds(self.now))
        if self._log:
            self._log_event(job, "priority", priority=job.priority)

    def start_job(self, job: Job, claim: Any, limit: int) -> None:
        """Start a job on its resources."""
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
        if limit < self.announced and not self.keeps_limits:
            self.announce(limit)
        if self._log:
            self._log_event(job, "start")
        if self.ledger is not None and not job.is_booking:
            self.ledger.started(job)
        if "started" in self.hooks:
            with Guard(self.policy):
                self.policy.started(job, seconds(self.now))
        try:
            self.runner.start(job)
        except self._raised:
            raise
        except Exception as error:  # noqa: BLE001  # runners may raise anything
            # Not raised to the caller or the policy: the job fails, like one that Flux cannot execute (RFC 21).
            note = f"the runner could not start it: {type(error).__name__}: {error}"
            if self._note_exception(job, states.EXEC, states.FATAL, note) is State.RUN:
                self._finish(job, NOT_STARTED)

    @writing
    def finish(self, job: AnyJob, status: int = 0) -> None:
        """Report the end of a job: its resources are free from now on, or when the jobs in its child have ended too.

        Args:
            status: wait status; 0 is success.

        Errors: UnknownJob; UsageError for a job that is not running, or has finished.
        """
        self._require_open()
        arguments.whole(status, "status")
        try:
            found = self._running(job)
        except FluxresError:
            self.enter()
            found = self._running(job)
        self.finish_running(found, status)

    def finish_running(self, found: Job, status: int) -> None:
        """`finish`, for callers with millions of jobs that know that this one runs here and has no child."""
        # Before other due events: a job that has ended must not be asked to stop, even if its limit has passed.
        now = self.now = self.time.read_clock()
        self._finish(found, status)
        self._advance_to(now)
        self._follow_up()

    def _finish(self, job: Job, status: int) -> None:
        if job.is_requeued:
            self._return_to_queue(job)
            return
        job.status = status
        job.state = states.after(job.state, "finish")
        if self._log:
            self._log_event(job, "finish", status=status)
        if job.child is None or self._end_child(job):
            self._clean(job)

    def _free(self, job: Job) -> None:
        """Free what a job holds."""
        self.inventory.finish(job.number, job.claim, self.now)
        self.holdings.forget(job)
        self.time.has_returned = True
        self.queue.changed = True
        if self._log:
            self._log_event(job, "release", ranks="all", final=True)
            self._log_event(job, "free")

    def _clean(self, job: Job) -> None:
        """Free the resources of a job, and hand it to the sink."""
        now = self.now
        self.queue.request_round()
        if job.claim is not None:
            self._free(job)
        elif job.number in self.inventory.ahead:
            self.inventory.drop_ahead(job.number)
            self.queue.reservations_dropped()
        job.ended = now
        job.state = states.after(job.state, "clean")
        if self._log:
            self._log_event(job, "clean")
        del self._jobs[job.number]
        if self.ledger is not None and not job.is_booking:
            self.ledger.left(job)
        ready: list[Job] = []
        never: list[tuple[Job, Dependency]] = []
        if self.dependencies.concern(job):
            succeeded = job.status == 0 and not any(failure.severity == states.FATAL for failure in job.exceptions)
            ready, never = self.dependencies.ended(job, succeeded, job.started >= 0)
        self._finished.add(job)
        for other in ready:
            self._depend(other)
        for other, dependency in never:
            if other.state is State.DEPEND:
                self.raise_exception(other, "dependency", states.FATAL, f"{dependency} can never be satisfied")
        if self.is_ending and not self._jobs:
            self._end()
        if "finished" in self.hooks:
            with Guard(self.policy):
                self.policy.finished(job, seconds(now))
        if self.time.has_suppliers:
            self.time.note_return()

    # -- requeuing ---------------------------------------------------------------------------------------------------

    @writing
    def requeue(self, job: AnyJob, note: str = "", *, kind: str = "requeue") -> None:
        """Stop a running job, and let it wait again in its place of the queue, as the same job.

        It waits as soon as its runner has reported its end, whatever the status; dependencies on it stay open.

        Args:
            kind: for the runner: why it is stopped.

        Errors: UnknownJob; UsageError for a job that is not running, has a child, or was reserved ahead.
        """
        self.enter()
        found = self._running(job)
        if found.is_booking:
            hint = "cancel it: it has no place in the queue"
            raise UsageError(f"job {found.id} was reserved ahead", where=self.address, hint=hint)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child", where=self.address, hint="close the child first")
        self.requeue_job(found, kind, note)
        self._follow_up()

    def requeue_job(self, job: Job, kind: str, note: str) -> None:
        """`requeue` after `enter`, for a running job without a child."""
        if job.is_requeued:
            return
        job.is_requeued = True
        self._note_exception(job, kind, states.WARNING, note)
        self._stop(job, kind)

    def _return_to_queue(self, job: Job) -> None:
        self.queue.request_round()
        self._free(job)
        job.is_requeued, job.claim, job.started, job.limit = False, None, -1, FOREVER
        if job.sizes is not None:
            job.take(job.sizes.preferred)
        if self.ledger is not None:
            self.ledger.left(job)
            self.ledger.submitted(job)
        self._post(job, "requeue")
        self.queue.sort()  # it may still be listed where it was
        if "finished" in self.hooks:
            with Guard(self.policy):
                self.policy.finished(job, seconds(self.now))
        self._prioritize(job)
        self.time.note_return()

    # -- exceptions and changes of jobs ------------------------------------------------------------------------------

    @writing
    def cancel(self, job: AnyJob, note: str = "") -> None:
        """Cancel a pending or running job, and all jobs in its child.

        Errors: UnknownJob; UsageError for a job that has ended.
        """
        self.exception(job, "cancel", note=note)

    @writing
    def exception(self, job: AnyJob, kind: str, severity: int = 0, note: str = "") -> None:
        """Raise an exception on a job (RFC 21); severity 0 ends it.

        Errors: UnknownJob; UsageError for a job that has ended, and for a severity outside 0 to 7.
        """
        self.enter()
        found = self._active(job)
        arguments.text(kind, "kind")
        arguments.text(note, "note")
        if not 0 <= arguments.whole(severity, "severity") <= 7:
            raise UsageError(f"severity: expected 0 (fatal) to 7, got {severity!r:.80}")
        self.raise_exception(found, kind, severity, note)
        self._follow_up()

    def raise_exception(self, job: Job, kind: str, severity: int, note: str) -> None:
        """Raise an exception on a job; a fatal one cancels it, or asks its runner to stop it."""
        before = self._note_exception(job, kind, severity, note)
        if severity != states.FATAL or before not in states.ACTIVE or before is State.CLEANUP:
            return
        if before is State.RUN:
            if (child := self._children.get(job.number)) is not None:
                child.shut("the job that holds its resources is being stopped")
                if job.state is State.INACTIVE:  # its child was closed by that, and the job has ended
                    return
            job.is_requeued = False  # it was being stopped to wait again, and ends instead
            self._stop(job, kind)
            return
        if before is State.SCHED and job.urgency != URGENCY_HELD:
            self.inventory.unreserve(job.number)
            self.queue.leave(job)
            self.queue.changed = True
        self._clean(job)

    def _stop(self, job: Job, kind: str) -> None:
        """Ask the runner of a job to stop it."""
        try:
            self.runner.stop(job, kind)
        except self._raised:
            raise
        except Exception as error:  # noqa: BLE001  # it may still run, and keeps its resources until `finish` (rule T1)
            note = f"the runner could not stop it: {type(error).__name__}: {error}"
            self.raise_exception(job, states.EXEC, states.WARNING, note)

    def _note_exception(self, job: Job, kind: str, severity: int, note: str) -> State:
        """Add an exception to a job; a fatal one changes its state.  Returns the state before."""
        job.exceptions = (*job.exceptions, Failure(kind, severity, note))
        if self._log:
            self._log_event(job, "exception", type=kind, severity=severity, note=note)
        before = job.state
        if severity == states.FATAL:
            job.state = states.after(before, "exception")
        return before

    @writing
    def set_urgency(self, job: AnyJob, urgency: int) -> None:
        """Change the urgency of a pending job, and so its place in the queue.

        Errors: UnknownJob; UsageError for a job that is running or has ended.
        """
        self.enter()
        found = self._pending(job)
        was_held = found.urgency == URGENCY_HELD
        found.urgency = require_urgency(urgency)
        self._update(found, "urgency", was_held=was_held, urgency=urgency, userid=found.user)
        self._follow_up()

    @writing
    def set_duration(self, job: AnyJob, duration_s: Length | None) -> None:
        """Change the limit of a job; None for none. The limit of a running job counts from its start.

        Errors: UnknownJob; UsageError for a job that has ended, or would have ended by now; InsufficientResources if others hold
        some of its resources before the new limit.
        """
        now = self.enter()
        found = self._active(job)
        duration = _duration(duration_s)
        if found.state is State.RUN:
            self._set_limit(found, min(found.started + duration, FOREVER), now)
        elif found.sizes is not None:
            raise UsageError(f"job {found.id} has a limit for each of its sizes", hint="submit it again")
        elif found.state is State.CLEANUP:
            raise UsageError(f"job {found.id} is ending")
        found.duration = found.planned = duration
        context = {"attributes.system.duration": None if duration >= FOREVER else seconds(duration)}
        self._update(found, "jobspec-update", was_held=found.urgency == URGENCY_HELD, again=False, **context)
        self._follow_up()

    @writing
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
        is_changed = self.resize_job(found, option, end)
        self._follow_up()
        return is_changed

    def resize_job(self, job: Job, option: Option, end: int) -> bool:
        """`resize` after `enter`, with a new limit in ticks; the caller makes a pass afterwards."""
        assert job.sizes is not None  # it has several
        before = job.sizes.chosen
        if option is before:
            return True
        more = self.inventory.requested(option.request) - self.inventory.requested(before.request)
        if self.ledger is not None and more > 0 and not self.ledger.may_grow(job, more):
            return False
        if not self.holdings.change_size(job, option, end):
            return False
        job.take(option)
        if self.ledger is not None:
            self.ledger.resized(job)
        if self._log:
            self._log_event(job, "resource-update", size=option.size, expiration=seconds(job.limit))
        if "resized" in self.hooks:
            with Guard(self.policy):
                self.policy.resized(job, seconds(self.now))
        self.time.note_return()
        return True

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

    def _set_limit(self, job: Job, end: int, now: int) -> None:
        if end <= now:
            raise UsageError(
                f"it would have ended at {seconds(end)}", where=f"job {job.id}", hint="cancel it, or give it a later limit"
            )
        try:
            self.holdings.move_limit(job, end)
        except InsufficientResources:
            self._follow_up()
            raise
        if (child := self._children.get(job.number)) is not None and not child.is_ending:
            child._expire_at(min(end, child.expires_given))

    def _update(self, job: Job, event: str, *, was_held: bool, again: bool = True, **context: Any) -> None:
        """Log a change of a job, which leads from SCHED back to PRIORITY (RFC 21).

        Args:
            was_held: before the change.
            again: as for `_prioritize`.
        """
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
            self._prioritize(job, again=again)

    @writing
    def add_dependency(self, job: AnyJob, dependency: Dependency | str | Mapping[str, Any]) -> None:
        """Add a dependency to a pending job.

        Errors: UnknownJob; UsageError for a cycle, and for a job that is running or has ended.
        """
        now = self.enter()
        found = self._pending(job)
        wanted = deps.parse(dependency)
        verdict = self.dependencies.add(found, wanted, self._jobs, now)
        found.dependencies = (*found.dependencies, wanted)
        if self._log:
            self._log_event(found, "dependency-add", description=str(wanted))
        if verdict is Verdict.NEVER:
            self.raise_exception(found, "dependency", states.FATAL, f"{wanted} can never be satisfied")
        elif verdict is Verdict.OPEN and found.state is State.SCHED:
            self.inventory.unreserve(found.number)
            found.state = State.DEPEND  # RFC 21 has dependencies before scheduling only
            self.queue.drop(found)
            self.queue.sort()
        if verdict is Verdict.OPEN and wanted.scheme == BEGIN:
            self._wait_until(wanted.value, found)
        self._follow_up()

    # -- time --------------------------------------------------------------------------------------------------------

    @writing
    def advance(self) -> None:
        """Handle all events due by now, here and in the children (limits, begin times, reservations, expiry); then make a pass.

        With a real clock, call this at `next_due`, or every second.
        """
        self._require_open()
        now = self.time.read_clock()
        if not self.time.still:
            self._catch_up(now + 1)
        for one in reversed(list(self.walk())):
            if not one.is_closed:
                one._advance_to(now)
                one.owe_pass()
        self._make_owed_passes()

    @writing
    def next_due(self) -> float | None:
        """When `advance` has to be called next, in seconds; None for never."""
        if self.is_closed:
            return None
        near = (*self._instances_above(), *self.walk())
        if self.time.owes_passes or any(one.has_unseen_changes for one in near):
            return seconds(self.time.read_clock())  # others have changed something, or a policy has failed
        moment = self._next_tick()
        return None if moment >= FOREVER else seconds(moment)

    def _next_tick(self) -> int:
        """When the next event is due, here or below."""
        return min(self.next_wakeup(), *(child._next_tick() for child in self._children.values()), FOREVER)

    @writing
    def schedule(self, limit: int | None = None) -> int:
        """Make one pass of the policy.

        Args:
            limit: start at most this number of jobs.

        Returns: the number of jobs started.
        """
        self.enter()
        if limit is not None:
            arguments.whole(limit, "limit")
        self._make_owed_passes()
        started = self.queue.run(-1 if limit is None else limit)
        self._make_owed_passes()
        return started

    def enter(self) -> int:
        """Handle the events of the complete tree that were due before now; every call begins with this.

        Returns: now, in ticks. Errors: StaleHandle if the instance is closed, or was closed by one of these events.
        """
        if not self.is_closed:
            self._advance_to(self.time.read_clock())
        self._require_open()
        return self.now

    def _require_open(self) -> None:
        if self.is_closed:
            raise StaleHandle("this instance is closed")

    @property
    def has_unseen_changes(self) -> bool:
        """Whether others have changed the graph since the last update of this instance."""
        return self._graph.revision != self.inventory.revision

    def _advance_to(self, now: int) -> None:
        """Handle the events of the complete tree that were due before now, and advance the inventory to now."""
        time = self.time
        if self.parent is not None and not time.still:
            self.parent._see_changes(now)
        if time.has_suppliers:
            time.announce_late(now)
        self._advance_inventory(now)
        if time.is_moving:
            return
        if time.has_suppliers:
            time.settle_moment()
        if time.disputing and not time.passes_open:
            time.reclaim()

    def _see_changes(self, now: int) -> None:
        """Handle changes by others in this graph and those above it, on behalf of a call of an instance below."""
        if self.parent is not None:
            self.parent._see_changes(now)
        if self._graph.revision != self.inventory.revision and not self.is_closed:
            self._advance_to(now)

    def _advance_inventory(self, now: int) -> None:
        time, inventory = self.time, self.inventory
        ends = inventory.running.ends
        self.now = now
        if self.holdings.lapsed_at < now:
            self._find_late()
        if time.next < now or self._graph.revision != inventory.revision or (ends and ends[0] < now):
            if not time.still:
                self._catch_up(now)
                self.now, inventory = now, self.inventory
                ends = inventory.running.ends
            elif time.is_moving or (ends and ends[0] < now):
                return  # the inventory would free claims at limits that have not been handled yet
        if ends and ends[0] <= now and (self.holdings.overtime or self._children or not self.keeps_limits):
            self.holdings.keep_at_limit()
        self._free_lapsed(now)

    def _free_lapsed(self, now: int) -> None:
        """Let what jobs hold be free from their limit on, if it has come."""
        lapsed = self.inventory.advance(now)
        if lapsed:
            self.queue.elapsed = True
            self.time.has_returned = True
            self.holdings.note_lapsed(lapsed)

    def _catch_up(self, before: int) -> None:
        """Handle changes by others, and all events before a moment."""
        self.refresh_if_changed()
        self.announce(self.next_event())
        if self.time.next < before:
            self.time.catch_up(before)

    def announce(self, moment: int) -> None:
        """Announce an event to the Timekeeper, unless an earlier one is announced."""
        if moment < self.announced:
            self.announced = moment
            self.time.announce(moment, self)

    def _follow_up(self) -> None:
        """Make the passes that follow a change, here and in other instances."""
        time = self.time
        if time.disputing and not time.still:
            time.reclaim()
        if time.has_suppliers:
            time.offer()
        if time.owed and not time.still and self.passes == "event":
            time.owe(self)
        else:
            self.queue.react()
        if time.owed or time.has_suppliers:
            self._make_owed_passes()

    def owe_pass(self, *, is_promised: bool = False) -> None:
        """Let the Timekeeper make a pass when everything due is done, unless passes are made manually.

        Args:
            is_promised: as for `Timekeeper.owe`.
        """
        if self.passes == "event":
            self.time.owe(self, is_promised=is_promised)

    def _make_owed_passes(self) -> None:
        """Make the passes that are owed, unless they are being made already."""
        time = self.time
        if not time.still and (time.offer() or time.owes_passes):
            time.catch_up(time.now)

    def make_owed_pass(self) -> None:
        """Make a pass that was postponed until all due events were handled; called by the Timekeeper."""
        self.time.reclaim()
        if not self.is_closed:
            self._advance_to(self.time.now)
            self.queue.run()

    # -- due events (rule T1) ----------------------------------------------------------------------------------------

    def next_event(self) -> int:
        """When the next event is due, in ticks; FOREVER for never.

        What others free at a moment can be used at that moment, so that event is due a tick earlier.
        """
        begin = self._timers[0][0] if self._timers else FOREVER
        freed = self.external_ends[-1] - 1 if self.external_ends else FOREVER
        return min(begin, self.holdings.next_limit(), self.holdings.next_cut, freed, self.expires)

    def next_wakeup(self) -> int:
        """When `advance` has to be called next so that events are handled in time."""
        timers, ends, holdings = self._timers, self.external_ends, self.holdings
        found = min(self.queue.next_due(), self.holdings.next_cut, self.expires)
        if timers:
            found = min(found, timers[0][0])
        if holdings.overtime or holdings.at_limit or not self.keeps_limits:
            found = min(found, holdings.next_limit())
        if not len(self.queue):
            return found
        if not self.time.has_suppliers:
            return min(found, ends[-1]) if ends else found
        return min(found, *(one.external_ends[-1] for one in self.outermost.walk() if one.external_ends), FOREVER)

    def do_next(self, before: int) -> bool:
        """Handle the next event if it is due before a moment; False if others free something in the next tick."""
        self.announced, is_due = FOREVER, True
        try:
            moment = FOREVER if self.is_closed else self.next_event()
            if moment >= before:
                return True
            self.now = self.time.now
            timers, ends = self._timers, self.external_ends
            if moment == self.holdings.next_cut:
                self.holdings.end_cut(moment)
            elif moment == self.holdings.next_limit():
                self.holdings.enforce_limits(moment)
            elif ends and moment == ends[-1] - 1 and ends[-1] <= self.now:
                self._refresh()
            elif timers and moment == timers[0][0]:
                self._end_wait()
            elif moment == self.expires:
                self._expire()
            else:
                is_due = False
                return False
            self._follow_up()
            return True
        finally:
            if is_due and not self.is_closed:
                self.announce(self.next_event())

    def _end_wait(self) -> None:
        """Handle the begin time of a job."""
        moment, number = heappop(self._timers)
        job = self._jobs.get(number)
        if job is None or job.state is not State.DEPEND:
            return
        if job.number in self.inventory.ahead:
            self._begin_ahead(job, moment)
        elif self.dependencies.due(job, self.now):
            self._depend(job)

    def _find_late(self) -> None:
        if self.holdings.find_late():
            self.announce(self.next_event())

    def announce_late(self) -> None:
        """Find the late jobs of a runner that keeps limits, since the instance may not have been called at the limits."""
        if self.keeps_limits and not self.is_closed:
            if self.holdings.lapsed_at < self.time.now:
                self._find_late()
            self.announce(self.holdings.next_limit())

    def is_behind(self) -> bool:
        """Whether an event was due before now, including limits that a runner promised to keep and did not."""
        self.announce_late()
        return self.next_event() < self.time.now

    def settle_moment(self) -> None:
        """Let all jobs here and below that are exactly at their limit keep their resources, children before their parents.

        What one job frees may become free in another instance (rule N1).  If an instance expires now, its reservations are
        dropped: they cannot begin any more, and would only block others on what they share.
        """
        still_open = [one for one in reversed(list(self.walk())) if not one.is_closed]
        places = [one.queue.places() for one in still_open]
        for one in still_open:
            one.now = one.time.now
            one.holdings.keep_jobs(one.holdings.jobs_at_limit())
            if one.expires <= one.now and one.queue.reserved:
                one.queue.unreserve()
                one.supplies_returned()
        for one, known in zip(still_open, places, strict=True):
            if one.expires > one.now:
                one.queue.restore(known, KEPT_TICKS)

    # -- what others hold in the graph -------------------------------------------------------------------------------

    def refresh_if_changed(self) -> None:
        """Update after changes by others in the graph, if there are any.

        Others may allocate and free in the graph without calling the instance.  It detects this at its next call, because the
        revision of the graph differs from the one after its own last change.
        """
        if self.has_unseen_changes:
            self._refresh()
            self.owe_pass()

    def _refresh(self) -> None:
        """Update what others hold (earlier jobs, advance reservations, stages), when they free it, and states of pools.

        Cost: O(what others hold).
        """
        graph, now = self._graph, self.time.now
        changes.expire_stages(graph)
        if self.inventory.is_stale:
            self.inventory.refresh()
            self.queue.reservations_dropped()
        pool_states.propagate(self.holdings)
        records = graph.records
        names = [name for name in records.jobs() if not self._is_own(name)]
        if (names or records.stages) and self.inventory.kind != "graph":
            if self.is_adaptive:
                self._adapt(None)
            else:
                self.holdings.record_jobs()  # the graph must not allocate what is running to others
        self.external_jobs = frozenset(name for name in names if name in self.external_jobs or not self.ids.is_issued(name))
        ends = {end for name in names for end in records.ends(name)}
        ends.update(min(stage.expires, stage.end) for stage in records.stages.values())
        self.external_ends = sorted((end for end in ends if now < end < FOREVER), reverse=True)
        inventory = self.inventory
        if inventory.kind != "graph" and inventory.set_held_by_others(recording.units_held(records, names, now)):
            self.queue.reservations_dropped()
        self.reacquire()
        for other in list(self.time.disputing):
            if other is not self and other is not self.outermost:
                other.reacquire()
        inventory.forget_failures()
        inventory.revision = graph.revision
        self.holdings.find_cut()
        self.announce(self.holdings.next_cut)
        self.supplies_returned()
        if self.external_ends:
            self.announce(self.external_ends[-1] - 1)

    def _is_own(self, name: str) -> bool:
        return self._own(name) is not None

    def _own(self, name: str) -> Job | None:
        """The active job that has this id in the graph."""
        try:
            number = fluid.decode(name)
        except InputError:
            return None
        return self._jobs.get(number) if fluid.encode(number) == name else None

    def _facts_of(self, name: str) -> JobFacts | None:
        """The user and the name of a job, for the graph in which it gets its first pools."""
        job = self._own(name)
        if job is None or (job.user is None and job.name is None):
            return None
        return JobFacts(_label(job.user), _label(job.name), self.time.now)

    def reacquire(self) -> None:
        """Let late jobs hold again what others have freed of their resources (rule T1)."""
        if self.is_closed or not self.holdings.disputed:
            self.time.disputing.pop(self, None)
            return
        self.now = self.time.now
        self.holdings.reacquire()

    # -- the machine -------------------------------------------------------------------------------------------------

    @property
    @writing
    def graph(self) -> ResourceGraph:
        """The resource graph with everything that running jobs hold, after handling what is due."""
        if not self.is_closed:
            self._advance_to(self.time.read_clock())
        self.holdings.record_jobs()
        return self._graph

    @writing
    def set_state(self, where: Targets, state: str, *, requeue: bool = False) -> None:
        """Set the state of pools (RFC 4), here and in the children that have them.

        Jobs on these pools continue, unless the state is down: then they fail. A job with a child continues, and the jobs of the
        child fail.

        Args:
            requeue: let the jobs wait again, instead of failing.

        Errors: UsageError for pools that are out of service in the parent and would be put in service; nothing changes then.
        """
        self.enter()
        if self.parent is not None:
            pool_states.require_in_service_above(self, where, state)
        for one in self.walk():
            one._advance_to(one.time.now)
        vertices = targets.pools(self._graph, where, "state and no tags")
        with self.time.one_event():  # one pass follows, however many jobs are stopped
            pool_states.set_state(self, vertices, state, requeue=requeue)
        self._follow_up()

    def drain(self, where: Targets) -> None:
        """Start no new jobs on pools; running jobs continue."""
        self.set_state(where, "drain")

    def down(self, where: Targets, *, requeue: bool = False) -> None:
        """Mark pools as failed; jobs that run on them fail, or wait again."""
        self.set_state(where, "down", requeue=requeue)

    def up(self, where: Targets) -> None:
        """Put pools back in service."""
        self.set_state(where, "up")

    @writing
    def measure_in(self, type_name: str | None) -> None:
        """Measure the size of jobs in units of a type; default: in cores, or in what the inventory allocates."""
        arguments.texts_or_none(type_name=type_name)
        self.measure = type_name
        self.inventory.measure_in(type_name)

    @writing
    def check(self) -> list[Problem]:
        """Audit this instance, its children and their graphs; returns an empty list if all rules hold."""
        now = self.time.read_clock()
        for one in list(self.walk()):
            if not one.is_closed:
                one._advance_to(now)
        return audit.check(self)

    # -- the tree ----------------------------------------------------------------------------------------------------

    @property
    @writing
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

    @writing
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
                len(one._graph),
                one.pending,
                one.running,
            )
            for one in self.walk()
        ]

    @writing
    def find(self, address: str) -> Instance:
        """An instance by its address, which may be complete or relative to this instance.

        Errors: UnknownJob for the first part of the address that does not exist.
        """
        found = self
        words = [word for word in arguments.text(address, "address").split("/") if word]
        own = self.address.split("/")
        if words[: len(own)] == own:
            words = words[len(own) :]
        for word in words:
            child = found.job(word).child
            if not isinstance(child, Instance):
                raise UnknownJob(f"job {word} has no instance", where=found.address)
            found = child
        return found

    # -- children ----------------------------------------------------------------------------------------------------

    @writing
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

        Cost: a copy of that part of the graph. Errors: UnknownJob; UsageError for a job that is not running or has a child.
        """
        now = self.enter()
        found = self._active(job)
        if found.state is not State.RUN:
            raise UsageError(f"job {found.id} is not running, it is {found.state.name}", where=self.address)
        if found.child is not None:
            raise UsageError(f"job {found.id} has a child already", where=self.address, hint=f"find('{found.id}') gives it")
        if self.depth + 1 >= limits.INSTANCE_DEPTH_MAX:
            raise LimitExceeded(f"expected at most {limits.INSTANCE_DEPTH_MAX} levels of instances", where=self.address)
        given = InstanceOptions(queue_policy, match_policy, None, inventory, runner, sink, events, passes)
        return self.make_child(found, now, given, name)

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
        options = self._for_child(given)
        child = type(self)(graph, clock=self.clock, name=str(found.id) if name is None else name, **options._asdict())
        child.write_lock = self.write_lock
        child.measure_in(self.measure)
        upstream.on_change = child._note_elsewhere
        is_first = not self._children
        found.child = self._children[found.number] = child
        self.holdings.suppliers[found.number] = upstream
        child._join(self, found)
        child._note_suppliers()
        if is_first:
            pool_states.remember(self.holdings)
        return child

    def resume(
        self, jobs: Iterable[tuple[Job, Hold | None, list[tuple[str, int]], list[Dependency]]], expires: int = FOREVER
    ) -> None:
        """Take over the jobs of an earlier instance on this graph, in their states, before anything else is done.

        Args:
            jobs: each with its claim and what it holds if it runs or is reserved ahead, and the dependencies that it waits for.
            expires: what `set_expiration` set, in ticks.
        """
        known = sorted(jobs, key=lambda one: (one[0].state is not State.INACTIVE, one[0].number))
        for job, hold, pools, _ in known:
            if job.name is not None:
                self.dependencies.register(job)
            if job.state is State.INACTIVE:
                self.dependencies.ended(job, job.result == "completed", job.started >= 0)
                self._finished.add(job)
                continue
            self._jobs[job.number], job.ask = job, job.request
            if hold is not None:
                assert isinstance(self.inventory, GraphInventory)
                is_running = job.state in states.RUNNING
                claim = self.inventory.adopt(job.number, hold, pools, is_disputed=False, is_running=is_running)
                claim.count = hold.count
                if is_running:
                    job.claim = claim
                else:
                    self.inventory.ahead[job.number] = claim
                    self._wait_until(hold.start, job)
            if self.ledger is not None and not job.is_booking:
                self.ledger.submitted(job)
                if job.claim is not None:
                    self.ledger.started(job)
        for job, _, _, waits_for in known:
            for dependency in waits_for:
                self.dependencies.add(job, dependency, self._jobs, self.time.now)
                if dependency.scheme == BEGIN:
                    self._wait_until(dependency.value, job)
            if job.state is State.SCHED:
                self._drop_record(job)
                if job.urgency != URGENCY_HELD:
                    self.queue.add(job)
        self.now = self.time.now
        self.expires_given = expires
        self._expire_at(min(expires, self.expires))
        self._refresh()
        self.announce(self.next_event())
        self.owe_pass()

    def _drop_record(self, job: Job) -> None:
        """Drop what was reserved for a job that waits: the next pass reserves it again."""
        name = fluid.encode(job.number)
        if self._graph.records.is_holder(name):
            with recording.own_changes(self.inventory):
                self._graph.free(name)

    @property
    def queue_policy(self) -> str:
        """The queue policy as it was given by name."""
        given = self._options.queue_policy
        return given if isinstance(given, str) else self.policy.name

    def _join(self, parent: Instance, job: Job) -> None:
        """Become the child of an instance, on what one of its jobs holds."""
        self.parent, self.job_in_parent = parent, job
        self.time = parent.time
        self.now = self.ids.epoch = self.time.now
        self._expire_at(job.limit)

    def _for_child(self, given: InstanceOptions) -> InstanceOptions:
        """The options of a child: those given to it, else those of this instance."""
        own = self._options
        if given.queue_policy is None and isinstance(own.queue_policy, QueuePolicy):
            given = given._replace(queue_policy=_another(own.queue_policy))
        if isinstance(self.inventory, InterchangeableInventory) and own.inventory == self.inventory.kind:
            own = own._replace(inventory=f"{own.inventory}:{self.inventory.type}")  # the child may have one unit of it
        return given.or_else(own._replace(runner=self.runner))

    @writing
    def grow(self, wanted: Targets | Wanted) -> list[str]:
        """Get more resources from the parent (RFC 4 Merge).

        Args:
            wanted: a request, or pools of the parent by path.

        Returns: the paths of the added pools. Errors: UsageError without a parent; InsufficientResources; nothing changes then.
        """
        parent, upstream = self._require_parent()
        self.enter()
        self._require_not_ending()
        parent._advance_to(self.now)
        parent._ask_of_growth(wanted)
        self._make_owed_passes()  # the parent renews its reservations before anything is taken
        self._require_open()
        self._require_not_ending()
        if isinstance(self.inventory, NamedInventory) and self.inventory.has_parts_of(upstream.above.structure):
            self.use_graph()  # its pool of one unit may get more of them
        try:
            ask = parent._ask_of_growth(wanted)
            if ask is not None:
                given = parts.grow_interchangeably(self, upstream, parent, ask)
            else:
                given = parts.grow(self, upstream, wanted, parent.match_policy)
            parent._child_resized(upstream.job)
            return given
        finally:
            self._note_suppliers()
            self._follow_up()

    def _child_resized(self, job: Job) -> None:
        """The child of a job has grown or shrunk: the job holds other units, also for the accounting and the policy."""
        if isinstance(self.inventory, GraphInventory):
            self.inventory.recount(job.claim)
        if self.ledger is not None and not job.is_booking:
            self.ledger.resized(job)
        if self._log:
            self._log_event(job, "resource-update", size=job.size, expiration=seconds(job.limit))
        if "resized" in self.hooks:
            with Guard(self.policy):
                self.policy.resized(job, seconds(self.now))

    def _note_suppliers(self) -> None:
        """Note that a child draws from suppliers that it shares with others."""
        linked = self._graph.structure.accounts.linked
        self.time.has_suppliers = self.time.has_suppliers or (linked is not None and bool(linked.any()))

    @writing
    def shrink(self, wanted: Targets) -> list[str]:
        """Return pools to the parent (RFC 4 Unlink), which may allocate them immediately.

        Args:
            wanted: pools without jobs, with all their units, by path or handle; or free units of one pool with nothing below it.

        Errors: UsageError without a parent, or for some units of other pools; NotHeld for pass-through pools; StillHeld; nothing
        changes then.
        """
        parent, upstream = self._require_parent()
        self.enter()
        parent._advance_to(self.now)
        try:
            given = parts.shrink(self, upstream, parent, wanted)
            parent._child_resized(upstream.job)
            parent.supply_changed()
            parent.supplies_returned()
            for one in (parent, self):
                one.owe_pass()
            return given
        finally:
            self._follow_up()  # renews the dropped reservations

    @writing
    def shrink_idle(self, units: int) -> int:
        """Return at most that many units that are free now to the parent, of the type in which sizes are measured.

        Nothing is returned while a job is at its limit and its end is not reported yet: it still holds its units.

        Returns: their number. Errors: as `shrink`.
        """
        self.enter()
        self.queue.unreserve()
        running = self.inventory.running
        is_at_limit = bool(running.lapsed or running.ending_by(self.now))
        pools = self.inventory.idle(units, self.now) if units > 0 and not is_at_limit else []
        if pools:
            self.shrink(dict(pools))
        return sum(amount for _, amount in pools)

    def _ask_of_growth(self, wanted: Targets | Wanted) -> Ask | None:
        """What a child wants in the form of an inventory of interchangeable units; None if the resource graph is used for it."""
        if self.inventory.kind != "graph" and targets.is_request(wanted, self._graph):
            with suppress(NotUniform):
                return self.inventory.ask(as_request(wanted))
        self.use_graph()
        return None

    def use_graph(self) -> None:
        """Have the records of the graph hold everything that jobs hold, which a change of its shape requires.

        Errors: UsageError for a fixed inventory other than the graph.
        """
        if self.inventory.kind != "graph":
            if not self.is_adaptive:
                raise UsageError(
                    f"an instance on inventory {self.inventory.kind} can give and take only whole interchangeable pools",
                    where=self.address,
                    hint="use inventory='graph' or 'auto'",
                )
            self._adapt(None)

    def _require_parent(self) -> tuple[Instance, ParentSupply]:
        upstream = self.holdings.upstream
        if self.parent is None or upstream is None:
            raise UsageError("this instance has no parent", where=self.address)
        return self.parent, upstream

    def _require_not_ending(self) -> None:
        if self.is_ending:
            raise StaleHandle("this instance is ending", where=self.address)

    def supply_changed(self) -> None:
        """Let the next pass consider all jobs again, because more may be free than before."""
        self.inventory.forget_failures()
        self.queue.changed = True

    def take_offer(self) -> None:
        """Get a pass, or another round of the current one, since something was freed that waiting jobs may use."""
        if len(self.queue) and not self.is_closed:
            self.supply_changed()
            if self.queue.is_running:
                self.queue.request_round()
            else:
                self.owe_pass()

    def drop_reservations(self) -> bool:
        """Drop the reservations, so that others get what was reserved; returns whether there were any."""
        if not self.queue.reserved:
            return False
        self.queue.unreserve()
        self.supply_changed()
        return True

    def supplies_returned(self) -> None:
        """Note that something may have been freed that other instances can use: all of them get a pass."""
        self.queue.changed = True
        self.time.note_return()

    def _note_elsewhere(self) -> None:
        """Note that the graph now shows what other instances draw, which is not a change for `refresh_if_changed`."""
        if self.inventory.revision == self._graph.revision - 1:
            self.inventory.revision = self._graph.revision
        self.supply_changed()

    # -- the end of an instance --------------------------------------------------------------------------------------

    @writing
    def close(self, status: int = 0) -> None:
        """End this instance, and its job with `status`: cancel its jobs and close its children.

        It is closed when the last of its jobs has ended: immediately, unless their runner needs time to stop them.  Then its
        parent gets back everything that it had (rule T1).  Closing a closed instance does nothing.
        """
        if not self.is_closed:
            self._advance_to(self.time.read_clock())
        self.shut("the instance is closed")
        parent, job = self.parent, self.job_in_parent
        if parent is not None and job is not None and job.state in states.RUNNING and not self._job_has_finished:
            parent._advance_to(parent.time.now)
            parent._finish(job, status)
            parent._follow_up()

    @writing
    def fail(self, note: str = "") -> None:
        """End this instance and its job in the parent as failed."""
        parent, upstream = self._require_parent()
        self.enter()
        self.shut(note or "the instance failed")
        parent._raise_from_child(upstream.job, states.EXEC, note)

    @writing
    def shut(self, why: str, kind: str = "cancel") -> None:
        """End all jobs here and below, but not the job in the parent.  The instance closes when the last of them has ended.

        Args:
            kind: of the exception that ends them.
        """
        if self.is_closed or self.is_ending:
            return
        self.now = self.time.now
        self.is_ending, self.policy, self.hooks, self.expires = True, _Ended(), frozenset(), FOREVER
        for job in list(self._jobs.values()):
            if job.number in self._jobs and job.state is not State.CLEANUP:
                self.raise_exception(job, kind, states.FATAL, why)
        if not self._jobs:
            self._end()

    def _end(self) -> None:
        """Close the instance, in which no job is active any more."""
        if self.is_closed:
            return
        self.is_closed = True
        self.ids.release()
        if (upstream := self.holdings.upstream) is not None:
            upstream.close()
        if self.parent is not None and self.job_in_parent is not None:
            self.parent._child_closed(self.job_in_parent, has_finished=self._job_has_finished)

    def _child_closed(self, job: Job, *, has_finished: bool) -> None:
        del self._children[job.number]
        if has_finished:
            self.now = self.time.now
            self._clean(job)
            if self.time.still:
                self._follow_up()
            else:
                self.owe_pass()  # events that are due here may not have been handled yet

    def _end_child(self, job: Job) -> bool:
        """End the child of a finished job; returns True if it was closed already, and the caller has to clean up the job."""
        child = self._children.get(job.number)
        if child is None:
            return True
        child._job_has_finished = True  # a runner that stops jobs there may close it, or report the end of this job again
        child.shut("the job that held its resources has ended")
        return False  # the child calls `_child_closed`, or has done so

    def _raise_from_child(self, job: Job, kind: str, note: str) -> None:
        """End a running job by an exception; the caller has advanced time."""
        if job.state is State.RUN:
            self._advance_to(self.time.now)
            self.raise_exception(job, kind, states.FATAL, note)
            self._follow_up()

    @writing
    def set_expiration(self, at_s: Time | None) -> None:
        """Set when this instance expires, with exception timelimit on its jobs; None for when its job ends.

        Errors: UsageError for a moment after the limit of its job.
        """
        moment = FOREVER if at_s is None else ticks(at_s, "expiration", self.time.now)
        self.enter()
        self._require_not_ending()
        most = FOREVER if self.job_in_parent is None else self.job_in_parent.limit
        if at_s is not None and moment > most:
            raise UsageError(f"its job in the parent ends at {seconds(most)}", where=self.address, hint="extend that job first")
        self.expires_given = moment
        self._expire_at(min(moment, most))
        self._advance_to(self.time.read_clock())

    @property
    @writing
    def expires_at(self) -> float | None:
        """When this instance expires, in seconds; None for never."""
        return None if self.expires >= FOREVER else seconds(self.expires)

    def _expire_at(self, moment: int) -> None:
        if self.expires <= self.now < moment:
            self.owe_pass()  # no job was started at the moment of the former expiration
        self.expires = moment
        self.announce(moment)

    def _expire(self) -> None:
        """End this instance at its expiration: its jobs, and its job in the parent."""
        self.shut("the instance expires", "timelimit")
        if self.parent is not None and self.job_in_parent is not None:
            self.parent._raise_from_child(self.job_in_parent, "timelimit", "the instance expires")


class _Ended(QueuePolicy):
    """The policy of an instance that is ending: no job starts."""

    name = "over"

    def schedule(self, queue: Queue) -> None:
        pass


def _keep_event(job: Job, event: JobEvent) -> None:
    if job.events is None:
        job.events = []
    job.events.append(event)


def _another(policy: QueuePolicy) -> QueuePolicy:
    """A policy of the same class for a child.

    Errors: UsageError if that takes arguments.
    """
    try:
        return type(policy)()
    except TypeError:
        message = f"a child needs a policy of its own, and {policy.name} cannot be made without arguments"
        raise UsageError(message, hint="give queue_policy") from None


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
            raise UnknownJob(error.message, hint=error.hint) from None
    if isinstance(job, int) and not isinstance(job, bool):
        return int(job)
    raise UsageError(f"a job is named by its id, not by {job!r:.80}")
