"""Changes that are sent in the ordinary way, past most of the framework.

A scheduler sends thousands of small changes a second. Finding the route, the parameters and the form of the answer by general
means takes longer than the change itself. So the common form of a request goes to its handler directly. Everything else goes to
the framework, which knows these handlers as well and refuses in one place: other methods and paths, a query, an encoding, a body
that arrives in pieces or that does not decode.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, cast

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from fluxres.service.gate import App, Body, Message, Receive, Scope, Send
from fluxres.service.replies import Asked, Direct

_ROOT: Final = "/v1/graphs/"
_TYPE: Final = (b"content-type", b"application/json")
_ORDINARY: Final = frozenset((b"application/json", b"application/json; charset=utf-8"))


class _Operation(NamedTuple):
    handler: HTTPRouteHandler
    decode: Callable[[bytes], Any]
    change: Callable[..., Any]


class Express:
    """An ASGI application in front of that of the framework.

    Args:
        app: of the framework.
        handlers: of changes of a graph, each with one body in JSON and no other parameters.
        require_allowed: refuses what the caller of a request may not do.
    """

    def __init__(self, app: Litestar, handlers: tuple[HTTPRouteHandler, ...], require_allowed: Callable[[Asked], None]) -> None:
        self._app, self._require_allowed = app, require_allowed
        self._framework: App = app
        #: The application as handlers know it: its state takes a look-up by name for each value.
        self._state = SimpleNamespace(state=SimpleNamespace(**app.state.dict()))
        self._operations = dict(self._registered(path) for handler in handlers for path in handler.paths)

    def _registered(self, path: str) -> tuple[str, _Operation]:
        handler = self._app.route_handler_method_map[f"{_ROOT}{{graph:str}}{path}"]["POST"]
        assert isinstance(handler, HTTPRouteHandler)
        kind = handler.parsed_fn_signature.parameters["data"].annotation
        return path, _Operation(handler, msgspec.json.Decoder(kind, strict=False).decode, handler.fn)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        graph, operation = self._operation(scope)
        if operation is None:
            await self._framework(scope, receive, send)
            return
        body = receive.whole() if isinstance(receive, Body) else None
        try:
            if body is None:
                message = await receive()
                body, receive = message.get("body", b""), _again(message, receive)
                if message["type"] != "http.request" or message.get("more_body", False):
                    raise msgspec.DecodeError
            data = operation.decode(body)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            await self._framework(scope, receive, send)
            return
        scope["route_handler"], scope["path_params"] = operation.handler, {"graph": graph}
        request = cast("Asked", Direct(self._state, scope, body))
        self._require_allowed(request)
        content, revision = await operation.change(request=request, graph=graph, data=data)
        headers = [_TYPE, (b"content-length", b"%d" % len(content)), (b"etag", revision.encode("latin-1"))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _operation(self, scope: Scope) -> tuple[str, _Operation | None]:
        """The graph and the operation of a request of the common form."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["query_string"] or not scope["path"].startswith(_ROOT):
            return "", None
        graph, slash, name = scope["path"][len(_ROOT) :].partition("/")
        kind = next((value for key, value in scope["headers"] if key == b"content-type"), None)
        return graph, self._operations.get(slash + name) if kind in _ORDINARY and graph else None


def _again(message: Message, receive: Receive) -> Receive:
    """Receives a message that was received already, then the others."""
    first: list[Message] = [message]

    async def next_one() -> Message:
        return first.pop() if first else await receive()

    return next_one
