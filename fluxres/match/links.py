"""The links of one auxiliary graph as a packet sees them: traffic flows in both directions, whichever end is the supplier."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.auxiliary import Int32
from fluxres.graph.feeds import Feeds
from fluxres.graph.structure import Structure


class Links:
    """Links between pools in service.  Cost: vectorised over the edges, and one step per supplier, once.

    Args:
        stated: topmost pools whose state forbids new work; no traffic passes through them.
    """

    def __init__(self, structure: Structure, feeds: Feeds, stated: Int32) -> None:
        self.structure = structure
        self.feeds = feeds
        graph = feeds.graph
        hops = np.array(list(self._unwired()), np.int32).reshape(-1, 2)
        ends = np.concatenate([np.stack([graph.src, graph.dst], 1).astype(np.int32), hops])
        ends = ends[~(_are_in(structure, stated, ends[:, 0]) | _are_in(structure, stated, ends[:, 1]))]
        ends = np.concatenate([ends, ends[:, ::-1]])
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        #: Both ends of each link, once in each direction, ascending.
        self._one, self._other = (np.ascontiguousarray(column).data for column in ends.T)
        #: By pool, whether it forwards traffic of others: nodes and the pools in them do not.
        self.passes = ~_are_in(structure, structure.of_type("node"), np.arange(structure.n, dtype=np.int32))

    def _unwired(self) -> Iterable[tuple[int, int]]:
        """Steps without an edge: from a supplier to the pool that contains it."""
        for u in self.feeds.distributors.tolist():
            place, beside = self.feeds.onward(u)
            if place != u and self.feeds.rows_into(place):
                yield u, place
            if beside >= 0:
                yield u, beside

    def is_member(self, v: int) -> bool:
        """Whether a link in service begins at a pool."""
        at = bisect_left(self._one, v)
        return at < len(self._one) and self._one[at] == v

    def beside(self, v: int) -> list[int]:
        """The pools one hop away, ascending."""
        first = bisect_left(self._one, v)
        found: list[int] = self._other[first : bisect_right(self._one, v, first)].tolist()
        return found

    def ends(self, v: int) -> list[int]:
        """Where the links of a pool begin: at the pool, at the cards in it, or at its nearest ancestor with links."""
        return [v] if self.is_member(v) else [u for u in self.feeds.entries(v) if self.is_member(u)]


def _are_in(structure: Structure, tops: Int32, vertices: Int32) -> NDArray[np.bool_]:
    """Whether each pool is one of these or below one."""
    if not len(tops):
        return np.zeros(len(vertices), np.bool_)
    at = tops.searchsorted(vertices, "right") - 1
    reach = np.maximum.accumulate(structure.end[tops])  # nodes may be nested
    found: NDArray[np.bool_] = (at >= 0) & (vertices < reach[at])
    return found
