"""Several requests matched as one, and the match split among them again.

The matcher weighs the parts of one request against each other, so requests with the same window and constraint can be joined into
one.  Its match is split by slots.  That has limits: a pool outside any slot, and units of one pool for two requests, cannot be
attributed to a request, and the nodes of one request would have to meet those of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fluxres.errors import LimitExceeded
from fluxres.match import Placement, Policy, SlotGroup
from fluxres.model import matching
from fluxres.syntax.jobspec import Request, joined
from fluxres.syntax.vertex import Vertex

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def matches(
    graph: ResourceGraph, requests: Sequence[Request], start: int, end: int, policy: str | Policy
) -> list[Placement] | None:
    """A match for each request, disjoint; None where there is none, or none that can be split."""
    if any(request.constraint != requests[0].constraint for request in requests):
        return None
    if any(meets(request) or not _is_in_slots(request.resources) for request in requests):
        return None
    matcher = matching.matcher(graph)
    try:
        found = matcher.match(joined(requests), start, end, policy)
    except LimitExceeded:
        return None
    return None if found is None else _apart(graph, found, [matcher.lengths(request) for request in requests])


def meets(request: Request) -> bool:
    """Whether a request asks for units between its nodes."""
    return any(vertex.between is not None for vertex in request.vertices())


def _is_in_slots(vertices: Sequence[Vertex]) -> bool:
    """Whether everything that is allocated is part of a slot."""
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
        return None  # a pool that is only shared may belong to another request
    return [_part(graph, found, np.flatnonzero(owner == number), *part) for number, part in enumerate(parts)]


def _around(graph: ResourceGraph, whole: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """By vertex, the position of the exclusive pool that it is or is in; -1 for none."""
    at = whole.searchsorted(vertices, "right") - 1
    ends = graph.structure.accounts.end[whole]
    return np.where(at >= 0, np.where(vertices < ends[at], at, -1), -1) if len(whole) else np.full(len(vertices), -1)


def _part(
    graph: ResourceGraph, found: Placement, own: np.ndarray, groups: Sequence[SlotGroup], counts: tuple[int, ...]
) -> Placement:
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
