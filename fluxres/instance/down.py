"""Pools change their state under an instance: what its jobs and its children make of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from fluxres.errors import UnknownPool, UsageError
from fluxres.graph.kinds import UNAVAILABLE_STATES
from fluxres.instance import states
from fluxres.instance.states import State
from fluxres.model import targets
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model.targets import Targets


def set_state(instance: Instance, where: Targets, state: str) -> None:
    """Give pools a state; see Instance.set_state.  Time has been looked after."""
    instance._go_on(instance._time.now)
    graph = instance._graph
    vertices = targets.pools(graph, where, "state and no tags")
    graph.set_state(vertices, state)
    instance.inventory.refresh()
    instance.queue.cleared()
    names = [graph.structure.where(v) for v in vertices]
    for child in instance.children:
        known = [name for name in names if has(child, name)]
        if known:
            set_state(child, known, state)
            child._after()
    if state == "down":
        _fail(instance, vertices)


def require_in_service_above(instance: Instance, where: Targets, state: str) -> None:
    """Refuse to put pools into service that are out of service in the parent (rule A7).

    Errors: UsageError.
    """
    if instance.parent is None or state in UNAVAILABLE_STATES:
        return
    mine, theirs = instance._graph.structure, instance.parent._graph.structure
    for v, _ in targets.resolve(instance._graph, where):
        with suppress(UnknownPool):  # what the parent does not have any more, it says nothing of
            above = theirs.state_name(theirs.vertex(mine.where(v)))
            if above in UNAVAILABLE_STATES:
                raise UsageError(
                    f"it is {above} in {instance.parent.address}",
                    where=mine.where(v),
                    hint="set it up there, and it is up here, too",
                )


def has(instance: Instance, where: str) -> bool:
    """Whether an instance has a pool."""
    try:
        instance._graph.structure.vertex(where)
    except UnknownPool:
        return False
    return True


def _fail(instance: Instance, vertices: list[int]) -> None:
    """Jobs that run on these pools, on what is below them, or on all of what is above have lost them."""
    structure, end = instance._graph.structure, instance._graph.structure.end
    for job in instance.jobs(State.RUN):
        if job.child is not None:
            continue
        near = ((u, v) for u in instance.inventory.vertices(job.claim) for v in vertices if u < end.item(v) and v < end.item(u))
        lost = next((v for u, v in near if u >= v or _has_inside(instance, job, u, v)), None)
        if lost is not None:
            instance._except(job, "exec", states.FATAL, f"lost {structure.where(lost)}")


def _has_inside(instance: Instance, job: Job, u: int, v: int) -> bool:
    """Whether a job that holds units of `u` has `v` below it with them: not with a part, nor where it draws from others there."""
    structure = instance._graph.structure
    if (structure.where(u), structure.size.item(u)) not in instance.inventory.pools(job.claim):
        return False
    implied = instance._graph.records.implied.get(fluid.encode(job.number), {}) if u >= structure.tree_end else {}
    drawn = [w for w in implied if u < w < structure.end.item(u)]
    return not drawn or any(v <= w < structure.end.item(v) for w in drawn)
