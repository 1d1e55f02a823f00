"""A job of an instance, its id, and what its runner and the queue policies use of that instance.

A job is a single object with slots, because a million jobs may wait at once.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from fluxres.clock import FOREVER, Clock, seconds
from fluxres.errors import FluxresError, LimitExceeded, UsageError
from fluxres.instance.charged import NOBODY, Charged
from fluxres.instance.states import State
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from threading import RLock

    from fluxres.instance.accounting import Accounting
    from fluxres.instance.inventory import Ask, Claim, Hold, Inventory
    from fluxres.instance.sizes import Option, Sizes
    from fluxres.model import ResourceGraph
    from fluxres.syntax.jobspec import Request


URGENCY_DEFAULT: Final = 16
URGENCY_HELD: Final = 0
URGENCY_EXPEDITED: Final = 31
"""The range of urgencies, which users set (Flux RFC 30)."""
PRIORITY_MIN: Final = 0
PRIORITY_MAX: Final = 4_294_967_295
"""The range of priorities, by which the queue is sorted (Flux RFC 30)."""

AFTER: Final = "after"
ANY: Final = "afterany"
OK: Final = "afterok"
NOT_OK: Final = "afternotok"
SINGLETON: Final = "singleton"
BEGIN: Final = "begin-time"
NEVER: Final = "can never start: "
"""The beginning of `Job.limit_reached` if no end of other jobs would let it start."""

SCHEMES: Final = (AFTER, "afterstart", ANY, OK, NOT_OK, SINGLETON, BEGIN)
"""The schemes of dependencies (Flux RFC 26)."""


def require_urgency(urgency: int) -> int:
    """Return a valid urgency.

    Errors: UsageError outside 0 to 31.

    >>> require_urgency(16)
    16
    """
    if isinstance(urgency, bool) or not isinstance(urgency, int) or not URGENCY_HELD <= urgency <= URGENCY_EXPEDITED:
        raise UsageError(
            f"urgency: expected a whole number from {URGENCY_HELD} (held) to {URGENCY_EXPEDITED}, got {urgency!r:.80}"
        )
    return urgency


def fixed_priority(urgency: int) -> int | None:
    """The priority of held and expedited jobs, which does not depend on the policy: the lowest or highest; else None.

    >>> fixed_priority(0), fixed_priority(16), fixed_priority(31)
    (0, None, 4294967295)
    """
    if urgency == URGENCY_EXPEDITED:
        return PRIORITY_MAX
    return PRIORITY_MIN if urgency == URGENCY_HELD else None


class JobId(int):
    """A job id: an integer that prints as F58 (RFC 19).

    >>> JobId(1234), f"{JobId(1234)}", JobId(1234) + 1
    (ƒNH, 'ƒNH', 1235)
    """

    __slots__ = ()

    def __str__(self) -> str:
        return fluid.encode(int(self))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class JobEvent(NamedTuple):
    """One event of a job's log (RFC 18, RFC 21)."""

    timestamp: float
    name: str
    context: dict[str, Any]


class Failure(NamedTuple):
    """An exception of a job (RFC 21): its type, its severity (0 is fatal) and a note."""

    type: str
    severity: int
    note: str


class Dependency(NamedTuple):
    """A scheme and its value: a job number, a time in ticks (begin-time), or 0 (singleton)."""

    scheme: str
    value: int = 0

    def __str__(self) -> str:
        if self.scheme == SINGLETON:
            return self.scheme
        return f"{self.scheme}:{self.value / 1e6 if self.scheme == BEGIN else fluid.encode(self.value)}"


class Limiter(Protocol):
    """The accounting of an instance and its counts, as jobs and policies see them; it is a `ledger.Ledger`."""

    rules: Accounting

    def obstacle(self, job: Job) -> object | None:
        """The limit that does not let a waiting job start now; None if all do."""

    def reason(self, job: Job) -> str:
        """The same in words, and whether it never does; empty if all do."""

    def may_grow(self, job: Job, units: int) -> bool:
        """Whether all limits let a running job have more units."""

    def qos_factor(self, charged: Charged) -> float: ...

    def partition_factor(self, charged: Charged) -> float: ...

    def association_factor(self, charged: Charged) -> float: ...


class Scheduler(Protocol):
    """The instance of a job, as the job, its runner and the queue policies see it; it is an `Instance`."""

    clock: Clock
    inventory: Inventory
    lock: RLock

    @property
    def is_closed(self) -> bool: ...

    @property
    def now(self) -> int:
        """In ticks; it does not change while due events are handled, nor during a pass."""
        ...

    @property
    def expires_at(self) -> float | None: ...

    def freed_from(self, job: Job) -> int:
        """From when on others have freed everything that a job holds, in ticks; FOREVER if they have not."""
        ...

    @property
    def limiter(self) -> Limiter | None: ...

    @property
    def address(self) -> str: ...

    @property
    def graph(self) -> ResourceGraph: ...

    def finish(self, job: AnyJob, status: int = 0) -> None: ...

    def exception(self, job: AnyJob, kind: str, severity: int = 0, note: str = "") -> None: ...


class Job:
    """A job of an instance.

    Args:
        number: its id.
        duration: the longest it may run, in ticks; FOREVER without a limit.
        payload: for the runner; the instance never reads it.
        charged: to whom it is charged; by default to its user.

    Attributes that end in `_at` or `_s` are in seconds, and None while unknown.
    """

    __slots__ = (
        "_requested",
        "ask",
        "charged",
        "child",
        "claim",
        "dependencies",
        "duration",
        "ended",
        "events",
        "exceptions",
        "instance",
        "is_booking",
        "is_requeued",
        "limit",
        "name",
        "number",
        "payload",
        "planned",
        "priority",
        "request",
        "reserved",
        "sizes",
        "started",
        "state",
        "status",
        "submitted",
        "urgency",
        "user",
    )

    def __init__(
        self,
        instance: Scheduler,
        number: int,
        request: Request,
        duration: int,
        submitted: int,
        urgency: int,
        name: str | None,
        user: str | None,
        payload: Any,
        charged: Charged | None = None,
    ) -> None:
        self.charged = charged if charged is not None else Charged(user) if user is not None else NOBODY
        self.instance = instance
        self.number = number
        self.request = request
        self.duration = duration
        self.planned = duration
        """The length that policies plan with, in ticks; at most the duration."""
        self.submitted = submitted
        self.urgency = urgency
        self.name = name
        self.user = user
        self.payload = payload
        self.priority = 0
        self.state = State.NEW
        self.ask: Ask = None
        self.claim: Claim = None
        self.reserved = -1
        self.started = -1
        self.limit = FOREVER
        """Until when it is planned to hold its resources; its limit, unless a shorter run is planned."""
        self.ended = -1
        self.status = 0
        self.is_booking = False
        """Whether it is an advance reservation, which lasts even if its pools fail."""
        self.is_requeued = False
        """Whether it is being stopped, and will wait again."""
        self.sizes: Sizes | None = None
        """The sizes that it may have, if it is moldable or malleable."""
        self.child: Scheduler | None = None
        self.dependencies: tuple[Dependency, ...] = ()
        self.exceptions: tuple[Failure, ...] = ()
        self.events: list[JobEvent] | None = None
        self._requested: tuple[str, int] | None = None
        """A type, and the units of it that the request is for."""

    @property
    def id(self) -> JobId:
        return JobId(self.number)

    @property
    def account(self) -> str | None:
        return self.charged.account

    @property
    def qos(self) -> str | None:
        return self.charged.qos

    @property
    def partition(self) -> str | None:
        """The partition or queue that it names, or that the accounting of the instance gives it."""
        return self.charged.partition

    @property
    def limit_reached(self) -> str:
        """The limit that does not let a waiting job start now, such as `user ann: max_jobs is 2`; empty if all do.

        It begins with `NEVER` if no end of other jobs would let this one start.
        """
        limiter = self.instance.limiter
        if limiter is None or self.state is not State.SCHED:
            return ""
        with self.instance.lock:
            return limiter.reason(self)

    @property
    def size(self) -> int:
        """The units that the job holds, has reserved ahead or requests at least, of the type in which its instance measures."""
        inventory = self.instance.inventory
        held = self._ahead if self.claim is None else self.claim
        if held is not None:
            return inventory.count(held)
        measure = inventory.measure
        if self._requested is None or self._requested[0] != measure:
            self._requested = measure, inventory.requested(self.request)
        return self._requested[1]

    def take(self, option: Option) -> None:
        """Have this size from now on; for a job without resources and without a reservation, or with resources of this size."""
        assert self.sizes is not None  # it is one of them
        self.sizes.chosen = option
        self.request, self.duration, self.ask = option.request, option.duration, option.ask
        self.planned = self.duration
        self._requested = None

    def waited_s(self, now_s: float) -> float:
        """How long the job has waited by a moment, since its submission."""
        return now_s - seconds(self.submitted)

    @property
    def duration_s(self) -> float:
        """The duration requested; infinity for no limit."""
        return seconds(self.duration)

    @property
    def planned_s(self) -> float:
        """How long it is planned to run: the duration, or what is predicted; infinity for no limit."""
        return seconds(self.planned)

    @property
    def last_end(self) -> int:
        """When a started job reaches its limit, in ticks; it may outlive a shorter run that is planned."""
        return self.limit if self.planned >= self.duration else min(self.started + self.duration, FOREVER)

    @property
    def submitted_at(self) -> float:
        return seconds(self.submitted)

    @property
    def _ahead(self) -> Hold | None:
        """What is reserved ahead for a job that has not begun; None for other jobs."""
        return self.instance.inventory.ahead.get(self.number) if self.is_booking and self.claim is None else None

    @property
    def reserved_at(self) -> float | None:
        """The start that is reserved for the job while it is pending; None if its instance ends before."""
        ahead, last = self._ahead, self.instance.expires_at
        start = _known(self.reserved if ahead is None else ahead.start)
        return None if start is None or (last is not None and start >= last) else start

    @property
    def started_at(self) -> float | None:
        return _known(self.started)

    @property
    def ends_at(self) -> float | None:
        """When a started job, or an advance reservation, ends at the latest: at its limit, with its instance, or at the moment
        from which others have freed all that it holds; infinity for none of these. When it ended, for a job that has."""
        if self.state is State.INACTIVE:
            return None if self.started < 0 else self.finished_at
        ahead = self._ahead
        if self.started < 0 and ahead is None:
            return None
        end = seconds(min(self.last_end, self.instance.freed_from(self)) if ahead is None else ahead.end)
        last = self.instance.expires_at
        return end if last is None else min(end, last)

    @property
    def finished_at(self) -> float | None:
        """When the job became inactive."""
        return _known(self.ended)

    @property
    def pools(self) -> list[tuple[str, int]]:
        """The paths and units of the pools that the job holds, or has reserved ahead; pools below an exclusive one are implied.

        Empty before other jobs start, and after a job has ended.
        """
        with self.instance.lock:  # also to read: records of many pools are written when somebody looks at them
            held = self.claim if self.claim is not None else self._ahead
            if held is None or self.state is State.INACTIVE:
                return []
            return self.instance.inventory.pools(held)

    @property
    def result(self) -> str | None:
        """completed, failed, canceled or timeout; None before the job is inactive."""
        if self.state is not State.INACTIVE:
            return None
        fatal = next((failure.type for failure in self.exceptions if failure.severity == 0), None)
        if fatal is None:
            return "failed" if self.status else "completed"
        return {"cancel": "canceled", "timelimit": "timeout"}.get(fatal, "failed")

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.name or ''}{' ' if self.name else ''}{self.state.name}>"


AnyJob = Job | JobId | int | str
"""A job, or its id in any form of RFC 19."""


def _known(tick: int) -> float | None:
    return None if tick < 0 else seconds(tick)


_SEQUENCES: Final = 1 << 10
_MOMENTS: Final = 1 << 40
"""The timestamp field of an id has 40 bits of milliseconds."""


class JobIds:
    """The ids of the jobs of one instance (RFC 19), unique among all instances that schedule one graph, because they name jobs in
    its records.  Each instance uses its own value of the generator field.

    Args:
        epoch: the origin of timestamps, in ticks.

    Errors: LimitExceeded if all generator values are in use for the graph.
    """

    def __init__(self, graph: ResourceGraph, epoch: int) -> None:
        self.epoch = epoch
        self._last = (-1, 0)
        with graph.lock:
            self._used = _USED.setdefault(graph, WeakValueDictionary())
            free = (number for number in range(1 << fluid.GENERATOR_BITS) if number not in self._used)
            self._generator = next(free, -1)
            if self._generator < 0:
                message = f"{1 << fluid.GENERATOR_BITS} instances schedule this graph"
                raise LimitExceeded(message, hint="close some of them")
            self._used[self._generator] = self

    @property
    def state(self) -> tuple[int, int, int, int]:
        """What later ids depend on: the generator value, the epoch, and the last moment and sequence number."""
        return self._generator, self.epoch, *self._last

    def resume(self, state: tuple[int, int, int, int]) -> None:
        """Go on where those of an earlier instance ended. Errors: LimitExceeded if others have its generator value."""
        generator, epoch, moment, sequence = state
        if self._used.get(generator, self) is not self:
            raise LimitExceeded("another instance on this graph makes the same job ids", hint="close it")
        self.release()
        self._generator, self.epoch, self._last = generator, epoch, (moment, sequence)
        self._used[generator] = self

    def release(self) -> None:
        """Free the generator value, because the instance is closed."""
        if self._used.get(self._generator) is self:
            del self._used[self._generator]

    def new(self, now: int, taken: Container[str]) -> int:
        """The next id.

        Args:
            taken: names in use by jobs of others in the graph.

        Errors: UsageError more than 34 years after the epoch.
        """
        moment, sequence = (now - self.epoch) // 1000, 0
        last, used = self._last
        if moment <= last:
            moment, sequence = (last, used + 1) if used + 1 < _SEQUENCES else (last + 1, 0)
        if moment >= _MOMENTS:
            years = "job ids (RFC 19) have no room for more than 34 years since the instance began"
            raise UsageError(f"clock: {years}", hint="make a new instance, or set the clock right")
        self._last = (moment, sequence)
        made: int = moment << 24 | self._generator << 10 | sequence
        return self.new(now, taken) if taken and fluid.encode(made) in taken else made

    def is_issued(self, name: str) -> bool:
        """Whether this may be the id of a job of the instance, past or present."""
        try:
            number = fluid.decode(name)
        except FluxresError:
            return False
        parts = fluid.split(number)
        is_own = fluid.encode(number) == name and parts.generator == self._generator
        return is_own and (parts.timestamp_ms, parts.sequence) <= self._last


_USED: Final[WeakKeyDictionary[ResourceGraph, WeakValueDictionary[int, JobIds]]] = WeakKeyDictionary()
"""By graph, the generator values in use."""
