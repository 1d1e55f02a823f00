"""`fluxres log`: the journal."""

from __future__ import annotations

import click

from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("log", cls=Command)
@click.option("--job", metavar="J", shell_complete=complete_job, help="Only events of this job.")
@click.option("--path", metavar="PATH", shell_complete=complete_pool, help="Only events that name this pool or one below it.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the latest N events.")
@click.pass_obj
def command(settings: Settings, job: str | None, path: str | None, limit: int | None) -> None:
    """Show the events of a graph, oldest first.

    Times within an event are seconds in the table, and ticks of one microsecond in JSON.
    """
    from fluxres.cli.stores import store
    from fluxres.render import events
    from fluxres.render.amounts import when
    from fluxres.render.table import Column, table

    entries = store(settings).log(settings.graph, job=job, path=path, limit=limit)
    columns = [Column("NUMBER", right=True), Column("TIME"), Column("EVENT"), Column("WHAT")]
    rows = [[str(e.seq), when(e.time), e.event["event"], events.details(e.event)] for e in entries]
    answer(
        settings,
        document=lambda: {"log": [{"number": e.seq, "time": e.time, "command": e.command, **e.event} for e in entries]},
        lines=lambda style: table(columns, rows, header=settings.header, style=style),
    )
