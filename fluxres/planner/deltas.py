"""Changes of many pools at many moments, as columns.

A planner that is read from a store, and a level that is made late, have to count everything that is held already.  Change by
change that costs as much as all the changes did.  As differences it is a sort and a few vector operations, however many moments
there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fluxres.arrays import Int64, Mask
from fluxres.clock import FOREVER


class Deltas(NamedTuple):
    """By how many units the use of a pool changes at a moment: one row for each pool and moment where it does.

    Args:
        pools: int64[k], ordinals, ascending.
        times: int64[k], ticks, ascending for each pool.
        units: int64[k], none of them 0.
    """

    pools: Int64
    times: Int64
    units: Int64

    @classmethod
    def of(cls, pools: Int64, times: Int64, units: Int64) -> Deltas:
        """Rows in any order; those of one pool and moment are added up.

        >>> Deltas.of(np.array([1, 0, 1, 0]), np.array([5, 9, 5, 7]), np.array([1, -1, 2, 1]))
        Deltas(pools=array([0, 0, 1]), times=array([7, 9, 5]), units=array([ 1, -1,  3]))
        """
        if not pools.size:
            return cls(pools, times, units)
        order = np.lexsort((times, pools))
        pools, times = pools[order], times[order]
        first = np.flatnonzero(_is_new(pools) | _is_new(times))
        units = np.add.reduceat(units[order], first)
        some = units != 0
        return cls(pools[first][some], times[first][some], units[some])

    @classmethod
    def sum_of(cls, parts: Sequence[Deltas]) -> Deltas:
        """All of these changes together."""
        none = np.zeros(0, np.int64)
        return (
            cls.of(*(np.concatenate([none, *column]) for column in zip(*parts, strict=True))) if parts else cls(none, none, none)
        )

    @classmethod
    def of_windows(cls, pools: Int64, units: Int64, starts: Int64, ends: Int64) -> Deltas:
        """Units that are used over windows [start, end), in any order.

        >>> Deltas.of_windows(np.array([1, 1]), np.array([2, 2]), np.array([5, 8]), np.array([8, FOREVER]))
        Deltas(pools=array([1]), times=array([5]), units=array([2]))
        """
        ending = ends < FOREVER
        return cls.of(
            np.concatenate([pools, pools[ending]]),
            np.concatenate([starts, ends[ending]]),
            np.concatenate([units, -units[ending]]),
        )

    def used(self) -> Int64:
        """The units of the pool of each row that are used from then on."""
        total = np.cumsum(self.units)
        first = np.flatnonzero(_is_new(self.pools))
        return total - np.repeat(total[first] - self.units[first], np.diff(first, append=len(total)))

    def use(self) -> Deltas:
        """When each pool begins (1) and ceases (-1) to be used at all.

        >>> Deltas(np.array([0, 0, 0, 4]), np.array([1, 2, 3, 2]), np.array([2, -1, -1, 1])).use()
        Deltas(pools=array([0, 0, 4]), times=array([1, 3, 2]), units=array([ 1, -1,  1]))
        """
        used = self.used()
        turns = (used != 0).astype(np.int64) - (used != self.units)
        some = turns != 0
        return Deltas(self.pools[some], self.times[some], turns[some])

    def periods(self) -> Iterator[tuple[int, int, int]]:
        """(pool, start, end) where each pool is used, from what `use` returned.

        >>> list(Deltas(np.array([0, 0, 4]), np.array([1, 3, 2]), np.array([1, -1, 1])).periods()) == [(0, 1, 3), (4, 2, FOREVER)]
        True
        """
        ends = dict(zip(np.flatnonzero(self.units < 0).tolist(), self.times[self.units < 0].tolist(), strict=True))
        for row in np.flatnonzero(self.units > 0).tolist():
            yield self.pools.item(row), self.times.item(row), ends.get(row + 1, FOREVER)


def _is_new(values: Int64) -> Mask:
    """Which values differ from the one before."""
    found = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found
