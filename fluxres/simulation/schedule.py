"""What happened, job by job: a record when a job is over, and those who take it.

A run of a million jobs must not keep a million objects, so records go to sinks as they come; one of them keeps columns of
eight bytes, for programs that look at all.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from fluxres.instance.inventory import Claim, Inventory


class Finished(NamedTuple):
    """A job that is over; times in ticks.

    Args:
        id: as the workload has it.
        submit, start, end: start is -1 for a job that never ran.
        limit: how long it might have run.
        size: how large it was, in units of the machine's measure.
        status: wait status; 0 is success.
        result: completed, failed, canceled, timeout.
        user: of the workload.
        instance: number of the instance that ran it, 0 for the outermost.
        claim, inventory: what it held, to be said on demand by `allocated`.
    """

    id: int | str
    submit: int
    start: int
    end: int
    limit: int
    size: int
    status: int
    result: str
    user: str | None
    instance: int
    claim: Claim
    inventory: Inventory

    def allocated(self) -> str:
        """What it held, as an idset of unit numbers; empty where units have no numbers."""
        return "" if self.claim is None else self.inventory.ids(self.claim)


class Sink(Protocol):
    """Takes records as jobs finish."""

    def add(self, job: Finished) -> None:
        """One more."""

    def close(self) -> None:
        """That was all."""


RESULTS = ("completed", "failed", "canceled", "timeout")


class Schedule:
    """Everything, as columns in the order in which jobs finished.

    submit, start, end, limit: ticks. size: units. result: index into RESULTS. instance: number.
    """

    def __init__(self) -> None:
        self.ids: list[int | str] = []
        self.submit = array("q")
        self.start = array("q")
        self.end = array("q")
        self.limit = array("q")
        self.size = array("q")
        self.result = array("b")
        self.instance = array("l")
        self._claims: list[tuple[Inventory, Claim]] = []

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, job: Finished) -> None:
        """One more."""
        self.ids.append(job.id)
        self.submit.append(job.submit)
        self.start.append(job.start)
        self.end.append(job.end)
        self.limit.append(job.limit)
        self.size.append(job.size)
        self.result.append(RESULTS.index(job.result))
        self.instance.append(job.instance)
        self._claims.append((job.inventory, job.claim))

    @property
    def allocated(self) -> list[str]:
        """What each job held, as idsets; made when asked for, since they take longer than the run."""
        return ["" if claim is None else inventory.ids(claim) for inventory, claim in self._claims]

    def close(self) -> None:
        """Nothing to do."""

    def starts(self) -> dict[int | str, int]:
        """Starts in ticks by job id."""
        return dict(zip(self.ids, self.start, strict=True))

    def __iter__(self) -> Iterator[tuple[int | str, int, int, int, int]]:
        """(id, submit, start, end, size) of each job."""
        return zip(self.ids, self.submit, self.start, self.end, self.size, strict=True)
