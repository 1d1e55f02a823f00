"""How a HyperQueue worker allocates: stacks of indices, fractions of one index, amounts, groups.

Indices are a stack: the last one in the definition is allocated first, and what is released goes on top, so a repeated task gets
the same indices again.  A fraction comes from an index that is open already, the one where it leaves least, and is never split
over two.  A request gets everything or changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fluxres import limits
from fluxres.errors import LimitExceeded, UsageError
from fluxres.formats.peers.hyperqueue.coupling import Coupling
from fluxres.formats.peers.hyperqueue.definitions import CPUS
from fluxres.formats.peers.hyperqueue.groups import Choice, Need, Pair, choose
from fluxres.formats.peers.hyperqueue.pools import Groups, Pool, Sum
from fluxres.formats.peers.hyperqueue.request import ALL, Ask, Variant
from fluxres.formats.peers.hyperqueue.tokens import PER_UNIT

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
        ask: the request.
        amount: ten-thousandths.
        indices: in the order in which the task sees them, a fraction last; None for an amount without identity.
    """

    ask: Ask
    amount: int
    indices: tuple[Index, ...] | None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The labels of the indices."""
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
        """Whether it can allocate all of this now."""
        return self._choice(asks) is not None

    def _choice(self, asks: Sequence[Ask]) -> dict[str, tuple[int, ...]] | None:
        """The groups for each request that selects groups, or None if something cannot be allocated."""
        if not all(ask.name in self._supplies and self._supplies[ask.name].can_give(ask) for ask in asks):
            return None
        choosing = [ask for ask in asks if self._chooses(ask)]
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

    def _chooses(self, ask: Ask) -> bool:
        return ask.amount != ALL and ask.policy != "scatter" and len(self._supplies[ask.name].stacks) > 1

    def _best(self, asks: Sequence[Ask], *, idle: bool) -> Choice | None:
        needs = []
        for ask in asks:
            stacks = self._supplies[ask.name].stacks
            free = tuple(self._idle[ask.name]) if idle else tuple(len(stack.free) for stack in stacks)
            most_open = tuple(0 if idle else stack.most_open for stack in stacks)
            needs.append(Need(*divmod(ask.amount, PER_UNIT), free, most_open))
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

    def _need(self, name: str, units: int, fraction: int) -> Need:
        stacks = self._supplies[name].stacks
        return Need(units, fraction, tuple(len(stack.free) for stack in stacks), tuple(stack.most_open for stack in stacks))

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
