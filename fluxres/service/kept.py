"""The answers to changes with an idempotency key, in the store: a server that takes over knows them, too.

Each is a note that is written in the transaction of its change, so one is there if and only if the other is. The notes are a
ring: a new one takes the place of the oldest.
"""

from __future__ import annotations

import threading
import zlib
from base64 import b85decode, b85encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from fluxres import limits
from fluxres.errors import KeyReused
from fluxres.store.lease import ANSWER

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
            hint = "ask what is there now"
            raise KeyReused(f"the change with the key {self.key!r:.40} was made, and its answer was not kept", hint=hint)
        is_plain = self.body.startswith("{")
        return self.body.encode() if is_plain else zlib.decompress(b85decode(self.body)), self.revision


class KeptAnswers:
    """The latest answers of all servers that led the store.

    Args:
        graph: uid of the only graph of a server; empty for a server of the whole store.
    """

    def __init__(self, graph: str = "") -> None:
        self._prefix = f"{ANSWER}{graph}:" if graph else ANSWER
        self._known: dict[tuple[str, str], Kept] = {}
        self._next = 0
        self._lock = threading.Lock()

    def learn(self, notes: Mapping[str, str]) -> None:
        """Know what is in the store, as of a new lease."""
        found: dict[tuple[str, str], Kept] = {}
        for name, text in notes.items():
            if name.startswith(self._prefix) and name.removeprefix(self._prefix).isdecimal():
                with suppress(msgspec.MsgspecError):  # a damaged one is forgotten
                    kept = msgspec.json.decode(text, type=Kept)
                    found[kept.by, kept.key] = kept
        with self._lock:
            self._known = found
            self._next = max((kept.number + 1 for kept in found.values()), default=0)

    def find(self, by: str, key: str) -> Kept | None:
        """The answer of an earlier server."""
        return self._known.get((by, key))

    def note(self, by: str, key: str, fingerprint: str, body: bytes, revision: str) -> tuple[str, str]:
        """The note for a new answer: its name and its text."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        text: str | None = body.decode() if len(body) <= _PLAIN_BYTES else b85encode(zlib.compress(body, 1)).decode()
        if text is not None and len(text) > limits.SERVICE_KEPT_BYTES_MAX:
            text = None
        kept = Kept(number, by, key, fingerprint, revision, text)
        return f"{self._prefix}{number % limits.SERVICE_KEYS_KEPT}", msgspec.json.encode(kept).decode()
