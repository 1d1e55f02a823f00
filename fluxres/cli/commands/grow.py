"""`fluxres grow`: more for a job."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_granted
from fluxres.cli.program import Command
from fluxres.cli.settings import OUTPUTS, Settings


@click.command("grow", cls=Command, outputs=OUTPUTS)
@click.argument("job", shell_complete=complete_job)
@click.argument("pools", nargs=-1, required=True, metavar="PATH[=N]...", shell_complete=complete_pool)
@click.option("--start", "--at", type=Moment(), metavar="T", help="From when on. Default: now, or when the job begins.")
@click.option("--end", type=Moment(), metavar="T", help="Until when. Default: as long as the job.")
@click.pass_obj
def command(settings: Settings, job: str, pools: tuple[str, ...], start: float | None, end: float | None) -> None:
    """Give more to a job that holds something, until it ends."""
    from fluxres.cli.stores import changing

    if end is not None:
        check_window(start, end)
    with changing(settings) as graph:
        granted = graph.grow(job, targets(graph, pools), start=start, end=end)
    answer_granted(settings, graph, granted)
