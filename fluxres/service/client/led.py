"""The changes of a command on a store that a server of this machine leads: they go through the server.

The store says who leads it. Its address alone is no proof: the server is asked only if its process runs, if the note was made for
this store and not for one that was copied from it, and if it needs no token, since a token is not for an address found in a
store. The server refuses if its lease is another one. Where any of that is not so, the command opens the store itself, which is
always right.
"""

from __future__ import annotations

import os
from secrets import token_hex
from types import TracebackType
from typing import Any, Final

from fluxres.clock import Clock
from fluxres.errors import FluxresError, InDoubt, RevisionConflict, StoreError, Unavailable
from fluxres.launch import identity
from fluxres.launch.identity import Presence
from fluxres.model import ResourceGraph
from fluxres.model.events import Event
from fluxres.service.client.addresses import address
from fluxres.service.client.connection import Connection
from fluxres.service.client.requests import Request, of_graph
from fluxres.service.client.store import opened_snapshot
from fluxres.service.loopback import is_loopback
from fluxres.store import Store, journal
from fluxres.store.lease import Lease

_TIMEOUT_S: Final = 10.0
HEADER: Final = "fluxres-lease"
"""With the mark of the lease that the server must have."""


def _directly(error: FluxresError) -> RevisionConflict:
    """The server did not make the changes: the command decides again, on the store itself."""
    conflict = RevisionConflict(error.message, where=error.where, hint=error.hint)
    conflict.is_for_store = True
    return conflict


def may_lead(found: Lease, store: Store) -> bool:
    """Whether changes of this process can go through the server that has this lease."""
    if found.holder is None or not found.is_open or found.store != store.url or not os.access(store.path, os.W_OK):
        return False
    is_running = identity.presence_now(found.holder) is Presence.RUNNING
    return is_running and is_loopback(address(found.url).host)


class Through:
    """A graph whose changes are made by the server that leads its store when the block ends; if it raises, none are.

    Args:
        store: that the server leads.
        found: its lease.
        name: of the graph.
        command: for the journal.
    """

    def __init__(self, store: Store, found: Lease, name: str, command: str) -> None:
        assert found.holder is not None
        self._store, self._found, self._name, self._command = store, found, name, command
        self._headers = {HEADER: found.holder.mark}
        self._connection = Connection([address(found.url)], "", _TIMEOUT_S, journal.os_user(), keep=False, follows=False)
        self._events: list[Event] = []

    def load(self, clock: Clock) -> ResourceGraph | None:
        """The graph; None if the store itself has to be asked, be it for jobs whose processes this machine sees.

        Errors: UnknownGraph.
        """
        try:
            reply = self._connection.make(Request("GET", of_graph(self._name, "snapshot"), headers=self._headers))
        except StoreError:
            return None
        graph, self._revision = opened_snapshot(reply, self._name, clock), reply.revision
        if any(facts.launch is not None for facts in graph.records.facts.values()):
            return None
        self.graph = graph
        return graph

    def __enter__(self) -> ResourceGraph:
        self.graph.sink = self._events.append
        return self.graph

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.graph.sink = None
        if error is None and self._events:
            self._send()

    def _send(self) -> None:
        """Errors: RevisionConflict if nothing was changed; InDoubt if it is not known whether it was."""
        if journal.is_structural(self._events):
            raise _directly(RevisionConflict("a server does not change the shape of a graph"))
        key, place = token_hex(16), of_graph(self._name, "events")
        body: dict[str, Any] = {"events": self._events, "command": self._command}
        try:
            self._connection.post(place, body, key=key, revision=self._revision, headers=self._headers)
        except RevisionConflict:
            raise
        except Unavailable as error:
            raise _directly(error) from None
        except StoreError as error:
            self._settle(key, error)
        except FluxresError as error:
            raise _directly(error) from None

    def _settle(self, key: str, error: StoreError) -> None:
        """Find out what became of a change without an answer."""
        from fluxres.service.kept import KeptAnswers

        # First whether the server can still make it, then whether it did.
        holder = self._found.holder
        is_gone = holder is None or identity.presence_now(holder) is Presence.GONE
        kept = KeptAnswers()
        with self._store.reading(self._name) as rows:
            kept.learn(rows.db.notes())
        if kept.find(journal.os_user(), key) is not None:
            return
        if is_gone:
            raise _directly(error)
        hint = "`fluxres log` shows whether it was; then repeat the command, or end that server"
        raise InDoubt(f"the change may or may not have been made: {error.message}", where=self._found.url, hint=hint) from None


def through(store: Store, found: Lease, name: str | None, command: str, clock: Clock) -> Through | None:
    """The way through the server that leads the store; None if the command opens the store itself.

    Args:
        found: the lease of the store.

    Errors: UnknownGraph, StoreError.
    """
    chosen = name or store.address.graph or store.default
    if chosen is None or not may_lead(found, store):
        return None
    made = Through(store, found, chosen, command)
    return made if made.load(clock) is not None else None
