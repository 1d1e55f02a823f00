"""Requests on a graph: find pools, and explain a refusal.

Finding a match only reads.  A match carries the revision it was found on; allocating it is a second step, which is refused if the
graph has changed in between.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from fluxres.allocation import steps
from fluxres.allocation.records import STAGE_OWNER
from fluxres.allocation.steps import Steps
from fluxres.clock import FOREVER, positive_ticks
from fluxres.errors import InfeasibleRequest, InsufficientResources, StaleHandle, UsageError
from fluxres.syntax.jobspec import Request
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.match import Placement, Policy
    from fluxres.match.reasons import Holders
    from fluxres.match.refusal import Refusal
    from fluxres.model.match import Match
    from fluxres.model.resource_graph import ResourceGraph


def length(graph: ResourceGraph, request: Request) -> int:
    """Length of an allocation in ticks: that of the request, else the default of its partition, else FOREVER."""
    wanted = request.duration_s
    if wanted is None and graph.structure.partitions and (partition := graph.matcher.partition_for(request)) is not None:
        wanted = partition.time_if_unstated_s
    return FOREVER if wanted is None or wanted == inf else positive_ticks(wanted)


def match(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Placement:
    """A match for a request over a window in ticks; the duration in the request is ignored.

    Errors: InsufficientResources, InfeasibleRequest.
    """
    found = graph.matcher.match(request, *window, policy)
    if found is None:
        raise error(graph, request, window, policy)
    return found


def first(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Placement | None:
    """The match with the earliest start at or after that of the window, of the same length; None if there is none."""
    start, end = window
    return graph.matcher.earliest(request, end - start if end < FOREVER else FOREVER, start, policy)


def error(
    graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy
) -> InsufficientResources | InfeasibleRequest:
    """Why a request, for which no match was found over a window in ticks, has none."""
    return refused(graph.matcher.refusal(request, *window, policy, holders=_holders(graph)))


def refused(refusal: Refusal) -> InsufficientResources | InfeasibleRequest:
    """A refusal as an error: the first part that falls short as the message, and the reasons by part."""
    if refusal.objections:
        return _objected(refusal)
    short, reasons = next((part for part in refusal.parts if part.is_short), None), refusal.reasons()
    noted = "; ".join(refusal.notes) or " ".join(refusal.sentences())
    message = (noted if short is None else reasons.get(short.place) or short.sentence()).removesuffix(".")
    if refusal.never:
        return InfeasibleRequest(message, hint=f"{refusal.bound} can never satisfy it", reasons=reasons, explanation=refusal)
    hint = "" if refusal.earliest is None else f"free from {in_message(refusal.earliest)} on"
    return InsufficientResources(message, hint=hint, earliest=refusal.earliest, reasons=reasons, explanation=refusal)


def _objected(refusal: Refusal) -> InsufficientResources | InfeasibleRequest:
    reasons = refusal.reasons()
    message, hint = refusal.objections[0].text, refusal.outlook().removesuffix(".")
    message, hint = f"partition '{refusal.objections[0].partition}' {message}", hint[:1].lower() + hint[1:]
    if refusal.never:
        return InfeasibleRequest(message, hint=hint, reasons=reasons, explanation=refusal)
    return InsufficientResources(message, hint=hint, earliest=refusal.earliest, reasons=reasons, explanation=refusal)


def in_partition(graph: ResourceGraph, request: Request, name: str) -> Request:
    """The request for a partition, if it says nothing about partitions and the machine has one of this name."""
    if "queue" in request.system or name not in graph.structure.partitions:
        return request
    return _for_queue(request, name)


@lru_cache(maxsize=4096)  # equal requests remain one object, by which inventories know them
def _for_queue(request: Request, name: str) -> Request:
    return replace(request, attributes={**request.attributes, "system": {**request.system, "queue": name}})


@lru_cache(maxsize=4096)
def for_any_partition(request: Request) -> Request:
    """The request without the partition that it names."""
    system = {key: value for key, value in request.system.items() if key != "queue"}
    others = {key: value for key, value in request.attributes.items() if key != "system"}
    return replace(request, attributes={**others, "system": system} if system else others)


def require_accepted(graph: ResourceGraph, request: Request, length: int) -> None:
    """Refuse a job that its partition does not accept for its queue (rule P2).

    Args:
        length: ticks.

    Errors: InsufficientResources while the partition accepts no jobs; InfeasibleRequest for what it never allows; UsageError for
    a partition that the machine does not have.
    """
    partition = graph.matcher.partition_for(request)
    if partition is None:
        return
    from fluxres.match import admission
    from fluxres.match.refusal import Refusal

    found = admission.not_accepted(partition, request, length)
    if found:
        raise refused(Refusal((), {}, any(each.is_lasting for each in found), objections=tuple(found)))


def require_time(graph: ResourceGraph, request: Request, length: int) -> None:
    """Refuse a time, in ticks, that the partition of a request never allows (rule P2). Errors: InfeasibleRequest; UsageError."""
    partition = graph.matcher.partition_for(request)
    if partition is None:
        return
    from fluxres.match import admission
    from fluxres.match.refusal import Refusal

    if found := admission.of_time(partition, length):
        raise refused(Refusal((), {}, never=True, objections=tuple(found)))


def explained(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Refusal | None:
    """Why a request has no match over a window in ticks, with the jobs in the way; None if it has one."""
    return graph.matcher.why_not(request, *window, policy, holders=_holders(graph))


def _holders(graph: ResourceGraph) -> Holders:
    records, now, held = graph.records, graph.now(), graph.records.held

    def named(owner: str) -> str:
        staged = records.stages.get(owner.removeprefix(STAGE_OWNER)) if owner.startswith(STAGE_OWNER) else None
        is_over = staged is not None and staged.expires <= now
        return f"{records.job_behind(owner)} (its stage is over: expire() drops it)" if is_over else records.said(owner)

    def last(owner: str, spans: Steps, start: int, end: int) -> int:
        reservation = records.reservations.get(owner)
        reserved = None if reservation is None else reservation.window_at(start, end)  # the one in the way, if they repeat
        return spans[-1][1] if reserved is None else reserved[1]

    def holders(v: int, start: int, end: int) -> list[tuple[str, int]]:
        return [
            (named(owner), last(owner, spans, start, end))
            for owner, spans in held.get(v, {}).items()
            if steps.touches(spans, start, end)
        ]

    return holders


def require_fresh(graph: ResourceGraph, found: Match) -> None:
    """Refuse a match that was not found on the present revision.

    Errors: StaleHandle, also for a match on another graph; UsageError for anything but a match.
    """
    from fluxres.model.match import Match

    if not isinstance(found, Match):
        raise UsageError(f"expected a match, got {found!r:.80}", hint="match() returns one")
    if found.graph is not graph:
        raise StaleHandle("this match was found on another graph", hint="match on this graph")
    if (found.generation, found.revision) != (graph.generation, graph.revision):
        raise StaleHandle(
            f"this match was found on revision {found.revision}, the graph is at {graph.revision}", hint="match again"
        )
