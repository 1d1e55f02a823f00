"""The contents of a store as tables, in the SQL that SQLite and PostgreSQL have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from fluxres.errors import StoreError
from fluxres.store.contents import Blob, EventRow, GraphRow, Part, Previous
from fluxres.store.database import Connection

_COLUMNS: Final = "id, name, uid, created, generation, pools, seq, snapshot_seq, weight"
_KINDS: Final = (int, str, str, float, int, int, int, int, int)
"""Types of these columns, since SQLite itself accepts any type in any column."""
_OLD: Final = "(SELECT blob FROM {} WHERE graph = ?)"
_PUT_NOTE: Final = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_PUT_BLOB: Final = """INSERT INTO {} (graph, seq, blob) VALUES (?, ?, ?)
ON CONFLICT (graph) DO UPDATE SET seq = excluded.seq, blob = excluded.blob"""
_KEEP: Final = """INSERT INTO previous (graph, before, after, snapshot_seq, shape, marks) VALUES (?, ?, ?, ?, {}, {})
ON CONFLICT (graph) DO UPDATE SET before = excluded.before, after = excluded.after, snapshot_seq = excluded.snapshot_seq,
shape = excluded.shape, marks = excluded.marks"""
_EVENTS: Final = "SELECT seq, time, command, body, checksum FROM events WHERE graph = ? AND seq > ? AND seq <= ? ORDER BY seq"
_EVENT_KINDS: Final = (int, float, str, bytes, int)
_ADD_EVENT: Final = "INSERT INTO events (graph, seq, time, command, body, checksum) VALUES (?, ?, ?, ?, ?, ?)"
_SURPLUS: Final = """SELECT max(seq) FROM (SELECT seq, sum(length(body)) OVER (ORDER BY seq DESC) AS total
FROM events WHERE graph = ?) AS latest WHERE total > ?"""
_ADVANCE: Final = """UPDATE graphs SET generation = ?, pools = ?, seq = ?, snapshot_seq = ?, weight = ?
WHERE id = ? AND uid = ? AND seq = ? AND snapshot_seq = ?"""
_BACKUP: Final = "restore a backup (see fluxres help stores)"


class Cursor(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class SqlConnection(Connection):
    """A connection that understands SQL.

    Args:
        url: of the store, for messages.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Execute a statement; ``?`` stands for a parameter."""

    @abstractmethod
    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object: ...

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    def _one(self, query: str, graph: int) -> Any:
        """The first column of the first row, None without one."""
        found = self.execute(query, (graph,)).fetchone()
        return None if found is None else found[0]

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"the database is damaged: {what}", where=self.url, hint=_BACKUP)

    # -- notes -------------------------------------------------------------------------------------------------------

    def notes(self) -> dict[str, str]:
        return {str(key): str(value) for key, value in self.execute("SELECT key, value FROM meta ORDER BY key")}

    def note(self, key: str) -> str | None:
        found = self.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if found is None else str(found[0])

    def put_note(self, key: str, text: str) -> None:
        self.execute(_PUT_NOTE, (key, text))

    def remove_note(self, key: str) -> None:
        self.execute("DELETE FROM meta WHERE key = ?", (key,))

    # -- graphs ------------------------------------------------------------------------------------------------------

    def graphs(self) -> list[GraphRow]:
        found = []
        for row in self.execute(f"SELECT {_COLUMNS} FROM graphs ORDER BY id"):
            if not all(map(isinstance, row, _KINDS)):
                raise self._damaged("its list of graphs is invalid")
            found.append(GraphRow(*row))
        return found

    def add_graph(self, row: GraphRow) -> int:
        statement = (
            "INSERT INTO graphs (name, uid, created, generation, pools, seq, snapshot_seq, weight)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        values = (row.name, row.uid, row.created, row.generation, row.pools, row.seq, row.snapshot_seq, row.weight)
        (number,) = self.execute(statement, values).fetchone()
        return int(number)

    def advance(self, before: GraphRow, after: GraphRow) -> bool:
        values = (after.generation, after.pools, after.seq, after.snapshot_seq, after.weight)
        return self.execute(_ADVANCE, (*values, before.number, before.uid, before.seq, before.snapshot_seq)).rowcount == 1

    def remove_graph(self, graph: int) -> None:
        for table in ("events", "snapshots", "shapes", "previous", "tickets"):
            self.execute(f"DELETE FROM {table} WHERE graph = ?", (graph,))
        self.execute("DELETE FROM graphs WHERE id = ?", (graph,))

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def blob(self, part: Part, graph: int) -> Blob | None:
        found = self.execute(f"SELECT seq, blob FROM {part} WHERE graph = ?", (graph,)).fetchone()
        if found is None or not (isinstance(found[0], int) and isinstance(found[1], bytes)):
            return None
        return Blob(*found)

    def blob_seq(self, part: Part, graph: int) -> int | None:
        found = self._one(f"SELECT seq FROM {part} WHERE graph = ?", graph)
        return found if isinstance(found, int) else None

    def blob_tail(self, part: Part, graph: int) -> bytes | None:
        found = self._one(f"SELECT substr(blob, length(blob) - 15) FROM {part} WHERE graph = ?", graph)
        return found if isinstance(found, bytes) else None

    def blob_size(self, part: Part, graph: int) -> int | None:
        found = self._one(f"SELECT length(blob) FROM {part} WHERE graph = ?", graph)
        return found if isinstance(found, int) else None

    def put_blob(self, part: Part, graph: int, blob: Blob) -> None:
        self.execute(_PUT_BLOB.format(part), (graph, blob.seq, blob.content))

    def previous(self, graph: int) -> Previous | None:
        query = "SELECT before, after, snapshot_seq, shape, marks FROM previous WHERE graph = ?"
        found = self.execute(query, (graph,)).fetchone()
        if found is None:
            return None
        if not (all(type(n) is int for n in found[:3]) and all(isinstance(blob, bytes | None) for blob in found[3:])):
            raise self._damaged("the previous version of a graph is invalid")
        return Previous(*found)

    def keep(self, row: GraphRow, after: int, parts: Sequence[Part]) -> None:
        old = [_OLD.format(part) if part in parts else "NULL" for part in ("shapes", "snapshots")]
        values = (row.number, row.seq, after, row.snapshot_seq, *[row.number] * len(parts))
        self.execute(_KEEP.format(*old), values)

    def remove_previous(self, graph: int) -> None:
        self.execute("DELETE FROM previous WHERE graph = ?", (graph,))

    # -- the journal -------------------------------------------------------------------------------------------------

    def events(self, graph: int, after: int, until: int, *, latest_first: bool = False) -> Iterator[EventRow]:
        query = _EVENTS + " DESC" if latest_first else _EVENTS
        for row in self.execute(query, (graph, after, until)):
            yield EventRow(*row) if all(map(isinstance, row, _EVENT_KINDS)) else _invalid(row[0])

    def add_events(self, graph: int, rows: Sequence[EventRow]) -> None:
        self.executemany(_ADD_EVENT, [(graph, row.seq, row.time, row.command, row.body, row.checksum) for row in rows])

    def remove_events(self, graph: int, oldest: int) -> None:
        self.execute("DELETE FROM events WHERE graph = ? AND seq < ?", (graph, oldest))

    def log_extent(self, graph: int) -> tuple[int | None, int]:
        first, size = self.execute("SELECT min(seq), sum(length(body)) FROM events WHERE graph = ?", (graph,)).fetchone()
        return first, int(size or 0)

    def log_surplus(self, graph: int, bytes_max: int) -> int | None:
        found = self.execute(_SURPLUS, (graph, bytes_max)).fetchone()[0]
        return None if found is None else int(found)

    # -- tickets -----------------------------------------------------------------------------------------------------

    def tickets(self, graph: int) -> list[tuple[int, bytes]]:
        query = "SELECT number, body FROM tickets WHERE graph = ? ORDER BY priority DESC, number"
        return list(self.execute(query, (graph,)).fetchall())

    def add_ticket(self, graph: int, job: str, priority: int, body: bytes) -> int:
        statement = "INSERT INTO tickets (graph, job, priority, body) VALUES (?, ?, ?, ?) RETURNING number"
        (number,) = self.execute(statement, (graph, job, priority, body)).fetchone()
        return int(number)

    def rewrite_ticket(self, graph: int, number: int, body: bytes) -> None:
        self.execute("UPDATE tickets SET body = ? WHERE graph = ? AND number = ?", (body, graph, number))

    def remove_ticket(self, graph: int, number: int) -> None:
        self.execute("DELETE FROM tickets WHERE graph = ? AND number = ?", (graph, number))


def _invalid(seq: Any) -> EventRow:
    """An event that is damaged so that its checksum does not match."""
    return EventRow(seq if isinstance(seq, int) else 0, 0.0, "", b"", -1)
