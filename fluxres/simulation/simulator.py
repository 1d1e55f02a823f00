"""The loop: a workload comes to an instance, jobs run for as long as the workload says, and a clock jumps from one event to
the next.

The instance is the one that schedules real jobs; all that is simulated is time and the running of jobs.  One event is handled
after the other, each with the pass it causes.  At one moment submissions come before ends, and ends in the order of starts:
with that, results agree with other simulators to the last job (specs/simulation.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fluxres.clock import FOREVER
from fluxres.errors import InfeasibleRequest, InputError
from fluxres.instance import Instance, Job, JobId
from fluxres.instance.policy import QueuePolicy
from fluxres.instance.runner import STOPPED
from fluxres.instance.states import RUNNING, State
from fluxres.simulation.events import END, TIMER, Events, SimulatedClock
from fluxres.simulation.machine import Machine
from fluxres.simulation.metrics import Metrics, RunningMetrics
from fluxres.simulation.schedule import Finished, Schedule, Sink
from fluxres.simulation.workload import Submission, Workload

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

_SHOWN_EVERY = 1024


@dataclass
class Result:
    """What came of a run.

    Args:
        schedule: all jobs, where they were kept.
        metrics: figures.
        refused: jobs that the machine can never run, by reason; they are in no figure.
        refused_ids: the first of them.
        left: jobs that still waited when nothing more could happen.
        events: handled.
    """

    schedule: Schedule | None
    metrics: Metrics
    refused: Counter[str] = field(default_factory=Counter)
    refused_ids: list[int | str] = field(default_factory=list)
    left: int = 0
    events: int = 0


class Runner:
    """Lets jobs run by the clock of the simulation; none outlives its limit."""

    keeps_limits = True

    def __init__(self, events: Events, clock: SimulatedClock) -> None:
        self._events = events
        self._clock = clock

    def start(self, job: Job) -> None:
        """It ends after its run time, or at its limit."""
        run, duration = job.payload.run, job.duration
        self._events.push(self._clock.now + (min(duration, run)), END, job)

    def stop(self, job: Job, why: str) -> None:
        """It ends now."""
        job.instance.finish(job, STOPPED)


class Simulator:
    """A machine, an instance on it, and the time.

    Args:
        machine: what the workload runs on.
        queue_policy, match_policy, inventory: of the instance.
        sinks: get every finished job.
        keep: whether the schedule is kept.
    """

    def __init__(
        self,
        machine: Machine | ResourceGraph,
        *,
        queue_policy: str | QueuePolicy = "easy",
        match_policy: str = "first",
        inventory: str = "auto",
        sinks: Iterable[Sink] = (),
        keep: bool = True,
    ) -> None:
        self.machine = machine if isinstance(machine, Machine) else Machine(machine)
        self.clock = SimulatedClock()
        self.events = Events()
        self.instance = Instance(
            self.machine.graph,
            queue_policy=queue_policy,
            match_policy=match_policy,
            clock=self.clock,
            inventory=inventory,
            runner=Runner(self.events, self.clock),
            sink=self._over,
            events=False,
        )
        self.schedule = Schedule() if keep else None
        self.running = RunningMetrics(self.machine.count)
        self.sinks: list[Sink] = [self.running, *([self.schedule] if self.schedule is not None else ()), *sinks]
        self.refused: Counter[str] = Counter()
        self.refused_ids: list[int | str] = []
        self._numbers: dict[str, JobId] = {}
        self._timer = FOREVER
        self._handled = 0

    # -- one thing after the other -----------------------------------------------------------------------------------

    def run(self, workload: Workload | Iterable[Submission], progress: Callable[[int], None] | None = None) -> Result:
        """Run a workload to its end.

        Args:
            progress: called with the number of jobs handed in, now and then.

        Errors: PolicyError of the queue policy; InputError for a dependency on a job that does not come before. What happened
        until then is in the sinks.
        """
        coming = iter(workload)
        upcoming = next(coming, None)
        names = bool(upcoming is not None and (not isinstance(workload, Workload) or workload.has_dependencies))
        submitted = 0
        try:
            while True:
                if upcoming is not None and not self.events.comes_before(upcoming.submit):
                    self._submit(upcoming, names)
                    submitted += 1
                    if progress is not None and not submitted % _SHOWN_EVERY:
                        progress(submitted)
                    upcoming = _next(coming, upcoming)
                elif len(self.events):
                    self._handle()
                else:
                    break
                self._handled += 1
                self._set_timer()
        finally:
            for sink in self.sinks:
                sink.close()
        return self.result()

    def result(self) -> Result:
        """What came of it so far."""
        return Result(
            self.schedule, self.running.metrics(), self.refused, self.refused_ids, len(self.instance.jobs()), self._handled
        )

    def _submit(self, job: Submission, names: bool) -> None:
        instance, clock = self.instance, self.clock
        clock.now = max(clock.now, job.submit)
        now = instance._enter()
        request = self.machine.asking(job.ask) if isinstance(job.ask, int) else job.ask
        try:
            made = instance.enter_job(request, job.limit, now, job.urgency, job.name, job.user, self._dependencies(job), job)
        except InfeasibleRequest as error:
            self.refused[error.message] += 1
            if len(self.refused_ids) < _REFUSED_SHOWN:
                self.refused_ids.append(job.id)
            return
        if names:
            self._numbers[str(job.id)] = made.id

    def _dependencies(self, job: Submission) -> Iterator[str] | tuple[()]:
        return self._resolved(job) if job.dependencies else ()

    def _resolved(self, job: Submission) -> Iterator[str]:
        for dependency in job.dependencies:
            scheme, colon, value = dependency.partition(":")
            if not colon or scheme == "begin-time":
                yield dependency
                continue
            number = self._numbers.get(value)
            if number is None:
                raise InputError(
                    f"{dependency}: no job {value} was submitted before", where=f"job {job.id}", hint="it may have been refused"
                )
            yield f"{scheme}:{number}"

    def _handle(self) -> None:
        moment, kind, _, what = self.events.pop()
        self.clock.now = moment
        if kind == TIMER:
            self._timer = FOREVER
            self.instance.advance()
        elif what.state in RUNNING:
            _end(what)

    def _set_timer(self) -> None:
        due = self.instance._next_tick()
        if due < self._timer:
            self._timer = due
            self.events.push(max(due, self.clock.now), TIMER, None)

    def _over(self, job: Job) -> None:
        given: Submission = job.payload
        claim, inventory = job.claim, job.instance.inventory
        count = inventory.count(claim) if claim is not None else 0
        result = job.result
        assert result is not None  # only finished jobs come here
        record = Finished(
            given.id, given.submit, job.started, job.ended, job.duration, count, job.status, result, job.user, 0, claim, inventory
        )
        for sink in self.sinks:
            sink.add(record)


_REFUSED_SHOWN = 100


def _end(job: Job) -> None:
    given: Submission = job.payload
    if given.run > job.duration and job.state is State.RUN:
        job.instance.exception(job, "timelimit", note="the limit has come")
    else:
        job.instance.finish(job, given.status)


def _next(coming: Iterator[Submission], last: Submission) -> Submission | None:
    found = next(coming, None)
    if found is not None and found.submit < last.submit:
        raise InputError(
            f"job {found.id} comes at {found.submit / 1e6} s, after one that came at {last.submit / 1e6} s", where="workload"
        )
    return found


def simulate(
    workload: Workload | Iterable[Submission],
    machine: Machine | ResourceGraph,
    *,
    progress: Callable[[int], None] | None = None,
    **settings: Any,
) -> Result:
    """Run a workload on a machine; see Simulator for the settings.

    >>> from fluxres.simulation.machine import of_number
    >>> from fluxres.simulation.workload import Submission
    >>> jobs = [Submission(n, 0, 60_000_000, 60_000_000, 6) for n in (1, 2)]
    >>> result = simulate(jobs, of_number(10), queue_policy="fcfs")
    >>> result.metrics.mean_wait_s, result.metrics.makespan_s, result.metrics.utilisation
    (30.0, 120.0, 0.6)
    """
    return Simulator(machine, **settings).run(workload, progress)
