"""What a job does once it has its resources: nothing, wait, or run a command."""

from __future__ import annotations

import os
import shlex
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fluxres.errors import FluxresError, UsageError
from fluxres.instance.runner import STOPPED
from fluxres.launch import lifeline
from fluxres.syntax import duration

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.launch.runner import ProcessRunner


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
            length_s = duration.parse(text.removeprefix("sleep:"))
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
