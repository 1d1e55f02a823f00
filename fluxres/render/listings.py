"""The tables of commands: pools, records, totals, problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

import numpy as np

from fluxres.clock import FOREVER, seconds
from fluxres.graph.structure import Structure
from fluxres.match import Placement
from fluxres.model import Problem, ResourceGraph, Selection
from fluxres.model.totals import available_units
from fluxres.render.amounts import units, when
from fluxres.render.documents import Document
from fluxres.render.folding import Fold, fold, fold_edges
from fluxres.render.holders import holders, notes, tag_text
from fluxres.render.signatures import looks, mixed
from fluxres.render.style import PLAIN, Style, state_role
from fluxres.render.table import Column, table


def _job(_text: str) -> str:
    return "job"


_HELD = [
    Column("JOB", role=_job),
    Column("PATH"),
    Column("POOLS", right=True),
    Column("UNITS", right=True),
    Column("START"),
    Column("END"),
]


def folds(selection: Selection, free: np.ndarray | None, start: int) -> list[Fold]:
    """Pools folded if the table and the tree would show the same for them."""
    graph, vertices = selection.graph, selection.vertices
    structure = graph.structure
    own = looks(structure, 0, structure.n, notes(graph, start))[vertices]
    return fold(structure, vertices, own if free is None else mixed(own, free[vertices]))


def pools(
    selection: Selection, start: int, end: int, *, limit: int | None = None, header: bool = True, style: Style = PLAIN
) -> tuple[list[str], int]:
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
            str(int(free[item.vertex])),
            structure.state_name(item.vertex),
            holders(graph, item.vertex, start) if item.vertex in graph.records.held else "",
            tag_text(structure.tags[item.vertex]) if item.vertex in structure.tags else "",
        ]
        for item in shown
    ]
    columns = [
        Column("PATH"),
        Column("POOLS", right=True),
        Column("TYPE"),
        Column("SIZE", right=True),
        Column("FREE", right=True),
        Column("STATE", role=state_role),
        Column("HELD BY", role=_job),
        Column("TAGS"),
    ]
    return table(columns, rows, header=header, style=style), sum(item.count for item in found[len(shown) :])


def records(
    graph: ResourceGraph, held: Sequence[tuple[str, int, int, int, int]], *, header: bool = True, style: Style = PLAIN
) -> list[str]:
    """Records as a table; pools of which a job holds the same amount over the same time share a line.

    Args:
        held: (job, vertex, start, end, amount) in ticks.
    """
    structure = graph.structure
    groups: dict[tuple[str, int, int, int], list[int]] = {}
    for job, v, start, end, amount in held:
        groups.setdefault((job, start, end, amount), []).append(v)
    rows = []
    for (job, start, end, amount), vertices in groups.items():
        for v, held_units in _alike(structure, vertices, amount):
            rows.append((job, start, v, [job, *held_units, when(seconds(start)), when(seconds(end))]))
    return table(_HELD, [row for *_, row in sorted(rows)], header=header, style=style)


def _alike(structure: Structure, vertices: Iterable[int], amount: int) -> list[tuple[int, list[str]]]:
    """Pools and edges of which the same amount is held: the first of each line, its path, number and units."""
    chosen = np.unique(np.array(list(vertices), np.int32))
    pools = chosen[chosen < structure.n]
    items = fold(structure, pools, mixed(structure.kind[pools])) + fold_edges(structure, chosen[len(pools) :])
    return [(item.vertex, [item.text, str(item.count), units(amount, structure.accounts.unit(item.vertex))]) for item in items]


def stages(graph: ResourceGraph, documents: Sequence[Document], *, header: bool = True, style: Style = PLAIN) -> list[str]:
    """Stages as a table; pools of which a stage has the same amount share a line, and units of different pools are not added."""
    number = graph.structure.accounts.number
    rows = []
    for d in documents:
        groups: dict[int, list[int]] = {}
        for pool in d["pools"]:
            groups.setdefault(pool["amount"], []).append(number(pool["path"]))
        lines = [line for amount, vertices in groups.items() for line in _alike(graph.structure, vertices, amount)]
        times = [when(d["start"]), *(when(inf if d[key] is None else d[key]) for key in ("end", "expires"))]
        rows += [[d["stage"], d["job"], *line, *times] for _, line in sorted(lines)]
    columns = [
        Column("STAGE"),
        *_HELD,
        Column("EXPIRES"),
    ]
    return table(columns, rows, header=header, style=style)


def matched(found: Placement, structure: Structure, *, header: bool = True, style: Style = PLAIN) -> list[str]:
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
    columns = [Column("PATH"), Column("POOLS", right=True), Column("UNITS", right=True)]
    return table(columns, rows, header=header, style=style)


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


def totals(documents: Sequence[Document], *, free: bool = True, header: bool = True, style: Style = PLAIN) -> list[str]:
    """Totals by type as a table; the number of units is shown only if it is not the number of pools."""
    rows = [
        [
            d["type"],
            str(d["pools"]),
            units(d["units"], d["unit"]) if d["units"] != d["pools"] or d["unit"] else "",
            str(d["available"]),
        ]
        for d in documents
    ]
    columns = [Column("TYPE"), Column("POOLS", right=True), Column("UNITS", right=True), Column("FREE", right=True)]
    return table(columns if free else columns[:3], rows if free else [row[:3] for row in rows], header=header, style=style)


def problems(found: Sequence[Problem], *, header: bool = True, style: Style = PLAIN) -> list[str]:
    columns = [
        Column("SEVERITY", role=lambda text: "bad" if text == "error" else "warn"),
        Column("WHERE"),
        Column("MESSAGE"),
    ]
    return table(columns, [[p.severity, p.where, p.message] for p in found], header=header, style=style)
