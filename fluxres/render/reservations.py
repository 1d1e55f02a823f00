"""Maintenance reservations as a table and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np

from fluxres.allocation.facts import Reservation
from fluxres.clock import seconds
from fluxres.model import ResourceGraph
from fluxres.render.folding import fold_all
from fluxres.render.text import PLAIN, Column, Style, table, when
from fluxres.syntax import duration


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
    every = seconds(one.windows[1][0] - one.windows[0][0]) if len(one.windows) > 1 else None
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
        }
        for name, one in found.items()
    ]
