"""Commands for the graphs of the store: load, graphs, save, check, log."""

from __future__ import annotations

from typing import Any

import click

from fluxres.cli import completing
from fluxres.cli.arguments import complete_graph, complete_job, complete_pool
from fluxres.cli.output import answer, answer_summary, answer_table
from fluxres.cli.program import Command, Group
from fluxres.cli.progress import progress
from fluxres.cli.settings import TABLE_OUTPUTS, Settings
from fluxres.cli.stores import answer_report, note_supply, reading, save_file, store
from fluxres.errors import UsageError
from fluxres.render.text import Column, plural, when


@click.command("load", cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=completing.machine)
@click.option("--name", metavar="NAME", help="Name of the graph in the store. Default: the name in the source.")
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    shell_complete=completing.format_read,
    help="Format of the file. Default: detected from the content.",
)
@click.option("--cluster", metavar="NAME", help="Combine files of one node each into a cluster of this name.")
@click.option("--keep", metavar="TYPES", help="Types of pools to keep (core,gpu), for formats with more types.")
@click.option("--replace", is_flag=True, help="Replace an existing graph of this name; its allocations are lost.")
@click.option(
    "--changes",
    multiple=True,
    metavar="FILE",
    shell_complete=completing.file,
    help="Then apply files written by save --changed-only, in order.",
)
@click.pass_obj
def load_command(
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
    from fluxres.documents.source import Sources
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
    answer_summary(settings, graph)


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(word.strip() for word in text.split(","))


@click.group("graphs", cls=Group, outputs=TABLE_OUTPUTS, invoke_without_command=True)
@click.pass_context
def graphs_command(ctx: click.Context) -> None:
    """List the graphs of the store, select the default one, or remove one."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Settings))


def _list(settings: Settings) -> None:
    opened = store(settings)
    in_use, found = opened.default, opened.graphs()
    columns = [
        Column("GRAPH"),
        Column("IN USE"),
        Column("POOLS", right=True),
        Column("EVENTS", right=True),
        Column("CREATED"),
    ]
    rows = [[g.name, "yes" if g.name == in_use else "", str(g.pools), str(g.seq), when(g.created)] for g in found]

    def document() -> dict[str, Any]:
        keys = ("graph", "in_use", "pools", "events", "created")
        values = [(g.name, g.name == in_use, g.pools, g.seq, g.created) for g in found]
        return {"store": opened.url, "graphs": [dict(zip(keys, value, strict=True)) for value in values]}

    answer_table(settings, columns, rows, document)


@graphs_command.command("use")
@click.argument("name", shell_complete=complete_graph)
@click.pass_obj
def use(settings: Settings, name: str) -> None:
    """Make this graph the default for commands without --graph."""
    store(settings).use(name, wait_s=settings.wait_s)
    answer(settings, document=lambda: {"in_use": name}, lines=lambda _style: [f"{name} is now in use"])


@graphs_command.command("drop")
@click.argument("name", shell_complete=complete_graph)
@click.pass_obj
def drop(settings: Settings, name: str) -> None:
    """Remove a graph from the store, with its jobs and its journal."""
    store(settings).drop(name, command=settings.command, wait_s=settings.wait_s)
    answer(settings, document=lambda: {"dropped": name}, lines=lambda _style: [f"graph {name!r} removed"])


@click.command("save", cls=Command)
@click.argument("dest", shell_complete=completing.file)
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    shell_complete=completing.format_written,
    help="Format of the file. Default: by its extension.",
)
@click.option("--changed-only", is_flag=True, help="Only the changes since it was last saved there.")
@click.option("--strict", is_flag=True, help="Write nothing if the format cannot express everything.")
@click.option("--path", metavar="PATH", help="Only this pool and everything below it.", shell_complete=complete_pool)
@click.option("--replace", is_flag=True, help="Replace a graph of this name in another store; its allocations are lost.")
@click.pass_obj
def save_command(
    settings: Settings, dest: str, format_name: str | None, changed_only: bool, strict: bool, path: str | None, replace: bool
) -> None:
    """Write the graph to DEST: a file, or the URL of another store (sqlite:///path.db?graph=NAME).

    Whatever the format cannot express is reported on standard error. A file whose name ends in .gz, .zst, .xz or .bz2 is
    compressed.
    """
    from fluxres.store.files import save_stored

    if path is not None:
        if changed_only:
            raise UsageError("both --path and --changed-only were given", hint="changes are always those of the entire graph")
        part = reading(settings).duplicate(path)
        report = save_file(part, dest, format_name, replace=replace, strict=strict)
        note_supply(part)
        answer_report(settings, report)
        return
    if dest == "-":
        if changed_only:
            raise UsageError("changes go to a file or a store", where=dest, hint="give a file or the URL of a store")
        save_file(reading(settings), dest, format_name, strict=strict)
        return
    report = save_stored(
        store(settings), settings.graph, dest, format=format_name, changed_only=changed_only, replace=replace, strict=strict
    )
    answer_report(settings, report)


BROKEN = 4


@click.command("check", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("source", required=False, shell_complete=completing.file)
@click.pass_context
def check_command(ctx: click.Context, source: str | None) -> None:
    """Check the rules (fluxres help rules) on the graph, or on a file (SOURCE) without loading it.

    Ends with status 4 if a rule is broken.
    """
    from fluxres.render import documents, listings
    from fluxres.store.files import load

    settings = ctx.ensure_object(Settings)
    graph = reading(settings) if source is None else load(source)
    found = graph.check()
    answer(
        settings,
        document=lambda: {"graph": graph.name, "pools": len(graph), "problems": [documents.problem(p) for p in found]},
        lines=lambda style: (
            listings.problems(found, style=style) if found else [f"{graph.name}: {plural(len(graph), 'pool')}, no problems"]
        ),
    )
    if any(problem.severity == "error" for problem in found):
        ctx.exit(BROKEN)


@click.command("log", cls=Command, outputs=TABLE_OUTPUTS)
@click.option("--job", metavar="J", shell_complete=complete_job, help="Only events of this job.")
@click.option("--path", metavar="PATH", shell_complete=complete_pool, help="Only events that name this pool or one below it.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the latest N events.")
@click.pass_obj
def log_command(settings: Settings, job: str | None, path: str | None, limit: int | None) -> None:
    """Show the events of a graph, oldest first.

    Times within an event are seconds in the table, and ticks of one microsecond in JSON.
    """
    from fluxres.render import events

    entries = store(settings).log(settings.graph, job=job, path=path, limit=limit)
    columns = [Column("NUMBER", right=True, drop=1), Column("TIME"), Column("EVENT"), Column("WHAT")]
    rows = [[str(e.seq), when(e.time), e.event["event"], events.details(e.event)] for e in entries]
    answer_table(
        settings,
        columns,
        rows,
        lambda: {"log": [{"number": e.seq, "time": e.time, "command": e.command, **e.event} for e in entries]},
        lambda: [
            {"number": e.seq, "time": e.time, "event": e.event["event"], "what": events.details(e.event), "command": e.command}
            for e in entries
        ],
    )
