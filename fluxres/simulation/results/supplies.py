"""What jobs draw from suppliers outside the containment tree, such as the watts of a power graph, over time.

A job draws what its request names, and else what the units it holds draw by themselves (`draw: {power: 400}`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fluxres.arrays import Floats
from fluxres.clock import TICKS_PER_S
from fluxres.graph.draws import Draws
from fluxres.simulation.metrics import Averages
from fluxres.simulation.schedule import Finished
from fluxres.syntax.jobspec import Request

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from fluxres.graph.structure import Structure
    from fluxres.simulation.machine import Machine
    from fluxres.syntax.vertex import Vertex


class Supply(NamedTuple):
    """A supplied type of a machine.

    Args:
        name: of the type.
        graph: that distributes it; requests may name either.
        unit: of its amounts, or empty.
        capacity: units of the outermost suppliers.
        draw: units that one unit of the machine draws by itself.
    """

    name: str
    graph: str
    unit: str
    capacity: int
    draw: float


def supplies_of(machine: Machine) -> Iterator[Supply]:
    """The types that auxiliary graphs distribute in amounts."""
    structure = machine.graph.structure
    for feeds in structure.feeds:
        for number in sorted(feeds.counted):
            name = structure.types[number]
            pools = structure.of_type(name)
            fed = np.union1d(feeds.below, pools[structure.parent[pools] >= structure.tree_end])
            outermost = np.setdiff1d(pools, fed)
            if outermost.size:
                unit = structure.kind_of(int(outermost[0])).unit or ""
                size, graph = int(structure.size[outermost].sum()), feeds.graph.name
                yield Supply(name, graph, unit, size, _draw(structure, {name, graph}, machine.unit))


def _draw(structure: Structure, names: set[str], unit: str) -> float:
    draws = Draws(structure)
    own = [draws.total(name)[structure.of_type(unit)].mean() for name in names.intersection(draws.types)]
    return float(sum(own))


class Drawn:
    """A sink: what jobs drew of one supply, 24 bytes for each job that drew something."""

    def __init__(self, supply: Supply) -> None:
        self.supply = supply
        self._start, self._end, self._amount = array("q"), array("q"), array("d")
        self._asked: dict[int, tuple[Request, float | None]] = {}

    def add(self, job: Finished) -> None:
        amount = self._of(job.ask) if isinstance(job.ask, Request) else None
        amount = job.size * self.supply.draw if amount is None else amount
        if job.start < 0 or not amount:
            return
        for start, end, size in job.spans():
            if end > start:
                self._start.append(start)
                self._end.append(end)
                self._amount.append(amount if size == job.size else amount * size / job.size)

    def close(self) -> None:
        """No-op: nothing is buffered."""

    def _of(self, request: Request) -> float | None:
        """What a request names, None for nothing.  The request is kept, so that its identity stays its own."""
        known = self._asked.get(id(request))
        if known is None:
            known = self._asked[id(request)] = (request, asked(request.resources, {self.supply.name, self.supply.graph}))
        return known[1]

    def over_time(self, begin_s: float, part_s: float, parts: int) -> Floats:
        """Averages over equal intervals; see `Series.over_time`."""
        start, end = (np.frombuffer(own, np.int64) if len(own) else np.zeros(0, np.int64) for own in (self._start, self._end))
        amount = np.frombuffer(self._amount, np.float64) if len(self._amount) else np.zeros(0)
        edges: Floats = ((begin_s + part_s * np.arange(parts + 1)) * TICKS_PER_S).astype(np.float64)
        drawn = Averages(edges)
        drawn.add(start, amount)
        drawn.add(end, -amount)
        return drawn.averages()


def asked(vertices: Sequence[Vertex], names: AbstractSet[str]) -> float | None:
    """Units of a type or graph in a request, by the lowest counts; None if it is not named.

    >>> from fluxres.syntax.jobspec import parse_shape
    >>> asked(parse_shape("slot=3/[node{x};power=400]"), {"power"}), asked(parse_shape("node=2"), {"power"})
    (1200.0, None)
    """
    found = None
    for vertex in vertices:
        count = vertex.count.fixed if vertex.count.fixed is not None else vertex.count.min
        own = 1.0 if vertex.type in names else asked(vertex.children, names)
        if own is not None:
            found = (found or 0.0) + count * own
    return found
