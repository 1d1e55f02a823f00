"""The log of a server, in a thread of its own: a server must not stand still because nobody reads its standard error."""

from __future__ import annotations

import logging
import queue
import sys
import threading
from typing import Final

from fluxres import limits

_END_S: Final = 1.0
"""How long the end of the process waits for lines that were not written yet."""


class Lines(logging.Handler):
    """Writes lines to standard error. Those that do not fit into memory while nobody reads are dropped, and counted."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: queue.Queue[str | None] = queue.Queue(limits.SERVICE_LOG_LINES_MAX)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="fluxres-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        try:
            self._waiting.put(None, timeout=_END_S)
        except queue.Full:
            return
        self._thread.join(_END_S)
        super().close()

    def _run(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                _write(line)
                dropped, self._dropped = self._dropped, 0
                if dropped:
                    _write(f"fluxres: WARNING {dropped} lines of the log were dropped here")
            except (OSError, ValueError):
                return  # nobody will ever read it


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
