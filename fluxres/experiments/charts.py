"""Charts of results (extra `plot`): comparison, curves over time, Gantt charts; each as SVG and PNG.

The charts use the object interface of matplotlib and never touch its global state, so they can be made in any thread and do not
change the settings of a notebook.

A Gantt chart of a few thousand jobs has a rectangle for each; a hundred thousand are not visible.  Then each point of a picture
shows how much of it is in use.  This is exact, computed by area and not by sampling.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import InputError, UsageError
from fluxres.experiments.comparison import Row
from fluxres.experiments.figures import FIGURES, written

# -- jobs on units over time -------------------------------------------------------------------------------------------

Floats = NDArray[np.float64]


class Rectangles(NamedTuple):
    """What jobs held, one row per run of consecutive unit numbers.

    Args:
        start, end: seconds.
        first, after: unit numbers.
        job: number of the job it belongs to.
    """

    start: Floats
    end: Floats
    first: Floats
    after: Floats
    job: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start)


def rectangles(path: Path) -> Rectangles:
    """The rectangles of a `jobs.csv`.

    Errors: InputError with the line, if it is not such a file.
    """
    rows: list[tuple[float, float, float, float]] = []
    jobs: list[int] = []
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        try:
            for number, line in enumerate(lines):
                if not line["starting_time"] or not line["allocated_resources"]:
                    continue
                start, end = float(line["starting_time"]), float(line["finish_time"])
                for word in line["allocated_resources"].split(" "):
                    low, _, high = word.partition("-")
                    rows.append((start, end, float(low), float(high or low) + 1))
                    jobs.append(number)
        except (KeyError, ValueError, TypeError):
            raise InputError("not a table of jobs written by fluxres", where=f"{path}:{lines.line_num}") from None
    start_s, end_s, low_unit, high_unit = np.array(rows, np.float64).reshape(-1, 4).T
    return Rectangles(start_s, end_s, low_unit, high_unit, np.array(jobs, np.int64))


def coverage(given: Rectangles, width: int, height: int, *, until_s: float, units: int, begin_s: float = 0.0) -> Floats:
    """The fraction in use of each point of a picture, from 0 to 1; row 0 has the lowest units.

    Args:
        width, height: of the picture; time goes to the right, units upwards.
        begin_s, until_s: the time shown.
        units: the units shown.

    Cost: O(rectangles + points). A rectangle is at least half a point wide, so that jobs of zero length are visible.

    >>> one = Rectangles(*(np.array([x], float) for x in (0, 5, 0, 1)), np.array([0]))
    >>> coverage(one, 2, 2, until_s=10.0, units=2)
    array([[1., 0.],
           [0., 0.]])
    """
    scale_x, scale_y = width / (until_s - begin_s), height / units
    left = np.clip((given.start - begin_s) * scale_x, 0, width)
    right = np.clip(np.maximum((given.end - begin_s) * scale_x, left + 0.5), 0, width)
    low, high = np.clip(given.first * scale_y, 0, height), np.clip(given.after * scale_y, 0, height)
    # The part of each bin right of x is a ramp with differences in two bins.  Four ramp corners make a rectangle.
    found = np.zeros((height + 2, width + 2))
    for x, sign_x in ((left, 1.0), (right, -1.0)):
        at_x, part_x = _split(x)
        for y, sign_y in ((low, 1.0), (high, -1.0)):
            at_y, part_y = _split(y)
            for step_x, weight_x in ((0, 1 - part_x), (1, part_x)):
                for step_y, weight_y in ((0, 1 - part_y), (1, part_y)):
                    np.add.at(found, (at_y + step_y, at_x + step_x), sign_x * sign_y * weight_x * weight_y)
    covered: Floats = np.clip(found.cumsum(0).cumsum(1)[:height, :width], 0.0, 1.0)
    return covered


def _split(x: Floats) -> tuple[NDArray[np.int64], Floats]:
    whole = np.floor(x)
    return whole.astype(np.int64), x - whole


# -- charts ------------------------------------------------------------------------------------------------------------

RECTANGLES_MAX: Final = 2_000
"""Up to this number, rectangles are drawn one by one; above it, a chart shows how much is in use."""
POINTS: Final = (600, 200)
"""Size of that picture in points."""

_EDGES_MAX: Final = 400
"""Up to this number, rectangles have white edges; of more, only the edges would be visible."""

INK, GRID, MAIN = "#1f2933", "#d9dee4", "#2f6f9f"
COLOURS: Final = ("#2f6f9f", "#c8662b", "#3c8d5a", "#8a4f9e", "#b3a02c", "#4fa3a5", "#a8415b", "#6b7680")
_JOBS: Final = (
    "#2f6f9f",
    "#5b93bd",
    "#c8662b",
    "#de9a6c",
    "#3c8d5a",
    "#78b58f",
    "#8a4f9e",
    "#b58bc4",
    "#b3a02c",
    "#4fa3a5",
    "#a8415b",
)
_DPI: Final = 150


class Chart(NamedTuple):
    """A finished chart.

    Args:
        name: of its files.
        title: for people.
    """

    name: str
    title: str
    svg: bytes
    png: bytes


class Curve(NamedTuple):
    """Utilisation and queue of a run.

    Args:
        times: seconds, the middle of each interval.
        used: fraction of the machine.
        waiting: jobs.
    """

    label: str
    times: Any
    used: Any
    waiting: Any


def require() -> None:
    """Check that matplotlib is available.

    Errors: UsageError with the command to install it.
    """
    try:
        import matplotlib  # noqa: F401 - only tests that it is installed
    except ImportError:
        raise UsageError("charts need matplotlib", hint="pip install matplotlib") from None


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def _drawn(figure: Any, name: str, title: str) -> Chart:
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    svg, png = io.BytesIO(), io.BytesIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.family": "sans-serif"}):
        FigureCanvasSVG(figure)
        figure.savefig(svg, format="svg", metadata={"Date": None, "Title": title})
        FigureCanvasAgg(figure)
        figure.savefig(png, format="png", dpi=_DPI, metadata={"Title": title})
    return Chart(name, title, svg.getvalue(), png.getvalue())


def _tidy(axes: Any, *, grid: str) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9aa5b1")
    axes.tick_params(colors=INK, labelsize=8)
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def comparison(rows: Sequence[Row], name: str) -> Chart:
    """Bars of a metric with confidence intervals, one per setting, with the values next to them."""
    figure = _figure(8.0, 0.7 + 0.3 * len(rows))
    axes = figure.subplots()
    estimates = [row.figures[name] for row in rows]
    means = [each.mean if each is not None else 0.0 for each in estimates]
    places = np.arange(len(rows))[::-1]
    axes.barh(places, means, height=0.62, color=MAIN)
    reach = max(((each.high if each.high is not None else each.mean) for each in estimates if each), default=1.0)
    for place, each in zip(places, estimates, strict=True):
        end = 0.0
        if each is not None:
            end = each.mean if each.high is None else each.high
            if each.low is not None and each.high is not None and each.high > each.low:
                errors = [[each.mean - max(each.low, 0.0)], [each.high - each.mean]]
                axes.errorbar([each.mean], [place], xerr=errors, color=INK, capsize=3, linewidth=1)
        text = written(name, None if each is None else each.mean)
        axes.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8, color=INK)
    axes.set_yticks(places, [row.label for row in rows])
    axes.set_xlim(0, (reach or 1.0) * 1.12)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,.6g}")
    known = FIGURES[name]
    axes.set_xlabel(known.title + (f" ({known.unit})" if known.unit else ""), fontsize=8, color=INK)
    _tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0)
    return _drawn(figure, f"comparison-{name}", known.title)


def curves(lines: Sequence[Curve]) -> Chart:
    """Utilisation above and waiting jobs below, over the same time axis."""
    figure = _figure(8.0, 4.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    scale, unit = time_unit(max((float(line.times[-1]) for line in lines if len(line.times)), default=0.0))
    for line, colour in zip(lines, COLOURS, strict=False):
        upper.plot(line.times / scale, line.used * 100, color=colour, linewidth=1.2, label=line.label)
        lower.plot(line.times / scale, line.waiting, color=colour, linewidth=1.2)
    upper.set_ylabel("in use (%)", fontsize=8, color=INK)
    upper.set_ylim(0, 103)
    lower.set_ylabel("jobs waiting", fontsize=8, color=INK)
    lower.set_ylim(bottom=0)
    lower.yaxis.set_major_formatter(lambda value, _place: f"{value:,.6g}")
    lower.set_xlabel(f"time ({unit})", fontsize=8, color=INK)
    for axes in (upper, lower):
        _tidy(axes, grid="y")
        axes.set_xlim(left=0)
    if len(lines) > 1:
        figure.legend(loc="outside upper left", ncols=min(len(lines), 3), fontsize=8, frameon=False)
    return _drawn(figure, "curves", "Utilisation and queue over time")


def gantt(given: Rectangles, name: str, title: str, *, units: int, unit: str) -> Chart:
    """Which job held what and when: each job as a rectangle, or for many jobs, how much of each point was in use.

    Args:
        units, unit: the number of units, and what they are.
    """
    figure = _figure(8.0, 3.0)
    axes = figure.subplots()
    begin = float(given.start.min()) if len(given) else 0.0
    until = max(float(given.end.max()) if len(given) else 0.0, begin + 1e-6)
    units = max(units, int(given.after.max()) if len(given) else 1)
    scale, word = time_unit(until - begin)
    if len(given) > RECTANGLES_MAX:
        _draw_coverage(figure, axes, given, (begin, until, scale), units)
    else:
        _draw_rectangles(axes, given, (begin, until, scale))
    axes.set_ylim(0, units)
    axes.set_xlabel(f"time ({word})", fontsize=8, color=INK)
    axes.set_ylabel(unit, fontsize=8, color=INK)
    _tidy(axes, grid="x")
    if len(given) > RECTANGLES_MAX:
        axes.grid(visible=False)
    return _drawn(figure, name, title)


def _draw_coverage(figure: Any, axes: Any, given: Rectangles, time: tuple[float, float, float], units: int) -> None:
    from matplotlib.colors import PowerNorm

    begin, until, scale = time
    picture = coverage(given, POINTS[0], min(POINTS[1], units), begin_s=begin, until_s=until, units=units)
    extent = (0, (until - begin) / scale, 0, units)
    # The square root of the fraction in use, so that a few short jobs on an idle machine stay visible.
    norm = PowerNorm(0.5, 0, 1)
    image = axes.imshow(picture, origin="lower", aspect="auto", extent=extent, cmap="Blues", norm=norm, interpolation="nearest")
    ticks = [0, 0.1, 0.25, 0.5, 1]
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01, ticks=ticks, format=lambda part, _: f"{part:.0%}")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, colors=INK)
    bar.set_label("in use", fontsize=8, color=INK)


def _draw_rectangles(axes: Any, given: Rectangles, time: tuple[float, float, float]) -> None:
    from matplotlib.collections import PolyCollection

    begin, until, scale = time
    left, right = (given.start - begin) / scale, (given.end - begin) / scale
    corners = ((left, given.first), (right, given.first), (right, given.after), (left, given.after))
    shapes: Any = np.stack([np.stack(corner, -1) for corner in corners], 1)
    paint = [_JOBS[job % len(_JOBS)] for job in given.job.tolist()]
    edges = paint if len(given) > _EDGES_MAX else "white"
    axes.add_collection(PolyCollection(shapes, facecolors=paint, edgecolors=edges, linewidths=0.3))
    axes.set_xlim(0, (until - begin) / scale)


def time_unit(length_s: float) -> tuple[float, str]:
    """Seconds per unit, and the name of the unit, that suit a time axis of this length.

    >>> time_unit(50.0), time_unit(40000.0)
    ((1.0, 's'), (3600.0, 'h'))
    """
    for seconds, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if length_s >= 4 * seconds:
            return seconds, word
    return (1.0, "s") if length_s >= 0.5 else (0.001, "ms")
