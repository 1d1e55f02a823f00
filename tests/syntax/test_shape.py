"""Shapes: RFC 46's grammar; writing a shape and reading it gives the same resources."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.syntax import count, jobspec, shape
from fluxres.syntax.constraint import Properties
from fluxres.syntax.jobspec import as_request, parse_resources, parse_shape, resources_to_plain
from tests.syntax.requests import plain_values, resources

NODE = {"type": "node", "count": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node", [NODE]),
        (" node = 4 ", [{"type": "node", "count": 4}]),
        ("node=[2-4]", [{"type": "node", "count": "2-4"}]),
        ("[core;gpu=2+]", [{"type": "core", "count": 1}, {"type": "gpu", "count": "2+"}]),
        ("SLOT/node", [{"type": "slot", "count": 1, "label": "task", "with": [NODE]}]),
        ("slot{}/node", [{"type": "slot", "count": 1, "label": "task", "with": [NODE]}]),
        ("slot=2{a,x}/[[node]]", None),
        ("slot=2{a,x}/[node]", [{"type": "slot", "count": 2, "label": "a", "exclusive": True, "with": [NODE]}]),
        ("slot{'+a'}/node", [{"type": "slot", "count": 1, "label": "+a", "with": [NODE]}]),
        ("'my type'/\"node\"", [{"type": "my type", "count": 1, "with": [NODE]}]),
        (
            "node{-x, +a, b, -c, d:TRUE, e:null}",
            [NODE | {"exclusive": False, "a": True, "b": True, "c": False, "d": True, "e": None}],
        ),
        ("node{a:1,b:-2.5,c:1e5,d:01,e:'1',f:''}", [NODE | {"a": 1, "b": -2.5, "c": 100000.0, "d": "01", "e": "1", "f": ""}]),
        ('[node{a:[1,{"b":"]"}]};node{c:[]}]', [NODE | {"a": [1, {"b": "]"}]}, NODE | {"c": []}]),
        ('node{a:{b:c,+d,e:{}},"x":1}', [NODE | {"a": {"b": "c", "d": True, "e": {}}, "x": 1}]),
        ("node{url:http://a/b?c}", [NODE | {"url": "http://a/b?c"}]),
    ],
)
def test_valid_shapes_are_read(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(InputError):
            shape.parse(text)
        return
    assert shape.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("   ", 4),
        ("slot", 5),
        ("slot=4", 7),
        ("slot/", 6),
        ("node=", 6),
        ("node=0", 6),
        ("node=01", 6),
        ("node=3-", 6),
        ("node=;", 6),
        ("node=[2", 6),
        ("node/[core;]", 12),
        ("[core", 1),
        ("core]", 5),
        ("[core gpu]", 7),
        ("node core", 6),
        ("node{x", 5),
        ("node{x,}", 8),
        ("node{x}}", 8),
        ("node{x,+x}", 8),
        ("node{count:3}", 5),
        ("node{a:}", 8),
        ("node{a:[1}", 10),
        ("node{a:'b}", 8),
        ("node{+}", 6),
        ("node{''}", 7),
        ("'node", 1),
        ("slot{x:1}/node", 6),
        ("slot{+x}/node", 6),
        ("slot{a,label:b}/node", 5),
        ("[slot{a}/node;slot/core]", 15),
        ("[slot{a}/node;slot{a}/core]", 15),
        ("slot/slot{a}/core", 1),
        ("node{a:1e999}", 8),
        ("node{a:" + "9" * 5000 + "}", 8),
    ],
)
def test_invalid_shapes_are_refused_with_the_column(text: str, column: int) -> None:
    with pytest.raises(InputError) as refused:
        shape.parse(text)
    assert refused.value.where == f"shape:{column}"


def test_bounds() -> None:
    with pytest.raises(LimitExceeded, match=str(limits.REQUEST_TEXT_MAX)):
        shape.parse("n" * (limits.REQUEST_TEXT_MAX + 1))
    assert shape.parse("/".join(["a"] * limits.REQUEST_DEPTH_MAX))
    for text in (
        "/".join(["a"] * 10_000),
        "a/[" * 10_000,
        "a{b:" + "{c:" * 10_000,
        f"a={2**63}",
        "a{b:" + "[" * 10_000 + "]" * 10_000,
    ):
        with pytest.raises(InputError):
            shape.parse(text)


def test_ranges_as_mappings() -> None:
    found = shape.parse("[a=3-30;b=2+;c=1,3;d=3+:2;e=5;f=2-9:2:*]", range_as_mapping=True)
    assert [vertex["count"] for vertex in found] == [
        {"min": 3, "max": 30, "operator": "+", "operand": 1},
        {"min": 2},
        "1,3",
        {"min": 3, "operator": "+", "operand": 2},
        5,
        {"min": 2, "max": 9, "operator": "*", "operand": 2},
    ]


def test_vertices() -> None:
    (slot,) = parse_shape("slot=4/[core=8;gpu=1{-x}]")
    assert [(vertex.type, vertex.count.fixed, vertex.is_exclusive) for vertex in slot.children] == [
        ("core", 8, True),
        ("gpu", 1, False),
    ]
    with pytest.raises(InputError, match=r"resources\[0\]\.key: unknown key 'key'"):
        parse_shape("node{key:1}")


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("node{ssd}", ("ssd",)),
        ("node=2{x,ssd,!slow}", ("ssd", "^slow")),
        ("node{-slow,+ssd}", ("^slow", "ssd")),
        ("node{-'!slow'}", None),
        ("node{'class=3'}", ("class=3",)),
        ("node{'x'}", ("x",)),
        ('node{properties:["ssd","^slow"],big}', ("ssd", "^slow", "big")),
        ("gpu=2{a100,unit:x}", ("a100",)),
    ],
)
def test_a_name_in_braces_is_a_property(text: str, properties: tuple[str, ...] | None) -> None:
    if properties is None:
        with pytest.raises(InputError):
            parse_shape(text)
        return
    (vertex,) = parse_shape(text)
    assert vertex.properties == properties
    assert parse_resources(resources_to_plain([vertex])) == (vertex,)
    assert parse_shape(shape.format(resources_to_plain([vertex]))) == (vertex,)


@pytest.mark.parametrize(
    "text", ["slot{a,ssd}/core", "node{'a b&c'}", "node{'^'}", "node{properties:[]}", "node{properties:ssd}"]
)
def test_what_is_no_property_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_shape(text)


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("node=2{ssd}", Properties(("ssd",))),
        ("slot=2/node{ssd,!slow}/[core=4;gpu]", Properties(("ssd",), ("slow",))),
        ("[node{ssd};node=2{ssd}]", Properties(("ssd",))),
        ("rack/node{ssd}", Properties(("ssd",))),
        ("[node{ssd};node{big}]", None),
        ("[node{ssd};core]", None),
        ("slot/rack/node{ssd}", None),  # the rack is taken whole: what else is in it need not have it
        ("node{ssd}/gpu{a100}", None),
        ("gpu{a100}", None),
        ("node", None),
    ],
)
def test_properties_of_all_nodes_are_the_constraint_of_the_request(text: str, constraint: Properties | None) -> None:
    request = as_request(text)
    assert request.constraint == constraint
    assert any(vertex.properties for vertex in request.vertices()) is (constraint is None and "{" in text)


@pytest.mark.parametrize(
    ("text", "count", "unit"),
    [
        ("memory=8GiB", 8, "GiB"),
        ("memory=[8GiB]", 8, "GiB"),
        ("power=20kW", 20, "kW"),
        ("memory=1.5GiB", 1536, "MiB"),
        ("network=10Gbps", 10, "Gbps"),
    ],
)
def test_a_count_with_a_unit(text: str, count: int, unit: str) -> None:
    (vertex,) = parse_shape(text)
    assert (vertex.count.fixed, vertex.unit) == (count, unit)
    assert shape.parse(text) == [{"type": text.partition("=")[0], "count": count, "unit": unit}]
    assert parse_shape(shape.format(shape.parse(text))) == (vertex,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("memory=8G", "did you mean GiB or GB?"),
        ("licence=8seats", "write a unit of your own in braces: 8{unit:seats}"),
        ("memory=8GiB{unit:MiB}", "expected one unit, got GiB and 'MiB'"),
        ("memory=0GiB", "expected a whole number of at least 1"),
        ("memory=1.00001B", "expected a whole number of B"),
        ("memory=1.2.3GiB", "expected a whole number of at least 1"),
    ],
)
def test_a_count_with_a_wrong_unit_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=r"^shape:\d+") as refused:
        parse_shape(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("[ node = [2-4] { +x } ]", "node=2-4{x}"),
        ("slot=1{task}/[core=1]", "slot/core"),
        ("slot{a}/core", "slot{a}/core"),
        ("slot{task,x}/core", "slot{task,x}/core"),
        ("[slot{task}/a;slot{b}/c]", "[slot{task}/a;slot{b}/c]"),
        ("node{a:'true',b:\"it's\"}", "node{a:'true',b:\"it's\"}"),
    ],
)
def test_shortest_form_is_written(text: str, shortest: str) -> None:
    assert shape.format(shape.parse(text)) == shortest


@pytest.mark.parametrize(
    "values",
    [
        [],
        {},
        [{}],
        [{"type": "slot", "count": 1}],
        [NODE | {"count": 0}],
        [NODE | {"with": 3}],
        [NODE | {"a": {1: 2}}],
        [NODE | {"a": 2**70}],
        [NODE | {"a": float("nan")}],
        [NODE | {"": 1}],
        [{"type": "node"}],
        [NODE | {"label": 3}],
    ],
)
def test_invalid_resources_sections_are_not_written(values: Any) -> None:
    with pytest.raises(InputError, match="resources"):
        shape.format(values)


def test_both_quotes_cannot_be_written() -> None:
    with pytest.raises(UsageError, match="quotes"):
        shape.format([NODE | {"a": "'\""}])


@given(resources())
def test_resources_are_read_back(values: Any) -> None:
    found = jobspec.parse_resources(values)
    assert parse_shape(shape.format(values)) == found
    assert parse_shape(shape.format(jobspec.resources_to_plain(found))) == found


@given(st.dictionaries(st.text("abx+-: '", min_size=1, max_size=4), plain_values(), max_size=4))
def test_keys_of_any_value_are_read_back(keys: dict[str, Any]) -> None:
    values = [NODE | keys]
    try:
        text = shape.format(values)
    except FluxresError:
        return
    assert shape.parse(text) == values


@given(st.text() | st.text("slotnde=4+-x{}[]/;:,'\" ", max_size=30))
def test_any_text_is_a_shape_or_an_error(text: str) -> None:
    try:
        found = shape.parse(text)
    except FluxresError:
        return
    try:
        written = shape.format(found)
    except UsageError:
        return
    assert settled(shape.parse(written)) == settled(found)
    assert shape.format(shape.parse(written)) == written


def settled(values: Any) -> Any:
    """Resources with their counts as values: `3-3` and 3 are written in the same way."""
    below = [settled(value["with"]) if "with" in value else None for value in values]
    return [value | {"count": count.parse(value["count"]), "with": under} for value, under in zip(values, below, strict=True)]


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("node[0-1]", "name pools by path, such as /demo/rack0/node[0-3], or request a number of them, such as node=4"),
        ("slot/licence=10seats", "write a unit of your own in braces: 10{unit:seats}"),
    ],
)
def test_a_mistake_is_refused_with_a_remedy(text: str, way_out: str) -> None:
    with pytest.raises(InputError) as refused:
        shape.parse(text)
    assert refused.value.hint == way_out
    assert shape.parse("slot/licence=10{unit:seats}")
