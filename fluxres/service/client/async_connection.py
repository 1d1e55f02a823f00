"""Requests to a server in an event loop, over connections that stay open for the next ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from fluxres import limits
from fluxres.errors import FluxresError, InDoubt, StoreError, Unavailable, UsageError
from fluxres.service.client.addresses import Address
from fluxres.service.client.line import Line
from fluxres.service.client.requests import Call, Reply, Request, common_headers, error_of, stream_of
from fluxres.service.client.servers import Attempts, Servers, unreachable

T = TypeVar("T")


class AsyncConnection:
    """A server, or several on one store, of which the leader is found.

    Args:
        at: the servers.
        token: sent with each request; that of the environment if None.
        timeout_s: to wait for an answer.
        user: who asks, for the journal of a server without tokens; the user that runs this process by default.
        headers: further ones of each request.
    """

    def __init__(
        self,
        at: Sequence[Address],
        token: str | None = None,
        timeout_s: float = 60.0,
        user: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.servers = Servers(at)
        self._timeout_s = timeout_s
        self._headers = {**common_headers(token, user), **(headers or {})}
        self._room = asyncio.Semaphore(limits.SERVICE_CLIENT_CONNECTIONS_MAX)
        self._lines: set[Line] = set()
        self._idle: list[Line] = []
        self._loop = asyncio.get_running_loop()
        self.is_closed = False

    async def run(self, call: Call[T]) -> T:
        """What a call returns, with its requests sent."""
        try:
            request = next(call)
            while True:
                try:
                    reply = await self.make(request)
                except FluxresError as error:
                    request = call.throw(error)
                else:
                    request = call.send(reply)
        except StopIteration as end:
            found: T = end.value
            return found

    async def make(self, request: Request) -> Reply:
        """Send a request, again if the connection broke and that is safe, or to the server that leads.

        Errors: those of the server; StoreError if it cannot be reached.
        """
        attempts = Attempts(self.servers, request, self._timeout_s)
        while True:
            self._require_use()
            at = self.servers.at
            try:
                async with self._room:
                    return await self._once(at, request)
            except FluxresError as error:
                pause_s = attempts.failed(at, error)
            except OSError as error:
                self._drop_idle()
                if self.is_closed:
                    raise self._cut(request, at) from None
                pause_s = attempts.failed(at, error)
            await asyncio.sleep(pause_s)

    async def stream(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncGenerator[bytes]:
        """The lines of an answer that does not end, over a connection of its own.

        Args:
            headers: besides those that all requests have.

        It is asked for again only where the server says when; what else fails is up to who follows it. It ends when the graph is
        closed. Errors: those of the server; StoreError if the connection breaks.
        """
        self._require_use()
        request = stream_of(path, {**self._headers, **(headers or {})})
        attempts = Attempts(self.servers, request, self._timeout_s)
        while True:
            at, line = self.servers.at, None
            try:
                line = await self._opened(at)
                async for text in line.stream(request, self._timeout_s):
                    yield text
                return
            except Unavailable as error:
                pause_s = attempts.refused(at, error)
            except OSError as error:
                self.servers.turn(at)
                if self.is_closed:
                    return
                raise unreachable(at, error, self._timeout_s) from None
            finally:
                if line is not None:
                    self._close(line)
            await asyncio.sleep(pause_s)
            if self.is_closed:
                return

    async def _once(self, at: Address, request: Request) -> Reply:
        line = self._reused(at)
        try:
            async with asyncio.timeout(self._timeout_s):
                line = line or await self._opened(at)
                answer = await line.ask(request._replace(headers={**self._headers, **request.headers}))
        except BaseException:  # of a task that was cancelled, an answer may be on its way
            if line is not None:
                self._close(line)
            raise
        if line.may_stay:
            self._idle.append(line)
        else:
            self._close(line)
        if answer.status >= 400:
            raise error_of(answer.status, answer.body, answer.headers.get("retry-after"))
        return Reply(answer.body, answer.headers.get("etag"), answer.status, answer.headers)

    def _reused(self, at: Address) -> Line | None:
        """A connection that is open and idle."""
        while self._idle:
            line = self._idle.pop()
            if line.at == at and line.may_stay:
                return line
            self._close(line)
        return None

    async def _opened(self, at: Address) -> Line:
        line = await Line.open(at)
        self._lines.add(line)
        return line

    def _drop_idle(self) -> None:
        """A server that was restarted has closed all of them."""
        while self._idle:
            self._close(self._idle.pop())

    def _close(self, line: Line) -> None:
        self._lines.discard(line)
        line.close()

    def close(self) -> None:
        """Close all connections, for good."""
        self.is_closed = True
        self._idle.clear()
        for line in list(self._lines):
            with suppress(RuntimeError):  # its event loop has ended
                self._close(line)

    def _require_use(self) -> None:
        """Errors: UsageError for a graph that was closed, and in another event loop than that of its connections."""
        if self.is_closed:
            raise UsageError("the graph was closed", where=str(self.servers.at), hint="connect again")
        if asyncio.get_running_loop() is not self._loop:
            hint = "connect in each event loop"
            raise UsageError("the graph was connected in another event loop", where=str(self.servers.at), hint=hint)

    @staticmethod
    def _cut(request: Request, at: Address) -> StoreError:
        """The error for a request that was on its way when the graph was closed."""
        said = "the graph was closed before the answer came"
        if request.is_question:
            return StoreError(said, where=str(at), hint="connect again")
        hint = "check the current state; a change with an `idempotency_key` can be sent again"
        return InDoubt(f"{said}: the change may have been made", where=str(at), hint=hint)
