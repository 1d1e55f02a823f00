"""The application: the routes in the framework, the errors as problems, the OpenAPI document, and the gate around it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, get_args

import msgspec
from litestar import Litestar, Response, Router
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Components, SecurityScheme

from fluxres import __version__
from fluxres.errors import FluxresError, Mistake, UsageError
from fluxres.service import problems
from fluxres.service.access import Access, Role
from fluxres.service.express import Express
from fluxres.service.gate import Gate
from fluxres.service.metrics import ServiceMetrics
from fluxres.service.pulse import Pulse
from fluxres.service.replies import Asked, Keys, caller_of, site_of
from fluxres.service.routes import changes, children, graphs, instances, operations, questions, runs, shape, streams
from fluxres.service.site import Site

LEASE: Final = "fluxres-lease"
"""A header with the mark of the lease that the server must have, from who found its address in a store."""
_PROBLEM: Final = ResponseSpec(
    problems.Problem, media_type=problems.MEDIA_TYPE, description="Why the request failed.", generate_examples=False
)
_ROUTES_HINT: Final = "/schema/openapi.json lists the routes and their methods"
_STATUSES: Final = (400, 401, 403, 404, 405, 409, 412, 413, 422, 429, 500, 503)


def make(site: Site, access: Access) -> Gate:
    """The application that serves a site."""
    metrics = ServiceMetrics()

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        pulse = asyncio.create_task(Pulse(site).run())
        yield
        pulse.cancel()
        await asyncio.get_running_loop().run_in_executor(None, site.close)

    app = routes(lifespan)
    app.state.site, app.state.once, app.state.metrics = site, Keys(site.kept), metrics
    gate = app.state.gate = Gate(Express(app, changes.ROUTES, require_allowed), access, metrics)
    return gate


def routes(lifespan: Any = None) -> Litestar:
    """The routes, which know their site by the state of the application."""
    specs: dict[int, ResponseSpec] = dict.fromkeys(_STATUSES, _PROBLEM)
    of_one = Router(
        "/graphs/{graph:str}",
        route_handlers=[
            *graphs.OF_ONE,
            *questions.ROUTES,
            *changes.ROUTES,
            *shape.ROUTES,
            *children.ROUTES,
            *instances.ROUTES,
            *runs.ROUTES,
            *streams.ROUTES,
        ],
    )
    v1 = Router("/v1", route_handlers=[*graphs.OF_ALL, of_one])
    for router in (v1, of_one):
        for route in router.routes:
            for handler in getattr(route, "route_handlers", ()):
                handler.responses = {**specs, **(handler.responses or {})}
    return Litestar(
        route_handlers=[v1, *operations.ROUTES],
        before_request=_before,
        exception_handlers={
            FluxresError: _of_error,
            HTTPException: _of_http,
            UnicodeDecodeError: _of_text,
            Exception: _of_unexpected,
        },
        openapi_config=_openapi(),
        request_max_body_size=None,  # the gate bounds it
        lifespan=[lifespan] if lifespan is not None else [],
        logging_config=None,
        debug=False,
    )


def _openapi() -> OpenAPIConfig:
    scheme = SecurityScheme(type="http", scheme="bearer", description="Not needed on the machine itself, unless it has tokens.")
    return OpenAPIConfig(
        title="fluxres",
        version=__version__,
        summary="The resource model of Flux RFC 4 and RFC 16 as a service.",
        path="/schema",
        render_plugins=[],
        use_handler_docstrings=True,
        components=Components(security_schemes={"token": scheme}),
        security=[{"token": []}, {}],
    )


async def _before(request: Asked) -> None:
    """It is no guard of the framework, which copies the handler for each call of one."""
    require_allowed(request)


def require_allowed(request: Asked) -> None:
    """Refuse what the role or the graphs of a token do not allow, and changes where another server leads.

    Errors: Forbidden, NotLeader; UsageError for a condition that would not be kept.
    """
    role = request.route_handler.opt.get("role")
    if role is None:
        return
    caller = caller_of(request)
    caller.require_role(role, request.route_handler.opt.get("needs"))
    graph = request.path_params.get("graph")
    if graph is not None:
        caller.require_graph(graph)
        site_of(request).require_served(graph)
    if "if-match" in request.headers and not request.route_handler.opt.get("is_by_revision", True):
        raise UsageError("this request cannot depend on a revision", where="If-Match", hint="send it without that header")
    mark = request.headers.get(LEASE)
    if role is not Role.READ_ONLY or mark is not None:
        site_of(request).leadership.require(mark)


def _problem(error: FluxresError, status: int | None = None) -> Response[bytes]:
    status = problems.status_of(error) if status is None else status
    return Response(
        problems.body(error, status), status_code=status, media_type=problems.MEDIA_TYPE, headers=problems.headers(error)
    )


def _of_error(_request: Asked, error: FluxresError) -> Response[bytes]:
    return _problem(error)


def _of_http(request: Asked, error: HTTPException) -> Response[bytes]:
    """What the framework refuses: an unknown path, another method, a body or a parameter of the wrong form."""
    if isinstance(error, ValidationException):
        extra = error.extra if isinstance(error.extra, list) else []
        mistakes = [Mistake(str(item.get("key", "")), _in_words(str(item.get("message", "")))) for item in extra]
        first = mistakes[0] if mistakes else Mistake("", error.detail)
        return _problem(UsageError(first.message, where=first.where, hint=_fields(request, first)), 400)
    if isinstance(error.__cause__, RecursionError):
        return _of_unexpected(request, error.__cause__)
    if error.status_code in (404, 405):
        refused = UsageError(f"{request.method} {request.url.path:.200}: {error.detail.lower()}", hint=_ROUTES_HINT)
        return _problem(refused, error.status_code)
    if error.detail == _CUT:
        refused = UsageError("is not complete JSON", where="body", hint="it ends too early: send all of it")
        return _problem(refused, error.status_code)
    return _problem(UsageError(error.detail), error.status_code)


_CUT: Final = "Input data was truncated"
"""What msgspec says about JSON without its end."""
_EXPECTED: Final = re.compile("Expected `([^`]+)`(.*?)(?:, got `([^`]+)`)?")
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def _in_words(message: str) -> str:
    """What msgspec says about a value of a wrong type, in the words of other messages.

    >>> _in_words("Expected `str | null`, got `int`"), _in_words("Expected `int` >= 1")
    ('expected text or nothing, got a whole number', 'expected a whole number >= 1')
    """
    found = _EXPECTED.fullmatch(message)
    if found is None:
        return message
    kinds, more, got = found.groups()
    said = " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))
    return f"expected {said}{more}" + (f", got {_WORDS.get(got, got)}" if got else "")


def _fields(request: Asked, mistake: Mistake) -> str:
    """The fields of the object in a body that has an unknown one, or lacks one."""
    data = request.route_handler.parsed_fn_signature.parameters.get("data")
    if data is None or " field " not in mistake.message:
        return ""
    kind = data.annotation
    for name in re.findall(r"[a-z_]\w*", mistake.where.removeprefix("data")):
        kind = next((field.type for field in msgspec.structs.fields(kind) if field.name == name), kind)
        kind = next((one for one in get_args(kind) if _is_body(one)), kind)
    return f"its fields: {', '.join(sorted(field.name for field in msgspec.structs.fields(kind)))}" if _is_body(kind) else ""


def _is_body(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _of_text(_request: Asked, error: UnicodeDecodeError) -> Response[bytes]:
    """The body is what a request has of bytes."""
    return _problem(UsageError(f"the body is not UTF-8: {error.reason}"))


def _of_unexpected(request: Asked, error: Exception) -> Response[bytes]:
    return _problem(problems.of_unexpected(error, request.method, request.url.path))
