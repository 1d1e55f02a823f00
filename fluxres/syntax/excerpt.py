"""The value in an error message: quoted, and short however long the input was."""

from __future__ import annotations


def excerpt(text: str, length: int = 40) -> str:
    """`text` quoted for a message, cut to about `length` characters.

    >>> excerpt("node[0-3"), excerpt("x" * 50, length=8)
    ("'node[0-3'", "'xxxxx...'")
    """
    return repr(text if len(text) <= length else text[: length - 3] + "...")
