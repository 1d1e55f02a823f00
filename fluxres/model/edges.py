"""Changes of the edges of auxiliary graphs, with what jobs draw through them (rule F1).

The pools stay what they are and where they are; graph, accounts and records are those of the next generation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fluxres import limits
from fluxres.allocation.holdings import ELSEWHERE
from fluxres.clock import FOREVER
from fluxres.errors import StillHeld, UsageError
from fluxres.graph import edges
from fluxres.graph.accounts import CAPACITY, UNIT
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.edges import Value
from fluxres.graph.feeds import Feeds
from fluxres.graph.structure import Structure
from fluxres.model import changes, joining, targets
from fluxres.model.targets import Where

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Ends = tuple[str, int, int]
"""Name of an auxiliary graph, source, target."""


def add(graph: ResourceGraph, ends: Ends, relation: str, values: Mapping[str, Any], hierarchy: bool | None) -> None:
    """Add an edge; see :meth:`ResourceGraph.add_edge`."""
    _relation(relation)
    if hierarchy is not None and not isinstance(hierarchy, bool):
        raise UsageError(f"hierarchy: expected True, False or None, got {hierarchy!r:.80}")
    structure = edges.add(graph.structure, *ends, relation, values, hierarchy)
    _take(
        graph,
        structure,
        ends,
        {"event": "add_edge", **_named(graph, ends, relation), "attributes": dict(values), "hierarchy": hierarchy},
    )


def change(graph: ResourceGraph, ends: Ends, relation: str | None, values: Mapping[str, Any]) -> None:
    """Change an edge; see :meth:`ResourceGraph.set_edge`."""
    if not values:
        raise UsageError("nothing of the edge is to be changed", hint="give a capacity, a unit or attributes")
    subsystem, rows = edges.require(graph.structure, *ends, relation)
    relation = subsystem.relations[subsystem.relation.item(int(rows[0]))]
    if len(rows) > 1:
        where = edges.said(graph.structure, *ends, relation)
        raise UsageError(f"{len(rows)} edges of one relation", where=where, hint="remove them, and add one")
    structure = edges.change(graph.structure, subsystem, int(rows[0]), values)
    _take(graph, structure, ends, {"event": "set_edge", **_named(graph, ends, relation), "attributes": dict(values)})


def remove(graph: ResourceGraph, ends: Ends, relation: str | None) -> None:
    """Remove an edge; see :meth:`ResourceGraph.remove_edge`."""
    subsystem, rows = edges.require(graph.structure, *ends, relation)
    relation = subsystem.relations[subsystem.relation.item(int(rows[0]))]
    structure = edges.remove(graph.structure, subsystem, rows)
    _take(graph, structure, ends, {"event": "remove_edge", **_named(graph, ends, relation)})


def ends_of(graph: ResourceGraph, source: Where, target: Where, subsystem: str) -> Ends:
    """The edge that a caller names.

    Errors: UnknownPool, StaleHandle, UsageError.
    """
    if not isinstance(subsystem, str):
        raise UsageError(f"subsystem: expected the name of an auxiliary graph, got {subsystem!r:.80}")
    return subsystem, targets.vertex(graph, source), targets.vertex(graph, target)


def values_of(
    capacity: float | None, unit: str | None, attributes: Mapping[str, Value | None] | None, *, removable: bool = False
) -> dict[str, Any]:
    """What an edge is to say of itself, as columns have it: without a limit there is no capacity.

    Errors: UsageError, LimitExceeded.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise UsageError(f"attributes: expected names with values, got {attributes!r:.80}")
    values = edges.checked(attributes or {}, removable=removable)
    if unit is not None:
        values |= edges.checked({UNIT: unit})
    if capacity is None:
        return values
    if isinstance(capacity, bool) or not isinstance(capacity, int | float | np.integer | np.floating):
        raise UsageError(f"capacity: expected a number, got {capacity!r:.80}", hint="math.inf for no limit")
    if not capacity >= 0:
        raise UsageError(f"capacity: expected a number >= 0, got {capacity}", hint="math.inf for no limit")
    if capacity >= limits.SIZE_MAX and capacity != math.inf:
        raise UsageError(f"capacity: expected less than {limits.SIZE_MAX}, got {capacity:.6g}", hint="math.inf for no limit")
    if capacity != math.inf:
        values[CAPACITY] = float(capacity)
    elif removable:
        values[CAPACITY] = None
    return values


def _relation(relation: object) -> None:
    if not isinstance(relation, str) or not relation.isprintable() or not 0 < len(relation) <= limits.NAME_LENGTH_MAX:
        raise UsageError(f"relation: expected 1 to {limits.NAME_LENGTH_MAX} printable characters, got {relation!r:.80}")


def _named(graph: ResourceGraph, ends: Ends, relation: str) -> dict[str, Any]:
    name, src, dst = ends
    where = graph.structure.where
    return {"subsystem": name, "source": where(src), "target": where(dst), "relation": relation}


def _take(graph: ResourceGraph, structure: Structure, ends: Ends, event: dict[str, Any]) -> None:
    """Make it the next generation, if nothing that is drawn is in the way."""
    changes.expire_stages(graph)
    require_drawn(graph, structure, [ends])
    records = joining.next_records(graph, structure)
    records.take(graph.records, np.arange(structure.n, dtype=np.int32))
    joining.tell(graph, event)
    graph.restructure(structure, records)


# -- what is drawn through an edge ---------------------------------------------------------------------------------------


def require_drawn(graph: ResourceGraph, after: Structure, between: Iterable[Ends]) -> None:
    """Refuse where an edge would carry less than jobs draw through it, now or later, or where nobody knows how much that is.

    Errors: StillHeld.
    """
    before, now = graph.structure, graph.now()
    for name, src, dst in between:
        if name not in before.subsystems:
            continue
        old, new = _account(before, name, src, dst), _account(after, name, src, dst)
        there = [len(edges.rows_between(s.subsystems[name], src, dst)) > 0 for s in (before, after)]
        where = edges.said(before, name, src, dst)
        if old >= 0:
            drawn = graph.planner.used(old, now, FOREVER)
            room = math.inf if new < 0 and there[1] else 0 if new < 0 else after.accounts.size.item(new)
            if drawn > room:
                would = f"would carry {room}" if there[1] else "would be gone"
                raise StillHeld(
                    f"{_by(graph, old)} {drawn} units through it, now or later, and it {would}", where=where, hint=_FREE
                )
        elif there[0] and (new >= 0 or not there[1]):
            job = _supplied(graph, before.subsystems[name], src, dst)
            if job is not None:
                what = f"{job} may draw through it, and how much is not recorded, for it had no capacity"
                raise StillHeld(what, where=where, hint=_FREE)


_FREE = "free what draws through it first"


def _account(s: Structure, name: str, src: int, dst: int) -> int:
    graph = s.subsystems[name]
    return int(s.accounts.between(graph, np.array([src], np.int32), np.array([dst], np.int32))[0])


def _by(graph: ResourceGraph, account: int) -> str:
    records = graph.records
    owners = [owner for owner, held in records.held.get(account, {}).items() if held[-1][1] > graph.now()]
    jobs = sorted({records.job_behind(owner) for owner in owners})
    return f"{jobs[0]} draws" if len(jobs) == 1 else f"{len(jobs)} jobs draw"


def _supplied(graph: ResourceGraph, subsystem: Subsystem, src: int, dst: int) -> str | None:
    """A job that holds units of a supplier on one side of an edge, and something that is supplied on the other."""
    structure, records, now = graph.structure, graph.records, graph.now()
    feeds = next((feeds for feeds in structure.feeds if feeds.graph is subsystem), None)
    if feeds is None or not records.held:
        return None
    up: set[int] = set()
    down: set[int] = set()
    for above, below in ((src, dst), (dst, src)):
        if ((feeds.above == above) & (feeds.below == below)).any():
            up |= _upward(structure, feeds, above)
            down |= _downward(feeds, below)
    lasting = {owner for v in up for owner, held in records.held.get(v, {}).items() if held[-1][1] > now and owner != ELSEWHERE}
    for owner in sorted(lasting):
        for v in records.pools_of[owner]:
            if v < structure.n and any(u <= v < structure.end.item(u) or v <= u < structure.end.item(v) for u in down):
                return records.job_behind(owner)
    return None


def _upward(structure: Structure, feeds: Feeds, v: int) -> set[int]:
    """A supplier, who supplies it, and the units that hang on them."""
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


def _downward(feeds: Feeds, v: int) -> set[int]:
    """A pool and what is supplied through it."""
    found, left = {v}, [v]
    while left:
        below = feeds.below[feeds.above == left.pop()].tolist()
        left += [u for u in below if u not in found]
        found.update(below)
    return found
