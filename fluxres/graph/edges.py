"""Add, change and remove edges of auxiliary graphs; each operation returns the next structure, over the same pools.

The pool columns are shared with the previous structure, which the caller drops; the columns of the edited graph are new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int64, Integers
from fluxres.errors import LimitExceeded, UsageError
from fluxres.graph.accounts import CAPACITY, FULL, LINKED, UNIT
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import fault_of
from fluxres.graph.structure import OUTSIDE, Structure
from fluxres.syntax import unit as units
from fluxres.syntax.name import is_name

Value = str | int | float | bool
"""The value of an edge attribute."""
RESERVED: Final = ("subsystem", "type", CAPACITY)
"""Keys of an edge that are not attributes, because the edge has them in another form."""
_KEPT: Final = (*RESERVED, FULL, LINKED)


def in_unit_of(s: Structure, vertices: Integers, capacity: int, unit: str) -> tuple[int, str]:
    """A capacity in the unit that these pools, those of its graph, are counted in.

    It stays as it is if they have no such unit, or several, or it would not be a whole number.
    """
    found = {s.kinds[number].unit for number in np.unique(s.kind[vertices]).tolist()}
    alike = [own for own in found if own is not None and units.dimension(own) == units.dimension(unit)]
    number = units.convert(capacity, unit, alike[0]) if len(alike) == 1 else capacity
    return (number, alike[0]) if len(alike) == 1 and isinstance(number, int) else (capacity, unit)


def add(
    s: Structure, name: str, src: int, dst: int, relation: str, attributes: Mapping[str, Value], hierarchy: bool | None
) -> Structure:
    """The machine with one more edge.

    Args:
        name: of the auxiliary graph.
        attributes: checked (:func:`checked`), `capacity` among them.
        hierarchy: whether to create a missing graph as a hierarchy; None refuses a missing graph.

    Errors: UnknownGraph; UsageError for an edge that exists, and where a hierarchy would no longer be a forest; LimitExceeded.
    """
    if hierarchy is not None and name not in s.subsystems:
        _require_name(s, name)
        if len(s.subsystems) >= limits.SUBSYSTEMS_MAX:
            raise LimitExceeded(f"a graph has at most {limits.SUBSYSTEMS_MAX} auxiliary graphs", where=name)
        graph = Subsystem(name, hierarchy, np.zeros(0, np.int32), np.zeros(0, np.int32), relations=[relation])
    else:
        graph = s.subsystem(name)
    if hierarchy is not None and graph.hierarchy != hierarchy:
        raise UsageError(f"'{name}' is a {_sort(graph.hierarchy)}, not a {_sort(hierarchy)}", where=name)
    if src == dst:
        raise UsageError(f"an edge from {s.where(src)} to itself", where=name)
    if len(rows_between(graph, src, dst, relation)):
        raise UsageError("this edge exists already", where=said(s, name, src, dst, relation), hint="set_edge changes it")
    if graph.hierarchy:
        _require_tree(s, graph, src, dst)
    if len(graph) >= limits.EDGES_MAX:
        raise LimitExceeded(f"an auxiliary graph has at most {limits.EDGES_MAX} edges", where=name)
    relations = list(graph.relations) if len(graph) else [relation]
    if relation not in relations:
        if len(relations) >= limits.RELATIONS_MAX:
            raise LimitExceeded(f"an auxiliary graph has at most {limits.RELATIONS_MAX} relations", where=name)
        relations.append(relation)
    made = Subsystem(
        name,
        graph.hierarchy,
        np.append(graph.src, np.int32(src)),
        np.append(graph.dst, np.int32(dst)),
        np.append(graph.relation, np.uint16(relations.index(relation))),
        relations,
        {key: _longer(column) for key, column in graph.attributes.items()},
    )
    return with_subsystem(s, _set(made, len(graph), attributes))


def change(s: Structure, graph: Subsystem, row: int, attributes: Mapping[str, Value | None]) -> Structure:
    """The machine with other attributes on one edge; None removes an attribute."""
    if CAPACITY in attributes:
        attributes = {**attributes, FULL: None}  # the capacity given here is the full one, not a part of another machine's
    copied = replace(graph, attributes={key: column.copy() for key, column in graph.attributes.items()})
    return with_subsystem(s, _set(copied, row, attributes))


def remove(s: Structure, graph: Subsystem, rows: Int64) -> Structure:
    keep = np.ones(len(graph), np.bool_)
    keep[rows] = False
    return with_subsystem(s, graph.restricted(keep))


# -- which edge ----------------------------------------------------------------------------------------------------------


def rows_between(graph: Subsystem, src: int, dst: int, relation: str | None = None) -> Int64:
    """Rows of the edges from one pool to another, of one relation or of any."""
    rows = graph.out_rows(src)
    meant = graph.dst[rows] == dst
    if relation is not None:
        number = graph.relations.index(relation) if relation in graph.relations else -1
        meant &= graph.relation[rows] == number
    found: Int64 = rows[meant]
    return found


def require(s: Structure, name: str, src: int, dst: int, relation: str | None) -> tuple[Subsystem, Int64]:
    """The graph, and the rows of the edge from one pool to another: more than one only where a file lists the edge repeatedly.

    Errors: UnknownGraph; UsageError if there is no such edge, or if there are several relations and none was named.
    """
    graph = s.subsystem(name)
    rows = rows_between(graph, src, dst, relation)
    relations = [graph.relations[number] for number in np.unique(graph.relation[rows]).tolist()]
    if not relations:
        back = rows_between(graph, dst, src, relation)
        hint = "there is one in the other direction" if len(back) else f"`show {s.where(src)} --subsystem {name}` lists its edges"
        raise UsageError("no such edge", where=said(s, name, src, dst, relation), hint=hint)
    if len(relations) > 1:
        raise UsageError(
            f"{len(relations)} edges", where=said(s, name, src, dst), hint=f"name the relation: {', '.join(relations)}"
        )
    return graph, rows


def said(s: Structure, name: str, src: int, dst: int, relation: str | None = None) -> str:
    """The name of an edge in a message; `jobs` names edges with a capacity in the same way."""
    return f"{name}: {s.where(src)} -> {s.where(dst)}{f' ({relation})' if relation is not None else ''}"


# -- what is refused -----------------------------------------------------------------------------------------------------


def checked(attributes: Mapping[str, Any], *, removable: bool = False) -> dict[str, Any]:
    """The attributes, if an edge may have them.

    Args:
        removable: allow None, which removes an attribute.

    Errors: UsageError, LimitExceeded.
    """
    for key, value in attributes.items():
        if not is_name(key) or key in _KEPT:
            message = f"{key!r:.80} is not a valid name of an edge attribute"
            raise UsageError(message, hint="pass the capacity as its own argument")
        if value is None and removable:
            continue
        if not isinstance(value, str | int | float | bool) or (isinstance(value, float) and not np.isfinite(value)):
            raise UsageError(f"attribute {key}: expected text, a finite number or a boolean, got {value!r:.80}")
        if (fault := fault_of(value)) is not None:
            raise (LimitExceeded if fault.is_limit else UsageError)(f"attribute {key}: {fault.message}", hint=fault.hint)
        if key == UNIT and not (isinstance(value, str) and value):
            raise UsageError(f"unit: expected text, got {value!r:.80}")
    return dict(attributes)


def _require_name(s: Structure, name: str) -> None:
    if not is_name(name, without="/:"):
        raise UsageError(f"{name!r:.80} is not a valid graph name", hint="no '/', no ':', no control characters")
    if name in (s.hierarchy, OUTSIDE):
        raise UsageError(f"'{name}' is taken", where=name, hint="give the graph another name")


def _require_tree(s: Structure, graph: Subsystem, src: int, dst: int) -> None:
    above = graph.parent(dst)
    if above >= 0:
        raise UsageError(
            f"would have two parents in hierarchy '{graph.name}': {s.where(above)} and {s.where(src)}",
            where=s.where(dst),
            hint="remove its present edge, or use a graph that is not a hierarchy",
        )
    while src >= 0:
        if src == dst:
            raise UsageError(f"would become its own descendant in hierarchy '{graph.name}'", where=s.where(dst))
        src = graph.parent(src)


def _sort(hierarchy: bool) -> str:
    return "hierarchy" if hierarchy else "graph without hierarchy"


# -- columns -------------------------------------------------------------------------------------------------------------


def with_subsystem(s: Structure, graph: Subsystem) -> Structure:
    """The machine with this auxiliary graph in place of the one with the same name."""
    made = s.replaced(subsystems={**s.subsystems, graph.name: graph})
    made.linked = s.linked
    return made


def _longer(column: NDArray[Any]) -> NDArray[Any]:
    more = np.full(1, np.nan) if column.dtype.kind == "f" else np.full(1, None, object)
    return np.concatenate([column, more])


def _set(graph: Subsystem, row: int, attributes: Mapping[str, Value | None]) -> Subsystem:
    """The graph with these attributes on one row; writes into its columns, which must not be shared."""
    columns = graph.attributes
    for key, value in attributes.items():
        if value is None:
            if key in columns:
                columns[key][row] = np.nan if columns[key].dtype.kind == "f" else None
            continue
        column = columns.get(key)
        if column is None:
            column = np.full(len(graph), np.nan) if is_float(value) else np.full(len(graph), None, object)
        elif column.dtype.kind == "f" and not is_float(value):
            absent = np.isnan(column)
            column = column.astype(object)
            column[absent] = None
        column[row] = float(value) if column.dtype.kind == "f" else value
        columns[key] = column
    if len(columns) > limits.EDGE_ATTRIBUTES_MAX or len(columns) * len(graph) > limits.EDGES_MAX:
        message = f"{len(columns)} attributes of {len(graph)} edges, at most {limits.EDGE_ATTRIBUTES_MAX} are allowed"
        raise LimitExceeded(message, where=graph.name)
    return replace(graph, attributes={key: column for key, column in columns.items() if not _is_empty(column)})


def _is_empty(column: NDArray[Any]) -> bool:
    return bool(np.isnan(column).all()) if column.dtype.kind == "f" else all(value is None for value in column.tolist())


def is_float(value: object) -> bool:
    """Whether a column of floats can hold this value exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or (abs(value) < limits.NUMBER_MAX and int(float(value)) == value)
