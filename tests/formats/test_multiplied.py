"""A few bytes that expand to too much are refused before expansion, with their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import registry
from fluxres.graph.kinds import Kind, KindTable


def refused(text: str, name: str, message: str, where: str, error: type[InputError] = LimitExceeded) -> None:
    with pytest.raises(error, match=message) as caught:
        registry.read(text.encode(), format=name, file="f")
    assert caught.value.where == where


def r(lite: list[dict[str, Any]], nodelist: list[str]) -> str:
    return json.dumps({"version": 1, "execution": {"R_lite": lite, "starttime": 0, "expiration": 0, "nodelist": nodelist}})


def test_cores_of_all_ranks_together() -> None:
    entries = [{"rank": str(i), "children": {"core": "0-16000000"}} for i in range(1000)]
    place = "f:1:229: execution.R_lite[3].children.core"
    refused(r(entries, ["n[0-999]"]), "R", "more than 64000000 pools in all", place)
    place = "f:1:82: execution.R_lite[0].children.core"
    refused(r([{"rank": "0-99999", "children": {"core": "0-999"}}], ["n[0-99999]"]), "R", "more than 64000000 pools", place)


def test_many_ranges_of_hosts_are_counted_once() -> None:
    place = "f:1:129: execution.nodelist"
    text = r([{"rank": "0", "children": {"core": "0"}}], ["n[0-1048575]"] * 5000)
    refused(text, "R", "5242880000 hosts for 1 ranks", place, InputError)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('hosts = "n[0-262143]"\ncores = "0"', "more than 524288 hosts in the tables"),
        ('hosts = "n"\ncores = "0-7999999"', "more than 16777216 cores and gpus in the tables"),
    ],
)
def test_tables_of_a_configuration_together(table: str, message: str) -> None:
    refused(f"[[resource.config]]\n{table}\n" * 8000, "resource-config", message, "f:7:1: resource.config[2]")


def test_hosts_of_a_configuration_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONFIG_HOSTS_MAX", 5)
    text = '[[resource.config]]\nhosts = "n[0-1]"\ncores = "0"\n' * 3
    refused(text, "resource-config", "more than 5 hosts", "f:7:1: resource.config[2]")


def test_hosts_of_all_records_together() -> None:
    record = {"nodes": {"nodes": "n[1-131000]"}, "partition": {"name": "p"}}
    refused(json.dumps({"sinfo": [record] * 100}), "slurm-json", "more than 524288 hosts", "f:1:272: sinfo[4].nodes.nodes")


def test_counts_of_many_nodes() -> None:
    refused("{nodes: 200000, cpus: 60000000}", "canary", "12000000200000 pools in all", "f:1:9: nodes")
    refused("{nodes: 1000000, cpus: 1}", "canary", "expected 1 to 262144 nodes", "f:1:9: nodes", InputError)


def test_types_of_pools_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TYPES_MAX", 6)
    kinds = KindTable(Kind(f"t{i}", "a") for i in range(6))
    kinds.intern(Kind("t5", "b"))
    with pytest.raises(LimitExceeded, match="more than 6 types of pools"):
        kinds.intern(Kind("t6", "a"))
    text = "cpus=1x1\n" + "".join(f"a{i}=sum(1)\n" for i in range(5))
    refused(text, "hyperqueue", "more than 6 types of pools", "f")


EDGES = [{"source": "0", "target": "1", "subsystem": "s", f"k{i}": i} for i in range(4)]


def test_attributes_of_edges_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = [{"subsystem": "s", "attributes": {f"k{i}": i}} for i in range(4)]
    root = {"id": "0", "metadata": {"type": "cluster", "paths": {"containment": "/cluster0"}}}
    node = {"id": "1", "metadata": {"type": "node", "paths": {"containment": "/cluster0/node1"}}}
    edges = [{"source": "0", "target": "1", "metadata": data} for data in [{"subsystem": "containment"}, *metadata]]
    jgf = json.dumps({"graph": {"nodes": [root, node], "edges": edges}})
    nodes = [{"id": "0", "type": "cluster"}, {"id": "1", "type": "node"}]
    node_link = json.dumps({"nodes": nodes, "edges": [{"source": "0", "target": "1"}, *EDGES]})
    cluster = json.dumps(
        {
            "fluxres": 1,
            "name": "c",
            "resources": [{"type": "node"}],
            "graphs": {"s": {"edges": [{"from": "/c", "to": "/c/node", "attributes": data["attributes"]} for data in metadata]}},
        }
    )
    texts = {"jgf": jgf, "node-link": node_link, "cluster": cluster}
    for name, text in texts.items():
        found = registry.read(text.encode(), format=name).structure
        assert list(found.subsystems["s"].attributes) == ["k0", "k1", "k2", "k3"]
    monkeypatch.setattr(limits, "EDGE_ATTRIBUTES_MAX", 3)
    for name, text in texts.items():
        with pytest.raises(LimitExceeded, match=r"attributes of .*edges") as caught:
            registry.read(text.encode(), format=name, file="f")
        assert caught.value.where.startswith("f:")
