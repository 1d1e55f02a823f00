"""What the vector path charges: the units that nodes or bundles draw from their suppliers, as arrays by supplier."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from fluxres.arrays import Int32, Int64
from fluxres.graph.kinds import EXCLUSIVE
from fluxres.match.demand import Counts
from fluxres.match.form import Draw, Load, NeedsTraverser
from fluxres.match.node_table import NodeTable
from fluxres.match.result import MatchBuilder
from fluxres.match.typology import Typology

FEW: Final = 12
"""Number of nodes whose suppliers are looked at before those of all others."""


class Drawing:
    """The suppliers of one request in one window."""

    def __init__(self, node_table: NodeTable, draws: tuple[Draw, ...], counts: Counts, load: Load, start: int, end: int) -> None:
        self._node_table = node_table
        self._draws = draws
        self._counts = counts
        self.supply, self._weights, self._able = load.supply, load.weights, load.is_able
        self._window = start, end

    @cached_property
    def caps(self) -> Int64:
        """The number of instances that each supplier can still supply."""
        return self._caps(np.arange(len(self.supply.pools)))

    def _caps(self, positions: Int64) -> Int64:
        free = self._free(self.supply.pools[positions], *self._window)
        found: Int64 = np.where(self._able[positions], free // np.maximum(self._weights[positions], 1), 0)
        return found

    def _free(self, pools: Int32, start: int, end: int) -> Int64:
        """Units that suppliers have; one less if all of them would be the pool itself, which is not available exclusively."""
        node_table = self._node_table
        accounts, planner = node_table.typology.accounts, node_table.planner
        sizes = accounts.units[pools]
        if not len(pools):
            return sizes
        lo, hi = int(pools[0]), int(pools[-1]) + 1
        if node_table.ideal:
            free = sizes.copy()
        elif hi - lo <= 8 * len(pools) > 32:
            free = planner.free_slice(lo, hi, start, end)[pools - lo]
        else:
            return np.array([self._room(v) for v in pools.tolist()], np.int64)
        free[~node_table.is_up(pools)] = 0
        open_ = (free == sizes) & (sizes > 0)
        for at in np.flatnonzero(open_ & (accounts.end[pools] > pools + 1)).tolist():
            open_[at] = node_table.ideal or not planner.busy_below(int(pools[at]), start, end)
        whole_is_out = (free == sizes) & (~open_ | accounts.ways[pools] | ((accounts.flags[pools] & EXCLUSIVE) > 0))
        left: Int64 = np.maximum(free - whole_is_out, 0)
        return left

    def _room(self, v: int) -> int:
        """As :meth:`_free`, for one supplier."""
        node_table, (start, end) = self._node_table, self._window
        accounts, planner, ideal = node_table.typology.accounts, node_table.planner, node_table.ideal
        size = accounts.units.item(v)
        free = size if ideal else planner.free(v, start, end)
        if not ideal and len(node_table.typology.structure.unavailable_roots()) and accounts.unavailable_above(v) >= 0:
            return 0
        if free < size or not size:
            return free
        shares = accounts.end.item(v) > v + 1 and not ideal and planner.busy_below(v, start, end)
        return size - bool(shares or accounts.ways.item(v) or accounts.flags.item(v) & EXCLUSIVE)

    def of_one(self, node: int) -> list[tuple[int, int]] | None:
        """The ascending (supplier, units) that one node or bundle draws; None if one of the suppliers has too little.

        Errors: NeedsTraverser if that is all of a pool that contains others.
        """
        if not self.supply.supplied.item(node):
            return None
        accounts, found = self._node_table.typology.accounts, []
        for at in self.supply.of(node).tolist():
            v, units = self.supply.pools.item(at), self._weights.item(at)
            if not self._able.item(at) or self._room(v) < units:
                return None
            if units == accounts.size.item(v) and accounts.end.item(v) > v + 1:
                raise NeedsTraverser
            if units:
                found.append((v, units))
        return found

    def limited(self, nodes: Int64, room: Int64) -> Int64:
        """How many instances each node gets, the first nodes first."""
        if self.supply.is_laminar:
            return self.supply.limited(nodes, room, self.caps)
        return self.supply.one_by_one(nodes, room, self.caps)

    def few(self, nodes: Int64, room: Int64) -> Int64:
        """As :meth:`limited`, for a few nodes before any others: looks only at their own suppliers."""
        of, at = self.supply.of_all(nodes)
        own, where = np.unique(at, return_inverse=True)
        left = self._caps(own).tolist()
        suppliers: list[list[int]] = [[] for _ in nodes]
        for node, u in zip(of.tolist(), where.tolist(), strict=True):
            suppliers[node].append(u)
        found = np.where(self.supply.supplied[nodes], room, 0)
        for node, (most, each) in enumerate(zip(found.tolist(), suppliers, strict=True)):
            number = min([most, *(left[u] for u in each)])
            found[node] = number
            for u in each:
                left[u] -= number
        return found

    def alone(self, nodes: Int64, room: Int64) -> Int64:
        """How many instances each node could get if it were the only one."""
        return self.supply.alone(nodes, room, self.caps)

    def spend(self, nodes: Int64, amounts: Int64) -> None:
        """Subtract what these nodes draw."""
        self.caps = self.caps - self.supply.drawn(nodes, amounts)

    def require_never(self, nodes: Int64, room: Int64, number: int) -> None:
        """Ensure that no choice of nodes can be supplied, after the first one could not.

        Errors: NeedsTraverser if only a search can decide.
        """
        if self.supply.is_laminar:
            return
        for family in range(len(self.supply.families)):
            if int(self.supply.limited(nodes, room, self.caps, family).sum()) < number:
                return
        raise NeedsTraverser

    def take(self, rows: MatchBuilder, nodes: Int64, amounts: Int64, *, are_firm: bool) -> None:
        """Add what is drawn to the match.

        Args:
            are_firm: whether something is recorded for each node, or in it.

        Errors: NeedsTraverser if that is all of a pool that contains others.
        """
        accounts = self._node_table.typology.accounts
        of, at = self.supply.of_all(nodes)
        units = np.zeros(len(self.supply.pools), np.int64)
        np.add.at(units, at, amounts[of] * self._weights[at])
        if are_firm:
            if not self._weights.all():
                of, at = of[self._weights[at] > 0], at[self._weights[at] > 0]
            vertices = self._node_table.typology.vertices(self._node_table.typology.node)[nodes]
            rows.draw(np.stack([vertices[of], self.supply.pools[at], amounts[of] * self._weights[at]], axis=1))
        pools = self.supply.pools[units > 0]
        units = units[units > 0]
        if ((units == accounts.size[pools]) & (accounts.end[pools] > pools + 1)).any():
            raise NeedsTraverser
        rows.add(pools, units)

    def slots(self, nodes: Int64, instances: Int64) -> Iterator[tuple[int, Int64, Int32]]:
        """(slot, instances, suppliers) of what is charged within slots.

        Args:
            nodes: one entry per node, or per bundle.
            instances: of the slot around it; slots in a node are numbered consecutively.
        """
        for draw in self._draws:
            if draw.slot is None:
                continue
            of, at = self.supply.of_all(nodes)
            wanted = self.supply.charged[draw.demand.channel][at]
            of, pools = of[wanted], self.supply.pools[at[wanted]]
            if draw.inner:
                repeats = draw.repeats(self._counts)
                every = (of[:, None] * repeats + np.arange(repeats)).reshape(-1)
                yield draw.slot.number, every, np.repeat(pools, repeats)
            else:
                yield draw.slot.number, instances[of], pools


def is_guided(draws: tuple[Draw, ...], typology: Typology) -> bool:
    """Whether windows can be skipped without a search."""
    if not draws:
        return True
    supply = typology.supply(frozenset(draw.demand.channel for draw in draws))
    return supply.is_laminar and supply.is_single and all(not draw.shared_by for draw in draws)
