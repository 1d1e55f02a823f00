"""A graph in a few lines: the output of `load` and `info`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fluxres.graph.kinds import STATES
from fluxres.model import ResourceGraph
from fluxres.render import documents, listings
from fluxres.render.style import PLAIN, Style
from fluxres.render.table import Column, table
from fluxres.render.text import plural


def document(graph: ResourceGraph) -> dict[str, Any]:
    """Name, pools, levels, auxiliary graphs, states, jobs, and totals by type."""
    structure = graph.structure
    counts = np.bincount(structure.state, minlength=len(STATES)).tolist()
    return {
        "graph": graph.name,
        "pools": structure.n,
        "levels": int(structure.depth.max()) + 1,
        "subsystems": [
            {"name": s.name, "hierarchy": s.hierarchy, "edges": len(s), "pools": len(s.members)}
            for s in structure.subsystems.values()
        ],
        "states": {state: count for state, count in zip(STATES, counts, strict=True) if count},
        "jobs": graph.jobs(),
        "stages": list(graph.records.stages),
        "types": documents.totals(graph),
    }


def lines(facts: dict[str, Any], *, header: bool = True, style: Style = PLAIN) -> list[str]:
    """The same as text, without empty lines."""
    others = ", ".join(f"{count} {state}" for state, count in facts["states"].items() if state != "up")
    graphs = ", ".join(
        f"{s['name']} ({'hierarchy, ' if s['hierarchy'] else ''}{plural(s['edges'], 'edge')})" for s in facts["subsystems"]
    )
    rows = [
        ["graph", facts["graph"]],
        ["pools", f"{facts['pools']} in {plural(facts['levels'], 'level')}"],
        ["auxiliary graphs", graphs],
        ["not up", others],
        ["jobs", _listed(facts["jobs"])],
        ["stages", _listed(facts["stages"])],
    ]
    columns = [Column("fact", role=lambda _text: "heading"), Column("value")]
    return [
        *table(columns, [row for row in rows if row[1]], header=False, style=style),
        "",
        *listings.totals(facts["types"], header=header, style=style),
    ]


def _listed(names: list[str], at_most: int = 8) -> str:
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
