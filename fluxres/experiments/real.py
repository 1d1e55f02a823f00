"""Real runs beside simulated ones: which settings can be run in processes, and what was measured there.

The real run of a setting has the same machine, hierarchy and ensemble: each instance but the outermost is a process, and each job
a program that sleeps.  Processes are a layer above studies, so the command line makes these runs; this module has what they need,
and what the report reads.
"""

from __future__ import annotations

import csv
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.experiments import checks, parts
from fluxres.experiments.execution import JOBS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fluxres.experiments.comparison import Comparison, Row
    from fluxres.experiments.study import Run, Study, WorkloadEntry
    from fluxres.simulation.machine import Machine
    from fluxres.simulation.nesting.hierarchy import Hierarchy

FILE: Final = "real.json"
STARTS: Final = "starts.csv"


class Real(msgspec.Struct, frozen=True):
    """What a real run measured.

    Args:
        jobs, completed, failed: numbers of jobs.
        instances: number of instances.
        boot_s: time until all instances were ready.
        run_s: time from then until the last job ended.
        processors: of the computer that it ran on.
        load: its load average after the run.
    """

    jobs: int
    completed: int
    failed: int
    instances: int
    boot_s: float
    run_s: float
    processors: int
    load: float

    @property
    def makespan_s(self) -> float:
        """From the start of the hierarchy to the end of the last job, as of a simulation whose jobs are submitted at 0."""
        return self.boot_s + self.run_s


class Wanted(NamedTuple):
    """A setting that can be run in processes.

    Args:
        job, request: as of `fluxres hierarchy`.
        limit_s: None for no limit.
    """

    machine: Machine
    hierarchy: Hierarchy
    inventory: str
    jobs: int
    job: str
    request: str
    limit_s: float | None


def wanted(run: Run) -> Wanted:
    """The real run of a setting.

    Errors: UsageError for a setting with jobs or conditions that only a simulation has.
    """
    entry, page = run.workload, run.page
    model = entry.ensemble
    if model is None or model.distribution != "fixed" or model.interval_s or entry.request is not None:
        raise UsageError(
            "real runs are of an ensemble of equal jobs, submitted at once",
            where=_not_equal(entry),
            hint="such as ensemble: {jobs: 512, run_s: 1}",
        )
    given = page.hierarchy
    simulated = {
        "disturbances": page.disturbances != type(page.disturbances)(),
        "accounting": page.accounting is not None,
        "energy": page.energy not in (None, "none"),
        "prediction": page.prediction is not None,
        "workload.adaptive": entry.adaptive is not None,
        "workload.estimates": entry.estimates is not None,
        "hierarchy.starts_per_node": bool(given.starts_per_node),
        "hierarchy.larger": given.larger != "refuse",
        "hierarchy.balance": given.balance != "none",
        "hierarchy.elastic": given.elastic != "none",
        "hierarchy.parts": given.parts is not None,
    }
    if others := [name for name, is_given in simulated.items() if is_given]:
        raise UsageError(
            f"real runs have no {', '.join(others)}", where=others[0], hint="leave it out, or run the study without --real"
        )
    machine = parts.machine(run)
    size = "" if model.size == 1 else f"={model.size}"
    return Wanted(
        machine,
        parts.hierarchy(given, machine.count, run.folder),
        "graph" if page.inventory == "auto" else page.inventory,
        model.jobs,
        f"sleep:{model.run_s:g}" if model.run_s else "instant",
        f"slot=1/{machine.unit}{size}",
        model.limit_s,
    )


def _not_equal(entry: WorkloadEntry) -> str:
    """The path of what makes jobs differ."""
    if (model := entry.ensemble) is None:
        given = ("file", "model", "lublin", "bursts")
        return next((f"workload.{name}" for name in given if getattr(entry, name) is not None), "workload")
    if entry.request is not None:
        return "workload.request"
    return "workload.ensemble.distribution" if model.distribution != "fixed" else "workload.ensemble.interval_s"


def require(study: Study, start: Callable[[Wanted], object]) -> None:
    """Refuse a study of which a setting cannot be run in processes, before anything is run.

    Args:
        start: refuses a real run that could not be started, with any FluxresError.

    Errors: InputError with the line of the setting.
    """
    for run in study.runs:
        if run.repeat == 0:
            try:
                start(wanted(run))
            except FluxresError as error:
                path = error.where if isinstance(error, UsageError) and _is_on(run, error.where) else "hierarchy"
                raise checks.placed(study, run, path, error) from None


def _is_on(run: Run, path: str) -> bool:
    """Whether a place is a path of the page."""
    return path.partition(".")[0] in run.page.__struct_fields__


def write(folder: Path, measured: Real, starts_s: Sequence[float]) -> None:
    """Keep what was measured with the other files of a run.

    Args:
        starts_s: when jobs started in the real run, in order, from its begin. Jobs are equal, so that the first start stands
            beside the first one of the simulation, and so on.
    """
    simulated = _simulated_starts(folder / JOBS)
    with (folder / STARTS).open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("start", "simulated_s", "real_s"))
        for number, both in enumerate(zip_longest(simulated, starts_s), 1):
            out.writerow((number, *("" if moment is None else f"{moment:.6f}" for moment in both)))
    (folder / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(measured)))


def read(folder: Path) -> Real | None:
    """What was measured for a run; None if nothing was.

    Errors: InputError for a damaged file.
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Real)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        hint = "remove it and run the study with --real again"
        raise InputError(f"not a real run: {error}", where=str(folder / FILE), hint=hint) from None


def _simulated_starts(path: Path) -> list[float]:
    """When jobs started, in order, from the first submission."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(float(row["submission_time"]), row["starting_time"]) for row in csv.DictReader(file)]
    begin = min((submitted for submitted, _ in rows), default=0.0)
    return sorted(float(started) - begin for _, started in rows if started)


class Starts(NamedTuple):
    """When the jobs of a run started, in order, from its begin, in seconds."""

    simulated_s: list[float]
    real_s: list[float]

    @property
    def later_s(self) -> list[float]:
        """How much later each start was in reality; of as many as there are in both."""
        return [real - simulated for simulated, real in zip(self.simulated_s, self.real_s, strict=False)]


def read_starts(folder: Path) -> Starts | None:
    """The starts of a run; None for a real run of an earlier version, which has none.

    Errors: InputError for a damaged file.
    """
    path = folder / STARTS
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [(row["simulated_s"], row["real_s"]) for row in csv.DictReader(file)]
        return Starts(*([float(row[at]) for row in rows if row[at]] for at in (0, 1)))
    except FileNotFoundError:
        return None
    except (KeyError, ValueError, TypeError):
        hint = "remove it, and real.json beside it, and run the study with --real again"
        raise InputError("not a table of starts", where=str(path), hint=hint) from None


class Pair(NamedTuple):
    """A setting with its simulated and its real run."""

    row: Row
    simulated_s: float | None
    real: Real
    starts: Starts | None = None

    @property
    def ratio(self) -> float | None:
        """Of the real to the simulated makespan."""
        return self.real.makespan_s / self.simulated_s if self.simulated_s else None

    @property
    def boot_s(self) -> float:
        """In whole milliseconds: less is the time that it takes to look at the clock."""
        return round(self.real.boot_s, 3)


def pairs(found: Comparison) -> list[Pair]:
    """The settings that were run both ways, first run of each."""
    made = []
    for row in found.rows:
        for run, document in row.runs[:1]:
            real = read(found.folder.runs / run.key)
            if real is not None:
                starts = read_starts(found.folder.runs / run.key)
                made.append(Pair(row, document["metrics"]["makespan_s"], real, starts))
    return made
