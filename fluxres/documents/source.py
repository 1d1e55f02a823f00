"""The input of a reader: the bytes of one file, and their common conversions.

Text and values are made on first use, and once. A reader of XML never pays for a JSON parser, and a reader of JSON need not
decode bytes that its own parser accepts as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import overload

from fluxres.documents import source_text, yaml_document
from fluxres.documents.document import Document


@dataclass(frozen=True)
class Source:
    """One file, standard input, or a given text.

    Args:
        data: its bytes, decompressed.
        file: its name for messages.
        path: its path, needed to find related files; None for standard input and given text.

    >>> Source(b"a: 1").document.values, Source(b"a: 1", "x.conf").where(3)
    ({'a': 1}, 'x.conf:3')
    """

    data: bytes = field(repr=False)
    file: str = "<text>"
    path: Path | None = None

    @classmethod
    def open(cls, source: str | Path | bytes, *, file: str | None = None) -> Source:
        """The source that a caller gives: a path, ``-`` for standard input, or the text itself as bytes or with a line break.

        Errors: InputError if it cannot be read; LimitExceeded if it is too large.
        """
        return cls(*source_text.opened(source, file))

    @classmethod
    def named(cls, name: str) -> Source:
        """The source of a path or of ``-``; unlike :meth:`open` it does not accept text."""
        return cls.open(name if name == "-" else source_text.file_named(name))

    @cached_property
    def text(self) -> str:
        """The bytes as UTF-8.

        Errors: InputError with line and column.
        """
        return source_text.decode(self.data, self.file)

    @cached_property
    def document(self) -> Document:
        """The values of a YAML or JSON text, with their places.

        Errors: InputError with line and column; LimitExceeded.
        """
        return yaml_document.parse(self.data, file=self.file, path=self.path)

    @cached_property
    def json_places(self) -> Document:
        """The places of a JSON text, whose values its reader has."""
        return Document(None, self.file, self.text, self.path, is_json=True)

    def where(self, line: int | None = None, column: int | None = None) -> str:
        """``file``, ``file:line`` or ``file:line:column``, the beginning of a message."""
        return ":".join([self.file, *(str(number) for number in (line, column) if number is not None)])


class Sources(Sequence[Source]):
    """The files of one machine, read one at a time so that thousands of them need not be in memory together.

    Args:
        names: paths.
        step: called with the name of each file before it is read.
    """

    def __init__(self, names: Sequence[str], step: Callable[[str], None] | None = None) -> None:
        self.names = names
        self._step = step

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Source: ...
    @overload
    def __getitem__(self, index: slice) -> Sources: ...
    def __getitem__(self, index: int | slice) -> Source | Sources:
        if isinstance(index, slice):
            return Sources(self.names[index], self._step)
        if self._step is not None:
            self._step(self.names[index])
        return Source.named(self.names[index])
