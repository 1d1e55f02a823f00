"""Routes across one auxiliary graph to a pool that a request names, such as a storage server or a switch.

In a tree there is exactly one: up to where the supply paths of both pools meet, and down again; nothing beyond is on it.  If
there are several, the shortest is taken, and among equally short ones the lowest vertex number at each step.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from fluxres.match.links import Links
from fluxres.match.ways import Way


class Routes:
    """Routes to one pool, by hops.  Cost, in time and memory: one step for each link close enough.

    Args:
        to: a pool at which links begin.
        begin: the only pools from which routes are needed; all by default. Nothing farther away is looked at.
    """

    def __init__(self, links: Links, to: int, begin: Iterable[int] | None = None) -> None:
        #: By pool, the number of hops to the named one.
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
        #: By pool, the accounts of the link to the next one, if it has any.
        self._limits = {
            v: tuple(account for account in of if account >= 0)
            for v, *of in zip(ends[0].tolist(), *limits, strict=True)
            if max(of) >= 0
        }

    def __len__(self) -> int:
        return len(self._far)

    def hops(self, v: int) -> int:
        """The length of the route from a pool; -1 if there is none."""
        return self._far.get(v, -1)

    def of(self, v: int) -> Way | None:
        """The pools and edges on the route from a pool at which links begin, without that pool; None if there is no route."""
        if v not in self._far:
            return None
        met = [v]
        while self._far[met[-1]]:
            met.append(self._following[met[-1]])
        edges = {account for u, _ in pairwise(met) for account in self._limits.get(u, ())}
        return Way(tuple(sorted(met[1:])), tuple(sorted(edges)))
