"""A job as an instance knows it: one object with slots, because a million of them may wait at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fluxres.clock import FOREVER, seconds
from fluxres.instance.states import State
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.dependencies import Dependency
    from fluxres.instance.instance import Instance
    from fluxres.instance.inventory import Ask, Claim
    from fluxres.syntax.jobspec import Request


class JobId(int):
    """A job id: a number that is shown as F58 (RFC 19).

    >>> JobId(1234), f"{JobId(1234)}", JobId(1234) + 1
    (ƒNH, 'ƒNH', 1235)
    """

    __slots__ = ()

    def __str__(self) -> str:
        return fluid.encode(int(self))

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class Event(NamedTuple):
    """One event of a job's log (RFC 18, RFC 21)."""

    timestamp: float
    name: str
    context: dict[str, Any]


class Failure(NamedTuple):
    """An exception of a job: its type, its severity (0 is fatal) and what there is to say."""

    type: str
    severity: int
    note: str


class Job:
    """A job of an instance.

    Args:
        number: id.
        request: what it asks for; `duration` in ticks, FOREVER without a limit.
        payload: whatever the runner needs; the instance never looks at it.

    What ends in `_at` or `_s` is in seconds, and None while it is not known.
    """

    __slots__ = (
        "ask",
        "child",
        "claim",
        "dependencies",
        "duration",
        "ended",
        "events",
        "exceptions",
        "instance",
        "limit",
        "name",
        "number",
        "payload",
        "priority",
        "request",
        "reserved",
        "started",
        "state",
        "status",
        "submitted",
        "urgency",
        "user",
    )

    def __init__(
        self,
        instance: Instance,
        number: int,
        request: Request,
        duration: int,
        submitted: int,
        urgency: int,
        name: str | None,
        user: str | None,
        payload: Any,
    ) -> None:
        self.instance = instance
        self.number = number
        self.request = request
        self.duration = duration
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
        self.ended = -1
        self.status = 0
        self.child: Instance | None = None
        self.dependencies: tuple[Dependency, ...] = ()
        self.exceptions: tuple[Failure, ...] = ()
        self.events: list[Event] | None = None

    @property
    def id(self) -> JobId:
        """The id."""
        return JobId(self.number)

    @property
    def duration_s(self) -> float:
        """Seconds asked for; infinity for no limit."""
        return seconds(self.duration)

    @property
    def submitted_at(self) -> float:
        """When it came."""
        return seconds(self.submitted)

    @property
    def reserved_at(self) -> float | None:
        """The start that is reserved for it while it waits."""
        return _known(self.reserved)

    @property
    def started_at(self) -> float | None:
        """When it was given its resources."""
        return _known(self.started)

    @property
    def ends_at(self) -> float | None:
        """When its limit comes; infinity for never."""
        return None if self.started < 0 else seconds(self.limit)

    @property
    def finished_at(self) -> float | None:
        """When it became inactive."""
        return _known(self.ended)

    @property
    def pools(self) -> list[tuple[str, int]]:
        """What it holds: paths of pools and units, as far as it is recorded; what is below a whole pool is implied.

        Empty before it starts and after it has ended: what it had may have another number, or be gone, by then.
        """
        if self.claim is None or self.state is State.INACTIVE:
            return []
        return self.instance.inventory.pools(self.claim)

    @property
    def result(self) -> str | None:
        """How it ended: completed, failed, canceled or timeout; None while it has not."""
        if self.state is not State.INACTIVE:
            return None
        fatal = next((failure.type for failure in self.exceptions if failure.severity == 0), None)
        if fatal is None:
            return "failed" if self.status else "completed"
        return {"cancel": "canceled", "timelimit": "timeout"}.get(fatal, "failed")

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.name or ''}{' ' if self.name else ''}{self.state.name}>"


def _known(tick: int) -> float | None:
    return None if tick < 0 else seconds(tick)
