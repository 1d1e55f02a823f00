"""A point in time as people type it: `now`, `+30m`, `3600`, `2026-12-01T08:00`, `-` for no end.

Reading has two steps, because criteria are checked when they are written and resolved when they are evaluated: a
:class:`Moment` is the checked text, `resolve(now)` the number. A bare `30m` is refused because it is ambiguous: it could mean
"in 30 minutes" or "at minute 30".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, UsageError
from fluxres.syntax import duration

EPOCH_FROM_S: Final = 1e8
"""In tables, times above this are treated as seconds since 1970: simulations rarely last three years, and 1973 is past."""

_ENDLESS = frozenset({"-", "inf", "infinity", "forever"})
_SECONDS = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?", re.ASCII | re.IGNORECASE)
_HINT = "now, +30m, seconds such as 3600, 2026-12-01T08:00, or - for no end"


@dataclass(frozen=True, slots=True)
class Moment:
    """A checked point in time: `offset_s` after now, or after time 0.

    >>> Moment(True, 60.0).resolve(1000.0), Moment(False, 60.0).resolve(1000.0)
    (1060.0, 60.0)
    """

    relative: bool
    offset_s: float

    def resolve(self, now: float) -> float:
        """Seconds. Errors: UsageError for a time before 0 or beyond `limits.TIME_MAX_S`."""
        time_s = now + self.offset_s if self.relative else self.offset_s
        if time_s < 0:
            raise UsageError(f"time: expected a moment at or after 0, got {-self.offset_s:g} s before {now:g}")
        if limits.TIME_MAX_S < time_s < math.inf:
            raise UsageError(f"time: expected seconds <= {limits.TIME_MAX_S:.0f}, got {time_s:g}")
        return time_s


@dataclass(frozen=True, slots=True)
class Window:
    """A checked `A..B`; with `from_start` the end counts from the start (`A..+1h`)."""

    start: Moment
    end: Moment
    from_start: bool = False

    def resolve(self, now: float) -> tuple[float, float]:
        """(start, end) in seconds, end possibly infinite. Errors: UsageError for a window that is empty or ends before it
        begins."""
        start_s = self.start.resolve(now)
        end_s = self.end.resolve(start_s if self.from_start else now)
        if not start_s < end_s:
            raise UsageError(f"window: expected an end after its start, got {start_s:g}..{end_s:g}")
        return start_s, end_s


def parse(text: str, now: float) -> float:
    """Seconds of a moment; infinity for no end.

    Args:
        text: `now`, `+DURATION` or `-DURATION` around now, seconds, ISO 8601 date or datetime (local time without an
            offset), or `-`, `inf`, `forever` for no end.
        now: seconds.

    Errors: InputError for other text; UsageError for a moment before time 0 or too far away.

    >>> parse("+30m", 100.0), parse("3600", 100.0), parse("1970-01-02T00:00Z", 0.0), parse("-", 0.0)
    (1900.0, 3600.0, 86400.0, inf)
    """
    return read(text).resolve(now)


def parse_window(text: str, now: float) -> tuple[float, float]:
    """(start, end) in seconds of `A..B`; B may be `+1h` after A, or empty for no end; an empty A is now.

    Errors: InputError for other text; UsageError for a window that ends before it begins.

    >>> parse_window("100..+1h", 0.0), parse_window("now..", 5.0)
    ((100.0, 3700.0), (5.0, inf))
    """
    return read_window(text).resolve(now)


def read(text: str) -> Moment:
    """The moment of a text, independent of the present time. Errors: InputError.

    >>> read("+1h")
    Moment(relative=True, offset_s=3600.0)
    """
    word = text.strip()
    lower = word.lower()
    if lower == "now":
        return Moment(True, 0.0)
    if lower in _ENDLESS:
        return Moment(False, math.inf)
    if word[:1] in ("+", "-"):
        return Moment(True, _signed_offset(word))
    if _SECONDS.fullmatch(word):
        return Moment(False, _bounded(float(word), word))
    if _DATE.fullmatch(word):
        return Moment(False, _iso(word))
    raise _refused(text)


def read_window(text: str) -> Window:
    """The window of a text, independent of the present time. Errors: those of :func:`parse_window` that do not depend on it.

    >>> read_window("now..+1h").from_start
    True
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise InputError(f"expected a window A..B, got {excerpt(text)}", where="window", hint="such as now..+1h or 0..3600")
    start = read(first) if first.strip() else Moment(True, 0.0)
    end = read(last) if last.strip() else Moment(False, math.inf)
    window = Window(start, end, from_start=last.strip().startswith("+"))
    if start.offset_s == math.inf:
        raise InputError(f"expected a window with a finite start, got {excerpt(text)}", where="window")
    if not start.relative and not end.relative:
        window.resolve(0.0)
    return window


def format(seconds: float, epoch: bool | None = None) -> str:  # noqa: A001 - read as moment.format
    """A moment for a table, in a form that :func:`parse` reads.

    Args:
        seconds: the moment; infinity is `-`.
        epoch: whether it is wall-clock time; None decides by its size.

    >>> format(3600.0), format(1.5), format(float("inf"))
    ('3600', '1.5', '-')
    """
    if math.isinf(seconds):
        return "-"
    if epoch if epoch is not None else seconds > EPOCH_FROM_S:
        try:
            return _local(seconds)
        except (ValueError, OverflowError, OSError):
            pass  # beyond the calendar (year 9999): print the number itself
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def in_message(seconds: float) -> str:
    """A moment for a sentence: a date if it is wall-clock time, else seconds with their unit.

    >>> in_message(3600.0), in_message(float("inf"))
    ('3600 s', 'never')
    """
    if math.isinf(seconds):
        return "never"
    return format(seconds) if seconds > EPOCH_FROM_S else f"{format(seconds)} s"


def _signed_offset(word: str) -> float:
    if word[1:2] in ("", "+", "-") or word[1:2].isspace():
        raise _refused(word)
    try:
        offset_s = duration.parse(word[1:])
    except InputError:
        raise _refused(word) from None
    if math.isinf(offset_s):
        if word[0] == "+":
            return math.inf
        raise _refused(word)
    return _bounded(offset_s, word) if word[0] == "+" else -_bounded(offset_s, word)


def _bounded(seconds: float, word: str) -> float:
    if seconds > limits.TIME_MAX_S:
        raise InputError(f"expected seconds <= {limits.TIME_MAX_S:.0f}, got {excerpt(word)}", where="time")
    return seconds


def _iso(word: str) -> float:
    try:
        seconds = datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError, OSError):
        raise _refused(word) from None
    if seconds < 0:
        raise InputError(f"expected a date from 1970 on, got {excerpt(word)}", where="time")
    return seconds


def _local(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds)
    if moment.fold:
        # The hour that a clock change repeats: only the offset distinguishes its second occurrence from the first.
        moment = moment.astimezone()
    return moment.isoformat()


def _refused(text: str) -> InputError:
    return InputError(f"expected a moment, got {excerpt(text)}", where="time", hint=_HINT)
