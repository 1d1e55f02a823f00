"""Units, times and factors as people read them.

Numbers are never rounded or scaled: what a table shows can be typed back.
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
    """A moment for a table; wall-clock times to the second.

    >>> when(3600.0), when(0.5), when(float("inf"))
    ('3600', '0.5', '-')
    """
    if moment.EPOCH_FROM_S < seconds < math.inf:
        return moment.format(float(math.floor(seconds)))
    return moment.format(seconds)


def when_from(seconds: float) -> str:
    """A moment from which on something works: wall-clock times up to the next second, so that it works then as well.

    >>> when_from(3600.0), when_from(1.5)
    ('3600', '1.5')
    """
    return when(float(math.ceil(seconds)) if moment.EPOCH_FROM_S < seconds < math.inf else seconds)


def seconds_or_none(seconds: float) -> float | None:
    """A moment for JSON, which has no infinity: no end is null.

    >>> seconds_or_none(float("inf"))
    """
    return None if math.isinf(seconds) else seconds
