"""The metrics of a run by name: their titles in tables, and how their values are written.

One table, so that reports, checks of a study and documentation name the same metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fluxres.documents.document import plural
from fluxres.simulation.disturbances.losses import Losses
from fluxres.simulation.results.distribution import AreaOf, Trim, offered_load, percentiles, trimmed
from fluxres.simulation.results.distribution import counted as counted_jobs

if TYPE_CHECKING:
    from fluxres.simulation.metrics import Series
    from fluxres.simulation.prediction.prediction import Errors
    from fluxres.simulation.result import Result


class Figure(NamedTuple):
    """The description of a metric.

    Args:
        title: for headings.
        unit: of values in tables: `s`, `J`, `J s`, `W` and `%` stand for the unit that suits them; data have no prefixes, and are
            fractions.
    """

    title: str
    unit: str = ""


FIGURES: Final[Mapping[str, Figure]] = {
    "mean_wait_s": Figure("mean wait", "s"),
    "max_wait_s": Figure("longest wait", "s"),
    "mean_turnaround_s": Figure("mean turnaround", "s"),
    "mean_stretch": Figure("mean stretch", "×"),
    "max_stretch": Figure("largest stretch", "×"),
    "mean_bounded_slowdown": Figure("mean bounded slowdown", "×"),
    "max_bounded_slowdown": Figure("largest bounded slowdown", "×"),
    "median_wait_s": Figure("median wait", "s"),
    "p90_wait_s": Figure("90th percentile of wait", "s"),
    "p99_wait_s": Figure("99th percentile of wait", "s"),
    "median_bounded_slowdown": Figure("median bounded slowdown", "×"),
    "p90_bounded_slowdown": Figure("90th percentile of bounded slowdown", "×"),
    "p99_bounded_slowdown": Figure("99th percentile of bounded slowdown", "×"),
    "makespan_s": Figure("makespan", "s"),
    "utilisation": Figure("utilisation", "%"),
    "throughput_per_s": Figure("throughput", "jobs/s"),
    "peak": Figure("most units held at once", "units"),
    "peak_jobs": Figure("most jobs at once", "jobs"),
    "units_used": Figure("units ever used", "units"),
    "offered_load": Figure("offered load", "%"),
    "jobs": Figure("jobs that ran", "number"),
    "refused": Figure("refused", "jobs"),
    "left": Figure("left waiting", "jobs"),
    "cut": Figure("cut to the machine", "jobs"),
    "instances": Figure("schedulers", "number"),
    "decisions": Figure("decisions", "number"),
    "busiest_share": Figure("busiest scheduler", "%"),
    "availability": Figure("availability", "%"),
    "goodput": Figure("goodput", "%"),
    "lost_work": Figure("held for nothing", "%"),
    "interruptions": Figure("interruptions", "number"),
    "prediction_error_s": Figure("prediction error", "s"),
    "prediction_ratio": Figure("predicted / real time", "×"),
    "prediction_accuracy": Figure("prediction accuracy", "%"),
    "underpredicted": Figure("predicted too short", "jobs"),
    "corrections": Figure("corrections", "number"),
    "energy_j": Figure("energy", "J"),
    "idle_energy_j": Figure("energy, idle nodes", "J"),
    "switching_energy_j": Figure("energy, switching", "J"),
    "off_energy_j": Figure("energy, nodes off", "J"),
    "energy_per_job_j": Figure("energy per job", "J"),
    "energy_delay_js": Figure("energy-delay product", "J s"),
    "mean_power_w": Figure("mean power", "W"),
    "peak_power_w": Figure("peak power", "W"),
    "boots": Figure("nodes switched on", "number"),
    "over_cap_s": Figure("above the power cap", "s"),
}
"""All metrics of a run."""

SHOWN: Final = ("mean_wait_s", "mean_bounded_slowdown", "utilisation", "makespan_s")
"""The metrics shown first unless a study specifies others."""

SHOWN_DISTURBED: Final = ("goodput", "interruptions")
"""What a study with failures or preemption shows beside them."""

SHOWN_PREDICTED: Final = ("prediction_error_s", "underpredicted")
"""What a study with predicted run times shows beside them."""

SHOWN_ENERGY: Final = ("energy_j", "energy_per_job_j", "mean_power_w")
"""Those shown as well if a study says what nodes draw."""


def figures(result: Result, series: Series, units: int, *, cut: int = 0, trim: Trim = Trim()) -> dict[str, float | None]:  # noqa: B008
    """The metrics of a result; None if there was no job.

    Args:
        series: its jobs.
        units: of the machine.
        cut: the number of jobs that were cut to the machine.
        trim: what is left out of the metrics of jobs, of utilisation and of throughput.

    `busiest_share` is the largest fraction of the makespan that one instance spent on decisions.
    """
    found: dict[str, Any] = result.metrics.to_dict()
    found |= of_jobs(series, units, trim, result.area_of)
    found["refused"], found["left"], found["cut"] = len(result.refusals), result.left, cut
    found["peak_jobs"], found["units_used"] = most_at_once(series), None
    found["instances"] = len(result.instances)
    found["decisions"] = sum(row.decisions for row in result.instances)
    busy = max((row.busy_s for row in result.instances), default=0.0)
    found |= (result.losses or Losses(interruptions=None)).to_dict()
    found |= energy_figures(result)
    found |= of_predictions(result.predictions)
    found["busiest_share"] = share(busy, result.metrics.makespan_s)
    return {name: found[name] for name in FIGURES}


ENERGY: Final = (*(name for name in FIGURES if name.endswith(("_j", "_js", "_w"))), "boots", "over_cap_s")
"""Those of the energy, None unless it is known what nodes draw."""


def energy_figures(result: Result) -> dict[str, Any]:
    if result.energy is None:
        return dict.fromkeys(ENERGY)
    return result.energy.figures(result.metrics.jobs, result.metrics.mean_turnaround_s)


def of_predictions(errors: Errors | None) -> dict[str, float | None]:
    """How good predictions were; None without."""
    return {
        "prediction_error_s": None if errors is None else errors.mean_absolute_s,
        "prediction_ratio": None if errors is None else errors.mean_ratio,
        "prediction_accuracy": None if errors is None else errors.accuracy,
        "underpredicted": None if errors is None else errors.underpredicted,
        "corrections": None if errors is None else errors.corrections,
    }


def of_jobs(series: Series, units: int, trim: Trim, area_of: AreaOf | None = None) -> dict[str, float | None]:
    """The metrics that are computed from all jobs at once.

    Args:
        area_of: the unit-ticks of the machine in a time, if its size changes.
    """
    jobs = counted_jobs(series, trim)
    found = percentiles(jobs) | {"offered_load": offered_load(jobs, units)}
    return found | trimmed(jobs, units, area_of) if trim != Trim() else found


def most_at_once(series: Series) -> int:
    """The most jobs that ran at one moment; ends at a moment count before starts."""
    _, start, end, _ = series.columns()
    ran = (start >= 0) & (end > start)
    starts, ends = np.sort(start[ran]), np.sort(end[ran])
    return int((np.arange(1, len(starts) + 1) - ends.searchsorted(starts, "right")).max(initial=0))


def share(busy_s: float, makespan_s: float | None) -> float | None:
    """The fraction of the makespan spent on decisions; capped at 1, because some may come after the last job has ended."""
    return min(busy_s / makespan_s, 1.0) if makespan_s else None


def number(value: float | None) -> str:
    """A number as text, in tables and on axes: four digits, no exponent, thousands separated.

    >>> number(12345.678), number(1234.5), number(0.98765), number(5), number(0.000123456), number(None)
    ('12,346', '1,234', '0.9877', '5', '0.0001235', '-')
    """
    if value is None:
        return "-"
    size = abs(value)
    if size and size < 1e-6:
        return "≈ 0"
    if size >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.{4 - len(str(int(size))) if size >= 1 else 3 - math.floor(math.log10(size)) if size else 0}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count: int, type_name: str) -> str:
    """A number of pools.

    >>> counted(1152, "core"), counted(1, "node")
    ('1,152 cores', '1 node')
    """
    return plural(count, type_name).replace(str(count), f"{count:,}", 1)


class Scale(NamedTuple):
    """How the values of a metric are shown: divided by `factor`, in `unit` (empty for none)."""

    factor: float
    unit: str

    def text(self, value: float | None) -> str:
        return number(None if value is None else value / self.factor)


def scale(name: str, values: Iterable[float | None]) -> Scale:
    """The scale that suits all these values of a metric: fractions in percent, times in the unit that suits their median.

    >>> scale("mean_wait_s", [30.0, 7300.0]), scale("utilisation", [0.5]), scale("jobs", [5])
    (Scale(factor=3600.0, unit='h'), Scale(factor=0.01, unit='%'), Scale(factor=1.0, unit='number'))
    """
    unit = FIGURES[name].unit
    if unit == "%":
        return Scale(0.01, unit)
    if unit not in ("s", "J", "J s", "W"):
        return Scale(1.0, unit)
    known = sorted(value for value in values if value)
    median = known[len(known) // 2] if known else 0.0
    return Scale(*time_unit(median)) if unit == "s" else decimal_unit(median, unit)


def decimal_unit(size: float, unit: str) -> Scale:
    """A unit with the prefix that suits values up to this size.

    >>> decimal_unit(12_800.0, "W"), decimal_unit(150.0, "J")
    (Scale(factor=1000.0, unit='kW'), Scale(factor=1.0, unit='J'))
    """
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= 2 * factor:
            return Scale(factor, prefix + unit)
    return Scale(1.0, unit)


def title(name: str, own: Scale) -> str:
    """The heading of a metric with the unit of its values."""
    return FIGURES[name].title + (f" ({own.unit})" if own.unit else "")


def time_unit(length_s: float) -> tuple[float, str]:
    """Seconds per unit, and the name of the unit, that suit times up to this length.

    >>> time_unit(50.0), time_unit(40000.0)
    ((1.0, 's'), (3600.0, 'h'))
    """
    for seconds, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if length_s >= 2 * seconds:
            return seconds, word
    return (1.0, "s") if length_s >= 0.2 or not length_s else (0.001, "ms")


def columns(wanted: Sequence[str]) -> list[str]:
    """All metrics, the wanted ones first."""
    return [*wanted, *(name for name in FIGURES if name not in wanted)]
