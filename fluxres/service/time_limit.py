"""A bound on the time of a question: a search that would go on is ended, in the thread that makes it.

A match is a computation on one graph, whose lock it holds, so one that takes minutes would keep everybody waiting. Python has
one way to end it from outside: an exception that is raised in the thread between two of its steps, as Ctrl-C is in the main
thread. A question leaves nothing behind, wherever it ends. A change may only be ended before its event is told: from there on it
is made, and `spare` says so.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from fluxres.clock import stopwatch
from fluxres.errors import Unavailable

T = TypeVar("T")

_PERIOD_S: Final = 0.05
_GONE_S: Final = 0.25
"""A question that takes longer is ended if nobody waits for its answer any more."""
receiving: Final[ContextVar[Callable[[], Awaitable[MutableMapping[str, Any]]]]] = ContextVar("receiving")
"""Of the present request: what comes over its connection."""
_raise_in: Final = ctypes.pythonapi.PyThreadState_SetAsyncExc


class _TooLong(BaseException):
    """Raised in the thread of a question."""


class _Watch:
    """The thread that ends questions whose time is over."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._ends: dict[int, TimeLimit] = {}
        self._work = threading.Condition(self.lock)
        self._is_waiting = False
        self._thread: threading.Thread | None = None

    def add(self, limit: TimeLimit) -> None:
        with self.lock:
            self._ends[limit.thread] = limit
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fluxres-time-limit", daemon=True)
                self._thread.start()
            elif self._is_waiting:
                self._is_waiting = False
                self._work.notify()

    def drop(self, limit: TimeLimit) -> None:
        """Let a question be, whatever happens; called by its thread."""
        with self.lock:
            self._ends.pop(limit.thread, None)
            if limit.is_over:  # it may be on its way
                _raise_in(ctypes.c_ulong(limit.thread), None)

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._ends:
                    self._is_waiting = True
                    self._work.wait()
                now = stopwatch()
                for thread, limit in list(self._ends.items()):
                    if limit.end <= now:
                        del self._ends[thread]
                        limit.is_over = True
                        _raise_in(ctypes.c_ulong(thread), ctypes.py_object(_TooLong))
            threading.Event().wait(_PERIOD_S)


_watch: Final = _Watch()


class TimeLimit:
    """A bound on the time of one call, which ends with Unavailable when it is over.

    Args:
        seconds: of wall clock time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = 0.0
        self.thread = 0
        self.is_over = self.is_spared = False

    def run(self, function: Callable[[], T]) -> T:
        """What a function returns, if it does in time.

        Errors: Unavailable.
        """
        self.thread = threading.get_ident()
        self.end = stopwatch() + self.seconds
        try:
            try:
                _watch.add(self)
                return function()
            finally:
                if not self.is_spared:
                    _watch.drop(self)
        except _TooLong:
            _watch.drop(self)
            message = f"the answer would take more than {self.seconds:g} s"
            raise Unavailable(message, hint="ask for less at once, or later", retry_after_s=5) from None

    async def cut_if_gone(self, answer: asyncio.Future[Any]) -> None:
        """Wait for an answer; end the call when its client has closed the connection."""
        receive = receiving.get(None)
        await asyncio.wait({answer}, timeout=_GONE_S)
        if answer.done() or receive is None:
            return
        gone = asyncio.ensure_future(_closed(receive))
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done() and not answer.done():
            self.seconds = self.end = 0.0
        gone.cancel()

    def spare(self) -> None:
        """Let the call end by itself from here on: what it does now must not stop half-way."""
        if not self.is_spared:
            _watch.drop(self)
            self.is_over, self.is_spared = False, True


async def _closed(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    """Wait until a connection is closed."""
    while (await receive())["type"] != "http.disconnect":
        pass
