"""Availability over time as a step function: how many units are free from each moment on, or which of them.

There is one row for each moment at which something begins or ends.  With counts, a window has room for n units if each of its
rows has n.  With sets, n units must be free in all rows of the window: it is not enough that each row has n, since these may be
different units.  Sets are Python integers: they have any length, and their `&` is as fast as Python gets without a C extension.

Conservative backfilling fits all reservations again whenever a job ends.  Most stay where they are, so it is noted for each
until when something was freed since it was fitted: a search for an earlier start ends there (`freed_since`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from fluxres.clock import FOREVER

Choose = Callable[[int, int], int]
"""Chooses n units from a set."""


def lowest(units: int, n: int) -> int:
    """The n lowest units of a set of at least n.

    >>> bin(lowest(0b110110, 3))
    '0b10110'
    """
    if units.bit_count() == n:
        return units
    # Bisect for the n-th unit; each step counts half as many bits as the one before.
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
    """The n highest units of a set of at least n.

    >>> bin(highest(0b110110, 3))
    '0b110100'
    """
    rest = units.bit_count() - n
    return units & ~lowest(units, rest) if rest else units


class Freed:
    """Windows in which something was freed, numbered in the order in which that happened: when the last of some of them is over.

    >>> freed = Freed()
    >>> for end in (30, 10, 20):
    ...     freed.add(end)
    >>> [freed.until(number) for number in range(4)]
    [30, 20, 20, -1]
    """

    __slots__ = ("_ends", "_numbers", "number")

    def __init__(self) -> None:
        self.number = 0
        """Of the latest window."""
        self._ends: list[int] = []
        self._numbers: list[int] = []
        """Those that no later window outlasts."""

    def add(self, end: int) -> None:
        self.number += 1
        ends, numbers = self._ends, self._numbers
        while ends and ends[-1] <= end:
            ends.pop()
            numbers.pop()
        ends.append(end)
        numbers.append(self.number)

    def until(self, number: int) -> int:
        """When the windows after this one are over; -1 if there are none."""
        at = bisect_right(self._numbers, number)
        return self._ends[at] if at < len(self._ends) else -1


class Availability:
    """The moments and the row from each of them on; the last row has no end.

    Args:
        now: the first moment.
        row: what is free from then on.
    """

    __slots__ = ("_fitted", "_freed", "rows", "times")

    def __init__(self, now: int, row: int) -> None:
        self.times = [now]
        self.rows = [row]
        self._freed = Freed()
        self._fitted: dict[int, int] = {}
        """By key of a reservation at its earliest start, the number of the latest freed window then."""

    def note_freed(self, end: int) -> None:
        """Note that something was freed until a moment, and not only to be taken again."""
        self._freed.add(end)

    def forget(self, key: int) -> None:
        """Note that a reservation is gone."""
        self._fitted.pop(key, None)

    def note_fitted(self, key: int) -> None:
        """Note that a reservation is at its earliest start."""
        self._fitted[key] = self._freed.number

    def freed_since(self, key: int) -> int:
        """Until when something was freed since a reservation was fitted: -1 for nothing, FOREVER if it was not fitted here."""
        number = self._fitted.get(key)
        return FOREVER if number is None else self._freed.until(number)

    def advance(self, now: int) -> None:
        """Drop what is past."""
        gone = bisect_right(self.times, now) - 1
        if gone > 0:
            del self.times[:gone], self.rows[:gone]
        if gone >= 0:
            self.times[0] = now

    def _first(self, numbers: list[int], n: int, duration: int, before: int, until: int) -> int | None:
        """The first start of a row at which rows have n units for `duration`, or None if there is none.

        Args:
            numbers: of the units of each row.
            before: later starts do not count.
            until: rows that begin then or later do not matter.
        """
        times = self.times
        at, stop = 0, len(numbers) if before >= FOREVER else bisect_left(times, before)
        while True:
            while at < stop and numbers[at] < n:
                at += 1
            if at >= stop:
                return None
            start, last = times[at], bisect_left(times, min(times[at] + duration, until), at)
            while at < last and numbers[at] >= n:
                at += 1
            if at >= last:
                return start

    def _split_at(self, moment: int) -> int:
        """The index of the row that begins at a moment, which is added if necessary."""
        times = self.times
        if moment >= FOREVER:
            return len(times)
        at = bisect_left(times, moment)
        if at == len(times) or times[at] != moment:
            times.insert(at, moment)
            self.rows.insert(at, self.rows[at - 1])
        return at

    def _join(self, at: int) -> None:
        """Drop a row that equals the one before it."""
        if 0 < at < len(self.rows) and self.rows[at] == self.rows[at - 1]:
            del self.times[at], self.rows[at]


class AvailableCounts(Availability):
    """The number of units that are free over time.

    >>> rows = AvailableCounts(0, 4)
    >>> rows.change(0, 10, -3)
    >>> rows.earliest(2, 5), rows.fits(1, 0, 99), rows.times, rows.rows
    (10, True, [0, 10], [1, 4])
    """

    __slots__ = ()

    def change(self, start: int, end: int, n: int) -> None:
        """Add n to the free units in [start, end); n may be negative."""
        start = max(start, self.times[0])
        if start >= end:
            return
        first = self._split_at(start)
        stop = self._split_at(end)
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

    def earliest(self, n: int, duration: int, before: int = FOREVER, until: int = FOREVER) -> int | None:
        """The first start at which n units are free for `duration`, or None if there is none; see `_first`."""
        return self._first(self.rows, n, duration, before, until)


class AvailableSets(Availability):
    """The units that are free over time, as bit sets, and their numbers.

    Units that are taken must be free, and units that are given back must not be.

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
        """Take units, which must be free, from [start, end)."""
        self._change(start, end, units, -units.bit_count())

    def give(self, start: int, end: int, units: int) -> None:
        """Give back units, which must not be free, in [start, end)."""
        self._change(start, end, units, units.bit_count())

    def _change(self, start: int, end: int, units: int, more: int) -> None:
        start = max(start, self.times[0])
        if start >= end:
            return
        first = self._split_at(start)
        stop = self._split_at(end)
        rows, counts = self.rows, self.counts
        for at in range(first, stop):
            rows[at] ^= units
            counts[at] += more
        self._join(stop)
        self._join(first)

    def _split_at(self, moment: int) -> int:
        before = len(self.times)
        at = super()._split_at(moment)
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

    def free_in(self, start: int, end: int) -> int:
        """The units that are free throughout [start, end)."""
        first = max(bisect_right(self.times, start) - 1, 0)
        found = self.rows[first]
        for at in range(first + 1, bisect_left(self.times, end)):
            found &= self.rows[at]
        return found

    def earliest(self, n: int, duration: int, among: int, choose: Choose) -> tuple[int, int] | None:
        """The first start at which n units are free for `duration`, and n such units; None if there is none.

        Args:
            among: the units that may be chosen.
            choose: chooses n of the free ones.
        """
        times, rows, counts = self.times, self.rows, self.counts
        count = len(rows)
        begin = 0
        while True:
            while begin < count and counts[begin] < n:
                begin += 1
            if begin == count:
                return None
            # Counts first: a row with too few units rules out the window before any set is computed.
            at, stop = begin, bisect_left(times, times[begin] + duration, begin + 1)
            while at < stop and counts[at] >= n:
                at += 1
            if at == stop:
                units, at = among & rows[begin], begin
                while units.bit_count() >= n:
                    at += 1
                    if at == stop:
                        return times[begin], choose(units, n)
                    units &= rows[at]
                # Any later start whose window still includes these last rows fails too.
                units = among
                while (units := units & rows[at]).bit_count() >= n:
                    at -= 1
            begin = at + 1

    def may_begin(self, n: int, duration: int, before: int, until: int) -> bool:
        """Whether rows have enough units for a start before a moment, if those from another one on do not matter."""
        return self._first(self.counts, n, duration, before, until) is not None
