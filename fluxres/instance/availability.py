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
    # Halve the part that has the n-th unit; each step looks at half as many bits as the one before.
    part, left, at = units, n, 0
    width = units.bit_length()
    while width > 1:
        half = width >> 1
        low = part & ((1 << half) - 1)
        count = low.bit_count()
        if count >= left:
            part, width = low, half
        else:
            part >>= half
            left -= count
            at += half
            width -= half
    return units & ((1 << (at + 1)) - 1)


def highest(units: int, n: int) -> int:
    """The n highest units of a set that has at least n.

    >>> bin(highest(0b110110, 3))
    '0b110100'
    """
    rest = units.bit_count() - n
    return units & ~lowest(units, rest) if rest else units


class Availability:
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


class AvailableCounts(Availability):
    """Rows of how many units are free.

    >>> rows = AvailableCounts(0, 4)
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


class AvailableSets(Availability):
    """Rows of which units are free, and of how many they are.

    Units that are taken must be free, and those given back must not be.

    >>> rows = AvailableSets(0, 0b111)
    >>> rows.take(0, 10, 0b011)
    >>> rows.take(20, 30, 0b100)
    >>> rows.earliest(2, 5, 0b111, lowest)
    (10, 3)
    >>> rows.fits(0b011, 10, 20), rows.fits(0b110, 10, 21)
    (True, False)
    """

    __slots__ = ("counts",)

    def __init__(self, now: int, row: int) -> None:
        super().__init__(now, row)
        self.counts = [row.bit_count()]

    def advance(self, now: int) -> None:
        """Drop what is past."""
        gone = bisect_right(self.times, now) - 1
        if gone > 0:
            del self.counts[:gone]
        super().advance(now)

    def take(self, start: int, end: int, units: int) -> None:
        """These units, which are free in [start, end), no longer are."""
        self._change(start, end, units, -units.bit_count())

    def give(self, start: int, end: int, units: int) -> None:
        """These units, which are not free in [start, end), are."""
        self._change(start, end, units, units.bit_count())

    def _change(self, start: int, end: int, units: int, more: int) -> None:
        start = max(start, self.times[0])
        if start >= end:
            return
        first = self._cut(start)
        stop = self._cut(end)
        rows, counts = self.rows, self.counts
        for at in range(first, stop):
            rows[at] ^= units
            counts[at] += more
        self._join(stop)
        self._join(first)

    def _cut(self, moment: int) -> int:
        before = len(self.times)
        at = super()._cut(moment)
        if len(self.times) > before:
            self.counts.insert(at, self.counts[at - 1])
        return at

    def _join(self, at: int) -> None:
        if 0 < at < len(self.rows) and self.counts[at] == self.counts[at - 1] and self.rows[at] == self.rows[at - 1]:
            del self.times[at], self.rows[at], self.counts[at]

    def fits(self, units: int, start: int, end: int) -> bool:
        """Whether these units are free throughout [start, end)."""
        times, rows = self.times, self.rows
        at = max(bisect_right(times, start) - 1, 0)
        while not units & ~rows[at]:
            at += 1
            if at == len(rows) or times[at] >= end:
                return True
        return False

    def earliest(self, n: int, duration: int, among: int, choose: Choose) -> tuple[int, int] | None:
        """The first start from the first moment on and n units that are free then for `duration`, or None.

        Args:
            among: the units that may be chosen at all.
            choose: takes n of those that are free.
        """
        times, rows, counts = self.times, self.rows, self.counts
        count = len(rows)
        begin = 0
        while True:
            while begin < count and counts[begin] < n:
                begin += 1
            if begin == count:
                return None
            # Numbers first: a row with too few ends the window before any set is looked at.
            end, stop = times[begin] + duration, begin + 1
            while stop < count and times[stop] < end:
                if counts[stop] < n:
                    break
                stop += 1
            else:
                units, at = among & rows[begin], begin
                while units.bit_count() >= n:
                    at += 1
                    if at == stop:
                        return times[begin], choose(units, n)
                    units &= rows[at]
                # Every start from which the window still has these last rows fails too.
                units = among
                while (units := units & rows[at]).bit_count() >= n:
                    at -= 1
                begin = at + 1
                continue
            begin = stop + 1
