"""Idsets: RFC 22's grammar with flux-core's strictness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.syntax import idset

IDS = st.sets(st.integers(0, 60) | st.integers(0, limits.ID_MAX), max_size=30)


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("", []),
        ("[]", []),
        ("0", [0]),
        ("4-6", [4, 5, 6]),
        ("[4-6]", [4, 5, 6]),
        ("0,2-3,10", [0, 2, 3, 10]),
        ("3,,9", [3, 9]),
        (",3", [3]),
        ("3,", [3]),
        (",", []),
    ],
)
def test_reads_what_flux_reads(text: str, members: list[int]) -> None:
    assert idset.parse(text) == members


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("2,1", 3),
        ("5,5", 3),
        ("1-4,4", 5),
        ("4-4", 1),
        ("9,5-4", 3),
        (" 1", 1),
        ("1 ", 1),
        ("1, 2", 3),
        ("+1", 1),
        ("-1", 1),
        ("1-", 1),
        ("1--2", 1),
        ("1-2-3", 1),
        ("01", 1),
        ("0-01", 1),
        ("00", 1),
        ("[1", 1),
        ("1]", 2),
        ("[[1]]", 2),
        ("0,[2]", 5),
        ("[1][2]", 2),
        ("x", 1),
        ("1.5", 1),
        ("0x1", 1),
        ("٣", 1),
        ("1;2", 1),
        ("1\n", 1),
        ("1\0", 1),
    ],
)
def test_refuses_what_flux_refuses_and_names_the_column(text: str, column: int) -> None:
    with pytest.raises(InputError) as refused:
        idset.parse(text)
    assert refused.value.where == f"idset:{column}"


def test_a_huge_range_is_refused_instead_of_expanded() -> None:
    assert idset.ranges("0-999999999") == [(0, 999999999)]
    with pytest.raises(LimitExceeded, match="1000000000"):
        idset.parse("0-999999999")
    with pytest.raises(LimitExceeded, match=str(limits.IDSET_COUNT_MAX)):
        idset.parse(f"5,10-{limits.IDSET_COUNT_MAX + 9}")


@pytest.mark.parametrize("text", [str(limits.ID_MAX + 1), "9" * 20, "9" * 10_000])
def test_ids_beyond_the_column_are_refused(text: str) -> None:
    assert idset.parse(str(limits.ID_MAX)) == [limits.ID_MAX]
    with pytest.raises(LimitExceeded, match=str(limits.ID_MAX)):
        idset.parse(text)


@pytest.mark.parametrize(
    ("ids", "plain", "bracketed", "listed"),
    [
        ([], "", "", ""),
        ([3], "3", "3", "3"),
        ([3, 4], "3-4", "[3-4]", "3,4"),
        ([9, 1, 2, 1], "1-2,9", "[1-2,9]", "1,2,9"),
    ],
)
def test_format(ids: list[int], plain: str, bracketed: str, listed: str) -> None:
    assert idset.format(ids) == plain
    assert idset.format(ids, brackets=True) == bracketed
    assert idset.format(iter(ids), ranges=False) == listed


def test_a_negative_id_cannot_be_written() -> None:
    with pytest.raises(UsageError, match="-1"):
        idset.format([3, -1])


@given(IDS, st.booleans(), st.booleans())
def test_what_is_written_is_read_back(ids: set[int], brackets: bool, ranges: bool) -> None:
    assert idset.parse(idset.format(ids, brackets, ranges=ranges)) == sorted(ids)


@given(IDS)
def test_ranges_are_as_few_as_can_be(ids: set[int]) -> None:
    assert len(idset.ranges(idset.format(ids))) == sum(member - 1 not in ids for member in ids)


@given(st.text() | st.text("0123456789,-[] "))
def test_any_text_is_a_set_or_an_error(text: str) -> None:
    try:
        members = idset.parse(text)
    except FluxresError:
        return
    assert members == sorted(set(members))
    assert idset.parse(idset.format(members)) == members
