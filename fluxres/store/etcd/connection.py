"""The contents of a store as keys of etcd."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fluxres import limits
from fluxres.errors import StoreError
from fluxres.store.contents import Blob, EventRow, GraphRow, Part, Previous
from fluxres.store.database import Connection
from fluxres.store.etcd import state as states
from fluxres.store.etcd.client import Client
from fluxres.store.etcd.keys import Keys, end
from fluxres.store.etcd.state import BlobPlace, Document, PreviousPlace, State
from fluxres.store.etcd.transaction import Fence, Reading, Writing, lost
from fluxres.store.lease import MANY

_TAIL_BYTES: Final = 16
_BLOB_PAGE: Final = 4
"""Keys of a blob that are read at once."""


class EtcdConnection(Connection):
    """A connection to the servers of an etcd.

    Args:
        fence: returns the lock that this process has on the store at present.
    """

    def __init__(self, client: Client, keys: Keys, fence: Callable[[], Fence | None]) -> None:
        self._client, self._keys, self._fence = client, keys, fence
        self._state: State | None = None
        self._known: Fence | None = None
        """The lock under which `_state` was the present one: it still is while the lock is held."""
        self._version = 0
        self._transaction: Reading | None = None
        self._documents: dict[int, Document] = {}
        self._notes: dict[str, str] = {}

    # -- transactions ------------------------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    @property
    def exists(self) -> bool:
        """Whether there is a store."""
        return self._state is not None and self._state.changed_at > 0

    def begin_read(self) -> None:
        state = self._present()
        self._begin(Reading(self._client, self._keys, state, state.revision), state)

    def begin_write(self) -> None:
        fence = self._fence()
        if fence is None:
            raise lost(self._client.url)
        state = self._state if fence is self._known and self._state is not None else self._present()
        writing = Writing(self._client, self._keys, state, fence)
        if fence.has_leftovers:
            writing.sweep()
        self._begin(writing, state)

    def commit(self) -> None:
        writing, state, self._transaction = self._transaction, self._state, None
        if not isinstance(writing, Writing) or state is None:
            return
        for number in state.documents.keys() | self._documents.keys():
            self._write_document(writing, number, state)
        for key in state.notes.keys() - self._notes.keys():
            writing.delete(self._keys.note(key))
        for key, text in self._notes.items():
            if state.notes.get(key) != text:
                writing.put(self._keys.note(key), text.encode())
        if writing.is_empty and self._head == state.head and state.changed_at:
            return
        self._state = self._known = None  # until the answer has come
        fence = self._fence()
        found = writing.commit(self._head)
        self._state, self._known = replace(found, documents=self._documents, notes=self._notes), fence

    def rollback(self) -> None:
        self._transaction = None

    def close(self) -> None:
        self._transaction = None

    def version(self, graph: int) -> int:
        fence = self._fence()
        if self._state is not None and fence is not None and fence.changed_at == self._state.changed_at:
            self._known = fence
        if fence is None or fence is not self._known:
            before = self._state
            if before is None or self._present().changed_at != before.changed_at:
                self._version += 1
        return self._version

    def _present(self) -> State:
        """Read the present state."""
        fence = self._fence()
        self._state, self._known = states.read(self._client, self._keys), fence
        return self._state

    def _begin(self, transaction: Reading, state: State) -> None:
        self._transaction, self._head = transaction, state.head
        self._documents, self._notes = dict(state.documents), dict(state.notes)
        self._made: dict[int, set[str]] = {}

    @property
    def _reading(self) -> Reading:
        """The transaction; outside of one, what is read is the present state."""
        if self._transaction is not None:
            return self._transaction
        state = self._present()
        self._documents, self._notes = dict(state.documents), dict(state.notes)
        return Reading(self._client, self._keys, state, state.revision)

    @property
    def _writing(self) -> Writing:
        if not isinstance(self._transaction, Writing):
            raise StoreError("a change outside of a transaction", where=self._client.url)
        return self._transaction

    def _write_document(self, writing: Writing, number: int, state: State) -> None:
        """Write the document of a graph if it has changed, and remove the blobs to which it does not refer any more."""
        before, after = state.documents.get(number), self._documents.get(number)
        if after is None:
            writing.delete(self._keys.graph(number))
        elif after is not before:
            writing.put(self._keys.graph(number), msgspec.json.encode(after))
        wanted = set() if after is None else after.generations()
        for generation in (state.generations(number) | self._made.get(number, set())) - wanted:
            folder = self._keys.blob(number, generation)
            writing.delete(folder, end(folder))

    # -- notes -------------------------------------------------------------------------------------------------------

    def notes(self) -> dict[str, str]:
        folder = self._keys.answers
        answers = self._reading.items(folder, end(folder))
        found = {key.removeprefix(folder).decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in answers}
        return dict(sorted((self._notes | found).items()))

    def note(self, key: str) -> str | None:
        reading = self._reading
        if not key.startswith(MANY):
            return self._notes.get(key)
        place = self._keys.answer(key)
        return next((value.decode("utf-8", "replace") for _, value in reading.items(place, place + b"\0")), None)

    def put_note(self, key: str, text: str) -> None:
        if key.startswith(MANY):
            self._writing.put(self._keys.answer(key), text.encode())
        else:
            _ = self._writing
            self._notes[key] = text

    def remove_note(self, key: str) -> None:
        if key.startswith(MANY):
            self._writing.delete(self._keys.answer(key))
        else:
            _ = self._writing
            self._notes.pop(key, None)

    # -- graphs ------------------------------------------------------------------------------------------------------

    def graphs(self) -> list[GraphRow]:
        _ = self._reading
        return [self._documents[number].row for number in sorted(self._documents)]

    def add_graph(self, row: GraphRow) -> int:
        _ = self._writing
        number = self._head.graphs + 1
        self._head = replace(self._head, graphs=number)
        self._documents[number] = Document(replace(row, number=number))
        return number

    def advance(self, before: GraphRow, after: GraphRow) -> bool:
        _ = self._writing
        found = self._documents.get(before.number)
        if found is None:
            return False
        row = found.row
        if (row.uid, row.seq, row.snapshot_seq) != (before.uid, before.seq, before.snapshot_seq):
            return False
        self._documents[before.number] = replace(found, row=after)
        return True

    def remove_graph(self, graph: int) -> None:
        for folder in (self._keys.events(graph), self._keys.blobs(graph), self._keys.tickets(graph)):
            self._writing.delete(folder, end(folder))
        self._documents.pop(graph, None)

    def _document(self, graph: int) -> Document | None:
        _ = self._reading
        return self._documents.get(graph)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def blob(self, part: Part, graph: int) -> Blob | None:
        place = self._place(part, graph)
        content = None if place is None else self._content(graph, place)
        return None if place is None or content is None else Blob(place.seq, content)

    def blob_seq(self, part: Part, graph: int) -> int | None:
        place = self._place(part, graph)
        return None if place is None else place.seq

    def blob_tail(self, part: Part, graph: int) -> bytes | None:
        place = self._place(part, graph)
        return None if place is None else place.tail

    def blob_size(self, part: Part, graph: int) -> int | None:
        place = self._place(part, graph)
        return None if place is None else place.size

    def put_blob(self, part: Part, graph: int, blob: Blob) -> None:
        generation, content = os.urandom(8).hex(), blob.content
        self._made.setdefault(graph, set()).add(generation)
        pieces = _pieces(content)
        for number, piece in enumerate(pieces):
            self._writing.put(self._keys.part(graph, generation, number), piece)
        place = BlobPlace(generation, blob.seq, len(content), content[-_TAIL_BYTES:], len(pieces))
        document = self._documents[graph]
        self._documents[graph] = replace(document, blobs={**document.blobs, part: place})

    def previous(self, graph: int) -> Previous | None:
        document = self._document(graph)
        found = None if document is None else document.previous
        if found is None:
            return None
        kept: dict[Part, bytes] = {}
        for part, place in found.blobs.items():
            content = self._content(graph, place)
            if content is None:
                hint = "restore a backup (see fluxres help stores)"
                raise StoreError("the previous version of a graph is invalid", where=self._client.url, hint=hint)
            kept[part] = content
        return Previous(found.before, found.after, found.snapshot_seq, kept.get("shapes"), kept.get("snapshots"))

    def keep(self, row: GraphRow, after: int, parts: Sequence[Part]) -> None:
        document = self._documents[row.number]
        blobs = {part: document.blobs[part] for part in parts if part in document.blobs}
        previous = PreviousPlace(row.seq, after, row.snapshot_seq, blobs)
        self._documents[row.number] = replace(document, previous=previous)

    def remove_previous(self, graph: int) -> None:
        _ = self._writing
        self._documents[graph] = replace(self._documents[graph], previous=None)

    def _place(self, part: Part, graph: int) -> BlobPlace | None:
        document = self._document(graph)
        return None if document is None else document.blobs.get(part)

    def _content(self, graph: int, place: BlobPlace) -> bytes | None:
        folder = self._keys.blob(graph, place.generation)
        content = b"".join(value for _, value in self._reading.items(folder, end(folder), page=_BLOB_PAGE))
        return content if len(content) == place.size else None

    # -- the journal -------------------------------------------------------------------------------------------------

    def events(self, graph: int, after: int, until: int, *, latest_first: bool = False) -> Iterator[EventRow]:
        for seq, pieces in self._stored_events(graph, after, until, latest_first=latest_first):
            yield _event(seq, pieces)

    def _stored_events(
        self, graph: int, after: int, until: int, *, latest_first: bool = False
    ) -> Iterator[tuple[int, list[bytes]]]:
        """The numbers of events, and the values of their keys.

        Keys above the number of the last event are of a transaction that is not committed.
        """
        reading, keys = self._reading, self._keys
        document = self._documents.get(graph)
        last = min(until, document.row.seq if document is not None else 0)
        folder = keys.events(graph)
        found = reading.items(
            keys.event(graph, max(0, after + 1)), keys.event(graph, max(0, last + 1)), is_backwards=latest_first
        )
        for name, some in groupby(found, lambda item: item[0].removeprefix(folder).partition(b"/")[0]):
            yield int(name) if name.isdigit() else 0, [value for _, value in sorted(some)]

    def add_events(self, graph: int, rows: Sequence[EventRow]) -> None:
        if not rows:
            return
        for row in rows:
            pieces = _pieces(row.body)
            head = msgspec.json.encode((row.time, row.command, row.checksum, len(pieces)))
            self._writing.put(self._keys.event(graph, row.seq), head + b"\n" + pieces[0])
            for number, piece in enumerate(pieces[1:], 1):
                self._writing.put(self._keys.event(graph, row.seq, number), piece)
        document = self._documents[graph]
        size = document.log_bytes + sum(len(row.body) for row in rows)
        self._documents[graph] = replace(document, first=document.first or rows[0].seq, log_bytes=size)

    def remove_events(self, graph: int, oldest: int) -> None:
        document = self._documents[graph]
        size = sum(len(_event(seq, pieces).body) for seq, pieces in self._stored_events(graph, -1, oldest - 1))
        self._writing.delete(self._keys.event(graph, 0), self._keys.event(graph, oldest))
        first = 0 if oldest > document.row.seq else max(oldest, document.first)
        self._documents[graph] = replace(document, first=first, log_bytes=document.log_bytes - size)

    def log_extent(self, graph: int) -> tuple[int | None, int]:
        document = self._document(graph)
        return (None, 0) if document is None else (document.first or None, document.log_bytes)

    def log_surplus(self, graph: int, bytes_max: int) -> int | None:
        left, last = self.log_extent(graph)[1], None
        for seq, pieces in self._stored_events(graph, -1, 1 << 62):
            if left <= bytes_max:
                break
            left, last = left - len(_event(seq, pieces).body), seq
        return last

    # -- tickets -----------------------------------------------------------------------------------------------------

    def tickets(self, graph: int) -> list[tuple[int, bytes]]:
        folder = self._keys.tickets(graph)
        found: list[tuple[int, int, bytes]] = []
        for key, value in self._reading.items(folder, end(folder)):
            head, _, body = value.partition(b"\n")
            _, priority = _decoded(head, tuple[str, int], ("", 0))
            number = key.removeprefix(folder)
            found.append((-priority, int(number) if number.isdigit() else 0, body))
        return [(number, body) for _, number, body in sorted(found)]

    def add_ticket(self, graph: int, job: str, priority: int, body: bytes) -> int:
        number = self._head.tickets + 1
        self._head = replace(self._head, tickets=number)
        self._writing.put(self._keys.ticket(graph, number), msgspec.json.encode((job, priority)) + b"\n" + body)
        return number

    def rewrite_ticket(self, graph: int, number: int, body: bytes) -> None:
        key = self._keys.ticket(graph, number)
        for _, value in self._writing.items(key, key + b"\0"):
            self._writing.put(key, value.partition(b"\n")[0] + b"\n" + body)

    def remove_ticket(self, graph: int, number: int) -> None:
        self._writing.delete(self._keys.ticket(graph, number))


def _pieces(content: bytes) -> list[bytes]:
    """Cut into what fits into one value; at least one piece."""
    size = limits.ETCD_VALUE_BYTES_MAX
    return [content[at : at + size] for at in range(0, len(content), size)] or [b""]


def _event(seq: int, pieces: list[bytes]) -> EventRow:
    """An event; of a damaged one, the checksum does not match."""
    head, _, body = pieces[0].partition(b"\n")
    time, command, checksum, count = _decoded(head, tuple[float, str, int, int], (0.0, "", -1, 1))
    return EventRow(seq, time, command, body + b"".join(pieces[1:count]), checksum)


def _decoded(text: bytes, kind: Any, otherwise: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return otherwise
