"""The vector path: nodes as bits, their contents as numbers, and only the pools that are taken one by one.

A window is folded once over the level of nodes: one row of bits, and one row of numbers for each type that is partly used.  That
leaves the nodes that have enough by count.  If a count could be too optimistic, because different units were busy at different
moments, the units of that node are checked.  `Search` proceeds in this order: it finds the nodes with room, chooses among them in
the order of the policy, and takes the lowest (or highest) units in each.  It chooses what the traverser chooses; `tests/match`
compares them.

Most requests need a single node: a core, a few cores and a gpu, a node.  The only choice is the first suitable node, and what is
taken of it is known in advance except for the pool numbers (`form.Single`), so its match is built directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32, Int64, Mask
from fluxres.match.demand import Counts
from fluxres.match.drawing import FEW, Drawing
from fluxres.match.form import LeafDemand, NeedsTraverser, Quantities, Single
from fluxres.match.plan import settle
from fluxres.match.policy import POLICIES, nearest
from fluxres.match.query import Query
from fluxres.match.result import NO_ROWS, MatchBuilder, Placement, SlotGroup
from fluxres.match.situation import Situation
from fluxres.planner.marks import Bits, bits_of, ordinals_of

Pools = tuple[Int64, Int64]
"""Ordinals of pools of one type, and the free units of each."""
_NONE: Final = np.zeros(0, np.int32)
_NOWHERE: Final = np.zeros(0, np.int64)
_ONES: Final = np.ones(1024, np.int64)
_ONES.flags.writeable = False


class NodeSelection(NamedTuple):
    """The nodes that a search uses.

    Args:
        nodes: ordinals, in the order in which they are used.
        amounts: how much of the request goes to each.
        turns: the number of each bundle, node after node, if they are not numbered consecutively.
    """

    nodes: Int64
    amounts: Int64
    turns: Int64 | None = None


class Search:
    """One query with a form in one window."""

    def __init__(self, query: Query, start: int, end: int) -> None:
        assert query.form is not None
        self.query, self.plan, self.form, self.policy = query, query.plan, query.form, query.policy
        self.node_table = node_table = query.node_table
        self.level = node_table.level
        self.start, self.end = start, end
        node, policy = self.form.node, self.policy
        #: Whether nodes are taken exclusively, by the request or by the policy.
        self.whole = node is not None and (policy.node_exclusive or (node.whole if node.children else not node.shared))
        #: Whether only nodes that no other job touches are suitable.
        self.clear = self.whole or policy.node_exclusive
        self._open = node_table.open(query.eligible, whole=self.clear)
        self._covered = False
        if not node_table.ideal:
            marks = self.level.touched if self.clear else self.level.roof
            #: Nodes in service and eligible that holdings do not rule out.
            self._open &= ~marks.folded(start, end)
            #: Whether a pool between a node and what is requested in it may be held exclusively.
            self._covered = not self.clear and self.level.is_ever_held(query.between)
        self._peaks: dict[int, Int64 | None] = {}
        self._pools: dict[tuple[int, int], Pools] = {}

    def settle(self) -> Placement | None:
        """The match with the largest counts.

        Errors: NeedsTraverser if only a search can decide.
        """
        if self.form.single is not None and self._is_plain(self.form.single):
            return self._of_one_node(self.form.single)
        if not self.plan.loose:
            return self.match(self.plan.lowest)
        return settle(self.plan, self.node_table.typology, self.match)

    def _is_plain(self, single: Single) -> bool:
        """Whether the policy orders nodes by number and takes only what is requested."""
        policy = self.policy
        if policy.node_exclusive and not single.takes_node:
            return False
        if policy.near:
            return not self.form.draws
        return policy.score is None or (not policy.node_exclusive and self.scores is None)

    def _of_one_node(self, single: Single) -> Placement | None:
        """The match of a request for a single node, or None."""
        node = self.first_node(self.candidates(single.needs), single.needs)
        if node is None:
            return None
        vertices, amounts, whole, slots, drawn = (
            self._first_pools(node, single),
            single.amounts,
            single.whole,
            single.slots,
            NO_ROWS,
        )
        if self.form.draws:
            charges = self.drawing(self.plan.lowest).of_one(node)
            if charges is None:  # other nodes may have enough supply
                return self.match(self.plan.lowest)
            rows = np.array(sorted([*((v, 1) for v in vertices.tolist()), *charges]), np.int64)
            vertices, amounts = rows[:, 0].astype(np.int32), rows[:, 1].copy()
            whole = amounts == self.node_table.typology.accounts.size[vertices]
            slots = tuple([SlotGroup(slot.label, np.array([0, len(rows)]), np.arange(len(rows))) for slot in slots])
            top = self.level.vertices.item(node)
            drawn = np.array([(top, *charge) for charge in charges], np.int64).reshape(-1, 3)
        return Placement(
            vertices,
            amounts,
            whole,
            _NONE,
            slots,
            self.plan.lowest,
            self.start,
            self.end,
            policy=self.policy.name,
            drawn=drawn,
            is_routed=self.plan.is_routed,
        )

    def _first_pools(self, node: int, single: Single) -> Int32:
        """Vertices of the pools that a request takes of a node, ascending."""
        if single.takes_node:
            return self.level.vertices[node : node + 1]
        found = [self._first_of(node, part, single.needs[part.demand.kind]) for part in self.form.parts]
        if len(found) == 1 and (len(single.amounts) == 1 or (self.policy.score is None and not self.policy.descending)):
            return found[0]
        return np.sort(np.concatenate(found))

    def _first_of(self, node: int, part: LeafDemand, number: int) -> Int32:
        """Vertices of the first pools for a part in one node, in the order of the policy."""
        kind, policy = part.demand.kind, self.policy
        if policy.score is None and self._are_free(node, part):
            first, stop = self.level.edges(kind)
            at = stop.item(node) - number if policy.descending else first.item(node)
            return part.pools[at : at + number]
        return part.pools[self.pools(node, part)[0][:number]]

    def match(self, counts: Counts) -> Placement | None:
        """The match for fixed counts.

        Errors: NeedsTraverser if only a search can decide.
        """
        amounts = self.form.amounts(counts)
        if self.form.sort == "nodes" and amounts.number > 1 and self._open.bit_count() < amounts.number:
            return None
        drawing = self.drawing(counts) if self.form.draws else None
        chosen = self._choose(amounts, drawing)
        if chosen is None:
            return None
        rows = MatchBuilder(self.node_table.typology.accounts)
        if self.form.sort == "nodes":
            self._take_nodes(rows, counts, amounts, chosen.nodes, drawing)
        else:
            self._take_bundles(rows, counts, amounts, chosen, drawing)
        return rows.match(self.plan, counts, self.start, self.end, self.policy)

    def fits(self, counts: Counts) -> bool:
        """Whether there is a match for these counts.

        Errors: NeedsTraverser if only a search can decide.
        """
        amounts = self.form.amounts(counts)
        if self.form.sort == "nodes" and not self.form.parts and not self.form.draws:
            return self._open.bit_count() >= amounts.number
        return self._choose(amounts, self.drawing(counts) if self.form.draws else None, any_will_do=True) is not None

    def at_most(self, amounts: Quantities) -> int:
        """An upper bound of the nodes, bundles or units that fit, by count."""
        among = self.candidates(amounts.needs)
        if self.form.sort == "nodes":
            return among.bit_count()
        room = self.room_at_most(ordinals_of(among, self.level.length), amounts.needs)
        return limits.COUNT_MAX if room.sum(dtype=np.float64) > limits.COUNT_MAX // 2 else int(room.sum())

    def drawing(self, counts: Counts) -> Drawing:
        """What is charged.

        Errors: NeedsTraverser if only a search can decide.
        """
        load = self.form.load(self.node_table.typology, counts)
        return Drawing(self.node_table, self.form.draws, counts, load, self.start, self.end)

    # -- nodes with room -----------------------------------------------------------------------------------------------

    def peaks(self, kind: int) -> Int64 | None:
        """Units of a type used in each node at the busiest moment; None if none are."""
        if kind not in self._peaks:
            if self.clear or self.node_table.ideal:
                self._peaks[kind] = None
            else:
                self._peaks[kind] = self.level.peaks(kind, self.start, self.end, self._open)
        return self._peaks[kind]

    def candidates(self, needs: dict[int, int]) -> Bits:
        """Nodes with room by count."""
        found = self._open
        for kind, units in needs.items():
            capacity, least = self.node_table.capacity(kind)
            peaks = self.peaks(kind)
            if peaks is not None:
                # Used units may be out of service, so they are not subtracted from those in service.
                found &= bits_of(self.node_table.units(kind) - peaks >= units)
            if units > least:
                found &= bits_of(capacity >= units)
        return found

    @cached_property
    def _unsure(self) -> Mask | None:
        """By node, whether a count may be too optimistic; None if no count is."""
        if self._covered:
            return np.ones(self.level.length, np.bool_)
        found: Mask | None = None
        for peaks in map(self.peaks, self.form.kinds):
            if peaks is not None:
                found = peaks > 0 if found is None else found | (peaks > 0)
        return found

    def doubtful(self, nodes: Int64) -> Int64:
        """Positions of the nodes for which a count may be too optimistic."""
        return _NOWHERE if self._unsure is None else self._unsure[nodes].nonzero()[0]

    def ordered(self, among: Bits) -> Int64:
        """Nodes in the order of the policy."""
        nodes = ordinals_of(among, self.level.length)
        policy = self.policy
        if policy.score is None:
            return nodes[::-1] if policy.descending else nodes
        every = self.scores
        if every is None:
            return nodes
        scores = every[nodes]
        if len(nodes) < 2 or (scores[0] == scores).all():
            return nodes
        return nodes[np.argsort(scores, kind="stable")]

    @cached_property
    def scores(self) -> NDArray[Any] | None:
        """Scores of all nodes; None if all are equal."""
        policy, kind = self.policy, self.plan.measured
        if policy.score is POLICIES["variation"].score:
            return self.node_table.classes(lambda: self._situation)
        if not policy.by_node:
            return policy.scores(self._situation, self.level.vertices)
        if kind < 0:
            return None
        peaks = None if self.node_table.ideal else self.level.peaks(kind, self.start, self.end)
        if peaks is None:
            room = self.node_table.units(kind)
            if self.node_table.is_even(kind):
                return None
        else:
            room = self.node_table.units(kind) - peaks
        return room if policy.score is POLICIES["pack"].score else -room

    @cached_property
    def _situation(self) -> Situation:
        return self.query.situation(self.start, self.end)

    def fits_into(self, node: int, needs: dict[int, int]) -> int:
        """How many times what is needed is free in one node, counted unit by unit."""
        most = limits.COUNT_MAX
        for kind, units in needs.items():
            part = self.form.part_of[kind]
            ordinals, free = self.pools(node, part)
            most = min(most, (len(ordinals) if part.is_single else int(free.sum())) // units)
        return most

    def room_at_most(self, nodes: Int64, needs: dict[int, int]) -> Int64:
        """How many times what is needed fits into each node by count, which may be too optimistic."""
        room = np.full(len(nodes), np.iinfo(np.int64).max)
        for kind, units in needs.items():
            capacity, peaks = self.node_table.capacity(kind)[0], self.peaks(kind)
            if peaks is not None:
                # Used units may be out of service, so they are not subtracted from those in service.
                capacity = np.minimum(capacity, self.node_table.units(kind) - peaks)
            room = np.minimum(room, capacity[nodes] // units)
        return room

    def room(self, nodes: Int64, needs: dict[int, int]) -> Int64:
        """How many times what is needed fits into each node; doubtful nodes are inspected."""
        most = np.iinfo(np.int64).max
        room = np.full(len(nodes), most)
        for kind, units in needs.items():
            room = np.minimum(room, self.node_table.capacity(kind)[0][nodes] // min(units, most))
        for at in self.doubtful(nodes).tolist():
            room[at] = self.fits_into(int(nodes[at]), needs)
        return room

    def is_doubtful(self, node: int, kinds: Iterable[int]) -> bool:
        """Whether a count may be too optimistic for one node."""
        for kind in kinds:
            peaks = self.peaks(kind)
            if peaks is not None and peaks[node]:
                return True
        return self._covered

    def first_node(self, among: Bits, needs: dict[int, int]) -> int | None:
        """The first of these nodes in numerical order that has what is needed, checked unit by unit.

        Later nodes are not looked at.

        Args:
            needs: units by type number.
        """
        descending = self.policy.descending and not self.policy.near
        while among:
            node = (among if descending else among & -among).bit_length() - 1
            if not self.is_doubtful(node, needs) or self.fits_into(node, needs):
                return node
            among ^= 1 << node
        return None

    # -- the choice of nodes -------------------------------------------------------------------------------------------

    def _choose(self, amounts: Quantities, drawing: Drawing | None, *, any_will_do: bool = False) -> NodeSelection | None:
        """The nodes to use; None if there are too few.

        Args:
            amounts: what the form asks for.
            drawing: what is charged; None for nothing.
            any_will_do: only test whether there are enough; the order of the policy may be ignored.

        Errors: NeedsTraverser if only a search can decide.
        """
        form, number, needs = self.form, amounts.number, amounts.needs
        one_each = form.sort == "nodes"
        among = self.candidates(needs)
        if not among:
            return None
        evened = self.policy.evened and form.sort == "bundles" and number > 1 and not any_will_do
        if drawing is not None:
            if evened:
                raise NeedsTraverser
            if number == 1 and not self.policy.near and (self.policy.score is None or self.scores is None):
                node = self.first_node(among, needs)
                if node is None:
                    return None
                first = NodeSelection(np.array([node]), np.ones(1, np.int64))
                if drawing.few(first.nodes, first.amounts)[0]:
                    return first
            return self._supplied(self.ordered(among), needs, drawing, number)
        near = self.policy.near and form.sort != "units"
        if number == 1 and (near or self.policy.score is None or self.scores is None):
            node = self.first_node(among, needs)
            return None if node is None else NodeSelection(np.array([node]), np.ones(1, np.int64))
        nodes = self.ordered(among)
        if one_each and len(nodes) < number:
            return None
        if near:
            return self._in_one_node(needs, number) or self._nearby(nodes, needs, number)
        if one_each:
            chosen = self._first(nodes, needs, number)
            return None if chosen is None else NodeSelection(chosen, np.ones(number, np.int64))
        if evened:
            return self._evened(np.sort(nodes), needs, number)
        return self._fill(nodes, needs, number)

    def _first(self, nodes: Int64, needs: dict[int, int], number: int) -> Int64 | None:
        """The first `number` nodes that have what is needed."""
        refused: list[int] = []
        for at in self.doubtful(nodes).tolist():
            if at - len(refused) >= number:
                break
            if not self.fits_into(int(nodes[at]), needs):
                refused.append(at)
        if refused:
            nodes = np.delete(nodes, refused)
        return nodes[:number] if len(nodes) >= number else None

    def _fill(self, nodes: Int64, needs: dict[int, int], number: int) -> NodeSelection | None:
        """Fill one node after the other."""
        chosen: list[Int64] = []
        rooms: list[Int64] = []
        left, step = number, 8
        at = 0
        while left > 0 and at < len(nodes):
            part = slice(at, at + step)
            room = self.room(nodes[part], needs)
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
        return NodeSelection(every[amounts > 0], amounts[amounts > 0])

    def _in_one_node(self, needs: dict[int, int], number: int) -> NodeSelection | None:
        """The lowest node with room for everything, the most compact choice there is."""
        if self.form.sort == "nodes" and number > 1:
            return None
        together = {kind: units * number for kind, units in needs.items()}
        nodes = ordinals_of(self.candidates(together), self.level.length)
        found = self._first(nodes, together, 1)
        return None if found is None else NodeSelection(found, np.array([number]))

    def _nearby(self, nodes: Int64, needs: dict[int, int], number: int) -> NodeSelection | None:
        room = self._room_for(nodes, needs, number)
        positions = self._nearest(nodes, room, number)
        if not positions.size:
            return None
        amounts = room[positions]
        amounts[-1] -= int(amounts.sum()) - number
        return NodeSelection(nodes[positions], amounts)

    def _room_for(self, nodes: Int64, needs: dict[int, int], number: int) -> Int64:
        """How many instances each node has room for, up to the number wanted."""
        room = self.room(nodes, needs) if needs else np.full(len(nodes), number)
        return np.minimum(room, 1 if self.form.sort == "nodes" else number)

    def _nearest(self, nodes: Int64, room: Int64, number: int) -> Int64:
        vertices = self.level.vertices[nodes]
        return nearest(vertices, self.node_table.typology.structure.parent[vertices], room, number)

    def _supplied(self, nodes: Int64, needs: dict[int, int], drawing: Drawing, number: int) -> NodeSelection | None:
        """The first nodes that have what is needed and can be supplied.

        Errors: NeedsTraverser if only a search can decide.
        """
        if self.policy.near:
            room = drawing.alone(nodes, self._room_for(nodes, needs, number))
            near = self._nearest(nodes, room, number)
            nodes = np.concatenate([nodes[near], np.delete(nodes, near)])
        if number <= FEW:
            part = nodes[:FEW]
            room = drawing.few(part, self._room_for(part, needs, number))
            if int(room.sum()) >= number:
                return _up_to(part, room, number)
        caps = drawing.caps
        chosen: list[Int64] = []
        rooms: list[Int64] = []
        left, at, step = number, 0, max(2 * number, 8)
        while left > 0 and at < len(nodes):
            part = nodes[at : at + step]
            room = drawing.limited(part, self._room_for(part, needs, left))
            part, room, _ = _up_to(part, room, left)
            chosen.append(part)
            rooms.append(room)
            left -= int(room.sum())
            if left:
                drawing.spend(part, room)
            at, step = at + step, step * 4
        if left > 0:
            drawing.caps = caps
            drawing.require_never(nodes, self._room_for(nodes, needs, number), number)
            return None
        return NodeSelection(np.concatenate(chosen), np.concatenate(rooms))

    def _evened(self, nodes: Int64, needs: dict[int, int], number: int) -> NodeSelection | None:
        """Place each bundle where most room is left.

        The room that a bundle finds in a node is the original room less what the bundles before it took, so the bundles are the
        largest of these numbers.  The room of doubtful nodes is an upper bound; they are inspected when they are among the
        chosen.
        """
        units = needs[self.plan.measured]
        found = self.scores
        level = -found[nodes] if found is not None else self.node_table.units(self.plan.measured)[nodes]
        most = self.room_at_most(nodes, needs)
        doubtful = np.zeros(len(nodes), np.bool_)
        doubtful[self.doubtful(nodes)] = True
        while True:
            if int(most.sum()) < number:
                return None
            amounts = _largest(level, most, units, number)
            unsure = np.flatnonzero(doubtful & (amounts > 0))
            if not unsure.size:
                break
            doubtful[unsure] = False
            for at in unsure.tolist():
                most[at] = self.fits_into(int(nodes[at]), needs)
        used = np.flatnonzero(amounts)
        nodes, level, amounts = nodes[used], level[used], amounts[used]
        order = np.argsort(nodes, kind="stable")
        nodes, level, amounts = nodes[order], level[order], amounts[order]
        nth = np.arange(int(amounts.sum())) - np.repeat(np.cumsum(amounts) - amounts, amounts)
        turns = np.empty(len(nth), np.int64)
        turns[np.lexsort((np.repeat(nodes, amounts), nth * units - np.repeat(level, amounts)))] = np.arange(len(nth))
        return NodeSelection(nodes, amounts, turns)

    # -- pools of one node ---------------------------------------------------------------------------------------------

    def pools(self, node: int, part: LeafDemand) -> Pools:
        """Pools for a part in one node with units free through the window, in the order of the policy."""
        kind = part.demand.kind
        found = self._pools.get((node, kind))
        if found is None:
            first, stop = self.level.edges(kind)
            found = self._free_pools(node, part, first.item(node), stop.item(node))
            order = self._inner_order(part, found[0])
            found = self._pools[node, kind] = found if order is None else (found[0][order], found[1][order])
        return found

    def _free_pools(self, node: int, part: LeafDemand, first: int, stop: int) -> Pools:
        """Pools for a part in one node, which are the ordinals [first, stop), with free units, ascending."""
        kind, planner, level = part.demand.kind, self.node_table.planner, self.level
        up, is_idle = self.node_table.up_pools(kind), not self.is_doubtful(node, (kind,))
        if part.is_single and up is None and not self._covered:
            ordinals = np.arange(first, stop) if is_idle else planner.free_ordinals(kind, first, stop, self.start, self.end)
            free = len(ordinals)
            return ordinals, _ONES[:free] if free <= len(_ONES) else np.ones(free, np.int64)
        if self._covered:
            v = level.vertices.item(node)
            units = planner.free_slice(v, level.ends.item(node), self.start, self.end)[part.pools[first:stop] - v]
        else:
            units = self.node_table.typology.structure.size[part.pools[first:stop]]
            held = None if is_idle else planner.held_ordinals(kind, first, stop, self.start, self.end)
            if held is not None:
                units[held[0] - first] -= held[1].astype(np.int64)
        if up is not None:
            units = np.where(up[first:stop], units, 0)
        ordinals = units.nonzero()[0]
        return ordinals + first, units[ordinals]

    def _are_free(self, node: int, part: LeafDemand) -> bool:
        """Whether all pools for a part in one node are known to be free, each with one unit."""
        kind = part.demand.kind
        return part.is_single and not self.is_doubtful(node, (kind,)) and self.node_table.up_pools(kind) is None

    def _inner_order(self, part: LeafDemand, ordinals: Int64) -> Int64 | slice | None:
        policy, is_varied = self.policy, self.node_table.is_varied
        if policy.score is None:
            return slice(None, None, -1) if policy.descending else None
        if policy.by_node or (policy.score is POLICIES["variation"].score and not is_varied(part.demand.kind)):
            return None
        return np.argsort(policy.scores(self._situation, part.pools[ordinals]), kind="stable")

    # -- what is taken -------------------------------------------------------------------------------------------------

    def _take_nodes(self, rows: MatchBuilder, counts: Counts, amounts: Quantities, nodes: Int64, drawing: Drawing | None) -> None:
        """Take nodes exclusively, or parts of nodes that the request counts."""
        form, number = self.form, len(nodes)
        vertices = self.level.vertices[nodes]
        assert form.node is not None  # this form has one
        outer = np.arange(number) // counts[form.node.number]
        if drawing is not None:
            self._draw(rows, counts, drawing, NodeSelection(nodes, np.ones(number, np.int64)), outer)
        if self.whole:
            rows.add(vertices, np.ones(number, np.int64))
            if form.outer is not None:
                rows.slot(form.outer.number, outer, vertices)
            for slot in {part.slot.number: part.slot for part in form.parts if part.slot not in (None, form.outer)}.values():
                repeats = counts[slot.number]
                rows.slot(slot.number, np.arange(number * repeats), np.repeat(vertices, repeats))
            return
        if not form.node.children:
            rows.share(vertices)
            if form.outer is not None:
                rows.empty_slot(form.outer.number, counts[form.outer.number])
            return
        if form.outer is not None:
            rows.empty_slot(form.outer.number, counts[form.outer.number])
        if self._are_even(nodes).all():
            self._take_evenly(rows, amounts, nodes, outer)
            return
        for at, node in enumerate(nodes.tolist()):
            taker = Taker(self, rows, node)
            for group in form.groups:
                for again in range(amounts.repeats[group[0]]):
                    for number in group:
                        part, times = form.parts[number], amounts.repeats[number]
                        instance = int(outer[at]) if part.slot is form.outer else at * times + again
                        taker.take(part, amounts.units[number], instance)
        for part, times in zip(form.parts, amounts.repeats, strict=True):
            if part.slot is not None and part.slot is not form.outer:
                rows.empty_slot(part.slot.number, len(nodes) * times)

    def _take_evenly(self, rows: MatchBuilder, amounts: Quantities, nodes: Int64, outer: Int64) -> None:
        """Take the same lowest (or highest) pools of each node at once, where every node has all of them free."""
        form = self.form
        for part, units, times in zip(form.parts, amounts.units, amounts.repeats, strict=True):
            vertices = self._even_pools(nodes, part, times * units).reshape(-1)
            if part.shares:
                rows.share(vertices)
            else:
                rows.add(vertices, np.ones(len(vertices), np.int64))
            if part.slot is None:
                continue
            instances = np.repeat(outer, units) if part.slot is form.outer else np.arange(len(vertices)) // units
            if part.shares:
                rows.empty_slot(part.slot.number, int(instances[-1]) + 1)
            else:
                rows.slot(part.slot.number, instances, vertices)

    def _are_even(self, nodes: Int64) -> Mask:
        """In which nodes the pools that come first are simply the lowest (or highest) ones."""
        policy, node_table, parts = self.policy, self.node_table, self.form.parts
        by_number = policy.score is None or policy.by_node
        by_class = policy.score is POLICIES["variation"].score and not any(map(node_table.is_varied, self.form.kinds))
        is_plain = len(self.form.kinds) == len(parts) and (by_number or by_class)
        for part in parts:
            is_plain = is_plain and part.is_single and node_table.up_pools(part.demand.kind) is None
        found = np.full(len(nodes), is_plain)
        found[self.doubtful(nodes)] = False
        return found

    def _even_pools(self, nodes: Int64, part: LeafDemand, number: int) -> Int32:
        """The first `number` pools of each node, one row per node."""
        first, stop = self.level.edges(part.demand.kind)
        steps = np.arange(number)
        at = (stop[nodes] - 1)[:, None] - steps if self.policy.descending else first[nodes][:, None] + steps
        pools: Int32 = part.pools[at]
        return pools

    def _take_bundles(
        self, rows: MatchBuilder, counts: Counts, asked: Quantities, chosen: NodeSelection, drawing: Drawing | None
    ) -> None:
        """Take bundles, or units."""
        form, (nodes, amounts, turns) = self.form, chosen
        if drawing is not None and form.sort == "bundles":
            self._draw(rows, counts, drawing, chosen, np.arange(int(amounts.sum())))
        if self.policy.node_exclusive:
            vertices = self.level.vertices[nodes]
            rows.add(vertices, np.ones(len(nodes), np.int64))
            if form.outer is not None:
                rows.slot(form.outer.number, np.arange(int(amounts.sum())), np.repeat(vertices, amounts))
            return
        first = np.cumsum(amounts) - amounts
        even = self._are_even(nodes)
        self._take_even_bundles(rows, asked, NodeSelection(nodes[even], amounts[even], turns), first[even])
        for node, amount, instance in zip(nodes[~even].tolist(), amounts[~even].tolist(), first[~even].tolist(), strict=True):
            taker = Taker(self, rows, node)
            if form.sort == "units":
                taker.take(form.parts[0], amount, 0)
                continue
            for number in range(instance, instance + amount):
                for part, units in zip(form.parts, asked.units, strict=True):
                    taker.take(part, units, number if turns is None else int(turns[number]))
        if form.outer is not None:
            rows.empty_slot(form.outer.number, int(amounts.sum()))

    def _take_even_bundles(self, rows: MatchBuilder, asked: Quantities, chosen: NodeSelection, first: Int64) -> None:
        """Take a number of bundles in each of these nodes, all of whose lowest (or highest) pools are free.

        Args:
            first: the number of the first bundle in each node.
        """
        form, (nodes, amounts, turns) = self.form, chosen
        if not len(nodes):
            return
        for part, each in zip(form.parts, asked.units, strict=True):
            units = 1 if form.sort == "units" else each
            lower, upper = self.level.edges(part.demand.kind)
            lengths = amounts * units
            at = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            down = self.policy.descending
            ordinals = np.repeat(upper[nodes] - 1, lengths) - at if down else np.repeat(lower[nodes], lengths) + at
            vertices = part.pools[ordinals]
            if part.shares:
                rows.share(vertices)
                continue
            rows.add(vertices, np.ones(len(vertices), np.int64))
            if part.slot is not None:
                instances = np.repeat(first, lengths) + at // units
                rows.slot(part.slot.number, instances if turns is None else turns[instances], vertices)

    def _draw(self, rows: MatchBuilder, counts: Counts, drawing: Drawing, chosen: NodeSelection, instances: Int64) -> None:
        """Charge the nodes; `instances` of the slot around each node, or bundles one after the other."""
        form, (nodes, amounts, _) = self.form, chosen
        are_firm = self.whole or self.policy.node_exclusive or any(not part.shares for part in form.parts)
        drawing.take(rows, nodes, amounts, are_firm=are_firm)
        for slot, numbers, pools in drawing.slots(np.repeat(nodes, amounts), instances):
            rows.slot(slot, numbers, pools)
        for draw in form.draws:
            if draw.slot is not None:  # the slot exists even if nothing is charged in it
                every = int(amounts.sum()) * draw.repeats(counts) if draw.inner else int(instances[-1]) + 1
                rows.empty_slot(draw.slot.number, every)


def _up_to(nodes: Int64, room: Int64, number: int) -> NodeSelection:
    """Cut the numbers for the nodes off at `number` in total."""
    room = np.minimum(room, number - (np.cumsum(room) - room))
    used = room > 0
    return NodeSelection(nodes[used], room[used])


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


class Taker:
    """Takes units of the free pools of one node in order."""

    __slots__ = ("_at", "_node", "_rows", "_search")

    def __init__(self, search: Search, rows: MatchBuilder, node: int) -> None:
        self._search = search
        self._rows = rows
        self._node = node
        #: By type: the next pool, and how many of its units are taken.
        self._at: dict[int, tuple[int, int]] = {}

    def take(self, part: LeafDemand, units: int, instance: int) -> None:
        """Take units for one instance of the part's slot."""
        kind = part.demand.kind
        ordinals, free = self._search.pools(self._node, part)
        at, gone = self._at.get(kind, (0, 0))
        slot = -1 if part.slot is None else part.slot.number
        if part.is_single:
            vertices = part.pools[ordinals[at : at + units]]
            if part.shares:
                self._rows.share(vertices)
            else:
                self._rows.add(vertices, np.ones(units, np.int64))
                if slot >= 0:
                    self._rows.slot(slot, np.full(units, instance), vertices)
            self._at[kind] = at + units, 0
            return
        while units > 0:
            step = min(units, int(free[at]) - gone)
            vertices = part.pools[ordinals[at : at + 1]]
            self._rows.add(vertices, np.array([step]))
            if slot >= 0:
                self._rows.slot(slot, np.array([instance]), vertices)
            units, gone = units - step, gone + step
            if gone == int(free[at]):
                at, gone = at + 1, 0
        self._at[kind] = at, gone
