"""What is due in one instance, and doing it: limits of jobs, what others held and hold no more, moments that jobs wait for, the
end of the instance itself (rule T1).

A job whose limit has passed is asked to stop, and keeps what it has until its runner says that it ended.  What the records say
it holds is prolonged for as long as that takes, a little at a time.  At the very moment of its limit only `advance` asks it to
stop: any other call of that moment may be the one that reports its end, and until then what it has is not given to others.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop
from typing import TYPE_CHECKING, Final

from fluxres.clock import FOREVER, ticks
from fluxres.instance import foreign, holding, states
from fluxres.instance.states import State

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job

HELD_THROUGH: Final = 1
"""Ticks for which units of a job at its limit are kept for it: this moment, and no other."""

OVERTIME_S: Final = 10.0
"""How long units of a job that has not ended by its limit are taken to be held, over and over."""


def first(instance: Instance) -> int:
    """When something is due next in an instance, in ticks; FOREVER for never.

    What others give back at a moment is free at that moment, so that is due a tick before.
    """
    timers, ends = instance._timers, instance._foreign_ends
    return min(
        timers[0][0] if timers else FOREVER,
        _limit(instance),
        ends[-1] - 1 if ends else FOREVER,
        instance.expires,
    )


def wakes(instance: Instance) -> int:
    """When `advance` has to be called, so that what is due is done in time."""
    timers, ends = instance._timers, instance._foreign_ends
    found = min(instance.queue.next_due(), instance.expires)
    if timers:
        found = min(found, timers[0][0])
    if instance._overtime or instance._at_limit or not instance.keeps_limits:
        found = min(found, _limit(instance))
    if not len(instance.queue):
        return found
    if not instance.shared.has_suppliers:
        return min(found, ends[-1]) if ends else found
    return min(found, *(one._foreign_ends[-1] for one in instance.outermost.walk() if one._foreign_ends), FOREVER)


def do_first(instance: Instance, before: int) -> bool:
    """Do what comes first in an instance, if it is due before a moment; False where others give it back in the tick to come."""
    instance._announced, is_due = FOREVER, True
    try:
        moment = FOREVER if instance.is_closed else first(instance)
        if moment >= before:
            return True
        instance.now = instance._time.now
        timers, ends = instance._timers, instance._foreign_ends
        if moment == _limit(instance):
            _limits(instance, moment)
        elif ends and moment == ends[-1] - 1 and ends[-1] <= instance.now:
            foreign.look(instance)
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
            instance._announce(first(instance))


def hold_through(instance: Instance) -> None:
    """Let jobs whose limit is this very moment keep what they have, until their end is reported or they are asked to stop.

    Not those of which a runner promised that they end at it.  What is reserved stays where it is, or comes a tick later.
    """
    held = _ending(instance)
    if held:
        places = instance.queue.places()
        _hold(instance, held)
        instance.queue.restore(places, HELD_THROUGH)


def _ending(instance: Instance) -> list[Job]:
    """Jobs whose limit is this very moment, and that may be there after it."""
    found = (instance._jobs[number] for number in instance.inventory.running.until(instance.now))
    return [job for job in found if not _is_promised(job)]


def _hold(instance: Instance, held: list[Job]) -> None:
    for job in held:
        if holding.keep(instance, job, instance.now + HELD_THROUGH):
            holding.mark_disputed(instance, job)
        instance._at_limit.add(job.number)


def _is_promised(job: Job) -> bool:
    """Whether a job ends at its limit by itself: its runner keeps limits, and so do those of the jobs in its child.

    Not a job that is late, nor one in whose child such a job, or one of another runner, has not ended.
    """
    instance, child = job.instance, job.child
    if not instance.keeps_limits or job.number in instance._overtime or job.limit < instance._time.now:
        return False
    return child is None or all(_is_promised(each) for each in child._jobs.values() if each.claim is not None)


def hold_all_through(instances: Iterable[Instance]) -> None:
    """The same in a whole tree, in which what a job gives up may be free in another instance (rule N1).

    Of one moment children come before their parents.  When the end of an instance has come, nothing that it has reserved can
    begin: it would only be in the way of others on what they share.
    """
    going_on = [one for one in instances if not one.is_closed]
    places = [one.queue.places() for one in going_on]
    for one in going_on:
        one.now = one._time.now
        _hold(one, _ending(one))
        if one.expires <= one.now and one.queue.reserved:
            one.queue.unreserve()
            one.supplies_back()
    for one, known in zip(going_on, places, strict=True):
        if one.expires > one.now:
            one.queue.restore(known, HELD_THROUGH)


def announce_late(instances: Iterable[Instance]) -> None:
    """See whether runners that keep limits have kept them: nobody may have called these instances since."""
    for one in instances:
        if one.is_closed or not one.keeps_limits:
            continue
        if one._lapsed_at < one._time.now:
            require_ended(one)
        one._announce(_limit(one))


def is_behind(instance: Instance) -> bool:
    """Whether something was due before now, limits among it that a runner promised to keep and nobody has looked after."""
    announce_late((instance,))
    return first(instance) < instance._time.now


def require_ended(instance: Instance) -> None:
    """See whether a runner that keeps limits has kept them: a job that has not ended at its limit is as late as any other."""
    late = [job for number in instance._lapsed if (job := instance._jobs.get(number)) and job.limit == instance._lapsed_at]
    instance._overtime.update(job.number for job in late)
    instance._lapsed, instance._lapsed_at = [], FOREVER
    if late:
        instance._announce(first(instance))


def _begin_time(instance: Instance) -> None:
    """A moment has come that a job waits for."""
    job = instance._jobs.get(heappop(instance._timers)[1])
    if job is not None and job.state is State.DEPEND and instance.dependencies.due(job, instance.now):
        instance._depend(job)


def _limit(instance: Instance) -> int:
    """When the limit of a job has to be looked after.

    A runner that keeps limits is left alone until one has passed; from then on its job is as any other.
    """
    if instance._at_limit:
        return min(instance._jobs[number].limit for number in instance._at_limit)
    ends = instance.inventory.running.ends
    if ends and (not instance.keeps_limits or ends[0] < instance._time.now):
        return ends[0]
    return min((instance._jobs[number].limit for number in instance._overtime), default=FOREVER)


def _limits(instance: Instance, moment: int) -> None:
    """Ask the jobs whose limit is a moment to stop, and keep what they have for those that have not ended by that."""
    for number in sorted({*instance._at_limit, *instance._overtime, *instance.inventory.running.until(moment)}):
        job = instance._jobs.get(number)
        if job is None or job.limit > moment:
            continue
        if job.state is State.RUN and job.limit >= instance.now and number not in instance._at_limit and _is_promised(job):
            continue
        try:
            if job.state is State.RUN:
                instance._raise(job, "timelimit", states.FATAL, "the limit has come")
        finally:
            if job.state is State.CLEANUP:
                _prolong(instance, job)


def _prolong(instance: Instance, job: Job) -> None:
    """Let a job that has not ended hold on to what it has (rule T1).

    What others hold by now, or will before it is looked at again, they keep: their records are older than the delay.  The job
    gets an exception that does not end it, and `check` reports the pools as long as that lasts.
    """
    now, ends = instance.now, instance._foreign_ends
    end = min(now + ticks(OVERTIME_S), next((end for end in reversed(ends) if end > now), FOREVER))
    instance._overtime.add(job.number)
    taken = holding.keep(instance, job, end)
    instance._at_limit.discard(job.number)
    job.limit = end
    holding.dispute(instance, job, taken)
