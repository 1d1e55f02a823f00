"""Levels compared with a recomputation from the planner's own results, after any sequence of holds and releases."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.clock import FOREVER
from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner import Planner
from fluxres.planner.deltas import Deltas
from fluxres.planner.level import Level
from fluxres.planner.marks import Marks, ordinals_of
from fluxres.planner.timeline import Timeline

#: cluster, two racks of two nodes, each node with a socket of two cores and one memory of 4 units next to it
PARENT = [-1]
TYPE = [0]
SIZE = [1]
for _ in range(2):
    rack = len(PARENT)
    PARENT.append(0)
    TYPE.append(1)
    SIZE.append(1)
    for _ in range(2):
        node = len(PARENT)
        PARENT += [rack, node, node + 1, node + 1, node]
        TYPE += [2, 3, 4, 4, 5]
        SIZE += [1, 1, 1, 1, 4]
END = list(range(1, len(PARENT) + 1))
for v in reversed(range(1, len(PARENT))):
    END[PARENT[v]] = max(END[PARENT[v]], END[v])
NODES = [v for v in range(len(TYPE)) if TYPE[v] == 2]
HORIZON = 6

change = st.tuples(
    st.booleans(), st.integers(0, len(PARENT) - 1), st.integers(1, 3), st.integers(0, HORIZON - 1), st.integers(1, HORIZON)
)


def expected(planner: Planner, start: int, end: int) -> tuple[list[int], list[int], list[int]]:
    roof, touched, cores = [], [], []
    for number, v in enumerate(NODES):
        held = planner.used(v, start, end) > 0 or planner.covered_by(v, start, end) >= 0
        roof += [number] * held
        touched += [number] * (held or planner.busy_below(v, start, end))
        inside = [u for u in range(v, END[v]) if TYPE[u] == 4]
        cores.append(max(sum(planner.used(u, t, t + 1) for u in inside) for t in range(start, end)))
    return roof, touched, cores


@given(st.lists(change, max_size=25), st.integers(0, 25), st.booleans())
@settings(max_examples=120, deadline=None)
def test_level_agrees_with_the_planner(changes: list[tuple[bool, int, int, int, int]], born: int, many: bool) -> None:
    planner = Planner(PARENT, END, TYPE, SIZE)
    for number, (on, v, amount, start, length) in enumerate(changes):
        if number == born:
            planner.levels.of(2)
        try:
            if many:
                (planner.hold_all if on else planner.release_all)([v], amount, start, start + length)
            else:
                (planner.hold if on else planner.release)(v, amount, start, start + length)
        except UsageError:
            continue
    level = planner.levels.of(2)
    assert level is not None
    assert planner.check() == []
    for start in range(HORIZON):
        for end in range(start + 1, 2 * HORIZON):
            roof, touched, cores = expected(planner, start, end)
            assert ordinals_of(level.roof.folded(start, end), level.length).tolist() == roof
            assert ordinals_of(level.touched.folded(start, end), level.length).tolist() == touched
            peaks = level.peaks(4, start, end)
            assert (peaks.tolist() if peaks is not None else [0] * 4) == cores


def test_pools_with_sizes_have_no_level() -> None:
    assert Planner(PARENT, END, TYPE, SIZE).levels.of(5) is None


@given(st.lists(st.tuples(st.integers(0, 69), st.integers(0, 20), st.integers(1, 9)), max_size=12), st.integers(1, 70))
@settings(max_examples=200, deadline=None)
def test_marks_find_the_first_window_with_room(spans: list[tuple[int, int, int]], need: int) -> None:
    marks = Marks(70)
    for pool, start, length in spans:
        marks.mark_one(pool, True, start, start + length)
    assert marks.check() == []
    everyone = marks.bits(np.arange(70))
    for after in range(0, 20, 3):
        start = after
        while 70 - len(ordinals_of(marks.folded(start, start + 4), 70)) < need:
            later = marks.blocked_until(everyone, need, start, start + 4)
            assert later > start
            for skipped in range(start, later):
                assert 70 - len(ordinals_of(marks.folded(skipped, skipped + 4), 70)) < need
            start = later
        roomy = marks.roomy_start(70 - need, 4, after)
        assert roomy is not None
        assert after <= roomy <= start


def level_of(planner: Planner, start: int, end: int) -> list[list[int]]:
    level = planner.levels.of(2)
    assert level is not None
    peaks = level.peaks(4, start, end)
    marks = [ordinals_of(line.folded(start, end), level.length).tolist() for line in (level.roof, level.touched)]
    return [*marks, [0] * 4 if peaks is None else peaks.tolist()]


some = st.lists(
    st.tuples(st.integers(0, len(PARENT) - 1), st.integers(1, 3)), min_size=1, max_size=6, unique_by=lambda pick: pick[0]
)


@given(st.lists(st.tuples(st.booleans(), some, st.integers(0, HORIZON - 1), st.integers(1, HORIZON)), max_size=20))
@settings(max_examples=300, deadline=None)
def test_few_and_many_pools_change_in_the_same_way(changes: list[tuple[bool, list[tuple[int, int]], int, int]]) -> None:
    few, many = Planner(PARENT, END, TYPE, SIZE), Planner(PARENT, END, TYPE, SIZE)
    for planner in (few, many):
        planner.levels.of(2)
    for on, picks, start, length in changes:
        said = []
        for planner, most in ((few, 100), (many, 0)):
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("fluxres.planner.planner.FEW_POOLS_MAX", most)
                    change = planner.hold_all if on else planner.release_all
                    change([v for v, _ in picks], [amount for _, amount in picks], start, start + length)
                said.append("")
            except UsageError as error:
                said.append(str(error))
        assert said[0] == said[1]
    assert few.check() == many.check() == []
    for v in range(len(PARENT)):
        assert (few.segments(v), few.covers(v)) == (many.segments(v), many.covers(v))
    for start in range(HORIZON):
        assert level_of(few, start, start + 2) == level_of(many, start, start + 2)


def test_too_many_breakpoints_leave_a_few_pools_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(PARENT, END, TYPE, SIZE)
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 3)
    planner.hold_all([3, 5], 1, 0, 2)
    with pytest.raises(LimitExceeded, match="breakpoints"):
        planner.hold_all([2, 5, 6], [1, 1, 1], 4, 6)
    assert [planner.segments(v) for v in (2, 3, 5, 6)] == [[], [(0, 2, 1)], [(0, 2, 1)], []]
    assert planner.check() == []


def columns_of(level: Level) -> dict[str, object]:
    """All that a level keeps, without the order in which blocks stored their rows and counts that came back to nothing."""
    kept: dict[str, object] = {}
    for name in ("roof", "touched"):
        marks: Marks = getattr(level, name)
        kept[name] = (marks.times.tolist(), marks.rows, marks.ones.tolist())
    for kind, line in level._counts.items():
        for number, block in line.blocks.items():
            if len(block.times) > 1:
                rows = block.matrix[np.frombuffer(block.rows, np.int64)]
                kept[f"{kind}.{number}"] = (block.times.tolist(), block.changes.tolist(), rows.dtype, rows.tolist())
        if line.breakpoints:
            kept[f"{kind}"] = line.breakpoints
    return kept


@given(
    st.lists(
        st.tuples(
            st.booleans(), some, st.integers(-5, HORIZON), st.one_of(st.integers(1, HORIZON), st.just(FOREVER)), st.booleans()
        ),
        max_size=25,
    ),
    st.integers(1, 5),
    st.sampled_from([1, 2]),
)
@settings(max_examples=150, deadline=None)
def test_level_that_is_made_late_equals_one_that_saw_every_change(
    changes: list[tuple[bool, list[tuple[int, int]], int, int, bool]], span: int, units_of_rack: int
) -> None:
    size = [units_of_rack if kind == 1 else units for kind, units in zip(TYPE, SIZE, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fluxres.planner.level.SPAN", span)
        early, late = Planner(PARENT, END, TYPE, size), Planner(PARENT, END, TYPE, size)
        followed = {kind: early.levels.of(kind) for kind in (2, 3)}
        for on, picks, start, length, covers in changes:
            for planner in (early, late):
                with suppress(UsageError):
                    if covers:  # a memory below the level, or a rack above it
                        planner.cover(picks[0][0], start, min(start + length, FOREVER), on)
                    else:
                        change = planner.hold_all if on else planner.release_all
                        change([v for v, _ in picks], [amount for _, amount in picks], start, min(start + length, FOREVER))
        for kind, level in followed.items():
            recalled = late.levels.of(kind)
            assert level is not None
            assert recalled is not None
            assert columns_of(recalled) == columns_of(level)
            assert recalled.roof.check() == recalled.touched.check() == []
            assert [text for line in recalled._counts.values() for text in line.check()] == []


spans_of = st.tuples(st.integers(0, 199), st.integers(0, 30), st.one_of(st.integers(1, 9), st.just(FOREVER)), st.integers(1, 300))


@given(st.lists(spans_of, max_size=60), st.sampled_from([None, np.uint8, np.uint16, np.int64]), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_differences_add_up_to_what_is_used(spans: list[tuple[int, int, int, int]], dtype: object, rows: int) -> None:
    limit = 1 if dtype is None else min(int(np.iinfo(dtype).max), 2**20)
    line = Timeline(200, 128, dtype)
    for ordinal, start, length, units in spans:
        line.change(ordinal, 1, min(units, limit), limit, start, min(start + length, FOREVER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fluxres.planner.block.REDUCED_ROWS", rows)
        deltas = Deltas.of(*line.differences())
    used: dict[tuple[int, int], int] = {}
    for ordinal, time, units in zip(*(column.tolist() for column in deltas), strict=True):
        for tick in range(time, 41):
            used[ordinal, tick] = used.get((ordinal, tick), 0) + units
    wanted = {
        (ordinal, tick): units
        for ordinal in range(200)
        for start, end, units in line.steps(ordinal)
        for tick in range(start, min(end, 41))
    }
    assert {cell: units for cell, units in used.items() if units} == wanted
    if dtype is not None:
        filled = Timeline(200, 128, dtype)
        filled.fill(deltas)
        assert filled.check() == []
        assert [filled.steps(ordinal) for ordinal in range(200)] == [line.steps(ordinal) for ordinal in range(200)]


windows = st.tuples(
    st.integers(0, len(PARENT) - 1), st.integers(1, 4), st.integers(0, HORIZON), st.one_of(st.integers(1, 9), st.just(FOREVER))
)


@given(st.lists(windows, max_size=40), st.integers(0, 40), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_windows_held_together_equal_windows_held_one_by_one(
    found: list[tuple[int, int, int, int]], before: int, units_of_rack: int
) -> None:
    """In a machine whose second rack has more units than the first one, so that one type has pools of both kinds."""
    size = list(SIZE)
    size[max(v for v, kind in enumerate(TYPE) if kind == 1)] = units_of_rack
    one_by_one, together = Planner(PARENT, END, TYPE, size), Planner(PARENT, END, TYPE, size)
    held = []
    for number, (v, units, start, length) in enumerate(found):
        window = (v, min(units, size[v]), start, min(start + length, FOREVER))
        with suppress(UsageError):
            one_by_one.hold(*window)
            held.append(window)
            if number < before:
                together.hold(*window)
                held.pop()
    columns = np.array(held, np.int64).reshape(-1, 4).T
    together.hold_windows(*columns)
    assert together.check() == one_by_one.check() == []
    for v in range(len(PARENT)):
        assert (together.segments(v), together.covers(v)) == (one_by_one.segments(v), one_by_one.covers(v))
    for kind in (2, 3, 4):
        recalled, level = together.levels.of(kind), one_by_one.levels.of(kind)
        assert recalled is not None
        assert level is not None
        assert columns_of(recalled) == columns_of(level)


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((5, 1, 4, 4), "expected start < end"),
        ((99, 1, 0, 4), "expected 0 <= vertex"),
        ((5, 0, 0, 4), "expected amount >= 1"),
        ((5, 1, 2, 4), "pool 5: 2 units requested from 2 on"),
    ],
)
def test_windows_that_do_not_fit_are_refused_together(window: tuple[int, int, int, int], message: str) -> None:
    planner = Planner(PARENT, END, TYPE, SIZE)
    planner.hold(5, 1, 0, 3)
    with pytest.raises(UsageError, match=message):
        planner.hold_windows(*np.array([(3, 1, 0, 9), window], np.int64).T)
    assert (planner.segments(3), planner.segments(5)) == ([], [(0, 3, 1)])
    assert planner.check() == []


def test_windows_beyond_the_bound_of_breakpoints_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(PARENT, END, TYPE, SIZE)
    planner.hold(5, 1, 0, 3)
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 3)
    with pytest.raises(LimitExceeded, match="breakpoints"):
        planner.hold_windows(*np.array([(3, 1, 0, 9), (4, 1, 5, 7), (4, 1, 8, 9)], np.int64).T)
    assert [planner.segments(v) for v in (3, 4, 5)] == [[], [], [(0, 3, 1)]]
    assert planner.check() == []
