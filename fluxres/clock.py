"""Time: the only module that reads a clock, and the one place where seconds become ticks.

Everything inside works on whole *ticks* of one microsecond, so that two moments are equal or they are not;
floats are what callers see.  A graph is given a clock and never looks for one itself: simulations pass
their own, tests pass a fixed one, commands pass :func:`system`.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, SupportsFloat

from fluxres import limits
from fluxres.errors import UsageError

Clock = Callable[[], float]
Time = SupportsFloat | datetime
"""A moment: seconds as any real number (NumPy's, Decimal and Fraction among them), or a datetime with a time zone, which is
seconds since 1970."""
Length = SupportsFloat | timedelta
"""A length of time: seconds as any real number, or a timedelta."""

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
    return partial(_still, now_s)  # other than a lambda, it can be pickled


def _still(now_s: float) -> float:
    return now_s


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ticks(seconds: Time, what: str = "time") -> int:
    """A moment as whole ticks, rounded to the nearest; infinity is FOREVER.

    Args:
        seconds: at least 0.
        what: the name of the value, for the message.

    Errors: UsageError for NaN, a negative or too large value, a datetime without a time zone, and what is neither.

    >>> ticks(1.5), ticks(float("inf")) == FOREVER, ticks(datetime(1970, 1, 2, tzinfo=UTC))
    (1500000, True, 86400000000)
    """
    if type(seconds) is not float and type(seconds) is not int:
        seconds = _since_1970(seconds, what) if isinstance(seconds, datetime) else _number(seconds, what, "a datetime")
    # Asked several times by each allocation, nearly always for an ordinary number.
    return round(seconds * TICKS_PER_S) if 0 <= seconds <= limits.TIME_MAX_S else _extreme(seconds, what)


def now_ticks(clock: Clock) -> int:
    """What a clock says, as whole ticks.

    Errors: UsageError for what is no moment: infinity, and what :func:`ticks` refuses.

    >>> now_ticks(fixed(1.5))
    1500000
    """
    now = ticks(clock(), "clock")
    if now >= FOREVER:
        raise UsageError(f"clock: expected 0 <= seconds <= {limits.TIME_MAX_S:.0f}, got inf")
    return now


def length_ticks(seconds: Length, what: str = "duration_s") -> int:
    """A length of time as whole ticks; see :func:`ticks`.

    >>> length_ticks(timedelta(hours=1)), length_ticks(0.25)
    (3600000000, 250000)
    """
    if type(seconds) is not float and type(seconds) is not int:
        seconds = seconds.total_seconds() if isinstance(seconds, timedelta) else _number(seconds, what, "a timedelta")
    return round(seconds * TICKS_PER_S) if 0 <= seconds <= limits.TIME_MAX_S else _extreme(seconds, what)


def positive_ticks(seconds: Length, what: str = "duration_s") -> int:
    """As :func:`length_ticks`, of at least one tick."""
    if type(seconds) is float and 1 <= seconds <= limits.TIME_MAX_S:
        return round(seconds * TICKS_PER_S)
    found = length_ticks(seconds, what)
    if found < 1:
        raise UsageError(f"{what}: expected a positive number of seconds, got {seconds!r:.80}")
    return found


def _extreme(seconds: float, what: str) -> int:
    if seconds == math.inf:
        return FOREVER
    # Python refuses to print an int of many thousand digits.
    got = "a number of over 300 digits" if isinstance(seconds, int) and abs(seconds) >= 10**300 else repr(seconds)
    raise UsageError(f"{what}: expected 0 <= seconds <= {limits.TIME_MAX_S:.0f}, got {got}")


def _since_1970(moment: datetime, what: str) -> float:
    if moment.utcoffset() is None:
        raise UsageError(
            f"{what}: {moment.isoformat()} has no time zone",
            hint="datetime.now(UTC) has one, and .astimezone() adds the local one",
        )
    return (moment - _EPOCH).total_seconds()


def _number(value: Any, what: str, other: str) -> float:
    """A real number of another type than int and float, as one of these."""
    from decimal import Decimal  # who passes none does not pay for the import

    known: Any = (numbers.Real, Decimal)  # to mypy, int and float are none of these
    if isinstance(value, bool) or not isinstance(value, known):
        raise UsageError(f"{what}: expected seconds as a number or {other}, got {value!r:.80}")
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        found = float(value)
    except (OverflowError, ValueError):  # a fraction beyond floats, a signalling NaN
        found = math.nan
    if math.isinf(found) and value not in (math.inf, -math.inf):
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"{what}: expected 0 <= seconds <= {limits.TIME_MAX_S:.0f}, got {value!r:.80}")
    return found


def seconds(tick: int) -> float:
    """Ticks as seconds; FOREVER is infinity.

    >>> seconds(1500000), seconds(FOREVER)
    (1.5, inf)
    """
    return math.inf if tick >= FOREVER else tick / TICKS_PER_S
