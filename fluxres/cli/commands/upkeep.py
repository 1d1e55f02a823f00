"""Commands for the operator of a store: check, compact, dump, restore, back up, migrate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fluxres.cli import completing
from fluxres.cli.output import answer
from fluxres.cli.program import Group
from fluxres.cli.progress import progress
from fluxres.cli.settings import PLAIN_OUTPUTS, TABLE_OUTPUTS, Settings
from fluxres.cli.stores import store
from fluxres.documents.document import plural
from fluxres.errors import UsageError

BROKEN = 4
"""The status of `store check` if it finds errors."""
_REPLACE_FILE = "Replace a file of this name."


@click.group("store", cls=Group, outputs=PLAIN_OUTPUTS)
def store_command() -> None:
    """Check, compact, copy and move a whole store, with all its graphs and their journals."""


@store_command.command("check", outputs=TABLE_OUTPUTS)
@click.pass_context
def check(ctx: click.Context) -> None:
    """Check the database, and that each graph can be read, has a complete journal, and obeys the rules.

    Ends with status 4 if something is wrong.
    """
    from fluxres.render import documents, listings
    from fluxres.store import upkeep

    settings = ctx.ensure_object(Settings)
    opened = store(settings)
    names, found = upkeep.check(opened)
    answer(
        settings,
        document=lambda: {"store": opened.url, "graphs": names, "problems": [documents.problem(p) for p in found]},
        lines=lambda style: (
            listings.problems(found, style=style) if found else [f"{opened.url}: {plural(len(names), 'graph')}, no problems"]
        ),
    )
    if any(problem.severity == "error" for problem in found):
        ctx.exit(BROKEN)


@store_command.command("compact")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep only the latest N events of each graph.")
@click.pass_obj
def compact(settings: Settings, keep: int | None) -> None:
    """Write new snapshots, and give free space back.

    Without --keep, the journal keeps as many events as always (fluxres help stores). Those that `fluxres undo` needs stay in any
    case.
    """
    from fluxres.store import upkeep

    opened = store(settings)
    with progress() as shown:
        before, after = upkeep.compact(
            opened, keep=keep, command=settings.command, wait_s=settings.wait_s, on_progress=shown.report
        )

    def document() -> dict[str, Any]:
        pairs = {"before": before, "after": after}
        return {"store": opened.url, **{when: {"bytes": size.bytes, "events": size.events} for when, size in pairs.items()}}

    changed = f"{before.bytes:,} -> {after.bytes:,} bytes, {before.events:,} -> {after.events:,} events"
    answer(settings, document=document, lines=lambda _style: [f"{opened.url}: {changed}"])


@store_command.command("dump")
@click.argument("dest", shell_complete=completing.file)
@click.option("--replace", is_flag=True, help=_REPLACE_FILE)
@click.pass_obj
def dump(settings: Settings, dest: str, replace: bool) -> None:
    """Write the whole store to the file DEST, from which `fluxres store restore` makes a store of any kind.

    The file has one JSON document a line. Requests that wait for resources are left out: they are void without the processes
    that wait.
    """
    from fluxres.store import upkeep

    opened = store(settings)
    with progress() as shown:
        graphs, events = upkeep.dump_to(opened, _file(dest), replace=replace, on_progress=shown.report)
    _answer_contents(settings, dest, graphs, events)


@store_command.command("restore")
@click.argument("source", shell_complete=completing.file)
@click.option("--replace", is_flag=True, help="Discard what is in the store.")
@click.pass_obj
def restore(settings: Settings, source: str, replace: bool) -> None:
    """Write a dump (SOURCE) into the store, which must be empty.

    Graphs have the same pools, jobs, event numbers and history as before, and the same one is in use.
    """
    from fluxres.store import upkeep

    opened = store(settings)
    by: Any = {"command": settings.command, "wait_s": settings.wait_s}
    with progress() as shown:
        graphs, events = upkeep.restore(opened, _file(source), replace=replace, on_progress=shown.report, **by)
    _answer_contents(settings, opened.url, graphs, events)


@store_command.command("backup")
@click.argument("dest", shell_complete=completing.file)
@click.option("--replace", is_flag=True, help=_REPLACE_FILE)
@click.pass_obj
def backup(settings: Settings, dest: str, replace: bool) -> None:
    """Copy the store, as it is at one moment, to the SQLite file DEST. Others may write to it meanwhile."""
    from fluxres.store import upkeep

    with progress() as shown:
        size = upkeep.back_up(store(settings), _file(dest), replace=replace, on_progress=shown.report)
    answer(settings, document=lambda: {"dest": dest, "bytes": size}, lines=lambda _style: [f"{dest}: {size:,} bytes"])


@store_command.command("migrate")
@click.pass_obj
def migrate(settings: Settings) -> None:
    """Bring the store to the version of this fluxres, as the first write would."""
    from fluxres.store import upkeep

    opened = store(settings)
    with progress() as shown:
        before, after = upkeep.migrate(opened, command=settings.command, wait_s=settings.wait_s, on_progress=shown.report)
    said = f"version {after} already" if before == after else f"version {before} -> {after}"
    answer(
        settings,
        document=lambda: {"store": opened.url, "before": before, "after": after},
        lines=lambda _style: [f"{opened.url}: {said}"],
    )


def _file(name: str) -> Path:
    if name == "-" or "://" in name:
        raise UsageError("expected the name of a file", where=name, hint="the store is that of --store")
    return Path(name)


def _answer_contents(settings: Settings, where: str, graphs: int, events: int) -> None:
    answer(
        settings,
        document=lambda: {"dest": where, "graphs": graphs, "events": events},
        lines=lambda _style: [f"{where}: {plural(graphs, 'graph')}, {plural(events, 'event')}"],
    )
