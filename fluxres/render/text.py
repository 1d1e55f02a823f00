"""Text on a terminal: its width, padding, and control characters made visible.

Names, tags and job ids come from files and other people. An escape sequence in one must not be able to recolour a terminal or
hide a line, so everything shown goes through :func:`printable`.
"""

from __future__ import annotations

import unicodedata


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
