"""Units, times and factors as text.

Numbers are never rounded or scaled, so everything in a table can be typed back.
"""

from __future__ import annotations

import math

from fluxres.syntax import moment


def units(amount: int, unit: str | None) -> str:
    """An amount with its unit.

    >>> units(128, "GiB"), units(8, None)
    ('128 GiB', '8')
    """
    return str(amount) if unit is None else f"{amount} {unit}"


def when(seconds: float) -> str:
    """A time for a table; calendar times to the second.

    >>> when(3600.0), when(0.5), when(float("inf"))
    ('3600', '0.5', '-')
    """
    if moment.EPOCH_FROM_S < seconds < math.inf:
        return moment.format(float(math.floor(seconds)))
    return moment.format(seconds)


def when_from(seconds: float) -> str:
    """The time from which on something is possible; calendar times are rounded up to the next second, so that it is possible
    then, too.

    >>> when_from(3600.0), when_from(1.5)
    ('3600', '1.5')
    """
    return when(float(math.ceil(seconds)) if moment.EPOCH_FROM_S < seconds < math.inf else seconds)


def seconds_or_none(seconds: float) -> float | None:
    """A time for JSON, which has no infinity: no end is null.

    >>> seconds_or_none(float("inf"))
    """
    return None if math.isinf(seconds) else seconds
