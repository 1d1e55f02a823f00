"""The timelines of a machine by type, and how a change of pools becomes changes of timelines.

The use of a pool is in the timeline of its type.  For pools of size 1, being used and being held exclusively are the same; larger
ones have a second timeline of bits.  A change of a few pools is made pool by pool, because NumPy's overhead exceeds that work; a
change of many pools is checked and made by vector operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner.block import Ints, too_many_breakpoints
from fluxres.planner.columns import Columns
from fluxres.planner.timeline import Finding, Timeline

FEW_POOLS_MAX: Final = 32
"""Up to this number, pools are changed one by one."""

Pools = Sequence[tuple[int, int]]
"""A few vertices and the units to add to each (negative: to subtract)."""


def shown(start: int, end: int) -> str:
    """A window as messages show it."""
    return f"[{start}, {'for ever' if end >= FOREVER else end})"


class Lines:
    """Timelines by type number, created on the first write.

    Args:
        columns: of the planner.
        span_bits, span_counts: pools per block.
    """

    __slots__ = ("_columns", "_made", "_size", "_span_bits", "_span_counts", "_type", "cover", "ordinal", "used")

    def __init__(self, columns: Columns, span_bits: int, span_counts: int) -> None:
        self._columns = columns
        self._type, self._size = columns.type, columns.size
        self._span_bits, self._span_counts = span_bits, span_counts
        #: Ordinals by vertex, valid for the types that have a timeline.
        self.ordinal = memoryview(b"")
        #: `cover[kind]` is the same object as `used[kind]` where all sizes are 1.
        self.used: list[Timeline | None] = [None] * columns.types
        self.cover: list[Timeline | None] = [None] * columns.types
        self._made: list[Timeline] = []

    def used_of(self, kind: int) -> Timeline:
        line = self.used[kind]
        if line is None:
            columns = self._columns
            self.ordinal = columns.number(kind)
            dtype = columns.dtype(kind)
            line = Timeline(len(columns.vertices(kind)), self._span_bits if dtype is None else self._span_counts, dtype)
            self.used[kind] = line
            self._made.append(line)
            if dtype is None:
                self.cover[kind] = line
        return line

    def cover_of(self, kind: int) -> Timeline:
        """The timeline of the pools of a type that are held exclusively."""
        line = self.used_of(kind)
        cover = self.cover[kind]
        if cover is None:
            cover = self.cover[kind] = Timeline(line.length, self._span_bits, None)
            self._made.append(cover)
        return cover

    # -- pool by pool -----------------------------------------------------------------------------------------

    def change(self, v: int, amount: int, start: int, end: int) -> bool:
        """Add units to the use of a pool; False, without a change, if they are not available.

        Errors: LimitExceeded (BREAKPOINTS_MAX), without a change.
        """
        kind = self._type[v]
        line = self.used[kind] or self.used_of(kind)
        size = self._size[v]
        if not line.change(self.ordinal[v], amount, size, start, end):
            return False
        if size == 1 and line.dtype is not None:
            try:
                self.cover_of(kind).change(self.ordinal[v], amount, 1, start, end)
            except LimitExceeded:
                line.change(self.ordinal[v], -amount, size, start, end)
                raise
        return True

    def change_each(self, pools: Pools, start: int, end: int) -> bool:
        """Change each of a few pools; False, without a change, if one of the changes is impossible."""
        done: list[tuple[int, int, int]] = []
        for v, number, amount in self._runs(pools):
            try:
                changed = self._change_run(v, number, amount, start, end)
            except LimitExceeded:
                changed = False
            if not changed:
                for earlier, length, by in reversed(done):  # which restores the previous breakpoints, so there is room
                    self._change_run(earlier, length, -by, start, end)
                return False
            done.append((v, number, amount))
        return True

    def _runs(self, pools: Pools) -> Iterator[tuple[int, int, int]]:
        """The first vertex, length and units of runs of adjacent pools of size 1, such as the cores of a job in one socket."""
        types, size, at, count = self._type, self._size, 0, len(pools)
        while at < count:
            v, amount = pools[at]
            kind, stop, most = types[v], at + 1, at + 1
            if abs(amount) == 1 and stop < count and pools[stop] == (v + 1, amount) and size[v] == 1:
                line = self.used[kind] or self.used_of(kind)
                if line.dtype is None:
                    most = min(count, at + line.run_length(self.ordinal[v]))
            while stop < most and pools[stop] == (v + stop - at, amount):
                if types[v + stop - at] != kind or size[v + stop - at] != 1:
                    break
                stop += 1
            yield v, stop - at, amount
            at = stop

    def _change_run(self, v: int, number: int, amount: int, start: int, end: int) -> bool:
        if number == 1:
            return self.change(v, amount, start, end)
        return self.used_of(self._type[v]).change_run(self.ordinal[v], number, amount > 0, start, end)

    def change_cover(self, v: int, by: int, start: int, end: int) -> bool:
        """Record that a pool of size > 1 is held exclusively (1), or no longer is (-1); False if it was so already."""
        return self.cover_of(self._type[v]).change(self.ordinal[v], by, 1, start, end)

    def has_room(self, changes: int) -> bool:
        """Whether every timeline has room for the breakpoints of this number of changes, whatever their windows."""
        most = limits.BREAKPOINTS_MAX - 2 * changes
        for line in self._made:  # noqa: SIM110  # called for every change of a named pool: a generator is slower
            if line.breakpoints > most:
                return False
        return True

    def require_room(self, windows: Mapping[tuple[int, int], Sequence[int]]) -> None:
        """Raise if changes of these pools over these windows would add too many breakpoints to a timeline."""
        if self.has_room(sum(map(len, windows.values()))):
            return
        missing: dict[int, int] = {}
        for (start, end), vertices in windows.items():
            which = np.unique(np.asarray(vertices, np.int64))
            for kind, of_kind in self._columns.by_kind(which):
                ordinals = np.asarray(self.ordinal)[which[of_kind]].astype(np.int64)
                for line in {id(line): line for line in (self.used[kind], self.cover[kind]) if line is not None}.values():
                    missing[id(line)] = missing.get(id(line), line.breakpoints) + line.missing(ordinals, start, end)
        if max(missing.values(), default=0) > limits.BREAKPOINTS_MAX:
            raise too_many_breakpoints()

    # -- many pools -------------------------------------------------------------------------------------------

    def change_many(self, vertices: Ints, units: Ints, start: int, end: int, sign: int) -> None:
        """Change ascending vertices, all up or all down, all or nothing.

        Errors: UsageError naming the first pool without enough units; LimitExceeded.
        """
        for line, ordinals, steps in list(self._plan(vertices, units, start, end, sign)):
            line.add(ordinals, steps, start, end)

    def _plan(self, vertices: Ints, units: Ints, start: int, end: int, sign: int) -> Iterator[tuple[Timeline, Ints, Ints]]:
        """Check a change of many pools and yield what to add to which timeline."""
        for kind, of_kind in self._columns.by_kind(vertices):
            which, steps = vertices[of_kind], units[of_kind] if sign > 0 else -units[of_kind]
            line = self.used_of(kind)
            ordinals = np.asarray(self.ordinal)[which].astype(np.int64)
            sizes = self._columns.sizes[which]
            if sign > 0:
                bad = line.extremes(ordinals, start, end) > sizes - steps
            else:
                bad = line.extremes(ordinals, start, end, least=True) + steps < 0
            if bad.any():
                k = int(bad.argmax())
                raise UsageError(
                    f"pool {which[k]}: {abs(int(steps[k]))} units {'requested' if sign > 0 else 'released'} for "
                    f"{shown(start, end)}, where {'too many' if sign > 0 else 'fewer'} are used (size {sizes[k]})"
                )
            parts = [(line, ordinals, steps)]
            single = sizes == 1
            if line.dtype is not None and single.any():
                parts.append((self.cover_of(kind), ordinals[single], steps[single]))
            for part_line, part, _ in parts:
                part_line.require_room(part, start, end)
            yield from parts

    # -- audit ------------------------------------------------------------------------------------------------

    def check(self) -> list[Finding]:
        """All findings in the timelines: their data is redundant, and the copies are compared."""
        found: list[Finding] = []
        for kind, line in enumerate(self.used):
            if line is None:
                continue
            found += [(-1, f"type number {kind}: {text} (A1)") for text in line.check()]
            vertices = self._columns.vertices(kind)
            for start, _, ordinals, units in line.rows():
                over = units > self._columns.sizes[vertices[ordinals]]
                found += [
                    (v, f"more units used than its size, from tick {start} on (A1)") for v in vertices[ordinals[over]].tolist()
                ]
            roof = self.cover[kind]
            if roof is None or roof is line:
                continue
            found += [(-1, f"type number {kind}, exclusive holdings: {text} (A3)") for text in roof.check()]
            for start, stop, ordinals, _ in roof.rows():
                short = line.extremes(ordinals, start, stop, least=True) < self._columns.sizes[vertices[ordinals]]
                found += [
                    (v, f"held exclusively from tick {start} on, but not all of it is used (A3)")
                    for v in vertices[ordinals[short]].tolist()
                ]
            found += _single(self._columns, kind, line, roof)
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
