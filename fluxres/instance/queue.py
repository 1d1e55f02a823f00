"""The waiting jobs of an instance in order, and the passes of its queue policy over them, in which jobs start.

The queue is a list sorted by priority and submission.  Jobs that start or leave stay in the list and are skipped, and are removed
in bulk, so taking the head of a queue of a million jobs is as cheap as of ten.  All actions of a policy go through `Queue`, which
ends a policy that does not terminate.

A pass consists of rounds, in each of which the policy goes through the queue.  Passes are never nested: an event during a round,
such as the immediate end of a job that was started, causes another round.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from pathlib import PurePath
from traceback import StackSummary, extract_tb
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol

from fluxres import limits
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import FluxresError, LimitExceeded, PolicyError, RunFailed, StoreError, UsageError
from fluxres.instance import states
from fluxres.instance.graph_inventory import GraphHold, GraphInventory
from fluxres.instance.interchangeable import InterchangeableInventory
from fluxres.instance.inventory import Ask, ReservedPlace
from fluxres.instance.job import PRIORITY_MAX, PRIORITY_MIN, URGENCY_HELD, Job, Scheduler, fixed_priority
from fluxres.instance.lanes import Lanes
from fluxres.instance.preemption import Preemption
from fluxres.instance.roles import Ending, JobStates, Moments
from fluxres.instance.sizes import Option, SizePolicy
from fluxres.instance.states import State
from fluxres.instance.timekeeper import Timekeeper
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.match import Placement
    from fluxres.model import ResourceGraph

_FILE: Final = re.compile(r" \([^()]+\.py\)\Z")
_LINE: Final = re.compile(r" \([^()]+\.py, line \d+\)\Z")
"""Where a policy was, at the end of a message."""

Choose = Callable[[int, int], "Placement | None"]
"""Finds pools for a window in ticks; None if there is no room."""

UNDECIDED: Final = "alloc"
"""Type of the exception of a job for which the matcher could not decide whether there is room."""


_KINDS_TRIED: Final = 256
"""Of the waiting jobs, as many that differ are tried before a policy is said to start none of them."""


class Endless(BaseException):
    """Raised in a call of a policy that takes too long; a BaseException, so that no policy catches it by mistake."""

    def __str__(self) -> str:
        return "it did not return"


class PassEnded(Exception):
    """Ends a pass: it has started as many jobs as requested, or the instance is ending."""


class QueuePolicy(ABC):
    """Base class of queue policies; its order is by urgency, then by submission.

    name: for messages and results; by default that of the class. keeps_reservations: whether reservations outlive a pass and
    start jobs when their time comes; otherwise they only block other jobs. recalculate_s: the period after which priorities are
    computed again, or None.
    """

    name: str
    keeps_reservations: bool = False
    recalculate_s: float | None = None

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abstractmethod
    def schedule(self, queue: Queue) -> None:
        """Make one pass: start jobs of the queue, and make reservations, with the methods of `Queue`."""

    def priority(self, job: Job, now_s: float) -> int:
        """The priority of a job, from 0 to 4294967295 (RFC 21); not called for held and expedited jobs."""
        return job.urgency

    def submitted(self, job: Job, now_s: float) -> None:
        """Called when a job enters the queue: at its submission, or when it waits for nothing else any more."""

    def started(self, job: Job, now_s: float) -> None:
        """Called when a job has got its resources, for policies that track usage."""

    def finished(self, job: Job, now_s: float) -> None:
        """Called when a job has freed its resources, and for one that never ran."""

    def resized(self, job: Job, now_s: float) -> None:
        """Called when a running job has another size, for policies that track usage."""

    def lane(self, job: Job) -> str:
        """The lane of a job, for policies with lanes; default: the partition that its request names."""
        return job.request.queue or ""

    def place(self, job: Job) -> Any:
        """The sort key of a job in its lane; default: by priority and submission."""
        return _sort_key(job)

    def take_in(self, job: Job) -> Job:
        """The job that waits once a new one is submitted: the new one, or one that waits already and does for both."""
        return job


HOOKS: Final = ("take_in", "priority", "submitted", "started", "finished", "resized")
"""The methods of a policy that are called for each job."""


def hooks_of(policy: QueuePolicy) -> frozenset[str]:
    """Those that a policy has of its own; the others do nothing, and need not be called a million times.

    >>> class Oldest(QueuePolicy):
    ...     def schedule(self, queue): ...
    ...     def started(self, job, now_s): ...
    >>> hooks_of(Oldest())
    frozenset({'started'})
    """
    return frozenset(name for name in HOOKS if getattr(getattr(policy, name), "__func__", None) is not getattr(QueuePolicy, name))


class Guard:
    """Notes that a method of the policy of a queue is being called, and reports what it raises as a PolicyError that names it."""

    __slots__ = ("policy", "queue")

    def __init__(self, queue: Queue) -> None:
        self.queue, self.policy = queue, queue.policy

    def __enter__(self) -> None:
        self.queue.hook_depth += 1
        self.queue.policy_calls += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.queue.hook_depth -= 1
        if error is not None:
            _report(self.policy, error)


_OF_OTHERS: Final = (LimitExceeded, StoreError, RunFailed)
"""Errors of the search for pools, the store and the runner, which pass through a policy."""


def is_built_in(policy: QueuePolicy) -> bool:
    """Whether a policy is of this package, and known to come to an end and to start every job that it can."""
    return type(policy).__module__.startswith("fluxres.instance.")


def policy_error(policy: QueuePolicy, message: str, *, hint: str = "") -> PolicyError:
    """An error that names a policy, and its file unless it is of this package."""
    files = () if is_built_in(policy) else sorted(_files(policy))
    return PolicyError(f"{message} ({PurePath(files[0]).name})" if files else message, where=_named(policy), hint=hint)


def _named(policy: QueuePolicy) -> str:
    return f"queue policy {policy.name}"


def _report(policy: QueuePolicy, error: BaseException) -> None:
    """Errors: PolicyError that names the policy, for what it raised itself, or did that a policy cannot do."""
    if isinstance(error, PolicyError) and not _LINE.search(error.message) and (line := _line(policy, error)):
        raise PolicyError(_FILE.sub("", error.message) + line, where=error.where, hint=error.hint) from error
    if isinstance(error, FluxresError):
        is_of_its_call = isinstance(error, UsageError) or not (is_built_in(policy) or isinstance(error, _OF_OTHERS))
        if is_of_its_call and not isinstance(error, PolicyError) and (line := _line(policy, error)):
            said = error.message if isinstance(error, UsageError) else f"{type(error).__name__}: {error.message}"
            raise PolicyError(said + line, where=_named(policy), hint=error.hint) from error
        return
    if isinstance(error, PassEnded | KeyboardInterrupt):
        return
    what = str(error) if isinstance(error, Endless) else f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, SystemExit):
        what = "it ends the program with sys.exit()"
    raise PolicyError(what + _line(policy, error), where=_named(policy)) from error


def _line(policy: QueuePolicy, error: BaseException) -> str:
    """The innermost line in the file of the policy, in parentheses; nothing for a policy that is not written in Python."""
    return line_in(policy, extract_tb(error.__traceback__))


def line_in(policy: QueuePolicy, stack: StackSummary) -> str:
    """As `_line`, of a stack."""
    files = _files(policy)
    found = [frame for frame in stack if frame.filename in files]
    return f" ({PurePath(found[-1].filename).name}, line {found[-1].lineno})" if found else ""


def _files(policy: QueuePolicy) -> set[str]:
    """Where the methods of a policy are written."""
    return {each.__code__.co_filename for each in vars(type(policy)).values() if isinstance(each, FunctionType)}


class QueueOwner(Scheduler, Protocol):
    """What a queue uses of its instance."""

    passes: str
    preemption: Preemption | None
    size_policy: SizePolicy
    time: Timekeeper

    @property
    def due(self) -> Moments: ...

    @property
    def lifecycle(self) -> JobStates: ...

    @property
    def lifetime(self) -> Ending: ...


def _sort_key(job: Job) -> tuple[int, int]:
    return -job.priority, job.number


class Queue:
    """The waiting jobs of an instance; a queue policy gets this object.

    Iteration is by priority, highest first, and then by submission; jobs may be started meanwhile. Jobs for a partition that
    starts none are left out, and so are those that a limit of the accounting does not let start now.

    A policy may use: `now_s`, `changed`, `fresh`, `reserved`, `is_full`, `is_stuck`, iteration, `len`, `candidates`, `due`,
    `lost`, `is_early`, `start`, `reserve`, `reserve_count`, `unreserve`, `running`, `free`, `free_at`, `earliest`, `lanes`,
    `graph`, `instance`, `wake_at`.
    """

    def __init__(self, instance: QueueOwner, policy: QueuePolicy) -> None:
        self._instance = instance
        self.policy = policy
        self.hooks = hooks_of(policy)
        """The methods of the policy that are called for each job."""
        #: from the beginning for a policy that names lanes, so that no pass has to divide all jobs
        self._lanes = Lanes(policy.lane, policy.place) if type(policy).lane is not QueuePolicy.lane else None
        self._jobs: list[Job] = []
        self._head = 0
        self._count = 0
        self._reserved: dict[int, Job] = {}
        self._due: list[tuple[int, int, Job]] = []
        self.actions = 0
        """Attempted starts and reservations in this round of the policy."""
        self.units_requested = 0
        """The units that their jobs request together, if `counts_units`."""
        self.counts_units = False
        self._actions_max = 0
        self._starts_left = -1
        self._started = 0
        """Jobs started in this pass."""
        self._submitted = self._submitted_max = 0
        """The number of jobs that the policy has submitted in this pass, and that it may."""
        self._is_deciding = False
        """Whether the policy goes through the queue just now, and no job that it starts is about to run."""
        self._lost: dict[int, tuple[int, Job]] = {}
        self._delayed: dict[int, tuple[Job, int, int]] = {}
        """Jobs whose reservation was moved some ticks later, with its original start and the new one."""
        self._fresh: list[Job] = []
        self.changed = False
        """Whether something was freed, taken out of service or reordered since the last pass."""
        self.elapsed = False
        """Whether something became free because a job reached its limit, and the end of the job was not reported yet."""
        self._is_postponed = False
        self.is_running = False
        """Whether the policy is running."""
        self.policy_calls = 0
        """The number of calls of the policy: its rounds, of which a pass has one or more, and its methods for each job."""
        self.hook_depth = 0
        """The number of calls in progress of its methods for each job."""
        self._again = False
        """Whether something has changed that the current round may have missed."""
        self._recalculated = instance.due.now
        self._promised: dict[int, tuple[Job, tuple[int, int, bytes]]] = {}
        """By job, what was reserved at the end of the last pass; only used if instances share suppliers."""

    # -- for policies ------------------------------------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        return seconds(self._instance.due.now)

    @property
    def instance(self) -> Scheduler:
        return self._instance

    @property
    def lanes(self) -> Lanes:
        """The waiting jobs by lane, as `QueuePolicy.lane` names them, each lane in the order of `QueuePolicy.place`."""
        if self._lanes is None:
            self._lanes = Lanes(self.policy.lane, self.policy.place)
            self._lanes.sort(self.waiting())
        return self._lanes

    def running(self) -> Iterator[Job]:
        """The jobs that hold resources, those that are being stopped included.  Cost O(jobs that run)."""
        running, jobs = self._instance.inventory.running, self._instance.lifecycle.jobs
        return (jobs[hold.key] for hold in (*running.holds, *running.lapsed.values()))

    @property
    def free(self) -> int:
        """The units that are in service and that nobody holds now, of the type in which sizes are measured.

        Cost: O(pools) with the inventory `graph`.
        """
        return self._instance.inventory.free_units

    def free_at(self, moment_s: float) -> int:
        """The units that are free at a moment if no job starts until then and each runs as long as planned, as `free`.

        Cost O(jobs that run).
        """
        moment = ticks(moment_s)
        return self.free + sum(job.size for job in self.running() if self._instance.due.now < job.limit <= moment)

    def earliest(self, job: Job) -> float | None:
        """The earliest start of a waiting job beside everything held and reserved, in seconds (the shadow time of EASY's head).

        Nothing remains reserved, unless the job is reserved already.  None if there is no such moment, since jobs have no limit.
        """
        self._require_waiting(job, "asked for its earliest start")
        if job.reserved >= 0:
            return seconds(job.reserved)
        inventory, now = self._instance.inventory, self._instance.due.now
        self._count_action(job)
        found = self._attempt(job, inventory.reserve, job.number, job.ask, job.planned, now)
        inventory.unreserve(job.number)
        return None if found is None else seconds(found)

    def wake_at(self, moment_s: float) -> None:
        """Make a pass at this time, in seconds, even if nothing happens until then."""
        self._instance.due.wake_at(ticks(moment_s))

    @property
    def now(self) -> int:
        """Now in ticks."""
        return self._instance.due.now

    @property
    def graph(self) -> ResourceGraph:
        """The machine, with what everybody holds of it; a policy only reads it."""
        return self._instance.inventory.graph

    @property
    def is_full(self) -> bool:
        """Whether nothing at all is free now; False if unsure."""
        return self._instance.inventory.is_full

    @property
    def is_stuck(self) -> bool:
        """Whether no job can start or get a reservation: nothing is free, nothing held has an end; False if unsure."""
        inventory = self._instance.inventory
        return inventory.is_full and not self._reserved and not inventory.running.has_end

    @property
    def reserved(self) -> int:
        """The number of jobs with a reservation."""
        return len(self._reserved)

    @property
    def fresh(self) -> Iterator[Job]:
        """The jobs added since the last pass; they are behind all others, unless `changed` is set."""
        closed, limiter = self._closed(), self._instance.limiter
        return (
            job
            for job in self._fresh
            if job.state is State.SCHED
            and not (closed and self._goes_to(job) in closed)
            and (limiter is None or self._obstacle(job) is None)
        )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Job]:
        jobs, closed, limiter = self._jobs, self._closed(), self._instance.limiter
        preemption, waits = self._instance.preemption, State.SCHED
        for at in range(self._head, len(jobs)):
            job = jobs[at]
            if job.state is not waits or (closed and self._goes_to(job) in closed):
                continue
            if limiter is None or self._obstacle(job) is None:
                yield job
                if preemption is not None and preemption.releases(job):
                    return  # the next round begins with the preempted jobs, which may be in front of others

    def waiting(self) -> Iterator[Job]:
        """All waiting jobs, also those for a partition that starts none."""
        return (job for job in self._jobs[self._head :] if job.state is State.SCHED)

    def _closed(self) -> frozenset[int]:
        """The pools of the partitions that start no job; the jobs for them are passed over, so that they hold up no others."""
        partitions = self._instance.inventory.graph.structure.partitions
        return frozenset(each.vertex for each in partitions.values() if not each.starts_jobs) if partitions else frozenset()

    def _goes_to(self, job: Job) -> int:
        partition = self._instance.inventory.graph.matcher.partition_for(job.request)
        return -1 if partition is None else partition.vertex

    def candidates(self) -> Iterator[Job]:
        """The jobs that may be able to start since the last pass: all if something became free, else the fresh ones."""
        if self.changed or self.elapsed:
            return iter(self)
        return self.fresh

    def is_early(self) -> bool:
        """Whether to skip this pass: jobs only reached their limits, whose ends will cause a pass, and fresh jobs do not fit.

        Other implementations of EASY make no pass either when a job arrives that does not fit.  `elapsed` remains set.
        """
        if self.changed or not self.elapsed or self._instance.time.has_suppliers:
            return False  # other instances could take meanwhile what is reserved of shared suppliers
        self.unreserve()  # the next pass considers all jobs, and makes them again
        inventory, now = self._instance.inventory, self._instance.due.now
        self._is_postponed = not any(self._attempt(job, inventory.has_room, self._least(job), now) for job in self.fresh)
        return self._is_postponed

    def _least(self, job: Job) -> Ask:
        """The request of a job at the smallest size at which it may start now."""
        return job.ask if job.sizes is None else self._instance.size_policy.least(job.sizes).ask

    def _obstacle(self, job: Job) -> object | None:
        """The limit of the accounting that does not let a job start now; of a job without a reservation, at any of its sizes."""
        limiter = self._instance.limiter
        found = None if limiter is None else limiter.obstacle(job)
        if limiter is None or found is None or job.sizes is None or job.reserved >= 0:
            return found
        for option in job.sizes.options:
            job.take(option)
            if limiter.obstacle(job) is None:
                return None
        job.take(job.sizes.preferred)
        return found

    def _is_barred(self, job: Job) -> bool:
        """Whether a limit of the accounting does not let a job start; if so, it loses its reservation."""
        if self._instance.limiter is None or self._obstacle(job) is None:
            return False
        self._unreserve_one(job)
        return True

    def _unreserve_one(self, job: Job) -> None:
        if job.reserved >= 0:
            self._instance.inventory.unreserve(job.number)
            self.drop(job)

    def start(self, job: Job, choose: Choose | None = None) -> bool:
        """Start a job if there is room for it now beside everything held and reserved; returns whether it started.

        Args:
            choose: finds the pools for the window, in place of the match policy; only with the inventory `graph`.
        """
        instance = self._instance
        try:
            may_start = job.state is State.SCHED and job.instance is instance and not instance.lifetime.is_ending
            may_start = may_start and job.urgency != URGENCY_HELD
        except AttributeError:
            may_start = False  # it is no job
        if not may_start:
            self._require_waiting(job, "started")  # called only to refuse: simulations start millions of jobs
        if self._starts_left == 0:
            raise PassEnded
        self._count_action(job)
        start = self._try_start if job.sizes is None else self._try_sizes
        if (instance.limiter is not None and self._is_barred(job)) or not start(job, choose):
            return False
        self._starts_left -= 1
        self._started += 1
        if instance.preemption is not None:
            self._again = True  # for the next head of the queue
        return True

    def reserve(self, job: Job) -> float | None:
        """Reserve the earliest possible start for a job; returns it in seconds, or None if there is none.

        The reservation remains until the job starts, or until `unreserve`.  Reserving again never makes it later.
        """
        self._require_waiting(job, "reserved")
        self._count_action(job)
        if self._is_barred(job):
            return None
        reserve, now = self._instance.inventory.reserve, self._instance.due.now
        if job.sizes is not None and not self._take_size_to_reserve(job, reserve):
            return None
        return self._add_reservation(job, self._attempt(job, reserve, job.number, job.ask, job.planned, now))

    def reserve_count(self, job: Job) -> float | None:
        """Reserve the number of pools that a job needs, without choosing them; returns the start as `reserve`.

        Only one job can have such a reservation.  If pools are not interchangeable, or there are advance reservations, this is
        the same as `reserve`.
        """
        inventory = self._instance.inventory
        if not isinstance(inventory, InterchangeableInventory) or inventory.ahead:
            return self.reserve(job)
        self._require_waiting(job, "reserved")
        self._count_action(job)
        if self._is_barred(job):
            return None
        self._forget_reservations()
        if job.sizes is not None and not self._take_size_to_reserve(job, _by_count(inventory.reserve_count)):
            return None
        return self._add_reservation(job, inventory.reserve_count(job.number, job.ask, self._instance.due.now))

    # -- jobs of several sizes ---------------------------------------------------------------------------------------

    def _try_sizes(self, job: Job, choose: Choose | None = None) -> bool:
        """Start a waiting job at the first size of the size policy for which its resources are free now."""
        assert job.sizes is not None  # otherwise there is nothing to choose
        policy, sizes = self._instance.size_policy, job.sizes
        was_reserved = job.reserved >= 0
        if was_reserved:
            keeps = policy.is_fixed or (policy.keeps_reserved_size and job.reserved <= self._instance.due.now)
            if keeps and sizes.pinned is None:
                return self._try_start(job, choose)
            self._unreserve_one(job)
        if sizes.pinned is not None:
            options: Iterable[Option] = (sizes.pinned,)
        else:
            options = policy.to_start(sizes, lambda option: self._wait(job, option, self._instance.inventory.reserve))
        for option in options:
            job.take(option)
            limiter = self._instance.limiter
            if (limiter is None or limiter.obstacle(job) is None) and self._try_start(job, choose):
                return True
        if was_reserved:
            self.reserve(job)
        else:
            job.take(sizes.preferred)
        return False

    def _take_size_to_reserve(self, job: Job, reserve: Callable[..., int | None]) -> bool:
        """Give a job the size that the size policy reserves for it; returns whether there is one that it may have."""
        assert job.sizes is not None  # otherwise there is nothing to choose
        policy, limiter = self._instance.size_policy, self._instance.limiter
        if not policy.is_fixed or job.sizes.pinned is not None:
            self._instance.inventory.unreserve(job.number)  # it was for another size, perhaps
        found = job.sizes.pinned or policy.to_reserve(job.sizes, lambda option: self._wait(job, option, reserve))
        if found is None:
            self.drop(job)
            return False
        job.take(found)
        return limiter is None or limiter.obstacle(job) is None

    def _wait(self, job: Job, option: Option, reserve: Callable[..., int | None]) -> int | None:
        """How long a job without a reservation waits at some size; None if it can never start."""
        job.take(option)
        if self._instance.limiter is not None and self._instance.limiter.obstacle(job) is not None:
            return None
        now, inventory = self._instance.due.now, self._instance.inventory
        start = self._attempt(job, reserve, job.number, job.ask, job.duration, now)
        inventory.unreserve(job.number)
        return None if start is None else start - now

    def _add_reservation(self, job: Job, start: int | None) -> float | None:
        if start is None:
            self.drop(job)
            return None
        if job.reserved != start:
            job.reserved = start
            if self.policy.keeps_reservations:
                heappush(self._due, (start, job.number, job))
        self._reserved[job.number] = job
        return seconds(start)

    def unreserve(self) -> None:
        """Drop all reservations."""
        if not self._reserved:
            return
        inventory, time = self._instance.inventory, self._instance.time
        if self.is_running and not time.has_suppliers:  # others could take meanwhile what is reserved of shared suppliers
            inventory.suspend(self._instance.due.now)
        else:
            inventory.clear()
        self._forget_reservations()

    def places(self) -> list[tuple[int, Job, ReservedPlace]]:
        """The reservations in the order of their starts, for `restore`; empty unless the policy keeps reservations."""
        if not self._reserved or not self.policy.keeps_reservations:
            return []
        known = self._instance.inventory.places()
        jobs = ((self._original_start(job), job) for job in self._reserved.values())
        found = [(start, job, known[job.number]) for start, job in jobs if job.number in known]
        return sorted(found, key=lambda place: (place[0], place[1].number))

    def _original_start(self, job: Job) -> int:
        _, promised, start = self._delayed.get(job.number, (job, job.reserved, job.reserved))
        return promised if start == job.reserved else job.reserved

    def restore(self, places: list[tuple[int, Job, ReservedPlace]], late: int = 0) -> None:
        """Make dropped reservations again on the same pools, at the same start or `late` ticks later, if these are free then.

        If they were computed again, a job could get the pools reserved for another one, and delay it.
        """
        now = self._instance.due.now
        for reserved, job, place in places:
            if job.state is not State.SCHED or job.reserved >= 0:
                continue
            first = max(reserved, now)
            if not self._restore(job, place, first) and late and self._restore(job, place, first + late):
                self._delayed[job.number] = job, first, first + late

    def _restore(self, job: Job, place: ReservedPlace, start: int) -> bool:
        instance = self._instance
        found = instance.inventory.restore(job.number, place, job.planned, start, instance.due.now)
        if found:
            self._add_reservation(job, start)
        return found

    def _restore_delayed(self) -> None:
        """Move reservations that `restore` made later back to their original start, if their pools are free then."""
        delayed, self._delayed = self._delayed, {}
        places, now = self._instance.inventory.places(), self._instance.due.now
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
        now = self._instance.due.now
        while self._due and self._due[0][0] <= now:
            start, _, job = heappop(self._due)
            if job.state is State.SCHED and job.reserved == start:
                yield job

    # -- for the instance --------------------------------------------------------------------------------------------

    @property
    def is_in_policy(self) -> bool:
        """Whether a call of the policy is in progress."""
        return self.is_running or self.hook_depth > 0

    def tell(self, event: str, job: Job, now: int) -> None:
        """Call the method of the policy that is named like an event of a job, if it has one of its own.

        Callers check that there are `hooks` at all: simulations have millions of such events, and most policies want none.
        """
        if event in self.hooks:
            with Guard(self):
                getattr(self.policy, event)(job, seconds(now))

    def take_in(self, job: Job) -> Job:
        """The job that waits: the new one, unless the policy lets an earlier job stand in for it."""
        if "take_in" not in self.hooks:
            return job
        with Guard(self):
            found = self.policy.take_in(job)
        if not isinstance(found, Job):
            raise policy_error(self.policy, f"take_in: expected a job, got {found!r:.80}")
        return found

    def end(self) -> None:
        """Start no more jobs, since the instance is ending; the policy is not called any more."""
        self.policy, self.hooks = _Ended(), frozenset()

    def supply_changed(self) -> None:
        """Let the next pass consider all jobs again, because more may be free than before."""
        self._instance.inventory.forget_failures()
        self.changed = True

    def supplies_returned(self) -> None:
        """Note that something may have been freed that other instances can use: all of them get a pass."""
        self.changed = True
        self._instance.time.note_return()

    def starts_nothing(self, named: Callable[[Job], object] = lambda job: job.id) -> PolicyError | None:
        """The error for a policy that starts no job, although nothing runs and nothing else is to come; drops reservations.

        None if not every waiting job can start now: a policy may keep the order, and wait for one that never can.  None for the
        policies of this package, too.

        Args:
            named: the name of a job in the message.
        """
        waiting = [] if is_built_in(self.policy) else list(self)
        if not waiting:
            return None
        self._instance.inventory.clear()
        for job in list(self._reserved.values()):
            self.drop(job)
        kinds = {(id(job.ask) if isinstance(job.ask, Request) else job.ask, job.planned): job for job in waiting}
        if not all(self._can_start(job) for job in islice(kinds.values(), _KINDS_TRIED)):
            return None
        number = len(waiting)
        they = f"{number} jobs wait, job {named(waiting[0])} first" if number > 1 else f"job {named(waiting[0])} waits"
        return policy_error(
            self.policy,
            f"it starts no job: {they}, there is room for {'each of them' if number > 1 else 'it'}, and nothing else is to come",
            hint="its schedule starts jobs with queue.start(job), and queue.wake_at(seconds) asks for a later pass",
        )

    def _can_start(self, job: Job) -> bool:
        now, inventory = self._instance.due.now, self._instance.inventory
        found = self._attempt(job, inventory.reserve, job.number, self._least(job), job.planned, now)
        inventory.unreserve(job.number)
        return found == now

    def _require_waiting(self, job: Job, done: str) -> None:
        """Refuse a job that does not wait in this queue.

        Args:
            done: what the policy wants to do, for the message.

        Errors: PolicyError; PassEnded if the runner of a job closed the instance in this pass.
        """
        if self._instance.lifetime.is_ending:
            raise PassEnded
        where = _named(self.policy)
        if not isinstance(job, Job):
            raise PolicyError(f"expected a job of the queue, got {job!r:.80}, which cannot be {done}", where=where)
        if job.instance is not self._instance:
            raise PolicyError(f"job {job.id} is of another instance and cannot be {done}", where=where)
        if job.state is not State.SCHED:
            raise PolicyError(f"job {job.id} is {job.state.name} and cannot be {done}", where=where)
        if job.urgency == URGENCY_HELD:
            raise PolicyError(f"job {job.id} is held (urgency 0) and cannot be {done}", where=where)

    def _count_action(self, job: Job) -> None:
        self.actions += 1
        if self.counts_units:
            self.units_requested += job.size
        if self.actions > self._actions_max:
            raise PolicyError(
                f"{self._actions_max} starts and reservations in one pass over {self._count} jobs: the pass does not end",
                where=_named(self.policy),
            )

    def add(self, job: Job) -> None:
        jobs = self._jobs
        self._count += 1
        last = jobs[-1] if jobs else None
        if last is None or self._head == len(jobs) or (-last.priority, last.number) < (-job.priority, job.number):
            jobs.append(job)
        else:
            insort(jobs, job, lo=self._head, key=_sort_key)
            self.changed = True
        self._fresh.append(job)
        if self._lanes is not None:
            with Guard(self):
                self._lanes.add(job)

    def leave(self, job: Job) -> None:
        """Remove a job that has started, or no longer waits; its state has changed already."""
        self._count -= 1
        if job.reserved >= 0 or self._lost or self._delayed:
            self.drop(job)

    def drop(self, job: Job) -> None:
        job.reserved = -1
        for known in (self._reserved, self._lost, self._delayed):
            known.pop(job.number, None)

    def _forget_reservations(self) -> None:
        instance = self._instance
        if self._reserved and not self.is_running:
            instance.due.owe_pass(is_promised=True)
        if self.policy.keeps_reservations:
            self._lost.update((job.number, (job.reserved, job)) for job in self._reserved.values())
        for job in self._reserved.values():
            job.reserved = -1
        self._reserved.clear()
        self._delayed.clear()

    def reservations_dropped(self) -> None:
        """Note that the inventory has dropped all reservations."""
        self._forget_reservations()
        self.changed = True
        self.request_round()

    def sort(self) -> None:
        """Sort again, after priorities have changed or a job has left that may return."""
        self._jobs = sorted(self.waiting(), key=_sort_key)
        self._head = 0
        self._count = len(self._jobs)
        self.changed = True
        if self._lanes is not None:
            with Guard(self):
                self._lanes.sort(self._jobs)

    def reserved_jobs(self) -> Iterator[Job]:
        return iter(self._reserved.values())

    def next_due(self) -> int:
        """The start of the next reservation in ticks; FOREVER for none."""
        due = self._due
        while due and (due[0][2].state is not State.SCHED or due[0][2].reserved != due[0][0]):
            heappop(due)
        return due[0][0] if due else FOREVER

    def _close_holes(self) -> None:
        jobs, head, waits = self._jobs, self._head, State.SCHED
        end = len(jobs)
        while head < end and jobs[head].state is not waits:
            head += 1
        self._head = head
        if 8 * head > end:  # jobs that have started would stay in memory
            del jobs[:head]
            self._head = 0
        if len(jobs) - self._head > 2 * self._count + 64:
            self._jobs = list(self.waiting())
            self._head = 0

    # -- passes ------------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Count a job that starts at once and never waits, until `leave`."""
        self._count += 1

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
        instance, time, lifetime = self._instance, self._instance.time, self._instance.lifetime
        if lifetime.is_ending or lifetime.expires <= instance.due.now:  # everything in it ends at this moment
            return 0
        if self.is_running:
            self._again = True
            return 0
        if time.is_moving or (time.passes_open and (time.has_suppliers or instance.due.is_behind())):
            time.owe(instance.due)
            return 0
        if self.policy.recalculate_s is not None:
            self._recalculate(self.policy.recalculate_s)
        self._starts_left, self._started = starts, 0
        self.is_running = True
        time.still += 1
        time.passes_open += 1
        idle, idle_max = 0, limits.PASS_IDLE_ROUNDS_MAX + self._count
        self._submitted, self._submitted_max = 0, limits.PASS_GROWTH_MAX + self._count
        try:
            self._again = True
            while self._again and not lifetime.is_ending:  # a runner may close the instance
                self._again, started = False, self._started
                self._begin_round()
                if instance.lifecycle.delayed:
                    instance.lifecycle.begin_delayed()
                if instance.preemption is not None:
                    self._preempt()
                policy = self.policy
                self._is_deciding = True
                try:
                    policy.schedule(self)
                except BaseException as error:
                    _report(policy, error)
                    raise
                finally:
                    self._is_deciding = False
                self._end_round(self._again)
                idle = idle + 1 if self._started == started else 0
                if idle > idle_max:
                    raise self._no_end(f"{idle:,} rounds in a row started nothing and changed the queue")
            if time.has_suppliers:
                self._compare_promises()
        except PassEnded:
            self._end_round(True)
        finally:
            instance.inventory.drop_suspended()
            self.is_running = False
            time.still -= 1
            time.passes_open -= 1
        return self._started

    def count_submission(self) -> None:
        """Count a job that is submitted during a pass; those of a runner, which come as others end, have no bound.

        Errors: PolicyError for a policy that submits jobs without end.
        """
        if not self._is_deciding and not self.hook_depth:
            return
        if self._submitted >= self._submitted_max:
            raise self._no_end(f"it has submitted {self._submitted:,} jobs")
        self._submitted += 1

    def _no_end(self, found: str) -> PolicyError:
        message = f"its pass does not end: {found}, and {self._count:,} jobs wait"
        return policy_error(self.policy, message, hint="let schedule() not submit or cancel jobs")

    def _begin_round(self) -> None:
        self.policy_calls += 1
        self.actions = self.units_requested = 0
        self._actions_max = limits.PASS_ACTIONS_MAX * (self._count + 1)
        if self._delayed:
            self._restore_delayed()
        if self._instance.limiter is not None:
            for job in list(self._reserved.values()):
                self.changed |= self._is_barred(job)  # others may get the reservation

    def _preempt(self) -> None:
        """Make room for the head of the queue, if its QOS may preempt others, and start it before the preempted jobs return."""
        preemption = self._instance.preemption
        if preemption is None or self._starts_left == 0:
            return
        self.changed |= preemption.begin_pass()
        while (head := next(iter(self), None)) is not None and preemption.may_preempt(head):
            if self._reserved:
                self._instance.inventory.clear()
                self._forget_reservations()
                self.changed = True
            self.changed |= bool(self._attempt(head, preemption.make_room, head))
            if head.state is not State.SCHED or not preemption.is_awaited(head) or not self.start(head):
                return
            self.changed |= preemption.begin_pass()  # the preempted jobs are in front of others again

    def _end_round(self, again: bool) -> None:
        """Clean up after a call of the policy.

        Args:
            again: whether something happened meanwhile that the policy may have missed.
        """
        self.changed, self.elapsed, self._is_postponed = again, self._is_postponed, False
        if not again:
            self._lost.clear()
        self._fresh.clear()
        self._close_holes()

    def _try_start(self, job: Job, choose: Choose | None = None) -> bool:
        """Start a waiting job if its resources are free now."""
        instance = self._instance
        now, inventory, number = instance.due.now, instance.inventory, job.number
        end = min(now + job.planned, FOREVER)
        if choose is not None and isinstance(inventory, GraphInventory):
            if job.reserved >= 0:
                inventory.unreserve(number)
                self.drop(job)
            claim = self._attempt(job, inventory.start_on, number, choose, now, end)
        elif job.reserved < 0:
            try:
                claim = inventory.start(number, job.ask, now, end)
            except FluxresError as error:
                self._not_decided(job, error)
                return False
        elif job.reserved <= now:
            claim = self._attempt(job, inventory.begin, number, job.ask, now, end)
            if claim is None:
                # It is late: its reservation began in the past, and other reservations follow it.
                inventory.clear()
                self.reservations_dropped()
                claim = self._attempt(job, inventory.start, number, job.ask, now, end)
        else:
            inventory.unreserve(number)
            self.drop(job)
            claim = self._attempt(job, inventory.start, number, job.ask, now, end)
            if claim is None:
                self.reserve(job)
        if claim is None:
            return False
        was_deciding, self._is_deciding = self._is_deciding, False
        try:
            instance.lifecycle.start(job, claim, end)
        finally:
            self._is_deciding = was_deciding
        return True

    def _attempt(self, job: Job, question: Callable[..., Any], *args: Any) -> Any | None:
        """Ask the inventory for a waiting job; if it raises, the job gets an exception and the answer is None.

        The error is not raised, since the call that caused this pass may have been about another job.
        """
        try:
            return question(*args)
        except FluxresError as error:
            self._not_decided(job, error)
            return None

    def _not_decided(self, job: Job, error: FluxresError) -> None:
        """Note on a waiting job that the inventory could not answer.

        Errors: StoreError and PolicyError, which are not about this job.
        """
        if isinstance(error, StoreError | PolicyError):
            raise error
        if not any(failure.type == UNDECIDED for failure in job.exceptions):
            note = f"it waits as if there were no room for it: {error}"
            self._instance.lifecycle.raise_exception(job, UNDECIDED, states.WARNING, note)

    def prioritize(self, job: Job) -> None:
        """Give a job the priority of the policy, or a fixed one if it is held or expedited.

        Errors: PolicyError outside the range of RFC 30.
        """
        fixed, policy = fixed_priority(job.urgency), self.policy
        if fixed is not None or "priority" not in self.hooks:
            job.priority = job.urgency if fixed is None else fixed
            return
        with Guard(self):
            found = policy.priority(job, seconds(self._instance.due.now))
            try:
                priority = int(found)
            except (TypeError, ValueError, OverflowError):
                raise policy_error(policy, f"priority: expected a number, got {found!r:.80}") from None
        if not PRIORITY_MIN <= priority <= PRIORITY_MAX:
            raise policy_error(policy, f"priority {priority} is not in 0 to {PRIORITY_MAX}")
        job.priority = priority

    def _recalculate(self, period_s: float) -> None:
        now = self._instance.due.now
        if now - self._recalculated < ticks(period_s):
            return
        self._recalculated = now
        for job in self.waiting():
            self.prioritize(job)
        self.sort()

    def _compare_promises(self) -> None:
        """Note that shared suppliers may be free if reservations of the last pass were dropped or moved."""
        before, inventory = self._promised, self._instance.inventory
        self._promised = {}
        if isinstance(inventory, GraphInventory):
            for job in self._reserved.values():
                self._promised[job.number] = job, _slot(job, job.reserved, inventory.reserved(job.number))
        for number, (job, slot) in before.items():
            now = self._promised.get(number)
            kept = now[1] if now is not None else _slot(job, job.started, job.claim)
            if kept != slot:
                self._instance.time.note_return()
                break


class _Ended(QueuePolicy):
    """The policy of an instance that is ending: no job starts."""

    name = "over"

    def schedule(self, queue: Queue) -> None:
        pass


def _by_count(reserve: Callable[[int, Ask, int], int | None]) -> Callable[..., int | None]:
    """A reservation by number, with the arguments of one by name."""
    return lambda key, ask, duration, now: reserve(key, ask, now)


def _slot(job: Job, start: int, hold: Any) -> tuple[int, int, bytes]:
    """Start, planned length and pools of a reservation or claim, for comparison."""
    return start, job.planned, hold.vertices.tobytes() if isinstance(hold, GraphHold) else b""
