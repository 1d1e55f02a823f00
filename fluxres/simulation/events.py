"""Simulated time: the clock, the kinds of events and their order at one moment, and the queue of those to come."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Final

from fluxres.clock import seconds

SUBMIT: Final = 0
FOLLOW: Final = 1  # submit a job that follows others
BOOT: Final = 2
TIMER: Final = 3
END: Final = 4
PASS: Final = 5
PERIOD: Final = 6  # of a policy that moves jobs, or resizes instances
EXTERNAL: Final = 7
CORRECT: Final = 8  # a job outlives its prediction
SERVED: Final = 9  # a processor has completed a task
LAUNCHED: Final = 10
KEEP: Final = 11  # a job that has not been launched is at its limit
READY: Final = 12  # the nodes of a job are on
"""Kinds of events. Those of one kind at one moment are handled in the order in which they were caused: ends in that of starts."""

EVENT_ORDERS: Final[dict[str, tuple[int, ...]]] = {
    "sequential": (KEEP, READY, CORRECT, PASS, SERVED, SUBMIT, FOLLOW, BOOT, TIMER, END, LAUNCHED, PERIOD, EXTERNAL),
    "batched": (KEEP, READY, CORRECT, END, SERVED, LAUNCHED, BOOT, TIMER, EXTERNAL, SUBMIT, FOLLOW, PERIOD, PASS),
}
"""The order of the kinds of events at one moment. sequential, as in PySS: each event is followed by its pass. batched, as in
Batsim: one pass follows all events.  Jobs that outlive what was predicted come first, before others could get what they hold; in
the sequential order, as in PySS, no pass follows."""


class SimulatedClock:
    """The current time of the simulator.

    >>> clock = SimulatedClock(); clock.now = 1_500_000; clock()
    1.5
    """

    __slots__ = ("now",)

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> float:
        return seconds(self.now)

    def ticks(self) -> int:
        return self.now


class EventQueue:
    """Future events, sorted by moment, kind and insertion order.

    Args:
        kinds: in the order in which those of one moment are handled.
    """

    __slots__ = ("_heap", "_kinds", "_made", "_ranks")

    def __init__(self, kinds: tuple[int, ...] = EVENT_ORDERS["sequential"]) -> None:
        self._kinds = kinds
        self._ranks = [kinds.index(kind) for kind in range(len(kinds))]
        self._heap: list[tuple[int, int, int, Any]] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, moment: int, kind: int, what: Any) -> None:
        self._made += 1
        heappush(self._heap, (moment, self._ranks[kind], self._made, what))

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        """Moment, kind and content of each next event, until there is none; more may be pushed meanwhile."""
        heap, kinds = self._heap, self._kinds
        while heap:
            moment, rank, _, what = heappop(heap)
            yield moment, kinds[rank], what
