"""One instance of a simulation and its state: the source of its jobs, when its scheduler is busy, what it has done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

from fluxres.clock import FOREVER, seconds
from fluxres.errors import InputError
from fluxres.instance.sizes import Sizes, with_count
from fluxres.simulation.workload.workload import require_submission

if TYPE_CHECKING:
    from fluxres.instance import Instance, Job, JobId
    from fluxres.simulation.adaptive.adaptive import Adaptive
    from fluxres.simulation.costs.overheads import LevelCost
    from fluxres.simulation.machine import Machine
    from fluxres.simulation.nesting.processor import Processor
    from fluxres.simulation.workload.workload import Submission
    from fluxres.syntax.jobspec import Request


class ChildPayload(NamedTuple):
    """The payload of a job that holds the resources of an instance: the instance's level, and its number in that level."""

    level: int
    place: int


@dataclass(frozen=True)
class InstanceRow:
    """What one instance did; times in seconds.

    Args:
        size: the most units that it had.
        busy_s: of its processor; the sum of the times for ingest, decisions, starts, events, and children.
        wait_s: how long its job waited in the parent until it was started; 0 for the outermost.
        boot_s: from then until it began.
        ingest_s, decide_s, start_s, event_s, spawn_s: of its processor.
        slot_wait_s: how long all its starts waited for launch slots, in total.
    """

    number: int
    address: str
    level: int
    size: int
    jobs: int
    begin_s: float
    end_s: float
    busy_s: float
    decisions: int
    wait_s: float = 0.0
    boot_s: float = 0.0
    ingest_s: float = 0.0
    decide_s: float = 0.0
    start_s: float = 0.0
    event_s: float = 0.0
    spawn_s: float = 0.0
    slot_wait_s: float = 0.0


def _checked(job: Submission | None) -> Submission | None:
    """A submission with whole times.

    Errors: UsageError for something else; InputError for one with fractions, and for times below 0.
    """
    if job is not None:
        require_submission(job)
    if job is not None and not type(job.submit) is type(job.run) is type(job.limit) is int:
        for name in ("submit", "run", "limit"):
            value: object = getattr(job, name)
            if not isinstance(value, Integral):
                raise InputError(
                    f"{name}: expected whole microseconds, got {value!r:.80}",
                    where=f"job {job.id}",
                    hint="round(seconds * 1_000_000)",
                )
        job = job._replace(submit=int(job.submit), run=int(job.run), limit=int(job.limit))
    if job is not None and (job.submit < 0 or job.run < 0 or job.limit < 0):
        name = next(name for name in ("submit", "run", "limit") if getattr(job, name) < 0)
        raise InputError(f"{name}: expected at least 0, got {getattr(job, name)}", where=f"job {job.id}")
    return job


class Site:
    """An instance in a simulation.

    Args:
        number: 0 for the outermost, then in the order in which they start.
        instance, machine: the instance, and the meaning of numbers on its machine.
        what: its level, 0 for the outermost, and its place among the instances of that level, -1 if it was made for a job.
        feed: its share of the workload, ascending by submission.
        ahead: how many of its jobs may wait before it takes the next one; 0 for any number.
        cost: of what it does.
    """

    __slots__ = (
        "ahead",
        "begin",
        "busy_ticks",
        "busy_until",
        "children_left",
        "cost",
        "decisions",
        "feed",
        "has_tried",
        "instance",
        "is_coming",
        "is_ending",
        "job",
        "jobs",
        "level",
        "machine",
        "names",
        "number",
        "parent",
        "pass_at",
        "place",
        "processor",
        "size",
        "slot_wait_ticks",
        "timer",
        "upcoming",
    )

    def __init__(
        self,
        number: int,
        instance: Instance,
        machine: Machine,
        what: ChildPayload,
        feed: Iterator[Submission],
        ahead: int,
        begin: int,
        cost: LevelCost,
    ) -> None:
        self.number = number
        self.instance = instance
        self.machine = machine
        self.size = machine.count
        self.level, self.place = what
        self.feed = feed
        self.ahead = ahead
        self.begin = begin
        self.upcoming = _checked(next(feed, None))
        self.parent: Site | None = None
        self.job: Job | None = None
        self.children_left = 0
        self.names: dict[str, JobId | None] = {}
        self.jobs = 0
        self.is_coming = self.is_ending = False
        self.timer = FOREVER
        self.pass_at = FOREVER
        self.busy_until = self.busy_ticks = 0
        self.decisions = 0
        self.has_tried = False
        """Whether a decision has tried a job."""
        self.slot_wait_ticks = 0
        self.processor: Processor | None = None
        """If more than decisions takes its time."""
        self.cost = cost

    def take_next(self) -> None:
        """Advance to the next submission.

        Errors: InputError for one before the last.
        """
        last, found = self.upcoming, _checked(next(self.feed, None))
        if found is not None and last is not None and found.submit < last.submit:
            raise InputError(
                f"job {found.id} is submitted at {seconds(found.submit)} s, after one submitted at {seconds(last.submit)} s",
                where="workload",
                hint="sort the workload by submission time",
            )
        self.upcoming = found

    def request(self, job: Submission) -> Request:
        """What a job requests here."""
        return self.machine.asking(job.ask) if isinstance(job.ask, int) else job.ask

    def sizes(self, job: Submission, adaptive: Adaptive, extended: Callable[[int], int]) -> Sizes | None:
        """The sizes that a job may have here; None if it has only one.

        Args:
            extended: a limit with the time for saving work.
        """
        ask = job.ask

        def limit(size: int) -> int:
            return extended(adaptive.length(job.limit, size))

        if isinstance(ask, int):
            return adaptive.options(limit, self.machine.asking, self.machine.count)
        return adaptive.options(limit, lambda size: with_count(ask, size), int(self.machine.graph.structure.size.sum()))

    def drain(self) -> int:
        """Drop the jobs that were not submitted; returns their number."""
        left = 0 if self.upcoming is None else self.upcoming.number + sum(job.number for job in self.feed)
        self.upcoming = None
        return left

    @property
    def wants_more(self) -> bool:
        """Whether the next submission may be taken."""
        if self.upcoming is None or not self.ahead:
            return self.upcoming is not None
        return len(self.instance.queue) + self.ingesting < self.ahead

    @property
    def ingesting(self) -> int:
        """Jobs that were submitted and are not yet in its queue."""
        return 0 if self.processor is None else self.processor.ingesting

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do here."""
        return self.upcoming is None and not (self.children_left or self.ingesting or self.instance.is_active)

    def row(self, first: int, end: int) -> InstanceRow:
        """What it did.

        Args:
            first: the first submission of the workload; before that, no instance has anything to do.
        """
        ingest_s, decide_s, start_s, event_s, spawn_s = self._spent()
        return InstanceRow(
            self.number,
            self.instance.address,
            self.level,
            self.size,
            self.jobs,
            seconds(min(max(self.begin, first), end)),
            seconds(end),
            seconds(self.busy_ticks),
            self.decisions,
            0.0 if self.job is None else seconds(self.job.started - self.job.submitted),
            0.0 if self.job is None else seconds(self.begin - self.job.started),
            ingest_s,
            decide_s,
            start_s,
            event_s,
            spawn_s,
            seconds(self.slot_wait_ticks),
        )

    def _spent(self) -> list[float]:
        """Seconds of the processor for ingest, decisions, starts, events and children."""
        if self.processor is None:
            return [0.0, seconds(self.busy_ticks), 0.0, 0.0, 0.0]
        *own, spawn, message = self.processor.spent
        return [*map(seconds, own), seconds(spawn + message)]
