"""Connections to PostgreSQL that the graphs of a process share.

A server of PostgreSQL has a process for each connection, and allows a hundred by default, so a process with many graphs must not
have some for each of them.
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
        """Whether the server has ended it while nobody asked."""

    @property
    def is_lost(self) -> bool:
        """Whether it is closed."""

    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Pooled)


class Pool(Generic[C]):
    """At most `POSTGRESQL_CONNECTIONS_MAX` connections, each of which one user has at a time.

    Args:
        connect: opens one.
        url: for messages.
    """

    def __init__(self, connect: Callable[[], C], url: str) -> None:
        self._connect, self._url = connect, url
        self._inherited: list[C] = []
        """Those of the process of which this one is a fork: it goes on using them, and nobody here may close them."""
        self._idle: list[C] = []
        self._users = 0
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._inherited, self._idle = self._idle, []
        self._places = threading.Semaphore(limits.POSTGRESQL_CONNECTIONS_MAX)
        self._guard = threading.Lock()

    def join(self) -> None:
        """Begin to use it now and then; connections stay open as long as somebody does."""
        with self._guard:
            self._users += 1

    def leave(self) -> None:
        with self._guard:
            self._users -= 1
            idle = [] if self._users else self._taken_idle()
        _close(idle)

    def take(self, wait_s: float) -> C:
        """A connection, which nobody else has until it is given back.

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
                    _close(self._taken_idle())
                found = self._idle.pop() if self._idle else None
            return self._connect() if found is None else found
        except BaseException:
            self._places.release()
            raise

    def give(self, db: C) -> None:
        """Give a connection back, outside of a transaction.  If it was lost, so were those that are idle."""
        with self._guard:
            lost = [db, *self._taken_idle()] if db.is_lost or db.in_transaction else []
            if not lost and not self._users:
                lost = [db]
            if not lost:
                self._idle.append(db)
        _close(lost)
        self._places.release()

    def _taken_idle(self) -> list[C]:
        idle, self._idle = self._idle, []
        return idle


def _close(connections: Sequence[Pooled]) -> None:
    for db in connections:
        db.close()
