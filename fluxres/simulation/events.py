"""Simulated time: a clock that jumps from event to event, and the queue of future events."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, Final

from fluxres.clock import seconds

SUBMIT: Final = 0
BOOT: Final = 1
TIMER: Final = 2
END: Final = 3
PASS: Final = 4
"""Kinds of events, in the order in which those of one moment are handled; ends are handled in the order of the starts."""


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
        """Now in ticks."""
        return self.now


class Events:
    """Future events, sorted by moment, kind and insertion order."""

    __slots__ = ("_heap", "_made")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Any]] = []
        self._made = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, moment: int, kind: int, what: Any) -> None:
        self._made += 1
        heappush(self._heap, (moment, kind, self._made, what))

    def pop(self) -> tuple[int, int, int, Any]:
        return heappop(self._heap)
