"""A child whose parent is reached through a server only: its graph is in the store of the parent, and every change goes there.

The server checks the mark of the lease within each change, so a child that is late changes nothing (rule N1).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fluxres import clock, limits
from fluxres.clock import Length, Time
from fluxres.errors import FluxresError, HoldLapsed
from fluxres.service.client.addresses import addresses
from fluxres.service.client.child_calls import ChildCalls, begun
from fluxres.service.client.connection import Connection
from fluxres.service.client.graph import RemoteGraph
from fluxres.service.client.requests import Call
from fluxres.service.client.store import is_server
from fluxres.store import child
from fluxres.store.claims import lapsed
from fluxres.store.leased import Leased, require_none

if TYPE_CHECKING:
    from fluxres.store.child import Child

T = TypeVar("T")

CHILD: Final = "fluxres-child"
"""The header with the mark of the lease."""


def over(name: str) -> HoldLapsed:
    """The error for what a child does after its lease."""
    return lapsed(name, "its lease was over")


def open_child(url: str | None = None, **given: Any) -> Child | RemoteChild:
    """Work on what a job of a graph holds, as an instance of its own: through the store of the parent, or through its server.

    Args:
        url: of the store (:func:`fluxres.store.child.open_child`, which has the other arguments), or of a server of it,
            ``http://HOST:PORT``, with commas in between if there are several.
    """
    return begin(str(url), **given) if is_server(url) else child.open_child(url, **given)


def begin(
    url: str,
    *,
    graph: str | None = None,
    job: str,
    wanted: Any = None,
    duration_s: Length | None = None,
    name: str | None = None,
    lease_s: float = limits.CHILD_LEASE_SECONDS_DEFAULT,
    token: str | None = None,
    timeout_s: float = 60.0,
) -> RemoteChild:
    """Work on what a job holds, through a server. The arguments and errors are those of `fluxres.open_child`."""
    servers = addresses(url)
    connection = Connection(servers, token, timeout_s)
    given: dict[str, Any] = {"wanted": wanted, "duration_s": duration_s, "name": name, "lease_s": lease_s}
    try:
        lease = connection.run(begun(str(servers[0]), graph or servers[0].graph, job=job, **given))
    finally:
        connection.close()
    return RemoteChild(url, lease, token, timeout_s)


class RemoteChild(Leased):
    """What a job of a graph on a server holds, as a graph of its own there. It returns everything when the block ends.

    Several threads may use it.

    Args:
        url: of the servers.
        lease: as the server describes it.

    Attributes:
        graph: as one on a server: a change is in the journal of the server when it returns.
        name: of the graph.
        parent: name of the graph that it is a part of.
        job: that holds its pools there.
        on_loss: called by a thread when the lease has been lost.
    """

    def __init__(self, url: str, lease: dict[str, Any], token: str | None, timeout_s: float) -> None:
        super().__init__(str(lease["graph"]), str(lease["parent"]), str(lease["job"]), float(lease["life_s"]))
        self._mark = str(lease["mark"])
        self._connection = Connection(addresses(url), token, timeout_s, headers={CHILD: self._mark})
        self._calls = ChildCalls(self.name, self._mark)
        self.graph = RemoteGraph(self._connection, self.name)
        self._until = clock.stopwatch() + self._life_s
        self._loss: HoldLapsed | None = None
        self._thread.start()

    def __repr__(self) -> str:
        return f"<RemoteChild {self.name} of job {self.job} in {self.parent} at {self._connection.servers.at}>"

    @property
    def loss(self) -> HoldLapsed | None:
        return self._loss

    @property
    def mark(self) -> str:
        """Of its lease: who has it changes the graph as this child does."""
        return self._mark

    def grow(self, wanted: Any, *, policy: str = "first") -> list[str]:
        """Get more from the parent: pools by name, or what a request asks for there, until the job ends; returns the paths."""
        return self._ask(self._calls.grow(wanted, policy=policy))

    def shrink(self, wanted: Any) -> list[str]:
        """Return pools to the parent, by name, with everything in them; returns their paths."""
        return self._ask(self._calls.shrink(wanted))

    def extend(self, end: Time | None = None, *, duration_s: Length | None = None) -> float:
        """Move the end of the job in the parent; returns it in seconds, infinity for no end."""
        return self._ask(self._calls.extend(end, duration_s=duration_s))

    def refresh(self) -> None:
        """Take over what the parent has changed in what the job holds."""
        self._ask(self._calls.refresh())

    def renew(self) -> None:
        """Renew the lease now; a thread does so several times in its life. Errors: HoldLapsed; StoreError."""
        asked = clock.stopwatch()
        is_void = self._ask(self._calls.renew(), is_of_lease=True)
        self._until = asked + self._life_s
        if is_void:
            with suppress(FluxresError):  # its jobs end first; nothing new starts
                self.refresh()

    def end(self) -> None:
        """End it: its job in the parent is freed, and its graph is removed. Nothing happens if it has ended already."""
        was_over = self.is_over
        self._stop()
        try:
            if not was_over:
                with suppress(HoldLapsed):
                    self._ask(self._calls.end(), is_of_lease=True)
                self._was_ended = True
                self._loss = HoldLapsed("it has ended", where=f"graph '{self.name}'", hint="start again")
        finally:
            self._connection.close()

    def detach(self) -> None:
        """Release the lease, and leave the graph with its jobs, which then lasts as long as the job in the parent."""
        self._stop()
        self._ask(self._calls.detach())
        self._loss = HoldLapsed("it was detached", where=f"graph '{self.name}'", hint="open it again")
        self._connection.close()

    def _ask(self, call: Call[T], *, is_of_lease: bool = False) -> T:
        """What a call returns.

        Args:
            is_of_lease: whether a refusal says that the lease has been lost.
        """
        require_none(self.loss)
        try:
            return self._connection.run(call)
        except HoldLapsed as loss:
            if is_of_lease:
                self._loss = loss
            raise

    def _note_end_of_lease(self) -> None:
        if self._until <= clock.stopwatch():
            self._loss = over(self.name)

    def _run(self) -> None:
        try:
            super()._run()
        finally:
            self._connection.close()  # that of this thread
