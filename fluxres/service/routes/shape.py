"""Changes of the machine itself: pools and edges that come, go and move. They are for tokens of the entire graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, post
from litestar.params import JSONBody, QueryParameter

from fluxres import clock, limits
from fluxres.errors import UsageError
from fluxres.model import ResourceGraph
from fluxres.render import differences, documents
from fluxres.service import answers, requests
from fluxres.service.access import Role
from fluxres.service.described import DocumentFormat, described
from fluxres.service.kept import Keep
from fluxres.service.replies import CHILD, Asked, T, caller_of, json, keys_of, site_of
from fluxres.service.routes.changes import change
from fluxres.service.routes.questions import READ, OfGraph
from fluxres.store import Entry, Store, child

ADMIN: Final = {"role": Role.ADMIN}
_A_DOCUMENT: Final = {"body": limits.SERVICE_DOCUMENT_BYTES_MAX}


async def _reshape(
    request: Asked, graph: str, kind: type[T], operation: Callable[[ResourceGraph], dict[str, Any]]
) -> Response[T]:
    """Change the shape once, and answer with the document that the operation returns."""
    caller_of(request).require_whole("to change the machine")
    return await change(request, graph, kind, operation)


@post("/merge", opt=ADMIN | _A_DOCUMENT, status_code=200, operation_id="merge")
async def merge(
    request: Asked,
    graph: OfGraph,
    at: Annotated[str | None, QueryParameter(description="Path or URI of its root; its own path by default.")] = None,
    source: Annotated[str | None, QueryParameter(description="A graph of the store, instead of a document.")] = None,
    document_format: DocumentFormat = None,
) -> Response[answers.Merged]:
    """Add another machine to this one: the document in the body, in any format, or another graph of the store."""
    caller, site, content = caller_of(request), site_of(request), await request.body()
    caller.require_whole("to change the machine")
    if source is None:
        other = await site.work(lambda: described(content, document_format))
    elif content.strip():
        raise UsageError("both a graph and a document were given", hint="give one of them")
    else:
        caller.require_graph(source)
        site.require_served(source)
        other = await site.work(lambda: site.store.load(source, clock=clock.system))

    def operation(g: ResourceGraph) -> dict[str, Any]:
        before = len(g)
        g.merge(other, at)
        return {**documents.summary(g), "added": len(g) - before}

    return await _reshape(request, graph, answers.Merged, operation)


@post("/apply", opt=ADMIN | _A_DOCUMENT, status_code=200, operation_id="apply")
async def apply(
    request: Asked,
    graph: OfGraph,
    drain: Annotated[bool, QueryParameter(description="Drain what is gone but held by jobs, instead of refusing.")] = False,
    document_format: DocumentFormat = None,
) -> Response[answers.Reshaped]:
    """Change the machine into what the document in the body describes, in any format; jobs keep what they hold."""
    site, content = site_of(request), await request.body()
    caller_of(request).require_whole("to change the machine")
    wanted = await site.work(lambda: described(content, document_format))

    def operation(g: ResourceGraph) -> dict[str, Any]:
        found = g.apply(wanted, drain=drain)
        return {**differences.document(found), "pools": len(g), "drained": found.drained}

    return await _reshape(request, graph, answers.Reshaped, operation)


@post("/diff", opt=READ | _A_DOCUMENT, status_code=200, operation_id="diff")
async def diff(request: Asked, graph: OfGraph, document_format: DocumentFormat = None) -> Response[answers.Difference]:
    """What `apply` would change."""
    site, content = site_of(request), await request.body()
    caller_of(request).require_whole("to compare the machine")
    wanted = await site.work(lambda: described(content, document_format))
    return json(answers.Difference, *await site.ask(graph, lambda g: differences.document(g.diff(wanted))))


@post("/unlink", opt=ADMIN, status_code=200, operation_id="unlink")
async def unlink(request: Asked, graph: OfGraph, data: JSONBody[requests.Unlink]) -> Response[answers.Unlinked]:
    """Remove a pool and everything below it from a hierarchy."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        before = len(g)
        g.unlink(data.path, data.hierarchy)
        return {"path": data.path, "hierarchy": data.hierarchy, "removed": before - len(g), "pools": len(g)}

    return await _reshape(request, graph, answers.Unlinked, operation)


@post("/move", opt=ADMIN, status_code=200, operation_id="move")
async def move(request: Asked, graph: OfGraph, data: JSONBody[requests.Move]) -> Response[answers.Moved]:
    """Move a pool and everything below it into another pool, or to a path."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        uuid = g.pool(data.path).uuid
        g.move(data.path, data.to)
        return documents.moved(g, data.path, data.to, uuid)

    return await _reshape(request, graph, answers.Moved, operation)


@post("/add_edge", opt=ADMIN, status_code=200, operation_id="addEdge")
async def add_edge(request: Asked, graph: OfGraph, data: JSONBody[requests.AddEdge]) -> Response[answers.Edge]:
    """Add an edge between two pools to an auxiliary graph."""
    return await _of_edge(request, graph, data, ResourceGraph.add_edge)


@post("/set_edge", opt=ADMIN, status_code=200, operation_id="setEdge")
async def set_edge(request: Asked, graph: OfGraph, data: JSONBody[requests.SetEdge]) -> Response[answers.Edge]:
    """Change the capacity, unit, supply or attributes of an edge."""
    return await _of_edge(request, graph, data, ResourceGraph.set_edge)


@post("/remove_edge", opt=ADMIN, status_code=200, operation_id="removeEdge")
async def remove_edge(request: Asked, graph: OfGraph, data: JSONBody[requests.RemoveEdge]) -> Response[answers.Edge]:
    """Remove an edge; the pools stay."""
    return await _of_edge(request, graph, data, ResourceGraph.remove_edge)


async def _of_edge(request: Asked, graph: str, data: requests.OneEdge, operation: Callable[..., None]) -> Response[answers.Edge]:
    """Change one edge: the fields of the body are the arguments of the operation."""
    given = msgspec.structs.asdict(data)
    if given.get("capacity") is not None:
        given["capacity"] = float(given["capacity"])  # JSON has no infinity

    def make(g: ResourceGraph) -> dict[str, Any]:
        operation(g, **given)
        return documents.edge(g, data.source, data.target, data.subsystem, data.relation)

    return await _reshape(request, graph, answers.Edge, make)


@post("/undo", opt=ADMIN, status_code=200, operation_id="undo")
async def undo(request: Asked, graph: OfGraph, data: JSONBody[requests.Undo]) -> Response[answers.Undone]:
    """Put back the state before the last change of the graph; with `redo`, what an undo took away."""
    caller, site = caller_of(request), site_of(request)
    command = data.command or f"{request.method} {request.url.path}"
    caller.require_whole("to undo changes")
    expected, mark = request.headers.get("if-match"), request.headers.get(CHILD)

    def body(undone: list[Entry]) -> bytes:
        return msgspec.json.encode({"undone": [one.document() for one in undone]})

    async def make(keep: Keep | None) -> tuple[bytes, str]:
        def operation(store: Store) -> bytes:
            def require() -> None:
                site.require_stored_revision(graph, expected)
                if mark is not None:
                    child.require(store, graph, mark)

            note = None if keep is None else lambda undone: keep(body(undone), "")
            return body(store.undo(graph, redo=data.redo, command=command, user=caller.name, require=require, note=note))

        with child.gone(graph, mark):
            return await site.in_store(graph, operation, keep), ""

    found, _ = await keys_of(request).once(request, make)
    return json(answers.Undone, found)


ROUTES: Final = (merge, apply, diff, unlink, move, add_edge, set_edge, remove_edge, undo)
