"""Which jobs hold what over time: rows of nodes that are alike, or of jobs, as columns of segments and as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np

from fluxres.arrays import Int32, Int64
from fluxres.clock import seconds
from fluxres.model import ResourceGraph, holdings
from fluxres.model.holdings import Holding
from fluxres.model.node_states import NODE_STATES, nodes_of
from fluxres.render.folding import hosts
from fluxres.render.text import PLAIN, Style, cut, pad, printable, seconds_or_none, width
from fluxres.syntax.moment import EPOCH_FROM_S

RUNNING, PLANNED, MAINTENANCE, OUT = "running", "planned", "maint", "out"
_FILL: Final = {RUNNING: "━", PLANNED: "┅", MAINTENANCE: "▒", OUT: "x"}
_WORDS: Final = {RUNNING: "running", PLANNED: "planned", MAINTENANCE: "maintenance", OUT: "drained or down"}
_ROLES: Final = {RUNNING: "job", PLANNED: "faint", MAINTENANCE: "warn", OUT: "bad"}
_FREE: Final = "·"
_LABEL_MAX: Final = 24
_TICK_COLUMNS: Final = 12
_DAY_S: Final = 86_400
_STEPS_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)


@dataclass(frozen=True, slots=True)
class Segment:
    """What happens in a row for some time.

    Args:
        jobs: the jobs, the reservation, or the state of nodes that take no work.
        kind: running, planned, maint or out.
        start, end: in seconds, within the window.
    """

    jobs: tuple[str, ...]
    kind: str
    start: float
    end: float

    def label(self, columns: int, style: Style = PLAIN) -> str:
        """The jobs in at most that many columns."""
        text = style.encoded("+".join(map(printable, self.jobs)))
        if width(text) > columns and len(self.jobs) > 1:
            text = f"{len(self.jobs)} jobs"
        while width(text) > columns:
            text = text[:-1]
        return text


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a timeline.

    Args:
        label: hosts, folded, or a job.
        nodes: the number of nodes.
        segments: by start; they do not overlap.
    """

    label: str
    nodes: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows over a window.

    Args:
        start, end, now: in seconds.
        rows: in the order of the nodes, or of the starts of jobs.
        user_of: by job, where known.
    """

    start: float
    end: float
    now: float
    rows: tuple[Row, ...]
    user_of: dict[str, str]

    def documents(self) -> list[dict[str, Any]]:
        """Each segment as plain values."""
        return [
            {
                "row": row.label,
                "nodes": row.nodes,
                "kind": segment.kind,
                "jobs": list(segment.jobs),
                "users": sorted({self.user_of[job] for job in segment.jobs if job in self.user_of}),
                "start": segment.start,
                "end": seconds_or_none(segment.end),
            }
            for row in self.rows
            for segment in row.segments
        ]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One window of a holding, or a state that lasts, and the positions of its nodes."""

    job: str
    kind: str
    start: int
    end: int
    nodes: Int64


def of(graph: ResourceGraph, window: tuple[int, int], *, pools: Sequence[int] = (), by_job: bool = False) -> Timeline:
    """The timeline of a graph.

    Args:
        window: in ticks.
        pools: only nodes below, at or around these pools; all by default.
        by_job: a row for each job instead of rows of nodes that are alike.

    Cost: the records, and some vector scans over the nodes for each job.
    """
    structure, now = graph.structure, graph.now()
    nodes = nodes_of(structure)
    if len(pools):
        nodes = nodes[holdings.overlapping(structure, np.array(sorted(pools), np.int64), nodes.astype(np.int64))]
    every = holdings.of(graph, *window)
    entries = [entry for one in every for entry in _entries(one, structure.end[nodes], graph, nodes, window, now)]
    user_of = {one.job: one.facts.user for one in every if one.facts.user is not None}
    if not by_job:
        entries += _out(graph, nodes, window, now)
    rows = _by_job(graph, nodes, entries) if by_job else _by_node(graph, nodes, entries)
    return Timeline(seconds(window[0]), seconds(window[1]), seconds(now), tuple(rows), user_of)


def _entries(
    one: Holding, stop: Int32, graph: ResourceGraph, nodes: Int32, window: tuple[int, int], now: int
) -> Iterable[_Entry]:
    windows, which = np.unique(np.stack([one.starts, one.ends]), axis=1, return_inverse=True)
    for number, (start, end) in enumerate(windows.T.tolist()):
        on = np.flatnonzero(holdings.nodes_held(one.vertices[which.ravel() == number], graph.structure, nodes, stop))
        if len(on):
            kind = MAINTENANCE if one.is_maintenance else RUNNING if start <= now else PLANNED
            yield _Entry(one.job, kind, max(start, window[0]), min(end, window[1]), on)


def _out(graph: ResourceGraph, nodes: Int32, window: tuple[int, int], now: int) -> Iterable[_Entry]:
    """Nodes that take no work, from now on."""
    states = graph.node_states()
    start = max(now, window[0])
    shown = np.isin(states.vertices, nodes)
    for state in ("drained", "draining", "down") if start < window[1] else ():
        of_state = states.vertices[shown & (states.codes == NODE_STATES.index(state))]
        if len(of_state):
            yield _Entry("drained" if state == "draining" else state, OUT, start, window[1], nodes.searchsorted(of_state))


def _by_job(graph: ResourceGraph, nodes: Int32, entries: Sequence[_Entry]) -> list[Row]:
    of_job: dict[str, list[_Entry]] = {}
    for entry in entries:
        of_job.setdefault(entry.job, []).append(entry)
    rows = []
    for job, parts in of_job.items():
        on = np.unique(np.concatenate([part.nodes for part in parts]))
        rows.append(Row(job, len(on), _segments(parts)))
    return sorted(rows, key=lambda row: (row.segments[0].start, row.label))


def _by_node(graph: ResourceGraph, nodes: Int32, entries: Sequence[_Entry]) -> list[Row]:
    """A row for each set of nodes with the same entries, in the order of their first nodes."""
    looks = np.zeros(len(nodes), np.uint64)
    numbers = np.random.default_rng(0).integers(1, 2**64, len(entries), np.uint64)
    for entry, number in zip(entries, numbers, strict=True):
        looks[entry.nodes] ^= number
    _, first, group = np.unique(looks, return_index=True, return_inverse=True)
    place = np.full(len(nodes), -1, np.int64)
    place[first] = np.arange(len(first))
    found: list[list[_Entry]] = [[] for _ in first]
    for entry in entries:
        for number in place[entry.nodes][place[entry.nodes] >= 0].tolist():
            found[number].append(entry)
    order = np.argsort(group, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(group))[:-1])
    rows = []
    for number in np.argsort(first).tolist():
        on = np.sort(members[number])
        rows.append(Row(hosts(graph.structure, nodes[on], nodes), len(on), _segments(found[number])))
    return rows


def _segments(entries: Sequence[_Entry]) -> tuple[Segment, ...]:
    """Segments between the moments at which something begins or ends; of a state that lasts, where nothing is held."""
    moments = sorted({moment for entry in entries for moment in (entry.start, entry.end)})
    found: list[tuple[tuple[str, ...], str, int, int]] = []
    starting = sorted(entries, key=lambda entry: entry.start)
    active: list[_Entry] = []
    at = 0
    for start, end in pairwise(moments):
        active = [entry for entry in active if entry.end > start]
        while at < len(starting) and starting[at].start <= start:
            active.append(starting[at])
            at += 1
        if not active:
            continue
        held = [entry for entry in active if entry.kind != OUT] or active
        jobs = tuple(sorted({entry.job for entry in held}))
        kinds = {entry.kind for entry in held}
        kind = next(one for one in (MAINTENANCE, RUNNING, PLANNED, OUT) if one in kinds)
        if found and found[-1][:2] == (jobs, kind) and found[-1][3] == start:
            found[-1] = (jobs, kind, found[-1][2], end)
        else:
            found.append((jobs, kind, start, end))
    return tuple(Segment(jobs, kind, seconds(start), seconds(end)) for jobs, kind, start, end in found)


# -- the axis ------------------------------------------------------------------------------------------------------------


def ticks(start: float, end: float, most: int) -> list[tuple[float, str]]:
    """Round moments on the axis, at most that many, with their labels: the time of day, the date at midnight.

    >>> ticks(0, 100, 5)
    [(0, '0'), (30, '30'), (60, '60'), (90, '90')]
    """
    step = next((step for step in _STEPS_S if (end - start) / step < most), None)
    if start <= EPOCH_FROM_S:
        step = step if step is not None else 10 ** math.ceil(math.log10((end - start) / most))
        first = math.ceil(start / step) * step
        return [(moment, f"{moment:g}") for moment in range(first, math.ceil(end), step)]
    return _calendar(start, end, step, most)


def _calendar(start: float, end: float, step: int | None, most: int) -> list[tuple[float, str]]:
    begin = datetime.fromtimestamp(start)
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    days = max(1, math.ceil((end - start) / _DAY_S / most)) if step is None else 0
    found: list[tuple[float, str]] = []
    number = 0 if step is None else int((begin - midnight).total_seconds() // step)
    while True:
        moment = midnight + (timedelta(days=number * days) if step is None else timedelta(seconds=number * step))
        number += 1
        at = moment.timestamp()
        if at >= end:
            return found
        if at >= start:
            is_day = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
            text = f"{moment:%b} {moment.day}" if is_day else f"{moment:%H:%M:%S}" if step and step < 60 else f"{moment:%H:%M}"
            found.append((at, text))


# -- text ----------------------------------------------------------------------------------------------------------------


def draw(timeline: Timeline, columns: int, *, heading: str = "HOSTS", style: Style = PLAIN) -> list[str]:
    """The timeline as text.

    Args:
        columns: width of the lines.
        heading: of the labels.
    """
    labels = [cut(style.encoded(printable(row.label)), _LABEL_MAX, style.encoded("…")) for row in timeline.rows]
    room = max([width(heading), *map(width, labels)])
    chart = max(columns - room - 2, 10)
    lines = _axis(timeline, heading, room, chart, style) if style.header else []
    kinds: set[str] = set()
    for row, label in zip(timeline.rows, labels, strict=True):
        lines.append(f"{pad(label, room)}  {_bar(timeline, row.segments, chart, style)}")
        kinds |= {segment.kind for segment in row.segments}
    return [*lines, "", *_legend(kinds, columns)] if style.header else lines


def _legend(kinds: set[str], columns: int) -> list[str]:
    found = [""]
    for text in [*(f"{_FILL[kind] * 2} {_WORDS[kind]}" for kind in _FILL if kind in kinds), f"{_FREE * 2} free"]:
        if found[-1] and len(found[-1]) + 2 + len(text) > columns:
            found.append("")
        found[-1] += ("  " if found[-1] else "") + text
    return found


def _axis(timeline: Timeline, heading: str, room: int, chart: int, style: Style) -> list[str]:
    marks, ruler = [" "] * chart, ["─"] * chart
    if timeline.start <= timeline.now < timeline.end:
        at = _column(timeline, timeline.now, chart)
        ruler[at] = "▼"
        marks[at : min(at + 3, chart)] = "now"[: chart - at]
    for moment, text in ticks(timeline.start, timeline.end, max(chart // _TICK_COLUMNS, 2)):
        at = _column(timeline, moment, chart)
        if at + len(text) <= chart and all(letter == " " for letter in marks[max(at - 1, 0) : at + len(text) + 1]):
            marks[at : at + len(text)] = text
            ruler[at] = "┬"
    head = style.paint(pad(heading, room), "heading")
    return [f"{head}  {''.join(marks)}".rstrip(), f"{' ' * room}  {''.join(ruler)}"]


def _column(timeline: Timeline, moment: float, chart: int) -> int:
    share = (moment - timeline.start) / (timeline.end - timeline.start)
    return min(max(int(share * chart), 0), chart - 1)


def _bar(timeline: Timeline, segments: Sequence[Segment], chart: int, style: Style) -> str:
    """One row: each segment begins with a bar and the names in it; of several in one column, only the first is seen."""
    parts, at = [], 0
    for segment in segments:
        begin, end = (
            round((moment - timeline.start) / (timeline.end - timeline.start) * chart) for moment in (segment.start, segment.end)
        )
        first = max(begin, at)
        last = min(max(end, begin + (segment.kind != OUT)), chart)
        if first >= last:
            continue
        parts.append(_FREE * (first - at))
        inside = segment.label(last - first - 1, style)
        text = "│" + inside + _FILL[segment.kind] * (last - first - 1 - width(inside))
        parts.append(style.paint(text, _ROLES[segment.kind]))
        at = last
    return "".join(parts) + _FREE * (chart - at)
