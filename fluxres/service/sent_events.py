"""Checks the events that a command sends (`POST /events`): unlike those in a journal, they may have any form and content."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from fluxres import limits
from fluxres.allocation.facts import Launch
from fluxres.clock import FOREVER
from fluxres.errors import InputError, UsageError
from fluxres.model import ResourceGraph, targets

Tick = Annotated[int, msgspec.Meta(ge=0, le=FOREVER)]
Units = Annotated[int, msgspec.Meta(ge=1, le=limits.SIZE_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=limits.COUNT_MAX)]
Held = list[tuple[str, Units]]
Named = Annotated[list[str], msgspec.Meta(min_length=1)]


class _About(msgspec.Struct, kw_only=True):
    """What is known about a job."""

    job: str
    user: str | None = None
    name: str | None = None
    submitted: Tick | None = None
    launch: Launch | None = None


class _Part(_About, kw_only=True):
    pools: Held
    start: Tick
    end: Tick | None
    slots: Count | None = None
    drawn: list[tuple[str, Held]] = []
    variant: Count | None = None


class _Allocate(_Part, kw_only=True, tag_field="event", tag="allocate"):
    pass


class _AllocateAll(msgspec.Struct, tag_field="event", tag="allocate_all"):
    parts: Annotated[list[_Part], msgspec.Meta(min_length=1)]


class _Free(msgspec.Struct, tag_field="event", tag="free"):
    job: str
    pools: list[tuple[str, Units | None]] | None
    start: Tick | None
    end: Tick | None
    slots: Count | None = None
    implied: bool = False
    reason: str | None = None


class _SetEnd(msgspec.Struct, tag_field="event", tag="set_end"):
    job: str
    start: Tick
    end: Tick | None


class _Expire(msgspec.Struct, tag_field="event", tag="expire"):
    before: Tick


class _Stage(_Part, kw_only=True, tag_field="event", tag="stage"):
    stage: str
    expires: Tick | None
    apart: list[tuple[Tick, Tick | None, str, str, Units]] = []
    relied_on: list[tuple[str, Tick, Tick | None]] = []


class _Commit(msgspec.Struct, tag_field="event", tag="commit"):
    stage: str


class _Release(msgspec.Struct, tag_field="event", tag="release"):
    stage: str


class _State(msgspec.Struct, tag_field="event", tag="state"):
    pools: Named
    state: str
    reason: str | None = None
    user: str | None = None
    since: Tick | None = None


class _Tag(msgspec.Struct, tag_field="event", tag="tag"):
    pools: Named
    key: str
    value: str | None


class _Untag(msgspec.Struct, tag_field="event", tag="untag"):
    pools: Named
    key: str


class _Reserve(_About, kw_only=True, tag_field="event", tag="reserve"):
    pools: Named
    windows: Annotated[list[tuple[Tick, Tick]], msgspec.Meta(min_length=1, max_length=limits.RESERVATION_WINDOWS_MAX)]
    ignores_jobs: bool
    held: list[tuple[Tick, Tick | None, Held]]
    affected: list[str] = []


class _Unreserve(msgspec.Struct, tag_field="event", tag="unreserve"):
    job: str


class _Unlink(msgspec.Struct, tag_field="event", tag="unlink"):
    pool: str
    hierarchy: str | None
    removed: Count


class _Move(msgspec.Struct, tag_field="event", tag="move"):
    pool: str
    to: str


class _Edge(msgspec.Struct, kw_only=True):
    subsystem: str
    source: str
    target: str
    relation: str


class _AddEdge(_Edge, kw_only=True, tag_field="event", tag="add_edge"):
    attributes: dict[str, Any]
    hierarchy: bool | None


class _SetEdge(_Edge, kw_only=True, tag_field="event", tag="set_edge"):
    attributes: dict[str, Any]


class _RemoveEdge(_Edge, kw_only=True, tag_field="event", tag="remove_edge"):
    pass


_Event = (
    _Allocate
    | _AllocateAll
    | _Free
    | _SetEnd
    | _Expire
    | _Stage
    | _Commit
    | _Release
    | _State
    | _Tag
    | _Untag
    | _Reserve
    | _Unreserve
    | _Unlink
    | _Move
    | _AddEdge
    | _SetEdge
    | _RemoveEdge
)
OF_ADMINS: Final = frozenset(("state", "reserve", "unreserve", "unlink", "move", "add_edge", "set_edge", "remove_edge"))
_OF_SCHEDULERS: Final = frozenset(
    ("allocate", "allocate_all", "free", "set_end", "stage", "commit", "release", "expire", "tag", "untag")
)


def require_form(event: dict[str, Any]) -> None:
    """Errors: UsageError for an event that cannot be sent; InputError for one without the form of its kind."""
    kind = event.get("event")
    if not isinstance(kind, str) or kind not in _OF_SCHEDULERS | OF_ADMINS:
        raise UsageError(f"event {kind!r:.40} cannot be sent", hint=f"those that can are {', '.join(sorted(_OF_SCHEDULERS))}")
    try:
        found = msgspec.convert(event, _Event)
    except msgspec.ValidationError as error:
        raise InputError(f"event '{kind}': {error}") from None
    for one in found.parts if isinstance(found, _AllocateAll) else [found]:
        if (job := getattr(one, "job", None)) is not None:
            targets.job_id(job)
    if isinstance(found, _Reserve):
        moments = [moment for window in found.windows for moment in window]
        if any(before >= after for before, after in found.windows) or moments != sorted(moments):
            raise InputError(f"event '{kind}': expected windows one after the other, each with its end after its start")


def require_reservable(graph: ResourceGraph, event: dict[str, Any]) -> None:
    """Refuse a reservation that names a pool twice, or holds something outside of its pools and windows.

    Errors: UsageError; UnknownPool.
    """
    structure, accounts = graph.structure, graph.structure.accounts
    tops = [structure.vertex(where) for where in event["pools"]]
    if len(set(tops)) < len(tops):
        raise UsageError("a pool is named twice", where=f"reservation '{event['job']}'", hint="name each pool once")
    tops += [structure.vertex(where) for where in event.get("affected", ())]
    windows = [(start, end) for start, end in event["windows"]]
    for start, end, held in event["held"]:
        if not any(begin <= start and (end is not None and end <= until) for begin, until in windows):
            raise UsageError("holds something outside of its windows", where=f"reservation '{event['job']}'")
        numbers = [accounts.number(where) for where, _ in held]
        if len(set(numbers)) < len(numbers):
            raise UsageError("holds a pool twice in a window", where=f"reservation '{event['job']}'")
        for v in numbers:
            if not any(top <= v < structure.end.item(top) for top in tops):
                raise UsageError("is no part of what is reserved", where=accounts.where(v), hint="name it among the pools")
