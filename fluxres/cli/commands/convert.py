"""`fluxres convert`: from one format to another, without the store."""

from __future__ import annotations

import click

from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import Settings


@click.command("convert", cls=Command)
@click.argument("source", metavar="IN")
@click.argument("dest", metavar="OUT")
@click.option("--from", "source_format", metavar="FORMAT", help="Format of IN. Default: detected from the content.")
@click.option("--to", "dest_format", metavar="FORMAT", help="Format of OUT. Default: by its extension; cluster for -.")
@click.option("--name", metavar="NAME", help="Name of the machine. Default: the name in IN.")
@click.option("--strict", is_flag=True, help="Write nothing if the format of OUT cannot express everything.")
@click.pass_obj
def command(
    settings: Settings, source: str, dest: str, source_format: str | None, dest_format: str | None, name: str | None, strict: bool
) -> None:
    """Convert a file from one format to another; the store is not used.

    IN and OUT may be - for standard input and output, and compressed (.gz, .zst, .xz, .bz2). Whatever the format of OUT cannot
    express is reported on standard error.
    """
    from fluxres.cli.saving import answer_report, save_file
    from fluxres.store.files import load

    with progress(2) as shown:
        shown.step(f"reading {source}")
        graph = load(source, format=source_format, name=name)
        shown.step(f"writing {dest}")
        report = save_file(graph, dest, dest_format, strict=strict)
    answer_report(settings, report)
