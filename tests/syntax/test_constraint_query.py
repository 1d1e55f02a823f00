"""Constraint queries: RFC 35's grammar, the options of commands, and flux-core's reading of adjacent terms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.syntax import constraint
from fluxres.syntax import constraint_query as query
from fluxres.syntax.constraint import And, Hostlist, Not, Properties, States
from fluxres.syntax.constraint_query import Options

NAME = Options("name")


def term(name: str) -> dict[str, Any]:
    return {"name": [name]}


A, B, C, D = map(term, "abcd")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("'a'", A),
        ("((a))", A),
        ("name:a", A),
        ("foo:'this is'", {"foo": ["this is"]}),
        ('"a b"', term("a b")),
        ("'a:b'", {"a": ["b"]}),
        ("name: a", A),
        ("foo: 'b c' d", {"and": [{"foo": ["b c"]}, D]}),
        ("foo:'' d", {"foo": ["d"]}),
        ("op:a:'b'", {"op": ["a:b"]}),
        ("a'b'", {"and": [A, B]}),
        ("'a'b", {"and": [A, B]}),
        ("op:a:b", {"op": ["a:b"]}),
        ("a-b", term("a-b")),
        ("orange", term("orange")),
        ("not-a", {"not": [{"not": [A]}]}),
        ("not.a", {"not": [term(".a")]}),
        ("not_a", term("not_a")),
        ("a-not", term("a-not")),
        ("'not'", term("not")),
        ("AND", term("AND")),
        ("a b c", {"and": [A, B, C]}),
        ("a&b&&c and d", {"and": [A, B, C, D]}),
        ("a|b||c or d", {"or": [A, B, C, D]}),
        ("a|b&c", {"or": [A, {"and": [B, C]}]}),
        ("a&b|c", {"or": [{"and": [A, B]}, C]}),
        ("a b|c", {"or": [{"and": [A, B]}, C]}),
        ("(a|b)&c", {"and": [{"or": [A, B]}, C]}),
        ("a&(b c)", {"and": [A, {"and": [B, C]}]}),
        ("(a b) c", {"and": [A, B, C]}),
        ("-a", {"not": [A]}),
        ("not a", {"not": [A]}),
        ("not -a", {"not": [{"not": [A]}]}),
        ("not not a", {"not": [{"not": [A]}]}),
        ("not a b", {"and": [{"not": [A]}, B]}),
        ("not(a|b)", {"not": [{"or": [A, B]}]}),
        ("- a", {"not": [A]}),
        ("-'not'", {"not": [term("not")]}),
        # A bare term closes open operators, as in flux-core; a negated one does not.
        ("a b -c", {"and": [A, {"and": [B, {"not": [C]}]}]}),
        ("not a -b", {"not": [{"and": [A, {"not": [B]}]}]}),
        ("not a not b", {"not": [{"and": [A, {"not": [B]}]}]}),
        ("not a -b c", {"and": [{"not": [{"and": [A, {"not": [B]}]}]}, C]}),
        ("-a -b", {"and": [{"not": [A]}, {"not": [B]}]}),
        ("a|b c", {"and": [{"or": [A, B]}, C]}),
        ("a|b (c)", {"and": [{"or": [A, B]}, C]}),
        ("a|b -c", {"or": [A, {"and": [B, {"not": [C]}]}]}),
        ("a|b not c", {"or": [A, {"and": [B, {"not": [C]}]}]}),
        ("d&(a|b c)", {"and": [D, {"and": [{"or": [A, B]}, C]}]}),
    ],
)
def test_valid_queries_are_read(text: str, expected: Any) -> None:
    assert query.parse(text, NAME) == expected


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("  ", 3),
        ("a|", 3),
        ("|a", 1),
        ("a & | b", 5),
        ("not", 4),
        ("()", 2),
        ("(a", 1),
        ("(a))", 4),
        ("a)", 2),
        ("-(a|b)", 2),
        ("--a", 2),
        ("-", 2),
        ("a -", 4),
        ("-not a", 2),
        ("-and a", 2),
        ("a -or b", 4),
        ("-or:b", 2),
        ("or-b", 1),
        ("and,b", 1),
        ("a: & b", 3),
        ("a:", 3),
        ("a and b:", 9),
        (":a", 1),
        ("4g,host:foo", 1),
        ("a:'", 3),
        ("'a", 1),
        ("a'b", 2),
        ("''", 3),
        ("'and:'a", 1),
        ("and:a", 1),
    ],
)
def test_invalid_queries_are_refused_with_the_column(text: str, column: int) -> None:
    with pytest.raises(InputError) as refused:
        query.parse(text, NAME)
    assert refused.value.where == f"query:{column}"


def test_without_a_default_a_bare_operand_is_an_error() -> None:
    assert query.parse("a:b", Options()) == {"a": ["b"]}
    with pytest.raises(InputError, match="OPERATOR:VALUE"):
        query.parse("a", Options())
    assert query.parse("a", Options(names={None: "t"})) == {"t": ["a"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b", {"t": ["a", "b"]}),
        ("u:a,b", {"u": ["a,b"]}),
        ("a b", {"t": ["a", "b"]}),
        ("a&b&u:x", {"and": [{"t": ["a", "b"]}, {"u": ["x"]}]}),
        ("a&u:x&b", {"and": [{"t": ["a"]}, {"u": ["x"]}, {"t": ["b"]}]}),
        ("not (a and b)", {"not": [{"t": ["a", "b"]}]}),
        ("a|b", {"or": [{"t": ["a"]}, {"t": ["b"]}]}),
        ("short:a b", {"t": ["a", "b"]}),
    ],
)
def test_options(text: str, expected: Any) -> None:
    assert query.parse(text, Options("t", {"short": "t"}, {"t": ","}, ("t",))) == expected


def test_empty_values_of_a_split_are_refused() -> None:
    with pytest.raises(InputError, match="not empty"):
        query.parse("a,,b")


def test_queries_are_read_as_by_flux_commands() -> None:
    assert query.parse("foo,bar") == {"properties": ["foo", "bar"]}
    assert query.parse("host:n[0-1]|gpu") == {"or": [{"hostlist": ["n[0-1]"]}, {"properties": ["gpu"]}]}
    assert query.constraint_of("-hosts:n7 ssd state:up") == And((Not(Hostlist(("n7",))), Properties(("ssd",)), States(("up",))))
    with pytest.raises(InputError, match=r"query\.ranks\[0\]: expected"):
        query.constraint_of("rank:5-1")


def test_bounds() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.REQUEST_TEXT_MAX)):
        query.parse("a" * (limits.REQUEST_TEXT_MAX + 1))
    assert query.parse("(" * 30_000 + "a" + ")" * 30_000, NAME) == A
    assert len(query.parse("a " * 30_000, NAME)["and"]) == 30_000
    assert query.parse("not " * (limits.CONSTRAINT_DEPTH_MAX - 1) + "a", NAME)
    for text in ("not " * limits.CONSTRAINT_DEPTH_MAX + "a", "a|(b&(" * 500 + "c" + "))" * 500):
        with pytest.raises(LimitExceeded, match=str(limits.CONSTRAINT_DEPTH_MAX)):
            query.parse(text, NAME)


def test_a_long_row_of_negations_is_within_the_bound_and_means_the_same() -> None:
    found = query.parse("-a " * 20_000 + "-b", NAME)
    assert truth(found, frozenset())
    assert not truth(found, frozenset("b"))
    assert constraint.parse(query.parse("-host:a " * 200))


def truth(values: dict[str, list[Any]], true: frozenset[str]) -> bool:
    ((operator, below),) = values.items()
    if operator == "name":
        return below[0] in true
    if operator == "not":
        return not truth(below[0], true)
    return (all if operator == "and" else any)(truth(item, true) for item in below)


TREES = st.recursive(
    st.sampled_from("abcd"),
    lambda below: st.tuples(st.sampled_from(["not ", " & ", " and ", " | ", " or "]), below, below),
    max_leaves=10,
)


def written(tree: Any) -> str:
    if isinstance(tree, str):
        return tree
    operator, left, right = tree
    return f"not ({written(left)})" if operator == "not " else f"({written(left)}){operator}({written(right)})"


def value(tree: Any, true: frozenset[str]) -> bool:
    if isinstance(tree, str):
        return tree in true
    operator, left, right = tree
    if operator == "not ":
        return not value(left, true)
    return (all if operator in (" & ", " and ") else any)((value(left, true), value(right, true)))


@given(TREES, st.frozensets(st.sampled_from("abcd")))
def test_expressions_agree_with_their_tree(tree: Any, true: frozenset[str]) -> None:
    assert truth(query.parse(written(tree), NAME), true) == value(tree, true)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=6), st.data())
def test_and_binds_tighter_than_or(terms: list[tuple[bool, str]], data: st.DataObject) -> None:
    joins = [data.draw(st.sampled_from([" & ", "|"])) for _ in terms[1:]]
    words = [("-" if negated else "") + name for negated, name in terms]
    text = words[0] + "".join(join + word for join, word in zip(joins, words[1:], strict=True))
    true = data.draw(st.frozensets(st.sampled_from("abcd")))
    groups = [[(word[0] == "-") != (word[-1] in true) for word in group.split(" & ")] for group in text.split("|")]
    assert truth(query.parse(text, NAME), true) == any(map(all, groups))


@given(st.text() | st.text("ab:-&|()'\" notrd,", max_size=30))
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    try:
        found = query.parse(text, NAME)
    except FluxresError:
        return
    assert len(found) == 1
    try:
        query.constraint_of(text)
    except FluxresError:
        return
