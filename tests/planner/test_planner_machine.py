"""Every query after every change, compared with the table of `grid.py`, on small random trees with blocks of two or three."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fluxres.clock import FOREVER
from fluxres.errors import UsageError
from fluxres.planner import Planner
from tests.choices import integers
from tests.planner.grid import HORIZON, Grid, Tree


class NarrowPlanner(Planner):
    span_bits = 3
    span_counts = 2


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Forests of up to 10 pools in pre-order, of up to 3 types: all of size 1, or of mixed sizes."""
    n = draw(integers(1, 10))
    mixed = draw(st.lists(st.booleans(), min_size=3, max_size=3))
    parent = [-1]
    for v in range(1, n):
        line = [v - 1]
        while line[-1] >= 0:
            line.append(parent[line[-1]])
        parent.append(draw(st.sampled_from(line)))
    type_of = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    size = [draw(integers(0, 4)) if mixed[kind] else 1 for kind in type_of]
    return Tree.of(parent, type_of, size)


#: All windows within the horizon, and those without end.
windows = st.sampled_from(
    [(start, end) for start in range(HORIZON) for end in [*range(start + 1, HORIZON), FOREVER]],
)
amounts = st.integers(1, 4)


class PlannerMachine(RuleBasedStateMachine):
    @initialize(tree=trees())
    def start(self, tree: Tree) -> None:
        self.grid = Grid(tree)
        self.planner: Planner = NarrowPlanner(tree.parent, tree.end, tree.type_of, tree.size)
        self.windows = [(t, t + 1) for t in range(HORIZON - 1)] + [(0, FOREVER)]

    def pool(self, number: int) -> int:
        return number % len(self.grid.tree.parent)

    def most(self, v: int, window: tuple[int, int], give_back: bool) -> int:
        """The largest amount that is still valid."""
        at = [self.grid.at(v, t) for t in self.grid.ticks(*window)]
        return min(at) if give_back else self.grid.tree.size[v] - max(at)

    @rule(number=st.integers(0, 9), window=windows, give_back=st.booleans(), amount=amounts, legal=st.booleans())
    def change(self, number: int, window: tuple[int, int], give_back: bool, amount: int, legal: bool) -> None:
        v = self.pool(number)
        if legal:
            amount = max(1, min(amount, self.most(v, window, give_back)))
        change = self.planner.release if give_back else self.planner.hold
        if self.grid.change({v: -amount if give_back else amount}, *window):
            change(v, amount, *window)
        else:
            with pytest.raises(UsageError, match=f"pool {v}:"):
                change(v, amount, *window)
        self.windows[-1] = window

    @rule(
        numbers=st.sets(st.integers(0, 9), min_size=1),
        window=windows,
        give_back=st.booleans(),
        amount=amounts,
        extra=st.integers(0, 4),
    )
    def change_all(self, numbers: set[int], window: tuple[int, int], give_back: bool, amount: int, extra: int) -> None:
        """Many pools at once; one of them sometimes by one unit too many."""
        wanted = {v: min(amount, self.most(v, window, give_back)) for v in map(self.pool, numbers)}
        wanted = {v: units for v, units in wanted.items() if units}
        if extra == 1:
            wanted[self.pool(extra)] = self.most(self.pool(extra), window, give_back) + 1
        change = self.planner.release_all if give_back else self.planner.hold_all
        signed = {v: -units if give_back else units for v, units in wanted.items()}
        if self.grid.change(signed, *window):
            change(list(wanted), list(wanted.values()), *window)
        else:
            with pytest.raises(UsageError, match="pool"):
                change(list(wanted), list(wanted.values()), *window)

    @rule(number=st.integers(0, 9), window=windows, on=st.booleans())
    def cover(self, number: int, window: tuple[int, int], on: bool) -> None:
        v = self.pool(number)
        if self.grid.cover(v, *window, on):
            self.planner.cover(v, *window, on)
        else:
            with pytest.raises(UsageError, match=f"pool {v}:"):
                self.planner.cover(v, *window, on)

    @rule()
    def release_everything(self) -> None:
        for v in range(len(self.grid.tree.parent)):
            for start, end in self.planner.covers(v):
                self.planner.cover(v, start, end, False)
            for start, end, units in self.planner.segments(v):
                self.planner.release(v, units, start, end)
        self.grid = Grid(self.grid.tree)
        assert self.planner.moments(0, FOREVER) == []

    @rule(
        demands=st.lists(st.tuples(st.integers(0, 9), amounts), max_size=3), duration=st.integers(1, 9), after=st.integers(0, 9)
    )
    def earliest(self, demands: list[tuple[int, int]], duration: int, after: int) -> None:
        asked = [(self.pool(number), amount) for number, amount in demands]
        for length in (duration, FOREVER):
            assert self.planner.earliest(asked, length, after) == self.grid.earliest(asked, length, after)

    @rule(after=st.integers(0, 3))
    def earliest_of_every_pool(self, after: int) -> None:
        for v, size in enumerate(self.grid.tree.size):
            for amount in {1, size} - {0}:
                for duration in (1, 3, FOREVER):
                    asked = [(v, amount)]
                    assert self.planner.earliest(asked, duration, after) == self.grid.earliest(asked, duration, after)

    @rule(window=windows, number=st.integers(0, 9), picks=st.sets(st.integers(0, 9), max_size=3))
    def totals_without_unavailable(self, window: tuple[int, int], number: int, picks: set[int]) -> None:
        tree = self.grid.tree
        chosen = {self.pool(pick) for pick in picks}
        tops = sorted(v for v in chosen if not chosen & set(tree.ancestors(v)))
        v = self.pool(number)
        found = self.planner.totals(v, *window, np.array(tops, np.int32))
        assert found.tolist() == self.grid.totals(v, *window, tops)

    @invariant()
    def answers_agree(self) -> None:
        tree, grid, planner = self.grid.tree, self.grid, self.planner
        n = len(tree.parent)
        assert planner.moments(0, FOREVER) == grid.moments()
        for window in self.windows:
            free = [grid.free(v, *window) for v in range(n)]
            assert planner.free_slice(0, n, *window).tolist() == free
            half = n // 2
            assert planner.free_slice(half, n, *window).tolist() == free[half:]
            assert planner.busy(half, n, *window).tolist() == grid.busy(half, n, *window)
            assert planner.totals(half, *window).tolist() == grid.totals(half, *window, [])
            for v in range(n):
                assert planner.used(v, *window) == grid.used(v, *window)
                assert planner.free(v, *window) == free[v]
                assert planner.covered_by(v, *window) == grid.covered_by(v, *window)
                assert planner.busy_below(v, *window) == bool(grid.busy(v + 1, tree.end[v], *window))
        for v in range(n):
            assert planner.segments(v) == grid.segments(v)
        half_whole = {v for v, t in grid.whole if grid.at(v, t) < tree.size[v]}
        assert {problem.split(":")[0] for problem in planner.check()} == {f"pool {v}" for v in half_whole}


PlannerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPlanner = PlannerMachine.TestCase
