"""Shell completion of pools by path, of jobs and of graphs, from the store.

Completion is a convenience: on any error it offers nothing and prints nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from fluxres.cli.settings import Settings
from fluxres.errors import FluxresError

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

_OFFERED_MAX: Final = 500


def complete_pool(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Paths and URIs with this prefix: the children of the pool before the last slash."""
    from fluxres.cli.stores import reading

    above, slash, _ = incomplete.rpartition("/")
    try:
        graph = reading(ctx.ensure_object(Settings))
        structure = graph.structure
        if not above:
            tops = [f"/{structure.hierarchy}", *(f"{name}:/" for name in structure.subsystems)]
            return [path for path in tops if path.startswith(incomplete)]
        paths = (above + slash + structure.name(v) for v in _below(graph, above))
        return [path for path, _ in zip((p for p in paths if p.startswith(incomplete)), range(_OFFERED_MAX), strict=False)]
    except (FluxresError, OSError):
        return []


def _below(graph: ResourceGraph, above: str) -> list[int]:
    """The children of a path or URI, or the roots of ``power:``."""
    from fluxres.model import targets

    structure, name = graph.structure, above.removesuffix(":")
    if name != above and name in structure.subsystems and not structure.subsystems[name].hierarchy:
        return structure.lookup.outside(name)
    place = targets.place(graph, above + "/" * (name != above))
    if place.above_roots:
        return place.vertices
    forest = structure.forest() if place.subsystem is not None else place.require_forest()
    found: list[int] = forest.children(place.vertices[0]).tolist()
    return found


def complete_job(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Jobs that hold resources."""
    from fluxres.cli.stores import reading

    try:
        return [job for job in reading(ctx.ensure_object(Settings)).jobs() if job.startswith(incomplete)][:_OFFERED_MAX]
    except (FluxresError, OSError):
        return []


def complete_graph(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from fluxres.cli.stores import store

    try:
        return [name for name in store(ctx.ensure_object(Settings)).names() if name.startswith(incomplete)]
    except (FluxresError, OSError):
        return []


def complete_policy(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from fluxres.match.policy import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]
