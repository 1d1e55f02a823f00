"""The expansion of the lines of a Slurm site is bounded, whatever defaults, ranges and sets they use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats import registry
from tests.formats.test_slurm import conf, counts


@pytest.mark.parametrize(
    "line",
    [
        "NodeName=n[0-999999999] CPUs=1",
        "NodeName=a[0-9999]b[0-9999]c[0-9999] CPUs=1",
        "NodeName=n1 CPUs=99999999999999999999999999",
        "NodeName=n1 Sockets=9999999 CoresPerSocket=9999999",
        "NodeName=n[1-1000] CPUs=60000000",
        "NodeName=n1 Gres=gpu:9999999999999999999",
        "NodeName=n1 Gres=x:9999999999G",
        "NodeName=n1 Gres=" + "x:1," * 2000,
        "NodeName=n1 Gres=gpu:1\nName=gpu File=/dev/x[0-99999]",
    ],
)
def test_impossible_numbers_are_refused(line: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        conf(line)
    assert caught.value.where.startswith("slurm.conf")


def test_unbalanced_brackets_are_refused_however_many() -> None:
    with pytest.raises(InputError, match="matching brackets"):
        conf("NodeName=n[1-2]" + "]" * 1_000_000)


def test_unknown_key_of_any_length_gives_a_short_message() -> None:
    with pytest.raises(InputError, match="unknown key 'cores") as caught:
        conf("NodeName=n1 " + "cores" * 1000 + "=1")
    assert len(caught.value.message) < 100


def test_nodes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert conf("NodeName=n[1-100]").structure.n == 301
    monkeypatch.setattr(limits, "SLURM_NODES_MAX", 99)
    with pytest.raises(LimitExceeded, match="100 nodes, at most 99"):
        conf("NodeName=n[1-50]", "NodeName=m[1-50]")
    with pytest.raises(LimitExceeded, match="100 nodes, at most 99"):
        registry.read(json.dumps({"sinfo": [{"nodes": {"nodes": "n[1-100]"}}]}).encode())


def test_members_of_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SELECTED_MAX", 100)
    with pytest.raises(LimitExceeded, match="members of partitions"):
        conf("NodeName=n[1-60] CPUs=1", "PartitionName=a,b Nodes=ALL")


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        (["NodeName=n[1-60]", "PartitionName=p Nodes=n[1-60]"], "slurm.conf:2: nodes"),
        (["NodeName=n[1-60]", "PartitionName=p Nodes=ALL"], "slurm.conf:2: nodes"),
        (["NodeName=n[1-40]", "PartitionName=p,q Nodes=ALL"], "slurm.conf:2: partitionname"),
        (["NodeName=n[1-20]", "NodeSet=s Nodes=ALL", *(f"PartitionName={p} Nodes=s" for p in "pq")], "slurm.conf:4: nodes"),
        (["NodeName=n[1-30] Features=f", "NodeSet=s Feature=f", "PartitionName=p,q,r Nodes=s"], "slurm.conf:3: partitionname"),
        (["NodeName=DEFAULT Features=a,b,c,d,e", *(f"NodeName=n{i}" for i in range(20))], "slurm.conf:18: features"),
        (["PartitionName=DEFAULT a=1 b=2 c=3", "NodeName=n", "PartitionName=p[1-40] Nodes=n"], "slurm.conf:3: partitionname"),
        (["NodeName=n[1-60]", "DownNodes=n[1-60]"], "slurm.conf:2: downnodes"),
        (["NodeName=n[1-60]", "SwitchName=s Nodes=n[1-60]"], "slurm.conf:2: nodes"),
        (["NodeName=n", "NodeName=n[1-60] Name=gpu", "Name=gpu NodeName=n[1-60]"], "slurm.conf:3: nodename"),
        (["NodeName=n", "Name=gpu File=/dev/x[1-60]", "Name=gpu File=/dev/y[1-60]"], "slurm.conf:3: file"),
    ],
)
def test_names_that_lines_expand_to_are_bounded(lines: list[str], where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert conf(*lines).structure.n > 2
    monkeypatch.setattr(limits, "SLURM_NAMES_MAX", 100)
    with pytest.raises(LimitExceeded, match="more than 100 hosts, features and settings in all lines together") as caught:
        conf(*lines)
    assert caught.value.where == where


def test_names_are_counted_over_all_files_of_a_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "SLURM_NAMES_MAX", 100)
    (tmp_path / "slurm.conf").write_text("include nodes.conf\nPartitionName=p\nTopologyPlugin=topology/tree\n")
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-30]\n")
    (tmp_path / "gres.conf").write_text("NodeName=n[1-30] Name=gpu\n")
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n[1-30]\n")
    assert registry.read(tmp_path / "slurm.conf", format="slurm").structure.n == 1 + 90 + 1 + 1
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n[1-30]\nSwitchName=t Nodes=n[1-30]\n")
    with pytest.raises(LimitExceeded, match="more than 100 hosts") as caught:
        registry.read(tmp_path / "slurm.conf", format="slurm")
    assert caught.value.where == f"{tmp_path}/topology.conf:2: nodes"


def test_names_in_topology_yaml_are_counted_with_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "SLURM_NAMES_MAX", 100)
    (tmp_path / "slurm.conf").write_text("NodeName=n[1-60]\n")
    (tmp_path / "topology.yaml").write_text("- {topology: a, block: {blocks: [{block: b, nodes: 'n[1-60]'}]}}\n")
    with pytest.raises(LimitExceeded, match="more than 100 hosts") as caught:
        registry.read(tmp_path / "slurm.conf", format="slurm")
    assert caught.value.where == f"{tmp_path}/topology.yaml:1:34: [0].block.blocks[0].nodes"


def test_lines_of_devices_about_one_node_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRES_LINES_MAX", 3)
    lines = ["NodeName=m", "NodeName=n Gres=gpu:4", "Name=gpu Count=1", "Name=gpu Count=1", "NodeName=n Name=gpu Count=1"]
    assert counts(conf(*lines).structure, "/cluster/n")["gpu"] == 4
    with pytest.raises(LimitExceeded, match=r"4 lines of gres\.conf apply to node 'n'") as caught:
        conf(*lines, "Name=gpu Count=1")
    assert caught.value.where == "slurm.conf:2"
    # Lines about other nodes do not count, nor do nodes without generic resources.
    assert conf(*lines, "NodeName=m Name=gpu Count=1", "NodeName=m Name=gpu Count=1").structure.n == 11


@pytest.mark.parametrize(
    "lines",
    [
        ["NodeName=DEFAULT Gres=a:1,b:1,c:1", *(f"NodeName=n{i} CPUs={i}" for i in range(1, 20))],
        ["NodeName=DEFAULT Features=a,b,c", *(f"NodeName=n{i} CPUs={i}" for i in range(1, 20))],
        ["NodeName=DEFAULT Gres=gpu:1", *(f"NodeName=n{i} CPUs={i}" for i in range(1, 20)), *["Name=gpu Type=x"] * 3],
        ["NodeName=n1 Gres=gpu:60", "Name=gpu File=/dev/x[0-59]"],
    ],
)
def test_distinct_nodes_are_bounded(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert conf(*lines).structure.n > 20
    monkeypatch.setattr(limits, "SLURM_ENTRIES_MAX", 50)
    with pytest.raises(LimitExceeded, match=r"more than 50 .*distinct") as caught:
        conf(*lines)
    assert caught.value.where.startswith("slurm.conf:")


def test_similar_nodes_share_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLURM_ENTRIES_MAX", 50)
    lines = [f"NodeName=n{i} CPUs=2 Features=a,b Gres=gpu:2" for i in range(1000)]
    assert conf(*lines, "Name=gpu File=/dev/x[0-1]").structure.n == 7001


def test_keys_of_a_line_are_bounded() -> None:
    assert conf("NodeName=n", "PartitionName=p " + " ".join(f"k{i}=1" for i in range(255))).structure.n == 5
    with pytest.raises(LimitExceeded, match="more than 256 keys in one line"):
        conf("NodeName=n", "PartitionName=p " + " ".join(f"k{i}=1" for i in range(256)))


def test_sets_of_nodes_in_sets_are_bounded() -> None:
    lines = [f"NodeSet=s{i} Nodes=s{i + 1},s{i + 1}" for i in range(8)]
    found = conf("NodeName=n", *lines, "NodeSet=s8 Nodes=n", "PartitionName=p Nodes=s0").structure
    assert len(found.subsystems["partitions"].src) == 1
    lines = [f"NodeSet=s{i} Nodes=s{i + 1}" for i in range(10_000)]
    with pytest.raises(LimitExceeded, match=f"sets are nested more than {limits.DEPTH_MAX} deep"):
        conf("NodeName=n", *lines, "NodeSet=s10000 Nodes=n", "PartitionName=p Nodes=s0")
