"""Requests for amounts, as of HyperQueue's tasks: allocated and freed on a worker of 128 cores.

Run it with `pytest tests/bench/test_amounts.py -m bench`; `specs/seed-systems.md` has the figures.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from fluxres.formats.peers.hyperqueue.read import read_words
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request

pytestmark = pytest.mark.bench


@pytest.fixture(params=["cpus=1x128", "cpus=4x32"])
def worker(request: pytest.FixtureRequest) -> ResourceGraph:
    return ResourceGraph(read_words(f"{request.param} gpus=[0,1,2,3] mem=sum(64000)").structure)


def there_and_back(graph: ResourceGraph, request: Request, beside: int) -> None:
    graph.allocate(request, job=f"j{beside}")
    graph.free(f"j{beside}")


@pytest.mark.benchmark(timer=time.process_time, min_time=0.01)
@pytest.mark.parametrize("text", ["cpus=1", "cpus=4", "cpus=32", "gpus=1 cpus=8", "gpus=1 cpus=8 mem=1000"])
@pytest.mark.parametrize("held", [0, 40], ids=["idle", "busy"])
def test_allocate_and_free(benchmark: Any, worker: ResourceGraph, text: str, held: int) -> None:
    one, request = Request.parse("cpus=1", format="hyperqueue"), Request.parse(text, format="hyperqueue")
    for number in range(held):
        worker.allocate(one, job=f"held{number}")
    benchmark(there_and_back, worker, request, held)
    assert len(worker.jobs()) == held


@pytest.mark.benchmark(timer=time.process_time, min_time=0.01)
def test_fractions(benchmark: Any) -> None:
    graph = ResourceGraph(read_words("cpus=4x32 gpus=[0,1,2,3]", fractions=True).structure)
    benchmark(there_and_back, graph, Request.parse("gpus=0.5 cpus=1.25", format="hyperqueue"), 0)
