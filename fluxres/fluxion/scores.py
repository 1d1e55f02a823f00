"""The result of visiting a vertex: candidates below it by type, with scores, and the number chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fluxres.fluxion.graph import Edge
from fluxres.fluxion.sorting import std_sort

_STABLE = 16  # up to this length std::sort is stable


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
        """Add a candidate."""
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
        if len(keys) <= _STABLE or len(set(keys)) == len(keys):
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
        """The candidates chosen."""
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
