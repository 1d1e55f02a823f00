"""Durations as text: `30m`, `1.5h`, `inf` (Flux RFC 23), and as people write them: `1:00:00`, `1-12`, `2h30m`.

:func:`parse` reads the form of Flux. It behaves like flux-core's C reader, which is `strtod` plus one suffix: exponents,
hexadecimal and `infinity` are numbers, `5 s` and `10h5m` are not durations. Python's `float()` cannot be used instead: it accepts
`1_0` and refuses `0x10`. The one difference: a suffix without a number is refused; C reads it as 0.

:func:`read` is for what people write, in options and in files. It accepts everything that `parse` accepts but the empty text,
Slurm's forms, and units in a row.
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

_DAY: Final = 86400.0
_ENDLESS: Final = frozenset({"unlimited", "infinite"})
_NAMES: Final = {
    **dict.fromkeys(("ms",), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * _DAY),
}
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", re.ASCII)
_COLONS = re.compile(r"(?:(?P<days>[0-9]+)-)?(?P<fields>[0-9]+(?::[0-9]+){0,2})", re.ASCII)


def read(text: str, *, bare_s: float = 1.0) -> float:
    """Seconds of a duration as people write it.

    Args:
        text: what :func:`parse` reads; `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes` and
            `days-hours:minutes:seconds`, as in Slurm's `--time`; numbers with units in a row, the largest first, such as `1d12h`
            or `2 hours 30 minutes`; `unlimited`.
        bare_s: seconds that a number without a unit counts.

    Errors: InputError for anything else.

    >>> read("1:00:00"), read("5:30"), read("1-12"), read("2h30m"), read("90"), read("90", bare_s=60.0)
    (3600.0, 330.0, 129600.0, 9000.0, 90.0, 5400.0)
    """
    word = text.strip().lower()
    if not word:
        raise _refused(text, _FORMS)
    if word in _ENDLESS:
        return math.inf
    found = _COLONS.fullmatch(word)
    if found is not None and not word.isdigit():
        return _of_colons(found, text)
    seconds = _of_parts(word, text)
    if seconds is not None:
        return seconds
    try:
        seconds = parse(word)
    except InputError as error:
        raise error if error.message.startswith(_BEYOND) else _refused(text, _FORMS) from None
    scaled = seconds * bare_s if _NUMBER.fullmatch(word) else seconds
    if math.isinf(scaled) and not math.isinf(seconds):
        raise _too_large(text)
    return scaled


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
        raise UsageError(f"duration: expected at least 0 seconds, got {seconds!r}")
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


def readable(seconds: float) -> str:
    """A length of time for people, in its two largest units.

    >>> readable(1047600.0), readable(5400.0), readable(59.7), readable(0.25), readable(float("inf"))
    ('12 d 3 h', '1 h 30 min', '1 min', '0.25 s', 'no end')
    """
    if math.isinf(seconds):
        return "no end"
    if seconds < 10:
        return f"{seconds:.3g} s"
    words = _in_units(float(round(seconds)))
    largest = next(at for at, word in enumerate(words) if word)
    return " ".join(word for word in words[largest : largest + 2] if word)


def exact(seconds: float) -> str:
    """A length of time for people without rounding.

    >>> exact(90061.0), exact(1800.0), exact(0.0), exact(float("inf"))
    ('1 d 1 h 1 min 1 s', '30 min', '0 s', 'no end')
    """
    if math.isinf(seconds):
        return "no end"
    return " ".join(word for word in _in_units(seconds) if word) or "0 s"


def _in_units(seconds: float) -> list[str]:
    """Days, hours, minutes and seconds, those that are 0 empty."""
    words = []
    for name, length_s in (("d", 86400), ("h", 3600), ("min", 60)):
        count, seconds = divmod(seconds, length_s)
        words.append(f"{count:.0f} {name}" if count else "")
    return [*words, f"{seconds:g} s" if seconds else ""]


def _number(found: re.Match[str], text: str) -> float:
    number = found["number"]
    try:
        value = float.fromhex(number) if found["hex"] else float(number)
    except OverflowError:
        raise _too_large(text) from None
    if math.isinf(value) and "inf" not in number.lower():
        raise _too_large(text)
    return value


def _of_colons(found: re.Match[str], text: str) -> float:
    fields = found["fields"].split(":")
    sizes = (3600, 60, 1) if found["days"] is not None or len(fields) == 3 else (60, 1)
    numbers = [_bounded(field, text) for field in (found["days"] or "0", *fields)]
    tops = (24, 60, 60) if found["days"] is not None else (math.inf, 60, 60)
    for number, top in zip(numbers[1:], tops, strict=False):
        if number >= top:
            raise _refused(text, f"{number} in its place must be below {top}; {_FORMS}")
    return numbers[0] * _DAY + sum(number * size for number, size in zip(numbers[1:], sizes, strict=False))


def _bounded(digits: str, text: str) -> int:
    if len(digits) > 20:
        raise _too_large(text)
    return int(digits)


def _of_parts(word: str, text: str) -> float | None:
    """Seconds of numbers with units in a row; None for other text, and for units that do not descend."""
    seconds, at, last = 0.0, 0, math.inf
    while at < len(word):
        found = _PART.match(word, at)
        unit = _NAMES.get(found[2]) if found is not None else None
        if found is None or unit is None or unit >= last:
            return None
        seconds, at, last = seconds + float(found[1]) * unit, found.end(), unit
    if math.isinf(seconds):
        raise _too_large(text)
    return seconds


_FORMS: Final = "such as 30m, 2h30m, 1:00:00 (hours:minutes:seconds), 1-12 (days-hours), or inf for no end"
_BEYOND: Final = "expected a duration that fits a float"


def _refused(text: str, hint: str = "a number >= 0 and one of ms, s, m, h, d, such as 30m or 1.5h; inf for no end") -> InputError:
    return InputError(f"expected a duration, got {excerpt(text)}", where="duration", hint=hint)


def _too_large(text: str) -> InputError:
    return InputError(f"{_BEYOND}, got {excerpt(text)}", where="duration")
