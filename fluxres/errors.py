"""The exceptions of fluxres, and what each means to a shell and to an HTTP client.

There is one tree because callers ask two questions only: *is this fluxres telling me something*
(``except FluxresError``), and *whose move is it now* (the subclass).  Every message names the place,
the value found there and the way out; the parts are kept apart so that commands, pages and JSON can
each show them in their own form.  ``STATUS`` is the only table from error to exit code and HTTP status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class TextPlace(str):
    """``file:line:column: path`` with the line that it points to, which commands show below the message.

    Attributes:
        line, column: from 1.
        text: the line, or the part of a long one around the place.
        offset: of the place in `text`, in characters.
        cut: whether something of the line is missing before and after `text`.
    """

    line = column = offset = 0
    text = ""
    cut = (False, False)


class Mistake(NamedTuple):
    """One thing that is wrong in a document.

    Args:
        where, message, hint: as in the error; `where` is a `TextPlace` if the line is known.
    """

    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text

    def to_dict(self) -> dict[str, Any]:
        """The mistake as plain values; with line, column and text where they are known."""
        place = self.where
        known = {"line": place.line, "column": place.column, "text": place.text} if isinstance(place, TextPlace) else {}
        return {"where": str(place), "message": self.message, "hint": self.hint, **known}


class FluxresError(Exception):
    """Base of all errors that fluxres raises on purpose.

    Args:
        message: what is wrong, with the value found.
        where: the place: a path in a graph, or ``file:line:column: path.in.document``.
        hint: the way out, as a sentence; empty where the message already says it.

    >>> str(FluxresError("expected a whole number of at least 1, got 'four'", where="c.yaml:17:9: racks[0].count"))
    "c.yaml:17:9: racks[0].count: expected a whole number of at least 1, got 'four'"
    """

    code = "error"

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        self.message = message
        self.where = where
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        return str(Mistake(self.where, self.message, self.hint))

    def put_within(self, place: str) -> None:
        """Put a place before the place of the error."""
        self.where = f"{place}: {self.where}" if self.where else place

    def to_dict(self) -> dict[str, Any]:
        """The error as plain values, for ``--json`` and HTTP.

        >>> UnknownJob("no job 'j9'", hint="fluxres jobs lists jobs").to_dict()
        {'error': 'unknown-job', 'message': "no job 'j9'", 'where': '', 'hint': 'fluxres jobs lists jobs'}
        """
        return {"error": self.code, "message": self.message, "where": self.where, "hint": self.hint}


class UsageError(FluxresError):
    """An argument that is wrong in every state: a negative amount, an unknown state, a window that ends before it begins."""

    code = "usage"


class InputError(FluxresError):
    """A document, a criteria text or a name that cannot be read.

    ``message``, ``where`` and ``hint`` are those of the first mistake. ``mistakes`` are all, in the order of the lines, up to
    `limits.MISTAKES_MAX`; ``unlisted`` is the number of the others, of which ``is_all`` says whether all were looked for.

    >>> error = InputError.of([Mistake("m.yaml:2:3", "unknown key 'cuont'"), Mistake("m.yaml:7:3", "expected text, got 5")])
    >>> print(error)
    m.yaml:2:3: unknown key 'cuont'
    m.yaml:7:3: expected text, got 5
    """

    code = "input"
    unlisted = 0
    is_all = True
    _all: tuple[Mistake, ...] = ()

    @classmethod
    def of(cls, mistakes: Sequence[Mistake], unlisted: int = 0, *, is_all: bool = True) -> InputError:
        """The error of a document with these mistakes, at least one."""
        first = mistakes[0]
        error = cls(first.message, where=first.where, hint=first.hint)
        error._all, error.unlisted, error.is_all = tuple(mistakes), unlisted, is_all
        return error

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        return self._all or (Mistake(self.where, self.message, self.hint),)

    def put_within(self, place: str) -> None:
        """Put a place before the places of all mistakes."""
        super().put_within(place)
        self._all = tuple(each._replace(where=f"{place}: {each.where}" if each.where else place) for each in self._all)

    def __str__(self) -> str:
        more = [f"and {'' if self.is_all else 'at least '}{self.unlisted} more mistake{'s' * (self.unlisted > 1)}"] * (
            self.unlisted > 0
        )
        return "\n".join([*map(str, self.mistakes), *more])

    def to_dict(self) -> dict[str, Any]:
        more = {"unlisted": self.unlisted} if self.unlisted else {}
        return {**super().to_dict(), "mistakes": [mistake.to_dict() for mistake in self.mistakes], **more}


class LimitExceeded(InputError):
    """Input beyond a bound of :mod:`fluxres.limits`."""

    code = "limit"


class ErrorPlace:
    """Context in which an InputError, such as one of a smaller language, gets its place in the document.

    Args:
        where: the place, or a function that finds it; called only for an error.
        inner: put it before the place that the error has, instead of replacing that.

    >>> with ErrorPlace("n.conf:3", inner=True):
    ...     raise InputError("expected a number", where="pool:7")
    Traceback (most recent call last):
    fluxres.errors.InputError: n.conf:3: pool:7: expected a number
    """

    __slots__ = ("_inner", "_where")

    def __init__(self, where: str | Callable[[], str], *, inner: bool = False) -> None:
        self._where, self._inner = where, inner

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, InputError):
            where = self._where if isinstance(self._where, str) else self._where()
            where = _within(where, error.where) if self._inner else where
            raise type(error)(error.message, where=where, hint=error.hint) from None


def _within(outer: str, inner: str) -> str:
    """`inner` in a text that is at `outer`, whose line is the line of both."""
    where = TextPlace(f"{outer}: {inner}")
    vars(where).update(vars(outer) if isinstance(outer, TextPlace) else {})
    return where if isinstance(outer, TextPlace) else str(where)


class InputWarning(UserWarning):
    """What a document says and its reader left out, or read differently than it is written; the machine was read nevertheless."""


class UnknownPool(FluxresError):
    """No pool has this path, URI, uuid or vertex number."""

    code = "unknown-pool"


class UnknownJob(FluxresError):
    """No job of this id holds anything."""

    code = "unknown-job"


class UnknownGraph(FluxresError):
    """No graph, subsystem or hierarchy of this name.

    Args:
        graph: the name, if it is that of a graph in a store.
    """

    code = "unknown-graph"

    def __init__(self, message: str, *, where: str = "", hint: str = "", graph: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.graph = graph

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"graph": self.graph} if self.graph else {})


class NotHeld(FluxresError):
    """A free or shrink of what the job does not hold; nothing was changed (rule A6)."""

    code = "not-held"


class HoldLapsed(FluxresError):
    """The job that a graph was copied for does not hold all of it any more; nothing was changed (rule N1)."""

    code = "hold-lapsed"


class StaleHandle(FluxresError):
    """A pool, view, match or stage made before the graph changed its structure, or already released."""

    code = "stale"


class MergeConflict(FluxresError):
    """Two graphs that cannot become one without inventing or losing something (rule M1)."""

    code = "merge-conflict"


class StillHeld(FluxresError):
    """A structural change that would take resources away from a job.

    Args:
        jobs: all jobs in the way, where there may be several.
    """

    code = "still-held"

    def __init__(self, message: str, *, where: str = "", hint: str = "", jobs: Sequence[str] = ()) -> None:
        super().__init__(message, where=where, hint=hint)
        self.jobs = tuple(jobs)

    def to_dict(self) -> dict[str, Any]:
        """As :meth:`FluxresError.to_dict`, with the jobs if they were counted."""
        return super().to_dict() | ({"jobs": list(self.jobs)} if self.jobs else {})


class InsufficientResources(FluxresError):
    """Not now: the pools exist and are held, down or staged.

    Args:
        earliest: the first time in seconds at which it would succeed, or None when not known.
        reasons: by path, what is in the way.
        explanation: what the message and the reasons were made from, a `Refusal` or a `Shortage`, to word it in another way.
    """

    code = "insufficient"

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        earliest: float | None = None,
        reasons: Mapping[str, str] | None = None,
        explanation: object = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.earliest = earliest
        self.explanation = explanation
        self.reasons = dict(reasons or {})

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "earliest": self.earliest, "reasons": self.reasons}


class InfeasibleRequest(FluxresError):
    """Never: no state of this graph could satisfy it.

    Args:
        reasons: by path or by part of the request, what rules it out.
        explanation: as for InsufficientResources.
    """

    code = "infeasible"

    def __init__(
        self,
        message: str,
        *,
        where: str = "",
        hint: str = "",
        reasons: Mapping[str, str] | Sequence[str] = (),
        explanation: object = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.explanation = explanation
        self.reasons = reasons if isinstance(reasons, Mapping) else list(reasons)

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "reasons": self.reasons}


class UnknownType(InfeasibleRequest, UsageError):
    """A request for pools of a type that the machine does not have, usually a mistake.

    It is an InfeasibleRequest, so code that handles requests that can never be satisfied handles it as well. A command ends with
    the status of a UsageError.
    """

    code = "unknown-type"


class NothingHeld(InfeasibleRequest, UsageError):
    """A request that only asks for shared pools, so that nothing would be recorded for it, usually a mistake.

    It is an InfeasibleRequest as well, like UnknownType.
    """

    code = "nothing-held"


class NotInAccounting(InfeasibleRequest, UsageError):
    """A job names a partition, a QOS or an account that the accounting of its instance does not list, usually a mistake.

    It is both, as an UnknownType is.
    """

    code = "not-in-accounting"


class PolicyError(FluxresError):
    """A queue policy that raised, did what a policy cannot do, did not end, or started nothing; the instance is whole."""

    code = "policy"


class ListenerError(FluxresError):
    """A listener or a sink that raised: an instance has done the work of the call, and is whole; a simulation has ended."""

    code = "listener"


class RunFailed(FluxresError):
    """A part of what was run failed or was lost; the results of the rest are valid."""

    code = "failed"


class StoreError(FluxresError):
    """The store cannot be read or written: missing, damaged, no space, wrong version."""

    code = "store"


class StoreBusy(StoreError):
    """Another process holds the store's lock, and the time to wait for it ran out."""

    code = "store-busy"


class StoreConflict(StoreError):
    """The store moved on since this graph was loaded from it; nothing was written."""

    code = "store-conflict"


class RevisionConflict(StoreConflict):
    """The graph is not at the revision that a conditional change names; nothing was changed.

    Attributes:
        is_for_store: whether to decide on the store itself, and not through the server that leads it.
    """

    code = "revision"
    is_for_store = False


class InDoubt(StoreError):
    """The answer to a change was lost: it may or may not have been made."""

    code = "in-doubt"


class Unavailable(StoreError):
    """This cannot be answered now, and nothing was changed: the service is stopping, is overloaded, or a query took too long.

    Args:
        retry_after_s: seconds after which it may.
    """

    code = "unavailable"

    def __init__(self, message: str, *, where: str = "", hint: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message, where=where, hint=hint)
        self.retry_after_s = retry_after_s


class StoreUnreachable(Unavailable):
    """The server of a store cannot be reached, or did not answer in time; nothing was changed."""

    code = "store-unreachable"


class NotLeader(Unavailable):
    """A standby server does not change the store that another one leads; nothing was changed.

    Args:
        leader: URL of that one; empty if it is not known.
    """

    code = "not-leader"

    def __init__(self, message: str, *, where: str = "", hint: str = "", retry_after_s: int = 1, leader: str = "") -> None:
        super().__init__(message, where=where, hint=hint, retry_after_s=retry_after_s)
        self.leader = leader

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({"leader": self.leader} if self.leader else {})


class RateExceeded(Unavailable):
    """A token sent more requests a second than it may; this one was not looked at."""

    code = "rate"


class ServiceFault(StoreError):
    """An internal error of the service; its log has the details."""

    code = "fault"


class Unauthorized(FluxresError):
    """A request to the service without a token, or with one that it does not know."""

    code = "unauthorized"


class Forbidden(FluxresError):
    """A request to the service that the token does not allow: its role, its graphs or its part of the machine."""

    code = "forbidden"


class KeyReused(FluxresError):
    """An idempotency key that was sent before with another request."""

    code = "key-reused"


#: error class -> (exit status of the commands, HTTP status of the service)
STATUS: dict[type[FluxresError], tuple[int, int]] = {
    FluxresError: (2, 400),
    UsageError: (2, 400),
    InputError: (2, 422),
    LimitExceeded: (2, 413),
    UnknownPool: (2, 404),
    UnknownJob: (2, 404),
    UnknownGraph: (2, 404),
    NotHeld: (2, 409),
    HoldLapsed: (2, 409),
    StaleHandle: (2, 409),
    MergeConflict: (2, 409),
    StillHeld: (1, 409),
    InsufficientResources: (1, 409),
    InfeasibleRequest: (3, 422),
    UnknownType: (2, 422),
    NothingHeld: (2, 422),
    NotInAccounting: (2, 422),
    PolicyError: (2, 422),
    ListenerError: (2, 422),
    RunFailed: (5, 500),
    StoreError: (4, 500),
    StoreBusy: (4, 503),
    StoreConflict: (4, 409),
    RevisionConflict: (4, 412),
    InDoubt: (4, 503),
    Unavailable: (4, 503),
    StoreUnreachable: (4, 503),
    NotLeader: (4, 503),
    RateExceeded: (4, 429),
    ServiceFault: (4, 500),
    Unauthorized: (2, 401),
    Forbidden: (2, 403),
    KeyReused: (2, 409),
}


def exit_status(error: FluxresError) -> int:
    """The exit status of a command that ends with this error (design: 0 done, 1 not now, 2 input, 3 never, 4 store).

    >>> exit_status(InsufficientResources("none free"))
    1
    """
    return STATUS[type(error)][0]
