"""Ranges of counts: RFC 45's grammar with flux-core's strictness, and the arithmetic of the three operators."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import range as ranges
from fluxres.syntax.range import Range
from tests.syntax.requests import NUMBERS, steps


def listed(least: int, most: int | None, operator: str, operand: int, limit: int) -> list[int]:
    """By the definition: apply the operator until the value is too large."""
    found = []
    value = least
    while value <= limit and (most is None or value <= most):
        found.append(value)
        value = {"+": value + operand, "*": value * operand, "^": value**operand}[operator]
    return found


@pytest.mark.parametrize(
    ("text", "expected", "short", "full"),
    [
        ("1-5:2:+", Range(1, 5, "+", 2), "1-5:2", "1-5:2:+"),
        ("1-5:2", Range(1, 5, "+", 2), "1-5:2", "1-5:2:+"),
        ("[1-4:1]", Range(1, 4), "1-4", "1-4:1:+"),
        ("2+", Range(2, None), "2+", "2+:1:+"),
        ("2+:3:^", Range(2, None, "^", 3), "2+:3:^", "2+:3:^"),
        ("[3-3:5:*]", Range(3, 3, "*", 5), "3", "3"),
        ("7", Range(7, 7), "7", "7"),
    ],
)
def test_ranges_are_read_and_written(text: str, expected: Range, short: str, full: str) -> None:
    assert ranges.parse(text) == expected
    assert ranges.format(expected) == str(expected) == short
    assert ranges.format(expected, short=False) == full


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "0",
        "0-3",
        "0+",
        "3-2",
        "01-2",
        "1-02",
        "1-2:0",
        "1-2:01",
        "2-8:1:*",
        "2-8:1:^",
        "1-8:2:^",
        "2-8:1:/",
        "2-8:2:",
        "5:2",
        "5:2:+",
        "1-",
        "-5",
        "+",
        "1++",
        "1-2-3",
        "[1-2",
        "1-2]",
        "[[1-2]]",
        "]1-2[",
        " 1-2",
        "1-2 ",
        "1-2\n",
        "1,2",
        "4.2",
        "٣+",
    ],
)
def test_invalid_ranges_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        ranges.parse(text)


@pytest.mark.parametrize("text", [f"{2**63}+", f"1-{2**62}", f"1-5:{2**62}", "9" * 10_000 + "+"])
def test_numbers_beyond_the_bound_are_refused(text: str) -> None:
    assert ranges.parse(f"1-{limits.COUNT_MAX}").max == limits.COUNT_MAX
    with pytest.raises(LimitExceeded, match=str(limits.COUNT_MAX)):
        ranges.parse(text)


@given(steps(), st.integers(-5, 5000))
def test_arithmetic_agrees_with_the_definition(parts: tuple[int, int | None, str, int], available: int) -> None:
    made = Range(*parts)
    expected = listed(*parts, available)
    assert list(made.values(available)) == expected
    assert made.valid(available) == (expected[-1] if expected else 0)
    assert (available in made) == (available in expected)


@given(steps(NUMBERS))
def test_huge_ranges_cost_nothing(parts: tuple[int, int | None, str, int]) -> None:
    made = Range(*parts)
    best = made.valid(limits.COUNT_MAX)
    assert best in made
    assert made.min <= best <= (made.max or limits.COUNT_MAX)


@given(steps(NUMBERS), st.booleans(), st.booleans())
def test_written_ranges_are_read_back(parts: tuple[int, int | None, str, int], short: bool, brackets: bool) -> None:
    made = Range(*parts)
    read = ranges.parse(ranges.format(made, short=short, brackets=brackets))
    assert read == made or (made.min == made.max == read.min == read.max)


@given(st.text() | st.text("0123456789-+:*^[]"))
def test_any_text_is_a_range_or_an_error(text: str) -> None:
    try:
        made = ranges.parse(text)
    except FluxresError:
        return
    assert made.min in made
