"""Pickling and copying a graph, its handles and its results: equal, and nothing shared."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres import clock
from fluxres.errors import FluxresError, StaleHandle, UsageError
from tests.allocation.test_records import CORE, LICENSE, MEMORY, NODE, machine, trace
from tests.model.test_events import act
from tests.model.test_joining import powered


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_pickled_graph_is_equal(seed: int) -> None:
    source, now, stages = random.Random(seed), [0.0], []
    g = machine()
    g.clock = lambda: now[0]
    for _ in range(60):
        try:
            act(g, source, now, stages)
        except FluxresError:
            continue
    g.clock = clock.fixed(now[0])
    g.name = "other"
    for made in (again(g), copy.copy(g), copy.deepcopy(g)):
        assert trace(made) == trace(g)
        assert (made.name, made.now(), made.jobs(), made.records.implied) == ("other", g.now(), g.jobs(), g.records.implied)
        assert made.structure.state.tolist() == g.structure.state.tolist()
        assert made.structure.tags == g.structure.tags
        assert made.records.slots_of == g.records.slots_of
        assert made.check() == []
        assert made.new_stage_id() == g.new_stage_id() not in g.records.stages


def test_nothing_is_shared() -> None:
    g = powered()
    g.allocate("slot=1/core", job="a")
    for made in (again(g), copy.copy(g), copy.deepcopy(g)):
        made.free("a")
        made.tag("/demo", "k")
        made.pool("/demo/rack").state = "down"
        made.unlink("power:/pdu0/node1")
        assert (g.jobs(), dict(g.root.tags), g.pool("/demo/rack").state) == (["a"], {}, "up")
        assert g.pool("/demo/rack/node1").uris[1] == "power:/pdu0/node1"


@pytest.mark.parametrize("carry", [again, copy.deepcopy])
def test_handles_are_pickled_with_their_graph(carry: Any) -> None:
    g = machine()
    g.unlink(LICENSE)  # generation 1
    given = g.allocate("slot=2/[core;memory=2]", job="a", duration_s=60)
    stage = g.stage("/demo/rack/node1", job="b")
    found = g.match("slot/memory", duration_s=5)
    parts = (g, g.pool(CORE), g.find("type=core"), given, g.allocation("a"), stage, g.root.children, found)
    made, core, cores, allocation, asked, lock, children, match = carry(parts)
    assert core.graph is made
    assert (core, children[0].path) == (made.pool(CORE), "/demo/rack")
    assert cores == made.find("type=core")
    assert allocation.spans == asked.spans == given.spans
    assert [pool.graph for pool in allocation.pools] == [made] * len(given)
    assert allocation.R(scheduling=True) == asked.R(scheduling=True) == given.R(scheduling=True)
    assert (allocation.start, allocation.end, len(allocation)) == (0, 60, 3)
    assert [pool.path for pool in match.pools] == [pool.path for pool in found.pools]
    lock.commit()
    assert (made.jobs(), g.jobs()) == (["a", "b"], ["a"])


def test_pickled_handle_includes_its_graph() -> None:
    g = machine()
    g.allocate([(MEMORY, 3)], job="a")
    pool = again(g.pool(MEMORY))
    assert (pool.path, pool.available(), pool.graph.check()) == (MEMORY, 5, [])
    assert pool.graph is not g


def test_another_process_continues_with_the_graph() -> None:
    g = machine()
    g.clock = clock.fixed(5.0)
    g.allocate(NODE, job="a", end=10)
    code = (
        "import pickle, sys; g = pickle.load(sys.stdin.buffer); print(g.jobs(), g.allocate('slot/node', job='b').pools[0].path)"
    )
    run = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(g), capture_output=True, check=True)
    assert run.stdout.decode().strip() == "['a'] /demo/rack/node1"


def test_sink_is_not_pickled() -> None:
    g, told = machine(), []
    g.sink = told.append
    again(g).allocate(CORE, job="a")
    copy.copy(g).allocate(CORE, job="a")
    assert told == []
    loaded = fluxres.load({"fluxres": 1, "resources": [{"type": "node"}]})
    assert again(loaded).sink is None


def test_unpicklable_graph_is_explained() -> None:
    g = machine()
    g.clock = lambda: 5.0
    with pytest.raises(UsageError, match=r"the clock of graph 'demo' cannot be pickled.*fluxres.clock.system"):
        pickle.dumps(g)
    g.clock = clock.system
    assert again(g).clock is clock.system
    g.destroy()
    with pytest.raises(StaleHandle):
        pickle.dumps(g)


def test_consumers_of_draws_are_pickled() -> None:
    g = fluxres.load(Path(__file__).parents[2] / "data/clusters/demo.yaml")
    g.allocate("slot=2/[node;power=500]", job="j")
    made = again(g)
    for graph in (g, made):
        graph.shrink("j", "/demo/rack0/node1")
    assert made.pool("power:/pdu0").allocated() == g.pool("power:/pdu0").allocated() == 500
    assert trace(made) == trace(g)


def test_derived_data_is_not_pickled() -> None:
    g = powered()
    size = len(pickle.dumps(g))
    g.pool("power:/pdu0/node1")
    g.find("type=core")
    assert g.why_not("slot=99/core") is not None
    assert g.subsystem("power").number_of_edges() > 0
    assert len(pickle.dumps(g)) == size
