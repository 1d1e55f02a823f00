"""Compare results: each setting with the mean of its repeats, its confidence interval, and its ratio to the baseline.

Confidence is by Student's t over repeats.  Runs with the same seed see the same jobs, so ratios are computed per run and then
averaged: variation between seeds affects both runs and cancels.  The quantiles are tabulated here, because a dependency for one
function of one variable is not worth it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from fluxres.experiments.figures import FIGURES, columns
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.study import Expectation, Run, Study, label, matches, value_text

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

    >>> tuple(round(value, 3) for value in estimate([1.0, 2.0, 3.0]))
    (2.0, -0.484, 4.484, 3)
    """
    number = len(values)
    if not number:
        return None
    mean = math.fsum(values) / number
    if number == 1:
        return Estimate(mean, None, None, 1)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (number - 1))
    half = student_t(number - 1) * deviation / math.sqrt(number)
    return Estimate(mean, mean - half, mean + half, number)


def ratio(values: Mapping[int, float], base: Mapping[int, float]) -> Estimate | None:
    """Mean of the ratios of paired values; None if there is no pair.

    Args:
        values, base: by repeat. Pairs with a base of 0 are left out.

    >>> ratio({0: 4.0, 1: 9.0, 2: 5.0}, {0: 2.0, 1: 3.0})[0]
    2.5
    """
    return estimate([value / base[repeat] for repeat, value in values.items() if base.get(repeat)])


# -- the comparison ----------------------------------------------------------------------------------------------------

_TOLERANCE: Final = 1e-9
_OWN: Final = ("mean", "low", "high", "ratio", "ratio_low", "ratio_high")


@dataclass
class Row:
    """One setting.

    Args:
        settings: the varied values.
        runs: the existing runs with their documents.
        errors: of failed runs, by key.
        figures: metrics by name.
        ratios: to the baseline; empty if there is none.
    """

    settings: dict[str, Any]
    labels: dict[str, str]
    runs: list[tuple[Run, dict[str, Any]]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Estimate | None] = field(default_factory=dict)
    ratios: dict[str, Estimate | None] = field(default_factory=dict)

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
        holds: whether it is within the bounds.
    """

    expected: Expectation
    label: str
    against: str
    value: float | None
    holds: bool

    @property
    def text(self) -> str:
        """The expectation and the actual value."""
        what = f"{self.expected.metric} of {self.label}"
        if self.against:
            what += f" relative to {self.against}"
        got = "nothing" if self.value is None else f"{self.value:.6g}"
        source = f" ({self.expected.source})" if self.expected.source else ""
        return f"{what}: {got}, expected {between(*self.bounds, '{:g}'.format)}{source}"

    @property
    def bounds(self) -> tuple[float, float]:
        """What the metric or the ratio is expected to be, at least and at most."""
        low, high = self.expected.ratio or self.expected.range or [0.0, 0.0]
        return low, high

    def to_dict(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self.expected), "setting": self.label, "value": self.value, "holds": self.holds}


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
    """

    study: Study
    rows: list[Row]

    @property
    def missing(self) -> list[str]:
        """Keys of runs that neither exist nor failed."""
        known = {run.key for row in self.rows for run, _ in row.runs} | {key for row in self.rows for key in row.errors}
        return [run.key for run in self.study.runs if run.key not in known]

    def base(self, row: Row, settings: Mapping[str, Any]) -> Row | None:
        """The row to compare a row with: the one that differs only in these settings."""
        wanted = {**row.settings, **settings}
        return next((other for other in self.rows if matches(other.settings, wanted)), None)


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
    found = Comparison(study, rows)
    if study.page.baseline:
        for row in rows:
            base = found.base(row, study.page.baseline)
            if base is not None:
                row.ratios = {name: ratio(row.values(name), base.values(name)) for name in FIGURES}
    return found


def check(found: Comparison) -> list[Checked]:
    """Every expectation with every setting that it applies to."""
    return [
        _checked(found, expected, row)
        for expected in found.study.page.expect
        for row in found.rows
        if matches(row.settings, expected.of)
    ]


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
        own = ratio(row.values(expected.metric), base.values(expected.metric)) if base is not None else None
    low, high = expected.ratio or expected.range or [0.0, 0.0]
    value = None if own is None else own.mean
    slack = _TOLERANCE * max(abs(low), abs(high))
    return Checked(expected, row.label, against, value, value is not None and low - slack <= value <= high + slack)


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


def _cells(*estimates: Estimate | None) -> Iterator[float | str]:
    for each in estimates:
        for value in (None, None, None) if each is None else each[:3]:
            yield "" if value is None else value
