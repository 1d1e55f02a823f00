"""Edges of auxiliary graphs that are added, changed and removed while jobs draw through them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import (
    FluxresError,
    InfeasibleRequest,
    LimitExceeded,
    StaleHandle,
    StillHeld,
    UnknownGraph,
    UnknownPool,
    UsageError,
    limits,
)
from fluxres.cli.arguments import targets
from fluxres.model import ResourceGraph
from fluxres.render.folding import fold_edges
from fluxres.store import open_store
from tests.store.graphs import facts

EDGE = ("/demo/rack0", "/demo/rack0/node0", "power")
FEED = ("power:/pdu0", "/demo/rack0", "power")


def document(feed: float | None = 8000) -> dict[str, Any]:
    limit = {} if feed is None else {"capacity": feed}
    rack = {
        "type": "rack",
        "count": 2,
        "with": [{"type": "node", "count": 3, "id": {"within": "rack"}, "with": [{"type": "core"}]}],
    }
    edges = [{"from": f"power:/pdu{i}", "to": f"/demo/rack{i}", "relation": "supplies", **limit} for i in range(2)] + [
        {"from": f"/demo/rack{i}", "to": f"/demo/rack{i}/node*", "relation": "supplies", "capacity": 4000} for i in range(2)
    ]
    pools = [{"type": "pdu", "count": 2, "size": 10000, "unit": "W"}]
    power = {"hierarchy": True, "pools": pools, "edges": edges}
    links = [{"from": "network:/leaf", "to": "/demo/rack*/node*", "direction": "both", "capacity": 100}]
    network = {"pools": [{"type": "leaf"}], "edges": links}
    return {"fluxres": 1, "name": "demo", "resources": [rack], "graphs": {"power": power, "network": network}}


@pytest.fixture
def g() -> ResourceGraph:
    return fluxres.load(document())


def edge(g: ResourceGraph, source: str, target: str, subsystem: str) -> dict[str, Any] | None:
    found = [data for pool, data in g.pool(source).links(subsystem) if pool == g.pool(target)]
    return found[0] if found else None


def test_changing_an_edge_changes_its_free_units(g: ResourceGraph) -> None:
    g.allocate("slot=1/[node;pdu=3000]", job="j1")
    g.set_edge(*EDGE, capacity=3500, attributes={"colour": "red", "length_m": 2})
    assert edge(g, *EDGE) == {"subsystem": "power", "type": "supplies", "capacity": 3500.0, "colour": "red", "length_m": 2.0}
    view = g.subsystem("power")
    assert view.edges[g.vertex(EDGE[0]), g.vertex(EDGE[1])]["free"] == 500
    assert {span.pool: span.amount for span in g.allocation("j1").spans}["power: /demo/rack0 -> /demo/rack0/node0"] == 3000
    g.set_edge(*EDGE, attributes={"colour": None})
    assert "colour" not in (edge(g, *EDGE) or {})
    assert g.check() == []
    g.free("j1")
    assert g.satisfiable("slot=1/[node;pdu=4000]")
    for node in ("/demo/rack0/node1", "/demo/rack0/node2", *(f"/demo/rack1/node{i}" for i in range(3))):
        g.set_edge(node.rpartition("/")[0], node, "power", capacity=10)
    with pytest.raises(InfeasibleRequest):
        g.allocate("slot=1/[node;pdu=3501]", job="j2")
    g.set_edge(*EDGE, capacity=math.inf)
    assert "capacity" not in (edge(g, *EDGE) or {})
    assert [p.where for p in g.allocate("slot=1/[node;pdu=7000]", job="j2").pools] == ["/demo/rack0/node0", "power:/pdu0"]


def test_capacity_cannot_drop_below_present_or_later_draws(g: ResourceGraph) -> None:
    g.allocate("slot=1/[node;pdu=1000]", job="now", duration_s=10)
    g.allocate("slot=1/[node;pdu=3000]", job="later", start=100, duration_s=10)
    before = facts(g)
    for refused in (lambda: g.set_edge(*EDGE, capacity=2999), lambda: g.remove_edge(*EDGE), lambda: g.remove_edge(*FEED)):
        with pytest.raises(StillHeld, match=r"later draws 3000 units|2 jobs draw"):
            refused()
    assert facts(g) == before
    g.set_edge(*EDGE, capacity=3000)
    g.free("later")
    g.set_edge(*EDGE, capacity=1000)
    g.clock = lambda: 10.0  # ended records draw nothing
    g.remove_edge(*EDGE)
    assert edge(g, *EDGE) is None
    assert g.check() == []


def test_stages_count_as_draws(g: ResourceGraph) -> None:
    with g.stage("slot=1/[node;pdu=2000]", job="j", duration_s=10), pytest.raises(StillHeld, match="j draws 2000 units"):
        g.set_edge(*EDGE, capacity=100)
    g.set_edge(*EDGE, capacity=100)


def test_draws_through_an_unlimited_edge_are_unknown() -> None:
    g = fluxres.load(document(feed=None))
    g.allocate("slot=1/[node;pdu=1000]", job="j1")
    for refused in (lambda: g.set_edge(*FEED, capacity=5000), lambda: g.remove_edge(*FEED)):
        with pytest.raises(StillHeld, match="j1 may draw through it"):
            refused()
    g.set_edge("power:/pdu1", "/demo/rack1", "power", capacity=5000)  # nothing of j1 is supplied through it
    g.free("j1")
    g.set_edge(*FEED, capacity=500)
    assert not g.satisfiable("slot=4/[node;pdu=600]")
    assert g.check() == []


def test_edges_and_graphs_can_be_added(g: ResourceGraph) -> None:
    node, other = "/demo/rack0/node0", "/demo/rack1/node0"
    g.add_edge(node, other, "network", relation="cable", capacity=40, unit="Gbit/s", attributes={"spare": True})
    added = {"subsystem": "network", "type": "cable", "capacity": 40.0, "unit": "Gbit/s", "spare": True}
    assert edge(g, node, other, "network") == added
    g.add_edge(node, other, "twins", hierarchy=False)
    assert g.subsystems == ["power", "network", "twins"]
    g.add_edge("/demo", "/demo/rack0", "cooling", relation="cools", hierarchy=True)
    g.add_edge("/demo", "/demo/rack1", "cooling", relation="heats")
    assert g.pool("/demo/rack1").uris == ["demo:/rack1", "power:/pdu1/rack1", "cooling:/demo/rack1"]
    assert g.pool("cooling:/demo/rack1").path == "/demo/rack1"
    assert [data["type"] for _, data in g.pool("/demo").links("cooling")] == ["cools", "heats"]
    assert g.check() == []


REFUSED: dict[str, tuple[Callable[[ResourceGraph], None], type[FluxresError], str]] = {
    "there already": (lambda g: g.add_edge(*EDGE, relation="supplies"), UsageError, "two parents|exists already"),
    "second parent": (lambda g: g.add_edge("power:/pdu1", EDGE[1], "power"), UsageError, "two parents in hierarchy 'power'"),
    "cycle": (lambda g: g.add_edge(EDGE[1], FEED[0], "power"), UsageError, "its own descendant"),
    "itself": (lambda g: g.add_edge("/demo", "/demo", "network"), UsageError, "to itself"),
    "no graph": (lambda g: g.add_edge("/demo", "/demo/rack0", "cooling"), UnknownGraph, "choose from power, network"),
    "no pool": (lambda g: g.add_edge("/demo", "/demo/rack9", "power"), UnknownPool, "rack9"),
    "no hierarchy": (
        lambda g: g.add_edge("/demo", "/demo/rack0", "network", hierarchy=True),
        UsageError,
        "graph without hierarchy",
    ),
    "name": (lambda g: g.add_edge("/demo", "/demo/rack0", "a/b", hierarchy=True), UsageError, "not a valid graph name"),
    "name of the machine": (lambda g: g.add_edge("/demo", "/demo/rack0", "demo", hierarchy=True), UsageError, "taken"),
    "relation": (lambda g: g.add_edge("/demo", "/demo/rack0", "network", relation=""), UsageError, "relation: expected"),
    "capacity": (lambda g: g.set_edge(*EDGE, capacity=-1), UsageError, "expected a number of at least 0"),
    "nan": (lambda g: g.set_edge(*EDGE, capacity=math.nan), UsageError, "expected a number of at least 0"),
    "huge": (lambda g: g.set_edge(*EDGE, capacity=1e300), UsageError, "math.inf for no limit"),
    "past floats": (lambda g: g.set_edge(*EDGE, capacity=limits.CAPACITY_MAX + 2), UsageError, "at most 9007199254740992, got"),
    "endless digits": (lambda g: g.set_edge(*EDGE, capacity=10**5000), UsageError, "a number of over 300 digits"),
    "text": (lambda g: g.set_edge(*EDGE, capacity="12"), UsageError, "expected a number"),  # type: ignore[arg-type]  # on purpose
    "nothing": (lambda g: g.set_edge(*EDGE), UsageError, "nothing of the edge"),
    "no edge": (lambda g: g.set_edge(EDGE[1], EDGE[0], "power", capacity=1), UsageError, "in the other direction"),
    "no relation": (lambda g: g.remove_edge(*EDGE, relation="link"), UsageError, "no such edge"),
    "attribute": (lambda g: g.set_edge(*EDGE, attributes={"type": "x"}), UsageError, "not a valid name of an edge attribute"),
    "value": (lambda g: g.set_edge(*EDGE, attributes={"a": math.inf}), UsageError, "finite number"),
    "long": (lambda g: g.set_edge(*EDGE, attributes={"a": "x" * (limits.VALUE_LENGTH_MAX + 1)}), FluxresError, "characters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_changes_have_no_effect(g: ResourceGraph, case: str) -> None:
    act, error, message = REFUSED[case]
    before, generation = facts(g), g.generation
    with pytest.raises(error, match=message):
        act(g)
    assert (facts(g), g.generation) == (before, generation)


def test_relation_distinguishes_edges_between_two_pools(g: ResourceGraph) -> None:
    node = "/demo/rack0/node0"
    g.add_edge("network:/leaf", node, "network", relation="spare", capacity=7)
    with pytest.raises(UsageError, match="name the relation: link, spare"):
        g.remove_edge("network:/leaf", node, "network")
    g.set_edge("network:/leaf", node, "network", relation="spare", capacity=9)
    assert [d["capacity"] for p, d in g.pool("network:/leaf").links("network") if p.path == node] == [100.0, 9.0]
    g.remove_edge("network:/leaf", node, "network", relation="link")
    assert [d["type"] for p, d in g.pool("network:/leaf").links("network") if p.path == node] == ["spare"]


def test_earlier_handles_and_views_are_stale(g: ResourceGraph) -> None:
    pool, found, view = g.pool("/demo"), g.find("type=node"), g.subsystem("power")
    g.set_edge(*EDGE, capacity=4001)
    for look in (lambda: pool.type, lambda: list(found), lambda: list(view.edges)):
        with pytest.raises(StaleHandle):
            look()


def changed(g: ResourceGraph) -> None:
    g.set_edge(*EDGE, capacity=3000, attributes={"colour": "red"})
    g.allocate("slot=1/[node;pdu=500]", job="j1")
    g.set_edge("power:/pdu1", "/demo/rack1", "power", capacity=math.inf)
    g.remove_edge("network:/leaf", "/demo/rack0/node1", "network")
    g.add_edge("/demo/rack0", "/demo/rack1", "floor", relation="beside", hierarchy=False)


def test_store_keeps_edge_changes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/site.db"
    g = fluxres.load(document())
    fluxres.save(g, url)
    changed(g)
    fluxres.save(g, url, changed_only=True)
    store = open_store(url)
    assert facts(store.load()) == facts(g)
    assert [entry.event["event"] for entry in store.log()][-5:] == ["set_edge", "allocate", "set_edge", "remove_edge", "add_edge"]
    with store.writing() as kept:
        kept.graph.set_edge(*EDGE, capacity=2500)
    assert edge(store.load(), *EDGE) == {"subsystem": "power", "type": "supplies", "capacity": 2500.0, "colour": "red"}


def test_saving_changes_keeps_edge_changes(tmp_path: Path) -> None:
    g = fluxres.load(document())
    fluxres.save(g, tmp_path / "site.yaml")
    changed(g)
    fluxres.save(g, tmp_path / "site.changes", changed_only=True)
    assert facts(fluxres.load(tmp_path / "site.yaml", changes=[tmp_path / "site.changes"])) == facts(g)


def test_events_are_replayed(g: ResourceGraph) -> None:
    import orjson

    events: list[bytes] = []
    again = g.duplicate()
    g.sink = lambda event: events.append(orjson.dumps(event))
    changed(g)
    for event in events:
        again.apply(orjson.loads(event))
    assert facts(again) == facts(g)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_rule_f1_changed_graph_decides_like_a_newly_loaded_one(seed: int) -> None:
    """After any changes, the graph decides like one that is loaded with these edges and has the same records."""
    source = random.Random(seed)
    g = fluxres.load(document(source.choice([None, 8000])))
    cables = [(f"/demo/rack{i}", f"/demo/rack{i}/node{k}", "power") for i in range(2) for k in range(3)]
    cables += [(f"power:/pdu{i}", f"/demo/rack{i}", "power") for i in range(2)]
    done = 0
    for step in range(60):
        named = source.choice(cables)
        with suppress(FluxresError):
            match source.randrange(5):
                case 0:
                    g.set_edge(*named, capacity=source.choice([0, 500, 2000, 5000, math.inf]))
                case 1:
                    g.remove_edge(*named)
                case 2:
                    g.add_edge(*named, relation="supplies", capacity=source.choice([500, 3000, math.inf]))
                case 3:
                    request = f"slot={source.randint(1, 2)}/[node;pdu={source.choice([300, 900, 2500])}]"
                    g.allocate(request, job=f"j{step}", start=step, duration_s=source.randint(1, 40))
                case _:
                    g.free(source.choice(g.jobs() or ["none"]))
            done += 1
        assert g.check() == []
        accounts, planner = g.structure.accounts, g.planner
        for v in range(len(g), accounts.n):
            assert planner.used(v, 0, 10**18) <= accounts.size[v]
        again = fluxres.loads(fluxres.dumps(g))
        for watts in (300, 2500):
            request = f"slot=1/[node;pdu={watts}]"
            assert str(answer(g, request)) == str(answer(again, request))
    assert done > 20


def answer(g: ResourceGraph, request: str) -> object:
    try:
        found = g.match(request, duration_s=50)
        return [(g.structure.accounts.where(v), amount) for v, amount in found.targets]
    except FluxresError as error:
        return type(error).__name__


def test_rule_m1_pools_with_edges_in_use_are_not_unlinked(g: ResourceGraph) -> None:
    """As with remove_edge, for present and later draws, under any name; edges without draws are removed."""
    g.allocate("slot=1/[node;pdu=3000]", job="j1", start=5, duration_s=10)
    before = g.allocation("j1").spans
    for where in ("power:/pdu0/rack0/node0", "power:/pdu0/rack0"):
        with pytest.raises(StillHeld, match=r"j1 .*through it"):
            g.unlink(where)
    with pytest.raises(StillHeld):
        g.unlink("power:/pdu0")
    assert g.allocation("j1").spans == before
    assert g.check() == []
    g.unlink("power:/pdu1/rack1/node0")
    g.unlink("power:/pdu0/rack0/node1")
    assert g.allocation("j1").spans == before
    g.free("j1")
    g.unlink("power:/pdu0/rack0")
    assert g.check() == []


def test_supply_attribute_selects_all_or_any_suppliers() -> None:
    g = fluxres.load(document(None))
    g.unlink("power:/pdu0/rack0")
    g.add_edge("power:/pdu0", "/demo/rack0", "power", supply="any")
    assert (edge(g, "power:/pdu0", "/demo/rack0", "power") or {})["supply"] == "any"
    g.set_edge("power:/pdu0", "/demo/rack0", "power", supply="all")
    with pytest.raises(UsageError, match="supply: expected 'all' or 'any', got 'some'"):
        g.set_edge("power:/pdu0", "/demo/rack0", "power", supply="some")  # type: ignore[arg-type]  # what is tested


def test_printed_edge_names_can_be_looked_up(g: ResourceGraph) -> None:
    """In messages and lists, singly or folded, and with other names of the ends."""
    accounts = g.structure.accounts
    for v in range(g.structure.n, accounts.n):
        assert accounts.said(v) == accounts.where(v)
        assert accounts.number(accounts.said(v)) == v
    edge_name = "power: power:/pdu0 -> /demo/rack0"
    for where in (edge_name, f"power: power:/pdu0/ -> {g.pool('/demo/rack0').uuid}"):
        g.allocate({where: 5}, job="j")
        assert [span.pool for span in g.allocation("j").spans] == [edge_name]
        g.free("j", where)
    folded = [item.text for item in fold_edges(g.structure, np.arange(g.structure.n, accounts.n))]
    assert any(text.startswith("power: power:/pdu0 -> /demo/rack0") for text in folded)
    assert targets(g, ["power: /demo/rack0 -> /demo/rack0/node[0-2]=7"]) == [
        (accounts.number(f"power: /demo/rack0 -> /demo/rack0/node{i}"), 7) for i in range(3)
    ]
    for where in ("power: power:/pdu0 -> /demo/rack1", "pwr: power:/pdu0 -> /demo/rack0"):
        with pytest.raises(UnknownPool, match="no edge with a capacity"):
            targets(g, [where])


def test_edge_names_are_bounded(g: ResourceGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "EDGES_MAX", 2)
    with pytest.raises(LimitExceeded, match="6 pairs of pools"):
        targets(g, ["power: power:/pdu[0-1] -> /demo/rack0/node[0-2]"])


def test_pool_outside_containment_is_found_by_its_where_name(g: ResourceGraph) -> None:
    pdu = g.pool("power:/pdu0")
    assert (pdu.path, pdu.where) == ("/pdu0", "power:/pdu0")
    assert g.pool(pdu.where) == pdu
    with pytest.raises(UnknownPool) as refusal:
        g.pool(pdu.path)
    assert refusal.value.hint == "outside the containment tree: power:/pdu0"
    with pytest.raises(UnknownPool) as other:
        g.pool("/pdu7")
    assert other.value.hint == ""


def links(capacity: float | None) -> ResourceGraph:
    limit = {} if capacity is None else {"capacity": capacity}
    edges = [
        fluxres.Edge("network:/switch0", "/lab/node*", direction="both", **limit),
        fluxres.Edge("network:/switch1", "network:/switch0", direction="both", capacity=4),
    ]
    network = fluxres.AuxiliaryGraph(pools=[fluxres.Resource("switch", 2)], edges=edges)
    node = fluxres.Resource("node", 2, children=[fluxres.Resource("core", 2)])
    return fluxres.build(node, name="lab", graphs={"network": network})


def stays_until_freed(g: ResourceGraph, edge: tuple[str, str, str], other: tuple[str, str, str], capacity: int) -> None:
    """An unlimited edge cannot get a capacity or be removed while job j may draw through it; another edge can."""
    for refused in (lambda: g.set_edge(*edge, capacity=capacity), lambda: g.remove_edge(*edge)):
        with pytest.raises(StillHeld, match="j may draw through it"):
            refused()
    g.set_edge(*other, capacity=capacity)
    g.free("j")
    g.set_edge(*edge, capacity=capacity)


@pytest.mark.parametrize("ends", [("network:/switch0", "/lab/node0"), ("/lab/node0", "network:/switch0")])
@pytest.mark.parametrize("capacity", [None, 10])
@pytest.mark.parametrize("unit", ["node", "core"])
def test_rule_f1_draws_through_an_unlimited_link_are_unknown(unit: str, capacity: float | None, ends: tuple[str, str]) -> None:
    g = links(capacity)
    g.allocate(f"slot/[{unit};network=4]", job="j", duration_s=9)
    if capacity is not None:
        g.set_edge(*ends, "network", capacity=math.inf)
    stays_until_freed(g, (*ends, "network"), ("network:/switch0", "/lab/node1", "network"), capacity=1)
    assert not g.satisfiable("slot=2/[node;network=2]")


@pytest.mark.parametrize("ends", [("power:/feed0", "power:/pdu0"), ("power:/pdu0", "/lab/node0")])
@pytest.mark.parametrize("feed", [{}, {"size": 8, "unit": "W"}])
def test_rule_f1_pdu_draws_pass_the_edge_above_it(feed: dict[str, Any], ends: tuple[str, str]) -> None:
    pools = [fluxres.Resource("feed", 1, **feed), fluxres.Resource("pdu", 2, size=8, unit="W")]
    edges = [fluxres.Edge("power:/feed0", "power:/pdu*"), *(fluxres.Edge(f"power:/pdu{i}", f"/lab/node{i}") for i in range(2))]
    power = fluxres.AuxiliaryGraph(pools=pools, edges=edges)
    g = fluxres.build(fluxres.Resource("node", 2), name="lab", graphs={"power": power})
    g.allocate("slot/[node{id:'0'};power=3]", job="j", duration_s=9)
    stays_until_freed(g, (*ends, "power"), ("power:/feed0", "power:/pdu1", "power"), capacity=2)
    assert not g.satisfiable("slot/[node{id:'0'};power=3]")
    assert g.satisfiable("slot/[node{id:'0'};power=2]")


def test_unlimited_links_change_while_jobs_run() -> None:
    edges = [fluxres.Edge("network:/switch0", "/lab/node*", direction="both")]
    network = fluxres.AuxiliaryGraph(pools=[fluxres.Resource("switch", 1)], edges=edges)
    g = fluxres.build(fluxres.Resource("node", 2), name="lab", graphs={"network": network})
    g.allocate("/lab/node0", job="j", duration_s=9)
    g.remove_edge("network:/switch0", "/lab/node0", "network")
    assert g.check() == []


# -- routes --------------------------------------------------------------------------------------------------------------


def routed(switch: dict[str, Any], peers: bool = False) -> ResourceGraph:
    """Two nodes at two switches, which a spine joins, or a link between them; links between switches have no capacity."""
    edges = [fluxres.Edge(f"network:/switch{i}", f"/lab/node{i}", direction="both", capacity=10) for i in range(2)]
    joins = ("network:/switch0", "network:/switch1") if peers else ("network:/spine", "network:/switch*")
    edges.append(fluxres.Edge(*joins, direction="both"))
    pools = [fluxres.Resource("switch", 2, **switch), *([] if peers else [fluxres.Resource("spine")])]
    network = fluxres.AuxiliaryGraph(pools=pools, edges=edges)
    return fluxres.build(fluxres.Resource("node", 2), name="lab", graphs={"network": network})


@pytest.mark.parametrize("peers", [False, True])
@pytest.mark.parametrize("switch", [{}, {"size": 20, "unit": "Gbit/s"}])
@pytest.mark.parametrize("place", ["{to:network:/switch1}", "{to:/lab/node1}"])
@pytest.mark.parametrize("how", ["allocate", "stage", "commit_all", "in a child", "saved"])
def test_rule_f1_routed_draws_may_use_any_unlimited_link(how: str, place: str, switch: dict[str, Any], peers: bool) -> None:
    g = routed(switch, peers)
    request = f"slot/[node{{id:'0'}};network=5{place}]"
    if how == "allocate":
        g.allocate(request, job="j", duration_s=9)
    elif how == "stage":
        g.stage(request, job="j", duration_s=9).commit()
    elif how == "commit_all":
        g.allocate_all([(request, "j")], duration_s=9)
    elif how == "saved":
        g.allocate("slot/[node{id:'0'};network=5]", job="j", duration_s=9)
        g = fluxres.loads(fluxres.dumps(g))
    else:
        top = fluxres.Instance(g)
        child = top.spawn(top.submit("slot=2/node", duration_s=9))
        assert child.submit(request, duration_s=5).state.name == "RUN"
    link = ("network:/switch0", "network:/switch1") if peers else ("network:/spine", "network:/switch1")
    for ends in (link, link[::-1]):
        for refused in (partial(g.set_edge, *ends, "network", capacity=3), partial(g.remove_edge, *ends, "network")):
            with pytest.raises(StillHeld, match="may draw through it"):
                refused()


def test_rule_f1_upward_draws_block_only_their_supply_path() -> None:
    g = routed({})
    g.allocate("slot/[node{id:'0'};network=5]", job="j", duration_s=9)
    g.set_edge("network:/spine", "network:/switch1", "network", capacity=3)  # it is still known after a change
    g.set_edge("network:/switch1", "network:/spine", "network", capacity=3)
    with pytest.raises(StillHeld, match="may draw through it"):
        g.set_edge("network:/spine", "network:/switch0", "network", capacity=3)
    g.allocate("slot/[node{id:'1'};network=2{to:network:/switch1}]", job="j", duration_s=9)
    g.add_edge("network:/switch0", "network:/switch1", "network", relation="cross")
    with pytest.raises(StillHeld, match="j may draw through it"):
        g.set_edge("network:/switch0", "network:/switch1", "network", relation="cross", capacity=3)
    g.free("j")
    g.set_edge("network:/switch0", "network:/switch1", "network", relation="cross", capacity=3)
    assert g.check() == []


def test_rule_f1_edge_below_unitless_suppliers_stays_if_units_are_counted_elsewhere() -> None:
    edges = [
        fluxres.Edge("network:/spine", "network:/switch*"),
        *(fluxres.Edge(f"network:/switch{i}", f"/lab/node{i}", capacity=10) for i in range(2)),
        fluxres.Edge("network:/hub", "/lab/node2"),
    ]
    pools = [fluxres.Resource("spine"), fluxres.Resource("switch", 2), fluxres.Resource("hub", size=40, unit="Gbit/s")]
    network = fluxres.AuxiliaryGraph(pools=pools, edges=edges)
    g = fluxres.build(fluxres.Resource("node", 3), name="lab", graphs={"network": network})
    g.allocate("slot/[node{id:'0'};network=10]", job="j")
    stays_until_freed(
        g, ("network:/spine", "network:/switch0", "network"), ("network:/spine", "network:/switch1", "network"), capacity=1
    )


@pytest.mark.parametrize("inventory", ["graph", "auto", "named:node"])
def test_rule_f1_instances_know_which_jobs_draw_along_routes(inventory: str) -> None:
    edges = [
        fluxres.Edge("network:/spine", "network:/switch*"),
        *(fluxres.Edge(f"network:/switch{i // 2}", f"/lab/node{i}", capacity=20) for i in range(4)),
    ]
    pools = [fluxres.Resource("spine"), fluxres.Resource("switch", 2)]
    network = fluxres.AuxiliaryGraph(pools=pools, edges=edges)
    node = fluxres.Resource("node", 4, children=[fluxres.Resource("core", 2)])
    g = fluxres.build(node, name="lab", graphs={"network": network})
    g.set_state("/lab/node[0-1]", "drain")
    top = fluxres.Instance(g, inventory=inventory)
    child = top.spawn(top.submit("slot=1/node"))
    assert top.graph is g
    link = ("network:/spine", "network:/switch0", "network")
    g.set_edge(*link, capacity=50)  # nothing draws along it
    g.set_edge(*link, capacity=math.inf)
    if inventory == "named:node":
        return
    child.shrink("/lab/node2/core1")
    g.set_edge(*link, capacity=50)
    g.set_edge(*link, capacity=math.inf)
    child.grow("slot=1/[node;network=10{to:network:/switch0}]")
    for refused in (partial(g.set_edge, *link, capacity=1), partial(g.remove_edge, *link)):
        with pytest.raises(StillHeld, match="may draw through it"):
            refused()
    assert top.check() == []


def test_fraction_parallel_to_an_unlimited_cable_causes_no_warning() -> None:
    edges = [fluxres.Edge("network:/switch0", "/lab/node0", relation=r, **c) for r, c in (("a", {"capacity": 7.5}), ("b", {}))]
    network = fluxres.AuxiliaryGraph(pools=[fluxres.Resource("switch", 1)], edges=edges)
    g = fluxres.build(fluxres.Resource("node", 1), name="lab", graphs={"network": network})
    assert g.check() == []


# -- jobs that drew nothing ----------------------------------------------------------------------------------------------

RACK1_N3 = ("/lab/rack1", "/lab/rack1/node3", "power")


def two_racks(*, of_node3: int = 1) -> dict[str, Any]:
    """Two racks, each with a PDU, and edges without a capacity down to the nodes."""
    in_rack = {0: [0, 1], 1: [2]}
    in_rack[of_node3].append(3)
    racks = [
        {"type": "rack", "id": i, "with": [{"type": "node", "id": n, "with": [{"type": "core", "count": 2}]} for n in nodes]}
        for i, nodes in in_rack.items()
    ]
    edges = [{"from": f"power:/pdu{i}", "to": f"/lab/rack{i}"} for i in range(2)]
    edges += [{"from": f"/lab/rack{i}", "to": f"/lab/rack{i}/node*"} for i in range(2)]
    pools = [{"type": "pdu", "count": 2, "size": 1000, "unit": "W"}]
    return {
        "fluxres": 1,
        "name": "lab",
        "resources": racks,
        "graphs": {"power": {"hierarchy": True, "pools": pools, "edges": edges}},
    }


def reread(g: ResourceGraph) -> ResourceGraph:
    """The same graph from a file, which does not record routes."""
    return fluxres.loads(fluxres.dumps(g))


def test_rule_f1_job_elsewhere_that_drew_nothing_prevents_no_change_of_an_edge() -> None:
    g = fluxres.load(two_racks())
    g.allocate("/lab/rack0/node1/core0", job="c")
    g = reread(g)
    g.set_edge(*RACK1_N3, capacity=5)
    g.set_edge(*RACK1_N3, capacity=math.inf)
    g.set_edge("power:/pdu0", "/lab/rack0", "power", capacity=5)  # whatever is drawn through it is held of the PDU
    moved = reread(g)
    g.remove_edge(*RACK1_N3)
    moved.apply(fluxres.load(two_racks(of_node3=0)))
    assert moved.pool("/lab/rack0/node3").uris[-1] == "power:/pdu0/rack0/node3"
    assert g.check() == moved.check() == []


@pytest.mark.parametrize(
    ("wanted", "edge"),
    [
        (["/lab/rack1/node3/core0"], RACK1_N3),  # at its target
        (["/lab/rack1/node2/core0"], RACK1_N3),  # beside it: a route between nodes may lead along the edge
        ([("power:/pdu1", 5)], RACK1_N3),
        ([("power:/pdu0", 5), "/lab/rack0/node1/core0"], RACK1_N3),  # of another supplier: where its route leads is unknown
    ],
)
def test_rule_f1_job_of_a_file_that_may_have_drawn_keeps_the_edge(wanted: list[Any], edge: tuple[str, str, str]) -> None:
    g = fluxres.load(two_racks())
    g.allocate(wanted, job="c")
    g = reread(g)
    for refused in (partial(g.set_edge, *edge, capacity=5), partial(g.remove_edge, *edge)):
        with pytest.raises(StillHeld, match="c may draw through it"):
            refused()
    for drain in (False, True):
        with pytest.raises(StillHeld) as error:
            g.apply(fluxres.load(two_racks(of_node3=0)), drain=drain)
        assert error.value.hint == "free it, or wait until it ends"


def test_rule_f1_single_unit_that_no_record_names_may_have_been_drawn() -> None:
    spec = two_racks()
    spec["graphs"]["power"]["pools"] = [{"type": "pdu", "id": 0, "size": 1}, {"type": "pdu", "id": 1, "size": 8}]
    g = fluxres.load(spec)
    g.allocate("slot/[node{id:'1'};pdu{-x}]", job="c")
    assert [span.pool for span in g.allocation("c").spans] == ["/lab/rack0/node1"]
    with pytest.raises(StillHeld, match="c may draw through it"):
        reread(g).set_edge("power:/pdu0", "/lab/rack0", "power", capacity=5)


@pytest.mark.parametrize("goes", [("network:/sw0", "/demo/node0"), ("/demo/node0", "network:/sw0")])
def test_rule_f1_edge_on_a_route_stays_although_only_a_link_between_equals_is_limited(goes: tuple[str, str]) -> None:
    """A route to another node of a job that holds some of the link between their switches."""
    link = {"from": "network:/sw0", "to": "network:/sw1", "direction": "both", "capacity": 100}
    down = [{"from": f"network:/sw{i}", "to": f"/demo/node{i}", "direction": "both"} for i in range(2)]
    spec = {"fluxres": 1, "name": "demo", "resources": [{"type": "node", "count": 2}]}
    pools = [{"type": "switch", "names": ["sw0", "sw1"]}]
    g = fluxres.load({**spec, "graphs": {"network": {"pools": pools, "edges": [link, *down]}}})
    g.allocate("slot/[node;network=60{to:/demo/node1}]", job="j")
    with pytest.raises(StillHeld, match="j may draw through it"):
        g.remove_edge(*goes, "network")
    with pytest.raises(StillHeld, match="jobs may draw through it"):
        g.apply(fluxres.load({**spec, "graphs": {"network": {"pools": pools, "edges": [link, down[1]]}}}))
