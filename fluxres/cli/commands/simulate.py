"""`fluxres simulate`: run a workload on a machine in simulated time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fluxres.cli import completing
from fluxres.cli.arguments import complete_policy
from fluxres.cli.output import answer, note
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import JOB_OUTPUTS, PLAIN_OUTPUTS, Duration, Settings
from fluxres.errors import PolicyError
from fluxres.render.text import Style, plural

if TYPE_CHECKING:
    from fluxres.simulation.schedule import Sink
    from fluxres.simulation.simulator import Result
    from fluxres.simulation.workload import Workload


@click.command("simulate", cls=Command, outputs=(*PLAIN_OUTPUTS, *JOB_OUTPUTS))
@click.argument("workload", metavar="WORKLOAD", shell_complete=completing.file)
@click.option(
    "--machine",
    metavar="SOURCE",
    shell_complete=completing.machine,
    help="A number, a shape such as node=32/core=8, or a file. Default: the trace's own.",
)
@click.option(
    "--unit", metavar="TYPE", help="Pool type of a processor in the workload. Default: node, else the pool of several units."
)
@click.option(
    "-Q",
    "--queue-policy",
    metavar="P",
    shell_complete=completing.queue_policy,
    help="fcfs, easy (default), easy-count, easy-sjbf, hybrid, conservative, …; by level: easy:fcfs.",
)
@click.option(
    "-M", "--match-policy", metavar="P", shell_complete=complete_policy, help="first (default), low, high, …; by level: low:high."
)
@click.option(
    "-T", "--topology", "hierarchy", metavar="FANOUTS", help="Instances per level: 2x4 is two with four each. Default: one."
)
@click.option("--boot", type=Duration(), metavar="D", help="Time that an instance takes to start. Default: 0.")
@click.option(
    "--ahead",
    type=click.IntRange(0),
    metavar="N",
    help="Maximal queue length of an innermost instance before it gets further jobs; 0 for no limit.",
)
@click.option("--cut", is_flag=True, help="Reduce jobs larger than the machine to its size. Default: refuse them.")
@click.option("--cost", metavar="C", help="Time of a decision: none (default), fixed:S, fitted:PART=S,…, measured.")
@click.option("--inventory", metavar="I", help="auto (default), graph, named, counted.")
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    shell_complete=completing.workload_format,
    help="Format of WORKLOAD: swf, batsim, jobs. Default: detected.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of a model. Default: 0.")
@click.pass_obj
def simulate_command(settings: Settings, /, workload: str, **given: Any) -> None:
    """Simulate a WORKLOAD on a machine and print metrics.

    WORKLOAD is a trace (SWF, Batsim JSON, a list of jobs), or a model: lublin:jobs=1000,size=128, ensemble:jobs=10000,run=2s,
    bursts:jobs=500. With -o csv (the columns of Batsim) or -o swf the jobs are written as they end.
    """
    from fluxres.experiments.parts import Changed
    from fluxres.simulation import reading
    from fluxres.simulation.cost import Fit
    from fluxres.simulation.cost import parse as cost_of
    from fluxres.simulation.machine import Machine, read
    from fluxres.simulation.simulator import Simulator

    with progress(3) as shown:
        shown.step(f"reading {workload}")
        jobs = reading.read(workload, format=given["format_name"], seed=given["seed"])
        graph = read(given["machine"], jobs.processors)
        fine = "core" if jobs.has_requests and "core" in graph.structure.types else ""
        machine = Machine(graph, given["unit"] or fine)
        hierarchy = _hierarchy(given)
        if given["cut"]:
            jobs.submissions = Changed(jobs.submissions, size_max=machine.count, notes=jobs.notes)
        shown.step("simulating")
        total = "" if jobs.count is None else f" of {jobs.count}"
        cost = cost_of(given["cost"])
        fit = Fit(cost) if cost is not None and cost.measures else None
        simulator = Simulator(
            machine,
            hierarchy=hierarchy,
            cost=fit or cost,
            inventory=given["inventory"] or "auto",
            sinks=_sinks(settings, jobs, machine, is_nested=hierarchy is not None),
            keep=False,
            **({} if hierarchy else _policies(given)),
        )

        def tell(submitted: int) -> None:
            shown.text = f"{submitted}{total} jobs"

        result = simulator.run(jobs, tell)
    for reason, number in (*jobs.left_out.items(), *((f"refused: {why}", n) for why, n in result.refusals.reasons.items())):
        note(f"{plural(number, 'job')} left out, {reason}")
    if len(result.refusals):
        note(f"refused: job{'s' * (len(result.refusals) > 1)} {result.refusals.listed()}")
    for reason, number in jobs.notes.items():
        note(f"{plural(number, 'time')} {reason}")
    if settings.output not in JOB_OUTPUTS:
        fitted = None if fit is None else str(fit.fitted())
        answer(
            settings,
            document=lambda: _document(jobs, machine, result) | {"fitted_cost": fitted},
            lines=lambda style: _lines(jobs, result, fitted, style),
        )
    if result.errors:
        raise PolicyError("; ".join(result.errors[:3]), hint="the metrics cover what ran until then")


def _policies(given: dict[str, Any]) -> dict[str, Any]:
    found = {"queue_policy": given["queue_policy"], "match_policy": given["match_policy"]}
    return {key: value for key, value in found.items() if value}


def _hierarchy(given: dict[str, Any]) -> Any:
    from fluxres.simulation.hierarchy import Hierarchy, by_level, fan_outs

    if all(given[key] is None for key in ("hierarchy", "boot", "ahead")):
        return None
    return Hierarchy(
        fan_outs(given["hierarchy"] or "1"),
        by_level(given["queue_policy"] or "easy"),
        by_level(given["match_policy"] or "first"),
        given["boot"] or 0.0,
        given["ahead"],
    )


def _sinks(settings: Settings, jobs: Workload, machine: Any, *, is_nested: bool) -> list[Sink]:
    from fluxres.simulation.numbering import Translated
    from fluxres.simulation.results import BatsimCsv, SwfText

    if settings.output == "csv":
        written = BatsimCsv(sys.stdout, jobs.name)
        return [Translated(written, machine.graph.structure, machine.unit) if is_nested else written]
    if settings.output == "swf":
        return [SwfText(sys.stdout, {"Version": "2.2", "Computer": machine.graph.name, "MaxProcs": str(machine.count)})]
    return []


def _document(jobs: Workload, machine: Any, result: Result) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "workload": jobs.name,
        "machine": machine.graph.name,
        "unit": machine.unit,
        "size": machine.count,
        **result.metrics.to_dict(),
        "left": result.left,
        "left_out": dict(jobs.left_out),
        "refused": dict(result.refusals.reasons),
        "refused_ids": result.refusals.ids,
        "errors": result.errors,
        "events": result.events,
        "instances": [asdict(row) for row in result.instances],
    }


_ROWS = (
    ("mean wait", "mean_wait_s", "s"),
    ("longest wait", "max_wait_s", "s"),
    ("mean turnaround", "mean_turnaround_s", "s"),
    ("mean bounded slowdown", "mean_bounded_slowdown", ""),
    ("mean stretch", "mean_stretch", ""),
    ("makespan", "makespan_s", "s"),
    ("throughput", "throughput_per_s", "jobs/s"),
    ("utilisation", "utilisation", ""),
)


def _lines(jobs: Workload, result: Result, fitted: str | None, style: Style) -> Iterator[str]:
    metrics = result.metrics
    ended = ", ".join(f"{number} {what}" for what, number in sorted(metrics.results.items()))
    yield f"{style.paint(jobs.name, 'heading')}: {plural(metrics.jobs, 'job')} ran ({ended or 'none'})"
    if result.left:
        yield f"{result.left} jobs never started"
    for title, key, unit in _ROWS:
        value = getattr(metrics, key)
        if value is not None:
            yield f"{title:22} {value:>16.6f} {unit}".rstrip()
    if len(result.instances) > 1:
        levels: dict[int, list[Any]] = {}
        for row in result.instances:
            levels.setdefault(row.level, []).append(row)
        for level, rows in sorted(levels.items()):
            busy, jobs_run = sum(row.busy_s for row in rows) / len(rows), sum(row.jobs for row in rows)
            yield f"level {level}: {plural(len(rows), 'instance')}, {plural(jobs_run, 'job')}, busy for {busy:.3f} s on average"
    if fitted is not None:
        yield f"measured decisions, to repeat with: --cost {fitted}"
