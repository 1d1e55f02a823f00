"""Availability over time, row by row: what is free from one moment to the next, as a number or as a set of named units.

Between two moments at which something begins or ends nothing changes, so one row per such moment says everything.  A window
is free for n units where every row in it has n of them (numbers), or where n of them are free in all of it (sets): two halves
of the window may have different units free, and then a number would lie.  Sets are Python integers: their `&` is as fast as
anything without a call into C of our own, and they have any length.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from fluxres.clock import FOREVER

Choose = Callable[[int, int], int]
"""Chooses n units of a set."""


def lowest(units: int, n: int) -> int:
    """The n lowest units of a set that has at least n.

    >>> bin(lowest(0b110110, 3))
    '0b10110'
    """
    if units.bit_count() == n:
        return units
    low, high = n, units.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (units & ((1 << middle) - 1)).bit_count() < n:
            low = middle + 1
        else:
            high = middle
    return units & ((1 << low) - 1)


def highest(units: int, n: int) -> int:
    """The n highest units of a set that has at least n.

    >>> bin(highest(0b110110, 3))
    '0b110100'
    """
    return units & ~lowest(units, units.bit_count() - n)


class Rows:
    """The common half: moments, and rows between them; the last one has no end.

    Args:
        now: the first moment.
        row: what is free from then on.
    """

    __slots__ = ("rows", "times")

    def __init__(self, now: int, row: int) -> None:
        self.times = [now]
        self.rows = [row]

    def advance(self, now: int) -> None:
        """Drop what is past."""
        gone = bisect_right(self.times, now) - 1
        if gone > 0:
            del self.times[:gone], self.rows[:gone]
        if gone >= 0:
            self.times[0] = now

    def _cut(self, moment: int) -> int:
        """The row that begins at a moment."""
        times = self.times
        if moment >= FOREVER:
            return len(times)
        at = bisect_left(times, moment)
        if at == len(times) or times[at] != moment:
            times.insert(at, moment)
            self.rows.insert(at, self.rows[at - 1])
        return at

    def _join(self, at: int) -> None:
        """Drop a moment at which nothing changes."""
        if 0 < at < len(self.rows) and self.rows[at] == self.rows[at - 1]:
            del self.times[at], self.rows[at]


class Numbers(Rows):
    """Rows of how many units are free.

    >>> rows = Numbers(0, 4)
    >>> rows.change(0, 10, -3)
    >>> rows.earliest(2, 5), rows.fits(1, 0, 99), rows.times, rows.rows
    (10, True, [0, 10], [1, 4])
    """

    __slots__ = ()

    def change(self, start: int, end: int, n: int) -> None:
        """n more units (or fewer) are free in [start, end)."""
        start = max(start, self.times[0])
        if start >= end:
            return
        first = self._cut(start)
        stop = self._cut(end)
        rows = self.rows
        for at in range(first, stop):
            rows[at] += n
        self._join(stop)
        self._join(first)

    def fits(self, n: int, start: int, end: int) -> bool:
        """Whether n units are free throughout [start, end)."""
        times, rows = self.times, self.rows
        at = max(bisect_right(times, start) - 1, 0)
        while rows[at] >= n:
            at += 1
            if at == len(rows) or times[at] >= end:
                return True
        return False

    def earliest(self, n: int, duration: int) -> int | None:
        """The first start from the first moment on, or None where there never is one."""
        times, rows = self.times, self.rows
        count = len(rows)
        begin = at = 0
        while True:
            while at < count and rows[at] < n:
                at += 1
            if at == count:
                return None
            begin = at
            end = times[begin] + duration
            while at < count and times[at] < end and rows[at] >= n:
                at += 1
            if at == count or times[at] >= end:
                return times[begin]


class Sets(Rows):
    """Rows of which units are free.

    >>> rows = Sets(0, 0b111)
    >>> rows.take(0, 10, 0b011)
    >>> rows.take(20, 30, 0b100)
    >>> rows.earliest(2, 5, 0b111, lowest)
    (10, 3)
    """

    __slots__ = ()

    def take(self, start: int, end: int, units: int) -> None:
        """These units are not free in [start, end)."""
        self._change(start, end, units, 0)

    def give(self, start: int, end: int, units: int) -> None:
        """These units are free in [start, end)."""
        self._change(start, end, units, units)

    def _change(self, start: int, end: int, units: int, value: int) -> None:
        start = max(start, self.times[0])
        if start >= end:
            return
        first = self._cut(start)
        stop = self._cut(end)
        rows = self.rows
        if value:
            for at in range(first, stop):
                rows[at] |= units
        else:
            keep = ~units
            for at in range(first, stop):
                rows[at] &= keep
        self._join(stop)
        self._join(first)

    def free(self, start: int, end: int) -> int:
        """The units that are free throughout [start, end)."""
        times, rows = self.times, self.rows
        at = max(bisect_right(times, start) - 1, 0)
        units = rows[at]
        stop = bisect_left(times, end)
        for row in rows[at + 1 : stop]:
            units &= row
        return units

    def earliest(self, n: int, duration: int, among: int, choose: Choose) -> tuple[int, int] | None:
        """The first start from the first moment on and n units that are free then for `duration`, or None.

        Args:
            among: the units that may be chosen at all.
            choose: takes n of those that are free.
        """
        times, rows = self.times, self.rows
        count = len(rows)
        begin = 0
        while begin < count:
            end = times[begin] + duration
            units, at = among, begin
            while True:
                units &= rows[at]
                if units.bit_count() < n:
                    break
                at += 1
                if at == count or times[at] >= end:
                    return times[begin], choose(units, n)
            # Every start from which the window still has these last rows fails too.
            units = among
            while (units := units & rows[at]).bit_count() >= n:
                at -= 1
            begin = at + 1
        return None
