"""Marked pools of one level over time, such as which nodes are taken: one bit per node and one row per breakpoint.

The planner's own rows (`block.py`) contain the use of each pool, in small blocks so that a change touches little.  A matcher asks
the opposite question: of *all* nodes, which are unmarked through a window?  Ten thousand nodes are 160 words, so here a row spans
the level, a window is one `bitwise_or` over its rows, and the number of marks in each row is stored with it: a window whose
fullest row leaves too few nodes is skipped without reading it.

Marks are set and cleared, not counted: before it clears one, the caller must ensure that nothing else marks the pool
(`level.py` does).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from fluxres.clock import FOREVER
from fluxres.planner.block import BEGINNING, REDUCED_ROWS, WORD, Breakpoints, Ints, Words, unpack

SCALAR_ROWS_MAX: Final = 24
"""Up to this number of rows, changing one mark row by row is cheaper than a NumPy operation over a column."""

SUFFIX_ROWS: Final = 64
"""Rows accumulated at once from the end of a window: the blocking row is mostly among the last ones."""


class Marks(Breakpoints):
    """Bits of `length` pools over time.

    >>> marks = Marks(3)
    >>> marks.mark(marks.words([0, 2]), True, 5, 9)
    >>> marks.folded(0, 6).tolist(), marks.folded(9, 12).tolist(), marks.runs(2)
    ([5], [0], [(5, 9)])
    """

    __slots__ = ("_counts", "_flat", "_spare", "length", "matrix", "ones", "width")

    def __init__(self, length: int) -> None:
        self.length = length
        self.width = (length + 63) // 64
        super().__init__()
        self._allot(np.zeros((8, self.width), WORD), np.zeros(8, np.int64), 1)

    def _allot(self, matrix: Words, ones: Ints, taken: int) -> None:
        self.matrix = matrix
        #: The number of marks in each row of the matrix.
        self.ones = ones
        # Single words are accessed through memory views, which takes a tenth of the time of a NumPy scalar.
        self._flat, self._counts = matrix.reshape(-1).data, ones.data
        self._spare = list(range(len(matrix) - 1, taken - 1, -1))

    def words(self, ordinals: npt.ArrayLike) -> Words:
        """These pools as bits."""
        flags = np.zeros(64 * self.width, np.uint8)
        flags[np.asarray(ordinals, np.int64)] = 1
        return np.packbits(flags, bitorder="little").view(WORD)

    # -- changes ----------------------------------------------------------------------------------------------

    def _insert(self, k: int, time: int) -> None:
        if not self._spare:
            taken = len(self.matrix)
            matrix = np.concatenate([self.matrix, np.zeros_like(self.matrix)])
            self._allot(matrix, np.concatenate([self.ones, np.zeros_like(self.ones)]), taken)
        row, before, width = self._spare.pop(), self.rows[k - 1], self.width
        self._flat[row * width : (row + 1) * width] = self._flat[before * width : (before + 1) * width]
        self._counts[row] = self._counts[before]
        self.times.insert(k, time)
        self.rows.insert(k, row)

    def _settle(self, i: int, j: int) -> None:
        """Remove the breakpoints from i to j at which nothing changes any more."""
        first, stop = max(i, 1), min(j + 1, len(self.times))
        if stop - first > SCALAR_ROWS_MAX:
            counts = self.ones[np.frombuffer(self.rows[first - 1 : stop], np.int64)]
            alike: list[int] = (np.flatnonzero(counts[1:] == counts[:-1])[::-1] + first).tolist()
        else:
            ones, rows, alike = self._counts, self.rows, []
            for k in range(stop - 1, first - 1, -1):
                if ones[rows[k]] == ones[rows[k - 1]]:
                    alike.append(k)
        flat, width = self._flat, self.width
        for k in alike:
            row, before = self.rows[k] * width, self.rows[k - 1] * width
            if flat[row : row + width] == flat[before : before + width]:
                del self.times[k]
                self._spare.append(self.rows.pop(k))

    def mark(self, words: Words, on: bool, start: int, end: int) -> None:
        """Mark these pools over the window, or clear their marks.  Cost: the rows of the window."""
        i, j = self._cut(*self.window(start, end), start, end, 2)
        rows = np.frombuffer(self.rows[i:j], np.int64)
        for k in range(0, j - i, REDUCED_ROWS):
            part = rows[k : k + REDUCED_ROWS]
            made = self.matrix[part] | words if on else self.matrix[part] & ~words
            self.matrix[part] = made
            self.ones[part] = np.bitwise_count(made).sum(axis=1)
        self._settle(i, j)

    def mark_one(self, ordinal: int, on: bool, start: int, end: int) -> None:
        """Mark one pool over the window, or clear its mark."""
        i, j = self.window(start, end)
        column, bit, width = ordinal >> 6, 1 << (ordinal & 63), self.width
        within_row = j - i == 1  # as most windows are
        if within_row and (self._flat[self.rows[i] * width + column] & bit != 0) == on:
            return
        i, j = self._cut(i, j, start, end, 2)
        flat, ones, marks = self._flat, self._counts, self.rows
        if j - i > SCALAR_ROWS_MAX:
            rows = np.frombuffer(marks[i:j], np.int64)
            changed = rows[(self.matrix[rows, column] & np.uint64(bit) == 0) == on]
            self.matrix[changed, column] ^= np.uint64(bit)
            self.ones[changed] += 1 if on else -1
        else:
            step = 1 if on else -1
            for row in marks[i:j]:
                word = flat[row * width + column]
                if (word & bit == 0) == on:
                    flat[row * width + column] = word ^ bit
                    ones[row] += step
        if (
            within_row
            and (flat[marks[i - 1] * width + column] & bit == 0) == on
            and (j == len(marks) or (flat[marks[j] * width + column] & bit == 0) == on)
        ):
            return  # the mark changes at both breakpoints
        self._settle(i, j)

    # -- queries ----------------------------------------------------------------------------------------------

    def folded(self, start: int, end: int) -> Words:
        """Pools marked at any moment of the window; must not be written to."""
        i, j = self.window(start, end)
        if j - i == 1:
            row: Words = self.matrix[self.rows[i]]
            return row
        rows = np.frombuffer(self.rows[i:j], np.int64)
        total: Words = np.bitwise_or.reduce(self.matrix[rows[:REDUCED_ROWS]], axis=0)
        for k in range(REDUCED_ROWS, j - i, REDUCED_ROWS):
            total |= np.bitwise_or.reduce(self.matrix[rows[k : k + REDUCED_ROWS]], axis=0)
        return total

    def runs(self, ordinal: int, start: int = BEGINNING, end: int = FOREVER) -> list[tuple[int, int]]:
        """(start, end) where one pool is marked within a window, by default at any time; adjacent ones are merged."""
        return self._where(ordinal, True, start, end)

    def gaps(self, ordinal: int, start: int, end: int) -> list[tuple[int, int]]:
        """(start, end) where one pool is not marked within a window; adjacent ones are merged."""
        return self._where(ordinal, False, start, end)

    def _where(self, ordinal: int, on: bool, start: int, end: int) -> list[tuple[int, int]]:
        i, j = self.window(start, end)
        column, shift = ordinal >> 6, ordinal & 63
        if j - i > SCALAR_ROWS_MAX:
            words = self.matrix[np.frombuffer(self.rows[i:j], np.int64), column]
            found: list[int] = (np.flatnonzero((words >> np.uint64(shift) & np.uint64(1)) == on) + i).tolist()
        else:
            flat, width = self._flat, self.width
            found = [k for k, row in enumerate(self.rows[i:j], i) if (flat[row * width + column] >> shift & 1) == on]
        return self.joined(found, start, end)

    def roomy_start(self, most: int, duration: int, after: int) -> int | None:
        """The first start from `after` on in whose window no row has more than `most` marks; None if there is none.

        This is a necessary condition for a window that leaves enough pools, from the counts alone.  Cost: one vector scan.
        """
        k = bisect_right(self.times, after) - 1
        counts = self.ones[np.frombuffer(self.rows[k:], np.int64)]
        full = np.flatnonzero(counts > most) + k
        start = after
        for row in full.tolist():
            if self.times[row] >= start + duration:
                break
            start = self.end_of(row)
            if start >= FOREVER:
                return None
        return start

    def blocked_until(self, wanted: Words, need: int, start: int, end: int) -> int:
        """The end of the last row that, together with the rows after it in the window, leaves fewer than `need` of the wanted
        pools.

        Every window that is moved right but still begins before that moment contains those rows and fails too.  The caller knows
        that the window itself fails.  Cost: mostly the last rows of the window.
        """
        i, j = self.window(start, end)
        rows = np.frombuffer(self.rows[i:j], np.int64)
        gone = ~wanted
        for stop in range(j - i, 0, -SUFFIX_ROWS):
            part = self.matrix[rows[max(stop - SUFFIX_ROWS, 0) : stop]][::-1]
            part[0] |= gone
            reached = np.bitwise_or.accumulate(part, axis=0)
            short = 64 * self.width - np.bitwise_count(reached).sum(axis=1) < need
            if short.any():
                return self.end_of(i + stop - 1 - int(short.argmax()))
            gone = reached[-1]
        return self.end_of(i)

    @property
    def nbytes(self) -> int:
        """Bytes of rows and breakpoints."""
        return self.matrix.nbytes + self.ones.nbytes + 16 * len(self.times)

    def check(self) -> list[str]:
        """What is wrong inside; empty when nothing is."""
        found = []
        if any(a >= b for a, b in pairwise(self.times)):
            found.append("breakpoints of a level are not ascending")
        for k, row in enumerate(self.rows):
            if int(np.bitwise_count(self.matrix[row]).sum()) != int(self.ones[row]):
                found.append(f"marks from tick {self.times[k]} on are miscounted")
            if k and (self.matrix[row] == self.matrix[self.rows[k - 1]]).all():
                found.append(f"nothing changes at breakpoint {self.times[k]} of a level")
        return found


def ordinals_of(words: Words, length: int) -> Ints:
    """The positions of the set bits, ascending.

    >>> ordinals_of(np.array([13], np.uint64), 64).tolist()
    [0, 2, 3]
    """
    busy = words.nonzero()[0]
    if busy.size * 4 < words.size:
        bits = unpack(words[busy]).view(np.bool_).nonzero()[0]
        return np.asarray(busy[bits >> 6] << 6 | bits & 63)
    return np.asarray(unpack(words)[:length].view(np.bool_).nonzero()[0])
