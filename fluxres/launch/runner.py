"""The runner of an instance whose jobs are real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fluxres.clock import stopwatch
from fluxres.errors import FluxresError
from fluxres.instance.runner import STOPPED
from fluxres.instance.states import State

if TYPE_CHECKING:
    from fluxres.instance import Job
    from fluxres.launch.loop import Loop
    from fluxres.launch.work import Running

NOT_STARTED: Final = 127 << 8
"""Wait status of a job whose program could not be started, as in shells."""


class ProcessRunner:
    """Starts and stops jobs whose payload is :class:`~fluxres.launch.work.Work`.

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
            running = job.payload.begin(job, self)
        except (OSError, FluxresError) as error:
            self.away_s += stopwatch() - began
            note = error.strerror or str(error) if isinstance(error, OSError) else str(error)
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


class _Gone:
    """Stands in for work that could not begin: it ends as soon as it is stopped."""

    def __init__(self, job: Job, runner: ProcessRunner, status: int = NOT_STARTED) -> None:
        self._job, self._runner, self._status = job, runner, status

    def stop(self, why: str) -> None:
        self._runner.ended(self._job, self._status)

    def kill(self) -> None:
        self.stop("")
