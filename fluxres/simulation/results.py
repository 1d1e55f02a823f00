"""Results as text, written while a run goes on: Batsim's CSV, which evalys and others read, and the Standard Workload Format.

A line is written when a job ends, so memory does not grow with the length of a run.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import IO, Final

from fluxres.clock import FOREVER, TICKS_PER_S, seconds
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

    Times are in seconds with six decimals. A job that never ran has no start. Energy is not computed: the column stays empty.
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
                "",
                "" if job.user is None else f"user={job.user}",
            )
        )

    def close(self) -> None:
        """No-op: nothing is buffered."""


def _text(ticks: int) -> str:
    return f"{ticks / TICKS_PER_S:.6f}"


def _hosts(ids: str) -> str:
    """An idset as Batsim writes intervals: `0-3 7`."""
    return ids.replace(",", " ")


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
