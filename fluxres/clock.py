"""Time: the only module that reads a clock, and the one place where seconds become ticks.

Everything inside works on whole *ticks* of one microsecond, so that two moments are equal or they are not;
floats are what callers see.  A graph is given a clock and never looks for one itself: simulations pass
their own, tests pass a fixed one, commands pass :func:`system`.

Callers write times in many types; :func:`ticks` and :func:`length_ticks` read all of them. Text is read as on the command line,
by :mod:`fluxres.syntax.moment` and :mod:`fluxres.syntax.duration`, which are above this module and imported by name when text
comes.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, SupportsFloat, Union

from fluxres import limits
from fluxres.errors import InputError, UsageError

if TYPE_CHECKING:
    from numpy import datetime64, timedelta64

Clock = Callable[[], float]
Time = Union[SupportsFloat, str, datetime, "datetime64"]
"""A moment: seconds as any real number (NumPy's, Decimal and Fraction among them); text such as ``tomorrow 08:00`` or ``+1h``; a
datetime or pandas Timestamp, in local time unless it has a time zone; or NumPy's datetime64, which is UTC. Dates and texts of the
calendar are seconds since 1970."""
Length = Union[SupportsFloat, str, timedelta, "timedelta64"]
"""A length of time: seconds as any real number, text such as ``90m`` or ``1:30:00``, a timedelta or pandas Timedelta, or NumPy's
timedelta64."""

TICKS_PER_S: Final = 1_000_000
FOREVER: Final = 2**62
"""The tick that never comes: the end of what has no end."""


def system() -> float:
    """Seconds since 1970 by the clock of this machine.

    >>> system() > 1.7e9
    True
    """
    return time.time()


def sleep(seconds: float) -> None:
    """Wait for this long.

    >>> sleep(0)
    """
    time.sleep(seconds)


def stopwatch() -> float:
    """Seconds from some moment on, for how long something takes; never runs backwards.

    >>> 0 <= stopwatch() - stopwatch() + 1
    True
    """
    return time.perf_counter()


def monotonic_ns() -> int:
    """Nanoseconds since this machine started: the same for all of its processes, and never set back."""
    return time.monotonic_ns()


def processor_time() -> float:
    """Seconds that this thread has run, without the time of others on this machine.

    >>> 0 <= processor_time() - processor_time() + 1
    True
    """
    return time.thread_time()


def fixed(now_s: float = 0.0) -> Clock:
    """A clock that stands still at `now_s`.

    >>> fixed(5.0)()
    5.0
    """
    return partial(_still, now_s)  # other than a lambda, it can be pickled


def _still(now_s: float) -> float:
    return now_s


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ticks(seconds: Time, what: str = "time", now: int = 0, after: int | None = None) -> int:
    """A moment as whole ticks, rounded to the nearest; infinity is FOREVER.

    Args:
        seconds: at least 0.
        what: the name of the value, for the message.
        now: in ticks, from which text such as ``+1h`` or ``tomorrow`` counts.
        after: in ticks, the start that a time of day without a date, as an end, comes after; `now` by default.

    Errors: UsageError for NaN, a negative or too large value, text that is no moment, and what is of another type.

    >>> ticks(1.5), ticks(float("inf")) == FOREVER, ticks(datetime(1970, 1, 2, tzinfo=UTC)), ticks("+1h", now=5)
    (1500000, True, 86400000000, 3600000005)
    """
    if type(seconds) is not float and type(seconds) is not int:
        seconds = _moment(seconds, what, now, now if after is None else after)
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
        raise UsageError(f"clock: expected seconds from 0 to {limits.TIME_MAX_S:.0f}, got inf")
    return now


def length_ticks(seconds: Length, what: str = "duration_s") -> int:
    """A length of time as whole ticks; see :func:`ticks`.

    >>> length_ticks(timedelta(hours=1)), length_ticks("1h"), length_ticks(0.25)
    (3600000000, 3600000000, 250000)
    """
    if type(seconds) is not float and type(seconds) is not int:
        seconds = _length(seconds, what)
    return round(seconds * TICKS_PER_S) if 0 <= seconds <= limits.TIME_MAX_S else _extreme(seconds, what)


def length_s(length: Length, what: str) -> float:
    """A length of time as a float of seconds; an int or a float is returned as it is.

    >>> length_s("7d", "age_max_s"), length_s(0.1, "age_max_s")
    (604800.0, 0.1)
    """
    return length if type(length) is float or type(length) is int else seconds(length_ticks(length, what))


def positive_ticks(seconds: Length, what: str = "duration_s") -> int:
    """As :func:`length_ticks`, of at least one tick."""
    if (type(seconds) is float or type(seconds) is int) and 1 <= seconds <= limits.TIME_MAX_S:
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
    raise UsageError(f"{what}: expected seconds from 0 to {limits.TIME_MAX_S:.0f}, got {got}")


def _moment(value: Any, what: str, now: int, after: int) -> float:
    """A moment of another type than int and float, as one of these."""
    if isinstance(value, str):

        def read() -> float:
            asked = import_module("fluxres.syntax.moment").read(value)
            found: float = asked.resolve((after if asked.is_next else now) / TICKS_PER_S)
            return found

        return _read(read, what)
    if isinstance(value, datetime):
        return _since_1970(value, what)
    if type(value).__module__ == "numpy" and type(value).__name__ == "datetime64":
        return _numpy_seconds(value, what)
    return _number(value, what, "a moment such as a datetime or '+1h'")


def _length(value: Any, what: str) -> float:
    """A length of another type than int and float, as one of these."""
    if isinstance(value, str):
        return _read(lambda: float(import_module("fluxres.syntax.duration").read(value)), what)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if type(value).__module__ == "numpy" and type(value).__name__ == "timedelta64":
        return _numpy_seconds(value, what)
    return _number(value, what, "a duration such as a timedelta or '1h'")


def _read(parse: Callable[[], float], what: str) -> float:
    try:
        return parse()
    except (InputError, UsageError) as error:
        raise UsageError(f"{what}: {error.message.removeprefix('time: ')}", hint=error.hint) from None


def _since_1970(moment: datetime, what: str) -> float:
    if moment != moment:  # noqa: PLR0124 - pandas.NaT, which is a datetime
        raise UsageError(f"{what}: expected a time, got {moment!r}")
    try:
        if moment.utcoffset() is None:
            return datetime.timestamp(moment)  # a Timestamp of pandas overrides the method and takes its time for UTC
        return (moment - _EPOCH).total_seconds()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{what}: expected a date from 1970 to 9999, got {moment!r:.80}") from None


_NUMPY_UNITS: Final = {"W": 604800, "D": 86400, "h": 3600, "m": 60, "s": 1} | {
    name: 10**-power for name, power in (("ms", 3), ("us", 6), ("ns", 9), ("ps", 12), ("fs", 15), ("as", 18))
}


def _numpy_seconds(value: Any, what: str) -> float:
    """NumPy's datetime64 or timedelta64 in seconds, without the silent overflow of its own conversions."""
    import numpy as np

    unit, step = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and isinstance(value, np.datetime64) and not np.isnat(value) and abs(value.astype(int)) < 10**5:
        value, unit, step = value.astype("datetime64[D]"), "D", 1
    if unit not in _NUMPY_UNITS or np.isnat(value):
        raise UsageError(f"{what}: expected a number of seconds, got {value!r}", hint="give it in days or a smaller unit")
    return float(int(value.astype(np.int64)) * step * _NUMPY_UNITS[unit])


def _number(value: Any, what: str, other: str) -> float:
    """A real number of another type than int and float, as one of these."""
    from decimal import Decimal  # not imported for the times that are usual

    known: Any = (numbers.Real, Decimal)  # to mypy, int and float are none of these
    is_length = type(value).__module__ == "numpy" and type(value).__name__ == "timedelta64"  # an Integral to NumPy
    if isinstance(value, bool) or is_length or not isinstance(value, known):
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
        raise UsageError(f"{what}: expected seconds from 0 to {limits.TIME_MAX_S:.0f}, got {value!r:.80}")
    return found


def seconds(tick: int) -> float:
    """Ticks as seconds; FOREVER is infinity.

    >>> seconds(1500000), seconds(FOREVER)
    (1.5, inf)
    """
    return math.inf if tick >= FOREVER else tick / TICKS_PER_S
