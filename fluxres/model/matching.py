"""Requests on a graph: find pools, explain a refusal, and allocate what was found.

Finding a match only reads.  A match carries the revision it was found on; allocating it is a second step, which refuses a match
when the graph has changed in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fluxres.allocation import steps
from fluxres.allocation.owners import STAGE_OWNER
from fluxres.clock import FOREVER, Length, Time, length_ticks, ticks
from fluxres.errors import InfeasibleRequest, InsufficientResources, StaleHandle, UsageError
from fluxres.match import Matcher, Placement, Policy, Refusal
from fluxres.model import changes, targets
from fluxres.model.pool import Pool
from fluxres.model.values import Allocation
from fluxres.syntax.jobspec import Request, Wanted, as_request
from fluxres.syntax.moment import in_message

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Match(Placement):
    """Pools that satisfy a request over a window, found on one state of a graph.

    Args:
        found_on: the graph.
        generation, revision: its state.
        pools_end: accounts from this number on are edges, through which a match draws.
    """

    found_on: ResourceGraph = field(repr=False)
    generation: int
    revision: int
    pools_end: int

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools to record, in vertex order, as handles of the graph."""
        return tuple(Pool(self.found_on, v, self.generation) for v in self.vertices.tolist() if v < self.pools_end)


def matcher(graph: ResourceGraph) -> Matcher:
    """The matcher of this generation, made when it is first needed."""
    if graph.matcher is None:
        graph.matcher = Matcher(graph.structure, graph.planner)
    return graph.matcher


def length(own_s: Length | None, duration_s: Length | None) -> int:
    """Length of the allocation in ticks: the duration given, else that of the request, else FOREVER.

    Errors: UsageError for a duration that is not positive.
    """
    given = own_s if duration_s is None else duration_s
    found = FOREVER if given is None else length_ticks(given)
    if found < 1:
        raise UsageError(f"duration_s: expected a positive number of seconds, got {given!r}")
    return found


def window_of(
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
    """A match for a request.

    Args:
        name: what the caller calls the start.

    Errors: InsufficientResources, InfeasibleRequest, InputError.
    """
    request = as_request(wanted)
    return match_within(graph, request, window_of(graph, request, at, duration_s, name), policy)


def match_within(graph: ResourceGraph, wanted: Wanted, window: tuple[int, int], policy: str | Policy) -> Match:
    """A match for a request over a window in ticks, whatever the duration in the request."""
    request = as_request(wanted)
    found = matcher(graph).match(request, *window, policy)
    if found is None:
        raise _refused(graph, request, window, policy)
    return stamped(graph, found)


def stamped(graph: ResourceGraph, found: Placement) -> Match:
    """The placement, marked with this graph and its present state."""
    return Match(
        found.vertices,
        found.amounts,
        found.whole,
        found.shared,
        found.slots,
        found.counts,
        found.start,
        found.end,
        found.policy,
        found.fallback,
        found.implied,
        found.drawn,
        found.is_routed,
        found_on=graph,
        generation=graph.generation,
        revision=graph.revision,
        pools_end=graph.structure.n,
    )


def first(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Placement | None:
    """The match with the earliest start from that of the window on, of the same length; None when there is none."""
    start, end = window
    return matcher(graph).earliest(request, end - start if end < FOREVER else FOREVER, start, policy)


def _refused(
    graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy
) -> InsufficientResources | InfeasibleRequest:
    refusal = explained(graph, request, window, policy)
    if refusal is None:  # the matcher gave up the search above, and not this one
        return InsufficientResources("no pools found for the request", hint="ask for less at once")
    return refused(refusal)


def refused(refusal: Refusal) -> InsufficientResources | InfeasibleRequest:
    """A refusal as an error: the sentence of its first short part, and the reasons by part."""
    short = next((part for part in refusal.parts if part.is_short), None)
    message = short.sentence() if short is not None else " ".join(refusal.sentences())
    if refusal.never:
        return InfeasibleRequest(message, hint="this machine can never satisfy it", reasons=refusal.reasons())
    hint = "" if refusal.earliest is None else f"free from {in_message(refusal.earliest)} on"
    return InsufficientResources(message, hint=hint, earliest=refusal.earliest, reasons=refusal.reasons())


def explained(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Refusal | None:
    """Why a request has no match over a window in ticks, with the jobs in the way; None when it has one."""
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


def allocate(
    graph: ResourceGraph,
    wanted: Wanted,
    job: str,
    at: Time | None,
    duration_s: Length | None,
    policy: str | Policy,
    name: str = "at",
) -> Allocation:
    """Match a request and allocate what was found."""
    targets.job_id(job)
    request = as_request(wanted)
    window = window_of(graph, request, at, duration_s, name)
    if at is not None:
        changes.require_end(graph, window)
    revision = graph.revision
    found = matcher(graph).match(request, *window, policy)
    return _given(graph, request, window, policy, found, job, revision)


def reserve(
    graph: ResourceGraph, wanted: Wanted, job: str, after: Time | None, duration_s: Length | None, policy: str | Policy
) -> Allocation:
    """Match a request at the earliest start and allocate what was found."""
    targets.job_id(job)
    request = as_request(wanted)
    window = window_of(graph, request, after, duration_s, "after")
    revision = graph.revision
    found = first(graph, request, window, policy)
    if found is not None and (after is not None or found.start > window[0]):
        changes.require_end(graph, (found.start, found.end))
    return _given(graph, request, window, policy, found, job, revision)


def _given(
    graph: ResourceGraph,
    request: Request,
    window: tuple[int, int],
    policy: str | Policy,
    found: Placement | None,
    job: str,
    revision: int,
) -> Allocation:
    if found is None:
        raise _refused(graph, request, window, policy)
    if graph.revision != revision:  # a policy of the caller did it: nothing else runs in between
        raise StaleHandle("the graph changed while the request was matched", hint="try again")
    require_picks(found)
    return changes.commit_match(graph, found, job)


def give(graph: ResourceGraph, found: Match, job: str) -> Allocation:
    """Allocate a match to a job.

    Errors: StaleHandle when the graph has changed since the match was found; nothing changes then.
    """
    targets.job_id(job)
    require_fresh(graph, found)
    require_picks(found)
    changes.require_end(graph, (found.start, found.end))
    return changes.commit_match(graph, found, job)


def require_fresh(graph: ResourceGraph, found: Match) -> None:
    """Refuse a match that was found on an earlier revision.

    Errors: StaleHandle, also for a match of another graph; UsageError for what is not a match.
    """
    if not isinstance(found, Placement):
        raise UsageError(f"expected a match, got {found!r:.80}", hint="match() returns one")
    if not isinstance(found, Match) or found.found_on is not graph:
        raise StaleHandle("this match was found on another graph", hint="match on this graph")
    if (found.generation, found.revision) != (graph.generation, graph.revision):
        raise StaleHandle(
            f"this match was found on revision {found.revision}, the graph is at {graph.revision}", hint="match again"
        )


def require_picks(found: Placement) -> None:
    """Refuse to allocate a match without pools to record."""
    if not len(found):
        raise UsageError(
            "the request only asks for shared pools, for which nothing is recorded",
            hint="put them in a slot (slot/core) or ask for them exclusively (core{x})",
        )
