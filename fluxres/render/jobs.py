"""Jobs: whose they are, when they run, where, and what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from fluxres.arrays import Int32
from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import listed, plural
from fluxres.model import ResourceGraph
from fluxres.model.holdings import Holding, is_held_by, nodes_held, of, overlapping
from fluxres.model.node_states import nodes_of
from fluxres.render.folding import hosts
from fluxres.render.text import PLAIN, Column, Style, seconds_or_none, table, units, when
from fluxres.syntax import duration

RUNNING: Final = "running"
PLANNED: Final = "planned"
MAINTENANCE: Final = "maint"
_TYPES_MAX = 4


@dataclass
class JobView:
    """A job with what is derived from its records.

    Args:
        graph: of the job.
        holding: its records.
        nodes: all nodes of the graph, ascending.
        now: in ticks.
    """

    graph: ResourceGraph
    holding: Holding
    nodes: Int32
    now: int

    @property
    def state(self) -> str:
        if self.holding.is_maintenance:
            return MAINTENANCE
        return RUNNING if bool((self.holding.starts <= self.now).any()) else PLANNED

    @property
    def left_s(self) -> float | None:
        """Seconds until it ends, infinity for no end; None before it begins."""
        if self.holding.start > self.now:
            return None
        return seconds(FOREVER) if self.holding.end >= FOREVER else seconds(self.holding.end - self.now)

    @cached_property
    def on(self) -> Int32:
        """The nodes on which it holds something."""
        structure = self.graph.structure
        return self.nodes[nodes_held(self.holding.vertices, structure, self.nodes, structure.end[self.nodes])]

    @property
    def hosts(self) -> str:
        return hosts(self.graph.structure, self.on, self.nodes) if len(self.on) else ""

    @cached_property
    def holds(self) -> dict[tuple[str, str | None], int]:
        """Units by type and unit of the pools that it has records of; the most at a time of each pool."""
        accounts = self.graph.structure.accounts
        one, most = self.holding, Counter[int]()
        for v, amount in zip(one.vertices.tolist(), one.amounts.tolist(), strict=True):
            most[v] = max(most[v], amount)
        found = Counter[tuple[str, str | None]]()
        kinds, types = self.graph.structure.kinds, self.graph.structure.kind
        for v, amount in most.items():
            if not accounts.is_edge(v):
                kind = kinds[types.item(v)]
                found[kind.type, kind.unit] += amount
        return dict(found)

    def in_words(self) -> str:
        """What it holds, in a few words."""
        structure, held = self.graph.structure, self.holding.vertices[self.holding.vertices < self.graph.structure.n]
        divided = {structure.kinds[kind].type for kind in np.unique(structure.kind[held[structure.size[held] > 1]]).tolist()}

        def said(name: str, unit: str | None, amount: int) -> str:
            if unit:
                return f"{units(amount, unit)} {name}"
            return f"{plural(amount, 'unit')} of {name}" if name in divided else plural(amount, name)

        words = [said(name, unit, amount) for (name, unit), amount in self.holds.items()]
        return ", ".join(words[:_TYPES_MAX]) + (", …" if len(words) > _TYPES_MAX else "")

    def document(self) -> dict[str, Any]:
        """The job as plain values."""
        one, facts = self.holding, self.holding.facts
        left = self.left_s
        structure = self.graph.structure
        return {
            "job": one.job,
            "user": facts.user,
            "name": facts.name,
            "state": self.state,
            "submitted": None if facts.submitted is None else seconds(facts.submitted),
            "start": seconds(one.start),
            "end": seconds_or_none(seconds(one.end)),
            "time_left": None if left is None else seconds_or_none(left),
            "nodes": [structure.name(v) for v in self.on.tolist()],
            "holds": {name if unit is None else f"{name}[{unit}]": amount for (name, unit), amount in self.holds.items()},
        }


def views(
    graph: ResourceGraph,
    window: tuple[int, int],
    *,
    job: str | None = None,
    on: Sequence[int] = (),
    user: str | None = None,
    state: str | None = None,
) -> list[JobView]:
    """Jobs that hold something in a window, running ones first.

    Args:
        window: in ticks.
        on: only those that hold something of these pools, below one of them, or all of a pool above one.
        state: running or planned.

    Errors: UnknownJob.
    """
    if job is not None:
        graph.records.require_job(job)
    nodes, now, found = nodes_of(graph.structure), window[0], []
    own = np.array(sorted(on), np.int64)
    for one in of(graph, *window):
        view = JobView(graph, one, nodes, now)
        wanted = not one.is_maintenance if job is None else one.job == job
        wanted = wanted and user in (None, one.facts.user) and state in (None, view.state)
        if wanted and (not len(own) or is_held_by(graph.structure, own, one)):
            found.append(view)
    return sorted(found, key=lambda view: (view.state != RUNNING, view.holding.start if view.state != RUNNING else 0))


def lines(found: Sequence[JobView], *, style: Style = PLAIN) -> list[str]:
    columns = [
        Column("JOB", role=lambda _text: "job"),
        Column("USER"),
        Column("NAME", drop=1),
        Column("STATE", role=lambda text: "faint" if text == PLANNED else None),
        Column("START", drop=3),
        Column("LEFT", right=True),
        Column("NODES", right=True, drop=2),
        Column("HOSTS"),
        Column("HOLDS"),
    ]
    return table(columns, [_row(view) for view in found], style=style)


def _row(view: JobView) -> list[str]:
    one, left = view.holding, view.left_s
    return [
        one.job,
        one.facts.user or "",
        one.facts.name or "",
        view.state,
        when(seconds(one.start)),
        "" if left is None else duration.readable(left),
        str(len(view.on)),
        view.hosts,
        view.in_words(),
    ]


@dataclass(frozen=True, slots=True)
class Wait:
    """A job that has not begun, and what its start waits for.

    Args:
        view: the job.
        blockers: the jobs that hold something of its pools until its start; none if it waits for its time only.
    """

    view: JobView
    blockers: tuple[str, ...]

    def reason(self) -> str:
        return listed(self.blockers, 3) if self.blockers else "its start time"


def waits(graph: ResourceGraph, planned: Iterable[JobView], now: int) -> list[Wait]:
    """What the start of planned jobs waits for.

    Cost: for each of them, the records of all jobs.
    """
    every = of(graph, now)
    if not every:
        return []
    owner = np.concatenate([np.full(len(one.vertices), i) for i, one in enumerate(every)])
    vertices = np.concatenate([one.vertices for one in every])
    ends = np.concatenate([one.ends for one in every])
    found = []
    for view in planned:
        mine, start = view.holding, view.holding.start
        last = (ends == start) & overlapping(graph.structure, np.unique(mine.vertices), vertices)
        names = [every[i].job for i in np.unique(owner[last]).tolist() if every[i].job != mine.job]
        found.append(Wait(view, tuple(map(graph.records.said, names))))
    return found


def pending(found: Sequence[Wait], *, style: Style = PLAIN) -> list[str]:
    """Planned jobs as a table."""
    columns = [
        Column("JOB", role=lambda _text: "job"),
        Column("USER"),
        Column("NAME", drop=1),
        Column("START"),
        Column("IN", right=True),
        Column("NODES", right=True, drop=2),
        Column("HOSTS"),
        Column("WAITS FOR"),
    ]
    rows = [
        [
            wait.view.holding.job,
            wait.view.holding.facts.user or "",
            wait.view.holding.facts.name or "",
            when(seconds(wait.view.holding.start)),
            duration.readable(seconds(wait.view.holding.start - wait.view.now)),
            str(len(wait.view.on)),
            wait.view.hosts,
            wait.reason(),
        ]
        for wait in found
    ]
    return table(columns, rows, style=style)


def details(view: JobView, waits_for: str, command: str, *, style: Style = PLAIN) -> list[str]:
    """Everything about one job, a fact in each line.

    Args:
        command: the command that allocated it; empty if unknown.
    """
    one, facts, left = view.holding, view.holding.facts, view.left_s
    rows = [
        ["job", one.job],
        ["user", facts.user or ""],
        ["name", facts.name or ""],
        ["state", view.state],
        ["waits for", waits_for],
        ["submitted", "" if facts.submitted is None else when(seconds(facts.submitted))],
        ["start", when(seconds(one.start))],
        ["end", "none" if one.end >= FOREVER else when(seconds(one.end))],
        ["time left", "" if left is None or one.end >= FOREVER else duration.readable(left)],
        ["nodes", f"{len(view.on)}: {view.hosts}" if len(view.on) else ""],
        ["holds", view.in_words()],
        ["command", command],
    ]
    columns = [Column("fact", role=lambda _text: "heading"), Column("value")]
    return table(columns, [row for row in rows if row[1]], header=False, style=style)
