"""The values of a file, and how messages name the place of each and show it: short, however large the input was."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fluxres import limits
from fluxres.documents import source_text
from fluxres.documents.suggestion import nearest
from fluxres.errors import InputError, LimitExceeded

if TYPE_CHECKING:
    from fluxres.documents import places


Key = str | int

#: digits of an integer that are shown
_DIGITS_MAX: Final = 30
#: steps of a path that are shown at its beginning and at its end
_SHOWN: Final = (8, 4)
#: characters of a key that are shown: one may be as long as its file
_KEY_SHOWN: Final = 255


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "node"), plural(2, "switch"), plural(3, "memory")
    ('1 node', '2 switches', '3 memories')
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count} {noun[:-1]}ies"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's'}"


def listed(items: Iterable[object], at_most: int = 5, *, total: int = 0) -> str:
    """The first items, and the number of the others.

    Args:
        total: of the items, if only some are given.

    >>> listed(["n1", "n2"]), listed(range(9)), listed(["/demo"], total=3)
    ('n1, n2', '0, 1, 2, 3, 4 and 4 more', '/demo and 2 more')
    """
    texts = [str(item) for item in items]
    more = max(total, len(texts)) - len(texts[:at_most])
    return ", ".join(texts[:at_most]) + f" and {more} more" * bool(more)


def excerpt(text: str, length: int = 40) -> str:
    """`text` quoted for a message, cut to about `length` characters.

    >>> excerpt("node[0-3"), excerpt("x" * 50, length=8)
    ("'node[0-3'", "'xxxxx...'")
    """
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def shown(value: object) -> str:
    """A value for a message: short, however large or deep it is, and never an error of its own.

    >>> shown("x" * 100), shown([[[]]]), shown(10**6000), shown(None)
    ("'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'", 'a list of 1', 'an integer of more than 30 digits', 'null')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return excerpt(value)
    if isinstance(value, int):
        return str(int(value)) if abs(value) < 10**_DIGITS_MAX else f"an integer of more than {_DIGITS_MAX} digits"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def path_text(path: Iterable[Key]) -> str:
    """A path in a document as people write it.

    >>> path_text(("resources", 0, "with", 1, "count"))
    'resources[0].with[1].count'
    """
    steps, (first, last) = list(path), _SHOWN
    if len(steps) > first + last + 1:
        return f"{path_text(steps[:first])}…{path_text(['', *steps[-last:]])}"
    text = ""
    for i, key in enumerate(steps):
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            name = key if len(key) <= _KEY_SHOWN else f"{key[:_KEY_SHOWN]}…"
            text += f".{name}" if i else name
    return text


@dataclass(eq=False)
class Document:
    """The values of one file.

    Args:
        values: dicts, lists, str, int, float, bool and None; an aliased part is one object in several places.
        file: its name for messages; empty for a request made of values, in which the path alone is the place.
        text: what it was read from.
        path: of the file, from whose folder includes start; None for standard input and text given.
        is_made: values of a caller, without a text: a place in them is a path without a line.
    """

    values: object
    file: str
    text: str = field(repr=False)
    path: Path | None = None
    is_json: bool = False
    is_made: bool = False

    @cached_property
    def _line_starts(self) -> list[int]:
        return source_text.line_starts(self.text, is_json=self.is_json)

    @cached_property
    def _json_places(self) -> places.OfJson:
        from fluxres.documents import places

        return places.OfJson(self.text)

    @cached_property
    def _yaml_places(self) -> places.Place:
        from fluxres.documents import places

        return places.of_yaml(self.text)

    def position(self, path: Iterable[Key], *, key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at a path, or of the nearest one above that exists.

        Args:
            path: keys and list indexes from the top.
            key: the place of the last key instead of its value.

        Cost: all places of a document together parse its text once more; JSON only as far as needed.

        >>> from fluxres.documents import yaml_document
        >>> yaml_document.load(b"a: 1\\nb: [x, y]\\n").position(["b", 1])
        (2, 8)
        """
        if self.is_made:
            return 1, 1
        if self.is_json:
            offset = self._json_places.offset(path, key=key)
            line = bisect_right(self._line_starts, offset)
            return line, offset - self._line_starts[line - 1] + 1
        from fluxres.documents import places

        return places.in_yaml(self._yaml_places, path, key=key)

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """``file:line:column: path.in.document``, as every message begins."""
        path = list(path)
        if self.is_made:
            return ": ".join(part for part in (self.file, path_text(path)) if part) or "request"
        line, column = self.position(path, key=key)
        name = ": ".join(part for part in (f"{self.file}:{line}:{column}", path_text(path)) if part)
        return source_text.text_place(name, self.text, line, column, self._line_starts)


class SubDocument(Document):
    """A value of a document, or what remains of it after irrelevant keys were removed.

    >>> from fluxres.documents import yaml_document
    >>> whole = yaml_document.load(b"a: 1\\nb: [x, y]\\n")
    >>> SubDocument(whole, ["y"], ("b",)).where([0])
    '<text>:2:5: b[0]'
    """

    def __init__(self, whole: Document, values: object, path: Iterable[Key]) -> None:
        super().__init__(values, whole.file, whole.text, whole.path, whole.is_json)
        self.whole, self.base = whole, tuple(path)

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """The place in the whole document of a path in this part."""
        return self.whole.where([*self.base, *path], key=key)


NO_TEXT: Final = Document(None, "", "", is_made=True)
"""What a value is in that was made by a program: messages name its path only."""


class Place(NamedTuple):
    """A path of keys from the top of a document, for readers that check its values themselves.

    Documents whose form is fixed are converted by :mod:`fluxres.documents.typed`.

    >>> str(Place().at("resources", 0, "with", 1, "count"))
    'resources[0].with[1].count'
    """

    path: tuple[Key, ...] = ()
    document: Document = NO_TEXT

    def at(self, *keys: Key) -> Place:
        return Place((*self.path, *keys), self.document)

    @property
    def where(self) -> str:
        """``file:line:column: path``, or the path alone where there is no file."""
        return self.document.where(self.path)

    def __str__(self) -> str:
        return self.where

    def error(self, message: str, hint: str = "") -> InputError:
        """What is wrong here."""
        return InputError(message, where=self.where, hint=hint)

    def expected(self, what: str, value: object, hint: str = "") -> InputError:
        """`expected WHAT, got VALUE` here."""
        return self.error(f"expected {what}, got {shown(value)}", hint)

    def refine(self, error: InputError) -> InputError:
        """The error of a smaller language, at this place."""
        return type(error)(error.message, where=self.where, hint=error.hint)

    def mapping(self, value: object, keys: Sequence[str] = (), required: Sequence[str] = ()) -> Mapping[str, Any]:
        """A mapping with text keys, all `required` and, where `keys` are given, no others."""
        if not isinstance(value, Mapping):
            raise self.expected("a mapping", value)
        for key in value:
            if not isinstance(key, str):
                raise self.expected("string keys", key)
            if keys and key not in keys:
                where = self.document.where((*self.path, key), key=True)
                raise InputError(f"unknown key {excerpt(key)}", where=where, hint=nearest(key, keys))
        for key in required:
            if key not in value:
                raise self.error(f"expected the key {key!r}, which is missing")
        return value

    def sequence(self, value: object, what: str = "a list", *, empty: bool = False) -> Sequence[Any]:
        """A list, with something in it unless `empty`."""
        if not isinstance(value, list | tuple):
            raise self.expected(what, value)
        if not value and not empty:
            raise self.error(f"expected {what} of at least one, got an empty list")
        return value

    def text(self, value: object, *, empty: bool = False, length: int = limits.VALUE_LENGTH_MAX) -> str:
        if not isinstance(value, str):
            raise self.expected("text", value)
        if not value and not empty:
            raise self.error("expected text, got empty text")
        if len(value) > length:
            raise LimitExceeded(f"expected at most {length} characters, got {len(value)}", where=self.where)
        return value

    def integer(self, value: object, least: int = 1, most: int = limits.COUNT_MAX) -> int:
        """An integer between two bounds; `true` is none."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.expected(f"a whole number of at least {least}", value)
        if value > most:
            raise LimitExceeded(f"expected a whole number of at most {most}, got {shown(value)}", where=self.where)
        return value

    def seconds(self, value: object, hint: str = "0 means no limit of its own") -> float:
        """Seconds >= 0, finite and bounded."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0 or value == math.inf:
            raise self.expected("a number of seconds, at least 0", value, hint)
        if value > limits.TIME_MAX_S:
            raise LimitExceeded(f"expected at most {limits.TIME_MAX_S:.0f} seconds, got {shown(value)}", where=self.where)
        return float(value)

    def boolean(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.expected("true or false", value)
        return value

    def values(self, value: object) -> Any:
        """A private copy of free-form values: what JSON has, of bounded depth and number. Cost O(values), no recursion."""
        top: list[Any] = [None]
        todo: list[tuple[Any, Any, Key, tuple[Key, ...]]] = [(value, top, 0, ())]
        number = 1
        while todo:
            item, holder, key, path = todo.pop()
            if len(path) > limits.DOCUMENT_DEPTH_MAX:
                raise LimitExceeded(f"expected at most {limits.DOCUMENT_DEPTH_MAX} levels of values", where=self.where)
            if isinstance(item, Mapping | list | tuple):
                number += len(item)
                if number > limits.REQUEST_VALUES_MAX:
                    raise LimitExceeded(f"expected at most {limits.REQUEST_VALUES_MAX} values", where=self.where)
                if isinstance(item, Mapping):
                    holder[key] = made = dict.fromkeys(self.at(*path).mapping(item))
                    todo += [(below, made, name, (*path, name)) for name, below in item.items()]
                else:
                    holder[key] = listed = [None] * len(item)
                    todo += [(below, listed, at, (*path, at)) for at, below in enumerate(item)]
            elif item is None or isinstance(item, bool):
                holder[key] = item
            elif isinstance(item, str | int) or (isinstance(item, float) and math.isfinite(item)):
                holder[key] = str.__str__(item) if isinstance(item, str) else int(item) if isinstance(item, int) else float(item)
            else:
                raise self.at(*path).expected("a JSON value", item)
        return top[0]
