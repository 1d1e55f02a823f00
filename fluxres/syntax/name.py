"""Names that a person gives: of graphs, partitions, hosts, users and jobs."""

from __future__ import annotations

from typing import TypeGuard

from fluxres import limits


def is_name(text: object, without: str = "") -> TypeGuard[str]:
    """Whether this is a name: 1 to `NAME_LENGTH_MAX` printable characters.

    Args:
        without: characters that the name must not have.

    >>> is_name("rack 0"), is_name("a/b", without="/:"), is_name("tab\\t"), is_name(""), is_name(7)
    (True, False, False, False, False)
    """
    return (
        isinstance(text, str)
        and 0 < len(text) <= limits.NAME_LENGTH_MAX
        and text.isprintable()
        and not any(mark in text for mark in without)
    )
