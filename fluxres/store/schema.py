"""The SQLite file: its tables, how it is opened, and its errors in plain words.

Write-ahead logging lets readers continue during a write. ``synchronous=FULL`` makes every commit wait until the log is on
disk; with NORMAL, the default of WAL mode, a power failure could undo a change that a command has already reported as done.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from fluxres.errors import StoreBusy, StoreError
from fluxres.store.disk import sync_folder
from fluxres.store.encoding import way_out

APPLICATION_ID: Final = 0x666C7872
VERSION: Final = 2
_MAGIC: Final = b"SQLite format 3\0"
_BUSY_S: Final = 10.0
"""Timeout for SQLite's own locks: other writers hold them for milliseconds, unless another tool has the file open."""

Durability = Literal["full", "normal"]
"""What a commit waits for: the disk, or the system, which loses the last commits when the power fails."""

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
_PREVIOUS: Final = """CREATE TABLE IF NOT EXISTS previous (
    graph INTEGER PRIMARY KEY REFERENCES graphs (id),
    before INTEGER NOT NULL,
    after INTEGER NOT NULL,
    snapshot_seq INTEGER NOT NULL,
    shape BLOB,
    marks BLOB
)"""
"""The state before the last change of each graph, for `undo`. A store without this table gets it with the next write."""

_TICKETS: Final = """CREATE TABLE IF NOT EXISTS tickets (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    graph INTEGER NOT NULL REFERENCES graphs (id),
    job TEXT NOT NULL,
    priority INTEGER NOT NULL,
    body BLOB NOT NULL
)"""
"""Requests that wait for resources (:mod:`fluxres.store.tickets`); a store without this table gets it in the same way."""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate errors of SQLite and the system about this file into StoreError, with a hint."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:
        # Names in the schema and in error messages come from the file and may be damaged, too.
        hint = "restore a backup (see fluxres help store)"
        raise StoreError("the database is damaged: a text in it is not UTF-8", where=str(path), hint=hint) from error
    except OSError as error:
        hint = "check the permissions of the file and its directory"
        raise StoreError(f"cannot be used: {error.strerror or error}", where=str(path), hint=hint) from error


def _translate(error: sqlite3.Error, path: Path) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    where = str(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy("another program has this database locked", where=where, hint="close it there, then try again")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreError("is not a SQLite database", where=where, hint="name another file, or move this one away")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreError(f"the database is damaged: {error}", where=where, hint="restore a backup (see fluxres help store)")
    if code == sqlite3.SQLITE_FULL:
        return StoreError("no space left; nothing was changed", where=where, hint="free some space, then try again")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreError("is not writable", where=where, hint="check the permissions of the file and its directory")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"cannot be opened: {error}", where=where, hint="check the permissions of the file and its directory")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"{error}; nothing was changed", where=where, hint="check the disk and its free space")
    return StoreError(f"the database cannot be read: {error}", where=where, hint="restore a backup (see fluxres help store)")


def exists(path: Path) -> bool:
    """Whether there is a file to open.

    Errors: StoreError for a directory, a device, and a file that cannot be accessed.
    """
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


def _check_head(path: Path) -> None:
    # SQLite considers a file of a few bytes an empty database and would overwrite it. A file whose first page was being
    # written at a power failure is valid only together with its journal, from which SQLite repairs it.
    with translated(path), path.open("rb") as file:
        head = file.read(len(_MAGIC))
    if head and head != _MAGIC and not path.with_name(path.name + "-journal").exists():
        raise StoreError("is not a SQLite database", where=str(path), hint="name another file, or move this one away")


def mode_of(path: Path, *, private: bool) -> int:
    """The mode of a store, which the files beside it get as well: who may write to one must be able to write to all.

    Args:
        private: whether a store that does not exist yet will be for the owner only.
    """
    try:
        return stat.S_IMODE(path.stat().st_mode) & 0o666 | 0o600
    except OSError:
        umask = os.umask(0o077)
        os.umask(umask)
        return 0o600 if private else 0o666 & ~umask


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """One read transaction: everything read in the block is one state, and no writer has to wait.

    None if there is no store yet: no file, or an empty one.

    Errors: StoreError.
    """
    if not exists(path):
        yield None
        return
    with translated(path), closing(_connect(path)) as db:
        if _check_version(db, path):
            db.execute("BEGIN")
            yield db
            db.execute("COMMIT")
        else:
            yield None


def attach(path: Path, durability: Durability) -> sqlite3.Connection:
    """A connection to an existing store that several threads may use in turn, with all tables.

    Args:
        durability: whether a commit waits for the disk.

    Errors: StoreError.  The caller holds the writer lock.
    """
    with translated(path):
        db = begin(path, shared=True)
        try:
            db.execute("COMMIT")
            db.execute(f"PRAGMA synchronous = {durability}")
        except BaseException:
            db.close()
            raise
        return db


def begin(path: Path, *, private: bool = False, shared: bool = False) -> sqlite3.Connection:
    """A connection within a write transaction, in which missing tables have been created.

    The caller holds the writer lock, commits or rolls back, and closes.

    Args:
        private: create a missing file for the owner only.
        shared: threads may use it in turn.

    Errors: StoreError.
    """
    with translated(path):
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600 if private else 0o666))
            sync_folder(path.parent)
        db = _connect(path, shared=shared)
        try:
            has_tables = _check_version(db, path)
            _make_durable(db, path)
            db.execute("BEGIN IMMEDIATE")
            if not has_tables:
                for table in _TABLES:
                    db.execute(table)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {VERSION}")
            db.execute(_PREVIOUS)
            db.execute(_TICKETS)
        except BaseException:
            db.close()
            raise
        return db


def end(db: sqlite3.Connection) -> None:
    """Roll back what was not committed, and close."""
    try:
        if db.in_transaction:
            db.execute("ROLLBACK")
    finally:
        db.close()


@contextmanager
def writing(path: Path, *, private: bool) -> Iterator[sqlite3.Connection]:
    """One write transaction, which is on disk when the block ends; an exception rolls it back.

    Args: as for :func:`begin`.
    """
    db = begin(path, private=private)
    with translated(path):
        try:
            yield db
            db.execute("COMMIT")
        finally:
            end(db)


@contextmanager
def unless_failed(path: Path) -> Iterator[None]:
    """Remove an empty database that did not exist before a failed block.  The caller holds the writer lock."""
    before = exists(path)
    try:
        yield
    except BaseException:
        if not before:
            for name in (path.name, path.name + "-wal", path.name + "-shm"):
                with suppress(OSError):
                    path.with_name(name).unlink()
        raise


def _connect(path: Path, *, shared: bool = False) -> sqlite3.Connection:
    options = "mode=rw"
    if not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists():
        # Write-ahead logging keeps two files beside the database; if they do not exist and cannot be created, there is no writer.
        options = "mode=ro&immutable=1"
    address = f"file:{quote(str(path))}?{options}"
    db = sqlite3.connect(address, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=not shared)
    try:
        db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


def _make_durable(db: sqlite3.Connection, path: Path) -> None:
    (journal,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if journal != "wal":
        raise StoreError(
            "this file system cannot keep a write-ahead log", where=str(path), hint="put the store on a local file system"
        )


def _check_version(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the tables exist; False for an empty file.

    Errors: StoreError for another program's database, and for one of another version.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not version and not application:
        return False
    if application != APPLICATION_ID:
        raise StoreError("is a database of another program", where=str(path), hint="name another file")
    if version != VERSION:
        said = f"has version {version}, but this fluxres supports only version {VERSION}"
        raise StoreError(said, where=str(path), hint=way_out(version, VERSION))
    return True
