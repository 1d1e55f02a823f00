"""`fluxres load`: load a machine from a file or another store into the store."""

from __future__ import annotations

import click

from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import Settings


@click.command("load", cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--name", metavar="NAME", help="Name of the graph in the store. Default: the name in the source.")
@click.option("--format", "format_name", metavar="FORMAT", help="Format of the file. Default: detected from the content.")
@click.option("--cluster", metavar="NAME", help="Combine files of one node each into a cluster of this name.")
@click.option("--keep", metavar="TYPES", help="Types of pools to keep (core,gpu), for formats with more types.")
@click.option("--replace", is_flag=True, help="Replace an existing graph of this name; its allocations are lost.")
@click.option("--changes", multiple=True, metavar="FILE", help="Then apply files written by save --changed-only, in order.")
@click.pass_obj
def command(
    settings: Settings,
    sources: tuple[str, ...],
    name: str | None,
    format_name: str | None,
    cluster: str | None,
    keep: str | None,
    replace: bool,
    changes: tuple[str, ...],
) -> None:
    """Load a machine into the store and print a summary.

    SOURCE is a file of any format (see fluxres formats), compressed or not, - for standard input, hwloc: for the local machine,
    or the URL of another store; or several files, each of a part of the machine. The graph becomes the one in use.
    """
    from fluxres import clock
    from fluxres.cli.saving import note_supply
    from fluxres.cli.stores import store
    from fluxres.documents.source import Sources
    from fluxres.render import summary
    from fluxres.store.files import load

    options = {key: value for key, value in (("cluster", cluster), ("keep", _words(keep))) if value is not None}
    with progress(1 + len(sources)) as shown:
        if len(sources) > 1 or cluster is not None:
            source: str | Sources = Sources(sources, lambda file: shown.step(f"reading {file}"))
        else:
            source = sources[0]
            shown.step(f"reading {source}")
        called = name if name is not None else settings.graph
        graph = load(source, name=called, format=format_name, clock=clock.system, changes=changes, **options)
        shown.step(f"writing {graph.name}")
        store(settings).put(graph.name, graph, replace=replace, use=True, command=settings.command, wait_s=settings.wait_s)
    note_supply(graph)
    facts = summary.document(graph)
    answer(settings, document=lambda: facts, lines=lambda style: summary.lines(facts, header=settings.header, style=style))


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(","))
