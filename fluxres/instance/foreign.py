"""What others hold in the graph of an instance: jobs that were there before, advance reservations, pools that are locked.

Others may allocate in the graph and free what they hold without calling the instance.  It notices by the revision of the graph,
which it knows as long as nothing but itself changes anything, at the next call at the latest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.clock import FOREVER
from fluxres.errors import InputError
from fluxres.instance import down, holding
from fluxres.model import changes
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.allocation.records import Records
    from fluxres.instance.instance import Instance


def look(instance: Instance) -> None:
    """See anew what others hold and when they give it back; what waits may start now, or at one of these moments.

    Cost: O(what others hold).
    """
    graph, now = instance._graph, instance._time.now
    changes.expire_stages(graph)
    if instance.inventory.is_stale:
        instance.inventory.refresh()
        instance.queue.cleared()
    down.follow(instance)
    records = graph.records
    names = [name for name in records.jobs() if not _is_own(instance, name)]
    if (names or records.stages) and instance.inventory.kind != "graph":
        if instance.is_adaptive:
            instance._adapt(None)
        else:
            holding.record_jobs(instance)  # so that the graph does not give others what runs
    instance.foreign = frozenset(name for name in names if name in instance.foreign or not instance._ids.is_issued(name))
    ends = {end for name in names for end in records.ends(name)}
    ends.update(min(stage.expires, stage.end) for stage in records.stages.values())
    instance._foreign_ends = sorted((end for end in ends if now < end < FOREVER), reverse=True)
    inventory = instance.inventory
    if inventory.kind != "graph" and inventory.leave_alone(_held(records, names, now)):
        instance.queue.cleared()
    hold_again(instance)
    for other in list(instance.shared.disputing):
        if other is not instance and other.parent is not None:
            hold_again(other)
    inventory.forget()
    inventory.revision = graph.revision
    instance.supplies_back()
    if instance._foreign_ends:
        instance._announce(instance._foreign_ends[-1] - 1)


def hold_again(instance: Instance) -> None:
    """Let late jobs have what others held of it and hold no more (rule T1)."""
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


def _held(records: Records, names: list[str], now: int) -> dict[int, int]:
    """By vertex, units that others hold at some moment from now on."""
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
