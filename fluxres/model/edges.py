"""Changes of the edges of auxiliary graphs, which respect what jobs draw through them (rule F1).

The pools stay as they are; the auxiliary graph, the accounts and the records are replaced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fluxres import limits
from fluxres.allocation.records import Records
from fluxres.errors import UsageError
from fluxres.graph import edges
from fluxres.graph.accounts import CAPACITY, LARGER_UNIT, UNIT
from fluxres.graph.edges import Value
from fluxres.graph.feeds import ANY, SUPPLY
from fluxres.graph.structure import Structure
from fluxres.model import changes, joining, targets
from fluxres.model.supply import Ends, require_drawn
from fluxres.model.targets import Where
from fluxres.syntax.name import is_name

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


def add(graph: ResourceGraph, ends: Ends, relation: str, values: Mapping[str, Any], hierarchy: bool | None) -> None:
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
    capacity: float | None,
    unit: str | None,
    attributes: Mapping[str, Value | None] | None,
    *,
    supply: str | None = None,
    removable: bool = False,
) -> dict[str, Any]:
    """Attributes of an edge as stored in columns: an edge without a limit has no capacity.

    Errors: UsageError, LimitExceeded.
    """
    if attributes is not None and not isinstance(attributes, Mapping):
        raise UsageError(f"attributes: expected names with values, got {attributes!r:.80}")
    values = edges.checked(attributes or {}, removable=removable)
    if unit is not None:
        values |= edges.checked({UNIT: unit})
    if supply is not None:
        if not isinstance(supply, str) or supply not in ("all", ANY):
            raise UsageError(f"supply: expected 'all' or 'any', got {supply!r:.80}")
        values[SUPPLY] = supply
    if capacity is None:
        return values
    if not targets.is_whole(capacity) and not isinstance(capacity, float | np.floating):
        raise UsageError(f"capacity: expected a number, got {capacity!r:.80}", hint="math.inf for no limit")
    if not capacity >= 0:
        raise UsageError(f"capacity: expected a number of at least 0, got {capacity}", hint="math.inf for no limit")
    if capacity > limits.CAPACITY_MAX and capacity != math.inf:
        got = "a number of over 300 digits" if capacity >= limits.NUMBER_MAX else capacity
        hint = f"{LARGER_UNIT}; math.inf for no limit"
        raise UsageError(f"capacity: expected at most {limits.CAPACITY_MAX}, got {got}", hint=hint)
    if capacity != math.inf:
        values[CAPACITY] = float(capacity)
    elif removable:
        values[CAPACITY] = None
    return values


def _relation(relation: object) -> None:
    if not is_name(relation):
        raise UsageError(f"relation: expected 1 to {limits.NAME_LENGTH_MAX} printable characters, got {relation!r:.80}")


def _named(graph: ResourceGraph, ends: Ends, relation: str) -> dict[str, Any]:
    name, src, dst = ends
    where = graph.structure.where
    return {"subsystem": name, "source": where(src), "target": where(dst), "relation": relation}


def _take(graph: ResourceGraph, structure: Structure, ends: Ends, event: dict[str, Any]) -> None:
    """Make it the next generation, unless jobs draw something that prevents it."""
    changes.expire_stages(graph)

    same = np.arange(structure.n, dtype=np.int32)

    def make(own: Records) -> Records:
        require_drawn(own, structure, [ends])
        return joining.taken(structure, own, same)

    records = changes.next_records(graph, make)
    changes.tell_now(graph, event)
    graph.restructure(structure, records, same)
