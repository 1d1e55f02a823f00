"""Ranges of counts as text: `2-8:2:*` is 2, 4, 8; `2+` is two or more (Flux RFC 45).

A range is stored as its four numbers and never expanded: `1-4611686018427387903` is a valid request, and a matcher only needs
the largest acceptable count not above what is free, which is arithmetic. The syntax is as strict as flux-core's (no zero, no
leading zeros, no blanks, at most one pair of brackets) with one exception: an open range may have a step, as in the RFC's
grammar; flux-core's Python reader refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.errors import InputError, LimitExceeded

OPERATORS: Final = ("+", "*", "^")

_RANGE = re.compile(r"(?P<min>[1-9][0-9]*)(?:\+|-(?P<max>[1-9][0-9]*))?(?::(?P<operand>[1-9][0-9]*)(?::(?P<operator>[+*^]))?)?")
_HINT = "such as 2-8, 2+, 1-9:2 or 2-16:2:*; digits without blanks, signs or leading zeros"


class Range(msgspec.Struct, frozen=True):
    """Counts from `min` to `max` (None = unbounded): the next is `v operator operand`. `max` itself need not be reached.

    Errors: InputError for a combination of numbers that RFC 14 does not allow; LimitExceeded beyond `limits.COUNT_MAX`.

    >>> list(Range(2, 16, "^", 2).values(100)), 9 in Range(2, 16, "*", 2), Range(1, None, "+", 3).valid(12)
    ([2, 4, 16], False, 10)
    """

    min: int
    max: int | None
    operator: str = "+"
    operand: int = 1

    def __post_init__(self) -> None:
        _check_number("min", self.min)
        _check_number("operand", self.operand)
        if self.operator not in OPERATORS:
            raise InputError(f"expected an operator +, * or ^, got {shown(self.operator)}", where="range")
        if self.max is not None:
            _check_number("max", self.max)
            if self.max < self.min:
                raise InputError(f"expected max >= min {self.min}, got {self.max}", where="range")
        if self.operator != "+" and self.operand < 2:
            raise InputError(f"expected an operand >= 2 with operator {self.operator}, got {self.operand}", where="range")
        if self.operator == "^" and self.min < 2:
            raise InputError(f"expected min >= 2 with operator ^, got {self.min}", where="range")

    @property
    def contiguous(self) -> bool:
        """Whether it contains every count between its ends."""
        return (self.operator == "+" and self.operand == 1) or self.min == self.max

    def valid(self, available: int) -> int:
        """The largest count that is not above `available`, 0 if there is none. Cost: constant, or O(log available)."""
        most = available if self.max is None else min(available, self.max)
        if most < self.min:
            return 0
        if self.operator == "+":
            return most - (most - self.min) % self.operand
        value = self.min
        while (following := self._after(value, most)) is not None:
            value = following
        return value

    def values(self, most: int) -> Iterator[int]:
        """The counts up to `most`, ascending."""
        if self.max is not None:
            most = min(most, self.max)
        value: int | None = self.min if self.min <= most else None
        while value is not None:
            yield value
            value = self._after(value, most)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and value >= self.min and self.valid(value) == value

    def __str__(self) -> str:
        return format(self)

    def _after(self, value: int, most: int) -> int | None:
        """The count after `value`, if it is not above `most`."""
        if self.operator == "+":
            following = value + self.operand
        elif self.operator == "*":
            following = value * self.operand
        elif self.operand * (value.bit_length() - 1) > most.bit_length():
            return None  # the power would have millions of digits
        else:
            following = value**self.operand
        return following if following <= most else None


def parse(text: str) -> Range:
    """The range of a text; a single number is the range from that number to itself.

    Cost O(length). Errors: InputError; LimitExceeded beyond `limits.COUNT_MAX`. Source: RFC 45.

    >>> parse("2-8:2:*"), parse("[100+]")
    (Range(min=2, max=8, operator='*', operand=2), Range(min=100, max=None, operator='+', operand=1))
    """
    opened, closed = text.startswith("["), text.endswith("]")
    found = _RANGE.fullmatch(text, opened, max(opened, len(text) - closed)) if opened == closed else None
    if found is None:
        raise InputError(f"expected a range, got {excerpt(text)}", where="range", hint=_HINT)
    first = _number(found["min"])
    plus = found.end("min") < len(text) and text[found.end("min")] == "+"
    if not plus and found["max"] is None and found["operand"] is not None:
        raise InputError(f"expected min-max or min+ before the operand, got {excerpt(text)}", where="range", hint=_HINT)
    last = None if plus else _number(found["max"] or found["min"])
    return Range(first, last, found["operator"] or "+", _number(found["operand"] or "1"))


def format(range: Range, *, short: bool = True, brackets: bool = False) -> str:  # noqa: A001 - read as range.format
    """A range as text.

    Args:
        short: omit defaults: operator `+`, and with it operand 1.
        brackets: put `[ ]` around everything except a single count.

    >>> format(Range(1, 5, "+", 2)), format(Range(2, None), short=False), format(Range(3, 3), brackets=True)
    ('1-5:2', '2+:1:+', '3')
    """
    if range.min == range.max:
        return str(range.min)
    text = f"{range.min}+" if range.max is None else f"{range.min}-{range.max}"
    if not short or range.operator != "+":
        text += f":{range.operand}:{range.operator}"
    elif range.operand != 1:
        text += f":{range.operand}"
    return f"[{text}]" if brackets else text


def _number(digits: str) -> int:
    # int() refuses very long digit strings with a different error.
    if len(digits) > 19:
        raise LimitExceeded(f"expected a count up to {limits.COUNT_MAX}, got {excerpt(digits)}", where="range")
    return int(digits)


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"expected {name} to be a whole number of at least 1, got {shown(value)}", where="range")
    if value > limits.COUNT_MAX:
        raise LimitExceeded(f"expected {name} up to {limits.COUNT_MAX}, got {shown(value)}", where="range")
