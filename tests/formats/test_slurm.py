"""Slurm's description of a machine, in its files and in JSON, is read as the machine that it schedules."""

from __future__ import annotations

import json
import re
from math import inf
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres import limits
from fluxres.cli.program import program
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.formats import registry
from fluxres.formats.format import Loaded
from fluxres.formats.slurm import gres as slurm_gres
from fluxres.formats.slurm import read_json
from fluxres.formats.slurm.lines import Line
from fluxres.formats.slurm.site import state_of
from fluxres.graph.compare import equal
from fluxres.graph.structure import Structure
from tests.traceability import ROOT

SITE = ROOT / "data" / "fuzz" / "slurm" / "site.conf"


def conf(*lines: str) -> Loaded:
    return registry.read("\n".join(lines).encode() + b"\n", file="slurm.conf")


def counts(structure: Structure, path: str) -> dict[str, int]:
    """Pools below a pool by type."""
    v = structure.vertex(path)
    types = [structure.kind_of(u).type for u in range(v + 1, structure.end.item(v))]
    return {name: types.count(name) for name in dict.fromkeys(types)}


def properties(structure: Structure, path: str) -> dict[str, Any]:
    return dict(structure.kind_of(structure.vertex(path)).properties)


# -- nodes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # What is missing is inferred as slurmctld does.
        ("CPUs=4", {"socket": 4, "core": 4}),
        ("", {"socket": 1, "core": 1}),
        ("Procs=3", {"socket": 3, "core": 3}),
        ("CPUs=5 Procs=3", {"socket": 5, "core": 5}),
        ("CPUs=4 ThreadsPerCore=1", {"socket": 4, "core": 4}),
        ("CPUs=8 CoresPerSocket=4", {"socket": 2, "core": 8}),
        ("CPUs=8 ThreadsPerCore=2", {"socket": 4, "core": 4, "pu": 8}),
        ("CPUs=16 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8, "pu": 16}),
        ("ThreadsPerCore=4", {"socket": 1, "core": 1, "pu": 4}),
        ("SocketsPerBoard=2 CPUs=8 CoresPerSocket=4", {"socket": 2, "core": 8}),
        ("Boards=2 CPUs=8 CoresPerSocket=2", {"board": 2, "socket": 4, "core": 8}),
        ("CPUs=4 Sockets=4 ThreadsPerCore=2", {"socket": 4, "core": 4}),
        ("Sockets=2 CoresPerSocket=8", {"socket": 2, "core": 16}),
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8, "pu": 16}),
        ("CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8, "pu": 16}),
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8}),
        ("CoresPerSocket=4", {"socket": 1, "core": 4}),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=4", {"board": 2, "socket": 4, "core": 16}),
        ("Boards=2 Sockets=4 CoresPerSocket=1", {"board": 2, "socket": 4, "core": 4}),
        ("boards=1 SOCKETS = 1 corespersocket=2 RealMemory=100 TmpDisk=5", {"socket": 1, "core": 2, "memory": 1, "disk": 1}),
        ("CPUs=2 Gres=gpu:a100:2,gpu:v100:1,craynetwork:4,nic:2", {"socket": 2, "core": 2, "gpu": 3, "craynetwork": 1, "nic": 2}),
        ("CPUs=1 Gres=(null)", {"socket": 1, "core": 1}),
    ],
)
def test_node_contents_follow_from_its_numbers(text: str, expected: dict[str, int]) -> None:
    loaded = conf(f"NodeName=n1 {text}")
    assert counts(loaded.structure, "/cluster/n1") == expected
    assert loaded.notes == ()


@pytest.mark.parametrize(
    ("text", "expected", "note"),
    [
        ("CPUs=0", {"socket": 1, "core": 1}, "CPUs=0 is read as 1"),
        ("CPUs=8 ThreadsPerCore=0", {"socket": 8, "core": 8}, "ThreadsPerCore=0 is read as 1"),
        ("CPUs=8 CoresPerSocket=0", {"socket": 8, "core": 8}, "CoresPerSocket=0 is read as 1"),
        ("Boards=0 Sockets=2", {"socket": 2, "core": 2}, "Boards=0 is read as 1"),
        ("Boards=4 Sockets=2 CoresPerSocket=2", {"socket": 2, "core": 4}, r"Boards=4 exceeds the number of sockets \(2\)"),
        ("Boards=4 CPUs=2", {"socket": 2, "core": 2}, "Boards=4 exceeds the number of sockets"),
        (
            "Boards=2 Sockets=2 SocketsPerBoard=2",
            {"board": 2, "socket": 4, "core": 4},
            "Sockets=2 is ignored in favour of Boards=2",
        ),
        ("Sockets=4 SocketsPerBoard=2 CoresPerSocket=2", {"socket": 2, "core": 4}, "Sockets=4 is ignored"),
        (
            "CPUs=7 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2",
            {"socket": 2, "core": 8, "pu": 16},
            "CPUs=7 is the number of neither .* read as 16",
        ),
        ("CPUs=3 CoresPerSocket=4", {"socket": 1, "core": 4}, "CPUs=3 is the number of neither .* read as 4"),
        (
            "CPUs=12 CoresPerSocket=4 ThreadsPerCore=2",
            {"socket": 1, "core": 4, "pu": 8},
            "CPUs=12 is the number of neither .* read as 8",
        ),
        ("CPUs=2 Sockets=2 CoresPerSocket=8", {"socket": 2, "core": 2}, "each socket is one CPU because of CPUs=2; its 8 cores"),
        ("Boards=2 Sockets=3 CoresPerSocket=2", {"socket": 3, "core": 6}, "3 sockets cannot be divided equally among 2 boards"),
    ],
)
def test_numbers_that_slurm_resets_are_read_as_slurm_does_and_noted(text: str, expected: dict[str, int], note: str) -> None:
    loaded = conf(f"NodeName=n1 {text}")
    assert counts(loaded.structure, "/cluster/n1") == expected
    (found,) = loaded.notes
    assert found.startswith("slurm.conf:1: ")
    assert re.search(note, found)


def test_notes_are_one_line_per_kind_and_reach_the_user(tmp_path: Path) -> None:
    site = tmp_path / "slurm.conf"
    site.write_text("".join(f"NodeName=n{i} CPUs=0\n" for i in range(3)) + "NodeName=m CPUs=3 CoresPerSocket=2\n")
    with pytest.warns(fluxres.InputWarning) as warned:
        fluxres.load(site)
    assert [str(each.message) for each in warned] == [
        f"{site}:1: CPUs=0 is read as 1, as Slurm does (and 2 more like it)",
        f"{site}:4: CPUs=3 is the number of neither sockets (1) nor cores (2) nor threads (2) and is read as 2, as Slurm does",
    ]
    assert {Path(each.filename).name for each in warned} == {"test_slurm.py"}
    result = CliRunner().invoke(program, ["convert", str(site), "-"])
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [f"fluxres: {each.message}" for each in warned]


def answer_of(*nodes: tuple[int, int, int, int, int]) -> bytes:
    """The output of `scontrol show nodes --json` for nodes with these numbers of boards, sockets, cores, threads and CPUs."""
    keys = ("boards", "sockets", "cores", "threads", "cpus")
    return json.dumps(
        {"nodes": [{"name": f"n{i}", **dict(zip(keys, each, strict=True))} for i, each in enumerate(nodes)]}
    ).encode()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        # The numbers are those of slurmctld for these lines.
        ("CPUs=4", (1, 4, 1, 1, 4)),
        ("", (1, 1, 1, 1, 1)),
        ("CPUs=8 ThreadsPerCore=2", (1, 4, 1, 2, 8)),
        ("CPUs=16 CoresPerSocket=4 ThreadsPerCore=2", (1, 2, 4, 2, 16)),
        ("CPUs=16 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", (1, 2, 8, 2, 16)),
        ("CPUs=2 Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", (1, 2, 8, 2, 2)),
        ("CPUs=0 CoresPerSocket=4", (1, 1, 4, 1, 1)),
        ("Sockets=0 CPUs=8", (1, 1, 1, 1, 1)),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=4", (2, 4, 4, 1, 16)),
        ("Boards=2 Sockets=3 CoresPerSocket=2", (2, 3, 2, 1, 6)),
        ("SocketsPerBoard=2 CPUs=4", (1, 2, 1, 1, 2)),
        ("CPUs=6 Boards=2 SocketsPerBoard=3", (2, 6, 1, 1, 6)),
    ],
)
def test_configuration_and_slurm_output_give_the_same_machine(text: str, numbers: tuple[int, int, int, int, int]) -> None:
    ours = registry.read(f"NodeName=n0 {text}".encode(), origin=0).structure
    assert equal(ours, registry.read(answer_of(numbers), origin=0).structure) == []


def test_sizes_units_and_features() -> None:
    found = conf('NodeName=n1 RealMemory=512 TmpDisk=7 Features="a, b,c" Weight=3 Gres=lustre:no_consume:4G').structure
    memory, disk, lustre = (found.vertex(f"/cluster/n1/{name}") for name in ("memory0", "disk0", "lustre0"))
    assert [(found.size[v], found.kind_of(v).unit) for v in (memory, disk)] == [(512, "MiB"), (7, "MiB")]
    assert (found.size[lustre], properties(found, "/cluster/n1/lustre0")) == (4 << 30, {"no_consume": None})
    assert properties(found, "/cluster/n1") == {"a": None, "b": None, "c": None, "weight": "3"}


def test_slurm_defaults_are_not_written_as_facts() -> None:
    assert counts(conf("NodeName=n RealMemory=1 Weight=1").structure, "/cluster/n") == {"socket": 1, "core": 1}
    assert properties(conf("NodeName=n RealMemory=1 Weight=1").structure, "/cluster/n") == {}
    answer = {"nodes": [{"name": "n", "sockets": 1, "cores": 1, "cpus": 1, "real_memory": 1, "weight": 1}]}
    assert counts(registry.read(json.dumps(answer).encode()).structure, "/cluster/n") == {"socket": 1, "core": 1}


def test_hosts_are_named_in_order_and_ranked() -> None:
    found = conf("NodeName=rack[0-1]node[1-2] CPUs=1", "NodeName=a9,a10 CPUs=1").structure
    nodes = found.of_type("node").tolist()
    assert [found.name(v) for v in nodes] == ["rack0node1", "rack0node2", "rack1node1", "rack1node2", "a9", "a10"]
    assert found.rank[nodes].tolist() == list(range(6))


def test_defaults_apply_to_the_lines_after_them() -> None:
    found = conf(
        "NodeName=a CPUs=1", "NodeName=DEFAULT CPUs=2 RealMemory=5", "NodeName=b", "NodeName=c CPUs=3", "NodeName=DEFAULT CPUs=4",
        "NodeName=d",
    ).structure  # fmt: skip
    assert [counts(found, f"/cluster/{name}").get("core") for name in "abcd"] == [1, 2, 3, 4]
    assert [counts(found, f"/cluster/{name}").get("memory") for name in "abcd"] == [None, 1, 1, 1]


def test_line_continuations_and_comments() -> None:
    found = conf("# NodeName=x", "NodeName=a \\", "  CPUs=2 \\  ", "RealMemory=3 # CPUs=9", "", "MailProg=x (y) z").structure
    assert counts(found, "/cluster/a") == {"socket": 2, "core": 2, "memory": 1}
    assert properties(conf('NodeName=a Features="a\\#b"').structure, "/cluster/a") == {"a#b": None}


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["UNKNOWN"], "up"), (["IDLE", "CLOUD"], "up"), (["MIXED", "DRAIN"], "drain"), (["DRAINED"], "drain"),
        (["DOWN", "DRAIN"], "down"), (["DOWN*"], "down"), (["IDLE*"], "unknown"), (["FAILING"], "failing"),
        (["FAIL"], "down"), (["FUTURE"], "unknown"),
        (["idle~"], "up"), (["NOT_RESPONDING"], "unknown"),
    ],
)  # fmt: skip
def test_states(words: list[str], state: str) -> None:
    assert state_of(words) == state


def test_states_and_reasons_of_nodes() -> None:
    loaded = conf("NodeName=a[1-3] CPUs=1 State=UNKNOWN", "NodeName=b State=DRAIN Reason=disc", "DownNodes=a[2-3] Reason='x'")
    found = loaded.structure
    states = [found.state_name(found.vertex(f"/cluster/{name}")) for name in ("a1", "a2", "a3", "b")]
    assert states == ["up", "down", "down", "drain"]
    assert found.tags[found.vertex("/cluster/b")] == {"state.reason": "disc"}


# -- generic resources ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu", [("gpu", "", 1)]),
        ("gpu:4", [("gpu", "", 4)]),
        ("gpu:a100:4(S:0-1),nic:1", [("gpu", "a100", 4), ("nic", "", 1)]),
        ("gpu:a100_3g.20gb:2", [("gpu", "a100_3g.20gb", 2)]),
        ("gpu:tesla", [("gpu", "tesla", 1)]),
        ("gpu:2(IDX:0,3)", [("gpu", "", 2)]),
        ("bandwidth:1K,mps:2m", [("bandwidth", "", 1024), ("mps", "", 2 << 20)]),
        ("gpu:0", []),
        ("none", []),
    ],
)
def test_generic_resources(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert [(g.name, g.type, g.count) for g in slurm_gres.parse(text, Line("x:1", {}))] == expected


def test_devices_of_gres_conf_are_distinct() -> None:
    found = registry.read(SITE).structure
    gpus = [f"/tioga/tioga01/gpu{i}" for i in range(4)]
    assert [properties(found, gpu)["file"] for gpu in gpus] == [f"/dev/dri/renderD{i}" for i in range(128, 132)]
    assert [properties(found, gpu)["cores"] for gpu in gpus] == ["0-3", "0-3", "4-7", "4-7"]
    assert properties(found, gpus[3]) == {"model": "mi250", "file": "/dev/dri/renderD131", "cores": "4-7", "links": "-1,2"}
    assert properties(found, "/tioga/tioga05/gpu1") == {}


def test_types_come_from_gres_conf_if_the_node_has_none() -> None:
    lines = ["NodeName=n[1-2] Gres=gpu:3", "Name=gpu Type=a100 Count=2", "NodeName=n2 Name=gpu Type=v100 File=/dev/x0"]
    found = conf(*lines).structure
    assert [properties(found, f"/cluster/n1/gpu{i}").get("model") for i in range(3)] == ["a100", "a100", None]
    assert [properties(found, f"/cluster/n2/gpu{i}").get("model") for i in range(3)] == ["a100", "a100", "v100"]


# -- partitions and switches ---------------------------------------------------------------------------------------------


def test_partitions_are_properties_of_nodes_and_pools_of_a_graph() -> None:
    found = registry.read(SITE).structure
    with pytest.warns(fluxres.InputWarning, match="PriorityTier is kept as a property of the partition, and binds no job"):
        graph = fluxres.load(SITE)
    assert graph.find("property=partition-debug").paths()[-1] == "/tioga/rack1node2"
    assert len(graph.find("property=partition-debug")) == 7
    partitions = found.subsystems["partitions"]
    assert not partitions.hierarchy
    assert [found.name(v) for v in partitions.roots().tolist()] == ["batch", "debug", "all"]
    batch, debug, every = partitions.roots().tolist()
    assert dict(found.kind_of(batch).properties) == {"max_time": "1d", "default": True, "prioritytier": "10"}
    assert dict(found.kind_of(debug).properties) == {"max_time": "30m"}
    assert [found.state_name(v) for v in (batch, debug, every)] == ["up", "up", "drain"]
    assert min(found.name(v) for v in partitions.successors(batch).tolist()) == "rack0node0"
    assert len(partitions.successors(every)) == 13


def test_keys_of_partitions_that_bind_nothing_are_noted() -> None:
    found = conf(
        "NodeName=n[1-4] CPUs=1",
        "PartitionName=a Nodes=n1 AllowAccounts=physics prioritytier=10 Hidden=YES",
        "PartitionName=b Nodes=n2 AllowAccounts=ALL PriorityTier=1",
        "PartitionName=c Nodes=n3 DenyQos=low",
    )
    said = "slurm.conf:2: AllowAccounts and PriorityTier are kept as properties of the partition, and bind no job"
    assert found.notes == (f"{said} (and 2 more like it)",)
    a = next(v for v in found.structure.of_type("partition").tolist() if found.structure.name(v) == "a")
    assert dict(found.structure.kind_of(a).properties) == {"allowaccounts": "physics", "prioritytier": "10", "hidden": "YES"}


def test_misspelt_keys_of_partitions_are_noted_and_misspelt_lines_refused() -> None:
    found = conf("NodeName=n[1-4] CPUs=1", "SelectType=select/cons_tres", "PartitionName=a Nodes=n1 MaxTimes=3 Ndes=n2 Site=x")
    said = "is no key of Slurm, and is kept as a property of the partition"
    assert found.notes == (
        f"slurm.conf:3: 'MaxTimes' {said} (did you mean MaxTime?)",
        f"slurm.conf:3: 'Ndes' {said} (did you mean Nodes?)",
    )
    for line, meant in (("NodeNmae=n5 CPUs=1", "NodeName"), ("PartitonName=b Nodes=n1", "PartitionName")):
        with pytest.raises(InputError, match=rf"slurm.conf:2: unknown key '{line.partition('=')[0]}' \(did you mean {meant}\?\)"):
            conf("NodeName=n1 CPUs=1", line)


def test_limits_of_partitions_are_read_as_slurm_means_them() -> None:
    found = conf(
        "NodeName=n[1-4] CPUs=1",
        "PartitionName=DEFAULT MaxTime=2-12 DefaultTime=NONE MaxNodes=UNLIMITED Default=NO",
        "PartitionName=a Nodes=n[1-2] Default=YES DefaultTime=90 MinNodes=2 MaxNodes=3",
        "PartitionName=b Nodes=ALL MaxTime=INFINITE State=INACTIVE",
        "PartitionName=c Nodes=n4 MaxTime=1:00:01 State=DOWN",
    )
    a, b, c = found.structure.partitions.values()
    assert (a.is_default, a.default_time_s, a.max_time_s, a.min_nodes, a.max_nodes) == (True, 5400.0, 216000.0, 2, 3)
    assert (b.is_default, b.state, b.max_time_s, b.time_if_unstated_s, b.max_nodes) == (False, "inactive", inf, inf, None)
    assert (c.state, c.max_time_s, c.time_if_unstated_s) == ("down", 3601.0, 3601.0)
    assert [found.structure.name(v) for v in a.members.tolist()] == ["n1", "n2"]
    assert not found.notes


def test_the_last_default_partition_is_the_default() -> None:
    found = conf("NodeName=n", "PartitionName=a,b Nodes=n Default=YES", "PartitionName=c Nodes=n Default=YES")
    assert [each.name for each in found.structure.partitions.values() if each.is_default] == ["c"]
    assert [note for note in found.notes if "is not the default: 'c' is" in note]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("MaxTime=soon", "maxtime: expected a time, got 'soon'"),
        ("MaxTime=0", "maxtime: expected a time above 0"),
        ("DefaultTime=1:2:3:4", "defaulttime: expected a time"),
        ("MaxNodes=many", "maxnodes"),
        ("Default=MAYBE", "default: expected YES or NO"),
    ],
)
def test_a_limit_that_is_none_is_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        conf("NodeName=n", f"PartitionName=p Nodes=n {setting}")
    assert message in str(error.value)
    assert "slurm.conf:2" in str(error.value)


def test_switches_are_a_hierarchy() -> None:
    found = registry.read(SITE).structure
    network = found.subsystems["network"]
    assert network.hierarchy
    assert found.uris(found.vertex("/tioga/tioga03"))[1] == "network:/spine/leaf0/tioga03"
    assert [edge["capacity"] for _, _, edge in network.rows() if "capacity" in edge] == [100.0] * 6


def test_switches_that_form_no_tree_are_a_graph() -> None:
    found = conf("NodeName=n[1-2] CPUs=1", "SwitchName=a Nodes=n[1-2]", "SwitchName=b Nodes=n1", "BlockName=c Nodes=n2").structure
    assert not found.subsystems["network"].hierarchy
    assert [found.kind_of(v).type for v in range(found.tree_end, found.n)] == ["switch", "switch", "block"]


def test_files_next_to_slurm_conf_are_read(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(
        "ClusterName=c\ninclude nodes.conf\nPartitionName=p Nodes=ALL\nTopologyPlugin=topology/tree\n"
    )
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-2] CPUs=2 Gres=gpu:1\n")
    (tmp_path / "gres.conf").write_text("NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia0\n")
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n[1-2]\n")
    loaded = registry.read(tmp_path / "slurm.conf", format="slurm")
    assert loaded.name == "c"
    assert properties(loaded.structure, "/c/n2/gpu0") == {"model": "a100", "file": "/dev/nvidia0"}
    assert loaded.structure.uris(loaded.structure.vertex("/c/n1"))[1] == "network:/s/n1"


# -- networks ------------------------------------------------------------------------------------------------------------


def site(folder: Path, *lines: str, **files: str) -> Loaded:
    """Two nodes with the files next to slurm.conf; `topology_yaml` is the file topology.yaml."""
    (folder / "slurm.conf").write_text("\n".join(["ClusterName=c", "NodeName=n[1-4] CPUs=1", *lines, ""]))
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return registry.read(folder / "slurm.conf")


def uris(loaded: Loaded, node: str) -> list[str]:
    """The places of a node in each hierarchy but the first."""
    return loaded.structure.uris(loaded.structure.vertex(f"/c/{node}"))[1:]


def test_unknown_hosts_of_switches_are_left_out_with_a_note(tmp_path: Path) -> None:
    text = "SwitchName=a Nodes=n[1-2],x[1-9]\nSwitchName=b Nodes=n[3-4],x1\nSwitchName=top Switches=a,b\n"
    loaded = site(tmp_path, "TopologyPlugin=topology/tree", topology_conf=text)
    assert uris(loaded, "n3") == ["network:/top/b/n3"]
    what = "hosts that are not nodes of this configuration are left out of the network: x1, x2, x3, x4, x5 and 4 more"
    assert loaded.notes == (f"{tmp_path}/topology.conf:1: {what}",)


@pytest.mark.parametrize("plugin", ["", "TopologyPlugin=topology/none", "TopologyPlugin=topology/flat", "TopologyPlugin=tree"])
def test_topology_that_slurm_would_not_read_is_not_read(tmp_path: Path, plugin: str) -> None:
    loaded = site(tmp_path, plugin, topology_conf="SwitchName=a Nodes=n[1-4] Nonsense\n")
    assert list(loaded.structure.subsystems) == []
    (note,) = loaded.notes
    assert note.startswith(f"{tmp_path}/topology.conf: is ignored: ")
    assert note.endswith("and Slurm reads it only for topology/tree, topology/block, topology/ring")
    assert (f"TopologyPlugin is {plugin[15:]!r}" if plugin else "no TopologyPlugin is set") in note


@pytest.mark.parametrize(
    ("plugin", "type_name"), [("topology/tree", "switch"), ("Topology/Block", "block"), ("topology/ring", "ring")]
)
def test_a_plugin_reads_its_own_lines(tmp_path: Path, plugin: str, type_name: str) -> None:
    text = "SwitchName=s Nodes=n1\nBlockName=b Nodes=n1\nBlockSizes=1\nRingName=r Nodes=n1\n"
    loaded = site(tmp_path, f"TopologyPlugin={plugin}", topology_conf=text)
    s = loaded.structure
    assert [(s.kind_of(v).type, s.name(v)) for v in range(s.tree_end, s.n)] == [(type_name, type_name[0])]
    (note,) = loaded.notes
    assert re.search(rf"topology.conf:[12]: is ignored: {plugin} has no (block|switch) \(and 1 more like it\)", note)


def test_lines_of_switches_in_the_configuration_itself_need_no_plugin() -> None:
    assert list(conf("NodeName=n1", "SwitchName=a Nodes=n1").structure.subsystems) == ["network"]


SEVERAL = """
---
- topology: blocks
  block:
    block_sizes: [2, 4]
    blocks: [{block: b1, nodes: "n[1-2]"}, {block: b2, nodes: "n[3-5]"}]
- topology: tree  # the default, though it is not the first
  cluster_default: True
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - {switch: s1, nodes: "n[1-2]"}
      - {switch: s2, nodes: "n[3-4]"}
- {topology: plain, flat: true}
- {topology: plain2, flat: {alpha_step_rank: true}}
- {topology: rings, ring: {rings: [{ring: s1, nodes: "n[1-4]"}]}}
- {topology: pod, torus3d: {toruses: [{name: pod1, dims: {x: 2, y: 2, z: 1}, nodes: "n[1-4]"}]}}
"""


def test_networks_of_topology_yaml(tmp_path: Path) -> None:
    loaded = site(tmp_path, "TopologyPlugin=topology/tree", topology_yaml=SEVERAL, topology_conf="SwitchName=other Nodes=n1\n")
    s = loaded.structure
    assert list(s.subsystems) == ["network-blocks", "network", "network-rings"]
    assert all(graph.hierarchy for graph in s.subsystems.values())
    assert uris(loaded, "n3") == ["network-blocks:/b2/n3", "network:/top/s2/n3", "network-rings:/s1/n3"]
    assert [(s.kind_of(v).type, s.name(v)) for v in range(s.tree_end, s.n)] == [
        ("block", "b1"), ("block", "b2"), ("switch", "top"), ("switch", "s1"), ("switch", "s2"), ("ring", "s1"),
    ]  # fmt: skip
    yaml = f"{tmp_path}/topology.yaml"
    assert loaded.notes == (
        f"{yaml}:18:28: [5].torus3d: the 3D torus 'pod' is left out: only trees, blocks and rings are supported",
        f"{tmp_path}/topology.conf: is ignored: topology.yaml takes precedence, as in Slurm",
        f"{yaml}:6:44: [0].block.blocks[1]: hosts that are not nodes of this configuration are left out of the network: n5",
    )
    # Without a default, the first one is used.
    loaded = site(tmp_path, topology_yaml=SEVERAL.replace("cluster_default: True", "cluster_default: false"))
    assert list(loaded.structure.subsystems) == ["network", "network-tree", "network-rings"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topology: a\nflat: true\n", r"topology.yaml:1:1: expected a list, got a mapping"),
        ("- flat: true\n", r"topology.yaml:1:3: \[0\]: the key 'topology' is missing"),
        ("- topology: a\n", r"\[0\]: expected one of tree, block, ring, flat and torus3d, got none"),
        ("- {topology: a, flat: true, tree: {switches: []}}\n", "got tree and flat"),
        (
            "- {topology: a, flat: true}\n- {topology: a, flat: true}\n",
            r"topology.yaml:2:14: \[1\].topology: a second topology 'a'",
        ),
        (
            "- {topology: a, flat: true}\n- {topology: b/c, tree: {switches: [{switch: s, nodes: n1}]}}\n",
            "a name without '/' and ':'",
        ),
        ("- {topology: a, tree: {switches: [{switch: s, children: t}]}}\n", "there is no switch 't'"),
        ("- {topology: a, tree: {switches: [{switch: s, nodes: 'n[1-'}]}}\n", r"switches\[0\].nodes: .*bracket"),
        ("- {topology: a, tree: {switches: [{switch: s, nodes: n1}, {switch: s, nodes: n1}]}}\n", "a second switch 's'"),
        ("- {topology: a, block: {blocks: [{nodes: n1}]}}\n", r"blocks\[0\]: the key 'block' is missing"),
        ("- [", "topology.yaml:"),
    ],
)
def test_errors_in_topology_yaml_have_a_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        site(tmp_path, topology_yaml=text)


def test_unknown_host_of_downnodes_is_noted() -> None:
    loaded = conf("NodeName=n[1-2]", "DownNodes=n2,n7 State=DRAIN")
    assert loaded.structure.state_name(loaded.structure.vertex("/cluster/n2")) == "drain"
    assert loaded.notes == ("slurm.conf:2: downnodes: unknown node 'n7' is left out",)


# -- JSON ----------------------------------------------------------------------------------------------------------------


def test_output_of_commands() -> None:
    nodes = registry.read(ROOT / "data" / "fuzz" / "slurm-json" / "scontrol.json").structure
    assert counts(nodes, "/tioga/n1") == {"socket": 2, "core": 8, "pu": 16, "memory": 1, "gpu": 2}
    assert counts(nodes, "/tioga/n2") == {"socket": 2, "core": 8, "memory": 1, "disk": 1}
    assert nodes.state_name(nodes.vertex("/tioga/n2")) == "drain"
    groups = registry.read(ROOT / "data" / "fuzz" / "slurm-json" / "sinfo.json").structure
    assert [groups.name(v) for v in groups.of_type("node").tolist()] == ["n1", "n2", "n4", "n3"]
    assert properties(groups, "/tioga/n4") == {"amd": None, "partition-batch": None, "partition-debug": None}
    assert groups.state_name(groups.vertex("/tioga/n3")) == "down"


def test_cluster_is_named_as_in_the_output() -> None:
    meta = {"slurm": {"cluster": "ridge"}, "plugin": {}}
    answer: dict[str, Any] = {"sinfo": [{"nodes": {"nodes": "a"}}], "meta": meta}
    assert registry.read(json.dumps(answer).encode(), format="slurm-json").structure.path(1) == "/ridge/a"
    answer = {"nodes": [{"name": "a", "cluster_name": "own"}], "meta": meta}
    assert registry.read(json.dumps(answer).encode(), format="slurm-json").structure.path(1) == "/own/a"


def test_nodes_in_power_saving_take_work() -> None:
    assert state_of(["IDLE~"]) == state_of(["IDLE", "POWERED_DOWN"]) == state_of(["IDLE", "CLOUD", "POWERING_DOWN"]) == "up"
    assert state_of(["DOWN", "POWERED_DOWN"]) == "down"


def test_a_comment_within_quotes_is_reported() -> None:
    with pytest.raises(InputError, match="'#' begins a comment") as found:
        conf("NodeName=a", 'DownNodes=a Reason="bad DIMM, ticket #7"')
    assert found.value.where == "slurm.conf:2"


def test_schema_in_specs_equals_that_of_the_code() -> None:
    written = json.loads((ROOT / "specs" / "slurm.schema.json").read_text())
    assert written == read_json.json_schema()
    for path in (ROOT / "data" / "fuzz" / "slurm-json").iterdir():
        jsonschema.validate(json.loads(path.read_text()), written)


def test_ten_thousand_nodes_in_all_shapes(tmp_path: Path) -> None:
    lines = ["NodeName=n[1-10000] Sockets=2 CoresPerSocket=4 RealMemory=1000 Gres=gpu:2 State=UNKNOWN"]
    lines += [f"PartitionName=p{i} Nodes=n[{i}-{i + 5000}]" for i in range(1, 20)] + ["DownNodes=n[5-9]"]
    lines += [f"SwitchName=s{i} Nodes=n[{i * 100 + 1}-{i * 100 + 100}]" for i in range(100)] + ["SwitchName=top Switches=s[0-99]"]
    assert conf(*lines).structure.n == 1 + 10_000 * 14 + 19 + 101
    node: dict[str, Any] = {"sockets": 2, "cores": 4, "cpus": 8, "real_memory": 1000, "gres": "gpu:2", "state": ["IDLE"]}
    node["partitions"] = ["a", "b"]
    text = json.dumps({"nodes": [{"name": f"n{i}", **node} for i in range(10_000)]})
    assert registry.read(text.encode()).structure.n == 1 + 10_000 * 14 + 2


# -- bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message", "where"),
    [
        (["NodeName=n1 CPUs=x"], "expected a number of at least 0, got 'x'", "slurm.conf:1: cpus"),
        (["", "NodeName=n1 CPU=4"], r"unknown key 'CPU' \(did you mean 'CPUs'", "slurm.conf:2"),
        (["NodeName=n1 corePerSocket=4"], r"unknown key 'corePerSocket' \(did you mean 'CoresPerSocket'", "slurm.conf:1"),
        (["NodeName=n1", "SwitchName=a Swtches=b"], r"unknown key 'Swtches' \(did you mean 'Switches'", "slurm.conf:2"),
        (["NodeName=n1 CPUs=4 CPUs=5"], "the key 'CPUs' is in this line twice", "slurm.conf:1"),
        (["NodeName=n1 CPUs"], "expected Key=Value, got 'CPUs'", "slurm.conf:1"),
        (["NodeName=n1 Features+=a"], "syntax for changes with scontrol", "slurm.conf:1"),
        (["NodeName=n[1-2 CPUs=1"], "bracket|]", "slurm.conf:1: nodename"),
        (["NodeName=n1 CPUs=1", "NodeName=n[0-3] CPUs=1"], "a second node 'n1'", "slurm.conf:2"),
        (["NodeName=DEFAULT CPUs=1"], "describes no node", "slurm.conf"),
        (['NodeName="" CPUs=1'], "names no node", "slurm.conf:1: nodename"),
        (["NodeName=n1", "PartitionName=p Nodes=n2"], "there is no node 'n2'", "slurm.conf:2"),
        (["NodeName=n1", "PartitionName=p State=OPEN"], "expected UP, DOWN, DRAIN or INACT.*'OPEN'", "slurm.conf:2: state"),
        (["NodeName=n1", "PartitionName=p", "PartitionName=p"], "a second partition 'p'", "slurm.conf:3"),
        (["NodeName=n1", "NodeSet=s Nodes=s", "PartitionName=p Nodes=s"], "contains itself", "slurm.conf:2: nodes"),
        (["NodeName=n1", "SwitchName=a Switches=b"], "there is no switch 'b'", "slurm.conf:2"),
        (["NodeName=n1", "SwitchName=a Node=b"], "unknown key 'Node'", "slurm.conf:2"),
        (["NodeName=n1", "SwitchName=a Nodes=n1", "SwitchName=a"], "a second switch 'a'", "slurm.conf:3"),
        (["NodeName=n1 Gres=gpu:a:b:1"], "expected name:type:count, got 'gpu:a:b:1'", "slurm.conf:1: gres"),
        (["NodeName=n1", "Name=gpu Cont=2"], "unknown key 'Cont'", "slurm.conf:2"),
        (["NodeName=n1", "Name=gpu Count=z"], "expected a number, got 'z'", "slurm.conf:2: count"),
        (["NodeName=n1", "include /etc/passwd"], "which is not in the directory", "slurm.conf:2"),
        (["NodeName=n1", "include nodes.conf"], "which is not in the directory", "slurm.conf:2"),
        (["NodeName=n1[2][3][4][5][6][7][8][9][1]"], "more than 8 brackets", "slurm.conf:1: nodename"),
        (["NodeName=n1 RealMemory=5 Gres=memory:2"], "two memory pools|second pool|id 0", "slurm.conf:1"),
    ],
)  # fmt: skip
def test_errors_have_a_place(lines: list[str], message: str, where: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        conf(*lines)
    assert caught.value.where == where


def test_a_typed_resource_takes_the_lines_of_its_type() -> None:
    devices = [f"Name=gpu Type={name} File=/dev/{name}{i}" for name in ("a", "b") for i in range(2)] + ["Name=nic File=/dev/n0"]
    found = conf("NodeName=n CPUs=1 Gres=gpu:b:2,gpu:a:1,nic:1,gpu:2", *devices).structure
    gpus = [properties(found, f"/cluster/n/gpu{i}") for i in range(5)]
    assert [(gpu.get("model"), gpu.get("file")) for gpu in gpus] == [
        ("b", "/dev/b0"), ("b", "/dev/b1"), ("a", "/dev/a0"), (None, None), (None, None),
    ]  # fmt: skip
    assert properties(found, "/cluster/n/nic0") == {"file": "/dev/n0"}
    # Without a type, the own data of a line counts, and other lines remain for others.
    found = conf("NodeName=n CPUs=1 Gres=gpu:3", *devices).structure
    assert [properties(found, f"/cluster/n/gpu{i}")["file"] for i in range(3)] == ["/dev/a0", "/dev/a1", "/dev/b0"]


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=n1\ninclude slurm.conf\n")
    with pytest.raises(LimitExceeded, match="include each other"):
        registry.read(tmp_path / "slurm.conf")
    (tmp_path / "slurm.conf").write_text("NodeName=n1\ninclude ../x\n")
    with pytest.raises(InputError, match="not in the directory"):
        registry.read(tmp_path / "slurm.conf")


def test_all_mistakes_of_a_configuration_are_listed_in_its_order(tmp_path: Path) -> None:
    lines = [
        "PartitionName=debug Nodes=n[0-3] MaxTime=abc State=on",
        "PartitionName=DEFAULT MaxNodes=few",
        "NodeName=DEFAULT CPUs=four",
        "NodeName=n[0-3] RealMemory=1000 Boord=1",
        "NodeName=n2",
        "NodeName=k[0-1] Gres=gpu:x:y:z TmpDisk=much",
        "PartitionName=batch Nodes=k0,z[0-9],z",
        "PartitionName=batch Nodes=ALL Default=perhaps",
        "SwitchName=s Switches=t",
    ]
    (tmp_path / "slurm.conf").write_text("\n".join(lines))
    (tmp_path / "gres.conf").write_text("Name=gpu Count=x Fil=a\n")
    with pytest.raises(InputError) as caught:
        registry.read(tmp_path / "slurm.conf")
    said = [str(one).replace(f"{tmp_path}/", "").split(" (")[0] for one in caught.value.mistakes]
    assert said == [
        "slurm.conf:1: maxtime: expected a time, got 'abc'",
        "slurm.conf:1: state: expected UP, DOWN, DRAIN or INACTIVE, got 'on'",
        "slurm.conf:2: maxnodes: expected a number of at least 0, got 'few'",
        "slurm.conf:3: cpus: expected a number of at least 0, got 'four'",
        "slurm.conf:4: unknown key 'Boord'",
        "slurm.conf:5: a second node 'n2'",
        "slurm.conf:6: gres: expected name:type:count, got 'gpu:x:y:z'",
        "slurm.conf:6: tmpdisk: expected a number of at least 0, got 'much'",
        "slurm.conf:7: there is no node 'z0'",
        "slurm.conf:8: default: expected YES or NO, got 'perhaps'",
        "slurm.conf:8: a second partition 'batch'",
        "slurm.conf:9: there is no switch 't'",
        "gres.conf:1: unknown key 'Fil'",
        "gres.conf:1: count: expected a number, got 'x'",
    ]


def test_many_mistakes_of_a_configuration_are_counted() -> None:
    with pytest.raises(InputError) as caught:
        conf("NodeName=n", *["NodeName=m CPUs"] * 30)
    assert len(caught.value.mistakes) == limits.MISTAKES_MAX
    assert str(caught.value).endswith("and at least 1 more mistake")
    with pytest.raises(InputError) as caught:
        conf("fluxres: 1", "name: demo", "NodeName=n[")
    assert len(caught.value.mistakes) == 1


@pytest.mark.parametrize("line", ["NodeName=n[0-3", "NodeName=n CPUs", "NodeSet= Nodes=m", "include missing.conf"])
def test_what_follows_from_a_line_that_cannot_be_read_is_no_other_mistake(line: str, tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(f"NodeName=m\n{line}\nPartitionName=batch Nodes=m,n0,n\nPartitionName=q MinNodes=x\n")
    with pytest.raises(InputError) as caught:
        registry.read(tmp_path / "slurm.conf")
    assert len(caught.value.mistakes) == 2
    assert caught.value.mistakes[-1].where.endswith("slurm.conf:4: minnodes")


@pytest.mark.parametrize(
    ("document", "message", "where"),
    [
        ({"nodes": [{"name": "a", "cpus": -1}]}, "expected", "<text>:1:34: nodes[0].cpus"),
        ({"nodes": [{"name": "a", "cpus": 1, "gres": "a:b:c:d"}]}, "expected name:type:count", "<text>:1:12: nodes[0].gres"),
        ({"nodes": [{"name": "a", "cpus": 1}, {"name": "a", "cpus": 1}]}, "a second node 'a'", "<text>"),
        ({"sinfo": [{"nodes": {"nodes": "a[1-"}}]}, "bracket|]", "<text>:1:12: sinfo[0].nodes.nodes"),
        (
            {"sinfo": [{"nodes": {"nodes": "a"}, "cpus": {"minimum": 1, "maximum": 2}}]},
            "nodes of 1 to 2",
            "<text>:1:12: sinfo[0].cpus",
        ),
        ({"sinfo": []}, "describes no node", "<text>"),
        (
            {"nodes": [{"name": "a", "real_memory": {"set": True, "number": 1e30}}]},
            "a number of at most 9007199254740992",
            "<text>:1:65: nodes[0].real_memory.number",
        ),
    ],
)
def test_errors_in_json_have_a_place(document: dict[str, Any], message: str, where: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        registry.read(json.dumps(document).encode(), format="slurm-json")
    assert caught.value.where == where


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([
    "NodeName=n[1-3] CPUs=2", "NodeName=DEFAULT Sockets=2", "NodeName=m", "PartitionName=p Nodes=ALL",
    "PartitionName=q Nodes=n1,m", "PartitionName=r Nodes=s", "NodeSet=s Nodes=m", "DownNodes=m State=FAIL",
    "SwitchName=a Nodes=n[1-2]", "SwitchName=b Switches=a,b",
    "Name=gpu File=/dev/x[0-1]", "NodeName=g Gres=gpu:x:2,mps:100", "ClusterName=c", "\\", "#",
]), max_size=8))  # fmt: skip
def test_lines_in_any_order_are_a_machine_or_an_error(lines: list[str]) -> None:
    try:
        loaded = registry.read("\n".join(lines).encode(), format="slurm")
    except FluxresError as error:
        assert error.where.startswith("<text>")  # noqa: PT017 - many examples do not raise
        return
    assert loaded.structure.n >= 2
