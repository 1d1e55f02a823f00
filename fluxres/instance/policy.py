"""Queue policies: their names, and the built-in ones.

A policy only decides which jobs start.  The inventory allocates their resources and refuses what does not fit, so a wrong policy
cannot break a rule.  A custom policy is a `QueuePolicy` with a method `schedule`:

>>> class ShortestFirst(QueuePolicy):
...     name = "shortest-first"
...
...     def schedule(self, queue):
...         for job in sorted(queue, key=lambda job: job.duration_s):
...             if not queue.start(job):
...                 break
>>> policy(ShortestFirst()).name
'shortest-first'

It can be used as `queue_policy="policies.py:ShortestFirst"` from a file of that name, or as `queue_policy="shortest-first"` if
its package has an entry point of that name in `fluxres.queue_policies`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from fluxres.clock import Length, length_s
from fluxres.errors import UsageError
from fluxres.instance.fair_share import Account, FairShares, Used
from fluxres.instance.job import PRIORITY_MAX, URGENCY_EXPEDITED, Job, Limiter
from fluxres.instance.queue import Queue, QueuePolicy
from fluxres.syntax.registry import Registry


def policy(given: str | QueuePolicy | type[QueuePolicy]) -> QueuePolicy:
    """A policy by its name, or by a file and the name of its class, with optional parameters after a colon.

    A policy object is returned as it is; a class is called.

    Errors: UsageError for an unknown name or parameter, a file that cannot be imported, and any other object.

    >>> policy("hybrid:depth=8").depth, policy('hybrid:{"depth": 8}').depth
    (8, 8)
    """
    if isinstance(given, QueuePolicy):
        return given
    if isinstance(given, type) and issubclass(given, QueuePolicy):
        return POLICIES.call(given.__name__, given, {})
    if not isinstance(given, str):
        raise UsageError(f"expected a queue policy or its name, got {given!r:.80}")
    return POLICIES.make(given)


def names() -> list[str]:
    """The names of all policies; those of other packages come last."""
    return POLICIES.names()


class Fcfs(QueuePolicy):
    """First come, first served: no job starts before an earlier one."""

    name = "fcfs"

    def schedule(self, queue: Queue) -> None:
        for job in queue:
            if not queue.start(job):
                break


class Easy(QueuePolicy):
    """EASY backfilling: the head of the queue has pools reserved, and other jobs start if they do not delay it.

    Args:
        depth: the number of jobs with a reservation.
        queue_depth: the number of jobs that a pass considers and leaves waiting; 0 for all.
    """

    name = "easy"

    def __init__(self, depth: int = 1, queue_depth: int = 0) -> None:
        if depth < 0 or queue_depth < 0:
            raise UsageError(f"expected depths of at least 0, got {min(depth, queue_depth)}", where=f"queue policy {self.name}")
        self.depth = depth
        self.queue_depth = queue_depth

    def begin_pass(self, queue: Queue) -> bool:
        """Whether to make a pass now; drops the reservations if it considers all jobs."""
        if queue.is_early():
            return False
        if queue.changed or queue.elapsed or self.queue_depth:
            queue.unreserve()
        return True

    def schedule(self, queue: Queue) -> None:
        if not self.begin_pass(queue):
            return
        waiting = 0
        for job in queue if self.queue_depth else queue.candidates():
            if queue.start(job):
                continue
            waiting += 1
            if (not self.reserve(queue, job) and self.is_over(queue)) or waiting == self.queue_depth:
                break

    def reserve(self, queue: Queue, job: Job) -> bool:
        """Reserve for a job that cannot start, unless enough jobs have a reservation; returns whether it has one now."""
        return queue.reserved < self.depth and queue.reserve(job) is not None

    def is_over(self, queue: Queue) -> bool:
        """Whether a pass may end: no other job can start or get a reservation, and what is freed causes a pass over all jobs."""
        return queue.is_stuck or (queue.is_full and queue.reserved >= self.depth)


class Hybrid(Easy):
    """EASY with reservations for the first jobs of the queue, as Fluxion's hybrid policy with its default depth."""

    name = "hybrid"

    def __init__(self, depth: int = 64, queue_depth: int = 0) -> None:
        super().__init__(depth, queue_depth)


class EasyCount(Easy):
    """EASY as in counting simulators: a number of pools is kept free for the head, not certain pools.

    The head starts as early as with EASY, and fewer other jobs have to wait.  If requests are not for interchangeable pools, the
    reservation is for certain pools, as with EASY.
    """

    name = "easy-count"

    def __init__(self) -> None:
        super().__init__()

    def schedule(self, queue: Queue) -> None:
        if not self.begin_pass(queue):
            return
        for job in queue.candidates():
            if not queue.start(job) and not self.reserve(queue, job) and self.is_over(queue):
                break

    def reserve(self, queue: Queue, job: Job) -> bool:
        return not queue.reserved and queue.reserve_count(job) is not None


class EasySjbf(Easy):
    """EASY that backfills the jobs that are planned to be shortest first (Tsafrir et al. 2007)."""

    name = "easy-sjbf"

    def __init__(self) -> None:
        super().__init__()

    def schedule(self, queue: Queue) -> None:
        if not self.begin_pass(queue):
            return
        waiting = queue.candidates()
        if not queue.reserved:
            for job in waiting:
                if not queue.start(job) and (queue.reserve(job) is not None or queue.is_stuck):
                    break
        for job in () if queue.is_full else sorted(waiting, key=attrgetter("planned")):
            if not queue.start(job) and queue.is_full:
                break


class EasyByScore(Easy):
    """EASY backfilling in the order of a score that is computed at each pass, the highest first; equal ones as submitted.

    Base class for policies such as WFP3, F1 or SAF, which are a method `score`.
    """

    @abstractmethod
    def score(self, job: Job, now_s: float) -> float:
        """How early a job comes."""

    def _score(self, job: Job, now_s: float) -> float:
        """The same. Errors: UsageError for nan, which is neither before nor after any other."""
        found = self.score(job, now_s)
        if found != found:  # noqa: PLR0124 - nan
            raise UsageError(f"the score of job {job.id} is nan", hint="return a number; inf comes first, -inf last")
        return found

    def schedule(self, queue: Queue) -> None:
        nothing_is_free = queue.is_full
        if nothing_is_free:
            return
        queue.unreserve()
        for job in sorted(queue, key=partial(self._score, now_s=queue.now_s), reverse=True):
            if not queue.start(job) and not self.reserve(queue, job) and self.is_over(queue):
                break


class Conservative(QueuePolicy):
    """Conservative backfilling: every job has a reservation from its submission on, which later jobs never delay.

    Whenever something is freed, all reservations are made again in order; each can only become earlier.
    """

    name = "conservative"
    keeps_reservations = True

    def schedule(self, queue: Queue) -> None:
        for job in queue.due():
            queue.start(job)
        for job in queue.lost():
            queue.reserve(job)
        for job in queue if queue.changed else queue.fresh:
            if queue.reserve(job) == queue.now_s:
                queue.start(job)


class Multifactor(Easy):
    """EASY backfilling in the order of a priority: a weighted sum of factors between 0 and 1, as in Slurm's multifactor plugin.

    The factors of QOS, partition and association are those of the accounting of the instance; without it they are 0.  Shares are
    those of the accounting too, else one for each user.  Jobs are charged while they run.

    Args:
        urgency, age, size, share, qos, partition, association: the weights of the factors.
        age_max_s: the waiting time at which the age factor reaches 1.
        half_life_s: the half-life of usage.
        recalculate_s: the period after which priorities are computed again.
        depth: the number of reservations.
        favor_small: 1: the size factor of the smallest job is 1, in place of that of one as large as the machine.
        fair_tree: 1: shares by Slurm's Fair Tree, in place of the classic algorithm.
        dampening: of the classic algorithm.
    """

    name = "priority"
    AGE = 100_000.0
    SHARE = 0.0
    """Default weights."""

    def __init__(  # noqa: PLR0913 - one option each
        self,
        urgency: float = 1_000_000,
        age: float | None = None,
        size: float = 0,
        share: float | None = None,
        age_max_s: Length = 7 * 86400.0,
        half_life_s: Length = 7 * 86400.0,
        recalculate_s: Length = 300.0,
        depth: int = 1,
        *,
        qos: float = 0,
        partition: float = 0,
        association: float = 0,
        favor_small: float = 0,
        fair_tree: float = 0,
        dampening: float = 1.0,
    ) -> None:
        super().__init__(depth)
        age, share = self.AGE if age is None else age, self.SHARE if share is None else share
        self.weights = (urgency, age, size, share, qos, partition, association)
        self.age_max_s = length_s(age_max_s, "age_max_s")
        self.half_life_s = length_s(half_life_s, "half_life_s")
        self.recalculate_s = length_s(recalculate_s, "recalculate_s")
        for what, value in (
            *((key, getattr(self, key)) for key in ("age_max_s", "half_life_s", "recalculate_s")),
            ("dampening", dampening),
        ):
            if not value > 0:
                raise UsageError(f"{what}: expected more than 0, got {value}", where=f"queue policy {self.name}")
        self.favor_small = bool(favor_small)
        self.fair_tree = bool(fair_tree)
        self.dampening = dampening
        self._shares: FairShares | None = None
        self._sizes: dict[int, int] = {}
        """By number of a running job, its size when it started."""

    def priority(self, job: Job, now_s: float) -> int:
        urgency, age, size, share, qos, partition, association = self.weights
        factors = urgency * job.urgency / URGENCY_EXPEDITED
        factors += age * min(1.0, (now_s - job.submitted_at) / self.age_max_s)
        if size:
            factors += size * self.size_factor(job)
        if share:
            factors += share * self.share(job, now_s)
        limiter = job.instance.limiter
        if limiter is not None and (qos or partition or association):
            factors += qos * limiter.qos_factor(job.charged)
            factors += partition * limiter.partition_factor(job.charged)
            factors += association * limiter.association_factor(job.charged)
        return max(0, min(PRIORITY_MAX, int(round(factors, 6))))  # the last digits of a sum depend on its order

    def size_factor(self, job: Job) -> float:
        """1 for a job as large as the machine; with `favor_small`, for one of a single unit."""
        units = max(job.instance.inventory.size, 1)
        return min(1.0, max(0.0, units + 1 - job.size if self.favor_small else job.size) / units)

    def share(self, job: Job, now_s: float) -> float:
        """The fair-share factor of the user of a job: 1 for no usage, near 0 for much more than the shares say."""
        shares = self.shares_of(job)
        if self.fair_tree:
            return shares.ranked(job.user, job.account, now_s)
        return shares.classic(job.user, job.account, now_s, self.dampening)

    def shares_of(self, job: Job) -> FairShares:
        """The usage of all users of the instance of a job."""
        if self._shares is None:
            limiter = job.instance.limiter
            self._shares = FairShares(None if limiter is None else limiter.rules, self.half_life_s)
        return self._shares

    def resume(self, limiter: Limiter | None, running: Iterable[Job], used: Mapping[Account, Used]) -> None:
        """Go on with the running jobs of an earlier instance, and with what users have used there."""
        self._sizes = {job.number: job.size for job in running}
        self._shares = FairShares(None if limiter is None else limiter.rules, self.half_life_s)
        self._shares.resume(used)

    def used_by(self, job: Job) -> tuple[Account, Used] | None:
        """To whom a job is charged, and what that user has used; None for a user who is not listed and has started no job."""
        return self.shares_of(job).used_by(job.user, job.account)

    def used(self) -> dict[Account, Used]:
        """What each user has used, by account."""
        return {} if self._shares is None else self._shares.used()

    def started(self, job: Job, now_s: float) -> None:
        """Charge the user of a job from now on."""
        size = self._sizes[job.number] = job.size
        self.shares_of(job).charge(job.user, job.account, size, now_s)

    def resized(self, job: Job, now_s: float) -> None:
        """Charge the user of a job for another size from now on."""
        self.finished(job, now_s)
        self.started(job, now_s)

    def finished(self, job: Job, now_s: float) -> None:
        """Charge the user of a job no more."""
        size = self._sizes.pop(job.number, 0)
        if size:
            self.shares_of(job).charge(job.user, job.account, -size, now_s)


class FairShare(Multifactor):
    """`Multifactor` in which recent usage has the largest weight."""

    name = "fairshare"
    AGE = 10_000.0
    SHARE = 100_000.0


POLICIES: Final[Registry[QueuePolicy]] = Registry(
    "queue policy",
    {
        **{kind.name: kind for kind in (Fcfs, Easy, EasyCount, EasySjbf, Hybrid, Conservative, Multifactor, FairShare)},
        "hyperqueue": "fluxres.instance.hyperqueue:HyperQueue",
        "jqm-poller": "fluxres.instance.jqm:JqmPoller",
        "jqm-tours": "fluxres.instance.jqm:JqmTours",
        "canary": "fluxres.instance.canary:Canary",
    },
    "fluxres.queue_policies",
    methods=("schedule",),
    base=QueuePolicy,
)
"""Policies of other systems load the language of the system, so only when one is used."""
