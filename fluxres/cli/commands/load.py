"""`fluxres load`: a machine from a file or another store into the store."""

from __future__ import annotations

import click

from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import Settings


@click.command("load", cls=Command)
@click.argument("source")
@click.option("--name", metavar="NAME", help="Name of the graph in the store. Default: what the source is called.")
@click.option("--replace", is_flag=True, help="Over the graph that has this name now; what it holds is lost.")
@click.option("--changes", multiple=True, metavar="FILE", help="Then apply what save --changed-only wrote, in order.")
@click.pass_obj
def command(settings: Settings, source: str, name: str | None, replace: bool, changes: tuple[str, ...]) -> None:
    """Read a machine into the store, and say what it is.

    SOURCE is a file of any format (fluxres formats lists them) or the URL of another store. The graph becomes the one
    in use.
    """
    from fluxres import clock
    from fluxres.cli.stores import store
    from fluxres.render import summary
    from fluxres.store.files import load

    with progress(2) as shown:
        shown.step(f"reading {source}")
        graph = load(source, name=name if name is not None else settings.graph, clock=clock.system, changes=changes)
        shown.step(f"writing {graph.name}")
        store(settings).put(graph.name, graph, replace=replace, use=True, command=settings.command, wait_s=settings.wait_s)
    facts = summary.document(graph)
    answer(settings, document=lambda: facts, lines=lambda style: summary.lines(facts, header=settings.header, style=style))
