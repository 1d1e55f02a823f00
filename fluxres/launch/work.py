"""What a job does once it has its resources (nothing, wait, or run a command), the runner of instances whose jobs do it,
and the steps of such an instance: schedule what has become possible, wait for an event, handle what is due.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, UsageError
from fluxres.instance.runner import STOPPED
from fluxres.instance.states import RUNNING, State
from fluxres.launch import lifeline
from fluxres.syntax import duration

if TYPE_CHECKING:
    from fluxres.instance import Instance, Job
    from fluxres.launch.loop import Loop


NOT_STARTED: Final = 127 << 8
"""Wait status of a job whose program could not be started, as in shells."""


class Running(Protocol):
    """Work that has begun; it reports its end to its runner."""

    def stop(self, why: str) -> None:
        """End it soon."""

    def kill(self) -> None:
        """End it now."""


class Work(Protocol):
    """The payload of a job."""

    def begin(self, job: Job, runner: ProcessRunner) -> Running | None:
        """Begin it; None if it has already ended.  Errors: OSError, FluxresError; the job has failed then."""


@dataclass(frozen=True)
class Instant:
    """No work: only the scheduler is measured."""

    def begin(self, job: Job, runner: ProcessRunner) -> None: ...


@dataclass(frozen=True)
class Sleep:
    """Hold the resources for a while, without a process."""

    length_s: float
    status: int = 0
    """The wait status of the job."""

    def begin(self, job: Job, runner: ProcessRunner) -> Running:
        return _Sleeping(self, job, runner)


class _Sleeping:
    def __init__(self, what: Sleep, job: Job, runner: ProcessRunner) -> None:
        self._job, self._runner = job, runner
        self._timer = runner.loop.after(what.length_s, lambda: runner.ended(job, what.status))

    def stop(self, why: str) -> None:
        self._timer.cancel()
        self._runner.ended(self._job, STOPPED)

    def kill(self) -> None:
        self.stop("")


@dataclass(frozen=True)
class Command:
    """A program in its own process group; whatever remains of the group when it ends is killed."""

    argv: tuple[str, ...]

    def begin(self, job: Job, runner: ProcessRunner) -> Running:
        return _Commanded(self, job, runner)


class _Commanded:
    def __init__(self, what: Command, job: Job, runner: ProcessRunner) -> None:
        self._job, self._runner = job, runner
        self._process = lifeline.start(what.argv, mark=runner.mark, last_words=signal.SIGKILL, job=str(job.id))
        self._handle = os.pidfd_open(self._process.pid)
        runner.loop.watch(self._handle, self._exited)

    def stop(self, why: str) -> None:
        lifeline.signal_group(self._process.pid, signal.SIGTERM)
        self._runner.loop.after(self._runner.grace_s, self.kill)

    def kill(self) -> None:
        if self._process.returncode is None:
            lifeline.signal_group(self._process.pid, signal.SIGKILL)

    def _exited(self) -> None:
        # It has not been reaped, so its process id, which is that of its group, has not been reused.
        lifeline.signal_group(self._process.pid, signal.SIGKILL)
        status = lifeline.wait_status(self._process.wait())
        self._runner.loop.unwatch(self._handle)
        os.close(self._handle)
        self._runner.ended(self._job, status)


def parse(text: str) -> Work:
    """Parse work: ``instant``, ``sleep:DURATION``, or a command line.

    Errors: UsageError.

    >>> parse("instant"), parse("sleep:0.1"), parse("sh -c 'exit 3'")
    (Instant(), Sleep(length_s=0.1, status=0), Command(argv=('sh', '-c', 'exit 3')))
    """
    if text == "instant":
        return Instant()
    if text.startswith("sleep:"):
        try:
            length_s = duration.read(text.removeprefix("sleep:"))
        except FluxresError as error:
            raise UsageError(error.message, where=f"job {text:.80}", hint="such as sleep:0.1") from None
        if length_s == float("inf"):
            raise UsageError("it would never end", where=f"job {text:.80}", hint="such as sleep:0.1")
        return Sleep(length_s)
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(str(error), where=f"job {text:.80}") from None
    if not argv or "\0" in text:
        raise UsageError("expected instant, sleep:DURATION or a command", where=f"job {text!r:.80}")
    return Command(argv)


class ProcessRunner:
    """Starts and stops jobs whose payload is :class:`Work`.

    Args:
        loop: reports when they end.
        mark: the mark in the environment of their processes.
        grace_s: between SIGTERM and SIGKILL.
    """

    keeps_limits = False

    def __init__(self, loop: Loop, mark: str, grace_s: float) -> None:
        self.loop = loop
        self.mark = mark
        self.grace_s = grace_s
        self.changed = False
        """Whether a job has ended since this was last set to False."""
        self.away_s = 0.0
        """Time spent starting work, which does not count for the scheduler."""
        self.finish_s = 0.0
        """Time the instance spent on jobs that ended by themselves."""
        self._running: dict[int, Running] = {}

    @property
    def running(self) -> list[Running]:
        """Work that has begun and not ended."""
        return list(self._running.values())

    def start(self, job: Job) -> None:
        """Begin the work of a job; a job whose work cannot begin has failed."""
        began = stopwatch()
        try:
            if job.payload is None:
                raise UsageError("it has no work: a queue policy must not submit jobs here")
            running = job.payload.begin(job, self)
        except (OSError, FluxresError) as error:
            self.away_s += stopwatch() - began
            note = _why_not_begun(error) if isinstance(error, OSError) else str(error)
            self._running[job.number] = _Gone(job, self)
            job.instance.exception(job, "exec", note=note)
            return
        self.away_s += stopwatch() - began
        if running is None:
            job.instance.finish(job, 0)
        else:
            self._running[job.number] = running

    def stop(self, job: Job, why: str) -> None:
        """End the work of a job; its end is reported later."""
        running = self._running.get(job.number)
        if running is None:
            job.instance.finish(job, STOPPED)
        else:
            running.stop(why)

    def ended(self, job: Job, status: int, note: str = "") -> None:
        """Handle the end of work with this wait status; with a note, the job has failed."""
        self._running.pop(job.number, None)
        self.changed = True
        if job.state is State.INACTIVE:
            return
        began = stopwatch()
        if note and job.state is State.RUN:
            self._running[job.number] = _Gone(job, self, status)
            job.instance.exception(job, "exec", note=note)
        else:
            job.instance.finish(job, status)
        self.finish_s += stopwatch() - began


def _why_not_begun(error: OSError) -> str:
    """What the system says, with the program, if it is about that: `'nosuch': No such file or directory`."""
    why = error.strerror or str(error)
    return why if error.filename is None else f"{os.fsdecode(error.filename)!r:.80}: {why}"


class _Gone:
    """Stands in for work that could not begin: it ends as soon as it is stopped."""

    def __init__(self, job: Job, runner: ProcessRunner, status: int = NOT_STARTED) -> None:
        self._job, self._runner, self._status = job, runner, status

    def stop(self, why: str) -> None:
        self._runner.ended(self._job, self._status)

    def kill(self) -> None:
        self.stop("")


STARTS: Final = 256
"""Maximal number of jobs started by one pass, so that messages and jobs to end are handled between passes."""


def turn(
    instance: Instance,
    runner: ProcessRunner,
    loop: Loop,
    schedule: Callable[[int], int],
    *,
    is_fed: bool = False,
    named: Callable[[Job], object] = lambda job: job.id,
) -> bool:
    """Run one step; returns whether there may be another one: False if the jobs that are left can never start.

    Args:
        schedule: makes a pass with at most this number of starts, and returns the number of starts.
        is_fed: whether more jobs will come.
        named: the name of a job in messages.

    Errors: PolicyError for a policy that raises, or starts no job although all could start, while nothing runs.
    """
    if runner.changed:
        runner.changed = False
        if schedule(STARTS) >= STARTS:
            runner.changed = True
        if not instance.is_active and not is_fed:
            return False
    due = instance.next_due()
    if not (runner.changed or runner.running or is_fed) and due is None and instance.pending:
        if (error := instance.queue.starts_nothing(named)) is not None:
            raise error
        return False
    wait_s = None if due is None else max(0.0, due - instance.clock())
    loop.turn(0.0 if runner.changed else wait_s)
    if due is not None and instance.clock() >= due:
        instance.advance()
        runner.changed = True
    return True


def wind_down(instance: Instance, runner: ProcessRunner, loop: Loop, patience_s: float) -> None:
    """End everything that still runs, wait for it, then end the instance; a second signal ends the waiting."""
    for job in instance.jobs():
        if not instance.is_closed and job.result is None:
            instance.cancel(job, "the instance ends")
    is_over = is_hurried = False

    def over() -> None:
        nonlocal is_over
        is_over = True

    timer = loop.after(patience_s, over)
    while runner.running and not is_over:
        if loop.stops > 1 and not is_hurried:
            is_hurried = True
            for running in runner.running:
                running.kill()
        loop.turn()
    timer.cancel()
    for job in instance.jobs():
        if not instance.is_closed and job.state in RUNNING:
            instance.finish(job, STOPPED)  # the patience is exhausted
    instance.close()
