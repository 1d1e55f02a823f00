"""The report of a study as one self-contained HTML page, without scripts, for light and dark screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from string import Template
from typing import Any, Final

import msgspec

from fluxres.documents.document import plural
from fluxres.experiments.charts import spread
from fluxres.experiments.comparison import Checked, Comparison, Estimate, Row, between
from fluxres.experiments.figures import FIGURES, Scale, columns, counted, number, scale, title
from fluxres.experiments.study import label, readable, value_text
from fluxres.experiments.style import Chart, schemes

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
    levels = _levels(found)
    body = [
        _section("Comparison", _warning(found) + _comparison(found) + _images(compared)),
        _section("Expected results", _expected(checked)) if checked else "",
        _section("Over time", _OVER_TIME + _images(over_time)) if over_time else "",
        _section("Allocation over time", _GANTTS + _captioned(gantts)) if gantts else "",
        _section("Scheduler levels", levels) if levels else "",
        _section("Failed runs", _failures(failed)) if failed else "",
        _section("All metrics", _all(found)),
        _section("Notes", "".join(f"<p>{escape(note)}</p>" for note in notes)) if notes else "",
        _section("How these results were made", _provenance(found, history)),
    ]
    return _PAGE.substitute(
        title=escape(study.page.title or study.page.name),
        name=escape(study.page.name),
        about=escape(" ".join(_about(found, len(failed)))),
        body="".join(body),
        schemes=schemes(),
    )


_OVER_TIME: Final = (
    "<p>First run of each setting. Time starts with the first submission; all settings have the same axes. Dotted"
    " lines, if there are any, are limits.</p>"
)
_GANTTS: Final = (
    "<p>First run of each setting, on one time axis. Without a legend, colours only distinguish neighbouring jobs; of very many"
    " jobs, the shade shows how much of each point is in use.</p>"
)


def _about(found: Comparison, failed: int) -> list[str]:
    study = found.study
    done = sum(len(row.runs) for row in found.rows)
    repeats = f", {study.page.repeats} of each of {plural(len(found.rows), 'setting')}" if study.page.repeats > 1 else ""
    sentences = [f"{done} of {plural(len(study.runs), 'run')}{repeats}."]
    sentences += [f"{failed} failed."] * bool(failed)
    return sentences + [f"{len(found.missing)} have not been made yet."] * bool(found.missing)


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{content}</section>\n"


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(name: str, headings: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table whose first `words` columns are text; cells are HTML already.  A wide one scrolls, with a shadow at the cut."""
    head = "".join(f"<th scope=col{'' if at < words else ' class=n'}>{escape(text)}</th>" for at, text in enumerate(headings))
    lines = "".join(
        "<tr>" + "".join(f"<td{'' if at < words else ' class=n'}>{cell}</td>" for at, cell in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    region = f'<div class=wide tabindex=0 role=region aria-label="{escape(name)}">'
    return f"{region}<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


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
    for name in names:
        headings += [title(name, scales[name]), *(["ratio to baseline"] * bool(base))]
    rows = []
    for row in found.rows:
        cells = _names(found, row)
        for name in names:
            cells.append(_cell(row.figures.get(name), scales[name]))
            cells += [_cell(row.ratios.get(name), Scale(1.0, ""))] * bool(base)
        rows.append(cells)
    legend = []
    if study.page.repeats > 1:
        legend.append("Means of the runs of a setting, with 95 % confidence intervals (Student's t).")
    if base:
        legend.append(f"Ratios are to {label(base, study.page.labels)}, between runs with the same seed, then averaged.")
    return _table("Comparison", headings, rows, words) + f"<p class=small>{escape(' '.join(legend))}</p>" * bool(legend)


def _warning(found: Comparison) -> str:
    """Settings that refuse different numbers of jobs are not comparable."""
    refused = {row.label: own.mean for row in found.rows if (own := row.figures.get("refused"))}
    if len(set(refused.values())) < 2:
        return ""
    each = ", ".join(f"{number(count)} by {name}" for name, count in refused.items() if count)
    return f"<p class=bad><b>Settings ran different jobs.</b> Refused: {escape(each)}. The metrics cover the other jobs only.</p>"


def _cell(given: Estimate | None, own: Scale) -> str:
    text = escape(spread(given, own))
    mean, plus, half = text.partition(" ± ")
    return f"{mean} <small>± {half}</small>" if plus else text


def _expected(checked: Sequence[Checked]) -> str:
    rows = []
    for each in checked:
        name = each.expected.metric
        own = Scale(1.0, "") if each.against else scale(name, each.bounds)
        what = f"{FIGURES[name].title}, ratio to {each.against}" if each.against else title(name, own)
        mark = "<b class=good>pass</b>" if each.holds else "<b class=bad>fail</b>"
        value = [own.text(each.value), between(*each.bounds, own.text)]
        rows.append([mark, escape(each.label), escape(what), *value, escape(each.expected.source)])
    headings = ["result", "setting", "metric (unit)", "value", "expected", "reason"]
    width = 6 if any(row[-1] for row in rows) else 5
    return _table("Expected results", headings[:width], [row[:width] for row in rows], width)


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
    about = "Busy: time that schedulers spent on decisions, by the cost model. Busiest: the largest fraction of the makespan that"
    about = f" {about} any one of them spent deciding." if takes_time else " Decisions take no time in this study."
    return f"<p>First run of each setting.{about}</p>" + _table("Scheduler levels", headings, rows, 4)


def _all(found: Comparison) -> str:
    names = columns(found.study.shown)
    scales = _scales(found, names)
    rows = [[*_names(found, row), *(_cell(row.figures.get(name), scales[name]) for name in names)] for row in found.rows]
    return _table("All metrics", [*_settings(found), *(title(name, scales[name]) for name in names)], rows, len(_settings(found)))


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
        ("seeds", seeds),
        (
            "varied",
            "; ".join(f"{path}: {', '.join(map(readable, values))}" for path, values in study.varied.items()) or "nothing",
        ),
        ("fluxres", ", ".join(versions)),
    ]
    rows += [("made", f"{each['begun']}: {each['command']}") for each in history]
    rows.append(
        (
            "files",
            "study.yaml is the study with all defaults; runs/ has each run; metrics.csv and comparison.csv have the tables.",
        )
    )
    cells = "".join(f"<tr><th scope=row>{escape(key)}</th><td>{escape(text)}</td></tr>\n" for key, text in rows)
    return f"<div class=wide tabindex=0 role=region aria-label=Provenance><table class=facts><tbody>{cells}</tbody></table></div>"


def _machine(source: object, read: Mapping[str, Any]) -> str:
    name = source if isinstance(source, str) else read["name"]
    return f"{name}: {counted(read['units'], read['unit'])}"


def _entry(found: Comparison, path: str, given: object) -> str:
    """A part of the page in one line, without what varies and without defaults that go without saying."""
    varied = {name.removeprefix(f"{path}.") for name in found.study.varied if name == path or name.startswith(f"{path}.")}
    if path in varied:
        return "varied"
    if not isinstance(given, msgspec.Struct):
        return str(msgspec.to_builtins(given))
    return ", ".join(f"{key}: {_flat(value)}" for key, value in _said(given).items() if key not in varied)


_UNSAID: Final[tuple[Any, ...]] = (None, {}, [], False, 0.0, 1.0)


def _said(given: msgspec.Struct) -> dict[str, Any]:
    found = {field.encode_name: (getattr(given, field.name), field.default) for field in msgspec.structs.fields(given)}
    return {key: value for key, (value, default) in found.items() if value not in _UNSAID or value != default}


def _flat(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        return "{" + ", ".join(f"{key}: {_flat(each)}" for key, each in _said(value).items()) + "}"
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else value_text(value)


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
td { white-space: nowrap } th { color: var(--muted); font-weight: 600; vertical-align: bottom }
.facts td { white-space: normal } .facts th { white-space: nowrap; vertical-align: top }
.n { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 16px 0 0 } figure svg { width: 100%; height: auto; display: block }
figcaption { font-size: 13px; font-weight: 600; margin-bottom: 4px }
.good { color: var(--good) } .bad { color: var(--bad) }
</style></head><body><main>
<p class="small">fluxres experiment · $name</p>
<h1>$title</h1>
<p>$about</p>
$body</main></body></html>
""")
