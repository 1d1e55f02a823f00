"""Slots that are alternatives."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import LimitExceeded
from fluxres.fluxion import traverser
from fluxres.fluxion.jobspec import Count, Resource
from tests.fluxion.conftest import Start, ask, grug

SOCKETS = grug((("cluster", "socket", 2, 0), ("socket", "core", 6, 0), ("socket", "gpu", 1, 0)))


def test_sibling_slots_may_be_mixed(start: Start) -> None:
    session = start("-T", "flexible", "-P", "high", graph=SOCKETS)
    either = (ask("slot", 2, ask("core", 4)), ask("slot", 2, ask("core", 2), ask("gpu", 1)))
    # Each socket makes one slot of either kind; those of four cores have the larger scores.
    assert session.taken(*either) == ["core2", "core3", "core4", "core5"] * 2
    assert session.taken(*either) == ["core0", "core1", "gpu0"] * 2
    assert session.taken(*either) == ["busy"]


def test_the_first_variant_that_matches_is_taken(start: Start) -> None:
    session = start("-T", "flexible", "-P", "low", graph=SOCKETS)
    either = (ask("xor_slot", 1, ask("core", 5)), ask("xor_slot", 2, ask("core", 1)))
    sizes = [len(session.taken(*either)) for _ in range(3)]
    assert sizes == [5, 5, 2]
    assert session.taken(*either) == ["busy"]
    assert session.taken(*either, op="allocate_with_satisfiability") == ["busy"]
    assert "AT=100" in session.match(*either, op="allocate_orelse_reserve")


def test_choices_may_be_nested(start: Start) -> None:
    session = start("-T", "flexible", "-P", "low", graph=SOCKETS)
    inner = ask("xor_slot", 1, ask("core", 9)), ask("xor_slot", 1, ask("core", 2), ask("gpu", 1))
    assert session.taken(ask("socket", 1, *inner)) == ["core0", "core1", "gpu0"]


def test_simple_traverser_has_no_alternatives(start: Start) -> None:
    session = start("-P", "low", graph=SOCKETS)
    assert session.taken(ask("xor_slot", 1, ask("core", 1))) == ["busy"]


def test_variants_are_bounded() -> None:
    pick = [Resource("xor_slot", Count(1, 1), children=[Resource("core", Count(number, number))]) for number in (1, 2)]
    level = pick
    for _ in range(8):
        level = [Resource("node", Count(1, 1), children=level), Resource("socket", Count(1, 1), children=pick)]
    assert len(traverser.expand(level)) == 2**9 <= limits.VARIANTS_MAX < 2**10
    with pytest.raises(LimitExceeded):
        traverser.expand([*level, Resource("gpu", Count(1, 1), children=pick)])


needs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any), min_size=1, max_size=3)


@given(st.tuples(st.integers(0, 6), st.integers(0, 6)), needs)
def test_mix_has_the_most_slots(have: tuple[int, int], choices: list[tuple[int, int]]) -> None:
    def fits(mix: tuple[int, ...]) -> bool:
        return all(sum(choices[number][side] for number in mix) <= have[side] for side in (0, 1))

    found = traverser._most(have, choices)
    assert fits(found)
    longer = combinations_with_replacement(range(len(choices)), len(found) + 1)
    assert not any(map(fits, longer))
    equal = combinations_with_replacement(range(len(choices)), len(found))
    assert found == next(mix for mix in equal if fits(mix))


def test_mixes_are_bounded() -> None:
    alone = traverser._most((10 * limits.SLOTS_MIXED_MAX,), [(1,), (2,)])
    assert alone == (0,) * limits.SLOTS_MIXED_MAX
    # Twelve alternatives of twelve types make more than MIXES_MAX mixes from the sixth slot on.
    twelve = [tuple(int(side == number) for side in range(12)) for number in range(12)]
    assert traverser._most((2,) * 12, twelve) == tuple(sorted([*range(12)] * 2))
    assert comb(6 + 12 - 1, 6) > limits.MIXES_MAX
