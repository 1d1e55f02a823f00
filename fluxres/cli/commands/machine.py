"""Commands that change a machine, or copy a part of it: tag, state, reserve, copy, merge, unlink, move."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fluxres.cli import completing, stores
from fluxres.cli.arguments import Moment, chosen, key_value
from fluxres.cli.output import answer, answer_summary, note
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.sources import load_one
from fluxres.cli.stores import changing, is_file, note_supply, os_user, reading, save_file
from fluxres.clock import FOREVER
from fluxres.documents.document import plural
from fluxres.documents.suggestion import suggest
from fluxres.errors import InsufficientResources, UsageError
from fluxres.render.text import Style, printable

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


_find_option = click.option(
    "--find",
    "criteria",
    metavar="CRITERIA",
    shell_complete=completing.criteria,
    help="Select all pools that meet the criteria instead of paths.",
)


@click.command("tag", cls=Command)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=completing.pool)
@click.argument("tag", metavar="K[=V]")
@_find_option
@click.option("--remove", is_flag=True, help="Remove the tag.")
@click.pass_obj
def tag_command(settings: Settings, pools: tuple[str, ...], tag: str, criteria: str | None, remove: bool) -> None:
    """Tag pools with a key and an optional value, or remove the tag."""
    from fluxres.render.folding import fold_all

    key, value = key_value(tag)
    with changing(settings) as graph:
        vertices = chosen(graph, pools, criteria, before=f"the tag {tag!r:.80}")
        if remove:
            graph.untag(vertices, key)
        else:
            graph.tag(vertices, key, value)
    done = f"without {key}" if remove else tag
    answer(
        settings,
        document=lambda: {"pools": [graph.structure.where(v) for v in vertices], "key": key, "value": value, "removed": remove},
        lines=lambda _style: [f"{fold_all(graph.structure, vertices)}: {done}"],
    )


def _complete_pool_or_state(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
    """States once a pool was named, and other pools from their first letter on."""
    has_pool = bool(ctx.params.get("state"))  # the last word so far is taken for the state
    states = completing.state(ctx, param, incomplete) if has_pool else []
    return [*states, *(completing.pool(ctx, param, incomplete) if incomplete or not has_pool else [])]


@click.command("state", cls=Command)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=_complete_pool_or_state)
@click.argument("state", shell_complete=completing.state)
@_find_option
@click.option("--reason", metavar="WHY", help="Why, for lists; until the state is set again.")
@click.option("--user", metavar="U", help="The user who sets it. Default: the user who runs the command.")
@click.pass_obj
def state_command(
    settings: Settings, pools: tuple[str, ...], state: str, criteria: str | None, reason: str | None, user: str | None
) -> None:
    """Set the state of pools: up, down, drain, degraded, failing, unknown or null.

    Pools that are down, drain, failing or unknown, everything below them, and what only they supply, take no new work; jobs keep
    what they hold there.
    """
    from fluxres.graph.kinds import UNAVAILABLE_STATES
    from fluxres.render import jobs
    from fluxres.render.folding import fold_all

    with changing(settings) as graph:
        vertices = chosen(graph, pools, criteria, before=f"the state {state!r:.80}")
        who = None if state == "up" and reason is None and user is None else user or os_user()
        graph.set_state(vertices, state, reason=reason, user=who)
        affected = graph.structure.affected(vertices).tolist() if state in UNAVAILABLE_STATES else []
    there = jobs.views(graph, (graph.now(), FOREVER), on=affected) if affected else []
    said = "" if reason is None else f" ({printable(reason)})"

    def lines(style: Style) -> list[str]:
        done = f"{fold_all(graph.structure, vertices)}: {state}{said}"
        return [done, "jobs there keep what they hold:", *jobs.lines(there, style=style)] if there else [done]

    answer(
        settings,
        document=lambda: {
            "pools": [graph.structure.where(v) for v in vertices],
            "state": state,
            "reason": reason,
            "user": who,
            "jobs": [view.document() for view in there],
        },
        lines=lines,
    )


@click.command("reserve", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=completing.pool)
@_find_option
@click.option("--start", type=Moment(is_start=True), is_eager=True, metavar="T", help="Start time. Default: now.")
@click.option("--end", type=Moment(after="start"), metavar="T", help="End time.")
@click.option("--duration", "duration_s", type=Duration(is_positive=True), metavar="D", help="Duration, instead of --end.")
@click.option("--name", metavar="NAME", help="Name of the reservation. Default: maint1, maint2, …")
@click.option(
    "--ignore-running",
    "--ignore-jobs",
    is_flag=True,
    help="Jobs that run into it keep what they hold; what they release is reserved.",
)
@click.option("--every", "every_s", type=Duration(), metavar="D", help="Repeat it at this interval, such as 7d.")
@click.option("--until", type=Moment(), metavar="T", help="Repeat it as long as it begins before this time.")
@click.option("--user", metavar="U", help="The user who reserves. Default: the user who runs the command.")
@click.option(
    "--remove", metavar="NAME", shell_complete=completing.reservation, help="Remove a reservation, with all of its repetitions."
)
@click.pass_obj
def reserve_command(
    settings: Settings,
    /,
    pools: tuple[str, ...],
    criteria: str | None,
    name: str | None,
    ignore_running: bool,
    user: str | None,
    remove: str | None,
    **times: float | None,
) -> None:
    """Reserve pools for maintenance: no job gets any of them in that time. Without pools, list the reservations.

    What only they supply (the rack of a PDU) is reserved, too. This is refused if jobs there end after its start, unless
    --ignore-running is given.
    """
    from fluxres.render import reservations

    if remove is not None:
        if pools or criteria is not None:
            raise UsageError("both pools and --remove were given", hint="give one of them")
        with changing(settings) as graph:
            graph.unreserve(remove)
        answer(
            settings, document=lambda: {"removed": remove}, lines=lambda _style: [f"reservation '{printable(remove)}' removed"]
        )
        return
    if not pools and criteria is None:
        _list_reservations(settings, reading(settings))
        return
    if times["end"] is None and times["duration_s"] is None:
        raise UsageError("a reservation needs an end", hint="give --duration 4h, or --end")
    if (times["every_s"] is None) != (times["until"] is None):
        missing = "--until, such as --until +26w" if times["until"] is None else "--every, such as --every 7d"
        raise UsageError("a reservation that repeats needs both --every and --until", hint=f"add {missing}")
    with changing(settings) as graph:
        vertices = chosen(graph, pools, criteria)
        called = name if name is not None else reservations.free_name(graph)
        try:
            graph.reserve(vertices, name=called, ignore_jobs=ignore_running, user=user or os_user(), **times)
        except InsufficientResources as error:
            error.hint = "with --ignore-running, jobs keep what they hold until they end, and nothing new starts there"
            raise
    _list_reservations(settings, graph, called)


def _list_reservations(settings: Settings, graph: ResourceGraph, name: str | None = None) -> None:
    from fluxres.render import reservations

    found = {one: each for one, each in graph.reservations().items() if name in (None, one)}
    if not found:
        note("no reservations")
    answer(
        settings,
        document=lambda: {"reservations": reservations.documents(graph, found)},
        lines=lambda style: reservations.lines(graph, found, style=style) if found else [],
    )


@click.command("copy", cls=Command)
@click.argument("path", required=False, shell_complete=completing.pool)
@click.option(
    "--job", metavar="J", shell_complete=completing.job, help="Copy what this job holds instead of what is free below PATH."
)
@click.option("--start", "at", type=Moment(), metavar="T", help="What is free or held at this time. Default: now.")
@click.option(
    "--as",
    "dest",
    required=True,
    metavar="NAME|FILE",
    shell_complete=completing.file,
    help="A graph of the store, or a file (with a / or an extension).",
)
@click.option("--replace", is_flag=True, help="Replace an existing graph of this name; its allocations are lost.")
@click.pass_obj
def copy_command(settings: Settings, path: str | None, job: str | None, at: float | None, dest: str, replace: bool) -> None:
    """Copy what is free below PATH (default: everywhere), or what a job holds, to a new graph.

    Ancestors are included to keep the pools connected to the root. Nothing is allocated in the copy. A graph of the store that
    has what a job holds allocates only as long as the job holds it.
    """
    if path is not None and job is not None:
        raise UsageError("both a path and a job were given", hint="give one of them")
    with progress(3) as shown:
        shown.step("reading the graph")
        graph = reading(settings)
        shown.step(f"copying from {graph.name}")
        made = graph.copy("/" if path is None else path, job=job, at=at)
        shown.step(f"writing {dest}")
        if is_file(dest):
            save_file(made, dest, replace=replace)
        else:
            from fluxres.store import Held

            made.name = dest
            held = None if job is None else Held(graph.name, job, at)
            stores.source(settings).put(dest, made, replace=replace, held=held, command=settings.command, wait_s=settings.wait_s)
    note_supply(made)
    answer_summary(settings, made)


@click.command("merge", cls=Command)
@click.argument("source", shell_complete=completing.or_file(completing.graph))
@click.option(
    "--as", "where", metavar="PATH", shell_complete=completing.pool, help="Path of its root in this graph. Default: its own path."
)
@click.pass_obj
def merge_command(settings: Settings, source: str, where: str | None) -> None:
    """Merge another graph into this one: SOURCE is a graph of the store, a file, or the URL of another store.

    A name that is both a graph and a file is the graph; write ./name for the file.
    """
    from fluxres import clock

    opened = stores.source(settings)
    known = source in opened.names()
    other = opened.load(source, clock=clock.system) if known else load_one(source, clock=clock.system)
    with changing(settings) as graph:
        before = len(graph)
        graph.merge(other, where)
    answer_summary(settings, graph, added=len(graph) - before)


@click.command("unlink", cls=Command)
@click.argument("path", shell_complete=completing.pool)
@click.option(
    "--subsystem",
    "hierarchy",
    metavar="NAME",
    shell_complete=completing.subsystem,
    help="Only from this hierarchy. Default: that of the URI, else containment.",
)
@click.pass_obj
def unlink_command(settings: Settings, path: str, hierarchy: str | None) -> None:
    """Remove a pool and everything below it. Pools that are then in no hierarchy are deleted."""
    with changing(settings) as graph:
        before = len(graph)
        graph.unlink(path, hierarchy)
    gone = before - len(graph)
    answer(
        settings,
        document=lambda: {"path": path, "hierarchy": hierarchy, "removed": gone, "pools": len(graph)},
        lines=lambda _style: [f"{path}: {plural(gone, 'pool')} removed, {len(graph)} remain"],
    )
    if gone > 1 and sys.stderr.isatty():
        note("`fluxres undo` brings them back")


@click.command("move", cls=Command)
@click.argument("path", shell_complete=completing.pool)
@click.argument("to", shell_complete=completing.pool)
@click.pass_obj
def move_command(settings: Settings, path: str, to: str) -> None:
    """Move the pool PATH, with all below it, into the pool TO; or TO is its complete new path.

    With a URI such as power:/pdu1, TO is the new parent in that hierarchy.
    """
    from fluxres.render import documents

    with changing(settings) as graph:
        pool = graph.pool(path)
        uuid, name, before = pool.uuid, pool.name, pool.path
        graph.move(path, to)
    done = documents.moved(graph, path, to, uuid)
    above, _, new = done["to"].rpartition("/")
    renamed = f", and is named {new} now" if new != name else ""
    answer(settings, document=lambda: done, lines=lambda _style: [f"{path} moved to {done['to']}{renamed}"])
    if renamed and above.startswith("/") and above != before.rpartition("/")[0]:
        beside = [f"{above}/{child.name}" for child in graph.pool(above).children if child.name != new]
        if hint := suggest(done["to"], beside, cutoff=0.85):
            note(f"{hint} (`fluxres undo` takes the move back)")
