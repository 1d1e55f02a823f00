"""Sort in the order of libstdc++'s `std::sort`, which decides between equal scores.

Fluxion sorts candidates by score with an unstable sort. Up to 16 candidates it is an insertion sort, which is stable; above, the
order of equal ones is whatever introsort leaves, and it determines the nodes of jobs. The steps are those of the library: median
of three moved to the front, unguarded partition, heap sort if the recursion is too deep, one insertion sort at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
Before = Callable[[T, T], bool]

_THRESHOLD = 16


def std_sort(items: list[T], before: Before[T]) -> None:
    """Sort in place as `std::sort(begin, end, before)` does.

    Args:
        items: what to sort.
        before: a strict weak order.

    Cost O(n log n).

    >>> pairs = [(1, "a"), (2, "b"), (1, "c")]
    >>> std_sort(pairs, lambda one, other: one[0] > other[0])
    >>> pairs
    [(2, 'b'), (1, 'a'), (1, 'c')]
    """
    if len(items) < 2:
        return
    _introsort(items, 0, len(items), 2 * (len(items).bit_length() - 1), before)
    if len(items) <= _THRESHOLD:
        _insertion(items, 0, len(items), before)
        return
    _insertion(items, 0, _THRESHOLD, before)
    for position in range(_THRESHOLD, len(items)):
        _insert(items, position, before)


def _introsort(items: list[T], first: int, last: int, depth: int, before: Before[T]) -> None:
    # The library recurses only into the right part, at most `depth` deep.
    while last - first > _THRESHOLD:
        if depth == 0:
            items[first:last] = _heap_sorted(items[first:last], before)
            return
        depth -= 1
        cut = _partition(items, first, last, before)
        _introsort(items, cut, last, depth, before)
        last = cut


def _partition(items: list[T], first: int, last: int, before: Before[T]) -> int:
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    if before(items[a], items[b]):
        median = b if before(items[b], items[c]) else c if before(items[a], items[c]) else a
    else:
        median = a if before(items[a], items[c]) else c if before(items[b], items[c]) else b
    items[first], items[median] = items[median], items[first]
    pivot, low, high = items[first], first + 1, last
    while True:
        while before(items[low], pivot):
            low += 1
        high -= 1
        while before(pivot, items[high]):
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


def _insertion(items: list[T], first: int, last: int, before: Before[T]) -> None:
    for position in range(first + 1, last):
        if before(items[position], items[first]):
            items.insert(first, items.pop(position))
        else:
            _insert(items, position, before)


def _insert(items: list[T], position: int, before: Before[T]) -> None:
    item, target = items[position], position
    while before(item, items[target - 1]):
        target -= 1
    if target != position:
        items.insert(target, items.pop(position))


def _heap_sorted(items: list[T], before: Before[T]) -> list[T]:
    for parent in range(len(items) // 2 - 1, -1, -1):
        _adjust(items, parent, len(items), items[parent], before)
    for end in range(len(items) - 1, 0, -1):
        value, items[end] = items[end], items[0]
        _adjust(items, 0, end, value, before)
    return items


def _adjust(items: list[T], hole: int, length: int, value: T, before: Before[T]) -> None:
    top, child = hole, hole
    while child < (length - 1) // 2:
        child = 2 * (child + 1)
        if before(items[child], items[child - 1]):
            child -= 1
        items[hole] = items[child]
        hole = child
    if length % 2 == 0 and child == (length - 2) // 2:
        child = 2 * (child + 1)
        items[hole] = items[child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and before(items[parent], value):
        items[hole] = items[parent]
        hole, parent = parent, (parent - 1) // 2
    items[hole] = value
