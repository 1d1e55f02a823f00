"""Hints that list the names there are."""

from __future__ import annotations

from fluxres import limits
from fluxres.documents.suggestion import choose_from


def test_a_hint_lists_a_bounded_number_of_names() -> None:
    names = [f"g{i}" for i in range(limits.CHOICES_MAX + 1)]
    assert choose_from(names[:-1]) == f"choose from {', '.join(names[:-1])}"
    assert choose_from(names) == f"choose from {', '.join(names[:-1])} …"
    assert choose_from(names, most=2) == "choose from g0, g1 …"
    assert choose_from(iter(()), otherwise="there are none") == "there are none"
