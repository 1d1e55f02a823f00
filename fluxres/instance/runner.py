"""Who makes jobs run: a simulator, something that starts processes, or nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fluxres.instance.job import Job


class Runner(Protocol):
    """What an instance tells to start and stop jobs.  The answer is `job.instance.finish(job, status)`, at once or later.

    keeps_limits: whether no job outlives its limit, so that the instance need not watch them.
    """

    keeps_limits: bool

    def start(self, job: Job) -> None:
        """The job has its resources."""

    def stop(self, job: Job, why: str) -> None:
        """The job shall give its resources back: it was canceled, its time is over, or it has failed."""


class Unattended:
    """Nobody: whoever uses the instance says when a job is finished; who is stopped is finished at once."""

    keeps_limits = False

    def start(self, job: Job) -> None:
        """Nothing to do."""

    def stop(self, job: Job, why: str) -> None:
        """It ends here and now."""
        job.instance.finish(job, STOPPED)


STOPPED = 15
"""Wait status of a job that was stopped: that of a process ended by SIGTERM."""
