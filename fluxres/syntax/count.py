"""How many: the counts of a request in all forms of Flux RFC 14.

An integer, an idset (`4,9,16`), a range (`2-8:2:*`) and a mapping of min, max, operator and operand all say which amounts
are acceptable, so they are one value here, equal when they were written differently but mean the same runs or steps.
Nothing is expanded.  A matcher asks two things: the largest acceptable amount of what is free, and the next smaller one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import idset
from fluxres.syntax import range as ranges
from fluxres.syntax.range import Range

_KEYS = ("min", "max", "operator", "operand")
_FORMS = "a whole number of at least 1, an idset, a range such as 2-8 or 2+, or a mapping of min, max, operator, operand"


@dataclass(frozen=True, slots=True)
class Count:
    """Acceptable amounts: the steps of one range, or several runs of numbers (ascending, disjoint, not touching).

    Make one with :func:`parse` or :func:`exactly`. Without steps and runs it is the count 0, which RFC 25 knows for gpus.

    >>> parse("2-16:2:*").valid(13), parse("4,9,16-20").valid(18), parse("4,9").valid(3)
    (8, 18, 0)
    """

    steps: Range | None
    runs: tuple[tuple[int, int], ...] = ()
    listed: bool = field(default=False, compare=False)
    """Whether it was written as an idset: its long form lists the members."""

    min: int = field(init=False, repr=False, compare=False)
    """The least acceptable amount."""
    max: int | None = field(init=False, repr=False, compare=False)
    """The upper bound as written, None when there is none; steps need not reach it."""
    fixed: int | None = field(init=False, repr=False, compare=False)
    """The amount, when only one is acceptable as written; else None."""

    def __post_init__(self) -> None:
        steps, runs = self.steps, self.runs
        least, most = (steps.min, steps.max) if steps else (runs[0][0], runs[-1][1]) if runs else (0, 0)
        for name, value in (("min", least), ("max", most), ("fixed", least if least == most else None)):
            object.__setattr__(self, name, value)

    @property
    def contiguous(self) -> bool:
        """Whether every amount from min to max is acceptable."""
        return self.steps.contiguous if self.steps else not self.runs

    def valid(self, available: int) -> int:
        """The largest acceptable amount that is not above `available`; 0 when there is none.

        Cost O(log available) for steps, O(log runs) for runs.
        """
        if self.steps:
            return self.steps.valid(available)
        at = bisect_right(self.runs, available, key=lambda run: run[0])
        return min(available, self.runs[at - 1][1]) if at else 0

    def values(self, limit: int) -> Iterator[int]:
        """The acceptable amounts up to `limit`, ascending; lazily, as they may be as many as `limit`."""
        if self.steps:
            yield from self.steps.values(limit)
        for first, last in self.runs:
            yield from range(first, min(last, limit) + 1)

    def descending(self, available: int) -> Iterator[int]:
        """The acceptable amounts not above `available`, largest first; lazily.

        >>> list(parse("2-16:2:*").descending(13))
        [8, 4, 2]
        """
        while (available := self.valid(available)) > 0:
            yield available
            available -= 1

    def __contains__(self, amount: object) -> bool:
        if not isinstance(amount, int) or isinstance(amount, bool) or amount < self.min:
            return False
        return self.valid(amount) == amount

    def __str__(self) -> str:
        return format(self)

    def to_mapping(self) -> dict[str, int | str]:
        """The mapping form: `min` alone when unbounded in steps of one, else with everything that has a value.

        Errors: InputError for several runs, which no mapping can say.

        >>> parse("3-30").to_mapping(), parse("2+").to_mapping()
        ({'min': 3, 'max': 30, 'operator': '+', 'operand': 1}, {'min': 2})
        """
        if self.steps is None:
            raise InputError(f"expected one range, got {excerpt(str(self))}", where="count", hint="a list has no mapping form")
        found: dict[str, int | str] = {"min": self.steps.min}
        if self.steps.max is not None:
            found["max"] = self.steps.max
        if len(found) > 1 or not self.steps.contiguous:
            found |= {"operator": self.steps.operator, "operand": self.steps.operand}
        return found

    def to_plain(self) -> int | str | dict[str, int | str]:
        """The canonical form in a jobspec: an integer, an idset text for lists, a mapping for ranges.

        >>> parse("4").to_plain(), parse("4,9").to_plain(), parse("4-9").to_plain()["max"]
        (4, '4,9', 9)
        """
        if self.fixed is not None:
            return self.fixed
        return self.to_mapping() if self.steps else format(self)


NOTHING = Count(None)
"""The count 0: `gpu` in jobspec V1 may ask for none."""


@lru_cache(maxsize=1024, typed=True)
def exactly(amount: int) -> Count:
    """The count that is one number. Errors: InputError below 1, LimitExceeded beyond `limits.COUNT_MAX`.

    >>> exactly(4) == parse("4") == parse("4-4") == parse({"min": 4, "max": 4})
    True
    """
    return Count(Range(amount, amount))


def parse(value: object, *, dialect: Literal["lenient", "rfc14", "fluxion"] = "lenient", open_steps: bool = True) -> Count:
    """A count from any form of RFC 14.

    Args:
        value: an integer, a text (integer, idset or range, with or without brackets), or a mapping.
        dialect: `lenient` fills in what a mapping leaves out, and takes one as JSON text too, like flux-core's commands;
            `rfc14` takes operator and operand together or not at all; `fluxion` takes no texts, and max, operator and
            operand together or not at all.
        open_steps: whether a count without max may have steps; flux-core's Python reader has no such counts.

    Cost O(length). Errors: InputError; LimitExceeded beyond `limits.COUNT_MAX`. Source: RFC 14, Resources; RFC 45.

    >>> parse({"min": 1, "max": 9, "operand": 3}).descending(8).__next__()
    7
    """
    if isinstance(value, str):
        if dialect == "fluxion":
            raise InputError(
                f"expected a whole number or a mapping, got {excerpt(value)}", where="count", hint="Fluxion reads no other"
            )
        found = _mapping(_json(value), dialect) if dialect == "lenient" and value.startswith("{") else _text(value)
    elif isinstance(value, Mapping):
        found = _mapping(value, dialect)
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        if value > limits.COUNT_MAX:
            raise LimitExceeded(f"expected a count up to {limits.COUNT_MAX}, got {shown(value)}", where="count")
        found = exactly(value)
    else:
        raise InputError(f"expected {_FORMS}; got {shown(value)}", where="count")
    if not open_steps and found.steps and found.max is None and not found.steps.contiguous:
        raise InputError(f"expected a max with operator and operand, got {excerpt(str(found))}", where="count")
    return found


def format(count: Count, *, short: bool = True, brackets: bool = False) -> str:  # noqa: A001 - read as count.format
    """A count as text.

    Args:
        short: runs as `lo-hi`, ranges without their defaults; else idsets list their members (LimitExceeded beyond
            `limits.IDSET_COUNT_MAX`) and ranges have operand and operator.
        brackets: put `[ ]` around all but a single number.

    >>> c = parse("1,7-9")
    >>> format(c), format(c, short=False), format(parse("2-5"), short=False), format(parse("2-5:1:+"), short=False)
    ('1,7-9', '1,7,8,9', '2,3,4,5', '2-5:1:+')
    """
    runs = count.runs or ((count.min, count.max or 0),)
    if count.steps and (short or not count.listed):
        return ranges.format(count.steps, short=short, brackets=brackets)
    if short:
        text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    else:
        members = sum(last - first + 1 for first, last in runs)
        if members > limits.IDSET_COUNT_MAX:
            raise LimitExceeded(f"count has {members} members, more than {limits.IDSET_COUNT_MAX}", where="count")
        text = ",".join(str(member) for first, last in runs for member in range(first, last + 1))
    return f"[{text}]" if brackets and count.fixed is None else text


def _text(text: str) -> Count:
    # As flux-core decodes: what reads as an idset is one, so that 2-5 and 2,3,4,5 are the same count.
    try:
        spans = idset.ranges(text)
    except LimitExceeded:
        raise LimitExceeded(f"expected a count up to {limits.COUNT_MAX}, got {excerpt(text)}", where="count") from None
    except InputError as no_idset:
        try:
            return _stepped(ranges.parse(text))
        except InputError as no_range:
            # The complaint of the language that was probably meant.
            if "," in text:
                raise _here(no_idset) from None
            if isinstance(no_range, LimitExceeded) or not set("-+:").isdisjoint(text):
                raise _here(no_range) from None
            raise InputError(f"expected {_FORMS}; got {excerpt(text)}", where="count") from None
    if not spans or spans[0][0] == 0:
        raise InputError(f"expected counts of at least 1, got {excerpt(text)}", where="count", hint=_FORMS)
    runs = idset.joined(spans)
    if len(runs) == 1:
        return Count(Range(*runs[0]), listed=True)
    return Count(None, runs, listed=True)


def _stepped(steps: Range) -> Count:
    # A single number is that number, whatever its step would have been.
    return exactly(steps.min) if steps.min == steps.max else Count(steps)


def _json(text: str) -> Mapping[Any, Any]:
    try:
        return dict(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise InputError(f"expected a mapping in JSON, got {excerpt(text)}", where="count", hint=str(error)) from None


def _mapping(given: Mapping[Any, Any], dialect: str) -> Count:
    unknown = [key for key in given if key not in _KEYS]
    if unknown or "min" not in given:
        what = f"unknown key {shown(unknown[0])}" if unknown else "expected the key 'min', which is missing"
        raise InputError(what, where="count", hint="min, and optionally max, operator and operand")
    stepped = {"operator", "operand"} & given.keys()
    if dialect != "lenient" and len(stepped) == 1:
        raise InputError(f"expected operator and operand together, got {min(stepped)} alone", where="count")
    if dialect == "fluxion" and len(given) not in (1, 4):
        raise InputError(
            "expected max, operator and operand together or none of them", where="count", hint="Fluxion reads no other"
        )
    if "max" in given and given["max"] is None:
        raise InputError(
            "expected max to be a whole number of at least 1, got null", where="count", hint="leave max out when there is none"
        )
    try:
        return _stepped(Range(given["min"], given.get("max"), given.get("operator", "+"), given.get("operand", 1)))
    except InputError as error:
        raise _here(error) from None


def _here(error: InputError) -> InputError:
    return type(error)(error.message, where="count", hint=error.hint)
