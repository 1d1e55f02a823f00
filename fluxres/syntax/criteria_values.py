"""The values of a comparison: how the tokens after an operator are read, by the kind of the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, LimitExceeded
from fluxres.syntax import hostlist
from fluxres.syntax.criteria_keys import Key, Kind
from fluxres.syntax.criteria_tokens import Token, at

Value = str | bool | tuple[int, int]
"""Text (a glob after `~`, a hostlist expression if a name has brackets); a flag; or a range of integers, ends included."""

_FLAGS: Final = {"true": True, "false": False}
_RANGE: Final = re.compile(r"(?P<low>[^-]*)(?:-(?P<high>.*))?", re.DOTALL)
_NUMBER: Final = re.compile(r"(?P<digits>0|[1-9][0-9]*)(?P<unit>[kK]|[MGT]|[KMGT]i)?", re.ASCII)
_UNITS: Final = {
    "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip


def values(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    """The values of `words` in `key op …`.

    Errors: InputError with the column of the word; LimitExceeded for a number beyond `limits.SIZE_MAX`.
    """
    if op in ("<", "<=", ">", ">=") and len(words) > 1:
        raise InputError(f"expected one value after {key.name}{op}, got {len(words)}", where=at(words[1].start))
    if op == "~":
        return _texts(words)
    return _READERS[key.kind](key, op, words)


def merged(ranges: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The same integers as sorted ranges with gaps between them.

    >>> merged([(7, 7), (0, 2), (2, 4), (5, 5)])
    ((0, 5), (7, 7))
    """
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return tuple(out)


def _texts(words: Sequence[Token]) -> tuple[Value, ...]:
    return tuple(word.text for word in words)


def _exact(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    return _texts(words)


def _names(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    found: list[Value] = []
    for word in words:
        items = hostlist.split(word.text)
        if not items:
            raise InputError(f"expected a name after {key.name}{op}, got {word.shown()}", where=at(word.start))
        for item in items:
            if "[" in item or "]" in item:
                _check_hostlist(item, word)
            found.append(item)
    return tuple(found)


def _check_hostlist(item: str, word: Token) -> None:
    try:
        hostlist.count(item)
    except InputError as error:
        hint = error.hint or "for a glob write ~ instead of ="
        raise type(error)(error.message, where=at(word.start), hint=hint) from None


def _numbers(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    ranges = [_range(field, word) for word in words for field in _fields(word)]
    if op in ("=", "!="):
        return merged(ranges)
    if len(ranges) != 1 or ranges[0][0] != ranges[0][1]:
        raise InputError(f"expected one number after {key.name}{op}, got {words[0].shown()}", where=at(words[0].start))
    return tuple(ranges)


def _fields(word: Token) -> list[str]:
    text = word.text
    return (text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text).split(",")


def _range(field: str, word: Token) -> tuple[int, int]:
    parts = _RANGE.fullmatch(field)
    low = _number(parts["low"], word) if parts else None
    high = low if parts is None or parts["high"] is None else _number(parts["high"], word)
    if low is None or high is None or high < low:
        raise InputError(
            f"expected a number, or a range lo-hi, got {excerpt(field)}",
            where=at(word.start),
            hint="integers >= 0 without leading zeros; k M G T Ki Mi Gi Ti multiply",
        )
    return low, high


def _number(text: str, word: Token) -> int | None:
    parts = _NUMBER.fullmatch(text)
    if parts is None:
        return None
    # int() refuses very long digit strings with a different error.
    number = int(parts["digits"]) * _UNITS.get(parts["unit"] or "", 1) if len(parts["digits"]) <= 19 else limits.SIZE_MAX + 1
    if number > limits.SIZE_MAX:
        raise LimitExceeded(f"expected a number up to {limits.SIZE_MAX}, got {excerpt(text)}", where=at(word.start))
    return number


def _flag(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    if len(words) != 1 or words[0].text.lower() not in _FLAGS:
        raise InputError(f"expected true or false after {key.name}{op}, got {words[-1].shown()}", where=at(words[-1].start))
    return (_FLAGS[words[0].text.lower()],)


def _jobs(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    for word in words:
        if not 0 < len(word.text) <= limits.JOB_ID_LENGTH_MAX:
            raise InputError(
                f"expected a job id of 1 to {limits.JOB_ID_LENGTH_MAX} characters, got {word.shown()}", where=at(word.start)
            )
    return _texts(words)


def _sharing(key: Key, op: str, words: Sequence[Token]) -> tuple[Value, ...]:
    # A job may be named "true": in quotes it is the job.
    if len(words) == 1 and words[0].kind == "word" and words[0].text.lower() in _FLAGS:
        return _flag(key, op, words)
    return _jobs(key, op, words)


_READERS: Final[dict[Kind, Callable[[Key, str, Sequence[Token]], tuple[Value, ...]]]] = {
    "text": _exact,
    "names": _names,
    "number": _numbers,
    "flag": _flag,
    "job": _jobs,
    "sharing": _sharing,
    "qualified": _exact,
}
