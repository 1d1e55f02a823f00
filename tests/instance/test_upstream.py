"""Power and bandwidth in trees of instances: what a child draws is charged to the pools of its parent (rule N1)."""

from __future__ import annotations

import math
import pickle
from itertools import accumulate
from random import Random
from typing import Any

import pytest

import fluxres
from fluxres import (
    AuxiliaryGraph,
    Edge,
    InfeasibleRequest,
    InsufficientResources,
    MergeConflict,
    Resource,
    ResourceGraph,
    StaleHandle,
    StillHeld,
    UsageError,
    build,
    limits,
)
from fluxres.clock import TICKS_PER_S, seconds
from fluxres.documents.source import Source
from fluxres.formats.cluster import read as cluster
from fluxres.graph.structure import Problem
from fluxres.instance import Instance, Job, Runner, State
from fluxres.instance.queue import Queue, QueuePolicy
from fluxres.simulation.nesting.hierarchy import Hierarchy
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission
from fluxres.syntax.jobspec import as_request
from tests import sites
from tests.instance.machines import ManualClock

SITE = sites.TWO_PDUS


def site() -> ResourceGraph:
    """Six nodes, three on each of two PDUs of 1,000 W, below one feed of 1,500 W."""
    return sites.graph(SITE)


def watts(graph: ResourceGraph) -> dict[str, int]:
    return {pool.name: pool.allocated() for pool in graph.find("type=power")}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def top(clock: ManualClock) -> Instance:
    return Instance(site(), queue_policy="easy", clock=clock, name="top")


def test_rule_n1_children_draw_from_one_supplier(top: Instance, clock: ManualClock) -> None:
    first, second = (top.spawn(top.submit("slot=1/node", duration_s=1000)) for _ in range(2))
    a = first.submit("slot=1/[node;power=900]", duration_s=100)
    b = second.submit("slot=1/[core;power=900]", duration_s=100)
    c = top.submit("slot=1/[core;power=600]", duration_s=50)
    assert [job.state.name for job in (a, b, c)] == ["RUN", "SCHED", "RUN"]
    assert watts(top.graph) == {"feed": 1500, "pdu0": 900, "pdu1": 600}
    assert watts(first.graph) == watts(second.graph) == {"feed": 1500, "pdu0": 900}  # what others draw shows as held
    assert b.reserved_at == 100.0  # it knows when the other one ends
    assert top.check() == []
    clock.now_s = 100.0
    top.advance()
    assert [job.state.name for job in (a, b, c)] == ["INACTIVE", "RUN", "INACTIVE"]
    assert watts(top.graph) == {"feed": 900, "pdu0": 900, "pdu1": 0}
    assert top.check() == []
    second.close()
    assert watts(top.graph) == {"feed": 0, "pdu0": 0, "pdu1": 0}


CABLES = SITE.replace('"/site/node[0-2]"}', '"/site/node[0-2]", capacity: 700}').replace(
    '"/site/node[3-5]"}', '"/site/node[3-5]", capacity: 700}'
)


def cables(graph: ResourceGraph) -> dict[str, int]:
    """What is drawn through each cable, if anything is."""
    graph.now()
    accounts = graph.structure.accounts
    used = {accounts.said(v): graph.planner.used(v, 0, 1) for v in range(graph.structure.n, accounts.n)}
    return {name.rpartition("/")[2]: units for name, units in used.items() if units}


def test_rule_n1_a_child_draws_through_the_cables_of_its_parent(clock: ManualClock) -> None:
    top = Instance(sites.graph(CABLES), queue_policy="easy", clock=clock, name="top")
    first = top.spawn(top.submit("node=2/core=2{x}", duration_s=1000))
    second = top.spawn(top.submit("node=2/core=2{x}", duration_s=1000))
    a = first.submit("[node{id:'0'}/core{x};power=400]", duration_s=100)
    # Both have cores in node0 and node1: 700 W go through a cable, whichever job draws them.
    b = second.submit("[node{id:'0'}/core{x};power=400]", duration_s=100)
    c = second.submit("[node{id:'1'}/core{x};power=300]", duration_s=100)
    assert [job.state.name for job in (a, b, c)] == ["RUN", "SCHED", "RUN"]
    assert cables(top.graph) == cables(first.graph) == cables(second.graph) == {"node0": 400, "node1": 300}
    assert top.check() == []
    grandchild = first.spawn(first.submit("core{x}", duration_s=500))
    grandchild.submit("[core{x};power=300]", duration_s=50)
    assert cables(top.graph) == {"node0": 700, "node1": 300}
    assert top.check() == []
    first.close()
    assert cables(top.graph) == {"node0": 400, "node1": 300}
    assert [job.state.name for job in (b, c)] == ["RUN", "RUN"]
    second.close()
    assert cables(top.graph) == {}


def test_a_child_with_watts_has_its_part_of_the_cables(clock: ManualClock) -> None:
    top = Instance(sites.graph(CABLES), queue_policy="easy", clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/[node;power=500]", duration_s=1000))
    assert child.graph.satisfiable("slot=1/[core;power=500]")
    assert not child.graph.satisfiable("slot=1/[core;power=501]")
    child.submit("slot=1/[core;power=400]", duration_s=100)
    assert (cables(child.graph), cables(top.graph)) == ({"node0": 400}, {"node0": 500})
    # Its second node comes with watts of its own.
    child.grow("slot=1/[node;power=200]")
    assert child.graph.satisfiable("slot=2/[node;power=200]")
    assert not child.graph.satisfiable("slot=1/[node{id:'1'};power=201]")
    assert top.check() == []


@pytest.mark.parametrize("least", [1, 4], ids=["one unit here and more elsewhere", "one of several units"])
def test_rule_n1_a_part_of_a_supply_without_a_unit_counts_as_all_of_it(least: int, clock: ManualClock) -> None:
    """A child with a single unit of each supplier counts like its parent, and so do its children and what it grows by."""
    pdus = [{"type": "power", "basename": "pdu", "id": [i], "size": size} for i, size in enumerate((least, 4))]
    edges = [{"from": f"power:/feed/pdu{i}", "to": f"/site/node[{2 * i}-{2 * i + 1}]", "capacity": 4} for i in range(2)]
    feed = {"type": "power", "basename": "feed", "size": 8, "id": None, "with": pdus}
    node = {"type": "node", "count": 4, "with": [{"type": "core", "count": 2}]}
    graphs = {"power": {"hierarchy": True, "pools": [feed], "edges": edges}}
    site = fluxres.load({"fluxres": 1, "name": "site", "resources": [node], "graphs": graphs})
    top = Instance(site, queue_policy="easy", clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/[node{id:'0'};power=1]", duration_s=1000))
    first = child.submit("slot=1/[core;power=1]", duration_s=10)
    assert cables(child.graph) == cables(top.graph) == {"node0": 1}
    assert top.check() == []
    child.finish(first)
    grandchild = child.spawn(child.submit("slot=1/[core;power=1]", duration_s=100))
    grandchild.submit("slot=1/[core;power=1]", duration_s=10)
    assert cables(grandchild.graph) == {"node0": 1}
    assert top.check() == []
    child.grow("slot=1/node{id:'2'}")
    child.shrink("/site/node2")
    assert cables(child.graph) == {"node0": 1}
    assert cables(pickle.loads(pickle.dumps(child.graph))) == {"node0": 1}
    assert top.check() == []


def test_rule_n1_the_path_to_the_root_is_charged_at_every_level(top: Instance) -> None:
    child = top.spawn(top.submit("slot=2/node", duration_s=1000))
    grandchild = child.spawn(child.submit("slot=1/node", duration_s=500))
    grandchild.submit("slot=1/[core;power=400]", duration_s=10)
    for instance in (top, child, grandchild):
        assert [watts(instance.graph)[name] for name in ("feed", "pdu0")] == [400, 400]
    (job,) = (job for job in top.jobs() if job.child is child)
    held = {span.pool: span.amount for span in top.graph.allocation(str(job.id)).spans}
    assert held["power:/feed"] == 400
    assert top.check() == []
    grandchild.fail("gone")
    assert watts(top.graph) == {"feed": 0, "pdu0": 0, "pdu1": 0}
    assert top.check() == []


def test_a_child_with_watts_has_no_others(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node;power=500]", duration_s=1000))
    assert [pool.available() for pool in child.graph.find("type=power")] == [500, 500]  # of the feed, and of its PDU
    with pytest.raises(InfeasibleRequest):
        child.submit("slot=1/[core;power=501]")
    first, second = (child.submit("slot=1/[core;power=300]", duration_s=10) for _ in range(2))
    assert (first.state.name, second.state.name) == ("RUN", "SCHED")
    assert watts(top.graph) == {"feed": 500, "pdu0": 500, "pdu1": 0}
    assert top.check() == []


@pytest.mark.parametrize("where", ["/site", "power:/feed", "power:/feed/pdu0"])
def test_rule_n1_a_copy_without_an_instance_has_no_units_of_pass_through_pools(where: str) -> None:
    graph = site()
    graph.allocate("/site/node0", job="j")
    for part in (graph.copy(job="j"), graph.copy("/site/node1")):
        assert part.pool(where).available() == 0
        assert part.aggregate() == {"node": 1, "core": 4, "memory": 8}
        with pytest.raises(InfeasibleRequest, match="only a pass-through"):
            part.allocate([(where, 1)], job="x")
        assert not part.satisfiable("slot=1/[node;power=1]")
        assert part.satisfiable("slot=4/core")


def test_rule_n1_units_of_a_pass_through_composite_do_not_belong_to_the_child() -> None:
    text = "fluxres: 1\nname: c\nresources: [{type: blade, count: 1, size: 4, with: [{type: core, count: 8}]}]\n"
    graph = ResourceGraph(cluster.read(Source(text.encode(), "c.yaml")).structure)
    graph.allocate([("/c/blade0", 3)], job="other")
    graph.allocate("/c/blade0/core0", job="j")
    child = graph.copy(job="j")
    assert child.aggregate() == {"core": 1}
    with pytest.raises(InfeasibleRequest):
        child.allocate([("/c/blade0", 1)], job="x")
    assert not child.satisfiable("blade=1{x}")
    child.allocate("blade/slot/core", job="x")
    assert child.check() == []


def test_a_returned_node_is_in_no_graph_of_the_child(top: Instance) -> None:
    child = top.spawn(top.submit("slot=2/node", duration_s=1000))
    child.shrink(["/site/node1"])
    other = top.submit("slot=1/node", duration_s=1000)
    assert other.pools == [("/site/node1", 1)]
    assert child.graph.find("type=node").paths() == ["/site/node0"]
    with pytest.raises(InfeasibleRequest):
        child.submit("slot=2/node")
    assert top.check() == []
    top.finish(other)
    child.grow("slot=1/core")
    with pytest.raises(InfeasibleRequest):
        child.submit("slot=2/node")
    assert top.check() == []


def test_a_later_limit_extends_what_is_drawn_if_that_is_free(top: Instance) -> None:
    job = top.submit("slot=1/node", duration_s=100)
    child = top.spawn(job)
    child.submit("slot=1/[core;power=900]", duration_s=500)
    top.graph.allocate([("power:/feed/pdu0", 200)], job="reserved", start=100, end=300)
    with pytest.raises(InsufficientResources):
        top.set_duration(job, 200)
    assert breaks(top, "N1") == []
    top.graph.free("reserved")
    top.set_duration(job, 200)
    assert top.graph.pool("power:/feed/pdu0").available(at=150) == 100
    assert top.graph.pool("power:/feed/pdu0").available(at=250) == 1000
    assert top.check() == []


def test_a_child_does_not_grow_by_watts_that_it_draws_on_request(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/node", duration_s=100))
    running = child.submit("slot=1/[core;power=100]", duration_s=50)
    with pytest.raises(StillHeld, match="draw units of it that the parent grants on request"):
        child.grow("slot=1/[node;power=200]")
    child.finish(running)
    child.grow("slot=1/[node;power=200]")
    assert top.check() == []
    with pytest.raises(InfeasibleRequest):
        child.submit("slot=1/[core;power=201]")


def breaks(top: Instance, rule: str) -> list[Problem]:
    return [problem for problem in top.check() if rule in problem.message]


def test_check_reports_what_a_child_draws_and_its_parent_does_not(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/node", duration_s=100))
    child.submit("slot=1/[core;power=100]", duration_s=50)
    (holder,) = top.graph.jobs()
    top.graph.shrink(holder, {"power:/feed/pdu0": 100})
    assert [problem.where for problem in breaks(top, "N1")] == [f"{child.address} power:/feed/pdu0"]


def test_check_reports_a_unit_of_a_child_that_the_parent_gave_to_others(top: Instance) -> None:
    child = top.spawn(top.submit("slot=2/node", duration_s=100))
    (holder,) = top.graph.jobs()
    top.graph.free(holder, "/site/node0")
    problems = breaks(top, "N1")
    assert f"{child.address} /site/node0" in [problem.where for problem in problems]


@pytest.mark.parametrize("fan_outs", [(), (2,), (3,), (1, 2)])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_rule_n1_a_cap_holds_in_simulations_of_nested_schedulers(fan_outs: tuple[int, ...], policy: str) -> None:
    source, second = Random(3), TICKS_PER_S
    draws = source.choices([200, 400, 700], k=36)
    jobs = [
        Submission(
            n,
            n * 30 * second,
            source.randrange(10, 300) * second,
            400 * second,
            as_request(f"slot=1/[node{{x}};power={drawn}]"),
        )
        for n, drawn in enumerate(draws)
    ]
    hierarchy = Hierarchy(fan_outs=fan_outs, queue_policies=(policy,), ahead=0) if fan_outs else None
    simulator = Simulator(site(), queue_policy=policy, hierarchy=hierarchy)
    result = simulator.run(jobs)
    assert result.metrics.jobs == 36
    assert simulator.instance.check() == []
    assert simulator.schedule is not None
    events = [(t, sign * draws[int(job)]) for job, _, start, end, _ in simulator.schedule for t, sign in ((start, 1), (end, -1))]
    assert max(accumulate(drawn for _, drawn in sorted(events))) <= 1500


def test_rule_n1_check_reports_an_overcommitted_supplier_of_the_parent(top: Instance, clock: ManualClock) -> None:
    child = top.spawn(top.submit("slot=1/node", duration_s=1000))
    child.submit("slot=1/[core;power=900]", duration_s=100)
    v = top.graph.vertex("power:/feed/pdu0")
    for job, units in (("intruder", 900), ("other", 200)):
        top.graph.records.held[v][job] = ((0, 50 * TICKS_PER_S, units),)
    top.graph.revision += 1
    found = [problem.message for problem in top.check() if problem.where.endswith("power:/feed/pdu0")]
    assert "A1, A2: 2000 of 1000 units are held from tick 0 on, by ƒ1 and intruder and other" in found
    assert "rule N1: what other instances draw does not show in the child" in found
    assert child.submit("slot=1/[core;power=200]").state.name == "SCHED"  # what is left of the pool shows as held elsewhere


def test_rule_n1_a_grandchild_has_the_units_of_a_cable_that_its_job_has(clock: ManualClock) -> None:
    top = Instance(sites.graph(CABLES), queue_policy="easy", clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/node", duration_s=1000))
    grandchild = child.spawn(child.submit("slot=1/[core;power=300]", duration_s=500))
    assert top.check() == []
    assert cables(top.graph) == cables(child.graph) == {"node0": 300}
    assert grandchild.graph.satisfiable("slot=1/[core;power=300]")
    assert not grandchild.graph.satisfiable("slot=1/[core;power=301]")
    grandchild.submit("slot=1/[core;power=200]", duration_s=100)
    assert cables(grandchild.graph) == {"node0": 200}
    assert cables(top.graph) == {"node0": 300}
    assert top.check() == []


def test_rule_t1_a_late_job_keeps_its_part_of_a_cable(clock: ManualClock) -> None:
    top = Instance(
        sites.graph(CABLES),
        clock=clock,
        name="top",
        runner=ManualRunner(),
    )
    job = top.submit("slot=1/[core;power=300]", duration_s=10)
    clock.now_s = 12.0
    top.advance()
    assert (job.state.name, cables(top.graph)) == ("CLEANUP", {"node0": 300})
    assert top.check() == []
    top.finish(job)
    assert cables(top.graph) == {}


class ManualRunner(Runner):
    """A runner that leaves it to the test to report the end of jobs."""

    def start(self, job: Job) -> None: ...

    def stop(self, job: Job, why: str) -> None: ...


@pytest.mark.parametrize("level", [0, 1, 2])
def test_rule_a7_a_late_job_continues_to_draw_from_a_drained_supplier(level: int, clock: ManualClock) -> None:
    top = Instance(site(), queue_policy="easy", clock=clock, name="top", runner=ManualRunner())
    inner = top
    for _ in range(level):
        inner = inner.spawn(inner.submit("slot=1/node", duration_s=1000))
    job = inner.submit("slot=1/[core;power=300]", duration_s=10)
    top.drain("power:/feed/pdu0")
    clock.now_s = 5.0
    inner.set_duration(job, 11)
    assert watts(top.graph)["pdu0"] == 300
    clock.now_s = 13.0
    top.advance()
    assert (job.state.name, [failure.type for failure in job.exceptions]) == ("CLEANUP", ["timelimit"])
    assert watts(top.graph)["pdu0"] == watts(inner.graph)["pdu0"] == 300
    assert top.check() == []
    new = inner.submit("slot=1/[node{id:'0'}/core{x};power=100]", duration_s=10)
    assert new.state.name == "SCHED"


def test_rule_n1_a_child_past_its_limit_cannot_return_single_pools(clock: ManualClock) -> None:
    top = Instance(site(), clock=clock, name="top", runner=ManualRunner())
    child = top.spawn(top.submit("slot=1/node", duration_s=10))
    clock.now_s = 10.0
    with pytest.raises(StaleHandle, match="past its limit"):
        child.shrink(["/site/node0/core1"])
    assert top.check() == []


@pytest.mark.parametrize("call", ["advance", "late"])
def test_rule_t1_a_late_job_keeps_watts_that_another_instance_has_reserved(call: str, clock: ManualClock) -> None:
    top = Instance(site(), queue_policy="easy", clock=clock, name="top", runner=ManualRunner())
    child = top.spawn(top.submit("slot=1/node", duration_s=1000), queue_policy="conservative")
    late = top.submit("slot=1/[node;power=900]", duration_s=10)
    waiting = child.submit("slot=1/[core;power=900]", duration_s=100)
    assert (late.state.name, waiting.state.name, waiting.reserved_at) == ("RUN", "SCHED", 10.0)
    for now in (10.0, 12.0) if call == "advance" else (12.0,):
        clock.now_s = now
        top.advance()
        assert (late.state.name, waiting.state.name, watts(top.graph)["pdu0"]) == ("CLEANUP", "SCHED", 900)
        assert [failure.type for failure in late.exceptions] == ["timelimit"]
        assert waiting.reserved_at is not None
        assert waiting.reserved_at > now
        assert top.check() == []
    top.finish(late)
    assert (waiting.state.name, watts(top.graph)["pdu0"]) == ("RUN", 900)


def test_rule_n1_an_edge_has_the_capacity_of_the_parent_in_a_grandchild(clock: ManualClock) -> None:
    top = Instance(sites.graph(CABLES), queue_policy="easy", clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/[node;power=300]", duration_s=1000))
    grandchild = child.spawn(child.submit("slot=1/core=2", duration_s=500))
    assert grandchild.graph.satisfiable("slot=1/[core;power=300]")
    with pytest.raises(InfeasibleRequest, match="300 W of 300 W"):
        grandchild.submit("slot=1/[core;power=400]")
    assert grandchild.submit("slot=1/[core;power=200]", duration_s=100).state.name == "RUN"
    assert cables(child.graph) == {"node0": 200}
    assert top.check() == []


def test_a_failed_pdu_fails_only_the_jobs_that_it_supplies(top: Instance) -> None:
    lost = top.submit("slot=1/[node{id:'0'};power=500]")
    child = top.spawn(top.submit("slot=1/[node{id:'3'};power=200]"))
    asks = top.spawn(top.submit("slot=1/node{id:'1'}"))
    jobs = [
        top.submit("slot=1/[node{id:'4'};power=300]"),
        child.submit("slot=1/[core;power=100]"),
        asks.submit("slot=1/[core;power=100]"),
        asks.submit("slot=1/core"),
    ]
    top.down("power:/feed/pdu0")
    assert (lost.result, jobs[2].result) == ("failed", "failed")
    assert [job.state.name for job in (jobs[0], jobs[1], jobs[3])] == ["RUN", "RUN", "RUN"]
    top.down("power:/feed")
    assert [job.result for job in jobs] == ["failed", "failed", "failed", None]
    assert top.check() == []


@pytest.mark.parametrize("fails", ["pdu0", "pdu1"])
def test_a_job_that_draws_all_of_a_feed_is_on_the_pdu_that_it_draws_from(fails: str) -> None:
    text = SITE.replace("size: 1500", "size: 900")
    top = Instance(ResourceGraph(cluster.read(Source(text.encode(), "site.yaml")).structure))
    job = top.submit("slot=1/[node{id:'4'};power=900]")
    assert watts(top.graph)["feed"] == 900
    top.down(f"power:/feed/{fails}")
    assert job.state.name == ("RUN" if fails == "pdu0" else "INACTIVE")


def test_rule_n1_nothing_starts_in_a_child_at_the_moment_at_which_it_expires(top: Instance, clock: ManualClock) -> None:
    parent = top.submit("slot=1/node", duration_s=10)
    child = top.spawn(parent)
    clock.now_s = 10.0
    job = child.submit("slot=1/[core;power=400]", duration_s=5)
    assert (job.state.name, watts(top.graph)["pdu0"]) == ("SCHED", 0)
    top.set_duration(parent, 20)
    top.advance()
    assert (job.state.name, watts(top.graph)["pdu0"]) == ("RUN", 400)
    assert top.check() == []


class LimitKeepingRunner(ManualRunner):
    """A `ManualRunner` that promises that jobs end at their limit."""

    keeps_limits = True


def _nested(top: Instance, depth: int, runner: Runner | None = None, *, duration_s: float | None = 15) -> Instance:
    inner = top
    for level in range(depth):
        inner = inner.spawn(inner.submit("slot=1/core=4" if level else "slot=1/node", duration_s=duration_s), runner=runner)
    return inner


@pytest.mark.parametrize("runner", [ManualRunner, None])
@pytest.mark.parametrize("asks", ["parent", "sibling"])
@pytest.mark.parametrize(("depth", "limit"), [(1, 5), (2, 5), (1, 15), (2, 15)])
def test_rule_t1_a_job_of_a_child_has_its_watts_exactly_at_its_limit(
    depth: int, limit: int, asks: str, runner: type[Runner] | None, clock: ManualClock
) -> None:
    top = Instance(site(), clock=clock, name="top", runner=None if runner is None else runner())
    inner = _nested(top, depth)
    other = top if asks == "parent" else top.spawn(top.submit("slot=1/node", duration_s=100))
    job = inner.submit("slot=1/[core;power=800]", duration_s=limit)
    clock.now_s = float(limit)
    new = other.submit("slot=1/[node{id:'2'};power=800]" if other is top else "slot=1/[core;power=800]", duration_s=3)
    assert (job.state.name, new.state.name, watts(top.graph)["pdu0"]) == ("RUN", "SCHED", 800)
    assert top.check() == []
    top.advance()
    assert job.state.name == ("INACTIVE" if runner is None else "CLEANUP")
    assert new.state.name == ("RUN" if runner is None else "SCHED")
    assert watts(top.graph)["pdu0"] == 800
    assert top.check() == []
    if runner is not None:
        inner.finish(job)
        assert new.state.name == "RUN"
    assert top.check() == []


def test_rule_t1_the_graph_of_an_instance_shows_the_watts_of_a_job_at_its_limit_as_held(clock: ManualClock) -> None:
    top = Instance(site(), clock=clock, name="top", runner=ManualRunner())
    child = _nested(top, 1)
    job = child.submit("slot=1/[core;power=800]", duration_s=5)
    clock.now_s = 5.0
    with pytest.raises(InsufficientResources):
        top.graph.allocate([("power:/feed/pdu0", 800)], job="other", start=5.0, end=8.0)
    assert (job.state.name, top.check()) == ("RUN", [])


def test_overtime_in_a_child_yields_to_changes_by_others(clock: ManualClock) -> None:
    graph = site()
    top = Instance(graph, clock=clock, name="top", runner=ManualRunner())
    child = _nested(top, 1)
    job = child.submit("slot=1/[core;power=800]", duration_s=5)
    clock.now_s = 5.0
    graph.allocate([("power:/feed/pdu0", 800)], job="other", start=5.0, end=8.0)  # the record ends here, and nobody was called
    assert top.check() == []  # it may end at this very moment
    top.advance()
    assert [failure.type for failure in job.exceptions] == ["timelimit", "overlap"]
    assert any("rule T1" in problem.message for problem in top.check())
    assert watts(top.graph)["pdu0"] == 1000


@pytest.mark.parametrize("asks", ["parent", "sibling"])
@pytest.mark.parametrize("depth", [1, 2])
def test_overtime_in_a_child_yields_to_a_reservation_of_others(depth: int, asks: str, clock: ManualClock) -> None:
    graph = site()
    top = Instance(graph, queue_policy="easy", clock=clock, name="top", runner=ManualRunner())
    inner = _nested(top, depth)
    other = top if asks == "parent" else top.spawn(top.submit("slot=1/node", duration_s=100))
    job = inner.submit("slot=1/[core;power=800]", duration_s=5)
    graph.allocate([("power:/feed/pdu0", 800)], job="other", start=5.0, end=10.0)
    waiting = other.submit("slot=1/[core;power=800]", duration_s=5)
    for clock.now_s in (6.0, 7.0):
        top.advance()
        problems = [problem for problem in top.check() if "rule T1" in problem.message]
        assert [problem.where for problem in problems] == [f"{inner.address} power:/feed/pdu0"]
        assert [failure.type for failure in job.exceptions] == ["timelimit", "overlap"]
        assert (job.state.name, waiting.state.name) == ("CLEANUP", "SCHED")
        assert watts(top.graph)["pdu0"] == 1000
    clock.now_s = 10.0
    top.advance()
    assert (waiting.state.name, watts(top.graph)["pdu0"]) == ("SCHED", 800)  # the others have gone, and the job has it again
    assert top.check() == []
    inner.finish(job)
    assert (waiting.state.name, top.check()) == ("RUN", [])


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_rule_t1_a_late_job_of_a_child_keeps_watts_that_its_parent_has_reserved(
    depth: int, late: bool, clock: ManualClock
) -> None:
    top = Instance(site(), queue_policy="easy", clock=clock, name="top", runner=ManualRunner())
    inner = _nested(top, depth)
    job = inner.submit("slot=1/[core;power=800]", duration_s=5)
    head = top.submit("slot=1/[core;power=800]", duration_s=5)
    assert head.reserved_at == 5.0
    for clock.now_s in (6.0,) if late else (5.0, 6.0):
        top.advance()
        assert (job.state.name, head.state.name, watts(top.graph)["pdu0"]) == ("CLEANUP", "SCHED", 800)
        assert [failure.type for failure in job.exceptions] == ["timelimit"]
        assert top.check() == []
    inner.finish(job)
    assert (head.state.name, top.check()) == ("RUN", [])


def test_overtime_of_a_job_with_a_child_leaves_the_child_what_others_leave(clock: ManualClock) -> None:
    graph = site()
    top = Instance(graph, clock=clock, name="top", runner=ManualRunner())
    child = _nested(top, 1)
    job = child.submit("slot=1/[core;power=800]", duration_s=50)
    graph.allocate([("power:/feed/pdu0", 600)], job="other", start=15.0, end=20.0)
    clock.now_s = 16.0
    top.advance()
    assert watts(top.graph)["pdu0"] == 1000
    assert [failure.type for failure in top.jobs()[0].exceptions] == ["timelimit", "overlap"]
    assert any("rule N1" in problem.message for problem in top.check())
    child.finish(job)
    assert watts(top.graph)["pdu0"] == 600


def test_rule_t1_a_broken_promise_in_a_child_is_detected_by_its_parent(clock: ManualClock) -> None:
    top = Instance(site(), clock=clock, name="top", runner=ManualRunner())
    child = _nested(top, 1, LimitKeepingRunner())
    job = child.submit("slot=1/[core;power=800]", duration_s=5)
    clock.now_s = 6.0
    new = top.submit("slot=1/[node;power=800]", duration_s=3)
    assert (job.state.name, new.state.name, watts(top.graph)["pdu0"]) == ("CLEANUP", "SCHED", 800)
    assert top.check() == []


def test_the_watts_of_a_child_are_free_at_a_kept_limit(clock: ManualClock) -> None:
    top = Instance(site(), clock=clock, name="top", runner=LimitKeepingRunner())
    child = _nested(top, 1)
    job = child.submit("slot=1/[core;power=800]", duration_s=5)
    clock.now_s = 5.0
    new = top.submit("slot=1/[core;power=800]", duration_s=3)
    assert new.state.name == "RUN"
    child.finish(job)
    assert (job.result, watts(top.graph)["pdu0"], top.check()) == ("completed", 800, [])


@pytest.mark.parametrize("where", ["power:/feed/pdu0", "/site/node0"])
@pytest.mark.parametrize("state", ["down", "drain"])
def test_rule_a7_a_child_cannot_override_the_states_of_its_parent(where: str, state: str, top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/node"))
    top.set_state(where, state)
    for wanted in ("up", "degraded"):
        with pytest.raises(UsageError, match=f"{where}: it is {state} in top"):
            child.set_state([where, "/site/node0/core1"], wanted)
    assert child.graph.pool(where).available() == 0
    assert child.submit("slot=1/[core;power=100]").state.name == "SCHED"
    top.up(where)
    assert child.graph.pool(where).available() > 0
    child.drain(where)
    child.up(where)
    assert child.graph.pool(where).available() > 0


def outlets_of_one_feed(**of_instance: Any) -> Instance:
    outlets = [{"type": "power", "name": f"pdu{i}", "size": 600, "unit": "W"} for i in range(2)]
    feed = {"type": "power", "name": "feed", "size": 1000, "unit": "W", "with": outlets}
    edges = [{"from": "power:/feed/pdu0", "to": "/c/node[0-1]"}, {"from": "power:/feed/pdu1", "to": "/c/node2"}]
    nodes = {"type": "node", "count": 3, "with": [{"type": "core", "count": 2}]}
    power = {"hierarchy": True, "pools": [feed], "edges": edges}
    graph = fluxres.load({"fluxres": 1, "name": "c", "resources": [nodes], "graphs": {"power": power}})
    return Instance(graph, **of_instance)


def test_rule_a5_a_budget_reduced_to_what_a_job_draws_is_exclusive_to_it() -> None:
    top = outlets_of_one_feed()
    child = top.spawn(top.submit("slot=2/[node;power=50]", duration_s=100))
    job = child.submit("slot=1/[node;power=50]", duration_s=50)
    child.shrink([pool.path for pool in child.graph.find("type=node") if pool.available()])
    assert child.check() == []
    assert [(span.pool, span.amount) for span in child.graph.allocation(str(job.id)).spans] == [
        ("/c/node0", 1),
        ("power:/feed", 50),
    ]
    # What others draw from a PDU beside that budget is no fault of the child's.
    other = top.submit("slot=2/[node;power=200]", duration_s=100)
    assert (other.state.name, top.check()) == ("RUN", [])
    child.finish(job, 0)
    assert child.graph.pool("power:/feed").available() == 50
    assert top.check() == []


def test_rule_n1_an_exclusive_budget_does_not_include_what_the_parent_grants_on_request() -> None:
    top = outlets_of_one_feed()
    child = top.spawn(top.submit("slot=1/[node;power=300]", duration_s=100))
    child.grow("/c/node2")
    job = child.submit("slot=1/[node;power=300]", duration_s=50)
    assert [(span.pool, span.amount) for span in child.graph.allocation(str(job.id)).spans] == [
        ("/c/node0", 1),
        ("power:/feed", 300),
    ]
    copied = child.graph.copy(job=str(job.id), at=0)
    assert [pool.where for pool in copied.find("type=power") if pool.available()] == ["power:/feed", "power:/feed/pdu0"]
    grandchild = child.spawn(job)
    child.shrink("/c/node2")
    assert (grandchild.check(), top.check()) == ([], [])


def test_rule_a6_what_a_late_job_frees_is_not_requested_from_the_parent_again(clock: ManualClock) -> None:
    top = outlets_of_one_feed(clock=clock)
    child = top.spawn(top.submit("slot=1/[node;power=100]", duration_s=100))
    grandchild = child.spawn(child.submit("slot=1/node", duration_s=90), runner=ManualRunner())
    job = grandchild.submit("slot=1/[core;power=100]", duration_s=10)
    clock.now_s = 20.0
    top.advance()
    assert (job.state.name, grandchild.graph.pool("power:/feed").available()) == ("CLEANUP", 0)
    child.drain("power:/feed")
    grandchild.finish(job)
    assert job.state.name == "INACTIVE"
    child.up("power:/feed")
    assert [instance.graph.pool("power:/feed/pdu0").available() for instance in (grandchild, child)] == [100, 100]
    assert top.check() == []


@pytest.mark.parametrize("how", ["late", "extended"])
def test_rule_t1_what_an_exclusive_budget_implies_in_the_parent_is_extended_with_it(how: str, clock: ManualClock) -> None:
    top = outlets_of_one_feed(clock=clock)
    child = top.spawn(top.submit("slot=1/[node;power=300]", duration_s=100), runner=ManualRunner())
    child.grow("/c/node2")
    job = child.submit("slot=1/[node{id:'2'};power=300]", duration_s=10)
    assert watts(top.graph) == {"feed": 300, "pdu0": 300, "pdu1": 300}
    if how == "extended":
        child.set_duration(job, 50)
    clock.now_s = 20.0
    top.advance()
    assert job.state.name == ("RUN" if how == "extended" else "CLEANUP")
    assert watts(top.graph) == {"feed": 300, "pdu0": 300, "pdu1": 300}
    child.finish(job)
    assert watts(top.graph) == {"feed": 300, "pdu0": 300, "pdu1": 0}
    assert top.check() == []


def test_rule_t1_a_late_job_keeps_all_of_a_feed_that_its_instance_draws(clock: ManualClock) -> None:
    top = outlets_of_one_feed(clock=clock, runner=ManualRunner())
    late = top.submit("slot=3/node", duration_s=10)
    child = top.spawn(late, runner=ManualRunner())
    jobs = [child.submit(f"slot=1/[node{{id:'{i}'}};power={watts}]") for i, watts in ((0, 600), (2, 400))]
    clock.now_s = 20.0
    top.advance()
    assert (late.state.name, *(job.state.name for job in jobs)) == ("CLEANUP", "CLEANUP", "CLEANUP")
    assert [top.graph.pool(f"power:/feed{where}").available() for where in ("", "/pdu0", "/pdu1")] == [0, 0, 0]
    assert (child.check(), top.check()) == ([], [])


def test_rule_n1_the_instances_below_see_what_a_child_still_has_of_a_supplier(top: Instance) -> None:
    job = top.submit("slot=1/[node{id:'0'};power=100]", duration_s=100)
    child = top.spawn(job)
    child.grow("/site/node1")
    inner = child.spawn(child.submit("slot=1/[node{id:'1'}]", duration_s=90))
    assert inner.graph.pool("power:/feed").size == 100
    child.shrink("/site/node0")
    size = top.graph.pool("power:/feed").size
    assert [instance.graph.pool("power:/feed").size for instance in (child, inner)] == [size, size]
    other = top.submit("slot=1/[node;power=600]", duration_s=50)
    assert (other.state.name, inner.graph.pool("power:/feed").available(), top.check()) == ("RUN", size - 600, [])
    assert inner.submit("slot=1/[core;power=200]", duration_s=50).state.name == "RUN"
    assert (watts(top.graph)["feed"], top.check()) == (800, [])


def test_a_child_grows_by_watts_after_it_has_seen_what_others_draw(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node{id:'0'}]"))
    top.submit("slot=1/[node{id:'1'};power=600]")
    pdu = "power:/feed/pdu0"
    assert child.graph.pool(pdu).available() == 400
    assert "/site/node2" in child.grow("slot=1/[node{id:'2'};power=300]")
    assert (child.graph.pool(pdu).size, child.graph.pool(pdu).available(), watts(top.graph)["pdu0"]) == (300, 300, 900)
    assert (child.check(), top.check()) == ([], [])


def test_a_child_that_was_refused_watts_sees_what_others_draw(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node{id:'0'}]"))
    top.submit("slot=1/[node{id:'1'};power=600]")
    child.submit("slot=1/[core;power=100]")
    with pytest.raises(StillHeld, match="draw units of it that the parent grants on request"):
        child.grow("slot=1/[node{id:'2'};power=300]")
    assert child.graph.pool("power:/feed/pdu0").available() == 300
    assert (child.check(), top.check()) == ([], [])


def test_a_child_that_draws_through_a_cable_grows_by_nodes_alone(clock: ManualClock) -> None:
    power = sites.power(1500, 1000).replace('"/site/rack[0-1]"}', '"/site/rack[0-1]", capacity: 900}')
    top = Instance(sites.graph(sites.racks() + power), clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/[node{id:'0'}]"))
    child.submit("slot=1/[node;power=300]")
    assert child.grow("slot=1/[node{id:'1'}]") == ["/site/rack0/node1"]
    states = [child.submit(f"slot=1/[node{{id:'1'}};power={watts}]").state for watts in (500, 200)]
    assert (states, child.check(), top.check()) == ([State.RUN, State.SCHED], [], [])


def test_a_returned_node_of_a_rack_with_watts_leaves_nothing_in_its_cable(clock: ManualClock) -> None:
    power = sites.power(1500, 1000, racks=1).replace('"/site/rack[0-0]"}', '"/site/rack0/node*", capacity: 400}')
    top = Instance(sites.graph(sites.racks(1) + power), clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/[rack;power=300]"))
    child.shrink("/site/rack0/node1")
    assert set(cables(top.graph).items()) == {(f"node{i}", 75) for i in (0, 2, 3)}
    assert child.grow("slot=1/node") == ["/site/rack0/node1"]
    assert (child.check(), top.check()) == ([], [])
    child.close()
    assert cables(top.graph) == {}


def test_a_child_whose_jobs_draw_all_its_watts_grows_by_more(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node{id:'0'};power=300]"))
    first = child.submit("slot=1/[core;power=300]")
    assert "/site/node1" in child.grow("slot=1/[node{id:'1'};power=200]")
    assert (first.state, watts(child.graph)) == (State.RUN, {"feed": 300, "pdu0": 300})
    states = [child.submit(f"slot=1/[core;power={watts}]").state for watts in (200, 1)]
    assert (states, child.check(), top.check()) == ([State.RUN, State.SCHED], [], [])
    child.finish(first)
    assert watts(child.graph) == {"feed": 201, "pdu0": 201}


def test_a_child_whose_own_child_draws_all_its_watts_grows_by_more(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node{id:'0'};power=300]"))
    inner = child.spawn(child.submit("slot=1/core"))
    inner.submit("slot=1/[core;power=300]")
    assert "/site/node1" in child.grow("slot=1/[node{id:'1'};power=200]")
    assert (watts(child.graph), watts(inner.graph)) == ({"feed": 300, "pdu0": 300}, {"feed": 300, "pdu0": 300})
    assert child.submit("slot=1/[core;power=200]").state is State.RUN
    assert (child.check(), top.check()) == ([], [])


def test_rule_n1_a_grandchild_that_draws_all_of_a_feed_does_not_get_other_pdus(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node{id:'0'};power=300]"))
    child.grow("slot=1/node{id:'3'}")
    inner = child.spawn(child.submit("slot=1/[node{id:'3'};power=300]"))
    assert {pool.name: pool.size for pool in inner.graph.find("type=power")} == {"feed": 300, "pdu1": 300}
    child.grow("slot=1/[node{id:'1'};power=300]")
    assert top.check() == []
    child.submit("slot=1/[node{id:'0'}/core;power=300]")
    assert inner.submit("slot=1/[core;power=300]").state is State.RUN
    assert (watts(top.graph), top.check()) == ({"feed": 600, "pdu0": 600, "pdu1": 300}, [])


def test_a_child_does_not_grow_by_watts_of_a_feed_that_a_job_holds_by_name(top: Instance) -> None:
    child = top.spawn(top.submit("slot=1/[node{id:'0'};power=300]"))
    child.graph.allocate("power:/feed", job="j")
    with pytest.raises(MergeConflict, match="held exclusively by j"):
        child.grow("slot=1/[node{id:'1'};power=200]")
    assert (child.check(), top.check()) == ([], [])


def _net(edges: list[dict[str, Any]], nodes: int) -> Instance:
    """Nodes of two cores with bandwidth between them."""
    node = {"type": "node", "count": nodes, "with": [{"type": "core", "count": 2}]}
    net = {"pools": [{"type": "switch"}], "edges": edges}
    return Instance(fluxres.load({"fluxres": 1, "name": "lab", "resources": [node], "graphs": {"net": net}}), name="top")


def _star(nodes: int, capacity: int) -> Instance:
    """Nodes on a switch."""
    ends = {"from": "net:/switch", "to": f"/lab/node[0-{nodes - 1}]"}
    return _net([{**ends, "direction": "both", "capacity": capacity}], nodes)


def _gateway() -> Instance:
    """Two nodes that are supplied through a third one."""
    through = [{"from": "/lab/node0", "to": f"/lab/node{i}", "capacity": 3} for i in (1, 2)]
    return _net([{"from": "net:/switch", "to": "/lab/node0", "capacity": 5}, *through], 3)


def _edges_of(instance: Instance, job: Job) -> dict[str, int]:
    """What a job draws through each edge."""
    spans = instance.graph.allocation(str(job.id)).spans
    return {span.pool.removeprefix("net: "): span.amount for span in spans if span.pool.startswith("net: ")}


def _star_edges(**units: int) -> dict[str, int]:
    """The same units in both directions, by node."""
    there = {f"/lab/{node} -> net:switch": amount for node, amount in units.items()}
    return there | {f"net:switch -> /lab/{node}": amount for node, amount in units.items()}


def _own_edges(instance: Instance) -> dict[str, int]:
    """By edge, the units of a child's own."""
    accounts = instance.graph.structure.accounts
    edges = [v for v in range(accounts.pools.n, accounts.n) if accounts.linked is None or not accounts.linked[v]]
    return {accounts.where(v).removeprefix("net: "): accounts.size.item(v) for v in edges if accounts.size.item(v)}


@pytest.mark.parametrize("how", ["the graph", "the child"])
def test_rule_f2_others_continue_to_draw_towards_a_returned_node(how: str) -> None:
    top = _star(4, 2)
    job = top.submit("slot=3/[node;net=1{to:/lab/node2}]")
    child = None
    if how == "the child":
        child = top.spawn(job)
        child.shrink("/lab/node2")
    else:
        top.graph.shrink(str(job.id), "/lab/node2")
    left = _star_edges(node0=1, node1=1, node2=2)
    assert _edges_of(top, job) == left
    if child is not None:
        assert (_own_edges(child), child.check(), top.check()) == (left, [], [])
        assert child.submit("slot=2/[node;net=1{to:/lab/node2}]").state is State.RUN
        waiting = top.submit("slot=1/[node{id:'3'};net=1{to:/lab/node2}]")
        assert waiting.state is State.SCHED
        child.close()
        assert (waiting.state, _edges_of(top, waiting)) == (State.RUN, _star_edges(node3=1, node2=1))


def test_rule_f1_a_returned_node_still_passes_on_what_another_draws() -> None:
    top = _gateway()
    job = top.submit("slot=2/[node;net=2]")
    child = top.spawn(job)
    assert _edges_of(top, job) == {"net:switch -> /lab/node0": 4, "/lab/node0 -> /lab/node1": 2}
    child.shrink("/lab/node0")
    left = {"net:switch -> /lab/node0": 2, "/lab/node0 -> /lab/node1": 2}
    assert (_edges_of(top, job), _own_edges(child), child.check(), top.check()) == (left, left, [], [])
    assert top.graph.why_not("slot=1/[node;net=4]") is not None
    assert top.submit("slot=1/[node;net=3]").state is State.RUN
    assert child.submit("slot=1/[node;net=2]").state is State.RUN


def test_a_returned_node_stays_a_pass_through_in_all_instances() -> None:
    top = _gateway()
    job = top.submit("slot=2/node")
    child = top.spawn(job)
    inner = child.spawn(child.submit("slot=1/[node{id:'1'}]"))
    child.shrink("/lab/node0")
    assert inner.submit("slot=1/[core;net=2]").state is State.RUN
    assert _edges_of(top, job) == {"net:switch -> /lab/node0": 2, "/lab/node0 -> /lab/node1": 2}
    assert (inner.check(), child.check(), top.check()) == ([], [], [])
    inner.close()
    assert child.grow("/lab/node0") == ["/lab/node0"]
    assert child.submit("slot=2/node").state is State.RUN
    assert (_edges_of(top, job), child.check(), top.check()) == ({}, [], [])


def test_rule_f2_a_returned_supply_still_passes_on_what_is_drawn() -> None:
    enclosure = {
        "type": "encl",
        "count": 1,
        "with": [{"type": "psu", "size": 10}, {"type": "node", "count": 2, "draw": {"power": 3}}],
    }
    edges = [
        {"from": "power:/pdu", "to": "/lab/encl0/psu", "capacity": 9},
        {"from": "/lab/encl0/psu", "to": "/lab/encl0/node*", "capacity": 4},
    ]
    power = {"pools": [{"type": "pdu", "size": 10, "unit": "W"}], "edges": edges}
    top = Instance(fluxres.load({"fluxres": 1, "name": "lab", "resources": [enclosure], "graphs": {"power": power}}), name="top")
    job = top.submit("slot=2/node")
    child = top.spawn(job)
    before = {span.pool: span.amount for span in top.graph.allocation(str(job.id)).spans if " -> " in span.pool}
    assert len(before) == 3
    child.shrink("/lab/encl0/psu")
    after = {span.pool: span.amount for span in top.graph.allocation(str(job.id)).spans if " -> " in span.pool}
    assert (after, child.check(), top.check()) == (before, [], [])


MORE: dict[str, tuple[str, Any]] = {
    "to a node of the child": ("slot=1/node", "slot=1/[node;net=2{to:/lab/node0}]"),
    "to a node of which the child has a part": ("slot=1/core", "slot=1/[node;net=2{to:/lab/node0}]"),
    "by name": ("slot=1/node", {"/lab/node1": 1, **{f"net: {name}": 2 for name in _star_edges(node0=2, node1=2)}}),
}


@pytest.mark.parametrize("more", MORE)
def test_rule_n1_a_child_has_the_units_that_its_job_holds_of_an_edge_between_other_pools(more: str) -> None:
    top = _star(2, 2)
    first, wanted = MORE[more]
    job = top.submit(first)
    child = top.spawn(job)
    child.grow(wanted)
    every = _star_edges(node0=2, node1=2)
    assert (_edges_of(top, job), _own_edges(child), child.check(), top.check()) == (every, every, [], [])
    assert child.submit("slot=1/[node{id:'1'};net=2{to:/lab/node0}]").state is State.RUN
    assert (_edges_of(top, job), child.check(), top.check()) == (every, [], [])
    child.close()
    assert top.graph.jobs() == []


def test_rule_n1_a_child_has_what_its_job_draws_towards_a_node_that_it_gets_later() -> None:
    top = _star(3, 5)
    job = top.submit("slot=1/[node;net=2{to:/lab/node1}]")
    child = top.spawn(job)
    every = _star_edges(node0=2, node1=2)
    assert (_own_edges(child), child.graph.find("type=node and available>0").paths()) == (every, ["/lab/node0"])
    assert child.grow("/lab/node1") == ["/lab/node1"]
    assert (_own_edges(child), child.check(), top.check()) == (every, [], [])
    between = child.submit("slot=2/[node;net=2{between:node}]")
    assert (between.state, _edges_of(top, job), top.check()) == (State.RUN, every, [])
    assert top.submit("slot=1/[node;net=3{to:/lab/node1}]").state is State.RUN


def test_rule_n1_check_reports_an_edge_of_which_a_child_has_more_than_its_job() -> None:
    top = _star(2, 5)
    job = top.submit("slot=1/[node;net=2{to:net:/switch}]")
    child = top.spawn(job)
    cable = "net: net:switch -> /lab/node0"
    assert top.check() == []
    top.graph.free(str(job.id), {cable: 1})
    named = [problem.message for problem in top.check() if problem.where == f"{child.address} {cable}"]
    assert named == ["rule N1: the job in the parent does not hold it"]


@pytest.mark.parametrize("depth", [1, 2])
def test_rule_n1_a_changed_capacity_in_the_parent_reaches_the_instances_below(depth: int, clock: ManualClock) -> None:
    top = Instance(cabled(clock), name="top")
    child = top
    for _ in range(depth):
        child = child.spawn(child.submit("slot=2/node", duration_s=100))
    top.graph.set_edge("network:switch0", "/lab/node0", "network", capacity=3)
    top.graph.set_edge("/lab/node0", "network:switch0", "network", capacity=3)
    request = "slot/[node{id:'0'};network=6]"
    assert child.graph.satisfiable("slot/[node{id:'1'};network=6]")
    assert not child.graph.satisfiable(request)
    first, second = child.submit("slot/[core=1;network=6]"), child.submit("slot/[core=1;network=6]")
    assert [where for where, _ in first.pools if "node" in where] == ["/lab/node1/core0"]
    assert second.state is State.SCHED
    for ends in (("network:switch0", "/lab/node0"), ("/lab/node0", "network:switch0")):
        top.graph.set_edge(*ends, "network", capacity=10)
    top.advance()
    assert second.state is State.RUN
    assert (child.check(), top.check()) == ([], [])


def supplied(feed: dict[str, Any] | None = None, carries: float = math.inf, below: float = math.inf) -> Instance:
    """Two nodes on a PDU of 8 W below a feed, with capacities of the edges to the PDU and to the first node."""
    pools = [Resource("feed", 1, **(feed or {})), Resource("pdu", 1, size=8, unit="W")]
    limits_of = [{} if capacity == math.inf else {"capacity": capacity} for capacity in (carries, below)]
    edges = [
        Edge("power:/feed0", "power:/pdu0", **limits_of[0]),
        Edge("power:/pdu0", "/lab/node0", **limits_of[1]),
        Edge("power:/pdu0", "/lab/node1"),
    ]
    node = Resource("node", 2, children=[Resource("core", 4)])
    return Instance(build(node, name="lab", graphs={"power": AuxiliaryGraph(pools=pools, edges=edges)}), name="top")


ABOVE, BELOW = ("power:/feed0", "power:/pdu0"), ("power:/pdu0", "/lab/node0")


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("feed", [{}, {"size": 8, "unit": "W"}])
@pytest.mark.parametrize("ends", [ABOVE, BELOW])
def test_rule_f1_an_edge_that_gets_a_capacity_in_the_parent_gets_it_below(
    ends: tuple[str, str], feed: dict[str, Any], depth: int
) -> None:
    top = supplied(feed)
    child = top
    for _ in range(depth):
        child = child.spawn(child.submit("slot/node"))
    top.graph.set_edge(*ends, "power", capacity=3)
    top.advance()
    assert not child.graph.satisfiable("slot/[core=1;power=4]")
    first, second = child.submit("slot/[core=1;power=2]"), child.submit("slot/[core=1;power=2]")
    assert (first.state, second.state) == (State.RUN, State.SCHED)
    assert top.graph.planner.used(top.graph.structure.n, 0, 1) == 2
    other = top.submit("slot/[core=1;power=2]")  # on the other node
    assert other.state is (State.SCHED if ends == ABOVE else State.RUN)
    assert [problem for problem in top.check() if problem.severity == "error"] == []
    child.finish(first)
    assert [job.state for job in (second, other)].count(State.RUN) == (1 if ends == ABOVE else 2)
    assert [problem for problem in top.check() if problem.severity == "error"] == []


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("is_given", [False, True])
def test_rule_n1_an_edge_that_loses_its_capacity_in_the_parent_loses_it_below(is_given: bool, depth: int) -> None:
    top = supplied(below=3)
    child = top
    for _ in range(depth):
        child = child.spawn(child.submit("slot/[node;power=2]" if is_given else "slot/node"))
    running, waiting = child.submit("slot/[core=1;power=2]"), child.submit("slot/[core=1;power=2]")
    assert (running.state, waiting.state) == (State.RUN, State.SCHED)
    top.graph.set_edge(*BELOW, "power", capacity=math.inf)
    top.advance()
    assert (child.check(), top.check()) == ([], [])
    assert waiting.state is (State.SCHED if is_given else State.RUN)  # the child has 2 W of the PDU, or asks for all
    with pytest.raises(StillHeld, match="may draw through it"):
        top.graph.set_edge(*BELOW, "power", capacity=5)
    child.cancel(waiting)
    child.finish(running)
    for one in list(top.walk())[:0:-1]:
        one.close()
    top.graph.set_edge(*BELOW, "power", capacity=5)
    assert (top.check(), top.graph.jobs()) == ([], [])


@pytest.mark.parametrize("carries", [(3, 3), (2, 4), (4, 2), (1, 1, 4)])
def test_rule_n1_a_child_has_what_its_job_holds_of_parallel_edges(carries: tuple[int, ...]) -> None:
    edges = [Edge(*BELOW, relation=f"cable{i}", capacity=units) for i, units in enumerate(carries)]
    power = AuxiliaryGraph(pools=[Resource("pdu", 1, id=[0], size=8, unit="W")], edges=edges)
    node = Resource("node", 1, id=[0], children=[Resource("core", 4)])
    top = Instance(build(node, name="lab", graphs={"power": power}), name="top")
    child = top.spawn(top.submit("slot/[core=3;power=2]"))
    assert top.check() == []
    assert not child.graph.satisfiable("slot/[core=1;power=3]")
    assert child.submit("slot/[core=1;power=2]").state is State.RUN
    assert top.submit("slot/[core=1;power=4]").state is State.RUN
    assert top.check() == []
    other = Instance(build(node, name="lab", graphs={"power": power}), name="other")
    child = other.spawn(other.submit("slot/core=3"))
    first, second = child.submit("slot/[core=1;power=5]"), child.submit("slot/[core=1;power=2]")
    assert (first.state, second.state, other.check()) == (State.RUN, State.SCHED, [])


@pytest.mark.parametrize("carries", [(3, 4), (0, 4), (4, 0)])
def test_rule_n1_parallel_edges_have_together_what_a_child_got_first_and_later(carries: tuple[int, ...]) -> None:
    edges = [Edge("net:/switch", "/lab/node0", relation=f"cable{i}", capacity=units) for i, units in enumerate(carries)]
    edges.append(Edge("net:/switch", "/lab/node1"))
    net = AuxiliaryGraph(pools=[Resource("switch")], edges=edges)
    node = Resource("node", 2, children=[Resource("core", 4)])
    top = Instance(build(node, name="lab", graphs={"net": net}), name="top")
    cable, total = "net: net:switch -> /lab/node0", sum(carries)
    child = top.spawn(top.submit("slot=1/[core=1;net=1]"))
    for more, had in ((1, 2), (total - 3, total - 1), (1, total)):
        child.grow(f"slot=1/[core=1;net={more}]")
        accounts = child.graph.structure.accounts
        assert accounts.size.item(accounts.number(cable)) == had
        assert top.check() == []
    assert not child.graph.satisfiable(f"slot/[core=1;net={total + 1}]")
    assert child.submit(f"slot/[core=1;net={total}]").state is State.RUN
    child.close()
    assert top.graph.jobs() == []


@pytest.mark.parametrize("carries", [(3, 4), (0, 4), (4, 0)])
def test_rule_n1_shared_parallel_edges_do_not_change_when_a_child_grows(carries: tuple[int, ...]) -> None:
    cable = ("net:switch", "/lab/node0", "net")
    edges = [Edge(*cable[:2], relation=f"cable{i}", capacity=9) for i in range(2)]
    net = AuxiliaryGraph(pools=[Resource("switch")], edges=[*edges, Edge("net:/switch", "/lab/node1")])
    node = Resource("node", 2, children=[Resource("core", 4)])
    top = Instance(build(node, name="lab", graphs={"net": net}), name="top")
    child = top.spawn(top.submit("slot=1/core"))
    for i, units in enumerate(carries):
        top.graph.set_edge(*cable, relation=f"cable{i}", capacity=units)
    child.grow("/lab/node0/core1")
    child.grow("/lab/node1")
    assert top.check() == []
    total = sum(carries)
    assert not child.graph.satisfiable(f"slot/[node{{id:'0'}}/core=1;net={total + 1}]")
    assert child.submit(f"slot/[core=1;net={total}]").state is State.RUN
    assert top.check() == []


UPLINK = ("net:spine", "net:switch0", "net")


def uplinked(*capacities: float, nodes: int = 2) -> Instance:
    """Nodes on a switch whose uplink has cables of these capacities."""
    edges = [Edge(*UPLINK[:2], relation=f"cable{i}", capacity=units) for i, units in enumerate(capacities)]
    edges.append(Edge("net:/switch0", "/lab/node*", capacity=100))
    net = AuxiliaryGraph(pools=[Resource("spine"), Resource("switch", 1, id=[0])], edges=edges)
    return Instance(build(Resource("node", nodes), name="lab", graphs={"net": net}), name="top")


def uplink(instance: Instance) -> int:
    accounts = instance.graph.structure.accounts
    return accounts.size.item(accounts.number("net: net:spine -> net:switch0"))


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("more", ["/lab/node1", "slot/[node;net=6]"])
@pytest.mark.parametrize("given", ["slot/node", "slot/[node;net=6]"])
def test_rule_n1_an_edge_added_to_the_parent_reaches_a_child_when_it_grows(given: str, more: str, is_replaced: bool) -> None:
    top = uplinked(10)
    child = top.spawn(top.submit(given))
    top.graph.add_edge(*UPLINK, relation="new", capacity=15 if is_replaced else 5)
    if is_replaced and given == "slot/node":
        top.graph.remove_edge(*UPLINK, relation="cable0")
    top.advance()
    child.grow(more)
    own = 6 * ((given != "slot/node") + (more != "/lab/node1"))
    assert uplink(child) == (own or uplink(top))
    assert top.check() == []
    if own:
        jobs = [child.submit("slot/[node;net=6]") for _ in range(own // 6)]
        assert [job.state for job in jobs] == [State.RUN] * len(jobs)
        assert top.check() == []


def test_rule_n1_an_edge_with_capacity_zero_at_the_start_of_a_child_follows_its_parent() -> None:
    top = uplinked(0, 0)
    child = top.spawn(top.submit("slot/node"))
    for i in range(2):
        top.graph.set_edge(*UPLINK, relation=f"cable{i}", capacity=5)
    top.advance()
    assert (uplink(child), top.check()) == (10, [])
    assert child.submit("slot/[node;net=10]").state is State.RUN
    assert top.check() == []


def test_rule_n1_a_child_has_all_its_units_of_cables_with_fractional_capacities() -> None:
    top = uplinked(3.3, 16.1, 32.9, 55.3)
    job = top.submit("slot/[node;net=5]")
    child = top.spawn(job)
    assert (uplink(child), top.graph.copy(job=str(job.id)).structure.accounts.size[-2:].tolist()) == (5, [5, 5])
    assert child.submit("slot/[node;net=5]").state is State.RUN


def test_a_child_cannot_grow_by_an_edge_alone() -> None:
    top = uplinked(10)
    child = top.spawn(top.submit("slot/node"))
    before = top.graph.jobs()
    with pytest.raises(UsageError, match="an edge can only be added with pools that draw through it"):
        child.grow([("net: net:spine -> net:switch0", 5)])
    assert (top.graph.jobs(), top.check()) == (before, [])


def test_rule_t1_an_edge_of_a_closed_child_that_lost_its_capacity_is_not_reported() -> None:
    top = supplied(below=3)
    slow = ManualRunner()
    job = top.submit("slot/[node;power=2]")
    top.runner = slow
    child = top.spawn(job)
    top.cancel(job)
    assert (child.is_closed, job.state) == (True, State.CLEANUP)
    top.graph.set_edge(*BELOW, "power", capacity=math.inf)
    assert top.check() == []


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [(math.inf, 3, "limited here"), (3, math.inf, "3 units in the parent"), (3, 7, "3 units in the parent, and 7 here")],
)
def test_rule_n1_check_reports_different_capacities_of_an_edge(before: float, after: float, says: str) -> None:
    top = supplied(below=before)
    child = top.spawn(top.submit("slot/node"))
    assert top.check() == []
    child.graph.set_edge(*BELOW, "power", capacity=after)
    assert any("rule N1" in problem.message and says in problem.message for problem in top.check())


def test_rule_n1_a_reservation_past_the_end_of_a_child_yields_to_a_smaller_cable(clock: ManualClock) -> None:
    top = Instance(sites.graph(CABLES), queue_policy="easy", clock=clock, name="top")
    child = top.spawn(top.submit("slot=1/node{id:'0'}", duration_s=30))
    child.submit("slot=1/[core;power=100]", duration_s=35)
    waiting = child.submit("slot=1/[core=4;power=500]", duration_s=5)
    assert (seconds(waiting.reserved), waiting.reserved_at) == (35.0, None)
    top.graph.set_edge("power:/feed/pdu0", "/site/node0", "power", capacity=300)
    assert (top.check(), waiting.reserved) == ([], -1)
    assert not child.graph.satisfiable("slot=1/[core;power=301]")


def test_check_accepts_a_broken_promise_in_the_past(clock: ManualClock) -> None:
    """No call is made at the limit: the promise was never kept, and the late job holds its watts again from the next call on."""
    top = Instance(site(), queue_policy="easy", clock=clock, runner=ManualRunner(), name="top")
    late = top.spawn(top.submit("slot=1/node{id:'0'}", duration_s=22))
    late.submit("slot=1/[core;power=100]", duration_s=34)
    other = top.spawn(top.submit("slot=1/node{id:'1'}", duration_s=37))
    waiting = other.submit("slot=1/[core;power=1000]", duration_s=5)
    assert waiting.reserved_at == 22.0
    clock.now_s = 30.0
    assert top.check() == []


def test_rule_n1_reservations_past_the_end_of_a_child_are_not_charged_to_its_parent(clock: ManualClock) -> None:
    top = Instance(site(), clock=clock, name="top")
    child = top.spawn(top.submit("slot=3/node", duration_s=20), queue_policy="easy-count")
    child.submit("slot=3/[node;power=100]", duration_s=10)
    waiting = child.submit("slot=3/[node;power=200]")
    assert (waiting.reserved_at, top.graph.pool("power:/feed").available(at=12)) == (10.0, 900)
    clock.now_s = 20.0  # nobody called when the reservation came, and now it is too late
    assert (top.graph.pool("power:/feed").available(), waiting.state.name) == (1500, "SCHED")
    assert top.check() == []


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_t1_the_pools_of_a_late_job_do_not_include_cables(inventory: str, clock: ManualClock) -> None:
    top = Instance(cabled(clock), inventory=inventory, runner=ManualRunner(), name="top")
    job = top.submit("slot/[node;network=6]", duration_s=3)
    before = job.pools
    top.graph.allocate("/lab/node0", job="login", start=3, end=30)
    clock.now_s = 5.0
    assert [problem.where for problem in top.check()] == ["top /lab/node0"]
    assert (job.pools, before) == ([("/lab/node0", 1)], [("/lab/node0", 1)])
    top.down("/lab/node1")
    assert top.submit("slot/node").state is State.SCHED


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_rule_t1_check_reports_a_cable_that_others_took_from_a_late_job(inventory: str, clock: ManualClock) -> None:
    top = Instance(cabled(clock), inventory=inventory, runner=ManualRunner(), name="top")
    job = top.submit("slot/[node;network=6]", duration_s=3)
    cable = "network: network:switch0 -> /lab/node0"
    top.graph.allocate({cable: 8}, job="login", start=3, end=30)
    clock.now_s = 5.0
    (problem,) = top.check()
    assert (problem.where, job.exceptions[-1].type) == (f"top {cable}", "overlap")
    assert problem.message == f"rule T1: {job.id} has not ended, and holds 2 of 6 units; login does"
    top.graph.free("login")
    assert top.check() == []


def cabled(clock: ManualClock) -> ResourceGraph:
    """Two nodes on a switch, by cables with a capacity of 10 units."""
    edges = [Edge("network:/switch0", "/lab/node*", direction="both", capacity=10)]
    network = AuxiliaryGraph(pools=[Resource("switch", 1, id=[0])], edges=edges)
    return build(Resource("node", 2, children=[Resource("core", 2)]), name="lab", clock=clock, graphs={"network": network})


# -- whatever comes back is offered to all ---------------------------------------------------------------------------------


WATTS = "slot=1/[core;power=400]"


def _of_site(clock: ManualClock, policy: str, **settings: Any) -> Instance:
    return Instance(site(), queue_policy=policy, clock=clock, name="top", **settings)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "hybrid", "conservative"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("call", ["top", "child", "submit"])
def test_a_job_of_a_child_starts_when_others_free_watts_above(policy: str, depth: int, call: str, clock: ManualClock) -> None:
    graph = site()
    graph.allocate([("power:/feed/pdu0", 800)], job="others", start=0, end=5)
    top = Instance(graph, queue_policy=policy, clock=clock)
    child = _nested(top, depth, duration_s=None)
    job = child.submit(WATTS, duration_s=50)
    assert (job.state.name, top.next_due(), child.next_due()) == ("SCHED", 5.0, 5.0)
    clock.now_s = 5.0
    if call == "submit":
        child.submit("slot=1/core", duration_s=1)
    else:
        (top if call == "top" else child).advance()
    assert (job.state.name, job.started_at, top.next_due()) == ("RUN", 5.0, 6.0 if call == "submit" else 55.0)
    assert top.check() == []


def test_a_job_of_a_child_starts_when_others_free_watts_in_a_sibling(clock: ManualClock) -> None:
    top = _of_site(clock, "fcfs")
    first, second = (top.spawn(top.submit("slot=1/node")) for _ in range(2))
    first.graph.allocate([("power:/feed/pdu0", 800)], job="others", start=0, end=5)
    assert top.next_due() == 0.0
    top.advance()
    job = second.submit(WATTS, duration_s=50)
    assert (job.state.name, top.next_due(), second.next_due()) == ("SCHED", 5.0, 5.0)
    clock.now_s = 5.0
    top.advance()
    assert (job.state.name, top.check()) == ("RUN", [])


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("draws", [True, False])
def test_watts_of_a_node_that_a_sibling_returns_are_offered(policy: str, inventory: str, draws: bool, clock: ManualClock) -> None:
    text = SITE.replace("{type: node, count: 6,", "{type: node, count: 6, properties: {draw.power: 400},") if draws else SITE
    top = Instance(sites.graph(text), queue_policy=policy, clock=clock, inventory=inventory)
    first = top.spawn(top.submit("slot=2/node" if draws else "slot=2/[node;power=400]"))
    second = top.spawn(top.submit("slot=1/core"))
    job = second.submit("slot=1/[core;power=300]", duration_s=5)
    assert job.state.name == "SCHED"
    first.shrink("/site/node0")
    assert (job.state.name, watts(top.graph)["pdu0"], top.next_due(), top.check()) == ("RUN", 700, 5.0, [])


@pytest.mark.parametrize("place", ["parent", "sibling"])
@pytest.mark.parametrize("how", ["urgency", "dependency", "cancel", "shorter"])
def test_watts_that_are_no_longer_reserved_are_offered(place: str, how: str, clock: ManualClock) -> None:
    top = _of_site(clock, "easy")
    child = top.spawn(top.submit("slot=1/node"), queue_policy="fcfs" if how != "shorter" else "conservative")
    owner = top if place == "parent" else top.spawn(top.submit("slot=1/node"))
    top.submit("slot=1/[node{id:'2'};power=500]", duration_s=100)
    head = owner.submit("slot=1/[node{id:'0-2'};power=900]", duration_s=10)
    job = child.submit(WATTS, duration_s=1000)
    assert (head.reserved_at, job.state.name) == (100.0, "SCHED")
    if how == "urgency":
        owner.set_urgency(head, 0)
    elif how == "dependency":
        owner.add_dependency(head, "begin-time:5000")
    elif how == "shorter":
        assert job.reserved_at == 110.0
        owner.set_duration(head, 5)
        assert (job.reserved_at, top.next_due()) == (105.0, 100.0)
        return
    else:
        owner.cancel(head)
    assert (job.state.name, top.check()) == ("RUN", [])


def test_watts_freed_by_an_earlier_limit_are_offered(clock: ManualClock) -> None:
    top = _of_site(clock, "easy")
    child = top.spawn(top.submit("slot=1/node"), queue_policy="conservative")
    draws = top.submit("slot=1/[core;power=900]", duration_s=100)
    job = child.submit(WATTS, duration_s=10)
    assert job.reserved_at == 100.0
    top.set_duration(draws, 50)
    assert job.reserved_at == 50.0


def test_watts_freed_in_an_instance_with_manual_passes_are_offered(clock: ManualClock) -> None:
    top = _of_site(clock, "easy", passes="manual")
    held, draws, head = (top.submit(f"slot=1/[node{{id:'{n}'}}{more}]", duration_s=100) for n, more in DRAWING)
    assert (top.schedule(), head.reserved_at) == (2, 100.0)
    child = top.spawn(held, queue_policy="fcfs", passes="event")
    job = child.submit(WATTS, duration_s=90)
    assert job.state.name == "SCHED"
    top.set_urgency(head, 0)
    assert job.state.name == "SCHED"
    top.finish(draws)
    assert (job.state.name, top.check()) == ("RUN", [])


DRAWING = ("0", ""), ("1", ";power=700"), ("2", ";power=900")


class AlternatingPolicy(QueuePolicy):
    """Makes reservations in every other pass."""

    name = "fickle"
    passes = 0

    def schedule(self, queue: Queue) -> None:
        queue.unreserve()
        self.passes += 1
        for job in queue:
            if not queue.start(job) and self.passes % 2:
                queue.reserve(job)


def test_policies_that_always_reserve_something_else_terminate(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OFFER_WAVES_MAX", 20)
    top, policies = _of_site(clock, "fcfs"), [AlternatingPolicy(), AlternatingPolicy()]
    children = [top.spawn(top.submit("slot=1/node"), queue_policy=policy) for policy in policies]
    top.submit("slot=1/[core;power=900]", duration_s=100)
    for child in children:
        child.submit(WATTS, duration_s=1000)
    children[0].submit(WATTS, duration_s=1000)
    assert all(limits.OFFER_WAVES_MAX / 2 < policy.passes < 5 * limits.OFFER_WAVES_MAX for policy in policies)
    assert top.check() == []


# -- what is promised above is reserved before a child takes anything --------------------------------------------------------


def _reserved(clock: ManualClock, policy: str, runner: Runner | None = None) -> tuple[Instance, Instance, Job, Job, Job]:
    """A parent whose head has 900 of 1,000 W reserved at 10 s, when a running job ends, and a child whose job waits for 400 W."""
    top = _of_site(clock, policy, runner=runner)
    child = top.spawn(top.submit("slot=2/node", duration_s=2000), queue_policy="fcfs")
    runs = top.submit("slot=1/[node{id:'2'};power=500]", duration_s=10)
    head = top.submit("slot=1/[node{id:'2'};power=900]", duration_s=10)
    waits = child.submit("slot=1/[node{id:'0-1'};power=400]", duration_s=1000)
    assert (runs.state.name, head.reserved_at, waits.state.name) == ("RUN", 10.0, "SCHED")
    return top, child, runs, head, waits


PROMISING = ["easy", "hybrid", "conservative"]


@pytest.mark.parametrize("policy", PROMISING)
@pytest.mark.parametrize("how", ["drain", "down", "up", "graph", "grow", "refused", "shrink"])
def test_reserved_watts_stay_reserved_when_a_child_grows_or_shrinks(policy: str, how: str, clock: ManualClock) -> None:
    top, child, runs, head, waits = _reserved(clock, policy)
    if how in ("drain", "down", "up"):
        top.set_state("/site/node1", how)
    elif how == "graph":
        top._graph.set_state("/site/node1", "drain")
        child.schedule()
    elif how == "grow":
        child.grow("slot=1/node")
    elif how == "refused":
        with pytest.raises(InsufficientResources):
            child.grow("slot=5/node")
    else:
        child.shrink("/site/node1")
    assert (head.reserved_at, waits.state.name) == (10.0, "SCHED")
    clock.now_s = 10.0
    top.finish(runs)
    assert (head.state.name, waits.state.name, top.check()) == ("RUN", "SCHED", [])


@pytest.mark.parametrize("policy", PROMISING)
@pytest.mark.parametrize("state", ["drain", "down"])
def test_rule_a7_no_job_below_starts_on_pools_that_went_out_of_service(policy: str, state: str, clock: ManualClock) -> None:
    """The watts are no longer reserved, but the nodes of the child go out of service together with those of the reservation."""
    top, child, _, head, waits = _reserved(clock, policy)
    top.set_state(["/site/node0", "/site/node1", "/site/node2"], state)
    assert (head.reserved_at, waits.state.name, waits.exceptions) == (None, "SCHED", ())
    assert child.check() == top.check() == []


@pytest.mark.parametrize("policy", PROMISING)
@pytest.mark.parametrize("first", ["submit", "finish", "advance", "schedule", "look", "grow"])
def test_rule_t1_the_first_call_at_a_limit_makes_no_difference(policy: str, first: str, clock: ManualClock) -> None:
    top, child, runs, head, waits = _reserved(clock, policy, ManualRunner())
    clock.now_s = 10.0
    if first == "submit":
        child.submit("slot=1/core", duration_s=1)
    elif first == "advance":
        top.advance()
    elif first == "schedule":
        child.schedule()
    elif first == "look":
        assert child.graph is not None
    elif first == "grow":
        child.grow("slot=1/node")
    top.finish(runs)
    assert (head.state.name, waits.state.name, top.check()) == ("RUN", "SCHED", [])


@pytest.mark.parametrize("policy", PROMISING)
@pytest.mark.parametrize("first", ["submit", "advance", "schedule"])
def test_rule_t1_a_late_job_leaves_reserved_watts_to_its_parent(policy: str, first: str, clock: ManualClock) -> None:
    top, child, runs, head, waits = _reserved(clock, policy, ManualRunner())
    clock.now_s = 10.5
    if first == "submit":
        child.submit("slot=1/core", duration_s=1)
    elif first == "advance":
        child.advance()
    else:
        child.schedule()
    assert (runs.state.name, head.reserved_at, waits.state.name) == ("CLEANUP", 20.5, "SCHED")
    top.finish(runs)
    assert (head.state.name, waits.state.name, top.check()) == ("RUN", "SCHED", [])


@pytest.mark.parametrize("policy", ["easy", "easy-sjbf", "hybrid"])
def test_a_new_job_at_a_kept_limit_leaves_reserved_watts_to_others(policy: str, clock: ManualClock) -> None:
    top, child, runs, head, waits = _reserved(clock, policy, LimitKeepingRunner())
    clock.now_s = 10.0
    top.submit("slot=1/node{id:'0'}", duration_s=5)  # no room: EASY may leave the pass to the end that is about to be reported
    child.submit("slot=1/core", duration_s=1)
    top.finish(runs)
    assert (head.state.name, waits.state.name, top.check()) == ("RUN", "SCHED", [])


def test_a_job_that_a_runner_submits_elsewhere_waits_for_the_current_pass(clock: ManualClock) -> None:
    class SubmittingRunner(Runner):
        def start(self, job: Job) -> None:
            if job.name == "first":
                handed.append(child.submit(WATTS, duration_s=1000))

        def stop(self, job: Job, why: str) -> None: ...

    handed: list[Job] = []
    top = _of_site(clock, "easy", runner=SubmittingRunner())
    child = top.spawn(top.submit("slot=1/node", duration_s=2000))
    before = top.submit("slot=1/[node{id:'1-2'};power=900]", duration_s=5)
    first = top.submit("slot=1/[node{id:'1-2'};power=500]", duration_s=10, name="first")
    head = top.submit("slot=1/[node{id:'1-2'};power=900]", duration_s=10)
    top.finish(before)  # one pass starts the first, and then reserves for the next
    assert (first.state.name, head.reserved_at, [job.state.name for job in handed]) == ("RUN", 10.0, ["SCHED"])


def test_rule_n1_a_pool_implied_by_an_exclusive_budget_is_held_once() -> None:
    top = outlets_of_one_feed()
    child = top.spawn(top.submit("slot=1/[node{id:'0'};power=100]"))
    top.submit("node{id:'2'}/slot=1/[core=1;power=200]")
    assert child.submit("node{id:'0'}/slot=1/[core=1;power=100]").state.name == "RUN"
    child.grow("node{id:'2'}/slot=1/core=1")
    below = child.spawn(child.submit("node{id:'2'}/slot=1/core=1"))
    assert below.graph.pool("power:/feed/pdu1").available() == 0
    before = below.graph.revision
    assert (top.check(), below.graph.revision) == ([], before)


def test_a_closed_child_draws_nothing_and_says_so_before_its_event(top: Instance) -> None:
    """An event is sent only of a change that is made."""
    child = top.spawn(top.submit("slot=1/node", duration_s=60))
    graph, events = child.graph, []
    child.close()
    graph.sink = events.append
    asked = [("power:/feed/pdu0", 100)]
    for refused in (
        lambda: graph.allocate(asked, job="late", start=0, end=60),
        lambda: graph.stage(asked, job="late", start=0, end=60),
        lambda: graph.allocate_all([(asked, "late")], start=0, end=60),
    ):
        with pytest.raises(StaleHandle, match="its instance has ended"):
            refused()
    assert (events, graph.jobs(), graph.check()) == ([], [], [])
