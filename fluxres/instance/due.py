"""The due events of one instance (rule T1): limits of jobs, the end of what others hold, begin times, the expiry of the instance.

A job whose limit has passed is asked to stop, and keeps its resources until its runner reports that it has ended.  Until then its
records are extended by a short time, again and again.  At the exact moment of the limit only `advance` asks the job to stop: any
other call may be the one that reports its end, and until then its resources are kept for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop
from typing import TYPE_CHECKING, Final

from fluxres.clock import FOREVER, ticks
from fluxres.instance import external, holding, states
from fluxres.instance.states import State

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job

KEPT_TICKS: Final = 1
"""Ticks for which a job at its limit keeps its resources: that moment only."""

OVERTIME_S: Final = 10.0
"""The time by which the claim of a late job is extended, repeatedly."""


def next_event(instance: Instance) -> int:
    """When the next event of an instance is due, in ticks; FOREVER for never.

    What others free at a moment can be used at that moment, so that event is due a tick earlier.
    """
    timers, ends = instance._timers, instance._external_ends
    return min(
        timers[0][0] if timers else FOREVER,
        _next_limit(instance),
        ends[-1] - 1 if ends else FOREVER,
        instance.expires,
    )


def next_wakeup(instance: Instance) -> int:
    """When `advance` has to be called next so that events are handled in time."""
    timers, ends = instance._timers, instance._external_ends
    found = min(instance.queue.next_due(), instance.expires)
    if timers:
        found = min(found, timers[0][0])
    if instance._overtime or instance._at_limit or not instance.keeps_limits:
        found = min(found, _next_limit(instance))
    if not len(instance.queue):
        return found
    if not instance.shared.has_suppliers:
        return min(found, ends[-1]) if ends else found
    return min(found, *(one._external_ends[-1] for one in instance.outermost.walk() if one._external_ends), FOREVER)


def do_next(instance: Instance, before: int) -> bool:
    """Handle the next event of an instance if it is due before a moment; False if others free something in the next tick."""
    instance._announced, is_due = FOREVER, True
    try:
        moment = FOREVER if instance.is_closed else next_event(instance)
        if moment >= before:
            return True
        instance.now = instance._time.now
        timers, ends = instance._timers, instance._external_ends
        if moment == _next_limit(instance):
            _enforce_limits(instance, moment)
        elif ends and moment == ends[-1] - 1 and ends[-1] <= instance.now:
            external.refresh(instance)
        elif timers and moment == timers[0][0]:
            _begin_time(instance)
        elif moment == instance.expires:
            instance.expire()
        else:
            is_due = False
            return False
        instance._follow_up()
        return True
    finally:
        if is_due and not instance.is_closed:
            instance._announce(next_event(instance))


def keep_at_limit(instance: Instance) -> None:
    """Let jobs that are exactly at their limit keep their resources until their end is reported or they are asked to stop.

    Jobs whose runner promises that they end at their limit are left out.  Reservations keep their pools, or begin a tick later.
    """
    held = _jobs_at_limit(instance)
    if held:
        places = instance.queue.places()
        _keep(instance, held)
        instance.queue.restore(places, KEPT_TICKS)


def _jobs_at_limit(instance: Instance) -> list[Job]:
    """Jobs that are exactly at their limit and may run on after it."""
    found = (instance._jobs[number] for number in instance.inventory.running.ending_by(instance.now))
    return [job for job in found if not _ends_by_itself(instance, job)]


def _keep(instance: Instance, held: list[Job]) -> None:
    for job in held:
        if holding.keep(instance, job, instance.now + KEPT_TICKS):
            holding.mark_disputed(instance, job)
        instance._at_limit.add(job.number)


def _ends_by_itself(instance: Instance, job: Job) -> bool:
    """Whether a job ends at its limit by itself: its runner keeps limits, and so do the runners of all jobs in its child.

    False for a late job, and if an active job in its child is late or has a runner that does not keep limits.
    """
    if not instance.keeps_limits or job.number in instance._overtime or job.limit < instance._time.now:
        return False
    child = instance._children.get(job.number)
    return child is None or all(_ends_by_itself(child, each) for each in child._jobs.values() if each.claim is not None)


def keep_all_at_limit(instances: Iterable[Instance]) -> None:
    """The same for a tree of instances in which what one job frees may become free in another instance (rule N1).

    Args:
        instances: children before their parents.

    If an instance expires now, its reservations are dropped: they cannot begin any more, and would only block others on what
    they share.
    """
    still_open = [one for one in instances if not one.is_closed]
    places = [one.queue.places() for one in still_open]
    for one in still_open:
        one.now = one._time.now
        _keep(one, _jobs_at_limit(one))
        if one.expires <= one.now and one.queue.reserved:
            one.queue.unreserve()
            one.supplies_returned()
    for one, known in zip(still_open, places, strict=True):
        if one.expires > one.now:
            one.queue.restore(known, KEPT_TICKS)


def announce_late(instances: Iterable[Instance]) -> None:
    """Find the late jobs of runners that keep limits, since these instances may not have been called at the limits."""
    for one in instances:
        if one.is_closed or not one.keeps_limits:
            continue
        if one._lapsed_at < one._time.now:
            find_late(one)
        one._announce(_next_limit(one))


def is_behind(instance: Instance) -> bool:
    """Whether an event was due before now, including limits that a runner promised to keep and did not."""
    announce_late((instance,))
    return next_event(instance) < instance._time.now


def find_late(instance: Instance) -> None:
    """Mark the jobs that have not ended at their limit, although their runner keeps limits, as late."""
    late = [job for number in instance._lapsed if (job := instance._jobs.get(number)) and job.limit == instance._lapsed_at]
    instance._overtime.update(job.number for job in late)
    instance._lapsed, instance._lapsed_at = [], FOREVER
    if late:
        instance._announce(next_event(instance))


def _begin_time(instance: Instance) -> None:
    """Handle the begin time of a job."""
    job = instance._jobs.get(heappop(instance._timers)[1])
    if job is not None and job.state is State.DEPEND and instance.dependencies.due(job, instance.now):
        instance._depend(job)


def _next_limit(instance: Instance) -> int:
    """When the next limit of a job has to be handled.

    The limits of a runner that keeps limits are handled only after they have passed; its job is then late like any other.
    """
    if instance._at_limit:
        return min(instance._jobs[number].limit for number in instance._at_limit)
    ends = instance.inventory.running.ends
    if ends and (not instance.keeps_limits or ends[0] < instance._time.now):
        return ends[0]
    return min((instance._jobs[number].limit for number in instance._overtime), default=FOREVER)


def _enforce_limits(instance: Instance, moment: int) -> None:
    """Ask the jobs with their limit at a moment to stop; those that do not end immediately keep their resources."""
    for number in sorted({*instance._at_limit, *instance._overtime, *instance.inventory.running.ending_by(moment)}):
        job = instance._jobs.get(number)
        if job is None or job.limit > moment:
            continue
        if (
            job.state is State.RUN
            and job.limit >= instance.now
            and number not in instance._at_limit
            and _ends_by_itself(instance, job)
        ):
            continue
        try:
            if job.state is State.RUN:
                instance._raise(job, "timelimit", states.FATAL, "the job has reached its limit")
        finally:
            if job.state is State.CLEANUP:
                _extend_overtime(instance, job)


def _extend_overtime(instance: Instance, job: Job) -> None:
    """Extend the claim of a job that has not ended by its limit (rule T1).

    What others hold now, or will hold during the extension, they keep, since their records are older.  In that case the job gets
    an exception that does not end it, and `check` reports the pools as long as this lasts.
    """
    now, ends = instance.now, instance._external_ends
    end = min(now + ticks(OVERTIME_S), next((end for end in reversed(ends) if end > now), FOREVER))
    instance._overtime.add(job.number)
    taken = holding.keep(instance, job, end)
    instance._at_limit.discard(job.number)
    job.limit = end
    holding.dispute(instance, job, taken)
