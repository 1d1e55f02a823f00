"""Connections to PostgreSQL that the graphs of a process share.

A server of PostgreSQL has a process for each connection, and allows a hundred by default. So a process with many graphs must not
have connections for each of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from fluxres import limits
from fluxres.errors import StoreBusy


class Pooled(Protocol):
    """A connection."""

    @property
    def is_ended(self) -> bool:
        """Whether the server has ended it while it was idle."""

    @property
    def is_lost(self) -> bool:
        """Whether it is closed."""

    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Pooled)


class Pool(Generic[C]):
    """At most `POSTGRESQL_CONNECTIONS_MAX` connections, each with one user at a time.

    Args:
        connect: opens one.
        url: for messages.
    """

    def __init__(self, connect: Callable[[], C], url: str) -> None:
        self._connect, self._url = connect, url
        self._inherited: list[C] = []
        """Idle connections of the parent process, kept after a fork so that they are not closed: the parent uses them."""
        self._idle: list[C] = []
        self._users = 0
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._inherited, self._idle = self._idle, []
        self._places = threading.Semaphore(limits.POSTGRESQL_CONNECTIONS_MAX)
        self._guard = threading.Lock()

    def join(self) -> None:
        """Register a user; idle connections stay open as long as there is one."""
        with self._guard:
            self._users += 1

    def leave(self) -> None:
        """Unregister a user; the last one closes the idle connections."""
        with self._guard:
            self._users -= 1
            idle = [] if self._users else self._remove_idle()
        _close(idle)

    def take(self, wait_s: float) -> C:
        """A connection for one user, until it is given back.

        Errors: StoreBusy if all are in use for that long; those of a connection that cannot be opened.
        """
        if self._process != os.getpid():
            self._begin()
        if not self._places.acquire(timeout=wait_s):
            said = f"waited {wait_s:g} s for one of {limits.POSTGRESQL_CONNECTIONS_MAX} connections of this process"
            raise StoreBusy(said, where=self._url, hint="try again")
        try:
            with self._guard:
                if self._idle and self._idle[-1].is_ended:
                    _close(self._remove_idle())
                found = self._idle.pop() if self._idle else None
            return self._connect() if found is None else found
        except BaseException:
            self._places.release()
            raise

    def give(self, db: C) -> None:
        """Give a connection back, outside of a transaction.  If it was lost, so were those that are idle."""
        with self._guard:
            closing: list[C] = []
            if db.is_lost or db.in_transaction:
                closing = [db, *self._remove_idle()]
            elif not self._users:
                closing = [db]
            else:
                self._idle.append(db)
        _close(closing)
        self._places.release()

    def _remove_idle(self) -> list[C]:
        idle, self._idle = self._idle, []
        return idle


def _close(connections: Sequence[Pooled]) -> None:
    for db in connections:
        db.close()
