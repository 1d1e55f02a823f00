"""Several requests weighed against each other: asked as one, and what that gets given to each again.

The matcher weighs the parts of one request against each other and finds what there is to find; so requests that agree in all
that a request has once (window, constraint) can be asked as one. What it gets is told apart by slots.  That does
not work for everything: what stands in no slot, and units of one pool for two requests, belong to no request for sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fluxres.errors import LimitExceeded
from fluxres.match import Match, Policy, SlotGroup
from fluxres.model import matching
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def matches(graph: ResourceGraph, requests: Sequence[Request], start: int, end: int, policy: str | Policy) -> list[Match] | None:
    """A match for each request, disjoint; None where there is none, or none that can be told apart."""
    if any(request.constraint != requests[0].constraint for request in requests):
        return None
    joint = Request(tuple(vertex for request in requests for vertex in request.resources), constraint=requests[0].constraint)
    try:
        found = matching.matcher(graph).match(joint, start, end, policy)
    except LimitExceeded:
        return None
    return None if found is None else _apart(found, requests)


def _apart(found: Match, requests: Sequence[Request]) -> list[Match] | None:
    owner = np.full(len(found), -1, np.int64)
    group = vertex = 0
    parts: list[tuple[Sequence[SlotGroup], tuple[int, ...]]] = []
    for number, request in enumerate(requests):
        kinds = [resource.is_slot for resource in request.vertices()]
        groups = found.slots[group : group + sum(kinds)]
        for one in groups:
            if np.isin(owner[one.picks], (-1, number), invert=True).any():
                return None
            owner[one.picks] = number
        parts.append((groups, found.counts[vertex : vertex + len(kinds)]))
        group, vertex = group + sum(kinds), vertex + len(kinds)
    if (owner < 0).any():
        return None
    return [_part(found, np.flatnonzero(owner == number), *part) for number, part in enumerate(parts)]


def _part(found: Match, own: np.ndarray, groups: Sequence[SlotGroup], counts: tuple[int, ...]) -> Match:
    return Match(
        found.vertices[own],
        found.amounts[own],
        found.whole[own],
        np.zeros(0, np.int32),
        tuple(SlotGroup(one.label, one.starts, own.searchsorted(one.picks)) for one in groups),
        counts,
        found.start,
        found.end,
        policy=found.policy,
        fallback=found.fallback,
        drawn=found.drawn[np.isin(found.drawn[:, 1], found.vertices[own])],
    )
