"""What JQM's resource managers answer (go, not enough, or empty), and which jobs a node starts when it polls its queues.

After *not enough* the next job is tried, after *empty* none is.  The exact boundary between the two differs from manager to
manager, and is kept as it is.

Every released JQM has a poller for each queue: it walks down the queue and starts what it can, skips a job for which there is
*not enough*, and stops at *empty*.  The documentation describes tours instead: one job of each queue per tour, beginning with the
queue whose first job has waited longest, and nothing more from a queue after a refusal.  The scarce resource then stays unused
until the oldest job gets it.  Where documentation and code of the tours differ, this follows the documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from fluxres.errors import UnknownJob, UsageError
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity, priority

Answer = Literal["go", "not-enough", "empty"]
Parameters = Mapping[str, Any]


class QuantityBookings:
    """A counted resource and which job has how much of it.

    >>> bookings = QuantityBookings(Quantity("thread", 3))
    >>> bookings.book("a", {"com.enioka.jqm.rm.quantity.consumption": 5}), bookings.book("b", {}), bookings.slots_available()
    ('not-enough', 'go', 2)
    """

    def __init__(self, rules: Quantity) -> None:
        self.rules = rules
        self._free = rules.quantity
        self._held: dict[str, int] = {}

    def slots_available(self) -> int:
        """How many more jobs with the default consumption would fit; negative after the quantity was reduced while in use."""
        each = self.rules.consumption or 1
        return -(-self._free // each) if self._free < 0 else self._free // each

    def book(self, job: str, definition: Parameters, instance: Parameters | None = None) -> Answer:
        """Book what a job needs, or answer why not. Errors: InputError for a need that is not a number."""
        need = jqm.consumption(self.rules, definition, instance or {})
        if self._free >= need:
            self._free -= need
            self._held[job] = self._held.get(job, 0) + need
            return "go"
        return "empty" if self._free < self.rules.consumption else "not-enough"

    def release(self, job: str) -> None:
        """Release what a job has; no effect for a job without bookings."""
        self._free += self._held.pop(job, 0)

    def reconfigure(self, rules: Quantity) -> None:
        """Change the rules while in use: the free amount changes by the difference."""
        self._free += rules.quantity - self.rules.quantity
        self.rules = rules


class DiscreteBookings:
    """Named items and which job has which.

    >>> bookings = DiscreteBookings(Discrete("ports", ("p1", "p2"), 1))
    >>> bookings.book("a", {}), bookings.items("a"), bookings.slots_available()
    ('go', ('p1',), 1)
    """

    def __init__(self, rules: Discrete) -> None:
        self.rules = rules
        self._free = dict.fromkeys(rules.items)
        self._held: dict[str, tuple[str, ...]] = {}

    def slots_available(self) -> int:
        return len(self._free)

    def book(self, job: str, definition: Parameters, instance: Parameters | None = None) -> Answer:
        """Book items for a job, or answer why not; a job that needs none always gets go. Errors: as for a quantity."""
        need = jqm.consumption(self.rules, definition, instance or {})
        if need > len(self._free):
            return "not-enough" if self._free else "empty"
        if need:
            items = tuple(self._free)[:need]
            for item in items:
                del self._free[item]
            self._held[job] = (*self._held.get(job, ()), *items)
        return "go"

    def items(self, job: str) -> tuple[str, ...]:
        return self._held.get(job, ())

    def environment(self, job: str) -> dict[str, str]:
        """The environment variable that lists a job's items; empty if it has none."""
        return jqm.environment({self.rules.key: self.items(job)})

    def release(self, job: str) -> None:
        """Release the items of a job; items that no longer exist are dropped."""
        for item in self._held.pop(job, ()):
            if item in self.rules.items:
                self._free[item] = None

    def reconfigure(self, rules: Discrete) -> None:
        """Change the list of items while some are in use."""
        held = {item for items in self._held.values() for item in items}
        self._free = dict.fromkeys(item for item in rules.items if item not in held)
        self.rules = rules


class HighlanderBookings:
    """Definitions of which only one job may run.

    >>> bookings = HighlanderBookings(Highlander("highlander"))
    >>> bookings.book("a", "report", is_highlander=True), bookings.book("b", "report", is_highlander=True)
    ('go', 'not-enough')
    """

    def __init__(self, rules: Highlander) -> None:
        self.rules = rules
        self._running: dict[str, str] = {}

    def book(self, job: str, definition: str, *, is_highlander: bool) -> Answer:
        """Answer go unless the job is a highlander and another of its definition is running."""
        if is_highlander and definition in self._running.values():
            return "not-enough"
        self._running[job] = definition
        return "go"

    def release(self, job: str) -> None:
        self._running.pop(job, None)


Policy = Literal["poller", "tours"]
Bookings = QuantityBookings | DiscreteBookings | HighlanderBookings
#: jobs that a poller looks at per job that it has room for
_HEAD: Final = 3


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job in a queue.

    Args:
        definition: the name of its definition; None for one of its own.
        priority: 1 to 10, higher first; 0 is below all.
        enqueued: submission time; its age counts from then, also while it is frozen.
        position: its place among jobs of one priority; the submission time unless it was moved.
        parameters: of the job, including those for managers.
        is_highlander: only one job of its definition may run at a time.
    """

    id: str
    definition: str | None = None
    priority: int = 0
    enqueued: float = 0.0
    position: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_highlander: bool = False
    is_frozen: bool = False

    @property
    def kind(self) -> str:
        """The definition that it counts for."""
        return self.definition if self.definition is not None else self.id


class Queues:
    """The queues of one node, their resource managers, and the jobs that wait and run.

    Args:
        managers: of each queue, in the order in which they are asked; queues may share one.
        skips_highlanders: with tours, a highlander that must wait lets the next job of its queue have its turn. The documentation
            has it end the turn of its queue.

    >>> from fluxres.formats.peers.jqm.managers import Quantity
    >>> cpus = QuantityBookings(Quantity("cpu", 3))
    >>> queues = Queues({"a": [cpus], "b": [cpus]}, "tours")
    >>> for number, queue in enumerate(["a", "a", "b", "b"]): _ = queues.submit(queue, QueuedJob(f"{queue}{number}", number))
    >>> [job.id for job in queues.poll()]
    ['a0', 'b2', 'a1']
    """

    def __init__(
        self, managers: Mapping[str, Sequence[Bookings]], policy: Policy = "poller", *, skips_highlanders: bool = False
    ) -> None:
        self.managers = {queue: list(each) for queue, each in managers.items()}
        self.policy = policy
        self.skips_highlanders = skips_highlanders
        self._waiting: dict[str, dict[str, QueuedJob]] = {queue: {} for queue in managers}
        self._running: dict[str, tuple[str, QueuedJob]] = {}

    # -- jobs --------------------------------------------------------------------------------------------------------

    def submit(self, queue: str, job: QueuedJob) -> str:
        """Enqueue a job; returns the id of the job that waits now.

        If a highlander's definition has a waiting job already, that one is returned and the new one is dropped.
        Errors: UsageError for an unknown queue and an id in use; InputError for an invalid priority.
        """
        if queue not in self._waiting:
            raise UsageError(f"no queue {queue!r:.80}", hint=f"there is {', '.join(self._waiting) or 'none'}"[:200])
        priority(job.priority or None)
        if job.id in self._running or any(job.id in jobs for jobs in self._waiting.values()):
            raise UsageError(f"job {job.id!r:.80} is waiting or running already")
        if job.is_highlander:
            for jobs in self._waiting.values():
                same = next((each.id for each in jobs.values() if each.kind == job.kind), None)
                if same is not None:
                    return same
        self._waiting[queue][job.id] = job
        return job.id

    def waiting(self, queue: str | None = None) -> list[str]:
        """Waiting jobs, including frozen ones, in the order in which they are polled."""
        return [job.id for name in self._waiting if queue in (None, name) for job in self._ordered(name, frozen=True)]

    def running(self) -> list[str]:
        """Running jobs, in the order in which they were started."""
        return list(self._running)

    def running_of(self, definition: str) -> int:
        return sum(job.kind == definition for _, job in self._running.values())

    def freeze(self, job: str, is_frozen: bool = True) -> None:
        """Freeze or unfreeze a waiting job; its age keeps counting. Errors: UnknownJob."""
        for jobs in self._waiting.values():
            if job in jobs:
                jobs[job] = replace(jobs[job], is_frozen=is_frozen)
                return
        raise UnknownJob(f"job {job!r:.80} is not waiting")

    def end(self, job: str) -> None:
        """End a job; its managers release what it had. Errors: UnknownJob for one that is not running."""
        if job not in self._running:
            raise UnknownJob(f"job {job!r:.80} is not running")
        queue, _ = self._running.pop(job)
        for manager in self.managers[queue]:
            manager.release(job)

    # -- polling -----------------------------------------------------------------------------------------------------

    def poll(self, claim: Callable[[QueuedJob], bool] = lambda job: True) -> list[QueuedJob]:
        """Poll the queues once and start what may start, in the order returned.

        Args:
            claim: takes the job from the database; False if another node was faster and has the job.
        """
        if self.policy == "tours":
            return self._tours(claim)
        return [job for queue in self._waiting for job in self._polled(queue, claim)]

    def _polled(self, queue: str, claim: Callable[[QueuedJob], bool]) -> list[QueuedJob]:
        room = min((_room(manager) for manager in self.managers[queue]), default=float("inf"))
        if room <= 0:
            return []
        waiting = self._ordered(queue)
        started = []
        for job in waiting if room > 100_000 else waiting[: int(_HEAD * room)]:
            answer, _ = self._booked(queue, job)
            if answer == "empty":
                break
            if answer == "go" and self._claimed(queue, job, claim):
                started.append(job)
        return started

    def _tours(self, claim: Callable[[QueuedJob], bool]) -> list[QueuedJob]:
        heads = {queue: head for queue in self._waiting if (head := self._ordered(queue))}
        order = sorted(heads, key=lambda queue: heads[queue][0].enqueued)
        open_queues, full = dict.fromkeys(order), set[int]()
        started = []
        while open_queues:
            for queue in list(open_queues):
                job = self._turn(queue, heads[queue], full, claim)
                if job is not None:
                    started.append(job)
                if not heads[queue] or (job is None and self._is_full(queue, full)):
                    del open_queues[queue]
            if not any(self._has_room(queue, full) for queue in open_queues):
                break
        return started

    def _turn(self, queue: str, head: list[QueuedJob], full: set[int], claim: Callable[[QueuedJob], bool]) -> QueuedJob | None:
        """The next job of a queue, started; None if there is none, it is refused, or another node has it."""
        while head and not self._is_full(queue, full):
            job = head.pop(0)
            answer, refusing = self._booked(queue, job)
            if answer == "go":
                return job if self._claimed(queue, job, claim) else None
            if self.skips_highlanders and isinstance(refusing, HighlanderBookings):
                continue
            full.add(id(refusing))
            return None
        return None

    def _is_full(self, queue: str, full: set[int]) -> bool:
        return any(id(manager) in full for manager in self.managers[queue])

    def _has_room(self, queue: str, full: set[int]) -> bool:
        return not self._is_full(queue, full) and all(_room(manager) > 0 for manager in self.managers[queue])

    def _booked(self, queue: str, job: QueuedJob) -> tuple[Answer, Bookings | None]:
        """What the managers answer, and the first that refuses; nothing stays booked after a refusal."""
        for at, manager in enumerate(self.managers[queue]):
            if isinstance(manager, HighlanderBookings):
                # One job per definition may run, across all queues.
                is_alone = not (job.is_highlander and self.running_of(job.kind))
                answer = manager.book(job.id, job.kind, is_highlander=job.is_highlander) if is_alone else "not-enough"
            else:
                answer = manager.book(job.id, job.parameters)
            if answer != "go":
                self._undo(self.managers[queue][:at], job)
                return answer, manager
        return "go", None

    def _claimed(self, queue: str, job: QueuedJob, claim: Callable[[QueuedJob], bool]) -> bool:
        del self._waiting[queue][job.id]
        if not claim(job):
            self._undo(self.managers[queue], job)
            return False
        self._running[job.id] = queue, job
        return True

    @staticmethod
    def _undo(managers: Iterable[Bookings], job: QueuedJob) -> None:
        for manager in managers:
            manager.release(job.id)

    def _ordered(self, queue: str, *, frozen: bool = False) -> list[QueuedJob]:
        """Jobs of a queue by priority and position; ties in the order of submission."""
        some = [job for job in self._waiting[queue].values() if frozen or not job.is_frozen]
        return sorted(some, key=lambda job: (-job.priority, job.enqueued if job.position is None else job.position))


def _room(manager: Bookings) -> float:
    """How many more jobs a manager has room for by its defaults; unlimited for a highlander."""
    return float("inf") if isinstance(manager, HighlanderBookings) else manager.slots_available()
