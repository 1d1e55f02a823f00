"""What a shell offers after a word: pools by path, jobs, graphs, as the store has them.

Completion is a courtesy: whatever goes wrong, it offers nothing and says nothing.
"""

from __future__ import annotations

from typing import Final

import click

from fluxres.cli.settings import Settings
from fluxres.errors import FluxresError

_OFFERED_MAX: Final = 500


def complete_pool(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Paths that begin so: the children of the pool before the last slash."""
    from fluxres.cli.stores import reading

    above, slash, _ = incomplete.rpartition("/")
    try:
        graph = reading(ctx.ensure_object(Settings))
        if not above:
            return [path for path in [f"/{graph.structure.hierarchy}"] if path.startswith(incomplete)]
        structure = graph.structure
        children = structure.children(graph.vertex(above + ("/" if above.endswith(":") else "")))
        paths = (above + slash + structure.name(v) for v in children.tolist())
        return [path for path, _ in zip((p for p in paths if p.startswith(incomplete)), range(_OFFERED_MAX), strict=False)]
    except (FluxresError, OSError):
        return []


def complete_job(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Jobs that hold something."""
    from fluxres.cli.stores import reading

    try:
        return [job for job in reading(ctx.ensure_object(Settings)).jobs() if job.startswith(incomplete)][:_OFFERED_MAX]
    except (FluxresError, OSError):
        return []


def complete_graph(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Graphs of the store."""
    from fluxres.cli.stores import store

    try:
        return [name for name in store(ctx.ensure_object(Settings)).names() if name.startswith(incomplete)]
    except (FluxresError, OSError):
        return []


def complete_policy(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Match policies."""
    from fluxres.match.policy import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]
