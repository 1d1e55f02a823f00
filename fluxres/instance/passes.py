"""The passes of an instance's queue policy, in which jobs start.

A pass consists of rounds, in each of which the policy goes through the queue.  Passes are never nested: an event during a round,
such as the immediate end of a job that was started, causes another round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import FluxresError, PolicyError, StoreError
from fluxres.instance import due, states
from fluxres.instance.graph_inventory import GraphInventory, Held
from fluxres.instance.job import PRIORITY_MAX, PRIORITY_MIN, fixed_priority
from fluxres.instance.queue import Endless, PassEnded

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.instance.policy import QueuePolicy

UNDECIDED: Final = "alloc"
"""Type of the exception of a job for which the matcher could not decide whether there is room."""


class Passes:
    """The passes of one instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.is_running = False
        """Whether the policy is running."""
        self.begun = 0
        """The number of rounds begun; a pass has one or more."""
        self._again = False
        """Whether something has changed that the current round may have missed."""
        self._recalculated = instance.now
        self._promised: dict[int, tuple[Job, tuple[int, int, bytes]]] = {}
        """By job, what was reserved at the end of the last pass; only used if instances share suppliers."""

    def request_round(self) -> None:
        """Add a round to the current pass, if there is one."""
        self._again = True

    def react(self) -> None:
        """Make a pass, or add a round to the current one, because something has changed."""
        if self.is_running:
            self._again = True
        elif self._instance.passes == "event":
            self.run()

    def run(self, starts: int = -1) -> int:
        """Make a pass; if that is not possible now, add a round to the current pass, or owe the pass to the Timekeeper.

        Args:
            starts: start at most this number of jobs; -1 for any number.

        Returns: the number of jobs started.
        """
        instance = self._instance
        if instance.is_ending or instance.expires <= instance.now:  # everything in it ends at this moment
            return 0
        if self.is_running:
            self._again = True
            return 0
        time = instance._time
        if time.is_moving or (time.passes_open and (instance.shared.has_suppliers or due.is_behind(instance))):
            time.owe(instance)
            return 0
        self._recalculate()
        queue = instance.queue
        queue.begin_pass(starts)
        self.is_running = True
        time.still += 1
        time.passes_open += 1
        try:
            self._again = True
            while self._again and not instance.is_ending:  # a runner may close the instance
                self._again = False
                queue.begin_round()
                self.begun += 1
                with Guard(instance.policy):
                    instance.policy.schedule(queue)
                queue.end_round(self._again)
            if instance.shared.has_suppliers:
                self._compare_promises()
        except PassEnded:
            queue.end_round(True)
        finally:
            self.is_running = False
            time.still -= 1
            time.passes_open -= 1
        return queue.started

    def try_start(self, job: Job) -> bool:
        """Start a waiting job if its resources are free now; called by the queue."""
        instance = self._instance
        now, inventory, number = instance.now, instance.inventory, job.number
        end = min(now + job.duration, FOREVER)
        if job.reserved < 0:
            claim = self.attempt(job, inventory.start, number, job.ask, now, end)
        elif job.reserved <= now:
            claim = self.attempt(job, inventory.begin, number, job.ask, now, end)
            if claim is None:
                # It is late: its reservation began in the past, and other reservations follow it.
                inventory.clear()
                instance.queue.reservations_dropped()
                claim = self.attempt(job, inventory.start, number, job.ask, now, end)
        else:
            inventory.unreserve(number)
            instance.queue.drop(job)
            claim = self.attempt(job, inventory.start, number, job.ask, now, end)
            if claim is None:
                instance.queue.reserve(job)
        if claim is None:
            return False
        instance._start(job, claim, end)
        return True

    def attempt(self, job: Job, question: Callable[..., Any], *args: Any) -> Any | None:
        """Ask the inventory for a waiting job; if it raises, the job gets an exception and the answer is None.

        The error is not raised, since the call that caused this pass may have been about another job.
        """
        try:
            return question(*args)
        except (StoreError, PolicyError):
            raise
        except FluxresError as error:
            if not any(failure.type == UNDECIDED for failure in job.exceptions):
                note = f"it waits as if there were no room for it: {error}"
                self._instance._raise(job, UNDECIDED, states.WARNING, note)
            return None

    def priority(self, job: Job) -> int:
        """The priority that the policy gives a job.

        Errors: PolicyError outside the range of RFC 30.
        """
        policy = self._instance.policy
        with Guard(policy):
            found = int(policy.priority(job, seconds(self._instance.now)))
        if not PRIORITY_MIN <= found <= PRIORITY_MAX:
            raise PolicyError(f"priority {found} is not in 0 to {PRIORITY_MAX}", where=f"queue policy {policy.name}")
        return found

    def _recalculate(self) -> None:
        period, now, queue = self._instance.policy.recalculate_s, self._instance.now, self._instance.queue
        if period is None or now - self._recalculated < ticks(period):
            return
        self._recalculated = now
        for job in queue:
            fixed = fixed_priority(job.urgency)
            job.priority = self.priority(job) if fixed is None else fixed
        queue.sort()

    def _compare_promises(self) -> None:
        """Note that shared suppliers may be free if reservations of the last pass were dropped or moved."""
        before, inventory = self._promised, self._instance.inventory
        self._promised = {}
        if isinstance(inventory, GraphInventory):
            for job in self._instance.queue.reserved_jobs():
                self._promised[job.number] = job, _slot(job, job.reserved, inventory.reserved(job.number))
        for number, (job, slot) in before.items():
            now = self._promised.get(number)
            kept = now[1] if now is not None else _slot(job, job.started, job.claim)
            if kept != slot:
                self._instance.shared.note_return()
                break


def _slot(job: Job, start: int, hold: Any) -> tuple[int, int, bytes]:
    """Start, duration and pools of a reservation or claim, for comparison."""
    return start, job.duration, hold.vertices.tobytes() if isinstance(hold, Held) else b""


class Guard:
    """Reports what a policy raises as a PolicyError that names the policy."""

    __slots__ = ("policy",)

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, FluxresError | PassEnded) or not isinstance(error, Exception | Endless):
            return
        raise PolicyError(f"{type(error).__name__}: {error}", where=f"queue policy {self.policy.name}") from error
