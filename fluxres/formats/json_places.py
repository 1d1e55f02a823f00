"""What a JSON parser does not tell: where a value stands, and whether a key stands twice.

orjson reads 250 MB in a second and keeps the last of two equal keys without a word.  A count of the keys in
the text against those in the values finds that for a tenth of the price of a parser with hooks; only when
something is wrong is the text walked token by token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from fluxres import limits
from fluxres.errors import LimitExceeded

Key = str | int

_KEY = re.compile(r'"(?:[^"\\]|\\.)*+"\s*+(:?)')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def measure(values: object, file: str) -> tuple[int, int]:
    """How many values and how many keys there are.

    Errors: LimitExceeded past DOCUMENT_DEPTH_MAX levels.

    >>> measure({"a": [1, {"b": 2}]}, "x.json")
    (5, 2)
    """
    count, keys, depth = 1, 0, 0
    level: list[object] = [values] if isinstance(values, dict | list) else []
    while level:
        depth += 1
        if depth > limits.DOCUMENT_DEPTH_MAX:
            raise LimitExceeded(f"more than {limits.DOCUMENT_DEPTH_MAX} levels", where=file)
        below: list[object] = []
        for container in level:
            assert isinstance(container, dict | list)
            count += len(container)
            if isinstance(container, dict):
                keys += len(container)
                below.extend(value for value in container.values() if isinstance(value, dict | list))
            else:
                below.extend(value for value in container if isinstance(value, dict | list))
        level = below
    return count, keys


def written_keys(text: str) -> int:
    """How often a key is written in a valid JSON text.

    >>> written_keys('{"a": "b", "a" : "c:"}')
    2
    """
    return sum(1 for match in _KEY.finditer(text) if match[1])


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


def first_duplicate(text: str) -> tuple[int, int, list[Key]]:
    """Line, column and path of the first key that its mapping already has.

    >>> first_duplicate('{"a": {"b": 1, "b": 2}}')
    (1, 16, ['a', 'b'])
    """
    seen: list[set[Key]] = []
    for offset, path, is_key in _walk(text):
        # What stood deeper is over; a container that may open here begins with no keys, one level below.
        del seen[len(path) :]
        if not is_key:
            continue
        while len(seen) < len(path):
            seen.append(set())
        if path[-1] in seen[-1]:
            return *_line_column(text, offset), list(path)
        seen[-1].add(path[-1])
    raise AssertionError("called for a text whose keys are unique")
