"""Text on a terminal: control characters made visible, units and times, colour, and tables.

Names, tags and job ids come from files and other people. An escape sequence in one must not be able to recolour a terminal or
hide a line, so everything shown goes through :func:`printable`.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fluxres.syntax import moment
from fluxres.syntax.unit import readable


def printable(text: str) -> str:
    """The text with everything unprintable escaped.

    >>> printable("a\\x1b[2Jb"), printable("Zürich")
    ('a\\\\x1b[2Jb', 'Zürich')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


UTF_8: Final = "utf8"
_INSTEAD: Final = str.maketrans(
    {
        "━": "=",
        "┅": "-",
        "▒": "#",
        "·": ".",
        "┬": "+",
        "▼": "V",
        "├": "|",
        "└": "`",
        "│": "|",
        "─": "-",
        "×": "x",
        "↔": "<->",
        "→": "->",
        "…": "...",
        "µ": "u",
    }
)
"""What stands for the characters of tables and trees on terminals without UTF-8."""


def without_utf8(text: str, encoding: str) -> str:
    """A text in another encoding; what it does not have is escaped.

    >>> without_utf8("├─ 核", "ascii")
    '|- \\\\u6838'
    """
    return text.translate(_INSTEAD).encode(encoding, "backslashreplace").decode(encoding)


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


def units(amount: int, unit: str | None) -> str:
    """An amount with its unit, as people read it.

    >>> units(9087168512, "B"), units(8, None)
    ('8.46 GiB', '8')
    """
    return readable(amount, unit)


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
        columns: the width of the terminal, into which tables must fit; None is no limit.
        encoding: of the output, for which texts are rewritten before they are aligned.

    >>> Style(False).paint("down", "bad"), Style(True).paint("down", "bad")
    ('down', '\\x1b[31mdown\\x1b[0m')
    """

    enabled: bool = False
    header: bool = True
    columns: int | None = None
    encoding: str = UTF_8

    def paint(self, text: str, role: str | None) -> str:
        """The text in the colour of a role: heading, bad, warn, job or faint; None is plain."""
        if not self.enabled or role is None or not text.strip():
            return text
        return f"\x1b[{_CODES[role]}m{text}\x1b[0m"

    def encoded(self, text: str) -> str:
        """The text as the output shows it.

        >>> Style(encoding="ascii").encoded("2× ö")
        '2x \\\\xf6'
        """
        return text if self.encoding == UTF_8 or text.isascii() else without_utf8(text, self.encoding)

    def lay_out(self, kept: Sequence[Cells], *, has_head: bool) -> list[str]:
        """The lines of a table: its columns with their texts, fitted and aligned."""
        if self.encoding != UTF_8:
            kept = [(column, [self.encoded(text) for text in texts]) for column, texts in kept]
        shown = list(kept) if self.columns is None else _fitting(list(kept), self.columns, self.encoded("…"), has_head=has_head)
        aligned = [_aligned(*one, header=has_head, style=self, is_last=one is shown[-1]) for one in shown]
        return [_GAP.join(line).rstrip() for line in zip(*aligned, strict=True)]


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
        drop: the order in which columns are left out where the terminal is too narrow, 1 first; columns of 0 always stay.
        cut: whether long texts are cut there, with an ellipsis, instead of folded; these columns become narrow first.
    """

    title: str
    right: bool = False
    role: Callable[[str], str | None] | None = None
    drop: int = 0
    cut: bool = False


Cells = tuple[Column, Sequence[str]]
"""A column with its texts, one for each row."""
_GAP: Final = "  "
_CELL_MAX: Final = 24
_CELL_MIN: Final = 8
"""Texts are folded to the width of their longest part without a blank, comma or slash, at most `_CELL_MAX`, never to less than
`_CELL_MIN`."""
_PART: Final = re.compile(r"[^\s,;/]+[\s,;/]*|[\s,;/]+")


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, header: bool = True, style: Style = PLAIN) -> list[str]:
    """The lines of a table; a column of empty cells is left out.

    Where the table is wider than the terminal, columns are left out in their order, then the widest texts are folded.

    Args:
        header: whether it has a line of headings, unless the style leaves them out.

    >>> print("\\n".join(table([Column("TYPE"), Column("POOLS", right=True)], [["core", "128"], ["gpu", "16"]])))
    TYPE  POOLS
    core    128
    gpu      16
    >>> held = [Column("JOB"), Column("PATH"), Column("POOLS", right=True, drop=1)]
    >>> print("\\n".join(table(held, [["j1", "/demo/rack0/node[0-3]", "4"]], style=Style(columns=20))))
    JOB  PATH
    j1   /demo/rack0/
         node[0-3]
    """
    cells = [[(cell if cell.isprintable() else printable(cell)).rstrip() for cell in row] for row in rows]
    texts_of = [*zip(*cells, strict=True)] if cells else [()] * len(columns)
    kept: list[Cells] = [(column, texts) for column, texts in zip(columns, texts_of, strict=True) if not cells or any(texts)]
    if not kept:
        return [""] * len(cells)
    return style.lay_out(kept, has_head=header and style.header)


def table_width(columns: Iterable[Cells]) -> int:
    """The columns of a terminal that a table takes without anything left out or folded.

    >>> table_width([(Column("TYPE"), ["core"]), (Column("POOLS"), ["128"])])
    11
    """
    return _across([max(map(width, [column.title, *texts])) for column, texts in columns])


def _fitting(kept: list[Cells], most: int, ellipsis: str, *, has_head: bool) -> list[Cells]:
    """The columns that fit into this many columns of the terminal, with long texts folded into several rows."""

    def needed(column: Column, texts: Iterable[str]) -> int:
        return max([width(column.title)] * has_head + [width(text) for text in texts], default=0)

    widths = [needed(column, texts) for column, texts in kept]
    _narrow(widths, [min(own, _CELL_MIN) if column.cut else own for (column, _), own in zip(kept, widths, strict=True)], most)
    excess = _across(widths) - most
    for i in sorted((i for i, (column, _) in enumerate(kept) if column.drop), key=lambda i: kept[i][0].drop):
        if excess > 0 and widths.count(-1) < len(widths) - 1:
            excess -= widths[i] + len(_GAP)
            widths[i] = -1
    kept, widths = [one for one, own in zip(kept, widths, strict=True) if own >= 0], [own for own in widths if own >= 0]
    for floor in (_CELL_MAX, _CELL_MIN):  # long words are broken only if nothing else helps
        least = [
            own if column.right or column.cut else min(own, floor, needed(column, _parts(texts)))
            for (column, texts), own in zip(kept, widths, strict=True)
        ]
        _narrow(widths, least, most)
    folded = [
        [[cut(text, own, ellipsis)] if column.cut else _folded(text, own) for text in texts]
        for (column, texts), own in zip(kept, widths, strict=True)
    ]
    heights = [max(map(len, row)) for row in zip(*folded, strict=True)]
    return [
        (column, [line for lines, height in zip(cells, heights, strict=True) for line in lines + [""] * (height - len(lines))])
        for (column, _), cells in zip(kept, folded, strict=True)
    ]


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrow(widths: list[int], least: list[int], most: int) -> None:
    """Take from the widest columns until all of them fit, or each has its least width."""
    while _across(widths) > most and widths != least:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[widest] -= 1


def _parts(texts: Iterable[str]) -> set[str]:
    return {part.rstrip() for text in texts for part in _PART.findall(text)}


def cut(text: str, columns: int, ellipsis: str = "…") -> str:
    """The beginning of a text, with an ellipsis if something is missing.

    >>> cut("class=3 ssd", 8), cut("ssd", 8)
    ('class=3…', 'ssd')
    """
    if width(text) <= columns:
        return text
    kept = text
    while kept and width(kept) + len(ellipsis) > columns:
        kept = kept[:-1]
    return f"{kept.rstrip()}{ellipsis}"


def _folded(text: str, columns: int) -> list[str]:
    """The lines of a text, broken after blanks, commas and slashes, or anywhere in a longer part.

    >>> _folded("node[0-1,4], core0@node3", 12)
    ['node[0-1,4],', 'core0@node3']
    """
    lines = [""]
    for part in _PART.findall(text):
        if lines[-1] and width(lines[-1] + part.rstrip()) > columns:
            lines.append("")
        for letter in part if width(part.rstrip()) > columns else [part]:
            if lines[-1] and width(lines[-1] + letter.rstrip()) > columns:
                lines.append("")
            lines[-1] += letter
    return [line.rstrip() for line in lines]


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
