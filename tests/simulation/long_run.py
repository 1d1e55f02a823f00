"""Random simulations for a given time: ``python -m tests.simulation.long_run --minutes 10 --seed 1``.

Two kinds alternate: courses, in which every invariant must hold, and traces, in which every start must equal that of an
oracle. Problems are printed with their seed, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.simulation.agreement import CASES, differences
from tests.simulation.course import course


def once(seed: int) -> list[str]:
    """Problems of the course and of the trace of this seed."""
    made = course(Random(seed))
    case = list(CASES)[seed % len(CASES)]
    inventory = "graph" if seed % 4 == 0 and "easy-count" not in case and "sjbf" not in case else "auto"
    found = [f"{made.machine} {made.inventory} {made.policies} {made.fan_outs}: {problem}" for problem in made.problems()]
    return found + [f"{case}, {inventory}: {problem}" for problem in differences(case, seed, inventory)]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    end = time.monotonic() + 60.0 * given.minutes
    seed = wrong = jobs = 0
    for seed in range(given.seed, sys.maxsize):
        if time.monotonic() > end:
            break
        jobs += len(course(Random(seed)).jobs)
        found = once(seed)
        if found:
            wrong += 1
            print(f"seed {seed}:", *found[:5], sep="\n  ", flush=True)
        if not seed % 1000:
            print(f"seed {seed}, {wrong} wrong", flush=True)
    print(f"{seed - given.seed} courses of {jobs} jobs and as many traces, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
