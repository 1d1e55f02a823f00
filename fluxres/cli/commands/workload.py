"""`fluxres workload`: convert a workload to another format, or write the jobs of a model."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path

import click

from fluxres.cli import completing
from fluxres.cli.estimates import estimates_options
from fluxres.cli.output import answer, note
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.documents.document import plural
from fluxres.errors import UsageError


@click.command("workload", cls=Command)
@click.argument("source", metavar="IN", shell_complete=completing.file)
@click.argument("dest", metavar="OUT", shell_complete=completing.file)
@click.option(
    "--from",
    "source_format",
    metavar="FORMAT",
    shell_complete=completing.workload_format,
    help="Format of IN: swf, batsim, jobs. Default: detected.",
)
@click.option(
    "--to",
    "dest_format",
    metavar="FORMAT",
    type=click.Choice(("swf", "batsim", "jobs")),
    help="Format of OUT: swf, batsim, jobs. Default: swf for .swf and -, batsim for .json, jobs for .yaml.",
)
@click.option("--unit", metavar="TYPE", default="node", help="Type of the pools in a list of jobs. Default: node.")
@estimates_options("IN")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of models. Default: 0.")
@click.pass_obj
def workload_command(
    settings: Settings,
    /,
    source: str,
    dest: str,
    *,
    source_format: str | None,
    dest_format: str | None,
    unit: str,
    estimates: str | None,
    estimates_for: str,
    seed: int,
) -> None:
    """Convert a workload to another format, or write the jobs of a model.

    IN is a trace or a model, as for simulate; OUT may be - for standard output. Whatever the format of OUT cannot express is
    reported on standard error.
    """
    from fluxres.simulation.workload import reading, writing
    from fluxres.simulation.workload.estimates import estimate
    from fluxres.store.disk import write_whole

    jobs = reading.read(source, format=source_format, seed=seed)
    if estimates is not None:
        estimate(jobs, estimates, seed, missing=estimates_for == "missing")
    kind = dest_format or _format_of(dest)
    text = StringIO()
    losses = writing.write(jobs, text, kind, unit=unit)
    for reason, number in (*jobs.left_out.items(), *losses.items()):
        note(f"{plural(number, 'time')} left out or changed: {reason}")
    if dest == "-":
        sys.stdout.write(text.getvalue())
        return
    write_whole(Path(dest), text.getvalue().encode())
    answer(
        settings,
        document=lambda: {"dest": dest, "format": kind, "left_out": {**jobs.left_out, **losses}},
        lines=lambda _: [f"wrote {dest} ({kind})"],
    )


def _format_of(dest: str) -> str:
    """Errors: UsageError for a name that says no format."""
    if dest == "-":
        return "swf"
    found = {".swf": "swf", ".json": "batsim", ".yaml": "jobs", ".yml": "jobs"}.get(Path(dest).suffix)
    if found is None:
        raise UsageError("the name does not determine a format", where=dest, hint="use --to swf, --to batsim or --to jobs")
    return found
