"""`fluxres instance`: one instance, in real time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.output import answer
from fluxres.cli.program import Group
from fluxres.cli.settings import TABLE_OUTPUTS, Duration, Settings, inventory_option
from fluxres.cli.stores import reading
from fluxres.documents.document import listed
from fluxres.errors import RunFailed, UsageError
from fluxres.render.text import Column, Style, table

if TYPE_CHECKING:
    from fluxres.launch.session import Ran


@click.group("instance", cls=Group)
def instance_command() -> None:
    """Run the jobs of a workload in one instance, in real time."""


@instance_command.command("run", outputs=TABLE_OUTPUTS)
@click.argument("workload", shell_complete=completing.file)
@click.option(
    "--machine",
    metavar="SOURCE",
    shell_complete=completing.machine,
    help="A machine from a file, URL, shape or number. Default: the graph in use.",
)
@click.option(
    "-Q",
    "--queue-policy",
    metavar="P",
    default="easy",
    show_default=True,
    shell_complete=completing.queue_policy,
    help="Queue policy: the order in which jobs start.",
)
@click.option(
    "-M",
    "--match-policy",
    metavar="P",
    default="first",
    show_default=True,
    shell_complete=completing.match_policy,
    help="Match policy: the pools to prefer.",
)
@inventory_option
@click.option(
    "--grace", type=Duration(), metavar="D", help=f"Time from SIGTERM to SIGKILL. Default: {limits.GRACE_SECONDS_DEFAULT:g}."
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of a generated workload.")
@click.pass_obj
def run(settings: Settings, /, workload: str, machine: str | None, grace: float | None, seed: int, **options: Any) -> None:
    """Run the jobs of WORKLOAD: the commands of jobspecs, or jobs of a trace, which only wait for their run time.

    Ends with status 5 if a job failed or was refused.
    """
    from fluxres.launch.session import Session
    from fluxres.simulation import machine as machines
    from fluxres.simulation.workload import reading as workloads

    grace_s = limits.GRACE_SECONDS_DEFAULT if grace is None else grace
    if grace_s == float("inf"):
        raise UsageError("expected a finite duration", where="--grace")
    found = workloads.read(workload, seed=seed)
    graph = reading(settings) if machine is None and found.processors is None else machines.read(machine, found.processors)
    jobs: list[Ran] = []
    Session(graph, found, grace_s=grace_s, ran=jobs.append, **options).run()
    results = Counter(one.result for one in jobs)

    def document() -> dict[str, Any]:
        return {"machine": graph.name, "results": dict(sorted(results.items())), "jobs": [one._asdict() for one in jobs]}

    answer(settings, document=document, lines=lambda style: _lines(jobs, style))
    bad = sum(number for result, number in results.items() if result != "completed")
    if bad:
        raise RunFailed(f"{bad} of {len(jobs)} jobs did not complete", where=workload)


def _lines(jobs: list[Ran], style: Style) -> list[str]:
    columns = [
        Column("NAME"),
        Column("ID", role=lambda _text: "job"),
        Column("RESULT", role=lambda text: None if text == "completed" else "bad"),
        Column("STATUS", right=True),
        Column("WAIT", right=True),
        Column("RUN", right=True),
        Column("POOLS"),
        Column("NOTE"),
    ]
    return table(columns, [_cells(one) for one in jobs], style=style)


def _cells(one: Ran) -> list[str]:
    start = one.finished_s if one.started_s is None else one.started_s
    ran = "" if one.started_s is None else f"{one.finished_s - one.started_s:.3f}"
    return [
        one.name,
        one.id,
        one.result,
        str(one.status or ""),
        f"{start - one.submitted_s:.3f}",
        ran,
        listed(one.pools, 1),
        one.note,
    ]
