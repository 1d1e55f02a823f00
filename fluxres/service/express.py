"""Changes that are sent in the ordinary way, past most of the framework.

A scheduler sends thousands of small changes a second. Finding the route, the parameters and the form of the answer by general
means takes longer than the change itself. So the common form of a request goes to its handler directly. Everything else goes to
the framework, which knows these handlers as well and refuses in one place: other methods and paths, a query, an encoding, a body
that arrives in pieces or that does not decode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler

from fluxres.service.gate import App, Message, Receive, Scope, Send
from fluxres.service.replies import Asked

_ROOT: Final = "/v1/graphs/"
_ORDINARY: Final = frozenset((b"application/json", b"application/json; charset=utf-8"))


class _Operation(NamedTuple):
    handler: HTTPRouteHandler
    decode: Callable[[bytes], Any]


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
        self._operations = dict(self._registered(path) for handler in handlers for path in handler.paths)

    def _registered(self, path: str) -> tuple[str, _Operation]:
        handler = self._app.route_handler_method_map[f"{_ROOT}{{graph:str}}{path}"]["POST"]
        assert isinstance(handler, HTTPRouteHandler)
        kind = handler.parsed_fn_signature.parameters["data"].annotation
        return path, _Operation(handler, msgspec.json.Decoder(kind, strict=False).decode)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        graph, operation = self._operation(scope)
        if operation is None:
            await self._framework(scope, receive, send)
            return
        message = await receive()
        body = message.get("body", b"")
        try:
            if message["type"] != "http.request" or message.get("more_body", False):
                raise msgspec.DecodeError
            data = operation.decode(body)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            await self._framework(scope, _again(message, receive), send)
            return
        scope.update(route_handler=operation.handler, path_params={"graph": graph}, litestar_app=self._app)
        request: Asked = Request(scope, _again(message, receive), send)  # type: ignore[arg-type]  # the types of ASGI are those of each framework
        self._require_allowed(request)
        answer: Response[Any] = await operation.handler.fn(request=request, graph=graph, data=data)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer.content))]
        headers += [(key.encode(), value.encode("latin-1")) for key, value in answer.headers.items()]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": answer.content})

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
