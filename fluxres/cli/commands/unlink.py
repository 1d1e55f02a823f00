"""`fluxres unlink`: a part goes."""

from __future__ import annotations

import click

from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.render.text import plural


@click.command("unlink", cls=Command)
@click.argument("path", shell_complete=complete_pool)
@click.option("--hierarchy", metavar="NAME", help="Only out of this one. Default: that of the URI, else the containment tree.")
@click.pass_obj
def command(settings: Settings, path: str, hierarchy: str | None) -> None:
    """Take a pool and all below it out. What is in no hierarchy any more is gone."""
    from fluxres.cli.stores import changing

    with changing(settings) as graph:
        before = len(graph)
        graph.unlink(path, hierarchy)
    gone = before - len(graph)
    answer(
        settings,
        document=lambda: {"path": path, "hierarchy": hierarchy, "removed": gone, "pools": len(graph)},
        lines=lambda _style: [f"{path} is unlinked: {plural(gone, 'pool')} gone, {len(graph)} left"],
    )
