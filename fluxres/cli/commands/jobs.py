"""The command for jobs."""

from __future__ import annotations

from typing import Any

import click

from fluxres.cli import completing
from fluxres.cli.arguments import Moment, vertices
from fluxres.cli.output import answer, note
from fluxres.cli.program import Command
from fluxres.cli.settings import RECORD_OUTPUTS, Settings
from fluxres.cli.stores import at_once, server, source, store
from fluxres.cli.watching import watchable
from fluxres.clock import FOREVER
from fluxres.documents.document import plural
from fluxres.errors import UnknownJob, UsageError
from fluxres.model import ResourceGraph
from fluxres.render.text import Style
from fluxres.store import Entry


@click.command("jobs", cls=Command, outputs=RECORD_OUTPUTS)
@click.argument("job", required=False, shell_complete=completing.job)
@click.option(
    "-w",
    "--on",
    "--nodelist",
    multiple=True,
    metavar="PATH",
    shell_complete=completing.pool,
    help="Only jobs with something on this node or part.",
)
@click.option("-u", "--user", metavar="U", shell_complete=completing.user, help="Only jobs of this user.")
@click.option("--state", type=click.Choice(("running", "planned")), help="Only jobs that run, or that will.")
@click.option("--pending", is_flag=True, help="Jobs that have not begun, and what they wait for.")
@click.option(
    "--start", "at", type=Moment(), metavar="T", help="Only those that hold something at this time. Default: from now on."
)
@click.pass_obj
@watchable
def jobs_command(
    settings: Settings,
    job: str | None,
    on: tuple[str, ...],
    user: str | None,
    state: str | None,
    pending: bool,
    at: float | None,
) -> None:
    """List jobs: user, name, state, time left, nodes, and what they hold. With JOB: everything about that job."""
    from fluxres.render import jobs

    if job is not None and (on or user is not None or state is not None or pending):
        raise UsageError("both a job and a filter were given", hint="give one of them")
    if pending and state == "running":
        raise UsageError("--pending and --state running exclude each other", hint="give one of them")
    graph = at_once(settings)
    now = graph.now()
    window = (now, FOREVER) if at is None else graph.window(at, None)
    wanted = jobs.PLANNED if pending else state
    if (
        job is not None
        and server(settings) is None
        and not graph.records.is_holder(job)
        and any(one.job == job for one in store(settings).tickets(graph.name))
    ):
        raise UnknownJob(
            f"job '{job}' holds nothing yet: it waits for resources", hint="`fluxres ps` shows its place in the queue"
        )
    found = jobs.views(graph, window, job=job, on=vertices(graph, on), user=user, state=wanted)
    if job is not None:
        _one(settings, graph, found, window, at)
        return
    waits = jobs.waits(graph, found, now) if pending else []
    if not found:
        note("no jobs")
    if pending and settings.has_table and (queue := len(source(settings).tickets(graph.name))):
        note(f"{plural(queue, 'request')} of run and shell {'wait' if queue > 1 else 'waits'} in the queue (fluxres ps)")

    def documents() -> list[dict[str, Any]]:
        if pending:
            return [{**wait.view.document(), "waits_for": list(wait.blockers)} for wait in waits]
        return [view.document() for view in found]

    def lines(style: Style) -> list[str]:
        return [] if not found else jobs.pending(waits, style=style) if pending else jobs.lines(found, style=style)

    answer(
        settings,
        document=lambda: {"jobs": documents()},
        lines=lines,
        pools=lambda: graph.select(_pools(graph, found)),
        allocations=lambda: (graph.allocation(view.holding.job, at) for view in found),
    )


def _pools(graph: ResourceGraph, found: list[Any]) -> Any:
    import numpy as np

    held = np.concatenate([np.zeros(0, np.int64), *(view.holding.vertices for view in found)])
    return np.unique(held[held < graph.structure.n]).astype(np.int32)


def _first_command(entries: list[Entry]) -> str:
    """The command that allocated to a job first, since it last held nothing."""
    found = ""
    for entry in entries:
        kind = entry.event["event"]
        if kind == "free" and entry.event["pools"] is None and entry.event["start"] is None and entry.event["end"] is None:
            found = ""
        elif not found and kind in {"allocate", "allocate_all", "stage"}:
            found = entry.command
    return found


def _one(settings: Settings, graph: ResourceGraph, found: list[Any], window: tuple[int, int], at: float | None) -> None:
    from fluxres.render import documents, jobs, listings

    if not found:
        raise UsageError("the job holds nothing then", hint="`log --job` has its history")
    view = found[0]
    name = view.holding.job
    planned = jobs.waits(graph, [view], window[0]) if view.state == jobs.PLANNED else []
    command = _first_command(source(settings).log(settings.graph, job=name))
    held = listings.held_within(graph, *window, name)

    def document() -> dict[str, Any]:
        spans = documents.spans(graph, sorted({v for _, v, *_ in held}), *window, name)
        waits_for = [blocker for wait in planned for blocker in wait.blockers]
        return {**view.document(), "waits_for": waits_for, "command": command or None, "allocated": spans}

    def lines(style: Style) -> list[str]:
        waits_for = planned[0].reason() if planned else ""
        facts = jobs.details(view, waits_for, command, style=style)
        return [*facts, "", *listings.records(graph, held, style=style)]

    answer(
        settings,
        document=document,
        lines=lines,
        pools=lambda: graph.select(_pools(graph, found)),
        allocations=lambda: [graph.allocation(name, at)],
        rows=lambda: documents.spans(graph, sorted({v for _, v, *_ in held}), *window, name),
    )
