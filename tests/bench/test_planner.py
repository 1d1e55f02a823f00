"""The planner at the size of the largest machines: `pytest tests/bench/test_planner.py -m bench`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fluxres.clock import FOREVER
from fluxres.planner import Planner

pytestmark = pytest.mark.bench

CLUSTER, RACK, NODE, SOCKET, CORE, GPU, MEMORY, NIC = range(8)


def machine(racks: int, nodes: int) -> dict[str, np.ndarray]:
    """Nodes of 2 sockets with 32 cores, 4 GPUs and 8 memory pools of 64 GiB each, and of 4 NICs: 95 pools a node."""
    socket = [SOCKET] + [CORE] * 32 + [GPU] * 4 + [MEMORY] * 8
    types = [NODE, *socket, *socket, *[NIC] * 4]
    parents, ends = [-1], [len(types)]
    for base in (1, 1 + len(socket)):
        parents += [0] + [base] * (len(socket) - 1)
        ends += [base + len(socket), *range(base + 2, base + len(socket) + 1)]
    parents += [0] * 4
    ends += range(len(types) - 3, len(types) + 1)
    node_types, node_parents, node_ends = np.array(types), np.array(parents), np.array(ends)

    rack_size = 1 + nodes * len(types)
    total = 1 + racks * rack_size
    parent, end, type_of = np.zeros(total, np.int32), np.zeros(total, np.int32), np.zeros(total, np.uint16)
    end[0], parent[0] = total, -1
    rack_at = 1 + np.arange(racks) * rack_size
    parent[rack_at], end[rack_at], type_of[rack_at] = 0, rack_at + rack_size, RACK
    node_at = (rack_at[:, None] + 1 + np.arange(nodes) * len(types)).ravel()
    every = node_at[:, None] + np.arange(len(types))
    type_of[every] = node_types
    end[every] = node_at[:, None] + node_ends
    parent[every] = np.where(node_parents < 0, np.repeat(rack_at, nodes)[:, None], node_at[:, None] + node_parents)
    return {"parent": parent, "end": end, "type_of": type_of, "size": np.where(type_of == MEMORY, 64, 1).astype(np.int64)}


@pytest.fixture(scope="module")
def frontier() -> dict[str, np.ndarray]:
    """1,216,074 pools: 80 racks of 160 nodes."""
    return machine(80, 160)


def nodes_of(arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.flatnonzero(arrays["type_of"] == NODE)


@pytest.fixture(scope="module")
def light(frontier: dict[str, np.ndarray]) -> Planner:
    """A hundred nodes, a hundred cores and a hundred pieces of memory in use."""
    planner = Planner(**frontier)
    source = random.Random(1)
    nodes = nodes_of(frontier)
    planner.hold_all(nodes[::128], 1, 0, 3600)
    for node in nodes[1::128].tolist():
        planner.hold(node + 2 + source.randrange(32), 1, 0, source.randrange(100, 3600))
        planner.hold(node + 38 + source.randrange(8), 16, 0, source.randrange(100, 3600))
    return planner


def test_construction(benchmark: Any, frontier: dict[str, np.ndarray]) -> None:
    benchmark(lambda: Planner(**frontier))


def test_first_totals_of_the_machine(benchmark: Any, frontier: dict[str, np.ndarray]) -> None:
    """Includes the tables that are created on first use."""
    total = benchmark.pedantic(lambda planner: planner.totals(0, 0, 1), setup=lambda: ((Planner(**frontier),), {}), rounds=10)
    assert total[CORE] == 80 * 160 * 64


def test_hold_and_release_a_core(benchmark: Any, light: Planner, frontier: dict[str, np.ndarray]) -> None:
    core = int(nodes_of(frontier)[5000]) + 7

    def pair() -> None:
        light.hold(core, 1, 10, 500)
        light.release(core, 1, 10, 500)

    benchmark(pair)


def test_hold_and_release_memory(benchmark: Any, light: Planner, frontier: dict[str, np.ndarray]) -> None:
    memory = int(nodes_of(frontier)[5000]) + 40

    def pair() -> None:
        light.hold(memory, 16, 10, 500)
        light.release(memory, 16, 10, 500)

    benchmark(pair)


@pytest.mark.parametrize("question", ["free", "covered_by", "used", "busy_below"])
def test_one_pool(benchmark: Any, light: Planner, frontier: dict[str, np.ndarray], question: str) -> None:
    node = int(nodes_of(frontier)[5000])
    benchmark(getattr(light, question), node if question == "busy_below" else node + 7, 10, 11)


def test_totals_of_a_rack(benchmark: Any, light: Planner) -> None:
    benchmark(light.totals, 1, 10, 11)


def test_totals_of_the_machine(benchmark: Any, light: Planner) -> None:
    benchmark(light.totals, 0, 10, 11)


def test_totals_with_ten_thousand_nodes_held(benchmark: Any, frontier: dict[str, np.ndarray]) -> None:
    planner = Planner(**frontier)
    planner.hold_all(np.random.default_rng(1).permutation(nodes_of(frontier))[:10_000], 1, 0, FOREVER)
    assert benchmark(planner.totals, 0, 10, 11)[NODE] == 2_800


def test_free_slice_of_the_machine(benchmark: Any, light: Planner, frontier: dict[str, np.ndarray]) -> None:
    benchmark(light.free_slice, 0, len(frontier["parent"]), 10, 11)


def test_hold_all_and_release_all_of_ten_thousand_nodes(benchmark: Any, frontier: dict[str, np.ndarray]) -> None:
    planner = Planner(**frontier)
    nodes = nodes_of(frontier)[:10_000]

    def pair() -> None:
        planner.hold_all(nodes, 1, 10, 500)
        planner.release_all(nodes, 1, 10, 500)

    benchmark(pair)


def workload(nodes: np.ndarray) -> list[tuple[np.ndarray, int, int]]:
    """1,000 jobs of 1 … 512 nodes, at their earliest starts as a simple counter of free nodes would have them."""
    source = random.Random(7)
    free_at = np.zeros(len(nodes), np.int64)
    jobs = []
    for _ in range(1000):
        count, duration = min(int(source.paretovariate(0.7)), 512), source.randrange(60, 86_400)
        chosen = np.argsort(free_at, kind="stable")[:count]
        start = int(free_at[chosen].max())
        free_at[chosen] = start + duration
        jobs.append((nodes[np.sort(chosen)], start, start + duration))
    return jobs


@pytest.fixture(scope="module")
def cluster() -> dict[str, np.ndarray]:
    """10,240 nodes, with their contents."""
    return machine(64, 160)


def test_thousand_jobs_hold_and_release(benchmark: Any, cluster: dict[str, np.ndarray]) -> None:
    jobs = workload(nodes_of(cluster))

    def run() -> None:
        planner = Planner(**cluster)
        for nodes, start, end in jobs:
            planner.hold_all(nodes, 1, start, end)
        benchmark.extra_info["megabytes"] = planner.nbytes / 1e6
        for nodes, start, end in jobs:
            planner.release_all(nodes, 1, start, end)
        assert planner.moments(0, FOREVER) == []

    benchmark.pedantic(run, rounds=3)


@pytest.fixture(scope="module")
def planned(cluster: dict[str, np.ndarray]) -> Planner:
    planner = Planner(**cluster)
    for nodes, start, end in workload(nodes_of(cluster)):
        planner.hold_all(nodes, 1, start, end)
    return planner


def test_window_over_all_rows(benchmark: Any, planned: Planner, cluster: dict[str, np.ndarray]) -> None:
    benchmark(planned.busy, 0, len(cluster["parent"]), 0, FOREVER)


def test_free_of_a_node_over_all_rows(benchmark: Any, planned: Planner, cluster: dict[str, np.ndarray]) -> None:
    benchmark(planned.free, int(nodes_of(cluster)[17]), 0, FOREVER)


def test_earliest_of_five_hundred_nodes(benchmark: Any, planned: Planner, cluster: dict[str, np.ndarray]) -> None:
    demands = [(v, 1) for v in nodes_of(cluster)[:500].tolist()]
    benchmark(planned.earliest, demands, 3600, 0)
