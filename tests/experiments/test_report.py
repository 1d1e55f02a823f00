"""Reports are self-contained, agree with the results, and stay small."""

from __future__ import annotations

import csv
import re
import resource
import shutil
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise, permutations
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import orjson
import pytest

from fluxres import __version__, limits
from fluxres.errors import InputError, StoreError, UsageError
from fluxres.experiments import campaign, comparison, job_charts, report, style
from fluxres.experiments import page as report_page
from fluxres.experiments.charts import Bar, Course, Quantity, over_time
from fluxres.experiments.charts import comparison as comparison_chart
from fluxres.experiments.comparison import Estimate
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.gantt import Rectangles, Span, Units, gantt
from fluxres.experiments.study import Study, WorkloadEntry, load
from tests.experiments.conftest import SMALL, Write

EXPECTING = SMALL + (
    "expect:\n"
    "  - {metric: jobs, range: [30, 30], source: '<b>as many as come</b>'}\n"
    "  - {metric: mean_wait_s, of: {hierarchy.queue_policy: easy}, against: baseline, ratio: [2, 3]}\n"
)


TITLED = EXPECTING.replace("name: small", "name: small\ntitle: 'Waiting <script> & more'")


@pytest.fixture
def made(page: Write, tmp_path: Path) -> tuple[Study, ResultsFolder]:
    study = page(TITLED)
    campaign.run(study, tmp_path / "a")
    return study, ResultsFolder(tmp_path / "a")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, ResultsFolder]:
    """The same with its report, whose charts take seconds; only to be read."""
    pytest.importorskip("matplotlib")
    path = tmp_path_factory.mktemp("reported")
    (path / "study.yaml").write_text(TITLED, encoding="utf-8")
    study, folder = load(path / "study.yaml"), ResultsFolder(path / "a")
    campaign.run(study, folder.path)
    report.write(study, folder)
    return study, folder


class Page(HTMLParser):
    """The resources that a browser would fetch, ids, and elements that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert tag != "script"
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_is_self_contained(reported: tuple[Study, ResultsFolder]) -> None:
    _, folder = reported
    text = (folder.path / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    assert text.count("<svg") == 4 + 1 + 2  # comparisons, curves, a Gantt chart for each setting
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    ids = page.ids
    assert {link.removeprefix("#") for link in page.links if link.startswith("#")} <= set(ids)
    assert len(ids) == len(set(ids)) > 10
    assert "Waiting <script> & more" in page.text
    assert "<b>as many as come</b>" in page.text
    assert len(text) < 2_000_000


def test_charts_are_svg_and_png_and_the_same_again(reported: tuple[Study, ResultsFolder], tmp_path: Path) -> None:
    study, folder = reported
    folder = ResultsFolder(shutil.copytree(folder.path, tmp_path / "a"))
    drawn = {path.name: path.read_bytes() for path in (folder.path / "figures").iterdir()}
    assert {name.rpartition(".")[2] for name in drawn} == {"svg", "png"}
    assert len(drawn) == 2 * (4 + 1 + 2)
    for name, data in drawn.items():
        if name.endswith("png"):
            assert data.startswith(b"\x89PNG")
        else:
            assert ET.fromstring(data).tag.endswith("svg")
    report.write(study, folder)
    assert {path.name: path.read_bytes() for path in (folder.path / "figures").iterdir()} == drawn


def test_tables_have_the_means_and_intervals_of_the_runs(page: Write, tmp_path: Path) -> None:
    study = page(EXPECTING.replace("repeats: 2", "repeats: 2\nseed: 3"))  # with waits in each run
    campaign.run(study, tmp_path / "a")
    folder = ResultsFolder(tmp_path / "a")
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
    assert re.fullmatch(r"mean_wait_s of queue_policy easy relative to the baseline: 0\.\d+, guarded 2 to 3", checked[2].text)
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


def test_a_full_disk_leaves_the_report_that_was_there(page: Write, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    study, folder = page(POWER), ResultsFolder(tmp_path / "a")
    campaign.run(study, folder.path)
    report.write(study, folder)
    before = {path: path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        with pytest.raises(StoreError, match="File too large; nothing was written"):
            report.write(study, folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path: path.read_bytes() for path in sorted(folder.path.rglob("*")) if path.is_file()} == before


def test_without_matplotlib_there_are_tables(made: tuple[Study, ResultsFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UsageError("charts need matplotlib", hint="pip install matplotlib")

    monkeypatch.setattr(style, "require", missing)
    _, notes = report.write(*made)
    assert notes == ["charts need matplotlib: pip install matplotlib"]
    text = (made[1].path / "report.html").read_text(encoding="utf-8")
    assert "pip install matplotlib" in text
    assert "<svg" not in text
    assert not (made[1].path / "figures").exists()


LEVELS = """\
fluxres-experiment: 1
name: levels
machine: node=4/core=4
unit: core
workload: {ensemble: {jobs: 200, run_s: 0}}
cost: {fixed_s: 0.01}
vary: {hierarchy.topology: [1, 4]}
baseline: {hierarchy.topology: 1}
metrics: [throughput_per_s]
"""
POWER = """\
fluxres-experiment: 1
name: power
machine:
  fluxres: 1
  name: capped
  resources: [{type: node, count: 4}]
  graphs:
    power:
      hierarchy: true
      pools: [{type: power, name: feed, size: 3000, unit: W}]
      edges: [{from: "power:/feed", to: "/capped/node*", relation: supplies}]
workload: {lublin: {jobs: 20, size: 2}, request: "slot={size}/[node{x};power=1000]"}
"""


def figures_of(study: Study, path: Path) -> dict[str, str]:
    """The text of each chart of a study."""
    campaign.run(study, path)
    report.write(study, ResultsFolder(path))
    return figures(path)


def figures(path: Path) -> dict[str, str]:
    return {each.stem: each.read_text(encoding="utf-8") for each in (path / "figures").glob("*.svg")}


def texts(svg: str) -> list[str]:
    return [found.text or "" for found in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_charts_over_time_share_one_axis_from_zero(reported: tuple[Study, ResultsFolder]) -> None:
    found = figures(reported[1].path)
    ticks = [texts(svg)[: texts(svg).index("time (h)")] for name, svg in found.items() if name.startswith("gantt")]
    assert len(ticks) == 2
    assert ticks[0] == ticks[1]
    assert ticks[0][0] == "0"
    assert "node1" in texts(found["gantt-001-queue_policy=fcfs,seed=0"])


def test_jobs_of_no_length_are_shown_as_starts_per_second(page: Write, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = figures_of(page(LEVELS), tmp_path / "a")
    assert set(found) == {"comparison-throughput_per_s", "over-time"}
    assert "starts per second, log scale" in texts(found["over-time"])
    assert "in use (%)" not in texts(found["over-time"])
    assert "2 Gantt charts would be empty and are left out" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")


def test_jobs_of_no_length_beside_others_have_a_chart_of_starts(page: Write, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    both = LEVELS.replace("hierarchy.topology: [1, 4]", "workload.ensemble.run_s: [0, 60]")
    assert both != LEVELS
    shown = texts(figures_of(page(both.replace("baseline: {hierarchy.topology: 1}", "")), tmp_path / "a")["over-time"])
    assert {"starts per second, log scale", "in use (%)"} <= set(shown)


def test_power_is_drawn_over_time_with_its_limit(page: Write, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = figures_of(page(POWER), tmp_path / "a")
    assert "power (kW)" in texts(found["over-time"])
    assert 'id="limit"' in found["over-time"]
    document = orjson.loads(next((tmp_path / "a" / "runs").glob("*/metrics.json")).read_bytes())
    (supply,) = document["over_time"]["supplies"]
    used = np.array(document["over_time"]["used"])
    assert np.allclose(supply["used"], used * 1000, atol=1)
    assert max(supply["used"]) <= supply["capacity"] == 3000


def test_a_chart_without_anything_to_see_is_not_drawn() -> None:
    pytest.importorskip("matplotlib")
    flat = Course("flat", np.arange(3.0), {"in use (%)": np.zeros(2)}, {})
    assert list(over_time([flat], [Quantity("in use (%)")], 2.0)) == []
    (chart,) = over_time([flat, flat._replace(values={"in use (%)": np.ones(2)})], [Quantity("in use (%)")], 2.0)
    assert chart.svg.count(b'id="curve"') == 2


def test_what_is_shown_stands_above_the_setting_however_long_its_name_is() -> None:
    pytest.importorskip("matplotlib")
    course = Course("a setting", np.arange(3.0), {"in use (%)": np.ones(2)}, {})
    (chart,) = over_time([course], [Quantity("in use (%)")], 2.0)
    placed = re.findall(
        r"<text[^>]*transform=\"(?:translate\([\d.]+|rotate\(-0 [\d.]+) ([\d.]+)\)\">([^<]+)</text>", chart.svg.decode()
    )
    heights = {text: float(height) for height, text in placed}
    assert heights["in use (%)"] < heights["a setting"] - 8


def test_a_baseline_differs_from_other_curves_by_its_dashes(reported: tuple[Study, ResultsFolder]) -> None:
    found = figures(reported[1].path)["over-time"]
    base, curve = (re.search(rf'<g id="{gid}">\s*<path [^>]*style="([^"]*)"', found) for gid in ("base", "curve"))
    assert base is not None
    assert curve is not None
    assert "stroke-dasharray" in base[1]
    assert "stroke-dasharray" not in curve[1]
    assert len({*map(str, style.DASHES)}) == len(set(style.MARKERS)) == len(set(style.PALETTE)) == 6


def test_paired_ratios_are_drawn_with_their_intervals() -> None:
    pytest.importorskip("matplotlib")
    wide, sure = Estimate(100.0, 10.0, 190.0, 5), Estimate(0.5, 0.45, 0.55, 5)
    bars = [Bar("fcfs", "", wide, Estimate(1.0, 1.0, 1.0, 5), True), Bar("easy", "", wide, sure, False)]
    found = texts(comparison_chart(bars, "mean_wait_s", against="policy fcfs").svg.decode())
    assert "ratio to policy fcfs" in found
    assert {"100 ± 90", "0.5 ± 0.05"} <= set(found)
    without = [bar._replace(ratio=None) for bar in bars]  # as of a baseline of 0
    assert "ratio to policy fcfs" not in texts(comparison_chart(without, "mean_wait_s", against="policy fcfs").svg.decode())
    apart = [bars[0], Bar("easy", "", Estimate(1.0, None, None, 1), sure, False)]
    assert "mean wait (s), log scale" in texts(comparison_chart(apart, "mean_wait_s").svg.decode())


@pytest.mark.parametrize(("high", "ends"), [(190.0, 0), (1000.0, 2)])
def test_intervals_beyond_the_axis_end_in_arrowheads(high: float, ends: int) -> None:
    pytest.importorskip("matplotlib")
    bars = [Bar(name, "", Estimate(100.0, 10.0, high, 5), None, name == "fcfs") for name in ("fcfs", "easy")]
    assert comparison_chart(bars, "mean_wait_s").svg.count(b'id="beyond"') == ends


@pytest.mark.usefixtures("without_charts")
def test_a_report_says_what_became_of_the_jobs(page: Write, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    study = page(SMALL.replace("node=2/core=4", "node=1/core=6"))
    campaign.run(study, tmp_path / "a")
    folder = ResultsFolder(tmp_path / "a")
    report.write(study, folder)
    document = folder.read(study.runs[0])
    assert document is not None
    text = (folder.path / "report.html").read_text(encoding="utf-8")
    (section,) = re.findall(r"<section><h2>Jobs</h2>.*?</section>", text, re.DOTALL)
    headings, cells = (re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", section) for tag in ("th", "td"))
    row = dict(zip(headings, cells, strict=True))
    assert document["metrics"]["refused"] > 0
    assert row["in the workload (jobs)"] == "30"
    assert (row["ran (jobs)"], row["refused (jobs)"]) == tuple(str(document["metrics"][name]) for name in ("jobs", "refused"))
    (frequent, number), *_ = sorted(document["refused"]["reasons"].items(), key=lambda each: -each[1])
    assert row["did not run because"].startswith(f"{frequent} ({number})")


def test_jobs_that_nothing_lets_start_have_a_reason() -> None:
    document = {"left": {"user ann: max_jobs is 2": 1}, "metrics": {"left": 3}}
    assert comparison.left_reasons(document) == {"user ann: max_jobs is 2": 1, "waiting when no event was left": 2}
    assert comparison.left_reasons({"left": {}, "metrics": {"left": 0}}) == {}


@pytest.mark.usefixtures("without_charts")
def test_every_column_of_numbers_has_a_unit(made: tuple[Study, ResultsFolder]) -> None:
    report.write(*made)
    text = (made[1].path / "report.html").read_text(encoding="utf-8")
    headings = re.findall(r"<th scope=col class=n>([^<]*)</th>", text)
    assert len(headings) > 20
    assert [each for each in headings if not re.search(r"\(.+\)$|^ratio to ", each)] == []


@pytest.mark.usefixtures("without_charts")
def test_a_report_tells_how_it_was_made(page: Write, tmp_path: Path) -> None:
    study = page(SMALL)
    campaign.run(study, tmp_path / "a", command="fluxres experiment run 'a b.yaml'")
    report.write(study, ResultsFolder(tmp_path / "a"))
    html = Page()
    html.feed((tmp_path / "a" / "report.html").read_text(encoding="utf-8"))
    for part in ("node=2/core=4: 8 cores", "seeds0 to 1", "queue_policy: fcfs, easy", "lublin: {jobs: 30, size: 8}"):
        assert part in html.text
    assert re.search(r"made\d{4}-\d\d-\d\d \d\d:\d\d UTC: fluxres experiment run 'a b\.yaml'", html.text)
    assert f"fluxres{__version__}" in html.text


@pytest.mark.usefixtures("without_charts")
def test_values_that_are_no_defaults_are_told(page: Write, tmp_path: Path) -> None:
    """A run time of 0 s and one of 1 s, which is the default, are different workloads."""
    text = {}
    for run_s in (0, 1):
        folder = tmp_path / str(run_s)
        study = page(LEVELS.replace("run_s: 0", f"run_s: {run_s}").replace("jobs: 200", "jobs: 20"))
        campaign.run(study, folder)
        report.write(study, ResultsFolder(folder))
        text[run_s] = (folder / "report.html").read_text(encoding="utf-8")
    assert "ensemble: {jobs: 20, run_s: 0, distribution: fixed}" in text[0]
    assert "ensemble: {jobs: 20, distribution: fixed}" in text[1]


@pytest.mark.usefixtures("without_charts")
def test_a_report_says_what_each_workload_is(page: Write, tmp_path: Path) -> None:
    few, many = (
        "{name: few, lublin: {jobs: 20, size: 8}}",
        "{name: many, lublin: {jobs: 30, size: 8}, request: 'slot={size}/core'}",
    )
    several = f"workload:\n  - {few}\n  - {many}\n"
    study = page(SMALL.replace("workload:\n  lublin: {jobs: 30, size: 8}\n", several))
    campaign.run(study, tmp_path / "a")
    report.write(study, ResultsFolder(tmp_path / "a"))
    html = Page()
    html.feed((tmp_path / "a" / "report.html").read_text(encoding="utf-8"))
    assert "workload fewlublin: {jobs: 20, size: 8}" in html.text
    assert "workload manylublin: {jobs: 30, size: 8}, request: slot={size}/core" in html.text


def test_a_pair_is_bold_in_both_directions_or_in_none(page: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these five ratios the interval is below 1, but that of their inverses contains 1."""
    waits = {"fcfs": [1.0] * 5, "easy": [0.3, 0.5, 0.7, 0.8, 0.99], "hybrid": [0.1] * 5}
    ratios = [comparison.ratio(*map(dict, map(enumerate, pair))) for pair in permutations([waits["easy"], waits["fcfs"]])]
    assert [not each.low <= 1 <= each.high for each in ratios if each] == [True, False]
    study = page(SMALL.replace("repeats: 2", "repeats: 5").replace("[fcfs, easy]", f"[{', '.join(waits)}]"))
    campaign.run(study, tmp_path / "a")
    found = comparison.compare(study, ResultsFolder(tmp_path / "a"))
    for row, values in zip(found.rows, waits.values(), strict=True):
        for (_, document), value in zip(row.runs, values, strict=True):
            document["metrics"]["mean_wait_s"] = value
    monkeypatch.setattr(Study, "shown", ("mean_wait_s",))
    assert [each.count("<b>") for each in report_page._pairs(found).split("<tr>")[-3:]] == [1, 1, 2]


@pytest.mark.usefixtures("without_charts")
def test_expected_results_are_in_the_units_of_the_other_tables(page: Write, tmp_path: Path) -> None:
    study = page(SMALL + "expect:\n  - {metric: utilisation, range: [0.05, 0.995]}\n  - {metric: refused, range: [0, 0]}\n")
    campaign.run(study, tmp_path / "a")
    report.write(study, ResultsFolder(tmp_path / "a"))
    text = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<td>utilisation \(%\)</td><td>[\d.]+</td><td>5 to 99.5</td>", text)
    assert "<td>refused (jobs)</td><td>0</td><td>0</td>" in text


@pytest.mark.usefixtures("without_charts")
def test_decisions_that_take_no_time_have_no_columns_of_zeros(page: Write, tmp_path: Path) -> None:
    for cost, columns in (("", ["instances (number)", "jobs (number)"]), ("cost: {fixed_s: 0.01}\n", None)):
        folder = tmp_path / (cost[:4] or "none")
        study = page(LEVELS.replace("cost: {fixed_s: 0.01}\n", cost).replace("jobs: 200", "jobs: 20"))
        campaign.run(study, folder)
        report.write(study, ResultsFolder(folder))
        text = (folder / "report.html").read_text(encoding="utf-8")
        section = text[text.index("<h2>Scheduler levels</h2>") :]
        found = re.findall(r"<th scope=col class=n>([^<]*)</th>", section[: section.index("</table>")])
        expected = columns or ["instances (number)", "jobs (number)", "decisions (number)", "busy (s)", "busiest (%)"]
        assert found == expected


def test_hosts_stand_in_the_middle_of_their_rows_where_these_are_high() -> None:
    pytest.importorskip("matplotlib")
    given = Rectangles(*(np.array([x], float) for x in (0, 5, 0, 8)), np.array([0]))

    def heights(host_count: int) -> list[float]:
        hosts = [(0, "node0"), (4, "node1")]
        chart = gantt(given, "few", "few", span=Span(0.0, 10.0), units=Units(8, "core", hosts, host_count))
        found = [
            each for each in ET.fromstring(chart.svg).iter("{http://www.w3.org/2000/svg}text") if each.text in ("node0", "node1")
        ]
        return [float(each.attrib["y"]) for each in found]

    low, high = heights(0), heights(2)
    assert low[0] - high[0] == pytest.approx(low[1] - high[1], abs=0.1)
    assert low[0] - high[0] > 20  # a quarter of the chart, less a part of the text


def test_counts_have_no_fractions_on_their_axis() -> None:
    pytest.importorskip("matplotlib")
    for is_whole in (False, True):
        shown: list[str] = []
        for most in (1.0, 3.0, 8.0):
            course = Course("few", np.arange(3.0) * 20, {"jobs waiting": np.array([most, 1.0])}, {})
            (chart,) = over_time([course], [Quantity("jobs waiting", is_whole=is_whole)], 40.0)
            shown += texts(chart.svg.decode())
        assert any("." in text for text in shown) is not is_whole


@pytest.mark.usefixtures("without_charts")
def test_settings_that_refuse_other_jobs_are_marked(page: Write, tmp_path: Path) -> None:
    study = page(
        SMALL.replace("hierarchy.queue_policy: [fcfs, easy]", "hierarchy.topology: [1, 2]").replace(
            "hierarchy.queue_policy: fcfs", "hierarchy.topology: 1"
        )
    )
    campaign.run(study, tmp_path / "a")
    report.write(study, ResultsFolder(tmp_path / "a"))
    assert "settings ran different jobs." in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")


def test_a_report_follows_the_scheme_of_the_reader(reported: tuple[Study, ResultsFolder]) -> None:
    made = reported[1].path
    for path in (made / "report.html", made / "figures" / "over-time.svg"):
        text = path.read_text(encoding="utf-8")
        assert "prefers-color-scheme:dark" in text
        for colour in (style.INK, style.MUTED, style.PAPER):
            assert text.count(colour) <= 1, "a colour of one scheme stands where a variable should"


def test_a_chart_of_a_hundred_thousand_jobs_is_small() -> None:
    pytest.importorskip("matplotlib")
    random = np.random.default_rng(1)
    start, unit = random.uniform(0, 1e5, 100_000), random.integers(0, 5000, 100_000).astype(float)
    given = Rectangles(start, start + 60, unit, unit + 1, np.arange(100_000))
    chart = gantt(given, "many", "many", span=Span(0.0, 1e5 + 60), units=Units(5000, "core"))
    assert len(chart.svg) < 400_000
    assert len(chart.png) < 400_000


def test_columns_without_values_are_left_out() -> None:
    rows = [["a", "1", "-", "2"], ["b", "-", "-", "3"]]
    text = report_page._table("t", ["setting", "one", "none", "two"], rows, 1)
    assert re.findall(r"<th[^>]*>([^<]*)</th>", text) == ["setting", "one", "two"]
    assert text.count("<td") == 6


def test_tables_of_names_alone_are_left_out_with_their_sections(page: Write, tmp_path: Path) -> None:
    assert report_page._table("t", ["name", "a", "b"], [["x", "-", ""], ["y", "", "-"]], 1) == ""
    assert report_page._table("t", ["name"], [["x"]], 1)
    study = page(SMALL.replace("machine: node=2/core=4", "machine: node=2/core=4\ninventory: named"))
    campaign.run(study, tmp_path / "a")
    report.write(study, ResultsFolder(tmp_path / "a"))
    text = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert re.findall("<h2>(.*?)</h2>", text) == ["Failed runs", "How these results were made"]


def test_jobs_that_change_their_size_have_a_chart_of_their_own(page: Write, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    study = page(
        "fluxres-experiment: 1\nname: sizes\nmachine: node=64\nworkload:\n  lublin: {jobs: 40, size: 64}\n"
        "  adaptive: {kind: malleable, speedup: 'amdahl:serial=0.02', reconfiguration_s: 5}\n"
        "vary: {resize_policy: [none, equipartition]}\n"
    )
    campaign.run(study, tmp_path / "a")
    folder = ResultsFolder(tmp_path / "a")
    report.write(study, folder)
    keys = [run.key for run in study.runs]
    names = {path.name for path in (folder.path / "figures").glob("*.svg")}
    assert {f"gantt-{keys[0]}.svg", f"sizes-{keys[1]}.svg"} <= names
    assert not {f"sizes-{keys[0]}.svg", f"gantt-{keys[1]}.svg"} & names
    assert "1 Gantt chart is left out: jobs changed their size" in (folder.path / "report.html").read_text(encoding="utf-8")
    # The parts of a job are its whole time, and its units over it are what utilisation counts.
    jobs = job_charts.size_parts(folder.runs / keys[1] / "sizes.csv")
    assert jobs
    for parts in jobs:
        assert len(parts) > 1
        assert all(own.end_s == then.begin_s and own.units != then.units for own, then in pairwise(parts))
    with (folder.runs / keys[1] / "jobs.csv").open(encoding="utf-8", newline="") as file:
        spans = {(float(row["starting_time"]), float(row["finish_time"])) for row in csv.DictReader(file)}
    assert {(parts[0].begin_s, parts[-1].end_s) for parts in jobs} <= spans
    (folder.runs / keys[1] / "sizes.csv").write_text("job_id,instance,time,units\n1,0,x,3\n")
    with pytest.raises(InputError, match=r"sizes\.csv:2"):
        report.write(study, folder)


def test_charts_of_single_jobs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(limits, "CHART_JOBS_MAX", 2)
    monkeypatch.setattr(limits, "CHART_STEPS_MAX", 4)
    jobs = [[job_charts.Part(0.0, 1.0 + number, 1), job_charts.Part(1.0 + number, 9.0, 2)] for number in range(3)]
    chart = job_charts.sizes(jobs, "sizes", "sizes", span=Span(0.0, 9.0))
    assert b"first 2 of 3 jobs that changed" in chart.svg
    times, numbers = job_charts._steps(range(100))
    assert len(times) == len(numbers) == 5
    assert numbers[-1] == 100


def test_defaults_of_traces_and_estimates_go_without_saying() -> None:
    assert not {"processors", "estimates_for"} & set(report_page._said(WorkloadEntry(file="trace.swf")))
    assert "processors" in report_page._said(WorkloadEntry(file="trace.swf", processors="larger"))


def test_values_with_commas_are_told_apart() -> None:
    assert report_page._listed([1000, 2000]) == "1,000, 2,000"
    assert report_page._listed(["rigid", "moldable, greedy"]) == "rigid / moldable, greedy"
