"""Which job held what and when: Gantt charts from a `jobs.csv`.

A chart of a few thousand jobs has a rectangle for each; a hundred thousand are not visible.  Then each point of a picture shows
how much of it is in use.  This is exact, computed by area and not by sampling.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from fluxres.arrays import Floats, Int64
from fluxres.errors import InputError
from fluxres.experiments import style
from fluxres.experiments.figures import time_unit
from fluxres.experiments.style import OTHERS, PALETTE, PAPER, Chart
from fluxres.simulation.disturbances.blocked import OUT_OF_SERVICE, RESERVED
from fluxres.syntax import idset

# -- jobs on units over time -------------------------------------------------------------------------------------------


class Rectangles(NamedTuple):
    """What jobs held, one row per run of consecutive unit numbers.

    Args:
        start, end: seconds.
        first, after: unit numbers.
        job: number of the job it belongs to.
        names: of the jobs.
        users: of the jobs, empty where unknown.
    """

    start: Floats
    end: Floats
    first: Floats
    after: Floats
    job: Int64
    names: Sequence[str] = ()
    users: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.start)

    def area(self) -> float:
        """Seconds times units."""
        return float(((self.end - self.start) * (self.after - self.first)).sum())


def rectangles(path: Path) -> Rectangles:
    """The rectangles of a `jobs.csv`.

    Errors: InputError with the line, if it is not such a file.
    """
    rows: list[tuple[float, float, float, float]] = []
    jobs: list[int] = []
    names: list[str] = []
    users: list[str] = []
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        try:
            for line in lines:
                if not line["starting_time"] or not line["allocated_resources"]:
                    continue
                start, end = float(line["starting_time"]), float(line["finish_time"])
                for word in line["allocated_resources"].split(" "):
                    low, _, high = word.partition("-")
                    rows.append((start, end, float(low), float(high or low) + 1))
                    jobs.append(len(names))
                names.append(line.get("job_id") or "")
                users.append((line.get("metadata") or "").removeprefix("user="))
        except (KeyError, ValueError, TypeError):
            raise InputError("not a table of jobs written by fluxres", where=f"{path}:{lines.line_num}") from None
    start_s, end_s, low_unit, high_unit = np.array(rows, np.float64).reshape(-1, 4).T
    return Rectangles(start_s, end_s, low_unit, high_unit, np.array(jobs, np.int64), names, users)


def blocked(given: Iterable[Mapping[str, Any]]) -> dict[str, Rectangles]:
    """The rectangles of units that jobs could not have, by kind, from the document of a run."""
    rows: dict[str, list[tuple[float, float, float, float]]] = {}
    for each in given:
        own = rows.setdefault(each["kind"], [])
        own += [(each["start"], each["end"], first, last + 1) for first, last in idset.ranges(each["units"])]
    found = {}
    for kind, own in rows.items():
        start, end, first, after = np.array(own, np.float64).reshape(-1, 4).T
        found[kind] = Rectangles(start, end, first, after, np.zeros(len(own), np.int64))
    return found


def coverage(given: Rectangles, width: int, height: int, *, until_s: float, units: int, begin_s: float = 0.0) -> Floats:
    """The fraction in use of each point of a picture, from 0 to 1; row 0 has the lowest units.

    Args:
        width, height: of the picture; time goes to the right, units upwards.
        begin_s, until_s: the time shown.
        units: the units shown.

    Cost: O(rectangles + points). A rectangle is at least half a point wide, so that short jobs are visible.

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


def _split(x: Floats) -> tuple[Int64, Floats]:
    whole = np.floor(x)
    return whole.astype(np.int64), x - whole


# -- the chart ---------------------------------------------------------------------------------------------------------

RECTANGLES_MAX: Final = 2_000
"""Up to this number, rectangles are drawn one by one; above it, a chart shows how much is in use."""
POINTS: Final = (600, 200)
"""Size of that picture in points."""
JOBS_NAMED_MAX: Final = len(PALETTE)
"""Up to this number, jobs have a colour of their own, with their names in a legend."""
USERS_NAMED_MAX: Final = 5
"""The number of users with a colour of their own: those whose jobs held most."""
HATCHES: Final = ("", "////", "....", "xxxx", "----", "||||")
"""Of the colours with a name in a legend: nothing is distinguished by colour alone."""

CLOSED_HATCHES: Final = {OUT_OF_SERVICE: "xxxxx", RESERVED: "\\\\\\"}
"""Of what jobs could not have."""
NOTHING_CLOSED: Final[Mapping[str, Rectangles]] = {}

_EDGES_MAX: Final = 400
"""Up to this number, rectangles have edges; of more, only the edges would be visible."""


_HIGH_ROWS_MAX: Final = 16
"""Up to this number of hosts, the row of each is higher than its name."""


class Span(NamedTuple):
    """The time axis that the charts of a study share: `begin_s` is its zero, and it ends after `length_s`."""

    begin_s: float
    length_s: float


class Units(NamedTuple):
    """The units of a machine.

    Args:
        number: of them.
        name: what they are.
        hosts: some of the hosts: the number of the first unit, and the name.
        host_count: the number of all hosts; 0 if it is unknown.
    """

    number: int
    name: str
    hosts: Sequence[tuple[int, str]] = ()
    host_count: int = 0


def gantt(
    given: Rectangles, name: str, title: str, *, span: Span, units: Units, closed: Mapping[str, Rectangles] = NOTHING_CLOSED
) -> Chart:
    """Each job as a rectangle, or for many jobs, how much of each point was in use.

    Args:
        closed: by kind, the units that jobs could not have.
    """
    made = style.figure(2.7)
    axes = made.subplots()
    scale, word = time_unit(span.length_s)
    style.tidy(axes, grid="x")
    entries = _draw_closed(axes, closed, (*span, scale))
    if len(given) > RECTANGLES_MAX:
        _draw_coverage(made, axes, given, (*span, scale), units.number)
    else:
        entries = [*_draw_rectangles(axes, given, (*span, scale)), *entries]
    if entries:
        made.legend(
            handles=entries, loc="outside upper left", ncols=len(entries), fontsize=8, frameon=False, labelcolor=style.INK
        )
    axes.set_xlim(0, span.length_s / scale)
    axes.set_ylim(0, max(units.number, int(given.after.max(initial=1))))
    style.numbered(axes.xaxis)
    if units.hosts:
        # Names stand in the middle of the rows of their hosts if these are higher than the text.
        is_high = 0 < units.host_count <= _HIGH_ROWS_MAX
        up = units.number / units.host_count / 2 if is_high else 0
        names = [text for _, text in units.hosts]
        axes.set_yticks([at + up for at, _ in units.hosts], names, va="center" if is_high else "bottom")
    else:
        style.numbered(axes.yaxis)
    style.label(axes, x=f"time ({word})", y="" if units.hosts else units.name)
    return style.drawn(made, name, title)


def _draw_closed(axes: Any, closed: Mapping[str, Rectangles], time: tuple[float, float, float]) -> list[Any]:
    """Draw what jobs could not have, behind them; returns the entries of a legend."""
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path as Outline

    begin, _, scale = time
    entries = []
    for kind, hatch in CLOSED_HATCHES.items():
        if kind in closed:
            look: Any = {"facecolor": "none", "edgecolor": style.MUTED, "hatch": hatch, "linewidth": 0.4}
            outline = Outline.make_compound_path_from_polys(_shapes(closed[kind], begin, scale))
            axes.add_patch(PathPatch(outline, gid="closed", zorder=0.5, **look))
            entries.append(Patch(label=kind, **look))
    return entries


def _shapes(given: Rectangles, begin: float, scale: float) -> Any:
    left, right = (given.start - begin) / scale, (given.end - begin) / scale
    corners = ((left, given.first), (left, given.after), (right, given.after), (right, given.first))
    return np.stack([np.stack(corner, -1) for corner in corners], 1)


def _draw_coverage(made: Any, axes: Any, given: Rectangles, time: tuple[float, float, float], units: int) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    begin, length, scale = time
    picture = coverage(given, POINTS[0], min(POINTS[1], units), begin_s=begin, until_s=begin + length, units=units)
    # Transparent where nothing is in use, so that the paper shows.  The square root of the fraction in use, so that a few short
    # jobs on an idle machine stay visible.
    clear = LinearSegmentedColormap.from_list("use", [f"{PALETTE[0]}00", f"{PALETTE[0]}ff"])
    extent = (0, length / scale, 0, units)
    image = axes.imshow(
        picture, origin="lower", aspect="auto", extent=extent, cmap=clear, norm=PowerNorm(0.5, 0, 1), interpolation="nearest"
    )
    bar = made.colorbar(
        image, ax=axes, fraction=0.03, pad=0.01, ticks=[0, 0.1, 0.25, 0.5, 1], format=lambda part, _: f"{part:.0%}"
    )
    bar.outline.set_visible(False)
    style.tidy(bar.ax, grid="")
    style.label(bar.ax, y="in use")
    axes.grid(visible=False)


def _draw_rectangles(axes: Any, given: Rectangles, time: tuple[float, float, float]) -> list[Any]:
    """Draw the jobs; returns the entries of a legend."""
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path as Outline

    begin, _, scale = time
    shapes = _shapes(given, begin, scale)
    colours, legend = _colours(given)
    paint = np.array([colours[job] for job in given.job.tolist()])
    for colour in np.unique(paint).tolist():
        # One path for each colour takes a third of the bytes of one for each rectangle.
        hatch = HATCHES[PALETTE.index(colour)] if legend and colour in PALETTE and len(given) <= _EDGES_MAX else ""
        outline = Outline.make_compound_path_from_polys(shapes[paint == colour])
        edge = colour if len(given) > _EDGES_MAX else PAPER
        axes.add_patch(PathPatch(outline, facecolor=colour, edgecolor=edge, linewidth=0.4, hatch=hatch, gid="jobs"))
    hatches = {colour: HATCHES[at] for at, colour in enumerate(PALETTE)} if len(given) <= _EDGES_MAX else {}
    return [
        Patch(facecolor=colour, edgecolor=PAPER, hatch=hatches.get(colour, ""), label=text) for text, colour in legend.items()
    ]


def _colours(given: Rectangles) -> tuple[list[str], dict[str, str]]:
    """The colour of each job, and a legend: by user where jobs have one, by job if there are few; else neighbours differ."""
    if any(given.users):
        return _by_user(given)
    legend = {f"job {name}": PALETTE[at] for at, name in enumerate(given.names)} if len(given.names) <= JOBS_NAMED_MAX else {}
    return [PALETTE[at % len(PALETTE)] for at in range(max(len(given.names), int(given.job.max(initial=-1)) + 1))], legend


def _by_user(given: Rectangles) -> tuple[list[str], dict[str, str]]:
    held: Counter[str] = Counter()
    area = (given.end - given.start) * (given.after - given.first)
    for job, own in zip(given.job.tolist(), area.tolist(), strict=True):
        held[given.users[job]] += own
    first = [user for user, _ in held.most_common() if user][:USERS_NAMED_MAX]
    known = dict(zip(first, PALETTE, strict=False))
    others = len(held) - len(known)
    legend = {f"user {user}": colour for user, colour in known.items()} | (
        {f"{others} other{'s' * (others > 1)}": OTHERS} if others else {}
    )
    return [known.get(user, OTHERS) for user in given.users], legend
