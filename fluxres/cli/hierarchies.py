"""The output of `fluxres hierarchy`: tables of instances and of hierarchies; as CSV with the columns of flux-tree."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fluxres.launch.plan import Facts, Planned
from fluxres.render.text import PLAIN, Column, Style, table

if TYPE_CHECKING:
    from fluxres.launch.hierarchy import EqualJobs, Outcome
    from fluxres.launch.protocol import Row
    from fluxres.simulation.nesting.hierarchy import Hierarchy

_COLUMNS: Final = ("TreeID", "Elapsed", "Begin", "End", "Match(us)", "NJobs", "NNodes", "CPN", "GPN")


def _name(fan_outs: Sequence[int]) -> str:
    return "x".join(map(str, fan_outs)) or "1"


def _right(*titles: str) -> list[Column]:
    return [Column(title, right=number > 0) for number, title in enumerate(titles)]


def _flat(outcomes: Sequence[Outcome]) -> Outcome | None:
    return next((one for one in outcomes if not one.topology), None)


def _ratio(one: Outcome, flat: Outcome | None) -> float | None:
    if flat is None or flat.jobs_per_s is None or one.jobs_per_s is None:
        return None
    return one.jobs_per_s / flat.jobs_per_s


def _values(row: Row) -> list[Any]:
    has = Facts(row.nodes, row.cores, row.gpus)
    match_us = 1e6 * row.match_s / row.started if row.started else 0.0
    return [
        row.tree_id,
        round(row.end_s - row.begin_s, 6),
        round(row.begin_s, 6),
        round(row.end_s, 6),
        round(match_us, 1),
        row.jobs,
        row.nodes,
        has.cores_per_node,
        has.gpus_per_node,
    ]


def lines(outcomes: Sequence[Outcome], *, style: Style) -> list[str]:
    shown: list[str] = []
    for one in outcomes:
        began_s = min((row.begin_s for row in one.rows), default=0.0)
        cells = [_cells(row, began_s) for row in one.rows]
        shown += [f"Topology {one.name}:", *table(_INSTANCES, cells, style=style), ""]
    return shown + _totals(outcomes, style=style)


_PLANNED: Final = [
    Column("INSTANCE"),
    Column("JOBS", right=True),
    Column("NODES", right=True),
    Column("CORES/NODE", right=True, drop=2),
    Column("GPUS/NODE", right=True, drop=1),
]
_INSTANCES: Final = [
    *_PLANNED,
    Column("BEGIN (s)", right=True),
    Column("END (s)", right=True),
    Column("TIME (s)", right=True, drop=3),
    Column("PER START (µs)", right=True, drop=4),
    Column("TROUBLE", role=lambda _text: "bad"),
]


def _cells(row: Row, began_s: float) -> list[str]:
    """Times are from the start of the hierarchy on."""
    _, _, _, _, match_us, jobs, nodes, cores, gpus = _values(row)
    times = [f"{seconds:.3f}" for seconds in (row.begin_s - began_s, row.end_s - began_s, row.end_s - row.begin_s)]
    return [row.tree_id, str(jobs), str(nodes), str(cores), str(gpus or ""), *times, f"{match_us:.1f}", _trouble(row)]


def _totals(outcomes: Sequence[Outcome], *, style: Style) -> list[str]:
    flat = _flat(outcomes)
    titles = ("TOPOLOGY", "INSTANCES", "JOBS", "FAILED", "LOST", "BOOT (s)", "RUN (s)", "JOBS/S", "RATIO", "WITH BOOT")
    cells = [
        [
            one.name,
            str(one.instances),
            str(one.jobs),
            str(one.failed or ""),
            str(one.lost or ""),
            f"{one.boot_s:.3f}",
            f"{one.run_s:.3f}",
            _number(one.jobs_per_s, ".1f"),
            _number(_ratio(one, flat), ".2f"),
            _number(one.jobs_per_s_with_boot, ".1f"),
        ]
        for one in outcomes
    ]
    return table(_right(*titles), cells, style=style)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _trouble(row: Row) -> str:
    lost = row.jobs - row.completed - row.failed if row.is_leaf else 0
    parts = [f"{row.failed} failed" * bool(row.failed and row.is_leaf), f"{lost} lost" * bool(lost), row.note]
    return ", ".join(part for part in parts if part)


def document(outcomes: Sequence[Outcome], ensemble: EqualJobs) -> dict[str, Any]:
    flat = _flat(outcomes)
    return {
        "job": ensemble.job,
        "request": ensemble.request,
        "topologies": [
            {
                "topology": one.name,
                "instances": one.instances,
                "jobs": one.jobs,
                "completed": one.completed,
                "failed": one.failed,
                "lost": one.lost,
                "is_complete": one.is_complete,
                "status": one.status,
                "boot_s": one.boot_s,
                "run_s": one.run_s,
                "jobs_per_s": one.jobs_per_s,
                "ratio": _ratio(one, flat),
                "jobs_per_s_with_boot": one.jobs_per_s_with_boot,
                "rows": [_row(row) for row in one.rows],
            }
            for one in outcomes
        ],
    }


def _row(row: Row) -> dict[str, Any]:
    keys = ("tree_id", "elapsed_s", "begin_s", "end_s", "match_us", "jobs", "nodes", "cores_per_node", "gpus_per_node")
    ran = {"level": row.level, "is_leaf": row.is_leaf, "boot_s": row.boot_s, "completed": row.completed, "failed": row.failed}
    return {**dict(zip(keys, _values(row), strict=True)), **ran, "status": row.status, "note": row.note}


def csv_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    extra = ("Level", "Completed", "Failed", "Status", "Note")
    for values in (
        ("Topology", *_COLUMNS, *extra),
        *((o.name, *_values(r), r.level, r.completed, r.failed, r.status, r.note) for o in outcomes for r in o.rows),
    ):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        yield text.getvalue()


def planned_lines(wanted: Sequence[Hierarchy], planned: Sequence[Sequence[Planned]], *, style: Style = PLAIN) -> list[str]:
    shown = []
    for one, instances in zip(wanted, planned, strict=True):
        cells = [list(map(str, _planned(instance))) for instance in instances]
        columns = [*_PLANNED, Column("CHILDREN", right=True)]
        shown += [f"Topology {_name(one.fan_outs)}:", *table(columns, cells, style=style), ""]
    return shown[:-1]


def _planned(one: Planned) -> tuple[str | int, ...]:
    return one.tree_id, one.jobs, one.has.nodes, one.has.cores_per_node, one.has.gpus_per_node, one.children


def planned_document(wanted: Sequence[Hierarchy], planned: Sequence[Sequence[Planned]], ensemble: EqualJobs) -> dict[str, Any]:
    keys = ("tree_id", "jobs", "nodes", "cores_per_node", "gpus_per_node", "children")
    return {
        "job": ensemble.job,
        "request": ensemble.request,
        "topologies": [
            {"topology": _name(one.fan_outs), "rows": [dict(zip(keys, _planned(each), strict=True)) for each in instances]}
            for one, instances in zip(wanted, planned, strict=True)
        ],
    }
