"""Which nodes the vector path uses, and how much of the request goes to each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.match import nearest
from fluxres.match.drawing import FEW, Drawing, Entangled
from fluxres.planner.bits import Words
from fluxres.planner.marks import ordinals_of

if TYPE_CHECKING:
    from fluxres.match.vector import Search

Int64 = NDArray[np.int64]
Nodes = tuple[Int64, Int64]
"""Ordinals of nodes in the order in which they are used, and how much goes to each."""


class NodeSelection:
    """Selects the nodes for one request in its window.

    Args:
        search: the request.
        counts: how many of each demand.
        drawing: what is charged; None for nothing.
    """

    def __init__(self, search: Search, counts: tuple[int, ...], drawing: Drawing | None) -> None:
        self._search = search
        self._counts = counts
        self._drawing = drawing
        #: The number of each bundle, node after node, if they are not numbered consecutively.
        self.turns: Int64 | None = None

    def nodes(self, *, any_will_do: bool = False) -> Nodes | None:
        """The nodes to use; None if there are too few.

        Args:
            any_will_do: only test whether there are enough; the order of the policy may be ignored.

        Errors: Entangled if only a search can decide.
        """
        search, form = self._search, self._search.form
        number, needs = form.number(self._counts), form.needs(self._counts)
        one_each = form.sort == "nodes"
        words = search.candidates(needs)
        if not words.any():
            return None
        evened = search.policy.evened and form.sort == "bundles" and number > 1 and not any_will_do
        if self._drawing is not None:
            if evened:
                raise Entangled
            if number == 1 and not search.policy.near and (search.policy.score is None or search.scores is None):
                node = first_node(search, words, needs)
                if node is None:
                    return None
                first = np.array([node]), np.ones(1, np.int64)
                if self._drawing.few(*first)[0]:
                    return first
            return self._supplied(search.ordered(words), needs, self._drawing, number)
        near = search.policy.near and form.sort != "units"
        if number == 1 and (near or search.policy.score is None or search.scores is None):
            node = first_node(search, words, needs)
            return None if node is None else (np.array([node]), np.ones(1, np.int64))
        nodes = search.ordered(words)
        if one_each and len(nodes) < number:
            return None
        doubtful = search.doubtful(nodes, list(needs))
        if near:
            return self._in_one_node(needs, number) or self._near(nodes, needs, doubtful, number)
        if one_each:
            chosen = self._first(nodes, needs, doubtful, number)
            return None if chosen is None else (chosen, np.ones(number, np.int64))
        if evened:
            return self._evened(np.sort(nodes), needs, search.doubtful(np.sort(nodes), list(needs)), number)
        return self._fill(nodes, needs, doubtful, number)

    def _first(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> Int64 | None:
        """The first `number` nodes that have what is needed."""
        refused: list[int] = []
        for at in np.flatnonzero(doubtful).tolist():
            if at - len(refused) >= number:
                break
            if not self._search.fits_into(int(nodes[at]), needs):
                refused.append(at)
        if refused:
            nodes = np.delete(nodes, refused)
        return nodes[:number] if len(nodes) >= number else None

    def _fill(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> Nodes | None:
        """Fill one node after the other."""
        chosen: list[Int64] = []
        rooms: list[Int64] = []
        left, step = number, 8
        at = 0
        while left > 0 and at < len(nodes):
            part = slice(at, at + step)
            room = self._search.room(nodes[part], needs, doubtful[part])
            reach = np.cumsum(room)
            last = int(reach.searchsorted(left))
            if last < len(room):
                room = room[: last + 1].copy()
                room[last] -= int(reach[last]) - left
                left = 0
            else:
                left -= int(reach[-1])
            chosen.append(nodes[part][: len(room)])
            rooms.append(room)
            at, step = at + step, step * 4
        if left > 0:
            return None
        every, amounts = np.concatenate(chosen), np.concatenate(rooms)
        return every[amounts > 0], amounts[amounts > 0]

    def _in_one_node(self, needs: dict[int, int], number: int) -> Nodes | None:
        """The lowest node with room for everything, the most compact choice there is."""
        if self._search.form.sort == "nodes" and number > 1:
            return None
        together = {kind: units * number for kind, units in needs.items()}
        nodes = ordinals_of(self._search.candidates(together), self._search.level.length)
        found = self._first(nodes, together, self._search.doubtful(nodes, list(together)), 1)
        return None if found is None else (found, np.array([number]))

    def _near(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> Nodes | None:
        room = self._room_for(nodes, needs, doubtful, number)
        positions = self._nearest(nodes, room, number)
        if not positions.size:
            return None
        amounts = room[positions]
        amounts[-1] -= int(amounts.sum()) - number
        return nodes[positions], amounts

    def _room_for(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> Int64:
        """How many instances each node has room for, up to the number wanted."""
        room = self._search.room(nodes, needs, doubtful) if needs else np.full(len(nodes), number)
        return np.minimum(room, 1 if self._search.form.sort == "nodes" else number)

    def _nearest(self, nodes: Int64, room: Int64, number: int) -> Int64:
        vertices = self._search.level.vertices[nodes]
        return nearest.choose(vertices, self._search.floor.typology.structure.parent[vertices], room, number)

    # -- with charges ------------------------------------------------------------------------------------------------

    def _supplied(self, nodes: Int64, needs: dict[int, int], drawing: Drawing, number: int) -> Nodes | None:
        """The first nodes that have what is needed and can be supplied.

        Errors: Entangled if only a search can decide.
        """
        search = self._search
        doubtful = search.doubtful(nodes, list(needs))
        if search.policy.near:
            room = drawing.alone(nodes, self._room_for(nodes, needs, doubtful, number))
            near = self._nearest(nodes, room, number)
            nodes = np.concatenate([nodes[near], np.delete(nodes, near)])
            doubtful = search.doubtful(nodes, list(needs))
        if number <= FEW:
            part = nodes[:FEW]
            room = drawing.few(part, self._room_for(part, needs, doubtful[:FEW], number))
            if int(room.sum()) >= number:
                return _up_to(part, room, number)
        caps = drawing.caps
        chosen: list[Int64] = []
        rooms: list[Int64] = []
        left, at, step = number, 0, max(2 * number, 8)
        while left > 0 and at < len(nodes):
            part = nodes[at : at + step]
            room = drawing.limited(part, self._room_for(part, needs, doubtful[at : at + step], left))
            part, room = _up_to(part, room, left)
            chosen.append(part)
            rooms.append(room)
            left -= int(room.sum())
            if left:
                drawing.spend(part, room)
            at, step = at + step, step * 4
        if left > 0:
            drawing.caps = caps
            drawing.require_never(nodes, self._room_for(nodes, needs, doubtful, number), number)
            return None
        return np.concatenate(chosen), np.concatenate(rooms)

    # -- spreading ---------------------------------------------------------------------------------------------------

    def _evened(self, nodes: Int64, needs: dict[int, int], doubtful: NDArray[np.bool_], number: int) -> Nodes | None:
        """Place each bundle where most room is left.

        The room that a bundle finds in a node is the original room less what the bundles before it took, so the bundles are the
        largest of these numbers.  The room of doubtful nodes is an upper bound; they are inspected when they are among the
        chosen.
        """
        search = self._search
        units = needs[search.plan.measured]
        found = search.scores
        level = -found[nodes] if found is not None else search.floor.units(search.plan.measured)[nodes]
        most = search.room_at_most(nodes, needs)
        while True:
            if int(most.sum()) < number:
                return None
            amounts = _largest(level, most, units, number)
            unsure = np.flatnonzero(doubtful & (amounts > 0))
            if not unsure.size:
                break
            doubtful = doubtful.copy()
            doubtful[unsure] = False
            for at in unsure.tolist():
                most[at] = search.fits_into(int(nodes[at]), needs)
        used = np.flatnonzero(amounts)
        nodes, level, amounts = nodes[used], level[used], amounts[used]
        order = np.argsort(nodes, kind="stable")
        nodes, level, amounts = nodes[order], level[order], amounts[order]
        nth = np.arange(int(amounts.sum())) - np.repeat(np.cumsum(amounts) - amounts, amounts)
        self.turns = np.empty(len(nth), np.int64)
        self.turns[np.lexsort((np.repeat(nodes, amounts), nth * units - np.repeat(level, amounts)))] = np.arange(len(nth))
        return nodes, amounts


def _up_to(nodes: Int64, room: Int64, number: int) -> Nodes:
    """The first `number` in all of what goes to each node."""
    room = np.minimum(room, number - (np.cumsum(room) - room))
    used = room > 0
    return nodes[used], room[used]


def first_node(search: Search, words: Words, needs: dict[int, int]) -> int | None:
    """The first of these nodes in numerical order that has what is needed, checked unit by unit; later ones are not looked at.

    Args:
        needs: units by type number.
    """
    descending = search.policy.descending and not search.policy.near
    for at in words.nonzero()[0][:: -1 if descending else 1].tolist():
        word = words.item(at)
        while word:
            bit = (word if descending else word & -word).bit_length() - 1
            node = at << 6 | bit
            if not search.is_doubtful(node, needs) or search.fits_into(node, needs):
                return int(node)
            word ^= 1 << bit
    return None


def _largest(level: Int64, most: Int64, units: int, number: int) -> Int64:
    """How many of `level`, `level - units`, … (at most `most` of each) are among the `number` largest; ties go to the first.

    >>> _largest(np.array([4, 7, 7]), np.array([9, 9, 9]), 2, 5).tolist()
    [1, 2, 2]
    """
    lowest, highest = int((level - units * most).min()), int(level.max())

    def at_least(bound: int) -> Int64:
        return np.minimum(np.maximum((level - bound) // units + 1, 0), most)

    while lowest < highest:
        middle = (lowest + highest + 1) // 2
        if int(at_least(middle).sum()) >= number:
            lowest = middle
        else:
            highest = middle - 1
    # There are too many at the bound itself, so the last nodes get none of them.
    found, above = at_least(lowest), at_least(lowest + 1)
    at_bound = np.flatnonzero(found > above)
    found[at_bound[number - int(above.sum()) :]] -= 1
    return found
