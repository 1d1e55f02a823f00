"""Persistent storage of graphs: snapshots and a journal, addressed by URL.

A store keeps named graphs. A writer holds the store's lock, works on the current state, and is done only when the change is on
disk (rule D1). A reader sees one consistent state and never waits for a writer.
"""

from __future__ import annotations

from fluxres.store.contents import GraphRow
from fluxres.store.journal import Entry
from fluxres.store.lock import Holder, Notify
from fluxres.store.store import Held, Position, Store, Transaction, open_store
from fluxres.store.tickets import Ticket
from fluxres.store.url import StoreUrl, is_store_url

__all__ = [
    "Entry",
    "GraphRow",
    "Held",
    "Holder",
    "Notify",
    "Position",
    "Store",
    "StoreUrl",
    "Ticket",
    "Transaction",
    "is_store_url",
    "open_store",
]
