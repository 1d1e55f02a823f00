"""The report of a study as one self-contained HTML page, without scripts, for light and dark screens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from string import Template
from typing import Any, Final

import msgspec

from fluxres.documents.document import plural
from fluxres.experiments import real
from fluxres.experiments.charts import spread
from fluxres.experiments.comparison import (
    USE,
    Checked,
    Comparison,
    Estimate,
    Row,
    alike,
    between,
    left_reasons,
    repeats_needed,
    sets_of,
    warnings,
)
from fluxres.experiments.figures import FIGURES, Scale, columns, counted, number, scale, title
from fluxres.experiments.study import StudyDocument, default_of, label, readable, value_text
from fluxres.experiments.style import Chart, schemes
from fluxres.instance.accounting import Accounting

REPORT: Final = "report.html"


def page(
    found: Comparison,
    checked: Sequence[Checked],
    drawn: Sequence[Chart],
    notes: Sequence[str],
    history: Sequence[Mapping[str, str]] = (),
) -> str:
    """The report as HTML.

    Args:
        history: when, by which version and by which command runs were made.
    """
    study = found.study
    failed = {key: error for row in found.rows for key, error in row.errors.items()}
    compared = [chart for chart in drawn if chart.name.startswith("comparison")]
    over_time = [chart for chart in drawn if chart.name == "over-time"]
    gantts = [chart for chart in drawn if chart.name.startswith("gantt")]
    starts = [chart for chart in drawn if chart.name.startswith("starts")]
    sizes = [chart for chart in drawn if chart.name.startswith("sizes")]
    guards, theirs = ([*alike(each for each in checked if each.is_guard is which)] for which in (True, False))
    body = [
        _section("Comparison", _warning(found) + _comparison(found) + _images(compared)),
        _section("Jobs", _jobs(found), _JOBS),
        _section("Pairs of settings", _pairs(found), _PAIRS),
        _section("Published values", _expected(theirs), _PUBLISHED),
        _section("Guards of these results", _expected(guards), _GUARDS),
        _section("Simulated and real", _real(found) + _captioned(starts), _REAL),
        _section("Over time", _images(over_time), _OVER_TIME),
        _section("Allocation over time", _captioned(gantts), _GANTTS),
        _section("Sizes over time", _captioned(sizes), _SIZES),
        _section("Scheduler levels", _levels(found)),
        _section("Measured costs", _fits(found), _MEASURED),
        _section("Cost models", _cost_models(found), _MODELS),
        _section("Classes of jobs", _classes(found), _CLASSES),
        _section("Failed runs", _failures(failed)),
        _section("All metrics", _all(found)),
        _section("Notes", "".join(f"<p>{escape(note)}</p>" for note in notes)),
        _section("How these results were made", _provenance(found, history)),
    ]
    return _PAGE.substitute(
        title=escape(study.page.title or study.page.name),
        name=escape(study.page.name),
        about=escape(" ".join(_about(found, len(failed)))),
        body="".join(body),
        schemes=schemes(),
    )


_GUARDS: Final = (
    "<p>Guards report unintended changes of this study's own results. They say nothing about other systems or publications.</p>"
)
_PUBLISHED: Final = (
    "<p>Results beside values that others have published. Agreement is claimed only where the study gives bounds for it.</p>"
)
_JOBS: Final = "<p>First run of each setting: the jobs of the workload, how many of them ran, and why others did not.</p>"
_PAIRS: Final = (
    "<p>Ratio of the setting of the row to that of the column, between runs with the same seed: the arithmetic mean; bold if"
    " neither its 95 % confidence interval nor that of the inverse contains 1 (the mean of ratios is not the inverse of the mean"
    " of their inverses). The intervals are not corrected for the number of pairs: of 20 that do not differ, about one is bold."
    " pairs.csv has all metrics.</p>"
)
_REAL: Final = (
    "<p>The same instances and jobs as processes on the computer of this study, beside the simulation: from the start of the"
    " first instance to the end of the last job. A simulation has the costs that the page gives it, and a core for each"
    " instance. Jobs are equal, so that the first start is compared with the first one, and so on; starts.csv of each run has"
    " both.</p>"
)
_CLASSES: Final = (
    "<p>Means over the runs of a setting. Sizes are in units of the machine; run times are actual ones, not limits."
    " classes.csv of each run also has users.</p>"
)
_MEASURED: Final = (
    "<p>Processor time of decisions, and the sum of terms that fits it best, for each run. The residual is the root of the mean"
    " square of what the fit does not say. Quantities that are not identified did not vary, or only together: such a fit refuses"
    " other topologies. Measure with calibrate: true for one that describes them.</p>"
)
_MODELS: Final = (
    "<p>Costs of decisions of other schedulers, with the sources of their constants, and how far they are from what was measured"
    " or published there.</p>"
)
_OVER_TIME: Final = (
    "<p>First run of each setting. Time starts with the first submission; all settings have the same axes. Dotted"
    " lines, if there are any, are limits.</p>"
)
_SIZES: Final = (
    "<p>First run of each setting: the jobs that changed their size, one below the other in the order of their starts, and how"
    " many units each had, on the time axis of the other charts. sizes.csv of each run has the numbers.</p>"
)
_GANTTS: Final = (
    "<p>First run of each setting, on one time axis. Without a legend, colours only distinguish neighbouring jobs; of very many"
    " jobs, the shade shows how much of each point is in use.</p>"
)


def _about(found: Comparison, failed: int) -> list[str]:
    study = found.study
    done = sum(len(row.runs) for row in found.rows)
    repeats = f", {study.page.repeats} of each of {plural(len(found.rows), 'setting')}" if study.page.repeats > 1 else ""
    made = f"{done} of {plural(len(study.runs), 'run')}{repeats}."
    sentences = [made if study.page.stop is None else _stopped(found, done)]
    sentences += [f"{failed} failed."] * bool(failed)
    return sentences + [f"{len(found.missing)} have not been made yet."] * bool(found.missing)


def _stopped(found: Comparison, done: int) -> str:
    """Runs and repeats of a study with a stopping rule."""
    page, needed, settings = found.study.page, repeats_needed(found), len(found.rows)
    assert page.stop is not None  # the caller has checked that
    what = FIGURES[page.stop.metric].title + " relative to the baseline" * bool(page.stop.against)
    return (
        f"{done} of {plural(needed * settings, 'run')}, {needed} of each of {plural(settings, 'setting')}: repeated until the"
        f" 95 % confidence intervals of the {what} were within {page.stop.within:.0%} of it, at most {page.repeats} times."
    )


def _section(heading: str, content: str, about: str = "") -> str:
    """A section with a sentence above its content; nothing without any."""
    return f"<section><h2>{escape(heading)}</h2>{about}{content}</section>\n" if content else ""


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(name: str, headings: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table whose first `words` columns are text; cells are HTML already.  A wide one scrolls, with a shadow at the cut.

    Columns without any value are left out, and so is a table of which only names would remain.
    """
    kept = [at for at in range(len(headings)) if at < words or any(row[at] not in _NO_VALUE for row in rows)]
    if not rows or len(kept) == words < len(headings):
        return ""
    headings, rows = [headings[at] for at in kept], [[row[at] for at in kept] for row in rows]
    head = "".join(f"<th scope=col{'' if at < words else ' class=n'}>{escape(text)}</th>" for at, text in enumerate(headings))
    lines = "".join(
        "<tr>"
        + "".join(f"<td{_class(cell) if at < words else ' class=n'}>{cell}</td>" for at, cell in enumerate(row))
        + "</tr>\n"
        for row in rows
    )
    region = f'<div class=wide tabindex=0 role=region aria-label="{escape(name)}">'
    return f"{region}<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


_NO_VALUE: Final = ("", "-")
_LINE: Final = 40
"""The length from which on a text in a table is folded."""


def _class(cell: str) -> str:
    return " class=long" if len(cell) > _LINE else ""


def _settings(found: Comparison) -> list[str]:
    return [heading.replace("_", " ") for heading in found.study.headings] or ["study"]


def _names(found: Comparison, row: Row) -> list[str]:
    return [escape(readable(value)) for value in row.settings.values()] or [escape(found.study.page.name)]


def _scales(found: Comparison, names: Sequence[str]) -> dict[str, Scale]:
    return {name: scale(name, [own.mean for row in found.rows if (own := row.figures.get(name))]) for name in names}


def _comparison(found: Comparison) -> str:
    study = found.study
    names, base = study.shown, study.page.baseline
    scales = _scales(found, names)
    headings = _settings(found)
    words = len(headings)
    sets, use = sets_of(found), [name for name in USE if name not in names]
    headings += [title(name, Scale(1.0, FIGURES[name].unit)) for name in sets]
    if has_common := any(row.common for row in found.rows):
        headings.append("jobs compared (number)")
    for name in names:
        headings += [title(name, scales[name]), *(["ratio to baseline"] * bool(base))]
    headings += [title(name, Scale(1.0, FIGURES[name].unit)) for name in use]
    rows = []
    for row in found.rows:
        cells = _names(found, row)
        cells += [_cell(row.figures.get(name), Scale(1.0, "")) for name in sets]
        if has_common:
            cells.append(number(sum(row.common.values()) / len(row.common)) if row.common else "all")
        for name in names:
            cells.append(_cell(row.figures.get(name), scales[name]))
            cells += [_cell(row.ratios.get(name), Scale(1.0, ""))] * bool(base)
        cells += [_cell(row.figures.get(name), Scale(1.0, "")) for name in use]
        rows.append(cells)
    legend = []
    if study.page.repeats > 1:
        legend.append("Means of the runs of a setting, with 95 % confidence intervals (Student's t).")
    if any(own and own.method not in ("", "t") for row in found.rows for own in (*row.figures.values(), *row.ratios.values())):
        legend.append("In brackets where Student's would reach below 0: of the mean of a log-normal distribution, or cut at 0.")
    if (trim := study.page.trim) and (trim.warm_up or trim.drain):
        legend.append(f"Without the first {trim.warm_up:.0%} and the last {trim.drain:.0%} of the jobs, by submission.")
    if base:
        legend.append(f"Ratios are to {label(base, study.page.labels)}, between runs with the same seed: arithmetic means.")
    compared = _table("Comparison", headings, rows, words)
    return compared and compared + f"<p class=small>{escape(' '.join(legend))}</p>" * bool(legend)


def _jobs(found: Comparison) -> str:
    """What became of the jobs of a workload; one row if that is the same for all settings."""
    firsts = [(row.label, row.runs[0][1]) for row in found.rows if row.runs]
    rows = [[escape(label), *_jobs_of(document)] for label, document in firsts]
    if len(rows) > 1 and all(row[1:] == rows[0][1:] for row in rows):
        rows = [["all", *rows[0][1:]]]
    headings = ["setting", "workload", "did not run because", "in the workload (jobs)", *(f"{each} (jobs)" for each in _FATES)]
    return _table("Jobs", headings, rows, 3)


def _jobs_of(document: Mapping[str, Any]) -> Iterator[str]:
    metrics, workload, refused = document["metrics"], document["workload"], document["refused"]["reasons"]
    ran, unread = metrics["jobs"] or 0, sum(workload["left_out"].values())
    canceled = sum(document["results"].values()) - ran
    fates = (ran, canceled, metrics["refused"] or 0, metrics["left"] or 0, unread)
    yield escape(workload["name"])
    reasons = Counter(refused) + Counter(left_reasons(document)) + Counter(workload["left_out"])
    yield escape("; ".join(f"{reason} ({number(count)})" for reason, count in reasons.most_common(REASONS_SHOWN_MAX)))
    yield number(sum(fates))
    yield from (number(each) if each or not at else "" for at, each in enumerate(fates))


_FATES: Final = ("ran", "canceled before they started", "refused", "never started", "not readable")
REASONS_SHOWN_MAX: Final = 3
"""The number of reasons for which jobs did not run that a row of the report names, the most frequent ones."""


def _warning(found: Comparison) -> str:
    """Settings that ran different jobs are not comparable without further ado."""
    return "".join(f"<p class=bad><b>Warning:</b> {escape(text)}</p>" for text in warnings(found))


def _cell(given: Estimate | None, own: Scale) -> str:
    mean, *rest = escape(spread(given, own)).split(" ", 1)
    return f"{mean} <small>{rest[0]}</small>" if rest else mean


def _pairs(found: Comparison) -> str:
    """A table of each with each for every metric that is shown first; empty if there is nothing more than the baseline says."""
    rows = [row for row in found.rows if row.runs]
    if not 3 <= len(rows) <= PAIRS_SHOWN_MAX or found.study.page.repeats < 2:
        return ""
    tables = []
    for name in found.study.shown:
        cells = [[escape(row.label), *(_pair(found, row, other, name) for other in rows)] for row in rows]
        tables.append(_table(FIGURES[name].title, [FIGURES[name].title, *(row.label for row in rows)], cells, 1))
    return "".join(tables)


PAIRS_SHOWN_MAX: Final = 12
"""The number of settings up to which a table of each with each is readable."""


def _pair(found: Comparison, row: Row, other: Row, name: str) -> str:
    if row is other:
        return ""
    own, inverse = found.paired(row, other).ratio(name), found.paired(other, row).ratio(name)
    text = _cell(own, Scale(1.0, ""))
    return f"<b>{text}</b>" if _is_apart(own) and _is_apart(inverse) else text


def _is_apart(of: Estimate | None) -> bool:
    """Whether a ratio has an interval that does not contain 1."""
    return of is not None and of.low is not None and of.high is not None and not of.low <= 1.0 <= of.high


def _classes(found: Comparison) -> str:
    """Waits and slowdowns by size and by run time; empty if all jobs are alike."""
    return "".join(_classes_by(found, kind) for kind in ("size", "run time"))


def _classes_by(found: Comparison, kind: str) -> str:
    by_row = [
        (row, [each for _, one in row.runs for each in one.get("classes", ()) if each["kind"] == kind]) for row in found.rows
    ]
    names = list(dict.fromkeys(each["class"] for _, classes in by_row for each in classes))
    if len(names) < 2:
        return ""
    of_class = [
        (row.label, name, own)
        for row, classes in by_row
        for name in names
        if (own := [each for each in classes if each["class"] == name])
    ]
    means = [{key: sum(each[key] for each in own) / len(own) for key in _OF_CLASS} for _, _, own in of_class]
    scales = {key: scale(key, [each[key] for each in means]) for key in _OF_CLASS}
    cells = [
        [escape(label), escape(name), *(scales[key].text(each[key]) for key in _OF_CLASS)]
        for (label, name, _), each in zip(of_class, means, strict=True)
    ]
    headings = ["setting", kind, *(title(key, scales[key]) for key in _OF_CLASS)]
    return _table(f"Classes by {kind}", headings, cells, 2)


_OF_CLASS: Final = ("jobs", "mean_wait_s", "p90_wait_s", "mean_bounded_slowdown")


def _expected(checked: Sequence[Checked]) -> str:
    rows = []
    is_guard = all(each.is_guard for each in checked)
    has_bounds = any(each.bounds is not None for each in checked)
    for each in checked:
        name = each.expected.metric
        own = Scale(1.0, "") if each.against else scale(name, each.bounds or [each.expected.published])
        what = f"{FIGURES[name].title}, ratio to {each.against}" if each.against else title(name, own)
        style = "" if each.bounds is None else " class=good" if each.holds else " class=bad"
        cells = [f"<b{style}>{escape(each.verdict.lower())}</b>", escape(each.label), escape(what), own.text(each.value)]
        cells += [own.text(each.expected.published)] * (not is_guard)
        cells += [between(*each.bounds, own.text) if each.bounds is not None else "-"] * has_bounds
        cells.append(escape(each.expected.source))
        rows.append(cells)
    headings = ["result", "setting", "metric (unit)", "value"]
    headings += ["guarded"] if is_guard else ["published", *["accepted"] * has_bounds]
    headings.append("reason" if is_guard else "source")
    width = len(headings) if any(row[-1] for row in rows) else len(headings) - 1
    return _table(headings[0], headings[:width], [row[:width] for row in rows], width)


def _levels(found: Comparison) -> str:
    """Schedulers by level; empty if each setting has a single one whose decisions take no time."""
    levels = [(row, level) for row in found.rows for level in (row.runs[0][1]["levels"] if row.runs else ())]
    takes_time = any(level["busy_s"] for _, level in levels)
    if not takes_time and all(level["instances"] == 1 for _, level in levels):
        return ""
    rows = []
    for row, level in levels:
        own = [escape(row.label), str(level["level"]), escape(level["queue_policy"]), escape(level["match_policy"])]
        own += [number(level[name]) for name in ("instances", "jobs", *(("decisions", "busy_s") if takes_time else ()))]
        share = level["busiest_share"]
        rows.append([*own, *[number(None if share is None else share * 100)] * takes_time])
    headings = ["setting", "level", "queue policy", "match policy", "instances (number)", "jobs (number)"]
    headings += ["decisions (number)", "busy (s)", "busiest (%)"] * takes_time
    about = "Busy: time of the processors of schedulers, by the cost model. Busiest: the largest fraction of the makespan that"
    about = f" {about} any one of them was busy." if takes_time else " Decisions take no time in this study."
    compared = _table("Scheduler levels", headings, rows, 4)
    return compared and f"<p>First run of each setting.{about}</p>" + compared + _spent(levels)


def _spent(levels: Sequence[tuple[Row, Mapping[str, Any]]]) -> str:
    """Where the time of each level went; empty if only decisions take time, and boots none."""
    if not any(level.get("spent", {}).get(name) for _, level in levels for name in _SPENT if name != "decide_s"):
        return ""
    rows = []
    for row, level in levels:
        times = [level["spent"][name] / max(level["instances"], 1) for name in _SPENT]
        rows.append([escape(row.label), str(level["level"]), *map(number, times)])
    about = (
        "<p>Mean of the instances of a level. Their processors: ingest of jobs, decisions, starts, ends of jobs, and the boot of"
    )
    about += " children. Launch slots: the sum of the waits of all that an instance started. Own boot: from the start of its job"
    about += " until it began.</p>"
    return about + _table("Where the time went", ["setting", "level", *_SPENT.values()], rows, 2)


_SPENT: Final = {
    "ingest_s": "ingest (s)",
    "decide_s": "decisions (s)",
    "start_s": "starts (s)",
    "event_s": "ends (s)",
    "spawn_s": "children (s)",
    "slot_wait_s": "waits for launch slots (s)",
    "boot_s": "own boot (s)",
}


def _fits(found: Comparison) -> str:
    """The fits of measured costs with their residuals; empty if no cost was measured."""
    rows = []
    for row in found.rows:
        for run, document in row.runs:
            if (fit := document.get("fit")) is not None:
                cells = [number(fit["decisions"]), *(number(fit[name] * 1000) for name in ("mean_s", "residual_s"))]
                cost = escape(document["fitted_cost"])
                unknown = escape(", ".join(fit.get("not_identified", [])))
                rows.append([escape(row.label), str(run.repeat + 1), cost, unknown, *cells, number(fit["explained"] * 100)])
    headings = ["setting", "run (number)", "fit (s)", "not identified", *_OF_FIT]
    return _table("Measured costs", headings, rows, 4)


_OF_FIT: Final = ("decisions (number)", "mean (ms)", "residual (ms)", "explained (%)")


def _cost_models(found: Comparison) -> str:
    """The named cost models with their sources and residuals; empty if none is used."""
    rows: dict[str, list[str]] = {}
    for document in (document for row in found.rows for _, document in row.runs):
        for model in document.get("cost_models", []):
            rows[model["name"]] = [escape(model[name]) for name in ("name", "source", "valid", "residuals")]
    headings = ["model", "source of its constants", "valid for", "residuals"]
    return _table("Cost models", headings, list(rows.values()), 4)


def _all(found: Comparison) -> str:
    names = columns(found.study.shown)
    scales = _scales(found, names)
    rows = [[*_names(found, row), *(_cell(row.figures.get(name), scales[name]) for name in names)] for row in found.rows]
    return _table("All metrics", [*_settings(found), *(title(name, scales[name]) for name in names)], rows, len(_settings(found)))


def _real(found: Comparison) -> str:
    """A table of the settings that were run in processes as well; empty if none were."""
    made = real.pairs(found)
    if not made:
        return ""
    headings = [
        *_settings(found),
        "jobs completed (number)",
        "simulated (s)",
        "real (s)",
        "of which boot (s)",
        "real / simulated (×)",
        "starts later, mean (s)",
        "starts later, most (s)",
        "processors (number)",
        "load (number)",
    ]
    rows = [
        [
            *_names(found, each.row),
            f"{each.real.completed:,}",
            number(each.simulated_s),
            number(each.real.makespan_s),
            number(each.boot_s),
            number(each.ratio),
            *_later(each.starts),
            str(each.real.processors),
            number(each.real.load),
        ]
        for each in made
    ]
    return _table("Simulated and real", headings, rows, len(_settings(found)))


def _later(starts: real.Starts | None) -> tuple[str, str]:
    """By how much jobs started later in reality: on average, and at most."""
    later = [] if starts is None else starts.later_s
    return (number(sum(later) / len(later)), number(max(later))) if later else ("-", "-")


def _failures(failed: dict[str, str]) -> str:
    return _table("Failed runs", ["run", "error"], [[escape(key), escape(error)] for key, error in failed.items()], 2)


# -- how they were made ------------------------------------------------------------------------------------------------


def _provenance(found: Comparison, history: Sequence[Mapping[str, str]]) -> str:
    study = found.study
    given = study.page
    documents = [document for row in found.rows for _, document in row.runs]
    machines = dict.fromkeys(_machine(given.machine, document["machine"]) for document in documents)
    versions = dict.fromkeys(str(document["fluxres"]) for document in documents)
    seeds = f"{given.seed}" + (f" to {given.seed + given.repeats - 1}" if given.repeats > 1 else "")
    rows = [
        ("machine", "; ".join(machines)),
        ("workload", _entry(found, "workload", given.workload)),
        ("schedulers", _entry(found, "hierarchy", given.hierarchy)),
        ("cost of a decision", _entry(found, "cost", given.cost)),
        *_conditions(found),
        ("seeds", seeds),
        (
            "varied",
            "; ".join(f"{path}: {_listed(values)}" for path, values in study.varied.items()) or "nothing",
        ),
        *((f"workload {readable(each)}", _named(each)) for each in study.varied.get("workload", ())),
        *((f"case {name}", _case(values)) for name, values in given.cases.items()),
        ("fluxres", ", ".join(versions)),
    ]
    rows = [(key, _FOLDER.sub("", text)) for key, text in rows]
    rows += [("made", f"{each['begun']}: {each['command']}") for each in history]
    rows.append(
        (
            "files",
            "study.yaml is the study with all defaults; runs/ has each run; metrics.csv and comparison.csv have the tables.",
        )
    )
    cells = "".join(f"<tr><th scope=row>{escape(key)}</th><td>{escape(text)}</td></tr>\n" for key, text in rows)
    return f"<div class=wide tabindex=0 role=region aria-label=Provenance><table class=facts><tbody>{cells}</tbody></table></div>"


_FOLDER: Final = re.compile(r"(?<![^\s:,=;{\[])/(?:[^/:,=;]+/)*(?=[^/:,=;\s]+\.(?:py|ya?ml|json|xml|graphml|swf|csv)\b)")
"""The folder of a file, which the study has as an absolute path: it says something of the machine, and nothing of the results."""
_STATED: Final = frozenset(
    {"version", "name", "title", "machine", "workload", "hierarchy", "cost", "unit", "repeats", "seed"}
    | {"vary", "cases", "labels", "baseline", "metrics", "expect"}
)
"""The entries of a page that are named elsewhere in the report."""

_TITLES: Final = {"event_order": "order of events", "trim": "jobs left out", "stop": "repeated until"}


def _conditions(found: Comparison) -> Iterator[tuple[str, str]]:
    """What else a run depends on, where it is not the default, in the order of the page."""
    given = found.study.page
    for field in msgspec.structs.fields(StudyDocument):
        value = getattr(given, field.name)
        if field.name not in _STATED and value != default_of(field):
            name = _TITLES.get(field.name, field.name.replace("_", " "))
            yield name, _accounting(found, value) if field.name == "accounting" else _entry(found, field.name, value)
        elif field.name == "energy" and any(row.figures.get("energy_j") for row in found.rows) and not _varies(found, "energy"):
            yield "energy", "by the properties of the nodes"


def _varies(found: Comparison, path: str) -> bool:
    """Whether a part of the page is one of the settings, or belongs to a case."""
    names = [*found.study.varied, *(name for case in found.study.page.cases.values() for name in case)]
    return any(name == path or name.startswith(f"{path}.") for name in names)


def _accounting(found: Comparison, given: Accounting | str | None) -> str:
    if given is None or isinstance(given, str) or "accounting" in found.study.varied:
        return "" if given is None else _entry(found, "accounting", given)
    tables: dict[str, Mapping[str, object]] = {
        "partition": given.partitions,
        "QOS definition": given.qos,
        "account": given.accounts,
        "user": given.users,
    }
    return ", ".join(counted(len(of), name) for name, of in tables.items() if of) or "defaults"


def _machine(source: object, read: Mapping[str, Any]) -> str:
    name = source if isinstance(source, str) else read["name"]
    return f"{name}: {counted(read['units'], read['unit'])}"


def _entry(found: Comparison, path: str, given: object) -> str:
    """A part of the page in one line, without what varies and without defaults that go without saying."""
    varied = {name.removeprefix(f"{path}.") for name in found.study.varied if name == path or name.startswith(f"{path}.")}
    if path in varied:
        return "varied"
    if isinstance(given, list):
        return "; ".join(f"level {level}: {_entry(found, f'{path}.{level}', each)}" for level, each in enumerate(given))
    if not isinstance(given, msgspec.Struct):
        return str(given)
    return ", ".join(f"{key}: {_flat(value)}" for key, value in _said(given).items() if key not in varied) or "defaults"


def _listed(values: Sequence[object]) -> str:
    """Values with commas between them, or slashes where one has commas itself."""
    words = [readable(value) for value in values]
    return (" / " if any("," in word and not word.replace(",", "").isdecimal() for word in words) else ", ").join(words)


def _named(given: object) -> str:
    """One of several workloads, which tables call by its name."""
    entries = _said(given) if isinstance(given, msgspec.Struct) else given
    if not isinstance(entries, Mapping):
        return _flat(entries)
    return ", ".join(f"{key}: {_flat(value)}" for key, value in entries.items() if key != "name")


def _case(values: Mapping[str, object]) -> str:
    return ", ".join(f"{path}: {_flat(value)}" for path, value in values.items()) or "as the page says"


_UNSAID: Final[tuple[Any, ...]] = (None, {}, [], False, 0.0, 1.0)
_UNSAID_FIELDS: Final = ("processors", "estimates_for")
"""Of which the default goes without saying: they are of traces and of estimates, which have said so."""


def _said(given: msgspec.Struct) -> dict[str, Any]:
    found = {field.encode_name: (getattr(given, field.name), default_of(field)) for field in msgspec.structs.fields(given)}
    return {
        key: value
        for key, (value, default) in found.items()
        if value != default or not (_is_unsaid(value) or key in _UNSAID_FIELDS)
    }


def _is_unsaid(value: object) -> bool:
    """Whether a value goes without saying where it is the default."""
    return isinstance(value, msgspec.Struct) or value in _UNSAID


def _flat(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        value = _said(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flat(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list) and any(isinstance(each, msgspec.Struct | dict) for each in value):
        return "[" + ", ".join(map(_flat, value)) + "]"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "null" if value is None else value if isinstance(value, str) else value_text(value)


# -- pictures ----------------------------------------------------------------------------------------------------------


def _images(drawn: Sequence[Chart]) -> str:
    return "".join(f"<figure>{chart.inline}</figure>\n" for chart in drawn)


def _captioned(drawn: Sequence[Chart]) -> str:
    return "".join(f"<figure><figcaption>{escape(chart.title)}</figcaption>{chart.inline}</figure>\n" for chart in drawn)


_PAGE: Final = Template("""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$schemes
:root { --page: #f4f6f8; --shade: rgba(31,41,51,.28); --good: #00694d; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --page: #12171c; --shade: rgba(0,0,0,.75); --good: #5fd0ab; --bad: #ff9a8d } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0 }
main { max-width: 1100px; margin: 0 auto; padding: 24px 20px 60px }
h1 { font-size: 26px; line-height: 1.25; margin: 8px 0 4px }
h2 { font-size: 18px; margin: 0 0 10px }
section { background: var(--paper); border: 1px solid var(--grid); border-radius: 6px; padding: 18px 20px; margin: 18px 0 }
p { margin: 6px 0 } .small, small { color: var(--muted); font-size: 12px }
.wide { overflow-x: auto; padding-bottom: 4px; scrollbar-color: var(--muted) var(--grid);
  background: linear-gradient(90deg, var(--paper) 40%, transparent) 0 0 / 48px 100% no-repeat local,
    linear-gradient(270deg, var(--paper) 40%, transparent) 100% 0 / 48px 100% no-repeat local,
    linear-gradient(90deg, var(--shade), transparent) 0 0 / 10px 100% no-repeat scroll,
    linear-gradient(270deg, var(--shade), transparent) 100% 0 / 10px 100% no-repeat scroll }
.wide::-webkit-scrollbar { height: 10px } .wide::-webkit-scrollbar-track { background: var(--grid); border-radius: 5px }
.wide::-webkit-scrollbar-thumb { background: var(--muted); border-radius: 5px }
table { border-collapse: collapse; font-size: 13px; min-width: 50% }
th, td { text-align: left; padding: 5px 18px 5px 0; border-bottom: 1px solid var(--grid); vertical-align: top }
td { white-space: nowrap } .long { white-space: normal; min-width: 180px }
th { color: var(--muted); font-weight: 600; vertical-align: bottom }
.facts td { white-space: normal } .facts th { white-space: nowrap; vertical-align: top }
.n { text-align: right; font-variant-numeric: tabular-nums }
.wide + .wide { margin-top: 16px }
figure { margin: 16px 0 0; overflow-x: auto } figure svg { width: 100%; min-width: 640px; height: auto; display: block }
figcaption { font-size: 13px; font-weight: 600; margin-bottom: 4px }
.good { color: var(--good) } .bad { color: var(--bad) }
</style></head><body><main>
<p class="small">fluxres experiment · $name</p>
<h1>$title</h1>
<p>$about</p>
$body</main></body></html>
""")
