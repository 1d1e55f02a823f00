"""The program of a campaign of random courses, each of which a seed makes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence


def campaign(
    description: str | None, differences: Callable[[int], Sequence[str]], *, count: str = "--cases", seed: int = 1
) -> int:
    """Compare courses, and print what differs; returns the status of the program.

    Args:
        description: for `--help`.
        differences: what differs in the course of a seed.
        count: the option with the number of courses.
        seed: the first one, unless `--seed` says another.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(count, dest="courses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=seed)
    given = parser.parse_args()
    wrong = 0
    for number in range(given.seed, given.seed + given.courses):
        if found := differences(number):
            wrong += 1
            print(f"seed {number}:", *found[:5], sep="\n  ", flush=True)
    print(f"{given.courses} courses, {wrong} wrong")
    return 1 if wrong else 0
