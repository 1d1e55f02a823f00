"""Bitmaps behave like sets of integers, and may be infinite."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.hwloc._library import HwLocError
from fluxres.hwloc.bitmap import Bitmap, compare_first

NUMBERS = st.sets(st.integers(0, 300), max_size=40)


@given(NUMBERS, NUMBERS)
def test_operations_agree_with_python_sets(a: set[int], b: set[int]) -> None:
    left, right = Bitmap.from_sched_set(a), Bitmap.from_pyseq(iter(b))
    assert (left | right).to_sched_set() == a | b
    assert (left & right).to_sched_set() == a & b
    assert (left ^ right).to_sched_set() == a ^ b
    assert left.andnot(right).to_sched_set() == a - b
    assert left.intersects(right) == bool(a & b)
    assert left.is_included(right) == (a <= b)
    assert (left == right) == (a == b)
    assert (left != right) == (a != b)
    assert (left.weight(), left.first(), left.last()) == (len(a), min(a, default=-1), max(a, default=-1))
    assert list(left) == sorted(a)
    assert left.any() == bool(a) != left.is_zero()
    assert all(left[number] == (number in left) == (number in a) for number in range(310))
    # The order is that of binary numbers: the highest bit in which they differ decides.
    highest = max(a ^ b, default=-1)
    assert (left < right) == (highest in b) == (right > left)
    assert (left <= right) == (highest not in a)
    assert (left >= right) == (highest not in b)
    first = (min(a, default=10**9), min(b, default=10**9))
    assert (compare_first(left, right) > 0) == (first[0] > first[1])


@given(NUMBERS)
def test_text_formats_round_trip(numbers: set[int]) -> None:
    made = Bitmap.from_sched_set(numbers)
    assert Bitmap.from_string(made.to_string()) == made
    assert Bitmap.from_list_string(made.to_list_string()) == made
    assert Bitmap.from_taskset_string(made.to_taskset_string()) == made
    assert str(made) == made.to_list_string()
    assert repr(made) == f"Bitmap({made.to_list_string()!r})"
    assert pickle.loads(pickle.dumps(made)) == made
    assert int(made.to_taskset_string(), 16) == sum(1 << number for number in numbers)


@given(NUMBERS, st.integers(0, 300), st.integers(0, 300))
def test_changes_in_place(numbers: set[int], bit: int, other: int) -> None:
    made, begin, end = Bitmap.from_sched_set(numbers), min(bit, other), max(bit, other)
    made.set(bit)
    assert made.to_sched_set() == numbers | {bit}
    made.clr(bit)
    assert made.to_sched_set() == numbers - {bit}
    made.set_range(begin, end)
    assert made.to_sched_set() == numbers | {*range(begin, end + 1)}
    made.clear_range(begin, end)
    assert made.to_sched_set() == numbers - {*range(begin, end + 1)}
    made[other] = True
    assert other in made
    made[other] = False
    assert other not in made
    made.only(bit)
    assert made.to_sched_set() == {bit}
    made.zero()
    assert made.is_zero()


def test_infinite_bitmaps() -> None:
    full = Bitmap.full()
    assert full.is_full()
    assert (full.weight(), full.last(), full.first()) == (-1, -1, 0)
    assert full.to_string() == "0xf...f"
    with pytest.raises(ValueError, match="an infinite bitmap"):
        full.to_sched_set()
    full.allbut(5)
    assert list(full.iter_unset()) == [5]
    assert (~full).to_sched_set() == {5}
    tail = Bitmap()
    tail.set_range(4, -1)
    assert tail == Bitmap.from_list_string("4-")
    assert pickle.loads(pickle.dumps(tail)) == tail
    tail.fill()
    assert tail == Bitmap.full()
    tail.singlify()
    assert tail.to_sched_set() == {0}


def test_64_bit_masks() -> None:
    assert Bitmap.from_ulong(0b1011).to_sched_set() == {0, 1, 3}
    assert Bitmap.from_ulongs([1, 2]).to_sched_set() == {0, 65}
    assert Bitmap.from_ith_ulong(2, 1).to_sched_set() == {128}


def test_copies_are_independent() -> None:
    made = Bitmap.from_sched_set({1, 2})
    for other in (copy.copy(made), copy.deepcopy(made)):
        other.set(9)
        assert made.to_sched_set() == {1, 2}
        assert other.to_sched_set() == {1, 2, 9}


def test_invalid_indexes_texts_and_comparisons() -> None:
    made = Bitmap()
    for wrong in (-1, limits.BITMAP_INDEX_MAX + 1):
        for change in (made.set, made.clr, made.only, made.allbut):
            with pytest.raises(ValueError, match="index"):
                change(wrong)
    for text in ("0,99999999", "5-999999999999999999999999"):
        with pytest.raises(ValueError, match="index"):
            Bitmap.from_list_string(text)
    with pytest.raises(HwLocError, match="status: -1"):
        Bitmap.from_string("nonsense")
    with pytest.raises(TypeError, match="Expecting Bitmap"):
        _ = made == 3
    with pytest.raises(TypeError, match="Expecting Bitmap"):
        _ = made < "0"
    with pytest.raises(TypeError):
        hash(made)
    assert -1 not in made


def test_threads_can_share_a_bitmap() -> None:
    made = Bitmap()

    def change(start: int) -> None:
        for number in range(start, 40_000, 4):
            made.set(number)
            assert number in made

    threads = [threading.Thread(target=change, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made.weight() == 40_000
