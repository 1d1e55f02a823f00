"""Changes of what jobs hold, of states, tags and stages. Each is in the journal when it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from litestar import Response, post
from litestar.params import JSONBody

from fluxres.clock import ticks
from fluxres.errors import Forbidden, UsageError
from fluxres.model import ResourceGraph, changes, reserving, targets
from fluxres.model.events import check_state
from fluxres.render import documents, reservations
from fluxres.service import answers, requests, scopes, sent_events, tap
from fluxres.service.access import Caller, Role
from fluxres.service.kept import Keep
from fluxres.service.replies import CHILD, Asked, T, caller_of, encode, keys_of, reply, site_of
from fluxres.service.routes.questions import OfGraph
from fluxres.store.child import gone

SCHEDULER: Final = {"role": Role.SCHEDULER}
ADMIN: Final = {"role": Role.ADMIN}


async def change(
    request: Asked, graph: str, kind: type[T], operation: Callable[[ResourceGraph], Any], *, command: str | None = None
) -> Response[T]:
    """Make a change once, and answer with the document that it returns."""
    said = f"{request.scope['method']} {request.scope['path']}" if command is None else command
    caller, site, headers = caller_of(request), site_of(request), request.headers
    mark = headers.get(CHILD)

    async def make(keep: Keep | None) -> tuple[bytes, str]:
        made = site.change(graph, caller, said, headers.get("if-match"), lambda g: encode(operation(g)), keep, mark)
        if mark is None:
            return await made
        with gone(graph, mark):
            return await made

    return reply(request, kind, *await keys_of(request).once(request, make))


def _require_unused(graph: ResourceGraph, jobs: Iterable[str]) -> None:
    """Refuse ids of jobs that hold something: a request that is sent twice must not allocate twice. Errors: UsageError."""
    for job in jobs:
        if graph.records.is_holder(job) and job in graph.jobs():
            raise UsageError("holds resources already", where=f"job '{job}'", hint="choose another id, or send grow: true")


def _left(request: Asked, graph: ResourceGraph, job: str) -> list[dict[str, Any]]:
    """What a job still holds, as far as the token is for it."""
    caller = caller_of(request)
    return [span for span in documents.left(graph, job) if caller.covers(span["path"])]


@post("/allocate", opt=SCHEDULER, status_code=200, operation_id="allocate")
async def allocate(request: Asked, graph: OfGraph, data: JSONBody[requests.Allocate]) -> Response[answers.Granted]:
    """Allocate pools, or what a request asks for, to a job; with `or_reserve` at the earliest start if not now."""
    caller = caller_of(request)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        if not data.grow:
            _require_unused(g, [data.job])
        wanted = scopes.restricted(g, caller, data.wanted)
        whose: dict[str, Any] = {"user": data.user, "name": data.name}
        if not data.or_reserve:
            window: dict[str, Any] = {"start": data.start, "end": data.end, "duration_s": data.duration_s}
            return documents.granted(g.allocate(wanted, job=data.job, **window, policy=data.policy, **whose))
        if data.end is not None:
            raise UsageError("both or_reserve and an end were given", hint="give a duration instead of an end")
        given: dict[str, Any] = {"after": data.start, "duration_s": data.duration_s, "policy": data.policy}
        return documents.granted(g.allocate_orelse_reserve(wanted, job=data.job, **given, **whose))

    return await change(request, graph, answers.Granted, operation)


@post("/allocate_all", opt=SCHEDULER, status_code=200, operation_id="allocateAll")
async def allocate_all(request: Asked, graph: OfGraph, data: JSONBody[requests.AllocateAll]) -> Response[answers.GrantedAll]:
    """Allocate to several jobs at one start: all of them, or none."""
    caller = caller_of(request)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        if not data.grow:
            _require_unused(g, [part.job for part in data.parts])
        pairs = [(scopes.restricted(g, caller, part.wanted), part.job) for part in data.parts]
        given: dict[str, Any] = {"duration_s": data.duration_s, "policy": data.policy, "user": data.user}
        if data.or_reserve:
            if data.end is not None:
                raise UsageError("both or_reserve and an end were given", hint="give a duration instead of an end")
            granted = g.allocate_all_orelse_reserve(pairs, after=data.start, **given)
        else:
            granted = g.allocate_all(pairs, start=data.start, end=data.end, **given)
        return {"allocations": [documents.granted(one) for one in granted]}

    return await change(request, graph, answers.GrantedAll, operation)


@post("/free", opt=SCHEDULER, status_code=200, operation_id="free")
async def free(request: Asked, graph: OfGraph, data: JSONBody[requests.Free]) -> Response[answers.Left]:
    """Free what a job holds: everything, some pools, or units of them."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        g.free(data.job, data.wanted, start=data.start, end=data.end)
        return {"job": data.job, "left": _left(request, g, data.job)}

    return await change(request, graph, answers.Left, operation)


@post("/grow", opt=SCHEDULER, status_code=200, operation_id="grow")
async def grow(request: Asked, graph: OfGraph, data: JSONBody[requests.Grow]) -> Response[answers.Granted]:
    """Allocate more to a job that holds something, until it ends."""
    caller = caller_of(request)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        wanted = scopes.restricted(g, caller, data.wanted)
        return documents.granted(g.grow(data.job, wanted, start=data.start, end=data.end, policy=data.policy))

    return await change(request, graph, answers.Granted, operation)


@post("/shrink", opt=SCHEDULER, status_code=200, operation_id="shrink")
async def shrink(request: Asked, graph: OfGraph, data: JSONBody[requests.Shrink]) -> Response[answers.Shrunk]:
    """Free a part of what a job holds: pools, units of them, or what a request finds in it."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        taken = g.shrink(data.job, data.wanted, start=data.start, end=data.end, policy=data.policy)
        return {
            "job": data.job,
            "taken": [documents.span(span) for span in taken.spans],
            "left": _left(request, g, data.job),
        }

    return await change(request, graph, answers.Shrunk, operation)


@post("/extend", opt=SCHEDULER, status_code=200, operation_id="extend")
async def extend(request: Asked, graph: OfGraph, data: JSONBody[requests.Extend]) -> Response[answers.Extended]:
    """Move the end of what a job holds: of all of it, or of nothing. That of a job of an instance is its limit there."""
    caller, site = caller_of(request), site_of(request)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        instances = site.served_as(g).instances
        if (name := instances.owner(g, data.job)) is None:
            g.set_end(data.job, data.end, duration_s=data.duration_s)
        else:
            caller.require_whole("an instance")
            instances.set_end(g, name, data.job, data.end, data.duration_s)
        return {"job": data.job, "held": _left(request, g, data.job)}

    return await change(request, graph, answers.Extended, operation)


@post("/expire", opt=SCHEDULER, status_code=200, operation_id="expire")
async def expire(request: Asked, graph: OfGraph, data: JSONBody[requests.Expire]) -> Response[answers.Ended]:
    """Drop the records that have ended, and stages that have expired."""
    caller = caller_of(request)
    caller.require_whole("to expire records")

    def operation(g: ResourceGraph) -> dict[str, Any]:
        if data.before is not None:
            _require_over(g, caller, ticks(data.before, "before", g.now()))
        return {"ended": g.expire(data.before)}

    return await change(request, graph, answers.Ended, operation)


def _require_over(graph: ResourceGraph, caller: Caller, before: int) -> None:
    """Let only admins end maintenance before its time. Errors: Forbidden."""
    last = {name: one.windows[-1][1] for name, one in graph.records.reservations.items()}
    if any(graph.now() < end <= before for end in last.values()):
        caller.require_role(Role.ADMIN, "the role admin to end maintenance before its time")


@post("/set_state", opt=ADMIN, status_code=200, operation_id="setState")
async def set_state(request: Asked, graph: OfGraph, data: JSONBody[requests.SetState]) -> Response[answers.Changed]:
    """Set the state of pools; the name of the token is noted with the reason."""
    name = caller_of(request).name

    def operation(g: ResourceGraph) -> dict[str, Any]:
        check_state(data.state)
        named = targets.pools(g, data.wanted, "state")
        g.set_state(named, data.state, reason=data.reason, user=name)
        return {"pools": len(named)}

    return await change(request, graph, answers.Changed, operation)


@post("/reserve", opt=ADMIN, status_code=200, operation_id="reserve")
async def reserve(request: Asked, graph: OfGraph, data: JSONBody[requests.Reserve]) -> Response[answers.Reservation]:
    """Reserve pools for maintenance: no job gets any of them, or anything below them, in the window."""
    caller = caller_of(request)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        window: dict[str, Any] = {"start": data.start, "end": data.end, "duration_s": data.duration_s}
        repeated: dict[str, Any] = {"every_s": data.every_s, "until": data.until}
        who = caller.name if data.user is None else data.user
        named = targets.pools(g, data.wanted, "reservation")
        caller.require_paths(g.structure.wheres(g.structure.affected(named).tolist()), f"reservation '{data.name}'")
        made = g.reserve(named, name=data.name, **window, **repeated, ignore_jobs=data.ignore_jobs, user=who)
        return reservations.documents(g, {data.name: made})[0]

    return await change(request, graph, answers.Reservation, operation)


@post("/unreserve", opt=ADMIN, status_code=200, operation_id="unreserve")
async def unreserve(request: Asked, graph: OfGraph, data: JSONBody[requests.Unreserve]) -> Response[answers.Removed]:
    """Give up a maintenance reservation with all of its windows."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        g.unreserve(data.name)
        return {"removed": data.name}

    return await change(request, graph, answers.Removed, operation)


@post("/tag", opt=SCHEDULER, status_code=200, operation_id="tag")
async def tag(request: Asked, graph: OfGraph, data: JSONBody[requests.Tag]) -> Response[answers.Changed]:
    """Tag pools."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        named = targets.pools(g, data.wanted, "tags")
        g.tag(named, data.key, data.value)
        return {"pools": len(named)}

    return await change(request, graph, answers.Changed, operation)


@post("/untag", opt=SCHEDULER, status_code=200, operation_id="untag")
async def untag(request: Asked, graph: OfGraph, data: JSONBody[requests.Untag]) -> Response[answers.Changed]:
    """Remove a tag from pools that have it."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        named = targets.pools(g, data.wanted, "tags")
        g.untag(named, data.key)
        return {"pools": len(named)}

    return await change(request, graph, answers.Changed, operation)


@post("/stage", opt=SCHEDULER, status_code=200, operation_id="stage")
async def stage(request: Asked, graph: OfGraph, data: JSONBody[requests.MakeStage]) -> Response[answers.Stage]:
    """Lock pools, or what a request asks for, while a job is considered."""
    caller = caller_of(request)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        wanted = scopes.restricted(g, caller, data.wanted)
        given: dict[str, Any] = {"start": data.start, "end": data.end, "duration_s": data.duration_s, "policy": data.policy}
        made = g.stage(wanted, job=data.job, ttl_s=data.ttl_s, **given)
        return documents.stage(g, g.records.require_stage(made.stage))

    return await change(request, graph, answers.Stage, operation)


@post("/commit", opt=SCHEDULER, status_code=200, operation_id="commit")
async def commit(request: Asked, graph: OfGraph, data: JSONBody[requests.EndStage]) -> Response[answers.Granted]:
    """Turn a stage into an allocation of its job."""
    return await change(request, graph, answers.Granted, lambda g: documents.granted(g.commit(data.stage)))


@post("/release", opt=SCHEDULER, status_code=200, operation_id="release")
async def release(request: Asked, graph: OfGraph, data: JSONBody[requests.EndStage]) -> Response[answers.Released]:
    """Release what a stage locks."""

    def operation(g: ResourceGraph) -> dict[str, Any]:
        g.release(data.stage)
        return {"released": data.stage}

    return await change(request, graph, answers.Released, operation)


_TELL_THEMSELVES: Final = frozenset(("state", "tag", "untag", "unlink", "move", "add_edge", "set_edge", "remove_edge"))
"""Events that are sent on by the method that makes them; this module sends on the others before it makes them."""


_OF_EVENTS: Final = {"needs": "the role scheduler, and admin where the machine, states or maintenance change"}


@post("/events", opt=SCHEDULER | _OF_EVENTS, status_code=200, operation_id="applyEvents")
async def apply_events(request: Asked, graph: OfGraph, data: JSONBody[requests.Events]) -> Response[answers.Applied]:
    """Make the events that a command decided on, if they can be made: all of them, or none.

    With If-Match, only on the revision that it decided on. A machine that is merged or applied has a route of its own.
    """
    caller, site = caller_of(request), site_of(request)
    for event in data.events:
        sent_events.require_form(event)
    if any(event["event"] in sent_events.OF_ADMINS for event in data.events):
        caller.require_role(Role.ADMIN)

    def operation(g: ResourceGraph) -> dict[str, Any]:
        for event in data.events:
            if event["event"] == "expire":
                _require_over(g, caller, event["before"])
            elif event["event"] == "reserve" and caller.paths is not None:
                tap.require_pools(event, caller)
            elif event["event"] == "set_end" and (name := site.served_as(g).instances.owner(g, event["job"])) is not None:
                hint = "POST .../extend, or `fluxres instance update`, tells the instance"
                raise UsageError(f"job {event['job']} belongs to instance '{name}'", hint=hint)
            _apply(g, event)
        return {"events": len(data.events)}

    return await change(request, graph, answers.Applied, operation, command=data.command or None)


def _takes_back(graph: ResourceGraph, name: str) -> bool:
    """Whether a reservation takes what jobs free, by events that follow those of the jobs."""
    reservation = graph.records.reservations.get(name)
    return reservation is not None and reservation.ignores_jobs


def _apply(graph: ResourceGraph, event: dict[str, Any]) -> None:
    """Make an event that a command decided on: it is checked, unlike one of a journal.

    Errors: Forbidden for pools that are out of service; UsageError for a name that is a job and a reservation; those of the
    operation.
    """
    structure = graph.structure
    if event["event"] == "reserve":
        reserving.require_unused(graph, event["job"])
        sent_events.require_reservable(graph, event)
    elif event["event"] not in ("unreserve", "release", "commit"):
        for job in [part.get("job") for part in event.get("parts", [event])]:
            if event["event"] != "allocate" or not _takes_back(graph, job):
                changes.refuse_reservation(graph, job)
    if event["event"] in ("allocate", "allocate_all", "stage"):
        for part in event.get("parts", [event]):
            for where, _ in part["pools"]:
                number = structure.accounts.number(where)
                if number < structure.n and structure.unavailable_because(number):
                    raise Forbidden("is out of service", where=where)
    if event["event"] not in _TELL_THEMSELVES and graph.sink is not None:
        graph.sink(event)
    graph.apply(event)


ROUTES: Final = (
    allocate,
    allocate_all,
    free,
    grow,
    shrink,
    extend,
    expire,
    set_state,
    reserve,
    unreserve,
    tag,
    untag,
    stage,
    commit,
    release,
    apply_events,
)
