"""HyperQueue's pools: both grammars, reading and writing, and the column of errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.formats.peers.hyperqueue.definitions import (
    Groups,
    Kind,
    Listed,
    Pool,
    Range,
    Sum,
    check,
    format,
    grouped,
    parse,
    parse_cpus,
    summary,
    to_plain,
)

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9/]{0,8}", fullmatch=True)
LABELS = st.one_of(
    st.integers(0, 99).map(str),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"'), min_size=1, max_size=6),
)
LISTED = st.lists(LABELS, min_size=1, max_size=6, unique=True).map(lambda labels: Listed(tuple(labels)))
RANGES = st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda ends: Range(min(ends), max(ends)))
SUMS = st.integers(1, 10**9).map(Sum)
GROUPED = st.lists(LABELS, min_size=2, max_size=9, unique=True).flatmap(
    lambda labels: st.integers(1, len(labels) - 1).map(lambda cut: grouped([labels[:cut], labels[cut:]]))
)
EQUAL = st.tuples(st.integers(2, 5), st.integers(1, 5)).map(lambda shape: parse(f"x={shape[0]}x{shape[1]}").kind)
POOLS = st.builds(Pool, NAMES, st.one_of(LISTED, RANGES, SUMS, GROUPED, EQUAL))


@given(POOLS)
def test_written_pools_are_read_back(pool: Pool) -> None:
    text = format(pool)
    assert parse(text) == parse(text, dialect="current") == pool
    assert format(parse(text)) == text


@given(POOLS, st.sampled_from(["", " ", "  \t", "\n"]))
def test_blanks_around_tokens_are_ignored(pool: Pool, blank: str) -> None:
    if isinstance(pool.kind, Listed | Groups):
        return  # labels may contain blanks
    text = format(pool)
    for token in "=()-":
        text = text.replace(token, f"{blank}{token}{blank}")
    assert parse(f"{blank}{text}{blank}") == pool


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x=list(3, 1,2)", Listed(("1", "2", "3"))),
        ("x=list(1_0)", Listed(("10",))),
        ("9=sum(7)", Sum(70_000)),
        ("x=range(3-3)", Range(3, 3)),
        ("x=sum(18446744073709551615)", Sum((2**64 - 1) * 10_000)),
    ],
)
def test_the_grammar_of_the_first_versions(text: str, kind: Kind) -> None:
    assert parse(text, dialect="seed").kind == parse(text).kind == kind


def test_a_reversed_range_was_an_empty_pool_in_the_first_versions() -> None:
    pool = parse("x=range(5-3)", dialect="seed")
    assert len(pool.kind) == 0  # type: ignore[arg-type]  # it is a range
    with pytest.raises(InputError, match="is empty"):
        check([pool])
    with pytest.raises(InputError, match="greater or equal"):
        parse("x=range(5-3)")


@pytest.mark.parametrize("text", ["x=[a]", "x=2x3", "x=[[1],[2]]", "x=sum(1.5)", "a/b=sum(1)"])
def test_later_additions_are_not_in_the_grammar_of_the_first_versions(text: str) -> None:
    parse(text, dialect="current")
    with pytest.raises(InputError):
        parse(text, dialect="seed")


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "name of a resource, got the end"),
        ("=1", 1, "name of a resource"),
        ("a_b=sum(1)", 2, "expected '='"),
        ("a", 2, "expected '=', got the end"),
        ("a=", 3, "a definition, got the end"),
        ("a=4", 4, "expected _ or x"),
        ("a=4x", 5, "a number, got the end"),
        ("a=4y3", 4, "expected _ or x, got 'y3'"),
        ("a=0x3", 1, "at least one group"),
        ("a=[]", 4, "at least a single element"),
        ("a=[[1],[]]", 9, "Each group has to contain"),
        ("a=[1", 5, "expected ','"),
        ("a=[1 2]", 6, "expected ','"),
        ("a=[1,1]", 6, "unique"),
        ("a=[[1],[1]]", 11, "unique"),
        ("a=[[1],2]", 8, "expected '['"),
        ('a=["x', 4, "a label"),
        ('a=[""]', 4, "a label"),
        ("a=[x\u200b]]", 7, "the end of the definition"),
        ("a=list()", 8, "a number"),
        ("a=list(1.5)", 9, "expected ')'"),
        ("a=list(1,1)", 1, "unique"),
        ("a=range(1)", 10, "expected '-'"),
        ("a=range(5-3)", 9, "Start must be greater"),
        ("a=sum(-1)", 7, "an amount, got '-1)'"),
        ("a=sum(1.23456)", 9, "precision exceeded"),
        ("a=sum(1.)", 9, "decimals"),
        ("a=sum(1)x", 9, "the end of the definition"),
        ("a=sum(NaN)", 7, "an amount"),
        ("a=foo", 3, "a definition"),
    ],
)
def test_refusals_name_the_column(text: str, column: int, message: str) -> None:
    with pytest.raises(InputError) as found:
        parse(text)
    assert message in str(found.value)
    assert found.value.where == f"pool:{column}"


@pytest.mark.parametrize(
    "text",
    [
        "a=range(0-99999999999)",
        "a=4294967295x2",
        "a=2000000x2000000",
        "a=sum(18446744073709551616)",
        f"a=sum({'9' * 5000})",
        f"{'a' * 256}=sum(1)",
        f"a=[{'b' * 256}]",
    ],
)
def test_bounds(text: str) -> None:
    with pytest.raises(LimitExceeded) as found:
        parse(text)
    assert len(str(found.value)) < 300


def test_groups_of_equal_size_are_two_numbers() -> None:
    kind = parse("a=1000000000x4").kind
    assert isinstance(kind, Groups)
    assert (len(kind), len(kind.groups), kind.groups[-1]) == (4 * 10**9, 10**9, Range(4 * 10**9 - 4, 4 * 10**9 - 1))
    assert summary([Pool("a", kind)]) == "a 1000000000x4"
    small = parse("a=3x2").kind
    assert isinstance(small, Groups)
    assert list(small.groups) == list(small.groups[:]) == [Range(0, 1), Range(2, 3), Range(4, 5)]
    with pytest.raises(IndexError):
        small.groups[3]


def test_large_ranges_cost_nothing() -> None:
    assert len(parse("a=range(0-4_294_967_295)").kind) == 2**32  # type: ignore[arg-type]  # it is a range
    assert format(parse("a=65536x65535")) == "a=65536x65535"
    with pytest.raises(LimitExceeded, match="labels in groups"):
        to_plain(parse("a=2x2_000_000_000"))
    assert limits.IDSET_COUNT_MAX < 2**32


def test_cpus_may_be_a_number() -> None:
    assert parse_cpus("1_6").kind == Range(0, 15)
    assert parse_cpus("2x3") == parse("cpus=2x3")
    for text in ("0", "", "x", "4 4", "sum"):
        with pytest.raises(InputError):
            parse_cpus(text)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a=sum(1)", "a=[x]"], "defined more than once"),
        (["a=sum(0)"], "Resource a is empty"),
        (["cpus=sum(4)"], "cannot be used with CPUs"),
        (["a=[[0,1],[2,3,x]]", "b=[[1,0],[7,x]]", "a=1x1"], "defined more than once"),
    ],
)
def test_invalid_workers_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check([parse(text) for text in texts])


def test_labels_are_unique_across_groups_in_any_form() -> None:
    for kind in (
        Groups((Range(0, 3), Listed(("2",)))),
        Groups((Range(0, 3), Range(3, 4))),
        Groups((Listed(("a",)), Listed(("b", "a")))),
    ):
        with pytest.raises(InputError, match=r"is (listed twice|in two groups)"):
            check([Pool("x", kind)])
    check([Pool("x", Groups((Range(0, 3), Listed(("02", "4", "-1")))))])


def test_a_summary_has_groups_by_size() -> None:
    pools = [parse("z=sum(1.25)"), parse("cpus=[[0,1],[2],[3,4]]"), parse("a=range(0-9)")]
    assert summary(pools) == "cpus 1x1 2x2; a 10; z 1.25"
    assert summary(pools, multiline=True).splitlines()[1] == "a: 10"


@given(st.text(st.sampled_from('acpus=[]()-,."0159x_ lirngem/\n'), max_size=24))
def test_any_text_is_a_pool_or_an_error(text: str) -> None:
    for dialect in ("any", "seed", "current"):
        try:
            pool = parse(text, dialect=dialect)  # type: ignore[arg-type]  # one of them
            check([pool])
        except FluxresError as error:
            where = error.where
        else:
            where = "read"
            assert parse(format(pool)) == pool
        assert where
