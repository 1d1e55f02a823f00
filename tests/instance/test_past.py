"""Records of the past in the graph of a child or its parent do not block grow and shrink (rule T2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fluxres import AuxiliaryGraph, Edge, Resource, ResourceGraph, StillHeld, build
from fluxres.instance import Instance, Runner, State
from tests.instance.machines import ManualClock
from tests.instance.test_upstream import ManualRunner

CABLE = ("power:/pdu0", "/lab/rack0/node0", "power")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def lab(clock: ManualClock, capacity: int | None = None) -> ResourceGraph:
    """A rack of two nodes with two cores each, supplied by a PDU of 1,000 W."""
    rack = Resource("rack", 1, id=[0], children=[Resource("node", 2, children=[Resource("core", 2)])])
    edge = Edge("power:/pdu0", "/lab/rack0/node*", relation="supplies")
    edges = [edge if capacity is None else replace(edge, capacity=capacity)]
    pdu = Resource("pdu", 1, size=1000, unit="W", id=[0])
    graphs = {"power": AuxiliaryGraph(hierarchy=True, pools=[pdu], edges=edges)}
    return build(rack, name="lab", clock=clock, graphs=graphs)


def names(graph: ResourceGraph) -> list[str]:
    """A list to which the names of all further events are added."""
    found: list[str] = []
    graph.sink = lambda event: found.append(event["event"])
    return found


def is_sound(top: Instance) -> bool:
    return not [problem for one in top.walk() for problem in (*one.check(), *one.graph.check()) if problem.severity == "error"]


def test_rule_t2_a_child_returns_watts_that_a_job_drew_in_the_past(clock: ManualClock) -> None:
    top = Instance(lab(clock), name="top")
    child = top.spawn(top.submit("slot=2/[node;pdu=100]"))
    inner = child.spawn(child.submit("slot=1/node{id:'0'}"))
    child.graph.allocate("slot/[core;pdu=190]", job="first", start=0, end=3)
    inner.graph.allocate("slot/[core;pdu=190]", job="early", start=3, end=5)
    clock.now_s = 4
    with pytest.raises(StillHeld, match="jobs draw 190"):
        child.shrink("/lab/rack0/node1")
    clock.now_s = 7
    events = names(child.graph)
    assert child.shrink("/lab/rack0/node1") == ["/lab/rack0/node1"]
    assert events[0] == "expire"
    assert child.graph.pool("power:/pdu0").size == inner.graph.pool("power:/pdu0").size == 100
    assert (inner.graph.jobs(), is_sound(top)) == ([], True)
    inner.graph.expire()
    child.close()
    assert top.graph.aggregate() == lab(clock).aggregate()


def test_rule_t2_a_child_returns_a_node_of_a_rack_that_was_held_exclusively_in_the_past(clock: ManualClock) -> None:
    top = Instance(lab(clock), name="top")
    child = top.spawn(top.submit("slot=1/rack"))
    child.graph.allocate("/lab/rack0", job="early", start=0, end=5)
    clock.now_s = 7
    events = names(child.graph)
    child.shrink("/lab/rack0/node1")
    assert events == ["expire", "unlink"]
    assert child.graph.records.jobs() == []
    assert is_sound(top)


def test_rule_t2_a_child_gets_watts_that_a_job_drew_on_request_in_the_past(clock: ManualClock) -> None:
    top = Instance(lab(clock), name="top")
    child = top.spawn(top.submit("slot=1/node"))
    child.graph.allocate("slot/[core;pdu=190]", job="early", start=0, end=5)
    clock.now_s = 4
    with pytest.raises(StillHeld, match="that the parent grants on request"):
        child.grow("slot=1/[node;pdu=100]")
    clock.now_s = 7
    events = names(child.graph)
    child.grow("slot=1/[node;pdu=100]")
    assert events == ["expire", "merge"]
    assert child.graph.pool("power:/pdu0").size == 100
    assert is_sound(top)


@pytest.mark.parametrize("expires", ["child", "parent", "neither"])
def test_rule_t2_an_edge_of_the_parent_gets_less_capacity_than_was_drawn_in_the_past(expires: str, clock: ManualClock) -> None:
    top = Instance(lab(clock, capacity=400), name="top")
    job = top.submit("slot=1/node{id:'0'}", duration_s=100)
    child = top.spawn(job)
    child.graph.allocate("slot/[core;pdu=300]", job="early", start=0, end=5)
    child.graph.allocate("slot/[core;pdu=50]", job="on", start=2, end=90)
    clock.now_s = 4
    with pytest.raises(StillHeld, match="350 units through it"):
        top.graph.set_edge(*CABLE, capacity=100)
    clock.now_s = 7
    if expires != "neither":
        (child if expires == "child" else top).graph.expire()
    top.graph.set_edge(*CABLE, capacity=100)
    top.set_duration(job, 200)  # what the child draws is drawn again to the new end
    top.set_duration(job, 80)
    top.set_duration(job, 100)
    assert (child.graph.jobs(), top.graph.pool("power:/pdu0").allocated()) == (["on"], 50)
    assert is_sound(top)
    child.graph.expire()
    child.graph.free("on")
    assert top.graph.pool("power:/pdu0").allocated() == 0
    assert is_sound(top)


class AdvancingClock(ManualClock):
    """A clock that advances whenever it is read."""

    def __call__(self) -> float:
        now_s, self.now_s = self.now_s, self.now_s + 0.25
        return now_s


@pytest.mark.parametrize("runner", [ManualRunner, None])
def test_rule_t1_a_job_at_its_limit_does_not_end_while_its_instance_returns_a_node(runner: type[Runner] | None) -> None:
    """Time does not change during a call of an instance, even if the clock of its graph advances."""
    clock = ManualClock()
    top = Instance(lab(clock), name="top", clock=clock)
    child = top.spawn(top.submit("slot=2/[node;pdu=100]"), runner=runner() if runner else None)
    job = child.submit("slot=1/[core;pdu=50]", duration_s=10)
    child.graph.allocate("slot/[core;pdu=90]", job="early", start=0, end=5)
    late = AdvancingClock(10.0)
    for one in top.walk():
        one._graph.clock = late
    clock.now_s = 10.0
    assert [pool for pool, _ in job.pools] == ["/lab/rack0/node0/core0", "power:/pdu0"]
    events = names(child.graph)
    child.shrink("/lab/rack0/node1")
    assert "expire" in events
    assert (job.state.name, child.graph.pool("/lab/rack0/node0/core0").allocated()) == ("RUN", 1)


class UnstoppableRunner(ManualRunner):
    """A runner that ends no jobs, whether it promises to keep limits or not."""

    def __init__(self, *, keeps_limits: bool) -> None:
        super().__init__()
        self.keeps_limits = keeps_limits


OVER: dict[str, Callable[[ResourceGraph], object]] = {
    "expire": lambda graph: graph.expire(),
    "an edge is limited": lambda graph: graph.set_edge(*CABLE, capacity=10),
    "a pool is moved": lambda graph: graph.move("/lab/rack0/node0", "/lab"),
}


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("change", OVER)
@pytest.mark.parametrize("at_s", [2, 3])
@pytest.mark.parametrize("keeps_limits", [False, True])
def test_rule_t1_a_late_job_keeps_what_it_had_when_its_records_expired(
    keeps_limits: bool, at_s: float, change: str, inventory: str, clock: ManualClock
) -> None:
    """Others change the graph after the limit, before the instance is called."""
    graph = lab(clock)
    top = Instance(graph, name="top", inventory=inventory, runner=UnstoppableRunner(keeps_limits=keeps_limits))
    late = top.submit("slot=2/node", duration_s=2)
    had = {where.rpartition("/")[2] for where, _ in late.pools}
    clock.now_s = at_s
    OVER[change](graph)
    clock.now_s = 4
    waiting = top.submit("slot/core", duration_s=5)
    assert (late.state, waiting.state) == (State.CLEANUP, State.SCHED)
    assert {where.rpartition("/")[2] for where, _ in late.pools} == had == {"node0", "node1"}
    assert top.check() == []
    top.finish(late)
    assert waiting.state is State.RUN


def test_rule_t1_check_reports_what_others_took_when_the_records_of_a_job_expired(clock: ManualClock) -> None:
    graph = lab(clock)
    top = Instance(graph, name="top", runner=UnstoppableRunner(keeps_limits=False))
    late = top.submit("slot=2/node", duration_s=2)
    clock.now_s = 3
    graph.expire()
    graph.allocate("/lab/rack0/node0", job="other", end=9)
    assert top.submit("slot/core", duration_s=5).state is State.SCHED
    assert late.exceptions[-1][0] == "overlap"
    assert top.graph.pool("/lab/rack0/node1").allocated() == 1
    clock.now_s = 9
    assert top.submit("slot/core", duration_s=5).state is State.SCHED
    assert top.check() == []
