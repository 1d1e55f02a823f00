"""Compare results: each setting with the mean of its repeats, its confidence interval, and its ratio to the baseline.

Confidence is by Student's t over repeats.  Where that interval would reach below 0, which no metric does, the values are taken as
log-normal.  Runs with the same seed see the same jobs, so ratios are computed per run and then averaged: variation between seeds
affects both runs and cancels.  If two runs did not run the same jobs, because one of them refused or left some, their ratios are
of the jobs that both ran.  The quantiles are tabulated here, because a dependency for one function of one variable is not worth
it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec

from fluxres.documents.document import listed, plural
from fluxres.experiments.execution import JOBS
from fluxres.experiments.figures import FIGURES, columns
from fluxres.experiments.figures import number as shown_number
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.job_table import JobTable, read_jobs
from fluxres.experiments.study import Expectation, Run, StopEntry, Study, TrimEntry, label, matches, value_text
from fluxres.simulation.adaptive import malleable
from fluxres.simulation.results.distribution import Trim

# -- means and their confidence ----------------------------------------------------------------------------------------

_T: Final = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z: Final = 1.959964


class Estimate(NamedTuple):
    """A mean with its confidence interval.

    Args:
        mean: of the values.
        low, high: 95 % confidence; None for a single value.
        number: of values.
    """

    mean: float
    low: float | None
    high: float | None
    number: int

    @property
    def method(self) -> str:
        """Of the interval: `t`, which is around the mean, `t, cut at 0`, or `log`; empty for a single value."""
        if self.low is None or self.high is None:
            return ""
        if math.isclose(self.low + self.high, 2 * self.mean, rel_tol=1e-9, abs_tol=1e-300):
            return "t"
        return "log" if self.low > 0.0 else "t, cut at 0"

    @property
    def half(self) -> float:
        """Half the confidence interval; 0 for a single value."""
        return 0.0 if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def is_spread(self) -> bool:
        """Whether the interval is wide enough to be shown."""
        return self.half > 5e-5 * abs(self.mean)


def student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t.

    Args:
        freedom: degrees of freedom, at least 1.

    Beyond 30, an expansion around the normal distribution (Abramowitz and Stegun 26.7.5), accurate to four digits.

    >>> student_t(4), round(student_t(60), 4)
    (2.7764, 2.0003)
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    z, n = _Z, freedom
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / n + second / n**2 + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and confidence interval; None for no values.

    The interval is by Student's t.  If it reaches below 0, and there are at least three values, all above 0, it is that of
    the mean of a log-normal distribution (Cox's method with Student's t: Olsson, Journal of Statistics Education 13:1, 2005),
    widened to contain the mean.  Otherwise it is cut at 0, unless there are values below 0.

    >>> tuple(estimate([4.0, 5.0, 6.0]))[:4] == (5.0, 5.0 - 4.3027 / 3**0.5, 5.0 + 4.3027 / 3**0.5, 3)
    True
    >>> [round(value, 3) for value in estimate([1.0, 2.0, 6.0])[:3]], estimate([1.0, 2.0, 6.0]).method
    ([3.0, 0.199, 59.518], 'log')
    >>> estimate([0.0, 0.0, 3.0])[1:], estimate([0.0, 0.0, 3.0]).method
    ((0.0, 5.3027, 3), 't, cut at 0')
    """
    number = len(values)
    if not number:
        return None
    mean = math.fsum(values) / number
    if number == 1:
        return Estimate(mean, None, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (number - 1))
    half = student_t(number - 1) * deviation / math.sqrt(number)
    if mean - half >= 0.0 or min(values) < 0.0:
        return Estimate(mean, mean - half, mean + half, number)
    if min(values) == 0.0 or number < 3:
        return Estimate(mean, 0.0, mean + half, number)
    return _log_normal(values, mean)


def _log_normal(values: Sequence[float], mean: float) -> Estimate:
    logs, number = [math.log(value) for value in values], len(values)
    middle = math.fsum(logs) / number
    variance = math.fsum((each - middle) ** 2 for each in logs) / (number - 1)
    half = student_t(number - 1) * math.sqrt(variance / number + variance**2 / (2 * (number - 1)))
    low, high = (math.exp(min(middle + variance / 2 + sign * half, _EXP_MAX)) for sign in (-1, 1))
    return Estimate(mean, min(low, mean), max(high, mean), number)


_EXP_MAX: Final = 700.0
"""Beyond this, the exponential is not a float."""


def ratio(values: Mapping[int, float], base: Mapping[int, float]) -> Estimate | None:
    """Mean of the ratios of paired values; None if there is no pair.

    Args:
        values, base: by repeat. Pairs with a base of 0 are left out.

    >>> ratio({0: 4.0, 1: 9.0, 2: 5.0}, {0: 2.0, 1: 3.0}).mean
    2.5
    """
    return estimate([value / base[repeat] for repeat, value in values.items() if base.get(repeat)])


# -- the comparison ----------------------------------------------------------------------------------------------------

_TOLERANCE: Final = 1e-9
_OWN: Final = ("mean", "low", "high", "ratio", "ratio_low", "ratio_high")
SETS: Final = ("refused", "left", "cut")
"""Metrics that count the jobs that did not run, or ran otherwise than submitted."""

USE: Final = ("units_used", "peak", "peak_jobs")
"""Metrics that say how much of the machine a setting used."""

USED_LEAST: Final = 0.9
"""Below this fraction of the machine, the report of a hierarchy says that it was not used."""


@dataclass
class Row:
    """One setting.

    Args:
        settings: the varied values.
        runs: the existing runs with their documents.
        errors: of failed runs, by key.
        figures: metrics by name.
        ratios: to the baseline; empty if there is none.
        common: by repeat, the number of jobs that ran here and in the baseline's run, if these are not all jobs of both.
    """

    settings: dict[str, Any]
    labels: dict[str, str]
    runs: list[tuple[Run, dict[str, Any]]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Estimate | None] = field(default_factory=dict)
    ratios: dict[str, Estimate | None] = field(default_factory=dict)
    common: dict[int, int] = field(default_factory=dict)

    @property
    def is_partial(self) -> bool:
        """Whether some jobs did not run, or not as submitted."""
        return any(document["metrics"].get(name) for _, document in self.runs for name in SETS)

    @property
    def label(self) -> str:
        """The setting in readable form."""
        return label(self.settings, self.labels) or "all"

    def values(self, name: str) -> dict[int, float]:
        """A metric by repeat."""
        found = {run.repeat: document["metrics"].get(name) for run, document in self.runs}
        return {repeat: value for repeat, value in found.items() if value is not None}


@dataclass(frozen=True)
class Checked:
    """One expectation compared with one setting.

    Args:
        label: of the setting.
        against: what it is divided by, in words; empty for nothing.
        value: the metric or the ratio; None if there is none.
        holds: whether it is within the bounds; True if there are none.
    """

    expected: Expectation
    label: str
    against: str
    value: float | None
    holds: bool

    @property
    def is_guard(self) -> bool:
        """Whether it guards the study's own result, and says nothing about what others have published."""
        return self.expected.published is None

    @property
    def verdict(self) -> str:
        """The outcome in words, which claim agreement only with what was published."""
        if self.is_guard:
            return "unchanged" if self.holds else "CHANGED"
        if self.bounds is None:
            return "beside what was published"
        return "agrees with what was published" if self.holds else "DIFFERS FROM WHAT WAS PUBLISHED"

    @property
    def text(self) -> str:
        """The expectation and the actual value."""
        what = f"{self.expected.metric} of {self.label}"
        if self.against:
            what += f" relative to {self.against}"
        got = "nothing" if self.value is None else f"{self.value:.6g}"
        said = [] if self.is_guard else [f"published {self.expected.published:g}"]
        if self.bounds is not None:
            said.append(f"{'guarded' if self.is_guard else 'accepted'} {between(*self.bounds, '{:g}'.format)}")
        source = f" ({self.expected.source})" if self.expected.source else ""
        return f"{what}: {got}, {', '.join(said)}{source}"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """What the metric or the ratio is expected to be, at least and at most; None if nothing is claimed."""
        expected = self.expected
        if (given := expected.ratio or expected.range) is not None:
            return given[0], given[1]
        if expected.published is None or expected.within is None:
            return None
        room = abs(expected.published) * expected.within
        return expected.published - room, expected.published + room

    def to_dict(self) -> dict[str, Any]:
        own = {"setting": self.label, "value": self.value, "holds": self.holds, "verdict": self.verdict.lower()}
        return {**msgspec.to_builtins(self.expected), **own}


def between(low: float, high: float, text: Callable[[float], str]) -> str:
    """An interval in words; of one value, that value.

    >>> between(0, 8, str), between(8, 8, str)
    ('0 to 8', '8')
    """
    return text(low) if low == high else f"{text(low)} to {text(high)}"


@dataclass
class Comparison:
    """All results of a study.

    Args:
        rows: one per setting, in the order of the study.
        folder: their results.
    """

    study: Study
    rows: list[Row]
    folder: ResultsFolder
    _jobs: dict[str, JobTable] = field(default_factory=dict, repr=False)

    @property
    def missing(self) -> list[str]:
        """Keys of runs that are needed, and neither exist nor failed."""
        known = {run.key for row in self.rows for run, _ in row.runs} | {key for row in self.rows for key in row.errors}
        needed = repeats_needed(self)
        return [run.key for run in self.study.runs if run.repeat < needed and run.key not in known]

    def paired(self, row: Row, base: Row) -> Pairs:
        """The metrics of runs with the same seed, each of the jobs that both ran."""
        own, theirs, common = {}, {}, {}
        others = {run.repeat: (run, document) for run, document in base.runs}
        for run, document in row.runs:
            if run.repeat not in others:
                continue
            other, their_document = others[run.repeat]
            if document.get("ran") == their_document.get("ran"):
                own[run.repeat], theirs[run.repeat] = document["metrics"], their_document["metrics"]
                continue
            mine, other_jobs = self._table(run, document), self._table(other, their_document)
            both = mine.ids & other_jobs.ids
            common[run.repeat] = sum(number for _, number in both)
            own[run.repeat], theirs[run.repeat] = mine.metrics(both), other_jobs.metrics(both)
        return Pairs(own, theirs, common)

    def _table(self, run: Run, document: dict[str, Any]) -> JobTable:
        found = self._jobs.get(run.key)
        if found is None:
            if sum(len(each.jobs) for each in self._jobs.values()) > _JOBS_KEPT_MAX:
                self._jobs.clear()
            trim = Trim(run.page.trim.warm_up, run.page.trim.drain)
            path, units = self.folder.runs / run.key / JOBS, document["machine"]["units"]
            found = self._jobs[run.key] = read_jobs(path, units, trim, is_complete=not _has_parts(run, document))
        return found

    def base(self, row: Row, settings: Mapping[str, Any]) -> Row | None:
        """The row to compare a row with: the one that differs only in these settings."""
        wanted = {**row.settings, **settings}
        return next((other for other in self.rows if matches(other.settings, wanted)), None)


def _has_parts(run: Run, document: dict[str, Any]) -> bool:
    """Whether jobs may have held more, or other units, than from their last start to their end, or the machine has changed."""
    page = run.page
    may_resize = malleable.parse(page.resize_policy).is_needed
    return may_resize or page.disturbances.events is not None or bool(document["metrics"].get("interruptions"))


def compare(study: Study, folder: ResultsFolder) -> Comparison:
    """Read all results of a study.

    Errors: InputError for a damaged result.
    """
    rows = [Row(settings, study.page.labels) for settings in study.settings]
    at = 0
    for row in rows:
        for run in study.runs[at : at + study.page.repeats]:
            document, error = folder.read(run), folder.error(run)
            if document is not None:
                row.runs.append((run, document))
            elif error is not None:
                row.errors[run.key] = error
        at += study.page.repeats
        row.figures = {name: estimate(list(row.values(name).values())) for name in FIGURES}
    found = Comparison(study, rows, folder)
    if study.page.baseline:
        for row in rows:
            base = found.base(row, study.page.baseline)
            if base is not None:
                pairs = found.paired(row, base)
                row.ratios, row.common = {name: pairs.ratio(name) for name in FIGURES}, pairs.common
    return found


class Pairs(NamedTuple):
    """Metrics of two settings by repeat, of the same jobs.

    Args:
        own, base: metrics by name; None where a metric has no meaning for some of the jobs.
        common: by repeat, the number of these jobs, if they are not all jobs of both runs.
    """

    own: dict[int, Mapping[str, float | None]]
    base: dict[int, Mapping[str, float | None]]
    common: dict[int, int]

    def ratio(self, name: str) -> Estimate | None:
        values, base = (
            {repeat: value for repeat, of in side.items() if (value := of.get(name)) is not None}
            for side in (self.own, self.base)
        )
        return ratio(values, base)


def warnings(found: Comparison) -> list[str]:
    """What a reader must know: of jobs that did not run everywhere, a machine that was not used, repeats that are alike, and
    metrics without a value."""
    return [*_of_sets(found), *_of_trim(found), *_of_use(found), *_of_repeats(found), *_of_metrics(found)]


def _of_metrics(found: Comparison) -> list[str]:
    """That no run has a metric that the study names, such as those of energy without what nodes draw."""
    missing = [name for name in found.study.page.metrics or () if not any(row.figures.get(name) for row in found.rows)]
    if not missing or not any(row.runs for row in found.rows):
        return []
    return [f"no run has a value of {listed(missing)}."]


def _of_trim(found: Comparison) -> list[str]:
    """That settings may count different jobs, since in a closed loop the order of submission depends on the setting."""
    pages = [run.page for row in found.rows for run, _ in row.runs]
    if len(found.rows) < 2 or not any(page.feedback != "none" and page.trim != TrimEntry() for page in pages):
        return []
    return ["in a closed loop, jobs are submitted in another order in each setting, so `trim` leaves out different jobs."]


def _of_repeats(found: Comparison) -> list[str]:
    """That the runs of a setting are all the same, as those of a trace: their number makes no result more certain."""
    same = [
        row
        for row in found.rows
        if len(row.runs) > 1 and all(each["metrics"] == row.runs[0][1]["metrics"] for _, each in row.runs)
    ]
    if not same:
        return []
    which = (
        "every setting"
        if len(same) == len(found.rows)
        else f"{plural(len(same), 'setting')} ({listed(row.label for row in same)})"
    )
    return [
        f"the runs of {which} are all alike, as nothing in them depends on the seed. They are one result, without an interval."
    ]


def _of_use(found: Comparison) -> list[str]:
    """That children of schedulers left most of the machine alone: what is compared is not the machine then."""
    own: list[str] = []
    for row in found.rows:
        instances, used = row.figures.get("instances"), row.figures.get("units_used")
        if instances is None or used is None or instances.mean <= 1:
            continue
        units, unit = row.runs[0][1]["machine"]["units"], row.runs[0][1]["machine"]["unit"]
        if used.mean < USED_LEAST * units:
            own.append(f"{row.label}: {shown_number(used.mean)} of {shown_number(units)} units ({unit})")
    if not own:
        return []
    return [f"jobs used only a part of the machine, so figures are not those of all of it. {_several(own)}."]


def _several(settings: Sequence[str]) -> str:
    """What is said of each of some settings: of very many, the first ones."""
    more = len(settings) - SETTINGS_SAID_MAX
    return "; ".join(settings[:SETTINGS_SAID_MAX]) + (f"; and {plural(more, 'other setting')}" if more > 0 else "")


SETTINGS_SAID_MAX: Final = 12
"""The number of settings that a warning names."""


def _of_sets(found: Comparison) -> list[str]:
    partial = [row for row in found.rows if row.is_partial]
    if not partial:
        return []
    if len(partial) == len(found.rows) and not any(row.common for row in found.rows) and len(_ran(found)) == 1:
        return []
    each = _several([f"{row.label}: {jobs_said(row)}" for row in partial])
    said = [f"settings ran different jobs. {each}. Means are of the jobs that a setting ran."]
    if any(row.common for row in found.rows):
        said.append("Ratios are of the jobs that both settings ran.")
    return [" ".join(said)]


def remarks(found: Comparison) -> Iterator[str]:
    """What became of jobs that did not run, and of events that had no effect, for each run: the first reason for each."""
    for run, document in (each for row in found.rows for each in row.runs):
        metrics, refused = document["metrics"], document["refused"]["reasons"]
        if metrics["refused"]:
            more = f" (and {plural(len(refused) - 1, 'other reason')})" if len(refused) > 1 else ""
            ran = f"{plural(metrics['refused'], 'job')} refused, {metrics['jobs']} ran"
            yield f"run {run.key}: {ran}: {next(iter(refused))}{more}"
        for reason, number in left_reasons(document).items():
            yield f"run {run.key}: {plural(number, 'job')} never started, {reason}"
        for reason, number in document.get("notes", {}).items():
            yield f"run {run.key}: {reason}{f' ({number} times)' if number > 1 else ''}"


def left_reasons(document: Mapping[str, Any]) -> dict[str, int]:
    """Why jobs of a run never started, with their numbers: a limit, or that no event was left after which they could."""
    found: dict[str, int] = dict(document["left"])
    others = int(document["metrics"]["left"] or 0) - sum(found.values())
    return found | ({"waiting when no event was left": others} if others > 0 else {})


def sets_of(found: Comparison) -> list[str]:
    """The metrics to show beside all others: how many jobs ran, and did not, if some did not."""
    names = [name for name in SETS if any((own := row.figures.get(name)) and own.mean for row in found.rows)]
    return ["jobs", *names] if names else []


def _ran(found: Comparison) -> set[tuple[str, ...]]:
    return {tuple(str(document.get("ran")) for _, document in row.runs) for row in found.rows}


def jobs_said(row: Row) -> str:
    """How many jobs did not run in a setting, in words: means over its runs."""
    means = {name: own.mean for name in ("jobs", *SETS) if (own := row.figures.get(name))}
    words = {"refused": "refused", "left": "left waiting", "cut": "cut to the machine"}
    given = [f"{shown_number(means[name])} {word}" for name, word in words.items() if means.get(name)]
    return ", ".join([f"{shown_number(means.get('jobs', 0.0))} ran", *given])


def repeats_needed(found: Comparison) -> int:
    """How many repeats of each setting are needed: all, or with a stopping rule as many as make the intervals small enough.

    The number is the same for all settings, so that they remain paired.
    """
    page = found.study.page
    if (rule := page.stop) is None:
        return page.repeats
    wanted = rule.least
    while wanted < page.repeats:
        first = [[(run, document) for run, document in row.runs if run.repeat < wanted] for row in found.rows]
        has_all = all(
            len(runs) + sum(run.key in row.errors for run in found.study.runs if run.settings is row.settings) >= wanted
            for runs, row in zip(first, found.rows, strict=True)
        )
        if not has_all or all(_is_precise(found, rule, row, wanted) for row in found.rows):
            return wanted
        wanted += max(1, wanted // 4)
    return page.repeats


def _is_precise(found: Comparison, rule: StopEntry, row: Row, repeats: int) -> bool:
    def only(given: Row) -> Row:
        return replace(given, runs=[(run, document) for run, document in given.runs if run.repeat < repeats])

    if rule.against is None:
        own = estimate(list(only(row).values(rule.metric).values()))
    else:
        base = found.base(row, found.study.page.baseline)
        own = None if base is None or base is row else found.paired(only(row), only(base)).ratio(rule.metric)
    return own is None or own.low is None or own.half <= rule.within * abs(own.mean)


def check(found: Comparison) -> list[Checked]:
    """Every expectation with every setting that it applies to."""
    return [
        _checked(found, expected, row)
        for expected in found.study.page.expect
        for row in found.rows
        if matches(row.settings, expected.of)
    ]


def alike(checked: Iterable[Checked]) -> Iterator[Checked]:
    """The same, but one for all settings in a row of which an expectation has the same value."""
    for _, group in groupby(checked, key=lambda each: (each.value, each.expected, each.against)):
        first, *others = group
        yield replace(first, label=plural(1 + len(others), "setting")) if others else first


def _checked(found: Comparison, expected: Expectation, row: Row) -> Checked:
    own: Estimate | None
    against = ""
    if expected.against is None:
        own = row.figures[expected.metric]
    else:
        is_baseline = isinstance(expected.against, str)
        settings = found.study.page.baseline if isinstance(expected.against, str) else expected.against
        against = "the baseline" if is_baseline else label(settings, row.labels)
        base = found.base(row, settings)
        own = found.paired(row, base).ratio(expected.metric) if base is not None else None
    value = None if own is None else own.mean
    made = Checked(expected, row.label, against, value, True)
    if made.bounds is None:
        return made
    low, high = made.bounds
    slack = _TOLERANCE * max(abs(low), abs(high))
    return replace(made, holds=value is not None and low - slack <= value <= high + slack)


def runs_csv(found: Comparison) -> str:
    """One row per run: settings and metrics."""
    names = columns(found.study.shown)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", *found.study.headings, "repeat", "seed", *names, "error"])
    for row in found.rows:
        done = {run.key: document for run, document in row.runs}
        for run in found.study.runs:
            if run.settings is not row.settings:
                continue
            values = done[run.key]["metrics"] if run.key in done else {}
            own = ["" if values.get(name) is None else values[name] for name in names]
            error = row.errors.get(run.key, "" if run.key in done else "not there")
            writer.writerow([run.key, *map(value_text, row.settings.values()), run.repeat, run.seed, *own, error])
    return out.getvalue()


def comparison_csv(found: Comparison) -> str:
    """One row per setting: for each metric the mean and its confidence interval, and the same for the ratio to the baseline."""
    names = columns(found.study.shown)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*found.study.headings, "runs", "failed", *(f"{name}_{own}" for name in names for own in _OWN)])
    for row in found.rows:
        values = [value for name in names for value in _cells(row.figures.get(name), row.ratios.get(name))]
        writer.writerow([*map(value_text, row.settings.values()), len(row.runs), len(row.errors), *values])
    return out.getvalue()


def pairs_csv(found: Comparison) -> str:
    """One row per metric and pair of settings: the ratio of the first to the second, run by run, with its confidence interval."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["metric", "setting", "to", "ratio", "low", "high", "interval", "runs", "jobs"])
    rows = [row for row in found.rows if row.runs][:PAIRED_MAX]
    for row in rows:
        for other in rows:
            if other is row:
                continue
            pairs = found.paired(row, other)
            jobs = sum(pairs.common.values()) / len(pairs.common) if pairs.common else "all"
            for name in found.study.shown:
                if (own := pairs.ratio(name)) is not None:
                    low, high = ("" if value is None else value for value in (own.low, own.high))
                    writer.writerow([name, row.label, other.label, own.mean, low, high, own.method, own.number, jobs])
    return out.getvalue()


_JOBS_KEPT_MAX: Final = 500_000
"""The number of jobs of all runs that are kept in memory to be compared."""

PAIRED_MAX: Final = 24
"""The number of settings that are compared each with each; the first ones."""


def _cells(*estimates: Estimate | None) -> Iterator[float | str]:
    for each in estimates:
        for value in (None, None, None) if each is None else each[:3]:
            yield "" if value is None else value
