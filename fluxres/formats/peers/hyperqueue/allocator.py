"""How a HyperQueue worker allocates: stacks of indices, fractions of one index, amounts, groups.

Indices are a stack: the last one in the definition is allocated first, and what is released goes on top, so a repeated task gets
the same indices again.  A fraction comes from an index that is open already, the one where it leaves least, and is never split
over two.  A request gets everything or changes nothing.

HyperQueue chooses the groups that indices are taken from by an integer program, which is solved here by search.  Every chosen
group has a high cost, a group with much free in it a slightly higher one, and two chosen groups that are coupled earn their
weight back.  So a request gets as few groups as possible, among those the ones with the least free that suffice, and coupled ones
together.  HyperQueue leaves ties to its solver; here the group with the lower number wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from fluxres import limits
from fluxres.errors import LimitExceeded, UsageError
from fluxres.formats.peers.hyperqueue.coupling import Coupling
from fluxres.formats.peers.hyperqueue.definitions import CPUS, Groups, Pool, Sum
from fluxres.formats.peers.hyperqueue.request import ALL, Ask, Variant
from fluxres.formats.peers.hyperqueue.tokens import PER_UNIT

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


@dataclass(frozen=True, slots=True)
class GroupNeed:
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


@dataclass(frozen=True, slots=True)
class Choice:
    """Groups for each need, and their total value."""

    groups: tuple[tuple[int, ...], ...]
    worth: float


def choose(needs: Sequence[GroupNeed], weights: Mapping[Pair, float]) -> Choice | None:
    """The best groups for all needs together, None if they have too little.

    Cost: exponential in the number of groups in bad cases, and bounded: after `limits.MATCH_STEPS_MAX` choices the best so far is
    taken.

    >>> choose([GroupNeed(2, 0, (4, 2, 3), (0, 0, 0))], {}).groups
    ((1,),)
    """
    if not all(need.is_met(range(len(need.free))) for need in needs):
        return None
    search = _GroupSearch(needs, weights)
    search.run()
    return Choice(tuple(tuple(sorted(groups)) for groups in search.best), search.best_worth)


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


#: how much worse than on an idle worker a choice may be for a request that would otherwise wait
_AS_GOOD = 0.1


@dataclass(frozen=True, slots=True)
class Index:
    """One allocated index: its label, its group, and the fraction in ten-thousandths, 0 for all of it."""

    label: str
    group: int
    share: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """What a request got of one resource.

    Args:
        amount: ten-thousandths.
        indices: in the order in which the task sees them, a fraction last; None for an amount without identity.
    """

    ask: Ask
    amount: int
    indices: tuple[Index, ...] | None

    @property
    def labels(self) -> tuple[str, ...] | None:
        return None if self.indices is None else tuple(index.label for index in self.indices)


@dataclass(slots=True)
class _Stack:
    """The free indices of one group, the next one last, and the fractions left of open indices."""

    free: list[str]
    open: dict[str, int] = field(default_factory=dict)

    @property
    def most_open(self) -> int:
        return max(self.open.values(), default=0)

    def share(self, fraction: int) -> str | None:
        """Take a fraction of the open index where it leaves least, or of a new one; None if neither has it."""
        fitting = [(left, label) for label, left in self.open.items() if left >= fraction]
        if fitting:
            label = min(fitting)[1]
        elif self.free:
            label = self.free.pop()
            self.open[label] = PER_UNIT
        else:
            return None
        self.open[label] -= fraction
        return label

    def put_back(self, index: Index) -> None:
        """Return an index, or a fraction of one; a complete one goes on top."""
        if not index.share:
            self.free.append(index.label)
            return
        self.open[index.label] = self.open.get(index.label, 0) + index.share
        if self.open[index.label] >= PER_UNIT:
            del self.open[index.label]
            self.free.append(index.label)


@dataclass(slots=True)
class _Supply:
    """What is left of one pool: a stack for each group, or an amount."""

    name: str
    stacks: list[_Stack]
    places: dict[str, tuple[int, int]]
    amount: int
    size: int

    @property
    def is_sum(self) -> bool:
        return not self.stacks

    def free(self) -> int:
        """Everything free, in ten-thousandths, including fractions."""
        if self.is_sum:
            return self.amount
        return sum(len(stack.free) * PER_UNIT + sum(stack.open.values()) for stack in self.stacks)

    def most(self) -> int:
        """The most that one request can get: fractions of different indices do not add up."""
        if self.is_sum:
            return self.amount
        return sum(len(stack.free) for stack in self.stacks) * PER_UNIT + max(stack.most_open for stack in self.stacks)

    def can_give(self, ask: Ask) -> bool:
        return self.most() == self.size if ask.amount == ALL else ask.amount <= self.most()


class Worker:
    """A worker and what it has allocated.

    Args:
        pools: its resources, checked with :func:`fluxres.formats.peers.hyperqueue.definitions.check`.
        couplings: weights between groups.
        seed: allocate cpus in ascending order, as versions up to 0.12 did.

    Errors: LimitExceeded beyond `limits.IDSET_COUNT_MAX` indices, because each is an object here.

    >>> from fluxres.formats.peers.hyperqueue import definitions, request
    >>> worker = Worker([definitions.parse("gpus=range(1-3)")])
    >>> worker.allocate("a", [request.parse("gpus=2")])["gpus"].labels, worker.free("gpus")
    (('3', '2'), 10000)
    """

    def __init__(self, pools: Sequence[Pool], couplings: Iterable[Coupling] = (), *, seed: bool = False) -> None:
        count = sum(len(pool.kind) for pool in pools if not isinstance(pool.kind, Sum))
        if count > limits.IDSET_COUNT_MAX:
            raise LimitExceeded(f"{count} indices, at most {limits.IDSET_COUNT_MAX} can be allocated one by one", where="worker")
        self._supplies = {pool.name: _supply(pool) for pool in pools}
        self._idle = {name: [len(stack.free) for stack in supply.stacks] for name, supply in self._supplies.items()}
        names = [pool.name for pool in pools]
        self._weights = {
            ((names[each.resource1], each.group1), (names[each.resource2], each.group2)): float(each.weight) for each in couplings
        }
        self._seed = seed
        self._held: dict[str, dict[str, Given]] = {}

    # -- queries -----------------------------------------------------------------------------------------------------

    def free(self, name: str) -> int:
        """The free amount of a resource in ten-thousandths, including what is left of open indices.

        Errors: UsageError for a resource it does not have.
        """
        if name not in self._supplies:
            raise UsageError(f"no resource {name!r}", hint=f"there is {', '.join(self._supplies) or 'none'}"[:200])
        return self._supplies[name].free()

    def has_ever(self, asks: Sequence[Ask]) -> bool:
        """Whether an idle worker could allocate all of this."""
        return all(
            ask.name in self._supplies and (ask.amount == ALL or ask.amount <= self._supplies[ask.name].size) for ask in asks
        )

    def can_give(self, asks: Sequence[Ask]) -> bool:
        return self._choice(asks) is not None

    def _choice(self, asks: Sequence[Ask]) -> dict[str, tuple[int, ...]] | None:
        """The groups for each request that selects groups, or None if something cannot be allocated."""
        if not all(ask.name in self._supplies and self._supplies[ask.name].can_give(ask) for ask in asks):
            return None
        grouped = (ask for ask in asks if len(self._supplies[ask.name].stacks) > 1)
        choosing = [ask for ask in grouped if ask.amount != ALL and ask.policy != "scatter"]
        if not choosing:
            return {}
        found = self._best(choosing, idle=False)
        if found is None:
            return None
        if any(ask.is_forced for ask in choosing):
            ideal = self._best(choosing, idle=True)
            if ideal is not None and found.worth < ideal.worth - _AS_GOOD:
                return None
        return {ask.name: groups for ask, groups in zip(choosing, found.groups, strict=True)}

    def _best(self, asks: Sequence[Ask], *, idle: bool) -> Choice | None:
        needs = []
        for ask in asks:
            stacks = self._supplies[ask.name].stacks
            free = tuple(self._idle[ask.name]) if idle else tuple(len(stack.free) for stack in stacks)
            most_open = tuple(0 if idle else stack.most_open for stack in stacks)
            needs.append(GroupNeed(*divmod(ask.amount, PER_UNIT), free, most_open))
        number = {ask.name: at for at, ask in enumerate(asks)}
        weights: dict[Pair, float] = {}
        for ((one, group), (other, its)), weight in self._weights.items():
            if one in number and other in number:
                ends = sorted([(number[one], group), (number[other], its)])
                weights[ends[0], ends[1]] = weight
        return choose(needs, weights)

    # -- allocation --------------------------------------------------------------------------------------------------

    def allocate(self, task: str, asks: Sequence[Ask]) -> dict[str, Given] | None:
        """Allocate everything that a task requests; None, without a change, if that is not possible now.

        Errors: UsageError for a task that holds something already.
        """
        if task in self._held:
            raise UsageError(f"task {task!r} holds something already", hint="release it first")
        if len({ask.name for ask in asks}) < len(asks):
            raise UsageError("a resource is requested twice", hint="add up the amounts")
        groups = self._choice(asks)
        if groups is None:
            return None
        self._held[task] = {ask.name: self._take(ask, groups.get(ask.name)) for ask in asks}
        return self._held[task]

    def allocate_variant(self, task: str, variants: Sequence[Variant]) -> tuple[int, dict[str, Given]] | None:
        """Allocate the first possible variant of a task; returns its index too. Variants for whole workers never fit."""
        for number, variant in enumerate(variants):
            if variant.nodes == 0 and (found := self.allocate(task, variant.asks)) is not None:
                return number, found
        return None

    def release(self, task: str) -> None:
        """Release what a task holds; an equal request would get the same again. Errors: UsageError if it holds nothing."""
        if task not in self._held:
            raise UsageError(f"task {task!r} holds nothing", hint="it was never allocated anything, or released it already")
        for name, given in self._held.pop(task).items():
            supply = self._supplies[name]
            if given.indices is None:
                supply.amount += given.amount
            for index in reversed(given.indices or ()):
                supply.stacks[index.group].put_back(index)

    def occupy(self, task: str, name: str, groups: Sequence[int], amount: int) -> None:
        """Take an amount from exactly these groups, as if it were allocated to a task.

        Errors: UsageError if they have too little.
        """
        units, fraction = divmod(amount, PER_UNIT)
        if task in self._held or not self._need(name, units, fraction).is_met(groups):
            raise UsageError(f"{name} has too little free in these groups", where=name, hint="take less, or other groups")
        ask = Ask(name, amount)
        self._held[task] = {name: Given(ask, amount, tuple(self._scatter(self._supplies[name], list(groups), units, fraction)))}

    def _need(self, name: str, units: int, fraction: int) -> GroupNeed:
        stacks = self._supplies[name].stacks
        return GroupNeed(units, fraction, tuple(len(stack.free) for stack in stacks), tuple(stack.most_open for stack in stacks))

    def _take(self, ask: Ask, groups: tuple[int, ...] | None) -> Given:
        supply = self._supplies[ask.name]
        amount = supply.size if ask.amount == ALL else ask.amount
        if supply.is_sum:
            supply.amount -= amount
            return Given(ask, amount, None)
        units, fraction = divmod(amount, PER_UNIT)
        every = list(range(len(supply.stacks)))
        if len(every) == 1:
            found = list(self._pop(supply, units, fraction))
        elif ask.amount == ALL or ask.policy == "scatter":
            found = self._scatter(supply, every, units, fraction)
        elif ask.policy in ("tight", "tight!"):
            found = self._tight(supply, list(groups or ()), units, fraction)
        else:
            found = self._scatter(supply, list(groups or ()), units, fraction)
        if self._seed and ask.name == CPUS:
            found.sort(key=lambda index: supply.places[index.label])
        return Given(ask, amount, tuple(found))

    @staticmethod
    def _pop(supply: _Supply, units: int, fraction: int) -> Iterator[Index]:
        """From a single stack: complete indices, then the fraction."""
        (stack,) = supply.stacks
        for _ in range(units):
            yield Index(stack.free.pop(), 0)
        if fraction:
            label = stack.share(fraction)
            assert label is not None
            yield Index(label, 0, fraction)

    @staticmethod
    def _scatter(supply: _Supply, groups: Sequence[int], units: int, fraction: int) -> list[Index]:
        """One index from each group in turn, in definition order; then the fraction, from the first group that has it."""
        found: list[Index] = []
        while units:
            for group in groups:
                if units and supply.stacks[group].free:
                    found.append(Index(supply.stacks[group].free.pop(), group))
                    units -= 1
        found.sort(key=lambda index: supply.places[index.label])
        return found + Worker._share(supply, groups, fraction)

    @staticmethod
    def _share(supply: _Supply, groups: Sequence[int], fraction: int) -> list[Index]:
        if not fraction:
            return []
        for group in groups:
            label = supply.stacks[group].share(fraction)
            if label is not None:
                return [Index(label, group, fraction)]
        raise AssertionError("the chosen groups have it")

    @staticmethod
    def _tight(supply: _Supply, groups: list[int], units: int, fraction: int) -> list[Index]:
        """Repeatedly the smallest group that holds all of the rest, else all of the largest group."""
        found: list[Index] = []
        left = set(groups)
        while units:
            sizes = sorted((len(supply.stacks[group].free), group) for group in left)
            size, group = next(((size, group) for size, group in sizes if size >= units), sizes[-1])
            if size < units:
                group = min(each for its, each in sizes if its == size)
            left.discard(group)
            stack = supply.stacks[group]
            found += [Index(stack.free.pop(), group) for _ in range(min(units, size))]
            units -= min(units, size)
        return found + Worker._share(supply, groups, fraction)


def _supply(pool: Pool) -> _Supply:
    if isinstance(pool.kind, Sum):
        return _Supply(pool.name, [], {}, pool.kind.amount, pool.kind.amount)
    groups = pool.kind.groups if isinstance(pool.kind, Groups) else (pool.kind,)
    stacks = [_Stack(list(group)) for group in groups]
    places = {label: (number, at) for number, stack in enumerate(stacks) for at, label in enumerate(stack.free)}
    return _Supply(pool.name, stacks, places, 0, len(places) * PER_UNIT)
