"""Closed loop: jobs that a user submits after others have ended, as long after their ends in the simulation as in the trace.

A trace has the moments at which jobs were submitted to the system that it was recorded on.  Under another scheduler users would
wait for longer or shorter, and submit their next jobs accordingly (D. Feitelson, Standard Workload Format, fields 17 and 18;
N. Zakay and D. Feitelson, Preserving user behavior characteristics in trace-based simulation of parallel job scheduling,
MASCOTS 2014).  Where a trace does not say which job follows which, it is inferred from sessions, which are delimited by the time
between submissions (N. Zakay and D. Feitelson, On identifying user session boundaries in parallel workload logs, JSSPP 2012).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from fluxres.clock import ticks
from fluxres.errors import UsageError
from fluxres.instance.job import BEGIN
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax import duration as durations
from fluxres.syntax import parameters

KINDS: Final = ("think", "sessions")
GAP_S: Final = 1200.0
"""The time between two submissions of a user above which a new session begins."""


class Preceding(NamedTuple):
    """What a job waits for before it is submitted.

    Args:
        previous: the places of the jobs in the workload.
        think: from the last of their ends to its submission, in ticks.
    """

    previous: tuple[int, ...]
    think: int


def by_think_times(jobs: Sequence[Submission], notes: Counter[str]) -> dict[int, Preceding]:
    """By place of a job, the preceding job and the think time that the workload names."""
    found: dict[int, Preceding] = {}
    places: dict[str, int] = {}
    for at, job in enumerate(jobs):
        if job.previous is not None:
            place = places.get(str(job.previous))
            if place is None:
                notes["preceding jobs that are not in the workload before"] += 1
            else:
                found[at] = Preceding((place,), job.think)
        places[str(job.id)] = at
    return found


def by_sessions(jobs: Sequence[Submission], gap: int, notes: Counter[str]) -> dict[int, Preceding]:
    """By place of a job, the jobs that it seems to follow.

    The submissions of a user that follow each other within `gap` are a session.  In a session, a job that is submitted before the
    one before it has ended belongs to the same batch as that, else it begins a batch.  All jobs of a batch follow that earlier
    batch of their session which was the last to end before the batch began; a batch has ended when its last job has.  Ends are
    those of the trace.
    """
    if any(job.waited is None for job in jobs):
        notes["waits that the trace does not have count as 0"] += sum(job.waited is None for job in jobs)
    ends = [job.submit + (job.waited or 0) + min(job.run, job.limit) for job in jobs]
    by_user: defaultdict[str | None, list[int]] = defaultdict(list)
    for at, job in enumerate(jobs):
        by_user[job.user].append(at)
    found: dict[int, Preceding] = {}
    for places in by_user.values():
        batches: list[list[int]] = []
        over: list[tuple[int, int]] = []
        last: tuple[int, int] | None = None
        for before, at in zip([-1, *places], places, strict=False):
            submit = jobs[at].submit
            if before >= 0 and submit - jobs[before].submit <= gap and ends[before] > submit:
                batches[-1].append(at)
            else:
                if before < 0 or submit - jobs[before].submit > gap:
                    batches, over = [], []
                else:
                    over.append((max(ends[each] for each in batches[-1]), len(batches) - 1))
                batches.append([at])
                last = max((each for each in over if each[0] <= submit), default=None)
            if last is not None:
                found[at] = Preceding(tuple(batches[last[1]]), submit - last[0])
    return found


class Feedback:
    """Which jobs of a workload are submitted at their time, and which after others have ended.

    Args:
        kind: ``think``, or ``sessions``, also with another time between sessions: ``sessions:gap=1h``.
        notes: counts what was not as it should be.

    Errors: UsageError for another kind.

    >>> one, two = Submission("a", 0, 5, 5, 1), Submission("b", 20, 5, 5, 1, previous="a", think=7)
    >>> made = Feedback([one, two], "think", Counter())
    >>> [job.id for job in made.first], [(moment, job.id) for moment, job in made.ended("a", 100)]
    (['a'], [(107, 'b')])
    """

    def __init__(self, jobs: Sequence[Submission], kind: str, notes: Counter[str]) -> None:
        gap = require_kind(kind)
        self._jobs = jobs
        self._to_come = {str(job.id) for job in jobs} if any(job.dependencies for job in jobs) else set()
        """The ids that jobs may depend on, of those that have not been submitted."""
        self._dependent: defaultdict[str, list[Submission]] = defaultdict(list)
        self._waits = by_think_times(jobs, notes) if gap is None else by_sessions(jobs, gap, notes)
        self.first = [job for at, job in enumerate(jobs) if at not in self._waits]
        """The jobs that are submitted at the time of the workload."""
        self._open = {at: len(wait.previous) for at, wait in self._waits.items()}
        self._followers: defaultdict[int, list[int]] = defaultdict(list)
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        """By id of a job that others follow, its places that have not ended; several, if an id is used again."""
        for at, wait in self._waits.items():
            for place in wait.previous:
                self._followers[place].append(at)
        for place in sorted(self._followers):
            self._places[str(jobs[place].id)].append(place)

    def is_early(self, job: Submission) -> bool:
        """Whether a job waits for the submission of one that it depends on; `submitted` returns it then."""
        named = (value for scheme, _, value in (each.partition(":") for each in job.dependencies) if scheme != BEGIN)
        missing = next((value for value in named if value in self._to_come), None)
        if missing is not None:
            self._dependent[missing].append(job)
        return missing is not None

    def submitted(self, job: Submission, now: int) -> list[Submission]:
        """The jobs that have waited for the submission of this one."""
        self._to_come.discard(str(job.id))
        return [each._replace(submit=now) for each in self._dependent.pop(str(job.id), ())]

    def ended(self, job: int | str, now: int) -> list[tuple[int, Submission]]:
        """The jobs that are submitted because this one has ended, in whatever way, and the moments."""
        places = self._places.get(str(job))
        found = []
        for at in self._followers[places.pop(0)] if places else ():
            self._open[at] -= 1
            if not self._open[at]:
                moment = now + self._waits[at].think
                found.append((moment, self._jobs[at]._replace(submit=moment)))
        return found


def require_kind(kind: str) -> int | None:
    """The time between sessions in ticks; None for think times of the workload.

    Errors: UsageError for anything else.

    >>> require_kind("sessions"), require_kind("sessions:gap=1h"), require_kind("think")
    (1200000000, 3600000000, None)
    """
    name, _, rest = kind.partition(":")
    if name == "think" and not rest:
        return None
    if name != "sessions":
        raise UsageError(f"expected think, sessions or sessions:gap=D, got {kind!r:.80}", where="feedback")
    given = parameters.values(parameters.pairs(rest, "feedback"), _SESSIONS, "feedback sessions")
    return ticks(given.get("gap_s", GAP_S))


_SESSIONS: Final = {"gap": parameters.Parameter("gap_s", "a duration", durations.read)}
