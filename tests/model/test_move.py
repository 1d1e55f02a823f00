"""Pools that move to another place, in the containment tree and in auxiliary hierarchies."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

import fluxres
from fluxres import FluxresError, MergeConflict, StaleHandle, StillHeld, UnknownPool, UsageError, limits
from fluxres.model import ResourceGraph
from fluxres.store import open_store
from tests.store.graphs import facts

NODE, RACK = "/demo/rack0/node1", "/demo/rack1"


def document() -> dict[str, Any]:
    inside = [{"type": "core", "count": 2}, {"type": "gpu", "name": "gpu-${node}", "rank": 7}]
    node = {"type": "node", "count": 2, "id": {"within": "cluster"}, "with": inside}
    racks = [
        {"type": "rack", "count": 3, "with": [node]},
        {"type": "node", "name": "login-${cluster_name}", "properties": {"cluster_name": "x"}},
    ]
    power = {
        "hierarchy": True,
        "pools": [{"type": "pdu", "count": 2, "size": 5000, "unit": "W"}],
        "edges": [
            {"from": "power:/pdu0", "to": "/demo/rack[0-1]", "relation": "supplies", "capacity": 4000},
            {"from": "power:/pdu1", "to": "/demo/rack2", "relation": "supplies", "capacity": 4000},
        ],
    }
    links = {"edges": [{"from": "/demo/rack0/node0", "to": "/demo/rack1/node2", "direction": "both", "capacity": 10}]}
    return {"fluxres": 1, "name": "demo", "resources": racks, "graphs": {"power": power, "network": links}}


@pytest.fixture
def g() -> ResourceGraph:
    return fluxres.load(document())


def test_moved_node_keeps_its_identity(g: ResourceGraph) -> None:
    node = g.pool(NODE)
    g.tag(NODE, "seen")
    g.set_state(NODE, "drain")
    before = (node.uuid, node.name, node.tags, node.state, node.rank, [child.uuid for child in node.children])
    g.move(NODE, RACK)
    with pytest.raises(StaleHandle):
        _ = node.path
    after = g.pool(before[0])
    assert after.path == "/demo/rack1/node1"
    assert (after.uuid, after.name, after.tags, after.state, after.rank, [child.uuid for child in after.children]) == before
    assert [p.name for p in g.pool(RACK).children] == ["node2", "node3", "node1"]
    assert [p.name for p in g.pool("/demo/rack0").children] == ["node0"]
    assert g.check() == []
    with pytest.raises(UnknownPool):
        g.pool(NODE)
    g.move("/demo/rack1/node1", "/demo/rack0")
    assert [p.path for p in g.pool("/demo/rack0").children] == ["/demo/rack0/node0", "/demo/rack0/node1"]


def test_new_path_gives_a_new_name(g: ResourceGraph) -> None:
    g.move(NODE, "/demo/rack1/node9")
    assert (g.pool("/demo/rack1/node9").id, g.pool("/demo/rack1/node9/core1").size) == (9, 1)
    g.move("/demo/rack1/node9", "/demo/rack1/odd")
    assert [p.name for p in g.pool(RACK).children] == ["node2", "node3", "odd"]  # in its place
    g.move("/demo/rack1/odd", "demo:/rack2/node9")
    assert g.pool("/demo/rack2/node9").basename == "node"
    assert g.check() == []


def test_template_names_are_kept(g: ResourceGraph) -> None:
    g.move("/demo/rack0/node0/gpu-0", "/demo/rack1/node2")
    assert g.pool("/demo/rack1/node2/gpu-0").type == "gpu"
    assert [p.name for p in g.pool("/demo/rack1/node2").children] == ["core0", "core1", "gpu-2", "gpu-0"]


def test_pool_moved_into_a_node_gets_its_rank_and_out_of_one_none(g: ResourceGraph) -> None:
    ranks = [g.pool(path).rank for path in ("/demo/rack0/node0", "/demo/rack0/node0/core0", "/demo/rack1/node2")]
    assert ranks == [0, 0, 2]
    g.move("/demo/rack0/node0/core0", "/demo/rack1/node2/core7")
    g.move("/demo/rack0/node0/core1", "/demo/rack0")
    assert [g.pool(p).rank for p in ("/demo/rack1/node2/core7", "/demo/rack0/core1", "/demo/rack0/node0")] == [2, None, 0]
    assert g.check() == []


def test_match_finds_a_moved_pool(g: ResourceGraph) -> None:
    g.move(NODE, RACK)
    assert not g.satisfiable("rack/slot=4/node")
    assert [p.path for p in g.match("rack/slot=3/node").pools] == [f"/demo/rack1/node{i}" for i in (2, 3, 1)]


REFUSED: dict[str, tuple[Callable[[ResourceGraph], None], type[FluxresError], str]] = {
    "root": (lambda g: g.move("/demo", RACK), UsageError, "the root cannot be moved"),
    "into itself": (lambda g: g.move(RACK, "/demo/rack1/node2"), UsageError, "is below /demo/rack1 itself"),
    "there already": (lambda g: g.move(NODE, "/demo/rack0"), UsageError, "is there already"),
    "name taken": (lambda g: g.move("/demo/rack0/node0/core0", NODE), MergeConflict, "name: 'core0' is taken there"),
    "nowhere": (lambda g: g.move(NODE, "/demo/rack7/node1"), UnknownPool, "rack7"),
    "no hierarchy": (lambda g: g.move(NODE, "network:/demo"), FluxresError, "network"),
    "outside": (lambda g: g.move("power:/pdu0", RACK), UsageError, "outside the containment tree"),
    "to the outside": (lambda g: g.move(NODE, g.pool("power:/pdu0")), UsageError, "is not in the containment tree"),
    "long": (lambda g: g.move(NODE, "/demo/" + "x" * (limits.NAME_LENGTH_MAX + 1)), UsageError, "a name has"),
    "in a hierarchy below itself": (lambda g: g.move("power:/pdu0", "power:/pdu0/rack0"), UsageError, "itself in hierarchy"),
    "in a hierarchy already": (lambda g: g.move("/demo/rack0", "power:/pdu0"), UsageError, "is there already"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_moves_change_nothing(g: ResourceGraph, case: str) -> None:
    act, error, message = REFUSED[case]
    before, generation = facts(g), g.generation
    with pytest.raises(error, match=message):
        act(g)
    assert (facts(g), g.generation) == (before, generation)


def test_path_of_an_existing_pool_is_the_new_parent(g: ResourceGraph) -> None:
    g.move(NODE, "/demo/rack1/node2")
    assert g.pool("/demo/rack1/node2/node1").type == "node"
    assert g.check() == []


@pytest.mark.parametrize("held", [NODE, "/demo/rack0/node1/core0", "/demo/rack0", "/demo"])
def test_held_pools_are_not_moved(g: ResourceGraph, held: str) -> None:
    g.allocate(held, job="j", start=50, end=60)
    with pytest.raises(StillHeld, match=rf"j holds {held}"):
        g.move(NODE, RACK)
    g.clock = lambda: 60.0
    g.move(NODE, RACK)
    assert g.check() == []


@pytest.mark.parametrize("held", [NODE, "/demo/rack0", RACK])
def test_maintenance_in_the_way_is_named_with_the_command_that_removes_it(g: ResourceGraph, held: str) -> None:
    g.reserve(held, name="pump", start=50, end=60)
    with pytest.raises(StillHeld, match="maintenance 'pump' holds") as refused:
        g.move(NODE, RACK)
    assert refused.value.hint == "`reserve --remove pump` removes it"
    with pytest.raises(StillHeld, match=f"maintenance 'pump' holds {held}"):
        g.unlink(f"{held}/node2" if held == RACK else NODE)


def test_nothing_is_moved_into_an_exclusively_held_pool(g: ResourceGraph) -> None:
    g.allocate(RACK, job="j", end=60)
    with pytest.raises(StillHeld, match="j holds it exclusively"):
        g.move(NODE, RACK)
    g.free("j")
    g.allocate("/demo/rack1/node2", job="j", end=60)
    g.move(NODE, RACK)
    assert g.pool(RACK).shared == ["j"]
    assert g.check() == []


def test_other_records_stay_with_their_pools(g: ResourceGraph) -> None:
    g.allocate("/demo/rack0/node0/core1", job="a", end=60)
    g.allocate("/demo/rack2", job="b", start=10, end=60)
    stage = g.stage("/demo/rack1/node3", job="c", end=60)
    g.move(NODE, RACK)
    assert {job: g.allocated(job).paths() for job in g.jobs()} == {"a": ["/demo/rack0/node0/core1"], "b": ["/demo/rack2"]}
    assert stage.commit().pools[0].path == "/demo/rack1/node3"
    assert g.check() == []


def test_pool_moves_in_an_auxiliary_hierarchy(g: ResourceGraph) -> None:
    g.move("power:/pdu0/rack1", "power:/pdu1")
    assert g.pool("/demo/rack1").uris == ["demo:/rack1", "power:/pdu1/rack1"]
    assert [(p.path, d["type"], d["capacity"]) for p, d in g.pool("power:/pdu1").links("power")] == [
        ("/demo/rack1", "supplies", 4000.0),
        ("/demo/rack2", "supplies", 4000.0),
    ]
    g.move("/demo/login-x", "power:/pdu0")
    assert g.pool("/demo/login-x").uris == ["demo:/login-x", "power:/pdu0/login-x"]
    assert g.pool("power:/pdu0").links("power")[-1][1] == {"subsystem": "power", "type": "supplies"}
    assert g.check() == []


def test_draws_through_an_edge_prevent_a_move(g: ResourceGraph) -> None:
    g.allocate("slot=1/[node;pdu=500]", job="j", duration_s=10)
    with pytest.raises(StillHeld, match="j draws 500 units"):
        g.move("/demo/rack0", "power:/pdu1")
    g.move("/demo/rack1", "power:/pdu1")
    g.free("j")
    g.move("/demo/rack0", "power:/pdu1")
    assert g.aggregate("power:/pdu1") == {"pdu": 5000, "rack": 3}
    g.move("/demo/rack0", "power:/pdu0")  # without an edge it is in no hierarchy, and has this name
    assert g.pool("/demo/rack0").uris == ["demo:/rack0", "power:/pdu0/rack0"]
    assert g.check() == []


def test_stores_and_journals_keep_moves(tmp_path: Path, g: ResourceGraph) -> None:
    url, events, again = f"sqlite:///{tmp_path}/site.db", list[bytes](), g.duplicate()
    fluxres.save(g, url)
    fluxres.save(g, tmp_path / "site.yaml")

    def act(graph: ResourceGraph) -> None:
        graph.move(NODE, "/demo/rack1/node9")
        graph.allocate("/demo/rack1/node9/core0", job="j")
        graph.move("/demo/rack0", "power:/pdu1")

    act(g)
    fluxres.save(g, url, changed_only=True)
    fluxres.save(g, tmp_path / "site.changes", changed_only=True)
    for kept in (open_store(url).load(), fluxres.load(tmp_path / "site.yaml", changes=[tmp_path / "site.changes"])):
        assert facts(kept) == facts(g)
    assert [entry.event["event"] for entry in open_store(url).log()][-3:] == ["move", "allocate", "move"]
    source = again.duplicate()
    source.sink = lambda event: events.append(orjson.dumps(event))
    act(source)
    for event in events:
        again.apply(orjson.loads(event))
    assert facts(again) == facts(source)


class Oracle:
    """The place and name of each pool, by uuid; and what is held."""

    def __init__(self, g: ResourceGraph) -> None:
        self.parent = {p.uuid: None if p.parent is None else p.parent.uuid for p in g.walk()}
        self.name = {p.uuid: p.name for p in g.walk()}
        self.above = {p.uuid: p.uuid for p in g.walk()}
        self.held: dict[str, tuple[str, int]] = {}
        self.edges = edges(g)

    def chain(self, uuid: str) -> list[str]:
        found, u = list[str](), self.parent[uuid]
        while u is not None:
            found.append(u)
            u = self.parent[u]
        return found

    def allows(self, uuid: str, to: str, name: str) -> bool:
        inside = [u for u in self.parent if u == uuid or uuid in self.chain(u)]
        around = [u for u in self.held if u in inside or u in self.chain(uuid) or u == to or u in self.chain(to)]
        twin = any(p == to and self.name[u] == name for u, p in self.parent.items())
        return bool(self.chain(uuid)) and to not in inside and not twin and not around


def edges(g: ResourceGraph) -> set[tuple[str, str, str, float | None]]:
    return {(a.uuid, b.uuid, str(d["type"]), d.get("capacity")) for a in (g.pool(v) for v in range(len(g))) for b, d in a.links()}


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_random_moves_agree_with_an_oracle(seed: int) -> None:
    source, g = random.Random(seed), fluxres.load(document())
    oracle = Oracle(g)
    accepted = refused = 0
    for step in range(150):
        uuids = list(oracle.parent)
        uuid, to = source.choice(uuids), source.choice(uuids)
        if source.random() < 0.25:
            with suppress(FluxresError):
                g.allocate(g.pool(uuid), job=f"j{step}")
                oracle.held[uuid] = (f"j{step}", g.pool(uuid).size)
        elif source.random() < 0.4 and oracle.held:
            gone = source.choice(list(oracle.held))
            g.free(oracle.held.pop(gone)[0])
        else:
            name = source.choice([oracle.name[uuid], f"{g.pool(uuid).basename}{source.randrange(6)}", "odd"])
            where = g.pool(to).path if name == oracle.name[uuid] else f"{g.pool(to).path}/{name}"
            expected = oracle.allows(uuid, to, name)
            try:
                if name != oracle.name[uuid] and any(p == to and oracle.name[u] == name for u, p in oracle.parent.items()):
                    continue  # the path of a pool, which would become its parent
                g.move(uuid, where)
                assert expected
                oracle.parent[uuid], oracle.name[uuid] = to, name
                accepted += 1
            except FluxresError:
                assert not expected
                refused += 1
        assert {p.uuid: None if p.parent is None else p.parent.uuid for p in g.walk()} == oracle.parent
        assert {p.uuid: p.name for p in g.walk()} == oracle.name
        assert edges(g) == oracle.edges
        assert {s.pool: j for j in g.jobs() for s in g.allocation(j).spans} == {
            g.pool(u).path: j for u, (j, _) in oracle.held.items()
        }
        assert not [problem for problem in g.check() if problem.severity == "error"]  # nodes may have equal names
    assert accepted > 10
    assert refused > 10
    again = fluxres.loads(fluxres.dumps(g))
    assert {p.uuid: p.path for p in again.walk()} == {p.uuid: p.path for p in g.walk()}
    assert again.aggregate() == g.aggregate()
