"""Flux's pools: which nodes, cores and GPUs they allocate, what waits, and what never runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InfeasibleRequest, InputError, InsufficientResources, NotHeld, UsageError
from fluxres.formats.peers.flux_pool import FluxPool, levels_of
from fluxres.syntax import constraint
from fluxres.syntax.flat_request import FlatRequest, flatten
from fluxres.syntax.jobspec import Request, parse_shape
from fluxres.syntax.resource_set import ResourceSet

SOCKETS = {"socket": [{"numa": [{"cores": "0-1", "gpus": "0"}, {"cores": "2-3", "gpus": "1"}]}, {"numa": [{"cores": "4-7"}]}]}


def resources(*nodes: tuple[str, str, str], topo: dict[str, Any] | None = None, **more: Any) -> ResourceSet:
    """Nodes as (ranks, cores, gpus); with a topology, all have that."""
    lite = [{"rank": ranks, "children": {"core": cores, "gpu": gpus}} for ranks, cores, gpus in nodes]
    ranks = ",".join(ranks for ranks, _, _ in nodes)
    execution = {"R_lite": lite, "nodelist": [f"n[{ranks}]"], **more}
    made: dict[str, Any] = {"version": 1, "execution": execution}
    if topo is not None:
        made["scheduling"] = {"writer": "TreePool", "children": [{"ranks": ranks, "topo": topo}]}
    return ResourceSet.parse(made)


def asked(text: str, pool: FluxPool, constraints: Any = None) -> FlatRequest:
    wanted = None if constraints is None else constraint.parse(constraints)
    return flatten(Request(parse_shape(text), constraint=wanted), containers=pool.resources.scheduling is not None)


def given_to(pool: FluxPool, *texts: str) -> list[str]:
    """The allocations of jobs, one after the other; `wait` or `never`."""
    found = []
    for number, text in enumerate(texts):
        try:
            found.append(str(pool.alloc(number, asked(text, pool))))
        except InsufficientResources:
            found.append("wait")
        except InfeasibleRequest:
            found.append("never")
    return found


def test_roomiest_node_comes_first() -> None:
    pool = FluxPool(resources(("0-1", "0-3", ""), ("2", "0-7", "0")))
    assert given_to(pool, "slot=3/core", "slot=2/core=2", "slot=3/core", "slot=5/core", "slot=2/core") == [
        "rank2/core[0-2]",
        "rank2/core[3-6]",
        "rank0/core[0-2]",
        "rank1/core[0-3] rank2/core7",  # of two nodes with one core the one that has a GPU, too
        "wait",
    ]


def test_nodes_get_the_same_number_of_slots_each() -> None:
    pool = FluxPool(resources(("0-3", "0-3", "0-1")))
    assert given_to(pool, "node=2/slot=2/[core;gpu]", "node=2/slot=3/core", "node=3/slot=2/core", "node=2/slot=4/core") == [
        "rank[0-1]/core[0-1],gpu[0-1]",
        "rank[2-3]/core[0-2]",
        "wait",
        "wait",
    ]
    never = ["node=5/slot/core", "node=2/slot=5/core", "slot/[core;gpu=3]", "slot=17/core", "slot=9/core=2"]
    assert given_to(FluxPool(resources(("0-3", "0-3", "0-1"))), *never) == ["never"] * 5


def test_as_many_as_available_up_to_the_maximum() -> None:
    pool = FluxPool(resources(("0-3", "0-1", "")))
    assert given_to(pool, "node=1-3/slot/core", "slot=2-4/core", "slot=1+/core") == [
        "rank[0-2]/core0",
        "rank[0-1]/core1 rank3/core[0-1]",
        "rank2/core1",
    ]
    assert given_to(FluxPool(resources(("0-3", "0-1", ""))), "node=2+/slot/core", "node=2,4/slot/core") == [
        "rank[0-3]/core0",
        "never",
    ]


def test_exclusive_nodes_and_nodes_that_are_down_or_removed() -> None:
    pool = FluxPool(resources(("0-3", "0-3", "0")))
    pool.mark_down("0,9")
    assert given_to(pool, "node{x}/slot/core", "node/slot/core") == ["rank1/core[0-3],gpu0", "rank2/core0"]
    pool.free(1)
    pool.alloc("part", asked("node/slot/core", pool))
    with pytest.raises(InsufficientResources):
        pool.alloc("three", asked("node=3{x}/slot/core", pool))
    with pytest.raises(InfeasibleRequest):
        pool.alloc("large", asked("node{x}/slot=5/core", pool))
    pool.mark_up("all")
    assert str(pool.alloc("last", asked("node=2{x}/slot/core", pool)).ranks) == "0,3"
    pool.mark_down("all")
    with pytest.raises(InsufficientResources):
        pool.alloc("none", asked("slot/core", pool))
    pool.remove_ranks("0-1,3")
    pool.mark_up("all")
    pool.free("last")
    assert str(pool.free_resources()) == "rank2/core[1-3],gpu0"
    with pytest.raises(InfeasibleRequest, match="2 slots of 1 cores on 2 nodes do not fit"):
        pool.check_feasibility(asked("node=2/slot/core", pool))


def test_allocation_contains_all_of_its_parts() -> None:
    pool = FluxPool(resources(("3-5", "0-3", ""), properties={"ssd": "4-5", "+batch": "3-5", "slow": "3"}))
    found = pool.alloc(7, asked("node=1-2/slot=2/core", pool, {"properties": ["ssd"]}))
    assert (str(found.nodelist), found.nslots, {name: str(ranks) for name, ranks in found.properties.items()}) == (
        "n[4-5]",
        4,
        {"ssd": "4-5"},
    )
    with pytest.raises(InfeasibleRequest):
        pool.check_feasibility(asked("node=3/slot/core", pool, {"properties": ["ssd"]}))
    with pytest.raises(UsageError, match="job 7 has resources"):
        pool.alloc(7, asked("slot/core", pool))
    pool.free(7)
    with pytest.raises(NotHeld):
        pool.free(7)


def test_topology_keeps_slots_within_the_finest_domain() -> None:
    pool = FluxPool(resources(("0-1", "0-7", "0-1"), topo=SOCKETS))
    assert given_to(
        pool,
        "slot/core",  # of the finest level the group with the fewest cores
        "slot/[core;gpu]",  # where a GPU is
        "slot/[core=2;gpu]",  # the second domain
        "slot/core=4",  # only one domain holds four
        "slot/[core=4;gpu]",  # a socket of the other node
        "slot=2/core=2",
    ) == ["rank0/core0", "rank0/core1,gpu0", "rank0/core[2-3],gpu1", "rank0/core[4-7]", "rank1/core[0-3],gpu0", "rank1/core[4-7]"]


def test_slot_too_large_for_a_domain_is_within_the_next_or_the_node() -> None:
    pool = FluxPool(resources(("0", "0-7", "0-1"), topo=SOCKETS))
    found = given_to(pool, "slot/[core=3;gpu=2]", "slot/core=5", "slot/core=9")
    assert found == ["rank0/core[0-2],gpu[0-1]", "rank0/core[3-7]", "never"]


def test_domains_and_nodes_taken_exclusively() -> None:
    pool = FluxPool(resources(("0-2", "0-7", "0-1"), topo=SOCKETS))
    assert given_to(
        pool, "slot/numa{x}", "node=2/slot/socket{x}", "slot=2/socket{x}", "slot/node{x}", "slot=3/numa{x}", "slot=7/socket{x}"
    ) == [
        "rank0/core[0-1],gpu0",
        "rank0/core[4-7] rank1/core[0-3],gpu[0-1]",
        "rank1/core[4-7] rank2/core[0-3],gpu[0-1]",
        "wait",
        "wait",
        "never",
    ]
    pool = FluxPool(resources(("0-1", "0-7", "0-1"), topo=SOCKETS))
    assert given_to(pool, "slot/core", "slot/node{x}", "node/slot=2/numa{x}", "slot/apu{x}", "node=2/slot=3/socket{x}") == [
        "rank0/core0",
        "rank1/core[0-7],gpu[0-1]",
        "rank0/core[2-7],gpu1",
        "never",
        "never",
    ]


def test_cores_of_all_slots_of_a_node_come_from_one_level() -> None:
    pool = FluxPool(resources(("0-1", "0-7", "0-1"), topo=SOCKETS))
    # Slots of three cores are searched for in domains of four, of which each node has one.
    assert given_to(pool, "node/slot=2/core=3", "slot=3/core=3", "slot=2/core=3") == ["never", "never", "rank[0-1]/core[4-6]"]


def test_gpus_above_the_cores_belong_to_that_level() -> None:
    topo = {"socket": [{"gpus": "0", "numa": [{"cores": "0-1"}, {"cores": "2-3"}]}, {"cores": "4-5", "gpus": "1"}]}
    pool = FluxPool(resources(("0", "0-5", "0-1"), topo=topo))
    assert given_to(pool, "slot/[core=3;gpu]", "slot/[core;gpu]") == ["rank0/core[0-2],gpu0", "rank0/core4,gpu1"]


def test_topologies_of_the_parent_instance_go_to_ranks_in_order() -> None:
    one, two = {"numa": [{"cores": "0"}, {"cores": "1"}]}, {"cores": "0-1"}
    made = resources(("0-2", "0-1", "")).to_dict()
    made["scheduling"] = {"writer": "TreePool", "children": [{"ranks": "5,40", "topo": one}, {"ranks": 17, "topo": two}]}
    pool = FluxPool(ResourceSet.parse(made))
    found = pool.alloc("j", asked("slot=3/numa{x}", pool))
    assert str(found) == "rank0/core[0-1] rank2/core0"
    assert found.scheduling == {"writer": "TreePool", "children": [{"ranks": "5,40", "topo": one}]}
    assert ResourceSet.parse(found.to_dict()) == found
    levels = levels_of(pool.resources)
    assert levels is not None
    assert [len(levels[rank].groups) for rank in range(3)] == [2, 1, 2]
    pool.remove_ranks("0")
    assert [each["ranks"] for each in pool.alloc("k", asked("slot/core=2", pool)).scheduling["children"]] == ["17"]


@pytest.mark.parametrize(
    ("children", "message"),
    [
        (None, "a list of topologies"),
        ([], "at least one"),
        ([{"ranks": "0"}], "'topo'"),
        ([{"ranks": "0", "topo": {}, "more": 1}], "unknown key"),
        ([{"ranks": "1-0", "topo": {}}], "from a lower id to a higher one"),
        ([{"ranks": "0", "topo": {}}], "the topologies do not cover the 2"),
        ([{"ranks": "0-9999999", "topo": {}}], "the topologies do not cover the 2"),
        ([{"ranks": "0-1", "topo": {}}, {"ranks": "1", "topo": {}}], "rank 1 has two topologies"),
        ([{"ranks": "0-1", "topo": {"numa": {"cores": "0"}}}], "a list"),
        ([{"ranks": "0-1", "topo": {"numa": [{"cores": "x"}]}}], r"children\[0\].topo.numa\[0\].cores: expected an id"),
        ([{"ranks": "0-1", "topo": {"numa": [3]}}], "a mapping"),
    ],
)
def test_invalid_topologies_are_refused(children: Any, message: str) -> None:
    made = resources(("0-1", "0-1", "")).to_dict() | {"scheduling": {"writer": "TreePool", "children": children}}
    with pytest.raises(InputError, match=message):
        FluxPool(ResourceSet.parse(made))


def test_topology_depth_is_bounded() -> None:
    topo: dict[str, Any] = {"cores": "0"}
    for _ in range(100):
        topo = {"level": [topo]}
    with pytest.raises(FluxresError, match="levels"):
        FluxPool(resources(("0", "0", ""), topo=topo))


FLAT = {"cores": "0-7", "gpus": "0-1"}
UNEVEN = {"numa": [{"cores": "0-3", "gpus": "0-1"}, {"cores": "4-7"}]}
SHAPES = (
    "slot/core",
    "slot=3/core=2",
    "slot=2/[core;gpu]",
    "node/slot=2/core=3",
    "node=2{x}/slot/core",
    "node=1-3/slot/[core=2;gpu]",
    "slot=1+/core=4",
    "slot=9/core=8",
    "slot/[core=5;gpu=2]",
    "slot=2{t,x}/core",
    "node=4/slot/core",
    "slot/[core=9;gpu]",
)


@given(st.sampled_from([None, SOCKETS, FLAT, UNEVEN]), st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), max_size=8))
def test_nothing_is_allocated_twice_and_everything_is_returned(topo: dict[str, Any] | None, jobs: list[tuple[str, bool]]) -> None:
    pool = FluxPool(resources(("0-2", "0-7", "0-1"), topo=topo))
    everything = pool.free_resources()
    held: dict[int, ResourceSet] = {}
    for number, (text, ends) in enumerate(jobs):
        request = asked(text, pool)
        before = pool.free_resources()
        try:
            found = pool.alloc(number, request)
        except InfeasibleRequest:
            with pytest.raises(InfeasibleRequest):
                FluxPool(resources(("0-2", "0-7", "0-1"), topo=topo)).alloc(0, request)
        except InsufficientResources:
            assert pool.free_resources() == before
            assert FluxPool(resources(("0-2", "0-7", "0-1"), topo=topo)).alloc(0, request)
        else:
            assert not found.diff(before)
            assert str(pool.free_resources().append(found)) == str(before)
            assert request.nslots <= found.nslots
            assert request.exclusive or found.count("core") == found.nslots * request.slot_size
            assert request.exclusive or found.count("gpu") == found.nslots * request.gpu_per_slot
            held[number] = found
        if ends and held:
            pool.free(held.popitem()[0])
    for number in held:
        pool.free(number)
    assert str(pool.free_resources()) == str(everything)
