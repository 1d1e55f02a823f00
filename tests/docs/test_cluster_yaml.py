"""The examples of specs/cluster-yaml.md are files that can be read, and mean what the text beside them says."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from msgspec import structs

from fluxres.formats.cluster.schema import Cluster, Edge, Graph, PartitionEntry, Resource
from fluxres.graph.structure import Structure
from tests.formats.structures import read_cluster

TEXT = (Path(__file__).parents[2] / "specs" / "cluster-yaml.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def example(number: int) -> Structure:
    return read_cluster(EXAMPLES[number]).structure


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_is_read(number: int) -> None:
    assert example(number).n > 1


def test_the_python_in_it_runs() -> None:
    blocks = re.findall(r"```pycon\n(.*?)```", TEXT, re.DOTALL)
    assert blocks
    test = doctest.DocTestParser().get_doctest("".join(blocks), {}, "cluster-yaml.md", None, 0)
    failures: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=failures.append).failed == 0, "".join(failures)


def test_the_examples_mean_what_is_said_beside_them() -> None:
    assert example(0).n == 13
    demo = example(1)
    for path in ("rack0/node3", "rack1/node4/socket1/core15", "rack1/node7/socket0/memory", "rack0/login-0", "rack1/login-1"):
        assert demo.path(demo.vertex(f"/demo/{path}")) == f"/demo/{path}"
    site = example(2)
    assert len(site.of_type("node")) == 10
    assert len(site.of_type("core")) == 8 * 48 + 2 * 24
    assert site.vertex("/site/node9/gpu3")
    kepler = example(3).partitions
    assert {name: len(each.members) for name, each in kepler.items()} == {"batch": 64, "debug": 5, "gpu": 8}
    assert [name for name, each in kepler.items() if each.is_default] == ["batch"]
    graphs = example(4)
    assert graphs.uris(graphs.vertex("/demo/rack1"))[1] == "power:/pdu1/rack1"
    network = graphs.subsystems["network"]
    assert len(network) == 16
    assert [graphs.name(v) for v in network.src[network.dst == graphs.vertex("/demo/rack0/node3")].tolist()] == ["switch0"]
    assert [hold.end_s for hold in read_cluster(EXAMPLES[5]).allocations] == [3600.0, None]


@pytest.mark.parametrize("kind", [Cluster, Resource, PartitionEntry, Graph, Edge])
def test_every_key_is_described(kind: type) -> None:
    for field in structs.fields(kind):
        assert f"`{field.encode_name}`" in TEXT
