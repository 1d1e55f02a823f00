"""Jobs on units over time, as rectangles and as a picture of a fixed size.

A few thousand rectangles can be drawn; a hundred thousand are not visible.  Then each point of the picture shows how much of it
is in use.  This is exact, computed by area and not by sampling.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import InputError

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
