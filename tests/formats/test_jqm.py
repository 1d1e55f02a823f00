"""JQM's resource managers from every form of file, and what is refused where."""

from __future__ import annotations

import json

import pytest

from fluxres.documents.source import Source
from fluxres.errors import InputError, UsageError
from fluxres.formats import registry
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Quantity
from fluxres.formats.peers.jqm.resource_managers import parse
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure


def read(text: str) -> Structure:
    return registry.read(text.encode(), format="jqm", file="j").structure


def things(s: Structure) -> list[tuple[str, int]]:
    return [(s.path(v).removeprefix("/cluster/"), int(s.size[v])) for v in range(1, s.n)]


def test_managers_of_every_type() -> None:
    text = """
    managers:
    - {type: quantity, key: Thread}
    - {type: quantity, key: memory, parameters: {com.enioka.jqm.rm.memory.quantity: "2048"}}
    - {type: discrete, key: ports, list: "p1, p2"}
    - {type: highlander, key: highlander}
    """
    assert things(read(text)) == [("node0", 1), ("node0/thread", 10), ("node0/memory", 2048), ("node0/p1", 1), ("node0/p2", 1)]
    ((name, managers, _, _),) = parse(Source(text.encode()).document)
    assert name is None
    assert [each.rules for each in managers] == [
        Quantity("thread"),
        Quantity("memory", 2048),
        Discrete("ports", ("p1", "p2")),
        Highlander("highlander"),
    ]


def test_global_parameters_of_released_versions() -> None:
    assert things(read('{discreteRmList: "a,b", nbThread: 4}'))[1:] == [("node0/thread", 4), ("node0/a", 1), ("node0/b", 1)]
    assert things(read("{discreteRmList: [a], discreteRmName: seats}"))[1] == ("node0/a", 1)


def test_classes_are_types() -> None:
    text = "resourceManagers: [{key: k, implementation: com.enioka.jqm.tools.%sResourceManager}]"
    assert things(read(text % "Quantity")) == [("node0", 1), ("node0/k", 10)]
    assert len(things(read(text % "Discrete"))) == 11
    assert things(read(text % "Highlander")) == [("node0", 1)]


def test_rules_that_are_not_resources_are_kept() -> None:
    managers = [
        {"type": "quantity", "key": "thread", "quantity": 3, "consumption": 2},
        {"type": "discrete", "key": "ports", "list": ["a", "b"], "consumption": 1, "description": "of the host"},
        {"type": "highlander", "key": "only"},
        {"type": "quantity", "key": "none", "quantity": 0},
        {"type": "quantity", "key": "off", "quantity": 7, "enabled": False},
    ]
    made = registry.write(read(json.dumps({"managers": managers})), format="jqm")
    assert json.loads(made.data) == {"nodes": [{"name": "node0", "managers": managers}]}
    assert [line.partition(":")[0] for line in made.left_out] == ["uuids"]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("{}", "j:1:1", "no resource managers"),
        ("[]", "j:1:1", "expected a mapping"),
        ("nodes: []", "j:1:8: nodes", "no nodes"),
        ("{nodes: [{nbThread: 1}], managers: []}", "j:1:2: nodes", "both 'nodes'"),
        ("managers: [{key: a}]", "j:1:12: managers[0]", "either a type or an implementation"),
        ("managers: [{key: a, type: quantity, implementation: x}]", "j:1:12: managers[0]", "either a type"),
        ("managers: [{key: a, type: heap}]", "j:1:12: managers[0]", "no resource manager of type 'heap'"),
        ("managers: [{key: a, type: quantity, quantity: -1}]", "j:1:47: managers[0].quantity", "a whole number of at least 0"),
        ("managers: [{key: a, type: quantity, quantity: .nan}]", "j:1:47: managers[0].quantity", "expected a whole number"),
        ("managers: [{key: a, type: quantity, quantity: x}]", "j:1:12: managers[0]", "a.quantity: expected a whole number"),
        ("managers: [{key: a, type: quantity, quantity: 1, parameters: {quantity: 2}}]", "j:1:12: managers[0]", "given twice"),
        ("managers: [{key: a, type: quantity, size: 1}]", "j:1:37: managers[0].size", "unknown key"),
        ("managers: [{key: a, type: discrete, list: 'x,x'}]", "j:1:12: managers[0]", "is listed twice"),
        (
            "managers: [{key: a, type: quantity}, {key: A, type: quantity}]",
            "j:1:44: managers[1].key",
            "a second manager 'a'",
        ),
        ("{nbThread: 1, managers: [{key: thread, type: discrete}]}", "j:1:2: nbThread", "a second manager"),
        ("{nbThread: 18446744073709551616}", "j:1:12: nbThread", "expected a whole number"),
    ],
)
def test_refusals_have_a_place(text: str, where: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        read(text)
    assert message in str(found.value)
    assert found.value.where == where


def test_machine_without_manageable_resources() -> None:
    empty = expand(Recipe("cluster", children=(Recipe("node"),)), origin=0)
    with pytest.raises(UsageError, match="anything"):
        registry.write(empty, format="jqm")
