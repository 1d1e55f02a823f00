"""One connection to a server in an event loop. h11 knows HTTP; this moves the bytes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Final, NamedTuple

from fluxres.errors import UsageError
from fluxres.service.client.addresses import Address
from fluxres.service.client.requests import Request, error_of

try:
    import h11
except ModuleNotFoundError:
    raise UsageError("asyncio needs the package h11", hint="pip install h11") from None

_READ_BYTES: Final = 1 << 16


class Answer(NamedTuple):
    """What came back; the names of the headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Line:
    """A connection, for one request at a time.

    Args:
        at: the server.
    """

    def __init__(self, at: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at = at
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, at: Address) -> Line:
        """Errors: OSError."""
        context = None
        if at.secure:
            from ssl import create_default_context

            context = create_default_context()
        try:
            return cls(at, *await asyncio.open_connection(at.host, at.port, ssl=context))
        except OSError as error:
            raise _plain(error, at) from None

    @property
    def may_stay(self) -> bool:
        """Whether the next request may go over it."""
        return self._http.our_state is h11.IDLE and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def ask(self, request: Request) -> Answer:
        """Errors: OSError if the connection breaks."""
        answer = await self._begin(request)
        body = b"".join([part async for part in self._parts()])
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return answer._replace(body=body)

    async def stream(self, request: Request, timeout_s: float) -> AsyncGenerator[bytes]:
        """The lines of the answer, as long as something comes within this time.

        Errors: those of the server; OSError if the connection breaks.
        """
        async with asyncio.timeout(timeout_s):
            answer = await self._begin(request)
            if answer.status != 200:
                content = b"".join([part async for part in self._parts()])
                raise error_of(answer.status, content, answer.headers.get("retry-after"))
        rest, parts = b"", self._parts()
        while True:
            async with asyncio.timeout(timeout_s):
                part = await anext(parts, None)
            if part is None:
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                yield line.rstrip(b"\r")

    async def _begin(self, request: Request) -> Answer:
        """Send a request, and read the head of the answer."""
        host = f"[{self.at.host}]" if ":" in self.at.host else self.at.host
        headers = {"host": f"{host}:{self.at.port}", **request.headers}
        if request.body is not None:
            headers["content-length"] = str(len(request.body))
        sent = self._http.send(h11.Request(method=request.method, target=request.path, headers=list(headers.items()))) or b""
        if request.body:
            sent += self._http.send(h11.Data(data=request.body)) or b""
        sent += self._http.send(h11.EndOfMessage()) or b""
        # It is not waited for that all of it is sent: a server refuses a body that is too long before that, and says so.
        self._writer.write(sent)
        while not isinstance(event := await self._next(), h11.Response):
            pass
        return Answer(event.status_code, {key.decode(): value.decode("latin-1") for key, value in event.headers}, b"")

    async def _parts(self) -> AsyncGenerator[bytes]:
        """The body of an answer."""
        while not isinstance(event := await self._next(), h11.EndOfMessage | h11.ConnectionClosed):
            if isinstance(event, h11.Data):
                yield bytes(event.data)

    async def _next(self) -> h11.Event:
        """Errors: OSError."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
        except h11.RemoteProtocolError as error:
            raise ConnectionError(str(error)) from None
        if event is h11.PAUSED:
            raise ConnectionError("the server sent more than one answer")
        assert not isinstance(event, type)
        return event


def _plain(error: OSError, at: Address) -> OSError:
    """The error for a connection that was not made, without the addresses that asyncio puts into its text."""
    if isinstance(error, ConnectionError) and error.errno:
        return OSError(error.errno, os.strerror(error.errno))  # of the same class
    if type(error) is OSError and error.errno is None:  # several, one for each address of the host
        return ConnectionRefusedError(errno.ECONNREFUSED, f"no address of {at.host} answers")
    return error
