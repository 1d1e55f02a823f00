"""Job ids (RFC 19), unique among all instances that schedule one graph, because they name jobs in its records.

Each instance uses its own value of the generator field.
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
"""The timestamp field of an id has 40 bits of milliseconds."""


class JobIds:
    """The ids of the jobs of one instance.

    Args:
        epoch: the origin of timestamps, in ticks.

    Errors: LimitExceeded if all generator values are in use for the graph.
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
        """Free the generator value, because the instance is closed."""
        if self._used.get(self._generator) is self:
            del self._used[self._generator]

    def new(self, now: int, taken: Container[str]) -> int:
        """The next id.

        Args:
            taken: names in use by jobs of others in the graph.

        Errors: UsageError more than 34 years after the epoch.
        """
        moment, sequence = (now - self.epoch) // 1000, 0
        last, used = self._last
        if moment <= last:
            moment, sequence = (last, used + 1) if used + 1 < _SEQUENCES else (last + 1, 0)
        if moment >= _MOMENTS:
            years = "job ids (RFC 19) have no room for more than 34 years since the instance began"
            raise UsageError(f"clock: {years}", hint="make a new instance, or set the clock right")
        self._last = (moment, sequence)
        made: int = moment << 24 | self._generator << 10 | sequence
        return self.new(now, taken) if taken and fluid.encode(made) in taken else made

    def is_issued(self, name: str) -> bool:
        """Whether this may be the id of a job of the instance, past or present."""
        try:
            number = fluid.decode(name)
        except FluxresError:
            return False
        parts = fluid.split(number)
        is_own = fluid.encode(number) == name and parts.generator == self._generator
        return is_own and (parts.timestamp_ms, parts.sequence) <= self._last


_USED: Final[WeakKeyDictionary[ResourceGraph, WeakValueDictionary[int, JobIds]]] = WeakKeyDictionary()
"""By graph, the generator values in use."""
