"""Pools change their state under an instance: what its jobs and its children make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fluxres.errors import UnknownPool
from fluxres.instance import states
from fluxres.instance.states import State
from fluxres.model import targets

if TYPE_CHECKING:
    from fluxres.instance.instance import Instance
    from fluxres.model.targets import Targets


def set_state(instance: Instance, where: Targets, state: str) -> None:
    """Give pools a state; see Instance.set_state.  Time has been looked after."""
    instance._go_on(instance._time.now)
    graph = instance._graph
    vertices = [v for v, _ in targets.resolve(graph, where)]
    graph.set_state(vertices, state)
    instance.inventory.refresh()
    instance.queue.cleared()
    names = [graph.structure.where(v) for v in vertices]
    for child in instance.children:
        known = [name for name in names if _has(child, name)]
        if known:
            set_state(child, known, state)
            child._after()
    if state == "down":
        _fail(instance, vertices)


def _has(instance: Instance, where: str) -> bool:
    try:
        instance._graph.structure.vertex(where)
    except UnknownPool:
        return False
    return True


def _fail(instance: Instance, vertices: list[int]) -> None:
    """Jobs that run on, above or below these pools have lost them."""
    structure, end = instance._graph.structure, instance._graph.structure.end
    for job in instance.jobs(State.RUN):
        if job.child is not None:
            continue
        held = instance.inventory.vertices(job.claim)
        lost = next((v for u in held for v in vertices if u < end.item(v) and v < end.item(u)), None)
        if lost is not None:
            instance._except(job, "exec", states.FATAL, f"lost {structure.where(lost)}")
