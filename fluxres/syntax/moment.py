"""A point in time as people type it: `now`, `+30m`, `3600`, `2026-12-01T08:00`, `tomorrow 8pm`, `monday`, `-` for no end.

A time of day or a day of the week without a date is the next one, as for `sbatch --begin` and `at`. All of this is local time. A
time that the clocks skip in spring is the time shown an hour later; of a time that they repeat in autumn, the first one to come.

Reading has two steps, because criteria are checked when they are written and resolved when they are evaluated: a
:class:`Moment` is the checked text, `resolve(now)` the number. A bare `30m` is refused because it is ambiguous: it could mean
"in 30 minutes" or "at minute 30".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from typing import Final

from fluxres import clock, limits
from fluxres.documents.document import excerpt
from fluxres.errors import InputError, UsageError
from fluxres.syntax import duration

EPOCH_FROM_S: Final = 1e8
"""In tables, times above this are treated as seconds since 1970: simulations rarely last three years, and 1973 is past."""

_ENDLESS = frozenset({"-", "inf", "infinity", "forever"})
_SECONDS = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].+)?", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NOW = re.compile(r"now\s*([+-].*)", re.DOTALL)
_FORMS: Final = "now, +30m, 08:00, 8:30pm, tomorrow 08:00, monday, 2026-12-01T08:00"
BEGIN_HINT: Final = f"{_FORMS}, or seconds such as 3600"
"""How a time may be written that is no end."""
_HINT: Final = f"{_FORMS}, seconds such as 3600, or - for no end"
_CLOCK = re.compile(r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?)?\s*(?P<half>am|pm)?", re.ASCII)
_DAYS: Final = {"today": 0, "tomorrow": 1, "yesterday": -1}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TIMES: Final = {"midnight": 0, "elevenses": 11, "noon": 12, "fika": 15, "teatime": 16}
"""Hours by name: those of Slurm."""


@dataclass(frozen=True, slots=True)
class CalendarTime:
    """A local time of day on a day that is counted from the present one.

    Args:
        time: of the day.
        days: the day: 0 for today, 1 for tomorrow; None for the first one on which the time is not over.
        weekday: 0 for Monday; then `days` is None, and it is the first such day.
    """

    time: time_of_day
    days: int | None = None
    weekday: int | None = None

    def resolve(self, now: float) -> float:
        """Seconds since 1970. Errors: UsageError beyond the calendar."""
        try:
            today = datetime.fromtimestamp(now).date()
            if self.days is not None:
                return self._on(today + timedelta(days=self.days))
            ahead = 0 if self.weekday is None else (self.weekday - today.weekday()) % 7
            step = 1 if self.weekday is None else 7
            found = (
                self._on(today + timedelta(days=ahead + days), fold)
                for days in (0, step)
                for fold in (0, 1)  # the second one of an hour that is repeated
            )
            return next(seconds for seconds in found if seconds >= now)
        except (ValueError, OverflowError, OSError, StopIteration):
            raise UsageError(f"time: expected a present in the years 1970 to 9999 for a time of day, got {now:g} s") from None

    def _on(self, day: date, fold: int = 0) -> float:
        return datetime.combine(day, self.time.replace(fold=fold)).timestamp()


@dataclass(frozen=True, slots=True)
class Moment:
    """A checked point in time: `offset_s` after now, or after time 0; or a time of the calendar, which depends on the present
    day.

    >>> Moment(True, 60.0).resolve(1000.0), Moment(False, 60.0).resolve(1000.0)
    (1060.0, 60.0)
    """

    relative: bool
    offset_s: float
    calendar: CalendarTime | None = None

    @property
    def is_next(self) -> bool:
        """Whether it is the next time of a kind, such as `08:00` or `monday`: as an end, it is the first one after the start."""
        return self.calendar is not None and self.calendar.days is None

    def resolve(self, now: float) -> float:
        """Seconds. Errors: UsageError for a time before 0 or beyond `limits.TIME_MAX_S`."""
        if self.calendar is not None:
            time_s = self.calendar.resolve(now)
        else:
            time_s = now + self.offset_s if self.relative else self.offset_s
        if time_s < 0:
            raise UsageError(f"time: expected a time at or after 0, got {now - time_s:g} s before {now:g}")
        if limits.TIME_MAX_S < time_s < math.inf:
            raise UsageError(f"time: expected at most {limits.TIME_MAX_S:.0f} seconds, got {time_s:g}")
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
        end_s = self.end.resolve(start_s if self.from_start or self.end.is_next else now)
        if not start_s < end_s:
            raise UsageError(f"window: expected an end after its start, got {start_s:g}..{end_s:g}")
        return start_s, end_s


def parse(text: str, now: float) -> float:
    """Seconds of a moment; infinity for no end.

    Args:
        text: `now`, `+DURATION` or `-DURATION` around now (also `now+DURATION`), seconds, ISO 8601 date or datetime (local time
            without an offset), or `-`, `inf`, `forever` for no end. A time of day such as `08:00`, `8:30pm` or `noon`, a day such
            as `tomorrow`, `monday` or `2026-12-01`, or both; a day alone begins at midnight.
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
    Moment(relative=True, offset_s=3600.0, calendar=None)
    """
    word = text.strip()
    lower = word.lower()
    if lower == "now":
        return Moment(True, 0.0)
    if lower in _ENDLESS:
        return Moment(False, math.inf)
    after_now = _NOW.fullmatch(lower)
    if after_now is not None:
        word = after_now[1][:1] + after_now[1][1:].lstrip()
    if word[:1] in ("+", "-"):
        return Moment(True, _signed_offset(word, text))
    if _SECONDS.fullmatch(word):
        return Moment(False, _bounded(float(word), word))
    found = _calendar(lower)
    if found is not None:
        return found
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


def to_the_second(seconds: float) -> str:
    """As :func:`in_message`, without the fraction of a second if it is wall-clock time.

    >>> to_the_second(0.5)
    '0.5 s'
    """
    return in_message(float(math.floor(seconds)) if EPOCH_FROM_S < seconds < math.inf else seconds)


def in_words(start: int, end: int) -> str:
    """A window in ticks, for a sentence.

    >>> in_words(0, 3_600_000_000)
    'from 0 s until 3600 s'
    """
    begin = f"from {in_message(clock.seconds(start))}"
    return begin if end >= clock.FOREVER else f"{begin} until {in_message(clock.seconds(end))}"


def _calendar(text: str) -> Moment | None:
    """A day, a time of day, or both in any order; None for other text, among it a date alone."""
    parts = [part for part in re.sub(r"\s+(?=[ap]m\b)", "", text).split() if part != "at"]
    if not 1 <= len(parts) <= 2:
        return None
    times = [found for part in parts if (found := _time_of_day(part)) is not None]
    days = [part for part in parts if _time_of_day(part) is None]
    if len(times) > 1 or len(days) > 1 or len(times) + len(days) != len(parts):
        return None
    time = times[0] if times else time_of_day()
    if not days:
        return Moment(True, 0.0, CalendarTime(time))
    (day,) = days
    if day in _DAYS:
        return Moment(True, 0.0, CalendarTime(time, days=_DAYS[day]))
    weekdays = [number for number, name in enumerate(_WEEKDAYS) if day in (name, name[:3])]
    if weekdays:
        return Moment(True, 0.0, CalendarTime(time, weekday=weekdays[0]))
    return Moment(False, _iso(f"{day}T{time.isoformat()}", text)) if times and _DAY.fullmatch(day) else None


def _time_of_day(word: str) -> time_of_day | None:
    if word in _TIMES:
        return time_of_day(_TIMES[word])
    found = _CLOCK.fullmatch(word)
    if found is None or (found["minute"] is None and found["half"] is None):
        return None  # a number alone is seconds
    hour, minute, second = int(found["hour"]), int(found["minute"] or 0), int(found["second"] or 0)
    if found["half"] is not None:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (found["half"] == "pm")
    return time_of_day(hour, minute, second) if hour < 24 and minute < 60 and second < 60 else None


def _signed_offset(word: str, text: str) -> float:
    if word[1:2] in ("", "+", "-") or word[1:2].isspace():
        raise _refused(text)
    try:
        offset_s = duration.read(word[1:])
    except InputError:
        raise _refused(text) from None
    if math.isinf(offset_s):
        if word[0] == "+":
            return math.inf
        raise _refused(text)
    return _bounded(offset_s, text) if word[0] == "+" else -_bounded(offset_s, text)


def _bounded(seconds: float, word: str) -> float:
    if seconds > limits.TIME_MAX_S:
        raise InputError(f"expected at most {limits.TIME_MAX_S:.0f} seconds, got {excerpt(word)}", where="time")
    return seconds


def _iso(word: str, text: str = "") -> float:
    try:
        seconds = datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError, OSError):
        raise _refused(text or word) from None
    if seconds < 0:
        raise InputError(f"expected a date from 1970 on, got {excerpt(text or word)}", where="time")
    return seconds


def _local(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds)
    if moment.fold:
        # The hour that a clock change repeats: only the offset distinguishes its second occurrence from the first.
        moment = moment.astimezone()
    return moment.isoformat()


def _refused(text: str) -> InputError:
    return InputError(f"expected a time, got {excerpt(text)}", where="time", hint=_HINT)
