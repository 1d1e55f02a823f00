"""The life of the jobs of an instance, from state to state of RFC 21 (`states.LEADS_TO`), with what each change entails.

What waits is in the `Queue`, what runs holds something by the inventory, and others may wait for both.  Limits of the accounting
are counted here, runners are called here, and the log of each job is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import (
    FluxresError,
    InfeasibleRequest,
    InsufficientResources,
    ListenerError,
    PolicyError,
    StoreError,
    UsageError,
)
from fluxres.instance import recording, states
from fluxres.instance.deferred import EXITS, listener_error
from fluxres.instance.dependencies import Dependencies, Verdict
from fluxres.instance.finished import FinishedJobs
from fluxres.instance.graph_inventory import GraphInventory
from fluxres.instance.holding import OVERTIME_S
from fluxres.instance.inventory import Claim, Hold
from fluxres.instance.job import BEGIN, URGENCY_HELD, Dependency, Failure, Job, JobEvent
from fluxres.instance.lifetime import Lifetime, LifetimeOwner
from fluxres.instance.runner import NOT_STARTED, STOPPED, Runner
from fluxres.instance.states import State
from fluxres.syntax import fluid
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.instance.ledger import Ledger
    from fluxres.instance.options import Listener, Sink
    from fluxres.instance.sizes import Option


_HAS_GONE_ON: Final = "the job went on as if nothing had been raised"

_READY: Final = states.after(states.after(State.NEW, "validate"), "depend")
"""The state of a new job that waits for no other."""

Resumed = tuple[Job, Hold | None, list[tuple[str, int]], list[Dependency]]
"""A job of an earlier instance: with its claim and what it holds if it runs or is reserved ahead, and what it waits for."""


class LifecycleOwner(LifetimeOwner, Protocol):
    """What `Lifecycle` uses of its instance."""

    dependencies: Dependencies
    ledger: Ledger | None
    lifetime: Lifetime
    runner: Runner


class Lifecycle:
    """The jobs of one instance.

    Args:
        log: gets each event; None for no events.
        sink: gets each finished job, which is then forgotten; None: the latest ones are kept.
    """

    def __init__(self, instance: LifecycleOwner, log: Listener | None, sink: Sink | None) -> None:
        self._instance = instance
        self._log = log
        self._raised = (StoreError, PolicyError, *getattr(instance.runner, "defects", ()))
        """What a runner raises that is no refusal of a job."""
        self.jobs: dict[int, Job] = {}
        """Active jobs."""
        self.finished = FinishedJobs(sink)
        self.delayed: dict[int, int] = {}
        """The jobs of advance reservations that begin when others have ended, which are late; and when that is tried again."""
        self._starting: set[int] = set()
        """The jobs of which the listener is just getting an event of their start: the runner does not have them yet."""
        self._ending: set[int] = set()
        """The jobs of which the listener is just getting an event of their end: what it reports about that is known."""

    # -- the beginning -----------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Let a new job wait for what it depends on, which was checked, or in the queue."""
        given = job.dependencies
        self._add(job)
        if given or self._log:
            self._post(job, "validate")
            if not given or self._add_dependencies(job, given):
                self._depend(job)
        else:
            job.state = _READY
            self._prioritize(job)

    def submit_ahead(self, job: Job, start: int) -> None:
        """Let a job wait for its start, from which on something is reserved for it in the inventory."""
        job.dependencies = (Dependency(BEGIN, start),)
        self._add(job)
        self._post(job, "validate")
        self._instance.due.wait_until(start, job)

    def _add(self, job: Job) -> None:
        """Add a new job to the active ones."""
        instance = self._instance
        self.jobs[job.number] = job
        if instance.ledger is not None and not job.is_booking:
            instance.ledger.submitted(job)
        if job.name is not None:
            instance.dependencies.register(job)
        if self._log:
            self._log_event(job, "submit", urgency=job.urgency, userid=job.user, flags=0, version=1)

    def _add_dependencies(self, job: Job, given: Iterable[Dependency]) -> bool:
        """Add the dependencies of a new job; returns whether it waits for none of them."""
        instance, never = self._instance, None
        for dependency in given:
            verdict = instance.dependencies.add(job, dependency, self.jobs, job.submitted)
            if verdict is Verdict.NEVER:
                never = dependency
            elif verdict is Verdict.OPEN and dependency.scheme == BEGIN:
                instance.due.wait_until(dependency.value, job)
            if self._log:
                self._log_event(job, "dependency-add", description=str(dependency))
        if never is not None:
            self.raise_exception(job, "dependency", states.FATAL, f"{never} can never be satisfied")
            return False
        return not instance.dependencies.open(job)

    def add_dependency(self, job: Job, dependency: Dependency) -> None:
        """Add a dependency to a pending job. Errors: UsageError for a cycle, and what a job cannot depend on."""
        instance = self._instance
        verdict = instance.dependencies.add(job, dependency, self.jobs, instance.due.now)
        job.dependencies = (*job.dependencies, dependency)
        if self._log:
            self._log_event(job, "dependency-add", description=str(dependency))
        if verdict is Verdict.NEVER:
            self.raise_exception(job, "dependency", states.FATAL, f"{dependency} can never be satisfied")
        elif verdict is Verdict.OPEN and job.state is State.SCHED:
            instance.inventory.unreserve(job.number)
            job.state = State.DEPEND  # RFC 21 has dependencies before scheduling only
            instance.queue.drop(job)
            instance.queue.sort()
        if verdict is Verdict.OPEN and dependency.scheme == BEGIN:
            instance.due.wait_until(dependency.value, job)

    def end_wait(self, number: int, moment: int) -> None:
        """Handle the begin time of a job, if there is one of this number that waits for it.

        Args:
            moment: at which that was due; limits after it are still to be handled.
        """
        instance, job = self._instance, self.jobs.get(number)
        if job is None or job.state is not State.DEPEND:
            return
        if number in instance.inventory.ahead:
            self._begin_ahead(job, moment)
        elif instance.dependencies.due(job, instance.due.now):
            self._depend(job)

    def begin_delayed(self) -> None:
        """Start the jobs of advance reservations that others delayed, before jobs of the queue get what has been freed."""
        for number in sorted(self.delayed):
            job = self.jobs.get(number)
            if job is not None and job.state is State.DEPEND and number in self._instance.inventory.ahead:
                self._begin_ahead(job, self._instance.due.now)
            else:
                self.delayed.pop(number, None)

    def _begin_ahead(self, job: Job, moment: int) -> None:
        """Start the job of an advance reservation, or try again when a job ends, or soon, if a late job holds some of it."""
        instance = self._instance
        end, now = instance.inventory.ahead[job.number].end, instance.due.now
        if end <= now:
            self.raise_exception(job, "timelimit", states.FATAL, "the time that was reserved is over, and others held its pools")
            return
        if instance.holdings.freed_from(job.number) <= now:
            return  # it ends with that event
        instance.holdings.free_lapsed(moment)
        claim = instance.inventory.begin_ahead(job.number)
        if claim is None:
            if self.delayed.get(job.number, 0) <= now:
                again = self.delayed[job.number] = min(now + ticks(OVERTIME_S), end)
                instance.due.wait_until(again, job)
            return
        self.delayed.pop(job.number, None)
        instance.queue.reservations_dropped()
        self._post(job, "depend")
        self._post(job, "priority")
        instance.queue.admit()
        self.start(job, claim, claim.end)
        instance.holdings.find_cut()  # others may have freed some of it before it began

    # -- from state to state -----------------------------------------------------------------------------------------

    def _post(self, job: Job, event: str) -> None:
        """Move a job to the state that an event leads to (RFC 21), and log the event."""
        job.state = states.after(job.state, event)
        if self._log:
            self._log_event(job, event)

    def _log_event(self, job: Job, event: str, **context: Any) -> None:
        assert self._log is not None  # callers check first, because most runs have no listener
        try:
            self._log(job, JobEvent(seconds(self._instance.due.now), event, context))
        except (Exception, *EXITS) as error:  # noqa: BLE001  # listeners may raise anything, and the job goes on to its next state
            self._defer(job, f"listener at event {event}", error)

    def _defer(self, job: Job, what: str, error: BaseException, *unchanged: type[Exception]) -> None:
        """Let the call in progress raise what a listener or a sink has raised, when it has done its work.

        Args:
            unchanged: errors that are not put into a ListenerError, besides those of stores, policies and runners.
        """
        if not isinstance(error, Exception) or isinstance(error, (ListenerError, *self._raised, *unchanged)):
            self._instance.time.deferred.defer(error)
        else:
            self._instance.time.deferred.defer(listener_error(error, where=f"{what}, job {job.id}", hint=_HAS_GONE_ON))

    def _log_end(self, job: Job, event: str, **context: Any) -> None:
        """Log an event of the end of a job, which the listener may report again or try to complete."""
        self._ending.add(job.number)
        try:
            self._log_event(job, event, **context)
        finally:
            self._ending.discard(job.number)

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
        queue = self._instance.queue
        if again:
            queue.prioritize(job)
        job.state = states.after(job.state, "priority")
        if job.urgency != URGENCY_HELD:
            queue.add(job)
            queue.request_round()
            if queue.hooks:
                queue.tell("submitted", job, self._instance.due.now)
        if self._log:
            self._log_event(job, "priority", priority=job.priority)

    def start(self, job: Job, claim: Claim, limit: int) -> None:
        """Start a job on its resources."""
        instance = self._instance
        queue, due = instance.queue, instance.due
        job.claim = claim
        job.started = due.now
        job.limit = limit
        job.state = states.after(job.state, "alloc")
        queue.leave(job)
        if instance.ledger is not None and not job.is_booking:
            instance.ledger.started(job)
        if limit < due.announced and not instance.keeps_limits:
            due.announce(limit)
        if self._log and not self._log_start(job):
            return
        if len(instance.dependencies):
            for other in instance.dependencies.started(job):
                self._depend(other)
        if queue.hooks:
            queue.tell("started", job, due.now)
        try:
            instance.runner.start(job)
        except self._raised:
            raise
        except Exception as error:  # noqa: BLE001  # runners may raise anything
            # Not raised to the caller or the policy: the job fails, like one that Flux cannot execute (RFC 21).
            note = f"the runner could not start it: {type(error).__name__}: {error}"
            if self._note_exception(job, states.EXEC, states.FATAL, note) is State.RUN:
                self.finish(job, NOT_STARTED)

    def _log_start(self, job: Job) -> bool:
        """Log the events of a start; returns whether the job still runs: a listener may end it, or let it wait again."""
        claim = job.claim
        self._starting.add(job.number)
        try:
            for event in ("alloc", "start"):
                self._log_event(job, event)
                if job.state is not State.RUN or job.claim is not claim:
                    return False
        finally:
            self._starting.discard(job.number)
        return True

    def finish(self, job: Job, status: int) -> None:
        """Note the end of a running job: its resources are free, unless it has a child, which ends first."""
        if job.number in self._ending:
            return
        if job.is_requeued:
            self._return_to_queue(job)
            return
        child = None if job.child is None else self._instance.holdings.children.get(job.number)
        job.status = status
        job.state = states.after(job.state, "finish")
        if self._log:
            self._log_end(job, "finish", status=status)
        if child is None or child.lifetime.is_closed:
            self.clean(job)
        else:
            child.lifetime.end_with_job()  # when it is closed, the parent cleans up the job, or has done so

    def _free(self, job: Job) -> None:
        """Free what a job holds; the caller logs that."""
        instance = self._instance
        instance.inventory.finish(job.number, job.claim, instance.due.now)
        instance.holdings.forget(job)
        instance.time.has_returned = True
        instance.queue.changed = True
        if self.delayed:
            for delayed in filter(None, map(self.jobs.get, self.delayed)):
                instance.due.wait_until(instance.due.now, delayed)  # if no pass follows

    def clean(self, job: Job) -> None:
        """Free the resources of a job that ends, and hand it to the sink."""
        if job.number in self._ending:
            return
        instance = self._instance
        queue, ledger, now = instance.queue, instance.ledger, instance.due.now
        queue.request_round()
        if job.claim is not None:
            self._free(job)
            if self._log:
                self._log_end(job, "release", ranks="all", final=True)
                self._log_end(job, "free")
        elif job.number in instance.inventory.ahead:
            instance.inventory.drop_ahead(job.number)
            queue.reservations_dropped()
            instance.time.has_returned = True
        job.ended = now
        job.state = states.after(job.state, "clean")
        if self._log:
            self._log_end(job, "clean")
        del self.jobs[job.number]
        if ledger is not None and not job.is_booking:
            ledger.left(job)
        ready: list[Job] = []
        never: list[tuple[Job, Dependency]] = []
        if instance.dependencies.concern(job):
            succeeded = job.status == 0 and not any(failure.severity == states.FATAL for failure in job.exceptions)
            ready, never = instance.dependencies.ended(job, succeeded, job.started >= 0)
        try:
            self.finished.add(job)
        except (Exception, *EXITS) as error:  # noqa: BLE001  # sinks may raise anything
            self._defer(job, "sink", error, FluxresError, OSError)  # these say what it could not write
        for other in ready:
            self._depend(other)
        for other, dependency in never:
            if other.state is State.DEPEND:
                self.raise_exception(other, "dependency", states.FATAL, f"{dependency} can never be satisfied")
        if instance.lifetime.is_ending and not self.jobs:
            instance.lifetime.close()
        if queue.hooks:
            queue.tell("finished", job, now)
        if instance.time.has_suppliers:
            instance.time.note_return()

    # -- requeuing ---------------------------------------------------------------------------------------------------

    def requeue(self, job: Job, kind: str, note: str) -> None:
        """Stop a running job without a child, and let it wait again in its place of the queue once it has ended."""
        if job.is_requeued or job.state is not State.RUN:
            return
        job.is_requeued = True
        self._note_exception(job, kind, states.WARNING, note)
        self._stop(job, kind)

    def _return_to_queue(self, job: Job) -> None:
        instance, queue = self._instance, self._instance.queue
        queue.request_round()
        self._free(job)
        job.is_requeued, job.claim, job.started, job.limit = False, None, -1, FOREVER
        if job.sizes is not None:
            job.take(job.sizes.preferred)
        if instance.ledger is not None:
            instance.ledger.left(job)
            instance.ledger.submitted(job)
        job.state = states.after(job.state, "requeue")  # before a listener sees that it holds nothing
        queue.sort()  # it may still be listed where it was
        if self._log:
            self._log_event(job, "release", ranks="all", final=True)
            self._log_event(job, "free")
            self._log_event(job, "requeue")
        try:
            if queue.hooks:
                queue.tell("finished", job, instance.due.now)
        finally:  # whatever the policy raises
            self._prioritize(job)
            instance.time.note_return()

    # -- exceptions --------------------------------------------------------------------------------------------------

    def raise_exception(self, job: Job, kind: str, severity: int, note: str) -> None:
        """Raise an exception on a job; a fatal one cancels it, or asks its runner to stop it."""
        before = self._note_exception(job, kind, severity, note)
        if severity != states.FATAL or before not in states.ACTIVE or before is State.CLEANUP:
            return
        instance = self._instance
        if before is State.RUN:
            if (child := instance.holdings.children.get(job.number)) is not None:
                child.lifetime.end_jobs("the job that holds its resources is being stopped")
                if job.state is State.INACTIVE:  # its child was closed by that, and the job has ended
                    return
            job.is_requeued = False  # it was being stopped to wait again, and ends instead
            self._stop(job, kind)
            return
        if before is State.SCHED and job.urgency != URGENCY_HELD:
            instance.inventory.unreserve(job.number)
            instance.queue.leave(job)
            instance.queue.changed = True
        self.clean(job)

    def _stop(self, job: Job, kind: str) -> None:
        """Ask the runner of a job to stop it; a job that it has not started yet ends at once."""
        if job.number in self._starting:
            self.finish(job, STOPPED)
            return
        try:
            self._instance.runner.stop(job, kind)
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

    # -- changes of jobs ---------------------------------------------------------------------------------------------

    def set_urgency(self, job: Job, urgency: int) -> None:
        """Change the urgency of a pending job, and so its place in the queue."""
        was_held = job.urgency == URGENCY_HELD
        job.urgency = urgency
        self._update(job, "urgency", was_held=was_held, urgency=urgency, userid=job.user)

    def set_duration(self, job: Job, duration: int) -> None:
        """Change the limit of a job, in ticks; FOREVER for none.

        Errors: UsageError if a running job would have ended by now; InsufficientResources if others hold some of its resources
        before its new limit.
        """
        if job.state is State.RUN:
            self._set_limit(job, min(job.started + duration, FOREVER))
        job.duration = job.planned = duration
        context = {"attributes.system.duration": None if duration >= FOREVER else seconds(duration)}
        self._update(job, "jobspec-update", was_held=job.urgency == URGENCY_HELD, again=False, **context)

    def adopt_end(self, job: Job, end: int) -> None:
        """Let a running job have the limit to which others have moved its end in the graph, beyond its own.

        If that is not allowed, the job gets an exception that does not end it, and what it holds is free at its own limit.
        """
        instance, duration = self._instance, FOREVER if end >= FOREVER else end - job.started
        with recording.own_changes(instance.inventory):
            recording.free_rest(instance.holdings.graph, fluid.encode(job.number), instance.holdings.held_until(job))
        try:
            if instance.ledger is not None and not job.is_booking:
                instance.ledger.require_time(job, duration)
            self.set_duration(job, duration)
        except (InfeasibleRequest, InsufficientResources) as error:
            note = f"others moved its end to {in_message(seconds(end))}, and its limit stays: {error.message}"
            self.raise_exception(job, "timelimit", states.WARNING, note)

    def _set_limit(self, job: Job, end: int) -> None:
        instance = self._instance
        if end <= instance.due.now:
            message = f"it would have ended at {in_message(seconds(end))}"
            raise UsageError(message, where=f"job {job.id}", hint="cancel it, or give it a later limit")
        try:
            instance.holdings.move_limit(job, end)
        except InsufficientResources:
            instance.due.follow_up()
            raise
        child = instance.holdings.children.get(job.number)
        if child is not None:
            child.lifetime.take_end()

    def _update(self, job: Job, event: str, *, was_held: bool, again: bool = True, **context: Any) -> None:
        """Log a change of a job, which leads from SCHED back to PRIORITY (RFC 21).

        Args:
            was_held: before the change.
            again: as for `_prioritize`.
        """
        instance = self._instance
        is_scheduled = job.state is State.SCHED
        if is_scheduled:
            job.state = states.after(job.state, event)
            instance.inventory.unreserve(job.number)
            instance.queue.drop(job)
            if not was_held:
                instance.queue.sort()
        if self._log:
            self._log_event(job, event, **context)
        if is_scheduled:
            self._prioritize(job, again=again)

    def resize(self, job: Job, option: Option, end: int) -> bool:
        """Give a running job another of its sizes and a new limit, in ticks; the caller makes a pass afterwards.

        Returns: False, with nothing changed, if there is not enough, or a limit of the accounting does not allow it.
        """
        assert job.sizes is not None  # it has several
        instance, before = self._instance, job.sizes.chosen
        if option is before:
            return True
        more = instance.inventory.requested(option.request) - instance.inventory.requested(before.request)
        if instance.ledger is not None and more > 0 and not instance.ledger.may_grow(job, more):
            return False
        if not instance.holdings.change_size(job, option, end):
            return False
        job.take(option)
        if instance.ledger is not None:
            instance.ledger.resized(job)
        self._note_resized(job, option.size)
        instance.time.note_return()
        return True

    def child_resized(self, job: Job) -> None:
        """The child of a job has grown or shrunk: the job holds other units, also for the accounting and the policy."""
        instance = self._instance
        if isinstance(instance.inventory, GraphInventory):
            instance.inventory.recount(job.claim)
        self.resized(job)

    def resized(self, job: Job) -> None:
        """A running job has another size, by what it holds now."""
        instance = self._instance
        if instance.ledger is not None and not job.is_booking:
            instance.ledger.resized(job)
        self._note_resized(job, job.size)

    def _note_resized(self, job: Job, size: int) -> None:
        """Log the new size of a running job, and tell the policy."""
        if self._log:
            self._log_event(job, "resource-update", size=size, expiration=seconds(job.limit))
        self._instance.queue.tell("resized", job, self._instance.due.now)

    # -- jobs of an earlier instance ---------------------------------------------------------------------------------

    def resume(self, jobs: Iterable[Resumed]) -> None:
        """Take over the jobs of an earlier instance on this graph, in their states; what runs here uses the inventory `graph`."""
        instance, dependencies = self._instance, self._instance.dependencies
        known = sorted(jobs, key=lambda one: (one[0].state is not State.INACTIVE, one[0].number))
        for job, hold, pools, _ in known:
            if job.name is not None:
                dependencies.register(job)
            if job.state is State.INACTIVE:
                dependencies.ended(job, job.result == "completed", job.started >= 0)
                self.finished.add(job)
                continue
            self.jobs[job.number], job.ask = job, job.request
            if hold is not None:
                self._adopt(job, hold, pools)
            if instance.ledger is not None and not job.is_booking:
                instance.ledger.submitted(job)
                if job.claim is not None:
                    instance.ledger.started(job)
        for job, _, _, waits_for in known:
            for dependency in waits_for:
                dependencies.add(job, dependency, self.jobs, instance.time.now)
                if dependency.scheme == BEGIN:
                    instance.due.wait_until(dependency.value, job)
            if job.state is State.SCHED:
                self._drop_record(job)
                if job.urgency != URGENCY_HELD:
                    instance.queue.add(job)

    def _adopt(self, job: Job, hold: Hold, pools: list[tuple[str, int]]) -> None:
        """Take over what a job holds, or has reserved ahead."""
        inventory = self._instance.inventory
        assert isinstance(inventory, GraphInventory)
        is_running = job.state in states.RUNNING
        claim = inventory.adopt(job.number, hold, pools, is_disputed=False, is_running=is_running)
        claim.count = hold.count
        if is_running:
            job.claim = claim
        else:
            inventory.ahead[job.number] = claim
            self._instance.due.wait_until(hold.start, job)

    def _drop_record(self, job: Job) -> None:
        """Drop what was reserved for a job that waits: the next pass reserves it again."""
        graph, name = self._instance.holdings.graph, fluid.encode(job.number)
        if graph.records.is_holder(name):
            with recording.own_changes(self._instance.inventory):
                graph.free(name)
