"""Walk, find, totals and relatives in auxiliary hierarchies, compared with networkx on the same edges."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError, StaleHandle, UnknownGraph, UnknownPool, UsageError
from fluxres.graph.kinds import WAY
from fluxres.graph.structure import Structure
from fluxres.model import Pool, ResourceGraph
from tests.graph.builders import demo, machines_with_graphs
from tests.match import cases
from tests.match.ways import Ways


def busy(structure: Structure, seed: int) -> ResourceGraph:
    """A machine with some jobs on it."""
    g, source = ResourceGraph(structure), random.Random(seed)
    for _ in range(4):
        pool = g.pool(source.randrange(structure.n))
        try:
            pool.allocate(source.randint(1, pool.size), job=f"j{source.randrange(3)}", start=source.randrange(4), duration_s=5)
        except FluxresError:
            continue
    return g


def edges(g: ResourceGraph, name: str) -> nx.DiGraph[int]:
    made: nx.DiGraph[int] = nx.DiGraph()
    graph = g.structure.subsystems[name]
    made.add_nodes_from(graph.members.tolist())
    made.add_edges_from(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    return made


def in_breadth(graph: nx.DiGraph[int], top: int) -> list[int]:
    found, pending = [top], deque([top])
    while pending:
        fresh = [v for v in graph.successors(pending.popleft()) if v not in found]
        found += fresh
        pending += fresh
    return found


def backwards_first(pools: list[Pool]) -> list[Pool]:
    return sorted(pools, key=lambda pool: -pool.vertex)


ORDERS: dict[str, Callable[[nx.DiGraph[int], int], list[int]]] = {
    "pre": lambda graph, top: list(nx.dfs_preorder_nodes(graph, top)),
    "post": lambda graph, top: list(nx.dfs_postorder_nodes(graph, top)),
    "bfs": in_breadth,
}


@settings(deadline=None)
@given(machines_with_graphs(), st.sampled_from(sorted(ORDERS)))
def test_walk_visits_the_same_pools_as_an_edge_search(s: Structure, order: str) -> None:
    g = ResourceGraph(s)
    for name in ("power", "network"):
        graph = edges(g, name)
        for v in graph:
            # networkx treats a node with an edge to itself like any other.
            assert [p.vertex for p in g.walk(v, order=order, hierarchy=name)] == ORDERS[order](graph, v)
    for v in range(s.n):
        tree = nx.DiGraph((s.parent.item(u), u) for u in range(v + 1, s.end.item(v)))
        tree.add_node(v)
        assert [p.vertex for p in g.walk(v, order=order)] == ORDERS[order](tree, v)


@settings(deadline=None)
@given(machines_with_graphs(), st.sampled_from(sorted(ORDERS)), st.integers(0, 4))
def test_pruned_and_sorted_walk_equals_a_walk_without_pruned_pools(s: Structure, order: str, seed: int) -> None:
    g = ResourceGraph(s)
    barred = {v for v in range(s.n) if random.Random(f"{seed} {v}").random() < 0.2}
    for name in ("power", "network"):
        left = edges(g, name)
        left.remove_nodes_from(barred & set(left))
        backwards: nx.DiGraph[int] = nx.DiGraph()
        for v in left:
            backwards.add_edges_from((v, u) for u in sorted(left.successors(v), reverse=True))
            backwards.add_node(v)
        for v in left:
            visited = g.walk(
                v,
                order=order,
                hierarchy=name,
                prune=lambda p: p.vertex in barred,
                sort=backwards_first,
            )
            assert [p.vertex for p in visited] == ORDERS[order](backwards, v)


@settings(deadline=None)
@given(machines_with_graphs(), st.integers(0, 9))
def test_criteria_selections_and_handles_agree_with_the_edges(s: Structure, seed: int) -> None:
    g = busy(s, seed)
    power, network = edges(g, "power"), edges(g, "network")
    for v in range(s.n):
        pool = g.pool(v)
        stands = v in power
        below = nx.descendants(power, v) if stands else set()
        above = nx.ancestors(power, v) if stands else set()
        alone = g.select(np.array([v], np.int32))
        assert set(alone.with_children("power").vertices.tolist()) == below | {v}
        assert set(alone.with_ancestors("power").vertices.tolist()) == above | {v}
        assert [p.vertex for p in pool.children_in("power")] == (list(power.successors(v)) if stands else [])
        assert {p.vertex for p in pool.ancestors_in("power")} == above
        parent = pool.parent_in("power")
        assert (None if parent is None else parent.vertex) == next(iter(power.predecessors(v)) if stands else iter(()), None)
        assert pool.graphs == [name for name, graph in (("power", power), ("network", network)) if v in graph]
        for name, graph in (("power", power), ("network", network)):
            rows = list(g.structure.subsystems[name].rows())
            out = [(b, data) for a, b, data in rows if a == v]
            into = [(a, data) for a, b, data in rows if b == v]
            for direction, expected in (("out", out), ("in", into), ("both", out + into)):
                found = pool.links(name, direction)  # type: ignore[arg-type]  # the loop's word is one of the three
                assert [(p.vertex, data) for p, data in found] == expected
            assert {p.vertex for p, _ in pool.links(name)} == (set(graph.successors(v)) if v in graph else set())
        assert pool.links() == pool.links("power") + pool.links("network")
        uri = next((uri for uri in pool.uris if uri.startswith("power:")), None)
        if uri is not None and leads_to(g, uri, v):
            assert set(g.find(f"under='{uri}'").vertices.tolist()) == below
            assert set(g.find(f"parent='{uri}'").vertices.tolist()) == set(power.successors(v))
            assert [p.vertex for p in g.walk(uri)] == list(nx.dfs_preorder_nodes(power, v))
            assert g.aggregate(uri, at=2) == g.aggregate(v, at=2, hierarchy="power")
    for pattern in ("power:/*", "power:/*/*", "p*:/*"):
        # A star in a glob matches slashes, too.
        tops = [v for v in power if matches(g, v, pattern)]
        expected = set().union(*(nx.descendants(power, v) for v in tops)) if tops else set()
        assert set(g.find(f"under~{pattern}").vertices.tolist()) == expected


def leads_to(g: ResourceGraph, uri: str, v: int) -> bool:
    try:
        return g.vertex(uri) == v
    except UnknownPool:
        return False


def matches(g: ResourceGraph, v: int, pattern: str) -> bool:
    uri = g.structure.auxiliary_uri(g.structure.subsystems["power"], v)
    return uri.count("/") >= pattern.count("/")


# -- by name ----------------------------------------------------------------------------------------------------


@pytest.fixture
def g() -> ResourceGraph:
    """Two racks of three nodes; pdu0 and pdu1 supply a rack's nodes each; switches and a spine link them both ways."""
    return ResourceGraph(demo())


NODES0 = [f"/demo/rack0/node-0-{i}" for i in range(3)]
NODES1 = [f"/demo/rack1/node-1-{i}" for i in range(3)]


def wheres(pools: Iterable[Pool]) -> list[str]:
    return [pool.where for pool in pools]


def test_uri_selects_the_hierarchy_of_a_walk(g: ResourceGraph) -> None:
    assert wheres(g.walk("power:/pdu0")) == ["power:/pdu0", *NODES0]
    assert wheres(g.walk("power:/", order="bfs")) == ["power:/pdu0", "power:/pdu1", *NODES0, *NODES1]
    assert wheres(g.walk("power:/", order="post")) == [*NODES0, "power:/pdu0", *NODES1, "power:/pdu1"]
    assert wheres(g.walk(hierarchy="power")) == wheres(g.walk("power:/"))
    assert wheres(g.walk("power:/", sort=backwards_first, prune=lambda pool: pool.type == "node")) == [
        "power:/pdu1",
        "power:/pdu0",
    ]
    assert wheres(g.walk(NODES0[1], hierarchy="power")) == NODES0[1:2]
    # A handle and a path are in containment, whichever other hierarchies the pool is in.
    assert len(list(g.walk(NODES0[1]))) == len(list(g.walk(g.pool(NODES0[1])))) == 4
    assert len(list(g.walk("power:/pdu0/node-0-1", hierarchy="demo"))) == 4


def test_walk_over_a_cyclic_graph_visits_each_pool_once(g: ResourceGraph) -> None:
    visited = wheres(g.walk("network:spine0", order="bfs"))
    assert visited == ["network:spine0", "network:switch0", "network:switch1", *NODES0, *NODES1]
    assert sorted(wheres(g.walk(NODES0[0], order="post", hierarchy="network"))) == sorted(visited)
    switches = g.walk("network:spine0", prune=lambda pool: pool.type == "node")
    assert wheres(switches) == ["network:spine0", "network:switch0", "network:switch1"]


def test_criteria_take_uris_of_auxiliary_hierarchies(g: ResourceGraph) -> None:
    assert g.find("under=power:/pdu0").paths() == NODES0
    assert g.find("under=power:/pdu0,/demo/rack1 and type=node").paths() == [*NODES0, *NODES1]
    assert g.find("parent=power:/pdu1").paths() == NODES1
    assert g.find("parent~power:/pdu?").paths() == g.find("under=power:/").paths()[:6] == [*NODES0, *NODES1]
    assert g.find("parent=power:/").paths() == ["power:/pdu0", "power:/pdu1"]
    assert len(g.find("under=power:/")) == 8
    assert g.find("uri=network:switch1").paths() == ["network:switch1"]
    found = g.find(f"path={NODES0[1]}")
    assert found.with_ancestors("power").paths() == [NODES0[1], "power:/pdu0"]
    assert g.find("type=pdu and id=1").with_children("power").paths() == [*NODES1, "power:/pdu1"]
    assert g.find("under=power:/pdu0").with_children().paths()[:2] == [NODES0[0], f"{NODES0[0]}/core0"]


def test_totals_of_an_auxiliary_hierarchy(g: ResourceGraph) -> None:
    g.allocate({NODES0[0]: 1, "power:/pdu0": 500}, job="a")
    assert g.aggregate("power:/pdu0") == {"node": 2, "pdu": 4500}
    assert g.aggregate("power:/") == g.aggregate(hierarchy="power") == {"node": 5, "pdu": 9500}
    g.set_state("power:/pdu1", "down")
    assert g.aggregate("power:/pdu1") == {}  # pools that only it supplies take no new work (rule F3)
    assert g.aggregate("power:/pdu1", all=True) == {"node": 0, "pdu": 0}


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda g: g.find("under=network:/spine0"), UsageError, "'network' is a graph but not a hierarchy"),
        (
            lambda g: g.aggregate("network:/spine0"),
            UsageError,
            r"not a hierarchy.*\(hierarchies are demo, power; `fluxres show` lists",
        ),
        (lambda g: g.pool("/demo").children_in("network"), UsageError, "not a hierarchy"),
        (lambda g: g.pool("/demo").parent_in("cooling"), UnknownGraph, "no hierarchy 'cooling'"),
        (lambda g: g.find("all").with_ancestors("network"), UsageError, "not a hierarchy"),
        (lambda g: g.find("all").with_children("cooling"), UnknownGraph, "choose from demo, power"),
        (lambda g: g.walk(hierarchy="cooling"), UnknownGraph, "no hierarchy 'cooling'"),
        (lambda g: g.walk(hierarchy=["power"]), UnknownGraph, "no hierarchy"),
        (lambda g: g.walk("/demo/rack0", hierarchy="power"), UsageError, r"is not in 'power' \(its graphs are demo\)"),
        (lambda g: g.aggregate("power:/pdu0", hierarchy="network"), UsageError, r"is not in 'network' \(.*are power\)"),
        (lambda g: g.walk("power:/pdu7"), UnknownPool, r"no pool 'pdu7'.*\(choose from pdu0, pdu1\)"),
        (lambda g: g.walk(prune="node"), UsageError, "prune: expected a function"),
        (lambda g: list(g.walk(sort=lambda pools: None)), UsageError, "sort: expected an iterable of pools, got None"),
        (lambda g: list(g.walk(sort=lambda pools: [g.root])), UsageError, "sort: expected each of the pools it was given once"),
        (lambda g: list(g.walk(sort=lambda pools: [*pools, *pools])), UsageError, "each of the pools it was given once"),
        (lambda g: g.pool("/demo").links("power", "up"), UsageError, "expected 'out', 'in' or 'both', got 'up'"),
        (lambda g: g.pool("/demo").links("cooling"), UnknownGraph, "choose from power, network"),
    ],
)
def test_invalid_queries_are_explained(
    g: ResourceGraph, ask: Callable[[ResourceGraph], object], error: type[FluxresError], message: str
) -> None:
    with pytest.raises(error, match=message):
        ask(g)


@pytest.mark.parametrize("order", ["pre", "post", "bfs"])
@pytest.mark.parametrize("where", ["/", "power:/", "network:/spine0"])
def test_walk_detects_a_change_of_the_graph(g: ResourceGraph, order: str, where: str) -> None:
    walk = g.walk(where, order=order)
    next(walk)
    g.unlink("/demo/rack1")
    with pytest.raises(StaleHandle, match="changed its structure during this walk"):
        next(walk)


# -- totals ----------------------------------------------------------------------------------------------------


BASES: dict[str | None, tuple[str, int]] = {
    None: ("", 1),
    "W": ("W", 1),
    "kW": ("W", 1000),
    "MiB": ("B", 2**20),
    "GiB": ("B", 2**30),
}
Sums = dict[tuple[str, str], int]


def added_up(g: ResourceGraph, chosen: set[int], at: float) -> Sums:
    """Units free at a moment in watts and bytes, pool by pool; pools that another one supplies add nothing."""
    s, ways = g.structure, Ways(g.structure)
    gives = {v for v in chosen if not s.flags.item(v) & WAY}
    amounts = {s.kind_of(v).type for v in range(s.n) if s.size.item(v) > 1 or s.kind_of(v).unit is not None}
    sums: Sums = {}
    for v in chosen:
        kind = s.kind_of(v)
        draws = set[int]()
        if ways.distributed(kind.type) and kind.type in amounts:
            draws = {u for givers in ways.upstream(v, kind.type) for u in givers} & gives
            mutual = {u for u in draws if v in {w for givers in ways.upstream(u, kind.type) for w in givers}}
            draws = {u for u in draws if u not in mutual or u < v}
        unit, factor = BASES[kind.unit]
        units = 0 if draws or v not in gives else g.pool(v).available(at=at)
        sums[kind.type, unit] = sums.get((kind.type, unit), 0) + units * factor
    return sums


def in_bases(g: ResourceGraph, totals: dict[str, int]) -> Sums:
    sums: Sums = {}
    for name, units in totals.items():
        unit, factor = BASES[g.units[name]]
        key = name.partition("[")[0], unit
        sums[key] = sums.get(key, 0) + units * factor
    return sums


def assert_totals(g: ResourceGraph, where: Any, at: float, chosen: set[int], hierarchy: str | None = None) -> None:
    expected = added_up(g, chosen, at)
    assert in_bases(g, g.aggregate(where, at=at, hierarchy=hierarchy, all=True)) == expected
    found = g.aggregate(where, at=at, hierarchy=hierarchy)
    assert all(found.values())
    assert in_bases(g, found) == {key: units for key, units in expected.items() if units}


@settings(deadline=None, max_examples=60)
@given(machines_with_graphs(), st.integers(0, 9))
def test_hierarchy_totals_are_sums_over_pools(s: Structure, seed: int) -> None:
    g = busy(s, seed)
    power = edges(g, "power")
    for at in (0, 3):
        for v in power:
            assert_totals(g, v, at, nx.descendants(power, v) | {v}, "power")
        assert_totals(g, "/", at, set(power), "power")
        for v in range(s.n):
            assert_totals(g, v, at, set(range(v, s.end.item(v))))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(80))
def test_totals_count_suppliers_once_on_machines_with_power_and_bandwidth(seed: int) -> None:
    g = busy(cases.machine(random.Random(seed), random.Random(seed)), seed)
    s = g.structure
    for v in range(s.n):
        assert_totals(g, v, 1, set(range(v, s.end.item(v))))
    for name in s.hierarchies()[1:]:
        for v in s.subsystems[name].members.tolist():
            assert_totals(g, v, 1, {p.vertex for p in g.walk(v, hierarchy=name)}, name)
