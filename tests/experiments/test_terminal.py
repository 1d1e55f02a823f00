"""What a terminal shows of a comparison: its figures with their intervals, in tables that fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fluxres.cli.commands.experiment import compared
from fluxres.experiments import comparison
from fluxres.experiments.comparison import Comparison, Row, estimate
from fluxres.experiments.folder import ResultsFolder
from fluxres.render.text import PLAIN, Style
from tests.experiments.conftest import SMALL, Write

WAITS: dict[str, list[list[float]]] = {
    "fcfs": [[40.0, 50.0, 60.0], [1.0, 1.0, 1.0]],
    "easy": [[20.0, 25.0, 45.0], [0.5, 0.5, 0.5]],
}


@pytest.fixture
def found(page: Write, tmp_path: Path) -> Comparison:
    """A comparison of made-up values: waits with intervals, ratios of the makespan without, no slowdowns at all."""
    study = page(SMALL.replace("repeats: 2", "repeats: 3"))
    rows = []
    for settings, (waits, makespans) in zip(study.settings, WAITS.values(), strict=True):
        runs: list[Any] = [(run, {"metrics": {}}) for run in study.runs if run.settings is settings]
        row = Row(settings, study.page.labels, runs)
        row.figures = {"mean_wait_s": estimate(waits), "makespan_s": estimate(makespans), "mean_bounded_slowdown": None}
        row.ratios = {"mean_wait_s": estimate([own / base for own, base in zip(waits, WAITS["fcfs"][0], strict=True)])}
        rows.append(row)
    return Comparison(study, rows, ResultsFolder(tmp_path / "a"))


def test_means_and_ratios_have_their_intervals(found: Comparison) -> None:
    heading, fcfs, easy, legend = compared(PLAIN, found)
    assert heading.split("  ")[0] == "QUEUE POLICY"
    assert fcfs.split() == ["fcfs", "50", "±", "25", "×1", "1"]
    # 30 ± 4.3027 × 13.23 / √3 reaches below 0, so the interval is that of a log-normal distribution.
    wait = estimate(WAITS["easy"][0])
    assert wait is not None
    assert wait.method == "log"
    assert f"30 [{wait.low:.2g}, {wait.high:.2g}]  ×0.583 ± 0.36" in easy
    assert legend == "×: ratio to queue policy fcfs, run by run; ± and [ ]: 95 % confidence"


def test_columns_without_values_are_left_out(found: Comparison) -> None:
    assert "SLOWDOWN" not in "".join(compared(PLAIN, found))
    for row in found.rows:
        row.figures, row.ratios = {}, {}
    assert compared(PLAIN, found) == []


def test_what_does_not_fit_is_a_table_of_its_own(found: Comparison) -> None:
    wide = compared(PLAIN, found)
    assert len(wide) == 4
    assert compared(Style(columns=80), found) == wide
    narrow = compared(Style(columns=50), found)
    assert [line.split()[0] if line else "" for line in narrow[:-1]] == ["QUEUE", "fcfs", "easy", "", "QUEUE", "fcfs", "easy"]
    assert max(map(len, narrow[:-1])) <= 50
    assert {*" ".join(narrow).split()} == {*" ".join(wide).split()}


def test_settings_of_which_an_expectation_has_the_same_value_share_a_line(page: Write, found: Comparison) -> None:
    expected = page(SMALL + "expect:\n  - {metric: makespan_s, range: [0, 1]}\n  - {metric: mean_wait_s, range: [40, 60]}\n")
    found.study.page.expect = expected.page.expect
    made = comparison.check(found)
    for row in found.rows:
        row.figures["makespan_s"] = estimate([1.0])
    said = [(each.label, each.verdict) for each in comparison.alike(comparison.check(found))]
    assert len(made) == 4
    assert said == [("2 settings", "unchanged"), ("queue_policy fcfs", "unchanged"), ("queue_policy easy", "CHANGED")]


def test_a_warning_names_some_of_very_many_settings() -> None:
    many = [f"s{number}: 1" for number in range(comparison.SETTINGS_SAID_MAX + 3)]
    assert comparison._several(many).endswith("s11: 1; and 3 other settings")
    assert comparison._several(many[:2]) == "s0: 1; s1: 1"
