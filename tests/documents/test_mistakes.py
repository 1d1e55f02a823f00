"""All mistakes of a document in one error, each with its line."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.documents import source_text, typed, yaml_document
from fluxres.documents.mistakes import Mistakes
from fluxres.errors import ErrorPlace, InputError, LimitExceeded, Mistake, TextPlace
from fluxres.formats.cluster.schema import Cluster, Resource
from fluxres.render.mistakes import excerpt
from fluxres.render.text import width
from tests.choices import integers


def refusal(text: str, kind: type[Any] = Cluster) -> InputError:
    with pytest.raises(InputError) as caught:
        typed.convert(yaml_document.load(text.encode(), file="f"), kind)
    return caught.value


def found(text: str, kind: type[Any] = Cluster) -> list[str]:
    return [f"{mistake.where.partition(': ')[0]} {mistake.message}" for mistake in refusal(text, kind).mistakes]


YAML = "fluxres: 1\nparts: {a: 5, b: {typ: x}}\nresources:\n"
YAML += "- {type: 7, count: 0}\n- x\n- {type: a, id: {start: -1, c: 2}}\nnames: m\n"
WRONG = [
    "f:2:12 expected a mapping, got 5",
    "f:2:19 unknown key 'typ'",
    "f:4:10 expected text, got 7",
    "f:4:20 expected a whole number of at least 1, got 0",
    "f:5:3 expected a mapping, got 'x'",
    "f:6:25 expected a whole number of at least 0, got -1",
    "f:6:29 unknown key 'c'",
    "f:7:1 unknown key 'names'",
]


def test_everything_wrong_in_yaml_is_listed_by_line() -> None:
    assert found(YAML) == WRONG
    error = refusal(YAML)
    assert (error.where, error.message, error.hint) == error.mistakes[0]
    assert str(error).splitlines() == [str(mistake) for mistake in error.mistakes]


def test_everything_wrong_in_json_is_listed_by_line() -> None:
    values = yaml_document.load(YAML.encode()).values
    text = json.dumps(values, indent=1)
    lines = text.splitlines()
    error = refusal(text)
    assert [mistake.message for mistake in error.mistakes] == [message.split(" ", 1)[1] for message in WRONG]
    for mistake, word in zip(error.mistakes, ["5", '"typ"', "7", "0", '"x"', "-1", '"c"', '"names"'], strict=True):
        assert isinstance(mistake.where, TextPlace)
        assert lines[mistake.where.line - 1][mistake.where.column - 1 :].startswith(word)


def plainly_wrong(value: Mapping[str, Any]) -> int:
    """The mistakes of an entry by definition."""
    known = {"type": str, "count": int, "with": list}
    wrong = sum(key not in known for key in value)
    for key, kind in known.items():
        if key in value:
            right = isinstance(value[key], kind) and not (key == "count" and value[key] < 1) and value[key] != ""
            wrong += not right
    below = value.get("with")
    return wrong + sum(plainly_wrong(item) for item in (below if isinstance(below, list) else ()))


ENTRY: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["a", "", 3]),
            "count": st.sampled_from([1, 0, "x"]),
            "with": st.lists(ENTRY, max_size=3) | st.just("x"),
            "other": st.just(1),
        },
    )
)


@given(ENTRY)
def test_every_mistake_is_found_and_nothing_else(value: dict[str, Any]) -> None:
    number = plainly_wrong(value)
    document = yaml_document.load(json.dumps(value).encode(), file="f")
    if not number:
        typed.convert(document, Resource)
        return
    with pytest.raises(InputError) as caught:
        typed.convert(document, Resource)
    assert len(caught.value.mistakes) + caught.value.unlisted == number
    assert len(caught.value.mistakes) == min(number, limits.MISTAKES_MAX)


def test_mistakes_beyond_the_bound_are_counted() -> None:
    text = "fluxres: 1\nresources:\n" + "- {typ: a}\n" * 30
    error = refusal(text)
    assert (len(error.mistakes), error.unlisted) == (limits.MISTAKES_MAX, 30 - limits.MISTAKES_MAX)
    assert str(error).endswith("\nand 10 more mistakes")
    plain = error.to_dict()
    assert plain["unlisted"] == 10
    assert json.loads(json.dumps(plain))["mistakes"][1] == {
        "where": "f:4:4: resources[1].typ",
        "message": "unknown key 'typ'",
        "hint": "did you mean 'type'?",
        "line": 4,
        "column": 4,
        "text": "- {typ: a}",
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("fluxres: 1\nresources: [{type: a, children: []}]", "unknown key 'children'", "did you mean 'with'?"),
        (
            "fluxres: 1\nresources: [{type: a, 'count: 4': }]",
            "unknown key 'count: 4'",
            "write 'count: 4', with a ':' and a blank",
        ),
        ("fluxres: 1\nresources: [{type: a, count 4: }]", "unknown key 'count 4'", "write 'count: 4', with a ':' and a blank"),
        (
            "fluxres: 1\nresources: [{type: a, state: drained}]",
            "expected one of degraded, down, drain, failing, inactive, null, unknown, up, got 'drained'",
            "did you mean 'drain'?",
        ),
        (
            "fluxres: 1\nresources: [{type: a, properties: [a, b: c]}]",
            "expected text, got a mapping",
            "a list has names only; write names with values as a mapping: properties: {a: null, b: c}",
        ),
        ("fluxres: 1\ngraphs: {g: {edges: [{from: a, two: b}]}}", "unknown key 'two'", "did you mean 'to'?"),
        ("fluxres: 1\ngraphs: {g: {edges: [{}]}}", "the keys 'from' and 'to' are missing", ""),
        ("version: 1\ntasks: []\n", "the key 'fluxres' is missing", ""),
    ],
)
def test_a_mistake_is_one_message_with_a_way_out(text: str, message: str, hint: str) -> None:
    error = refusal(text)
    listed = [
        mistake
        for mistake in error.mistakes
        if "unknown key 'version'" not in mistake.message and "'tasks'" not in mistake.message
    ]
    assert [(mistake.message, mistake.hint) for mistake in listed] == [(message, hint)]


def test_another_kind_of_file_is_one_mistake() -> None:
    from fluxres.experiments.study import StudyDocument

    error = refusal("fluxres: 1\nresources: []\ngraphs: {}\n", StudyDocument)
    assert [mistake.message for mistake in error.mistakes] == [
        "the keys 'fluxres-experiment', 'name', 'machine' and 'workload' are missing"
    ]
    assert error.hint == "it has fluxres, resources, graphs: is this another kind of file?"


def test_a_mistake_that_exceeds_a_bound_is_of_that_class() -> None:
    long = "x" * (limits.NAME_LENGTH_MAX + 1)
    assert isinstance(refusal(f"fluxres: 1\nname: {long}\n"), LimitExceeded)
    assert not isinstance(refusal(f"fluxres: 1\nname: {long}\nparts: 3\n"), LimitExceeded)


def test_what_exceeds_a_bound_ends_the_reading() -> None:
    mistakes = Mistakes()
    with mistakes:
        raise InputError("a", where="f:1")
    with pytest.raises(LimitExceeded), mistakes:
        raise LimitExceeded("b", where="f:2")
    with pytest.raises(InputError) as caught, mistakes.all():
        raise InputError("c", where="f:3")
    assert [mistake.message for mistake in caught.value.mistakes] == ["a", "c"]
    with pytest.raises(InputError) as again, mistakes.all():
        raise mistakes.error()
    assert again.value.mistakes == caught.value.mistakes


def test_the_same_mistake_is_listed_once() -> None:
    mistakes = Mistakes()
    for _ in range(50):
        mistakes.add(InputError("a", where="f:1"))
    assert (len(mistakes), mistakes.error().unlisted) == (1, 0)
    assert mistakes.has("f:1")
    assert not mistakes.has("f:2")


def test_an_error_with_mistakes_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(refusal(YAML)))
    assert error.mistakes == refusal(YAML).mistakes
    assert error.mistakes[0].where.text == "parts: {a: 5, b: {typ: x}}"


def test_a_single_mistake_is_the_error_itself() -> None:
    error = InputError("m", where="w", hint="h")
    assert error.mistakes == (Mistake("w", "m", "h"),)


def test_an_error_inside_a_text_has_the_line_of_that_text() -> None:
    place = source_text.place("f", "a\nbcd\n", 3)
    with pytest.raises(InputError) as caught, ErrorPlace(place, inner=True):
        raise InputError("m", where="pool:7")
    assert caught.value.where == "f:2:2: pool:7"
    assert isinstance(caught.value.where, TextPlace)
    assert caught.value.where.text == "bcd"


# -- the line and the caret --------------------------------------------------------------------------------------------


def shown(text: str, offset: int) -> list[str]:
    return excerpt(source_text.place("f", text, offset))


@pytest.mark.parametrize(
    ("text", "offset", "line", "caret"),
    [
        ("ab: c\n", 4, "  1 | ab: c", "    |     ^"),
        ("\n\nab: c", 2, "  3 | ab: c", "    | ^"),
        ("a\tb\tc: 1", 4, "  1 | a    b    c: 1", "    |           ^"),
        ("核核: 1\n", 4, "  1 | 核核: 1", "    |       ^"),
        ("e\u0301: 1\n", 4, "  1 | e\u0301: 1", "    |    ^"),
        ("\x1b[2J: 1", 6, "  1 | \\x1b[2J: 1", "    |          ^"),
        ("ab", 2, "  1 | ab", "    |   ^"),
    ],
)
def test_the_caret_is_below_the_place(text: str, offset: int, line: str, caret: str) -> None:
    assert shown(text, offset) == [line, caret]


def test_an_empty_line_is_not_shown() -> None:
    assert shown("a\n\nb", 2) == []


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n"), max_size=400), st.data())
def test_any_line_fits_the_terminal_with_its_place_in_it(text: str, data: st.DataObject) -> None:
    offset = data.draw(integers(0, len(text)))
    lines = shown(text, offset)
    if not lines:
        return
    line, caret = lines
    assert line.isprintable()
    assert width(line) <= 80
    assert caret.rstrip("^") + "^" == caret
    before = line
    while width(before) > width(caret) - 1:
        before = before[:-1]
    assert width(before) == width(caret) - 1


@pytest.mark.parametrize("word", ["a", "核", "\x1b"])
def test_the_end_of_a_long_line_can_be_shown(word: str) -> None:
    line, caret = shown(word * 150, 150)
    assert width(line) == width(caret) - 1


def test_a_long_line_is_cut_around_the_place_without_reading_all_of_it() -> None:
    text = "a" * 1_000_000 + "X" + "b" * 1_000_000
    place = source_text.place("f", text, 1_000_000)
    assert len(place.text) < 1000
    assert place.cut == (True, True)
    line, caret = excerpt(place)
    assert line[caret.index("^")] == "X"
    assert line.startswith("  1 | …a")
    assert line.endswith("b…")


def calls_to_refuse(values: dict[str, Any]) -> int:
    """Calls of functions to refuse a file in JSON."""
    text, calls = json.dumps(values), 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    outer = sys.getprofile()
    sys.setprofile(count)
    try:
        with pytest.raises(InputError):
            fluxres.loads(text)
    finally:
        sys.setprofile(outer)
    return calls


WRONG_MANY: dict[str, Callable[[int], dict[str, Any]]] = {
    "numbers": lambda number: {"resources": [1] * number},
    "texts": lambda number: {"resources": ["node"] * number},
    "no type": lambda number: {"resources": [{"count": "x"}] * number},
    "one level below": lambda number: {"resources": [{"type": "rack", "with": [{"count": "x"}] * number}]},
    "unknown keys": lambda number: {"resources": [{"type": "node", **{f"key{i}": 1 for i in range(number)}}]},
    "partitions": lambda number: {"resources": [{"type": "node"}], "partitions": {f"p{i}": 1 for i in range(number)}},
    "other pools": lambda number: {"resources": [{"type": "node"}], "pools": ["pdu"] * number},
}


@pytest.mark.parametrize("values", WRONG_MANY.values(), ids=WRONG_MANY)
def test_many_mistakes_in_json_cost_time_in_proportion(values: Callable[[int], dict[str, Any]]) -> None:
    calls_to_refuse({"fluxres": 1, **values(30)})  # imports, and what is made once
    few, many = (calls_to_refuse({"fluxres": 1, **values(number)}) for number in (100, 400))
    assert many < 5 * few
