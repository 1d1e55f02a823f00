"""A server for what a job holds whose parent is reached through a server only: it passes requests on, under the lease of a child.

The graph is in the store of the parent. Every request that is passed on has the mark of the lease, which the server that leads
that store checks within each change, so this one changes nothing once its lease is over (rule N1). Tokens, roles, bounds and
numbers are those of this server. Children that begin here have marks of their own, and their requests are passed on, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from fluxres import limits
from fluxres.errors import Unavailable, UnknownGraph, UsageError
from fluxres.service.access import Access, Caller
from fluxres.service.app import routes
from fluxres.service.client.addresses import Address
from fluxres.service.client.async_connection import AsyncConnection
from fluxres.service.client.child import CHILD, RemoteChild
from fluxres.service.client.requests import Request
from fluxres.service.gate import App, Gate, Receive, Scope, Send, begin_answer, send_answer
from fluxres.service.metrics import ServiceMetrics
from fluxres.service.replies import require_key
from fluxres.service.routes.streams import MEDIA_TYPE
from fluxres.service.tenancy import Tenancy
from fluxres.store.child import gone

_GRAPHS: Final = "/v1/graphs"
_STREAMS: Final = frozenset(("events", "news"))
_PASSED_ON: Final = ("content-type", "if-match", "last-event-id")
_PASSED_BACK: Final = ("content-type", "etag", "fluxres-left-out")
_HINT: Final = "ask the server of its parent"


class Relay:
    """An ASGI application that passes requests about one graph on; for the framework it is what a site is.

    Args:
        child: the graph, and the lease on it.
        at: the servers of the parent.
        token: for them; that of the environment if None.
    """

    open_graphs: tuple[Any, ...] = ()
    """None is in memory here."""

    def __init__(self, child: RemoteChild, at: list[Address], token: str | None = None) -> None:
        self.child, self.leadership = child, Tenancy(child)
        self.metrics, self.waiting = ServiceMetrics(), 0
        self._below = set[str]()
        """The graphs of children that have begun here."""
        self._at, self._token = at, token
        self._app: Litestar
        self._framework: App
        self._handlers: dict[tuple[str, str], HTTPRouteHandler]
        self._asking: AsyncConnection
        self._streaming: AsyncConnection

    def gate(self, access: Access) -> Gate:
        """The application that serves it."""
        self._framework = self._app = routes(self._lifespan)
        self._handlers = {
            (path, method): handler
            for path, methods in self._app.route_handler_method_map.items()
            for method, handler in methods.items()
            if path.startswith(_GRAPHS) and isinstance(handler, HTTPRouteHandler)
        }
        gate = Gate(self, access, self.metrics)
        self._app.state.site, self._app.state.metrics, self._app.state.gate = self, self.metrics, gate
        return gate

    @asynccontextmanager
    async def _lifespan(self, _app: Litestar) -> AsyncIterator[None]:
        self._asking, self._streaming = (AsyncConnection(self._at, self._token) for _ in range(2))
        yield
        self._streaming.close()
        self._asking.close()
        await asyncio.get_running_loop().run_in_executor(None, self.leadership.close)

    def drain(self) -> None:
        """End the streams; called in the event loop."""
        self._streaming.close()

    async def count_graphs(self) -> int:
        """The number of graphs that are served, as far as the parent answers."""
        await self._asking.make(Request("GET", _GRAPHS))
        return 1

    # -- a request ---------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handler(scope) if scope["type"] == "http" else None
        if handler is None:  # health, numbers, the description of the routes, and what there is not
            await self._framework(scope, receive, send)
            return
        scope["route_handler"] = handler
        caller: Caller = scope["fluxres.caller"]
        graph, operation = _parts(scope["path"])
        self._require_allowed(caller, handler, graph, scope)
        self.leadership.require()
        request = Request(scope["method"], _target(scope), await _received(receive) or None, self._headers(scope, caller))
        self.waiting += 1
        try:
            with gone(self.child.name if graph is None else graph):
                if operation in _STREAMS and scope["method"] == "GET":
                    await self._pass_stream(request, send)
                elif graph is None:
                    await self._list(request, send)
                else:
                    await self._pass(request, send, begins=operation == "child/open")
        finally:
            self.waiting -= 1

    def _handler(self, scope: Scope) -> HTTPRouteHandler | None:
        graph, operation = _parts(scope["path"])
        place = _GRAPHS if graph is None else f"{_GRAPHS}/{{graph:str}}/{operation}".rstrip("/")
        return self._handlers.get((place, scope["method"])) if scope["path"].startswith(_GRAPHS) else None

    def _require_allowed(self, caller: Caller, handler: HTTPRouteHandler, graph: str | None, scope: Scope) -> None:
        """Errors: Forbidden, UnknownGraph, UsageError."""
        caller.require_role(handler.opt["role"], handler.opt.get("needs"))
        caller.require_whole("a server that passes requests on")
        if graph is None and scope["method"] != "GET":
            raise UsageError(f"this server has the graph '{self.child.name}' only", hint=_HINT)
        sources = parse_qs(scope["query_string"].decode("latin-1")).get("source", [])
        for name in (graph, *sources):
            if name is not None:
                caller.require_graph(name)
                if name != self.child.name and name not in self._below:
                    said = f"no graph '{name:.80}': this server has '{self.child.name}' only"
                    raise UnknownGraph(said, hint=_HINT, graph=name)

    def _headers(self, scope: Scope, caller: Caller) -> dict[str, str]:
        """What is passed on of the headers of a request, with the lease and with who asks."""
        given = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        said = {key: given[key] for key in _PASSED_ON if key in given}
        said[CHILD] = self.child.mark if _parts(scope["path"])[0] == self.child.name else given.get(CHILD, "")
        if caller.name.isascii():
            said["fluxres-user"] = caller.name
        if (key := given.get("idempotency-key")) is not None:
            said["idempotency-key"] = _key(caller, key)
        return said

    async def _pass(self, request: Request, send: Send, *, begins: bool) -> None:
        reply = await self._asking.make(request)
        if begins:
            self._below.add(reply.document()["graph"])
        headers = {key: value for key, value in reply.headers.items() if key in _PASSED_BACK}
        await send_answer(send, reply.status, headers, reply.body)

    async def _list(self, request: Request, send: Send) -> None:
        """The graphs: this one, and those of children that have begun here."""
        name, found = self.child.name, (await self._asking.make(request)).document()["graphs"]
        known = [one | {"in_use": one["graph"] == name} for one in found if one["graph"] in {name, *self._below}]
        if not any(one["in_use"] for one in known):
            raise UnknownGraph(f"no graph '{name}'", graph=name)
        await send_answer(send, 200, {"content-type": "application/json"}, msgspec.json.encode({"graphs": known}))

    async def _pass_stream(self, request: Request, send: Send) -> None:
        """The events of a stream until it ends, as each comes. Errors: Unavailable if too many streams are open."""
        if self.metrics.open_streams >= limits.SERVICE_STREAMS_MAX:
            raise Unavailable(f"{self.metrics.open_streams} streams are open already", retry_after_s=30)
        lines = self._streaming.stream(request.path, request.headers)
        try:
            first = await anext(lines, None)
            if first is None:
                raise Unavailable("the service is stopping", retry_after_s=10)
            with self.metrics.streaming():
                await begin_answer(
                    send, 200, {"content-type": MEDIA_TYPE, "cache-control": "no-store", "x-accel-buffering": "no"}
                )
                await _send_lines(first, lines, send)
        finally:
            await lines.aclose()


async def _send_lines(first: bytes, lines: AsyncGenerator[bytes], send: Send) -> None:
    await send({"type": "http.response.body", "body": first + b"\n", "more_body": True})
    async for line in lines:
        await send({"type": "http.response.body", "body": line + b"\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _parts(path: str) -> tuple[str | None, str]:
    """The graph of a path, and the operation on it."""
    graph, _, operation = path.removeprefix(_GRAPHS).strip("/").partition("/")
    return graph or None, operation


def _target(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    path: bytes = scope["raw_path"]
    return (path + (b"?" + query if query else b"")).decode("latin-1")


async def _received(receive: Receive) -> bytes:
    """The body of a request. Errors: LimitExceeded."""
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionAbortedError("the client has gone")
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _key(caller: Caller, key: str) -> str:
    """The key of a caller here among those of this server there. Errors: UsageError."""
    require_key(key)
    return sha256(f"{len(caller.name)}/{caller.name}/{key}".encode()).hexdigest()
