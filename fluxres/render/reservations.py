"""Maintenance reservations as a table and as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import Any, Final

import numpy as np

from fluxres.allocation.facts import Reservation
from fluxres.clock import seconds
from fluxres.model import ResourceGraph
from fluxres.render.folding import fold_all
from fluxres.render.text import PLAIN, Column, Style, table, when
from fluxres.syntax import duration, moment

_CALENDAR_END_S: Final = 253_370_764_800.0
"""The last year of the calendar."""


def free_name(graph: ResourceGraph) -> str:
    """A name that no reservation and no job has: maint1, maint2, …"""
    taken = graph.records.reservations.keys() | set(graph.records.jobs())
    return next(name for number in count(1) if (name := f"maint{number}") not in taken)


def lines(graph: ResourceGraph, found: Mapping[str, Reservation], *, style: Style = PLAIN) -> list[str]:
    """Reservations as a table, with the window that lasts now or comes next."""
    columns = [
        Column("RESERVATION", role=lambda _text: "job"),
        Column("PATH"),
        Column("START"),
        Column("END"),
        Column("EVERY"),
        Column("LEFT", right=True, drop=1),
        Column("JOBS", drop=2),
        Column("BY", drop=3),
    ]
    return table(columns, [_row(graph, name, one) for name, one in found.items()], style=style)


def _row(graph: ResourceGraph, name: str, one: Reservation) -> list[str]:
    now, facts = graph.now(), graph.records.facts.get(name)
    coming = [window for window in one.windows if window[1] > now] or list(one.windows[-1:])
    start, end = coming[0]
    every = _every(one)
    return [
        name,
        fold_all(graph.structure, np.array(one.pools, np.int32).tolist()),
        when(seconds(start)),
        when(seconds(end)),
        "" if every is None else duration.readable(every),
        "" if every is None else str(len(coming)),
        "ignored" if one.ignores_jobs else "",
        (facts.user if facts is not None else None) or "",
    ]


def _every(one: Reservation) -> float | None:
    """Seconds from a window to the next, None if there is one. Whole days are those of the local calendar, as in the windows."""
    begins = [seconds(begin) for begin, _ in one.windows]
    if len(begins) < 2:
        return None
    if begins[0] > moment.EPOCH_FROM_S and begins[-1] < _CALENDAR_END_S:
        local = [datetime.fromtimestamp(begin) for begin in begins]
        ((usual, _),) = Counter(after - before for before, after in pairwise(local)).most_common(1)
        if not usual % timedelta(days=1):
            return usual.total_seconds()
    return begins[1] - begins[0]


def documents(graph: ResourceGraph, found: Mapping[str, Reservation]) -> list[dict[str, Any]]:
    """Reservations as plain values."""
    facts = graph.records.facts
    return [
        {
            "name": name,
            "user": facts[name].user if name in facts else None,
            "pools": graph.structure.wheres(one.pools),
            "windows": [{"start": seconds(start), "end": seconds(end)} for start, end in one.windows],
            "ignores_jobs": one.ignores_jobs,
            "affected": graph.structure.wheres(one.out),
        }
        for name, one in found.items()
    ]
