"""The CPUs that this process may use, and the cores, sockets and kinds they belong to.

The affinity mask says what may be used: it is within the cpuset, without CPUs that are offline, and, unless somebody asked for
them, without isolated ones. One file is read for each core, not for each CPU, and two for each socket.

Sources: Linux, Documentation/ABI/stable/sysfs-devices-system-cpu (topology), Documentation/admin-guide/cputopology.rst (online,
isolated), Documentation/ABI/testing/sysfs-devices-system-cpu (cpu_capacity); the units ``cpu_core``, ``cpu_atom`` and
``cpu_lowpower`` of perf list the CPUs of Intel's hybrid processors (tools/perf/Documentation/intel-hybrid.txt).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from fluxres.formats.machine.cgroups import Cgroups
from fluxres.formats.machine.files import Files, is_value

SYSTEM: Final = "/sys/devices/system/cpu"
_MASK: Final = re.compile(r"^Cpus_allowed_list:\s*(\S*)$", re.MULTILINE)
_RECORD: Final = re.compile(r"^(processor|physical id|core id)\s*:\s*([0-9]{1,9})\s*$", re.MULTILINE)
_MODEL: Final = re.compile(r"^(vendor_id|model name|Model|cpu|Hardware)\s*:\s*(\S.*?)\s*$", re.MULTILINE)
_UNITS: Final = {"cpu_core": "performance", "cpu_atom": "efficiency", "cpu_lowpower": "low-power"}
#: cores of less than this part of the largest capacity are efficient ones; a favoured core of an x86 differs by a few percent
_PERFORMANT: Final = 0.75


class Usable(NamedTuple):
    """The CPUs that this process may use, how many the machine has in service, and where this is said."""

    cpus: frozenset[int]
    online: int
    where: str


@dataclass(frozen=True, slots=True)
class Core:
    """A core.

    Args:
        cpus: those of its CPUs that may be used, ascending.
        socket: its number among the sockets, in the order of their first CPU.
        kind: performance, efficiency or low-power, where a machine has several kinds; empty otherwise.
    """

    cpus: tuple[int, ...]
    socket: int
    kind: str = ""


def usable(files: Files, affinity: Collection[int] | None, cgroups: Cgroups) -> Usable:
    """The CPUs that may be used.

    Args:
        affinity: the mask, if the caller knows it.
    """
    online, listed = _online(files)
    mask, said = _mask(files, affinity)
    found, where = (online, listed) if mask is None else (mask & online if online else mask, said)
    if mask and not found:
        files.note("offline", SYSTEM, "no CPU of the affinity mask is online; the mask is used")
        found = mask
    cpuset = cgroups.cpus()
    if cpuset is not None and not found <= cpuset[0]:
        if found & cpuset[0]:
            found, where = found & cpuset[0], f"{where}, {files.path(cpuset[1])}"
        else:
            files.note("cpuset", cpuset[1], "has no CPU of the affinity mask; ignored")
    isolated = (files.numbers(f"{SYSTEM}/isolated") or set()) & online - found
    if isolated:
        count = f"{len(isolated)} isolated CPU{'s' * (len(isolated) > 1)}"
        files.note("isolated", f"{SYSTEM}/isolated", f"left out: {count}; taskset can select them")
    return Usable(frozenset(found), len(online) or len(found), where)


def _mask(files: Files, affinity: Collection[int] | None) -> tuple[set[int] | None, str]:
    if affinity is not None:
        return set(affinity), "affinity mask"
    if not files.root and hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0), "affinity mask of this process"
    match = _MASK.search(files.text("/proc/self/status") or "")
    mask = None if match is None else files.as_numbers("/proc/self/status", match[1])
    return mask or None, files.path("/proc/self/status")


def _online(files: Files) -> tuple[set[int], str]:
    found = files.numbers(f"{SYSTEM}/online")
    if found:
        return found, files.path(f"{SYSTEM}/online")
    records = _records(files)
    if records or files.root:
        return {*records}, files.path("/proc/cpuinfo")
    return set(range(os.cpu_count() or 1)), "the operating system"


def cores(files: Files, cpus: Collection[int]) -> list[Core]:
    """The cores of these CPUs, by socket and then by CPU.

    Cost: one file for each core, two for each socket, and one more for each core of a machine whose first one has a capacity.
    """
    of_core, of_socket = _by_sysfs(files, cpus)
    if not of_socket:
        of_core, of_socket = _by_records(files, cpus)
    kinds = _kinds(files, of_core)
    sockets = {socket: number for number, socket in enumerate(dict.fromkeys(of_socket.get(core[0], -1) for core in of_core))}
    made = [Core(core, sockets[of_socket.get(core[0], -1)], kinds.get(core[0], "")) for core in of_core]
    return sorted(made, key=lambda core: (core.socket, core.cpus))


def _by_sysfs(files: Files, cpus: Collection[int]) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """The cores, and the socket of each CPU; the latter is empty if the kernel does not say it."""
    wanted, done = set(cpus), set[int]()
    found: list[tuple[int, ...]] = []
    of_socket: dict[int, int] = {}
    # Kernels before 5.3 have only the older names.
    core_name, socket_name = "core_cpus_list", "package_cpus_list"
    if wanted and not files.exists(f"{SYSTEM}/cpu{min(wanted)}/topology/{core_name}"):
        core_name, socket_name = "thread_siblings_list", "core_siblings_list"
    for cpu in sorted(wanted):
        if cpu in done:
            continue
        topology = f"{SYSTEM}/cpu{cpu}/topology"
        siblings = ((files.numbers(f"{topology}/{core_name}") or set()) & wanted) - done
        siblings.add(cpu)
        done |= siblings
        found.append(tuple(sorted(siblings)))
        if cpu in of_socket:
            continue
        package = files.number(f"{topology}/physical_package_id")
        if package is None or package < 0:
            # The platform does not say: one socket, and not one for each CPU.
            if package is not None:
                of_socket |= dict.fromkeys(siblings, -1)
            continue
        together = files.numbers(f"{topology}/{socket_name}") or set()
        of_socket |= dict.fromkeys(together | siblings, min(together | siblings))
    return found, of_socket


def _by_records(files: Files, cpus: Collection[int]) -> tuple[list[tuple[int, ...]], dict[int, int]]:
    """The same by /proc/cpuinfo, where /sys is not mounted or says nothing."""
    records = _records(files)
    groups: dict[tuple[int, int], list[int]] = {}
    for cpu in sorted(cpus):
        socket, core = records.get(cpu, (-1, -1))
        # A CPU without a core is its own one; numbers of cores are not negative.
        groups.setdefault((socket, core) if core >= 0 else (socket, -1 - cpu), []).append(cpu)
    return sorted(map(tuple, groups.values())), {cpu: records[cpu][0] for cpu in cpus if cpu in records}


def _records(files: Files) -> dict[int, tuple[int, int]]:
    """Socket and core of each processor in /proc/cpuinfo; -1 where it does not say."""
    found: dict[int, tuple[int, int]] = {}
    cpu = -1
    for key, digits in _RECORD.findall(files.text("/proc/cpuinfo") or ""):
        number = int(digits)
        if key == "processor":
            cpu = number
            found[cpu] = (-1, -1)
        elif cpu >= 0:
            socket, core = found[cpu]
            found[cpu] = (number, core) if key == "physical id" else (socket, number)
    return found


def _kinds(files: Files, of_core: list[tuple[int, ...]]) -> dict[int, str]:
    """The kind of each core by its first CPU; empty if all cores are of one kind."""
    units = {kind: numbers for unit, kind in _UNITS.items() if (numbers := files.numbers(f"/sys/devices/{unit}/cpus"))}
    if units:
        return {core[0]: kind for core in of_core for kind, numbers in units.items() if core[0] in numbers}
    if not of_core or not files.exists(f"{SYSTEM}/cpu{of_core[0][0]}/cpu_capacity"):
        return {}
    capacity = {core[0]: files.number(f"{SYSTEM}/cpu{core[0]}/cpu_capacity") for core in of_core}
    known = {cpu: each for cpu, each in capacity.items() if each is not None and each > 0}
    most = max(known.values(), default=0)
    if all(each >= most * _PERFORMANT for each in known.values()):
        return {}
    return {cpu: "performance" if each >= most * _PERFORMANT else "efficiency" for cpu, each in known.items()}


def model(files: Files) -> dict[str, str]:
    """`vendor` and `model` of the processor, where /proc/cpuinfo says them."""
    said: dict[str, str] = {}
    for key, value in _MODEL.findall(files.text("/proc/cpuinfo", head=True) or ""):
        said.setdefault(key, value)
    named = said.get("model name") or said.get("Model") or said.get("cpu") or said.get("Hardware", "")
    found = {"vendor": said.get("vendor_id", ""), "model": named}
    return {key: value for key, value in found.items() if is_value(value)}
