"""canary's checkout: packed on a node, spread over nodes, and done completely or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError, NotHeld, UsageError
from fluxres.formats.peers.canary.allocator import InstanceSlots, Shelf, Test, cost, start
from fluxres.formats.peers.canary.language import Item, NodeRequest

MACHINES = st.dictionaries(
    st.sampled_from("ab"),
    st.dictionaries(
        st.sampled_from(["cpus", "gpus"]), st.dictionaries(st.sampled_from("012"), st.integers(0, 4), max_size=3), max_size=2
    ),
    min_size=1,
)
REQUESTS = st.lists(
    st.builds(
        NodeRequest,
        st.lists(st.builds(Item, st.sampled_from(["cpus", "gpus"]), st.integers(1, 3)), max_size=3).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=2,
)


@given(MACHINES, st.lists(REQUESTS, max_size=4))
def test_checked_out_slots_are_the_missing_ones(machine: dict[str, Any], asked: list[list[NodeRequest]]) -> None:
    shelf = Shelf(machine)
    out = []
    for requests in asked:
        before, feasible = shelf.free(), shelf.is_feasible(requests)
        found = shelf.checkout(requests)
        if found is None:
            assert shelf.free() == before
            continue
        assert feasible
        out.append(found)
        for type_name, taken in found.items():
            for each in taken:
                before[each.node][type_name][each.id] -= each.slots
                assert before[each.node][type_name][each.id] >= 0
        assert before == shelf.free()
        if not any(request.exclusive for request in requests):
            wanted = sorted((item.type, item.slots) for request in requests for item in request.items)
            assert sorted((type_name, each.slots) for type_name, taken in found.items() for each in taken) == wanted
    for found in out:
        shelf.checkin(found)
    assert shelf.free() == machine


def test_pool_of_single_nodes_refuses_requests_for_several() -> None:
    machine = {"a": {"cpus": {"0": 1}}, "b": {"cpus": {"0": 1}}}
    one, two = ([NodeRequest((Item("cpus", 1),))] * number for number in (1, 2))
    single = Shelf(machine, allow_multinode=False)
    assert not single.is_feasible(two)
    assert single.checkout(two) is None
    assert single.free() == machine
    assert single.is_feasible(one)
    assert Shelf(machine).checkout(two) is not None


def test_type_is_served_from_its_plural_if_a_node_has_only_that() -> None:
    shelf = Shelf({"a": {"cpus": {"0": 3}}, "b": {"cpu": {"0": 1}, "cpus": {"9": 1}}})
    both = NodeRequest((Item("cpu", 1), Item("cpus", 1)))
    assert shelf.checkout([both]) == {"cpus": [InstanceSlots("a", "0", 1), InstanceSlots("a", "0", 1)]}
    assert shelf.checkout([both]) == {"cpu": [InstanceSlots("b", "0", 1)], "cpus": [InstanceSlots("b", "9", 1)]}
    assert not shelf.is_feasible([both])
    assert shelf.is_feasible([NodeRequest((Item("cpu", 1),))])
    shelf.checkin({"cpu": [InstanceSlots("a", "0", 2)]})
    assert shelf.free()["a"] == {"cpus": {"0": 3}}
    assert shelf.checkout([NodeRequest((Item("node", 1), Item("cpus", 1)))]) == {"cpus": [InstanceSlots("a", "0", 1)]}
    assert not shelf.is_feasible([NodeRequest((Item("gpu", 1),))])


def test_tests_of_high_cost_start_first_and_those_that_do_not_fit_are_skipped() -> None:
    shelf = Shelf({"n": {"cpus": {str(number): 1 for number in range(4)}}})

    def waiting(name: str, cpus: int, runtime_s: float, *, exclusive: bool = False) -> Test:
        return Test(name, (NodeRequest((Item("cpus", 1),) * cpus, exclusive),), cost(cpus, runtime_s))

    tests = [waiting("wide", 4, 1), waiting("long", 1, 50), waiting("both", 3, 40), waiting("small", 1, 1), waiting("twin", 1, 1)]
    found = start(shelf, tests)
    assert list(found) == ["long", "both"]
    shelf.checkin(found["both"])
    assert list(start(shelf, [tests[0], *tests[3:]])) == ["small", "twin"]
    shelf = Shelf({"n": {"cpus": {"0": 4}}, "m": {"cpus": {"0": 4}}})
    assert list(start(shelf, [waiting("alone", 1, 9, exclusive=True), waiting("small", 1, 1), waiting("long", 1, 20)])) == [
        "long",
        "alone",
    ]


def test_feasible_request_may_be_refused_since_items_are_not_split() -> None:
    shelf = Shelf({"n": {"gpus": {"0": 2, "1": 2}}})
    assert shelf.is_feasible([NodeRequest((Item("gpus", 3),))])
    assert shelf.checkout([NodeRequest((Item("gpus", 1), Item("gpus", 3)))]) is None
    assert shelf.free() == {"n": {"gpus": {"0": 2, "1": 2}}}


def test_largest_request_chooses_first_and_is_listed_first() -> None:
    shelf = Shelf({"small": {"cpus": {"0": 1}}, "large": {"cpus": {"0": 3}}})
    found = shelf.checkout([NodeRequest((Item("cpus", 1),)), NodeRequest((Item("cpus", 2),))])
    assert found == {"cpus": [InstanceSlots("large", "0", 2), InstanceSlots("small", "0", 1)]}


def test_exclusive_request_gets_the_complete_node() -> None:
    shelf = Shelf({"n": {"cpus": {"0": 1, "1": 0}, "gpus": {"0": 2}}})
    assert shelf.checkout([NodeRequest((Item("cpus", 1),), exclusive=True)]) == {
        "cpus": [InstanceSlots("n", "0", 1)],
        "gpus": [InstanceSlots("n", "0", 2)],
    }
    assert shelf.checkout([NodeRequest((Item("gpus", 1),))]) is None


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        ({"cpus": [InstanceSlots("n", "0", 1)]}, NotHeld),
        ({"cpus": [{"node": "x", "id": "0", "slots": 1}]}, InputError),
        ({"gpus": [{"node": "n", "id": "0", "slots": 1}]}, InputError),
        ({"cpus": [{"node": "n", "id": "7", "slots": 1}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": 0}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": float("nan")}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": True}]}, InputError),
        ({"cpus": [{"node": "n", "id": ["1"], "slots": 1}]}, InputError),
        ({"cpus": [3]}, InputError),
        ({"cpus": [InstanceSlots("n", "1", 1), InstanceSlots("n", "1", 1), InstanceSlots("n", "1", 1)]}, NotHeld),
    ],
)
def test_invalid_returns_change_nothing(resources: dict[str, Any], error: type[Exception]) -> None:
    shelf = Shelf({"n": {"cpus": {"0": 1, "1": 2}}})
    shelf.checkout([NodeRequest((Item("cpus", 2),))])
    before = shelf.free()
    with pytest.raises(error):
        shelf.checkin({**resources, "cpus": [InstanceSlots("n", "1", 1), *resources.get("cpus", [])]})
    assert shelf.free() == before


def test_machine_without_nodes() -> None:
    for ask in (Shelf({}).is_feasible, Shelf({}).checkout):
        with pytest.raises(UsageError, match="no nodes"):
            ask([NodeRequest(())])
