"""The formats of Flux at the sizes of large machines, and the memory of a process that reads JGF."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fluxres.formats import registry
from fluxres.graph.recipe import Recipe, expand
from fluxres.graph.structure import Structure

pytestmark = pytest.mark.bench

# VmHWM and not ru_maxrss: the latter keeps what the parent had at the fork.
PEAK = """
import re, sys
from pathlib import Path
from fluxres.formats import registry
structure = registry.read(Path(sys.argv[1])).structure
print(structure.n, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
LEVELS = (("rack", 640, 0), ("node", 16, 1), ("socket", 2, 0), ("core", 22, 1), ("gpu", 2, 1), ("memory", 4, 1))


@pytest.fixture(scope="module")
def machine() -> Structure:
    """604,801 pools: 10,240 nodes in racks, named as on Frontier."""
    socket = Recipe("socket", 2, children=(Recipe("core", 22), Recipe("gpu", 2), Recipe("memory", 4, size=32, unit="GB")))
    node = Recipe("node", 16, ids=np.arange(10_240), name="frontier${id:05}", children=(socket,))
    return expand(Recipe("cluster", children=(Recipe("rack", 640, children=(node,)),)), origin=8 << 76 | 2 << 62)


@pytest.fixture(scope="module")
def nodes() -> Structure:
    """16,384 nodes of 44 cores and 4 gpus."""
    below = (Recipe("core", 44), Recipe("gpu", 4))
    return expand(Recipe("cluster", children=(Recipe("node", 16_384, name="node${id}", children=below),)), origin=0)


def test_write_jgf(benchmark: BenchmarkFixture, machine: Structure) -> None:
    benchmark.extra_info["bytes"] = len(benchmark(registry.write, machine, format="jgf").data)


def test_read_jgf(benchmark: BenchmarkFixture, machine: Structure) -> None:
    text = registry.write(machine, format="jgf").data
    assert benchmark(registry.read, text).structure.n == machine.n


def test_memory_of_jgf(benchmark: BenchmarkFixture, machine: Structure, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_bytes(registry.write(machine, format="jgf").data)
    command = [sys.executable, "-c", PEAK, str(path)]
    out = benchmark.pedantic(subprocess.run, (command,), {"capture_output": True, "text": True, "check": True}, rounds=1)
    peak = int(out.stdout.split()[1]) * 1024
    benchmark.extra_info.update(peak_mb=peak >> 20, of_file=round(peak / path.stat().st_size, 2))


@pytest.mark.parametrize("form", ["R", "treepool", "resource-config"])
def test_write_nodes(benchmark: BenchmarkFixture, nodes: Structure, form: str) -> None:
    benchmark(registry.write, nodes, format=form)


@pytest.mark.parametrize("form", ["R", "treepool", "resource-config"])
def test_read_nodes(benchmark: BenchmarkFixture, nodes: Structure, form: str) -> None:
    text = registry.write(nodes, format=form).data
    assert benchmark(registry.read, text).structure.n == nodes.n


def test_read_grug(benchmark: BenchmarkFixture) -> None:
    body, above = "", "cluster"
    for type_, scale, scope in LEVELS:
        body += f'<node id="{type_}"><data key="type">{type_}</data></node><edge source="{above}" target="{type_}">'
        body += f'<data key="multi_scale">{scale}</data><data key="id_scope">{scope}</data></edge>'
        above = type_ if type_ in ("rack", "node", "socket") else above
    root = '<node id="cluster"><data key="root">1</data><data key="type">cluster</data></node>'
    text = f'<graphml><key id="root" for="node" attr.name="root"/><graph>{root}{body}</graph></graphml>'.encode()
    assert benchmark(registry.read, text).structure.n == 604_801
