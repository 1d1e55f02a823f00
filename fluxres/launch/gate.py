"""How many runs start at once: as many as there are processors.

A run takes a third of a second of processor time until it has its place in the queue. Hundreds that start at the same moment
would take it from each other, and from those that end: each would hold the lock of the store for seconds, and what has become
free would stay idle for as long. So they start a few at a time. It is only a courtesy: a run that has waited for long, or for
a process that is stopped, goes ahead.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import struct
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from fluxres import limits
from fluxres.clock import stopwatch
from fluxres.launch import identity
from fluxres.store import mailbox

_LOOK_S: Final = 0.5
_FLOCK: Final = "hhqqi"
"""The fields of a struct flock: type, whence, start, length, process."""


class Gate:
    """A place among those that start; :meth:`leave` makes room for the next one, as does the end of the process.

    A lock of a byte of a file, and not of the file, since the processes that this one forks must not keep it.

    Args:
        store: path of the store; nobody waits if it does not exist, or is None.
    """

    def __init__(self, store: Path | None) -> None:
        self._fd = -1
        if store is None or threading.current_thread() is not threading.main_thread():
            return  # only the main thread can be woken when it has waited for long
        with suppress(OSError):
            mode = 0o600 | stat.S_IMODE(store.stat().st_mode) & 0o066
            self._fd = os.open(mailbox.make_folder(store) / mailbox.GATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if os.fstat(self._fd).st_uid == os.geteuid():
                os.fchmod(self._fd, mode)
            self._enter()

    def _enter(self) -> None:
        """Errors: OSError, if it has waited for long, or for a process that is stopped."""

        place, late_s = os.getpid() % len(os.sched_getaffinity(0)), stopwatch() + limits.START_WAIT_SECONDS

        def look(_number: int, _frame: FrameType | None) -> None:
            if stopwatch() >= late_s or identity.is_stopped(self._holder(place)):
                raise TimeoutError

        before = signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, min(_LOOK_S, limits.START_WAIT_SECONDS), _LOOK_S)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, place)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _holder(self, place: int) -> int:
        """The process at a place; 0 if it cannot be seen from here."""
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(self._fd, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(pid)

    def leave(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
