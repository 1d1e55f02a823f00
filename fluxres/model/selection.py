"""The answer of a search: pools as one array of vertex numbers, made into objects while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fluxres.errors import StaleHandle
from fluxres.graph.auxiliary import Int32
from fluxres.model.pool import Pool

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph


class Selection:
    """Pools of one graph, in vertex order; iterates over :class:`Pool`.

    Args:
        graph: the resource graph.
        vertices: ascending vertex numbers.
    """

    __slots__ = ("_generation", "_vertices", "graph")

    def __init__(self, graph: ResourceGraph, vertices: Int32) -> None:
        self.graph = graph
        self._vertices = vertices
        self._generation = graph.generation

    @property
    def vertices(self) -> Int32:
        """Vertex numbers, ascending.

        Errors: StaleHandle after the graph changed its structure.
        """
        if self._generation != self.graph.generation:
            raise StaleHandle("this selection was made before the graph changed its structure", hint="search again")
        return self._vertices

    def __iter__(self) -> Iterator[Pool]:
        graph = self.graph
        return (Pool(graph, v) for v in self.vertices.tolist())

    def __len__(self) -> int:
        return len(self._vertices)

    def __bool__(self) -> bool:
        return len(self._vertices) > 0

    def __contains__(self, pool: object) -> bool:
        if not isinstance(pool, Pool) or pool.graph is not self.graph:
            return False
        at = int(np.searchsorted(self.vertices, pool.vertex))
        return at < len(self._vertices) and int(self._vertices[at]) == pool.vertex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and other.graph is self.graph and np.array_equal(other.vertices, self.vertices)

    __hash__ = None  # type: ignore[assignment]  # equal selections of one graph are equal values, and arrays do not hash

    def __repr__(self) -> str:
        return f"<Selection of {len(self)} pools>"

    def paths(self) -> list[str]:
        """Path (or URI) of each pool."""
        where = self.graph.structure.where
        return [where(v) for v in self.vertices.tolist()]

    def with_ancestors(self) -> Selection:
        """These pools and all pools above them, up to the root (RFC 4 Find).  Cost O(levels) vector steps."""
        structure = self.graph.structure
        found = level = self.vertices
        while len(level):
            level = np.unique(structure.parent[level])
            level = level[level >= 0]
            found = np.concatenate([found, level])
        return Selection(self.graph, np.unique(found).astype(np.int32))

    def with_children(self) -> Selection:
        """These pools and everything below them (RFC 4 Find).  Cost O(n) at most."""
        structure = self.graph.structure
        mark = np.zeros(structure.n + 1, np.int32)
        np.add.at(mark, self.vertices, 1)
        np.add.at(mark, structure.end[self.vertices], -1)
        return Selection(self.graph, np.flatnonzero(np.cumsum(mark[:-1]) > 0).astype(np.int32))
