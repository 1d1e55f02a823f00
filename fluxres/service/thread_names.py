"""Names of threads as the system shows them (`top -H`, `ps -L`), so that one sees which thread is busy."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_OWN: Final = Path("/proc/thread-self/comm")


def show_name() -> None:
    """Let the system call this thread as Python does; Python 3.14 does so itself. Other systems than Linux have no such file."""
    with suppress(OSError):
        _OWN.write_text(threading.current_thread().name[:15], encoding="utf-8", errors="replace")
