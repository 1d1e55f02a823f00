"""CTest's resource specification files: accepted and refused as by CTest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.peers.ctest.resource_spec import SpecInstance, parse
from fluxres.graph.structure import Structure

VERSION = {"version": {"major": 1, "minor": 0}}


def source(values: Any) -> Source:
    return Source(json.dumps(values).encode(), "s")


def read(local: Any) -> Structure:
    return registry.read(source({**VERSION, "local": local}), format="ctest").structure


def test_instance_is_a_pool_of_its_slots() -> None:
    types = {"gpus": [{"id": "0", "slots": 2}, {"id": "card_1"}], "GPUS": [{"id": "x"}], "9": [], "_": [{"id": "0", "slots": 0}]}
    s = read([types])
    assert [(s.path(v)[15:], int(s.size[v]), s.state_name(v)) for v in range(2, s.n)] == [
        ("gpu0", 2, "up"),
        ("card_1", 1, "up"),
        ("_0", 1, "down"),
    ]
    made = json.loads(registry.write(s, format="ctest").data)
    assert made == {
        **VERSION,
        "local": [{"gpus": [{"id": "0", "slots": 2}, {"id": "card_1", "slots": 1}], "_": [{"id": "0", "slots": 0}]}],
    }


def test_an_id_may_occur_twice_as_in_ctest() -> None:
    local = [{"gpus": [{"id": "0", "slots": 1}, {"id": "0", "slots": 3}]}]
    s = read(local)
    assert [s.name(v) for v in s.of_type("gpu").tolist()] == ["gpu0", "gpu~0"]
    assert json.loads(registry.write(s, format="ctest").data)["local"] == local


def test_both_forms_of_local() -> None:
    local = {"gpus": [{"id": "0", "slots": 2}]}
    assert read(local).n == read([local]).n == 3
    assert parse(source({**VERSION, "local": [local]}).document) == {"gpus": [SpecInstance("0", 2)]}
    with pytest.raises(InputError, match="Invalid socket object"):
        parse(source({**VERSION, "local": local}).document)
    assert parse(source({**VERSION, "local": []}).document) == {}


@pytest.mark.parametrize(
    ("values", "where", "message"),
    [
        ([], "s:1:1", "expected an object"),
        ({}, "s:1:1", "No version specified"),
        ({"local": []}, "s:1:1", "No version specified"),
        ({**VERSION, "local": [[]]}, "s:1:49: local[0]", "expected an object in the list, got an empty list"),
        ({**VERSION, "local": ["x"]}, "s:1:49: local[0]", "expected an object in the list, got 'x'"),
        ({"version": 1, "local": []}, "s:1:13: version", "Invalid version"),
        ({"version": {"major": 1}, "local": []}, "s:1:13: version", "Invalid version"),
        ({"version": {"major": 1, "minor": True}, "local": []}, "s:1:13: version", "Invalid version"),
        ({"version": {"major": 2, "minor": 0}, "local": []}, "s:1:13: version", "Unsupported version"),
        (VERSION, "s:1:1", "'local' is missing"),
        ({**VERSION, "local": [{}, {}]}, "s:1:48: local", "Invalid socket object"),
        ({**VERSION, "local": [3]}, "s:1:49: local[0]", "Invalid socket object"),
        ({**VERSION, "local": [{"a": 3}]}, "s:1:55: local[0].a", "expected a list"),
        ({**VERSION, "local": [{"a": [3]}]}, "s:1:56: local[0].a[0]", "Invalid resource object"),
        ({**VERSION, "local": [{"a": [{}]}]}, "s:1:56: local[0].a[0]", "Invalid resource object"),
        ({**VERSION, "local": [{"a": [{"id": "A"}]}]}, "s:1:63: local[0].a[0].id", "Invalid resource object"),
        ({**VERSION, "local": [{"a": [{"id": "1", "slots": 1.0}]}]}, "s:1:77: local[0].a[0].slots", "Invalid resource object"),
        ({**VERSION, "local": [{"a": [{"id": "1", "slots": "1"}]}]}, "s:1:77: local[0].a[0].slots", "Invalid resource object"),
        ({**VERSION, "local": [{"a": [{"id": "1", "slots": 2**63}]}]}, "s:1:77: local[0].a[0].slots", "at most"),
    ],
)
def test_errors_have_the_wording_of_ctest_and_a_place(values: Any, where: str, message: str) -> None:
    for do in (lambda: parse(source(values).document), lambda: registry.read(source(values), format="ctest")):
        with pytest.raises(InputError) as found:
            do()
        assert message in str(found.value)
        assert found.value.where == where


def test_slot_count_is_bounded_by_32_bits() -> None:
    with pytest.raises(LimitExceeded):
        read([{"a": [{"id": "1", "slots": 2**32}]}])
    assert read([{"a": [{"id": "1", "slots": 2**32 - 1}]}]).size[2] == 2**32 - 1


def test_one_node_of_several() -> None:
    pool = {"nodes": [{"id": name, "resources": {"gpus": [{"id": "0"}]}} for name in ("n1", "N 2")]}
    s = registry.read(source(pool), format="canary").structure
    every = registry.write(s, format="ctest")
    assert [each["id"] for each in json.loads(every.data)["local"][0]["gpus"]] == ["n1_0", "n_2_0"]
    assert "pools: which of 2 nodes an instance is in" in every.left_out
    one = registry.write(s, format="ctest", node="n1")
    assert json.loads(one.data)["local"] == [{"gpus": [{"id": "0", "slots": 1}]}]
    assert "pools: 2 pools, such as /cluster/N 2" in one.left_out
    with pytest.raises(UsageError, match="no node 'n3'"):
        registry.write(s, format="ctest", node="n3")
