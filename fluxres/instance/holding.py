"""What a running job holds: in the graph, beyond its limit, and until another limit that it is given (rule T1).

Inventories other than the graph write nothing there.  What their jobs hold is recorded when the graph is asked for, when a
job gets a child, and where others schedule the same graph.
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
    """Record in the graph what a job holds, where the inventory does not write there itself."""
    if instance.inventory.kind != "graph" and job.number not in instance._recorded:
        instance._recorded.add(job.number)
        taken = _record_more(instance, job, job.started, held_until(instance, job))
        if taken:  # else it may lack what others of this instance hold
            dispute(instance, job, taken)


def record_jobs(instance: Instance) -> None:
    """Record in the graph what all jobs hold, those last of which others may hold something."""
    jobs = [job for job in instance._jobs.values() if job.claim is not None]
    for job in sorted(jobs, key=lambda job: job.number in instance._disputed):
        record_job(instance, job)


def _record_more(instance: Instance, job: Job, start: int, end: int) -> list[str]:
    """Record what a job holds for another window.

    Returns: paths of what others hold in the graph.
    """
    pools = cast("Counting", instance.inventory).held(job.claim)
    name, anew = fluid.encode(job.number), job.number in instance._disputed
    with recording.ours(instance.inventory):
        return recording.hold(instance._graph, name, pools, start, instance.now, end, anew=anew, is_routed=False)


def unrecord(instance: Instance, job: Job, start: int | None = None) -> None:
    """Take what a job holds out of the records of the graph.

    Args:
        start: from this tick on; None for all of it.
    """
    if job.number not in instance._recorded:
        return
    name = fluid.encode(job.number)
    with recording.ours(instance.inventory):
        if instance._graph.records.is_holder(name):
            instance._graph.free(name, start=None if start is None else seconds(start))
    if start is None:
        instance._recorded.discard(job.number)


def keep(instance: Instance, job: Job, end: int) -> list[str]:
    """Let a job that has not ended keep what it has until `end`.

    Returns: paths of what others hold of it.
    """
    with in_service(instance):
        taken = _keep(instance, job, end)
        if taken and instance.shared.drop_reservations():  # what was promised to others is the late job's
            mark_disputed(instance, job)  # it has a part now, and is to have all
            taken = _keep(instance, job, end)
            if not taken:
                instance._disputed.discard(job.number)
    return taken


def _keep(instance: Instance, job: Job, end: int) -> list[str]:
    if (own := instance.upstream) is not None:
        own.refresh()  # what others hold above, the job has not
    upstream = None if job.child is None else job.child.upstream
    if upstream is None:
        return _extend(instance, job, end)
    upstream.give_all()
    taken = _extend(instance, job, end)
    return [*taken, *upstream.take_left(end, instance.now)]


def _extend(instance: Instance, job: Job, end: int) -> list[str]:
    taken = instance.inventory.extend(job.number, job.claim, instance.now, end)
    if job.number in instance._recorded:
        taken = sorted({*taken, *_record_more(instance, job, held_until(instance, job), end)})
    instance.queue.cleared()
    return taken


def held_until(instance: Instance, job: Job) -> int:
    """The tick up to which a job holds what it has: its limit, or the moment after where it is kept through it."""
    return job.limit + (job.number in instance._at_limit)


def mark_disputed(instance: Instance, job: Job) -> None:
    """Note that others may hold something of what a job has."""
    instance._disputed.add(job.number)
    instance.shared.disputing[instance] = None


def dispute(instance: Instance, job: Job, taken: list[str]) -> None:
    """Note what others hold of what a job has; the first time the job gets an exception.

    Args:
        taken: paths of it; empty where the job has everything.
    """
    if not taken:
        instance._disputed.discard(job.number)
        return
    mark_disputed(instance, job)
    if not any(failure.type == "overlap" for failure in job.exceptions):
        more = f" and {len(taken) - 1} more" * (len(taken) > 1)
        instance._raise(job, "overlap", states.WARNING, f"it has not ended, and others hold {taken[0]}{more}")


def move_limit(instance: Instance, job: Job, end: int) -> None:
    """Give a running job, and what its child draws, another limit; reservations stay where that leaves room for them.

    Errors: InsufficientResources where others hold then what the job has; nothing changes.
    """
    places = instance.queue.places()
    try:
        with in_service(instance):
            _move(instance, job, end)
    finally:
        instance.queue.restore(places)


def _move(instance: Instance, job: Job, end: int) -> None:
    upstream, before = None if job.child is None else job.child.upstream, job.limit
    if upstream is None:
        _resize(instance, job, end)
        return
    upstream.give_all(instance.now)
    try:
        _resize(instance, job, end)
        upstream.take_all(end, instance.now)
    except FluxresError:
        if job.limit != before:
            _resize(instance, job, before)
        upstream.take_all(before, instance.now)
        raise


def _resize(instance: Instance, job: Job, end: int) -> None:
    instance.queue.unreserve()
    instance.queue.changed = True
    if instance.foreign:
        record_job(instance, job)
    start = held_until(instance, job)
    if end > job.limit and job.number in instance._recorded:
        record_jobs(instance)  # with what began since, a refusal names everything that holds something
        with recording.ours(instance.inventory):
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
        instance.supplies_back()
    job.limit = end
    if not instance.keeps_limits:
        instance._announce(end)


@contextmanager
def in_service(instance: Instance) -> Iterator[None]:
    """As if every pool were in service, here and above: a job that goes on is no new work (rule A7)."""
    with ExitStack() as stack:
        one: Instance | None = instance
        while one is not None:
            stack.enter_context(one._graph.structure.lifted())
            one = one.parent
        yield
