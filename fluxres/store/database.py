"""What a store needs of the database that keeps it; there is one for each kind of address.

A store says what it wants in its own terms: the row of a graph, a part of its snapshot, the events after a number. A database
opens connections that answer and change these, keeps writers apart, and says in plain words what went wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from fluxres.clock import Clock
from fluxres.store.contents import Blob, EventRow, GraphRow, Part, Previous
from fluxres.store.lock import Notify
from fluxres.store.progress import OnProgress

Durability = Literal["full", "normal"]
"""What a commit waits for: the disk, or the system, which loses the last commits when the power fails."""


class Connection(ABC):
    """A connection to the contents of a store.

    Everything that is read or written is within a transaction, except for `version`. Graphs are given by their numbers.

    Errors of all methods: StoreError, within a block of :meth:`Database.translated`.
    """

    # -- transactions ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def in_transaction(self) -> bool: ...

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended the connection."""
        return False

    @abstractmethod
    def begin_read(self) -> None:
        """Begin a transaction that sees one state."""

    @abstractmethod
    def begin_write(self) -> None:
        """Begin a transaction that writes.  The caller holds the writer lock."""

    @abstractmethod
    def commit(self) -> None:
        """Make the changes of the transaction durable, all or none.  Errors: StoreConflict; StoreError."""

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def end(self) -> None:
        """Roll back what was not committed, and close."""
        try:
            if self.in_transaction:
                self.rollback()
        finally:
            self.close()

    @abstractmethod
    def version(self, graph: int) -> int:
        """A number that changes whenever another connection has changed this graph, and possibly at other times."""

    # -- notes -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def notes(self) -> dict[str, str]:
        """Texts about the store and its graphs, by key."""

    @abstractmethod
    def note(self, key: str) -> str | None: ...

    @abstractmethod
    def put_note(self, key: str, text: str) -> None: ...

    @abstractmethod
    def remove_note(self, key: str) -> None: ...

    # -- graphs ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def graphs(self) -> list[GraphRow]:
        """In the order of creation.  Errors: StoreError for damage."""

    @abstractmethod
    def add_graph(self, row: GraphRow) -> int:
        """Add a graph, and return its number; that of `row` is not used."""

    @abstractmethod
    def advance(self, before: GraphRow, after: GraphRow) -> bool:
        """Replace the row of a graph; False if it is not at the event of `before` any more."""

    @abstractmethod
    def remove_graph(self, graph: int) -> None:
        """Remove a graph with everything of it."""

    # -- snapshots ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def blob(self, part: Part, graph: int) -> Blob | None: ...

    @abstractmethod
    def blob_seq(self, part: Part, graph: int) -> int | None: ...

    @abstractmethod
    def blob_tail(self, part: Part, graph: int) -> bytes | None:
        """The last 16 bytes, its checksum: the megabytes before them need not be read."""

    @abstractmethod
    def blob_size(self, part: Part, graph: int) -> int | None:
        """In bytes."""

    @abstractmethod
    def put_blob(self, part: Part, graph: int, blob: Blob) -> None: ...

    @abstractmethod
    def previous(self, graph: int) -> Previous | None:
        """Errors: StoreError for damage."""

    @abstractmethod
    def keep(self, row: GraphRow, after: int, parts: Sequence[Part]) -> None:
        """Keep a state as the previous one.

        Args:
            row: the graph in that state.
            after: number of the last event of the change after it.
            parts: of its snapshot, which are about to be replaced.
        """

    @abstractmethod
    def remove_previous(self, graph: int) -> None: ...

    # -- the journal -------------------------------------------------------------------------------------------------

    @abstractmethod
    def events(self, graph: int, after: int, until: int, *, latest_first: bool = False) -> Iterator[EventRow]:
        """Events with a number above `after`, up to `until`; of a damaged one, the checksum does not match."""

    @abstractmethod
    def add_events(self, graph: int, rows: Sequence[EventRow]) -> None: ...

    @abstractmethod
    def remove_events(self, graph: int, oldest: int) -> None:
        """Remove all before the event `oldest`."""

    @abstractmethod
    def log_extent(self, graph: int) -> tuple[int | None, int]:
        """The number of the oldest event, and the bytes of all bodies."""

    @abstractmethod
    def log_surplus(self, graph: int, bytes_max: int) -> int | None:
        """The latest event that has to go so that the rest have at most `bytes_max`."""

    # -- tickets -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def tickets(self, graph: int) -> list[tuple[int, bytes]]:
        """Numbers and bodies, by priority, then by number."""

    @abstractmethod
    def add_ticket(self, graph: int, job: str, priority: int, body: bytes) -> int:
        """Returns its number, which is above that of all before it."""

    @abstractmethod
    def rewrite_ticket(self, graph: int, number: int, body: bytes) -> None: ...

    @abstractmethod
    def remove_ticket(self, graph: int, number: int) -> None: ...


class Guard(Protocol):
    """What each write transaction of a process passes that may write only on a condition, such as a lease."""

    def require(self, db: Connection) -> None:
        """Refuse a transaction, by an error."""
        ...


class Guards:
    """Two guards, one after the other."""

    def __init__(self, first: Guard, second: Guard) -> None:
        self._both = first, second

    def require(self, db: Connection) -> None:
        for guard in self._both:
            guard.require(db)


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


class Database(ABC):
    """Where the contents of a store are.

    Attributes:
        url: its address, for messages.
        kind: in words.
    """

    url: str
    kind: ClassVar[str]

    @property
    @abstractmethod
    def path(self) -> Path:
        """A file of this machine in place of the store; sockets of processes that wait are beside it."""

    def exists(self) -> bool:
        """Whether there is something to open.  Errors: StoreError."""
        return True

    def missing(self) -> Path | None:
        """The directory that has to be created before the store can be."""
        return None

    @abstractmethod
    def translated(self) -> AbstractContextManager[None]:
        """Translate the errors of a block into StoreError."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection | None]:
        """One read transaction: everything read in the block is one state; None if there is no store yet.  Errors: StoreError."""

    @abstractmethod
    def begin(self) -> Connection:
        """A connection within a write transaction, in which what the store consists of has been made.

        The caller holds the writer lock, commits or rolls back, and closes. Errors: StoreError.
        """

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One write transaction, which is on disk when the block ends; an exception rolls it back."""
        db = self.begin()
        with self.translated():
            try:
                yield db
                db.commit()
            finally:
                db.end()

    def prepare(self) -> None:
        """Create what the lock of the first writer needs.  Errors: StoreError."""
        return

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Around the first write: nothing is left of it if the block fails.  The caller holds the writer lock."""
        yield

    @abstractmethod
    def attach(self, durability: Durability) -> Connection:
        """A connection outside of a transaction that several threads may use in turn.

        The caller holds the writer lock. Errors: StoreError.
        """

    @abstractmethod
    def lock(self, clock: Clock, notify: Notify | None) -> Lock:
        """The lock of writers."""

    def break_lock(self, pid: int, host: str) -> bool:
        """Take the lock of writers away from a process that stands still, and whose transactions cannot be committed any more
        once its lease is taken; False if it has not got the lock, or if that is impossible.

        Errors: StoreError.
        """
        return False

    # -- operating it ------------------------------------------------------------------------------------------------

    @abstractmethod
    def stored_version(self) -> int:
        """The version of what is stored.  Errors: StoreError."""

    def integrity(self) -> list[str]:
        """What is wrong with the database, by its own means."""
        return []

    @abstractmethod
    def size(self) -> int:
        """In bytes."""

    @abstractmethod
    def shrink(self, on_progress: OnProgress) -> None:
        """Give free space back.  The caller holds the writer lock."""

    def back_up(self, path: Path, on_progress: OnProgress) -> bool:
        """Copy it to a new SQLite file; False if it has no means of its own for that."""
        return False


class ServerDatabase(Database):
    """A database that a server keeps.

    Args:
        path: a file of this machine in place of the store; it is created when it is needed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(0o600)
        return self._path
