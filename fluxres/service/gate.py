"""What every request passes before a route sees it, as an ASGI application around the routes.

It knows the caller, keeps browsers of other sites out, bounds what is received and how long that takes, drops clients that do not
read, counts, and writes the log. None of that depends on the framework.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.errors import FluxresError, Forbidden, LimitExceeded, Unavailable, UsageError
from fluxres.service import problems
from fluxres.service.access import Access
from fluxres.service.connection import CONNECTION, Connection
from fluxres.service.loopback import is_loopback
from fluxres.service.metrics import ServiceMetrics
from fluxres.service.rates import Rates
from fluxres.service.time_limit import receiving
from fluxres.service.within import within
from fluxres.syntax.name import is_name

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Coroutine[Any, Any, None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

OPEN: Final = frozenset(("/health", "/ready"))
"""Paths that need no token: their answers say nothing about the machine."""

_TAKE_DOCUMENTS: Final = frozenset(("merge", "apply", "diff"))
"""Operations on a graph whose body describes a machine."""

_log = logging.getLogger("fluxres.service.access")


class Gate:
    """An ASGI application that lets requests through to another one.

    Args:
        app: the routes.
        access: who may ask.
        metrics: where requests are counted.
    """

    def __init__(self, app: App, access: Access, metrics: ServiceMetrics) -> None:
        self.app, self.access, self.metrics = app, access, metrics
        self._rates = Rates()
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:  # a WebSocket: there are none
            await send({"type": "websocket.close", "code": 1002})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = stopwatch()
        connection: Connection | None = scope.get(CONNECTION)
        answer = Answer(send, scope, connection)
        try:
            headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
            scope["fluxres.headers"] = headers
            self._admit(scope, headers)
            body = Body(receive, scope, connection, headers.get("content-length"))
            receiving.set(body)
            await self.app(scope, body, answer)
        except FluxresError as error:
            await answer.problem(error)
        except ConnectionAbortedError:
            raise  # ends the connection
        except asyncio.CancelledError:
            if not self.is_draining:
                raise
            await answer.problem(Unavailable("the service is stopping: this took too long", retry_after_s=10))
        except Exception as error:  # noqa: BLE001 - the answer must not show the inside of the service
            await answer.problem(problems.of_unexpected(error, scope["method"], scope["path"]))
        finally:
            took = stopwatch() - begun
            handler = scope.get("route_handler")
            operation = str(getattr(handler, "operation_id", None) or "none")
            self.metrics.answered(scope["method"], operation, answer.status, took)
            if _log.isEnabledFor(logging.INFO):
                caller = scope.get("fluxres.caller")
                facts = {"method": scope["method"], "path": scope["path"], "status": answer.status, "ms": round(took * 1000, 3)}
                _log.info("%s", json.dumps(facts), extra={"facts": facts | {"by": getattr(caller, "name", None)}})

    def _admit(self, scope: Scope, headers: dict[str, str]) -> None:
        """Errors: Forbidden, Unauthorized, Unavailable, RateExceeded; UsageError."""
        origin, host = headers.get("origin"), headers.get("host", "")
        if origin is not None and _netloc(origin) != host.lower():
            raise Forbidden(f"requests from pages of {origin:.80} are not answered")
        name = _hostname(host)
        if self.access.is_open and not is_loopback(name):
            # A page of another site may have its name resolved to this machine.
            raise Forbidden(f"the host {host!r:.80} is not this machine", hint="use 127.0.0.1, or run the service with tokens")
        if scope["path"] in OPEN:
            return
        if self.is_draining:
            raise Unavailable("the service is stopping", retry_after_s=10)
        caller = self.access.caller(headers.get("authorization"))
        if self.access.is_open and (user := headers.get("fluxres-user")):
            caller = _named(caller, user)
        self._rates.admit(caller)
        scope["fluxres.caller"] = caller


def _netloc(origin: str) -> str:
    """Host and port of a page; nothing if that is not an address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


@lru_cache(maxsize=64)
def _hostname(host: str) -> str:
    """The name in a Host header. Errors: UsageError if that is not a name or address, with a port or without."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:  # brackets without an IPv6 address, or a port that is no number
        parts = urlsplit("")
    if parts.netloc != host:
        raise UsageError(f"the header Host has no address: {host!r:.80}")
    return parts.hostname or ""


def _named(caller: Any, user: str) -> Any:
    """The caller of this machine under the name that it gives itself: nobody checks it, as nobody checks that of a command."""
    from dataclasses import replace

    return replace(caller, name=user) if is_name(user) else caller


def _bound(scope: Scope) -> int:
    """The bytes that a body may have: few routes take documents."""
    path = scope["path"].rstrip("/")
    is_document = scope["method"] == "POST" and (path == "/v1/graphs" or path.rpartition("/")[2] in _TAKE_DOCUMENTS)
    return limits.SERVICE_DOCUMENT_BYTES_MAX if is_document else limits.SERVICE_BODY_BYTES_MAX


class Body:
    """Receives the body of a request, within bounds of size and time. Errors: LimitExceeded."""

    def __init__(self, receive: Receive, scope: Scope, connection: Connection | None, length: str | None) -> None:
        bound = _bound(scope)
        self._receive, self._scope, self._connection, self._bound = receive, scope, connection, bound
        self._left, self._is_done = bound, False
        self._until = asyncio.get_running_loop().time() + limits.SERVICE_BODY_SECONDS_MAX
        if length is not None and length.isdecimal() and int(length) > bound:
            raise self._too_long()

    def whole(self) -> bytes | None:
        """All of it, which can still be received; None if it comes in pieces."""
        return None if self._connection is None else self._connection.body(self._scope, self._bound)

    async def __call__(self) -> Message:
        if self._is_done:
            return await self._receive()
        try:
            message = await within(self._until - asyncio.get_running_loop().time(), self._receive())
        except TimeoutError:
            text = f"the body did not arrive within {limits.SERVICE_BODY_SECONDS_MAX:g} s"
            raise LimitExceeded(text) from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._is_done = not message.get("more_body", False)
            if self._left < 0:
                raise self._too_long()
        return message

    def _too_long(self) -> LimitExceeded:
        return LimitExceeded(f"the body of this request may have {self._bound} bytes")


def _is_closed(error: RuntimeError) -> bool:
    """Whether an error is what uvloop says of a connection that was closed just now."""
    return "handler is closed" in str(error)


class Answer:
    """Sends an answer, its head with the first part of its body, and drops a client that does not take it."""

    def __init__(self, send: Send, scope: Scope, connection: Connection | None) -> None:
        self._send_on, self._scope, self._connection = send, scope, connection
        self._head: Message | None = None
        self._has_begun = self._is_gone = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head, self.status = message, message["status"]
            return
        if self._head is not None and not message.get("more_body", False) and self._at_once(self._head, message.get("body", b"")):
            self._head, self._has_begun = None, True
            return
        try:
            await within(limits.SERVICE_SEND_SECONDS_MAX, self._send(message))
        except TimeoutError:
            raise ConnectionAbortedError("the client does not read") from None

    def _at_once(self, head: Message, body: bytes) -> bool:
        return self._connection is not None and self._connection.answer(self._scope, head, body)

    async def _send(self, message: Message) -> None:
        """Send a part of the body, or nothing to a client that has gone."""
        if self._is_gone:
            return
        self._has_begun = True
        try:
            if self._head is not None:
                head, self._head = self._head, None
                await self._send_on(head)
            await self._send_on(message)
        except RuntimeError as error:
            if not _is_closed(error):
                raise
            self._is_gone = True
            await asyncio.sleep(0)  # so that the server notices as well

    async def problem(self, error: FluxresError) -> None:
        """Answer with a problem, unless an answer has begun."""
        if self._has_begun:
            return
        status, body = problems.status_of(error), problems.body(error)
        headers = {"content-type": problems.MEDIA_TYPE, **problems.headers(error)}
        if status == 413:
            headers["connection"] = "close"  # the rest of the body is not read
        await send_answer(self, status, headers, body)


async def begin_answer(send: Send, status: int, headers: Mapping[str, str]) -> None:
    encoded = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})


async def send_answer(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """An answer whose body is complete."""
    await begin_answer(send, status, {**headers, "content-length": str(len(body))})
    await send({"type": "http.response.body", "body": body})
