"""A scheduling decision, as a cost model sees it."""

from __future__ import annotations

import math
from typing import NamedTuple


class Decision(NamedTuple):
    """One decision, as a cost model sees it.

    Args:
        considered: starts and reservations that were tried.
        started: 1 if a job was started, else 0.
        queued: waiting jobs.
        size: units of the machine of the instance.
        took_s: processor time that it took here; 0 unless the model measures.
        units: what the job that was started holds, in the same units.
        is_first: whether it is the first decision of its instance that tries a job, which makes tables that later ones use.
        pools: the number of pools that the job that was started gets something of; 0 unless the model `sees_pools`.
        asked: units that all jobs that were tried request together.
        free: units that were free before; 0 unless the model `sees_load`.
        held: jobs that held or had reserved something before; 0 unless the model `sees_load`.
        cores: of a unit of the machine; 1 for a machine without cores.
    """

    considered: int
    started: int
    queued: int
    size: int
    took_s: float
    units: int = 0
    is_first: bool = False
    pools: int = 0
    asked: int = 0
    free: int = 0
    held: int = 0
    cores: float = 1.0

    @property
    def doublings(self) -> float:
        """The logarithm of `pools` to the base 2; 0 for none."""
        return math.log2(self.pools) if self.pools > 1 else 0.0
