"""`fluxres free`: release what a job holds."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, check_window, targets
from fluxres.cli.completing import complete_job, complete_pool
from fluxres.cli.holding import answer_left
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.errors import UsageError


@click.command("free", cls=Command)
@click.argument("job", required=False, shell_complete=complete_job)
@click.argument("pools", nargs=-1, metavar="[PATH[=N]]...", shell_complete=complete_pool)
@click.option("--start", "--at", type=Moment(), metavar="T", help="Only from this time on.")
@click.option("--end", type=Moment(), metavar="T", help="Only until this time.")
@click.option("--ended", is_flag=True, help="Purge the records of ended allocations, of all jobs.")
@click.pass_obj
def command(
    settings: Settings, job: str | None, pools: tuple[str, ...], start: float | None, end: float | None, ended: bool
) -> None:
    """Release what a job holds: everything, some pools, or N units of them."""
    from fluxres.cli.stores import changing

    if ended == (job is not None):
        wrong = "both a job and --ended were given" if ended else "neither a job nor --ended was given"
        raise UsageError(wrong, hint="give one of them")
    if ended and (start is not None or end is not None):
        raise UsageError("--ended cannot have a window", hint="leave out --start and --end")
    if start is not None:
        check_window(start, end)
    with changing(settings) as graph:
        if job is None:
            dropped = graph.expire()
        else:
            graph.free(job, targets(graph, pools) if pools else None, start=start, end=end)
    if job is not None:
        answer_left(settings, graph, job)
        return
    told = f"purged ended allocations of {', '.join(dropped)}" if dropped else "no allocations have ended"
    answer(settings, document=lambda: {"ended": dropped}, lines=lambda _style: [told])
