"""`fluxres hierarchy`: compare flat and nested instances, each a process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.output import answer, note
from fluxres.cli.policy_options import inventory_option, match_policy_option, queue_policy_option
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import Duration, Settings
from fluxres.cli.stores import reading
from fluxres.errors import RunFailed, UsageError
from fluxres.render.text import Style

if TYPE_CHECKING:
    from fluxres.cli.progress import Progress
    from fluxres.launch.branch import Branch
    from fluxres.launch.hierarchy import EqualJobs, Outcome, Patience
    from fluxres.model import ResourceGraph
    from fluxres.simulation.nesting.hierarchy import Hierarchy

_COUNT = click.IntRange(min=0)


@click.command("hierarchy", cls=Command)
@click.option(
    "-T", "--topology", "topologies", multiple=True, metavar="FANOUTS", help="Children per level, such as 2x4; may be repeated."
)
@click.option("--no-flat", is_flag=True, help="Skip the flat baseline.")
@click.option(
    "-J",
    "--jobs",
    type=_COUNT,
    metavar="JOBS",
    default=1024,
    show_default=True,
    help="Number of jobs, divided evenly among the innermost instances; 0 measures only the boot.",
)
@click.option(
    "--job",
    metavar="WHAT",
    default="instant",
    show_default=True,
    help="Program of each job: instant, sleep:DURATION, or a command.",
)
@click.option(
    "-r", "--request", metavar="REQUEST", help="Request of each job. Default: one core, or one node if there are no cores."
)
@click.option(
    "--duration",
    type=Duration(is_positive=True),
    metavar="D",
    help="Time limit of each job, followed by SIGTERM and SIGKILL. Default: none.",
)
@click.option("-N", "--nodes", type=_COUNT, metavar="NODES", help="Number of nodes of a generated machine.")
@click.option("-c", "--cores", type=_COUNT, metavar="CORES", help="Cores per node.")
@click.option("-g", "--gpus", type=_COUNT, metavar="GPUS", help="GPUs per node.")
@click.option(
    "--machine",
    metavar="SOURCE",
    shell_complete=completing.machine,
    help="A machine from a file, URL or shape. Default: the graph in use, if no -N.",
)
@queue_policy_option("Queue policies by level, such as easy:fcfs; the last one applies below.", default="fcfs", show_default=True)
@match_policy_option("Match policies by level, such as low:high; the last one applies below.", default="first", show_default=True)
@inventory_option
@click.option("--timeout", type=Duration(), metavar="D", help="Stop each hierarchy after this time. Default: never.")
@click.option(
    "--silence",
    type=Duration(),
    metavar="D",
    help=f"Declare a child lost after this time without a message. Default: {limits.SILENCE_SECONDS_DEFAULT:g}.",
)
@click.option(
    "--grace", type=Duration(), metavar="D", help=f"Time from SIGTERM to SIGKILL. Default: {limits.GRACE_SECONDS_DEFAULT:g}."
)
@click.option(
    "--folder",
    metavar="DIR",
    shell_complete=completing.file,
    help="Directory for the stores of the instances. Default: a temporary one.",
)
@click.option("--csv", metavar="FILE", shell_complete=completing.file, help="Also write the rows of all instances to this file.")
@click.option("-d", "--dry-run", is_flag=True, help="Show the instances without starting them.")
@click.pass_obj
def hierarchy_command(settings: Settings, /, **options: Any) -> None:
    """Run jobs in nested instances, each a separate process, and compare their throughput with one flat instance.

    Each instance has a copy of its part of the machine and its own queue. The resources are simulated, but the jobs really run,
    on this machine. Ends with status 5 if a job failed or an instance was lost.
    """
    from fluxres.cli import hierarchies
    from fluxres.store.disk import write_whole

    machine = _machine(settings, options)
    ensemble, patience = _ensemble(machine, options), _patience(options)
    wanted = _hierarchies(options)
    planned = [_planned(machine, one, ensemble, patience, options) for one in wanted]
    if options["dry_run"]:
        answer(
            settings,
            document=lambda: hierarchies.planned_document(wanted, planned, ensemble),
            lines=lambda style: hierarchies.planned_lines(wanted, planned, style=style),
        )
        return
    outcomes = _run(machine, wanted, ensemble, patience, options)

    def lines(style: Style) -> list[str]:
        return hierarchies.lines(outcomes, style=style)

    answer(settings, document=lambda: hierarchies.document(outcomes, ensemble), lines=lines)
    if options["csv"]:
        write_whole(Path(options["csv"]), "".join(hierarchies.csv_lines(outcomes)).encode())
    _tell_failures(outcomes)


def _run(
    machine: ResourceGraph, wanted: list[Hierarchy], ensemble: EqualJobs, patience: Patience, options: dict[str, Any]
) -> list[Outcome]:
    from fluxres.launch.hierarchy import run

    outcomes = []
    with progress(len(wanted) * ensemble.jobs + len(wanted)) as shown:
        for number, one in enumerate(wanted):
            name = "x".join(map(str, one.fan_outs)) or "1"
            shown.text, shown.done = f"{name}: beginning", number * (ensemble.jobs + 1)
            folder = None if options["folder"] is None else f"{options['folder']}/{number}-{name}"
            watched = _watching(shown, name, shown.done)
            outcomes.append(run(machine, one, ensemble, patience, inventory=options["inventory"], folder=folder, watched=watched))
    return outcomes


def _watching(shown: Progress, name: str, before: int) -> Any:
    def watched(branch: Branch) -> None:
        done = sum(branch.job_counts)
        shown.text, shown.done = f"{name}: {done} of {branch.begin.jobs} jobs", before + done

    return watched


def _tell_failures(outcomes: list[Outcome]) -> None:
    for one in outcomes:
        for instance, what in one.notes.items():
            note(f"topology {one.name}, {instance}: {what}")
    failed, lost = sum(one.failed for one in outcomes), sum(one.lost for one in outcomes)
    status = max(one.status for one in outcomes)
    if failed or lost or status or any(one.notes for one in outcomes):
        worst = f"; the highest exit status was {status}" if status else ""
        raise RunFailed(f"{failed} jobs failed, {lost} were lost or never ran{worst}", where="hierarchy")


def _planned(
    machine: ResourceGraph, one: Hierarchy, ensemble: EqualJobs, patience: Patience, options: dict[str, Any]
) -> list[Any]:
    from fluxres.launch.hierarchy import check

    return list(check(machine, one, ensemble, patience, inventory=options["inventory"]))


def _machine(settings: Settings, options: dict[str, Any]) -> ResourceGraph:
    from fluxres.simulation import machine

    numbers = {key: options[key] for key in ("nodes", "cores", "gpus") if options[key] is not None}
    if options["machine"] is not None:
        if numbers:
            raise UsageError("both --machine and -N, -c or -g were given", hint="give one of them")
        return machine.read(options["machine"])
    if not numbers:
        return reading(settings)
    if not numbers.get("nodes"):
        raise UsageError("expected at least 1 node" + (", got 0" if "nodes" in numbers else ""), where="-N")
    parts = [f"{name}={numbers[key]}" for name, key in (("core", "cores"), ("gpu", "gpus")) if numbers.get(key)]
    return machine.of_shape(f"node={numbers['nodes']}" + (f"/[{';'.join(parts)}]" if parts else ""))


def _ensemble(machine: ResourceGraph, options: dict[str, Any]) -> EqualJobs:
    from fluxres.launch import work
    from fluxres.launch.hierarchy import EqualJobs
    from fluxres.syntax.jobspec import as_request

    request = options["request"]
    if request is None:
        types = machine.structure.types
        unit = next((name for name in ("core", "node") if name in types), types[-1])
        request = f"slot=1/{unit}"
    as_request(request)
    work.parse(options["job"])
    return EqualJobs(options["jobs"], options["job"], request, options["duration"])


def _patience(options: dict[str, Any]) -> Patience:
    from fluxres.launch.hierarchy import Patience

    grace = limits.GRACE_SECONDS_DEFAULT if options["grace"] is None else options["grace"]
    silence = limits.SILENCE_SECONDS_DEFAULT if options["silence"] is None else options["silence"]
    for name, value in (("--grace", grace), ("--silence", silence)):
        if value == float("inf"):
            raise UsageError("expected a finite duration", where=name)
    if silence < 2 * limits.SIGN_OF_LIFE_S:
        raise UsageError(f"expected at least {2 * limits.SIGN_OF_LIFE_S:g} s, got {silence:g}", where="--silence")
    timeout = options["timeout"]
    return Patience(grace, silence, None if timeout is None or timeout == float("inf") else timeout)


def _hierarchies(options: dict[str, Any]) -> list[Hierarchy]:
    from fluxres.simulation.nesting.hierarchy import Hierarchy, by_level, fan_outs

    wanted = [fan_outs(text) for text in options["topologies"] or ("2",)]
    if not options["no_flat"] and () not in wanted:
        wanted.insert(0, ())
    queue, match = by_level(options["queue_policy"]), by_level(options["match_policy"])
    return [Hierarchy(one, queue, match) for one in wanted]
