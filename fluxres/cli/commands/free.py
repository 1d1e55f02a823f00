"""`fluxres free`: what a job holds goes back."""

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
@click.option("--start", "--at", type=Moment(), metavar="T", help="Only from then on.")
@click.option("--end", type=Moment(), metavar="T", help="Only until then.")
@click.option("--ended", is_flag=True, help="Of all jobs, the records of what has ended.")
@click.pass_obj
def command(
    settings: Settings, job: str | None, pools: tuple[str, ...], start: float | None, end: float | None, ended: bool
) -> None:
    """Take back what a job holds: everything, or pools, or N units of them."""
    from fluxres.cli.stores import changing

    if ended == (job is not None):
        wrong = "both a job and --ended were given" if ended else "neither a job nor --ended was given"
        raise UsageError(wrong, hint="give one of them")
    if ended and (start is not None or end is not None):
        raise UsageError("--ended takes no window", hint="leave out --start and --end")
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
    told = f"dropped what has ended of {', '.join(dropped)}" if dropped else "nothing has ended"
    answer(settings, document=lambda: {"ended": dropped}, lines=lambda _style: [told])
