"""`fluxres available`: pools with free units."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment
from fluxres.cli.completing import complete_pool
from fluxres.cli.listing import list_pools
from fluxres.cli.program import Command
from fluxres.cli.settings import POOL_OUTPUTS, Duration, Settings


@click.command("available", cls=Command, outputs=POOL_OUTPUTS)
@click.argument("path", required=False, shell_complete=complete_pool)
@click.option("--at", type=Moment(), metavar="T", help="At this moment. Default: now.")
@click.option("--duration", type=Duration(), metavar="D", help="Free throughout this long from then on.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many lines, or pools in JSON.")
@click.pass_obj
def command(settings: Settings, path: str | None, at: float | None, duration: float | None, limit: int | None) -> None:
    """List pools with free units, in all or in the subtree of PATH."""
    from fluxres.cli.stores import reading

    graph = reading(settings)
    found = graph.available(at, duration)
    if path is not None:
        top = graph.vertex(path)
        vertices = found.vertices
        found = graph.select(vertices[(vertices >= top) & (vertices < graph.structure.end[top])])
    start = graph.window(at, None)[0] / 1e6
    list_pools(settings, found, at, None if duration is None else (start, start + duration), limit)
