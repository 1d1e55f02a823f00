"""The simulator, an event loop: a workload is submitted to instances, jobs run as long as the workload says, and a clock jumps
from event to event.

The instances are the same that schedule real jobs; only time and the running of jobs are simulated.  Events are handled one
after the other, each with the pass it causes: at one moment, submissions come before ends, and ends in the order of starts.  Or
all events of a moment are handled before one pass, ends first.  Each order makes results agree with other simulators for every
job (specs/simulation.md).  If decisions cost time, a pass is divided into single decisions, each of which keeps its instance
busy.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Literal

from fluxres import limits
from fluxres.clock import FOREVER, processor_time, seconds, ticks
from fluxres.documents import arguments
from fluxres.errors import (
    FluxresError,
    InfeasibleRequest,
    InputError,
    InsufficientResources,
    LimitExceeded,
    PolicyError,
    RunFailed,
    UnknownJob,
    UsageError,
)
from fluxres.instance import Instance, Job
from fluxres.instance.accounting import given as rules_given
from fluxres.instance.charged import Charged
from fluxres.instance.job import NEVER, URGENCY_DEFAULT, Scheduler
from fluxres.instance.policy import policy
from fluxres.instance.queue import Endless, QueuePolicy, is_built_in, policy_error
from fluxres.instance.runner import NOT_STARTED, STOPPED
from fluxres.instance.states import RUNNING, State
from fluxres.instance.watchdog import watching
from fluxres.model import matching
from fluxres.simulation import exclusions
from fluxres.simulation.adaptive import malleable as resizing
from fluxres.simulation.costs.cost import Cost
from fluxres.simulation.costs.cost import parse as cost_of
from fluxres.simulation.costs.decision import Decision
from fluxres.simulation.costs.overheads import LevelCost, by_level
from fluxres.simulation.disturbances.attempts import NOTHING_SAVED, History
from fluxres.simulation.disturbances.external import AdvanceReservation, Disturbances, External
from fluxres.simulation.disturbances.losses import LossSink
from fluxres.simulation.energy import feed
from fluxres.simulation.energy.energy import Energy
from fluxres.simulation.energy.feed import with_fleet
from fluxres.simulation.events import (
    EVENT_ORDERS,
    BootEvent,
    CorrectionEvent,
    DisturbanceEvent,
    EndEvent,
    Event,
    EventQueue,
    FollowEvent,
    KeepEvent,
    LaunchedEvent,
    PassEvent,
    PeriodEvent,
    ReadyEvent,
    ServedEvent,
    SimulatedClock,
    SubmitEvent,
    TimerEvent,
)
from fluxres.simulation.machine import Machine, of_processors
from fluxres.simulation.machine import read as read_machine
from fluxres.simulation.metrics import RunningMetrics
from fluxres.simulation.nesting.families import Families
from fluxres.simulation.nesting.hierarchy import Hierarchy, require_units, shares
from fluxres.simulation.nesting.processor import DECISION, INGEST, SPAWN, Processor
from fluxres.simulation.nesting.processors import Processors
from fluxres.simulation.nesting.sites import ChildPayload, InstanceRow, Site
from fluxres.simulation.prediction.prediction import ErrorSink, Prediction
from fluxres.simulation.result import Refusals, Result
from fluxres.simulation.results.numbering import AsItWas
from fluxres.simulation.schedule import Finished, Schedule, Sink, Sinks
from fluxres.simulation.workload.feedback import Feedback, require_kind
from fluxres.simulation.workload.models import Ensemble
from fluxres.simulation.workload.reading import read
from fluxres.simulation.workload.workload import Submission, Workload, of_list
from fluxres.syntax.jobspec import Request, parse_shape

if TYPE_CHECKING:
    from fluxres.instance.accounting import Accounting
    from fluxres.model import ResourceGraph


@contextmanager
def _without_collection() -> Iterator[None]:
    """Collect no garbage during a measurement: a collection visits the objects of the entire program, not of one decision."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_SHOWN_EVERY = 1024
_ENDS_OUT_OF_ORDER: Final = (exclusions.OVERHEADS, exclusions.EVENTS, exclusions.PREEMPTION, exclusions.RESIZING)
"""Features with which records come later than the ends of all that jobs held."""
_AHEAD_LEAST = 64


class Simulator:
    """A machine, instances on it, and simulated time.

    Args:
        machine: what the workload runs on.
        queue_policy, match_policy: of the instance, if there is not a hierarchy.
        size_policy: of all instances: which size a job gets that may have several.
        resize_policy: of all instances: when running malleable jobs change their sizes.
        inventory: of all instances.
        hierarchy: levels of instances.
        cost: cost model of decisions, with or without other costs of instances, or one for each level from the outermost on, of
            which the last applies to all further ones; None for no cost.
        event_order: of the events of one moment, a key of `EVENT_ORDERS`.
        disturbances: failures, repairs, reservations and other events that no job causes.
        accounting: partitions, QOS, accounts and users with limits, if there is one instance; also a mapping as a file has it.
        energy: what nodes draw, and when they are switched off; by default what their properties say, and never; "none": not
            counted.
        prediction: of run times, with which policies plan; None: with limits.
        feedback: which jobs are submitted after others have ended, as of `feedback.Feedback`; None: all at their times.
        sinks: receive every finished job; a run ends if one of them raises.
        keep: whether to keep the schedule.
    """

    keeps_limits = True  # as the runner of its instances: no job exceeds its limit
    defects = (RunFailed,)
    _endless: LimitExceeded | None = None
    """The error that names a job interrupted too often."""

    def __init__(  # noqa: PLR0913  # the parts of a simulation
        self,
        machine: Machine | ResourceGraph,
        *,
        queue_policy: str | QueuePolicy = "easy",
        match_policy: str = "first",
        size_policy: str = "requested",
        resize_policy: str = "none",
        inventory: str = "auto",
        hierarchy: Hierarchy | None = None,
        cost: Cost | LevelCost | Sequence[Cost | LevelCost | None] | None = None,
        event_order: str = "sequential",
        disturbances: Disturbances | None = None,
        accounting: Accounting | Mapping[str, Any] | None = None,
        energy: Energy | Literal["none"] | None = None,
        prediction: Prediction | None = None,
        feedback: str | None = None,
        sinks: Iterable[Sink] = (),
        keep: bool = True,
    ) -> None:
        if event_order not in EVENT_ORDERS:
            raise UsageError(f"event_order: expected {' or '.join(EVENT_ORDERS)}, got {event_order!r:.80}")
        self.machine, self.fleet = with_fleet(machine if isinstance(machine, Machine) else Machine(machine), energy)
        self.hierarchy = hierarchy if hierarchy is not None else Hierarchy()
        self.costs = by_level(cost, self.hierarchy.levels)
        self.malleable = resizing.MalleableJobs(resizing.parse(resize_policy), self._move_end)
        self.accounting = None if accounting is None else rules_given(accounting)
        self.prediction = prediction
        self.feedback: Feedback | None = None
        self._feedback_kind = feedback
        self._set_disturbances(disturbances if disturbances is not None else Disturbances())
        self._require_compatible()
        self.clock = SimulatedClock()
        self.events = EventQueue(EVENT_ORDERS[event_order])
        self._set_passes(is_batched=event_order == "batched")
        self.instance = Instance(
            self.machine.graph,
            queue_policy=queue_policy if hierarchy is None else hierarchy.queue_policy(0),
            match_policy=match_policy if hierarchy is None else hierarchy.match_policy(0),
            size_policy=size_policy,
            clock=self.clock,
            inventory=inventory,
            runner=self,
            sink=self._over,
            events=False,
            passes="manual" if self._is_stepped else "event",
            accounting=self.accounting,
        )
        self.instance.measure_in(self.machine.unit)
        self.families = Families(self, self.hierarchy)
        self._set_measures(sinks, keep=keep)
        self._set_state()

    def _set_disturbances(self, given: Disturbances) -> None:
        self.checkpoint = given.checkpoint
        self.external = External(self, given.events, given.on_failure)
        self.has_external = self.external.next is not None
        self.histories: dict[Job, History] = {}
        """Of jobs that were interrupted."""

    def _require_compatible(self) -> None:
        """Errors: UsageError for features that exclude each other, and a kind of feedback that does not exist."""
        self.features = exclusions.features(
            self.hierarchy,
            self.costs,
            has_events=self.has_external,
            on_failure=self.external.on_failure,
            checkpoint=self.checkpoint,
            accounting=self.accounting,
            has_prediction=self.prediction is not None,
            has_feedback=self._feedback_kind is not None,
            fleet=self.fleet,
            resizes=self.malleable.policy.is_needed,
        )
        if (excluded := exclusions.found(self.features)) is not None:
            raise excluded.error()
        if self._feedback_kind is not None:
            require_kind(self._feedback_kind)

    def _set_passes(self, *, is_batched: bool) -> None:
        """Whether passes and other work of instances take time, and who makes the passes."""
        takes_time, has_work = exclusions.DECISIONS in self.features, exclusions.OVERHEADS in self.features
        self.processors = Processors(self, self.hierarchy.starts_per_node) if has_work else None
        self._is_batched = is_batched
        self._is_stepped: bool = takes_time or is_batched or self.prediction is not None
        """Whether the simulator makes the passes, as events of their own."""
        self._starting: list[Job] | None = [] if takes_time else None
        """The jobs that the current decision starts; None if decisions take no time."""

    def _set_measures(self, sinks: Iterable[Sink], *, keep: bool) -> None:
        """What is recorded of a run, and for whom."""
        self.schedule = Schedule() if keep else None
        self.running = RunningMetrics(self.machine.count, is_ordered=self.features.isdisjoint(_ENDS_OUT_OF_ORDER))
        if self.has_external:
            self.running.area_of = lambda begin, end: self.external.areas(begin, end)[1]
        self.losses = LossSink()
        self.predictions = ErrorSink()
        own = (self.running, self.losses, *([self.schedule] if self.schedule is not None else ()))
        own += () if self.prediction is None else (self.predictions,)
        self.sinks = Sinks([*own, *arguments.items(sinks, "sinks", "objects with the methods add and close", "write sinks=[…]")])
        self.refusals = Refusals()
        self.errors: list[str] = []
        self.rows: list[InstanceRow] = []

    def _set_state(self) -> None:
        """What changes while a workload runs."""
        self._workload = Workload("jobs", ())
        self._may_name_others = False
        """Whether jobs of the workload may depend on others."""
        self._sites: dict[Scheduler, Site] = {}
        self._known_charged: dict[tuple[str | None, ...], Charged] = {}
        self._begin_at = FOREVER
        """The first submission."""
        self._active_at = 0
        """When an event last had a consequence."""
        self._last_ended: Job | None = None
        self._made = 0
        """Instances that have begun: the number of the next one."""
        self._arrived = 0
        """Jobs of the workload that have arrived at their instances."""
        self._arrived_inner = 0
        """The same, with the jobs of its instance in place of a job that has one."""
        self._to_follow = 0
        """Jobs that will be submitted at a known time, since those they follow have ended."""
        self._never = 0
        """Jobs that were never submitted because the instance of their job had ended."""
        self._ended = 0
        """Jobs that have ended."""
        self._handled = 0
        """Events."""
        self._idle_events = 0
        """External events in a row after which nothing else was to come."""
        self._idle_wakeups = 0
        """Passes in a row that a policy had asked for, after which nothing else was to come."""
        self._supplies_seen = 0
        """How often instances had returned units of shared suppliers when all others were last told."""

    # -- the runner of the instances -----------------------------------------------------------------------------------

    def start(self, job: Job) -> None:
        """Run a job that has its resources: it ends after its run time, or at its limit."""
        if self._starting is not None:
            self._starting.append(job)
            return
        try:
            self._begin(job, self.clock.now)
        except FluxresError:
            raise
        except Exception as error:
            raise _defect(job, error) from error

    def _begin(self, job: Job, moment: int) -> None:
        what = job.payload
        if isinstance(what, AdvanceReservation):
            if job.limit < FOREVER:
                self.events.push(job.limit, EndEvent(job))
            return
        is_submission = isinstance(what, Submission)
        is_instance = not is_submission or what.jobs
        if self.fleet is not None and not is_instance:
            moment = self._switch_on(job, moment)
        if is_submission and (not is_instance or job.limit < FOREVER):
            if self.malleable.policy.is_needed and what.adaptive is not None and what.adaptive.is_malleable:
                end = self.malleable.begin(job, what.run, what.adaptive, moment)
            else:
                end = job.limit if is_instance else self._end_of(job, what, moment)
            history = self.histories.get(job) if self.histories else None
            if history is not None:
                history.ends = end
            self.events.push(end, EndEvent(job, self._plan_of(job)))
            if job.limit < end:
                self.events.push(job.limit, CorrectionEvent(job))
        if is_instance:
            site = self._sites.get(job.instance)
            if site is None or site.processor is None or self.processors is None:
                self._boot_at(moment + ticks(self.hierarchy.boot_s), job)
            else:
                self.processors.put(site, SPAWN, job)

    def _switch_on(self, job: Job, moment: int) -> int:
        """Let a job wait until its nodes are on; returns the moment at which it starts."""
        assert self.fleet is not None  # the caller has looked
        if self.processors is not None:  # it has waited before its launch
            self.fleet.run(job, moment)
            return moment
        ready = self.fleet.start(job, self.clock.now, moment)
        if ready > moment:
            job.started = ready
        return ready

    def _end_of(self, job: Job, given: Submission, start: int) -> int:
        """When a job ends that starts at a moment, if nothing interrupts it."""
        return min(start + min(self._length(job, given), self._own_limit(job)), job.last_end)

    def _own_limit(self, job: Job) -> int:
        """How long a job may run, without the time that was added in case it waits for its nodes."""
        has_none = job.duration >= FOREVER or (
            job.payload.limit >= FOREVER and self.accounting is None
        )  # or that of its partition
        if self.fleet is None or has_none:
            return job.duration
        return job.duration - self.fleet.longest_wait

    def _move_end(self, job: Job, end: int) -> None:
        """A malleable job ends at another moment, since its size has changed."""
        if self.fleet is not None:
            self.fleet.resize(job, self.clock.now)
        self.events.push(end, EndEvent(job, self._plan_of(job)))

    def _plan_of(self, job: Job) -> object:
        """What distinguishes the planned end of a job from those of earlier attempts and sizes; None for a job without."""
        if (progress := self.malleable.running.get(job)) is not None:
            return progress.plan
        history = self.histories.get(job) if self.histories else None
        return None if history is None else len(history.earlier)

    def _length(self, job: Job, given: Submission) -> int:
        """How long an attempt of a job takes, if nothing interrupts it."""
        if self.checkpoint is NOTHING_SAVED and not self.histories and given.adaptive is None:
            return given.run
        return self.checkpoint.length(*self._work(job, given))

    def _work(self, job: Job, given: Submission) -> tuple[int, bool]:
        """The work of an attempt, as the time that it takes at the size of the job, and whether it goes on from a checkpoint."""
        history = self.histories.get(job) if self.histories else None
        work, is_restart = (given.run, False) if history is None else (history.run - history.saved, history.saved > 0)
        return int(work) if given.adaptive is None else given.adaptive.length(work, _size(job)), is_restart

    def stop(self, job: Job, why: str) -> None:
        """End a job now."""
        if job.is_requeued and isinstance(job.payload, Submission):
            try:
                self._interrupt(job)
            except FluxresError:
                raise
            except Exception as error:
                raise _defect(job, error) from error
        job.instance.finish(job, STOPPED)

    def _interrupt(self, job: Job) -> None:
        """Note an attempt of a job that will wait again."""
        given, now = job.payload, self.clock.now
        history = self.histories.setdefault(job, History(given.run))
        saved = self.checkpoint.saved(max(now - job.started, 0), *self._work(job, given))
        history.earlier.append(self._record(job, now, "failed"))
        if len(history.earlier) >= limits.ATTEMPTS_MAX:
            self._endless = _never_done(given, history)  # raised by the event loop: here, a pass would note it on the job
        self.malleable.running.pop(job, None)
        history.saved += saved if given.adaptive is None else given.adaptive.at_preferred(saved, _size(job))
        history.ends = -1

    # -- the event loop ----------------------------------------------------------------------------------------------

    def run(self, workload: Workload | Iterable[Submission], progress: Callable[[int], None] | None = None) -> Result:
        """Run a workload to its end.

        Args:
            progress: called now and then with the number of jobs that have ended.

        Errors: InputError for a workload that is not sorted, or depends on jobs that were not submitted before; ListenerError if
        a sink raises, an OSError or FluxresError unchanged. The run then ends with the event at hand: every sink has got each job
        that had ended, and is closed. `Result.errors` reports a queue policy that raises, which ends its instance, and one that
        starts no job in the end, although there is room for each that waits.
        """
        self._read(workload)
        used = [self.instance.policy, *map(policy, self.hierarchy.queue_policies)]
        with self.sinks, watching(lambda: [site.instance for site in list(self._sites.values())], used):
            self._begin_run()
            self._handle_events(progress)
            self._note_idle_policies()
        if self.fleet is not None and self.fleet.cap is not None:  # it may change long after the last job
            self._active_at = min(self._active_at, self.running.last_end)
        for site in list(self._sites.values()):
            self.rows.append(site.row(self._begin_at, self._active_at))
        return self.result()

    def _read(self, given: Workload | Iterable[Submission]) -> None:
        """Take the workload, in whatever form it is given, and find what follows what in a closed loop."""
        self._may_name_others = False
        if isinstance(given, Workload):
            self._workload, self._may_name_others = given, given.has_dependencies
        elif isinstance(given, Ensemble):
            self._workload = Workload("ensemble", given)
        elif isinstance(given, list | tuple) or self._feedback_kind is not None:
            self._workload = of_list(given if isinstance(given, list | tuple) else list(given))
            self._may_name_others = self._workload.has_dependencies
        else:  # its jobs are only seen one after the other
            self._workload, self._may_name_others = Workload("jobs", given), True
        if self._feedback_kind is not None:
            self._workload.submissions = jobs = list(self._workload.submissions)
            self.feedback = Feedback(jobs, self._feedback_kind, self.external.notes)

    def _begin_run(self) -> None:
        """Make what happens first: the power cap, the first external event, and the outermost instance with its share."""
        if self.fleet is not None and self.instance.ledger is not None:
            self.instance.ledger.lead = self.fleet.longest_wait
        if self.fleet is not None and self.fleet.cap is not None:
            feed.reserve(self.fleet.cap, self.instance, self.fleet, AdvanceReservation(feed.GRAPH, 0, 0))
        self._await_external()
        self._site(self.instance, self.machine, ChildPayload(0, 0), None, self._share(ChildPayload(0, 0)))

    def _handle_events(self, progress: Callable[[int], None] | None) -> None:
        handlers, clock = self._handlers(), self.clock
        for clock.now, event in self.events:
            self._handled += 1
            try:
                handlers[type(event)](event)
            except (PolicyError, Endless) as error:
                self._stop(event.site_in(self), error)
            if self._endless is not None:
                raise self._endless
            if self.sinks.deferred.first is not None:
                return  # they raise it when they are closed
            if progress is not None and not self._handled % _SHOWN_EVERY:
                progress(self._ended)

    def _note_idle_policies(self) -> None:
        """Report the policies that leave jobs waiting at the end which they could start."""
        for site in self._sites.values():
            error = None if site.instance.is_closed else site.instance.queue.starts_nothing(_name)
            if error is not None:
                self.errors.append(f"{site.instance.address}: {error}")

    def _handlers(self) -> dict[type[Event], Callable[[Any], None]]:
        found: dict[type[Event], Callable[[Any], None]] = {
            SubmitEvent: self._on_submit,
            FollowEvent: self._on_follow,
            TimerEvent: self._on_timer,
            BootEvent: self._on_boot,
            EndEvent: self._on_end,
            PassEvent: self._on_pass,
            DisturbanceEvent: self._on_disturbance,
            PeriodEvent: self.families.end_period,
            CorrectionEvent: self._on_correct,
        }
        if (processors := self.processors) is not None:
            found |= {
                KeepEvent: lambda event: processors.keep(event.job),
                ServedEvent: processors.complete,
                LaunchedEvent: lambda event: processors.launched(event.launch),
                ReadyEvent: lambda event: processors.ready(event.launch),
            }
        return found

    def result(self) -> Result:
        left = sum(_left_of(job) for one in self._sites.values() for job in one.instance.jobs())
        total = self._workload.count
        if total is not None and total > self._arrived:  # of instances that have ended or never started
            left += sum(job.number for job in self._workload) - self._arrived_inner
        left += self._never + sum(site.drain() for site in self._sites.values() if site.place < 0)
        rows = sorted(self.rows, key=lambda row: row.number)
        waiting = (job.limit_reached.removeprefix(NEVER) for one in self._sites.values() for job in one.instance.jobs())
        reasons = Counter(filter(None, waiting))
        return Result(
            self.schedule,
            self.running.metrics(),
            self.refusals,
            self.errors,
            left,
            self._handled,
            rows,
            reasons,
            self.losses.losses(self.external.areas) if self.has_external or self.losses.interruptions else None,
            None if self.fleet is None else self.fleet.use(),
            None if self.prediction is None else self.predictions.errors(),
            self.external.notes,
            self.external.blocked.until(self._active_at) if self.has_external else [],
            self.running.area_of,
        )

    def _share(self, what: ChildPayload) -> Iterator[Submission]:
        """The jobs that are submitted to an instance of the hierarchy."""
        hierarchy, workload = self.hierarchy, self._workload
        if self.feedback is not None:
            return iter(self.feedback.first)
        is_leaf = what.level == hierarchy.levels - 1
        if not workload.has_levels:
            return workload.share(what.place, hierarchy.leaves) if is_leaf else iter(())
        return workload.share_of_level(what.level, what.place, hierarchy.fan_outs)

    def _site(
        self, instance: Instance, machine: Machine, what: ChildPayload, job: Job | None, feed: Iterator[Submission]
    ) -> None:
        """Start an instance: it makes its children, and takes its share of the workload."""
        hierarchy, is_nested = self.hierarchy, what.place < 0
        ahead = 0 if is_nested else self._ahead(machine)
        cost = self.costs[min(what.level, len(self.costs) - 1)]
        site = Site(self._made, instance, machine, what, feed, ahead, self.clock.now, cost)
        self._made += 1
        self._sites[instance] = site
        if self.processors is not None:
            site.processor = Processor(cost.overheads)
        # Ids are remembered only if later jobs may name them: for a million jobs they take most of the memory.
        instance.dependencies.remembers = self._may_name_others or self.has_external
        if job is not None:
            site.parent, site.job = self._sites[job.instance], job
            self.families.add(site)
        if not is_nested and what.level < hierarchy.levels - 1:
            self._divide(site, what)
        self._announce(site)
        self._settle(site)

    def _ahead(self, machine: Machine) -> int:
        """How many jobs may wait before the next one is taken: a million at once would fill the memory and change nothing."""
        if self.hierarchy.ahead is not None:
            return self.hierarchy.ahead
        return max(_AHEAD_LEAST, 4 * machine.count) if isinstance(self._workload.submissions, Ensemble) else 0

    def _divide(self, site: Site, what: ChildPayload) -> None:
        number = self.hierarchy.fan_outs[what.level]
        by, finest = self.hierarchy.divides(what.level), "" if self._workload.has_requests else self.machine.unit
        sizes: Sequence[int] = self.hierarchy.sizes_of(what.level)
        if sizes:
            unit = by or self.machine.unit
            require_units(site.machine.graph, unit, sizes, site.instance.address)
        else:
            unit, sizes = shares(site.machine.graph, number, site.instance.address, by=by, finest=finest)
        site.children_left = number
        if what.level == self.hierarchy.levels - 2:
            self.families.expect(site, number)
        any_partition = {"system": {"queue": None}}
        requests = {size: Request(parse_shape(f"slot={size}/{unit}"), attributes=any_partition) for size in set(sizes)}
        for child, size in enumerate(sizes):
            try:
                self._submit_child(site, requests[size], ChildPayload(what.level + 1, what.place * number + child))
            except InfeasibleRequest as error:
                if exclusions.CAP not in self.features:
                    raise
                place = f"an instance of {size} units below {site.instance.address}"
                hint = "it may draw what all its nodes draw: give a higher cap, or more and smaller instances"
                raise InfeasibleRequest(error.message, where=place, hint=hint) from error

    def _submit_child(self, site: Site, request: Request, payload: ChildPayload) -> None:
        """Submit the job of an instance of the hierarchy."""
        now = site.instance.enter()
        limit = _within_partition(site, request, FOREVER)
        site.instance.submit_request(request, limit, now, URGENCY_DEFAULT, None, None, (), payload)

    def _submit_job(self, site: Site, given: Submission, limit: int) -> Job:
        """Submit a job of the workload to an instance.

        Errors: InfeasibleRequest, InsufficientResources and LimitExceeded if it can never run there.
        """
        instance, request = site.instance, site.request(given)
        now = instance.enter()
        limit = _within_partition(site, request, limit)
        planned = FOREVER
        if self.prediction is not None and not given.jobs:
            planned = self.checkpoint.limit(self.prediction.predict(given))
            planned += 0 if self.fleet is None else self.fleet.longest_wait
        waits_for = list(self._resolved(site, given)) if given.dependencies else ()
        charged = self._charged(given) if given.user is not None or self.accounting is not None else None
        sizes = None if given.adaptive is None else site.sizes(given, given.adaptive, self._extended)
        urgency, name, user = given.urgency, given.name, given.user
        return instance.submit_request(request, limit, now, urgency, name, user, waits_for, given, charged, planned, sizes)

    def _extended(self, limit: int) -> int:
        """A limit with the time for saves, a restart and waiting for nodes."""
        limit = self.checkpoint.limit(limit)
        return limit if self.fleet is None or limit >= FOREVER else limit + self.fleet.longest_wait

    def _unsupported(self, job: Submission) -> str | None:
        """What does not go together with the kind of a job."""
        if job.adaptive is None and not job.jobs:
            return None
        own = exclusions.features_of(job, resizes=self.malleable.policy.is_needed)
        excluded = exclusions.found(self.features | own, of_jobs=True)
        return None if excluded is None else excluded.message

    def _charged(self, job: Submission) -> Charged:
        """To whom a job is charged; equal ones are one object."""
        by_queue = self.accounting is None or self.accounting.partition_of_jobs == "queue"
        key = (job.user, job.account, job.qos, job.queue if by_queue else job.partition)
        found = self._known_charged.get(key)
        if found is None:
            found = self._known_charged[key] = Charged(*key)
        return found

    # -- how a job of the workload gets into a queue -------------------------------------------------------------------
    #
    # Its event comes, and it arrives at its instance, whose processor may have to ingest it first.  The instance receives it: it
    # submits it to its queue if it can, else offers it to others, else refuses it.

    def _announce(self, site: Site) -> None:
        if not site.is_coming and site.wants_more and site.upcoming is not None:
            site.is_coming = True
            self.events.push(max(site.upcoming.submit, self.clock.now), SubmitEvent(site))

    def _on_submit(self, event: SubmitEvent) -> None:
        site = event.site
        job = site.upcoming
        site.is_coming = False
        if job is None or site.instance.is_closed:
            return  # its instance or one above was stopped after the event was queued
        site.take_next()
        self._arrive(site, job)

    def _on_follow(self, event: FollowEvent) -> None:
        self._to_follow -= 1
        if not self.instance.is_closed:
            self._arrive(self.outermost, event.job)

    def _plan_followers(self, job: Submission) -> None:
        """Schedule the submission of the jobs that follow one that has ended."""
        for moment, follower in () if self.feedback is None else self.feedback.ended(job.id, self.clock.now):
            self._to_follow += 1
            self.events.push(moment, FollowEvent(follower))

    def _arrive(self, site: Site, job: Submission) -> None:
        """A job arrives at its instance, unless it has to wait for one that it depends on."""
        if self.feedback is not None:
            if self.feedback.is_early(job):
                self._announce(site)
                return
            for dependent in self.feedback.submitted(job, self.clock.now):
                self._to_follow += 1
                self.events.push(self.clock.now, FollowEvent(dependent))
        if site.place >= 0:
            self._arrived += 1
            self._arrived_inner += job.number
        self._begin_at = min(self._begin_at, job.submit)
        if self.fleet is not None:
            self.fleet.begin(job.submit)  # it may have waited for its instance to begin
        if self.processors is not None:
            self.processors.put(site, INGEST, job)
            self._announce(site)
        else:
            self.receive(site, job)

    def receive(self, site: Site, job: Submission) -> None:
        """Put a job that has arrived into the queue of its instance, or of another one that can run it, or refuse it."""
        problem = self._try_submit(site, job)
        if problem is not None and self.families.make_room(site, job):
            problem = self._try_submit(site, job)
        if problem is not None and (problem := self._pass_on(site, job, problem)) is not None:
            self.refusals.add(job.id, problem, job.number)
            if self.prediction is not None:
                self.prediction.end(job)
            if site.place >= 0:
                self._plan_followers(job)
            if site.instance.dependencies.remembers:
                site.names[str(job.id)] = None
        self._announce(site)
        self._settle(site)

    def _try_submit(self, site: Site, job: Submission) -> str | None:
        """Submit a job to an instance; returns why it can never run there, or None."""
        if (problem := self._unsupported(job)) is not None:
            return problem
        try:
            limit = job.limit
            if self.checkpoint is not NOTHING_SAVED and not job.jobs:
                limit = self.checkpoint.limit(limit)
            if self.fleet is not None and not job.jobs and limit < FOREVER:
                limit += self.fleet.longest_wait
            made = self._submit_job(site, job, limit)
        # never, undecided even on the idle machine, or not accepted by its partition
        except (InfeasibleRequest, InsufficientResources, LimitExceeded) as error:
            return f"{error.where}: {error.message}" if self.accounting is not None and error.where else error.message
        site.jobs += not job.jobs
        if site.instance.dependencies.remembers:
            site.names[str(job.id)] = made.id
        return None

    def _pass_on(self, site: Site, job: Submission, problem: str) -> str | None:
        """Submit a job that its instance can never run to the next sibling that can, else to the parent, and so on.

        Args:
            problem: why its instance cannot run it.

        Returns: why the last one above cannot run it either, or None.
        """
        if self.hierarchy.larger != "up" or job.dependencies:
            return problem
        while (parent := site.parent) is not None:
            siblings = [each for each in self._sites.values() if each.parent is parent and min(each.place, site.place) >= 0]
            siblings.sort(key=lambda each: (each.place <= site.place, each.place))
            for other in (*(each for each in siblings if each is not site and not each.is_ending), parent):
                if other.instance.is_closed:
                    continue
                refused = self._offer(other, job)
                if refused is None:
                    return None
                problem = refused
            site = parent
        return problem

    def _offer(self, site: Site, job: Submission) -> str | None:
        """Submit a job that another instance cannot run to this one; returns why it cannot run here either, or None."""
        if self.processors is not None and site.instance.can_hold(site.request(job)):
            self.processors.put(site, INGEST, job)
            return None
        problem = self._try_submit(site, job)
        if problem is None:
            self._settle(site)
        return problem

    def _resolved(self, site: Site, job: Submission) -> Iterable[str]:
        for dependency in job.dependencies:
            scheme, colon, value = dependency.partition(":")
            if not colon or scheme == "begin-time":
                yield dependency
                continue
            if value not in site.names:
                keeps = "in a hierarchy, give a Workload with has_dependencies: it keeps such jobs together"
                raise InputError(
                    f"{dependency}: no job {value} was submitted to its instance before it",
                    where=f"job {job.id}",
                    hint="jobs that depend on each other need the same level" if job.level is not None else keeps,
                )
            number = site.names[value]
            if number is None:
                raise InfeasibleRequest("waits for a job that was refused", where=f"job {job.id}")
            yield f"{scheme}:{number}"

    # -- external events ---------------------------------------------------------------------------------------------

    def _await_external(self) -> None:
        event = self.external.next
        if event is not None:
            self.events.push(max(event.at, self.clock.now), DisturbanceEvent())

    def _on_disturbance(self, _: DisturbanceEvent) -> None:
        if not self._has_work:
            return  # a model of failures has no end
        self.external.take()
        if self.fleet is not None:
            self.fleet.look(self.clock.now)
        self._idle_events = 0 if len(self.events) > self.families.periods else self._idle_events + 1
        if self._idle_events < limits.IDLE_EVENTS_MAX:
            self._await_external()
        for site in list(self._sites.values()):
            if not site.instance.is_closed:
                self._settle(site)

    @property
    def _has_work(self) -> bool:
        """Whether jobs wait, run, or are still to come."""
        if self._to_follow:
            return True
        for site in self._sites.values():
            active = site.instance.lifecycle.jobs.values()
            if (
                site.upcoming is not None
                or site.children_left
                or any(not isinstance(job.payload, AdvanceReservation) for job in active)
            ):
                return True
        return False

    def has_submitted(self, job: int | str) -> bool:
        """Whether a job of the workload with this id has been submitted to an instance."""
        return any(str(job) in site.names for site in self._sites.values())

    def job_of(self, job: int | str) -> Job | None:
        """The job of an instance by its id in the workload, if it is active."""
        for site in self._sites.values():
            number = site.names.get(str(job))
            if number is not None:
                found: Job | None = site.instance.lifecycle.jobs.get(number)
                return found
        return None

    def _on_timer(self, event: TimerEvent) -> None:
        """Handle what is due at an instance; nothing at a moment at which something was to be due, and no longer is."""
        site = event.site
        if site.timer != self.clock.now:
            return  # an earlier one has come since
        site.timer = FOREVER
        if site.instance.is_closed:
            return
        if site.instance.due.next_wakeup() > self.clock.now:
            self._plan_timer(site)
            return
        site.instance.advance()
        self._settle(site)
        self._count_wakeup(site)

    def _count_wakeup(self, site: Site) -> None:
        """Errors: PolicyError for a policy that asks for passes for ever, starts nothing in them, and nothing else is to come."""
        if is_built_in(site.instance.policy) or len(self.events) > self.families.periods + len(self._sites):
            self._idle_wakeups = 0
            return
        self._idle_wakeups += 1
        if self._idle_wakeups > limits.IDLE_WAKEUPS_MAX:
            message = f"it asked for {self._idle_wakeups:,} passes in a row and started no job, and nothing else is to come"
            raise policy_error(site.instance.policy, message, hint="let it call queue.wake_at only for what it starts then")

    def _plan_timer(self, site: Site) -> None:
        due = site.instance.due.next_wakeup()
        # A reservation that is due while the instance is busy waits for its next decision anyway and needs no timer.
        if due < site.timer and (due > self.clock.now or site.pass_at == FOREVER):
            site.timer = max(due, self.clock.now)
            self.events.push(site.timer, TimerEvent(site))

    def _on_boot(self, event: BootEvent) -> None:
        job = event.job
        if job.state is not State.INACTIVE and (job.started != event.started or job.child is not None):
            return  # of an attempt that was interrupted: the job waits again, or has started again
        given: ChildPayload | Submission = job.payload
        site = self._sites.get(job.instance)
        if self.processors is not None:
            self.processors.over(job)
        if job.state is not State.RUN or site is None:
            # It ended before its instance started: the jobs of that part of the tree are never submitted.
            if isinstance(given, Submission):
                self._never += given.number if self.processors is None else 0
            elif site is not None:
                self.families.miss(site)
                site.children_left -= 1
                self._settle(site)
            return
        if isinstance(given, Submission):
            site.children_left += 1
            what, now = ChildPayload(site.level + 1, -1), self.clock.now
            feed = iter([each._replace(submit=now + each.submit) for each in given.jobs])
        else:
            what, feed = given, self._share(given)
        try:
            child = site.instance.spawn(
                job, queue_policy=self.hierarchy.queue_policy(what.level), match_policy=self.hierarchy.match_policy(what.level)
            )
        except UnknownJob:
            where = f"job {given.id}" if isinstance(given, Submission) else "hierarchy"
            hint = "request what it shall divide exclusively, such as node{x}"
            raise InputError("holds nothing that jobs of its own could get", where=where, hint=hint) from None
        self._site(child, Machine(child.inventory.graph, self.machine.unit), what, job, feed)

    def _on_end(self, event: EndEvent) -> None:
        job = event.job
        if event.plan != self._plan_of(job):
            return  # of an attempt that was interrupted, or another size; the end may come at the same moment, in its own place
        given, processors = job.payload, self.processors
        is_nested_at_limit = isinstance(given, Submission) and bool(given.jobs) and job.limit <= self.clock.now
        if processors is None or job.state not in RUNNING or is_nested_at_limit:
            self.ended(job, self.clock.now)
        else:
            if self.fleet is not None:
                self.fleet.stop(job, self.clock.now)
            processors.hear(self._sites[job.instance], job)

    def ended(self, job: Job, moment: int) -> None:
        """Handle the end of a job at a moment, now or before: its resources are free from now on."""
        if job.state not in RUNNING:
            has_just_expired = job.ended == self.clock.now and job is not self._last_ended
            self._last_ended = job
            if has_just_expired and (parent := self._sites.get(job.instance)) is not None:
                self._settle(parent)  # its instance has expired just before
            return
        self._last_ended = job
        site, given = self._sites[job.instance], job.payload
        progress = self.malleable.running.get(job) if self.malleable.running else None
        attempt = progress or (self.histories.get(job) if self.histories else None)
        if attempt is not None and attempt.ends != self.clock.now:
            return  # it was the end of an attempt that was interrupted, or at another size
        below = None if job.child is None else self._sites.get(job.child)
        is_nested = isinstance(given, Submission) and bool(given.jobs)
        is_done = below.is_ending if below is not None else not is_nested
        if progress is not None:
            runs_on = not progress.is_done
        else:
            runs_on = isinstance(given, Submission) and not is_nested and job.started + self._length(job, given) > moment
        if not is_done or runs_on:
            job.instance.exception(job, "timelimit", note="the limit is reached")
        else:
            finish = site.instance.finish_running if job.child is None else site.instance.finish
            finish(job, given.status if isinstance(given, Submission) else 0)
        if below is not None and below.instance in self._sites:
            self._close(site, below)
        self._settle(site)

    def _on_correct(self, event: CorrectionEvent) -> None:
        """Plan anew for a job that runs on at the end of what was predicted for it."""
        job = event.job
        site, now, given = self._sites.get(job.instance), self.clock.now, job.payload
        if self.prediction is None or site is None or job.state is not State.RUN or job.limit != now:
            return  # the attempt was interrupted
        end = self._end_of(job, given, job.started)
        if not site.instance.replan(job, self.prediction.correct(job, now)):
            self.external.notes["jobs that outlived their prediction and were stopped, as what they held was reserved"] += 1
            site.instance.exception(job, "timelimit", note="it outlives its prediction, and others have reserved what it holds")
        elif job.limit < end:
            self.events.push(job.limit, CorrectionEvent(job))
        self._settle(site, passed=not self._is_batched)

    def _close(self, site: Site, below: Site) -> None:
        """Note what an instance did that has ended, and all below it."""
        for each in [each for each in self._sites.values() if each.parent is below]:
            self._close(below, each)
        self._never += below.drain() if below.place < 0 else 0
        self._never += below.processor.abandon() if below.processor is not None else 0
        self.rows.append(below.row(self._begin_at, self.clock.now))
        del self._sites[below.instance]
        site.children_left -= 1
        self.families.remove(site, below)

    def _on_pass(self, event: PassEvent) -> None:
        """One decision and its cost, or a complete pass if decisions cost nothing."""
        site = event.site
        if self.processors is not None:
            self.processors.serve(site)
            return
        site.pass_at = FOREVER
        starting, instance = self._starting, site.instance
        if instance.is_closed:
            return
        if starting is None:
            instance.schedule()
            self._settle(site, passed=True)
            return
        spent, started = self.decide(site)
        moment = self.clock.now + spent
        site.busy_until = moment
        site.busy_ticks += spent
        if started and site.cost.decision is not None:
            site.pass_at = moment
            self.events.push(moment, PassEvent(site))
        self._settle(site, passed=True)

    def decide(self, site: Site) -> tuple[int, list[Job]]:
        """Make a decision, or a complete pass if decisions cost nothing; returns its length in ticks, and the jobs it starts."""
        site.pass_at = FOREVER
        instance, starting = site.instance, self._starting
        assert starting is not None  # passes take time
        cost = site.cost.decision
        if cost is None:
            instance.schedule()
            return 0, self._started(site, 0)
        queue = instance.queue
        queued, free, held = len(queue), 0, 0
        if cost.sees_load:
            queue.counts_units = True
            free, held = queue.free, len(instance.inventory.running.holds) + queue.reserved
        if cost.measures:
            with _without_collection():
                before = processor_time()
                started = instance.schedule(1)
                took = processor_time() - before
        else:
            started, took = instance.schedule(1), 0.0
        units = sum(job.size for job in starting)
        pools = sum(len(instance.inventory.vertices(job.claim)) for job in starting) if cost.sees_pools else 0
        size, is_first = site.machine.count, queue.actions > 0 and not site.has_tried
        load = (queue.units_requested, free, held, self.machine.cores)
        spent = ticks(cost.decide(Decision(queue.actions, started, queued, size, took, units, is_first, pools, *load)))
        site.has_tried |= is_first
        site.decisions += 1
        return spent, self._started(site, spent)

    def _started(self, site: Site, spent: int) -> list[Job]:
        """Start the jobs of a decision that is complete after some ticks."""
        assert self._starting is not None
        found, self._starting = self._starting, []
        for job in found:
            if self.processors is None or isinstance(job.payload, AdvanceReservation):
                self._delay(job, self.clock.now + spent)
            else:
                self.processors.begin(site, job, spent)
        return found

    def _delay(self, job: Job, moment: int) -> None:
        """Start a job when its decision is complete; its time counts from then, unless others hold its resources afterwards."""
        instance = self._sites[job.instance].instance
        if moment > job.started and job.limit < FOREVER:
            with suppress(InsufficientResources):
                instance.inventory.resize(job.number, job.claim, self.clock.now, moment + job.planned)
                job.limit = moment + job.planned
            instance.queue.reservations_dropped()
        job.started = min(moment, job.limit)
        self._begin(job, moment)

    def _settle(self, site: Site, *, passed: bool = False) -> None:
        """After an event at an instance: schedule its next pass and timers, or end it; offer released resources to all."""
        time = self.instance.time
        self._active_at = self.clock.now
        if time.has_suppliers and self._supplies_seen != time.returned:
            self._supplies_seen = time.returned
            for other in list(self._sites.values()):
                if other is not site and not other.instance.is_closed:
                    other.instance.queue.supply_changed()
                    self.settle_one(other, passed=False)
        if self.families.by_parent:
            if self.families.balance.is_needed:
                if self._is_stepped:
                    self.settle_one(site, passed=passed)  # a decision that is due keeps others from taking its jobs
                self.families.move_around(site)
            self.families.resize_around(site)
        self.settle_one(site, passed=passed)

    def settle_one(self, site: Site, *, passed: bool) -> None:
        instance = site.instance
        if self.malleable.policy.is_needed and (passed or not self._is_stepped) and not instance.is_closed:
            self.malleable.adjust(instance)
        if self._is_stepped and not passed and site.pass_at == FOREVER and not instance.is_closed:
            site.pass_at = max(self.clock.now, site.busy_until)
            if self.processors is None:
                self.events.push(site.pass_at, PassEvent(site))
            else:
                self.processors.put(site, DECISION, None)
        if site.upcoming is not None and not site.is_coming:
            self._announce(site)
        self._plan_timer(site)
        if site.upcoming is None and site.job is not None and self._is_over(site):
            site.is_ending = True
            self.events.push(self.clock.now, EndEvent(site.job))

    def _is_over(self, site: Site) -> bool:
        """Whether an inner instance, whose share of the workload was submitted, has nothing left to do."""
        return site.is_done and not site.is_ending and not self.families.may_get_more(site)

    # -- what the parts of a simulation use ---------------------------------------------------------------------------

    @property
    def outermost(self) -> Site:
        return self._sites[self.instance]

    def transfer(self, site: Site, job: Submission) -> None:
        """Give an instance a job of a sibling, which may need time to receive it."""
        if self.processors is not None:
            self.processors.put(site, INGEST, job)
        else:
            self._try_submit(site, job)
            self.settle_one(site, passed=False)

    def wake(self, site: Site) -> None:
        """Let the idle processor of an instance begin its next task after the current event."""
        self.events.push(self.clock.now, PassEvent(site))

    def settle(self, site: Site, *, passed: bool) -> None:
        """After a decision: request the next one unless it has started nothing."""
        self._settle(site, passed=passed or site.cost.decision is None)

    def hold_nodes(self, job: Job) -> int:
        """Let the nodes of a job be switched on that are off; returns the moment at which all are on."""
        given, now = job.payload, self.clock.now
        if self.fleet is None or not isinstance(given, Submission) or given.jobs:
            return now  # an instance needs no nodes
        return self.fleet.hold(job, now, now)

    def begin(self, job: Job) -> bool:
        """Let a job run that is on its nodes; returns False for one whose instance is to boot."""
        self._begin(job, self.clock.now)
        given = job.payload
        return isinstance(given, Submission) and not given.jobs

    def boot_later(self, job: Job) -> None:
        """Begin the instance of a job after its boot time."""
        self._boot_at(self.clock.now + ticks(self.hierarchy.boot_s), job)

    def _boot_at(self, moment: int, job: Job) -> None:
        self.events.push(moment, BootEvent(job, job.started))

    def site_of(self, job: Job) -> Site:
        """The instance of a job."""
        return self._sites[job.instance]

    def never(self, job: Submission) -> None:
        """Count a job that no queue received, because its instance has ended."""
        self._never += job.number

    # -- the end -------------------------------------------------------------------------------------------------------

    def _stop(self, site: Site, error: BaseException) -> None:
        """End an instance whose policy raised; everything else goes on."""
        instance = site.instance
        message = str(error) if isinstance(error, FluxresError) else f"queue policy {instance.policy.name}: {error}"
        self.errors.append(f"{instance.address}: {message}")
        if self._starting is not None:
            self._starting.clear()
        site.upcoming = None
        self._never += site.processor.abandon() if site.processor is not None else 0
        if site.job is None:
            instance.shut(message)
        elif site.job.state in RUNNING:
            instance.shut(message)
            site.is_ending = True
            self.events.push(self.clock.now, EndEvent(site.job))

    def _over(self, job: Job) -> None:
        given, end, never_began = job.payload, job.ended, False
        if self.processors is not None:
            end, never_began = self.processors.leave(job)
        if isinstance(given, AdvanceReservation):
            self.external.blocked.note_reservation(job, given.name or "")
        if not isinstance(given, Submission):
            return
        if self.feedback is not None and job.instance is self.instance:
            self._plan_followers(given)
        if given.jobs:
            self._never += given.number if job.started < 0 or never_began else 0
            if job.child is not None and (below := self._sites.get(job.child)) is not None:
                self._close(self._sites[job.instance], below)
            return
        result = job.result
        assert result is not None  # called for finished jobs only
        record = self._record(job, end, result, never_began=never_began)
        if self.histories:
            history = self.histories.pop(job, None)
            if history is not None:
                record = record._replace(earlier=tuple(history.earlier))
        if self.malleable.running:
            self.malleable.running.pop(job, None)
        if self.prediction is not None:
            predicted, corrections = self.prediction.end(given, record)
            record = record._replace(predicted=predicted, corrections=corrections)
        if job.status == NOT_STARTED and job.exceptions:
            self.external.notes[f"jobs that failed: {job.exceptions[-1].note}"] += 1
        self._ended += 1
        self.sinks.add(record)

    def _record(self, job: Job, end: int, result: str, *, never_began: bool = False) -> Finished:
        given, claim, inventory = job.payload, job.claim, job.instance.inventory
        progress = self.malleable.running.get(job) if self.malleable.running else None
        held: Any = AsItWas(inventory, claim) if self.families.elastic.is_needed and claim is not None else inventory
        has_begun = not never_began and 0 <= job.started <= end  # it may have ended while it waited for its decision or its nodes
        return Finished(
            given.id,
            given.submit,
            job.started if has_begun else -1,
            end,
            self._own_limit(job) if progress is None or progress.limit >= FOREVER else progress.limit - job.started,
            progress.steps[0][1] if progress is not None else inventory.count(claim) if claim is not None else 0,
            job.status,
            result,
            job.user,
            self._sites[job.instance].number,
            claim,
            held,
            given.ask if isinstance(given.ask, int) else job.request,
            account=job.account if self.accounting is not None else given.account,
            qos=job.qos if self.accounting is not None else given.qos,
            partition=job.partition if self.accounting is not None else given.partition,
            queue=given.queue,
            work=given.run if given.adaptive is None else given.adaptive.length(given.run, _size(job)),
            sizes=() if progress is None or len(progress.steps) == 1 else tuple(progress.steps),
            paused=0 if progress is None else progress.paused(end),
            energy=None if self.fleet is None else self.fleet.end(job, self.clock.now),
        )


def _defect(job: Job, error: Exception) -> RunFailed:
    """The error for what the simulator must not raise; a job that it refuses has failed, and says why."""
    hint = "this is a defect of the simulator: report it"
    return RunFailed(f"{type(error).__name__}: {error}", where=f"job {_name(job)}", hint=hint)


def _name(job: Job) -> int | str:
    """The id of a job in the workload; that in its instance for one of the simulator."""
    return job.payload.id if isinstance(job.payload, Submission) else job.id


def _never_done(given: Submission, history: History) -> LimitExceeded:
    """The error for a job that is interrupted again and again."""
    attempts = f"{len(history.earlier):,} attempts were interrupted by failures or preemption"
    message = f"{attempts}; it runs {seconds(given.run):g} s, of which {seconds(int(history.saved)):g} s are saved"
    hint = "use longer times between failures, shorter jobs, checkpoints, or on_failure: fail; or preempt less"
    return LimitExceeded(message, where=f"job {given.id}", hint=hint)


def _within_partition(site: Site, request: Request, limit: int) -> int:
    """The limit of a job; that of its partition if it has none, and no ledger gives it one."""
    if limit >= FOREVER and site.machine.graph.structure.partitions and site.instance.ledger is None:
        return matching.length(site.machine.graph, request)
    return limit


def _size(job: Job) -> int:
    """The size that was chosen for a moldable job."""
    assert job.sizes is not None  # it has several
    return job.sizes.chosen.size


def _left_of(job: Job) -> int:
    """The jobs of the workload that wait with a job of an instance; those of an instance that runs are in that one."""
    given = job.payload
    if not isinstance(given, Submission) or (given.jobs and job.state in RUNNING):
        return 0
    return given.number


def simulate(
    workload: Workload | Iterable[Submission] | str | PathLike[str],
    machine: Machine | ResourceGraph | str | PathLike[str] | int | None = None,
    *,
    unit: str = "",
    cost: Cost | LevelCost | Sequence[Cost | LevelCost | None] | str | None = None,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Result:
    """Run a workload on a machine; see Simulator for the other settings.

    Args:
        workload: submissions; or as for `fluxres simulate`, a file, or a model such as ``ensemble:jobs=100,run=2s``.
        machine: as for `fluxres simulate`, a number, a shape, a file or a URL, or a graph; by default, that of the trace.
        unit: the type of the pools that a job of a trace asks for.
        cost: as for Simulator, or as text such as ``fixed:0.01``.

    Errors: those of reading the files; UsageError for what is neither.

    >>> from fluxres.simulation.workload.workload import Submission
    >>> jobs = [Submission(n, 0, 60_000_000, 60_000_000, 6) for n in (1, 2)]
    >>> result = simulate(jobs, 10, queue_policy="fcfs")
    >>> result.metrics.mean_wait_s, result.metrics.makespan_s, result.metrics.utilisation
    (30.0, 120.0, 0.6)
    """
    jobs = read(fspath(workload)) if isinstance(workload, str | PathLike) else workload
    if not isinstance(jobs, Iterable):
        raise UsageError(f"expected a workload, got {jobs!r:.80}", hint="give submissions, a file, or a model: lublin:jobs=1000")
    price = cost_of(cost) if isinstance(cost, str) else cost
    return Simulator(_machine(machine, jobs, unit), cost=price, **settings).run(jobs, progress)


def _machine(given: object, jobs: Iterable[Submission], unit: str) -> Machine:
    from fluxres.model import ResourceGraph

    if isinstance(given, Machine):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        given = of_processors(given)
    elif given is None or isinstance(given, str | PathLike):
        text = None if given is None else fspath(given)
        given = read_machine(text, jobs.processors if isinstance(jobs, Workload) else None)
    if not isinstance(given, ResourceGraph):
        raise UsageError(f"expected a machine, got {given!r:.80}", hint="give a number, a shape, a file or a graph")
    fine = "core" if isinstance(jobs, Workload) and jobs.has_requests and "core" in given.structure.types else ""
    return Machine(given, unit or fine)
