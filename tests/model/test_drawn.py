"""Rule F2: what was drawn for a pool is freed with the job's last units of it, however these are freed."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import fluxres
from fluxres.errors import InsufficientResources, NotHeld, StaleHandle, StillHeld
from fluxres.instance import Instance, Job, Runner
from fluxres.model import ResourceGraph
from fluxres.model.events import Event
from tests import sites
from tests.instance.machines import ManualClock

PLAIN = sites.racks() + sites.power(9000, 5000)
SITE = (
    PLAIN
    + """\
      - {from: "/site/rack0", to: "/site/rack0/node*", capacity: 2000}
      - {from: "/site/rack1", to: "/site/rack1/node*", capacity: 2000}
"""
)


@pytest.fixture
def site() -> ResourceGraph:
    """Two racks of four nodes; a feed of 9 kW, a PDU of 5 kW a rack, 2 kW to each node."""
    return sites.graph(SITE)


def drawn(graph: ResourceGraph, job: str = "j", at: float | None = None) -> dict[str, int]:
    """A job's draws, by supplier and by node behind a cable."""
    found = {}
    for span in graph.allocation(job, at).spans if job in graph.jobs() else ():
        if " -> " in span.pool:
            found[span.pool.rpartition("/")[2]] = span.amount
        elif "power" in span.pool:
            found[span.pool.rpartition("/")[0].rpartition("/")[2]] = span.amount
    return found


def node(number: int) -> str:
    return f"/site/rack{number // 4}/node{number}"


GIVEN_BACK: dict[str, Callable[[ResourceGraph], object]] = {
    "shrink by name": lambda g: g.shrink("j", node(1)),
    "shrink by request": lambda g: g.shrink("j", "slot=1/node{id:'1'}"),
    "free by name": lambda g: g.free("j", node(1)),
    "with its watts by name": lambda g: g.free("j", {node(1): 1, "power:/feed/pdu0/power": 700}),
    "with its watts by request": lambda g: g.shrink("j", "slot=1/[node{id:'1'};power=700]"),
}


@pytest.mark.parametrize("way", GIVEN_BACK)
def test_rule_f2_watts_are_freed_with_the_node(site: ResourceGraph, way: str) -> None:
    site.allocate("slot=2/[node;power=700]", job="j", duration_s=100)
    site.grow("j", "slot=1/[node;power=1500]")
    assert drawn(site) == {"feed": 2900, "pdu0": 2900, "node0": 700, "node1": 700, "node2": 1500}
    GIVEN_BACK[way](site)
    assert drawn(site) == {"feed": 2200, "pdu0": 2200, "node0": 700, "node2": 1500}
    site.shrink("j", node(2))
    assert drawn(site) == {"feed": 700, "pdu0": 700, "node0": 700}
    site.free("j", node(0))
    assert site.jobs() == []
    assert site.planner.moments(0, 10**18) == []
    assert site.check() == []


def _stored(graph: ResourceGraph, folder: Path) -> ResourceGraph:
    place = f"sqlite:///{folder}/store.db#part"
    fluxres.save(graph, place)
    return fluxres.load(place, clock=graph.clock)


def _with_edge(graph: ResourceGraph, folder: Path) -> ResourceGraph:
    graph.set_edge("power:/feed/pdu0", "/site/rack0", "power", unit="W")
    return graph


def _merged(graph: ResourceGraph, folder: Path) -> ResourceGraph:
    graph.merge(fluxres.build(fluxres.Resource("shelf"), name="site"))
    return graph


RESHAPED: dict[str, Callable[[ResourceGraph, Path], ResourceGraph]] = {
    "nothing": lambda g, _: g,
    "duplicate": lambda g, _: g.duplicate(),
    "pickle": lambda g, _: pickle.loads(pickle.dumps(g)),
    "document": lambda g, _: fluxres.loads(fluxres.dumps(g)),
    "store": _stored,
    "edge": _with_edge,
    "merge": _merged,
}


@pytest.mark.parametrize(("way", "staged"), [(w, s) for w in RESHAPED for s in (False, True) if not (s and w == "document")])
def test_rule_f2_draws_for_a_pass_through_node_are_freed_with_its_last_core(way: str, staged: bool, tmp_path: Path) -> None:
    whole = sites.graph(sites.racks() + sites.power(9000, 5000))
    whole.allocate("slot=2/[core=4;power=700]", job="p", duration_s=100)
    part = whole.copy(job="p")
    request = "slot=2/[core=4;power=300]"
    if staged:
        kept = part.stage(request, job="j", duration_s=100).stage
        part = RESHAPED[way](part, tmp_path)
        part.commit(kept)
    else:
        part.allocate(request, job="j", duration_s=100)
        part = RESHAPED[way](part, tmp_path)
    assert drawn(part) == {"feed": 600, "pdu0": 600}
    part.shrink("j", [f"{node(1)}/core{i}" for i in range(4)])
    assert drawn(part) == {"feed": 300, "pdu0": 300}
    assert part.check() == []


def test_result_of_shrink_contains_the_watts(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node;power=700]", job="j", duration_s=100)
    taken = site.shrink("j", node(0))
    assert sorted((span.pool.rpartition("/")[2], span.amount) for span in taken.spans) == [
        ("node0", 1),
        ("node0", 700),
        ("power", 700),
        ("power", 700),
    ]


def test_watts_are_freed_only_for_the_window_of_the_node(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node;power=700]", job="j", duration_s=100)
    site.free("j", node(0), start=40)
    assert drawn(site, at=39)["pdu0"] == 1400
    assert drawn(site, at=40)["pdu0"] == 700
    site.free("j", node(1), start=20, end=60)
    assert [drawn(site, at=at).get("pdu0", 0) for at in (10, 30, 50, 70)] == [1400, 700, 0, 700]
    site.expire(65)
    assert drawn(site, at=70) == {"feed": 700, "pdu0": 700, "node1": 700}
    site.free("j", node(1))
    assert site.check() == []
    assert site.jobs() == []


def test_watts_of_cores_are_freed_with_the_last_core_in_the_node(site: ResourceGraph) -> None:
    site.allocate("slot=3/[core=2;power=250]", job="j", duration_s=100)
    assert drawn(site) == {"feed": 750, "pdu0": 750, "node0": 500, "node1": 250}
    site.free("j", [node(0) + f"/core{number}" for number in range(3)])
    assert drawn(site)["node0"] == 500
    site.free("j", node(0) + "/core3")
    assert drawn(site) == {"feed": 250, "pdu0": 250, "node1": 250}
    assert site.check() == []


def test_exclusive_rack_keeps_the_watts_of_a_freed_node(site: ResourceGraph) -> None:
    site.allocate("slot=1/[node;power=700]", job="j")
    site.allocate("/site/rack0", job="j")
    site.free("j", "/site/rack0")
    assert drawn(site) == {"feed": 700, "pdu0": 700, "node0": 700}
    site.allocate("/site/rack0", job="j")
    site.free("j")
    assert site.jobs() == []


def test_exclusive_supplier_is_freed_with_its_last_consumer(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node;power=500{x}]", job="j", duration_s=100)
    whole = {"feed": 9000, "pdu0": 5000, "node0": 2000, "node1": 2000}
    assert drawn(site) == whole
    site.shrink("j", node(1))
    assert drawn(site) == {name: n for name, n in whole.items() if name != "node1"}
    site.shrink("j", node(0))
    assert site.jobs() == []


def test_freeing_picked_supplier_units_frees_upstream_units(site: ResourceGraph) -> None:
    site.allocate("pdu=1/power=800", job="j")
    assert drawn(site) == {"feed": 800, "pdu0": 800}
    site.free("j", "power:/feed/pdu0/power")
    assert site.jobs() == []


def test_named_watts_are_freed_first_and_at_most_those_held(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node;power=700]", job="j", duration_s=100)
    site.allocate({"power:/feed/pdu0/power": 100}, job="j", duration_s=100)
    site.free("j", {"power:/feed/pdu0/power": 300})
    # 100 W had no consumer, 200 W were for the last node; the rest is freed with the nodes.
    assert drawn(site)["pdu0"] == 1200
    site.free("j", node(1))
    assert drawn(site) == {"feed": 700, "pdu0": 700, "node0": 700}
    site.free("j", node(0))
    assert site.jobs() == []
    site.allocate("slot=1/[node;power=700]", job="j", duration_s=100)
    with pytest.raises(NotHeld):
        site.free("j", {"power:/feed/pdu0/power": 701})
    assert site.check() == []


def test_draws_without_a_held_consumer_stay_until_named(site: ResourceGraph) -> None:
    site.allocate("rack=1/power=500", job="j")
    site.allocate(node(1), job="j")
    site.free("j", node(1))
    assert drawn(site) == {"feed": 500, "pdu0": 500}
    site.free("j")
    assert site.jobs() == []


def test_draws_survive_stages_co_allocation_and_replay(site: ResourceGraph) -> None:
    told: list[Event] = []
    again = site.duplicate()
    site.sink = told.append
    site.stage("slot=2/[node;power=300]", job="j", duration_s=50).commit()
    site.allocate_all([("slot=1/[node;power=1000]", "a"), ("slot=1/[node;power=500]", "b")], duration_s=50)
    site.stage("slot=2/[node;power=500{x}]", job="c", start=60, duration_s=50).commit()
    site.shrink("c", node(1))
    site.shrink("j", node(0))
    for event in told:
        again.apply(event)
    for graph in (site, again, site.duplicate()):
        assert drawn(graph) == {"feed": 300, "pdu0": 300, "node1": 300}
        graph.shrink("j", node(1))
        graph.shrink("c", node(0))
        graph.free("a", node(2))
        assert sorted(graph.jobs()) == ["b"]
        assert graph.check() == []


@pytest.mark.parametrize("form", ["sqlite", "cluster", "node-link", "changes"])
def test_files_and_stores_keep_the_consumers_of_draws(site: ResourceGraph, form: str, tmp_path: Path) -> None:
    site.allocate("slot=2/[node;power=700]", job="j", duration_s=100)
    site.allocate("slot=2/[node;power=500{x}]", job="x", start=200, duration_s=50)
    if form == "sqlite":
        place = f"sqlite:///{tmp_path}/store.db#site"
        fluxres.save(site, place)
    elif form == "changes":
        place = str(tmp_path / "site.yaml")
        fluxres.save(site.duplicate(), place)
    else:
        place = str(tmp_path / f"site.{'yaml' if form == 'cluster' else 'node-link.json'}")
        fluxres.save(site, place, format=form)
    again = site if form == "changes" else fluxres.load(place, clock=lambda: 0)
    assert again.check() == []
    again.shrink("j", node(1))
    again.shrink("x", node(1))
    assert drawn(again) == {"feed": 700, "pdu0": 700, "node0": 700}
    assert drawn(again, "x") == {"feed": 9000, "pdu0": 5000, "node0": 2000}
    again.shrink("x", node(0))
    assert again.jobs() == ["j"]


def test_audit_finds_draws_that_are_not_held(site: ResourceGraph) -> None:
    site.allocate("slot=1/[node;power=700]", job="j")
    site.records.drawn.put("j", (site.vertex(node(0)),), site.vertex("power:/feed/power"), ((0, 10, 1),))
    (problem,) = site.check()
    assert problem.message.startswith("F2: j drew")
    # It can be freed nevertheless, and the inconsistency is gone.
    site.free("j", node(0))
    assert site.jobs() == []
    assert site.check() == []


def test_units_freed_by_name_leave_the_node(site: ResourceGraph) -> None:
    site.allocate("slot=2/[node;power=700]", job="j", duration_s=100)
    for supplier in ("power:/feed/power", "power:/feed/pdu0/power"):
        site.free("j", {supplier: 300})
    assert drawn(site) == {"feed": 1100, "pdu0": 1100, "node0": 700, "node1": 700}
    assert site.check() == []
    site.free("j", node(1))
    assert drawn(site) == {"feed": 700, "pdu0": 700, "node0": 700}
    site.free("j", node(0))
    assert site.jobs() == []


def test_shrinking_a_child_returns_its_watts_to_the_parent(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    job = top.submit("slot=2/[node;power=700]", duration_s=100)
    child = top.spawn(job)
    child.grow("slot=1/[node;power=900]")
    holder = top.graph.jobs()[0]
    assert drawn(top.graph, holder)["pdu0"] == 2300
    child.shrink(node(1))
    assert drawn(top.graph, holder) == {"feed": 1600, "pdu0": 1600, "node0": 700, "node2": 900}
    assert top.check() == []
    child.shrink(node(2))
    assert drawn(top.graph, holder) == {"feed": 700, "pdu0": 700, "node0": 700}
    assert child.graph.satisfiable("slot=1/[core;power=700]")
    assert not child.graph.satisfiable("slot=1/[core;power=701]")
    assert top.check() == []


def test_draws_of_a_childs_jobs_are_not_freed() -> None:
    graph = sites.graph(PLAIN)
    child = (top := Instance(graph, clock=ManualClock(), name="top")).spawn(top.submit("slot=2/[node;power=700]", duration_s=100))
    running = child.submit("slot=1/[core;power=1000]", duration_s=50)
    with pytest.raises(StillHeld, match="jobs draw 1000 of it, but only 700 would be left"):
        child.shrink(node(1))
    child.cancel(running)
    child.shrink(node(1))
    assert drawn(graph, graph.jobs()[0]) == {"feed": 700, "pdu0": 700}
    assert top.check() == []


def test_part_of_an_exclusive_rack_frees_only_what_it_drew(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("rack=1{x}/power=800", duration_s=100))
    child.shrink(node(1))
    holder = top.graph.jobs()[0]
    assert drawn(top.graph, holder) == {"feed": 800, "pdu0": 800}
    assert top.check() == []


def test_childs_last_core_in_a_node_frees_the_nodes_watts(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot=2/[core=2;power=400]", duration_s=100))
    child.shrink([f"{node(0)}/core0"])
    holder = top.graph.jobs()[0]
    assert drawn(top.graph, holder) == {"feed": 800, "pdu0": 800, "node0": 800}
    child.shrink([f"{node(0)}/core{number}" for number in (1, 2)])
    assert child.graph.pool("power:/feed/pdu0/power").size == 800
    child.shrink([f"{node(0)}/core3"])
    assert top.graph.jobs() == []
    assert top.check() == []


def test_child_without_units_of_a_supplier_draws_what_its_parent_has(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot=1/[node;power=400]", duration_s=100))
    child.grow([node(4)])
    child.shrink([node(0)])
    assert drawn(top.graph, top.graph.jobs()[0]) == {}
    child.submit("slot=1/[core=4;power=1900]", duration_s=50)
    assert drawn(top.graph, top.graph.jobs()[0]) == {"feed": 1900, "pdu1": 1900, "node4": 1900}
    assert top.check() == []


def test_shrinking_a_grandchild_returns_watts_to_its_own_parent_only(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot=3/[node;power=700]", duration_s=100))
    inner = child.spawn(child.submit("slot=2/[node;power=600]", duration_s=50))
    inner.shrink([node(1)])
    assert drawn(child.graph, child.graph.jobs()[0]) == {"feed": 600, "pdu0": 600, "node0": 600}
    assert drawn(top.graph, top.graph.jobs()[0])["pdu0"] == 2100
    with pytest.raises(StillHeld):
        child.shrink([node(0)])
    inner.close()
    child.shrink([node(0), node(1)])
    assert drawn(top.graph, top.graph.jobs()[0]) == {"feed": 700, "pdu0": 700, "node2": 700}
    assert top.check() == []


def test_grandchild_returns_units_after_its_parent_grew_and_shrank() -> None:
    top = Instance(sites.graph(PLAIN), clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot=8/core", duration_s=100))
    running = child.submit("slot=2/[core=4;power=300]", duration_s=50)
    child.grow([node(2)])
    child.shrink([node(2)])
    inner = child.spawn(running)
    inner.shrink([f"{node(1)}/core{number}" for number in range(4)])
    assert drawn(child.graph, child.graph.jobs()[0]) == {"feed": 300, "pdu0": 300}
    assert drawn(top.graph, top.graph.jobs()[0]) == {"feed": 300, "pdu0": 300}
    assert top.check() == []


def test_parts_of_an_exclusive_rack_free_their_own_draws_only(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    child = top.spawn(top.submit("slot=1/rack{x}/[node=4;power=300]", duration_s=100))
    holder = top.graph.jobs()[0]
    before = drawn(top.graph, holder)
    child.shrink([f"{node(1)}/core0"])
    assert drawn(top.graph, holder) == before
    child.shrink([f"{node(1)}/core{number}" for number in (1, 2, 3)])
    assert top.check() == []
    assert drawn(top.graph, holder)["pdu0"] == before["pdu0"] * 3 // 4


def test_job_past_its_limit_frees_nothing(site: ResourceGraph) -> None:
    class Slow(Runner):
        def start(self, job: Job) -> None:
            """Nothing to do."""

        def stop(self, job: Job, why: str) -> None:
            """It takes its time."""

    clock = ManualClock()
    top = Instance(site, clock=clock, name="top", runner=Slow())
    child = top.spawn(top.submit("rack=1{x}", duration_s=10), runner=Slow())
    child.submit("slot=1/core", duration_s=5)
    clock.now_s = 10
    with pytest.raises(StaleHandle, match="past its limit"):
        child.shrink([node(1)])
    assert top.check() == []


def test_extended_job_draws_until_its_new_end(site: ResourceGraph) -> None:
    top = Instance(site, clock=ManualClock(), name="top")
    job = top.submit("slot=2/[node;power=700]", duration_s=100)
    top.set_duration(job, 500)
    holder = top.graph.jobs()[0]
    top.graph.free(holder, node(1), start=300)
    assert [drawn(top.graph, holder, at=at)["pdu0"] for at in (50, 250, 400)] == [1400, 1400, 700]


@pytest.mark.parametrize("seed", range(6))
def test_random_allocations_match_the_sums_of_node_draws(site: ResourceGraph, seed: int) -> None:
    """Against sums over the nodes that each job has, with watts for each."""
    source = random.Random(seed)
    watts: dict[tuple[str, int], int] = {}
    nodes = {site.vertex(node(number)): number for number in range(8)}
    for _ in range(80):
        job, asked = f"j{source.randrange(3)}", source.choice([100, 300, 700, 1900])
        held = [number for holder, number in watts if holder == job]
        what = source.random()
        if what < 0.5:
            with suppress(InsufficientResources):
                number = source.randint(1, 3)
                text = f"slot={number}/[node;power={asked}]"
                given = site.grow(job, text, policy="high") if held else site.allocate(text, job=job)
                watts |= {(job, nodes[pool.vertex]): asked for pool in given.pools if pool.type == "node"}
        elif held and what < 0.85:
            gone = source.sample(held, source.randint(1, len(held)))
            if source.random() < 0.5:
                site.free(job, [node(number) for number in gone])
            else:
                site.shrink(job, f"slot={len(gone)}/node{{id:'{','.join(map(str, sorted(gone)))}'}}")
            for number in gone:
                del watts[job, number]
        elif held:
            site.free(job)
            watts = {key: n for key, n in watts.items() if key[0] != job}
        expected: dict[str, Counter[str]] = {}
        for (holder, number), units in watts.items():
            of_job = expected.setdefault(holder, Counter())
            of_job.update({"feed": units, f"pdu{number // 4}": units, f"node{number}": units})
        assert {holder: drawn(site, holder) for holder in site.jobs()} == expected
    assert site.check() == []


def test_node_that_ends_before_its_contents_is_extended_with_its_watts() -> None:
    plain = """
fluxres: 1
name: lab
resources: [{type: node, count: 2, draw: {power: 100}, with: [{type: core, count: 2}]}]
graphs:
  power: {pools: [{type: power, basename: pdu, size: 100, unit: W}], edges: [{from: "power:/pdu*", to: "/lab/node*"}]}
"""
    for_two = sites.graph(plain.replace("size: 100", "size: 200"))
    for graph in (sites.graph(plain), for_two):
        graph.allocate("/lab/node0/core0", job="a", start=0, end=6)
        graph.allocate("/lab/node0", job="a", start=0, end=5)
        graph.allocate("/lab/node1", job="a", start=5, end=8)
        if graph is for_two:
            graph.set_end("a", 8)
            held = [(span.amount, span.start, span.end) for span in graph.allocation("a").spans if "pdu" in span.pool]
            assert (held, graph.check()) == ([(100, 0, 5), (200, 5, 8)], [])
        else:
            with pytest.raises(InsufficientResources, match="power:pdu: requested 100 units, 0 of 100 free"):
                graph.set_end("a", 8)
