"""Unit numbers for charts and for Batsim's CSV, consistent throughout a run.

An instance numbers the pools it was given from 0 on.  For the whole machine, these are translated to the numbers of the machine,
once per child.  Units of a single pool have no numbers at all; afterwards, the lowest free numbers are assigned to them, which is
one possible layout of the jobs and the one charts show.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fluxres.arrays import Int32, Int64
from fluxres.graph.kinds import WAY
from fluxres.simulation.schedule import Finished, Sink
from fluxres.syntax import idset

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.simulation.machine import Machine


class _TextInventory:
    """Replaces an inventory when what a job held is text already."""

    def ids(self, claim: Any) -> str:
        return str(claim)


_TEXT: Any = _TextInventory()


class AsItWas:
    """What a job held of an inventory when it ended or was interrupted, since its instance may grow and shrink later."""

    def __init__(self, inventory: Any, claim: Any) -> None:
        self.kind = inventory.kind
        self.graph = SimpleNamespace(structure=inventory.graph.structure)
        self._ids: str = inventory.ids(claim)

    def ids(self, _: Any) -> str:
        return self._ids


class Translated:
    """A sink that forwards records with the unit numbers of any instance translated to those of the machine.

    Args:
        sink: receives the records.
        whole: structure of the machine.
        unit: type of the numbered pools.
    """

    def __init__(self, sink: Sink, whole: Structure, unit: str) -> None:
        self.sink = sink
        self.whole = whole
        self.unit = unit
        self.count = 0
        """Number of jobs that held units with numbers."""
        self._numbers: dict[int, tuple[Structure, list[int]]] = {}

    def add(self, job: Finished) -> None:
        if job.claim is None:
            self.sink.add(job)
            return
        text = self._text(job)
        self.count += bool(text)
        earlier = tuple(each._replace(claim=self._text(each), inventory=_TEXT) for each in job.earlier)
        self.sink.add(job._replace(claim=text, inventory=_TEXT, earlier=earlier))

    def close(self) -> None:
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
        """The index in the machine by index in an instance."""
        if self.unit not in own.types or (self.whole.size[self.whole.of_type(self.unit)] > 1).any():
            return []
        found = own.of_type(self.unit)
        # Pass-through pools above what an instance was given have no number in it.
        vertices = found[(own.flags[found] & WAY) == 0].tolist()
        return [self._place[self.whole.vertex(own.path(v))] for v in vertices]

    @cached_property
    def _place(self) -> dict[int, int]:
        return {v: at for at, v in enumerate(self.whole.of_type(self.unit).tolist())}


class UsedUnits:
    """A sink that forwards records, and counts the different units that jobs held at some time.

    Args:
        sink: receives the records.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._units = 0
        self._last = ""

    def add(self, job: Finished) -> None:
        self._count(job)
        for each in job.earlier:
            self._count(each)
        self.sink.add(job)

    def _count(self, job: Finished) -> None:
        text = job.allocated()
        if text != self._last:  # the units of the last job are counted
            self._last = text
            for first, last in idset.ranges(text) if text else ():
                self._units |= ((1 << (last - first + 1)) - 1) << first

    def close(self) -> None:
        self.sink.close()

    @property
    def count(self) -> int:
        return self._units.bit_count()


HOSTS_SHOWN: Final = 9
"""The number of hosts named on the axis of a chart."""


def hosts(machine: Machine, at_most: int = HOSTS_SHOWN) -> list[tuple[int, str]]:
    """Hosts at about equal distances, each with the number of its first unit; empty if units have no names of their own.

    >>> from fluxres.simulation.machine import Machine, of_shape
    >>> hosts(Machine(of_shape("node=4/core=8"), "core"), 2)
    [(0, 'node0'), (16, 'node2')]
    """
    structure = machine.graph.structure
    nodes, first = _hosts(machine)
    step = max(-(-nodes.size // at_most), 1)
    shown = nodes[::step].tolist()
    names = [structure.name(v) for v in shown]
    if len(set(names)) < len(names):
        names = ["/".join(structure.path(v).rsplit("/", 2)[-2:]) for v in shown]
    return list(zip(first[::step].tolist(), names, strict=True))


def host_count(machine: Machine) -> int:
    """The number of all hosts that :func:`hosts` chooses from."""
    return int(_hosts(machine)[0].size)


def _hosts(machine: Machine) -> tuple[Int32, Int64]:
    """The hosts, or units that are in none, and the number of the first unit of each."""
    structure, unit = machine.graph.structure, machine.unit
    units, nodes = structure.of_type(unit), structure.of_type("node")
    if not units.size or (structure.size[units] > 1).any():
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    first = np.searchsorted(units, nodes)
    has_units = (first < units.size) & (units[np.minimum(first, units.size - 1)] < structure.end[nodes])
    nodes, first = nodes[has_units], first[has_units]
    return (nodes, first) if nodes.size else (units, np.arange(units.size))


def laid_out(start: Sequence[int], end: Sequence[int], size: Sequence[int], units: int) -> list[list[int]]:
    """Numbers for jobs that held units without numbers: the lowest that are free at the start of each.

    Args:
        start, end: of each job; start -1 for one that never ran.
        size: units it held.
        units: the number of units there are.

    Cost O(n log n), and O(log units) for each unit of each job.

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
