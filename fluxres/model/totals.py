"""Sums of units by type, of everything or of a part (RFC 4 Aggregation): which pools are counted, and in which units.

Three things are never added up: units that do not convert, units that a pool only passes on (800 W of a PDU are 800 W of the feed
above it), and units of pass-through pools of a copy.  Most machines have none of these; then the planner has the sum for any
subtree of containment without looking at its pools.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.graph.structure import Structure
from fluxres.model.targets import Place
from fluxres.syntax import unit

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def considered(structure: Structure) -> Mask | None:
    """By vertex, whether a search can find the pool; None for all.

    A pass-through pool outside the tree is left out: it has no units and contains nothing (rules M1, N1).
    """
    outside = structure.ways[structure.tree_end :]
    if not outside.any():
        return None
    found = np.ones(structure.n, np.bool_)
    found[structure.tree_end :] = ~outside
    return found


def giving(structure: Structure) -> Mask | None:
    """By vertex, whether the pool has units of its own, held or not; None for all."""
    return None if structure.units is structure.size else ~structure.ways


_NONE: Final = np.zeros(0, np.int32)


def available_units(graph: ResourceGraph, start: int, end: int, lo: int = 0, hi: int | None = None) -> Int64:
    """Units free throughout the window for every pool of [lo, hi), 0 where a state forbids new work (rule A7)."""
    structure = graph.structure
    stop = structure.n if hi is None else hi
    free = graph.planner.free_slice(lo, stop, start, end)
    for v in structure.unavailable_roots().tolist():
        free[max(v - lo, 0) : max(structure.end.item(v) - lo, 0)] = 0
    return free


def in_part(graph: ResourceGraph, start: int, end: int, lo: int = 0, hi: int | None = None) -> dict[str, int]:
    """By type, the pools of [lo, hi) in the containment tree that are free, and of which jobs hold a part below.

    Cost: the pools that are held.
    """
    structure = graph.structure
    stop = structure.tree_end if hi is None else hi
    above, found = graph.planner.busy(lo, stop, start, end), np.zeros(0, np.int32)
    while len(above):
        above = np.unique(structure.parent[above])
        above = above[above >= lo]
        found = np.union1d(found, above)
    if not len(found):
        return {}
    found = found[available_units(graph, start, end, lo, stop)[found - lo] > 0]
    counts = np.bincount(structure.type[found], minlength=len(structure.types)).tolist()
    return {name: count for name, count in zip(structure.types, counts, strict=True) if count}


def drawn(graph: ResourceGraph) -> tuple[Int32, Int32]:
    """(pool, supplier) of one type, for pools whose units are those of a supplier above them."""
    if not graph.structure.may_pass_on:
        return _NONE, _NONE
    return graph.matcher.typology.paths.drawn  # only machines with supply graphs pay for this import


def topmost(graph: ResourceGraph, chosen: Mask) -> Mask:
    """The pools to add up: of suppliers of one type, those that no other of them supplies."""
    below, above = drawn(graph)
    passed_on = below[chosen[above]]
    if not len(passed_on):
        return chosen
    found = chosen.copy()
    found[passed_on] = False
    return found


def _that_give(graph: ResourceGraph, chosen: Mask) -> Int32:
    """The pools whose free units are added up, ascending."""
    gives = giving(graph.structure)
    return np.flatnonzero(topmost(graph, chosen if gives is None else chosen & gives)).astype(np.int32)


def aggregate(graph: ResourceGraph, place: Place, start: int, end: int, every: bool) -> dict[str, int]:
    """Free units by type at and below some pools of a hierarchy; see :meth:`ResourceGraph.aggregate`."""
    structure = graph.structure
    if place.name is None:
        (v,) = place.vertices
        if _is_plain(graph, v, structure.end.item(v)):
            return _by_type(graph, v, start, end, every)
    chosen = _below(place)
    vertices = _that_give(graph, chosen)
    lo, hi = (int(vertices[0]), int(vertices[-1]) + 1) if len(vertices) else (0, 0)
    free = available_units(graph, start, end, lo, hi)[vertices - lo]
    named = structure.sums.named(structure.sums.by_code(vertices, free))
    if not every:
        return {name: units for name, units in named.items() if units}
    present = set(np.unique(structure.sums.code[chosen]).tolist())
    there = {entry.name for entry in structure.sums.entries if present.intersection(entry.parts.values())}
    return {name: units for name, units in named.items() if units or name in there}


def _below(place: Place) -> Mask:
    return place.require_forest().with_below(np.array(place.vertices, np.int32))


def _is_plain(graph: ResourceGraph, lo: int, hi: int) -> bool:
    """Whether all pools of a slice are added up, and each type has a single unit."""
    if not graph.structure.sums.is_plain:
        return False
    below, above = drawn(graph)
    return not (len(below) and ((below >= lo) & (below < hi) & (above >= lo) & (above < hi)).any())


def _by_type(graph: ResourceGraph, v: int, start: int, end: int, every: bool) -> dict[str, int]:
    structure = graph.structure
    barred = structure.unavailable_roots()
    if structure.unavailable_above(v) >= 0:
        totals = np.zeros(0, np.int64)
    else:
        totals = graph.planner.totals(v, start, end, barred if len(barred) else None)[: len(structure.types)]  # edges follow
    types = structure.types
    if len(totals) < len(types):  # kinds outlive pools, so there may be types without a pool
        totals = np.pad(totals, (0, len(types) - len(totals)))
    units = totals.tolist()
    present = np.unique(structure.type[v : structure.end.item(v)]).tolist() if every else None
    if present is None:
        return {name: free for name, free in zip(types, units, strict=True) if free > 0}
    return {types[number]: units[number] for number in present}


def _in_part_of(graph: ResourceGraph, place: Place, start: int, end: int) -> dict[str, int]:
    if place.name is not None:  # jobs hold parts of a pool in the containment tree
        return {}
    (v,) = place.vertices
    return in_part(graph, start, end, v, graph.structure.end.item(v))


class Total(msgspec.Struct, frozen=True):
    """All pools of a type whose units convert.

    Args:
        type: of the pools.
        pools: their number.
        units: units of those that are added up, in `unit`.
        available: free units of those that have units of their own.
        mixed: pools that are free, and of which jobs hold a part below.
    """

    type: str
    pools: int
    units: int
    unit: str | None
    available: int
    mixed: int = 0


def by_type(graph: ResourceGraph, start: int, end: int, place: Place | None = None) -> list[Total]:
    """Pools and units by type: of everything, including pools outside containment, or at and below some pools of a hierarchy."""
    structure, sums = graph.structure, graph.structure.sums
    chosen = np.ones(structure.n, np.bool_) if place is None else _below(place)
    pools = np.bincount(sums.code[chosen], minlength=sums.count)
    counted, give = np.flatnonzero(topmost(graph, chosen)).astype(np.int32), _that_give(graph, chosen)
    sizes = sums.by_code(counted, structure.size[counted])
    free = sums.by_code(give, available_units(graph, start, end)[give])
    mixed = in_part(graph, start, end) if place is None else _in_part_of(graph, place, start, end)
    found = []
    for entry in sums.entries:
        count = int(sum(pools[code] for code in entry.parts.values()))
        units, available = sums.exact(entry, sizes), sums.exact(entry, free)
        own = entry.unit
        if units.denominator > 1 or available.denominator > 1:
            own = entry.fine
            units, available = (Fraction(unit.convert(amount, entry.unit, own)) for amount in (units, available))
        if count:
            found.append(Total(entry.type, count, int(units), own, int(available), mixed.get(entry.type, 0)))
    return found
