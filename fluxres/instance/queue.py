"""Who waits, in order; and what a queue policy sees of an instance.

A list in order of priority and submission.  Jobs that start or leave are passed over until there are enough holes to close,
so that taking the head of a queue of a million is as cheap as of ten.  What a policy does goes through here, which is where a
policy that does not come to an end is stopped.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fluxres import limits
from fluxres.clock import FOREVER, seconds
from fluxres.errors import PolicyError
from fluxres.instance.states import State

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.inventory import Place
    from fluxres.instance.job import Job


class Endless(BaseException):
    """Thrown into a pass of a policy that has not come to an end for too long; no policy catches it by mistake."""

    def __str__(self) -> str:
        return "the pass did not come to an end"


class PassOver(Exception):
    """As many jobs were started as the caller of the pass wanted, or the instance is ending."""


def _order(job: Job) -> tuple[int, int]:
    return -job.priority, job.number


class Queue:
    """The waiting jobs of an instance, as its policy sees them.

    Iterates over all of them, highest priority first and then as they were submitted; jobs may be started while it does.

    Args:
        instance: whose.

    What a policy may use: `now_s`, `changed`, `fresh`, `reserved`, `is_full`, iteration, `len`, `candidates`, `due`, `lost`,
    `is_early`, `start`, `reserve`, `reserve_count`, `unreserve`.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._jobs: list[Job] = []
        self._head = 0
        self._count = 0
        self._reserved: dict[int, Job] = {}
        self._due: list[tuple[int, int, Job]] = []
        self.actions = 0
        """Starts and reservations that were tried in this pass."""
        self._actions_max = 0
        self._starts_left = -1
        self.started = 0
        """Starts in this pass."""
        self._lost: dict[int, tuple[int, Job]] = {}
        self._delayed: dict[int, tuple[Job, int, int]] = {}
        """Jobs whose reservation begins some ticks later than it did: the start before, and the one since."""
        self._fresh: list[Job] = []
        self.changed = False
        """Something was given back, taken out of service or reordered since the last pass."""
        self.elapsed = False
        """Something became free because its limit has come, and nothing was said of it yet."""
        self._is_left = False

    # -- what a policy sees ------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Now, in seconds."""
        return seconds(self._instance.now)

    @property
    def is_full(self) -> bool:
        """Nothing at all is free now."""
        return self._instance.inventory.is_full

    @property
    def reserved(self) -> int:
        """Jobs with a reservation."""
        return len(self._reserved)

    @property
    def fresh(self) -> Iterator[Job]:
        """Jobs that came since the last pass; they stand behind all others, or `changed` is set."""
        return (job for job in self._fresh if job.state is State.SCHED)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Job]:
        jobs = self._jobs
        for at in range(self._head, len(jobs)):
            job = jobs[at]
            if job.state is State.SCHED:
                yield job

    def candidates(self) -> Iterator[Job]:
        """Jobs that may have become able to start since the last pass: all of them, or only those that came."""
        if self.changed or self.elapsed:
            return iter(self)
        return self.fresh

    def is_early(self) -> bool:
        """Only limits have come, and new jobs have no room: the pass can be left to the ends that are about to be reported.

        EASY as others have it makes no pass when a job comes that does not fit; what has elapsed stays so.
        """
        if self.changed or not self.elapsed or self._instance.shared.has_suppliers:
            return False  # others could take meanwhile what is reserved of common suppliers
        self.unreserve()  # the next pass looks at all, and makes them anew
        inventory, now = self._instance.inventory, self._instance.now
        self._is_left = not any(self._instance.scheduling.attempt(job, inventory.has_room, job.ask, now) for job in self.fresh)
        return self._is_left

    def start(self, job: Job) -> bool:
        """Start a job now, if there is room for it beside all that is held and reserved."""
        self._require_going_on()
        if job.state is not State.SCHED:
            raise PolicyError(f"job {job.id} is {job.state.name} and cannot be started", where=self._where)
        if self._starts_left == 0:
            raise PassOver
        self._act()
        if not self._instance.scheduling.try_start(job):
            return False
        self._starts_left -= 1
        self.started += 1
        return True

    def reserve(self, job: Job) -> float | None:
        """Reserve the earliest start for a job, in seconds; None where there is none.

        It stays until the job starts, or `unreserve`.  A job that has one is fitted again, and never comes later.
        """
        self._require_going_on()
        if job.state is not State.SCHED:
            raise PolicyError(f"job {job.id} is {job.state.name} and cannot be reserved", where=self._where)
        self._act()
        instance = self._instance
        reserve = instance.inventory.reserve
        return self._keep(job, instance.scheduling.attempt(job, reserve, job.number, job.ask, job.duration, instance.now))

    def reserve_count(self, job: Job) -> float | None:
        """Hold free for a job as many pools as it needs, whichever they are, from the earliest start on.

        Only one job can have that.  Where pools are not all alike, a number of them says nothing: they are reserved by name.
        """
        inventory = self._instance.inventory
        reserve = getattr(inventory, "reserve_count", None)
        if reserve is None:
            return self.reserve(job)
        self._act()
        self._forget()
        return self._keep(job, reserve(job.number, job.ask, self._instance.now))

    def _keep(self, job: Job, start: int | None) -> float | None:
        if start is None:
            self.drop(job)
            return None
        if job.reserved != start:
            job.reserved = start
            if self._instance.policy.keeps_reservations:
                heappush(self._due, (start, job.number, job))
        self._reserved[job.number] = job
        return seconds(start)

    def unreserve(self) -> None:
        """Drop all reservations."""
        if self._reserved:
            self._instance.inventory.clear()
            self._forget()

    def places(self) -> list[tuple[int, Job, Place]]:
        """What is reserved, in the order of starts, where reservations outlive a pass; for `restore`."""
        if not self._reserved or not self._instance.policy.keeps_reservations:
            return []
        known = self._instance.inventory.places()
        jobs = ((self._promised(job), job) for job in self._reserved.values())
        found = [(start, job, known[job.number]) for start, job in jobs if job.number in known]
        return sorted(found, key=lambda place: (place[0], place[1].number))

    def _promised(self, job: Job) -> int:
        _, promised, start = self._delayed.get(job.number, (job, job.reserved, job.reserved))
        return promised if start == job.reserved else job.reserved

    def restore(self, places: list[tuple[int, Job, Place]], late: int = 0) -> None:
        """Reserve again what was dropped where it was, or later by some ticks, while the pools of each are free then.

        Fitted anew, one job could be given pools of another, which would have to wait for others.
        """
        now = self._instance.now
        for reserved, job, place in places:
            if job.state is not State.SCHED or job.reserved >= 0:
                continue
            first = max(reserved, now)
            if not self._restore(job, place, first) and late and self._restore(job, place, first + late):
                self._delayed[job.number] = job, first, first + late

    def _restore(self, job: Job, place: Place, start: int) -> bool:
        instance = self._instance
        found = instance.inventory.restore(job.number, place, job.duration, start, instance.now)
        if found:
            self._keep(job, start)
        return found

    def _bring_back(self) -> None:
        """Let reservations that came some ticks later begin where they did, as soon as their pools are free then."""
        delayed, self._delayed = self._delayed, {}
        places, now = self._instance.inventory.places(), self._instance.now
        for number, (job, promised, start) in delayed.items():
            first = max(promised, now)
            if job.state is not State.SCHED or job.reserved != start or first >= start or number not in places:
                continue
            self._instance.inventory.unreserve(number)
            if not self._restore(job, places[number], first) and self._restore(job, places[number], start):
                self._delayed[number] = job, promised, start

    def lost(self) -> Iterator[Job]:
        """Jobs whose reservations were dropped, the earliest first: in this order each fits no later than before."""
        lost, self._lost = sorted(self._lost.values(), key=lambda lost: (lost[0], lost[1].number)), {}
        return (job for _, job in lost if job.state is State.SCHED and job.reserved < 0)

    def due(self) -> Iterator[Job]:
        """Jobs whose reservation has come."""
        now = self._instance.now
        while self._due and self._due[0][0] <= now:
            start, _, job = heappop(self._due)
            if job.state is State.SCHED and job.reserved == start:
                yield job

    # -- what the instance does with it ------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"queue policy {self._instance.policy.name}"

    def _require_going_on(self) -> None:
        if self._instance.is_ending:  # closed in this pass, by the runner of a job
            raise PassOver

    def _act(self) -> None:
        self.actions += 1
        if self.actions > self._actions_max:
            raise PolicyError(
                f"{self._actions_max} starts and reservations in one pass over {self._count} jobs: it does not come to an end",
                where=self._where,
            )

    def begin_pass(self, starts: int) -> None:
        """A pass begins; as many starts at most, -1 for any number."""
        self._starts_left = starts
        self.started = 0

    def begin_round(self) -> None:
        """The policy is about to look at the queue."""
        self.actions = 0
        self._actions_max = limits.PASS_ACTIONS_MAX * (self._count + 1)
        if self._delayed:
            self._bring_back()

    def end_round(self, again: bool) -> None:
        """It has; `again` where something happened meanwhile that it may not have seen."""
        self.changed, self.elapsed, self._is_left = again, self._is_left, False
        if not again:
            self._lost.clear()
        self._fresh.clear()
        self._close_holes()

    def add(self, job: Job) -> None:
        """One more waits."""
        jobs = self._jobs
        self._count += 1
        if not jobs or self._head == len(jobs) or _order(jobs[-1]) < _order(job):
            jobs.append(job)
        else:
            insort(jobs, job, lo=self._head, key=_order)
            self.changed = True
        self._fresh.append(job)

    def leave(self, job: Job) -> None:
        """One has started, or waits no more; its state says so already."""
        self._count -= 1
        self.drop(job)

    def drop(self, job: Job) -> None:
        """Forget the reservation that a job has or had."""
        job.reserved = -1
        for known in (self._reserved, self._lost, self._delayed):
            known.pop(job.number, None)

    def _forget(self) -> None:
        instance = self._instance
        if self._reserved and instance.passes == "event" and not instance.scheduling.is_running:
            instance._time.owe(instance, is_promised=True)
        if instance.policy.keeps_reservations:
            self._lost.update((job.number, (job.reserved, job)) for job in self._reserved.values())
        for job in self._reserved.values():
            job.reserved = -1
        self._reserved.clear()
        self._delayed.clear()

    def cleared(self) -> None:
        """The inventory has dropped all reservations."""
        self._forget()
        self.changed = True
        self._instance.scheduling.request_round()

    def sort(self) -> None:
        """Priorities have changed, or a job left that may come back."""
        self._jobs = sorted(self, key=_order)
        self._head = 0
        self._count = len(self._jobs)
        self.changed = True

    def promises(self) -> Iterator[Job]:
        """Jobs that have a reservation."""
        return iter(self._reserved.values())

    def next_due(self) -> int:
        """When the next reservation comes; FOREVER for never."""
        due = self._due
        while due and (due[0][2].state is not State.SCHED or due[0][2].reserved != due[0][0]):
            heappop(due)
        return due[0][0] if due else FOREVER

    def _close_holes(self) -> None:
        jobs, head = self._jobs, self._head
        while head < len(jobs) and jobs[head].state is not State.SCHED:
            head += 1
        self._head = head
        if head > 64 and 2 * head > len(jobs):
            del jobs[:head]
            self._head = 0
        if len(jobs) - self._head > 2 * self._count + 64:
            self._jobs = list(self)
            self._head = 0
