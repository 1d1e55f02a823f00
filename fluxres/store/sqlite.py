"""A store in one SQLite file: named graphs, each a snapshot and the events after it.

A writer holds the lock from before it reads until its changes are on disk, so it decides on the state that it changes. One
transaction appends its events and advances the event number of the graph. After a few hundred events, or when the shape changes,
it also writes a new snapshot, so that no later command has to replay more than that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import Clock
from fluxres.errors import StoreConflict, UnknownGraph, UsageError
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, schema
from fluxres.store.disk import make_folder
from fluxres.store.journal import Entry, Event
from fluxres.store.lock import Notify, writer_lock
from fluxres.store.rows import GraphRow, Rows, Saved, unknown
from fluxres.store.url import StoreUrl


@dataclass(frozen=True, slots=True)
class Position:
    """A state of a graph in a store, to detect whether the graph has changed since.

    Args:
        uid: of the graph.
        seq: number of its last event.
    """

    uid: str
    seq: int

    def __str__(self) -> str:
        return f"store:{self.uid}@{self.seq}"


@dataclass(slots=True)
class Transaction:
    """A graph that is being changed in a store.

    Args:
        graph: the state of the store; changes to it are written when the block ends.
        position: of that state, and of the new one once it is written.
        events: the changes so far.
    """

    graph: ResourceGraph
    position: Position
    events: list[Event] = field(default_factory=list)


class SqliteStore:
    """Named graphs in one SQLite file.

    Args:
        url: address; the first write creates the file.
        clock: returns the time of journal entries, and "now" of the graphs.
        notify: called with the holder of the lock when a write has to wait for more than half a second.
    """

    def __init__(self, url: StoreUrl, *, clock: Clock = clocks.system, notify: Notify | None = None) -> None:
        self.address = url
        self.path: Path = url.path
        self.clock = clock
        self.notify = notify

    @property
    def url(self) -> str:
        return str(self.address)

    def __repr__(self) -> str:
        return f"<SqliteStore {self.path}>"

    # -- reading ------------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Names of the graphs, in the order of creation; empty for a store that does not exist yet."""
        return [row.name for row in self.graphs()]

    def graphs(self) -> list[GraphRow]:
        """The graphs, without reading their content."""
        with schema.reading(self.path) as db:
            return [] if db is None else self._rows(db).graphs()

    @property
    def default(self) -> str | None:
        """The default graph: the one selected with `use`, else the only one, else None."""
        with schema.reading(self.path) as db:
            return None if db is None else self._rows(db).default()

    def load(self, name: str | None = None, *, clock: Clock | None = None) -> ResourceGraph:
        """The current graph: its snapshot and the events after it, without expired stages.

        Args:
            name: of the graph; the default one if None.
            clock: returns "now" of the graph; by default that of the store, as for the commands.

        Errors: UnknownGraph; StoreError for damage.
        """
        graph, _ = self.open(name, clock=clock)
        for stage in graph.records.expired_stages(graph.now()):
            graph.records.release(stage)
        return graph

    def open(self, name: str | None = None, *, clock: Clock | None = None) -> tuple[ResourceGraph, Position]:
        """As :meth:`load`, with the position that was read, and with expired stages."""
        with self._reading(name) as rows:
            row = rows.graph(name)
            return rows.read(row, self.clock if clock is None else clock), Position(row.uid, row.seq)

    def log(
        self,
        name: str | None = None,
        *,
        after: int | None = None,
        job: str | None = None,
        path: str | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Events of a graph, oldest first.

        Args:
            after: only those with a higher number.
            job: only those of this job.
            path: only those that name this pool or one below it.
            limit: at most this number, the latest ones.

        Errors: UnknownGraph; StoreError; UsageError for a negative limit.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"limit: expected a number >= 0, got {limit}")
        found: list[Entry] = []
        with self._reading(name) as rows:
            for entry in rows.entries(rows.graph(name), after=after or 0, latest_first=True):
                if limit is not None and len(found) >= limit:
                    break
                if journal.concerns(entry.event, job, path):
                    found.append(entry)
        return found[::-1]

    # -- changing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(
        self,
        name: str | None = None,
        *,
        command: str = "",
        wait_s: float | None = None,
        clock: Clock | None = None,
    ) -> Iterator[Transaction]:
        """Change a graph: changes to ``.graph`` in the block are on disk when the block ends (rule D1).

        An exception discards all of them.

        Args:
            name: of the graph; the default one if None.
            command: for the journal, and for other processes that wait.
            wait_s: how long to wait for another writer; LOCK_WAIT_SECONDS_DEFAULT by default.
            clock: returns "now" of the graph; by default that of the store.

        Errors: StoreBusy, UnknownGraph, StoreError.
        """
        if not schema.exists(self.path):
            raise self._unmade(name)
        with self._locked(command, wait_s):
            schema.create(self.path, private=self.address.private)
            db = schema.begin(self.path)
            rows = self._rows(db)
            try:
                with schema.translated(self.path):
                    row = rows.graph(name)
                    transaction = Transaction(rows.read(row, self.clock if clock is None else clock), Position(row.uid, row.seq))
                graph, revision = transaction.graph, transaction.graph.revision
                graph.sink = transaction.events.append
                yield transaction
                graph.sink = None
                if graph.revision - revision != len(transaction.events):
                    raise UsageError(
                        "the graph was changed other than by its operations", hint="do not replay events in a block of a store"
                    )
                if transaction.events:
                    with schema.translated(self.path):
                        seq = rows.append(row, graph, transaction.events, self.clock(), command)
                        db.execute("COMMIT")
                    transaction.position = Position(row.uid, seq)
            finally:
                schema.end(db)

    def append(
        self,
        name: str,
        graph: ResourceGraph,
        events: Sequence[Event],
        base: Position,
        *,
        command: str = "",
        wait_s: float | None = None,
    ) -> Position:
        """Write only the changes of a graph since it was at `base` in this store.

        Args:
            graph: as it is after the events.

        Errors: StoreConflict if the stored graph has changed since; nothing is written then.
        """
        with self._changing(name, command, wait_s) as rows:
            row = rows.graph(name)
            self._require(row, base)
            seq = rows.append(row, graph, events, self.clock(), command) if events else row.seq
        return Position(row.uid, seq)

    def put(
        self,
        name: str,
        graph: ResourceGraph,
        *,
        replace: bool = False,
        base: Position | None = None,
        use: bool = False,
        command: str = "",
        wait_s: float | None = None,
    ) -> Position:
        """Write a complete graph.

        Args:
            replace: replace an existing graph of this name; its journal continues.
            base: as `replace`, but only if the graph is in this state; StoreConflict otherwise.
            use: make it the default one; the first graph becomes the default in any case.

        Errors: UsageError for an existing name without `replace`, saying what would be lost.
        """
        _check_name(name)
        shape = encoding.encode_shape(graph.structure)
        make_folder(self.path.parent, private=self.address.private)
        with self._locked(command, wait_s), schema.unless_failed(self.path):
            schema.create(self.path, private=self.address.private)
            with schema.writing(self.path) as db:
                rows = self._rows(db)
                event = {"event": "load", "count": len(graph), "jobs": len(graph.records.jobs())}
                row, chosen = rows.find(name), rows.default()
                if row is None:
                    row = rows.make(name, self.clock())
                else:
                    if base is not None:
                        self._require(row, base)
                    event["replaced"] = loss = rows.loss(row)
                    if not replace and base is None:
                        raise UsageError(
                            f"a graph '{name}' already exists: {loss} would be lost",
                            where=self.url,
                            hint="replace it with --replace, or choose another name with --name",
                        )
                seq = rows.append(row, graph, [event], self.clock(), command, shape=shape)
                rows.choose(name if use or chosen is None else chosen)
        return Position(row.uid, seq)

    def use(self, name: str, *, wait_s: float | None = None) -> None:
        """Make this graph the default one.

        Errors: UnknownGraph.
        """
        with self._changing(name, f"use {name}", wait_s) as rows:
            rows.graph(name)
            rows.choose(name)

    def drop(self, name: str, *, command: str = "", wait_s: float | None = None) -> None:
        """Remove a graph, its snapshot and its journal.

        Errors: UnknownGraph.
        """
        with self._changing(name, command or f"drop {name}", wait_s) as rows:
            rows.remove(rows.graph(name))

    # -- saves to other places ------------------------------------------------------------------------------------

    def saved(self, name: str | None) -> tuple[ResourceGraph, Position, list[Saved], list[Entry]]:
        """The current graph, the places it was saved to, and the events since the earliest of these saves.

        Places whose events are no longer in the journal are left out.

        Errors: UnknownGraph; StoreError.
        """
        with self._reading(name) as rows:
            row = rows.graph(name)
            graph, oldest = rows.read(row, self.clock), rows.oldest(row)
            places = [place for place in rows.saved(row) if oldest - 1 <= place.seq <= row.seq]
            first = min((place.seq for place in places), default=row.seq)
            return graph, Position(row.uid, row.seq), places, list(rows.entries(row, after=first))

    def remember(self, name: str, uid: str, places: Sequence[Saved], *, wait_s: float | None = None) -> None:
        """Record where a graph was saved, for the next incremental save."""
        with self._changing(name, f"save {name}", wait_s) as rows:
            row = rows.graph(name)
            if row.uid == uid:
                rows.remember(row, places)

    def _unmade(self, name: str | None) -> UnknownGraph:
        """The error for an empty store; for a given store, it says whether its directory is missing."""
        folder = self.path.parent
        return unknown(name, [], self.url, missing=None if self.address.private or folder.is_dir() else folder)

    # -- within a transaction
    # ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self, name: str | None) -> Iterator[Rows]:
        with schema.reading(self.path) as db:
            if db is None:
                raise self._unmade(name)
            yield self._rows(db)

    @contextmanager
    def _changing(self, name: str | None, command: str, wait_s: float | None) -> Iterator[Rows]:
        if not schema.exists(self.path):
            raise self._unmade(name)
        with self._locked(command, wait_s):
            schema.create(self.path, private=self.address.private)
            with schema.writing(self.path) as db:
                yield self._rows(db)

    @contextmanager
    def _locked(self, command: str, wait_s: float | None) -> Iterator[None]:
        path = self.path.with_name(self.path.name + ".lock")
        mode = 0o600 if self.address.private else 0o666
        wait_s = limits.LOCK_WAIT_SECONDS_DEFAULT if wait_s is None else wait_s
        with writer_lock(path, command=command, wait_s=wait_s, clock=self.clock, notify=self.notify, mode=mode):
            yield

    def _require(self, row: GraphRow, base: Position) -> None:
        if Position(row.uid, row.seq) != base:
            raise StoreConflict(
                f"graph '{row.name}' has changed: {_moved(row, base)}",
                where=self.url,
                hint="load it again and repeat the changes, or save the complete graph under another name",
            )

    def _rows(self, db: sqlite3.Connection) -> Rows:
        return Rows(db, self.url, self.address.graph)


def _moved(row: GraphRow, base: Position) -> str:
    if row.uid != base.uid:
        return "it was dropped and created again"
    return f"{row.seq - base.seq} events have been written since"


def _check_name(name: str) -> None:
    if not name or not name.isprintable() or len(name) > limits.NAME_LENGTH_MAX:
        raise UsageError(f"the name of a graph has 1 to {limits.NAME_LENGTH_MAX} printable characters, got {name!r}")
