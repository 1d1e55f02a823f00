"""The graphs of a store as one transaction reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from fluxres import limits
from fluxres.clock import Clock
from fluxres.documents.document import listed, plural
from fluxres.documents.suggestion import choose_from
from fluxres.errors import FluxresError, StillHeld, StoreError, UnknownGraph, UsageError
from fluxres.graph.structure import Structure
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, records
from fluxres.store.contents import CLAIM, Blob, EventRow, GraphRow, Part
from fluxres.store.database import Connection
from fluxres.store.journal import Entry
from fluxres.store.lease import ANSWER, INSTANCE
from fluxres.syntax import fluid

DEFAULT: Final = "default"
"""The note of the graph in use."""
SAVED: Final = "saved:"
"""Notes of where graphs were saved to begin with this, before the uid of the graph."""


class Saved(msgspec.Struct, frozen=True):
    """A place a graph was saved to.

    Args:
        place: ``file``, or the address of another store with the name of the graph in it.
        seq: number of the last event it has.
        digest: of that state (:func:`fluxres.store.changes.digest`).
        uid, at: the state in the other store; empty and 0 for a file.
    """

    place: str
    seq: int
    digest: str
    uid: str = ""
    at: int = 0


class _JobOfInstance(msgspec.Struct):
    """What concerns a store of a job of an instance."""

    state: str


class Rows:
    """The graphs as seen by one transaction.

    Args:
        db: connection within a transaction.
        url: of the store, for messages.
        chosen: the graph to use if none is named; it precedes the store's default.
    """

    def __init__(self, db: Connection, url: str, chosen: str | None) -> None:
        self.db = db
        self.url = url
        self.chosen = chosen

    # -- which graph -------------------------------------------------------------------------------------------------

    def graphs(self) -> list[GraphRow]:
        """All graphs, in the order of creation."""
        return self.db.graphs()

    def default(self) -> str | None:
        """The selected graph, else the only one, else None."""
        if (found := self.db.note(DEFAULT)) is not None:
            return found
        graphs = self.graphs()
        return graphs[0].name if len(graphs) == 1 else None

    def choose(self, name: str) -> None:
        self.db.put_note(DEFAULT, name)

    def find(self, name: str) -> GraphRow | None:
        """The graph of this name, None if there is none."""
        return next((row for row in self.graphs() if row.name == name), None)

    def graph(self, name: str | None) -> GraphRow:
        """The graph of this name, or the default one if None.

        Errors: UnknownGraph with the existing names.
        """
        graphs, wanted = self.graphs(), name if name is not None else self.chosen or self.default()
        for row in graphs:
            if row.name == wanted:
                return row
        raise unknown(wanted, [row.name for row in graphs], self.url)

    def make(self, name: str, now: float) -> GraphRow:
        self.db.add_graph(GraphRow(0, name, os.urandom(8).hex(), now, -1, 0, 0, 0, 0))
        return self.graph(name)

    def notes_of_instances(self, row: GraphRow) -> dict[str, str]:
        """The notes of the instances on a graph, by what follows the uid in their names."""
        prefix = f"{INSTANCE}{row.uid}:"
        return {name.removeprefix(prefix): text for name, text in self.db.notes().items() if name.startswith(prefix)}

    def is_of_instance(self, row: GraphRow, entries: Iterable[Entry]) -> bool:
        """Whether a change is one of an instance: it says so, or is about jobs for which an instance has planned again."""
        events = [entry.event for entry in entries]
        if any(event["event"] == "instance" for event in events):
            return True
        return any(fluid.is_name(str(event.get("job", ""))) for event in events) and bool(self.notes_of_instances(row))

    def require_without_instances(self, row: GraphRow) -> None:
        """Refuse to replace a graph under the jobs of instances. Errors: UsageError."""
        if self.notes_of_instances(row):
            hint = f"end them (`fluxres instance drop`), or drop the graph with them: `fluxres graphs drop {row.name} --force`"
            raise UsageError("the store keeps instances on it", where=f"graph '{row.name}'", hint=hint)

    def uses(self, row: GraphRow, clock: Clock, tickets: int) -> tuple[list[str], list[str]]:
        """What would be lost with a graph, in words, and the jobs that hold something of it.

        Args:
            tickets: the number of jobs that wait without an instance.
        """
        jobs: list[str] = []
        try:
            jobs = self.read(row, clock).jobs()
            held = [f"{plural(len(jobs), 'job')} that hold{'s' * (len(jobs) == 1)} some of it ({listed(jobs)})"] if jobs else []
        except StoreError:
            held = ["allocations that cannot be read"]
        notes = self.notes_of_instances(row)
        waiting = tickets + sum(_waits(text) for key, text in notes.items() if key.rpartition(":")[2].isdigit())
        held += [f"{plural(waiting, 'job')} that wait{'s' * (waiting == 1)}"] if waiting else []
        instances = [key.removesuffix(":") for key in notes if key.endswith(":")]
        held += [f"{'an instance' if len(instances) == 1 else 'instances'} ({listed(instances)})"] if instances else []
        return held, jobs

    @staticmethod
    def require_unused(row: GraphRow, held: Sequence[str], jobs: Sequence[str]) -> None:
        """Refuse to drop a graph that has something by `uses`. Errors: StillHeld."""
        if held:
            hint = f"`fluxres graphs drop {row.name} --force` drops it with all of that, and nothing brings it back"
            raise StillHeld(f"it has {' and '.join(held)}", where=f"graph '{row.name}'", hint=hint, jobs=jobs)

    def remove(self, row: GraphRow) -> None:
        self.db.remove_graph(row.number)
        if self.db.note(DEFAULT) == row.name:
            self.db.remove_note(DEFAULT)
        self.db.remove_note(SAVED + row.uid)
        for name in [name for name in self.db.notes() if name.startswith((f"{ANSWER}{row.uid}:", f"{INSTANCE}{row.uid}:"))]:
            self.db.remove_note(name)
        self.db.remove_note(CLAIM + row.uid)

    def saved(self, row: GraphRow) -> list[Saved]:
        """The places to which this graph was saved.

        Errors: StoreError for damage.
        """
        found = self.db.note(SAVED + row.uid)
        try:
            return msgspec.json.decode(found, type=list[Saved]) if found is not None else []
        except msgspec.MsgspecError as error:
            raise self.damaged(row, f"where it was saved to: {error}") from None

    def remember(self, row: GraphRow, places: Sequence[Saved]) -> None:
        text = msgspec.json.encode(list(places)).decode()
        self.db.put_note(SAVED + row.uid, text)

    def oldest(self, row: GraphRow) -> int:
        """Number of the oldest event in the journal."""
        oldest, _ = self.db.log_extent(row.number)
        return row.seq + 1 if oldest is None else oldest

    # -- reading -----------------------------------------------------------------------------------------------------

    def structure(self, row: GraphRow) -> Structure:
        """The pools of a graph, with the states and tags of its snapshot.

        Errors: StoreError for damage.
        """
        try:
            return encoding.decode(self.blob("shapes", row).content, self.blob("snapshots", row).content)[0]
        except FluxresError as error:
            raise self.damaged(row, f"snapshot: {error}") from error

    def read(self, row: GraphRow, clock: Clock | None = None) -> ResourceGraph:
        """The current graph: its snapshot and the events after it.

        Errors: StoreError for damage.
        """
        return self._replayed(row, self.blob("shapes", row).content, self.blob("snapshots", row).content, clock)

    def _replayed(self, row: GraphRow, shape: bytes, marks: bytes, clock: Clock | None) -> ResourceGraph:
        """A snapshot and the events from `row.snapshot_seq` to `row.seq`."""
        try:
            structure, stored = encoding.decode(shape, marks)
            graph = records.restore(structure, stored, name=row.name, clock=clock)
        except FluxresError as error:
            raise self.damaged(row, f"snapshot: {error}") from error
        last = row.snapshot_seq
        for entry in self.entries(row, after=last):
            if entry.seq != last + 1:
                break
            try:
                graph.apply(entry.event)
            except FluxresError as error:
                raise self.damaged(row, f"event {entry.seq}: {error}") from error
            last = entry.seq
        if last != row.seq:
            raise self.damaged(row, f"event {last + 1} is missing")
        return graph

    def entries(self, row: GraphRow, *, after: int, latest_first: bool = False, having: bytes = b"") -> Iterator[Entry]:
        """Events with a number above `after`.

        Args:
            having: only those in whose stored form this is.

        Errors: StoreError for damage.
        """
        for stored in self.stored_events(row, after=after, latest_first=latest_first):
            if having not in stored.body:
                continue
            try:
                yield journal.entry_of(stored.seq, stored.time, stored.command, stored.body)
            except FluxresError as error:
                raise self.damaged(row, f"event {stored.seq}: {error}") from error

    def stored_events(self, row: GraphRow, *, after: int, latest_first: bool = False) -> Iterator[EventRow]:
        """As :meth:`entries`, as stored."""
        for stored in self.db.events(row.number, after, row.seq, latest_first=latest_first):
            if journal.checksum(stored.seq, stored.body) != stored.checksum:
                raise self.damaged(row, f"the checksum of event {stored.seq} does not match")
            yield stored

    def loss(self, row: GraphRow) -> str:
        """What is in a graph, in words: it is lost if the graph is replaced."""
        pools = f"{row.pools} pool{'' if row.pools == 1 else 's'}"
        try:
            jobs = len(self.read(row).records.jobs())
        except StoreError:
            return f"{pools}, and allocations that cannot be read"
        return f"{pools} and {'the allocations of ' * bool(jobs)}{jobs or 'no'} job{'' if jobs == 1 else 's'}"

    # -- undo --------------------------------------------------------------------------------------------------------

    def previous(self, row: GraphRow, clock: Clock | None) -> tuple[ResourceGraph, list[Entry]]:
        """The graph before its last change, and the events of that change.

        Errors: UsageError if the state before it was not kept; StoreError for damage.
        """
        found = self.db.previous(row.number)
        if found is None or found.after != row.seq:
            raise self._undoable(row)
        before, snapshot_seq, shape, marks = found.before, found.snapshot_seq, found.shape, found.marks
        if self.oldest(row) > snapshot_seq + 1:
            raise self._undoable(row)
        then = replace(row, seq=before, snapshot_seq=snapshot_seq)
        marks = marks if marks is not None else self.blob("snapshots", row).content
        graph = self._replayed(then, shape if shape is not None else self.blob("shapes", row).content, marks, clock)
        return graph, list(self.entries(row, after=before))

    def _undoable(self, row: GraphRow) -> UsageError:
        last = next(self.entries(row, after=row.seq - 1), None)
        if last is not None and last.event["event"] == "load" and "replaced" not in last.event:
            hint = f"`fluxres graphs drop {row.name}` removes the graph"
            return UsageError("loading it was the only change so far", where=f"graph '{row.name}'", hint=hint)
        size = f"{limits.UNDO_BYTES_MAX >> 20} MiB"
        hint = f"the store keeps the previous version of a graph of up to {size}; `fluxres log` shows what changed"
        return UsageError("the state before the last change was not kept", where=f"graph '{row.name}'", hint=hint)

    def keep_previous(self, row: GraphRow, seq: int, *, shape: bool, marks: bool) -> None:
        """Keep the state before a change, for `previous`.

        Args:
            seq: number of the last event of the change.
            shape, marks: whether the change is about to overwrite them.
        """
        wanted: dict[Part, bool] = {"shapes": shape, "snapshots": marks}
        parts = [part for part, changes in wanted.items() if changes]
        sizes = [self.db.blob_size(part, row.number) for part in parts]
        if row.generation < 0 or None in sizes or sum(filter(None, sizes)) > limits.UNDO_BYTES_MAX:
            self.db.remove_previous(row.number)
        else:
            self.db.keep(row, seq, parts)

    # -- what a graph consists of --------------------------------------------------------------------------------------

    def blob(self, part: Part, row: GraphRow) -> Blob:
        """A part of the snapshot of a graph.  Errors: StoreError if it is missing."""
        found = self.db.blob(part, row.number)
        if found is None:
            raise self.damaged(row, f"it has no row in {part}")
        return found

    def damaged(self, row: GraphRow, what: str) -> StoreError:
        return StoreError(
            f"graph '{row.name}' cannot be read: {what}", where=self.url, hint="restore a backup (see fluxres help stores)"
        )

    def shape_seq(self, row: GraphRow) -> int:
        """The event that made the present shape."""
        found = self.db.blob_seq("shapes", row.number)
        if found is None:
            raise self.damaged(row, "it has no row in shapes")
        return found

    def shape_tail(self, row: GraphRow) -> bytes:
        """The last bytes of the shape, its checksum: the megabytes before them need not be read."""
        found = self.db.blob_tail("shapes", row.number)
        if found is None:
            raise self.damaged(row, "it has no row in shapes")
        return found

    def log_extent(self, row: GraphRow) -> tuple[int, int]:
        """The number of the oldest event in the journal, and the bytes of all."""
        first, size = self.db.log_extent(row.number)
        return (row.seq + 1 if first is None else first), size


def unknown(name: str | None, names: list[str], url: str, *, missing: Path | None = None) -> UnknownGraph:
    """The error for an unknown graph, with the existing names.

    Args:
        missing: the directory of the store, if the store was given and its directory does not exist.
    """
    if missing is not None:
        said = f"this store has no graphs: there is no directory {missing}"
        return UnknownGraph(said, where=url, hint="check the address, or add a graph with: fluxres load SOURCE")
    if not names:
        return UnknownGraph("this store has no graphs", where=url, hint="add one with: fluxres load SOURCE", graph=name or "")
    if name is None:
        return UnknownGraph("no graph is selected", where=url, hint=choose_from(names))
    return UnknownGraph(f"no graph '{name}'", where=url, hint=choose_from(names), graph=name)


def _waits(job: str) -> bool:
    """Whether a job of an instance waits, by its note."""
    return msgspec.json.decode(job, type=_JobOfInstance).state in ("DEPEND", "PRIORITY", "SCHED")
