"""`fluxres allocated`: allocations and reservations."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment
from fluxres.cli.completing import complete_job
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import OUTPUTS, Settings


@click.command("allocated", cls=Command, outputs=OUTPUTS)
@click.argument("job", required=False, shell_complete=complete_job)
@click.option("--at", type=Moment(), metavar="T", help="Only those that include this time. Default: all that have not ended.")
@click.pass_obj
def command(settings: Settings, job: str | None, at: float | None) -> None:
    """List the allocations and reservations, of all jobs or of one, that have not ended."""
    from fluxres.cli.stores import reading
    from fluxres.clock import FOREVER
    from fluxres.render import documents, listings

    graph = reading(settings)
    start, end = (graph.now(), FOREVER) if at is None else graph.window(at, None)
    held = listings.held_within(graph, start, end, job)
    answer(
        settings,
        document=lambda: {"allocated": documents.spans(graph, sorted({v for _, v, *_ in held}), start, end, job)},
        lines=lambda style: listings.records(graph, held, header=settings.header, style=style),
        pools=lambda: graph.allocated(job, at),
        allocations=lambda: (graph.allocation(name, at) for name in dict.fromkeys(name for name, *_ in held)),
    )
