"""Writing into a graph what a job holds already, out of service or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from fluxres.clock import FOREVER, seconds
from fluxres.graph.kinds import STATES

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


@contextmanager
def lifted(graph: ResourceGraph) -> Iterator[None]:
    """As if everything were in service: rule A7 is about new work, and a job that runs on a drained node is none."""
    structure = graph.structure
    if not len(structure.unavailable_roots()):
        yield
        return
    before = structure.state.copy()
    structure.set_state(np.flatnonzero(before).astype(np.int32), "up")
    try:
        yield
    finally:
        for code in np.unique(before).tolist():
            structure.set_state(np.flatnonzero(before == code).astype(np.int32), STATES[code])


def record(graph: ResourceGraph, job: str, pools: Sequence[tuple[str, int]], start: int, end: int) -> None:
    """Make pools an allocation of the job that holds them, over [start, end) in ticks."""
    with lifted(graph):
        graph.allocate(pools, job=job, start=seconds(start), end=None if end >= FOREVER else seconds(end))
