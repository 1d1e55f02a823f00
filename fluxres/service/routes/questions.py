"""Questions about requests, pools and jobs. They are answered from memory, and do not wait for a disk."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

import numpy as np
from litestar import Response, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from fluxres import limits
from fluxres.clock import FOREVER, seconds
from fluxres.errors import Forbidden, StaleHandle, UsageError
from fluxres.model import ResourceGraph, Selection, targets
from fluxres.render import documents, jobs, nodes, refusals, reservations
from fluxres.service import answers, requests, scopes
from fluxres.service.access import Caller, Role
from fluxres.service.replies import Asked, caller_of, json, site_of

READ: Final = {"role": Role.READ_ONLY}
Limit = Annotated[int, QueryParameter(ge=1, le=limits.SERVICE_PAGE_MAX, description="Items of a page.")]
After = Annotated[str | None, QueryParameter(description="`next` of the page before.")]
At = Annotated[str | None, QueryParameter(description="A moment: seconds since 1970, or text such as +1h; now by default.")]
Length = Annotated[str | None, QueryParameter(description="A length of time: seconds, or text such as 90m.")]
Text = Annotated[str, QueryParameter()]
MaybeText = Annotated[str | None, QueryParameter()]
OfGraph = Annotated[str, PathParameter(description="A graph of the store.")]
Path = Annotated[str, QueryParameter(description="A pool by path, URI, uuid or short name.")]
PAGE: Final = limits.SERVICE_PAGE_DEFAULT


# -- requests ------------------------------------------------------------------------------------------------------------


@post("/match", opt=READ, status_code=200, operation_id="match")
async def match(request: Asked, graph: OfGraph, data: JSONBody[requests.Question]) -> Response[answers.Matched]:
    """What a request would get at a moment."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        found = g.match(scopes.restricted(g, caller, data.wanted), data.at, data.duration_s, data.policy)
        return documents.matched(g, found, seconds(g.now()))

    return json(answers.Matched, *await site_of(request).ask(graph, question))


@post("/when", opt=READ, status_code=200, operation_id="when")
async def when(request: Asked, graph: OfGraph, data: JSONBody[requests.Question]) -> Response[answers.Matched]:
    """The earliest start of a request, and what it would get then."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        wanted = scopes.restricted(g, caller, data.wanted)
        now = seconds(g.now())
        begin = now if data.at is None else data.at
        first = g.earliest(wanted, begin, data.duration_s, data.policy)
        found = g.match(wanted, begin if first is None else first, data.duration_s, data.policy)
        return documents.matched(g, found, now)

    return json(answers.Matched, *await site_of(request).ask(graph, question))


@post("/why", opt=READ, status_code=200, operation_id="why")
async def why(request: Asked, graph: OfGraph, data: JSONBody[requests.Question]) -> Response[answers.Refusal]:
    """Why a request has no match at a moment; `matches` is true if it has one."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        refusal = g.why_not(scopes.restricted(g, caller, data.wanted), data.at, data.duration_s, data.policy)
        document = refusals.document(refusal)
        for cause in (cause for part in document["parts"] for cause in part["causes"]):
            cause["pools"] = list(filter(caller.covers, cause["pools"]))
        return document | {"sentences": [] if refusal is None else refusal.sentences()}

    return json(answers.Refusal, *await site_of(request).ask(graph, question))


@post("/satisfiable", opt=READ, status_code=200, operation_id="satisfiable")
async def satisfiable(request: Asked, graph: OfGraph, data: JSONBody[requests.Question]) -> Response[answers.Satisfiability]:
    """Whether a request could ever be matched, with everything up and nothing held."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        return {"satisfiable": g.satisfiable(scopes.restricted(g, caller, data.wanted))}

    return json(answers.Satisfiability, *await site_of(request).ask(graph, question))


# -- pools ---------------------------------------------------------------------------------------------------------------


def _place_after(graph: ResourceGraph, after: str | None) -> int:
    """Where a page begins: the number after the generation in its name.

    Errors: UsageError; StaleHandle after a change of the shape.
    """
    if after is None:
        return 0
    generation, _, number = after.partition(".")
    if not (generation.isdecimal() and number.isdecimal() and len(after) < 32):
        raise UsageError(f"after: expected `next` of an earlier page, got {after!r:.40}")
    if int(generation) != graph.generation:
        raise StaleHandle("the graph changed its structure since the page before", hint="begin with the first page")
    return int(number)


def _page(found: Selection, after: str | None, limit: int, window: tuple[int, int]) -> dict[str, Any]:
    graph, vertices = found.graph, found.vertices
    rest = vertices[np.searchsorted(vertices, _place_after(graph, after)) :]
    page = graph.select(rest[:limit])
    following = f"{graph.generation}.{int(rest[limit])}" if len(rest) > limit else None
    return {"count": len(found), "pools": [documents.pool(p, window) for p in page], "next": following}


@get("/pools", opt=READ, operation_id="find")
async def find(
    request: Asked, graph: OfGraph, criteria: Text, at: At = None, after: After = None, limit: Limit = PAGE
) -> Response[answers.Pools]:
    """Pools that meet the criteria (specs/criteria.md), page by page."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        return _page(scopes.visible(g.find(criteria, at=at), caller), after, limit, g.window(at, None))

    return json(answers.Pools, *await site_of(request).ask(graph, question))


@get("/available", opt=READ, operation_id="available")
async def available(
    request: Asked, graph: OfGraph, at: At = None, duration_s: Length = None, after: After = None, limit: Limit = PAGE
) -> Response[answers.Pools]:
    """Pools with units free at a moment, or throughout a time, page by page."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        return _page(scopes.visible(g.available(at, duration_s), caller), after, limit, g.window(at, duration_s))

    return json(answers.Pools, *await site_of(request).ask(graph, question))


@get("/pool", opt=READ, operation_id="pool")
async def pool(request: Asked, graph: OfGraph, path: Path, at: At = None) -> Response[answers.Pool]:
    """One pool."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        found = g.pool(path)
        caller.require_path(found.where)
        return documents.pool(found, g.window(at, None))

    return json(answers.Pool, *await site_of(request).ask(graph, question))


@get("/walk", opt=READ, operation_id="walk")
async def walk(
    request: Asked,
    graph: OfGraph,
    path: Path = "/",
    order: Text = "pre",
    hierarchy: MaybeText = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Response[answers.Pools]:
    """A pool and everything below it, in the order `pre`, `post` or `bfs`, page by page."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        _require_place(g, caller, path, hierarchy)
        begin, found = _place_after(g, after), list(g.walk(path, order, hierarchy=hierarchy))
        page = list(islice(found, begin, begin + limit))
        following = f"{g.generation}.{begin + limit}" if begin + limit < len(found) else None
        window = g.window(None, None)
        return {"count": len(found), "pools": [documents.pool(p, window) for p in page], "next": following}

    return json(answers.Pools, *await site_of(request).ask(graph, question))


def _require_place(graph: ResourceGraph, caller: Caller, path: str, hierarchy: str | None) -> None:
    """Errors: Forbidden for what is not below the parts that a token is for."""
    if caller.paths is None:
        return
    if hierarchy is not None and hierarchy != graph.structure.hierarchy:
        raise Forbidden(f"token '{caller.name}' is for {', '.join(caller.paths)} only", where=hierarchy)
    caller.require_path(graph.pool(path).where)


@get("/aggregate", opt=READ, operation_id="aggregate")
async def aggregate(
    request: Asked,
    graph: OfGraph,
    path: Path = "/",
    at: At = None,
    duration_s: Length = None,
    every: Annotated[bool, QueryParameter(name="all", description="Include types of which nothing is free.")] = False,
    hierarchy: MaybeText = None,
) -> Response[answers.Aggregate]:
    """Free units by type at and below a pool."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        _require_place(g, caller, path, hierarchy)
        place = targets.place(g, path, hierarchy)
        free, unit_of = g.aggregate(path, at, duration_s, every, hierarchy), g.units
        where = f"{place.name}:/" if place.above_roots else g.structure.where(place.vertices[0])
        return {"path": where, "available": free, "units": {name: unit_of[name] for name in free}}

    return json(answers.Aggregate, *await site_of(request).ask(graph, question))


@get("/nodes", opt=READ, operation_id="nodes")
async def nodes_by_state(
    request: Asked, graph: OfGraph, at: At = None, after: After = None, limit: Limit = PAGE
) -> Response[answers.Nodes]:
    """The nodes and the state of each, page by page; `counts` are of all of them."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        found, begin = g.node_states(at), _place_after(g, after)
        if caller.paths is not None:
            found = found.only(np.isin(found.vertices, scopes.nodes(g, caller)))
        is_shown = np.zeros(len(found.vertices), np.bool_)
        is_shown[begin : begin + limit] = True
        shown = list(nodes.documents(g, found.only(is_shown), g.window(at, None)))
        following = f"{g.generation}.{begin + limit}" if begin + limit < len(found.vertices) else None
        return {"counts": found.counts(), "nodes": shown, "next": following}

    return json(answers.Nodes, *await site_of(request).ask(graph, question))


# -- jobs ----------------------------------------------------------------------------------------------------------------


@get("/jobs", opt=READ, operation_id="jobs")
async def list_jobs(
    request: Asked,
    graph: OfGraph,
    on: Annotated[str | None, QueryParameter(description="Only jobs with something on these pools.")] = None,
    user: MaybeText = None,
    job_state: Annotated[str | None, QueryParameter(name="state", description="Only those that are running, or planned.")] = None,
    at: At = None,
    after: Annotated[int, QueryParameter(ge=0, le=2**53, description="`next` of the page before.")] = 0,
    limit: Limit = PAGE,
) -> Response[answers.Jobs]:
    """Jobs that hold something now or later, or at a moment, running ones first; page by page."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        if job_state not in (None, jobs.RUNNING, jobs.PLANNED):
            raise UsageError(f"state: expected running or planned, got {job_state!r:.40}")
        window = (g.now(), FOREVER) if at is None else g.window(at, None)
        places = targets.vertices_named(g.structure, on) if on is not None else []
        found = jobs.views(g, window, on=places, user=user, state=job_state)
        if caller.paths is not None:
            own = np.array(scopes.tops(g, caller), np.int64)
            found = [view for view in found if _all_within(g, own, view.holding.vertices)]
        following = after + limit if after + limit < len(found) else None
        return {"count": len(found), "jobs": [view.document() for view in found[after : after + limit]], "next": following}

    return json(answers.Jobs, *await site_of(request).ask(graph, question))


def _all_within(graph: ResourceGraph, own: Any, vertices: Any) -> bool:
    ends = graph.structure.end[own]
    return bool(((vertices[:, None] >= own) & (vertices[:, None] < ends)).any(axis=1).all())


@get("/job", opt=READ, operation_id="job")
async def one_job(request: Asked, graph: OfGraph, job: Text, at: At = None) -> Response[answers.OneJob]:
    """A job with everything that it holds."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        window = (g.now(), FOREVER) if at is None else g.window(at, None)
        found = jobs.views(g, window, job=job)
        if not found:
            raise UsageError("the job holds nothing then", where=f"job '{job}'", hint="the log has its history")
        view = found[0]
        caller.require_paths(map(g.structure.accounts.where, view.holding.vertices.tolist()), f"job '{job}'")
        planned = jobs.waits(g, [view], window[0]) if view.state == jobs.PLANNED else []
        spans = documents.spans(g, sorted({*view.holding.vertices.tolist()}), *window, job)
        waits_for = [blocker for wait in planned for blocker in wait.blockers]
        return {**view.document(), "waits_for": waits_for, "allocated": spans}

    return json(answers.OneJob, *await site_of(request).ask(graph, question))


@get("/resource_set", opt=READ, operation_id="resourceSet")
async def resource_set(
    request: Asked,
    graph: OfGraph,
    job: Text,
    at: At = None,
    scheduling: Annotated[bool, QueryParameter(description="With the graph of the pools (RFC 40).")] = False,
) -> Response[answers.ResourceSet]:
    """R of a job (RFC 20): of all that it holds, or of one moment."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        held = g.allocation(job, at)
        caller.require_paths((one.where for one in held.pools), f"job '{job}'")
        return held.R(scheduling)

    return json(answers.ResourceSet, *await site_of(request).ask(graph, question))


@get("/reservations", opt=READ, operation_id="reservations")
async def list_reservations(request: Asked, graph: OfGraph) -> Response[answers.Reservations]:
    """The maintenance reservations that are not over; for a part of the machine, those that are wholly in it."""
    caller = caller_of(request)

    def question(g: ResourceGraph) -> dict[str, Any]:
        found = reservations.documents(g, g.reservations())
        return {"reservations": [one for one in found if all(map(caller.covers, one["affected"]))]}

    return json(answers.Reservations, *await site_of(request).ask(graph, question))


@get("/stages", opt=READ, operation_id="stages")
async def stages(request: Asked, graph: OfGraph) -> Response[answers.Stages]:
    """The stages that have not expired."""
    caller = caller_of(request)
    caller.require_whole("the list of stages")

    def question(g: ResourceGraph) -> dict[str, Any]:
        now = g.now()
        return {"stages": [documents.stage(g, staged) for staged in g.records.stages.values() if staged.expires > now]}

    return json(answers.Stages, *await site_of(request).ask(graph, question))


@get("/check", opt=READ, operation_id="check")
async def check(request: Asked, graph: OfGraph) -> Response[answers.Check]:
    """Check all rules on the live data."""
    caller_of(request).require_whole("a check")

    def question(g: ResourceGraph) -> dict[str, Any]:
        return {"graph": g.name, "pools": len(g), "problems": [documents.problem(p) for p in g.check()]}

    return json(answers.Check, *await site_of(request).ask(graph, question))


ROUTES: Final = (
    match,
    when,
    why,
    satisfiable,
    find,
    available,
    pool,
    walk,
    aggregate,
    nodes_by_state,
    list_jobs,
    one_job,
    resource_set,
    list_reservations,
    stages,
    check,
)
