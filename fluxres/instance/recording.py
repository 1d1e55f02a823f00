"""Writing into a graph what a job holds already, out of service or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from fluxres.clock import FOREVER, seconds
from fluxres.errors import InsufficientResources, NotHeld, UnknownJob, UnknownPool
from fluxres.model import changes
from fluxres.model.extending import lifted

if TYPE_CHECKING:
    from fluxres.instance.inventory import Inventory
    from fluxres.model import ResourceGraph


def record(graph: ResourceGraph, job: str, pools: Sequence[tuple[str, int]], start: int, end: int) -> None:
    """Make pools an allocation of the job that holds them, over [start, end) in ticks."""
    with lifted(graph.structure):
        changes.allocate(graph, job, pools, (start, min(end, FOREVER)))


def hold(
    graph: ResourceGraph, job: str, pools: Sequence[tuple[str, int]], start: int, now: int, end: int, *, anew: bool
) -> list[str]:
    """As `record`, where others may hold some of it: the job gets what is left beside them, from now on.

    Of a pool that is held whole, and of which others hold a part, it gets the rest.  What it does not get up to the end it gets
    for as long as that is free.

    Args:
        anew: instead of what the records say from now on that it holds.

    Returns: paths of what others hold. Cost: where others hold something, a search for each pool of the job.
    """
    structure = graph.structure
    if not pools:
        return []
    with lifted(graph.structure):
        if anew:
            with suppress(UnknownJob, NotHeld):
                graph.free(job, start=seconds(now))
            start = now
        try:
            changes.allocate(graph, job, pools, (start, min(end, FOREVER)))
        except (InsufficientResources, UnknownPool):
            start = max(start, now)
        else:
            return []
        taken: list[str] = []
        todo: list[tuple[int, int]] = []
        for path, amount in pools:
            with suppress(UnknownPool):  # it has been taken out of the graph
                todo.append((structure.vertex(path), amount))
        while todo:
            v, amount = todo.pop()
            stop = _free_until(graph, v, amount, job, start, end)
            if stop < end and amount == structure.size.item(v) and structure.end.item(v) > v + 1:
                todo += [(u, structure.size.item(u)) for u in structure.children(v).tolist()]
                continue
            if stop > start:
                changes.allocate(graph, job, [(v, amount)], (start, min(stop, FOREVER)))
            if stop < end:
                taken.append(structure.where(v))
    return sorted(taken)


def _free_until(graph: ResourceGraph, v: int, amount: int, job: str, start: int, end: int) -> int:
    """The last moment up to `end` until which units of a pool are free from `start` on; `start` where they are not."""
    low, high = start, end
    while low < high:
        middle = end if low == start and high == end else (low + high + 1) // 2
        try:
            graph.records.plan_allocate([(v, amount)], job, start, middle)
        except InsufficientResources:
            high = middle - 1
        else:
            low = middle
    return low


@contextmanager
def ours(inventory: Inventory) -> Iterator[None]:
    """A change of the graph that an instance makes itself: nothing to notice, unless there was before."""
    graph = inventory.graph
    is_known = inventory.revision == graph.revision
    try:
        yield
    finally:
        if is_known:
            inventory.revision = graph.revision
