"""Replaying the events of the sink yields the same graph, whatever happened and at any time."""

from __future__ import annotations

import math
import random
from typing import Any

import orjson
import pytest

from fluxres.clock import ticks
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.model import ResourceGraph, changes
from tests.allocation.test_records import CORE, MEMORY, NODE, machine, trace
from tests.graph.builders import demo


def facts(g: ResourceGraph) -> Any:
    return trace(g), g.structure.state.tolist(), g.structure.tags


def act(g: ResourceGraph, source: random.Random, now: list[float], stages: list[Any]) -> None:
    """One random operation, refused or not."""
    pool = g.pool(source.randrange(1, len(g)))
    job = f"j{source.randrange(3)}"
    window = {"start": source.randrange(0, 8), "duration_s": source.choice([None, 1, 2.5, 7])}
    operations = [
        lambda: g.allocate([(pool, source.randint(1, pool.size))], job=job, **window),
        lambda: g.allocate([pool, g.pool(source.randrange(1, len(g)))], job=job),
        lambda: g.free(job),
        lambda: pool.free(job, source.choice([None, 1])),
        lambda: g.shrink(job, [(pool, 1)], start=2, end=4),
        lambda: stages.append(g.stage(pool, job=job, ttl_s=source.choice([1, 3, 100]), **window)),
        lambda: stages and stages.pop(source.randrange(len(stages))).commit(),
        lambda: stages and stages.pop(source.randrange(len(stages))).release(),
        lambda: g.set_state(pool, source.choice(["up", "down", "drain", "degraded"])),
        lambda: g.tag(pool, source.choice(["a", "b"]), source.choice([None, "1"])),
        lambda: g.untag(pool, "a"),
        g.expire,
        lambda: g.set_end(job, source.choice([1, 4, 9, math.inf])),
        lambda: g.set_end(job, duration_s=source.choice([1, 6])),
        lambda: now.__setitem__(0, now[0] + source.choice([0, 0.5, 2])),
    ]
    source.choice(operations)()


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(30))
def test_replaying_events_yields_the_same_graph(seed: int) -> None:
    source, now, stages, told = random.Random(seed), [0.0], [], []
    g = machine()
    g.clock = lambda: now[0]
    g.sink = lambda event: told.append(orjson.dumps(event))
    for _ in range(80):
        try:
            act(g, source, now, stages)
        except FluxresError:
            continue
    replayed = machine()
    replayed.clock = lambda: 10_000.0
    for event in told:
        replayed.apply(orjson.loads(event))
    assert facts(replayed) == facts(g)
    assert g.check() == []


def test_refused_change_emits_no_event() -> None:
    g = machine()
    g.allocate("/demo/rack/node0", job="a")
    told: list[Any] = []
    g.sink = told.append
    for change in (
        lambda: g.allocate("/demo/rack/node0/core0", job="b"),
        lambda: g.free("b"),
        lambda: g.set_state("/demo/rack", "sleepy"),
        lambda: g.tag("/demo/rack", ""),
        lambda: g.tag("/demo/rack", "k" * 300),
        lambda: g.unlink("/demo/rack"),
        lambda: g.unlink("/demo"),
    ):
        with pytest.raises(FluxresError):
            change()
    assert told == []


@pytest.mark.parametrize(
    "event",
    [{}, {"event": "explode"}, {"event": "allocate", "job": "a"}, {"event": "free", "job": 3}, {"event": "state", "pools": 4}],
)
def test_invalid_events_are_refused(event: dict[str, Any]) -> None:
    with pytest.raises(FluxresError) as caught:
        machine().apply(event)
    assert isinstance(caught.value, InputError)


def test_events_name_pools_outside_containment_by_graph_and_old_ones_by_uuid() -> None:
    g, told = ResourceGraph(demo()), list[Any]()
    twin, old = g.duplicate(), g.duplicate()
    g.sink = told.append
    g.allocate({"network:switch0": 1, "power:/pdu0": 200}, job="a")
    g.tag("network:spine0", "k")
    assert [event["pools"] for event in told] == [[["network:switch0", 1], ["power:/pdu0", 200]], ["network:spine0"]]
    by_uuid = orjson.dumps(told).decode()
    for name in ("network:switch0", "network:spine0"):
        by_uuid = by_uuid.replace(name, g.pool(name).uuid)
    for graph, events in ((twin, told), (old, orjson.loads(by_uuid))):
        for event in events:
            graph.apply(event)
        assert facts(graph) == facts(g)


def test_event_may_allocate_pools_out_of_service() -> None:
    """Its writer has checked that; the job kept the pool."""
    told: list[Any] = []
    g = machine()
    g.sink = told.append
    g.allocate("/demo/rack", job="a", end=20)
    g.stage("/demo/rack", job="a", start=20, end=30)
    g.allocate_all([("/demo/rack", "b")], start=30, end=40)
    h = machine()
    h.set_state("/demo/rack", "drain")
    for event in told:
        h.apply(event)
    assert trace(h) == trace(g)
    assert h.pool("/demo/rack").state == "drain"
    with pytest.raises(FluxresError, match="it is drain"):
        h.allocate("/demo/rack", job="c", start=50, end=60)


def test_implied_pools_are_freed_before_and_with_the_pool_above() -> None:
    """One event is one revision, and is replayed as emitted, whatever windows the pieces have."""
    told: list[Any] = []
    g = machine()
    g.sink = told.append
    rack, memory = (g.vertex(path) for path in ("/demo/rack", "/demo/rack/node0/memory"))
    g.allocate("/demo/rack", job="a", end=20)
    changes.allocate_more(g, "a", [(memory, 6)], (0, ticks(30)))
    began = g.revision, len(told)
    changes.free_pieces(g, "a", [(memory, 1, ticks(5), ticks(25))])
    changes.free_pieces(g, "a", [(memory, 1, ticks(5), ticks(25)), (rack, 1, ticks(5), ticks(20))])
    assert (g.revision - began[0], len(told) - began[1]) == (3, 3)
    assert [(span.pool, span.amount, span.start, span.end) for span in g.allocation("a").spans] == [
        ("/demo/rack", 1, 0, 5),
        ("/demo/rack/node0/memory", 4, 5, 25),
        ("/demo/rack/node0/memory", 6, 25, 30),
    ]
    h = machine()
    for event in told:
        h.apply(event)
    assert (trace(h), h.revision) == (trace(g), g.revision)


def with_many_moments() -> ResourceGraph:
    """Eight of them on the memory; two in a window of job a would be two more."""
    g = machine()
    for start in range(0, 6, 2):
        g.allocate([(MEMORY, 1)], job="x", start=start, end=start + 1)
    g.allocate([(MEMORY, 1)], job="a", start=20, end=30)
    return g


def test_change_refused_by_a_bound_emits_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the job's own records below a pool would become implied."""
    told: list[Any] = []
    g = with_many_moments()
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 8)
    g.sink = told.append
    before, revision = trace(g), g.revision
    for call in (
        lambda: g.allocate([(MEMORY, 1)], job="b", start=40, end=50),
        lambda: g.allocate("slot/memory", job="b", start=40, end=50),
        lambda: g.allocate_all([([(MEMORY, 1)], "b"), (CORE, "c")], start=40, end=50),
        lambda: g.stage([(MEMORY, 1)], job="b", start=40, end=50),
        lambda: g.grow("a", NODE, start=22, end=28),
        lambda: g.set_end("a", 35),
    ):
        with pytest.raises(LimitExceeded, match="breakpoints"):
            call()
        assert (trace(g), g.revision, told) == (before, revision, [])


def test_stage_stays_if_a_bound_refuses_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    g = with_many_moments()
    stage = g.stage(NODE, job="a", start=22, end=28)
    monkeypatch.setattr("fluxres.limits.BREAKPOINTS_MAX", 8)
    g.sink = told.append
    before = trace(g), g.revision
    with pytest.raises(LimitExceeded, match="breakpoints"):
        stage.commit()
    assert ((trace(g), g.revision), told) == (before, [])
    g.free("x")
    stage.commit()
    assert g.check() == []
