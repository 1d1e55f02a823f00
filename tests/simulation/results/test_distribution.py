"""Percentiles, classes and trimming, compared with their simplest computation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.simulation.metrics import RunningMetrics, Series
from fluxres.simulation.results.distribution import Trim, classes, counted, offered_load, percentiles, trimmed
from fluxres.simulation.schedule import Finished

S = 1_000_000
Row = tuple[int, int, int, int, bool, int]
"""Submission, wait, run time (s), size, whether it ran, user."""
JOBS = st.lists(
    st.tuples(
        st.integers(0, 50), st.integers(0, 20), st.integers(0, 90_000), st.integers(1, 40), st.booleans(), st.integers(0, 3)
    ),
    min_size=1,
    max_size=15,
)


def finished(row: Row) -> Finished:
    submit, wait, run, size, ran, user = row
    start = (submit + wait) * S if ran else -1
    nothing: object = None
    return Finished(1, submit * S, start, (submit + wait + run) * S, 0, size, 0, "completed", f"u{user}", 0, nothing, nothing)  # type: ignore[arg-type]  # neither is looked at


def series_of(rows: list[Row]) -> Series:
    found = Series()
    for row in rows:
        found.add(finished(row))
    return found


def nearest(values: list[float], q: float) -> float:
    """A percentile by linear interpolation between the closest ranks."""
    ordered, at = sorted(values), (len(values) - 1) * q / 100
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def slowdown(row: Row) -> float:
    return max(1.0, (row[1] + row[2]) / max(row[2], 10))


@given(JOBS)
def test_percentiles(rows: list[Row]) -> None:
    found = percentiles(counted(series_of(rows)))
    ran = [row for row in rows if row[4]]
    for word, q in (("median", 50), ("p90", 90), ("p99", 99)):
        if not ran:
            assert found[f"{word}_wait_s"] is found[f"{word}_bounded_slowdown"] is None
            continue
        assert found[f"{word}_wait_s"] == pytest.approx(nearest([row[1] for row in ran], q))
        assert found[f"{word}_bounded_slowdown"] == pytest.approx(nearest([slowdown(row) for row in ran], q))


@given(JOBS, st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([0.1, 0.25]))
def test_trimming_leaves_out_the_first_and_last_jobs_by_submission(rows: list[Row], warm_up: float, drain: float) -> None:
    order = sorted(rows, key=lambda row: row[0])
    inside = order[round(len(rows) * warm_up) : len(rows) - round(len(rows) * drain)]
    inside = [row for row in order if inside and inside[0][0] <= row[0] <= inside[-1][0]]
    kept = [row for row in inside if row[4]]
    found = trimmed(counted(series_of(rows), Trim(warm_up, drain)), 40)
    if not kept:
        assert found["mean_wait_s"] is found["utilisation"] is None
        return
    assert found["mean_wait_s"] == pytest.approx(sum(row[1] for row in kept) / len(kept))
    assert found["max_bounded_slowdown"] == pytest.approx(max(map(slowdown, kept)))
    begin, last = inside[0][0], inside[-1][0]
    if last == begin:
        assert found["utilisation"] is found["throughput_per_s"] is None
        return
    # Second by second: all jobs that ran hold units in the window, also those that are in no mean.
    held = sum(row[3] for row in rows if row[4] for at in range(begin, last) if row[0] + row[1] <= at < sum(row[:3]))
    assert found["utilisation"] == pytest.approx(held / (40 * (last - begin)))
    ended = sum(begin < sum(row[:3]) <= last for row in rows if row[4])
    assert found["throughput_per_s"] == pytest.approx(ended / (last - begin))


@given(st.permutations(range(8)), st.sampled_from([0.1, 0.3]), st.sampled_from([0.1, 0.4]))
def test_trimming_leaves_out_the_same_jobs_in_whatever_order_they_end(order: list[int], warm_up: float, drain: float) -> None:
    rows = [(at // 3, at * at, 5, 1, True, 0) for at in range(8)]
    found = [counted(series_of([rows[at] for at in each]), Trim(warm_up, drain)) for each in (order, range(8))]
    assert sorted(found[0].wait_s) == sorted(found[1].wait_s)


def test_utilisation_of_a_window_counts_all_attempts_and_sizes_on_the_machine_of_that_time() -> None:
    first, second, third = (finished((at, 0, run, 4, True, 0)) for at, run in ((0, 10), (10, 20), (40, 5)))
    attempt = second._replace(end=20 * S)
    again = second._replace(start=25 * S, earlier=(attempt,), sizes=((25 * S, 4), (27 * S, 1)))
    series = Series()
    for job in (first, again, third):
        series.add(job)
    found = trimmed(counted(series, Trim(0.3, 0.0)), 4)
    assert found["utilisation"] == pytest.approx((10 * 4 + 2 * 4 + 3 * 1) / (30 * 4))
    assert found["throughput_per_s"] == pytest.approx(1 / 30)
    grown = trimmed(counted(series, Trim(0.3, 0.0)), 4, lambda begin, end: (end - begin) * 8)
    assert grown["utilisation"] == pytest.approx(51 / 240)


@given(JOBS)
def test_without_trimming_means_are_those_of_the_run(rows: list[Row]) -> None:
    running = RunningMetrics(40)
    for row in rows:
        running.add(finished(row))
    found = trimmed(counted(series_of(rows), Trim(0.0, 1e-9)), 40)
    for name in ("mean_wait_s", "mean_turnaround_s", "mean_stretch", "max_stretch", "mean_bounded_slowdown"):
        assert found[name] == pytest.approx(getattr(running.metrics(), name)), name


@given(JOBS)
def test_each_job_is_in_one_class_of_each_kind(rows: list[Row]) -> None:
    series = series_of(rows)
    found = list(classes(counted(series)))
    ran = [row for row in rows if row[4]]
    for kind in ("size", "run time", "user"):
        own = [each for each in found if each["kind"] == kind]
        if kind == "user" and len({row[5] for row in rows}) < 2:
            assert own == []
            continue
        assert sum(each["jobs"] for each in own) == len(ran)
        assert sum(each["jobs"] * each["mean_wait_s"] for each in own) == pytest.approx(sum(row[1] for row in ran))
    for each in found:
        if each["kind"] == "size":
            low, _, high = each["class"].partition("-")
            members = [row for row in ran if int(low) <= row[3] <= int(high or low)]
            assert each["jobs"] == len(members)
            assert each["mean_bounded_slowdown"] == pytest.approx(sum(map(slowdown, members)) / len(members))


def test_names_of_classes() -> None:
    rows = [(0, 0, run, size, True, 0) for size in (1, 2, 3, 4, 5, 8, 9) for run in (60, 61, 86400, 86401)]
    series = series_of(rows)
    found = [(each["kind"], each["class"]) for each in classes(counted(series))]
    assert [name for kind, name in found if kind == "size"] == ["1", "2", "3-4", "5-8", "9-16"]
    assert [name for kind, name in found if kind == "run time"] == ["up to 1 min", "1 to 10 min", "5 to 24 h", "over 24 h"]


def test_offered_load_is_the_work_that_arrives_per_time_of_the_machine() -> None:
    # 4 nodes, 100 s between first and last submission, work of 300 node seconds.
    rows = [(0, 0, 50, 2, True, 0), (50, 0, 25, 4, True, 0), (100, 0, 50, 2, True, 0)]
    assert offered_load(counted(series_of(rows)), 4) == pytest.approx(300 / 400)
    assert offered_load(counted(series_of(rows[:1])), 4) is None
