"""`fluxres aggregate`: free units by type."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment
from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Duration, Settings


@click.command("aggregate", cls=Command)
@click.argument("path", default="/", shell_complete=complete_pool)
@click.option("--at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.option("--duration", type=Duration(), metavar="D", help="Count units that stay free for this long.")
@click.option("--all", "every", is_flag=True, help="Include types without free units.")
@click.pass_obj
def command(settings: Settings, path: str, at: float | None, duration: float | None, every: bool) -> None:
    """Add up free units by type in the subtree of PATH, including that pool.

    A URI such as power:/pdu0 is a subtree of that hierarchy; power:/ is all of it.
    """
    from fluxres.cli.stores import reading
    from fluxres.model import targets
    from fluxres.render.amounts import units
    from fluxres.render.table import Column, table

    graph = reading(settings)
    place = targets.place(graph, path)
    where = f"{place.name}:/" if place.above_roots else graph.structure.where(place.vertices[0])
    free, unit_of = graph.aggregate(path, at, duration, every), graph.units
    columns = [Column("TYPE"), Column("FREE", right=True)]
    rows = [[name, units(number, unit_of[name])] for name, number in free.items()]
    answer(
        settings,
        document=lambda: {"path": where, "available": free, "units": {name: unit_of[name] for name in free}},
        lines=lambda style: table(columns, rows, header=settings.header, style=style),
    )
