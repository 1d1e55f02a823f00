"""Commands for changing a machine that is in use: diff, apply, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fluxres.cli.output import answer, note
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.cli.sources import read_description, source_options
from fluxres.cli.stores import changing, note_supply, reading, server, source, store, trying
from fluxres.documents.document import plural
from fluxres.render.text import printable, when

if TYPE_CHECKING:
    from fluxres.model.difference import Difference
    from fluxres.store import Entry, Ticket

DIFFERENT = 1


@click.command("diff", cls=Command)
@source_options
@click.pass_context
def diff_command(ctx: click.Context, /, **given: Any) -> None:
    """Show what a changed description would change on the graph in use.

    + appears, - goes, > moves, ~ changes. Ends with status 0 if nothing differs, with 1 if something does.
    """
    settings = ctx.ensure_object(Settings)
    wanted = read_description(**given)
    found = reading(settings).diff(wanted)
    _answer(settings, found, {})
    if found:
        ctx.exit(DIFFERENT)


@click.command("apply", cls=Command)
@source_options
@click.option("--drain", is_flag=True, help="Drain pools that are gone but held by jobs; a later apply removes them.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and whether jobs are in the way, without making them.")
@click.pass_obj
def apply_command(settings: Settings, /, drain: bool, dry_run: bool, **given: Any) -> None:
    """Apply a changed description to the graph in use, all or nothing.

    New pools appear. Pools that are gone are removed unless jobs hold them. Jobs, reservations, tags, states other than up, and
    the uuids and ranks of pools that stay are not touched. `fluxres undo` takes it back.
    """
    wanted = read_description(**given)
    with (trying if dry_run else changing)(settings) as graph:
        before = graph.structure
        found = graph.apply(wanted, drain=drain)
    note_supply(graph, before)
    _answer(settings, found, {"pools": len(graph), "drained": found.drained, "dry_run": dry_run})


def _answer(settings: Settings, found: Difference, more: dict[str, Any]) -> None:
    from fluxres.render import differences

    answer(
        settings,
        document=lambda: {**differences.document(found), **more},
        lines=lambda _style: [
            *differences.lines(found),
            *["nothing was changed (--dry-run)"] * bool(more.get("dry_run")),
        ],
    )


@click.command("undo", cls=Command)
@click.option("--redo", is_flag=True, help="Bring back what the last undo took away.")
@click.pass_obj
def undo_command(settings: Settings, redo: bool) -> None:
    """Undo the last change of the graph, whichever command made it.

    Only the last change can be undone, and not the first load of a graph or `graphs drop`.
    """
    undone = source(settings).undo(settings.graph, redo=redo, command=settings.command, wait_s=settings.wait_s)
    for one in _freed(settings):
        job = printable(one.job)
        note(f"the program of job {job} is still running, without resources (`fluxres cancel {job}` ends it)")
    answer(settings, document=lambda: _document(undone), lines=lambda _style: _lines(undone, redo=redo))


def _freed(settings: Settings) -> list[Ticket]:
    """The jobs that hold nothing any more, although their programs run."""
    from fluxres.launch import desk

    if (remote := server(settings)) is not None:
        return remote.queue(settings.graph)[2]
    opened = store(settings)
    return desk.freed(opened, settings.graph, opened.load(settings.graph))


def _document(undone: list[Entry]) -> dict[str, Any]:
    return {"undone": [{"number": e.seq, "time": e.time, "command": e.command, **e.event} for e in undone]}


def _lines(undone: list[Entry], *, redo: bool) -> list[str]:
    from fluxres.render import events

    last = undone[-1]
    if redo:
        return [f"redone: {last.event.get('undone') or 'the last change'}"]
    by = f" ({last.command})" if last.command else ""
    lines = [f"undone: {each.event['event']} {events.details(each.event)}" for each in undone[:5]]
    more = [f"and {plural(len(undone) - 5, 'more event')}"] if len(undone) > 5 else []
    return [*lines, *more, f"made {when(last.time)}{by}; `fluxres undo --redo` brings it back"]
