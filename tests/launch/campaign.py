"""Kill instances at random moments for a given time: ``python -m tests.launch.campaign --minutes 3 --seed 1``.

After each run, none of its processes may be left, the outermost instance must have all its resources back, and every job must
be completed, failed or lost.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time

from fluxres.launch.branch import Branch
from fluxres.launch.hierarchy import EqualJobs, Patience, run
from fluxres.simulation.nesting.hierarchy import Hierarchy
from tests.launch.machines import marked, of_shape

TOPOLOGIES = ((2,), (3,), (2, 2))
JOBS = ("instant", "sleep:0.05", "sleep 0.05", "sh -c 'sleep 0.05 & sleep 0.02; exit 1'")
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGABRT)


def strike(mark: str, random_: random.Random) -> None:
    """One signal for a random process of the run."""
    victims = sorted(marked(mark))
    if victims:
        try:
            os.kill(random_.choice(victims), random_.choice(SIGNALS))
        except ProcessLookupError:
            return


def once(seed: int) -> str:
    """One run with up to three strikes; returns the problems found afterwards."""
    random_ = random.Random(seed)
    fan_outs, job, jobs = random_.choice(TOPOLOGIES), random_.choice(JOBS), random_.randrange(80)
    seen: list[Branch] = []
    boot = Branch.boot

    def striking(branch: Branch) -> None:
        seen.append(branch)
        for _ in range(random_.randint(1, 3)):
            branch.loop.after(random_.uniform(0.0, 4.0), lambda: strike(branch.begin.mark, random_))
        boot(branch)

    Branch.boot = striking  # type: ignore[method-assign]  # only here, and undone below
    began = time.monotonic()
    try:
        # A job that was stopped ends with its limit.
        ensemble = EqualJobs(jobs, job, duration_s=3.0)
        outcome = run(of_shape("node=4/core=2"), Hierarchy(fan_outs), ensemble, Patience(grace_s=0.5, silence_s=4.0))
    finally:
        Branch.boot = boot  # type: ignore[method-assign]  # as above
    took_s = time.monotonic() - began
    branch = seen[0]
    left = marked(branch.begin.mark)
    problems = [
        f"left behind: {left}" if left else "",
        f"not back: {branch.instance.is_active}" if branch.instance.is_active else "",
        f"held: {branch.instance.graph.jobs()}" if branch.instance.graph.jobs() else "",
        f"{outcome.lost} lost" if not 0 <= outcome.lost <= jobs else "",
        f"{took_s:.0f} s" if took_s > 60 else "",
        f"silent: {outcome.lost} lost" if outcome.lost and not outcome.notes else "",
    ]
    return "; ".join(problem for problem in problems if problem)


def main() -> int:
    """Repeat runs for the given time; status 1 if there was a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    end, seed, wrong = time.monotonic() + 60 * given.minutes, given.seed, 0
    while time.monotonic() < end:
        found = once(seed)
        if found:
            wrong += 1
            print(f"seed {seed}: {found}", flush=True)
        seed += 1
    print(f"{seed - given.seed} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
