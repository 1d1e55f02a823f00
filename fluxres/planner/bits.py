"""Blocks of pools of size 1: one bit per pool, 64 pools per word.

Bit k of word w is pool 64 w + k.  That is also the order of `np.packbits(…, bitorder="little")` read as little-endian words, so
NumPy does the packing and no loop visits single pools.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fluxres.planner.block import REDUCED_ROWS, Block, Ceiling, Ints, Row

Words = npt.NDArray[np.uint64]
WORD = np.dtype("<u8")


def pack(flags: Row) -> Words:
    """Flags (any non-zero) as words, low bit first.

    >>> pack(np.array([1, 0, 1, 1]))
    array([13], dtype=uint64)
    """
    words = np.zeros((len(flags) + 63) // 64, WORD)
    octets = np.packbits(flags, bitorder="little")
    words.view(np.uint8)[: len(octets)] = octets
    return words


def unpack(words: Words) -> npt.NDArray[np.uint8]:
    """Words as an array with one 0 or 1 per bit.

    >>> unpack(np.array([13], np.uint64))[:5]
    array([1, 0, 1, 1, 0], dtype=uint8)
    """
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")


class BitBlock(Block):
    __slots__ = ()

    def __init__(self, length: int) -> None:
        super().__init__(length, (length + 63) // 64, WORD, 64)

    def _words(self, fold: np.ufunc, lo: int, hi: int, start: int, end: int) -> Words | None:
        """The words that contain [lo, hi), folded over the window, including bits of neighbours.  None if all are 0."""
        if len(self.times) == 1:
            return None
        words = self._fold(fold, *self.window(start, end), lo >> 6, (hi + 63) >> 6)
        return words if np.count_nonzero(words) else None

    def _folded(self, fold: np.ufunc, lo: int, hi: int, start: int, end: int) -> Row | None:
        words = self._words(fold, lo, hi, start, end)
        if words is None:
            return None
        bits = unpack(words)[lo & 63 : hi - (lo & ~63)]
        return bits if np.count_nonzero(bits) else None

    def peaks(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        return self._folded(np.bitwise_or, lo, hi, start, end)

    def held(self, lo: int, hi: int, start: int, end: int) -> tuple[Ints, Row] | None:
        words = self._words(np.bitwise_or, lo, hi, start, end)
        if words is None:
            return None
        # Most rows are nearly empty and unpacking is expensive, so only non-zero words are unpacked.
        busy = words.nonzero()[0]
        bits = unpack(words[busy]).view(np.bool_).nonzero()[0]
        ordinals = (busy[bits >> 6] << 6 | bits & 63) + (lo & ~63)
        if ordinals.item(0) < lo or ordinals.item(-1) >= hi:
            ordinals = ordinals[slice(*ordinals.searchsorted((lo, hi)).tolist())]
        units = np.empty(len(ordinals), np.uint8)
        units.fill(1)
        return (ordinals, units) if ordinals.size else None

    def lows(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        return self._folded(np.bitwise_and, lo, hi, start, end)

    def _apply(self, ordinals: Ints, amounts: Ints, i: int, j: int) -> None:
        left, right = int(ordinals[0]) >> 6, (int(ordinals[-1]) >> 6) + 1
        flags = np.zeros(64 * (right - left), np.uint8)
        flags[ordinals - 64 * left] = 1
        mask = pack(flags)
        rows = np.frombuffer(self.rows[i:j], np.int64)
        for k in range(0, j - i, REDUCED_ROWS):
            # 0 + 1 and 1 - 1 are the only possible sums.
            self.matrix[rows[k : k + REDUCED_ROWS], left:right] ^= mask

    def _differing(self, k: int) -> int:
        return int(np.bitwise_count(self.matrix[self.rows[k]] ^ self.matrix[self.rows[k - 1]]).sum())

    def ceiling(self, most: Row) -> Ceiling | None:
        mask = pack(most == 0)
        words = np.flatnonzero(mask)
        if not words.size:
            return None
        left, right = int(words[0]), int(words[-1]) + 1
        return BitCeiling(self, left, right, mask[left:right])


class BitCeiling(Ceiling):
    """Bits that must be 0."""

    __slots__ = ("_mask",)

    def __init__(self, block: Block, left: int, right: int, mask: Words) -> None:
        super().__init__(block, left, right)
        self._mask = mask

    def _above(self, words: Row) -> npt.NDArray[np.bool_]:
        return np.asarray((words & self._mask).any(axis=1))
