"""Hierarchies in pre-order, compared with networkx on the same edges."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError, UnknownGraph, UsageError
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.forest import Forest
from fluxres.graph.structure import Structure
from tests.graph.builders import Node, build, demo, machines_with_graphs


def digraph(s: Structure, name: str | None) -> nx.DiGraph[int]:
    """The hierarchy edge by edge; children in the order of the edges."""
    made: nx.DiGraph[int] = nx.DiGraph()
    if name is None:
        made.add_nodes_from(range(s.n))
        made.add_edges_from((s.parent.item(v), v) for v in range(s.n) if s.parent.item(v) >= 0)
    else:
        graph = s.subsystems[name]
        made.add_nodes_from(graph.members.tolist())
        made.add_edges_from(zip(graph.src.tolist(), graph.dst.tolist(), strict=True))
    return made


@given(machines_with_graphs(), st.data())
def test_forest_agrees_with_a_search_over_its_edges(s: Structure, data: st.DataObject) -> None:
    tops = np.array(sorted(data.draw(st.sets(st.integers(0, s.n - 1)))), np.int32)
    for name in (None, "power"):
        forest, graph = s.forest(name), digraph(s, name)
        assert len(forest) == len(graph)
        assert forest.roots.tolist() == [v for v in sorted(graph) if not graph.in_degree(v)]
        for v in range(s.n):
            stands = v in graph
            assert (v in forest) == stands
            assert forest.children(v).tolist() == (list(graph.successors(v)) if stands else [])
            above = list(graph.predecessors(v)) if stands else []
            assert forest.parent(v) == (above[0] if above else -1)
            ancestors = nx.ancestors(graph, v) if stands else set()
            assert set(forest.ancestors(v)) == ancestors
            assert forest.ancestors(v) == sorted(ancestors, key=lambda u: -len(nx.ancestors(graph, u)))
        assert forest.parents(tops).tolist() == [forest.parent(v) for v in tops.tolist()]
        here = [v for v in tops.tolist() if v in graph]
        below = set().union(*(nx.descendants(graph, v) for v in here)) if here else set()
        above_all = set().union(*(nx.ancestors(graph, v) for v in here)) if here else set()
        assert np.flatnonzero(forest.below(tops)).tolist() == sorted(below)
        assert np.flatnonzero(forest.with_below(tops)).tolist() == sorted(below | set(here))
        assert forest.with_above(tops).tolist() == sorted(above_all | set(tops.tolist()))


def test_siblings_are_in_the_order_of_their_edges() -> None:
    nodes = [Node("node", i) for i in range(3)]
    backwards = [("pdu", f"/c/node{i}") for i in (2, 0, 1)]
    s = build(Node("cluster", basename="c", children=nodes), Node("pdu"), graphs={"power": backwards}, hierarchies=["power"])
    assert s.forest("power").children(4).tolist() == [3, 1, 2]


def test_hierarchy_is_named_and_laid_out_once() -> None:
    s = demo()
    assert s.forest() is s.forest("demo") is s.forest("containment")
    assert s.forest("power") is s.forest("power")
    assert s.hierarchies() == ["demo", "power"]
    with pytest.raises(
        UsageError,
        match=r"'network' is a graph but not a hierarchy.*\(hierarchies are demo, power; `fluxres show` lists the edges",
    ):
        s.forest("network")
    with pytest.raises(UnknownGraph, match=r"no hierarchy 'cooling' \(choose from demo, power\)"):
        s.forest("cooling")


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [([0, 1], [2, 2], "vertex 2 has two parents"), ([0, 1], [1, 0], "has a cycle"), ([2, 0, 1], [0, 1, 0], "two parents")],
)
def test_graph_that_is_not_a_forest_is_refused_without_hanging(src: list[int], dst: list[int], message: str) -> None:
    subsystem = Subsystem("power", True, np.array(src, np.int32), np.array(dst, np.int32))
    with pytest.raises(InputError, match=message):
        Forest.auxiliary(subsystem, 3)


def test_empty_hierarchy_has_no_members() -> None:
    none = np.zeros(0, np.int32)
    forest = Forest.auxiliary(Subsystem("power", True, none, none), 3)
    pools = np.arange(3, dtype=np.int32)
    assert (len(forest), 0 in forest, forest.roots.tolist()) == (0, False, [])
    assert forest.parents(pools).tolist() == [-1, -1, -1]
    assert not forest.with_below(pools).any()
    assert forest.with_above(pools).tolist() == [0, 1, 2]
