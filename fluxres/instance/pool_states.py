"""States of pools in the graphs of a tree of instances, and which jobs a pool that is down concerns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import UnknownPool, UsageError
from fluxres.graph.kinds import UNAVAILABLE_STATES
from fluxres.instance.inventory import Inventory
from fluxres.instance.job import Job
from fluxres.model import targets
from fluxres.model.targets import Targets
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import ResourceGraph


def changed_states(before: tuple[Structure, NDArray[np.uint8]], structure: Structure) -> Iterator[tuple[str, int]]:
    """Pools whose state differs from before, with the code of the new one.

    Cost: O(pools) to compare the states; the names of the changed pools, or after a change of shape of all that are not up.
    """
    if structure is before[0]:
        changed = np.flatnonzero(structure.state != before[1]).tolist()
        yield from ((structure.where(v), structure.state.item(v)) for v in changed)
        return
    old = {before[0].where(v): before[1].item(v) for v in np.flatnonzero(before[1]).tolist()}
    new = {structure.where(v): structure.state.item(v) for v in np.flatnonzero(structure.state).tolist()}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name, 0) != new.get(name, 0):
            yield name, new.get(name, 0)


def require_in_service(graph: ResourceGraph, where: Targets, parent: ResourceGraph, address: str) -> None:
    """Refuse to put pools in service that are out of service in the parent (rule A7).

    Args:
        address: of the parent.

    Errors: UsageError.
    """
    mine, theirs = graph.structure, parent.structure
    for v, _ in targets.resolve(graph, where):
        with suppress(UnknownPool):  # the parent no longer has it
            above = theirs.state_name(theirs.vertex(mine.where(v)))
            if above in UNAVAILABLE_STATES:
                hint = "set the state there; it applies here too"
                raise UsageError(f"it is {above} in {address}", where=mine.where(v), hint=hint)


def has_pool(graph: ResourceGraph, where: str) -> bool:
    try:
        graph.structure.vertex(where)
    except UnknownPool:
        return False
    return True


def lost_pool(graph: ResourceGraph, inventory: Inventory, job: Job, vertices: list[int]) -> int | None:
    """One of these pools that a job holds, of which it holds something below, or which it holds implicitly; None without any."""
    end = graph.structure.end
    near = ((u, v) for u in inventory.vertices(job.claim) for v in vertices if u < end.item(v) and v < end.item(u))
    return next((v for u, v in near if u >= v or _holds_inside(graph, inventory, job, u, v)), None)


def _holds_inside(graph: ResourceGraph, inventory: Inventory, job: Job, u: int, v: int) -> bool:
    """Whether a job that holds units of `u` implicitly holds `v` below it; not with a part of `u`, nor if it draws elsewhere."""
    structure = graph.structure
    if (structure.where(u), structure.size.item(u)) not in inventory.pools(job.claim):
        return False
    implied = graph.records.implied.get(fluid.encode(job.number), {}) if u >= structure.tree_end else {}
    drawn = [w for w in implied if u < w < structure.end.item(u)]
    return not drawn or any(v <= w < structure.end.item(v) for w in drawn)
