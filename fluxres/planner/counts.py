"""Blocks of pools with sizes: one integer per pool, as wide as the largest size of the type requires."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fluxres.planner.block import REDUCED_ROWS, Block, Ceiling, Ints, Row


class CountBlock(Block):
    """A block of pools that each use 0 … size units."""

    __slots__ = ()

    def __init__(self, length: int, dtype: npt.DTypeLike) -> None:
        super().__init__(length, length, dtype, 1)

    def _folded(self, fold: np.ufunc, lo: int, hi: int, start: int, end: int) -> Row | None:
        if len(self.times) == 1:
            return None
        counts = self._fold(fold, *self.window(start, end), lo, hi)
        return counts if np.count_nonzero(counts) else None

    def peaks(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        return self._folded(np.maximum, lo, hi, start, end)

    def held(self, lo: int, hi: int, start: int, end: int) -> tuple[Ints, Row] | None:
        counts = self.peaks(lo, hi, start, end)
        if counts is None:
            return None
        # Compare first: NumPy finds non-zero booleans much faster than non-zero numbers.
        where = (counts != 0).nonzero()[0]
        return where + lo, counts[where]

    def lows(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        return self._folded(np.minimum, lo, hi, start, end)

    def _apply(self, ordinals: Ints, amounts: Ints, i: int, j: int) -> None:
        # Array arithmetic wraps, so adding 256 - 3 to an unsigned byte subtracts 3.
        steps = amounts.astype(self.matrix.dtype)
        rows = np.frombuffer(self.rows[i:j], np.int64)
        for k in range(0, j - i, REDUCED_ROWS):
            self.matrix[rows[k : k + REDUCED_ROWS, None], ordinals] += steps

    def _differing(self, k: int) -> int:
        return int(np.count_nonzero(self.matrix[self.rows[k]] != self.matrix[self.rows[k - 1]]))

    def ceiling(self, most: Row) -> Ceiling | None:
        most = most.astype(self.matrix.dtype)
        bounded = np.flatnonzero(most != np.iinfo(self.matrix.dtype).max)
        if not bounded.size:
            return None
        left, right = int(bounded[0]), int(bounded[-1]) + 1
        return CountCeiling(self, left, right, most[left:right])


class CountCeiling(Ceiling):
    """An upper bound for each count."""

    __slots__ = ("_most",)

    def __init__(self, block: Block, left: int, right: int, most: Row) -> None:
        super().__init__(block, left, right)
        self._most = most

    def _above(self, words: Row) -> npt.NDArray[np.bool_]:
        return np.asarray((words > self._most).any(axis=1))
