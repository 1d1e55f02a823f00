"""What a search finds: an immutable value that the single writer may commit (rule A5 determines what it lists)."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from fluxres.arrays import Int32, Int64, Mask
from fluxres.documents.document import plural
from fluxres.errors import UsageError
from fluxres.graph.accounts import Accounts
from fluxres.match.demand import Counts, Plan
from fluxres.match.policy import Policy
from fluxres.syntax.moment import in_words

NO_ROWS: Final[Int64] = np.zeros((0, 3), np.int64)
"""No draws."""
_NO_POOLS: Final[Int32] = np.zeros(0, np.int32)
_NO_INSTANCES: Final[Int64] = np.zeros(0, np.int64)


class SlotGroup(msgspec.Struct, frozen=True, eq=False):
    """The instances of one slot of the request.

    Args:
        label: the slot's label, or None.
        starts: int64[instances + 1]; instance i has `picks[starts[i]:starts[i + 1]]`.
        picks: indexes into the arrays of the match; a pool taken exclusively for several slots is in each of them.
    """

    label: str | None
    starts: Int64
    picks: Int64

    def __len__(self) -> int:
        return len(self.starts) - 1


class Picked(NamedTuple):
    """What one item of a request gets.

    Args:
        slot: number of the slot that the item belongs to, from 0.
        vertex: the pool.
        units: 0 for an item that names a pool and takes nothing of it.
    """

    slot: int
    vertex: int
    units: int


class Placement(msgspec.Struct, frozen=True, eq=False):
    """Pools that satisfy a request over a window.

    Args:
        vertices: int32, ascending, each once: the pools to record.  Pools below an exclusively taken one are not listed.
        amounts: int64, units of each.
        implied: (vertex, units) of what was charged below an exclusively taken pool: not recorded now, but once that pool is
            freed.
        drawn: int64[k, 3], ascending: (pool, account, units) charged on behalf of taken pools; 0 units mean that the account is
            taken exclusively for this pool too.
        whole: bool, all units of the pool, and so everything below it.
        shared: int32, ascending: pools requested without exclusivity that have no unit to give; they are available in the window
            and nothing is recorded for them.
        slots: one group for each slot of the request, in the order written.
        counts: the number chosen for each resource vertex of the request, in the order written.
        start, end: window in ticks.
        policy: its name.
        fallback: whether the reference traverser had to answer.
        is_routed: whether some of it is charged along routes, to a named pool or between nodes.
        picked: by item of a request that a `Chooser` answered, in their order.
        variant: which alternative of such a request was chosen; then the order of the items is recorded, too. None for others.
    """

    vertices: Int32
    amounts: Int64
    whole: Mask
    shared: Int32
    slots: tuple[SlotGroup, ...]
    counts: Counts
    start: int
    end: int
    policy: str = "first"
    fallback: bool = False
    implied: tuple[tuple[int, int], ...] = ()
    drawn: Int64 = msgspec.field(default_factory=lambda: NO_ROWS)
    is_routed: bool = False
    picked: tuple[Picked, ...] = ()
    variant: int | None = None

    def __len__(self) -> int:
        return len(self.vertices)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._counted()}, {in_words(self.start, self.end)}, policy {self.policy}>"

    def _counted(self) -> str:
        return plural(len(self), "pool")

    @property
    def pools(self) -> tuple[object, ...]:
        """The handles of the pools, which only a match of a graph has (:class:`fluxres.model.matching.Match`).

        Errors: UsageError.
        """
        raise UsageError("this match was not found by a graph", hint="ResourceGraph.match finds one with pools")

    @property
    def order(self) -> tuple[int, ...]:
        """The pools in the order in which they were chosen, if that is recorded."""
        return () if self.variant is None else tuple([v for _, v, _ in self.picked])

    @property
    def targets(self) -> list[tuple[int, int]]:
        """(vertex, amount) of every record and of what they imply, in the form that the writer takes."""
        records = zip(self.vertices.tolist(), self.amounts.tolist(), strict=True)
        if self.variant is not None:
            units = dict(records)
            return [*((v, units.pop(v)) for v in self.order), *units.items()]
        return sorted([*records, *self.implied]) if self.implied else list(records)

    @property
    def found(self) -> tuple[Int32, Int64, tuple[tuple[int, int], ...]]:
        """Vertices, amounts and what they imply, for a writer that need not check them again."""
        return self.vertices, self.amounts, self.implied

    @property
    def nslots(self) -> int:
        """The number of instances of all slots together."""
        return sum(map(len, self.slots))

    def is_equal(self, other: Placement) -> bool:
        """Whether both take the same units of the same pools for the same slots over the same window."""
        return (
            (self.start, self.end, self.counts) == (other.start, other.end, other.counts)
            and np.array_equal(self.vertices, other.vertices)
            and np.array_equal(self.amounts, other.amounts)
            and np.array_equal(self.whole, other.whole)
            and np.array_equal(self.shared, other.shared)
            and self.implied == other.implied
            and np.array_equal(self.drawn, other.drawn)
            and (self.picked, self.variant) == (other.picked, other.variant)
            and len(self.slots) == len(other.slots)
            and all(
                a.label == b.label and np.array_equal(a.starts, b.starts) and np.array_equal(a.picks, b.picks)
                for a, b in zip(self.slots, other.slots, strict=True)
            )
        )


class MatchBuilder:
    """Collects what the vector path takes, array by array, and builds the match from it."""

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

    def match(self, plan: Plan, counts: Counts, start: int, end: int, policy: Policy) -> Placement:
        vertices, amounts = self._merged()
        return Placement(
            vertices,
            amounts,
            amounts == self._sizes[vertices],
            np.sort(np.concatenate(self._shared)) if self._shared else _NO_POOLS,
            tuple([self._group(demand.number, demand.label, vertices) for demand in plan.slots]),
            counts,
            start,
            end,
            policy=policy.name,
            drawn=self._drawn,
            is_routed=plan.is_routed,
        )

    def _merged(self) -> tuple[Int32, Int64]:
        if not self._vertices:
            return _NO_POOLS, _NO_INSTANCES
        vertices, amounts = np.concatenate(self._vertices), np.concatenate(self._amounts)
        if len(vertices) < 2 or (vertices[1:] > vertices[:-1]).all():
            return vertices, amounts
        order = np.argsort(vertices, kind="stable")
        vertices, amounts = vertices[order], amounts[order]
        first = np.flatnonzero(np.concatenate([[True], vertices[1:] != vertices[:-1]]))
        return (vertices, amounts) if len(first) == len(vertices) else (vertices[first], np.add.reduceat(amounts, first))

    def _group(self, slot: int, label: str | None, vertices: Int32) -> SlotGroup:
        instances, pools = _NO_INSTANCES, _NO_POOLS
        if slot in self._instances:
            of, held = zip(*self._instances[slot], strict=True)
            instances, pools = np.concatenate(of), np.concatenate(held)
        if not len(pools):
            return SlotGroup(label, np.zeros(self._numbers.get(slot, 0) + 1, np.int64), _NO_INSTANCES)
        if len(pools) == 1 == self._numbers.get(slot, 1):
            return SlotGroup(label, np.array([0, 1]), vertices.searchsorted(pools))
        if len(pools) == len(vertices) and np.array_equal(pools, vertices) and (instances[1:] >= instances[:-1]).all():
            sizes = np.bincount(instances, minlength=self._numbers.get(slot, 0))  # each pool once, slot after slot
            return SlotGroup(label, np.concatenate([[0], np.cumsum(sizes)]), np.arange(len(vertices)))
        width = max(len(vertices), 1)
        codes = np.sort(instances * width + vertices.searchsorted(pools))  # np.unique hashes and takes ten times as long
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])]
        number = max(int(codes[-1]) // width + 1, self._numbers.get(slot, 0))
        return SlotGroup(label, codes.searchsorted(np.arange(number + 1) * width), codes % width)
