"""Nodes close together (`locality`): under as few parents as possible, and then within as short a stretch as possible.

The parents are the pools directly above the nodes, mostly racks.  First, as few of them as the roomiest ones need to hold
everything.  Of the choices of that many, the one whose first and last parent are closest; a single parent is chosen by the
stretch of nodes itself.  Then the shortest stretch of nodes in the chosen parents.  All ties go to the lower number.
"""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def choose(nodes: NDArray[np.int32], parents: NDArray[np.int32], room: Ints, wanted: int) -> Ints:
    """Indexes of the nodes to use, ascending.

    Args:
        nodes: ascending vertices.
        parents: of each.
        room: instances that fit into each node.
        wanted: instances in all.

    Returns: indexes into `nodes` whose room adds up to at least `wanted`; empty if all nodes together have less.
    Cost: vector operations over the nodes; if no run of adjacent parents suffices, also O(parents²).

    >>> choose(np.array([1, 2, 3, 5, 6, 8, 9], np.int32), np.array([0, 0, 0, 4, 4, 7, 7], np.int32), np.ones(7, int), 2).tolist()
    [0, 1]
    >>> choose(np.array([1, 3, 4], np.int32), np.array([0, 2, 2], np.int32), np.ones(3, int), 2).tolist()
    [1, 2]
    """
    usable = np.flatnonzero(room > 0)
    if int(room[usable].sum()) < wanted:
        return usable[:0]
    starts = np.flatnonzero(np.concatenate([[True], parents[usable][1:] != parents[usable][:-1]]))
    rooms = np.add.reduceat(room[usable], starts)
    fewest = int(np.cumsum(np.sort(rooms)[::-1]).searchsorted(wanted)) + 1
    group = np.repeat(np.arange(len(starts)), np.diff(np.concatenate([starts, [len(usable)]])))
    if fewest == 1:
        chosen = usable[(rooms >= wanted)[group]]
        return _shortest(nodes, chosen, room, wanted, parents)
    picked = _parents(rooms, fewest, wanted)
    return _shortest(nodes, usable[np.isin(group, picked)], room, wanted, None)


def _parents(rooms: Ints, fewest: int, wanted: int) -> Ints:
    """`fewest` parents with enough room whose first and last are closest."""
    sums = np.concatenate([[0], np.cumsum(rooms)])
    neighbours = np.flatnonzero(sums[fewest:] - sums[:-fewest] >= wanted)
    if neighbours.size:
        return int(neighbours[0]) + np.arange(fewest)
    best: tuple[int, int] | None = None
    window: list[int] = []
    lo = 0
    for hi in range(len(rooms)):
        insort(window, int(rooms[hi]))
        while len(window) >= fewest and sum(window[-fewest:]) >= wanted:
            if best is None or hi - lo < best[1] - best[0]:
                best = (lo, hi)
            window.remove(int(rooms[lo]))
            lo += 1
    assert best is not None  # all parents together have room
    inside = np.arange(best[0], best[1] + 1)
    return np.sort(inside[np.argsort(-rooms[inside], kind="stable")[:fewest]])


def _shortest(nodes: NDArray[np.int32], positions: Ints, room: Ints, wanted: int, parents: NDArray[np.int32] | None) -> Ints:
    """The run of indexes with enough room whose first and last node are closest; within one parent if `parents` is given."""
    reach = np.cumsum(room[positions])
    before = reach - room[positions]
    last = reach.searchsorted(before + wanted)
    first = np.flatnonzero(last < len(positions))
    last = last[first]
    if parents is not None:
        within = parents[positions[first]] == parents[positions[last]]
        first, last = first[within], last[within]
    at = int(np.argmin(nodes[positions[last]] - nodes[positions[first]]))
    return positions[int(first[at]) : int(last[at]) + 1]
