"""Text on a terminal: control characters made visible, units and times, colour, and tables.

Names, tags and job ids come from files and other people. An escape sequence in one must not be able to recolour a terminal or
hide a line, so everything shown goes through :func:`printable`.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fluxres.syntax import moment


def printable(text: str) -> str:
    """The text with everything unprintable escaped.

    >>> printable("a\\x1b[2Jb"), printable("Zürich")
    ('a\\\\x1b[2Jb', 'Zürich')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def width(text: str) -> int:
    """Columns that a text takes on a terminal.

    >>> width("node"), width("核")
    (4, 2)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text padded with blanks to this many columns, on the left if `right`.

    >>> pad("8", 3, right=True), pad("core", 6)
    ('  8', 'core  ')
    """
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "pool"), plural(2, "pool")
    ('1 pool', '2 pools')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def units(amount: int, unit: str | None) -> str:
    """An amount with its unit.

    >>> units(128, "GiB"), units(8, None)
    ('128 GiB', '8')
    """
    return str(amount) if unit is None else f"{amount} {unit}"


def when(seconds: float) -> str:
    """A time for a table; calendar times to the second.

    >>> when(3600.0), when(0.5), when(float("inf"))
    ('3600', '0.5', '-')
    """
    if moment.EPOCH_FROM_S < seconds < math.inf:
        return moment.format(float(math.floor(seconds)))
    return moment.format(seconds)


def when_from(seconds: float) -> str:
    """The time from which on something is possible; calendar times are rounded up to the next second, so that it is possible
    then, too.

    >>> when_from(3600.0), when_from(1.5)
    ('3600', '1.5')
    """
    return when(float(math.ceil(seconds)) if moment.EPOCH_FROM_S < seconds < math.inf else seconds)


def seconds_or_none(seconds: float) -> float | None:
    """A time for JSON, which has no infinity: no end is null.

    >>> seconds_or_none(float("inf"))
    """
    return None if math.isinf(seconds) else seconds


_CODES: Final = {"heading": "1", "bad": "31", "warn": "33", "job": "36", "faint": "2"}
_STATE_ROLES: Final = {"down": "bad", "failing": "bad", "drain": "warn", "degraded": "warn", "unknown": "warn"}


@dataclass(frozen=True, slots=True)
class Style:
    """Paints text by role, or leaves it plain.

    Args:
        enabled: whether it paints.
        header: whether tables have a line of headings.

    >>> Style(False).paint("down", "bad"), Style(True).paint("down", "bad")
    ('down', '\\x1b[31mdown\\x1b[0m')
    """

    enabled: bool = False
    header: bool = True

    def paint(self, text: str, role: str | None) -> str:
        """The text in the colour of a role: heading, bad, warn, job or faint; None is plain."""
        if not self.enabled or role is None or not text.strip():
            return text
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m"


PLAIN: Final = Style()


def state_role(state: str) -> str | None:
    return _STATE_ROLES.get(state)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Args:
        title: its heading.
        right: whether its cells are aligned to the right, as numbers are.
        role: gives the colour role of a cell from its text.
    """

    title: str
    right: bool = False
    role: Callable[[str], str | None] | None = None


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, header: bool = True, style: Style = PLAIN) -> list[str]:
    """The lines of a table; a column of empty cells is left out.

    Args:
        header: whether it has a line of headings, unless the style leaves them out.

    >>> print("\\n".join(table([Column("TYPE"), Column("POOLS", right=True)], [["core", "128"], ["gpu", "16"]])))
    TYPE  POOLS
    core    128
    gpu      16
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    texts_of = [*zip(*cells, strict=True)] if cells else [()] * len(columns)
    kept = [(column, texts) for column, texts in zip(columns, texts_of, strict=True) if not cells or any(texts)]
    if not kept:
        return [""] * len(cells)
    shown = [
        _aligned(*column, header=header and style.header, style=style, is_last=number == len(kept) - 1)
        for number, column in enumerate(kept)
    ]
    return ["  ".join(line).rstrip() for line in zip(*shown, strict=True)]


def _aligned(column: Column, texts: Sequence[str], *, header: bool, style: Style, is_last: bool) -> list[str]:
    """The cells of one column, its heading first, painted and padded to one width."""
    roles = [column.role and column.role(text) for text in texts] if style.enabled else [None] * len(texts)
    if header:
        texts, roles = [column.title, *texts], ["heading", *roles]
    widths = [width(text) for text in texts]
    most = max(widths, default=0)
    found = []
    for text, role, own in zip(texts, roles, widths, strict=True):
        blanks = "" if is_last and not column.right else " " * (most - own)
        cell = blanks + text if column.right else text + blanks
        found.append(style.paint(cell, role) if style.enabled else cell)
    return found
