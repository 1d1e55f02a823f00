"""One level of a machine, mostly its nodes, as a matcher sees it: which are held, which are touched, how much is used inside.

These are RFC 4's pruning filters, exact in time.  Three things are kept for the pools of a level, each to answer one question:

* `roof`: the pool, or one above it, is held exclusively.  Nothing in it is available.
* `touched`: that, or anything below it is used.  It cannot be allocated exclusively.
* `used(T)`: units of type T below it that are used, at the busiest moment of a window.  The rest is an upper bound of what is
free through the whole window, because different cores may be busy at different moments.  A matcher uses it to skip pools, and
looks at the units themselves in the few that remain.

A level is created by the first question about it and receives every change from then on.  Setting a mark needs no other
information; clearing one requires looking up what else marks the pool, which costs only where something does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fluxres.clock import FOREVER
from fluxres.planner.audit import Finding
from fluxres.planner.bits import Words
from fluxres.planner.block import BEGINNING, Ints
from fluxres.planner.columns import Columns
from fluxres.planner.distinct import distinct
from fluxres.planner.marks import Marks
from fluxres.planner.timeline import Timeline, narrowest

Runs = Callable[[int], list[tuple[int, int]]]
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
        held_whole: (start, end) over all time where a pool is held exclusively, from the planner.
        ever_whole: whether any pool of a type number is ever held exclusively.
    """

    def __init__(self, columns: Columns, kind: int, held_whole: Runs, ever_whole: Callable[[int], bool]) -> None:
        self.kind = kind
        self.vertices = columns.vertices(kind)
        self.ends = columns.ends[self.vertices]
        self.length = len(self.vertices)
        self.roof = Marks(self.length)
        self.touched = Marks(self.length)
        self._columns = columns
        self._held_whole = held_whole
        self._ever_whole = ever_whole
        self._counts: dict[int, Timeline] = {}
        #: By ordinal: the units of any type used below the pool, as (moment, units from then on); only pools with some.
        self._inside: dict[int, list[tuple[int, int]]] = {}
        # The pools of the level and the gaps between them, alternating, so that one `repeat` fills the column.
        edges = np.zeros(2 * self.length + 2, np.int64)
        edges[1:-1:2], edges[2:-1:2], edges[-1] = self.vertices, self.ends, columns.n
        ordinals = np.full(2 * self.length + 1, -1, np.int32)
        ordinals[1::2] = np.arange(self.length, dtype=np.int32)
        #: By vertex: the ordinal of the pool of this level that it is or is below, else -1.
        self.ordinal_of: npt.NDArray[np.int32] = np.repeat(ordinals, np.diff(edges))
        self._ordinal_of = self.ordinal_of.data
        above = distinct(columns.parents[self.vertices])
        types: set[int] = set()
        while above.size and (above := above[above >= 0]).size:
            types.update(distinct(columns.type_numbers[above]).tolist())
            above = distinct(columns.parents[above])
        self._types_above = sorted(types)
        self._edges: dict[int, tuple[Ints, Ints]] = {}
        self._between: dict[int, list[int]] = {}

    @staticmethod
    def is_flat(columns: Columns, kind: int) -> bool:
        """Whether the pools of this type all have size 1 and none is below another."""
        vertices = columns.vertices(kind)
        return columns.dtype(kind) is None and bool((columns.ends[vertices[:-1]] <= vertices[1:]).all())

    # -- questions --------------------------------------------------------------------------------------------

    def edges(self, kind: int) -> tuple[Ints, Ints]:
        """Per pool, the ordinals [first, stop) of the pools of another type below it."""
        found = self._edges.get(kind)
        if found is None:
            table = self._columns.vertices(kind)
            found = table.searchsorted(self.vertices), table.searchsorted(self.ends)
            self._edges[kind] = found
        return found

    def peaks(self, kind: int, start: int, end: int, among: Words | None = None) -> npt.NDArray[np.int64] | None:
        """Per pool, the units of a counted type used below it at the busiest moment; None if none are used (see `count`).

        Args:
            among: the pools of interest, as bits; others may be returned as 0.
        """
        line = self._counts[kind]
        if not line.breakpoints:
            return None
        wanted = line.blocks.keys() if among is None else set((among.nonzero()[0] * 64 // SPAN).tolist())
        found: npt.NDArray[np.int64] | None = None
        for number, block in line.blocks.items():
            if number not in wanted or len(block.times) == 1:
                continue
            used = block.peaks(0, block.length, start, end)
            if used is not None:
                if found is None:
                    found = np.zeros(self.length, np.int64)
                found[number * SPAN : number * SPAN + block.length] = used
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

    def is_counted(self, kind: int) -> bool:
        """Whether `peaks` supports this type."""
        return kind in self._counts

    def moments(self, start: int, end: int) -> set[int]:
        """Breakpoints of the marks in [start, end)."""
        found: set[int] = set()
        for times in (self.roof.times, self.touched.times):
            found.update(times[bisect_left(times, start, 1) : bisect_left(times, end)])
        return found

    # -- changes ----------------------------------------------------------------------------------------------

    def count(self, kind: int, line: Timeline | None) -> None:
        """Count the units of a type from now on; `line` is its use so far."""
        self._counts[kind] = self._counted(kind, line)

    def _counted(self, kind: int, line: Timeline | None) -> Timeline:
        first, stop = self.edges(kind)
        sizes = np.concatenate([[0], np.cumsum(self._columns.sizes[self._columns.vertices(kind)])])
        most = int((sizes[stop] - sizes[first]).max()) if self.length else 1
        counts = Timeline(self.length, SPAN, narrowest(most))
        if line is not None:
            vertices = self._columns.vertices(kind)
            for start, end, ordinals, units in line.rows():
                self._count_many(counts, vertices[ordinals], units.astype(np.int64), start, end)
        return counts

    def _count_many(self, counts: Timeline, vertices: npt.NDArray[np.int32], units: Ints, start: int, end: int) -> None:
        pools = self.ordinal_of[vertices]
        there = pools >= 0
        if not there.any():
            return
        sums = np.zeros(self.length, np.int64)
        np.add.at(sums, pools[there], units[there])
        which = np.flatnonzero(sums)
        counts.add(which, sums[which], start, end)

    def change(self, v: int, kind: int, size: int, amount: int, start: int, end: int) -> None:
        """Record that a pool's own use grew (or shrank) by `amount` over the window."""
        pool = self._ordinal_of[v]
        if kind == self.kind:
            self._roof_one(pool, amount > 0, start, end)
        elif pool >= 0:
            counts = self._counts.get(kind)
            if counts is not None:
                counts.change(pool, amount, UNITS_MAX, start, end)
            self._use_inside(pool, amount, start, end)
        elif size == 1:
            self.cover(v, amount > 0, start, end)

    def change_many(self, vertices: npt.NDArray[np.int64], kind: int, amounts: Ints, start: int, end: int) -> None:
        """As :meth:`change`, for many pools of one type."""
        if kind == self.kind:
            self._roof_many(self.ordinal_of[vertices], bool(amounts[0] > 0), start, end, own=True)
            return
        counts = self._counts.get(kind)
        pools = self.ordinal_of[vertices]
        there = pools >= 0
        if there.any():
            which, at = np.unique(pools[there], return_inverse=True)
            sums = np.zeros(len(which), np.int64)
            np.add.at(sums, at, amounts[there])
            if counts is not None:
                counts.add(which.astype(np.int64), sums, start, end)
            for pool, units in zip(which.tolist(), sums.tolist(), strict=True):
                self._use_inside(pool, units, start, end)
        for v, units in zip(vertices[~there].tolist(), amounts[~there].tolist(), strict=True):
            if self._columns.size[v] == 1:
                self.cover(v, units > 0, start, end)

    def change_few(self, pools: Sequence[tuple[int, int]], kind: int, start: int, end: int) -> None:
        """As :meth:`change`, for a few pools of one type, given as (vertex, amount)."""
        if kind == self.kind:
            for v, amount in pools:
                self._roof_one(self._ordinal_of[v], amount > 0, start, end)
            return
        sums: dict[int, int] = {}
        for v, amount in pools:
            pool = self._ordinal_of[v]
            if pool >= 0:
                sums[pool] = sums.get(pool, 0) + amount
            elif self._columns.size[v] == 1:
                self.cover(v, amount > 0, start, end)
        counts = self._counts.get(kind)
        if counts is not None and sums:
            counts.change_few([(pool, amount, UNITS_MAX) for pool, amount in sums.items()], start, end)
        for pool, amount in sums.items():
            self._use_inside(pool, amount, start, end)

    def cover(self, v: int, on: bool, start: int, end: int) -> None:
        """Record that a pool above this level is held exclusively over the window, or no longer is; other pools are ignored."""
        if self._ordinal_of[v] < 0:
            lo = int(self.vertices.searchsorted(np.int32(v)))
            hi = int(self.vertices.searchsorted(np.int32(self._columns.end[v])))
            if lo < hi:
                self._roof_many(np.arange(lo, hi), on, start, end, own=False)

    def _roof_one(self, pool: int, on: bool, start: int, end: int) -> None:
        if on:
            self.roof.set_one(pool, start, end)
            self.touched.set_one(pool, start, end)
        else:
            self.roof.clear_one(pool, start, end)
            self.touched.clear_one(pool, start, end)
            self._restore(pool, start, end)

    def _roof_many(self, pools: npt.NDArray[Any], on: bool, start: int, end: int, *, own: bool) -> None:
        words = self.roof.words(pools)
        if on:
            self.roof.set(words, start, end)
            self.touched.set(words, start, end)
            return
        self.roof.clear(words, start, end)
        self.touched.clear(words, start, end)
        # A pool that was released itself is not held any more, so only the pools above it need to be checked.
        if any(map(self._ever_whole, self._types_above if own else (self.kind, *self._types_above))):
            left = pools.tolist()
        else:
            left = [pool for pool in pools.tolist() if pool in self._inside] if self._inside else []
        for pool in left:
            self._restore(pool, start, end)

    def _restore(self, pool: int, start: int, end: int) -> None:
        """Over a window just cleared, mark again where something else holds or uses the pool."""
        v = int(self.vertices[pool])
        if any(map(self._ever_whole, (self.kind, *self._types_above))):
            while v >= 0:
                for lo, hi in self._held_whole(v):
                    if lo < end and start < hi:
                        self.roof.set_one(pool, max(lo, start), min(hi, end))
                        self.touched.set_one(pool, max(lo, start), min(hi, end))
                v = self._columns.parent[v]
        for lo, hi in _positive(self._inside.get(pool, []), start, end):
            self.touched.set_one(pool, lo, hi)

    def _use_inside(self, pool: int, amount: int, start: int, end: int) -> None:
        steps = self._inside.setdefault(pool, [(BEGINNING, 0)])
        _add(steps, start, end, amount)
        if len(steps) == 1:
            del self._inside[pool]
        if amount > 0:
            self.touched.set_one(pool, start, end)
        else:
            self.touched.clear_one(pool, start, end)
            for lo, hi in _positive(steps, start, end):
                self.touched.set_one(pool, lo, hi)
            for lo, hi in self.roof.runs(pool, start, end):
                self.touched.set_one(pool, max(lo, start), min(hi, end))

    def check(self, used: Sequence[Timeline | None]) -> list[Finding]:
        """What is wrong with the marks and the counts; empty if nothing is.

        Args:
            used: of the planner, by type number.
        """
        found: list[Finding] = [(-1, f"{text} (A1)") for text in (*self.roof.check(), *self.touched.check())]
        for pool, steps in self._inside.items():
            runs = self.touched.runs(pool)
            for lo, hi in _positive(steps):
                if not any(first <= lo and hi <= stop for first, stop in runs):
                    found.append((int(self.vertices[pool]), f"used below from tick {lo} on, but not marked (A1)"))
        for kind, counts in self._counts.items():
            have, expected = _by_pool(counts), _by_pool(self._counted(kind, used[kind]))
            for pool in sorted(have.keys() | expected.keys()):
                if have.get(pool) != expected.get(pool):
                    what = f"used below, of type number {kind}: counted {have.get(pool, [])}, expected {expected.get(pool, [])}"
                    found.append((int(self.vertices[pool]), f"{what} (A1)"))
        return found

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


def _by_pool(counts: Timeline) -> dict[int, list[tuple[int, int, int]]]:
    """By ordinal, the (start, end, units) where units are counted, one entry for each constant step."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    for start, end, ordinals, units in counts.rows():
        for pool, count in zip(ordinals.tolist(), units.tolist(), strict=True):
            spans = found.setdefault(pool, [])
            if spans and spans[-1][1:] == (start, count):
                spans[-1] = spans[-1][0], end, count
            else:
                spans.append((start, end, count))
    return found


def _positive(steps: list[tuple[int, int]], start: int = BEGINNING, end: int = FOREVER) -> Iterator[tuple[int, int]]:
    """(start, end) where units are used, cut to a window."""
    for k in range(max(bisect_left(steps, (start, -1)) - 1, 0), len(steps)):
        lo, units = steps[k]
        if lo >= end:
            return
        hi = steps[k + 1][0] if k + 1 < len(steps) else FOREVER
        if units > 0 and hi > start:
            yield max(lo, start), min(hi, end)


def _add(steps: list[tuple[int, int]], start: int, end: int, amount: int) -> None:
    """Add `amount` to a step function over the window, in place; steps of equal height are one.

    >>> steps = [(-9, 0)]
    >>> _add(steps, 2, 5, 3); steps
    [(-9, 0), (2, 3), (5, 0)]
    >>> _add(steps, 2, 5, -3); steps
    [(-9, 0)]
    """
    i = _cut(steps, start)
    j = _cut(steps, end) if end < FOREVER else len(steps)
    for k in range(i, j):
        steps[k] = steps[k][0], steps[k][1] + amount
    for k in (j, i):
        if k < len(steps) and steps[k][1] == steps[k - 1][1]:
            del steps[k]


def _cut(steps: list[tuple[int, int]], moment: int) -> int:
    """The index of the step that begins at a moment after the first, which is made where there is none."""
    k = bisect_left(steps, (moment, -1))
    if k == len(steps) or steps[k][0] != moment:
        steps.insert(k, (moment, steps[k - 1][1]))
    return k
