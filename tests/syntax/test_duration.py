"""Durations: RFC 23 as flux-core's C code reads and prints them."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.syntax import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", 0.0),
        ("0", 0.0),
        ("-0", 0.0),
        ("90", 90.0),
        ("+90", 90.0),
        (" 90", 90.0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        (".5m", 30.0),
        ("5.", 5.0),
        ("1e2", 100.0),
        ("1E+1m", 600.0),
        ("0x20", 32.0),
        ("0x1.8p1m", 180.0),
        ("0x5d", 93.0),
        ("inf", math.inf),
        ("Infinity", math.inf),
        ("+INF", math.inf),
        ("1e-400", 0.0),
    ],
)
def test_accepts_what_strtod_and_one_suffix_accept(text: str, seconds: float) -> None:
    value = duration.parse(text)
    assert value == seconds
    assert math.copysign(1.0, value) == 1.0


@pytest.mark.parametrize(
    "text",
    ["-1", "-1ms", "-inf", "nan", "NaNs", "infs", "infd", "infinit", "5 s", "5s ", "5S", "5sec", "5us", "10h5m", "1_0",
     "0x", "0xp1", "1e", "1em", "s", "m", ".", "e5", "٣s", "5\n", "--5", " ", "\0", "1e999", "-1e999", "0x1p99999", "1e308d"],
)  # fmt: skip
def test_other_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(InputError) as refused:
        duration.parse(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (5e-7, "0.0005ms"),
        (0.0999, "99.9ms"),
        (0.1, "0.1s"),
        (59.0, "59s"),
        (59.999999, "60s"),
        (60.0, "1m"),
        (62.0, "1.03333m"),
        (3600.0, "1h"),
        (86399.0, "23.9997h"),
        (86400.0, "1d"),
        (1e12, "1.15741e+07d"),
        (math.inf, "infinity"),
    ],
)
def test_prints_a_suitable_unit_with_six_digits(seconds: float, text: str) -> None:
    assert duration.format(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "digits", "text"),
    [(62.0, 1, "1m"), (62.0, 3, "1.03m"), (0.0123, 2, "12ms"), (95.0, 1, "2m"), (86400.0 * 1.25, 2, "1.2d")],
)
def test_prints_the_requested_number_of_digits(seconds: float, digits: int, text: str) -> None:
    assert duration.format(seconds, digits) == text


@pytest.mark.parametrize("seconds", [-1.0, math.nan, -math.inf])
def test_invalid_durations_are_not_printed(seconds: float) -> None:
    with pytest.raises(UsageError, match=repr(seconds)):
        duration.format(seconds)


@given(st.floats(0, 1e15))
def test_printed_durations_are_read_back_to_six_digits(seconds: float) -> None:
    assert duration.parse(duration.format(seconds)) == pytest.approx(seconds, rel=1e-5)


@given(st.integers(0, 999), st.sampled_from(["ms", "s", "m", "h", "d", ""]))
def test_whole_numbers_are_exact(number: int, unit: str) -> None:
    scale = {"ms": 1 / 1000, "s": 1, "m": 60, "h": 3600, "d": 86400, "": 1}[unit]
    assert duration.parse(f"{number}{unit}") == pytest.approx(number * scale, rel=1e-15)


@given(st.text() | st.text("0123456789.xpe+-infmshd "))
def test_any_text_is_a_duration_or_an_error(text: str) -> None:
    try:
        seconds = duration.parse(text)
    except FluxresError:
        return
    assert seconds >= 0
    assert duration.parse(duration.format(seconds)) == pytest.approx(seconds, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90m", 5400.0),
        ("1.5h", 5400.0),
        ("0x10", 16.0),
        (" 1:00:00 ", 3600.0),
        ("5:30", 330.0),
        ("90:00", 5400.0),
        ("100:00:00", 360000.0),
        ("1-12", 129600.0),
        ("1-12:30", 131400.0),
        ("1-0:0:5", 86405.0),
        ("2h30m", 9000.0),
        ("1d12h", 129600.0),
        ("1D 12H", 129600.0),
        ("2 hours 30 minutes", 9000.0),
        ("1week", 604800.0),
        ("1.5 days", 129600.0),
        ("inf", math.inf),
        ("UNLIMITED", math.inf),
    ],
)
def test_durations_as_people_write_them(text: str, seconds: float) -> None:
    assert duration.read(text) == seconds


def test_a_bare_number_counts_what_the_option_says() -> None:
    assert [duration.read(text, bare_s=60.0) for text in ("90", "1.5", "90s", "1:30", "1-0", "inf")] == [
        5400.0, 90.0, 90.0, 90.0, 86400.0, math.inf
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "1y",
        "1h1h",
        "2h2h",
        "30m2h",
        "5:60",
        "1:60:00",
        "1:0:60",
        "1-24",
        "1-",
        "-5",
        "1:",
        ":30",
        "1:2:3:4",
        "1-2-3",
        "nan",
        "1_0",
    ],
)
def test_other_durations_are_refused_and_named(text: str) -> None:
    with pytest.raises(InputError, match=r"expected a duration, got .*\(.*1:00:00") as refused:
        duration.read(text)
    assert repr(text) in str(refused.value)


@given(st.floats(0, 1e12))
def test_people_may_write_what_is_printed(seconds: float) -> None:
    assert duration.read(duration.format(seconds)) == duration.parse(duration.format(seconds))


@given(st.text() | st.text("0123456789-:. dhmsw"))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    with suppress(InputError):
        assert duration.read(text, bare_s=60.0) >= 0
