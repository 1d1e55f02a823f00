"""Command line arguments that name pools, times and tags.

`/demo/rack[0-1]/node[0-3]=1` names eight pools and one unit of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import clock, limits
from fluxres.cli.settings import Settings
from fluxres.documents.document import excerpt
from fluxres.errors import FluxresError, UsageError
from fluxres.render.text import when
from fluxres.syntax import moment

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph, Selection


_AMOUNT = re.compile(r"(?P<where>.*)=(?P<amount>[0-9]+)", re.DOTALL | re.ASCII)

_WITH_UNIT = re.compile(r"[0-9][0-9.]*\s*[A-Za-z][A-Za-z/]*", re.ASCII)


class Moment(click.ParamType[float]):
    """A point in time, in seconds of wall clock time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of `now`, `+30m`, `3600`, `2026-12-01T08:00` or `-`."""
        return value if isinstance(value, float) else moment.parse(value, clock.system())


class Window(click.ParamType[tuple[float, float]]):
    """A window `A..B`, as seconds."""

    name = "window"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Start and end in seconds."""
        return value if isinstance(value, tuple) else moment.parse_window(value, clock.system())


def vertices(graph: ResourceGraph, words: Iterable[str]) -> list[int]:
    """Vertex numbers of the pools that these paths name, in the order named.

    Errors: UnknownPool, InputError.
    """
    from fluxres.model.targets import vertices_named

    return [v for word in words for v in vertices_named(graph.structure, word)]


def targets(graph: ResourceGraph, words: Sequence[str], criteria: str | None = None) -> list[tuple[int, int | None]]:
    """Vertices with amounts of `PATH[=N] …`, or all that meet the criteria; None for a missing amount.

    Errors: UsageError if both or neither are given, or nothing was found.
    """
    from fluxres.model.targets import accounts_named

    if criteria is not None:
        return [(v, None) for v in found(graph, words, criteria).vertices.tolist()]
    if not words:
        raise UsageError(
            "neither pools nor a request were given",
            hint="name pools by path, such as /demo/rack0/node[0-3]=1, or give a request, such as slot=4/core=2",
        )
    named: list[tuple[int, int | None]] = []
    for word in words:
        where, amount = _amount(graph, word)
        named += [(v, amount) for v in accounts_named(graph.structure, where)]
    return named


def _amount(graph: ResourceGraph, word: str) -> tuple[str, int | None]:
    match = _AMOUNT.fullmatch(word)
    if match is None or not match["where"]:
        _refuse_unit(graph, word)
        return word, None
    if len(match["amount"]) > 20:
        raise UsageError(f"amount: expected at most {limits.SIZE_MAX} units", where=match["where"])
    return match["where"], int(match["amount"])


def _refuse_unit(graph: ResourceGraph, word: str) -> None:
    """Refuse an amount with a unit (`/demo/memory=10GiB`) for an existing pool. Errors: UsageError."""
    where, equals, amount = word.rpartition("=")
    if not equals or _WITH_UNIT.fullmatch(amount) is None:
        return
    try:
        v = vertices(graph, [where])[0]
    except FluxresError:
        return
    unit = graph.structure.kind_of(v).unit
    counted = f"the pool is counted in {unit}: give a number without a unit" if unit else "give a number without a unit"
    raise UsageError(f"amount: expected a number of units, got {excerpt(amount)}", where=where, hint=counted)


def chosen(graph: ResourceGraph, words: Sequence[str], criteria: str | None) -> list[int]:
    """Vertices of `PATH …`, or all that meet the criteria.

    Errors: as :func:`targets`.
    """
    if criteria is not None:
        selected: list[int] = found(graph, words, criteria).vertices.tolist()
        return selected
    if not words:
        raise UsageError("no pools named", hint="name pools by path, such as /demo/rack0/node[0-3], or --find CRITERIA")
    return vertices(graph, words)


def found(graph: ResourceGraph, words: Sequence[str], criteria: str) -> Selection:
    """Pools that meet the criteria; finding none is an error, because nothing would change."""
    if words:
        raise UsageError("both paths and --find were given", hint="give one of them")
    selection = graph.find(criteria)
    if not selection:
        from fluxres.model.search import unmet
        from fluxres.syntax.criteria import parse

        hint = "; ".join(unmet(graph, parse(criteria))) or "'fluxres find' lists the pools that meet criteria"
        raise UsageError("no pool meets the criteria", where=criteria, hint=hint)
    return selection


def check_window(start: float | None, end: float | None) -> None:
    """Refuse a window that never begins, or ends before it begins, with the times as typed.

    Errors: UsageError.

    >>> check_window(60.0, 30.0)
    Traceback (most recent call last):
    fluxres.errors.UsageError: the window ends at 30, which is not after its start at 60 (give a later end, or a duration)
    """
    begin = clock.system() if start is None else start
    if begin == inf:
        raise UsageError("the window never begins", hint="give a finite start: now, +30m, seconds or a date")
    if end is not None and not begin < end:
        raise UsageError(
            f"the window ends at {when(end)}, which is not after its start at {when(begin)}",
            hint="give a later end, or a duration",
        )


def tag(text: str) -> tuple[str, str | None]:
    """Key and value of `K[=V]`.

    >>> tag("until=May"), tag("reserved")
    (('until', 'May'), ('reserved', None))
    """
    key, equals, value = text.partition("=")
    return key, value if equals else None


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
