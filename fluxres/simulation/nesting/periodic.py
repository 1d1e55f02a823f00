"""Policies that are named by a word, or by a word and the period in which they act, such as ``redeal:60``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fluxres.errors import UsageError

T = TypeVar("T")


def parse(text: str, where: str, plain: Mapping[str, Callable[[], T]], periodic: str, make: Callable[[float], T]) -> T:
    """A policy from its name.

    Args:
        where: the option, for errors.
        plain: makes policies without a period, by name.
        periodic: the name of the one with a period; `make` makes it from the seconds.

    Errors: UsageError.
    """
    name, _, rest = text.partition(":")
    if name == periodic:
        try:
            period_s = float(rest)
        except ValueError:
            period_s = 0.0
        if 1e-3 <= period_s < 1e9:
            return make(period_s)
        raise UsageError(f"expected a period in seconds such as {periodic}:60, got {text!r:.80}", where=where)
    if text in plain:
        return plain[text]()
    raise UsageError(f"expected {', '.join((*plain, f'{periodic}:SECONDS'))}, got {text!r:.80}", where=where)
