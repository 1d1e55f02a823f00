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
@click.option("-l", "-R", "--reasons", is_flag=True, help="Also why nodes take no work, which user set that, and since when.")
@click.option("--start", "at", type=Moment(), metavar="T", help="At this time. Default: now.")
@click.pass_obj
@watchable
def nodes_command(settings: Settings, pools: tuple[str, ...], reasons: bool, at: float | None) -> None:
    """List nodes by state: idle, mixed, allocated, reserved, draining, drained, down.

    A node is mixed if jobs hold a part of it. Naming nodes, partitions, or pools around nodes or in them, lists only these
    nodes, with reasons.
    """
    from fluxres.render import nodes

    graph = at_once(settings)
    window, found = graph.window(at, None), graph.node_states(at)
    if pools:
        from fluxres.model.holdings import overlapping

        named = set(vertices(graph, pools))
        is_shown = np.zeros(len(found.vertices), np.bool_)
        for partition in graph.partitions.values():
            if partition.vertex in named:
                is_shown |= partition.covers(found.vertices)
        is_shown |= overlapping(graph.structure, np.array(sorted(named), np.int64), found.vertices.astype(np.int64))
        found = found.only(is_shown)

    def document() -> dict[str, Any]:
        return {"counts": found.counts(), "nodes": nodes.documents(graph, found, window)}

    answer(
        settings,
        document=document,
        lines=lambda style: nodes.lines(graph, found, window, reasons=reasons or bool(pools), style=style),
        pools=lambda: graph.select(found.vertices),
        rows=lambda: nodes.documents(graph, found, window),
    )
