"""Collect what the vector path takes, array by array, and build the match from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fluxres.graph.accounts import Accounts
from fluxres.match.demand import Plan
from fluxres.match.floor import Floor
from fluxres.match.form import Part
from fluxres.match.policy import Policy
from fluxres.match.result import NO_ROWS, Match, SlotGroup

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
PoolsOf = Callable[[int, int], tuple[Int64, Int64]]
"""Maps node and type number to the ordinals of the pools with free units, and these units."""
_NONE32 = np.zeros(0, np.int32)


class MatchBuilder:
    """The picks of one match."""

    __slots__ = ("_amounts", "_drawn", "_instances", "_numbers", "_shared", "_sizes", "_vertices")

    def __init__(self, accounts: Accounts) -> None:
        self._sizes = accounts.size
        self._vertices: list[Int32] = []
        self._amounts: list[Int64] = []
        self._shared: list[Int32] = []
        self._instances: dict[int, list[tuple[Int64, Int32]]] = {}
        self._numbers: dict[int, int] = {}
        self._drawn = NO_ROWS

    def add(self, vertices: Int32, amounts: Int64) -> None:
        """Add units of pools; a pool that occurs again adds up."""
        self._vertices.append(vertices)
        self._amounts.append(amounts)

    def draw(self, rows: Int64) -> None:
        """Set the (pool, account, units) drawn, each pair of pool and account once."""
        self._drawn = rows[np.lexsort((rows[:, 1], rows[:, 0]))]

    def share(self, vertices: Int32) -> None:
        """Add pools that are only looked at."""
        self._shared.append(vertices)

    def slot(self, slot: int, instances: Int64, vertices: Int32) -> None:
        """Assign pools to instances of a slot (by number of its demand)."""
        self._instances.setdefault(slot, []).append((instances, vertices))

    def empty_slot(self, slot: int, number: int) -> None:
        """Set the number of instances of a slot, for instances without picks."""
        self._numbers[slot] = number

    def match(self, plan: Plan, counts: tuple[int, ...], start: int, end: int, policy: Policy) -> Match:
        vertices, amounts = self._merged()
        return Match(
            vertices,
            amounts,
            amounts == self._sizes[vertices],
            np.sort(np.concatenate(self._shared)) if self._shared else _NONE32,
            tuple(self._group(demand.number, demand.label, vertices) for demand in plan.slots),
            counts,
            start,
            end,
            policy=policy.name,
            drawn=self._drawn,
            is_routed=plan.is_routed,
        )

    def _merged(self) -> tuple[Int32, Int64]:
        if not self._vertices:
            return _NONE32, np.zeros(0, np.int64)
        vertices = self._vertices[0] if len(self._vertices) == 1 else np.concatenate(self._vertices)
        amounts = self._amounts[0] if len(self._amounts) == 1 else np.concatenate(self._amounts)
        if len(vertices) < 2 or (vertices[1:] > vertices[:-1]).all():
            return vertices, amounts
        order = np.argsort(vertices, kind="stable")
        vertices, amounts = vertices[order], amounts[order]
        first = np.flatnonzero(np.concatenate([[True], vertices[1:] != vertices[:-1]]))
        return (vertices, amounts) if len(first) == len(vertices) else (vertices[first], np.add.reduceat(amounts, first))

    def _group(self, slot: int, label: str | None, vertices: Int32) -> SlotGroup:
        found = [part for part in self._instances.get(slot, []) if len(part[1])]
        if not found:
            return SlotGroup(label, np.zeros(self._numbers.get(slot, 0) + 1, np.int64), np.zeros(0, np.int64))
        instances = found[0][0] if len(found) == 1 else np.concatenate([part[0] for part in found])
        pools = found[0][1] if len(found) == 1 else np.concatenate([part[1] for part in found])
        if len(pools) == 1 == self._numbers.get(slot, 1):
            return SlotGroup(label, np.array([0, 1]), vertices.searchsorted(pools))
        width = max(len(vertices), 1)
        codes = np.sort(instances * width + vertices.searchsorted(pools))  # np.unique hashes and takes ten times as long
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])]
        number = max(int(codes[-1]) // width + 1, self._numbers.get(slot, 0))
        return SlotGroup(label, codes.searchsorted(np.arange(number + 1) * width), codes % width)


class Taker:
    """Takes units of the free pools of one node in order."""

    __slots__ = ("_at", "_floor", "_node", "_pools", "_rows")

    def __init__(self, pools: PoolsOf, floor: Floor, rows: MatchBuilder, node: int) -> None:
        self._pools = pools
        self._floor = floor
        self._rows = rows
        self._node = node
        #: By type: the next pool, and how many of its units are taken.
        self._at: dict[int, tuple[int, int]] = {}

    def take(self, part: Part, units: int, instance: int) -> None:
        """Take units for one instance of the part's slot."""
        kind = part.demand.kind
        ordinals, free = self._pools(self._node, kind)
        at, gone = self._at.get(kind, (0, 0))
        table = self._floor.typology.vertices(kind)
        slot = -1 if part.slot is None else part.slot.number
        if self._floor.planner.columns.dtype(kind) is None:
            vertices = table[ordinals[at : at + units]]
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
            vertices = table[ordinals[at : at + 1]]
            self._rows.add(vertices, np.array([step]))
            if slot >= 0:
                self._rows.slot(slot, np.array([instance]), vertices)
            units, gone = units - step, gone + step
            if gone == int(free[at]):
                at, gone = at + 1, 0
        self._at[kind] = at, gone
