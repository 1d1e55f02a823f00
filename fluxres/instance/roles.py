"""What the parts of an instance use of those in modules above theirs: its jobs, its time, its end, and what others hold.

A queue starts jobs, and a job that starts changes the queue: such parts use each other, and their modules import each other one
way only.  The other way is one of these protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fluxres.instance.inventory import Claim
from fluxres.instance.job import Job
from fluxres.instance.timekeeper import Member


class JobStates(Protocol):
    """The active jobs of an instance, and what moves them from state to state; it is a `lifecycle.Lifecycle`."""

    delayed: dict[int, int]

    @property
    def jobs(self) -> Mapping[int, Job]: ...

    def begin_delayed(self) -> None: ...

    def start(self, job: Job, claim: Claim, limit: int) -> None: ...

    def clean(self, job: Job) -> None: ...

    def end_wait(self, number: int, moment: int) -> None: ...

    def resized(self, job: Job) -> None: ...

    def adopt_end(self, job: Job, end: int) -> None: ...

    def raise_exception(self, job: Job, kind: str, severity: int, note: str) -> None: ...

    def requeue(self, job: Job, kind: str, note: str) -> None: ...


class Moments(Member, Protocol):
    """The time of an instance, and what is due in it; it is a `due.DueEvents`."""

    now: int

    def is_behind(self) -> bool: ...

    def owe_pass(self, *, is_promised: bool = False) -> None: ...

    def wake_at(self, moment: int) -> None: ...


class Ending(Protocol):
    """Until when an instance is there; it is a `lifetime.Lifetime`."""

    is_closed: bool
    is_ending: bool
    expires: int
    expires_given: int
    job_has_finished: bool

    @property
    def latest(self) -> int: ...

    def end_jobs(self, why: str, kind: str = "cancel") -> None: ...

    def end_with_job(self) -> None: ...

    def expire(self) -> None: ...

    def take_end(self) -> None: ...


class Foreign(Protocol):
    """What others hold in the graph of an instance; it is an `others.Others`."""

    names: frozenset[str]
    ends: list[int]
