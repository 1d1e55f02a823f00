"""Constraints: the meaning defined by RFC 31, on small targets; invalid constraints are refused with their position."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import yaml_document
from fluxres.documents.document import Place
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.graph import structure
from fluxres.syntax import constraint, hostlist, idset
from fluxres.syntax.constraint import EVERYTHING, And, Constraint, Hostlist, Not, Or, Properties, Ranks, States
from tests.syntax.requests import constraint_values, damaged, wild_values


@dataclass
class Node:
    hostname: str = "n1"
    rank: int = 1
    properties: frozenset[str] = field(default_factory=lambda: frozenset({"ssd"}))
    state: str = "up"


NODES = st.builds(
    Node,
    st.sampled_from(["n0", "n1", "n01", "n001-ib", "n002-ib", "login"]),
    st.integers(-1, 4),
    st.frozensets(st.sampled_from(["ssd", "slow", "gpu"])),
    st.sampled_from(constraint.STATES),
)


def holds(values: dict[str, Any], node: Node) -> bool:
    """The RFC's definition, applied directly to the plain values."""
    for operator, below in values.items():
        if operator == "properties":
            has = node.properties | {node.hostname}
            true = all((text[1:] not in has) if text[0] == "^" else text in has for text in below)
        elif operator == "hostlist":
            true = any(node.hostname in hostlist.parse(text) for text in below)
        elif operator == "ranks":
            true = any(node.rank in idset.parse(text) for text in below)
        elif operator == "states":
            true = node.state in below
        elif operator == "or":
            true = not below or any(holds(item, node) for item in below)
        else:
            true = all(holds(item, node) for item in below) != (operator == "not")
        if not true:
            return False
    return True


def test_states_are_those_of_a_graph() -> None:
    assert constraint.STATES == structure.STATES


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, EVERYTHING),
        ({"and": []}, EVERYTHING),
        ({"or": []}, Or()),
        ({"not": []}, Not(EVERYTHING)),
        ({"properties": ["a", "^b"]}, Properties(("a",), ("b",))),
        ({"hostlist": ["n[0-2]", "x"]}, Hostlist(("n[0-2]", "x"))),
        ({"ranks": ["0-2"]}, Ranks(("0-2",))),
        ({"ranks": [0, "2-3", 17]}, Ranks(("0", "2-3", "17"))),
        ({"states": ["up"]}, States(("up",))),
        ({"not": [{"ranks": ["0"]}, {"states": []}]}, Not(And((Ranks(("0",)), States(()))))),
        ({"ranks": ["0"], "properties": ["a"]}, And((Ranks(("0",)), Properties(("a",))))),
    ],
)
def test_valid_constraints_are_read(values: Any, expected: Constraint) -> None:
    assert constraint.parse(values) == expected


@pytest.mark.parametrize(
    ("values", "truth"),
    [
        ({}, True),
        ({"or": []}, True),
        ({"and": []}, True),
        ({"not": []}, False),
        ({"properties": []}, True),
        ({"hostlist": []}, False),
        ({"ranks": []}, False),
        ({"properties": ["n1"]}, True),
        ({"properties": ["^n1"]}, False),
        ({"hostlist": ["n[0-3]"]}, True),
        ({"hostlist": ["n01"]}, False),
        ({"ranks": ["0,2", "1"]}, True),
    ],
)
def test_edge_cases_of_the_definition(values: Any, truth: bool) -> None:
    assert constraint.matches(constraint.parse(values), Node()) == truth


def test_a_hostname_need_not_be_a_property() -> None:
    found = constraint.parse({"not": [{"or": [{"properties": ["n1"]}]}]})
    assert not constraint.matches(found, Node())
    assert constraint.matches(found, Node(), hostname_is_property=False)


@pytest.mark.parametrize(
    ("values", "where", "message"),
    [
        ([], "request", "a mapping, got an empty list"),
        ("x", "request", "a mapping, got 'x'"),
        ({"flavour": []}, "flavour", "unknown key 'flavour'"),
        ({"and": "foo"}, "and", "a list"),
        ({"and": {}}, "and", "a list"),
        ({"or": [{}, {"not": 3}]}, "or[1].not", "a list"),
        ({"properties": ["a", 42]}, "properties[1]", "text, got 42"),
        ({"properties": ["bar&"]}, "properties[0]", "'bar&'"),
        ({"properties": ["^"]}, "properties[0]", "'^'"),
        ({"properties": ["^^a"]}, "properties[0]", "'^^a'"),
        ({"properties": [""]}, "properties[0]", "empty"),
        ({"hostlist": ["foo0-10]"]}, "hostlist[0]", "foo0-10]"),
        ({"hostlist": ["n[3-1]"]}, "hostlist[0]", "3-1"),
        ({"ranks": ["5,1-3"]}, "ranks[0]", "ascending"),
        ({"ranks": [-1]}, "ranks[0]", "text, got -1"),
        ({"ranks": [True]}, "ranks[0]", "text, got true"),
        ({"ranks": [1.5]}, "ranks[0]", "text, got 1.5"),
        ({"ranks": [10**5000]}, "ranks[0]", "a whole number of at most"),
        ({"hostlist": [1]}, "hostlist[0]", "text, got 1"),
        ({"states": ["upp"]}, "states[0]", "'upp'"),
    ],
)
def test_invalid_constraints_are_refused_with_their_position(values: Any, where: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        constraint.parse(values)
    assert refused.value.where == where
    assert message in str(refused.value)


def test_the_line_in_a_document_is_named() -> None:
    document = yaml_document.load(b"and:\n- x: []\n", file="q.yaml")
    with pytest.raises(InputError, match=r"q.yaml:2:3: and\[0\]\.x: unknown key"):
        constraint.parse(document.values, Place(document=document))


def test_depth_is_bounded() -> None:
    values: dict[str, Any] = {"ranks": ["0"]}
    for _ in range(limits.CONSTRAINT_DEPTH_MAX - 1):
        values = {"not": [values]}
    assert constraint.matches(constraint.parse(values), Node(rank=0)) == (limits.CONSTRAINT_DEPTH_MAX % 2 == 1)
    for _ in range(10_000):
        values = {"not": [values]}
    with pytest.raises(LimitExceeded, match=str(limits.CONSTRAINT_DEPTH_MAX)):
        constraint.parse(values)


def test_items_are_available_to_vectorised_evaluation() -> None:
    assert Ranks(("0-2,7", "1-9")).ranges() == [(0, 2), (7, 7), (1, 9)]
    names = [name for item in Hostlist(("n[1,3]", "x")).expressions() for name in item]
    assert names == ["n1", "n3", "x"]


@given(constraint_values(), NODES)
def test_matches_agrees_with_the_definition(values: Any, node: Node) -> None:
    assert constraint.matches(constraint.parse(values), node) == holds(values, node)


@given(constraint_values())
def test_written_constraints_are_read_back(values: Any) -> None:
    found = constraint.parse(values)
    assert constraint.parse(constraint.to_plain(found)) == found


@given(
    st.text("n01-", min_size=1, max_size=5), st.sampled_from(["n[0-11]", "n[00-11]-1", "n1[0-1,9]", "[0-11]", "n1", "0[0-9]1"])
)
def test_hosts_are_found_as_if_the_list_were_expanded(host: str, text: str) -> None:
    assert constraint.matches(Hostlist((text,)), Node(hostname=host)) == (host in hostlist.parse(text))


@given(constraint_values(), st.data())
def test_damaged_constraints_are_read_or_refused(values: Any, data: st.DataObject) -> None:
    values = damaged(data.draw, values)
    try:
        found = constraint.parse(values)
    except FluxresError:
        return
    assert constraint.parse(constraint.to_plain(found)) == found


@given(wild_values())
def test_garbage_is_a_constraint_or_an_error(values: Any) -> None:
    try:
        found = constraint.parse(values)
    except FluxresError:
        return
    constraint.matches(found, Node())
