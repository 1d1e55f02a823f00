"""Units: conversion is exact within a dimension and refused between dimensions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InputError
from fluxres.syntax import unit

SAME = {
    "bytes": ["B", "kB", "KB", "MB", "GB", "TB", "PB", "EB", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
    "power": ["W", "kW", "KW", "MW", "GW"],
    "bandwidth": ["B/s", "kB/s", "MB/s", "GB/s", "GiB/s", "b/s", "Mb/s", "bps", "Gbps", "Kibps", "bit/s", "Gbit/s", "Mibit/s"],
    "frequency": ["Hz", "MHz", "GHz"],
    "time": ["us", "ms", "s", "m", "h", "d"],
}
PAIRS = st.sampled_from(list(SAME.values())).flatmap(lambda units: st.tuples(st.sampled_from(units), st.sampled_from(units)))


@pytest.mark.parametrize(
    ("amount", "from_unit", "to_unit", "exact"),
    [
        (4, "GB", "GiB", Fraction(4 * 10**9, 2**30)),
        (4, "GiB", "GB", Fraction(4 * 2**30, 10**9)),
        (1, "TiB", "MiB", 2**20),
        (1, "KB", "B", 1000),
        (1500, "W", "kW", Fraction(3, 2)),
        (100, "Gbps", "GB/s", Fraction(25, 2)),
        (1, "GB/s", "Gb/s", 8),
        (25, "Gbit/s", "Mbps", 25_000),
        (2, "GHz", "MHz", 2000),
        (90, "s", "m", Fraction(3, 2)),
        (1, "d", "ms", 86_400_000),
        (3, "licence", "licence", 3),
        (3, None, None, 3),
        (Fraction(1, 2), "GiB", "MiB", 512),
        (0, "GB", "GiB", 0),
        (2**80, "EiB", "B", 2**140),
    ],
)
def test_units_are_converted(amount: Any, from_unit: str | None, to_unit: str | None, exact: Any) -> None:
    found = unit.convert(amount, from_unit, to_unit)
    assert found == exact
    assert isinstance(found, int) == isinstance(exact, int)


@pytest.mark.parametrize(
    ("from_unit", "to_unit", "message"),
    [
        ("GB", "W", r"GB \(bytes\) and W \(power\)"),
        ("GB", "GB/s", "one dimension"),
        ("gb", "GB", "did you mean GB"),
        ("GB", "Gib", "did you mean GiB"),
        ("licence", "GB", "known unit, got 'licence'"),
        ("GB", None, "on both sides, got 'GB' and none"),
        (None, "GB", "on both sides"),
        ("GB", "x" * 100_000, r"xxx\.\.\."),
        ("", "GB", "got ''"),
    ],
)
def test_invalid_units_are_refused(from_unit: str | None, to_unit: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        unit.convert(1, from_unit, to_unit)


@pytest.mark.parametrize("amount", [1.5, True, "1", None, float("nan")])
def test_amounts_are_exact_numbers(amount: Any) -> None:
    with pytest.raises(InputError):
        unit.convert(amount, "GB", "MB")


@pytest.mark.parametrize("name", SAME)
def test_dimensions(name: str) -> None:
    assert {unit.dimension(text) for text in SAME[name]} == {name}


@given(st.integers(0, 2**62), PAIRS)
def test_converting_back_gives_the_same_amount(amount: int, pair: tuple[str, str]) -> None:
    there = unit.convert(amount, *pair)
    assert unit.convert(there, *reversed(pair)) == amount


@given(st.text(max_size=8), st.text(max_size=8) | st.sampled_from(SAME["bytes"]))
def test_any_text_is_a_unit_or_an_error(from_unit: str, to_unit: str) -> None:
    try:
        found = unit.convert(7, from_unit, to_unit)
    except FluxresError:
        return
    assert unit.convert(found, to_unit, from_unit) == 7


@pytest.mark.parametrize(
    ("text", "number", "name"),
    [
        ("8GiB", 8, "GiB"),
        (" 8 GiB ", 8, "GiB"),
        ("8.0GiB", 8, "GiB"),
        ("1.5TiB", 1536, "GiB"),
        ("1.5 TB", 1500, "GB"),
        ("0.5B/s", 4, "b/s"),
        (".25 kW", 250, "W"),
        ("1.5d", 36, "h"),
        ("0B", 0, "B"),
    ],
)
def test_a_size_is_a_whole_number_of_some_unit(text: str, number: int, name: str) -> None:
    found, own = unit.parse(text)
    assert unit.is_size(text)
    assert (found, unit.dimension(own)) == (unit.convert(number, name, own), unit.dimension(name))
    assert (found, own) == (number, name) or own in ("bit/s", "b/s", "bps")


@pytest.mark.parametrize(
    "text", ["", "8", "GiB", "8 G", "-1GiB", "1e3GiB", "1.0001B", "1GiB 2GiB", "8seats", "1." + "9" * 50 + "GiB", "٣GiB"]
)
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        unit.parse(text)


@given(st.integers(0, 10**12), st.sampled_from(["B", "kB", "MiB", "TiB", "W", "kW", "Gbps", "Hz", "h"]))
def test_a_size_is_read_back(number: int, name: str) -> None:
    assert unit.parse(f"{number}{name}") == unit.parse(f"{number} {name}") == (number, name)
    assert unit.exactly(f"{number}{name}", name) == number


@given(st.decimals(0, 10**6, places=3), st.sampled_from(["kB", "MiB", "GB", "TiB"]), st.sampled_from(["B", "KiB", "MB", "GiB"]))
def test_a_size_in_another_unit_is_exact_or_refused_with_the_nearest(amount: Decimal, name: str, other: str) -> None:
    exact = unit.convert(Fraction(amount), name, other)
    if isinstance(exact, int):
        assert unit.exactly(f"{amount:f}{name}", other) == exact
        return
    with pytest.raises(InputError, match=f"the nearest are {math.floor(exact)} and {math.ceil(exact)} {other}"):
        unit.exactly(f"{amount:f}{name}", other)


def test_a_size_needs_a_unit_that_converts() -> None:
    with pytest.raises(InputError, match="the pool has no unit"):
        unit.exactly("1GiB", None)
    with pytest.raises(InputError, match="one dimension"):
        unit.exactly("1GiB", "W")
