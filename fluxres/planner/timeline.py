"""The use of all pools of one type over time, divided into blocks that are created when first used.

Pools are numbered within their type in vertex order: "ordinals".  The pools of one type in a subtree are a run of ordinals, so
everything about a subtree is a slice here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fluxres import limits
from fluxres.arrays import Int64
from fluxres.clock import FOREVER
from fluxres.planner.block import BitBlock, Block, CountBlock, Flipped, Row, flipped, too_many_breakpoints
from fluxres.planner.deltas import Deltas

Finding = tuple[int, str]
"""What an audit found: the pool concerned (-1 for none), and what is wrong, with the number of the rule."""


def narrowest(size: int) -> np.dtype[Any]:
    """The narrowest type that can hold 0 … size: unsigned, or int64, because NumPy promotes int64 with uint64 to float.

    >>> narrowest(255), narrowest(256), narrowest(2**40)
    (dtype('uint8'), dtype('uint16'), dtype('int64'))
    """
    found = np.min_scalar_type(max(size, 1))
    return np.dtype(np.int64) if found.itemsize == 8 else found


class Timeline:
    """The use of the pools of one type over time.

    Args:
        length: pools of the type.
        span: pools per block.
        dtype: type of a count; None if one bit per pool is enough.
    """

    __slots__ = ("blocks", "breakpoints", "dtype", "length", "span")

    def __init__(self, length: int, span: int, dtype: npt.DTypeLike | None) -> None:
        self.length = length
        self.span = span
        self.dtype = dtype
        self.blocks: dict[int, Block] = {}
        self.breakpoints = 0

    def _open(self, number: int) -> Block:
        block = self.blocks[number] = self._made(number)
        return block

    def _made(self, number: int) -> Block:
        length = min(self.span, self.length - number * self.span)
        return BitBlock(length) if self.dtype is None else CountBlock(length, self.dtype)

    # -- one pool ---------------------------------------------------------------------------------------------

    def most(self, ordinal: int, start: int, end: int) -> int:
        """The maximum use of one pool over the window."""
        number, ordinal = divmod(ordinal, self.span)
        block = self.blocks.get(number)
        return 0 if block is None else block.most(ordinal, start, end)

    def change(self, ordinal: int, number: int, amount: int, limit: int, start: int, end: int, room: int | None = None) -> bool:
        """Add `amount` to each of a run of pools over the window; False, without a change, if that leaves the range 0 … limit.

        Args:
            ordinal, number: the first pool, and how many pools; more than one only for bits, at most `run_length`.
            room: breakpoints that may be added; by default those left of BREAKPOINTS_MAX.

        Errors: LimitExceeded if there is no room, without a change.
        """
        at, ordinal = divmod(ordinal, self.span)
        block = self.blocks.get(at) or self._open(at)
        before = len(block.times)
        if room is None:
            room = limits.BREAKPOINTS_MAX - self.breakpoints
        if not block.change(ordinal, number, amount, limit, start, end, room):
            return False
        self.breakpoints += len(block.times) - before
        return True

    def run_length(self, ordinal: int) -> int:
        """The number of pools from this one on that share a word."""
        ordinal %= self.span
        return min(64 - (ordinal & 63), self.span - ordinal)

    def steps(self, ordinal: int) -> list[tuple[int, int, int]]:
        """(start, end, used) of one pool where it is used; adjacent equal steps are merged."""
        number, ordinal = divmod(ordinal, self.span)
        block = self.blocks.get(number)
        return [] if block is None else list(block.steps(ordinal))

    def gaps(self, ordinal: int, start: int, end: int) -> list[tuple[int, int]]:
        """(start, end) where one pool is not used within a window; adjacent ones are merged."""
        number, ordinal = divmod(ordinal, self.span)
        block = self.blocks.get(number)
        return [(start, end)] if block is None else block.gaps(ordinal, start, end)

    # -- many pools -------------------------------------------------------------------------------------------

    def _parts(self, lo: int, hi: int) -> Iterator[tuple[int, Block, int, int]]:
        """(base, block, lo, hi) for the existing blocks that overlap the ordinals [lo, hi); lo and hi within the block."""
        span = self.span
        for number in range(lo // span, (hi + span - 1) // span):
            block = self.blocks.get(number)
            if block is not None and len(block.times) > 1:
                base = number * span
                yield base, block, max(lo - base, 0), min(hi - base, block.length)

    def any(self, lo: int, hi: int, start: int, end: int) -> bool:
        """Whether any unit of the ordinals [lo, hi) is used in the window."""
        return any(block.peaks(first, stop, start, end) is not None for _, block, first, stop in self._parts(lo, hi))

    def held(self, lo: int, hi: int, start: int, end: int) -> tuple[Int64, Row]:
        """The ordinals in [lo, hi) that are used in the window, ascending, and the maximum use of each."""
        ordinals: list[Int64] = []
        units: list[Row] = []
        for base, block, first, stop in self._parts(lo, hi):
            found = block.held(first, stop, start, end)
            if found is not None:
                ordinals.append(found[0] + base)
                units.append(found[1])
        if len(ordinals) == 1:
            return ordinals[0], units[0]
        if not ordinals:
            return np.zeros(0, np.int64), np.zeros(0, np.uint8)
        return np.concatenate(ordinals), np.concatenate(units)

    def unused(self, lo: int, hi: int, start: int, end: int) -> Int64:
        """The ordinals in [lo, hi) that are not used in the window, ascending."""
        number = lo // self.span
        block, base = self.blocks.get(number), number * self.span
        if isinstance(block, BitBlock) and hi <= base + self.span:
            return block.unused(lo - base, hi - base, start, end) + base
        return np.setdiff1d(np.arange(lo, hi), self.held(lo, hi, start, end)[0], assume_unique=True)

    def split(self, ordinals: Int64) -> Iterator[tuple[int, slice]]:
        """Split ascending ordinals at block boundaries: (block number, slice of them)."""
        if not ordinals.size:
            return
        first, last = int(ordinals[0]) // self.span, int(ordinals[-1]) // self.span
        if first == last:
            yield first, slice(0, len(ordinals))
            return
        edges = np.searchsorted(ordinals, np.arange(first, last + 2) * self.span)
        for number in range(first, last + 1):
            a, b = int(edges[number - first]), int(edges[number - first + 1])
            if a < b:
                yield number, slice(a, b)

    def extremes(self, ordinals: Int64, start: int, end: int, *, least: bool = False) -> Int64:
        """The maximum (or minimum) use over the window, for ascending ordinals."""
        found = np.zeros(len(ordinals), np.int64)
        for number, part in self.split(ordinals):
            block = self.blocks.get(number)
            if block is None or len(block.times) == 1:
                continue
            inside = ordinals[part] - number * self.span
            lo, hi = int(inside[0]), int(inside[-1]) + 1
            used = block.lows(lo, hi, start, end) if least else block.peaks(lo, hi, start, end)
            if used is not None:
                found[part] = used[inside - lo]
        return found

    def add(self, ordinals: Int64, amounts: Int64, start: int, end: int) -> None:
        """Add amounts to ascending ordinals.  The caller ensures that all stay within 0 … size and that there is room."""
        for number, part in self.split(ordinals):
            block = self.blocks.get(number) or self._open(number)
            before = len(block.times)
            block.add(ordinals[part] - number * self.span, amounts[part], start, end, 2)
            self.breakpoints += len(block.times) - before

    def flips(self, ordinals: Int64, start: int, end: int, *, on: bool) -> list[tuple[int, Flipped]] | None:
        """What changes in which block of a timeline of bits, for ascending ordinals; None if one of them is in the way."""
        found: list[tuple[int, Flipped]] = []
        for number, part in self.split(ordinals):
            block, bits = self.blocks.get(number), flipped(ordinals[part] - number * self.span)
            if not (on if block is None else isinstance(block, BitBlock) and block.may_flip(bits, start, end, on=on)):
                return None
            found.append((number, bits))
        return found

    def flip(self, flips: list[tuple[int, Flipped]], start: int, end: int) -> None:
        """Make changes that `flips` returned.  The caller ensures that there is room."""
        for number, bits in flips:
            block = self.blocks.get(number) or self._open(number)
            assert isinstance(block, BitBlock)  # `flips` has checked it
            before = len(block.times)
            block.flip(bits, start, end)
            self.breakpoints += len(block.times) - before

    def missing(self, ordinals: Int64, start: int, end: int) -> int:
        """Breakpoints that a change of these ordinals over the window would add."""
        ends = 1 + (end < FOREVER)
        blocks = (self.blocks.get(number) for number, _ in self.split(ordinals))
        return sum(ends if block is None else block.missing(start, end) for block in blocks)

    def require_room(self, ordinals: Int64, start: int, end: int) -> None:
        """Raise LimitExceeded if a change of these ordinals over the window would add too many breakpoints."""
        if self.breakpoints + self.missing(ordinals, start, end) > limits.BREAKPOINTS_MAX:
            raise too_many_breakpoints()

    # -- whole timeline ---------------------------------------------------------------------------------------

    def busy_blocks(self) -> list[tuple[int, Block]]:
        """(first ordinal, block) of the blocks in which anything is ever used."""
        return [(base, block) for base, block, _, _ in self._parts(0, self.length)]

    def rows(self) -> Iterator[tuple[int, int, Int64, Row]]:
        """(start, end, ordinals, units used) for every block and breakpoint from which on something is used."""
        for base, block in self.busy_blocks():
            for k in range(1, len(block.times)):
                start, end = block.times[k], block.end_of(k)
                held = block.held(0, block.length, start, end)
                if held is not None:
                    yield start, end, held[0] + base, held[1]

    def differences(self) -> tuple[Int64, Int64, Int64]:
        """Every change of a pool: its ordinal, when, and by how many units."""
        found = [(base, *block.differences()) for base, block in self.busy_blocks()]
        none = np.zeros(0, np.int64)
        ordinals = np.concatenate([none, *(base + ordinals for base, ordinals, _, _ in found)])
        return ordinals, np.concatenate([none, *(row[2] for row in found)]), np.concatenate([none, *(row[3] for row in found)])

    def fill(self, deltas: Deltas) -> None:
        """Replace all that is used.  The caller ensures that it stays within 0 … size.

        Errors: LimitExceeded (BREAKPOINTS_MAX), without a change.
        """
        fresh: dict[int, Block] = {}
        for number, part in self.split(deltas.pools):
            fresh[number] = self._made(number)
            fresh[number].fill(deltas.pools[part] - number * self.span, deltas.times[part], deltas.units[part])
        breakpoints = sum(len(block.times) - 1 for block in fresh.values())
        if breakpoints > limits.BREAKPOINTS_MAX:
            raise too_many_breakpoints()
        self.blocks, self.breakpoints = fresh, breakpoints

    def moments(self, start: int, end: int) -> set[int]:
        """Breakpoints in [start, end)."""
        found: set[int] = set()
        for block in self.blocks.values():
            found.update(block.times[bisect_left(block.times, start, 1) : bisect_left(block.times, end)])
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.nbytes for block in self.blocks.values())

    def check(self) -> list[str]:
        """What is wrong inside; empty if nothing is."""
        found = [f"pools {number * self.span} …: {text}" for number, block in self.blocks.items() for text in block.check()]
        breakpoints = sum(len(block.times) - 1 for block in self.blocks.values())
        if breakpoints != self.breakpoints:
            found.append(f"{breakpoints} breakpoints, but {self.breakpoints} are counted")
        return found
