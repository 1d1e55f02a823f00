"""Matching on the machines of the benchmark, from the text of a request to that of R.

Run it with `pytest tests/bench/test_match.py -m bench`; `match_table.py` prints the same operations next to Fluxion's figures.
"""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.model import ResourceGraph
from tests.bench import machines, match_measures
from tests.bench.match_measures import Column

pytestmark = pytest.mark.bench

NODES = 10_240
TEXTS = machines.documents(NODES)
HOUR_S = 3600


@pytest.fixture(scope="module", params=machines.SHAPES)
def idle(request: pytest.FixtureRequest) -> ResourceGraph:
    return ResourceGraph(machines.machine(request.param, NODES))


@pytest.fixture(scope="module")
def busy() -> ResourceGraph:
    """The queue of 1,000 jobs, planned."""
    graph = ResourceGraph(machines.machine("rack", NODES))
    match_measures.queue(graph, Column("rack", NODES, "first"), machines.queue(NODES, 1000))
    return graph


@pytest.mark.parametrize("policy", ["first", "low", "high", "locality", "variation", "pack", "spread"])
@pytest.mark.parametrize("what", ["1 core", "8 cores + 1 GPU", "1 node", "64 nodes"])
def test_allocate_on_an_idle_machine(benchmark: Any, idle: ResourceGraph, what: str, policy: str) -> None:
    def free() -> None:
        if idle.jobs():
            idle.free("job")

    r = benchmark.pedantic(match_measures.allocate, args=(idle, TEXTS[what], policy), setup=free, rounds=300)
    free()
    assert r.startswith(b'{"version":1')


@pytest.mark.parametrize("what", ["1 core", "64 nodes"])
def test_allocate_and_free(benchmark: Any, idle: ResourceGraph, what: str) -> None:
    def there_and_back() -> None:
        match_measures.allocate(idle, TEXTS[what], "first")
        idle.free("job")

    benchmark(there_and_back)


def test_impossible_request(benchmark: Any, idle: ResourceGraph) -> None:
    assert not benchmark(idle.satisfiable, TEXTS["N+1 nodes"])


@pytest.mark.parametrize("nodes", [16, 128, 1024, 4096, 10_240])
def test_a_queue_of_a_thousand(benchmark: Any, nodes: int) -> None:
    jobs = machines.queue(nodes, 1000)

    def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (ResourceGraph(machines.machine("rack", nodes)), Column("rack", nodes, "first"), jobs), {}

    benchmark.pedantic(match_measures.queue, setup=setup, rounds=2)


@pytest.mark.parametrize("what", ["1 core", "1 node", "64 nodes"])
def test_earliest_behind_a_queue(benchmark: Any, busy: ResourceGraph, what: str) -> None:
    assert benchmark(busy.earliest, TEXTS[what], 0, HOUR_S) is not None


@pytest.mark.parametrize("what", ["1 core", "1 node", "64 nodes"])
def test_reserve_and_free_behind_a_queue(benchmark: Any, busy: ResourceGraph, what: str) -> None:
    def there_and_back() -> None:
        busy.allocate_orelse_reserve(TEXTS[what], job="late").R()
        busy.free("late")

    benchmark(there_and_back)
