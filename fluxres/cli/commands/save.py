"""`fluxres save`: write the graph to a file or another store."""

from __future__ import annotations

import click

from fluxres.cli.completing import complete_pool
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.errors import UsageError


@click.command("save", cls=Command)
@click.argument("dest")
@click.option("--format", "format_name", metavar="FORMAT", help="Format of the file. Default: by its extension.")
@click.option("--changed-only", is_flag=True, help="Only the changes since it was last saved there.")
@click.option("--strict", is_flag=True, help="Write nothing if the format cannot express everything.")
@click.option("--where", "path", metavar="PATH", help="Only this pool and everything below it.", shell_complete=complete_pool)
@click.option("--replace", is_flag=True, help="Replace a graph of this name in another store; its allocations are lost.")
@click.pass_obj
def command(
    settings: Settings, dest: str, format_name: str | None, changed_only: bool, strict: bool, path: str | None, replace: bool
) -> None:
    """Write the graph to DEST: a file, or the URL of another store (sqlite:///path.db?graph=NAME).

    Whatever the format cannot express is reported on standard error. A file whose name ends in .gz, .zst, .xz or .bz2 is
    compressed.
    """
    from fluxres.cli.saving import answer_report, note_supply, save_file
    from fluxres.cli.stores import reading, store
    from fluxres.store.files import save_stored

    if path is not None:
        if changed_only:
            raise UsageError("both --where and --changed-only were given", hint="changes are always those of the entire graph")
        part = reading(settings).duplicate(path)
        report = save_file(part, dest, format_name, replace=replace, strict=strict)
        note_supply(part)
        answer_report(settings, report)
        return
    if dest == "-":
        if changed_only:
            raise UsageError("changes go to a file or a store", where=dest, hint="give a file or the URL of a store")
        save_file(reading(settings), dest, format_name, strict=strict)
        return
    report = save_stored(
        store(settings), settings.graph, dest, format=format_name, changed_only=changed_only, replace=replace, strict=strict
    )
    answer_report(settings, report)
