"""What jobs draw through the edges of auxiliary graphs, and which changes of edges that is in the way of (rule F1).

All times count: callers leave out what is over (`changes.lasting`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fluxres.allocation.owners import ELSEWHERE
from fluxres.allocation.records import Records
from fluxres.clock import FOREVER
from fluxres.errors import StillHeld
from fluxres.graph import edges
from fluxres.graph.auxiliary import Int32, Subsystem
from fluxres.graph.feeds import Feeds
from fluxres.graph.structure import Structure

Ends = tuple[str, int, int]
"""Name of an auxiliary graph, source, target."""


def require_drawn(records: Records, after: Structure, between: Iterable[Ends]) -> None:
    """Refuse where an edge would carry less than jobs draw through it, or where it is not known how much that is.

    Errors: StillHeld.
    """
    before = records.structure
    for name, src, dst in between:
        if name not in before.subsystems:
            continue
        old, new = _account(before, name, src, dst), _account(after, name, src, dst)
        there = [len(edges.rows_between(s.subsystems[name], src, dst)) > 0 for s in (before, after)]
        where = edges.said(before, name, src, dst)
        if old >= 0:
            drawn = records.planner.used(old, 0, FOREVER)
            room = math.inf if new < 0 and there[1] else 0 if new < 0 else after.accounts.size.item(new)
            if drawn > room:
                would = f"would carry {room}" if there[1] else "would be removed"
                raise StillHeld(
                    f"{_by(records, old)} {drawn} units through it, now or later, and it {would}", where=where, hint=_FREE
                )
        elif there[0] and (new >= 0 or not there[1]):
            job = _may_draw(records, before.subsystems[name], src, dst, goes=not there[1])
            if job is not None:
                what = f"{job} may draw through it, and how much is not recorded, for it had no capacity"
                raise StillHeld(what, where=where, hint=_FREE)


def require_kept(records: Records, after: Structure, old_to_new: Int32) -> None:
    """Refuse where an edge through which jobs draw would go with a pool that is unlinked.

    Args:
        old_to_new: int32 by vertex, -1 for what is gone.

    Errors: StillHeld.
    """
    before = records.structure
    number = before.accounts.renumbered(after.accounts, old_to_new)
    for account in sorted(records.held):
        if account >= before.n and number[account] < 0 and (drawn := records.planner.used(account, 0, FOREVER)):
            where = before.accounts.where(account)
            what = f"{_by(records, account)} {drawn} units through it, now or later, and it would be removed"
            raise StillHeld(what, where=where, hint=_FREE)


_FREE = "free what draws through it first"


def _account(s: Structure, name: str, src: int, dst: int) -> int:
    graph = s.subsystems[name]
    return int(s.accounts.between(graph, np.array([src], np.int32), np.array([dst], np.int32))[0])


def _by(records: Records, account: int) -> str:
    jobs = sorted({records.job_behind(owner) for owner in records.held.get(account, ())})
    return f"{jobs[0]} draws" if len(jobs) == 1 else f"{len(jobs)} jobs draw"


def _may_draw(records: Records, subsystem: Subsystem, src: int, dst: int, *, goes: bool) -> str | None:
    """A job that may draw through an edge without a capacity: up from its pools, or along a route to another place.

    Args:
        goes: the edge is to be removed. Where the graph counts and limits nothing, that takes nothing from jobs.
    """
    feeds = next((feeds for feeds in records.structure.feeds if feeds.graph is subsystem), None)
    if feeds is None or not records.held:
        return None
    takes = bool(feeds.counted) or feeds.is_limited or not goes
    return _supplied(records, feeds, src, dst, takes=takes) or (_routed(records) if takes else None)


def _supplied(records: Records, feeds: Feeds, src: int, dst: int, *, takes: bool) -> str | None:
    """A job that holds units of a supplier on one side of an edge, and something that is supplied on the other.

    The supplier may be on the side that is supplied as well: what it gives comes through the edge.

    Args:
        takes: jobs may lose what they draw: where no supplier on either side has units, what is supplied is enough.
    """
    structure = records.structure
    up: set[int] = set()
    down: set[int] = set()
    for above, below in ((src, dst), (dst, src)):
        if ((feeds.above == above) & (feeds.below == below)).any():
            up |= _upward(structure, feeds, above)
            down |= (found := downward(feeds, below))
            up |= _counted(structure, feeds, found)  # what has no units above it is drawn from here, and through the edge
    if takes and not any(structure.type.item(v) in feeds.counted for v in up):
        up = set(records.held)
    for owner in sorted({owner for v in up for owner in records.held.get(v, ()) if owner != ELSEWHERE}):
        for v in records.pools_of[owner]:
            if v < structure.n and any(u <= v < structure.end.item(u) or v <= u < structure.end.item(v) for u in down):
                return records.job_behind(owner)
    return None


def _routed(records: Records) -> str | None:
    """A job that may draw along a route: it may lead along any edge that has no capacity."""
    owners = {owner for held in records.held.values() for owner in held} - records.upward - {ELSEWHERE}
    return records.job_behind(min(owners)) if owners else None


def _upward(structure: Structure, feeds: Feeds, v: int) -> set[int]:
    """A supplier, what supplies it, and the units that hang on them."""
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
    """Those of some suppliers, and of what hangs on them, that have something to give."""
    found = {w for u in vertices for w in (u, *feeds.hung_on(u), *structure.children(u).tolist())}
    return {w for w in found if structure.type.item(w) in feeds.counted}


def downward(feeds: Feeds, v: int) -> set[int]:
    """A pool and what is supplied through it."""
    found, left = {v}, [v]
    while left:
        below = feeds.below[feeds.above == left.pop()].tolist()
        left += [u for u in below if u not in found]
        found.update(below)
    return found
