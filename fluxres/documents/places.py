"""Where each value of a JSON or YAML text begins.

Reading a document keeps no places.  When a message names one, the text is parsed once more, here: JSON token by token up to the
place, as it may be long; YAML as a whole, since aliases and merge keys put one text in several places.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
import yaml

Key = str | int

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


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


def in_json(text: str, wanted: Sequence[tuple[tuple[Key, ...], bool]]) -> list[tuple[int, int]]:
    """Line and column of the value at each path, or of its last key; of the nearest one above where it does not exist.

    >>> in_json('{"a": [1, 2]}', [(("a", 1), False), (("a", 7), False), (("a",), True)])
    [(1, 11), (1, 7), (1, 2)]
    """
    missing = dict.fromkeys(wanted)
    above = {path[:length] for path, _ in wanted for length in range(len(path) + 1)}
    found: dict[tuple[tuple[Key, ...], bool], int] = {}
    for offset, here, is_key in _walk(text):
        place = tuple(here)
        if place in above and (place, is_key) not in found:
            found[place, is_key] = offset
            missing.pop((place, is_key), None)
            if not missing:
                break
    return [_line_column(text, found.get((path, key), _nearest(found, path))) for path, key in wanted]


def _nearest(found: Mapping[tuple[tuple[Key, ...], bool], int], path: tuple[Key, ...]) -> int:
    return next((found[path[:length], False] for length in range(len(path), -1, -1) if (path[:length], False) in found), 0)


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
