"""Which groups of a node a request takes its indices from, as HyperQueue chooses them.

HyperQueue solves an integer program, which is solved here by search.  Every chosen group has a high cost, a group with much free
in it a slightly higher one, and two chosen groups that are coupled earn their weight back.  So a request gets as few groups as
possible, among those the ones with the least free that suffice, and coupled ones together.  HyperQueue leaves ties to its solver;
here the group with the lower number wins.

A request for one resource that fits into one group, by far the most frequent, needs no search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

import msgspec

from fluxres import limits
from fluxres.syntax.variants import PER_UNIT

#: the cost of a group, the cost of a free unit in it, and the value of a sufficient fraction in it, in the units of weights
_GROUP: Final = 1024.0
_FREE: Final = 1 / 32
_OPEN: Final = 16.0
#: tolerance for sums of the same scores in another order
_SAME: Final = 1e-9
#: groups times units up to which the groups for one need are chosen exactly
_CELLS_MAX: Final = 1_000_000

Pair = tuple[tuple[int, int], tuple[int, int]]
"""Two groups: (number of the need, number of the group), the lower first."""


class GroupNeed(msgspec.Struct, frozen=True):
    """What is requested of one grouped resource, and what its groups have.

    Args:
        units: complete indices.
        fraction: ten-thousandths of one more.
        free: complete free indices of each group.
        open: the largest fraction left of an index in each group, in ten-thousandths.
    """

    units: int
    fraction: int
    free: tuple[int, ...]
    open: tuple[int, ...]

    def score(self, group: int) -> float:
        """The value of choosing a group, without couplings."""
        if self.fraction and self.open[group] >= self.fraction:
            return -_GROUP + _OPEN * self.open[group] / PER_UNIT
        return -_GROUP - _FREE * self.free[group]

    def is_met(self, groups: Sequence[int]) -> bool:
        whole = sum(self.free[group] for group in groups)
        is_open = self.fraction > 0 and any(self.open[group] >= self.fraction for group in groups)
        return whole >= self.units + (self.fraction > 0 and not is_open)


class GroupChoice(msgspec.Struct, frozen=True):
    """Groups for each need, and their total value."""

    groups: tuple[tuple[int, ...], ...]
    worth: float


def choose(needs: Sequence[GroupNeed], weights: Mapping[Pair, float]) -> GroupChoice | None:
    """The best groups for all needs together, None if they have too little.

    Cost: exponential in the number of groups in bad cases, and bounded: after `limits.MATCH_STEPS_MAX` choices the best so far is
    taken.

    >>> choose([GroupNeed(2, 0, (4, 2, 3), (0, 0, 0))], {}).groups
    ((1,),)
    """
    if not weights and len(needs) == 1 and (group := _one(needs[0])) is not None:
        return GroupChoice(((group,),), needs[0].score(group))
    if not all(need.is_met(range(len(need.free))) for need in needs):
        return None
    if not weights:
        found = tuple(tuple(_alone(need)) for need in needs)
        return GroupChoice(found, sum(need.score(group) for need, groups in zip(needs, found, strict=True) for group in groups))
    search = _GroupSearch(needs, weights)
    search.run()
    return GroupChoice(tuple(tuple(sorted(groups)) for groups in search.best), search.best_worth)


def _alone(need: GroupNeed) -> list[int]:
    """The best groups for one need without couplings."""
    if not need.units and not need.fraction:
        return []
    group = _one(need)
    return _Table(need).alone() if group is None else [group]


def _one(need: GroupNeed) -> int | None:
    """The group that suffices alone and has the least free, where that is best; None if it is not known to be."""
    if need.fraction or not need.units or max(need.free) * _FREE >= _GROUP:  # one group is not always better than two
        return None
    best, least = None, 0
    for group, free in enumerate(need.free):
        if free >= need.units and (best is None or free < least):
            best, least = group, free
    return best


class _Table:
    """The least cost to meet a need from its groups `at` and later, by what is missing and whether a fraction is open.

    Exact for up to _CELLS_MAX cells; beyond that a lower bound, which counts every group as if it had as much as the largest.
    """

    def __init__(self, need: GroupNeed) -> None:
        self.need = need
        self.groups = len(need.free)
        self.costs = [-need.score(group) for group in range(self.groups)]
        self.whole = need.units + (need.fraction > 0)
        self.is_exact = self.groups * (self.whole + 1) <= _CELLS_MAX
        self.cheapest = min(self.costs)
        self.widest = max(*need.free, 1)
        self.rows: list[list[list[float]]] = []
        if self.is_exact:
            self._fill()

    def _fill(self) -> None:
        # Column 0: no open fraction yet, so one more index is needed; column 1: there is one, or none is needed.
        has_one = 0 if self.need.fraction else 1
        last = [[inf] * (self.whole + 1), [inf] * (self.whole + 1)]
        last[0][0] = last[1][0] = 0.0
        if self.need.fraction:
            last[1][1] = 0.0  # no further index is needed for the fraction
        rows = [last]
        for group in range(self.groups - 1, -1, -1):
            after, free, cost = rows[-1], self.need.free[group], self.costs[group]
            is_open = has_one == 0 and self.need.open[group] >= self.need.fraction
            row = []
            for column in (0, 1):
                taken = after[1 if is_open else column]
                row.append([min(after[column][left], cost + taken[max(left - free, 0)]) for left in range(self.whole + 1)])
            rows.append(row)
        self.rows = rows[::-1]

    def least(self, at: int, column: int, left: int) -> float:
        """The least cost from group `at` on; infinite if the rest is not enough."""
        if self.is_exact:
            return self.rows[at][column][left]
        missing = left - (1 if column and self.need.fraction else 0)
        needed = -(-missing // self.widest) if missing > 0 else 0
        return needed * self.cheapest if needed <= self.groups - at else inf

    def start(self) -> tuple[int, int]:
        """Column and missing amount with no group chosen."""
        return (0 if self.need.fraction else 1), self.whole

    def after(self, group: int, column: int, left: int) -> tuple[int, int]:
        """Column and missing amount after a group is chosen."""
        is_open = self.need.fraction > 0 and self.need.open[group] >= self.need.fraction
        return (1 if is_open else column), max(left - self.need.free[group], 0)

    def alone(self) -> list[int]:
        """The best groups without couplings; good ones if the table would be too large."""
        if not self.is_exact:
            return self._greedy()
        found, (column, left) = [], self.start()
        for group in range(self.groups):
            taken = self.after(group, column, left)
            if self.costs[group] + self.least(group + 1, *taken) <= self.least(group + 1, column, left) + _SAME:
                if self.least(group, column, left) <= _SAME:
                    break
                found.append(group)
                column, left = taken
        return found

    def _greedy(self) -> list[int]:
        found: list[int] = []
        for group in sorted(range(self.groups), key=lambda group: (-self.need.free[group], group)):
            if self.need.is_met(found):
                break
            found.append(group)
        return sorted(found)


class _GroupSearch:
    """Depth first over the groups in order, first taken, then left out; branches that cannot beat the best so far are cut."""

    def __init__(self, needs: Sequence[GroupNeed], weights: Mapping[Pair, float]) -> None:
        self.tables = [_Table(need) for need in needs]
        self.best = [table.alone() for table in self.tables]
        self.near: dict[tuple[int, int], list[tuple[tuple[int, int], float]]] = {}
        for (one, other), weight in weights.items():
            self.near.setdefault(one, []).append((other, weight))
            self.near.setdefault(other, []).append((one, weight))
        self.cells = [(number, group) for number, table in enumerate(self.tables) for group in range(table.groups)]
        self.later = self._weights_later(weights)
        self.best_worth = self._worth(self.best)

    def _weights_later(self, weights: Mapping[Pair, float]) -> list[float]:
        """By cell, the sum of all weights with one end at that cell or a later one."""
        place = {cell: at for at, cell in enumerate(self.cells)}
        found = [0.0] * (len(self.cells) + 1)
        for (one, other), weight in weights.items():
            found[max(place[one], place[other])] += max(weight, 0.0)
        for at in range(len(self.cells) - 1, -1, -1):
            found[at] += found[at + 1]
        return found

    def _worth(self, groups: Sequence[Sequence[int]]) -> float:
        cells = {(number, group) for number, found in enumerate(groups) for group in found}
        earned = sum(weight for cell in cells for other, weight in self.near.get(cell, ()) if other in cells and cell < other)
        return earned - sum(self.tables[number].costs[group] for number, group in cells)

    def run(self) -> None:
        if not self.near:
            return
        rest = [0.0] * (len(self.tables) + 1)
        for number in range(len(self.tables) - 1, -1, -1):
            rest[number] = rest[number + 1] + self.tables[number].least(0, *self.tables[number].start())
        steps = 0
        # A frame: the next cell, the value so far, the column and amount its need misses, and the chosen cells (a linked list).
        stack: list[tuple[int, float, int, int, Any]] = [(0, 0.0, *self.tables[0].start(), None)]
        while stack and steps < limits.MATCH_STEPS_MAX:
            at, worth, column, left, chosen = stack.pop()
            steps += 1
            number = self.cells[at][0] if at < len(self.cells) else len(self.tables)
            if at < len(self.cells) and self.cells[at][1] == 0 and at:
                column, left = self.tables[number].start()
            if number == len(self.tables):
                if worth > self.best_worth + _SAME:
                    self.best, self.best_worth = _groups(chosen, len(self.tables)), worth
                continue
            group, table = self.cells[at][1], self.tables[number]
            most = worth - table.least(group, column, left) - rest[number + 1] + self.later[at]
            if most <= self.best_worth + _SAME:
                continue
            is_last = group == table.groups - 1
            if not is_last or table.least(group + 1, column, left) == 0.0:
                stack.append((at + 1, worth, column, left, chosen))
            gain = sum(weight for its, weight in self.near.get((number, group), ()) if _has(chosen, its))
            taken = table.after(group, column, left)
            if not is_last or table.least(group + 1, *taken) == 0.0:
                stack.append((at + 1, worth + gain - table.costs[group], *taken, ((number, group), chosen)))


def _has(chosen: Any, cell: tuple[int, int]) -> bool:
    while chosen is not None:
        if chosen[0] == cell:
            return True
        chosen = chosen[1]
    return False


def _groups(chosen: Any, count: int) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(count)]
    while chosen is not None:
        (number, group), chosen = chosen
        found[number].append(group)
    return [sorted(groups) for groups in found]
