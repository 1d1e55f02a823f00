"""Routes across one auxiliary graph to a pool that a request names: a storage server, a switch.

In a tree there is one: up to where the way from a pool meets the way from the named one, and down to it.  Nothing beyond is on
it.  Where there are several, the shortest is taken, and of those that are equally short at each step the pool with the lowest
vertex number.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from fluxres.match.links import Links
from fluxres.match.ways import Way


class Routes:
    """Routes to one pool, by hops.  Cost, in time and memory: a step for each link near enough.

    Args:
        to: a pool at which links begin.
        begin: the only pools from which routes are wanted; by default all. Nothing farther away is looked at.
    """

    def __init__(self, links: Links, to: int, begin: Iterable[int] | None = None) -> None:
        #: By pool, the hops to the named one.
        self._far = {to: 0}
        #: By pool, the next one on the route.
        self._following: dict[int, int] = {}
        left = None if begin is None else set(begin) - {to}
        reached, hops = [to], 0
        while reached and (left is None or left):
            nearer, reached, hops = reached, [], hops + 1
            for u in nearer:
                for v in links.beside(u) if u == to or links.passes[u] else ():
                    if v not in self._far:
                        self._far[v], self._following[v] = hops, u
                        reached.append(v)
            reached.sort()
            if left is not None:
                left.difference_update(reached)
        ends = np.array(list(self._following.items()), np.int32).reshape(-1, 2).T
        between = links.structure.accounts.between
        limits = [between(links.feeds.graph, *of).tolist() for of in (ends, ends[::-1])]
        #: By pool, the accounts of the link to the next one, where it has any.
        self._limits = {
            v: tuple(account for account in of if account >= 0)
            for v, *of in zip(ends[0].tolist(), *limits, strict=True)
            if max(of) >= 0
        }

    def __len__(self) -> int:
        return len(self._far)

    def hops(self, v: int) -> int:
        """How long the route from a pool is; -1 where there is none."""
        return self._far.get(v, -1)

    def of(self, v: int) -> Way | None:
        """What is met from a pool at which links begin: the pools after it; None where there is no route."""
        if v not in self._far:
            return None
        met = [v]
        while self._far[met[-1]]:
            met.append(self._following[met[-1]])
        edges = {account for u, _ in pairwise(met) for account in self._limits.get(u, ())}
        return Way(tuple(sorted(met[1:])), tuple(sorted(edges)))
