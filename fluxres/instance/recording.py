"""Writing into a graph what a job holds already, out of service or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fluxres.clock import FOREVER
from fluxres.model import changes
from fluxres.model.extending import lifted

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph


def record(graph: ResourceGraph, job: str, pools: Sequence[tuple[str, int]], start: int, end: int) -> None:
    """Make pools an allocation of the job that holds them, over [start, end) in ticks."""
    with lifted(graph.structure):
        changes.allocate(graph, job, pools, (start, min(end, FOREVER)))
