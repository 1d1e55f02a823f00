"""`fluxres shrink`: release a part of what a job holds."""

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
@click.option("--start", "--at", type=Moment(), metavar="T", help="Only from this time on.")
@click.option("--end", type=Moment(), metavar="T", help="Only until this time.")
@click.pass_obj
def command(settings: Settings, job: str, asked: Asked, start: float | None, end: float | None) -> None:
    """Release a part of what a job holds: pools, N units of them, or pools that match a REQUEST."""
    from fluxres.cli.stores import changing

    if start is not None:
        check_window(start, end)
    with changing(settings) as graph:
        if asked.request is None:
            taken = graph.shrink(job, targets(graph, asked.pools), start=start, end=end)
        else:
            taken = graph.shrink(job, asked.request, start=start, end=end, policy=asked.policy)
    answer_shrunk(settings, graph, taken)
