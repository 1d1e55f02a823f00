"""`fluxres allocate`: resources to a job."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_granted
from fluxres.cli.requests import Asked, RequestCommand, endless, explained, length_s
from fluxres.cli.settings import OUTPUTS, Duration, Settings
from fluxres.errors import UsageError


@click.command("allocate", cls=RequestCommand, outputs=OUTPUTS)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=complete_pool)
@click.option("--find", "criteria", metavar="CRITERIA", help="All pools that meet the criteria, whole, in place of paths.")
@click.option(
    "--job", required=True, metavar="J", shell_complete=complete_job, help="Id of the job; it may hold something already."
)
@click.option("--start", "--at", type=Moment(), metavar="T", help="From when on. Default: now.")
@click.option("--end", type=Moment(), metavar="T", help="Until when. Default: as long as the request says, else without end.")
@click.option("--duration", type=Duration(), metavar="D", help="For how long, in place of --end.")
@click.option("--or-reserve", is_flag=True, help="For a request: else at the earliest time from then on.")
@click.option("--dry-run", is_flag=True, help="Say what would be given, and give nothing.")
@click.pass_obj
def command(
    settings: Settings,
    asked: Asked,
    criteria: str | None,
    job: str,
    start: float | None,
    end: float | None,
    duration: float | None,
    or_reserve: bool,
    dry_run: bool,
) -> None:
    """Give pools to a job, now or later, all or nothing.

    PATH starts with / or is name:/path; brackets fold several: /demo/rack0/node[0-3]. N units of each, all without =N.

    Anything else is a REQUEST, for which pools are sought: a shape such as slot=4/[core=2;gpu=1], short options such as
    -N4 -c8, a jobspec in a file (.json, .yaml, .yml) or on standard input (-).
    """
    from fluxres.cli.stores import changing, trying

    check_window(start, end)
    end, duration = endless(end, duration)
    if criteria is not None and asked.request is not None:
        raise UsageError("both a request and --find were given", hint="give one of them")
    if or_reserve and asked.request is None:
        raise UsageError("--or-reserve goes with a request", hint="pools that are named are given at --start")
    if or_reserve and end is not None:
        raise UsageError("both --or-reserve and --end were given", hint="say how long with --duration")
    with (trying if dry_run else changing)(settings) as graph:
        wanted, policy = asked.request, asked.policy
        if wanted is None:
            granted = graph.allocate(targets(graph, asked.pools, criteria), job=job, start=start, end=end, duration_s=duration)
        else:
            with explained(lambda: graph.why_not(wanted, start, length_s(graph, start, end, duration), policy)):
                if or_reserve:
                    granted = graph.allocate_orelse_reserve(wanted, job=job, after=start, duration_s=duration, policy=policy)
                else:
                    granted = graph.allocate(wanted, job=job, start=start, end=end, duration_s=duration, policy=policy)
    answer_granted(settings, graph, granted)
