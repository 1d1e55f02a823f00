"""The processor of one instance of a simulation: what it has to do, one task after the other."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fluxres.clock import ticks

if TYPE_CHECKING:
    from fluxres.simulation.costs.overheads import Overheads

INGEST: Final = 0
DECISION: Final = 1
START: Final = 2
EVENT: Final = 3
SPAWN: Final = 4
MESSAGE: Final = 5
"""Kinds of tasks."""


class Processor:
    """What one instance has to do.

    Args:
        overheads: the lengths of its tasks.
    """

    __slots__ = ("ingesting", "is_busy", "launch", "lengths", "message_count", "spent", "tasks")

    def __init__(self, overheads: Overheads) -> None:
        given = overheads
        times = (given.ingest_s, 0.0, given.start_s, given.event_s, given.spawn_s, given.message_s)
        self.lengths = tuple(map(ticks, times))
        self.launch = ticks(given.launch_s)
        self.message_count = given.messages
        self.tasks: deque[tuple[int, Any]] = deque()
        self.is_busy = False
        self.spent = [0] * 6
        """Ticks by kind of task."""
        self.ingesting = 0
        """Jobs that were submitted and are not yet in the queue."""

    def abandon(self) -> int:
        """Drop all tasks, since the instance has ended; returns the number of jobs that were not in the queue yet."""
        left: int = sum(what.number for kind, what in self.tasks if kind == INGEST)
        self.tasks.clear()
        return left
