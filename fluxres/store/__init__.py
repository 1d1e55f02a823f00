"""Persistent storage of graphs: snapshots and a journal, addressed by URL.

A store keeps named graphs. A writer holds the store's lock, works on the current state, and is done only when the change is on
disk (rule D1). A reader sees one consistent state and never waits for a writer.
"""

from __future__ import annotations

from fluxres import clock as clocks
from fluxres.clock import Clock
from fluxres.store.journal import Entry
from fluxres.store.lock import Holder, Notify
from fluxres.store.rows import GraphRow
from fluxres.store.sqlite import Position, SqliteStore, Transaction
from fluxres.store.url import StoreUrl, default, is_store_url, parse

__all__ = [
    "Entry",
    "GraphRow",
    "Holder",
    "Notify",
    "Position",
    "SqliteStore",
    "StoreUrl",
    "Transaction",
    "is_store_url",
    "open_store",
]


def open_store(url: str | None = None, *, clock: Clock = clocks.system, notify: Notify | None = None) -> SqliteStore:
    """The store at this address; nothing is read or created yet.

    Args:
        url: ``sqlite:///path/to/file.db`` with or without ``?graph=NAME``, or a path; by default ``$FLUXRES_STORE``, else the
            SQLite file in the XDG data directory.
        clock: gives the time of journal entries, and "now" of the graphs.
        notify: called with the holder of the lock when a write waits for more than half a second.

    Errors: StoreError for an unknown scheme.

    >>> open_store("/srv/site.db").url
    'sqlite:///srv/site.db'
    """
    return SqliteStore(default() if url is None else parse(url), clock=clock, notify=notify)
