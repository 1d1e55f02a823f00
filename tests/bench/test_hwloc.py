"""hwloc XML: a large node, and a thousand similar files. The targets are in specs/hwloc.md."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.documents.source import Source
from fluxres.formats.hwloc import cluster as hwloc
from fluxres.formats.hwloc import cluster as hwloc_cluster

pytestmark = pytest.mark.bench

_SETS = 'cpuset="0x{0:x}" complete_cpuset="0x{0:x}" nodeset="0x1" complete_nodeset="0x1" gp_index="{1}"'


def node(packages: int = 8, caches: int = 4, cores: int = 8, host: str = "n0", memory: int = 1 << 36) -> bytes:
    """A node as lstopo writes it, with two processing units in each core."""
    number = 0
    lines = ['<topology version="2.0">']

    def opened(type_: str, more: str = "", end: str = ">") -> None:
        nonlocal number
        number += 1
        lines.append(f'<object type="{type_}" os_index="{number}" {_SETS.format(number, number)} {more}{end}')

    opened("Machine")
    lines.append(f'<info name="HostName" value="{host}"/>')
    for _ in range(packages):
        opened("Package")
        lines.append('<info name="CPUModel" value="AMD EPYC 9754 128-Core Processor"/>')
        opened("NUMANode", f'local_memory="{memory}"', "/>")
        for _ in range(caches):
            opened("L3Cache", 'cache_size="33554432" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0"')
            for _ in range(cores):
                opened("L2Cache", 'cache_size="1048576" depth="2" cache_linesize="64" cache_associativity="8" cache_type="0"')
                opened("L1Cache", 'cache_size="32768" depth="1" cache_linesize="64" cache_associativity="8" cache_type="1"')
                opened("Core")
                opened("PU", end="/>")
                opened("PU", end="/>")
                lines.append("</object></object></object>")
            lines.append("</object>")
        lines.append("</object>")
    return "\n".join([*lines, "</object></topology>"]).encode()


def test_a_node_of_512_processing_units(benchmark: Any) -> None:
    source = Source(node())
    assert benchmark(lambda: hwloc.read(source)).structure.n == 1 + 8 * (2 + 4 * (1 + 8 * 3))


def test_thousand_similar_nodes(benchmark: Any) -> None:
    sources = [Source(node(2, 8, 8, f"n{i}", (1 << 36) - 4096 * i)) for i in range(1_000)]
    made = benchmark.pedantic(lambda: hwloc_cluster.read_many(sources, cluster="alike"), rounds=3)
    assert made.structure.n == 1 + 1_000 * (1 + 2 * (2 + 8 * (1 + 8 * 3)))
