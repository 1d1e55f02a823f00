"""What schedulers use, on a local graph, an attached one, and one on a server, with and without asyncio: the same answers."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import fluxres
from fluxres.service.client.async_stage import AsyncRemoteStage
from fluxres.service.client.requests import Request
from fluxres.service.client.values import AsyncRemoteAllocation
from fluxres.store.attached import open as attach
from tests.service.conftest import DEMO, Server, demo_store, running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of this file; each has a graph of its own."""
    with running(f"sqlite://{tmp_path_factory.mktemp('shared')}/site.db") as found:
        yield found


_names = count()


class Awaited:
    """A graph for asyncio, or a value of it, whose coroutines run to their end at once."""

    def __init__(self, inside: Any, loop: asyncio.AbstractEventLoop, graph: Any) -> None:
        self._inside, self._loop, self._graph = inside, loop, graph

    def __getattr__(self, name: str) -> Any:
        if name == "pools":
            return tuple(self._run(self._graph.pool(pool)) for pool in self._inside.pools)
        found = getattr(self._inside, name)
        return self._called(found) if callable(found) else found

    def _called(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return self._run(method(*(getattr(one, "_inside", one) for one in given), **named))

        return call

    def _run(self, found: Any) -> Any:
        if isinstance(found, AsyncIterator):
            return self._run(self._listed(found))
        value = self._loop.run_until_complete(found)
        if isinstance(value, list):
            return [self._wrapped(one) for one in value]
        return self._wrapped(value)

    async def _listed(self, items: AsyncIterator[Any]) -> list[Any]:
        return [one async for one in items]

    def _wrapped(self, value: Any) -> Any:
        is_active = isinstance(value, AsyncRemoteAllocation | AsyncRemoteStage)
        return Awaited(value, self._loop, self._graph) if is_active else value

    def __enter__(self) -> Awaited:
        self._run(self._inside.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._run(self._inside.__aexit__(*error))


@contextmanager
def awaited(url: str, graph: str) -> Iterator[Awaited]:
    """A graph for asyncio, in a loop that runs while it is asked."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()

        async def connected() -> Any:
            return await fluxres.aconnect(url, graph=graph)

        found = loop.run_until_complete(connected())
        yield Awaited(found, loop, found)
        loop.run_until_complete(found.close())


@pytest.fixture(params=["local", "attached", "remote", "asyncio"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "local":
        yield fluxres.load(DEMO, clock=time.time)
    elif request.param == "attached":
        with attach(demo_store(tmp_path)) as attached:
            yield attached
    else:
        server, name = request.getfixturevalue("shared"), f"g{next(_names)}"
        server.connection().make(Request("POST", f"/v1/graphs?name={name}", json.dumps(DEMO).encode()))
        with (fluxres.connect if request.param == "remote" else awaited)(server.url, graph=name) as remote:
            yield remote


def spans(allocation: Any) -> list[tuple[str, int]]:
    return [(span.pool, span.amount) for span in allocation.spans]


def test_allocate_gives_pools_to_a_job_and_free_takes_them_back(graph: Any) -> None:
    granted = graph.allocate("slot=2/node", job="j1", duration_s=60)
    assert spans(granted) == [("/demo/rack0/node0", 1), ("/demo/rack0/node1", 1)]
    assert granted.job == "j1"
    assert granted.end == granted.start + 60
    assert [pool.path for pool in granted.pools] == ["/demo/rack0/node0", "/demo/rack0/node1"]
    assert [pool.type for pool in granted.pools] == ["node", "node"]
    assert granted.R()["execution"]["nodelist"] == ["node[0-1]"]
    assert graph.jobs() == ["j1"]
    graph.free("j1")
    assert graph.jobs() == []


def test_pools_are_allocated_by_name_with_amounts(graph: Any) -> None:
    granted = graph.allocate([("/demo/rack1/node1/core0", 1), ("/demo/rack1/node1/core3", 1)], job="j1")
    assert spans(granted) == [("/demo/rack1/node1/core0", 1), ("/demo/rack1/node1/core3", 1)]
    assert granted.end == math.inf
    graph.free("j1", ["/demo/rack1/node1/core0"])
    assert spans(graph.allocation("j1")) == [("/demo/rack1/node1/core3", 1)]


def test_what_is_taken_is_refused_with_the_earliest_time(graph: Any) -> None:
    first = graph.allocate("slot=8/node", job="j1", duration_s=600)
    with pytest.raises(fluxres.InsufficientResources) as refused:
        graph.allocate("slot=1/node", job="j2")
    assert refused.value.earliest == first.end
    assert graph.jobs() == ["j1"]


def test_what_the_machine_does_not_have_is_infeasible(graph: Any) -> None:
    with pytest.raises(fluxres.InfeasibleRequest):
        graph.allocate("slot=9/node", job="j1")
    with pytest.raises(fluxres.UnknownType):
        graph.allocate("slot=1/gpu", job="j1")
    assert not graph.satisfiable("slot=9/node")
    assert graph.satisfiable("slot=8/node")


def test_reserve_is_at_the_end_of_what_is_in_the_way(graph: Any) -> None:
    first = graph.allocate("slot=8/node", job="j1", duration_s=600)
    second = graph.allocate_orelse_reserve("slot=2/node", job="j2", duration_s=60)
    assert second.start == first.end
    assert graph.earliest("slot=8/node", duration_s=60) == second.end
    assert graph.jobs() == ["j1", "j2"]


def test_several_jobs_get_all_or_none(graph: Any) -> None:
    one, two = graph.allocate_all([("slot=3/node", "j1"), ("slot=5/node", "j2")], duration_s=60)
    assert len(one.pools) == 3
    assert len(two.pools) == 5
    assert one.start == two.start
    graph.free("j1")
    with pytest.raises(fluxres.InsufficientResources):
        graph.allocate_all([("slot=2/node", "j3"), ("slot=2/node", "j4")], duration_s=60)
    assert graph.jobs() == ["j2"]
    three, four = graph.allocate_all_orelse_reserve([("slot=2/node", "j3"), ("slot=2/node", "j4")], duration_s=60)
    assert three.start == four.start == two.end


def test_grow_shrink_and_extend(graph: Any) -> None:
    granted = graph.allocate("slot=2/node", job="j1", duration_s=600)
    grown = graph.grow("j1", "slot=1/node")
    assert spans(grown) == [("/demo/rack0/node2", 1)]
    taken = graph.shrink("j1", "slot=1/node")
    assert spans(taken) == [("/demo/rack0/node2", 1)]
    extended = graph.set_end("j1", duration_s=1200)
    assert extended.end == granted.start + 1200
    with pytest.raises(fluxres.UnknownJob):
        graph.set_end("j2", duration_s=60)


def test_why_not_explains(graph: Any) -> None:
    assert graph.why_not("slot=1/node") is None
    end = graph.allocate("slot=8/node", job="j1", duration_s=600).end
    refusal = graph.why_not("slot=1/node")
    assert refusal.earliest == end
    assert not refusal.never
    assert any("j1" in sentence for sentence in refusal.sentences())
    assert refusal.sentences()[0] in repr(refusal)


def test_match_changes_nothing(graph: Any) -> None:
    found = graph.match("slot=2/node", duration_s=60)
    assert found.end - found.start == 60_000_000
    assert graph.jobs() == []


def test_find_walk_and_aggregate(graph: Any) -> None:
    graph.allocate("slot=1/node", job="j1", duration_s=600)
    assert graph.find("type=node and available>0").paths() == [f"/demo/rack{i // 4}/node{i % 4}" for i in range(1, 8)]
    assert graph.aggregate("/demo/rack0") == {"rack": 1, "node": 3, "core": 24}
    assert [pool.path for pool in graph.walk("/demo/rack1/node3")][:2] == ["/demo/rack1/node3", "/demo/rack1/node3/core0"]
    assert len(graph.find("type=core")) == 64
    with pytest.raises(fluxres.InputError):
        graph.find("type=node and")
    if not isinstance(graph, fluxres.ResourceGraph):
        with pytest.raises(fluxres.UsageError, match="a function finds pools of a local graph only"):
            graph.find(lambda pool: pool.type == "node")


def test_states_and_tags(graph: Any) -> None:
    graph.set_state("/demo/rack0/node0", "drain", reason="fan")
    assert graph.pool("/demo/rack0/node0").state == "drain"
    assert spans(graph.allocate("slot=1/node", job="j1")) == [("/demo/rack0/node1", 1)]
    graph.tag(["/demo/rack1"], "window", "may")
    assert dict(graph.pool("/demo/rack1").tags) == {"window": "may"}
    graph.untag(["/demo/rack1"], "window")
    assert dict(graph.pool("/demo/rack1").tags) == {}
    with pytest.raises(fluxres.UnknownPool):
        graph.set_state("/demo/rack9", "up")
    with pytest.raises(fluxres.UsageError):
        graph.set_state("/demo/rack0", "asleep")


def test_stages_are_committed_or_released(graph: Any) -> None:
    with graph.stage("slot=8/node", job="j1") as stage, pytest.raises(fluxres.InsufficientResources):
        graph.allocate("slot=1/node", job="j2")
    stage = graph.stage("slot=8/node", job="j1", duration_s=60)
    assert len(stage.commit().pools) == 8
    assert graph.jobs() == ["j1"]
    with pytest.raises(fluxres.StaleHandle):
        graph.commit(stage.stage)
    stage = graph.stage("slot=1/core", job="j2") if graph.free("j1") is None else None
    assert len(graph.commit(stage).pools) == 1
    assert graph.jobs() == ["j2"]
    graph.release(graph.stage("slot=1/core", job="j3"))
    assert graph.jobs() == ["j2"]


def test_ended_records_expire(graph: Any) -> None:
    graph.allocate("slot=1/node", job="j1", duration_s=0.05)
    time.sleep(0.1)
    assert graph.jobs() == []
    assert graph.expire() == ["j1"]
    assert graph.expire() == []


def test_a_job_holds_nothing_before_it_starts(graph: Any) -> None:
    begin = time.time() + 3600
    graph.allocate("slot=2/node", job="j1", start=begin, duration_s=60)
    assert [len(graph.allocated("j1", at=begin + after).paths()) for after in (-60, 30, 90)] == [0, 2, 0]
    assert [len(graph.allocation("j1", at=begin + after).pools) for after in (-60, 30, 90)] == [0, 2, 0]
    with pytest.raises(fluxres.UnknownJob):
        graph.allocated("j2", at=begin)


def test_maintenance_is_reserved_and_given_up(graph: Any) -> None:
    begin = time.time() + 3600
    made = graph.reserve(
        "/demo/rack1", name="pump", start=begin, duration_s=600, every_s=86_400, until=begin + 100_000, user="ada"
    )
    assert [end - start for start, end in made.windows] == [600_000_000] * 2
    assert not made.ignores_jobs
    assert [graph.pool(pool).path for pool in made.pools] == ["/demo/rack1"]
    assert [end for _, end in graph.reservations()["pump"].windows] == [end for _, end in made.windows]
    with pytest.raises(fluxres.InsufficientResources):
        graph.allocate("slot=8/node", job="j1", duration_s=7200)
    with pytest.raises(fluxres.UsageError):
        graph.free("pump")
    granted = graph.allocate("/demo/rack1/node3", job="j1", duration_s=600)
    with pytest.raises(fluxres.InsufficientResources) as refused:
        graph.reserve(granted.pools[0].path, name="fan", end=granted.end + 600)
    assert "j1" in str(refused.value)
    fan = graph.reserve([granted.pools[0].path], name="fan", end=granted.end + 600, ignore_jobs=True)
    assert fan.ignores_jobs
    assert sorted(graph.reservations()) == ["fan", "pump"]
    graph.unreserve("pump")
    assert list(graph.reservations()) == ["fan"]
    assert len(graph.allocate("slot=7/node", job="j2", start=begin, duration_s=7200).pools) == 7
    assert graph.check() == []


def test_the_last_change_is_undone_and_made_again(graph: Any) -> None:
    if isinstance(graph, fluxres.ResourceGraph) and graph.attachment is None:
        for ask in (graph.undo, graph.redo, graph.log):
            with pytest.raises(fluxres.UsageError, match="not attached"):
                ask()
        return
    with pytest.raises(fluxres.UsageError, match="only change"):
        graph.undo()
    graph.allocate("slot=2/node", job="j1", duration_s=60)
    graph.unlink("/demo/rack1")
    assert [one["event"] for one in graph.log()] == ["load", "allocate", "unlink"]
    assert [one["event"] for one in graph.log(1, job="j1")] == ["allocate"]
    assert [one["number"] for one in graph.log(limit=1)] == [3]
    assert [(one["event"], one["pool"]) for one in graph.undo()] == [("unlink", "/demo/rack1")]
    assert len(graph.find("type=node")) == 8
    assert graph.jobs() == ["j1"]
    with pytest.raises(fluxres.UsageError, match="itself an undo"):
        graph.undo()
    assert [one["event"] for one in graph.redo()] == ["undo"]
    assert len(graph.find("type=node")) == 4
    with pytest.raises(fluxres.UsageError):
        graph.redo()
    graph.free("j1")
    assert [one["event"] for one in graph.undo()] == ["free"]
    assert graph.jobs() == ["j1"]
    assert graph.check() == []


def more(name: str, *nodes: str) -> fluxres.ResourceGraph:
    """A machine with one rack, for a merge."""
    rack = {"type": "rack", "id": 9, "with": [{"type": "node", "names": list(nodes), "with": [{"type": "core", "count": 8}]}]}
    return fluxres.load({"fluxres": 1, "name": name, "resources": [rack]}, clock=time.time)


def test_machines_are_merged_with_what_their_jobs_hold(graph: Any) -> None:
    other = more("demo", "extra0", "extra1")
    other.allocate("/demo/rack9/extra1", job="theirs", duration_s=600)
    uuid = other.pool("/demo/rack9/extra0").uuid
    graph.merge(other)
    assert graph.pool("/demo/rack9/extra0").uuid == uuid
    assert graph.jobs() == ["theirs"]
    assert len(graph.find("type=node")) == 10
    assert len(graph.allocate("slot=9/node", job="j1", duration_s=60).pools) == 9
    with pytest.raises(fluxres.MergeConflict):
        graph.merge(other)
    assert graph.check() == []


def test_machines_are_merged_below_a_path(graph: Any) -> None:
    node = fluxres.load({"fluxres": 1, "name": "spare", "root": {"type": "node", "with": [{"type": "core"}]}})
    graph.merge(node, "/demo/rack1/spare")
    assert graph.pool("/demo/rack1/spare").type == "node"
    with pytest.raises(fluxres.UnknownPool):
        graph.merge(node, "/demo/rack7/spare")


def test_pools_are_unlinked_unless_jobs_hold_them(graph: Any) -> None:
    graph.allocate("/demo/rack1/node3", job="j1", duration_s=600)
    with pytest.raises(fluxres.StillHeld) as refused:
        graph.unlink("/demo/rack1")
    assert "j1" in str(refused.value)
    graph.unlink(graph.pool("/demo/rack1/node0").path)
    assert graph.find("type=node").paths()[4:] == [f"/demo/rack1/node{i}" for i in (1, 2, 3)]
    with pytest.raises(fluxres.UnknownPool):
        graph.unlink("/demo/rack1/node0")


def test_pools_move_with_what_is_below_them(graph: Any) -> None:
    graph.tag("/demo/rack0/node0", "moved")
    graph.move("/demo/rack0/node0", "/demo/rack1/node7")
    assert dict(graph.pool("/demo/rack1/node7").tags) == {"moved": None}
    assert len(graph.find("type=core")) == 64
    graph.allocate("/demo/rack0/node1", job="j1", duration_s=600)
    with pytest.raises(fluxres.StillHeld):
        graph.move("/demo/rack0/node1", "/demo/rack1/node8")


def test_edges_come_change_and_go(graph: Any) -> None:
    with pytest.raises(fluxres.UnknownGraph):
        graph.add_edge("/demo/rack0", "/demo/rack1", "network")
    graph.add_edge("/demo/rack0", "/demo/rack1", "network", capacity=40, unit="GB", attributes={"hops": 2}, hierarchy=False)
    with pytest.raises(fluxres.UsageError):
        graph.add_edge("/demo/rack0", "/demo/rack1", "network")
    graph.set_edge("/demo/rack0", "/demo/rack1", "network", capacity=math.inf, attributes={"hops": None, "colour": "red"})
    with pytest.raises(fluxres.UsageError):
        graph.set_edge("/demo/rack1", "/demo/rack0", "network", capacity=1)
    graph.remove_edge("/demo/rack0", "/demo/rack1", "network")
    with pytest.raises(fluxres.UsageError):
        graph.remove_edge("/demo/rack0", "/demo/rack1", "network")


def test_a_description_is_compared_and_applied(graph: Any) -> None:
    wanted = fluxres.load({**DEMO, "resources": [{**DEMO["resources"][0], "count": 3}]})
    assert not graph.diff(fluxres.load(DEMO))
    found = graph.diff(wanted)
    assert found
    assert [(part.path, part.pools) for part in found.added] == [("/demo/rack2", 37)]
    assert not found.removed
    assert "37 pools added" in found.summary
    assert [part.path for part in graph.apply(wanted).added] == ["/demo/rack2"]
    assert not graph.diff(wanted)
    graph.allocate("/demo/rack2/node1", job="j1", duration_s=600)
    with pytest.raises(fluxres.StillHeld) as refused:
        graph.apply(fluxres.load(DEMO))
    assert refused.value.jobs == ("j1",)
    done = graph.apply(fluxres.load(DEMO), drain=True)
    assert done.drained == ["/demo/rack2"]
    assert graph.pool("/demo/rack2").state == "drain"
    smaller = {"type": "rack", "count": 3, "with": [{"type": "node", "count": 4, "properties": {"ssd": 2}}]}
    graph.free("j1")
    changed = graph.diff(fluxres.load({**DEMO, "resources": [smaller]})).changed
    assert [(one.attribute, one.before, one.after, one.paths) for one in changed if one.attribute == "property ssd"] == [
        ("property ssd", True, 2, graph.find("type=node").paths())
    ]


WRONG: list[Callable[[Any], object]] = [
    lambda g: g.set_state([], "down"),
    lambda g: g.tag([], "key"),
    lambda g: g.untag([], "key"),
    lambda g: g.allocate("slot=9/node", job="j1"),
    lambda g: g.allocate_all([("slot=9/node", "j1"), ("slot=1/node", "j2")]),
    lambda g: g.allocate("slot=1/node", job=""),
    lambda g: g.allocate("slot=1/node", job="j1", duration_s=-1),
    lambda g: g.allocate("slot=1/node", job="j1", start=10, end=5),
    lambda g: g.allocate("slot=", job="j1"),
    lambda g: g.allocate({"resources": 5}, job="j1"),
    lambda g: g.allocate("slot=1/node", job="j1", policy="best"),
    lambda g: g.free("j1"),
    lambda g: g.free("j1", ["/demo/rack0"]),
    lambda g: g.grow("j1", "slot=1/node"),
    lambda g: g.shrink("j1", "slot=1/node"),
    lambda g: g.pool("/demo/rack0/node77"),
    lambda g: g.aggregate("/demo", hierarchy="power"),
    lambda g: g.match("slot=1/node", at="yesterdayish"),
    lambda g: g.earliest("slot=1/node", duration_s="a while"),
    lambda g: g.set_state("/demo/rack9", "sleepy"),
    lambda g: g.set_state("/demo/rack9", "down"),
    lambda g: g.set_state([], "down"),
    lambda g: g.allocate_orelse_reserve("/demo/rack9", job="j1"),
    lambda g: g.allocate_orelse_reserve({"/demo/rack0": 1}, job="j1"),
    lambda g: g.commit("s99"),
    lambda g: g.reserve("/demo/rack0", name="pump"),
    lambda g: g.reserve("/demo/rack9", name="pump", duration_s=60),
    lambda g: g.reserve("/demo/rack0", name="", duration_s=60),
    lambda g: g.reserve("/demo/rack0", name="pump", duration_s=60, every_s=30, until="+1h"),
    lambda g: g.reserve("/demo/rack0", name="pump", duration_s=60, every_s=90),
    lambda g: g.unreserve("pump"),
    lambda g: g.unlink("/demo"),
    lambda g: g.unlink("/demo/rack0", "power"),
    lambda g: g.move("/demo/rack0", "/demo/rack0/node0"),
    lambda g: g.move("/demo/rack0", "/elsewhere/rack0"),
    lambda g: g.merge(fluxres.load({"fluxres": 1, "name": "other", "resources": [{"type": "node"}]})),
    lambda g: g.apply(fluxres.load({"fluxres": 1, "name": "other", "resources": [{"type": "node"}]})),
    lambda g: g.diff("demo.yaml"),
    lambda g: g.add_edge("/demo/rack0", "/demo/rack9", "network", hierarchy=False),
    lambda g: g.add_edge("/demo/rack0", "/demo/rack1", "network", capacity=-1.0, hierarchy=False),
    lambda g: g.add_edge("/demo/rack0", "/demo/rack1", "network", attributes={"": 1}, hierarchy=False),
    lambda g: g.set_edge("/demo/rack0", "/demo/rack1", "network", capacity=4),
    lambda g: g.remove_edge("/demo/rack0", "/demo/rack1", "network"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_errors_are_those_of_a_local_graph(graph: Any, wrong: Callable[[Any], object]) -> None:
    with pytest.raises(fluxres.FluxresError) as expected:
        wrong(fluxres.load(DEMO, clock=time.time))
    with pytest.raises(type(expected.value)) as raised:
        wrong(graph)
    assert type(raised.value) is type(expected.value)
    assert raised.value.where == expected.value.where
    assert (raised.value.message, raised.value.hint) == (expected.value.message, expected.value.hint)
    assert graph.jobs() == []
