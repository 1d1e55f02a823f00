"""Values in error messages: short, however large the input was."""

from __future__ import annotations

from collections.abc import Mapping

_DIGITS_MAX = 30


def excerpt(text: str, length: int = 40) -> str:
    """`text` quoted for a message, cut to about `length` characters.

    >>> excerpt("node[0-3"), excerpt("x" * 50, length=8)
    ("'node[0-3'", "'xxxxx...'")
    """
    return repr(text if len(text) <= length else text[: length - 3] + "...")


def shown(value: object) -> str:
    """A value for a message: short, however large or deep it is, and never an error of its own.

    >>> shown("x" * 100), shown([[[]]]), shown(10**6000), shown(None)
    ("'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'", 'a list of 1', 'an integer of more than 30 digits', 'null')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return excerpt(value)
    if isinstance(value, int):
        return str(int(value)) if abs(value) < 10**_DIGITS_MAX else f"an integer of more than {_DIGITS_MAX} digits"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    return f"a {type(value).__name__}"
