"""Charts that compare settings (extra `plot`): metrics with their ratios to the baseline, and courses over time.

All settings of a study share their axes: time starts at 0 with the first submission, and ends with the longest run.  A chart
without anything to see is not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fluxres.arrays import Floats
from fluxres.experiments import style
from fluxres.experiments.comparison import Estimate
from fluxres.experiments.figures import FIGURES, Scale, number, scale, time_unit, title
from fluxres.experiments.style import DASHES, GREY, INK, MAIN, MARKERS, Chart

_FLOOR: Final = 1e-9
"""Below everything on a logarithmic axis."""
LOG_FROM: Final = 10.0
"""Values that differ by more than this factor are drawn on a logarithmic axis, as points instead of bars."""

# -- metrics and ratios ------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """One setting in a chart of a metric.

    Args:
        label: the value that varies fastest.
        group: the other values.
        own, ratio: the metric, and its ratio to the baseline.
        is_base: whether this is the baseline.
    """

    label: str
    group: str
    own: Estimate | None
    ratio: Estimate | None
    is_base: bool


def comparison(bars: Sequence[Bar], name: str, *, against: str = "") -> Chart:
    """A metric of all settings, and next to it the ratios to the baseline, both with 95 % confidence.

    Args:
        against: the baseline in words; empty if there is none.
    """
    places, heads = _places(bars)
    against = against if any(bar.ratio for bar in bars) else ""
    shown = scale(name, [bar.own.mean for bar in bars if bar.own])
    made = style.figure(0.75 + 0.235 * (len(bars) + len(heads)))
    left, *right = made.subplots(1, 2 if against else 1, sharey=True, squeeze=False, width_ratios=[1, 1] if against else [1])[0]
    _panel(left, [bar.own for bar in bars], places, [bar.is_base for bar in bars], shown)
    own_title = title(name, shown)
    style.label(left, x=own_title + _log_mark(left))
    for axes in right:
        _panel(axes, [bar.ratio for bar in bars], places, [bar.is_base for bar in bars], Scale(1.0, ""), around=1.0)
        style.label(axes, x=f"ratio to {against}" + _log_mark(axes))
        axes.tick_params(axis="y", labelleft=False)
    left.set_yticks(places, [bar.label for bar in bars])
    left.tick_params(axis="y", labelcolor=INK)
    for place, text in heads:
        left.text(
            -0.01,
            place,
            text,
            transform=left.get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=8.5,
            weight="bold",
            color=INK,
        )
    left.set_ylim(min(places) - 0.6, max([*places, *(place for place, _ in heads)]) + 0.6)
    return style.drawn(made, f"comparison-{name}", FIGURES[name].title)


def _places(bars: Sequence[Bar]) -> tuple[list[int], list[tuple[int, str]]]:
    """The heights of bars and of the headings of their groups, downwards."""
    places: list[int] = []
    heads: list[tuple[int, str]] = []
    at, last = 0, ""
    for bar in bars:
        if bar.group != last:
            heads.append((at, bar.group))
            at, last = at - 1, bar.group
        places.append(at)
        at -= 1
    return places, heads


def _panel(
    axes: Any,
    values: Sequence[Estimate | None],
    places: Sequence[int],
    bases: Sequence[bool],
    shown: Scale,
    *,
    around: float | None = None,
) -> None:
    """Values with their intervals, and their numbers in a column of their own at the right."""
    means = [each.mean / shown.factor for each in values if each]
    positive = [mean for mean in means if mean > 0]
    is_log = len(positive) == len(means) and bool(means) and max(positive) / min(positive) > LOG_FROM
    is_bar = not is_log and around is None
    if is_log:
        axes.set_xscale("log")
        lows = [max((each.low or each.mean), each.mean / LOG_FROM) / shown.factor for each in values if each]
        axes.set_xlim(
            min(lows) / 1.3, max([*positive, *(each.high / shown.factor for each in values if each and each.high)]) * 1.3
        )
        style.decades(axes.xaxis)
    else:
        ends = [(each.high if each.high is not None else each.mean) / shown.factor for each in values if each]
        reach = max([*means, *(min(end, 2 * max(means)) for end in ends), around or 0.0], default=1.0)
        axes.set_xlim(0, (reach or 1.0) * 1.06)
    for each, place, is_base in zip(values, places, bases, strict=True):
        if each is None:
            continue
        mean, colour = each.mean / shown.factor, GREY if is_base else MAIN
        if is_bar:
            axes.barh([place], [mean], height=0.6, color=colour)
        else:
            axes.plot([mean], [place], marker="s" if is_base else "o", color=colour, markersize=6, linestyle="none")
        if each.low is not None and each.high is not None and each.high - each.low > 1e-9 * abs(each.mean):
            _interval(axes, each.low / shown.factor, each.high / shown.factor, place)
    if around is not None:
        axes.axvline(around, color=GREY, linewidth=1, linestyle="--", zorder=0)
    for each, place in zip(values, places, strict=True):
        axes.text(1.03, place, spread(each, shown), transform=axes.get_yaxis_transform(), va="center", fontsize=8, color=INK)
    style.tidy(axes, grid="x")
    if not is_log:
        style.numbered(axes.xaxis)


def _interval(axes: Any, low: float, high: float, place: int) -> None:
    """A confidence interval; an arrowhead at the edge of the axis marks an end that is beyond it."""
    left, right = axes.get_xlim()
    axes.plot([max(low, left), min(high, right)], [place, place], color=INK, linewidth=1.1, solid_capstyle="butt")
    for edge, marker, is_beyond in ((left, "<", low < left), (right, ">", high > right)):
        if is_beyond:
            axes.plot([edge], [place], marker=marker, color=INK, markersize=5, linestyle="none", clip_on=False, gid="beyond")


def spread(given: Estimate | None, shown: Scale, *, digits: int = 4) -> str:
    """A mean with the half of its confidence interval, or with an interval that is not around it, where there is one."""
    if given is None:
        return "-"
    mean = number(float(f"{given.mean / shown.factor:.{digits}g}") if digits < 4 else given.mean / shown.factor)
    if given.method not in ("", "t") and given.low is not None and given.high is not None:
        low, high = (number(float(f"{bound / shown.factor:.2g}")) for bound in (given.low, given.high))
        return f"{mean} [{low}, {high}]"
    half = given.half / shown.factor
    return mean + (f" ± {number(float(f'{half:.2g}'))}" if given.is_spread else "")


def _log_mark(axes: Any) -> str:
    return ", log scale" if axes.get_xscale() == "log" else ""


# -- over time ---------------------------------------------------------------------------------------------------------


class Quantity(NamedTuple):
    """Something that is shown over time.

    Args:
        title: with its unit.
        is_log: whether its axis is logarithmic.
        is_whole: whether it counts something: no fractions on its axis.
    """

    title: str
    is_log: bool = False
    is_whole: bool = False


class Course(NamedTuple):
    """One setting over time.

    Args:
        label: of the setting.
        times: seconds since the first submission, the edges of the intervals.
        values: averages by the title of the quantity, one for each interval.
        limits: what a quantity cannot exceed, for each interval; not a number for no limit.
        base: the baseline of this setting, None if there is none or it is the baseline itself.
    """

    label: str
    times: Floats
    values: dict[str, Floats]
    limits: dict[str, Floats]
    base: Course | None = None


def over_time(courses: Sequence[Course], quantities: Sequence[Quantity], length_s: float) -> Iterator[Chart]:
    """A row of panels for each setting, with the same axes in all; the baseline is dashed in each."""
    seen = [each for each in quantities if any(course.values[each.title].max(initial=0) > 0 for course in courses)]
    if not seen or not length_s:
        return
    factor, word = time_unit(length_s)
    made = style.figure(0.95 + 0.92 * len(courses))
    grid = made.subplots(len(courses), len(seen), sharex=True, sharey="col", squeeze=False)
    for row, course in zip(grid, courses, strict=True):
        for axes, quantity in zip(row, seen, strict=True):
            _course(axes, course, quantity, factor)
        row[0].set_title(course.label, loc="left", fontsize=8.5, color=INK, pad=4)
    for axes, quantity in zip(grid[0], seen, strict=True):
        most = max(max(course.values[quantity.title].max(initial=0), _largest(course, quantity)) for course in courses)
        if quantity.is_log:
            axes.set_yscale("log")
            axes.set_ylim(bottom=min(_least(course.values[quantity.title]) for course in courses) / 2, top=most * 2)
            style.decades(axes.yaxis, few=True)
        else:
            axes.set_ylim(0, most * 1.05)
            style.numbered(axes.yaxis, whole=quantity.is_whole)
    for axes in grid[-1]:
        axes.set_xlim(0, length_s / factor)
        style.numbered(axes.xaxis)
        style.label(axes, x=f"time ({word})")
    for axes, quantity in zip(grid[0], seen, strict=True):
        above = quantity.title + (", log scale" if quantity.is_log else "")
        axes.set_title(f"{above}\n ", loc="right", fontsize=8.5, color=INK, pad=4)  # a line above the setting, which may be long
    if any(course.base for course in courses):
        made.legend(handles=list(_legend()), loc="outside upper right", ncols=2, fontsize=8, frameon=False, labelcolor=INK)
    yield style.drawn(made, "over-time", "Over time")


def _course(axes: Any, course: Course, quantity: Quantity, factor: float) -> None:
    values = course.values[quantity.title]
    floor = _FLOOR if quantity.is_log else 0.0
    axes.stairs(values, course.times / factor, fill=True, color=MAIN, alpha=0.25, baseline=floor, gid="area")
    axes.stairs(values, course.times / factor, color=MAIN, linewidth=1.1, baseline=None, gid="curve")
    if course.base is not None:
        other = course.base
        axes.stairs(
            other.values[quantity.title],
            other.times / factor,
            color=GREY,
            linewidth=1.1,
            linestyle=DASHES[1],
            baseline=None,
            gid="base",
        )
    if quantity.title in course.limits:
        limits = course.limits[quantity.title]
        axes.stairs(limits, course.times / factor, color=INK, linewidth=0.8, linestyle=DASHES[2], baseline=None, gid="limit")
    style.tidy(axes)


def _largest(course: Course, quantity: Quantity) -> float:
    limits = course.limits.get(quantity.title, np.zeros(0))
    return float(limits[np.isfinite(limits)].max(initial=0))


def _legend() -> Iterator[Any]:
    from matplotlib.lines import Line2D

    yield Line2D([], [], color=MAIN, label="this setting")
    yield Line2D([], [], color=GREY, linestyle=DASHES[1], label="its baseline")


def _least(values: Floats) -> float:
    return float(values[values > 0].min(initial=math.inf))


# -- lines -------------------------------------------------------------------------------------------------------------


def line(axes: Any, x: Sequence[float], y: Sequence[float], number_of_line: int, label: str) -> None:
    """A line that differs from the others of a chart by colour, dashes and marker."""
    at = number_of_line % len(style.PALETTE)
    axes.plot(x, y, color=style.PALETTE[at], linestyle=DASHES[at], marker=MARKERS[at], markersize=4, linewidth=1.3, label=label)
