"""Trees of /proc, /sys and /dev as kernels and drivers write them, for the machines that detection is tested on.

The layout is that of Documentation/ABI/stable/sysfs-devices-system-cpu, sysfs-devices-node and admin-guide/cgroup-v2.rst of
Linux, of the driver README of NVIDIA ("/proc file system interface"), and of amdkfd's kfd_topology.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from fluxres.syntax import idset

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
GIB = 1 << 20
"""KiB in a GiB."""


class Tree:
    """Writes a machine below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str = "") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def link(self, path: str, target: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def host(self, name: str, mem_kib: int, model: str = "", vendor: str = "") -> None:
        self.write("proc/sys/kernel/hostname", f"{name}\n")
        self.write("proc/meminfo", f"MemTotal:       {mem_kib} kB\nMemFree:        {mem_kib // 2} kB\n")
        named = f"vendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: 1\nmodel name\t: {model}\n" if vendor else ""
        self.write("proc/cpuinfo", f"processor\t: 0\n{named}flags\t\t: fpu vme\n\n")

    def cpus(
        self,
        cores: Sequence[Sequence[int]],
        sockets: Sequence[Iterable[int]] | None,
        *,
        online: Iterable[int] | None = None,
        old_names: bool = False,
        packages: Sequence[int] | None = None,
    ) -> None:
        """The topology of these cores; `sockets` has the CPUs of each, and `packages` the ids that the hardware gives them."""
        every = sorted(cpu for core in cores for cpu in core)
        shown = every if online is None else sorted(online)
        self.write(f"{CPU}/possible", f"{idset.format(every)}\n")
        self.write(f"{CPU}/online", f"{idset.format(shown)}\n")
        self.write(f"{CPU}/isolated", "\n")
        of_socket = {cpu: at for at, members in enumerate(sockets or ()) for cpu in members}
        for number, core in enumerate(cores):
            for cpu in core:
                if cpu not in shown:
                    continue
                topology = f"{CPU}/cpu{cpu}/topology"
                threads = idset.format(each for each in core if each in shown)
                self.write(f"{topology}/thread_siblings_list", f"{threads}\n")
                self.write(f"{topology}/core_id", f"{number}\n")
                if not old_names:
                    self.write(f"{topology}/core_cpus_list", f"{threads}\n")
                if sockets is None:
                    continue
                at = of_socket[cpu]
                package = at if packages is None else packages[at]
                together = idset.format(each for each in shown if of_socket[each] == at)
                self.write(f"{topology}/physical_package_id", f"{package}\n")
                self.write(f"{topology}/core_siblings_list", f"{together if package >= 0 else cpu}\n")
                if not old_names:
                    self.write(f"{topology}/package_cpus_list", f"{together if package >= 0 else cpu}\n")

    def numa(self, domains: dict[int, tuple[Iterable[int], int]]) -> None:
        """NUMA domains: number, CPUs and KiB of memory."""
        self.write(f"{NODE}/online", f"{idset.format(domains)}\n")
        for number, (cpus, kib) in domains.items():
            self.write(f"{NODE}/node{number}/cpulist", f"{idset.format(cpus)}\n")
            text = f"Node {number} MemTotal:       {kib} kB\nNode {number} MemFree:        {kib // 2} kB\n"
            self.write(f"{NODE}/node{number}/meminfo", text)

    def status(self, cpus: str, mems: str = "0") -> None:
        text = f"Name:\tpython3\nCpus_allowed:\tffff\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n"
        self.write("proc/self/status", text)

    def cgroup2(self, path: str, **files: str) -> None:
        """The cgroup of the process, of version 2, with files such as ``cpu_max="250000 100000"``."""
        self.write("proc/self/cgroup", f"0::{path}\n")
        mount = "35 24 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
        self.write("proc/self/mountinfo", f"24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n{mount}")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
        self.in_cgroup(path, **files)

    def in_cgroup(self, path: str, controller: str = "", **files: str) -> None:
        for name, text in files.items():
            file = name.replace("_", ".") if not controller else name
            self.write(f"sys/fs/cgroup/{controller}{path}/{file}", f"{text}\n")

    def nvidia(
        self, address: str, minor: int, uuid: str, *, model: str = "NVIDIA A100-SXM4-40GB", numa: int = -1, excluded: str = "No"
    ) -> None:
        """A GPU with NVIDIA's driver, and its device file."""
        text = (
            f"Model: \t\t {model}\nIRQ:   \t\t 18\nGPU UUID: \t {uuid}\nVideo BIOS: \t 92.00.19.00.13\nBus Type: \t PCIe\n"
            f"DMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t {address}\nDevice Minor: \t {minor}\n"
            f"GPU Firmware: \t 525.60.13\nGPU Excluded:\t {excluded}\n"
        )
        self.write(f"proc/driver/nvidia/gpus/{address}/information", text)
        self.write(f"sys/bus/pci/devices/{address}/numa_node", f"{numa}\n")
        self.write("dev/nvidiactl")
        self.write(f"dev/nvidia{minor}")

    def mig(self, minor: int, instances: Iterable[tuple[int, int]]) -> None:
        for gi, ci in instances:
            place = f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gi}"
            self.write(f"{place}/access", "DeviceFileMinor: 30\n")
            self.write(f"{place}/ci{ci}/access", "DeviceFileMinor: 31\n")

    def program(self, path: str, script: str) -> None:
        """A program, such as one that stands for nvidia-smi."""
        self.write(path, f"#!/bin/sh\n{script}\n").chmod(0o755)

    def kfd_cpu(self, number: int, cores: int) -> None:
        self._kfd(number, cpu_cores_count=cores, simd_count=0, drm_render_minor=0)

    def kfd_gpu(
        self, number: int, render: int, address: str, *, unique_id: int = 0, version: int = 90010, numa: int = -1
    ) -> None:
        """A GPU with AMD's driver, and its device file."""
        domain, bus, device, function = (int(part, 16) for part in address.replace(".", ":").split(":"))
        location = bus << 8 | device << 3 | function
        more = {"unique_id": unique_id} if unique_id else {}
        self._kfd(
            number,
            cpu_cores_count=0,
            simd_count=440,
            gfx_target_version=version,
            vendor_id=4098,
            device_id=29704,
            location_id=location,
            domain=domain,
            drm_render_minor=render,
            **more,
        )
        self.write(f"sys/bus/pci/devices/{address}/numa_node", f"{numa}\n")
        self.write("dev/kfd")
        self.write(f"dev/dri/renderD{render}")

    def _kfd(self, number: int, **properties: int) -> None:
        text = "".join(f"{key} {value}\n" for key, value in properties.items())
        self.write(f"sys/class/kfd/kfd/topology/nodes/{number}/properties", text)

    def card(self, number: int, address: str, vendor: str, driver: str, *, device: str = "0x56c0", numa: int = -1) -> None:
        """A graphics device of the kernel, with its render node."""
        place = f"sys/devices/pci0000:00/{address}"
        self.write(f"{place}/vendor", f"{vendor}\n")
        self.write(f"{place}/device", f"{device}\n")
        self.write(f"{place}/drm/renderD{128 + number}/dev", f"226:{128 + number}\n")
        self.write(f"{place}/drm/card{number}/dev", f"226:{number}\n")
        self.link(f"{place}/driver", f"../../../bus/pci/drivers/{driver}")
        self.link(f"{place}/drm/card{number}/device", f"../../../{address}")
        self.link(f"sys/class/drm/card{number}", f"../../devices/pci0000:00/{address}/drm/card{number}")
        self.write(f"sys/bus/pci/devices/{address}/numa_node", f"{numa}\n")
        self.write(f"dev/dri/renderD{128 + number}")


def laptop(root: Path) -> Tree:
    """A laptop with a hybrid processor: 6 fast cores of two threads, 8 efficient and 2 low-power ones; only its graphics."""
    tree = Tree(root)
    tree.host("lap.example.org", 32_500_000, "Intel(R) Core(TM) Ultra 7 155H", "GenuineIntel")
    fast, slow, slowest = [(at, at + 1) for at in range(0, 12, 2)], [(at,) for at in range(12, 20)], [(20,), (21,)]
    tree.cpus([*fast, *slow, *slowest], [range(22)])
    tree.write("sys/devices/cpu_core/cpus", "0-11\n")
    tree.write("sys/devices/cpu_atom/cpus", "12-19\n")
    tree.write("sys/devices/cpu_lowpower/cpus", "20-21\n")
    tree.numa({0: (range(22), 32_500_000)})
    tree.card(0, "0000:00:02.0", "0x8086", "i915", device="0x7d55")
    tree.status("0-21")
    return tree


def epyc(root: Path) -> Tree:
    """Two EPYC processors of 64 cores and two threads, four NUMA domains each, and eight GPUs."""
    tree = Tree(root)
    tree.host("dgx1", 8 * 128 * GIB, "AMD EPYC 7742 64-Core Processor", "AuthenticAMD")
    tree.cpus([(cpu, cpu + 128) for cpu in range(128)], [[*range(64), *range(128, 192)], [*range(64, 128), *range(192, 256)]])
    tree.numa({at: ([*range(16 * at, 16 * at + 16), *range(16 * at + 128, 16 * at + 144)], 128 * GIB) for at in range(8)})
    # The numbers of the device files are not in the order of the bus.
    places = [("07", 3, 0), ("0f", 3, 1), ("47", 1, 2), ("4e", 1, 3), ("87", 7, 4), ("90", 7, 5), ("b7", 5, 6), ("bd", 5, 7)]
    for bus, numa, minor in places:
        tree.nvidia(f"0000:{bus}:00.0", minor, f"GPU-{minor}ef8089b-4820-abfc-e83e-94318197576e", numa=numa)
    tree.status("0-255", "0-7")
    return tree


def mi250x(root: Path) -> Tree:
    """A node of LUMI or Frontier: one EPYC of 64 cores as four NUMA domains, four MI250X of two dies."""
    tree = Tree(root)
    tree.host("nid005042", 512 * GIB, "AMD EPYC 7A53 64-Core Processor", "AuthenticAMD")
    tree.cpus([(cpu, cpu + 64) for cpu in range(64)], [range(128)])
    tree.numa({at: ([*range(16 * at, 16 * at + 16), *range(16 * at + 64, 16 * at + 80)], 128 * GIB) for at in range(4)})
    for number in range(4):
        tree.kfd_cpu(number, 32)
    for number, (bus, numa) in enumerate(
        [("c1", 3), ("c6", 3), ("c9", 1), ("ce", 1), ("d1", 0), ("d6", 0), ("d9", 2), ("de", 2)]
    ):
        tree.kfd_gpu(4 + number, 128 + number, f"0000:{bus}:00.0", unique_id=0x8000 + number, numa=numa)
    tree.status("0-127", "0-3")
    return tree


def grace_hopper(root: Path) -> Tree:
    """A GH200: 72 Arm cores, and a GPU whose memory is a NUMA domain of its own, followed by seven empty ones."""
    tree = Tree(root)
    tree.host("gh200", 576 * GIB)
    tree.write("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n")
    tree.cpus([(cpu,) for cpu in range(72)], [range(72)])
    tree.numa({0: (range(72), 480 * GIB), 1: ((), 96 * GIB), **dict.fromkeys(range(2, 9), ((), 0))})
    tree.write(f"{NODE}/node1/access0/initiators/read_bandwidth", "0\n")
    tree.nvidia("0009:01:00.0", 0, "GPU-11111111-2222-3333-4444-555555555555", model="NVIDIA GH200 480GB", numa=0)
    tree.write(
        "proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:                1\nAddr:                0x420000000000\n"
    )
    tree.status("0-71", "0-8")
    return tree


def container(root: Path) -> Tree:
    """A container with a cpuset, a quota of 2.5 CPUs and 8 GiB on a host of 64 cores; the host's path in /proc/self/cgroup."""
    tree = Tree(root)
    tree.host("3f1c9d2b7a10", 256 * GIB, "Intel(R) Xeon(R) Gold 6338 CPU", "GenuineIntel")
    tree.cpus([(cpu, cpu + 64) for cpu in range(64)], [[*range(32), *range(64, 96)], [*range(32, 64), *range(96, 128)]])
    tree.numa({0: ([*range(32), *range(64, 96)], 128 * GIB), 1: ([*range(32, 64), *range(96, 128)], 128 * GIB)})
    tree.cgroup2("/", cpu_max="250000 100000", memory_max=str(8 << 30), cpuset_cpus_effective="8-15,72-79")
    tree.status("8-15,72-79", "0-1")
    return tree


def docker1(root: Path) -> Tree:
    """The same with version 1: the mounts show a part of the hierarchy, and /proc/self/cgroup has the path on the host."""
    tree = container(root)
    path = "/docker/3f1c9d2b7a10"
    controllers = ("cpuset", "cpu,cpuacct", "memory")
    tree.write("proc/self/cgroup", "".join(f"{11 - at}:{each}:{path}\n" for at, each in enumerate(controllers)))
    mounts = [
        f"{50 + at} 40 0:{30 + at} {path} /sys/fs/cgroup/{each} ro,nosuid master:{at} - cgroup cgroup rw,{each}\n"
        for at, each in enumerate(controllers)
    ]
    tree.write("proc/self/mountinfo", "".join(mounts))
    for name in ("cgroup.controllers", "cpu.max", "memory.max", "cpuset.cpus.effective"):
        (tree.root / "sys/fs/cgroup" / name).unlink()
    tree.in_cgroup("", "cpu,cpuacct", **{"cpu.cfs_quota_us": "250000", "cpu.cfs_period_us": "100000"})
    tree.in_cgroup("", "memory", **{"memory.limit_in_bytes": str(8 << 30)})
    tree.in_cgroup("", "cpuset", **{"cpuset.effective_cpus": "8-15,72-79", "cpuset.cpus": "8-15,72-79"})
    return tree


def wsl(root: Path) -> Tree:
    """Windows' Linux: 8 cores of two threads, no NUMA, and a GPU of which only nvidia-smi below /usr/lib/wsl knows."""
    tree = Tree(root)
    tree.host("DESKTOP-7K2", 16_000_000, "AMD Ryzen 7 5800X 8-Core Processor", "AuthenticAMD")
    tree.cpus([(cpu, cpu + 1) for cpu in range(0, 16, 2)], [range(16)])
    tree.write("dev/dxg")
    tree.program(
        "usr/lib/wsl/lib/nvidia-smi",
        "[ \"$1\" = -L ] && echo 'GPU 0: NVIDIA GeForce RTX 3080 (UUID: GPU-aaaa1111-0000-0000-0000-000000000000)'",
    )
    tree.status("0-15")
    return tree


def raspberry_pi(root: Path) -> Tree:
    """A Raspberry Pi 4 with a kernel that has the older names."""
    tree = Tree(root)
    tree.host("pi4", 3_884_000)
    records = "".join(f"processor\t: {cpu}\nBogoMIPS\t: 108.00\nCPU part\t: 0xd08\n\n" for cpu in range(4))
    tree.write("proc/cpuinfo", f"{records}Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n")
    tree.cpus([(cpu,) for cpu in range(4)], [range(4)], old_names=True)
    tree.status("0-3")
    return tree


def phone(root: Path) -> Tree:
    """An Arm board with four small and two large cores, and a platform that knows no packages."""
    tree = Tree(root)
    tree.host("rk3399", 3_900_000)
    tree.cpus([(cpu,) for cpu in range(6)], [range(6)], packages=[-1])
    for cpu in range(6):
        tree.write(f"{CPU}/cpu{cpu}/cpu_capacity", "1024\n" if cpu > 3 else "485\n")
    tree.status("0-5")
    return tree


def power9(root: Path) -> Tree:
    """A POWER9 with four threads a core, of which one is online, two sockets with sparse numbers, GPU memory as NUMA domains."""
    tree = Tree(root)
    tree.host("sierra12", 256 * GIB)
    tree.write("proc/cpuinfo", "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n\n")
    cores = [range(4 * at, 4 * at + 4) for at in range(8)]
    tree.cpus(cores, [range(16), range(16, 32)], online=range(0, 32, 4), packages=[0, 8])
    tree.numa({0: (range(0, 16, 4), 128 * GIB), 8: (range(16, 32, 4), 128 * GIB), 252: ((), 16 * GIB)})
    tree.nvidia("0035:03:00.0", 0, "GPU-252", model="Tesla V100-SXM2-16GB", numa=8)
    tree.write("proc/driver/nvidia/gpus/0035:03:00.0/numa_status", "Node:                252\n")
    tree.write("proc/meminfo", f"MemTotal:       {272 * GIB} kB\n")
    tree.status(idset.format(range(0, 32, 4)), "0,8,252")
    return tree


def xeon_max(root: Path) -> Tree:
    """Two Xeon Max with their HBM as NUMA domains without CPUs, and memory behind CXL at an unknown distance."""
    tree = Tree(root)
    tree.host("spr-hbm", 1_000 * GIB, "Intel(R) Xeon(R) CPU Max 9480", "GenuineIntel")
    tree.cpus([(cpu,) for cpu in range(8)], [range(4), range(4, 8)])
    tree.numa(
        {0: (range(4), 256 * GIB), 1: (range(4, 8), 256 * GIB), 2: ((), 64 * GIB), 3: ((), 64 * GIB), 4: ((), 360 * GIB)},
    )
    for number, (near, bandwidth) in enumerate([(0, 250_000), (1, 250_000), (0, 600_000), (1, 600_000)]):
        tree.write(f"{NODE}/node{number}/access0/initiators/read_bandwidth", f"{bandwidth}\n")
        tree.link(f"{NODE}/node{number}/access0/initiators/node{near}", f"../../../node{near}")
    tree.write("sys/devices/platform/ACPI0017:00/root0/region0/cxl_region/dax0.0/target_node", "4\n")
    tree.link("sys/bus/dax/devices/dax0.0", "../../../devices/platform/ACPI0017:00/root0/region0/cxl_region/dax0.0")
    tree.status("0-7", "0-4")
    return tree


def virtual(root: Path) -> Tree:
    """A virtual machine of QEMU: each of its eight processors is a socket, and there are two NUMA domains."""
    tree = Tree(root)
    tree.host("vm7", 8 * GIB, "QEMU Virtual CPU version 2.5+", "AuthenticAMD")
    tree.cpus([(cpu,) for cpu in range(8)], [[cpu] for cpu in range(8)])
    tree.numa({0: (range(4), 4 * GIB), 1: (range(4, 8), 4 * GIB)})
    tree.status("0-7", "0-1")
    return tree
