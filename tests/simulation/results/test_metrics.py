"""Metrics accumulated while jobs finish, and curves, against sums over every moment."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fluxres.simulation import metrics
from fluxres.simulation.metrics import Averages, Peak, Series
from fluxres.simulation.schedule import Finished

MOMENTS = 80


def spans(seed: int) -> list[tuple[int, int, int]]:
    drawn = random.Random(seed)
    starts = [drawn.randrange(50) for _ in range(drawn.randint(1, 60))]
    return [(start, start + drawn.randint(1, 30), drawn.randint(1, 9)) for start in starts]


def heights(of: list[tuple[int, int, int]]) -> list[int]:
    return [sum(units for start, end, units in of if start <= moment < end) for moment in range(MOMENTS)]


def test_peak_is_the_largest_height(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MERGED", 8)
    for seed in range(100):
        any_order, by_end = Peak(), Peak(is_ordered=True)
        for start, end, units in sorted(spans(seed), key=lambda span: span[1]):
            any_order.add(start, end, units)
            by_end.add(start, end, units)
        assert any_order.most() == by_end.most() == max(heights(spans(seed))), seed


def test_peak_of_spans_in_order_keeps_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_MERGED", 8)
    peak = Peak(is_ordered=True)
    for moment in range(10_000):
        peak.add(2 * moment, 2 * moment + 3, 1)
    assert peak.most() == 2
    assert len(peak._moments) < 8


def test_averages_are_means_of_the_height() -> None:
    for seed in range(100):
        found = spans(seed)
        parts = random.Random(seed).choice((1, 2, 4, 5, 8))
        curve = Averages(np.linspace(0, MOMENTS, parts + 1))
        start, end, units = np.array(found).T
        curve.add(start, units)
        curve.add(end, -units)
        by_moment = np.array(heights(found)).reshape(parts, -1)
        assert curve.averages() == pytest.approx(by_moment.mean(axis=1)), seed


def test_a_job_does_not_wait_while_an_attempt_runs() -> None:
    nothing = None
    attempts = (
        Finished("a", 0, 2, 5, 0, 3, 0, "failed", None, 0, nothing, nothing),  # type: ignore[arg-type]  # neither is looked at
        Finished("a", 0, 6, 7, 0, 3, 0, "failed", None, 0, nothing, nothing),  # type: ignore[arg-type]  # neither is looked at
    )
    last = Finished("a", 0, 8, 10, 0, 3, 0, "completed", None, 0, nothing, nothing)  # type: ignore[arg-type]  # neither is looked at
    series = Series()
    series.add(last._replace(earlier=attempts))
    curves = series.over_time(parts=10)
    assert curves.waiting.tolist() == [1, 1, 0, 0, 0, 1, 0, 1, 0, 0]
    assert curves.used.tolist() == [0, 0, 3, 3, 3, 0, 3, 0, 3, 3]
