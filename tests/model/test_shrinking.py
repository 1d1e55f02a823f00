"""Freeing by request: which of the job's pools are freed, in which order, and refusals."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.errors import FluxresError, InfeasibleRequest, InsufficientResources, NotHeld, UnknownJob, UsageError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.model import ResourceGraph
from tests import sites
from tests.allocation.test_records import MEMORY, machine, trace


def rack() -> ResourceGraph:
    """Four nodes of four cores, two gpus and 8 GiB; the last one has a property."""
    below = (Recipe("core", count=4), Recipe("gpu", count=2), Recipe("memory", size=8, unit="GiB", ids=None))
    nodes = (
        Recipe("node", count=3, children=below),
        Recipe("node", count=1, ids=3, properties={"old": None}, children=below),
    )
    return ResourceGraph(expand(Recipe("cluster", ids=None, children=nodes), origin=uuids.new_origin()))


def names(pools: Any) -> list[str]:
    return [pool.path.removeprefix("/cluster/") for pool in pools]


def constrained(shape: str, constraint: dict[str, Any]) -> dict[str, Any]:
    kind, count = shape.split("=")
    return {
        "version": 1,
        "resources": [{"type": "slot", "count": int(count), "label": "s", "with": [{"type": kind, "count": 1}]}],
        "tasks": [{"command": ["x"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60, "constraints": constraint}},
    }


def test_last_pools_are_freed_unless_a_policy_decides() -> None:
    g = rack()
    g.allocate("slot=4/node", job="a", duration_s=100)
    assert names(g.shrink("a", "slot=2/node")) == ["node2", "node3"]
    assert names(g.shrink("a", "slot/node", policy="low")) == ["node0"]
    assert names(g.allocation("a")) == ["node1"]
    g.shrink("a", "slot/node")
    assert g.jobs() == []


def test_slots_have_the_same_meaning_as_in_allocate() -> None:
    g = rack()
    g.allocate("slot=4/[core=2;gpu]", job="a")
    taken = g.shrink("a", "slot=2/[core=2;gpu]")
    assert names(taken) == [f"node1/{part}" for part in ("core0", "core1", "core2", "core3", "gpu0", "gpu1")]
    assert taken.R()["execution"]["nslots"] == 2
    assert names(g.allocation("a")) == [f"node0/{part}" for part in ("core0", "core1", "core2", "core3", "gpu0", "gpu1")]
    assert len(g.shrink("a", "slot=1+/core")) == 4, "as many as there are"


def test_units_are_freed_from_what_is_held_of_a_pool() -> None:
    g = rack()
    g.allocate([("/cluster/node0/memory", 6), ("/cluster/node1/memory", 8)], job="a", start=0, end=10)
    taken = g.shrink("a", "slot/memory=5", policy="low", start=4, end=8)
    assert [(span.pool, span.amount, span.start, span.end) for span in taken.spans] == [("/cluster/node0/memory", 5, 4, 8)]
    left = [(s.amount, s.start) for s in g.allocation("a").spans if s.pool == "/cluster/node0/memory"]
    assert left == [(6, 0), (1, 4), (6, 8)]
    with pytest.raises(NotHeld, match="holds nothing throughout this window"):
        g.shrink("a", "slot/memory=1", start=5, end=12)
    with pytest.raises(NotHeld, match="2 lack 9 GiB of memory"):
        g.shrink("a", "slot/memory=9", start=5, end=7)
    assert names(g.shrink("a", "slot/memory=8")) == ["node1/memory"], "held whole"
    assert g.check() == []


def test_only_units_held_throughout_the_window_match() -> None:
    g = rack()
    g.allocate("/cluster/node0", job="a", start=0, end=10)
    g.grow("a", "/cluster/node1", start=5, end=10)
    assert names(g.shrink("a", "slot/node", start=2, end=8)) == ["node0"]
    assert names(g.shrink("a", "slot/node", start=5)) == ["node1"]
    with pytest.raises(NotHeld, match="holds nothing in this window"):
        g.shrink("a", "slot/node", start=20)


def test_the_reasons_of_a_refusal_are_one_sentence() -> None:
    g = rack()
    g.allocate("slot=1/node", job="a")
    with pytest.raises(NotHeld) as refused:
        g.shrink("a", "slot=99/core")
    assert refused.value.message.count(";") == 1
    assert "." not in refused.value.message.replace("resources[0].with[0]", "")


def test_shrink_honours_constraints_and_ignores_states() -> None:
    g = rack()
    g.allocate("slot=4/node", job="a")
    g.set_state("/cluster/node1", "down")
    assert names(g.shrink("a", constrained("node=1", {"states": ["down"]}))) == ["node1"]
    assert names(g.shrink("a", constrained("node=1", {"not": [{"properties": ["old"]}]}))) == ["node2"]
    g.set_state("/cluster/node0", "drain")
    with pytest.raises(NotHeld, match="does not hold that"):
        g.shrink("a", constrained("node=2", {"ranks": ["3"]}))
    with pytest.raises(NotHeld, match="satisfies the constraint"):
        g.shrink("a", constrained("node=1", {"hostlist": ["nobody"]}))
    assert names(g.shrink("a", "slot=2/node")) == ["node0", "node3"], "what is down can be given back"


def test_implied_pools_are_freed_only_with_the_pool_above() -> None:
    g = rack()
    g.allocate("slot=2/node", job="a")
    before = trace(g)
    with pytest.raises(NotHeld, match="only as a part of /cluster/node1") as caught:
        g.shrink("a", "slot/core=4")
    assert caught.value.where == "/cluster/node1/core0"
    assert trace(g) == before
    # Other such pools are found.
    g.grow("a", "slot/core=2")
    assert names(g.shrink("a", "slot/core=2")) == ["node2/core0", "node2/core1"]
    # The node may be requested by its contents.
    assert names(g.shrink("a", "slot/node/[core=4;gpu=2]")) == ["node1"]


REFUSED: list[tuple[str, Any, type[FluxresError], str]] = [
    ("b", "slot/node", UnknownJob, "no job 'b'"),
    ("a", "slot=5/node", NotHeld, "requested 5 nodes, there are only 2"),
    ("a", "slot/bundle", InfeasibleRequest, "no pool of type 'bundle'"),
    ("a", "node", UsageError, "nothing is recorded"),
    ("a", "slot=/node", FluxresError, "expected a count"),
    ("a", "slot/cluster", NotHeld, "cluster"),
]


@pytest.mark.parametrize(("job", "wanted", "kind", "message"), REFUSED)
def test_refused_shrink_changes_nothing(job: str, wanted: Any, kind: type[FluxresError], message: str) -> None:
    g = rack()
    g.allocate("slot=2/node", job="a")
    before = trace(g)
    with pytest.raises(kind, match=message):
        g.shrink(job, wanted)
    assert (trace(g), g.revision) == (before, 1)


def test_type_that_the_job_does_not_hold_is_refused() -> None:
    g = rack()
    g.allocate("slot=2/core", job="a")
    with pytest.raises(NotHeld, match="nothing of type gpu"):
        g.shrink("a", "slot/gpu")


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(25))
def test_freed_and_remaining_units_add_up(seed: int) -> None:
    source = random.Random(seed)
    told: list[Any] = []
    g = machine()
    g.sink = told.append
    shapes: list[Any] = ["slot/node", "slot=2/core", "slot/[core;memory=2]", "slot/memory=3", "license=4{x}", "slot=1+/core"]
    for _ in range(40):
        job = f"j{source.randrange(3)}"
        before = {(s.pool, s.start, s.end): s.amount for s in g.allocation(job).spans} if job in g.jobs() else {}
        try:
            if source.random() < 0.5:
                g.allocate(source.choice([*shapes, [(MEMORY, 2)]]), job=job, start=0, end=10)
                continue
            taken = {(s.pool, s.start, s.end): s.amount for s in g.shrink(job, source.choice(shapes)).spans}
        except FluxresError:
            continue
        left = {(s.pool, s.start, s.end): s.amount for s in g.allocation(job).spans} if job in g.jobs() else {}
        assert taken
        assert {key: taken.get(key, 0) + left.get(key, 0) for key in before} == before
        assert g.check() == []
    replayed = machine()
    for event in told:
        replayed.apply(event)
    assert trace(replayed) == trace(g)


def test_growth_by_request_lasts_until_the_job_ends_or_the_window_does() -> None:
    now = [0.0]
    g = rack()
    g.clock = lambda: now[0]
    g.allocate("slot/node", job="a", start=10, end=100)
    assert [(s.start, s.end) for s in g.grow("a", "slot/core").spans] == [(10, 100)]
    now[0] = 50
    assert [(s.start, s.end) for s in g.grow("a", "slot/core").spans] == [(50, 100)]
    assert [(s.start, s.end) for s in g.grow("a", "slot/core", start=60, end=70).spans] == [(60, 70)]
    assert [(s.start, s.end) for s in g.grow("a", "slot/core", end=120).spans] == [(50, 120)]
    before = trace(g)
    for start, end in ((130, None), (None, 20)):
        with pytest.raises(UsageError, match="window"):
            g.grow("a", "slot/core", start=start, end=end)
    with pytest.raises(UnknownJob):
        g.grow("b", "slot/core")
    with pytest.raises(InfeasibleRequest):
        g.grow("a", "slot=5/node")
    assert trace(g) == before


PANEL = (
    sites.racks(cores=8)
    + """\
  power:
    hierarchy: true
    pools:
      - {type: power, basename: feed, size: 3000, unit: W, with: [{type: power, basename: pdu, count: 2, size: 1600, unit: W}]}
    edges:
      - {from: "power:/feed/pdu[0-1]", to: "/site/rack[0-1]", relation: supplies}
"""
)


@pytest.fixture
def panel() -> ResourceGraph:
    """Two PDUs of 1600 W in one feed of 3000 W, a rack of four nodes on each."""
    return sites.graph(PANEL)


def draws(graph: ResourceGraph) -> list[int]:
    return [pool.allocated() for pool in graph.find("type=power")]


def test_charges_below_an_exclusive_feed_become_records_when_it_is_freed(panel: ResourceGraph) -> None:
    panel.allocate("slot=8/[node;power=375]", job="all")
    assert draws(panel) == [3000, 1600, 1600]  # the feed is exclusive, and implies what is in it
    panel.shrink("all", "slot=2/[node;power=375]")
    assert draws(panel) == [2250, 1500, 750]
    assert panel.check() == []
    with pytest.raises(InsufficientResources):
        panel.allocate("slot=2/[core=1;power=450]", job="more")
    panel.allocate("slot=1/[core=1;power=450]", job="more")
    assert draws(panel) == [2700, 1500, 1200]


def test_supplier_and_implied_units_shrink_together_by_name(panel: ResourceGraph) -> None:
    panel.allocate("slot=8/[node;power=375]", job="all")
    feed, pdu0, _ = panel.find("type=power")
    panel.shrink("all", {feed: 375, pdu0: 375})
    assert draws(panel) == [2625, 1125, 1500]
    panel.free("all", {feed: 1})
    assert draws(panel) == [2624, 1125, 1500]
    panel.free("all")
    assert draws(panel) == [0, 0, 0]


def test_implied_units_of_a_supplier_are_saved_and_loaded(panel: ResourceGraph, tmp_path: Path) -> None:
    panel.allocate("slot=8/[node;power=375]", job="all")
    for target in ("site.db", "site.json"):
        place = f"sqlite:///{tmp_path / target}" if target.endswith("db") else str(tmp_path / target)
        fluxres.save(panel, place, **({} if target.endswith("db") else {"format": "node-link"}))
        loaded = fluxres.load(place)
        assert loaded.check() == []
        loaded.shrink("all", "slot=2/[node;power=375]")
        assert draws(loaded) == [2250, 1500, 750], target


def test_implied_units_become_records_in_the_freed_window(panel: ResourceGraph) -> None:
    panel.allocate("/site/rack0/node0/core0", job="j", start=0, end=100)
    panel.allocate("/site/rack0/node0", job="j", start=20, end=40)
    panel.allocate("/site/rack0", job="j", start=30, end=35)
    for start, end in ((20, 40), (20, 31), (34, 40), (20, None), (None, None)):
        with pytest.raises(NotHeld, match="in a part of the window only through a pool above") as refused:
            panel.shrink("j", "/site/rack0/node0", start=start, end=end)
        assert "held through /site/rack0 from 3" in refused.value.hint
    with pytest.raises(NotHeld, match="holds nothing of it"):
        panel.shrink("j", "/site/rack0/node0", start=31, end=32)
    panel.shrink("j", "/site/rack0/node0", start=20, end=30)
    panel.shrink("j", "/site/rack0/node0", start=35, end=40)
    core = panel.pool("/site/rack0/node0/core0")
    assert [(span.start, span.end) for span in (*core.allocations(), *core.reservations())] == [(0, 30), (35, 100)]
    panel.shrink("j", ["/site/rack0", "/site/rack0/node0"])
    assert [(span.start, span.end) for span in (*core.allocations(), *core.reservations())] == [(0, 100)]
    with pytest.raises(InsufficientResources):
        panel.allocate(core, job="other", start=20, end=40)


def test_implied_units_cannot_be_freed_alone(panel: ResourceGraph) -> None:
    panel.allocate("/site/rack0/node0/core0", job="j")
    panel.allocate("/site/rack0/node0", job="j")
    with pytest.raises(NotHeld, match="holds nothing of it") as refused:
        panel.free("j", "/site/rack0/node0/core0")
    assert refused.value.hint == "it is held through /site/rack0/node0: free that"
    panel.free("j", ["/site/rack0/node0/core0", "/site/rack0/node0"])
    assert panel.jobs() == []


def fed(unit: str = "W", capacity: int = 150, per_node: int = 1) -> ResourceGraph:
    """Four nodes behind edges with a capacity, two to a PDU (or all to both), and a feed above."""
    pdu = {"type": "power", "basename": "pdu", "count": 2, "size": 200, "unit": "W"}
    sides = ([0, 1], [2, 3]) if per_node == 1 else ([0, 1, 2, 3], [0, 1, 2, 3])
    edges = [
        {"from": f"power:/feed/pdu{at}", "to": f"/m/node{node}", "capacity": capacity, "unit": unit}
        for at, nodes in enumerate(sides)
        for node in nodes
    ]
    if per_node == 1:
        power = {"hierarchy": True, "pools": [{"type": "power", "name": "feed", "size": 300, "unit": "W", "with": [pdu]}]}
    else:
        power = {"pools": [pdu]}
        edges = [{**edge, "from": edge["from"].replace("feed/", "")} for edge in edges]
    resources = [{"type": "node", "count": 4, "with": [{"type": "core", "count": 2}]}]
    return fluxres.load({"fluxres": 1, "name": "m", "resources": resources, "graphs": {"power": {**power, "edges": edges}}})


def amounts(allocation: Any) -> dict[str, int]:
    return {span.pool: span.amount for span in allocation.spans}


def test_freed_watts_are_freed_along_the_complete_path() -> None:
    g = fed()
    g.allocate("slot=2/[node{x};power=100]", job="a", duration_s=10)
    first, last = (f"power: power:/feed/pdu0 -> /m/node{at}" for at in range(2))
    assert amounts(g.shrink("a", "power=40")) == {"power:/feed": 40, "power:/feed/pdu0": 40, last: 40}
    assert amounts(g.shrink("a", "power=100")) == {"power:/feed": 100, "power:/feed/pdu0": 100, last: 60, first: 40}
    assert amounts(g.allocation("a")) == {"/m/node0": 1, "/m/node1": 1, "power:/feed": 60, "power:/feed/pdu0": 60, first: 60}
    assert g.check() == []
    # The rest is freed with the node that it was drawn for; the other one has nothing left.
    assert amounts(g.shrink("a", "/m/node1")) == {"/m/node1": 1}
    assert amounts(g.shrink("a", "/m/node0")) == {"/m/node0": 1, "power:/feed": 60, "power:/feed/pdu0": 60, first: 60}
    assert g.jobs() == []


def test_watts_named_together_with_a_node_are_freed_once() -> None:
    g = fed()
    g.allocate("slot=2/[node{x};power=100]", job="a", duration_s=10)
    edge = "power: power:/feed/pdu0 -> /m/node{}"
    expected = {"power:/feed": 100, "power:/feed/pdu0": 100}
    h = g.duplicate()
    assert amounts(g.shrink("a", "slot=1/[node;power=40]")) == {"/m/node1": 1, **expected, edge.format(1): 100}
    assert amounts(g.allocation("a")) == {"/m/node0": 1, **expected, edge.format(0): 100}
    h.free("a", {"/m/node1": None, "power:/feed": 40, edge.format(1): 20})
    assert amounts(h.allocation("a")) == amounts(g.allocation("a"))
    for each in (g, h):
        assert each.check() == []
        each.free("a")
        assert each.check() == []
        assert each.allocate("power=300", job="b").spans


def test_edge_in_another_unit_frees_no_more_than_its_supplier() -> None:
    g = fed("kW", 1)
    children = [{"type": "node", "count": 1, "exclusive": True}, {"type": "power", "count": 100, "unit": "W"}]
    slots = [{"type": "slot", "label": "s", "count": 2, "with": children}]
    tasks = [{"command": ["x"], "slot": "s", "count": {"per_slot": 1}}]
    g.allocate({"version": 1, "resources": slots, "tasks": tasks, "attributes": {"system": {"duration": 10}}}, job="a")
    before = amounts(g.allocation("a"))
    assert amounts(g.shrink("a", "power=40")) == {"power:/feed": 40, "power:/feed/pdu0": 40}
    assert amounts(g.allocation("a")) == before | {"power:/feed": 160, "power:/feed/pdu0": 160}
    assert g.check() == []


def test_only_edges_behind_a_supplier_are_freed_with_it() -> None:
    g = fed(per_node=2)
    g.allocate("slot=1/[node{x};power=100]", job="a", duration_s=10)
    held = amounts(g.allocation("a"))
    taken = amounts(g.shrink("a", "power=40", policy="low"))
    suppliers = [name for name in taken if " -> " not in name]
    assert {name: units for name, units in taken.items() if " -> " in name} == {
        f"power: {name} -> /m/node0": taken[name] for name in suppliers
    }
    assert set(taken) <= set(held)
    assert g.check() == []


def test_slot_freed_in_separate_windows_leaves_the_slot_count_unknown() -> None:
    g = rack()
    for start in (0, 20):
        g.allocate("slot=1/node{id:'0'}", job="j", start=start, end=start + 10)
    taken = g.shrink("j", "slot/node")
    assert [(span.start, span.end) for span in taken.spans] == [(0, 10), (20, 30)]
    assert g.jobs() == []
    assert g.check() == []
    for start in (0, 20):
        g.allocate("slot=1/node{id:'0'}", job="j", start=start, end=start + 10)
    g.allocate("slot=2/node{id:'1-2'}", job="j", start=0, end=10)
    g.shrink("j", "slot/node", policy="low")
    assert names(g.allocation("j")) == ["node1", "node2"]
    assert g.records.slots_of == {}  # how many of the three slots were those of node0 is not recorded
    g.free("j")
    assert g.check() == []
