"""`fluxres grow`: allocate more to a job."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_granted
from fluxres.cli.requests import Asked, RequestCommand
from fluxres.cli.settings import OUTPUTS, Settings


@click.command("grow", cls=RequestCommand, outputs=OUTPUTS)
@click.argument("job", shell_complete=complete_job)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=complete_pool)
@click.option(
    "--start", "--at", type=Moment(), metavar="T", help="Start time. Default: now, or the start of the job if that is later."
)
@click.option("--end", type=Moment(), metavar="T", help="End time. Default: the end of the job.")
@click.pass_obj
def command(settings: Settings, job: str, asked: Asked, start: float | None, end: float | None) -> None:
    """Allocate more pools, or what a REQUEST asks for, to a job that already holds resources, until the job ends."""
    from fluxres.cli.stores import changing

    if start is not None or end is not None:
        check_window(start, end)
    with changing(settings) as graph:
        wanted = targets(graph, asked.pools) if asked.request is None else asked.request
        granted = graph.grow(job, wanted, start=start, end=end, policy=asked.policy)
    answer_granted(settings, graph, granted)
