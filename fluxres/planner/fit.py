"""The earliest start at which pools are free together for a duration.

A demand forbids some use: more than `size - amount` of the pool itself, any exclusive holding above it and, if it asks for the
pool exclusively, any use below it.  All of this becomes ceilings over the rows, block by block; after that the search only deals
with ceilings.  It proceeds from left to right: the last row of the present window that exceeds a ceiling ends at the next start
worth trying, because every earlier start still has that row in its window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fluxres.arrays import Int64
from fluxres.clock import FOREVER
from fluxres.errors import UsageError
from fluxres.planner.block import BEGINNING, Ceiling
from fluxres.planner.columns import Columns, Runs
from fluxres.planner.timeline import Timeline


def earliest(
    columns: Columns,
    used: Sequence[Timeline | None],
    cover: Sequence[Timeline | None],
    demands: Sequence[tuple[int, int]],
    duration: int,
    after: int,
) -> int | None:
    """See `Planner.earliest`."""
    if duration < 1:
        raise UsageError(f"duration: expected at least one tick, got {duration}")
    if not BEGINNING < after < FOREVER:
        raise UsageError(f"after: expected a finite tick, got {after}")
    asked: dict[int, int] = {}
    for v, amount in demands:
        if not 0 <= v < columns.n:
            raise UsageError(f"vertex {v}: expected 0 <= vertex < {columns.n}")
        if amount < 1:
            raise UsageError(f"pool {v}: expected amount >= 1, got {amount}")
        asked[v] = asked.get(v, 0) + amount
    if any(amount > columns.size[v] for v, amount in asked.items()):
        return None
    vertices = np.array(sorted(asked), np.int64)
    amounts = np.array([asked[v] for v in vertices.tolist()], np.int64)
    return first_fit(list(ceilings(columns, used, cover, vertices, amounts)), duration, after)


def first_fit(ceilings: Sequence[Ceiling], duration: int, after: int) -> int | None:
    """The first start from `after` on whose window is below all ceilings; None if there is none."""
    start, agreed, k = after, 0, 0
    while agreed < len(ceilings):
        until = ceilings[k].blocked_until(start, min(start + duration, FOREVER))
        if until is None:
            agreed += 1
        elif until >= FOREVER:
            return None
        else:
            start, agreed = until, 0
        k = (k + 1) % len(ceilings)
    return start


def ceilings(
    columns: Columns,
    used: Sequence[Timeline | None],
    cover: Sequence[Timeline | None],
    vertices: Int64,
    amounts: Int64,
) -> Iterator[Ceiling]:
    """The ceilings that the demands (ascending vertices) impose, one per block that has any."""
    above = _ancestors(columns, vertices)
    left = columns.sizes[vertices] - amounts
    whole = vertices[(left == 0) & (columns.ends[vertices] > vertices + 1)]
    below = Runs.of(whole + 1, columns.ends[whole])
    for kind, line in enumerate(used):
        if line is None:
            continue
        table = columns.vertices(kind)
        own = columns.type_numbers[vertices] == kind
        levels = [(table.searchsorted(vertices[own].astype(np.int32)).astype(np.int64), left[own])]
        roof = cover[kind]
        covers = table.searchsorted(above[columns.type_numbers[above] == kind].astype(np.int32)).astype(np.int64)
        if roof is line:
            levels.append((covers, np.zeros_like(covers)))
        elif roof is not None:
            yield from _of_line(roof, [(covers, np.zeros_like(covers))], Runs.of(covers[:0], covers[:0]))
        first, stop = table.searchsorted(below.starts), table.searchsorted(below.stops)
        yield from _of_line(line, levels, Runs.of(first[first < stop], stop[first < stop]))


def _of_line(line: Timeline, levels: Sequence[tuple[Int64, Int64]], nothing: Runs) -> Iterator[Ceiling]:
    """Ceilings of one timeline: the given bounds by ordinal, 0 in the runs `nothing`, no bound elsewhere."""
    for base, block in line.busy_blocks():
        most = np.full(block.length, 1 if line.dtype is None else np.iinfo(line.dtype).max, line.dtype or np.uint8)
        for ordinals, units in levels:
            a, b = ordinals.searchsorted([base, base + block.length]).tolist()
            inside = ordinals[a:b] - base
            most[inside] = np.minimum(most[inside], units[a:b])
        nothing.clear(most, base)
        ceiling = block.ceiling(most)
        if ceiling is not None:
            yield ceiling


def _ancestors(columns: Columns, vertices: Int64) -> Int64:
    """All proper ancestors of the vertices, each once, ascending."""
    found = []
    level = np.unique(columns.parents[vertices])
    while level.size and (level := level[level >= 0]).size:
        found.append(level)
        level = np.unique(columns.parents[level])
    return np.unique(np.concatenate(found)).astype(np.int64) if found else np.zeros(0, np.int64)
