"""Priorities that change while a job waits: age, size, and what its user has used (as Slurm's multifactor plugin weighs them).

A priority is a weighted sum of factors between 0 and 1, as an integer.  Age grows until a bound; what a user used counts less
with time, by half-lives, so that accounts need one number a user and no history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.clock import seconds
from fluxres.errors import UsageError
from fluxres.instance.job import PRIORITY_MAX, URGENCY_EXPEDITED
from fluxres.instance.measure import asked
from fluxres.instance.policies import Easy

if TYPE_CHECKING:
    from fluxres.instance.job import Job


class Multifactor(Easy):
    """EASY backfilling in order of urgency, age and size.

    Args:
        urgency, age, size, share: weights; a factor of 1 weighs as much.
        age_max_s: waiting longer makes no older.
        half_life_s: after which what was used counts half.
        recalculate_s: how often priorities are worked out anew.
        depth: reservations.
    """

    name = "priority"

    def __init__(
        self,
        urgency: float = 1_000_000,
        age: float = 100_000,
        size: float = 0,
        share: float = 0,
        age_max_s: float = 7 * 86400.0,
        half_life_s: float = 7 * 86400.0,
        recalculate_s: float = 300.0,
        depth: int = 1,
    ) -> None:
        super().__init__(depth)
        for what, value in (("age_max_s", age_max_s), ("half_life_s", half_life_s), ("recalculate_s", recalculate_s)):
            if not value > 0:
                raise UsageError(f"{what}: expected more than 0, got {value}", where=f"queue policy {self.name}")
        self.weights = (urgency, age, size, share)
        self.age_max_s = age_max_s
        self.half_life_s = half_life_s
        self.recalculate_s = recalculate_s
        self._used: dict[str | None, tuple[float, float]] = {}
        self._total = (0.0, 0.0)

    def priority(self, job: Job, now_s: float) -> int:
        """The weighted sum."""
        urgency, age, size, share = self.weights
        factors = urgency * job.urgency / URGENCY_EXPEDITED
        factors += age * min(1.0, (now_s - job.submitted_at) / self.age_max_s)
        if size:
            factors += size * (1.0 - 1.0 / (1.0 + _size(job)))
        if share:
            factors += share * self.share(job.user, now_s)
        return max(0, min(PRIORITY_MAX, int(factors)))

    def share(self, user: str | None, now_s: float) -> float:
        """How little a user has used beside the others: 1 for nothing, 0.5 for as much as the mean, towards 0 for all."""
        total = self._faded(self._total, now_s)
        used = self._faded(self._used.get(user, (0.0, now_s)), now_s)
        if total <= 0.0:
            return 1.0
        users: int = max(1, len(self._used))
        exponent: float = used / total * users
        return float(2.0**-exponent)

    def finished(self, job: Job, now_s: float) -> None:
        """Charge its user."""
        if job.started < 0:
            return
        used = _size(job) * (seconds(job.ended) - seconds(job.started))
        self._used[job.user] = (self._faded(self._used.get(job.user, (0.0, now_s)), now_s) + used, now_s)
        self._total = (self._faded(self._total, now_s) + used, now_s)

    def _faded(self, account: tuple[float, float], now_s: float) -> float:
        amount, since = account
        factor: float = 0.5 ** ((now_s - since) / self.half_life_s)
        return amount * factor


class FairShare(Multifactor):
    """The same, where what a user has used lately weighs most."""

    name = "fairshare"

    def __init__(
        self,
        urgency: float = 1_000_000,
        age: float = 10_000,
        size: float = 0,
        share: float = 100_000,
        age_max_s: float = 7 * 86400.0,
        half_life_s: float = 7 * 86400.0,
        recalculate_s: float = 300.0,
        depth: int = 1,
    ) -> None:
        super().__init__(urgency, age, size, share, age_max_s, half_life_s, recalculate_s, depth)


def _size(job: Job) -> int:
    inventory = job.instance.inventory
    return inventory.count(job.claim) if job.claim is not None else asked(job.request, inventory.measure)
