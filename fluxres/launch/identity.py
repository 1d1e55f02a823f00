"""Which process is meant: its id, and when it started.

The kernel reuses process ids, so an id alone says nothing after its process has ended. An id with a start time is unique until
the machine boots, within its namespace of process ids: containers of one machine may have several, and share a boot id.
"""

from __future__ import annotations

import os
from enum import Enum
from functools import cache
from typing import Final

from fluxres import clock
from fluxres.allocation.facts import Launch

_GONE: Final = frozenset("ZXx")
_STOPPED: Final = frozenset("Tt")


class Presence(Enum):
    """What is left of the processes that a job lives by."""

    RUNNING = "running"
    STOPPED = "stopped"
    GONE = "gone"
    ELSEWHERE = "elsewhere"
    """On a machine whose processes cannot be seen from here."""


def host() -> str:
    return os.uname().nodename


@cache
def boot() -> str:
    """What makes process ids unique on this host: the boot, and the namespace of process ids."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            boot_id = file.read().strip()
        return f"{boot_id}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


@cache
def boot_time() -> float:
    """When this machine was booted, in seconds since 1970; 0 if that is not known."""
    try:
        with open("/proc/stat", encoding="utf-8") as file:
            return float(next(line.split()[1] for line in file if line.startswith("btime ")))
    except (OSError, StopIteration, ValueError):
        return 0.0


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since the boot; None if there is none, or it has ended and waits for its parent."""
    found = _stat(pid)
    return None if found is None or found[0] in _GONE else found[1]


def _stat(pid: int) -> tuple[str, int] | None:
    """State and start time (fields 3 and 22 of proc_pid_stat(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before the parenthesis may have blanks
        return fields[0].decode(), int(fields[19])
    except (OSError, IndexError, ValueError):
        return None


def of(pid: int) -> tuple[int, int]:
    """The identity of a process that exists."""
    return pid, start_time(pid) or 0


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped by a signal, or by a debugger."""
    stat = _stat(pid)
    return stat is not None and stat[0] in _STOPPED


def presence(launch: Launch, now: int) -> Presence:
    """What is left of the processes of a job.

    Args:
        now: in ticks; what cannot be seen from here is gone when its lease is over.

    Cost: 20 µs for each process, up to the first that runs.
    """
    is_here = launch.host == host()
    if is_here and launch.boot.partition("/")[0] != boot().partition("/")[0]:
        return Presence.GONE
    if not is_here or launch.boot != boot():  # in another namespace of process ids
        return Presence.GONE if launch.lease is not None and launch.lease <= now else Presence.ELSEWHERE
    found = Presence.GONE
    for pid, started in launch.processes:
        stat = _stat(pid)
        if stat is None or stat[1] != started or stat[0] in _GONE:
            continue
        if stat[0] not in _STOPPED:
            return Presence.RUNNING
        found = Presence.STOPPED
    return found


def presence_now(launch: Launch) -> Presence:
    """What is left of the processes at this moment, by the clock of the system."""
    return presence(launch, clock.ticks(clock.system()))


def is_awake(launch: Launch, now: int) -> bool:
    """Whether the first process of a job, its launcher, runs and is not stopped; elsewhere, whether its lease lasts.

    Args:
        now: in ticks.
    """
    if launch.host != host() or launch.boot != boot():
        return launch.lease is not None and launch.lease > now
    pid, started = launch.processes[0]
    stat = _stat(pid)
    return stat is not None and stat[1] == started and stat[0] not in _GONE | _STOPPED
