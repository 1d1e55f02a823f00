"""Results as text, written while a run goes on: Batsim's CSV, which evalys and others read, and the Standard Workload Format.

A line is written when a job ends, so memory does not grow with the length of a run.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import IO, Any, Final

from fluxres import __version__
from fluxres.clock import FOREVER, TICKS_PER_S, seconds
from fluxres.simulation.energy.energy import CATEGORIES, EnergyUse
from fluxres.simulation.metrics import Metrics
from fluxres.simulation.schedule import Finished
from fluxres.syntax import idset

COLUMNS: Final = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
)
_STATES: Final = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "failed": "COMPLETED_FAILED",
    "timeout": "COMPLETED_WALLTIME_REACHED",
    "canceled": "COMPLETED_KILLED",
}


class BatsimCsv:
    """A sink that writes the columns of Batsim's `out_jobs.csv`.

    Args:
        file: open for text; the caller closes it.
        workload: its name.

    Times are in seconds with six decimals. A job that never ran has no start. `consumed_energy` is what the nodes of
    a job consumed while it ran, all that they drew, in joules; empty if what they draw is not known.
    `metadata` has the user, if there is one: `user=alice`.
    """

    def __init__(self, file: IO[str], workload: str = "workload") -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._workload = workload
        self._writer.writerow(COLUMNS)

    def add(self, job: Finished) -> None:
        ran = job.start >= 0
        run = job.end - job.start if ran else 0
        turnaround = job.end - job.submit
        self._writer.writerow(
            (
                job.id,
                self._workload,
                "",
                _text(job.submit),
                job.size,
                -1 if job.limit >= FOREVER else _text(job.limit),
                int(job.result == "completed"),
                _STATES[job.result] if ran else "REJECTED",
                _text(job.start) if ran else "",
                _text(run),
                _text(job.end),
                _text(job.start - job.submit) if ran else "",
                _text(turnaround),
                f"{turnaround / run:.6f}" if run else "1.000000" if ran else "",
                _hosts(job.allocated()),
                "" if job.joules is None else f"{job.joules:.6f}",
                "" if job.user is None else f"user={job.user}",
            )
        )

    def close(self) -> None:
        """No-op: nothing is buffered."""


SCHEDULE_COLUMNS: Final = (
    "batsim_version",
    "consumed_joules",
    "makespan",
    "max_slowdown",
    "max_turnaround_time",
    "max_waiting_time",
    "mean_slowdown",
    "mean_turnaround_time",
    "mean_waiting_time",
    "nb_computing_machines",
    "nb_grouped_switches",
    "nb_jobs",
    "nb_jobs_finished",
    "nb_jobs_killed",
    "nb_jobs_success",
    "nb_machine_switches",
    "scheduling_time",
    "simulation_time",
    "success_rate",
    "time_computing",
    "time_idle",
    "time_sleeping",
    "time_switching_off",
    "time_switching_on",
    "time_unavailable",
)
"""Of Batsim's `out_schedule.csv`, in its order (its documentation, "Schedule"), and the time in its state unavailable."""


def schedule_row(metrics: Metrics, energy: EnergyUse | None, *, machines: int, max_turnaround_s: float | None) -> list[Any]:
    """The one line of Batsim's `out_schedule.csv`.

    Args:
        energy: None if what nodes draw is not known; then its columns are empty.
        machines: their number.

    Real times are empty too: results are the same for every run.  `batsim_version` is that of fluxres.
    """
    killed, done = metrics.results.get("timeout", 0), metrics.results.get("completed", 0)
    jobs = sum(metrics.results.values())
    values: dict[str, Any] = {
        "batsim_version": f"fluxres {__version__}",
        "makespan": metrics.makespan_s,
        "max_slowdown": metrics.max_stretch,
        "max_turnaround_time": max_turnaround_s,
        "max_waiting_time": metrics.max_wait_s,
        "mean_slowdown": metrics.mean_stretch,
        "mean_turnaround_time": metrics.mean_turnaround_s,
        "mean_waiting_time": metrics.mean_wait_s,
        "nb_computing_machines": machines,
        "nb_jobs": jobs,
        "nb_jobs_finished": metrics.jobs,
        "nb_jobs_killed": killed,
        "nb_jobs_success": done,
        "success_rate": done / jobs if jobs else None,
    }
    if energy is not None:
        values |= {
            "consumed_joules": energy.joules(),
            "nb_computing_machines": energy.nodes,
            "nb_grouped_switches": energy.grouped,
            "nb_machine_switches": energy.boots + energy.shutdowns,
        }
        values |= {f"time_{name}": energy.time_s(name) for name in CATEGORIES}
    found = (values.get(name) for name in SCHEDULE_COLUMNS)
    return ["" if value is None else f"{value:.6f}" if isinstance(value, float) else value for value in found]


def _text(ticks: int) -> str:
    return f"{ticks / TICKS_PER_S:.6f}"


def _hosts(ids: str) -> str:
    """An idset as Batsim writes intervals: `0-3 7`."""
    return ids.replace(",", " ")


class SizesCsv:
    """A sink that writes the sizes of malleable jobs over time: job, instance, moment in seconds and units from then on.

    The last moment of a job is its end, from which on it has none.

    Args:
        file: open for text. Jobs of one size have no lines; `jobs.csv` has theirs.
    """

    def __init__(self, file: IO[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._writer.writerow(("job_id", "instance", "time", "units"))

    def add(self, job: Finished) -> None:
        for each in (*job.earlier, job):
            course = (*each.sizes, (each.end, 0)) if each.sizes else ()
            self._writer.writerows((each.id, each.instance, _text(moment), units) for moment, units in course)

    def close(self) -> None:
        """No-op: nothing is buffered."""


class SwfText:
    """A sink that writes the Standard Workload Format.

    Args:
        file: open for text.
        header: lines of it by key.

    What the format cannot say is left out: which units a job held, and fractions of seconds.
    """

    def __init__(self, file: IO[str], header: Mapping[str, str] | None = None) -> None:
        self._file = file
        for key, value in (header or {}).items():
            file.write(f"; {key}: {' '.join(str(value).split())}\n")
        self._numbers: dict[str, int] = {}

    def add(self, job: Finished) -> None:
        ran = job.start >= 0
        values = [-1] * 18
        values[0] = job.id if isinstance(job.id, int) else self._number(str(job.id))
        values[1] = _whole(job.submit)
        values[2] = _whole(job.start - job.submit) if ran else -1
        values[3] = _whole(job.end - job.start) if ran else 0
        values[4] = values[7] = job.size
        values[8] = -1 if job.limit >= FOREVER else _whole(job.limit)
        values[10] = {"completed": 1, "canceled": 5}.get(job.result, 0)
        for at, name in ((11, job.user), (12, job.account), (14, job.queue), (15, job.partition)):
            if name is not None and name.isdecimal():
                values[at] = int(name)
        self._file.write(" ".join(map(str, values)) + "\n")

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers) + 1)

    def close(self) -> None:
        """No-op: nothing is buffered."""


def _whole(ticks: int) -> int:
    return round(seconds(ticks))


def hosts_of(text: str) -> list[int]:
    """Unit numbers of Batsim's intervals.

    >>> hosts_of("0-2 7")
    [0, 1, 2, 7]
    """
    return idset.parse(text.strip().replace(" ", ","))
