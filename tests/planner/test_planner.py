"""The planner beyond the small random trees of the machine test: large blocks, long timelines, bounds and refusals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fluxres import limits
from fluxres.clock import FOREVER
from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner import Planner
from fluxres.planner.block import ROWS_FIRST, SCALAR_ROWS_MAX


def flat(n: int, size: int = 1) -> Planner:
    """A root (type 0) and n pools below it (type 1)."""
    return Planner([-1] + [0] * n, [n + 1, *range(2, n + 2)], [0] + [1] * n, [1] + [size] * n)


def rack() -> Planner:
    """A rack of two nodes, each with two cores and 8 units of memory: types 0 rack, 1 node, 2 core, 3 memory."""
    return Planner(
        parent=[-1, 0, 1, 1, 1, 0, 5, 5, 5],
        end=[9, 5, 3, 4, 5, 9, 7, 8, 9],
        type_of=[0, 1, 2, 2, 3, 1, 2, 2, 3],
        size=[1, 1, 1, 1, 8, 1, 1, 1, 8],
    )


def test_unused_pools_take_no_memory() -> None:
    planner = flat(200_000)
    assert planner.nbytes == 0
    planner.hold(150_000, 1, 0, 10)
    blocks = [line.blocks for line in planner._used if line is not None]
    assert [len(block) for block in blocks] == [1]


@pytest.mark.parametrize(("size", "span"), [(1, Planner.span_bits), (300, Planner.span_counts)])
def test_pools_on_both_sides_of_a_block_boundary(size: int, span: int) -> None:
    planner = flat(3 * span, size)
    edges = [1, 64, 65, span, span + 1, 2 * span, 2 * span + 1, 3 * span]
    for k, v in enumerate(edges):
        planner.hold(v, size, k, k + 2)
    for k, v in enumerate(edges):
        assert planner.segments(v) == [(k, k + 2, size)]
    assert planner.busy(0, 3 * span + 1, 0, FOREVER).tolist() == edges
    assert planner.busy(span, span + 2, 3, 5).tolist() == [span, span + 1]
    assert planner.busy(span + 1, span + 2, 3, 4).tolist() == []
    assert planner.totals(0, 3, 4).tolist() == [1, size * (3 * span - 2)]
    for k, v in enumerate(edges):
        planner.release(v, size, k, k + 2)
    assert planner.moments(0, FOREVER) == []
    assert planner.check() == []


@pytest.mark.parametrize("size", [2, 255, 256, 65_535, 65_536, 2**32, limits.SIZE_MAX])
def test_every_width_of_count(size: int) -> None:
    planner = flat(3, size)
    planner.hold(2, size, 5, 15)
    planner.hold(1, size - 1, 0, 10)
    planner.hold_all([1, 3], [1, size], 0, 10)
    assert planner.free_slice(1, 4, 5, 6).tolist() == [0, 0, 0]
    with pytest.raises(UsageError, match="pool 1: 1 units requested"):
        planner.hold(1, 1, 9, 20)
    planner.release_all([1, 2, 3], size, 5, 10)
    assert [planner.segments(v) for v in (1, 2, 3)] == [[(0, 5, size)], [(10, 15, size)], [(0, 5, size)]]


@pytest.mark.parametrize("size", [1, 7])
def test_long_timelines_agree_with_a_table(size: int) -> None:
    """Windows with far more rows than are handled one by one, and matrices that grow and shrink."""
    source = random.Random(size)
    planner, horizon = flat(3, size), 400
    table = np.zeros((4, horizon), np.int64)
    for _ in range(3000):
        v, start = source.randrange(1, 4), source.randrange(horizon - 1)
        end = source.choice([source.randrange(start + 1, horizon), min(start + 3, horizon - 1)])
        amount = source.randint(1, size) * source.choice([1, -1])
        after = table[v, start:end] + amount
        change = planner.hold if amount > 0 else planner.release
        if after.min() >= 0 and after.max() <= size:
            change(v, abs(amount), start, end)
            table[v, start:end] = after
        else:
            with pytest.raises(UsageError):
                change(v, abs(amount), start, end)
        assert planner.used(v, start, end) == table[v, start:end].max()
    assert planner.check() == []
    changes = np.flatnonzero((np.diff(table, axis=1, prepend=0) != 0).any(axis=0))
    assert len(changes) > 2 * SCALAR_ROWS_MAX
    assert planner.moments(0, FOREVER) == changes.tolist()
    for v in (1, 2, 3):
        assert planner.earliest([(v, size)], 5, 0) == next(t for t in range(horizon) if not table[v, t : t + 5].any())
        for start, end, units in planner.segments(v):
            assert (table[v, start:end] == units).all()
            planner.release(v, units, start, end)
    assert planner.moments(0, FOREVER) == []
    (block,) = (block for line in planner._used if line is not None for block in line.blocks.values())
    assert len(block.matrix) <= 16 * ROWS_FIRST


def test_hold_can_be_released_in_pieces_and_drops_its_breakpoints() -> None:
    planner = flat(1, 4)
    planner.hold(1, 4, 0, 10)
    planner.release(1, 1, 2, 5)
    assert planner.segments(1) == [(0, 2, 4), (2, 5, 3), (5, 10, 4)]
    planner.release(1, 3, 0, 10)
    assert planner.segments(1) == [(0, 2, 1), (5, 10, 1)]
    planner.hold(1, 1, 2, 5)
    assert planner.moments(0, FOREVER) == [0, 10]
    planner.release(1, 1, 0, 10)
    assert planner.moments(0, FOREVER) == []


def test_adjacent_holds_leave_no_breakpoint_between_them() -> None:
    planner = flat(2)
    planner.hold(1, 1, 0, 10)
    planner.hold(1, 1, 10, 20)
    assert planner.moments(0, FOREVER) == [0, 20]
    planner.hold(2, 1, 10, 20)
    assert planner.moments(0, FOREVER) == [0, 10, 20]
    assert planner.moments(10, 20) == [10]


def test_infinite_end() -> None:
    planner = flat(2)
    planner.hold(1, 1, 5, FOREVER)
    assert planner.moments(0, FOREVER) == [5]
    assert planner.segments(1) == [(5, FOREVER, 1)]
    assert planner.earliest([(1, 1)], 5, 0) == 0
    assert planner.earliest([(1, 1)], 6, 0) is None
    assert planner.earliest([(2, 1)], FOREVER, 0) == 0
    planner.release(1, 1, 100, FOREVER)
    assert planner.segments(1) == [(5, 100, 1)]
    assert planner.earliest([(1, 1), (2, 1)], FOREVER, 0) == 100


def test_exclusively_held_pool_covers_everything_below() -> None:
    planner = rack()
    planner.hold(1, 1, 0, 10)
    assert planner.free_slice(0, 9, 9, 11).tolist() == [1, 0, 0, 0, 0, 1, 1, 1, 8]
    assert (planner.covered_by(4, 0, 1), planner.covered_by(1, 0, 1), planner.covered_by(4, 10, 11)) == (1, -1, -1)
    assert planner.totals(0, 0, 1).tolist() == [1, 1, 2, 8]
    assert planner.totals(1, 0, 1).tolist() == [0, 0, 0, 0]
    assert not planner.busy_below(1, 0, 10)
    assert planner.busy_below(0, 0, 10)
    assert planner.earliest([(4, 3)], 2, 0) == 10


def test_pool_is_exclusively_free_if_nothing_below_it_is_used() -> None:
    planner = rack()
    planner.hold(4, 3, 0, 10)
    planner.hold(7, 1, 5, 20)
    assert planner.earliest([(1, 1)], 1, 0) == 10
    assert planner.earliest([(0, 1)], 1, 0) == 20
    assert planner.earliest([(5, 1)], 5, 0) == 0
    assert planner.earliest([(5, 1)], 6, 0) == 20
    assert planner.earliest([(4, 5)], 1, 0) == 0


def test_demands_on_one_pool_add_up() -> None:
    planner = rack()
    planner.hold(4, 3, 0, 10)
    assert planner.earliest([(4, 2), (4, 3)], 5, 0) == 0
    assert planner.earliest([(4, 3), (4, 3)], 5, 0) == 10
    assert planner.earliest([(4, 5), (4, 4)], 5, 0) is None


def test_unavailable_subtrees_do_not_count() -> None:
    planner = rack()
    planner.hold(2, 1, 0, 10)
    planner.hold(4, 3, 0, 10)
    assert planner.totals(0, 0, 1).tolist() == [1, 2, 3, 13]
    assert planner.totals(0, 0, 1, np.array([1])).tolist() == [1, 1, 2, 8]
    assert planner.totals(0, 0, 1, np.array([2, 6])).tolist() == [1, 2, 2, 13]
    assert planner.totals(2, 0, 1, np.array([1])).tolist() == [0, 0, 0, 0]
    assert planner.totals(5, 0, 1, np.array([1])).tolist() == [0, 1, 2, 8]


def test_many_pools_all_or_nothing() -> None:
    planner = rack()
    planner.hold(4, 6, 5, 10)
    before = [planner.segments(v) for v in range(9)]
    with pytest.raises(UsageError, match=r"pool 4: 3 units requested for \[0, 6\)"):
        planner.hold_all([8, 2, 4], [3, 1, 3], 0, 6)
    with pytest.raises(UsageError, match="pool 4: 7 units released"):
        planner.release_all([4], 7, 5, 10)
    with pytest.raises(UsageError, match="pool 2 is listed twice"):
        planner.hold_all([2, 3, 2], 1, 0, 6)
    with pytest.raises(UsageError, match="expected 0 <= vertex < 9"):
        planner.hold_all([2, 9], 1, 0, 6)
    with pytest.raises(UsageError, match="pool 3: expected amount >= 1, got 0"):
        planner.hold_all([2, 3], [1, 0], 0, 6)
    assert [planner.segments(v) for v in range(9)] == before
    planner.hold_all([], 1, 0, 6)
    planner.hold_all([8, 2, 4], [3, 1, 2], 0, 6)
    assert [planner.used(v, 0, 6) for v in (8, 2, 4)] == [3, 1, 8]


@pytest.mark.parametrize(
    ("v", "amount", "start", "end", "message"),
    [
        (9, 1, 0, 1, "vertex 9: expected 0 <= vertex < 9"),
        (-1, 1, 0, 1, "vertex -1"),
        (4, 0, 0, 1, "pool 4: expected amount >= 1, got 0"),
        (4, 9, 0, 1, "pool 4: 9 units requested for"),
        (4, 1, 5, 5, r"window \[5, 5\)"),
        (4, 1, 5, 4, r"window \[5, 4\)"),
        (4, 1, FOREVER, FOREVER + 1, "a finite start"),
        (4, 1, -(2**70), 0, "window"),
        (4, 2**80, 0, 1, "pool 4"),
    ],
)
def test_impossible_holds_change_nothing(v: int, amount: int, start: int, end: int, message: str) -> None:
    planner = rack()
    with pytest.raises(UsageError, match=message):
        planner.hold(v, amount, start, end)
    assert planner.moments(0, FOREVER) == []
    assert planner.check() == []


def test_cover_needs_a_pool_with_units_and_is_not_repeated() -> None:
    planner = rack()
    planner.hold(4, 8, 0, 10)
    planner.cover(4, 0, 10, True)
    with pytest.raises(UsageError, match="pool 4: already held exclusively"):
        planner.cover(4, 9, 12, True)
    with pytest.raises(UsageError, match="pool 4: not held exclusively"):
        planner.cover(4, 5, 12, False)
    planner.cover(4, 2, 4, False)
    assert planner.covers(4) == [(0, 2), (4, 10)]
    planner.cover(1, 0, 10, True)
    assert planner.covers(1) == []
    assert planner.check() == []


def test_audit_finds_a_cover_that_is_not_fully_used() -> None:
    planner = rack()
    planner.cover(4, 0, 10, True)
    assert planner.check() == ["pool 4: held exclusively from tick 0 on, but not all of it is used (A3)"]


def test_audit_finds_a_modified_row() -> None:
    planner = rack()
    planner.hold(4, 3, 0, 10)
    planner.hold(3, 1, 0, 10)
    (line,) = (line for line in planner._used if line is not None and line.dtype is not None)
    line.blocks[0].matrix[line.blocks[0].rows[1], 0] = 9
    assert planner.check() == ["pool 4: more units used than its size, from tick 0 on (A1)"]
    line.blocks[0].matrix[line.blocks[0].rows[1], 0] = 0
    assert [problem.split(": ")[2] for problem in planner.check()] == [
        "breakpoint 0",
        "breakpoint 10",
    ]


def test_breakpoints_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = flat(8)
    monkeypatch.setattr(limits, "BREAKPOINTS_MAX", 4)
    planner.hold(1, 1, 0, 10)
    planner.hold(2, 1, 5, 15)
    with pytest.raises(LimitExceeded, match="more than 4 breakpoints"):
        planner.hold(3, 1, 2, 10)
    with pytest.raises(LimitExceeded, match="more than 4 breakpoints"):
        planner.hold_all([3, 4], 1, 2, 10)
    assert planner.segments(3) == []
    planner.hold_all([3, 4], 1, 0, 15)
    planner.release(2, 1, 5, 15)
    planner.hold(5, 1, 3, FOREVER)
    assert planner.check() == []


def test_breakpoints_are_bounded_for_both_records_of_a_single_unit_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a type of mixed sizes a hold writes units and a cover; when one does not fit, neither is written."""
    planner = Planner([-1, 0, 0, 0], [4, 2, 3, 4], [0, 1, 1, 1], [1, 1, 1, 3])
    planner.hold(1, 1, 0, 10)
    planner.hold(3, 1, 0, 10)
    planner.hold(3, 3 - 1, 20, 30)
    planner.hold(2, 1, 20, 30)
    planner.release(3, 1, 20, 30)
    planner.cover(3, 1, 2, True)
    planner.cover(3, 4, 5, True)
    planner.hold(3, 1, 12, 13)
    assert {len(line.moments(0, 99)) for line in (planner._used[1], planner._cover[1]) if line is not None} == {6, 8}
    monkeypatch.setattr(limits, "BREAKPOINTS_MAX", 8)
    with pytest.raises(LimitExceeded):
        planner.hold(2, 1, 12, 13)
    with pytest.raises(LimitExceeded):
        planner.hold_all([2], 1, 12, 13)
    assert planner.segments(2) == [(20, 30, 1)]


def test_sums_beyond_int64_are_refused() -> None:
    planner = flat(3, limits.SIZE_MAX)
    with pytest.raises(LimitExceeded, match="type number 1"):
        planner.totals(0, 0, 1)


def test_shared_vertices_are_not_copied() -> None:
    tables = {0: np.array([0], np.int32), 1: np.arange(1, 101, dtype=np.int32)}
    planner = Planner([-1] + [0] * 100, [101, *range(2, 102)], [0] + [1] * 100, [1] * 101, of_type=tables.__getitem__)
    planner.hold(50, 1, 0, 10)
    assert planner.columns.vertices(1) is tables[1]
    assert planner.totals(0, 0, 1).tolist() == [1, 99]


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(UsageError, match="one entry for every vertex"):
        Planner([-1, 0], [2, 2], [0, 0], [1])


def test_many_runs_are_cleared_like_few() -> None:
    """More covered pools in a slice than are cleared one by one, and a slice that begins and ends inside some of them."""
    nodes, below = 300, 3
    step = below + 1
    parent = [-1] + [0 if k % step == 0 else 1 + k // step * step for k in range(nodes * step)]
    end = [1 + nodes * step] + [1 + k + step if k % step == 0 else k + 2 for k in range(nodes * step)]
    planner = Planner(parent, end, [0] + ([1] + [2] * below) * nodes, [1] * (1 + nodes * step))
    held = 1 + np.arange(0, nodes, 2) * step
    planner.hold_all(held, 1, 0, 10)
    expected = np.array([planner.free(v, 0, 1) for v in range(len(parent))])
    assert expected.sum() == 1 + (nodes // 2) * step
    for lo, hi in [(0, len(parent)), (3, len(parent) - 2), (2, 5), (4, 4)]:
        assert planner.free_slice(lo, hi, 0, 1).tolist() == expected[lo:hi].tolist()
    assert planner.totals(0, 0, 1).tolist() == [1, nodes // 2, nodes // 2 * below]
