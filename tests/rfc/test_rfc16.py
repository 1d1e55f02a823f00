"""RFC 16, requirement by requirement; specs/rfc16.md lists the ids."""

from __future__ import annotations

import math
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import fluxres
from fluxres import FluxresError, InsufficientResources, NotHeld, ResourceGraph, StaleHandle, UnknownJob, UsageError, clock
from tests.rfc.facts import facts, paths, records
from tests.traceability import ROOT

# -- goals, background, annotation -----------------------------------------------------------------------------------------


def command(store: Path, *args: str) -> str:
    """The output of `fluxres ARGS`, with a separate store."""
    start = "import sys; from fluxres.cli.main import main; sys.exit(main())"
    words = [sys.executable, "-c", start, *args, "--store", f"sqlite:///{store}"]
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT).stdout


@pytest.mark.rfc("RFC16-01")
def test_library_and_commands_on_a_store_are_equivalent(g: ResourceGraph, tmp_path: Path) -> None:
    source, store = tmp_path / "demo.yaml", tmp_path / "store.db"
    fluxres.save(g, str(source))
    command(store, "load", str(source))
    command(store, "allocate", "/demo/rack0/node0", "--job", "j1")
    g.allocate([("/demo/rack0/node0", 1)], job="j1")
    by_command = fluxres.load(f"sqlite:///{store}")
    assert paths(by_command) == paths(g)
    assert [record[:3] for record in records(by_command)] == [record[:3] for record in records(g)]
    assert "node0" in command(store, "jobs", "j1")
    command(store, "free", "j1")
    assert fluxres.load(f"sqlite:///{store}").jobs() == []


@pytest.mark.rfc("RFC16-02")
def test_power_and_bandwidth_are_scheduled_like_cores(g: ResourceGraph) -> None:
    g.allocate({"power:/pdu0": 900, "/demo/burstbuffer": 8}, job="j1")
    assert (g.pool("power:/pdu0").available(), g.pool("/demo/burstbuffer").available()) == (4100, 0)
    with pytest.raises(InsufficientResources):
        g.allocate({"power:/pdu0": 4101}, job="j2")


@pytest.mark.rfc("RFC16-03")
def test_methods_cover_the_life_of_a_job(g: ResourceGraph) -> None:
    before = facts(g), records(g), g.aggregate()
    wanted = [pool for pool in g.find("type=core and available>=1") if pool.path.startswith("/demo/rack1")][:3]
    g.allocate(wanted, job="j1", start=0, end=3600)
    g.grow("j1", [("/demo/rack1/node3/memory", 8)])
    g.shrink("j1", wanted[:1])
    assert [span.amount for span in g.allocation("j1").spans] == [1, 1, 8]
    g.free("j1")
    assert (facts(g), records(g), g.aggregate()) == before


@pytest.mark.rfc("RFC16-04", "RFC16-17")
def test_pools_above_an_allocated_one_are_annotated(g: ResourceGraph) -> None:
    g.allocate({"/demo/rack0/node0/core0": 1, "/demo/rack0/node1/memory": 4}, job="a")
    g.allocate([("/demo/rack0/node1/core3", 1)], job="b")
    annotated = {
        where: g.pool(where).shared for where in ("/demo", "/demo/rack0", "/demo/rack0/node0", "/demo/rack0/node1", "/demo/rack1")
    }
    assert annotated == {
        "/demo": ["a", "b"],
        "/demo/rack0": ["a", "b"],
        "/demo/rack0/node0": ["a"],
        "/demo/rack0/node1": ["a", "b"],
        "/demo/rack1": [],
    }
    assert g.find("type=node and not shared").paths() == ["/demo/rack1/node2", "/demo/rack1/node3"]


# -- data and rules ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC16-05", "RFC16-06")
def test_jobs_share_a_pool_unit_by_unit(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    for number in range(64):
        memory.allocate(1, job=f"j{number}")
    assert (memory.allocated(), len(memory.allocations())) == (64, 64)
    with pytest.raises(InsufficientResources):
        memory.allocate(1, job="one-more")


@pytest.mark.rfc("RFC16-07")
def test_no_unit_is_held_by_two_jobs(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0/core0", 1)], job="a")
    for where in ("/demo/rack0/node0/core0", "/demo/rack0/node0", "/demo/rack0", "/demo"):
        with pytest.raises(InsufficientResources):
            g.allocate([(where, 1)], job="b")
    assert g.jobs() == ["a"]


@pytest.mark.rfc("RFC16-08")
def test_units_of_all_jobs_do_not_exceed_the_size(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(40, job="a", start=0, end=100)
    memory.allocate(40, job="b", start=100, end=200)
    with pytest.raises(InsufficientResources):
        memory.allocate(25, job="c", start=50, end=150)
    memory.allocate(24, job="c", start=50, end=150)
    assert [memory.allocated(at=at) for at in (0, 50, 100, 150)] == [40, 64, 64, 40]


@pytest.mark.rfc("RFC16-09")
def test_the_number_of_units_is_recorded_with_the_pool(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    memory.allocate(10, job="a")
    memory.allocate(20, job="b")
    assert sorted((span.job, span.amount) for span in memory.allocations()) == [("a", 10), ("b", 20)]


@pytest.mark.rfc("RFC16-10")
def test_all_units_held_by_one_job_are_exclusive_and_by_two_jobs_are_not(g: ResourceGraph) -> None:
    mine, ours = g.pool("/demo/rack0/node0/memory"), g.pool("/demo/rack0/node1/memory")
    mine.allocate(64, job="a")
    ours.allocate(32, job="a")
    ours.allocate(32, job="b")
    assert [(pool.available(), pool.exclusive) for pool in (mine, ours)] == [(0, True), (0, False)]
    assert g.find("type=memory and exclusive").paths() == [mine.path]


@pytest.mark.rfc("RFC16-11", "RFC16-12")
def test_exclusive_flag_is_stored_with_the_pool(g: ResourceGraph, tmp_path: Path) -> None:
    fluxres.save(g, str(tmp_path / "demo.yaml"))
    for graph in (g, g.duplicate(), fluxres.load(str(tmp_path / "demo.yaml"))):
        with pytest.raises(FluxresError):
            graph.allocate([("/demo/burstbuffer", 4)], job="a")
        graph.allocate([("/demo/rack0/node0/memory", 4)], job="a")
        graph.allocate([("/demo/rack0/node0/memory", 4)], job="b")
        assert graph.jobs() == ["a", "b"]


@pytest.mark.rfc("RFC16-13")
def test_allocations_are_an_array_over_time(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    for hour in range(3):
        memory.allocate(10 * (hour + 1), job=f"j{hour}", start=3600 * hour, end=3600 * (hour + 1))
    spans = [*memory.allocations(), *memory.reservations()]
    assert [(span.job, span.amount, span.start) for span in spans] == [("j0", 10, 0.0), ("j1", 20, 3600.0), ("j2", 30, 7200.0)]


@pytest.mark.rfc("RFC16-14")
def test_without_planning_ahead_the_array_has_one_element(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    for amount in (4, 4, 8):
        memory.allocate(amount, job="j1")
    assert [(span.amount, span.end) for span in memory.allocations()] == [(16, float("inf"))]
    assert memory.reservations() == []


@pytest.mark.rfc("RFC16-15", "RFC16-16")
def test_children_of_an_exclusive_pool_are_implied_without_records(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0", 1)], job="j1", start=0, end=100)
    core = g.pool("/demo/rack0/node0/core0")
    assert (core.allocated(at=50), core.available(at=50), core.available(at=100)) == (1, 0, 1)
    assert core.allocations() == []
    with pytest.raises(NotHeld, match="/demo/rack0/node0"):
        core.free("j1")


@pytest.mark.rfc("RFC16-18")
def test_annotation_is_read_from_the_pool_and_ends_with_the_allocation(g: ResourceGraph) -> None:
    rack = g.pool("/demo/rack0")
    g.allocate({"/demo/rack0/node0/core0": 1, "/demo/rack0/node0/core1": 1}, job="j1")
    g.free("j1", [("/demo/rack0/node0/core0", 1)])
    assert rack.shared == ["j1"]
    g.free("j1", [("/demo/rack0/node0/core1", 1)])
    assert rack.shared == []


# -- load and save ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC16-19")
def test_resources_are_loaded_from_a_configuration_file_and_a_database(tmp_path: Path) -> None:
    from_file = fluxres.load(str(ROOT / "data" / "clusters" / "demo.yaml"))
    assert (from_file.root.type, len(from_file.find("type=node")) > 0) == ("cluster", True)
    fluxres.save(from_file, f"sqlite:///{tmp_path / 'site.db'}")
    assert facts(fluxres.load(f"sqlite:///{tmp_path / 'site.db'}")) == facts(from_file)


@pytest.mark.rfc("RFC16-20")
def test_resources_are_saved_to_a_file_to_a_database_and_for_a_child(g: ResourceGraph, tmp_path: Path) -> None:
    g.allocate([("/demo/rack0", 1)], job="j1", start=0, end=3600)
    for dest in (str(tmp_path / "out.yaml"), f"sqlite:///{tmp_path / 'out.db'}"):
        fluxres.save(g, dest)
        back = fluxres.load(dest)
        assert (facts(back), records(back)) == (facts(g), records(g)), dest
    child = g.copy(job="j1")
    fluxres.save(child, str(tmp_path / "child.yaml"))
    assert facts(fluxres.load(str(tmp_path / "child.yaml"))) == facts(child)


def change(g: ResourceGraph) -> None:
    g.allocate({"/demo/rack0/node0": 1, "/demo/rack1/node2/memory": 8}, job="j1", start=0, end=100)
    g.pool("/demo/rack1/node3").state = "drain"
    g.pool("/demo/rack0").tag("row", "B")


@pytest.mark.rfc("RFC16-21")
def test_changes_in_a_file_after_a_save_equal_a_full_save(g: ResourceGraph, tmp_path: Path) -> None:
    base, changes, full = (str(tmp_path / name) for name in ("base.yaml", "changes.jsonl", "full.yaml"))
    fluxres.save(g, base)
    change(g)
    assert fluxres.save(g, changes, changed_only=True).events == 3
    fluxres.save(g, full)
    applied, whole = fluxres.load(base, changes=changes), fluxres.load(full)
    assert (facts(applied), records(applied)) == (facts(whole), records(whole)) == (facts(g), records(g))


@pytest.mark.rfc("RFC16-21")
def test_changes_in_a_database_after_a_save_equal_a_full_save(g: ResourceGraph, tmp_path: Path) -> None:
    kept, full = (f"sqlite:///{tmp_path / name}" for name in ("kept.db", "full.db"))
    fluxres.save(g, kept)
    change(g)
    assert fluxres.save(g, kept, changed_only=True).events == 3
    fluxres.save(g, full)
    applied, whole = fluxres.load(kept), fluxres.load(full)
    assert (facts(applied), records(applied)) == (facts(whole), records(whole)) == (facts(g), records(g))


@pytest.mark.rfc("RFC16-22")
def test_destroy_frees_the_memory(g: ResourceGraph) -> None:
    g.allocate("slot=2/[core=2;gpu]", job="j1").R()
    part = g.copy("/demo/rack0")
    kept = [weakref.ref(held) for held in (g.structure, g.structure.size, g.records, g.planner, g.matcher)]
    g.destroy()
    assert [held() for held in kept] == [None] * 5
    assert part.aggregate("/demo/rack0")["core"] == 4
    with pytest.raises(StaleHandle):
        g.pool("/demo")


# -- find ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC16-23")
def test_find_returns_everything_that_matches(g: ResourceGraph) -> None:
    found = g.find("type=core and id>=2")
    assert found.paths() == [path for path in paths(g) if path.endswith(("core2", "core3"))]
    assert len(found) == 8


@pytest.mark.rfc("RFC16-24")
def test_find_is_walker_and_match(g: ResourceGraph) -> None:
    g.allocate([("/demo/rack0/node0/memory", 60)], job="j1")
    walked = [pool.path for pool in g.walk() if pool.type == "memory" and pool.available() >= 8]
    assert g.find("type=memory and available>=8").paths() == walked
    assert len(walked) == 3


# -- records ----------------------------------------------------------------------------------------------------


@pytest.mark.rfc("RFC16-25")
def test_pool_or_set_is_allocated_completely_or_not_at_all(g: ResourceGraph) -> None:
    g.allocate("/demo/rack0/node0/core0", job="one")
    g.allocate(g.find("type=core and under=/demo/rack1"), job="set")
    assert [len(g.allocated(job)) for job in ("one", "set")] == [1, 8]
    with pytest.raises(InsufficientResources):
        g.allocate(["/demo/rack0/node0/core1", "/demo/rack0/node0/core0"], job="none")
    with pytest.raises(UnknownJob):
        g.allocated("none")
    assert g.pool("/demo/rack0/node0/core1").available() == 1


@pytest.mark.rfc("RFC16-26")
def test_allocation_is_recorded_by_the_rules(g: ResourceGraph) -> None:
    given = g.allocate({"/demo/rack0": 1, "/demo/rack1/node2/memory": 16}, job="j1", start=0, end=60)
    assert [(span.job, span.amount, span.start, span.end) for span in given.spans] == [
        ("j1", 1, 0.0, 60.0),
        ("j1", 16, 0.0, 60.0),
    ]
    assert g.pool("/demo/rack0").exclusive
    assert g.pool("/demo/rack1").shared == ["j1"]
    assert g.check() == []


@pytest.mark.rfc("RFC16-27")
def test_future_allocations_have_a_start_and_an_end(g: ResourceGraph) -> None:
    given = g.allocate("/demo/rack0/node0", job="j1", start=100, end=200)
    assert (given.start, given.end) == (100.0, 200.0)
    assert [(span.start, span.end) for span in g.pool("/demo/rack0/node0").reservations()] == [(100.0, 200.0)]
    for start, end in ((200, 100), (100, 100), (100, None)):
        with pytest.raises(UsageError):
            g.allocate("/demo/rack0/node1", job="j1", start=start, end=end)
        with pytest.raises(UsageError):
            g.allocate("slot=1/node", job="j1", start=start, end=end)
    assert g.allocated("j1").paths() == ["/demo/rack0/node0"]
    assert g.allocate("/demo/rack0/node1", job="j1").end == math.inf


@pytest.mark.rfc("RFC16-28")
def test_an_allocation_grows_and_shrinks(g: ResourceGraph) -> None:
    memory = g.pool("/demo/rack0/node0/memory")
    g.allocate([(memory, 8)], job="j1", start=0, end=100)
    g.grow("j1", [(memory, 8), ("/demo/rack0/node0/core0", 1)])
    assert (memory.allocated(at=50), memory.allocated(at=100)) == (16, 0)
    g.shrink("j1", [(memory, 12)])
    assert memory.allocated() == 4
    assert g.allocated("j1").paths() == ["/demo/rack0/node0/core0", "/demo/rack0/node0/memory"]


@pytest.mark.rfc("RFC16-M1")
def test_an_allocation_is_extended_and_shortened(g: ResourceGraph) -> None:
    g.allocate(["/demo/rack0/node0", ("/demo/rack0/node1/memory", 8)], job="j1", end=100)
    g.allocate("/demo/rack0/node1", job="j2", start=200, end=300)
    assert {(span.start, span.end) for span in g.set_end("j1", 150).spans} == {(0, 150)}
    with pytest.raises(InsufficientResources, match=r"j2.*free until 200 s"):
        g.set_end("j1", 201)
    assert g.set_end("j1", duration_s=200).end == 200
    assert {(span.start, span.end) for span in g.set_end("j1", 50).spans} == {(0, 50)}
    assert g.pool("/demo/rack0/node0").available(at=50) == 1
    assert g.check() == []


@pytest.mark.rfc("RFC16-29")
def test_records_of_one_pool_or_of_all_are_removed(g: ResourceGraph) -> None:
    before = g.aggregate()
    g.allocate(["/demo/rack0/node0", "/demo/rack0/node1", "/demo/rack1/node2/core0"], job="j1")
    g.free("j1", "/demo/rack0/node1")
    assert g.allocated("j1").paths() == ["/demo/rack0/node0", "/demo/rack1/node2/core0"]
    g.free("j1")
    assert (g.jobs(), g.aggregate(), g.check()) == ([], before, [])


@pytest.mark.rfc("RFC16-29", "RFC16-30")
def test_expired_pools_are_unheld_before_and_after_their_record_is_removed(g: ResourceGraph) -> None:
    g.allocate(["/demo/rack0/node0", "/demo/rack0/node1/core0"], job="j1", end=100)
    g.allocate("slot=2/core", job="j2", duration_s=100)
    g.allocate("/demo/rack1/node2", job="j3", end=100)
    g.allocate("/demo/rack1/node3", job="j3", start=150, end=200)
    g.clock = clock.fixed(100.0)
    revision = g.revision
    assert (g.jobs(), g.allocated().paths(), g.allocated("j1").paths()) == (["j3"], ["/demo/rack1/node3"], [])
    assert repr(g) == "<ResourceGraph demo: 34 pools, 1 job>"
    assert len(g.available()) == len(g)
    assert (g.allocation("j1").end, g.revision) == (100.0, revision)
    assert g.expire() == ["j1", "j2", "j3"]
    assert (g.jobs(), g.allocated().paths()) == (["j3"], ["/demo/rack1/node3"])
    with pytest.raises(UnknownJob):
        g.allocated("j1")


@pytest.mark.rfc("RFC16-30")
def test_pools_allocated_to_a_job_and_to_all_jobs(g: ResourceGraph) -> None:
    g.allocate("/demo/rack0/node0", job="a")
    g.allocate([("/demo/rack1/node2/memory", 1)], job="b")
    assert g.allocated("a").paths() == ["/demo/rack0/node0"]
    assert g.allocated().paths() == ["/demo/rack0/node0", "/demo/rack1/node2/memory"]
    with pytest.raises(UnknownJob):
        g.allocated("c")


@pytest.mark.rfc("RFC16-31")
def test_available_pools(g: ResourceGraph) -> None:
    g.allocate("/demo/rack0", job="a", start=0, end=100)
    g.allocate([("/demo/rack1/node2/core0", 1)], job="b")
    free = set(g.available().paths())
    assert not any(path.startswith("/demo/rack0") for path in free)
    assert "/demo/rack1/node2/core0" not in free
    assert {"/demo/rack1/node2/core1", "/demo/rack1/node2/memory", "/demo/rack1/node3"} <= free
    assert "/demo/rack0/node0/core0" in g.available(at=100).paths()
    assert "/demo/rack0/node0/core0" not in g.available(at=50, duration_s=100).paths()
