"""Wait for pipes, processes and timers at once.

There is one loop in one thread. Data from pipes is handled before timers that are due, so a process that was stopped for a while
and continues does not declare its children dead while their messages are in the pipe. Signals that ask the process to end are
counted and wake the loop; they interrupt nothing in the middle of a change.
"""

from __future__ import annotations

import selectors
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from types import FrameType
from typing import Final

from fluxres.clock import stopwatch

Handler = Callable[[int, FrameType | None], object]

_WAIT_S_MAX: Final = 86_400.0
"""The system can wait for 24 days at most."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Timer:
    """A callback that is due at some time, unless it is cancelled."""

    __slots__ = ("call", "due_s")

    def __init__(self, due_s: float, call: Callable[[], None]) -> None:
        self.due_s = due_s
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Loop:
    """The event loop of a process.

    >>> with Loop() as loop:
    ...     _ = loop.after(0.0, lambda: print("due"))
    ...     loop.turn()
    due
    """

    def __init__(self) -> None:
        self.stops = 0
        """Number of signals that asked this process to end."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def watch(self, fd: int, call: Callable[[], object]) -> None:
        """Call `call` whenever there is something to read."""
        self._selector.register(fd, selectors.EVENT_READ, call)

    def unwatch(self, fd: int) -> None:
        """Stop watching; the descriptor stays open."""
        self._selector.unregister(fd)

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call `call` once after a number of seconds."""
        timer = Timer(stopwatch() + delay_s, call)
        heappush(self._timers, (timer.due_s, next(self._numbers), timer))
        return timer

    def turn(self, wait_s: float | None = None) -> None:
        """Wait until something happens, at most `wait_s` seconds and at most a day, and handle all that has happened.

        Returns at once if there is nothing to wait for.
        """
        timers = self._timers
        while timers and timers[0][2].call is None:
            heappop(timers)
        if timers:
            due = max(0.0, timers[0][0] - stopwatch())
            wait_s = due if wait_s is None else min(wait_s, due)
        if wait_s is None and not self._selector.get_map():
            return
        for key, _ in self._selector.select(None if wait_s is None else min(wait_s, _WAIT_S_MAX)):
            if self._selector.get_map().get(key.fd) is key:  # an earlier callback of this turn may have ended it
                key.data()
        now = stopwatch()
        while timers and timers[0][0] <= now:
            call = heappop(timers)[2].call
            if call is not None:
                call()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Count signals that ask to end instead of ending; only in the main thread, which alone receives signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with self._woken(dict.fromkeys(_SIGNALS, self._stop), lambda _number: None):
            yield

    @contextmanager
    def handling(self, calls: Mapping[int, Callable[[], object]]) -> Iterator[None]:
        """Call a function for each of these signals, from the loop. A signal that is ignored goes on being ignored."""
        handled = {number: call for number, call in calls.items() if signal.getsignal(number) != signal.SIG_IGN}
        with self._woken(dict.fromkeys(handled, _nothing), lambda number: handled[number]() if number in handled else None):
            yield

    @contextmanager
    def _woken(self, handlers: Mapping[int, Handler], came: Callable[[int], object]) -> Iterator[None]:
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self.watch(reader.fileno(), lambda: [came(number) for number in _drain(reader)])
        woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
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


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """What is to be done is done from the loop, which the signal wakes."""


def _drain(reader: socket.socket) -> bytes:
    """The numbers of the signals that have come."""
    try:
        return reader.recv(4096)
    except BlockingIOError:
        return b""
