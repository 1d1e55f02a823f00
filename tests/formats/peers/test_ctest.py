"""CTest's packing: an assignment is found if there is one, in CTest's order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import LimitExceeded
from fluxres.formats.peers.ctest import groups as ctest_groups
from fluxres.formats.peers.ctest.allocator import Slots, Strategy, pack, place

NEEDED = st.lists(st.integers(0, 6), max_size=5)
FREE = st.dictionaries(st.sampled_from("0123"), st.integers(0, 8), max_size=4)


def fits(needed: list[int], free: dict[str, int]) -> bool:
    """Whether any assignment places everything; all are tried."""
    for way in itertools.product(free, repeat=len(needed)):
        if all(sum(slots for slots, name in zip(needed, way, strict=True) if name == each) <= free[each] for each in free):
            return True
    return False


@settings(max_examples=300)
@given(NEEDED, FREE, st.sampled_from(["round-robin", "block"]))
def test_packing_is_found_if_and_only_if_there_is_one(needed: list[int], free: dict[str, int], strategy: Strategy) -> None:
    found = pack(needed, free, strategy)
    assert (found is not None) is fits(needed, free)
    if found is not None:
        for name, slots in free.items():
            assert sum(need for need, given_to in zip(needed, found, strict=True) if given_to == name) <= slots


def test_round_robin_spreads_and_block_fills() -> None:
    free = dict.fromkeys("abcd", 4)
    assert pack([2] * 4, free) == ["a", "b", "c", "d"]
    assert pack([2] * 4, free, "block") == ["a", "a", "b", "b"]


def test_choice_is_undone_if_the_largest_first_would_fail() -> None:
    assert pack([3, 3, 2, 2, 2], {"a": 6, "b": 6}) == ["a", "a", "b", "b", "b"]


def test_undecided_searches_are_reported() -> None:
    # Even numbers take at most 100 of 101 slots, which totals do not show.
    needed = [10 + 2 * (number % 16) for number in range(40)]
    needed[0] += 1002 - sum(needed)
    assert needed[0] % 2 == 0
    with pytest.raises(LimitExceeded, match="undecided"):
        pack(needed, {str(number): 101 for number in range(10)})


def test_a_long_list_of_small_requirements_is_placed() -> None:
    found = pack([1] * 3000, {str(number): 30 for number in range(100)})
    assert found is not None
    assert {found.count(name) for name in set(found)} == {30}


def test_a_process_gets_all_its_types_or_nothing() -> None:
    groups = ctest_groups.parse("2,gpus:1,fpgas:1")
    assert place(groups, {"gpus": {"0": 2}, "fpgas": {"f": 1}}) is None
    assert place(groups, {"gpus": {"0": 2}}) is None
    assert place(groups, {"gpus": {"0": 2}, "fpgas": {"f": 1, "g": 1}}) == [
        {"gpus": [("0", 1)], "fpgas": [("f", 1)]},
        {"gpus": [("0", 1)], "fpgas": [("g", 1)]},
    ]
    assert place([], {}) == []
    with pytest.raises(LimitExceeded):
        place(ctest_groups.parse("1000000000,gpus:1"), {"gpus": {"0": 2}})


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["0", "1", "x"]), st.integers(-1, 5)), max_size=20))
def test_allocations_never_exceed_the_machine(steps: list[tuple[bool, str, int]]) -> None:
    slots, taken = Slots({"gpus": {"0": 4, "1": 0}}), {"0": 0, "1": 0}
    for is_take, name, count in steps:
        sign = 1 if is_take else -1
        can = name in taken and count >= 0 and 0 <= taken[name] + sign * count <= (4 if name == "0" else 0)
        assert (slots.take if is_take else slots.give_back)("gpus", name, count) is can
        if can:
            taken[name] += sign * count
    assert slots.locked("gpus") == taken
    assert slots.free() == {"gpus": {"0": 4 - taken["0"], "1": 0}}
    assert not slots.take("fpgas", "0", 1)
