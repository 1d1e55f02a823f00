"""The order of nodes by the room left in them while a match grows, for the policy `spread`.

Each instance of a slot goes where most room is left, so the previous instance changes where the next one goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

import numpy as np
from numpy.typing import NDArray

from fluxres.match.accumulator import Accumulator, Pick
from fluxres.match.situation import Situation


class Evened:
    """The room left in nodes, including what one search has taken so far.

    Cost: the nodes in which this match has something, and the nodes asked about.
    """

    def __init__(self, situation: Situation, taken: Accumulator, measured: int) -> None:
        self._situation = situation
        self._taken = taken
        self._measured = measured
        self._counted: list[Pick] = []
        self._used: dict[int, int] = {}

    def nodes(self, ordered: NDArray[np.int32]) -> Iterator[int]:
        """Nodes with the most room left first; `ordered` by the room they had initially."""
        self._count()
        used = self._used
        room = dict(zip(used, self._room(np.array(list(used), np.int32)), strict=True))
        there = set(ordered.tolist()) if used else set()
        changed = sorted((used[v] - room[v], v) for v in used if v in there)
        if not changed:
            yield from ordered.tolist()
            return
        rest = ((-units, v) for v, units in zip(ordered.tolist(), self._room(ordered), strict=True) if v not in used)
        yield from (v for _, v in merge(changed, rest))

    def _room(self, nodes: NDArray[np.int32]) -> list[int]:
        found: list[int] = self._situation.room(nodes).tolist() if len(nodes) else []
        return found

    def _count(self) -> None:
        """Update the sums: picks are appended and removed only at the end of the list, and each is a new object."""
        picks, counted = self._taken.picks, self._counted
        while counted and (len(picks) < len(counted) or picks[len(counted) - 1] is not counted[-1]):
            self._add(counted.pop(), -1)
        for pick in picks[len(counted) :]:
            counted.append(pick)
            self._add(pick, 1)

    def _add(self, pick: Pick, sign: int) -> None:
        node = self._situation.typology.node_at[pick.v]
        if node >= 0 and self._situation.structure.type.item(pick.v) == self._measured:
            self._used[node] = self._used.get(node, 0) + sign * (pick.amount or 1)
