"""Edges of auxiliary graphs added, changed and removed: each makes the next structure, over the same pools.

The columns of pools are shared with the structure before, which goes; those of the one graph are made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.errors import LimitExceeded, UsageError
from fluxres.graph.accounts import CAPACITY, FULL, LINKED, UNIT
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.lookup import OUTSIDE
from fluxres.graph.structure import Structure

Value = str | int | float | bool
"""What an edge may say of itself."""
RESERVED: Final = ("subsystem", "type", CAPACITY)
"""What an edge says in its own way, and not as an attribute."""
_KEPT: Final = (*RESERVED, FULL, LINKED)


def add(
    s: Structure, name: str, src: int, dst: int, relation: str, attributes: Mapping[str, Value], hierarchy: bool | None
) -> Structure:
    """The machine with one edge more.

    Args:
        name: of the auxiliary graph.
        attributes: checked (:func:`checked`), `capacity` among them.
        hierarchy: what to make of a graph that there is not; None to refuse it.

    Errors: UnknownGraph; UsageError for an edge that is there, and where a hierarchy would be no forest; LimitExceeded.
    """
    if hierarchy is not None and name not in s.subsystems:
        _require_name(s, name)
        if len(s.subsystems) >= limits.SUBSYSTEMS_MAX:
            raise LimitExceeded(f"{len(s.subsystems)} auxiliary graphs, and one more is too many", where=name)
        graph = Subsystem(name, hierarchy, np.zeros(0, np.int32), np.zeros(0, np.int32), relations=[relation])
    else:
        graph = s.subsystem(name)
    if hierarchy is not None and graph.hierarchy != hierarchy:
        raise UsageError(f"'{name}' is a {_sort(graph.hierarchy)}, and not a {_sort(hierarchy)}", where=name)
    if src == dst:
        raise UsageError(f"an edge from {s.where(src)} to itself", where=name)
    if len(rows_between(graph, src, dst, relation)):
        raise UsageError("this edge is there already", where=said(s, name, src, dst, relation), hint="set_edge changes it")
    if graph.hierarchy:
        _require_tree(s, graph, src, dst)
    if len(graph) >= limits.EDGES_MAX:
        raise LimitExceeded(f"{len(graph)} edges, and one more is too many", where=name)
    relations = list(graph.relations) if len(graph) else [relation]
    if relation not in relations:
        if len(relations) >= limits.RELATIONS_MAX:
            raise LimitExceeded(f"{len(relations)} relations, and one more is too many", where=name)
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
    """The machine with other attributes of one edge; None takes one away."""
    if CAPACITY in attributes:
        attributes = {**attributes, FULL: None}  # it has what is given here, and not a part of what another machine has
    copied = replace(graph, attributes={key: column.copy() for key, column in graph.attributes.items()})
    return with_subsystem(s, _set(copied, row, attributes))


def remove(s: Structure, graph: Subsystem, rows: NDArray[np.int64]) -> Structure:
    """The machine without these edges."""
    keep = np.ones(len(graph), np.bool_)
    keep[rows] = False
    return with_subsystem(s, graph.restricted(keep))


# -- which edge ----------------------------------------------------------------------------------------------------------


def rows_between(graph: Subsystem, src: int, dst: int, relation: str | None = None) -> NDArray[np.int64]:
    """Rows of the edges from one pool to another, of one relation or of any."""
    rows = graph.out_rows(src)
    meant = graph.dst[rows] == dst
    if relation is not None:
        number = graph.relations.index(relation) if relation in graph.relations else -1
        meant &= graph.relation[rows] == number
    found: NDArray[np.int64] = rows[meant]
    return found


def require(s: Structure, name: str, src: int, dst: int, relation: str | None) -> tuple[Subsystem, NDArray[np.int64]]:
    """The graph, and the rows of the edge from one pool to another: more than one only where a file has it several times.

    Errors: UnknownGraph; UsageError where there is none, and where there are several relations and none was named.
    """
    graph = s.subsystem(name)
    rows = rows_between(graph, src, dst, relation)
    relations = [graph.relations[number] for number in np.unique(graph.relation[rows]).tolist()]
    if not relations:
        back = rows_between(graph, dst, src, relation)
        hint = "there is one in the other direction" if len(back) else f"`show {s.where(src)} --subsystem {name}` lists its edges"
        raise UsageError("there is no such edge", where=said(s, name, src, dst, relation), hint=hint)
    if len(relations) > 1:
        raise UsageError(f"{len(relations)} edges", where=said(s, name, src, dst), hint=f"say which: {', '.join(relations)}")
    return graph, rows


def said(s: Structure, name: str, src: int, dst: int, relation: str | None = None) -> str:
    """An edge in a message, as `allocated` names those with a capacity."""
    return f"{name}: {s.where(src)} -> {s.where(dst)}{f' ({relation})' if relation is not None else ''}"


# -- what is refused -----------------------------------------------------------------------------------------------------


def checked(attributes: Mapping[str, Any], *, removable: bool = False) -> dict[str, Any]:
    """Attributes that an edge may have, as they were given.

    Args:
        removable: None is a value, and takes the attribute away.

    Errors: UsageError, LimitExceeded.
    """
    for key, value in attributes.items():
        if not isinstance(key, str) or not key.isprintable() or not 0 < len(key) <= limits.NAME_LENGTH_MAX or key in _KEPT:
            raise UsageError(f"{key!r:.80} is no name for an attribute of an edge", hint="capacity is an argument of its own")
        if value is None and removable:
            continue
        if not isinstance(value, str | int | float | bool) or (isinstance(value, float) and not np.isfinite(value)):
            raise UsageError(f"attribute {key}: expected a text, a finite number or a truth value, got {value!r:.80}")
        if isinstance(value, str) and len(value) > limits.VALUE_LENGTH_MAX:
            raise LimitExceeded(f"attribute {key}: {len(value)} characters, at most {limits.VALUE_LENGTH_MAX}")
        if isinstance(value, int) and abs(value) >= limits.NUMBER_MAX:
            raise LimitExceeded(f"attribute {key}: a number of more than 300 digits", hint="write it as text")
        if key == UNIT and not (isinstance(value, str) and value):
            raise UsageError(f"unit: expected a text, got {value!r:.80}")
    return dict(attributes)


def _require_name(s: Structure, name: str) -> None:
    if (
        not isinstance(name, str)
        or not name.isprintable()
        or not 0 < len(name) <= limits.NAME_LENGTH_MAX
        or set("/:") & set(name)
    ):
        raise UsageError(f"{name!r:.80} is no name for a graph", hint="no '/', no ':', no control characters")
    if name in (s.hierarchy, OUTSIDE):
        raise UsageError(f"'{name}' is taken", where=name, hint="give the graph another name")


def _require_tree(s: Structure, graph: Subsystem, src: int, dst: int) -> None:
    above = graph.parent(dst)
    if above >= 0:
        raise UsageError(
            f"would have two parents in hierarchy '{graph.name}': {s.where(above)} and {s.where(src)}",
            where=s.where(dst),
            hint="remove the edge it has; a graph that is no hierarchy may have both",
        )
    while src >= 0:
        if src == dst:
            raise UsageError(f"would be below itself in hierarchy '{graph.name}'", where=s.where(dst))
        src = graph.parent(src)


def _sort(hierarchy: bool) -> str:
    return "hierarchy" if hierarchy else "graph that is no hierarchy"


# -- columns -------------------------------------------------------------------------------------------------------------


def with_subsystem(s: Structure, graph: Subsystem) -> Structure:
    """The machine with this auxiliary graph in place of the one of its name."""
    made = s.replaced(subsystems={**s.subsystems, graph.name: graph})
    made.linked = s.linked
    return made


def _longer(column: NDArray[Any]) -> NDArray[Any]:
    more = np.full(1, np.nan) if column.dtype.kind == "f" else np.full(1, None, object)
    return np.concatenate([column, more])


def _set(graph: Subsystem, row: int, attributes: Mapping[str, Value | None]) -> Subsystem:
    """A graph whose columns are its own, with these attributes of one row."""
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
        message = f"{len(columns)} attributes of {len(graph)} edges, at most {limits.EDGE_ATTRIBUTES_MAX} fit"
        raise LimitExceeded(message, where=graph.name)
    return replace(graph, attributes={key: column for key, column in columns.items() if not _is_empty(column)})


def _is_empty(column: NDArray[Any]) -> bool:
    return bool(np.isnan(column).all()) if column.dtype.kind == "f" else all(value is None for value in column.tolist())


def is_float(value: object) -> bool:
    """Whether a column of floats holds this value as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or (abs(value) < limits.NUMBER_MAX and int(float(value)) == value)
