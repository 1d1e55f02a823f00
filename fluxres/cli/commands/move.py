"""`fluxres move`: move a part of a machine."""

from __future__ import annotations

import click

from fluxres.cli.completing import complete_pool
from fluxres.cli.output import answer
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings


@click.command("move", cls=Command)
@click.argument("path", shell_complete=complete_pool)
@click.argument("to", shell_complete=complete_pool)
@click.pass_obj
def command(settings: Settings, path: str, to: str) -> None:
    """Move the pool PATH, with all below it, into the pool TO; or TO is its complete new path.

    With a URI such as power:/pdu1, TO is the new parent in that hierarchy.
    """
    from fluxres.cli.stores import changing

    with changing(settings) as graph:
        uuid = graph.pool(path).uuid
        graph.move(path, to)
    pool = graph.pool(uuid)
    hierarchy = to.partition(":/")[0] if not to.startswith("/") else graph.structure.hierarchy
    place = next((uri for uri in pool.uris if uri.startswith(f"{hierarchy}:/") and hierarchy in graph.subsystems), pool.path)
    answer(
        settings,
        document=lambda: {"path": path, "to": place, "uuid": uuid},
        lines=lambda _style: [f"{path} moved to {place}"],
    )
