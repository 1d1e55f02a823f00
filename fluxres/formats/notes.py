"""Notes on what a reader leaves out of a file or reads differently than written.

A file that its own program accepts must not be refused because of a line that this program ignores or corrects. But the loss is
not silent either (rule S1): there is one note per kind, with the first place and the total number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fluxres.documents.source import Source

#: maximal number of names in a note
_NAMES_MAX: Final = 5


class Notes:
    """Collects notes while a file is read.

    >>> notes = Notes()
    >>> for line in (3, 7, 9):
    ...     notes.add("zero", f"slurm.conf:{line}", "CPUs=0 is read as 1")
    >>> notes.lines()
    ('slurm.conf:3: CPUs=0 is read as 1 (and 2 more like it)',)
    """

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def add(self, sort: str, where: str, what: str) -> None:
        """Add a note; only the first of each kind is kept, the others are counted."""
        if sort not in self._first:
            self._first[sort] = f"{where}: {what}" if where else what
        self._count[sort] = self._count.get(sort, 0) + 1

    def lines(self) -> tuple[str, ...]:
        """The notes, in the order of the first of each kind."""
        return tuple(
            f"{first} (and {self._count[sort] - 1} more like it)" if self._count[sort] > 1 else first
            for sort, first in self._first.items()
        )


def listed(names: Sequence[str]) -> str:
    """Names for a note, truncated if there are many.

    >>> listed(["n1", "n2"]), listed([f"n{i}" for i in range(9)])
    ('n1, n2', 'n0, n1, n2, n3, n4 and 4 more')
    """
    shown = ", ".join(names[:_NAMES_MAX])
    return f"{shown} and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else shown


def keys_passed_over(source: Source, names: Sequence[str]) -> tuple[str, ...]:
    """A note on the keys of a document that its reader passed over; none where there are none."""
    return (f"{source.file}: ignored, since a machine has no place for it: {listed(names)}",) if names else ()
