"""The command for nodes by state."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from fluxres.cli import completing
from fluxres.cli.arguments import Moment, vertices
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import POOL_OUTPUTS, Settings
from fluxres.cli.stores import at_once
from fluxres.cli.watching import watchable


@click.command("nodes", cls=Command, outputs=POOL_OUTPUTS)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=completing.pool)
@click.option(
    "-p", "--partition", "within", multiple=True, metavar="NAME", shell_complete=completing.partition, help="Only this partition."
)
@click.option("-l", "-R", "--reasons", is_flag=True, help="Also why nodes take no work, which user set that, and since when.")
@click.option("--start", "at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.pass_obj
@watchable
def nodes_command(settings: Settings, pools: tuple[str, ...], within: tuple[str, ...], reasons: bool, at: float | None) -> None:
    """List nodes by state: idle, mixed, allocated, reserved, draining, drained, down.

    A node is mixed if jobs hold a part of it. Naming nodes, partitions, or pools around nodes or in them, lists only these
    nodes, with reasons.
    """
    from fluxres.render import nodes

    graph = at_once(settings)
    window, found = graph.window(at, None), graph.node_states(at)
    shown = [graph.structure.partition(name) for name in within]
    if shown:
        found = found.only(np.logical_or.reduce([one.covers(found.vertices) for one in shown]))
    if pools:
        from fluxres.model.holdings import overlapping

        named = set(vertices(graph, pools))
        by_name = [one for one in graph.partitions.values() if one.vertex in named]
        is_shown = overlapping(graph.structure, np.array(sorted(named), np.int64), found.vertices.astype(np.int64))
        found = found.only(np.logical_or.reduce([is_shown, *(one.covers(found.vertices) for one in by_name)]))
        shown = shown or by_name * (len(by_name) == len(named))

    def document() -> dict[str, Any]:
        return {"counts": found.counts(), "nodes": nodes.documents(graph, found, window)}

    answer(
        settings,
        document=document,
        lines=lambda style: nodes.lines(
            graph, found, window, reasons=reasons or bool(pools), partitions=[one.name for one in shown], style=style
        ),
        pools=lambda: graph.select(found.vertices),
        rows=lambda: nodes.documents(graph, found, window),
    )
