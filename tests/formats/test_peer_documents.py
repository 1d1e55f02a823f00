"""Files of the other systems with several nodes: refusals have a place, and any change gives a machine or a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError
from fluxres.formats import registry
from fluxres.formats.format import Loaded
from fluxres.graph.compare import equal
from tests.formats.round_trip import ORIGIN

CPUS = [{"id": str(i), "slots": 1} for i in range(3)]
CANARY: dict[str, Any] = {
    "allow_multinode": True,
    "additional_properties": {"site": {"a": [1]}},
    "nodes": [
        {"id": "a", "resources": {"cpus": CPUS, "gpus": [{"id": 0, "properties": {"uuid": "x"}}, {"id": "g", "slots": 2.5}]}},
        {"id": 7, "resources": {"cpus": CPUS, "gpus": []}, "additional_properties": {"rack": 3}},
        {"id": "b", "resources": {"cpus": CPUS}},
        {"id": "c"},
    ],
}
RESOURCES = {
    "resources": [
        {"name": "cpus", "kind": "groups", "groups": [["0", "1"], ["2", "3"]]},
        {"name": "gpus", "kind": "groups", "groups": [["0"], ["1"]]},
        {"name": "mem", "kind": "sum", "size": 15000},
        {"name": "x", "kind": "range", "start": 2, "end": 4},
    ],
    "coupling": {"weights": [{"resource1_idx": 1, "group1_idx": 0, "resource2_idx": 0, "group2_idx": 0, "weight": 7}]},
}
WORKERS: list[dict[str, Any]] = [
    {"id": 1, "configuration": {"hostname": "a", "group": "g", "resources": RESOURCES, "more": {"k": [{"z": 1}]}}, "ended": None},
    {"id": 2, "configuration": {"hostname": "b", "group": "default", "resources": RESOURCES}},
    {"configuration": {"resources": {**RESOURCES, "coupling": None}}},
]
MANAGERS = [
    {"type": "quantity", "key": "t", "quantity": 3},
    {"key": "p", "type": "discrete", "list": ["b", "a"], "enabled": True},
]
JQM: dict[str, Any] = {
    "nodes": [{"name": "a", "managers": MANAGERS}, {"name": "b", "managers": MANAGERS}, {"name": "c", "nbThread": 2}]
}
CTEST: dict[str, Any] = {
    "version": {"major": 1, "minor": 0},
    "local": [
        {"cpus": [{"id": str(i)} for i in range(3)], "gpus": [{"id": "x", "slots": 2}, {"id": "2", "slots": 0}, {"id": "0"}]}
    ],
}
DOCUMENTS: dict[str, Any] = {"canary": CANARY, "hyperqueue": WORKERS, "jqm": JQM, "ctest": CTEST}


def outcome(name: str, text: str) -> Any:
    """A machine, or the message about the text."""
    try:
        return registry.read(text.encode(), format=name, file="f", origin=ORIGIN)
    except FluxresError as error:
        return type(error), str(error)


def require_outcome(name: str, text: str) -> None:
    found = outcome(name, text)
    assert isinstance(found, Loaded) or found[1].startswith("f")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_layout_of_a_document_does_not_matter(name: str) -> None:
    text = json.dumps(DOCUMENTS[name])
    others = [json.dumps(DOCUMENTS[name], indent=3), "\ufeff" + text]
    others += [json.dumps({"resource_pool": CANARY})] * (name == "canary")
    found = outcome(name, text)
    for other in others:
        assert equal(found.structure, outcome(name, other).structure) == []


WRONG = [
    ("canary", '"id": "1"', '"id": "0"', "the id '0' is listed twice"),
    ("canary", '"id": "b"', '"id": 7', "the node '7' is listed twice"),
    ("canary", '"rack": 3', '"rack": ' + "[" * 300 + "]" * 300, "more than 200 levels"),
    ("canary", '"slots": 2.5', '"slot": 2.5', "unknown key 'slot'"),
    ("hyperqueue", '"id": 2', '"id": -2', "expected a whole number of at least 0"),
    ("hyperqueue", '"start": 2', '"start": 5', "Start must be greater or equal to end"),
    ("hyperqueue", '"group1_idx": 0', '"group1_idx": 2', "group"),
    ("hyperqueue", '"hostname": "b"', '"hostname": 4', "expected text, got 4"),
    ("jqm", '"name": "b"', '"name": ""', "expected text, got an empty one"),
    ("jqm", '"key": "p"', '"key": "t"', "a second manager 't'"),
    ("ctest", '"id": "x"', '"id": "X"', "expected an id"),
    ("ctest", '"id": "x"', r'"id": "x\n"', "expected an id"),
    ("ctest", '"major": 1', '"major": true', "Invalid version object"),
    ("ctest", '"slots": 2', '"slots": -1', "expected a number of slots"),
    ("ctest", '"minor": 0', '"minor": 1', "Unsupported version"),
]


@pytest.mark.parametrize(("name", "said", "instead", "message"), WRONG)
def test_errors_are_explained(name: str, said: str, instead: str, message: str) -> None:
    text = json.dumps(DOCUMENTS[name])
    assert said in text
    text = text.replace(said, instead, 1)
    kind, told = outcome(name, text)
    assert issubclass(kind, FluxresError)
    assert message in told
    assert told.startswith("f")


def changed(value: Any, instead: Any) -> Iterator[Any]:
    """A document with one of its values changed, and that in turn for each value; of a list, only the first."""
    yield instead
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: each} for each in changed(inner, instead))
    elif isinstance(value, list) and value:
        yield from ([each, *value[1:]] for each in changed(value[0], instead))


@pytest.mark.parametrize("instead", [None, True, -1, 1.0, 1.5, 1 << 32, "", "a", "a\n", [], {}], ids=repr)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_any_changed_value_is_read_or_refused(name: str, instead: Any) -> None:
    for document in changed(DOCUMENTS[name], instead):
        require_outcome(name, json.dumps(document))


def pruned(value: Any, chosen: st.DrawFn) -> Any:
    """A document with parts left out, doubled or changed."""
    if isinstance(value, dict):
        return {key: pruned(inner, chosen) for key, inner in value.items() if chosen(st.integers(0, 11)) < 11}
    if isinstance(value, list):
        kept = [pruned(each, chosen) for each in value if chosen(st.integers(0, 9)) < 9]
        return kept + kept[: chosen(st.sampled_from([0, 0, 0, 1]))]
    return chosen(st.sampled_from([value] * 12 + [None, 0, -1, "", "a", "core0", [], {}, 1.5, True]))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(DOCUMENTS)), st.data())
def test_any_file_is_read_or_refused(name: str, data: st.DataObject) -> None:
    require_outcome(name, json.dumps(pruned(DOCUMENTS[name], data.draw)))
