"""`fluxres convert`: from one format to another, past the store."""

from __future__ import annotations

import click

from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import Settings


@click.command("convert", cls=Command)
@click.argument("source", metavar="IN")
@click.argument("dest", metavar="OUT")
@click.option("--format", "format_name", metavar="FORMAT", help="Format of OUT. Default: by its ending.")
@click.pass_obj
def command(settings: Settings, source: str, dest: str, format_name: str | None) -> None:
    """Translate a file from one format to another; the store is not touched.

    What the format of OUT cannot say is told on standard error.
    """
    from fluxres.cli.saving import answer_report, save_file
    from fluxres.store.files import load

    with progress(2) as shown:
        shown.step(f"reading {source}")
        graph = load(source)
        shown.step(f"writing {dest}")
        report = save_file(graph, dest, format_name)
    answer_report(settings, report)
