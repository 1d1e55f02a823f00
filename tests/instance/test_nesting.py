"""Nested instances: rule N1, also for random calls in random order."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fluxres import (
    AuxiliaryGraph,
    Edge,
    InsufficientResources,
    NotHeld,
    Resource,
    ResourceGraph,
    StillHeld,
    UnknownJob,
    UsageError,
    build,
    limits,
)
from fluxres.errors import FluxresError, LimitExceeded, StaleHandle, UnknownPool
from fluxres.instance import Instance, Job, State, accounting
from fluxres.instance.runner import Unattended
from fluxres.simulation.machine import of_number
from tests.instance.machines import ManualClock, of_shape, on_nodes, racks


def top_of(inventory: str = "graph", **settings: Any) -> tuple[Instance, ManualClock]:
    clock = ManualClock()
    return Instance(racks(), clock=clock, name="top", inventory=inventory, **settings), clock


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_n1_a_child_has_what_its_job_holds(inventory: str) -> None:
    top, _ = top_of(inventory)
    job = top.submit("slot=1/rack", duration_s=100)
    child = top.spawn(job, queue_policy="easy")
    assert child.graph.find("type=node and available>0").vertices.size == 4
    assert top.graph.jobs() == [str(job.id)]
    first = child.submit("slot=6/core", duration_s=10)
    assert [path for path, _ in first.pools][-1] == "/cluster/rack0/node1/core1"
    grandchild = child.spawn(first, queue_policy="conservative", match_policy="high")
    leaf = grandchild.submit("slot=6/core")
    assert (grandchild.address, grandchild.depth) == (f"top/{job.id}/{first.id}", 2)
    assert top.find(grandchild.address) is child.find(str(first.id)) is grandchild
    assert [one.name for one in top.walk()] == ["top", str(job.id), str(first.id)]
    assert top.check() == []
    child.finish(first)
    assert (leaf.result, grandchild.is_closed) == ("canceled", True)
    child.close()
    assert (job.result, top.graph.jobs(), top.children) == ("completed", [], [])


def test_an_unknown_state_is_refused_before_pools_are_looked_up() -> None:
    top, _ = top_of()
    for where in ("/cluster/nosuch", "/cluster"):
        with pytest.raises(UsageError, match="no state 'sleepy'"):
            top.set_state(where, "sleepy")
    with pytest.raises(UnknownPool):
        top.set_state("/cluster/nosuch", "down")


def test_a_limit_and_an_urgency_are_changed_together_or_not_at_all() -> None:
    top, _ = top_of()
    every = len(top.graph.find("type=node"))
    runs, waits = (top.submit(f"-N{every} -x", duration_s=60) for _ in range(2))
    assert (runs.state, waits.state) == (State.RUN, State.SCHED)
    for job, urgency in ((runs, 3), (waits, 32)):
        with pytest.raises(UsageError):
            top.set_duration(job, 30, urgency=urgency)
        assert (job.duration_s, job.urgency) == (60, 16)
    top.set_duration(waits, 30, urgency=3)
    assert (waits.duration_s, waits.urgency) == (30, 3)


def test_the_tree_is_shown() -> None:
    top, _ = top_of(queue_policy="easy")
    first, second = (top.spawn(top.submit("slot=1/rack")) for _ in range(2))
    inner = first.spawn(first.submit("slot=1/node"), queue_policy="fcfs", match_policy="high")
    first.submit("slot=4/node")
    assert [(row.address, row.depth, row.queue_policy, row.match_policy) for row in top.tree()] == [
        ("top", 0, "easy", "first"),
        (first.address, 1, "easy", "first"),
        (inner.address, 2, "fcfs", "high"),
        (second.address, 1, "easy", "first"),
    ]
    assert [row.depth for row in first.tree()] == [0, 1]
    shown = [line.split() for line in str(top).splitlines()]
    assert shown[0] == ["INSTANCE", "ADDRESS", "POLICY", "MATCH", "NODES", "RUNNING", "PENDING"]
    assert [(line[-5:-3], line[-2:]) for line in shown[1:]] == [
        (["easy", "first"], ["2", "0"]),
        (["easy", "first"], ["1", "1"]),
        (["fcfs", "high"], ["0", "0"]),
        (["easy", "first"], ["0", "0"]),
    ]


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_n1_siblings_do_not_overlap(inventory: str) -> None:
    top, _ = top_of(inventory, queue_policy="easy")
    children = [top.spawn(top.submit("slot=2/node", duration_s=50)) for _ in range(4)]
    held = [{pool.path for pool in child.graph.find("type=core")} for child in children]
    assert sum(map(len, held)) == len(set().union(*held)) == 32
    assert top.submit("slot=1/node", duration_s=1).state is State.SCHED
    assert top.check() == []


@pytest.mark.parametrize("end", ["close", "fail", "finish", "cancel", "limit", "expire", "parent", "exception"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_n1_everything_is_returned_however_a_child_ends(end: str, inventory: str) -> None:
    top, clock = top_of(inventory)
    middle = top.spawn(top.submit("slot=1/rack", duration_s=100))
    inner = middle.spawn(middle.submit("slot=2/node", duration_s=50))
    running, waiting = inner.submit("slot=8/core", duration_s=20), inner.submit("slot=8/core", duration_s=20)
    above = middle.job_in_parent
    assert above is not None
    assert (running.state, waiting.state) == (State.RUN, State.SCHED)
    expected = {"fail": "failed", "finish": "completed", "cancel": "canceled", "limit": "timeout", "expire": "timeout"}.get(
        end, "completed"
    )
    if end == "close":
        middle.close()
    elif end == "fail":
        middle.fail("broken")
    elif end == "finish":
        top.finish(above)
    elif end == "cancel":
        top.cancel(above)
    elif end == "exception":
        top.exception(above, "exec", note="lost")
        expected = "failed"
    elif end == "parent":
        top.close()
        expected = "canceled"
    else:
        if end == "expire":
            middle.set_expiration(40)
            assert middle.expires_at == 40.0
        clock.now_s = 40.0 if end == "expire" else 100.0
        top.advance()
    assert above.result == expected
    assert {running.state, waiting.state} == {State.INACTIVE}
    assert (inner.is_closed, middle.is_closed) == (True, True)
    with pytest.raises(StaleHandle):
        inner.submit("slot=1/core")
    if end != "parent":
        assert top.graph.jobs() == []
        assert top.submit("slot=2/rack").state is State.RUN


def test_growing_by_a_pool_that_is_held_in_part_is_told_what_is_left() -> None:
    top, _ = top_of("graph")
    child = top.spawn(top.submit("slot=2/node", duration_s=100))
    with pytest.raises(InsufficientResources) as refused:
        child.grow("/cluster/rack0")
    assert refused.value.where == "/cluster/rack0"
    assert "the instance holds /cluster/rack0/node[0-1] already" in str(refused.value)
    assert refused.value.hint == "ask for the rest: /cluster/rack0/node[2-3]"
    assert child.grow(refused.value.hint.partition(": ")[2]) == ["/cluster/rack0/node2", "/cluster/rack0/node3"]
    with pytest.raises(InsufficientResources, match=r"holds /cluster/rack0/node3 already \(name pools that it does not hold\)"):
        child.grow("/cluster/rack0/node3")
    top.submit("slot=1/node", duration_s=100)
    with pytest.raises(InsufficientResources, match="rack1"):
        child.grow("/cluster/rack1")
    assert top.check() == []


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_grow_and_shrink(inventory: str) -> None:
    top, _ = top_of(inventory)
    job = top.submit("slot=2/node", duration_s=100)
    child = top.spawn(job)
    busy = child.submit("slot=2/node", duration_s=10)
    waiting = child.submit("slot=1/node", duration_s=10)
    assert waiting.state is State.SCHED
    assert child.grow("slot=2/node") == ["/cluster/rack0/node2", "/cluster/rack0/node3"]
    assert (waiting.state, waiting.pools) == (State.RUN, [("/cluster/rack0/node2", 1)])
    assert top.check() == []
    with pytest.raises(StillHeld, match=str(busy.id)):
        child.shrink("/cluster/rack0/node0")
    other = top.submit("slot=5/node", duration_s=10)
    assert other.state is State.SCHED
    assert child.shrink(["/cluster/rack0/node3"]) == ["/cluster/rack0/node3"]
    assert other.state is State.RUN
    with pytest.raises(InsufficientResources):
        child.grow("slot=1/node")
    last = child.submit("slot=4/core")
    assert last.state is State.SCHED
    assert top.check() == []
    child.cancel(last)
    child.finish(busy)
    child.shrink(["/cluster/rack0/node0", "/cluster/rack0/node1"])
    child.close()
    assert top.graph.jobs() == [str(other.id)]


@pytest.mark.parametrize("inventory", ["named", "counted", "auto", "graph"])
@pytest.mark.parametrize("is_one_pool", [False, True])
def test_children_grow_and_shrink_by_interchangeable_units_on_any_inventory(inventory: str, *, is_one_pool: bool) -> None:
    if inventory in ("named", "counted") and (inventory == "counted") != is_one_pool:
        return
    graph = of_number(8) if is_one_pool else of_shape("node=8")
    top = Instance(graph, inventory=inventory)

    def units(number: int) -> str:
        return f"slot=1/core={number}" if is_one_pool else f"slot={number}/node"

    child = top.spawn(top.submit(units(2), duration_s=100))
    child.submit(units(2), duration_s=10)
    waiting = child.submit(units(1), duration_s=10)
    child.grow(units(2))
    assert waiting.state is State.RUN
    assert (top.inventory.free_units, child.inventory.free_units) == (4, 1)
    other = top.submit(units(5), duration_s=10)
    assert (other.state, child.shrink_idle(3), other.state) == (State.SCHED, 1, State.RUN)
    assert (top.inventory.free_units, child.inventory.free_units, child.shrink_idle(1)) == (0, 0, 0)
    assert top.inventory.kind in (inventory, "counted" if is_one_pool else "named")
    with pytest.raises(InsufficientResources):
        child.grow(units(1))
    assert top.check() == []
    top.finish(other)
    child.close()
    assert (top.inventory.free_units, top.check()) == (8, [])


@pytest.mark.parametrize("inventory", ["named", "counted", "graph"])
def test_the_size_of_a_job_follows_its_child_also_for_limits_and_the_policy(inventory: str) -> None:
    graph = of_number(8) if inventory == "counted" else of_shape("node=8")
    rules = accounting.of({"users": {"ann": {"max_size_per_job": 5}, "bob": {}}, "accounts": {"root": {"grp_size": 6}}})
    top = Instance(graph, inventory=inventory, accounting=rules, queue_policy="fairshare")
    assert top.ledger is not None

    def units(number: int) -> str:
        return f"slot=1/core={number}" if inventory == "counted" else f"slot={number}/node"

    job = top.submit(units(2), duration_s=100, user="ann")
    child = top.spawn(job)
    child.grow(units(2))
    assert (top.inventory.kind, job.size) == (inventory, 4)
    other = top.submit(units(3), duration_s=10, user="bob")
    assert (other.state, other.limit_reached) == (State.SCHED, f"account root: grp_size is 6 {top.inventory.measure}s")
    with pytest.raises(InsufficientResources, match=r"does not let job [^ ]* have 2 (core|node)s more"):
        child.grow(units(2))
    assert (job.size, top.inventory.free_units, top.check()) == (4, 4, [])
    assert (child.shrink_idle(1), job.size, other.state) == (1, 3, State.RUN)
    with pytest.raises(InsufficientResources, match="the accounting"):
        child.grow(units(1))
    top.finish(other)
    child.grow(units(1))
    child.close()
    assert {(tally.size, tally.running) for tally in top.ledger._tallies.values()} == {(0, 0)}
    assert top.check() == []


def test_the_size_of_a_job_counts_the_cores_of_a_node_that_its_child_got_by_name() -> None:
    top = Instance(of_shape("node=4/core=4"), inventory="graph", accounting=accounting.of({"users": {"ann": {"max_size": 8}}}))
    job = top.submit("slot=1/node", duration_s=100, user="ann")
    child = top.spawn(job)
    sizes = [job.size]
    (path,) = child.grow(["/cluster/node1"])
    sizes.append(job.size)
    with pytest.raises(InsufficientResources, match="4 cores more"):
        child.grow("slot=1/node")
    child.shrink([path])
    assert [*sizes, job.size] == [4, 8, 4]
    assert top.check() == []


def test_units_that_a_job_holds_are_not_returned() -> None:
    top = Instance(of_number(8), inventory="counted")
    child = top.spawn(top.submit("slot=1/core=4"))
    child.submit("slot=1/core=3")
    with pytest.raises(StillHeld, match="2 units to return, but only 1 of 4 are free"):
        child.shrink({"/processors/core": 2})
    assert top.check() == []


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_all_units_of_a_counted_pool_are_returned_by_its_name(inventory: str) -> None:
    top = Instance(of_number(8), inventory="auto")
    job = top.submit("slot=1/core=3", duration_s=100)
    assert top.inventory.kind == "counted"
    child = top.spawn(job, inventory=inventory)
    assert child.shrink("/processors/core") == ["/processors/core"]
    assert (job.pools, top.check()) == ([], [])
    assert top.submit("slot=1/core=8").state is State.RUN


def test_part_of_an_exclusive_pool_is_returned() -> None:
    top, _ = top_of("auto")
    job = top.submit("slot=1/rack", duration_s=100)
    child = top.spawn(job)
    child.shrink("/cluster/rack0/node1/core2")
    child.shrink("/cluster/rack0/node0")
    assert top.check() == []
    assert [path for path, _ in top.submit("slot=1/core").pools] == ["/cluster/rack0/node0/core0"]
    assert [path for path, _ in top.submit("slot=1/node").pools] == ["/cluster/rack1/node0"]
    # What is no longer whole cannot be handed out whole.
    assert child.submit("slot=1/node").pools == [("/cluster/rack0/node2", 1)]
    child.submit("slot=2/node")
    assert child.pending == 1
    top.finish(job)
    assert len(top.graph.jobs()) == 2


def test_wrong_calls_of_children() -> None:
    top, _ = top_of()
    running, waiting = top.submit("slot=8/node"), top.submit("slot=8/node")
    with pytest.raises(UsageError, match="is not running"):
        top.spawn(waiting)
    child = top.spawn(running)
    with pytest.raises(UsageError, match="child already"):
        top.spawn(running)
    with pytest.raises(UnknownJob, match="no instance"):
        top.find(f"top/{waiting.id}")
    for method in (top.grow, top.shrink):
        with pytest.raises(UsageError, match="no parent"):
            method("/cluster/rack0")
    with pytest.raises(UsageError, match="root"):
        child.shrink("/cluster")
    with pytest.raises(UsageError, match="no pools"):
        child.shrink([])
    with pytest.raises(UsageError, match="its job"):
        top.spawn(_other(top)).set_expiration(1e9)


def _other(top: Instance) -> Any:
    for job in top.jobs(State.RUN):
        top.finish(job)
    (job,) = top.jobs(State.RUN)
    top.set_duration(job, 50)
    return job


def test_the_depth_of_the_tree_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INSTANCE_DEPTH_MAX", 3)
    instance, _ = top_of()
    for _ in range(2):
        instance = instance.spawn(instance.submit("slot=8/node"))
    with pytest.raises(LimitExceeded):
        instance.spawn(instance.submit("slot=8/node"))


def test_states_reach_children() -> None:
    top, _ = top_of("auto")
    child = top.spawn(top.submit("slot=1/rack", duration_s=100))
    lost, kept = child.submit("slot=1/node"), child.submit("slot=1/node")
    top.down("/cluster/rack0/node0")
    assert (lost.result, kept.state) == ("failed", State.RUN)
    assert child.submit("slot=3/node").state is State.SCHED
    top.up("/cluster/rack0/node0")
    top.drain("/cluster/rack1/node0")
    assert child.submit("slot=2/node").state is State.SCHED
    assert top.check() == []


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("call", ["submit", "advance", "graph", "of the parent", "of the grandchild", "check"])
def test_rule_a7_states_that_others_set_in_the_graph_of_a_parent_reach_children(call: str, inventory: str) -> None:
    top, _ = top_of(inventory)
    child = top.spawn(top.submit("slot=1/node"))
    running = child.submit("slot=1/core")
    inner = child.spawn(child.submit("slot=3/core"))
    top._graph.set_state(["/cluster/rack0/node0/core0", "/cluster/rack0/node0/core1"], "down")
    assert {one.next_due() for one in (top, child, inner)} == {0.0}
    job = (child if call == "submit" else inner).submit("slot=1/core") if call in ("submit", "of the grandchild") else None
    if call == "advance":
        child.advance()
    elif call == "of the parent":
        top.submit("slot=1/core")
    elif call == "check":
        assert top.check() == []
    elif call == "graph":
        assert len(inner.graph.find("state=down").vertices) == 1
    assert len(child._graph.find("state=down").vertices) == 2
    assert len(inner._graph.find("state=down").vertices) == 1
    assert running.state is State.RUN  # as in the parent: what runs there goes on
    if call == "of the grandchild":
        assert job is not None
        assert job.pools == [("/cluster/rack0/node0/core2", 1)]
    assert inner.submit("slot=1/core").pools != [("/cluster/rack0/node0/core1", 1)]
    child.finish(running)
    assert child.submit("slot=1/core").state is State.SCHED
    with pytest.raises(UsageError, match="it is down in top"):
        child.up("/cluster/rack0/node0/core0")
    top._graph.set_state("/cluster/rack0/node0/core0", "up")
    assert child.graph.find("state=down").vertices.size == 1
    assert (child.pending, top.check()) == (0 if call != "submit" else 1, [])


def test_a_childs_own_state_is_kept_when_others_change_the_graph_of_the_parent() -> None:
    top, _ = top_of()
    child = top.spawn(top.submit("slot=1/node"))
    child.drain("/cluster/rack0/node0/core3")
    top.graph.set_state("/cluster/rack1/node0", "drain")
    top.graph.add_edge("/cluster/rack1/node0", "/cluster/rack1/node1", "wires", hierarchy=False)
    top.graph.set_state("/cluster/rack0/node0/core2", "drain")
    assert [pool.name for pool in child.graph.find("state=drain")] == ["core2", "core3"]
    assert top.check() == []


def test_rule_a7_check_reports_pools_out_of_service_only_in_the_parent() -> None:
    top, _ = top_of()
    child = top.spawn(top.submit("slot=1/node"))
    top.drain("/cluster/rack0/node0/core2")
    child._graph.set_state("/cluster/rack0/node0/core2", "up")
    (problem,) = top.check()
    assert (problem.where, problem.message) == (
        f"{child.address} /cluster/rack0/node0/core2",
        "rule A7: it is drain in the parent, but not here",
    )


@pytest.mark.parametrize("replaced", [True, False])
def test_rule_n1_check_reports_an_edge_that_others_removed_from_the_parent(replaced: bool) -> None:
    machine = supplied()
    top = Instance(machine, name="top")
    child = top.spawn(top.submit("slot/node"))
    machine.remove_edge("power:/pdu0", "/lab/node0", "power")
    if replaced:
        machine.add_edge("power:/pdu0", "/lab/node0", "power", relation="supplies", capacity=250)
    expected = [] if replaced else [f"{child.address} power:/pdu0 -> /lab/node0"]
    assert [problem.where for problem in top.check()] == expected
    assert all(problem.message == "rule N1: the parent no longer has this edge in 'power'" for problem in top.check())


def test_a_changed_duration_reaches_children() -> None:
    top, clock = top_of()
    job = top.submit("slot=1/rack", duration_s=100)
    child = top.spawn(job)
    top.set_duration(job, 30)
    assert child.expires_at == 30.0
    child.submit("slot=4/node")
    clock.now_s = 30.0
    top.advance()
    assert (job.result, child.is_closed) == ("timeout", True)


def _three(policy: str = "easy") -> tuple[Instance, Instance, Instance, ManualClock]:
    """An instance, one on its job of 100 s, and one on a job of 1000 s in that."""
    top, clock = top_of(queue_policy=policy)
    middle = top.spawn(top.submit("slot=1/rack", duration_s=100))
    return top, middle, middle.spawn(middle.submit("slot=2/node", duration_s=1000)), clock


def _moved(what: str, top: Instance, middle: Instance, end: float) -> None:
    job = middle.job_in_parent
    assert job is not None
    if what == "job":
        top.set_duration(job, end)
    elif what == "parent":
        middle.set_expiration(end)
    else:
        top.set_expiration(end)


def test_an_instance_ends_with_the_instances_above_it() -> None:
    top, middle, inner, clock = _three()
    running, waiting = inner.submit("slot=8/core"), inner.submit("slot=8/core", duration_s=200)
    assert (middle.expires_at, inner.expires_at, running.ends_at) == (100, 100, 100)
    assert (waiting.reserved_at, top.check()) == (None, [])
    clock.now_s = 100.0
    top.advance()
    assert (running.result, inner.is_closed, middle.is_closed, top.graph.jobs()) == ("timeout", True, True, [])


@pytest.mark.parametrize("what", ["job", "parent", "top"])
def test_an_end_that_moves_moves_the_ends_of_all_instances_below(what: str) -> None:
    top, middle, inner, clock = _three()
    for end in (40.0, 20.0, 60.0):
        _moved(what, top, middle, end)
        assert (middle.expires_at, inner.expires_at, top.check()) == (end, end, [])
    running = inner.submit("slot=8/core")
    clock.now_s = 60.0
    top.advance()
    assert (running.result, inner.is_closed, middle.is_closed) == ("timeout", True, True)
    assert (top.is_closed, top.check()) == (what == "top", [])


def test_an_expiration_of_its_own_is_kept_when_the_instances_above_end_later_again() -> None:
    top, middle, inner, _ = _three()
    inner.set_expiration(80)
    _moved("parent", top, middle, 50)
    assert inner.expires_at == 50
    middle.set_expiration(None)
    assert (middle.expires_at, inner.expires_at) == (100, 80)
    inner.set_expiration(None)
    assert inner.expires_at == 100


@pytest.mark.parametrize("what", ["job", "parent", "top"])
def test_what_would_last_longer_than_an_instance_above_is_refused_with_the_way_out(what: str) -> None:
    top, middle, inner, _ = _three()
    _moved(what, top, middle, 50)
    above = middle.job_in_parent
    assert above is not None
    way_out = {"job": f"extend job {above.id} of top first", "parent": f"let {middle.address} expire later first"}.get(
        what, "let top expire later first"
    )
    with pytest.raises(InsufficientResources, match="this instance ends at 50 s") as refused:
        inner.reserve("slot=1/node", start_s=45, duration_s=10)
    assert refused.value.hint == f"end before, or {way_out}"
    with pytest.raises(UsageError, match="its parent ends at 50 s") as unset:
        inner.set_expiration(60)
    assert unset.value.hint == way_out
    assert inner.expires_at == 50


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_child_ends_when_others_end_its_job(when: str) -> None:
    top, clock = top_of(queue_policy="easy")
    job = top.submit("slot=1/rack", duration_s=1000)
    child = top.spawn(job) if when == "before" else None
    top.graph.set_end(str(job.id), 50)
    top.advance()
    child = child or top.spawn(job)
    inner = child.submit("slot=4/node", duration_s=100)
    waiting = child.submit("slot=4/node", duration_s=100)
    assert (child.expires_at, inner.ends_at, waiting.reserved_at, top.check()) == (50, 50, None, [])
    with pytest.raises(InsufficientResources, match="ends at 50 s"):
        child.reserve("slot=1/node", start_s=200, duration_s=10)
    clock.now_s = 50.0
    top.advance()
    assert (child.is_closed, top.graph.jobs(), top.check()) == (True, [], [])
    assert (job.result, inner.result) == ("canceled", "canceled")
    assert [one.note for one in job.exceptions] == ["others have freed what it held"]


def test_instances_end_when_others_end_a_job_above_them() -> None:
    top, middle, inner, clock = _three()
    above = middle.job_in_parent
    assert above is not None
    running = inner.submit("slot=8/core")
    top.graph.set_end(str(above.id), 50)
    top.advance()
    assert (middle.expires_at, inner.expires_at, running.ends_at) == (50, 50, 50)
    clock.now_s = 50.0
    top.advance()
    assert (running.result, above.result, inner.is_closed, middle.is_closed) == ("canceled", "canceled", True, True)
    assert (top.graph.jobs(), top.check()) == ([], [])


class Tree(RuleBasedStateMachine):
    """Random calls of random instances: all rules hold after each step, and at the end everything is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.top, self.clock = top_of(self.inventory, queue_policy="easy")

    inventory = "graph"

    def one(self, which: int) -> Instance:
        found = list(self.top.walk())
        return found[which % len(found)]

    def job(self, instance: Instance, which: int) -> Any:
        found = [job for job in instance.jobs() if job.state is not State.INACTIVE]
        return found[which % len(found)] if found else None

    def attempt(self, call: Any, *args: Any, **given: Any) -> None:
        with contextlib.suppress(FluxresError):  # a refusal is fine, as long as nothing is lost by it
            call(*args, **given)

    pick = st.integers(0, 7)

    @rule(
        where=pick, size=st.integers(1, 4), kind=st.sampled_from(["node", "core", "rack"]), length=st.sampled_from([None, 5, 50])
    )
    def submit(self, where: int, size: int, kind: str, length: float | None) -> None:
        self.attempt(self.one(where).submit, f"slot={size}/{kind}", duration_s=length)

    @rule(where=pick, which=pick, policy=st.sampled_from([None, "fcfs", "conservative"]))
    def spawn(self, where: int, which: int, policy: str | None) -> None:
        instance = self.one(where)
        job = self.job(instance, which)
        if job is not None:
            self.attempt(instance.spawn, job, queue_policy=policy)

    @rule(where=pick, which=pick, how=st.sampled_from(["finish", "cancel"]))
    def end(self, where: int, which: int, how: str) -> None:
        instance = self.one(where)
        job = self.job(instance, which)
        if job is not None:
            self.attempt(getattr(instance, how), job)

    @rule(where=pick, how=st.sampled_from(["close", "fail"]))
    def end_instance(self, where: int, how: str) -> None:
        instance = self.one(where)
        if instance is not self.top:
            self.attempt(getattr(instance, how))

    @rule(where=pick, size=st.integers(1, 2), kind=st.sampled_from(["node", "core"]))
    def grow(self, where: int, size: int, kind: str) -> None:
        self.attempt(self.one(where).grow, f"slot={size}/{kind}")

    @rule(where=pick, which=st.integers(0, 40))
    def shrink(self, where: int, which: int) -> None:
        instance = self.one(where)
        structure = instance.graph.structure
        self.attempt(instance.shrink, [structure.path(which % structure.n)])

    @rule(where=pick, which=st.integers(0, 40), state=st.sampled_from(["down", "drain", "up", "up"]))
    def state(self, where: int, which: int, state: str) -> None:
        structure = self.top.graph.structure
        self.top.set_state([structure.path(which % structure.n)], state)

    @rule(length=st.integers(1, 20))
    def wait(self, length: int) -> None:
        self.clock.now_s += length
        self.top.advance()

    @invariant()
    def rules_hold(self) -> None:
        assert self.top.check() == []

    def teardown(self) -> None:
        for child in self.top.children:
            child.close()
        for job in self.top.jobs():
            if job.state is not State.INACTIVE:
                self.top.cancel(job)
        assert self.top.graph.jobs() == []


class AdaptiveTree(Tree):
    inventory = "auto"


TestTree = Tree.TestCase
TestTree.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestAdaptiveTree = AdaptiveTree.TestCase
TestAdaptiveTree.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_a_job_waits_for_pools_of_a_type_that_its_instance_returned(inventory: str, policy: str) -> None:
    top = Instance(of_shape("node=1/core=2"), clock=ManualClock(), inventory="graph")
    child = top.spawn(top.submit("slot=1/node"), inventory=inventory, queue_policy=policy)
    first, waiting = (child.submit("slot=2/core", duration_s=10) for _ in range(2))
    child.finish(first)
    child.finish(waiting)
    held = child.submit("slot=2/core", urgency=0)
    child.shrink([f"/cluster/node0/core{n}" for n in range(2)])
    child.set_urgency(held, 16)
    assert (held.state, child.check()) == (State.SCHED, [])
    child.grow([f"/cluster/node0/core{n}" for n in range(2)])
    assert held.state is State.RUN
    assert top.check() == []


@pytest.mark.parametrize("holds", ["allocation", "reservation", "whole", "stage", "edge"])
def test_rule_n1_a_pool_that_others_hold_in_a_child_is_not_returned(holds: str) -> None:
    top = Instance(supplied(), name="top")
    job = top.submit("slot/[node;power=90]")
    child = top.spawn(job)
    where = {"edge": "power: power:/pdu0 -> /lab/node0", "whole": "/lab/node0"}.get(holds, "/lab/node0/core0")
    if holds == "stage":
        child.graph.stage(where, job="outsider")
    else:
        child.graph.allocate({where: 1}, job="outsider", start=5 if holds == "reservation" else 0, end=9)
    pdu = child.graph.pool("power:/pdu0")
    before = pdu.size, pdu.available(), len(child.graph), top.graph.allocation(str(job.id)).spans
    with pytest.raises(StillHeld, match="outsider holds"):
        child.shrink("/lab/node0")
    pdu = child.graph.pool("power:/pdu0")
    assert (pdu.size, pdu.available(), len(child.graph), top.graph.allocation(str(job.id)).spans) == before
    assert top.check() == []


def test_rule_n1_two_pools_are_returned_together_or_not_at_all() -> None:
    top = Instance(supplied(), name="top")
    job = top.submit("slot=2/node")
    child = top.spawn(job)
    child.graph.allocate("/lab/node1/core0", job="outsider")
    with pytest.raises(StillHeld, match="outsider holds"):
        child.shrink(["/lab/node0", "/lab/node1"])
    assert [pool.path for pool in child.graph.find("type=node")] == ["/lab/node0", "/lab/node1"]
    assert [span.pool for span in top.graph.allocation(str(job.id)).spans] == ["/lab/node0", "/lab/node1"]
    child.graph.free("outsider")
    assert child.shrink(["/lab/node0", "/lab/node1"]) == ["/lab/node0", "/lab/node1"]


def test_rule_n1_a_pool_that_the_job_in_the_parent_no_longer_holds_cannot_be_returned() -> None:
    top = Instance(supplied(), name="top")
    job = top.submit("slot=2/node")
    child = top.spawn(job)
    top.graph.free(str(job.id), ["/lab/node1"])
    with pytest.raises(NotHeld, match=f"/lab/node1: job {job.id} no longer holds it .*close the instance"):
        child.shrink(["/lab/node0", "/lab/node1"])
    assert [pool.path for pool in child.graph.find("type=node")] == ["/lab/node0", "/lab/node1"]
    assert [span.pool for span in top.graph.allocation(str(job.id)).spans] == ["/lab/node0"]


def test_a_pass_through_pool_cannot_be_returned() -> None:
    top = Instance(supplied(), name="top")
    job = top.submit("slot=3/core")
    child = top.spawn(job)
    child.shrink("/lab/node1/core0")
    before = len(child.graph), top.graph.allocation(str(job.id)).spans
    for wanted in ("/lab/node1", ["/lab/node0/core1", "/lab/node1"]):
        with pytest.raises(NotHeld, match=r"/lab/node1: the instance has no units of it, .*\(graph\.find\('available>0'\) lists"):
            child.shrink(wanted)
        assert (len(child.graph), top.graph.allocation(str(job.id)).spans) == before
    child.shrink("/lab/node0")
    with pytest.raises(NotHeld, match="the instance has no units of it"):
        child.shrink("/lab/node1")
    assert top.check() == []


def test_the_hint_for_a_request_finds_pools_to_return() -> None:
    top = Instance(of_shape("node=4/core=2"), name="top")
    child = top.spawn(top.submit("slot=3/node"))
    child.submit("slot/node")
    child.submit("slot/core")
    with pytest.raises(UsageError, match="expected pools to return, got a request") as refused:
        child.shrink("slot/node")
    (criteria,) = re.findall(r"graph\.find\('(.+)'\)", refused.value.hint)
    assert child.shrink(child.graph.find(criteria)) == ["/cluster/node2"]


def test_reservations_in_a_child_are_made_again_when_a_shrink_is_refused() -> None:
    top = Instance(supplied(), queue_policy="easy", name="top")
    child = top.spawn(top.submit("slot=2/[node;power=100]"))
    child.submit("slot/core", duration_s=10)
    child.graph.allocate({"power:/pdu0": 150}, job="outsider")
    waiting = child.submit("slot=2/node", duration_s=10)
    assert waiting.reserved_at == 10
    with pytest.raises(StillHeld, match="draw 150 of it, but only 100 would be left"):
        child.shrink("/lab/node1")
    assert (waiting.reserved_at, top.check()) == (10, [])


def test_rule_n1_a_returned_node_is_removed_from_the_instances_below() -> None:
    top = Instance(supplied(), name="top")
    other = top.submit("slot/[core=1;power=100]")
    child = top.spawn(top.submit("slot=3/core"))
    inner = child.spawn(child.submit("slot=2/core"))
    innermost = inner.spawn(inner.submit("slot=2/core"))
    for one in (innermost, inner):
        one.shrink("/lab/node0/core1")
    child.shrink("/lab/node0")
    for one in (child, inner, innermost):
        assert [pool.path for pool in one.graph.find("type=node")] == ["/lab/node1"]
    assert top.check() == []
    more = top.submit("slot/[core=1;power=50]")
    assert (more.pools[0], top.check()) == (("/lab/node0/core1", 1), [])
    top.finish(other)
    top.finish(more)
    assert (top.check(), innermost.graph.pool("power:/pdu0").available()) == ([], 300)
    child.grow("/lab/node0")
    assert top.check() == []


def supplied() -> ResourceGraph:
    """Two nodes of two cores, supplied by one PDU through cables with a capacity."""
    pdu = Resource("pdu", 1, id=[0], size=300, unit="W")
    edges = [Edge("power:/pdu0", "/lab/node*", relation="supplies", capacity=300)]
    power = AuxiliaryGraph(hierarchy=True, pools=[pdu], edges=edges)
    return build(Resource("node", 2, children=[Resource("core", 2)]), name="lab", graphs={"power": power})


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("policy", ["easy", "hybrid", "conservative"])
@pytest.mark.parametrize("limit_s", [10, 20])
def test_a_child_does_not_grow_by_what_its_parent_has_reserved(inventory: str, policy: str, limit_s: int) -> None:
    top, clock = on_nodes(6, policy, inventory=inventory)
    child = top.spawn(top.submit("slot=1/node", duration_s=1000))
    ends = top.submit("slot=2/node", duration_s=10)
    head = top.submit("slot=4/node", duration_s=limit_s)
    assert head.reserved_at == 10.0
    child.grow("slot=1/node")
    for _ in range(2):
        with pytest.raises(InsufficientResources):
            child.grow("slot=1/node")
        assert head.reserved_at == 10.0
    clock.now_s = 10.0
    top.finish(ends)
    assert (head.state.name, top.check()) == ("RUN", [])


class ClosingRunner(Unattended):
    """Reports the end of a job as soon as it is asked to stop it, and ends its instance, or the job of that, as well."""

    def __init__(self, way: str) -> None:
        self.way = way

    def stop(self, job: Job, why: str) -> None:
        instance = job.instance
        if self.way == "parent first":
            self.end_parent(instance)
        instance.finish(job, 15)
        if self.way == "close":
            instance.close()
        elif self.way == "parent":
            self.end_parent(instance)

    @staticmethod
    def end_parent(instance: Instance) -> None:
        assert instance.parent is not None
        assert instance.job_in_parent is not None
        with contextlib.suppress(UsageError):  # it has finished already
            instance.parent.finish(instance.job_in_parent, 256)


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("way", ["close", "parent", "parent first"])
@pytest.mark.parametrize("call", ["finish", "cancel", "close", "fail", "expire"])
@pytest.mark.parametrize("n", [1, 2])
def test_a_runner_may_end_its_instance_or_its_job_while_it_is_ending(call: str, way: str, inventory: str, n: int) -> None:
    ended: list[Job] = []
    top, clock = on_nodes(2, inventory=inventory)
    job = top.submit("slot=2/node", duration_s=10)
    child = top.spawn(job, runner=ClosingRunner(way), sink=ended.append)
    after = top.submit("slot=2/node", duration_s=10)
    inside = [child.submit("slot/node") for _ in range(n)]
    if call in ("finish", "cancel"):
        getattr(top, call)(job)
    elif call == "expire":
        clock.now_s = 10.0
        top.advance()
    else:
        getattr(child, call)()
    if job.state is State.CLEANUP:  # it was asked to stop, and nobody has said yet that it did
        top.finish(job)
    assert (ended, child.is_closed, top.children, job.state, after.state) == (inside, True, [], State.INACTIVE, State.RUN)
    assert [event.name for event in job.events or ()].count("finish") == 1
    assert all(failure.severity == 0 for failure in job.exceptions)  # nobody was asked to stop a job that had ended
    assert (top.check(), top.graph.jobs()) == ([], [str(after.id)])


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_job_starts_when_the_reservation_that_blocked_it_is_lost_with_a_node(inventory: str) -> None:
    top, _ = on_nodes(6)
    child = top.spawn(top.submit("slot=4/node"), queue_policy="easy", inventory=inventory)
    child.submit("slot=1/node", duration_s=100)
    all_of_it = child.submit("slot=4/node", duration_s=50)
    job = child.submit("slot=1/node", duration_s=1000)
    assert (all_of_it.reserved_at, job.state.name) == (100.0, "SCHED")
    waiting = top.submit("slot=3/node")
    child.shrink(child.graph.find("type=node and allocated=0")[-1].path)
    assert (all_of_it.reserved_at, job.state.name, waiting.state.name, top.check()) == (None, "RUN", "RUN", [])
