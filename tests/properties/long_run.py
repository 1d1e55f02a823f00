"""Millions of random operations on a graph and its oracle, with ordinary random numbers.

``python -m tests.properties.long_run --steps 1000000 --seed 1`` prints progress and, when graph and oracle never
disagreed, a last line ``1000000 steps, 0 differences, seed 1, N machines``.  At the first difference it plays the history of
that machine again and again, each time without some of the operations, until none can be left out; it prints the rest and
exits 1.  A history depends on the seed and the number of the machine only.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.properties.comparison import CRITERIA, UNITS_S, Difference
from tests.properties.operations import Operation, operation
from tests.properties.pair import Pair
from tests.strategies import JOBS, Integer, Machine, machine

STEPS_A_MACHINE = 400
FULL_EVERY = 200
"""Steps after which everything is compared, and not what the operation and chance pointed at."""


class Course:
    """One machine and its history, generated from a seed."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.machine: Machine = machine(self.integer, 40)
        self.horizon = self.rng.randint(4, 15)
        self.unit_s = self.rng.choice(UNITS_S)
        self.jobs = JOBS[: self.rng.randint(2, len(JOBS))]
        self.operations: list[Operation] = []

    def integer(self, low: int, high: int) -> int:
        return low + int(self.rng.random() * (high - low + 1))

    def pair(self) -> Pair:
        return Pair(self.machine, self.horizon, self.unit_s)

    def run(self, steps: int) -> None:
        """That many steps.

        Raises: Difference.
        """
        pair = self.pair()
        for step in range(1, steps + 1):
            chosen = operation(self.integer, pair.oracle, self.jobs)
            self.operations.append(chosen)
            with errors_as_differences():
                pair.do(chosen)
                glance(pair, chosen, self.integer)
                if step % FULL_EVERY == 0 or step == steps:
                    pair.compare_all()

    def differs(self, operations: list[Operation], *, thorough: bool = True) -> str | None:
        """Whether this history shows a difference, everything being compared after each step, or else at the end."""
        try:
            with errors_as_differences():
                pair = self.pair()
                for chosen in operations:
                    pair.do(chosen)
                    if thorough:
                        pair.compare_all()
                pair.compare_all()
        except Difference as difference:
            return str(difference)
        return None

    def shortest(self) -> list[Operation]:
        """The shortest history: nothing more can be left out."""
        left = list(self.operations)
        found = self.differs(left, thorough=False)
        thorough = found is None
        sort = kind_of(found or self.differs(left) or "")
        width = max(len(left) // 2, 1)
        while True:
            at = 0
            while at < len(left):
                fewer = left[:at] + left[at + width :]
                if (found := self.differs(fewer, thorough=thorough)) and kind_of(found) == sort:
                    left = fewer
                else:
                    at += width
            if width == 1:
                return left
            width //= 2


@contextmanager
def errors_as_differences() -> Iterator[None]:
    """A query that raises an error has no result to compare."""
    try:
        yield
    except Difference:
        raise
    except Exception as error:
        raise Difference(f"{type(error).__name__}: {error}") from error


def kind_of(difference: str) -> str:
    """The kind of a difference, so that shrinking a history does not end at another one."""
    return re.sub(r"\[.*\]|[/:]\S+|\d+|'.*'", "", difference)[:40]


def glance(pair: Pair, chosen: Operation, integer: Integer) -> None:
    """Compare the pools of an operation, those above them, and random ones, at a random moment and window."""
    oracle = pair.oracle
    keys = [key for key in pair.keys_in(chosen) if key in oracle.pools][:1]
    if keys:
        above = list(oracle.ancestors(keys[0]))
        keys += above[integer(0, len(above) - 1) :][:1] if above else []
    everything = list(oracle.pools)
    keys.append(everything[integer(0, len(everything) - 1)])
    start = integer(0, oracle.horizon)
    end = None if start == oracle.horizon or integer(0, 3) == 0 else integer(start + 1, oracle.horizon)
    for key in dict.fromkeys(keys):
        pair.compare_pool(key, start, end)
    pair.compare_aggregate(keys[0], start, end)
    if integer(0, 2) == 0:
        pair.compare_free(start, end)
        pair.compare_edges(start, end)
        pair.compare_find(list(CRITERIA)[integer(0, len(CRITERIA) - 1)], start, end)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.long_run", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first machine, to go on with or repeat a run")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    given = parser.parse_args(arguments)
    done, number, began, told = 0, given.first, time.monotonic(), time.monotonic()
    while done < given.steps:
        course = Course(f"{given.seed}/{number}")
        steps = min(STEPS_A_MACHINE, given.steps - done)
        try:
            course.run(steps)
        except Difference as difference:
            report(course, given.seed, number, difference)
            return 1
        done += steps
        number += 1
        if not given.quiet and time.monotonic() - told > 30:
            told = time.monotonic()
            print(f"{done} steps, {done / (told - began):.0f} a second, {number - given.first} machines", flush=True)
    print(f"{done} steps, 0 differences, seed {given.seed}, {number - given.first} machines")
    return 0


def report(course: Course, seed: int, number: int, difference: Difference) -> None:
    print(f"seed {seed}, machine {number}, step {len(course.operations)}: {difference}")
    print(f"repeat with --seed {seed} --first {number} --steps {STEPS_A_MACHINE}")
    left = course.shortest()
    print(f"shortest replay, {len(left)} operations, horizon {course.horizon}, {course.unit_s} s a tick: {course.differs(left)}")
    for key, (spec, _parent) in course.machine.flat().items():
        print(f"  {key} size {spec.size} {spec.state}{' exclusive' if spec.exclusive else ''}")
    for edge in [*course.machine.feeds, *course.machine.links]:
        print(f"  {edge.src} -> {edge.dst} {edge.relation} {edge.capacity}")
    for chosen in left:
        print(json.dumps(chosen, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(main())
