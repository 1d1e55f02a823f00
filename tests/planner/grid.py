"""A planner as a table of units used of every pool at every tick, with which the real one is compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from fluxres.clock import FOREVER

#: Ticks 0 … HORIZON - 1; the last one represents all later ones, because no change begins or ends later.
HORIZON = 8


@dataclass(frozen=True)
class Tree:
    """The arrays of a structure, as lists."""

    parent: list[int]
    end: list[int]
    type_of: list[int]
    size: list[int]

    @classmethod
    def of(cls, parent: list[int], type_of: list[int], size: list[int]) -> Tree:
        end = list(range(1, len(parent) + 1))
        for v in reversed(range(len(parent))):
            if parent[v] >= 0:
                end[parent[v]] = max(end[parent[v]], end[v])
        return cls(parent, end, type_of, size)

    def ancestors(self, v: int) -> list[int]:
        found = []
        while (v := self.parent[v]) >= 0:
            found.append(v)
        return found


@dataclass
class Grid:
    tree: Tree
    units: dict[tuple[int, int], int] = field(default_factory=dict)
    whole: set[tuple[int, int]] = field(default_factory=set)

    def ticks(self, start: int, end: int) -> range:
        return range(start, HORIZON if end >= FOREVER else min(end, HORIZON))

    def at(self, v: int, tick: int) -> int:
        return self.units.get((v, tick), 0)

    def covered(self, v: int, tick: int) -> bool:
        return (v, tick) in self.whole or (self.tree.size[v] == 1 and self.at(v, tick) == 1)

    def change(self, changes: dict[int, int], start: int, end: int) -> bool:
        after = {(v, t): self.at(v, t) + amount for v, amount in changes.items() for t in self.ticks(start, end)}
        if not all(0 <= units <= self.tree.size[v] for (v, _), units in after.items()):
            return False
        self.units.update(after)
        return True

    def cover(self, v: int, start: int, end: int, on: bool) -> bool:
        cells = {(v, t) for t in self.ticks(start, end)}
        if self.tree.size[v] == 1:
            return True
        if not self.tree.size[v] or (cells & self.whole if on else cells - self.whole):
            return False
        self.whole = self.whole | cells if on else self.whole - cells
        return True

    def used(self, v: int, start: int, end: int) -> int:
        return max(self.at(v, t) for t in self.ticks(start, end))

    def covered_by(self, v: int, start: int, end: int) -> int:
        for u in self.tree.ancestors(v):
            if any(self.covered(u, t) for t in self.ticks(start, end)):
                return u
        return -1

    def free(self, v: int, start: int, end: int) -> int:
        return 0 if self.covered_by(v, start, end) >= 0 else self.tree.size[v] - self.used(v, start, end)

    def busy(self, lo: int, hi: int, start: int, end: int) -> list[int]:
        return [v for v in range(lo, hi) if self.used(v, start, end)]

    def totals(self, v: int, start: int, end: int, unavailable: list[int]) -> list[int]:
        total = [0] * (max(self.tree.type_of) + 1)
        for u in range(v, self.tree.end[v]):
            if not {u, *self.tree.ancestors(u)} & set(unavailable):
                total[self.tree.type_of[u]] += self.free(u, start, end)
        return total

    def earliest(self, demands: list[tuple[int, int]], duration: int, after: int) -> int | None:
        asked: dict[int, int] = {}
        for v, amount in demands:
            asked[v] = asked.get(v, 0) + amount
        for start in range(after, max(after + 1, HORIZON)):
            tick = min(start, HORIZON - 1)
            if all(self._fits(v, amount, tick, tick + duration) for v, amount in asked.items()):
                return start
        return None

    def _fits(self, v: int, amount: int, start: int, end: int) -> bool:
        if amount == self.tree.size[v] and self.busy(v + 1, self.tree.end[v], start, end):
            return False
        return self.free(v, start, end) >= amount

    def segments(self, v: int) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        for t in range(HORIZON):
            units, end = self.at(v, t), FOREVER if t == HORIZON - 1 else t + 1
            if units and found and found[-1][1:] == (t, units):
                found[-1] = (found[-1][0], end, units)
            elif units:
                found.append((t, end, units))
        return found

    def moments(self) -> list[int]:
        pools = range(len(self.tree.parent))
        return [
            t
            for t in range(HORIZON)
            if any(self.at(v, t) != (self.at(v, t - 1)) or self.covered(v, t) != self.covered(v, t - 1) for v in pools)
        ]
