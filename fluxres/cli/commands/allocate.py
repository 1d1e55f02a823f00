"""`fluxres allocate`: allocate resources to a job."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_granted, answer_granted_together
from fluxres.cli.requests import Asked, RequestCommand, endless
from fluxres.cli.settings import OUTPUTS, Duration, Settings
from fluxres.errors import UsageError


@click.command("allocate", cls=RequestCommand, outputs=OUTPUTS)
@click.argument("words", nargs=-1, metavar="[PATH[=N]...|REQUEST]", shell_complete=complete_pool)
@click.option("--find", "criteria", metavar="CRITERIA", help="Allocate all pools that meet the criteria, exclusively.")
@click.option(
    "--job",
    "jobs",
    required=True,
    multiple=True,
    metavar="J",
    shell_complete=complete_job,
    help="Job id; the job may already hold resources. Several jobs: one for each word, all or none.",
)
@click.option("--start", "--at", type=Moment(), metavar="T", help="Start time. Default: now.")
@click.option("--end", type=Moment(), metavar="T", help="End time. Default: by the duration of the request, else none.")
@click.option("--duration", type=Duration(), metavar="D", help="Duration, instead of --end.")
@click.option("--or-reserve", is_flag=True, help="If the request cannot start then, reserve the earliest start.")
@click.option("--dry-run", is_flag=True, help="Show what would be allocated, without allocating it.")
@click.pass_obj
def command(
    settings: Settings,
    asked: Asked | list[Asked],
    criteria: str | None,
    jobs: tuple[str, ...],
    start: float | None,
    end: float | None,
    duration: float | None,
    or_reserve: bool,
    dry_run: bool,
) -> None:
    """Allocate pools to a job, now or later, all or nothing.

    PATH starts with / or is name:/path; brackets fold several: /demo/rack0/node[0-3]. N units of each, all without =N. Anything
    else is a REQUEST, for which fluxres finds matching pools: a shape such as slot=4/[core=2;gpu=1], short options such as -N4
    -c8, a jobspec in a file (.json, .yaml, .yml) or on standard input (-).

    With several --job options, each word is for one of them, in the same order; all start at the same time, or nothing is
    allocated.
    """
    check_window(start, end)
    end, duration = endless(end, duration)
    if or_reserve and end is not None:
        raise UsageError("both --or-reserve and --end were given", hint="use --duration instead of --end")
    window = Window(start, end, duration)
    if isinstance(asked, list):
        if criteria is not None:
            raise UsageError("both several jobs and --find were given", hint="name the pools of each job")
        _allocate_together(settings, asked, jobs, window, or_reserve=or_reserve, dry_run=dry_run)
    else:
        _allocate(settings, asked, criteria, jobs[0], window, or_reserve=or_reserve, dry_run=dry_run)


class Window(NamedTuple):
    """Start, end and duration in seconds, None if not given."""

    start: float | None
    end: float | None
    duration: float | None


def _allocate(
    settings: Settings, asked: Asked, criteria: str | None, job: str, window: Window, *, or_reserve: bool, dry_run: bool
) -> None:
    from fluxres.cli.stores import changing, trying

    start, end, duration = window
    if criteria is not None and asked.request is not None:
        raise UsageError("both a request and --find were given", hint="give one of them")
    if or_reserve and asked.request is None:
        raise UsageError("--or-reserve needs a request", hint="named pools are allocated at --start")
    with (trying if dry_run else changing)(settings) as graph:
        wanted, policy = asked.request, asked.policy
        if wanted is None:
            granted = graph.allocate(targets(graph, asked.pools, criteria), job=job, start=start, end=end, duration_s=duration)
        elif or_reserve:
            granted = graph.allocate_orelse_reserve(wanted, job=job, after=start, duration_s=duration, policy=policy)
        else:
            granted = graph.allocate(wanted, job=job, start=start, end=end, duration_s=duration, policy=policy)
    answer_granted(settings, graph, granted)


def _allocate_together(
    settings: Settings, asked: list[Asked], jobs: tuple[str, ...], window: Window, *, or_reserve: bool, dry_run: bool
) -> None:
    from fluxres.cli.stores import changing, trying

    start, end, duration = window
    policy = next((one.policy for one in asked if one.request is not None), "first")
    if or_reserve and any(one.request is None for one in asked):
        raise UsageError("--or-reserve needs requests", hint="named pools are allocated at --start")
    with (trying if dry_run else changing)(settings) as graph:
        pairs: list[tuple[Any, str]] = [
            (one.request if one.request is not None else targets(graph, one.pools), job)
            for one, job in zip(asked, jobs, strict=True)
        ]
        if or_reserve:
            granted = graph.allocate_all_orelse_reserve(pairs, after=start, duration_s=duration, policy=policy)
        else:
            granted = graph.allocate_all(pairs, start=start, end=end, duration_s=duration, policy=policy)
    answer_granted_together(settings, graph, granted)
