"""Commands that ask about a request: when, why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from fluxres.cli import completing
from fluxres.cli.arguments import Asked, Moment, RequestCommand, check_window
from fluxres.cli.output import answer
from fluxres.cli.settings import POOL_OUTPUTS, Duration, Settings
from fluxres.cli.stores import reading, source
from fluxres.clock import seconds
from fluxres.errors import STATUS, InfeasibleRequest, InsufficientResources
from fluxres.render.text import Style, when, when_from

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph, Selection


@click.command("when", cls=RequestCommand, outputs=POOL_OUTPUTS)
@click.argument("words", nargs=-1, metavar="REQUEST", shell_complete=completing.file)
@click.option("--start", "after", type=Moment(is_start=True), metavar="T", help="Earliest time to consider. Default: now.")
@click.option(
    "--duration", type=Duration(is_positive=True), metavar="D", help="Duration. Default: that of the request, else unlimited."
)
@click.pass_obj
def when_command(settings: Settings, asked: Asked, after: float | None, duration: float | None) -> None:
    """Show the earliest time at which a REQUEST can start, and what it would get.

    The first line is now, or the time in the form that --start accepts. Nothing is allocated.
    """
    import numpy as np

    from fluxres.render import documents, listings

    check_window(after, None)
    graph = _allocating(settings)
    wanted, policy = asked.needed(graph), asked.policy
    now = seconds(graph.now())
    begin = now if after is None else after
    first = graph.earliest(wanted, begin, duration, policy)
    found = graph.match(wanted, begin if first is None else first, duration, policy)  # if there is no start, this explains why
    start = seconds(found.start)

    def lines(style: Style) -> Iterator[str]:
        yield "now" if start <= now else when_from(start)
        yield from listings.matched(found, graph.structure, style=style)

    def pools() -> Selection:
        vertices = np.union1d(found.vertices, found.shared)
        return graph.select(vertices[vertices < graph.structure.n])

    answer(settings, document=lambda: documents.matched(graph, found, now), lines=lines, pools=pools)


def _allocating(settings: Settings) -> ResourceGraph:
    """The graph, if it allocates: a copy of what a job holds ends with the job.  Errors: HoldLapsed."""
    graph = reading(settings)
    if (standing := source(settings).standings(graph.name).get(graph.name)) is not None:
        standing.require(graph.name)
    return graph


NOT_NOW: Final = STATUS[InsufficientResources][0]
NEVER: Final = STATUS[InfeasibleRequest][0]


@click.command("why", cls=RequestCommand)
@click.argument("words", nargs=-1, metavar="REQUEST", shell_complete=completing.file)
@click.option("--start", "at", type=Moment(is_start=True), metavar="T", help="At this time. Default: now.")
@click.option(
    "--duration", type=Duration(is_positive=True), metavar="D", help="Duration. Default: that of the request, else unlimited."
)
@click.pass_context
def why_command(ctx: click.Context, asked: Asked, at: float | None, duration: float | None) -> None:
    """Explain why a REQUEST has no match: the number of candidates, what rules them out, and what would match.

    Ends with status 0 if it has a match, 1 if it has none at that time, 3 if it can never have one.
    """
    from fluxres.render import refusals

    settings = ctx.ensure_object(Settings)
    check_window(at, None)
    graph = _allocating(settings)
    refusal = graph.why_not(asked.needed(graph), at, duration, asked.policy)
    start = "now" if at is None else f"at {when(at)}"

    def lines(style: Style) -> list[str]:
        return [f"It matches {start}."] if refusal is None else refusals.lines(refusal, start, style=style)

    answer(settings, document=lambda: refusals.document(refusal), lines=lines)
    if refusal is not None:
        ctx.exit(NEVER if refusal.never else NOT_NOW)
