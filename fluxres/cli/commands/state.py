"""`fluxres state`: set the state of pools."""

from __future__ import annotations

import click

from fluxres.cli.arguments import chosen
from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("state", cls=Command)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=complete_pool)
@click.argument("state")
@click.option("--find", "criteria", metavar="CRITERIA", help="Select all pools that meet the criteria instead of paths.")
@click.pass_obj
def command(settings: Settings, pools: tuple[str, ...], state: str, criteria: str | None) -> None:
    """Set the state of pools: up, down, drain, degraded, failing, unknown or null.

    Pools that are down, drain, failing or unknown, and everything below them, take no new work; jobs keep what they hold there.
    """
    from fluxres.cli.stores import changing
    from fluxres.render.folding import fold_all

    with changing(settings) as graph:
        vertices = chosen(graph, pools, criteria)
        graph.set_state(vertices, state)
    answer(
        settings,
        document=lambda: {"pools": [graph.structure.where(v) for v in vertices], "state": state},
        lines=lambda _style: [f"{fold_all(graph.structure, vertices)}: {state}"],
    )
