"""`fluxres allocate`: pools to a job."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_granted
from fluxres.cli.program import Command
from fluxres.cli.settings import OUTPUTS, Duration, Settings


@click.command("allocate", cls=Command, outputs=OUTPUTS)
@click.argument("pools", nargs=-1, metavar="PATH[=N]...", shell_complete=complete_pool)
@click.option("--find", "criteria", metavar="CRITERIA", help="All pools that meet the criteria, whole, in place of paths.")
@click.option(
    "--job", required=True, metavar="J", shell_complete=complete_job, help="Id of the job; it may hold something already."
)
@click.option("--start", "--at", type=Moment(), metavar="T", help="From when on. Default: now.")
@click.option("--end", type=Moment(), metavar="T", help="Until when. Default: without end.")
@click.option("--duration", type=Duration(), metavar="D", help="For how long, in place of --end.")
@click.pass_obj
def command(
    settings: Settings,
    pools: tuple[str, ...],
    criteria: str | None,
    job: str,
    start: float | None,
    end: float | None,
    duration: float | None,
) -> None:
    """Give pools to a job, now or later, all or nothing.

    PATH starts with / or is name:/path; brackets fold several: /demo/rack0/node[0-3]. N units of each, all without =N.
    """
    from fluxres.cli.stores import changing

    check_window(start, end)
    with changing(settings) as graph:
        granted = graph.allocate(targets(graph, pools, criteria), job=job, start=start, end=end, duration_s=duration)
    answer_granted(settings, graph, granted)
