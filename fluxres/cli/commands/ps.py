"""Commands for the jobs that run programs: ps, wait, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.output import answer, note
from fluxres.cli.program import Command
from fluxres.cli.settings import PLAIN_OUTPUTS, TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import at_once, changing, reading, store
from fluxres.cli.watching import watchable
from fluxres.errors import UnknownJob, UsageError

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
    from fluxres.launch import waiting
    from fluxres.render import programs

    graph = at_once(settings)
    tickets = store(settings).tickets(graph.name)
    starts = waiting.Pass(graph).run(tickets, only_estimate=True).starts if tickets else {}
    found = [view for view in programs.views(graph, tickets, starts) if user in (None, view.user)]
    if not found and settings.has_table:
        note("no programs")

    def lines(style: Style) -> list[str]:
        return programs.lines(found, style=style) if found else []

    answer(settings, document=lambda: {"programs": [view.document() for view in found]}, lines=lines)


@click.command("wait", cls=Command, outputs=PLAIN_OUTPUTS)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completing.job)
@click.pass_obj
def wait_command(settings: Settings, jobs: tuple[str, ...]) -> None:
    """Wait until jobs of run and shell end, those that wait for resources included."""
    from fluxres.launch import control

    launches = [launch for job in jobs if (launch := _launch(settings, job)) is not None]
    control.wait_for(launches)
    reading(settings)  # this frees what is left of a job that was killed
    answer(settings, document=lambda: {"ended": list(jobs)}, lines=lambda _style: [])


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
    from fluxres.launch import control
    from fluxres.store import mailbox

    canceled, ended = [], []
    for job in jobs:
        ticket, launch = _ticket(settings, job), _launch(settings, job)
        if launch is None:
            ended.append(job)
            continue
        canceled.append(job)
        if ticket is None:
            control.end(job, launch, grace)
            continue
        control.require_owner(job, launch)
        opened = store(settings)
        with opened.writing(settings.graph, command=settings.command, wait_s=settings.wait_s) as transaction:
            transaction.tickets.remove(ticket)
        mailbox.send(opened.path, [(ticket.launch.mark, mailbox.News(is_canceled=True))])
    with changing(settings):
        pass  # this frees what is left, and lets others have it
    said = [*(f"{job} is canceled" for job in canceled), *(f"{job} has ended already" for job in ended)]
    answer(settings, document=lambda: {"canceled": canceled, "ended": ended}, lines=lambda _style: said)


def _ticket(settings: Settings, job: str) -> Ticket | None:
    return next((ticket for ticket in store(settings).tickets(settings.graph) if ticket.job == job), None)


def _launch(settings: Settings, job: str) -> Launch | None:
    """The processes of a job that runs or waits; None if it has ended.

    Errors: UnknownJob; UsageError for a job without processes.
    """
    ticket = _ticket(settings, job)
    if ticket is not None:
        return ticket.launch
    graph: ResourceGraph = reading(settings)
    facts = graph.records.facts.get(job)
    if facts is not None and facts.launch is not None:
        return facts.launch
    if graph.records.is_holder(job):
        raise UsageError("is not a job of run or shell", where=f"job '{job}'", hint=f"`fluxres free {job}` frees what it holds")
    if store(settings).log(settings.graph, job=job, limit=1):
        return None
    raise UnknownJob(f"no job '{job}'", hint="`fluxres ps` lists the jobs of run and shell")
