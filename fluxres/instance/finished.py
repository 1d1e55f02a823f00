"""The jobs of an instance that have ended."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fluxres import limits
from fluxres.instance.job import Job


class FinishedJobs:
    """The latest jobs that have ended, by number.

    Args:
        sink: gets each of them instead; then only those on which it raises are kept.
    """

    __slots__ = ("_jobs", "_sink")

    def __init__(self, sink: Callable[[Job], None] | None) -> None:
        self._sink = sink
        self._jobs: dict[int, Job] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Add a job. Errors: what the sink raises; the job is kept then."""
        if self._sink is None:
            self._keep(job)
            return
        try:
            self._sink(job)
        except BaseException:
            self._keep(job)
            raise

    def _keep(self, job: Job) -> None:
        self._jobs[job.number] = job
        if len(self._jobs) > limits.FINISHED_KEPT:
            del self._jobs[next(iter(self._jobs))]

    def get(self, number: int) -> Job | None:
        return self._jobs.get(number)

    @property
    def jobs(self) -> Collection[Job]:
        return self._jobs.values()
