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
@click.option("--at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.option("--duration", type=Duration(), metavar="D", help="Count units that stay free for this long.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N lines (JSON: N pools).")
@click.pass_obj
def command(settings: Settings, path: str | None, at: float | None, duration: float | None, limit: int | None) -> None:
    """List pools with free units, everywhere or in the subtree of PATH."""
    import numpy as np

    from fluxres.cli.stores import reading
    from fluxres.model import targets

    graph = reading(settings)
    found = graph.available(at, duration)
    if path is not None:
        place = targets.place(graph, path)
        found &= graph.select(np.array(place.vertices, np.int32)).with_children(place.name)
    start = graph.window(at, None)[0] / 1e6
    list_pools(settings, found, at, None if duration is None else (start, start + duration), limit)
