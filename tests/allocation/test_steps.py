"""Step functions compared with a list with one number per tick."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.allocation import steps

HORIZON = 12
windows = st.tuples(st.integers(0, HORIZON - 1), st.integers(1, HORIZON)).filter(lambda w: w[0] < w[1])
amounts = st.lists(st.integers(0, 3), min_size=HORIZON, max_size=HORIZON)


def held_at(spans: steps.Steps) -> list[int]:
    return [steps.amount_at(spans, tick) for tick in range(HORIZON)]


def of_list(values: list[int]) -> steps.Steps:
    return steps.canonical([(tick, tick + 1, value) for tick, value in enumerate(values)])


def in_order(spans: steps.Steps) -> bool:
    apart = all(a[1] < b[0] or (a[1] == b[0] and a[2] != b[2]) for a, b in itertools.pairwise(spans))
    return apart and all(s < e and amount > 0 for s, e, amount in spans)


@given(amounts)
def test_canonical_keeps_the_values_and_merges_neighbours(values: list[int]) -> None:
    spans = of_list(values)
    assert held_at(spans) == values
    assert in_order(spans)


@given(amounts, windows, st.integers(1, 3))
def test_add_changes_every_moment_of_the_window_and_no_other(values: list[int], window: tuple[int, int], more: int) -> None:
    start, end = window
    grown = steps.add(of_list(values), start, end, more)
    assert held_at(grown) == [value + (more if start <= tick < end else 0) for tick, value in enumerate(values)]
    assert in_order(grown)
    assert steps.add(grown, start, end, -more) == of_list(values)


@given(st.lists(amounts, max_size=4))
def test_joined_is_the_sum_at_every_moment(parts: list[list[int]]) -> None:
    total = steps.joined(of_list(values) for values in parts)
    assert held_at(total) == [sum(values[tick] for values in parts) for tick in range(HORIZON)]
    assert in_order(total)


def test_many_holdings_are_not_added_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "add", None)  # would be O(spans) for each
    many = [((10 * k, 10 * k + 5, 1),) for k in range(20_000)]
    assert steps.joined(many) == tuple(span for (span,) in many)


@given(amounts, windows)
def test_within_and_least(values: list[int], window: tuple[int, int]) -> None:
    start, end = window
    spans = of_list(values)
    assert held_at(steps.canonical(list(steps.within(spans, start, end)))) == [
        v if start <= tick < end else 0 for tick, v in enumerate(values)
    ]
    assert steps.least(spans, start, end) == min(values[start:end])


@given(amounts, windows, st.integers(0, 3), st.integers(1, 5))
def test_whole_returns_exactly_the_moments_that_reach_the_size(
    values: list[int], window: tuple[int, int], extra: int, size: int
) -> None:
    start, end = window
    found = steps.whole(of_list(values), start, end, extra, size)
    ticks = {tick for s, e in found for tick in range(s, e)}
    assert ticks == {tick for tick in range(start, end) if values[tick] + extra == size}
    assert all(a[1] < b[0] for a, b in itertools.pairwise(found))
