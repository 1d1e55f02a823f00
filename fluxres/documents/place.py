"""A cursor over a document, for readers that check its values themselves: constraints, R, Fluxion's own dialects.

Documents whose form is fixed are converted by :mod:`fluxres.documents.typed`.  Both name the place of what is wrong as
:meth:`Document.where` does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fluxres import limits
from fluxres.documents.document import Document, Key, excerpt, shown
from fluxres.errors import InputError, LimitExceeded

NO_TEXT: Final = Document(None, "", "", is_made=True)
"""What a value is in that was made by a program: messages name its path only."""


class Place(NamedTuple):
    """A path of keys from the top of a document.

    >>> str(Place().at("resources", 0, "with", 1, "count"))
    'resources[0].with[1].count'
    """

    path: tuple[Key, ...] = ()
    document: Document = NO_TEXT

    def at(self, *keys: Key) -> Place:
        return Place((*self.path, *keys), self.document)

    def __str__(self) -> str:
        return self.document.where(self.path)

    def error(self, message: str, hint: str = "") -> InputError:
        """What is wrong here."""
        return InputError(message, where=str(self), hint=hint)

    def expected(self, what: str, value: object, hint: str = "") -> InputError:
        """`expected WHAT, got VALUE` here."""
        return self.error(f"expected {what}, got {shown(value)}", hint)

    def refine(self, error: InputError) -> InputError:
        """The error of a smaller language, at this place."""
        return type(error)(error.message, where=str(self), hint=error.hint)

    def mapping(self, value: object, keys: Sequence[str] = (), required: Sequence[str] = ()) -> Mapping[str, Any]:
        """A mapping with text keys, all `required` and, where `keys` are given, no others."""
        if not isinstance(value, Mapping):
            raise self.expected("a mapping", value)
        for key in value:
            if not isinstance(key, str):
                raise self.expected("keys that are text", key)
            if keys and key not in keys:
                raise self.error(f"unknown key {excerpt(key)}", f"known: {', '.join(keys)}")
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
        """A text of bounded length."""
        if not isinstance(value, str):
            raise self.expected("text", value)
        if not value and not empty:
            raise self.error("expected text, got empty text")
        if len(value) > length:
            raise LimitExceeded(f"expected at most {length} characters, got {len(value)}", where=str(self))
        return value

    def integer(self, value: object, least: int = 1, most: int = limits.COUNT_MAX) -> int:
        """An integer between two bounds; `true` is none."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.expected(f"an integer >= {least}", value)
        if value > most:
            raise LimitExceeded(f"expected an integer up to {most}, got {shown(value)}", where=str(self))
        return value

    def seconds(self, value: object, hint: str = "0 stands for no limit of its own") -> float:
        """Seconds >= 0, finite and bounded."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0 or value == math.inf:
            raise self.expected("a number of seconds >= 0", value, hint)
        if value > limits.TIME_MAX_S:
            raise LimitExceeded(f"expected seconds <= {limits.TIME_MAX_S:.0f}, got {shown(value)}", where=str(self))
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
                raise LimitExceeded(f"expected at most {limits.DOCUMENT_DEPTH_MAX} levels of values", where=str(self))
            if isinstance(item, Mapping | list | tuple):
                number += len(item)
                if number > limits.REQUEST_VALUES_MAX:
                    raise LimitExceeded(f"expected at most {limits.REQUEST_VALUES_MAX} values", where=str(self))
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
                raise self.at(*path).expected("a value that JSON has", item)
        return top[0]
