"""`fluxres show`: the tree, or one pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings

if TYPE_CHECKING:
    from fluxres.model import Pool, ResourceGraph
    from fluxres.render.style import Style
    from fluxres.render.tree import Branch


@click.command("show", cls=Command)
@click.argument("path", required=False, shell_complete=complete_pool)
@click.option("--depth", type=click.IntRange(0), metavar="N", help="Only N levels below the top.")
@click.option("--subsystem", metavar="NAME", help="Draw this auxiliary graph: a hierarchy as a tree, any other as its edges.")
@click.pass_obj
def command(settings: Settings, path: str | None, depth: int | None, subsystem: str | None) -> None:
    """Draw the tree, with equal parts folded.

    With PATH: everything about that pool, and the tree below it. A URI such as power:/pdu0 draws the tree below the pool in that
    hierarchy.
    """
    from fluxres.cli.stores import reading
    from fluxres.model import targets

    graph = reading(settings)
    place = None if path is None else targets.place(graph, path, subsystem)
    named = subsystem if place is None else place.name
    top = None if place is None or place.above_roots else graph.pool(place.vertices[0])
    if named is not None:
        _show_subsystem(settings, graph, named, depth, top)
    else:
        _show_tree(settings, graph, top, depth)


def _show_tree(settings: Settings, graph: ResourceGraph, pool: Pool | None, depth: int | None) -> None:
    from fluxres.render import detail, documents, tree

    top = graph.root if pool is None else pool

    def lines(style: Style) -> Iterator[str]:
        if pool is not None:
            yield from detail.lines(top, style=style)
            if graph.structure.end.item(top.vertex) == top.vertex + 1:
                return
            yield ""
        yield from tree.draw(graph, tree.branches(graph, top.vertex, depth), style=style)

    def document() -> dict[str, Any]:
        return {"pool": documents.pool(top), "tree": _tree_document(graph, tree.branches(graph, top.vertex, depth))}

    answer(settings, document=document, lines=lines)


def _show_subsystem(settings: Settings, graph: ResourceGraph, name: str, depth: int | None, top: Pool | None) -> None:
    from fluxres.render import detail, documents, folding, subsystem, tree

    structure = graph.structure
    shown = structure.subsystem(name)
    at = None if top is None else top.vertex

    def document() -> dict[str, Any]:
        head: dict[str, Any] = {} if top is None else {"pool": documents.pool(top)}
        head |= {"subsystem": name, "hierarchy": shown.hierarchy}
        if shown.hierarchy:
            return {**head, "tree": _tree_document(graph, subsystem.forest(graph, shown, depth, at))}
        groups = [
            {
                "from": folding.fold_all(structure, sources.tolist(), typeable=True),
                "to": folding.fold_all(structure, targets.tolist(), typeable=True),
                "both_ways": arrow == "↔",
                "edge": {key: value for key, value in shown.edge_data(row).items() if key != "subsystem"},
            }
            for sources, arrow, targets, row in subsystem.edge_groups(structure, shown, at)
        ]
        return {**head, "edges": groups}

    def lines(style: Style) -> Iterator[str]:
        if top is not None:
            yield from detail.lines(top, style=style)
            yield ""
        if shown.hierarchy:
            yield from tree.draw(graph, subsystem.forest(graph, shown, depth, at), style=style)
        else:
            yield from subsystem.edges(structure, shown, at=at, header=settings.header, style=style)

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
