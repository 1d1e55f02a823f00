"""`fluxres save`: the graph to a file or another store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.store.files import SaveReport


@click.command("save", cls=Command)
@click.argument("dest")
@click.option("--format", "format_name", metavar="FORMAT", help="Format of the file. Default: by its ending.")
@click.option("--changed-only", is_flag=True, help="Only what changed since it was last saved there.")
@click.option("--replace", is_flag=True, help="Over a graph of this name in another store; what it holds is lost.")
@click.pass_obj
def command(settings: Settings, dest: str, format_name: str | None, changed_only: bool, replace: bool) -> None:
    """Write the graph to DEST: a file, or the URL of another store (sqlite:///path.db?graph=NAME)."""
    from fluxres import clock
    from fluxres.cli.saving import answer_report, save_changes, save_file, save_store
    from fluxres.cli.stores import store
    from fluxres.store.url import is_store_url

    if format_name is not None and (changed_only or is_store_url(dest)):
        raise UsageError(f"format '{format_name}' for what has a form of its own", where=dest, hint="leave out --format")
    source = store(settings)
    graph, position = source.open(settings.graph, clock=clock.system)
    report: SaveReport | None
    if is_store_url(dest):
        report = save_store(settings, source, graph, position, dest, changed_only=changed_only, replace=replace)
    elif changed_only:
        report = save_changes(source, graph, position, dest)
    else:
        report = save_file(graph, dest, format_name)
    answer_report(settings, report)
