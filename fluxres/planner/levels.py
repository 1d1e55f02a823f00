"""The levels that a planner maintains for matchers, and the window of what was freed since a given moment.

Nothing here exists until a matcher asks for it: a planner that is only written to pays for one test of an empty list per change.
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
        columns, used, cover: of the planner; `used` and `cover` are timelines by type number, created on first use.
        held_whole: (start, end) over all time where a pool is held exclusively.
    """

    def __init__(
        self, columns: Columns, used: Sequence[Timeline | None], cover: Sequence[Timeline | None], held_whole: Runs
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
                level = Level(self._columns, kind, self._held_whole, self._ever_whole)
                self._recall(level)
                self._made.append(level)
            self._levels[kind] = level
        return self._levels[kind]

    def counted(self, level: Level, kind: int) -> Level:
        """The level, which from now on counts the units of a type below it."""
        if not level.is_counted(kind):
            level.count(kind, self._used[kind])
        return level

    def covers_between(self, level: Level, kind: int) -> bool:
        """Whether any pool below the level and above pools of a type may be held exclusively at some moment."""
        return any(map(self._ever_whole, level.between(kind)))

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

    def _ever_whole(self, kind: int) -> bool:
        line = self._cover[kind]
        return line is not None and line.breakpoints > 0

    def _recall(self, level: Level) -> None:
        """Pass everything held already to a new level."""
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

    # -- changes ----------------------------------------------------------------------------------------------

    def change(self, v: int, kind: int, size: int, amount: int, start: int, end: int) -> None:
        """Record that a pool's own use grew (or shrank) by `amount` over the window."""
        if amount < 0:
            self._note_freed(start, end)
        for level in self._made:
            level.change(v, kind, size, amount, start, end)

    def change_many(self, vertices: Ints, amounts: Ints, start: int, end: int) -> None:
        """As :meth:`change`, for many pools at once, all up or all down."""
        if amounts[0] < 0:
            self._note_freed(start, end)
        if not self._made:
            return
        for kind, of_kind in self._columns.by_kind(vertices):
            for level in self._made:
                level.change_many(vertices[of_kind], kind, amounts[of_kind], start, end)

    def change_few(self, pools: Mapping[int, Sequence[tuple[int, int]]], start: int, end: int) -> None:
        """As :meth:`change`, for a few pools: (vertex, amount) by type number."""
        if any(amount < 0 for part in pools.values() for _, amount in part):
            self._note_freed(start, end)
        for level in self._made:
            for kind, part in pools.items():
                level.change_few(part, kind, start, end)

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
