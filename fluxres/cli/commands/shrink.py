"""`fluxres shrink`: less for a job."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_left
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("shrink", cls=Command)
@click.argument("job", shell_complete=complete_job)
@click.argument("pools", nargs=-1, required=True, metavar="PATH[=N]...", shell_complete=complete_pool)
@click.option("--start", "--at", type=Moment(), metavar="T", help="Only from then on.")
@click.option("--end", type=Moment(), metavar="T", help="Only until then.")
@click.pass_obj
def command(settings: Settings, job: str, pools: tuple[str, ...], start: float | None, end: float | None) -> None:
    """Take back a part of what a job holds: pools, or N units of them."""
    from fluxres.cli.stores import changing

    if start is not None:
        check_window(start, end)
    with changing(settings) as graph:
        graph.shrink(job, targets(graph, pools), start=start, end=end)
    answer_left(settings, graph, job)
