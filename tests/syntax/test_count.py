"""Counts: all forms of RFC 14 have the same meaning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import count, idset
from fluxres.syntax.count import NOTHING
from fluxres.syntax.range import Range
from tests.syntax.requests import count_values, wild_values


@pytest.mark.parametrize(
    ("value", "members", "plain", "text"),
    [
        (4, [4], 4, "4"),
        ("4", [4], 4, "4"),
        ("[4]", [4], 4, "4"),
        ("3-3", [3], 3, "3"),
        ("4,9,16", [4, 9, 16], "4,9,16", "4,9,16"),
        ("2,3,4,9", [2, 3, 4, 9], "2-4,9", "2-4,9"),
        ("2-5", [2, 3, 4, 5], {"min": 2, "max": 5, "operator": "+", "operand": 1}, "2-5"),
        ("2-16:2:^", [2, 4, 16], {"min": 2, "max": 16, "operator": "^", "operand": 2}, "2-16:2:^"),
        ({"min": 4, "max": 6}, [4, 5, 6], {"min": 4, "max": 6, "operator": "+", "operand": 1}, "4-6"),
        ({"min": 18}, [18, 19, 20], {"min": 18}, "18+"),
        ({"min": 6, "operand": 7}, [6, 13, 20], {"min": 6, "operator": "+", "operand": 7}, "6+:7"),
        ({"min": 1, "max": 3, "operator": "+"}, [1, 2, 3], {"min": 1, "max": 3, "operator": "+", "operand": 1}, "1-3"),
        ('{"min": 3, "max": 3}', [3], 3, "3"),
    ],
)
def test_forms(value: object, members: list[int], plain: object, text: str) -> None:
    made = count.parse(value)
    assert list(made.values(20)) == members
    assert list(made.descending(20)) == members[::-1]
    assert made.to_plain() == plain
    assert str(made) == text


def test_equal_when_they_mean_the_same_runs() -> None:
    assert len({count.parse(text) for text in ("2-4", "2,3,4", "[2-3,4]", "2-4:1:+")} | {count.parse({"min": 2, "max": 4})}) == 1
    assert count.parse("2-4") != count.parse("2-5")


def test_runs_and_their_gaps() -> None:
    made = count.parse("4,9,16-20")
    assert [made.valid(free) for free in (0, 3, 4, 8, 9, 15, 18, 99)] == [0, 0, 4, 4, 9, 9, 18, 20]
    assert [amount for amount in range(25) if amount in made] == [4, 9, 16, 17, 18, 19, 20]
    assert (made.min, made.max, made.fixed, made.contiguous) == (4, 20, None, False)


def test_no_count_is_zero() -> None:
    assert (NOTHING.min, NOTHING.max, NOTHING.fixed, NOTHING.valid(9), NOTHING.to_plain()) == (0, 0, 0, 0, 0)
    assert 0 in NOTHING
    assert 1 not in NOTHING


def test_brackets_and_long_form() -> None:
    assert count.format(count.parse("1,7-9"), brackets=True) == "[1,7-9]"
    assert count.format(count.parse("[5]"), brackets=True) == "5"
    assert count.format(count.parse("1,7-9"), short=False) == "1,7,8,9"
    with pytest.raises(LimitExceeded, match=str(limits.IDSET_COUNT_MAX)):
        count.format(count.parse(f"1,9-{limits.IDSET_COUNT_MAX + 9}"), short=False)
    with pytest.raises(InputError, match="one range"):
        count.parse("1,3").to_mapping()


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        4.0,
        True,
        None,
        [],
        [4],
        "",
        "[]",
        "0",
        "[0]",
        "0,3",
        "-5",
        "3-2",
        "4.2",
        "x",
        "1-2x",
        "2,2",
        "3,2",
        "2-8:1:*",
        "{",
        "{}",
        "{1}",
        {},
        {"max": 3},
        {"min": 0},
        {"min": True},
        {"min": "1"},
        {"min": 3, "max": 2},
        {"min": 1, "max": None},
        {"min": 1, "step": 2},
        {"min": 1, "max": 9, "operator": "^", "operand": 2},
        {"min": 2, "operator": "*"},
        {"min": 2, "operator": ["+"], "operand": 2},
    ],
)
def test_invalid_counts_are_refused(value: object) -> None:
    with pytest.raises(InputError) as refused:
        count.parse(value)
    assert refused.value.where == "count"


@pytest.mark.parametrize(
    "value", [2**63, 10**1000, str(2**63), "9" * 5000, f"1,{2**63}", {"min": 2**63}, {"min": 1, "max": 10**5000}]
)
def test_beyond_the_bound(value: object) -> None:
    assert count.parse(limits.COUNT_MAX).fixed == limits.COUNT_MAX
    with pytest.raises(LimitExceeded):
        count.parse(value)


@pytest.mark.parametrize(
    ("value", "rfc14", "fluxion"),
    [
        (4, True, True),
        ("4", True, False),
        ("2-4", True, False),
        ({"min": 2}, True, True),
        ({"min": 2, "max": 4}, True, False),
        ({"min": 2, "operator": "+", "operand": 2}, True, False),
        ({"min": 2, "max": 4, "operand": 2}, False, False),
        ({"min": 2, "max": 4, "operator": "+"}, False, False),
        ({"min": 2, "max": 4, "operator": "+", "operand": 2}, True, True),
    ],
)
def test_dialects(value: object, rfc14: bool, fluxion: bool) -> None:
    def taken(dialect: Any) -> bool:
        try:
            return bool(count.parse(value, dialect=dialect))
        except InputError:
            return False

    assert (taken("lenient"), taken("rfc14"), taken("fluxion")) == (True, rfc14, fluxion)


@pytest.mark.parametrize("value", ["2+:2:*", "2+:3", {"min": 2, "operator": "^", "operand": 2}])
def test_open_steps_can_be_refused(value: object) -> None:
    assert count.parse(value).max is None
    with pytest.raises(InputError, match="expected a max"):
        count.parse(value, open_steps=False)
    assert count.parse("2+", open_steps=False).max is None


@given(count_values())
def test_written_forms_are_read_back(value: object) -> None:
    made = count.parse(value)
    assert count.parse(made.to_plain()) == made == count.parse(str(made))
    assert list(count.parse(str(made)).values(500)) == list(made.values(500))


@given(st.sets(st.integers(1, 60), min_size=1), st.integers(-3, 70))
def test_idsets_agree_with_the_set(members: set[int], available: int) -> None:
    made = count.parse(idset.format(members))
    below = sorted(member for member in members if member <= available)
    assert made.valid(available) == max(below, default=0)
    assert list(made.values(available)) == below
    assert list(made.descending(available)) == below[::-1]
    assert (available in made) == (available in members)
    assert made.contiguous == (len(members) == max(members) - min(members) + 1)


@given(wild_values() | st.text("0123456789-+:*^[],{}"))
def test_anything_is_a_count_or_an_error(value: object) -> None:
    try:
        made = count.parse(value)
    except FluxresError:
        return
    assert made.min in made
    assert made.valid(made.min) == made.min


def test_counts_can_be_made_from_a_range() -> None:
    assert count.Count(Range(2, 8, "*", 2)) == count.parse("2-8:2:*")
