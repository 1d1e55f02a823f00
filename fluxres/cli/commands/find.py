"""`fluxres find`: pools by criteria."""

from __future__ import annotations

import click

from fluxres.cli.arguments import Moment, Window
from fluxres.cli.listing import list_pools
from fluxres.cli.program import Command
from fluxres.cli.settings import POOL_OUTPUTS, Settings
from fluxres.errors import UsageError


@click.command("find", cls=Command, outputs=POOL_OUTPUTS)
@click.argument("criteria", nargs=-1, required=True)
@click.option("--at", type=Moment(), metavar="T", help="The moment that amounts and jobs are about. Default: now.")
@click.option(
    "--during", type=Window(), metavar="A..B", help="A window instead: units free throughout it, jobs at any time in it."
)
@click.option("--with-children", is_flag=True, help="Also everything below what is found.")
@click.option("--with-ancestors", is_flag=True, help="Also the pools above, up to the root.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many lines, or pools in JSON.")
@click.pass_obj
def command(
    settings: Settings,
    criteria: tuple[str, ...],
    at: float | None,
    during: tuple[float, float] | None,
    with_children: bool,
    with_ancestors: bool,
    limit: int | None,
) -> None:
    """Search for pools by criteria.

    CRITERIA such as 'type=node and state=up and available>=8'; specs/criteria.md describes the language. Pools that look
    the same share a line.
    """
    from fluxres.cli.stores import reading

    if at is not None and during is not None:
        raise UsageError("both --at and --during were given", hint="give one of them")
    graph = reading(settings)
    found = graph.find(" ".join(criteria), at, during)
    if with_ancestors and with_children:
        import numpy as np

        both = np.union1d(found.with_ancestors().vertices, found.with_children().vertices)
        found = graph.select(both.astype(np.int32))
    elif with_ancestors:
        found = found.with_ancestors()
    elif with_children:
        found = found.with_children()
    list_pools(settings, found, at, during, limit)
