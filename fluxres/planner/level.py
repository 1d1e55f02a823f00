"""One level of a machine, mostly its nodes, for a matcher: which pools are held, which are touched, how much is used inside.

These are RFC 4's pruning filters, exact in time.  Three things are kept for the pools of a level, each to answer one question:

* `roof`: the pool, or one above it, is held exclusively.  Nothing in it is available.
* `touched`: that, or anything below it is used.  It cannot be allocated exclusively.
* `peaks(T)`: units of type T below it that are used, at the busiest moment of a window.  The rest is an upper bound of what is
free through the whole window, because different cores may be busy at different moments.  A matcher uses it to skip pools, and
looks at the units themselves in the few that remain.

A level is created by the first query about it and receives every change from then on, so it counts each type that is used below
it.  Setting a mark needs no other information; clearing one requires looking up what else marks the pool.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from fluxres.arrays import Int32, Int64
from fluxres.planner.block import BEGINNING
from fluxres.planner.columns import Columns, distinct
from fluxres.planner.deltas import Deltas
from fluxres.planner.marks import Bits, Marks, ordinals_of
from fluxres.planner.timeline import Finding, Timeline, narrowest

Changes = Sequence[tuple[int, int, int]]
"""Runs of adjacent pools of one type: the first vertex, how many, and the units to add to each (negative: to subtract)."""

HeldWhole = Callable[[int], list[tuple[int, int]]]
"""When a pool is held exclusively, by vertex."""

UNITS_MAX: Final = 2**62
"""A bound that no count reaches: the caller has checked the units."""

SPAN: Final = 1024
"""Pools per block of counts: a job on a few cores adds two rows of a kilobyte."""


class Level:
    """The pools of one type, none of which is below another.

    Args:
        columns: of the planner.
        kind: the type number.
        cover: timelines of the pools held exclusively, by type number, created on first use.
        held_whole: (start, end) over all time where a pool is held exclusively, from the planner.
    """

    def __init__(self, columns: Columns, kind: int, cover: Sequence[Timeline | None], held_whole: HeldWhole) -> None:
        self.kind = kind
        self.vertices = columns.vertices(kind)
        self.ends = columns.ends[self.vertices]
        self.length = len(self.vertices)
        self.roof = Marks(self.length)
        self.touched = Marks(self.length)
        self._columns = columns
        self._held_whole = held_whole
        self._cover = cover
        #: By type number: the units used below each pool; only types of which some were ever used.
        self._counts: dict[int, Timeline] = {}
        # The pools of the level and the gaps between them, alternating, so that one `repeat` fills the column.
        edges = np.zeros(2 * self.length + 2, np.int64)
        edges[1:-1:2], edges[2:-1:2], edges[-1] = self.vertices, self.ends, columns.n
        ordinals = np.full(2 * self.length + 1, -1, np.int32)
        ordinals[1::2] = np.arange(self.length, dtype=np.int32)
        #: By vertex: the ordinal of the pool of this level that it is or is below, else -1.
        self.ordinal_of: Int32 = np.repeat(ordinals, np.diff(edges))
        self._ordinal_of = self.ordinal_of.data
        above = distinct(columns.parents[self.vertices])
        types: set[int] = set()
        while above.size and (above := above[above >= 0]).size:
            types.update(distinct(columns.type_numbers[above]).tolist())
            above = distinct(columns.parents[above])
        self._types_above = sorted(types)
        self._edges: dict[int, tuple[Int64, Int64]] = {}
        self._between: dict[int, list[int]] = {}

    @staticmethod
    def is_flat(columns: Columns, kind: int) -> bool:
        """Whether the pools of this type all have size 1 and none is below another."""
        vertices = columns.vertices(kind)
        return columns.dtype(kind) is None and bool((columns.ends[vertices[:-1]] <= vertices[1:]).all())

    # -- queries ----------------------------------------------------------------------------------------------

    def edges(self, kind: int) -> tuple[Int64, Int64]:
        """Per pool, the ordinals [first, stop) of the pools of another type below it."""
        found = self._edges.get(kind)
        if found is None:
            table = self._columns.vertices(kind)
            found = table.searchsorted(self.vertices), table.searchsorted(self.ends)
            self._edges[kind] = found
        return found

    def peaks(self, kind: int, start: int, end: int, among: Bits | None = None) -> Int64 | None:
        """Per pool, the units of a type used below it at the busiest moment; None if none are used.

        Args:
            among: the pools of interest; others may be returned as 0.
        """
        line = self._counts.get(kind)
        if line is None or not line.breakpoints:
            return None
        found: Int64 | None = None
        for number, block in line.blocks.items():
            lo, hi, base = 0, block.length, number * SPAN
            if among is not None:  # a row is as wide as the block, and mostly a small part of it is of interest
                part = among >> base & (1 << hi) - 1
                if not part:
                    continue
                lo, hi = (part & -part).bit_length() - 1, part.bit_length()
            used = block.peaks(lo, hi, start, end)
            if used is not None:
                if found is None:
                    found = np.zeros(self.length, np.int64)
                found[base + lo : base + hi] = used
        return found

    def between(self, kind: int) -> list[int]:
        """Type numbers of pools below this level and above pools of a type."""
        found = self._between.get(kind)
        if found is None:
            columns = self._columns
            table = columns.vertices(kind)
            pools = distinct(columns.parents[table[self.ordinal_of[table] >= 0]])
            types: set[int] = set()
            while (pools := pools[(self.ordinal_of[pools] >= 0) & (columns.type_numbers[pools] != self.kind)]).size:
                types.update(distinct(columns.type_numbers[pools]).tolist())
                pools = distinct(columns.parents[pools])
            found = self._between[kind] = sorted(types)
        return found

    def is_ever_held(self, kinds: Iterable[int]) -> bool:
        """Whether any pool of these types is held exclusively at some moment."""
        for kind in kinds:
            line = self._cover[kind]
            if line is not None and line.breakpoints:
                return True
        return False

    def moments(self, start: int, end: int) -> set[int]:
        """Breakpoints of the marks in [start, end)."""
        found: set[int] = set()
        for times in (self.roof.times, self.touched.times):
            found.update(times[bisect_left(times, start, 1) : bisect_left(times, end)])
        return found

    # -- changes ----------------------------------------------------------------------------------------------

    def open(self, kind: int) -> Timeline:
        """Start to count the units of a type, of which none are used yet."""
        first, stop = self.edges(kind)
        sizes = np.concatenate([[0], np.cumsum(self._columns.sizes[self._columns.vertices(kind)])])
        most = int((sizes[stop] - sizes[first]).max()) if self.length else 1
        counts = self._counts[kind] = Timeline(self.length, SPAN, narrowest(most))
        return counts

    def recall(self, used: Sequence[Timeline | None]) -> None:
        """Pass everything that is held already to a new level, as `change_many` would.

        Args:
            used: of the planner, by type number.
        """
        parts: list[Deltas] = []
        for kind, line in enumerate(used):
            if line is None:
                continue
            ordinals, times, units = line.differences()
            pools = self.ordinal_of[self._columns.vertices(kind)[ordinals]].astype(np.int64)
            there = pools >= 0
            if not there.any():
                continue
            below = Deltas.of(pools[there], times[there], units[there])
            use = below.use()
            if kind == self.kind:
                self.roof.fill(use)
            else:
                self.open(kind).fill(below)
            parts.append(use)
        self.touched.fill(Deltas.sum_of(parts).use())
        for kind in self._types_above:
            cover, vertices = self._cover[kind], self._columns.vertices(kind)
            for pool, start, end in () if cover is None else Deltas.of(*cover.differences()).periods():
                self.cover(int(vertices[pool]), True, start, end)

    def change(self, runs: Changes, start: int, end: int) -> None:
        """Record that the own use of a few pools grew over the window, or that of all of them shrank."""
        types, sizes, ordinal_of = self._columns.type, self._columns.size, self._ordinal_of
        #: By pool of the level and type, the units below it.
        below: dict[tuple[int, int], int] = {}
        for v, length, amount in runs:
            kind, pool = types[v], ordinal_of[v]
            # A run is within one pool of the level, or is one of such pools, or goes on beyond the last one.
            if pool >= 0 and kind != self.kind and (length == 1 or ordinal_of[v + length - 1] == pool):
                below[pool, kind] = below.get((pool, kind), 0) + length * amount
                continue
            for u in range(v, v + length):
                pool = ordinal_of[u]
                if kind == self.kind:
                    self._roof_one(pool, amount > 0, start, end)
                elif pool >= 0:
                    below[pool, kind] = below.get((pool, kind), 0) + amount
                elif sizes[u] == 1:
                    self.cover(u, amount > 0, start, end)
        pools: set[int] = set()
        for (pool, kind), amount in below.items():
            counts = self._counts.get(kind) or self.open(kind)
            counts.change(pool, 1, amount, UNITS_MAX, start, end, 2)
            pools.add(pool)
        for pool in pools:
            if runs[0][2] > 0:
                self.touched.mark_one(pool, True, start, end)
            else:
                self._clear_one(pool, self.roof.gaps(pool, start, end))

    def change_many(self, vertices: Int64, kind: int, amounts: Int64, start: int, end: int) -> None:
        """As :meth:`change`, for many pools of one type."""
        if kind == self.kind:
            self._roof_many(self.ordinal_of[vertices].astype(np.int64), bool(amounts[0] > 0), start, end, own=True)
            return
        pools = self.ordinal_of[vertices]
        there = pools >= 0
        if there.any():
            which, at = np.unique(pools[there].astype(np.int64), return_inverse=True)
            sums = np.zeros(len(which), np.int64)
            np.add.at(sums, at, amounts[there])
            counts = self._counts.get(kind) or self.open(kind)
            counts.add(which, sums, start, end)
            if amounts[0] > 0:
                self.touched.mark(self.touched.bits(which), True, start, end)
            else:
                self._clear_many(which, self.touched.bits(which), start, end)
        for v, units in zip(vertices[~there].tolist(), amounts[~there].tolist(), strict=True):
            if self._columns.size[v] == 1:
                self.cover(v, units > 0, start, end)

    def cover(self, v: int, on: bool, start: int, end: int) -> None:
        """Record that a pool above this level is held exclusively over the window, or no longer is; other pools are ignored."""
        if self._ordinal_of[v] < 0:
            lo = int(self.vertices.searchsorted(np.int32(v)))
            hi = int(self.vertices.searchsorted(np.int32(self._columns.end[v])))
            if lo < hi:
                self._roof_many(np.arange(lo, hi), on, start, end, own=False)

    def _roof_one(self, pool: int, on: bool, start: int, end: int) -> None:
        self.roof.mark_one(pool, on, start, end)
        if on:
            self.touched.mark_one(pool, True, start, end)
            return
        # A pool that was released itself is not held any more, so only the pools above it need to be checked.
        if self.is_ever_held(self._types_above):
            self._roof_again(pool, start, end)
            self._clear_one(pool, self.roof.gaps(pool, start, end))
        else:
            self._clear_one(pool, [(start, end)])

    def _roof_many(self, pools: Int64, on: bool, start: int, end: int, *, own: bool) -> None:
        bits = self.roof.bits(pools)
        self.roof.mark(bits, on, start, end)
        if on:
            self.touched.mark(bits, True, start, end)
            return
        if self.is_ever_held(self._types_above if own else (self.kind, *self._types_above)):
            for pool in pools.tolist():
                self._roof_again(pool, start, end)
        self._clear_many(pools, bits, start, end)

    def _roof_again(self, pool: int, start: int, end: int) -> None:
        """Over a window in which the mark was just cleared, mark a pool where it or one above it is still held."""
        v = int(self.vertices[pool])
        while v >= 0:
            for lo, hi in self._held_whole(v):
                if lo < end and start < hi:
                    self.roof.mark_one(pool, True, max(lo, start), min(hi, end))
            v = self._columns.parent[v]

    def _clear_one(self, pool: int, windows: list[tuple[int, int]]) -> None:
        """Clear `touched` of a pool where nothing of it is used any more, in windows in which `roof` is clear."""
        for counts in self._counts.values():
            if counts.breakpoints:
                windows = [gap for start, end in windows for gap in counts.gaps(pool, start, end)]
        for start, end in windows:
            self.touched.mark_one(pool, False, start, end)

    def _clear_many(self, pools: Int64, bits: Bits, start: int, end: int) -> None:
        """Clear `touched` of many ascending pools, where nothing of them is held or used any more.

        Args:
            bits: the same pools.
        """
        left = bits & self.roof.folded(start, end)
        for counts in self._counts.values():
            if counts.breakpoints:
                left |= self.touched.bits(pools[counts.extremes(pools, start, end) > 0])
        if not left:
            self.touched.mark(bits, False, start, end)
            return
        self.touched.mark(bits & ~left, False, start, end)
        for pool in ordinals_of(left, self.length).tolist():
            self._clear_one(pool, self.roof.gaps(pool, start, end))

    def check(self, used: Sequence[Timeline | None]) -> list[Finding]:
        """What is wrong with the marks and the counts; empty if nothing is.

        Args:
            used: of the planner, by type number.
        """
        found: list[Finding] = [(-1, f"{text} (A1)") for text in (*self.roof.check(), *self.touched.check())]
        for kind, line in enumerate(used):
            if kind == self.kind:
                continue
            have, expected = _by_pool(self._counts.get(kind)), _by_pool(self._recounted(kind, line))
            for pool in sorted(have.keys() | expected.keys()):
                v, spans, runs = int(self.vertices[pool]), have.get(pool, []), self.touched.runs(pool)
                if spans != expected.get(pool, []):
                    what = f"used below, of type number {kind}: counted {spans}, expected {expected.get(pool, [])}"
                    found.append((v, f"{what} (A1)"))
                for start, end, _ in spans:
                    if not any(first <= start and end <= stop for first, stop in runs):
                        found.append((v, f"used below from tick {start} on, but not marked (A1)"))
        return found

    def _recounted(self, kind: int, line: Timeline | None) -> Timeline | None:
        """The units of a type used below each pool, from its timeline."""
        if line is None:
            return None
        made, vertices = Timeline(self.length, SPAN, np.int64), self._columns.vertices(kind)
        for start, end, ordinals, units in line.rows():
            pools = self.ordinal_of[vertices[ordinals]]
            sums = np.zeros(self.length, np.int64)
            np.add.at(sums, pools[pools >= 0], units[pools >= 0].astype(np.int64))
            which = np.flatnonzero(sums)
            made.add(which, sums[which], start, end)
        return made

    @property
    def nbytes(self) -> int:
        """Bytes kept."""
        return (
            self.roof.nbytes
            + self.touched.nbytes
            + self.ordinal_of.nbytes
            + sum(counts.nbytes for counts in self._counts.values())
            + sum(a.nbytes + b.nbytes for a, b in self._edges.values())
        )


def _by_pool(counts: Timeline | None) -> dict[int, list[tuple[int, int, int]]]:
    """By ordinal, the (start, end, units) where units are counted, one entry for each constant step."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for start, end, ordinals, units in () if counts is None else counts.rows():
        for pool, count in zip(ordinals.tolist(), units.tolist(), strict=True):
            spans = found.setdefault(pool, [])
            if spans and spans[-1][1:] == (start, count):
                spans[-1] = spans[-1][0], end, count
            else:
                spans.append((start, end, count))
    return found


class Levels:
    """The levels that a planner maintains for matchers, by type number, and the window of what was freed since a given moment.

    A matcher creates a level by asking for it: a planner that is only written to pays for one test of an empty list per change.

    Args:
        columns, used, cover: of the planner; `used` and `cover` are timelines by type number, created on first use.
        held_whole: (start, end) over all time where a pool is held exclusively.
    """

    def __init__(
        self, columns: Columns, used: Sequence[Timeline | None], cover: Sequence[Timeline | None], held_whole: HeldWhole
    ) -> None:
        self._columns, self._used, self._cover = columns, used, cover
        self._held_whole = held_whole
        self._levels: dict[int, Level | None] = {}
        self._made: list[Level] = []
        #: (number, end) and (number, start) of releases: those that no later release exceeds at that end.
        self._latest: list[tuple[int, int]] = []
        self._earliest: list[tuple[int, int]] = []
        #: The number of releases so far.
        self.freed = 0

    # -- queries ----------------------------------------------------------------------------------------------

    def of(self, kind: int) -> Level | None:
        """The level of a type, maintained from now on; None for a type whose pools nest or have sizes.

        Cost: O(n) and what is held now on the first call; a few microseconds more for each later change.
        """
        if kind not in self._levels:
            level = None
            if Level.is_flat(self._columns, kind):
                level = Level(self._columns, kind, self._cover, self._held_whole)
                level.recall(self._used)
                self._made.append(level)
            self._levels[kind] = level
        return self._levels[kind]

    def moments(self, level: Level, kinds: Iterable[int], start: int, end: int) -> list[int]:
        """The moments in [start, end) that matter to a request for these types in pools of a level, ascending.

        The counts of the level alone are not enough: one unit may be released at the very moment another one is allocated.
        """
        found = level.moments(start, end)
        for line in self._lines(level, kinds):
            found |= line.moments(start, end)
        return sorted(found)

    def next_moment(self, level: Level, kinds: Iterable[int], after: int) -> int | None:
        """The first of these moments from `after` on, or None.  Cost: one bisection per block."""
        series = [level.roof.times, level.touched.times]
        series += [block.times for line in self._lines(level, kinds) for block in line.blocks.values()]
        found = [times[at] for times in series if (at := bisect_left(times, after, 1)) < len(times)]
        return min(found, default=None)

    def _lines(self, level: Level, kinds: Iterable[int]) -> list[Timeline]:
        lines = [line for kind in kinds for line in (self._used[kind], *(self._cover[above] for above in level.between(kind)))]
        return [line for line in lines if line is not None]

    @property
    def are_kept(self) -> bool:
        """Whether a matcher has asked for a level."""
        return bool(self._made)

    # -- changes ----------------------------------------------------------------------------------------------

    def number_of_changes(self, runs: Changes) -> int:
        """How many changes `change` makes one by one: the pools of a level are not changed in runs."""
        types = self._columns.type
        return sum(number if self._levels.get(types[v]) is not None else 1 for v, number, _ in runs)

    def change(self, runs: Changes, start: int, end: int) -> None:
        """Record that the own use of a few pools grew over the window, or that of all of them shrank."""
        if runs[0][2] < 0:
            self._note_freed(start, end)
        for level in self._made:
            level.change(runs, start, end)

    def change_many(self, vertices: Int64, amounts: Int64, start: int, end: int) -> None:
        """As :meth:`change`, for many pools."""
        if amounts[0] < 0:
            self._note_freed(start, end)
        if not self._made:
            return
        for kind, of_kind in self._columns.by_kind(vertices):
            for level in self._made:
                level.change_many(vertices[of_kind], kind, amounts[of_kind], start, end)

    def cover(self, vertices: Iterable[int], on: bool, start: int, end: int) -> None:
        """Record that pools of size > 1 are held exclusively over the window, or no longer are."""
        if not on:
            self._note_freed(start, end)
        for level in self._made:
            for v in vertices:
                level.cover(v, on, start, end)

    def _note_freed(self, start: int, end: int) -> None:
        while self._latest and self._latest[-1][1] <= end:
            self._latest.pop()
        self._latest.append((self.freed, end))
        while self._earliest and self._earliest[-1][1] >= start:
            self._earliest.pop()
        self._earliest.append((self.freed, start))
        self.freed += 1

    def freed_within(self, mark: int) -> tuple[int, int] | None:
        """The window that contains everything released since `freed` was `mark`; None if nothing was.

        Something that did not fit then does not fit now in any window that ends before this one or starts after it, because there
        units were only allocated since.

        >>> levels = Levels(Columns([-1], [1], [0], [1]), [], [], lambda v: [])
        >>> for window in (5, 9), (7, 8), (2, 3):
        ...     levels.cover([0], False, *window)
        >>> levels.freed_within(0), levels.freed_within(1), levels.freed_within(3)
        ((2, 9), (2, 8), None)
        """
        at = bisect_left(self._latest, (mark, 0))
        if at == len(self._latest):
            return None
        return self._earliest[bisect_left(self._earliest, (mark, BEGINNING))][1], self._latest[at][1]

    # -- audit ------------------------------------------------------------------------------------------------

    def check(self) -> list[Finding]:
        """All findings in the levels; empty if there are none."""
        return [finding for level in self._made for finding in level.check(self._used)]

    @property
    def nbytes(self) -> int:
        """Bytes kept."""
        return sum(level.nbytes for level in self._made)
