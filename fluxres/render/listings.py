"""The tables of commands: pools and one pool, records, totals, instances, problems, and a graph in a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fluxres.allocation.planned import Staged
from fluxres.allocation.records import Records
from fluxres.arrays import Int32, Int64, UInt64
from fluxres.clock import FOREVER, seconds
from fluxres.documents.document import listed, plural
from fluxres.graph import state_notes
from fluxres.graph.forest import slice_of
from fluxres.graph.structure import Structure
from fluxres.match import Placement
from fluxres.model import Pool, Problem, ResourceGraph, Selection, Span
from fluxres.model.totals import available_units
from fluxres.render import documents
from fluxres.render.documents import Document
from fluxres.render.folding import Fold, fold, fold_edges, looks, mixed, of_text
from fluxres.render.text import PLAIN, Column, Style, state_role, table, units, when

if TYPE_CHECKING:
    from fluxres.instance import Instance

_KEPT_FOR_FILES: Final = "json:file:"
"""Begins the keys of properties in which formats of other systems keep lists and mappings of their own."""


def holders(graph: ResourceGraph, v: int, start: int) -> str:
    """The jobs with records on `v` that have not ended at `start` (ticks), and the stages on it.

    ``j1`` holds all of it, ``j1=4 GiB`` a part; a reservation also shows its start.
    """
    records, size, unit = graph.records, graph.structure.size.item(v), graph.structure.kind_of(v).unit
    spans = records.spans(v, start, FOREVER)
    if records.reservations:
        spans = _once(records, spans)
    notes = []
    for job, begin, _, amount in spans:
        part = "" if amount == size else f"={units(amount, unit)}"
        notes.append(f"{records.said(job)}{part}{f' from {when(seconds(begin))}' if begin > start else ''}")
    if records.stages and records.is_staged(v):
        notes += [f"{s.job} (staged {s.stage})" for s in records.stages.values() if any(u == v for u, _ in s.targets)]
    return ", ".join(notes)


def _once(records: Records, spans: Sequence[tuple[str, int, int, int]]) -> list[tuple[str, int, int, int]]:
    """The spans with only the first one of each maintenance, which may repeat for years."""
    seen: set[str] = set()
    found = []
    for span in spans:
        if span[0] not in seen:
            found.append(span)
        if span[0] in records.reservations:
            seen.add(span[0])
    return found


def notes(graph: ResourceGraph, start: int) -> Iterator[tuple[int, str]]:
    """(vertex, text) for every pool with a record or a tag, which makes pools of one kind look different."""
    for v in (v for v in graph.records.held if v < graph.structure.n):
        text = holders(graph, v, start)
        if text:
            yield v, text
    for v, tags in graph.structure.tags.items():
        yield v, pairs_text(tags.items())


def pairs_text(pairs: Iterable[tuple[str, object]]) -> str:
    """Tags or properties as on the command line.

    >>> pairs_text([("until", "May"), ("draining", None)])
    'draining until=May'
    """
    return " ".join(key if value is None else f"{key}={value}" for key, value in sorted(pairs, key=itemgetter(0)))


def properties_text(pairs: Iterable[tuple[str, object]]) -> str:
    """Properties as on the command line, without those that only keep what a format of another system needs.

    >>> properties_text([("ssd", None), ("json:file:managers", "{}")])
    'ssd'
    """
    return pairs_text(pair for pair in pairs if not pair[0].startswith(_KEPT_FOR_FILES))


def tags_text(structure: Structure, v: int) -> str:
    """The tags of a pool, without the note on its state."""
    return pairs_text(state_notes.without(structure.tags.get(v, {})).items())


def because(structure: Structure, v: int) -> str:
    """Why a pool takes no new work: the reason given for its state, or the pool whose state is the reason; empty if it does."""
    note = state_notes.of(structure, v)
    if note is not None and note.reason:
        return note.reason
    if not len(structure.unavailable_roots()):
        return ""
    others = [u for u in structure.unavailable_because(v) if u != v]
    return listed((_cause(structure, u) for u in others[:2]), total=len(others))


def _job(_text: str) -> str:
    return "job"


_HELD = [
    Column("JOB", role=_job),
    Column("PATH"),
    Column("POOLS", right=True, drop=1),
    Column("EACH", right=True),
    Column("START"),
    Column("END"),
]


def folds(selection: Selection, free: Int64 | None, start: int) -> list[Fold]:
    """Pools folded if the table and the tree would show the same for them."""
    graph, vertices = selection.graph, selection.vertices
    structure = graph.structure
    own = looks(structure, 0, structure.n, notes(graph, start))[vertices]
    if len(structure.unavailable_roots()):
        own = mixed(own, _causes(structure, vertices))
    return fold(structure, vertices, own if free is None else mixed(own, free[vertices]))


def _causes(structure: Structure, vertices: Int32) -> UInt64:
    """A number for each pool: equal where the same kind of pool takes it out of service for the same reason."""
    outage = structure.outage
    out = np.zeros(len(vertices), np.uint64)
    out[outage.is_cut_off(vertices)] = 1
    stated = outage.stated
    if len(stated):
        at = slice_of(stated, structure.end[stated], vertices)
        below = (at >= 0) & (stated[at] < vertices)
        said = np.array([of_text(_cause(structure, v)) for v in stated.tolist()], np.uint64)
        out[below] = said[at[below]]
    return out


def _cause(structure: Structure, v: int) -> str:
    """What keeps everything below a pool from new work."""
    note = state_notes.of(structure, v)
    reason = f": {note.reason}" if note is not None and note.reason else ""
    state = structure.state_name(v)
    return f"{structure.kind_of(v).type} {'drained' if state == 'drain' else state}{reason}"


def pools(selection: Selection, start: int, end: int, *, limit: int | None = None, style: Style = PLAIN) -> tuple[list[str], int]:
    """Pools as a table, with equal ones in one line, and the number of pools in the lines beyond `limit`."""
    graph, free = selection.graph, available_units(selection.graph, start, end)
    structure = graph.structure
    found = folds(selection, free, start)
    shown = found if limit is None else found[:limit]
    rows = [
        [
            item.text,
            str(item.count),
            structure.kind_of(item.vertex).type,
            units(structure.size.item(item.vertex), structure.kind_of(item.vertex).unit),
            units(int(free[item.vertex]), structure.kind_of(item.vertex).unit),
            structure.state_name(item.vertex),
            holders(graph, item.vertex, start) if item.vertex in graph.records.held else "",
            because(structure, item.vertex),
            tags_text(structure, item.vertex),
        ]
        for item in shown
    ]
    columns = [
        Column("PATH"),
        Column("POOLS", right=True, drop=2),
        Column("TYPE", drop=1),
        Column("SIZE", right=True),
        Column("FREE", right=True),
        Column("STATE", role=state_role),
        Column("HELD BY", role=_job),
        Column("REASON"),
        Column("TAGS"),
    ]
    return table(columns, rows, style=style), sum(item.count for item in found[len(shown) :])


def records(graph: ResourceGraph, held: Sequence[tuple[str, int, int, int, int]], *, style: Style = PLAIN) -> list[str]:
    """Records as a table; pools of which a job holds the same amount over the same time share a line.

    Args:
        held: (job, vertex, start, end, amount) in ticks.
    """
    return records_in(graph.structure, held, style=style)


def records_in(structure: Structure, held: Sequence[tuple[str, int, int, int, int]], *, style: Style = PLAIN) -> list[str]:
    """As `records`, for the vertices of a structure."""
    groups: dict[tuple[str, int, int, int], list[int]] = {}
    for job, v, start, end, amount in held:
        groups.setdefault((job, start, end, amount), []).append(v)
    rows = []
    for (job, start, end, amount), vertices in groups.items():
        for v, held_units in _alike(structure, vertices, amount):
            rows.append((job, start, v, [job, *held_units, when(seconds(start)), when(seconds(end))]))
    return table(_HELD, [row for *_, row in sorted(rows)], style=style)


def _alike(structure: Structure, vertices: Iterable[int], amount: int) -> list[tuple[int, list[str]]]:
    """Pools and edges of which the same amount is held: the first of each line, its path, number and units."""
    chosen = np.unique(np.array(list(vertices), np.int32))
    pools = chosen[chosen < structure.n]
    items = fold(structure, pools, mixed(structure.kind[pools]))
    if len(pools) < len(chosen):
        items += fold_edges(structure, chosen[len(pools) :])
    return [(item.vertex, [item.text, str(item.count), units(amount, structure.accounts.unit(item.vertex))]) for item in items]


def stages(graph: ResourceGraph, found: Sequence[Staged], *, style: Style = PLAIN) -> list[str]:
    """Stages as a table; pools of which a stage has the same amount share a line, and units of different pools are not added."""
    rows = []
    for staged in found:
        groups: dict[int, list[int]] = {}
        for v, amount in staged.targets:
            groups.setdefault(amount, []).append(v)
        lines = [line for amount, vertices in groups.items() for line in _alike(graph.structure, vertices, amount)]
        times = [when(seconds(tick)) for tick in (staged.start, staged.end, staged.expires)]
        rows += [[staged.stage, staged.job, *line, *times] for _, line in sorted(lines)]
    columns = [
        Column("STAGE"),
        *_HELD,
        Column("EXPIRES"),
    ]
    return table(columns, rows, style=style)


def matched(found: Placement, structure: Structure, *, style: Style = PLAIN) -> list[str]:
    """The pools of a match as a table; pools of which the same amount is taken share a line, and pools that are only shared have
    no units.
    """
    vertices, amounts = found.vertices, found.amounts
    if len(found.shared):
        vertices = np.concatenate([vertices, found.shared])
        amounts = np.concatenate([amounts, np.zeros(len(found.shared), np.int64)])
        order = np.argsort(vertices)
        vertices, amounts = vertices[order], amounts[order]
    amount_of = dict(zip(vertices.tolist(), amounts.tolist(), strict=True))
    split = int(vertices.searchsorted(structure.n))
    items = fold(structure, vertices[:split], mixed(structure.kind[vertices[:split]], amounts[:split]))
    for amount in np.unique(amounts[split:]).tolist():
        items += fold_edges(structure, vertices[split:][amounts[split:] == amount])
    rows = [
        [
            item.text,
            str(item.count),
            units(amount_of[item.vertex], structure.accounts.unit(item.vertex)) if amount_of[item.vertex] else "shared",
        ]
        for item in items
    ]
    columns = [Column("PATH"), Column("POOLS", right=True), Column("EACH", right=True)]
    return table(columns, rows, style=style)


def held_within(
    graph: ResourceGraph, start: int, end: int = FOREVER, job: str | None = None
) -> list[tuple[str, int, int, int, int]]:
    """(job, vertex, start, end, amount) of the records that touch a window, stages left out; ticks.

    Errors: UnknownJob.
    """
    records_of = graph.records
    jobs = records_of.jobs() if job is None else [job]
    return [
        (name, v, s, e, amount)
        for name in jobs
        for v in sorted(records_of.require_job(name))
        for s, e, amount in records_of.steps_of(v, name)
        if s < end and start < e
    ]


def totals(facts: Sequence[Document], *, free: bool = True, style: Style = PLAIN) -> list[str]:
    """Totals by type as a table; the number of units is shown only if it is not the number of pools."""
    rows = [
        [
            d["type"],
            str(d["pools"]),
            units(d["units"], d["unit"]) if d["units"] != d["pools"] or d["unit"] else "",
            units(d["available"], d["unit"]),
            str(d["mixed"] or ""),
        ]
        for d in facts
    ]
    columns = [Column("TYPE"), *(Column(title, right=True) for title in ("POOLS", "TOTAL", "FREE", "MIXED"))]
    return table(columns if free else columns[:3], rows if free else [row[:3] for row in rows], style=style)


def problems(found: Sequence[Problem], *, style: Style = PLAIN) -> list[str]:
    columns = [
        Column("SEVERITY", role=lambda text: "bad" if text == "error" else "warn"),
        Column("WHERE"),
        Column("MESSAGE"),
    ]
    return table(columns, [[p.severity, p.where, p.message] for p in found], style=style)


def pool(p: Pool, *, style: Style = PLAIN) -> list[str]:
    """One pool: its data and places, then its current and later holders; empty rows are left out."""
    facts = documents.pool(p)
    rows = [
        ["path", facts["path"]],
        *(["uri", uri] for uri in facts["uris"]),
        ["uuid", facts["uuid"]],
        ["type", facts["type"]],
        ["size", units(facts["size"], facts["unit"])],
        ["free", units(facts["available"], facts["unit"])],
        ["rank", "" if facts["rank"] is None else str(facts["rank"])],
        ["state", facts["state"]],
        ["reason", _noted(facts)],
        *(["takes no new work", f"{other['path']} is {other['state']}"] for other in facts["out_of_service_by"]),
        ["properties", properties_text(facts["properties"].items())],
        ["tags", pairs_text(facts["tags"].items())],
        ["exclusive", "for one job at a time" if facts["exclusive_only"] else ""],
        *(["held by", _span(p, span)] for span in p.allocations()),
        *(["reserved by", _span(p, span)] for span in p.reservations()),
        ["jobs below", ", ".join(facts["shared"])],
    ]
    columns = [Column("fact", role=lambda _text: "heading"), Column("value")]
    return table(columns, [row for row in rows if row[1]], header=False, style=style)


def _noted(facts: Document) -> str:
    by = f"by {facts['state_user']}" if facts["state_user"] else ""
    since = "" if facts["state_since"] is None else f"since {when(facts['state_since'])}"
    return ", ".join(part for part in (facts["state_reason"], by, since) if part)


def _span(p: Pool, span: Span) -> str:
    end = "" if span.end == float("inf") else f" until {when(span.end)}"
    return f"{span.job}: {units(span.amount, p.unit)} from {when(span.start)}{end}"


def summary(facts: dict[str, Any], *, style: Style = PLAIN) -> list[str]:
    """A graph in a few lines: the output of `load` and `info`."""
    others = ", ".join(f"{count} {state}" for state, count in facts["states"].items() if state != "up")
    graphs = ", ".join(
        f"{s['name']} ({'hierarchy, ' if s['hierarchy'] else ''}{plural(s['edges'], 'edge')})" for s in facts["subsystems"]
    )
    rows = [
        ["graph", facts["graph"]],
        ["pools", f"{facts['pools']} in {plural(facts['levels'], 'level')}"],
        ["auxiliary graphs", graphs],
        ["not up", others],
        ["jobs", listed(facts["jobs"], 8)],
        ["maintenance", listed(facts["reservations"], 8)],
        ["stages", listed(facts["stages"], 8)],
    ]
    columns = [Column("fact", role=lambda _text: "heading"), Column("value")]
    return [
        *table(columns, [row for row in rows if row[1]], header=False, style=style),
        "",
        *totals(facts["types"], style=style),
    ]


def instances(top: Instance, *, style: Style = PLAIN) -> list[str]:
    """An instance and all below it: addresses, policies, nodes (parts of nodes count as nodes), running and pending jobs."""
    columns = [
        Column("INSTANCE"),
        Column("ADDRESS", role=lambda _text: "faint", drop=1),
        Column("POLICY"),
        Column("MATCH", drop=2),
        Column("NODES", right=True),
        Column("RUNNING", right=True),
        Column("PENDING", right=True),
    ]
    return table(columns, [*_instance_rows(top, "", "")], style=style)


def _instance_rows(one: Instance, first: str, then: str) -> list[list[str]]:
    job = one.job_in_parent
    name = one.name if job is None or job.name is None else job.name
    numbers = (documents.nodes_of(one), one.running, one.pending)
    found = [[first + name, one.address, one.policy.name, one.match_policy, *map(str, numbers)]]
    children = one.children
    for number, child in enumerate(children, 1):
        is_last = number == len(children)
        found += _instance_rows(child, then + ("└─ " if is_last else "├─ "), then + ("   " if is_last else "│  "))
    return found
