"""Requests and answers of etcd's API as JSON: keys and values are base64 (of msgspec), whole numbers may be texts."""

from __future__ import annotations

from typing import Any, Final

import msgspec

Operation = dict[str, Any]
Comparison = dict[str, Any]


class Header(msgspec.Struct):
    """The revision of the store when it answered."""

    revision: int = 0


class KeyValue(msgspec.Struct):
    """A key.

    Attributes:
        create_revision, mod_revision: of the store when the key was made, and when it was last put.
    """

    key: bytes
    value: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0


class Found(msgspec.Struct):
    """The answer to a range."""

    header: Header = msgspec.field(default_factory=Header)
    kvs: list[KeyValue] = msgspec.field(default_factory=list)
    count: int = 0
    more: bool = False


class Answer(msgspec.Struct):
    """The answer to an operation of a transaction; only that of a range matters."""

    response_range: Found = msgspec.field(default_factory=Found)


class Outcome(msgspec.Struct):
    """The answer to a transaction.

    Attributes:
        may_be_second: whether the same transaction was sent before, and its answer was lost.
    """

    header: Header = msgspec.field(default_factory=Header)
    succeeded: bool = False
    responses: list[Answer] = msgspec.field(default_factory=list)
    may_be_second: bool = False

    def found(self, number: int) -> Found:
        """What the range at this place of the operations found."""
        return self.responses[number].response_range

    def one(self, number: int) -> KeyValue | None:
        """The first key that it found."""
        kvs = self.found(number).kvs
        return kvs[0] if kvs else None


class Lease(msgspec.Struct):
    """A granted or renewed lease; without a time to live it does not exist any more."""

    id: int = msgspec.field(default=0, name="ID")
    ttl: int = msgspec.field(default=0, name="TTL")


class Renewal(msgspec.Struct):
    """The answer to a renewal."""

    result: Lease = msgspec.field(default_factory=Lease)


class Token(msgspec.Struct):
    """The answer to a user and a password."""

    token: str = ""


class Alarm(msgspec.Struct):
    """What is wrong with a server: NOSPACE or CORRUPT."""

    alarm: str = "NONE"


class Alarms(msgspec.Struct):
    """The answer to a question for alarms."""

    alarms: list[Alarm] = msgspec.field(default_factory=list)


class Nothing(msgspec.Struct):
    """An answer that does not matter."""


class Failure(msgspec.Struct):
    """Why etcd refuses a request.

    Attributes:
        code: of gRPC.
    """

    code: int = 0
    message: str = ""

    def __post_init__(self) -> None:
        if "permission denied" in self.message:  # its code depends on the request
            self.code = FORBIDDEN


MISSING: Final = 5
"""The code of a lease that does not exist."""
FORBIDDEN: Final = 7
"""The code of what the user may not do."""


def get(key: bytes) -> Operation:
    return {"request_range": {"key": key}}


def span(lo: bytes, hi: bytes, **options: Any) -> Operation:
    """The keys from `lo` to below `hi`."""
    return {"request_range": {"key": lo, "range_end": hi, **options}}


def put(key: bytes, value: bytes, lease: int = 0) -> Operation:
    return {"request_put": {"key": key, "value": value, "lease": lease}}


def delete(key: bytes, hi: bytes | None = None) -> Operation:
    return {"request_delete_range": {"key": key} if hi is None else {"key": key, "range_end": hi}}


def together(operations: list[Operation]) -> Operation:
    """Operations as one operation of a transaction."""
    return {"request_txn": {"success": operations}}


def is_at(key: bytes, mod_revision: int) -> Comparison:
    """Whether a key is as it was at this revision; 0 if there must be none."""
    return {"key": key, "target": "MOD", "mod_revision": mod_revision, "result": "EQUAL"}


def is_made_at(key: bytes, create_revision: int) -> Comparison:
    return {"key": key, "target": "CREATE", "create_revision": create_revision, "result": "EQUAL"}
