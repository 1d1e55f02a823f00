"""A match: an immutable value, made only by reading, that the single writer may commit (rule A5 determines what it lists)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.model.pool import Pool

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
NO_ROWS: Final[Int64] = np.zeros((0, 3), np.int64)
"""No draws."""


class Queried(Protocol):
    """A graph on which matches are found."""

    generation: int
    revision: int

    def __len__(self) -> int: ...
    def handles(self, vertices: Int32, generation: int) -> tuple[Pool, ...]: ...


@dataclass(frozen=True, slots=True, eq=False)
class SlotGroup:
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


@dataclass(frozen=True, slots=True, eq=False)
class Match:
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
        graph, generation, revision: where this was found: the graph, and its state; None if it was not requested from a graph.
        pool_count: number of pools of that graph; numbers from there on are edges.
        policy: its name.
        fallback: whether the reference traverser had to answer.
        is_routed: whether some of it is charged along routes, to a named pool or between nodes.
    """

    vertices: Int32
    amounts: Int64
    whole: NDArray[np.bool_]
    shared: Int32
    slots: tuple[SlotGroup, ...]
    counts: tuple[int, ...]
    start: int
    end: int
    graph: Queried | None = field(default=None, repr=False)
    generation: int = 0
    revision: int = 0
    pool_count: int = 0
    policy: str = "first"
    fallback: bool = False
    implied: tuple[tuple[int, int], ...] = ()
    drawn: Int64 = field(default_factory=lambda: NO_ROWS)
    is_routed: bool = False

    def __len__(self) -> int:
        return len(self.vertices)

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools to record, in vertex order, as handles of the graph that was queried."""
        if self.graph is None:
            raise UsageError("this match was not found by a graph", hint="ResourceGraph.match finds one with pools")
        return self.graph.handles(self.vertices[self.vertices < self.pool_count], self.generation)

    @property
    def targets(self) -> list[tuple[int, int]]:
        """(vertex, amount) of every record and of what they imply, in the form that the writer takes."""
        records = zip(self.vertices.tolist(), self.amounts.tolist(), strict=True)
        return sorted([*records, *self.implied]) if self.implied else list(records)

    @property
    def found(self) -> tuple[Int32, Int64, tuple[tuple[int, int], ...]]:
        """Vertices, amounts and what they imply, for a writer that need not check them again."""
        return self.vertices, self.amounts, self.implied

    @property
    def nslots(self) -> int:
        """The number of instances of all slots together."""
        return sum(map(len, self.slots))

    def stamped(self, graph: Queried) -> Self:
        """The same match, marked as found on the present state of this graph."""
        return replace(self, graph=graph, generation=graph.generation, revision=graph.revision, pool_count=len(graph))

    def is_equal(self, other: Match) -> bool:
        """Whether both take the same units of the same pools for the same slots over the same window."""
        return (
            (self.start, self.end, self.counts) == (other.start, other.end, other.counts)
            and np.array_equal(self.vertices, other.vertices)
            and np.array_equal(self.amounts, other.amounts)
            and np.array_equal(self.whole, other.whole)
            and np.array_equal(self.shared, other.shared)
            and self.implied == other.implied
            and np.array_equal(self.drawn, other.drawn)
            and len(self.slots) == len(other.slots)
            and all(
                a.label == b.label and np.array_equal(a.starts, b.starts) and np.array_equal(a.picks, b.picks)
                for a, b in zip(self.slots, other.slots, strict=True)
            )
        )
