"""Rows of used units over time, for a block of adjacent pools of one type.

A row contains what every pool of the block uses from one breakpoint to the next.  Rows are stored in one matrix in the order in
which they were created; a short list maps breakpoints to rows, so that adding a breakpoint copies one row and moves nothing.  A
block is narrow (about a kilobyte per row) because a job that holds one core of a large machine adds two rows, and these must not
be as wide as the machine.

One field of a row belongs to one pool: a single bit if every size is 1 (`BitBlock`), else an integer that is just wide enough
(`CountBlock`).  A change of a single pool treats both alike, as a field of a machine word; operations on many pools are left
to the subclasses.  Bit k of word w is pool 64 w + k.  That is also the order of `np.packbits(…, bitorder="little")` read as
little-endian words, so NumPy does the packing and no loop visits single pools.

`changes[k]` is the number of pools whose use differs between breakpoint k and the one before.  It is maintained by comparing a
pool's own values on both sides, so it stays exact however windows are cut and joined, and a breakpoint is removed as soon as
nothing changes there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fluxres import limits
from fluxres.arrays import Int64, Mask, UInt8, UInt64
from fluxres.clock import FOREVER
from fluxres.errors import LimitExceeded

Row = npt.NDArray[Any]

BEGINNING: Final = -(2**63)
"""The first breakpoint of every block: nothing is used before it, nor until the first use."""

ROWS_FIRST: Final = 4
"""Rows allocated for a new block: one job's two breakpoints and one to spare."""

SCALAR_ROWS_MAX: Final = 24
"""Above this number of rows, one NumPy operation over a column is cheaper than a loop over its fields."""

REDUCED_ROWS: Final = 512
"""Rows processed at once when rows are folded into one: bounds the temporary copy to about half a megabyte."""


def too_many_breakpoints() -> LimitExceeded:
    """The error for a timeline with too many breakpoints."""
    return LimitExceeded(
        f"a timeline with more than {limits.BREAKPOINTS_MAX} breakpoints",
        hint="free what has ended, or raise BREAKPOINTS_MAX in fluxres/limits.py",
    )


class Breakpoints(ABC):
    """Ascending moments, with something that holds from each to the next."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times = array("q", [BEGINNING])

    @abstractmethod
    def _insert(self, k: int, time: int) -> None:
        """Insert a breakpoint at `time` with index k, at which nothing changes yet."""

    def window(self, start: int, end: int) -> tuple[int, int]:
        """The breakpoints [i, j) whose rows overlap [start, end); at least one."""
        i = bisect_right(self.times, start) - 1
        if end >= FOREVER:
            return i, len(self.times)
        return i, bisect_left(self.times, end, i + 1)

    def missing(self, start: int, end: int) -> int:
        """Breakpoints that a change over this window would add."""
        times, (i, j) = self.times, self.window(start, end)
        return (times[i] != start) + (end < FOREVER and (j == len(times) or times[j] != end))

    def _cut(self, i: int, j: int, start: int, end: int, room: int) -> tuple[int, int]:
        """Make sure there are breakpoints at both ends of the window; return their indices, len(times) for an infinite end.

        Args:
            i, j: the breakpoints of the window before the call.

        Errors: LimitExceeded, before anything is changed, if more than `room` breakpoints would be added.
        """
        times = self.times
        new_start, new_end = times[i] != start, end < FOREVER and (j == len(times) or times[j] != end)
        if new_start + new_end > room:
            raise too_many_breakpoints()
        if new_end:
            self._insert(j, end)
        if new_start:
            i += 1
            j += 1
            self._insert(i, start)
        return i, j

    def end_of(self, k: int) -> int:
        """Where the row of breakpoint k ends."""
        return self.times[k + 1] if k + 1 < len(self.times) else FOREVER

    def joined(self, numbers: Iterable[int], start: int, end: int) -> list[tuple[int, int]]:
        """Where the rows of some breakpoints, ascending, hold within a window, as (start, end); adjacent ones are merged."""
        found: list[tuple[int, int]] = []
        for k in numbers:
            lo, hi = max(self.times[k], start), min(self.end_of(k), end)
            if found and found[-1][1] == lo:
                found[-1] = found[-1][0], hi
            else:
                found.append((lo, hi))
        return found


class Block(Breakpoints):
    """Breakpoints and rows of up to `length` adjacent pools ("ordinals", counted from 0 within the block).

    Args:
        length: pools in the block.
        width: words per row.
        dtype: integer type of a word.
        per_word: pools per word; a power of two.
    """

    __slots__ = ("_column", "_flat", "_low", "_mask", "_spare", "_width", "changes", "length", "matrix", "rows")

    def __init__(self, length: int, width: int, dtype: npt.DTypeLike, per_word: int) -> None:
        self.length = length
        self._width = width
        self._column = per_word.bit_length() - 1
        self._low = per_word - 1
        word = np.dtype(dtype)
        self._mask = (1 << (word.itemsize * 8 // per_word)) - 1
        super().__init__()
        #: By breakpoint, the row of the matrix that holds from there on.
        self.rows = array("q", [0])
        self.changes = array("q", [0])
        self._allot(np.zeros((ROWS_FIRST, width), word), 1)

    # -- breakpoints ------------------------------------------------------------------------------------------

    def _allot(self, matrix: Row, taken: int) -> None:
        self.matrix = matrix
        self._flat = matrix.reshape(-1).data
        self._spare = list(range(len(matrix) - 1, taken - 1, -1))

    def _resize(self, capacity: int) -> None:
        """Move the rows, sorted by time, to a matrix of `capacity` rows."""
        fresh = np.zeros((capacity, self._width), self.matrix.dtype)
        fresh[: len(self.rows)] = self.matrix[np.frombuffer(self.rows, np.int64)]
        self.rows = array("q", range(len(self.rows)))
        self._allot(fresh, len(self.rows))

    def _insert(self, k: int, time: int) -> None:
        if not self._spare:
            self._resize(2 * len(self.matrix))
        row, before, width = self._spare.pop(), self.rows[k - 1], self._width
        self._flat[row * width : (row + 1) * width] = self._flat[before * width : (before + 1) * width]
        self.times.insert(k, time)
        self.rows.insert(k, row)
        self.changes.insert(k, 0)

    def _settle(self, i: int, j: int) -> None:
        """Remove the breakpoints i < j if nothing changes there any more."""
        for k in (j, i):
            if k < len(self.times) and not self.changes[k]:
                del self.times[k], self.changes[k]
                self._spare.append(self.rows.pop(k))
        if len(self.matrix) > 16 * ROWS_FIRST and len(self.rows) * 8 < len(self.matrix):
            self._resize(2 * len(self.rows))

    # -- one pool ---------------------------------------------------------------------------------------------

    def _values(self, ordinal: int, i: int, j: int) -> list[int]:
        """Used units of one pool at the breakpoints [i, j)."""
        return self._fields(ordinal >> self._column, ordinal & self._low, self._mask, i, j)

    def _fields(self, column: int, shift: int, mask: int, i: int, j: int) -> list[int]:
        """Some bits of one word at the breakpoints [i, j)."""
        rows = self.rows[i:j]
        if j - i > SCALAR_ROWS_MAX:
            fields = self.matrix[np.frombuffer(rows, np.int64), column]
            values: list[int] = (fields >> shift & mask if shift or self._low else fields).tolist()
            return values
        flat, width = self._flat, self._width
        return [flat[row * width + column] >> shift & mask for row in rows]

    def most(self, ordinal: int, start: int, end: int) -> int:
        """The maximum use of one pool over the window."""
        if len(self.times) == 1:
            return 0
        i, j = self.window(start, end)
        if j - i == 1:
            field: int = self._flat[self.rows[i] * self._width + (ordinal >> self._column)]
            return field >> (ordinal & self._low) & self._mask
        return max(self._values(ordinal, i, j))

    def change(self, ordinal: int, number: int, amount: int, limit: int, start: int, end: int, room: int) -> bool:
        """Add units to each of a run of pools over the window; False, without a change, if that would leave the range 0 … limit.

        Args:
            ordinal, number: the first pool, and how many pools of its word; more than one only for bits.

        A run of bits changes as one field: adding 1 to each bit adds the mask, which fits only where all bits are 0.

        Errors: LimitExceeded, without a change, if more than `room` breakpoints would be added.
        """
        times, width = self.times, self._width
        column, shift, mask = ordinal >> self._column, ordinal & self._low, self._mask
        if number > 1:
            limit = mask = (1 << number) - 1
            amount *= mask
        i = bisect_right(times, start) - 1
        j = len(times) if end >= FOREVER else bisect_left(times, end, i + 1)
        within_row = j - i == 1  # as most windows are
        if within_row:
            first: int = self._flat[self.rows[i] * width + column] >> shift & mask
            last = first
            if not 0 <= first + amount <= limit:
                return False
        else:
            values = self._fields(column, shift, mask, i, j)
            if (max(values) + amount > limit) if amount > 0 else (min(values) + amount < 0):
                return False
            first, last = values[0], values[-1]
        known = len(times)
        i, j = self._cut(i, j, start, end, room)
        flat, rows, changes = self._flat, self.rows, self.changes
        if within_row:
            flat[rows[i] * width + column] += amount << shift
            if len(times) == known + 2:  # the row goes on before and after
                changes[i] = changes[j] = number
                return True
        else:
            self._add_to_column(column, amount << shift, i, j)
        before: int = flat[rows[i - 1] * width + column] >> shift & mask
        after = before if j == len(times) else flat[rows[j] * width + column] >> shift & mask
        if number > 1:  # pools that differed from the row beside no longer do, and the others now do
            changes[i] += number - 2 * (before ^ first).bit_count()
        else:
            changes[i] += (before != first + amount) - (before != first)
        is_idle = not changes[i]
        if j < len(times):
            if number > 1:
                changes[j] += number - 2 * (after ^ last).bit_count()
            else:
                changes[j] += (after != last + amount) - (after != last)
            is_idle = is_idle or not changes[j]
        if is_idle:
            self._settle(i, j)
        return True

    def _add_to_column(self, column: int, step: int, i: int, j: int) -> None:
        """Add to one word of the rows [i, j)."""
        if j - i <= SCALAR_ROWS_MAX:
            flat, width = self._flat, self._width
            for row in self.rows[i:j]:
                flat[row * width + column] += step
            return
        # Words are mostly unsigned, so subtraction is a separate operation.
        rows = np.frombuffer(self.rows[i:j], np.int64)
        if step > 0:
            self.matrix[rows, column] += self.matrix.dtype.type(step)
        else:
            self.matrix[rows, column] -= self.matrix.dtype.type(-step)

    def steps(self, ordinal: int) -> Iterator[tuple[int, int, int]]:
        """(start, end, used) of one pool where it is used; adjacent equal steps are merged."""
        values = self._values(ordinal, 0, len(self.times))
        k = 0
        while k < len(values):
            first = k
            while k + 1 < len(values) and values[k + 1] == values[first]:
                k += 1
            if values[first]:
                yield self.times[first], self.end_of(k), values[first]
            k += 1

    def gaps(self, ordinal: int, start: int, end: int) -> list[tuple[int, int]]:
        """(start, end) where one pool is not used within a window; adjacent ones are merged."""
        i, j = self.window(start, end)
        return self.joined([k for k, used in enumerate(self._values(ordinal, i, j), i) if not used], start, end)

    # -- many pools -------------------------------------------------------------------------------------------

    def _fold(self, fold: np.ufunc, i: int, j: int, left: int, right: int) -> Row:
        """Words [left, right) of the rows [i, j) folded into one row; may be a view and must not be written to."""
        if j - i == 1:
            row: Row = self.matrix[self.rows[i], left:right]
            return row
        total: Row | None = None
        words = self.matrix if right - left == self._width else self.matrix[:, left:right]
        rows = np.frombuffer(self.rows[i:j], np.int64)
        for k in range(0, j - i, REDUCED_ROWS):
            part = fold.reduce(words.take(rows[k : k + REDUCED_ROWS], axis=0), axis=0)
            total = part if total is None else fold(total, part)
        assert total is not None  # j > i
        return total

    @abstractmethod
    def peaks(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        """The maximum use over the window, by ordinal in [lo, hi); None if all are 0."""

    @abstractmethod
    def held(self, lo: int, hi: int, start: int, end: int) -> tuple[Int64, Row] | None:
        """The ordinals in [lo, hi) used in the window, ascending, and the maximum use of each; None if there are none."""

    @abstractmethod
    def lows(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        """The minimum use over the window, by ordinal in [lo, hi); None if all are 0."""

    @abstractmethod
    def _apply(self, ordinals: Int64, amounts: Int64, i: int, j: int) -> None:
        """Add amounts to the rows [i, j)."""

    @abstractmethod
    def _differing(self, k: int) -> int:
        """The number of pools whose use at breakpoint k differs from the one before, counted from the rows."""

    @abstractmethod
    def _changed(self, before: Row, after: Row) -> tuple[Int64, Int64, Int64]:
        """Where rows differ: which of them, the ordinals, and by how many units."""

    def differences(self) -> tuple[Int64, Int64, Int64]:
        """Every change of a pool: its ordinal, when, and by how many units."""
        times, rows = np.frombuffer(self.times, np.int64), np.frombuffer(self.rows, np.int64)
        found: list[tuple[Int64, Int64, Int64]] = []
        for k in range(1, len(times), REDUCED_ROWS):
            part = self.matrix[rows[k - 1 : k + REDUCED_ROWS]]
            which, ordinals, units = self._changed(part[:-1], part[1:])
            found.append((ordinals, times[k:][which], units))
        ordinals, moments, units = (np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*found, strict=True))
        return ordinals, moments, units

    @abstractmethod
    def _accumulated(self, rows: Int64, ordinals: Int64, units: Int64, number: int) -> Row:
        """This number of rows, each with the changes of pools at it and at the rows before."""

    def fill(self, ordinals: Int64, times: Int64, units: Int64) -> None:
        """Make these changes of pools, each pool and moment once, in a block without any."""
        moments, at = np.unique(times, return_inverse=True)
        number = len(moments) + 1
        self.times.frombytes(moments.tobytes())
        self.rows = array("q", range(number))
        self.changes.frombytes(np.bincount(at).tobytes())
        self._allot(self._accumulated(at + 1, ordinals, units, number), number)

    @abstractmethod
    def ceiling(self, most: Row) -> Ceiling | None:
        """The bound set by `most`, the units by ordinal that may be in use; None if it allows any use."""

    def add(self, ordinals: Int64, amounts: Int64, start: int, end: int, room: int) -> None:
        """Add amounts to ascending ordinals over the window.  The caller ensures that all stay within bounds."""
        i, j = self._cut(*self.window(start, end), start, end, room)
        self._apply(ordinals, amounts, i, j)
        self._recount(i, j)

    def _recount(self, i: int, j: int) -> None:
        """Count again what changes at two breakpoints, and remove them if nothing does."""
        self.changes[i] = self._differing(i)
        if j < len(self.times):
            self.changes[j] = self._differing(j)
        self._settle(i, j)

    # -- audit ------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of rows and breakpoints."""
        return self.matrix.nbytes + 8 * (3 * len(self.times) + len(self._spare))

    def check(self) -> list[str]:
        """What is wrong inside this block; empty when nothing is."""
        found = []
        times = self.times.tolist()
        if times[0] != BEGINNING or times[-1] >= FOREVER or any(a >= b for a, b in pairwise(times)):
            found.append(f"breakpoints are not ascending, or not below FOREVER: {times[:8]} …")
        if sorted([*self.rows, *self._spare]) != list(range(len(self.matrix))):
            found.append("the used and spare rows are not each row exactly once")
        if np.count_nonzero(self.matrix[self.rows[0]]):
            found.append("something is used before the first breakpoint")
        for k in range(1, len(times)):
            differing = self._differing(k)
            if differing != self.changes[k] or not differing:
                found.append(f"breakpoint {times[k]}: {differing} pools change there, but {self.changes[k]} are counted")
        return found


class Ceiling(ABC):
    """How much of a block may be in use for something to start; finds the last row that exceeds it.

    It remembers up to where it found nothing, so that a search from left to right reads each row once.
    """

    __slots__ = ("_block", "_clear", "_left", "_right")

    def __init__(self, block: Block, left: int, right: int) -> None:
        self._block = block
        self._left, self._right = left, right
        self._clear = BEGINNING

    @abstractmethod
    def _above(self, words: Row) -> Mask:
        """Which rows of words [left, right) exceed the ceiling."""

    def blocked_until(self, start: int, end: int) -> int | None:
        """The end of the last row in the window that exceeds the ceiling; None if none does.

        The windows of successive calls may only move right.
        """
        block = self._block
        start = max(start, self._clear)
        self._clear = max(end, self._clear)
        if start >= end:
            return None
        i, j = block.window(start, end)
        rows = np.frombuffer(block.rows[i:j], np.int64)
        for stop in range(j - i, 0, -REDUCED_ROWS):
            first = max(stop - REDUCED_ROWS, 0)
            above = np.flatnonzero(self._above(block.matrix[rows[first:stop], self._left : self._right]))
            if above.size:
                return block.end_of(i + first + int(above[-1]))
        return None


Words = UInt64
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


def unpack(words: Words) -> UInt8:
    """Words as an array with one 0 or 1 per bit.

    >>> unpack(np.array([13], np.uint64))[:5]
    array([1, 0, 1, 1, 0], dtype=uint8)
    """
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")


class Flipped(NamedTuple):
    """Bits to change in adjacent words.

    Args:
        left: the first word.
    """

    left: int
    mask: Words


def flipped(ordinals: Int64) -> Flipped:
    """The bits of ascending ordinals.

    >>> flipped(np.array([64, 66]))
    Flipped(left=1, mask=array([5], dtype=uint64))
    """
    left, right = ordinals.item(0) >> 6, (ordinals.item(-1) >> 6) + 1
    flags = np.zeros(64 * (right - left), np.bool_)
    flags[ordinals - 64 * left] = True
    return Flipped(left, np.packbits(flags, bitorder="little").view(WORD))


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

    def held(self, lo: int, hi: int, start: int, end: int) -> tuple[Int64, Row] | None:
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

    def unused(self, lo: int, hi: int, start: int, end: int) -> Int64:
        """The ordinals in [lo, hi) that are not used in the window, ascending."""
        words = self._fold(np.bitwise_or, *self.window(start, end), lo >> 6, (hi + 63) >> 6)
        found: Int64 = (unpack(words)[lo & 63 : hi - (lo & ~63)] == 0).nonzero()[0] + lo
        return found

    def lows(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        return self._folded(np.bitwise_and, lo, hi, start, end)

    def _apply(self, ordinals: Int64, amounts: Int64, i: int, j: int) -> None:
        self._flip(flipped(ordinals), i, j)

    def _flip(self, bits: Flipped, i: int, j: int) -> None:
        rows, right = np.frombuffer(self.rows[i:j], np.int64), bits.left + len(bits.mask)
        for k in range(0, j - i, REDUCED_ROWS):
            # 0 + 1 and 1 - 1 are the only possible sums.
            self.matrix[rows[k : k + REDUCED_ROWS], bits.left : right] ^= bits.mask

    def may_flip(self, bits: Flipped, start: int, end: int, *, on: bool) -> bool:
        """Whether these bits are all 0 throughout the window (on), or all 1."""
        right = bits.left + len(bits.mask)
        words = self._fold(np.bitwise_or if on else np.bitwise_and, *self.window(start, end), bits.left, right) & bits.mask
        return not words.any() if on else bool((words == bits.mask).all())

    def flip(self, bits: Flipped, start: int, end: int) -> None:
        """Change these bits over the window.  The caller ensures that they may be changed and that there is room."""
        i, j = self._cut(*self.window(start, end), start, end, 2)
        self._flip(bits, i, j)
        self._recount(i, j)

    def _changed(self, before: Row, after: Row) -> tuple[Int64, Int64, Int64]:
        flips: Words = np.bitwise_xor(before, after)
        which, words = flips.nonzero()
        at, bits = unpack(flips[which, words]).reshape(-1, 64).nonzero()
        which, words = which[at], words[at]
        ordinals = words << 6 | bits
        return which, ordinals, np.where(after[which, words] >> bits.astype(WORD) & WORD.type(1), 1, -1)

    def _accumulated(self, rows: Int64, ordinals: Int64, units: Int64, number: int) -> Row:
        matrix = np.zeros((number, self._width), WORD)
        np.bitwise_xor.at(matrix, (rows, ordinals >> 6), WORD.type(1) << (ordinals & 63).astype(WORD))
        np.bitwise_xor.accumulate(matrix, axis=0, out=matrix)
        return matrix

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

    def _above(self, words: Row) -> Mask:
        return np.asarray((words & self._mask).any(axis=1))


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

    def held(self, lo: int, hi: int, start: int, end: int) -> tuple[Int64, Row] | None:
        counts = self.peaks(lo, hi, start, end)
        if counts is None:
            return None
        # Compare first: NumPy finds non-zero booleans much faster than non-zero numbers.
        where = (counts != 0).nonzero()[0]
        return where + lo, counts[where]

    def lows(self, lo: int, hi: int, start: int, end: int) -> Row | None:
        return self._folded(np.minimum, lo, hi, start, end)

    def _apply(self, ordinals: Int64, amounts: Int64, i: int, j: int) -> None:
        # Array arithmetic wraps, so adding 256 - 3 to an unsigned byte subtracts 3.
        steps = amounts.astype(self.matrix.dtype)
        rows = np.frombuffer(self.rows[i:j], np.int64)
        for k in range(0, j - i, REDUCED_ROWS):
            self.matrix[rows[k : k + REDUCED_ROWS, None], ordinals] += steps

    def _changed(self, before: Row, after: Row) -> tuple[Int64, Int64, Int64]:
        which, ordinals = (before != after).nonzero()
        return which, ordinals, after[which, ordinals].astype(np.int64) - before[which, ordinals].astype(np.int64)

    def _accumulated(self, rows: Int64, ordinals: Int64, units: Int64, number: int) -> Row:
        matrix = np.zeros((number, self.length), self.matrix.dtype)
        matrix[rows, ordinals] = units.astype(matrix.dtype)  # which wraps, as the sum does
        return np.cumsum(matrix, axis=0, dtype=matrix.dtype, out=matrix)

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

    def _above(self, words: Row) -> Mask:
        return np.asarray((words > self._most).any(axis=1))
