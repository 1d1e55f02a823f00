"""The output of a trace reader or a generator: submissions sorted by time, and what had to be left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from typing import Any, Final, NamedTuple

from fluxres import limits
from fluxres.clock import TICKS_PER_S
from fluxres.errors import LimitExceeded, UsageError
from fluxres.instance.job import BEGIN, SINGLETON, URGENCY_DEFAULT
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.syntax.jobspec import Request


class Submission(NamedTuple):
    """One job of a workload; times in ticks.

    Args:
        id: from the workload.
        submit: submission time.
        run: how long it runs if nothing stops it.
        limit: the longest it may run; FOREVER without a limit.
        ask: a number of pools of the machine's usual kind, or a request.
        user, name: text, or None.
        urgency: of RFC 30.
        dependencies: such as ``afterok:ID`` with ids of this workload.
        status: its wait status at its end.
        account: to which it is charged; in SWF its group.
        qos: its quality of service.
        queue, partition: to which it was submitted; they may be the same.
        memory_kib: requested for each processor, else used, or None.
        application: its executable.
        previous: the job after whose end it was submitted.
        think: the time from that end to the submission, in ticks.
        level: of the instance that runs it, 0 for the outermost; None for an innermost one.
        jobs: those of an instance that is made for this job, on what it holds; their times count from the start of that
            instance, which ends with the last of them, or at the limit.
        adaptive: its sizes, if it is moldable or malleable; `run`, `limit` and `ask` are those of the preferred one.
        waited: how long it waited in the system that a trace was recorded on, in ticks, or None.
    """

    id: int | str
    submit: int
    run: int
    limit: int
    ask: int | Request
    user: str | None = None
    name: str | None = None
    urgency: int = URGENCY_DEFAULT
    dependencies: tuple[str, ...] = ()
    status: int = 0
    account: str | None = None
    qos: str | None = None
    queue: str | None = None
    partition: str | None = None
    memory_kib: int | None = None
    application: str | None = None
    previous: int | str | None = None
    think: int = 0
    level: int | None = None
    jobs: tuple[Submission, ...] = ()
    adaptive: Adaptive | None = None
    waited: int | None = None

    @property
    def number(self) -> int:
        """The number of jobs, those of its instance in its place."""
        return sum(job.number for job in self.jobs) if self.jobs else 1


@dataclass
class Workload:
    """Submissions, iterable once or repeatedly.

    Args:
        name: of its file or model.
        submissions: ascending by `submit`; a list can be run several times, an iterator once.
        processors: of the machine it was recorded on or made for, None if unknown.
        header: further metadata.
        has_dependencies: whether jobs name others, so that their ids must be remembered.
        has_requests: whether jobs request more than a number, so that their size must be measured.
        has_levels: whether jobs name the level of their instance.
        has_instances: whether jobs have instances of their own, below those of the hierarchy.
        left_out: number of unreadable jobs, by reason.
        notes: number of jobs that were read differently than written, by reason.
    """

    name: str
    submissions: Iterable[Submission]
    processors: int | None = None
    header: Mapping[str, str] = field(default_factory=dict)
    has_dependencies: bool = False
    has_requests: bool = False
    has_levels: bool = False
    has_instances: bool = False
    left_out: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    _dealt: list[list[int]] = field(default_factory=list, repr=False)

    def __iter__(self) -> Iterator[Submission]:
        return iter(self.submissions)

    def share(self, index: int, number: int) -> Iterator[Submission]:
        """The jobs for one of `number` instances: every `number`-th from `index` on; dependent jobs stay together."""
        if not self.has_dependencies or number == 1:
            return share(self.submissions, index, number)
        if len(self._dealt) != number:
            self.submissions = list(self.submissions)
            self._dealt = dealt(self.submissions, number)
        jobs = self.submissions
        assert isinstance(jobs, list)  # made so above
        return (jobs[at] for at in self._dealt[index])

    def share_of_level(self, level: int, place: int, fan_outs: Sequence[int]) -> Iterator[Submission]:
        """The jobs for one instance, if jobs name levels: those of its level are dealt to its instances in turns.

        Args:
            fan_outs: of the hierarchy; jobs that name no level are for the innermost.
        """
        innermost, number = len(fan_outs), prod(fan_outs[:level])
        wanted = [job for job in self.submissions if min(innermost if job.level is None else job.level, innermost) == level]
        if not self.has_dependencies:
            return islice(wanted, place, None, number)
        return (wanted[at] for at in dealt(wanted, number)[place])

    @property
    def count(self) -> int | None:
        """The number of jobs, if it is known in advance."""
        found: Any = self.submissions
        return len(found) if hasattr(found, "__len__") else None


def require_submission(job: object) -> None:
    """Errors: UsageError for an item of a workload that is something else."""
    if not isinstance(job, Submission):
        hint = "in microseconds: Submission(id=1, submit=0, run=60_000_000, limit=60_000_000, ask=2)"
        raise UsageError(f"expected items that are a Submission, got {job!r:.80}", where="workload", hint=hint)


def of_list(jobs: Sequence[Submission]) -> Workload:
    """A workload of jobs whose dependencies and levels are found by looking at each.

    Errors: UsageError for an item that is no Submission.
    """
    for job in jobs:
        require_submission(job)
    has_dependencies = any(map(_has_dependencies, jobs))
    has_levels = any(job.level is not None for job in jobs)
    has_instances = any(job.jobs for job in jobs)
    return Workload("jobs", jobs, has_dependencies=has_dependencies, has_levels=has_levels, has_instances=has_instances)


def _has_dependencies(job: Submission) -> bool:
    return bool(job.dependencies) or any(map(_has_dependencies, job.jobs))


def share(jobs: Iterable[Submission], index: int, number: int) -> Iterator[Submission]:
    """Every `number`-th job from `index` on.

    An iterable that is not a list and has no `share` of its own is iterated from the beginning, so it must be repeatable.

    >>> list(share([10, 11, 12, 13, 14], 1, 2))
    [11, 13]
    """
    if number == 1:
        return iter(jobs)
    own: Any = getattr(jobs, "share", None)
    if own is not None:
        found: Iterator[Submission] = own(index, number)
        return found
    if isinstance(jobs, Sequence):
        return (jobs[at] for at in range(index, len(jobs), number))
    if iter(jobs) is jobs:
        raise UsageError("jobs from an iterator cannot be dealt to several instances", where="workload", hint="give a list")
    return islice(jobs, index, None, number)


def first_days(jobs: Iterable[Submission], days: float) -> list[Submission]:
    """The jobs submitted within this many days of the first one.

    Errors: LimitExceeded for more than `limits.JOBS_LISTED_MAX`, or a workload that never gets that far.
    """
    found: list[Submission] = []
    for job in jobs:
        if found and job.submit - found[0].submit >= days * _DAY:
            return found
        if len(found) == limits.JOBS_LISTED_MAX:
            raise LimitExceeded(
                f"more than {limits.JOBS_LISTED_MAX:,} jobs in {days:g} days", where="workload", hint="give a number of jobs"
            )
        found.append(job)
    return found


_DAY: Final = 86400 * TICKS_PER_S


def name_of(file: str) -> str:
    """The name of a workload: that of its file, without directories and suffixes.

    >>> name_of("traces/KTH-SP2.swf.gz"), name_of("-")
    ('KTH-SP2', '-')
    """
    name = file.rsplit("/", 1)[-1]
    for ending in (".gz", ".zst", ".xz", ".bz2", ".swf", ".json", ".yaml", ".yml", ".txt"):
        name = name.removesuffix(ending)
    return name or file


def dealt(jobs: Sequence[Submission], number: int) -> list[list[int]]:
    """Jobs by the instance they go to, each ascending.

    Dependencies work within one queue, since an instance does not know the jobs of its siblings.  So groups of jobs that are
    connected by dependencies stay together; they are dealt in turns, in the order of their first jobs.

    Cost: O(jobs + dependencies), nearly.

    >>> one, two, three = (Submission(job, 0, 1, 1, 1) for job in "abc")
    >>> dealt([one, two, three._replace(dependencies=("afterok:a",))], 2)
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
    found: list[list[int]] = [[] for _ in range(number)]
    hand: dict[int, int] = {}
    for at in range(len(jobs)):
        found[hand.setdefault(top(at), len(hand) % number)].append(at)
    return found


def _other(job: Submission, dependency: str) -> object:
    """What a dependency refers to: a job id, all jobs of a user and name, or nothing (None)."""
    scheme, _, value = dependency.partition(":")
    if scheme == SINGLETON:
        return (job.user, job.name)
    return None if scheme == BEGIN else value


class ChangedJobs(ABC):
    """A workload whose jobs are those of another one, each changed as it is read."""

    jobs: Any

    @abstractmethod
    def changed(self, job: Submission) -> Submission:
        """What becomes of a job."""

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[Submission]:
        return map(self.changed, self.jobs)

    def share(self, index: int, number: int) -> Iterator[Submission]:
        """The jobs for one of `number` instances."""
        return map(self.changed, share(self.jobs, index, number))
