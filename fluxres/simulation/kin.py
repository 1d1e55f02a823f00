"""Which jobs of a workload must go to the same instance because they depend on each other.

Dependencies work within one queue: an instance does not know the jobs of its siblings.  So when a workload is dealt to several
instances, jobs that are connected by dependencies are dealt together.
"""

from __future__ import annotations

from collections.abc import Sequence

from fluxres.instance.dependencies import BEGIN, SINGLETON
from fluxres.simulation.workload import Submission


def hands(jobs: Sequence[Submission], number: int) -> list[list[int]]:
    """Jobs by the instance they go to, each ascending: connected groups are dealt in turns, in the order of their first jobs.

    Cost: O(jobs + dependencies), nearly.

    >>> one, two, three = (Submission(job, 0, 1, 1, 1) for job in "abc")
    >>> hands([one, two, three._replace(dependencies=("afterok:a",))], 2)
    [[0, 2], [1]]
    """
    first = list(range(len(jobs)))

    def top(at: int) -> int:
        while first[at] != at:
            first[at] = at = first[first[at]]
        return at

    known: dict[object, int] = {}
    alone = {(job.user, job.name) for job in jobs if SINGLETON in job.dependencies}
    for at, job in enumerate(jobs):
        known[str(job.id)] = at
        named = [_other(job, dependency) for dependency in job.dependencies]
        if (job.user, job.name) in alone:
            named.append((job.user, job.name))  # a singleton also waits for jobs that are not singletons themselves
        for name in named:
            if name is not None:
                low, high = sorted((top(known.setdefault(name, at)), top(at)))
                first[high] = low
    dealt: list[list[int]] = [[] for _ in range(number)]
    hand: dict[int, int] = {}
    for at in range(len(jobs)):
        dealt[hand.setdefault(top(at), len(hand) % number)].append(at)
    return dealt


def _other(job: Submission, dependency: str) -> object:
    """What a dependency refers to: a job id, all jobs of a user and name, or nothing (None)."""
    scheme, _, value = dependency.partition(":")
    if scheme == SINGLETON:
        return (job.user, job.name)
    return None if scheme == BEGIN else value
