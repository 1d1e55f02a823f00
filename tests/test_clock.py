"""Seconds become ticks and back, or a usage error."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import clock, limits
from fluxres.errors import UsageError


@given(st.integers(0, clock.FOREVER - 1))
def test_what_a_float_can_hold_survives_the_way_out_and_in(tick: int) -> None:
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


def test_without_end_is_forever_and_back() -> None:
    assert clock.ticks(math.inf) == clock.FOREVER
    assert clock.seconds(clock.FOREVER) == math.inf


@pytest.mark.parametrize("bad", [-1, -1e-9, math.nan, -math.inf, math.nextafter(limits.TIME_MAX_S, math.inf)])
def test_times_out_of_range_are_refused_with_the_name_of_the_value(bad: float) -> None:
    with pytest.raises(UsageError, match=r"^start: expected 0 <= seconds <= 4000000000000, got "):
        clock.ticks(bad, "start")


@pytest.mark.parametrize("bad", ["5", None, True, 1 + 2j, [1]])
def test_what_is_not_a_number_is_refused(bad: object) -> None:
    with pytest.raises(UsageError, match="expected seconds as a number"):
        clock.ticks(bad)  # type: ignore[arg-type]  # the wrong type is the point


@pytest.mark.parametrize("bad", [10**400, -(10**400), 10**5000], ids=["beyond floats", "below floats", "beyond print"])
def test_a_huge_int_is_refused_though_it_can_neither_be_a_float_nor_be_printed(bad: int) -> None:
    with pytest.raises(UsageError, match="got a number of over 300 digits"):
        clock.ticks(bad)


def test_a_fixed_clock_stands_still() -> None:
    now = clock.fixed(12.5)
    assert [now(), now()] == [12.5, 12.5]
    assert clock.fixed()() == 0.0


def test_the_system_clock_does_not_go_back() -> None:
    first = clock.system()
    assert clock.system() >= first
