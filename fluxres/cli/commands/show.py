"""Commands that show a graph: info, show, find, jobs; and what they were before: available, allocated, aggregate."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

import click

from fluxres import clock
from fluxres.cli import completing
from fluxres.cli.arguments import Moment, Window, check_window
from fluxres.cli.output import answer, answer_summary, answer_table, list_pools, note_unmet
from fluxres.cli.program import Command
from fluxres.cli.settings import POOL_OUTPUTS, RECORD_OUTPUTS, TABLE_OUTPUTS, Duration, Settings
from fluxres.cli.stores import reading
from fluxres.cli.watching import watchable
from fluxres.cli.words import note_old
from fluxres.clock import FOREVER
from fluxres.errors import UnknownPool, UsageError
from fluxres.render.text import Column, Style, printable, units
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.model import Pool, ResourceGraph
    from fluxres.render.tree import Branch


@click.command("info", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("path", required=False, shell_complete=completing.pool)
@click.option("--start", type=Moment(), metavar="T", help="What is free at this time. Default: now.")
@click.option("--duration", type=Duration(is_positive=True), metavar="D", help="Count units that stay free for this long.")
@click.pass_obj
@watchable
def info_command(settings: Settings, path: str | None, start: float | None, duration: float | None) -> None:
    """Show a summary of a graph: totals by type, states, jobs.

    With PATH: totals of that pool and everything below it. A URI such as power:/pdu0 is a part of that hierarchy, power:/ all of
    it. Nothing is counted twice: of suppliers of one type, only the topmost.
    """
    from fluxres.model import targets
    from fluxres.render import documents, listings

    graph = reading(settings)
    if path is None and start is None and duration is None:
        answer_summary(settings, graph)
        return
    place = None if path is None else targets.place(graph, path)
    facts = documents.part(graph, place, start, duration)
    answer(
        settings,
        document=lambda: facts,
        lines=lambda style: listings.totals(facts["types"], style=style),
        rows=lambda: facts["types"],
    )


@click.command("show", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("path", required=False, shell_complete=completing.pool)
@click.option("--depth", type=click.IntRange(0), metavar="N", help="Only N levels below the top.")
@click.option(
    "--subsystem",
    metavar="NAME",
    shell_complete=completing.subsystem,
    help="Draw this auxiliary graph: a hierarchy as a tree, any other as its edges.",
)
@click.pass_obj
def show_command(settings: Settings, path: str | None, depth: int | None, subsystem: str | None) -> None:
    """Draw the tree, with equal parts folded.

    With PATH: everything about that pool, and the tree below it. A URI such as power:/pdu0 draws the tree below the pool in that
    hierarchy.
    """
    from fluxres.model import targets

    graph = reading(settings)
    try:
        place = None if path is None else targets.place(graph, path, subsystem)
    except UnknownPool as error:
        error.hint = _of_job(graph, path or "") or error.hint
        raise
    named = subsystem if place is None else place.name
    top = None if place is None or place.above_roots else graph.pool(place.vertices[0])
    if named is not None:
        _show_subsystem(settings, graph, named, depth, top)
    else:
        _show_tree(settings, graph, top, depth)


def _of_job(graph: ResourceGraph, name: str) -> str:
    """A hint to the command that shows a job, if this is one; else nothing."""
    is_id = fluid.is_name(name)
    ways = ["`fluxres jobs {0}`"] * graph.records.is_holder(name) + ["`fluxres instance show {0}`"] * is_id
    return f"{' or '.join(ways)} shows a job".format(printable(name)) if ways else ""


def _show_tree(settings: Settings, graph: ResourceGraph, pool: Pool | None, depth: int | None) -> None:
    from fluxres.render import documents, shown, tree

    top = graph.root if pool is None else pool

    def lines(style: Style) -> Iterator[str]:
        if pool is not None:
            return shown.of_pool(top, depth, style=style)
        return iter(tree.draw(graph, tree.branches(graph, top.vertex, depth), style=style))

    def document() -> dict[str, Any]:
        return {"pool": documents.pool(top), "tree": _tree_document(graph, tree.branches(graph, top.vertex, depth))}

    answer(settings, document=document, lines=lines)


def _show_subsystem(settings: Settings, graph: ResourceGraph, name: str, depth: int | None, top: Pool | None) -> None:
    from fluxres.render import documents, folding, listings, tree

    structure = graph.structure
    shown = structure.subsystem(name)
    at = None if top is None else top.vertex

    def document() -> dict[str, Any]:
        head: dict[str, Any] = {} if top is None else {"pool": documents.pool(top)}
        head |= {"subsystem": name, "hierarchy": shown.hierarchy}
        if shown.hierarchy:
            return {**head, "tree": _tree_document(graph, tree.forest(graph, shown, depth, at))}
        groups = [
            {
                "from": folding.fold_all(structure, sources.tolist(), typeable=True),
                "to": folding.fold_all(structure, targets.tolist(), typeable=True),
                "both_ways": arrow == "↔",
                "edge": {key: value for key, value in shown.edge_data(row).items() if key != "subsystem"},
            }
            for sources, arrow, targets, row in tree.edge_groups(shown, at)
        ]
        return {**head, "edges": groups}

    def lines(style: Style) -> Iterator[str]:
        if top is not None:
            yield from listings.pool(top, style=style)
            yield ""
        if shown.hierarchy:
            yield from tree.draw(graph, tree.forest(graph, shown, depth, at), style=style)
        else:
            yield from tree.edges(structure, shown, at=at, style=style)

    answer(settings, document=document, lines=lines)


def _tree_document(graph: ResourceGraph, branches: Iterator[Branch]) -> list[dict[str, Any]]:
    structure = graph.structure
    return [
        {
            "level": branch.level,
            "names": branch.names,
            "count": branch.count,
            "type": structure.kind_of(branch.vertex).type,
            "size": structure.size.item(branch.vertex),
            "unit": structure.kind_of(branch.vertex).unit,
            "state": structure.state_name(branch.vertex),
            "example": structure.where(branch.vertex),
        }
        for branch in branches
    ]


@click.command("find", cls=Command, outputs=POOL_OUTPUTS)
@click.argument("criteria", nargs=-1, required=True, shell_complete=completing.criteria)
@click.option("--start", type=Moment(), metavar="T", help="Time at which amounts and jobs are evaluated. Default: now.")
@click.option(
    "--end",
    type=Moment(),
    metavar="T",
    help="A window from --start until then: units free throughout it, jobs at any time in it.",
)
@click.option("--duration", type=Duration(is_positive=True), metavar="D", help="Length of that window, instead of --end.")
@click.option("--during", type=Window(), hidden=True)
@click.option("--with-children", is_flag=True, help="Also everything below the pools found.")
@click.option("--with-ancestors", is_flag=True, help="Also the pools above, up to the root.")
@click.option(
    "--subsystem",
    "hierarchy",
    metavar="NAME",
    shell_complete=completing.subsystem,
    help="Hierarchy for children and ancestors. Default: containment.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N lines (JSON: N pools).")
@click.pass_context
def find_command(
    ctx: click.Context,
    criteria: tuple[str, ...],
    start: float | None,
    end: float | None,
    duration: float | None,
    during: tuple[float, float] | None,
    with_children: bool,
    with_ancestors: bool,
    hierarchy: str | None,
    limit: int | None,
) -> None:
    """Search for pools by criteria.

    CRITERIA such as 'type=node and state=up and available>=8'; fluxres help criteria describes the language. Pools that look the
    same are folded into one line.
    """
    from fluxres.model.search import require_types
    from fluxres.syntax.criteria import parse

    settings = ctx.ensure_object(Settings)
    if during is not None:
        note_old(ctx, "--during", "--start A --end B")
    window = _window(start, end, duration, during)
    if hierarchy is not None and not (with_children or with_ancestors):
        raise UsageError("--subsystem needs --with-children or --with-ancestors", hint="add one of them")
    graph = reading(settings)
    text = " ".join(criteria)
    met = found = graph.find(text, None if window else start, window)
    if not met:
        require_types(graph, parse(text))
    if with_ancestors:
        found |= met.with_ancestors(hierarchy)
    if with_children:
        found |= met.with_children(hierarchy)
    list_pools(settings, found, graph.window(start, None) if window is None else graph.open_window(*window), limit)
    if not met:
        note_unmet(graph, text)


def _window(
    start: float | None, end: float | None, duration: float | None, during: tuple[float, float] | None
) -> tuple[float, float] | None:
    """The window of the options, None for a moment. Errors: UsageError for two windows, and one that is empty."""
    given = [name for name, value in (("--end", end), ("--duration", duration), ("--during", during)) if value is not None]
    if len(given) > 1 or (during is not None and start is not None):
        raise UsageError(f"both {given[0] if len(given) > 1 else '--start'} and {given[-1]} were given", hint="give one of them")
    if during is not None or not given:
        return during
    begin = clock.system() if start is None else start
    stop = begin + duration if duration is not None else end
    check_window(begin, stop)
    return begin, inf if stop is None else stop


@click.command("available", cls=Command, outputs=POOL_OUTPUTS)
@click.argument("path", required=False, shell_complete=completing.pool)
@click.option("--at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.option("--duration", type=Duration(is_positive=True), metavar="D", help="Count units that stay free for this long.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N lines (JSON: N pools).")
@click.pass_obj
def available_command(settings: Settings, path: str | None, at: float | None, duration: float | None, limit: int | None) -> None:
    """List pools with free units, everywhere or in the subtree of PATH. Use find 'available>0' instead."""
    import numpy as np

    from fluxres.model import targets

    graph = reading(settings)
    found = graph.available(at, duration)
    if path is not None:
        place = targets.place(graph, path)
        found &= graph.select(np.array(place.vertices, np.int32)).with_children(place.name)
    list_pools(settings, found, graph.window(at, duration), limit)


@click.command("allocated", cls=Command, outputs=RECORD_OUTPUTS)
@click.argument("job", required=False, shell_complete=completing.job)
@click.option("--at", type=Moment(), metavar="T", help="Only those that include this time. Default: all that have not ended.")
@click.pass_obj
def allocated_command(settings: Settings, job: str | None, at: float | None) -> None:
    """List the allocations and reservations, of all jobs or of one, that have not ended. Use jobs instead."""
    from fluxres.render import documents, listings

    graph = reading(settings)
    start, end = (graph.now(), FOREVER) if at is None else graph.window(at, None)
    held = listings.held_within(graph, start, end, job)
    answer(
        settings,
        document=lambda: {"allocated": documents.spans(graph, sorted({v for _, v, *_ in held}), start, end, job)},
        lines=lambda style: listings.records(graph, held, style=style),
        pools=lambda: graph.allocated(job, at),
        allocations=lambda: (graph.allocation(name, at) for name in dict.fromkeys(name for name, *_ in held)),
    )


@click.command("aggregate", cls=Command, outputs=TABLE_OUTPUTS)
@click.argument("path", default="/", shell_complete=completing.pool)
@click.option("--at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.option("--duration", type=Duration(is_positive=True), metavar="D", help="Count units that stay free for this long.")
@click.option("--all", "every", is_flag=True, help="Include types without free units.")
@click.pass_obj
def aggregate_command(settings: Settings, path: str, at: float | None, duration: float | None, every: bool) -> None:
    """Add up free units by type in the subtree of PATH, including that pool. Use info PATH instead.

    A URI such as power:/pdu0 is a subtree of that hierarchy; power:/ is all of it.
    """
    from fluxres.model import targets, totals

    graph = reading(settings)
    place = targets.place(graph, path)
    where = f"{place.name}:/" if place.above_roots else graph.structure.where(place.vertices[0])
    free, unit_of = graph.aggregate(path, at, duration, every), graph.units
    mixed: dict[str, int] = {}
    if place.name is None:
        v = place.vertices[0]
        mixed = totals.in_part(graph, *graph.window(at, duration), v, graph.structure.end.item(v))
    columns = [Column("TYPE"), Column("FREE", right=True), Column("MIXED", right=True)]
    rows = [[name, units(number, unit_of[name]), str(mixed.get(name, ""))] for name, number in free.items()]
    answer_table(
        settings,
        columns,
        rows,
        lambda: {"path": where, "available": free, "units": {name: unit_of[name] for name in free}, "mixed": mixed},
        lambda: [
            {"type": name, "available": number, "unit": unit_of[name], "mixed": mixed.get(name, 0)}
            for name, number in free.items()
        ],
    )
