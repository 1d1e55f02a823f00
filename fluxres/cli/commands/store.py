"""Commands for the graphs of the store: load, graphs, save, check, log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fluxres.cli import completing
from fluxres.cli.arguments import names_pool
from fluxres.cli.output import answer, answer_summary, answer_table, note
from fluxres.cli.program import Command, Group
from fluxres.cli.progress import progress
from fluxres.cli.settings import TABLE_OUTPUTS, Settings, no_output
from fluxres.cli.sources import read_description, source_options, steps_to_read
from fluxres.cli.stores import answer_report, note_supply, reading, save_file, server, source, store
from fluxres.documents.document import plural
from fluxres.errors import MergeConflict, StoreError, UsageError
from fluxres.render.text import Column, when

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.service.client.store import RemoteStore
    from fluxres.store import Store
    from fluxres.store.claims import Standing


@click.command("load", cls=Command)
@source_options
@click.option("--name", metavar="NAME", help="Name of the graph in the store. Default: the name in the source.")
@click.option("--use", is_flag=True, help="Make it the graph in use. Default: only if there is none.")
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
    settings: Settings, /, name: str | None, use: bool, replace: bool, changes: tuple[str, ...], **given: Any
) -> None:
    """Load a machine into the store and print a summary.

    SOURCE is a file of any format (see fluxres formats), compressed or not, - for standard input, this-machine for the
    machine itself (hwloc: by libhwloc), or the URL of another store; or several files, each of a part of the machine. The first
    graph becomes the one in use. Loading the same description again changes nothing.
    """
    opened = source(settings)
    with progress(steps_to_read(given["sources"]) + 2) as shown:
        called = name if name is not None else settings.graph
        graph = read_description(**given, name=called, changes=changes, shown=shown)
        shown.step(f"comparing {graph.name} with the store")
        there = None if replace or graph.name not in opened.names() else _same(opened, graph)
        if there is None:
            shown.step(f"writing {graph.name}")
            opened.put(graph.name, graph, replace=replace, use=use, command=settings.command, wait_s=settings.wait_s)
        elif use:
            opened.use(graph.name, wait_s=settings.wait_s)
    in_use = opened.default
    done = "loaded" if there is None else "is loaded already; nothing was changed"
    if in_use != graph.name:
        then = "" if there is None else " and"
        note(f"graph '{graph.name}' {done};{then} '{in_use}' stays in use (fluxres graphs use {graph.name})")
    elif there is not None:
        note(f"graph '{graph.name}' {done}")
    if there is None:
        note_supply(graph)
    answer_summary(settings, there or graph, in_use=in_use == graph.name, unchanged=there is not None)


def _same(opened: Store | RemoteStore, graph: ResourceGraph) -> ResourceGraph | None:
    """The graph of this name in the store, if it is the one described; None if it cannot be read, so that the store refuses.

    Errors: UsageError if it differs.
    """
    from fluxres.store.changes import digest

    try:
        there = opened.load(graph.name)
    except StoreError:
        return None
    try:
        found = there.diff(graph)
        said = found.summary if found else ""
    except MergeConflict as error:
        said = error.message
    if not said and graph.records.jobs() and digest(there) != digest(graph):
        said = "other allocations"
    if said:
        jobs = len(there.jobs())
        what = f"its {plural(jobs, 'job')}" if jobs else "it (it has no jobs)"
        hint = (
            f"`fluxres diff` shows what differs, `fluxres apply` changes the graph and keeps its jobs, --replace discards {what}"
        )
        raise UsageError(
            f"a graph '{graph.name}' exists already, and this one differs from it: {said}", where=opened.url, hint=hint
        )
    return there


@click.group("graphs", cls=Group, outputs=TABLE_OUTPUTS, invoke_without_command=True)
@click.pass_context
def graphs_command(ctx: click.Context) -> None:
    """List the graphs of the store, select the default one, or remove one."""
    if ctx.invoked_subcommand is None:
        settings = ctx.ensure_object(Settings)
        if settings.output not in TABLE_OUTPUTS:
            raise no_output(ctx, settings.output, TABLE_OUTPUTS)
        _list(settings)


def _list(settings: Settings) -> None:
    from fluxres.render import documents

    opened = source(settings)
    in_use, found, standings = opened.default, opened.graphs(), opened.standings()
    columns = [
        Column("GRAPH"),
        Column("IN USE"),
        Column("POOLS", right=True),
        Column("EVENTS", right=True),
        Column("CREATED"),
    ]
    rows = [[g.name, "yes" if g.name == in_use else "", str(g.pools), str(g.seq), when(g.created)] for g in found]
    if standings:
        columns.append(Column("HELD BY"))
        for graph, row in zip(found, rows, strict=True):
            row.append(_holder(standings[graph.name]) if graph.name in standings else "")

    def document() -> dict[str, Any]:
        return {"store": opened.url, "graphs": documents.graphs(found, in_use, standings)}

    answer_table(settings, columns, rows, document)


def _holder(standing: Standing) -> str:
    job = standing.job if standing.graph is None else f"{standing.job} in {standing.graph}"
    if standing.host is not None:
        job += f", on {standing.host}"
    return job if standing.lapsed is None else f"{job}, no more"


@graphs_command.command("use")
@click.argument("name", shell_complete=completing.graph)
@click.pass_obj
def use(settings: Settings, name: str) -> None:
    """Make this graph the default for commands without --graph."""
    source(settings).use(name, wait_s=settings.wait_s)
    answer(settings, document=lambda: {"in_use": name}, lines=lambda _style: [f"{name} is now in use"])


@graphs_command.command("drop")
@click.argument("name", shell_complete=completing.graph)
@click.option("--force", is_flag=True, help="Also if it has jobs or instances, which are lost.")
@click.pass_obj
def drop(settings: Settings, name: str, force: bool) -> None:
    """Remove a graph from the store, with its journal.

    One with jobs that hold something or wait, or with instances, is refused. Nothing brings it back.
    """
    lost = source(settings).drop(name, force=force, command=settings.command, wait_s=settings.wait_s)
    said = [f"graph {name!r} removed", *(f"  with {each}" for each in lost)]
    answer(settings, document=lambda: {"dropped": name, "lost": lost}, lines=lambda _style: said)


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
@click.option("--path", metavar="PATH", help="Only this pool and everything below it.", shell_complete=completing.pool)
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
    from fluxres.store.url import is_store_url

    if path is not None:
        if changed_only:
            raise UsageError("both --path and --changed-only were given", hint="changes are always those of the entire graph")
        part = reading(settings).duplicate(path)
        report = save_file(part, dest, format_name, replace=replace, strict=strict)
        note_supply(part)
        answer_report(settings, report)
        return
    if server(settings) is not None and not changed_only and dest != "-" and not is_store_url(dest):
        answer_report(settings, save_file(reading(settings), dest, format_name, replace=replace, strict=strict))
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
@click.argument("path", metavar="[SOURCE]", required=False, shell_complete=completing.file)
@click.pass_context
def check_command(ctx: click.Context, path: str | None) -> None:
    """Check the rules (fluxres help rules) on the graph, or on a file (SOURCE) without loading it.

    Ends with status 4 if a rule is broken.
    """
    from fluxres.graph.audit import hosts_by_id
    from fluxres.render import documents, listings
    from fluxres.store.files import load

    settings = ctx.ensure_object(Settings)
    graph = reading(settings) if path is None else load(path)
    found = graph.check()
    if path is None and (standing := source(settings).standings(graph.name).get(graph.name)) is not None:
        found += filter(None, [standing.problem(graph, graph.now())])
    answer(
        settings,
        document=lambda: {"graph": graph.name, "pools": len(graph), "problems": [documents.problem(p) for p in found]},
        lines=lambda style: (
            listings.problems(found, style=style) if found else [f"{graph.name}: {plural(len(graph), 'pool')}, no problems"]
        ),
    )
    if any(problem.severity == "error" for problem in found):
        ctx.exit(BROKEN)
    if again := hosts_by_id(graph.structure):
        same = f"{plural(len(again), 'node')} named by type and id, such as {graph.structure.where(again[0])}"
        note(f"nodes that share a host name with another: {same}; R and constraints name hosts (give names, or ids that run on)")


@click.command("log", cls=Command, outputs=TABLE_OUTPUTS)
@click.option("--job", metavar="J", shell_complete=completing.job, help="Only events of this job.")
@click.option("--path", metavar="PATH", shell_complete=completing.pool, help="Only events that name this pool or one below it.")
@click.option("-u", "--user", metavar="U", shell_complete=completing.user, help="Only events that this user caused.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the latest N events.")
@click.pass_obj
def log_command(settings: Settings, job: str | None, path: str | None, user: str | None, limit: int | None) -> None:
    """Show the events of a graph, oldest first.

    Times within an event are seconds in the table, and ticks of one microsecond in JSON.
    """
    from fluxres.render import events

    if path is not None and not names_pool(path):  # the journal has complete names
        from fluxres.model.targets import spelled_out

        path = spelled_out(reading(settings).structure, path)
    entries = source(settings).log(settings.graph, job=job, path=path, user=user, limit=limit)
    if not entries and settings.has_table:
        note("no events")
    columns = [
        Column("NUMBER", right=True, drop=2),
        Column("TIME"),
        Column("USER"),
        Column("EVENT"),
        Column("WHAT"),
        Column("COMMAND", drop=1),
    ]
    rows = [[str(e.seq), when(e.time), e.user, events.word(e.event), events.details(e.event), e.command] for e in entries]
    answer_table(
        settings,
        columns if rows else [],
        rows,
        lambda: {"log": [e.document() for e in entries]},
        lambda: [
            {
                "number": e.seq,
                "time": e.time,
                "by": e.user or None,
                "event": e.event["event"],
                "what": events.details(e.event),
                "command": e.command,
            }
            for e in entries
        ],
    )
