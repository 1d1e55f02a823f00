"""The requests that wait for resources of a graph, as rows of the store.

They are beside the journal and not in it: a request that waits holds nothing, and only what was held has to be replayed. A
ticket goes in the transaction that records what it was granted, so it is never granted twice and never lost.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fluxres.allocation.facts import Launch
from fluxres.errors import StoreError
from fluxres.store.database import Connection

_RUNS: Final = "runs"


class Ticket(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request that waits.

    Args:
        job: id that its allocation will have.
        user, name: as for an allocation.
        priority: of tickets with different ones, the higher goes first.
        since: seconds since 1970.
        launch: the processes that wait; the ticket is void without them.
        request: a jobspec as plain values; None for pools by name.
        pools: paths with units, None for all of a pool.
        duration_s: how long the resources are held; None for no end.
        policy: the match policy.
        shows_place: whether it is told its place in the queue whenever that changes.
        is_served: whether its processes wait through a server, which watches for them.
        number: of the row; 0 before it is written.
    """

    job: str
    user: str
    priority: int
    since: float
    launch: Launch
    name: str | None = None
    request: dict[str, Any] | None = None
    pools: tuple[tuple[str, int | None], ...] = ()
    duration_s: float | None = None
    policy: str = "first"
    shows_place: bool = False
    is_served: bool = False
    number: int = 0


class Tickets:
    """The tickets of one graph, within a transaction.

    Args:
        db: connection within a transaction.
        graph: key of its rows.
    """

    def __init__(self, db: Connection, graph: int) -> None:
        self._db, self._graph = db, graph
        self.have_changed = False
        """Whether the transaction has to be committed because of them."""

    def all(self) -> list[Ticket]:
        """In the order in which they are considered: by priority, then by number.

        Errors: StoreError for damage.
        """
        rows = self._db.tickets(self._graph)
        try:
            return [msgspec.structs.replace(msgspec.json.decode(body, type=Ticket), number=number) for number, body in rows]
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            raise StoreError(f"unreadable ticket: {error}", hint="restore a backup (see fluxres help stores)") from None

    def exist(self) -> bool:
        """Whether there are any."""
        return bool(self._db.tickets(self._graph))

    def add(self, ticket: Ticket) -> Ticket:
        """Write a ticket, and return it with its number."""
        self.have_changed = True
        number = self._db.add_ticket(self._graph, ticket.job, ticket.priority, msgspec.json.encode(ticket))
        return msgspec.structs.replace(ticket, number=number)

    def renew(self, ticket: Ticket, lease: int) -> None:
        """Give its processes a lease until this tick."""
        self.have_changed = True
        renewed = msgspec.structs.replace(ticket, launch=msgspec.structs.replace(ticket.launch, lease=lease))
        self._db.rewrite_ticket(self._graph, ticket.number, msgspec.json.encode(renewed))

    def remove(self, ticket: Ticket) -> None:
        self.have_changed = True
        self._db.remove_ticket(self._graph, ticket.number)

    def next_job(self) -> str:
        """An id for a job, which no other call has returned for this store: r1, r2, …"""
        self.have_changed = True
        number = int(self._db.note(_RUNS) or 0) + 1
        self._db.put_note(_RUNS, str(number))
        return f"r{number}"
