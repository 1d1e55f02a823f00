"""Arguments of public methods, checked by their type before anything is done with them.

Python would find a wrong one only where it is used: too late, if something has changed before, and in a message about the code
instead of the argument.  Names, ids and amounts are checked in `fluxres.model.targets`, times in `fluxres.clock`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fluxres.documents.document import shown
from fluxres.errors import UsageError

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def text(value: object, what: str, hint: str = "") -> str:
    """A text. Errors: UsageError.

    >>> text("yaml", "format")
    'yaml'
    """
    if not isinstance(value, str):
        raise expected("text", value, what, hint)
    return value


def is_unicode(value: str) -> bool:
    r"""Whether a text can be written: a surrogate, which is half of a character, cannot.

    >>> is_unicode("é"), is_unicode("\ud800")
    (True, False)
    """
    return value.isascii() or _SURROGATE.search(value) is None


def texts_or_none(**given: object) -> None:
    """Check that each is a text, or None where nothing is given. Errors: UsageError.

    >>> texts_or_none(name="j1", user=None)
    """
    for what, value in given.items():
        if value is not None:
            text(value, what)


def flag(value: object, what: str) -> bool:
    """True or False. Errors: UsageError."""
    if not isinstance(value, bool):
        raise expected("True or False", value, what)
    return value


def whole(value: object, what: str) -> int:
    """A whole number, which True is not. Errors: UsageError.

    >>> whole(4, "size")
    4
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise expected("a whole number", value, what)
    return value


def function(value: object, what: str, does: str) -> None:
    """Check that a value can be called. Errors: UsageError."""
    if not callable(value):
        raise expected(f"a function that {does}", value, what)


def items(value: object, what: str, of: str, hint: str = "") -> Iterable[Any]:
    """Several of something: a list or the like, but not one text. Errors: UsageError.

    >>> list(items((1, 2), "sizes", "numbers"))
    [1, 2]
    """
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | bytearray | memoryview):
        raise expected(f"a list of {of}", value, what, hint)
    return value


def mapping(value: object, what: str, of: str, hint: str = "") -> Mapping[Any, Any]:
    """A mapping. Errors: UsageError."""
    if not isinstance(value, Mapping):
        raise expected(f"a mapping of {of}", value, what, hint)
    return value


def expected(kind: str, value: object, what: str, hint: str = "") -> UsageError:
    """The error for a value of another kind."""
    found = repr(value) if value is None or isinstance(value, bool) else shown(value)
    return UsageError(f"{what}: expected {kind}, got {found}", hint=hint)
