"""Frequent operations of a scheduler on the El Capitan file: lookup, allocate and free, totals, search, copy.

specs/performance.md has the targets.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import fluxres

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module")
def g() -> fluxres.ResourceGraph:
    graph = fluxres.load("data/clusters/el-capitan.yaml")
    graph.aggregate()
    return graph


@pytest.fixture(scope="module")
def paths(g: fluxres.ResourceGraph) -> list[str]:
    """5,000 paths of pools anywhere in the machine."""
    source = random.Random(1)
    return [g.structure.path(source.randrange(g.structure.tree_end)) for _ in range(5_000)]


def test_pool_by_path(benchmark: Any, g: fluxres.ResourceGraph, paths: list[str]) -> None:
    some = itertools.cycle(paths)
    benchmark(lambda: g.pool(next(some)))


def test_allocate_and_free_of_one_pool(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    core = g.pool(g.find("type=core").paths()[-1])

    def pair() -> None:
        core.allocate(1, "j1", 0, 3600)
        core.free("j1")

    benchmark(pair)


def test_aggregate_of_a_rack(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    rack = g.root.children[3]
    assert benchmark(lambda: g.aggregate(rack))["node"] > 1


def test_aggregate_of_a_rack_with_jobs_on_it(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    rack = g.root.children[4]
    nodes = [p for p in g.walk(rack, prune=lambda p: p.type == "core") if p.type == "node"]
    g.allocate(nodes[::3], job="busy")
    benchmark(lambda: g.aggregate(rack))
    g.free("busy")


def test_copy_of_a_rack(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    rack = g.root.children[5]
    assert len(benchmark(lambda: g.copy(rack))) > 1_000


def test_find_by_type_and_property(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    name = next(iter(g.find("type=node"))).properties
    criteria = f"type=node and property={next(iter(name))}" if name else "type=node"
    assert len(benchmark(lambda: g.find(criteria))) > 10_000


def test_find_by_free_amount(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    benchmark(lambda: g.find("type=core and available>=1"))


def test_allocate_and_free_of_64_nodes(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    nodes = list(g.find("type=node"))[:64]

    def pair() -> None:
        g.allocate(nodes, job="j1", start=0, end=3600)
        g.free("j1")

    benchmark(pair)


def test_networkx_view(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    assert len(benchmark(lambda: g.containment)) > 1_000_000


def test_all_audits(benchmark: Any, g: fluxres.ResourceGraph) -> None:
    assert benchmark.pedantic(g.check, rounds=2) == []
