"""The library and the XML reader see the same machine: synthetic ones, this one, and the stored samples, in each XML version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fluxres
from fluxres.documents.source import Source
from fluxres.errors import InputError
from fluxres.formats.hwloc import cluster as hwloc
from fluxres.formats.hwloc import cluster as hwloc_cluster
from fluxres.formats.hwloc import system as hwloc_system
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from fluxres.hwloc import Topology
from fluxres.hwloc.bitmap import Bitmap
from fluxres.hwloc.topology import AllowFlags, ExportXmlFlags, TopologyFlags, TypeFilter, get_api_version
from tests.hwloc.needs import the_library
from tests.traceability import ROOT

#: without that of several machines, which libhwloc 2 refuses
SAMPLES = sorted(path for path in (ROOT / "data" / "fuzz" / "hwloc").glob("*.xml") if path.stem != "system")
#: everything but groups, of which libhwloc removes complete levels only
LEVELS = "socket,die,numa,memory,cache,core,pu"
DESCRIPTIONS = [
    "pu:3",
    "core:4 pu:2",
    "package:2 core:8 pu:2",
    "package:1 core:4 pu:1",
    "[numa] package:2 core:3 pu:1",
    "package:2 numa:2 l3:2 core:4 pu:2",
    "numa:4 package:1 core:4 pu:1",
    "numa:2 package:2 l3:2 l2:2 l1:1 core:1 pu:2",
    "package:2 die:2 [numa] [numa] core:4 pu:1",
    "package:2 group:2 core:2 pu:2",
    "group:2 group:2 [numa] core:2 pu:1",
    "package:2 [numa(memory=1000000)] l3:3(size=7000000) l2:2 l1d:1 l1i:1 core:1 pu:4",
]


@pytest.fixture(autouse=True, scope="session")
def _needs_the_library() -> None:
    the_library()


def by_library(topology: Topology, keep: str) -> Structure:
    with topology.set_all_types_filter(TypeFilter.KEEP_ALL) as loaded:
        return hwloc_cluster.of_machine(hwloc_system.tree(loaded), "library", keep=keep, origin=0).structure


def by_reader(text: str, keep: str) -> Structure:
    return hwloc.read(Source(text.encode()), keep=keep, origin=0).structure


@pytest.mark.parametrize("keep", ["default", "all"])
@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_synthetic_machines(description: str, version: str, keep: str) -> None:
    with Topology.from_synthetic(description).set_all_types_filter(TypeFilter.KEEP_ALL) as topology:
        text = topology.export_xml_buffer(ExportXmlFlags.V1 if version == "1" else 0)
        cores = topology.n_cores()
    made = by_reader(text, keep)
    assert equal(by_library(Topology.from_xml_buffer(text), keep), made) == []
    assert sum(made.kind_of(v).type == "core" for v in range(made.n)) == cores
    if version == "2":
        direct = hwloc_system.read(description, keep=keep, origin=0).structure
        assert equal(direct, made) == []


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("allowed", [{0}, {0, 1, 2, 3}, {1, 3, 5, 7}, {*range(4, 16)}], ids=str)
@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_synthetic_machines_partly_allowed(description: str, allowed: set[int], version: str) -> None:
    whole = Topology.from_synthetic(description).set_flags(TopologyFlags.INCLUDE_DISALLOWED)
    with whole.set_all_types_filter(TypeFilter.KEEP_ALL) as topology:
        cpus = allowed & {*range(topology.n_cpus())} or {0}
        topology.allow(Bitmap.from_pyseq(cpus), None, AllowFlags.CUSTOM)
        text = topology.export_xml_buffer(ExportXmlFlags.V1 if version == "1" else 0)
    made = by_reader(text, LEVELS)
    assert equal(by_library(Topology.from_xml_buffer(text), LEVELS), made) == []
    assert sum(made.kind_of(v).type == "pu" for v in range(made.n)) == len(cpus)


@pytest.mark.parametrize("nodes", [{0}, {1, 2}])
@pytest.mark.parametrize("description", [text for text in DESCRIPTIONS if "numa:" in text])
def test_synthetic_machines_with_memory_partly_allowed(description: str, nodes: set[int]) -> None:
    with Topology.from_synthetic(description).set_flags(TopologyFlags.INCLUDE_DISALLOWED) as topology:
        topology.allow(None, Bitmap.from_pyseq(nodes), AllowFlags.CUSTOM)
        text = topology.export_xml_buffer()
    made = by_reader(text, LEVELS)
    assert equal(by_library(Topology.from_xml_buffer(text), LEVELS), made) == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_samples(path: Path) -> None:
    text = re.sub(r'<info name="HostName"[^>]*>', "", path.read_text())
    if 'version="3' in text and get_api_version() < (2, 12, 0):
        pytest.skip("this libhwloc reads no XML of version 3")
    for keep in ("default", "all"):
        assert equal(by_library(Topology.from_xml_buffer(text), keep), by_reader(text, keep)) == []


def test_this_machine() -> None:
    with Topology.from_this_system().set_io_types_filter(TypeFilter.KEEP_IMPORTANT) as topology:
        seen = hwloc_cluster.of_machine(hwloc_system.tree(topology), "library", origin=0).structure
        assert equal(seen, by_reader(topology.export_xml_buffer(), "default")) == []
        processors = topology.n_cpus()
    s = fluxres.load("hwloc:").structure
    assert sum(s.kind_of(v).type == "pu" for v in range(s.n)) == processors
    assert [s.path(v) for v in range(s.n)] == [seen.path(v) for v in range(seen.n)]


def test_commands_choose_types_and_put_a_node_into_a_cluster() -> None:
    g = fluxres.load("hwloc:package:2 core:3 pu:1", keep="core", cluster="lab")
    assert [pool.path for pool in g.find("type=core")][-1] == "/lab/node0/core5"


@pytest.mark.parametrize("text", ["nonsense:4", "package:0", "pu:2 core:2", "(", "pu:99999999999"])
def test_invalid_descriptions_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^hwloc:.*: libhwloc cannot read this"):
        fluxres.load(f"hwloc:{text}")
