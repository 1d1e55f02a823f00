"""CTest's packing: an assignment is found if there is one, in CTest's order, on a graph as on plain numbers."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres.errors import InfeasibleRequest, InsufficientResources, LimitExceeded, UsageError
from fluxres.formats.peers.canary.allocator import free_slots
from fluxres.formats.peers.ctest import groups as ctest_groups
from fluxres.formats.peers.ctest.allocator import Strategy, pack
from fluxres.formats.peers.ctest.environment import environment, spec_environment, spec_file
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request

NEEDED = st.lists(st.integers(0, 6), max_size=5)
FREE = st.dictionaries(st.sampled_from("0123"), st.integers(0, 8), max_size=4)


def fits(needed: list[int], free: dict[str, int]) -> bool:
    """Whether any assignment places everything; all are tried."""
    for way in itertools.product(free, repeat=len(needed)):
        if all(sum(slots for slots, name in zip(needed, way, strict=True) if name == each) <= free[each] for each in free):
            return True
    return False


def machine(**types: dict[str, int]) -> ResourceGraph:
    """Instances with slots, by type, as a CTest file has them."""
    local = [{word: [{"id": name, "slots": slots} for name, slots in some.items()] for word, some in types.items()}]
    return fluxres.load(json.dumps({"version": {"major": 1, "minor": 0}, "local": local}).encode())


def given_to(graph: ResourceGraph, text: str, job: str = "t") -> list[dict[str, list[tuple[str, int]]]]:
    request = Request.parse(text, format="ctest")
    return ctest_groups.given(environment(request, graph.allocate(request, job=job)))


@settings(max_examples=300, deadline=None)
@given(NEEDED, FREE, st.sampled_from(["round-robin", "block"]))
def test_packing_is_found_if_and_only_if_there_is_one(needed: list[int], free: dict[str, int], strategy: Strategy) -> None:
    found = pack(needed, free, strategy)
    assert (found is not None) is fits(needed, free)
    if found is not None:
        for name, slots in free.items():
            assert sum(need for need, given_to in zip(needed, found, strict=True) if given_to == name) <= slots


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5), st.dictionaries(st.sampled_from("0123"), st.integers(0, 8), min_size=1)
)
def test_graph_is_packed_as_the_numbers_are(needed: list[int], free: dict[str, int]) -> None:
    graph = machine(gpus=free)
    request = Request.parse(";".join(f"gpus:{slots}" for slots in needed), format="ctest")
    expected = pack(needed, free)
    assert graph.satisfiable(request) is (expected is not None) is fits(needed, free)
    if expected is None:
        with pytest.raises(InfeasibleRequest):
            graph.allocate(request, job="t")
        return
    made = ctest_groups.given(environment(request, graph.allocate(request, job="t")))
    assert [each["gpus"] for each in made] == [[(name, slots)] for name, slots in zip(expected, needed, strict=True)]
    assert not graph.check()
    held: Counter[str] = Counter()
    for name, slots in zip(expected, needed, strict=True):
        held[name] += slots
    assert free_slots(graph) == {"node0": {"gpus": {name: slots - held[name] for name, slots in free.items()}}}
    again = ctest_groups.given(environment(request, graph.allocation("t")))  # from the records, which have no order
    assert Counter(name for each in again for name, slots in each["gpus"] for _ in range(slots)) == held


def test_round_robin_spreads_and_block_fills() -> None:
    free = dict.fromkeys("abcd", 4)
    assert pack([2] * 4, free) == ["a", "b", "c", "d"]
    assert pack([2] * 4, free, "block") == ["a", "a", "b", "b"]


def test_choice_is_undone_if_the_largest_first_would_fail() -> None:
    assert pack([3, 3, 2, 2, 2], {"a": 6, "b": 6}) == ["a", "a", "b", "b", "b"]


def test_undecided_searches_are_reported() -> None:
    # Even numbers take at most 100 of 101 slots, which totals do not show.
    needed = [10 + 2 * (number % 16) for number in range(40)]
    needed[0] += 1002 - sum(needed)
    assert needed[0] % 2 == 0
    with pytest.raises(LimitExceeded, match="undecided"):
        pack(needed, {str(number): 101 for number in range(10)})


def test_a_long_list_of_small_requirements_is_placed() -> None:
    found = pack([1] * 3000, {str(number): 30 for number in range(100)})
    assert found is not None
    assert {found.count(name) for name in set(found)} == {30}


def test_a_process_gets_all_its_types_or_nothing() -> None:
    graph = machine(gpus={"0": 2}, fpgas={"f": 1})
    with pytest.raises(InfeasibleRequest, match="room for only 1"):
        graph.allocate(Request.parse("2,gpus:1,fpgas:1", format="ctest"), job="t")
    assert not graph.jobs()
    with pytest.raises(InfeasibleRequest, match="fpgas"):
        machine(gpus={"0": 2}).allocate(Request.parse("gpus:1,fpgas:1", format="ctest"), job="t")
    assert given_to(machine(gpus={"0": 2}, fpgas={"f": 1, "g": 1}), "2,gpus:1,fpgas:1") == [
        {"fpgas": [("f", 1)], "gpus": [("0", 1)]},
        {"fpgas": [("g", 1)], "gpus": [("0", 1)]},
    ]
    with pytest.raises(LimitExceeded):
        machine(gpus={"0": 2}).allocate(Request.parse("1000000000,gpus:1", format="ctest"), job="t")


def test_refusal_names_what_is_requested_and_what_is_free() -> None:
    graph = machine(gpus={"0": 2, "1": 2, "2": 2})
    request = Request.parse("gpus:3;gpus:1", format="ctest")
    with pytest.raises(InfeasibleRequest, match=r"cannot be packed.*requested gpus: 3, 1; free on instances gpus: 2, 2, 2"):
        graph.allocate(request, job="t")
    graph.allocate(Request.parse("gpus:1", format="ctest"), job="a", duration_s=5)
    refused = graph.why_not(Request.parse("3,gpus:2", format="ctest"))
    assert refused is not None
    assert refused.earliest == 5.0
    with pytest.raises(InsufficientResources):
        graph.allocate(Request.parse("3,gpus:2", format="ctest"), job="b")


def test_two_words_for_one_type_share_its_instances() -> None:
    graph = machine(gpus={"0": 2, "1": 2}, cpus={"0": 1})
    assert given_to(graph, "gpus:2,gpu:1") == [{"gpus": [("0", 2)], "gpu": [("1", 1)]}]
    with pytest.raises(InsufficientResources, match=r"gpus: 1, 1; free on instances gpus: 1, 0"):
        graph.allocate(Request.parse("gpus:1,gpu:1", format="ctest"), job="more")
    with pytest.raises(InfeasibleRequest):
        graph.allocate(Request.parse("core:1,cpus:1", format="ctest"), job="cores")
    assert not graph.check()


def test_requirement_of_no_slots_names_an_instance() -> None:
    graph = machine(gpus={"0": 2, "1": 3})
    request = Request.parse("gpus:0;2", format="ctest")
    assert environment(request, graph.match(request)) == {
        "CTEST_RESOURCE_GROUP_COUNT": "3",
        "CTEST_RESOURCE_GROUP_0": "gpus",
        "CTEST_RESOURCE_GROUP_0_GPUS": "id:1,slots:0",
        "CTEST_RESOURCE_GROUP_1": "",
        "CTEST_RESOURCE_GROUP_2": "",
    }
    with pytest.raises(UsageError, match="only asks for shared pools"):
        graph.allocate(request, job="t")


def test_a_test_is_on_one_node() -> None:
    graph = fluxres.load("canary:nodes=2 gpus=1 cpus=1 slots_per_gpu=2")
    assert [pool.path for pool in graph.allocate(Request.parse("2,gpus:1", format="ctest"), job="a").pools] == [
        "/cluster/node0/gpu0"
    ]
    with pytest.raises(InfeasibleRequest):
        graph.allocate(Request.parse("2,gpus:2", format="ctest"), job="b")
    assert given_to(graph, "gpus:1", "c") == [{"gpus": [("0", 1)]}]
    assert graph.pool("/cluster/node1/gpu0").available() == 1


def test_file_of_what_a_job_holds() -> None:
    graph = fluxres.load("canary:gpus=4 cpus=8 slots_per_gpu=2")
    held = graph.allocate("slot=1/[gpu=3;core=2]", job="j")
    local = [
        {"gpus": [{"id": "0", "slots": 2}, {"id": "1", "slots": 1}], "cpus": [{"id": "0", "slots": 1}, {"id": "1", "slots": 1}]}
    ]
    assert json.loads(spec_file(held)) == {"version": {"major": 1, "minor": 0}, "local": local}
    assert spec_file(graph, "j") == spec_file(held)
    assert spec_environment("/x/spec.json") == {"CTEST_RESOURCE_SPEC_FILE": "/x/spec.json"}
    with pytest.raises(fluxres.UnknownJob):
        spec_file(graph, "k")
    with pytest.raises(UsageError, match="no request of CTest"):
        environment(Request.parse("gpus=1", format="canary"), held)
