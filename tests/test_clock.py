"""Seconds become ticks and back, or a usage error."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsFloat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import clock, limits
from fluxres.errors import UsageError


@given(st.integers(0, clock.FOREVER - 1))
def test_seconds_survive_conversion_to_ticks_and_back(tick: int) -> None:
    # Above 2**53 ticks (285 years) a float of seconds is coarser than a tick; the error stays within one step of the float.
    # Two roundings: one of the division, one of the product.
    out = clock.seconds(tick)
    if out <= limits.TIME_MAX_S:
        assert abs(clock.ticks(out) - tick) <= math.ulp(float(tick))


@given(st.integers(0, 2**52))
def test_ticks_survive_exactly_within_a_lifetime(tick: int) -> None:
    assert clock.ticks(clock.seconds(tick)) == tick


@given(st.floats(0, limits.TIME_MAX_S), st.floats(0, limits.TIME_MAX_S))
def test_order_is_kept(first_s: float, second_s: float) -> None:
    low, high = sorted((first_s, second_s))
    assert clock.ticks(low) <= clock.ticks(high) < clock.FOREVER


def test_infinity_converts_to_forever_and_back() -> None:
    assert clock.ticks(math.inf) == clock.FOREVER
    assert clock.seconds(clock.FOREVER) == math.inf


@pytest.mark.parametrize("bad", [-1, -1e-9, math.nan, -math.inf, math.nextafter(limits.TIME_MAX_S, math.inf)])
def test_times_out_of_range_are_refused_with_the_name_of_the_value(bad: float) -> None:
    with pytest.raises(UsageError, match=r"^start: expected seconds from 0 to 4000000000000, got "):
        clock.ticks(bad, "start")


@pytest.mark.parametrize("bad", [None, True, np.True_, 1 + 2j, [1], np.array(3.0), date(2030, 1, 1), timedelta(1), b"1h"])
def test_values_of_other_types_are_no_moments(bad: object) -> None:
    with pytest.raises(UsageError, match=r"^at: expected seconds as a number or a moment such as a datetime or '\+1h', got "):
        clock.ticks(bad, "at")  # type: ignore[arg-type]  # the wrong type is the point


@pytest.mark.parametrize("bad", [None, False, datetime(2030, 1, 1, tzinfo=UTC), np.datetime64("2030-01-01"), b"1h"])
def test_values_of_other_types_are_no_durations(bad: object) -> None:
    with pytest.raises(
        UsageError, match=r"^duration_s: expected seconds as a number or a duration such as a timedelta or '1h', got "
    ):
        clock.length_ticks(bad)  # type: ignore[arg-type]  # the wrong type is the point


@pytest.mark.parametrize("bad", ["", "x", "30m", "2030-13-01", "yesterdays", "-1h", "1e9"])
def test_text_that_is_no_moment_is_refused_by_the_name_of_the_value(bad: str) -> None:
    with pytest.raises(UsageError, match=r"^at: expected a time"):
        clock.ticks(bad, "at", now=0)


@pytest.mark.parametrize("bad", ["", "x", "-1h", "1h 2d", "1:99:00:00"])
def test_text_that_is_no_duration_is_refused(bad: str) -> None:
    with pytest.raises(UsageError, match=r"^duration_s: expected a duration"):
        clock.length_ticks(bad)


def test_text_counts_from_now() -> None:
    now = clock.ticks(1_893_484_800.25)
    assert clock.ticks("now", now=now) == now
    assert clock.ticks("+1h", now=now) == now + 3_600_000_000
    assert clock.ticks("3600", now=now) == 3_600_000_000
    assert clock.ticks("-", now=now) == clock.FOREVER
    assert clock.length_ticks("1:30:00") == clock.length_ticks("90m") == clock.length_ticks("5400") == 5_400_000_000
    assert clock.length_ticks("inf") == clock.FOREVER


def test_time_of_day_as_an_end_comes_after_the_start() -> None:
    noon = clock.ticks(datetime(2030, 1, 1, 12))
    start = clock.ticks("tomorrow 10:00", now=noon)
    assert start == clock.ticks(datetime(2030, 1, 2, 10))
    assert clock.ticks("9:00", "end", noon, start) == clock.ticks(datetime(2030, 1, 3, 9))
    assert clock.ticks("+1h", "end", noon, start) == noon + 3_600_000_000


def test_numpy_moments_are_utc_and_lengths_are_exact() -> None:
    eight = clock.ticks(datetime(2030, 1, 1, 8, tzinfo=UTC))
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        assert clock.ticks(np.datetime64("2030-01-01T08", unit)) == eight
    assert clock.ticks(np.datetime64("2030")) == clock.ticks(np.datetime64("2030-01")) == eight - 8 * 3_600_000_000
    for length in (np.timedelta64(2, "h"), np.timedelta64(7200, "s"), np.timedelta64(7200 * 10**9, "ns")):
        assert clock.length_ticks(length) == 7_200_000_000
    assert clock.length_ticks(np.timedelta64(2, "W")) == 14 * 86_400_000_000


@pytest.mark.parametrize("bad", ["NaT", np.iinfo(np.int64).max], ids=["NaT", "beyond NumPy's own conversions"])
def test_numpy_moments_out_of_range_are_refused(bad: Any) -> None:
    for unit in ("Y", "D", "s"):
        with pytest.raises(UsageError, match=r"^at: expected"):
            clock.ticks(np.datetime64(bad, unit), "at")
        with pytest.raises(UsageError, match=r"^duration_s: expected"):
            clock.length_ticks(np.timedelta64(bad, unit))


def test_a_numpy_length_is_no_moment_and_a_moment_no_length() -> None:
    with pytest.raises(UsageError, match=r"^at: expected seconds as a number or a moment"):
        clock.ticks(np.timedelta64(1, "h"), "at")
    with pytest.raises(UsageError, match=r"^duration_s: expected seconds as a number or a duration"):
        clock.length_ticks(np.datetime64("2030-01-01"))


REALS = [np.float32(1.5), np.float64(1.5), np.float16(1.5), np.longdouble("1.5"), Decimal("1.5"), Fraction(3, 2)]


@pytest.mark.parametrize("number", [*REALS, np.int8(3), np.int64(3), np.uint32(3)], ids=lambda n: type(n).__name__)
def test_any_real_number_is_accepted_as_seconds(number: SupportsFloat) -> None:
    assert clock.ticks(number) == clock.length_ticks(number) == round(float(number) * clock.TICKS_PER_S)


@pytest.mark.parametrize("bad", [Decimal("NaN"), Decimal("sNaN"), Decimal("1e400"), Fraction(10**400), Decimal(-1), np.int8(-1)])
def test_numbers_of_other_types_are_within_the_same_bounds(bad: SupportsFloat) -> None:
    with pytest.raises(UsageError, match=r"^start: expected seconds from 0 to 4000000000000, got "):
        clock.ticks(bad, "start")


def test_infinite_decimal_means_no_end() -> None:
    assert clock.ticks(Decimal("Infinity")) == clock.ticks(np.float32("inf")) == clock.FOREVER


def test_a_datetime_is_seconds_since_1970_and_local_without_a_time_zone() -> None:
    east = timezone(timedelta(hours=2))
    assert clock.ticks(datetime(1970, 1, 1, 3, 0, 0, 1, tzinfo=east)) == 3_600_000_001
    naive = datetime(2030, 7, 1, 8)
    assert clock.ticks(naive) == clock.ticks(naive.astimezone()) == clock.ticks("2030-07-01T08:00")
    for bad in (datetime(1960, 1, 1, tzinfo=UTC), datetime(1960, 1, 1)):
        with pytest.raises(UsageError, match=r"^at: expected seconds from 0 to"):
            clock.ticks(bad, "at")
    with pytest.raises(UsageError, match=r"^at: expected "):
        clock.ticks(datetime(1, 1, 1), "at")


@pytest.mark.parametrize("bad", [10**400, -(10**400), 10**5000], ids=["beyond floats", "below floats", "beyond print"])
def test_huge_int_that_cannot_be_printed_is_refused(bad: int) -> None:
    with pytest.raises(UsageError, match="got a number of over 300 digits"):
        clock.ticks(bad)


def test_fixed_clock_does_not_advance() -> None:
    now = clock.fixed(12.5)
    assert [now(), now()] == [12.5, 12.5]
    assert clock.fixed()() == 0.0


def test_system_clock_does_not_go_back() -> None:
    first = clock.system()
    assert clock.system() >= first
