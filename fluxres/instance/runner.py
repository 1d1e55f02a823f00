"""The interface of runners, which start and stop the jobs of an instance: a simulator, a process launcher, or nothing."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Protocol

from fluxres import limits
from fluxres.documents import arguments
from fluxres.errors import UsageError
from fluxres.instance.job import Job


class Runner(Protocol):
    """Starts and stops jobs.  It calls `job.instance.finish(job, status)` when a job has ended, immediately or later; until then
    the job keeps its resources (rule T1).

    A runner is derived from this class, or is any class with these two methods.  If they raise, the job gets an exception `exec`:
    a job that could not be started has failed, and a job that could not be stopped keeps its resources until `finish`.

    keeps_limits: whether the runner ends jobs at their limit by itself.  The instance then does not ask it to stop them, and the
    resources of a job are free at exactly its limit, even in a pass before the `finish` of that moment.  A job for which `finish`
    is not called at that moment is asked to stop like any other late job.  A job with a child ends by itself only if the runners
    of all jobs in the child, and below, keep limits, and none of these jobs is late.

    defects: errors that say that the runner itself is wrong.  They are raised to the caller of the instance, and no job fails.
    """

    keeps_limits: bool = False

    @abstractmethod
    def start(self, job: Job) -> None:
        """Start a job, which has its resources now."""

    @abstractmethod
    def stop(self, job: Job, why: str) -> None:
        """Stop a job.

        Args:
            why: the type of the exception that ends it, such as cancel or timelimit.
        """


class Unattended(Runner):
    """Runs nothing: the caller of the instance reports the end of jobs; jobs that are stopped end immediately."""

    def start(self, job: Job) -> None:
        """Do nothing."""

    def stop(self, job: Job, why: str) -> None:
        """Report the end of the job."""
        job.instance.finish(job, STOPPED)


STOPPED: Final = 15
"""The wait status of a stopped job: that of a process killed by SIGTERM."""
NOT_STARTED: Final = 126 << 8
"""The wait status of a job that its runner could not start: that of a shell that could not execute its command."""


def wait_status(value: int) -> int:
    """Return a valid wait status. Errors: UsageError.

    >>> wait_status(1 << 8)
    256
    """
    if not 0 <= arguments.whole(value, "status") <= limits.WAIT_STATUS_MAX:
        hint = "0 is success, N * 256 the exit status N, N alone the signal N"
        raise UsageError(f"status: expected a wait status from 0 to {limits.WAIT_STATUS_MAX}, got {value!r:.80}", hint=hint)
    return value
