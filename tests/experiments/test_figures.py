"""Curves, coverage, confidence and unit numbers, compared with their simplest computation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError
from fluxres.experiments.comparison import estimate, ratio, student_t
from fluxres.experiments.figures import FIGURES, columns, number, scale, title
from fluxres.experiments.gantt import USERS_NAMED_MAX, Rectangles, _by_user, coverage, rectangles
from fluxres.simulation.metrics import Series
from fluxres.simulation.results.numbering import laid_out
from fluxres.simulation.schedule import Finished

JOBS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 30), st.integers(1, 5), st.booleans()),
    min_size=1,
    max_size=12,
)


def finished(submit: int, start: int, end: int, size: int) -> Finished:
    nothing: object = None
    return Finished(1, submit, start, end, 0, size, 0, "completed", None, 0, nothing, nothing)  # type: ignore[arg-type]  # neither is looked at


@given(JOBS)
def test_curves_are_the_averages_of_every_tick(jobs: list[tuple[int, int, int, int, bool]]) -> None:
    series = Series()
    rows = [(submit, submit + wait if ran else -1, submit + wait + run, size) for submit, wait, run, size, ran in jobs]
    for row in rows:
        series.add(finished(*row))
    curves = series.over_time(parts=7)
    begin = min(row[0] for row in rows)
    last = max((end for _, start, end, _ in rows if start >= 0), default=begin)
    if last <= begin or all(start < 0 for _, start, _, _ in rows):
        assert not len(curves.used)
        return
    length = last - begin
    for at in range(7):
        low, high = begin + length * at / 7, begin + length * (at + 1) / 7
        used = sum(size * max(0.0, min(end, high) - max(start, low)) for _, start, end, size in rows if start >= 0)
        waiting = sum(max(0.0, min(start if start >= 0 else end, high) - max(submit, low)) for submit, start, end, _ in rows)
        assert math.isclose(curves.used[at], used / (high - low), abs_tol=1e-6)
        assert math.isclose(curves.waiting[at], waiting / (high - low), abs_tol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10), st.integers(0, 7), st.integers(1, 8)), max_size=6))
def test_coverage_is_the_area_of_each_point(boxes: list[tuple[int, int, int, int]]) -> None:
    corners = [(x, min(x + w, 10), y, min(y + h, 8)) for x, w, y, h in boxes]
    columns_of = np.array(corners, float).reshape(-1, 4).T
    got = coverage(Rectangles(*columns_of, np.arange(len(corners))), 5, 4, until_s=10.0, units=8)
    fine = np.zeros((8, 10))
    for left, right, low, high in corners:
        fine[low:high, left:right] += 1
    # Two ticks by two units make a point; overlapping jobs would be an error, and the sum of their areas is capped at one.
    expected = np.minimum(fine.reshape(4, 2, 5, 2).mean((1, 3)), 1.0)
    assert np.allclose(got, expected)


def test_a_job_of_zero_length_is_visible() -> None:
    instant = Rectangles(*(np.array([x], float) for x in (5, 5, 0, 1)), np.array([0]))
    assert coverage(instant, 10, 1, until_s=10.0, units=1).sum() == pytest.approx(0.5)


def test_a_file_that_is_not_a_table_of_jobs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,starting_time,finish_time,allocated_resources\n1,0,5,0-3\n2,0,x,1\n")
    with pytest.raises(InputError, match=r"jobs\.csv:3: not a table of jobs"):
        rectangles(path)


@given(JOBS, st.integers(0, 10))
def test_jobs_without_numbers_are_laid_out_without_overlaps(jobs: list[tuple[int, int, int, int, bool]], spare: int) -> None:
    rows = [(submit + wait if ran else -1, submit + wait + run, size) for submit, wait, run, size, ran in jobs]
    most = max((sum(s for b, e, s in rows if 0 <= b <= t < e) for t in range(110)), default=0)
    found = laid_out(*([row[column] for row in rows] for column in range(3)), units=most + spare)
    for t in range(110):
        numbers = [number for (b, e, _), own in zip(rows, found, strict=True) if 0 <= b <= t < e for number in own]
        assert len(set(numbers)) == len(numbers) == sum(s for b, e, s in rows if 0 <= b <= t < e)
        assert all(0 <= number < most + spare for number in numbers)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (4, 2.7764), (30, 2.0423), (31, 2.0395), (40, 2.0211), (120, 1.9799)]
)
def test_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_t(freedom) == pytest.approx(quantile, abs=6e-5)


def test_confidence_of_a_known_sample() -> None:
    # The sample of Gosset's paper on sleep (1908): a mean of 1.58 hours more, deviation 1.230.
    found = estimate([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
    assert found is not None
    assert found.mean == pytest.approx(1.58)
    assert (found.low, found.high) == (pytest.approx(0.70011, abs=1e-4), pytest.approx(2.45989, abs=1e-4))
    assert estimate([]) is None
    assert estimate([3.0]) == (3.0, None, None, 1)


def test_ratios_are_of_runs_of_the_same_seed() -> None:
    # Means would give 0.6; run by run the ratio is always a half, without uncertainty.
    found = ratio({0: 1.0, 1: 50.0, 2: 7.0}, {0: 2.0, 1: 100.0})
    assert found == (0.5, 0.5, 0.5, 2)
    assert ratio({0: 1.0}, {0: 0.0}) is None


def test_numbers_are_written_alike() -> None:
    given = (0.0, 1234.5, 123456.7, 0.000123456, -3.0, 1e6, 1.309e-7, 0.0457, 0.046, 100.04)
    assert [number(value) for value in given] == [
        "0",
        "1,234",
        "123,457",
        "0.0001235",
        "-3",
        "1,000,000",
        "≈ 0",
        "0.0457",
        "0.046",
        "100",
    ]


def test_values_of_a_metric_share_a_unit() -> None:
    hours = scale("mean_wait_s", [3600.0, 7200.0, None, 90_000.0])
    assert (title("mean_wait_s", hours), hours.text(5400.0), hours.text(None)) == ("mean wait (h)", "1.5", "-")
    percent = scale("utilisation", [0.5738])
    assert (title("utilisation", percent), percent.text(0.57386)) == ("utilisation (%)", "57.39")
    assert columns(["utilisation"])[0] == "utilisation"
    assert sorted(columns(["utilisation"])) == sorted(FIGURES)
    assert all(known.unit for known in FIGURES.values())


def test_percentiles_are_named_as_such() -> None:
    assert [FIGURES[name].title for name in ("p90_wait_s", "p99_bounded_slowdown")] == [
        "90th percentile of wait",
        "99th percentile of bounded slowdown",
    ]


@pytest.mark.parametrize(
    ("count", "named"), [(USERS_NAMED_MAX, None), (USERS_NAMED_MAX + 1, "1 other"), (USERS_NAMED_MAX + 2, "2 others")]
)
def test_the_legend_counts_the_users_that_have_no_colour(count: int, named: str | None) -> None:
    ends = np.arange(count, 0, -1, dtype=float)
    zeros = np.zeros(count)
    _, legend = _by_user(Rectangles(zeros, ends, zeros, zeros + 1, np.arange(count), users=[f"u{n}" for n in range(count)]))
    assert [name for name in legend if not name.startswith("user ")] == ([named] if named else [])
