"""The cost of a store at the size of El Capitan: 1.26 million pools.

`pytest tests/bench/test_store.py -m bench`; the results are in specs/store.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure
from fluxres.model import ResourceGraph
from fluxres.store import Store, encoding, open_store, records
from tests.store.graphs import machine

pytestmark = pytest.mark.bench

RACKS, NODES = 174, 64
END = 2**32
"""An end that the clock of a graph, seconds since 1970, does not reach before 2106."""


@pytest.fixture(scope="module")
def large() -> Structure:
    """174 racks of 64 nodes of 4 APUs with 24 cores, a GPU and its memory each, and 4 NICs."""
    apu = (Recipe("core", 24, ids=np.arange(96)), Recipe("gpu", ids=np.arange(4)), Recipe("memory", size=128, unit="GiB"))
    node = Recipe(
        "node",
        NODES,
        ids=np.arange(RACKS * NODES),
        name="elcap${id:05}",
        properties={"apu": None},
        children=(Recipe("socket", 4, children=apu), Recipe("nic", 4)),
    )
    root = Recipe("cluster", name="elcap", children=(Recipe("rack", RACKS, children=(node,)),))
    return expand(root, origin=uuids.new_origin())


@pytest.fixture(scope="module")
def store(large: Structure, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = open_store(str(tmp_path_factory.mktemp("bench") / "site.db"))
    store.put("elcap", ResourceGraph(large))
    return store


@pytest.fixture
def numbers() -> Iterator[int]:
    return count()


def encoded(structure: Structure) -> tuple[bytes, bytes]:
    shape = encoding.encode_shape(structure)
    return shape, encoding.encode_marks(structure, records.capture(ResourceGraph(structure).records), shape)


def test_encode(benchmark: Any, large: Structure) -> None:
    shape, marks = benchmark(encoded, large)
    benchmark.extra_info["bytes"] = len(shape) + len(marks)


def test_decode(benchmark: Any, large: Structure) -> None:
    shape, marks = encoded(large)
    structure, _ = benchmark(encoding.decode, shape, marks)
    assert np.array_equal(structure.parent, large.parent)
    assert np.array_equal(structure.end, large.end)


def test_load_without_events(benchmark: Any, store: Store) -> None:
    assert len(benchmark(store.load)) == 1_258_543


def test_load_with_the_maximum_number_of_events(benchmark: Any, store: Store, large: Structure) -> None:
    nodes = large.of_type("node")
    store.put("replay", ResourceGraph(large))
    with store.writing("replay") as tx:
        for i in range(250):
            tx.graph.allocate(int(nodes[i]), job=f"j{i}", start=i, end=END + i)
    assert len(benchmark(store.load, "replay").jobs()) == 250


def test_load_with_every_node_held(benchmark: Any, store: Store, large: Structure) -> None:
    graph = ResourceGraph(large)
    for i in range(0, RACKS * NODES, 16):
        graph.allocate([int(v) for v in large.of_type("node")[i : i + 16]], job=f"j{i}", start=0, end=END)
    store.put("full", graph)
    assert len(benchmark(store.load, "full").jobs()) == RACKS * NODES // 16


def tag(store: Store, name: str, numbers: Iterator[int]) -> None:
    with store.writing(name) as tx:
        tx.graph.tag(1, "round", str(next(numbers)))


def test_transaction(benchmark: Any, store: Store, numbers: Iterator[int]) -> None:
    benchmark(tag, store, "elcap", numbers)


def test_transaction_of_a_small_graph(benchmark: Any, store: Store, numbers: Iterator[int]) -> None:
    store.put("small", machine())
    benchmark(tag, store, "small", numbers)


def test_put(benchmark: Any, large: Structure, tmp_path: Path) -> None:
    graph, store = ResourceGraph(large), open_store(str(tmp_path / "put.db"))
    benchmark(store.put, "elcap", graph, replace=True)
    assert len(store.load()) == large.n
