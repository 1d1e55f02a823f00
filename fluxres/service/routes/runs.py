"""Programs that run inside allocations, started elsewhere (`fluxres run --store http://…`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, get, post
from litestar.params import JSONBody, QueryParameter
from litestar.response import Stream

from fluxres import limits
from fluxres.allocation.facts import Launch
from fluxres.clock import fixed, system
from fluxres.errors import Forbidden, UsageError
from fluxres.launch import desk, identity, waiting
from fluxres.launch.desk import Application, Author
from fluxres.model import ResourceGraph, targets
from fluxres.service import answers, requests
from fluxres.service.access import Caller, Role
from fluxres.service.replies import UNCONDITIONAL, Asked, T, caller_of, json, keys_of, site_of
from fluxres.service.routes.changes import SCHEDULER
from fluxres.service.routes.questions import READ, OfGraph
from fluxres.service.routes.streams import STREAM, pushed
from fluxres.store import Store
from fluxres.syntax import jobspec

_PROCESSES_MAX: Final = 8
_ROOT: Final = "root"


async def _once(
    request: Asked, graph: str, kind: type[T], command: str, operation: Callable[[Store, Author], Any]
) -> Response[T]:
    """Do something in the store once, and answer with the document that it returns."""
    caller, site = caller_of(request), site_of(request)
    caller.require_whole("to run programs")
    author = Author(command or f"{request.method} {request.url.path}", caller.name)

    async def make(_keep: object) -> bytes:
        return msgspec.json.encode(await site.in_store(graph, lambda store: operation(store, author)))

    return json(kind, await keys_of(request).once(request, make))


@post("/run", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="run")
async def run(request: Asked, graph: OfGraph, data: JSONBody[requests.Run]) -> Response[answers.Standing]:
    """Allocate to a job that lives by processes, or queue its request. The job ends with its processes, or with its lease.

    A mark that is known is only told how it stands, so the request may be repeated.
    """
    asked = _application(data, _user(request, data.user))

    def operation(store: Store, author: Author) -> dict[str, Any]:
        def asking(g: ResourceGraph) -> Application:
            for path, _ in asked.pools:
                g.vertex(path)
            return asked

        standing, _ = desk.enter(store, graph, data.mark, asking, author)
        return _document(standing)

    return await _once(request, graph, answers.Standing, data.command, operation)


@post("/renew", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="renew")
async def renew(request: Asked, graph: OfGraph, data: JSONBody[requests.Renew]) -> Response[answers.Standing]:
    """Renew the lease of a run, and say how it stands."""
    _require_mark(data.mark)
    _require_lease(data.lease_s)
    return await _once(
        request,
        graph,
        answers.Standing,
        data.command,
        lambda store, author: _document(desk.renew(store, graph, data.mark, data.lease_s, author)),
    )


@post("/end", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="end")
async def end(request: Asked, graph: OfGraph, data: JSONBody[requests.EndRun]) -> Response[answers.Standing]:
    """Free what a run holds, or take its request out of the queue."""
    _require_mark(data.mark)

    def operation(store: Store, author: Author) -> dict[str, Any]:
        desk.release(store, graph, data.mark, author, data.status)
        return _document(desk.GONE)

    return await _once(request, graph, answers.Standing, data.command, operation)


@post("/cancel", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="cancel")
async def cancel(request: Asked, graph: OfGraph, data: JSONBody[requests.Cancel]) -> Response[answers.Canceled]:
    """Have the launcher of a job end its program, or take its request out of the queue; only for one's own jobs."""
    caller, is_open = caller_of(request), request.app.state.gate.access.is_open

    def require(user: str | None) -> None:
        may = caller.name in (user, _ROOT) if is_open else caller.name == user or caller.role is Role.ADMIN
        if not may:
            raise Forbidden("belongs to another user", where=f"job '{data.job}'", hint="ask its user, or an administrator")

    if not 0 <= data.grace_s < math.inf:
        raise UsageError(f"grace_s: expected at least 0 seconds, got {data.grace_s:g}")

    def operation(store: Store, author: Author) -> dict[str, Any]:
        return {"job": data.job, "was": desk.cancel(store, graph, data.job, data.grace_s, author, require)}

    return await _once(request, graph, answers.Canceled, data.command, operation)


@get("/queue", opt=READ, operation_id="queue")
async def queue(request: Asked, graph: OfGraph) -> Response[answers.Queue]:
    """The requests that wait for resources."""
    caller_of(request).require_whole("the queue")
    store = site_of(request).store

    def question() -> dict[str, Any]:
        tickets, now = store.tickets(graph), store.load(graph, clock=fixed(system()))
        freed = desk.freed(store, graph, now)
        starts = waiting.Pass(now).run(tickets, only_estimate=True).starts if tickets else {}
        known = {job: None if math.isinf(start) else start for job, start in starts.items()}
        return {"tickets": msgspec.to_builtins(tickets), "starts": known, "freed": msgspec.to_builtins(freed)}

    return json(answers.Queue, await site_of(request).work(question))


@get(
    "/news",
    opt=SCHEDULER,
    operation_id="news",
    responses=STREAM,
)
async def news(
    request: Asked,
    graph: OfGraph,
    mark: Annotated[str, QueryParameter(description="Of the run.")],
    lease_s: Annotated[float, QueryParameter(ge=0, le=1e9, description="Life of its lease.")] = limits.RUN_LEASE_SECONDS_DEFAULT,
) -> Stream:
    """What concerns one run, as it happens: it has its resources, its place in the queue, it should end its program.

    News is only a hint: after a lost connection, `renew` says how the run stands.
    """
    caller_of(request).require_whole("to run programs")
    _require_mark(mark)
    exchange = site_of(request).exchange
    return await pushed(request, graph, lambda _served: exchange.follow(graph, mark, lease_s))


def _user(request: Asked, said: str) -> str:
    """Whose job it is: on a server with tokens, that of the token."""
    caller: Caller = caller_of(request)
    return said or caller.name if request.app.state.gate.access.is_open else caller.name


def _application(data: requests.Run, user: str) -> Application:
    """Errors: UsageError, InputError."""
    _require_mark(data.mark)
    _require_lease(data.lease_s)
    if not 1 <= len(data.processes) <= _PROCESSES_MAX or not all(pid > 0 for pid, _ in data.processes):
        raise UsageError(f"processes: expected 1 to {_PROCESSES_MAX} process ids with their start times")
    if abs(data.priority) > limits.PRIORITY_MAX:
        raise UsageError(f"priority: expected at most {limits.PRIORITY_MAX}, got {data.priority}")
    if (data.request is None) == (not data.pools):
        raise UsageError("expected a request or pools", hint="give one of them")
    if data.duration_s is not None and not data.duration_s > 0:
        raise UsageError(f"duration_s: expected more than 0 seconds, got {data.duration_s:g}")
    request = None if data.request is None else jobspec.parse(data.request, dialect="any")
    launch = Launch(_host_of(data), data.boot, tuple(data.processes), data.mark, tuple(data.program))
    return Application(
        launch,
        targets.label(user, "user") or "",
        targets.label(data.name, "name"),
        data.waits,
        None if data.job is None else targets.job_id(data.job),
        data.priority,
        request,
        data.request,
        tuple(data.pools),
        data.duration_s,
        data.policy,
        data.shows_place,
        data.lease_s,
        is_served=True,
    )


def _host_of(data: requests.Run) -> str:
    """The host, with its boot if it only has the name of this one: two machines may have the same."""
    here, there = (boot.partition("/")[0] for boot in (identity.boot(), data.boot))
    return data.host if data.host != identity.host() or here == there else f"{data.host}#{there[:8]}"


def _require_mark(mark: str) -> None:
    """Errors: UsageError."""
    if desk.MARK.fullmatch(mark) is None:
        raise UsageError(f"mark: expected 24 hexadecimal digits, got {mark!r:.40}")


def _require_lease(lease_s: float) -> None:
    """Errors: UsageError."""
    if not limits.RUN_LEASE_SECONDS_MIN <= lease_s < math.inf:
        raise UsageError(f"lease_s: expected at least {limits.RUN_LEASE_SECONDS_MIN:g} seconds, got {lease_s:g}")


def _document(standing: desk.Standing) -> dict[str, Any]:
    return {"job": standing.job, "state": standing.state, "end": standing.end}


ROUTES: Final = (run, renew, end, cancel, queue, news)
