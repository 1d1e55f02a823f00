"""Answers as bytes, with what a cache and a conditional request need to know of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

import msgspec
from litestar import Request, Response

from fluxres import limits
from fluxres.errors import STATUS, FluxresError, UsageError
from fluxres.service.access import Caller
from fluxres.service.gate import Scope
from fluxres.service.kept import Keep, KeptAnswers, reused
from fluxres.service.site import Site

T = TypeVar("T")
Asked = Request[Any, Any, Any]

JSON: Final = "application/json"
CHILD: Final = "fluxres-child"
"""A header with the mark of the lease of a child, which its changes need."""
UNCONDITIONAL: Final = {"is_by_revision": False}
"""Of routes that are no change of the graph in memory, and cannot be made on one revision of it only."""
encode: Final = msgspec.json.Encoder().encode


def site_of(request: Asked) -> Site:
    site: Site = request.app.state.site
    return site


def caller_of(request: Asked) -> Caller:
    caller: Caller = request.scope["fluxres.caller"]  # type: ignore[typeddict-item]  # the gate put it there
    return caller


def json(kind: type[T], document: object, revision: str | None = None, status: int = 200) -> Response[T]:
    """A document as the answer of a handler that promises this type.

    The document was made by the code of the commands; a test decodes each kind of it as the type.
    """
    headers = {} if revision is None else {"etag": revision}
    body = document if isinstance(document, bytes) else encode(document)
    return cast("Response[T]", Response(body, media_type=JSON, status_code=status, headers=headers))


class Direct:
    """A request that passes the framework by (:mod:`fluxres.service.express`): what the handlers of changes ask of one.

    Args:
        app: with the state of the application.
        scope: as the framework would have it.
        body: all of it.
    """

    __slots__ = ("_body", "app", "headers", "path_params", "route_handler", "scope")

    def __init__(self, app: object, scope: Scope, body: bytes) -> None:
        self.app, self.scope, self._body = app, scope, body
        self.route_handler, self.path_params = scope["route_handler"], scope["path_params"]
        self.headers: dict[str, str] = scope["fluxres.headers"]

    async def body(self) -> bytes:
        return self._body


def reply(request: object, kind: type[T], body: bytes, revision: str) -> Response[T]:
    """A change as the answer to its request: for a direct one, the body and the revision."""
    if isinstance(request, Direct):
        return cast("Response[T]", (body, revision))
    return json(kind, body, revision)


class Keys:
    """The answers to requests with an idempotency key: the same request gets the same answer, and is done once.

    Args:
        kept: those of earlier servers.
    """

    def __init__(self, kept: KeptAnswers) -> None:
        self._kept = kept
        self._known: OrderedDict[tuple[str, str], tuple[str, asyncio.Future[Any]]] = OrderedDict()

    async def once(self, request: Asked, make: Callable[[Keep | None], Awaitable[T]]) -> T:
        """The answer of `make`, or that of an earlier request with the same key.

        Args:
            make: gets what keeps the answer in the store; what it answers is body and revision if it uses that.

        Errors: KeyReused; UsageError for a key that is too long; those of `make`.
        """
        key = request.headers.get("idempotency-key")
        if key is None:
            return await make(None)
        require_key(key)
        name, print_ = (caller_of(request).name, key), await _fingerprint(request)
        known, kept = self._known.get(name), self._kept.find(*name)
        if print_ != (known[0] if known is not None else kept.fingerprint if kept is not None else print_):
            raise reused(key)
        if known is not None:
            return cast("T", await asyncio.shield(known[1]))
        if kept is not None:
            return cast("T", kept.answer())
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._known[name] = print_, answer
        keep = Keep(self._kept, *name, print_)
        task = asyncio.ensure_future(_settle(answer, keep.once(make(keep))))
        task.add_done_callback(lambda _task: self._forget_unless_lasting(name, answer))
        while len(self._known) > limits.SERVICE_KEYS_KEPT:
            self._known.popitem(last=False)
        return await asyncio.shield(answer)

    def _forget_unless_lasting(self, name: tuple[str, str], answer: asyncio.Future[Any]) -> None:
        """Forget what may end otherwise the next time: trouble of the service."""
        error = answer.exception() if answer.done() and not answer.cancelled() else None
        is_lasting = error is None or (isinstance(error, FluxresError) and STATUS[type(error)][1] < 500)
        if not is_lasting or answer.cancelled():
            self._known.pop(name, None)


def keys_of(request: Asked) -> Keys:
    keys: Keys = request.app.state.once
    return keys


def require_key(key: str) -> None:
    """Errors: UsageError for what is no idempotency key."""
    if not 1 <= len(key) <= limits.SERVICE_KEY_LENGTH_MAX or not key.isprintable():
        raise UsageError(f"an idempotency key has 1 to {limits.SERVICE_KEY_LENGTH_MAX} printable characters")


async def _settle(answer: asyncio.Future[T], made: Awaitable[T]) -> None:
    """Make an answer, also when the client who asked first has gone."""
    try:
        answer.set_result(await made)
    except BaseException as error:  # noqa: BLE001 - whoever waits gets it
        answer.set_exception(error)


async def _fingerprint(request: Asked) -> str:
    scope = request.scope
    said = (str(scope["method"]), scope["path"], scope["query_string"].decode("latin-1"), request.headers.get("if-match", ""))
    return sha256("\n".join(said).encode() + b"\n" + await request.body()).hexdigest()
