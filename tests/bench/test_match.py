"""Matching on the machines of the benchmark: `pytest tests/bench/test_match.py -m bench`; `match_table.py` prints all of it."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.match import Matcher
from fluxres.planner.planner import Planner
from tests.bench import machines
from tests.bench.match_table import HOUR, fresh, record, run_queue

pytestmark = pytest.mark.bench

NODES = 10_240


@pytest.fixture(scope="module", params=machines.SHAPES)
def idle(request: pytest.FixtureRequest) -> Matcher:
    return fresh(request.param, NODES)[0]


@pytest.fixture(scope="module")
def busy() -> tuple[Matcher, Planner]:
    """The queue of 1,000 jobs, planned."""
    matcher, planner = fresh("rack", NODES)
    run_queue(matcher, planner, machines.queue(NODES, 1000), "first")
    return matcher, planner


@pytest.mark.parametrize("policy", ["first", "high", "locality", "variation", "pack"])
@pytest.mark.parametrize("what", ["1 core", "8 cores + 1 GPU", "1 node", "64 nodes"])
def test_match_on_an_idle_machine(benchmark: Any, idle: Matcher, what: str, policy: str) -> None:
    request = {
        "1 core": machines.bundle(1),
        "8 cores + 1 GPU": machines.bundle(8, 1),
        "1 node": machines.exclusive_nodes(1),
        "64 nodes": machines.exclusive_nodes(64),
    }[what]
    assert benchmark(idle.match, request, 0, HOUR, policy) is not None


def test_what_can_never_be(benchmark: Any, idle: Matcher) -> None:
    assert not benchmark(idle.satisfiable, machines.exclusive_nodes(NODES + 1))


@pytest.mark.parametrize("nodes", [16, 128, 1024, 4096, 10_240])
def test_a_queue_of_a_thousand(benchmark: Any, nodes: int) -> None:
    def setup() -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (*fresh("rack", nodes), machines.queue(nodes, 1000), "first"), {}

    taken, _ = benchmark.pedantic(run_queue, setup=setup, rounds=2)
    assert len(taken) == 1000


@pytest.mark.parametrize("what", ["1 core", "16 nodes"])
def test_earliest_after_a_queue(benchmark: Any, busy: tuple[Matcher, Planner], what: str) -> None:
    request = machines.bundle(1) if what == "1 core" else machines.exclusive_nodes(16)
    found = benchmark(busy[0].earliest, request, HOUR, 0)
    assert found is not None


def test_a_node_given_and_taken_back(benchmark: Any, busy: tuple[Matcher, Planner]) -> None:
    matcher, planner = busy
    request = machines.exclusive_nodes(1)

    def there_and_back() -> None:
        found = matcher.earliest(request, HOUR, 0)
        assert found is not None
        record(planner, found)
        planner.release_all(found.vertices, found.amounts, found.start, found.end)

    benchmark(there_and_back)
