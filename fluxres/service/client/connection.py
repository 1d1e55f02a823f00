"""Requests to a server over connections that stay open.

A request that fails because the connection broke is sent again, with the same idempotency key, so that it is done once. The token
is in ``$FLUXRES_TOKEN`` unless it is given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, TypeVar

from fluxres import clock
from fluxres.errors import FluxresError, StoreError, Unavailable
from fluxres.service.client.addresses import Address
from fluxres.service.client.following import RESUME_S, Following
from fluxres.service.client.requests import Call, Reply, Request, common_headers, error_of, get, post, stream_of
from fluxres.service.client.servers import Attempts, Servers, unreachable

T = TypeVar("T")

_SILENCE_S: Final = 3.0
"""How long a server may take to answer until `on_silence` is called."""


class Connection:
    """A server, reached over one connection for each thread; or several on one store, of which the leader is found.

    Args:
        at: the servers.
        token: sent with each request; that of the environment if None.
        timeout_s: to wait for an answer.
        user: who asks, for the journal of a server without tokens; the user that runs this process by default.
        keep: whether the connection stays open for the next request.
        follows: whether it goes to the server that leads, and waits for one.
        headers: further ones of each request.
        on_silence: called, in another thread, with the server that has not answered a request for 3 s; of a stream, until it
            begins.
    """

    def __init__(
        self,
        at: Sequence[Address],
        token: str | None = None,
        timeout_s: float = 60.0,
        user: str | None = None,
        *,
        keep: bool = True,
        follows: bool = True,
        headers: Mapping[str, str] | None = None,
        on_silence: Callable[[Address], None] | None = None,
    ) -> None:
        self.servers = Servers(at, follows=follows)
        self._on_silence = on_silence
        self._keep = keep
        self._timeout_s = timeout_s
        self._thread = threading.local()
        self._headers = {**common_headers(token, user), **(headers or {})}

    def get(self, path: str, /, **query: Any) -> Reply:
        """Ask for a list. Errors: those of the server; StoreError if it cannot be reached."""
        return self.make(get(path, **query))

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: str | None = None,
        revision: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Ask a question, or change something; the arguments are those of `requests.post`."""
        return self.make(post(path, body, key=key, revision=revision, headers=headers))

    def run(self, call: Call[T]) -> T:
        """What a call returns, with its requests sent."""
        try:
            request = next(call)
            while True:
                try:
                    reply = self.make(request)
                except FluxresError as error:
                    request = call.throw(error)
                else:
                    request = call.send(reply)
        except StopIteration as end:
            found: T = end.value
            return found

    def make(self, request: Request) -> Reply:
        """Send a request, again if the connection broke and that is safe, or to the server that leads."""
        attempts = Attempts(self.servers, request, self._timeout_s)
        while True:
            at = self.servers.at
            try:
                return self._once(at, request)
            except FluxresError as error:
                pause_s = attempts.failed(at, error)
            except (OSError, HTTPException) as error:
                self.close()
                pause_s = attempts.failed(at, error)
            clock.sleep(pause_s)

    def stream(self, path: str, until_s: float | None = None) -> Iterator[bytes]:
        """The lines of an answer that does not end, over a connection of its own.

        It is asked for again only where the server says when; what else fails is up to who follows it.

        Args:
            until_s: when it ends all the same, by the stopwatch.

        Errors: those of the server; StoreError if the connection breaks.
        """
        request = stream_of(path)
        attempts = Attempts(self.servers, request, self._timeout_s)
        while until_s is None or clock.stopwatch() < until_s:
            at = self.servers.at
            opened = self._open(at)
            try:
                with self._noticing(at):
                    answer = self._ask(opened, request)
                if answer.status != 200:
                    raise error_of(answer.status, answer.read(), answer.headers.get("retry-after"))
                while line := self._line(opened, answer, until_s):
                    yield line.rstrip(b"\r\n")
                return
            except Unavailable as error:
                pause_s = attempts.refused(at, error)
            except (OSError, HTTPException) as error:
                if until_s is not None and clock.stopwatch() >= until_s:
                    return
                self.servers.turn(at)
                raise unreachable(at, error, self._timeout_s) from None
            finally:
                opened.close()
            clock.sleep(pause_s if until_s is None else max(0.0, min(pause_s, until_s - clock.stopwatch())))

    def follow(self, following: Following, until_s: float | None = None) -> Iterator[bytes]:
        """The lines of one stream of events after the other, each where the last one ended, also at another server.

        Args:
            following: gets each line from the caller.
            until_s: as for `stream`.

        Errors: StoreError if no server goes on for `SERVICE_RESUME_SECONDS`; those of the server.
        """
        while until_s is None or clock.stopwatch() < until_s:
            try:
                yield from self.stream(following.path, until_s)
            except StoreError as error:
                following.broke(error)
            clock.sleep(RESUME_S if until_s is None else max(0.0, min(RESUME_S, until_s - clock.stopwatch())))

    def _line(self, opened: HTTPConnection, answer: HTTPResponse, until_s: float | None) -> bytes:
        if until_s is not None and opened.sock is not None:
            opened.sock.settimeout(min(self._timeout_s, max(until_s - clock.stopwatch(), 0.001)))
        return answer.readline()

    def _once(self, at: Address, request: Request) -> Reply:
        opened = self._of_thread(at)
        with self._noticing(at):
            answer = self._ask(opened, request)
            content = answer.read()
        if not self._keep:
            self.close()
        if answer.status >= 400:
            raise error_of(answer.status, content, answer.headers.get("retry-after"))
        return Reply(content, answer.headers.get("etag"))

    def _ask(self, opened: HTTPConnection, request: Request) -> HTTPResponse:
        # A server refuses a body that is too long before all of it is sent; its answer says so.
        with suppress(BrokenPipeError):
            opened.request(request.method, request.path, request.body, {**self._headers, **request.headers})
        return opened.getresponse()

    @contextmanager
    def _noticing(self, at: Address) -> Iterator[None]:
        if self._on_silence is None:
            yield
            return
        timer = threading.Timer(_SILENCE_S, self._on_silence, (at,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _of_thread(self, at: Address) -> HTTPConnection:
        opened: HTTPConnection | None = getattr(self._thread, "opened", None)
        if opened is None or self._thread.at != at:
            self.close()
            opened = self._thread.opened = self._open(at)
            self._thread.at = at
        return opened

    def _open(self, at: Address) -> HTTPConnection:
        kind = HTTPSConnection if at.secure else HTTPConnection
        return kind(at.host, at.port, timeout=self._timeout_s)

    def close(self) -> None:
        """Close the connection of this thread."""
        opened: HTTPConnection | None = getattr(self._thread, "opened", None)
        if opened is not None:
            opened.close()
            self._thread.opened = None
