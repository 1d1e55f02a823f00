"""The waiting jobs of an instance in order, and the view of the instance that a queue policy has.

The queue is a list sorted by priority and submission.  Jobs that start or leave stay in the list and are skipped, and are removed
in bulk, so taking the head of a queue of a million jobs is as cheap as of ten.  All actions of a policy go through `Queue`, which
ends a policy that does not terminate.
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
    """Raised in a pass that takes too long; a BaseException, so that no policy catches it by mistake."""

    def __str__(self) -> str:
        return "the pass did not end"


class PassEnded(Exception):
    """Ends a pass: it has started as many jobs as requested, or the instance is ending."""


def _sort_key(job: Job) -> tuple[int, int]:
    return -job.priority, job.number


class Queue:
    """The waiting jobs of an instance; a queue policy gets this object.

    Iteration is by priority, highest first, and then by submission; jobs may be started meanwhile.

    A policy may use: `now_s`, `changed`, `fresh`, `reserved`, `is_full`, iteration, `len`, `candidates`, `due`, `lost`,
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
        """Attempted starts and reservations in this round of the policy."""
        self._actions_max = 0
        self._starts_left = -1
        self.started = 0
        """Jobs started in this pass."""
        self._lost: dict[int, tuple[int, Job]] = {}
        self._delayed: dict[int, tuple[Job, int, int]] = {}
        """Jobs whose reservation was moved some ticks later, with its original start and the new one."""
        self._fresh: list[Job] = []
        self.changed = False
        """Whether something was freed, taken out of service or reordered since the last pass."""
        self.elapsed = False
        """Whether something became free because a job reached its limit, and the end of the job was not reported yet."""
        self._is_postponed = False

    # -- for policies ------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return seconds(self._instance.now)

    @property
    def is_full(self) -> bool:
        """Whether nothing at all is free now; False if unsure."""
        return self._instance.inventory.is_full

    @property
    def reserved(self) -> int:
        """The number of jobs with a reservation."""
        return len(self._reserved)

    @property
    def fresh(self) -> Iterator[Job]:
        """The jobs added since the last pass; they are behind all others, unless `changed` is set."""
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
        """The jobs that may be able to start since the last pass: all if something became free, else the fresh ones."""
        if self.changed or self.elapsed:
            return iter(self)
        return self.fresh

    def is_early(self) -> bool:
        """Whether to skip this pass: jobs only reached their limits, whose ends will cause a pass, and fresh jobs do not fit.

        Other implementations of EASY make no pass either when a job arrives that does not fit.  `elapsed` remains set.
        """
        if self.changed or not self.elapsed or self._instance.shared.has_suppliers:
            return False  # other instances could take meanwhile what is reserved of shared suppliers
        self.unreserve()  # the next pass considers all jobs, and makes them again
        inventory, now = self._instance.inventory, self._instance.now
        self._is_postponed = not any(
            self._instance.scheduling.attempt(job, inventory.has_room, job.ask, now) for job in self.fresh
        )
        return self._is_postponed

    def start(self, job: Job) -> bool:
        """Start a job if there is room for it now beside everything held and reserved; returns whether it started."""
        self._require_not_ending()
        if job.state is not State.SCHED:
            raise PolicyError(f"job {job.id} is {job.state.name} and cannot be started", where=self._where)
        if self._starts_left == 0:
            raise PassEnded
        self._count_action()
        if not self._instance.scheduling.try_start(job):
            return False
        self._starts_left -= 1
        self.started += 1
        return True

    def reserve(self, job: Job) -> float | None:
        """Reserve the earliest possible start for a job; returns it in seconds, or None if there is none.

        The reservation remains until the job starts, or until `unreserve`.  Reserving again never makes it later.
        """
        self._require_not_ending()
        if job.state is not State.SCHED:
            raise PolicyError(f"job {job.id} is {job.state.name} and cannot be reserved", where=self._where)
        self._count_action()
        instance = self._instance
        reserve = instance.inventory.reserve
        return self._add_reservation(
            job, instance.scheduling.attempt(job, reserve, job.number, job.ask, job.duration, instance.now)
        )

    def reserve_count(self, job: Job) -> float | None:
        """Reserve the number of pools that a job needs, without choosing them; returns the start as `reserve`.

        Only one job can have such a reservation.  If pools are not interchangeable, this is the same as `reserve`.
        """
        inventory = self._instance.inventory
        reserve = getattr(inventory, "reserve_count", None)
        if reserve is None:
            return self.reserve(job)
        self._count_action()
        self._forget_reservations()
        return self._add_reservation(job, reserve(job.number, job.ask, self._instance.now))

    def _add_reservation(self, job: Job, start: int | None) -> float | None:
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
            self._forget_reservations()

    def places(self) -> list[tuple[int, Job, Place]]:
        """The reservations in the order of their starts, for `restore`; empty unless the policy keeps reservations."""
        if not self._reserved or not self._instance.policy.keeps_reservations:
            return []
        known = self._instance.inventory.places()
        jobs = ((self._original_start(job), job) for job in self._reserved.values())
        found = [(start, job, known[job.number]) for start, job in jobs if job.number in known]
        return sorted(found, key=lambda place: (place[0], place[1].number))

    def _original_start(self, job: Job) -> int:
        _, promised, start = self._delayed.get(job.number, (job, job.reserved, job.reserved))
        return promised if start == job.reserved else job.reserved

    def restore(self, places: list[tuple[int, Job, Place]], late: int = 0) -> None:
        """Make dropped reservations again on the same pools, at the same start or `late` ticks later, if these are free then.

        If they were computed again, a job could get the pools reserved for another one, and delay it.
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
            self._add_reservation(job, start)
        return found

    def _restore_delayed(self) -> None:
        """Move reservations that `restore` made later back to their original start, if their pools are free then."""
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
        """The jobs whose reservations were dropped, earliest first: in this order, none becomes later."""
        lost, self._lost = sorted(self._lost.values(), key=lambda lost: (lost[0], lost[1].number)), {}
        return (job for _, job in lost if job.state is State.SCHED and job.reserved < 0)

    def due(self) -> Iterator[Job]:
        """The jobs whose reservation begins now or has begun."""
        now = self._instance.now
        while self._due and self._due[0][0] <= now:
            start, _, job = heappop(self._due)
            if job.state is State.SCHED and job.reserved == start:
                yield job

    # -- for the instance --------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"queue policy {self._instance.policy.name}"

    def _require_not_ending(self) -> None:
        if self._instance.is_ending:  # the runner of a job closed it in this pass
            raise PassEnded

    def _count_action(self) -> None:
        self.actions += 1
        if self.actions > self._actions_max:
            raise PolicyError(
                f"{self._actions_max} starts and reservations in one pass over {self._count} jobs: the pass does not end",
                where=self._where,
            )

    def begin_pass(self, starts: int) -> None:
        """Begin a pass.

        Args:
            starts: start at most this number of jobs; -1 for any number.
        """
        self._starts_left = starts
        self.started = 0

    def begin_round(self) -> None:
        """Prepare for a call of the policy."""
        self.actions = 0
        self._actions_max = limits.PASS_ACTIONS_MAX * (self._count + 1)
        if self._delayed:
            self._restore_delayed()

    def end_round(self, again: bool) -> None:
        """Clean up after a call of the policy.

        Args:
            again: whether something happened meanwhile that the policy may have missed.
        """
        self.changed, self.elapsed, self._is_postponed = again, self._is_postponed, False
        if not again:
            self._lost.clear()
        self._fresh.clear()
        self._close_holes()

    def add(self, job: Job) -> None:
        jobs = self._jobs
        self._count += 1
        if not jobs or self._head == len(jobs) or _sort_key(jobs[-1]) < _sort_key(job):
            jobs.append(job)
        else:
            insort(jobs, job, lo=self._head, key=_sort_key)
            self.changed = True
        self._fresh.append(job)

    def leave(self, job: Job) -> None:
        """Remove a job that has started, or no longer waits; its state has changed already."""
        self._count -= 1
        self.drop(job)

    def drop(self, job: Job) -> None:
        job.reserved = -1
        for known in (self._reserved, self._lost, self._delayed):
            known.pop(job.number, None)

    def _forget_reservations(self) -> None:
        instance = self._instance
        if self._reserved and instance.passes == "event" and not instance.scheduling.is_running:
            instance._time.owe(instance, is_promised=True)
        if instance.policy.keeps_reservations:
            self._lost.update((job.number, (job.reserved, job)) for job in self._reserved.values())
        for job in self._reserved.values():
            job.reserved = -1
        self._reserved.clear()
        self._delayed.clear()

    def reservations_dropped(self) -> None:
        """Note that the inventory has dropped all reservations."""
        self._forget_reservations()
        self.changed = True
        self._instance.scheduling.request_round()

    def sort(self) -> None:
        """Sort again, after priorities have changed or a job has left that may return."""
        self._jobs = sorted(self, key=_sort_key)
        self._head = 0
        self._count = len(self._jobs)
        self.changed = True

    def reserved_jobs(self) -> Iterator[Job]:
        return iter(self._reserved.values())

    def next_due(self) -> int:
        """The start of the next reservation in ticks; FOREVER for none."""
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
