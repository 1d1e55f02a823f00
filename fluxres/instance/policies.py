"""The queue policies that sites and papers use, each as short as its description."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from fluxres.clock import seconds
from fluxres.errors import UsageError
from fluxres.instance.job import PRIORITY_MAX, URGENCY_EXPEDITED
from fluxres.instance.measure import asked
from fluxres.instance.policy import QueuePolicy

if TYPE_CHECKING:
    from fluxres.instance.job import Job
    from fluxres.instance.queue import Queue


class Fcfs(QueuePolicy):
    """Strictly in order: no job starts before an earlier one."""

    name = "fcfs"

    def schedule(self, queue: Queue) -> None:
        """Start until one does not."""
        for job in queue:
            if not queue.start(job):
                break


class Easy(QueuePolicy):
    """EASY backfilling: the head of the queue has named pools reserved, others start where they do not delay it.

    Args:
        depth: how many have a reservation.
        queue_depth: how many of the queue are looked at; 0 for all.
    """

    name = "easy"

    def __init__(self, depth: int = 1, queue_depth: int = 0) -> None:
        if depth < 0 or queue_depth < 0:
            raise UsageError(f"expected depths of at least 0, got {min(depth, queue_depth)}", where=f"queue policy {self.name}")
        self.depth = depth
        self.queue_depth = queue_depth

    def looks(self, queue: Queue) -> bool:
        """Whether this is a moment for a pass; where all are looked at, reservations are made anew."""
        if queue.is_early():
            return False
        if queue.changed or queue.elapsed or self.queue_depth:
            queue.unreserve()
        return True

    def candidates(self, queue: Queue) -> Iterator[Job]:
        """The jobs that may start; behind `queue_depth` none."""
        if not self.queue_depth:
            return queue.candidates()
        return islice(queue, self.queue_depth)

    def schedule(self, queue: Queue) -> None:
        """In order; a job that does not fit is reserved as long as reservations are left."""
        if not self.looks(queue):
            return
        for job in self.candidates(queue):
            if queue.start(job):
                continue
            if queue.reserved < self.depth:
                queue.reserve(job)
            elif queue.is_full:
                break


class Hybrid(Easy):
    """EASY with the first jobs of the queue reserved (Fluxion's hybrid; its default depth)."""

    name = "hybrid"

    def __init__(self, depth: int = 64, queue_depth: int = 0) -> None:
        super().__init__(depth, queue_depth)


class EasyCount(Easy):
    """EASY as counting simulators have it: for the head a number of pools is kept free, whichever they are.

    Fewer jobs are held back than with names, and the head starts as early.  Where requests are not for pools that are all
    alike, the head is reserved by name, as EASY does.
    """

    name = "easy-count"

    def __init__(self) -> None:
        super().__init__()

    def schedule(self, queue: Queue) -> None:
        """In order; the first that does not fit is reserved by number."""
        if not self.looks(queue):
            return
        for job in queue.candidates():
            if queue.start(job):
                continue
            if not queue.reserved:
                queue.reserve_count(job)
            elif queue.is_full:
                break


class EasySjbf(Easy):
    """EASY that backfills the shortest first (Tsafrir et al. 2007), by the limits of the jobs."""

    name = "easy-sjbf"

    def __init__(self) -> None:
        super().__init__()

    def schedule(self, queue: Queue) -> None:
        """In order up to the first that does not fit, then by duration."""
        if not self.looks(queue):
            return
        waiting = queue.candidates()
        if not queue.reserved:
            for job in waiting:
                if not queue.start(job) and queue.reserve(job) is not None:
                    break
        for job in () if queue.is_full else sorted(waiting, key=attrgetter("duration")):
            if not queue.start(job) and queue.is_full:
                break


class Conservative(QueuePolicy):
    """Conservative backfilling: every job has a reservation from its submission on, which later ones never push back.

    Whenever something comes back, all are fitted again in order, each only forward.
    """

    name = "conservative"
    keeps_reservations = True

    def schedule(self, queue: Queue) -> None:
        """Start what is due, fit again what waits, reserve for new jobs."""
        for job in queue.due():
            queue.start(job)
        for job in queue.lost():
            queue.reserve(job)
        for job in queue if queue.changed else queue.fresh:
            if queue.reserve(job) == queue.now_s:
                queue.start(job)


class Multifactor(Easy):
    """EASY backfilling in order of urgency, age, size, and what the user has used (as Slurm's multifactor plugin weighs them).

    A priority is a weighted sum of factors between 0 and 1, as an integer.  Age grows up to a bound.  What a user has used counts
    less with time, by half-lives, so an account is one number per user and needs no history.

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
