"""What makes jobs run: a simulator, something that starts processes, or nothing."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from fluxres.instance.job import Job


class Runner(Protocol):
    """What an instance asks to start and stop jobs.  The answer is `job.instance.finish(job, status)`, at once or later: what a
    job holds is its own until then, however late that is (rule T1).

    Derive a runner from this, or write any class with these two methods.  What they raise is an exception `exec` of the job: one
    that could not be started fails and has ended, one that could not be stopped keeps its resources until `finish`.

    keeps_limits: that the runner ends jobs at their limit by itself.  The instance then does not ask it to, and what a job
    holds is free at the very moment of its limit, also in a pass before the `finish` of that moment.  Where `finish` does not
    come at that moment, the job is asked to stop as any other that is late.  A job with a child ends by itself only where all
    runners of jobs in the child, and below, keep limits, and none of these jobs is late.
    """

    keeps_limits: bool = False

    @abstractmethod
    def start(self, job: Job) -> None:
        """The job has its resources."""

    @abstractmethod
    def stop(self, job: Job, why: str) -> None:
        """The job shall give its resources back: `why` is the type of the exception that ends it, such as cancel or timelimit."""


class Unattended(Runner):
    """None: the user of the instance says when a job is finished; a job that is stopped is finished at once."""

    def start(self, job: Job) -> None:
        """Nothing to do."""

    def stop(self, job: Job, why: str) -> None:
        """It ends here and now."""
        job.instance.finish(job, STOPPED)


STOPPED: Final = 15
"""Wait status of a job that was stopped: that of a process ended by SIGTERM."""
NOT_STARTED: Final = 126 << 8
"""Wait status of a job that its runner could not start: that of a shell whose command could not be executed."""
