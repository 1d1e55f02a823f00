"""Levels compared with a recomputation from the planner's own results, after any sequence of holds and releases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import LimitExceeded, UsageError
from fluxres.planner import Planner
from fluxres.planner.marks import Marks, ordinals_of

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
