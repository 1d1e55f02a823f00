"""The assignment of tasks to workers: the bounds it keeps, and its worth compared with every other one."""

from __future__ import annotations

import itertools
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.instance.assignment import Assignment, TaskClass, WorkerState, assign
from fluxres.syntax.variants import ALL, Ask, Variant

U = 10_000


def variant(weight: float = 1.0, nodes: int = 0, min_time_s: float = 0.0, **amounts: int) -> Variant:
    asks = tuple(Ask(name, amount if amount == ALL else amount * U) for name, amount in amounts.items())
    return Variant(asks, nodes, min_time_s, weight)


def worker(busy: dict[str, int] | None = None, **total: int) -> WorkerState:
    free = {name: (amount - (busy or {}).get(name, 0)) * U for name, amount in total.items()}
    return WorkerState({name: amount * U for name, amount in total.items()}, free, is_idle=not busy)


def tasks(number: int, *variants: Variant, priority: int = 0) -> TaskClass:
    return TaskClass(variants, [(priority, number)])


def by_worker(found: Assignment, classes: int, workers: int) -> list[list[int]]:
    """The number of tasks of each class on each worker."""
    made = [[0] * classes for _ in range(workers)]
    for (of, _, at), number in found.counts.items():
        made[at][of] += number
    return made


@st.composite
def cases(draw: Any) -> tuple[list[WorkerState], list[TaskClass]]:
    workers = []
    for _ in range(draw(st.integers(1, 3))):
        total = {"cpus": draw(st.integers(1, 4))} | ({"gpus": draw(st.integers(1, 2))} if draw(st.booleans()) else {})
        workers.append(worker({"cpus": draw(st.integers(0, total["cpus"]))}, **total))
    classes = []
    for _ in range(draw(st.integers(1, 3))):
        variants = []
        for _ in range(draw(st.integers(1, 2))):
            more = {"gpus": draw(st.integers(1, 2))} if draw(st.booleans()) else {}
            variants.append(variant(draw(st.sampled_from([1.0, 1.0, 1.7])), cpus=draw(st.integers(1, 3)), **more))
        classes.append(TaskClass(tuple(dict.fromkeys(variants)), [(0, draw(st.integers(1, 3)))]))
    return workers, classes


def worth(found: dict[tuple[int, int, int], int], workers: list[WorkerState], classes: list[TaskClass]) -> float:
    """What is maximised: shares of what is free, earlier workers before later ones."""
    sums: dict[str, int] = {}
    for each in workers:
        for name, amount in each.free.items():
            sums[name] = sums.get(name, 0) + amount
    total = 0.0
    for (of, which, at), number in found.items():
        chosen = classes[of].variants[which]
        share = sum(ask.amount / sums[ask.name] for ask in chosen.asks if sums.get(ask.name))
        total += number * chosen.weight * share * (len(workers) - at) / len(workers)
    return total


def fits(found: dict[tuple[int, int, int], int], workers: list[WorkerState], classes: list[TaskClass]) -> bool:
    for at, each in enumerate(workers):
        used: dict[str, int] = {}
        for (of, which, where), number in found.items():
            for ask in classes[of].variants[which].asks if where == at else ():
                used[ask.name] = used.get(ask.name, 0) + number * ask.amount
        if any(amount > each.free.get(name, 0) for name, amount in used.items()):
            return False
    started = [sum(n for (of, _, _), n in found.items() if of == number) for number in range(len(classes))]
    return all(number <= sum(size for _, size in each.sizes) for number, each in zip(started, classes, strict=True))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_tasks_of_one_priority_are_worth_as_much_as_in_the_best_of_all_assignments(
    case: tuple[list[WorkerState], list[TaskClass]],
) -> None:
    workers, classes = case
    found = assign(workers, classes).counts
    assert fits(found, workers, classes)
    cells = [(of, v, at) for of, one in enumerate(classes) for v in range(len(one.variants)) for at in range(len(workers))]
    best, todo = 0.0, [(0, {})]
    while todo:
        position, chosen = todo.pop()
        best = max(best, worth(chosen, workers, classes))
        for later, cell in enumerate(cells[position:], position):
            more = {**chosen, cell: chosen.get(cell, 0) + 1}
            if fits(more, workers, classes):
                todo.append((later, more))
    assert worth(found, workers, classes) == pytest.approx(best)


@pytest.mark.parametrize(
    ("workers", "classes", "started"),
    [
        # A lower priority waits where the higher one waits, unless it fits beside a worker full of it.
        ([worker(cpus=12)], [tasks(2, variant(cpus=8), priority=1), tasks(3, variant(cpus=2))], [[1, 2]]),
        ([worker(cpus=6)], [tasks(2, variant(cpus=3), priority=1), tasks(3, variant(cpus=1))], [[2, 0]]),
        ([worker({"cpus": 1}, cpus=3)], [tasks(1, variant(cpus=3), priority=1), tasks(2, variant(cpus=1))], [[0, 0]]),
        # It starts where the higher one could never run.
        ([worker({"cpus": 1}, cpus=3), worker(cpus=2)], [tasks(1, variant(cpus=3), priority=1), tasks(2, variant(cpus=1))], None),
        # `all` leaves no gap; a resource that the worker lacks leaves everything.
        ([worker({"cpus": 1}, cpus=4)], [tasks(1, variant(cpus=ALL), priority=1), tasks(4, variant(cpus=1))], [[0, 0]]),
        ([worker({"cpus": 1}, cpus=4)], [tasks(1, variant(gpus=1), priority=1), tasks(4, variant(cpus=1))], [[0, 3]]),
    ],
)
def test_priorities(workers: list[WorkerState], classes: list[TaskClass], started: list[list[int]] | None) -> None:
    found = by_worker(assign(workers, classes), len(classes), len(workers))
    assert found == (started or [[0, 0], [0, 2]])


def test_tasks_on_several_workers_stay_in_a_group_that_lives_long_enough() -> None:
    groups = [
        WorkerState({"cpus": U}, {"cpus": U}, lives, group) for lives, group in ((inf, "a"), (inf, "b"), (9, "b"), (50, "b"))
    ]
    assert assign(groups, [tasks(1, variant(nodes=2, min_time_s=10))]).sets == {0: [[1, 3]]}
    assert assign(groups, [tasks(1, variant(nodes=3, min_time_s=10))]).sets == {}
    busy = [WorkerState({"cpus": U}, {"cpus": 0}, is_idle=False), *groups[1:]]
    assert assign(busy, [tasks(2, variant(nodes=3))]).sets == {0: [[1, 2, 3]]}


def test_a_class_stays_on_the_workers_that_it_is_allowed_on() -> None:
    one = TaskClass((variant(cpus=1),), [(0, 5)], frozenset({1}))
    assert assign([worker(cpus=4), worker(cpus=2)], [one]).counts == {(0, 0, 1): 2}


def test_a_search_without_steps_left_still_returns_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [worker(cpus=7, gpus=3) for _ in range(6)]
    classes = [tasks(9, variant(cpus=a), variant(cpus=b, gpus=1), priority=a) for a, b in itertools.permutations((1, 2, 3), 2)]
    for steps in (0, 400):
        monkeypatch.setattr(limits, "ASSIGNMENT_STEPS_MAX", steps)
        found = assign(workers, classes).counts
        assert fits(found, workers, classes)
        assert found


@pytest.mark.parametrize(("least", "waiting", "started"), [(0.5, 1, 0), (0.5, 2, 2), (0.75, 2, 0), (0.75, 3, 3), (0.0, 1, 1)])
def test_a_worker_starts_tasks_only_if_enough_of_its_cpus_are_in_use_then(least: float, waiting: int, started: int) -> None:
    whole = WorkerState({"cpus": 8 * U}, {"cpus": 8 * U}, min_utilization=least)
    assert sum(assign([whole], [tasks(waiting, variant(cpus=2))]).counts.values()) == started
    busy = WorkerState({"cpus": 8 * U}, {"cpus": 2 * U}, min_utilization=least, is_idle=False)
    assert sum(assign([busy], [tasks(waiting, variant(cpus=2))]).counts.values()) == 1
