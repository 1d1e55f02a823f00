"""The groups that a request for amounts takes, compared with all choices."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.match.group_choice import GroupNeed, Pair, choose
from tests.choices import integers


@st.composite
def needs(draw: Any) -> GroupNeed:
    count = draw(integers(1, 5))
    free = draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    most_open = draw(st.lists(st.sampled_from([0, 0, 3000, 7000]), min_size=count, max_size=count))
    return GroupNeed(draw(integers(0, 6)), draw(st.sampled_from([0, 0, 2000, 8000])), tuple(free), tuple(most_open))


def best_of_all(wanted: Sequence[GroupNeed], weights: Mapping[Pair, float]) -> float | None:
    """The value of the best choice of groups."""
    ways = []
    for need in wanted:
        groups = range(len(need.free))
        subsets = itertools.chain.from_iterable(itertools.combinations(groups, size) for size in range(len(groups) + 1))
        ways.append([subset for subset in subsets if need.is_met(subset)])
    return max((worth(way, wanted, weights) for way in itertools.product(*ways)), default=None)


def worth(groups: Sequence[Sequence[int]], wanted: Sequence[GroupNeed], weights: Mapping[Pair, float]) -> float:
    """The value of a choice, as the sum that HyperQueue maximises."""
    alone = 0.0
    for need, chosen in zip(wanted, groups, strict=True):
        for group in chosen:
            serves = need.fraction and need.open[group] >= need.fraction
            alone -= 1024 - 16 * need.open[group] / 10_000 if serves else 1024 + need.free[group] / 32
    return alone + sum(
        weight for (a, i), (b, j) in weights for weight in [weights[(a, i), (b, j)]] if i in groups[a] and j in groups[b]
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(needs(), min_size=1, max_size=3), st.data())
def test_the_choice_of_groups_is_optimal(wanted: list[GroupNeed], data: st.DataObject) -> None:
    cells = [(number, group) for number, need in enumerate(wanted) for group in range(len(need.free))]
    pairs = list(itertools.combinations(cells, 2))
    weights: dict[Pair, float] = {}
    if pairs:
        weights = data.draw(st.dictionaries(st.sampled_from(pairs), st.sampled_from([1.0, 256.0, 3000.0]), max_size=5))
    found, best = choose(wanted, weights), best_of_all(wanted, weights)
    if found is None or best is None:
        assert found is best is None
        return
    assert found.worth == pytest.approx(best)
    assert found.worth == pytest.approx(worth(found.groups, wanted, weights))
    assert all(need.is_met(groups) for need, groups in zip(wanted, found.groups, strict=True))


def test_many_groups_are_chosen_in_bounded_time() -> None:
    weights: dict[Pair, float] = {((0, group), (1, group)): 256.0 for group in range(64)}
    found = choose([GroupNeed(40, 0, (2,) * 64, (0,) * 64), GroupNeed(20, 0, (1,) * 64, (0,) * 64)], weights)
    assert found is not None
    assert [len(groups) for groups in found.groups] == [20, 20]
    assert choose([GroupNeed(10**6, 0, (10**5,) * 64, (0,) * 64)], {}) is not None
