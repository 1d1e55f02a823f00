"""The metrics of a run by name: their titles in tables, and how their values are written.

One table, so that reports, checks of a study and documentation name the same metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from fluxres.simulation.simulator import Result


class Figure(NamedTuple):
    """The description of a metric.

    Args:
        title: for headings.
        unit: or empty.
        lower_is_better: None if neither direction is better.
    """

    title: str
    unit: str = ""
    lower_is_better: bool | None = True


FIGURES: Final[Mapping[str, Figure]] = {
    "mean_wait_s": Figure("mean wait", "s"),
    "max_wait_s": Figure("longest wait", "s"),
    "mean_turnaround_s": Figure("mean turnaround", "s"),
    "mean_stretch": Figure("mean stretch"),
    "max_stretch": Figure("largest stretch"),
    "mean_bounded_slowdown": Figure("mean bounded slowdown"),
    "max_bounded_slowdown": Figure("largest bounded slowdown"),
    "makespan_s": Figure("makespan", "s"),
    "utilisation": Figure("utilisation", "", False),
    "throughput_per_s": Figure("throughput", "jobs/s", False),
    "peak": Figure("most units held at once", "", None),
    "jobs": Figure("jobs that ran", "", None),
    "refused": Figure("jobs refused", "", None),
    "left": Figure("jobs left waiting", "", None),
    "instances": Figure("instances", "", None),
    "decisions": Figure("decisions", "", None),
    "busiest_share": Figure("busiest scheduler", "", None),
}
"""All metrics of a run."""

SHOWN: Final = ("mean_wait_s", "mean_bounded_slowdown", "utilisation", "makespan_s")
"""The metrics shown first unless a study specifies others."""


def figures(result: Result) -> dict[str, float | None]:
    """The metrics of a result; None if there was no job.

    `busiest_share` is the largest fraction of the makespan that one instance spent on decisions.
    """
    found: dict[str, Any] = result.metrics.to_dict()
    found["refused"], found["left"] = len(result.refusals), result.left
    found["instances"] = len(result.instances)
    found["decisions"] = sum(row.decisions for row in result.instances)
    busy = max((row.busy_s for row in result.instances), default=0.0)
    found["busiest_share"] = share(busy, result.metrics.makespan_s)
    return {name: found[name] for name in FIGURES}


def share(busy_s: float, makespan_s: float | None) -> float | None:
    """The fraction of the makespan spent on decisions; capped at 1, because some may come after the last job has ended."""
    return min(busy_s / makespan_s, 1.0) if makespan_s else None


def written(name: str, value: float | None) -> str:
    """A metric as text for a table.

    >>> written("mean_wait_s", 12345.678), written("utilisation", 0.98765), written("jobs", 5), written("mean_wait_s", None)
    ('12,346', '0.9877', '5', '-')
    """
    if value is None:
        return "-"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    size = abs(value)
    return f"{value:,.0f}" if size >= 10_000 else f"{value:,.1f}" if size >= 100 else f"{value:.4g}"


def columns(wanted: Sequence[str]) -> list[str]:
    """All metrics, the wanted ones first."""
    return [*wanted, *(name for name in FIGURES if name not in wanted)]
