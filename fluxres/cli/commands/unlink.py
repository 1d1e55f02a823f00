"""`fluxres unlink`: remove a part of a machine."""

from __future__ import annotations

import click

from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.render.text import plural


@click.command("unlink", cls=Command)
@click.argument("path", shell_complete=complete_pool)
@click.option("--hierarchy", metavar="NAME", help="Only from this hierarchy. Default: that of the URI, else containment.")
@click.pass_obj
def command(settings: Settings, path: str, hierarchy: str | None) -> None:
    """Remove a pool and everything below it. Pools that are in no hierarchy any more are deleted."""
    from fluxres.cli.stores import changing

    with changing(settings) as graph:
        before = len(graph)
        graph.unlink(path, hierarchy)
    gone = before - len(graph)
    answer(
        settings,
        document=lambda: {"path": path, "hierarchy": hierarchy, "removed": gone, "pools": len(graph)},
        lines=lambda _style: [f"{path}: {plural(gone, 'pool')} removed, {len(graph)} remain"],
    )
