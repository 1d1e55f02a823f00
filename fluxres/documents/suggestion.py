"""Hints that suggest a known word for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from fluxres import limits

_LENGTH_MAX: Final = 64
"""Of a word that is compared: comparing takes time by the square of it."""


def near(word: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known words that are spelled almost like this one, the nearest first."""
    from difflib import get_close_matches

    return get_close_matches(word[:_LENGTH_MAX], list(known), most, cutoff)


def did_you_mean(words: Sequence[str]) -> str:
    """A hint that names these words; empty if there are none.

    >>> did_you_mean(["GiB", "GB"])
    'did you mean GiB or GB?'
    """
    return f"did you mean {' or '.join(words)}?" if words else ""


def suggest(word: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> str:
    """A hint that names the known words that are spelled almost like this one; empty if there are none.

    >>> suggest("esay", ["fcfs", "easy"]), suggest("x", ["fcfs", "easy"])
    ('did you mean easy?', '')
    """
    return did_you_mean(near(word, known, most=most, cutoff=cutoff))


def choose_from(names: Iterable[str], *, most: int = limits.CHOICES_MAX, otherwise: str = "there is none") -> str:
    """A hint that lists the names there are.

    Args:
        most: names that are listed; an ellipsis is in place of the others.
        otherwise: the hint if there are no names.

    >>> choose_from(["fcfs", "easy"]), choose_from(["a", "b", "c"], most=2), choose_from([])
    ('choose from fcfs, easy', 'choose from a, b …', 'there is none')
    """
    some = list(islice(names, most + 1))
    return f"choose from {', '.join(some[:most])}{' …' * (len(some) > most)}" if some else otherwise


def suggest_or_choose(
    word: str, known: Sequence[str], *, most: int = limits.CHOICES_MAX, otherwise: str = "there is none"
) -> str:
    """A hint that names the known words that are spelled almost like this one, else lists what there is as `choose_from` does.

    >>> suggest_or_choose("esay", ["fcfs", "easy"]), suggest_or_choose("x", ["fcfs", "easy"])
    ('did you mean easy?', 'choose from fcfs, easy')
    """
    return suggest(word, known, most=3) or choose_from(known, most=most, otherwise=otherwise)


def nearest(word: str, known: Sequence[str], otherwise: str | None = None) -> str:
    """A hint that names the known word that is spelled almost like this one.

    Args:
        otherwise: the hint if there is none; all known words by default.

    >>> nearest("cuont", ["count", "type"]), nearest("x", ["count", "type"]), nearest("x", ["count"], "leave it out")
    ("did you mean 'count'?", 'known: count, type', 'leave it out')
    """
    found = did_you_mean([repr(one) for one in near(word, known)])
    return found or (f"known: {', '.join(known)}" if otherwise is None else otherwise)
