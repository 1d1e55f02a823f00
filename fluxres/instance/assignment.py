"""Which tasks start on which workers now, as HyperQueue decides it: one integer program over all workers and kinds of tasks.

Tasks with equal requests are one *class*.  The program starts as much as it can, measured by the shares of the free resources
that the tasks take, times the weights of their requests; earlier workers count a little more, so tasks are packed.  Priorities
are constraints: where tasks of a higher priority still wait, one of a lower priority starts only

* on workers that the waiting ones could never use,
* in a gap that they leave even on a worker full of them, or
* if as many of them start as there are.

A worker that a waiting task could use once it is empty may be kept for it instead of starting anything.

HyperQueue gives the program to a solver.  Here it is searched depth first, classes in order of their priority and each as often
as possible first, with the remaining resources as a bound; after `limits.ASSIGNMENT_STEPS_MAX` steps the best assignment so far
is taken.  Ties differ from a solver's, as they do between its versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from fluxres import limits
from fluxres.syntax.variants import ALL, CPUS, Variant

Amounts = Mapping[str, int]
"""Ten-thousandths by resource."""

_SAME: Final = 1e-9
_KEPT: Final = 100
"""A worker kept for a waiting task is worth this much less than one that starts something."""


@dataclass(frozen=True)
class WorkerState:
    """One worker at a moment.

    Args:
        total, free: what it has, and what nobody holds.
        lives_s: seconds that it will still be there.
        group: its group of workers; tasks on several workers stay in one group.
        min_utilization: the part of its cpus that must be in use if anything is started.
        used_by: what running tasks hold, by the variants of their requests.
        is_idle: whether nobody holds anything of it.
    """

    total: Amounts
    free: Amounts
    lives_s: float = inf
    group: str = ""
    min_utilization: float = 0.0
    used_by: Mapping[tuple[Variant, ...], Amounts] = field(default_factory=dict)
    is_idle: bool = True

    def amount(self, variant: Variant, name: str) -> int:
        """What a task takes of a resource here."""
        asked = next((ask.amount for ask in variant.asks if ask.name == name), 0)
        return self.total.get(name, 0) if asked == ALL else asked

    def needs(self, variant: Variant) -> dict[str, int]:
        return {ask.name: self.amount(variant, ask.name) for ask in variant.asks}

    def lives(self, variant: Variant) -> bool:
        return variant.min_time_s <= self.lives_s

    def could_run(self, variants: Sequence[Variant]) -> bool:
        """Whether it can serve one of the variants when it is idle."""
        return any(self.lives(each) and _count(self.total, self.needs(each)) > 0 for each in variants)

    def number_now(self, variant: Variant) -> int:
        """The number of tasks with this variant that fit now."""
        return _count(self.free, self.needs(variant)) if self.lives(variant) else 0


@dataclass
class TaskClass:
    """Waiting tasks with equal requests.

    Args:
        variants: of the request.
        sizes: (priority, number of tasks), highest first.
        allowed: the workers on which they may run; None for all.
    """

    variants: tuple[Variant, ...]
    sizes: Sequence[tuple[int, int]]
    allowed: frozenset[int] | None = None

    def may_use(self, worker: int) -> bool:
        return self.allowed is None or worker in self.allowed

    @property
    def nodes(self) -> int:
        """The number of whole workers that a task needs; 0 for a part of one."""
        return self.variants[0].nodes


@dataclass
class Assignment:
    """How many tasks start.

    Args:
        counts: by (class, variant, worker).
        sets: by class, the workers of each task that needs several.
    """

    counts: dict[tuple[int, int, int], int] = field(default_factory=dict)
    sets: dict[int, list[list[int]]] = field(default_factory=dict)


def assign(workers: Sequence[WorkerState], classes: Sequence[TaskClass]) -> Assignment:
    """The tasks that start now.

    >>> from fluxres.syntax.variants import Ask
    >>> four = WorkerState({"cpus": 40_000}, {"cpus": 40_000})
    >>> two, three = (TaskClass((Variant((Ask("cpus", n * 10_000),)),), [(0, 1)]) for n in (2, 3))
    >>> sorted(assign([four, four], [two, three]).counts.items())
    [((0, 0, 1), 1), ((1, 0, 0), 1)]
    """
    program = _Program(workers, classes)
    return program.solve()


def _count(there: Amounts, needs: Amounts) -> int:
    """How often something fits."""
    return min((there.get(name, 0) // amount for name, amount in needs.items() if amount), default=0) if needs else 0


# -- classes by priority ---------------------------------------------------------------------------------------------------


@dataclass
class _Batch:
    """What may start of one class: at most `size`; `cuts` say how many of them have which priority.

    Args:
        cuts: (tasks of higher priority than others, (class that goes first, its number of tasks or None for any number)).
        is_endless: whether there are more tasks than all workers together could start.
        is_blocker: whether others wait for it.
    """

    size: int = 0
    cuts: list[tuple[int, list[tuple[int, int | None]]]] = field(default_factory=list)
    is_endless: bool = False
    is_blocker: bool = False


def _batches(workers: Sequence[WorkerState], classes: Sequence[TaskClass]) -> list[_Batch]:
    """The classes, walked through by priority."""
    found = [_Batch() for _ in classes]
    most = [_most(workers, each) for each in classes]
    left = [list(each.sizes) for each in classes]
    alone = -1
    while any(left):
        highest = max(sizes[0][0] for sizes in left if sizes)
        now = [number for number, sizes in enumerate(left) if sizes and sizes[0][0] == highest]
        if now != [alone]:
            before = [(each.size, each.is_endless) for each in found]
            for number in now:
                blockers = []
                for other, (size, is_endless) in enumerate(before):
                    if other != number and (size or is_endless):
                        found[other].is_blocker = True
                        blockers.append((other, None if is_endless else size))
                if blockers:
                    found[number].cuts.append((before[number][0], blockers))
        for number in now:
            batch = found[number]
            batch.size += left[number].pop(0)[1]
            if batch.size > most[number]:
                batch.size, batch.is_endless = most[number], True
                left[number].clear()
        alone = now[0] if len(now) == 1 else -1
    return found


def _most(workers: Sequence[WorkerState], one: TaskClass) -> int:
    """More tasks of a class than this cannot start now."""
    if one.nodes:
        return sum(worker.is_idle and one.may_use(at) for at, worker in enumerate(workers)) // one.nodes
    able = [worker for at, worker in enumerate(workers) if one.may_use(at) and worker.could_run(one.variants)]
    return sum(max(1, *(worker.number_now(variant) for variant in one.variants)) for worker in able)


# -- the program -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Choice:
    """A number to choose: tasks of a class with a variant on a worker; -1 as variant keeps the worker for the class."""

    of: int
    variant: int
    worker: int
    worth: float
    needs: dict[str, int]
    most: int


@dataclass(slots=True)
class _Limit:
    """At most `most` in these choices together, unless `unless` says that enough of a class start: (class, number)."""

    choices: list[int]
    most: int
    unless: tuple[int, int] | None


class _Program:
    def __init__(self, workers: Sequence[WorkerState], classes: Sequence[TaskClass]) -> None:
        self.workers, self.classes = workers, classes
        self.batches = _batches(workers, classes)
        names = dict.fromkeys(name for worker in workers for name in worker.total)
        self.sums = {name: sum(worker.free.get(name, 0) for worker in workers) for name in names}
        order = sorted(range(len(classes)), key=lambda number: -max((p for p, _ in classes[number].sizes), default=0))
        self.choices = [choice for number in order if self.batches[number].size for choice in self._choices(number)]
        self.limits = list(self._limits())
        self.of_choice: list[list[int]] = [[] for _ in self.choices]
        for number, limit in enumerate(self.limits):
            for at in limit.choices:
                self.of_choice[at].append(number)

    # -- choices -----------------------------------------------------------------------------------------------------

    def _worth(self, needs: Amounts, worker: int) -> float:
        share = sum(amount / self.sums[name] for name, amount in needs.items() if self.sums.get(name))
        return share * (len(self.workers) - worker) / len(self.workers)

    def _choices(self, number: int) -> Iterator[_Choice]:
        one, batch = self.classes[number], self.batches[number]
        for at, worker in enumerate(self.workers):
            if not one.may_use(at):
                continue
            if one.nodes:
                if worker.is_idle and worker.lives(one.variants[0]) and self._in_group(one, worker.group):
                    yield _Choice(number, 0, at, self._worth(worker.total, at), dict(worker.total), 1)
                continue
            fits = False
            for which, variant in enumerate(one.variants):
                most = min(worker.number_now(variant), batch.size)
                if most:
                    fits = True
                    needs = worker.needs(variant)
                    yield _Choice(number, which, at, self._worth(needs, at) * variant.weight, needs, most)
            if not fits and batch.is_blocker and not batch.is_endless and worker.could_run(one.variants):
                worth = at / (len(self.workers) * _KEPT)
                yield _Choice(number, -1, at, worth, {name: free for name, free in worker.free.items() if free}, 1)

    def _in_group(self, one: TaskClass, group: str) -> bool:
        """Whether a group has enough workers that live long enough."""
        members = [
            at
            for at, worker in enumerate(self.workers)
            if worker.group == group and one.may_use(at) and worker.lives(one.variants[0])
        ]
        return len(members) >= one.nodes

    # -- priorities --------------------------------------------------------------------------------------------------

    def _limits(self) -> Iterator[_Limit]:
        by_class: dict[int, list[int]] = {}
        for at, choice in enumerate(self.choices):
            by_class.setdefault(choice.of, []).append(at)
        for number, mine in by_class.items():
            tasks = [at for at in mine if self.choices[at].variant >= 0]
            for before, blockers in self.batches[number].cuts:
                for blocker, size in blockers:
                    unless = None if size is None else (blocker, size)
                    together = []
                    for at in tasks:
                        gap = self._gap(blocker, self.choices[at])
                        if gap:
                            yield _Limit([at], self._units(number, before) + gap, unless)
                        else:
                            together.append(at)
                    if together:
                        yield _Limit(together, self._units(number, before), unless)

    def _units(self, number: int, tasks: int) -> int:
        """What a number of tasks of a class is in choices: a task on several workers is one choice on each."""
        return tasks * max(self.classes[number].nodes, 1)

    def _gap(self, blocker: int, choice: _Choice) -> int:
        """How many tasks fit beside a worker full of another class; very many where that class can never run."""
        high, worker = self.classes[blocker], self.workers[choice.worker]
        if self.classes[choice.of].nodes:
            able = [at for at, w in enumerate(self.workers) if w.group == worker.group and self._could_run(high, at)]
            return 0 if high.nodes or able else choice.most
        if high.nodes:
            return 0 if self._in_group(high, worker.group) else choice.most
        if not self._could_run(high, choice.worker):
            return choice.most
        left = dict(self._beside(high.variants, worker))
        for variants, used in worker.used_by.items():
            for name, amount in used.items() if variants != high.variants else ():
                left[name] = left.get(name, 0) - amount
        return max(_count(left, choice.needs), 0)

    def _could_run(self, one: TaskClass, worker: int) -> bool:
        return one.may_use(worker) and self.workers[worker].could_run(one.variants)

    @staticmethod
    def _beside(variants: Sequence[Variant], worker: WorkerState) -> Amounts:
        """What is left of each resource on a worker with as many tasks of a class as it holds."""
        able = [worker.needs(each) for each in variants if worker.lives(each) and _count(worker.total, worker.needs(each))]
        if any(ask.amount == ALL for each in variants for ask in each.asks):
            return {}
        if len(variants) == 1:
            number = _count(worker.total, able[0])
            return {name: amount - number * able[0].get(name, 0) for name, amount in worker.total.items()}
        return {name: amount - _fullest(able, worker.total, name) for name, amount in worker.total.items()}

    # -- search ------------------------------------------------------------------------------------------------------

    def solve(self) -> Assignment:
        search = _BranchAndBound(self)
        search.run()
        return self._made(search.best)

    def _made(self, numbers: Sequence[int]) -> Assignment:
        found = Assignment()
        members: dict[tuple[int, str], list[int]] = {}
        for choice, number in zip(self.choices, numbers, strict=True):
            if not number or choice.variant < 0:
                continue
            if self.classes[choice.of].nodes:
                members.setdefault((choice.of, self.workers[choice.worker].group), []).append(choice.worker)
            else:
                found.counts[choice.of, choice.variant, choice.worker] = number
        for (of, _), at in members.items():
            each = self.classes[of].nodes
            found.sets.setdefault(of, []).extend(at[i : i + each] for i in range(0, len(at), each))
        return found


def _fullest(needs: Sequence[Amounts], total: Amounts, name: str) -> int:
    """The most of one resource that a mix of variants takes; all of it if a variant does not need it."""
    if any(not each.get(name) for each in needs):
        return total.get(name, 0)
    best, todo = 0, [(0, 0, dict(total))]
    steps = 0
    while todo and steps < limits.ASSIGNMENT_STEPS_MAX:
        steps += 1
        at, used, left = todo.pop()
        best = max(best, used)
        if at < len(needs) and used + left.get(name, 0) > best:
            for number in range(_count(left, needs[at]) + 1):
                after = {key: amount - number * needs[at].get(key, 0) for key, amount in left.items()}
                todo.append((at + 1, used + number * needs[at][name], after))
    return best


class _BranchAndBound:
    """Depth first over the choices; each number is tried from the largest down."""

    def __init__(self, program: _Program) -> None:
        self.program = program
        self.choices = program.choices
        self.best = [0] * len(self.choices)
        self.best_worth = 0.0
        self.numbers = [0] * len(self.choices)
        self.free = [dict(worker.free) for worker in program.workers]
        self.started = [0] * len(program.classes)
        self.left = [
            inf if batch.is_endless else batch.size * max(one.nodes, 1)
            for batch, one in zip(program.batches, program.classes, strict=True)
        ]
        #: by class, the position after its last choice: its number of tasks is known from there on
        self.known = [0] * len(program.classes)
        for at, choice in enumerate(self.choices):
            self.known[choice.of] = at + 1
        self.used_up = [0] * len(program.limits)
        self.closing: list[list[int]] = [[] for _ in range(len(self.choices) + 1)]
        for number, one in enumerate(program.classes):
            if one.nodes or any(limit.unless and limit.unless[0] == number for limit in program.limits):
                self.closing[self.known[number]].append(number)
        self.steps = 0
        #: a step costs the more the larger the program is; the first assignment is searched to its end
        number = len(self.choices)
        self.steps_max = limits.ASSIGNMENT_STEPS_MAX // (1 + number // 16) + 2 * number
        self.densest = max((each.weight for one in program.classes for each in one.variants), default=1.0)

    def run(self) -> None:
        self._from(0, 0.0)

    def _from(self, at: int, worth: float) -> None:
        """Choose the numbers from a position on.  A stack of generators keeps deep programs off Python's own stack."""
        stack: list[Iterator[float]] = [self._numbers(at, worth)]
        while stack:
            following = next(stack[-1], None)
            if following is None or self.steps >= self.steps_max:
                stack.pop().close()  # type: ignore[attr-defined]  # generators
                continue
            if len(stack) == len(self.choices):
                if self._is_allowed(len(self.choices)) and following > self.best_worth + _SAME and self._is_utilized():
                    self.best, self.best_worth = list(self.numbers), following
                continue
            stack.append(self._numbers(len(stack), following))

    def _numbers(self, at: int, worth: float) -> Iterator[float]:
        """Each number for a choice, set while the caller looks at what follows."""
        if at >= len(self.choices):
            return
        self.steps += 1
        if not self._is_allowed(at) or worth + self._bound(at) <= self.best_worth + _SAME:
            return
        choice = self.choices[at]
        free = self.free[choice.worker]
        most = min(choice.most, _count(free, choice.needs) if choice.needs else choice.most)
        most = int(min(most, self.left[choice.of]))
        for number in self.program.of_choice[at]:
            limit = self.program.limits[number]
            if limit.unless is None or self._is_short(limit.unless, at):
                most = min(most, limit.most - self.used_up[number])
        for number in range(max(most, 0), -1, -1):
            self._take(at, number)
            yield worth + number * choice.worth
            self._take(at, -number)
        self.numbers[at] = 0

    def _take(self, at: int, number: int) -> None:
        choice = self.choices[at]
        self.numbers[at] = max(number, 0)
        if number:
            free = self.free[choice.worker]
            for name, amount in choice.needs.items():
                free[name] -= number * amount
            self.left[choice.of] -= number
            self.started[choice.of] += number
            if choice.variant >= 0:
                for limit in self.program.of_choice[at]:
                    self.used_up[limit] += number

    def _is_short(self, unless: tuple[int, int], at: int) -> bool:
        """Whether fewer than a number of tasks of a class start, as far as that is known."""
        of, size = unless
        nodes = max(self.program.classes[of].nodes, 1)
        return at >= self.known[of] and self.started[of] < size * nodes

    def _is_allowed(self, at: int) -> bool:
        """Whether the classes whose numbers are known now keep the limits, and fill their sets of workers."""
        for of in self.closing[at]:
            nodes = self.program.classes[of].nodes
            if nodes:
                members: dict[str, int] = {}
                for choice, number in zip(self.choices, self.numbers, strict=True):
                    if choice.of == of:
                        group = self.program.workers[choice.worker].group
                        members[group] = members.get(group, 0) + number
                if any(number % nodes for number in members.values()):
                    return False
            for number, limit in enumerate(self.program.limits):
                is_open = limit.unless and limit.unless[0] == of and self._is_short(limit.unless, at)
                if is_open and self.used_up[number] > limit.most:
                    return False
        return True

    def _bound(self, at: int) -> float:
        """The most that the remaining choices can be worth: by what is free, and by what waits."""
        by_worker: dict[int, float] = {}
        by_class: dict[int, float] = {}
        for choice in self.choices[at:]:
            by_class[choice.of] = max(by_class.get(choice.of, 0.0), choice.worth)
            if choice.worker not in by_worker:
                free = {name: max(amount, 0) for name, amount in self.free[choice.worker].items()}
                by_worker[choice.worker] = self.program._worth(free, choice.worker) * self.densest + 1 / _KEPT
        tasks = sum(worth * self.left[of] for of, worth in by_class.items() if worth)
        return min(sum(by_worker.values()), tasks)

    def _is_utilized(self) -> bool:
        """Whether each worker on which something starts has enough of its cpus in use."""
        starts = {
            choice.worker for choice, number in zip(self.choices, self.numbers, strict=True) if number and choice.variant >= 0
        }
        for at in starts:
            worker = self.program.workers[at]
            total = worker.total.get(CPUS, 0)
            if total - self.free[at].get(CPUS, 0) < worker.min_utilization * total - _SAME:
                return False
        return True
