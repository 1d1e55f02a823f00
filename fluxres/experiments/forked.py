"""Preloaded by the server that forks the runs of a campaign; nothing else imports it.

A campaign killed while it starts a run leaves a process that received nothing.  That process has nothing to run and nothing to
report, so it exits without a traceback.

The server begins with SIGINT blocked (`campaign`); from here on it ignores it, as do the processes of the runs.
"""

from __future__ import annotations

import signal
import sys
from types import TracebackType

from fluxres.experiments import execution

__all__ = ["execution"]


def _exit_silently(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError | ConnectionError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _exit_silently

if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
