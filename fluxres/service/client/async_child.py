"""`fluxres.aopen_child`: a child whose parent is reached through a server, for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from fluxres import clock
from fluxres.clock import Length, Time
from fluxres.errors import FluxresError, HoldLapsed, UsageError
from fluxres.service.client.addresses import addresses
from fluxres.service.client.async_connection import AsyncConnection
from fluxres.service.client.async_graph import AsyncRemoteGraph
from fluxres.service.client.child import CHILD, over
from fluxres.service.client.child_calls import ChildCalls, begun
from fluxres.service.client.requests import Call
from fluxres.service.client.store import is_server
from fluxres.store.leased import RENEWALS, require_none

T = TypeVar("T")


def aopen_child(
    url: str, *, graph: str | None = None, job: str, token: str | None = None, timeout_s: float = 60.0, **given: Any
) -> Beginning:
    """Work on what a job of a graph on a server holds: ``async with aopen_child(url, job="j1") as child``, or awaited.

    The arguments and errors are those of :func:`fluxres.open_child` with the address of a server. It needs h11
    (``pip install h11``).

    Errors: UsageError for the address of a store, whose child :func:`fluxres.open_child` is.
    """
    if not is_server(url):
        raise UsageError("expected http://HOST:PORT", where=url, hint="`fluxres.open_child` works on a store")
    return Beginning(url, graph, token, timeout_s, {"job": job, **given})


class Beginning:
    """A child that begins: awaited, or as a context manager, which ends it."""

    def __init__(self, url: str, graph: str | None, token: str | None, timeout_s: float, given: dict[str, Any]) -> None:
        self._url, self._graph, self._token, self._timeout_s, self._given = url, graph, token, timeout_s, given
        self._child: AsyncRemoteChild | None = None

    def __await__(self) -> Generator[Any, None, AsyncRemoteChild]:
        return self._begin().__await__()

    async def __aenter__(self) -> AsyncRemoteChild:
        self._child = await self._begin()
        return self._child

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._child is not None:
            await self._child.__aexit__(kind, error, trace)

    async def _begin(self) -> AsyncRemoteChild:
        servers = addresses(self._url)
        connection = AsyncConnection(servers, self._token, self._timeout_s)
        try:
            lease = await connection.run(begun(str(servers[0]), self._graph or servers[0].graph, **self._given))
        finally:
            connection.close()
        return AsyncRemoteChild(self._url, lease, self._token, self._timeout_s)


class AsyncRemoteChild:
    """What a job of a graph on a server holds, as a graph of its own there. It returns everything when the block ends.

    It has the methods of :class:`RemoteChild` as coroutines, and belongs to the event loop in which it began: a task of that
    renews the lease, so nothing in it may block for as long as a lease lasts.

    Args:
        url: of the servers.
        lease: as the server describes it.

    Attributes:
        graph: as one on a server: a change is in the journal of the server when it returns.
        name: of the graph.
        parent: name of the graph that it is a part of.
        job: that holds its pools there.
        on_loss: called when the lease has been lost.
    """

    def __init__(self, url: str, lease: dict[str, Any], token: str | None, timeout_s: float) -> None:
        self.name, self.parent, self.job = str(lease["graph"]), str(lease["parent"]), str(lease["job"])
        self.on_loss: Callable[[], object] = lambda: None
        mark, self._life_s = str(lease["mark"]), float(lease["life_s"])
        self._connection = AsyncConnection(addresses(url), token, timeout_s, headers={CHILD: mark})
        self._calls = ChildCalls(self.name, mark)
        self.graph = AsyncRemoteGraph(self._connection, self.name)
        self._until = clock.stopwatch() + self._life_s
        self.loss: HoldLapsed | None = None
        """Why it changes nothing any more."""
        self._renewing = asyncio.ensure_future(self._run())

    async def __aenter__(self) -> AsyncRemoteChild:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            await self.end()
            return
        with suppress(FluxresError):  # the error of the block says more, and the lease ends by itself
            await self.end()

    def __repr__(self) -> str:
        return f"<AsyncRemoteChild {self.name} of job {self.job} in {self.parent} at {self._connection.servers.at}>"

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or has lost its lease, and changes nothing any more."""
        return self.loss is not None

    async def grow(self, wanted: Any, *, policy: str = "first") -> list[str]:
        """Get more from the parent: pools by name, or what a request asks for there, until the job ends; returns the paths."""
        return await self._ask(self._calls.grow(wanted, policy=policy))

    async def shrink(self, wanted: Any) -> list[str]:
        """Return pools to the parent, by name, with everything in them; returns their paths."""
        return await self._ask(self._calls.shrink(wanted))

    async def extend(self, end: Time | None = None, *, duration_s: Length | None = None) -> float:
        """Move the end of the job in the parent; returns it in seconds, infinity for no end."""
        return await self._ask(self._calls.extend(end, duration_s=duration_s))

    async def refresh(self) -> None:
        """Take over what the parent has changed in what the job holds."""
        await self._ask(self._calls.refresh())

    async def renew(self) -> None:
        """Renew the lease now; a task does so several times in its life. Errors: HoldLapsed; StoreError."""
        asked = clock.stopwatch()
        is_void = await self._ask(self._calls.renew(), is_of_lease=True)
        self._until = asked + self._life_s
        if is_void:
            with suppress(FluxresError):  # its jobs end first; nothing new starts
                await self.refresh()

    async def end(self) -> None:
        """End it: its job in the parent is freed, and its graph is removed. Nothing happens if it has ended already."""
        await self._leave(self._calls.end(), "it has ended", "begin anew")

    async def detach(self) -> None:
        """Release the lease, and leave the graph with its jobs, which then lasts as long as the job in the parent."""
        await self._leave(self._calls.detach(), "it was detached", "open it again")

    async def _leave(self, call: Call[None], said: str, hint: str) -> None:
        self._renewing.cancel()
        with suppress(asyncio.CancelledError):
            await self._renewing
        try:
            if not self.is_over:
                with suppress(HoldLapsed):
                    await self._ask(call, is_of_lease=True)
                self.loss = HoldLapsed(said, where=f"graph '{self.name}'", hint=hint)
        finally:
            await self.graph.close()

    async def _ask(self, call: Call[T], *, is_of_lease: bool = False) -> T:
        """What a call returns.

        Args:
            is_of_lease: whether a refusal says that the lease has been lost.
        """
        require_none(self.loss)
        try:
            return await self._connection.run(call)
        except HoldLapsed as loss:
            if is_of_lease:
                self.loss = loss
            raise

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._life_s / RENEWALS)
            with suppress(FluxresError):  # the server is busy or away: again until the lease is over
                await self.renew()
            if self.loss is None and self._until <= clock.stopwatch():
                self.loss = over(self.name)
            if self.loss is not None:
                self.on_loss()
                return
