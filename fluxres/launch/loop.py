"""Waiting for pipes, processes and moments at once.

One loop in one thread: what came over pipes is handled before what is due, so that a process that was stopped for a while and
goes on does not take its children for dead whose words lie in the pipe.  Signals that ask the process to end are counted, and
wake the loop; nothing is interrupted in the middle of a change.
"""

from __future__ import annotations

import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from types import FrameType
from typing import Final

from fluxres.clock import stopwatch

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Timer:
    """Something that is due at a moment, unless it was canceled."""

    __slots__ = ("call", "due_s")

    def __init__(self, due_s: float, call: Callable[[], None]) -> None:
        self.due_s = due_s
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """It will not happen."""
        self.call = None


class Loop:
    """What a process waits for.

    >>> with Loop() as loop:
    ...     _ = loop.after(0.0, lambda: print("due"))
    ...     loop.turn()
    due
    """

    def __init__(self) -> None:
        self.stops = 0
        """Signals that asked this process to end."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def watch(self, fd: int, call: Callable[[], object]) -> None:
        """Call whenever there is something to read."""
        self._selector.register(fd, selectors.EVENT_READ, call)

    def unwatch(self, fd: int) -> None:
        """Never again; the descriptor stays open."""
        self._selector.unregister(fd)

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call once after a number of seconds."""
        timer = Timer(stopwatch() + delay_s, call)
        heappush(self._timers, (timer.due_s, next(self._numbers), timer))
        return timer

    def turn(self, wait_s: float | None = None) -> None:
        """Wait until something happens, at most `wait_s` seconds, and handle all that has happened.

        With nothing to wait for it returns at once.
        """
        timers = self._timers
        while timers and timers[0][2].call is None:
            heappop(timers)
        if timers:
            due = max(0.0, timers[0][0] - stopwatch())
            wait_s = due if wait_s is None else min(wait_s, due)
        if wait_s is None and not self._selector.get_map():
            return
        for key, _ in self._selector.select(wait_s):
            if self._selector.get_map().get(key.fd) is key:  # an earlier one of this turn may have ended it
                key.data()
        now = stopwatch()
        while timers and timers[0][0] <= now:
            call = heappop(timers)[2].call
            if call is not None:
                call()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Count signals that ask to end instead of ending; only in the main thread, elsewhere they are not ours."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self.watch(reader.fileno(), lambda: _drain(reader))
        woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, self._stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(woken)
            self.unwatch(reader.fileno())
            reader.close()
            writer.close()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stops += 1


def _drain(reader: socket.socket) -> None:
    try:
        reader.recv(4096)
    except BlockingIOError:
        return
