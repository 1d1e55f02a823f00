"""Find the value at a path in a YAML text in one scan of its events, which ends at the value.

A message needs one place. Storing the places of all values of a document, or building the values again, would cost more than
reading it did. Everything off the path is skipped by counting depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from fluxres.formats.json_places import Key

#: line and column of a key (or of the value again, in a list), then of the value; from 1
Place = tuple[int, int, int, int]

_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)


def locate(parser: Any, path: Sequence[Key]) -> Place | None:
    """The place of the value at a path, or of the nearest existing one above it, in a valid text.

    Args:
        parser: delivers the events of the text.

    Returns: None if the path leads through an alias or merged keys: the value is then elsewhere.
    Cost: O(text up to the value), without building values.

    >>> locate(yaml.SafeLoader("a: 1\\nb: [x, y]\\n"), ["b", 1])
    (2, 8, 2, 8)
    """
    event = parser.get_event()
    while not isinstance(event, (*_STARTS, yaml.ScalarEvent)):
        event = parser.get_event()
    found = _place(event, event)
    for step in path:
        entry = None
        if isinstance(event, yaml.MappingStartEvent) and isinstance(step, str):
            entry = _key(parser, step)
        elif isinstance(event, yaml.SequenceStartEvent) and isinstance(step, int):
            entry = _item(parser, step)
        if entry is None:
            return (*found[2:], *found[2:])
        first, event = entry
        if isinstance(event, yaml.AliasEvent):
            return None
        found = _place(first, event)
    return found


def _place(first: Any, value: Any) -> Place:
    return first.start_mark.line + 1, first.start_mark.column + 1, value.start_mark.line + 1, value.start_mark.column + 1


def _item(parser: Any, index: int) -> tuple[Any, Any] | None:
    """The beginning of an item, twice; leaves the parser after it."""
    event = parser.get_event()
    for _ in range(index):
        if type(event) in _ENDS:
            return None
        _pass_over(parser, event)
        event = parser.get_event()
    return None if type(event) in _ENDS else (event, event)


def _key(parser: Any, key: Key) -> tuple[Any, Any] | None:
    """The place of a key in a mapping and of the beginning of its value. An alias in place of the value may mean merged keys."""
    merged = None
    event = parser.get_event()
    while type(event) not in _ENDS:
        value = parser.get_event()
        if event.value == "<<" and event.implicit[0]:
            merged = yaml.AliasEvent(None, event.start_mark, event.end_mark)
        elif event.value == key:
            return event, value
        _pass_over(parser, value)
        event = parser.get_event()
    return None if merged is None else (merged, merged)


def _pass_over(parser: Any, event: Any) -> None:
    """Skip to the end of the value that begins with an event."""
    depth = 1 if type(event) in _STARTS else 0
    get_event = parser.get_event
    while depth:
        kind = type(get_event())
        if kind in _STARTS:
            depth += 1
        elif kind in _ENDS:
            depth -= 1
