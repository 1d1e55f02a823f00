"""Which suppliers the nodes of a machine draw from, as columns: what choosing many nodes at once needs of the supply paths."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.graph.accounts import Accounts
from fluxres.match.paths import ALL, Givers, Paths


class NodeSupply:
    """Which pools of some distributed types supply which nodes, as columns.

    Each supplier is a bound: only a limited number of its nodes can draw from it at once.  If of any two suppliers, one supplies
    everything that the other one does, or nothing of it, these bounds are a laminar matroid: repeatedly taking the first node
    that can be supplied gives as many as possible.  So nodes are found by looking at each supplier once, from the smallest group
    to the largest, and no choice is ever undone.

    Args:
        paths: of the machine.
        nodes: of the machine, ascending.
        kinds: types that are distributed, and channels of routes.
        over: further pools; the nodes in each of them form a group as well, though nothing draws from these pools.

    Cost: the supply path of each node, found once.
    """

    def __init__(self, paths: Paths, nodes: Int32, kinds: frozenset[int], over: Sequence[int] = ()) -> None:
        structure = paths.structure
        self._number = len(nodes)
        numbers: dict[Givers, int] = {}
        rows: list[tuple[int, int]] = []
        #: Whether each supplier of a node gives the full amount requested there, and none only a part.
        self.is_whole = True
        lacking = np.zeros(len(nodes), np.bool_)
        charged: dict[int, list[int]] = {}
        for kind in sorted(kinds):
            first = len(rows)
            for at, v in enumerate(nodes.tolist()):
                charges = paths.charged(v, kind)
                lacking[at] |= charges is None
                rows += [(at, numbers.setdefault(givers, len(numbers))) for givers, _ in charges or ()]
                self.is_whole = self.is_whole and all(part is ALL or part == 1 for _, part in charges or ())
            charged[kind] = [number for _, number in rows[first:]]
        #: Whether each supplier is a single pool.
        self.is_single = all(len(givers) == 1 for givers in numbers)
        for u in over:
            lo, hi = nodes.searchsorted(np.array([u, structure.end.item(u)], np.int32)).tolist()
            rows += [(at, numbers.setdefault((-1, u), len(numbers))) for at in range(lo, hi)]
        #: By node ordinal, whether something of each type supplies it.
        self.supplied: Mask = ~lacking
        # The first account of each supplier, ascending.
        firsts = np.array([givers[0] for givers in numbers], np.int32)
        by_pool = np.argsort(firsts, kind="stable")
        place = np.empty(len(firsts), np.int64)
        place[by_pool] = np.arange(len(firsts))
        self.pools = firsts[by_pool]
        self._join(np.array(rows, np.int64).reshape(-1, 2), place)
        self._count(charged, place)
        self._read_units(structure.accounts, list(numbers), by_pool)

    def _join(self, pairs: Int64, place: Int64) -> None:
        """Store which node draws from which supplier: indexes, each pair once, by supplier and by node."""
        codes = np.unique(place[pairs[:, 1]] * max(self._number, 1) + pairs[:, 0])
        self._pool, self._node = np.divmod(codes, max(self._number, 1))

    def _count(self, charged: dict[int, list[int]], place: Int64) -> None:
        """Determine which suppliers are charged for which type, and whether all nodes that draw from them agree in that."""
        every = np.bincount(self._pool, minlength=len(self.pools))
        #: By type, whether each supplier (index in `pools`) is charged for it.
        self.charged: dict[int, Mask] = {}
        for kind, numbers in charged.items():
            drawing = np.bincount(place[numbers], minlength=len(self.pools))
            self.charged[kind] = drawing > 0
            self.is_whole = self.is_whole and bool(((drawing == 0) | (drawing == every)).all())

    def _read_units(self, accounts: Accounts, givers: list[Givers], by_pool: Int64) -> None:
        """Number the units that suppliers are counted in."""
        unit = accounts.unit
        counted = [[unit(v) for v in givers[at]] if givers[at][0] >= 0 else [None] for at in by_pool.tolist()]
        self.is_whole = self.is_whole and all(len(set(units)) == 1 for units in counted)
        self.units = list(dict.fromkeys(units[0] for units in counted))
        #: By supplier, the index of its unit in `units`.
        self.unit_of = np.array([self.units.index(units[0]) for units in counted], np.int64)

    @cached_property
    def families(self) -> list[list[Int64]]:
        """Sets of suppliers whose groups do not overlap partly, each by level from the smallest groups to the largest.

        A level gives the supplier (index in `pools`) of each node, or -1.  There is one family if nothing overlaps partly at all;
        otherwise each is a bound of its own.
        """
        starts = self._pool.searchsorted(np.arange(len(self.pools) + 1))
        deepest: list[Int64] = []
        depth = np.zeros(len(self.pools), np.int64)
        found: list[list[Int64]] = []
        for p in np.argsort(-np.diff(starts), kind="stable").tolist():
            group = self._node[starts[p] : starts[p + 1]]
            at = next((k for k, around in enumerate(deepest) if (around[group] == around[group[0]]).all()), len(found))
            if at == len(found):
                found.append([])
                deepest.append(np.full(self._number, -1, np.int64))
            around = int(deepest[at][group[0]])
            depth[p] = 0 if around < 0 else depth[around] + 1
            deepest[at][group] = p
            if depth[p] == len(found[at]):
                found[at].append(np.full(self._number, -1, np.int64))
            found[at][depth[p]][group] = p
        return [levels[::-1] for levels in found]

    @property
    def is_laminar(self) -> bool:
        """Whether taking the first nodes that can be supplied leaves the most to others."""
        return self.is_whole and len(self.families) <= 1

    def of(self, node: int) -> Int64:
        """The suppliers of a node, as indexes."""
        return self._by_node[self._node_starts[node] : self._node_starts[node + 1]]

    @cached_property
    def _by_node(self) -> Int64:
        return self._pool[np.argsort(self._node, kind="stable")]

    @cached_property
    def _node_starts(self) -> Int64:
        return np.sort(self._node).searchsorted(np.arange(self._number + 1))

    def limited(self, nodes: Int64, room: Int64, caps: Int64, family: int = 0) -> Int64:
        """How many instances in each node one family can supply, of those there is room for, the first nodes first.

        Args:
            nodes: ordinals, in the order of use.
            room: instances that each has room for.
            caps: instances that each supplier can still supply.

        Cost: vector operations over the nodes, once per level.
        """
        room = np.where(self.supplied[nodes], room, 0)
        for level in self.families[family] if self.families else ():
            group = level[nodes]
            order = np.argsort(group, kind="stable")
            groups, sizes = group[order], room[order]
            reach = np.cumsum(sizes)
            first = np.concatenate([[True], groups[1:] != groups[:-1]])
            base = np.repeat((reach - sizes)[first], np.diff(np.flatnonzero(np.concatenate([first, [True]]))))
            left = np.where(groups >= 0, caps[np.maximum(groups, 0)], np.iinfo(np.int64).max // 2)
            room[order] = np.minimum(np.maximum(left - (reach - sizes - base), 0), sizes)
        return room

    def one_by_one(self, nodes: Int64, room: Int64, caps: Int64) -> Int64:
        """As :meth:`limited`, if groups overlap: each node gets what is left; a search may find more.  Cost: a step per node."""
        left = caps.copy()
        found = np.zeros(len(nodes), np.int64)
        for at, (node, most) in enumerate(zip(nodes.tolist(), room.tolist(), strict=True)):
            if most and self.supplied[node]:
                own = self.of(node)
                found[at] = min(most, int(left[own].min()))
                left[own] -= found[at]
        return found

    def drawn(self, nodes: Int64, amounts: Int64) -> Int64:
        """By supplier, the instances drawn from it for `amounts` of them on the nodes."""
        of, pools = self.of_all(nodes)
        # Amounts are numbers of instances, far below 2^53: the weights are exact.
        return np.bincount(pools, amounts[of], minlength=len(self.pools)).astype(np.int64)

    def of_all(self, nodes: Int64) -> tuple[Int64, Int64]:
        """(index in `nodes`, index in `pools`) of every supplier of every node."""
        first, stop = self._node_starts[nodes], self._node_starts[nodes + 1]
        lengths = stop - first
        of = np.repeat(np.arange(len(nodes)), lengths)
        at = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(first, lengths)
        return of, self._by_node[at]

    def alone(self, nodes: Int64, room: Int64, caps: Int64) -> Int64:
        """How many instances each node could get if it were the only one."""
        found = np.where(self.supplied[nodes], room, 0)
        of, pools = self.of_all(nodes)
        np.minimum.at(found, of, caps[pools])
        return found
