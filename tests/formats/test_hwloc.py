"""hwloc XML of three versions: a node with the resources that a scheduler allocates."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fluxres import limits, load
from fluxres.documents.source import Source
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.formats import registry
from fluxres.formats.hwloc import cluster as hwloc
from fluxres.formats.hwloc import cluster as hwloc_cluster
from fluxres.formats.hwloc.pools import TYPES, kept
from fluxres.graph.structure import Structure
from tests.traceability import ROOT

SAMPLES = ROOT / "data" / "fuzz" / "hwloc"


def sample(name: str, **options: str) -> Structure:
    return hwloc.read(Source.open(SAMPLES / f"{name}.xml"), origin=0, **options).structure


def paths(s: Structure, *types: str) -> dict[str, int]:
    """Size by path of the pools of some types."""
    return {s.path(v): s.size.item(v) for v in range(s.n) if not types or s.kind_of(v).type in types}


def of_xml(below: str, machine: str = "") -> Structure:
    text = f'<topology version="2.0"><object type="Machine" cpuset="0xff" {machine}>\n{below}\n</object></topology>'
    return hwloc.read(Source(text.encode()), origin=0).structure


# -- what becomes of a node ----------------------------------------------------------------------------------------------


def test_a_node_with_devices() -> None:
    s = sample("gpu-node")
    assert paths(s) == {
        "/tioga12": 1,
        "/tioga12/socket0": 1,
        "/tioga12/socket0/l3cache0": 33554432,
        **{f"/tioga12/socket0/l3cache0/core{core}": 1 for core in (0, 1)},
        **{f"/tioga12/socket0/l3cache0/core{core}/pu{core}": 1 for core in (0, 1)},
        "/tioga12/socket0/memory0": 274877906944,
        "/tioga12/socket0/gpu1": 1,
        "/tioga12/socket0/hsn0": 1,
        "/tioga12/socket1": 1,
        "/tioga12/socket1/l3cache1": 33554432,
        **{f"/tioga12/socket1/l3cache1/core{core}": 1 for core in (2, 3)},
        **{f"/tioga12/socket1/l3cache1/core{core}/pu{core}": 1 for core in (2, 3)},
        "/tioga12/socket1/memory1": 274877902848,
        "/tioga12/socket1/nvme0n1": 1562813784 * 1024,
        "/tioga12/socket1/gpu0": 1,
        "/tioga12/socket1/coproc0": 1,
        "/tioga12/gpumemory2": 68719476736,
    }
    facts = {s.path(v): dict(s.kind_of(v).properties) for v in range(s.n) if s.kind_of(v).properties}
    assert facts["/tioga12/socket0"] == {"vendor": "AuthenticAMD", "model": "AMD EPYC 7A53 64-Core Processor"}
    assert facts["/tioga12/socket0/gpu1"] == {
        "vendor": "AMD",
        "model": "AMD INSTINCT MI250X",
        "pci": "1002:7408",
        "memory_bytes": 67092480 * 1024,
    }
    assert facts["/tioga12/socket0/hsn0"] == {"vendor": "Cray Inc", "pci": "17db:0501"}
    disk = {"vendor": "Samsung Electronics Co Ltd", "model": "SAMSUNG MZWLL1T6HEHP", "kind": "Disk", "pci": "144d:a822"}
    assert facts["/tioga12/socket1/nvme0n1"] == disk
    assert facts["/tioga12/socket1/coproc0"] == {"vendor": "NEC Corporation", "kind": "VectorEngine", "pci": "1bcf:001c"}
    node, core = s.vertex("/tioga12"), s.vertex("/tioga12/socket0/l3cache0/core1")
    assert (s.kind_of(node).basename, s.id.item(node), s.rank.item(core)) == ("tioga", 12, 0)
    assert {s.kind_of(v).unit for v in range(s.n) if s.kind_of(v).type in ("memory", "l3cache", "storage")} == {"B"}


def test_console_graphics_chip_is_not_a_gpu() -> None:
    assert len(paths(sample("gpu-node"), "gpu")) == 2


def test_numa_nodes_of_version_1_are_siblings_of_their_cores() -> None:
    s = sample("version1")
    assert paths(s, "socket", "numa", "memory", "l3cache", "gpu") == {
        "/old003/socket0": 1,
        "/old003/socket0/numa0": 1,
        "/old003/socket0/numa0/memory0": 16777216000,
        "/old003/socket0/numa0/gpu0": 1,
        "/old003/socket0/l3cache0": 8388608,
        "/old003/socket0/l3cache0/memory1": 17179869184,
        "/old003/socket1": 1,
        "/old003/socket1/memory2": 17179869184,
    }
    assert s.path(s.vertex("/old003/socket1/core4/pu5")) == "/old003/socket1/core4/pu5"
    gpu = dict(s.kind_of(s.vertex("/old003/socket0/numa0/gpu0")).properties)
    assert gpu == {"model": "Tesla K20X", "memory_bytes": 5898240 * 1024, "pci": "10de:1021"}


def test_version_3_has_more_data_on_devices_and_the_machine() -> None:
    s = sample("version3")
    assert paths(s, "node", "storage", "gpu", "nic") == {"/new": 1, "/new/vda": 1 << 38, "/new/gpu0": 1, "/new/eth0": 1}
    assert dict(s.kind_of(s.vertex("/new/socket0/memory0")).properties) == {"kind": "HBM"}


def test_memory_of_two_kinds_in_one_numa_domain() -> None:
    s = sample("hbm")
    assert paths(s, "numa", "memory") == {
        "/hbm/socket0/numa0": 1,
        "/hbm/socket0/numa0/memory0": 1 << 30,
        "/hbm/socket0/numa0/memory1": 1 << 29,
        "/hbm/socket0/numa1": 1,
        "/hbm/socket0/numa1/memory2": 1 << 30,
    }


@pytest.mark.parametrize(
    ("host", "name", "basename", "number"),
    [
        ("n7", "n7", "n", 7),
        ("node003", "node003", "node", 3),
        ("login", "login", "login", -1),
        ("42", "42", "node", 42),
        ("r1-n2", "r1-n2", "r1-n", 2),
        ("x" + "1" * 30, "x" + "1" * 30, "x" + "1" * 30, -1),
        ("a${id}1", "a${id}1", "a${id}", 1),
    ],
)
def test_names_of_nodes(host: str, name: str, basename: str, number: int) -> None:
    s = of_xml(f'<info name="HostName" value="{host}"/>')
    assert (s.name(0), s.kind_of(0).basename, s.id.item(0)) == (name, basename, number)


# -- devices -------------------------------------------------------------------------------------------------------------


def pci(inner: str, class_: str = "0302", ids: str = "10de:20b0") -> str:
    return f'<object type="Bridge"><object type="PCIDev" pci_type="{class_} [{ids}]">{inner}</object></object>'


def osdev(name: str, type_: int, subtype: str = "", infos: str = "") -> str:
    return f'<object type="OSDev" name="{name}" osdev_type="{type_}" subtype="{subtype}">{infos}</object>'


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        # One card, whatever its name, with the number that CUDA gives it.
        (pci(osdev("card1", 1) + osdev("renderD128", 1) + osdev("nvml3", 1, "NVML") + osdev("cuda2", 5, "CUDA")), ["gpu2"]),
        # A device that no driver and no library names cannot be used.
        (pci("", "0302") + pci("", "0380") + pci("", "0300") + pci("", "0106") + pci("", "1200"), []),
        (pci(osdev("mic0", 5, "MIC"), "0b40") + pci(osdev("ve0", 5, "VectorEngine"), "1200"), ["coproc0", "coproc1"]),
        (pci(osdev("renderD128", 1), "0300"), ["gpu0"]),
        # A number that is listed twice is ignored.
        (pci(osdev("cuda1", 5, "CUDA")) + pci(osdev("cuda1", 5, "CUDA")), ["gpu0", "gpu1"]),
        (pci(osdev("rsmi1", 1)) + pci(osdev("rsmi0", 1)), ["gpu1", "gpu0"]),
        # The most reliable library decides how many GPUs a function is; several libraries do not add up.
        (pci("".join(osdev(f"rsmi{i}", 1, "RSMI") for i in range(6)), "1200"), [f"gpu{i}" for i in range(6)]),
        (
            pci("".join(osdev(f"rsmi{i}", 1) + osdev(f"opencl0d{i}", 5) for i in range(3)) + osdev("card0", 1), "1200")
            + pci("".join(osdev(f"rsmi{i}", 1) + osdev(f"opencl0d{i}", 5) for i in range(3, 6)), "1200"),
            [f"gpu{i}" for i in range(6)],
        ),
        (pci(osdev("rsmi0", 1) + "".join(osdev(f"opencl0d{i}", 5) for i in range(4)), "1200"), ["gpu0"]),
        (pci(osdev("opencl0d3", 5) + osdev("nvml3", 1) + osdev("cuda0", 5)), ["gpu0"]),
        (pci(osdev("opencl0d0", 5) + osdev("opencl1d0", 5)), ["gpu0"]),
        (pci(osdev("opencl0d0", 5) + osdev("opencl0d1", 5) + osdev("opencl1d0", 5)), ["gpu0", "gpu1"]),
        (pci(osdev("ze0", 5, "LevelZero", "") + osdev("ze0.0", 5) + osdev("ze0.1", 5), "0380"), ["gpu0"]),
        (pci(osdev("ze0", 5) + osdev("ze1", 5) + osdev("opencl0d0", 5), "0380"), ["gpu0", "gpu1"]),
        # A driver without a library is counted where no library names any GPU.
        (pci(osdev("renderD128", 1)) + pci(osdev("card1", 1)), ["gpu0"]),
        (pci(osdev("renderD128", 1), "0300") + pci(osdev("cuda0", 5)), ["gpu0"]),
        (pci(osdev("opencl0d0", 5, "OpenCL"), "0b40"), ["coproc0"]),
        # Their places are unknown: the names of one library are counted, and OpenCL on processors is not a GPU.
        (osdev("cuda0", 5, "CUDA") + osdev("cuda1", 5, "CUDA") + osdev("opencl0d0", 5, "OpenCL"), ["gpu0", "gpu1"]),
        (osdev("opencl0d0", 5, "OpenCL", '<info name="OpenCLDeviceType" value="CPU"/>'), []),
        (pci(osdev("eth0", 2) + osdev("mlx5_0", 3) + osdev("eth1", 2), "0200"), ["eth0"]),
        (pci(osdev("mlx5_0", 3), "0207"), ["mlx5_0"]),
        (osdev("eth0", 2), ["eth0"]),
        (pci(osdev("sda", 0) + osdev("sdb", 0), "0106"), ["sda", "sdb"]),
        # A name that a pool of another type may have is not used, nor one that is listed twice or has another meaning.
        (pci(osdev("core0", 2), "0200") + pci(osdev("a/b", 2), "0200"), ["nic0", "nic1"]),
        (pci(osdev("${id}", 2), "0200"), ["nic0"]),
        (pci(osdev("sda", 0), "0106") + pci(osdev("sda", 0), "0106"), ["sda", "storage1"]),
        (osdev("dma0", 4) + pci("", "0604"), []),
    ],
)
def test_device_types_follow_from_their_function(xml: str, expected: list[str]) -> None:
    s = of_xml(xml)
    assert [s.name(v) for v in range(1, s.n)] == expected


def test_gpu_partitions_are_distinct() -> None:
    infos = '<info name="GPUModel" value="MI300A"/><info name="RSMIVRAMSize" value="%d"/>'
    names = "".join(osdev(f"rsmi{i}", 1, "RSMI", infos % (1000 + i)) for i in (5, 4, 3))
    s = of_xml(pci(names, "1200", "1002:74a0"))
    assert [(s.name(v), dict(s.kind_of(v).properties)["memory_bytes"]) for v in range(1, s.n)] == [
        (f"gpu{i}", (1000 + i) * 1024) for i in (5, 4, 3)
    ]


def test_gpus_that_are_not_counted_are_noted() -> None:
    xml = pci("", "0302") + pci("", "0380") + pci(osdev("renderD128", 1)) + pci(osdev("cuda0", 5)) + pci("", "1200")
    text = f'<topology><object type="Machine">{xml}</object></topology>'.encode()
    assert hwloc.read(Source(text, "x.xml")).notes == (
        "x.xml: left out: GPUs that only PCI lists, without a driver or a library for them (2)",
        "x.xml: left out: GPUs that no library names, while it names others (1)",
        "x.xml: left out: coprocessors that only PCI lists, without a driver or a library for them (1)",
    )
    assert hwloc.read(Source(text, "x.xml"), keep="core,nic").notes == ()


@pytest.mark.parametrize(("given", "size", "unit"), [("1000", 1024000, "B"), ("8KiB", 8192, "B"), ("0", 1, None), ("x", 1, None)])
def test_sizes_of_disks(given: str, size: int, unit: str | None) -> None:
    s = of_xml(osdev("sda", 0, "", f'<info name="Size" value="{given}"/>'))
    assert (s.size.item(1), s.kind_of(1).unit) == (size, unit)


def test_volume_id_is_not_a_model() -> None:
    disk = osdev("sda", 0, "", '<info name="Model" value="LVM PV ab-cd on /dev/sda"/>')
    s = of_xml(pci(disk + '<info name="PCIDevice" value="SSD"/>'))
    assert dict(s.kind_of(s.vertex("/node0/sda")).properties)["model"] == "SSD"


# -- what the machine allows ----------------------------------------------------------------------------------------------


def node(*objects: str, version: str = ' version="2.0"', **sets: str) -> bytes:
    """A machine with sets of processors and memory."""
    given = " ".join(f'{key}="{value}"' for key, value in sets.items())
    text = "\n".join(objects)
    return f'<topology{version}><object type="Machine" {given}>\n{text}\n</object></topology>'.encode()


def obj(type_: str, cpus: int | str, *inside: str, nodes: int = 1, **more: str) -> str:
    given = "".join(f' {key}="{value}"' for key, value in more.items())
    cpuset = cpus if isinstance(cpus, str) else f"0x{cpus:08x}"
    return f'<object type="{type_}" cpuset="{cpuset}" nodeset="0x{nodes:x}"{given}>{"".join(inside)}</object>'


def cores(*numbers: int, threads: int = 1) -> str:
    """Cores of some processing units each, with consecutive numbers."""
    units = {n: [1 << (n * threads + t) for t in range(threads)] for n in numbers}
    return "".join(obj("Core", sum(pus), *(obj("PU", pu) for pu in pus)) for pus in units.values())


def memory(cpus: int, number: int, size: int = 4096) -> str:
    return obj("NUMANode", cpus, nodes=1 << number, local_memory=str(size))


TWO_SOCKETS = (
    obj("Package", 0x0F, obj("L3Cache", 0x0F, cores(0, 1, threads=2)), memory(0x0F, 0), nodes=1),
    obj("Package", 0xF0, obj("L3Cache", 0xF0, cores(2, 3, threads=2)), memory(0xF0, 1), nodes=2),
)
ALL = {"cpuset": "0x000000ff", "nodeset": "0x00000003"}
_UNITS = "processing units that are not allowed"
_MEMORY = "NUMA nodes that are not allowed"


@pytest.mark.parametrize(
    ("allowed", "expected", "notes"),
    [
        ({}, {"socket": 2, "core": 4, "pu": 8, "memory": 2, "l3cache": 2}, {}),
        ({"allowed_cpuset": "0xff"}, {"socket": 2, "core": 4, "pu": 8, "memory": 2, "l3cache": 2}, {}),
        ({"allowed_cpuset": "0xf...f"}, {"socket": 2, "core": 4, "pu": 8, "memory": 2, "l3cache": 2}, {}),
        ({"allowed_cpuset": "0xf...f,0xfffffff0"}, {"socket": 2, "core": 2, "pu": 4, "memory": 2, "l3cache": 1}, {_UNITS: 4}),
        # A core stays with the processing units that are left, a package because of its memory.
        ({"allowed_cpuset": "0x1"}, {"socket": 2, "core": 1, "pu": 1, "memory": 2, "l3cache": 1}, {_UNITS: 7}),
        ({"allowed_cpuset": "0x55"}, {"socket": 2, "core": 4, "pu": 4, "memory": 2, "l3cache": 2}, {_UNITS: 4}),
        (
            {"allowed_cpuset": "0xf0", "allowed_nodeset": "0x2"},
            {"socket": 1, "core": 2, "pu": 4, "memory": 1, "l3cache": 1},
            {_UNITS: 4, _MEMORY: 1},
        ),
        ({"allowed_nodeset": "0x1"}, {"socket": 2, "core": 4, "pu": 8, "memory": 1, "l3cache": 2}, {_MEMORY: 1}),
    ],
)
def test_disallowed_resources_are_left_out(allowed: dict[str, str], expected: dict[str, int], notes: dict[str, int]) -> None:
    loaded = hwloc.read(Source(node(*TWO_SOCKETS, **ALL, **allowed), "x.xml"), keep="all")
    found = [loaded.structure.kind_of(v).type for v in range(1, loaded.structure.n)]
    assert {type_: found.count(type_) for type_ in found} == expected
    assert {*loaded.notes} == {f"x.xml: left out: {what} ({number})" for what, number in notes.items()}


def test_package_with_devices_is_kept_without_processors() -> None:
    package = obj("Package", 0x2, cores(1), pci(osdev("eth0", 2), "0200"))
    machine = node(obj("Package", 0x1, cores(0)), package, cpuset="0x3", allowed_cpuset="0x1")
    s = hwloc.read(Source(machine), origin=0).structure
    assert set(paths(s)) == {
        "/node0",
        "/node0/socket0",
        "/node0/socket0/core0",
        "/node0/socket0/core0/pu0",
        "/node0/socket1",
        "/node0/socket1/eth0",
    }


def test_notes_on_several_nodes_are_combined() -> None:
    files = [node(*TWO_SOCKETS, f'<info name="HostName" value="n{i}"/>', **ALL, allowed_cpuset="0xf") for i in range(3)]
    loaded = hwloc_cluster.read_many([Source(data, f"{i}.xml") for i, data in enumerate(files)])
    assert loaded.notes == ("0.xml: left out: processing units that are not allowed (4) (and 2 more like it)",)


def old(*objects: str, **sets: str) -> bytes:
    return node(*objects, version="", **sets)


def test_packages_and_caches_without_processors_are_left_out() -> None:
    empty = obj("Socket", 0, obj("Cache", 0, depth="3"), nodes=0)
    within = obj("NUMANode", 0x3, obj("Socket", 0x3, cores(0, 1)), empty, local_memory="1000")
    beyond = obj("NUMANode", 0, obj("Socket", "0x0", nodes=0), local_memory="3000", nodes=2)
    loaded = hwloc.read(Source(old(within, beyond, cpuset="0x3", nodeset="0x3")), keep="all")
    assert paths(loaded.structure, "socket", "l3cache", "memory") == {
        "/node0/socket0": 1,
        "/node0/memory0": 1000,
        "/node0/memory1": 3000,
    }
    assert loaded.notes == ()


def test_memory_above_a_disallowed_package_does_not_keep_it() -> None:
    halves = [
        obj("NUMANode", 3 << 2 * i, obj("Socket", 3 << 2 * i, cores(2 * i, 2 * i + 1)), nodes=1 << i, local_memory="9")
        for i in (0, 1)
    ]
    s = hwloc.read(Source(old(*halves, cpuset="0xf", nodeset="0x3", allowed_cpuset="0x3")), origin=0).structure
    assert paths(s, "socket", "memory") == {"/node0/socket0": 1, "/node0/socket0/memory0": 9, "/node0/memory1": 9}


@pytest.mark.parametrize("nodeset", ['nodeset="0x0" allowed_nodeset="0x0"', 'nodeset="0xf...f"', ""])
def test_machine_memory_of_version_1_is_one_numa_node(nodeset: str) -> None:
    text = f'<topology><object type="Machine" cpuset="0x3" {nodeset} local_memory="16777216000">{cores(0, 1)}</object></topology>'
    assert paths(hwloc.read(Source(text.encode())).structure, "memory") == {"/node0/memory0": 16777216000}


def test_memory_of_version_0_is_in_kib() -> None:
    cache = obj("Cache", 0x1, cores(0), depth="2", memory_kB="512")
    text = old(obj("NUMANode", 0x1, cache, memory_kB="4096"), cpuset="0x1", memory_kB="4096")
    found = paths(hwloc.read(Source(text), keep="memory,l2cache").structure)
    assert found == {"/node0": 1, "/node0/l2cache0": 512 << 10, "/node0/memory0": 4 << 20}
    with pytest.raises(LimitExceeded):
        hwloc.read(Source(old(cores(0), cpuset="0x1", memory_kB="9" * 19)))


def test_machine_memory_is_ignored_if_there_are_numa_nodes() -> None:
    text = old(
        obj("NUMANode", 0x1, cores(0), local_memory="5"),
        obj("NUMANode", 0x2, cores(1), local_memory="6", nodes=2),
        cpuset="0x3",
        local_memory="11",
    )
    assert sorted(paths(hwloc.read(Source(text)).structure, "memory").values()) == [5, 6]


@pytest.mark.parametrize("type_", ["NUMANode", "Node"])
def test_numa_node_may_be_the_only_object(type_: str) -> None:
    sockets = [obj("Socket", 1 << i, cores(i)) for i in (0, 1)]
    top = obj(type_, 0x3, '<info name="HostName" value="n7"/>', *sockets, local_memory="77", allowed_cpuset="0x3")
    s = hwloc.read(Source(f"<topology>{top}</topology>".encode()), keep="socket,memory").structure
    assert paths(s) == {"/n7": 1, "/n7/socket0": 1, "/n7/socket1": 1, "/n7/memory0": 77}


@pytest.mark.parametrize("more", [{"subtype": "Die"}, {"kind": "104", "subkind": "0"}])
def test_groups_that_are_dies(more: dict[str, str]) -> None:
    dies = [obj("Group", 3 << 2 * i, cores(2 * i, 2 * i + 1), **more) for i in (0, 1)]
    s = hwloc.read(Source(node(obj("Package", 0xF, *dies), cpuset="0xf")), keep="die,core,group").structure
    assert [name for name in paths(s) if "core" not in name] == ["/node0", "/node0/die0", "/node0/die1"]
    # A die that is the complete package is left out.
    s = hwloc.read(
        Source(node(*(obj("Package", 3 << 2 * i, die) for i, die in enumerate(dies)), cpuset="0xf")), keep="all"
    ).structure
    assert paths(s, "die") == {}


# -- several machines in one file ----------------------------------------------------------------------------------------


def system(*machines: str) -> bytes:
    return f'<topology><object type="System">{"".join(machines)}</object></topology>'.encode()


def machine(*infos: tuple[str, str], size: int = 5) -> str:
    given = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos)
    return f'<object type="Machine" cpuset="0x3" local_memory="{size}">{given}{cores(0, 1)}</object>'


def test_several_machines_of_a_system_are_nodes() -> None:
    data = system(machine(("HostName", "n1")), machine(("AssemblerName", "n2.xml"), size=6), machine())
    loaded = hwloc.read(Source(data, "all.xml", Path("all.xml")), keep="core,memory")
    s = loaded.structure
    assert loaded.name == "cluster"
    assert [(s.path(v), s.rank.item(v)) for v in s.children(0)] == [("/cluster/n1", 0), ("/cluster/n2", 1), ("/cluster/all-2", 2)]
    assert paths(s, "memory") == {"/cluster/n1/memory0": 5, "/cluster/n2/memory0": 6, "/cluster/all-2/memory0": 5}
    assert len(paths(s, "core")) == 6
    assert loaded.notes == ()
    # Machines with equal names are numbered.
    s = hwloc.read(
        Source(system(machine(("HostName", "x")), machine(("HostName", "x"))), "all.xml", Path("all.xml")), keep="node"
    ).structure
    assert [s.path(v) for v in s.children(0)] == ["/cluster/all-0", "/cluster/all-1"]
    with pytest.raises(InputError, match="expected one machine, got 3"):
        hwloc.parse(data)


def test_levels_above_machines_are_left_out_with_a_note() -> None:
    misc = [f'<object type="Misc">{machine()}{machine()}</object>' for _ in range(2)]
    loaded = hwloc.read(Source(system(*misc), "s.xml"), keep="node")
    assert len(loaded.structure.children(0)) == 4
    assert loaded.notes == ("s.xml: left out: levels above the machines (2)",)


def test_system_with_at_most_one_machine_is_a_node() -> None:
    for data in (system(machine(("HostName", "n1"))), system(cores(0, 1)).replace(b'"System"', b'"System" cpuset="0x3"')):
        loaded = hwloc.read(Source(data, "n1.xml", Path("n1.xml")), keep="core")
        assert set(paths(loaded.structure)) == {"/n1", "/n1/core0", "/n1/core1"}


# -- which are kept ------------------------------------------------------------------------------------------------------


def test_types_are_chosen() -> None:
    assert set(paths(sample("gpu-node", keep="core,gpu"))) == {
        "/tioga12",
        *(f"/tioga12/core{core}" for core in range(4)),
        "/tioga12/gpu0",
        "/tioga12/gpu1",
    }
    # A level that adds no structure is kept on request.
    assert not paths(sample("gpu-node"), "l2cache")
    assert len(paths(sample("gpu-node", keep="default,L2Cache"), "l2cache")) == 2
    assert len(paths(sample("gpu-node", keep="caches"))) == 1 + 2 + 2
    everything = sample("version1", keep="all")
    assert paths(everything, "l1icache", "l1cache").keys() == {
        "/old003/socket0/numa0/l1cache0",
        "/old003/socket0/numa0/l1cache1",
        "/old003/socket1/l1icache0",
    }
    assert set(paths(sample("gpu-node", keep="node"))) == {"/tioga12"}
    assert kept("Package, NUMANode ,PU").always == {"socket", "memory", "pu"}
    assert kept(["core", "gpu,nic"]).always == {"core", "gpu", "nic"}
    assert kept("all").always == set(TYPES)
    with pytest.raises(UsageError, match="no type 'sockt' to keep"):
        kept("sockt")


def test_node_may_be_put_into_a_cluster() -> None:
    loaded = hwloc.read(Source.open(SAMPLES / "gpu-node.xml"), cluster="tioga", keep="core")
    assert loaded.name == loaded.structure.hierarchy == "tioga"
    assert loaded.structure.path(5) == "/tioga/tioga12/core3"
    for wrong in ("", "a/b", "x" * 300, "a\n"):
        with pytest.raises(UsageError, match="name for the cluster"):
            hwloc.read(Source.open(SAMPLES / "gpu-node.xml"), cluster=wrong)


def test_hwloc_xml_is_detected_by_content(tmp_path: Path) -> None:
    data = (SAMPLES / "gpu-node.xml").read_bytes()
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed.gz").write_bytes(gzip.compress(data))
    for name in ("plain", "packed.gz"):
        g = load(tmp_path / name, keep="gpu")
        assert (g.name, len(g)) == ("tioga12", 3)
    assert registry.detect(data[:2000]).name == "hwloc"


# -- what cannot be read -------------------------------------------------------------------------------------------------

_OPEN = b'<topology><object type="Machine" cpuset="0xff">\n'
_SHUT = b"\n</object></topology>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"<topology/>", r"<text>:1: expected one object of type Machine, got 0"),
        (b'<topology><object type="Machine"/><object type="System"/></topology>', "got 2"),
        (b"<graphml/>", "expected <topology>, got <graphml>"),
        (_OPEN + b"<object/>" + _SHUT, r"<text>:2: an <object> without type"),
        (_OPEN, r"<text>:2:1: not XML: no element found"),
        (_OPEN + b"</object></topology><a/>", "junk after document element"),
        (_OPEN + b'<info name="HostName" value="n\xff"/>' + _SHUT, r"<text>:2:31: not XML: not well-formed"),
        (b'<?xml version="1.0" encoding="no-such"?>' + _OPEN + _SHUT, "unknown encoding"),
        (_OPEN + b'<info name="HostName" value="a/b"/>' + _SHUT, "expected a host name, got 'a/b'"),
        (_OPEN + b'<info name="HostName" value="' + b"a" * 256 + b'"/>' + _SHUT, "expected a host name"),
        (b'<!DOCTYPE t [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>' + _OPEN + b"&b;" + _SHUT, "declares the entity 'a'"),
        (b'<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + _OPEN + b"&a;" + _SHUT, "declares the entity 'a'"),
        (b'<!DOCTYPE t [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]>' + _OPEN + _SHUT, "declares the entity 'a'"),
        (_OPEN + b'<object type="Bridge"><object type="Core"/></object>' + _SHUT, "expected devices in a Bridge, got a Core"),
        *(
            (_OPEN + b'<object type="%s" %s="%s"/>' % (type_, key, value) + _SHUT, r"<text>:2: expected a whole number for")
            for type_, key in ((b"NUMANode", b"local_memory"), (b"L3Cache", b"cache_size"))
            for value in (b"NaN", b"-1", b"1e9", b"", "٣".encode())
        ),
    ],
)
def test_refusals_name_the_place(text: bytes, message: str) -> None:
    options = {"keep": "all"}
    with pytest.raises(InputError, match=message):
        hwloc.read(Source(text), **options)


@pytest.mark.parametrize(
    "text",
    [
        _OPEN + b'<object type="NUMANode" local_memory="%d"/>' % (limits.SIZE_MAX + 1) + _SHUT,
        _OPEN + b'<object type="NUMANode" local_memory="%s"/>' % (b"9" * 5000) + _SHUT,
        _OPEN + b'<object type="OSDev" osdev_type="0"><info name="Size" value="999999999999999999"/></object>' + _SHUT,
        _OPEN + b'<object type="Group"><object type="PU"/>' * 100 + b"</object>" * 100 + _SHUT,
        _OPEN + b'<object type="Group">' * 100_000,
    ],
)
def test_bounds(text: bytes) -> None:
    with pytest.raises(LimitExceeded, match="<text>:"):
        hwloc.read(Source(text), keep="all")


def test_the_largest_memory_is_read() -> None:
    s = of_xml(f'<object type="NUMANode" local_memory="{limits.SIZE_MAX}"/>')
    assert s.size.item(1) == limits.SIZE_MAX


@pytest.mark.parametrize("name", ["gpu-node", "version1", "version3", "hbm"])
def test_truncated_file_is_refused(name: str) -> None:
    data = (SAMPLES / f"{name}.xml").read_bytes().rstrip()
    for length in range(0, len(data), 97):
        with pytest.raises(FluxresError):
            hwloc.read(Source(data[:length]))
