"""What a change of an attached graph costs its process, by itself and in a batch of 16, on each kind of store.

`pytest tests/bench/test_kinds_of_stores.py -m bench -n 0 --benchmark-timer=time.process_time`; the results are in specs/store.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fluxres
from fluxres import Resource, build
from fluxres.store import open_store
from tests.store.conftest import KINDS, empty, etcd_server, postgresql_server

__all__ = ["empty", "etcd_server", "postgresql_server"]
pytestmark = pytest.mark.bench


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_changes(benchmark: Any, empty: Callable[[str], str], kind: str, batch: int) -> None:
    """16 changes; the commits are of `batch` changes each."""
    url = empty(kind)
    node = Resource("node", 16, children=[Resource("core", 32)])
    open_store(url).put("demo", build(Resource("rack", 8, children=[node]), name="demo"))

    def pair(graph: fluxres.ResourceGraph) -> None:
        graph.allocate("slot=1/core=4", job="a", duration_s=3600)
        graph.free("a")

    def change(graph: fluxres.ResourceGraph) -> None:
        if batch == 1:
            for _ in range(8):
                pair(graph)
            return
        with graph.batch():
            for _ in range(8):
                pair(graph)

    with fluxres.open(url) as graph:
        benchmark.pedantic(change, args=(graph,), rounds=40, warmup_rounds=4)
