"""The result of a search: pools as an array of vertex numbers, which become objects when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from fluxres.arrays import Int32
from fluxres.documents.document import plural
from fluxres.errors import StaleHandle, UnknownPool, UsageError
from fluxres.model.pool import Pool
from fluxres.shown import Tabular

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

_SHOWN: Final = 3


class Selection(Tabular):
    """Pools of one graph, each once, in vertex order; iterates over :class:`Pool`.

    ``found[0]`` is a pool and ``found[2:5]`` a selection; ``&``, ``|`` and ``-`` take another selection of the same graph.

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

        Errors: StaleHandle after the graph has changed its structure, or was destroyed.
        """
        if self._generation != self.graph.generation:
            len(self.graph)  # StaleHandle, if it was destroyed
            raise StaleHandle("this selection was made before the graph changed its structure", hint="search again")
        return self._vertices

    def __iter__(self) -> Iterator[Pool]:
        graph = self.graph
        return (Pool(graph, v, self._generation) for v in self.vertices.tolist())

    def __len__(self) -> int:
        len(self.graph)  # StaleHandle, if it was destroyed
        return len(self._vertices)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __contains__(self, pool: object) -> bool:
        if not isinstance(pool, Pool) or pool.graph is not self.graph:
            return False
        at = int(np.searchsorted(self.vertices, pool.vertex))
        return at < len(self._vertices) and int(self._vertices[at]) == pool.vertex

    @overload
    def __getitem__(self, at: int) -> Pool: ...
    @overload
    def __getitem__(self, at: slice) -> Selection: ...
    def __getitem__(self, at: int | slice) -> Pool | Selection:
        """A pool by its position, or some of the pools.

        Errors: UnknownPool beyond the end; UsageError for a negative step (a selection is in vertex order).
        """
        vertices = self.vertices
        if isinstance(at, slice):
            if any(part is not None and not hasattr(part, "__index__") for part in (at.start, at.stop, at.step)):
                raise UsageError(f"expected whole numbers in a slice, got {at!r:.80}")
            if at.step is not None and index(at.step) < 1:
                raise UsageError(f"a selection is in vertex order: a step of {at.step} is not supported", hint="use reversed()")
            return Selection(self.graph, vertices[at])
        if isinstance(at, bool) or not hasattr(at, "__index__"):
            raise UsageError(f"expected a place in the selection or a slice, got {at!r:.80}")
        place = index(at)
        if not -len(vertices) <= place < len(vertices):
            raise UnknownPool(f"index {place} is out of range: the selection has {len(vertices)} pools")
        return Pool(self.graph, vertices.item(place), self._generation)

    def __and__(self, other: Selection) -> Selection:
        """Pools that are in both."""
        return self._joined(other, partial(np.intersect1d, assume_unique=True))

    def __or__(self, other: Selection) -> Selection:
        """Pools that are in one of them."""
        return self._joined(other, np.union1d)

    def __sub__(self, other: Selection) -> Selection:
        return self._joined(other, partial(np.setdiff1d, assume_unique=True))

    def _joined(self, other: Selection, joined: Callable[..., Any]) -> Selection:
        if not isinstance(other, Selection):
            raise UsageError(f"expected another selection, got {other!r:.80}", hint="find returns one")
        if other.graph is not self.graph:
            raise StaleHandle("these selections belong to different graphs", hint="search in one of them")
        return Selection(self.graph, joined(self.vertices, other.vertices).astype(np.int32))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Selection)
            and other.graph is self.graph
            and other._generation == self._generation
            and np.array_equal(other._vertices, self._vertices)
        )

    __hash__ = None  # type: ignore[assignment]  # equal selections of one graph are equal values, and arrays do not hash

    def __repr__(self) -> str:
        number = len(self._vertices)
        count = plural(number, "pool")
        if self._generation != self.graph.generation:
            return f"<Selection of {count} of an earlier generation>"
        some = ", ".join(self[:_SHOWN].paths())
        return f"<Selection of {count}{': ' * bool(some)}{some}{', …' * (number > _SHOWN)}>"

    def paths(self) -> list[str]:
        """Path (or URI) of each pool."""
        where = self.graph.structure.where
        return [where(v) for v in self.vertices.tolist()]

    def with_ancestors(self, hierarchy: str | None = None) -> Selection:
        """These pools and all pools above them, up to the root (RFC 4 Find).

        Args:
            hierarchy: its name; containment by default.

        Errors: UnknownGraph; UsageError for a graph that is not a hierarchy.  Cost: O(levels) vector steps.
        """
        forest = self.graph.structure.forest(hierarchy)
        return Selection(self.graph, forest.with_above(self.vertices))

    def with_children(self, hierarchy: str | None = None) -> Selection:
        """These pools and everything below them (RFC 4 Find).

        Args:
            hierarchy: its name; containment by default.

        Errors: as for `with_ancestors`.  Cost: at most O(n).
        """
        forest = self.graph.structure.forest(hierarchy)
        found = forest.with_below(self.vertices)
        found[self.vertices] = True  # pools outside the hierarchy have nothing below
        return Selection(self.graph, np.flatnonzero(found).astype(np.int32))
