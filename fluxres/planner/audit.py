"""The audit of a planner's timelines: their data is redundant, and the copies are compared."""

from __future__ import annotations

from collections.abc import Sequence

from fluxres.planner.columns import Columns
from fluxres.planner.timeline import Finding, Timeline


def check(columns: Columns, used: Sequence[Timeline | None], cover: Sequence[Timeline | None]) -> list[Finding]:
    """All findings in the timelines of a planner, by type number; empty if there are none."""
    found: list[Finding] = []
    for kind, line in enumerate(used):
        if line is None:
            continue
        found += [(-1, f"type number {kind}: {text} (A1)") for text in line.check()]
        vertices = columns.vertices(kind)
        for start, _, ordinals, units in line.rows():
            over = units > columns.sizes[vertices[ordinals]]
            found += [(v, f"more units used than its size, from tick {start} on (A1)") for v in vertices[ordinals[over]].tolist()]
        roof = cover[kind]
        if roof is None or roof is line:
            continue
        found += [(-1, f"type number {kind}, exclusive holdings: {text} (A3)") for text in roof.check()]
        for start, stop, ordinals, _ in roof.rows():
            short = line.extremes(ordinals, start, stop, least=True) < columns.sizes[vertices[ordinals]]
            found += [
                (v, f"held exclusively from tick {start} on, but not all of it is used (A3)")
                for v in vertices[ordinals[short]].tolist()
            ]
        found += _single(columns, kind, line, roof)
    return found


def _single(columns: Columns, kind: int, line: Timeline, roof: Timeline) -> list[Finding]:
    """In a type of mixed sizes, the pools of size 1 that are used but not covered."""
    vertices = columns.vertices(kind)
    found = []
    for start, stop, ordinals, _ in line.rows():
        single = ordinals[columns.sizes[vertices[ordinals]] == 1]
        bare = single[roof.extremes(single, start, stop, least=True) == 0]
        found += [(v, f"used from tick {start} on, but not held exclusively (A3)") for v in vertices[bare].tolist()]
    return found
