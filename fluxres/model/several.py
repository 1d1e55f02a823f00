"""Co-allocation: disjoint pools for all of several requests, or for none.

Requests are matched one after another, each with the matches of the previous ones locked.  A request that finds nothing, but
would alone, is matched before the others in another attempt.  If no order works, all are matched as one request, whose parts the
matcher weighs against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from fluxres import limits
from fluxres.allocation import together
from fluxres.allocation.chosen import Chosen
from fluxres.allocation.drawn import implicit
from fluxres.allocation.facts import JobFacts
from fluxres.allocation.planned import Window
from fluxres.allocation.together import Found, Share, located, locking
from fluxres.arrays import Int32, Int64, Integers
from fluxres.clock import FOREVER, seconds
from fluxres.documents import arguments
from fluxres.errors import InfeasibleRequest, InsufficientResources, LimitExceeded, UsageError
from fluxres.graph import surgery
from fluxres.graph.forest import slice_of
from fluxres.match import Placement, Policy, SlotGroup
from fluxres.match.demand import Counts
from fluxres.model import changes, events, matching, supply, targets
from fluxres.model.targets import Targets
from fluxres.model.values import Allocation
from fluxres.syntax.jobspec import Request, Wanted, as_request, joined
from fluxres.syntax.vertex import Vertex

if TYPE_CHECKING:
    from fluxres.match.refusal import Refusal
    from fluxres.model.match import Match
    from fluxres.model.resource_graph import ResourceGraph


class Part(NamedTuple):
    """One of several requests.

    Args:
        place: its name in refusals.
        job: id; empty where no job was named.
        request: None for pools by name.
        pools: pools by name, by windows in which they draw different units.
        length: ticks; FOREVER without end.
    """

    place: str
    job: str
    request: Request | None
    pools: list[supply.WindowPart]
    length: int

    def named(self) -> list[Share]:
        """The pools by name, as shares to lock and allocate."""
        return [
            Share(self.place, self.job, named, start, end, implies=implicit(named, drawn), drawn=drawn, is_routed=False)
            for (start, end), named, drawn in self.pools
        ]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Which of several requests has no match, and why.

    Args:
        number: its position, from 0.
        job: id; empty where no job was named.
        refusal: the reasons; `earliest` is the earliest start of all together.
        is_alone: whether it has no match even without the others.
        is_never: whether this machine can never match all of them at once, even with nothing held and everything up.
    """

    number: int
    job: str
    refusal: Refusal
    is_alone: bool
    is_never: bool

    @property
    def place(self) -> str:
        """The name of the request in messages."""
        return _place(self.number, self.job)

    def sentences(self) -> list[str]:
        """The reasons as sentences, for a terminal."""
        found = [f"{self.place}:", *self.refusal.sentences()]
        found += [f"{_BESIDE.capitalize()}."] * (not self.is_alone)
        return found + [f"{_NEVER.capitalize()}."] * (self.is_never and not self.refusal.never)

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def error(self, said: InsufficientResources | InfeasibleRequest | None = None) -> InsufficientResources | InfeasibleRequest:
        """The reasons as an error.

        Args:
            said: the refusal as an error, if the model's wording is not wanted.
        """
        error = matching.refused(self.refusal) if said is None else said
        where = f"{self.place}: {error.where}" if error.where else self.place
        said_of = error.reasons if isinstance(error.reasons, Mapping) else {}
        reasons = {f"{self.place}: {part}": why for part, why in said_of.items()}
        if not self.is_alone:
            reasons[self.place] = _BESIDE
        if isinstance(error, InfeasibleRequest) or self.is_never:
            hint = error.hint if self.refusal.never else _NEVER
            return InfeasibleRequest(error.message, where=where, hint=hint, reasons=reasons, explanation=self)
        return InsufficientResources(
            error.message, where=where, hint=error.hint, earliest=error.earliest, reasons=reasons, explanation=self
        )


_IN_A_LIST: Final = "put one request in a list"
_BESIDE: Final = "by itself it has a match; the others take what it needs"
_NEVER: Final = "this machine can never have room for all of them at once"


def _place(number: int, job: str) -> str:
    return f"request {number + 1}" + (f" ({job})" if job else "")


def parts_of(
    graph: ResourceGraph,
    wanted: Iterable[tuple[Targets | Wanted, str]],
    length: int | None,
    start: int,
    *,
    sought_only: bool = False,
) -> list[Part]:
    """The requests, checked.

    Args:
        wanted: pairs of a request, or pools by name, and a job.
        length: in ticks; None for the durations of the requests.
        sought_only: refuse pools by name.

    Errors: UsageError, InputError, UnknownPool with the number of the part.
    """
    found: list[Part] = []
    for number, pair in enumerate(arguments.items(wanted, "requests", "pairs of request and job")):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"expected a pair of request and job, got {pair!r:.80}", where=_place(number, ""))
        what, job = pair
        place = _place(number, job if isinstance(job, str) else "")
        if number >= limits.TOGETHER_MAX:
            raise LimitExceeded(f"more than {limits.TOGETHER_MAX} requests at once", where=place)
        with located(place):
            targets.job_id(job)
            found.append(_part(graph, place, what, job, length, start, sought_only))
    if not found:
        raise UsageError("no requests", hint="give at least one pair of request and job")
    return found


def _part(
    graph: ResourceGraph, place: str, what: Targets | Wanted, job: str, length: int | None, start: int, sought_only: bool
) -> Part:
    if not targets.is_request(what, graph):
        if sought_only:
            raise UsageError("expected a request, got pools by name", hint="pools that are named are given at a start")
        named, length = targets.with_amounts(graph, cast("Targets", what)), FOREVER if length is None else length
        return Part(place, job, None, supply.by_window(graph, named, (start, min(start + length, FOREVER)), job), length)
    request = as_request(what)
    return Part(place, job, request, [], matching.length(graph, request) if length is None else length)


def requests_of(graph: ResourceGraph, wanted: Iterable[Wanted], length: int | None) -> list[Part]:
    """As :func:`parts_of`, for requests without jobs.

    Errors: UsageError, InputError with the number of the request.
    """
    if isinstance(wanted, str):
        raise UsageError("expected several requests, got one text", hint=_IN_A_LIST)
    found = []
    for number, what in enumerate(arguments.items(wanted, "requests", "requests", hint=_IN_A_LIST)):
        with located(_place(number, "")):
            request = as_request(what)
            found.append(Part(_place(number, ""), "", request, [], matching.length(graph, request) if length is None else length))
    if not found:
        raise UsageError("no requests", hint="give at least one")
    return found


def parts_or_requests(graph: ResourceGraph, given: Iterable[object], length: int | None, start: int) -> list[Part]:
    """As :func:`parts_of` for pairs, and as :func:`requests_of` for requests alone."""
    wanted = list(arguments.items(given, "requests", "requests", hint=_IN_A_LIST))
    if wanted and isinstance(wanted[0], tuple):
        return parts_of(graph, cast("Sequence[tuple[Targets | Wanted, str]]", wanted), length, start)
    return requests_of(graph, cast("Sequence[Wanted]", wanted), length)


# -- matching ------------------------------------------------------------------------------------------------------------


class _Fit(NamedTuple):
    """The match of each part at one start; or the part without a match, and the matches of the parts before it."""

    matches: dict[int, Placement]
    order: list[int]
    failed: int | None


def _fit(graph: ResourceGraph, parts: Sequence[Part], start: int, policy: str | Policy) -> _Fit:
    """Matches of all parts at one start, in the given order, or with those first that found nothing in an earlier attempt."""
    order = sorted(range(len(parts)), key=lambda i: parts[i].request is not None)  # pools by name have no alternative
    first: _Fit | None = None
    tried: set[tuple[int, ...]] = set()
    while tuple(order) not in tried and len(tried) <= len(parts):
        tried.add(tuple(order))
        fit = _fit_in(graph, parts, order, start, policy)
        if fit.failed is None:
            return fit
        first = first or fit
        named = [i for i in order if parts[i].request is None]
        order = [*named, fit.failed, *(i for i in order if i != fit.failed and i not in named)]
    assert first is not None  # the first order is always tried
    return _weighed(graph, parts, start, policy) or first


def _weighed(graph: ResourceGraph, parts: Sequence[Part], start: int, policy: str | Policy) -> _Fit | None:
    """Matches of all parts, matched as one request; None if that finds none, or is not possible."""
    named = [i for i in range(len(parts)) if parts[i].request is None]
    sought = [i for i in range(len(parts)) if parts[i].request is not None]
    if len(sought) < 2 or len({parts[i].length for i in sought}) > 1:
        return None
    end = min(start + parts[sought[0]].length, FOREVER)
    with locking(graph.records) as lock:
        for share in (share for i in named for share in parts[i].named()):
            lock(share)
        requests = [request for request in (parts[i].request for i in sought) if request is not None]
        found = match_joined(graph, requests, start, end, policy)
    if found is None or _meet(graph, [(parts[i].job or parts[i].place, each) for i, each in zip(sought, found, strict=True)]):
        return None
    return _Fit(dict(zip(sought, found, strict=True)), [*named, *sought], None)


def _meet(graph: ResourceGraph, found: Iterable[tuple[str, Placement]]) -> bool:
    """Whether two jobs would share an exclusive pool (rule A8), as two parts of one request may."""
    if not len(graph.structure.exclusive_composites):
        return False
    inside: dict[int, str] = {}
    for job, match in found:
        for v in match.vertices.tolist():
            for u in graph.structure.accounts.exclusive_around(v):
                if inside.setdefault(u, job) != job:
                    return True
    return False


def _fit_in(graph: ResourceGraph, parts: Sequence[Part], order: Sequence[int], start: int, policy: str | Policy) -> _Fit:
    found: dict[int, Placement] = {}
    with locking(graph.records) as lock:
        for i in order:
            part, end = parts[i], min(start + parts[i].length, FOREVER)
            if part.request is None:
                for share in part.named():
                    with supply.NamingConsumers(graph, share.drawn):
                        lock(share)
                continue
            with located(part.place):
                match = graph.matcher.match(part.request, start, end, policy)
            if match is None:
                return _Fit(found, list(order), i)
            found[i] = match
            if len(match):
                lock(Share(part.place, part.job or part.place, (), start, end, match.found))
    return _Fit(found, list(order), None)


def match_joined(
    graph: ResourceGraph, requests: Sequence[Request], start: int, end: int, policy: str | Policy
) -> list[Placement] | None:
    """Disjoint matches for requests, found by matching them as one; None if there is no match, or it cannot be split.

    The matcher weighs the parts of one request against each other, so requests with the same window and constraint can be joined.
    The match is split by slots.  It cannot be split where a pool is outside any slot, where two requests have units of one pool,
    or where a request asks for units between nodes, because nodes of different requests would be connected.
    """
    if any(request.constraint != requests[0].constraint or request.queue != requests[0].queue for request in requests):
        return None
    if any(_has_rules(request) or _meets(request) or not _is_in_slots(request.resources) for request in requests):
        return None
    matcher = graph.matcher
    try:
        found = matcher.match(joined(requests), start, end, policy)
    except LimitExceeded:
        return None
    return None if found is None else _apart(graph, found, [matcher.lengths(request) for request in requests])


def _has_rules(request: Request) -> bool:
    """Whether the rules of another system answer the request, which know it alone."""
    return request.chooser is not None


def _meets(request: Request) -> bool:
    """Whether a request asks for units between its nodes."""
    return any(vertex.between is not None for vertex in request.vertices())


def _is_in_slots(vertices: Sequence[Vertex]) -> bool:
    """Whether everything that the request allocates is part of a slot."""
    return all(
        vertex.is_slot or (bool(vertex.children) and not vertex.is_exclusive and _is_in_slots(vertex.children))
        for vertex in vertices
    )


def _apart(graph: ResourceGraph, found: Placement, lengths: Sequence[tuple[int, int]]) -> list[Placement] | None:
    """The match of each request.

    Args:
        lengths: number of counts and of slots, by request.
    """
    owner = np.full(len(found), -1, np.int64)
    group = count = 0
    parts: list[tuple[Sequence[SlotGroup], tuple[int, ...]]] = []
    for number, (counts, slots) in enumerate(lengths):
        groups = found.slots[group : group + slots]
        for one in groups:
            if np.isin(owner[one.picks], (-1, number), invert=True).any():
                return None
            owner[one.picks] = number
        parts.append((groups, found.counts[count : count + counts]))
        group, count = group + slots, count + counts
    within = found.vertices[found.whole]
    if (owner < 0).any() or (_around(graph, within, found.shared) >= 0).any():
        return None  # a shared pool may belong to another request
    return [_attributed(graph, found, np.flatnonzero(owner == number), *part) for number, part in enumerate(parts)]


def _around(graph: ResourceGraph, whole: Int32, vertices: Integers) -> Int64:
    """By vertex, the position of the exclusive pool that contains it, or that it is; -1 for none."""
    return slice_of(whole, graph.structure.accounts.end[whole], vertices)


def _attributed(graph: ResourceGraph, found: Placement, own: Int64, groups: Sequence[SlotGroup], counts: Counts) -> Placement:
    vertices, whole = found.vertices[own], found.whole[own]
    below = _around(graph, vertices[whole], np.array([v for v, _ in found.implied], np.int64)) >= 0
    implied = tuple(row for row, is_own in zip(found.implied, below.tolist(), strict=True) if is_own)
    return Placement(
        vertices,
        found.amounts[own],
        whole,
        np.zeros(0, np.int32),
        tuple(SlotGroup(one.label, one.starts, own.searchsorted(one.picks)) for one in groups),
        counts,
        found.start,
        found.end,
        policy=found.policy,
        fallback=found.fallback,
        is_routed=found.is_routed,
        implied=implied,
        drawn=found.drawn[np.isin(found.drawn[:, 1], [*vertices.tolist(), *(v for v, _ in implied)])],
    )


def match(graph: ResourceGraph, parts: Sequence[Part], start: int, policy: str | Policy) -> list[Placement | None]:
    """The match of each part at one start, None for pools by name.

    Errors: InsufficientResources, InfeasibleRequest with the number of the request that has no match.
    """
    fit = _fit(graph, parts, start, policy)
    if fit.failed is not None:
        raise _shortage(graph, parts, fit, start, policy).error()
    return [fit.matches.get(i) for i in range(len(parts))]


def start_of_all(graph: ResourceGraph, parts: Sequence[Part], after: int, policy: str | Policy) -> int | None:
    """The first start in ticks at which all requests have a match together; None if there is none.

    Cost: a match of all parts for each moment at which a record ends and each of them alone could start.
    """
    start = _start_of_each(graph, parts, after, policy)
    moments = np.array(graph.planner.moments(after, FOREVER), np.int64) if start is not None else np.zeros(0, np.int64)
    while start is not None:
        if _fit(graph, parts, start, policy).failed is None:
            return start
        # Moving the window frees units only where a record ends.
        at = int(moments.searchsorted(start, "right"))
        start = _start_of_each(graph, parts, int(moments[at]), policy) if at < len(moments) else None
    return None


def _start_of_each(graph: ResourceGraph, parts: Sequence[Part], after: int, policy: str | Policy) -> int | None:
    """The first start from `after` on at which each part has a match by itself."""
    start, agreed = after, 0
    while agreed < len(parts):
        for part in parts:
            assert part.request is not None  # callers ask for requests only
            with located(part.place):
                found = graph.matcher.earliest(part.request, part.length, start, policy)
            if found is None:
                return None
            agreed = agreed + 1 if found.start == start else 1
            start = found.start
            if agreed >= len(parts):
                break
    return start


# -- refusing ------------------------------------------------------------------------------------------------------------


def why_not(graph: ResourceGraph, parts: Sequence[Part], start: int, policy: str | Policy) -> Shortage | None:
    """The part that has no match, and why; None if all have one."""
    fit = _fit(graph, parts, start, policy)
    return None if fit.failed is None else _shortage(graph, parts, fit, start, policy)


def _shortage(graph: ResourceGraph, parts: Sequence[Part], fit: _Fit, start: int, policy: str | Policy) -> Shortage:
    assert fit.failed is not None
    number, part = fit.failed, parts[fit.failed]
    assert part.request is not None  # pools by name that are not available raise where they are locked
    window = start, min(start + part.length, FOREVER)
    refusal = matching.explained(graph, part.request, window, policy)
    is_alone = refusal is not None
    if refusal is None:
        with locking(graph.records) as lock:
            for i in fit.order[: fit.order.index(number)]:
                other = parts[i]
                shares = other.named()
                if i in fit.matches and (pools := fit.matches[i].targets):
                    end = min(start + other.length, FOREVER)
                    shares = [Share(other.place, other.job or other.place, pools, start, end, implies=True)]
                for share in shares:
                    lock(share)
            refusal = matching.explained(graph, part.request, window, policy)
    assert refusal is not None  # it had no match with the same pools locked
    if refusal.never:
        return Shortage(number, part.job, refusal, is_alone, is_never=True)
    first, never = None, False
    if all(part.request is not None for part in parts):
        try:
            first = start_of_all(graph, parts, start, policy)
            never = first is None and _is_never(graph, parts, policy)
        except LimitExceeded:
            refusal = replace(refusal, undecided=True)
    return Shortage(number, part.job, replace(refusal, earliest=None if first is None else seconds(first)), is_alone, never)


def _is_never(graph: ResourceGraph, parts: Sequence[Part], policy: str | Policy) -> bool:
    """Whether all parts cannot match at once even on an idle machine with everything up."""
    requests = [part.request for part in parts if part.request is not None]
    if any(each.constraint is not None or each.queue is not None or _has_rules(each) or _meets(each) for each in requests):
        return False  # these cannot be joined: a request has a single constraint, and connects its nodes in one place
    if graph.matcher.satisfiable(joined(requests)):
        return False
    structure = surgery.duplicate(graph.structure)
    structure.state[:] = 0
    return _fit(type(graph)(structure), parts, 0, policy).failed is not None


# -- allocating ----------------------------------------------------------------------------------------------------------


def give(
    graph: ResourceGraph, parts: Sequence[Part], start: int, policy: str | Policy, facts: JobFacts | None = None
) -> list[Allocation]:
    """Match every part at one start and allocate it to its job, or change nothing."""
    found = match(graph, parts, start, policy)
    for part, one in zip(parts, found, strict=True):
        if one is not None:
            with located(part.place):
                changes.require_picks(one)
    return _grant(
        graph,
        [
            part.named() if one is None else [_share(part.place, part.job, one, one.found)]
            for part, one in zip(parts, found, strict=True)
        ],
        facts,
    )


def commit(graph: ResourceGraph, matches: Iterable[tuple[Match, str]]) -> list[Allocation]:
    """Allocate several matches to their jobs, all of them or none."""
    shares = []
    for number, pair in enumerate(arguments.items(matches, "matches", "pairs of match and job")):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise UsageError(f"expected a pair of match and job, got {pair!r:.80}", where=_place(number, ""))
        found, job = pair
        place = _place(number, job if isinstance(job, str) else "")
        with located(place):
            targets.job_id(job)
            matching.require_fresh(graph, found)
            changes.require_picks(found)
        shares.append([_share(place, job, found)])
    return _grant(graph, shares) if shares else []


def _share(place: str, job: str, match: Placement, found: Found | None = None) -> Share:
    """A match as the share of a job.

    Args:
        found: as for `Share`.
    """
    return Share(
        place,
        job,
        match.targets,
        match.start,
        match.end,
        found,
        match.nslots,
        implies=True,
        drawn=match.drawn,
        is_routed=match.is_routed,
        chosen=None if match.variant is None else Chosen(match.order, match.variant),
    )


def _grant(graph: ResourceGraph, parts: Sequence[Sequence[Share]], facts: JobFacts | None = None) -> list[Allocation]:
    structure, shares = graph.structure, [share for of_part in parts for share in of_part]
    if facts is not None:
        shares = [share._replace(facts=facts) for share in shares]
    for share in shares:
        with located(share.place):
            changes.refuse_reservation(graph, share.job)
            changes.require_end(graph, (share.start, share.end))
    pools = sum(len(share.targets) for share in shares)
    windows: dict[Window, list[int]] = {}
    for share in shares:
        windows.setdefault((share.start, share.end), []).extend(v for v, _ in share.targets)
    if graph.records.upstream is not None:
        graph.records.upstream.require_open(v for share in shares for v, _ in share.targets)
    graph.planner.require_room(windows)
    together.grant(graph.records, shares, lambda: changes.tell(graph, lambda: events.allocate_all(structure, shares), pools))
    graph.revision += 1
    return [
        Allocation.of_windows(graph, share.job, [((each.start, each.end), each.targets) for each in of_part])
        if len(of_part) > 1
        else Allocation(graph, share.job, list(share.targets), (share.start, share.end), share.slots, chosen=share.chosen)
        for of_part in parts
        for share in of_part[:1]
    ]
