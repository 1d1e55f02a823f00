"""Numbers of units for charts and for the CSV of Batsim, the same throughout a run.

An instance numbers the pools it was given from 0 on.  Whoever looks at the whole machine wants them as the machine has them,
so what a child says is translated once per child.  Units of one pool have no numbers at all: for them the lowest that are free
are written down afterwards, which is one way to lay the jobs out, and the way a chart of them is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from fluxres.graph.kinds import WAY
from fluxres.simulation.schedule import Finished, Sink
from fluxres.syntax import idset

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure


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
        unit: type of the pools that have the numbers.
    """

    def __init__(self, sink: Sink, whole: Structure, unit: str) -> None:
        self.sink = sink
        self.whole = whole
        self.unit = unit
        self.count = 0
        """Jobs that held units with numbers."""
        self._numbers: dict[int, tuple[Structure, list[int]]] = {}

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
        if not job.instance:
            return job.allocated()
        structure: Structure = inventory.graph.structure
        known = self._numbers.get(job.instance)
        if known is None or known[0] is not structure:
            known = self._numbers[job.instance] = (structure, self._translation(structure))
        if inventory.kind == "counted":
            return str(known[1][0]) if len(known[1]) == 1 else ""
        own = job.allocated()
        return idset.format(known[1][at] for at in idset.parse(own)) if own and known[1] else ""

    def _translation(self, own: Structure) -> list[int]:
        """By position in an instance, the position in the machine."""
        if self.unit not in own.types or (self.whole.size[self.whole.of_type(self.unit)] > 1).any():
            return []
        found = own.of_type(self.unit)
        # Pools above what it was given are not the instance's, and have no number there.
        vertices = found[(own.flags[found] & WAY) == 0].tolist()
        return [self._place[self.whole.vertex(own.path(v))] for v in vertices]

    @cached_property
    def _place(self) -> dict[int, int]:
        return {v: at for at, v in enumerate(self.whole.of_type(self.unit).tolist())}


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
