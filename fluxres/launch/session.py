"""One instance that runs the jobs of a workload in real time.

A job whose request is a jobspec with a task runs the command of the task. Any other job holds its resources for as long as the
workload says it ran, so a trace can be replayed as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import listed
from fluxres.errors import FluxresError, PolicyError, UsageError
from fluxres.instance import Instance
from fluxres.instance.charged import Charged
from fluxres.instance.holding import OVERTIME_S
from fluxres.instance.watchdog import watching
from fluxres.launch import lifeline
from fluxres.launch.loop import Loop
from fluxres.launch.work import Command, ProcessRunner, Running, Sleep, Work, turn, wind_down
from fluxres.model import matching

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.model import ResourceGraph
    from fluxres.simulation.workload.workload import Submission, Workload


class Ran(NamedTuple):
    """A job that has ended: its ids in the workload and in the instance, the result, and the times in seconds since the start."""

    name: str
    id: str
    result: str
    status: int
    submitted_s: float
    started_s: float | None
    finished_s: float
    pools: list[str]
    note: str


@dataclass
class Session:
    """An instance, and the jobs submitted to it.

    Args:
        machine: not modified; its free part is used.
        workload: submissions.
        queue_policy, match_policy, inventory: of the instance.
        grace_s: between SIGTERM and SIGKILL.
        ran: called with each job that has ended.
    """

    machine: ResourceGraph
    workload: Workload
    queue_policy: str = "fcfs"
    match_policy: str = "first"
    inventory: str = "graph"
    grace_s: float = limits.GRACE_SECONDS_DEFAULT
    ran: Callable[[Ran], None] = lambda _ran: None
    _names: dict[str, str] = field(default_factory=dict, repr=False)
    _pools: dict[int, list[str]] = field(default_factory=dict, repr=False)

    def run(self) -> None:
        """Run all jobs; those that can never start, such as held ones, are canceled at the end.

        Errors: UsageError for jobs with instances of their own, before anything starts; PolicyError for a policy that raises, or
        starts no job although all could start; KeyboardInterrupt on a signal to end, after everything has ended.
        """
        from fluxres.simulation.machine import Machine

        lifeline.require_support()
        self._require_flat()
        lifeline.raise_open_files()
        with Loop() as loop, loop.signals():
            graph = self.machine.copy("/")
            graph.clock = clocks.system
            mark = f"{uuid4().hex}/instance"
            self._runner = ProcessRunner(loop, mark, self.grace_s)
            self._loop, self._units = loop, Machine(graph)
            self._instance = Instance(
                graph,
                queue_policy=self.queue_policy,
                match_policy=self.match_policy,
                inventory=self.inventory,
                runner=self._runner,
                sink=self._is_over,
                events=False,
                passes="manual",
            )
            self._began_s = self._instance.clock()
            self._coming: Iterator[Submission] | None = iter(self.workload)
            self._await(next(self._coming, None))
            with watching(lambda: [self._instance], [self._instance.policy], is_ending=lambda: loop.stops > 0):
                self._work(loop, mark)
            if loop.stops:
                raise KeyboardInterrupt

    def _work(self, loop: Loop, mark: str) -> None:
        try:
            while (self._is_fed() or self._instance.is_active) and not loop.stops:
                is_fed, schedule = self._is_fed(), self._instance.schedule
                if not turn(self._instance, self._runner, loop, schedule, is_fed=is_fed, named=lambda job: job.payload.name):
                    break
        finally:
            try:
                wind_down(self._instance, self._runner, loop, self.grace_s + OVERTIME_S)
            finally:
                lifeline.kill_marked(mark)

    def _require_flat(self) -> None:
        """Refuse jobs whose own jobs would run in an instance on what they hold. Errors: UsageError."""
        if self.workload.has_instances:
            stages = [str(job.id) for job in self.workload if job.jobs]
            message = f"jobs with `jobs` of their own do not run in one instance: {listed(stages)}"
            hint = "`fluxres simulate` runs them in simulated time; `fluxres hierarchy` runs instances below instances"
            raise UsageError(message, where=self.workload.name, hint=hint)

    def _is_fed(self) -> bool:
        return self._coming is not None

    # -- submission ------------------------------------------------------------------------------------------------------

    def _await(self, job: Submission | None) -> None:
        if job is None:
            self._coming = None
            return
        wait_s = seconds(job.submit) - (self._instance.clock() - self._began_s)
        self._loop.after(max(0.0, wait_s), lambda: self._submit(job))

    def _submit(self, given: Submission) -> None:
        request = self._units.asking(given.ask) if isinstance(given.ask, int) else given.ask
        try:
            # Not `submit`, which refuses dependencies on jobs that have failed already: others fail with their job, at any time.
            made = self._instance.submit_request(
                request,
                matching.length(self._instance.graph, request) if given.limit >= FOREVER else given.limit,
                self._instance.enter(),
                given.urgency,
                given.name,
                given.user,
                [self._resolved(one) for one in given.dependencies],
                _Entry(str(given.id), _work(given), self._pools),
                Charged(given.user, partition=request.queue),
            )
        except PolicyError:
            raise
        except FluxresError as error:
            now_s = self._instance.clock() - self._began_s
            self.ran(Ran(str(given.id), "", "refused", 0, now_s, None, now_s, [], str(error)))
        else:
            self._names[str(given.id)] = str(made.id)
        self._runner.changed = True
        self._await(None if self._coming is None else next(self._coming, None))

    def _resolved(self, dependency: str) -> str:
        scheme, colon, value = dependency.partition(":")
        return f"{scheme}:{self._names.get(value, value)}" if colon and scheme != "begin-time" else dependency

    # -- end -------------------------------------------------------------------------------------------------------

    def _is_over(self, job: Job) -> None:
        began_s = self._began_s
        note = job.exceptions[0].note if job.exceptions else lifeline.status_text(job.status) if job.status else ""
        self.ran(
            Ran(
                job.payload.name if isinstance(job.payload, _Entry) else str(job.id),
                str(job.id),
                job.result or "",
                lifeline.exit_code(job.status),
                job.submitted_at - began_s,
                None if job.started_at is None else job.started_at - began_s,
                (job.finished_at or began_s) - began_s,
                self._pools.pop(job.number, []),
                note,
            )
        )


class _Entry(NamedTuple):
    """A job of the workload, and a record of what it was allocated, because a job that has ended holds nothing."""

    name: str
    work: Work
    pools: dict[int, list[str]]

    def begin(self, job: Job, runner: ProcessRunner) -> Running | None:
        self.pools[job.number] = [path for path, _ in job.pools]
        return self.work.begin(job, runner)


def _work(given: Submission) -> Work:
    """The work of a job of a workload: the command of its first task, or waiting for its run time."""
    tasks = () if isinstance(given.ask, int) else given.ask.tasks
    if tasks and tasks[0].command:
        return Command(tuple(tasks[0].command))
    return Sleep(seconds(given.run), given.status)
