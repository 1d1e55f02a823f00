"""Requests on a graph: find, reserve, explain, and hand what was found to the records.

A match is found by reading only and carries the revision it was found on; giving it to a job is a second step,
which refuses a match that something has overtaken.  Between the two lies nothing but this module.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fluxres.allocation import steps
from fluxres.allocation.holdings import STAGE_OWNER
from fluxres.clock import FOREVER, Length, Time, length_ticks, seconds, ticks
from fluxres.errors import InfeasibleRequest, InsufficientResources, StaleHandle, UsageError
from fluxres.graph.auxiliary import Int32
from fluxres.match import Match, Matcher, Policy, Refusal
from fluxres.model import changes, targets
from fluxres.model.pool import Pool
from fluxres.model.values import Allocation
from fluxres.syntax.jobspec import Request, Wanted, as_request
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def matcher(graph: ResourceGraph) -> Matcher:
    """The matcher of this generation, made when first asked for."""
    if graph.matcher is None:
        graph.matcher = Matcher(graph.structure, graph.planner)
    return graph.matcher


def length(own_s: Length | None, duration_s: Length | None) -> int:
    """Ticks that a request is for: as long as said, else as long as it says itself, else without end.

    Errors: UsageError for a duration that is not positive.
    """
    given = own_s if duration_s is None else duration_s
    found = FOREVER if given is None else length_ticks(given)
    if found < 1:
        raise UsageError(f"duration_s: expected a positive number of seconds, got {given!r}")
    return found


def _window(
    graph: ResourceGraph, request: Request, at: Time | None, duration_s: Length | None, name: str = "at"
) -> tuple[int, int]:
    now = graph.now()
    start = now if at is None else ticks(at, name)
    return start, min(start + length(request.duration_s, duration_s), FOREVER)


def match(
    graph: ResourceGraph,
    wanted: Wanted,
    at: Time | None,
    duration_s: Length | None,
    policy: str | Policy,
    name: str = "at",
) -> Match:
    """Pools for a request; see :meth:`ResourceGraph.match`.

    Args:
        name: what the caller calls the start.
    """
    request = as_request(wanted)
    return match_within(graph, request, _window(graph, request, at, duration_s, name), policy)


def match_within(graph: ResourceGraph, wanted: Wanted, window: tuple[int, int], policy: str | Policy) -> Match:
    """Pools for a request over a window in ticks, whatever duration the request says."""
    request = as_request(wanted)
    found = matcher(graph).match(request, *window, policy)
    if found is None:
        raise _refused(graph, request, window, policy)
    return stamped(graph, found)


def stamped(graph: ResourceGraph, found: Match) -> Match:
    """The match, as one of this graph in its present state."""
    generation = graph.generation
    return found.stamped(graph.number, generation, graph.revision, partial(_handles, graph, generation, graph.structure.n))


def _handles(graph: ResourceGraph, generation: int, n: int, vertices: Int32) -> tuple[Pool, ...]:
    # What a match draws through edges stands behind the pools.
    return tuple(Pool(graph, v, generation) for v in vertices.tolist() if v < n)


def _first(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Match | None:
    """The match with the earliest start from the window's on, as long as the window; one without end stays without end."""
    start, end = window
    return matcher(graph).earliest(request, end - start if end < FOREVER else FOREVER, start, policy)


def _refused(
    graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy
) -> InsufficientResources | InfeasibleRequest:
    refusal = explained(graph, request, window, policy)
    if refusal is None:  # the search above was given up where this one was not
        return InsufficientResources("no pools found for the request", hint="ask for less at once")
    return refused(refusal)


def refused(refusal: Refusal) -> InsufficientResources | InfeasibleRequest:
    """A refusal as an error: its first part that is short, and the reasons by part."""
    short = next((part for part in refusal.parts if part.is_short), None)
    message = short.sentence() if short is not None else " ".join(refusal.sentences())
    if refusal.never:
        return InfeasibleRequest(message, hint="this machine can never satisfy it", reasons=refusal.reasons())
    hint = "" if refusal.earliest is None else f"free from {in_message(refusal.earliest)} on"
    return InsufficientResources(message, hint=hint, earliest=refusal.earliest, reasons=refusal.reasons())


def explained(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Refusal | None:
    """Why there are no pools for a request over a window in ticks, with the jobs that hold them; None when there are."""
    records, now = graph.records, graph.now()

    def named(owner: str) -> str:
        job = records.job_behind(owner)
        staged = records.stages.get(owner.removeprefix(STAGE_OWNER)) if owner.startswith(STAGE_OWNER) else None
        is_over = staged is not None and staged.expires <= now
        return f"{job} (its stage is over: expire() drops it)" if is_over else job

    def holders(v: int, start: int, end: int) -> list[tuple[str, int]]:
        return [
            (named(owner), max(e for _, e, _ in steps.within(held, start, FOREVER)))
            for owner, held in records.held.get(v, {}).items()
            if steps.touches(held, start, end)
        ]

    return matcher(graph).why_not(request, *window, policy, holders=holders)


def why_not(
    graph: ResourceGraph, wanted: Wanted, at: Time | None, duration_s: Length | None, policy: str | Policy
) -> Refusal | None:
    """Why there are no pools for a request; see :meth:`ResourceGraph.why_not`."""
    request = as_request(wanted)
    return explained(graph, request, _window(graph, request, at, duration_s), policy)


def earliest(
    graph: ResourceGraph, wanted: Wanted, after: Time | None, duration_s: Length | None, policy: str | Policy
) -> float | None:
    """The first start; see :meth:`ResourceGraph.earliest`."""
    request = as_request(wanted)
    found = _first(graph, request, _window(graph, request, after, duration_s, "after"), policy)
    return None if found is None else seconds(found.start)


def satisfiable(graph: ResourceGraph, wanted: Wanted) -> bool:
    """Whether the machine could ever satisfy a request; see :meth:`ResourceGraph.satisfiable`."""
    return matcher(graph).satisfiable(as_request(wanted))


def allocate(
    graph: ResourceGraph,
    wanted: Wanted,
    job: str,
    at: Time | None,
    duration_s: Length | None,
    policy: str | Policy,
    name: str = "at",
) -> Allocation:
    """Match a request and give what was found; see :meth:`ResourceGraph.allocate`."""
    targets.job_id(job)
    request = as_request(wanted)
    window = _window(graph, request, at, duration_s, name)
    if at is not None:
        changes.require_end(graph, window)
    revision = graph.revision
    found = matcher(graph).match(request, *window, policy)
    return _given(graph, request, window, policy, found, job, revision)


def reserve(
    graph: ResourceGraph, wanted: Wanted, job: str, after: Time | None, duration_s: Length | None, policy: str | Policy
) -> Allocation:
    """The same at the earliest start; see :meth:`ResourceGraph.allocate_orelse_reserve`."""
    targets.job_id(job)
    request = as_request(wanted)
    window = _window(graph, request, after, duration_s, "after")
    revision = graph.revision
    found = _first(graph, request, window, policy)
    if found is not None and (after is not None or found.start > window[0]):
        changes.require_end(graph, (found.start, found.end))
    return _given(graph, request, window, policy, found, job, revision)


def _given(
    graph: ResourceGraph,
    request: Request,
    window: tuple[int, int],
    policy: str | Policy,
    found: Match | None,
    job: str,
    revision: int,
) -> Allocation:
    if found is None:
        raise _refused(graph, request, window, policy)
    if graph.revision != revision:  # by a policy of the caller's own: nothing else runs in between
        raise StaleHandle("the graph was changed while pools were sought for this request", hint="ask again")
    require_picks(found)
    return changes.commit_match(graph, found, job)


def give(graph: ResourceGraph, found: Match, job: str) -> Allocation:
    """Make a match an allocation.

    Errors: StaleHandle when the graph changed since the match was found; nothing changes then.
    """
    targets.job_id(job)
    require_fresh(graph, found)
    require_picks(found)
    changes.require_end(graph, (found.start, found.end))
    return changes.commit_match(graph, found, job)


def require_fresh(graph: ResourceGraph, found: Match) -> None:
    """Refuse a match that something has overtaken.

    Errors: StaleHandle, also for a match of another graph; UsageError for what is no match.
    """
    if not isinstance(found, Match):
        raise UsageError(f"expected a match, got {found!r:.80}", hint="match() finds one")
    if found.graph != graph.number:
        raise StaleHandle("this match was not found on this graph", hint="match here")
    if (found.generation, found.revision) != (graph.generation, graph.revision):
        raise StaleHandle(
            f"this match was found on revision {found.revision}, the graph is at {graph.revision}", hint="match again"
        )


def require_picks(found: Match) -> None:
    """Refuse to record a match in which there is nothing to record."""
    if not len(found):
        raise UsageError(
            "the request asks only for pools to be shared, of which nothing is recorded",
            hint="put them in a slot (slot/core) or ask for them exclusively (core{x})",
        )
