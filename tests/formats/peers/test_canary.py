"""canary's checkout on a graph: packed on a node, spread over nodes, and done completely or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import fluxres
from fluxres.errors import FluxresError, InfeasibleRequest, InputError, InsufficientResources, NotHeld, UsageError
from fluxres.formats.peers.canary import resource_pool
from fluxres.formats.peers.canary.allocator import checkin, free_slots, is_feasible, request_of, types_of
from fluxres.formats.peers.canary.environment import checked_out, environment, pool_file
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request

Machine = dict[str, dict[str, dict[str, int]]]


def machine(slots: Machine, **more: Any) -> ResourceGraph:
    """A pool in canary's form: slots by node, type and id."""
    nodes = [
        {
            "id": node,
            "resources": {word: [{"id": name, "slots": n} for name, n in some.items()] for word, some in types.items()},
        }
        for node, types in slots.items()
    ]
    return fluxres.load(json.dumps({"nodes": nodes, **more}).encode())


def wanted(*nodes: dict[str, Any] | list[tuple[str, int]]) -> Request:
    """The request of items by node; a mapping is one with `exclusive`."""
    listed = [
        each if isinstance(each, dict) else {"items": [{"type": word, "slots": slots} for word, slots in each]} for each in nodes
    ]
    return Request.parse(json.dumps(listed), format="canary")


def given(graph: ResourceGraph, request: Request, job: str = "t") -> list[str]:
    """What is checked out, as ``node/id=slots``."""
    found = checked_out(request, graph.allocate(request, job=job))
    return [f"{each['node']}/{each['id']}={each['slots']}" for some in found.values() for each in some]


def test_items_go_to_the_fullest_instance_that_suffices() -> None:
    graph = machine({"n": {"gpus": {"0": 2, "1": 1}}})
    assert given(graph, wanted([("gpus", 1)] * 3)) == ["n/1=1", "n/0=1", "n/0=1"]
    assert not graph.check()
    graph.free("t")
    assert given(graph, wanted([("gpus", 2)])) == ["n/0=2"]


def test_node_with_the_largest_rest_of_the_requested_types_is_chosen() -> None:
    graph = machine({"a": {"cpus": {"0": 2}, "gpus": {"0": 9}}, "b": {"cpus": {"0": 3}, "gpus": {}}})
    assert [given(graph, wanted([("cpus", 1)]), f"t{number}") for number in range(3)] == [["b/0=1"], ["a/0=1"], ["b/0=1"]]


def test_largest_request_chooses_first_and_is_listed_first() -> None:
    graph = machine({"small": {"cpus": {"0": 1}}, "large": {"cpus": {"0": 3}}})
    assert given(graph, wanted([("cpus", 1)], [("cpus", 2)])) == ["large/0=2", "small/0=1"]


def test_feasible_request_may_be_refused_since_items_are_not_split() -> None:
    graph = machine({"n": {"gpus": {"0": 2, "1": 2}}})
    three = wanted([("gpus", 1), ("gpus", 3)])
    assert is_feasible(graph, three)
    with pytest.raises(InfeasibleRequest, match="/cluster/n has enough free slots of gpus, but not on single instances"):
        graph.allocate(three, job="t")
    two = wanted([("gpus", 2)])
    for name in "ab":
        graph.allocate(wanted([("gpus", 1)]), job=name)
    graph.free("a")
    graph.allocate(wanted([("gpus", 2)]), job="c")
    assert not is_feasible(graph, two)
    assert free_slots(graph) == {"n": {"gpus": {"0": 1, "1": 0}}}


def test_refusals_in_words_and_by_why() -> None:
    graph = machine({"n": {"gpus": {"0": 2, "1": 2}}})
    graph.allocate(wanted([("gpus", 1)]), job="a", duration_s=60)
    graph.allocate([("/cluster/n/gpu1", 1)], job="b", duration_s=100)
    refused = graph.why_not(wanted([("gpus", 2)]))
    assert refused is not None
    assert refused.earliest == 60.0
    assert refused.notes == ("/cluster/n has enough free slots of gpus, but not on single instances",)
    assert "has enough free slots of gpus" in str(refused)
    reserved = graph.allocate_orelse_reserve(wanted([("gpus", 2)]), job="c", duration_s=10)
    assert (reserved.start, [pool.name for pool in reserved.pools]) == (60.0, ["gpu0"])
    with pytest.raises(InsufficientResources, match=r"some of it held by a .* c .* and b"):
        graph.allocate(wanted([("gpus", 2), ("gpus", 2)]), job="d")


def test_type_is_served_from_its_plural_if_a_node_has_only_that() -> None:
    graph = machine({"a": {"cpus": {"0": 3}}, "b": {"cpu": {"0": 1}, "cpus": {"9": 1}}})
    both = wanted([("cpu", 1), ("cpus", 1)])
    assert given(graph, both, "t") == ["a/0=1", "a/0=1"]
    assert given(graph, both, "u") == ["b/0=1", "b/9=1"]
    assert not is_feasible(graph, both)
    assert is_feasible(graph, wanted([("cpu", 1)]))
    checkin(graph, {"cpu": [{"node": "a", "id": "0", "slots": 2}]})
    assert free_slots(graph)["a"] == {"cpus": {"0": 3}}
    assert given(graph, wanted([("node", 1), ("cpus", 1)]), "v") == ["a/0=1"]


def test_exclusive_request_gets_all_that_is_left_of_its_node() -> None:
    graph = machine({"n": {"cpus": {"0": 1, "1": 0}, "gpus": {"0": 2}}})
    alone = wanted({"items": [{"type": "cpus", "slots": 1}], "exclusive": True})
    assert given(graph, alone) == ["n/0=1", "n/0=2"]
    assert [pool.name for pool in graph.allocation("t").pools] == ["n"]
    with pytest.raises(InsufficientResources):
        graph.allocate(wanted([("gpus", 1)]), job="u")
    with pytest.raises(NotHeld, match="return all of the node"):
        checkin(graph, {"gpus": [{"node": "n", "id": "0", "slots": 2}]})
    checkin(graph, {"gpus": [{"node": "n", "id": "0", "slots": 2}], "cpus": [{"node": "n", "id": "0", "slots": 1}]})
    assert not graph.jobs()
    graph.allocate(wanted([("gpus", 1)]), job="u")
    assert given(graph, alone) == ["n/0=1", "n/0=1"]
    assert not graph.check()


def test_pool_of_single_nodes_refuses_requests_for_several() -> None:
    graph = machine({"a": {"cpus": {"0": 1}}, "b": {"cpus": {"0": 1}}}, allow_multinode=False)
    two = wanted([("cpus", 1)], [("cpus", 1)])
    assert not is_feasible(graph, two)
    with pytest.raises(InfeasibleRequest, match="allow_multinode"):
        graph.allocate(two, job="t")
    assert is_feasible(graph, wanted([("cpus", 1)]))
    assert is_feasible(machine({"a": {"cpus": {"0": 1}}, "b": {"cpus": {"0": 1}}}), two)


@pytest.mark.parametrize(
    ("resources", "error"),
    [
        ({"cpus": [{"node": "n", "id": "0", "slots": 1}]}, NotHeld),
        ({"cpus": [{"node": "x", "id": "0", "slots": 1}]}, InputError),
        ({"gpus": [{"node": "n", "id": "0", "slots": 1}]}, InputError),
        ({"cpus": [{"node": "n", "id": "7", "slots": 1}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": 0}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": float("nan")}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": 0.5}]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": True}]}, InputError),
        ({"cpus": [{"node": "n", "id": ["1"], "slots": 1}]}, InputError),
        ({"cpus": [3]}, InputError),
        ({"cpus": [{"node": "n", "id": "1", "slots": 1}] * 3}, NotHeld),
    ],
)
def test_invalid_returns_change_nothing(resources: dict[str, Any], error: type[Exception]) -> None:
    graph = machine({"n": {"cpus": {"0": 1, "1": 2}}})
    graph.allocate(wanted([("cpus", 2)]), job="t")
    before = free_slots(graph)
    with pytest.raises(error):
        checkin(graph, {**resources, "cpus": [{"node": "n", "id": "1", "slots": 1}, *resources.get("cpus", [])]})
    assert free_slots(graph) == before


def test_machines_of_other_formats_serve_canary() -> None:
    graph = fluxres.load("hyperqueue:cpus=2x2 gpus=[a,b]")
    request = Request.parse("gpus=1 cpus=3", format="canary")
    assert given(graph, request) == [f"{graph.pool('/cluster').children[0].name}/{name}=1" for name in ("a", "0", "1", "2")]
    assert environment(request, graph.allocation("t"))["CANARY_CPU_IDS"] == "0,1,2"
    assert not graph.check()


def test_slots_with_decimals() -> None:
    graph = fluxres.load(b"nodes: [{id: n, resources: {gpus: [{id: '0', slots: 1.5}, {id: '1', slots: 2}]}}]")
    assert given(graph, wanted([("gpus", 1)])) == ["n/0=1"]
    assert free_slots(graph) == {"n": {"gpus": {"0": 0.5, "1": 2}}}
    checkin(graph, {"gpus": [{"node": "n", "id": "0", "slots": 0.25}]})
    assert free_slots(graph)["n"]["gpus"]["0"] == 0.75


# -- parameters and variables ----------------------------------------------------------------------------------------


def test_parameters_are_resources_if_the_pool_declares_their_type() -> None:
    graph = machine({"n": {"cpus": {"0": 1, "1": 1}, "gpus": {"0": 1}, "fpgas": {}}})
    assert types_of(graph) == {"fpgas": 0, "cpus": 2, "gpus": 1}
    assert given(graph, request_of(graph, {"gpus": 1, "np": 7, "tpus": 3}), "a") == ["n/0=1", "n/0=1"]
    with pytest.raises(InputError, match="2 fpgas are requested, but no node has any"):
        request_of(graph, {"fpgas": 2})
    with pytest.raises(InputError, match="whole number"):
        request_of(graph, {"gpus": "two"})
    several = machine({"a": {"cpus": {"0": 2}}, "b": {"cpus": {"0": 2}}})
    assert given(several, request_of(several, {"cpus": 3})) == ["a/0=2", "b/0=2"]


def test_variables_and_placeholders() -> None:
    graph = machine({"n": {"cpus": {"10": 1, "11": 1}, "gpus": {"0": 2, "1": 1}}})
    request = Request.parse("gpus=3 cpus=2", format="canary")
    made = environment(
        request, graph.allocate(request, job="t"), {"A": "x%(gpu_ids)s", "B": "%(fpga_ids)s", "C": "5%", "D": "%%"}
    )
    assert made == {
        "CANARY_CPU_IDS": "10,11",
        "CANARY_GPU_IDS": "1,0,0",
        "CUDA_VISIBLE_DEVICES": "1,0",
        "A": "x1,0,0",
        "B": "%(fpga_ids)s",
        "C": "5%",
        "D": "%",
    }
    again = environment(request, graph.allocation("t"))  # records have no order: the same instances, as often
    assert sorted(again["CANARY_GPU_IDS"].split(",")) == ["0", "0", "1"]
    with pytest.raises(UsageError, match="no request of canary"):
        environment(Request.parse("gpus=1", format="hyperqueue"), graph.allocation("t"))


def test_variables_by_vendor() -> None:
    graph = fluxres.load(
        b"nodes: [{id: n, resources: {gpus: [{id: '0', properties: {vendor: AMD}}, {id: '1', properties: {vendor: UNKNOWN}}]}}]"
    )
    request = Request.parse("gpus=2", format="canary")
    with pytest.raises(InfeasibleRequest, match="core"):
        graph.allocate(request, job="t")  # one cpu is implied
    both = wanted([("gpus", 1), ("gpus", 1)])
    made = environment(both, graph.allocate(both, job="t"), {"CUDA_VISIBLE_DEVICES": "7"})
    assert (made["ROCR_VISIBLE_DEVICES"], made["CUDA_VISIBLE_DEVICES"]) == ("0", "7")


def test_pool_file_of_a_job_is_a_pool() -> None:
    graph = machine({"n": {"cpus": {"0": 1, "1": 1}, "gpus": {"0": 4}}})
    held = graph.allocate(Request.parse("gpus=2", format="canary"), job="t")
    inner = fluxres.load(pool_file(held).encode())
    assert free_slots(inner) == {"n": {"cpus": {"0": 1}, "gpus": {"0": 2}}}
    assert pool_file(graph, "t") == pool_file(held)
    with pytest.raises(UsageError, match="id of a job"):
        pool_file(graph)


def test_options_change_a_pool_as_canary_changes_it() -> None:
    pool = resource_pool.of_counts({"cpus": 4, "gpus": 2})
    assert resource_pool.modified(pool, {"gpus": 1, "slots_per_gpus": 3, "fpga": 2}).nodes[0].slots() == {
        "cpus": 4,
        "gpus": 3,
        "fpgas": 2,
    }
    assert resource_pool.modified(pool, {"slots_per_gpu": 3}, {"gpus": 2}).nodes[0].slots()["gpus"] == 4
    two = resource_pool.modified(pool, {"nodes": 2})
    assert (list(two.named()), two.allow_multinode) == (["node0", "1"], True)
    for counts, times in (({"nodes": 0}, {}), ({"slots_per_tpu": 2}, {}), ({}, {"nodes": 2}), ({}, {"tpus": 2})):
        with pytest.raises(InputError):
            resource_pool.modified(pool, counts, times)


# -- guarantees ------------------------------------------------------------------------------------------------------


class Checkouts(RuleBasedStateMachine):
    """Checkouts and checkins at random: slots are neither lost nor held twice, and a refusal changes nothing."""

    @initialize(
        slots=st.dictionaries(
            st.sampled_from("ab"),
            st.dictionaries(
                st.sampled_from(["cpus", "gpus"]),
                st.dictionaries(st.sampled_from("012"), st.integers(0, 4), min_size=1, max_size=3),
                min_size=1,
                max_size=2,
            ),
            min_size=1,
        )
    )
    def begin(self, slots: Machine) -> None:
        self.slots = slots
        self.graph = machine(slots)
        self.out: dict[str, dict[str, list[Any]]] = {}
        self.number = 0

    @rule(
        nodes=st.lists(
            st.tuples(
                st.lists(st.tuples(st.sampled_from(["cpus", "gpus", "cpu"]), st.integers(1, 3)), min_size=1, max_size=3),
                st.booleans(),
            ),
            min_size=1,
            max_size=2,
        )
    )
    def check_out(self, nodes: list[tuple[list[tuple[str, int]], bool]]) -> None:
        self.number += 1
        job, before = f"t{self.number}", free_slots(self.graph)
        listed = [
            {"items": [{"type": word, "slots": slots} for word, slots in items], "exclusive": alone} for items, alone in nodes
        ]
        request = wanted(*listed)
        try:
            made = self.graph.allocate(request, job=job)
        except (InsufficientResources, InfeasibleRequest):
            assert free_slots(self.graph) == before
            return
        found = checked_out(request, made)
        if not any(alone for _, alone in nodes):
            got = sorted((word, each["slots"]) for word, some in found.items() for each in some)
            assert got == sorted((word if word.endswith("s") else f"{word}s", n) for items, _ in nodes for word, n in items)
            assert is_best_fit(before, found)
        assert len({each["node"] for some in found.values() for each in some}) == len(nodes)
        self.out[job] = found

    @rule(data=st.data(), twice=st.booleans())
    def check_in(self, data: st.DataObject, twice: bool) -> None:
        if not self.out:
            return
        job = data.draw(st.sampled_from(sorted(self.out)))
        found = self.out.pop(job)
        checkin(self.graph, found, job)
        if twice:
            before = free_slots(self.graph)
            with pytest.raises(FluxresError):
                checkin(self.graph, found, job)
            assert free_slots(self.graph) == before

    @invariant()
    def slots_are_conserved(self) -> None:
        if not hasattr(self, "graph"):
            return
        left = {node: {word: dict(some) for word, some in types.items()} for node, types in self.slots.items()}
        for found in self.out.values():
            for word, some in found.items():
                for each in some:
                    left[each["node"]][word][each["id"]] -= each["slots"]
                    assert left[each["node"]][word][each["id"]] >= 0
        assert left == free_slots(self.graph)
        assert not self.graph.check()
        assert set(self.graph.jobs()) == set(self.out)


def is_best_fit(before: Machine, found: dict[str, list[Any]]) -> bool:
    """Whether each item, one after the other, went to an instance with the least free slots of those that suffice."""
    left = {node: {word: dict(some) for word, some in types.items()} for node, types in before.items()}
    for word, some in found.items():
        for each in some:
            there = left[each["node"]][word]
            if there[each["id"]] != min(free for free in there.values() if free >= each["slots"]):
                return False
            there[each["id"]] -= each["slots"]
    return True


TestCheckouts = Checkouts.TestCase
TestCheckouts.settings = settings(max_examples=60, stateful_step_count=14, deadline=None)
