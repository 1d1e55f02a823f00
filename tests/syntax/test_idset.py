"""Idsets: RFC 22's grammar with flux-core's strictness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.syntax import idset
from fluxres.syntax.idset import IDset

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
def test_accepts_what_flux_accepts(text: str, members: list[int]) -> None:
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
def test_written_sets_are_read_back(ids: set[int], brackets: bool, ranges: bool) -> None:
    assert idset.parse(idset.format(ids, brackets, ranges=ranges)) == sorted(ids)


@given(IDS)
def test_the_number_of_ranges_is_minimal(ids: set[int]) -> None:
    assert len(idset.ranges(idset.format(ids))) == sum(member - 1 not in ids for member in ids)


@given(st.text() | st.text("0123456789,-[] "))
def test_any_text_is_a_set_or_an_error(text: str) -> None:
    try:
        members = idset.parse(text)
    except FluxresError:
        return
    assert members == sorted(set(members))
    assert idset.parse(idset.format(members)) == members


# -- IDset -----------------------------------------------------------------------------------------------------------

MEMBERS = st.sets(st.integers(0, 40))


@given(MEMBERS, st.lists(MEMBERS, max_size=3), st.integers(-2, 42))
def test_a_set_of_ids_is_a_set(members: set[int], others: list[set[int]], at: int) -> None:
    ids = IDset(members)
    assert list(ids) == sorted(members)
    assert list(reversed(ids)) == sorted(members, reverse=True)
    assert (len(ids), bool(ids), at in ids) == (len(members), bool(members), at in members)
    assert ids == IDset(str(ids)) == IDset(ids.encode(brackets=True)) == IDset(ids) == IDset.of_ranges(ids.ranges())
    assert str(ids) == idset.format(members)
    assert ids.encode(brackets=True) == idset.format(members, brackets=True)
    assert hash(ids) == hash(IDset(str(ids)))
    assert list(ids.union(*others)) == sorted(members.union(*others))
    assert list(ids.intersect(*others)) == sorted(members.intersection(*others))
    assert list(ids.difference(*others)) == sorted(members.difference(*others))
    for other in others:
        same = IDset(other)
        assert (list(ids | same), list(ids & same)) == (sorted(members | other), sorted(members & other))
        assert (list(ids - same), list(ids ^ same)) == (sorted(members - other), sorted(members ^ other))
        assert (ids <= same, ids >= same, ids == same) == (members <= other, members >= other, members == other)
    above, below = [id_ for id_ in members if id_ > at], [id_ for id_ in members if id_ < at]
    assert (ids.next(at), ids.prev(at)) == (min(above, default=None), max(below, default=None))
    assert (ids.first(), ids.last()) == (min(members, default=None), max(members, default=None))
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(ids.ranges()))


def test_a_set_of_ids_is_made_of_text_of_an_id_or_of_ids() -> None:
    assert str(IDset()) == str(IDset("")) == str(IDset("[]")) == ""
    assert IDset(3) == IDset("3") == IDset([3]) == IDset(np.int64(3)) == IDset({3}) == IDset(np.array([3, 3]))
    assert str(IDset("0-3") - 1 | "7,9" | [8]) == "0,2-3,7-9"
    assert repr(IDset([1, 0])) == "IDset('0-1')"
    assert IDset("0-1") != {0, 1}
    assert "0" not in IDset("0-1")
    for wrong in ("1,0", "x", "0-"):
        with pytest.raises(InputError):
            IDset(wrong)
    for no_ids in (-1, 1.5, [None], ["1"], object()):
        with pytest.raises(UsageError):
            IDset(no_ids)  # type: ignore[arg-type]  # what a caller may give by mistake
    with pytest.raises(UsageError):
        IDset.of_ranges([(-5, 3)])
    with pytest.raises(LimitExceeded, match=str(limits.ID_MAX)):
        IDset(limits.ID_MAX + 1)


def test_sets_of_very_many_ids_stay_ranges() -> None:
    all_ids = IDset(f"0-{limits.ID_MAX}")
    assert len(all_ids) == limits.ID_MAX + 1
    assert str(all_ids - 5) == f"0-4,6-{limits.ID_MAX}"
    assert all_ids.next(10**18) == 10**18 + 1
    assert all_ids.next(limits.ID_MAX) is None
    assert all_ids & "3-9" == IDset("3-9")
    assert (all_ids ^ all_ids, all_ids >= IDset("1-9")) == (IDset(), True)
    even = IDset(range(0, 200_000, 2))
    assert len(even - IDset(range(0, 200_000, 4))) == 50_000


@pytest.mark.parametrize(("text", "instead"), [("0,3-1", "1-3"), ("0,3-3", "3")])
def test_a_range_that_does_not_increase_is_refused_with_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(InputError) as refused:
        idset.parse(text)
    expected = f"expected a range from a lower id to a higher one, got '{text[2:]}' (write {instead})"
    assert str(refused.value) == f"idset:3: {expected}"
