"""`fluxres copy`: copy a part of a machine to a new graph."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.errors import UsageError


@click.command("copy", cls=Command)
@click.argument("path", required=False, shell_complete=complete_pool)
@click.option(
    "--job", metavar="J", shell_complete=complete_job, help="Copy what this job holds instead of what is free below PATH."
)
@click.option("--at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.option(
    "--to", "dest", required=True, metavar="NAME|FILE", help="A graph of the store, or a file (with a / or an extension)."
)
@click.option("--replace", is_flag=True, help="Replace an existing graph of this name; its allocations are lost.")
@click.pass_obj
def command(settings: Settings, path: str | None, job: str | None, at: float | None, dest: str, replace: bool) -> None:
    """Copy what is free below PATH (default: everywhere), or what a job holds, to a new graph.

    Ancestors are included to keep the pools connected to the root. Nothing is allocated in the copy.
    """
    from fluxres.cli.saving import is_file, note_supply, save_file
    from fluxres.cli.stores import reading, store
    from fluxres.render import summary

    if path is not None and job is not None:
        raise UsageError("both a path and a job were given", hint="give one of them")
    made = reading(settings).copy("/" if path is None else path, job=job, at=at)
    if is_file(dest):
        save_file(made, dest, replace=replace)
    else:
        made.name = dest
        store(settings).put(dest, made, replace=replace, command=settings.command, wait_s=settings.wait_s)
    note_supply(made)
    facts = summary.document(made)
    answer(settings, document=lambda: facts, lines=lambda style: summary.lines(facts, header=settings.header, style=style))
