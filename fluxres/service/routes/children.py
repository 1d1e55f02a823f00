"""What a child gets of its parent, and gives back: both graphs are changed in one transaction, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Response, post
from litestar.params import JSONBody

from fluxres.clock import FOREVER, seconds
from fluxres.model import targets
from fluxres.service import answers, requests
from fluxres.service.replies import Asked, Keep, T, caller_of, json, keys_of, site_of
from fluxres.service.routes.changes import SCHEDULER
from fluxres.service.routes.questions import OfGraph
from fluxres.store import Store, child
from fluxres.store.child import Both


async def _once(request: Asked, graph: str, kind: type[T], operation: Callable[[Both], Any]) -> Response[T]:
    """Change both graphs once, and answer with the document that the operation returns."""
    caller, site, command = caller_of(request), site_of(request), f"{request.method} {request.url.path}"
    caller.require_whole("to change what a graph is a part of")

    async def make(keep: Keep | None) -> tuple[bytes, str]:
        def change(store: Store) -> bytes:
            with child.both(store, graph, command, caller.name) as pair:
                caller.require_graph(pair.parent.name)
                body = msgspec.json.encode(operation(pair))
                if keep is not None:
                    pair.notes.append(keep(body, ""))
            return body

        return await site.in_store(graph, change), ""

    body, _ = await keys_of(request).once(request, make)
    return json(kind, body)


@post("/child/grow", opt=SCHEDULER, status_code=200, operation_id="growChild")
async def grow(request: Asked, graph: OfGraph, data: JSONBody[requests.GrowChild]) -> Response[answers.Paths]:
    """Get more of the graph that this one is a part of: pools by name, or what a request asks for there."""

    def operation(pair: Both) -> dict[str, Any]:
        return {"paths": child.grow(pair, data.wanted, data.policy)}

    return await _once(request, graph, answers.Paths, operation)


@post("/child/shrink", opt=SCHEDULER, status_code=200, operation_id="shrinkChild")
async def shrink(request: Asked, graph: OfGraph, data: JSONBody[requests.ShrinkChild]) -> Response[answers.Paths]:
    """Return pools, by name, to the graph that this one is a part of."""

    def operation(pair: Both) -> dict[str, Any]:
        return {"paths": child.shrink(pair, targets.pools(pair.part, data.wanted, "the parent"))}

    return await _once(request, graph, answers.Paths, operation)


@post("/child/extend", opt=SCHEDULER, status_code=200, operation_id="extendChild")
async def extend(request: Asked, graph: OfGraph, data: JSONBody[requests.ExtendChild]) -> Response[answers.NewEnd]:
    """Move the end of the job, in the other graph, that this graph is a part of."""

    def operation(pair: Both) -> dict[str, Any]:
        found = child.extend(pair, data.end, data.duration_s)
        return {"end": None if found >= seconds(FOREVER) else found}

    return await _once(request, graph, answers.NewEnd, operation)


ROUTES: Final = (grow, shrink, extend)
