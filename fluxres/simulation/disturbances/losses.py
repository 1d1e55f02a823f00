"""What failures and preemption cost: the parts of the machine's time that were not in service, and that led to nothing.

goodput: the work of the jobs that completed, as a fraction of the machine's time, without the time for saving it and for doing it
again.  lost_work: what jobs held for nothing, as a fraction of what they held.  availability: the time in service.  All are from
the first submission to the last end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fluxres.simulation.schedule import Finished


@dataclass(frozen=True)
class Losses:
    """Fractions of a run, None if nothing ran; the number of attempts that were interrupted and repeated."""

    availability: float | None = None
    goodput: float | None = None
    lost_work: float | None = None
    interruptions: int | None = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class LossSink:
    """A sink that adds up what was useful and what was held."""

    def __init__(self) -> None:
        self.interruptions = 0
        self._useful = self._held = 0
        self._first: int | None = None
        self._last = 0

    def add(self, job: Finished) -> None:
        if self._first is None or job.submit < self._first:
            self._first = job.submit
        for each in job.earlier:
            self.interruptions += 1
            self._held += each.area
        if job.start < 0:
            return
        self._last = max(self._last, job.end)
        area = job.area if job.sizes else (job.end - job.start) * job.size
        self._held += area
        if job.result == "completed":
            self._useful += area - job.paused if job.sizes else job.size * job.work

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def losses(self, areas: Callable[[int, int], tuple[int, int]]) -> Losses:
        """The fractions.

        Args:
            areas: the unit-ticks in service, and of the machine, in a time.
        """
        if self._first is None or self._last <= self._first:
            return Losses(interruptions=self.interruptions)
        up, present = areas(self._first, self._last)
        return Losses(
            up / present if present else None,
            self._useful / present if present else None,
            1.0 - self._useful / self._held if self._held else None,
            self.interruptions,
        )
