"""`fluxres info`: a summary of a graph."""

from __future__ import annotations

import click

from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("info", cls=Command)
@click.pass_obj
def command(settings: Settings) -> None:
    """Show a summary of a graph: totals, jobs, states."""
    from fluxres.cli.stores import reading
    from fluxres.render import summary

    facts = summary.document(reading(settings))
    answer(settings, document=lambda: facts, lines=lambda style: summary.lines(facts, header=settings.header, style=style))
