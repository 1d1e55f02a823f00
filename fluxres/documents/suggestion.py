"""Hints that suggest a known word for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(word: str, known: Iterable[str], *, most: int = 1) -> str:
    """A hint that names the known words that are spelled almost like this one; empty if there are none.

    >>> suggest("esay", ["fcfs", "easy"]), suggest("x", ["fcfs", "easy"])
    ('did you mean easy?', '')
    """
    from difflib import get_close_matches

    near = get_close_matches(word[:64], list(known), most)
    return f"did you mean {' or '.join(near)}?" if near else ""
