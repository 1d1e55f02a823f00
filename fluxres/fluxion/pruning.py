"""Pruning filters: the types counted below vertices, so that a search can skip a subtree with too few units.

The specification is Fluxion's `HL:LL[,HL:LL...]`: vertices of type HL count the units of LL below
them; `ALL` is any type. Leaf types of the graph are counted at clusters, where times for reservations are searched.
"""

from __future__ import annotations

from fluxres import limits
from fluxres.errors import LimitExceeded, UsageError
from fluxres.fluxion.graph import Graph, Vertex
from fluxres.fluxion.planner import Aggregate

ANY = "ALL"
DEFAULT = "ALL:core,ALL:node"
_LEAVES_AT = "cluster"


def parse(text: str) -> dict[str, list[str]]:
    """Types to count by type of vertex.

    Errors: UsageError for an item without a colon or with an empty side.

    >>> parse("ALL:core, rack:node")
    {'ALL': ['core'], 'rack': ['node']}
    """
    found: dict[str, list[str]] = {}
    for item in "".join(text.split()).split(","):
        if not item:
            continue
        high, colon, low = item.partition(":")
        if not (high and colon and low) or ":" in low:
            raise UsageError(f"prune filter {item!r}: expected HIGH:LOW, as in ALL:core")
        types = found.setdefault(high, [])
        if low not in types:
            types.append(low)
    return found


def prime(graph: Graph, subsystem: str, filters: dict[str, list[str]]) -> None:
    """Count units below every vertex, keeping existing plans of jobs.

    Cost O(vertices).
    """
    root = graph.roots[subsystem]
    totals, order, leaves = _count(root, subsystem)
    at_type = {high: list(types) for high, types in filters.items()}
    at_cluster = at_type.setdefault(_LEAVES_AT, [])
    at_cluster += [type_ for type_ in graph.types if type_ in leaves and type_ not in at_cluster]
    # Types are numbered in the order in which they are first named, and filters are read before the graph.
    named = [low for lows in filters.values() for low in lows]
    graph.counted = frozenset(named) | leaves
    rank = {type_: number for number, type_ in enumerate(dict.fromkeys([*named, *graph.types]))}
    everywhere = sorted(at_type.get(ANY, ()), key=lambda type_: rank.get(type_, len(rank)))
    types_of: dict[str, list[str]] = {}
    for vertex in order:
        below = totals[id(vertex)]
        if below is None:
            vertex.aggregate = None
            continue
        if vertex.type not in types_of:
            own = sorted(at_type.get(vertex.type, ()), key=lambda type_: rank.get(type_, len(rank)))
            types_of[vertex.type] = [type_ for type_ in dict.fromkeys([*own, *everywhere]) if type_ != vertex.type]
        _replace(vertex, {type_: below.get(type_, 0) for type_ in types_of[vertex.type]})


def _count(root: Vertex, subsystem: str) -> tuple[dict[int, dict[str, int] | None], list[Vertex], set[str]]:
    """Units below each vertex by type (None for a leaf), vertices in post-order, types of leaves."""
    totals: dict[int, dict[str, int] | None] = {id(root): None}
    heights: dict[int, int] = {}
    order: list[Vertex] = []
    leaves: set[str] = set()
    path: list[tuple[Vertex, int]] = [(root, 0)]
    while path:
        vertex, position = path.pop()
        while position < len(vertex.edges):
            edge = vertex.edges[position]
            position += 1
            if edge.subsystem == subsystem and id(edge.target) not in totals:
                totals[id(edge.target)] = None
                path.append((vertex, position))
                vertex, position = edge.target, 0
        order.append(vertex)
        below = [heights.get(id(edge.target), 0) for edge in vertex.edges if edge.subsystem == subsystem]
        height = heights[id(vertex)] = 1 + max(below, default=0)
        if height > limits.DEPTH_MAX:
            raise LimitExceeded(f"the graph has more than {limits.DEPTH_MAX} levels below {root.name}")
        if not below:
            leaves.add(vertex.type)
        if path:
            _add_to(totals, path[-1][0], vertex)
    return totals, order, leaves


def _add_to(totals: dict[int, dict[str, int] | None], parent: Vertex, vertex: Vertex) -> None:
    sums = totals[id(parent)]
    if sums is None:
        sums = totals[id(parent)] = {}
    sums[vertex.type] = sums.get(vertex.type, 0) + vertex.size
    for type_, units in (totals[id(vertex)] or {}).items():
        sums[type_] = sums.get(type_, 0) + units


def _replace(vertex: Vertex, totals: dict[str, int]) -> None:
    old = vertex.aggregate
    spans_below = vertex.schedule.spans_below if vertex.schedule is not None else {}
    if not totals:
        vertex.aggregate = None
        spans_below.clear()
    elif old is None:
        vertex.aggregate = Aggregate(totals)
    elif old.types == list(totals):
        for plan, total in zip(old.plans, totals.values(), strict=True):
            plan.resize(total)
    else:
        new = vertex.aggregate = Aggregate(totals)
        for job, spans in spans_below.items():
            windows = [plan.window(span) for plan, span in zip(old.plans, spans, strict=True)]
            planned = dict(zip(old.types, (units for _, _, units in windows), strict=True))
            start, end, _ = windows[0]
            spans_below[job] = new.add(start, end - start, new.counts(planned))
