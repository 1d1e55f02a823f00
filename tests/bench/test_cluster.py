"""Cluster files: what reading and writing cost, and the memory of a process that reads a million pools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fluxres.graph.recipe import Recipe, expand
from tests.formats.structures import read_cluster, write_cluster

pytestmark = pytest.mark.bench
CLUSTERS = sorted((Path(__file__).parents[2] / "data" / "clusters").glob("*.yaml"))
LARGE = [path for path in CLUSTERS if path.stem in ("frontier", "el-capitan")]

# VmHWM and not ru_maxrss: the latter keeps what the parent had at the fork.
PEAK = """
import re, sys
from fluxres.formats import registry
structure = registry.read(sys.argv[1], format="cluster").structure
print(structure.n, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_read(benchmark: BenchmarkFixture, path: Path) -> None:
    loaded = benchmark(read_cluster, path)
    benchmark.extra_info["pools"] = loaded.structure.n


@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.stem)
def test_write(benchmark: BenchmarkFixture, path: Path) -> None:
    structure = read_cluster(path).structure
    text = benchmark(write_cluster, structure)
    benchmark.extra_info["bytes"] = len(text)


def test_write_with_five_hundred_odd_nodes(benchmark: BenchmarkFixture) -> None:
    structure = read_cluster(LARGE[0]).structure
    nodes = structure.of_type("node")
    structure.set_state(np.random.default_rng(1).choice(nodes, 500, replace=False), "drain")
    text = benchmark.pedantic(write_cluster, (structure,), rounds=3)
    benchmark.extra_info["bytes"] = len(text)


def test_expand_a_million(benchmark: BenchmarkFixture) -> None:
    inner = (Recipe("core", 48), Recipe("gpu", 4), Recipe("memory", size=64))
    node = Recipe("node", 120, children=(Recipe("socket", 2, children=inner),))
    tree = Recipe("cluster", children=(Recipe("rack", 80, children=(node,)),))
    structure = benchmark(expand, tree, origin=0)
    benchmark.extra_info["pools"] = structure.n


@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.stem)
def test_peak_memory_of_the_process(path: Path) -> None:
    out = subprocess.run([sys.executable, "-c", PEAK, str(path)], check=True, capture_output=True, text=True).stdout
    pools, peak_kib = map(int, out.split())
    print(f"{path.stem}: {pools} pools, {peak_kib / 1024:.0f} MiB at most")
    assert peak_kib / 1024 < 150
