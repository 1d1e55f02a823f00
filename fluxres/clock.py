"""Time: the only module that reads a clock, and the one place where seconds become ticks.

Everything inside works on whole *ticks* of one microsecond, so that two moments are equal or they are not;
floats are what callers see.  A graph is given a clock and never looks for one itself: simulations pass
their own, tests pass a fixed one, commands pass :func:`system`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from fluxres import limits
from fluxres.errors import UsageError

Clock = Callable[[], float]

TICKS_PER_S: Final = 1_000_000
FOREVER: Final = 2**62
"""The tick that never comes: the end of what has no end."""


def system() -> float:
    """Seconds since 1970 by the clock of this machine.

    >>> system() > 1.7e9
    True
    """
    return time.time()


def stopwatch() -> float:
    """Seconds from some moment on, for how long something takes; never runs backwards.

    >>> 0 <= stopwatch() - stopwatch() + 1
    True
    """
    return time.perf_counter()


def fixed(now_s: float = 0.0) -> Clock:
    """A clock that stands still at `now_s`.

    >>> fixed(5.0)()
    5.0
    """
    return lambda: now_s


def ticks(seconds: float, what: str = "time") -> int:
    """Seconds as whole ticks, rounded to the nearest; infinity is FOREVER.

    Args:
        seconds: at least 0.
        what: the name of the value, for the message.

    Errors: UsageError for NaN, a negative or too large value, and what is not a number.

    >>> ticks(1.5), ticks(float("inf")) == FOREVER
    (1500000, True)
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise UsageError(f"{what}: expected seconds as a number, got {seconds!r}")
    if isinstance(seconds, float) and math.isinf(seconds) and seconds > 0:
        return FOREVER
    if not 0 <= seconds <= limits.TIME_MAX_S:
        # Python refuses to print an int of many thousand digits.
        got = "a number of over 300 digits" if isinstance(seconds, int) and abs(seconds) >= 10**300 else repr(seconds)
        raise UsageError(f"{what}: expected 0 <= seconds <= {limits.TIME_MAX_S:.0f}, got {got}")
    return round(seconds * TICKS_PER_S)


def seconds(tick: int) -> float:
    """Ticks as seconds; FOREVER is infinity.

    >>> seconds(1500000), seconds(FOREVER)
    (1.5, inf)
    """
    return math.inf if tick >= FOREVER else tick / TICKS_PER_S
