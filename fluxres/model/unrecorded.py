"""Which jobs may draw through an edge without a capacity, of which no record tells how much is drawn through it (rule F1)."""

from __future__ import annotations

import numpy as np

from fluxres.allocation.records import ELSEWHERE, Records
from fluxres.arrays import Mask
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.feeds import Feeds
from fluxres.graph.structure import Structure


def may_draw(records: Records, subsystem: Subsystem, src: int, dst: int, *, goes: bool) -> str | None:
    """A job that may draw through an edge without a capacity: up from its pools, or along a route to another place.

    Args:
        goes: the edge is to be removed. In a graph that neither distributes nor limits anything, jobs lose nothing by that.
    """
    feeds = next((feeds for feeds in records.structure.feeds if feeds.graph is subsystem), None)
    if feeds is None or not records.held:
        return None
    is_limited = bool((records.accounts.between(subsystem, subsystem.src, subsystem.dst) >= 0).any())
    takes = bool(feeds.counted) or is_limited or not goes
    return _supplied(records, feeds, src, dst, takes=takes) or (_routed(records, feeds, src, dst) if takes else None)


def _supplied(records: Records, feeds: Feeds, src: int, dst: int, *, takes: bool) -> str | None:
    """A job that holds units of a supplier on one side of an edge, and a supplied pool on the other.

    The supplier may also be on the supplied side, if its own units come through the edge.

    Args:
        takes: jobs may lose what they draw: if no supplier on either side has units, holding a supplied pool is enough.
    """
    structure = records.structure
    up: set[int] = set()
    down: set[int] = set()
    for above, below in ((src, dst), (dst, src)):
        if ((feeds.above == above) & (feeds.below == below)).any():
            up |= _upward(structure, feeds, above)
            down |= (found := downward(feeds, below))
            up |= _counted(structure, feeds, found)  # a supplier without units above it draws from here, through the edge
    if takes and not any(structure.type.item(v) in feeds.counted for v in up):
        up = set(records.held)
    for owner in sorted({owner for v in up for owner in records.held.get(v, ()) if owner != ELSEWHERE}):
        for v in records.pools_of[owner]:
            if v < structure.n and any(u <= v < structure.end.item(u) or v <= u < structure.end.item(v) for u in down):
                return records.job_behind(owner)
    return None


def _routed(records: Records, feeds: Feeds, src: int, dst: int) -> str | None:
    """A job that may draw along a route through an edge without a capacity.

    If it holds something of what the graph distributes or limits, its route may lead anywhere; else only where none is recorded.
    """
    owners = {owner for held in records.held.values() for owner in held} - records.upward - {ELSEWHERE}
    if not owners:
        return None
    structure = records.structure
    near = np.isin(structure.type, list(feeds.counted))
    near[list(_unrecorded(records, feeds, src, dst, near & (structure.full_size > 1)))] = True
    before = np.concatenate([[0], np.cumsum(near)])
    for owner in sorted(owners):
        for v in records.pools_of[owner]:
            if v >= structure.n:
                is_near = structure.accounts.edge(v)[0] is feeds.graph
            else:
                is_near = before[structure.end.item(v)] > before[v] or any(near[u] for u in structure.ancestors(v))
            if is_near:
                return records.job_behind(owner)
    return None


def _unrecorded(records: Records, feeds: Feeds, src: int, dst: int, charged: Mask) -> set[int]:
    """The pools between which routes through an edge lead without charging anything.

    Args:
        charged: by vertex, whether a route through it charges it. A single unit that is shared is not recorded.
    """
    from fluxres.match.paths import Links

    if charged[src] or charged[dst]:
        return set()
    structure, links = records.structure, Links(records.structure, feeds, np.zeros(0, np.int32))
    between, graph = structure.accounts.between, feeds.graph
    found, left = {src, dst}, [src, dst]
    while left:
        u = left.pop()
        if not links.passes[u]:
            continue
        beside = np.array([v for v in links.beside(u) if v not in found and not charged[v]], np.int32)
        here = np.full(len(beside), u, np.int32)
        free = beside[(between(graph, here, beside) < 0) & (between(graph, beside, here) < 0)].tolist()
        found.update(free)
        left += free
    return found


def _upward(structure: Structure, feeds: Feeds, v: int) -> set[int]:
    """A supplier, its own suppliers, and the pools with units attached to them."""
    found, left = set[int](), [v]
    while left:
        u = left.pop()
        if u < 0 or u in found:
            continue
        found.add(u)
        entry, outside = feeds.onward(u)
        left += [*feeds.suppliers(u), *feeds.suppliers(entry), outside]
        found.update(feeds.hung_on(u))
    inside = [w for u in found for w in structure.children(u).tolist()]
    return found.union(inside)


def _counted(structure: Structure, feeds: Feeds, vertices: set[int]) -> set[int]:
    """Those of some suppliers, and of the pools attached to them, that have units to give."""
    found = {w for u in vertices for w in (u, *feeds.hung_on(u), *structure.children(u).tolist())}
    return {w for w in found if structure.type.item(w) in feeds.counted}


def downward(feeds: Feeds, v: int) -> set[int]:
    """A pool and everything supplied through it."""
    found, left = {v}, [v]
    while left:
        below = feeds.below[feeds.above == left.pop()].tolist()
        left += [u for u in below if u not in found]
        found.update(below)
    return found
