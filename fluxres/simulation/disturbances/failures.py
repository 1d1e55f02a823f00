"""A model of failures: each pool of a type works and is repaired in turns, for times of a Weibull distribution.

With shape 1 this is the exponential distribution: a pool fails at the same rate however long it has worked.  Below 1, it fails
more often soon after a repair.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from math import gamma
from random import Random
from typing import TYPE_CHECKING

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.errors import UsageError
from fluxres.simulation.disturbances.external import ExternalEvent
from fluxres.syntax import parameters

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure


@dataclass(frozen=True)
class PoolFailures:
    """Failures of all pools of a type, without end.

    Each pool has a random sequence of its own, which depends on nothing but the seed and its path: the same pools fail at the
    same times under every policy, and whatever else the machine has.

    Args:
        mtbf_s: mean time from a repair to the next failure of one pool.
        mttr_s: mean time to repair.
        shape, repair_shape: of the Weibull distributions of these times.
        each: type of the pools that fail.

    >>> from fluxres.simulation.machine import of_shape
    >>> events = PoolFailures(3600.0, 60.0, each="node", seed=1).events(of_shape("node=2").structure)
    >>> [(event.action, event.target) for _, event in zip(range(3), events)]
    [('down', '/cluster/node0'), ('up', '/cluster/node0'), ('down', '/cluster/node1')]
    """

    mtbf_s: float
    mttr_s: float
    shape: float = 1.0
    repair_shape: float = 1.0
    each: str = "node"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("mtbf_s", "mttr_s", "shape", "repair_shape"):
            value = getattr(self, name)
            if not 1e-3 <= value <= 1e12:
                raise UsageError(f"{name}: expected 0.001 to 1e12, got {value!r:.80}", where="failures")

    def require(self, structure: Structure) -> None:
        """Errors: UsageError for a machine that does not have pools of the type, or only one with units that have no names."""
        if self.each not in structure.types:
            there = f"it has {', '.join(structure.types)}: choose one with each=TYPE, or give a machine with nodes: node=100"
            raise UsageError(f"the machine has no {self.each!r:.80}", where="failures", hint=there)
        if (structure.size[structure.of_type(self.each)] > 1).any():
            raise UsageError(
                f"units of one {self.each} have no names, and cannot fail one by one",
                where="failures",
                hint="give a machine with names: node=100",
            )

    def events(self, structure: Structure) -> Iterator[ExternalEvent]:
        """Failures and repairs, ascending by time.

        Errors: UsageError for a type that the machine does not have.
        """
        self.require(structure)
        heap = []
        for number, v in enumerate(structure.of_type(self.each).tolist()):
            path = structure.path(v)
            own = Random(f"{self.seed} {path}")
            heap.append((self._length(own, self.mtbf_s, self.shape), number, "down", path, own))
        heapq.heapify(heap)
        while heap and heap[0][0] < FOREVER:
            at, number, action, path, own = heap[0]
            yield ExternalEvent(at, action, path)
            if action == "down":
                after = at + self._length(own, self.mttr_s, self.repair_shape), number, "up", path, own
            else:
                after = at + self._length(own, self.mtbf_s, self.shape), number, "down", path, own
            heapq.heapreplace(heap, after)

    @staticmethod
    def _length(own: Random, mean_s: float, shape: float) -> int:
        return max(round(own.weibullvariate(mean_s / gamma(1.0 + 1.0 / shape), shape) * TICKS_PER_S), 1)


def parse(text: str, seed: int = 0) -> PoolFailures:
    """Failures from a command line: ``mtbf=30d,mttr=4h``, optionally with shape, repair_shape and each.

    Errors: UsageError.

    >>> parse("mtbf=30d,mttr=4h,shape=0.7", seed=3)
    PoolFailures(mtbf_s=2592000.0, mttr_s=14400.0, shape=0.7, repair_shape=1.0, each='node', seed=3)
    """
    known = parameters.of(PoolFailures, without=("seed",))
    return PoolFailures(**parameters.read(text, known, "failures"), seed=seed)
