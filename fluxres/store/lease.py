"""The lease of the one server that leads a store: a note in it, which every write transaction of that server checks.

The note says who leads, and has an epoch that increases with each take-over. A server that lost the lease, say because it stood
still for too long, learns so in the transaction in which it wants to write something, so it cannot write anything afterwards.
How long a lease lasts decides only when another server may take it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from fluxres.allocation.facts import Launch
from fluxres.errors import NotLeader, StoreError
from fluxres.store.database import Connection, Database

LEASE: Final = "lease"
"""The note."""
ANSWER: Final = "answer:"
"""Notes of what servers answered begin with this."""
INSTANCE: Final = "instance:"
"""Notes of instances and their jobs begin with this, the uid of the graph and a colon."""
MANY: Final = (ANSWER, INSTANCE)
"""What the notes begin with of which there are thousands."""


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who leads a store.

    Args:
        epoch: increases with each take-over.
        holder: the server, with a mark that no other take-over has; None once the lease was given back.
        url: where it serves.
        store: address of the store as the holder knows it: a copy of the store has the same note.
        life_s: how long the lease lasts after it was taken or renewed.
        until: when it ends, in seconds since 1970 by the clock of the holder, for people.
        renewals: since it was taken, so that others see that it was renewed.
        is_open: whether the server needs no tokens.
    """

    epoch: int
    holder: Launch | None = None
    url: str = ""
    store: str = ""
    life_s: float = 0.0
    until: float = 0.0
    renewals: int = 0
    is_open: bool = False

    def is_term_of(self, other: Lease) -> bool:
        """Whether both are of one take-over, renewed or not."""
        return (self.epoch, self.holder) == (other.epoch, other.holder)


def read(db: Connection) -> Lease | None:
    """The lease, within a transaction; None if nobody has ever led the store.

    Errors: StoreError for damage.
    """
    found = db.note(LEASE)
    try:
        return None if found is None else msgspec.json.decode(found, type=Lease)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the note of who leads the store is damaged: {error}", hint="restore a backup") from None


def of(database: Database) -> Lease | None:
    """The lease of a store, if there is one and it was not given back."""
    try:
        with database.reading() as db:
            found = None if db is None else read(db)
    except StoreError:  # the next use of the store reports it
        return None
    return found if found is not None and found.holder is not None else None


def write(db: Connection, lease: Lease) -> None:
    db.put_note(LEASE, msgspec.json.encode(lease).decode())


class Fence:
    """What lets only the leader write: each write transaction of a server passes it.

    Args:
        lost: called when a transaction finds that another server has taken the lease, or that it is gone.
    """

    def __init__(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self.own: Lease | None = None
        """The lease under which this server writes; None while it may not."""
        self.leader = ""
        """URL of another server that leads, as far as this one knows."""

    def holds(self, db: Connection) -> bool:
        """Whether this server leads, within a write transaction.  Errors: StoreError for damage."""
        own = self.own
        if own is not None:
            found = read(db)
            if found is not None and found.is_term_of(own):
                return True
            self.own, self.leader = None, "" if found is None else found.url
            self._lost()
        return False

    def require(self, db: Connection) -> None:
        """Errors: NotLeader; StoreError for damage."""
        if not self.holds(db):
            raise self.refusal()

    def refusal(self) -> NotLeader:
        if not self.leader:
            return NotLeader("no server leads the store at present", hint="try again in some seconds")
        return NotLeader("another server leads the store", hint=f"ask {self.leader}", leader=self.leader)
