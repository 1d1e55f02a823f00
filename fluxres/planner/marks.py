"""Marked pools of one level over time, such as which nodes are taken: one bit per node and one row per breakpoint.

The planner's own rows (`block.py`) contain the use of each pool, in small blocks so that a change touches little.  A matcher asks
the opposite question: of *all* nodes, which are unmarked through a window?  So here a row spans the level.  It is an integer, bit
k of which is pool k: adjacent rows share it until one of them changes, a mark is one operation on it, and a window is folded with
`|`.  With few rows that is much cheaper than NumPy, and not dearer with hundreds of rows of ten thousand bits.  The number of
marks in each row is stored with it: a window whose fullest row leaves too few nodes is skipped without reading it.

Marks are set and cleared, not counted: before it clears one, the caller must ensure that nothing else marks the pool
(`level.py` does).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import reduce
from itertools import pairwise
from operator import or_

import numpy as np
import numpy.typing as npt

from fluxres.arrays import Int64, Mask
from fluxres.clock import FOREVER
from fluxres.planner.block import BEGINNING, WORD, Breakpoints, unpack
from fluxres.planner.deltas import Deltas

Bits = int
"""Pools of a level as the bits of an integer, by ordinal."""


class Marks(Breakpoints):
    """Bits of `length` pools over time.

    >>> marks = Marks(3)
    >>> marks.mark(marks.bits([0, 2]), True, 5, 9)
    >>> bin(marks.folded(0, 6)), bin(marks.folded(9, 12)), marks.runs(2)
    ('0b101', '0b0', [(5, 9)])
    """

    __slots__ = ("length", "ones", "rows")

    def __init__(self, length: int) -> None:
        self.length = length
        super().__init__()
        self.rows: list[Bits] = [0]
        #: The number of marks in each row.
        self.ones = array("q", [0])

    def bits(self, ordinals: npt.ArrayLike) -> Bits:
        """These pools as bits."""
        flags = np.zeros(self.length, np.bool_)
        flags[np.asarray(ordinals, np.int64)] = True
        return bits_of(flags)

    # -- changes ----------------------------------------------------------------------------------------------

    def _insert(self, k: int, time: int) -> None:
        self.times.insert(k, time)
        self.rows.insert(k, self.rows[k - 1])
        self.ones.insert(k, self.ones[k - 1])

    def _settle(self, i: int, j: int) -> None:
        """Remove the breakpoints from i to j at which nothing changes any more."""
        rows = self.rows
        for k in range(min(j, len(rows) - 1), max(i, 1) - 1, -1):
            if rows[k] == rows[k - 1]:
                del self.times[k], rows[k], self.ones[k]

    def mark(self, bits: Bits, on: bool, start: int, end: int) -> None:
        """Mark these pools over the window, or clear their marks.  Cost: the rows of the window."""
        i, j = self._cut(*self.window(start, end), start, end, 2)
        rows = self.rows
        for k in range(i, j):
            row = rows[k] = rows[k] | bits if on else rows[k] & ~bits
            self.ones[k] = row.bit_count()
        self._settle(i, j)

    def mark_one(self, ordinal: int, on: bool, start: int, end: int) -> None:
        """Mark one pool over the window, or clear its mark."""
        times, rows, ones = self.times, self.rows, self.ones
        bit, step = 1 << ordinal, 1 if on else -1
        i, j = self.window(start, end)
        if j - i == 1:  # as most windows are
            row, number = rows[i], ones[i]
            if (row & bit != 0) == on:
                return
            if times[i] < start and end < (times[j] if j < len(times) else FOREVER):  # the row goes on before and after
                times[j:j] = array("q", (start, end))
                rows[j:j] = row ^ bit, row
                ones[j:j] = array("q", (number + step, number))
                return
        i, j = self._cut(i, j, start, end, 2)
        for k in range(i, j):
            row = rows[k]
            if (row & bit == 0) == on:
                rows[k] = row ^ bit
                ones[k] += step
        self._settle(i, j)

    def fill(self, use: Deltas) -> None:
        """Mark pools while they are used, where there are no marks yet.

        Args:
            use: when they begin and cease to be, as from :meth:`Deltas.use`.
        """
        order = np.argsort(use.times, kind="stable")
        pools = use.pools[order]
        moments, first = np.unique(use.times[order], return_index=True)
        if not moments.size:
            return
        self.times.frombytes(moments.tobytes())
        self.ones.frombytes(np.cumsum(np.add.reduceat(use.units[order], first)).tobytes())
        row = 0
        for lo, hi in pairwise([*first.tolist(), len(pools)]):
            row ^= 1 << pools.item(lo) if hi - lo == 1 else self.bits(pools[lo:hi])
            self.rows.append(row)

    # -- queries ----------------------------------------------------------------------------------------------

    def folded(self, start: int, end: int) -> Bits:
        """Pools marked at any moment of the window."""
        i, j = self.window(start, end)
        return self.rows[i] if j - i == 1 else reduce(or_, self.rows[i:j])

    def runs(self, ordinal: int) -> list[tuple[int, int]]:
        """(start, end) where one pool is marked; adjacent ones are merged."""
        return self._where(ordinal, True, BEGINNING, FOREVER)

    def gaps(self, ordinal: int, start: int, end: int) -> list[tuple[int, int]]:
        """(start, end) where one pool is not marked within a window; adjacent ones are merged."""
        return self._where(ordinal, False, start, end)

    def _where(self, ordinal: int, on: bool, start: int, end: int) -> list[tuple[int, int]]:
        i, j = self.window(start, end)
        bit = 1 << ordinal
        return self.joined([k for k, row in enumerate(self.rows[i:j], i) if (row & bit != 0) == on], start, end)

    def roomy_start(self, most: int, duration: int, after: int) -> int | None:
        """The first start from `after` on in whose window no row has more than `most` marks; None if there is none.

        This is a necessary condition for a window that leaves enough pools, from the counts alone.  Cost: one vector scan.
        """
        k = bisect_right(self.times, after) - 1
        full = np.flatnonzero(np.frombuffer(self.ones[k:], np.int64) > most) + k
        start = after
        for row in full.tolist():
            if self.times[row] >= start + duration:
                break
            start = self.end_of(row)
            if start >= FOREVER:
                return None
        return start

    def blocked_until(self, wanted: Bits, need: int, start: int, end: int) -> int:
        """The end of the last row that, together with the rows after it in the window, leaves fewer than `need` of the wanted
        pools.

        Every window that is moved right but still begins before that moment contains those rows and fails too.  The caller knows
        that the window itself fails.  Cost: mostly the last rows of the window.
        """
        i, j = self.window(start, end)
        rows = self.rows
        for k in range(j - 1, i, -1):
            lost = wanted & rows[k]
            if lost:
                wanted ^= lost
                if wanted.bit_count() < need:
                    return self.end_of(k)
        return self.end_of(i)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and breakpoints."""
        return len(self.rows) * (self.length // 8) + 16 * len(self.times)

    def check(self) -> list[str]:
        """What is wrong inside; empty when nothing is."""
        found = []
        if any(a >= b for a, b in pairwise(self.times)):
            found.append("breakpoints of a level are not ascending")
        for k, row in enumerate(self.rows):
            if row.bit_count() != self.ones[k]:
                found.append(f"marks from tick {self.times[k]} on are miscounted")
            if k and row == self.rows[k - 1]:
                found.append(f"nothing changes at breakpoint {self.times[k]} of a level")
        return found


def bits_of(flags: Mask) -> Bits:
    """The pools with a flag as bits.

    >>> bits_of(np.array([True, False, True]))
    5
    """
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def ordinals_of(bits: Bits, length: int) -> Int64:
    """The positions of the set bits, ascending.

    >>> ordinals_of(13, 64).tolist()
    [0, 2, 3]
    """
    words = np.frombuffer(bits.to_bytes((length + 63) // 64 * 8, "little"), WORD)
    busy = words.nonzero()[0]
    if busy.size * 4 < words.size:
        found = unpack(words[busy]).view(np.bool_).nonzero()[0]
        return np.asarray(busy[found >> 6] << 6 | found & 63)
    return np.asarray(unpack(words).view(np.bool_).nonzero()[0])
