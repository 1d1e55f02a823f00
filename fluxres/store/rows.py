"""The rows of one store file, within a transaction: graphs, their snapshots, their events.

Rows that must be consistent are written together here: events, the last event number of the graph, and the snapshot that makes
the events redundant.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fluxres import limits
from fluxres.clock import Clock
from fluxres.errors import FluxresError, StoreError, UnknownGraph
from fluxres.model.resource_graph import ResourceGraph
from fluxres.store import encoding, journal, records
from fluxres.store.journal import Entry, Event

WEIGHT_MAX: Final = 256
"""Pools to look up in a replay before a new snapshot is due; they take about 30 ms (specs/store.md)."""

_COLUMNS: Final = "id, name, uid, created, generation, pools, seq, snapshot_seq, weight"
_KINDS: Final = (int, str, str, float, int, int, int, int, int)
"""Types of these columns, since SQLite itself accepts any type in any column."""
_EVENTS: Final = "SELECT seq, time, command, body, checksum FROM events WHERE graph = ? AND seq > ? AND seq <= ? ORDER BY seq"


@dataclass(frozen=True, slots=True)
class GraphRow:
    """What the store knows about a graph without reading it.

    Args:
        number: key of its rows.
        name: of the graph.
        uid: created with it; a graph that was dropped and created again has another.
        created: seconds since 1970.
        generation: number of changes of its shape since it was loaded.
        pools: number of pools.
        seq: number of its last event.
        snapshot_seq: number of the event its snapshot follows.
        weight: number of pools named by the events after the snapshot.
    """

    number: int
    name: str
    uid: str
    created: float
    generation: int
    pools: int
    seq: int
    snapshot_seq: int
    weight: int


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


class Rows:
    """The graphs as seen by one transaction.

    Args:
        db: connection within a transaction.
        url: of the store, for messages.
        chosen: the graph to use if none is named; it precedes the store's default.
    """

    def __init__(self, db: sqlite3.Connection, url: str, chosen: str | None) -> None:
        self.db = db
        self.url = url
        self.chosen = chosen

    # -- which graph -------------------------------------------------------------------------------------------------

    def graphs(self) -> list[GraphRow]:
        """All graphs, in the order of creation."""
        found = []
        for row in self.db.execute(f"SELECT {_COLUMNS} FROM graphs ORDER BY id"):
            if not all(isinstance(value, kind) for value, kind in zip(row, _KINDS, strict=True)):
                hint = "restore a backup (see specs/store.md)"
                raise StoreError("the database is damaged: its list of graphs is invalid", where=self.url, hint=hint)
            found.append(GraphRow(*row))
        return found

    def default(self) -> str | None:
        """The selected graph, else the only one, else None."""
        found = self.db.execute("SELECT value FROM meta WHERE key = 'default'").fetchone()
        if found is not None:
            return str(found[0])
        graphs = self.graphs()
        return graphs[0].name if len(graphs) == 1 else None

    def choose(self, name: str) -> None:
        self.db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('default', ?)", (name,))

    def find(self, name: str) -> GraphRow | None:
        """The graph of this name, None if there is none."""
        return next((row for row in self.graphs() if row.name == name), None)

    def graph(self, name: str | None) -> GraphRow:
        """The graph of this name, or the default one if None.

        Errors: UnknownGraph with the existing names.
        """
        wanted = name if name is not None else self.chosen or self.default()
        found = None if wanted is None else self.find(wanted)
        if found is None:
            raise unknown(wanted, [row.name for row in self.graphs()], self.url)
        return found

    def make(self, name: str, now: float) -> GraphRow:
        """A new, empty graph of this name."""
        self.db.execute(
            "INSERT INTO graphs (name, uid, created, generation, pools, seq, snapshot_seq, weight)"
            " VALUES (?, ?, ?, -1, 0, 0, 0, 0)",
            (name, os.urandom(8).hex(), now),
        )
        return self.graph(name)

    def remove(self, row: GraphRow) -> None:
        """Delete a graph, its snapshot and its journal."""
        for table in ("events", "snapshots", "shapes"):
            self.db.execute(f"DELETE FROM {table} WHERE graph = ?", (row.number,))
        self.db.execute("DELETE FROM graphs WHERE id = ?", (row.number,))
        self.db.execute("DELETE FROM meta WHERE key = 'default' AND value = ?", (row.name,))
        self.db.execute("DELETE FROM meta WHERE key = ?", (f"saved:{row.uid}",))

    def saved(self, row: GraphRow) -> list[Saved]:
        """The places to which this graph was saved.

        Errors: StoreError for damage.
        """
        found = self.db.execute("SELECT value FROM meta WHERE key = ?", (f"saved:{row.uid}",)).fetchone()
        try:
            return msgspec.json.decode(found[0], type=list[Saved]) if found is not None else []
        except msgspec.MsgspecError as error:
            raise self._damaged(row, f"where it was saved to: {error}") from None

    def remember(self, row: GraphRow, places: Sequence[Saved]) -> None:
        """Record the places to which this graph was saved."""
        text = msgspec.json.encode(list(places)).decode()
        self.db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (f"saved:{row.uid}", text))

    def oldest(self, row: GraphRow) -> int:
        """Number of the oldest event in the journal."""
        (oldest,) = self.db.execute("SELECT min(seq) FROM events WHERE graph = ?", (row.number,)).fetchone()
        return row.seq + 1 if oldest is None else int(oldest)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, row: GraphRow, clock: Clock | None = None) -> ResourceGraph:
        """The current graph: its snapshot and the events after it.

        Errors: StoreError for damage.
        """
        shape, marks = self._blob("shapes", row), self._blob("snapshots", row)
        try:
            structure, stored = encoding.decode(shape, marks)
            graph = records.restore(structure, stored, name=row.name, clock=clock)
        except FluxresError as error:
            raise self._damaged(row, f"snapshot: {error}") from error
        last = row.snapshot_seq
        for entry in self.entries(row, after=last):
            if entry.seq != last + 1:
                break
            try:
                graph.apply(entry.event)
            except FluxresError as error:
                raise self._damaged(row, f"event {entry.seq}: {error}") from error
            last = entry.seq
        if last != row.seq:
            raise self._damaged(row, f"event {last + 1} is missing")
        return graph

    def entries(self, row: GraphRow, *, after: int, latest_first: bool = False) -> Iterator[Entry]:
        """Events with a number above `after`.

        Errors: StoreError for damage.
        """
        query = _EVENTS + " DESC" if latest_first else _EVENTS
        for seq, time, command, body, checksum in self.db.execute(query, (row.number, after, row.seq)):
            if not isinstance(body, bytes) or journal.checksum(seq, body) != checksum:
                raise self._damaged(row, f"the checksum of event {seq} does not match")
            try:
                event = journal.event_of(body)
            except FluxresError as error:
                raise self._damaged(row, f"event {seq}: {error}") from error
            yield Entry(seq, time, command, event)

    def loss(self, row: GraphRow) -> str:
        """What is lost if this graph is removed, in words."""
        try:
            graph = self.read(row)
        except StoreError:
            return f"{row.pools} pools, whose records cannot be read,"
        jobs = set(graph.records.jobs())
        spans = sum(len(held) for holders in graph.records.held.values() for job, held in holders.items() if job in jobs)
        return f"{row.pools} pools and {spans} span{'' if spans == 1 else 's'} of {len(jobs)} job{'' if len(jobs) == 1 else 's'}"

    def _blob(self, table: str, row: GraphRow) -> bytes:
        found = self.db.execute(f"SELECT blob FROM {table} WHERE graph = ?", (row.number,)).fetchone()
        if found is None or not isinstance(found[0], bytes):
            raise self._damaged(row, f"it has no row in {table}")
        blob: bytes = found[0]
        return blob

    def _damaged(self, row: GraphRow, what: str) -> StoreError:
        return StoreError(
            f"graph '{row.name}' cannot be read: {what}", where=self.url, hint="restore a backup (see specs/store.md)"
        )

    # -- writing -----------------------------------------------------------------------------------------------------

    def append(
        self,
        row: GraphRow,
        graph: ResourceGraph,
        events: Sequence[Event],
        now: float,
        command: str,
        *,
        shape: bytes | None = None,
    ) -> int:
        """Write events, and a snapshot if one is due; returns the number of the last event.

        Args:
            graph: as it is after the events.
            shape: of the graph, if it is new.
        """
        text = " ".join(command.split()).encode("utf-8", "backslashreplace").decode()
        bodies = [journal.body(event) for event in events]
        self.db.executemany(
            "INSERT INTO events (graph, seq, time, command, body, checksum) VALUES (?, ?, ?, ?, ?, ?)",
            [(row.number, seq, now, text, body, journal.checksum(seq, body)) for seq, body in enumerate(bodies, row.seq + 1)],
        )
        seq, weight = row.seq + len(events), row.weight + sum(journal.weight(event) for event in events)
        snapshot_seq, generation = row.snapshot_seq, row.generation
        if shape is None and journal.is_structural(events):
            shape = encoding.encode_shape(graph.structure)
        if shape is not None:
            self.db.execute("INSERT OR REPLACE INTO shapes (graph, seq, blob) VALUES (?, ?, ?)", (row.number, seq, shape))
            generation += 1
        if shape is not None or weight > WEIGHT_MAX:
            self._write_marks(row, graph, seq)
            snapshot_seq, weight = seq, 0
        self.db.execute(
            "UPDATE graphs SET generation = ?, pools = ?, seq = ?, snapshot_seq = ?, weight = ? WHERE id = ?",
            (generation, len(graph), seq, snapshot_seq, weight, row.number),
        )
        return seq

    def _write_marks(self, row: GraphRow, graph: ResourceGraph, seq: int) -> None:
        # The checksum is the last bytes of the shape, so the megabytes before them need not be read.
        (tail,) = self.db.execute("SELECT substr(blob, -16) FROM shapes WHERE graph = ?", (row.number,)).fetchone()
        marks = encoding.encode_marks(graph.structure, records.capture(graph.records), tail)
        self.db.execute("INSERT OR REPLACE INTO snapshots (graph, seq, blob) VALUES (?, ?, ?)", (row.number, seq, marks))
        self._forget(row, seq)

    def _forget(self, row: GraphRow, seq: int) -> None:
        """Delete events beyond the bounds of the journal; the snapshot just written contains them."""
        self.db.execute("DELETE FROM events WHERE graph = ? AND seq <= ?", (row.number, seq - limits.LOG_EVENTS_MAX))
        (last,) = self.db.execute(
            """SELECT max(seq) FROM (SELECT seq, sum(length(body)) OVER (ORDER BY seq DESC) AS total FROM events WHERE graph = ?)
            WHERE total > ?""",
            (row.number, limits.LOG_BYTES_MAX),
        ).fetchone()
        if last is not None:
            self.db.execute("DELETE FROM events WHERE graph = ? AND seq <= ?", (row.number, last))


def unknown(name: str | None, names: list[str], url: str, *, missing: Path | None = None) -> UnknownGraph:
    """The error for an unknown graph, with the existing names.

    Args:
        missing: the directory of the store, if the store was given and its directory does not exist.
    """
    if missing is not None:
        said = f"this store has no graphs: there is no directory {missing}"
        return UnknownGraph(said, where=url, hint="check the address, or add a graph with: fluxres load SOURCE")
    if not names:
        return UnknownGraph("this store has no graphs", where=url, hint="add one with: fluxres load SOURCE")
    known = ", ".join(names)
    if name is None:
        return UnknownGraph("no graph is selected", where=url, hint=f"name one of {known}")
    return UnknownGraph(f"no graph '{name}'", where=url, hint=f"there is {known}")
