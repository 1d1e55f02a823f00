"""What Slurm says of a machine, in its files and in JSON, is the machine it schedules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fluxres
from fluxres.errors import FluxresError, InputError, LimitExceeded
from fluxres.formats import registry, slurm_gres, slurm_schema
from fluxres.formats.loaded import Loaded
from fluxres.formats.slurm_lines import Line
from fluxres.formats.slurm_nodes import state_of
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
        ("CPUs=4", {"core": 4}),
        ("", {"core": 1}),
        ("Procs=3", {"core": 3}),
        ("Sockets=2 CoresPerSocket=8", {"socket": 2, "core": 16}),
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8, "pu": 16}),
        ("CPUs=16 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8, "pu": 16}),
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8}),
        ("CPUs=7 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", {"socket": 2, "core": 8, "pu": 16}),
        ("CoresPerSocket=4", {"socket": 1, "core": 4}),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=4", {"board": 2, "socket": 4, "core": 16}),
        ("Boards=2 Sockets=4 CoresPerSocket=1", {"board": 2, "socket": 4, "core": 4}),
        ("boards=1 SOCKETS = 1 corespersocket=2 RealMemory=100 TmpDisk=5", {"socket": 1, "core": 2, "memory": 1, "disk": 1}),
        ("CPUs=2 Gres=gpu:a100:2,gpu:v100:1,craynetwork:4,nic:2", {"core": 2, "gpu": 3, "craynetwork": 1, "nic": 2}),
        ("CPUs=1 Gres=(null)", {"core": 1}),
    ],
)
def test_a_node_has_what_its_numbers_say(text: str, expected: dict[str, int]) -> None:
    assert counts(conf(f"NodeName=n1 {text}").structure, "/cluster/n1") == expected


def test_sizes_units_and_features() -> None:
    found = conf('NodeName=n1 RealMemory=512 TmpDisk=7 Features="a, b,c" Weight=3 Gres=lustre:no_consume:4G').structure
    memory, disk, lustre = (found.vertex(f"/cluster/n1/{name}") for name in ("memory0", "disk0", "lustre0"))
    assert [(found.size[v], found.kind_of(v).unit) for v in (memory, disk)] == [(512, "MiB"), (7, "MiB")]
    assert (found.size[lustre], properties(found, "/cluster/n1/lustre0")) == (4 << 30, {"no_consume": None})
    assert properties(found, "/cluster/n1") == {"a": None, "b": None, "c": None, "weight": "3"}


def test_hosts_are_named_in_order_and_ranked() -> None:
    found = conf("NodeName=rack[0-1]node[1-2] CPUs=1", "NodeName=a9,a10 CPUs=1").structure
    nodes = found.of_type("node").tolist()
    assert [found.name(v) for v in nodes] == ["rack0node1", "rack0node2", "rack1node1", "rack1node2", "a9", "a10"]
    assert found.rank[nodes].tolist() == list(range(6))


def test_defaults_hold_for_the_lines_behind_them() -> None:
    found = conf(
        "NodeName=a CPUs=1", "NodeName=DEFAULT CPUs=2 RealMemory=5", "NodeName=b", "NodeName=c CPUs=3", "NodeName=DEFAULT CPUs=4",
        "NodeName=d",
    ).structure  # fmt: skip
    assert [counts(found, f"/cluster/{name}").get("core") for name in "abcd"] == [1, 2, 3, 4]
    assert [counts(found, f"/cluster/{name}").get("memory") for name in "abcd"] == [None, 1, 1, 1]


def test_lines_go_on_and_comments_end() -> None:
    found = conf("# NodeName=x", "NodeName=a \\", "  CPUs=2 \\  ", "RealMemory=3 # CPUs=9", "", "MailProg=x (y) z").structure
    assert counts(found, "/cluster/a") == {"core": 2, "memory": 1}
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
    assert found.tags[found.vertex("/cluster/b")] == {"reason": "disc"}


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


def test_devices_of_gres_conf_are_told_apart() -> None:
    found = registry.read(SITE).structure
    gpus = [f"/tioga/tioga01/gpu{i}" for i in range(4)]
    assert [properties(found, gpu)["file"] for gpu in gpus] == [f"/dev/dri/renderD{i}" for i in range(128, 132)]
    assert [properties(found, gpu)["cores"] for gpu in gpus] == ["0-3", "0-3", "4-7", "4-7"]
    assert properties(found, gpus[3]) == {"model": "mi250", "file": "/dev/dri/renderD131", "cores": "4-7", "links": "-1,2"}
    assert properties(found, "/tioga/tioga05/gpu1") == {}


def test_types_come_from_gres_conf_where_the_node_has_none() -> None:
    lines = ["NodeName=n[1-2] Gres=gpu:3", "Name=gpu Type=a100 Count=2", "NodeName=n2 Name=gpu Type=v100 File=/dev/x0"]
    found = conf(*lines).structure
    assert [properties(found, f"/cluster/n1/gpu{i}").get("model") for i in range(3)] == ["a100", "a100", None]
    assert [properties(found, f"/cluster/n2/gpu{i}").get("model") for i in range(3)] == ["a100", "a100", "v100"]


# -- partitions and switches ---------------------------------------------------------------------------------------------


def test_partitions_are_properties_of_nodes_and_pools_of_a_graph() -> None:
    found = registry.read(SITE).structure
    graph = fluxres.load(SITE)
    assert graph.find("property=partition-debug").paths()[-1] == "/tioga/rack1node2"
    assert len(graph.find("property=partition-debug")) == 7
    partitions = found.subsystems["partitions"]
    assert not partitions.hierarchy
    assert [found.name(v) for v in partitions.roots().tolist()] == ["batch", "debug", "all"]
    batch, debug, every = partitions.roots().tolist()
    assert dict(found.kind_of(batch).properties) == {"maxtime": "24:00:00", "default": "YES", "prioritytier": "10"}
    assert dict(found.kind_of(debug).properties) == {"maxtime": "30"}
    assert [found.state_name(v) for v in (batch, debug, every)] == ["up", "up", "drain"]
    assert min(found.name(v) for v in partitions.successors(batch).tolist()) == "rack0node0"
    assert len(partitions.successors(every)) == 13


def test_switches_are_a_hierarchy() -> None:
    found = registry.read(SITE).structure
    network = found.subsystems["network"]
    assert network.hierarchy
    assert found.uris(found.vertex("/tioga/tioga03"))[1] == "network:/spine/leaf0/tioga03"
    assert [edge["capacity"] for _, _, edge in network.rows() if "capacity" in edge] == [100.0] * 6


def test_switches_that_are_no_tree_are_a_graph() -> None:
    found = conf("NodeName=n[1-2] CPUs=1", "SwitchName=a Nodes=n[1-2]", "SwitchName=b Nodes=n1", "BlockName=c Nodes=n2").structure
    assert not found.subsystems["network"].hierarchy
    assert [found.kind_of(v).type for v in range(found.tree_end, found.n)] == ["switch", "switch", "block"]


def test_files_beside_slurm_conf_are_read(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=c\ninclude nodes.conf\nPartitionName=p Nodes=ALL\n")
    (tmp_path / "nodes.conf").write_text("NodeName=n[1-2] CPUs=2 Gres=gpu:1\n")
    (tmp_path / "gres.conf").write_text("NodeName=n2 Name=gpu Type=a100 File=/dev/nvidia0\n")
    (tmp_path / "topology.conf").write_text("SwitchName=s Nodes=n[1-2]\n")
    loaded = registry.read(tmp_path / "slurm.conf", format="slurm")
    assert loaded.name == "c"
    assert properties(loaded.structure, "/c/n2/gpu0") == {"model": "a100", "file": "/dev/nvidia0"}
    assert loaded.structure.uris(loaded.structure.vertex("/c/n1"))[1] == "network:/s/n1"


# -- JSON ----------------------------------------------------------------------------------------------------------------


def test_the_answers_of_commands() -> None:
    nodes = registry.read(ROOT / "data" / "fuzz" / "slurm-json" / "scontrol.json").structure
    assert counts(nodes, "/tioga/n1") == {"socket": 2, "core": 8, "pu": 16, "memory": 1, "gpu": 2}
    assert counts(nodes, "/tioga/n2") == {"socket": 2, "core": 8, "memory": 1, "disk": 1}
    assert nodes.state_name(nodes.vertex("/tioga/n2")) == "drain"
    groups = registry.read(ROOT / "data" / "fuzz" / "slurm-json" / "sinfo.json").structure
    assert [groups.name(v) for v in groups.of_type("node").tolist()] == ["n1", "n2", "n4", "n3"]
    assert properties(groups, "/tioga/n4") == {"amd": None, "partition-batch": None, "partition-debug": None}
    assert groups.state_name(groups.vertex("/tioga/n3")) == "down"


def test_the_cluster_is_called_as_the_answer_says() -> None:
    meta = {"slurm": {"cluster": "ridge"}, "plugin": {}}
    answer: dict[str, Any] = {"sinfo": [{"nodes": {"nodes": "a"}}], "meta": meta}
    assert registry.read(json.dumps(answer).encode(), format="slurm-json").structure.path(1) == "/ridge/a"
    answer = {"nodes": [{"name": "a", "cluster_name": "own"}], "meta": meta}
    assert registry.read(json.dumps(answer).encode(), format="slurm-json").structure.path(1) == "/own/a"


def test_nodes_that_save_power_take_work() -> None:
    assert state_of(["IDLE~"]) == state_of(["IDLE", "POWERED_DOWN"]) == state_of(["IDLE", "CLOUD", "POWERING_DOWN"]) == "up"
    assert state_of(["DOWN", "POWERED_DOWN"]) == "down"


def test_a_comment_within_quotes_is_told() -> None:
    with pytest.raises(InputError, match="'#' begins a comment") as found:
        conf("NodeName=a", 'DownNodes=a Reason="bad DIMM, ticket #7"')
    assert found.value.where == "slurm.conf:2"


def test_the_schema_in_specs_is_the_one_of_the_code() -> None:
    written = json.loads((ROOT / "specs" / "slurm.schema.json").read_text())
    assert written == slurm_schema.json_schema()
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
        (["NodeName=n1 CPUs=x"], "expected a number >= 1, got 'x'", "slurm.conf:1: cpus"),
        (["NodeName=n1 CPUs=0"], "expected a number >= 1, got 0", "slurm.conf:1: cpus"),
        (["", "NodeName=n1 CPU=4"], r"unknown key 'cpu' \(did you mean 'cpus'", "slurm.conf:2"),
        (["NodeName=n1 CPUs=4 CPUs=5"], "the key 'CPUs' stands in this line twice", "slurm.conf:1"),
        (["NodeName=n1 CPUs"], "expected Key=Value, got 'CPUs'", "slurm.conf:1"),
        (["NodeName=n1 Features+=a"], "changes what scontrol has", "slurm.conf:1"),
        (["NodeName=n[1-2 CPUs=1"], "bracket|]", "slurm.conf:1: nodename"),
        (["NodeName=n1 CPUs=1", "NodeName=n[0-3] CPUs=1"], "a second node 'n1'", "slurm.conf:2"),
        (["NodeName=DEFAULT CPUs=1"], "describes no node", "slurm.conf"),
        (['NodeName="" CPUs=1'], "names no node", "slurm.conf:1: nodename"),
        (["NodeName=n1", "PartitionName=p Nodes=n2"], "there is no node 'n2'", "slurm.conf:2"),
        (["NodeName=n1", "PartitionName=p State=OPEN"], "expected UP, DOWN, DRAIN or INACT.*'OPEN'", "slurm.conf:2: state"),
        (["NodeName=n1", "PartitionName=p", "PartitionName=p"], "a second partition 'p'", "slurm.conf:3"),
        (["NodeName=n1", "NodeSet=s Nodes=s", "PartitionName=p Nodes=s"], "contains itself", "slurm.conf:2: nodes"),
        (["NodeName=n1", "SwitchName=a Switches=b"], "there is no switch 'b'", "slurm.conf:2"),
        (["NodeName=n1", "SwitchName=a Node=b"], "unknown key 'node'", "slurm.conf:2"),
        (["NodeName=n1", "SwitchName=a Nodes=n1", "SwitchName=a"], "a second switch 'a'", "slurm.conf:3"),
        (["NodeName=n1", "DownNodes=n2"], "there is no node 'n2'", "slurm.conf:2: downnodes"),
        (["NodeName=n1 Boards=2 Sockets=3"], "3 sockets on 2 boards", "slurm.conf:1: sockets"),
        (["NodeName=n1 Boards=2 Sockets=2 SocketsPerBoard=2"], "where 2 boards have 2 each", "slurm.conf:1: sockets"),
        (["NodeName=n1 Gres=gpu:a:b:1"], "expected name:type:count, got 'gpu:a:b:1'", "slurm.conf:1: gres"),
        (["NodeName=n1", "Name=gpu Cont=2"], "unknown key 'cont'", "slurm.conf:2"),
        (["NodeName=n1", "Name=gpu Count=z"], "expected a number, got 'z'", "slurm.conf:2: count"),
        (["NodeName=n1", "include /etc/passwd"], "which is not beside", "slurm.conf:2"),
        (["NodeName=n1", "include nodes.conf"], "which is not beside", "slurm.conf:2"),
        (["NodeName=n1[2][3][4][5][6][7][8][9][1]"], "more than 8 brackets", "slurm.conf:1: nodename"),
        (["NodeName=n1 Gres=core:2"], "two core pools|second pool|id 0", "slurm.conf:1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(lines: list[str], message: str, where: str) -> None:
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
    # Without a type, what a line says of its own counts, and lines stay for others.
    found = conf("NodeName=n CPUs=1 Gres=gpu:3", *devices).structure
    assert [properties(found, f"/cluster/n/gpu{i}")["file"] for i in range(3)] == ["/dev/a0", "/dev/a1", "/dev/b0"]


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("NodeName=n1\ninclude slurm.conf\n")
    with pytest.raises(LimitExceeded, match="include each other"):
        registry.read(tmp_path / "slurm.conf")
    (tmp_path / "slurm.conf").write_text("NodeName=n1\ninclude ../x\n")
    with pytest.raises(InputError, match="not beside"):
        registry.read(tmp_path / "slurm.conf")


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
            "number and <= 9007199254740992",
            "<text>:1:65: nodes[0].real_memory.number",
        ),
    ],
)
def test_what_is_wrong_in_json_is_told_with_its_place(document: dict[str, Any], message: str, where: str) -> None:
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
def test_lines_in_any_order_are_a_machine_or_a_message(lines: list[str]) -> None:
    try:
        loaded = registry.read("\n".join(lines).encode(), format="slurm")
    except FluxresError as error:
        assert error.where.startswith("<text>")  # noqa: PT017 - many examples do not raise
        return
    assert loaded.structure.n >= 2
