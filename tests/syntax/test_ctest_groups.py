"""CTest's RESOURCE_GROUPS and the variables that a test gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.formats.peers.ctest.groups import Group, Need, environment, expand, format, parse, processes
from fluxres.formats.peers.ctest.groups import given as given_to

TYPES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
NEEDS = st.builds(Need, TYPES, st.integers(0, 2**31 - 1))
GROUPS = st.lists(st.builds(Group, st.integers(0, 2**40), st.lists(NEEDS, max_size=4).map(tuple)), max_size=4)


@given(GROUPS)
def test_groups_are_read_as_written(groups: list[Group]) -> None:
    assert parse(format(groups)) == groups
    assert processes(groups) == sum(group.count for group in groups)


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("2", [Group(2, ())]),
        (";;a:1;", [Group(1, (Need("a", 1),))]),
        ("a:1,,b:2,", [Group(1, (Need("a", 1), Need("b", 2)))]),
        ("00,a:01", [Group(0, (Need("a", 1),))]),
    ],
)
def test_forms(text: str, groups: list[Group]) -> None:
    assert parse(text) == groups


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (",", 1),
        ("a", 1),
        ("a:", 1),
        ("a:x", 1),
        ("a:1b:2", 4),
        ("1a:1", 2),
        ("1,2", 3),
        ("1, a:1", 3),
        ("a:1;B:2", 5),
        ("a:1;;b:1,c", 10),
        ("-1", 1),
        ("1.5,a:1", 2),
        ("é:1", 1),
    ],
)
def test_refusals_name_the_column(text: str, column: int) -> None:
    with pytest.raises(InputError) as found:
        parse(text)
    assert found.value.where == f"RESOURCE_GROUPS:{column}"
    assert "COUNT" in found.value.hint


@pytest.mark.parametrize("text", ["9" * 30, "a:2147483648", f"a:{'9' * 5000}", "a" * 70_000])
def test_bounds(text: str) -> None:
    with pytest.raises(LimitExceeded):
        parse(text)


def test_million_processes_are_one_description_until_expanded() -> None:
    groups = parse("1000000000,a:1")
    assert processes(groups) == 10**9
    with pytest.raises(LimitExceeded):
        list(expand(groups))


GIVEN = st.lists(
    st.dictionaries(
        TYPES,
        st.lists(st.tuples(st.from_regex(r"[a-z0-9_]{1,4}", fullmatch=True), st.integers(0, 99)), min_size=1, max_size=3),
        max_size=3,
    ),
    max_size=3,
)


@given(GIVEN)
def test_variables_are_read_as_written(given_groups: list[dict[str, list[tuple[str, int]]]]) -> None:
    if any(len({name.upper() for name in types}) < len(types) for types in given_groups):
        return
    made = environment(given_groups)
    assert made["CTEST_RESOURCE_GROUP_COUNT"] == str(len(given_groups))
    assert given_to(made) == given_groups


def test_variables_not_set_by_ctest_are_refused() -> None:
    assert given_to({}) == []
    for wrong in (
        {"CTEST_RESOURCE_GROUP_COUNT": "x"},
        {"CTEST_RESOURCE_GROUP_COUNT": "9999999999"},
        {"CTEST_RESOURCE_GROUP_COUNT": "1", "CTEST_RESOURCE_GROUP_0": "gpus"},
        {"CTEST_RESOURCE_GROUP_COUNT": "1", "CTEST_RESOURCE_GROUP_0": "gpus", "CTEST_RESOURCE_GROUP_0_GPUS": "id:A,slots:1"},
    ):
        with pytest.raises(InputError):
            given_to(wrong)


@given(st.text(st.sampled_from("ab_1029:,;A -"), max_size=16))
def test_any_text_is_groups_or_an_error(text: str) -> None:
    try:
        found = parse(text)
    except FluxresError as error:
        where = error.where
    else:
        where = "read"
        assert parse(format(found)) == found
    assert where
