"""TOML: its values, and the place of each.

The parser of Python keeps no places. So those of a mistake are searched in the text: the header of the innermost table that
contains the value, and below it the line of the key.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

from fluxres import limits
from fluxres.documents.document import Document, Key
from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded

_WORD: Final = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
#: the parser's memory grows with the square of such keys
_DEEP: Final = re.compile(rf"(?<![\w-])(?:{_WORD}[ \t]*+\.[ \t]*+){{{limits.DEPTH_MAX}}}")
_AT: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_HEADER: Final = re.compile(rf"^[ \t]*(\[\[?)[ \t]*({_WORD}(?:[ \t]*\.[ \t]*{_WORD})*)[ \t]*\]", re.MULTILINE)
_KEYS: Final = re.compile(_WORD)


def parse(source: Source, hint: str = "") -> TomlDocument:
    """The values of a TOML text.

    Args:
        hint: what to do about a text that is too large.

    Errors: InputError with line and column; LimitExceeded.

    >>> parse(Source(b"[a]\\nb = [1, 2]\\n", "x.toml")).where(["a", "b"])
    'x.toml:2:5: a.b'
    """
    return TomlDocument(_values(source, hint), source.file, source.text, source.path)


def _values(source: Source, hint: str) -> dict[str, Any]:
    if len(source.data) > limits.TOML_BYTES_MAX:
        message = f"{len(source.data)} bytes of TOML, at most {limits.TOML_BYTES_MAX} are allowed"
        raise LimitExceeded(message, where=source.file, hint=hint)
    if deep := _DEEP.search(source.text):
        line = source.text.count("\n", 0, deep.start()) + 1
        raise LimitExceeded(f"a key of more than {limits.DEPTH_MAX} parts", where=source.where(line))
    try:
        return tomllib.loads(source.text, parse_float=_finite)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line, column = (int(at[1]), int(at[2])) if at and at[1] else (source.text.count("\n") + 1, 1)
        raise InputError(f"is not TOML: {_AT.sub('', str(error))}", where=source.where(line, column)) from None
    except RecursionError:
        raise InputError("is nested too deeply", where=source.file) from None
    except _NotFinite as error:
        raise InputError(str(error), where=source.file) from None
    except ValueError as error:
        raise InputError(f"is not TOML: {error}", where=source.file) from None


class _NotFinite(ValueError):
    """A number that TOML has and that documents cannot have."""


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NotFinite(f"expected finite numbers, got {text}")
    return number


class _Table(NamedTuple):
    """A table with a header: its path, and the offsets of the header and of what is in it."""

    path: tuple[Key, ...]
    start: int
    inside: int
    end: int


class TomlDocument(Document):
    """The values of a TOML text."""

    def position(self, path: Iterable[Key], *, key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of a value that has a line of its own, or of what contains it."""
        offset = self._offset(tuple(path), key=key)
        start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, offset - start + 1

    def _offset(self, path: tuple[Key, ...], *, key: bool) -> int:
        table = max((one for one in self._tables if one.path == path[: len(one.path)]), key=lambda one: len(one.path))
        if len(table.path) == len(path):
            return table.start
        name = re.escape(str(path[len(table.path)]))
        line = re.compile(rf"""^[ \t]*(["']?{name}["']?)[ \t]*[=.][ \t]*""", re.MULTILINE)
        found = line.search(self.text, table.inside, table.end)
        if found is None:  # it may have headers only for what is in it
            return next((one.start for one in self._tables if one.path[: len(path)] == path), table.start)
        return found.start(1) if key and len(table.path) + 1 == len(path) else found.end()

    @cached_property
    def _tables(self) -> list[_Table]:
        """The tables in the order of the text; the first one is that of the keys before all headers."""
        found = list(self._headers())
        ends = [start for _, start, _ in found[1:]] + [len(self.text)]
        return [_Table(path, start, inside, end) for (path, start, inside), end in zip(found, ends, strict=True)]

    def _headers(self) -> Iterator[tuple[tuple[Key, ...], int, int]]:
        counts: dict[tuple[str, ...], int] = {}
        yield (), 0, 0
        for header in _HEADER.finditer(self.text):
            names = tuple(word.strip("\"'") for word in _KEYS.findall(header[2]))
            if header[1] == "[[":
                counts[names] = counts.get(names, -1) + 1
            path: list[Key] = []
            for length, name in enumerate(names, start=1):
                path.append(name)
                if names[:length] in counts:
                    path.append(counts[names[:length]])
            yield tuple(path), header.start(1), header.end()
