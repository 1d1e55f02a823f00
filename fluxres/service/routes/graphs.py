"""The graphs of the store, and a graph as a whole: loaded, dropped, copied, saved in any format, its journal."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Annotated, Any, Final

from litestar import Response, delete, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, QueryParameter
from msgspec import structs

from fluxres import limits
from fluxres.clock import seconds
from fluxres.errors import UnknownGraph, UnknownPool, UsageError
from fluxres.model import ResourceGraph
from fluxres.render import documents
from fluxres.service import answers, requests
from fluxres.service.access import Role
from fluxres.service.described import DocumentFormat, described
from fluxres.service.replies import UNCONDITIONAL, Asked, caller_of, json, keys_of, site_of
from fluxres.service.routes.questions import READ, MaybeText, OfGraph
from fluxres.service.site import Site
from fluxres.store import Held, encoding, records
from fluxres.store.files import bytes_of

ADMIN: Final = {"role": Role.ADMIN}
SNAPSHOT: Final = "application/vnd.fluxres.graph"
_LENGTH_BYTES: Final = 8


@get("/graphs", opt=READ, operation_id="graphs")
async def graphs(request: Asked) -> Response[answers.Graphs]:
    """The graphs that the token is for. For a part of the machine: those that have it, and only what is in it."""
    caller, site = caller_of(request), site_of(request)

    def question() -> dict[str, Any]:
        rows = [row for row in site.graphs() if caller.graphs is None or row.name in caller.graphs]
        in_use = site.store.default if site.child is None else site.child.name
        if caller.paths is None:
            return {"graphs": documents.graphs(rows, in_use, site.store.standings())}
        within = [structs.replace(row, pools=pools) for row in rows if (pools := _pools_below(site, row.name, caller.paths))]
        return {"graphs": [found | {"events": None} for found in documents.graphs(within, in_use, {})]}

    return json(answers.Graphs, await site_of(request).work(question))


def _pools_below(site: Site, name: str, paths: Collection[str]) -> int:
    """The number of pools at and below some paths; 0 for a graph that has none of them, or was dropped just now."""
    try:
        graph = site.current(name).graph
    except UnknownGraph:
        return 0
    count, structure = 0, graph.structure
    for path in {path for path in paths if not any(path.startswith(f"{other}/") for other in paths)}:
        with suppress(UnknownPool):
            v = structure.vertex(path)
            count += structure.end.item(v) - v
    return count


@post(
    "/graphs",
    opt=ADMIN | UNCONDITIONAL | {"body": limits.SERVICE_DOCUMENT_BYTES_MAX},
    operation_id="load",
    status_code=201,
)
async def load(
    request: Asked,
    name: Annotated[str | None, QueryParameter(description="Of the graph; the name in the document by default.")] = None,
    document_format: DocumentFormat = None,
    replace: Annotated[bool, QueryParameter(description="Replace a graph of this name; its allocations are lost.")] = False,
    use: Annotated[bool, QueryParameter(description="Make it the graph in use.")] = False,
) -> Response[answers.Summary]:
    """Load the description of a machine, the body of the request, in any format that `fluxres formats` lists.

    The document cannot name files: includes are refused.
    """
    caller, site, content = caller_of(request), site_of(request), await request.body()
    command = f"{request.method} {request.url.path}"
    site.require_served(None)

    def operation() -> dict[str, Any]:
        graph = described(content, document_format, name)
        caller.require_graph(graph.name)
        caller.require_whole("to load a graph")
        require_name(graph.name)
        site.put(graph, graph.name, command, replace=replace, use=use)
        return documents.summary(graph)

    return json(answers.Summary, await keys_of(request).once(request, lambda _keep: site.work(operation)), status=201)


@get("/", opt=READ, operation_id="summary")
async def summary(request: Asked, graph: OfGraph) -> Response[answers.Summary]:
    """A graph in numbers: totals by type, states, jobs."""
    caller_of(request).require_whole("the summary")
    return json(answers.Summary, *await site_of(request).ask(graph, documents.summary))


@post("/use", opt=ADMIN | UNCONDITIONAL, operation_id="use", status_code=200)
async def use(request: Asked, graph: OfGraph) -> Response[answers.InUse]:
    """Make this graph the one in use: that of requests and commands that name none."""
    caller_of(request).require_whole("to choose a graph")
    site = site_of(request)
    await site.work(lambda: site.store.use(graph))
    return json(answers.InUse, {"in_use": graph})


@delete("/", opt=ADMIN | UNCONDITIONAL, operation_id="drop", status_code=200)
async def drop(
    request: Asked,
    graph: OfGraph,
    force: Annotated[bool, QueryParameter(description="Also if it has jobs or instances, which are lost.")] = False,
) -> Response[answers.DroppedGraph]:
    """Remove a graph from the store, with its journal.

    One with jobs that hold something or wait, or with instances, is refused.
    """
    caller_of(request).require_whole("to drop a graph")
    site, command = site_of(request), f"{request.method} {request.url.path}"
    lost = await site.work(lambda: site.drop(graph, command, force=force))
    return json(answers.DroppedGraph, {"dropped": graph, "lost": lost})


def require_name(name: str) -> None:
    """Errors: UsageError for a name that no address of a graph could have."""
    if "/" in name or name in (".", ".."):
        raise UsageError(f"no name of a graph on a server: {name!r:.80}", hint="a name without / has an address")


@post("/copy", opt=ADMIN, operation_id="copy", status_code=201)
async def copy(request: Asked, graph: OfGraph, data: JSONBody[requests.Copy]) -> Response[answers.Summary]:
    """Put what is free below a path, or what a job holds, into the store as a graph of its own.

    What a job holds is given by the new graph only as long as the job holds it.
    """
    caller_of(request).require_whole("to copy")
    caller_of(request).require_graph(data.name)
    require_name(data.name)
    site, command = site_of(request), f"{request.method} {request.url.path}"

    def question(g: ResourceGraph) -> tuple[ResourceGraph, float]:
        site.require_revision(g, request.headers.get("if-match"))
        return g.copy(data.path, job=data.job, at=data.at), seconds(g.window(data.at, None)[0])

    (made, since), _ = await site.ask(graph, question)
    held = None if data.job is None else Held(graph, data.job, since)

    def operation() -> dict[str, Any]:
        made.name = data.name
        site.put(made, data.name, command, replace=data.replace, held=held)
        return documents.summary(made)

    return json(answers.Summary, await keys_of(request).once(request, lambda _keep: site.work(operation)), status=201)


@get(
    "/document",
    opt=READ,
    operation_id="save",
    responses={
        200: ResponseSpec(bytes, media_type="application/octet-stream", description="The document.", generate_examples=False)
    },
)
async def document(
    request: Asked,
    graph: OfGraph,
    document_format: Annotated[str, QueryParameter(name="format", description="One that `fluxres formats` lists.")] = "cluster",
    path: Annotated[str, QueryParameter(description="Only this pool and everything below it.")] = "/",
    strict: Annotated[bool, QueryParameter(description="Refuse, if the format cannot express everything.")] = False,
) -> Response[bytes]:
    """The graph, or a part of it, as a file in any format."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> tuple[bytes, list[str]]:
        if caller.paths is not None:
            caller.require_path(g.pool(path).where)
        part = g.duplicate(path) if g.vertex(path) else g
        written = bytes_of(part, document_format, strict=strict)
        return written.data, list(written.left_out)

    (data, left_out), revision = await site_of(request).ask(graph, question)
    headers = {"etag": revision, "fluxres-left-out": str(len(left_out))}
    return Response(data, media_type="application/octet-stream", headers=headers)


@get(
    "/snapshot",
    opt=READ,
    operation_id="snapshot",
    responses={200: ResponseSpec(bytes, media_type=SNAPSHOT, description="Shape and marks.", generate_examples=False)},
)
async def snapshot(request: Asked, graph: OfGraph) -> Response[bytes]:
    """The complete state of a graph, for a client that goes on with it; its revision is the ETag."""
    caller_of(request).require_whole("a snapshot")

    def question(g: ResourceGraph) -> bytes:
        shape = encoding.encode_shape(g.structure)
        marks = encoding.encode_marks(g.structure, records.capture(g.records), encoding.shape_checksum(shape))
        return len(shape).to_bytes(_LENGTH_BYTES, "big") + shape + marks

    data, revision = await site_of(request).ask(graph, question)
    return Response(data, media_type=SNAPSHOT, headers={"etag": revision})


@get("/log", opt=READ, operation_id="log")
async def log(
    request: Asked,
    graph: OfGraph,
    after: Annotated[int, QueryParameter(ge=0, le=2**53, description="Only events with a higher number.")] = 0,
    job: MaybeText = None,
    path: MaybeText = None,
    user: MaybeText = None,
    limit: Annotated[int, QueryParameter(ge=1, le=limits.SERVICE_PAGE_MAX, description="The latest ones, at most.")] = 100,
) -> Response[answers.Log]:
    """Events of the journal, oldest first; `time` is in seconds, times within an event are in ticks of one microsecond."""
    caller_of(request).require_whole("the log")
    store = site_of(request).store

    def question() -> dict[str, Any]:
        found = store.log(graph, after=after, job=job, path=path, user=user, limit=limit)
        return {"log": [entry.document() for entry in found]}

    return json(answers.Log, await site_of(request).work(question))


OF_ALL: Final = (graphs, load)
OF_ONE: Final = (summary, use, drop, copy, document, snapshot, log)
