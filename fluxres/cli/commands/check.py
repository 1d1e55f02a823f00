"""`fluxres check`: the numbered rules, on a graph or a file."""

from __future__ import annotations

import click

from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings

BROKEN = 4


@click.command("check", cls=Command)
@click.argument("source", required=False)
@click.pass_context
def command(ctx: click.Context, source: str | None) -> None:
    """Check the rules of specs/rules.md on the graph, or on a file (SOURCE) without loading it.

    Ends with status 4 if a rule is broken.
    """
    from fluxres.cli.stores import reading
    from fluxres.render import documents, listings
    from fluxres.render.text import plural
    from fluxres.store.files import load

    settings = ctx.ensure_object(Settings)
    graph = reading(settings) if source is None else load(source)
    found = graph.check()
    answer(
        settings,
        document=lambda: {"graph": graph.name, "pools": len(graph), "problems": [documents.problem(p) for p in found]},
        lines=lambda style: (
            listings.problems(found, header=settings.header, style=style)
            if found
            else [f"{graph.name}: {plural(len(graph), 'pool')}, no problems"]
        ),
    )
    if any(problem.severity == "error" for problem in found):
        ctx.exit(BROKEN)
