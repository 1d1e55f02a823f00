"""The result of a run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fluxres.documents.document import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from fluxres.simulation.disturbances.blocked import Blocked
    from fluxres.simulation.disturbances.losses import Losses
    from fluxres.simulation.energy.energy import EnergyUse
    from fluxres.simulation.metrics import Metrics
    from fluxres.simulation.nesting.sites import InstanceRow
    from fluxres.simulation.prediction.prediction import Errors
    from fluxres.simulation.schedule import Schedule

IDS_SHOWN: Final = 100
_REQUESTED: Final = re.compile(r"(?<=\brequested )([1-9]\d*)\b")
"""How much a job requested, in the reason why it was refused."""


@dataclass
class Refusals:
    """Jobs that the machine can never run, or whose request stays undecided on the idle machine, by reason.

    They do not count in any metric.

    Args:
        ids: the first of them.
    """

    reasons: Counter[str] = field(default_factory=Counter)
    ids: list[int | str] = field(default_factory=list)

    def add(self, job: int | str, reason: str, number: int = 1) -> None:
        """Count a job, or those of its instance in its place."""
        self.reasons[reason] += number
        if len(self.ids) < IDS_SHOWN:
            self.ids.append(job)

    def by_kind(self) -> dict[str, int]:
        """The numbers of jobs by kind of reason: reasons that differ only in how much was requested are one kind.

        >>> Refusals(Counter({"requested 46 nodes, there are only 32": 3, "requested 40 nodes, there are only 32": 1})).by_kind()
        {'requested 40 to 46 nodes, there are only 32': 4}
        """
        kinds: dict[tuple[str, ...], list[tuple[int, int]]] = {}
        for reason, number in self.reasons.items():
            before, asked, after = [*_REQUESTED.split(reason, 1), "0", ""][:3]
            kinds.setdefault((before, after), []).append((int(asked), number))
        found: dict[str, int] = {}
        for (before, after), some in kinds.items():
            least, most = min(some)[0], max(some)[0]
            asked = "" if not most else str(most) if least == most else f"{least} to {most}"
            found[f"{before}{asked}{after}"] = sum(number for _, number in some)
        return found

    def listed(self, at_most: int = 10) -> str:
        """The ids of the first of them, as text."""
        return listed(self.ids, at_most, total=len(self))

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
        left_reasons: how many of them a limit of the accounting keeps from starting, by limit.
        events: number of events handled.
        instances: what each instance did.
        losses: what failures and preemption cost; None in a run without external events.
        energy: what the nodes consumed, if what they draw is known.
        predictions: how good the predictions were; None in a run without.
        notes: external events without an effect, and jobs that could not be started, by reason.
        blocked: times of units out of service and of reservations, if units have numbers; at most `limits.BLOCKED_MAX`.
        area_of: the unit-ticks of the machine in a time, if its size may change.
    """

    schedule: Schedule | None
    metrics: Metrics
    refusals: Refusals
    errors: list[str]
    left: int
    events: int
    instances: list[InstanceRow]
    left_reasons: Counter[str] = field(default_factory=Counter)
    losses: Losses | None = None
    energy: EnergyUse | None = None
    predictions: Errors | None = None
    notes: Counter[str] = field(default_factory=Counter)
    blocked: list[Blocked] = field(default_factory=list)
    area_of: Callable[[int, int], int] | None = None
