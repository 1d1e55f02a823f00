"""`fluxres shrink`: less for a job."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_shrunk
from fluxres.cli.requests import Asked, RequestCommand
from fluxres.cli.settings import Settings


@click.command("shrink", cls=RequestCommand, policy="high")
@click.argument("job", shell_complete=complete_job)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=complete_pool)
@click.option("--start", "--at", type=Moment(), metavar="T", help="Only from then on.")
@click.option("--end", type=Moment(), metavar="T", help="Only until then.")
@click.pass_obj
def command(settings: Settings, job: str, asked: Asked, start: float | None, end: float | None) -> None:
    """Take back a part of what a job holds: pools, N units of them, or what answers a REQUEST among them."""
    from fluxres.cli.stores import changing

    if start is not None:
        check_window(start, end)
    with changing(settings) as graph:
        if asked.request is None:
            taken = graph.shrink(job, targets(graph, asked.pools), start=start, end=end)
        else:
            taken = graph.shrink(job, asked.request, start=start, end=end, policy=asked.policy)
    answer_shrunk(settings, graph, taken)
