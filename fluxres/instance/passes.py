"""The passes of the policy of an instance: which jobs start, and that a policy which goes wrong is named.

A pass is never nested: a job that ends while it is being started, because it does nothing, or that lets another one in, makes
the pass go round once more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import FluxresError, PolicyError, StoreError
from fluxres.instance import due, states, urgency
from fluxres.instance.queue import Endless, PassOver

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.inventory import Inventory
    from fluxres.instance.job import Job
    from fluxres.instance.policy import QueuePolicy
    from fluxres.instance.queue import Queue
    from fluxres.instance.timekeeper import Timekeeper


UNDECIDED: Final = "alloc"
"""Exception of a job for which the matcher could not say whether there is room."""


class Passes(ABC):
    """What :class:`~fluxres.instance.lifecycle.Lifecycle` does when something has happened."""

    policy: QueuePolicy
    queue: Queue
    inventory: Inventory
    passes: str
    now: int
    is_closed: bool
    is_ending: bool
    expires: int
    passes_begun = 0
    _time: Timekeeper
    _in_pass = False
    _again = False
    """Whether something has happened that the round which is being made may not have seen."""
    _recalculated: int

    @property
    def is_in_pass(self) -> bool:
        """Whether the policy is at work."""
        return self._in_pass

    def needs_round(self) -> None:
        """A pass that is being made goes round once more."""
        self._again = True

    def _after(self) -> None:
        """Something has happened."""
        if self._in_pass:
            self._again = True
        elif self.passes == "event":
            self._pass(-1)

    def _pass(self, starts: int) -> int:
        """Make a pass; while one is made, or what is due is done, another round or a pass after it."""
        if self.is_ending or self.expires <= self.now:  # it expires at this very moment, and all in it
            return 0
        if self._in_pass:
            self._again = True
            return 0
        time = self._time
        if time.is_moving or (time.passes_open and (self._shares_supplies or due.is_behind(self._face))):
            time.owe(self._face)
            return 0
        self._recalculate(self.now)
        queue = self.queue
        queue.begin_pass(starts)
        self._in_pass = True
        time.still += 1
        time.passes_open += 1
        try:
            self._again = True
            while self._again and not self.is_ending:  # a runner may close the instance
                self._again = False
                queue.begin_round()
                self.passes_begun += 1
                with Guard(self.policy):
                    self.policy.schedule(queue)
                queue.end_round(self._again)
            if self._shares_supplies:
                self._passed()
        except PassOver:
            queue.end_round(True)
        finally:
            self._in_pass = False
            time.still -= 1
            time.passes_open -= 1
        return queue.started

    @property
    @abstractmethod
    def _shares_supplies(self) -> bool:
        """Whether instances of the tree draw on common suppliers: then a pass waits for those that are being made."""

    @abstractmethod
    def _passed(self) -> None:
        """A pass has come to its end, where they do."""

    def try_start(self, job: Job) -> bool:
        """Give a waiting job its resources now, if there are any; the queue asks."""
        now, inventory, number = self.now, self.inventory, job.number
        end = now + job.duration
        end = min(end, FOREVER)
        if job.reserved < 0:
            claim = self.attempt(job, inventory.start, number, job.ask, now, end)
        elif job.reserved <= now:
            claim = self.attempt(job, inventory.begin, number, job.ask, now, end)
            if claim is None:
                # It is late: what was reserved begins in the past, and others stand behind it.
                inventory.clear()
                self.queue.cleared()
                claim = self.attempt(job, inventory.start, number, job.ask, now, end)
        else:
            inventory.unreserve(number)
            self.queue.drop(job)
            claim = self.attempt(job, inventory.start, number, job.ask, now, end)
            if claim is None:
                self.queue.reserve(job)
        if claim is None:
            return False
        self._alloc(job, claim, now, end)
        return True

    def attempt(self, job: Job, question: Callable[..., Any], *args: Any) -> Any | None:
        """What the inventory answers for a waiting job; None, and a note on the job, where it cannot answer.

        A pass is made in whatever call came next, for whichever job; its caller cannot help it.
        """
        try:
            return question(*args)
        except (StoreError, PolicyError):
            raise
        except FluxresError as error:
            if not any(failure.type == UNDECIDED for failure in job.exceptions):
                self._except(job, UNDECIDED, states.WARNING, f"it waits as if there were no room for it: {error}")
            return None

    @abstractmethod
    def _except(self, job: Job, kind: str, severity: int, note: str) -> None:
        """Raise an exception on a job."""

    @property
    @abstractmethod
    def _face(self) -> Instance:
        """The instance."""

    @abstractmethod
    def _alloc(self, job: Job, claim: Any, now: int, end: int) -> None:
        """Note that a job has what it asked for."""

    def _recalculate(self, now: int) -> None:
        period = self.policy.recalculate_s
        if period is None or now - self._recalculated < ticks(period):
            return
        self._recalculated = now
        for job in self.queue:
            fixed = urgency.bypass(job.urgency)
            job.priority = self._priority(job) if fixed is None else fixed
        self.queue.sort()

    def _priority(self, job: Job) -> int:
        with Guard(self.policy):
            found = int(self.policy.priority(job, seconds(self.now)))
        if not urgency.PRIORITY_MIN <= found <= urgency.PRIORITY_MAX:
            raise PolicyError(f"priority {found} is not in 0 to {urgency.PRIORITY_MAX}", where=f"queue policy {self.policy.name}")
        return found


class Guard:
    """What a policy raises is said to be the policy's, by name."""

    __slots__ = ("policy",)

    def __init__(self, named: QueuePolicy) -> None:
        self.policy = named

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, FluxresError | PassOver) or not isinstance(error, Exception | Endless):
            return
        raise PolicyError(f"{type(error).__name__}: {error}", where=f"queue policy {self.policy.name}") from error
