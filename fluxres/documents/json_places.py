"""What a JSON parser does not report: the place of a value, and duplicate keys.

orjson reads 250 MB per second and silently keeps the last of two equal keys. Comparing the number of keys in the text with the
number in the values detects duplicates at a tenth of the cost of a parser with hooks; the text is walked token by token only when
something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import orjson

from fluxres import limits
from fluxres.errors import LimitExceeded

Key = str | int

_BLANKS: Final = b" \t\r\n"
_CHUNK: Final = 1 << 24
#: all bytes but quotes and brackets, and a table that maps all brackets to square ones
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'"[]{}'))
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_ENCODER: Final = msgspec.json.Encoder()
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*+"\s*+(:?)')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


def measure(values: object, file: str) -> tuple[int, int]:
    """The number of values and the number of keys.

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
        count, _ = measure(values, file)
        if count > limits.DOCUMENT_VALUES_MAX:
            raise LimitExceeded(f"{count} values, at most {limits.DOCUMENT_VALUES_MAX} are allowed", where=file)


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


def keys_of(values: object) -> int:
    """The number of keys in all mappings of values read from JSON.

    Cost: about 3 ns per byte of the text, which is serialised again.

    >>> keys_of({"a": [1, {"b": 2}]})
    2
    """
    return written_keys(_ENCODER.encode(values))


def written_keys(data: bytes) -> int:
    """The number of keys written in a valid JSON text.

    Cost: about 1 ns per byte if no string in it has a quote or a backslash.

    >>> written_keys(b'{"a": "b", "a" : "c:"}'), written_keys(b'":"')
    (2, 0)
    """
    if b'\\"' in data or b"\\\\" in data:
        return _counted_keys(data)
    # A quote begins a text or ends it, and a colon behind the end makes it a key. A text that starts with a colon looks like a
    # key too, so where there is one the text is counted token by token.
    found, last = 0, b"["  # the whole may be one text
    for at in range(0, len(data), _CHUNK):
        part = last + data[at : at + _CHUNK].translate(None, _BLANKS)
        if any(begin in part for begin in (b',":', b'{":', b'[":', b':":')):
            return _counted_keys(data)
        found += part.count(b'":') - last.count(b'":')
        last = part[-2:]
    return found


def _counted_keys(data: bytes) -> int:
    return sum(1 for match in _KEY.finditer(data) if match[1])


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
