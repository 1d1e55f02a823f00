"""`ResourceGraph.apply` and `diff`: a new description on a machine in use."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import orjson
import pytest

import fluxres
from fluxres import limits
from fluxres.allocation.records import ELSEWHERE
from fluxres.errors import FluxresError, MergeConflict, StillHeld, UsageError
from fluxres.graph.compare import equal
from fluxres.model import ResourceGraph
from fluxres.store import encoding, journal
from fluxres.store.records import capture
from tests.store.graphs import facts

Racks = dict[int, dict[int, dict[str, Any]]]
"""By id of the rack and of the node, what is in the node."""


def document(racks: Racks, *, pdus: bool = False, cap: int = 1000, **root: Any) -> dict[str, Any]:
    """A cluster file."""
    described: dict[str, Any] = {"fluxres": 1, "name": "site", "resources": [], **root}
    for rack, nodes in racks.items():
        inside = []
        for number, node in nodes.items():
            parts = [
                {"type": "core", "count": node.get("cores", 2)},
                {"type": "memory", "size": node.get("memory", 8), "unit": "GiB"},
            ]
            shared = {key: node[key] for key in ("properties", "state", "tags") if key in node}
            inside.append({"type": "node", "id": number, "with": parts, **shared})
        described["resources"].append({"type": "rack", "id": rack, "with": inside})
    if pdus:
        edges = [
            {"from": f"power:/pdu{rack}", "to": f"/site/rack{rack}", "relation": "supplies", "capacity": cap} for rack in racks
        ]
        edges += [
            {"from": f"/site/rack{rack}", "to": f"/site/rack{rack}/node*", "relation": "supplies"}
            for rack in racks
            if racks[rack]
        ]
        pools = [{"type": "pdu", "id": rack, "size": 1000, "unit": "W"} for rack in racks]
        links = [
            {"from": "network:/spine", "to": f"network:leaf{rack}", "relation": "connects", "capacity": 40} for rack in racks
        ]
        links += [
            {"from": f"network:leaf{rack}", "to": f"/site/rack{rack}/node*", "relation": "connects"}
            for rack in racks
            if racks[rack]
        ]
        switches = [{"type": "switch", "name": "spine"}, *({"type": "switch", "basename": "leaf", "id": rack} for rack in racks)]
        described["graphs"] = {
            "power": {"hierarchy": True, "pools": pools, "edges": edges},
            "network": {"pools": switches, "edges": links},
        }
    return described


def machine(racks: Racks, **more: Any) -> ResourceGraph:
    return fluxres.load(document(racks, **more))


def plain(racks: int = 2, nodes: int = 2, **node: Any) -> Racks:
    return {rack: {rack * nodes + i: dict(node) for i in range(nodes)} for rack in range(racks)}


def spans(graph: ResourceGraph) -> set[tuple[str, str, int, int, int]]:
    """Who holds what, by path."""
    held = capture(graph.records)
    where = graph.structure.accounts.wheres(held.vertex.tolist())
    owners = [held.owners[i] for i in held.owner.tolist()]
    return set(zip(owners, where, held.start.tolist(), held.end.tolist(), held.amount.tolist(), strict=True))


def described(graph: ResourceGraph) -> list[str]:
    """What a description says about a graph: everything but uuids, ranks, states and tags."""
    s = graph.structure
    assert len(np.unique(s.execution_targets[0])) == len(s.execution_targets[0])
    return sorted(
        f"{s.where(v)} {s.kind_of(v)} {s.size[v]} {s.flags[v]} {s.rank[v] >= 0} {s.names.get(v)}" for v in range(s.n)
    ) + sorted(f"{name} {s.where(a)} {s.where(b)} {data}" for name, graph in s.subsystems.items() for a, b, data in graph.rows())


# -- single changes ------------------------------------------------------------------------------------------------------


def test_the_same_description_changes_nothing() -> None:
    g, h = machine(plain(), pdus=True), machine(plain(), pdus=True)
    g.allocate("/site/rack0", job="j1")
    g.set_state("/site/rack1", "drain")
    g.tag("/site/rack1/node2", "owner", "ops")
    before, revision, pool = facts(g), g.revision, g.pool("/site/rack0")
    assert not g.diff(h)
    assert not g.apply(h)
    assert (facts(g), g.revision) == (before, revision)
    assert pool.path == "/site/rack0"


def test_diff_says_what_apply_does() -> None:
    g = machine(plain(), pdus=True)
    racks = plain()
    racks[2] = {9: {}}
    del racks[0][1]
    racks[1][2] = {"memory": 16, "properties": {"ssd": None}, "state": "down", "tags": {"owner": "ops"}}
    h = machine(racks, pdus=True, cap=900)
    found = g.diff(h)
    assert [(part.path, part.pools) for part in found.added] == [
        ("/site/rack2", 5),
        ("power:/pdu2", 1),
        ("network:leaf2", 1),
    ]
    assert [(part.path, part.pools) for part in found.removed] == [("/site/rack0/node1", 4)]
    assert {(c.attribute, c.before, c.after, *c.paths) for c in found.changed} == {
        ("size", 8, 16, "/site/rack1/node2/memory"),
        ("property ssd", None, True, "/site/rack1/node2"),
        ("state", "up", "down", "/site/rack1/node2"),
        ("tag owner", None, "ops", "/site/rack1/node2"),
    }
    assert [(e.change, e.source, e.target, e.before, e.after) for e in found.edges] == [
        ("changed", f"power:/pdu{i}", f"/site/rack{i}", {"capacity": 1000.0}, {"capacity": 900.0}) for i in range(2)
    ]
    assert found.summary == "7 pools added, 4 pools removed, 2 pools changed, 2 edges added, removed or changed"
    assert g.apply(h).summary == found.summary
    assert described(g) == described(h)
    assert not g.diff(h)
    assert g.check() == []


def test_what_stays_keeps_uuid_rank_state_tags_allocations_and_stages() -> None:
    g = machine(plain())
    uuid, rank = g.pool("/site/rack1/node3").uuid, g.pool("/site/rack1/node3").rank
    g.allocate("/site/rack1/node3/core[0-1]", job="j1")
    stage = g.stage([("/site/rack1/node3/memory", 3)], job="j3")
    g.set_state("/site/rack1", "drain")
    g.tag("/site/rack1/node3", "owner", "ops")
    before = spans(g)
    g.apply(machine({0: {7: {}, 0: {}}, 1: {3: {"memory": 64}, 2: {}}}))
    node = g.pool("/site/rack1/node3")
    assert (node.uuid, node.rank, node.tags, node.parent.state) == (uuid, rank, {"owner": "ops"}, "drain")
    assert g.pool("/site/rack0/node7").rank not in (0, 2, 3)
    assert spans(g) == before
    g.commit(stage.stage)
    assert g.pool("/site/rack1/node3/memory").available() == 0  # drained
    g.set_state("/site/rack1", "up")
    assert g.pool("/site/rack1/node3/memory").available() == 61
    assert g.check() == []


def test_a_pool_that_is_gone_and_held_is_refused_with_all_jobs() -> None:
    g = machine(plain(2, 3))
    for i in range(3):
        g.allocate(f"/site/rack1/node{3 + i}/core0", job=f"j{i}")
    g.allocate("/site/rack0", job="other")
    before = facts(g)
    with pytest.raises(
        StillHeld, match=r"^/site/rack1/node3/core0: is not in the description \(held by j0\); .*jobs: j0, j1, j2"
    ) as caught:
        g.apply(machine(plain(1, 3)))
    assert caught.value.jobs == ("j0", "j1", "j2")
    assert caught.value.to_dict()["jobs"] == ["j0", "j1", "j2"]
    assert facts(g) == before
    assert [part.jobs for part in g.diff(machine(plain(1, 3))).removed] == [("j0", "j1", "j2")]


def test_a_refusal_names_no_more_jobs_than_fit() -> None:
    many = limits.JOBS_NAMED_MAX + 3
    g = machine({0: {0: {"cores": many}}, 1: {}})
    for i in range(many):
        g.allocate(f"/site/rack0/node0/core{i}", job=f"j{i:03}")
    with pytest.raises(StillHeld, match=r" and 3 more") as caught:
        g.apply(machine({1: {}}))
    assert len(caught.value.jobs) == many


def test_drain_keeps_what_is_held_until_a_later_apply() -> None:
    g, wanted = machine(plain(2, 2), pdus=True), machine(plain(1, 2), pdus=True)
    g.allocate("slot/[node;power=100]", job="j1", policy="high")
    before = spans(g)
    done = g.apply(wanted, drain=True)
    assert done.drained == ["/site/rack1", "power:/pdu1", "network:leaf1"]
    assert {g.pool(path).state for path in done.drained} == {"drain"}
    assert spans(g) == before
    assert g.check() == []
    assert [name for name, graph in g.structure.subsystems.items() if len(graph) != len(wanted.structure.subsystems[name])] == [
        "power",
        "network",
    ]
    revision = g.revision
    assert g.apply(wanted, drain=True).drained == done.drained
    assert g.revision == revision  # nothing to do yet
    with pytest.raises(StillHeld, match="j1"):
        g.apply(wanted)
    g.free("j1")
    g.apply(wanted)
    assert described(g) == described(wanted)
    assert g.check() == []


def test_a_graph_that_is_gone_and_kept_for_jobs_is_no_change_again() -> None:
    g = machine(plain(2, 2), pdus=True)
    g.allocate("/site/rack1/node2", job="j1")
    wanted = machine(plain(1, 2))
    g.apply(wanted, drain=True)
    assert "network" in g.structure.subsystems
    before, revision = facts(g), g.revision
    assert g.apply(wanted, drain=True).graphs
    assert (facts(g), g.revision) == (before, revision)
    g.free("j1")
    g.apply(wanted, drain=True)
    assert described(g) == described(wanted)


def test_a_size_grows_and_shrinks_as_far_as_jobs_allow() -> None:
    g = machine(plain(1, 1))
    g.allocate([("/site/rack0/node0/memory", 6)], job="j1")
    g.apply(machine(plain(1, 1, memory=16)))
    assert g.pool("/site/rack0/node0/memory").available() == 10
    with pytest.raises(StillHeld, match="would have 5 units, of which jobs hold 6"):
        g.apply(machine(plain(1, 1, memory=5)))
    g.apply(machine(plain(1, 1, memory=6)))
    assert g.pool("/site/rack0/node0/memory").available() == 0
    assert g.check() == []


@pytest.mark.parametrize("node", [{"memory": 16}, {"cores": 3}, {"cores": 1}])
def test_what_a_job_holds_exclusively_stays_as_it_is(node: dict[str, Any]) -> None:
    g = machine(plain(1, 2))
    g.allocate("/site/rack0/node1", job="j1")
    racks = plain(1, 2)
    racks[0][1] = node
    with pytest.raises(StillHeld, match="held as a whole") as caught:
        g.apply(machine(racks))
    assert caught.value.jobs == ("j1",)
    racks[0] = {0: node, 1: {}}
    g.apply(machine(racks))
    assert g.check() == []


def test_records_that_have_ended_are_no_obstacle() -> None:
    now = [0.0]
    g = machine(plain())
    g.clock = lambda: now[0]
    g.allocate("/site/rack1", job="j1", end=10)
    with pytest.raises(StillHeld):
        g.apply(machine(plain(1)))
    now[0] = 11
    g.apply(machine(plain(1)), drain=True)
    assert (g.jobs(), len(g)) == ([], 10)


def test_a_pool_of_another_type_replaces_the_one_of_its_name() -> None:
    g = machine(plain(1, 1))
    wanted = document(plain(1, 1))
    wanted["resources"][0]["with"][0]["with"][0] = {"type": "cpu", "basename": "core", "count": 2}
    h = fluxres.load(wanted)
    g.allocate("/site/rack0/node0/core0", job="j1")
    with pytest.raises(MergeConflict, match="another pool with this path"):
        g.apply(h, drain=True)
    g.free("j1")
    g.apply(h)
    assert g.pool("/site/rack0/node0/core0").type == "cpu"


def test_a_host_in_another_rack_has_moved() -> None:
    g = machine({0: {0: {}, 1: {}}, 1: {2: {}}})
    uuid, rank = g.pool("/site/rack0/node1").uuid, g.pool("/site/rack0/node1").rank
    wanted = machine({0: {0: {}}, 1: {1: {}, 2: {}}})
    assert g.diff(wanted).moved == [("/site/rack0/node1", "/site/rack1/node1")]
    g.allocate("/site/rack0/node1/core0", job="j1")
    with pytest.raises(StillHeld, match="would move"):
        g.apply(wanted)
    g.free("j1")
    g.apply(wanted)
    assert (g.pool("/site/rack1/node1").uuid, g.pool("/site/rack1/node1").rank) == (uuid, rank)
    assert g.check() == []


def test_a_saved_description_with_another_name_has_moved() -> None:
    g = machine(plain(1, 2))
    g.tag("/site/rack0/node1", "owner", "ops")
    h = fluxres.loads(fluxres.dumps(g))
    h.move("/site/rack0/node1", "/site/rack0/node9")
    assert g.diff(h).moved == [("/site/rack0/node1", "/site/rack0/node9")]
    g.apply(h)
    assert g.pool("/site/rack0/node9").tags == {"owner": "ops"}
    assert equal(g.structure, h.structure) == []


def test_an_edge_with_too_little_capacity_is_refused() -> None:
    g = machine(plain(), pdus=True)
    g.allocate("slot/[node;power=600]", job="j1")
    with pytest.raises(StillHeld, match="would carry 500, and jobs draw 600 units through it") as caught:
        g.apply(machine(plain(), pdus=True, cap=500))
    assert caught.value.jobs == ("j1",)
    g.apply(machine(plain(), pdus=True, cap=600))
    assert g.check() == []


def test_an_edge_that_a_job_may_draw_through_is_refused() -> None:
    g = machine(plain(), pdus=True)
    wanted = document(plain(), pdus=True)
    wanted["graphs"]["power"]["edges"][2]["capacity"] = 900
    h = fluxres.load(wanted)
    g.allocate("slot/[node;power=600]", job="j1")
    with pytest.raises(StillHeld, match="would get a capacity"):
        g.apply(h)
    g.free("j1")
    g.apply(h)
    assert described(g) == described(h)


def test_another_machine_is_refused() -> None:
    g = machine(plain())
    with pytest.raises(MergeConflict, match=r"^the description is of the cluster '/other', not of the cluster '/site'"):
        g.apply(machine(plain(), name="other"))
    with pytest.raises(UsageError):
        g.diff("site.yaml")


def test_the_part_of_a_child_is_changed_through_its_parent() -> None:
    top = fluxres.Instance(machine(plain(), pdus=True))
    child = top.spawn(top.submit("slot/node", duration_s=60))
    with pytest.raises(UsageError, match="child instance"):
        child.graph.apply(machine(plain(), pdus=True))


def test_apply_is_one_event_that_can_be_replayed_with_its_graph() -> None:
    g, h = machine(plain()), machine(plain(3))
    again, said = g.duplicate(), list[dict[str, Any]]()
    g.sink = said.append
    g.apply(h, drain=True)
    assert [event["event"] for event in said] == ["apply"]
    assert orjson.loads(journal.body(said[0])) == {
        "event": "apply",
        "summary": "9 pools added",
        "drain": True,
        "drained": [],
    }
    again.apply(said[0])
    assert described(again) == described(g)


# -- by brute force ------------------------------------------------------------------------------------------------------


def some_racks(random: Random) -> Racks:
    ids = random.sample(range(12), random.randint(2, 8))
    racks: Racks = {rack: {} for rack in random.sample(range(4), random.randint(1, 3))}
    for number in ids:
        node: dict[str, Any] = {"cores": random.randint(1, 3), "memory": random.choice((4, 8, 16))}
        if random.random() < 0.3:
            node["properties"] = {"ssd": None, "class": random.randint(1, 2)}
        racks[random.choice(list(racks))][number] = node
    return racks


def altered(racks: Racks, random: Random) -> Racks:
    """A description that differs in a few places."""
    made = {rack: {number: dict(node) for number, node in nodes.items()} for rack, nodes in racks.items()}
    for _ in range(random.randint(1, 3)):
        rack = random.choice(list(made))
        match random.randrange(5):
            case 0:
                made[rack][random.randrange(20, 30)] = {}
            case 1 if len(made) > 1:
                del made[rack]
            case 2 if made[rack]:
                del made[rack][random.choice(list(made[rack]))]
            case 3 if made[rack]:
                made[rack][random.choice(list(made[rack]))]["memory"] = random.choice((2, 4, 32))
            case 4:
                made[max(made) + 1] = {random.randrange(30, 40): {}}
    return made


def hold(graph: ResourceGraph, random: Random) -> None:
    requests = ("slot/node", "slot/core", "slot/[core;memory=3]", "slot/rack", "slot/[core;power=150]", "slot/memory=4")
    for i in range(random.randint(0, 4)):
        start = random.choice((0, 0, 5))
        try:
            graph.allocate(
                random.choice(requests),
                job=f"j{i}",
                start=start,
                duration_s=random.randint(3, 9),
                policy=random.choice(("low", "high")),
            )
        except FluxresError:
            continue


def obstacles(before: ResourceGraph, after: ResourceGraph) -> set[str]:
    """The jobs in the way, found pool by pool from the paths."""
    old, new = before.structure, after.structure
    sizes = {new.where(v): int(new.size[v]) for v in range(new.n)}
    paths = {old.where(v): v for v in range(old.n)}
    moved = {a for a, _ in before.diff(after).moved}
    in_way = set[str]()
    for v, holders in before.records.held.items():
        where = old.accounts.where(v)
        if v >= old.n:
            carried = {new.accounts.where(u): int(new.accounts.size[u]) for u in range(new.n, new.accounts.n)}
            if carried.get(where, -1) < before.records.planner.used(v, 0, 2**62):
                in_way |= {job for job in holders if job != ELSEWHERE}
            continue
        below = {p for p in {*paths, *sizes} if p.startswith(where + "/")}
        for job, held in holders.items():
            whole = max(amount for _, _, amount in held) == old.size[v]
            gone = where not in sizes or any(where == m or where.startswith(m + "/") for m in moved)
            less = not gone and sizes[where] < before.records.planner.used(v, 0, 2**62)
            inside = whole and any(p not in paths or sizes.get(p) != old.size[paths[p]] or p in moved for p in below)
            if gone or less or inside:
                in_way.add(job)
    return in_way


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(60))
def test_any_description_on_any_machine(seed: int) -> None:
    """After `apply` the graph is the description with the records, or the refusal names exactly the jobs in the way."""
    random = Random(seed)
    racks = some_racks(random)
    wanted = altered(racks, random) if random.random() < 0.7 else some_racks(random)
    pdus = random.random() < 0.5
    g, h = machine(racks, pdus=pdus), machine(wanted, pdus=pdus)
    g.clock = lambda: 0.0
    hold(g, random)
    before, found = facts(g), g.diff(h)
    uuids = {g.structure.where(v): g.structure.uuid(v) for v in range(g.structure.n)}
    ranks = {g.structure.where(v): int(g.structure.rank[v]) for v in range(g.structure.n)}
    held, in_way = spans(g), obstacles(g, h)
    drained = g.duplicate()
    refused = refusal(g, h)
    if refused is not None:
        assert refused >= in_way
        assert refused == in_way or pdus  # an edge without a capacity does not record who draws through it
        assert facts(g) == before
    else:
        assert in_way == set()
        assert described(g) == described(h)
        assert spans(g) == held
        moved = {b: a for a, b in found.moved}
        for v in range(g.structure.n):
            where = g.structure.where(v)
            origin = next((moved[b] + where[len(b) :] for b in moved if where == b or where.startswith(b + "/")), where)
            if origin in uuids:
                assert (g.structure.uuid(v), int(g.structure.rank[v])) == (uuids[origin], ranks[origin])
        with_records(h, g)
        for at in (0, 4, 8, 20):
            assert g.aggregate("/", at=at) == h.aggregate("/", at=at)
            for request in ("slot/node", "slot=2/core", "slot/[core;memory=5]"):
                assert match(g, request, at) == match(h, request, at)
        assert not g.diff(h)
    assert g.check() == []
    try:
        done = drained.apply(h, drain=True)
    except (StillHeld, MergeConflict):
        assert drained.check() == []
        return
    assert drained.check() == []
    assert spans(drained) == held
    revision = drained.revision
    assert set(drained.apply(h, drain=True).drained) == set(done.drained)
    assert drained.revision == revision
    assert {part.path for part in done.removed if part.jobs} <= set(done.drained)
    assert bool(done.drained) == any(part.jobs for part in done.removed)
    shape = encoding.encode_shape(drained.structure)
    assert (
        equal(
            encoding.decode(shape, encoding.encode_marks(drained.structure, capture(drained.records), shape))[0],
            drained.structure,
        )
        == []
    )
    for job in drained.jobs():
        drained.free(job)
    drained.apply(h)
    assert described(drained) == described(h)


def refusal(graph: ResourceGraph, wanted: ResourceGraph) -> set[str] | None:
    """The jobs that a refusal names; None if it was applied."""
    try:
        graph.apply(wanted)
    except StillHeld as error:
        return set(error.jobs)
    return None


def with_records(graph: ResourceGraph, other: ResourceGraph) -> None:
    """Give a fresh graph the records of another one, by path."""
    same: Callable[[int], int] = lambda v: graph.structure.vertex(other.structure.where(v))  # noqa: E731
    graph.records.carry_over(other.records, np.array([same(v) for v in range(other.structure.n)], np.int32))


def match(graph: ResourceGraph, request: str, at: float) -> list[str] | str:
    try:
        return [pool.path for pool in graph.match(request, at=at, duration_s=2).pools]
    except FluxresError as error:
        return str(error)
