"""A store in a PostgreSQL database, which several machines share.

The tables are in the schema ``fluxres``. Writers exclude each other by an advisory lock, which the server gives in the order in
which they came and releases with the connection. A writer whose lock was lost with its connection cannot do harm: each commit
requires that the graph is still in the state that it changed.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fluxres import limits
from fluxres.clock import Clock
from fluxres.errors import InDoubt, StoreBusy, StoreError, StoreUnreachable, UsageError
from fluxres.store.database import Connection, Durability, ServerDatabase
from fluxres.store.encoding import way_out
from fluxres.store.lock import TELL_AFTER_S, Holder, Notify
from fluxres.store.pool import Pool
from fluxres.store.progress import OnProgress
from fluxres.store.sql import Cursor, SqlConnection
from fluxres.store.url import without_password

if TYPE_CHECKING:
    import psycopg

VERSION: Final = 1
_LOCK: Final = "26220, 30834"
"""The advisory lock of writers: `fl`, `xr`."""
_CONNECT_S: Final = 10
_REFUSED: Final = re.compile("(role|database) .* does not exist|authentication failed|no pg_hba.conf entry|no password supplied")
_TABLES: Final = (
    "CREATE SCHEMA IF NOT EXISTS fluxres",
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS graphs (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        uid TEXT NOT NULL,
        created DOUBLE PRECISION NOT NULL,
        generation BIGINT NOT NULL,
        pools BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        snapshot_seq BIGINT NOT NULL,
        weight BIGINT NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS shapes (
        graph BIGINT PRIMARY KEY REFERENCES graphs (id), seq BIGINT NOT NULL, blob BYTEA NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS snapshots (
        graph BIGINT PRIMARY KEY REFERENCES graphs (id), seq BIGINT NOT NULL, blob BYTEA NOT NULL
    )""",
    """CREATE TABLE IF NOT EXISTS events (
        graph BIGINT NOT NULL REFERENCES graphs (id),
        seq BIGINT NOT NULL,
        time DOUBLE PRECISION NOT NULL,
        command TEXT NOT NULL,
        body BYTEA NOT NULL,
        checksum BIGINT NOT NULL,
        PRIMARY KEY (graph, seq)
    )""",
    """CREATE TABLE IF NOT EXISTS previous (
        graph BIGINT PRIMARY KEY REFERENCES graphs (id),
        before BIGINT NOT NULL,
        after BIGINT NOT NULL,
        snapshot_seq BIGINT NOT NULL,
        shape BYTEA,
        marks BYTEA
    )""",
    """CREATE TABLE IF NOT EXISTS tickets (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        graph BIGINT NOT NULL REFERENCES graphs (id),
        job TEXT NOT NULL,
        priority BIGINT NOT NULL,
        body BYTEA NOT NULL
    )""",
)
_SIZE: Final = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'fluxres' AND c.relkind = 'r'"""
_HOLDER: Final = """SELECT a.pid, a.application_name, extract(epoch FROM a.state_change), host(a.client_addr)
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND (l.classid, l.objid) = (26220, 30834) AND l.granted
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_END: Final = """SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity
WHERE application_name LIKE ? AND datname = current_database() AND pid <> pg_backend_pid()"""
_WANTED: Final = """SELECT EXISTS (SELECT 1 FROM pg_locks
WHERE locktype = 'advisory' AND (classid, objid) = (26220, 30834) AND NOT granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""


class PostgresqlConnection(SqlConnection):
    """A connection to a PostgreSQL server.

    Attributes:
        name: by which the server knows who has it.
    """

    def __init__(self, db: psycopg.Connection[Any], url: str, name: str) -> None:
        super().__init__(url)
        self.db, self.name = db, name

    @property
    def is_lost(self) -> bool:
        return self.db.closed

    @property
    def is_ended(self) -> bool:
        """Whether the server has ended it while nobody asked: there is something to read, the end."""
        if self.db.closed:
            return True
        asked = select.poll()
        asked.register(self.db.fileno(), select.POLLIN)
        return bool(asked.poll(0))

    @property
    def in_transaction(self) -> bool:
        from psycopg.pq import TransactionStatus

        return self.db.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Cursor:
        cursor: Any = self.db.execute(statement.replace("?", "%s").encode(), parameters or None)
        return cursor if cursor.description is not None or cursor.rowcount >= 0 else _Nothing()

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        with self.db.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s").encode(), list(rows))

    def begin_read(self) -> None:
        self.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def begin_write(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        is_sent = not self.db.closed
        try:
            super().commit()
        except imported(self.url).OperationalError as error:
            if not (is_sent and self.db.closed):
                raise
            said = f"{_translate(error, self.url).message}; the change may or may not have been made"
            raise InDoubt(said, where=self.url, hint="check the current state") from error

    def version(self, graph: int) -> int:
        found = self.execute("SELECT seq + snapshot_seq FROM graphs WHERE id = ?", (graph,)).fetchone()
        return -1 if found is None else int(found[0])

    def close(self) -> None:
        self.db.close()


class SharedConnection(SqlConnection):
    """A connection that has one of a pool during each transaction, or each statement outside of one.

    Args:
        durability: of its commits.
    """

    def __init__(self, pool: Pool[PostgresqlConnection], url: str, durability: Durability) -> None:
        super().__init__(url)
        self._pool, self._durability = pool, durability
        self._own: PostgresqlConnection | None = None
        self._is_lost = self._is_closed = False
        pool.join()

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    @property
    def in_transaction(self) -> bool:
        return self._own is not None

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Cursor:
        with self._borrowed() as db:
            return db.execute(statement, parameters)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        with self._borrowed() as db:
            db.executemany(statement, rows)

    def begin_read(self) -> None:
        self._begin().begin_read()

    def begin_write(self) -> None:
        db = self._begin()
        db.begin_write()
        if self._durability == "normal":
            db.execute("SET LOCAL synchronous_commit = off")

    def commit(self) -> None:
        assert self._own is not None
        try:
            self._own.commit()
        finally:
            self._end()

    def rollback(self) -> None:
        assert self._own is not None
        try:
            self._own.rollback()
        finally:
            self._end()

    def version(self, graph: int) -> int:
        with self._borrowed() as db:
            return db.version(graph)

    def close(self) -> None:
        if self._own is not None:
            self._end()
        if not self._is_closed:
            self._is_closed = True
            self._pool.leave()

    def _begin(self) -> PostgresqlConnection:
        self._own = self._pool.take(limits.LOCK_WAIT_SECONDS_DEFAULT)
        return self._own

    def _end(self) -> None:
        db, self._own = self._own, None
        if db is not None:
            self._is_lost = self._is_lost or db.is_lost
            self._pool.give(db)

    @contextmanager
    def _borrowed(self) -> Iterator[PostgresqlConnection]:
        if self._own is not None:
            yield self._own
            return
        db = self._begin()
        try:
            yield db
        finally:
            self._end()


class _Nothing:
    """The answer to a statement that answers nothing."""

    rowcount = 0

    def fetchone(self) -> None:
        return None

    def fetchall(self) -> list[Any]:
        return []

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class PostgresqlDatabase(ServerDatabase):
    """A PostgreSQL database.

    Args:
        address: ``postgresql://user:password@host:port/name``, as libpq reads it.
        path: a file of this machine in place of the store; it is created when it is needed.
    """

    kind = "a PostgreSQL database"

    def __init__(self, address: str, path: Path) -> None:
        super().__init__(path)
        self.address = address
        self.url = without_password(address)
        self._pool = Pool(self._connect, self.url)
        self.lock_pool = Pool(self._connect, self.url)
        """Separate, so that threads that wait for the lock leave connections for the commit of the one that has it."""

    @contextmanager
    def translated(self) -> Iterator[None]:
        psycopg = imported(self.url)
        try:
            yield
        except psycopg.Error as error:
            raise _translate(error, self.url) from error

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        with self.translated():
            db = self._shared("full")
            try:
                db.begin_read()
                yield db if self._has_tables(db) else None
            finally:
                db.end()

    def begin(self) -> Connection:
        return self._begun("full")

    def attach(self, durability: Durability) -> Connection:
        db = self._begun(durability)
        with self.translated():
            try:
                db.commit()
            except BaseException:
                db.close()
                raise
            return db

    def _begun(self, durability: Durability) -> Connection:
        """A connection within a write transaction, in which there are tables."""
        with self.translated():
            db = self._shared(durability)
            try:
                db.begin_write()
                if not self._has_tables(db):
                    for table in _TABLES:
                        db.execute(table)
                    db.execute("INSERT INTO meta (key, value) VALUES ('version', ?)", (str(VERSION),))
            except BaseException:
                db.close()
                raise
            return db

    def _shared(self, durability: Durability) -> SharedConnection:
        return SharedConnection(self._pool, self.url, durability)

    def lock(self, clock: Clock, notify: Notify | None) -> AdvisoryLock:
        return AdvisoryLock(self, notify)

    def break_lock(self, pid: int, host: str) -> bool:
        with self._opened() as db:
            return bool(db.execute(_END, (f"fluxres {pid}@{host} %",)).fetchone()[0])

    def stored_version(self) -> int:
        with self.reading():  # there is only one version so far
            return VERSION

    def size(self) -> int:
        with self._opened() as db:
            return int(db.execute(_SIZE).fetchone()[0])

    def shrink(self, on_progress: OnProgress) -> None:
        tables = ("meta", "graphs", "shapes", "snapshots", "events", "previous", "tickets")
        with self._opened() as db:
            for number, table in enumerate(tables):
                on_progress(f"giving back space of {table}", number, len(tables), "tables")
                db.execute(f"VACUUM fluxres.{table}")

    @contextmanager
    def _opened(self) -> Iterator[PostgresqlConnection]:
        """A connection outside of a transaction."""
        with self.translated():
            db = self._connect()
            try:
                yield db
            finally:
                db.close()

    def name_of(self, command: str) -> str:
        """By which the server knows this process."""
        return f"fluxres {os.getpid()}@{os.uname().nodename} {' '.join(command.split())}"[:63]

    def _connect(self) -> PostgresqlConnection:
        psycopg = imported(self.url)
        name = self.name_of("")
        own = {"autocommit": True, "connect_timeout": _CONNECT_S, "application_name": name}
        given = psycopg.conninfo.conninfo_to_dict(self.address)
        db = psycopg.connect(self.address, **own, **{key: value for key, value in _alive().items() if key not in given})
        db.execute("SET search_path TO fluxres")
        return PostgresqlConnection(db, self.url, name)

    def _has_tables(self, db: SqlConnection) -> bool:
        """Whether the tables are there.

        Errors: StoreError for those of another version.
        """
        if db.execute("SELECT to_regclass('fluxres.meta')").fetchone()[0] is None:
            return False
        found = db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
        version = found[0] if found is not None else "unknown"
        if version != str(VERSION):
            said = f"has version {version}, but this fluxres supports only version {VERSION}"
            raise StoreError(said, where=self.url, hint=way_out(int(version) if version.isdigit() else 0, VERSION))
        return True


class AdvisoryLock:
    """The lock of one writer: a connection that has the advisory lock of the database while the writer has it."""

    def __init__(self, database: PostgresqlDatabase, notify: Notify | None) -> None:
        self._database, self._notify = database, notify
        self._db: PostgresqlConnection | None = None
        self._is_closed = False
        database.lock_pool.join()

    def acquire(self, command: str, wait_s: float) -> None:
        if not wait_s >= 0:
            raise UsageError(f"wait: expected at least 0 seconds, got {wait_s!r}")
        try:
            with self._database.translated():
                holder = self._acquired(command, wait_s)
        except BaseException:
            self._discard()
            raise
        if holder is None:
            return
        self._give()
        raise StoreBusy(
            f"waited {wait_s:g} s for {holder}, which is writing to this store",
            where=self._database.url,
            hint="wait longer with --wait, or end that process",
        )

    def _acquired(self, command: str, wait_s: float) -> Holder | None:
        """Wait for the lock; another holder if it was not given in time."""
        db, is_free = self._asked(command, wait_s)
        first_s = min(TELL_AFTER_S, wait_s)
        if is_free or self._waited(db, first_s):
            return None
        if self._notify is not None and wait_s > TELL_AFTER_S:
            self._notify(self._holder(db))
        return None if self._waited(db, wait_s - first_s) else self._holder(db)

    def is_wanted(self) -> bool:
        if self._db is None:
            return False
        try:
            with self._database.translated():
                return bool(self._db.execute(_WANTED).fetchone()[0])
        except StoreError:
            return True  # the lock is lost with its connection

    def release(self) -> None:
        if self._db is not None:
            try:
                with self._database.translated():
                    self._db.execute(f"SELECT pg_advisory_unlock({_LOCK})")
            except BaseException:
                self._discard()
                raise
            self._give()

    def close(self) -> None:
        if self._db is not None:
            # A server learns some time later that a connection is closed; the lock is to be free when this returns.
            with suppress(StoreError):
                self.release()
        if not self._is_closed:
            self._is_closed = True
            self._database.lock_pool.leave()

    def _discard(self) -> None:
        """End a connection that may have the lock."""
        if self._db is not None:
            self._db.close()
        self._give()

    def _give(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            self._database.lock_pool.give(db)

    def _asked(self, command: str, wait_s: float) -> tuple[PostgresqlConnection, bool]:
        """The connection, and whether the lock was free and is had now; another connection if the server has ended this one."""
        name = self._database.name_of(command)
        for has_retry in (True, False):
            self._db = db = self._database.lock_pool.take(max(wait_s, TELL_AFTER_S))
            try:
                if db.name != name:
                    db.execute("SELECT set_config('application_name', ?, false)", (name,))
                    db.name = name
                return db, bool(db.execute(f"SELECT pg_try_advisory_lock({_LOCK})").fetchone()[0])
            except imported(self._database.url).OperationalError:
                if not (has_retry and db.is_lost):
                    raise
                self._give()
        raise AssertionError

    def _waited(self, db: PostgresqlConnection, wait_s: float) -> bool:
        """Whether the lock was given in time."""
        psycopg = imported(self._database.url)
        if wait_s <= 0:
            return False
        db.execute(f"SET lock_timeout = {max(1, round(wait_s * 1000))}")
        try:
            db.execute(f"SELECT pg_advisory_lock({_LOCK})")
        except psycopg.errors.LockNotAvailable:
            return False
        finally:
            db.execute("SET lock_timeout = 0")
        return True

    def _holder(self, db: PostgresqlConnection) -> Holder:
        found = db.execute(_HOLDER).fetchone()
        if found is None:
            return Holder()
        named = re.match(r"fluxres (\d+)@(\S+) ?(.*)", found[1] or "")
        since = None if found[2] is None else float(found[2])
        return Holder(int(named[1]), named[3], since, named[2]) if named else Holder(found[0], "", since, found[3] or "")


def _alive() -> dict[str, int]:
    """Options of libpq by which a connection ends whose server is cut off; otherwise it would wait for hours."""
    dead_s = limits.POSTGRESQL_DEAD_SECONDS
    each_s = dead_s // 4
    return {
        "keepalives_idle": each_s,
        "keepalives_interval": each_s,
        "keepalives_count": 3,
        "tcp_user_timeout": dead_s * 1000,
    }


def imported(url: str) -> Any:
    """The module psycopg.

    Errors: StoreError naming the extra to install.
    """
    try:
        import psycopg
    except ImportError:
        hint = "pip install 'psycopg[binary]'"
        raise StoreError("PostgreSQL needs the package psycopg", where=url, hint=hint) from None
    return psycopg


def _translate(error: Any, url: str) -> StoreError:
    from psycopg import errors

    said = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, errors.DiskFull):
        return StoreError("no space left; nothing was changed", where=url, hint="free some space, then try again")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(f"may not be used: {said}", where=url, hint="use another role, or let the owner grant more rights")
    if isinstance(error, errors.OperationalError) and _REFUSED.search(said):
        hint = "check the user, the password and the name of the database; `createdb` makes one"
        return StoreError(f"the server refuses the connection: {said}", where=url, hint=hint)
    if isinstance(error, errors.OperationalError):
        said = f"the server cannot be reached, or ended the connection: {said}"
        return StoreUnreachable(said, where=url, hint="check the server")
    return StoreError(f"the database answers: {said}", where=url, hint="check the server's log")
