"""One run of a study: the page with its settings → a simulation → a directory of files.

A run is the same in this process, in another one and on a cluster, so this module takes only the run and a directory and knows
nothing about campaigns.  A queue policy that raises ends its instance; the results so far are written too, and the run counts as
failed.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import orjson

from fluxres import __version__
from fluxres.clock import seconds, ticks
from fluxres.errors import FluxresError
from fluxres.experiments import parts
from fluxres.experiments.figures import figures, share
from fluxres.experiments.study import Run
from fluxres.simulation.adaptive import malleable
from fluxres.simulation.calibration import calibrate
from fluxres.simulation.costs import models as cost_models
from fluxres.simulation.costs.fit import Fit
from fluxres.simulation.costs.least import measured
from fluxres.simulation.costs.overheads import LevelCost, fit_of, fitting
from fluxres.simulation.energy.fleet import Fleet
from fluxres.simulation.machine import Machine
from fluxres.simulation.metrics import Metrics, RunningMetrics, Series
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.nesting.sites import InstanceRow
from fluxres.simulation.result import Result
from fluxres.simulation.results.distribution import Trim, classes, counted
from fluxres.simulation.results.numbering import Translated, UsedUnits, host_count, hosts, laid_out
from fluxres.simulation.results.results import COLUMNS, SCHEDULE_COLUMNS, BatsimCsv, SizesCsv, SwfText, schedule_row
from fluxres.simulation.results.supplies import Drawn, supplies_of
from fluxres.simulation.schedule import Finished, Sink
from fluxres.simulation.simulator import Simulator
from fluxres.syntax import idset

Progress = Callable[[float, str], None]
"""Called with the number of runs done, including fractions, and a description of what is in progress."""

JOBS: Final = "jobs.csv"
SWF: Final = "jobs.swf"
SIZES: Final = "sizes.csv"
INSTANCES: Final = "instances.csv"
CLASSES: Final = "classes.csv"
SPENT: Final = ("ingest_s", "decide_s", "start_s", "event_s", "spawn_s", "slot_wait_s", "boot_s")
"""Where the time of the instances of a level went: of their processors, then waits of what they started, then their own boots."""
METRICS: Final = "metrics.json"
SCHEDULE: Final = "schedule.csv"
LAID_OUT_UNITS_MAX: Final = 20_000_000
"""Bound on the units of all jobs together for laying out units without numbers, which takes a Python step each."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Args:
        key: of the run.
        figures: metrics by name; empty if it did not get that far.
        error: what went wrong, or empty.
    """

    key: str
    figures: Mapping[str, float | None]
    error: str = ""


class JobSet:
    """A sink: which jobs ran, as a number that is the same for the same jobs in any order."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, job: Finished) -> None:
        if job.start >= 0:
            self._sum += int.from_bytes(blake2b(str(job.id).encode(), digest_size=8).digest(), "big")

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def digest(self) -> str:
        return f"{self._sum % 2**64:016x}"


class ByInstance:
    """A sink: metrics of each instance that ran jobs."""

    def __init__(self) -> None:
        self.running: dict[int, RunningMetrics] = {}

    def add(self, job: Finished) -> None:
        own = self.running.get(job.instance)
        if own is None:
            own = self.running[job.instance] = RunningMetrics(0)
        own.add(job)

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def metrics(self, row: InstanceRow) -> Metrics:
        """The metrics of this instance; utilisation and throughput are relative to its own size and its own time."""
        own = self.running.get(row.number) or RunningMetrics(0)
        own.size = row.size
        found, length_s = own.metrics(), row.end_s - row.begin_s
        if length_s <= 0 or not found.jobs:
            return found
        area = (found.utilisation or 0.0) * (found.makespan_s or 0.0)
        return replace(found, utilisation=area / length_s, throughput_per_s=found.jobs / length_s)


def execute(run: Run, folder: Path, progress: Callable[[float], None] | None = None) -> Outcome:
    """Make a run, and write the results to an existing directory.

    Args:
        progress: called now and then with the fraction done, if that is known.

    Errors: OSError for a directory that cannot be written; errors of fluxres are in the outcome.
    """
    try:
        return _execute(run, folder, progress)
    except FluxresError as error:
        return Outcome(run.key, {}, str(error))
    except MemoryError:
        return Outcome(run.key, {}, "not enough memory")


def _execute(run: Run, folder: Path, progress: Callable[[float], None] | None) -> Outcome:
    machine = parts.machine(run)
    workload = parts.workload(run, machine.count)
    levels = parts.hierarchy(run.page.hierarchy, machine.count, run.folder)
    parts.require_room(machine, levels, has_requests=workload.has_requests)
    count = workload.count

    def ended(number: int) -> None:
        if progress is not None and count:
            progress(number / count)

    series, by_instance = Series(), ByInstance()
    drawn = [Drawn(supply) for supply in supplies_of(machine)]
    with ExitStack() as files:
        jobs = files.enter_context((folder / JOBS).open("w", encoding="utf-8", newline=""))
        swf = files.enter_context((folder / SWF).open("w", encoding="utf-8"))
        resized: list[Sink] = []
        if malleable.parse(run.page.resize_policy).is_needed:
            resized = [SizesCsv(files.enter_context((folder / SIZES).open("w", encoding="utf-8", newline="")))]
        used = UsedUnits(BatsimCsv(jobs, workload.name))
        table = Translated(used, machine.graph.structure, machine.unit)
        header = {"Version": "2.2", "Computer": machine.graph.name, "MaxProcs": str(machine.count), "Note": run.key}
        ran = JobSet()
        sinks: list[Sink] = [table, SwfText(swf, header), series, by_instance, ran, *drawn, *resized]
        costs = measured(parts.costs(run.page.cost), lambda costs: _pass(run, levels, costs))
        fit = fit_of(costs)
        if fit is not None:
            _calibrate(fit, run, levels)
        simulator = _simulator(run, machine, levels, costs if fit is None else fitting(costs, fit), sinks)
        result = simulator.run(workload, ended)
    if not table.count:
        _lay_out(folder / JOBS, series, machine.count)
    _write_instances(folder / INSTANCES, result, by_instance, levels)
    _write_schedule(folder / SCHEDULE, result, series, machine.count)
    trim = Trim(run.page.trim.warm_up, run.page.trim.drain)
    found = figures(result, series, machine.count, cut=workload.notes[parts.CUT], trim=trim)
    found["units_used"] = used.count if table.count else found["peak"]  # units without numbers: the lowest free ones
    document = _document(run, result, found, series, levels)
    document["ran"] = ran.digest()
    document["classes"] = list(classes(counted(series, trim)))
    _write_classes(folder / CLASSES, document["classes"])
    document["over_time"]["supplies"] = list(_supplies(drawn, document["over_time"]))
    if simulator.fleet is not None:
        document["over_time"] |= _power(simulator.fleet, document["over_time"])
    document["machine"] = {
        "name": machine.graph.name,
        "unit": machine.unit,
        "units": machine.count,
        "hosts": hosts(machine),
        "host_count": host_count(machine),
    }
    document["blocked"] = [each._asdict() | {"start": seconds(each.start), "end": seconds(each.end)} for each in result.blocked]
    if fit is not None:
        document["fitted_cost"] = str(fit.fitted())
        document["fit"] = fit.quality()._asdict()
    document["cost_models"] = _cost_models(run)
    document["workload"] = {"name": workload.name, "left_out": dict(workload.left_out), "notes": dict(workload.notes)}
    (folder / METRICS).write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return Outcome(run.key, found, "; ".join(result.errors))


def _simulator(run: Run, machine: Machine, levels: Hierarchy, costs: list[LevelCost], sinks: list[Sink]) -> Simulator:
    return Simulator(
        machine,
        hierarchy=levels,
        size_policy=run.page.size_policy,
        resize_policy=run.page.resize_policy,
        inventory=run.page.inventory,
        cost=costs[: levels.levels],
        event_order=run.page.event_order,
        disturbances=parts.disturbances(run, machine),
        accounting=parts.accounting(run),
        prediction=parts.prediction(run),
        feedback=parts.feedback(run),
        energy=parts.energy(run.page.energy),
        sinks=sinks,
        keep=False,
    )


def _pass(run: Run, levels: Hierarchy, costs: list[LevelCost]) -> None:
    """A pass of a simulation only to measure its decisions."""
    machine = parts.machine(run)
    _simulator(run, machine, levels, costs, []).run(parts.workload(run, machine.count))


def _calibrate(fit: Fit, run: Run, levels: Hierarchy) -> None:
    calibrate(
        fit,
        lambda: parts.machine(run),
        queue_policies=levels.queue_policies,
        match_policies=levels.match_policies,
        inventory=run.page.inventory,
    )


def _cost_models(run: Run) -> list[dict[str, str]]:
    """The named cost models of a run, each once."""
    entries = run.page.cost if isinstance(run.page.cost, list) else [run.page.cost]
    names = dict.fromkeys(each.model for each in entries if not isinstance(each, str) and each.model is not None)
    found = [cost_models.find(name) for name in names]
    return [{"name": each.name, "source": each.source, "valid": each.valid, "residuals": each.residuals} for each in found]


def _lay_out(path: Path, series: Series, units: int) -> None:
    """Fill in unit numbers, in the lines of the jobs, for units that have none."""
    _, start, end, size = series.columns()
    if not len(size) or int(size[start >= 0].sum()) > LAID_OUT_UNITS_MAX:
        return
    found = laid_out(start.tolist(), end.tolist(), size.tolist(), units)
    at = COLUMNS.index("allocated_resources")
    beside = path.with_name(path.name + ".new")
    with path.open(encoding="utf-8", newline="") as old, beside.open("w", encoding="utf-8", newline="") as new:
        lines, out = csv.reader(old), csv.writer(new, lineterminator="\n")
        out.writerow(next(lines))
        for line, numbers in zip(lines, found, strict=True):
            line[at] = idset.format(numbers).replace(",", " ")
            out.writerow(line)
    beside.replace(path)


def _write_classes(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]) if rows else ["kind", "class", "jobs"], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def _write_instances(path: Path, result: Result, by_instance: ByInstance, levels: Any) -> None:
    names = [field.name for field in fields(InstanceRow)]
    own = ("mean_wait_s", "mean_bounded_slowdown", "utilisation", "throughput_per_s")
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*names, "queue_policy", "match_policy", *own])
        for row in result.instances:
            values = by_instance.metrics(row).to_dict()
            policies = (levels.queue_policy(row.level), levels.match_policy(row.level))
            out.writerow(
                [*(getattr(row, name) for name in names), *policies, *("" if values[n] is None else values[n] for n in own)]
            )


def _write_schedule(path: Path, result: Result, series: Series, machines: int) -> None:
    submit, start, end, _ = series.columns()
    turnarounds = (end - submit)[start >= 0]
    longest_s = seconds(int(turnarounds.max())) if turnarounds.size else None
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(SCHEDULE_COLUMNS)
        out.writerow(schedule_row(result.metrics, result.energy, machines=machines, max_turnaround_s=longest_s))


def _power(fleet: Fleet, curves: Mapping[str, Any]) -> dict[str, Any]:
    """Watts that nodes drew, as averages over the intervals of the other curves, and the cap at the beginning of each."""
    begin_s, part_s, parts = curves["begin_s"], curves["part_s"], len(curves["used"])
    found = {"power_w": [round(value, 3) for value in fleet.averages(begin_s, part_s, parts).tolist()]}
    if fleet.cap is not None:
        found["power_cap_w"] = [fleet.cap.at(ticks(begin_s + part_s * at)) for at in range(parts)]
    return found


def _document(run: Run, result: Result, found: Mapping[str, float | None], series: Series, levels: Any) -> dict[str, Any]:
    curves = series.over_time()
    return {
        "fluxres": __version__,
        "run": run.key,
        "settings": run.settings,
        "repeat": run.repeat,
        "seed": run.seed,
        "metrics": found,
        "results": result.metrics.results,
        "levels": list(_levels(result, levels)),
        "refused": {"reasons": dict(result.refusals.reasons), "first": result.refusals.ids},
        "left": dict(result.left_reasons),
        "notes": dict(result.notes),
        "errors": result.errors,
        "over_time": {
            "begin_s": curves.begin_s,
            "part_s": curves.part_s,
            "used": [round(value, 3) for value in curves.used.tolist()],
            "waiting": [round(value, 3) for value in curves.waiting.tolist()],
            "starts_per_s": [float(f"{value:.6g}") for value in curves.starts.tolist()],
        },
    }


def _supplies(drawn: list[Drawn], curves: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for each in drawn:
        used = each.over_time(curves["begin_s"], curves["part_s"], len(curves["used"]))
        own = {"name": each.supply.name, "unit": each.supply.unit, "capacity": each.supply.capacity}
        yield own | {"used": [round(value, 3) for value in used.tolist()]}


def _levels(result: Result, levels: Any) -> Iterator[dict[str, Any]]:
    """A row for each level; if one level alone runs jobs, its job metrics are those of the run."""
    makespan = result.metrics.makespan_s
    working = {row.level for row in result.instances if row.jobs} or {levels.levels - 1}
    for level in range(max(levels.levels, *(row.level + 1 for row in result.instances), 1)):
        rows = [row for row in result.instances if row.level == level]
        busy = array("d", (row.busy_s for row in rows))
        yield {
            "level": level,
            "queue_policy": levels.queue_policy(level),
            "match_policy": levels.match_policy(level),
            "instances": len(rows),
            "jobs": sum(row.jobs for row in rows),
            "decisions": sum(row.decisions for row in rows),
            "busy_s": sum(busy),
            "spent": {name: sum(getattr(row, name) for row in rows) for name in SPENT},
            "busiest_share": share(max(busy, default=0.0), makespan),
            "begin_s": min((row.begin_s for row in rows), default=None),
            "end_s": max((row.end_s for row in rows), default=None),
            "metrics": asdict(result.metrics) if working == {level} else None,
        }
