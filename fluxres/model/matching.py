"""Requests on a graph: find, reserve, explain, and hand what was found to the records.

A match is found by reading only and carries the revision it was found on; giving it to a job is a second step,
which refuses a match that something has overtaken.  Between the two lies nothing but this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fluxres.allocation import steps
from fluxres.clock import FOREVER, seconds, ticks
from fluxres.errors import InfeasibleRequest, InsufficientResources, StaleHandle, UsageError
from fluxres.match import Match, Matcher, Policy, Refusal
from fluxres.model import changes, targets
from fluxres.model.values import Allocation
from fluxres.syntax import jobspec, options, shape
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Wanted = Request | str | Mapping[str, Any]
"""A request; a shape, short options or JSON as text; a jobspec as plain values."""


@lru_cache(maxsize=1024)
def _of_text(text: str) -> Request:
    stripped = text.strip()
    if stripped.startswith("{"):
        return jobspec.parse_json(stripped)
    if stripped.startswith("-"):
        return Request(jobspec.parse_resources(options.of_words(stripped)))
    return Request(shape.vertices(stripped))


def as_request(wanted: Wanted) -> Request:
    """The request that a text, plain values or a request mean.

    Errors: InputError with the place.
    """
    if isinstance(wanted, Request):
        return wanted
    if isinstance(wanted, str):
        return _of_text(wanted)
    if isinstance(wanted, Mapping):
        return jobspec.parse(wanted)
    raise UsageError(f"a request is a shape, a jobspec or a Request, not {wanted!r:.80}")


def _matcher(graph: ResourceGraph) -> Matcher:
    if graph.matcher is None:
        graph.matcher = Matcher(graph.structure, graph.planner)
    return graph.matcher


def _length(request: Request, duration_s: float | None) -> int:
    given = request.duration_s if duration_s is None else duration_s
    length = FOREVER if given is None else ticks(given, "duration_s")
    if length < 1:
        raise UsageError(f"duration_s: expected a positive number of seconds, got {given!r}")
    return length


def _window(graph: ResourceGraph, request: Request, at: float | None, duration_s: float | None) -> tuple[int, int]:
    now = graph.now()
    start = now if at is None else ticks(at, "at")
    return start, min(start + _length(request, duration_s), FOREVER)


def match(graph: ResourceGraph, wanted: Wanted, at: float | None, duration_s: float | None, policy: str | Policy) -> Match:
    """Pools for a request; see :meth:`ResourceGraph.match`."""
    request = as_request(wanted)
    return match_within(graph, request, _window(graph, request, at, duration_s), policy)


def match_within(graph: ResourceGraph, wanted: Wanted, window: tuple[int, int], policy: str | Policy) -> Match:
    """Pools for a request over a window in ticks, whatever duration the request says."""
    request = as_request(wanted)
    found = _matcher(graph).match(request, *window, policy)
    if found is None:
        raise _refused(graph, request, window, policy)
    return found.stamped(graph.generation, graph.revision, None)


def match_or_reserve(
    graph: ResourceGraph, wanted: Wanted, after: float | None, duration_s: float | None, policy: str | Policy
) -> Match:
    """Pools for a request at the earliest start from `after` on."""
    request = as_request(wanted)
    window = _window(graph, request, after, duration_s)
    found = _first(graph, request, window, policy)
    if found is None:
        raise _refused(graph, request, window, policy)
    return found.stamped(graph.generation, graph.revision, None)


def _first(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Match | None:
    """The match with the earliest start from the window's on, as long as the window; one without end stays without end."""
    start, end = window
    return _matcher(graph).earliest(request, end - start if end < FOREVER else FOREVER, start, policy)


def _refused(
    graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy
) -> InsufficientResources | InfeasibleRequest:
    refusal = _why_not(graph, request, window, policy)
    if refusal is None:  # the search above was given up where this one was not
        return InsufficientResources("no pools found for the request", hint="ask for less at once")
    short = next((part for part in refusal.parts if part.is_short), None)
    message = short.sentence() if short is not None else " ".join(refusal.sentences())
    if refusal.never:
        return InfeasibleRequest(message, hint="this machine can never satisfy it", reasons=refusal.reasons())
    return InsufficientResources(message, earliest=refusal.earliest, reasons=refusal.reasons())


def _why_not(graph: ResourceGraph, request: Request, window: tuple[int, int], policy: str | Policy) -> Refusal | None:
    records = graph.records

    def holders(v: int, start: int, end: int) -> list[tuple[str, int]]:
        return [
            (records.job_behind(owner), max(e for _, e, _ in steps.within(held, start, FOREVER)))
            for owner, held in records.held.get(v, {}).items()
            if steps.touches(held, start, end)
        ]

    return _matcher(graph).why_not(request, *window, policy, holders=holders)


def why_not(
    graph: ResourceGraph, wanted: Wanted, at: float | None, duration_s: float | None, policy: str | Policy
) -> Refusal | None:
    """Why there are no pools for a request; see :meth:`ResourceGraph.why_not`."""
    request = as_request(wanted)
    return _why_not(graph, request, _window(graph, request, at, duration_s), policy)


def earliest(
    graph: ResourceGraph, wanted: Wanted, after: float | None, duration_s: float | None, policy: str | Policy
) -> float | None:
    """The first start; see :meth:`ResourceGraph.earliest`."""
    request = as_request(wanted)
    found = _first(graph, request, _window(graph, request, after, duration_s), policy)
    return None if found is None else seconds(found.start)


def satisfiable(graph: ResourceGraph, wanted: Wanted) -> bool:
    """Whether the machine could ever satisfy a request; see :meth:`ResourceGraph.satisfiable`."""
    return _matcher(graph).satisfiable(as_request(wanted))


def give(graph: ResourceGraph, found: Match, job: str) -> Allocation:
    """Make a match an allocation.

    Errors: StaleHandle when the graph changed since the match was found; nothing changes then.
    """
    targets.job_id(job)
    if (found.generation, found.revision) != (graph.generation, graph.revision):
        raise StaleHandle(
            f"this match was found on revision {found.revision}, the graph is at {graph.revision}", hint="match again"
        )
    require_picks(found)
    return changes.commit_match(graph, found, job)


def require_picks(found: Match) -> None:
    """Refuse to record a match in which there is nothing to record."""
    if not len(found):
        raise UsageError(
            "the request asks only for pools to be shared, of which nothing is recorded",
            hint="put them in a slot (slot/core) or ask for them exclusively (core{x})",
        )
