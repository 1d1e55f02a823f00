"""The limits of the cgroups of this process, of version 1 and 2: CPU quota, memory, and the CPUs and NUMA domains of cpusets.

A quota or limit of any ancestor binds, so all that are visible are read. In a container, the path in /proc/self/cgroup may be
that on the host while only a part of the hierarchy is mounted; the root of the mount says which.

Sources: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max, memory.max, cpuset.cpus.effective) and cgroup-v1/cpusets.rst,
cgroup-v1/memory.rst, scheduler/sched-bwc.rst (cpu.cfs_quota_us); proc_pid_cgroup(5), proc_pid_mountinfo(5).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from fluxres.formats.machine.files import Files

_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_PATH_MAX: Final = 4096
#: from here on, version 1 means "no limit": the largest number of pages in a signed 64-bit number
_UNLIMITED: Final = 2**62


class Limit(NamedTuple):
    """The tightest limit, and the file that says it."""

    value: float
    file: str


class Cgroups:
    """The cgroups of this process.

    >>> from pathlib import Path
    >>> Cgroups(Files(Path("/dev/null"))).quota() is None
    True
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._path_of = _paths(files.text("/proc/self/cgroup") or "")
        self._mounts = _mounts(files.text("/proc/self/mountinfo") or "")

    def quota(self) -> Limit | None:
        """The CPU time that may be used, in CPUs; None if there is no limit."""
        found = [each for place in self._places("cpu") if (each := self._quota(place)) is not None]
        return min(found, default=None)

    def memory(self) -> Limit | None:
        """The memory that may be used, in bytes; None if there is no limit."""
        found = []
        for place in self._places("memory"):
            for name in ("memory.max", "memory.limit_in_bytes"):
                text = self._files.text(f"{place}/{name}")
                if text is None or text.strip() == "max":
                    continue
                value = self._files.as_number(f"{place}/{name}", text)
                if value is not None and 0 <= value < _UNLIMITED:
                    found.append(Limit(value, f"{place}/{name}"))
        return min(found, default=None)

    def cpus(self) -> tuple[set[int], str] | None:
        """The CPUs of the cpuset of this process, and the file that says them."""
        return self._cpuset("cpus")

    def domains(self) -> tuple[set[int], str] | None:
        """The NUMA domains from which this process may get memory, and the file that says them."""
        return self._cpuset("mems")

    def _cpuset(self, what: str) -> tuple[set[int], str] | None:
        for place in self._places("cpuset"):
            for name in (f"cpuset.{what}.effective", f"cpuset.effective_{what}", f"cpuset.{what}"):
                found = self._files.numbers(f"{place}/{name}")
                if found:
                    return found, f"{place}/{name}"
        return None

    def _quota(self, place: str) -> Limit | None:
        text = self._files.text(f"{place}/cpu.max")
        if text is not None:
            file = f"{place}/cpu.max"
            quota_text, _, period_text = text.strip().partition(" ")
            if quota_text == "max":
                return None
            quota = self._files.as_number(file, quota_text)
            period = self._files.as_number(file, period_text) if quota is not None else None
        else:
            file = f"{place}/cpu.cfs_quota_us"
            quota = self._files.number(file)
            period = self._files.number(f"{place}/cpu.cfs_period_us") if quota is not None and quota > 0 else None
        if quota is None or period is None or quota <= 0 or period <= 0:
            return None
        return Limit(quota / period, file)

    def _places(self, controller: str) -> list[str]:
        """The directories of this process's cgroup and of its ancestors, the innermost first."""
        # On hybrid systems the unified hierarchy has no controllers, and version 1 has them.
        key = controller if controller in self._path_of else ""
        path = self._path_of.get(key)
        if path is None or len(path) > _PATH_MAX:
            return []
        root, mount = self._mounts.get(key, ("/", f"/sys/fs/cgroup/{controller}" if key else "/sys/fs/cgroup"))
        if root != "/":
            path = path.removeprefix(root) if path == root or path.startswith(f"{root}/") else ""
        # A process outside its cgroup namespace has a path with "..".
        parts = [part for part in path.split("/") if part]
        if ".." in parts:
            parts = []
        return [mount.rstrip("/") + "".join(f"/{part}" for part in parts[:end]) for end in range(len(parts), -1, -1)]


def _paths(text: str) -> dict[str, str]:
    """The path of the cgroup by controller; the empty name is version 2."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found[""] = path
        elif number.isdecimal():
            found |= dict.fromkeys(controllers.split(","), path)
    return found


def _mounts(text: str) -> dict[str, tuple[str, str]]:
    """The root of the mount in its hierarchy, and the place of the mount, by controller; the empty name is version 2."""
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        if " - cgroup" not in line:
            continue
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) < 5 or len(kind) < 3:
            continue
        place = (_unescaped(fields[3]), _unescaped(fields[4]))
        for name in [""] if kind[0] == "cgroup2" else kind[2].split(",") if kind[0] == "cgroup" else []:
            found.setdefault(name, place)
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
