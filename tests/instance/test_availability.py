"""Availability over time against a table of all moments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fluxres.clock import FOREVER
from fluxres.instance.availability import AvailableCounts, AvailableSets, highest, lowest
from fluxres.instance.named import members

LENGTH, UNITS = 24, 6
windows = st.tuples(st.integers(0, LENGTH - 1), st.integers(1, LENGTH)).map(lambda w: (w[0], min(w[0] + w[1], LENGTH)))


@given(st.integers(1, 2**200), st.integers(1, 200))
def test_lowest_and_highest(units: int, n: int) -> None:
    ids = members(units)
    n = min(n, len(ids))
    assert members(lowest(units, n)) == ids[:n]
    assert members(highest(units, n)) == ids[len(ids) - n :]


@given(st.lists(st.tuples(windows, st.integers(1, 3))), st.integers(1, 8), st.integers(1, LENGTH), st.integers(0, LENGTH - 1))
def test_available_counts(changes: list[tuple[tuple[int, int], int]], n: int, duration: int, now: int) -> None:
    rows, table = AvailableCounts(0, 8), [8] * (2 * LENGTH)
    for (start, end), amount in changes:
        rows.change(start, end, -amount)
        for t in range(start, end):
            table[t] -= amount
    rows.advance(now)
    assert rows.times[0] == now
    first = next(
        (t for t in range(now, 2 * LENGTH) if all(free >= n for free in [*table, *[8] * LENGTH][t : t + duration])), None
    )
    assert rows.earliest(n, duration) == first
    assert rows.fits(n, now, now + duration) == (first == now)
    for (start, end), amount in changes:
        rows.change(start, end, amount)
    assert (rows.times, rows.rows) == ([now], [8])


@given(
    st.lists(st.tuples(windows, st.integers(0, 2**UNITS - 1))),
    st.integers(1, UNITS),
    st.integers(1, LENGTH),
    st.integers(0, LENGTH - 1),
)
def test_available_sets(changes: list[tuple[tuple[int, int], int]], n: int, duration: int, now: int) -> None:
    everything = 2**UNITS - 1
    rows, table, taken = AvailableSets(0, everything), [everything] * (3 * LENGTH), []
    for (start, end), units in changes:
        for t in range(start, end):
            units &= table[t]
        if units:
            rows.take(start, end, units)
            taken.append((start, end, units))
            for t in range(start, end):
                table[t] &= ~units
    assert [row.bit_count() for row in rows.rows] == rows.counts
    rows.advance(now)
    expected = None
    for t in range(now, 2 * LENGTH):
        free = everything
        for row in table[t : t + duration]:
            free &= row
        if free.bit_count() >= n:
            expected = (t, lowest(free, n))
            break
    assert rows.earliest(n, duration, everything, lowest) == expected
    assert rows.earliest(UNITS + 1, duration, everything, lowest) is None
    for start, end, units in taken:
        rows.give(start, end, units)
    assert (rows.times, rows.rows, rows.counts) == ([now], [everything], [UNITS])


def test_claims_without_end() -> None:
    rows = AvailableSets(0, 0b11)
    rows.take(5, FOREVER, 0b01)
    assert rows.earliest(2, FOREVER, 0b11, lowest) is None
    assert rows.earliest(1, FOREVER, 0b11, lowest) == (0, 0b10)
    numbers = AvailableCounts(0, 2)
    numbers.change(5, FOREVER, -1)
    assert (numbers.earliest(2, 5), numbers.earliest(2, 6)) == (0, None)
