"""The report of a study: what is drawn, and the files that are written."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fluxres.arrays import Floats
from fluxres.errors import UsageError
from fluxres.experiments import charts, job_charts, real, style
from fluxres.experiments.charts import Bar, Course, Quantity
from fluxres.experiments.comparison import Comparison, Row, check, compare, comparison_csv, pairs_csv, remarks, runs_csv
from fluxres.experiments.execution import JOBS, SIZES
from fluxres.experiments.folder import ResultsFolder, translated
from fluxres.experiments.gantt import Rectangles, Span, Units, blocked, gantt, rectangles
from fluxres.experiments.page import REPORT, page
from fluxres.experiments.study import Run, Study, in_words, label, readable
from fluxres.experiments.style import Chart
from fluxres.store.disk import write_whole

GANTTS_MAX: Final = 12
"""Maximum number of Gantt charts in a report; each takes seconds to draw."""
CURVE_POINTS: Final = 100
"""Points of a curve."""
COURSES_MAX: Final = 16
"""Maximum number of settings that are shown over time."""
BARS_MAX: Final = 40
"""Maximum number of settings in one chart."""
VISIBLE: Final = 0.003
"""The least fraction of a chart that jobs must cover for it to be drawn."""

FIGURES_FOLDER: Final = "figures"


def write(study: Study, folder: ResultsFolder) -> tuple[Comparison, list[str]]:
    """Write tables, charts and the report of the existing results; returns the comparison, and notes on what was left out.

    Errors: StoreError if the directory cannot be written; InputError for damaged results.
    """
    found = compare(study, folder)
    asides: list[str] = []
    drawn, notes = _charts(found, folder, asides)
    with translated(folder.path):
        write_whole(folder.path / "metrics.csv", runs_csv(found).encode())
        write_whole(folder.path / "comparison.csv", comparison_csv(found).encode())
        write_whole(folder.path / "pairs.csv", pairs_csv(found).encode())
        report = page(found, check(found), drawn, [*notes, *asides, *remarks(found)], folder.history())
        write_whole(folder.path / REPORT, report.encode())
        if drawn:
            (folder.path / FIGURES_FOLDER).mkdir(exist_ok=True)
        for chart in drawn:
            write_whole(folder.path / FIGURES_FOLDER / f"{chart.name}.svg", chart.svg)
            write_whole(folder.path / FIGURES_FOLDER / f"{chart.name}.png", chart.png)
    return found, notes


def _charts(found: Comparison, folder: ResultsFolder, asides: list[str]) -> tuple[list[Chart], list[str]]:
    """The charts, and notes; `asides` gets those that matter only to readers of the report."""
    rows = [row for row in found.rows if row.runs]
    if not rows:
        return [], []
    try:
        style.require()
    except UsageError as error:
        return [], [f"{error.message}: {error.hint}"]
    notes: list[str] = []
    drawn = list(_comparisons(found, rows[:BARS_MAX]))
    if len(rows) > BARS_MAX:
        notes.append(f"charts compare the first {BARS_MAX} of {len(rows)} settings")
    length_s = max(_length_s(row) for row in rows)
    drawn += _over_time(found, rows[:COURSES_MAX], length_s)
    if len(rows) > COURSES_MAX:
        notes.append(f"curves show the first {COURSES_MAX} of {len(rows)} settings")
    drawn += _gantts(rows[:GANTTS_MAX], folder, length_s, asides)
    if len(rows) > GANTTS_MAX:
        notes.append(f"Gantt charts show the first {GANTTS_MAX} of {len(rows)} settings")
    drawn += _sizes(rows[:GANTTS_MAX], folder, length_s)
    drawn += _starts(found)
    return drawn, notes


# -- metrics -----------------------------------------------------------------------------------------------------------


def _comparisons(found: Comparison, rows: Sequence[Row]) -> Iterator[Chart]:
    if len(rows) < 2:
        return
    base = found.study.page.baseline
    bars = [_bar(found, row) for row in rows]
    for name in found.study.shown:
        values = [row.figures.get(name) for row in rows]
        if any(each is not None and each.mean for each in values):
            own = [
                bar._replace(own=row.figures.get(name), ratio=row.ratios.get(name)) for bar, row in zip(bars, rows, strict=True)
            ]
            yield charts.comparison(own, name, against=in_words(base, rows[0].labels) if base else "")


def _bar(found: Comparison, row: Row) -> Bar:
    *outer, last = row.settings.items() or [("", "")]
    return Bar(readable(last[1]), label(dict(outer), row.labels), None, None, _is_base(found, row))


def _is_base(found: Comparison, row: Row) -> bool:
    base = found.study.page.baseline
    return bool(base) and found.base(row, base) is row


# -- over time ---------------------------------------------------------------------------------------------------------

_IN_USE, _WAITING, _STARTS, _POWER = "in use (%)", "jobs waiting", "starts per second", "drawn (kW)"


def _over_time(found: Comparison, rows: Sequence[Row], length_s: float) -> Iterator[Chart]:
    courses = {id(row): _course(row) for row in rows}
    shown = []
    for row in rows:
        base = found.base(row, found.study.page.baseline) if found.study.page.baseline else None
        other = courses.get(id(base)) if base is not row else None
        shown.append(courses[id(row)]._replace(base=other))
    supplies = {name: None for course in shown for name in course.limits if name != _POWER}
    quantities = [Quantity(_IN_USE), Quantity(_WAITING, is_whole=True), *map(Quantity, supplies)]
    if any(_POWER in course.values for course in shown):
        quantities.append(Quantity(_POWER))
    seen = [course.values[_IN_USE].max(initial=0) > 100 * VISIBLE for course in shown]
    if not all(seen):  # jobs of zero length
        quantities[: not any(seen)] = [Quantity(_STARTS, is_log=True)]
    for course in shown:
        for each in quantities:
            course.values.setdefault(each.title, np.zeros(len(course.times) - 1))
    yield from charts.over_time(shown, quantities, length_s)


def _course(row: Row) -> Course:
    _, document = row.runs[0]
    over, units = document["over_time"], max(document["machine"]["units"], 1)
    values = {
        _IN_USE: _coarser(over["used"]) / units * 100,
        _WAITING: _coarser(over["waiting"]),
        _STARTS: _coarser(over.get("starts_per_s", [0.0] * len(over["used"]))),
    }
    limits: dict[str, Floats] = {}
    for supply in over.get("supplies", ()):
        factor, unit = (1000.0, "kW") if supply["unit"] == "W" and supply["capacity"] >= 2000 else (1.0, supply["unit"])
        title = f"{supply['name']} ({unit or 'units'})"
        values[title] = _coarser(supply["used"]) / factor
        limits[title] = np.full(len(values[title]), supply["capacity"] / factor)
    if (power := over.get("power_w")) is not None:
        values[_POWER] = _coarser(power) / 1000
    if (cap := over.get("power_cap_w")) is not None:
        limits[_POWER] = _coarser([math.nan if watts is None else watts for watts in cap]) / 1000
    count = len(values[_IN_USE])
    step_s = over["part_s"] * len(over["used"]) / max(count, 1)
    return Course(row.label or document["workload"]["name"], np.arange(count + 1) * step_s, values, limits)


def _coarser(given: Sequence[float]) -> Floats:
    """Means of adjacent values: with every peak in it, a curve is hard to follow."""
    values = np.array(given, float)
    step = max(len(values) // CURVE_POINTS, 1)
    found: Floats = values[: len(values) // step * step].reshape(-1, step).mean(1)
    return found


def _length_s(row: Row) -> float:
    over = row.runs[0][1]["over_time"]
    return float(over["part_s"] * len(over["used"]))


# -- allocation over time ----------------------------------------------------------------------------------------------


def _gantts(rows: Sequence[Row], folder: ResultsFolder, length_s: float, asides: list[str]) -> Iterator[Chart]:
    empty = changed = 0
    for row in rows:
        run, document = row.runs[0]
        if _have_changed(folder, run):
            changed += 1
            continue
        given, machine = rectangles(folder.runs / run.key / JOBS), document["machine"]
        if _is_visible(given, machine["units"] * length_s):
            span = Span(document["over_time"]["begin_s"], length_s)
            hosts = [(at, name) for at, name in machine.get("hosts", ())]
            units = Units(machine["units"], machine["unit"], hosts, machine.get("host_count", 0))
            closed = blocked(document.get("blocked", ()))
            title = row.label or document["workload"]["name"]
            yield gantt(given, f"gantt-{run.key}", title, span=span, units=units, closed=closed)
        else:
            empty += 1
    if empty:
        what = (
            "1 Gantt chart would be empty and is left out"
            if empty == 1
            else f"{empty} Gantt charts would be empty and are left out"
        )
        asides.append(f"{what}: the jobs are too short to be seen, or their units have no numbers.")
    if changed:
        what = "1 Gantt chart is" if changed == 1 else f"{changed} Gantt charts are"
        asides.append(f"{what} left out: jobs changed their size, and which units they had with each is not recorded.")


def _have_changed(folder: ResultsFolder, run: Run) -> bool:
    path = folder.runs / run.key / SIZES
    return path.exists() and bool(job_charts.size_parts(path))


# -- single jobs -------------------------------------------------------------------------------------------------------


def _sizes(rows: Sequence[Row], folder: ResultsFolder, length_s: float) -> Iterator[Chart]:
    for row in rows:
        run, document = row.runs[0]
        path = folder.runs / run.key / SIZES
        if path.exists() and (jobs := job_charts.size_parts(path)):
            span = Span(document["over_time"]["begin_s"], length_s)
            yield job_charts.sizes(jobs, f"sizes-{run.key}", row.label or document["workload"]["name"], span=span)


def _starts(found: Comparison) -> Iterator[Chart]:
    both = [(pair.row, pair.starts) for pair in real.pairs(found) if pair.starts is not None and pair.starts.real_s]
    longest_s = job_charts.longest_s(starts for _, starts in both)
    for row, starts in both[:COURSES_MAX]:
        run, document = row.runs[0]
        title = row.label or document["workload"]["name"]
        yield job_charts.starts(starts, f"starts-{run.key}", title, longest_s=longest_s)


def _is_visible(given: Rectangles, area: float) -> bool:
    return bool(len(given)) and area > 0 and given.area() / area >= VISIBLE


__all__ = ["REPORT", "write"]
