"""Hierarchies to kill, and a search for processes that are left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from fluxres.launch import lifeline
from fluxres.simulation.machine import of_shape

WAIT_S = 60.0


def marked(mark: str) -> dict[int, str]:
    """Processes whose environment names this instance or one below it: process id → the instance named."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            variables = Path("/proc", name, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for one in variables:
            key, _, value = one.decode(errors="replace").partition("=")
            if key == lifeline.MARK and (value + ".").startswith(mark + "."):
                found[int(name)] = value
    return found


def eventually(what: Callable[[], bool], wait_s: float = WAIT_S) -> bool:
    """Whether a condition becomes true within a time that is long enough for any machine."""
    end = time.monotonic() + wait_s
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


__all__ = ["eventually", "is_alive", "marked", "of_shape"]
