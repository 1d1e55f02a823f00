"""The order of equal items is libstdc++'s; the long lists below were sorted by it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluxres.fluxion.scores import std_sort

# 40 items with keys 3*i mod 5, and 120 with the worst possible medians of three, so that heap sort takes over.
FIFTHS = [
    17, 2, 37, 22, 7, 32, 27, 12, 9, 24, 14, 29, 19, 34, 4, 39, 21, 1, 26, 31, 36, 16, 11, 6, 18, 23, 38, 13, 28, 3, 8, 33, 0,
    20, 5, 35, 10, 30, 15, 25,
]  # fmt: skip
KILLER = [
    0, 2, 61, 60, 62, 63, 6, 4, 64, 65, 10, 8, 66, 67, 14, 12, 68, 69, 18, 16, 70, 71, 22, 20, 72, 73, 26, 24, 28, 30, 75, 74,
    77, 32, 76, 34, 79, 78, 36, 38, 42, 81, 40, 80, 46, 83, 44, 82, 50, 85, 48, 84, 54, 87, 52, 86, 58, 89, 56, 88, 90, 91, 1,
    3, 92, 7, 5, 93, 95, 94, 9, 11, 15, 97, 96, 13, 17, 19, 98, 99, 101, 100, 23, 21, 27, 25, 103, 102, 105, 104, 29, 31, 33,
    35, 106, 107, 37, 39, 108, 109, 41, 43, 110, 111, 112, 113, 45, 47, 49, 51, 114, 115, 116, 117, 53, 55, 59, 119, 118, 57,
]  # fmt: skip


def sorted_by(keys: list[int]) -> list[int]:
    """Positions in descending order of their keys."""
    order = list(range(len(keys)))
    std_sort(order, lambda one, other: keys[one] > keys[other])
    return order


def median_killer(count: int) -> list[int]:
    half = count // 2
    keys = [0] * count
    for number in range(1, half + 1):
        keys[number - 1] = number if number % 2 else half + number - 1
        keys[half + number - 1] = 2 * number
    return keys


def test_order_equals_that_of_the_library() -> None:
    assert sorted_by([number * 7 % 5 for number in range(40)]) == FIFTHS
    assert sorted_by([-key // 4 for key in median_killer(120)]) == KILLER


@given(st.lists(st.integers(0, 3), max_size=16))
def test_short_lists_keep_equal_items_in_order(keys: list[int]) -> None:
    assert sorted_by(keys) == sorted(range(len(keys)), key=lambda position: -keys[position])


@given(st.lists(st.integers(0, 30), max_size=300))
def test_long_lists_are_sorted_without_loss(keys: list[int]) -> None:
    order = sorted_by(keys)
    assert sorted(order) == list(range(len(keys)))
    assert [keys[position] for position in order] == sorted(keys, reverse=True)
