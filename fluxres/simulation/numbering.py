"""Numbers of units for charts and for the CSV of Batsim, the same throughout a run.

An instance numbers the pools it was given from 0 on.  Whoever looks at the whole machine wants them as the machine has them,
so what a child says is translated once per child.  Units of one pool have no numbers at all: for them the lowest that are free
are written down afterwards, which is one way to lay the jobs out, and the way a chart of them is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fluxres.simulation.schedule import Finished, Sink
from fluxres.syntax import idset

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.inventory import Inventory


class _Said:
    """In place of an inventory: what a job held is already text."""

    def ids(self, claim: Any) -> str:
        return str(claim)


_SAID: Any = _Said()


class Translated:
    """A sink before another one: unit numbers of any instance become those of the machine.

    Args:
        sink: gets the records.
        whole: structure of the machine.
    """

    def __init__(self, sink: Sink, whole: Structure) -> None:
        self.sink = sink
        self.whole = whole
        self.count = 0
        """Jobs that held units with numbers."""
        self.unit = ""
        """Type of the units that have the numbers."""
        self._numbers: dict[int, tuple[Structure, NDArray[np.int64] | None]] = {}
        self._of_type: dict[str, dict[int, int]] = {}

    def add(self, job: Finished) -> None:
        """One more."""
        if job.claim is None:
            self.sink.add(job)
            return
        text = self._text(job)
        self.count += bool(text)
        self.sink.add(job._replace(claim=text, inventory=_SAID))

    def close(self) -> None:
        """That was all."""
        self.sink.close()

    def _text(self, job: Finished) -> str:
        inventory: Any = job.inventory
        self.unit = self.unit or _type(inventory)
        if not job.instance:
            return job.allocated()
        structure, numbers = self._numbers.get(job.instance, (None, None))
        if structure is not inventory.graph.structure:
            structure = inventory.graph.structure
            numbers = self._translation(inventory)
            self._numbers[job.instance] = (structure, numbers)
        if numbers is None:
            return ""
        if inventory.kind == "counted":
            return str(numbers[0])
        return idset.format(numbers[idset.parse(job.allocated())].tolist()) if job.allocated() else ""

    def _translation(self, inventory: Inventory) -> NDArray[np.int64] | None:
        """By position in the instance, the position in the machine; None where there are no numbers."""
        given: Any = inventory
        own: Structure = given.graph.structure
        kind = _type(given)
        if kind not in own.types or (given.kind == "counted" and given.size != 1):
            return None
        if kind not in self._of_type:
            self._of_type[kind] = {v: at for at, v in enumerate(self.whole.of_type(kind).tolist())}
        place = self._of_type[kind]
        return np.array([place[self.whole.vertex(own.path(v))] for v in own.of_type(kind).tolist()], np.int64)


def _type(inventory: Any) -> str:
    """The type whose positions an inventory says."""
    return "node" if inventory.kind == "graph" else str(inventory.measure)


def laid_out(start: Sequence[int], end: Sequence[int], size: Sequence[int], units: int) -> list[list[int]]:
    """Numbers for jobs that held units without numbers: the lowest that are free at the start of each.

    Args:
        start, end: of each job; start -1 for one that never ran.
        size: units it held.
        units: how many there are.

    Cost O(n log n) and O(log units) for each unit of each job.

    >>> laid_out([0, 0, 5], [5, 9, 6], [2, 1, 1], 3)
    [[0, 1], [2], [0]]
    """
    found: list[list[int]] = [[] for _ in start]
    free = list(range(units))
    heapify(free)
    running: list[tuple[int, int]] = []
    for at in sorted(range(len(start)), key=lambda at: (start[at], end[at])):
        if start[at] < 0 or start[at] == end[at]:
            continue
        while running and running[0][0] <= start[at]:
            for number in found[heappop(running)[1]]:
                heappush(free, number)
        found[at] = [heappop(free) for _ in range(min(size[at], len(free)))]
        heappush(running, (end[at], at))
    return found
