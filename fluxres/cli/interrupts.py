"""Ctrl-C interrupts a command once, so that nothing interrupts what the command then cleans up."""

from __future__ import annotations

import _thread
import os
import signal
import sys
from types import FrameType
from typing import Any, Final

from fluxres import limits
from fluxres.clock import monotonic_ns, sleep

_REPEAT_S: Final = 0.1


class Interrupts:
    """What Ctrl-C does from now on, unless the shell has the command ignore it.

    The first one raises KeyboardInterrupt, the next ones only after :data:`fluxres.limits.INTERRUPT_GRACE_SECONDS`.
    """

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._raise)
            sys.unraisablehook = self._again

    def end(self) -> None:
        """Ignore Ctrl-C: the command is done, and only the interpreter has still to end."""
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        now_ns = monotonic_ns()
        if self._last_ns is None or now_ns - self._last_ns > limits.INTERRUPT_GRACE_SECONDS * 1e9:
            self._last_ns = now_ns
            raise KeyboardInterrupt

    def _again(self, lost: Any) -> None:
        """Interrupt again if Python has dropped the exception, which came in a finalizer or a callback."""
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(lost)
            return
        self._last_ns = None
        _thread.start_new_thread(_send_later, ())


def _send_later() -> None:
    """Send the signal again, once the caller of the hook has returned."""
    sleep(_REPEAT_S)
    os.kill(os.getpid(), signal.SIGINT)
