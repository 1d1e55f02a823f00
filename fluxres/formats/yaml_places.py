"""Where the value at a path stands in a YAML text: one look through its events, which ends at the value.

A message names one place.  Keeping the places of all values of a document, or making the values again, would cost more than
reading it did.  What is not on the path is passed over by counting how deep it is.
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
    """The place of the value at a path, or of the nearest one above that exists, in a text that can be read.

    Args:
        parser: with the events of the text.

    Returns: None where the path leads through an alias or merged keys: the value then stands elsewhere.
    Cost: O(text up to the value), and no values.

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
    """The beginning of an item, twice; the parser stands behind it."""
    event = parser.get_event()
    for _ in range(index):
        if type(event) in _ENDS:
            return None
        _pass_over(parser, event)
        event = parser.get_event()
    return None if type(event) in _ENDS else (event, event)


def _key(parser: Any, key: Key) -> tuple[Any, Any] | None:
    """The key in a mapping and the beginning of its value. An alias for the value stands for keys that may be merged."""
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
    """Read to the end of the value that begins with an event."""
    depth = 1 if type(event) in _STARTS else 0
    get_event = parser.get_event
    while depth:
        kind = type(get_event())
        if kind in _STARTS:
            depth += 1
        elif kind in _ENDS:
            depth -= 1
