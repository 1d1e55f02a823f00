"""Where graphs outlive a process: snapshots and a journal, addressed by URL.

A store keeps named graphs.  A writer holds the store's lock, works on the state the store is in, and is done only when the
change is on the disk (rule D1).  A reader sees one state and waits for no writer.
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
    """The store at this address; nothing is read or made yet.

    Args:
        url: ``sqlite:///path/to/file.db`` with or without ``?graph=NAME``, or a path; by default ``$FLUXRES_STORE``, else the
            SQLite file in the XDG data folder.
        clock: gives the time of journal entries, and "now" of the graphs.
        notify: called with the holder of the lock when a write waits for more than half a second.

    Errors: StoreError for a scheme there is no store of.

    >>> open_store("/srv/site.db").url
    'sqlite:///srv/site.db'
    """
    return SqliteStore(default() if url is None else parse(url), clock=clock, notify=notify)
