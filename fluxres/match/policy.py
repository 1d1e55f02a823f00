"""Policies: the order in which candidates are tried.  The first match in that order is the result.

A policy gives each candidate a score, low first; ties go to the lower vertex number.  `low` and `high` need no score: they are
the vertex number, ascending or descending.  Vertices are numbered in pre-order, so the pools of a node are adjacent, and the
node-centric `lonode` and `hinode` are the same two orders.

`locality` takes nodes close together: under the smallest number of parents (the pools directly above the nodes, mostly racks)
that can hold everything.  Of the choices with that number, it takes the one whose first and last parent are closest; a single
parent is chosen by the run of nodes itself.  Then it takes the shortest run of nodes in the chosen parents.  All ties go to the
lower number.

A custom policy is a function of a situation and some vertices:

>>> def by_rank(situation, vertices):
...     return -situation.structure.rank[vertices]
>>> Policy("highest-rank", score=by_rank).descending
False
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fluxres.arrays import Int32, Int64
from fluxres.documents.suggestion import choose_from
from fluxres.errors import FluxresError, PolicyError, UsageError

if TYPE_CHECKING:
    from fluxres.match.situation import Situation


Score = Callable[["Situation", Int32], NDArray[Any]]
"""Scores of ascending vertices of one type, low first. A score must depend on its own vertex only.

The vertices are the graph's own array, which cannot be written to: a score makes a new one.
"""


class Policy(msgspec.Struct, frozen=True):
    """An order of candidates.

    Args:
        name: for messages and the stamp of a match.
        descending: highest vertex number first; only without a score.
        node_exclusive: any node of which something is taken is taken exclusively.
        score: low first; ties by ascending vertex number.
        near: nodes are chosen close together (`nearest`); everything else ascending.
        by_node: the score is the same for all pools of a node.
        evened: each instance of a slot goes to the node with the most room left, not to the first with any.
    """

    name: str
    descending: bool = False
    node_exclusive: bool = False
    score: Score | None = None
    near: bool = False
    by_node: bool = False
    evened: bool = False

    def order(self, situation: Situation, vertices: Int32) -> Int32:
        """Candidates (ascending vertices of one type) in the order in which to try them.

        Errors: those of :meth:`scores`.
        """
        if self.score is None:
            return vertices[::-1] if self.descending else vertices
        return vertices[np.argsort(self.scores(situation, vertices), kind="stable")]

    def scores(self, situation: Situation, vertices: Int32) -> NDArray[Any]:
        """The checked result of the score function.

        Errors: UsageError for a score that is not one number per candidate, or nan; PolicyError for a function that fails.
        """
        assert self.score is not None  # callers check this
        given = vertices.view()
        given.flags.writeable = False
        if POLICIES.get(self.name) is not self:
            situation = situation.to_read
        try:
            found = np.asarray(self.score(situation, given))
        except FluxresError:
            raise
        except Exception as error:
            hint = "a score is a new array; the vertices and the machine that it gets can only be read"
            raise PolicyError(f"{type(error).__name__}: {error}", where=f"policy {self.name}", hint=hint) from error
        if found.shape != vertices.shape or found.dtype.kind not in "biuf":
            raise UsageError(
                f"expected one number for each of {len(vertices)} candidates, got {found.dtype} of shape {found.shape}",
                where=f"policy {self.name}",
            )
        if found.dtype.kind == "f" and (wrong := np.isnan(found)).any():
            at = situation.structure.where(int(vertices[wrong][0]))
            hint = "give a number, such as inf for the last"
            raise UsageError(f"the score of {at} is nan", where=f"policy {self.name}", hint=hint)
        return found


def _variation(situation: Situation, vertices: Int32) -> NDArray[Any]:
    return situation.performance_class(vertices)


def _pack(situation: Situation, vertices: Int32) -> NDArray[Any]:
    return situation.room(vertices)


def _spread(situation: Situation, vertices: Int32) -> NDArray[Any]:
    return -situation.room(vertices)


_ORDERS: Final = {
    "first": Policy("first"),
    "low": Policy("low"),
    "high": Policy("high", descending=True),
    "lonode": Policy("lonode"),
    "hinode": Policy("hinode", descending=True),
    "locality": Policy("locality", near=True),
    "variation": Policy("variation", score=_variation),
    "pack": Policy("pack", score=_pack, by_node=True),
    "spread": Policy("spread", score=_spread, by_node=True, evened=True),
}
_NODE_EXCLUSIVE: Final = {
    "firstnodex": "first",
    "lownodex": "low",
    "highnodex": "high",
    "lonodex": "lonode",
    "hinodex": "hinode",
}
POLICIES: Final[dict[str, Policy]] = _ORDERS | {
    name: Policy(name, descending=_ORDERS[base].descending, node_exclusive=True) for name, base in _NODE_EXCLUSIVE.items()
}


def policy(given: str | Policy) -> Policy:
    """The policy with this name, or the given policy itself.

    Errors: UsageError listing the known names.

    >>> policy("hinodex").descending, policy("hinodex").node_exclusive
    (True, True)
    """
    if isinstance(given, Policy):
        return given
    found = POLICIES.get(given) if isinstance(given, str) else None
    if found is None:
        raise UsageError(f"no match policy {given!r}", hint=f"{choose_from(POLICIES)}, and in Python any Policy")
    return found


def nearest(nodes: Int32, parents: Int32, room: Int64, wanted: int) -> Int64:
    """Indexes of the nodes to use, ascending.

    Args:
        nodes: ascending vertices.
        parents: of each.
        room: instances that fit into each node.
        wanted: instances in all.

    Returns: indexes into `nodes` whose room adds up to at least `wanted`; empty if all nodes together have less.
    Cost: vector operations over the nodes; if no run of adjacent parents suffices, also O(parents²).

    >>> nearest(np.array([1, 2, 3, 5, 6, 8, 9], np.int32), np.array([0, 0, 0, 4, 4, 7, 7], np.int32), np.ones(7, int), 2).tolist()
    [0, 1]
    >>> nearest(np.array([1, 3, 4], np.int32), np.array([0, 2, 2], np.int32), np.ones(3, int), 2).tolist()
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


def _parents(rooms: Int64, fewest: int, wanted: int) -> Int64:
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


def _shortest(nodes: Int32, positions: Int64, room: Int64, wanted: int, parents: Int32 | None) -> Int64:
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
