"""Machines of many kinds, from recorded trees: what is found, where it is, and what is said about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fluxres.errors import UsageError
from fluxres.formats.machine import this_machine
from fluxres.syntax import idset
from tests.formats.machine import trees
from tests.formats.machine.outline import notes, outline, said, sizes, values

OUTLINES = {
    "laptop": """\
└─ lap                    node
   └─ socket0                           model=Intel(R) Core(TM) Ultra 7 155H vendor=GenuineIntel
      ├─ core[0-5]    ×6                kind=performance
      ├─ core[6-13]   ×8                kind=efficiency
      ├─ core[14-15]  ×2                kind=low-power
      └─ memory0                31 GiB""",
    "epyc": """\
└─ dgx1                                           node
   └─ socket[0-1]                             ×2                 model=AMD EPYC 7742 64-Core Processor vendor=AuthenticAMD
      ├─ numa[0,2,4,6]                        ×2
      │  ├─ core[0-15,32-47,64-79,96-111]    ×16
      │  └─ memory[0,2,4,6]                             128 GiB
      └─ numa[1,3,5,7]                        ×2
         ├─ core[16-31,48-63,80-95,112-127]  ×16
         ├─ gpu[0-7]                          ×2                 model=NVIDIA A100-SXM4-40GB vendor=nvidia
         └─ memory[1,3,5,7]                             128 GiB""",
    "mi250x": """\
└─ nid005042                           node
   └─ socket0                                         model=AMD EPYC 7A53 64-Core Processor vendor=AuthenticAMD
      └─ numa[0-3]                 ×4
         ├─ core[0-63]            ×16
         ├─ gpu[4-5,2-3,6-7,0-1]   ×2                 model=gfx90a vendor=amd
         └─ memory[0-3]                      128 GiB""",
    "grace_hopper": """\
└─ gh200                  node
   └─ socket0
      ├─ core[0-71]  ×72
      ├─ gpu0                            model=NVIDIA GH200 480GB vendor=nvidia
      ├─ memory0                480 GiB
      └─ gpumemory1              96 GiB""",
    "container": """\
└─ 3f1c9d2b7a10           node
   └─ socket0                          model=Intel(R) Xeon(R) Gold 6338 CPU vendor=GenuineIntel
      ├─ core[0-1]    ×2
      └─ memory[0-1]  ×2        4 GiB""",
    "wsl": """\
└─ DESKTOP-7K2          node
   └─ socket0                           model=AMD Ryzen 7 5800X 8-Core Processor vendor=AuthenticAMD
      ├─ core[0-7]  ×8
      ├─ gpu0                           model=NVIDIA GeForce RTX 3080 vendor=nvidia
      └─ memory0              15.3 GiB""",
    "raspberry_pi": """\
└─ pi4                  node
   └─ socket0                          model=Raspberry Pi 4 Model B Rev 1.4
      ├─ core[0-3]  ×4
      └─ memory0              3.7 GiB""",
    "phone": """\
└─ rk3399               node
   └─ socket0
      ├─ core[0-3]  ×4                  kind=efficiency
      ├─ core[4-5]  ×2                  kind=performance
      └─ memory0              3.72 GiB""",
    "power9": """\
└─ sierra12                node
   ├─ socket0                             model=POWER9, altivec supported
   │  ├─ core[0-3]     ×4
   │  └─ memory0                 128 GiB
   └─ socket1                             model=POWER9, altivec supported
      ├─ core[4-7]     ×4
      ├─ gpu0                             model=Tesla V100-SXM2-16GB vendor=nvidia
      ├─ memory8                 128 GiB
      └─ gpumemory252             16 GiB""",
    "xeon_max": """\
└─ spr-hbm                node
   ├─ socket[0-1]     ×2                 model=Intel(R) Xeon(R) CPU Max 9480 vendor=GenuineIntel
   │  ├─ core[0-7]    ×4
   │  ├─ memory[0-1]            256 GiB
   │  └─ memory[2-3]             64 GiB  kind=HBM
   └─ memory4                   360 GiB  kind=CXL""",
    "virtual": """\
└─ vm7                     node
   └─ numa[0-1]        ×2
      ├─ socket[0-7]   ×4               model=QEMU Virtual CPU version 2.5+ vendor=AuthenticAMD
      │  └─ core[0-7]
      └─ memory[0-1]             4 GiB""",
}


@pytest.mark.parametrize("name", OUTLINES)
def test_pools(tmp_path: Path, name: str) -> None:
    getattr(trees, name)(tmp_path)
    found = this_machine(tmp_path, {})
    assert outline(found) == OUTLINES[name]
    assert found.notes == ()
    structure = found.structure
    node = structure.of_type("node").tolist()
    assert [structure.rank.item(v) for v in node] == [0]
    assert structure.where(node[0]) == f"/cluster/{found.name}"


def test_cores_have_the_numbers_of_their_cpus_and_ids_from_0(tmp_path: Path) -> None:
    trees.epyc(tmp_path)
    found = this_machine(tmp_path, {})
    assert values(found, "core", "cpus") == [f"{cpu},{cpu + 128}" for cpu in range(128)]
    assert sorted(found.structure.id[found.structure.of_type("core")].tolist()) == list(range(128))


def test_efficient_cores_have_one_cpu(tmp_path: Path) -> None:
    trees.laptop(tmp_path)
    assert values(this_machine(tmp_path, {}), "core", "cpus")[4:8] == ["8-9", "10-11", "12", "13"]


def test_numa_numbers_stay_those_of_the_kernel(tmp_path: Path) -> None:
    trees.power9(tmp_path)
    found = this_machine(tmp_path, {})
    assert sizes(found) == {0: 128 << 10, 8: 128 << 10}
    assert sizes(found, "gpumemory") == {252: 16 << 10}
    assert values(found, "core", "cpus") == ["0", "4", "8", "12", "16", "20", "24", "28"]


def test_what_was_seen_and_where(tmp_path: Path) -> None:
    trees.container(tmp_path)
    assert said(this_machine(tmp_path, {}), tmp_path) == [
        "CPUs 8-15,72-79, 16 of 128 that are online (/proc/self/status)",
        "8 cores in 1 socket (/sys/devices/system/cpu/cpu*/topology)",
        "quota of 2.5 CPUs: 2 cores, each on any of these CPUs (/sys/fs/cgroup/cpu.max)",
        "memory of 8192 MiB in 2 NUMA domains, limited by /sys/fs/cgroup/memory.max (/sys/devices/system/node/node*/meminfo)",
        "no GPU of nvidia, amd, intel",
    ]


def test_what_was_seen_of_gpus_and_kinds_of_cores(tmp_path: Path) -> None:
    tree = trees.laptop(tmp_path)
    tree.nvidia("0000:01:00.0", 0, "GPU-1", model="NVIDIA RTX A1000")
    tree.kfd_gpu(1, 129, "0000:05:00.0", version=110000)
    assert said(this_machine(tmp_path, {"CUDA_VISIBLE_DEVICES": "0"}), tmp_path)[1:] == [
        "16 cores in 1 socket: 6 performance, 8 efficiency, 2 low-power (/sys/devices/system/cpu/cpu*/topology)",
        "memory of 31738 MiB (/proc/meminfo)",
        "1 GPU: 1 NVIDIA RTX A1000 (/proc/driver/nvidia/gpus, CUDA_VISIBLE_DEVICES=0)",
        "1 GPU: 1 gfx1100 (/sys/class/kfd/kfd/topology/nodes)",
    ]


# -- the place of NUMA domains -----------------------------------------------------------------------------------------------


def test_one_domain_around_several_sockets_is_not_a_pool(tmp_path: Path) -> None:
    tree = trees.Tree(tmp_path)
    tree.host("n1", 4 * trees.GIB)
    tree.cpus([(0,), (1,)], [[0], [1]])
    tree.numa({0: (range(2), 4 * trees.GIB)})
    tree.nvidia("0000:01:00.0", 0, "GPU-1", numa=0)
    assert (
        outline(this_machine(tmp_path, {}))
        == """\
└─ n1                   node
   ├─ socket[0-1]   ×2
   │  └─ core[0-1]
   ├─ gpu0                           model=NVIDIA A100-SXM4-40GB vendor=nvidia
   └─ memory0                 4 GiB"""
    )


def test_domains_across_sockets_are_apart_from_them(tmp_path: Path) -> None:
    tree = trees.Tree(tmp_path)
    tree.host("n1", 4 * trees.GIB)
    tree.cpus([(cpu,) for cpu in range(4)], [[0, 1], [2, 3]])
    tree.numa({0: ([0, 2], 2 * trees.GIB), 1: ([1, 3], 2 * trees.GIB)})
    assert (
        outline(this_machine(tmp_path, {}))
        == """\
└─ n1                   node
   ├─ socket[0-1]   ×2
   │  └─ core[0-3]  ×2
   └─ memory[0-1]   ×2        2 GiB"""
    )


def test_memory_of_a_socket_whose_cpus_are_not_allowed_is_in_the_node(tmp_path: Path) -> None:
    tree = trees.epyc(tmp_path)
    tree.status("0-15", "0-7")
    found = this_machine(tmp_path, {}, range(16))
    structure = found.structure
    places = {structure.where(v) for v in structure.of_type("memory").tolist()}
    assert places == {"/cluster/dgx1/socket0/memory0", *(f"/cluster/dgx1/memory{at}" for at in range(1, 8))}
    assert {structure.where(v) for v in structure.of_type("gpu").tolist()} == {f"/cluster/dgx1/gpu{at}" for at in range(8)}


def test_gpu_of_an_unknown_domain_is_in_the_node(tmp_path: Path) -> None:
    tree = trees.virtual(tmp_path)
    tree.nvidia("0000:00:05.0", 0, "GPU-1", numa=-1)
    structure = this_machine(tmp_path, {}).structure
    assert structure.where(structure.of_type("gpu").item(0)) == "/cluster/vm7/gpu0"


# -- names and options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("n1.cluster.example.org", "/cluster/n1"),
        ("n007", "/cluster/n007"),
        ("42", "/cluster/42"),
        ("login", "/cluster/login"),
        ("n" + "1" * 30, "/cluster/n" + "1" * 30),
        ("(none)", "/cluster/node0"),
        ("", "/cluster/node0"),
        ("a/b", "/cluster/node0"),
        ("\x07", "/cluster/node0"),
        ("x" * 300, "/cluster/node0"),
    ],
)
def test_node_has_the_short_name_of_the_host(tmp_path: Path, host: str, path: str) -> None:
    trees.Tree(tmp_path).write("proc/sys/kernel/hostname", f"{host}\n")
    found = this_machine(tmp_path, {}, [0])
    assert found.structure.where(1) == path
    assert f"/cluster/{found.name}" == path


@pytest.mark.parametrize(
    ("detect", "types"),
    [
        ("all", {"socket", "numa", "core", "gpu", "memory"}),
        ("cpus", {"socket", "numa", "core"}),
        ("cpus, mem", {"socket", "numa", "core", "memory"}),
        ("mem", {"memory"}),
        ("gpus", {"gpu"}),
        ("gpus/amd", {"gpu"}),
        ("gpus/nvidia,gpus/intel", set[str]()),
    ],
)
def test_only_a_part_is_detected(tmp_path: Path, detect: str, types: set[str]) -> None:
    trees.mi250x(tmp_path)
    structure = this_machine(tmp_path, {}, detect=detect).structure
    assert {structure.kind_of(v).type for v in range(structure.n)} == types | {"cluster", "node"}


@pytest.mark.parametrize("detect", ["", "gpu", "cpus,,mem", "cpus;mem", "\0"])
def test_unknown_parts_are_refused(tmp_path: Path, detect: str) -> None:
    with pytest.raises(UsageError, match=r"^this-machine:detect: unknown part .*\((did you mean|known)"):
        this_machine(tmp_path, {}, detect=detect)


@pytest.mark.parametrize("name", ["", "a/b", "\n", "x" * 300])
def test_impossible_names_of_the_cluster_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="expected a name for the cluster"):
        this_machine(tmp_path, {}, cluster=name)


def test_nothing_at_all(tmp_path: Path) -> None:
    found = this_machine(tmp_path, {})
    assert [found.structure.where(v) for v in range(found.structure.n)] == ["/cluster", "/cluster/node0"]
    assert notes(found, tmp_path) == ["/sys/devices/system/cpu: no CPU is known", "/proc/meminfo: no memory is known"]


def test_the_affinity_of_the_caller_counts(tmp_path: Path) -> None:
    trees.epyc(tmp_path)
    found = this_machine(tmp_path, {}, idset.parse("3,5-6,131"))
    assert values(found, "core", "cpus") == ["3,131", "5", "6"]
    assert said(found, tmp_path)[0] == "CPUs 3,5-6,131, 4 of 256 that are online (affinity mask)"
