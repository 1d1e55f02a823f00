"""When idle nodes are switched off, and how long it takes to switch them on again: the parameters of Slurm's power saving.

A node that has been idle for SuspendTime is switched off, which takes SuspendTimeout.  A job may be given nodes that are off:
they are switched on for it, and it starts when all of them are on.  SuspendRate and ResumeRate bound the number of nodes per
minute.  https://slurm.schedmd.com/power_save.html
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from fluxres.clock import FOREVER, TICKS_PER_S, ticks
from fluxres.errors import UsageError
from fluxres.syntax import parameters

_MINUTE: Final = 60 * TICKS_PER_S


@dataclass(frozen=True)
class PowerSaving:
    """When nodes are switched off and on; times in seconds.

    Args:
        suspend_time_s: how long a node is idle before it is switched off; None for never.
        suspend_s, resume_s: what it takes to switch a node off and on.
        keep_idle: the number of idle nodes that stay on.
        suspend_rate, resume_rate: nodes per minute that may be switched off and on at most; 0 for any number.
    """

    suspend_time_s: float | None = None
    suspend_s: float = 0.0
    resume_s: float = 0.0
    keep_idle: int = 0
    suspend_rate: int = 0
    resume_rate: int = 0

    def __post_init__(self) -> None:
        for name in ("suspend_time_s", "suspend_s", "resume_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1e9:
                raise UsageError(f"{name}: expected 0 to 1e9, got {value!r:.80}", where="power saving")
        for name in ("keep_idle", "suspend_rate", "resume_rate"):
            if not 0 <= getattr(self, name) <= 10**9:
                raise UsageError(f"{name}: expected 0 to 1e9, got {getattr(self, name)!r:.80}", where="power saving")

    def longest_wait(self, nodes: int) -> int:
        """How long a job waits for its nodes at most, in ticks, if all nodes of the machine are switched on at once."""
        if self.suspend_time_s is None:
            return 0
        queued = (-(-nodes // self.resume_rate)) * _MINUTE if self.resume_rate else 0
        return ticks(self.suspend_s) + ticks(self.resume_s) + queued


ALWAYS_ON: Final = PowerSaving()
"""Nodes are never switched off."""


class MinuteLimit:
    """Moments for something that may happen a number of times in any minute.

    Args:
        per_minute: 0 for any number.

    >>> rate = MinuteLimit(2)
    >>> [rate.take(0) // 1_000_000 for _ in range(5)]
    [0, 0, 60, 60, 120]
    """

    __slots__ = ("_last", "_taken", "per_minute")

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._taken: deque[int] = deque(maxlen=max(per_minute, 1))
        self._last = -FOREVER

    def next(self, earliest: int) -> int:
        """The first moment from `earliest` on, and not before the last one."""
        if not self.per_minute:
            return earliest
        found = max(earliest, self._last)
        return max(found, self._taken[0] + _MINUTE) if len(self._taken) == self.per_minute else found

    def take(self, earliest: int) -> int:
        """Take the next moment."""
        found = self.next(earliest)
        if self.per_minute:
            self._taken.append(found)
            self._last = found
        return found


def parse(text: str) -> PowerSaving:
    """Power saving from a command line: ``suspend_time=10m``, and suspend, resume, keep, suspend_rate and resume_rate.

    Errors: UsageError.

    >>> parse("suspend_time=10m,resume=90,keep=4")
    PowerSaving(suspend_time_s=600.0, suspend_s=0.0, resume_s=90.0, keep_idle=4, suspend_rate=0, resume_rate=0)
    """
    known = parameters.of(PowerSaving, renamed={"keep_idle": "keep"}, required=("suspend_time_s",))
    return PowerSaving(**parameters.read(text, known, "power saving"))
