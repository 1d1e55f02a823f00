"""Incremental saves: what changed since the last save, and a document of events with the state that they follow.

The document is JSON lines with a header first. The header has a digest of the state before the first event and of the state after
the last one, so changes are never applied to a different state, and the result is verified. The digest covers what changes affect
(the tree, types, sizes, states, tags, records), but not what a format may write in different ways (how names are made, uuids that
a file does not give).

An event of the journal names pools and can be replayed anywhere, except for a merge, which would need the other graph. So if the
shape changed, the document holds the complete state after it, encoded as in a store.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta

from fluxres import limits
from fluxres.clock import Clock
from fluxres.documents import source_text
from fluxres.errors import FluxresError, InputError, StoreConflict, UsageError
from fluxres.graph.structure import Structure
from fluxres.model.events import PatientSink
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, records
from fluxres.store.disk import write_whole
from fluxres.store.encoding import RecordColumns
from fluxres.store.journal import Event
from fluxres.store.store import Position

VERSION: Final = 1
HEAD: Final = b'{"fluxres":"changes"'


class Header(msgspec.Struct, kw_only=True):
    """The first line.

    Args:
        fluxres: always ``changes``.
        version: of the document.
        graph: name of the graph.
        base: digest of the state that the changes follow; None if the document holds a complete state and needs none.
        result: digest of the state after them.
        lines: number of lines that follow.
    """

    fluxres: str
    version: int
    graph: Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
    base: str | None
    result: str
    lines: int


class State(msgspec.Struct, kw_only=True):
    """A line with a complete state instead of an event."""

    shape: bytes
    marks: bytes


@dataclass(frozen=True, slots=True)
class Changes:
    """A document of changes.

    Args:
        header: its first line.
        lines: the other lines, each a JSON object.
        where: the file, for messages.
    """

    header: Header
    lines: list[bytes]
    where: str

    def apply(self, graph: ResourceGraph | None, clock: Clock | None = None) -> ResourceGraph:
        """The graph after the changes; `graph` is modified or discarded.

        Errors: StoreConflict if it is not in the state that the changes follow, InputError for a line that cannot be applied.
        """
        base = self.header.base
        if base is not None and (graph is None or digest(graph) != base):
            what = "needs the save that it follows" if graph is None else "follows a different state"
            raise StoreConflict(
                f"this document of changes {what}", where=self.where, hint="load the save after which it was written"
            )
        # Events before a complete state are already part of it.
        first = max((i for i, line in enumerate(self.lines) if line.startswith(_STATE)), default=-1)
        if first >= 0:
            graph = self._state(self.lines[first], first + 2, clock)
        if graph is None:
            raise InputError("has neither a state nor the digest of the state it follows", where=self.where)
        for number, line in enumerate(self.lines[first + 1 :], first + 3):
            self._replay(graph, line, number)
        if digest(graph) != self.header.result:
            raise InputError(
                "the changes do not lead to the state that was saved",
                where=self.where,
                hint="the document was modified or damaged",
            )
        return graph

    def _state(self, line: bytes, number: int, clock: Clock | None) -> ResourceGraph:
        try:
            state = msgspec.json.decode(line, type=dict[str, State])["state"]
            structure, stored = encoding.decode(state.shape, state.marks)
            return records.restore(structure, stored, name=self.header.graph, clock=clock)
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
            raise InputError(f"unreadable state: {error}", where=f"{self.where}:{number}") from None
        except FluxresError as error:
            raise InputError(f"unreadable state: {error}", where=f"{self.where}:{number}") from error

    def _replay(self, graph: ResourceGraph, line: bytes, number: int) -> None:
        try:
            event = journal.event_of(line)
            journal.require_whole(event)
            graph.apply(event)
        except FluxresError as error:
            raise InputError(f"this change cannot be applied: {error}", where=f"{self.where}:{number}") from error


_STATE: Final = b'{"state"'
_STRUCTURAL: Final = tuple(f'{{"event":"{name}"'.encode() for name in sorted(journal.STRUCTURAL))


def lines_of(events: Sequence[bytes], graph: ResourceGraph) -> list[bytes]:
    """Events as lines, including the state of `graph` (after them) if one of them changed the shape.

    Args:
        events: as :func:`fluxres.store.journal.body` writes them.
    """
    lines = [journal.text_of(event) for event in events]
    if any(line.startswith(_STRUCTURAL) for line in lines):
        lines.append(state_line(graph))
    return lines


def state_line(graph: ResourceGraph) -> bytes:
    """The complete state of a graph as one line."""
    shape = encoding.encode_shape(graph.structure)
    marks = encoding.encode_marks(graph.structure, records.capture(graph.records), shape)
    return msgspec.json.encode({"state": State(shape=shape, marks=marks)})


def write(path: Path, base: str | None, lines: list[bytes], graph: ResourceGraph) -> int:
    """Write a document, or continue the one that ends at `base`; returns its size in bytes.

    Args:
        base: digest of the state before `lines`; None if they hold a complete state.
        graph: after them.

    Errors: UsageError for a file with other content; StoreError.
    """
    before = _continued(path, base)
    if before is not None:
        base, lines = before.header.base, before.lines + lines
    header = Header(fluxres="changes", version=VERSION, graph=graph.name, base=base, result=digest(graph), lines=len(lines))
    content = b"".join(line + b"\n" for line in (msgspec.json.encode(header), *lines))
    write_whole(path, content)
    return len(content)


def _continued(path: Path, base: str | None) -> Changes | None:
    """The document at this path that the new changes follow, None if there is no file.

    Errors: UsageError for any other file: a save, or changes that would be lost.
    """
    if not path.exists():
        return None
    hint = "write the changes to a new file, or save the complete graph without --changed-only"
    content = source_text.read_file(path)
    if not is_changes(content):
        raise UsageError("holds something other than changes, which would be lost", where=str(path), hint=hint)
    before = parse(content, str(path))
    if base is None or before.header.result != base:
        what = "holds other changes, which would be lost: these do not begin at the state at which it ends"
        raise UsageError(what, where=str(path), hint=hint)
    return before


def is_changes(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a document of changes.

    >>> is_changes(b'{"fluxres":"changes","version":1')
    True
    """
    return head.startswith(HEAD)


def read(path: Path) -> Changes:
    """A document of changes, checked as far as possible without its base.

    Errors: InputError with the line; LimitExceeded.
    """
    return parse(source_text.read_file(path), str(path))


def parse(content: bytes, where: str) -> Changes:
    """As :func:`read`, for content in memory."""
    if not is_changes(content):
        raise InputError("is not a document of changes", where=where, hint="'fluxres save --changed-only' writes one")
    first, *lines = content.rstrip(b"\n").split(b"\n")
    try:
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"unreadable header: {error}", where=f"{where}:1") from None
    if not header.graph.isprintable():
        raise InputError(
            f"{header.graph!r} is not a valid graph name", where=f"{where}:1", hint="the document was modified or damaged"
        )
    if header.version > VERSION:
        raise InputError(
            f"has version {header.version}, but this fluxres supports only versions up to {VERSION}",
            where=where,
            hint="use a newer fluxres",
        )
    if len(lines) != header.lines:
        raise InputError(f"{len(lines)} changes instead of {header.lines}", where=where, hint="the document was truncated")
    return Changes(header, lines, where)


# -- digest --------------------------------------------------------------------------------------------------------------


def digest(graph: ResourceGraph) -> str:
    """32 hexadecimal digits that depend on the tree, types, sizes, states, tags and records.

    Cost: O(pools), about 20 ms per million.
    """
    hashed = hashlib.blake2b(digest_size=16)
    structure = graph.structure
    for column in (structure.depth, _kind_hashes(structure), structure.size, structure.state):
        hashed.update(column.tobytes())
    sparse: list[Any] = [
        structure.n,
        structure.tree_end,
        sorted((v, sorted(tags.items())) for v, tags in structure.tags.items()),
        sorted((subsystem.name, len(subsystem)) for subsystem in structure.subsystems.values()),
        _held(records.capture(graph.records)),
    ]
    hashed.update(msgspec.json.encode(sparse))
    return hashed.hexdigest()


def _kind_hashes(structure: Structure) -> Any:
    rows = [repr((kind.type, kind.unit, kind.properties)).encode() for kind in structure.kinds]
    hashes = [int.from_bytes(hashlib.blake2b(row, digest_size=8).digest(), "big") for row in rows]
    return np.array(hashes, np.uint64)[structure.kind]


def _held(held: RecordColumns) -> list[Any]:
    columns = (held.owner, held.vertex, held.start, held.end, held.amount)
    spans = [(held.owners[owner], *rest) for owner, *rest in zip(*(column.tolist() for column in columns), strict=True)]
    stages = [(s.stage, s.job, sorted(s.targets), s.start, s.end, s.expires, s.apart) for s in held.stages]
    return [sorted(spans), sorted(stages)]


# -- what changed since the last save ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Mark:
    """A place that has the state at some event.

    Args:
        at: number of events before it.
        position: the state in a store; None for a file.
        digest: of the state; computed when needed, at the latest before the state changes.
    """

    at: int
    position: Position | None = None
    digest: str | None = None


_BYTES_A_POOL = 64


class Pending(PatientSink):
    """The changes of a graph since it was last loaded or saved.

    The graph reports every change to its sink; this is the sink that `load` and `save` install. Most graphs are never saved
    again, so a change costs no more than a note here, and the paths of its pools are looked up when it is written. Each place
    that the graph was loaded from or saved to is a mark in the list; everything before all marks is dropped.
    """

    def __init__(self, graph: ResourceGraph) -> None:
        self._graph = weakref.ref(graph)
        self._events: list[bytes | Callable[[], Event]] = []
        self._dropped = 0
        self._bytes = 0
        self._revision = graph.revision
        self.marks: dict[str, Mark] = {}

    @classmethod
    def resumed(cls, graph: ResourceGraph, events: list[bytes], marks: dict[str, Mark]) -> Pending:
        """A list continued from a journal."""
        pending = cls(graph)
        pending._events, pending._bytes = list(events), sum(map(len, events))
        pending._revision -= len(events)
        pending.marks = marks
        graph.sink = pending
        return pending

    @classmethod
    def of(cls, graph: ResourceGraph) -> Pending | None:
        """The list of this graph; None if there is none, or if it missed changes.

        Every change increments the revision, so the numbers differ after a replay or a change reported to another sink.
        """
        kept = graph.sink
        return kept if isinstance(kept, cls) and graph.revision - kept._revision == kept.count else None

    @property
    def count(self) -> int:
        """Number of events so far, including dropped ones."""
        return self._dropped + len(self._events)

    def __call__(self, event: Event) -> None:
        """Record a change that is about to be applied."""
        self._note(journal.body(event) if self.marks else b"")

    def later(self, event: Callable[[], Event], pools: int) -> None:
        """Record a change without encoding it yet."""
        self._note(event, pools * _BYTES_A_POOL)

    def _note(self, event: bytes | Callable[[], Event], size: int | None = None) -> None:
        if not self.marks:
            self._dropped += 1
            return
        events = self._events
        here = self._dropped + len(events)
        found: str | None = None
        for mark in self.marks.values():
            if mark.at == here and mark.digest is None and (graph := self._graph()) is not None:
                mark.digest = found = found or digest(graph)
        events.append(event)
        self._bytes += _size(event) if size is None else size
        while len(self._events) > limits.PENDING_EVENTS_MAX or self._bytes > limits.LOG_BYTES_MAX:
            self._give_up_oldest()

    def mark(self, place: str, position: Position | None = None) -> None:
        """Record that this place has the current state."""
        self.marks.pop(place, None)
        if len(self.marks) >= limits.SAVED_PLACES_MAX:
            del self.marks[next(iter(self.marks))]
        self.marks[place] = Mark(self.count, position)
        self._trim()

    def last(self) -> Mark | None:
        return max(self.marks.values(), key=lambda mark: mark.at, default=None)

    def since(self, mark: Mark) -> list[bytes]:
        """The events after a mark."""
        first = mark.at - self._dropped
        written = [event if isinstance(event, bytes) else journal.body(event()) for event in self._events[first:]]
        self._events[first:] = written
        self._bytes = sum(map(_size, self._events))
        return written

    def _give_up_oldest(self) -> None:
        oldest = min((mark.at for mark in self.marks.values()), default=self.count)
        self.marks = {place: mark for place, mark in self.marks.items() if mark.at > oldest}
        self._trim()

    def _trim(self) -> None:
        surplus = min((mark.at for mark in self.marks.values()), default=self.count) - self._dropped
        if surplus > 0:
            self._bytes -= min(self._bytes, sum(map(_size, self._events[:surplus])))
            del self._events[:surplus]
            self._dropped += surplus


def _size(event: bytes | Callable[[], Event]) -> int:
    return len(event) if isinstance(event, bytes) else _BYTES_A_POOL
