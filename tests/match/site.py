"""A small machine in one window: what is held and what supplies what, evaluated pool by pool and moment by moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from fluxres.graph.kinds import EXCLUSIVE, UNAVAILABLE_STATES, WAY
from fluxres.graph.structure import Structure
from fluxres.syntax import constraint as constraints
from fluxres.syntax import unit
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex
from tests.match.ways import Ways

T = TypeVar("T")


@dataclass(frozen=True)
class Hold:
    v: int
    amount: int
    start: int
    end: int


@dataclass
class Site:
    """One machine, what is held of it, one window, one request, and the order of candidates."""

    structure: Structure
    holds: Sequence[Hold]
    request: Request
    start: int
    end: int
    policy: str
    ideal: bool = False
    steps: int = 0
    known: dict[tuple[str, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ways = Ways(self.structure, ideal=self.ideal)

    # -- the machine ---------------------------------------------------------------------------------------------
    # Plain recomputation; what does not change while a case is looked at is remembered by `once`.

    def once(self, what: str, v: int, find: Callable[[], T]) -> T:
        key = (what, v)
        if key not in self.known:
            self.known[key] = find()
        found: T = self.known[key]
        return found

    def type(self, v: int) -> str:
        return self.once("type", v, lambda: "" if self.is_edge(v) else self.structure.kind_of(v).type)

    def size(self, v: int) -> int:
        return self.once("size", v, lambda: self.ways.carried[v] if self.is_edge(v) else self.structure.size.item(v))

    def above(self, v: int) -> list[int]:
        return self.once("above", v, lambda: [] if self.is_edge(v) else self.structure.ancestors(v))

    def below(self, v: int) -> range:
        return range(v + 1, v + 1 if self.is_edge(v) else self.structure.end.item(v))

    def is_edge(self, v: int) -> bool:
        return v >= self.structure.n

    def is_only_whole(self, v: int) -> bool:
        return not self.is_edge(v) and bool(self.structure.flags.item(v) & EXCLUSIVE)

    def node(self, v: int) -> int:
        return self.once("node", v, lambda: next((u for u in [v, *self.above(v)] if self.type(u) == "node"), -1))

    def is_up(self, v: int) -> bool:
        if self.ideal or self.is_edge(v):
            return True
        return self.once("up", v, lambda: not all(map(self.is_out, [v, *self.below(v)])))

    def is_out(self, v: int) -> bool:
        """Whether it, or a pool above it, is out of service, or nothing reaches it by one of the graphs."""
        stated = any(self.structure.state_name(u) in UNAVAILABLE_STATES for u in [v, *self.above(v)])
        return self.once("out", v, lambda: stated or self.ways.is_cut_off(v))

    def used(self, v: int, moment: int) -> int:
        return 0 if self.ideal else sum(h.amount for h in self.holds if h.v == v and h.start <= moment < h.end)

    def moments(self) -> list[int]:
        return [self.start, *sorted({h.start for h in self.holds if self.start < h.start < self.end})]

    def free(self, v: int) -> int:
        """Units that are free at every moment."""
        return self.once("free", v, lambda: self._free(v))

    def is_passable(self, v: int) -> bool:
        """Whether others may be sought in it: something is free, or it is a way and no job has what is above it."""
        return self.free(v) > 0 or (self.is_way(v) and not self.is_closed(v))

    def is_way(self, v: int) -> bool:
        return not self.is_edge(v) and bool(self.structure.flags.item(v) & WAY)

    def is_closed(self, v: int) -> bool:
        """Whether a job holds a pool above it exclusively, or is in an exclusive pool above it."""
        around = [u for u in (v, *self.above(v)) if self.is_only_whole(u)]
        if any(self.used(w, t) for u in around for w in self.below(u) for t in self.moments()):
            return True
        return any(self.used(u, t) == self.size(u) > 0 for u in self.above(v) for t in self.moments())

    def _free(self, v: int) -> int:
        if self.is_way(v) or self.is_closed(v):
            return 0
        if any(self.used(u, t) == self.size(u) > 0 for u in self.above(v) for t in self.moments()):
            return 0
        return self.size(v) - max(self.used(v, t) for t in self.moments())

    def is_untouched(self, v: int) -> bool:
        return self.once(
            "untouched",
            v,
            lambda: self.free(v) == self.size(v) and not any(self.used(u, t) for u in self.below(v) for t in self.moments()),
        )

    def satisfies(self, v: int) -> bool:
        """The constraint, tested on the node that `v` is or is in."""
        return self.once("satisfies", v, lambda: self._satisfies(v))

    def _satisfies(self, v: int) -> bool:
        if self.request.constraint is None or self.is_edge(v):
            return True
        targets_are_nodes = any(self.type(u) == "node" for u in range(self.structure.n))
        target = self.node(v) if targets_are_nodes else v
        return target < 0 or constraints.matches(self.request.constraint, Target(self.structure, target))

    def whole_is_possible(self, v: int) -> bool:
        return self.once(
            "whole",
            v,
            lambda: (
                self.size(v) > 0 and not self.is_way(v) and self.is_untouched(v) and all(self.satisfies(u) for u in self.below(v))
            ),
        )

    # -- the order -----------------------------------------------------------------------------------------------

    def ordered(self, pools: list[int]) -> list[int]:
        base = self.policy.removesuffix("nodex")
        base = {"lo": "low", "hi": "high", "lonode": "low", "hinode": "high"}.get(base, base)
        if base == "high":
            return sorted(pools, reverse=True)
        if base == "variation":
            return sorted(pools, key=lambda v: (self.performance_class(v), v))
        if base in ("pack", "spread"):
            sign = 1 if base == "pack" else -1
            return sorted(pools, key=lambda v: (sign * self.room(v), v))
        return sorted(pools)

    def performance_class(self, v: int) -> float:
        for u in [v, *self.above(v)]:
            value = dict(self.structure.kind_of(u).properties).get("perf_class")
            if value is not None:
                return float(value)
        return float("inf")

    def measured(self) -> str | None:
        nodes = [v for v in range(self.structure.n) if self.type(v) == "node"]
        inside = self.once("inside", 0, lambda: {self.type(u) for v in nodes for u in self.below(v)})
        return next((d.type for d in self.request.vertices() if not d.children and not d.is_directed and d.type in inside), None)

    def room(self, v: int) -> int:
        measured, node = self.measured(), self.node(v)
        if measured is None:
            return 0
        if node < 0:
            return sum(self.room(u) for u in self.below(v) if self.type(u) == "node")
        inside = [u for u in self.below(node) if self.type(u) == measured]
        return sum(self.size(u) for u in inside) - max(sum(self.used(u, t) for u in inside) for t in self.moments())

    def named(self, vertex: Vertex, pools: list[int]) -> list[int]:
        ranges = vertex.id_ranges
        if ranges is None:
            return pools
        return [v for v in pools if any(a <= self.structure.id.item(v) <= b for a, b in ranges)]

    def worth(self, vertex: Vertex, v: int) -> Fraction | None:
        own = self.ways.unit(v) if self.is_edge(v) else self.structure.kind_of(v).unit
        if vertex.unit is None or own == vertex.unit:
            return Fraction(1)
        try:
            return Fraction(unit.convert(1, own, vertex.unit))
        except Exception:  # noqa: BLE001 - any refusal to convert means that the units differ
            return None


@dataclass
class Target:
    """A node as a constraint sees it."""

    structure: Structure
    v: int

    @property
    def properties(self) -> set[str]:
        own = self.structure.kind_of(self.v).properties
        return {key for key, _ in own} | {f"{key}={value}" for key, value in own if value is not None}

    @property
    def hostname(self) -> str:
        return self.structure.name(self.v)

    @property
    def rank(self) -> int:
        return self.structure.rank.item(self.v)

    @property
    def state(self) -> str:
        return self.structure.state_name(self.v)
