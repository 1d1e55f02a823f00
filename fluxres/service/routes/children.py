"""What a child gets of its parent, and gives back: both graphs are changed in one transaction, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Response, post
from litestar.params import JSONBody

from fluxres.clock import FOREVER, seconds
from fluxres.service import answers, requests
from fluxres.service.kept import Keep
from fluxres.service.replies import CHILD, UNCONDITIONAL, Asked, T, caller_of, json, keys_of, site_of
from fluxres.service.routes.changes import SCHEDULER
from fluxres.service.routes.graphs import require_name
from fluxres.service.routes.questions import OfGraph
from fluxres.store import GraphRow, Store, child
from fluxres.store.child import Both
from fluxres.store.claims import Claim


async def _once(request: Asked, graph: str, kind: type[T], operation: Callable[[Both], Any], command: str = "") -> Response[T]:
    """Change both graphs once, and answer with the document that the operation returns."""
    caller, site, command = caller_of(request), site_of(request), command or f"{request.method} {request.url.path}"
    caller.require_whole("to change what a graph is a part of")
    mark = request.headers.get(CHILD)

    async def make(keep: Keep | None) -> tuple[bytes, str]:
        def change(store: Store) -> bytes:
            with child.both(store, graph, command, caller.name, mark) as pair:
                caller.require_graph(pair.parent.name)
                body = msgspec.json.encode(operation(pair))
                if keep is not None:
                    pair.notes.append(keep(body, ""))
            return body

        with child.gone(graph, mark):
            return await site.in_store(graph, change, keep), ""

    body, _ = await keys_of(request).once(request, make)
    return json(kind, body)


@post("/child/grow", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="growChild")
async def grow(request: Asked, graph: OfGraph, data: JSONBody[requests.GrowChild]) -> Response[answers.Paths]:
    """Get more of the graph that this one is a part of: pools by name, or what a request asks for there."""

    def operation(pair: Both) -> dict[str, Any]:
        return {"paths": child.grow(pair, data.wanted, data.policy)}

    return await _once(request, graph, answers.Paths, operation, data.command)


@post("/child/shrink", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="shrinkChild")
async def shrink(request: Asked, graph: OfGraph, data: JSONBody[requests.ShrinkChild]) -> Response[answers.Paths]:
    """Return pools, by name, to the graph that this one is a part of."""

    def operation(pair: Both) -> dict[str, Any]:
        return {"paths": child.shrink(pair, data.wanted)}

    return await _once(request, graph, answers.Paths, operation, data.command)


@post("/child/extend", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="extendChild")
async def extend(request: Asked, graph: OfGraph, data: JSONBody[requests.ExtendChild]) -> Response[answers.NewEnd]:
    """Move the end of the job, in the other graph, that this graph is a part of."""

    def operation(pair: Both) -> dict[str, Any]:
        found = child.extend(pair, data.end, data.duration_s)
        return {"end": None if found >= seconds(FOREVER) else found}

    return await _once(request, graph, answers.NewEnd, operation, data.command)


@post("/child/refresh", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="refreshChild")
async def refresh(request: Asked, graph: OfGraph) -> Response[answers.Paths]:
    """Take over what the parent has changed in what the job of this graph holds."""
    return await _once(request, graph, answers.Paths, lambda _pair: {"paths": []})


# -- the lease of a child that works through this server -------------------------------------------------------------------


@post("/child/open", opt=SCHEDULER | UNCONDITIONAL, status_code=201, operation_id="openChild")
async def begin(request: Asked, graph: OfGraph, data: JSONBody[requests.OpenChild]) -> Response[answers.ChildLease]:
    """Begin to work on what a job of this graph holds: on a graph of its own in the store, under a lease."""
    caller, site, command = caller_of(request), site_of(request), f"{request.method} {request.url.path}"
    caller.require_whole("a child")
    if data.name is not None:
        require_name(data.name)
        caller.require_graph(data.name)
    asked = child.Opening(
        graph, data.job, data.wanted, data.duration_s, data.name, data.lease_s, (data.host or caller.name, data.process)
    )

    async def make(keep: Keep | None) -> tuple[bytes, str]:
        def change(store: Store) -> bytes:
            def note(row: GraphRow, claim: Claim) -> tuple[str, str] | None:
                caller.require_graph(row.name)
                return None if keep is None else keep(_lease(row, claim), "")

            return _lease(*child.begin(store, asked, command, caller.name, note))

        return await site.in_store(graph, change, keep), ""

    body, _ = await keys_of(request).once(request, make)
    return json(answers.ChildLease, body, status=201)


def _lease(row: GraphRow, claim: Claim) -> bytes:
    lease = claim.lease
    assert lease is not None
    facts = {"mark": lease.mark, "life_s": lease.life_s, "until": seconds(lease.until)}
    return msgspec.json.encode({"graph": row.name, "parent": claim.name, "job": claim.job, **facts})


@post("/child/renew", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="renewChild")
async def renew(request: Asked, graph: OfGraph, data: JSONBody[requests.Leased]) -> Response[answers.Renewed]:
    """Renew the lease of this graph; the child that has it does so several times in its life."""

    def change(store: Store, _keep: Keep | None) -> bytes:
        # The answer is not kept for the next server, of which the same request renews it as well.
        until, lapsed = child.renew(store, graph, data.mark, None, "child: end")
        return msgspec.json.encode({"until": seconds(until), "lapsed": lapsed})

    return json(answers.Renewed, await _leased(request, graph, change))


@post("/child/detach", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="detachChild")
async def detach(request: Asked, graph: OfGraph, data: JSONBody[requests.Leased]) -> Response[answers.Dropped]:
    """Give the lease back; the graph stays as long as the job in the parent."""

    def change(store: Store, keep: Keep | None) -> bytes:
        body = _dropped(graph)
        child.detach(store, graph, data.mark, "child: detach", None if keep is None else keep(body, ""))
        return body

    return json(answers.Dropped, await _leased(request, graph, change))


@post("/child/end", opt=SCHEDULER | UNCONDITIONAL, status_code=200, operation_id="endChild")
async def end(request: Asked, graph: OfGraph, data: JSONBody[requests.EndChild]) -> Response[answers.Dropped]:
    """End the child: its job in the parent is freed, and its graph is removed. Without a mark, its program loses the lease."""
    caller = caller_of(request)

    def change(store: Store, keep: Keep | None) -> bytes:
        body = _dropped(graph)

        def note(above: str) -> tuple[str, str] | None:
            caller.require_graph(above)
            return None if keep is None else keep(body, "")

        child.end(store, graph, data.command or "child: end", data.mark, user=caller.name, note=note)
        return body

    return json(answers.Dropped, await _leased(request, graph, change, is_of_lease=data.mark is not None))


def _dropped(graph: str) -> bytes:
    return msgspec.json.encode({"dropped": graph})


async def _leased(
    request: Asked, graph: str, change: Callable[[Store, Keep | None], bytes], *, is_of_lease: bool = True
) -> bytes:
    """Change something of a child once; one that has a lease is gone if that was over. Errors: HoldLapsed."""
    caller_of(request).require_whole("a child")

    async def make(keep: Keep | None) -> tuple[bytes, str]:
        with child.gone(graph, "" if is_of_lease else None):
            return await site_of(request).in_store(graph, lambda store: change(store, keep), keep), ""

    return (await keys_of(request).once(request, make))[0]


ROUTES: Final = (begin, renew, refresh, grow, shrink, extend, detach, end)
