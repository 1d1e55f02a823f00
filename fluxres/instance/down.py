"""Pools change their state under an instance: what its jobs and its children make of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fluxres.errors import UnknownPool, UsageError
from fluxres.graph.kinds import STATES, UNAVAILABLE_STATES
from fluxres.instance import recording, states
from fluxres.instance.states import State
from fluxres.model import joining, targets
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.instance.instance import Instance
    from fluxres.instance.job import Job
    from fluxres.model.targets import Targets


def set_state(instance: Instance, where: Targets, state: str) -> None:
    """Give pools a state; see Instance.set_state.  Time has been looked after.

    No pass is made before all instances know the state: one below could start a job on what is out of service above.
    """
    for one in instance.walk():
        one._advance_to(one._time.now)
    changed = list(_give(instance, targets.pools(instance._graph, where, "state and no tags"), state))
    for one, vertices in reversed(changed):
        if state == "down" and not one.is_closed:
            _fail(one, vertices)
        if one is not instance and one.passes == "event":
            one._time.owe(one)


def _give(instance: Instance, vertices: list[int], state: str) -> Iterator[tuple[Instance, list[int]]]:
    """Give the state to pools of an instance and of those below it: which of them have such pools, parents first."""
    graph = instance._graph
    with recording.ours(instance.inventory):
        graph.set_state(vertices, state)
    instance.inventory.refresh()
    instance.queue.cleared()
    note(instance)
    yield instance, vertices
    names = [graph.structure.where(v) for v in vertices]
    for child in instance.children:
        known = [child._graph.structure.vertex(name) for name in names if has(child, name)]
        if known:
            yield from _give(child, known, state)


def note(instance: Instance) -> None:
    """Remember the states that the children have been given."""
    if instance.children:
        structure = instance._graph.structure
        instance.states_given = structure, structure.state.copy()


def follow(instance: Instance) -> None:
    """Give the children the states, and the sizes of suppliers, that others have set in the graph of their parent.

    What runs there goes on.

    Cost: a comparison of the states; names of the pools that have changed, or, after a change of shape, of those not up.
    """
    if instance.states_given is None or not instance.children:
        return
    structure, before = instance._graph.structure, instance.states_given
    if structure is before[0] and np.array_equal(structure.state, before[1]):
        return
    note(instance)
    resized = set()
    if structure is not before[0]:
        resized = {child for child in instance.children if follow_sizes(child)}
    by_state: dict[int, list[str]] = {}
    for name, code in _changed(before, structure):
        by_state.setdefault(code, []).append(name)
    for child in instance.children:
        known = {code: [name for name in names if has(child, name)] for code, names in by_state.items()}
        with recording.ours(child.inventory):
            for code, names in known.items():
                if names:
                    child._graph.set_state(names, STATES[code])
        if any(known.values()) or child in resized:
            refit(child)
            follow(child)


def follow_sizes(child: Instance) -> bool:
    """Let what a child shares with its parent have as many units as there, and its edges a capacity where they have one there.

    Returns whether anything is another number than before.
    """
    upstream = child.upstream
    if upstream is None or upstream.is_closed:
        return False
    limited = upstream.relimited()
    if not limited and not upstream.resized():
        return False
    child.queue.unreserve()  # what is reserved after the end of the child may be more, since the parent does not hold it
    with recording.ours(child.inventory):
        if limited:
            joining.limit(child._graph, limited)
        if sizes := upstream.resized():
            upstream.resize(sizes)
    return True


def refit(instance: Instance) -> None:
    """What an instance has is another: it fits its jobs again, in a pass."""
    instance.inventory.refresh()
    instance.queue.cleared()
    if instance.passes == "event":
        instance._time.owe(instance)


def _changed(before: tuple[Structure, NDArray[np.uint8]], structure: Structure) -> Iterator[tuple[str, int]]:
    """Pools with another state than before, and the code of that."""
    if structure is before[0]:
        changed = np.flatnonzero(structure.state != before[1]).tolist()
        yield from ((structure.where(v), structure.state.item(v)) for v in changed)
        return
    old = {before[0].where(v): before[1].item(v) for v in np.flatnonzero(before[1]).tolist()}
    new = {structure.where(v): structure.state.item(v) for v in np.flatnonzero(structure.state).tolist()}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name, 0) != new.get(name, 0):
            yield name, new.get(name, 0)


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
            instance._raise(job, states.EXEC, states.FATAL, f"lost {structure.where(lost)}")


def _has_inside(instance: Instance, job: Job, u: int, v: int) -> bool:
    """Whether a job that holds units of `u` has `v` below it with them: not with a part, nor where it draws from others there."""
    structure = instance._graph.structure
    if (structure.where(u), structure.size.item(u)) not in instance.inventory.pools(job.claim):
        return False
    implied = instance._graph.records.implied.get(fluid.encode(job.number), {}) if u >= structure.tree_end else {}
    drawn = [w for w in implied if u < w < structure.end.item(u)]
    return not drawn or any(v <= w < structure.end.item(v) for w in drawn)
