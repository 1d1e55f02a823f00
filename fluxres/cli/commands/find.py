"""`fluxres find`: pools by criteria."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, Window
from fluxres.cli.listing import list_pools, note_unmet
from fluxres.cli.program import Command
from fluxres.cli.settings import POOL_OUTPUTS, Settings
from fluxres.errors import UsageError


@click.command("find", cls=Command, outputs=POOL_OUTPUTS)
@click.argument("criteria", nargs=-1, required=True)
@click.option("--at", type=Moment(), metavar="T", help="Time at which amounts and jobs are evaluated. Default: now.")
@click.option(
    "--during", type=Window(), metavar="A..B", help="A window instead: units free throughout it, jobs at any time in it."
)
@click.option("--with-children", is_flag=True, help="Also everything below the pools found.")
@click.option("--with-ancestors", is_flag=True, help="Also the pools above, up to the root.")
@click.option("--hierarchy", metavar="NAME", help="Hierarchy for children and ancestors. Default: containment.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N lines (JSON: N pools).")
@click.pass_obj
def command(
    settings: Settings,
    criteria: tuple[str, ...],
    at: float | None,
    during: tuple[float, float] | None,
    with_children: bool,
    with_ancestors: bool,
    hierarchy: str | None,
    limit: int | None,
) -> None:
    """Search for pools by criteria.

    CRITERIA such as 'type=node and state=up and available>=8'; specs/criteria.md describes the language. Pools that look the same
    are folded into one line.
    """
    from fluxres.cli.stores import reading

    if at is not None and during is not None:
        raise UsageError("both --at and --during were given", hint="give one of them")
    if hierarchy is not None and not (with_children or with_ancestors):
        raise UsageError("a hierarchy was given without --with-children or --with-ancestors", hint="add one of them")
    graph = reading(settings)
    text = " ".join(criteria)
    met = found = graph.find(text, at, during)
    if with_ancestors:
        found |= met.with_ancestors(hierarchy)
    if with_children:
        found |= met.with_children(hierarchy)
    list_pools(settings, found, at, during, limit)
    if not met:
        note_unmet(graph, text)
