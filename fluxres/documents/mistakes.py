"""All mistakes of a document in one error, in the order of its lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, Mistake, TextPlace

_LINE: Final = re.compile(r"(.+?):(\d+)(?=: |$)")
"""The place of a line in text of which no columns are known."""


class Mistakes:
    """What is wrong in a document, collected while its reader goes on.

    ``with mistakes:`` keeps the InputError of a part of the document, and `require_none` raises all of them as one. A
    LimitExceeded is not kept: what is too large is not read any further.

    >>> mistakes = Mistakes()
    >>> for number in (1, 2):
    ...     with mistakes:
    ...         raise InputError("expected text", where=f"m.yaml:{number}:1")
    >>> mistakes.require_none()
    Traceback (most recent call last):
        ...
    fluxres.errors.InputError: m.yaml:1:1: expected text
    m.yaml:2:1: expected text
    """

    def __init__(self) -> None:
        self._found: dict[Mistake, None] = {}
        self._is_limit = True
        self.unlisted = 0
        self._is_all = True
        self._raised: InputError | None = None

    def __len__(self) -> int:
        return len(self._found) + self.unlisted

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, InputError) or isinstance(error, LimitExceeded):
            return False
        if len(self._found) >= limits.MISTAKES_MAX:
            self._is_all = False  # each further one would only cost the search for its place
            return False
        self.add(error)
        return True

    def add(self, error: InputError) -> None:
        """Keep an error, or each of its mistakes."""
        self._is_limit &= isinstance(error, LimitExceeded)
        self.unlisted += error.unlisted
        for mistake in error.mistakes:
            if len(self._found) < limits.MISTAKES_MAX:
                self._found[mistake] = None  # a part that is used twice has the same mistake twice
            elif mistake not in self._found:
                self.unlisted += 1

    def has(self, where: str) -> bool:
        """Whether a mistake at this place is listed: another one there may follow from it."""
        return any(mistake.where == where for mistake in self._found)

    def take(self, others: Mistakes) -> None:
        """Keep those of a part that was read on its own."""
        for mistake in others._found:
            self.add(InputError(mistake.message, where=mistake.where, hint=mistake.hint))
        self.unlisted += others.unlisted

    def require_none(self) -> None:
        """Raise what was found, if anything."""
        if self._found:
            raise self.error()

    def error(self) -> InputError:
        """All that was found, at least one, in the order of files and lines."""
        self._raised = (LimitExceeded if self._is_limit else InputError).of(
            _in_order(self._found), self.unlisted, is_all=self._is_all
        )
        return self._raised

    @contextmanager
    def all(self) -> Iterator[None]:
        """The whole of a document: what it raises is raised together with what was found before."""
        try:
            yield
        except InputError as error:
            if error is not self._raised:
                self.add(error)
            raise self.error() from None
        self.require_none()


def _in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    files: dict[str, int] = {}

    def key(mistake: Mistake) -> tuple[int, int, int]:
        place = mistake.where
        if isinstance(place, TextPlace):
            file, line, column = place.partition(f":{place.line}:{place.column}")[0], place.line, place.column
        elif (found := _LINE.match(place)) is not None:
            file, line, column = found[1], int(found[2]), 0
        else:
            return len(files), 0, 0
        return files.setdefault(file, len(files)), line, column

    return sorted(mistakes, key=key)
