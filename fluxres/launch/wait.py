"""Wait in the queue for resources: sleep until something happens that may have made them free.

Whoever frees something wakes those who get it. Besides, the first few in the queue watch what nobody says: the end of the
processes of other jobs, and the end of what is held until a certain time. They are a few, and not all at once, so that hundreds
of waiting processes do not look at the store at the same moment.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from fluxres.errors import FluxresError, InsufficientResources, RunFailed
from fluxres.launch import control
from fluxres.launch.broker import look_every_s

if TYPE_CHECKING:
    from fluxres.launch.broker import Broker
    from fluxres.launch.desk import Standing
    from fluxres.launch.loop import Loop, Timer
    from fluxres.model import ResourceGraph
    from fluxres.store.mailbox import News

_STAGGER_S: Final = 0.15


class Reporter(Protocol):
    """Tells the user what a run does."""

    def note(self, message: str) -> None:
        """Something worth knowing."""

    def waits(self, job: str, place: int, waiting: int, start_s: Callable[[], float | None]) -> None:
        """It waits at this place; `start_s` finds the estimated start, infinity if it is not known."""

    def begins(self) -> None:
        """It has its resources."""

    @property
    def shows_place(self) -> bool:
        """Whether it shows changes of the place."""


class Wait:
    """A process that has a ticket, and waits.

    Args:
        broker: where the resources are.
        job: that of the ticket.
        wait_s: how long.
        reporter: tells the user.
        loop: how it waits.
    """

    def __init__(self, broker: Broker, job: str, wait_s: float, reporter: Reporter, loop: Loop) -> None:
        self.broker, self.job, self.wait_s = broker, job, wait_s
        self.reporter, self.loop = reporter, loop
        self._is_granted = self._is_canceled = self._is_late = False
        self._reason = ""
        self._place = (0, 0)
        self._watched: list[int] = []
        self._timers: list[Timer] = []
        self._due: Timer | None = None
        self._soon: Timer | None = None
        self._question: Timer | None = None
        self._asked: Timer | None = None
        """Apart from `_soon`, which a later message with a place cancels."""

    def until_granted(self) -> ResourceGraph:
        """Wait, and return the graph in which the job has its resources.

        Errors: InsufficientResources when the time is over, RunFailed if its ticket was removed; StoreError.
        """
        news = self.broker.fileno()
        if news is not None:
            self.loop.watch(news, self._read)
        if not math.isinf(self.wait_s):
            self._timers.append(self.loop.after(self.wait_s, self._give_up))
        self._look_later()
        self._ask_later()
        try:
            while True:
                self.loop.turn()
                if self._is_granted:
                    graph = self.broker.load()
                    if graph.records.is_holder(self.job):
                        return graph
                    self._is_granted = False
                if self._is_canceled or self._is_late:
                    self.reporter.begins()
                if self._is_canceled:
                    self._read()  # it may have found this out before it read why
                    raise RunFailed(self._reason or "it was canceled", where=f"job '{self.job}'")
                if self._is_late:
                    raise InsufficientResources(
                        f"its resources were not free within {self.wait_s:g} s", where=f"job '{self.job}'"
                    )
        finally:
            if news is not None:
                self.loop.unwatch(news)
            self._forget()
            for timer in (*self._timers, self._asked, self._question):
                if timer is not None:
                    timer.cancel()

    def _give_up(self) -> None:
        self._is_late = True

    def look(self) -> None:
        """Find out whether the job has got its resources.  Errors: StoreError."""
        self._take(self.broker.look())

    def _take(self, standing: Standing | None) -> None:
        if standing is not None:
            self._is_granted = standing.state == "running"
            self._is_canceled = standing.state == "gone"

    def _ask_later(self) -> None:
        def ask() -> None:
            self._take(self.broker.renew())
            self._ask_later()

        if self.broker.asks_every_s is not None:
            self._question = self.loop.after(self.broker.asks_every_s, ask)

    def _look_later(self) -> None:
        def look() -> None:
            self.look()
            self._look_later()

        self._timers = [timer for timer in self._timers if timer.call is not None]
        self._timers.append(self.loop.after(look_every_s(self.broker), look))

    # -- messages --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        for news in self.broker.read():
            self._is_granted |= news.is_granted
            self._is_canceled |= news.grace_s is not None
            self._reason = news.reason or self._reason
            if news.is_canceled:  # anybody may say so who may write to the store
                self._take(self.broker.renew())
            if news.look and (self._asked is None or self._asked.call is None):
                self._asked = self.loop.after(max(0, self._place[0] - 1) * _STAGGER_S, self.look)
            if news.place:
                if (news.place, news.waiting) != self._place:
                    self._place = news.place, news.waiting
                    self.reporter.waits(self.job, news.place, news.waiting, self._estimate)
                self._watch(news)

    def _estimate(self) -> float | None:
        with suppress(FluxresError):  # the server may be away for a while
            return self.broker.start_s(self.job)
        return None

    # -- what nobody says ------------------------------------------------------------------------------------------------

    def _watch(self, news: News) -> None:
        """Watch the processes of other jobs, and the time at which something ends."""
        self._forget()
        if not news.watch:
            return
        delay_s = (news.place - 1) * _STAGGER_S
        for processes in news.holders:
            self._watch_job(processes, delay_s)
        if news.due_s is not None:
            self._due = self.loop.after(news.due_s + delay_s, self.look)

    def _watch_job(self, processes: tuple[tuple[int, int], ...], delay_s: float) -> None:
        """Look when all processes of a job have ended."""
        handles = control.handles(processes)
        left = set(handles)
        if not left:
            self._soon = self.loop.after(delay_s, self.look)
            return

        def ended(handle: int) -> None:
            self._unwatch(handle)
            left.discard(handle)
            if not left:
                self._soon = self.loop.after(delay_s, self.look)

        for handle in handles:
            self._watched.append(handle)
            self.loop.watch(handle, partial(ended, handle))

    def _unwatch(self, handle: int) -> None:
        self._watched.remove(handle)
        self.loop.unwatch(handle)
        os.close(handle)

    def _forget(self) -> None:
        for handle in list(self._watched):
            self._unwatch(handle)
        for timer in (self._due, self._soon):
            if timer is not None:
                timer.cancel()
        self._due = self._soon = None
