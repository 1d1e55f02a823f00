"""`fluxres merge`: merge two graphs into one."""

from __future__ import annotations

import click

from fluxres.cli.completing import complete_graph, complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("merge", cls=Command)
@click.argument("source", shell_complete=complete_graph)
@click.option(
    "--at", "where", metavar="PATH", shell_complete=complete_pool, help="Path of its root in this graph. Default: its own path."
)
@click.pass_obj
def command(settings: Settings, source: str, where: str | None) -> None:
    """Merge another graph into this one: SOURCE is a graph of the store, a file, or the URL of another store.

    A name that is both a graph and a file is the graph; write ./name for the file.
    """
    from fluxres import clock
    from fluxres.cli.stores import changing, store
    from fluxres.render import summary
    from fluxres.store.files import load

    opened = store(settings)
    known = source in opened.names()
    other = opened.load(source, clock=clock.system) if known else load(source, clock=clock.system)
    with changing(settings) as graph:
        before = len(graph)
        graph.merge(other, where)
    facts = {**summary.document(graph), "added": len(graph) - before}
    answer(settings, document=lambda: facts, lines=lambda style: summary.lines(facts, header=settings.header, style=style))
