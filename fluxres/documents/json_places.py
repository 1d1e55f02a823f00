"""What a JSON parser does not report: the number and depth of values, and the place of one.

The text is walked token by token only to name a place in a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

from fluxres import limits
from fluxres.errors import LimitExceeded

Key = str | int

#: all bytes but quotes and brackets, and a table that maps all brackets to square ones
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def count(values: object, file: str) -> int:
    """The number of values.

    Errors: LimitExceeded past DOCUMENT_DEPTH_MAX levels.

    >>> count({"a": [1, {"b": 2}]}, "x.json")
    5
    """
    found, depth = 1, 0
    level: list[object] = [values] if isinstance(values, dict | list) else []
    while level:
        depth += 1
        if depth > limits.DOCUMENT_DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", where=file)
        below: list[object] = []
        for container in level:
            assert isinstance(container, dict | list)
            found += len(container)
            inner = container.values() if isinstance(container, dict) else container
            below.extend(value for value in inner if isinstance(value, dict | list))
        level = below
    return found


def require_bounded(data: bytes, values: object, file: str) -> None:
    """Refuse a valid JSON text of more values or levels than a document may have.

    Args:
        values: the values read from it.

    Errors: LimitExceeded past DOCUMENT_DEPTH_MAX levels or DOCUMENT_VALUES_MAX values.
    Cost: about 3 ns per byte if no string in it has a quote or a bracket.

    >>> require_bounded(b'{"a": [1]}', {"a": [1]}, "x.json")
    """
    most = data.count(b",") + data.count(b"[") + data.count(b"{") + 1
    if most > limits.DOCUMENT_VALUES_MAX or not _is_shallow(data):
        found = count(values, file)
        if found > limits.DOCUMENT_VALUES_MAX:
            raise LimitExceeded(f"{found} values, at most {limits.DOCUMENT_VALUES_MAX} are allowed", where=file)


def _is_shallow(data: bytes) -> bool:
    """Whether a valid JSON text certainly has few enough levels; walking its values takes twenty times as long."""
    if b'\\"' in data:
        return False
    left = data.translate(_SQUARE, _NO_BRACKETS).replace(b'""', b"")
    if b'"' in left:  # brackets within a string keep its quotes apart
        return False
    for _ in range(limits.DOCUMENT_DEPTH_MAX):
        if not left:
            return True
        left = left.replace(b"[]", b"")
    return not left


def _walk(text: str) -> Iterator[tuple[int, list[Key], bool]]:
    """(offset, path, is a key) of every key and value of a valid JSON text, in order."""
    path: list[Key] = []
    maps: list[bool] = []
    expect_key = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "}]":
            maps.pop()
            path.pop()
            expect_key = False
        elif token == ",":
            if maps[-1]:
                expect_key = True
            else:
                last = path[-1]
                assert isinstance(last, int)
                path[-1] = last + 1
        elif token == ":":
            expect_key = False
        elif expect_key:
            path[-1] = orjson.loads(token)
            yield match.start(), path, True
        else:
            yield match.start(), path, False
            if token in "{[":
                maps.append(token == "{")
                path.append("" if maps[-1] else 0)
                expect_key = maps[-1]


def _line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def position(text: str, path: list[Key], *, key: bool = False) -> tuple[int, int]:
    """Line and column of the value (or last key) at a path, or of the nearest one above that exists.

    >>> position('{"a": [1, 2]}', ["a", 1])
    (1, 11)
    """
    best, depth = 0, -1
    for offset, here, is_key in _walk(text):
        if is_key and not (key and here == path):
            continue
        if len(here) > depth and here == path[: len(here)]:
            best, depth = offset, len(here)
            if depth == len(path):
                break
    return _line_column(text, best)
