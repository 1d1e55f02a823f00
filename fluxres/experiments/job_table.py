"""The jobs of a finished run, read again to compare it with another one on the jobs that both ran."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fluxres.clock import TICKS_PER_S
from fluxres.errors import InputError
from fluxres.experiments.figures import of_jobs
from fluxres.simulation.metrics import RunningMetrics, Series
from fluxres.simulation.results.distribution import Trim
from fluxres.simulation.schedule import Finished

OF_UNITS: Final = ("utilisation", "peak")
"""The metrics that depend on what jobs held at each time."""


@dataclass
class JobTable:
    """The jobs that ran, by id; a trace may have several lines of one job, for the parts in which it ran.

    Args:
        units: of the machine.
        trim: what is left out of metrics.
        is_complete: whether these rows say all that jobs held: each had one size from its last start to its end, and no earlier
            attempt, on a machine of one size.
    """

    jobs: dict[str, list[Finished]]
    units: int
    trim: Trim
    is_complete: bool

    @property
    def ids(self) -> set[tuple[str, int]]:
        """Each id with the number of its jobs."""
        return {(name, len(jobs)) for name, jobs in self.jobs.items()}

    def metrics(self, ids: Iterable[tuple[str, int]]) -> dict[str, float | None]:
        """The metrics of some of the jobs, as if there were no others; None for those of units if these are not complete."""
        running, series = RunningMetrics(self.units), Series()
        for job in (job for name, _ in sorted(ids) for job in self.jobs[name]):
            running.add(job)
            series.add(job)
        found = running.metrics().to_dict() | of_jobs(series, self.units, self.trim)
        return found if self.is_complete else found | dict.fromkeys(OF_UNITS)


def read_jobs(path: Path, units: int, trim: Trim, *, is_complete: bool) -> JobTable:
    """Read `jobs.csv` of a run.

    Errors: InputError for a file that is not one.
    """
    found: dict[str, list[Finished]] = {}
    nothing: Any = None
    with path.open(encoding="utf-8", newline="") as file:
        try:
            for row in csv.DictReader(file):
                if row["starting_time"]:
                    times = (row["submission_time"], row["starting_time"], row["finish_time"])
                    submit, start, end = (round(float(text) * TICKS_PER_S) for text in times)
                    size = int(row["requested_number_of_resources"])
                    job = Finished(row["job_id"], submit, start, end, 0, size, 0, "completed", None, 0, nothing, nothing)
                    found.setdefault(row["job_id"], []).append(job)
        except (KeyError, ValueError, TypeError):
            raise InputError("not a table of jobs", where=str(path), hint="remove its run and run the study again") from None
    return JobTable(found, units, trim, is_complete)
