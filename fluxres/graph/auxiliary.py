"""Auxiliary graphs (RFC 4, "Resource Graph Data") as edge columns over the pools of a structure.

An edge row has one direction and one relation; an edge in both directions is two rows.  networkx views read these columns, and
cutting the machine is one vectorised renumbering.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64, Mask, UInt16
from fluxres.errors import InputError

CONTAINS: Final = "contains"
"""Relation of edges between the pools that a hierarchy contains outside the containment tree."""


def underived(value: object) -> dict[str, Any]:
    """The state of an object for pickle, without its cached properties."""
    kind = type(value)
    return {key: found for key, found in vars(value).items() if not isinstance(getattr(kind, key, None), cached_property)}


@dataclass(eq=False)
class Subsystem:
    """One auxiliary graph.

    Args:
        name: of the subsystem, such as ``power``.
        hierarchy: whether it is a forest whose pools have a URI ``name:/path`` in it.
        src, dst: vertex numbers, int32, one row per edge.
        relation: uint16, index into `relations`.
        relations: relation names, such as ``supplies``.
        attributes: columns by name; float64 with NaN for absent (``capacity`` always), or objects with None.

    >>> s = Subsystem("power", False, np.array([0], np.int32), np.array([1], np.int32))
    >>> len(s), s.relations
    (1, ['link'])
    """

    name: str
    hierarchy: bool
    src: Int32
    dst: Int32
    relation: UInt16 = field(default_factory=lambda: np.zeros(0, np.uint16))
    relations: list[str] = field(default_factory=lambda: ["link"])
    attributes: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.relation) != len(self.src):
            self.relation = np.zeros(len(self.src), np.uint16)

    def __len__(self) -> int:
        return len(self.src)

    def __getstate__(self) -> dict[str, Any]:
        return underived(self)

    @cached_property
    def _by_src(self) -> Int64:
        return np.argsort(self.src, kind="stable")

    @cached_property
    def _by_dst(self) -> Int64:
        return np.argsort(self.dst, kind="stable")

    @cached_property
    def _src_sorted(self) -> Int32:
        return self.src[self._by_src]

    @cached_property
    def _dst_sorted(self) -> Int32:
        return self.dst[self._by_dst]

    @cached_property
    def members(self) -> Int32:
        """Vertices that an edge touches, ascending."""
        return np.unique(np.concatenate([self.src, self.dst])).astype(np.int32)

    def out_rows(self, v: int) -> Int64:
        """Rows of the edges that leave `v`, in document order."""
        return self.rows_leaving(v, v + 1)

    def in_rows(self, v: int) -> Int64:
        """Rows of the edges that reach `v`, in document order."""
        return self.rows_reaching(v, v + 1)

    def rows_leaving(self, lo: int, hi: int) -> Int64:
        """Rows of the edges that leave a vertex in ``[lo, hi)``, ordered by that vertex."""
        first, last = np.searchsorted(self._src_sorted, [lo, hi])
        return self._by_src[first:last]

    def rows_reaching(self, lo: int, hi: int) -> Int64:
        """Rows of the edges that reach a vertex in ``[lo, hi)``, ordered by that vertex."""
        first, last = np.searchsorted(self._dst_sorted, [lo, hi])
        return self._by_dst[first:last]

    def rows_from(self, vertices: Int32) -> tuple[Int64, Int64]:
        """(position in `vertices`, row) of all edges that leave these vertices, one entry per edge, in the order of `vertices`.

        Cost: in the number of edges, vectorised.
        """
        of, at = _runs(self._src_sorted, vertices)
        return of, self._by_src[at]

    def rows_to(self, vertices: Int32) -> tuple[Int64, Int64]:
        """As :meth:`rows_from`, for the edges that reach these vertices."""
        of, at = _runs(self._dst_sorted, vertices)
        return of, self._by_dst[at]

    def all_successors(self, vertices: Int32) -> Int32:
        """The targets of the edges that leave these vertices, one entry per edge.  Cost: in the number of edges, vectorised."""
        return self.dst[self.rows_from(vertices)[1]]

    def successors(self, v: int) -> Int32:
        return self.dst[self.out_rows(v)]

    def edge_data(self, row: int) -> dict[str, Any]:
        """The attributes of one edge as a networkx edge dictionary: subsystem, type and its own attributes."""
        data: dict[str, Any] = {"subsystem": self.name, "type": self.relations[self.relation[row]]}
        for key, column in self.attributes.items():
            value = column[row]
            if value is None or (column.dtype.kind == "f" and np.isnan(value)):
                continue
            data[key] = value.item() if isinstance(value, np.generic) else value
        return data

    def rows(self) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """All edges as (source, target, attributes)."""
        for row in range(len(self.src)):
            yield int(self.src[row]), int(self.dst[row]), self.edge_data(row)

    def parent(self, v: int) -> int:
        """The only predecessor of `v` in a hierarchy, -1 for a root."""
        rows = self.in_rows(v)
        return int(self.src[rows[0]]) if len(rows) else -1

    def roots(self) -> Int32:
        """Members that no edge reaches, ascending.  Cost: in the number of edges on the first call."""
        return self._roots

    @cached_property
    def _roots(self) -> Int32:
        found: Int32 = np.setdiff1d(self.members, self.dst).astype(np.int32)
        found.flags.writeable = False
        return found

    def require_forest(self) -> None:
        """Refuse a hierarchy in which a pool has two parents or is on a cycle.

        Errors: InputError naming the vertex.  Cost O(edges).
        """
        twice = self._dst_sorted[1:][self._dst_sorted[1:] == self._dst_sorted[:-1]]
        if len(twice):
            raise InputError(f"vertex {int(twice[0])} has two parents in hierarchy '{self.name}'", where=f"graphs.{self.name}")
        reached = self.roots()
        seen = len(reached)
        while len(reached):
            reached = self.all_successors(reached)
            seen += len(reached)
        if seen != len(self.members):
            raise InputError(f"hierarchy '{self.name}' has a cycle", where=f"graphs.{self.name}")

    def renumber(self, old_to_new: Int32, *, keep_rows: Mask | None = None) -> Subsystem:
        """The same graph with renumbered vertices; an edge is kept if both its ends are.

        Args:
            old_to_new: int32 by old vertex number, -1 for removed vertices.
            keep_rows: bool by row, to drop further edges.
        """
        moved = replace(self, src=old_to_new[self.src], dst=old_to_new[self.dst])
        keep = (moved.src >= 0) & (moved.dst >= 0)
        return moved.restricted(keep if keep_rows is None else keep & keep_rows)

    def restricted(self, keep: Mask) -> Subsystem:
        """A graph of these edges only, which shares no data with this one."""
        attributes = {key: column[keep] for key, column in self.attributes.items()}
        return Subsystem(
            self.name,
            self.hierarchy,
            self.src[keep],
            self.dst[keep],
            self.relation[keep],
            list(self.relations),
            attributes,
        )


def _runs(ends: Int32, vertices: Int32) -> tuple[Int64, Int64]:
    """(position in `vertices`, position in `ends`) for each entry of the sorted `ends` that is one of these vertices."""
    lo = np.searchsorted(ends, vertices)
    counts = np.searchsorted(ends, vertices, side="right") - lo
    at = np.repeat(lo - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))
    return np.repeat(np.arange(len(vertices)), counts), np.asarray(at, np.int64)
