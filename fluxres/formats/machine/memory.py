"""The NUMA domains, and the memory of each that this process may use.

Sources: Linux, Documentation/ABI/stable/sysfs-devices-node (cpulist, meminfo), Documentation/admin-guide/mm/numaperf.rst
(access0/initiators), Documentation/ABI/testing/sysfs-bus-dax; for memory of NVIDIA's GPUs that is a NUMA domain (Grace Hopper,
POWER9), /proc/driver/nvidia/gpus/*/numa_status, as hwloc reads it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from fluxres.formats.machine.cgroups import Cgroups
from fluxres.formats.machine.files import Files
from fluxres.formats.machine.gpus import ADDRESS
from fluxres.formats.machine.gpus import domain as numa_of

SYSTEM: Final = "/sys/devices/system/node"
MIB: Final = 1 << 20
#: the kind of memory that is a GPU's
GPU: Final = "GPU"
_GPUS: Final = "/proc/driver/nvidia/gpus"
_TOTAL: Final = re.compile(r"MemTotal:\s+([0-9]{1,15}) kB")
_MASK: Final = re.compile(r"^Mems_allowed_list:\s*(\S*)$", re.MULTILINE)
_INITIATOR: Final = re.compile(r"node[0-9]{1,6}")
_DAX: Final = re.compile(r"dax[0-9]+\.[0-9]+")
_GPU_NODE: Final = re.compile(r"Node:\s+([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Domain:
    """A NUMA domain.

    Args:
        number: the kernel's.
        cpus: all of its CPUs.
        size_mib: memory that this process may use.
        near: the domain whose CPUs are the nearest to this memory, for memory without CPUs; None if the kernel does not say.
        kind: HBM, CXL or GPU for such memory; empty for any other.
    """

    number: int
    cpus: frozenset[int]
    size_mib: int
    near: int | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """The domains, where their sizes are said, and where the limit on all of them; the latter is empty if they are below it."""

    domains: list[Domain]
    where: str
    limited: str = ""


def memory(files: Files, cgroups: Cgroups) -> Memory:
    """The NUMA domains of the machine; one with number 0 and without CPUs if the kernel has no NUMA.

    The memory of a domain that this process may not use is 0.
    """
    total = _kib(files, "/proc/meminfo")
    found = [_domain(files, number) for number in sorted(files.numbers(f"{SYSTEM}/online") or ())]
    where = f"{SYSTEM}/node*/meminfo"
    if not found:
        found = [Domain(0, frozenset(), (total or 0) // 1024)]
    if len(found) == 1 and total is not None:
        # The kernel's own total, where there is nothing to divide.
        found, where = [_sized(found[0], total // 1024)], "/proc/meminfo"
    allowed = _allowed(files, cgroups)
    if allowed and any(domain.number in allowed for domain in found):
        found = [domain if domain.number in allowed else _sized(domain, 0) for domain in found]
    of_gpus = [domain for domain in found if domain.kind == GPU]
    of_cpus = [domain for domain in found if domain.kind != GPU]
    limits = [] if total is None else [(max(total // 1024 - sum(domain.size_mib for domain in of_gpus), 0), "/proc/meminfo")]
    limit = cgroups.memory()
    if limit is not None:
        limits.append((int(limit.value) // MIB, limit.file))
    bound, file = min(limits, default=(0, ""))
    if not limits or bound >= sum(domain.size_mib for domain in of_cpus):
        return Memory(found, files.path(where))
    return Memory(_divided(of_cpus, bound) + of_gpus, files.path(where), files.path(file))


def _divided(domains: list[Domain], bound: int) -> list[Domain]:
    """The domains with `bound` in all, each with its part."""
    total, left = sum(domain.size_mib for domain in domains), bound
    made = []
    for domain in domains:
        size_mib = domain.size_mib * left // total if total else 0
        made.append(_sized(domain, size_mib))
        total, left = total - domain.size_mib, left - size_mib
    return made


def _sized(domain: Domain, size_mib: int) -> Domain:
    return Domain(domain.number, domain.cpus, size_mib, domain.near, domain.kind)


def _domain(files: Files, number: int) -> Domain:
    place = f"{SYSTEM}/node{number}"
    cpus = frozenset(files.numbers(f"{place}/cpulist") or ())
    size_mib = (_kib(files, f"{place}/meminfo") or 0) // 1024
    if cpus or not size_mib:
        return Domain(number, cpus, size_mib)
    initiators = [int(name[4:]) for name in files.names(f"{place}/access0/initiators", _INITIATOR)]
    near = initiators[0] if initiators else None
    gpu = _gpu_with(files, number)
    if gpu:
        return Domain(number, cpus, size_mib, numa_of(files, gpu) if near is None else near, GPU)
    return Domain(number, cpus, size_mib, near, _kind(files, number, near))


def _gpu_with(files: Files, number: int) -> str:
    """The address of the GPU whose memory a domain is; empty if it is not a GPU's."""
    for name in files.names(_GPUS, ADDRESS):
        match = _GPU_NODE.search(files.text(f"{_GPUS}/{name}/numa_status") or "")
        if match is not None and int(match[1]) == number:
            return name
    return ""


def _kind(files: Files, number: int, near: int | None) -> str:
    """What memory without CPUs is: behind CXL, or with more bandwidth than that of the CPUs; empty for any other."""
    for name in files.names("/sys/bus/dax/devices", _DAX):
        place = f"/sys/bus/dax/devices/{name}"
        if "/cxl" in files.link(place) and files.number(f"{place}/target_node") == number:
            return "CXL"
    if near is None:
        return ""
    own, usual = (files.text(f"{SYSTEM}/node{each}/access0/initiators/read_bandwidth") for each in (number, near))
    is_wider = own is not None and usual is not None and own.strip().isdecimal() and usual.strip().isdecimal()
    return "HBM" if is_wider and int(own or 0) > int(usual or 0) > 0 else ""


def _kib(files: Files, path: str) -> int | None:
    """The total memory in a file such as /proc/meminfo."""
    text = files.text(path)
    if text is None:
        return None
    match = _TOTAL.search(text)
    if match is None:
        files.note("meminfo", path, "has no line 'MemTotal: … kB'; ignored")
        return None
    return int(match[1])


def _allowed(files: Files, cgroups: Cgroups) -> Collection[int]:
    """The domains from which this process may get memory; empty if nothing says so."""
    match = _MASK.search(files.text("/proc/self/status") or "")
    found = None if match is None else files.as_numbers("/proc/self/status", match[1])
    if found:
        return found
    cpuset = cgroups.domains()
    return () if cpuset is None else cpuset[0]
