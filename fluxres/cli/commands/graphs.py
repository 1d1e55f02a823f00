"""`fluxres graphs`: the graphs of the store."""

from __future__ import annotations

from typing import Any

import click

from fluxres.cli.completing import complete_graph
from fluxres.cli.output import answer
from fluxres.cli.program import Group
from fluxres.cli.settings import Settings


@click.group("graphs", cls=Group, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List the graphs of the store, select the default one, or remove one."""
    if ctx.invoked_subcommand is None:
        _list(ctx.ensure_object(Settings))


def _list(settings: Settings) -> None:
    from fluxres.cli.stores import store
    from fluxres.render.amounts import when
    from fluxres.render.table import Column, table

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

    answer(
        settings,
        document=document,
        lines=lambda style: table(columns, rows, header=settings.header, style=style),
    )


@command.command("use")
@click.argument("name", shell_complete=complete_graph)
@click.pass_obj
def use(settings: Settings, name: str) -> None:
    """Make this graph the default for commands without --graph."""
    from fluxres.cli.stores import store

    store(settings).use(name, wait_s=settings.wait_s)
    answer(settings, document=lambda: {"in_use": name}, lines=lambda _style: [f"{name} is now in use"])


@command.command("drop")
@click.argument("name", shell_complete=complete_graph)
@click.pass_obj
def drop(settings: Settings, name: str) -> None:
    """Remove a graph from the store, with its jobs and its journal."""
    from fluxres.cli.stores import store

    store(settings).drop(name, command=settings.command, wait_s=settings.wait_s)
    answer(settings, document=lambda: {"dropped": name}, lines=lambda _style: [f"graph {name!r} removed"])
