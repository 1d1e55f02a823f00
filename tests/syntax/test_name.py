"""Names: what can be one, and what cannot."""

from __future__ import annotations

import pytest

from fluxres import limits
from fluxres.syntax.name import is_name


@pytest.mark.parametrize("text", ["a", "rack 0", "Zürich", "n" * limits.NAME_LENGTH_MAX, "a:b"])
def test_a_printable_text_is_a_name(text: str) -> None:
    assert is_name(text)
    assert is_name(text, without="/")


@pytest.mark.parametrize("text", ["", "a\nb", "a\x00", "\u202e", "n" * (limits.NAME_LENGTH_MAX + 1), None, 7, b"a"])
def test_other_texts_and_values_are_not(text: object) -> None:
    assert not is_name(text)


@pytest.mark.parametrize("mark", "/:")
def test_characters_can_be_forbidden(mark: str) -> None:
    assert is_name(f"a{mark}b")
    assert not is_name(f"a{mark}b", without="/:")
