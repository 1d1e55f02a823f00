"""Whether jobs are where their states say (rule J1): in the queue, among what is reserved, among what runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fluxres.clock import FOREVER, seconds
from fluxres.graph.structure import Problem
from fluxres.instance import states
from fluxres.instance.job import URGENCY_HELD
from fluxres.instance.states import State
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance


def check(instance: Instance) -> list[Problem]:
    """Problems of an instance, without its children.  Cost: O(jobs that are not over), and what its inventory counts.

    In the middle of a pass, and while what is due is done, only states and what runs are compared.
    """
    found = [*_states(instance), *_running(instance)]
    if not instance._time.still:
        found += [*_limits(instance), *_queue(instance), *_reservations(instance)]
        found += [_j1(instance, where, message) for where, message in instance.inventory.check()]
    return found


def _states(instance: Instance) -> list[Problem]:
    """Jobs that wait were given nothing, and jobs that run were."""
    found = []
    for number, job in instance._jobs.items():
        if job.state in states.PENDING and job.claim is not None:
            found.append(_of(instance, number, f"it is {job.state.name} and has resources"))
        elif job.claim is None and (job.state is State.RUN or (job.state is State.CLEANUP and job.started >= 0)):
            found.append(_of(instance, number, f"it is {job.state.name} and has no resources"))
    return found


def _running(instance: Instance) -> list[Problem]:
    """What runs in the inventory is what jobs that have not ended were given, by its end."""
    running = instance.inventory.running
    claims = {id(job.claim): job for job in instance._jobs.values() if job.claim is not None}
    listed = {id(hold) for hold in running.holds}
    found = [
        _of(instance, job.number, "its resources are not among those that run in the inventory")
        for known, job in claims.items()
        if job.claim.is_live and known not in listed
    ]
    found += [
        _of(instance, hold.key, "resources run in the inventory that no job of the instance was given")
        for hold in running.holds
        if id(hold) not in claims
    ]
    if running.ends != sorted(hold.end for hold in running.holds):
        wrong = [hold.key for hold, end in zip(running.holds, running.ends, strict=False) if hold.end != end]
        message = "the inventory has another end of its resources than they have, or another order of the ends"
        found.append(_of(instance, wrong[0], message) if wrong else _j1(instance, "inventory", message))
    return found


def _limits(instance: Instance) -> list[Problem]:
    """What a job was given ends at its limit; a tick later where it is kept for it through its limit (rule T1)."""
    found = []
    for number, job in instance._jobs.items():
        if job.claim is None or job.state not in states.RUNNING or not job.claim.is_live:
            continue
        if job.claim.end != job.limit + (number in instance._at_limit):
            limit, end = ("never" if at >= FOREVER else f"at {seconds(at):g} s" for at in (job.limit, job.claim.end))
            where = f"{instance.address} {job.id}"
            found.append(Problem("error", where, f"rule T1: its limit comes {limit}, and what it has ends {end}"))
    return found


def _queue(instance: Instance) -> list[Problem]:
    """In the queue is each job that waits for resources, once, and no other."""
    found, queue = [], instance.queue
    listed = Counter(job.number for job in queue)
    waiting = {number for number, job in instance._jobs.items() if job.state is State.SCHED and job.urgency != URGENCY_HELD}
    for number in sorted(listed.keys() | waiting):
        times = listed[number]
        if number not in waiting:
            found.append(_of(instance, number, "it is in the queue, and does not wait for resources"))
        elif times != 1:
            found.append(_of(instance, number, f"it waits for resources, and is in the queue {times} times"))
    if len(queue) != listed.total():
        found.append(_j1(instance, "queue", f"{len(queue)} jobs are counted, and {listed.total()} wait"))
    return found


def _reservations(instance: Instance) -> list[Problem]:
    """Reserved is what a job in the queue was promised, from the same moment on for all who know of it."""
    promised = {job.number: job for job in instance.queue.promises()}
    reserved = instance.inventory.promises()
    waiting = {number: job for number, job in instance._jobs.items() if job.reserved >= 0 and job.claim is None}
    found = []
    for number in sorted(promised.keys() | reserved.keys() | waiting.keys()):
        job = instance._jobs.get(number)
        if job is None or job.state is not State.SCHED:
            found.append(_of(instance, number, "it has a reservation, and does not wait for resources"))
        elif promised.get(number) is not job:
            found.append(_of(instance, number, "it has a reservation of which the queue does not know"))
        elif number not in reserved:
            found.append(_of(instance, number, "it has a reservation of which the inventory does not know"))
        elif job.reserved != reserved[number]:
            found.append(_of(instance, number, "the start that it was promised is not the one that is reserved"))
    return found


def _of(instance: Instance, number: int, message: str) -> Problem:
    return _j1(instance, fluid.encode(number), message)


def _j1(instance: Instance, where: str, message: str) -> Problem:
    return Problem("error", f"{instance.address} {where}", f"rule J1: {message}")
