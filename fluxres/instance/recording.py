"""Writing into a graph what a job holds already, out of service or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fluxres.allocation import plans
from fluxres.clock import FOREVER, seconds
from fluxres.errors import InsufficientResources, NotHeld, UnknownJob, UnknownPool, UsageError
from fluxres.model import changes

if TYPE_CHECKING:
    from fluxres.instance.inventory import Inventory
    from fluxres.model import ResourceGraph


def record(
    graph: ResourceGraph,
    job: str,
    pools: Sequence[tuple[str, int]],
    start: int,
    end: int,
    *,
    is_routed: bool | None = None,
) -> None:
    """Make pools an allocation of the job that holds them, over [start, end) in ticks.

    Args:
        is_routed: as for `Records.allocate`; a job of a fast inventory draws along no route.
    """
    if left := known(graph, pools):
        with graph.structure.lifted():
            changes.allocate_more(graph, job, left, (start, min(end, FOREVER)), is_routed=is_routed)


def hold(
    graph: ResourceGraph,
    job: str,
    pools: Sequence[tuple[str, int]],
    start: int,
    now: int,
    end: int,
    *,
    anew: bool,
    is_routed: bool | None = None,
) -> list[str]:
    """As `record`, where others may hold some of it: the job gets what is left beside them, from now on.

    Of a pool that is held whole, and of which others hold a part, it gets the rest, and of each pool as many units as are left,
    for as long as they are.

    Args:
        anew: instead of what the records say from now on that it holds.
        is_routed: as for `record`.

    Returns: paths of what others hold. Cost: where others hold something, a search for each pool of the job.
    """
    accounts = graph.structure.accounts
    if not pools or (start >= end and not anew):
        return []
    with graph.structure.lifted():
        if anew:
            with suppress(UnknownJob, NotHeld):
                graph.free(job, start=seconds(now))
            start = now
        if not (left := known(graph, pools)):
            return []
        try:
            changes.allocate_more(graph, job, left, (start, min(end, FOREVER)), is_routed=is_routed)
        except InsufficientResources:
            start = max(start, now)
        else:
            return []
        parts = _parts(graph, dict(left), job, start, end)
        # Before what is held whole implies it.
        taken = [v for v in sorted(parts, reverse=True) if not hold_left(graph, v, parts[v], job, start, end)]
    return sorted(map(accounts.where, taken))


def _parts(graph: ResourceGraph, wanted: dict[int, int], job: str, start: int, end: int) -> dict[int, int]:
    """Pools and units, with the parts of each pool that is wanted whole, and of which others hold a part."""
    accounts, todo = graph.structure.accounts, sorted(wanted)
    while todo:
        v = heappop(todo)
        size, below = accounts.size.item(v), [] if accounts.is_edge(v) else graph.structure.children(v).tolist()
        if below and wanted[v] == size and _free_until(graph, v, size, job, start, end) < end:
            # What the enclosing instance gives on request is no part of the whole (rule N1).
            inside = [u for u in below if accounts.linked is None or not accounts.linked[u]]
            for u in inside:
                if u not in wanted:
                    heappush(todo, u)
                wanted[u] = accounts.size.item(u)
            wanted[v] = size - 1
    return {v: amount for v, amount in wanted.items() if amount}


def known(graph: ResourceGraph, pools: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """Vertices and units of those pools that have not been taken out of the graph, ascending."""
    accounts, found = graph.structure.accounts, []
    for path, amount in pools:
        with suppress(UnknownPool):
            v = accounts.number(path)
            if not accounts.is_way(v):  # such as one that an auxiliary hierarchy still has
                found.append((v, amount))
    return sorted(found)


def hold_left(graph: ResourceGraph, v: int, amount: int, job: str, start: int, end: int) -> bool:
    """Units of one pool, as many as are left, and no more at any moment than before; whether that is all of them to the end."""
    at, left = start, amount
    while at < end:
        left = min(left, graph.planner.free(v, at, at + 1))
        if left < 1:
            break
        stop = _free_until(graph, v, left, job, at, end)
        if stop > at:
            try:
                changes.allocate_more(graph, job, [(v, left)], (at, min(stop, FOREVER)))
            except InsufficientResources:  # of a supplier that the parent has
                break
            at = stop
        else:
            left -= 1  # all units of it cannot be had where others hold something below
    return at == end and left == amount


def _free_until(graph: ResourceGraph, v: int, amount: int, job: str, start: int, end: int) -> int:
    """The last moment up to `end` until which units of a pool are free from `start` on; `start` where they are not."""
    low, high = start, end
    while low < high:
        middle = end if low == start and high == end else (low + high + 1) // 2
        try:
            plans.allocate(graph.records, [(v, amount)], job, start, middle)
        except (InsufficientResources, UsageError):  # a part of a pool that is only allocated exclusively
            high = middle - 1
        else:
            low = middle
    return low


@contextmanager
def ours(*inventories: Inventory) -> Iterator[None]:
    """Changes of their graphs that instances make themselves: nothing to notice, unless there was before."""
    known = [inventory for inventory in inventories if inventory.revision == inventory.graph.revision]
    try:
        yield
    finally:
        for inventory in known:
            inventory.revision = inventory.graph.revision
