"""A server as the store of the commands.

A command reads the complete graph, decides and draws on it as on one of its own, and sends the events of what it changed. They
are made if the graph has not changed since, or else if they still can be made; if not, the command decides again on what is
there now. An event with another machine in it, which is merged or applied, is sent as a request of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, Final, TypeVar

import msgspec

from fluxres import clock as clocks
from fluxres import limits
from fluxres.clock import Clock
from fluxres.documents import arguments
from fluxres.documents.suggestion import choose_from
from fluxres.errors import (
    FluxresError,
    Forbidden,
    HoldLapsed,
    RevisionConflict,
    StoreError,
    Unauthorized,
    UnknownGraph,
    UsageError,
)
from fluxres.model import ResourceGraph
from fluxres.model.changes import expire_stages
from fluxres.service.client.addresses import Address, addresses
from fluxres.service.client.child_calls import ChildCalls
from fluxres.service.client.connection import Connection
from fluxres.service.client.following import Following
from fluxres.service.client.requests import Call, Reply, Request, of_graph, post, send
from fluxres.store import Entry, GraphRow, Held, Ticket, encoding, journal, records
from fluxres.store.claims import Standing
from fluxres.store.files import dumps

T = TypeVar("T")

_SCHEMES: Final = ("http://", "https://")
_LENGTH_BYTES: Final = 8
_ENTRY: Final = ("number", "time", "by", "command")


def is_server(url: str | None) -> bool:
    """Whether this is the address of a server, and not that of a store.

    >>> is_server("http://127.0.0.1:7390"), is_server("sqlite:///site.db"), is_server(None)
    (True, False, False)
    """
    return url is not None and url.startswith(_SCHEMES)


class RemoteStore:
    """The graphs of a server.

    Args:
        url: its address, with ``?graph=NAME`` or without; several with commas in between.
        on_silence: as for Connection.
    """

    def __init__(self, url: str, *, on_silence: Callable[[Address], None] | None = None) -> None:
        servers = addresses(url)
        self.url, self._chosen = ",".join(map(str, servers)), servers[0].graph
        self.connection = Connection(servers, keep=False, on_silence=on_silence)

    def graphs(self) -> list[GraphRow]:
        """The graphs, without reading their content."""
        found = self.connection.get("/v1/graphs").document()["graphs"]
        return [GraphRow(0, one["graph"], "", one["created"], 0, one["pools"], one["events"] or 0, 0, 0) for one in found]

    def standings(self, only: str | None = None) -> dict[str, Standing]:
        """The graphs (or one of them) that were copied for jobs of others, and how they stand, by name."""
        found = self.connection.get("/v1/graphs").document()["graphs"]
        return {
            one["graph"]: Standing(**one["held"]) for one in found if one["held"] is not None and only in (None, one["graph"])
        }

    @property
    def default(self) -> str | None:
        """The graph in use."""
        found = self.connection.get("/v1/graphs").document()["graphs"]
        return next((one["graph"] for one in found if one["in_use"]), None)

    def load(self, name: str | None = None, *, clock: Clock | None = None) -> ResourceGraph:
        """The current graph, without expired stages. Errors: UnknownGraph; those of the server."""
        graph, _ = self._open(name, clock)
        expire_stages(graph)
        return graph

    def log(
        self,
        name: str | None = None,
        *,
        job: str | None = None,
        path: str | None = None,
        user: str | None = None,
        limit: int | None = None,
    ) -> list[Entry]:
        """Events of a graph, oldest first: the latest ones, at most as many as a page has."""
        wanted = limits.SERVICE_PAGE_MAX if limit is None else min(limit, limits.SERVICE_PAGE_MAX)
        place = of_graph(self.name_of(name), "log")
        found = self.connection.get(place, job=job, path=path, user=user, limit=wanted).document()["log"]
        return [_entry(one) for one in found]

    def tickets(self, name: str | None = None) -> list[Ticket]:
        """The requests that wait for resources of a graph."""
        return msgspec.convert(self._queue(name)["tickets"], list[Ticket])

    def queue(self, name: str | None = None) -> tuple[list[Ticket], dict[str, float], list[Ticket]]:
        """What :meth:`tickets` returns; when each is expected to start, infinity if that is not known; and the programs that run
        although what they held was freed.
        """
        found = self._queue(name)
        starts = {job: math.inf if start is None else start for job, start in found["starts"].items()}
        return msgspec.convert(found["tickets"], list[Ticket]), starts, msgspec.convert(found["freed"], list[Ticket])

    def cancel(self, name: str | None, job: str, grace_s: float, *, command: str) -> str:
        """End a job of run or shell; returns what it was: waiting, running or ended. Errors: UnknownJob; Forbidden."""
        body = {"job": job, "grace_s": grace_s, "command": command}
        reply = self.connection.post(of_graph(self.name_of(name), "cancel"), body, key=token_hex(16))
        return str(reply.document()["was"])

    def changes(self, name: str | None) -> Iterator[None]:
        """Once for each event of a graph from now on, and at least every 15 seconds, also from a server that starts again.

        Errors: StoreError if no server goes on for `SERVICE_RESUME_SECONDS`; UnknownGraph.
        """
        following = Following(self.connection.servers, self.name_of(name), None)
        for line in self.connection.follow(following):
            following.event(line)
            if line.startswith((b"data: ", b":")):
                yield

    def _queue(self, name: str | None) -> dict[str, Any]:
        found: dict[str, Any] = self.connection.get(of_graph(self.name_of(name), "queue")).document()
        return found

    def names(self) -> list[str]:
        return [row.name for row in self.graphs()]

    def put(
        self,
        name: str,
        graph: ResourceGraph,
        *,
        replace: bool = False,
        use: bool = False,
        held: Held | None = None,
        command: str = "",
        wait_s: float | None = None,
    ) -> None:
        """Add a graph to those of the server. Errors: UsageError for a name that is taken."""
        key = token_hex(16)
        if held is None:
            self.connection.make(send("/v1/graphs", dumps(graph), key=key, name=name, replace=replace, use=use))
            return
        body = {"name": name, "job": held.job, "at": held.at, "replace": replace}
        self.connection.post(of_graph(held.graph, "copy"), body, key=key)

    def use(self, name: str, *, wait_s: float | None = None) -> None:
        """Make this graph the one in use. Errors: UnknownGraph."""
        self.connection.make(Request("POST", of_graph(name, "use")))

    def undo(self, name: str | None = None, *, redo: bool = False, command: str = "", wait_s: float | None = None) -> list[Entry]:
        """Put back the state before the last change; returns the events that were undone."""
        reply = self.connection.post(of_graph(self.name_of(name), "undo"), {"redo": redo, "command": command}, key=token_hex(16))
        return [_entry(one) for one in reply.document()["undone"]]

    def parent(self, name: str) -> str:
        """The graph that a graph is a part of. Errors: UnknownGraph; UsageError if there is none; HoldLapsed if it went."""
        standing = self.standings(name).get(name)
        if standing is None:
            if name not in (known := self.names()):
                raise UnknownGraph(f"no graph '{name}'", hint=choose_from(known), graph=name)
            hint = "`copy --job` makes a graph of what a job holds"
            raise UsageError("is no part of another graph", where=f"graph '{name}'", hint=hint)
        if standing.graph is None:
            standing.require(name)
            raise HoldLapsed("the graph of its job was dropped", where=f"graph '{name}'", hint="start again")
        return standing.graph

    def child(self, name: str, command: str) -> ChildCalls:
        """What can be asked for a child that somebody else works on."""
        return ChildCalls(name, command=command)

    def run(self, call: Call[T]) -> T:
        """What a call returns."""
        return self.connection.run(call)

    def drop(self, name: str, *, force: bool = False, command: str = "", wait_s: float | None = None) -> list[str]:
        """Remove a graph, its snapshot and its journal.

        Args:
            force: also if it has jobs or instances, which are lost.

        Returns: what was lost with it, in words.
        Errors: UnknownGraph; StillHeld.
        """
        query = "?force=true" if arguments.flag(force, "force") else ""
        lost: list[str] = self.connection.make(Request("DELETE", of_graph(name, query))).document().get("lost", [])
        return lost

    @contextmanager
    def changing(self, name: str | None, *, command: str, clock: Clock) -> Iterator[ResourceGraph]:
        """A graph whose changes are made on the server when the block ends; if it raises, none are.

        Errors: RevisionConflict if others were faster, and it must be decided again.
        """
        graph, revision = self._open(name, clock)
        events: list[journal.Event] = []
        graph.sink = events.append
        yield graph
        graph.sink = None
        if events:
            self._send(graph.name, events, command, revision)

    def _send(self, name: str, events: list[journal.Event], command: str, revision: str | None) -> None:
        def request(on: str | None) -> Request:
            if (machine := events[-1]).get("graph") is None:
                body: dict[str, Any] = {"events": events, "command": command}
                return post(of_graph(name, "events"), body, key=token_hex(16), revision=on)
            place, query = of_graph(name, machine["event"]), {key: machine.get(key) for key in ("at", "drain")}
            return send(place, dumps(machine["graph"]), key=token_hex(16), revision=on, **query)

        try:
            self.connection.make(request(revision))
        except RevisionConflict:
            try:
                self.connection.make(request(None))
            except (Forbidden, Unauthorized):
                raise
            except StoreError:
                raise
            except FluxresError as error:
                raise RevisionConflict(f"the graph changed while the command decided: {error}", hint="try again") from None

    def name_of(self, name: str | None) -> str:
        """The graph of this name, else the one in the address, else the one in use. Errors: UnknownGraph."""
        found = name or self._chosen or self.default
        if found is None:
            raise UnknownGraph(
                "no graph is in use", where=self.url, hint="name one with --graph, or add one with: fluxres load SOURCE"
            )
        return found

    def _open(self, name: str | None, clock: Clock | None) -> tuple[ResourceGraph, str | None]:
        name = self.name_of(name)
        try:
            reply = self.connection.get(of_graph(name, "snapshot"))
        except Forbidden as error:
            if error.hint:  # of a token that is for a part
                error.hint = f"{error.hint}; commands read all of it, and a program asks for its part (fluxres.connect)"
            raise
        return opened_snapshot(reply, name, clock or clocks.system), reply.revision


def opened_snapshot(reply: Reply, name: str, clock: Clock) -> ResourceGraph:
    """The graph that a server sent."""
    length = int.from_bytes(reply.body[:_LENGTH_BYTES], "big")
    shape, marks = reply.body[_LENGTH_BYTES:][:length], reply.body[_LENGTH_BYTES + length :]
    structure, stored = encoding.decode(shape, marks)
    return records.restore(structure, stored, name=name, clock=clock)


def _entry(document: dict[str, Any]) -> Entry:
    event = {key: value for key, value in document.items() if key not in _ENTRY}
    return Entry(document["number"], document["time"], document["command"], event, document["by"] or "")
