"""A graph that several threads use at the same time: results are correct, and records stay consistent."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import fluxres
from fluxres import FluxresError, InsufficientResources, Resource, StaleHandle, build
from fluxres.model import ResourceGraph, resource_graph

THREADS = 8


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def machine(nodes: int = 8) -> ResourceGraph:
    return build(Resource("node", nodes, children=[Resource("core", 4), Resource("memory", size=64)]), name="demo")


def together(*work: Callable[[], None]) -> None:
    """Run these in parallel, and raise the first error."""
    wrong: list[BaseException] = []
    start = threading.Barrier(len(work))

    def run(one: Callable[[], None]) -> None:
        try:
            start.wait()
            one()
        except BaseException as error:  # noqa: BLE001  # raised again in the waiting thread
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    if wrong:
        raise wrong[0]


def test_no_unit_is_allocated_twice() -> None:
    g = machine()
    given: list[str] = []

    def take(name: str) -> Callable[[], None]:
        def run() -> None:
            for i in range(40):
                with suppress(InsufficientResources):
                    given.extend(pool.path for pool in g.allocate("slot=1/core", job=f"{name}.{i}").pools)

        return run

    together(*(take(f"t{k}") for k in range(THREADS)))
    assert len(given) == len(set(given)) == 32
    assert g.aggregate() == {"cluster": 1, "node": 8, "memory": 512}
    assert g.check() == []


@pytest.mark.parametrize("seed", range(3))
def test_threads_leave_the_records_consistent(seed: int) -> None:
    g = machine()
    g.add_edge("/demo", "/demo/node0", "power", capacity=100, hierarchy=True)

    def act(k: int) -> Callable[[], None]:
        source = random.Random(seed * 100 + k)

        def run() -> None:
            for i in range(60):
                with suppress(FluxresError):
                    one(source, f"t{k}.{i}")

        return run

    def one(source: random.Random, job: str) -> None:
        match source.randrange(12):
            case 0 | 1 | 2:
                g.allocate(source.choice(["slot=1/core", "slot=1/node", "slot=2/[core;memory=3]"]), job=job, duration_s=50)
            case 3:
                g.allocate_orelse_reserve("slot=2/core=2", job=job, duration_s=5)
            case 4 | 5:
                jobs = g.jobs()
                g.free(source.choice(jobs) if jobs else job)
            case 6:
                with g.stage("slot=1/core", job=job, duration_s=9) as stage:
                    if source.random() < 0.5:
                        stage.commit()
            case 7:
                found = g.find("type=core and available>=1")
                assert all(pool.type == "core" for pool in found)
            case 8:
                pool = g.pool(f"/demo/node{source.randrange(8)}/memory")
                assert 0 <= pool.available() <= pool.size == 64
                assert pool.allocated() >= 0
                assert pool.shared == []
            case 9:
                assert sum(g.aggregate(all=True).values()) <= 1 + 8 + 32 + 512
                g.set_state(f"/demo/node{source.randrange(8)}", source.choice(["up", "down"]))
            case 10:
                g.set_edge("/demo", "/demo/node0", "power", capacity=source.randint(1, 100))
            case _:
                assert g.copy().check() == []

    together(*(act(k) for k in range(THREADS)))
    assert g.check() == []
    for job in g.jobs():
        g.free(job)
    assert not g.records.held
    g.set_state("/demo", "up")
    g.set_state(g.find("type=node"), "up")
    assert g.aggregate() == {"cluster": 1, "node": 8, "core": 32, "memory": 512}


def test_change_of_the_shape_is_reported_to_other_threads() -> None:
    g = machine(2)
    done = threading.Event()

    def reshape() -> None:
        for i in range(30):
            g.merge(build(root=Resource("node", id=[9], children=[Resource("core", 2)])), at="/demo")
            g.move("/demo/node9", f"/demo/node1{i}")
            g.unlink(f"/demo/node1{i}")
        done.set()

    def look() -> None:
        while not done.is_set():
            with suppress(StaleHandle):
                for pool in g.find("type=core"):
                    assert (pool.type, pool.name[:4], pool.size) == ("core", "core", 1)
                    assert pool.path.startswith("/demo/node")
            with suppress(StaleHandle):
                assert next(iter(g.walk())).path == "/demo"

    together(reshape, look, look)
    assert g.aggregate() == {"cluster": 1, "node": 2, "core": 8, "memory": 128}


def test_calls_within_the_lock_are_atomic() -> None:
    g = machine()

    def run(name: str) -> Callable[[], None]:
        def act() -> None:
            for i in range(20):
                with g.lock:
                    found = g.match("slot=1/core", duration_s=10)
                    g.commit_match(found, job=f"{name}.{i}")  # StaleHandle if the graph had changed meanwhile
                    g.free(f"{name}.{i}")

        return act

    together(*(run(f"t{k}") for k in range(4)))
    assert g.jobs() == []


def test_merging_two_graphs_into_each_other_does_not_deadlock() -> None:
    a, b = machine(2), machine(2)

    def into(one: ResourceGraph, other: ResourceGraph) -> Callable[[], None]:
        def act() -> None:
            for _ in range(20):
                with suppress(FluxresError):
                    one.merge(other, at="/demo/part")
                    one.unlink("/demo/part")

        return act

    together(into(a, b), into(b, a))
    assert a.check() == b.check() == []


def test_saved_graph_is_one_consistent_state(tmp_path: Path) -> None:
    g = machine()
    done = threading.Event()

    def change() -> None:
        for i in range(80):
            g.allocate(["/demo/node0/core0", "/demo/node1/core1"], job=f"j{i}")
            g.free(f"j{i}")
        done.set()

    def save() -> None:
        while not done.is_set():
            held = fluxres.loads(fluxres.dumps(g)).allocated()
            assert len(held) in (0, 2)

    together(change, save)


def test_every_public_change_and_query_holds_the_lock() -> None:
    """Of those without the decorator, frequent ones take the lock themselves, and others do not read records or planner."""
    reads = "clock containment now open_window plan pool root select span subsystem subsystems units vertex walk window"
    inner = "merge new_stage_id restructure withdraw_views"
    by_themselves = (
        "adopt allocate apply batch close commit commit_match diff allocate_orelse_reserve free grow log match redo refresh "
        "release stage undo show to_arrow to_pandas to_polars"
    )
    kind = resource_graph.ResourceGraph
    names = {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}
    unlocked = {name for name in names if not hasattr(getattr(kind, name), "__wrapped__")}
    assert unlocked <= {*reads.split(), *inner.split(), *by_themselves.split()}
