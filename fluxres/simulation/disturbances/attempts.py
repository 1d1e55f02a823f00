"""Jobs that were interrupted and run again: what they have done, what they had saved of it, and how long they still run.

A checkpoint saves the work of a job.  A job saves each time it has worked for an interval, except at its end, and each save takes
time.  What it has done since the last one is lost if it is interrupted.  To go on from what it has saved takes time as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from fluxres.clock import FOREVER, ticks
from fluxres.errors import UsageError
from fluxres.syntax import parameters

if TYPE_CHECKING:
    from fluxres.simulation.schedule import Finished


@dataclass(frozen=True)
class Checkpoint:
    """How jobs save their work; times in seconds.

    Args:
        interval_s: of work between saves; None: never.
        save_s, restart_s: what a save and a restart from it take.

    >>> made = Checkpoint(interval_s=10.0, save_s=1.0, restart_s=2.0)
    >>> made.length(25_000_000, False) / 1e6, made.length(25_000_000, True) / 1e6
    (27.0, 29.0)
    >>> made.saved(12_500_000, 25_000_000, False) / 1e6
    10.0
    """

    interval_s: float | None = None
    save_s: float = 0.0
    restart_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("save_s", "restart_s"):
            if not 0 <= getattr(self, name) <= 1e9:
                raise UsageError(f"{name}: expected 0 to 1e9, got {getattr(self, name)!r:.80}", where="checkpoint")
        if self.interval_s is not None and not 1e-3 <= self.interval_s <= 1e9:
            raise UsageError(f"interval_s: expected 0.001 to 1e9, got {self.interval_s!r:.80}", where="checkpoint")

    @property
    def _interval(self) -> int:
        return FOREVER if self.interval_s is None else ticks(self.interval_s)

    def length(self, work: int, is_restart: bool) -> int:
        """How long an attempt takes with this much work, in ticks, if nothing interrupts it."""
        saves = max(-(-work // self._interval) - 1, 0)
        return work + saves * ticks(self.save_s) + (ticks(self.restart_s) if is_restart else 0)

    def limit(self, limit: int) -> int:
        """A limit that leaves time for all saves, and for a restart."""
        return limit if limit >= FOREVER else self.length(limit, True)

    def saved(self, elapsed: int, work: int, is_restart: bool) -> int:
        """The work that is saved after a time: that until the last checkpoint that is complete."""
        elapsed = max(elapsed - (ticks(self.restart_s) if is_restart else 0), 0)
        saves = max(-(-work // self._interval) - 1, 0)
        return min(elapsed // (self._interval + ticks(self.save_s)), saves) * self._interval


NOTHING_SAVED: Final = Checkpoint()
"""Jobs begin anew."""


@dataclass
class History:
    """What an interrupted job has done.

    Args:
        run: its work, in ticks.
        saved: the work that need not be done again; of a moldable job, at its preferred size.
        earlier: records of the attempts that were interrupted.
        ends: when the attempt that runs now is to end, -1 if none does.
    """

    run: int
    saved: int | Fraction = 0
    earlier: list[Finished] = field(default_factory=list)
    ends: int = -1


def parse(text: str) -> Checkpoint:
    """A checkpoint from a command line: ``interval=1h,save=5m,restart=2m``, each part optional.

    Errors: UsageError.

    >>> parse("interval=1h,save=30s")
    Checkpoint(interval_s=3600.0, save_s=30.0, restart_s=0.0)
    """
    return Checkpoint(**parameters.read(text, parameters.of(Checkpoint), "checkpoint"))
