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
from fluxres.planner.block import Ints, Pick, too_many_breakpoints
from fluxres.planner.columns import Columns
from fluxres.planner.timeline import Timeline

FEW_POOLS_MAX: Final = 32
"""Up to this number, pools are changed one by one."""

Few = Mapping[int, list[tuple[int, int]]]
"""(vertex, units to add or subtract) by type number."""


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

    # -- one pool ---------------------------------------------------------------------------------------------

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

    def change_cover(self, v: int, by: int, start: int, end: int) -> bool:
        """Record that a pool of size > 1 is held exclusively (1), or no longer is (-1); False if it was so already."""
        return self.cover_of(self._type[v]).change(self.ordinal[v], by, 1, start, end)

    # -- few pools --------------------------------------------------------------------------------------------

    def by_kind(self, vertices: list[int], units: list[int], sign: int) -> Few:
        """Pools and units in the form that `change_few` takes."""
        found: dict[int, list[tuple[int, int]]] = {}
        for v, amount in zip(vertices, units, strict=True):
            found.setdefault(self._type[v], []).append((v, amount * sign))
        return found

    def change_few(self, pools: Few, start: int, end: int) -> bool:
        """Change each of these pools; False, without a change, if one of the changes is impossible."""
        done: list[tuple[Timeline, list[Pick]]] = []
        for kind, part in pools.items():
            for line, picks in self._picks(kind, part):
                if not line.change_few(picks, start, end):
                    for earlier, before in done:
                        earlier.change_few([(ordinal, -amount, limit) for ordinal, amount, limit in before], start, end)
                    return False
                done.append((line, picks))
        return True

    def _picks(self, kind: int, pools: list[tuple[int, int]]) -> Iterator[tuple[Timeline, list[Pick]]]:
        """The changes per timeline for a change in the use of these pools of one type."""
        line = self.used[kind] or self.used_of(kind)
        ordinal, size = self.ordinal, self._size
        yield line, [(ordinal[v], amount, size[v]) for v, amount in pools]
        if line.dtype is not None:
            single = [(ordinal[v], amount, 1) for v, amount in pools if size[v] == 1]
            if single:
                yield self.cover_of(kind), single

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
