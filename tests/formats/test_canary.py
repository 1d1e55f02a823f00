"""canary's resource pools in every form, and what is refused where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxres.documents.source import Source
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.peers.canary.resource_pool import Instance, PoolNode, ResourcePool, parse, read_words
from fluxres.graph.structure import Structure


def read(text: str) -> Structure:
    return registry.read(text.encode(), format="canary", file="p").structure


def things(s: Structure) -> list[tuple[str, int, str | None, dict[str, Any]]]:
    return [
        (s.path(v).removeprefix("/cluster/"), int(s.size[v]), s.kind_of(v).unit, dict(s.kind_of(v).properties))
        for v in range(1, s.n)
    ]


def test_counts() -> None:
    s = read("resource_pool: {cpus: 2, gpus: 1, slots_per_gpu: 3, fpgas: 0, additional_properties: {site: lab}}")
    assert things(s) == [
        ("node0", 1, None, {"json:file:empty_types": '["fpgas"]'}),
        ("node0/core0", 1, None, {}),
        ("node0/core1", 1, None, {}),
        ("node0/gpu0", 3, None, {}),
    ]
    assert dict(s.kind_of(0).properties) == {"site": "lab"}


@pytest.mark.parametrize("key", ["resources", "local"])
def test_older_form(key: str) -> None:
    text = "{%s: {gpus: [{id: 3, slots: 2}, {id: a, slots: 0.25}, {id: b, slots: 2.0, properties: {vendor: AMD}}]}}"
    assert things(read(text % key)) == [
        ("node0", 1, None, {}),
        ("node0/gpu3", 2, None, {}),
        ("node0/a", 2500, "0.0001", {}),
        ("node0/b", 2, None, {"vendor": "AMD"}),
    ]


def test_present_form() -> None:
    text = """
    nodes:
    - id: n1
      additional_properties: {rack: 7, links: [1, {a: b}]}
      resources: {cpus: [{id: "0"}], gpus: []}
    - {id: 2}
    allow_multinode: false
    """
    s = read(text)
    assert things(s) == [
        ("n1", 1, None, {"rack": 7, "json:links": '[1,{"a":"b"}]', "json:file:empty_types": '["gpus"]'}),
        ("n1/core0", 1, None, {}),
        ("2", 1, None, {}),
    ]
    again = json.loads(registry.write(s, format="canary").data)["resource_pool"]
    assert again["nodes"][0]["additional_properties"] == {"rack": 7, "links": [1, {"a": "b"}]}
    assert again["nodes"][0]["resources"] == {"cpus": [{"id": "0", "slots": 1}], "gpus": []}
    assert again["allow_multinode"] is False


def test_empty_pool() -> None:
    with pytest.raises(InputError, match="has no nodes"):
        read("nodes: []")


def test_words_of_the_command_line() -> None:
    assert [path for path, *_ in things(read_words("-c resource_pool:gpus:1 -r cpu=2").structure)] == [
        "node0",
        "node0/gpu0",
        "node0/core0",
        "node0/core1",
    ]
    assert len(read_words("nodes=3 cpus=4 slots_per_cpu=2").structure.of_type("core")) == 12
    for wrong in ("slots_per_gpu=2", "nodes=0 cpus=1", "nodes=99999999999 cpus=1"):
        with pytest.raises(InputError):
            read_words(wrong)


def test_counts_of_a_pool() -> None:
    node = PoolNode({"cpus": [Instance("0", 2), Instance("1", 1)]}, "a")
    pool = ResourcePool((node, PoolNode({"cpus": [Instance("0")], "gpus": []}, "b")))
    assert pool.types() == ["cpus", "gpus"]
    assert (node.counts(), node.slots()) == ({"cpus": 2}, {"cpus": 3})
    assert pool.per_node("gpus") == 0
    with pytest.raises(InputError, match="nodes have different numbers"):
        pool.per_node("cpus")


@pytest.mark.parametrize("text", ["{cpus: 2}", "{resources: {cpus: []}}", "{local: {cpus: []}}"])
def test_older_forms_are_refused_if_the_present_one_is_required(text: str) -> None:
    document = Source(text.encode()).document
    parse(document, grammar="seed")
    with pytest.raises(InputError):
        parse(document, grammar="current")


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("[]", "p:1:1", "expected a mapping"),
        ("{}", "p:1:1", "Missing key: resources"),
        ("resource_pool:", "p:1:15: resource_pool", "expected a mapping"),
        ("{cpus: two}", "p:1:8: cpus", "Missing key: resources"),
        ("{cpus: -1}", "p:1:8: cpus", "a count of at least 0"),
        ("{cpus: 1.5}", "p:1:8: cpus", "a count of at least 0"),
        ("{cpus: .nan}", "p:1:8: cpus", "a count of at least 0"),
        ("{cpus: 18446744073709551616}", "p:1:8: cpus", "up to"),
        ("{cpus: 1, slots_per_gpu: 2}", "p:1:1: slots_per_gpus", "not how many there are"),
        ("{resources: {}, local: {}}", "p:1:17: local", "both"),
        ("{local: {cpus: [{slots: 1}]}}", "p:1:17: local.cpus[0]", "'id' is missing"),
        ("{local: {cpus: [{id: a, slots: -1}]}}", "p:1:32: local.cpus[0].slots", "a number of at least 0"),
        ("{local: {cpus: [{id: a, slots: .nan}]}}", "p:1:32: local.cpus[0].slots", "expected a number of at least 0, got nan"),
        ("{local: {cpus: [{id: a, slots: 0.00001}]}}", "p:1:16: local.cpus", "four decimals"),
        ("{local: {cpus: [{id: a}, {id: a}]}}", "p:1:31: local.cpus[1].id", "is listed twice"),
        ("{nodes: [{id: a}, {id: a}]}", "p:1:24: nodes[1].id", "is listed twice"),
        ("{nodes: [{id: a, cpus: 3}]}", "p:1:18: nodes[0].cpus", "unknown key"),
        ("{nodes: [{id: a, resources: {cpus: 3}}]}", "p:1:36: nodes[0].resources.cpus", "expected a list"),
        ("{cpus: 1, cpus: 2}", "p:1:11: cpus", "duplicate key"),
        ("{local: {a/b: [{id: x}], a_b: [{id: x}]}}", "p", "both be the type 'a_b'"),
        ("{local: {a: [{id: x, properties: {k: .nan}}]}}", "p:1:13: local.a", "NaN"),
    ],
)
def test_refusals_have_a_place(text: str, where: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        read(text)
    assert message in str(found.value)
    assert found.value.where == where


def test_counts_beyond_any_machine() -> None:
    with pytest.raises(LimitExceeded):
        read("{cpus: 1000000000}")
    with pytest.raises(LimitExceeded):
        read("{cpus: 60000000, gpus: 60000000}")


def test_older_form_has_one_node() -> None:
    two = read("{nodes: [{id: a}, {id: b}]}")
    with pytest.raises(UsageError, match="2 nodes"):
        registry.write(two, format="canary", form="resources")
    with pytest.raises(UsageError, match="no form"):
        registry.write(two, format="canary", form="counts")
    one = read("{nodes: [{id: a, resources: {gpus: [{id: x, slots: 2}]}}]}")
    made = registry.write(one, format="canary", form="resources")
    assert json.loads(made.data) == {"resource_pool": {"resources": {"gpus": [{"id": "x", "slots": 2}]}}}
    assert [line.partition(":")[0] for line in made.left_out] == ["names", "uuids"]
