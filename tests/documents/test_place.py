"""Places in documents, and the checks of single values that every reader of requests shares."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.documents.document import Place, shown
from fluxres.errors import InputError, LimitExceeded
from tests.syntax.requests import plain_values, wild_values


def test_a_place_reads_like_a_path() -> None:
    assert str(Place()) == "request"
    assert str(Place(("a", 0, 1, "b"))) == "a[0][1].b"
    assert len(str(Place(("x" * 10_000,)))) == 256
    document = yaml_document.load(b"x: 1\na: 2\n", file="f")
    assert str(Place(("a",), document)) == "f:2:4: a"
    assert str(Place((), document)) == "f:1:1"


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, -1, True, "1", None, 10**400])
def test_seconds_are_finite_and_not_negative(value: Any) -> None:
    assert Place().seconds(0) == 0.0
    with pytest.raises(InputError):
        Place().seconds(value)


def test_texts_are_bounded() -> None:
    assert Place().text("x" * limits.VALUE_LENGTH_MAX)
    with pytest.raises(LimitExceeded, match=str(limits.VALUE_LENGTH_MAX)):
        Place().text("x" * (limits.VALUE_LENGTH_MAX + 1))


def test_the_number_of_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_VALUES_MAX", 100)
    assert len(Place().values(list(range(99)))) == 99
    doubling: list[Any] = [0]
    for _ in range(60):
        doubling = [doubling, doubling]
    for values in (doubling, [0] * 101):
        with pytest.raises(LimitExceeded, match="100 values"):
            Place().values(values)


@given(plain_values())
def test_copy_is_equal_and_independent(value: Any) -> None:
    copied = Place().values(value)
    assert copied == value
    assert copied is not value or not isinstance(value, list | dict)


@given(wild_values())
def test_any_value_can_be_shown(value: Any) -> None:
    assert len(shown(value)) < 100
