"""Durations as text: `30m`, `1.5h`, `inf` (Flux RFC 23).

The reader behaves like flux-core's C reader, which is `strtod` plus one suffix: exponents, hexadecimal and `infinity` are
numbers, `5 s` and `10h5m` are not durations. Python's `float()` cannot be used instead: it accepts `1_0` and refuses `0x10`.
The one difference: a suffix without a number is refused; C reads it as 0.
"""

from __future__ import annotations

import math
import re
from typing import Final

from fluxres.documents.document import excerpt
from fluxres.errors import InputError, UsageError

_SECONDS: Final = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

# The longest prefix that C99 strtod accepts: hexadecimal before decimal, because "0" alone is a prefix of "0x10".
_NUMBER = re.compile(
    r"""[ \t\n\v\f\r]*(?P<number>[+-]?(?:
        (?P<hex>0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?)
      | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?
      | inf(?:inity)?
    ))""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)


def parse(text: str) -> float:
    """Seconds of a Flux standard duration; infinity for `inf` and `infinity`. The empty text is 0, as in flux-core.

    Errors: InputError for anything else, including negative values. Source: RFC 23.

    >>> parse("30m"), parse("1.5h"), parse("500ms"), parse("inf")
    (1800.0, 5400.0, 0.5, inf)
    """
    if text == "":
        return 0.0
    found = _NUMBER.match(text)
    if found is None:
        raise _refused(text)
    value = _number(found, text)
    suffix = text[found.end() :]
    if suffix not in _SECONDS or value < 0 or (math.isinf(value) and suffix):
        raise _refused(text)
    seconds = abs(value * _SECONDS[suffix])
    if math.isinf(seconds) and not math.isinf(value):
        raise _too_large(text)
    return seconds


def format(seconds: float, digits: int = 6) -> str:  # noqa: A001 - read as duration.format
    """Seconds in a unit that suits their size, as flux-core prints them.

    Args:
        digits: number of significant digits.

    Errors: UsageError for NaN and negative values.

    >>> format(62), format(62, digits=2), format(5400), format(0.002), format(float("inf"))
    ('1.03333m', '1m', '1.5h', '2ms', 'infinity')
    """
    if math.isnan(seconds) or seconds < 0:
        raise UsageError(f"duration: expected seconds >= 0, got {seconds!r}")
    if math.isinf(seconds):
        return "infinity"
    if seconds == 0:
        return "0s"
    if seconds < 0.1:
        return f"{seconds * 1000:.{digits}g}ms"
    for below, unit in ((60.0, "s"), (3600.0, "m"), (86400.0, "h")):
        if seconds < below:
            return f"{seconds / _SECONDS[unit]:.{digits}g}{unit}"
    return f"{seconds / 86400:.{digits}g}d"


def _number(found: re.Match[str], text: str) -> float:
    number = found["number"]
    try:
        value = float.fromhex(number) if found["hex"] else float(number)
    except OverflowError:
        raise _too_large(text) from None
    if math.isinf(value) and "inf" not in number.lower():
        raise _too_large(text)
    return value


def _refused(text: str) -> InputError:
    return InputError(
        f"expected a duration, got {excerpt(text)}",
        where="duration",
        hint="a number >= 0 and one of ms, s, m, h, d, such as 30m or 1.5h; inf for no end",
    )


def _too_large(text: str) -> InputError:
    return InputError(f"expected a duration that fits a float, got {excerpt(text)}", where="duration")
