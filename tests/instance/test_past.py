"""What is over in the graph of a child, or of its parent, is in the way of nothing that goes between them (rule T2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fluxres import AuxiliaryGraph, Edge, Resource, ResourceGraph, StillHeld, build
from fluxres.instance import Instance, Runner, State
from tests.instance.machines import Hand
from tests.instance.test_upstream import Slow

CABLE = ("power:/pdu0", "/lab/rack0/node0", "power")


@pytest.fixture
def clock() -> Hand:
    return Hand()


def lab(clock: Hand, capacity: int | None = None) -> ResourceGraph:
    """A rack of two nodes of two cores, supplied by a PDU of 1,000 W."""
    rack = Resource("rack", 1, id=[0], children=[Resource("node", 2, children=[Resource("core", 2)])])
    edge = Edge("power:/pdu0", "/lab/rack0/node*", relation="supplies")
    edges = [edge if capacity is None else replace(edge, capacity=capacity)]
    pdu = Resource("pdu", 1, size=1000, unit="W", id=[0])
    graphs = {"power": AuxiliaryGraph(hierarchy=True, pools=[pdu], edges=edges)}
    return build(rack, name="lab", clock=clock, graphs=graphs)


def names(graph: ResourceGraph) -> list[str]:
    """Names of the events from here on, as they come."""
    found: list[str] = []
    graph.sink = lambda event: found.append(event["event"])
    return found


def is_sound(top: Instance) -> bool:
    return not [problem for one in top.walk() for problem in (*one.check(), *one.graph.check()) if problem.severity == "error"]


def test_rule_t2_a_child_gives_back_watts_that_a_job_drew_once(clock: Hand) -> None:
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


def test_rule_t2_a_child_gives_back_a_node_of_a_rack_that_was_held_whole(clock: Hand) -> None:
    top = Instance(lab(clock), name="top")
    child = top.spawn(top.submit("slot=1/rack"))
    child.graph.allocate("/lab/rack0", job="early", start=0, end=5)
    clock.now_s = 7
    events = names(child.graph)
    child.shrink("/lab/rack0/node1")
    assert events == ["expire", "unlink"]
    assert child.graph.records.jobs() == []
    assert is_sound(top)


def test_rule_t2_a_child_gets_watts_of_which_a_job_drew_some_on_request(clock: Hand) -> None:
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
def test_rule_t2_a_cable_of_the_parent_gets_narrower_than_what_was_drawn_through_it(expires: str, clock: Hand) -> None:
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


class Late(Hand):
    """A clock that has moved on whenever it is looked at again."""

    def __call__(self) -> float:
        now_s, self.now_s = self.now_s, self.now_s + 0.25
        return now_s


@pytest.mark.parametrize("runner", [Slow, None])
def test_rule_t1_a_job_at_its_limit_is_not_over_while_its_instance_gives_back_a_node(runner: type[Runner] | None) -> None:
    """Time stands still for an instance that does something, whatever the clock of its graph says meanwhile."""
    clock = Hand()
    top = Instance(lab(clock), name="top", clock=clock)
    child = top.spawn(top.submit("slot=2/[node;pdu=100]"), runner=runner() if runner else None)
    job = child.submit("slot=1/[core;pdu=50]", duration_s=10)
    child.graph.allocate("slot/[core;pdu=90]", job="early", start=0, end=5)
    late = Late(10.0)
    for one in top.walk():
        one._graph.clock = late
    clock.now_s = 10.0
    assert [pool for pool, _ in job.pools] == ["/lab/rack0/node0/core0", "power:/pdu0"]
    events = names(child.graph)
    child.shrink("/lab/rack0/node1")
    assert "expire" in events
    assert (job.state.name, child.graph.pool("/lab/rack0/node0/core0").allocated()) == ("RUN", 1)


class Deaf(Slow):
    """Promises to end jobs at their limit, or not, and ends none."""

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
def test_rule_t1_a_late_job_holds_what_it_had_when_its_records_expired(
    keeps_limits: bool, at_s: float, change: str, inventory: str, clock: Hand
) -> None:
    """Others change the graph after the limit, and before the instance is called."""
    graph = lab(clock)
    top = Instance(graph, name="top", inventory=inventory, runner=Deaf(keeps_limits=keeps_limits))
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


def test_rule_t1_what_others_took_when_the_records_of_a_job_expired_is_said(clock: Hand) -> None:
    graph = lab(clock)
    top = Instance(graph, name="top", runner=Deaf(keeps_limits=False))
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
