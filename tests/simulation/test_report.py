"""Reports are self-contained, agree with the results, and stay small."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from fluxres.errors import InputError, UsageError
from fluxres.experiments import campaign, charts, comparison, report
from fluxres.experiments.charts import Rectangles
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.study import Study
from tests.simulation.conftest import SMALL, Write

EXPECTING = SMALL + (
    "expect:\n"
    "  - {metric: jobs, range: [30, 30], source: '<b>as many as come</b>'}\n"
    "  - {metric: mean_wait_s, of: {hierarchy.queue_policy: easy}, against: baseline, ratio: [2, 3]}\n"
)


@pytest.fixture
def made(page: Write, tmp_path: Path) -> tuple[Study, ResultsFolder]:
    study = page(EXPECTING.replace("name: small", "name: small\ntitle: 'Waiting <script> & more'"))
    campaign.run(study, tmp_path / "a")
    return study, ResultsFolder(tmp_path / "a")


class Page(HTMLParser):
    """The resources that a browser would fetch, and elements that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        assert tag != "script"
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_is_self_contained(made: tuple[Study, ResultsFolder]) -> None:
    pytest.importorskip("matplotlib")
    study, folder = made
    report.write(study, folder)
    text = (folder.path / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert len(page.links) == 4 + 1 + 2  # comparisons, curves, a Gantt chart for each setting
    assert all(link.startswith(("data:image/svg+xml;base64,", "data:image/png;base64,")) for link in page.links)
    assert "Waiting <script> & more" in page.text
    assert "<b>as many as come</b>" in page.text
    assert len(text) < 2_000_000


def test_charts_are_svg_and_png_and_the_same_again(made: tuple[Study, ResultsFolder]) -> None:
    pytest.importorskip("matplotlib")
    study, folder = made
    report.write(study, folder)
    figures = {path.name: path.read_bytes() for path in (folder.path / "figures").iterdir()}
    assert {name.rpartition(".")[2] for name in figures} == {"svg", "png"}
    assert len(figures) == 2 * (4 + 1 + 2)
    for name, data in figures.items():
        if name.endswith("png"):
            assert data.startswith(b"\x89PNG")
        else:
            assert ET.fromstring(data).tag.endswith("svg")
    report.write(study, folder)
    assert {path.name: path.read_bytes() for path in (folder.path / "figures").iterdir()} == figures


def test_tables_have_the_means_and_intervals_of_the_runs(made: tuple[Study, ResultsFolder]) -> None:
    study, folder = made
    found = comparison.compare(study, folder)
    runs = list(csv.DictReader(StringIO(comparison.runs_csv(found))))
    rows = list(csv.DictReader(StringIO(comparison.comparison_csv(found))))
    assert [row["run"] for row in runs] == [run.key for run in study.runs]
    for row in rows:
        own = [float(run["mean_wait_s"]) for run in runs if run["queue_policy"] == row["queue_policy"]]
        base = [float(run["mean_wait_s"]) for run in runs if run["queue_policy"] == "fcfs"]
        assert float(row["mean_wait_s_mean"]) == pytest.approx(np.mean(own))
        # For two values the interval is 12.7062 times half their distance.
        assert float(row["mean_wait_s_high"]) - np.mean(own) == pytest.approx(12.7062 * abs(own[0] - own[1]) / 2)
        assert float(row["mean_wait_s_ratio"]) == pytest.approx(np.mean([a / b for a, b in zip(own, base, strict=True)]))


def test_expectations_hold_or_do_not(made: tuple[Study, ResultsFolder]) -> None:
    found = comparison.compare(*made)
    checked = comparison.check(found)
    assert [(each.label, each.holds) for each in checked] == [
        ("queue_policy fcfs", True),
        ("queue_policy easy", True),
        ("queue_policy easy", False),
    ]
    assert re.fullmatch(r"mean_wait_s of queue_policy easy relative to the baseline: 0\.\d+, expected 2 to 3", checked[2].text)
    assert checked[2].to_dict()["holds"] is False


def test_a_partial_report_lists_missing_runs(page: Write, tmp_path: Path) -> None:
    study = page(SMALL)
    folder = ResultsFolder(tmp_path / "a")
    with folder.writing(study):
        pass
    found, notes = report.write(study, folder)
    assert len(found.missing) == 4
    assert notes == []
    assert "4 have not been made yet" in (folder.path / "report.html").read_text(encoding="utf-8")


def test_damaged_results_are_reported(made: tuple[Study, ResultsFolder]) -> None:
    study, folder = made
    path = folder.runs / study.runs[0].key / "metrics.json"
    path.write_text('{"metrics": {}}')
    with pytest.raises(InputError, match=r"metrics\.json: not the metrics of a run"):
        comparison.compare(study, folder)


def test_without_matplotlib_there_are_tables(made: tuple[Study, ResultsFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UsageError("charts need matplotlib", hint="pip install matplotlib")

    monkeypatch.setattr(charts, "require", missing)
    _, notes = report.write(*made)
    assert notes == ["charts need matplotlib: pip install matplotlib"]
    text = (made[1].path / "report.html").read_text(encoding="utf-8")
    assert "pip install matplotlib" in text
    assert "<img" not in text
    assert not (made[1].path / "figures").exists()


def test_a_chart_of_a_hundred_thousand_jobs_is_small() -> None:
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(1)
    start, unit = random.uniform(0, 1e5, 100_000), random.integers(0, 5000, 100_000).astype(float)
    given = Rectangles(start, start + 60, unit, unit + 1, np.arange(100_000))
    chart = charts.gantt(given, "many", "many", units=5000, unit="core")
    assert len(chart.svg) < 400_000
    assert len(chart.png) < 400_000
