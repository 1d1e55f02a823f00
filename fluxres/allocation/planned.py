"""Checked changes as values: what :mod:`fluxres.allocation.plans` returns and the records apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fluxres.allocation import steps
from fluxres.allocation.drawn import NO_ROWS, Rows
from fluxres.allocation.steps import Steps
from fluxres.graph.auxiliary import Int32

Target = tuple[int, int]
"""A vertex and an amount of its units."""
Piece = tuple[int, int, int, int]
"""A vertex, an amount of its units, and the window (start, end) over which they are freed."""


@dataclass(frozen=True, slots=True)
class Batch:
    """All that one job holds, over one window: what a match gave to a job that held nothing before.

    Args:
        vertices: int32, ascending, each once, none below another that is held exclusively.
        amounts: int64, units of each.
        covered: those of more than one unit that are held exclusively and have pools below.
        start, end: window in ticks.
        drawn: for which pools parts of it were drawn.
    """

    vertices: Int32
    amounts: NDArray[np.int64]
    covered: list[int]
    start: int
    end: int
    drawn: Rows = field(default_factory=lambda: NO_ROWS)

    def pieces(self) -> list[Piece]:
        """The pieces that free all of it."""
        window = (self.start, self.end)
        return [(v, amount, *window) for v, amount in zip(self.vertices.tolist(), self.amounts.tolist(), strict=True)]


@dataclass(slots=True)
class Change:
    """One checked step of an allocation: units of one pool.

    Args:
        covers: windows in which the owner comes to hold the pool exclusively.
        absorbs: records of the owner below the pool that are implied from now on: (vertex, start, end).
        implied: windows in which an exclusive pool of the owner implies these units, so that nothing is recorded.
    """

    v: int
    amount: int
    covers: list[tuple[int, int]]
    absorbs: list[tuple[int, int, int]]
    implied: list[tuple[int, int]] = field(default_factory=list)


Planned = tuple[tuple[int, int], list[Change]]
"""A window, and the changes in it."""


def freed(pieces: Iterable[Piece]) -> dict[int, Steps]:
    """By vertex, the units over time that pieces free."""
    gone: dict[int, Steps] = {}
    for v, amount, s, e in pieces:
        gone[v] = steps.add(gone.get(v, ()), s, e, amount)
    return gone
