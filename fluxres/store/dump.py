"""A whole store as a stream of items, and as a file of them: its dump.

A dump does not depend on the kind of store, so it is the way from one kind to another. It is JSON lines: a header, the notes, and
for each graph its row, its snapshot, the state before its last change, and its journal; and a last line with the number of lines
and their checksum, without which a dump is not complete. Requests that wait (tickets) are left out: they are void without the
processes that wait at the store.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from fluxres.errors import InputError, StoreError, UsageError
from fluxres.store import claims, journal
from fluxres.store.contents import CLAIM, PARTS, Blob, EventRow, GraphRow, Part
from fluxres.store.database import Connection
from fluxres.store.disk import replacing
from fluxres.store.lease import ANSWER, INSTANCE, LEASE
from fluxres.store.progress import OnProgress, unwatched
from fluxres.store.rows import SAVED, Rows

VERSION: Final = 1
HEAD: Final = b'{"fluxres":"store"'
_OF_GRAPHS: Final = (SAVED, CLAIM, INSTANCE)
"""What notes about a graph begin with, before its uid."""
_LINE_BYTES_MAX: Final = 1 << 30
_EVENTS_AT_ONCE: Final = 500
_BETWEEN_REPORTS: Final = 100
"""Events, or lines."""
_MB: Final = 1_000_000


class Header(msgspec.Struct, frozen=True):
    """The first line of a dump.

    Args:
        fluxres: ``store``.
        version: of the form of the dump.
        url: of the store.
        time: seconds since 1970.
        graphs: number of graphs.
    """

    fluxres: str
    version: int
    url: str
    time: float
    graphs: int


class NoteItem(msgspec.Struct, frozen=True, tag="note", tag_field="item"):
    """A note of the store."""

    key: str
    text: str


class GraphItem(msgspec.Struct, frozen=True, tag="graph", tag_field="item"):
    """A graph; what follows up to the next one is part of it.

    Args:
        before, snapshot_seq: the state before its last change, as :class:`fluxres.store.contents.Previous`; None if not kept.
        kept: the parts of the snapshot of that state that are not those of the present one.
    """

    row: GraphRow
    before: int | None = None
    snapshot_seq: int | None = None
    kept: tuple[Part, ...] = ()


class BlobItem(msgspec.Struct, frozen=True, tag="blob", tag_field="item"):
    """A part of a snapshot; those of the previous state come first."""

    part: Part
    seq: int
    content: bytes


class EventItem(msgspec.Struct, frozen=True, tag="event", tag_field="item"):
    """A line of the journal.

    Args:
        event: as JSON.
    """

    seq: int
    time: float
    command: str
    event: msgspec.Raw


class End(msgspec.Struct, frozen=True, tag="end", tag_field="item"):
    """The last line.

    Args:
        lines: number of those before it.
        checksum: of these.
    """

    lines: int
    checksum: str


Item = NoteItem | GraphItem | BlobItem | EventItem


# -- a store as items ----------------------------------------------------------------------------------------------------


def items(rows: Rows, on_progress: OnProgress = unwatched) -> Iterator[Item]:
    """Everything in a store, as one transaction sees it.

    Errors: StoreError for damage.
    """
    graphs = rows.graphs()
    uids = {row.uid for row in graphs}
    for key, text in rows.db.notes().items():
        is_of_servers = key == LEASE or key.startswith(ANSWER)
        about = _about(key)
        if not is_of_servers and (about is None or about[1] in uids):
            yield NoteItem(key, text)
    done, total = 0, events_kept(rows)
    for row in graphs:
        on_progress(f"graph {row.name}", done, total, "events")
        for item in _of_graph(rows, row):
            yield item
            done += isinstance(item, EventItem)
            if not done % _BETWEEN_REPORTS:
                on_progress(f"graph {row.name}", done, total, "events")


def events_kept(rows: Rows) -> int:
    """The number of events in all journals."""
    return sum(row.seq - rows.oldest(row) + 1 for row in rows.graphs())


def _of_graph(rows: Rows, row: GraphRow) -> Iterator[Item]:
    previous = rows.db.previous(row.number)
    old: dict[Part, bytes] = {}
    if previous is not None and previous.after == row.seq:
        contents: dict[Part, bytes | None] = {"shapes": previous.shape, "snapshots": previous.marks}
        old = {part: content for part, content in contents.items() if content is not None}
        yield GraphItem(row, previous.before, previous.snapshot_seq, tuple(old))
    else:
        yield GraphItem(row)
    for part, content in old.items():
        yield BlobItem(part, 0, content)
    for part in PARTS:
        blob = rows.blob(part, row)
        yield BlobItem(part, blob.seq, blob.content)
    for stored in rows.stored_events(row, after=0):
        yield EventItem(stored.seq, stored.time, stored.command, msgspec.Raw(journal.text_of(stored.body)))


def fill(db: Connection, found: Iterable[Item], taken: set[str], new_uid: Callable[[], str]) -> tuple[int, int]:
    """Write items into an empty store, within a transaction; returns the number of graphs and of events.

    Args:
        taken: the uids that graphs of this store had: a process with one of them open must not take the restored graph for it.
    """
    graphs = events = 0
    renamed: dict[str, str] = {}
    notes: list[NoteItem] = []
    writing: _Graph | None = None
    for item in found:
        if isinstance(item, NoteItem):
            notes.append(item)
        elif isinstance(item, GraphItem):
            if writing is not None:
                writing.end()
            uid = item.row.uid if item.row.uid not in taken else renamed.setdefault(item.row.uid, new_uid())
            writing = _Graph(db, msgspec.structs.replace(item, row=msgspec.structs.replace(item.row, uid=uid)))
            graphs += 1
        elif writing is not None:
            writing.add(item)
            events += isinstance(item, EventItem)
    if writing is not None:
        writing.end()
    for note in notes:
        db.put_note(*_renamed(note, renamed))
    return graphs, events


def _about(key: str) -> tuple[str, str, str] | None:
    """The parts of the key of a note about a graph: what it begins with, the uid, and what follows."""
    prefix = next((prefix for prefix in _OF_GRAPHS if key.startswith(prefix)), None)
    if prefix is None:
        return None
    uid, colon, rest = key.removeprefix(prefix).partition(":")
    return prefix, uid, colon + rest


def _renamed(note: NoteItem, renamed: Mapping[str, str]) -> tuple[str, str]:
    """Key and text of a note, with the new uids of graphs."""
    about, text = _about(note.key), note.text
    if about is None:
        return note.key, text
    prefix, uid, rest = about
    if prefix == CLAIM:
        claim = claims.decoded(text, note.key)
        text = msgspec.json.encode(msgspec.structs.replace(claim, parent=renamed.get(claim.parent, claim.parent))).decode()
    return f"{prefix}{renamed.get(uid, uid)}{rest}", text


class _Graph:
    """A graph that is being written."""

    def __init__(self, db: Connection, item: GraphItem) -> None:
        self._db, self._item = db, item
        self._row = msgspec.structs.replace(item.row, number=db.add_graph(item.row))
        self._old = list(item.kept)
        self._is_kept = item.before is None
        self._events: list[EventRow] = []

    def add(self, item: BlobItem | EventItem) -> None:
        if isinstance(item, EventItem):
            body = journal.packed(bytes(item.event))
            self._events.append(EventRow(item.seq, item.time, item.command, body, journal.checksum(item.seq, body)))
            if len(self._events) >= _EVENTS_AT_ONCE:
                self._flush()
            return
        if self._old:
            self._old.remove(item.part)
        else:
            self._keep()
        self._db.put_blob(item.part, self._row.number, Blob(item.seq, item.content))

    def end(self) -> None:
        self._flush()
        self._keep()

    def _keep(self) -> None:
        """Keep the blobs that have come as those of the state before the last change."""
        before, snapshot_seq = self._item.before, self._item.snapshot_seq
        if not self._is_kept and before is not None and snapshot_seq is not None:
            row = msgspec.structs.replace(self._row, seq=before, snapshot_seq=snapshot_seq)
            self._db.keep(row, self._row.seq, self._item.kept)
        self._is_kept = True

    def _flush(self) -> None:
        self._db.add_events(self._row.number, self._events)
        self._events = []


# -- a dump --------------------------------------------------------------------------------------------------------------


def write(path: Path, rows: Rows, now: float, on_progress: OnProgress = unwatched) -> tuple[int, int]:
    """Write a dump beside `path`, and give it its name when it is complete; returns the number of graphs and of events.

    Errors: StoreError.
    """
    header = Header("store", VERSION, rows.url, now, len(rows.graphs()))
    graphs = events = 0
    with replacing(path) as out:
        hashed, lines = hashlib.blake2b(digest_size=16), 0
        for document in chain((header,), items(rows, on_progress)):
            line = msgspec.json.encode(document) + b"\n"
            hashed.update(line)
            out.write(line)
            lines += 1
            graphs += isinstance(document, GraphItem)
            events += isinstance(document, EventItem)
        out.write(msgspec.json.encode(End(lines, hashed.hexdigest())) + b"\n")
    return graphs, events


def read(path: Path, what: str = "reading", on_progress: OnProgress = unwatched) -> Iterator[Item]:
    """The items of a dump.  The last line is checked only at the end, so nothing may be committed before.

    Args:
        what: is done with them, for the display of progress.

    Errors: InputError with the line.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for number, item in enumerate(_read(file, str(path))):
                if not number % _BETWEEN_REPORTS:
                    on_progress(what, file.tell() / _MB, size / _MB, "MB")
                yield item
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


def _read(file: Any, where: str) -> Iterator[Item]:
    decoder = msgspec.json.Decoder(Item | End)
    hashed, number = hashlib.blake2b(digest_size=16), 1
    first = file.readline(_LINE_BYTES_MAX)
    if not first.startswith(HEAD):
        raise InputError("is not the dump of a store", where=where, hint="`fluxres store dump` writes one")
    _check_header(first, where)
    hashed.update(first)
    for number, line in enumerate(iter(lambda: file.readline(_LINE_BYTES_MAX), b""), 2):
        try:
            item = decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _damaged(f"unreadable line: {error}", f"{where}:{number}") from None
        if isinstance(item, End):
            if (item.lines, item.checksum) != (number - 1, hashed.hexdigest()):
                raise _damaged("the checksum of the lines above does not match", f"{where}:{number}")
            return
        hashed.update(line)
        yield item
    raise _damaged("the dump ends too early", f"{where}:{number}")


def _check_header(line: bytes, where: str) -> None:
    try:
        header = msgspec.json.decode(line, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(f"unreadable header: {error}", f"{where}:1") from None
    if header.version > VERSION:
        said = f"has version {header.version}, but this fluxres supports only versions up to {VERSION}"
        raise InputError(said, where=where, hint="use a newer fluxres")


def _damaged(said: str, where: str) -> InputError:
    return InputError(said, where=where, hint="take another dump: this one was damaged or cut short; nothing was restored")


def require_new(path: Path, store: Path, *, replace: bool) -> None:
    """Refuse a file that may not be written.

    Args:
        store: the file of the store, which is not replaced by what is in it; nor are those beside it.

    Errors: UsageError for a file that exists; StoreError for one whose directory does not.
    """
    real = path.resolve()
    if real in {store.with_name(store.name + suffix) for suffix in ("", "-journal", "-wal", "-shm", ".lock")}:
        raise UsageError("is the store itself", where=str(path), hint="name another file")
    if not real.parent.is_dir():
        raise StoreError("there is no such directory", where=str(path.parent), hint="make it, or name another file")
    if path.is_dir():
        raise UsageError("is a directory", where=str(path), hint="name a file in it")
    if path.exists() and not replace:
        raise UsageError("exists already", where=str(path), hint="name another file, or replace it with --replace")
