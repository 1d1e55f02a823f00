"""Ended records never block a change of the shape, and are dropped only with the event of `expire` (rule T2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fluxres import (
    AuxiliaryGraph,
    Edge,
    FluxresError,
    MergeConflict,
    Resource,
    ResourceGraph,
    StaleHandle,
    StillHeld,
    build,
)
from fluxres.clock import fixed
from tests.instance.machines import ManualClock
from tests.store.graphs import facts

CABLE = ("power:/pdu0", "/lab/rack0/node0", "power")
Change = Callable[[ResourceGraph], object]


def lab(clock: ManualClock) -> ResourceGraph:
    """Two racks of two nodes, each on a cable of 400 W from one of two PDUs of 1,000 W, and a switch with links of any width."""
    rack = Resource("rack", 2, children=[Resource("node", 2, id=[0, 1, 2, 3], children=[Resource("core", 2)])])
    cables = [Edge("power:/pdu0", "/lab/rack*/node*", relation="supplies", capacity=400)]
    power = AuxiliaryGraph(hierarchy=True, pools=[Resource("pdu", 2, size=1000, unit="W")], edges=cables)
    links = [Edge("network:/switch0", "/lab/rack*/node*", direction="both")]
    switch = Resource("switch", 1, id=[0], children=[Resource("bandwidth", 1, size=100)])
    graphs = {"power": power, "network": AuxiliaryGraph(pools=[switch], edges=links)}
    return build(rack, name="lab", clock=clock, graphs=graphs)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def g(clock: ManualClock) -> ResourceGraph:
    return lab(clock)


def told(g: ResourceGraph) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    g.sink = events.append
    return events


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def sound(g: ResourceGraph) -> bool:
    return not [problem for problem in g.check() if problem.severity == "error"]


CHANGES: dict[str, Change] = {
    "an edge carries less": lambda g: g.set_edge(*CABLE, capacity=100),
    "an edge carries nothing": lambda g: g.set_edge(*CABLE, capacity=0),
    "an edge goes": lambda g: g.remove_edge(*CABLE),
    "an edge gets a capacity": lambda g: g.set_edge("network:/switch0", "/lab/rack0/node0", "network", capacity=10),
    "an edge without a capacity goes": lambda g: g.remove_edge("network:/switch0", "/lab/rack0/node0", "network"),
    "a pool goes": lambda g: g.unlink("/lab/rack0/node0"),
    "a pool goes out of what was held whole": lambda g: g.unlink("/lab/rack1/node3"),
    "a pool leaves its supplier": lambda g: g.unlink("power:/pdu0/node0"),
    "a pool moves": lambda g: g.move("/lab/rack0/node0", "/lab/rack1/node9"),
    "a pool moves in a hierarchy": lambda g: g.move("power:/pdu0/node0", "power:/pdu1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rule_t2_blocking_ended_records_expire_before_a_change(g: ResourceGraph, clock: ManualClock, change: str) -> None:
    """As if `expire` had been called: in the records, in the events, and in a replay of the journal at any time."""
    g.allocate("slot/[node;pdu=300;bandwidth=30]", job="early", start=0, end=10)
    g.allocate("/lab/rack1", job="whole", start=2, end=12)
    g.allocate("/lab/rack0/node1/core1", job="on")
    clock.now_s = 20
    first, replayed, late = g.duplicate(), g.duplicate(), g.duplicate()
    expected, events = told(first), told(g)
    assert first.expire() == ["early", "whole"]
    CHANGES[change](first)
    CHANGES[change](g)
    assert events == expected
    assert (names(events)[0], len(events), events[0]["before"]) == ("expire", 2, 20_000_000)
    assert facts(g) == facts(first)
    assert sound(g)
    replayed.clock, late.clock = fixed(0.0), fixed(1e6)
    for event in events:
        replayed.apply(event)
        late.apply(event)
    assert facts(replayed) == facts(late) == facts(g)


@pytest.mark.parametrize("change", CHANGES)
def test_rule_t2_change_refused_for_other_reasons_expires_nothing(g: ResourceGraph, clock: ManualClock, change: str) -> None:
    g.allocate("slot/[node;pdu=300;bandwidth=30]", job="early", start=0, end=10)
    g.allocate("/lab/rack1", job="on", start=15, end=60)
    g.allocate("slot/[node;pdu=300;bandwidth=30]", job="later", start=50, end=60)
    clock.now_s = 20
    events, before = told(g), facts(g)
    with pytest.raises(StillHeld) as refused:
        CHANGES[change](g)
    assert "early" not in str(refused.value)
    assert (events, facts(g)) == ([], before)


def test_rule_t2_ended_records_that_block_nothing_stay(g: ResourceGraph, clock: ManualClock) -> None:
    g.allocate("slot/[node;pdu=300]", job="early", start=0, end=10)
    clock.now_s = 20
    events, before = told(g), g.allocation("early").spans
    g.set_edge(*CABLE, capacity=300)
    g.set_edge("power:/pdu0", "/lab/rack1/node3", "power", capacity=1)
    g.unlink("/lab/rack1/node2")
    g.move("/lab/rack1/node3", "/lab/rack0/node7")
    assert names(events) == ["set_edge", "set_edge", "unlink", "move"]
    assert g.allocation("early").spans == before
    assert sound(g)


def test_rule_t2_running_job_loses_only_its_ended_records(g: ResourceGraph, clock: ManualClock) -> None:
    cable = "power: power:/pdu0 -> /lab/rack0/node0"
    g.allocate("slot/[node;pdu=300]", job="j", start=0, end=100)
    g.free("j", {"power:/pdu0": 200, cable: 200}, start=10, end=100)
    clock.now_s = 20
    g.set_edge(*CABLE, capacity=100)
    assert {span.pool: (span.start, span.amount) for span in g.allocation("j").spans}[cable] == (10, 100)
    with pytest.raises(StillHeld, match="j draws 100 units"):
        g.set_edge(*CABLE, capacity=99)
    assert sound(g)


def test_rule_t2_stage_with_an_ended_window_blocks_nothing(g: ResourceGraph, clock: ManualClock) -> None:
    stage = g.stage("slot/[node;pdu=300]", job="j", start=0, end=10, ttl_s=1000)
    clock.now_s = 20
    events = told(g)
    g.set_edge(*CABLE, capacity=400)
    assert stage.active
    g.set_edge(*CABLE, capacity=100)
    assert names(events) == ["set_edge", "release", "set_edge"]
    with pytest.raises(StaleHandle):
        stage.commit()
    assert sound(g)


def test_replay_expires_no_stage_by_itself(g: ResourceGraph) -> None:
    again = g.duplicate()
    again.clock = fixed(1e6)
    events = told(g)
    g.stage("/lab/rack0/node0", job="j", ttl_s=60)
    g.set_edge(*CABLE, capacity=500)
    g.commit(events[0]["stage"])
    for event in events:
        again.apply(event)
    assert facts(again) == facts(g)
    assert again.clock() == 1e6


# -- merges --------------------------------------------------------------------------------------------------------------


def halves(clock: ManualClock) -> tuple[ResourceGraph, ResourceGraph]:
    """The parts of one machine that two jobs hold: a node each, and parts of a PDU with outlets in it."""
    pdu = Resource("pdu", 1, size=1000, unit="W", id=[0], children=[Resource("outlet", 2)])
    edges = [Edge("power:/pdu0", "/lab/node*", relation="supplies")]
    graphs = {"power": AuxiliaryGraph(hierarchy=True, pools=[pdu], edges=edges)}
    g = build(Resource("node", 2, children=[Resource("core", 2)]), name="lab", clock=clock, graphs=graphs)
    for number in range(2):
        g.allocate({f"/lab/node{number}": 1, "power:/pdu0": 400}, job=f"j{number}")
    return g.copy(job="j0"), g.copy(job="j1")


def test_rule_t2_merge_expires_ended_records_with_an_event(clock: ManualClock) -> None:
    """A job that held a pool exclusively would hold only a part of the larger one."""
    g, other = halves(clock)
    g.allocate({"power:/pdu0": 400}, job="early", start=0, end=10)
    other.allocate({"/lab/node1/core0": 1, "power:/pdu0": 100}, job="theirs", start=0, end=5)
    with pytest.raises(MergeConflict, match="held exclusively by early"):
        g.merge(other)
    clock.now_s = 20
    events, before, replayed = told(g), facts(other), g.duplicate()
    g.merge(other)
    assert (names(events), events[0]["before"]) == (["expire", "merge"], 20_000_000)
    assert facts(other) == before
    assert {span.pool for span in g.allocation("theirs").spans} == {"/lab/node1/core0", "power:/pdu0"}  # blocks nothing
    assert g.pool("power:/pdu0").size == 800
    assert sound(g)
    replayed.clock = fixed(0.0)
    for event in events:
        replayed.apply(event)
    assert facts(replayed) == facts(g)


def test_rule_t2_merge_reports_blocking_ended_records_of_the_other_graph(clock: ManualClock) -> None:
    g, other = halves(clock)
    g.allocate({"power:/pdu0": 100}, job="mine", start=0, end=5)
    other.allocate({"power:/pdu0": 400}, job="early", start=0, end=10)
    clock.now_s = 20
    events, before = told(g), (facts(g), facts(other))
    with pytest.raises(MergeConflict) as refused:
        g.merge(other)
    error = refused.value
    assert error.where == "power:/pdu0"
    assert error.message.startswith(
        "in the other graph early held power:/pdu0 until 10 s, and that is in the way: held exclusively by early"
    )
    assert error.hint == "expire(10.0) of the other graph drops it, `free --ended` on the command line"
    assert (events, (facts(g), facts(other))) == ([], before)
    other.expire(10)
    g.merge(other)
    assert [span.end for span in g.allocation("mine").spans] == [5]
    assert sound(g)


def test_rule_t2_refused_merge_names_the_ended_record_under_another_pool_name(clock: ManualClock) -> None:
    g = build(Resource("rack", 1, id=[0], children=[Resource("memory", 1, id=[0], size=4)]), name="lab", clock=clock)
    other = build(Resource("node", 1, id=[7]), name="rack0", clock=clock)
    other.allocate("/rack0/node7", job="early", start=0, end=10)
    g.allocate("/lab/rack0", job="j", start=0, end=100)
    clock.now_s = 20
    with pytest.raises(MergeConflict, match=r"in the other graph early held /rack0/node7 until 10 s.*expire\(10.0\)"):
        g.merge(other, at="/lab/rack0/more")
    other.expire()
    g.merge(other, at="/lab/rack0/more")


def test_rule_t2_merge_refused_for_present_records_says_so(clock: ManualClock) -> None:
    g, other = halves(clock)
    g.allocate({"power:/pdu0": 400}, job="early", start=0, end=10)
    other.allocate({"power:/pdu0": 400}, job="on", start=0, end=100)
    clock.now_s = 20
    before = facts(g)
    with pytest.raises(MergeConflict, match="held exclusively by on"):
        g.merge(other)
    assert facts(g) == before


def test_rule_t2_random_changes_equal_those_after_expire(deeper: float) -> None:
    """What a graph allows does not depend on whether `expire` was called, and no change ends in an error of the planner."""
    from random import Random

    for seed in range(round(60 * deeper)):
        source, clock = Random(seed), ManualClock()
        g = lab(clock)
        dropped = g.duplicate()
        for step in range(30):
            clock.now_s = float(step)
            dropped.expire()
            change = some_change(source, step)
            answers = [answer(change, each) for each in (dropped, g)]
            assert answers[0] == answers[1], (seed, step)
            made = g.duplicate()
            made.expire()
            assert facts(made) == facts(dropped), (seed, step)
            assert sound(g)


def some_change(source: Any, step: int) -> Change:
    rack, node = source.randrange(2), source.randrange(2)
    pool, cable = f"/lab/rack{rack}/node{2 * rack + node}", ("power:/pdu0", f"/lab/rack{rack}/node{2 * rack + node}", "power")
    capacity, lasts, watts = source.choice([50, 200, 400, 700]), source.randint(1, 6), source.choice([60, 150, 380])
    changes: list[Change] = [
        lambda g: g.set_edge(*cable, capacity=capacity),
        lambda g: g.remove_edge(*cable),
        lambda g: g.add_edge(*cable, relation="supplies", capacity=capacity),
        lambda g: g.move(pool, f"/lab/rack{1 - rack}"),
        lambda g: g.unlink(pool) if step > 20 else None,
    ]
    given: list[Change] = [
        lambda g: g.allocate(f"slot/[node;pdu={watts}]", job=f"n{step}", start=step, duration_s=lasts),
        lambda g: g.allocate(f"/lab/rack{rack}", job=f"r{step}", start=step, duration_s=lasts),
        lambda g: g.allocate(f"slot/[core;pdu={watts}]", job=f"c{step}", start=step + lasts, duration_s=lasts),
    ]
    return source.choice(changes if source.random() < 0.5 else given)


def answer(change: Change, g: ResourceGraph) -> str:
    try:
        change(g)
    except FluxresError as error:
        return f"{type(error).__name__}: {error}"
    return ""
