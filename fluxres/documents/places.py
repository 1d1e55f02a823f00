"""Where each value of a JSON or YAML text begins.

Reading a document keeps no places.  When a message names one, the text is parsed once more, here: JSON token by token up to the
place, as it may be long; YAML as a whole, since aliases and merge keys put one text in several places.  Further places do not
read again what was read for the first.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
import yaml

Key = str | int

# -- JSON ----------------------------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]')


class OfJson:
    """Where the values of a valid JSON text begin.

    A mapping or list on the way to a place is read once, and only as far as was asked for: all places of a document together cost
    as much as one walk over what is before the last of them, at each level of their paths.

    >>> of = OfJson('{"a": [1, 2]}')
    >>> of.offset(("a", 1)), of.offset(("a", 7)), of.offset(("a",), key=True)
    (10, 6, 1)
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._read: dict[int, _Inside] = {}

    def offset(self, path: Iterable[Key], *, key: bool = False) -> int:
        """Offset of the value at a path, or of its last key; of the nearest value above where it does not exist."""
        named = value = _token(self._text, 0).start()
        for step in path:
            inside = self._read.get(value)
            if inside is None:
                inside = self._read[value] = _Inside(self._text, value)
            found = inside.find(step)
            if found is None:
                return value
            named, value = found
        return named if key else value


def _token(text: str, offset: int) -> re.Match[str]:
    found = _TOKEN.search(text, offset)
    assert found is not None  # the text was read before, so something follows
    return found


class _Inside:
    """Where the values directly in a mapping or list begin, and their keys, as far as they were read."""

    __slots__ = ("_at", "_is_map", "_keys", "_places", "_text")

    def __init__(self, text: str, begin: int) -> None:
        self._text = text
        self._is_map = text[begin] == "{"
        self._at = begin + 1 if text[begin] in "{[" else -1
        """Where to read on; -1 at the end."""
        self._keys: dict[str, int] = {}
        """Numbers of the values by key, in a mapping."""
        self._places = array("q")
        """Of each value, where its key begins and where it begins."""

    def find(self, step: Key) -> tuple[int, int] | None:
        """Where a key and its value begin; None if there is none. An item of a list is its own key."""
        if isinstance(step, str) is not self._is_map:
            return None
        number = self._number(step)
        while number is None and self._at >= 0:
            self._read_on()
            number = self._number(step)
        return None if number is None else (self._places[2 * number], self._places[2 * number + 1])

    def _number(self, step: Key) -> int | None:
        if isinstance(step, str):
            return self._keys.get(step)
        return step if step < len(self._places) // 2 else None

    def _read_on(self) -> None:
        """Read the next value, up to where it begins, after what is in the one before."""
        text = self._text
        token = _token(text, self._at)
        if token[0] == ",":
            token = _token(text, token.end())
        if token[0] in "}]":
            self._at = -1
            return
        named = token.start()
        if self._is_map:
            self._keys.setdefault(orjson.loads(token[0]), len(self._places) // 2)
            token = _token(text, _token(text, token.end()).end())
        self._places.extend((named, token.start()))
        self._at = _end(text, token)


def _end(text: str, token: re.Match[str]) -> int:
    """Where a value ends that begins with a token."""
    depth = 0
    if token[0] in "{[":
        for bracket in _BRACKET.finditer(text, token.start()):
            depth += (bracket[0] in "{[") - (bracket[0] in "}]")
            if not depth:
                return bracket.end()
    return token.end()


# -- YAML ----------------------------------------------------------------------------------------------------------------

#: the event parser: LibYAML's where PyYAML was built with it
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_STARTS: Final = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS: Final = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def events(text: str) -> Iterator[Any]:
    """The parser's events; `yaml.parse` asks it for each of them twice."""
    parser = LOADER(text)
    try:
        while (event := parser.get_event()) is not None:
            yield event
    finally:
        parser.dispose()


class Place(NamedTuple):
    """Where a value begins, and its key; line and column from 1. The key of a list item is the item."""

    line: int
    column: int
    key_line: int
    key_column: int
    inside: dict[Key, Place]


def of_yaml(text: str) -> Place:
    """The place of everything in a text that was read before. Cost O(text).

    >>> of_yaml("a: 1\\nb: [x, y]\\n").inside["b"].inside[1][:2]
    (2, 8)
    """
    stack: list[_Open] = []
    anchors: dict[str | None, dict[Key, Place]] = {}
    for event in events(text):
        if isinstance(event, _ENDS):
            frame = stack.pop()
            frame.merge()
            if not stack:
                return frame.place
            continue
        if not isinstance(event, (*_STARTS, yaml.ScalarEvent, yaml.AliasEvent)):
            continue
        top = stack[-1] if stack else None
        if top is not None and top.is_map and top.key is None:
            top.key = event
            continue
        inside = anchors.get(event.anchor, {}) if isinstance(event, yaml.AliasEvent) else {}
        if isinstance(event, _STARTS) and event.anchor is not None:
            anchors[event.anchor] = inside
        place = _entry(event, event if top is None else top.key or event, inside)
        if top is not None:
            top.add(place)
        if isinstance(event, _STARTS):
            stack.append(_Open(place, isinstance(event, yaml.MappingStartEvent)))
        elif top is None:
            return place
    raise AssertionError("called for a text with a document in it")


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    place: Place
    is_map: bool
    key: Any = None
    merged: list[Place] = field(default_factory=list)

    def add(self, place: Place) -> None:
        key, self.key = self.key, None
        inside = self.place.inside
        if not self.is_map:
            inside[len(inside)] = place
        elif key.value == "<<" and key.implicit[0]:
            self.merged.append(place)
        else:
            inside[key.value] = place

    def merge(self) -> None:
        for merged in self.merged:
            for source in merged.inside.values() if 0 in merged.inside else (merged,):
                for key, place in source.inside.items():
                    self.place.inside.setdefault(key, place)


def _entry(value: Any, key: Any, inside: dict[Key, Place]) -> Place:
    begin, named = value.start_mark, key.start_mark
    return Place(begin.line + 1, begin.column + 1, named.line + 1, named.column + 1, inside)


def in_yaml(root: Place, path: Iterable[Key], *, key: bool = False) -> tuple[int, int]:
    """Line and column of the value (or last key) at a path, or of the nearest one above that exists."""
    found = root
    for step in path:
        if step not in found.inside:
            return found[:2]
        found = found.inside[step]
    return found[2:4] if key else found[:2]
