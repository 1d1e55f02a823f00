"""What running jobs hold: recording it in the graph, keeping it after the limit (rule T1), and changing the limit.

Inventories other than the graph do not record what their jobs hold.  It is recorded when the graph is used, when a job gets a
child, and while others hold something in the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, cast

from fluxres.clock import seconds
from fluxres.errors import FluxresError, InsufficientResources
from fluxres.instance import recording, states
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.inventory import Counting
    from fluxres.instance.job import Job


def record_job(instance: Instance, job: Job) -> None:
    """Record in the graph what a job holds, unless the inventory does so itself."""
    if instance.inventory.kind != "graph" and job.number not in instance._recorded:
        instance._recorded.add(job.number)
        taken = _record_more(instance, job, job.started, held_until(instance, job))
        if taken:  # otherwise it may lack what other jobs of this instance hold
            dispute(instance, job, taken)


def record_jobs(instance: Instance) -> None:
    """Record in the graph what all jobs hold, late jobs last that may lack something."""
    jobs = [job for job in instance._jobs.values() if job.claim is not None]
    for job in sorted(jobs, key=lambda job: job.number in instance._disputed):
        record_job(instance, job)


def _record_more(instance: Instance, job: Job, start: int, end: int) -> list[str]:
    """Record what a job holds over a further window.

    Returns: the paths of pools that others hold in the graph.
    """
    pools = cast("Counting", instance.inventory).held(job.claim)
    name, is_disputed = fluid.encode(job.number), job.number in instance._disputed
    with recording.own_changes(instance.inventory):
        return recording.record_available(
            instance._graph, name, pools, start, instance.now, end, replace=is_disputed, is_routed=False
        )


def unrecord(instance: Instance, job: Job, start: int | None = None) -> None:
    """Remove what a job holds from the records of the graph.

    Args:
        start: only from this tick on; None for everything.
    """
    if job.number not in instance._recorded:
        return
    name = fluid.encode(job.number)
    with recording.own_changes(instance.inventory):
        if instance._graph.records.is_holder(name):
            instance._graph.free(name, start=None if start is None else seconds(start))
    if start is None:
        instance._recorded.discard(job.number)


def keep(instance: Instance, job: Job, end: int) -> list[str]:
    """Extend what an active job holds until `end`.

    Returns: the paths of pools that others hold.
    """
    with in_service(instance):
        taken = _keep(instance, job, end)
        if taken and instance.shared.drop_reservations():  # the late job comes before reservations
            mark_disputed(instance, job)  # it has a part now, so all of it is tried again
            taken = _keep(instance, job, end)
            if not taken:
                instance._disputed.discard(job.number)
    return taken


def _keep(instance: Instance, job: Job, end: int) -> list[str]:
    if (own := instance.upstream) is not None:
        own.refresh()  # the job lacks what others hold of shared suppliers
    upstream = instance.suppliers.get(job.number)
    if upstream is None:
        return _extend(instance, job, end)
    upstream.return_all()
    taken = _extend(instance, job, end)
    return [*taken, *upstream.draw_available(end, instance.now)]


def _extend(instance: Instance, job: Job, end: int) -> list[str]:
    taken = instance.inventory.extend(job.number, job.claim, instance.now, end)
    if job.number in instance._recorded:
        taken = sorted({*taken, *_record_more(instance, job, held_until(instance, job), end)})
    instance.queue.reservations_dropped()
    return taken


def held_until(instance: Instance, job: Job) -> int:
    """The tick until which a job holds its resources: its limit, or one tick later if they are kept at the limit."""
    return job.limit + (job.number in instance._at_limit)


def mark_disputed(instance: Instance, job: Job) -> None:
    """Note that others may hold some of the resources of a job."""
    instance._disputed.add(job.number)
    instance.shared.disputing[instance] = None


def dispute(instance: Instance, job: Job, taken: list[str]) -> None:
    """Note whether others hold some of the resources of a job; the first time, the job gets an exception.

    Args:
        taken: the paths of pools that others hold; empty if the job has everything.
    """
    if not taken:
        instance._disputed.discard(job.number)
        return
    mark_disputed(instance, job)
    if not any(failure.type == "overlap" for failure in job.exceptions):
        more = f" and {len(taken) - 1} more" * (len(taken) > 1)
        instance._raise(job, "overlap", states.WARNING, f"it has not ended, and others hold {taken[0]}{more}")


def move_limit(instance: Instance, job: Job, end: int) -> None:
    """Change the limit of a running job, and until when its child draws; reservations are kept if they still fit.

    Errors: InsufficientResources if others hold some of its resources before the new limit; nothing changes then.
    """
    places = instance.queue.places()
    try:
        with in_service(instance):
            _move(instance, job, end)
    finally:
        instance.queue.restore(places)


def _move(instance: Instance, job: Job, end: int) -> None:
    upstream, before = instance.suppliers.get(job.number), job.limit
    if upstream is None:
        _resize(instance, job, end)
        return
    upstream.return_all(instance.now)
    try:
        _resize(instance, job, end)
        upstream.draw_again(end, instance.now)
    except FluxresError:
        if job.limit != before:
            _resize(instance, job, before)
        upstream.draw_again(before, instance.now)
        raise


def _resize(instance: Instance, job: Job, end: int) -> None:
    instance.queue.unreserve()
    instance.queue.changed = True
    if instance.external_jobs:
        record_job(instance, job)
    start = held_until(instance, job)
    if end > job.limit and job.number in instance._recorded:
        record_jobs(instance)  # so that a refusal names all jobs that hold something
        with recording.own_changes(instance.inventory):
            name, pools = fluid.encode(job.number), instance.inventory.pools(job.claim)
            recording.record(instance._graph, name, pools, start, end, is_routed=False)
    try:
        instance.inventory.resize(job.number, job.claim, instance.now, end)
    except InsufficientResources:
        unrecord(instance, job, start)
        raise
    instance._at_limit.discard(job.number)
    if end < job.limit:
        unrecord(instance, job, end)
        instance.supplies_returned()
    job.limit = end
    if not instance.keeps_limits:
        instance._announce(end)


@contextmanager
def in_service(instance: Instance) -> Iterator[None]:
    """Treat all pools, here and above, as in service: a job that continues is not new work (rule A7)."""
    with ExitStack() as stack:
        for one in (instance, *instance._instances_above()):
            stack.enter_context(one._graph.structure.lifted())
        yield
