"""The views are networkx graphs: algorithms give the same results as on a graph built by hand."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from fluxres.errors import StaleHandle, UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.structure import Structure
from fluxres.graph.views import ContainmentGraph, SubsystemGraph, node_data
from fluxres.model import ResourceGraph
from tests.graph.builders import Node, build, demo, machines

S = demo(2, 2, 2)
NODE0, NODE3 = S.vertex("/demo/rack0/node-0-0"), S.vertex("/demo/rack1/node-1-1")


def containment(s: Structure = S) -> ContainmentGraph:
    return ContainmentGraph(s)


def subsystem(name: str, s: Structure = S) -> SubsystemGraph:
    return SubsystemGraph(s, s.subsystem(name))


def by_hand(view: Any) -> Any:
    """The same graph, built edge by edge from the columns."""
    graph = nx.DiGraph(name=view.graph["name"])
    s = view.structure
    if isinstance(view, SubsystemGraph):
        members = sorted({int(u) for ends in (view.subsystem.src, view.subsystem.dst) for u in ends})
        graph.add_nodes_from((v, dict(node_data(s, v))) for v in members)
        graph.add_edges_from(view.subsystem.rows())
    else:
        graph.add_nodes_from((v, dict(node_data(s, v))) for v in range(s.tree_end))
        edges = [(s.parent.item(v), v) for v in range(1, s.tree_end)]
        graph.add_edges_from(edges, subsystem="containment", type="contains")
    return graph


VIEWS = [
    pytest.param(containment, id="containment"),
    *(pytest.param(lambda n=n: subsystem(n), id=n) for n in ("power", "network")),
]

ALGORITHMS: dict[str, Callable[[Any], Any]] = {
    "is_arborescence": nx.is_arborescence,
    "is_tree": nx.is_tree,
    "is_forest": nx.is_forest,
    "is_dag": nx.is_directed_acyclic_graph,
    "number_of_nodes": lambda g: (len(g), g.number_of_nodes(), g.order()),
    "number_of_edges": lambda g: (g.number_of_edges(), g.size()),
    "nodes": lambda g: list(g.nodes),
    "node data": lambda g: dict(g.nodes(data=True)),
    "one attribute": lambda g: dict(g.nodes(data="type")),
    "edges": lambda g: list(g.edges),
    "edge data": lambda g: list(g.edges(data=True)),
    "in edges": lambda g: sorted(g.in_edges),
    "edges of some": lambda g: list(g.edges([NODE0, NODE3])),
    "degrees": lambda g: (dict(g.degree), dict(g.in_degree), dict(g.out_degree)),
    "weighted degrees": lambda g: (dict(g.degree(weight="capacity")), g.in_degree(NODE0), dict(g.out_degree([NODE0]))),
    "adjacency": lambda g: [(v, {u: dict(d) for u, d in nbrs.items()}) for v, nbrs in g.adjacency()],
    "successors": lambda g: {v: list(g.successors(v)) for v in g},
    "predecessors": lambda g: {v: sorted(g.predecessors(v)) for v in g},
    "has_edge": lambda g: [(u, v) for u in g for v in g if g.has_edge(u, v)],
    "get_edge_data": lambda g: [g.get_edge_data(u, v) for u in g for v in g],
    "to_dict_of_lists": nx.to_dict_of_lists,
    "to_dict_of_dicts": nx.to_dict_of_dicts,
    "descendants": lambda g: {v: nx.descendants(g, v) for v in g},
    "ancestors": lambda g: {v: nx.ancestors(g, v) for v in g},
    "bfs_layers": lambda g: list(nx.bfs_layers(g, [next(iter(g))])),
    "bfs_tree": lambda g: list(nx.bfs_tree(g, next(iter(g))).edges),
    "dfs_preorder_nodes": lambda g: list(nx.dfs_preorder_nodes(g)),
    "dfs_postorder_nodes": lambda g: list(nx.dfs_postorder_nodes(g)),
    "components": lambda g: sorted(map(sorted, nx.weakly_connected_components(g))),
    "strong components": lambda g: sorted(map(sorted, nx.strongly_connected_components(g))),
    "condensation": lambda g: list(nx.condensation(g).edges),
    "shortest paths": lambda g: dict(nx.all_pairs_shortest_path_length(g)),
    "dijkstra": lambda g: dict(nx.all_pairs_dijkstra_path_length(g)),
    "floyd_warshall": lambda g: {u: dict(d) for u, d in nx.floyd_warshall(g).items()},
    "betweenness": nx.betweenness_centrality,
    "closeness": nx.closeness_centrality,
    "core_number": nx.core_number,
    "degree_histogram": nx.degree_histogram,
    "isolates": lambda g: list(nx.isolates(g)),
    "selfloops": lambda g: list(nx.selfloop_edges(g)),
    "clustering": nx.clustering,
    "diameter": lambda g: nx.diameter(g.to_undirected().subgraph(max(nx.connected_components(g.to_undirected()), key=len))),
    "minimum_spanning_tree": lambda g: sorted(nx.minimum_spanning_tree(g.to_undirected()).edges),
    "is_bipartite": nx.is_bipartite,
    "str": lambda g: str(g).split(" ", 1)[1],
    "edge attributes": lambda g: nx.get_edge_attributes(g, "type"),
    "node attributes": lambda g: nx.get_node_attributes(g, "path"),
    "transitive_closure": lambda g: sorted(nx.transitive_closure(g).edges),
    "line_graph": lambda g: sorted(nx.line_graph(g).edges),
    "complement": lambda g: nx.complement(g).number_of_edges(),
    "quotient": lambda g: nx.quotient_graph(g, lambda u, v: g.nodes[u]["type"] == g.nodes[v]["type"]).number_of_edges(),
    "relabel": lambda g: sorted(nx.relabel_nodes(g, {v: g.nodes[v]["uuid"] for v in g}).edges),
    "relabel to integers": lambda g: list(nx.convert_node_labels_to_integers(g, first_label=100).edges(data=True)),
    "compose": lambda g: sorted(nx.compose(g, nx.path_graph(4, create_using=nx.DiGraph)).edges),
    "disjoint_union": lambda g: sorted(nx.disjoint_union(g, g).edges),
    "node_link_data": lambda g: nx.node_link_data(g, edges="edges"),
    "numpy": lambda g: nx.to_numpy_array(g, weight="capacity").tolist(),
    "generate_adjlist": lambda g: list(nx.generate_adjlist(g)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS.keys())
def test_algorithms_agree_with_a_graph_built_by_hand(view: Callable[[], Any], algorithm: Callable[[Any], Any]) -> None:
    assert algorithm(view()) == algorithm(by_hand(view()))


DERIVED: dict[str, Callable[[Any], Any]] = {
    "copy": lambda g: g.copy(),
    "copy as view": lambda g: g.copy(as_view=True),
    "reverse": lambda g: g.reverse(),
    "reverse as view": lambda g: g.reverse(copy=False),
    "to_directed": lambda g: g.to_directed(),
    "to_directed as view": lambda g: g.to_directed(as_view=True),
    "to_undirected": lambda g: g.to_undirected(),
    "to_undirected as view": lambda g: g.to_undirected(as_view=True),
    "reciprocal": lambda g: g.to_undirected(reciprocal=True),
    "subgraph": lambda g: g.subgraph([NODE0, NODE3, *range(NODE0)]),
    "subgraph of a subgraph": lambda g: g.subgraph(range(NODE3)).subgraph(range(NODE0 + 3)),
    "copy of a subgraph": lambda g: g.subgraph(range(NODE0 + 1)).copy(),
    "edge_subgraph": lambda g: g.edge_subgraph(list(g.edges)[::2]),
    "subgraph_view": lambda g: nx.subgraph_view(g, filter_node=lambda v: v % 3, filter_edge=lambda u, v: v % 2 == 0),
    "restricted_view": lambda g: nx.restricted_view(g, [NODE0], list(g.edges)[:2]),
    "DiGraph": nx.DiGraph,
    "Graph": nx.Graph,
    "MultiDiGraph": nx.MultiDiGraph,
    "node_link_graph": lambda g: nx.node_link_graph(json.loads(json.dumps(nx.node_link_data(g, edges="links"))), edges="links"),
    "its class on a graph": lambda g: type(g)(nx.path_graph(3)),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED.keys())
def test_derived_graphs_equal_those_of_a_graph_built_by_hand(view: Callable[[], Any], derive: Callable[[Any], Any]) -> None:
    got, expected = derive(view()), derive(by_hand(view()))
    assert got.is_directed() == expected.is_directed()
    assert got.is_multigraph() == expected.is_multigraph()
    assert nx.utils.graphs_equal(got, expected)
    assert list(got.nodes(data=True)) == list(expected.nodes(data=True))


@pytest.mark.parametrize("view", VIEWS)
def test_copies_belong_to_the_user(view: Callable[[], Any]) -> None:
    for made in (view().copy(), view().reverse(), view().to_undirected(), view().subgraph([NODE0]).copy()):
        made.add_edge(NODE0, "mine")
        made.nodes[NODE0]["mine"] = True
        assert made.has_edge(NODE0, "mine")
        assert not nx.is_frozen(made)
    assert "mine" not in view().nodes[NODE0]


@given(machines())
def test_view_of_any_tree_equals_one_built_by_hand(s: Structure) -> None:
    view = containment(s)
    assert nx.utils.graphs_equal(view, by_hand(view))
    assert nx.is_arborescence(view)
    assert list(nx.dfs_preorder_nodes(view, 0)) == list(range(s.n))
    assert [nx.shortest_path_length(view, 0, v) for v in view] == s.depth.tolist()


def test_common_ancestors() -> None:
    tree = containment()
    core = S.vertex("/demo/rack0/node-0-1/core1")
    assert nx.lowest_common_ancestor(tree, NODE0, core) == S.vertex("/demo/rack0")
    assert nx.lowest_common_ancestor(tree, core, NODE3) == 0
    expected = dict(nx.all_pairs_lowest_common_ancestor(by_hand(tree)))
    assert dict(nx.all_pairs_lowest_common_ancestor(tree)) == expected
    assert dict(nx.tree_all_pairs_lowest_common_ancestor(tree)) == dict(nx.tree_all_pairs_lowest_common_ancestor(by_hand(tree)))


def test_topological_orders() -> None:
    tree = containment()
    assert list(nx.topological_sort(tree)) == list(nx.topological_sort(by_hand(tree)))
    path = nx.dag_longest_path(tree)
    assert len(path) == 4
    assert all(S.parent.item(v) == u for u, v in pairwise(path))
    assert nx.shortest_path(tree, 0, NODE0) == [0, S.vertex("/demo/rack0"), NODE0]
    assert nx.to_prufer_sequence(nx.convert_node_labels_to_integers(tree.to_undirected()))


def test_flow_through_a_network_with_capacities() -> None:
    network = subsystem("network")
    value, flow = nx.maximum_flow(network, NODE0, NODE3)
    assert value == 100.0
    assert flow[NODE0] == {S.tree_end + 2: 100.0}
    # From one rack into the other: two nodes could take 200, the link from the spine 150.
    source = S.parent.item(S.vertex("/demo/rack0/node-0-0"))
    assert network.nodes[S.tree_end + 2]["name"] == "switch0"
    wide = network.copy()
    wide.add_edges_from((v, "sink", {"capacity": 1000.0}) for v in (NODE3, S.vertex("/demo/rack1/node-1-0")))
    cut, (near, far) = nx.minimum_cut(wide, S.tree_end + 2, "sink")
    assert cut == 150.0
    assert source not in near | far


def test_parallel_edges_add_up_and_are_all_shown() -> None:
    edges = [("/c/node0", "/c/node1", "link", 10.0), ("/c/node0", "/c/node1", "backup", 5.0), ("/c/node1", "/c/node0", "link")]
    s = build(Node("cluster", basename="c", children=[Node("node", 0), Node("node", 1)]), graphs={"network": edges})
    network = subsystem("network", s)
    assert network.number_of_edges() == 2
    assert network[1][2] == {
        "subsystem": "network",
        "type": "link",
        "capacity": 15.0,
        "parallel": (
            {"subsystem": "network", "type": "link", "capacity": 10.0},
            {"subsystem": "network", "type": "backup", "capacity": 5.0},
        ),
    }
    assert network.pred[2][1] == network.succ[1][2]
    assert network[2][1] == {"subsystem": "network", "type": "link"}
    assert nx.maximum_flow_value(network, 1, 2) == 15.0


def test_node_data_equals_pool_data() -> None:
    s = demo(1, 1, 1)
    s.set_tag([2], "owner", "ops")
    s.set_state([2], "drain")
    tree = containment(s)
    assert tree.nodes[2] == {
        "type": "node", "name": "node-0-0", "basename": "node", "id": 0, "size": 1, "unit": None, "rank": 0, "state": "drain",
        "exclusive_only": False, "uuid": s.uuid(2), "path": "/demo/rack0/node-0-0", "properties": {}, "tags": {"owner": "ops"},
    }  # fmt: skip
    assert (tree.nodes[0]["id"], tree.nodes[0]["rank"]) == (None, None)
    assert subsystem("power", s).nodes[s.vertex("power:/pdu0")]["path"] == "power:/pdu0"
    assert tree.name == "demo"


MUTATIONS: dict[str, Callable[[Any], Any]] = {
    "add_node": lambda g: g.add_node(99),
    "add_nodes_from": lambda g: g.add_nodes_from([99]),
    "add_edge": lambda g: g.add_edge(0, 99),
    "add_edges_from": lambda g: g.add_edges_from([(0, 99)]),
    "add_weighted_edges_from": lambda g: g.add_weighted_edges_from([(0, 99, 1.0)]),
    "remove_node": lambda g: g.remove_node(NODE0),
    "remove_nodes_from": lambda g: g.remove_nodes_from([NODE0]),
    "remove_edge": lambda g: g.remove_edge(0, 1),
    "remove_edges_from": lambda g: g.remove_edges_from([(0, 1)]),
    "clear": lambda g: g.clear(),
    "clear_edges": lambda g: g.clear_edges(),
    "update": lambda g: g.update(edges=[(0, 99)]),
    "node data": lambda g: g.nodes[NODE0].__setitem__("mine", 1),
    "set_node_attributes": lambda g: nx.set_node_attributes(g, 1, "mine"),
    "set_edge_attributes": lambda g: nx.set_edge_attributes(g, 1, "mine"),
    "edge data": lambda g: next(iter(g.edges(data=True)))[2].update(mine=1),
    "relabel in place": lambda g: nx.relabel_nodes(g, {NODE0: "x"}, copy=False),
    "graph data": lambda g: g.graph.update(mine=1),
    "name": lambda g: setattr(g, "name", "mine"),
    "tags": lambda g: g.nodes[NODE0]["tags"].update(mine="1"),
    "properties": lambda g: g.nodes[NODE0]["properties"].__setitem__("mine", 1),
    "node mapping": lambda g: g._node.__setitem__(NODE0, {}),
    "successors": lambda g: g._adj[NODE0].pop(1, None),
    "predecessors": lambda g: g._pred[NODE0].clear(),
    "remove_node_attributes": lambda g: nx.remove_node_attributes(g, "type"),
    "add_cycle": lambda g: nx.add_cycle(g, [1, 2, 3]),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS.keys())
def test_changing_a_view_is_refused_with_a_hint(view: Callable[[], Any], mutate: Callable[[Any], Any]) -> None:
    graph = view()
    before = by_hand(graph)
    with pytest.raises(UsageError, match=r"read-only view of the machine .* merge, unlink or add_edge .* copy\(\)"):
        mutate(graph)
    assert nx.utils.graphs_equal(graph, before)


@pytest.mark.parametrize("view", VIEWS)
def test_keys_are_looked_up_as_in_a_dictionary(view: Callable[[], Any]) -> None:
    graph = view()
    assert np.int64(NODE0) in graph
    assert dict(graph.nodes[np.int32(NODE0)]) == dict(graph.nodes[NODE0])
    for stranger in (-1, S.n, "core0", None, 2.5, [1], (0, 1), 10**30):
        assert stranger not in graph
        assert not graph.has_edge(0, stranger)
    for mapping in (graph.nodes, graph.adj, graph.pred):
        with pytest.raises(KeyError):
            mapping[S.n]
    with pytest.raises(KeyError):
        graph.adj[NODE0][NODE0]
    with pytest.raises(nx.NetworkXError):
        list(graph.successors(S.n))


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_digraphs_that_survive_pickling_and_deep_copies(view: Callable[[], Any]) -> None:
    graph = view()
    assert isinstance(graph, nx.DiGraph)
    for made in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert type(made) is type(graph)
        assert nx.utils.graphs_equal(made, graph)
    assert nx.is_frozen(graph)


def test_data_of_parallel_edges_is_read_only() -> None:
    s = demo(1, 1, 1)
    s.subsystems["network"] = Subsystem("network", False, np.array([1, 1], np.int32), np.array([2, 2], np.int32))
    edge = subsystem("network", s).edges[1, 2]
    assert [dict(data) for data in edge["parallel"]] == [{"subsystem": "network", "type": "link"}] * 2
    with pytest.raises(UsageError, match="read-only view"):
        edge["parallel"][0]["mine"] = 1
    with pytest.raises(AttributeError):
        edge["parallel"].append({})


def test_copies_have_separate_tags() -> None:
    s = demo(1, 1, 1)
    s.set_tag([1], "owner", "ops")
    view = containment(s)
    for made in (view.copy(), view.reverse(), copy.deepcopy(view).copy(), view.subgraph([0, 1]).copy()):
        made.nodes[1]["tags"]["owner"] = "me"
        made.graph["mine"] = True
    assert dict(view.nodes[1]["tags"]) == {"owner": "ops"}
    assert view.nodes[1]["exclusive_only"] is False


LOOKS: dict[str, Callable[[Any, int], Any]] = {
    "len": lambda g, v: len(g),
    "nodes": lambda g, v: list(g),
    "is in": lambda g, v: v in g,
    "node": lambda g, v: g.nodes[v],
    "edges": lambda g, v: list(g.edges),
    "successors": lambda g, v: list(g.successors(v)),
    "predecessors": lambda g, v: list(g.predecessors(v)),
    "search": nx.descendants,
    "copy": lambda g, v: g.copy(),
    "subgraph": lambda g, v: list(g.subgraph([v]).edges),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
@pytest.mark.parametrize("name", ["containment", "power", "network"])
def test_view_of_an_earlier_generation_is_stale(look: Callable[[Any, int], Any], name: str) -> None:
    g = ResourceGraph(demo(2, 2, 2))
    view: Any = g.containment if name == "containment" else g.subsystem(name)
    neighbours = view.adj[NODE0], view.pred[NODE0]
    look(view, NODE0)
    g.unlink("/demo/rack1")
    with pytest.raises(StaleHandle, match=r"before the graph changed its structure .ask the graph for the view again"):
        look(view, NODE0)
    for kept in neighbours:
        with pytest.raises(StaleHandle):
            list(kept)
    look(g.containment if name == "containment" else g.subsystem(name), NODE0)


def test_view_is_stale_after_a_merge_or_destroy() -> None:
    g = ResourceGraph(demo(2, 2, 2))
    part = g.copy("/demo/rack0")
    g.unlink("/demo/rack0")
    view = g.containment
    g.set_state("/demo/rack1", "down")
    assert view.nodes[g.vertex("/demo/rack1")]["state"] == "down"
    g.merge(part)
    with pytest.raises(StaleHandle):
        len(view)
    view = g.containment
    g.destroy()
    with pytest.raises(StaleHandle):
        len(view)


def test_view_shows_present_states_and_tags() -> None:
    s = demo(1, 1, 1)
    tree = containment(s)
    assert tree.nodes[1]["state"] == "up"
    s.set_state([1], "down")
    assert tree.nodes[1]["state"] == "down"
