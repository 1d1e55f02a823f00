"""Pools, records and problems as plain values: the shapes of ``--json`` (specs/cli.md).

Keys are always there and lists are never null, so that a script needs no special cases; no end is null.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fluxres.clock import FOREVER, seconds
from fluxres.model import Pool, Problem, ResourceGraph, Span
from fluxres.model.search import available_units
from fluxres.model.stage import Stage
from fluxres.render.amounts import seconds_or_none

Document = dict[str, Any]


def pool(p: Pool, at: float | None = None, during: tuple[float, float] | None = None) -> Document:
    """One pool: RFC 4's base data, its places, and what is held of it.

    Args:
        at, during: the moment or window that `available`, `allocated` and `jobs` are about; now by default.
    """
    graph, v = p.graph, p.vertex
    start, end = graph.window(at, None) if during is None else graph.open_window(*during)
    length = None if end >= FOREVER else seconds(end) - seconds(start)
    return {
        "path": p.where,
        "uris": p.uris,
        "uuid": p.uuid,
        "type": p.type,
        "basename": p.basename,
        "name": p.name,
        "id": p.id,
        "rank": p.rank,
        "size": p.size,
        "unit": p.unit,
        "state": p.state,
        "properties": dict(p.properties),
        "tags": dict(p.tags),
        "exclusive_only": p.exclusive_required,
        "available": p.available(seconds(start), length),
        "allocated": p.allocated(seconds(start)),
        "jobs": sorted({job for job, *_ in graph.records.spans(v, start, end)}),
        "shared": sorted(graph.records.shared_jobs(v, start, end)),
        "staged": p.staged,
    }


def spans(graph: ResourceGraph, vertices: Iterable[int], start: int, end: int, job: str | None = None) -> list[Document]:
    """Records that touch the window (ticks), by job, begin and pool."""
    found = [
        (holder, begin, v, stop, amount)
        for v in vertices
        for holder, begin, stop, amount in graph.records.spans(v, start, end)
        if job is None or holder == job
    ]
    return [
        {
            "job": holder,
            "path": graph.structure.accounts.where(v),
            "amount": amount,
            "start": seconds(begin),
            "end": seconds_or_none(seconds(stop)),
        }
        for holder, begin, v, stop, amount in sorted(found)
    ]


def span(s: Span) -> Document:
    """One record."""
    return {"job": s.job, "path": s.pool, "amount": s.amount, "start": s.start, "end": seconds_or_none(s.end)}


def totals(graph: ResourceGraph, where: str = "/", at: float | None = None, duration_s: float | None = None) -> list[Document]:
    """By type: how many pools, how many units, and how many of the units are available; `unit` is null where pools differ.

    The root stands for the whole graph, pools outside the has-a tree included.
    """
    structure, top = graph.structure, graph.vertex(where)
    lo, hi = (0, structure.n) if top == 0 else (top, structure.end.item(top))
    start, end = graph.window(at, duration_s)
    free = np.zeros(len(structure.types), np.int64)
    np.add.at(free, structure.type[lo:hi], available_units(graph, start, end)[lo:hi])
    pools = np.bincount(structure.type[lo:hi], minlength=len(structure.types))
    units = np.zeros(len(structure.types), np.int64)
    np.add.at(units, structure.type[lo:hi], structure.size[lo:hi])
    measured: dict[str, set[str | None]] = {}
    for number in np.unique(structure.kind[lo:hi]).tolist():
        kind = structure.kinds[number]
        measured.setdefault(kind.type, set()).add(kind.unit)
    return [
        {
            "type": name,
            "pools": int(pools[t]),
            "units": int(units[t]),
            "unit": next(iter(measured[name])) if len(measured[name]) == 1 else None,
            "available": int(free[t]),
        }
        for t, name in enumerate(structure.types)
        if pools[t]
    ]


def stage(s: Stage) -> Document:
    """A stage that is active."""
    staged = s.graph.records.require_stage(s.stage)
    where = s.graph.structure.where
    return {
        "stage": staged.stage,
        "job": staged.job,
        "pools": [{"path": where(v), "amount": amount} for v, amount in staged.targets],
        "start": seconds(staged.start),
        "end": seconds_or_none(seconds(staged.end)),
        "expires": seconds_or_none(seconds(staged.expires)),
    }


def problem(p: Problem) -> Document:
    """A finding of an audit."""
    return {"severity": p.severity, "where": p.where, "message": p.message}
