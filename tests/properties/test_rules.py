"""The rules of specs/rules.md, one example each, small enough to follow by eye.

The machine: a cluster of two racks, a rack of two nodes, a node of two cores and a pool of 4 GiB memory; a pdu outside the tree
supplies the nodes of rack0.  `tests/test_rules.py` tests the same on random machines, `test_machine.py` in random histories.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import fluxres
from fluxres import InfeasibleRequest, InsufficientResources, MergeConflict, NotHeld, ResourceGraph, Span, StillHeld, UsageError
from tests.strategies import Edge, Machine, Spec

NODE, OTHER = "/c/rack0/node0", "/c/rack0/node1"
MEMORY = f"{NODE}/memory0"


def node(number: int) -> Spec:
    cores = [Spec("core", i, f"core{i}") for i in range(2)]
    return Spec("node", number, f"node{number}", children=[*cores, Spec("memory", 0, "memory0", size=4, unit="GiB")])


@pytest.fixture
def graph() -> ResourceGraph:
    racks = [Spec("rack", i, f"rack{i}", children=[node(0), node(1)]) for i in range(2)]
    root = Spec("c", None, "c", children=racks)
    feeds = [Edge("power:/pdu0", f"/c/rack0/node{i}", "supplies", 350.0) for i in range(2)]
    return ResourceGraph(Machine(root, [Spec("pdu", 0, "pdu0", size=2)], feeds).structure())


def state(graph: ResourceGraph) -> list[object]:
    """Everything that a job or a query could observe."""
    return [
        (
            pool.where,
            pool.uuid,
            pool.size,
            pool.state,
            dict(pool.tags),
            pool.shared,
            pool.holder,
            pool.allocations(0),
            pool.reservations(0),
        )
        for pool in graph.find("size>=1")
    ]


def test_rule_a1_units_of_all_jobs_stay_within_the_size(graph: ResourceGraph) -> None:
    graph.allocate([(MEMORY, 2)], job="j1", start=0, end=10)
    graph.allocate([(MEMORY, 2)], job="j2", start=5, end=15)
    before = state(graph)
    for start, end in ((0, 10), (9, 10), (4, 6), (0, None)):
        with pytest.raises(InsufficientResources) as refused:
            graph.allocate([(MEMORY, 3)], job="j3", start=start, end=end)
        assert refused.value.earliest in (10.0, 15.0)
    with pytest.raises(InfeasibleRequest):
        graph.allocate([(MEMORY, 5)], job="j3")
    assert state(graph) == before
    graph.allocate([(MEMORY, 2)], job="j3", start=10, end=20)
    assert [graph.pool(MEMORY).allocated(at=t) for t in (0, 5, 10, 15, 20)] == [2, 4, 4, 2, 0]
    assert [problem for problem in graph.check() if problem.severity == "error"] == []


def test_rule_a2_unit_belongs_to_one_job(graph: ResourceGraph) -> None:
    graph.allocate(NODE, job="j1", start=0, end=10)
    for taken in (NODE, f"{NODE}/core0", (MEMORY, 1)):
        with pytest.raises(InsufficientResources):
            graph.allocate([taken], job="j2", start=9, end=11)
    graph.allocate([NODE], job="j2", start=10, end=20)
    assert [graph.pool(f"{NODE}/core0").allocated(at=t) for t in (9, 10)] == [1, 1]
    assert [s.job for s in graph.pool(NODE).allocations(0) + graph.pool(NODE).reservations(0)] == ["j1", "j2"]


def test_rule_a3_all_units_are_exclusive_and_fewer_are_not(graph: ResourceGraph) -> None:
    graph.allocate(f"{OTHER}/core0", job="j2")
    with pytest.raises(InsufficientResources) as refused:
        graph.allocate("/c/rack0", job="j1")
    assert refused.value.reasons == {f"{OTHER}/core0": "j2"}
    graph.allocate([(MEMORY, 3)], job="j1")
    assert not graph.pool(MEMORY).exclusive
    graph.allocate([(MEMORY, 1)], job="j1")
    assert graph.pool(MEMORY).exclusive
    assert graph.pool(MEMORY).holder == "j1"
    graph.allocate(NODE, job="j1")
    assert graph.pool(NODE).shared == []
    assert graph.pool("/c/rack0").shared == ["j1", "j2"]


def test_rule_a4_shared_lists_jobs_below_while_they_hold(graph: ResourceGraph) -> None:
    graph.allocate({f"{NODE}/core0": 1, MEMORY: 2}, job="j1", start=0, end=10)
    rack = graph.pool("/c/rack0")
    assert [rack.shared_by(at=t) for t in (0, 9, 10)] == [["j1"], ["j1"], []]
    graph.free("j1", f"{NODE}/core0")
    assert rack.shared == ["j1"]
    graph.free("j1", MEMORY)
    assert rack.shared == []
    assert graph.pool("/c").shared == []


def test_rule_a5_exclusive_pool_has_no_records_below_and_implies_everything(graph: ResourceGraph) -> None:
    graph.allocate(f"{NODE}/core0", job="j1", start=0, end=20)
    graph.allocate(NODE, job="j1", start=5, end=10)
    core = graph.pool(f"{NODE}/core0")
    # Absorbed for the window of the exclusive pool, and only for it.
    assert core.allocations(0, 20) + core.reservations(0, 20) == [Span("j1", 1, 0, 5), Span("j1", 1, 10, 20)]
    below = graph.pool(f"{NODE}/core1")
    assert [(below.available(at=t), below.allocated(at=t)) for t in (4, 5, 9, 10)] == [(1, 0), (0, 1), (0, 1), (1, 0)]
    assert graph.aggregate(NODE, at=7) == {}
    with pytest.raises(NotHeld) as refused:
        graph.free("j1", f"{NODE}/core1")
    assert NODE in refused.value.hint
    with pytest.raises(UsageError):
        graph.allocate([OTHER, f"{OTHER}/core0"], job="j1")


def test_rule_a6_free_is_the_inverse_and_all_or_nothing(graph: ResourceGraph) -> None:
    graph.allocate({MEMORY: 1, "/c/rack1": 1}, job="j1", start=0, end=10)
    before = state(graph)
    graph.allocate({MEMORY: 2, f"{NODE}/core0": 1}, job="j1", start=2, end=8)
    graph.free("j1", {MEMORY: 2, f"{NODE}/core0": 1}, start=2, end=8)
    assert state(graph) == before
    # One pool of the set is not held: none is freed.
    for wrong in ({MEMORY: 1, OTHER: 1}, {MEMORY: 2}, {"/c/rack1/node0": 1}):
        with pytest.raises(NotHeld):
            graph.free("j1", wrong)
    with pytest.raises(NotHeld):
        graph.free("j1", {MEMORY: 1}, start=5, end=11)
    assert state(graph) == before
    graph.free("j1")
    assert graph.jobs() == []
    assert graph.aggregate("/c") == {"c": 1, "rack": 2, "node": 4, "core": 8, "memory": 16}


@pytest.mark.parametrize("barred", ["down", "drain", "failing", "unknown"])
def test_rule_a7_unavailable_pools_are_not_allocated_and_not_taken_away(graph: ResourceGraph, barred: str) -> None:
    graph.allocate(f"{NODE}/core0", job="j1")
    graph.set_state("/c/rack0", barred)
    for wanted in ("/c/rack0", OTHER, f"{NODE}/core1"):
        with pytest.raises(InsufficientResources):
            graph.allocate(wanted, job="j2", start=100, end=200)
    assert graph.aggregate("/c") == {"c": 1, "rack": 1, "node": 2, "core": 4, "memory": 8}
    assert [pool.where for pool in graph.allocated("j1")] == [f"{NODE}/core0"]
    graph.free("j1")
    graph.set_state("/c/rack0", "degraded")
    graph.allocate("/c/rack0", job="j2")


def test_rule_c1_copy_has_what_is_available(graph: ResourceGraph) -> None:
    graph.allocate({MEMORY: 1, f"{NODE}/core0": 1}, job="j1")
    graph.allocate(OTHER, job="j2")
    graph.set_state("/c/rack1", "down")
    copy = graph.copy("/c/rack0")
    assert [(pool.where, pool.size) for pool in copy.walk("/")] == [
        ("/c", 1), ("/c/rack0", 1), (NODE, 1), (f"{NODE}/core1", 1), (MEMORY, 3),
    ]  # fmt: skip
    assert copy.jobs() == []
    assert copy.pool(MEMORY).uuid == graph.pool(MEMORY).uuid
    # The pdu stays for the node that it still supplies.
    assert copy.pool(NODE).uris == ["c:/rack0/node0", "power:/pdu0/node0"]
    copy.allocate("/c/rack0", job="child")
    copy.tag("/c", "seen")
    assert graph.jobs() == ["j1", "j2"]
    assert dict(graph.root.tags) == {}
    with pytest.raises(InsufficientResources):
        graph.copy("/c/rack1")


def test_rule_c1_duplicate_has_everything(graph: ResourceGraph) -> None:
    graph.allocate({MEMORY: 1, OTHER: 1}, job="j1", start=3, end=9)
    before = state(graph)
    other = graph.duplicate()
    assert state(other) == before
    other.free("j1")
    other.unlink("/c/rack1")
    assert state(graph) == before


def test_rule_m1_unlink_undoes_merge_and_merge_unlink(graph: ResourceGraph) -> None:
    graph.allocate("/c/rack1/node1", job="j1")
    before = state(graph)
    rack = graph.copy("/c/rack0")
    graph.unlink("/c/rack0")
    assert graph.aggregate("/c") == {"c": 1, "rack": 1, "node": 1, "core": 2, "memory": 4}
    graph.merge(rack)
    assert sorted(state(graph), key=str) == sorted(before, key=str)
    assert [problem for problem in graph.check() if problem.severity == "error"] == []
    with pytest.raises(StillHeld):
        graph.unlink("/c/rack1")
    # Merging the same again would invent units.
    with pytest.raises(MergeConflict):
        graph.merge(rack)
    assert sorted(state(graph), key=str) == sorted(before, key=str)


def test_rule_m1_copies_of_parts_of_one_pool_add_up(graph: ResourceGraph) -> None:
    graph.allocate({MEMORY: 1, f"{NODE}/core0": 1}, job="j1")
    graph.allocate({MEMORY: 2}, job="j2")
    grown = graph.copy(job="j1")
    grown.merge(graph.copy(job="j2"))
    assert grown.pool(MEMORY).size == 3
    assert grown.find("type=core").paths() == [f"{NODE}/core0"]


@pytest.mark.parametrize("place", ["site.yaml", "sqlite:///site.db"])
def test_rule_s1_saved_graph_is_loaded_equal(
    graph: ResourceGraph, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph.allocate({MEMORY: 1, OTHER: 1}, job="j1", start=3, end=9)
    graph.allocate({"power:/pdu0": 1}, job="j2")
    graph.set_state("/c/rack1", "drain")
    graph.tag(NODE, "maintenance", "2026-12-01")
    assert fluxres.save(graph, place).left_out == []
    loaded = fluxres.load(place, clock=fluxres.clock.fixed(0.0))
    assert state(loaded) == state(graph)
    assert loaded.pool("/c/rack0/node1").uris == ["c:/rack0/node1", "power:/pdu0/node1"]
    assert loaded.pool("power:/pdu0").allocations() == [Span("j2", 1, 0, math.inf)]
    assert [problem for problem in loaded.check() if problem.severity == "error"] == []
