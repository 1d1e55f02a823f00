"""How many runs start at once: as many as there are processors.

A run takes a third of a second of processor time until it has its place in the queue. Hundreds that start at the same moment
would take it from each other, and from those that end: each would hold the lock of the store for seconds, and what has become
free would stay idle for as long. So they start a few at a time. It is only a courtesy: whoever has waited for long goes ahead.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType

from fluxres import limits
from fluxres.store import mailbox


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
        """Errors: OSError, if it has waited for long."""

        def late(_number: int, _frame: FrameType | None) -> None:
            raise TimeoutError

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, limits.START_WAIT_SECONDS)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, os.getpid() % len(os.sched_getaffinity(0)))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def leave(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
