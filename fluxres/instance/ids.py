"""Job ids (RFC 19) of the instances that schedule one graph: unique among them, because a job's id names it in the records.

The generator field of an id tells the instances apart.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from fluxres.errors import FluxresError, LimitExceeded, UsageError
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

_SEQUENCES: Final = 1 << 10
_MOMENTS: Final = 1 << 40
"""Milliseconds that the timestamp of an id has room for."""


class JobIds:
    """The ids of the jobs of one instance.

    Args:
        epoch: the moment from which timestamps count, in ticks.

    Errors: LimitExceeded where all generators of the graph are in use.
    """

    def __init__(self, graph: ResourceGraph, epoch: int) -> None:
        self.epoch = epoch
        self._last = (-1, 0)
        with graph.lock:
            self._used = _USED.setdefault(graph, WeakValueDictionary())
            free = (number for number in range(1 << fluid.GENERATOR_BITS) if number not in self._used)
            self._generator = next(free, -1)
            if self._generator < 0:
                message = f"{1 << fluid.GENERATOR_BITS} instances schedule this graph"
                raise LimitExceeded(message, hint="close some of them")
            self._used[self._generator] = self

    def release(self) -> None:
        """Leave the generator to another instance: this one is closed."""
        if self._used.get(self._generator) is self:
            del self._used[self._generator]

    def new(self, now: int, taken: Container[str]) -> int:
        """The next id.

        Args:
            taken: names that jobs of others have in the graph.

        Errors: UsageError over 34 years after the epoch.
        """
        moment, sequence = (now - self.epoch) // 1000, 0
        last, used = self._last
        if moment <= last:
            moment, sequence = (last, used + 1) if used + 1 < _SEQUENCES else (last + 1, 0)
        if moment >= _MOMENTS:
            years = "the instance began over 34 years before, and ids of jobs (RFC 19) have no room for the time since"
            raise UsageError(f"clock: {years}", hint="make a new instance, or set the clock right")
        self._last = (moment, sequence)
        made: int = moment << 24 | self._generator << 10 | sequence
        return self.new(now, taken) if taken and fluid.encode(made) in taken else made

    def is_issued(self, name: str) -> bool:
        """Whether this may be the id of a job that the instance had."""
        try:
            number = fluid.decode(name)
        except FluxresError:
            return False
        parts = fluid.split(number)
        is_ours = fluid.encode(number) == name and parts.generator == self._generator
        return is_ours and (parts.timestamp_ms, parts.sequence) <= self._last


_USED: Final[WeakKeyDictionary[ResourceGraph, WeakValueDictionary[int, JobIds]]] = WeakKeyDictionary()
"""By graph, the generators in use."""
