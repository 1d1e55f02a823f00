"""The result of a run besides its schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fluxres.simulation.metrics import Metrics
    from fluxres.simulation.schedule import Schedule
    from fluxres.simulation.sites import InstanceRow

IDS_SHOWN = 100


@dataclass
class Refusals:
    """Jobs that the machine can never run, or whose request stays undecided on the idle machine, by reason.

    They do not count in any metric.

    Args:
        ids: the first of them.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    ids: list[int | str] = field(default_factory=list)

    def add(self, job: int | str, reason: str) -> None:
        self.reasons[reason] += 1
        if len(self.ids) < IDS_SHOWN:
            self.ids.append(job)

    def listed(self, at_most: int = 10) -> str:
        """The ids of the first of them, as text."""
        shown = self.ids[:at_most]
        more = len(self) - len(shown)
        return ", ".join(map(str, shown)) + f" and {more} more" * (more > 0)

    def __len__(self) -> int:
        return self.reasons.total()


@dataclass
class Result:
    """The result of a run.

    Args:
        schedule: all jobs, if they were kept.
        metrics: metrics of the run.
        refusals: jobs that can never run here.
        errors: queue policies that failed, by the address of the instance they ended.
        left: jobs still waiting when nothing more could happen, or never submitted because their instance had ended.
        events: number of events handled.
        instances: what each instance did.
    """

    schedule: Schedule | None
    metrics: Metrics
    refusals: Refusals
    errors: list[str]
    left: int
    events: int
    instances: list[InstanceRow]
