"""A cgroup (version 2) for a job, where this user may create one: it ends everything in it at once, and limits its memory.

A part of the tree is *delegated* to a user who owns it (systemd: `Delegate=yes`); nowhere else may a program create groups.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from fluxres import clock

_PREFIX: Final = "fluxres-"
_ENDING_S: Final = 0.01
_ENDINGS_MAX: Final = 100


def create(mark: str, memory_bytes: int | None = None) -> tuple[str, bool]:
    """The directory of a new group for a job, empty if none can be created; and whether it limits memory."""
    above = _own()
    if above is None:
        return "", False
    folder = above / f"{_PREFIX}{mark}"
    try:
        if memory_bytes is not None and "memory" in (above / "cgroup.controllers").read_text().split():
            with suppress(OSError):
                (above / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
    except OSError:
        return "", False
    if memory_bytes is not None:
        try:
            with (folder / "memory.max").open("r+") as file:  # which is there if the controller is
                file.write(str(memory_bytes))
        except OSError:
            return str(folder), False
    return str(folder), memory_bytes is not None


def folder_of(mark: str) -> Path | None:
    """The directory of the group of a job, if there is one."""
    above = _own()
    folder = None if above is None else above / f"{_PREFIX}{mark}"
    return folder if folder is not None and folder.is_dir() else None


def remove(mark: str) -> None:
    """Kill everything in the group of a job, if there is one, and remove it."""
    folder = folder_of(mark)
    if folder is None:
        return
    with suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
    for _ in range(_ENDINGS_MAX):  # a group goes once the last process in it has ended
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            clock.sleep(_ENDING_S)


def _own() -> Path | None:
    """The directory of the group of this process, if it is delegated to this user."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            path = next(line.rstrip("\n")[3:] for line in file if line.startswith("0::"))
        with open("/proc/self/mounts", encoding="utf-8") as file:
            mounted = next(line.split()[1] for line in file if line.split()[2] == "cgroup2")
        folder = Path(mounted + path)
        owner = folder.stat().st_uid
        if not os.access(folder, os.W_OK) or not os.access(folder / "cgroup.procs", os.W_OK):
            return None
    except (OSError, StopIteration, IndexError):
        return None
    if os.geteuid() == 0:
        return folder if path == "/" or _is_delegated(folder) else None
    return folder if owner == os.geteuid() else None


def _is_delegated(folder: Path) -> bool:
    for name in ("trusted.delegate", "user.delegate"):
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False
