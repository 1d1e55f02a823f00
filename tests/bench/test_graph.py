"""Views and surgery on a million pools: 80 racks of 128 nodes of 96 cores, and a power hierarchy over the nodes.

specs/performance.md has the results, and how to repeat them.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from fluxres.graph import surgery, uuids
from fluxres.graph.audit import check_structure
from fluxres.graph.auxiliary import Subsystem
from fluxres.graph.kinds import Kind, KindTable
from fluxres.graph.structure import Structure
from fluxres.graph.views import ContainmentGraph, SubsystemGraph

pytestmark = pytest.mark.bench

RACKS, NODES, CORES = 80, 128, 96


@pytest.fixture(scope="module")
def big() -> Structure:
    per_node = CORES + 1
    per_rack = NODES * per_node + 1
    n = RACKS * per_rack + 1
    v = np.arange(n)
    rack, in_rack = (v - 1) // per_rack, (v - 1) % per_rack
    node, in_node = (in_rack - 1) // per_node, (in_rack - 1) % per_node
    is_rack = in_rack == 0
    is_node = ~is_rack & (in_node == 0)
    rack_at = 1 + rack * per_rack
    node_at = rack_at + 1 + node * per_node
    number = rack * NODES + node
    columns: dict[str, Any] = {
        "parent": np.where(is_rack, 0, np.where(is_node, rack_at, node_at)),
        "end": np.where(is_rack, rack_at + per_rack, np.where(is_node, node_at + per_node, v + 1)),
        "kind": np.where(is_rack, 1, np.where(is_node, 2, 3)),
        "id": np.where(is_rack, rack, np.where(is_node, number, in_node - 1)),
        "rank": np.where(is_rack, -1, number),
        "size": np.ones(n),
        "serial": v,
        **{name: np.zeros(n) for name in ("state", "flags", "origin")},
    }
    for name, value in (("parent", -1), ("end", n), ("kind", 0), ("id", -1), ("rank", -1)):
        columns[name][0] = value
    kinds = KindTable(
        [Kind("cluster", "big"), Kind("rack", "rack"), Kind("node", "node", name="big${id:05}"), Kind("core", "core")]
    )
    s = Structure(columns, kinds, origins=[uuids.new_origin()])
    nodes = np.flatnonzero(columns["kind"] == 2).astype(np.int32)
    s.subsystems["power"] = Subsystem("power", True, s.parent[nodes], nodes)
    assert check_structure(s) == []
    return s


def test_making_the_view(benchmark: Any, big: Structure) -> None:
    assert isinstance(benchmark(lambda: ContainmentGraph(big)), nx.DiGraph)


def test_successors_of_a_node(benchmark: Any, big: Structure) -> None:
    graph: Any = ContainmentGraph(big)
    assert benchmark(lambda: len(list(graph.successors(2)))) == CORES


def test_predecessor_of_a_core(benchmark: Any, big: Structure) -> None:
    graph: Any = ContainmentGraph(big)
    assert benchmark(lambda: list(graph.predecessors(900_000)))


def test_iterating_over_all_edges(benchmark: Any, big: Structure) -> None:
    graph: Any = ContainmentGraph(big)
    assert benchmark.pedantic(lambda: sum(1 for _ in graph.edges), rounds=1) == big.n - 1


def test_descendants_of_a_rack(benchmark: Any, big: Structure) -> None:
    graph: Any = ContainmentGraph(big)
    assert len(benchmark(lambda: nx.descendants(graph, 1))) == big.end[1] - 2


def test_is_arborescence(benchmark: Any, big: Structure) -> None:
    assert benchmark.pedantic(lambda: nx.is_arborescence(ContainmentGraph(big)), rounds=1)


def test_data_of_a_core(benchmark: Any, big: Structure) -> None:
    graph: Any = ContainmentGraph(big)
    assert benchmark(lambda: graph.nodes[900_000])["type"] == "core"


def test_neighbours_in_an_auxiliary_graph(benchmark: Any, big: Structure) -> None:
    graph: Any = SubsystemGraph(big, big.subsystem("power"))
    assert benchmark(lambda: len(graph.adj[1])) == NODES


def test_extract_a_rack(benchmark: Any, big: Structure) -> None:
    assert benchmark(lambda: surgery.extract(big, 1))[0].tree_end == big.end[1]


def test_extract_a_rack_pruned_and_cut(benchmark: Any, big: Structure) -> None:
    length = big.end.item(1) - 1
    keep = np.arange(length) % 7 != 3
    sizes = np.ones(length, np.int64)
    benchmark(lambda: surgery.extract(big, 1, keep, sizes))


def test_extract_the_pools_of_a_job(benchmark: Any, big: Structure) -> None:
    keep = np.zeros(big.n, np.bool_)
    keep[5:900_000:97] = True
    benchmark(lambda: surgery.extract_many(big, keep))


def test_duplicate(benchmark: Any, big: Structure) -> None:
    assert benchmark(lambda: surgery.duplicate(big)).n == big.n


def test_unlink_a_rack(benchmark: Any, big: Structure) -> None:
    assert benchmark(lambda: surgery.unlink(big, 1))[0].tree_end == big.n - big.end[1] + 1


def test_merge_a_rack(benchmark: Any, big: Structure) -> None:
    part, rest = surgery.extract(big, 1)[0], surgery.unlink(big, 1)[0]
    assert benchmark(lambda: surgery.merge(rest, part))[0].n == big.n


def test_merge_two_halves(benchmark: Any, big: Structure) -> None:
    first = np.zeros(big.n, np.bool_)
    first[: big.end.item(1) * 40] = True
    halves = [surgery.extract_many(big, mask)[0] for mask in (first, ~first)]
    assert benchmark(lambda: surgery.merge(*halves))[0].n == big.n


def test_audit(benchmark: Any, big: Structure) -> None:
    assert benchmark(lambda: check_structure(big)) == []
