"""The answers to changes with an idempotency key, in the store: a server that takes over knows them, too.

Each is a note that is written in the transaction of its change, so one is there if and only if the other is. The notes are a
ring: a new one takes the place of the oldest. A change whose commit was not answered is looked up by its note when the request
comes again, within the transaction that would make it once more.
"""

from __future__ import annotations

import threading
import zlib
from base64 import b85decode, b85encode
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import Final, TypeVar, cast

import msgspec

from fluxres import limits
from fluxres.errors import InDoubt, KeyReused, NotLeader, StoreError
from fluxres.store.database import Connection
from fluxres.store.lease import ANSWER

T = TypeVar("T")

_PLAIN_BYTES: Final = 1_024
"""Up to here, an answer is kept as it is: it is text that begins with a brace. A longer one is deflated."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """An answer.

    Args:
        number: of answers, increasing.
        by: who asked.
        key: idempotency key.
        fingerprint: of the request.
        revision: after the change.
        body: None if it was too long to be kept.
    """

    number: int
    by: str
    key: str
    fingerprint: str
    revision: str
    body: str | None

    def answer(self) -> tuple[bytes, str]:
        """The body and the revision. Errors: KeyReused if the body is not there."""
        if self.body is None:
            hint = "read the current state"
            raise KeyReused(f"the change with the key {self.key!r:.40} was made, and its answer was not kept", hint=hint)
        is_plain = self.body.startswith("{")
        return self.body.encode() if is_plain else zlib.decompress(b85decode(self.body)), self.revision


class Made(Exception):
    """The change of a request was made before, and the store had not answered.

    Args:
        kept: the answer.
    """

    def __init__(self, kept: Kept) -> None:
        super().__init__(kept.key)
        self.kept = kept


class Keep:
    """Keeps the answer to one request: makes its note, and finds the note if its change may have been made before.

    Args:
        answers: of all requests.
        by, key, fingerprint: of this one.
    """

    def __init__(self, answers: KeptAnswers, by: str, key: str, fingerprint: str) -> None:
        self._answers, self._name, self._fingerprint = answers, (by, key), fingerprint
        self._number: int | None = None

    def __call__(self, body: bytes, revision: str) -> tuple[str, str]:
        """The note of the answer, name and text, to be written with the change."""
        self._number = self._answers.number_of(*self._name)
        return self._answers.note(self._number, *self._name, self._fingerprint, body, revision)

    @property
    def is_doubtful(self) -> bool:
        """Whether the change may have been made before."""
        return self._answers.is_doubtful(*self._name)

    def require(self, db: Connection) -> None:
        """What the transaction passes that would make the change.

        Errors: Made if it was made before; KeyReused for another request with this key.
        """
        kept = self._answers.found(db, *self._name) if self.is_doubtful else None
        if kept is not None and kept.fingerprint != self._fingerprint:
            raise reused(self._name[1])
        if kept is not None:
            raise Made(kept)

    async def once(self, made: Awaitable[T]) -> T:
        """What is answered in the end: also that a change was made, or may have been, by an earlier request with this key.

        Errors: InDoubt; KeyReused; those of the change.
        """
        try:
            found = await made
        except Made as before:
            found = cast("T", before.kept.answer())
        except InDoubt:
            if self._number is not None:
                self._answers.doubt(*self._name, self._number)
            raise
        except StoreError as error:
            if not self.is_doubtful or isinstance(error, NotLeader):
                raise
            said = f"{error.message}; the change may have been made before"
            raise InDoubt(said, where=error.where, hint="send the request with this key again") from error
        self._answers.settle(*self._name)
        return found


def reused(key: str) -> KeyReused:
    return KeyReused(f"the key {key!r:.40} was sent with another request before", hint="send a new key with a new request")


class KeptAnswers:
    """The latest answers of all servers that led the store.

    Args:
        graph: uid of the only graph of a server; empty for a server of the whole store.
    """

    def __init__(self, graph: str = "") -> None:
        self._prefix = f"{ANSWER}{graph}:" if graph else ANSWER
        self._known: dict[tuple[str, str], Kept] = {}
        self._doubtful: OrderedDict[tuple[str, str], int] = OrderedDict()
        """The numbers of answers to changes of this server that may have been made."""
        self._next = 0
        self._lock = threading.Lock()

    def learn(self, notes: Mapping[str, str]) -> None:
        """Know what is in the store, as of a new lease."""
        found: dict[tuple[str, str], Kept] = {}
        for name, text in notes.items():
            is_own = name.startswith(self._prefix) and name.removeprefix(self._prefix).isdecimal()
            if is_own and (kept := _decoded(text)) is not None:
                found[kept.by, kept.key] = kept
        with self._lock:
            self._known = found
            self._doubtful.clear()
            self._next = max((kept.number + 1 for kept in found.values()), default=0)

    def find(self, by: str, key: str) -> Kept | None:
        """The answer of an earlier server."""
        return self._known.get((by, key))

    def number_of(self, by: str, key: str) -> int:
        """The number of an answer: a new one, unless the answer may be in the store already."""
        with self._lock:
            if (known := self._doubtful.get((by, key))) is not None:
                return known
            number, self._next = self._next, self._next + 1
            return number

    def note(self, number: int, by: str, key: str, fingerprint: str, body: bytes, revision: str) -> tuple[str, str]:
        """The note for an answer: its name and its text."""
        text: str | None = body.decode() if len(body) <= _PLAIN_BYTES else b85encode(zlib.compress(body, 1)).decode()
        if text is not None and len(text) > limits.SERVICE_KEPT_BYTES_MAX:
            text = None
        kept = Kept(number, by, key, fingerprint, revision, text)
        return self._place(number), msgspec.json.encode(kept).decode()

    def _place(self, number: int) -> str:
        return f"{self._prefix}{number % limits.SERVICE_KEYS_KEPT}"

    # -- changes whose commit was not answered -------------------------------------------------------------------------

    def doubt(self, by: str, key: str, number: int) -> None:
        with self._lock:
            self._doubtful[by, key] = number
            while len(self._doubtful) > limits.SERVICE_KEYS_KEPT:
                self._doubtful.popitem(last=False)

    def is_doubtful(self, by: str, key: str) -> bool:
        return (by, key) in self._doubtful

    def settle(self, by: str, key: str) -> None:
        with self._lock:
            self._doubtful.pop((by, key), None)

    def found(self, db: Connection, by: str, key: str) -> Kept | None:
        """The answer in the store to a change that may have been made; None if it was not."""
        number = self._doubtful.get((by, key))
        text = None if number is None else db.note(self._place(number))
        kept = None if text is None else _decoded(text)
        return kept if kept is not None and (kept.by, kept.key) == (by, key) else None


def _decoded(text: str) -> Kept | None:
    """None if it is damaged: it is forgotten then."""
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(text, type=Kept)
    return None
