"""Charts of single jobs: the sizes of those that changed theirs, and starts in a real run beside the simulated ones."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fluxres import limits
from fluxres.errors import InputError
from fluxres.experiments import style
from fluxres.experiments.figures import time_unit
from fluxres.experiments.style import DASHES, MAIN, PALETTE, Chart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fluxres.experiments.gantt import Span
    from fluxres.experiments.real import Starts


class Part(NamedTuple):
    """The time of a job with one size, in seconds."""

    begin_s: float
    end_s: float
    units: int


def size_parts(path: Path) -> list[list[Part]]:
    """The parts of each job that changed its size, in the order of their first starts, from a `sizes.csv`.

    Errors: InputError with the line, if it is not such a file.
    """
    found: dict[str, list[Part]] = {}
    last: dict[str, tuple[float, int]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        try:
            for line in lines:
                job, time_s, units = line["job_id"], float(line["time"]), int(line["units"])
                begin_s, held = last.get(job, (time_s, 0))
                if held:
                    found.setdefault(job, []).append(Part(begin_s, time_s, held))
                last[job] = time_s, units
        except (KeyError, ValueError, TypeError):
            raise InputError("not a table of sizes written by fluxres", where=f"{path}:{lines.line_num}") from None
    return sorted(found.values(), key=lambda parts: parts[0].begin_s)


def sizes(jobs: Sequence[Sequence[Part]], name: str, title: str, *, span: Span) -> Chart:
    """A row for each job, dark where it had many units; of very many jobs, the first `limits.CHART_JOBS_MAX`."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    shown = jobs[: limits.CHART_JOBS_MAX]
    made = style.figure(2.7)
    axes = made.subplots()
    factor, word = time_unit(span.length_s)
    style.tidy(axes, grid="x")
    bars = [(row, part) for row, parts in enumerate(shown, 1) for part in parts]
    units = [part.units for _, part in bars]
    low, high = min(units), max(units)
    shades = LinearSegmentedColormap.from_list("units", [f"{PALETTE[0]}28", f"{PALETTE[0]}ff"])
    scale = LogNorm(low, high) if low < high else Normalize(0, high)
    axes.barh(
        [row for row, _ in bars],
        [(part.end_s - part.begin_s) / factor for _, part in bars],
        left=[(part.begin_s - span.begin_s) / factor for _, part in bars],
        height=0.9 if len(shown) < _EDGED_MAX else 1.0,
        color=shades(scale(np.array(units, float))),
        linewidth=0,
    )
    _key(made, axes, shades, scale, low, high)
    axes.set_xlim(0, span.length_s / factor)
    axes.set_ylim(len(shown) + 0.6, 0.4)
    style.numbered(axes.xaxis)
    style.numbered(axes.yaxis, whole=True)
    what = "jobs that changed" if len(shown) == len(jobs) else f"first {len(shown):,} of {len(jobs):,} jobs that changed"
    style.label(axes, x=f"time ({word})", y=what)
    return style.drawn(made, name, title)


_EDGED_MAX: Final = 80
"""Below this number of rows, there is some room between them."""


def _key(made: Any, axes: Any, shades: Any, scale: Any, low: int, high: int) -> None:
    from matplotlib.cm import ScalarMappable

    ticks = [
        low,
        *(1 << power for power in range(low.bit_length(), high.bit_length()) if 1.4 * low < 1 << power < high / 1.4),
        high,
    ]
    ticks = sorted(set(ticks))
    bar = made.colorbar(
        ScalarMappable(scale, shades), ax=axes, fraction=0.03, pad=0.01, ticks=ticks, format=lambda value, _: f"{value:g}"
    )
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    style.tidy(bar.ax, grid="")
    style.label(bar.ax, y="units")


def starts(given: Starts, name: str, title: str, *, longest_s: float) -> Chart:
    """The number of jobs that had started, simulated and real."""
    made = style.figure(2.2)
    axes = made.subplots()
    factor, word = time_unit(longest_s)
    style.tidy(axes)
    for own, label, colour, dash in (
        (given.simulated_s, "simulated", MAIN, DASHES[1]),
        (given.real_s, "real", PALETTE[3], DASHES[0]),
    ):
        x, y = _steps(own)
        axes.plot(x / factor, y, drawstyle="steps-post", color=colour, linestyle=dash, linewidth=1.5, label=label)
    axes.legend(loc="lower right", fontsize=8, frameon=False, labelcolor=style.INK)
    axes.set_xlim(0, longest_s / factor * 1.02 or 1)
    axes.set_ylim(0)
    style.numbered(axes.xaxis)
    style.numbered(axes.yaxis, whole=True)
    style.label(axes, x=f"time ({word})", y="jobs started")
    return style.drawn(made, name, title)


def _steps(moments: Sequence[float]) -> tuple[Any, Any]:
    """The course of a count that rises at each moment, in at most `limits.CHART_STEPS_MAX` points."""
    numbers = np.unique(np.linspace(0, len(moments), min(len(moments), limits.CHART_STEPS_MAX) + 1).round().astype(int))
    times = np.concatenate([[0.0], np.array(moments, float)])
    return times[numbers], numbers


def longest_s(given: Iterable[Starts]) -> float:
    """The last start of all."""
    return max((own[-1] for each in given for own in each if own), default=0.0)
