"""The result of visiting a vertex: candidates below it by type, with scores, and the number chosen.

Fluxion sorts candidates by score with an unstable sort, libstdc++'s `std::sort`, which decides between equal scores. Up to 16
candidates it is an insertion sort, which is stable; above, the order of equal ones is whatever introsort leaves, and it
determines the nodes of jobs. The steps here are those of the library: median of three moved to the front, unguarded partition,
heap sort if the recursion is too deep, one insertion sort at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from fluxres.fluxion.graph import Edge


@dataclass(slots=True)
class Candidate:
    """A vertex that matched, or a slot of several.

    Args:
        score: compared by policies.
        count: units of the vertex, or one slot.
        edges: the edges that lead to it, with the units that it takes and whether exclusively.
        is_hollow: whether something in it was found that its marks do not lead to.
    """

    score: int
    count: int
    edges: tuple[tuple[Edge, int, bool], ...]
    is_hollow: bool = False


@dataclass(slots=True)
class Scores:
    """Candidates below one vertex, by type in the order first found; also the units and score of the child visited last."""

    found: dict[str, list[Candidate]] = field(default_factory=dict)
    chosen: dict[str, int] = field(default_factory=dict)
    """Number of candidates of a type that were taken; missing if no number was requested."""
    available: int = 0
    score: int = -1
    is_hollow: bool = False

    def add(self, type_: str, candidate: Candidate) -> None:
        held = self.found.get(type_)
        if held is None:
            self.found[type_] = [candidate]
        else:
            held.append(candidate)

    def total(self, type_: str) -> int:
        """Units of all candidates of a type."""
        return sum(candidate.count for candidate in self.found.get(type_, ()))

    def merge(self, other: Scores) -> None:
        """Merge the result of the level below, where no number was requested."""
        for type_, candidates in other.found.items():
            self.found.setdefault(type_, []).extend(candidates)

    def sort(self, type_: str, key: Callable[[int], int]) -> None:
        """Sort the candidates of a type by a key of their score; equal ones end up as with `std::sort`."""
        candidates = self.found.get(type_, [])
        keys = [key(candidate.score) for candidate in candidates]
        if len(keys) <= _THRESHOLD or len(set(keys)) == len(keys):
            order = sorted(range(len(keys)), key=keys.__getitem__)
        else:
            order = list(range(len(keys)))
            std_sort(order, lambda one, other: keys[one] < keys[other])
        candidates[:] = [candidates[position] for position in order]

    def choose(self, type_: str, units: int) -> None:
        """Take candidates from the front until they have enough units."""
        taken = 0
        candidates = self.found.get(type_, [])
        while units > 0 and taken < len(candidates):
            units -= candidates[taken].count
            taken += 1
        self.chosen[type_] = taken

    def picked(self) -> Iterator[Candidate]:
        for type_, taken in self.chosen.items():
            yield from self.found.get(type_, ())[:taken]

    def mark(self, token: int) -> bool:
        """Mark the edges of the chosen candidates with the token of this match; returns whether any of them is hollow."""
        is_hollow = False
        for candidate in self.picked():
            is_hollow |= candidate.is_hollow
            for edge, needs, exclusive in candidate.edges:
                edge.mark(needs, exclusive, token)
        return is_hollow

    def bundles(self, type_: str, per_share: int) -> Iterator[list[Candidate]]:
        """Candidates in order, collected into bundles of enough units each; the surplus of a bundle is lost."""
        bundle: list[Candidate] = []
        units = 0
        for candidate in self.found.get(type_, ()):
            bundle.append(candidate)
            units += candidate.count
            if units >= per_share:
                yield bundle
                bundle, units = [], 0


# -- std::sort ---------------------------------------------------------------------------------------------------------

T = TypeVar("T")
Before = Callable[[T, T], bool]

_THRESHOLD = 16  # up to this length std::sort is stable


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
