"""The SQLite file: its tables, how it is opened, and its errors in plain words.

Write-ahead logging lets readers continue during a write. ``synchronous=FULL`` makes every commit wait until the log is on
disk; with NORMAL, the default of WAL mode, a power failure could undo a change that a command has already reported as done.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from fluxres.clock import Clock, sleep, stopwatch
from fluxres.errors import StoreBusy, StoreError
from fluxres.store import lock
from fluxres.store.database import Connection, Database, Durability
from fluxres.store.disk import make_folder, sync_folder
from fluxres.store.encoding import way_out
from fluxres.store.lock import Notify, WriterLock
from fluxres.store.progress import OnProgress
from fluxres.store.sql import SqlConnection

APPLICATION_ID: Final = 0x666C7872
VERSION: Final = 3
_MAGIC: Final = b"SQLite format 3\0"
_PROBLEMS_MAX: Final = 20
_MB: Final = 1_000_000
_PAGES_AT_ONCE: Final = 256
"""Of a backup: a megabyte."""
_STEPS_BETWEEN_INTERRUPTS: Final = 100_000
"""Instructions of a statement of SQLite, some milliseconds."""
_BUSY_S: Final = 10.0
"""Timeout for SQLite's own locks: other writers hold them for milliseconds, unless another tool has the file open."""
_NO_SHARED_MEMORY: Final = (sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP)
"""There is no room for the file with the index of the log, which the first reader makes: the disk is full."""
_BETWEEN_READERS_S: Final = 0.01
"""Before a reader tries again to be the only one."""

_TABLES: Final = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE graphs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        uid TEXT NOT NULL,
        created REAL NOT NULL,
        generation INTEGER NOT NULL,
        pools INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        snapshot_seq INTEGER NOT NULL,
        weight INTEGER NOT NULL
    )""",
    "CREATE TABLE shapes (graph INTEGER PRIMARY KEY REFERENCES graphs (id), seq INTEGER NOT NULL, blob BLOB NOT NULL)",
    "CREATE TABLE snapshots (graph INTEGER PRIMARY KEY REFERENCES graphs (id), seq INTEGER NOT NULL, blob BLOB NOT NULL)",
    """CREATE TABLE events (
        graph INTEGER NOT NULL REFERENCES graphs (id),
        seq INTEGER NOT NULL,
        time REAL NOT NULL,
        command TEXT NOT NULL,
        body BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (graph, seq)
    )""",
)
_UPGRADES: Final = {
    2: {
        "previous": """CREATE TABLE {} (
            graph INTEGER PRIMARY KEY REFERENCES graphs (id),
            before INTEGER NOT NULL,
            after INTEGER NOT NULL,
            snapshot_seq INTEGER NOT NULL,
            shape BLOB,
            marks BLOB
        )""",
        "tickets": """CREATE TABLE {} (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            graph INTEGER NOT NULL REFERENCES graphs (id),
            job TEXT NOT NULL,
            priority INTEGER NOT NULL,
            body BLOB NOT NULL
        )""",
    }
}
"""Tables that a store of a version may lack, and the next version has; a new store is upgraded from the first of them."""

T = TypeVar("T")

_PAUSES_S: Final = (0.01, 0.05, 0.2)
_OPENING: Final = threading.Lock()
_CONNECTIONS: Final = Counter[tuple[int, int]]()
"""Connections of this process by device and inode of their files.

SQLite tells other processes by POSIX locks that it has a file open. These belong to the process, and the system drops them all
when it closes the file once, whoever opened it: another process would then take the write-ahead log away. So nothing else may
open a file while there is a connection to it.
"""


class _Counted(sqlite3.Connection):
    """A connection that is counted."""

    identity: tuple[int, int] | None = None

    def close(self) -> None:
        super().close()
        with _OPENING:
            if self.identity is not None:
                _CONNECTIONS[self.identity] -= 1
                self.identity = None


class SqliteConnection(SqlConnection):
    """A connection to a SQLite file."""

    def __init__(self, db: sqlite3.Connection, url: str) -> None:
        super().__init__(url)
        self.db = db

    @property
    def in_transaction(self) -> bool:
        return self.db.in_transaction

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:
        return self.db.execute(statement, parameters)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        return self.db.executemany(statement, rows)

    def begin_read(self) -> None:
        self.execute("BEGIN")

    def begin_write(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        self.db.close()

    def version(self, graph: int) -> int:
        (version,) = self.execute("PRAGMA data_version").fetchone()
        return int(version)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


class SqliteDatabase(Database):
    """One SQLite file.

    Args:
        path: of the file.
        private: create the file and its directory for the owner only.
    """

    kind = "an SQLite file"

    def __init__(self, path: Path, *, private: bool = False) -> None:
        self._path, self.private = path, private
        self.url = f"sqlite://{path}"
        self._translated = _Translated(path)

    @property
    def path(self) -> Path:
        return self._path

    def exists(self) -> bool:
        """Whether there is a file to open.

        Errors: StoreError for a directory, a device, and a file that cannot be accessed.
        """
        path = self._path
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise StoreError(f"cannot be accessed: {error.strerror}", where=str(path)) from None
        if stat.S_ISDIR(mode):
            raise StoreError("is a directory", where=str(path), hint=f"name a file in it, such as {path / 'fluxres.db'}")
        if not stat.S_ISREG(mode):
            raise StoreError("is not a regular file", where=str(path), hint="name a file")
        _check_head(path)
        return True

    def missing(self) -> Path | None:
        folder = self._path.parent
        return None if self.private or folder.is_dir() else folder

    def translated(self) -> AbstractContextManager[None]:
        return self._translated

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        if not self.exists():
            yield None
            return
        with self.translated():
            db, version = _patiently(self._connected_to_read, self._path)
            try:
                if version is not None:
                    for name, table in _missing_tables(db, version):
                        db.execute(table.format(f"temp.{name}"))  # it is read as if it had been upgraded
                    db.begin_read()
                    yield db
                    db.commit()
                else:
                    yield None
            finally:
                db.close()

    def _connected_to_read(self) -> tuple[SqliteConnection, int | None]:
        """A connection, and the version of the tables; also on a full disk, where one process reads after the other."""
        end = stopwatch() + _BUSY_S
        while True:
            try:
                return self._connected()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _NO_SHARED_MEMORY:
                    raise
            try:
                return self._connected(alone=True)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or stopwatch() > end:
                    raise
            sleep(_BETWEEN_READERS_S)

    def _connected(self, *, shared: bool = False, alone: bool = False) -> tuple[SqliteConnection, int | None]:
        """A connection, and the version of the tables."""
        db = SqliteConnection(_connect(self._path, shared=shared, alone=alone), self.url)
        try:
            return db, _version(db, self._path)
        except BaseException:
            db.close()
            raise

    def begin(self) -> Connection:
        return self._begun(shared=False)

    def _begun(self, *, shared: bool) -> SqliteConnection:
        path = self._path
        with self.translated():
            with _OPENING:
                if not path.exists():
                    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600 if self.private else 0o666))
                    sync_folder(path.parent)
            return _patiently(lambda: self._opened_to_write(shared=shared), path)

    def _opened_to_write(self, *, shared: bool) -> SqliteConnection:
        db, version = self._connected(shared=shared)
        try:
            _make_durable(db, self._path)
            db.begin_write()
            if version != VERSION:
                _upgrade(db, version)
        except BaseException:
            db.close()
            raise
        return db

    def prepare(self) -> None:
        make_folder(self._path.parent, private=self.private)

    @contextmanager
    def creating(self) -> Iterator[None]:
        before = self.exists()
        try:
            yield
        except BaseException:
            if not before:
                for name in (self._path.name, self._path.name + "-wal", self._path.name + "-shm"):
                    with suppress(OSError):
                        self._path.with_name(name).unlink()
            raise

    def attach(self, durability: Durability) -> Connection:
        with self.translated():
            db = self._begun(shared=True)
            try:
                db.commit()
                db.execute(f"PRAGMA synchronous = {durability}")
            except BaseException:
                db.close()
                raise
            return db

    def lock(self, clock: Clock, notify: Notify | None) -> WriterLock:
        return WriterLock(self._lock_path, clock=clock, notify=notify, mode=self._mode())

    def break_lock(self, pid: int, host: str) -> bool:
        return lock.remove_of(self._lock_path, pid, host)

    def stored_version(self) -> int:
        with self._opened() as db:
            return _version(db, self._path) or VERSION

    def integrity(self) -> list[str]:
        if not self.exists():
            return []
        with self._opened(to_read=True) as db:
            said = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({_PROBLEMS_MAX})")]
            lost = {f"a row of {row[0]} is of no graph" for row in db.execute("PRAGMA foreign_key_check")}
        return [line for line in said if line != "ok"] + sorted(lost)

    def size(self) -> int:
        found = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                found += self._path.with_name(self._path.name + suffix).stat().st_size
        return found

    def shrink(self, on_progress: OnProgress) -> None:
        with self._opened() as db:
            on_progress("giving back space", 0, 2, "steps")
            db.execute("VACUUM")
            on_progress("clearing the log", 1, 2, "steps")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def back_up(self, path: Path, on_progress: OnProgress) -> bool:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._mode()))
        with self._opened(to_read=True) as db, closing(sqlite3.connect(path)) as copy:
            (page_bytes,) = db.execute("PRAGMA page_size").fetchone()

            def report(_status: int, left: int, total: int) -> None:
                on_progress(f"copying {self._path.name}", (total - left) * page_bytes / _MB, total * page_bytes / _MB, "MB")

            db.begin_read()
            db.execute("SELECT count(*) FROM graphs").fetchone()  # all pages are of this moment
            db.db.backup(copy, pages=_PAGES_AT_ONCE, progress=report)
            db.rollback()
        return True

    @contextmanager
    def _opened(self, *, to_read: bool = False) -> Iterator[SqliteConnection]:
        """A connection outside of a transaction.

        Args:
            to_read: only, also on a full disk; the caller has no other connection then.
        """
        with self.translated():
            if to_read:
                db, _ = _patiently(self._connected_to_read, self._path)
            else:
                db = SqliteConnection(_connect(self._path), self.url)
            try:
                db.db.set_progress_handler(_let_interrupt, _STEPS_BETWEEN_INTERRUPTS)
                yield db
            finally:
                db.close()

    @property
    def _lock_path(self) -> Path:
        return self._path.with_name(self._path.name + ".lock")

    def _mode(self) -> int:
        """The mode of a store, which the files beside it get as well: who may write to one must be able to write to all."""
        try:
            return stat.S_IMODE(self._path.stat().st_mode) & 0o666 | 0o600
        except OSError:
            umask = os.umask(0o077)
            os.umask(umask)
            return 0o600 if self.private else 0o666 & ~umask


def _let_interrupt() -> None:
    """Let Python handle a signal within a long statement: an exception of the handler ends the statement."""


class _Translated(AbstractContextManager[None]):
    """Translates errors of SQLite and the system about this file into StoreError, with a hint.

    It has no state, so one serves all blocks: each change passes several.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if isinstance(error, sqlite3.Error):
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from None
            raise _translate(error, self._path) from error
        if isinstance(error, UnicodeDecodeError):
            # Names in the schema and in error messages come from the file and may be damaged, too.
            hint = "restore a backup (see fluxres help stores)"
            raise StoreError("the database is damaged: a text in it is not UTF-8", where=str(self._path), hint=hint) from error
        if isinstance(error, OSError):
            hint = "check the permissions of the file and its directory"
            raise StoreError(f"cannot be used: {error.strerror or error}", where=str(self._path), hint=hint) from error


def _translate(error: sqlite3.Error, path: Path) -> StoreError:
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF
    where = str(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):  # the last if one was stopped as it began
        return StoreBusy("another program has this database locked", where=where, hint="close it there, then try again")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError("is not a SQLite database", where=where, hint="name another file, or move this one away")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreError(f"the database is damaged: {error}", where=where, hint="restore a backup (see fluxres help stores)")
    if code == sqlite3.SQLITE_FULL or extended in _NO_SHARED_MEMORY:
        return StoreError("no space left; nothing was changed", where=where, hint="free some space, then try again")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreError("is not writable", where=where, hint="check the permissions of the file and its directory")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"cannot be opened: {error}", where=where, hint="check the permissions of the file and its directory")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"{error}; nothing was changed", where=where, hint="check the disk and its free space")
    return StoreError(f"the database cannot be read: {error}", where=where, hint="restore a backup (see fluxres help stores)")


def _check_head(path: Path) -> None:
    # SQLite considers a file of a few bytes an empty database and would overwrite it. A file whose first page was being
    # written at a power failure is valid only together with its journal, from which SQLite repairs it.
    with _OPENING, _Translated(path):
        if _CONNECTIONS[_identity(path)]:
            return
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    if head and head != _MAGIC and not path.with_name(path.name + "-journal").exists():
        raise StoreError("is not a SQLite database", where=str(path), hint="name another file, or move this one away")


def _connect(path: Path, *, shared: bool = False, alone: bool = False) -> sqlite3.Connection:
    """A connection.

    Args:
        shared: several threads use it.
        alone: no other connection uses the database meanwhile, and the index of the log is in the memory of this process. Two
            that wait for each other hold each other up, so it does not wait.
    """
    options = "mode=rw"
    if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        # Write-ahead logging keeps two files beside the database; if they do not exist and cannot be created, there is no writer.
        options = "mode=ro&immutable=1"
    address = f"file:{quote(str(path))}?{options}"
    with _OPENING:
        db = sqlite3.connect(
            address,
            uri=True,
            timeout=0 if alone else _BUSY_S,
            isolation_level=None,
            check_same_thread=not shared,
            factory=_Counted,
        )
        db.identity = _identity(path)
        _CONNECTIONS[db.identity] += 1
    try:
        if alone:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


def _patiently(open_it: Callable[[], T], path: Path) -> T:
    """Open a database, again after a moment if a file beside it cannot be used although the database can.

    SQLite gives the files of the write-ahead log the mode and the owner of the database, but only after it has created them: for
    a moment they belong to root alone, if root has opened the database.
    """
    for pause_s in _PAUSES_S:
        try:
            return open_it()
        except sqlite3.OperationalError as error:
            code = error.sqlite_errorcode & 0xFF
            if code not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) or not os.access(path, os.R_OK | os.W_OK):
                raise
            sleep(pause_s)
    return open_it()


def _make_durable(db: SqliteConnection, path: Path) -> None:
    (journal,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise StoreError(
            "this file system cannot keep a write-ahead log", where=str(path), hint="put the store on a local file system"
        )


_VERSION: Final = """
SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version, pragma_application_id
"""


def _version(db: SqliteConnection, path: Path) -> int | None:
    """The version of the tables; None for an empty file.

    Errors: StoreError for another program's database, and for one that cannot be upgraded.
    """
    version, application, tables = db.execute(_VERSION).fetchone()
    if not tables and not version and not application:
        return None
    if application != APPLICATION_ID:
        raise StoreError("is a database of another program", where=str(path), hint="name another file")
    if version != VERSION and version not in _UPGRADES:
        said = f"has version {version}, but this fluxres supports only versions {min(_UPGRADES)} to {VERSION}"
        raise StoreError(said, where=str(path), hint=way_out(version, VERSION))
    return int(version)


def _missing_tables(db: SqliteConnection, version: int) -> list[tuple[str, str]]:
    """Names and statements of the tables that a store of this version may lack, and lacks."""
    if version == VERSION:
        return []
    there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    wanted = {name: table for number, tables in _UPGRADES.items() if number >= version for name, table in tables.items()}
    return [(name, table) for name, table in wanted.items() if name not in there]


def _upgrade(db: SqliteConnection, version: int | None) -> None:
    """Make the tables of the present version, within a transaction."""
    if version is None:
        for table in _TABLES:
            db.execute(table)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for name, table in _missing_tables(db, min(_UPGRADES) if version is None else version):
        db.execute(table.format(name))
    db.execute(f"PRAGMA user_version = {VERSION}")
