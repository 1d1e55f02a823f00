"""Kill everything that a process has started, directly or not.

A process that adopts orphans (PR_SET_CHILD_SUBREAPER) becomes the parent of whatever its descendants leave behind, also of what
left its process group, its session or its terminal. So killing one's children, again and again until there are none, kills them
all. `kill_marked` finds by their environment those that nobody adopted.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from typing import Final

from fluxres import clock

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PAUSE_S: Final = 0.002
_TRIES_MAX: Final = 2_500
"""Rounds of 2 ms: a process in an uninterruptible call, or of another user, is left after five seconds."""


_prctl: Final = ctypes.CDLL(None, use_errno=True).prctl
"""Looked up before any fork: the child of a process with threads must not load a library."""


def adopt_orphans() -> None:
    """Become the parent of orphans among the descendants of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int, last_words: int = signal.SIGKILL) -> None:
    """Get a signal when the parent ends.

    Args:
        parent: its process id, to detect that it has ended already.
        last_words: the signal.
    """
    _prctl(_PR_SET_PDEATHSIG, last_words, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def children() -> list[int]:
    """The ids of the children of this process."""
    try:
        found = []
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
        return found
    except OSError:
        return _children_by_stat()


def _children_by_stat() -> list[int]:
    """The same for a kernel without lists of children."""
    own, found = os.getpid(), []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b")")[2].split()[1]) == own:
                    found.append(int(name))
    return found


def kill_all(keep: int = 0) -> list[int]:
    """Kill and reap all children of this process, and what these leave behind; returns those that could not be killed.

    Args:
        keep: a child that is neither killed nor reaped; 0 for none.
    """
    for _ in range(_TRIES_MAX):
        left = [pid for pid in children() if pid != keep]
        if not left:
            return []
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if [pid for pid in children() if pid != keep]:
            clock.sleep(_PAUSE_S)
    return [pid for pid in children() if pid != keep]
