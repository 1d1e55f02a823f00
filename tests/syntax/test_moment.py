"""Points in time in the forms that people type."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.syntax import moment

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def central_european_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("now", NOW),
        (" NOW ", NOW),
        ("+30m", NOW + 1800),
        ("+5", NOW + 5),
        ("-1.5h", NOW - 5400),
        ("+inf", math.inf),
        ("0", 0.0),
        ("3600", 3600.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("-", math.inf),
        ("inf", math.inf),
        ("Forever", math.inf),
        ("2026-12-01", 1796079600.0),
        ("2026-12-01T08:00", 1796108400.0),
        ("2026-12-01 08:00:30.5", 1796108430.5),
        ("2026-12-01T08:00Z", 1796112000.0),
        ("2026-12-01T08:00+01:00", 1796108400.0),
        ("2026-12-01 8am", 1796108400.0),
        ("8:00am 2026-12-01", 1796108400.0),
        ("2026-12-01 at noon", 1796122800.0),
        ("now+1hour", NOW + 3600),
        ("now + 2 hours", NOW + 7200),
        ("now-1:00:00", NOW - 3600),
        ("now+60", NOW + 60),
        ("+1-12", NOW + 36 * 3600),
        ("+1d12h", NOW + 36 * 3600),
        ("+5w", NOW + 5 * 7 * 86400),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert moment.parse(text, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "30m", "1h", "someday", "+", "+ 5", "++5", "+-5", "-inf", "+x", "+5y", "1e3", "0x10", "nan", "2026-13-01", "2026-02-30",
     "2026-1-1", "20261201T08", "24:00", "12:60", "0am", "13pm", "monday tuesday", "noon 8am",
     "tomorrow 8", "2026-13-01 8am", "1969-12-31 8am",
     "now+", "now+x", "now-inf", "now 8am", "1969-12-31", "0001-01-01", "2026-12-01T25:00", "٣", "1..2", "5\0"],
)  # fmt: skip
def test_other_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(InputError) as refused:
        moment.parse(text, NOW)
    assert repr(text) in str(refused.value)


# 2027-01-15 is a Friday; NOW is 09:00 of it.
@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("08:00", "2027-01-16T08:00:00"),
        ("09:00", "2027-01-15T09:00:00"),
        ("9:00:01", "2027-01-15T09:00:01"),
        ("8:30pm", "2027-01-15T20:30:00"),
        ("8:30 PM", "2027-01-15T20:30:00"),
        ("12am", "2027-01-16T00:00:00"),
        ("noon", "2027-01-15T12:00:00"),
        ("Midnight", "2027-01-16T00:00:00"),
        ("elevenses", "2027-01-15T11:00:00"),
        ("fika", "2027-01-15T15:00:00"),
        ("teatime", "2027-01-15T16:00:00"),
        ("today", "2027-01-15T00:00:00"),
        ("today 08:00", "2027-01-15T08:00:00"),
        ("tomorrow", "2027-01-16T00:00:00"),
        ("tomorrow 08:00", "2027-01-16T08:00:00"),
        ("08:00 tomorrow", "2027-01-16T08:00:00"),
        ("tomorrow at 8pm", "2027-01-16T20:00:00"),
        ("yesterday noon", "2027-01-14T12:00:00"),
        ("friday", "2027-01-22T00:00:00"),
        ("friday 17:00", "2027-01-15T17:00:00"),
        ("fri 08:00", "2027-01-22T08:00:00"),
        ("Monday", "2027-01-18T00:00:00"),
    ],
)
def test_days_and_times_of_day(text: str, date: str) -> None:
    assert moment.format(moment.parse(text, NOW)) == date


@pytest.mark.parametrize(
    ("now", "text", "date"),
    [
        ("2026-03-29T01:00", "02:30", "2026-03-29T03:30:00"),  # skipped: an hour later
        ("2026-03-28T12:00", "tomorrow 02:30", "2026-03-29T03:30:00"),
        ("2026-03-28T12:00", "tomorrow", "2026-03-29T00:00:00"),
        ("2026-10-25T01:00", "02:30", "2026-10-25T02:30:00"),
        ("2026-10-25T02:45+02:00", "02:30", "2026-10-25T02:30:00+01:00"),  # repeated: the second one
        ("2026-10-25T02:45+01:00", "02:30", "2026-10-26T02:30:00"),
        ("2026-10-25T12:00", "sunday 02:30", "2026-11-01T02:30:00"),
    ],
)
def test_times_of_day_when_clocks_change(now: str, text: str, date: str) -> None:
    found = moment.parse(text, moment.parse(now, 0.0))
    assert moment.format(found) == date
    assert found >= moment.parse(now, 0.0)


@given(st.integers(1_772_000_000, 1_806_000_000), st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_is_the_next_one(now: int, hour: int, minute: int) -> None:
    # Brute force: the first of the coming minutes that the clock shows so. In spring it does not show some.
    found = moment.parse(f"{hour:02}:{minute:02}", now)
    first = -(-now // 60) * 60
    shown = (t for t in range(first, first + 26 * 3600, 60) if time.localtime(t)[3:5] == (hour, minute))
    skipped = hour == 2 and time.localtime(found)[3:5] == (3, minute)
    assert skipped or found == next(shown)


@pytest.mark.parametrize("text", ["08:00", "tomorrow", "monday", "today"])
@pytest.mark.parametrize("now", [1e12, 1e300, 253402300000.0])
def test_a_time_of_day_needs_a_calendar(text: str, now: float) -> None:
    try:
        assert moment.parse(text, now) >= 253402210800.0  # the last day of 9999
    except UsageError as error:
        assert "time" in str(error)  # noqa: PT017 - both are right on the last day


@pytest.mark.parametrize("text", ["-30m", "+4000000000000", "yesterday"])
def test_a_moment_out_of_range_is_refused(text: str) -> None:
    assert moment.read(text).relative
    with pytest.raises(UsageError, match="time"):
        moment.parse(text, 10.0)


def test_seconds_have_a_bound() -> None:
    most = f"{limits.TIME_MAX_S:.0f}"
    assert moment.parse(most, 0.0) == limits.TIME_MAX_S
    for text in (most + "0", "+" + most + "0", "9" * 5000):
        with pytest.raises(InputError, match=most):
            moment.parse(text, 0.0)


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("10..20", (10.0, 20.0)),
        ("10..+20", (10.0, 30.0)),
        ("now..+1h", (NOW, NOW + 3600)),
        ("+1h..+1h", (NOW + 3600, NOW + 7200)),
        ("-1h..now", (NOW - 3600, NOW)),
        ("-2h..-1h", (NOW - 7200, NOW - 3600)),
        ("10..", (10.0, math.inf)),
        ("10..-", (10.0, math.inf)),
        ("10..+inf", (10.0, math.inf)),
        ("..20000000000", (NOW, 20000000000.0)),
        ("..", (NOW, math.inf)),
        ("2026-12-01..+1d", (1796079600.0, 1796166000.0)),
        ("08:00..17:00", (NOW + 23 * 3600, NOW + 32 * 3600)),  # the end is the first 17:00 after the start
        ("tomorrow..tomorrow 8am", (NOW + 15 * 3600, NOW + 23 * 3600)),
        (" 1.5 .. 2.5 ", (1.5, 2.5)),
    ],
)
def test_windows(text: str, window: tuple[float, float]) -> None:
    assert moment.parse_window(text, NOW) == window


@pytest.mark.parametrize("text", ["", "10", "10-20", "10.20", "a..b", "10..30m", "inf..20", "-..", "+inf..", "10..20..30"])
def test_invalid_windows_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        moment.parse_window(text, NOW)


@pytest.mark.parametrize("text", ["20..10", "20..20", "10..+0", "now..-1s", "now..5"])
def test_a_window_ends_after_it_begins(text: str) -> None:
    with pytest.raises(UsageError, match="end after its start"):
        moment.parse_window(text, NOW)


def test_an_absolute_window_is_refused_on_reading() -> None:
    with pytest.raises(UsageError, match=r"20\.\.10"):
        moment.read_window("20..10")
    assert moment.read_window("now..10").resolve(5.0) == (5.0, 10.0)


@pytest.mark.parametrize(
    ("seconds", "epoch", "text"),
    [
        (0.0, None, "0"),
        (3600.0, None, "3600"),
        (0.25, None, "0.25"),
        (1e-6, None, "0.000001"),
        (math.inf, None, "-"),
        (math.inf, True, "-"),
        (1796108400.0, None, "2026-12-01T08:00:00"),
        (1796108400.0, False, "1796108400"),
        (7200.0, True, "1970-01-01T03:00:00"),
        (1e12, True, "1000000000000"),
        (1792893600.0, None, "2026-10-25T03:00:00"),
        (1792888200.0, None, "2026-10-25T02:30:00"),
        (1792891800.0, None, "2026-10-25T02:30:00+01:00"),
    ],
)
def test_format(seconds: float, epoch: bool | None, text: str) -> None:
    assert moment.format(seconds, epoch) == text


@given(st.integers(0, int(moment.EPOCH_FROM_S)) | st.integers(1_700_000_000, 1_900_000_000), st.integers(0, 999_999))
def test_moments_in_tables_can_be_read_back(whole: int, micros: int) -> None:
    seconds = whole + micros / 1_000_000
    assert moment.parse(moment.format(seconds), 0.0) == pytest.approx(seconds, abs=1e-6)


@given(st.text() | st.text("0123456789-+.:TZnowinfmhdapty "), st.floats(0, 1e10))
def test_any_text_is_a_moment_or_an_error(text: str, now: float) -> None:
    for read in (moment.parse, moment.parse_window):
        try:
            found = read(text, now)
        except FluxresError:
            continue
        times = found if isinstance(found, tuple) else (found,)
        assert all(0 <= time_s <= limits.TIME_MAX_S or time_s == math.inf for time_s in times)
