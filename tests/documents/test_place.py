"""Places in documents, and the checks of single values that every reader of requests shares."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.documents.document import Key, Place, shown
from fluxres.documents.places import OfJson
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


JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('a{["\\,é ', max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a{["\\,é ', max_size=2), inner, max_size=4),
    max_leaves=12,
)


def _paths(value: object, path: tuple[Key, ...] = ()) -> Iterator[tuple[Key, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from _paths(inner, (*path, key))


@given(JSON, st.sampled_from([None, 1]), st.randoms(use_true_random=False))
def test_a_place_in_json_is_the_same_whatever_was_asked_for_before(value: Any, indent: int | None, random: Random) -> None:
    text = json.dumps(value, indent=indent)
    together = OfJson(text)
    wanted = [(path, is_key) for path in _paths(value) for is_key in (False, True)]
    random.shuffle(wanted)
    for path, is_key in wanted:
        offset = together.offset(path, key=is_key)
        assert offset == OfJson(text).offset(path, key=is_key)
        inner = value
        for step in path:
            inner = inner[step]
        named = path[-1] if is_key and path and isinstance(path[-1], str) else inner
        assert json.JSONDecoder().raw_decode(text, offset)[0] == named
        for beyond in ("none", 99):
            assert together.offset((*path, beyond, 0), key=is_key) == together.offset(path)
