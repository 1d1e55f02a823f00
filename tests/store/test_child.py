"""A child works on what a job of its parent holds, under a lease, in the store of the parent (rule N1)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres import limits
from fluxres.errors import (
    FluxresError,
    HoldLapsed,
    InsufficientResources,
    NotHeld,
    StillHeld,
    StoreBusy,
    StoreError,
    UnknownJob,
    UsageError,
)
from fluxres.instance import Instance
from fluxres.store import Held, Store, open_store, upkeep, writing
from fluxres.store.child import Child, open_child
from fluxres.store.rows import Rows
from tests.store.graphs import machine
from tests.store.test_claims import Moving, changed

NODES = [f"/demo/rack{i // 3}/node{i}" for i in range(6)]


@pytest.fixture
def clock() -> Moving:
    return Moving()


@pytest.fixture
def site(url: str, clock: Moving) -> Store:
    """`demo` with a job `a` on two nodes until 1,000 s."""
    return made(url, clock)


@pytest.fixture
def local(tmp_path: Path, clock: Moving) -> Store:
    """The same in a file."""
    return made(f"sqlite://{tmp_path}/site.db", clock)


def made(url: str, clock: Moving) -> Store:
    store = open_store(url, clock=clock)
    store.put("demo", machine())
    with changed(store, "demo") as demo:
        demo.allocate(NODES[:2], job="a", end=1000)
    return store


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(store: Store, cleanup: ExitStack, job: str = "a", **how: Any) -> Child:
    child = open_child(store.url, clock=store.clock, **{"graph": "demo", "job": job, "lease_s": 60, **how})

    def end() -> None:
        with suppress(FluxresError):
            child.end()

    cleanup.callback(end)
    return child


def paths(store: Store, graph: str, job: str) -> list[str]:
    """What a job holds in the store."""
    found = store.load(graph)
    return found.allocated(job).paths() if job in found.jobs() else []


def require_over(child: Child) -> None:
    """It acknowledges nothing."""
    for attempt in (
        lambda: child.graph.allocate("slot/core", job="late"),
        *(lambda job=job: child.graph.free(job) for job in child.graph.jobs()),
        lambda: child.graph.tag("/demo", "late"),
        lambda: child.grow("slot/node"),
        lambda: child.shrink(NODES[0]),
        lambda: child.extend(duration_s=5000),
        child.refresh,
        child.renew,
    ):
        with pytest.raises((HoldLapsed, InsufficientResources)) as caught:
            attempt()
        assert caught.type is HoldLapsed or "late" not in child.graph.jobs()
    assert child.is_over


def test_a_child_loads_grows_shrinks_extends_and_ends(site: Store, cleanup: ExitStack) -> None:
    child = begun(site, cleanup)
    assert (child.name, child.parent, child.job) == ("demo.a", "demo", "a")
    child.graph.allocate(NODES[0], job="x")
    assert paths(site, "demo.a", "x") == NODES[:1]  # saved under its own name

    assert child.grow("slot/node") == NODES[2:3]
    assert paths(site, "demo", "a") == NODES[:3]
    child.graph.allocate(NODES[2], job="y")

    assert child.shrink(NODES[1]) == NODES[1:2]
    assert paths(site, "demo", "a") == [NODES[0], NODES[2]]
    assert child.graph.find("type=node").paths() == [NODES[0], NODES[2]]
    assert child.graph.jobs() == ["x", "y"]

    assert child.extend(2000) == 2000
    assert {span.end for span in site.load("demo").allocation("a").spans} == {2000}
    assert (standing := site.standings()["demo.a"]).lapsed is None
    assert (standing.graph, standing.job, standing.until) == ("demo", "a", 60)
    assert upkeep.check(site)[1] == []

    child.end()
    assert (site.names(), site.load("demo").jobs()) == (["demo"], [])
    with pytest.raises(UsageError, match="was closed"):
        child.graph.allocate("slot/core", job="late")
    for late in (lambda: child.grow("slot/core"), child.refresh, child.renew):
        with pytest.raises(HoldLapsed, match=r"it has ended \(start again\)"):
            late()


def test_a_child_gets_its_first_resources(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup, "b", wanted="slot=2/node", duration_s=50, name="part")
    assert paths(local, "demo", "b") == NODES[2:4] == child.graph.find("type=node").paths()
    assert {span.end for span in local.load("demo").allocation("b").spans} == {50}
    for wrong, error in (({"job": "c"}, UnknownJob), ({"job": "c", "wanted": "slot=5/node"}, InsufficientResources)):
        with pytest.raises(error):
            begun(local, cleanup, **wrong)  # type: ignore[arg-type]  # the job among the rest
    assert local.names() == ["demo", "part"]
    with pytest.raises(UsageError, match="'demo' already exists"):
        begun(local, cleanup, "c", wanted="slot/node", name="demo")
    assert "c" not in local.load("demo").jobs()


def test_bounds_of_a_lease(local: Store, cleanup: ExitStack) -> None:
    for life_s in (limits.CHILD_LEASE_SECONDS_MIN / 2, limits.CHILD_LEASE_SECONDS_MAX * 2, "3"):
        with pytest.raises(UsageError, match=r"lease_s: expected 0\.5 to 86400 seconds"):
            begun(local, cleanup, lease_s=life_s)
    before = local.clock()
    with open_child(local.url, clock=local.clock, graph="demo", job="a") as child:
        assert 0 <= child.lease_until - before - limits.CHILD_LEASE_SECONDS_DEFAULT < 60


def test_what_cannot_be_had_or_returned(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup)
    child.graph.allocate("slot/core", job="x")
    before = local.load("demo").revision, local.log("demo", limit=1)[0].seq, local.log("demo.a", limit=1)[0].seq
    for attempt, error in (
        (lambda: child.grow("slot=5/node"), InsufficientResources),
        (lambda: child.shrink(NODES[0]), StillHeld),
        (lambda: child.shrink(NODES[:2]), UsageError),
        (lambda: child.shrink("slot/node"), UsageError),
        (lambda: child.shrink({NODES[1] + "/memory0": 3}), UsageError),
        (lambda: child.shrink("/demo/rack0"), UsageError),
        (lambda: child.extend(-1), UsageError),
    ):
        with pytest.raises(error):
            attempt()
    assert before == (local.load("demo").revision, local.log("demo", limit=1)[0].seq, local.log("demo.a", limit=1)[0].seq)
    with pytest.raises(
        StillHeld, match=rf"^{NODES[0]}/core0: would go from the child \(held by x\) \(free it in the child, or"
    ) as found:
        child.shrink(NODES[0])
    assert tuple(found.value.jobs) == ("x",)
    child.graph.free("x")
    with pytest.raises(UsageError, match="returns everything ends"):
        child.shrink(NODES[:2])
    assert paths(local, "demo", "a") == NODES[:2]


def test_part_of_what_is_held_as_a_whole(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup, "b", wanted="/demo/rack1")
    child.graph.allocate(NODES[3], job="x")
    assert child.shrink(NODES[5]) == NODES[5:]
    assert local.load("demo").pool(NODES[5]).available() == 1
    assert paths(local, "demo", "b") == NODES[3:5]
    assert child.shrink(NODES[4] + "/core0") == [NODES[4] + "/core0"]
    assert child.grow(NODES[4] + "/core0") == [NODES[4] + "/core0"]
    with changed(local, "demo") as demo:
        demo.allocate(NODES[5], job="c")
    assert upkeep.check(local)[1] == []


def test_more_and_less_of_a_pool_that_is_held_in_part(local: Store, cleanup: ExitStack) -> None:
    memory = f"{NODES[2]}/memory0"
    child = begun(local, cleanup, "b", wanted=[(memory, 3)])
    assert child.graph.pool(memory).size == 3
    assert child.grow([(memory, 2)]) == [memory]
    assert child.graph.pool(memory).size == local.load("demo.b").pool(memory).size == 5
    with changed(local, "demo") as demo:
        demo.free("b", [(memory, 4)])
    child.refresh()
    assert child.graph.pool(memory).size == 1
    child.graph.allocate([(memory, 1)], job="x")


@pytest.mark.parametrize("by", ["child", "parent"])
@pytest.mark.parametrize("had", [["/demo/rack0/node2/core0"], ["/demo/rack0/node2/core0", "/demo/rack0/node2/core1"]])
def test_a_pool_of_which_it_held_parts_can_be_allocated_once_it_holds_it(
    local: Store, cleanup: ExitStack, had: list[str], by: str
) -> None:
    child = begun(local, cleanup, "b", wanted=had)
    assert not child.graph.satisfiable("slot/node")
    if by == "child":
        assert child.grow("/demo/rack0/node2") == ["/demo/rack0/node2"]
    else:
        with changed(local, "demo") as demo:
            demo.grow("b", "/demo/rack0/node2")
        child.refresh()
    assert child.graph.check() == []
    assert [pool.path for pool in child.graph.allocate("slot/node", job="inner")] == ["/demo/rack0/node2"]
    with pytest.raises(StillHeld, match="inner"):
        child.shrink("/demo/rack0/node2/core0")
    child.graph.free("inner")
    child.shrink("/demo/rack0/node2/core0")
    assert not child.graph.satisfiable("slot/node")
    assert child.graph.check() == local.load("demo").check() == []
    assert paths(local, "demo", "b") == [f"/demo/rack0/node2/{name}" for name in ("core1", "core2", "core3", "memory0")]


def test_a_rack_of_which_it_held_all_nodes(local: Store, clock: Moving, cleanup: ExitStack) -> None:
    child = begun(local, cleanup, "b", wanted=NODES[3:])
    clock.now_s += 5
    child.grow("/demo/rack1")
    child.detach()
    child = begun(local, cleanup, "b")
    child.graph.allocate("slot/rack", job="inner")
    child.graph.free("inner")
    child.shrink(NODES[3])
    assert paths(local, "demo", "b") == NODES[4:]
    assert sorted(child.graph.find("type=node and size=1").paths()) == NODES[4:]
    assert not child.graph.satisfiable("slot/rack")


def test_a_supplier_that_a_job_draws_from_is_not_returned(tmp_path: Path, cleanup: ExitStack) -> None:
    power = {
        "hierarchy": True,
        "pools": [{"type": "pdu", "size": 1000}],
        "edges": [{"from": "power:/pdu", "to": "/demo/node[0-1]", "relation": "supplies"}],
    }
    nodes = [{"type": "node", "count": 2, "with": [{"type": "core"}]}]
    store = open_store(f"sqlite://{tmp_path}/site.db", clock=Moving())
    store.put("demo", fluxres.load({"fluxres": 1, "name": "demo", "resources": nodes, "graphs": {"power": power}}))
    child = begun(store, cleanup, "b", wanted="slot/[node;power=600]")
    child.graph.allocate("slot/[core;power=500]", job="x")
    with pytest.raises(StillHeld, match="held by x"):
        child.shrink("power:/pdu")
    with changed(store, "demo") as demo:
        demo.free("b", {"power:/pdu": 600})
    with pytest.raises(StillHeld, match="would only be a pass-through"):
        child.refresh()
    assert [span.amount for span in child.graph.allocation("x").spans] == [1, 500]
    child.graph.free("x")
    child.refresh()
    child.grow("slot/[core=1;power=600]")
    child.shrink("power:/pdu")
    child.graph.allocate("slot/core", job="y")


def test_a_lease_that_is_over(site: Store, clock: Moving, cleanup: ExitStack) -> None:
    child = begun(site, cleanup)
    child.graph.allocate("slot/core", job="x")
    clock.now_s = 59
    child.graph.allocate("slot/core", job="y")
    clock.now_s = 60
    require_over(child)
    assert "its lease was over" in str(site.standings()["demo.a"].lapsed)
    with changed(site, "demo") as demo:
        demo.allocate(NODES[:2], job="b")
    assert site.names() == ["demo"]
    assert site.load("demo").jobs() == ["b"]
    (entry,) = [entry for entry in site.log("demo") if entry.event["event"] == "free"]
    assert (entry.event["job"], entry.event["reason"]) == ("a", "the lease of its graph 'demo.a' was over")
    clock.now_s = 30  # a clock that is set back changes nothing
    require_over(child)


def test_a_child_whose_clock_is_late_is_fenced(site: Store, clock: Moving, cleanup: ExitStack) -> None:
    """Its lease is not over by its own clock, but its parent has ended it: the store says so."""
    late = Moving()
    child = open_child(site.url, graph="demo", job="a", lease_s=60, clock=late)
    cleanup.callback(child.end)
    child.graph.allocate("slot/core", job="x")
    clock.now_s = 60
    assert site.settle() == ["demo"]
    require_over(child)


def test_everything_below_ends_too(site: Store, clock: Moving, cleanup: ExitStack) -> None:
    child = begun(site, cleanup)
    inner = begun(site, cleanup, "k", graph="demo.a", wanted=NODES[0], name="inner", lease_s=1000)
    deep = begun(site, cleanup, "m", graph="inner", wanted="slot/core", name="deep", lease_s=1000)
    deep.graph.allocate("slot/core", job="z")
    assert inner.grow(NODES[1]) == [NODES[1]]
    with pytest.raises(StillHeld):
        child.shrink(NODES[1])
    inner.shrink(NODES[1])
    child.shrink(NODES[1])
    clock.now_s = 60
    for one in (child, inner, deep):
        require_over(one)
    assert site.settle("demo") == ["demo"]
    assert (site.names(), site.load("demo").jobs()) == (["demo"], [])
    for one in (child, inner, deep):
        require_over(one)


def test_an_attached_parent_has_everything_back(site: Store, clock: Moving, cleanup: ExitStack) -> None:
    child = begun(site, cleanup)
    with fluxres.open(site.url, name="demo", clock=clock) as demo:
        assert child.grow("slot/node") == NODES[2:3]
        demo.refresh()
        assert demo.allocated("a").paths() == NODES[:3]
        clock.now_s = 60
        assert demo.attachment is not None
        demo.attachment._settled_s = -1  # type: ignore[attr-defined]  # a second is over
        demo.allocate(NODES[:3], job="b")
    require_over(child)


def test_one_process_for_a_job(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup)
    with pytest.raises(StoreBusy, match=r"process .* works on what this job holds, until"):
        begun(local, cleanup, name="again")
    child.graph.allocate("slot/core", job="x")
    child.detach()
    assert local.load("demo.a").jobs() == ["x"]
    again = begun(local, cleanup)
    assert again.graph.jobs() == ["x"]
    again.end()
    assert local.names() == ["demo"]


def test_the_graph_of_a_child_is_neither_dropped_nor_replaced(local: Store, clock: Moving, cleanup: ExitStack) -> None:
    child = cleanup.enter_context(open_child(local.url, graph="demo", job="a", name="part", clock=clock))
    for change in (lambda: local.drop("part"), lambda: local.put("part", machine(), replace=True)):
        with pytest.raises(UsageError, match="a child works on it, for job 'a' of graph 'demo'"):
            change()
    child.end()
    assert (local.load("demo").jobs(), [row.name for row in local.graphs()]) == ([], ["demo"])


def test_a_copy_made_by_hand_is_taken_over(local: Store, cleanup: ExitStack) -> None:
    part = local.load("demo").copy(job="a")
    local.put("part", part, held=Held("demo", "a"))
    with changed(local, "part") as graph:
        graph.allocate("slot/core", job="x")
    child = begun(local, cleanup)
    assert (child.name, child.graph.jobs()) == ("part", ["x"])


def test_the_parent_frees_the_job(local: Store, clock: Moving, cleanup: ExitStack) -> None:
    child = begun(local, cleanup)
    child.graph.allocate("slot/core", job="x")
    with changed(local, "demo") as demo:
        demo.free("a")
    with pytest.raises(HoldLapsed, match="holds nothing any more"):
        child.graph.allocate("slot/core", job="y")
    with pytest.raises(HoldLapsed, match="holds nothing any more"):
        child.grow("slot/node")
    with pytest.raises(HoldLapsed, match="holds nothing any more"):
        child.renew()
    require_over(child)
    assert local.names() == ["demo"]


def test_the_parent_changes_what_the_job_holds(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup)
    child.graph.allocate(NODES[1], job="x")
    with changed(local, "demo") as demo:
        demo.grow("a", NODES[2])
        demo.free("a", NODES[0])
    child.renew()
    assert child.graph.find("type=node").paths() == NODES[1:3]
    with changed(local, "demo") as demo:
        demo.free("a", NODES[1])
    child.renew()  # what its job has is not taken from it, but it gives nothing more
    with pytest.raises(HoldLapsed, match="does not hold all of it"):
        child.graph.allocate("slot/core", job="y")
    with pytest.raises(StillHeld):
        child.refresh()
    with pytest.raises(NotHeld):
        child.shrink(NODES[1])
    child.graph.free("x")
    child.refresh()
    child.graph.allocate("slot/core", job="y")


def test_rule_a7_a_child_follows_the_states_of_its_parent(local: Store, cleanup: ExitStack) -> None:
    child, (first, second) = begun(local, cleanup), NODES[:2]

    def set_above(where: str, state: str) -> None:
        with changed(local, "demo") as demo:
            demo.set_state(where, state)
        child.refresh()

    def states() -> list[str]:
        return [child.graph.pool(where).state for where in (first, second)]

    child.graph.set_state(second, "drain")
    set_above(first, "drain")
    assert states() == ["drain", "drain"]
    assert child.graph.pool(f"{first}/core0").available() == 0
    set_above(first, "down")
    assert states() == ["down", "drain"]
    set_above(first, "up")
    assert states() == ["up", "drain"]  # which the child has set
    assert child.graph.pool(f"{first}/core0").available() == 1
    set_above("/demo/rack0", "drain")
    assert child.graph.pool("/demo/rack0").state == "drain"
    child.graph.set_state("/demo/rack0", "up")
    child.refresh()
    assert child.graph.pool("/demo/rack0").state == "drain"  # the parent decides
    set_above("/demo/rack0", "up")
    assert child.graph.pool("/demo/rack0").state == "up"
    child.graph.set_state(second, "up")
    assert states() == ["up", "up"]


def test_rule_a7_a_child_that_begins_or_is_taken_over_while_its_parent_drains(local: Store, cleanup: ExitStack) -> None:
    with changed(local, "demo") as demo:
        demo.set_state(NODES[0], "drain")
    child = begun(local, cleanup)
    assert child.graph.pool(NODES[0]).state == "drain"
    child.detach()
    with changed(local, "demo") as demo:
        demo.set_state(NODES[0], "up")
    again = begun(local, cleanup)
    again.refresh()
    assert again.graph.pool(NODES[0]).state == "up"
    again.graph.allocate(NODES[0], job="x", end=100)


def test_a_parent_that_was_dropped(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup)
    local.drop("demo", force=True)
    with pytest.raises(HoldLapsed, match="was dropped"):
        child.renew()
    require_over(child)


@pytest.mark.parametrize("operation", ["grow", "shrink", "extend", "end", "open"])
def test_a_crash_in_between_changes_neither_graph(
    site: Store, cleanup: ExitStack, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """The process fails before the commit, after each write of the transaction."""
    child = begun(site, cleanup)
    before = {name: site.log(name) for name in site.names()}
    attempts = {
        "grow": lambda: child.grow("slot/node"),
        "shrink": lambda: child.shrink(NODES[1]),
        "extend": lambda: child.extend(2000),
        "end": child.end,
        "open": lambda: begun(site, cleanup, "b", wanted="slot/node"),
    }
    writes = {"grow": 2, "shrink": 2, "extend": 1, "end": 1, "open": 2}[operation]
    write = writing.write
    for last in range(1, writes + 1):
        count = 0

        def failing(rows: Rows, *given: Any, last: int = last) -> Any:
            nonlocal count
            found = write(rows, *given)
            count += 1
            if count == last:
                raise StoreError("crashed")
            return found

        with monkeypatch.context() as patch:
            patch.setattr(writing, "write", failing)
            with pytest.raises(StoreError, match="crashed"):
                attempts[operation]()
        assert count == last
        assert {name: site.log(name) for name in site.names()} == before
        if operation == "end":
            break
    assert paths(site, "demo", "a") == NODES[:2]
    assert upkeep.check(site)[1] == []


def test_the_lease_is_renewed(local: Store, tmp_path: Path, cleanup: ExitStack) -> None:
    """With a clock that runs: the child outlives its first lease."""
    child = open_child(local.url, graph="demo", job="b", wanted="slot/node", lease_s=0.6)
    cleanup.callback(child.end)
    first, renewed = child.lease_until, threading.Event()
    for _ in range(200):
        if child.lease_until > first + 0.6:
            renewed.set()
            break
        threading.Event().wait(0.02)
    assert renewed.is_set()
    child.graph.allocate("slot/core", job="x")


def test_an_instance_on_the_graph_of_a_child(local: Store, cleanup: ExitStack) -> None:
    child = begun(local, cleanup)
    instance = Instance(child.graph, queue_policy="fcfs")
    jobs = [instance.submit("slot/node", duration_s=100) for _ in range(3)]
    assert [job.state.value for job in jobs] == ["R", "R", "S"]
    child.grow("slot/node")
    instance.advance()
    assert [job.state.value for job in jobs] == ["R", "R", "R"]
    assert len(local.load("demo.a").jobs()) == 3
    instance.finish(jobs[0].id)
    child.shrink(NODES[0])
    assert instance.check() == []


def test_a_child_whose_job_became_maintenance_gives_nothing_and_ends(local: Store, clock: Moving) -> None:
    child = open_child(local.url, job="a", lease_s=60, clock=clock)
    with changed(local, "demo") as demo:
        demo.free("a")
        demo.reserve(NODES[:2], name="a", end=1000)
    with pytest.raises(HoldLapsed):
        child.graph.allocate(NODES[0], job="inner")
    clock.now_s += 61
    with changed(local, "demo") as demo:  # ends the child, whose lease is over, and changes the parent
        demo.allocate(NODES[2], job="b")
    assert list(local.load("demo").reservations()) == ["a"]
    assert local.names() == ["demo"]
    child.end()
