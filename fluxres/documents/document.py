"""The values of a file, and what messages call the place of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fluxres.documents import json_places

if TYPE_CHECKING:
    from fluxres.documents import yaml_places

Key = str | int

#: steps of a path that are shown at its beginning and at its end
_SHOWN: Final = (8, 4)
#: characters of a key that are shown: one may be as long as its file
_KEY_SHOWN: Final = 255


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
            shown = key if len(key) <= _KEY_SHOWN else f"{key[:_KEY_SHOWN]}…"
            text += f".{shown}" if i else shown
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
    def _places(self) -> yaml_places.Place:
        from fluxres.documents import yaml_places

        return yaml_places.places(self.text)

    def position(self, path: Iterable[Key], *, key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at a path, or of the nearest one above that exists.

        Args:
            path: keys and list indexes from the top.
            key: the place of the last key instead of its value.

        Cost: parses the text once more.

        >>> from fluxres.documents import yaml_document
        >>> yaml_document.load(b"a: 1\\nb: [x, y]\\n").position(["b", 1])
        (2, 8)
        """
        if self.is_made:
            return 1, 1
        if self.is_json:
            return json_places.position(self.text, list(path), key=key)
        from fluxres.documents import yaml_places

        return yaml_places.position(self._places, path, key=key)

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """``file:line:column: path.in.document``, as every message begins."""
        path = list(path)
        place = self.file
        if not self.is_made:
            line, column = self.position(path, key=key)
            place = f"{self.file}:{line}:{column}"
        return ": ".join(part for part in (place, path_text(path)) if part) or "request"
