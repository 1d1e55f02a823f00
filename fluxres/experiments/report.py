"""The report of a study: tables and charts in one self-contained HTML file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import UsageError
from fluxres.experiments import charts
from fluxres.experiments.charts import Chart, Curve, rectangles
from fluxres.experiments.comparison import Checked, Comparison, Estimate, Row, check, compare, comparison_csv, runs_csv
from fluxres.experiments.execution import JOBS
from fluxres.experiments.figures import FIGURES, written
from fluxres.experiments.folder import ResultsFolder, translated
from fluxres.experiments.study import Study, value_text

GANTTS_MAX: Final = 12
"""Maximum number of Gantt charts in a report; each takes seconds to draw."""
CURVE_POINTS: Final = 100
"""Points of a curve."""
BARS_MAX: Final = 40
"""Maximum number of settings in one chart."""

REPORT: Final = "report.html"
FIGURES_FOLDER: Final = "figures"


def write(study: Study, folder: ResultsFolder) -> tuple[Comparison, list[str]]:
    """Write tables, charts and the report of the existing results; returns the comparison, and notes on what was left out.

    Errors: StoreError if the directory cannot be written; InputError for damaged results.
    """
    found = compare(study, folder)
    drawn, notes = _charts(found, folder)
    checked = check(found)
    with translated(folder.path):
        (folder.path / "metrics.csv").write_text(runs_csv(found), encoding="utf-8")
        (folder.path / "comparison.csv").write_text(comparison_csv(found), encoding="utf-8")
        (folder.path / REPORT).write_text(page(found, checked, drawn, notes), encoding="utf-8")
        if drawn:
            (folder.path / FIGURES_FOLDER).mkdir(exist_ok=True)
        for chart in drawn:
            (folder.path / FIGURES_FOLDER / f"{chart.name}.svg").write_bytes(chart.svg)
            (folder.path / FIGURES_FOLDER / f"{chart.name}.png").write_bytes(chart.png)
    return found, notes


def _charts(found: Comparison, folder: ResultsFolder) -> tuple[list[Chart], list[str]]:
    rows = [row for row in found.rows if row.runs]
    notes: list[str] = []
    if not rows:
        return [], notes
    try:
        charts.require()
    except UsageError as error:
        return [], [f"{error.message}: {error.hint}"]
    drawn = [charts.comparison(rows[:BARS_MAX], name) for name in found.study.shown if len(rows) > 1]
    if len(rows) > BARS_MAX:
        notes.append(f"charts compare the first {BARS_MAX} of {len(rows)} settings")
    if len(rows) > len(charts.COLOURS):
        notes.append(f"curves show the first {len(charts.COLOURS)} of {len(rows)} settings")
    drawn.append(charts.curves([_curve(row) for row in rows[: len(charts.COLOURS)]]))
    for row in rows[:GANTTS_MAX]:
        drawn += _gantt(row, folder.runs)
    if len(rows) > GANTTS_MAX:
        notes.append(f"Gantt charts show the first {GANTTS_MAX} of {len(rows)} settings")
    return drawn, notes


def _curve(row: Row) -> Curve:
    _, document = row.runs[0]
    over = document["over_time"]
    used, waiting = (_coarser(np.array(over[name], float)) for name in ("used", "waiting"))
    part_s = over["part_s"] * len(over["used"]) / max(len(used), 1)
    times = (np.arange(len(used)) + 0.5) * part_s
    return Curve(row.label, times, used / max(document["machine"]["units"], 1), waiting)


def _coarser(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of adjacent values: with every peak in them, several curves in one chart are hard to tell apart."""
    step = max(len(values) // CURVE_POINTS, 1)
    found: NDArray[np.float64] = values[: len(values) // step * step].reshape(-1, step).mean(1)
    return found


def _gantt(row: Row, runs: Path) -> Iterator[Chart]:
    run, document = row.runs[0]
    given = rectangles(runs / run.key / JOBS)
    if len(given):
        machine = document["machine"]
        yield charts.gantt(given, f"gantt-{run.key}", row.label, units=machine["units"], unit=machine["unit"])


# -- the page --------------------------------------------------------------------------------------------------------


def page(found: Comparison, checked: Sequence[Checked], drawn: Sequence[Chart], notes: Sequence[str]) -> str:
    """The report as HTML."""
    study = found.study
    done = sum(len(row.runs) for row in found.rows)
    failed = {key: error for row in found.rows for key, error in row.errors.items()}
    repeats = f", {study.page.repeats} repeats of each of {len(found.rows)} settings" if study.page.repeats > 1 else ""
    sentences = [f"{done} of {len(study.runs)} runs{repeats}."]
    sentences += [f"{len(failed)} failed."] * bool(failed)
    sentences += [f"{len(found.missing)} have not been made yet."] * bool(found.missing)
    compared = [chart for chart in drawn if chart.name.startswith("comparison")]
    over_time = [chart for chart in drawn if chart.name == "curves"]
    gantts = [chart for chart in drawn if chart.name.startswith("gantt")]
    body = [
        _section("Comparison", _comparison(found) + _images(compared)),
        _section("Expected results", _expected(checked)) if checked else "",
        _section("Over time", "<p>First repeat of each setting.</p>" + _images(over_time)) if over_time else "",
        _section("Allocation over time", _captioned(gantts)) if gantts else "",
        _section("Scheduler levels", _levels(found)),
        _section("Failed runs", _failures(failed)) if failed else "",
        _section("All metrics", _all(found)),
        _section("Notes", "".join(f"<p>{escape(note)}</p>" for note in notes)) if notes else "",
    ]
    return _PAGE.substitute(
        title=escape(study.page.title or study.page.name),
        name=escape(study.page.name),
        about=escape(" ".join(sentences)),
        body="".join(body),
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table whose first `words` columns are text; cells are HTML already."""
    head = "".join(f"<th{'' if at < words else ' class=n'}>{escape(text)}</th>" for at, text in enumerate(headings))
    lines = "".join(
        "<tr>" + "".join(f"<td{'' if at < words else ' class=n'}>{cell}</td>" for at, cell in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


def _settings(found: Comparison) -> list[str]:
    return found.study.headings or ["study"]


def _names(found: Comparison, row: Row) -> list[str]:
    return [escape(value_text(value)) for value in row.settings.values()] or [escape(found.study.page.name)]


def _comparison(found: Comparison) -> str:
    names, base = found.study.shown, bool(found.study.page.baseline)
    headings = _settings(found)
    words = len(headings)
    for name in names:
        known = FIGURES[name]
        headings.append(known.title + (f" ({known.unit})" if known.unit else ""))
        headings += ["×\N{NO-BREAK SPACE}baseline"] * base
    rows = []
    for row in found.rows:
        cells = _names(found, row)
        for name in names:
            cells.append(_cell(name, row.figures.get(name)))
            if base:
                cells.append(_ratio(row.ratios.get(name)))
        rows.append(cells)
    legend = "<p class=small>Mean of the repeats, and 95 % confidence (Student's t).</p>" if found.study.page.repeats > 1 else ""
    return _table(headings, rows, words) + legend


def _cell(name: str, given: Estimate | None) -> str:
    if given is None:
        return "-"
    text = escape(written(name, given.mean))
    if given.low is None or given.high is None or given.high == given.low:
        return text
    return f"{text} <small>± {escape(written(name, (given.high - given.low) / 2))}</small>"


def _ratio(given: Estimate | None) -> str:
    if given is None:
        return "-"
    text = f"{given.mean:.3g}"
    spread = 0.0 if given.low is None or given.high is None else (given.high - given.low) / 2
    return f"{text} <small>± {spread:.2g}</small>" if spread > 5e-4 * abs(given.mean) else text


def _expected(checked: Sequence[Checked]) -> str:
    rows = []
    for each in checked:
        low, high = each.expected.ratio or each.expected.range or [0.0, 0.0]
        what = FIGURES[each.expected.metric].title + (f", relative to {each.against}" if each.against else "")
        mark = "<b class=good>pass</b>" if each.holds else "<b class=bad>fail</b>"
        value = "-" if each.value is None else f"{each.value:.4g}"
        rows.append([escape(each.label), escape(what), mark, escape(each.expected.source), value, f"{low:g} – {high:g}"])
    return _table(["setting", "figure", "", "source", "value", "expected"], rows, 4)


def _levels(found: Comparison) -> str:
    rows = []
    for row in found.rows:
        for level in row.runs[0][1]["levels"] if row.runs else ():
            own = [escape(row.label), str(level["level"]), escape(level["queue_policy"]), escape(level["match_policy"])]
            share = level["busiest_share"]
            own += [f"{level[name]:,}" for name in ("instances", "jobs", "decisions")]
            rows.append([*own, f"{level['busy_s']:,.2f}", "-" if share is None else f"{share:.1%}"])
    headings = ["setting", "level", "queue policy", "match policy", "instances", "jobs", "decisions", "busy (s)", "busiest"]
    return (
        "<p>First repeat of each setting. Busy is the time schedulers spent on decisions, by the cost model; busiest is the"
        " largest fraction of the makespan that any one scheduler spent deciding.</p>" + _table(headings, rows, 4)
    )


def _all(found: Comparison) -> str:
    names = list(FIGURES)
    rows = [[*_names(found, row), *(_cell(name, row.figures.get(name)) for name in names)] for row in found.rows]
    return _table([*_settings(found), *(FIGURES[name].title for name in names)], rows, len(_settings(found)))


def _failures(failed: dict[str, str]) -> str:
    return _table(["run", "error"], [[escape(key), escape(error)] for key, error in failed.items()], 2)


def _images(drawn: Sequence[Chart]) -> str:
    return "".join(_image(chart, "svg+xml", chart.svg) for chart in drawn)


def _captioned(drawn: Sequence[Chart]) -> str:
    return "".join(
        f"<figure><figcaption>{escape(chart.title)}</figcaption>{_image(chart, 'png', chart.png)}</figure>" for chart in drawn
    )


def _image(chart: Chart, kind: str, data: bytes) -> str:
    return f'<img alt="{escape(chart.title)}" src="data:image/{kind};base64,{base64.b64encode(data).decode()}">\n'


_PAGE: Final = Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2933; background: #f6f7f9; margin: 0 }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 60px }
h1 { font-size: 26px; line-height: 1.25; margin: 8px 0 4px }
h2 { font-size: 18px; margin: 0 0 10px }
section { background: #fff; border: 1px solid #e1e5ea; border-radius: 6px; padding: 18px 20px; margin: 18px 0 }
p { margin: 6px 0 } .small, small { color: #66727f; font-size: 12px }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px; min-width: 50% }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid #e8ebef; vertical-align: top }
td { white-space: nowrap } th { color: #52606d; font-weight: 600; vertical-align: bottom }
.n { text-align: right; font-variant-numeric: tabular-nums }
img { width: 100%; max-width: 900px; display: block; margin: 14px 0 0 }
figure { margin: 0 0 18px } figcaption { font-size: 13px; font-weight: 600 }
.good { color: #2b7a4b } .bad { color: #b3261e }
</style></head><body><main>
<p class="small">fluxres experiment · $name</p>
<h1>$title</h1>
<p>$about</p>
$body</main></body></html>
""")
