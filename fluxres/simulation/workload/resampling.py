"""New workloads out of a recorded one, by drawing parts of it again (Zakay and Feitelson, Workload resampling, 2014).

Parts are moved by whole weeks, so that the cycles of the day and of the week remain.  Either the weeks of a trace are drawn, one
after another, or as many users as it has: each with all jobs of the user in the trace, moved by a random number of weeks around
its length.  The first `weeks` of the result are kept; a longer workload consists of several such drawings.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fluxres.clock import TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.workload import trace
from fluxres.simulation.workload.workload import Submission

WEEK: Final = 7 * 86400 * TICKS_PER_S
PARTS: Final = ("week", "user")


@dataclass
class Resample:
    """A resampled trace; the same seed gives the same jobs.

    Args:
        file: the trace.
        weeks: length of the new workload.
        by: what is drawn, week or user.
        seed: of the draws.
        jobs: of the trace; read from `file` by default.

    Errors: UsageError for an unknown part, no weeks, and a trace without jobs.
    """

    file: str = ""
    weeks: int = 4
    by: str = "week"
    seed: int = 0
    jobs: list[Submission] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.by not in PARTS or self.weeks < 1:
            raise UsageError(f"expected weeks of at least 1 and by {' or '.join(PARTS)}", where="resample")
        if not self.jobs and self.file:
            self.jobs = list(trace.read(self.file))
        if not self.jobs:
            raise UsageError("a trace without jobs cannot be resampled", where="resample", hint="give file=TRACE")

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[Submission]:
        return iter(self._made)

    @property
    def _made(self) -> list[Submission]:
        if "_kept" not in self.__dict__:
            drawn = random.Random(self.seed)
            found = self._weeks(drawn) if self.by == "week" else self._users(drawn)
            found.sort(key=lambda job: job.submit)
            self.__dict__["_kept"] = [
                job._replace(id=number, previous=None, think=0, dependencies=()) for number, job in enumerate(found, 1)
            ]
        kept: list[Submission] = self.__dict__["_kept"]
        return kept

    def _weeks(self, drawn: random.Random) -> list[Submission]:
        first = self.jobs[0].submit // WEEK
        weeks: list[list[Submission]] = [[] for _ in range(self.jobs[-1].submit // WEEK - first + 1)]
        for job in self.jobs:
            weeks[job.submit // WEEK - first].append(job)
        whole = weeks[1:-1] or weeks  # the first and the last one are cut off
        return [
            job._replace(submit=at * WEEK + job.submit % WEEK)
            for at in range(self.weeks)
            for job in whole[drawn.randrange(len(whole))]
        ]

    def _users(self, drawn: random.Random) -> list[Submission]:
        users: dict[str | None, list[Submission]] = {}
        for job in self.jobs:
            users.setdefault(job.user, []).append(job)
        names, length = list(users), self.weeks * WEEK
        first = self.jobs[0].submit // WEEK * WEEK
        around = (self.jobs[-1].submit // WEEK + 1) * WEEK - first
        found = []
        for number in range(len(names) * -(-length // around)):
            name = drawn.choice(names)
            begin, moved = number // len(names) * around, drawn.randrange(around // WEEK) * WEEK
            who = None if name is None else f"{name}.{number}"
            for job in users[name]:
                at = begin + (job.submit - first + moved) % around
                if at < length:
                    found.append(job._replace(submit=at, user=who))
        return found
