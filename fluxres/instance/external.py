"""What others hold in the graph of an instance: earlier jobs, advance reservations, stages (locks).

Others may allocate and free in the graph without calling the instance.  The instance detects this at its next call, because the
revision of the graph differs from the one after its own last change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.clock import FOREVER
from fluxres.errors import InputError
from fluxres.instance import holding, pool_states
from fluxres.model import changes
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.allocation.records import Records
    from fluxres.instance.instance import Instance


def refresh(instance: Instance) -> None:
    """Update an instance after changes by others in its graph: what they hold, when they free it, and states of pools.

    Cost: O(what others hold).
    """
    graph, now = instance._graph, instance._time.now
    changes.expire_stages(graph)
    if instance.inventory.is_stale:
        instance.inventory.refresh()
        instance.queue.reservations_dropped()
    pool_states.propagate(instance)
    records = graph.records
    names = [name for name in records.jobs() if not _is_own(instance, name)]
    if (names or records.stages) and instance.inventory.kind != "graph":
        if instance.is_adaptive:
            instance._adapt(None)
        else:
            holding.record_jobs(instance)  # the graph must not allocate what is running to others
    instance.external_jobs = frozenset(
        name for name in names if name in instance.external_jobs or not instance._ids.is_issued(name)
    )
    ends = {end for name in names for end in records.ends(name)}
    ends.update(min(stage.expires, stage.end) for stage in records.stages.values())
    instance._external_ends = sorted((end for end in ends if now < end < FOREVER), reverse=True)
    inventory = instance.inventory
    if inventory.kind != "graph" and inventory.set_held_by_others(_units_held(records, names, now)):
        instance.queue.reservations_dropped()
    reacquire(instance)
    for other in list(instance.shared.disputing):
        if other is not instance and other.parent is not None:
            reacquire(other)
    inventory.forget_failures()
    inventory.revision = graph.revision
    instance.supplies_returned()
    if instance._external_ends:
        instance._announce(instance._external_ends[-1] - 1)


def reacquire(instance: Instance) -> None:
    """Let late jobs hold again what others have freed of their resources (rule T1)."""
    if instance.is_closed or not instance._disputed:
        instance.shared.disputing.pop(instance, None)
        return
    now = instance.now = instance._time.now
    for number in list(instance._disputed):
        job = instance._jobs.get(number)
        if job is not None and job.limit > now:
            holding.dispute(instance, job, holding.keep(instance, job, job.limit))


def _is_own(instance: Instance, name: str) -> bool:
    try:
        number = fluid.decode(name)
    except InputError:
        return False
    return number in instance._jobs and fluid.encode(number) == name


def _units_held(records: Records, names: list[str], now: int) -> dict[int, int]:
    """By vertex, the most units that others hold, now or later."""
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
