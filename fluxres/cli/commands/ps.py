"""Commands for the jobs that run programs: ps, wait, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.output import answer, note
from fluxres.cli.program import Command
from fluxres.cli.settings import PLAIN_OUTPUTS, TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import at_once, changing, reading, server, source, store
from fluxres.cli.watching import watchable
from fluxres.clock import seconds
from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.allocation.facts import Launch
    from fluxres.model import ResourceGraph
    from fluxres.render.text import Style
    from fluxres.store import Ticket


@click.command("ps", cls=Command, outputs=TABLE_OUTPUTS)
@click.option("-u", "--user", metavar="U", shell_complete=completing.user, help="Only jobs of this user.")
@click.pass_obj
@watchable
def ps_command(settings: Settings, user: str | None) -> None:
    """List the jobs of run and shell: what runs where, since and until when, and what waits, with its place in the queue."""
    from fluxres.render import programs

    graph = at_once(settings)
    found = [view for view in programs.views(graph, *_queue(settings, graph)) if user in (None, view.user)]
    if not found and settings.has_table:
        note("no program runs or waits")

    def lines(style: Style) -> list[str]:
        return programs.lines(found, seconds(graph.now()), style=style) if found else []

    answer(settings, document=lambda: {"programs": [view.document() for view in found]}, lines=lines)


def _queue(settings: Settings, graph: ResourceGraph) -> tuple[list[Ticket], dict[str, float], list[Ticket]]:
    """The requests that wait, their expected starts, and the programs that run although what they held was freed."""
    if (remote := server(settings)) is not None:
        return remote.queue(graph.name)
    from fluxres.launch import desk, waiting

    opened = store(settings)
    tickets = opened.tickets(graph.name)
    starts = waiting.Pass(graph).run(tickets, only_estimate=True).starts if tickets else {}
    return tickets, starts, desk.freed(opened, graph.name, graph)


@click.command("wait", cls=Command, outputs=PLAIN_OUTPUTS)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completing.job)
@click.pass_obj
def wait_command(settings: Settings, jobs: tuple[str, ...]) -> int:
    """Wait until jobs of run and shell end, those that wait for resources included.

    The exit status is the largest of their programs; 1 for a job that was lost, canceled before it ran, or freed by others.
    """
    from fluxres.launch import control, desk, identity

    launches = [launch for job in jobs if (launch := _launch(settings, job)[1]) is not None]
    control.wait_for([launch for launch in launches if launch.host == identity.host()])
    if any(launch.host != identity.host() for launch in launches):
        _wait_for_others(settings, jobs)
    reading(settings)  # this frees what is left of a job that was killed
    opened = source(settings)
    statuses = {job: desk.status_in(opened.log(settings.graph, job=job), job) for job in jobs}
    for job in (job for job, status in statuses.items() if status is None):
        note(f"the exit status of job {job} is not known: it did not run, was lost, or others freed what it held")
    answer(settings, document=lambda: {"ended": list(jobs), "statuses": statuses}, lines=lambda _style: [])
    return max(1 if status is None else status for status in statuses.values())


def _wait_for_others(settings: Settings, jobs: Sequence[str]) -> None:
    """Wait until jobs on other hosts hold nothing and wait for nothing.  Errors: UsageError without a server."""
    remote = server(settings)
    if remote is None:
        raise UsageError("runs on another machine", where=f"job '{jobs[0]}'", hint="wait there, or share the store by a server")
    for _ in remote.changes(settings.graph):
        waiting = {ticket.job for ticket in remote.tickets(settings.graph)}
        records = remote.load(settings.graph).records
        if not any(job in waiting or records.is_holder(job) for job in jobs):
            return


@click.command("cancel", cls=Command, outputs=PLAIN_OUTPUTS)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completing.job)
@click.option(
    "--grace",
    type=Duration(),
    default=limits.RUN_GRACE_SECONDS_DEFAULT,
    metavar="D",
    help=f"Time from SIGTERM to SIGKILL; 0 kills at once. Default: {limits.RUN_GRACE_SECONDS_DEFAULT:g}.",
)
@click.pass_obj
def cancel_command(settings: Settings, jobs: tuple[str, ...], grace: float) -> None:
    """End jobs of run and shell, and free what they hold; or take them out of the queue."""
    canceled: list[str] = []
    ended: list[str] = []
    for job in jobs:
        (canceled if _cancel(settings, job, grace) else ended).append(job)
    with changing(settings):
        pass  # this frees what is left, and lets others have it
    said = [*(f"{job} is canceled" for job in canceled), *(f"{job} has ended already" for job in ended)]
    answer(settings, document=lambda: {"canceled": canceled, "ended": ended}, lines=lambda _style: said)


def _cancel(settings: Settings, job: str, grace_s: float) -> bool:
    """End a job; returns whether it was still there.

    Errors: UnknownJob; UsageError for a job of another user or, without a server, of another machine.
    """
    from fluxres.launch import control, desk, identity

    ticket, launch = _launch(settings, job)
    if launch is None:
        return False
    remote, is_here = server(settings), launch.host == identity.host()
    if ticket is not None:
        if remote is None or is_here:
            control.require_owner(job, launch, ticket.user)
        if remote is not None:
            return remote.cancel(settings.graph, job, grace_s, command=settings.command) != "ended"
        if desk.withdraw(store(settings), settings.graph, ticket, desk.Author(settings.command)):
            return True
    if remote is None or is_here:
        control.end(job, launch, grace_s)
        return True
    if remote.cancel(settings.graph, job, grace_s, command=settings.command) == "ended":
        return False
    _wait_for_others(settings, [job])
    return True


def _launch(settings: Settings, job: str) -> tuple[Ticket | None, Launch | None]:
    """The ticket of a job that waits, and the processes of one that waits or runs; None if they have ended.

    Errors: UnknownJob; UsageError for a job without processes.
    """
    from fluxres.launch import desk, identity

    opened = source(settings)
    ticket = next((ticket for ticket in opened.tickets(settings.graph) if ticket.job == job), None)
    if ticket is not None:
        return ticket, ticket.launch
    graph = reading(settings)
    _, launch = desk.launch_in(graph, lambda: opened.log(settings.graph, job=job), job)
    is_gone = launch is None or identity.presence(launch, graph.now()) is identity.Presence.GONE
    return None, None if is_gone else launch
