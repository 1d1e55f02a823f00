"""The levels that a planner keeps up for a matcher, and what was given back since when.

Nothing here exists until a matcher asks: a planner that is only written to pays one test of an empty list a change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fluxres.planner.audit import Finding
from fluxres.planner.block import BEGINNING, Ints
from fluxres.planner.columns import Columns
from fluxres.planner.level import Level, Runs
from fluxres.planner.timeline import Timeline


class Levels:
    """Levels by type number.

    Args:
        columns, used, cover: of the planner; the timelines by type number, as they come into being.
        held_whole: (start, end) over all time where a pool is held whole.
    """

    def __init__(
        self, columns: Columns, used: Sequence[Timeline | None], cover: Sequence[Timeline | None], held_whole: Runs
    ) -> None:
        self._columns, self._used, self._cover = columns, used, cover
        self._held_whole = held_whole
        self._levels: dict[int, Level | None] = {}
        self._told: list[Level] = []
        #: (number, end) and (number, start) of what was given back: those that no later one outlasts, or precedes.
        self._latest: list[tuple[int, int]] = []
        self._earliest: list[tuple[int, int]] = []
        #: How often something was given back.
        self.freed = 0

    # -- asking -----------------------------------------------------------------------------------------------

    def of(self, kind: int) -> Level | None:
        """The pools of a type as a matcher sees them, kept up from now on; None for a type whose pools nest or have sizes.

        Cost: the first time O(n) and what is held now; each later change a few microseconds more.
        """
        if kind not in self._levels:
            level = None
            if Level.is_flat(self._columns, kind):
                level = Level(self._columns, kind, self._held_whole, self._ever_whole)
                self._recall(level)
                self._told.append(level)
            self._levels[kind] = level
        return self._levels[kind]

    def counted(self, level: Level, kind: int) -> Level:
        """The level, with the units of a type below it counted from now on."""
        if not level.is_counted(kind):
            level.count(kind, self._used[kind])
        return level

    def covers_between(self, level: Level, kind: int) -> bool:
        """Whether anything that stands below the level and above pools of a type may be held whole at some moment."""
        return any(map(self._ever_whole, level.between(kind)))

    def moments(self, level: Level, kinds: Iterable[int], start: int, end: int) -> list[int]:
        """Moments in [start, end) that matter to who asks for these types in pools of a level, ascending.

        The counts of a level do not say them all: one unit may be given back at the very moment another one is taken.
        """
        found = level.moments(start, end)
        for line in self._lines(level, kinds):
            found |= line.moments(start, end)
        return sorted(found)

    def next_moment(self, level: Level, kinds: Iterable[int], after: int) -> int | None:
        """The first of these moments from `after` on, or None.  Cost: one bisection a block."""
        series = [level.roof.times, level.touched.times]
        series += [block.times for line in self._lines(level, kinds) for block in line.blocks.values()]
        found = [times[at] for times in series if (at := bisect_left(times, after, 1)) < len(times)]
        return min(found, default=None)

    def _lines(self, level: Level, kinds: Iterable[int]) -> list[Timeline]:
        lines = [line for kind in kinds for line in (self._used[kind], *(self._cover[above] for above in level.between(kind)))]
        return [line for line in lines if line is not None]

    def _ever_whole(self, kind: int) -> bool:
        line = self._cover[kind]
        return line is not None and line.breakpoints > 0

    def _recall(self, level: Level) -> None:
        """Tell a new level what is held already."""
        for kind, line in enumerate(self._used):
            if line is None:
                continue
            for start, end, ordinals, units in line.rows():
                vertices = self._columns.vertices(kind)[ordinals].astype(np.int64)
                level.change_many(vertices, kind, units.astype(np.int64), start, end)
            cover = self._cover[kind]
            if cover is None or cover is line:
                continue
            for start, end, ordinals, _ in cover.rows():
                for v in self._columns.vertices(kind)[ordinals].tolist():
                    level.cover(v, True, start, end)

    # -- being told -------------------------------------------------------------------------------------------

    def change(self, v: int, kind: int, size: int, amount: int, start: int, end: int) -> None:
        """The own use of a pool grew (or shrank) by `amount` over the window."""
        if amount < 0:
            self._note_freed(start, end)
        for level in self._told:
            level.change(v, kind, size, amount, start, end)

    def change_many(self, vertices: Ints, amounts: Ints, start: int, end: int) -> None:
        """The same of many pools at once, all up or all down."""
        if amounts[0] < 0:
            self._note_freed(start, end)
        if not self._told:
            return
        for kind, of_kind in self._columns.by_kind(vertices):
            for level in self._told:
                level.change_many(vertices[of_kind], kind, amounts[of_kind], start, end)

    def change_few(self, pools: Mapping[int, Sequence[tuple[int, int]]], start: int, end: int) -> None:
        """The same of a few pools: (vertex, amount) by type number."""
        if any(amount < 0 for part in pools.values() for _, amount in part):
            self._note_freed(start, end)
        for level in self._told:
            for kind, part in pools.items():
                level.change_few(part, kind, start, end)

    def cover(self, vertices: Iterable[int], on: bool, start: int, end: int) -> None:
        """Pools of size > 1 are held whole over the window, or no longer are."""
        if not on:
            self._note_freed(start, end)
        for level in self._told:
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
        """The window in which all lies that was given back since `freed` was `mark`; None when nothing was.

        What did not fit then does not fit now in any window that ends before it or starts after it, because there units were
        only taken since then.

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

    # -- the whole --------------------------------------------------------------------------------------------

    def check(self) -> list[Finding]:
        """What is wrong inside; empty when nothing is."""
        return [finding for level in self._told for finding in level.check(self._used)]

    @property
    def nbytes(self) -> int:
        """Bytes kept."""
        return sum(level.nbytes for level in self._told)
