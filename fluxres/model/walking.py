"""Visiting pools in order (RFC 4 Traversal): in containment, in auxiliary hierarchies, along the edges of any graph.

A walk creates an object for each pool that it visits; the order comes from the columns.  In a hierarchy no pool can come twice.
A graph that is not a hierarchy may have cycles and several paths to a pool: each pool is visited when it is first met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from fluxres.errors import StaleHandle, UsageError
from fluxres.model.pool import Pool
from fluxres.model.targets import Place

if TYPE_CHECKING:
    from fluxres.model.resource_graph import ResourceGraph

Prune = Callable[[Pool], bool]
Sort = Callable[[list[Pool]], Iterable[Pool]]

ORDERS: Final = ("pre", "post", "bfs")


def walk(graph: ResourceGraph, place: Place, order: str, prune: Prune | None, sort: Sort | None) -> Iterator[Pool]:
    """Visit pools and everything below them; see :meth:`ResourceGraph.walk`."""
    if not isinstance(order, str) or order not in ORDERS:
        raise UsageError(f"order: expected 'pre', 'post' or 'bfs', got {order!r:.80}")
    for name, given in (("prune", prune), ("sort", sort)):
        if given is not None and not callable(given):
            raise UsageError(f"{name}: expected a function, got {given!r:.80}")
    visit = _Walk(graph, place, prune, sort)
    if order == "pre" and sort is None and place.name is None:
        return visit.in_columns()
    return visit.in_breadth() if order == "bfs" else visit.in_depth(pre=order == "pre")


class _Walk:
    def __init__(self, graph: ResourceGraph, place: Place, prune: Prune | None, sort: Sort | None) -> None:
        self._graph = graph
        self._generation = graph.generation
        self._tops = place.vertices
        self._prune, self._sort = prune, sort
        subsystem = place.subsystem
        self._next = subsystem.successors if subsystem is not None else place.require_forest().children
        self._met: set[int] | None = None if subsystem is None else set()

    def in_columns(self) -> Iterator[Pool]:
        """Containment in pre-order: one row after the other."""
        end = self._graph.structure.end
        for top in self._tops:
            v, stop = top, end.item(top)
            while v < stop:
                if self._enters(v):
                    yield self._pool(v)
                    v += 1
                else:
                    v = end.item(v)

    def in_depth(self, *, pre: bool) -> Iterator[Pool]:
        # A stack of vertices to visit; -1 - v means that everything below v has been visited.
        pending = self._ordered(None)[::-1]
        while pending:
            v = pending.pop()
            if v < 0:
                yield self._pool(-1 - v)
                continue
            if not self._enters(v):
                continue
            if pre:
                yield self._pool(v)
            else:
                pending.append(-1 - v)
            pending += self._ordered(v)[::-1]

    def in_breadth(self) -> Iterator[Pool]:
        pending = deque(self._ordered(None))
        while pending:
            v = pending.popleft()
            if self._enters(v):
                yield self._pool(v)
                pending += self._ordered(v)

    def _require_current(self) -> None:
        if self._graph.generation != self._generation:
            raise StaleHandle("the graph changed its structure during this walk", hint="begin a new one")

    def _pool(self, v: int) -> Pool:
        return Pool(self._graph, v, self._generation)

    def _enters(self, v: int) -> bool:
        """Whether to visit a pool and what is below it."""
        self._require_current()
        if self._met is not None:
            if v in self._met:
                return False
            self._met.add(v)
        return self._prune is None or not self._prune(self._pool(v))

    def _ordered(self, v: int | None) -> list[int]:
        """The children of a pool, or the tops for None, in the order in which to visit them."""
        self._require_current()
        found: list[int] = self._tops if v is None else self._next(v).tolist()
        if self._met is not None:
            found = [u for u in dict.fromkeys(found) if u not in self._met]
        if self._sort is None or (v is None and len(found) == 1):
            return found
        return self._sorted(self._sort, found)

    def _sorted(self, sort: Sort, found: list[int]) -> list[int]:
        given = sort([self._pool(v) for v in found])
        if not isinstance(given, Iterable):
            raise UsageError(f"sort: expected an iterable of pools, got {given!r:.80}")
        wanted, ordered = set(found), list[int]()
        for pool in given:
            if not isinstance(pool, Pool) or pool.graph is not self._graph or pool.vertex not in wanted:
                raise UsageError(f"sort: expected each of the pools it was given once, got {pool!r:.80}")
            wanted.discard(pool.vertex)
            ordered.append(pool.vertex)
        return ordered
