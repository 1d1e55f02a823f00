"""What a resource of a HyperQueue worker can be: labels, labels in groups, or an amount.

Ranges and `NxM` stay the two numbers that they are: the labels of `range(0-999999999)` exist while somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload


@dataclass(frozen=True, slots=True)
class Range:
    """Labels that are the numbers from `start` to `end`, both included."""

    start: int
    end: int

    def __len__(self) -> int:
        return max(self.end - self.start + 1, 0)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.start, self.end + 1))


@dataclass(frozen=True, slots=True)
class Listed:
    """Labels one by one, in the order of their definition."""

    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)


Labels = Range | Listed


@dataclass(frozen=True, slots=True)
class Grid(Sequence[Range]):
    """A number of groups with a number of labels each, numbered through from 0: what `NxM` says, at the price of two numbers."""

    number: int
    each: int

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, at: int) -> Range: ...
    @overload
    def __getitem__(self, at: slice) -> list[Range]: ...
    def __getitem__(self, at: int | slice) -> Range | list[Range]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(self.number))]
        if not -self.number <= at < self.number:
            raise IndexError(at)
        start = at % self.number * self.each
        return Range(start, start + self.each - 1)


@dataclass(frozen=True, slots=True)
class Groups:
    """Labels in groups, such as the cores of sockets; at least two groups.  ``hyperqueue.grouped`` makes them."""

    groups: tuple[Labels, ...] | Grid

    def __len__(self) -> int:
        return self.groups.number * self.groups.each if isinstance(self.groups, Grid) else sum(map(len, self.groups))

    def __iter__(self) -> Iterator[str]:
        return (label for group in self.groups for label in group)


@dataclass(frozen=True, slots=True)
class Sum:
    """An amount without identity; ten-thousandths of a unit."""

    amount: int


Kind = Labels | Groups | Sum


@dataclass(frozen=True, slots=True)
class Pool:
    """One resource of a worker.

    >>> Pool("cpus", Groups(Grid(2, 4))).kind.groups[1]
    Range(start=4, end=7)
    """

    name: str
    kind: Kind
