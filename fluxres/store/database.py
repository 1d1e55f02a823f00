"""What a store needs of the database that keeps its tables; there is one for each kind of address.

A store speaks SQL that all of them understand, on the tables of specs/store.md. A database opens connections to them, keeps
writers apart, and says in plain words what went wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol

from fluxres.clock import Clock
from fluxres.store.lock import Notify

Durability = Literal["full", "normal"]
"""What a commit waits for: the disk, or the system, which loses the last commits when the power fails."""


class Cursor(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection; ``?`` stands for a parameter."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Cursor: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object: ...

    def close(self) -> None: ...


class Lock(Protocol):
    """The lock of one writer, taken and released any number of times, in the order in which writers came."""

    def acquire(self, command: str, wait_s: float) -> None:
        """Wait for the lock.

        Errors: StoreBusy naming the holder; StoreError.
        """
        ...

    def is_wanted(self) -> bool:
        """Whether another writer waits for the lock that this one holds."""
        ...

    def release(self) -> None: ...

    def close(self) -> None: ...


class Database(Protocol):
    """Where the tables of a store are.

    Attributes:
        url: its address, for messages.
    """

    url: str

    @property
    def path(self) -> Path:
        """A file of this machine that stands for the store; sockets of processes that wait are beside it."""
        ...

    def exists(self) -> bool:
        """Whether there is something to open.  Errors: StoreError."""
        ...

    def missing(self) -> Path | None:
        """The directory that has to be created before the store can be."""
        ...

    def translated(self) -> AbstractContextManager[None]:
        """Translate the errors of a block into StoreError."""
        ...

    def reading(self) -> AbstractContextManager[Connection | None]:
        """One read transaction: everything read in the block is one state; None if there is no store yet.  Errors: StoreError."""
        ...

    def begin(self) -> Connection:
        """A connection within a write transaction, in which missing tables have been created.

        The caller holds the writer lock, commits or rolls back, and closes. Errors: StoreError.
        """
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """One write transaction, which is on disk when the block ends; an exception rolls it back."""
        ...

    def prepare(self) -> None:
        """Create what the lock of the first writer needs.  Errors: StoreError."""
        ...

    def creating(self) -> AbstractContextManager[None]:
        """Around the first write: nothing is left of it if the block fails.  The caller holds the writer lock."""
        ...

    def attach(self, durability: Durability) -> Connection:
        """A connection outside of a transaction that several threads may use in turn, with all tables.

        The caller holds the writer lock. Errors: StoreError.
        """
        ...

    def begin_read(self, db: Connection) -> None:
        """Begin a transaction that sees one state."""
        ...

    def begin_write(self, db: Connection) -> None:
        """Begin a transaction that writes.  The caller holds the writer lock."""
        ...

    def version(self, db: Connection, graph: int) -> int:
        """A number that changes whenever another connection has changed this graph, and possibly at other times."""
        ...

    def is_lost(self, db: Connection) -> bool:
        """Whether the server has ended the connection."""
        ...

    def lock(self, clock: Clock, notify: Notify | None) -> Lock:
        """The lock of writers."""
        ...


def end(db: Connection) -> None:
    """Roll back what was not committed, and close."""
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    finally:
        db.close()
