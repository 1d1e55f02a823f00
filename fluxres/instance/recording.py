"""Recording in a graph what a job holds already, in service or not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from fluxres.allocation import plans
from fluxres.clock import FOREVER, seconds
from fluxres.errors import InsufficientResources, NotHeld, UnknownPool, UsageError
from fluxres.model import changes

if TYPE_CHECKING:
    from fluxres.allocation.records import Records
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
    """Allocate pools to a job that holds them already, over [start, end) in ticks.

    Args:
        is_routed: as for `Records.allocate`; jobs of inventories other than the graph draw along no route.

    Errors: InsufficientResources.
    """
    if left := existing(graph, pools):
        with graph.structure.lifted():
            changes.allocate_more(graph, job, left, (start, min(end, FOREVER)), is_routed=is_routed)


def record_available(
    graph: ResourceGraph,
    job: str,
    pools: Sequence[tuple[str, int]],
    start: int,
    now: int,
    end: int,
    *,
    replace: bool,
    is_routed: bool | None = None,
) -> list[str]:
    """As `record`, but if others hold some of it, allocate only what they leave, from now on.

    Of an exclusive pool of which others hold a part, the job gets the remaining parts; of each pool, the units that are left, for
    as long as they are.

    Args:
        replace: free what the job has in the records from now on first.
        is_routed: as for `record`.

    Returns: the paths of what others hold. Cost: if others hold something, a search for each pool of the job.
    """
    accounts = graph.structure.accounts
    if not pools or (start >= end and not replace):
        return []
    with graph.structure.lifted():
        if replace:
            free_rest(graph, job, now)
            start = now
        if not (left := existing(graph, pools)):
            return []
        try:
            changes.allocate_more(graph, job, left, (start, min(end, FOREVER)), is_routed=is_routed)
        except InsufficientResources:
            start = max(start, now)
        else:
            return []
        parts = _split_shared(graph, dict(left), job, start, end)
        # Children first: afterwards an exclusive parent would hold them implicitly.
        taken = [v for v in sorted(parts, reverse=True) if not record_available_units(graph, v, parts[v], job, start, end)]
    return sorted(map(accounts.where, taken))


def free_rest(graph: ResourceGraph, job: str, moment: int) -> None:
    """Free what a job holds from a moment on; nothing happens if it holds nothing."""
    with graph.write_lock:
        changes.expire_stages(graph)
        if graph.records.is_holder(job):  # asked first: the error for an unknown job compares it with the names of all others
            with suppress(NotHeld):
                graph.free(job, start=seconds(moment))


def _split_shared(graph: ResourceGraph, wanted: dict[int, int], job: str, start: int, end: int) -> dict[int, int]:
    """The wanted pools and units, with the parts of each exclusive pool of which others hold a part."""
    accounts, todo = graph.structure.accounts, sorted(wanted)
    while todo:
        v = heappop(todo)
        size, below = accounts.size.item(v), [] if accounts.is_edge(v) else graph.structure.children(v).tolist()
        if below and wanted[v] == size and _free_until(graph, v, size, job, start, end) < end:
            # What the parent instance grants on request is not among these parts (rule N1).
            inside = [u for u in below if accounts.linked is None or not accounts.linked[u]]
            for u in inside:
                if u not in wanted:
                    heappush(todo, u)
                wanted[u] = accounts.size.item(u)
            wanted[v] = size - 1
    return {v: amount for v, amount in wanted.items() if amount}


def existing(graph: ResourceGraph, pools: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """The vertices and units of those pools that are still in the graph, ascending."""
    accounts, found = graph.structure.accounts, []
    for path, amount in pools:
        with suppress(UnknownPool):
            v = accounts.number(path)
            if not accounts.is_way(v):  # it may remain as a pass-through in an auxiliary hierarchy
                found.append((v, amount))
    return sorted(found)


def record_available_units(graph: ResourceGraph, v: int, amount: int, job: str, start: int, end: int) -> bool:
    """Allocate the units of a pool that are left, never more than before; returns whether these are all until the end."""
    at, left = start, amount
    while at < end:
        left = min(left, graph.planner.free(v, at, at + 1))
        if left < 1:
            break
        stop = _free_until(graph, v, left, job, at, end)
        if stop > at:
            try:
                changes.allocate_more(graph, job, [(v, left)], (at, min(stop, FOREVER)))
            except InsufficientResources:  # of a supplier of the parent
                break
            at = stop
        else:
            left -= 1  # others hold something below, so not all units of it can be allocated
    return at == end and left == amount


def _free_until(graph: ResourceGraph, v: int, amount: int, job: str, start: int, end: int) -> int:
    """The last moment, at most `end`, until which units of a pool are free from `start` on; `start` if they are not free."""
    low, high = start, end
    while low < high:
        middle = end if low == start and high == end else (low + high + 1) // 2
        try:
            plans.allocate(graph.records, [(v, amount)], job, start, middle)
        except (InsufficientResources, UsageError):  # UsageError: part of a pool that can only be allocated exclusively
            high = middle - 1
        else:
            low = middle
    return low


def units_held(records: Records, names: list[str], now: int) -> dict[int, int]:
    """By vertex, the most units that these jobs and the stages hold, now or later."""
    found: dict[int, int] = {}
    for name in names:
        for v in records.pools_of[name]:
            most = max((amount for _, end, amount in records.held[v][name] if end > now), default=0)
            if most:
                found[v] = found.get(v, 0) + most
    for stage in records.stages.values():
        for v, amount in stage.targets:
            found[v] = found.get(v, 0) + amount
    return found


class own_changes:  # noqa: N801 - named like `suppress` of contextlib
    """Context in which instances change their graphs themselves, so that they do not take it for a change by others.

    A class, since each start and end of a job passes one, and a generator costs as much as the change.
    """

    __slots__ = ("_known",)

    def __init__(self, *inventories: Inventory) -> None:
        self._known = [inventory for inventory in inventories if inventory.revision == inventory.graph.revision]

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: object) -> None:
        for inventory in self._known:
            inventory.revision = inventory.graph.revision
