"""Events as rows: their encoding, the cost of replaying them, and filtering.

An event is JSON, because a journal is read by people and other tools long after the code that wrote it. Only an event of several
pages (a job that gets a hundred thousand cores) is deflated. Each row carries a checksum of its number and body, since a changed
digit would otherwise be a valid event.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.errors import InputError, StoreError

Event = dict[str, Any]

STRUCTURAL: Final = frozenset({"load", "undo", "redo", "apply", "merge", "unlink", "move", "add_edge", "set_edge", "remove_edge"})
"""Events that change the shape: they are stored with a new snapshot and never replayed."""
_TICKS: Final = ("start", "end", "expires", "before")
_ZIP_FROM_BYTES: Final = 4096
_ZIPPED: Final = b"z"
_encode: Final = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, frozen=True):
    """One line of the journal.

    Args:
        seq: its number, counting from 1 in each graph.
        time: when it was written, seconds since 1970.
        command: the command that caused it.
        event: the event as plain values.
        user: who ran the command; empty for events of earlier versions.
    """

    seq: int
    time: float
    command: str
    event: Event
    user: str = ""

    def document(self) -> dict[str, Any]:
        """As plain values, as `fluxres log --json` prints it; the times of the event are ticks."""
        return {"number": self.seq, "time": self.time, "by": self.user or None, "command": self.command, **self.event}


BY: Final = "by"
"""The field of a stored event that names the user who caused it."""


def entry_of(seq: int, time: float, command: str, stored: bytes) -> Entry:
    """A line of the journal from an event as stored.

    Errors: StoreError.
    """
    event = event_of(stored)
    user = event.pop(BY, "")
    return Entry(seq, time, command, event, user if isinstance(user, str) else "")


def load(pools: int, jobs: int, replaced: str | None = None) -> Event:
    """A complete graph is written.

    Args:
        pools, jobs: their numbers in the graph.
        replaced: what is lost of the graph that had its name before, in words.
    """
    event = {"event": "load", "count": pools, "jobs": jobs}
    return event if replaced is None else event | {"replaced": replaced}


def body(event: Event, user: str | None = None) -> bytes:
    """An event as stored, without the other graph of a merge, which the snapshot written with it contains.

    Args:
        user: who caused it.

    >>> body({"event": "release", "stage": "s0"}, "ada")
    b'{"event":"release","stage":"s0","by":"ada"}'
    """
    said = event if user is None else {**event, BY: user}
    return packed(_encode(said if "graph" not in said else {key: value for key, value in said.items() if key != "graph"}))


def packed(raw: bytes) -> bytes:
    """The JSON of an event as stored."""
    return raw if len(raw) < _ZIP_FROM_BYTES else _ZIPPED + zlib.compress(raw, 1)


def text_of(stored: bytes) -> bytes:
    """A stored event as JSON.

    Errors: StoreError.
    """
    try:
        return zlib.decompress(stored[1:]) if stored[:1] == _ZIPPED else stored
    except zlib.error as error:
        raise StoreError(f"unreadable event: {error}") from None


def event_of(stored: bytes) -> Event:
    """A stored event, decoded.

    Errors: StoreError.
    """
    try:
        event: Event = msgspec.json.decode(text_of(stored), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(f"unreadable event: {error}") from None
    return event


@cache
def os_user() -> str:
    """The user that this process runs as: the name, or the number where it has none."""
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return f"uid {os.geteuid()}"


def require_whole(event: Event) -> None:
    """Refuse an event whose ticks, units or slots are not integers within bounds: a document may be handwritten.

    Errors: InputError naming the field.

    >>> require_whole({"event": "allocate", "pools": [["/a", 1]], "start": 0, "end": None})
    """
    for key in _TICKS:
        _require(key, event.get(key), 0, FOREVER)
    _require("slots", event.get("slots"), 1, limits.COUNT_MAX)
    for target in event.get("pools") or ():
        if isinstance(target, list) and len(target) == 2:
            _require("pools", target[1], 1, limits.SIZE_MAX)
    for part in _parts(event):
        require_whole(part)


def _require(key: str, value: object, low: int, high: int) -> None:
    if value is not None and (type(value) is not int or not low <= value <= high):
        got = repr(value) if not isinstance(value, int) or abs(value) < limits.NUMBER_MAX else "a number of more than 300 digits"
        raise InputError(f"{key}: expected a whole number from {low} to {high}, or null, got {got:.60}")


def checksum(seq: int, stored: bytes) -> int:
    return zlib.crc32(stored, seq & 0xFFFFFFFF)


def weight(event: Event) -> int:
    """Roughly how many pools must be looked up to replay it.

    >>> weight({"event": "tag", "pools": ["/a", "/b"]}), weight({"event": "release", "stage": "s0"})
    (2, 1)
    """
    of_parts = sum(map(weight, _parts(event))) if "parts" in event else 1
    return max(1, of_parts, len(event.get("pools") or ()))


def is_structural(events: Iterable[Event]) -> bool:
    return any(event["event"] in STRUCTURAL for event in events)


_GIVE_NOTHING: Final = frozenset(
    ("free", "release", "expire", "renew", "tag", "untag", "state", "reserve", "unreserve", "unlink", "remove_edge", "instance")
)


def gives(event: Event) -> bool:
    """Whether an event may allocate something, or add to what can be allocated.

    >>> gives({"event": "allocate", "job": "j1", "pools": []}), gives({"event": "free", "job": "j1", "pools": None})
    (True, False)
    """
    return event["event"] not in _GIVE_NOTHING


def begins(event: Event) -> int:
    """The first moment, in ticks, of what an event allocates; FOREVER if it allocates nothing.

    >>> begins({"event": "allocate_all", "parts": [{"start": 5}, {"start": 3}]}), begins({"event": "free", "start": 3}) == FOREVER
    (3, True)
    """
    if event["event"] not in ("allocate", "allocate_all", "stage"):
        return FOREVER
    return min(int(part["start"]) for part in _parts(event) or [event]) if "parts" in event else int(event["start"])


def concerns(event: Event, job: str | None, path: str | None) -> bool:
    """Whether an event concerns this job and this pool or one below it; None means any.

    >>> concerns({"event": "allocate", "job": "j1", "pools": [["/demo/rack0", 1]]}, "j1", "/demo")
    True
    """
    if parts := _parts(event):
        return any(concerns(part, job, path) for part in parts)
    if job is not None and event.get("job") != job:
        return False
    if path is None:
        return True
    place = _place(path)
    below = place if place.endswith("/") else place + "/"
    return any(named == place or named.startswith(below) for named in map(_place, _pools(event)))


def _place(name: str) -> str:
    """A name in one form: ``network:/leaf0`` is also written ``network:leaf0``."""
    return name if name.startswith("/") else name.replace(":/", ":", 1)


def _parts(event: Event) -> list[Event]:
    return [part for part in event.get("parts") or () if isinstance(part, dict)]


def _pools(event: Event) -> Iterable[str]:
    for item in event.get("pools") or ():
        yield item if isinstance(item, str) else item[0]
    for key in ("pool", "at", "to", "source", "target"):
        if isinstance(event.get(key), str):
            yield event[key]
