"""Sets of ids as text: `0-3,7` (Flux RFC 22).

The parser is as strict as flux-core's own decoder, so that an idset that Flux refuses does not fail later, inside a job: ids
ascend and do not repeat, and there are no blanks, signs or leading zeros. Like flux-core, it ignores empty fields (`1,,2`). A
set is stored as ranges until its members are requested, so `0-999999999` is refused without using a gigabyte. :class:`IDset`
is such a set as a value, with the operations of flux-core's class of this name.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
from typing import SupportsIndex

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.errors import InputError, LimitExceeded, UsageError

Ranges = tuple[tuple[int, int], ...]
"""Ranges with both ends included, ascending, with a gap between any two."""
_FIELD = re.compile(r"(0|[1-9][0-9]*)(?:-(0|[1-9][0-9]*))?")


def parse(text: str) -> list[int]:
    """The members of an idset, ascending.

    Args:
        text: RFC 22 idset, with or without brackets; the empty text is the empty set.

    Cost O(members). Errors: InputError with the column; LimitExceeded beyond `limits.IDSET_COUNT_MAX` members.
    Source: RFC 22, Idset Format.

    >>> parse("0-3,7"), parse("[1,5]"), parse("")
    ([0, 1, 2, 3, 7], [1, 5], [])
    """
    spans = ranges(text)
    count = sum(last - first + 1 for first, last in spans)
    if count > limits.IDSET_COUNT_MAX:
        raise LimitExceeded(f"idset has {count} members, more than {limits.IDSET_COUNT_MAX}", where="idset:1")
    return [member for first, last in spans for member in range(first, last + 1)]


def ranges(text: str) -> list[tuple[int, int]]:
    """The ranges of an idset as written, both ends included, without expanding them.

    Cost O(length of the text). Errors: InputError with the column.

    >>> ranges("0-3,4,9-1000000000")
    [(0, 3), (4, 4), (9, 1000000000)]
    """
    start, end = _inside_brackets(text)
    found: list[tuple[int, int]] = []
    previous = -1
    column = start + 1
    for field in text[start:end].split(","):
        if field:
            first, last = _range(field, column)
            if first <= previous:
                raise InputError(
                    f"expected ids in ascending order without repeats, got {first} after {previous}", where=_at(column)
                )
            found.append((first, last))
            previous = last
        column += len(field) + 1
    return found


def format(ids: Iterable[int], brackets: bool = False, *, ranges: bool = True) -> str:  # noqa: A001 - read as idset.format
    """Ids as idset text.

    Args:
        ids: in any order; repeats count once, and NumPy integers are accepted.
        brackets: put `[ ]` around more than one id, as in RFC 29 host names.
        ranges: write runs as `lo-hi`.

    Cost O(n log n). Errors: UsageError for a negative id.

    >>> format([7, 2, 1, 0]), format([0, 1], brackets=True), format([5], brackets=True), format([0, 1], ranges=False)
    ('0-2,7', '[0-1]', '5', '0,1')
    """
    members = sorted({int(member) for member in ids})
    if members and members[0] < 0:
        raise UsageError(f"idset: expected ids of at least 0, got {members[0]}")
    text = ",".join(_runs(members)) if ranges else ",".join(map(str, members))
    return f"[{text}]" if brackets and len(members) > 1 else text


class IDset(Collection[int]):
    """An immutable set of ids, stored as ranges.

    Args:
        ids: RFC 22 text, one id, ids in any order, or another IDset. Every parameter for ids accepts all these forms.

    It has the operators of a set (`|`, `&`, `-`, `^`, `in`, `<=`, `len`, iteration in ascending order) and the operations of
    flux-core by name.  Cost of an operation: O(ranges), except iteration.
    Errors: InputError with the column; UsageError for anything that is not an id >= 0; LimitExceeded above `limits.ID_MAX`.

    >>> ids = IDset("0-3,7")
    >>> str(ids | [4, 5]), str(ids & "2-9"), str(ids - 1), 7 in ids, len(ids)
    ('0-5,7', '2-3,7', '0,2-3,7', True, 5)
    >>> ids.first(), ids.last(), ids.next(3), ids.prev(0)
    (0, 7, 7, None)
    """

    __slots__ = ("_ranges",)
    _ranges: Ranges

    def __init__(self, ids: Ids = ()) -> None:
        if isinstance(ids, IDset):
            self._ranges = ids._ranges
        elif isinstance(ids, str):
            self._ranges = joined(ranges(ids))
        else:
            members = ids if isinstance(ids, Iterable) else [ids]
            self._ranges = joined((id_, id_) for id_ in map(_id, members))

    @classmethod
    def of_ranges(cls, spans: Iterable[tuple[int, int]]) -> IDset:
        """The set of the ids in ranges, both ends included, in any order; the ranges may overlap."""
        made = cls()
        made._ranges = joined((_id(first), _id(last)) for first, last in spans if last >= first)
        return made

    def ranges(self) -> Ranges:
        """Its ranges, both ends included, ascending, with a gap between any two."""
        return self._ranges

    def first(self) -> int | None:
        """The smallest id, None for an empty set."""
        return self._ranges[0][0] if self._ranges else None

    def last(self) -> int | None:
        """The largest id, None for an empty set."""
        return self._ranges[-1][1] if self._ranges else None

    def next(self, after: int) -> int | None:
        """The smallest id greater than `after`, None if there is none."""
        at = bisect_right(self._ranges, after, key=itemgetter(1))
        return max(self._ranges[at][0], after + 1) if at < len(self._ranges) else None

    def prev(self, before: int) -> int | None:
        """The largest id less than `before`, None if there is none."""
        at = bisect_left(self._ranges, before, key=itemgetter(0))
        return min(self._ranges[at - 1][1], before - 1) if at else None

    def union(self, *others: Ids) -> IDset:
        """The ids in this set or any of the others.

        >>> str(IDset("0-1").union("3-4", 2))
        '0-4'
        """
        return IDset.of_ranges([*self._ranges, *(span for other in others for span in IDset(other)._ranges)])

    def intersect(self, *others: Ids) -> IDset:
        """The ids in this set and all of the others.

        >>> str(IDset("0-10").intersect("0-5", "3-20"))
        '3-5'
        """
        made = IDset(self)
        for other in others:
            made._ranges = _overlap(made._ranges, IDset(other)._ranges)
        return made

    def difference(self, *others: Ids) -> IDset:
        """The ids in this set and none of the others.

        >>> str(IDset("0-10").difference("5-7", "1-3"))
        '0,4,8-10'
        """
        made = IDset()
        made._ranges = _without(self._ranges, made.union(*others)._ranges)
        return made

    def encode(self, brackets: bool = False) -> str:
        """The set as RFC 22 text, optionally with brackets around more than one id.

        >>> IDset([0, 1, 5]).encode(brackets=True), str(IDset([]))
        ('[0-1,5]', '')
        """
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self._ranges)
        return f"[{text}]" if brackets and len(self) > 1 else text

    def __contains__(self, id_: object) -> bool:
        if not isinstance(id_, SupportsIndex):
            return False
        number = operator.index(id_)
        at = bisect_right(self._ranges, number, key=itemgetter(0))
        return at > 0 and number <= self._ranges[at - 1][1]

    def __iter__(self) -> Iterator[int]:
        return (member for first, last in self._ranges for member in range(first, last + 1))

    def __reversed__(self) -> Iterator[int]:
        return (member for first, last in reversed(self._ranges) for member in range(last, first - 1, -1))

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __eq__(self, other: object) -> bool:
        return self._ranges == other._ranges if isinstance(other, IDset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._ranges)

    def __le__(self, other: Ids) -> bool:
        return not self.difference(other)

    def __ge__(self, other: Ids) -> bool:
        return not IDset(other).difference(self)

    def __or__(self, other: Ids) -> IDset:
        return self.union(other)

    def __and__(self, other: Ids) -> IDset:
        return self.intersect(other)

    def __sub__(self, other: Ids) -> IDset:
        return self.difference(other)

    def __xor__(self, other: Ids) -> IDset:
        return self.difference(other).union(IDset(other).difference(self))

    def __str__(self) -> str:
        return self.encode()

    def __repr__(self) -> str:
        return f"IDset({self.encode()!r})"


Ids = str | SupportsIndex | Iterable[SupportsIndex]
"""Arguments of an IDset: RFC 22 text, one id, or ids in any order."""


def _id(value: SupportsIndex) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"idset: expected ids, got {shown(value)}") from None
    if number < 0:
        raise UsageError(f"idset: expected ids of at least 0, got {shown(number)}")
    if number > limits.ID_MAX:
        raise LimitExceeded(f"expected an id up to {limits.ID_MAX}, got {shown(number)}", where="idset")
    return number


def joined(spans: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in ascending order, with adjacent and overlapping ones joined.

    >>> joined([(7, 7), (0, 2), (2, 4), (5, 5)])
    ((0, 5), (7, 7))
    """
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def _overlap(one: Ranges, other: Ranges) -> Ranges:
    found = []
    i = j = 0
    while i < len(one) and j < len(other):
        first, last = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if first <= last:
            found.append((first, last))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _without(one: Ranges, other: Ranges) -> Ranges:
    found = []
    j = 0
    for first, last in one:
        while j < len(other) and other[j][1] < first:
            j += 1
        k = j
        while k < len(other) and other[k][0] <= last:
            if other[k][0] > first:
                found.append((first, other[k][0] - 1))
            first = other[k][1] + 1
            k += 1
        if first <= last:
            found.append((first, last))
        j = max(j, k - 1)
    return tuple(found)


def _runs(members: list[int]) -> Iterable[str]:
    first = 0
    for last, member in enumerate(members):
        if last + 1 == len(members) or members[last + 1] != member + 1:
            yield str(member) if first == last else f"{members[first]}-{member}"
            first = last + 1


def _inside_brackets(text: str) -> tuple[int, int]:
    opened, closed = text.startswith("["), text.endswith("]")
    if opened != closed:
        raise InputError(f"expected both brackets or none, got {excerpt(text)}", where=_at(1 if opened else len(text)))
    return (1, len(text) - 1) if opened else (0, len(text))


def _range(field: str, column: int) -> tuple[int, int]:
    parts = _FIELD.fullmatch(field)
    if parts is None:
        raise InputError(
            f"expected an id or a range lo-hi, got {excerpt(field)}",
            where=_at(column),
            hint="digits only: no blanks, signs, leading zeros or inner brackets",
        )
    first = _number(parts[1], column)
    last = first if parts[2] is None else _number(parts[2], column)
    if parts[2] is not None and last <= first:
        message = f"expected a range from a lower id to a higher one, got {excerpt(field)}"
        raise InputError(message, where=_at(column), hint=f"write {last}" if first == last else f"write {last}-{first}")
    return first, last


def _number(digits: str, column: int) -> int:
    # int() refuses very long digit strings with a different error.
    if len(digits) > 19 or int(digits) > limits.ID_MAX:
        raise LimitExceeded(f"expected an id up to {limits.ID_MAX}, got {excerpt(digits)}", where=_at(column))
    return int(digits)


def _at(column: int) -> str:
    return f"idset:{column}"
