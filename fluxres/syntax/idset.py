"""Sets of ids as text: `0-3,7` (Flux RFC 22).

As strict as flux-core's own decoder, because an idset that Flux refuses must not first fail inside a job: ids ascend,
nothing is repeated, no blanks, signs or leading zeros.  Like flux-core it passes over empty fields (`1,,2`).  A set is kept
as ranges until somebody asks for members, so `0-999999999` costs a refusal and not a gigabyte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.syntax.excerpt import excerpt

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
        ids: in any order, repeats count once; NumPy integers are fine.
        brackets: put `[ ]` around more than one id, as in RFC 29 host names.
        ranges: write runs as `lo-hi`.

    Cost O(n log n). Errors: UsageError for a negative id.

    >>> format([7, 2, 1, 0]), format([0, 1], brackets=True), format([5], brackets=True), format([0, 1], ranges=False)
    ('0-2,7', '[0-1]', '5', '0,1')
    """
    members = sorted({int(member) for member in ids})
    if members and members[0] < 0:
        raise UsageError(f"idset: expected ids >= 0, got {members[0]}")
    text = ",".join(_runs(members)) if ranges else ",".join(map(str, members))
    return f"[{text}]" if brackets and len(members) > 1 else text


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
        raise InputError(f"expected lo < hi, got {excerpt(field)}", where=_at(column))
    return first, last


def _number(digits: str, column: int) -> int:
    # int() itself refuses very long digit strings, with an error of its own.
    if len(digits) > 19 or int(digits) > limits.ID_MAX:
        raise LimitExceeded(f"expected an id up to {limits.ID_MAX}, got {excerpt(digits)}", where=_at(column))
    return int(digits)


def _at(column: int) -> str:
    return f"idset:{column}"
