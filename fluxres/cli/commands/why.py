"""`fluxres why`: explain why a request is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from fluxres.cli.arguments import Moment, check_window
from fluxres.cli.output import answer
from fluxres.cli.requests import Asked, RequestCommand
from fluxres.cli.settings import Duration, Settings
from fluxres.errors import STATUS, InfeasibleRequest, InsufficientResources

if TYPE_CHECKING:
    from fluxres.render.style import Style

NOT_NOW: Final = STATUS[InsufficientResources][0]
NEVER: Final = STATUS[InfeasibleRequest][0]


@click.command("why", cls=RequestCommand)
@click.argument("words", nargs=-1, metavar="REQUEST")
@click.option("--at", "--start", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.option("--duration", type=Duration(), metavar="D", help="Duration. Default: that of the request, else unlimited.")
@click.pass_context
def command(ctx: click.Context, asked: Asked, at: float | None, duration: float | None) -> None:
    """Explain why a REQUEST has no match: the number of candidates, what rules them out, and what would match.

    Ends with status 0 if it has a match, 1 if it has none at that time, 3 if it can never have one.
    """
    from fluxres.cli.stores import reading
    from fluxres.render import refusals
    from fluxres.render.amounts import when

    settings = ctx.ensure_object(Settings)
    wanted = asked.needed()
    check_window(at, None)
    refusal = reading(settings).why_not(wanted, at, duration, asked.policy)
    start = "now" if at is None else f"at {when(at)}"

    def lines(style: Style) -> list[str]:
        return [f"It matches {start}."] if refusal is None else refusals.lines(refusal, start, style=style)

    answer(settings, document=lambda: refusals.document(refusal), lines=lines)
    if refusal is not None:
        ctx.exit(NEVER if refusal.never else NOT_NOW)
