"""The cost of nodes that draw power: requests with watts compared with the same ones without, in one run.

Run it with `pytest tests/bench/test_charges.py -m bench`.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest

from fluxres.model import ResourceGraph
from tests import sites
from tests.bench import match_measures

pytestmark = pytest.mark.bench

MOST = 3.0
ROUNDS = 200
SITE = sites.racks(160, 64, 32) + sites.power(9_000_000, 60_000, 160)


@pytest.fixture(scope="module")
def site() -> ResourceGraph:
    """10,240 nodes in racks with a PDU each, half of them in use."""
    graph = sites.graph(SITE)
    for number in range(80):
        graph.allocate("slot=64/[node;power=500]", job=f"before{number}")
    return graph


def there_and_back(graph: ResourceGraph, text: str) -> float:
    began = time.perf_counter()
    match_measures.allocate(graph, text, "first")
    graph.free("job")
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("plain", "charged"),
    [
        ("slot=1/node", "slot=1/[node;power=500]"),
        ("slot=1/core=8", "slot=1/[core=8;power=100]"),
        ("slot=8/node", "slot=8/[node;power=500]"),
        ("slot=64/node", "slot=64/[node;power=500]"),
        ("slot=1024/node", "slot=1024/[node;power=500]"),
        ("slot=512/core=8", "slot=512/[core=8;power=100]"),
    ],
)
def test_charged_request_costs_at_most_three_times_as_much(benchmark: Any, site: ResourceGraph, plain: str, charged: str) -> None:
    there_and_back(site, plain)
    without = []

    def one() -> float:
        without.append(there_and_back(site, plain))
        return without[-1]

    benchmark.pedantic(there_and_back, args=(site, charged), setup=lambda: (one(), None)[1], rounds=ROUNDS)
    ratio = benchmark.stats.stats.median / median(without)
    benchmark.extra_info["without charges (s)"] = median(without)
    benchmark.extra_info["ratio"] = ratio
    assert ratio <= MOST
