"""`fluxres tag`: notes on pools."""

from __future__ import annotations

import click

from fluxres.cli import arguments
from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("tag", cls=Command)
@click.argument("pools", nargs=-1, metavar="[PATH]...", shell_complete=complete_pool)
@click.argument("tag", metavar="K[=V]")
@click.option("--find", "criteria", metavar="CRITERIA", help="Select all pools that meet the criteria instead of paths.")
@click.option("--remove", is_flag=True, help="Remove the tag.")
@click.pass_obj
def command(settings: Settings, pools: tuple[str, ...], tag: str, criteria: str | None, remove: bool) -> None:
    """Tag pools with a key and an optional value, or remove the tag."""
    from fluxres.cli.stores import changing
    from fluxres.render.folding import fold_all

    key, value = arguments.tag(tag)
    with changing(settings) as graph:
        chosen = arguments.chosen(graph, pools, criteria)
        if remove:
            graph.untag(chosen, key)
        else:
            graph.tag(chosen, key, value)
    done = f"without {key}" if remove else tag
    answer(
        settings,
        document=lambda: {"pools": [graph.structure.where(v) for v in chosen], "key": key, "value": value, "removed": remove},
        lines=lambda _style: [f"{fold_all(graph.structure, chosen)}: {done}"],
    )
